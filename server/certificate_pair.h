/*
 * certificate_pair.h - the certificate pair of the S3 listener.
 */
#ifndef MILLRACE_SERVER_CERTIFICATE_PAIR_H
#define MILLRACE_SERVER_CERTIFICATE_PAIR_H

#include "gateway.h"
#include "server/settings.h"

/*
 * Reads tls_cert and tls_key and gives them to the gateway. Main thread, any time. 0, or a negative
 * errno with a line in *error: then the gateway keeps what it had.
 */
int srv_tls_load(const struct srv_settings *settings, struct gw_gateway *gateway, struct srv_error *error);

#endif
