/*
 * op_get_object.c - GetObject and HeadObject: conditions, ranges, parts, headers; the bytes
 * themselves go out by stream.c.
 *
 * run on the request's loop; the engine's callbacks come there too. Small answers are gathered
 * first, so that they leave in one piece and carry x-millrace-crc32c; larger ones are streamed, and
 * carry it behind their last byte where the client asks for that.
 */
#include "gateway/http/budget.h"
#include "gateway/s3/bucket_texts.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/version_ids.h"
#include "gateway/rdma/rdma_session.h"
#include "gateway/http/stream.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* What a GET or HEAD wants, between lookup and answer. In the request's arena. */
struct get_work {
        unsigned magic; /* gw_check.h */
        struct gw_version version;
        struct s3_range range;
        unsigned part;                  /* partNumber, 0: none */
        uint64_t offset, len;
        bool partial;                   /* 206 */
        unsigned status;                /* of an answer that is not partial */
        unsigned parts_count;           /* x-amz-mp-parts-count, 0: none */
        struct eng_str part_attrs;      /* of the part that is read, where the object is made of parts: the engine's */
        char *buffer;                   /* small answers gather here */
        size_t have;
};

/* ---- headers --------------------------------------------------------------------------------- */

static void date_header(struct gw_request *req, const char *name, int64_t ms)
{
        char text[S3_DATE_HTTP_SIZE];
        size_t len = s3_date_format_http(ms, text);

        gw_reply_header_str(req, name, (struct s3_str){text, len});
}

/* Query parameters that replace a stored header in the answer. */
static const char *const overrides[GW_META_FIELD_COUNT] = {
        [GW_META_CONTENT_TYPE] = "response-content-type",
        [GW_META_CONTENT_ENCODING] = "response-content-encoding",
        [GW_META_CONTENT_DISPOSITION] = "response-content-disposition",
        [GW_META_CONTENT_LANGUAGE] = "response-content-language",
        [GW_META_CACHE_CONTROL] = "response-cache-control",
        [GW_META_EXPIRES] = "response-expires",
};

static void field_headers(struct gw_request *req, const struct gw_meta *meta)
{
        unsigned i;

        for (i = 0; i < GW_META_FIELD_COUNT; i++) {
                struct s3_str value = {NULL, 0};

                if (overrides[i] != NULL)
                        value = gw_query(req, overrides[i]);

                if (value.data == NULL || value.len == 0)
                        value = meta->field[i];
                if (value.data != NULL && value.len > 0)
                        gw_reply_header_str(req, gw_meta_header((enum gw_meta_field)i), value);
                else if (i == GW_META_CONTENT_TYPE)
                        gw_reply_header(req, "Content-Type", "binary/octet-stream");
        }
}

/*
 * Metadata is kept as it came. HTTP has ASCII only, and AWS gives the rest as RFC 2047 has it for
 * mail.
 */
static struct s3_str in_ascii(struct gw_request *req, struct s3_str value)
{
        size_t cap = S3_WORDS_SIZE(value.len);
        char *text;
        ssize_t len;

        if (s3_ascii(value))
                return value;
        text = gw_alloc(req, cap);
        len = text != NULL ? s3_words_encode(value, text, cap) : -ENOMEM;
        return (struct s3_str){text, len > 0 ? (size_t)len : 0};
}

/* An entry without a name can be no header of metadata: like AWS, the answer only counts it. */
static void user_headers(struct gw_request *req, const struct gw_meta *meta)
{
        unsigned i, missing = 0;

        for (i = 0; i < meta->user_count; i++) {
                struct s3_str name = meta->user[i].name;
                char *header = gw_printf(req, "x-amz-meta-%.*s", (int)name.len, name.data);

                if (name.len == 0)
                        missing++;
                else if (header != NULL)
                        gw_reply_header_str(req, header, in_ascii(req, meta->user[i].value));
        }
        if (missing > 0)
                gw_reply_header_uint(req, "x-amz-missing-meta", missing);
}

static bool sums_are_wanted(const struct gw_request *req)
{
        return s3_str_eq_nocase(gw_header(req, "x-amz-checksum-mode"), S3_STR("ENABLED"));
}

/*
 * A part has a checksum of its own bytes; how those of all parts make that of the object, the type
 * says, as with the object's own. The sum of an object that is not made of parts is that of its
 * part 1.
 */
static void sum_headers(struct gw_request *req, const struct gw_meta *meta, bool partial, struct eng_str part)
{
        struct gw_checksum sum = meta->sum;

        if (!sums_are_wanted(req))
                return;
        if (part.data != NULL) {
                if (gw_meta_decode_checksum(part, &sum) != 0)
                        return;
                if (meta->sum.has_kind)
                        sum.type = meta->sum.type;
                sum.parts = 0;
        } else if (partial) {
                return;
        }
        gw_checksum_headers(req, &sum);
}

bool gw_object_headers(struct gw_request *req, const struct eng_object *object, bool partial, struct eng_str part)
{
        struct gw_meta room, *meta = &room; /* slices of attrs: what is put into the answer is copied */

        if (gw_meta_decode(object->attrs, meta) != 0) {
                gw_reply_errno(req, -EIO, GW_ABOUT_KEY);
                return false;
        }
        gw_reply_header(req, "ETag", gw_etag_text(req, object->etag, object->etag_parts));
        date_header(req, "Last-Modified", object->mtime_ms);
        gw_reply_header(req, "Accept-Ranges", "bytes");
        field_headers(req, meta);
        user_headers(req, meta);
        if (meta->storage != GW_STANDARD)
                gw_reply_header(req, "x-amz-storage-class", gw_storage_name(meta->storage));
        sum_headers(req, meta, partial, part);
        gw_version_header(req, &object->version);
        gw_extras_headers(req, object);
        return true;
}

/* ---- what of it ------------------------------------------------------------------------------ */

static bool is_override(struct s3_str name)
{
        for (unsigned i = 0; i < GW_META_FIELD_COUNT; i++)
                if (overrides[i] != NULL && s3_str_eq(name, s3_str_of(overrides[i])))
                        return true;
        return false;
}

/* Every "response-..." is a header of the answer that can be replaced. False: answered. */
static bool overrides_known(struct gw_request *req)
{
        for (unsigned i = 0; i < req->query->count; i++) {
                struct s3_str name = req->query->param[i].name;

                if (!s3_str_starts(name, S3_STR("response-")) || is_override(name))
                        continue;
                gw_reply_argument(
                        req, gw_copy(req, name), req->query->param[i].value,
                        gw_printf(req,
                                  "%.*s is not in the set of overridable response headers. Please refer to the S3 API "
                                  "documentation for a complete list of overridable response headers.",
                                  (int)name.len, name.data));
                return false;
        }
        return true;
}

/* What a client wants as a header of the answer can be one. False: answered. */
static bool overrides_fit(struct gw_request *req)
{
        for (unsigned i = 0; i < GW_META_FIELD_COUNT; i++) {
                struct s3_str value = overrides[i] != NULL ? gw_query(req, overrides[i]) : (struct s3_str){NULL, 0};

                for (size_t at = 0; at < value.len; at++) {
                        unsigned char c = (unsigned char)value.data[at];

                        if ((c >= ' ' && c != 0x7f) || c == '\t')
                                continue;
                        gw_reply_argument(req, overrides[i], value,
                                          "Header value cannot be represented using ISO-8859-1.");
                        return false;
                }
        }
        return true;
}

static bool read_get_wishes(struct gw_request *req, struct get_work *work)
{
        struct s3_str range = gw_header(req, "Range"), part = gw_query(req, "partNumber");

        if (!gw_version_of(req, &work->version) || !overrides_known(req) || !overrides_fit(req))
                return false;
        if (part.data != NULL) {
                if (!gw_part_number_of(req, &work->part))
                        return false;
                if (range.data != NULL) {
                        gw_reply_error(req, S3_ERR_INVALID_REQUEST,
                                       "Cannot specify both Range header and partNumber query parameter");
                        return false;
                }
        }
        if (range.data != NULL)
                work->range = s3_range_parse(range);
        return true;
}

/*
 * The part of that number; an object not made of parts is its own part 1. No bytes have no range
 * that could be named: 200 then.
 */
static enum s3_error find_part(struct gw_request *req, const struct eng_object *object, struct get_work *work)
{
        struct eng_part_view view;
        unsigned i;

        work->parts_count = object->part_count;
        if (object->part_count == 0) {
                work->offset = 0;
                work->len = object->size;
                work->partial = work->len > 0;
                return work->part == 1 ? S3_OK : S3_ERR_INVALID_PART_NUMBER;
        }
        for (i = 0; i < object->part_count; i++) {
                if (eng_get_part(req->get, i, &view) != 0)
                        break;
                if (view.number == work->part) {
                        work->part_attrs = view.attrs;
                        work->offset = view.offset;
                        work->len = view.size;
                        work->partial = work->len > 0;
                        return S3_OK;
                }
        }
        return S3_ERR_INVALID_PART_NUMBER;
}

static bool range_still_meant(struct gw_request *req, const struct eng_object *object)
{
        struct s3_str if_range = gw_header(req, "If-Range");
        int64_t ms;

        if (if_range.data == NULL)
                return true;
        if (s3_date_parse_http(if_range, &ms) == 0)
                return object->mtime_ms / 1000 == ms / 1000;
        return s3_etag_in_list(if_range, s3_str_of(gw_etag_text(req, object->etag, object->etag_parts)));
}

/*
 * A range that is just one part has that part's checksum. Offsets ascend; a part without bytes has
 * that of its successor.
 */
static void find_part_of_range(struct gw_request *req, const struct eng_object *object, struct get_work *work)
{
        unsigned lo = 0, hi = object->part_count;
        struct eng_part_view view;

        while (lo < hi) {
                unsigned mid = lo + (hi - lo) / 2;

                if (eng_get_part(req->get, mid, &view) != 0)
                        return;
                if (view.offset + view.size <= work->offset)
                        lo = mid + 1;
                else
                        hi = mid;
        }
        if (eng_get_part(req->get, lo, &view) == 0 && view.offset == work->offset && view.size == work->len)
                work->part_attrs = view.attrs;
}

static enum s3_error get_place(struct gw_request *req, const struct eng_object *object, struct get_work *work)
{
        enum s3_error error;

        if (work->part != 0)
                return find_part(req, object, work);
        if (work->range.form != S3_RANGE_NONE && !range_still_meant(req, object))
                work->range.form = S3_RANGE_NONE;
        /* The last bytes of nothing are all of it, and no range could name them. */
        work->partial = work->range.form != S3_RANGE_NONE && object->size > 0;
        error = s3_range_resolve(&work->range, object->size, &work->offset, &work->len);
        if (error == S3_OK && work->partial && sums_are_wanted(req))
                find_part_of_range(req, object, work);
        return error;
}

static bool conditions_hold(struct gw_request *req, const struct eng_object *object)
{
        struct s3_conditions c = {
                .if_match = gw_header(req, "If-Match"),
                .if_none_match = gw_header(req, "If-None-Match"),
                .if_modified_since = gw_header(req, "If-Modified-Since"),
                .if_unmodified_since = gw_header(req, "If-Unmodified-Since"),
        };
        char *etag = gw_etag_text(req, object->etag, object->etag_parts);
        enum s3_error error;

        if (etag == NULL) {
                gw_reply_no_memory(req);
                return false;
        }
        error = s3_conditions_check(&c, s3_str_of(etag), object->mtime_ms, lp_wall_ms(), false);
        if (error == S3_OK)
                return true;
        if (error == S3_ERR_NOT_MODIFIED) {
                gw_reply_header(req, "ETag", etag);
                date_header(req, "Last-Modified", object->mtime_ms);
        }
        gw_reply_error(req, error, NULL);
        return false;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static unsigned get_status(const struct get_work *work)
{
        return work->partial ? 206 : work->status;
}

/* The answer's bytes are all there, where they can stay until they are sent: no copy. */
static bool get_keep(struct gw_request *req, struct get_work *work)
{
        const uint8_t *data;
        size_t n;
        void *kept;
        int rv;

        if (work->len == 0)
                return false;
        kept = eng_get_keep(req->get);
        if (kept == NULL)
                return false;
        rv = eng_get_next(req->get, &data, &n); /* all of them at once */
        assert(rv == 0 && n == work->len);
        gw_crc_header(req, req->get);
        gw_reply_kept(req, get_status(work), data, n, kept);
        return true;
}

static void free_work(struct gw_request *req)
{
        struct get_work *work = GW_CAST(get_work, req->work);

        free(work->buffer);
        work->buffer = NULL;
}

/* Gathers a small answer; called again when the engine has more. */
static void get_gather(void *arg)
{
        struct gw_request *req = arg;
        struct get_work *work;
        const uint8_t *data;
        char *buffer;
        size_t n;
        int rv = 0;

        if (!gw_back(req))
                return;
        work = GW_CAST(get_work, req->work);
        if (req->peer_gone) {
                gw_reply_errno(req, -EIO, GW_ABOUT_KEY);
                return;
        }
        while (work->have < work->len && (rv = eng_get_next(req->get, &data, &n)) == 0) {
                memcpy(work->buffer + work->have, data, n);
                work->have += n;
        }
        if (rv == -EAGAIN)
                return;
        if (rv != 0) {
                req->answer.header_count = 0;
                gw_reply_errno(req, rv, GW_ABOUT_KEY);
                return;
        }
        gw_crc_header(req, req->get);
        buffer = work->buffer;
        work->buffer = NULL;
        gw_reply_buffer(req, get_status(work), buffer, work->len);
}

static void begin_gather(struct gw_request *req, struct get_work *work)
{
        work->buffer = malloc(work->len + 1);
        req->release = free_work;
        if (work->buffer != NULL) {
                get_gather(req);
                return;
        }
        req->answer.header_count = 0;
        gw_reply_no_memory(req);
}

/*
 * The client says x-millrace-crc32c: follows; so does the answer then, which is longer by that much
 * than what Content-Range says.
 */
static bool crc_is_to_follow(struct gw_request *req)
{
        if (!s3_str_eq(gw_header(req, "x-millrace-crc32c"), S3_STR("follows")))
                return false;
        gw_reply_header(req, "x-millrace-crc32c", "follows");
        return true;
}

static void send_bytes(struct gw_request *req, struct get_work *work)
{
        bool small;
        int rv;

        if (req->rdma != NULL && gw_transfer_send(req, get_status(work), work->offset, work->len))
                return;
        small = work->len <= GW_SMALL_GET && gw_answer_book(req, work->len);
        if (!small && eng_get_object(req->get)->inline_value) { /* it is in memory already, and would be while it is streamed */
                req->answer.header_count = 0;
                gw_reply_error(req, S3_ERR_SLOW_DOWN, NULL);
                return;
        }
        req->crc_follows = !small && crc_is_to_follow(req);
        if (small || req->crc_follows)
                eng_get_sum(req->get);
        rv = eng_get_start(req->get, work->offset, work->len, small ? get_gather : gw_stream_wake, req);
        if (rv != 0) {
                req->answer.header_count = 0;
                gw_reply_errno(req, rv, GW_ABOUT_KEY);
        } else if (small) {
                if (!get_keep(req, work))
                        begin_gather(req, work);
        } else {
                gw_reply_stream(req, get_status(work), work->len + (req->crc_follows ? GW_CRC_TAIL : 0));
        }
}

static void range_headers(struct gw_request *req, const struct eng_object *object, const struct get_work *work)
{
        if (work->parts_count != 0)
                gw_reply_header_uint(req, "x-amz-mp-parts-count", work->parts_count);
        if (work->partial)
                gw_reply_header(req, "Content-Range",
                                gw_printf(req, "bytes %llu-%llu/%llu", (unsigned long long)work->offset,
                                          (unsigned long long)(work->offset + work->len - 1),
                                          (unsigned long long)object->size));
}

static void refuse_range(struct gw_request *req, uint64_t size)
{
        struct s3_str range = gw_header(req, "Range");
        struct s3_xml xml;
        char *text = NULL;
        size_t len;

        s3_xml_init(&xml, 16 << 10);
        s3_xml_uint(&xml, "ActualObjectSize", size);
        s3_xml_text(&xml, "RangeRequested", range);
        if (s3_xml_take(&xml, &text, &len) != 0)
                s3_xml_free(&xml);
        gw_reply_header(req, "Content-Range", gw_printf(req, "bytes */%llu", (unsigned long long)size));
        gw_reply_error_extra(req, S3_ERR_INVALID_RANGE, NULL,
                             text != NULL ? gw_copy(req, (struct s3_str){text, len}) : NULL);
        free(text);
}

static void get_object_answer(struct gw_request *req)
{
        const struct eng_object *object = eng_get_object(req->get);
        struct get_work *work = GW_CAST(get_work, req->work);
        enum s3_error error;

        if (!gw_plain_check(req, "x-amz-server-side-encryption"))
                return;
        if (work->status == 200 && !conditions_hold(req, object))
                return;
        error = get_place(req, object, work);
        if (error == S3_ERR_INVALID_RANGE) {
                refuse_range(req, object->size);
                return;
        }
        if (error != S3_OK) { /* no such part; of an object that was not made of parts there is one */
                gw_reply_error_extra(req, error, NULL,
                                     gw_printf(req,
                                               "<ActualPartCount>%u</ActualPartCount>"
                                               "<PartNumberRequested>%u</PartNumberRequested>",
                                               object->part_count != 0 ? object->part_count : 1, work->part));
                return;
        }
        if (!work->version.given)
                gw_expiration_header(req, object);
        /* Of a range there is no checksum, though it be all of the object, unless it is a part. */
        if (!gw_object_headers(req, object, work->part == 0 && (work->partial || work->len != object->size), work->part_attrs))
                return;
        range_headers(req, object, work);
        if (req->is_head)
                gw_reply_length(req, get_status(work), work->len);
        else
                send_bytes(req, work);
}

static void get_opened(void *arg, int rv, struct eng_get *get)
{
        struct gw_request *req = arg;

        if (!gw_request_told(req)) {
                if (rv == 0)
                        eng_get_close(get);
                return;
        }
        if (gw_version_found(req, &GW_CAST(get_work, req->work)->version, rv, get))
                get_object_answer(req);
}

/* The number of a session's request is used up before anything can go wrong with it. */
void gw_begin_get(struct gw_request *req)
{
        if (req->rdma != NULL)
                gw_transfer_begin(req, gw_begin_done);
        else
                gw_begin_done(req);
}

void gw_run_get(struct gw_request *req)
{
        struct get_work *work = gw_alloc(req, sizeof(*work));

        if (work == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        work->magic = get_work_magic;
        work->status = 200;
        req->work = work;
        if (!read_get_wishes(req, work))
                return;
        if (req->rdma == NULL)
                gw_request_ask(req);
        if (req->is_head)
                eng_get_metadata(req->store, req->bucket_id, gw_eng_str(req->key), gw_version_asked(&work->version), get_opened, req);
        else
                eng_get_open(req->store, req->bucket_id, gw_eng_str(req->key), gw_version_asked(&work->version), get_opened, req);
}

void gw_get_page(struct gw_request *req, unsigned status)
{
        struct get_work *work = gw_alloc(req, sizeof(*work));
        struct s3_str range = gw_header(req, "Range");

        if (work == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        work->magic = get_work_magic;
        work->status = status;
        if (status == 200 && range.data != NULL)
                work->range = s3_range_parse(range);
        req->work = work;
        get_object_answer(req);
}
