/*
 * history_versions.c - what each operation makes of the versions of a key.
 *
 * A list of versions is kept once, and stands for itself by its number from then on; 0 is the empty
 * one.
 */
#include "tests/sim/history_versions.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "tests/sim/sim.h"

#define ITEMS_MAX 128u /* of one key */
#define HELD      1u   /* of an extra */

struct versions {
        struct version_item items[ITEMS_MAX]; /* the newest first */
        unsigned count;
};

/* Lists, one behind the other. */
struct store {
        struct version_item *items;
        size_t item_count, item_size;
        struct kept {
                size_t first;
                unsigned count;
                uint64_t hash;
        } * kept;
        unsigned count, size;
};
static struct store states, lists;
static unsigned *slots; /* of states, by their hash: number + 1; open addressing */
static unsigned slot_count;

/* ---- lists that are kept --------------------------------------------------------------------- */

static uint64_t hash_of(const struct version_item *items, unsigned count)
{
        uint64_t hash = count;
        unsigned i;

        for (i = 0; i < count; i++)
                hash = sim_mix(hash ^ items[i].version ^ items[i].retain << 20) * 3 + sim_mix((uint64_t)items[i].content << 32 | items[i].extra);
        return hash;
}

static unsigned store_add(struct store *store, const struct version_item *items, unsigned count)
{
        if (store->count == store->size) {
                store->size = 2 * store->size + 64;
                store->kept = realloc(store->kept, store->size * sizeof(store->kept[0]));
        }
        if (store->item_count + count > store->item_size) {
                store->item_size = 2 * store->item_size + count + 256;
                store->items = realloc(store->items, store->item_size * sizeof(store->items[0]));
        }
        assert(store->kept != NULL && (count == 0 || store->items != NULL));
        store->kept[store->count] = (struct kept){store->item_count, count, hash_of(items, count)};
        if (count > 0)
                memcpy(&store->items[store->item_count], items, count * sizeof(items[0]));
        store->item_count += count;
        return store->count++;
}

static const struct version_item *store_items(const struct store *store, unsigned number)
{
        return &store->items[store->kept[number].first];
}

static void grow_slots(void)
{
        unsigned i, at;

        free(slots);
        slot_count = 2 * slot_count + 1024;
        slots = calloc(slot_count, sizeof(slots[0]));
        assert(slots != NULL);
        for (i = 0; i < states.count; i++) {
                for (at = (unsigned)(states.kept[i].hash % slot_count); slots[at] != 0; at = (at + 1) % slot_count)
                        ;
                slots[at] = i + 1;
        }
}

static uint64_t state_of(const struct versions *v)
{
        uint64_t hash = hash_of(v->items, v->count);
        unsigned at;

        if (2 * states.count + 2 > slot_count)
                grow_slots();
        for (at = (unsigned)(hash % slot_count); slots[at] != 0; at = (at + 1) % slot_count) {
                const struct kept *kept = &states.kept[slots[at] - 1];

                if (kept->hash == hash && kept->count == v->count &&
                    (v->count == 0 || memcmp(store_items(&states, slots[at] - 1), v->items, v->count * sizeof(v->items[0])) == 0))
                        return slots[at] - 1;
        }
        slots[at] = store_add(&states, v->items, v->count) + 1;
        return slots[at] - 1;
}

static void states_forget(void)
{
        const struct versions none = {.count = 0};

        if (states.count == 1)
                return;
        states.count = 0;
        states.item_count = 0;
        if (slots != NULL)
                memset(slots, 0, slot_count * sizeof(slots[0]));
        (void)state_of(&none);
}

void versions_begin(void)
{
        lists.count = 0;
        lists.item_count = 0;
        states_forget();
}

static bool is_told(const struct history_op *op)
{
        unsigned i;

        for HISTORY_EACH (i, op->name) {
                const struct history_op *add = history_at(i);

                if (add->kind == H_ADD && !add->maybe && !add->dropped && add->version == op->version)
                        return true;
        }
        return false;
}

void versions_prepare(unsigned name)
{
        unsigned i;

        states_forget();
        for HISTORY_EACH (i, name) {
                struct history_op *op = history_at(i);

                if (op->kind >= H_ADD && H_CONTENT(op->value) == 0 && op->version != H_NULL)
                        op->told = is_told(op);
        }
}

uint64_t versions_list(const struct version_item *items, unsigned count)
{
        return store_add(&lists, items, count);
}

/* ---- one version ----------------------------------------------------------------------------- */

static bool same_number(uint64_t a, uint64_t b)
{
        if (a == H_NULL || b == H_NULL)
                return a == b;
        return a == b || a == H_UNNUMBERED || b == H_UNNUMBERED;
}

static bool same_version(const struct version_item *item, uint64_t version, uint32_t content)
{
        return same_number(item->version, version) && item->content == content;
}

/* An item whose number no answer told may have this one: newer ones have higher numbers, older ones lower. */
static bool may_be_number(const struct versions *v, unsigned at, uint64_t version)
{
        unsigned i;

        for (i = 0; i < v->count; i++) {
                uint64_t other = v->items[i].version;

                if (i != at && other != H_NULL && other != H_UNNUMBERED && (i < at ? other < version : other > version))
                        return false;
        }
        return true;
}

/*
 * There is one null version at most, whatever its content. One whose number is known goes before
 * those that may have it.
 */
static struct version_item *find(struct versions *v, const struct history_op *op)
{
        unsigned i;

        for (i = 0; i < v->count; i++)
                if (v->items[i].version == op->version &&
                    (op->version == H_NULL || v->items[i].content == H_CONTENT(op->value)))
                        return &v->items[i];
        for (i = 0; i < v->count && op->version != H_NULL; i++)
                if (same_version(&v->items[i], op->version, H_CONTENT(op->value)) &&
                    (op->version == H_UNNUMBERED || (!op->told && may_be_number(v, i, op->version))))
                        return &v->items[i];
        return NULL;
}

static void take_out(struct versions *v, struct version_item *item)
{
        unsigned i = (unsigned)(item - v->items);

        memmove(item, item + 1, (v->count - i - 1) * sizeof(*item));
        v->count--;
}

/* ---- locks ----------------------------------------------------------------------------------- */

static bool retention_lasts(const struct version_item *item, int64_t lock_ms)
{
        return (item->retain & 3) != ENG_RETENTION_NONE && (int64_t)(item->retain >> 2) > lock_ms;
}

static bool is_locked(const struct version_item *item, int64_t lock_ms, bool bypass)
{
        if ((item->extra & HELD) != 0)
                return true;
        return retention_lasts(item, lock_ms) && !(bypass && (item->retain & 3) == ENG_RETENTION_GOVERNANCE);
}

/* Retention that lasts only grows, unless it is of GOVERNANCE and bypassed. */
static bool may_retain(const struct version_item *item, const struct history_op *op, int64_t lock_ms)
{
        if (!retention_lasts(item, lock_ms) || (op->bypass && (item->retain & 3) == ENG_RETENTION_GOVERNANCE))
                return true;
        return (item->retain & 3) == (op->retain & 3) && op->retain >= item->retain;
}

/* ---- places ---------------------------------------------------------------------------------- */

static bool is_in_place(const struct history_op *op, const struct versions *v, const struct version_item *item)
{
        switch (op->place) {
        case ENG_PLACE_NEWEST:
                return item == &v->items[0];
        case ENG_PLACE_OLDER:
                return item != &v->items[0];
        case ENG_PLACE_ALONE:
                return v->count == 1;
        }
        return true;
}

static bool of_is_newest(const struct history_op *op, const struct versions *v)
{
        return v->count > 0 && same_version(&v->items[0], op->of, op->content);
}

static bool need_met(const struct history_op *op, const struct versions *v)
{
        bool current = v->count > 0 && v->items[0].content != 0;

        switch (op->need) {
        case NEED_ABSENT:
                return !current;
        case NEED_PRESENT:
                return current;
        case NEED_CONTENT:
                return current && v->items[0].content == op->content;
        case NEED_VERSION:
                return of_is_newest(op, v);
        }
        return true;
}

/* ---- what operations do ---------------------------------------------------------------------- */

static bool step_add(const struct history_op *op, struct versions *v)
{
        struct version_item *replaced = op->version == H_NULL ? find(v, op) : NULL;
        unsigned i;

        if (!need_met(op, v) || (replaced != NULL && is_locked(replaced, op->lock_hi, op->bypass)))
                return false;
        for (i = 0; i < v->count; i++)
                if (H_CONTENT(op->value) != 0 && v->items[i].content == H_CONTENT(op->value))
                        return false; /* each is written once */
        if (replaced != NULL)
                take_out(v, replaced);
        if (v->count == ITEMS_MAX)
                sim_fail("a key has more versions than the simulator's model can have");
        memmove(&v->items[1], &v->items[0], v->count * sizeof(v->items[0]));
        v->items[0] = (struct version_item){op->version, H_CONTENT(op->value), (uint32_t)op->value, op->retain};
        v->count++;
        return true;
}

static bool step_change(const struct history_op *op, struct versions *v)
{
        struct version_item *item = find(v, op);

        if (op->kind == H_ADD)
                return step_add(op, v);
        if (item == NULL)
                return false;
        if (op->kind == H_CUT) {
                if (!need_met(op, v) || !is_in_place(op, v, item) || is_locked(item, op->lock_hi, op->bypass))
                        return false;
                take_out(v, item);
                return true;
        }
        if (item->content == 0 || (H_CONTENT(op->value) != 0 && item->content != H_CONTENT(op->value)))
                return false;
        if (op->kind == H_RETAIN) {
                if (!may_retain(item, op, op->lock_hi))
                        return false;
                item->retain = op->retain;
        } else if (op->kind == H_TAG)
                item->extra = ((uint32_t)op->value & ~HELD) | (item->extra & HELD);
        else
                item->extra = (item->extra & ~HELD) | ((uint32_t)op->value & HELD);
        return true;
}

static bool is_list(const struct versions *v, unsigned list)
{
        const struct version_item *items = store_items(&lists, list);
        unsigned i;

        if (lists.kept[list].count != v->count)
                return false;
        for (i = 0; i < v->count; i++)
                if (!same_version(&v->items[i], items[i].version, items[i].content) ||
                    (v->items[i].extra & HELD) != (items[i].extra & HELD))
                        return false;
        return true;
}

static bool step_look(const struct history_op *op, struct versions *v)
{
        const struct version_item *item = find(v, op);
        uint32_t content = H_CONTENT(op->value), current = v->count == 0 ? 0 : v->items[0].content;

        switch (op->kind) {
        case H_HAS:
                return item != NULL && item->content == content && item->extra == (uint32_t)op->value && item->retain == op->retain;
        case H_HELD:
                return item != NULL && is_locked(item, op->lock_lo, op->bypass);
        case H_KEPT:
                return item != NULL && !may_retain(item, op, op->lock_lo);
        case H_ELSEWHERE:
                return op->need == NEED_VERSION ? !of_is_newest(op, v) : item == NULL || !is_in_place(op, v, item);
        case H_LACKS:
                return item == NULL;
        case H_NEWEST:
                return v->count > 0 && same_version(&v->items[0], op->version, content);
        case H_CURRENT:
                return current != 0 && (content == 0 || content == current);
        case H_ANOTHER:
                return current != 0 && content != current;
        case H_NONE:
                return current == 0;
        case H_EMPTY:
                return v->count == 0;
        case H_LIST:
                return is_list(v, (unsigned)op->value);
        }
        return false;
}

bool versions_step(const struct history_op *op, uint64_t state, uint64_t *after)
{
        struct versions v;

        v.count = states.kept[state].count;
        if (v.count > 0)
                memcpy(v.items, store_items(&states, (unsigned)state), v.count * sizeof(v.items[0]));
        if (op->kind > H_RETAIN)
                return step_look(op, &v);
        if (!step_change(op, &v))
                return false;
        *after = state_of(&v);
        return true;
}

/* ---- what answers speak of ------------------------------------------------------------------- */

static bool list_has(unsigned list, uint32_t content)
{
        const struct version_item *items = store_items(&lists, list);
        unsigned i;

        for (i = 0; i < lists.kept[list].count; i++)
                if (items[i].content == content)
                        return true;
        return false;
}

/* This answer does. */
static bool speaks_of(const struct history_op *op, const struct history_op *change)
{
        if (change->kind == H_TAG)
                return op->kind == H_HAS && (uint32_t)op->value >> 1 == (uint32_t)change->value >> 1;
        if (op->kind == H_LIST)
                return list_has((unsigned)op->value, H_CONTENT(change->value));
        return H_CONTENT(op->value) == H_CONTENT(change->value) || op->content == H_CONTENT(change->value);
}

bool versions_observed(const struct history_op *change)
{
        unsigned i;

        if (change->kind != H_TAG && (change->kind != H_ADD || H_CONTENT(change->value) == 0))
                return true;
        for HISTORY_EACH (i, change->name) {
                const struct history_op *op = history_at(i);

                if (!op->dropped && !op->maybe && speaks_of(op, change))
                        return true;
        }
        return false;
}

static void print_locks(const struct history_op *op)
{
        if (op->retain != 0)
                printf(" retained %llu until %llu", (unsigned long long)op->retain & 3, (unsigned long long)op->retain >> 2);
        if (op->kind == H_CUT || op->kind == H_ADD || op->kind == H_RETAIN || op->kind == H_HELD || op->kind == H_KEPT)
                printf("  at %lld to %lld%s", (long long)op->lock_lo, (long long)op->lock_hi, op->bypass ? ", bypassing" : "");
        if (op->place != ENG_PLACE_ANY)
                printf("  in place %u", op->place);
}

static void print_number(uint64_t version)
{
        if (version == H_NULL)
                printf(" null");
        else if (version == H_UNNUMBERED)
                printf(" #?");
        else
                printf(" #%llu", (unsigned long long)version);
}

void versions_print(const struct history_op *op)
{
        unsigned i;

        if (op->kind != H_LIST) {
                print_number(op->version);
                print_locks(op);
                return;
        }
        for (i = 0; i < lists.kept[op->value].count; i++) {
                const struct version_item *item = &store_items(&lists, (unsigned)op->value)[i];

                print_number(item->version);
                printf(":%u%s", item->content, (item->extra & HELD) != 0 ? "h" : "");
        }
}

/* ---- listings while changes go on ------------------------------------------------------------ */

/* Whether op, if it took effect after `add`, ended what that made. */
static bool ends(const struct history_op *op, const struct history_op *add)
{
        if (op == add || op->dropped)
                return false;
        if (add->version == H_NULL)
                return op->version == H_NULL && (op->kind == H_CUT || op->kind == H_ADD);
        return op->kind == H_CUT && op->version != H_NULL && same_number(op->version, add->version) &&
               H_CONTENT(op->value) == H_CONTENT(add->value);
}

static bool surely_ended(const struct history_op *add, uint64_t before)
{
        unsigned i;

        for HISTORY_EACH (i, add->name) {
                const struct history_op *op = history_at(i);

                if (ends(op, add) && !op->maybe && !op->by_state && op->asked > history_latest(add) && history_latest(op) < before)
                        return true;
        }
        return false;
}

bool versions_possible(unsigned name, const struct version_item *item, uint64_t asked, uint64_t answered)
{
        unsigned i;

        for HISTORY_EACH (i, name) {
                const struct history_op *add = history_at(i);
                struct history_op shown = *add;

                if (add->kind != H_ADD || add->dropped || add->asked > answered)
                        continue;
                if (H_CONTENT(add->value) != item->content || (!add->by_state && !same_number(add->version, item->version)))
                        continue;
                if (shown.version == H_UNNUMBERED)
                        shown.version = item->version; /* another delete marker's end is not this one's */
                if (!surely_ended(&shown, asked))
                        return true;
        }
        return false;
}

/* What is not answered yet may have been, or become, a change of a null version as well. */
static bool may_have_ended(const struct history_op *add, uint64_t until)
{
        unsigned i;

        for HISTORY_EACH (i, add->name) {
                const struct history_op *op = history_at(i);
                bool may = ends(op, add) || (op->by_state && op != add && !op->dropped && add->version == H_NULL);

                if (may && op->asked <= until && history_latest(op) > add->asked)
                        return true;
        }
        return false;
}

const struct history_op *versions_surely_there(unsigned name, const struct history_op *after, uint64_t asked, uint64_t answered)
{
        unsigned i = after == NULL ? history_first(name) : history_next((unsigned)(after - history_at(0)));

        for (; i != HISTORY_END; i = history_next(i)) {
                const struct history_op *add = history_at(i);

                if (add->kind == H_ADD && !add->dropped && !add->maybe && history_latest(add) < asked &&
                    !may_have_ended(add, answered))
                        return add;
        }
        return NULL;
}
