/*
 * temporary.h - temporary credentials: what a token says, sealed and opened. docs/design/sts.md has the rules.
 */
#ifndef GATEWAY_STS_TEMPORARY_H
#define GATEWAY_STS_TEMPORARY_H

#include <stdatomic.h>

#include "access.h"
#include "gateway.h"
#include "gateway/people/entity.h"

#define GW_TEMPORARY_PREFIX "ASIA"
#define GW_TEMPORARY_ID_LEN 20u
#define GW_TEMPORARY_SECRET 40u
#define GW_TOKEN_TEXT_MAX   7168u /* characters of a token */
#define GW_TOKEN_PLAIN_MAX  5300u /* bytes that are sealed */
#define GW_TOKEN_PACKED_MAX 4096u /* of policy, ARNs and tags */
#define GW_SESSION_ARNS     10u
#define GW_SESSION_TAGS     50u

enum gw_temporary_kind { /* stored in tokens, append only */
        GW_SESSION_OF_KEY = 1, /* of a user or root: GetSessionToken */
        GW_SESSION_OF_ROLE,
};

struct gw_session_tag {
        const char *name, *text;
        bool transitive;
};

/*
 * What a token says. Strings are "" where there is none. An opened one is constant, counted, and one allocation
 * but for the policy; any thread.
 */
struct gw_temporary {
        atomic_uint references;
        enum gw_temporary_kind kind;
        char access_key[GW_TEMPORARY_ID_LEN + 1];
        const char *secret;
        const char *account;
        const char *issuer; /* OF_KEY: the access key that asked for it, */
        uint64_t mark;      /* and of root's: which secret it had then */
        const char *role, *role_id, *session;
        const char *source;   /* source identity */
        const char *provider; /* of a web identity */
        int64_t issued_ms, expires_ms;
        const char *policy_text; /* session policy */
        struct acc_policy *policy; /* compiled; NULL: none */
        unsigned arn_count, tag_count;
        const char *arn[GW_SESSION_ARNS]; /* of managed policies that are session policies, too */
        struct gw_session_tag tag[GW_SESSION_TAGS];
        size_t text_len;
        const char *text; /* the token */
};

/* Bytes of policy, ARNs and tags, which GW_TOKEN_PACKED_MAX bounds. */
size_t gw_temporary_packed(const struct gw_temporary *what);
/* Makes the token. -ENOKEY: nothing can be sealed here; -E2BIG; -EIO. */
int gw_temporary_seal(const struct gw_sealer *sealer, const struct gw_temporary *what,
                      char out[GW_TOKEN_TEXT_MAX + 1]);
/* -EBADMSG: no token of this access key; -ENOKEY: it was sealed with a key that is not there; -ENOMEM. */
int gw_temporary_open(const struct gw_sealer *sealer, const char *access_key, struct s3_str text,
                      struct gw_temporary **out);
/* Gives a reference back; the last one frees it. NULL is allowed. */
void gw_temporary_put(struct gw_temporary *temporary);
struct gw_temporary *gw_temporary_get(struct gw_temporary *temporary);

#endif
