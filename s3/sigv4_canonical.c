/*
 * The canonical request of SigV4, streamed into a hash (verifying, signing) or a buffer (error
 * answers, tests).
 *
 * The canonical URI is the path decoded once and encoded once, without any normalisation, as S3
 * does: clients that escape more or less than they sign still agree with us. Query parameters are
 * decoded ("+" is a space), encoded, and sorted by encoded name, then value; the sorting compares
 * the encoded forms byte by byte without materialising them.
 */
#include <errno.h>
#include <stdlib.h>

#include "sigv4_internal.h"

/* ---- the sink -------------------------------------------------------------------------------- */

void s3_sink_flush(struct s3_sink *sink)
{
        if (sink->hash != NULL && sink->pending > 0)
                SHA256_Update(sink->hash, sink->piece, sink->pending);
        sink->pending = 0;
}

static void put_byte(struct s3_sink *sink, char c)
{
        s3_sink_put(sink, &c, 1);
}

void s3_sink_put(struct s3_sink *sink, const char *data, size_t len)
{
        if (sink->hash == NULL) {
                size_t room = sink->cap - sink->len, n = len < room ? len : room;

                memcpy(sink->out + sink->len, data, n);
                sink->len += n;
                sink->overflow = sink->overflow || n < len;
                return;
        }
        if (len > sizeof(sink->piece) - sink->pending)
                s3_sink_flush(sink);
        if (len > sizeof(sink->piece)) {
                SHA256_Update(sink->hash, data, len);
                return;
        }
        memcpy(sink->piece + sink->pending, data, len);
        sink->pending += len;
}

static void put_str(struct s3_sink *sink, struct s3_str s)
{
        if (s.len > 0)
                s3_sink_put(sink, s.data, s.len);
}

/* ---- decoding and encoding byte by byte ------------------------------------------------------ */

#define RECODE_END (-1)
#define RECODE_BAD (-2) /* malformed escape */

struct recoder {
        struct s3_str rest;
        bool query;      /* "+" is a space, "/" is encoded */
        char pending[2]; /* hex digits of the byte being encoded, last first */
        unsigned pending_count;
};

/* Next byte of the encoded form, RECODE_END or RECODE_BAD. */
static int recode_next(struct recoder *r)
{
        static const char digits[] = "0123456789ABCDEF";
        unsigned char c;

        if (r->pending_count > 0)
                return (unsigned char)r->pending[--r->pending_count];
        if (r->rest.len == 0)
                return RECODE_END;
        c = (unsigned char)r->rest.data[0];
        if (c == '%') {
                int high = r->rest.len > 2 ? s3_hex_value(r->rest.data[1]) : -1;
                int low = r->rest.len > 2 ? s3_hex_value(r->rest.data[2]) : -1;

                if (high < 0 || low < 0)
                        return RECODE_BAD;
                c = (unsigned char)(high << 4 | low);
                r->rest.data += 2;
                r->rest.len -= 2;
        } else if (c == '+' && r->query) {
                c = ' ';
        }
        r->rest.data++;
        r->rest.len--;
        if (s3_is((char)c, r->query ? S3_CLASS_UNRESERVED : S3_CLASS_PATH))
                return c;
        r->pending[0] = digits[c & 15];
        r->pending[1] = digits[c >> 4];
        r->pending_count = 2;
        return '%';
}

static int put_recoded(struct s3_sink *sink, struct s3_str raw, bool query)
{
        struct recoder r = {.rest = raw, .query = query};
        int c = 0;

        while (c >= 0) {
                size_t n = r.pending_count == 0 ? s3_span(r.rest, query ? S3_CLASS_UNRESERVED : S3_CLASS_PATH) : 0;

                if (n > 0) {
                        s3_sink_put(sink, r.rest.data, n);
                        r.rest.data += n;
                        r.rest.len -= n;
                }
                c = recode_next(&r);
                if (c >= 0)
                        put_byte(sink, (char)c);
        }
        return c == RECODE_BAD ? -EINVAL : 0;
}

/* ---- query ----------------------------------------------------------------------------------- */

struct piece {
        struct s3_str name, value; /* raw */
};

static int compare_recoded(struct s3_str a, struct s3_str b)
{
        struct recoder ra = {.rest = a, .query = true}, rb = {.rest = b, .query = true};
        size_t same = 0;
        int ca, cb;

        while (same < a.len && same < b.len && a.data[same] == b.data[same] && s3_is(a.data[same], S3_CLASS_UNRESERVED))
                same++;
        if (same > 0) { /* a value may be absent */
                ra.rest = (struct s3_str){a.data + same, a.len - same};
                rb.rest = (struct s3_str){b.data + same, b.len - same};
        }
        do {
                ca = recode_next(&ra);
                cb = recode_next(&rb);
        } while (ca == cb && ca >= 0);
        return ca - cb;
}

static int compare_pieces(const void *a, const void *b)
{
        const struct piece *pa = a, *pb = b;
        int order = compare_recoded(pa->name, pb->name);

        return order != 0 ? order : compare_recoded(pa->value, pb->value);
}

/* As they mostly come. */
static bool are_in_order(const struct piece *pieces, size_t count)
{
        for (size_t i = 1; i < count; i++)
                if (compare_pieces(&pieces[i - 1], &pieces[i]) > 0)
                        return false;
        return true;
}

static bool is_signature_param(struct s3_str raw_name)
{
        char name[sizeof("X-Amz-Signature")];
        int n = s3_percent_decode(raw_name, true, name, sizeof(name));

        return n >= 0 && s3_str_eq((struct s3_str){name, (size_t)n}, S3_STR("X-Amz-Signature"));
}

static int put_query(struct s3_sink *sink, struct s3_str raw, bool presigned)
{
        struct piece pieces[S3_QUERY_PARAMS_MAX];
        size_t count = 0;
        int rv = 0;

        while (raw.len > 0) {
                struct s3_str piece = s3_str_cut(raw, '&', &raw);
                struct s3_str value, name = s3_str_cut(piece, '=', &value);

                if (piece.len == 0 || (presigned && is_signature_param(name)))
                        continue;
                if (count == S3_QUERY_PARAMS_MAX)
                        return -EINVAL;
                pieces[count++] = (struct piece){name, value};
        }
        if (!are_in_order(pieces, count))
                qsort(pieces, count, sizeof(pieces[0]), compare_pieces);
        for (size_t i = 0; i < count && rv == 0; i++) {
                if (i > 0)
                        put_byte(sink, '&');
                rv = put_recoded(sink, pieces[i].name, true);
                put_byte(sink, '=');
                if (rv == 0)
                        rv = put_recoded(sink, pieces[i].value, true);
        }
        return rv;
}

/* ---- headers --------------------------------------------------------------------------------- */

/* Trimmed, runs of blanks made one space. */
static void put_value(struct s3_sink *sink, struct s3_str value)
{
        value = s3_str_trim(value);
        while (value.len > 0) {
                size_t n = 0;

                while (n < value.len && value.data[n] != ' ' && value.data[n] != '\t')
                        n++;
                put_str(sink, (struct s3_str){value.data, n});
                value.data += n;
                value.len -= n;
                if (value.len == 0)
                        break;
                put_byte(sink, ' ');
                while (value.len > 0 && (value.data[0] == ' ' || value.data[0] == '\t')) {
                        value.data++;
                        value.len--;
                }
        }
}

/* "name:value,value\n" of all fields of that name; one that is not there gives an empty value. */
static void put_header(struct s3_sink *sink, const struct s3_request *request, struct s3_str name)
{
        bool first = true;

        for (size_t i = 0; i < name.len; i++)
                put_byte(sink, s3_lower(name.data[i]));
        put_byte(sink, ':');
        for (size_t i = 0; i < request->header_count; i++) {
                if (!s3_str_eq_nocase(request->headers[i].name, name))
                        continue;
                if (!first)
                        put_byte(sink, ',');
                put_value(sink, request->headers[i].value);
                first = false;
        }
        put_byte(sink, '\n');
}

/*
 * The last line: the header as sent; presigned URLs may carry it as a parameter, and say
 * UNSIGNED-PAYLOAD without it.
 */
static void put_payload_hash(struct s3_sink *sink, const struct s3_request *request, const struct s3_auth *auth)
{
        struct s3_str value = s3_request_header(request, "x-amz-content-sha256");
        char hex[2 * S3_SHA256_LEN + 1];

        if (value.data != NULL) {
                put_str(sink, s3_str_trim(value));
        } else if (auth->payload == S3_PAYLOAD_SHA256) {
                s3_hex_encode(auth->payload_sha256, S3_SHA256_LEN, hex);
                s3_sink_put(sink, hex, 2 * S3_SHA256_LEN);
        } else {
                put_str(sink, S3_STR(S3_UNSIGNED_PAYLOAD));
        }
}

int s3_canonical_emit(const struct s3_request *request, const struct s3_auth *auth, struct s3_sink *sink)
{
        struct s3_str names = s3_str_of(auth->signed_headers), rest = names;
        int rv;

        put_str(sink, request->method);
        put_byte(sink, '\n');
        rv = put_recoded(sink, request->path, false);
        if (rv != 0)
                return rv;
        put_byte(sink, '\n');
        rv = put_query(sink, request->query, auth->kind == S3_AUTH_QUERY);
        if (rv != 0)
                return rv;
        put_byte(sink, '\n');
        while (rest.data != NULL)
                put_header(sink, request, s3_str_cut(rest, ';', &rest));
        put_byte(sink, '\n');
        put_str(sink, names);
        put_byte(sink, '\n');
        put_payload_hash(sink, request, auth);
        s3_sink_flush(sink);
        return 0;
}

struct s3_str s3_request_header(const struct s3_request *request, const char *name)
{
        struct s3_str wanted = s3_str_of(name);

        for (size_t i = 0; i < request->header_count; i++)
                if (s3_str_eq_nocase(request->headers[i].name, wanted))
                        return request->headers[i].value;
        return (struct s3_str){NULL, 0};
}
