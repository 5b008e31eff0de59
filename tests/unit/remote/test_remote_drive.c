/*
 * test_remote_drive.c - a real local drive behind a drive server, over TCP and TLS: what is asked of
 * the remote drive has the answers of the local one, byte for byte.
 */
#include "tests/unit/remote/remote_nodes.h"

#include <time.h>

#include "engine/drive/wire.h"
#include "remote/remote_drive.h"
#include "tests/lib/drive_fixture.h"

static struct rn nodes;
static struct fx fx;
static struct rem_served *served;
static struct eng_drive *remote;
static unsigned unreachable;
static uint64_t seed;

static uint64_t draw(void)
{
        seed = eng_hash(&seed, sizeof(seed), 1);
        return seed;
}

static void is_unreachable(void *arg, struct eng_drive *drive, const char *text)
{
        __atomic_add_fetch(&unreachable, 1, __ATOMIC_SEQ_CST);
}

static int start(void **state)
{
        const char *given = getenv("SEED");
        const struct eng_drive_opener *opener;
        struct eng_local_options options = {.path = "remote:2/1/0", .unreachable = is_unreachable};
        enum eng_folder_state folder;
        struct eng_identity identity;

        seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
        printf("SEED=%llu\n", (unsigned long long)seed);
        fixture_certificates(state);
        rn_start(&nodes, 4);
        fx_make(&fx, 1);
        MUST(fx_open(&fx) == 0);
        MUST(rem_served_new(nodes.server, RN_POOL, 0, fx.loops[0], &served) == 0);
        MUST(rem_served_publish(served, fx.local, &fx.options.identity) == 0);
        opener = rem_client_opener(nodes.client);
        MUST(opener->is_remote(options.path) && !opener->is_remote(fx.path));
        MUST(opener->probe(opener, options.path, &folder, &identity, &fx.error) == 0);
        MUST(folder == ENG_FOLDER_DRIVE && memcmp(&identity.drive_id, &fx.options.identity.drive_id, FMT_ID) == 0);
        options.identity = identity;
        options.owner = fx.loops[0];
        MUST(opener->open(opener, &options, &remote, &fx.error) == 0);
        fx.drive = remote;
        return 0;
}

static void let_go(void *arg)
{
        *(bool *)arg = eng_drive_let_go(remote);
}

/* It is quiet: nothing of it is under way on any loop. */
static void close_remote(void *arg)
{
        remote->ops->close(remote);
}

static void close_rest(void *arg)
{
        rem_served_free(served);
        fx.drive = fx.local;
        fx_stop(&fx);
        fx_close(&fx);
        fx.options.identity.features |= ENG_FEATURE_SITES; /* an operation has given it that */
        MUST(fx_open(&fx) == 0 && !eng_drive_log_lost(fx.local) && eng_drive_damage(fx.local) == NULL); /* nor left */
        fx_destroy(&fx);
}

static int stop(void **state)
{
        bool quiet = false;

        WAIT_UNTIL((fx_call(&fx, 0, let_go, &quiet), quiet));
        MUST(quiet);
        fx_call(&fx, 0, close_remote, NULL);
        rn_stop(&nodes, close_rest, NULL);
        return fixture_no_certificates(state);
}

/* ---- what the fixture of local drives does --------------------------------------------------- */

static void test_names(void **state)
{
        char name[32], bytes[200];
        unsigned i;

        for (i = 0; i < 100; i++) {
                snprintf(name, sizeof(name), "key-%03u", i);
                snprintf(bytes, sizeof(bytes), "value of %u", i);
                assert_int_equal(fx_put(&fx, name, bytes, strlen(bytes)), 0);
        }
        for (i = 0; i < 100; i += 3) {
                snprintf(name, sizeof(name), "key-%03u", i);
                assert_int_equal(fx_delete(&fx, name), 0);
        }
        for (i = 0; i < 100; i++) {
                snprintf(name, sizeof(name), "key-%03u", i);
                snprintf(bytes, sizeof(bytes), "value of %u", i);
                if (i % 3 == 0)
                        assert_int_equal(fx_lookup_rv(&fx, name), -ENOENT);
                else
                        assert_true(fx_has(&fx, name, bytes, strlen(bytes)));
        }
}

/* What its opening told of its log goes by what its answers tell since: its node may have opened it anew. */
static void test_newest_word(void **state)
{
        const struct remote_drive *d = container_of(remote, struct remote_drive, drive);
        struct rem_facts *facts = (struct rem_facts *)d->facts;

        facts->log_lost = true;
        strcpy(facts->damage, "its log lost its end");
        assert_int_equal(fx_put(&fx, "key", "value", 5), 0);
        assert_false(eng_drive_log_lost(remote));
        assert_null(eng_drive_damage(remote));
}

/* A record and a value that are longer than the room that is given first. */
static void test_long_value(void **state)
{
        static uint8_t bytes[ENG_INLINE_MAX];
        unsigned i;

        for (i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t)draw();
        assert_int_equal(fx_put(&fx, "long", bytes, sizeof(bytes)), 0);
        assert_true(fx_has(&fx, "long", bytes, sizeof(bytes)));
}

/* ---- shards ---------------------------------------------------------------------------------- */

static uint8_t *new_slot(unsigned salt)
{
        uint8_t *slot = aligned_alloc(FMT_BLOCK, LP_SLOT_SIZE);
        unsigned i;

        for (i = 0; i < LP_SLOT_SIZE; i++)
                slot[i] = (uint8_t)((i + salt) * 2654435761u >> 20);
        return slot;
}

static void fill_write(struct fx_op *op, unsigned object, unsigned stripe, uint8_t *slot, uint32_t len)
{
        memset(op, 0, sizeof(*op));
        op->op.kind = ENG_OP_WRITE;
        fx_id(op->op.write.object_id, object);
        op->op.write.stripe = stripe;
        op->op.write.k = 2;
        op->op.write.m = 1;
        op->op.write.payload_len = len;
        op->op.write.key_hash = 99;
        op->op.write.slot = slot;
        op->op.write.payload = slot + LP_SLOT_HEADER;
}

static void fill_read(struct fx_op *op, unsigned object, unsigned stripe, uint8_t *slot, uint32_t offset, uint32_t len,
                      uint32_t payload)
{
        memset(op, 0, sizeof(*op));
        op->op.kind = ENG_OP_READ;
        op->op.flags = ENG_OP_WANT_CRC;
        fx_id(op->op.read.object_id, object);
        op->op.read.stripe = stripe;
        op->op.read.offset = offset;
        op->op.read.len = len;
        op->op.read.payload_len = payload;
        op->op.read.slot = slot;
}

/* More at once than there are buffers for; read back in pieces of all lengths. */
static void test_shards(void **state)
{
        static struct fx_op writes[24], reads[24];
        struct fx_op sync = {.op = {.kind = ENG_OP_SYNC}};
        uint8_t *slots[24], *read_slots[24];
        unsigned i, stripe;

        for (i = 0; i < 24; i++) {
                slots[i] = new_slot(i);
                read_slots[i] = new_slot(1000);
                fill_write(&writes[i], 500, i, slots[i], i % 3 == 0 ? LP_SLOT_UNIT : (1 + i) * FMT_BLOCK);
                fx_start(&fx, 0, &writes[i]);
        }
        for (i = 0; i < 24; i++)
                assert_int_equal(fx_wait(&writes[i]), 0);
        assert_int_equal(fx_run(&fx, &sync), 0);
        for (i = 0; i < 24; i++) {
                uint32_t payload, offset;

                stripe = (unsigned)(draw() % 24);
                payload = writes[stripe].op.write.payload_len;
                offset = (uint32_t)(draw() % payload);
                fill_read(&reads[i], 500, stripe, read_slots[i], offset, 1 + (uint32_t)(draw() % (payload - offset)),
                          payload);
                fx_start(&fx, 0, &reads[i]);
        }
        for (i = 0; i < 24; i++) {
                const struct eng_op *op = &reads[i].op;
                size_t at;

                assert_int_equal(fx_wait(&reads[i]), 0);
                at = LP_SLOT_HEADER + op->read.offset;
                assert_memory_equal(read_slots[i] + at, slots[op->read.stripe] + at, op->read.len);
                assert_int_equal(op->read.crc, era_crc32c(0, slots[op->read.stripe] + at, op->read.len));
        }
        for (i = 0; i < 24; i++) {
                free(slots[i]);
                free(read_slots[i]);
        }
}

/* ---- the same question of both --------------------------------------------------------------- */

static bool same_buf(const struct eng_buf *a, const struct eng_buf *b)
{
        return (a == NULL) == (b == NULL) && (a == NULL || (a->len == b->len && memcmp(a->data, b->data, a->len) == 0));
}

/* An answer as bytes: its fields, and its bulk. */
static void compare(const struct eng_op *a, const struct eng_op *b)
{
        static uint8_t x[ENG_WIRE_BODY_MAX], y[ENG_WIRE_BODY_MAX];
        struct eng_wire_parts parts_a, parts_b;
        int len = eng_wire_put_answer(a, x, &parts_a);
        unsigned i;

        assert_int_equal(a->result, b->result);
        assert_int_equal(eng_wire_put_answer(b, y, &parts_b), len);
        assert_memory_equal(x, y, (size_t)len);
        assert_int_equal(parts_a.count, parts_b.count);
        for (i = 0; i < parts_a.count; i++) {
                assert_int_equal(parts_a.part[i].len, parts_b.part[i].len);
                assert_memory_equal(parts_a.part[i].bytes, parts_b.part[i].bytes, parts_a.part[i].len);
        }
        if (a->kind == ENG_OP_LOOKUP && a->result == 0)
                assert_true(same_buf(a->lookup.value, b->lookup.value) && same_buf(a->lookup.bytes, b->lookup.bytes));
}

/* op: to be asked of both; slots: of READ and SCRUB. */
static int ask_both(const struct eng_op *op, uint8_t *slots[2])
{
        struct fx_op asked[2];
        unsigned i;
        int rv;

        for (i = 0; i < 2; i++) {
                memset(&asked[i], 0, sizeof(asked[i]));
                asked[i].op = *op;
                if (op->kind == ENG_OP_READ)
                        asked[i].op.read.slot = slots[i];
                if (op->kind == ENG_OP_SCRUB)
                        asked[i].op.scrub.slot = slots[i];
                fx.drive = i == 0 ? fx.local : remote;
                fx_start(&fx, 0, &asked[i]);
                fx_wait(&asked[i]);
        }
        fx.drive = remote;
        rv = asked[0].op.result;
        compare(&asked[0].op, &asked[1].op);
        for (i = 0; i < 2; i++)
                eng_wire_drop_answer(&asked[i].op);
        return rv;
}

/* Pending records, which TAIL and RECORD tell of. */
static void add_pending(void)
{
        static struct fx_body body;
        uint8_t full[FMT_NAME_MAX];
        unsigned i;

        for (i = 1; i <= 5; i++) {
                body.len = body.inline_len = 0;
                fx_body_put(&body, full, fx_name(full, "pending"), 900 + i, 2, "some bytes", 10);
                assert_int_equal(fx_append(&fx, &body, 2, i, 0), 0);
        }
}

static void test_same_answers(void **state)
{
        static const uint8_t ids[4][FMT_ID];
        uint8_t full[FMT_NAME_MAX], from[FMT_NAME_MAX], *slots[2] = {new_slot(1), new_slot(2)};
        uint64_t pgs[1] = {2};
        unsigned i, found = 0;
        char name[32];

        test_names(state);
        add_pending();
        assert_true(fx_wait_indexed(&fx)); /* a row of the index has a checksum */
        for (i = 0; i < 400; i++) {
                struct eng_op op = {.kind = (enum eng_op_kind)(draw() % ENG_OP_KINDS), .epoch = FX_EPOCH};

                snprintf(name, sizeof(name), "key-%03u", (unsigned)(draw() % 101));
                switch (op.kind) {
                case ENG_OP_LOOKUP:
                        op.flags = draw() % 2 == 0 ? ENG_OP_WANT_INLINE : 0;
                        op.lookup.name = full;
                        op.lookup.name_len = (uint16_t)fx_name(full, name);
                        break;
                case ENG_OP_SCAN:
                        op.flags =
                                (draw() % 2 == 0 ? ENG_OP_WANT_ATTRS : 0) | (draw() % 2 == 0 ? ENG_OP_WANT_PARTS : 0);
                        op.scan.from = from;
                        op.scan.from_len = (uint16_t)fx_name(from, name);
                        op.scan.after = draw() % 2 == 0;
                        op.scan.max = 1 + (uint32_t)(draw() % 200);
                        op.scan.most = draw() % 2 == 0 ? 0 : (uint32_t)(draw() % 20000);
                        op.scan.pgs = draw() % 2 == 0 ? NULL : pgs;
                        op.scan.pg_words = 1;
                        break;
                case ENG_OP_READ:
                        fx_id(op.read.object_id, draw() % 4 == 0 ? 501 : 500);
                        op.read.stripe = (uint32_t)(draw() % 30);
                        op.read.payload_len = (draw() % 3 == 0 ? 1 : 1 + op.read.stripe) * FMT_BLOCK;
                        op.read.len = (uint32_t)(draw() % op.read.payload_len);
                        break;
                case ENG_OP_RECORD:
                        op.append.pg = (uint32_t)(draw() % 3);
                        op.append.seq = draw() % 7;
                        break;
                case ENG_OP_HELD:
                        fx_id(op.held.object_id, 500);
                        op.held.stripe = (uint32_t)(draw() % 30);
                        op.held.count = 1 + (uint32_t)(draw() % ENG_HELD_MAX);
                        break;
                case ENG_OP_IDS:
                        op.ids.max = 1 + (uint32_t)(draw() % 10);
                        break;
                case ENG_OP_OWNED:
                        op.owned.ids = ids;
                        op.owned.count = 0;
                        break;
                case ENG_OP_SCRUB:
                        op.scrub.what = ENG_SCRUB_LOAD;
                        break;
                case ENG_OP_TAIL:
                case ENG_OP_SYNC:
                        break;
                default:
                        continue; /* changes are elsewhere */
                }
                found += ask_both(&op, slots) == 0;
        }
        assert_true(found > 100);
        free(slots[0]);
        free(slots[1]);
}

/* Errors of changes: nonsense, an old epoch. */
static void test_same_refusals(void **state)
{
        static struct fx_body body;
        uint8_t full[FMT_NAME_MAX], *slot = new_slot(1);
        struct fx_op op;

        body.len = body.inline_len = 0;
        fx_body_put(&body, full, fx_name(full, "refused"), 77, 3, "x", 1);
        fx_fill_append(&op, &body, 3, 1, 0);
        op.op.epoch = FX_EPOCH - 1;
        assert_int_equal(fx_run(&fx, &op), -ESTALE);
        eng_buf_unref(op.op.append.body);
        fx_fill_append(&op, &body, 3, 1, 0);
        op.op.append.type = 77;
        assert_int_equal(fx_run(&fx, &op), -EINVAL);
        eng_buf_unref(op.op.append.body);
        fill_write(&op, 600, 0, slot, 4096);
        op.op.epoch = FX_EPOCH - 1;
        assert_int_equal(fx_run(&fx, &op), -ESTALE);
        fill_write(&op, 600, 0, slot, 1000);
        assert_int_equal(fx_run(&fx, &op), -EINVAL);
        op = (struct fx_op){.op = {.kind = ENG_OP_COMMIT, .epoch = FX_EPOCH - 1, .commit = {.pg = 3, .seq = 1}}};
        assert_int_equal(fx_run(&fx, &op), -ESTALE);
        op = (struct fx_op){.op = {.kind = ENG_OP_FEATURES}};
        assert_int_equal(fx_run(&fx, &op), 0);
        op = (struct fx_op){.op = {.kind = ENG_OP_DISCARD, .epoch = FX_EPOCH}};
        fx_id(op.op.discard.object_id, 500);
        assert_int_equal(fx_run(&fx, &op), 0);
        fill_read(&op, 500, 0, slot, 0, 10, LP_SLOT_UNIT);
        assert_int_equal(fx_run(&fx, &op), -ENOENT);
        free(slot);
}

/* The node is away, and back: what was begun is answered, and questions go on by themselves. */
static void test_away_and_back(void **state)
{
        struct fx_op held = {.op = {.kind = ENG_OP_HELD, .flags = ENG_OP_ANEW}};

        rn_cut(&nodes, true);
        assert_int_equal(fx_lookup_rv(&fx, "key-001"), -EHOSTUNREACH);
        assert_int_equal(fx_commit(&fx, 1, 1), -EHOSTUNREACH);
        rn_cut(&nodes, false);
        held.op.held.count = 1;
        WAIT_UNTIL(fx_run(&fx, &held) == 0);
        assert_int_equal(held.op.result, 0);
        assert_int_equal(fx_lookup_rv(&fx, "key-001"), 0);
        assert_int_equal(fx_put(&fx, "after", "x", 1), 0);
        assert_true(fx_has(&fx, "after", "x", 1));
}

/* ---- what makes no sense --------------------------------------------------------------------- */

#define ABSURD 4u /* at once */

static uint64_t draw_number(void)
{
        static const uint64_t odd[] = {
                0,         1, 2, 15, 16, 17, 4095, 4096, 4097, 1u << 20, UINT32_MAX - 1, UINT32_MAX, UINT64_MAX / 2,
                UINT64_MAX};

        return draw() % 2 == 0 ? odd[draw() % (sizeof(odd) / sizeof(odd[0]))] : draw() >> draw() % 64;
}

static uint16_t draw_name(uint8_t out[FMT_NAME_MAX])
{
        char name[32];
        uint16_t len = (uint16_t)(draw() % 3 == 0 ? draw() % FMT_NAME_MAX : draw() % 20), i;

        if (draw() % 2 == 0) {
                snprintf(name, sizeof(name), "key-%03u", (unsigned)(draw() % 101));
                return (uint16_t)fx_name(out, name);
        }
        for (i = 0; i < len; i++)
                out[i] = draw() % 2 == 0 ? (uint8_t)draw() : (uint8_t)(draw() % 6);
        return len;
}

static struct eng_buf *draw_record(uint32_t *inline_len)
{
        static struct fx_body body;
        uint8_t full[FMT_NAME_MAX];
        struct eng_buf *buf;

        body.len = body.inline_len = 0;
        fx_body_put(&body, full, fx_name(full, "absurd"), draw_number(), (uint32_t)draw_number(), "bytes", 5);
        buf = fx_body_buf(&body);
        *inline_len = body.inline_len;
        if (draw() % 3 == 0)
                buf->data[draw() % buf->len] ^= (uint8_t)(1u << draw() % 8);
        return buf;
}

/* What an operation points to, while it is under way. */
static struct {
        uint8_t names[3][FMT_NAME_MAX], ids[ENG_OWNED_MAX][FMT_ID];
        uint64_t pgs[512];
} absurdities[ABSURD];

/* Not of an epoch: it would refuse what comes behind it. */
static void absurd_record(struct eng_op *op)
{
        if (op->kind == ENG_OP_APPEND) {
                op->append.type = (uint16_t)(draw() % 12);
                if (op->append.type == FMT_RECORD_EPOCH)
                        op->append.type = FMT_RECORD_PG;
                if (draw() % 8 != 0) {
                        op->append.body = draw_record(&op->append.inline_len);
                        op->append.body_crc = era_crc32c(0, op->append.body->data, op->append.body->len);
                }
                if (draw() % 4 == 0)
                        op->append.inline_len = (uint32_t)draw_number();
        }
        op->append.pg = (uint32_t)draw_number();
        op->append.seq = draw_number();
        op->append.committed = draw_number();
        op->append.time_ms = draw_number();
        op->append.record_epoch = draw_number();
}

static void absurd_scan(unsigned which, struct eng_op *op)
{
        uint8_t(*names)[FMT_NAME_MAX] = absurdities[which].names;
        unsigned i;

        for (i = 0; i < 512; i++)
                absurdities[which].pgs[i] = draw();
        op->scan.from = names[0];
        op->scan.from_len = draw_name(names[0]);
        op->scan.after = draw() % 2 == 0;
        op->scan.prefix_len = (uint16_t)draw_number();
        op->scan.max = (uint32_t)draw_number();
        op->scan.most = (uint32_t)draw_number();
        op->scan.pgs = draw() % 2 == 0 ? NULL : absurdities[which].pgs;
        op->scan.pg_words = 1 + (uint32_t)(draw() % 512);
        if (draw() % 2 == 0) {
                op->scan.to = names[1];
                op->scan.to_len = draw_name(names[1]);
        }
        if (draw() % 2 == 0) {
                op->scan.delimiter = names[2];
                op->scan.delimiter_len = draw_name(names[2]) % (draw() % 2 == 0 ? 3 : FMT_NAME_MAX);
        }
}

static void absurd_shard(struct fx_op *asked, uint8_t *slot)
{
        struct eng_op *op = &asked->op;
        uint32_t len = (uint32_t)(draw() % (FMT_UNIT_MAX + 1));

        len = draw() % 2 == 0 ? len : len / FMT_BLOCK * FMT_BLOCK;
        if (op->kind == ENG_OP_WRITE) {
                fill_write(asked, (unsigned)(draw() % 1000), (unsigned)draw_number(), slot, len);
                op->write.shard = (uint8_t)draw();
                op->write.k = (uint8_t)draw();
                op->write.m = (uint8_t)draw();
                return;
        }
        len = draw() % 2 == 0 ? len : (1 + (uint32_t)(draw() % 24)) * FMT_BLOCK;
        fill_read(asked, draw() % 2 == 0 ? 500 : (unsigned)draw(), (unsigned)(draw() % 30), slot, 0, 0, len);
        op->read.offset = (uint32_t)(draw() % (len + 1));
        op->read.len = (uint32_t)(draw() % (len - op->read.offset + 1));
        op->read.shard = draw() % 4 == 0 ? (uint8_t)draw() : 0;
}

/* A state that goes on from one to the next. */
static void absurd_scrub(struct eng_op *op, uint8_t *slot)
{
        static union {
                struct fmt_drive_scrub state;
                uint64_t words[sizeof(struct fmt_drive_scrub) / sizeof(uint64_t)];
        } scrub;
        unsigned i;

        op->scrub.what = (enum eng_scrub_what)(draw() % (ENG_SCRUB_READ + 1));
        op->scrub.most = (uint32_t)(draw() % (ENG_SCRUB_STRETCH + 1));
        op->scrub.yield = draw() % 2 == 0;
        op->scrub.slot = slot;
        for (i = 0; i < sizeof(scrub.words) / sizeof(scrub.words[0]); i++)
                if (draw() % 4 == 0)
                        scrub.words[i] = draw_number();
        if (draw() % 2 == 0) {
                scrub.state.segment = draw() % 6 | (draw() % 2) << 63;
                scrub.state.position = draw() % 2 == 0 ? FMT_BLOCK * (draw() % 40) : draw() % 200000;
                scrub.state.last = draw() % 10 | (draw() % 2) << 63;
                scrub.state.generation = draw() % 2 == 0 ? 0 : scrub.state.generation;
        }
        op->scrub.state = scrub.state;
}

static void absurd(unsigned which, struct fx_op *asked, uint8_t *slot)
{
        struct eng_op *op = &asked->op;

        memset(asked, 0, sizeof(*asked));
        op->kind = (enum eng_op_kind)(draw() % ENG_OP_KINDS);
        switch (op->kind) {
        case ENG_OP_APPEND:
        case ENG_OP_RECORD:
                absurd_record(op);
                break;
        case ENG_OP_COMMIT:
                op->commit.pg = (uint32_t)draw_number();
                op->commit.seq = draw_number();
                break;
        case ENG_OP_LOOKUP:
                op->lookup.name = absurdities[which].names[0];
                op->lookup.name_len = draw_name(absurdities[which].names[0]);
                break;
        case ENG_OP_SCAN:
                absurd_scan(which, op);
                break;
        case ENG_OP_WRITE:
        case ENG_OP_READ:
                absurd_shard(asked, slot);
                break;
        case ENG_OP_DISCARD:
                fx_id(op->discard.object_id, draw() % 1000 + 501);
                break;
        case ENG_OP_HELD:
                fx_id(op->held.object_id, 500);
                op->held.stripe = (uint32_t)draw_number();
                op->held.count = (uint32_t)(draw() % (ENG_HELD_MAX + 1));
                op->held.shard = (uint8_t)draw();
                break;
        case ENG_OP_IDS:
                memset(op->ids.after, (int)draw(), FMT_ID);
                op->ids.max = 1 + (uint32_t)(draw() % ENG_IDS_MAX);
                break;
        case ENG_OP_OWNED:
                op->owned.ids = (const uint8_t(*)[FMT_ID])absurdities[which].ids;
                op->owned.count = (uint32_t)(draw() % (ENG_OWNED_MAX + 1));
                op->owned.mark = draw_number();
                break;
        case ENG_OP_SCRUB:
                absurd_scrub(op, slot);
                break;
        case ENG_OP_FEATURES:
                op->features.bits = draw() % (FMT_FEATURES + 1);
                break;
        default:
                break;
        }
        op->epoch = draw() % 2 == 0 ? FX_EPOCH : draw_number();
        if (op->kind == ENG_OP_APPEND && op->append.type == FMT_RECORD_VOID)
                op->epoch = FX_EPOCH; /* nothing older is taken from there on */
        op->flags = (unsigned)draw() % ENG_OP_ANEW;
}

/* Whatever a peer asks for, as far as it has the form of an operation: the drive answers, and goes on. */
static void test_absurd(void **state)
{
        static struct fx_op ops[ABSURD];
        struct fx_op held = {.op = {.kind = ENG_OP_HELD, .flags = ENG_OP_ANEW, .epoch = FX_EPOCH, .held = {.count = 1}}};
        uint8_t *slots[ABSURD];
        unsigned i, j;

        for (j = 0; j < ABSURD; j++)
                slots[j] = new_slot(j);
        for (i = 0; i < 500; i++) {
                for (j = 0; j < ABSURD; j++) {
                        absurd(j, &ops[j], slots[j]);
                        fx_start(&fx, 0, &ops[j]);
                }
                for (j = 0; j < ABSURD; j++) {
                        int rv = fx_wait(&ops[j]);

                        assert_true(rv <= 0 && rv != -EIO);
                        if (ops[j].op.kind == ENG_OP_APPEND)
                                eng_buf_unref(ops[j].op.append.body);
                        else
                                eng_wire_drop_answer(&ops[j].op);
                }
        }
        for (j = 0; j < ABSURD; j++)
                free(slots[j]);
        assert_int_equal(fx_run(&fx, &held), 0); /* one that was refused has ended the session */
        assert_int_equal(fx_lookup_rv(&fx, "key-001"), 0);
        assert_int_equal(fx_put(&fx, "afterwards", "x", 1), 0);
}

/* ---- leaders --------------------------------------------------------------------------------- */

static unsigned deposed;

static void is_deposed(void *arg, const struct eng_term *by)
{
        __atomic_add_fetch(&deposed, 1, __ATOMIC_SEQ_CST);
}

static struct rem_client *leader_new(uint64_t revision)
{
        struct rem_client_options options = {.net = nodes.a.net,
                                             .loop = nodes.a.lp[0],
                                             .term = {.generation = 1, .revision = revision, .node = 1, .boot = 5},
                                             .cluster = "cluster",
                                             .deposed = is_deposed};
        struct rem_client *client;

        MUST(rem_client_new(&options, &client) == 0);
        return client;
}

static sem_t asked_for;

static void open_answered(struct rem_open *open)
{
        sem_post(&asked_for);
}

static void ping_answered(struct rem_ping *ping)
{
        sem_post(&asked_for);
}

static void ask_open(void *arg)
{
        rem_open_ask(arg);
}

static void ask_ping(void *arg)
{
        rem_ping_ask(arg);
}

static void ask_release(void *arg)
{
        rem_release_ask(arg);
}

static void wait_asked(void (*ask)(void *arg), void *arg)
{
        sem_init(&asked_for, 0, 0);
        fx_call(&fx, 0, ask, arg);
        sem_wait_or_fail(&asked_for);
        sem_destroy(&asked_for);
}

static enum rem_said open_as(struct rem_client *client)
{
        static struct rem_open open;

        open = (struct rem_open){.client = client, .pool = RN_POOL, .node = 2, .done = open_answered};
        wait_asked(ask_open, &open);
        return open.said;
}

static enum rem_said ping_as(struct rem_client *client, void (*ask)(void *arg))
{
        static struct rem_ping ping;

        ping = (struct rem_ping){.client = client, .pool = RN_POOL, .node = 2, .done = ping_answered};
        wait_asked(ask, &ping);
        return ping.said;
}

static struct eng_drive *given_up;

static void let_go_of(void *arg)
{
        *(bool *)arg = eng_drive_let_go(given_up);
}

static void close_given_up(void *arg)
{
        given_up->ops->close(given_up);
}

/* The drive that was remote until now was no leader's; from the first OPEN on it is refused. */
static void test_leaders(void **state)
{
        struct rem_client *first = leader_new(5), *second = leader_new(6);
        struct eng_local_options options = {
                .path = "remote:2/1/0", .unreachable = is_unreachable, .identity = fx.options.identity, .owner = fx.loops[0]};
        const struct eng_drive_opener *opener = rem_client_opener(first);
        struct eng_term term;
        uint8_t cluster[FMT_ID];
        bool quiet = false;

        assert_int_equal(fx_put(&fx, "before", "1", 1), 0);
        assert_int_equal(opener->open(opener, &options, &given_up, &fx.error), -EAGAIN); /* it has not OPENed it */
        assert_int_equal(open_as(first), REM_SAID_DONE);
        assert_int_equal(opener->open(opener, &options, &given_up, &fx.error), 0);
        assert_int_equal(fx_lookup_rv(&fx, "before"), -EHOSTUNREACH);
        fx.drive = given_up;
        assert_true(fx_has(&fx, "before", "1", 1));
        assert_int_equal(fx_put(&fx, "mine", "2", 1), 0);
        assert_int_equal(ping_as(first, ask_ping), REM_SAID_DONE);
        assert_int_equal(open_as(second), REM_SAID_GRANTED);
        assert_true(fx_has(&fx, "mine", "2", 1));
        assert_int_equal(deposed, 0);
        assert_int_equal(ping_as(first, ask_release), REM_SAID_DEPOSED); /* it knows of the second, and yet gives back what it had */
        assert_int_equal(open_as(second), REM_SAID_DONE);
        assert_int_equal(fx_put(&fx, "late", "3", 1), -ESTALE);
        assert_int_equal(fx_lookup_rv(&fx, "mine"), -ESTALE);
        assert_int_equal(deposed, 1);
        eng_drive_term(fx.local, &term, cluster);
        assert_int_equal(term.revision, 6);
        WAIT_UNTIL((fx_call(&fx, 0, let_go_of, &quiet), quiet));
        assert_true(quiet);
        fx_call(&fx, 0, close_given_up, NULL);
        fx.drive = remote;
        rem_client_free(first);
        rem_client_free(second);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),         cmocka_unit_test(test_long_value),
                cmocka_unit_test(test_newest_word),
                cmocka_unit_test(test_shards),        cmocka_unit_test(test_same_answers),
                cmocka_unit_test(test_same_refusals), cmocka_unit_test(test_away_and_back),
                cmocka_unit_test(test_absurd),        cmocka_unit_test(test_leaders),
        };

        return cmocka_run_group_tests(tests, start, stop);
}
