/*
 * conditions.c - the keys of conditions that a request knows (rules P6 to P10). On the loop of whoever asks.
 */
#include "gateway/rights/conditions.h"

#include "gateway/rights/owners.h"

#include <gnutls/gnutls.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TOKEN_HEADER "x-amz-rdma-token"

/* Headers that are keys of conditions. */
static const struct condition_header {
        enum acc_key_id id;
        const char *name;
} condition_headers[] = {
        {ACC_KEY_AWS_USER_AGENT, "User-Agent"},
        {ACC_KEY_AWS_REFERER, "Referer"},
        {ACC_KEY_S3_ACL, "x-amz-acl"},
        {ACC_KEY_S3_GRANT_FULL_CONTROL, "x-amz-grant-full-control"},
        {ACC_KEY_S3_GRANT_READ, "x-amz-grant-read"},
        {ACC_KEY_S3_GRANT_READ_ACP, "x-amz-grant-read-acp"},
        {ACC_KEY_S3_GRANT_WRITE, "x-amz-grant-write"},
        {ACC_KEY_S3_GRANT_WRITE_ACP, "x-amz-grant-write-acp"},
        {ACC_KEY_S3_IF_MATCH, "If-Match"},
        {ACC_KEY_S3_IF_NONE_MATCH, "If-None-Match"},
        {ACC_KEY_S3_CONTENT_SHA256, "x-amz-content-sha256"},
        {ACC_KEY_S3_METADATA_DIRECTIVE, "x-amz-metadata-directive"},
        {ACC_KEY_S3_OBJECT_OWNERSHIP, "x-amz-object-ownership"},
        {ACC_KEY_S3_STORAGE_CLASS, "x-amz-storage-class"},
        {ACC_KEY_S3_SSE, "x-amz-server-side-encryption"},
        {ACC_KEY_S3_SSE_C, "x-amz-server-side-encryption-customer-algorithm"},
        {ACC_KEY_S3_SSE_KMS_KEY, "x-amz-server-side-encryption-aws-kms-key-id"},
        {ACC_KEY_S3_WEBSITE_REDIRECT, "x-amz-website-redirect-location"},
        {ACC_KEY_S3_LOCK_MODE, "x-amz-object-lock-mode"},
        {ACC_KEY_S3_RETAIN_UNTIL, "x-amz-object-lock-retain-until-date"},
        {ACC_KEY_S3_LEGAL_HOLD, "x-amz-object-lock-legal-hold"},
};

void gw_conditions_init(struct gw_conditions *c, const struct gw_ask *ask, const struct gw_who *who)
{
        c->ask = ask;
        c->who = who;
        c->more = NULL;
        c->tags_read = c->tags_known = c->existing_read = false;
}

static bool condition_is(struct gw_conditions *c, const struct acc_key *key, struct s3_str value,
                         struct acc_values *out)
{
        if (value.data == NULL)
                return false;
        c->value[key->id] = value;
        *out = (struct acc_values){&c->value[key->id], 1, ACC_KNOWN};
        return true;
}

static bool condition_unknown(struct acc_values *out)
{
        *out = (struct acc_values){NULL, 0, ACC_UNKNOWN};
        return false;
}

/* The request names this sub-resource, whose document has what a header would say otherwise. */
static bool condition_in_document(const struct gw_conditions *c, const char *sub)
{
        const struct gw_request *req = c->ask->req;

        return req->op->sub != NULL && strcmp(req->op->sub, sub) == 0 && strcmp(req->op->method, "PUT") == 0;
}

/* ---- connection ------------------------------------------------------------------------------ */

static struct s3_str condition_address(struct gw_conditions *c)
{
        const union MHD_ConnectionInfo *info =
                MHD_get_connection_info(c->ask->req->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        const struct sockaddr *addr = info != NULL ? info->client_addr : NULL;
        const void *bytes;

        if (addr != NULL && addr->sa_family == AF_INET)
                bytes = &((const struct sockaddr_in *)addr)->sin_addr;
        else if (addr != NULL && addr->sa_family == AF_INET6)
                bytes = &((const struct sockaddr_in6 *)addr)->sin6_addr;
        else
                return (struct s3_str){NULL, 0};
        if (inet_ntop(addr->sa_family, bytes, c->address, sizeof(c->address)) == NULL)
                return (struct s3_str){NULL, 0};
        return s3_str_of(c->address);
}

/* Bytes that go over RDMA are not encrypted, whatever the request came over. */
static bool condition_secure(const struct gw_conditions *c)
{
        const struct gw_request *req = c->ask->req;

        return req != NULL && req->conn->listener->tls && req->rdma == NULL &&
               gw_header(req, TOKEN_HEADER).data == NULL;
}

static struct s3_str condition_tls(const struct gw_request *req)
{
        const union MHD_ConnectionInfo *info;

        if (!req->conn->listener->tls)
                return (struct s3_str){NULL, 0};
        info = MHD_get_connection_info(req->mhd, MHD_CONNECTION_INFO_PROTOCOL);
        if (info == NULL)
                return (struct s3_str){NULL, 0};
        return (int)info->protocol == GNUTLS_TLS1_3 ? S3_STR("1.3") : S3_STR("1.2");
}

/* ---- signature ------------------------------------------------------------------------------- */

static struct s3_str condition_signature(struct gw_conditions *c, enum acc_key_id id)
{
        const struct gw_request *req = c->ask->req;
        bool by_query = req->signed_by != S3_AUTH_HEADER;

        if (req->signed_by == S3_AUTH_ANONYMOUS)
                return (struct s3_str){NULL, 0};
        if (id == ACC_KEY_S3_AUTH_TYPE && req->op->body == GW_BODY_FORM)
                return S3_STR("POST");
        if (id == ACC_KEY_S3_AUTH_TYPE)
                return by_query ? S3_STR("REST-QUERY-STRING") : S3_STR("REST-HEADER");
        if (id == ACC_KEY_S3_SIGNATURE_VERSION)
                return req->signed_by == S3_AUTH_QUERY_V2 ? S3_STR("AWS") : S3_STR("AWS4-HMAC-SHA256");
        if (req->signed_by == S3_AUTH_QUERY_V2) /* when it was signed is not said */
                return (struct s3_str){NULL, 0};
        snprintf(c->age, sizeof(c->age), "%" PRId64, lp_wall_ms() > req->signed_ms ? lp_wall_ms() - req->signed_ms : 0);
        return s3_str_of(c->age);
}

/* ---- tags ------------------------------------------------------------------------------------ */

/* The tags that the request gives an object. False: they are in its document, or the source's. */
static bool condition_read_tags(struct gw_conditions *c)
{
        const struct gw_request *req = c->ask->req;
        struct s3_str given = gw_header(req, "x-amz-tagging");
        const char *message;
        bool copies = gw_header(req, "x-amz-copy-source").data != NULL;

        if (c->tags_read)
                return c->tags_known;
        c->tags_read = true;
        c->tags = (struct s3_tags){.count = 0};
        if (c->ask->implied || condition_in_document(c, "tagging") || given.len > sizeof(c->tag_text) ||
            (copies && !s3_str_eq(gw_header(req, "x-amz-tagging-directive"), S3_STR("REPLACE"))))
                return false;
        c->tags_known = given.data == NULL ||
                        s3_tags_header_parse(given, c->tag_text, sizeof(c->tag_text), &c->tags, &message) == S3_OK;
        return c->tags_known;
}

static bool condition_tag(struct gw_conditions *c, const struct acc_key *key, struct acc_values *out)
{
        if (!condition_read_tags(c))
                return condition_unknown(out);
        for (unsigned i = 0; i < c->tags.count; i++)
                if (s3_str_eq(c->tags.tag[i].key, key->tag)) {
                        *out = (struct acc_values){&c->tags.tag[i].value, 1, ACC_KNOWN};
                        return true;
                }
        return false;
}

static bool condition_tag_keys(struct gw_conditions *c, struct acc_values *out)
{
        if (!condition_read_tags(c))
                return condition_unknown(out);
        for (unsigned i = 0; i < c->tags.count; i++)
                c->tag_keys[i] = c->tags.tag[i].key;
        *out = (struct acc_values){c->tag_keys, c->tags.count, ACC_KNOWN};
        return c->tags.count > 0;
}

static bool condition_principal_tag(struct gw_conditions *c, const struct acc_key *key, struct acc_values *out)
{
        const struct gw_pairs *tags;

        if (c->who->temporary != NULL && gw_who_session_key(c, key, out))
                return true;
        if (c->who->user == NULL)
                return false;
        tags = &c->who->user->sets[GW_SET_TAGS];
        for (unsigned i = 0; i < tags->count && i < GW_ENTITY_SET_MAX; i++)
                if (s3_str_eq_nocase(s3_str_of(tags->list[i].name), key->tag)) {
                        c->principal_tag[i] = s3_str_of(tags->list[i].text);
                        *out = (struct acc_values){&c->principal_tag[i], 1, ACC_KNOWN};
                        return true;
                }
        return false;
}

/* ---- the rest of the head -------------------------------------------------------------------- */

/*
 * As it will be read, not as it is spelled, so that no spelling gets around a Deny; with and without the slash
 * in front, since policies are written either way.
 */
static bool condition_copy_source(struct gw_conditions *c, struct acc_values *out)
{
        struct s3_str given = gw_header(c->ask->req, "x-amz-copy-source"), bucket, key;
        struct s3_copy_source source;
        size_t len;

        if (given.data == NULL)
                return false;
        if (s3_copy_source_parse(given, &source) != S3_OK)
                return condition_unknown(out);
        bucket = s3_address_bucket(&source.address);
        key = s3_address_key(&source.address);
        len = bucket.len + key.len + 2;
        if (bucket.len == 0 || key.len == 0 || len > sizeof(c->copy_text))
                return condition_unknown(out);
        c->copy_text[0] = c->copy_text[bucket.len + 1] = '/';
        memcpy(c->copy_text + 1, bucket.data, bucket.len);
        memcpy(c->copy_text + bucket.len + 2, key.data, key.len);
        c->copy_source[0] = (struct s3_str){c->copy_text, len};
        c->copy_source[1] = (struct s3_str){c->copy_text + 1, len - 1};
        *out = (struct acc_values){c->copy_source, 2, ACC_KNOWN};
        return true;
}

/*
 * Whether it makes an object, or an upload and its parts, which come with no condition: so a policy can demand
 * conditions of the former alone.
 */
static struct s3_str condition_creates(const struct gw_conditions *c)
{
        const struct gw_ask *ask = c->ask;
        const struct gw_op *op = ask->req->op;
        bool completes;

        if (ask->implied || strcmp(ask->permission, "s3:PutObject") != 0)
                return (struct s3_str){NULL, 0};
        completes = op->sub != NULL && strcmp(op->sub, "uploadId") == 0 && strcmp(op->method, "POST") == 0;
        return op->sub == NULL || completes ? S3_STR("true") : S3_STR("false");
}

/* What a listing asks for; of anything else, the same parameters say nothing. */
static struct s3_str condition_listing(const struct gw_conditions *c, const char *name)
{
        const struct gw_ask *ask = c->ask;

        if (ask->implied || ask->req->op->scope != GW_BUCKET || strncmp(ask->permission, "s3:List", 7) != 0)
                return (struct s3_str){NULL, 0};
        return gw_query(ask->req, name);
}

static bool condition_says_document(const struct gw_conditions *c, enum acc_key_id id)
{
        if (id == ACC_KEY_S3_LEGAL_HOLD)
                return condition_in_document(c, "legal-hold");
        return (id == ACC_KEY_S3_LOCK_MODE || id == ACC_KEY_S3_RETAIN_UNTIL) && condition_in_document(c, "retention");
}

static bool condition_header(struct gw_conditions *c, const struct acc_key *key, struct acc_values *out)
{
        struct s3_str value = {NULL, 0};

        for (size_t i = 0; i < sizeof(condition_headers) / sizeof(condition_headers[0]); i++)
                if (condition_headers[i].id == key->id)
                        value = gw_header(c->ask->req, condition_headers[i].name);
        if (value.data == NULL && condition_says_document(c, key->id))
                return condition_unknown(out);
        return condition_is(c, key, value, out);
}

/* Of a request over HTTP. */
static bool condition_of_request(struct gw_conditions *c, const struct acc_key *key, struct acc_values *out)
{
        switch (key->id) {
        case ACC_KEY_AWS_SOURCE_IP:
                return condition_is(c, key, condition_address(c), out);
        case ACC_KEY_S3_TLS_VERSION:
                return condition_is(c, key, condition_tls(c->ask->req), out);
        case ACC_KEY_S3_AUTH_TYPE:
        case ACC_KEY_S3_SIGNATURE_VERSION:
        case ACC_KEY_S3_SIGNATURE_AGE:
                return condition_is(c, key, condition_signature(c, key->id), out);
        case ACC_KEY_S3_REQUEST_OBJECT_TAG:
                return condition_tag(c, key, out);
        case ACC_KEY_S3_REQUEST_OBJECT_TAG_KEYS:
                return condition_tag_keys(c, out);
        case ACC_KEY_S3_COPY_SOURCE:
                return condition_copy_source(c, out);
        case ACC_KEY_S3_PREFIX:
                return condition_is(c, key, condition_listing(c, "prefix"), out);
        case ACC_KEY_S3_DELIMITER:
                return condition_is(c, key, condition_listing(c, "delimiter"), out);
        case ACC_KEY_S3_MAX_KEYS:
                return condition_is(c, key, condition_listing(c, "max-keys"), out);
        case ACC_KEY_S3_CREATION_OPERATION:
                return condition_is(c, key, condition_creates(c), out);
        case ACC_KEY_S3_INVENTORY_FIELDS:
                return condition_in_document(c, "inventory") && condition_unknown(out);
        default:
                return condition_header(c, key, out);
        }
}

/* Of a batch on an RDMA session: from where its messages come is not known. */
static bool condition_of_batch(const struct acc_key *key, struct acc_values *out)
{
        return key->id == ACC_KEY_AWS_SOURCE_IP && condition_unknown(out);
}

/* The tags of the object that was found; none where nothing was. False: not known. */
static bool condition_read_existing(struct gw_conditions *c)
{
        const struct gw_ask *ask = c->ask;

        if (c->existing_read)
                return c->existing_known;
        c->existing_read = true;
        c->existing.count = 0;
        c->existing_known = ask->look >= GW_LOOK_NOTHING &&
                            (ask->look != GW_LOOK_FOUND || ask->object->tags.len == 0 ||
                             s3_tags_decode(ask->object->tags.data, ask->object->tags.len, &c->existing) == 0);
        return c->existing_known;
}

/* A tag of the object that is there (P11, P20). */
static bool condition_existing_tag(struct gw_conditions *c, const struct acc_key *key, struct acc_values *out)
{
        if (!condition_read_existing(c)) {
                *out = (struct acc_values){NULL, 0, c->ask->look == GW_LOOK_LATER ? ACC_OPEN : ACC_UNKNOWN};
                return false;
        }
        for (unsigned i = 0; i < c->existing.count; i++)
                if (s3_str_eq(c->existing.tag[i].key, key->tag)) {
                        *out = (struct acc_values){&c->existing.tag[i].value, 1, ACC_KNOWN};
                        return true;
                }
        return false;
}

/* The account that owns the bucket; of none: the principal's own. */
static bool condition_owner(struct gw_conditions *c, const struct acc_key *key, struct acc_values *out)
{
        if (c->ask->found == NULL)
                return condition_is(c, key, c->who->principal.account, out);
        gw_bucket_account(c->ask->found, c->owner);
        return condition_is(c, key, s3_str_of(c->owner), out);
}

bool gw_conditions_lookup(void *context, const struct acc_key *key, struct acc_values *out)
{
        struct gw_conditions *c = context;

        if (c->more != NULL && c->more(c->more_context, key, out))
                return true;
        switch (key->id) {
        case ACC_KEY_AWS_TOKEN_ISSUE_TIME:
        case ACC_KEY_AWS_SOURCE_IDENTITY:
        case ACC_KEY_AWS_FEDERATED_PROVIDER:
        case ACC_KEY_AWS_MFA_PRESENT:
                return c->who->temporary != NULL && gw_who_session_key(c, key, out);
        case ACC_KEY_AWS_SECURE_TRANSPORT:
                return condition_is(c, key, condition_secure(c) ? S3_STR("true") : S3_STR("false"), out);
        case ACC_KEY_AWS_CURRENT_TIME:
                s3_date_format_iso(lp_wall_ms(), c->now);
                return condition_is(c, key, s3_str_of(c->now), out);
        case ACC_KEY_AWS_EPOCH_TIME:
                snprintf(c->epoch, sizeof(c->epoch), "%" PRId64, lp_wall_ms() / 1000);
                return condition_is(c, key, s3_str_of(c->epoch), out);
        case ACC_KEY_AWS_PRINCIPAL_IS_SERVICE:
        case ACC_KEY_AWS_VIA_SERVICE:
                return condition_is(c, key, S3_STR("false"), out);
        case ACC_KEY_AWS_PRINCIPAL_TAG:
                return condition_principal_tag(c, key, out);
        case ACC_KEY_AWS_REQUESTED_REGION:
                return condition_is(c, key, s3_str_of(c->ask->loop->gw->region), out);
        case ACC_KEY_AWS_RESOURCE_ACCOUNT:
        case ACC_KEY_S3_RESOURCE_ACCOUNT:
                return condition_owner(c, key, out);
        case ACC_KEY_S3_VERSION_ID:
                return condition_is(c, key, c->ask->version_id, out);
        case ACC_KEY_S3_EXISTING_OBJECT_TAG:
                return condition_existing_tag(c, key, out);
        case ACC_KEY_S3_BUCKET_TAG:
        case ACC_KEY_AWS_RESOURCE_TAG:
        case ACC_KEY_S3_LOCATION:
        case ACC_KEY_S3_REMAINING_DAYS:
                return condition_unknown(out);
        default:
                return c->ask->req != NULL ? condition_of_request(c, key, out) : condition_of_batch(key, out);
        }
}
