/*
 * permit.h - the one gate of authorization. docs/design/rights.md has the rules.
 */
#ifndef GATEWAY_HTTP_PERMIT_H
#define GATEWAY_HTTP_PERMIT_H

#include "gateway/http/http_request.h"

#define GW_WHY_MAX 2560u /* a refusal's text, with its NUL: names of full length fit */

/* A question to the gate: may they do that? Strings belong to whoever asks. */
struct gw_ask {
        struct gw_loop *loop;
        const char *access_key;       /* of whoever signed; NULL: nobody has */
        const struct gw_request *req; /* conditions are about it; NULL: a batch on an RDMA session */
        const char *permission;       /* as IAM names it */
        struct s3_str bucket, key;    /* absent: of none */
        struct s3_str resource;       /* its ARN, of what is in no bucket: a user, for example; absent: the bucket's or key's */
        struct s3_str version_id;     /* absent: the newest version */
        const struct s3_tags *existing; /* of the object that was found; NULL: not known (P11) */
        bool tags_open;                 /* decided again once they are known (P20) */
        /*
         * Of an object whose owner and ACL count: not known yet, so that whoever its ACL may let in is let in,
         * and asked for once more with it; or known: its bytes as s3_acl.h has them, of length 0 if it has none.
         */
        bool object_later, object_known;
        struct s3_str object_acl;
        bool later;   /* of some key or bucket, each of which is asked for when its turn comes */
        bool implied; /* not what the request is for, as reading a copy's source: its query says nothing about it */
};

/*
 * Whatever comes to the engine for a client asks first: requests (head.c), what they copy from (copy.c), each
 * key of DeleteObjects (op_delete.c), each entry of a batch (entry.c). why: has room for GW_WHY_MAX; of a
 * refusal, the text of AccessDenied, or "" for the usual one; may be NULL. owner: loop
 */
bool gw_permit(const struct gw_ask *ask, char *why);
/* Whether what needs this permission changes something in the store. Pure. */
bool gw_changes(const char *permission);

#endif
