/*
 * signer.h - who signs a request: with a permanent key, or with a temporary one and its token; and tokens that are
 * held for RDMA sessions. owner of everything: the loop of whoever asks.
 */
#ifndef GATEWAY_STS_SIGNER_H
#define GATEWAY_STS_SIGNER_H

#include "gateway/http/users.h"
#include "gateway/sts/temporary.h"

/* Before the loops run. -ENOMEM. */
int gw_sts_start(struct gw_gateway *gw);
/* After the loops have stopped. */
void gw_sts_free(struct gw_gateway *gw);
void gw_sts_loop_end(struct gw_loop *loop);

/* Who signed, by a parsed signature. */
struct gw_signer {
        const struct gw_credential *credential; /* NULL: nobody has this access key */
        struct gw_temporary *temporary;         /* whose credentials these are, counted; NULL: a permanent key */
        bool by_session;                        /* the key is an RDMA session's, which is nobody's to ask for */
        enum s3_auth_reason reason;             /* what is wrong with the token; S3_AUTH_OK: nothing */
        struct gw_credential room;              /* the caller clears it */
};
/* auth->takes_token must be set before the signature is verified. */
void gw_signer_take(struct gw_loop *loop, const struct s3_auth *auth, struct gw_signer *out);
/* The same of a form, whose fields are no headers. token absent: none came along. */
void gw_signer_take_of(struct gw_loop *loop, const char *access_key, struct s3_str token, struct gw_signer *out);
/* Clears and gives back what take() found. */
void gw_signer_drop(struct gw_signer *signer);
/* The request is authentic: it has the temporary credentials from here on. */
void gw_signer_accept(struct gw_request *req, struct gw_signer *signer);

/* The credentials have not expired, and who they are of is there. Asked for each decision. */
bool gw_temporary_alive(struct gw_loop *loop, const struct gw_temporary *temporary);
/* The mark of a session's root key. */
uint64_t gw_root_mark(const struct gw_credential *root);

/*
 * An RDMA session that ends at `until_ms` was opened with these: they are found by their access key until then.
 * -ENOSPC: too many are held; -ENOMEM.
 */
int gw_temporary_hold(struct gw_gateway *gw, struct gw_temporary *temporary, int64_t until_ms);
/* Counted; NULL: none is held. */
struct gw_temporary *gw_temporary_held(struct gw_gateway *gw, const char *access_key);
/*
 * Whose request it is: that of the request, or, of a batch, that of the session's access key. Counted; NULL: a
 * permanent key's.
 */
struct gw_temporary *gw_temporary_of(struct gw_loop *loop, const struct gw_request *req, const char *access_key);

#endif
