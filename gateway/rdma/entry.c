/*
 * entry.c - one entry of a batch, looked up (entry.h).
 *
 * Each is a GetObject of its own: its user and its bucket are looked up when its turn comes, its
 * version is the newest then, or the one it names, and pinned (eng_get); its failure is its result and nobody else's.
 * Bytes are not touched here.
 */
#include "gateway/rdma/entry.h"

#include "gateway/http/error.h"
#include "gateway/http/permit.h"
#include "gateway/http/users.h"
#include "gateway/http/version_text.h"

#include <errno.h>
#include <string.h>

_Static_assert(GW_ENTRY_CODES == RDX_CODE_METHOD_NOT_ALLOWED + 1, "a counter for each code");

/* ---- results --------------------------------------------------------------------------------- */

void gw_entry_refuse(struct gw_entry *entry, enum rdx_code code)
{
        entry->result.code = (uint16_t)code;
        entry->result.status = (uint16_t)rdx_code_status(code);
        entry->result.bytes = 0;
        entry->result.crc32c = 0;
}

/* An entry's form of an S3 error; those that are not of the data are InternalError. */
static enum rdx_code code_of(enum s3_error error)
{
        switch (error) {
        case S3_ERR_NO_SUCH_KEY:
                return RDX_CODE_NO_SUCH_KEY;
        case S3_ERR_NO_SUCH_BUCKET:
                return RDX_CODE_NO_SUCH_BUCKET;
        case S3_ERR_SLOW_DOWN:
                return RDX_CODE_SLOW_DOWN;
        case S3_ERR_SERVICE_UNAVAILABLE:
                return RDX_CODE_SERVICE_UNAVAILABLE;
        default:
                return RDX_CODE_INTERNAL_ERROR;
        }
}

void gw_entry_fail(struct gw_entry *entry, int rv)
{
        gw_entry_refuse(entry, code_of(gw_error_of(rv, GW_ABOUT_KEY)));
}

void gw_entry_close(struct gw_entry *entry)
{
        if (entry->get != NULL)
                eng_get_close(entry->get);
        entry->get = NULL;
}

void gw_entry_count(const struct gw_entry *entry, enum gw_entry_way way)
{
        gw_count(&entry->loop->stats.entries[way][entry->result.code], 1);
}

/* ---- what of an object ----------------------------------------------------------------------- */

static bool is_wanted_version(const struct gw_entry *entry, const struct eng_object *object)
{
        uint8_t md5[16];
        unsigned parts;

        if (entry->if_match.len == 0)
                return true;
        return s3_etag_parse((struct s3_str){entry->if_match.data, entry->if_match.len}, md5, &parts) == 0 &&
               parts == object->etag_parts && memcmp(md5, object->etag, sizeof(md5)) == 0;
}

/* The same bytes as the HTTP range of that meaning; false: there are none. */
static bool entry_place(struct gw_entry *entry, uint64_t size)
{
        struct rdx_result *result = &entry->result;
        bool whole = !entry->suffix && entry->range_first == 0 && entry->range_length == 0;

        if (entry->suffix) {
                result->bytes = entry->range_length < size ? entry->range_length : size;
                entry->offset = size - result->bytes;
        } else {
                if (entry->range_first >= size && !whole)
                        return false;
                entry->offset = entry->range_first;
                result->bytes = size - entry->offset;
                if (entry->range_length != 0 && entry->range_length < result->bytes)
                        result->bytes = entry->range_length;
        }
        result->status = whole || size == 0 ? 200 : 206;
        return true;
}

static void entry_describe(struct gw_entry *entry, const struct eng_object *object)
{
        size_t len = s3_etag_format(object->etag, object->etag_parts, entry->etag);

        entry->result.etag = (struct rdx_bytes){entry->etag + 1, len - 2}; /* without its quotes */
        entry->result.size = object->size;
        if (entry->versioned) {
                len = gw_version_text(&object->version, entry->version_text);
                entry->result.version_id = (struct rdx_bytes){entry->version_text, len};
        }
        entry->large = !object->inline_value;
}

/* True: it has bytes to be read. */
static bool entry_look_at(struct gw_entry *entry)
{
        const struct eng_object *object = eng_get_object(entry->get);

        entry_describe(entry, object);
        if (!is_wanted_version(entry, object))
                gw_entry_refuse(entry, RDX_CODE_PRECONDITION_FAILED);
        else if (!entry_place(entry, object->size))
                gw_entry_refuse(entry, RDX_CODE_INVALID_RANGE);
        else if (entry->result.bytes > entry->room)
                gw_entry_refuse(entry, RDX_CODE_PLACE_TOO_SMALL);
        return entry->result.bytes > 0;
}

/* The question whether its user may read it. */
static struct gw_ask entry_ask(const struct gw_entry *entry)
{
        return (struct gw_ask){.loop = entry->loop,
                               .access_key = entry->access_key,
                               .req = entry->req,
                               .permission = entry->by_version ? "s3:GetObjectVersion" : "s3:GetObject",
                               .bucket = entry->bucket,
                               .key = entry->key,
                               .version_id = entry->version_id,
                               .implied = true};
}

static bool entry_may_look(struct gw_entry *entry, const struct eng_bucket *bucket)
{
        struct gw_ask ask = entry_ask(entry);
        enum gw_permitted permitted;

        ask.found = bucket;
        ask.bucket_sought = true;
        permitted = gw_permit_early(&ask, NULL);
        entry->object_decides = permitted == GW_PERMITTED_IF;
        return permitted != GW_REFUSED;
}

/* What was found; NULL: nothing. */
static bool entry_may_read(const struct gw_entry *entry, const struct eng_object *object)
{
        struct gw_ask ask = entry_ask(entry);

        if (!entry->object_decides)
                return true;
        gw_ask_found(&ask, entry->bucket_id, object, entry->by_version);
        return gw_permit(&ask, NULL);
}

/* What is missing is told only to those who may list the bucket. */
static void entry_refuse_missing(struct gw_entry *entry, enum rdx_code code)
{
        struct gw_ask ask = {.loop = entry->loop,
                             .access_key = entry->access_key,
                             .req = entry->req,
                             .permission = "s3:ListBucket",
                             .bucket = entry->bucket,
                             .implied = true};

        gw_entry_refuse(entry, gw_permit(&ask, NULL) ? code : RDX_CODE_ACCESS_DENIED);
}

static void entry_refuse_marker(struct gw_entry *entry)
{
        if (entry->by_version)
                gw_entry_refuse(entry, RDX_CODE_METHOD_NOT_ALLOWED);
        else
                entry_refuse_missing(entry, RDX_CODE_NO_SUCH_KEY);
        gw_entry_close(entry);
}

static void entry_refuse_rights(struct gw_entry *entry)
{
        gw_entry_refuse(entry, RDX_CODE_ACCESS_DENIED);
        gw_entry_close(entry);
}

/* ---- looking up ------------------------------------------------------------------------------ */

/*
 * What is known here of its bucket and its user is not older than it may be: a batch's answer is for all its entries, and goes
 * by no pool of theirs; that of a session is sent as it is.
 */
static bool entry_is_current(const struct gw_entry *entry)
{
        struct eng_store *directory = entry->loop->gw->store;

        if (!eng_is_current(entry->store))
                return false;
        return entry->store == directory || eng_is_current(directory) ||
               (entry->access_key != NULL && gw_credentials_find(entry->loop, entry->access_key) != NULL);
}

static void entry_opened(void *arg, int rv, struct eng_get *get)
{
        struct gw_entry *entry = GW_CAST(gw_entry, arg);

        assert(entry->get == NULL && entry->known != NULL);
        entry->get = rv == 0 ? get : NULL;
        if (entry->given_up) {
                gw_entry_close(entry);
        } else if (!entry_is_current(entry)) {
                gw_entry_close(entry);
                gw_entry_refuse(entry, RDX_CODE_SERVICE_UNAVAILABLE);
        } else if ((rv == 0 || rv == -ENOENT) && !entry_may_read(entry, rv == 0 ? eng_get_object(get) : NULL)) {
                entry_refuse_rights(entry);
        } else if (rv == -ENOENT) {
                entry_refuse_missing(entry, entry->by_version ? RDX_CODE_NO_SUCH_VERSION : RDX_CODE_NO_SUCH_KEY);
        } else if (rv != 0) {
                gw_entry_fail(entry, rv);
        } else if (eng_get_object(get)->marker) {
                entry_refuse_marker(entry);
        } else if (!entry_look_at(entry)) {
                gw_entry_close(entry);
        }
        entry->known(entry);
}

static bool names_are_valid(struct gw_entry *entry, const struct rdx_entry *asked)
{
        const char *message;

        return s3_bucket_name_valid((struct s3_str){asked->bucket.data, asked->bucket.len}) &&
               memchr(asked->key.data, '\0', asked->key.len) == NULL &&
               s3_utf8_valid((struct s3_str){asked->key.data, asked->key.len}) &&
               (!entry->by_version || gw_version_read((struct s3_str){asked->version_id.data, asked->version_id.len},
                                                      &entry->version, &message) == S3_OK);
}

bool gw_entry_begin(struct gw_entry *entry, const char *access_key, const struct rdx_entry *asked)
{
        const struct eng_bucket *bucket = NULL;
        int rv = gw_bucket_get(entry->loop->gw, (struct s3_str){asked->bucket.data, asked->bucket.len}, &bucket, NULL);

        entry->magic = gw_entry_magic;
        entry->if_match = asked->if_match;
        entry->range_first = asked->range_first;
        entry->range_length = asked->range_length;
        entry->suffix = asked->suffix;
        entry->room = asked->length;
        entry->by_version = asked->version_id.len > 0;
        entry->access_key = access_key;
        entry->bucket = (struct s3_str){asked->bucket.data, asked->bucket.len};
        entry->key = (struct s3_str){asked->key.data, asked->key.len};
        if (entry->by_version)
                entry->version_id = (struct s3_str){asked->version_id.data, asked->version_id.len};
        entry->store = rv == 0 ? bucket->store : entry->loop->gw->store;
        if ((rv == -EHOSTDOWN && !gw_pool_alone(entry->loop->gw)) || !entry_is_current(entry)) {
                gw_entry_refuse(entry, RDX_CODE_SERVICE_UNAVAILABLE);
                return false;
        }
        if (!entry_may_look(entry, rv == 0 ? bucket : NULL)) {
                gw_entry_refuse(entry, RDX_CODE_ACCESS_DENIED);
                return false;
        }
        if (!names_are_valid(entry, asked)) {
                gw_entry_refuse(entry, RDX_CODE_INVALID_ARGUMENT);
                return false;
        }
        if (rv != 0) {
                gw_entry_refuse(entry, code_of(gw_error_of(rv, GW_ABOUT_BUCKET)));
                return false;
        }
        entry->bucket_id = bucket->id;
        entry->versioned = bucket->rules.versioning != ENG_VERSIONING_NEVER;
        eng_get_open(entry->store, bucket->id, (struct eng_str){asked->key.data, asked->key.len},
                     entry->by_version ? &entry->version : NULL, entry_opened, entry);
        return true;
}

void gw_entry_give_up(struct gw_entry *entry)
{
        entry->given_up = true;
}

int gw_entry_start(struct gw_entry *entry, bool hold, void (*wake)(void *arg), void *arg)
{
        GW_CHECK(gw_entry, entry);
        assert(entry->get != NULL && !entry->given_up);
        eng_get_sum(entry->get);
        if (hold)
                eng_get_hold(entry->get);
        return eng_get_start(entry->get, entry->offset, entry->result.bytes, wake, arg);
}
