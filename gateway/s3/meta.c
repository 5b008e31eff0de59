/*
 * meta.c - headers and checksum of an object to the bytes the engine keeps for us, and back. Pure;
 * any thread.
 *
 * attrs_format.h draws the bytes. Stored numbers and those of the program meet in tables here and
 * nowhere else. Bytes come back through the engine's checksums, yet are read as outside data.
 */
#include "gateway/s3/meta.h"

#include "gateway/s3/attrs_format.h"

#include <errno.h>
#include <string.h>

#define RECORD_HEAD   sizeof(struct gw_fmt_record)
#define CHECKSUM_HEAD sizeof(struct gw_fmt_checksum)
#define USER_HEAD     sizeof(struct gw_fmt_user)

static const char user_prefix[] = "x-amz-meta-";

static const struct {
        uint8_t tag;
        const char *header;
} fields[] = {
#define FIELD(name, header) {GW_FMT_##name, header},
        GW_META_FIELDS(FIELD)
#undef FIELD
};

static const struct {
        uint8_t number; /* as stored */
        const char *name;
} storages[GW_STORAGE_CLASSES] = {
        [GW_STANDARD] = {GW_FMT_STANDARD, "STANDARD"},
        [GW_REDUCED_REDUNDANCY] = {GW_FMT_REDUCED_REDUNDANCY, "REDUCED_REDUNDANCY"},
        [GW_STANDARD_IA] = {GW_FMT_STANDARD_IA, "STANDARD_IA"},
        [GW_ONEZONE_IA] = {GW_FMT_ONEZONE_IA, "ONEZONE_IA"},
        [GW_INTELLIGENT_TIERING] = {GW_FMT_INTELLIGENT_TIERING, "INTELLIGENT_TIERING"},
        [GW_GLACIER_IR] = {GW_FMT_GLACIER_IR, "GLACIER_IR"},
};

/* As stored. */
static const uint8_t kinds[S3_CHECKSUM_KINDS] = {
        [S3_CRC32] = GW_FMT_CRC32, [S3_CRC32C] = GW_FMT_CRC32C, [S3_CRC64NVME] = GW_FMT_CRC64NVME,
        [S3_SHA1] = GW_FMT_SHA1,   [S3_SHA256] = GW_FMT_SHA256, [S3_SHA512] = GW_FMT_SHA512,
        [S3_MD5] = GW_FMT_MD5,     [S3_XXHASH64] = GW_FMT_XXHASH64, [S3_XXHASH3] = GW_FMT_XXHASH3,
        [S3_XXHASH128] = GW_FMT_XXHASH128,
};
static const uint8_t types[] = {[S3_FULL_OBJECT] = GW_FMT_FULL_OBJECT, [S3_COMPOSITE] = GW_FMT_COMPOSITE};
#define TYPES (sizeof(types) / sizeof(types[0]))

static_assert(S3_CHECKSUM_KINDS == 10 && GW_STORAGE_CLASSES == 6 && TYPES == 2,
              "give what is new a number in attrs_format.h and a place above");

/* ---- stored numbers and the program's -------------------------------------------------------- */

static bool find_number(const uint8_t *numbers, unsigned count, uint8_t number, unsigned *out)
{
        for (*out = 0; *out < count; (*out)++)
                if (numbers[*out] == number)
                        return true;
        return false;
}

static bool kind_of(uint8_t number, enum s3_checksum *out)
{
        unsigned kind;

        if (!find_number(kinds, S3_CHECKSUM_KINDS, number, &kind))
                return false;
        *out = (enum s3_checksum)kind;
        return true;
}

static bool type_of(uint8_t number, enum s3_checksum_type *out)
{
        unsigned type;

        if (!find_number(types, TYPES, number, &type))
                return false;
        *out = (enum s3_checksum_type)type;
        return true;
}

static bool storage_of(uint8_t number, enum gw_storage_class *out)
{
        for (unsigned i = 0; i < GW_STORAGE_CLASSES; i++) {
                if (storages[i].number == number) {
                        *out = (enum gw_storage_class)i;
                        return true;
                }
        }
        return false;
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *gw_meta_header(enum gw_meta_field field)
{
        return fields[field].header;
}

const char *gw_storage_name(enum gw_storage_class storage)
{
        return storages[storage].name;
}

int gw_storage_parse(struct s3_str name, enum gw_storage_class *out)
{
        for (unsigned i = 0; i < GW_STORAGE_CLASSES; i++) {
                if (s3_str_eq(name, s3_str_of(storages[i].name))) {
                        *out = (enum gw_storage_class)i;
                        return 0;
                }
        }
        return -EINVAL;
}

/* ---- from headers ---------------------------------------------------------------------------- */

static enum s3_error add_user(struct gw_meta *meta, struct s3_str name, struct s3_str value, size_t *bytes)
{
        size_t prefix = sizeof(user_prefix) - 1;

        *bytes += name.len - prefix + value.len;
        if (*bytes > GW_META_USER_BYTES || meta->user_count == GW_META_USER_MAX)
                return S3_ERR_METADATA_TOO_LARGE;
        meta->user[meta->user_count++] =
                (struct s3_header){{name.data + prefix, name.len - prefix}, s3_str_trim(value)};
        return S3_OK;
}

/* A header of its own that says aws-chunked takes nothing from what another one says. */
static bool says_nothing(unsigned field, struct s3_str value)
{
        return field == GW_META_CONTENT_ENCODING && s3_str_eq_nocase(value, S3_STR("aws-chunked"));
}

static bool add_field(struct gw_meta *meta, const struct s3_header *header)
{
        struct s3_str value = s3_str_trim(header->value);

        for (unsigned f = 0; f < GW_META_FIELD_COUNT; f++) {
                if (!s3_str_eq_nocase(header->name, s3_str_of(fields[f].header)))
                        continue;
                if (meta->field[f].len == 0 || !says_nothing(f, value))
                        meta->field[f] = value;
                return true;
        }
        return false;
}

static bool redirect_fine(struct s3_str location)
{
        return location.data == NULL || s3_str_starts(location, S3_STR("/")) ||
               s3_str_starts(location, S3_STR("http://")) || s3_str_starts(location, S3_STR("https://"));
}

enum s3_error gw_meta_of_headers(const struct s3_header *headers, unsigned count, struct gw_meta *out)
{
        size_t bytes = 0;
        enum s3_error error;

        memset(out, 0, offsetof(struct gw_meta, user));
        for (unsigned i = 0; i < count; i++) {
                struct s3_str name = headers[i].name;

                if (s3_str_starts_nocase(name, ((struct s3_str){user_prefix, sizeof(user_prefix) - 1}))) {
                        error = add_user(out, name, headers[i].value, &bytes);
                        if (error != S3_OK)
                                return error;
                } else if (s3_str_eq_nocase(name, S3_STR("x-amz-storage-class"))) {
                        if (gw_storage_parse(s3_str_trim(headers[i].value), &out->storage) != 0)
                                return S3_ERR_INVALID_STORAGE_CLASS;
                } else {
                        add_field(out, &headers[i]);
                }
        }
        if (!redirect_fine(out->field[GW_META_REDIRECT]))
                return S3_ERR_INVALID_REDIRECT;
        if (out->field[GW_META_CONTENT_TYPE].len == 0)
                out->field[GW_META_CONTENT_TYPE] = S3_STR("binary/octet-stream");
        return S3_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct writer {
        uint8_t *out;
        size_t len, cap;
        bool full;
};

static void put_record_bytes(struct writer *w, const void *data, size_t len)
{
        if (w->full || w->cap - w->len < len) {
                w->full = true;
                return;
        }
        if (len > 0)
                memcpy(w->out + w->len, data, len);
        w->len += len;
}

static void put_record_head(struct writer *w, uint8_t tag, size_t len)
{
        struct gw_fmt_record head = {tag, {(uint8_t)len, (uint8_t)(len >> 8)}};

        if (len > UINT16_MAX)
                w->full = true;
        put_record_bytes(w, &head, sizeof(head));
}

static void put_lower(struct writer *w, struct s3_str text)
{
        for (size_t i = 0; i < text.len; i++) {
                char c = text.data[i];

                if (c >= 'A' && c <= 'Z')
                        c = (char)(c + 32);
                put_record_bytes(w, &c, 1);
        }
}

/*
 * Content-Encoding without aws-chunked, which speaks of the request only. What else is named stays
 * as it was written, with the blanks before each name.
 */
static void put_encoding(struct writer *w, struct s3_str value)
{
        size_t start = w->len;
        size_t at = 0;

        put_record_head(w, fields[GW_META_CONTENT_ENCODING].tag, 0);
        while (at <= value.len) {
                const char *comma = memchr(value.data + at, ',', value.len - at);
                size_t end = comma != NULL ? (size_t)(comma - value.data) : value.len;
                struct s3_str token = s3_str_trim((struct s3_str){value.data + at, end - at});
                struct s3_str blanks = {value.data + at, (size_t)(token.data - (value.data + at))};

                at = end + 1;
                if (token.len == 0 || s3_str_eq_nocase(token, S3_STR("aws-chunked")))
                        continue;
                if (w->len > start + RECORD_HEAD) {
                        put_record_bytes(w, ",", 1);
                        put_record_bytes(w, blanks.data, blanks.len);
                }
                put_record_bytes(w, token.data, token.len);
        }
        if (w->full)
                return;
        if (w->len == start + RECORD_HEAD) {
                w->len = start; /* nothing left of it */
                return;
        }
        w->out[start + 1] = (uint8_t)(w->len - start - RECORD_HEAD);
        w->out[start + 2] = (uint8_t)((w->len - start - RECORD_HEAD) >> 8);
}

/* Entries of one name become one, joined by commas, as HTTP has it. */
static void put_user(struct writer *w, const struct gw_meta *meta, unsigned i)
{
        const struct s3_header *first = &meta->user[i];
        size_t len = USER_HEAD + first->name.len + first->value.len;
        struct gw_fmt_user head = {{(uint8_t)first->name.len, (uint8_t)(first->name.len >> 8)}};

        for (unsigned j = 0; j < i; j++) {
                if (s3_str_eq_nocase(meta->user[j].name, first->name))
                        return;
        }
        for (unsigned j = i + 1; j < meta->user_count; j++) {
                if (s3_str_eq_nocase(meta->user[j].name, first->name))
                        len += 1 + meta->user[j].value.len;
        }
        put_record_head(w, GW_FMT_USER, len);
        put_record_bytes(w, &head, sizeof(head));
        put_lower(w, first->name);
        put_record_bytes(w, first->value.data, first->value.len);
        for (unsigned j = i + 1; j < meta->user_count; j++) {
                if (s3_str_eq_nocase(meta->user[j].name, first->name)) {
                        put_record_bytes(w, ",", 1);
                        put_record_bytes(w, meta->user[j].value.data, meta->user[j].value.len);
                }
        }
}

static void put_checksum_record(struct writer *w, const struct gw_checksum *sum)
{
        struct gw_fmt_checksum head = {
                .kind = kinds[sum->kind],
                .type = types[sum->type],
                .has = sum->has,
                .parts = {(uint8_t)sum->parts, (uint8_t)(sum->parts >> 8)},
        };
        size_t len = sum->has ? s3_checksum_info(sum->kind)->len : 0;

        put_record_head(w, GW_FMT_CHECKSUM, sizeof(head) + len);
        put_record_bytes(w, &head, sizeof(head));
        put_record_bytes(w, sum->value, len);
}

ssize_t gw_meta_encode(const struct gw_meta *meta, uint8_t *out, size_t cap)
{
        struct writer w = {.out = out, .cap = cap};

        put_record_bytes(&w, &(uint8_t){GW_FMT_VERSION}, 1);
        for (unsigned f = 0; f < GW_META_FIELD_COUNT; f++) {
                if (meta->field[f].len == 0)
                        continue;
                if (f == GW_META_CONTENT_ENCODING && s3_list_has(meta->field[f], S3_STR("aws-chunked"))) {
                        put_encoding(&w, meta->field[f]);
                        continue;
                }
                put_record_head(&w, fields[f].tag, meta->field[f].len);
                put_record_bytes(&w, meta->field[f].data, meta->field[f].len);
        }
        if (meta->sum.has || meta->sum.has_kind)
                put_checksum_record(&w, &meta->sum);
        if (meta->storage != GW_STANDARD) {
                put_record_head(&w, GW_FMT_STORAGE, 1);
                put_record_bytes(&w, &storages[meta->storage].number, 1);
        }
        for (unsigned i = 0; i < meta->user_count; i++)
                put_user(&w, meta, i);
        return w.full ? -ENOBUFS : (ssize_t)w.len;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_checksum_record(const uint8_t *data, size_t len, struct gw_checksum *out)
{
        struct gw_fmt_checksum head;

        if (len < CHECKSUM_HEAD)
                return -EINVAL;
        memcpy(&head, data, sizeof(head));
        if (!kind_of(head.kind, &out->kind) || !type_of(head.type, &out->type) || head.has > 1)
                return -EINVAL;
        out->has_kind = true;
        out->has = head.has == 1;
        out->parts = head.parts[0] | (unsigned)head.parts[1] << 8;
        if (len - CHECKSUM_HEAD != (out->has ? s3_checksum_info(out->kind)->len : 0))
                return -EINVAL;
        memcpy(out->value, data + CHECKSUM_HEAD, len - CHECKSUM_HEAD);
        return 0;
}

static int read_user(const uint8_t *data, size_t len, struct gw_meta *out)
{
        const char *name = (const char *)data + USER_HEAD;
        size_t name_len;

        if (len < USER_HEAD || out->user_count == GW_META_USER_MAX)
                return -EINVAL;
        name_len = data[0] | (size_t)data[1] << 8;
        if (len - USER_HEAD < name_len)
                return -EINVAL;
        out->user[out->user_count++] = (struct s3_header){
                {name, name_len},
                {name + name_len, len - USER_HEAD - name_len},
        };
        return 0;
}

static int read_record(uint8_t tag, const uint8_t *data, size_t len, struct gw_meta *out)
{
        switch (tag) {
        case GW_FMT_CHECKSUM:
                return read_checksum_record(data, len, &out->sum);
        case GW_FMT_STORAGE:
                return len == 1 && storage_of(data[0], &out->storage) ? 0 : -EINVAL;
        case GW_FMT_USER:
                return read_user(data, len, out);
        default:
                for (unsigned f = 0; f < GW_META_FIELD_COUNT; f++) {
                        if (fields[f].tag == tag) {
                                out->field[f] = (struct s3_str){(const char *)data, len};
                                return 0;
                        }
                }
                return -EINVAL;
        }
}

/* Next record from *at on; 1, 0 at the end, -EINVAL. */
static int next_attrs_record(struct eng_str attrs, size_t *at, uint8_t *tag, const uint8_t **data, size_t *len)
{
        const uint8_t *p = (const uint8_t *)attrs.data + *at;
        size_t left = attrs.len - *at;

        if (left == 0)
                return 0;
        if (left < RECORD_HEAD)
                return -EINVAL;
        *tag = p[0];
        *len = p[1] | (size_t)p[2] << 8;
        *data = p + RECORD_HEAD;
        if (left - RECORD_HEAD < *len)
                return -EINVAL;
        *at += RECORD_HEAD + *len;
        return 1;
}

int gw_meta_decode(struct eng_str attrs, struct gw_meta *out)
{
        size_t at = 1, len;
        const uint8_t *data;
        uint8_t tag;
        int rv;

        memset(out, 0, offsetof(struct gw_meta, user));
        if (attrs.len == 0 || attrs.data[0] != GW_FMT_VERSION)
                return -EINVAL;
        while ((rv = next_attrs_record(attrs, &at, &tag, &data, &len)) == 1) {
                rv = read_record(tag, data, len, out);
                if (rv != 0)
                        return rv;
        }
        return rv;
}

int gw_meta_decode_checksum(struct eng_str attrs, struct gw_checksum *out)
{
        size_t at = 1, len;
        const uint8_t *data;
        uint8_t tag;
        int rv;

        memset(out, 0, sizeof(*out));
        if (attrs.len == 0 || attrs.data[0] != GW_FMT_VERSION)
                return -EINVAL;
        while ((rv = next_attrs_record(attrs, &at, &tag, &data, &len)) == 1) {
                if (tag == GW_FMT_CHECKSUM)
                        return read_checksum_record(data, len, out);
        }
        return rv;
}

/* ---- tag ------------------------------------------------------------------------------------- */

void gw_tag_make(const struct gw_meta *meta, uint8_t tag[8])
{
        struct gw_fmt_list_tag out = {.storage = storages[meta->storage].number};

        if (meta->sum.has || meta->sum.has_kind) {
                out.kind = (uint8_t)(1 + kinds[meta->sum.kind]);
                out.type = types[meta->sum.type];
        }
        memcpy(tag, &out, sizeof(out));
}

/* What makes no sense (never written by us) reads as nothing known. */
void gw_tag_read(const uint8_t tag[8], struct gw_tag *out)
{
        struct gw_fmt_list_tag in;

        memcpy(&in, tag, sizeof(in));
        memset(out, 0, sizeof(*out));
        out->has_checksum = in.kind != 0 && kind_of((uint8_t)(in.kind - 1), &out->kind) && type_of(in.type, &out->type);
        if (!storage_of(in.storage, &out->storage))
                out->storage = GW_STANDARD;
}
