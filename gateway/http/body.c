/*
 * body.c - receiving a request body: aws-chunked framing, digests in the same pass, lengths, and
 * where the bytes go (engine or XML document).
 *
 * Called by head.c (new), http.c (feed, finish) and http_request.c (free), on the request's loop.
 * Bytes go to the engine before they are verified, but nothing of them becomes visible before
 * gw_body_finish() has said S3_OK and the operation commits.
 */
#include "gateway/http/budget.h"
#include "gateway/http/http_request.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define FORM_BOOKED (2u * S3_FORM_BYTES_MAX) /* of memory, for a form and its fields */
#define MD5_TEXT ((ERA_MD5_SIZE + 2) / 3 * 4 + 1) /* base64 and NUL */

static struct gw_digests *digests_of(struct gw_request *req)
{
        return &req->loop->digests;
}

/* ---- contexts used again --------------------------------------------------------------------- */

static struct s3_sums *take_sums(struct gw_digests *d, unsigned mask)
{
        struct s3_sums *sums = d->sums[mask];

        assert(mask < 1u << S3_CHECKSUM_KINDS && (sums == NULL || s3_sums_mask(sums) == mask));
        d->sums[mask] = NULL;
        if (sums != NULL)
                return sums;
        return s3_sums_new(mask, &sums) == 0 ? sums : NULL;
}

static void give_sums(struct gw_digests *d, struct s3_sums *sums)
{
        unsigned mask;

        if (sums == NULL)
                return;
        mask = s3_sums_mask(sums);
        assert(mask < 1u << S3_CHECKSUM_KINDS && d->sums[mask] != sums);
        if (d->sums[mask] != NULL) {
                s3_sums_free(sums);
                return;
        }
        s3_sums_reset(sums);
        d->sums[mask] = sums;
}

void gw_digests_free(struct gw_digests *d)
{
        unsigned i;

        for (i = 0; i < 1u << S3_CHECKSUM_KINDS; i++) {
                s3_sums_free(d->sums[i]);
                d->sums[i] = NULL;
        }
}

/* ---- memory of all loops ---------------------------------------------------------------------- */

static enum s3_error book(struct gw_request *req, size_t len)
{
        struct gw_gateway *gw = req->loop->gw;

        if (atomic_fetch_add_explicit(&gw->upload_memory, len, memory_order_relaxed) + len > gw->limits.upload_memory) {
                atomic_fetch_sub_explicit(&gw->upload_memory, len, memory_order_relaxed);
                atomic_store_explicit(&gw->uploads_refused_ns, gw_clock_ns(), memory_order_relaxed);
                return S3_ERR_SLOW_DOWN;
        }
        req->body->booked += len;
        return S3_OK;
}

static void unbook(struct gw_request *req)
{
        assert(atomic_load_explicit(&req->loop->gw->upload_memory, memory_order_relaxed) >= req->body->booked);
        atomic_fetch_sub_explicit(&req->loop->gw->upload_memory, req->body->booked, memory_order_relaxed);
        req->body->booked = 0;
}

/* ---- what the headers say -------------------------------------------------------------------- */

static bool is_sum(struct s3_str header)
{
        enum s3_checksum kind;

        return s3_checksum_by_header(header, &kind) == 0;
}

/* Checksums the client gives, in the head or behind the body. */
static unsigned count_sums(const struct gw_request *req)
{
        unsigned count = is_sum(gw_header(req, "x-amz-trailer"));

        for (unsigned i = 0; i < req->header_count; i++)
                count += is_sum(req->headers[i].name);
        return count;
}

static enum s3_error checksum_header(struct gw_request *req, struct gw_body *body, const struct s3_header *h,
                                     const char **message)
{
        enum s3_checksum kind;

        if (s3_checksum_by_header(h->name, &kind) != 0)
                return S3_OK;
        body->has_kind = true;
        body->kind = kind;
        if (s3_checksum_parse(kind, s3_str_trim(h->value), body->want) != 0) {
                *message = gw_printf(req, "Value for %s header is invalid.", s3_checksum_info(kind)->header);
                return S3_ERR_INVALID_REQUEST;
        }
        return S3_OK;
}

static enum s3_error trailer_names(struct gw_request *req, struct gw_body *body, const char **message)
{
        struct s3_str name = gw_header(req, "x-amz-trailer");
        enum s3_checksum kind;

        if (name.data == NULL)
                return S3_OK;
        if (s3_checksum_by_header(name, &kind) != 0) {
                *message = "The value specified in the x-amz-trailer header is not supported";
                return S3_ERR_INVALID_REQUEST;
        }
        body->has_kind = body->in_trailer = true;
        body->kind = kind;
        return S3_OK;
}

static enum s3_error sdk_algorithm(struct gw_request *req, const struct gw_body *body, const char **message)
{
        struct s3_str name = gw_header(req, "x-amz-sdk-checksum-algorithm");
        enum s3_checksum kind;

        if (name.data == NULL)
                return S3_OK;
        if (s3_checksum_by_algorithm(name, &kind) != 0 || (body->has_kind && body->kind != kind)) {
                *message = "Value for x-amz-sdk-checksum-algorithm header is invalid.";
                return S3_ERR_INVALID_REQUEST;
        }
        if (!body->has_kind) {
                *message = "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer "
                           "headers were found.";
                return S3_ERR_INVALID_REQUEST;
        }
        return S3_OK;
}

/*
 * Checksums of the body. Those of CompleteMultipartUpload are of the object it makes, not of its
 * document.
 */
static enum s3_error read_checksums(struct gw_request *req, struct gw_body *body, const char **message)
{
        enum s3_error error = S3_OK;
        unsigned i;

        if (req->op->sums_of_result)
                return S3_OK;
        if (count_sums(req) > 1) {
                *message = "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.";
                return S3_ERR_INVALID_REQUEST;
        }
        for (i = 0; error == S3_OK && i < req->header_count; i++)
                error = checksum_header(req, body, &req->headers[i], message);
        if (error == S3_OK)
                error = trailer_names(req, body, message);
        if (error == S3_OK)
                error = sdk_algorithm(req, body, message);
        return error;
}

static enum s3_error read_md5(struct gw_request *req, struct gw_body *body)
{
        struct s3_str value = gw_header(req, "Content-MD5");

        if (value.data == NULL)
                return S3_OK;
        body->check_md5 = true;
        return s3_content_md5_parse(value, body->want_md5) == 0 ? S3_OK : S3_ERR_INVALID_DIGEST;
}

static bool says_aws_chunked(const struct gw_request *req)
{
        for (unsigned i = 0; i < req->header_count; i++)
                if (s3_str_eq_nocase(req->headers[i].name, S3_STR("Content-Encoding")) &&
                    s3_list_has(req->headers[i].value, S3_STR("aws-chunked")))
                        return true;
        return false;
}

/* As AWS: HTTP's own chunks come only around aws-chunked, whatever the body is for. */
static enum s3_error refuse_plain_chunks(struct gw_request *req, const char **message)
{
        req->refused_header = "Transfer-Encoding";
        *message = "A header you provided implies functionality that is not implemented.";
        return S3_ERR_NOT_IMPLEMENTED;
}

static enum s3_error read_framing(struct gw_request *req, struct gw_body *body, const struct s3_auth *auth,
                                  const struct s3_signing_key *key, const char **message)
{
        bool is_signed = auth->payload == S3_PAYLOAD_SIGNED || auth->payload == S3_PAYLOAD_SIGNED_TRAILER;
        bool streaming = is_signed || auth->payload == S3_PAYLOAD_UNSIGNED_TRAILER;
        struct s3_str decoded = gw_header(req, "x-amz-decoded-content-length");
        struct s3_chunked_params params = {.form = auth->payload, .decoded_length = S3_LENGTH_UNKNOWN};
        struct s3_chunk_chain chain;

        body->expected = gw_carried_upload(req) ? req->carrier->length(req) : req->content_length;
        if (gw_carried_upload(req))
                return S3_OK;
        /* A signed hash is of the bytes as they come: decoding them would leave it unchecked. */
        if (!streaming && (auth->payload == S3_PAYLOAD_SHA256 || !says_aws_chunked(req)))
                return req->chunked ? refuse_plain_chunks(req, message) : S3_OK;
        if (decoded.data != NULL && s3_parse_uint(decoded, INT64_MAX, &params.decoded_length) != 0) {
                *message = "x-amz-decoded-content-length must be a whole number of bytes";
                return S3_ERR_INVALID_ARGUMENT;
        }
        if (decoded.data == NULL && streaming && !req->chunked)
                return S3_ERR_MISSING_CONTENT_LENGTH;
        if (is_signed) {
                s3_chunk_chain_of_auth(&chain, auth, key);
                params.chain = &chain;
        }
        params.trailers = gw_header(req, "x-amz-trailer");
        body->expected = params.decoded_length;
        return s3_chunked_new(&params, &body->chunked);
}

static enum s3_error take_digests(struct gw_request *req, struct gw_body *body)
{
        struct gw_digests *d = digests_of(req);
        bool data = req->op->body == GW_BODY_DATA || req->op->body == GW_BODY_FORM;

        if (body->has_kind)
                body->sum_mask |= S3_CHECKSUM_BIT(body->kind);
        else if (data)
                body->sum_mask |= S3_CHECKSUM_BIT(S3_CRC64NVME);
        if (body->check_sha256)
                body->sum_mask |= S3_CHECKSUM_BIT(S3_SHA256);
        era_md5_init(&body->md5);
        if (body->sum_mask != 0) {
                body->sums = take_sums(d, body->sum_mask);
                if (body->sums == NULL)
                        return S3_ERR_SLOW_DOWN;
        }
        return S3_OK;
}

/*
 * The longest body that is read for an operation of this kind; data has a limit of its own, with a
 * better error.
 */
static enum s3_error check_announced(const struct gw_request *req)
{
        if (req->content_length == S3_LENGTH_UNKNOWN)
                return S3_OK;
        if (req->op->body == GW_BODY_XML && req->content_length > S3_XML_BODY_MAX)
                return S3_ERR_MAX_MESSAGE_LENGTH;
        if (req->op->body == GW_BODY_KEPT && req->content_length > GW_KEPT_MAX)
                return S3_ERR_MAX_MESSAGE_LENGTH;
        if (req->op->body == GW_BODY_NONE && req->content_length > GW_DRAIN_BYTES)
                return S3_ERR_ENTITY_TOO_LARGE;
        if (req->op->body == GW_BODY_FORM && req->content_length > GW_OBJECT_MAX + S3_FORM_BYTES_MAX)
                return S3_ERR_ENTITY_TOO_LARGE;
        return S3_OK;
}

/* Nobody is known yet, so what the form needs is booked at once. Its other headers come as fields. */
static enum s3_error read_form(struct gw_request *req, struct gw_body *body, const char **message)
{
        struct s3_str boundary;
        enum s3_error error;

        if (req->chunked)
                return refuse_plain_chunks(req, message);
        if (gw_header(req, "Content-Length").data == NULL)
                return S3_ERR_MISSING_CONTENT_LENGTH;
        if (!s3_form_boundary(gw_header(req, "Content-Type"), &boundary))
                return S3_ERR_MALFORMED_POST;
        body->expected = S3_LENGTH_UNKNOWN;
        body->file_max = GW_OBJECT_MAX;
        error = book(req, FORM_BOOKED);
        return error == S3_OK ? s3_form_new(boundary, &body->form) : error;
}

enum s3_error gw_body_fields(struct gw_request *req, const char **message)
{
        struct gw_body *body = req->body;
        enum s3_error error = read_md5(req, body);

        if (error == S3_OK)
                error = read_checksums(req, body, message);
        return error == S3_OK ? take_digests(req, body) : error;
}

enum s3_error gw_body_new(struct gw_request *req, const struct s3_auth *auth, const struct s3_signing_key *key,
                          const char **message)
{
        struct gw_body *body;
        enum s3_error error;

        *message = NULL;
        error = check_announced(req);
        if (error != S3_OK || (req->op->body == GW_BODY_NONE && req->content_length == 0))
                return error;
        body = gw_alloc(req, sizeof(*body));
        if (body == NULL)
                return S3_ERR_SLOW_DOWN;
        req->body = body;
        if (req->op->body == GW_BODY_FORM)
                return read_form(req, body, message);
        body->check_sha256 = auth->payload == S3_PAYLOAD_SHA256;
        memcpy(body->sha256, auth->payload_sha256, S3_SHA256_LEN);
        error = read_md5(req, body);
        if (error == S3_OK)
                error = read_checksums(req, body, message);
        if (error == S3_OK)
                error = read_framing(req, body, auth, key, message);
        if (error == S3_OK)
                error = take_digests(req, body);
        return error;
}

void gw_body_free(struct gw_request *req)
{
        struct gw_body *body = req->body;

        s3_chunked_free(body->chunked);
        give_sums(digests_of(req), body->sums);
        s3_form_free(body->form);
        s3_doc_free(body->doc);
        free(body->kept);
        unbook(req);
        req->body = NULL;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/*
 * An upload lies in the engine's memory until it is long enough for slots of the arena, which have
 * a bound of their own: its booking is for the time before.
 */
static enum s3_error book_upload(struct gw_request *req, size_t len)
{
        struct gw_body *body = req->body;
        uint64_t held = eng_put_held_max(req->store), most = body->expected < held ? body->expected : held;

        if (body->received == 0 && body->booked == 0 && most > GW_UNCOUNTED)
                return book(req, most);
        if (body->booked != 0 && body->received + len > held)
                unbook(req);
        return S3_OK;
}

static enum s3_error body_keep(struct gw_request *req, const char *data, size_t len)
{
        struct gw_body *body = req->body;
        size_t need = body->received + len, room = body->kept_room;
        enum s3_error error;
        char *grown;

        assert(body->received <= room);
        if (need > GW_KEPT_MAX)
                return S3_ERR_MAX_MESSAGE_LENGTH;
        error = book(req, len);
        if (error != S3_OK)
                return error;
        if (need > room) {
                room = body->expected <= GW_KEPT_MAX && body->expected >= need ? body->expected : 2 * need;
                grown = realloc(body->kept, room);
                if (grown == NULL)
                        return S3_ERR_SLOW_DOWN;
                body->kept = grown;
                body->kept_room = room;
        }
        memcpy(body->kept + body->received, data, len);
        return S3_OK;
}

/* Where decoded bytes go. *taken: how many had room. */
static enum s3_error body_deliver(struct gw_request *req, const char *data, size_t len, size_t *taken)
{
        struct gw_body *body = req->body;
        enum s3_error error;
        ssize_t n;

        *taken = len;
        if (body->doc != NULL) {
                error = book(req, len);
                if (error == S3_OK)
                        error = s3_doc_feed(body->doc, data, len);
                body->message = body->doc->message;
                return error;
        }
        if (req->op->body == GW_BODY_KEPT)
                return body_keep(req, data, len);
        if (req->put == NULL) /* no use for it: checked and dropped, within bounds where no length was announced */
                return body->received + len > GW_DRAIN_BYTES ? S3_ERR_ENTITY_TOO_LARGE : S3_OK;
        if (body->received + len > GW_OBJECT_MAX)
                return S3_ERR_ENTITY_TOO_LARGE;
        error = book_upload(req, len);
        if (error != S3_OK)
                return error;
        n = eng_put_write(req->put, data, len);
        if (n == -EINVAL)
                return S3_ERR_INCOMPLETE_BODY; /* more than was announced */
        if (n < 0)
                return gw_error_of((int)n, GW_ABOUT_WRITE);
        assert((size_t)n <= len);
        *taken = (size_t)n;
        return S3_OK;
}

/* MD5 is the engine's, where the bytes are. */
static void hash(struct gw_request *req, const void *data, size_t len, bool md5)
{
        struct gw_body *body = req->body;
        uint64_t began;

        if (body->sums == NULL && !md5)
                return;
        began = lp_clock();
        if (md5)
                era_md5_update(&(struct era_md5_job){.md5 = &body->md5, .buf = data, .len = len}, 1);
        if (body->sums != NULL)
                s3_sums_update(body->sums, data, len);
        lp_times_add(&req->loop->stats.step[GW_STEP_CHECKSUMS], lp_clock() - began);
}

static enum s3_error consume(struct gw_request *req, const char *data, size_t len, size_t *taken)
{
        struct gw_body *body = req->body;
        enum s3_error error = body_deliver(req, data, len, taken);

        if (error != S3_OK)
                return error;
        hash(req, data, *taken, req->put == NULL && body->check_md5);
        body->received += *taken;
        return S3_OK;
}

void gw_body_placed(struct gw_request *req, const void *data, size_t len)
{
        hash(req, data, len, false);
        req->body->received += len;
}

/* Bytes that were decoded at an earlier call but found no room. */
static enum s3_error feed_pending(struct gw_request *req, struct s3_str *in)
{
        struct gw_body *body = req->body;
        size_t n = body->pending < in->len ? body->pending : in->len, taken;
        enum s3_error error = consume(req, in->data, n, &taken);

        if (error != S3_OK)
                return error;
        assert(taken <= n);
        body->pending -= taken;
        in->data += taken;
        in->len -= taken;
        return S3_OK;
}

static enum s3_error next_chunk(struct gw_request *req, struct s3_str *in, struct s3_str *data)
{
        uint64_t began = lp_clock();
        enum s3_error error = s3_chunked_next(req->body->chunked, in, data);

        lp_times_add(&req->loop->stats.step[GW_STEP_CHUNKS], lp_clock() - began);
        return error;
}

static enum s3_error feed_chunked(struct gw_request *req, struct s3_str *in)
{
        struct gw_body *body = req->body;
        struct s3_str data;
        enum s3_error error;
        size_t taken;

        while (in->len > 0) {
                error = next_chunk(req, in, &data);
                if (error != S3_OK) {
                        body->message = s3_chunked_message(body->chunked);
                        return error;
                }
                if (data.len == 0)
                        continue;
                error = consume(req, data.data, data.len, &taken);
                if (error != S3_OK)
                        return error;
                if (taken < data.len) { /* decoded, but to be given again: the input goes on right behind it */
                        body->pending = data.len - taken;
                        in->len += (size_t)(in->data - (data.data + taken));
                        in->data = data.data + taken;
                        return S3_OK;
                }
        }
        return S3_OK;
}

static enum s3_error feed_plain(struct gw_request *req, struct s3_str *in)
{
        size_t taken;
        enum s3_error error = consume(req, in->data, in->len, &taken);

        if (error == S3_OK) {
                in->data += taken;
                in->len -= taken;
        }
        return error;
}

/* Some bytes of the file. */
static enum s3_error form_consume(struct gw_request *req, struct s3_str data, size_t *taken)
{
        struct gw_body *body = req->body;
        uint64_t size = body->received + data.len;

        if (size <= body->file_max)
                return consume(req, data.data, data.len, taken);
        body->detail = gw_printf(req, "<ProposedSize>%llu</ProposedSize><MaxSizeAllowed>%llu</MaxSizeAllowed>",
                                 (unsigned long long)size, (unsigned long long)body->file_max);
        return S3_ERR_ENTITY_TOO_LARGE;
}

/* The request may be answered meanwhile, and its body gone: an error. */
static enum s3_error feed_form(struct gw_request *req, struct s3_str *in)
{
        struct s3_form *form = req->body->form;
        enum s3_error error;
        struct s3_str data;
        size_t taken;

        while (in->len > 0) {
                bool had_fields = s3_form_at_file(form);

                error = s3_form_next(form, in, &data);
                if (error != S3_OK) {
                        req->body->message = s3_form_message(form);
                        return error;
                }
                if (!had_fields && s3_form_at_file(form)) {
                        unbook(req); /* the upload books anew */
                        if (!req->op->fields(req))
                                return S3_ERR_ACCESS_DENIED;
                }
                if (data.len == 0)
                        continue;
                error = form_consume(req, data, &taken);
                if (error != S3_OK)
                        return error;
                if (taken < data.len) {
                        s3_form_again(form, in, (struct s3_str){data.data + taken, data.len - taken});
                        return S3_OK;
                }
        }
        return S3_OK;
}

enum s3_error gw_body_feed(struct gw_request *req, const char *data, size_t *len)
{
        struct s3_str in = {data, *len};
        struct gw_body *body = req->body;
        enum s3_error error = S3_OK;

        assert(body->pending == 0 || body->chunked != NULL);
        if (body->form != NULL) {
                error = feed_form(req, &in);
                *len = in.len;
                return error;
        }
        if (body->chunked == NULL)
                error = feed_plain(req, &in);
        else if (body->pending > 0)
                error = feed_pending(req, &in);
        if (error == S3_OK && body->chunked != NULL && body->pending == 0)
                error = feed_chunked(req, &in);
        *len = in.len;
        return error;
}

/* ---- the end --------------------------------------------------------------------------------- */

static enum s3_error trailer_value(struct gw_request *req)
{
        struct gw_body *body = req->body;
        const char *wanted = s3_checksum_info(body->kind)->header;
        unsigned i;

        for (i = 0; i < s3_chunked_trailer_count(body->chunked); i++) {
                struct s3_header h = s3_chunked_trailer(body->chunked, i);

                if (!s3_str_eq_nocase(h.name, s3_str_of(wanted)))
                        continue;
                if (s3_checksum_parse(body->kind, s3_str_trim(h.value), body->want) == 0)
                        return S3_OK;
                body->message = gw_printf(req, "Value for %s trailing header is invalid.", wanted);
                return S3_ERR_INVALID_REQUEST;
        }
        return S3_ERR_MALFORMED_TRAILER;
}

static enum s3_error check_sums(struct gw_request *req)
{
        struct gw_body *body = req->body;
        char said[2 * S3_SHA256_LEN + 1], found[2 * S3_SHA256_LEN + 1];
        const uint8_t *value;

        if (body->sums == NULL)
                return S3_OK;
        s3_sums_final(body->sums);
        if (body->check_sha256 && memcmp(s3_sums_value(body->sums, S3_SHA256), body->sha256, S3_SHA256_LEN) != 0) {
                s3_hex_encode(body->sha256, S3_SHA256_LEN, said);
                s3_hex_encode(s3_sums_value(body->sums, S3_SHA256), S3_SHA256_LEN, found);
                body->detail = gw_detail(req, "ClientComputedContentSHA256", s3_str_of(said), "S3ComputedContentSHA256",
                                         s3_str_of(found));
                return S3_ERR_CONTENT_SHA256_MISMATCH;
        }
        if (!body->has_kind)
                return S3_OK;
        value = s3_sums_value(body->sums, body->kind);
        if (memcmp(value, body->want, s3_checksum_info(body->kind)->len) == 0)
                return S3_OK;
        body->message = gw_printf(req, "The %s you specified did not match the calculated checksum.",
                                  s3_checksum_info(body->kind)->algorithm);
        return S3_ERR_BAD_DIGEST;
}

_Static_assert(MD5_TEXT <= 2 * ERA_MD5_SIZE + 1, "room for either way to write a digest");

static enum s3_error check_md5(struct gw_request *req)
{
        struct gw_body *body = req->body;
        char said[2 * ERA_MD5_SIZE + 1], found[MD5_TEXT];

        if (req->put != NULL)
                eng_put_md5(req->put, body->md5_value);
        else if (body->check_md5)
                era_md5_final(&body->md5, body->md5_value);
        if (!body->check_md5 || memcmp(body->md5_value, body->want_md5, ERA_MD5_SIZE) == 0)
                return S3_OK;
        body->message = "The Content-MD5 you specified did not match what we received.";
        s3_base64_encode(body->md5_value, ERA_MD5_SIZE, found);
        if (req->put != NULL) /* of an object, AWS names the client's in hexadecimal */
                s3_hex_encode(body->want_md5, ERA_MD5_SIZE, said);
        else
                s3_base64_encode(body->want_md5, ERA_MD5_SIZE, said);
        body->detail = gw_detail(req, "CalculatedDigest", s3_str_of(found), "ExpectedDigest", s3_str_of(said));
        return S3_ERR_BAD_DIGEST;
}

/* Only a form that came whole is stored. */
static enum s3_error finish_form(struct gw_request *req)
{
        struct gw_body *body = req->body;
        enum s3_error error = s3_form_finish(body->form);

        if (error != S3_OK || body->received >= body->file_min)
                return error;
        body->detail = gw_printf(req, "<ProposedSize>%llu</ProposedSize><MinSizeAllowed>%llu</MinSizeAllowed>",
                                 (unsigned long long)body->received, (unsigned long long)body->file_min);
        return S3_ERR_ENTITY_TOO_SMALL;
}

enum s3_error gw_body_finish(struct gw_request *req)
{
        struct gw_body *body = req->body;
        enum s3_error error = body->form != NULL ? finish_form(req) : S3_OK;

        if (error == S3_OK && body->chunked != NULL) {
                error = s3_chunked_finish(body->chunked);
                if (error != S3_OK)
                        body->message = s3_chunked_message(body->chunked);
        }
        if (error == S3_OK && body->expected != S3_LENGTH_UNKNOWN && body->received != body->expected)
                error = S3_ERR_INCOMPLETE_BODY;
        if (error == S3_OK && body->in_trailer)
                error = body->chunked != NULL ? trailer_value(req) : S3_ERR_MALFORMED_TRAILER;
        if (error == S3_OK)
                error = check_md5(req);
        if (error == S3_OK)
                error = check_sums(req);
        if (error == S3_OK && body->doc != NULL) {
                error = s3_doc_finish(body->doc);
                body->message = body->doc->message;
        }
        return error;
}

const uint8_t *gw_body_checksum(const struct gw_request *req, enum s3_checksum kind)
{
        const struct gw_body *body = req->body;

        if (body == NULL || (body->sum_mask & S3_CHECKSUM_BIT(kind)) == 0)
                return NULL;
        return s3_sums_value(body->sums, kind);
}
