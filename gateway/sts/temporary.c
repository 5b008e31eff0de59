/*
 * temporary.c - the format of tokens (rules T2 to T5). Pure; any thread.
 *
 * What is sealed is a list of records: type (1 byte), length (2, big-endian), bytes. Texts end in NUL, and have no
 * other, so an opened token points into the bytes. A record that is not known, or not as it must be, makes all of
 * it no token.
 */
#include "gateway/sts/temporary.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/sts/base64url.h"

enum record { /* append only */
        RECORD_KIND = 1,
        RECORD_SECRET,
        RECORD_ACCOUNT,
        RECORD_ISSUER,
        RECORD_MARK,
        RECORD_ROLE,
        RECORD_ROLE_ID,
        RECORD_SESSION,
        RECORD_SOURCE,
        RECORD_PROVIDER,
        RECORD_ISSUED,
        RECORD_EXPIRES,
        RECORD_POLICY,
        RECORD_ARN,        /* any number of these */
        RECORD_TAG,        /* and these: name, NUL, text */
        RECORD_TRANSITIVE, /* the same */
        RECORDS_END
};

static const struct {
        size_t at;
        size_t most;
} token_strings[RECORDS_END] = {
        [RECORD_SECRET] = {offsetof(struct gw_temporary, secret), GW_TEMPORARY_SECRET},
        [RECORD_ACCOUNT] = {offsetof(struct gw_temporary, account), GW_ACCOUNT_ID_LEN},
        [RECORD_ISSUER] = {offsetof(struct gw_temporary, issuer), GW_ENTITY_NAME_MAX},
        [RECORD_ROLE] = {offsetof(struct gw_temporary, role), 64},
        [RECORD_ROLE_ID] = {offsetof(struct gw_temporary, role_id), 64},
        [RECORD_SESSION] = {offsetof(struct gw_temporary, session), 64},
        [RECORD_SOURCE] = {offsetof(struct gw_temporary, source), 64},
        [RECORD_PROVIDER] = {offsetof(struct gw_temporary, provider), 300},
        [RECORD_POLICY] = {offsetof(struct gw_temporary, policy_text), GW_TOKEN_PACKED_MAX},
};

static const char **token_string(const struct gw_temporary *what, unsigned type)
{
        return (const char **)(void *)((char *)(uintptr_t)what + token_strings[type].at);
}

/* ---- writing --------------------------------------------------------------------------------- */

struct token_bytes {
        size_t len;
        bool full;
        uint8_t bytes[GW_TOKEN_PLAIN_MAX];
};

static void token_add(struct token_bytes *to, unsigned type, const void *bytes, size_t len)
{
        if (to->full || len > UINT16_MAX || to->len + 3 + len > sizeof(to->bytes)) {
                to->full = true;
                return;
        }
        to->bytes[to->len] = (uint8_t)type;
        to->bytes[to->len + 1] = (uint8_t)(len >> 8);
        to->bytes[to->len + 2] = (uint8_t)len;
        memcpy(to->bytes + to->len + 3, bytes, len);
        to->len += 3 + len;
}

static void token_add_number(struct token_bytes *to, unsigned type, uint64_t number)
{
        uint8_t bytes[8];

        for (unsigned i = 0; i < 8; i++)
                bytes[i] = (uint8_t)(number >> (56 - 8 * i));
        token_add(to, type, bytes, sizeof(bytes));
}

static void token_add_tag(struct token_bytes *to, const struct gw_session_tag *tag)
{
        size_t name = strlen(tag->name) + 1, text = strlen(tag->text) + 1;
        char pair[2048];

        if (name + text > sizeof(pair)) {
                to->full = true;
                return;
        }
        memcpy(pair, tag->name, name);
        memcpy(pair + name, tag->text, text);
        token_add(to, tag->transitive ? RECORD_TRANSITIVE : RECORD_TAG, pair, name + text);
}

size_t gw_temporary_packed(const struct gw_temporary *what)
{
        size_t bytes = what->policy_text != NULL ? strlen(what->policy_text) : 0;

        for (unsigned i = 0; i < what->arn_count; i++)
                bytes += strlen(what->arn[i]) + 4;
        for (unsigned i = 0; i < what->tag_count; i++)
                bytes += strlen(what->tag[i].name) + strlen(what->tag[i].text) + 5;
        return bytes;
}

static void token_fill(struct token_bytes *to, const struct gw_temporary *what)
{
        uint8_t kind = (uint8_t)what->kind;

        token_add(to, RECORD_KIND, &kind, 1);
        for (unsigned type = 0; type < RECORDS_END; type++) {
                const char *text = token_strings[type].most > 0 ? *token_string(what, type) : NULL;

                if (text != NULL && *text != '\0')
                        token_add(to, type, text, strlen(text) + 1);
        }
        token_add_number(to, RECORD_MARK, what->mark);
        token_add_number(to, RECORD_ISSUED, (uint64_t)what->issued_ms);
        token_add_number(to, RECORD_EXPIRES, (uint64_t)what->expires_ms);
        for (unsigned i = 0; i < what->arn_count; i++)
                token_add(to, RECORD_ARN, what->arn[i], strlen(what->arn[i]) + 1);
        for (unsigned i = 0; i < what->tag_count; i++)
                token_add_tag(to, &what->tag[i]);
}

int gw_temporary_seal(const struct gw_sealer *sealer, const struct gw_temporary *what,
                      char out[GW_TOKEN_TEXT_MAX + 1])
{
        _Static_assert(GW_BASE64URL_LEN(GW_TOKEN_PLAIN_MAX + GW_TOKEN_MORE) <= GW_TOKEN_TEXT_MAX, "a token fits");
        uint8_t sealed[GW_TOKEN_PLAIN_MAX + GW_TOKEN_MORE];
        struct token_bytes to = {.len = 0};
        int rv;

        if (sealer->seal_token == NULL)
                return -ENOKEY;
        if (gw_temporary_packed(what) > GW_TOKEN_PACKED_MAX)
                return -E2BIG;
        assert(what->kind == GW_SESSION_OF_KEY || what->kind == GW_SESSION_OF_ROLE);
        token_fill(&to, what);
        rv = to.full ? -E2BIG : sealer->seal_token(sealer->arg, what->access_key, to.bytes, to.len, sealed);
        if (rv == 0)
                s3_base64url_encode(sealed, to.len + GW_TOKEN_MORE, out);
        explicit_bzero(to.bytes, sizeof(to.bytes));
        return rv;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The text at the beginning of what has len bytes. NULL: none ends there. */
static const char *token_text(const uint8_t *bytes, size_t len, size_t most, size_t *used)
{
        const uint8_t *end = len > 0 ? memchr(bytes, '\0', len) : NULL;

        if (end == NULL || (size_t)(end - bytes) > most)
                return NULL;
        *used = (size_t)(end - bytes) + 1;
        return (const char *)bytes;
}

static bool read_number_of(const uint8_t *bytes, size_t len, uint64_t *out)
{
        *out = 0;
        for (size_t i = 0; i < len; i++)
                *out = *out << 8 | bytes[i];
        return len == 8;
}

static bool read_tag(struct gw_temporary *out, const uint8_t *bytes, size_t len, bool transitive)
{
        struct gw_session_tag *tag = &out->tag[out->tag_count];
        size_t name, text;

        if (out->tag_count == GW_SESSION_TAGS)
                return false;
        out->tag_count++;
        tag->transitive = transitive;
        tag->name = token_text(bytes, len, 1024, &name);
        tag->text = tag->name != NULL ? token_text(bytes + name, len - name, 2048, &text) : NULL;
        return tag->text != NULL && name + text == len;
}

static bool token_record(struct gw_temporary *out, unsigned type, const uint8_t *bytes, size_t len)
{
        uint64_t number;
        size_t used;

        switch (type) {
        case RECORD_KIND:
                out->kind = len == 1 ? (enum gw_temporary_kind)bytes[0] : 0;
                return out->kind == GW_SESSION_OF_KEY || out->kind == GW_SESSION_OF_ROLE;
        case RECORD_MARK:
                return read_number_of(bytes, len, &out->mark);
        case RECORD_ISSUED:
        case RECORD_EXPIRES:
                if (!read_number_of(bytes, len, &number) || number > INT64_MAX)
                        return false;
                *(type == RECORD_ISSUED ? &out->issued_ms : &out->expires_ms) = (int64_t)number;
                return true;
        case RECORD_ARN:
                if (out->arn_count == GW_SESSION_ARNS)
                        return false;
                out->arn[out->arn_count] = token_text(bytes, len, 2048, &used);
                return out->arn[out->arn_count++] != NULL && used == len;
        case RECORD_TAG:
        case RECORD_TRANSITIVE:
                return read_tag(out, bytes, len, type == RECORD_TRANSITIVE);
        default:
                if (type >= RECORDS_END || token_strings[type].most == 0)
                        return false;
                *token_string(out, type) = token_text(bytes, len, token_strings[type].most, &used);
                return *token_string(out, type) != NULL && used == len;
        }
}

static bool is_list(unsigned type)
{
        return type == RECORD_ARN || type == RECORD_TAG || type == RECORD_TRANSITIVE;
}

/* Each is there that its kind must have. */
static bool token_is_whole(const struct gw_temporary *t)
{
        if (t->kind == 0 || strlen(t->secret) != GW_TEMPORARY_SECRET || strlen(t->account) != GW_ACCOUNT_ID_LEN ||
            t->issued_ms == 0 || t->expires_ms <= t->issued_ms)
                return false;
        if (t->kind == GW_SESSION_OF_KEY)
                return *t->issuer != '\0' && *t->policy_text == '\0' && t->arn_count == 0 && *t->role == '\0';
        return *t->role != '\0' && *t->role_id != '\0' && *t->session != '\0' && *t->issuer == '\0';
}

static int token_read(struct gw_temporary *out, const uint8_t *bytes, size_t len)
{
        uint32_t seen = 0;
        size_t at = 0;

        for (unsigned type = 0; type < RECORDS_END; type++)
                if (token_strings[type].most > 0)
                        *token_string(out, type) = "";
        while (at < len) {
                unsigned type = bytes[at];
                size_t size;

                if (len - at < 3)
                        return -EBADMSG;
                size = (size_t)bytes[at + 1] << 8 | bytes[at + 2];
                if (type == 0 || type >= RECORDS_END || size > len - at - 3 || (seen >> type & 1 && !is_list(type)) ||
                    !token_record(out, type, bytes + at + 3, size))
                        return -EBADMSG;
                seen |= 1u << type;
                at += 3 + size;
        }
        return token_is_whole(out) ? 0 : -EBADMSG;
}

/* A policy that was compiled when the token was made compiles again. */
static int token_compile(struct gw_temporary *out)
{
        struct acc_error error;
        int rv = 0;

        if (*out->policy_text != '\0')
                rv = acc_policy_compile(s3_str_of(out->policy_text), ACC_SESSION, (struct s3_str){NULL, 0}, &out->policy,
                                        &error);
        return rv == 0 || rv == -ENOMEM ? rv : -EBADMSG;
}

int gw_temporary_open(const struct gw_sealer *sealer, const char *access_key, struct s3_str text,
                      struct gw_temporary **out)
{
        uint8_t sealed[GW_TOKEN_PLAIN_MAX + GW_TOKEN_MORE], *plain;
        struct gw_temporary *made;
        int len, rv;

        if (sealer->open_token == NULL)
                return -ENOKEY;
        if (text.len > GW_TOKEN_TEXT_MAX || strlen(access_key) != GW_TEMPORARY_ID_LEN)
                return -EBADMSG;
        len = gw_base64url_decode(text, sealed, sizeof(sealed));
        if (len <= (int)GW_TOKEN_MORE)
                return -EBADMSG;
        made = calloc(1, sizeof(*made) + (size_t)len + text.len + 1);
        if (made == NULL)
                return -ENOMEM;
        plain = (uint8_t *)(made + 1);
        atomic_init(&made->references, 1);
        strcpy(made->access_key, access_key);
        made->text = (char *)plain + len;
        made->text_len = text.len;
        memcpy(plain + len, text.data, text.len);
        rv = sealer->open_token(sealer->arg, access_key, sealed, (size_t)len, plain);
        if (rv == 0)
                rv = token_read(made, plain, (size_t)len - GW_TOKEN_MORE);
        if (rv == 0)
                rv = token_compile(made);
        if (rv == 0) {
                *out = made;
                return 0;
        }
        gw_temporary_put(made);
        return rv;
}

struct gw_temporary *gw_temporary_get(struct gw_temporary *temporary)
{
        assert(atomic_load(&temporary->references) > 0);
        atomic_fetch_add(&temporary->references, 1);
        return temporary;
}

void gw_temporary_put(struct gw_temporary *temporary)
{
        assert(temporary == NULL || atomic_load(&temporary->references) > 0);
        if (temporary == NULL || atomic_fetch_sub(&temporary->references, 1) != 1)
                return;
        acc_policy_free(temporary->policy);
        if (temporary->secret != NULL && *temporary->secret != '\0')
                explicit_bzero((char *)(uintptr_t)temporary->secret, strlen(temporary->secret));
        free(temporary);
}
