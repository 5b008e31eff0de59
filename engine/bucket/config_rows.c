/*
 * config_rows.c - rows of the configuration as bytes, and all of them one behind the other. Coordinator,
 * but for reading bytes.
 *
 *   row    | head | bucket: name, value, as its row on drives | text: its bytes |
 */
#include "engine/bucket/bucket_text.h"
#include "engine/bucket/config_feed.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* Before each row. */
struct row_head {
        uint64_t id, generation;
        uint32_t len;                   /* of what follows: of a bucket name and value together */
        uint16_t name_len;              /* of a bucket */
        uint8_t what, kind, flags, zero[7];
};
_Static_assert(sizeof(struct row_head) == 32, "rows that follow begin at a multiple of 8 if their length is");

#define ROW_THERE   1u
#define ROW_DAMAGED 2u

static size_t row_bucket(const struct eng_store *store, struct row_head *head, uint8_t *out)
{
        const struct eng_config_bucket *b = eng_bucket_by_id(store->coord_loop, head->id);
        struct eng_name name;
        struct eng_buf *value;

        if (b == NULL)
                return 0;
        value = eng_bucket_value(store->pg_count, &b->bucket);
        if (value == NULL)
                abort(); /* a copy that lacks a bucket would say that there is none */
        eng_name_bucket(&name, b->bucket.name);
        assert(name.len + value->len <= ENG_ROW_MAX - sizeof(*head));
        memcpy(out, name.data, name.len);
        memcpy(out + name.len, value->data, value->len);
        head->flags = ROW_THERE;
        head->name_len = name.len;
        head->len = name.len + value->len;
        eng_buf_unref(value);
        return head->len;
}

static size_t row_text(const struct eng_store *store, struct row_head *head, uint8_t *out)
{
        struct eng_text *text;

        if (!eng_text_find(store->coord_loop, head->id, head->kind, &text) || text == NULL)
                return 0;
        head->flags = ROW_THERE | (text->damaged ? ROW_DAMAGED : 0);
        head->generation = text->generation;
        head->len = text->len;
        memcpy(out, text->bytes, text->len);
        return text->len;
}

size_t eng_row_put(const struct eng_store *store, const struct eng_row_key *key, uint8_t *out)
{
        struct row_head head = {.what = (uint8_t)key->what, .kind = key->kind, .id = key->id};
        size_t len;

        assert(eng_on_coordinator(store));
        len = key->what == ENG_ROW_CLOCK    ? 0
              : key->what == ENG_ROW_BUCKET ? row_bucket(store, &head, out + sizeof(head))
                                            : row_text(store, &head, out + sizeof(head));
        memcpy(out, &head, sizeof(head));
        return sizeof(head) + len;
}

static int row_get_bucket(const struct row_head *head, const uint8_t *bytes, struct eng_row *out)
{
        _Alignas(8) uint8_t value[sizeof(struct fmt_value) + 1024];
        size_t value_len = head->len - head->name_len;

        if (head->name_len > head->len || value_len > sizeof(value))
                return -EBADMSG;
        memcpy(value, bytes + head->name_len, value_len);
        if (eng_value_check(value, value_len) != 0 ||
            eng_bucket_decode(bytes, head->name_len, value, value_len, &out->bucket) != 0 || out->bucket.id != head->id)
                return -EBADMSG;
        return 0;
}

int eng_row_get(const uint8_t *bytes, size_t len, size_t *at, struct eng_row *out)
{
        static const uint8_t zero[7];
        struct row_head head;

        if (*at > len || len - *at < sizeof(head))
                return -EBADMSG;
        memcpy(&head, bytes + *at, sizeof(head));
        bytes += *at + sizeof(head);
        if (head.len > len - *at - sizeof(head) || (head.flags & ~(ROW_THERE | ROW_DAMAGED)) != 0 || memcmp(head.zero, zero, sizeof(zero)) != 0)
                return -EBADMSG;
        memset(out, 0, sizeof(*out));
        out->key = (struct eng_row_key){.what = (enum eng_row_what)head.what, .kind = head.kind, .id = head.id};
        out->there = (head.flags & ROW_THERE) != 0;
        out->damaged = (head.flags & ROW_DAMAGED) != 0;
        out->generation = head.generation;
        *at += sizeof(head) + head.len;
        if (!out->there)
                return head.len == 0 && head.flags == 0 && head.what >= ENG_ROW_BUCKET && head.what <= ENG_ROW_CLOCK ? 0 : -EBADMSG;
        if (head.what == ENG_ROW_BUCKET)
                return out->damaged || head.kind != 0 ? -EBADMSG : row_get_bucket(&head, bytes, out);
        if (head.what != ENG_ROW_TEXT || head.len > ENG_TEXT_MAX || head.name_len != 0)
                return -EBADMSG;
        out->bytes = (struct eng_str){(const char *)bytes, head.len};
        return 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

enum { PHASE_BUCKETS, PHASE_ENTRIES, PHASE_END };

/* The first bucket behind the cursor's, or that one itself while its texts are gone through. */
static const struct eng_config_bucket *cursor_bucket(const struct eng_loop *el, const struct eng_row_cursor *cursor)
{
        struct eng_str after = {cursor->after, strlen(cursor->after)};
        unsigned i = eng_bucket_position(el, after);

        if (i < el->bucket_count && !cursor->begun && strcmp(el->buckets[i]->bucket.name, cursor->after) == 0)
                i++;
        return i < el->bucket_count ? el->buckets[i] : NULL;
}

static int next_of_buckets(const struct eng_loop *el, struct eng_row_cursor *cursor, struct eng_row_key *row)
{
        const struct eng_config_bucket *b = cursor_bucket(el, cursor);
        const struct eng_bucket_text *t;

        if (b != NULL && cursor->begun && strcmp(b->bucket.name, cursor->after) == 0) {
                for (t = b->texts; t != NULL && t->text->kind < cursor->kind; t = t->next)
                        ;
                if (t != NULL) {
                        cursor->kind = t->text->kind + 1u;
                        *row = (struct eng_row_key){.what = ENG_ROW_TEXT, .kind = t->text->kind, .id = b->bucket.id};
                        return 1;
                }
                cursor->begun = false;
                b = cursor_bucket(el, cursor);
        }
        if (b == NULL)
                return 0;
        strcpy(cursor->after, b->bucket.name);
        cursor->begun = true;
        cursor->kind = 0;
        *row = (struct eng_row_key){.what = ENG_ROW_BUCKET, .id = b->bucket.id};
        return 1;
}

/* One of the entries at a position. */
struct one_entry {
        unsigned skip;
        bool found;
        struct eng_row_key *row;
};

static void entry_met(void *arg, uint64_t id, unsigned kind, struct eng_text *text)
{
        struct one_entry *one = arg;

        if (one->found)
                return;
        if (one->skip > 0) {
                one->skip--;
                return;
        }
        one->found = true;
        *one->row = (struct eng_row_key){.what = ENG_ROW_TEXT, .kind = (uint8_t)kind, .id = id};
}

static int next_of_entries(struct eng_store *store, struct eng_row_cursor *cursor, struct eng_row_key *row)
{
        if (cursor->version != eng_feed_version(store))
                cursor->given = 0; /* one that went would let another be passed over */
        cursor->version = eng_feed_version(store);
        for (;;) {
                struct one_entry one = {.skip = cursor->given, .row = row};
                uint32_t position = cursor->position;
                bool more = eng_entries_walk(store, &position, 1, entry_met, &one);

                if (one.found) {
                        cursor->given++;
                        return 1;
                }
                cursor->position = position;
                cursor->given = 0;
                if (!more)
                        return 0;
        }
}

int eng_row_next(const struct eng_store *store, struct eng_row_cursor *cursor, struct eng_row_key *row)
{
        assert(eng_on_coordinator(store));
        if (cursor->phase == PHASE_BUCKETS && next_of_buckets(store->coord_loop, cursor, row) == 1)
                return 1;
        if (cursor->phase == PHASE_BUCKETS)
                cursor->phase = PHASE_ENTRIES;
        if (cursor->phase == PHASE_ENTRIES && next_of_entries((struct eng_store *)store, cursor, row) == 1)
                return 1;
        cursor->phase = PHASE_END;
        return 0;
}
