/*
 * What a request says of its signature: the Authorization header or the X-Amz-... query parameters,
 * the date, and what kind of body follows. Called once per request by the gateway before anything
 * is verified: everything here is outside data, copied into fixed fields; what does not fit is
 * refused.
 */
#include "sigv4_internal.h" /* first: it includes OpenSSL its own way */

#include <errno.h>

/* Copies into a field of cap bytes and adds NUL. False: too long, or holds a NUL itself. */
static bool copy_field(struct s3_str value, char *out, size_t cap)
{
        if (value.len >= cap || (value.len > 0 && memchr(value.data, '\0', value.len) != NULL))
                return false;
        if (value.len > 0)
                memcpy(out, value.data, value.len);
        out[value.len] = '\0';
        return true;
}

/* ---- payload --------------------------------------------------------------------------------- */

static const struct {
        struct s3_str text;
        enum s3_payload payload;
} payload_names[] = {
        {{S3_UNSIGNED_PAYLOAD, sizeof(S3_UNSIGNED_PAYLOAD) - 1}, S3_PAYLOAD_UNSIGNED},
        {{S3_STREAMING_SIGNED, sizeof(S3_STREAMING_SIGNED) - 1}, S3_PAYLOAD_SIGNED},
        {{S3_STREAMING_SIGNED_TRAILER, sizeof(S3_STREAMING_SIGNED_TRAILER) - 1}, S3_PAYLOAD_SIGNED_TRAILER},
        {{S3_STREAMING_UNSIGNED_TRAILER, sizeof(S3_STREAMING_UNSIGNED_TRAILER) - 1}, S3_PAYLOAD_UNSIGNED_TRAILER},
};

static enum s3_auth_reason parse_payload(struct s3_str value, struct s3_auth *out)
{
        value = s3_str_trim(value);
        for (size_t i = 0; i < sizeof(payload_names) / sizeof(payload_names[0]); i++) {
                if (s3_str_eq(value, payload_names[i].text)) {
                        out->payload = payload_names[i].payload;
                        return S3_AUTH_OK;
                }
        }
        if (s3_str_starts(value, S3_STR("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD")))
                return S3_AUTH_SIGV4A_PAYLOAD;
        if (s3_hex_decode(value, out->payload_sha256, S3_SHA256_LEN) != 0)
                return S3_AUTH_BAD_CONTENT_SHA256;
        out->payload = S3_PAYLOAD_SHA256;
        return S3_AUTH_OK;
}

/* ---- credential ------------------------------------------------------------------------------ */

enum credential_fault { CREDENTIAL_OK, CREDENTIAL_BAD, CREDENTIAL_DATE, CREDENTIAL_SERVICE, CREDENTIAL_TERMINAL };

/* Keeps what the message shows. */
static void note_fault(struct s3_str text, struct s3_auth *out)
{
        if (text.len >= sizeof(out->fault))
                text.len = sizeof(out->fault) - 1;
        copy_field(text, out->fault, sizeof(out->fault));
}

static enum credential_fault fault_at(enum credential_fault fault, struct s3_str text, struct s3_auth *out)
{
        note_fault(text, out);
        return fault;
}

/* Takes the last "/..." off s. */
static bool cut_last(struct s3_str *s, struct s3_str *last)
{
        for (size_t i = s->len; i > 0; i--) {
                if (s->data[i - 1] == '/') {
                        *last = (struct s3_str){s->data + i, s->len - i};
                        s->len = i - 1;
                        return true;
                }
        }
        return false;
}

static bool is_scope_date(struct s3_str date)
{
        if (date.len != 8)
                return false;
        for (size_t i = 0; i < 8; i++)
                if (!s3_is_digit(date.data[i]))
                        return false;
        return true;
}

/* expected: "s3", or "" for those whose requests are forms. */
static bool is_service(struct s3_str service, const char *expected)
{
        if (*expected != '\0')
                return s3_str_eq(service, s3_str_of(expected));
        return s3_str_eq(service, S3_STR("iam")) || s3_str_eq(service, S3_STR("sts"));
}

/*
 * "access-key/yyyymmdd/region/service/aws4_request"; read from its end, since an access key may
 * hold slashes.
 */
static enum credential_fault parse_credential(struct s3_str text, struct s3_auth *out)
{
        struct s3_str terminal, service, region, date;

        if (!cut_last(&text, &terminal) || !cut_last(&text, &service) || !cut_last(&text, &region) ||
            !cut_last(&text, &date) || text.len == 0)
                return CREDENTIAL_BAD;
        if (!copy_field(text, out->access_key, sizeof(out->access_key)) ||
            !copy_field(region, out->region, sizeof(out->region)))
                return CREDENTIAL_BAD;
        if (!s3_str_eq(terminal, S3_STR("aws4_request")))
                return fault_at(CREDENTIAL_TERMINAL, terminal, out);
        if (!is_scope_date(date))
                return fault_at(CREDENTIAL_DATE, date, out);
        copy_field(date, out->scope_date, sizeof(out->scope_date));
        if (!is_service(service, out->service))
                return fault_at(CREDENTIAL_SERVICE, service, out);
        copy_field(service, out->service, sizeof(out->service));
        return CREDENTIAL_OK;
}

static enum s3_auth_reason credential_reason(enum credential_fault fault, bool query)
{
        switch (fault) {
        case CREDENTIAL_OK:
                return S3_AUTH_OK;
        case CREDENTIAL_BAD:
                return query ? S3_AUTH_Q_CREDENTIAL : S3_AUTH_BAD_CREDENTIAL;
        case CREDENTIAL_DATE:
                return query ? S3_AUTH_Q_SCOPE_DATE : S3_AUTH_BAD_SCOPE_DATE;
        case CREDENTIAL_SERVICE:
                return query ? S3_AUTH_Q_WRONG_SERVICE : S3_AUTH_WRONG_SERVICE;
        case CREDENTIAL_TERMINAL:
                break;
        }
        return query ? S3_AUTH_Q_WRONG_TERMINAL : S3_AUTH_WRONG_TERMINAL;
}

enum s3_auth_reason s3_auth_credential(struct s3_str text, struct s3_auth *out)
{
        return credential_reason(parse_credential(text, out), true);
}

/* Keeps a signature only if it can be one; an empty one matches nothing. */
static void copy_signature(struct s3_str value, struct s3_auth *out)
{
        uint8_t scratch[S3_SHA256_LEN];

        if (s3_hex_decode(value, scratch, sizeof(scratch)) == 0)
                copy_field(value, out->signature, sizeof(out->signature));
}

/*
 * Work on a request grows with names times headers, before anybody has proved a secret: the list is
 * bounded and names nothing twice. Real ones hold a dozen names; metadata of many small entries, a
 * hundred.
 */
#define SIGNED_NAMES_MAX 128u

static enum s3_auth_reason check_signed_names(const char *list, enum s3_auth_reason duplicate)
{
        struct s3_str names[SIGNED_NAMES_MAX], rest = s3_str_of(list);
        size_t count = 0;

        while (rest.data != NULL) {
                struct s3_str name = s3_str_cut(rest, ';', &rest);

                if (count == SIGNED_NAMES_MAX)
                        return S3_AUTH_TOO_LARGE;
                for (size_t i = 0; i < count; i++)
                        if (s3_str_eq_nocase(names[i], name))
                                return duplicate;
                names[count++] = name;
        }
        return S3_AUTH_OK;
}

/* ---- the Authorization header ---------------------------------------------------------------- */

struct header_fields {
        struct s3_str credential, signed_headers, signature;
};

/* "Credential=..., SignedHeaders=..., Signature=..." in any order, blanks around anything. */
static enum s3_auth_reason split_fields(struct s3_str rest, struct header_fields *fields, struct s3_auth *out)
{
        enum s3_auth_reason reason = S3_AUTH_OK;
        unsigned count = 0;

        while (rest.data != NULL) {
                struct s3_str piece = s3_str_trim(s3_str_cut(rest, ',', &rest));
                struct s3_str value, name, other = {NULL, 0}, *field = &other;

                if (piece.len == 0)
                        continue;
                count++;
                name = s3_str_trim(s3_str_cut(piece, '=', &value));
                if (s3_str_eq(name, S3_STR("Credential")))
                        field = &fields->credential;
                else if (s3_str_eq(name, S3_STR("SignedHeaders")))
                        field = &fields->signed_headers;
                else if (s3_str_eq(name, S3_STR("Signature")))
                        field = &fields->signature;
                if (value.data == NULL || field->data != NULL) {
                        note_fault(piece, out);
                        return S3_AUTH_BAD_HEADER_FIELD;
                }
                if (field == &other) { /* one that is missing comes first */
                        note_fault(piece, out);
                        reason = S3_AUTH_BAD_HEADER_FIELD;
                }
                *field = s3_str_trim(value);
        }
        if (count < 3)
                return S3_AUTH_NO_COMPONENTS;
        if (fields->credential.data == NULL)
                return S3_AUTH_NO_CREDENTIAL;
        if (fields->signed_headers.len == 0)
                return S3_AUTH_NO_SIGNED_HEADERS;
        if (fields->signature.len == 0)
                return S3_AUTH_NO_SIGNATURE;
        return reason;
}

/* x-amz-date (ISO 8601 basic, or an HTTP date as some old clients send), else Date. */
static enum s3_auth_reason parse_header_date(const struct s3_request *request, struct s3_auth *out)
{
        struct s3_str value = s3_request_header(request, "x-amz-date");

        if (value.data == NULL)
                value = s3_request_header(request, "date");
        value = s3_str_trim(value);
        if (s3_date_parse_amz(value, &out->time_ms) != 0 && s3_date_parse_http(value, &out->time_ms) != 0)
                return S3_AUTH_NO_DATE;
        s3_date_format_amz(out->time_ms, out->amz_date);
        return S3_AUTH_OK;
}

static enum s3_auth_reason check_algorithm(struct s3_str algorithm)
{
        if (s3_str_eq(algorithm, S3_STR("AWS4-HMAC-SHA256")))
                return S3_AUTH_OK;
        if (s3_str_eq(algorithm, S3_STR("AWS")) || s3_str_starts(algorithm, S3_STR("AWS4-")))
                return S3_AUTH_UNSUPPORTED_VERSION;
        return S3_AUTH_UNSUPPORTED_TYPE;
}

static enum s3_auth_reason parse_header(const struct s3_request *request, struct s3_str value, struct s3_auth *out)
{
        struct header_fields fields = {0};
        struct s3_str rest, algorithm;
        enum s3_auth_reason reason;

        algorithm = s3_str_cut(s3_str_trim(value), ' ', &rest);
        if (rest.data == NULL)
                return S3_AUTH_NO_SPACE;
        reason = check_algorithm(algorithm);
        if (reason == S3_AUTH_OK)
                reason = split_fields(rest, &fields, out);
        if (reason != S3_AUTH_OK)
                return reason;
        reason = credential_reason(parse_credential(fields.credential, out), false);
        if (reason != S3_AUTH_OK)
                return reason;
        if (!copy_field(fields.signed_headers, out->signed_headers, sizeof(out->signed_headers)))
                return S3_AUTH_TOO_LARGE;
        reason = check_signed_names(out->signed_headers, S3_AUTH_BAD_HEADER_FIELD);
        if (reason != S3_AUTH_OK)
                return reason;
        copy_signature(fields.signature, out);
        return parse_header_date(request, out);
}

/* ---- the query form -------------------------------------------------------------------------- */

enum query_field {
        Q_ALGORITHM,
        Q_CREDENTIAL,
        Q_DATE,
        Q_EXPIRES,
        Q_SIGNED_HEADERS,
        Q_SIGNATURE,
        Q_REQUIRED,
        Q_TOKEN = Q_REQUIRED,
        Q_SHA256,
        Q_FIELDS
};

#define NAME(text)                                                                                                     \
        {                                                                                                              \
                text, sizeof(text) - 1                                                                                 \
        }
static const struct s3_str query_names[Q_FIELDS] = {
        [Q_ALGORITHM] = NAME("X-Amz-Algorithm"),
        [Q_CREDENTIAL] = NAME("X-Amz-Credential"),
        [Q_DATE] = NAME("X-Amz-Date"),
        [Q_EXPIRES] = NAME("X-Amz-Expires"),
        [Q_SIGNED_HEADERS] = NAME("X-Amz-SignedHeaders"),
        [Q_SIGNATURE] = NAME("X-Amz-Signature"),
        [Q_TOKEN] = NAME("X-Amz-Security-Token"),
        [Q_SHA256] = NAME("X-Amz-Content-Sha256"),
};
#undef NAME

struct query_fields {
        struct s3_str raw[Q_FIELDS]; /* still encoded; absent where not given */
        bool duplicate;
};

static void find_query_fields(struct s3_str query, struct query_fields *fields)
{
        *fields = (struct query_fields){0};
        while (query.len > 0) {
                struct s3_str piece = s3_str_cut(query, '&', &query), value, raw_name = s3_str_cut(piece, '=', &value);
                char buf[32];
                int n = s3_percent_decode(raw_name, true, buf, sizeof(buf));
                struct s3_str name = {buf, n > 0 ? (size_t)n : 0};

                if (name.len == 0)
                        continue;
                for (int i = 0; i < Q_FIELDS; i++) {
                        if (!s3_str_eq(name, query_names[i]))
                                continue;
                        fields->duplicate = fields->duplicate || fields->raw[i].data != NULL;
                        fields->raw[i] = value.data != NULL ? value : S3_STR("");
                }
        }
}

static bool decode_query(struct s3_str raw, char *buf, size_t cap, struct s3_str *out)
{
        int n = s3_percent_decode(raw, true, buf, cap);

        *out = (struct s3_str){buf, n > 0 ? (size_t)n : 0};
        return n >= 0;
}

static enum s3_auth_reason parse_expires(struct s3_str raw, struct s3_auth *out)
{
        char buf[32];
        struct s3_str text;
        uint64_t seconds;
        int rv;

        if (raw.data == NULL) { /* of a form it may be left out */
                out->expires_s = S3_FORM_EXPIRES_MAX;
                return S3_AUTH_OK;
        }
        if (!decode_query(raw, buf, sizeof(buf), &text))
                return S3_AUTH_Q_EXPIRES_NUMBER;
        if (text.len > 1 && text.data[0] == '-' &&
            s3_parse_uint((struct s3_str){text.data + 1, text.len - 1}, UINT64_MAX, &seconds) != -EINVAL)
                return S3_AUTH_Q_EXPIRES_NEGATIVE;
        rv = s3_parse_uint(text, S3_EXPIRES_MAX, &seconds);
        if (rv != 0)
                return rv == -ERANGE ? S3_AUTH_Q_EXPIRES_MAX : S3_AUTH_Q_EXPIRES_NUMBER;
        if (strcmp(out->service, "s3") != 0 && seconds > S3_FORM_EXPIRES_MAX)
                seconds = S3_FORM_EXPIRES_MAX;
        out->expires_s = (uint32_t)seconds;
        return S3_AUTH_OK;
}

static enum s3_auth_reason parse_query_values(const struct query_fields *fields, struct s3_auth *out)
{
        char buf[512];
        struct s3_str text;
        enum s3_auth_reason reason;
        int n;

        if (!decode_query(fields->raw[Q_ALGORITHM], buf, sizeof(buf), &text))
                return S3_AUTH_Q_ALGORITHM;
        if (s3_str_eq(text, S3_STR("AWS4-ECDSA-P256-SHA256")))
                return S3_AUTH_SIGV4A;
        if (!s3_str_eq(text, S3_STR("AWS4-HMAC-SHA256")))
                return S3_AUTH_Q_ALGORITHM;
        if (!decode_query(fields->raw[Q_CREDENTIAL], buf, sizeof(buf), &text))
                return S3_AUTH_Q_CREDENTIAL;
        reason = s3_auth_credential(text, out);
        if (reason != S3_AUTH_OK)
                return reason;
        if (!decode_query(fields->raw[Q_DATE], buf, sizeof(buf), &text) || s3_date_parse_amz(text, &out->time_ms) != 0)
                return S3_AUTH_Q_DATE;
        s3_date_format_amz(out->time_ms, out->amz_date);
        reason = parse_expires(fields->raw[Q_EXPIRES], out);
        if (reason != S3_AUTH_OK)
                return reason;
        n = s3_percent_decode(fields->raw[Q_SIGNED_HEADERS], true, out->signed_headers,
                              sizeof(out->signed_headers) - 1);
        if (n < 0 || memchr(out->signed_headers, '\0', (size_t)n) != NULL)
                return n == -ENOBUFS ? S3_AUTH_TOO_LARGE : S3_AUTH_BAD_URI;
        out->signed_headers[n] = '\0';
        reason = check_signed_names(out->signed_headers, S3_AUTH_Q_DUPLICATE);
        if (reason != S3_AUTH_OK)
                return reason;
        if (decode_query(fields->raw[Q_SIGNATURE], buf, sizeof(buf), &text))
                copy_signature(text, out);
        return S3_AUTH_OK;
}

static enum s3_auth_reason parse_query(const struct query_fields *fields, struct s3_auth *out)
{
        enum s3_auth_reason reason;

        bool of_form = *out->service == '\0';

        for (int i = 0; i < Q_REQUIRED; i++)
                if (fields->raw[i].len == 0 && !(of_form && i == Q_EXPIRES && fields->raw[i].data == NULL))
                        return S3_AUTH_Q_MISSING;
        if (fields->duplicate)
                return S3_AUTH_Q_DUPLICATE;
        reason = parse_query_values(fields, out);
        if (fields->raw[Q_TOKEN].data != NULL) {
                out->token = out->has_token ? (struct s3_str){NULL, 0} : fields->raw[Q_TOKEN];
                out->token_encoded = true;
                out->has_token = true;
        }
        return reason;
}

/* ---- both ------------------------------------------------------------------------------------ */

static bool is_query_form(const struct query_fields *fields)
{
        return fields->raw[Q_ALGORITHM].data != NULL || fields->raw[Q_CREDENTIAL].data != NULL ||
               fields->raw[Q_SIGNATURE].data != NULL;
}

/*
 * The header counts where it is there; presigned URLs may have it as a parameter; a signed header
 * form must have it.
 */
static enum s3_auth_reason find_payload(const struct s3_request *request, const struct query_fields *fields,
                                        struct s3_auth *out)
{
        struct s3_str value = s3_request_header(request, "x-amz-content-sha256"), text;
        char buf[128];

        out->payload = S3_PAYLOAD_UNSIGNED;
        if (value.data != NULL)
                return parse_payload(value, out);
        if (out->kind != S3_AUTH_ANONYMOUS && strcmp(out->service, "s3") != 0) {
                out->payload = S3_PAYLOAD_SHA256;
                return S3_AUTH_OK;
        }
        if (out->kind == S3_AUTH_HEADER)
                return S3_AUTH_NO_CONTENT_SHA256;
        if (out->kind == S3_AUTH_ANONYMOUS || fields->raw[Q_SHA256].data == NULL)
                return S3_AUTH_OK;
        if (!decode_query(fields->raw[Q_SHA256], buf, sizeof(buf), &text))
                return S3_AUTH_BAD_CONTENT_SHA256;
        return parse_payload(text, out);
}

/* Two of them would be a choice, and none is made. */
static void find_header_token(const struct s3_request *request, struct s3_auth *out)
{
        for (size_t i = 0; i < request->header_count; i++) {
                if (!s3_str_eq_nocase(request->headers[i].name, S3_STR("x-amz-security-token")))
                        continue;
                out->token = out->has_token ? (struct s3_str){NULL, 0} : s3_str_trim(request->headers[i].value);
                out->has_token = true;
        }
}

static enum s3_auth_reason parse_auth(const struct s3_request *request, const char *service, struct s3_auth *out)
{
        struct query_fields fields;
        struct s3_str authorization = {NULL, 0};
        enum s3_auth_reason reason = S3_AUTH_OK;
        unsigned count = 0;
        bool version_2;

        *out = (struct s3_auth){.kind = S3_AUTH_ANONYMOUS, .payload = S3_PAYLOAD_UNSIGNED};
        memcpy(out->service, service, strlen(service) + 1);
        for (size_t i = 0; i < request->header_count; i++) {
                if (s3_str_eq_nocase(request->headers[i].name, S3_STR("authorization"))) {
                        authorization = request->headers[i].value;
                        count++;
                }
        }
        find_query_fields(request->query, &fields);
        version_2 = s3_auth_parse_v2(request->query, out, &reason);
        if (count > 1)
                return S3_AUTH_BAD_HEADER_FIELD;
        if (s3_str_trim(authorization).len == 0)
                count = 0; /* says nothing: as good as none */
        if (count + is_query_form(&fields) + version_2 > 1)
                return S3_AUTH_BOTH_FORMS;
        find_header_token(request, out);
        if (count == 1) {
                out->kind = S3_AUTH_HEADER;
                reason = parse_header(request, authorization, out);
        } else if (is_query_form(&fields)) {
                out->kind = S3_AUTH_QUERY;
                reason = parse_query(&fields, out);
        }
        return reason != S3_AUTH_OK ? reason : find_payload(request, &fields, out);
}

enum s3_auth_reason s3_auth_parse(const struct s3_request *request, struct s3_auth *out)
{
        return parse_auth(request, "s3", out);
}

enum s3_auth_reason s3_auth_parse_service(const struct s3_request *request, struct s3_auth *out)
{
        return parse_auth(request, "", out);
}
