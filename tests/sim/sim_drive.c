/*
 * sim_drive.c - engine/drive/drive.h over a simulated disk: the operations of an open drive, what
 * is volatile of it, and how it fails.
 *
 * Semantics follow engine/drive/ (append.c, pgs.c, batch.c, write.c, read.c): records become
 * durable in batches, pending until COMMIT; a tick writes what is applied into the index with the
 * log position it covers, then reports what died; frames are durable by SYNC. Operations arrive
 * after a delay, in order only where the contract says so.
 */
#include "tests/sim/sim_alloc.h"
#include "tests/sim/sim_disk.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"
#include "engine/drive/identity.h"
#include "engine/placement/place.h"
#include "engine/record/value.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_world.h"

#define LANES      64u
#define TICK       (1 * SIM_S)
#define HANG_LIMIT (10 * SIM_S)

struct dead_list {
        struct eng_buf **items;
        unsigned count, size;
};

struct sim_drive {
        struct eng_drive drive; /* first */
        struct sim_disk *disk;
        struct eng_local_options options;
        struct lp_msg start, fail_msg;
        char reason[64];
        bool failed, hung, dirty;
        bool vanished;         /* it failed because its folder was gone for a while: the store takes it back by itself */
        bool retired;          /* it has let its disk go, which another may have open */
        struct sim_drive *next_retired;
        unsigned flying;       /* ops on their way to complete() */
        uint64_t hung_until;
        uint64_t cut_until; /* nothing comes to it, or from it, but late */
        struct late *late;  /* what was answered, and is still to come */
        uint64_t epoch; /* newest that is durable here */
        uint64_t fence; /* of the sender of the last VOID record that was taken on */
        struct { /* as struct eng_terms */
                struct eng_term admitted, durable;
                uint8_t admitted_cluster[FMT_ID], cluster[FMT_ID];
                bool opened; /* since the drive was: whoever comes by the newest term is taken */
        } terms;
        struct eng_pgs pgs;
        struct sim_names names;
        uint32_t generation;   /* of the index batch to come */
        struct dead_list dead; /* since the last one */
        struct eng_append_list queue, batch;
        bool writing;
        struct sim_index next; /* the batch under way */
        struct dead_list next_dead;
        bool indexing;
        struct eng_op *parked; /* met a drive that hangs; chained by next */
        bool parked_batch, parked_index;
        uint64_t lanes[4][LANES]; /* when the last op of a lane arrives */
        uint64_t ops;
};

#define DRIVE(d) ((struct sim_drive *)(d))

/* op->priv while it is the drive's */
enum { PRIV_STAGE, PRIV_MARK, PRIV_SUM, PRIV_FRAME, PRIV_CUT };
enum { STAGE_ARRIVE, STAGE_COMPLETE };

/* ---- time ------------------------------------------------------------------------------------ */

static uint64_t latency(const struct sim_drive *d, uint64_t usual)
{
        if (d->disk->faults.slow != 0 && sim_chance(SIM_DRIVES, d->disk->faults.slow))
                return sim_skewed(SIM_DRIVES, usual, 3 * SIM_S);
        return usual / 2 + sim_below(SIM_DRIVES, usual);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void deliver(struct lp_msg *msg)
{
        struct eng_op *op = container_of(msg, struct eng_op, msg);

        op->done(op);
}

/* What it would have answered does not come to whoever asked. */
static void lose_answer(struct eng_op *op)
{
        struct eng_buf *bufs[2] = {NULL, NULL};

        switch (op->kind) {
        case ENG_OP_RECORD:
                bufs[0] = op->append.body;
                break;
        case ENG_OP_LOOKUP:
                bufs[0] = op->lookup.value;
                bufs[1] = op->lookup.bytes;
                op->lookup.value = op->lookup.bytes = NULL;
                break;
        case ENG_OP_SCAN:
                bufs[0] = op->scan.entries;
                break;
        case ENG_OP_TAIL:
                bufs[0] = op->tail.entries;
                break;
        case ENG_OP_IDS:
                bufs[0] = op->ids.ids;
                break;
        case ENG_OP_OWNED:
                bufs[0] = op->owned.bits;
                break;
        default:
                break;
        }
        eng_buf_unref(bufs[0]);
        eng_buf_unref(bufs[1]);
}

static void answer(struct eng_op *op, int rv)
{
        if (op->priv[PRIV_CUT] != 0) {
                if (rv == 0 || (op->kind == ENG_OP_LOOKUP && rv == -EBADMSG))
                        lose_answer(op);
                rv = -EHOSTUNREACH;
        }
        sim_note(2, op->kind, (uint64_t)(int64_t)rv);
        if (rv != 0)
                sim_trace("  drive %u: op %d answers %d", op->drive->slot, (int)op->kind, rv);
        op->result = rv;
        op->msg.run = deliver;
        lp_post(op->home, &op->msg);
}

static void park(struct sim_drive *d, struct eng_op *op, uint64_t stage)
{
        op->priv[PRIV_STAGE] = stage;
        op->next = d->parked;
        d->parked = op;
}

/* ---- applying records ------------------------------------------------------------------------ */

static void add_dead(void *arg, struct eng_buf *value)
{
        struct dead_list *list = arg;

        if (list->count == list->size) {
                list->size = 2 * list->size + 16;
                list->items = realloc(list->items, list->size * sizeof(list->items[0]));
                assert(list->items != NULL);
        }
        list->items[list->count++] = value;
}

static void clear_dead(struct dead_list *list)
{
        while (list->count > 0)
                eng_buf_unref(list->items[--list->count]);
        free(list->items);
        memset(list, 0, sizeof(*list));
}

static void apply(struct sim_drive *d, const struct eng_append *append)
{
        struct eng_mut mut;
        size_t pos = 0;

        d->dirty = true;
        while (eng_rec_next(append->body->data, append->rec.body_len, append->rec.inline_len, &pos, &mut) == 1) {
                if (mut.name[0] == FMT_SPACE_VERSION && (d->disk->identity.features & FMT_FEATURE_VERSIONS) == 0)
                        sim_fail("drive %u has a version, and builds that know of none would open it (V18)", d->drive.slot);
                sim_names_apply(&d->names, &mut, &append->rec, append->body, d->generation, add_dead, &d->dead);
        }
}

static void take_term(struct sim_drive *d, const struct eng_buf *body)
{
        struct fmt_term record;
        struct eng_term term;

        memcpy(&record, body->data, sizeof(record));
        term = (struct eng_term){.generation = record.generation, .revision = record.revision, .boot = record.boot, .node = record.node};
        if (eng_term_compare(&term, &d->terms.durable) < 0)
                return;
        d->terms.durable = term;
        memcpy(d->terms.cluster, record.cluster, FMT_ID);
        if (eng_term_compare(&term, &d->terms.admitted) < 0)
                return;
        d->terms.admitted = term;
        memcpy(d->terms.admitted_cluster, record.cluster, FMT_ID);
}

static void apply_up_to(struct sim_drive *d, struct eng_log_pg *pg, uint64_t seq)
{
        struct eng_append *append;

        while ((append = eng_pgs_take(&d->pgs, pg, seq)) != NULL) {
                apply(d, append);
                eng_append_free(append);
        }
}

static void apply_void(struct sim_drive *d, const struct eng_append *append)
{
        const struct eng_buf *body = append->body;
        struct eng_log_pg *pg = NULL;
        struct fmt_void one;
        size_t at;

        for (at = 0; body != NULL && at + sizeof(one) <= body->len; at += sizeof(one)) {
                memcpy(&one, body->data + at, sizeof(one));
                eng_pgs_void(&d->pgs, &one);
        }
        while ((pg = eng_pgs_next(&d->pgs, pg)) != NULL)
                apply_up_to(d, pg, UINT64_MAX);
        d->dirty = true;
}

/*
 * A record of the log, durable now or found there. Takes over append; committed: its pg's records
 * up to there are applied at once.
 */
static void take_record(struct sim_drive *d, struct eng_append *append, bool replay)
{
        struct eng_log_pg *pg;

        d->dirty = true;
        switch (append->rec.type) {
        case FMT_RECORD_PG:
                pg = eng_pgs_get(&d->pgs, append->rec.pg);
                eng_pgs_set_committed(pg, append->rec.committed);
                if (!eng_pgs_add(&d->pgs, pg, append))
                        eng_append_free(append);
                if (replay)
                        apply_up_to(d, pg, pg->committed);
                return;
        case FMT_RECORD_COPY:
                pg = eng_pgs_find(&d->pgs, append->rec.pg);
                if (pg != NULL && append->rec.committed > 0) {
                        eng_pgs_set_committed(pg, append->rec.committed);
                        apply_up_to(d, pg, append->rec.committed);
                }
                apply(d, append);
                break;
        case FMT_RECORD_VOID:
                apply_void(d, append);
                break;
        case FMT_RECORD_EPOCH:
                if (append->rec.epoch > d->epoch)
                        d->epoch = append->rec.epoch;
                break;
        case FMT_RECORD_TERM:
                take_term(d, append->body);
                break;
        }
        eng_append_free(append);
}

/* ---- the log --------------------------------------------------------------------------------- */

static void kick(struct sim_drive *d);

static void answer_open(struct sim_drive *d, struct eng_op *op, int rv)
{
        if (rv == 0 && eng_term_compare(&op->term, &d->terms.admitted) < 0)
                rv = -ESTALE; /* a newer one has come meanwhile */
        op->deposed = rv == -ESTALE;
        if (rv == -ESTALE || rv == -EXDEV)
                op->open.newest = d->terms.admitted;
        answer(op, rv);
}

static void batch_written(void *arg)
{
        struct sim_drive *d = arg;
        struct eng_append *append;
        struct eng_op *op;

        if (d->hung) {
                d->parked_batch = true;
                return;
        }
        d->writing = false;
        while ((append = TAILQ_FIRST(&d->batch)) != NULL) {
                TAILQ_REMOVE(&d->batch, append, link);
                op = append->op;
                append->op = NULL;
                if (d->failed) {
                        eng_append_free(append);
                        answer(op, -EIO);
                        continue;
                }
                append->rec.position = d->disk->log_count;
                sim_trace("  drive %u: record %llu: type %u, group %u, seq %llu, epoch %llu", d->drive.slot,
                          (unsigned long long)append->rec.position, append->rec.type, append->rec.pg,
                          (unsigned long long)append->rec.seq, (unsigned long long)append->rec.epoch);
                sim_disk_append(d->disk, &append->rec, append->body);
                take_record(d, append, false);
                if (op->kind == ENG_OP_OPEN)
                        answer_open(d, op, 0);
                else
                        answer(op, 0);
        }
        kick(d);
}

static void kick(struct sim_drive *d)
{
        uint64_t most = sim_skewed(SIM_DRIVES, 1, 32);
        struct eng_append *append;

        if (d->writing || d->failed || TAILQ_EMPTY(&d->queue))
                return;
        while (most-- > 0 && (append = TAILQ_FIRST(&d->queue)) != NULL) {
                TAILQ_REMOVE(&d->queue, append, link);
                TAILQ_INSERT_TAIL(&d->batch, append, link);
        }
        d->writing = true;
        sim_at(latency(d, 60 * SIM_US), d->drive.owner, batch_written, d);
}

/* ---- terms (engine/drive/term.c) -------------------------------------------------------------- */

static bool term_is_free(const struct eng_op *op)
{
        return op->of_home && (op->kind == ENG_OP_READ || op->kind == ENG_OP_WRITE || op->kind == ENG_OP_SYNC || op->kind == ENG_OP_HELD) &&
               eng_term_is_none(&op->term);
}

/* 0: the operation is of the term that the drive was OPENed by. */
static int check_term(const struct sim_drive *d, struct eng_op *op)
{
        int order = eng_term_compare(&op->term, &d->terms.admitted);

        if (op->kind == ENG_OP_OPEN || term_is_free(op) || (eng_term_is_none(&d->terms.admitted) && eng_term_is_none(&op->term)))
                return 0;
        if (order > 0 || (order == 0 && !d->terms.opened))
                return -ENOTCONN;
        if (order == 0 && eng_term_same(&op->term, &d->terms.admitted))
                return 0;
        op->deposed = true;
        return -ESTALE;
}

/* What of older terms is not on its way to the disk yet is refused. */
static void depose(struct sim_drive *d)
{
        struct eng_append *append, *next;

        TAILQ_FOREACH_SAFE (append, &d->queue, link, next) {
                if (append->op->kind == ENG_OP_OPEN || eng_term_compare(&append->op->term, &d->terms.admitted) >= 0)
                        continue;
                TAILQ_REMOVE(&d->queue, append, link);
                append->op->deposed = true;
                answer(append->op, -ESTALE);
                eng_append_free(append);
        }
}

static int admit_term(const struct sim_drive *d, const struct eng_op *op)
{
        const struct eng_term *known = &d->terms.admitted;
        int order = eng_term_compare(&op->term, known);

        if (order < 0 || (order == 0 && !eng_term_same(&op->term, known)))
                return -ESTALE;
        if (!eng_term_is_none(known) && op->term.generation == known->generation && memcmp(op->open.cluster, d->terms.admitted_cluster, FMT_ID) != 0)
                return -EXDEV;
        return 0;
}

static void op_open(struct sim_drive *d, struct eng_op *op)
{
        struct fmt_term record = {.generation = op->term.generation, .revision = op->term.revision, .boot = op->term.boot, .node = op->term.node};
        struct eng_append *append;
        struct eng_buf *body;
        int rv = admit_term(d, op);

        if (rv != 0) {
                answer_open(d, op, rv);
                return;
        }
        d->terms.admitted = op->term;
        memcpy(d->terms.admitted_cluster, op->open.cluster, FMT_ID);
        d->terms.opened = true;
        d->disk->identity.features |= FMT_FEATURE_TERMS;
        depose(d);
        body = eng_buf_new(sizeof(record));
        assert(body != NULL);
        memcpy(record.cluster, op->open.cluster, FMT_ID);
        memcpy(body->data, &record, sizeof(record));
        append = eng_append_new(FMT_RECORD_TERM, body);
        assert(append != NULL);
        eng_buf_unref(body);
        append->op = op;
        TAILQ_INSERT_TAIL(&d->queue, append, link);
        kick(d);
}

static void sim_drive_term(struct eng_drive *drive, struct eng_term *out, uint8_t cluster[FMT_ID])
{
        *out = DRIVE(drive)->terms.durable;
        memcpy(cluster, DRIVE(drive)->terms.cluster, FMT_ID);
}

/* ---- operations that change the log ----------------------------------------------------------- */

/* Of a sender that the drive has been told to take nothing from any more. */
static bool is_fenced(const struct sim_drive *d, const struct eng_op *op)
{
        return op->epoch < d->epoch || op->epoch < d->fence;
}

static void op_append(struct sim_drive *d, struct eng_op *op)
{
        struct eng_append *append;
        struct eng_buf *body = NULL;

        if (eng_append_check(op) != 0 ||
            (op->append.body != NULL && era_crc32c(0, op->append.body->data, op->append.body->len) != op->append.body_crc))
                sim_fail("a record of type %u makes no sense", op->append.type);
        if (is_fenced(d, op) || eng_append_have(&d->pgs, op)) {
                answer(op, is_fenced(d, op) ? -ESTALE : 0);
                return;
        }
        if (op->append.type == FMT_RECORD_VOID)
                d->fence = op->epoch;
        if (op->append.type == FMT_RECORD_VOID)
                body = eng_pgs_void_body(&d->pgs);
        else if (op->append.body != NULL)
                body = eng_buf_ref(op->append.body);
        if (op->append.type == FMT_RECORD_VOID && body == NULL) {
                answer(op, -EAGAIN);
                return;
        }
        sim_figures.appends++;
        append = eng_append_new(op->append.type, body);
        assert(append != NULL);
        eng_buf_unref(body);
        eng_append_describe(append, op);
        append->op = op;
        TAILQ_INSERT_TAIL(&d->queue, append, link);
        kick(d);
}

static void op_commit(struct sim_drive *d, struct eng_op *op)
{
        struct eng_log_pg *pg;

        if (is_fenced(d, op)) {
                answer(op, -ESTALE);
                return;
        }
        pg = eng_pgs_get(&d->pgs, op->commit.pg);
        eng_pgs_set_committed(pg, op->commit.seq);
        apply_up_to(d, pg, op->commit.seq);
        sim_trace("  drive %u: commit of group %u up to %llu", d->drive.slot, op->commit.pg,
                  (unsigned long long)op->commit.seq);
        answer(op, 0);
}

static void op_tail(struct sim_drive *d, struct eng_op *op)
{
        op->tail.entries = eng_pgs_tail(&d->pgs, &op->tail.count);
        answer(op, op->tail.entries == NULL ? -EAGAIN : 0);
}

static void op_record(struct sim_drive *d, struct eng_op *op)
{
        const struct eng_log_pg *pg = eng_pgs_find(&d->pgs, op->append.pg);
        const struct eng_append *found = pg != NULL ? eng_pgs_find_pending(pg, op->append.seq) : NULL;

        op->append.body = NULL;
        if (found == NULL) {
                answer(op, -ENOENT);
                return;
        }
        op->append.body_crc = found->rec.body_crc;
        op->append.inline_len = found->rec.inline_len;
        op->append.type = found->rec.type;
        op->append.committed = found->rec.committed;
        op->append.time_ms = found->rec.time_ms;
        op->append.record_epoch = found->rec.epoch;
        op->append.body = eng_buf_ref(found->body);
        answer(op, 0);
}

/* ---- the index ------------------------------------------------------------------------------- */

static void snapshot(struct sim_drive *d)
{
        const struct eng_append *oldest = TAILQ_FIRST(&d->pgs.order);
        struct eng_log_pg *pg = NULL;

        sim_names_copy(&d->next.names, &d->names);
        d->next.pgs = calloc(d->pgs.count + 1, sizeof(d->next.pgs[0]));
        assert(d->next.pgs != NULL);
        while ((pg = eng_pgs_next(&d->pgs, pg)) != NULL)
                d->next.pgs[d->next.pg_count++] = (struct fmt_index_pg){
                        .pg = pg->pg, .seq = pg->applied, .committed = pg->committed, .epoch = pg->applied_epoch};
        d->next.covered = oldest != NULL ? oldest->rec.position : d->disk->log_count;
        d->next.reach = d->disk->log_count;
        d->next.generation = d->generation++;
        d->next_dead = d->dead;
        memset(&d->dead, 0, sizeof(d->dead));
        d->dirty = false;
}

static void index_written(void *arg)
{
        struct sim_drive *d = arg;
        uint32_t generation = d->next.generation;
        struct dead_list dead;

        if (d->hung) {
                d->parked_index = true;
                return;
        }
        d->indexing = false;
        if (d->failed)
                return;
        sim_disk_set_index(d->disk, &d->next);
        sim_names_thaw(&d->names, generation);
        dead = d->next_dead;
        memset(&d->next_dead, 0, sizeof(d->next_dead));
        if (dead.count > 0)
                d->options.superseded(d->options.arg, &d->drive, dead.items, dead.count);
        clear_dead(&dead);
}

static void rot(struct sim_drive *d)
{
        struct sim_disk *disk = d->disk;
        struct sim_frame *frame;

        if (disk->frame_count == 0 || !sim_chance(SIM_FAULTS, disk->faults.rot))
                return;
        frame = disk->frames[sim_below(SIM_FAULTS, disk->frame_count)];
        if (frame->written == 0)
                return;
        frame->damaged = true;
        sim_figures.rotten++;
        sim_trace("  drive %u: a frame rots", d->drive.slot);
}

static void tick(void *arg)
{
        struct sim_drive *d = arg;

        if (d->failed)
                return;
        rot(d);
        if (d->dirty && !d->indexing && !d->hung) {
                d->indexing = true;
                snapshot(d);
                sim_at(latency(d, 5 * SIM_MS), d->drive.owner, index_written, d);
        }
        sim_at(TICK / 2 + sim_below(SIM_DRIVES, TICK), d->drive.owner, tick, d);
}

/* ---- LOOKUP ---------------------------------------------------------------------------------- */

/*
 * A bad page of its index hides the name, and nothing says so. Of the only member it is the truth.
 */
static bool forgets(const struct sim_drive *d, const struct fmt_value *head)
{
        if (!sim_chance(SIM_FORGET, d->disk->faults.forgets) ||
            !world_others_speak(d->drive.slot, head->pg))
                return false;
        sim_figures.forgotten++;
        sim_trace("  drive %u: misses a name that is there", d->drive.slot);
        return true;
}

static void op_lookup(struct sim_drive *d, struct eng_op *op)
{
        const struct sim_name *entry;
        bool inline_wanted;

        op->lookup.value = op->lookup.bytes = NULL;
        if (sim_chance(SIM_FAULTS, d->disk->faults.refuse)) {
                answer(op, -EAGAIN);
                return;
        }
        entry = sim_names_find(&d->names, op->lookup.name, op->lookup.name_len);
        if (entry == NULL || entry->kind != SIM_PUT) {
                answer(op, -ENOENT);
                return;
        }
        if (forgets(d, (const struct fmt_value *)entry->value->data)) {
                answer(op, -ENOENT);
                return;
        }
        op->lookup.value = eng_buf_ref(entry->value);
        inline_wanted = (op->flags & ENG_OP_WANT_INLINE) != 0 && entry->inline_len > 0;
        if (sim_chance(SIM_FAULTS, d->disk->faults.damaged)) {
                if (!inline_wanted) { /* a value that fails its checksum is not given; bytes that do leave the value */
                        eng_buf_unref(op->lookup.value);
                        op->lookup.value = NULL;
                }
                answer(op, -EBADMSG);
                return;
        }
        if (inline_wanted) {
                op->lookup.bytes = sim_buf_new(entry->inline_len);
                memcpy(op->lookup.bytes->data, entry->body->data + entry->inline_at, entry->inline_len);
        }
        answer(op, 0);
}

static void op_scan(struct sim_drive *d, struct eng_op *op)
{
        op->scan.entries = NULL;
        op->scan.count = 0;
        op->scan.more = false;
        if (sim_chance(SIM_FAULTS, d->disk->faults.refuse)) {
                answer(op, -EAGAIN);
                return;
        }
        sim_names_scan(&d->names, op);
        answer(op, 0);
}

/* ---- frames ---------------------------------------------------------------------------------- */

static uint64_t sum_of(const struct eng_op *op)
{
        return era_crc32c(0, op->write.payload, op->write.payload_len);
}

static void op_write(struct sim_drive *d, struct eng_op *op)
{
        struct sim_frame *frame;

        if (op->write.payload_len == 0 || op->write.payload_len > FMT_UNIT_MAX ||
            op->write.payload_len % FMT_BLOCK != 0)
                sim_fail("a WRITE of %u bytes", op->write.payload_len);
        if (is_fenced(d, op) || (d->disk->full && (op->flags & ENG_OP_RESERVE) == 0)) {
                answer(op, is_fenced(d, op) ? -ESTALE : -ENOSPC);
                return;
        }
        sim_figures.writes++;
        frame = sim_disk_frame(d->disk);
        memcpy(frame->object_id, op->write.object_id, FMT_ID);
        frame->stripe = op->write.stripe;
        frame->shard = op->write.shard;
        frame->key_hash = op->write.key_hash;
        frame->payload = sim_buf_new(op->write.payload_len);
        memcpy(frame->payload->data, op->write.payload, op->write.payload_len);
        op->priv[PRIV_FRAME] = (uint64_t)(uintptr_t)frame;
}

static void written(struct sim_drive *d, struct eng_op *op)
{
        struct sim_frame *frame = (struct sim_frame *)(uintptr_t)op->priv[PRIV_FRAME];

        if (sum_of(op) != op->priv[PRIV_SUM])
                sim_fail("a buffer was changed while the drive had it (I7)");
        frame->written = ++d->disk->written;
        d->dirty = true;
        sim_trace("  drive %u: frame %s stripe %u shard %u written", d->drive.slot, sim_id(frame->object_id),
                  frame->stripe, frame->shard);
        memset(op->write.slot, 0x77, 64); /* the header part is the drive's to write */
        answer(op, 0);
}

static void synced(struct sim_drive *d, struct eng_op *op)
{
        unsigned i;

        for (i = 0; i < d->disk->frame_count; i++) {
                struct sim_frame *frame = d->disk->frames[i];

                if (frame->written != 0 && frame->written <= op->priv[PRIV_MARK])
                        frame->synced = true;
        }
        answer(op, 0);
}

static void have_read(struct sim_drive *d, struct eng_op *op)
{
        const struct sim_frame *frame = sim_disk_find(d->disk, op->read.object_id, op->read.stripe, op->read.shard);

        if (frame == NULL) {
                answer(op, -ENOENT);
        } else if (frame->damaged || frame->payload->len != op->read.payload_len) {
                answer(op, -EBADMSG);
        } else {
                memcpy((uint8_t *)op->read.slot + LP_SLOT_HEADER + op->read.offset,
                       frame->payload->data + op->read.offset, op->read.len);
                if ((op->flags & ENG_OP_WANT_CRC) != 0)
                        op->read.crc = era_crc32c(0, frame->payload->data + op->read.offset, op->read.len);
                answer(op, 0);
        }
}

static void op_read(struct sim_drive *d, struct eng_op *op)
{
        if (op->read.len == 0 || op->read.payload_len > FMT_UNIT_MAX ||
            op->read.offset + op->read.len > op->read.payload_len)
                sim_fail("a READ of %u bytes at %u of %u", op->read.len, op->read.offset, op->read.payload_len);
        sim_figures.reads++;
        memset((uint8_t *)op->read.slot + LP_SLOT_HEADER + op->read.offset, 0xdd,
               op->read.len < 4096 ? op->read.len : 4096);
}

static void op_discard(struct sim_drive *d, struct eng_op *op)
{
        unsigned i;

        sim_trace("  drive %u: discard of %s", d->drive.slot, sim_id(op->discard.object_id));
        for (i = 0; i < d->disk->frame_count; i++) {
                struct sim_frame *frame = d->disk->frames[i];

                if (frame->written != 0 && frame->discarded == 0 &&
                    memcmp(frame->object_id, op->discard.object_id, FMT_ID) == 0)
                        frame->discarded = d->generation;
        }
        d->dirty = true;
        answer(op, 0);
}

static void op_held(struct sim_drive *d, struct eng_op *op)
{
        const struct sim_frame *frame;
        uint32_t i;

        if (op->held.count > ENG_HELD_MAX)
                sim_fail("a HELD of %u stripes", op->held.count);
        memset(op->held.bits, 0, sizeof(op->held.bits));
        for (i = 0; i < op->held.count; i++) {
                frame = sim_disk_find(d->disk, op->held.object_id, op->held.stripe + i, op->held.shard);
                if (frame != NULL && !frame->known)
                        op->held.bits[i / 64] |= 1ull << (i % 64);
        }
        answer(op, 0);
}

/* ---- scrub: frames in the order in which they were written ----------------------------------- */

static struct sim_frame *next_written(const struct sim_drive *d, uint64_t after)
{
        struct sim_frame *next = NULL;
        unsigned i;

        for (i = 0; i < d->disk->frame_count; i++) {
                struct sim_frame *f = d->disk->frames[i];

                if (f->written > after && f->discarded == 0 && (next == NULL || f->written < next->written))
                        next = f;
        }
        return next;
}

/* Neither discarded nor written anew. */
static bool is_newest(const struct sim_drive *d, const struct sim_frame *frame)
{
        return sim_disk_find(d->disk, frame->object_id, frame->stripe, frame->shard) == frame;
}

static uint32_t known_frames(const struct sim_drive *d)
{
        uint32_t known = 0;
        unsigned i;

        for (i = 0; i < d->disk->frame_count; i++)
                known += d->disk->frames[i]->known && is_newest(d, d->disk->frames[i]);
        return known;
}

static void scrub_found(struct eng_op *op, struct sim_frame *frame)
{
        frame->known = true;
        op->scrub.damaged = true;
        op->scrub.state.damaged++;
        op->scrub.stripe = frame->stripe;
        op->scrub.shard = frame->shard;
        op->scrub.key_hash = frame->key_hash;
        memcpy(op->scrub.object_id, frame->object_id, FMT_ID);
        sim_trace("  drive %u: a scrub finds frame %s stripe %u shard %u", op->drive->slot, sim_id(frame->object_id),
                  frame->stripe, frame->shard);
        sim_figures.rot_found++;
}

/* `segment` is 1 while a round is under way, `position` the number of the last frame read. */
static void have_scrubbed(struct sim_drive *d, struct eng_op *op)
{
        struct fmt_drive_scrub *state = &op->scrub.state;
        struct sim_frame *frame;

        if (state->segment == 0) {
                memset(state, 0, offsetof(struct fmt_drive_scrub, started_ms));
                state->segment = 1;
                state->last = state->total = d->disk->written;
        }
        frame = next_written(d, state->position);
        op->scrub.ended = frame == NULL || frame->written > state->last;
        if (!op->scrub.ended) {
                state->position = frame->written;
                state->bytes = frame->written;
                if (frame->damaged && is_newest(d, frame))
                        scrub_found(op, frame);
                else
                        state->frames++;
        }
        op->scrub.remembered = known_frames(d);
        d->disk->scrub = *state;
        answer(op, 0);
}

/* Some were kept while the clock was years ahead. */
static struct fmt_drive_scrub kept_scrub(const struct sim_drive *d)
{
        struct fmt_drive_scrub state = d->disk->scrub;
        const int64_t ahead = sim_chance(SIM_SCRUB, 8) ? 10ll * 365 * 86400 * 1000 : 0;

        state.last_started_ms += state.last_started_ms == 0 ? 0 : ahead;
        state.started_ms += state.started_ms == 0 ? 0 : ahead;
        return state;
}

/* True: it takes time. */
static bool op_scrub(struct sim_drive *d, struct eng_op *op)
{
        op->scrub.ended = op->scrub.damaged = false;
        op->scrub.remembered = known_frames(d);
        if (op->scrub.what == ENG_SCRUB_READ) {
                if (op->scrub.most == 0 || op->scrub.most > ENG_SCRUB_STRETCH || op->home != d->drive.owner)
                        sim_fail("a SCRUB of %u bytes", op->scrub.most);
                if (op->scrub.yield && sim_chance(SIM_SCRUB, 4)) {
                        answer(op, -EAGAIN);
                        return false;
                }
                memset(op->scrub.slot, 0xdd, 4096);
                return true;
        }
        if (op->scrub.what == ENG_SCRUB_LOAD)
                op->scrub.state = kept_scrub(d);
        else if (op->scrub.what == ENG_SCRUB_KEEP)
                d->disk->scrub = op->scrub.state;
        answer(op, 0);
        return false;
}

/* A frame of the least id after the given one, or NULL. */
static const struct sim_frame *next_id(const struct sim_drive *d, const uint8_t *after)
{
        const struct sim_frame *least = NULL;
        unsigned i;

        for (i = 0; i < d->disk->frame_count; i++) {
                const struct sim_frame *f = d->disk->frames[i];

                if (f->written != 0 && f->discarded == 0 && memcmp(f->object_id, after, FMT_ID) > 0 &&
                    (least == NULL || memcmp(f->object_id, least->object_id, FMT_ID) < 0))
                        least = f;
        }
        return least;
}

static void op_ids(struct sim_drive *d, struct eng_op *op)
{
        const uint8_t *after = op->ids.after;
        const struct sim_frame *frame;

        if (op->ids.max == 0 || op->ids.max > ENG_IDS_MAX)
                sim_fail("IDS of %u", op->ids.max);
        op->ids.count = 0;
        op->ids.ids = sim_buf_new((size_t)op->ids.max * sizeof(struct eng_held_id));
        while (op->ids.count < op->ids.max && (frame = next_id(d, after)) != NULL) {
                struct eng_held_id *held = (struct eng_held_id *)op->ids.ids->data + op->ids.count++;

                held->key_hash = frame->key_hash;
                memcpy(held->id, frame->object_id, FMT_ID);
                after = frame->object_id;
        }
        if (op->ids.count == 0) {
                eng_buf_unref(op->ids.ids);
                op->ids.ids = NULL;
        }
        answer(op, 0);
}

/* Some name in its index has a part of this id. */
static bool is_owned(const struct sim_drive *d, const uint8_t id[FMT_ID])
{
        const struct sim_names *names = &d->disk->index.names;
        struct eng_part part;
        size_t pos;
        unsigned i;

        for (i = 0; i < names->count; i++) {
                const struct sim_name *name = &names->items[i];

                pos = 0;
                while (eng_value_next_part(name->value->data, name->value->len, &pos, &part) == 1)
                        if (memcmp(part.head.id, id, FMT_ID) == 0)
                                return true;
        }
        return false;
}

/*
 * The mark is the index batch that will hold what is visible now. Before it is there the drive answers -EAGAIN; from then
 * on what the index has, and no name that came later, as a real one does.
 */
static void op_owned(struct sim_drive *d, struct eng_op *op)
{
        uint32_t i;

        op->owned.bits = NULL;
        if (op->owned.count > ENG_OWNED_MAX)
                sim_fail("OWNED of %u", op->owned.count);
        if (op->owned.count == 0) {
                op->owned.mark = d->generation - !d->dirty;
                answer(op, 0);
                return;
        }
        if (d->disk->index.generation < op->owned.mark) {
                answer(op, -EAGAIN);
                return;
        }
        op->owned.bits = sim_buf_new(ENG_OWNED_MAX / 8);
        memset(op->owned.bits->data, 0, ENG_OWNED_MAX / 8);
        for (i = 0; i < op->owned.count; i++)
                if (is_owned(d, op->owned.ids[i]))
                        op->owned.bits->data[i / 8] |= (uint8_t)(1u << i % 8);
        answer(op, 0);
}

/* ---- submit ---------------------------------------------------------------------------------- */

static void complete(void *arg)
{
        struct eng_op *op = arg;
        struct sim_drive *d = DRIVE(op->drive);

        d->flying--;
        if (d->hung) {
                d->flying++;
                park(d, op, STAGE_COMPLETE);
        } else if (d->failed) {
                answer(op, -EIO);
        } else if (op->kind == ENG_OP_WRITE) {
                written(d, op);
        } else if (op->kind == ENG_OP_SYNC) {
                synced(d, op);
        } else if (op->kind == ENG_OP_SCRUB) {
                have_scrubbed(d, op);
        } else {
                have_read(d, op);
        }
}

static void dispatch(struct sim_drive *d, struct eng_op *op)
{
        uint64_t usual = 0;
        int rv = check_term(d, op);

        if (rv != 0) {
                answer(op, rv);
                return;
        }
        switch (op->kind) {
        case ENG_OP_APPEND:
                op_append(d, op);
                return;
        case ENG_OP_COMMIT:
                op_commit(d, op);
                return;
        case ENG_OP_LOOKUP:
                op_lookup(d, op);
                return;
        case ENG_OP_SCAN:
                op_scan(d, op);
                return;
        case ENG_OP_TAIL:
                op_tail(d, op);
                return;
        case ENG_OP_RECORD:
                op_record(d, op);
                return;
        case ENG_OP_DISCARD:
                op_discard(d, op);
                return;
        case ENG_OP_HELD:
                op_held(d, op);
                return;
        case ENG_OP_IDS:
                op_ids(d, op);
                return;
        case ENG_OP_OWNED:
                if (op->owned.count > 0 && sim_chance(SIM_FAULTS, 8)) { /* what the mark stands for is not in the index yet */
                        op->owned.bits = NULL;
                        answer(op, -EAGAIN);
                        return;
                }
                op_owned(d, op);
                return;
        case ENG_OP_WRITE:
                op->priv[PRIV_FRAME] = 0;
                op_write(d, op);
                if (op->priv[PRIV_FRAME] == 0)
                        return;
                usual = 200 * SIM_US;
                break;
        case ENG_OP_SYNC:
                usual = 500 * SIM_US;
                break;
        case ENG_OP_READ:
                op_read(d, op);
                usual = 100 * SIM_US;
                break;
        case ENG_OP_SCRUB:
                if (!op_scrub(d, op))
                        return;
                usual = 300 * SIM_US;
                break;
        case ENG_OP_FEATURES:
                d->disk->identity.features |= op->features.bits;
                answer(op, 0);
                return;
        case ENG_OP_OPEN:
                op_open(d, op);
                return;
        case ENG_OP_KINDS:
                sim_fail("an operation of no kind");
        }
        d->flying++;
        sim_at(latency(d, usual), d->drive.owner, complete, op);
}

static void arrive(void *arg)
{
        struct eng_op *op = arg;
        struct sim_drive *d = DRIVE(op->drive);

        d->ops++;
        sim_figures.ops++;
        if (d->hung)
                park(d, op, STAGE_ARRIVE);
        else if (d->failed)
                answer(op, -EIO);
        else
                dispatch(d, op);
}

static uint32_t pg_of_name(const struct eng_op *op)
{
        uint8_t key[2 * FMT_NAME_MAX];
        const uint8_t *name = op->lookup.name;
        uint64_t bucket;
        size_t used, len;

        if (name[0] == FMT_SPACE_CONFIG)
                return sim_pg_count;
        memcpy(&bucket, name + 1, 8);
        bucket = __builtin_bswap64(bucket);
        if (name[0] == FMT_SPACE_OBJECT)
                return eng_pg_of_key(sim_pg_count, bucket, name + 9, op->lookup.name_len - 9u);
        len = eng_name_unescape(key, name + 9, op->lookup.name_len - 9u, &used);
        return eng_pg_of_key(sim_pg_count, bucket, key, len);
}

/* Ops of one group from one loop arrive in order; -1: no order is promised. */
static int lane_of(const struct eng_op *op)
{
        switch (op->kind) {
        case ENG_OP_APPEND:
        case ENG_OP_RECORD:
                return sim_loose_order ? (int)(op->append.pg % LANES) : 0;
        case ENG_OP_COMMIT:
                return sim_loose_order ? (int)(op->commit.pg % LANES) : 0;
        case ENG_OP_LOOKUP:
                return sim_loose_order ? (int)(pg_of_name(op) % LANES) : 0;
        default:
                return sim_loose_order ? -1 : 0;
        }
}

/* ---- a drive that cannot be reached ---------------------------------------------------------- */

/* An operation that was answered as lost, and comes to the drive all the same, late. */
struct late {
        struct eng_op op; /* first */
        struct late *next;
        bool over;
};

static void late_done(struct eng_op *op)
{
        ((struct late *)op)->over = true;
}

static void late_free(struct sim_drive *d)
{
        struct late *late;

        while ((late = d->late) != NULL) {
                d->late = late->next;
                if (late->op.kind == ENG_OP_APPEND)
                        eng_buf_unref(late->op.append.body);
                free(late);
        }
}

static void come_late(struct sim_drive *d, const struct eng_op *op)
{
        struct late *late = calloc(1, sizeof(*late));

        assert(late != NULL);
        late->op = *op;
        late->op.done = late_done;
        late->op.priv[PRIV_CUT] = 0;
        if (op->kind == ENG_OP_APPEND && op->append.body != NULL)
                eng_buf_ref(op->append.body);
        late->next = d->late;
        d->late = late;
        sim_figures.late++;
        sim_at(sim_skewed(SIM_CUTS, SIM_MS, 40 * SIM_S), d->drive.owner, arrive, &late->op);
}

static void answer_lost(void *arg)
{
        answer(arg, -EHOSTUNREACH);
}

/* True: the drive does not see it, not now. */
static bool is_cut(struct sim_drive *d, struct eng_op *op)
{
        bool late = op->kind == ENG_OP_APPEND || op->kind == ENG_OP_COMMIT;

        op->priv[PRIV_CUT] = 0;
        if (sim.now >= d->cut_until)
                return false;
        op->priv[PRIV_CUT] = 1;
        if (sim_chance(SIM_CUTS, 3))
                return false; /* it does it, and its answer is lost */
        if (late && sim_chance(SIM_CUTS, 2))
                come_late(d, op);
        sim_at(sim_skewed(SIM_CUTS, SIM_US, 2 * SIM_S), op->home, answer_lost, op);
        return true;
}

void sim_drive_cut(struct sim_disk *disk, uint64_t ns)
{
        struct sim_drive *d = disk->open;

        if (d == NULL || d->failed || sim.now < d->cut_until)
                return;
        sim_trace("  drive %u cannot be reached for %.3f s", d->drive.slot, (double)ns / 1e9);
        sim_figures.cut_off++;
        d->cut_until = sim.now + ns;
}

bool sim_drive_is_cut(const struct sim_disk *disk)
{
        return disk->open != NULL && sim.now < disk->open->cut_until;
}

static void submit(struct eng_drive *drive, struct eng_op *op)
{
        struct sim_drive *d = DRIVE(drive);
        uint64_t when = sim.now + 100 + sim_below(SIM_DRIVES, 20 * SIM_US), *last;
        int lane;

        assert(op->kind < ENG_OP_KINDS && sim.self != NULL);
        op->home = sim.self;
        op->drive = drive;
        op->priv[PRIV_MARK] = d->disk->written;
        if (op->kind == ENG_OP_WRITE)
                op->priv[PRIV_SUM] = sum_of(op);
        if (is_cut(d, op))
                return;
        if (d->disk->faults.slow != 0 && sim_chance(SIM_DRIVES, 4 * d->disk->faults.slow))
                when += sim_below(SIM_DRIVES, 200 * SIM_MS);
        lane = lane_of(op);
        if (lane >= 0) {
                last = &d->lanes[lp_index(op->home)][lane];
                if (when <= *last)
                        when = *last + 1;
                *last = when;
        }
        sim_at(when - sim.now, d->drive.owner, arrive, op);
}

/* ---- failing --------------------------------------------------------------------------------- */

static void tell_failed(struct lp_msg *msg)
{
        struct sim_drive *d = container_of(msg, struct sim_drive, fail_msg);

        d->options.failed(d->options.arg, &d->drive, d->reason);
}

static void unpark(struct sim_drive *d)
{
        struct eng_op *op, *list = NULL;

        while ((op = d->parked) != NULL) { /* the oldest first */
                d->parked = op->next;
                op->next = list;
                list = op;
        }
        while ((op = list) != NULL) {
                list = op->next;
                if (op->priv[PRIV_STAGE] == STAGE_ARRIVE)
                        arrive(op);
                else
                        complete(op);
        }
        if (d->parked_batch)
                batch_written(d);
        if (d->parked_index)
                index_written(d);
        d->parked_batch = d->parked_index = false;
}

/* What the batch under way has put on the disk is not known to anybody. */
static void lose_batch(struct sim_drive *d)
{
        struct eng_append *append;
        uint64_t kept = 0;

        TAILQ_FOREACH (append, &d->batch, link)
                kept++;
        kept = kept == 0 ? 0 : sim_below(SIM_FAULTS, kept + 1);
        TAILQ_FOREACH (append, &d->batch, link) {
                if (kept == 0) {
                        sim_figures.lost_records++;
                        continue;
                }
                kept--;
                sim_disk_append(d->disk, &append->rec, append->body);
        }
}

void sim_drive_fail(struct sim_disk *disk, const char *why)
{
        struct sim_drive *d = disk->open;
        struct eng_append *append;

        if (d == NULL || d->failed)
                return;
        sim_trace("  drive %u fails: %s", d->drive.slot, why);
        sim_figures.failures++;
        d->failed = true;
        d->hung = false;
        d->vanished = sim_chance(SIM_FAULTS, 2);
        snprintf(d->reason, sizeof(d->reason), "%s", why);
        lose_batch(d);
        while ((append = TAILQ_FIRST(&d->queue)) != NULL) {
                TAILQ_REMOVE(&d->queue, append, link);
                answer(append->op, -EIO);
                eng_append_free(append);
        }
        unpark(d);
        d->fail_msg.run = tell_failed;
        lp_post(d->drive.owner, &d->fail_msg);
}

bool sim_drive_failed(const struct sim_disk *disk)
{
        return disk->open != NULL && disk->open->failed;
}

static void hang_over(void *arg)
{
        struct sim_drive *d = arg;

        if (d->failed || !d->hung)
                return;
        if (d->hung_until > sim.now) {
                sim_drive_fail(d->disk, "an operation takes too long");
                return;
        }
        d->hung = false;
        unpark(d);
}

void sim_drive_hang(struct sim_disk *disk, uint64_t ns)
{
        struct sim_drive *d = disk->open;

        if (d == NULL || d->failed || d->hung)
                return;
        sim_trace("  drive %u hangs for %.3f s", d->drive.slot, (double)ns / 1e9);
        sim_figures.hangs++;
        d->hung = true;
        d->hung_until = sim.now + ns;
        sim_at(ns < HANG_LIMIT ? ns : HANG_LIMIT, d->drive.owner, hang_over, d);
}

const struct sim_names *sim_drive_names(const struct sim_disk *disk)
{
        return &disk->open->names;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void free_drive(struct sim_drive *d)
{
        struct eng_append_list *lists[] = {&d->queue, &d->batch};
        struct eng_append *append;
        unsigned i;

        for (i = 0; i < 2; i++)
                while ((append = TAILQ_FIRST(lists[i])) != NULL) {
                        TAILQ_REMOVE(lists[i], append, link);
                        eng_append_free(append);
                }
        late_free(d);
        eng_pgs_clear(&d->pgs);
        sim_names_clear(&d->names);
        sim_index_clear(&d->next);
        clear_dead(&d->dead);
        clear_dead(&d->next_dead);
        if (d->disk->open == d)
                d->disk->open = NULL;
        free(d);
}

void sim_drive_crash(struct sim_drive *d, bool power)
{
        if (!d->failed)
                lose_batch(d);
        if (!d->failed && d->indexing && sim_chance(SIM_FAULTS, 2))
                sim_disk_set_index(d->disk, &d->next);
        free_drive(d);
}

void sim_drive_free_retired(struct sim_disk *disk)
{
        while (disk->retired != NULL) {
                struct sim_drive *d = disk->retired;

                disk->retired = d->next_retired;
                free_drive(d);
        }
}

/* The clean end: the index covers the log. */
static void close_drive(struct eng_drive *drive)
{
        struct sim_drive *d = DRIVE(drive);

        if (d->retired)
                return; /* goes with its disk */
        if (d->failed) {
                sim_disk_crash(d->disk, false);
                return;
        }
        if (!d->indexing && !d->hung) {
                snapshot(d);
                sim_disk_set_index(d->disk, &d->next);
        }
        lose_batch(d);
        while (TAILQ_FIRST(&d->batch) != NULL) {
                struct eng_append *append = TAILQ_FIRST(&d->batch);

                TAILQ_REMOVE(&d->batch, append, link);
                eng_append_free(append);
        }
        sim_disk_crash(d->disk, false);
}

static void started(struct lp_msg *msg)
{
        struct sim_drive *d = container_of(msg, struct sim_drive, start);

        tick(d);
}

static void load_index(struct sim_drive *d)
{
        struct sim_index *index = &d->disk->index;
        unsigned i;

        d->disk->log_lost = index->reach > d->disk->log_count;
        if (d->disk->lose_index || d->disk->log_lost) {
                uint32_t generation = index->generation;

                sim_index_clear(index);
                index->generation = generation;
                d->disk->lose_index = false;
        }
        sim_names_copy(&d->names, &index->names);
        d->generation = index->generation + 1;
        for (i = 0; i < index->pg_count; i++) {
                struct eng_log_pg *pg = eng_pgs_get(&d->pgs, index->pgs[i].pg);

                pg->applied = pg->seen = index->pgs[i].seq;
                pg->committed = index->pgs[i].seq;
                pg->marked = index->pgs[i].committed;
                pg->epoch = pg->applied_epoch = index->pgs[i].epoch;
        }
}

static void replay(struct sim_drive *d)
{
        struct eng_log_pg *pg = NULL;
        uint64_t i;

        for (i = 0; i < d->disk->log_count; i++) {
                struct eng_append *append;

                if (i < d->disk->index.covered && d->disk->log[i].rec.type != FMT_RECORD_EPOCH && d->disk->log[i].rec.type != FMT_RECORD_TERM)
                        continue;
                append = calloc(1, sizeof(*append));
                assert(append != NULL);
                append->rec = d->disk->log[i].rec;
                append->body = d->disk->log[i].body == NULL ? NULL : eng_buf_ref(d->disk->log[i].body);
                take_record(d, append, true);
        }
        while ((pg = eng_pgs_next(&d->pgs, pg)) != NULL) {
                eng_pgs_set_committed(pg, pg->marked);
                apply_up_to(d, pg, pg->committed);
        }
}

static bool sim_drive_ends(struct eng_drive *drive, unsigned seconds)
{
        return true;
}

static bool sim_drive_let_go(struct eng_drive *drive)
{
        struct sim_drive *d = DRIVE(drive);

        if (d->retired)
                return true;
        if (!d->failed) {
                sim_drive_fail(d->disk, "the store went on without it");
                d->vanished = false;
        }
        if (d->writing || d->indexing || d->flying > 0 || d->parked != NULL)
                return false;
        sim_trace("  drive %u: lets go", d->drive.slot);
        d->retired = true;
        d->next_retired = d->disk->retired;
        d->disk->retired = d;
        d->disk->open = NULL;
        sim_disk_crash(d->disk, false);
        return true;
}

static bool sim_drive_log_lost(struct eng_drive *drive)
{
        return DRIVE(drive)->disk->log_lost;
}

/* It has no workers. */
static bool sim_drive_awaits_file(struct eng_drive *drive)
{
        return false;
}

static bool sim_drive_vanished(struct eng_drive *drive)
{
        return DRIVE(drive)->vanished;
}

static bool sim_drive_index_damaged(struct eng_drive *drive)
{
        return false;
}

static const char *sim_drive_damage(struct eng_drive *drive)
{
        return NULL;
}

static int sim_drive_epoch(struct eng_drive *drive, void *out, size_t cap, size_t *len, struct eng_epoch_history *history);
static void sim_drive_info(struct eng_drive *drive, struct eng_drive_info *out);

static const struct eng_drive_ops ops = {
        .submit = submit,
        .close = close_drive,
        .epoch = sim_drive_epoch,
        .log_lost = sim_drive_log_lost,
        .let_go = sim_drive_let_go,
        .ends = sim_drive_ends,
        .awaits_file = sim_drive_awaits_file,
        .vanished = sim_drive_vanished,
        .index_damaged = sim_drive_index_damaged,
        .damage = sim_drive_damage,
        .info = sim_drive_info,
        .term = sim_drive_term,
};

int eng_local_open(const struct eng_local_options *options, struct eng_drive **out, struct eng_error *error)
{
        struct sim_disk *disk = NULL;
        struct sim_drive *d;
        unsigned i;

        for (i = 0; i < sim_disk_count; i++)
                if (strcmp(sim_disks[i].path, options->path) == 0)
                        disk = &sim_disks[i];
        assert(disk != NULL);
        if (disk->open != NULL) /* its lock is held */
                return eng_error_set(error, -EBUSY, "%s is in use", disk->path);
        if (disk->unreadable)
                return eng_error_set(error, -EIO, "%s cannot be read", disk->path);
        d = calloc(1, sizeof(*d));
        assert(d != NULL);
        d->drive.ops = &ops;
        d->drive.slot = options->identity.slot;
        d->drive.owner = options->owner;
        d->disk = disk;
        disk->identity.features |= options->identity.features;
        d->options = *options;
        TAILQ_INIT(&d->queue);
        TAILQ_INIT(&d->batch);
        eng_pgs_init(&d->pgs);
        load_index(d);
        replay(d);
        sim_trace("  drive %u: opened, epoch %llu, index covers %llu of %llu records", options->identity.slot,
                  (unsigned long long)d->epoch, (unsigned long long)disk->index.covered,
                  (unsigned long long)disk->log_count);
        disk->open = d;
        d->start.run = started;
        lp_post(d->drive.owner, &d->start);
        *out = &d->drive;
        return 0;
}

static int sim_drive_epoch(struct eng_drive *drive, void *out, size_t cap, size_t *len, struct eng_epoch_history *history)
{
        const struct sim_disk *disk = DRIVE(drive)->disk;
        const struct sim_record *newest = NULL;
        uint64_t i;

        for (i = 0; i < disk->log_count; i++)
                if (disk->log[i].rec.type == FMT_RECORD_EPOCH &&
                    (newest == NULL || disk->log[i].rec.epoch >= newest->rec.epoch))
                        newest = &disk->log[i];
        if (newest == NULL)
                return -ENOENT;
        *len = newest->body->len;
        memcpy(out, newest->body->data, *len < cap ? *len : cap);
        memset(history, 0, sizeof(*history));
        for (i = disk->log_count; i-- > 0 && history->count < ENG_EPOCH_HISTORY;) {
                const struct sim_record *r = &disk->log[i];

                if (r->rec.type != FMT_RECORD_EPOCH || r == newest)
                        continue;
                history->past[history->count].number = r->rec.epoch;
                memcpy(history->past[history->count].id, ((const struct fmt_epoch *)r->body->data)->id, FMT_ID);
                memcpy(history->past[history->count].parent, ((const struct fmt_epoch *)r->body->data)->parent, FMT_ID);
                history->count++;
        }
        return *len <= cap ? 0 : -ENOBUFS;
}

static void sim_drive_info(struct eng_drive *drive, struct eng_drive_info *out)
{
        const struct sim_drive *d = DRIVE(drive);

        memset(out, 0, sizeof(*out));
        out->state = d->failed ? ENG_DRIVE_FAILED : ENG_DRIVE_IN;
        out->total_bytes = 1ull << 40;
        out->free_bytes = d->disk->full ? 1 : 1ull << 39;
}

int eng_filter_stack(struct eng_drive *inner, const char *text, struct eng_drive **out, struct eng_error *error)
{
        *out = inner;
        return 0;
}
