/*
 * test_lying_store.c - a store of six drives, two of which lie on a node whose answers have the right form, and say
 * what is not so: nothing of this process may end by it.
 */
#include "tests/unit/remote/remote_nodes.h"

#include <time.h>

#include "engine/base/store.h"
#include "ec.h"
#include "engine/drive/identity.h"
#include "engine/drive/wire.h"
#include "tests/lib/store_objects.h"

#define DRIVES 6u
#define FIRST  1u
#define SECOND 3u

static struct rn nodes;
static struct sf sf;
static struct so_expected expected;
static struct rem_served *served[2];
static uint64_t bucket;
static atomic_bool lying;
static atomic_ulong seed, lies;

static uint64_t draw(void)
{
        unsigned long n = atomic_fetch_add(&seed, 1);

        return eng_hash(&n, sizeof(n), 1);
}

/* ---- a drive that lies ----------------------------------------------------------------------- */

struct liar {
        struct eng_drive base; /* first */
        struct eng_drive *inner;
} liars[2];

struct lie {
        struct eng_op op; /* first */
        struct eng_op *asked;
};

/* The drive's own stay as they are. */
static void lie_bytes(struct eng_buf **buf)
{
        struct eng_buf *copy;
        unsigned i, n = 1 + (unsigned)(draw() % 4);

        if (*buf == NULL || (*buf)->len == 0)
                return;
        copy = eng_buf_new((*buf)->len);
        MUST(copy != NULL);
        memcpy(copy->data, (*buf)->data, (*buf)->len);
        for (i = 0; i < n; i++) {
                size_t at = draw() % copy->len;

                if (draw() % 2 == 0)
                        copy->data[at] ^= (uint8_t)(1u << draw() % 8);
                else
                        copy->data[at] = (uint8_t)(draw() % 3 == 0 ? 0xff : draw() % 2);
        }
        eng_buf_unref(*buf);
        *buf = copy;
}

static void lie_words(void *bytes, size_t len)
{
        uint64_t n = draw() % 3 == 0 ? UINT64_MAX : draw() >> draw() % 64;

        memcpy((uint8_t *)bytes + 8 * (draw() % (len / 8)), &n, 8);
}

static void lie_of_names(struct eng_op *op)
{
        struct eng_buf *entries = op->scan.entries;
        struct eng_scan_entry e;
        size_t at;

        for (at = 0; entries != NULL && at < entries->len; at += e.size) {
                memcpy(&e, entries->data + at, sizeof(e));
                if (e.value_len > 0 && draw() % 3 == 0)
                        entries->data[at + sizeof(e) + e.name_len + draw() % e.value_len] ^=
                                (uint8_t)(1u << draw() % 8);
                if (draw() % 10 == 0)
                        entries->data[at + sizeof(e) + draw() % e.name_len] ^= (uint8_t)(1u << draw() % 8);
        }
        op->scan.more ^= draw() % 5 == 0;
}

static void lie_of_a_record(struct eng_op *op)
{
        lie_bytes(&op->append.body);
        op->append.body_crc = era_crc32c(0, op->append.body->data, op->append.body->len);
        if (draw() % 2 == 0)
                op->append.committed = draw() >> draw() % 64;
        if (draw() % 2 == 0)
                op->append.record_epoch = draw() >> draw() % 64;
}

static void lie_of_a_scrub(struct eng_op *op)
{
        lie_words(&op->scrub.state, sizeof(op->scrub.state));
        op->scrub.damaged ^= draw() % 3 == 0;
        op->scrub.ended ^= draw() % 5 == 0;
        op->scrub.gap ^= draw() % 5 == 0;
        op->scrub.stripe = (uint32_t)draw() >> draw() % 32;
        op->scrub.shard = (uint8_t)draw();
        op->scrub.object_id[draw() % FMT_ID] = (uint8_t)draw();
        lie_bytes(&op->scrub.names);
}

static void lie_of_bytes(struct eng_op *op)
{
        uint8_t *bytes = (uint8_t *)op->read.slot + LP_SLOT_HEADER + op->read.offset;

        if (op->read.slot == NULL || op->read.len == 0)
                return;
        bytes[draw() % op->read.len] ^= 1;
        op->read.crc = era_crc32c(0, bytes, op->read.len);
}

/* An error that a drive gives of a question. */
static void lie_of_the_result(struct eng_op *op)
{
        static const int results[] = {-ENOENT, -EBADMSG, -ENOSPC, -EAGAIN, -ESTALE, -EINVAL, -ENOMEM, -EEXIST};

        eng_wire_drop_answer(op);
        op->result = results[draw() % (sizeof(results) / sizeof(results[0]))];
}

static void lie_now(struct eng_op *op)
{
        if (draw() % 5 == 0 && op->kind != ENG_OP_LOOKUP) {
                lie_of_the_result(op);
                return;
        }
        switch (op->kind) {
        case ENG_OP_LOOKUP:
                lie_bytes(draw() % 3 == 0 ? &op->lookup.bytes : &op->lookup.value);
                break;
        case ENG_OP_SCAN:
                lie_of_names(op);
                break;
        case ENG_OP_RECORD:
                lie_of_a_record(op);
                break;
        case ENG_OP_TAIL:
                lie_bytes(&op->tail.entries);
                break;
        case ENG_OP_IDS:
                lie_bytes(&op->ids.ids);
                break;
        case ENG_OP_OWNED:
                lie_bytes(&op->owned.bits);
                op->owned.mark = draw() % 2 == 0 ? op->owned.mark : draw();
                break;
        case ENG_OP_HELD:
                lie_words(op->held.bits, sizeof(op->held.bits));
                break;
        case ENG_OP_SCRUB:
                lie_of_a_scrub(op);
                break;
        case ENG_OP_READ:
                lie_of_bytes(op);
                break;
        default:
                break;
        }
}

/* Changes are done: a drive that refuses them is given up, and asked nothing more. */
static bool is_told_true(const struct eng_op *op)
{
        return op->result != 0 || op->kind == ENG_OP_WRITE || op->kind == ENG_OP_SYNC || op->kind == ENG_OP_APPEND ||
               op->kind == ENG_OP_COMMIT;
}

static void lie_done(struct eng_op *op)
{
        struct lie *lie = container_of(op, struct lie, op);
        struct eng_op *asked = lie->asked;
        void (*done)(struct eng_op * op) = asked->done;

        if (atomic_load(&lying) && !is_told_true(op) && draw() % 3 == 0) {
                atomic_fetch_add(&lies, 1);
                lie_now(op);
        }
        *asked = *op;
        asked->done = done;
        free(lie);
        done(asked);
}

static void lie_submit(struct eng_drive *drive, struct eng_op *op)
{
        struct lie *lie = malloc(sizeof(*lie));

        MUST(lie != NULL);
        lie->op = *op;
        lie->asked = op;
        lie->op.done = lie_done;
        eng_drive_submit(((struct liar *)drive)->inner, &lie->op);
}

static struct eng_drive *below(struct eng_drive *drive)
{
        return ((struct liar *)drive)->inner;
}

static int liar_epoch(struct eng_drive *drive, void *out, size_t cap, size_t *len, struct eng_epoch_history *history)
{
        return eng_drive_epoch(below(drive), out, cap, len, history);
}

static bool liar_log_lost(struct eng_drive *drive)
{
        return eng_drive_log_lost(below(drive));
}

static bool liar_no(struct eng_drive *drive)
{
        return false;
}

static const char *liar_damage(struct eng_drive *drive)
{
        return eng_drive_damage(below(drive));
}

static void liar_info(struct eng_drive *drive, struct eng_drive_info *out)
{
        eng_drive_info(below(drive), out);
        if (!atomic_load(&lying))
                return;
        out->free_bytes = draw() >> draw() % 64;
        out->total_bytes = draw() >> draw() % 64;
        out->log_bytes = draw();
        out->starved = draw() % 10 == 0;
}

static const struct eng_drive_ops liar_ops = {.submit = lie_submit,
                                              .epoch = liar_epoch,
                                              .log_lost = liar_log_lost,
                                              .vanished = liar_no,
                                              .index_damaged = liar_no,
                                              .damage = liar_damage,
                                              .info = liar_info};

static void superseded(void *arg, struct eng_drive *drive, struct eng_buf *const values[], unsigned n)
{
        unsigned i;

        if (!atomic_load(&lying)) {
                rem_served_superseded(arg, drive, values, n);
                return;
        }
        for (i = 0; i < n; i++) {
                struct eng_buf *copy = eng_buf_ref(values[i]);

                lie_bytes(&copy);
                rem_served_superseded(arg, drive, &copy, 1);
                eng_buf_unref(copy);
        }
}

static void serve(unsigned i, unsigned slot)
{
        struct eng_local_options options = {.path = sf.path[slot],
                                            .log_file_bytes = 4 << 20,
                                            .segment_bytes = 16 << 20,
                                            .full_reserve_bytes = 1 << 20};
        enum eng_folder_state state;
        struct eng_error error;

        MUST(eng_folder_probe(sf.path[slot], &state, &options.identity, &error) == 0);
        MUST(rem_served_new(nodes.server, RN_POOL, slot, nodes.b.lp[slot % NODE_LOOPS], &served[i]) == 0);
        options.owner = nodes.b.lp[slot % NODE_LOOPS];
        options.failed = rem_served_failed;
        options.superseded = superseded;
        options.arg = served[i];
        MUST(eng_local_open(&options, &liars[i].inner, &error) == 0);
        liars[i].base = *liars[i].inner;
        liars[i].base.ops = &liar_ops;
        MUST(rem_served_publish(served[i], &liars[i].base, &options.identity) == 0);
}

static void close_drives(void *arg)
{
        unsigned i;

        for (i = 0; i < 2; i++) {
                liars[i].inner->ops->close(liars[i].inner);
                rem_served_free(served[i]);
        }
}

static void net_is_quiet(void)
{
        node_all_know(&nodes.a);
}

/* ---- a store that goes on -------------------------------------------------------------------- */

/* Nothing is said of how they end. */
static void ask_for_much(void)
{
        bool existed, more;
        char key[32];
        unsigned i;
        int rv;

        for (i = 0; i < 30; i++) {
                unsigned loop = i % sf.loop_count;

                snprintf(key, sizeof(key), "lie-%u", (unsigned)(draw() % 40));
                sf_put(&sf, loop, bucket, key, 1 + i, draw() % 3 == 0 ? 300 : draw() % 3000000, true, NULL);
                sf_get(&sf, loop, bucket, key, 1 + i, 300);
                if (draw() % 5 == 0)
                        sf_delete(&sf, loop, bucket, key, &existed);
                free(sf_list(&sf, loop, bucket, draw() % 2 == 0 ? "lie" : "", draw() % 2 == 0 ? "-" : "", "", 1000, &rv,
                             &more));
        }
}

static void test_lies(void **state)
{
        const char *given = getenv("ROUNDS");
        unsigned i, n = given != NULL ? (unsigned)atoi(given) : 9;
        bool existed;

        for (i = 0; i < n; i++) {
                atomic_store(&lying, true);
                ask_for_much();
                eng_verify_start(sf.store);
                eng_scrub_start(sf.store);
                atomic_store(&lying, draw() % 2 == 0);
                if (i % 3 == 1) { /* it catches up with them */
                        rn_cut(&nodes, true);
                        sf_delete(&sf, 0, bucket, "lie-0", &existed);
                        rn_cut(&nodes, false);
                }
                if (i % 3 == 2) { /* it begins with them */
                        sf_close(&sf);
                        atomic_store(&lying, draw() % 4 != 0);
                        assert_int_equal(sf_open(&sf, false), 0);
                        sf_wait_ready(&sf, 10);
                }
        }
        atomic_store(&lying, false);
        assert_true(atomic_load(&lies) > n);
}

static int start(void **state)
{
        const char *given = getenv("SEED");

        atomic_store(&seed, given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL));
        printf("SEED=%lu\n", atomic_load(&seed));
        fixture_certificates(state);
        so_begin_coded(&sf, DRIVES, 2, 3, &bucket, &expected);
        sf_close(&sf);
        rn_start(&nodes, 8);
        serve(0, FIRST);
        serve(1, SECOND);
        sf.closed = net_is_quiet;
        sf.paths[FIRST] = "remote:2/1/1";
        sf.paths[SECOND] = "remote:2/1/3";
        sf.options.opener = rem_client_opener(nodes.client);
        MUST(sf_open(&sf, false) == 0);
        MUST(sf_wait_ready(&sf, 60));
        return 0;
}

static int stop(void **state)
{
        sf_close(&sf);
        rn_stop(&nodes, close_drives, NULL);
        sf_remove(&sf);
        return fixture_no_certificates(state);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_lies)};

        return cmocka_run_group_tests(tests, start, stop);
}
