/*
 * tail.c - names applied in memory, in order.
 *
 * The drive applies committed records here (append.c, replay.c), LOOKUP and SCAN look here before they look into the index, and the
 * index worker writes a frozen generation out in order of names. Owner: the loop while active; nobody changes it once frozen.
 */
#include "engine/drive/tail.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NODE_OVERHEAD 64u /* what malloc adds, and the value's head */

static int tail_compare(const struct eng_tail_name *a, const struct eng_tail_name *b)
{
        return eng_name_compare(a->name, a->name_len, b->name, b->name_len);
}

RB_GENERATE_INTERNAL(eng_tail_tree, eng_tail_name, tree, tail_compare, static __attribute__((unused)))

/* ---- lists of buffers ------------------------------------------------------------------------------ */

int eng_buf_list_add(struct eng_buf_list *list, struct eng_buf *buf)
{
        struct eng_buf **items;
        unsigned size;

        if (list->count == list->size) {
                size = list->size == 0 ? 16 : 2 * list->size;
                items = realloc(list->items, size * sizeof(*items));
                if (items == NULL) {
                        eng_buf_unref(buf);
                        return -ENOMEM;
                }
                list->items = items;
                list->size = size;
        }
        list->items[list->count++] = buf;
        return 0;
}

void eng_buf_list_clear(struct eng_buf_list *list)
{
        unsigned i;

        for (i = 0; i < list->count; i++)
                eng_buf_unref(list->items[i]);
        free(list->items);
        memset(list, 0, sizeof(*list));
}

/* ---- values ---------------------------------------------------------------------------------------- */

bool eng_value_same_shards(const void *older, size_t older_len, const void *newer, size_t newer_len)
{
        struct fmt_value a, b;
        struct eng_part first, part;
        size_t pos = 0;
        int rv;

        memcpy(&a, older, sizeof(a));
        memcpy(&b, newer, sizeof(b));
        if (memcmp(a.id, b.id, FMT_ID) == 0)
                return true;
        if (a.parts == 0 || b.parts == 0 || eng_value_next_part(older, older_len, &pos, &first) != 1)
                return false;
        pos = 0;
        while ((rv = eng_value_next_part(newer, newer_len, &pos, &part)) == 1)
                if (memcmp(part.head.id, first.head.id, FMT_ID) == 0)
                        return true;
        return rv != 0; /* what it names cannot be told */
}

static int compare_ids(const void *a, const void *b)
{
        return memcmp(a, b, FMT_ID);
}

bool eng_value_in_ids(const struct fmt_value *value, const uint8_t *ids, size_t ids_len)
{
        return ids_len > 0 && bsearch(value->id, ids, ids_len / FMT_ID, FMT_ID, compare_ids) != NULL;
}

static const struct fmt_value *head_of(const struct eng_buf *value)
{
        return (const struct fmt_value *)value->data;
}

/* Takes over the reference. */
static int tail_add_dead(struct eng_tail *tail, struct eng_buf *value)
{
        if (!eng_value_has_shards(head_of(value)) || tail->copying) {
                eng_buf_unref(value);
                return 0;
        }
        tail->bytes += value->len + NODE_OVERHEAD;
        return eng_buf_list_add(&tail->dead, value);
}

/* ---- life ------------------------------------------------------------------------------------------ */

struct eng_tail *eng_tail_new(void)
{
        struct eng_tail *tail = calloc(1, sizeof(*tail));

        if (tail != NULL)
                RB_INIT(&tail->names);
        return tail;
}

static void free_names(struct eng_tail *tail)
{
        struct eng_tail_name *entry, *next;

        for (entry = RB_MIN(eng_tail_tree, &tail->names); entry != NULL; entry = next) {
                next = RB_NEXT(eng_tail_tree, &tail->names, entry);
                RB_REMOVE(eng_tail_tree, &tail->names, entry);
                eng_buf_unref(entry->value);
                free(entry);
        }
}

static void free_places(struct eng_tail *tail)
{
        struct eng_tail_object *object, *next_object;
        struct eng_tail_place *place, *next_place;

        HASH_ITER (hh, tail->places, place, next_place) {
                HASH_DEL(tail->places, place);
                free(place);
        }
        HASH_ITER (hh, tail->objects, object, next_object) {
                HASH_DEL(tail->objects, object);
                free(object);
        }
}

void eng_tail_free(struct eng_tail *tail)
{
        if (tail == NULL)
                return;
        free_names(tail);
        free_places(tail);
        eng_buf_list_clear(&tail->dead);
        free(tail);
}

/* ---- finding --------------------------------------------------------------------------------------- */

static struct eng_tail_name *find_exact(const struct eng_tail *tail, const uint8_t *name, size_t len)
{
        struct eng_tail_name key = {.name = name, .name_len = (uint16_t)len};

        return RB_FIND(eng_tail_tree, (struct eng_tail_tree *)&tail->names, &key);
}

/* The ended upload that a PART name belongs to, or NULL. */
static const struct eng_tail_name *find_range(const struct eng_tail *tail, const uint8_t *name, size_t len)
{
        const struct eng_tail_name *range;

        if (tail->range_count == 0 || len <= sizeof(uint16_t) || name[0] != FMT_SPACE_PART)
                return NULL;
        range = find_exact(tail, name, len - sizeof(uint16_t));
        return range != NULL && range->kind == ENG_TAIL_RANGE ? range : NULL;
}

bool eng_tail_hides(const struct eng_tail *tail, const uint8_t *name, size_t len, uint64_t seq)
{
        const struct eng_tail_name *range = find_range(tail, name, len);

        return range != NULL && range->seq > seq;
}

const struct eng_tail_name *eng_tail_find(const struct eng_tail *tail, const uint8_t *name, size_t len)
{
        const struct eng_tail_name *entry = find_exact(tail, name, len);
        const struct eng_tail_name *range = find_range(tail, name, len);

        if (entry == NULL || (range != NULL && range->seq > entry->seq))
                return range;
        return entry;
}

const struct eng_tail_name *eng_tail_seek(const struct eng_tail *tail, const uint8_t *name, size_t len, bool after)
{
        struct eng_tail_name key = {.name = name, .name_len = (uint16_t)len};
        struct eng_tail_name *entry;

        entry = RB_NFIND(eng_tail_tree, (struct eng_tail_tree *)&tail->names, &key);
        if (entry != NULL && after && tail_compare(entry, &key) == 0)
                entry = RB_NEXT(eng_tail_tree, &tail->names, entry);
        return entry;
}

const struct eng_tail_name *eng_tail_next(const struct eng_tail_name *entry)
{
        return RB_NEXT(eng_tail_tree, NULL, (struct eng_tail_name *)entry);
}

/* ---- changing -------------------------------------------------------------------------------------- */

static uint64_t entry_bytes(const struct eng_tail_name *entry)
{
        return sizeof(*entry) + entry->name_len + NODE_OVERHEAD + (entry->value != NULL ? entry->value->len : 0);
}

/* The value loses to one of a higher seq, which is NULL for a deletion. Takes over the reference to loser. */
static int supersede(struct eng_tail *tail, struct eng_buf *loser, const struct eng_buf *winner)
{
        if (winner != NULL && eng_value_same_shards(loser->data, loser->len, winner->data, winner->len)) {
                eng_buf_unref(loser);
                return 0;
        }
        return tail_add_dead(tail, loser);
}

static struct eng_tail_name *new_entry(const uint8_t *name, size_t len)
{
        struct eng_tail_name *entry = malloc(sizeof(*entry) + len);

        if (entry == NULL)
                return NULL;
        memset(entry, 0, sizeof(*entry));
        memcpy(entry->bytes, name, len);
        entry->name = entry->bytes;
        entry->name_len = (uint16_t)len;
        return entry;
}

/* Parts go by the end of their upload. One that is deleted by itself is gone from a drive that catches up, by a copy: its data may live on in the
 * object that was made of it meanwhile, so it is not dead by that. */
bool eng_tail_only_forgets(enum eng_tail_kind kind, const uint8_t *name)
{
        return kind == ENG_TAIL_GONE && name[0] == FMT_SPACE_PART;
}

/* An entry of this name is here already. */
static int replace(struct eng_tail *tail, struct eng_tail_name *entry, enum eng_tail_kind kind, struct eng_buf *value,
                   uint64_t seq)
{
        struct eng_buf *loser;

        entry->copied |= tail->copying;
        if (entry->seq > seq) {
                if (kind != ENG_TAIL_PUT) {
                        eng_buf_unref(value);
                        return 0;
                }
                return supersede(tail, value, entry->kind == ENG_TAIL_PUT ? entry->value : NULL);
        }
        tail->bytes -= entry_bytes(entry);
        loser = entry->value;
        if (entry->kind != ENG_TAIL_PUT || eng_tail_only_forgets(kind, entry->name)) {
                eng_buf_unref(loser);
                loser = NULL;
        }
        entry->value = value;
        entry->kind = (uint8_t)kind;
        entry->seq = seq;
        tail->bytes += entry_bytes(entry);
        return loser == NULL ? 0 : supersede(tail, loser, kind == ENG_TAIL_PUT ? value : NULL);
}

/* One walk down the tree, whether or not the name is there. */
static int set(struct eng_tail *tail, const uint8_t *name, size_t len, enum eng_tail_kind kind, struct eng_buf *value,
               uint64_t seq)
{
        struct eng_tail_name *entry = new_entry(name, len), *present;

        if (entry == NULL) {
                eng_buf_unref(value);
                return -ENOMEM;
        }
        present = RB_INSERT(eng_tail_tree, &tail->names, entry);
        if (present != NULL) {
                free(entry);
                return replace(tail, present, kind, value, seq);
        }
        entry->kind = (uint8_t)kind;
        entry->value = value;
        entry->seq = seq;
        entry->copied = tail->copying;
        tail->name_count++;
        tail->range_count += kind == ENG_TAIL_RANGE;
        tail->bytes += entry_bytes(entry);
        return 0;
}

int eng_tail_put(struct eng_tail *tail, const uint8_t *name, size_t len, struct eng_buf *value, uint64_t seq)
{
        if (eng_tail_hides(tail, name, len, seq))
                return tail_add_dead(tail, value);
        return set(tail, name, len, ENG_TAIL_PUT, value, seq);
}

int eng_tail_delete(struct eng_tail *tail, const uint8_t *name, size_t len, uint64_t seq)
{
        return set(tail, name, len, ENG_TAIL_GONE, NULL, seq);
}

/* Takes the parts that came before the end of their upload out; those whose ids are in the list keep their data. */
static int drop_parts(struct eng_tail *tail, const uint8_t *prefix, size_t len, const struct eng_buf *ids, uint64_t seq)
{
        struct eng_tail_name *entry, *next;
        int rv = 0;

        entry = (struct eng_tail_name *)eng_tail_seek(tail, prefix, len, true);
        for (; entry != NULL && rv == 0; entry = next) {
                if (entry->name_len < len || memcmp(entry->name, prefix, len) != 0)
                        break;
                next = RB_NEXT(eng_tail_tree, &tail->names, entry);
                if (entry->seq > seq)
                        continue;
                RB_REMOVE(eng_tail_tree, &tail->names, entry);
                tail->name_count--;
                tail->bytes -= entry_bytes(entry);
                if (entry->kind == ENG_TAIL_PUT && !eng_value_in_ids(head_of(entry->value), ids->data, ids->len))
                        rv = tail_add_dead(tail, entry->value);
                else
                        eng_buf_unref(entry->value);
                free(entry);
        }
        return rv;
}

int eng_tail_end_upload(struct eng_tail *tail, const uint8_t *upload, size_t len, struct eng_buf *ids, uint64_t seq)
{
        uint8_t prefix[FMT_NAME_MAX];
        int rv;

        assert(len <= sizeof(prefix));
        memcpy(prefix, upload, len);
        prefix[0] = FMT_SPACE_PART;
        rv = drop_parts(tail, prefix, len, ids, seq);
        if (rv == 0)
                rv = eng_tail_delete(tail, upload, len, seq);
        if (rv != 0) {
                eng_buf_unref(ids);
                return rv;
        }
        return set(tail, prefix, len, ENG_TAIL_RANGE, ids, seq);
}
