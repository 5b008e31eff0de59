/*
 * memtable.c - names applied in memory, in order.
 *
 * The drive applies committed records here (append.c, replay.c), LOOKUP and SCAN look here before
 * they look into the index, and the index worker writes a frozen generation out in order of names.
 * Owner: the loop while active; nobody changes it once frozen.
 */
#include "engine/drive/memtable.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NODE_OVERHEAD 64u /* what malloc adds, and the value's head */

static int memtable_compare(const struct eng_memtable_name *a, const struct eng_memtable_name *b)
{
        return eng_name_compare(a->name, a->name_len, b->name, b->name_len);
}

RB_GENERATE_INTERNAL(eng_memtable_tree, eng_memtable_name, tree, memtable_compare, static __attribute__((unused)))

/* ---- lists of buffers ------------------------------------------------------------------------ */

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

/* ---- values ---------------------------------------------------------------------------------- */

bool eng_value_same_shards(const void *older, size_t older_len, const void *newer, size_t newer_len)
{
        struct fmt_value a, b;
        struct eng_part first, part;
        struct fmt_head versions;
        size_t pos = 0;
        int rv;

        memcpy(&a, older, sizeof(a));
        memcpy(&b, newer, sizeof(b));
        if (memcmp(a.id, b.id, FMT_ID) == 0)
                return true;
        if (eng_value_head_field(newer, newer_len, &versions) && memcmp(a.id, versions.null_id, FMT_ID) == 0)
                return true; /* it has become the null version, which is a row of its own (V9) */
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
        assert(value->len >= sizeof(struct fmt_value));
        return (const struct fmt_value *)value->data;
}

/* Takes over the reference. */
static int memtable_add_dead(struct eng_memtable *memtable, struct eng_buf *value)
{
        if (!eng_value_has_shards(head_of(value)) || memtable->copying) {
                eng_buf_unref(value);
                return 0;
        }
        memtable->bytes += value->len + NODE_OVERHEAD;
        return eng_buf_list_add(&memtable->dead, value);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct eng_memtable *eng_memtable_new(void)
{
        struct eng_memtable *memtable = calloc(1, sizeof(*memtable));

        if (memtable != NULL)
                RB_INIT(&memtable->names);
        return memtable;
}

static void free_names(struct eng_memtable *memtable)
{
        struct eng_memtable_name *entry, *next;

        for (entry = RB_MIN(eng_memtable_tree, &memtable->names); entry != NULL; entry = next) {
                next = RB_NEXT(eng_memtable_tree, &memtable->names, entry);
                RB_REMOVE(eng_memtable_tree, &memtable->names, entry);
                eng_buf_unref(entry->value);
                free(entry);
        }
}

static void free_locations(struct eng_memtable *memtable)
{
        struct eng_memtable_object *object, *next_object;
        struct eng_memtable_location *location, *next_location;

        HASH_ITER (hh, memtable->locations, location, next_location) {
                HASH_DEL(memtable->locations, location);
                free(location);
        }
        HASH_ITER (hh, memtable->objects, object, next_object) {
                HASH_DEL(memtable->objects, object);
                free(object);
        }
}

void eng_memtable_free(struct eng_memtable *memtable)
{
        if (memtable == NULL)
                return;
        free_names(memtable);
        free_locations(memtable);
        eng_buf_list_clear(&memtable->dead);
        free(memtable);
}

/* ---- finding --------------------------------------------------------------------------------- */

static struct eng_memtable_name *find_exact(const struct eng_memtable *memtable, const uint8_t *name, size_t len)
{
        struct eng_memtable_name key = {.name = name, .name_len = (uint16_t)len};

        assert(len <= FMT_NAME_MAX);
        return RB_FIND(eng_memtable_tree, (struct eng_memtable_tree *)&memtable->names, &key);
}

/* The ended upload that a PART name belongs to, or NULL. */
static const struct eng_memtable_name *find_range(const struct eng_memtable *memtable, const uint8_t *name, size_t len)
{
        const struct eng_memtable_name *range;

        if (memtable->range_count == 0 || len <= sizeof(uint16_t) || name[0] != FMT_SPACE_PART)
                return NULL;
        range = find_exact(memtable, name, len - sizeof(uint16_t));
        return range != NULL && range->kind == ENG_MEMTABLE_RANGE ? range : NULL;
}

bool eng_memtable_hides(const struct eng_memtable *memtable, const uint8_t *name, size_t len, uint64_t seq)
{
        const struct eng_memtable_name *range = find_range(memtable, name, len);

        return range != NULL && range->seq > seq;
}

const struct eng_memtable_name *eng_memtable_find(const struct eng_memtable *memtable, const uint8_t *name, size_t len)
{
        const struct eng_memtable_name *entry = find_exact(memtable, name, len);
        const struct eng_memtable_name *range = find_range(memtable, name, len);

        if (entry == NULL || (range != NULL && range->seq > entry->seq))
                return range;
        return entry;
}

const struct eng_memtable_name *eng_memtable_seek(const struct eng_memtable *memtable, const uint8_t *name, size_t len, bool after)
{
        struct eng_memtable_name key = {.name = name, .name_len = (uint16_t)len};
        struct eng_memtable_name *entry;

        assert(len <= FMT_NAME_MAX);
        entry = RB_NFIND(eng_memtable_tree, (struct eng_memtable_tree *)&memtable->names, &key);
        if (entry != NULL && after && memtable_compare(entry, &key) == 0)
                entry = RB_NEXT(eng_memtable_tree, &memtable->names, entry);
        return entry;
}

const struct eng_memtable_name *eng_memtable_next(const struct eng_memtable_name *entry)
{
        return RB_NEXT(eng_memtable_tree, NULL, (struct eng_memtable_name *)entry);
}

/* ---- changing -------------------------------------------------------------------------------- */

static uint64_t entry_bytes(const struct eng_memtable_name *entry)
{
        return sizeof(*entry) + entry->name_len + NODE_OVERHEAD + (entry->value != NULL ? entry->value->len : 0);
}

/*
 * The value loses to one of a higher seq, which is NULL for a deletion. Takes over the reference to
 * loser.
 */
static int supersede(struct eng_memtable *memtable, struct eng_buf *loser, const struct eng_buf *winner)
{
        if (winner != NULL && eng_value_same_shards(loser->data, loser->len, winner->data, winner->len)) {
                eng_buf_unref(loser);
                return 0;
        }
        return memtable_add_dead(memtable, loser);
}

static struct eng_memtable_name *new_entry(const uint8_t *name, size_t len)
{
        struct eng_memtable_name *entry = malloc(sizeof(*entry) + len);

        if (entry == NULL)
                return NULL;
        memset(entry, 0, sizeof(*entry));
        memcpy(entry->bytes, name, len);
        entry->name = entry->bytes;
        entry->name_len = (uint16_t)len;
        return entry;
}

/*
 * Parts go by the end of their upload. One that is deleted by itself is gone from a drive that
 * catches up, by a copy: its data may live on in the object that was made of it meanwhile, so it is
 * not dead by that.
 */
bool eng_memtable_only_forgets(enum eng_memtable_kind kind, const uint8_t *name)
{
        return kind == ENG_MEMTABLE_GONE && name[0] == FMT_SPACE_PART;
}

/* An entry of this name is here already. */
static int replace(struct eng_memtable *memtable, struct eng_memtable_name *entry, enum eng_memtable_kind kind, struct eng_buf *value,
                   uint64_t seq)
{
        struct eng_buf *loser;

        entry->copied |= memtable->copying;
        if (entry->seq > seq) {
                if (kind != ENG_MEMTABLE_PUT) {
                        eng_buf_unref(value);
                        return 0;
                }
                return supersede(memtable, value, entry->kind == ENG_MEMTABLE_PUT ? entry->value : NULL);
        }
        assert(memtable->bytes >= entry_bytes(entry));
        memtable->bytes -= entry_bytes(entry);
        loser = entry->value;
        if (entry->kind != ENG_MEMTABLE_PUT || eng_memtable_only_forgets(kind, entry->name)) {
                eng_buf_unref(loser);
                loser = NULL;
        }
        entry->value = value;
        entry->kind = (uint8_t)kind;
        entry->seq = seq;
        memtable->bytes += entry_bytes(entry);
        return loser == NULL ? 0 : supersede(memtable, loser, kind == ENG_MEMTABLE_PUT ? value : NULL);
}

/* One walk down the tree, whether or not the name is there. */
static int set(struct eng_memtable *memtable, const uint8_t *name, size_t len, enum eng_memtable_kind kind, struct eng_buf *value,
               uint64_t seq)
{
        struct eng_memtable_name *entry = new_entry(name, len), *present;

        assert((kind == ENG_MEMTABLE_GONE) == (value == NULL));
        if (entry == NULL) {
                eng_buf_unref(value);
                return -ENOMEM;
        }
        present = RB_INSERT(eng_memtable_tree, &memtable->names, entry);
        if (present != NULL) {
                free(entry);
                return replace(memtable, present, kind, value, seq);
        }
        entry->kind = (uint8_t)kind;
        entry->value = value;
        entry->seq = seq;
        entry->copied = memtable->copying;
        memtable->name_count++;
        memtable->range_count += kind == ENG_MEMTABLE_RANGE;
        memtable->bytes += entry_bytes(entry);
        return 0;
}

int eng_memtable_put(struct eng_memtable *memtable, const uint8_t *name, size_t len, struct eng_buf *value, uint64_t seq)
{
        if (eng_memtable_hides(memtable, name, len, seq))
                return memtable_add_dead(memtable, value);
        return set(memtable, name, len, ENG_MEMTABLE_PUT, value, seq);
}

int eng_memtable_delete(struct eng_memtable *memtable, const uint8_t *name, size_t len, uint64_t seq)
{
        return set(memtable, name, len, ENG_MEMTABLE_GONE, NULL, seq);
}

/*
 * Takes the parts that came before the end of their upload out; those whose ids are in the list
 * keep their data.
 */
static int drop_parts(struct eng_memtable *memtable, const uint8_t *prefix, size_t len, const struct eng_buf *ids, uint64_t seq)
{
        struct eng_memtable_name *entry, *next;
        int rv = 0;

        entry = (struct eng_memtable_name *)eng_memtable_seek(memtable, prefix, len, true);
        for (; entry != NULL && rv == 0; entry = next) {
                if (entry->name_len < len || memcmp(entry->name, prefix, len) != 0)
                        break;
                next = RB_NEXT(eng_memtable_tree, &memtable->names, entry);
                if (entry->seq > seq)
                        continue;
                RB_REMOVE(eng_memtable_tree, &memtable->names, entry);
                assert(memtable->name_count > 0 && memtable->bytes >= entry_bytes(entry));
                memtable->name_count--;
                memtable->bytes -= entry_bytes(entry);
                if (entry->kind == ENG_MEMTABLE_PUT && !eng_value_in_ids(head_of(entry->value), ids->data, ids->len))
                        rv = memtable_add_dead(memtable, entry->value);
                else
                        eng_buf_unref(entry->value);
                free(entry);
        }
        return rv;
}

int eng_memtable_end_upload(struct eng_memtable *memtable, const uint8_t *upload, size_t len, struct eng_buf *ids, uint64_t seq)
{
        uint8_t prefix[FMT_NAME_MAX];
        int rv;

        assert(len > 0 && len <= sizeof(prefix) && ids->len % FMT_ID == 0);
        memcpy(prefix, upload, len);
        prefix[0] = FMT_SPACE_PART;
        rv = drop_parts(memtable, prefix, len, ids, seq);
        if (rv == 0)
                rv = eng_memtable_delete(memtable, upload, len, seq);
        if (rv != 0) {
                eng_buf_unref(ids);
                return rv;
        }
        return set(memtable, prefix, len, ENG_MEMTABLE_RANGE, ids, seq);
}
