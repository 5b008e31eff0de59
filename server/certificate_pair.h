/*
 * certificate_pair.h - the certificate pair of the S3 listener.
 */
#ifndef MILLRACE_SERVER_CERTIFICATE_PAIR_H
#define MILLRACE_SERVER_CERTIFICATE_PAIR_H

#include "gateway.h"
#include "server/settings.h"

/* Texts of the two files. Their memory is given back with srv_tls_forget(), also after an error. */
struct srv_pem {
        char *cert, *key;
};
int srv_tls_read(const struct srv_settings *settings, struct srv_pem *out, struct srv_error *error);
void srv_tls_forget(struct srv_pem *pem);

/*
 * Reads tls_cert and tls_key and gives them to the gateway. Main thread, any time. 0, or a negative
 * errno with a line in *error: then the gateway keeps what it had.
 */
int srv_tls_load(const struct srv_settings *settings, struct gw_gateway *gateway, struct srv_error *error);

#endif
