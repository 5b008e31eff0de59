/*
 * entity.h - accounts, users, access keys, groups, roles, policies and OpenID Connect providers: each one entry of
 * the store.
 * docs/design/people.md has the format and the rules. Functions here are pure; any thread.
 */
#ifndef GATEWAY_PEOPLE_ENTITY_H
#define GATEWAY_PEOPLE_ENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "gateway.h"
#include "s3.h"

/* Kinds of entries: stored, append only. */
enum gw_entity_kind {
        GW_ACCOUNT = ENG_ENTRY_KINDS,
        GW_USER,
        GW_ACCESS_KEY,
        GW_GROUP,
        GW_ROLE,
        GW_POLICY,
        GW_PROVIDER, /* of OpenID Connect; its name is the digest of its URL: gw_provider_name() */
        GW_ENTITY_KINDS_END
};

#define GW_ACCOUNT_ID_LEN   12u
#define GW_AWS_POLICY_ARN   "arn:aws:iam::aws:policy/" /* of policies that are always there, and no entries */
#define GW_FIRST_ACCOUNT    "000000000001" /* always there; its root has the credentials of the settings */
#define GW_ENTITY_NAME_MAX  128u
#define GW_ENTITY_PATH_MAX  512u
#define GW_ENTITY_ID_MAX    64u
#define GW_ENTITY_BYTES_MAX (200u << 10) /* of its text */
#define GW_ENTITY_SET_MAX   64u          /* members of one set, but for: */
#define GW_CLIENTS_MAX      100u         /* AWS's quotas are less, or this (people_change.c) */
#define GW_PROVIDER_URL_MAX 255u
#define GW_PROVIDER_NAME    65u          /* bytes, with NUL */

/*
 * What an entity is called. account: 12 digits; of an account and an access key, which are known
 * everywhere, "". of: an access key's user, "" is the root of the account that `account` of the entity
 * names; else "". Names are distinguished without regard to case, and keep the case they were given.
 */
struct gw_entity_name {
        unsigned kind;
        char account[GW_ACCOUNT_ID_LEN + 1];
        char of[GW_ENTITY_NAME_MAX + 1];
        char name[GW_ENTITY_NAME_MAX + 1];
};

struct gw_pair {
        const char *name, *text;
        int64_t ms; /* of a version of a policy: made; else 0 */
};
enum gw_entity_set {
        GW_SET_GROUPS,   /* of a user: names */
        GW_SET_ATTACHED, /* of a user, group or role: ARNs of policies */
        GW_SET_INLINE,   /* their own policies: name and document */
        GW_SET_TAGS,
        GW_SET_VERSIONS, /* of a policy: "v1" and document, oldest first */
        GW_SET_CLIENTS,  /* of a provider: audiences that its tokens may be made for */
        GW_SET_THUMBPRINTS,
        GW_SETS
};
struct gw_pairs {
        unsigned count;
        struct gw_pair *list;
};

/*
 * Decoded, strings are "" where there is none, and all is one allocation, constant once made. For encoding,
 * NULL is as good as "".
 */
struct gw_entity {
        struct gw_entity_name who;
        const char *path;  /* "/" or "/a/b/" */
        const char *id;    /* AIDA..., of an account: its canonical id */
        const char *title; /* of an account: its name */
        const char *description;
        const char *owner;    /* of an access key: its account */
        const char *sealed;   /* of an access key: its secret */
        const char *boundary; /* ARN of the policy that is a user's or role's permissions boundary */
        const char *trust;    /* of a role: who may assume it */
        const char *version;  /* of a policy: the version in force */
        const char *url;      /* of a provider: the issuer, as its tokens name it */
        const char *from;     /* of a user or group whose name is being changed (D19): the former one */
        int64_t created_ms;
        int64_t session_seconds; /* of a role; 0: 3,600 */
        int64_t active;          /* of an access key */
        struct gw_pairs sets[GW_SETS];
};

/* The number of its entry: 64 bits of SHA-256 of kind, account and name. */
uint64_t gw_entity_number(const struct gw_entity_name *who);
/* Whether two names mean the same entity; `of` does not count. */
bool gw_entity_same(const struct gw_entity_name *a, const struct gw_entity_name *b);
/* Whether AWS allows this name for an entity of its kind. */
bool gw_entity_name_valid(const struct gw_entity_name *who);
/* Reads a name from the first line of an entity's text, which stands here without its end. False: it is none. */
bool gw_entity_name_read(struct s3_str line, struct gw_entity_name *out);
/* Whether an entity that is made may have this id: letters and digits, and one at least where its kind has ids (D24). */
bool gw_entity_id_valid(unsigned kind, const char *id);

/*
 * Its text, to be given back with free(). -EINVAL: something in it is not as AWS wants it, or belongs to no
 * entity of its kind; -E2BIG; -ENOMEM.
 */
int gw_entity_encode(const struct gw_entity *entity, char **text, size_t *len);
/* To be given back with free(). NULL, and errno: EBADMSG, it is no such text; ENOMEM. */
struct gw_entity *gw_entity_decode(struct eng_str text);

/*
 * arn:aws:iam::ACCOUNT:user/PATH/NAME (group, role, policy), oidc-provider/HOST/PATH, and root of an account, which
 * is the entity of kind GW_ACCOUNT. -EINVAL: it names none. The path is not looked at, but of a provider.
 */
int gw_entity_of_arn(const char *arn, struct gw_entity_name *out);
/* Writes the ARN; false: no room, or its kind has none. */
bool gw_entity_arn(const struct gw_entity *entity, char *out, size_t size);

/* An issuer's URL without its scheme, as ARNs and trust policies name it. */
const char *gw_provider_place(const char *url);
/* The name of the provider at this place: a digest, since places are longer than names, and differ in case. */
void gw_provider_name(const char *place, char out[GW_PROVIDER_NAME]);

#endif
