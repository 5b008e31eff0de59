/*
 * reconcile.c - recovery's comparison of tails: every record found on any current member is made
 * stable on all of them, then visible.
 *
 * A record that reached some members before a crash may have been answered or not; rolling all of
 * them forward makes every replica tell the same from now on (I2). Shards named by a record were
 * stable before it was appended, so rolling forward never names what is not there. Copies keep
 * number and epoch. One copy at a time: tails are short.
 *
 * Opened for reading, with members missing: a record that is not known to be on all of them is left
 * as it is, for a start that has them; whether it counts cannot be told before. Its group is in
 * doubt and not answered for. The same holds if the newest epoch may never have been in force.
 *
 * Not every trouble ends a drive (I8). One that says 'try again' (no descriptor, no memory) is
 * asked again, for a bounded time. A record that one member cannot give is taken from another. If
 * none can, members that have it are set aside: a member lacks it, so it was never answered, and
 * they catch up from those that lack it, as drives do that lost writes.
 */
#include "engine/bucket/bucket.h"
#include "engine/epoch/epoch.h"
#include "engine/epoch/recover.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH_SHIFT 32u                /* of an epoch's number in a record's */
#define SEQ_MOST (UINT64_MAX / 2)      /* no group comes that far; numbers behind it would begin anew at 0 */
#define AGAIN_NS (50ull * 1000 * 1000)
#define AGAIN_MOST 400u                /* of one operation: 20 s */

/* owner: coordinator; ops: the drives while out */
struct reconcile {
        struct eng_store *store;
        void (*again)(struct eng_store *store);
        unsigned out;
        eng_mask failed;
        bool refused;                  /* by a drive that lacks something for the moment */
        struct tail_of {
                struct eng_op op;
                struct reconcile *reconcile;
                unsigned slot;
                struct eng_buf *entries;
                struct pg_tail *pgs;   /* pg_count + 1 */
        } tails[ENG_DRIVES_MAX];
        /* the copy under way */
        uint32_t pg;
        uint64_t seq, high;
        unsigned to, record_from;
        eng_mask unreadable;           /* members that have that record and cannot give it */
        unsigned tries;                /* of the operation under way that was answered 'try again' */
        struct lp_timer timer;
        void (*then)(struct reconcile *s); /* when it expires */
        struct eng_op record, append;
        struct commit_op {
                struct eng_op op;
                struct reconcile *reconcile;
                unsigned slot;
        } *commits;
        unsigned commit_count;
};

static void next_copy(struct reconcile *s);

static struct reconcile *reconcile_of(struct eng_store *store)
{
        return ((struct recovery *)store->coord->recovery)->reconcile;
}

void eng_reconcile_free(struct eng_store *store)
{
        struct recovery *r = store->coord->recovery;
        unsigned i;

        if (r == NULL || r->reconcile == NULL)
                return;
        for (i = 0; i < ENG_DRIVES_MAX; i++) {
                eng_buf_unref(r->reconcile->tails[i].entries);
                free(r->reconcile->tails[i].pgs);
        }
        lp_timer_stop(store->coord_loop->loop, &r->reconcile->timer);
        free(r->reconcile->commits);
        free(r->reconcile);
        r->reconcile = NULL;
}

/* Ends this attempt; recovery begins again without the drives that failed. */
static void reconcile_give_up(struct reconcile *s)
{
        struct eng_store *store = s->store;
        void (*again)(struct eng_store *) = s->again;
        unsigned i;

        for (i = 0; i < store->drive_count; i++)
                if (s->failed & eng_bit(i))
                        eng_drive_failed(store, i, store->members[i].drive, "recovery could not read or complete its log");
        eng_reconcile_free(store);
        again(store);
}

static void reconcile_rested(struct lp_timer *timer)
{
        struct reconcile *s = container_of(timer, struct reconcile, timer);

        s->then(s);
}

/* Whether the operation that was answered so is to be done once more; then(), after a while. */
static bool reconcile_try_again(struct reconcile *s, int result, void (*then)(struct reconcile *s))
{
        if (result != -EAGAIN || ++s->tries > AGAIN_MOST)
                return false;
        s->then = then;
        s->timer.expired = reconcile_rested;
        lp_timer_start(s->store->coord_loop->loop, &s->timer, AGAIN_NS);
        return true;
}

/* It goes on without this member, which has failed, or is down. */
static void reconcile_lost(struct reconcile *s, unsigned slot, int result)
{
        s->failed |= eng_bit(slot);
        if (result == -EHOSTUNREACH)
                eng_drive_erred(s->store, slot, s->store->members[slot].drive, result, "recovery did not reach it");
}

/* Of an operation that all members are given. */
static void note_result(struct reconcile *s, unsigned slot, int result)
{
        struct recovery *r = s->store->coord->recovery;

        if ((result == -EAGAIN || result == -ENOMEM) && r->refusals < ENG_REFUSALS_MOST)
                s->refused = true;
        else if (result != 0)
                reconcile_lost(s, slot, result);
}

/*
 * All of them have answered. False: recovery begins again, without those that failed, or after a
 * while.
 */
static bool may_go_on(struct reconcile *s)
{
        struct recovery *r = s->store->coord->recovery;

        if (s->failed == 0 && !s->refused)
                return true;
        if (s->failed != 0) {
                reconcile_give_up(s);
                return false;
        }
        r->refusals++;
        s->then = reconcile_give_up;
        s->timer.expired = reconcile_rested;
        lp_timer_start(s->store->coord_loop->loop, &s->timer, AGAIN_NS);
        return false;
}

/* ---- the end: buckets, view, open ------------------------------------------------------------ */

static void view_taken(struct eng_store *store, void *arg)
{
        eng_coord_open(store);
}

static void config_loaded(struct eng_store *store, int rv)
{
        struct reconcile *s = reconcile_of(store);

        assert(s->out == 0);
        if (rv != 0) {
                reconcile_give_up(s);
                return;
        }
        eng_reconcile_free(store);
        ((struct recovery *)store->coord->recovery)->refusals = 0;
        store->coord->view.ready = true;
        eng_view_spread(store, &store->coord->view, view_taken);
}

/* ---- making visible -------------------------------------------------------------------------- */

static void reconcile_committed(struct eng_op *op)
{
        struct commit_op *co = container_of(op, struct commit_op, op);
        struct reconcile *s = co->reconcile;

        assert(reconcile_of(s->store) == s && s->out > 0);
        note_result(s, co->slot, op->result);
        if (--s->out > 0 || !may_go_on(s))
                return;
        eng_phase_set(s->store->coord, ENG_PHASE_CONFIG);
        eng_config_load(s->store, config_loaded);
}

static uint64_t highest(const struct reconcile *s, uint32_t pg)
{
        uint64_t high = 0;
        unsigned i;

        for (i = 0; i < s->store->drive_count; i++)
                if (s->tails[i].pgs != NULL && s->tails[i].pgs[pg].high > high)
                        high = s->tails[i].pgs[pg].high;
        return high;
}

static bool has_pending(const struct reconcile *s, uint32_t pg, unsigned slot)
{
        const struct pg_tail *t = s->tails[slot].pgs == NULL ? NULL : &s->tails[slot].pgs[pg];

        return t != NULL && (t->count > 0 || t->copied);
}

static void add_commit(struct reconcile *s, uint32_t pg, unsigned slot, uint64_t seq)
{
        struct commit_op *co = &s->commits[s->commit_count++];

        co->reconcile = s;
        co->slot = slot;
        co->op.kind = ENG_OP_COMMIT;
        co->op.flags = ENG_OP_RESERVE;
        co->op.epoch = s->store->coord->view.epoch;
        co->op.done = reconcile_committed;
        co->op.commit.pg = pg;
        co->op.commit.seq = seq;
}

static unsigned count_commits(const struct reconcile *s)
{
        unsigned pg, i, n = 0;

        for (pg = 0; pg <= s->store->pg_count; pg++)
                for (i = 0; i < s->store->drive_count; i++)
                        n += has_pending(s, pg, i);
        return n;
}

/*
 * The first number that a group gives in this run. A member that was brought up to date by copies
 * need not know how far the group's numbers had got, so they begin anew above all that could have
 * been given under an epoch before this one.
 */
static uint64_t first_seq(const struct reconcile *s, uint64_t high)
{
        uint64_t least = s->store->coord->view.epoch << EPOCH_SHIFT;

        return high < least ? least : high + 1;
}

/*
 * The least number above `after` that a pending record has, and a member of the group that holds
 * it; -1: none. Numbers between were never given to a record. A drive from which the group went has
 * nothing of what came later: by what it holds, a name could come back that was deleted since.
 */
static int next_pending(const struct reconcile *s, uint32_t pg, uint64_t after, uint64_t *seq, eng_mask but)
{
        eng_mask members = eng_writers(&s->store->coord->view, pg) & ~but;
        unsigned i, j;
        int from = -1;

        for (i = 0; i < s->store->drive_count; i++) {
                const struct eng_memtable_entry *e;
                const struct pg_tail *t;

                if (!(members & eng_bit(i)) || !has_pending(s, pg, i) || s->tails[i].entries == NULL)
                        continue;
                t = &s->tails[i].pgs[pg];
                e = (const struct eng_memtable_entry *)s->tails[i].entries->data + t->first;
                for (j = 0; j < t->count && e[j].seq <= after; j++)
                        ;
                if (j == t->count || (from >= 0 && e[j].seq >= *seq))
                        continue;
                *seq = e[j].seq;
                from = (int)i;
        }
        return from;
}

/*
 * All current members of the group are here. Who they are is not known while nothing is put in
 * force after an epoch that may never have been: other drives may be started by the one before it,
 * of which a member that this one leaves out lacks the record, and answer without it.
 */
static bool is_whole(const struct reconcile *s, uint32_t pg)
{
        const struct eng_coord *c = s->store->coord;
        const struct eng_view *view = &c->view;

        if (!view->writable && !((const struct recovery *)c->recovery)->chosen_in_force)
                return false;
        return (eng_writers(view, pg) & view->in & ~view->up) == 0;
}

static uint64_t known_committed(const struct reconcile *s, uint32_t pg)
{
        uint64_t seq = 0;
        unsigned i;

        for (i = 0; i < s->store->drive_count; i++)
                if (s->tails[i].pgs != NULL && s->tails[i].pgs[pg].committed > seq)
                        seq = s->tails[i].pgs[pg].committed;
        return seq;
}

/*
 * A number of a later run, on any drive and in any group, says that its start made all records
 * before it stable on all members.
 */
static uint64_t reconciled_before(const struct reconcile *s)
{
        uint64_t run = 0;
        unsigned pg;

        for (pg = 0; pg <= s->store->pg_count; pg++)
                if (highest(s, pg) >> EPOCH_SHIFT > run)
                        run = highest(s, pg) >> EPOCH_SHIFT;
        return run << EPOCH_SHIFT;
}

/* How far the group's records may be made visible; sets whether it is in doubt. */
static uint64_t visible_up_to(const struct reconcile *s, uint32_t pg, uint64_t reconciled)
{
        struct eng_store *store = s->store;
        uint64_t known = known_committed(s, pg), beyond;

        if (reconciled > 0 && known < reconciled - 1)
                known = reconciled - 1;
        store->pgs[pg].in_doubt = !is_whole(s, pg) && next_pending(s, pg, known, &beyond, 0) >= 0;
        store->coord->view.in_doubt |= store->pgs[pg].in_doubt;
        return is_whole(s, pg) ? highest(s, pg) : known;
}

static void commit_all(struct reconcile *s)
{
        struct eng_store *store = s->store;
        const struct eng_view *view = &store->coord->view;
        uint64_t reconciled = reconciled_before(s);
        unsigned pg, i;

        assert(s->out == 0 && s->commits == NULL);
        if (view->writable && (view->in & ~view->up) != 0) { /* one has failed since: it may lack what is to be made visible */
                reconcile_give_up(s);
                return;
        }
        s->commits = calloc(count_commits(s) + 1u, sizeof(s->commits[0]));
        if (s->commits == NULL)
                abort(); /* nothing is served yet; a restart tries again */
        for (pg = 0; pg <= store->pg_count; pg++) {
                uint64_t seq = visible_up_to(s, pg, reconciled);

                store->pgs[pg].next_seq = first_seq(s, highest(s, pg));
                store->pgs[pg].committed = seq;
                for (i = 0; i < store->drive_count; i++)
                        if (has_pending(s, pg, i))
                                add_commit(s, pg, i, seq);
        }
        if (store->pgs[store->pg_count].in_doubt) {
                eng_reconcile_free(store);
                eng_recover_wait_for(store, store->coord->awaited, "they alone can tell which buckets there are");
                return;
        }
        s->out = s->commit_count + 1;
        for (i = 0; i < s->commit_count; i++)
                eng_drive_submit(store->members[s->commits[i].slot].drive, &s->commits[i].op);
        if (--s->out == 0) {
                eng_phase_set(store->coord, ENG_PHASE_CONFIG);
                eng_config_load(store, config_loaded);
        }
}

/* ---- copying what a member lacks ------------------------------------------------------------- */

static void reconcile_copy(struct reconcile *s, unsigned from);

static void copy_again(struct reconcile *s)
{
        reconcile_copy(s, s->record_from);
}

/*
 * Nobody can give the record: those that have it catch up from those that lack it. Without parity
 * nobody else has anything.
 */
static void reconcile_set_aside(struct reconcile *s)
{
        struct eng_coord *c = s->store->coord;
        unsigned i;

        for (i = 0; i < s->store->drive_count; i++) {
                if (!(s->unreadable & eng_bit(i)))
                        continue;
                if (s->store->m == 0) {
                        s->failed |= eng_bit(i);
                        continue;
                }
                c->lost |= eng_bit(i);
                c->lost_why[i] = ENG_LOST_PENDING;
        }
        reconcile_give_up(s);
}

/* From the next member that has it, if there is one. */
static void copy_from_another(struct reconcile *s)
{
        uint64_t seq = 0;
        int from;

        s->unreadable |= eng_bit(s->record_from);
        s->tries = 0;
        from = next_pending(s, s->pg, s->seq - 1, &seq, s->unreadable);
        if (from >= 0 && seq == s->seq)
                reconcile_copy(s, (unsigned)from);
        else
                reconcile_set_aside(s);
}

static void copy_appended(struct eng_op *op)
{
        struct reconcile *s = container_of(op, struct reconcile, append);

        assert(s->tails[s->to].pgs[s->pg].high < s->seq);
        eng_buf_unref(op->append.body);
        if (reconcile_try_again(s, op->result, copy_again))
                return;
        if (op->result == -EINVAL) { /* it makes no sense */
                copy_from_another(s);
                return;
        }
        if (op->result != 0) {
                reconcile_lost(s, s->to, op->result);
                reconcile_give_up(s);
                return;
        }
        atomic_fetch_add(&s->store->reconciled_records, 1);
        s->tails[s->to].pgs[s->pg].high = s->seq;
        s->tails[s->to].pgs[s->pg].copied = true;
        next_copy(s);
}

static void record_read(struct eng_op *op)
{
        struct reconcile *s = container_of(op, struct reconcile, record);

        if (reconcile_try_again(s, op->result, copy_again))
                return;
        if (op->result == -EIO || op->result == -EHOSTUNREACH) {
                reconcile_lost(s, s->record_from, op->result);
                reconcile_give_up(s);
                return;
        }
        if (op->result != 0) {
                copy_from_another(s);
                return;
        }
        memset(&s->append, 0, sizeof(s->append));
        s->append.kind = ENG_OP_APPEND;
        s->append.flags = ENG_OP_RESERVE;
        s->append.epoch = s->store->coord->view.epoch;
        s->append.done = copy_appended;
        s->append.append = op->append;
        eng_drive_submit(s->store->members[s->to].drive, &s->append);
}

static void reconcile_copy(struct reconcile *s, unsigned from)
{
        assert(from != s->to && (s->unreadable & eng_bit(from)) == 0);
        memset(&s->record, 0, sizeof(s->record));
        s->record.kind = ENG_OP_RECORD;
        s->record.epoch = s->store->coord->view.epoch;
        s->record.done = record_read;
        s->record.append.pg = s->pg;
        s->record.append.seq = s->seq;
        s->record_from = from;
        eng_drive_submit(s->store->members[from].drive, &s->record);
}

/*
 * Finds the next (pg, drive, seq) that lacks a record another member has, and copies it; when there
 * is none, commits. A number that a member lacks and nobody has pending was given before it caught
 * up by copies, or to no record: a member that lost one was found by lost.c, and is not among
 * these.
 */
static void next_copy(struct reconcile *s)
{
        struct eng_store *store = s->store;

        for (; s->pg <= store->pg_count; s->pg++, s->to = 0) {
                uint64_t high = highest(s, s->pg);
                eng_mask members = eng_writers(&store->coord->view, s->pg) & store->coord->view.up;

                for (; s->to < store->drive_count; s->to++) {
                        int from;

                        if (!(members & eng_bit(s->to)) || s->tails[s->to].pgs[s->pg].high >= high || !is_whole(s, s->pg))
                                continue;
                        from = next_pending(s, s->pg, s->tails[s->to].pgs[s->pg].high, &s->seq, 0);
                        if (from >= 0) {
                                s->unreadable = 0;
                                s->tries = 0;
                                reconcile_copy(s, (unsigned)from);
                                return;
                        }
                }
        }
        commit_all(s);
}

/* ---- reading the tails ----------------------------------------------------------------------- */

static int index_tail(struct reconcile *s, struct tail_of *t, uint32_t count)
{
        const struct eng_memtable_entry *e = t->entries == NULL ? NULL : (const struct eng_memtable_entry *)t->entries->data;
        uint32_t i;

        t->pgs = calloc(s->store->pg_count + 1, sizeof(t->pgs[0]));
        if (t->pgs == NULL)
                return -ENOMEM;
        for (i = 0; i < count; i++) {
                struct pg_tail *p;

                if (e[i].pg > s->store->pg_count || e[i].seq > SEQ_MOST)
                        return -EBADMSG;
                p = &t->pgs[e[i].pg];
                if (e[i].seq > p->high)
                        p->high = e[i].seq;
                if (e[i].committed > p->committed)
                        p->committed = e[i].committed;
                if (!e[i].pending)
                        continue;
                if (p->count++ == 0)
                        p->first = i;
        }
        return 0;
}

static void tail_read(struct eng_op *op)
{
        struct tail_of *t = container_of(op, struct tail_of, op);
        struct reconcile *s = t->reconcile;

        assert(reconcile_of(s->store) == s && s->out > 0);
        t->entries = op->result == 0 ? op->tail.entries : NULL;
        note_result(s, t->slot, op->result != 0 ? op->result : index_tail(s, t, op->tail.count));
        if (--s->out == 0 && may_go_on(s))
                next_copy(s);
}

void eng_reconcile(struct eng_store *store, void (*again)(struct eng_store *store))
{
        struct recovery *r = store->coord->recovery;
        struct reconcile *s = calloc(1, sizeof(*s));
        unsigned i;

        assert(r->reconcile == NULL && r->lost == NULL);
        if (s == NULL)
                abort(); /* nothing is served yet; a restart tries again */
        eng_phase_set(store->coord, ENG_PHASE_RECONCILE);
        store->coord->view.in_doubt = false;
        r->reconcile = s;
        s->store = store;
        s->again = again;
        s->out = (unsigned)__builtin_popcountll(store->coord->view.up);
        if (s->out == 0) { /* the last drive failed since it was chosen */
                reconcile_give_up(s);
                return;
        }
        for (i = 0; i < store->drive_count; i++) {
                struct tail_of *t = &s->tails[i];

                if (!(store->coord->view.up & eng_bit(i)))
                        continue;
                t->reconcile = s;
                t->slot = i;
                t->op.kind = ENG_OP_TAIL;
                t->op.epoch = store->coord->view.epoch;
                t->op.done = tail_read;
                eng_drive_submit(store->members[i].drive, &t->op);
        }
}
