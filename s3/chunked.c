/*
 * The aws-chunked decoder. The gateway feeds it what the HTTP library hands over, cut anywhere, on
 * the loop that owns the request; decoded bytes go out as slices of that input, so nothing is
 * copied but lines. A signed chunk is hashed as it passes and checked when its last byte is there,
 * before that last slice is handed out; nothing may be committed before s3_chunked_finish(). Memory
 * per body: about 2 KiB, and up to S3_TRAILER_BYTES_MAX while trailers are read (I9).
 *
 *   size[;chunk-signature=hex]CRLF data CRLF ... 0[;chunk-signature=hex]CRLF
 *   [name:valueCRLF ... [x-amz-trailer-signature:hexCRLF]] CRLF
 */
#include "sha256.h" /* first: it includes OpenSSL its own way */

#include <errno.h>
#include <stdlib.h>

/*
 * Moved only by chunked_enter(). AFTER takes one more CRLF, which some clients send.
 */
#define CHUNKED_STATES(X)                                                                                              \
        X(LINE)     /* reading a chunk's header line */                                                                \
        X(DATA)     /* chunk_left bytes of data to come */                                                             \
        X(DATA_END) /* the CRLF behind the data */                                                                     \
        X(TRAILER)  /* reading a trailer line, or the empty one */                                                     \
        X(AFTER)    /* whole */                                                                                        \
        X(FAILED)

enum chunked_state {
#define CHUNKED_STATE(name) CHUNKED_##name,
        CHUNKED_STATES(CHUNKED_STATE)
#undef CHUNKED_STATE
};

/* owner: the request it decodes for; one thread at a time. */
struct s3_chunked {
        enum chunked_state state;
        enum s3_error error; /* FAILED: why */
        const char *message;
        enum s3_payload form;
        bool any_chunk_size;
        bool had_short_chunk; /* one below S3_CHUNK_MIN: it must have been the last */
        bool skipped_blank;   /* the empty line some clients put before the trailer's signature */
        bool trailer_signed;  /* its signature came and was right */
        bool bare_lf;         /* the trailer line before ended in LF alone */
        uint64_t expected;    /* x-amz-decoded-content-length or S3_LENGTH_UNKNOWN */
        uint64_t announced;   /* bytes of all chunks whose header was read */
        uint64_t handed_out;
        uint64_t chunk_left;
        struct s3_chunk_chain chain;          /* the signed forms */
        SHA256_CTX hash;                      /* of the chunk being read, then of the trailers */
        char signature[S3_SIGNATURE_LEN + 1]; /* the chunk's, as sent */
        unsigned declared;                    /* mask of checksums x-amz-trailer names */
        unsigned seen;                        /* mask of those that came */
        char *trailers;                       /* text of trailers kept; NULL until there is one */
        size_t trailer_bytes;                 /* of all trailer lines, for the bound */
        size_t trailer_used;
        unsigned trailer_lines, trailer_count;
        struct s3_header trailer[S3_TRAILER_LINES_MAX];
        size_t line_len;
        char line[S3_CHUNK_LINE_MAX];
};

static bool is_signed_form(const struct s3_chunked *dec)
{
        return dec->form == S3_PAYLOAD_SIGNED || dec->form == S3_PAYLOAD_SIGNED_TRAILER;
}

static bool is_trailer_form(const struct s3_chunked *dec)
{
        return dec->form == S3_PAYLOAD_SIGNED_TRAILER || dec->form == S3_PAYLOAD_UNSIGNED_TRAILER;
}

static void chunked_enter(struct s3_chunked *dec, enum chunked_state state)
{
        dec->state = state;
        dec->line_len = 0;
}

static enum s3_error chunked_fail(struct s3_chunked *dec, enum s3_error error, const char *message)
{
        dec->error = error;
        dec->message = message;
        chunked_enter(dec, CHUNKED_FAILED);
        return error;
}

static enum s3_error fail_framing(struct s3_chunked *dec)
{
        return chunked_fail(dec, S3_ERR_INCOMPLETE_BODY,
                            "The request body terminated unexpectedly or is not aws-chunked.");
}

/* ---- making ---------------------------------------------------------------------------------- */

static enum s3_error parse_declared(struct s3_chunked *dec, struct s3_str names)
{
        if (names.data != NULL && !is_trailer_form(dec))
                return S3_ERR_INVALID_REQUEST;
        while (names.data != NULL) {
                struct s3_str name = s3_str_trim(s3_str_cut(names, ',', &names));
                enum s3_checksum kind;

                if (s3_checksum_by_header(name, &kind) != 0)
                        return S3_ERR_INVALID_REQUEST;
                dec->declared |= S3_CHECKSUM_BIT(kind);
        }
        return S3_OK;
}

enum s3_error s3_chunked_new(const struct s3_chunked_params *params, struct s3_chunked **out)
{
        struct s3_chunked *dec = calloc(1, sizeof(*dec));
        enum s3_error error;

        if (dec == NULL)
                return S3_ERR_INTERNAL_ERROR;
        dec->form = params->form;
        dec->expected = params->decoded_length;
        dec->any_chunk_size = params->any_chunk_size;
        error = parse_declared(dec, params->trailers);
        if (error == S3_OK && is_signed_form(dec) && params->chain == NULL)
                error = S3_ERR_ACCESS_DENIED; /* an anonymous request cannot have signed chunks */
        if (error != S3_OK) {
                free(dec);
                return error;
        }
        if (is_signed_form(dec))
                dec->chain = *params->chain;
        chunked_enter(dec, CHUNKED_LINE);
        *out = dec;
        return S3_OK;
}

void s3_chunked_free(struct s3_chunked *dec)
{
        if (dec == NULL)
                return;
        free(dec->trailers);
        free(dec);
}

/* ---- lines ----------------------------------------------------------------------------------- */

enum line_result { LINE_MORE, LINE_DONE, LINE_TOO_LONG };

/* Collects up to the next LF, which is taken off. *line lives until the next byte is collected. */
static enum line_result chunked_take_line(struct s3_chunked *dec, struct s3_str *in, struct s3_str *line)
{
        const char *end = memchr(in->data, '\n', in->len);
        size_t n = end != NULL ? (size_t)(end - in->data) : in->len;

        if (n > sizeof(dec->line) - dec->line_len)
                return LINE_TOO_LONG;
        memcpy(dec->line + dec->line_len, in->data, n);
        dec->line_len += n;
        n += end != NULL;
        in->data += n;
        in->len -= n;
        if (end == NULL)
                return LINE_MORE;
        *line = (struct s3_str){dec->line, dec->line_len};
        dec->line_len = 0;
        return LINE_DONE;
}

static bool parse_size(struct s3_str digits, uint64_t *out)
{
        uint64_t size = 0;

        if (digits.len == 0 || digits.len > 16)
                return false;
        for (size_t i = 0; i < digits.len; i++) {
                int value = s3_hex_value(digits.data[i]);

                if (value < 0)
                        return false;
                size = size << 4 | (uint64_t)value;
        }
        *out = size;
        return true;
}

/*
 * The part behind the size. Signed forms: "chunk-signature=" and 64 hex digits, nothing else;
 * absent for the others.
 */
static bool take_extension(struct s3_chunked *dec, struct s3_str extension)
{
        struct s3_str wanted = S3_STR("chunk-signature=");

        if (!is_signed_form(dec))
                return extension.data == NULL || dec->form != S3_PAYLOAD_UNSIGNED_TRAILER;
        if (!s3_str_starts(extension, wanted) || extension.len != wanted.len + S3_SIGNATURE_LEN)
                return false;
        memcpy(dec->signature, extension.data + wanted.len, S3_SIGNATURE_LEN);
        return true;
}

/* The chunk's data has gone through dec->hash: does it have the signature its header gave? */
static bool chunk_signature_right(struct s3_chunked *dec)
{
        uint8_t digest[S3_SHA256_LEN];

        if (!is_signed_form(dec))
                return true;
        SHA256_Final(digest, &dec->hash);
        s3_chunk_sign(&dec->chain, digest);
        return s3_equal_secret(dec->chain.previous, dec->signature, S3_SIGNATURE_LEN);
}

static enum s3_error on_chunk_line(struct s3_chunked *dec, struct s3_str line)
{
        struct s3_str extension, digits;
        uint64_t size;

        if (line.len == 0 || line.data[line.len - 1] != '\r')
                return fail_framing(dec);
        line.len--;
        digits = s3_str_cut(line, ';', &extension);
        if (!parse_size(digits, &size) || !take_extension(dec, extension))
                return fail_framing(dec);
        if (size > S3_CHUNK_MAX)
                return chunked_fail(dec, S3_ERR_ENTITY_TOO_LARGE, NULL);
        if (size > 0 && dec->had_short_chunk && !dec->any_chunk_size)
                return chunked_fail(dec, S3_ERR_INVALID_CHUNK_SIZE, NULL);
        dec->had_short_chunk = size < S3_CHUNK_MIN;
        dec->announced += size;
        if (dec->announced > dec->expected ||
            (size == 0 && dec->expected != S3_LENGTH_UNKNOWN && dec->announced != dec->expected))
                return chunked_fail(
                        dec, S3_ERR_INCOMPLETE_BODY,
                        "You did not provide the number of bytes specified by x-amz-decoded-content-length.");
        SHA256_Init(&dec->hash);
        dec->chunk_left = size;
        if (size > 0) {
                chunked_enter(dec, CHUNKED_DATA);
                return S3_OK;
        }
        if (!chunk_signature_right(dec))
                return chunked_fail(dec, S3_ERR_SIGNATURE_MISMATCH, NULL);
        SHA256_Init(&dec->hash);
        chunked_enter(dec, CHUNKED_TRAILER);
        return S3_OK;
}

/* ---- trailers -------------------------------------------------------------------------------- */

static enum s3_error fail_trailer(struct s3_chunked *dec)
{
        return chunked_fail(dec, S3_ERR_MALFORMED_TRAILER, NULL);
}

/* The empty line: all that was declared, and the signature, must have come. */
static enum s3_error on_trailers_end(struct s3_chunked *dec)
{
        if (dec->form == S3_PAYLOAD_SIGNED_TRAILER && !dec->trailer_signed) {
                if (dec->skipped_blank || dec->trailer_lines == 0)
                        return fail_trailer(dec);
                dec->skipped_blank = true;
                return S3_OK;
        }
        if (dec->seen != dec->declared)
                return fail_trailer(dec);
        chunked_enter(dec, CHUNKED_AFTER);
        return S3_OK;
}

static enum s3_error on_trailer_signature(struct s3_chunked *dec, struct s3_str value)
{
        uint8_t digest[S3_SHA256_LEN];

        if (dec->form != S3_PAYLOAD_SIGNED_TRAILER)
                return fail_trailer(dec);
        SHA256_Final(digest, &dec->hash);
        s3_trailer_sign(&dec->chain, digest);
        if (value.len != S3_SIGNATURE_LEN || !s3_equal_secret(dec->chain.previous, value.data, S3_SIGNATURE_LEN))
                return chunked_fail(dec, S3_ERR_SIGNATURE_MISMATCH, NULL);
        dec->trailer_signed = true;
        return S3_OK;
}

/* Keeps a trailer: its name in lower case and its value, NUL behind both. The bound was checked. */
static void keep_trailer(struct s3_chunked *dec, struct s3_str name, struct s3_str value)
{
        struct s3_header *kept = &dec->trailer[dec->trailer_count++];
        char *p = dec->trailers + dec->trailer_used;

        kept->name = (struct s3_str){p, name.len};
        for (size_t i = 0; i < name.len; i++)
                *p++ = s3_lower(name.data[i]);
        *p++ = '\0';
        kept->value = (struct s3_str){p, value.len};
        if (value.len > 0)
                memcpy(p, value.data, value.len);
        p += value.len;
        *p++ = '\0';
        dec->trailer_used = (size_t)(p - dec->trailers);
        SHA256_Update(&dec->hash, kept->name.data, kept->name.len);
        SHA256_Update(&dec->hash, ":", 1);
        SHA256_Update(&dec->hash, kept->value.data, kept->value.len);
        SHA256_Update(&dec->hash, "\n", 1);
}

static enum s3_error on_trailer_line(struct s3_chunked *dec, struct s3_str line)
{
        struct s3_str name, value;
        enum s3_checksum kind;

        bool crlf = line.len > 0 && line.data[line.len - 1] == '\r';

        line.len -= crlf;
        /*
         * AWS's own description has "name:value LF CR LF": there, before an empty line, and nowhere
         * else, LF ends a line.
         */
        if (line.len == 0 ? !crlf : dec->bare_lf)
                return fail_trailer(dec);
        dec->bare_lf = !crlf;
        if (line.len == 0)
                return on_trailers_end(dec);
        dec->trailer_bytes += line.len + 2;
        if (++dec->trailer_lines > S3_TRAILER_LINES_MAX || dec->trailer_bytes > S3_TRAILER_BYTES_MAX ||
            dec->trailer_signed)
                return fail_trailer(dec);
        name = s3_str_trim(s3_str_cut(line, ':', &value));
        if (value.data == NULL)
                return fail_trailer(dec);
        value = s3_str_trim(value);
        if (s3_str_eq_nocase(name, S3_STR("x-amz-trailer-signature")))
                return crlf ? on_trailer_signature(dec, value) : fail_trailer(dec);
        if (s3_checksum_by_header(name, &kind) != 0 || (dec->declared & ~dec->seen & S3_CHECKSUM_BIT(kind)) == 0)
                return fail_trailer(dec);
        dec->seen |= S3_CHECKSUM_BIT(kind);
        if (dec->trailers == NULL)
                dec->trailers = malloc(S3_TRAILER_BYTES_MAX);
        if (dec->trailers == NULL)
                return chunked_fail(dec, S3_ERR_INTERNAL_ERROR, NULL);
        keep_trailer(dec, name, value);
        return S3_OK;
}

/* ---- feeding --------------------------------------------------------------------------------- */

static enum s3_error step_line(struct s3_chunked *dec, struct s3_str *in)
{
        struct s3_str line;

        switch (chunked_take_line(dec, in, &line)) {
        case LINE_MORE:
                return S3_OK;
        case LINE_TOO_LONG:
                return dec->state == CHUNKED_TRAILER ? fail_trailer(dec) : fail_framing(dec);
        case LINE_DONE:
                break;
        }
        if (dec->state == CHUNKED_TRAILER)
                return on_trailer_line(dec, line);
        return on_chunk_line(dec, line);
}

static enum s3_error step_data(struct s3_chunked *dec, struct s3_str *in, struct s3_str *data)
{
        size_t n = in->len < dec->chunk_left ? in->len : (size_t)dec->chunk_left;

        if (is_signed_form(dec))
                SHA256_Update(&dec->hash, in->data, n);
        dec->chunk_left -= n;
        if (dec->chunk_left == 0) {
                if (!chunk_signature_right(dec))
                        return chunked_fail(dec, S3_ERR_SIGNATURE_MISMATCH, NULL);
                chunked_enter(dec, CHUNKED_DATA_END);
        }
        *data = (struct s3_str){in->data, n};
        dec->handed_out += n;
        in->data += n;
        in->len -= n;
        return S3_OK;
}

/* Takes what of a CRLF is still missing; line_len counts what came. */
static enum s3_error step_crlf(struct s3_chunked *dec, struct s3_str *in, bool again)
{
        static const char crlf[2] = {'\r', '\n'};

        while (in->len > 0 && dec->line_len < 2) {
                if (in->data[0] != crlf[dec->line_len])
                        return fail_framing(dec);
                dec->line_len++;
                in->data++;
                in->len--;
        }
        if (dec->line_len == 2 && again)
                chunked_enter(dec, CHUNKED_LINE);
        else if (dec->line_len == 2 && in->len > 0)
                return fail_framing(dec);
        return S3_OK;
}

enum s3_error s3_chunked_next(struct s3_chunked *dec, struct s3_str *in, struct s3_str *data)
{
        enum s3_error error = S3_OK;

        *data = (struct s3_str){NULL, 0};
        while (in->len > 0 && data->len == 0 && error == S3_OK) {
                switch (dec->state) {
                case CHUNKED_LINE:
                case CHUNKED_TRAILER:
                        error = step_line(dec, in);
                        break;
                case CHUNKED_DATA:
                        error = step_data(dec, in, data);
                        break;
                case CHUNKED_DATA_END:
                        error = step_crlf(dec, in, true);
                        break;
                case CHUNKED_AFTER:
                        error = step_crlf(dec, in, false);
                        break;
                case CHUNKED_FAILED:
                        error = dec->error;
                        break;
                }
        }
        return error;
}

enum s3_error s3_chunked_finish(struct s3_chunked *dec)
{
        if (dec->state == CHUNKED_FAILED)
                return dec->error;
        if (dec->state != CHUNKED_AFTER) /* trailers that end too soon are a body that does */
                return fail_framing(dec);
        return S3_OK;
}

/* ---- results --------------------------------------------------------------------------------- */

const char *s3_chunked_message(const struct s3_chunked *dec)
{
        return dec->message != NULL ? dec->message : s3_error_info(dec->error)->message;
}

uint64_t s3_chunked_decoded(const struct s3_chunked *dec)
{
        return dec->handed_out;
}

unsigned s3_chunked_trailer_count(const struct s3_chunked *dec)
{
        return dec->trailer_count;
}

struct s3_header s3_chunked_trailer(const struct s3_chunked *dec, unsigned index)
{
        return dec->trailer[index];
}
