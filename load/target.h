/*
 * target.h - first lines of signed requests; signing one takes a few microseconds with the day's key
 * at hand. Private to this folder.
 */
#ifndef LOAD_TARGET_H
#define LOAD_TARGET_H

#include "load.h"
#include "s3.h"

#define LOAD_TARGET_MAX 8192 /* a session token alone may take a quarter of it */

/* Owner: the run. */
struct load_signer {
        const struct load_settings *settings;
        struct s3_signer signer;
        int64_t time_ms;
};

void load_signer_init(struct load_signer *signer, const struct load_settings *settings, int64_t now_ms);
/*
 * One request to a server of the settings from its target on, up to its Host, NUL-terminated:
 * "TARGET HTTP/1.1" of a presigned URL, or, where the settings have sign_headers, lines of headers
 * behind it. The server's Host is signed: no other server takes the request. key UINT64_MAX: the
 * bucket alone. query may be "". Its length or a negative errno.
 */
int load_sign(const struct load_signer *signer, unsigned server, const char *method, uint64_t key, const char *query,
              char out[LOAD_TARGET_MAX]);
/*
 * The query of a list that begins behind one of the keys: number `which` of `of`, spread evenly
 * over what can fill a page.
 */
void load_list_query(const struct load_settings *settings, uint64_t which, uint64_t of, char *out, size_t size);

#endif
