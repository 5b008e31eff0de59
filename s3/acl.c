/*
 * acl.c - see s3_acl.h. Called by the gateway for a request, and on decisions; pure, any thread.
 */
#include "s3_acl.h"

#include <errno.h>

#include "config.h"
#include "s3_internal.h"
#include "s3_config.h"

#define ACL_VERSION 1u
#define ACL_HEAD    (1u + S3_ACL_ACCOUNT + 1u)
#define ALL_BITS    (S3_ACL_READ | S3_ACL_WRITE | S3_ACL_READ_ACP | S3_ACL_WRITE_ACP | S3_ACL_FULL_CONTROL)
#define XSI         "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\""
/* Whom aws-exec-read means: EC2, as AWS names it in the ACLs that it makes of it. */
#define EXEC_ID "6aa5a366c34c1cbe25dc49211496e913e0351eb0e8c37aa3477e40942ec6b97c"

static const struct {
        enum s3_acl_grantee grantee;
        const char *uri;
} acl_groups[] = {
        {S3_ACL_ALL_USERS, "http://acs.amazonaws.com/groups/global/AllUsers"},
        {S3_ACL_AUTHENTICATED, "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"},
        {S3_ACL_LOG_DELIVERY, "http://acs.amazonaws.com/groups/s3/LogDelivery"},
};
#define ACL_GROUPS (sizeof(acl_groups) / sizeof(acl_groups[0]))

static const struct {
        enum s3_acl_permission permission;
        const char *word;
} acl_words[] = {
        {S3_ACL_READ, "READ"},
        {S3_ACL_WRITE, "WRITE"},
        {S3_ACL_READ_ACP, "READ_ACP"},
        {S3_ACL_WRITE_ACP, "WRITE_ACP"},
        {S3_ACL_FULL_CONTROL, "FULL_CONTROL"},
};
#define ACL_WORDS (sizeof(acl_words) / sizeof(acl_words[0]))
_Static_assert(S3_ACL_READ == 1 && S3_ACL_WRITE == 2 && S3_ACL_READ_ACP == 4 && S3_ACL_WRITE_ACP == 8 &&
                       S3_ACL_FULL_CONTROL == 16,
               "stored");
_Static_assert(S3_ACL_CANONICAL == 1 && S3_ACL_ALL_USERS == 2 && S3_ACL_AUTHENTICATED == 3 && S3_ACL_LOG_DELIVERY == 4,
               "stored");

/* ---- making one ------------------------------------------------------------------------------ */

int s3_acl_id_parse(struct s3_str text, uint8_t out[S3_ACL_ID_BYTES])
{
        return text.len == S3_ACL_ID_TEXT ? s3_hex_decode(text, out, S3_ACL_ID_BYTES) : -EINVAL;
}

static bool acl_is_full(const struct s3_acl *acl)
{
        return acl->count == S3_ACL_GRANTS_MAX;
}

static void acl_add_group(struct s3_acl *acl, enum s3_acl_permission permission, enum s3_acl_grantee grantee)
{
        if (!acl_is_full(acl))
                acl->grant[acl->count++] = (struct s3_grant){.permission = permission, .grantee = grantee};
}

static void acl_add_id(struct s3_acl *acl, enum s3_acl_permission permission, struct s3_str id)
{
        struct s3_grant grant = {.permission = permission, .grantee = S3_ACL_CANONICAL};

        if (!acl_is_full(acl) && s3_acl_id_parse(id, grant.id) == 0)
                acl->grant[acl->count++] = grant;
}

void s3_acl_private(struct s3_str owner_id, struct s3_acl *acl)
{
        acl->count = 0;
        acl_add_id(acl, S3_ACL_FULL_CONTROL, owner_id);
}

static void canned_for_bucket_owner(const struct s3_acl_owners *owners, enum s3_acl_permission permission,
                                    struct s3_acl *acl)
{
        if (!owners->of_bucket && !s3_str_eq(owners->owner, owners->bucket_owner))
                acl_add_id(acl, permission, owners->bucket_owner);
}

enum s3_error s3_acl_canned(struct s3_str name, const struct s3_acl_owners *owners, struct s3_acl *acl)
{
        s3_acl_private(owners->owner, acl);
        if (s3_str_eq(name, S3_STR("private")))
                return S3_OK;
        if (s3_str_eq(name, S3_STR("public-read"))) {
                acl_add_group(acl, S3_ACL_READ, S3_ACL_ALL_USERS);
        } else if (s3_str_eq(name, S3_STR("public-read-write"))) {
                acl_add_group(acl, S3_ACL_READ, S3_ACL_ALL_USERS);
                acl_add_group(acl, S3_ACL_WRITE, S3_ACL_ALL_USERS);
        } else if (s3_str_eq(name, S3_STR("authenticated-read"))) {
                acl_add_group(acl, S3_ACL_READ, S3_ACL_AUTHENTICATED);
        } else if (s3_str_eq(name, S3_STR("aws-exec-read"))) {
                acl_add_id(acl, S3_ACL_READ, S3_STR(EXEC_ID));
        } else if (s3_str_eq(name, S3_STR("bucket-owner-read"))) {
                canned_for_bucket_owner(owners, S3_ACL_READ, acl);
        } else if (s3_str_eq(name, S3_STR("bucket-owner-full-control"))) {
                canned_for_bucket_owner(owners, S3_ACL_FULL_CONTROL, acl);
        } else if (s3_str_eq(name, S3_STR("log-delivery-write")) && owners->of_bucket) {
                acl_add_group(acl, S3_ACL_WRITE, S3_ACL_LOG_DELIVERY);
                acl_add_group(acl, S3_ACL_READ_ACP, S3_ACL_LOG_DELIVERY);
        } else {
                return S3_ERR_INVALID_ARGUMENT;
        }
        return S3_OK;
}

static enum s3_error acl_fault(struct s3_acl_fault *fault, const char *argument, struct s3_str value,
                               const char *message)
{
        *fault = (struct s3_acl_fault){.message = message, .argument = argument, .value = value};
        return S3_ERR_INVALID_ARGUMENT;
}

static bool acl_group_of(struct s3_str uri, enum s3_acl_grantee *out)
{
        for (size_t i = 0; i < ACL_GROUPS; i++)
                if (s3_str_eq(uri, s3_str_of(acl_groups[i].uri))) {
                        *out = acl_groups[i].grantee;
                        return true;
                }
        return false;
}

/* Who is named by an id or a URI; where in the request: argument names. */
static enum s3_error acl_add(struct s3_acl *acl, enum s3_acl_permission permission, struct s3_str id, struct s3_str uri,
                             const char *id_argument, const char *uri_argument, struct s3_acl_fault *fault)
{
        struct s3_grant grant = {.permission = permission, .grantee = S3_ACL_CANONICAL};

        if (acl_is_full(acl))
                return S3_ERR_MALFORMED_ACL;
        if (uri.data != NULL) {
                if (!acl_group_of(uri, &grant.grantee))
                        return acl_fault(fault, uri_argument, uri, "Invalid group uri");
        } else if (s3_acl_id_parse(id, grant.id) != 0) {
                return acl_fault(fault, id_argument, id, "Invalid id");
        }
        acl->grant[acl->count++] = grant;
        return S3_OK;
}

/* ---- headers --------------------------------------------------------------------------------- */

/* Takes the quotes off that may stand around a value. */
static struct s3_str acl_unquote(struct s3_str value)
{
        if (value.len >= 2 && value.data[0] == '"' && value.data[value.len - 1] == '"')
                return (struct s3_str){value.data + 1, value.len - 2};
        return value;
}

static enum s3_error acl_header_one(const char *name, struct s3_str whole, struct s3_str item,
                                    enum s3_acl_permission permission, struct s3_acl *acl, struct s3_acl_fault *fault)
{
        const char *sign = item.len > 0 ? memchr(item.data, '=', item.len) : NULL;
        const struct s3_str none = {NULL, 0};
        struct s3_str kind, value;

        if (sign == NULL)
                return acl_fault(fault, name, whole, "Argument format not recognized");
        kind = s3_str_trim((struct s3_str){item.data, (size_t)(sign - item.data)});
        value = s3_str_trim((struct s3_str){sign + 1, item.len - (size_t)(sign - item.data) - 1});
        value = acl_unquote(value);
        if (s3_str_eq_nocase(kind, S3_STR("id")))
                return acl_add(acl, permission, value, none, "id", "uri", fault);
        if (s3_str_eq_nocase(kind, S3_STR("uri")))
                return acl_add(acl, permission, none, value, "id", "uri", fault);
        if (s3_str_eq_nocase(kind, S3_STR("emailAddress")))
                return S3_ERR_UNRESOLVABLE_GRANT;
        return acl_fault(fault, name, whole, "Argument format not recognized");
}

enum s3_error s3_acl_header(const char *name, struct s3_str value, enum s3_acl_permission permission,
                            struct s3_acl *acl, struct s3_acl_fault *fault)
{
        struct s3_str rest = value;
        enum s3_error error = S3_OK;

        *fault = (struct s3_acl_fault){.message = NULL};
        do { /* ids and URIs that there can be have no comma */
                struct s3_str item = s3_str_cut(rest, ',', &rest);

                error = acl_header_one(name, value, s3_str_trim(item), permission, acl, fault);
        } while (error == S3_OK && rest.len > 0);
        return error;
}

/* ---- documents ------------------------------------------------------------------------------- */

static bool acl_permission_of(struct s3_str word, enum s3_acl_permission *out)
{
        for (size_t i = 0; i < ACL_WORDS; i++)
                if (s3_str_eq(word, s3_str_of(acl_words[i].word))) {
                        *out = acl_words[i].permission;
                        return true;
                }
        return false;
}

static enum s3_error acl_config_grant(const struct s3_config *config, uint32_t at, struct s3_acl *acl,
                                      struct s3_acl_fault *fault)
{
        uint32_t grantee = s3_config_first(config, at, "Grantee");
        struct s3_str uri = s3_config_text_of(config, grantee, "URI"), id = s3_config_text_of(config, grantee, "ID");
        enum s3_acl_permission permission;

        if (!acl_permission_of(s3_config_text_of(config, at, "Permission"), &permission))
                return S3_ERR_MALFORMED_ACL;
        if (s3_config_first(config, grantee, "EmailAddress") != S3_CONFIG_NONE)
                return S3_ERR_UNRESOLVABLE_GRANT;
        if (uri.data != NULL)
                uri = s3_xml_trim(uri);
        return acl_add(acl, permission, s3_xml_trim(id), uri, "CanonicalUser/ID", "Group/URI", fault);
}

enum s3_error s3_acl_grants_of_config(const struct s3_config *config, uint32_t list, struct s3_acl *acl,
                                      struct s3_acl_fault *fault)
{
        enum s3_error error = S3_OK;
        uint32_t at = list;

        *fault = (struct s3_acl_fault){.message = NULL};
        while (error == S3_OK && list != S3_CONFIG_NONE &&
               (at = s3_config_next(config, list, at, "Grant")) != S3_CONFIG_NONE)
                error = acl_config_grant(config, at, acl, fault);
        return error;
}

enum s3_error s3_acl_of_config(const struct s3_config *config, struct s3_acl *acl, struct s3_str *owner_id,
                               struct s3_acl_fault *fault)
{
        acl->count = 0;
        *owner_id = s3_xml_trim(s3_config_text_of(config, s3_config_first(config, 0, "Owner"), "ID"));
        return s3_acl_grants_of_config(config, s3_config_first(config, 0, "AccessControlList"), acl, fault);
}

enum {
        ACL_POLICY,
        ACL_OWNER,
        ACL_OWNER_ID,
        ACL_OWNER_NAME,
        ACL_LIST,
        ACL_GRANT,
        ACL_GRANTEE,
        ACL_GRANTEE_NAME,
        ACL_GRANTEE_MAIL,
        ACL_GRANTEE_ID,
        ACL_GRANTEE_URI,
        ACL_PERMISSION
};

static const struct s3_element acl_elements[] = {
        [ACL_POLICY] = S3_GROUP("AccessControlPolicy", ACL_POLICY, 1, 1),
        [ACL_OWNER] = S3_GROUP("Owner", ACL_POLICY, 1, 1),
        [ACL_OWNER_ID] = S3_TEXT("ID", ACL_OWNER, 1, 1, 0, 1024),
        [ACL_OWNER_NAME] = S3_TEXT("DisplayName", ACL_OWNER, 0, 1, 0, 1024),
        [ACL_LIST] = S3_GROUP("AccessControlList", ACL_POLICY, 1, 1),
        [ACL_GRANT] = S3_GROUP("Grant", ACL_LIST, 0, S3_ACL_GRANTS_MAX),
        [ACL_GRANTEE] = S3_GROUP("Grantee", ACL_GRANT, 1, 1),
        [ACL_GRANTEE_NAME] = S3_TEXT("DisplayName", ACL_GRANTEE, 0, 1, 0, 1024),
        [ACL_GRANTEE_MAIL] = S3_TEXT("EmailAddress", ACL_GRANTEE, 0, 1, 0, 1024),
        [ACL_GRANTEE_ID] = S3_TEXT("ID", ACL_GRANTEE, 0, 1, 0, 1024),
        [ACL_GRANTEE_URI] = S3_TEXT("URI", ACL_GRANTEE, 0, 1, 0, 1024),
        [ACL_PERMISSION] = S3_WORDS("Permission", ACL_GRANT, 1, 1, "READ|WRITE|READ_ACP|WRITE_ACP|FULL_CONTROL"),
};

/* Each grantee is named in one way. */
static enum s3_error acl_end(struct s3_doc *doc)
{
        uint64_t ways = S3_SEEN(ACL_GRANTEE_MAIL) | S3_SEEN(ACL_GRANTEE_ID) | S3_SEEN(ACL_GRANTEE_URI);

        for (uint32_t at = 0; at < s3_config_count(doc->config); at++)
                if (s3_config_row(doc->config, at) == ACL_GRANTEE && s3_config_count_of(doc->config, at, ways) != 1)
                        return S3_ERR_MALFORMED_XML;
        return S3_OK;
}

S3_CONFIG_SCHEMA(s3_acl_schema, acl_elements, 256u << 10, acl_end);

/* ---- asking ---------------------------------------------------------------------------------- */

bool s3_acl_is_public(const struct s3_acl *acl)
{
        for (unsigned i = 0; i < acl->count; i++)
                if (acl->grant[i].grantee == S3_ACL_ALL_USERS || acl->grant[i].grantee == S3_ACL_AUTHENTICATED)
                        return true;
        return false;
}

bool s3_acl_is_private(const struct s3_acl *acl, struct s3_str owner_id)
{
        uint8_t id[S3_ACL_ID_BYTES];

        return acl->count == 1 && acl->grant[0].permission == S3_ACL_FULL_CONTROL &&
               acl->grant[0].grantee == S3_ACL_CANONICAL && s3_acl_id_parse(owner_id, id) == 0 &&
               memcmp(id, acl->grant[0].id, sizeof(id)) == 0;
}

struct s3_acl_permissions s3_acl_look(const struct s3_acl *acl, struct s3_str id)
{
        struct s3_acl_permissions all = {.by_id = 0};
        uint8_t bytes[S3_ACL_ID_BYTES];
        bool known = s3_acl_id_parse(id, bytes) == 0;

        for (unsigned i = 0; i < acl->count; i++) {
                const struct s3_grant *grant = &acl->grant[i];
                unsigned bits = grant->permission == S3_ACL_FULL_CONTROL ? ALL_BITS : grant->permission;

                if (grant->grantee == S3_ACL_ALL_USERS)
                        all.by_all |= bits;
                else if (grant->grantee == S3_ACL_AUTHENTICATED)
                        all.by_known |= bits;
                else if (grant->grantee == S3_ACL_CANONICAL && known && memcmp(bytes, grant->id, sizeof(bytes)) == 0)
                        all.by_id |= bits;
        }
        return all;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

size_t s3_acl_encode(const struct s3_acl *acl, uint8_t *out)
{
        size_t len = ACL_HEAD;

        out[0] = ACL_VERSION;
        memcpy(out + 1, acl->owner, S3_ACL_ACCOUNT);
        out[1 + S3_ACL_ACCOUNT] = (uint8_t)acl->count;
        for (unsigned i = 0; i < acl->count; i++) {
                const struct s3_grant *grant = &acl->grant[i];

                out[len++] = (uint8_t)grant->permission;
                out[len++] = (uint8_t)grant->grantee;
                if (grant->grantee != S3_ACL_CANONICAL)
                        continue;
                memcpy(out + len, grant->id, S3_ACL_ID_BYTES);
                len += S3_ACL_ID_BYTES;
        }
        return len;
}

/* Bytes of the grant, 0: it makes no sense. */
static size_t acl_decode_grant(const uint8_t *data, size_t left, struct s3_grant *out)
{
        size_t len = 2;

        *out = (struct s3_grant){.permission = S3_ACL_READ};
        if (left < len || data[0] == 0 || data[0] > S3_ACL_FULL_CONTROL || (data[0] & (data[0] - 1)) != 0 ||
            data[1] < S3_ACL_CANONICAL || data[1] > S3_ACL_LOG_DELIVERY)
                return 0;
        out->permission = (enum s3_acl_permission)data[0];
        out->grantee = (enum s3_acl_grantee)data[1];
        if (out->grantee != S3_ACL_CANONICAL)
                return len;
        if (left < len + S3_ACL_ID_BYTES)
                return 0;
        memcpy(out->id, data + len, S3_ACL_ID_BYTES);
        return len + S3_ACL_ID_BYTES;
}

int s3_acl_decode(const void *data, size_t len, struct s3_acl *out)
{
        const uint8_t *bytes = data;
        size_t at = ACL_HEAD;
        unsigned count;

        if (len < ACL_HEAD || bytes[0] != ACL_VERSION || bytes[1 + S3_ACL_ACCOUNT] > S3_ACL_GRANTS_MAX)
                return -EINVAL;
        for (unsigned i = 0; i < S3_ACL_ACCOUNT; i++)
                if (bytes[1 + i] < '0' || bytes[1 + i] > '9')
                        return -EINVAL;
        memcpy(out->owner, bytes + 1, S3_ACL_ACCOUNT);
        out->owner[S3_ACL_ACCOUNT] = '\0';
        out->count = 0;
        count = bytes[1 + S3_ACL_ACCOUNT];
        while (out->count < count) {
                size_t took = acl_decode_grant(bytes + at, len - at, &out->grant[out->count]);

                if (took == 0)
                        return -EINVAL;
                at += took;
                out->count++;
        }
        return at == len ? 0 : -EINVAL;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void acl_write_person(struct s3_xml *xml, struct s3_str id, const char *name)
{
        s3_xml_text(xml, "ID", id);
        if (name != NULL)
                s3_xml_textz(xml, "DisplayName", name);
}

static const char *acl_uri_of(enum s3_acl_grantee grantee)
{
        const char *uri = "";

        for (size_t i = 0; i < ACL_GROUPS; i++)
                if (acl_groups[i].grantee == grantee)
                        uri = acl_groups[i].uri;
        return uri;
}

static const char *acl_word_of(enum s3_acl_permission permission)
{
        const char *word = "";

        for (size_t i = 0; i < ACL_WORDS; i++)
                if (acl_words[i].permission == permission)
                        word = acl_words[i].word;
        return word;
}

void s3_acl_write(struct s3_xml *xml, const struct s3_acl *acl, struct s3_str owner_id,
                  const char *(*name)(void *arg, struct s3_str id), void *arg)
{
        char text[S3_ACL_ID_TEXT + 1];

        s3_xml_root(xml, "AccessControlPolicy");
        s3_xml_open(xml, "Owner");
        acl_write_person(xml, owner_id, name(arg, owner_id));
        s3_xml_close(xml, "Owner");
        s3_xml_open(xml, "AccessControlList");
        for (unsigned i = 0; i < acl->count; i++) {
                const struct s3_grant *grant = &acl->grant[i];

                s3_xml_open(xml, "Grant");
                if (grant->grantee == S3_ACL_CANONICAL) {
                        s3_hex_encode(grant->id, S3_ACL_ID_BYTES, text);
                        s3_xml_raw(xml, S3_STR("<Grantee " XSI " xsi:type=\"CanonicalUser\">"));
                        acl_write_person(xml, s3_str_of(text), name(arg, s3_str_of(text)));
                } else {
                        s3_xml_raw(xml, S3_STR("<Grantee " XSI " xsi:type=\"Group\">"));
                        s3_xml_textz(xml, "URI", acl_uri_of(grant->grantee));
                }
                s3_xml_close(xml, "Grantee");
                s3_xml_textz(xml, "Permission", acl_word_of(grant->permission));
                s3_xml_close(xml, "Grant");
        }
        s3_xml_close(xml, "AccessControlList");
        s3_xml_close(xml, "AccessControlPolicy");
}
