/*
 * clients.c - what is asked of the drive while it lives: changes of names in several groups at
 * once, shards, copies, epochs, discards, reads.
 */
#include "tests/sim/drive/world.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"
#include "tests/lib/body_fixture.h"

#define ACTS_MAX  40u
#define BURST_MAX 8u
#define REIGN     16u /* more than there are groups */

static struct lp_loop *loop_of(uint32_t pg)
{
        return world.loops[pg % LOOPS];
}

/* ---- appending ------------------------------------------------------------------------------- */

static void commit_soon(uint32_t pg);

static void committed(struct act *act)
{
        const struct group *group = group_of(act->op.commit.pg);
        unsigned i;

        sim_trace("commit of %u.%llu: %d", act->op.commit.pg, (unsigned long long)act->op.commit.seq, act->op.result);
        if (act->op.result == -ESTALE) { /* an epoch came in between */
                commit_soon(act->op.commit.pg);
                act_end(act);
                return;
        }
        if (act->op.result != 0)
                sim_fail("COMMIT of group %u: %s", act->op.commit.pg, strerror(-act->op.result));
        for (i = 0; i < group->count; i++)
                if (group->records[i]->state == RECORD_COUNTS && group->records[i]->seq <= act->op.commit.seq)
                        record_unlock(group->records[i]);
        act_end(act);
}

/* From here on the records count: the drive may show them before it answers. */
static void commit_now(void *arg)
{
        uint32_t pg = (uint32_t)(uintptr_t)arg % REIGN;
        struct group *group = group_of(pg);
        struct act *act;
        unsigned i;

        if ((uintptr_t)arg / REIGN != world.reign)
                return; /* who wanted it is not the leader any more */
        act = act_new(0, committed);
        act->loop = loop_of(pg);
        act->op.kind = ENG_OP_COMMIT;
        act->op.epoch = model_epoch();
        act->op.commit.pg = pg;
        act->op.commit.seq = group_stable(group);
        if (act->op.commit.seq > group->told)
                group->told = act->op.commit.seq;
        group->counted = act->op.commit.seq;
        for (i = 0; i < group->count; i++)
                if (group->records[i]->state == RECORD_STABLE && group->records[i]->seq <= act->op.commit.seq)
                        record_counts(group->records[i]);
        sim_trace("commit %u.%llu", pg, (unsigned long long)act->op.commit.seq);
        act_submit(act);
}

static void commit_soon(uint32_t pg)
{
        sim_at(sim_skewed(SIM_CLIENTS, SIM_US, world.tempo.commit_ns), loop_of(pg), commit_now,
               (void *)((uintptr_t)world.reign * REIGN + pg));
}

static void appended(struct act *act)
{
        struct record *rec = act->rec;

        sim_trace("append of %u.%llu: %d", rec->pg, (unsigned long long)rec->seq, act->op.result);
        if (act->op.result == 0 && !rec->written)
                sim_fail("record %u.%llu was answered and is not in the log", rec->pg, (unsigned long long)rec->seq);
        if (act->op.result == -ESTALE && rec->state == RECORD_FLYING) {
                record_lost(rec);
        } else if (act->op.result != 0 && act->op.result != -ESTALE) {
                sim_fail("APPEND of %u.%llu: %s", rec->pg, (unsigned long long)rec->seq, strerror(-act->op.result));
        } else if (rec->state == RECORD_FLYING && rec->type == FMT_RECORD_COPY) {
                record_counts(rec);
                record_unlock(rec);
        } else if (rec->state == RECORD_FLYING) {
                rec->state = RECORD_STABLE;
                if (!sim_chance(SIM_CLIENTS, world.tempo.late_commits))
                        commit_soon(rec->pg);
        }
        act_end(act);
}

static void trace_record(const struct record *rec)
{
        unsigned i;

        sim_trace("append %u.%llu of type %u, %u bytes", rec->pg, (unsigned long long)rec->seq, rec->type,
                  rec->body->len);
        for (i = 0; i < rec->count; i++)
                sim_trace("  name %u: value %u", rec->touch[i].name, rec->touch[i].value);
}

static void append(struct act *act)
{
        struct group *group = group_of(act->rec->pg);
        uint64_t stable;

        record_number(act->rec, sim_chance(SIM_CLIENTS, 12));
        record_encode(act->rec, act->upload);
        stable = group_stable(group);
        if (stable > group->told && sim_chance(SIM_CLIENTS, 3))
                group->told += 1 + sim_below(SIM_CLIENTS, stable - group->told);
        act->rec->epoch = model_epoch();
        fill_append(&act->op, act->rec, act->rec->type == FMT_RECORD_COPY ? group->counted : group->told, act->rec->epoch);
        act->after = appended;
        trace_record(act->rec);
        act_submit(act);
        world_figures.changes++;
        world_figures.copies += act->rec->type == FMT_RECORD_COPY;
}

/* What a retry does: the drive has it already, and says so. */
static void append_again(void)
{
        struct group *group = &model.groups[sim_below(SIM_CLIENTS, GROUPS)];
        struct record *rec = group->count > 0 ? group->records[group->count - 1] : NULL;
        struct act *act;

        if (rec == NULL || rec->state != RECORD_STABLE)
                return;
        act = act_new(0, appended);
        act->loop = loop_of(rec->pg);
        act->rec = rec;
        fill_append(&act->op, rec, 0, model_epoch());
        act->op.append.record_epoch = rec->epoch;
        act_submit(act);
}

/* ---- shards before their record -------------------------------------------------------------- */

static void write_stripe(struct act *act);

static void synced(struct act *act)
{
        if (act->op.result != 0)
                sim_fail("SYNC: %s", strerror(-act->op.result));
        model.values[act->value].shards = SHARDS_SYNCED;
        sim_trace("value %u: its shards are flushed", act->value);
        append(act);
}

static void stripe_written(struct act *act)
{
        if (act->op.result != 0 && act->op.result != -ESTALE && act->op.result != -ENOSPC)
                sim_fail("WRITE: %s", strerror(-act->op.result));
        if (act->op.result == 0)
                act->stripe++;
        if (act->stripe < model.values[act->value].stripes) {
                write_stripe(act);
                return;
        }
        act->op.kind = ENG_OP_SYNC;
        act->after = synced;
        act_submit(act);
}

static void write_stripe(struct act *act)
{
        const struct value *value = &model.values[act->value];

        if (act->slot == NULL)
                act->slot = aligned_alloc(4096, LP_SLOT_SIZE);
        assert(act->slot != NULL);
        value_fill(act->value, act->stripe, act->slot + LP_SLOT_HEADER, value->unit);
        memset(&act->op, 0, sizeof(act->op));
        act->op.kind = ENG_OP_WRITE;
        act->op.epoch = model_epoch();
        fx_id(act->op.write.object_id, act->value);
        act->op.write.stripe = act->stripe;
        act->op.write.k = 1;
        act->op.write.payload_len = value->unit;
        act->op.write.slot = act->slot;
        act->op.write.payload = act->slot + LP_SLOT_HEADER;
        act->after = stripe_written;
        act_submit(act);
}

/* ---- changes --------------------------------------------------------------------------------- */

static unsigned some_bytes(unsigned name, bool none)
{
        unsigned id = value_new(VALUE_BYTES, name);
        uint64_t most = sim_chance(SIM_CLIENTS, 4) ? world.tempo.bytes_max : 200;

        model.values[id].len = none ? 0 : (uint32_t)sim_below(SIM_CLIENTS, most);
        return id;
}

static unsigned some_shards(unsigned name)
{
        unsigned id = value_new(VALUE_SHARDS, name);

        model.values[id].stripes = 1 + (uint32_t)sim_below(SIM_CLIENTS, 3);
        model.values[id].unit = 4096 * (uint32_t)sim_skewed(SIM_CLIENTS, 1, sim_chance(SIM_CLIENTS, 16) ? 100 : 12);
        return id;
}

static bool all_free(const struct record *rec)
{
        unsigned i;

        for (i = 0; i < rec->count; i++)
                if (model.names[rec->touch[i].name].locked || model.names[rec->touch[i].name].stale)
                        return false;
        return true;
}

/* Names are locked from here until the record counts. */
static void change(struct record *rec, unsigned shards, unsigned upload)
{
        struct act *act;
        unsigned i;

        for (i = 0; i < rec->count; i++)
                name_lock(rec->touch[i].name, rec->touch[i].value);
        rec->locks = true;
        act = act_new(0, NULL);
        act->loop = loop_of(rec->pg);
        act->rec = rec;
        act->upload = upload;
        act->value = shards;
        if (shards != 0)
                write_stripe(act);
        else
                append(act);
}

static void change_key(void)
{
        unsigned name = (unsigned)sim_below(SIM_CLIENTS, KEYS), shards = 0, value = 0;
        bool copy = sim_chance(SIM_CLIENTS, 12);
        struct record *rec;

        if (model.names[name].locked || model.names[name].stale)
                return;
        if (copy) /* what is there, as when a name is compared and found different just before it is changed */
                value = model.names[name].now;
        else if (sim_chance(SIM_CLIENTS, 4))
                value = 0;
        else if (sim_chance(SIM_CLIENTS, 4))
                value = shards = some_shards(name);
        else
                value = some_bytes(name, false);
        rec = record_new(model.names[name].pg, copy ? FMT_RECORD_COPY : FMT_RECORD_PG, 0);
        record_touch(rec, name, value);
        change(rec, shards, UPLOADS);
}

/* A number that changes nothing. */
static void empty_change(void)
{
        change(record_new(1 + (uint32_t)sim_below(SIM_CLIENTS, GROUPS), FMT_RECORD_PG, 0), 0, UPLOADS);
}

static void begin_upload(unsigned slot)
{
        unsigned name = name_upload(slot);
        struct record *rec = record_new(model.names[name].pg, FMT_RECORD_PG, 0);

        name_new_upload(slot);
        record_touch(rec, name, some_bytes(name, true));
        change(rec, 0, UPLOADS);
}

static void put_part(unsigned slot)
{
        unsigned name = name_part(slot, (unsigned)sim_below(SIM_CLIENTS, PARTS)), shards = 0, value;
        struct record *rec;

        if (model.names[name].locked)
                return;
        value = sim_chance(SIM_CLIENTS, 3) ? some_bytes(name, false) : (shards = some_shards(name));
        rec = record_new(model.names[name].pg, FMT_RECORD_PG, 0);
        record_touch(rec, name, value);
        change(rec, shards, UPLOADS);
}

/* The object that the parts of an upload make; 0: there is nothing to make one of. */
static unsigned join(unsigned slot, unsigned key)
{
        unsigned id = value_new(VALUE_JOINED, key), i, part;

        for (i = 0; i < PARTS; i++) {
                part = model.names[name_part(slot, i)].now;
                if (part != 0 && model.values[part].kind == VALUE_SHARDS && !sim_chance(SIM_CLIENTS, 4))
                        model.values[id].parts[model.values[id].part_count++] = part;
        }
        return model.values[id].part_count > 0 ? id : 0;
}

/* Completed, or aborted. */
static void end_upload(unsigned slot)
{
        unsigned key = slot % GROUPS + GROUPS * (unsigned)sim_below(SIM_CLIENTS, KEYS / GROUPS), object, i;
        struct record *rec = record_new(model.names[name_upload(slot)].pg, FMT_RECORD_PG, 0);

        object = sim_chance(SIM_CLIENTS, 3) || model.names[key].locked || model.names[key].stale ? 0 : join(slot, key);
        if (object != 0)
                record_touch(rec, key, object);
        record_touch(rec, name_upload(slot), 0);
        for (i = 0; i < PARTS; i++)
                record_touch(rec, name_part(slot, i), 0);
        if (all_free(rec))
                change(rec, 0, slot);
        else
                free(rec);
}

static void change_upload(void)
{
        unsigned slot = (unsigned)sim_below(SIM_CLIENTS, UPLOADS), i;
        const struct name *name = &model.names[name_upload(slot)];

        for (i = 0; i <= PARTS; i++)
                if (model.names[name_upload(slot) + i].stale)
                        return;
        if (name->locked)
                return;
        if (name->now == 0) {
                for (i = 1; i <= PARTS; i++)
                        if (name[i].locked || name[i].now != 0)
                                return;
                begin_upload(slot);
        } else if (sim_chance(SIM_CLIENTS, 4)) {
                end_upload(slot);
        } else {
                put_part(slot);
        }
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static void epoch_durable(struct act *act)
{
        if (act->op.result != 0)
                sim_fail("APPEND of an epoch: %s", strerror(-act->op.result));
        model.epoch_flying = false;
        eng_buf_unref(act->op.append.body);
        act_end(act);
        world_figures.epochs++;
}

static void new_epoch(void)
{
        struct fmt_epoch *epoch = &model.epochs[model.epoch_count];
        struct act *act;

        if (model.epoch_flying || model.epoch_count == EPOCHS_MAX)
                return;
        *epoch = epoch[-1];
        epoch->number++;
        memcpy(epoch->parent, epoch->id, FMT_ID);
        epoch->id[0]++;
        epoch->id[1] = (uint8_t)sim_random(SIM_CLIENTS);
        model.epoch_count++;
        model.epoch_flying = true;
        act = act_new(0, epoch_durable);
        act->op.kind = ENG_OP_APPEND;
        act->op.flags = ENG_OP_RESERVE;
        act->op.epoch = epoch->number;
        act->op.append.type = FMT_RECORD_EPOCH;
        act->op.append.body = eng_buf_new(sizeof(*epoch));
        assert(act->op.append.body != NULL);
        memcpy(act->op.append.body->data, epoch, sizeof(*epoch));
        act->op.append.body_crc = era_crc32c(0, epoch, sizeof(*epoch));
        act_submit(act);
}

/* ---- discards -------------------------------------------------------------------------------- */

static void discard(void *arg);

static void discarded(struct act *act)
{
        struct value *value = &model.values[act->value];

        if (act->op.result == -EAGAIN || act->op.result == -ESTALE) /* an epoch came before it */
                sim_at(10 * SIM_MS, world.loops[0], discard, (void *)(uintptr_t)act->value);
        else if (act->op.result != 0)
                sim_fail("DISCARD: %s", strerror(-act->op.result));
        else
                value->shards = SHARDS_DISCARDED;
        act_end(act);
}

static void discard(void *arg)
{
        unsigned id = (unsigned)(uintptr_t)arg;
        struct act *act = act_new((unsigned)sim_below(SIM_CLIENTS, LOOPS), discarded);

        act->value = id;
        model.values[id].shards = SHARDS_UNSURE;
        sim_trace("discard of value %u", id);
        act->op.kind = ENG_OP_DISCARD;
        fx_id(act->op.discard.object_id, id);
        act_submit(act);
        world_figures.discards++;
}

void clients_superseded(void *arg, struct eng_drive *drive, struct eng_buf *const values[], unsigned n)
{
        struct eng_part part;
        unsigned i, id;
        size_t pos;

        for (i = 0; i < n; i++) {
                pos = 0;
                while (eng_value_next_part(values[i]->data, values[i]->len, &pos, &part) == 1) {
                        id = value_number(part.head.id);
                        sim_trace("superseded: %u", id);
                        if (id >= model.value_count || (value_lives(id) && !(world.spoilt && spoil_admits()))) /* others are asked before shards go */
                                sim_fail("shards of value %u are said to be dead, and are not", id);
                        sim_at(sim_skewed(SIM_CLIENTS, SIM_US, 100 * SIM_MS), world.loops[0], discard,
                               (void *)(uintptr_t)id);
                }
        }
}

/* As a sweep does: shards that nothing names. */
static void sweep_one(void)
{
        unsigned id = 1 + (unsigned)sim_below(SIM_CLIENTS, model.value_count);

        if (id < model.value_count && model.values[id].kind == VALUE_SHARDS &&
            model.values[id].shards == SHARDS_SYNCED && !value_lives(id))
                discard((void *)(uintptr_t)id);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void looked_up(struct act *act)
{
        const struct name *name = &model.names[act->name];

        if (!name->locked && !name->stale && name->version == act->version &&
            !value_matches(name->now, act->op.result, act->op.lookup.value, act->op.lookup.bytes))
                sim_fail("name %u is not value %u: %s", act->name, name->now, strerror(-act->op.result));
        eng_buf_unref(act->op.lookup.value);
        eng_buf_unref(act->op.lookup.bytes);
        act_end(act);
}

static void look_up(void)
{
        unsigned name = (unsigned)sim_below(SIM_CLIENTS, KEYS); /* names of uploads change */
        struct act *act;

        if (model.names[name].locked || model.names[name].stale)
                return;
        act = act_new((unsigned)sim_below(SIM_CLIENTS, LOOPS), looked_up);
        act->name = name;
        act->version = model.names[name].version;
        sim_trace("lookup of name %u", name);
        fill_lookup(&act->op, name);
        act_submit(act);
        world_figures.lookups++;
}

static void was_read(struct act *act)
{
        const struct value *value = &model.values[act->value];
        bool there = act->before == SHARDS_SYNCED && value->shards == SHARDS_SYNCED;

        if (act->op.result == 0 ? !read_right(act) : there)
                sim_fail("shard %u of value %u: %s", act->stripe, act->value, strerror(-act->op.result));
        if (act->op.result == 0 && act->before == SHARDS_DISCARDED)
                sim_fail("shard %u of value %u was discarded, and is there", act->stripe, act->value);
        act_end(act);
}

static void read_shard(void)
{
        unsigned id = 1 + (unsigned)sim_below(SIM_CLIENTS, model.value_count);
        struct act *act;

        if (id >= model.value_count || model.values[id].kind != VALUE_SHARDS)
                return;
        act = act_new((unsigned)sim_below(SIM_CLIENTS, LOOPS), was_read);
        act->before = model.values[id].shards;
        fill_read(act, id, (uint32_t)sim_below(SIM_CLIENTS, model.values[id].stripes));
        act_submit(act);
        world_figures.reads++;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void one_thing(void)
{
        uint64_t what = sim_below(SIM_CLIENTS, 1000);

        if (what < 550)
                change_key();
        else if (what < 750)
                change_upload();
        else if (what < 760)
                empty_change();
        else if (what < 765)
                new_epoch();
        else if (what < 790)
                append_again();
        else if (what < 820)
                sweep_one();
        else if (what < 910)
                look_up();
        else
                read_shard();
}

/* A few things at once, so that records share a write of the log. */
static void turn(void *arg)
{
        uint64_t n = sim_skewed(SIM_CLIENTS, 1, BURST_MAX);

        if (world.quiet || (uintptr_t)arg != world.reign)
                return;
        for (; n > 0 && world.acts < ACTS_MAX; n--)
                one_thing();
        sim_at(sim_skewed(SIM_CLIENTS, SIM_US, world.tempo.turn_ns), world.loops[0], turn, arg);
}

void clients_begin(void)
{
        sim_at(SIM_US, world.loops[0], turn, (void *)(uintptr_t)world.reign);
}
