/*
 * recovery.c - what must be found when the drive has been opened again, and what the store does
 * then: settle what is pending, or void it and copy what the other members have.
 *
 * - A record that was answered was written (clients.c looks, I1), and is pending, or applied if the
 *   drive may know that it is committed; its bytes are what was sent.
 * - A record that was not answered is there or not. If not, nothing of it is ever seen.
 * - What was not committed is not visible (I2). What is void, or lost, never comes back.
 * - Numbers and epochs never go back. (No number is given twice: the store's begin with that of the
 *   start.)
 * - When all is settled: every name is what it should be, there are no others, and every shard that
 *   was flushed is there and right (I5).
 */
#include "tests/sim/drive/world.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define READS_MAX 40u

/* ---- epochs ---------------------------------------------------------------------------------- */

static bool knows(const struct eng_epoch_history *history, const struct fmt_epoch *epoch)
{
        unsigned i;

        for (i = 0; i < history->count; i++)
                if (history->past[i].number == epoch->number)
                        return memcmp(history->past[i].id, epoch->id, FMT_ID) == 0 &&
                               memcmp(history->past[i].parent, epoch->parent, FMT_ID) == 0;
        return false;
}

static void check_epochs(void)
{
        struct eng_epoch_history history;
        struct fmt_epoch newest;
        unsigned last = model.epoch_count - 1, i;
        size_t len;

        if (eng_drive_epoch(world.drive, &newest, sizeof(newest), &len, &history) != 0 || len != sizeof(newest))
                sim_fail("the epoch is gone");
        if (model.epoch_flying && newest.number < model.epochs[last].number)
                last = --model.epoch_count - 1; /* a crash took it */
        model.epoch_flying = false;
        if (memcmp(&newest, &model.epochs[last], sizeof(newest)) != 0)
                sim_fail("the newest epoch is %llu, not %llu", (unsigned long long)newest.number,
                         (unsigned long long)model.epochs[last].number);
        for (i = 0; i < last; i++)
                if (!knows(&history, &model.epochs[i]))
                        sim_fail("epoch %llu is forgotten", (unsigned long long)model.epochs[i].number);
}

/* ---- what the log holds ---------------------------------------------------------------------- */

static struct record *find_record(uint32_t pg, uint64_t seq)
{
        const struct group *group = group_of(pg);
        unsigned i;

        for (i = group->count; i-- > 0;)
                if (group->records[i]->seq == seq && group->records[i]->type != FMT_RECORD_COPY &&
                    group->records[i]->state != RECORD_LOST && group->records[i]->state != RECORD_VOID)
                        return group->records[i];
        return NULL;
}

static bool check_record(struct record *rec)
{
        struct act *act = act_new(0, NULL);
        const struct eng_buf *body;

        act->op.append.pg = rec->pg;
        act->op.append.seq = rec->seq;
        if (!act_run(act, ENG_OP_RECORD))
                return false;
        body = act->op.append.body;
        if (act->op.result != 0 || body->len != rec->body->len || act->op.append.type != rec->type ||
            act->op.append.record_epoch != rec->epoch || act->op.append.inline_len != rec->inline_len ||
            memcmp(body->data, rec->body->data, body->len) != 0)
                sim_fail("pending record %u.%llu is not what was sent: %s", rec->pg, (unsigned long long)rec->seq,
                         strerror(-act->op.result));
        eng_buf_unref(act->op.append.body);
        act_end(act);
        return true;
}

static void check_mark(const struct eng_memtable_entry *entry)
{
        struct group *group = group_of(entry->pg);
        uint64_t least = 0;
        unsigned i;

        for (i = 0; i < group->count; i++)
                if ((group->records[i]->state == RECORD_STABLE || group->records[i]->state == RECORD_COUNTS) &&
                    group->records[i]->type != FMT_RECORD_COPY && group->records[i]->seq > least)
                        least = group->records[i]->seq;
        if (entry->seq < least || entry->seq > group->given)
                sim_fail("group %u has come to %llu, says the drive: at least %llu, at most %llu", entry->pg,
                         (unsigned long long)entry->seq, (unsigned long long)least, (unsigned long long)group->given);
        if (entry->committed > group->told)
                sim_fail("group %u is committed up to %llu, says the drive, who was told %llu", entry->pg,
                         (unsigned long long)entry->committed, (unsigned long long)group->told);
}

static bool take_tail(const struct eng_memtable_entry *entries, uint32_t count)
{
        struct record *rec;
        uint32_t i;

        for (i = 0; i < count; i++) {
                if (entries[i].pg == 0 || entries[i].pg > GROUPS)
                        sim_fail("the drive knows a group %u", entries[i].pg);
                if (entries[i].pending == 0)
                        continue;
                rec = find_record(entries[i].pg, entries[i].seq);
                if (rec == NULL)
                        sim_fail("record %u.%llu is pending and should not be there", entries[i].pg,
                                 (unsigned long long)entries[i].seq);
                if (entries[i].epoch != rec->epoch || entries[i].body_len != rec->body->len)
                        sim_fail("record %u.%llu is not what was sent", rec->pg, (unsigned long long)rec->seq);
                rec->pending = true;
                sim_trace("pending: %u.%llu", rec->pg, (unsigned long long)rec->seq);
                if (rec->state == RECORD_FLYING)
                        rec->state = RECORD_STABLE;
                if (!check_record(rec))
                        return false;
        }
        return true;
}

/* Records that are not pending. */
static void judge_missing(struct group *group)
{
        struct record *rec;
        unsigned i;

        for (i = 0; i < group->count; i++) {
                rec = group->records[i];
                if (rec->pending || rec->type == FMT_RECORD_COPY)
                        continue;
                if (rec->state == RECORD_STABLE)
                        sim_fail("record %u.%llu was answered, never committed, and is gone", rec->pg,
                                 (unsigned long long)rec->seq);
                if (rec->state == RECORD_FLYING) {
                        record_lost(rec);
                        world_figures.lost++;
                }
                if (rec->state == RECORD_VOIDING)
                        rec->state = RECORD_VOID;
        }
}

static bool look_at_tail(void)
{
        struct act *act = act_new(0, NULL);
        const struct eng_memtable_entry *entries;
        unsigned g, i;

        if (!act_run(act, ENG_OP_TAIL))
                return false;
        if (act->op.result != 0)
                sim_fail("TAIL: %s", strerror(-act->op.result));
        for (g = 0; g < GROUPS; g++)
                for (i = 0; i < model.groups[g].count; i++)
                        model.groups[g].records[i]->pending = false;
        entries = (const struct eng_memtable_entry *)act->op.tail.entries->data;
        if (!take_tail(entries, act->op.tail.count))
                return false;
        for (g = 0; g < GROUPS; g++)
                judge_missing(&model.groups[g]);
        for (i = 0; i < act->op.tail.count; i++) {
                if (entries[i].pending == 0)
                        check_mark(&entries[i]);
        }
        eng_buf_unref(act->op.tail.entries);
        act_end(act);
        return true;
}

/* ---- names ----------------------------------------------------------------------------------- */

/*
 * LOOKUP of a name; the caller releases what act holds, by end_lookup(). NULL: the process has
 * died.
 */
static struct act *look_up(unsigned name)
{
        struct act *act = act_new(0, NULL);

        fill_lookup(&act->op, name);
        return act_run(act, ENG_OP_LOOKUP) ? act : NULL;
}

static bool is(const struct act *act, unsigned value)
{
        return value_matches(value, act->op.result, act->op.lookup.value, act->op.lookup.bytes);
}

static void end_lookup(struct act *act)
{
        eng_buf_unref(act->op.lookup.value);
        eng_buf_unref(act->op.lookup.bytes);
        act_end(act);
}

/*
 * What may be seen of a name before what is pending is settled: any value it had, but none of a
 * record that is not committed.
 */
static bool check_early(unsigned at)
{
        const struct name *name = &model.names[at];
        struct act *act = look_up(at);
        unsigned value;

        if (act == NULL)
                return false;
        if (act->op.result != 0 && act->op.result != -ENOENT)
                sim_fail("LOOKUP of name %u: %s", at, strerror(-act->op.result));
        value = act->op.result == 0 ? value_of(act->op.lookup.value) : 0;
        if (value != 0 && (value >= model.value_count || model.values[value].name != at || model.values[value].gone ||
                           !is(act, value)))
                sim_fail("name %u is value %u, which it never was", at, value);
        if (value != 0 && name->locked && !name->doubtful && value == name->next)
                sim_fail("name %u shows value %u, which is not committed", at, value);
        end_lookup(act);
        return true;
}

/* A COPY was under way, which counts as soon as it is there: its name says what became of it. */
static bool judge_copy(struct record *rec)
{
        unsigned at = rec->touch[0].name;
        struct name *name = &model.names[at];
        struct act *act = look_up(at);

        if (act == NULL)
                return false;
        if (is(act, name->next)) {
                record_counts(rec);
                record_unlock(rec);
        } else {
                record_lost(rec);
        }
        end_lookup(act);
        return true;
}

static bool judge_copies(void)
{
        struct record *rec;
        unsigned g, i;

        for (g = 0; g < GROUPS; g++)
                for (i = 0; i < model.groups[g].count; i++) {
                        rec = model.groups[g].records[i];
                        if (rec->type == FMT_RECORD_COPY && rec->state == RECORD_FLYING && !judge_copy(rec))
                                return false;
                }
        return true;
}

static bool check_names(void)
{
        struct act *act;
        unsigned i;

        for (i = 0; i < NAMES; i++) {
                act = look_up(i);
                if (act == NULL)
                        return false;
                if (!is(act, model.names[i].now))
                        sim_fail("name %u should be value %u: %s, value %u", i, model.names[i].now,
                                 strerror(-act->op.result), act->op.result == 0 ? value_of(act->op.lookup.value) : 0);
                end_lookup(act);
        }
        return true;
}

static unsigned find_name(const uint8_t *bytes, size_t len)
{
        unsigned i;

        for (i = 0; i < NAMES; i++)
                if (model.names[i].len == len && memcmp(model.names[i].bytes, bytes, len) == 0)
                        return i;
        sim_fail("SCAN: a name that is not there, of space %u", bytes[0]);
}

static bool check_scan(void)
{
        static const uint8_t from[1] = {0}, to[1] = {255};
        struct act *act = act_new(0, NULL);
        struct eng_scan_entry entry;
        struct fmt_value head;
        unsigned i, found = 0, there = 0, name;
        size_t at = 0;

        act->op.scan.from = from;
        act->op.scan.from_len = sizeof(from);
        act->op.scan.to = to;
        act->op.scan.to_len = sizeof(to);
        act->op.scan.max = 1000;
        if (!act_run(act, ENG_OP_SCAN))
                return false;
        if (act->op.result != 0)
                sim_fail("SCAN: %s", strerror(-act->op.result));
        for (; found < act->op.scan.count; found++, at += entry.size) {
                memcpy(&entry, act->op.scan.entries->data + at, sizeof(entry));
                name = find_name(act->op.scan.entries->data + at + sizeof(entry), entry.name_len);
                memcpy(&head, act->op.scan.entries->data + at + sizeof(entry) + entry.name_len, sizeof(head));
                if (value_number(head.id) != model.names[name].now)
                        sim_fail("SCAN: name %u is not value %u", name, model.names[name].now);
        }
        for (i = 0; i < NAMES; i++)
                there += model.names[i].now != 0;
        if (found != there)
                sim_fail("SCAN gives %u names of %u", found, there);
        eng_buf_unref(act->op.scan.entries);
        act_end(act);
        return true;
}

/* ---- shards ---------------------------------------------------------------------------------- */

static bool check_shards_of(unsigned id)
{
        const struct value *value = &model.values[id];
        struct act *act;
        uint32_t stripe;

        for (stripe = 0; stripe < value->stripes; stripe++) {
                act = act_new(0, NULL);
                fill_read(act, id, stripe);
                if (!act_run(act, ENG_OP_READ))
                        return false;
                if (act->op.result == 0 && !read_right(act))
                        sim_fail("shard %u of value %u has wrong bytes", stripe, id);
                if (act->op.result != 0 && act->op.result != -ENOENT && act->op.result != -EBADMSG)
                        sim_fail("READ: %s", strerror(-act->op.result));
                if (act->op.result != 0 && value->shards == SHARDS_SYNCED)
                        sim_fail("shard %u of value %u was flushed, and is not there: %s", stripe, id,
                                 strerror(-act->op.result));
                act_end(act);
        }
        return true;
}

/* All that live, and some others. */
static bool check_shards(void)
{
        unsigned id;

        for (id = 1; id < model.value_count; id++)
                if (model.values[id].kind == VALUE_SHARDS &&
                    (value_lives(id) || sim_below(SIM_CLIENTS, model.value_count) < READS_MAX) && !check_shards_of(id))
                        return false;
        return true;
}

/* ---- settling -------------------------------------------------------------------------------- */

static void group_counts(struct group *group)
{
        struct record *rec;
        unsigned i;

        group->told = group->given;
        for (i = 0; i < group->count; i++) {
                rec = group->records[i];
                if (rec->state != RECORD_STABLE)
                        continue;
                record_counts(rec);
                record_unlock(rec);
                world_figures.settled++;
        }
}

static bool settle(void)
{
        struct act *act;
        unsigned g;

        for (g = 0; g < GROUPS; g++) {
                group_counts(
                        &model.groups[g]); /* it may be visible from here on, and if we die in between, it counts */
                act = act_new(0, NULL);
                act->op.commit.pg = g + 1;
                act->op.commit.seq = model.groups[g].given;
                if (!act_run(act, ENG_OP_COMMIT))
                        return false;
                if (act->op.result != 0)
                        sim_fail("COMMIT: %s", strerror(-act->op.result));
                act_end(act);
        }
        return true;
}

/* ---- voiding --------------------------------------------------------------------------------- */

/*
 * A drive that was stale goes by what the others have; a name of an upload that ended since cannot
 * be copied in this model.
 */
static bool may_void(void)
{
        const struct record *rec;
        unsigned g, i, n;

        for (g = 0; g < GROUPS; g++)
                for (i = 0; i < model.groups[g].count; i++) {
                        rec = model.groups[g].records[i];
                        for (n = 0; rec->pending && n < rec->count; n++)
                                if (rec->touch[n].upload != model.names[rec->touch[n].name].upload)
                                        return false;
                }
        return true;
}

/*
 * Did the others have it? What was committed they had. With them every number up to this one is
 * decided: a drive voids only what it missed, in an epoch whose start has settled all older ones.
 * So it may say from the next opening on that its group is committed up to here, as it does when a
 * MARKS record has this number and nothing before it waits any more.
 */
static void void_one(struct record *rec)
{
        bool theirs = rec->state == RECORD_STABLE && sim_chance(SIM_CLIENTS, 2);
        struct group *group = group_of(rec->pg);
        unsigned n;

        if (rec->seq > group->told)
                group->told = rec->seq;

        if (rec->state == RECORD_STABLE)
                for (n = 0; n < rec->count; n++) {
                        if (theirs)
                                model.names[rec->touch[n].name].now = rec->touch[n].value;
                        else if (rec->touch[n].value != 0)
                                model.values[rec->touch[n].value].gone = model.values[rec->touch[n].value].voided = true;
                }
        record_unlock(rec);
        for (n = 0; n < rec->count; n++)
                model.names[rec->touch[n].name].stale = true;
        rec->state = RECORD_VOIDING;
        sim_trace("void %u.%llu, which the others %s", rec->pg, (unsigned long long)rec->seq,
                  theirs ? "have" : "may have");
        world_figures.voided++;
}

static bool void_pending(void)
{
        struct act *act = act_new(0, NULL);
        unsigned g, i;

        for (g = 0; g < GROUPS; g++)
                for (i = 0; i < model.groups[g].count; i++)
                        if (model.groups[g].records[i]->pending)
                                void_one(model.groups[g].records[i]);
        model.must_void = true;
        act->op.flags = ENG_OP_RESERVE;
        act->op.append.type = FMT_RECORD_VOID;
        if (!act_run(act, ENG_OP_APPEND))
                return false;
        if (act->op.result != 0)
                sim_fail("VOID: %s", strerror(-act->op.result));
        act_end(act);
        model.must_void = false;
        for (g = 0; g < GROUPS; g++)
                for (i = 0; i < model.groups[g].count; i++)
                        if (model.groups[g].records[i]->state == RECORD_VOIDING)
                                model.groups[g].records[i]->state = RECORD_VOID;
        world_figures.voids++;
        return true;
}

/* What the other members have of a name. */
static bool copy_name(unsigned at)
{
        struct name *name = &model.names[at];
        struct record *rec = record_new(name->pg, FMT_RECORD_COPY, model_epoch());
        struct act *act = act_new(0, NULL);

        record_touch(rec, at, name->now);
        record_number(rec, false);
        record_encode(rec, UPLOADS);
        rec->state = RECORD_COUNTS; /* if we die before the answer, it is copied again */
        fill_append(&act->op, rec, group_of(name->pg)->told, rec->epoch);
        if (!act_run(act, ENG_OP_APPEND))
                return false;
        if (act->op.result != 0 && world.spoilt)
                return false; /* what it needs of its index is damaged */
        if (act->op.result != 0)
                sim_fail("COPY: %s", strerror(-act->op.result));
        act_end(act);
        name->seq = rec->seq;
        name->stale = false;
        sim_trace("copied name %u, value %u, as %u.%llu", at, name->now, rec->pg, (unsigned long long)rec->seq);
        world_figures.copies++;
        return true;
}

static bool copy_stale(void)
{
        unsigned i;

        for (i = 0; i < NAMES; i++)
                if (model.names[i].stale && !copy_name(i))
                        return false;
        return true;
}

bool settle_again(void)
{
        return settle();
}

/*
 * Kept by the log, not yet by the index: what the index covers ends in front of it, while it goes
 * on taking in what is behind.
 */
void leave_pending(unsigned at)
{
        struct record *rec = record_new(model.names[at].pg, FMT_RECORD_PG, model_epoch());
        struct act *act = act_new(0, NULL);

        record_touch(rec, at, model.names[at].now);
        record_number(rec, false);
        record_encode(rec, UPLOADS);
        rec->state = RECORD_STABLE;
        fill_append(&act->op, rec, group_of(model.names[at].pg)->told, rec->epoch);
        if (!act_run(act, ENG_OP_APPEND) || act->op.result != 0)
                sim_fail("APPEND: %s", strerror(-act->op.result));
        act_end(act);
        sim_trace("left pending: %u.%llu", rec->pg, (unsigned long long)rec->seq);
}

bool copy_all(void)
{
        unsigned i;

        for (i = 0; i < NAMES; i++)
                model.names[i].stale = true;
        return copy_stale();
}

void check_all_names(void)
{
        if (!check_names())
                sim_fail("the process has died");
}

/* ---- all of it ------------------------------------------------------------------------------- */

bool recover(void)
{
        unsigned i;

        if (eng_drive_log_lost(world.drive))
                sim_fail("the drive says that its log lost its end, and nothing took it");
        if (eng_drive_damage(world.drive) != NULL)
                sim_fail("the drive says that its log is damaged, and nothing is: %s", eng_drive_damage(world.drive));
        check_epochs();
        if (!look_at_tail())
                return false;
        for (i = 0; i < NAMES; i++)
                if (!check_early(i))
                        return false;
        if ((model.must_void || (sim_chance(SIM_CLIENTS, 6) && may_void())) && !void_pending())
                return false;
        if (!settle() || !judge_copies() || !copy_stale())
                return false;
        return check_names() && check_scan() && check_shards();
}
