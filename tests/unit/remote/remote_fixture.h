/*
 * remote_fixture.h - two nodes over the network in memory: one serves drives in memory, the other
 * uses them as remote drives. Everything is stepped by the test.
 */
#ifndef MILLRACE_TEST_REMOTE_FIXTURE_H
#define MILLRACE_TEST_REMOTE_FIXTURE_H

#include "remote/drive_server.h"
#include "remote/remote_drive.h"
#include "tests/unit/net/memory_net.h"

#define RF_DRIVES 3u
#define RF_POOL   3u
#define RF_UNIT   (64u << 10)
#define RF_KINDS  ENG_OP_OPEN /* of operations: OPEN, the last, has a request of its own */

/* ---- a drive in memory ----------------------------------------------------------------------- */

/* Does what it is asked at once, or keeps it until it is told to. owner: its loop */
struct toy {
        struct eng_drive base; /* first */
        struct eng_identity identity;
        bool holds[ENG_OP_KINDS];
        struct eng_op *held[512];
        unsigned held_count, done[ENG_OP_KINDS],
                seen[4096]; /* seen: how often an APPEND, COMMIT or WRITE of this number was done */
        int result;         /* of all */
        size_t value_len;   /* of LOOKUP's and TAIL's answers */
        uint64_t salt;      /* of them */
        unsigned restless;  /* it changes so many times more, behind a TAIL */
        uint32_t page;      /* the length that a SCAN may have */
        uint64_t committed; /* the highest number of a COMMIT */
        atomic_bool exhausted, stalled;
        struct eng_term admitted, durable; /* of OPENs that it has taken on; that it has done */
        uint8_t cluster[FMT_ID];
        bool is_open;
};

static inline uint8_t toy_byte(uint64_t salt, size_t at)
{
        return (uint8_t)((salt * 31 + at) * 2654435761u >> 13);
}

static inline void toy_fill(uint8_t *to, size_t len, uint64_t salt)
{
        size_t i;

        for (i = 0; i < len; i++)
                to[i] = toy_byte(salt, i);
}

static inline bool toy_filled(const uint8_t *bytes, size_t len, uint64_t salt)
{
        size_t i;

        for (i = 0; i < len; i++)
                if (bytes[i] != toy_byte(salt, i))
                        return false;
        return true;
}

static inline struct eng_buf *toy_buf(size_t len, uint64_t salt)
{
        struct eng_buf *buf = eng_buf_new(len);

        if (buf != NULL)
                toy_fill(buf->data, len, salt);
        return buf;
}

#define TOY_INLINE 100u

/* A value of this length: with bytes if it is no longer than its head, else with parts that are empty but for attributes. */
static inline struct eng_buf *toy_value(size_t len, uint64_t salt)
{
        struct fmt_value head = {.space = FMT_SPACE_OBJECT};
        struct fmt_part part = {.k = 1, .runs = 1, .number = FMT_PART_NARROW};
        struct eng_buf *buf = toy_buf(len, salt);
        const size_t least = sizeof(part) + 1;
        size_t at = sizeof(head), take;

        for (; buf != NULL && at < len; at += take, head.parts++) {
                take = len - at < 4000 ? len - at : len - at < 8000 ? (len - at) / 2 : 4000;
                part.attrs_len = (uint16_t)(take - least);
                memcpy(buf->data + at, &part, sizeof(part));
        }
        if (head.parts == 0) {
                head.flags = FMT_VALUE_INLINE;
                head.size = head.inline_len = TOY_INLINE;
        }
        if (buf != NULL)
                memcpy(buf->data, &head, sizeof(head));
        return buf;
}

static inline struct eng_buf *toy_entries(uint32_t count)
{
        size_t size = sizeof(struct eng_scan_entry) + 8 + sizeof(struct fmt_value);
        struct eng_scan_entry entry = {.size = (uint32_t)size, .name_len = 5, .value_len = sizeof(struct fmt_value)};
        struct eng_buf *buf = eng_buf_new(count * size);
        uint32_t i;

        for (i = 0; buf != NULL && i < count; i++) {
                memset(buf->data + i * size, 0, size);
                memcpy(buf->data + i * size, &entry, sizeof(entry));
                memcpy(buf->data + i * size + sizeof(entry), "name", 4);
                buf->data[i * size + sizeof(entry) + 4] = (uint8_t)i;
        }
        return buf;
}

static inline bool toy_has_bytes(const struct toy *toy, const struct eng_op *op)
{
        return (op->flags & ENG_OP_WANT_INLINE) != 0 && toy->value_len == sizeof(struct fmt_value);
}

/* What it answers, of an op that it does. */
static inline int toy_do(struct toy *toy, struct eng_op *op)
{
        uint64_t number = 0;
        uint32_t count;

        toy->done[op->kind]++;
        switch (op->kind) {
        case ENG_OP_APPEND:
                number = op->append.seq;
                if (op->append.body != NULL && !toy_filled(op->append.body->data, op->append.body->len, number))
                        return -EINVAL;
                break;
        case ENG_OP_COMMIT:
                number = op->commit.seq;
                toy->committed = number > toy->committed ? number : toy->committed;
                break;
        case ENG_OP_WRITE:
                number = op->write.stripe;
                if (!toy_filled(op->write.payload, op->write.payload_len, number))
                        return -EINVAL;
                break;
        case ENG_OP_READ:
                toy_fill((uint8_t *)op->read.slot + LP_SLOT_HEADER, op->read.payload_len, op->read.stripe);
                op->read.crc = era_crc32c(0, (uint8_t *)op->read.slot + LP_SLOT_HEADER + op->read.offset, op->read.len);
                break;
        case ENG_OP_LOOKUP:
                op->lookup.value = toy_value(toy->value_len, toy->salt);
                op->lookup.bytes = toy_has_bytes(toy, op) ? toy_buf(TOY_INLINE, toy->committed) : NULL;
                if (op->lookup.value == NULL || toy_has_bytes(toy, op) != (op->lookup.bytes != NULL)) {
                        eng_buf_unref(op->lookup.value);
                        eng_buf_unref(op->lookup.bytes);
                        return -EAGAIN;
                }
                return 0;
        case ENG_OP_SCAN:
                toy->page = op->scan.most;
                op->scan.entries = toy_entries(op->scan.max);
                op->scan.count = op->scan.max;
                return op->scan.entries == NULL ? -EAGAIN : 0;
        case ENG_OP_TAIL:
                op->tail.count = (uint32_t)(toy->value_len / sizeof(struct eng_memtable_entry));
                op->tail.entries = toy_buf(op->tail.count * sizeof(struct eng_memtable_entry), toy->salt);
                if (toy->restless > 0 && toy->restless-- > 0)
                        toy->salt++;
                return op->tail.entries == NULL ? -EAGAIN : 0;
        case ENG_OP_RECORD:
                op->append.type = FMT_RECORD_PG;
                op->append.body = toy_buf(1000, op->append.seq);
                op->append.inline_len = 10;
                if (op->append.body != NULL)
                        op->append.body_crc = era_crc32c(0, op->append.body->data, 1000);
                return op->append.body == NULL ? -EAGAIN : 0;
        case ENG_OP_IDS:
                count = op->ids.max < 5 ? op->ids.max : 5;
                op->ids.ids = toy_buf(count * sizeof(struct eng_held_id), 1);
                op->ids.count = count;
                return op->ids.ids == NULL ? -EAGAIN : 0;
        case ENG_OP_OWNED:
                op->owned.mark = 77;
                op->owned.bits = op->owned.count == 0 ? NULL : toy_buf(ENG_OWNED_MAX / 8, 2);
                return op->owned.count > 0 && op->owned.bits == NULL ? -EAGAIN : 0;
        case ENG_OP_HELD:
                op->held.bits[0] = 5;
                break;
        case ENG_OP_SCRUB:
                op->scrub.state.bytes++;
                memset(op->scrub.slot, 1, LP_SLOT_SIZE);
                break;
        case ENG_OP_OPEN:
                toy->durable = op->term;
                memcpy(toy->cluster, op->open.cluster, FMT_ID);
                break;
        default:
                break;
        }
        if (number < 4096)
                toy->seen[number]++;
        return 0;
}

static inline void toy_deliver(struct lp_msg *msg)
{
        struct eng_op *op = container_of(msg, struct eng_op, msg);

        op->done(op);
}

static inline void toy_finish(struct toy *toy, struct eng_op *op)
{
        op->result = toy->result != 0 ? toy->result : toy_do(toy, op);
        op->msg.run = toy_deliver;
        lp_post(op->home, &op->msg);
}

/* drive.h: the fence of terms. */
static inline int toy_fence(struct toy *toy, struct eng_op *op)
{
        int order = eng_term_compare(&op->term, &toy->admitted);
        bool free = op->of_home && (op->kind == ENG_OP_READ || op->kind == ENG_OP_WRITE ||
                                    op->kind == ENG_OP_SYNC || op->kind == ENG_OP_HELD);

        if (op->kind == ENG_OP_OPEN && order >= 0) {
                toy->admitted = op->term;
                toy->is_open = true;
                return 0;
        }
        if (op->kind == ENG_OP_OPEN)
                op->open.newest = toy->admitted;
        if (eng_term_is_none(&op->term) && (free || eng_term_is_none(&toy->admitted)))
                return 0;
        op->deposed = order < 0;
        return order < 0 ? -ESTALE : order > 0 || !toy->is_open ? -ENOTCONN : 0;
}

static inline void toy_arrive(struct lp_msg *msg)
{
        struct eng_op *op = container_of(msg, struct eng_op, msg);
        struct toy *toy = (struct toy *)op->drive;

        op->result = toy_fence(toy, op);
        if (op->result != 0) {
                op->msg.run = toy_deliver;
                lp_post(op->home, &op->msg);
                return;
        }
        if (!toy->holds[op->kind]) {
                toy_finish(toy, op);
                return;
        }
        MUST(toy->held_count < 512);
        toy->held[toy->held_count++] = op;
}

static inline void toy_submit(struct eng_drive *drive, struct eng_op *op)
{
        op->home = lp_self();
        op->drive = drive;
        op->msg.run = toy_arrive;
        lp_post(drive->owner, &op->msg);
}

/* All that it has kept; and keeps nothing more. */
static inline void toy_release(struct toy *toy)
{
        struct lp_loop *outer = lp_become(toy->base.owner);
        unsigned i, n = toy->held_count;

        memset(toy->holds, 0, sizeof(toy->holds));
        toy->held_count = 0;
        for (i = 0; i < n; i++)
                toy_finish(toy, toy->held[i]);
        lp_become(outer);
        mem_settle();
}

static inline int toy_epoch(struct eng_drive *drive, void *out, size_t cap, size_t *len,
                            struct eng_epoch_history *history)
{
        struct fmt_epoch epoch = {.number = 9, .pg_count = 16, .k = 1};

        *len = sizeof(epoch);
        memcpy(out, &epoch, sizeof(epoch) < cap ? sizeof(epoch) : cap);
        memset(history, 0, sizeof(*history));
        history->count = 1;
        history->past[0].number = 8;
        return 0;
}

static inline bool toy_no(struct eng_drive *drive)
{
        return false;
}

static inline bool toy_yes_after(struct eng_drive *drive, unsigned seconds)
{
        return true;
}

static inline const char *toy_damage(struct eng_drive *drive)
{
        return "a little";
}

static inline void toy_info(struct eng_drive *drive, struct eng_drive_info *out)
{
        const struct toy *toy = (const struct toy *)drive;

        memset(out, 0, sizeof(*out));
        out->state = toy->result == -EIO ? ENG_DRIVE_FAILED : ENG_DRIVE_IN;
        out->free_bytes = 4711;
        snprintf(out->reason, sizeof(out->reason), "%s", toy->result == -EIO ? "it burns" : "");
}

static inline void toy_term(struct eng_drive *drive, struct eng_term *out, uint8_t cluster[FMT_ID])
{
        *out = ((const struct toy *)drive)->durable;
        memcpy(cluster, ((const struct toy *)drive)->cluster, FMT_ID);
}

static const struct eng_drive_ops toy_ops = {.submit = toy_submit,
                                             .epoch = toy_epoch,
                                             .log_lost = toy_no,
                                             .let_go = toy_no,
                                             .ends = toy_yes_after,
                                             .awaits_file = toy_no,
                                             .vanished = toy_no,
                                             .index_damaged = toy_no,
                                             .damage = toy_damage,
                                             .info = toy_info,
                                             .term = toy_term};

static inline void toy_make(struct toy *toy, unsigned slot, struct lp_loop *owner)
{
        memset(toy, 0, sizeof(*toy));
        toy->base = (struct eng_drive){
                .ops = &toy_ops, .slot = slot, .owner = owner, .exhausted = &toy->exhausted, .stalled = &toy->stalled};
        toy->identity = (struct eng_identity){.slot = slot, .layout = FMT_LAYOUT_VERSION, .features = 1};
        memset(toy->identity.store_id, 0x51, FMT_ID);
        memset(toy->identity.drive_id, (int)(0x60 + slot), FMT_ID);
        toy->value_len = sizeof(struct fmt_value);
}

/* ---- two nodes ------------------------------------------------------------------------------- */

struct rf {
        struct mem_node a, b;
        struct net_peer *to_b;
        struct rem_server *server;
        struct rem_served *served[RF_DRIVES];
        struct toy toys[RF_DRIVES];
        struct rem_client *client;
        struct eng_drive *drives[RF_DRIVES];
        unsigned unreachable, failed, superseded, gone;
        char text[200];
};

static inline void rf_unreachable(void *arg, struct eng_drive *drive, const char *text)
{
        struct rf *rf = arg;

        MUST(lp_self() == drive->owner);
        rf->unreachable++;
        snprintf(rf->text, sizeof(rf->text), "%s", text);
}

static inline void rf_failed(void *arg, struct eng_drive *drive, const char *text)
{
        struct rf *rf = arg;

        rf->failed++;
        snprintf(rf->text, sizeof(rf->text), "%s", text);
}

static inline void rf_superseded(void *arg, struct eng_drive *drive, struct eng_buf *const values[], unsigned n)
{
        ((struct rf *)arg)->superseded += n;
}

static inline void rf_opened(struct rem_opening *opening)
{
        MUST(opening->rv != 1);
}

/* What an opening by a client says of a slot; it is left in out. */
static inline int rf_ask_by(struct rf *rf, struct rem_client *client, unsigned slot, bool begin,
                            struct rem_opening *out)
{
        struct lp_loop *outer = lp_become(rf->a.loops[0]);

        memset(out, 0, sizeof(*out));
        out->client = client;
        out->place = (struct rem_place){.node = 2, .pool = RF_POOL, .slot = (uint16_t)slot};
        out->begin = begin;
        out->done = rf_opened;
        out->rv = 1; /* not answered */
        rem_opening_ask(out);
        lp_become(outer);
        mem_settle();
        if (out->rv == 1)
                mem_pass(20000);
        MUST(out->rv != 1);
        return out->rv;
}

static inline int rf_ask(struct rf *rf, unsigned slot, bool begin, struct rem_opening *out)
{
        return rf_ask_by(rf, rf->client, slot, begin, out);
}

static inline int rf_open_by(struct rf *rf, struct rem_client *client, unsigned i, struct eng_drive **drive)
{
        struct rem_opening opening;
        int rv;
        struct eng_local_options options = {.path = "remote:2/3/x",
                                            .owner = rf->a.loops[1],
                                            .failed = rf_failed,
                                            .superseded = rf_superseded,
                                            .unreachable = rf_unreachable,
                                            .arg = rf};

        rv = rf_ask_by(rf, client, i, true, &opening);
        if (rv != 0)
                return rv;
        MUST(remote_drive_new(&opening, &options, drive) == 0);
        mem_settle();
        return 0;
}

static inline void rf_open(struct rf *rf, unsigned i)
{
        MUST(rf_open_by(rf, rf->client, i, &rf->drives[i]) == 0);
}

static inline void rf_serve(struct rf *rf, unsigned i)
{
        MUST(rem_served_new(rf->server, RF_POOL, i, rf->b.loops[(i + 1) % MEM_LOOPS], &rf->served[i]) == 0);
        MUST(rem_served_publish(rf->served[i], &rf->toys[i].base, &rf->toys[i].identity) == 0);
}

static inline void rf_gone(void *arg)
{
        ((struct rf *)arg)->gone++;
}

/* The node's process ends and another begins: with other incarnations. What was under way there is lost. */
static inline void rf_restart_drive(struct rf *rf, unsigned i)
{
        unsigned gone = rf->gone;

        rem_served_withdraw(rf->served[i], rf_gone, rf);
        toy_release(&rf->toys[i]);
        mem_settle();
        MUST(rf->gone == gone + 1);
        rem_served_free(rf->served[i]);
        rf->toys[i].admitted = rf->toys[i].durable;
        rf->toys[i].is_open = false;
        rf_serve(rf, i);
}

static struct rem_server_options rf_server_options; /* of servers that are started */

/* handler NULL: the drive server; lane_bytes 0: the default */
static inline void rf_start_with(struct rf *rf, const struct net_handler *handler, uint32_t lane_bytes)
{
        struct net_options options = node_options(1, 5);
        unsigned i;

        memset(rf, 0, sizeof(*rf));
        mem_chunk = SIZE_MAX;
        mem_cut_at = 0;
        MUST(rem_server_new(&rf->server) == 0);
        rem_server_set(rf->server, &rf_server_options);
        mem_node_start(&rf->a, &options);
        options = node_options(2, 6);
        options.handler =
                (struct net_handler){.bulk = rem_server_bulk, .request = rem_server_request, .lost = rem_server_lost};
        options.handler_arg = rf->server;
        if (handler != NULL) {
                options.handler = *handler;
                options.handler_arg = rf;
        }
        options.limits.lane_bytes = lane_bytes;
        fixture_peer_slots = 4;
        mem_node_start(&rf->b, &options);
        fixture_peer_slots = 0;
        rf->to_b = mem_knows(&rf->a, 2);
        mem_knows(&rf->b, 1);
        MUST(rem_client_new(&(struct rem_client_options){.net = rf->a.node.net, .loop = rf->a.loops[0]}, &rf->client) ==
             0);
        for (i = 0; i < RF_DRIVES; i++) {
                toy_make(&rf->toys[i], i, rf->b.loops[(i + 1) % MEM_LOOPS]);
                rf_serve(rf, i);
        }
}

static inline void rf_start(struct rf *rf)
{
        unsigned i;

        rf_start_with(rf, NULL, 0);
        for (i = 0; i < RF_DRIVES; i++)
                rf_open(rf, i);
}

static inline bool rf_has_no_slots(const struct rf *rf)
{
        struct lp_stats stats;
        unsigned i;

        for (i = 0; i < MEM_LOOPS; i++) {
                lp_stats_read(rf->b.loops[i], &stats);
                if (stats.slots_used + stats.reserved[LP_SHARE_PEER] + stats.reserve_waiting[LP_SHARE_PEER] != 0)
                        return false;
        }
        return true;
}

static inline void rf_stop(struct rf *rf)
{
        unsigned i;

        for (i = 0; i < RF_DRIVES; i++)
                toy_release(&rf->toys[i]);
        rem_server_stop(rf->server);
        mem_node_halt(&rf->a);
        mem_node_halt(&rf->b);
        MUST(rf_has_no_slots(rf));
        for (i = 0; i < RF_DRIVES; i++) {
                if (rf->drives[i] != NULL)
                        rf->drives[i]->ops->close(rf->drives[i]);
                rem_served_free(rf->served[i]);
        }
        rem_client_free(rf->client);
        rem_server_free(rf->server);
        mem_node_free(&rf->a);
        mem_node_free(&rf->b);
}

/* ---- operations ------------------------------------------------------------------------------ */

struct ask {
        struct eng_op op;
        unsigned times; /* answered */
        uint8_t *slot;
        struct eng_buf *body;
        uint64_t pgs[2];
};

static inline void ask_done(struct eng_op *op)
{
        struct ask *ask = container_of(op, struct ask, op);

        MUST(lp_self() == op->home);
        MUST(++ask->times == 1);
}

/* number: of what an APPEND, COMMIT or WRITE does. */
static inline void ask_make(struct ask *ask, enum eng_op_kind kind, uint64_t number)
{
        static const uint8_t ids[3][FMT_ID] = {{1}, {2}, {3}};

        memset(ask, 0, sizeof(*ask));
        ask->op = (struct eng_op){.kind = kind, .epoch = 9, .done = ask_done};
        if (kind == ENG_OP_READ || kind == ENG_OP_WRITE || kind == ENG_OP_SCRUB)
                ask->slot = calloc(1, LP_SLOT_SIZE);
        switch (kind) {
        case ENG_OP_APPEND:
                ask->body = toy_buf(5000, number);
                ask->op.append.body = ask->body;
                ask->op.append.body_crc = era_crc32c(0, ask->body->data, ask->body->len);
                ask->op.append.type = FMT_RECORD_PG;
                ask->op.append.seq = number;
                break;
        case ENG_OP_COMMIT:
                ask->op.commit.seq = number;
                break;
        case ENG_OP_LOOKUP:
                ask->op.flags = ENG_OP_WANT_INLINE;
                ask->op.lookup.name = (const uint8_t *)"a name";
                ask->op.lookup.name_len = 6;
                break;
        case ENG_OP_SCAN:
                ask->op.scan.from = (const uint8_t *)"a";
                ask->op.scan.from_len = 1;
                ask->op.scan.max = 7;
                ask->op.scan.pgs = ask->pgs;
                ask->op.scan.pg_words = 2;
                break;
        case ENG_OP_WRITE:
                ask->op.write.stripe = (uint32_t)number;
                ask->op.write.k = 2;
                ask->op.write.payload_len = RF_UNIT;
                ask->op.write.slot = ask->slot;
                ask->op.write.payload = ask->slot + LP_SLOT_HEADER;
                toy_fill(ask->slot + LP_SLOT_HEADER, RF_UNIT, number);
                break;
        case ENG_OP_READ:
                ask->op.flags = ENG_OP_WANT_CRC;
                ask->op.read.stripe = (uint32_t)number;
                ask->op.read.payload_len = RF_UNIT;
                ask->op.read.offset = 3;
                ask->op.read.len = RF_UNIT - 10;
                ask->op.read.slot = ask->slot;
                break;
        case ENG_OP_RECORD:
                ask->op.append.seq = number;
                break;
        case ENG_OP_HELD:
                ask->op.held.count = 3;
                break;
        case ENG_OP_IDS:
                ask->op.ids.max = 4;
                break;
        case ENG_OP_OWNED:
                ask->op.owned.ids = ids;
                ask->op.owned.count = 3;
                break;
        case ENG_OP_SCRUB:
                ask->op.scrub.what = ENG_SCRUB_READ;
                ask->op.scrub.most = 4096;
                ask->op.scrub.slot = ask->slot;
                break;
        case ENG_OP_FEATURES:
                ask->op.features.bits = 1;
                break;
        default:
                break;
        }
}

static inline void ask_submit(struct rf *rf, struct eng_drive *drive, unsigned loop, struct ask *ask)
{
        struct lp_loop *outer = lp_become(rf->a.loops[loop]);

        eng_drive_submit(drive, &ask->op);
        lp_become(outer);
}

/* The answer of an op that went well is the drive's. */
static inline void ask_check(const struct rf *rf, const struct toy *toy, const struct ask *ask)
{
        const struct eng_op *op = &ask->op;
        uint8_t *slot = ask->slot == NULL ? NULL : ask->slot + LP_SLOT_HEADER;
        struct eng_buf *value;
        unsigned i;

        MUST(ask->times == 1 && op->result == 0);
        switch (op->kind) {
        case ENG_OP_LOOKUP:
                value = toy_value(toy->value_len, toy->salt);
                MUST(op->lookup.value->len == value->len &&
                     memcmp(op->lookup.value->data, value->data, value->len) == 0);
                eng_buf_unref(value);
                MUST((op->lookup.bytes != NULL) == toy_has_bytes(toy, op));
                MUST(op->lookup.bytes == NULL || (op->lookup.bytes->len == TOY_INLINE &&
                                                  toy_filled(op->lookup.bytes->data, TOY_INLINE, toy->committed)));
                break;
        case ENG_OP_SCAN:
                MUST(op->scan.count == 7 && op->scan.entries != NULL);
                break;
        case ENG_OP_READ:
                for (i = 0; i < RF_UNIT; i++) /* what was asked for, and nothing else */
                        MUST(slot[i] == (i < 3 || i >= RF_UNIT - 7 ? 0 : toy_byte(op->read.stripe, i)));
                MUST(op->read.crc == era_crc32c(0, slot + 3, RF_UNIT - 10));
                break;
        case ENG_OP_RECORD:
                MUST(op->append.body->len == 1000 && toy_filled(op->append.body->data, 1000, op->append.seq) &&
                     op->append.inline_len == 10);
                break;
        case ENG_OP_TAIL:
                MUST(op->tail.count == toy->value_len / sizeof(struct eng_memtable_entry));
                MUST(toy_filled(op->tail.entries->data, op->tail.entries->len, toy->salt));
                break;
        case ENG_OP_HELD:
                MUST(op->held.bits[0] == 5);
                break;
        case ENG_OP_IDS:
                MUST(op->ids.count == 4 && toy_filled(op->ids.ids->data, 4 * sizeof(struct eng_held_id), 1));
                break;
        case ENG_OP_OWNED:
                MUST(op->owned.mark == 77 && op->owned.bits->len == ENG_OWNED_MAX / 8);
                break;
        case ENG_OP_SCRUB:
                MUST(op->scrub.state.bytes == 1);
                break;
        default:
                break;
        }
}

static inline void ask_free(struct ask *ask)
{
        if (ask->times == 1)
                eng_wire_drop_answer(&ask->op);
        eng_buf_unref(ask->body);
        free(ask->slot);
}

/* One op, from loop 0, without time passing but for what a reply needs. */
static inline int rf_do_by(struct rf *rf, struct eng_drive *drive, enum eng_op_kind kind, uint64_t number,
                           unsigned flags, bool *deposed)
{
        struct ask ask;
        int result;

        ask_make(&ask, kind, number);
        ask.op.flags |= flags;
        ask_submit(rf, drive, 0, &ask);
        mem_settle();
        if (ask.times == 0)
                mem_pass(15000);
        MUST(ask.times == 1);
        result = ask.op.result;
        if (result == 0)
                ask_check(rf, &rf->toys[drive->slot], &ask);
        if (deposed != NULL)
                *deposed = ask.op.deposed;
        ask_free(&ask);
        return result;
}

static inline int rf_do(struct rf *rf, unsigned i, enum eng_op_kind kind, uint64_t number, unsigned flags)
{
        return rf_do_by(rf, rf->drives[i], kind, number, flags, NULL);
}

/* Until the node is reached again; then the store begins anew, as the coordinator does. */
static inline void rf_begin_again(struct rf *rf, unsigned i)
{
        unsigned turns;

        for (turns = 0; rf_do(rf, i, ENG_OP_HELD, 0, ENG_OP_ANEW) != 0; turns++) {
                MUST(turns < 100);
                mem_pass(500);
        }
}

/* The connection to the other node that was opened for a link is reset. */
static inline void rf_cut(struct rf *rf, enum net_link_number link)
{
        struct net_conn *conn = rf->to_b->links[link].conn;

        if (conn != NULL)
                mem_reset(mem_of(conn->stream));
        mem_settle();
}

#endif
