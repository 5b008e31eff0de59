/* creds.h - the credentials that requests are signed with, kept fresh. Private to client/. */
#ifndef CLIENT_CREDS_H
#define CLIENT_CREDS_H

#include <stdatomic.h>

#include "client.h"
#include "s3.h"

/* Where credentials come from. owner: struct mr_creds, constant */
struct mr_creds_config {
        enum mr_credentials_source source;
        struct mr_credentials given; /* EXPLICIT */
        mr_credentials_fn fn;        /* CALLBACK */
        void *fn_arg;
        char profile[256];
        char region[64]; /* of the token service */
        char ca_file[1024];
        unsigned timeout_s; /* of one request, or of the process */
};

struct mr_creds;

int mr_creds_new(const struct mr_creds_config *config, struct mr_creds **out);
void mr_creds_free(struct mr_creds *creds); /* NULL is allowed */

/* Requests are to go unsigned. */
bool mr_creds_none(const struct mr_creds *creds);
/* mr_creds_take() would wait for the source: to be called where that is no harm. */
bool mr_creds_waits(struct mr_creds *creds);

/* One set of credentials. Constant; lives until the last of its holders puts it back. */
struct mr_key {
        atomic_uint holders;
        uint64_t generation;
        struct mr_credentials credentials;
};

/*
 * Credentials that are good for now, and the key that they sign with in region at now_ms. Refreshed
 * before they expire, by one thread at a time; a source that fails meanwhile is no failure before
 * they have expired. -EACCES: there are none. Fills err.
 */
int mr_creds_take(struct mr_creds *creds, const char *region, int64_t now_ms, struct mr_key **out,
                  struct s3_signing_key *signing, struct mr_error *err);
void mr_key_put(struct mr_key *key);
/* Of the credentials in use; it changes when they are refreshed. */
uint64_t mr_creds_generation(struct mr_creds *creds);
/* The endpoint calls those of this generation expired. True: there will be others. */
bool mr_creds_refused(struct mr_creds *creds, uint64_t generation);

/* ---- sources --------------------------------------------------------------------------------- */

/* Asks the source; out is zeroed before. Waits. renewable: asking again may give others. */
int mr_creds_fetch(const struct mr_creds_config *config, struct mr_credentials *out, bool *renewable,
                   struct mr_error *err);

/* creds_remote.c: each as mr_creds_fetch(). */
int mr_creds_web_identity(const struct mr_creds_config *config, const char *token_file, const char *role,
                          const char *session, struct mr_credentials *out, struct mr_error *err);
int mr_creds_container(const struct mr_creds_config *config, struct mr_credentials *out, struct mr_error *err);
int mr_creds_process(const struct mr_creds_config *config, const char *command, struct mr_credentials *out,
                     struct mr_error *err);

#endif
