/* compose.h - a request as it goes over the wire. Private to client/. */
#ifndef CLIENT_COMPOSE_H
#define CLIENT_COMPOSE_H

#include <sys/types.h>

#include "client/http/client_request.h"

/* owner: the thread that has the request */
struct mr_composed {
        char url[512 + 3 * (S3_KEY_MAX + 64) + 8192];
        const char *path, *query; /* within url; query may be NULL */
        struct curl_slist *lines; /* headers, signature included */
};

/* mr_compose() would take its time: to hash a body, or to get credentials. */
bool mr_compose_waits(struct mr_client *client, const struct mr_request *request);
/*
 * Reads the body once to sign and sum it (request->sum), and makes URL and headers. 0, or a
 * negative errno: of reading the body, -ENAMETOOLONG, -ENOMEM, -EINVAL, -EACCES (then
 * request->error says why). To be freed in every case.
 */
int mr_compose(struct mr_client *client, struct mr_request *request, struct mr_composed *out);
void mr_composed_free(struct mr_composed *composed);

/*
 * Bytes of the body from `at` on: 1..len of them, or a negative errno. -ESTALE: the file ends
 * early, so it has changed under us.
 */
ssize_t mr_body_read(const struct mr_request *request, uint64_t at, void *out, size_t len);

#endif
