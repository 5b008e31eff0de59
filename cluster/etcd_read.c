/*
 * etcd_read.c - reads what etcd's gateway answers: JSON in which 64-bit numbers are strings, keys
 * and values are base64, and what is 0, false or empty is left out. Called by the client's thread.
 *
 * An answer that does not fit what was asked is wrong as a whole: other keys than those asked for,
 * a wrong order, a key that is newer than the answer.
 */
#include "cluster/etcd_read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s3_checksum.h"
#include "s3_json.h"

/* ---- values ---------------------------------------------------------------------------------- */

static struct s3_str string_of(const json_t *value)
{
        return (struct s3_str){json_string_value(value), json_string_length(value)};
}

/* A number in a string; absent: 0. */
static bool json_uint64(const json_t *object, const char *name, uint64_t max, uint64_t *out)
{
        const json_t *value = json_object_get(object, name);

        *out = 0;
        if (value == NULL)
                return true;
        return json_is_string(value) && s3_parse_uint(string_of(value), max, out) == 0;
}

static bool json_int64(const json_t *object, const char *name, int64_t *out)
{
        uint64_t number;

        if (!json_uint64(object, name, INT64_MAX, &number))
                return false;
        *out = (int64_t)number;
        return true;
}

/* Absent: false. */
static bool json_flag(const json_t *object, const char *name, bool *out)
{
        const json_t *value = json_object_get(object, name);

        *out = json_is_true(value);
        return value == NULL || json_is_boolean(value);
}

/* Absent: empty. */
static bool json_array_of(const json_t *object, const char *name, const json_t **out)
{
        *out = json_object_get(object, name);
        return *out == NULL || json_is_array(*out);
}

/* Base64 into new memory; absent: empty. 0, -EBADMSG, -ENOMEM. */
static int json_bytes(const json_t *object, const char *name, struct cl_bytes *out)
{
        const json_t *value = json_object_get(object, name);
        struct s3_str text = string_of(value);
        size_t len;
        void *data;

        *out = (struct cl_bytes){NULL, 0};
        if (value == NULL)
                return 0;
        if (!json_is_string(value) || text.len % 4 != 0)
                return -EBADMSG;
        len = text.len / 4 * 3;
        if (len > 0 && text.data[text.len - 1] == '=')
                len -= text.data[text.len - 2] == '=' ? 2 : 1;
        data = malloc(len > 0 ? len : 1);
        if (data == NULL)
                return -ENOMEM;
        if (s3_base64_decode(text, data, len) != 0) {
                free(data);
                return -EBADMSG;
        }
        *out = (struct cl_bytes){data, len};
        return 0;
}

static int bad(const char **why, const char *text)
{
        *why = text;
        return -EBADMSG;
}

/* A JSON object. 0: the caller frees it. */
static int load_object(struct s3_str body, json_t **out, const char **why)
{
        *why = "there is no memory for the answer";
        *out = s3_json_load(body, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        if (*out == NULL)
                return errno == ENOMEM ? -ENOMEM : bad(why, "the answer is no JSON");
        if (!json_is_object(*out)) {
                json_decref(*out);
                *out = NULL;
                return bad(why, "the answer is no JSON object");
        }
        return 0;
}

static int read_header(const json_t *object, struct etcd_header *header, const char **why)
{
        const json_t *json = json_object_get(object, "header");

        if (!json_is_object(json) || !json_uint64(json, "cluster_id", UINT64_MAX, &header->cluster_id) ||
            !json_uint64(json, "member_id", UINT64_MAX, &header->member_id) ||
            !json_uint64(json, "raft_term", UINT64_MAX, &header->raft_term) ||
            !json_int64(json, "revision", &header->revision))
                return bad(why, "the answer's header is missing, or has wrong numbers");
        /* the first revision of a store is 1 */
        if (header->cluster_id == 0 || header->revision == 0)
                return bad(why, "the answer's header has no cluster id, or no revision");
        return 0;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* What keys were asked for. */
struct key_rules {
        struct cl_bytes key;
        bool prefix;
        int64_t newest, oldest; /* of mod_revision */
};

static int bytes_order(struct cl_bytes a, struct cl_bytes b)
{
        size_t len = a.len < b.len ? a.len : b.len;
        int order = len > 0 ? memcmp(a.data, b.data, len) : 0;

        return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int key_check(const struct cl_key *key, const struct key_rules *rules, const struct cl_keys *before,
                     const char **why)
{
        struct cl_bytes start = {key->key.data, rules->key.len};

        if (key->key.len < rules->key.len || bytes_order(start, rules->key) != 0 ||
            (!rules->prefix && key->key.len != rules->key.len))
                return bad(why, "the answer has a key that was not asked for");
        if (before->count > 0 && bytes_order(before->at[before->count - 1].key, key->key) >= 0)
                return bad(why, "the answer's keys are not in their order");
        if (key->key.len > CL_KEY_MAX)
                return bad(why, "the answer has a key that is too long");
        if (key->version == 0 || key->create_revision == 0 || key->create_revision > key->mod_revision ||
            key->mod_revision > rules->newest || key->mod_revision < rules->oldest)
                return bad(why, "the answer has a key with wrong revisions");
        return 0;
}

static int read_key(const json_t *json, const struct key_rules *rules, struct cl_answer *answer, unsigned range,
                    const char **why)
{
        struct cl_key key = {0};
        int rv;

        if (!json_is_object(json) || !json_int64(json, "mod_revision", &key.mod_revision) ||
            !json_int64(json, "create_revision", &key.create_revision) || !json_int64(json, "version", &key.version))
                return bad(why, "the answer has a key with wrong numbers");
        rv = json_bytes(json, "key", &key.key);
        if (rv == 0)
                rv = json_bytes(json, "value", &key.value);
        if (rv == -EBADMSG)
                *why = "the answer has wrong base64";
        if (rv == 0)
                rv = key_check(&key, rules, &answer->ranges[range], why);
        if (rv == 0)
                rv = cl_answer_add(answer, range, &key);
        free((void *)key.key.data);
        free((void *)key.value.data);
        return rv;
}

static int read_keys(const json_t *object, const struct key_rules *rules, struct cl_answer *answer, unsigned range,
                     bool *more, const char **why)
{
        const json_t *keys;
        size_t i;
        int rv;

        if (!json_array_of(object, "kvs", &keys) || !json_flag(object, "more", more))
                return bad(why, "the answer has no array of keys");
        if (json_array_size(keys) > CL_PAGE_KEYS)
                return bad(why, "the answer has more keys than were asked for");
        for (i = 0; i < json_array_size(keys); i++) {
                rv = read_key(json_array_get(keys, i), rules, answer, range, why);
                if (rv != 0)
                        return rv;
        }
        if (*more && json_array_size(keys) == 0)
                return bad(why, "the answer is an empty page");
        return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

int etcd_read_page(struct s3_str body, const struct cl_request *request, struct cl_answer *answer,
                   struct etcd_header *header, bool *more, const char **why)
{
        struct key_rules rules = {request->key, request->prefix, 0, request->min_mod_revision};
        json_t *json;
        int rv = load_object(body, &json, why);

        if (rv != 0)
                return rv;
        rv = read_header(json, header, why);
        if (rv == 0) {
                /* the pages of an answer are all of the first one's revision */
                rules.newest = answer->revision > 0       ? answer->revision
                               : request->at_revision > 0 ? request->at_revision
                                                          : header->revision;
                rv = read_keys(json, &rules, answer, 0, more, why);
        }
        json_decref(json);
        return rv;
}

/* One operation's answer: its name says of which kind it is. */
static int read_op(const json_t *json, const struct cl_op *op, int64_t revision, struct cl_answer *answer,
                   unsigned *range, const char **why)
{
        static const char *const names[] = {"response_put", "response_delete_range", "response_range"};
        struct key_rules rules = {op->key, op->prefix, revision, 0};
        const json_t *inner = json_object_get(json, names[op->kind]);
        bool more;
        int rv;

        if (!json_is_object(inner) || json_object_size(json) != 1)
                return bad(why, "the answer does not fit the operations that were asked for");
        if (op->kind != CL_OP_RANGE)
                return 0;
        rv = read_keys(inner, &rules, answer, (*range)++, &more, why);
        return rv == 0 && more ? -EMSGSIZE : rv;
}

static int read_ops(const json_t *json, const struct cl_request *request, bool succeeded, int64_t revision,
                    struct cl_answer **out, const char **why)
{
        const struct cl_op *ops = succeeded ? request->success : request->failure;
        unsigned count = succeeded ? request->success_count : request->failure_count, ranges = 0, range = 0, i;
        struct cl_answer *answer;
        const json_t *answers;
        int rv = 0;

        if (!json_array_of(json, "responses", &answers) || json_array_size(answers) != count)
                return bad(why, "the answer has another number of operations than were asked for");
        for (i = 0; i < count; i++)
                ranges += ops[i].kind == CL_OP_RANGE;
        answer = cl_answer_new(ranges);
        if (answer == NULL)
                return -ENOMEM;
        for (i = 0; i < count && rv == 0; i++)
                rv = read_op(json_array_get(answers, i), &ops[i], revision, answer, &range, why);
        if (rv != 0) {
                cl_answer_free(answer);
                return rv;
        }
        answer->succeeded = succeeded;
        *out = answer;
        return 0;
}

int etcd_read_txn(struct s3_str body, const struct cl_request *request, struct cl_answer **answer,
                  struct etcd_header *header, const char **why)
{
        bool succeeded;
        json_t *json;
        int rv = load_object(body, &json, why);

        if (rv != 0)
                return rv;
        rv = read_header(json, header, why);
        if (rv == 0 && !json_flag(json, "succeeded", &succeeded))
                rv = bad(why, "the answer does not say whether the transaction succeeded");
        else if (rv == 0 && !succeeded && request->compare_count == 0)
                rv = bad(why, "the answer says that a transaction without compares failed");
        if (rv == 0)
                rv = read_ops(json, request, succeeded, header->revision, answer, why);
        json_decref(json);
        return rv;
}

int etcd_read_status(struct s3_str body, struct cl_status *status, struct etcd_header *header, const char **why)
{
        struct s3_str version;
        json_t *json;
        int rv = load_object(body, &json, why);

        if (rv != 0)
                return rv;
        version = string_of(json_object_get(json, "version"));
        rv = read_header(json, header, why);
        if (rv == 0 &&
            (version.data == NULL || version.len >= sizeof(status->version) || strlen(version.data) != version.len ||
             !json_uint64(json, "leader", UINT64_MAX, &status->leader) ||
             !json_int64(json, "dbSize", &status->db_size)))
                rv = bad(why, "the answer has a wrong version, leader or size");
        if (rv == 0)
                memcpy(status->version, version.data, version.len + 1);
        json_decref(json);
        return rv;
}

static bool token_is_clean(struct s3_str text)
{
        size_t i;

        for (i = 0; i < text.len; i++) {
                if (text.data[i] <= ' ' || text.data[i] > '~')
                        return false;
        }
        return true;
}

int etcd_read_token(struct s3_str body, char *token, const char **why)
{
        struct s3_str text;
        json_t *json;
        int rv = load_object(body, &json, why);

        if (rv != 0)
                return rv;
        text = string_of(json_object_get(json, "token"));
        if (text.len == 0 || text.len >= ETCD_TOKEN_MAX || !token_is_clean(text))
                rv = bad(why, "the login's answer has no token");
        else
                memcpy(token, text.data, text.len + 1);
        json_decref(json);
        return rv;
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* Codes of gRPC. */
enum {
        GRPC_INVALID_ARGUMENT = 3,
        GRPC_NOT_FOUND = 5,
        GRPC_PERMISSION_DENIED = 7,
        GRPC_RESOURCE_EXHAUSTED = 8,
        GRPC_FAILED_PRECONDITION = 9,
        GRPC_OUT_OF_RANGE = 11,
        GRPC_UNIMPLEMENTED = 12,
        GRPC_UNAUTHENTICATED = 16
};

/*
 * Refusals that etcd gives before it proposes, or instead of carrying out what it has agreed on.
 * The others (no leader, timed out, unavailable) leave open what became of it.
 */
static enum etcd_refusal etcd_refusal(int64_t code, const char *text)
{
        bool own = strncmp(text, "etcdserver: ", 12) == 0;

        if (strstr(text, "invalid auth token") != NULL || strstr(text, "revision of auth store is old") != NULL)
                return code == GRPC_UNAUTHENTICATED || code == GRPC_INVALID_ARGUMENT ? ETCD_TOKEN_OLD : ETCD_UNCLEAR;
        switch (code) {
        case GRPC_RESOURCE_EXHAUSTED:
                /* gRPC's own word between the gateway and the server: the answer was too large to be passed on */
                if (strstr(text, "received message larger than max") != NULL)
                        return ETCD_TOO_LARGE;
                /* etcd says so after it has carried the transaction out, too */
                if (strstr(text, "database space exceeded") != NULL)
                        return ETCD_FULL;
                return own ? ETCD_REFUSED : ETCD_UNCLEAR;
        case GRPC_OUT_OF_RANGE:
                if (strstr(text, "has been compacted") != NULL)
                        return ETCD_COMPACTED;
                return own ? ETCD_REFUSED : ETCD_UNCLEAR;
        case GRPC_INVALID_ARGUMENT:
        case GRPC_UNIMPLEMENTED:
                return ETCD_REFUSED;
        case GRPC_PERMISSION_DENIED:
        case GRPC_UNAUTHENTICATED:
                return own ? ETCD_DENIED : ETCD_UNCLEAR;
        case GRPC_NOT_FOUND:
        case GRPC_FAILED_PRECONDITION:
                return own ? ETCD_REFUSED : ETCD_UNCLEAR;
        default:
                return ETCD_UNCLEAR;
        }
}

/* What others wrote, into a line: no control characters. */
static void refusal_text(char *text, const char *message)
{
        size_t i;

        snprintf(text, CL_TEXT_MAX, "%s", message);
        for (i = 0; text[i] != '\0'; i++) {
                if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
                        text[i] = '?';
        }
}

enum etcd_refusal etcd_read_refusal(long http_status, struct s3_str body, char *text)
{
        const json_t *code, *message;
        enum etcd_refusal refusal = ETCD_UNCLEAR;
        const char *why;
        json_t *json;

        snprintf(text, CL_TEXT_MAX, "status %ld of HTTP", http_status);
        if (load_object(body, &json, &why) != 0)
                return ETCD_UNCLEAR;
        code = json_object_get(json, "code");
        message = json_object_get(json, "error");
        if (json_is_integer(code) && json_is_string(message)) {
                refusal_text(text, json_string_value(message));
                refusal = etcd_refusal(json_integer_value(code), json_string_value(message));
        }
        json_decref(json);
        return refusal;
}
