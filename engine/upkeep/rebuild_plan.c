/*
 * rebuild_plan.c - what a repair is to write: which shards the object lacks, where they are to go,
 * and which of them drives that are being filled have already. The primary loop of the key.
 */
#include "engine/base/store.h"
#include "engine/upkeep/rebuild_parts.h"
#include "engine/record/stripe.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SUPERSEDED_MOST 32768u /* values of a loop whose shards are to be given back: half of what there is room for */
#define SUPERSEDED_BYTES (32u << 20)   /* ... and the bytes of their values: half, too */

/* ---- which shards, and where to -------------------------------------------------------------- */

static bool is_lacking(const struct eng_part *part, unsigned run, unsigned shard, eng_mask drives)
{
        unsigned slot = eng_rebuild_named(part, run, shard);

        return slot >= ENG_DRIVES_MAX || (drives & eng_bit(slot)) != 0;
}

static bool is_on(const struct eng_part *part, unsigned run, unsigned shard, eng_mask drives)
{
        unsigned slot = eng_rebuild_named(part, run, shard);

        return slot < ENG_DRIVES_MAX && (drives & eng_bit(slot)) != 0;
}

static unsigned most_of_runs(const struct eng_part *part, eng_mask drives, bool (*counts)(const struct eng_part *part, unsigned run, unsigned shard, eng_mask drives))
{
        unsigned run, shard, n, most = 0;

        for (run = 0; run < part->head.runs; run++) {
                for (n = 0, shard = 0; shard < eng_rebuild_shards_of(part); shard++)
                        n += counts(part, run, shard, drives);
                most = n > most ? n : most;
        }
        return most;
}

unsigned eng_rebuild_lack(const struct eng_part *part, eng_mask drives)
{
        return most_of_runs(part, drives, is_lacking);
}

unsigned eng_rebuild_most_on(const struct eng_part *part, eng_mask drives)
{
        return most_of_runs(part, drives, is_on);
}

static uint32_t stripes_of_run(const struct eng_part *part, unsigned run)
{
        uint32_t per = eng_stripes_per_run(part->head.k, part->head.unit), left = eng_part_stripes(&part->head) - run * per;

        return left < per ? left : per;
}

uint64_t eng_rebuild_lack_bytes(const struct eng_part *part, eng_mask drives)
{
        uint64_t bytes = 0;
        unsigned run, shard;

        for (run = 0; run < part->head.runs; run++)
                for (shard = 0; shard < eng_rebuild_shards_of(part); shard++)
                        if (is_lacking(part, run, shard, drives))
                                bytes += (uint64_t)stripes_of_run(part, run) * part->head.unit;
        return bytes;
}

bool eng_rebuild_is_homeless(const struct eng_rebuild *rebuild, const struct eng_part *part, unsigned run, unsigned shard)
{
        return is_lacking(part, run, shard, rebuild->homeless);
}

/*
 * A drive for each missing shard of one run, the preferred ones first. False: there is none for any
 * of them.
 */
static bool plan_run(const struct eng_rebuild *rebuild, const struct eng_part *part, unsigned run, uint16_t *targets)
{
        const struct eng_placement *map = rebuild->el->view.map;
        uint32_t pg = eng_pg_of_run(rebuild->store->pg_count, part->head.id, run);
        const uint16_t *order = eng_placement_order(map, pg);
        eng_mask fit = rebuild->el->view.in & rebuild->el->view.up & ~rebuild->homeless;
        eng_mask named = 0;
        unsigned shard;
        bool any = false;

        for (shard = 0; shard < eng_rebuild_shards_of(part); shard++)
                if (eng_rebuild_named(part, run, shard) < ENG_DRIVES_MAX)
                        named |= eng_bit(eng_rebuild_named(part, run, shard));
        fit &= ~named;
        named &= ~rebuild->homeless;
        for (shard = 0; shard < eng_rebuild_shards_of(part); shard++) {
                targets[shard] = ENG_NO_DRIVE;
                if (!eng_rebuild_is_homeless(rebuild, part, run, shard))
                        continue;
                targets[shard] = eng_place_next(order, map->drives, fit, map->domains, named);
                if (targets[shard] == ENG_NO_DRIVE)
                        continue;
                named |= eng_bit(targets[shard]);
                any = true;
        }
        return any;
}

static bool names_filling(const struct eng_rebuild *rebuild, const struct eng_part *part)
{
        unsigned i, n = part->head.runs * eng_rebuild_shards_of(part);

        for (i = 0; i < n; i++) {
                unsigned slot = eng_rebuild_named(part, 0, i);

                if (slot < ENG_DRIVES_MAX && (rebuild->filling & eng_bit(slot)))
                        return true;
        }
        return false;
}

static bool has_bad(const struct eng_rebuild *rebuild, const struct eng_part *part)
{
        unsigned i;

        for (i = 0; i < rebuild->bad_count; i++)
                if (memcmp(rebuild->bad[i].id, part->head.id, FMT_ID) == 0)
                        return true;
        return false;
}

static struct eng_rebuild_plan *new_plan(struct eng_rebuild *rebuild, const struct eng_part *part, uint64_t offset)
{
        size_t n = (size_t)part->head.runs * eng_rebuild_shards_of(part);
        struct eng_rebuild_plan *plan = calloc(1, sizeof(*plan) + n * sizeof(uint16_t));

        if (plan == NULL)
                return NULL;
        plan->part = *part;
        plan->offset = offset;
        memcpy(plan->id, part->head.id, FMT_ID);
        STAILQ_INSERT_TAIL(&rebuild->plans, plan, link);
        return plan;
}

static int add_plan(struct eng_rebuild *rebuild, const struct eng_part *part, uint64_t offset)
{
        size_t n = (size_t)part->head.runs * eng_rebuild_shards_of(part);
        struct eng_rebuild_plan *plan = new_plan(rebuild, part, offset);
        unsigned run;

        if (plan == NULL)
                return -ENOMEM;
        plan->words = (eng_stripes_per_run(part->head.k, part->head.unit) + 63) / 64;
        for (run = 0; run < part->head.runs; run++)
                plan->wanted |= plan_run(rebuild, part, run, plan->targets + (size_t)run * eng_rebuild_shards_of(part));
        rebuild->named_new |= plan->wanted;
        plan->wanted |= has_bad(rebuild, part);
        if (names_filling(rebuild, part)) {
                plan->held = calloc(n * plan->words + 1, sizeof(plan->held[0]));
                if (plan->held == NULL)
                        return -ENOMEM;
        }
        return 0;
}

/* ---- what lies too close ---------------------------------------------------------------------- */

static void add_run(const struct eng_placement *map, const struct eng_part *part, const uint16_t *drives, uint64_t *close, unsigned *unsafe)
{
        const unsigned shards = eng_rebuild_shards_of(part), m = part->head.m;

        *close += eng_place_violations(map->domains, drives, shards, m, map->may_fail);
        *unsafe += eng_place_worst(map->domains, drives, shards, map->may_fail) > m;
}

/* Places a run of an object of that id. False: there is no drive for each shard. */
static bool place_anew(const struct eng_store *store, const struct eng_placement *map, const uint8_t id[FMT_ID], const struct eng_part *part, unsigned run,
                       eng_mask fit, uint16_t *drives)
{
        const uint16_t *order = eng_placement_order(map, eng_pg_of_run(store->pg_count, id, run));
        const unsigned shards = eng_rebuild_shards_of(part);

        return eng_place_shards(order, map->drives, fit, map->domains, shards, drives) == shards;
}

static void drives_of_run(const struct eng_part *part, unsigned run, uint16_t *drives)
{
        unsigned i;

        for (i = 0; i < eng_rebuild_shards_of(part); i++)
                drives[i] = (uint16_t)eng_rebuild_named(part, run, i);
}

void eng_rebuild_add_spread(const struct eng_store *store, const struct eng_placement *map, const struct eng_part *part, eng_mask fit,
                            struct eng_rebuild_spread *spread)
{
        uint16_t drives[ERA_MAX_SHARDS];
        uint64_t before;
        unsigned run;

        for (run = 0; map->domains != NULL && run < part->head.runs; run++) {
                before = spread->close;
                drives_of_run(part, run, drives);
                add_run(map, part, drives, &spread->close, &spread->unsafe);
                if (spread->close == before)
                        continue;
                if (!place_anew(store, map, part->head.id, part, run, fit, drives))
                        drives_of_run(part, run, drives);
                add_run(map, part, drives, &spread->close_then, &spread->unsafe_then);
        }
}

bool eng_rebuild_may_move(const struct eng_name *name, const void *value, size_t len)
{
        struct fmt_value head; /* a page's entries are not aligned */
        size_t n;

        memcpy(&head, value, sizeof(head));
        if (head.size == 0)
                return false;
        /* The head of its key names a null version by the id of its value (V15). */
        return name->data[0] == FMT_SPACE_OBJECT || (name->data[0] == FMT_SPACE_VERSION && eng_value_field(value, len, FMT_FIELD_VERSION, &n) != NULL);
}

static eng_mask fit_for_new(const struct eng_rebuild *rebuild)
{
        return rebuild->el->view.in & rebuild->el->view.up & ~rebuild->homeless & ~rebuild->filling;
}

/* There is room, its record will be taken, and what is superseded is given back as fast as it comes. */
static bool has_time_to_move(const struct eng_rebuild *rebuild)
{
        const struct eng_view *view = &rebuild->el->view;

        return view->map->domains != NULL && view->map->leaving == 0 && rebuild->filling == 0 && !atomic_load(&rebuild->store->full) &&
               __builtin_popcountll(eng_speakers(view, rebuild->txn.pg) & view->up) >= 2 && rebuild->el->leader.deferred_count < SUPERSEDED_MOST &&
               rebuild->el->leader.deferred_bytes < SUPERSEDED_BYTES;
}

/* It lacks nothing, as far as is known, and would survive elsewhere what it does not now. */
static bool is_to_move(const struct eng_rebuild *rebuild)
{
        const struct eng_buf *value = rebuild->value;
        struct eng_rebuild_spread spread = {.close = 0};
        struct eng_part part;
        size_t pos = 0;

        if (!has_time_to_move(rebuild) || rebuild->bad_count > 0 || !eng_rebuild_may_move(&rebuild->name, value->data, value->len))
                return false;
        while (eng_value_next_part(value->data, value->len, &pos, &part) == 1) {
                if (eng_rebuild_lack(&part, ~fit_for_new(rebuild)) > 0)
                        return false;
                eng_rebuild_add_spread(rebuild->store, rebuild->el->view.map, &part, fit_for_new(rebuild), &spread);
        }
        return spread.unsafe_then < spread.unsafe;
}

/* Adds to how it lies now, and will. -EROFS: there are too few drives. */
static int add_plan_anew(struct eng_rebuild *rebuild, const struct eng_part *part, uint64_t offset, struct eng_rebuild_spread *spread)
{
        const struct eng_placement *map = rebuild->el->view.map;
        struct eng_rebuild_plan *plan = new_plan(rebuild, part, offset);
        uint16_t drives[ERA_MAX_SHARDS];
        unsigned run;

        if (plan == NULL)
                return -ENOMEM;
        if (memcmp(part->head.id, eng_value_head(rebuild->value->data)->id, FMT_ID) == 0)
                memcpy(plan->id, rebuild->id, FMT_ID);
        else
                eng_rebuild_new_id(rebuild, plan->id);
        plan->wanted = true;
        for (run = 0; run < part->head.runs; run++) {
                uint16_t *targets = plan->targets + (size_t)run * eng_rebuild_shards_of(part);

                if (!place_anew(rebuild->store, map, plan->id, part, run, fit_for_new(rebuild), targets))
                        return -EROFS;
                drives_of_run(part, run, drives);
                add_run(map, part, drives, &spread->close, &spread->unsafe);
                add_run(map, part, targets, &spread->close_then, &spread->unsafe_then);
        }
        return 0;
}

static void drop_plans(struct eng_rebuild *rebuild)
{
        struct eng_rebuild_plan *plan;

        while ((plan = STAILQ_FIRST(&rebuild->plans)) != NULL) {
                STAILQ_REMOVE_HEAD(&rebuild->plans, link);
                eng_rebuild_free_plan(plan);
        }
}

/*
 * All of it is written once more, under ids that were never used: whatever can go wrong with an
 * upload that takes the place of an object is known, and what is left of either is found.
 */
static int make_plans_anew(struct eng_rebuild *rebuild)
{
        struct eng_rebuild_spread spread = {.close = 0};
        struct eng_part part;
        uint64_t offset = 0;
        size_t pos = 0;
        int rv = 0;

        rebuild->anew = rebuild->named_new = true;
        rebuild->digests = NULL;
        eng_rebuild_new_id(rebuild, rebuild->id);
        while (rv == 0 && eng_value_next_part(rebuild->value->data, rebuild->value->len, &pos, &part) == 1) {
                rv = add_plan_anew(rebuild, &part, offset, &spread);
                offset += part.head.size;
        }
        if (rv == 0 && spread.unsafe_then < spread.unsafe)
                return 0;
        drop_plans(rebuild); /* racks are weighed, too: it would lie no better */
        return rv == -EROFS ? 0 : rv;
}

int eng_rebuild_make_plans(struct eng_rebuild *rebuild)
{
        struct eng_part part;
        uint64_t offset = 0;
        size_t pos = 0;
        int rv = 0;

        assert(STAILQ_EMPTY(&rebuild->plans));
        while (rv == 0 && eng_value_next_part(rebuild->value->data, rebuild->value->len, &pos, &part) == 1) {
                if (eng_rebuild_lack(&part, rebuild->filling | rebuild->homeless) > 0 || has_bad(rebuild, &part))
                        rv = add_plan(rebuild, &part, offset);
                offset += part.head.size;
        }
        if (rv == 0 && STAILQ_EMPTY(&rebuild->plans) && is_to_move(rebuild))
                rv = make_plans_anew(rebuild);
        return rv;
}

void eng_rebuild_free_plan(struct eng_rebuild_plan *plan)
{
        free(plan->held);
        free(plan);
}

/* ---- what drives that are being filled have already ------------------------------------------ */

static void rebuild_ask_on(struct eng_rebuild *rebuild);

uint64_t *eng_rebuild_held_bits(const struct eng_rebuild_plan *plan, unsigned run, unsigned shard)
{
        assert(plan->held != NULL && run < plan->part.head.runs && shard < eng_rebuild_shards_of(&plan->part));
        return plan->held + ((size_t)run * eng_rebuild_shards_of(&plan->part) + shard) * plan->words;
}

unsigned eng_rebuild_filling_drive(const struct eng_rebuild *rebuild, const struct eng_rebuild_plan *plan, unsigned run, unsigned shard)
{
        unsigned slot = plan->held == NULL ? ENG_NO_DRIVE : eng_rebuild_named(&plan->part, run, shard);

        return slot < ENG_DRIVES_MAX && (rebuild->filling & eng_bit(slot)) ? slot : ENG_NO_DRIVE;
}

bool eng_rebuild_is_stored(const struct eng_part *part, uint32_t stripe, unsigned shard)
{
        return shard >= part->head.k || shard < eng_stripe_units(&part->head, stripe);
}

static void rebuild_held_answered(struct eng_op *op)
{
        struct eng_rebuild *rebuild = container_of(op, struct eng_rebuild, ask);
        struct eng_rebuild_plan *plan = rebuild->plan;
        uint32_t per = eng_stripes_per_run(plan->part.head.k, plan->part.head.unit), i;
        uint64_t *bits = eng_rebuild_held_bits(plan, rebuild->ask_run, rebuild->ask_shard);

        if (op->result != 0 || rebuild->error != 0) {
                eng_rebuild_finish(rebuild, op->result != 0 ? op->result : rebuild->error);
                return;
        }
        for (i = 0; i < op->held.count; i++) {
                uint32_t at = rebuild->ask_stripe + i;

                if (op->held.bits[i / 64] >> (i % 64) & 1)
                        bits[at / 64] |= 1ull << (at % 64);
                else if (eng_rebuild_is_stored(&plan->part, rebuild->ask_run * per + at, rebuild->ask_shard))
                        plan->wanted = true;
        }
        rebuild->ask_stripe += op->held.count;
        rebuild_ask_on(rebuild);
}

static void rebuild_ask(struct eng_rebuild *rebuild, unsigned slot, uint32_t left)
{
        const struct eng_part *part = &rebuild->plan->part;
        struct eng_op *op = &rebuild->ask;

        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_HELD;
        op->epoch = rebuild->el->view.epoch;
        op->done = rebuild_held_answered;
        memcpy(op->held.object_id, part->head.id, FMT_ID);
        op->held.stripe = rebuild->ask_run * eng_stripes_per_run(part->head.k, part->head.unit) + rebuild->ask_stripe;
        op->held.count = left < ENG_HELD_MAX ? left : ENG_HELD_MAX;
        op->held.shard = (uint8_t)rebuild->ask_shard;
        eng_drive_submit(rebuild->store->members[slot].drive, op);
}

/* Asks for the next shards of the plan under way; false: it has been asked for all. */
static bool rebuild_ask_next(struct eng_rebuild *rebuild)
{
        const struct eng_part *part = &rebuild->plan->part;

        for (; rebuild->ask_run < part->head.runs; rebuild->ask_run++, rebuild->ask_shard = 0) {
                uint32_t stripes = stripes_of_run(part, rebuild->ask_run);

                for (; rebuild->ask_shard < eng_rebuild_shards_of(part); rebuild->ask_shard++, rebuild->ask_stripe = 0) {
                        unsigned slot = eng_rebuild_filling_drive(rebuild, rebuild->plan, rebuild->ask_run, rebuild->ask_shard);

                        if (slot == ENG_NO_DRIVE || rebuild->ask_stripe >= stripes)
                                continue;
                        rebuild_ask(rebuild, slot, stripes - rebuild->ask_stripe);
                        return true;
                }
        }
        return false;
}

/* Goes through the plans; those of which nothing is to be written are dropped. */
static void rebuild_ask_on(struct eng_rebuild *rebuild)
{
        struct eng_rebuild_plan *plan;

        while ((plan = rebuild->plan) != NULL) {
                if (plan->held != NULL && rebuild_ask_next(rebuild))
                        return;
                rebuild->plan = STAILQ_NEXT(plan, link);
                rebuild->ask_run = rebuild->ask_shard = 0;
                rebuild->ask_stripe = 0;
                if (!plan->wanted) {
                        STAILQ_REMOVE(&rebuild->plans, plan, eng_rebuild_plan, link);
                        eng_rebuild_free_plan(plan);
                }
        }
        eng_rebuild_begin_writing(rebuild);
}

void eng_rebuild_ask_held(struct eng_rebuild *rebuild)
{
        assert(rebuild->plan == NULL);
        rebuild->plan = STAILQ_FIRST(&rebuild->plans);
        rebuild_ask_on(rebuild);
}
