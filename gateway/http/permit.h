/*
 * permit.h - the one gate of authorization. docs/design/rights.md has the rules.
 */
#ifndef GATEWAY_HTTP_PERMIT_H
#define GATEWAY_HTTP_PERMIT_H

#include "gateway/http/http_request.h"

#define GW_WHY_MAX 2560u /* a refusal's text, with its NUL: names of full length fit */

/* Who of an object the decision is about has looked for it. Its own tags, its owner and its ACL may decide (P15, P20). */
enum gw_look {
        GW_LOOK_NEVER,   /* nobody does: tags count as unknown (P11), owner and ACL have no say */
        GW_LOOK_LATER,   /* somebody will, and asks again: what only the object could decide is left open */
        GW_LOOK_NOTHING, /* it is not there, or hidden by a delete marker: it has no tags */
        GW_LOOK_MARKER,  /* a delete marker that was named by its id: neither tags nor an ACL */
        GW_LOOK_FOUND,   /* `object` is it */
};

/* A question to the gate: may they do that? Strings belong to whoever asks. */
struct gw_ask {
        struct gw_loop *loop;
        const char *access_key;       /* of whoever signed; NULL: nobody has */
        struct gw_request *req;       /* conditions are about it; NULL: a batch on an RDMA session */
        const char *permission;       /* as IAM names it */
        struct s3_str bucket, key;    /* absent: of none */
        struct s3_str resource;       /* its ARN, of what is in no bucket: a user, for example; absent: the bucket's or key's */
        struct s3_str version_id;     /* absent: the newest version */
        enum gw_look look;              /* for the object */
        const struct eng_object *object; /* LOOK_FOUND */
        uint64_t bucket_id;           /* the one that is meant: another one of its name answers no (P22); 0: whichever has it */
        bool bucket_sought;           /* `found` is set: gw_ask_bucket() */
        const struct eng_bucket *found; /* the bucket that has the name now; NULL: there is none, or nobody can say. Until the loop goes on */
        bool bucket_lost;             /* that: a pool that may have it does not answer */
        bool later;   /* of some key or bucket, each of which is asked for when its turn comes */
        bool implied; /* not what the request is for, as reading a copy's source: its query says nothing about it */
};

/*
 * Whatever comes to the engine for a client asks first: requests (head.c), what they copy from (copy.c), each
 * key of DeleteObjects (op_delete.c), each entry of a batch (entry.c), a website's objects (website_serve.c). why:
 * has room for GW_WHY_MAX; of a refusal, the text of AccessDenied, or "" for the usual one; may be NULL. owner: loop
 */
bool gw_permit(const struct gw_ask *ask, char *why);

enum gw_permitted {
        GW_REFUSED,
        GW_PERMITTED,   /* whatever the object is */
        GW_PERMITTED_IF /* the object is such: to be asked again when it is found, with gw_ask_found() */
};
/* As gw_permit(), before the object in question is looked for. Leaves the bucket in `ask`, and in `look` what was asked last. */
enum gw_permitted gw_permit_early(struct gw_ask *ask, char *why);
/* What was found in bucket_id; NULL: nothing. by_version: it was asked for by its id. Then gw_permit() decides. */
void gw_ask_found(struct gw_ask *ask, uint64_t bucket_id, const struct eng_object *object, bool by_version);
/* Looks the bucket up, once for all who decide. */
void gw_ask_bucket(struct gw_ask *ask);
/*
 * Behind a decision. False: it was made by a copy that may be old, of users or of the bucket, so it counts for nothing: the
 * request is undecided, which makes its answer 503. Always true for a batch on an RDMA session, which asks itself (entry.c).
 */
bool gw_ask_decided(const struct gw_ask *ask);
/* Whether what needs this permission changes something in the store. Pure. */
bool gw_changes(const char *permission);

#endif
