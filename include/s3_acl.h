/*
 * s3_acl.h - access control lists of buckets and objects: canned ones, grants in headers, documents,
 * and the bytes that are kept. See s3.h for the rules of this module.
 *
 * An ACL as it is kept, of a bucket (a text) or a version (engine/format.h: FMT_FIELD_ACL):
 *
 *     0           1                 13      14
 *     +-----------+-----------------+-------+-----------------------------------+----
 *     | version 1 | owner's account | count | permission u8 | grantee u8 | id   | ...
 *     +-----------+-----------------+-------+-----------------------------------+----
 *       u8          12 digits         u8      id: 32 bytes, of a canonical id alone
 *
 * Numbers of permissions and grantees are stored: append only. A reader refuses what it does not
 * know: it may say that somebody is the owner.
 */
#ifndef MILLRACE_S3_ACL_H
#define MILLRACE_S3_ACL_H

#include <sys/types.h>

#include "s3_base.h"

struct s3_xml;
struct s3_config;

#define S3_ACL_GRANTS_MAX 100u
#define S3_ACL_ID_BYTES   32u
#define S3_ACL_ID_TEXT    64u /* hexadecimal digits */
#define S3_ACL_ACCOUNT    12u
#define S3_ACL_BYTES_MAX  (14u + S3_ACL_GRANTS_MAX * (2u + S3_ACL_ID_BYTES))

enum s3_acl_permission { /* stored; also bits of a set */
                         S3_ACL_READ = 1,
                         S3_ACL_WRITE = 2,
                         S3_ACL_READ_ACP = 4,
                         S3_ACL_WRITE_ACP = 8,
                         S3_ACL_FULL_CONTROL = 16
};

enum s3_acl_grantee { /* stored */
                      S3_ACL_CANONICAL = 1,
                      S3_ACL_ALL_USERS = 2,
                      S3_ACL_AUTHENTICATED = 3,
                      S3_ACL_LOG_DELIVERY = 4
};

struct s3_grant {
        enum s3_acl_permission permission;
        enum s3_acl_grantee grantee;
        uint8_t id[S3_ACL_ID_BYTES]; /* of CANONICAL, else zeroes */
};

struct s3_acl {
        char owner[S3_ACL_ACCOUNT + 1]; /* an account */
        unsigned count;
        struct s3_grant grant[S3_ACL_GRANTS_MAX];
};

/* Whom a canned ACL means. Canonical ids. */
struct s3_acl_owners {
        struct s3_str owner, bucket_owner; /* the same, of a bucket */
        bool of_bucket;
};

/* What is wrong with an ACL that a client sent; texts live as long as what it sent. */
struct s3_acl_fault {
        const char *message;  /* NULL: the error's own */
        const char *argument; /* of INVALID_ARGUMENT */
        struct s3_str value;
};

/* 64 hexadecimal digits to 32 bytes. -EINVAL. */
int s3_acl_id_parse(struct s3_str text, uint8_t out[S3_ACL_ID_BYTES]);
/* INVALID_ARGUMENT: S3 has no canned ACL of this name, or none for objects. The account stays as it is. */
enum s3_error s3_acl_canned(struct s3_str name, const struct s3_acl_owners *owners, struct s3_acl *acl);
/*
 * Appends the grants of a header such as x-amz-grant-read: `id="..."`, `uri="..."`, parted by commas.
 * INVALID_ARGUMENT; UNRESOLVABLE_GRANT (an address); MALFORMED_ACL (more than 100).
 */
enum s3_error s3_acl_header(const char *name, struct s3_str value, enum s3_acl_permission permission,
                            struct s3_acl *acl, struct s3_acl_fault *fault);
/* Appends the grants of an element's Grant children (S3_CONFIG_NONE: it has none). Errors as above. */
enum s3_error s3_acl_grants_of_config(const struct s3_config *config, uint32_t list, struct s3_acl *acl,
                                      struct s3_acl_fault *fault);
/* A document (S3_DOC_ACL) as an ACL, and the owner's id that it names. Errors as above. */
enum s3_error s3_acl_of_config(const struct s3_config *config, struct s3_acl *acl, struct s3_str *owner_id,
                               struct s3_acl_fault *fault);

/* Does it grant something to everyone, or to everyone with an account? That is what S3 calls public. */
bool s3_acl_is_public(const struct s3_acl *acl);
/* Does it grant its owner FULL_CONTROL and nothing else? */
bool s3_acl_is_private(const struct s3_acl *acl, struct s3_str owner_id);
/* The ACL with FULL_CONTROL for its owner alone. */
void s3_acl_private(struct s3_str owner_id, struct s3_acl *acl);
/*
 * Permissions that it grants to somebody with this canonical id (absent: anonymous), FULL_CONTROL as
 * all of them. by_id: to the id; by_all, by_known: to AllUsers, AuthenticatedUsers.
 */
struct s3_acl_permissions {
        unsigned by_id, by_all, by_known;
};
struct s3_acl_permissions s3_acl_look(const struct s3_acl *acl, struct s3_str id);

/* Length. out has room for S3_ACL_BYTES_MAX. */
size_t s3_acl_encode(const struct s3_acl *acl, uint8_t *out);
/* -EINVAL: nothing that s3_acl_encode() writes. */
int s3_acl_decode(const void *data, size_t len, struct s3_acl *out);
/*
 * Writes AccessControlPolicy. name() answers the DisplayName of an id, or NULL for none.
 */
void s3_acl_write(struct s3_xml *xml, const struct s3_acl *acl, struct s3_str owner_id,
                  const char *(*name)(void *arg, struct s3_str id), void *arg);

#endif
