/*
 * gateway/executor.c, task.c and pack.c: BATCH messages of real sessions over the fake transport and stepped loops, with an engine that is slow, fails, or is left waiting.
 * Every result and every byte is compared; nothing outside the places may change; buffers are spoilt when they are given back.
 */
#define EACH        64u /* entries of a session under way: GW_EXECUTOR_EACH */
#define ARENA_SIZE  (32u << 20)
#define MEMORY_SIZE (4u << 20)
#include "tests/unit/gateway/fake_engine.h"
#include "tests/unit/rdma/world.h"

#include "gateway.h"
#include "tests/unit/gateway/step_arena.h"

#define SMALL   20u /* objects 0 … of up to some KiB; the next ones do not live in a record */
#define OBJECTS 30u
#define BLOCK   (256u << 10)
#define BLOCKS  64u
#define GRIPS   8u
#define ENDINGS 160u
#define STOPS   40u

static struct gw_gateway *gw;
static struct client one, two;
static bool blocks[BLOCKS];

/* ---- the engine's memory: of large objects in the registered arena ---------------------------------- */

static uint8_t *memory(size_t len)
{
        if (len <= ENG_INLINE_MAX)
                return malloc(len + 1);
        for (unsigned i = 0; i < BLOCKS; i++)
                if (!blocks[i]) {
                        blocks[i] = true;
                        return (uint8_t *)arena + ARENA_SIZE - (size_t)(i + 1) * BLOCK;
                }
        fail_msg("more large objects are open than may be");
        return NULL;
}

static void memory_back(uint8_t *bytes, size_t len)
{
        memset(bytes, 0xdb, len);
        if (len <= ENG_INLINE_MAX)
                free(bytes);
        else
                blocks[(arena + ARENA_SIZE - (char *)bytes) / BLOCK - 1] = false;
}

static size_t size_of(unsigned object)
{
        return object == 0 ? 0 : object < SMALL ? 7 * object * object + 1 : ENG_INLINE_MAX + 1 + 997 * object;
}

static void add_objects(void)
{
        for (unsigned n = 0; n < OBJECTS; n++) {
                struct fake_object *o = &fake.objects[n];
                size_t len = size_of(n);

                *o = (struct fake_object){.used = true, .bucket = 1};
                o->key_len = (size_t)snprintf(o->key, sizeof(o->key), "%u", n);
                o->bytes = malloc(len + 1);
                for (size_t i = 0; i < len; i++)
                        o->bytes[i] = object_byte(n, i);
                o->object.size = len;
                o->object.etag[0] = (uint8_t)n;
        }
}

/* ---- the site ------------------------------------------------------------------------------------- */

static void on_message(void *arg, struct rdx_batch *batch)
{
        gw_rdma_batch(gw, batch);
}

static unsigned seed;

static int open_site(unsigned with)
{
        struct gw_credential user = {.access_key = OWNER, .secret_key = "secret"};
        struct lp_loop *loops[STEP_LOOPS] = {&step_loop[0], &step_loop[1]};
        struct fake_options transport = {.seed = with};
        struct gw_options options = {.store = &fake.store, .loops = loops, .loop_count = STEP_LOOPS};

        world_batch = on_message;
        if (world_open(transport.seed, &transport, NULL) != 0)
                return -1;
        step_arena_start();
        memset(blocks, 0, sizeof(blocks));
        fake_reset(NULL);
        fake.memory = memory;
        fake.memory_back = memory_back;
        add_objects();
        options.rdma = server;
        if (gw_new(&options, &gw) != 0 || gw_credentials_set(gw, &user, 1) != 0)
                return -1;
        return client_begin(&one, RDX_RIGHTS_WINDOW2) == 0 && client_begin(&two, RDX_RIGHTS_WINDOW1) == 0 ? 0 : -1;
}

static int setup(void **state)
{
        seed = test_seed();
        return open_site(seed);
}

static void drain(void)
{
        while (lp_loop_drain(&step_loop[0]) + lp_loop_drain(&step_loop[1]) > 0)
                ;
}

/* As the daemon ends. */
static int teardown(void **state)
{
        client_end(&one);
        client_end(&two);
        rdx_server_stop(server);
        drain();
        gw_free(gw);
        fake_release();
        drain();
        rdx_server_free(server);
        server = NULL;
        assert_int_equal(fake.gets_open, 0);
        step_arena_check();
        world_close();
        fake_reset(NULL);
        return 0;
}

/* ---- asking --------------------------------------------------------------------------------------- */

/* What is asked for, and what must become of it. */
struct wish {
        char key[16];
        struct rdx_entry entry;
        enum rdx_code code;
        unsigned object;
        uint64_t from, len; /* of the object */
};

static struct wish wishes[RDX_BATCH_ENTRIES];
static struct rdx_grip grips[GRIPS];
static bool count_on; /* what has come, over several send()s */

static void wish_whole(struct wish *wish, unsigned object, uint64_t *at)
{
        *wish = (struct wish){.object = object, .len = object < OBJECTS ? size_of(object) : 0};
        snprintf(wish->key, sizeof(wish->key), "%u", object);
        wish->code = object < OBJECTS ? RDX_CODE_OK : RDX_CODE_NO_SUCH_KEY;
        wish->entry = (struct rdx_entry){
                .bucket = BYTES("bucket"), .key = {wish->key, strlen(wish->key)}, .offset = *at, .length = wish->len};
        *at += wish->len;
}

/* Fits into `most` bytes at *at. */
static void wish_any(struct wish *wish, uint64_t most, uint64_t *at)
{
        unsigned object = (unsigned)step_random(OBJECTS + 3);
        uint64_t size = object < OBJECTS ? size_of(object) : 0, start = *at;

        wish_whole(wish, object, at);
        *at = start;
        if (object < OBJECTS && step_random(3) == 0) {
                wish->from = wish->entry.range_first = step_random(size + 2);
                wish->entry.range_length = 1 + step_random(most);
                wish->len = wish->from >= size                             ? 0
                            : size - wish->from < wish->entry.range_length ? size - wish->from
                                                                           : wish->entry.range_length;
                wish->code = wish->from >= size ? RDX_CODE_INVALID_RANGE : RDX_CODE_OK;
        }
        wish->entry.length = step_random(8) == 0 ? step_random(most) : wish->len + step_random(64);
        if (wish->entry.length > most)
                wish->entry.length = most;
        if (wish->len > wish->entry.length)
                wish->code = RDX_CODE_PLACE_TOO_SMALL;
        *at += wish->entry.length;
}

/* In messages of at most `each` entries, over the whole memory. How many messages. */
static unsigned send(struct client *client, struct rdx_grip *grip, unsigned count, unsigned each, bool ordered,
                     unsigned deadline)
{
        static struct rdx_entry entries[RDX_BATCH_ENTRIES];
        unsigned first = 0, messages = 0, n;

        if (!count_on)
                client->entries = client->results = client->last = 0; /* some come while the later windows are bound */
        for (unsigned i = 0; i < count; i++)
                entries[i] = wishes[i].entry;
        while (first < count) {
                struct rdx_client_batch how = {
                        .batch = 3, .first = (uint16_t)first, .ordered = ordered, .deadline_ms = deadline};
                unsigned left = count - first < each ? count - first : each, most = left < 64 ? left : 64, sent;

                n = (left + 63) / 64;
                how.replies = (uint16_t)(n + step_random(most - n + 1));
                if (how.replies > 12)
                        how.replies = 12;
                assert_true(messages < GRIPS);
                assert_int_equal(rdx_grip_open(client->client, client->memory, 0, MEMORY_SIZE, false, how.replies,
                                               &grip[messages]),
                                 0);
                assert_int_equal(rdx_client_batch(client->client, &grip[messages], &how, entries + first, left, &sent),
                                 0);
                first += sent;
                messages++;
        }
        return messages;
}

static void settle(struct client *client)
{
        step_all();
        rdx_client_poll(client->client);
        step_all();
        rdx_client_poll(client->client);
}

static void over(struct client *client, struct rdx_grip *grip, unsigned messages)
{
        assert_int_equal(client->last, messages);
        for (unsigned i = 0; i < messages; i++)
                assert_int_equal(rdx_grip_close(&grip[i], false), 0);
}

/* The result, the bytes, and what was there before around them. */
static void check(struct client *client, unsigned i)
{
        const struct wish *wish = &wishes[i];
        const struct rdx_result *result = &client->result[i];
        const uint8_t *bytes = client->bytes + wish->entry.offset;

        assert_int_equal(result->code, wish->code);
        assert_int_equal(result->bytes, wish->code == RDX_CODE_OK ? wish->len : 0);
        if (wish->code != RDX_CODE_OK)
                return;
        assert_int_equal(result->size, size_of(wish->object));
        for (uint64_t k = 0; k < wish->len; k++)
                if (bytes[k] != object_byte(wish->object, wish->from + k))
                        fail_msg("entry %u: byte %llu of object %u is wrong", i, (unsigned long long)k, wish->object);
        assert_int_equal(result->crc32c, era_crc32c(0, bytes, wish->len));
        memcpy(client->shadow + wish->entry.offset, bytes, wish->len);
}

static void check_all(struct client *client, unsigned count, bool ordered)
{
        assert_int_equal(client->entries, count);
        for (unsigned i = 0; i < count; i++) {
                if (ordered)
                        assert_int_equal(client->order[i], i);
                check(client, i);
        }
        assert_memory_equal(client->bytes, client->shadow, MEMORY_SIZE);
}

/* Whole objects 0 … count - 1, over and over. */
static void whole_objects(struct client *client, unsigned count, unsigned from, unsigned to)
{
        uint64_t at = 0;
        unsigned messages;

        for (unsigned i = 0; i < count; i++)
                wish_whole(&wishes[i], from + i % (to - from), &at);
        assert_true(at <= MEMORY_SIZE);
        messages = send(client, grips, count, RDX_MESSAGE_ENTRIES, false, 0);
        settle(client);
        over(client, grips, messages);
        check_all(client, count, false);
}

/* ---- tests ---------------------------------------------------------------------------------------- */

static void random_batches(void **state)
{
        for (unsigned round = 0; round < 60; round++) {
                unsigned count = 1 + (unsigned)step_random(round % 4 == 0 ? RDX_BATCH_ENTRIES : 200), messages, i;
                bool ordered = step_random(2) == 0;
                uint64_t at = step_random(100);

                fake.span = step_random(3) == 0 ? 1 + step_random(60000) : 0;
                if (fake.span != 0 && fake.span < 3000)
                        fake.span = 3000;
                fake.slow_reads = step_random(2) == 0;
                fake.memory = memory;
                for (i = 0; i < STEP_LOOPS; i++)
                        step_arena[i].slots = 1 + (unsigned)step_random(STEP_SLOTS);
                for (i = 0; i < count; i++)
                        wish_any(&wishes[i], (MEMORY_SIZE - at) / (count - i), &at);
                messages = send(&one, grips, count, (count + 3) / 4 + (unsigned)step_random(64), ordered, 0);
                settle(&one);
                over(&one, grips, messages);
                check_all(&one, count, ordered);
                assert_int_equal(fake.gets_open, 0);
                step_arena_check();
        }
}

static const struct {
        int rv;
        enum rdx_code code;
} failures[] = {
        {-EAGAIN, RDX_CODE_SLOW_DOWN},    {-ENOMEM, RDX_CODE_SLOW_DOWN},
        {-ETIMEDOUT, RDX_CODE_SLOW_DOWN}, {-EHOSTDOWN, RDX_CODE_SERVICE_UNAVAILABLE},
        {-EIO, RDX_CODE_INTERNAL_ERROR},  {-EPROTO, RDX_CODE_INTERNAL_ERROR},
        {-ENOENT, RDX_CODE_NO_SUCH_KEY},
};

static void expect_codes(unsigned count, enum rdx_code code)
{
        unsigned messages = send(&one, grips, count, RDX_MESSAGE_ENTRIES, false, 0);

        settle(&one);
        over(&one, grips, messages);
        for (unsigned i = 0; i < count; i++) {
                assert_int_equal(one.result[i].code, code);
                assert_int_equal(one.result[i].status, rdx_code_status(code));
                assert_true(one.result[i].bytes == 0 && one.result[i].crc32c == 0);
        }
        assert_int_equal(fake.gets_open, 0);
}

static void failures_of_the_engine(void **state)
{
        uint64_t at = 0;

        for (unsigned i = 0; i < 40; i++)
                wish_whole(&wishes[i], 1 + i % (SMALL - 1), &at);
        for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
                fake.get_rv = failures[i].rv;
                expect_codes(40, failures[i].code);
        }
        fake.get_rv = 0;
        fake.bucket_rv = -EHOSTDOWN;
        expect_codes(40, RDX_CODE_SERVICE_UNAVAILABLE);
        fake.bucket_rv = 0;
        wishes[0].entry.bucket = BYTES("No_Name");
        wishes[1].entry.key = (struct rdx_bytes){"a\0b", 3};
        wishes[2].entry.version_id = BYTES("1");
        expect_codes(3, RDX_CODE_INVALID_ARGUMENT);
        wishes[0].entry.bucket = BYTES("absent");
        expect_codes(1, RDX_CODE_NO_SUCH_BUCKET);
        wish_whole(&wishes[0], 5, &at);
        wishes[0].entry.if_match = BYTES("00000000000000000000000000000000");
        expect_codes(1, RDX_CODE_PRECONDITION_FAILED);
        assert_memory_equal(one.bytes, one.shadow, MEMORY_SIZE);
}

/* In the midst of a large object, with writes of it under way: it has failed, and the others have not. */
static void a_failure_in_the_midst(void **state)
{
        uint64_t at = 0;
        unsigned messages;

        fake.span = 10000;
        fake.break_at = 100000;
        for (unsigned i = 0; i < 24; i++)
                wish_whole(&wishes[i], i % 2 == 0 ? i % SMALL : SMALL + i % 10, &at);
        messages = send(&one, grips, 24, RDX_MESSAGE_ENTRIES, false, 0);
        settle(&one);
        over(&one, grips, messages);
        for (unsigned i = 0; i < 24; i++) {
                if (i % 2 == 0) {
                        check(&one, i);
                        continue;
                }
                assert_int_equal(one.result[i].code, RDX_CODE_INTERNAL_ERROR);
                client_keep(&one, (unsigned)wishes[i].entry.offset,
                            (unsigned)wishes[i].len); /* what of it is spoilt is not defined */
        }
        assert_memory_equal(one.bytes, one.shadow, MEMORY_SIZE);
}

static struct lp_reserve others[STEP_LOOPS];

static void nothing(struct lp_reserve *r)
{
}

/* Somebody else has all slots. */
static void take_all_slots(void)
{
        for (unsigned i = 0; i < STEP_LOOPS; i++) {
                step_arena[i].slots = 1;
                others[i] = (struct lp_reserve){.count = 1, .share = LP_SHARE_GET, .granted = nothing};
                assert_int_equal(lp_reserve(&step_loop[i], &others[i]), 0);
        }
}

static void give_all_slots(void)
{
        for (unsigned i = 0; i < STEP_LOOPS; i++)
                lp_unreserve(&step_loop[i], LP_SHARE_GET, 1);
}

/* Small objects wait for a slot. What needs none goes on. */
static void no_slots(void **state)
{
        uint64_t at = 0;
        unsigned messages;

        take_all_slots();
        for (unsigned i = 0; i < 60; i++)
                wish_whole(&wishes[i], i < 12 ? SMALL + i % 10 : 1 + i % (SMALL - 1), &at);
        messages = send(&one, grips, 60, RDX_MESSAGE_ENTRIES, false, 0);
        settle(&one);
        assert_int_equal(one.last, 0);
        give_all_slots();
        settle(&one);
        over(&one, grips, messages);
        check_all(&one, 60, false);
}

static void slots_that_do_not_come(void **state)
{
        uint64_t at = 0;
        unsigned messages, slow = 0;

        take_all_slots();
        for (unsigned i = 0; i < 60; i++)
                wish_whole(&wishes[i], 1 + i % (SMALL - 1), &at);
        messages = send(&one, grips, 60, RDX_MESSAGE_ENTRIES, false, 0);
        settle(&one);
        for (unsigned i = 0; i < 60; i++) {
                step_arena_expire();
                settle(&one);
        }
        over(&one, grips, messages);
        for (unsigned i = 0; i < 60; i++)
                slow += one.result[i].code == RDX_CODE_SLOW_DOWN;
        assert_int_equal(slow, 60);
        for (unsigned i = 0; i < STEP_LOOPS; i++)
                step_arena[i].line_full = true;
        expect_codes(60, RDX_CODE_SLOW_DOWN);
        for (unsigned i = 0; i < STEP_LOOPS; i++)
                step_arena[i].line_full = false;
        give_all_slots();
        whole_objects(&one, 60, 0, SMALL);
}

/* What was begun in time is answered; the rest is not begun. */
static void deadlines(void **state)
{
        const unsigned limits[] = {1000, 0};

        for (unsigned round = 0; round < 2; round++) {
                uint64_t at = 0;
                unsigned messages;

                for (unsigned i = 0; i < 100; i++)
                        wish_whole(&wishes[i], 1 + i % (SMALL - 1), &at);
                messages = send(&one, grips, 100, RDX_MESSAGE_ENTRIES, true, limits[round]);
                fake_set_hold();
                settle(&one);
                assert_int_equal(one.last, 0);
                step_now += limits[round] != 0 ? 1000 * 1000000ull : 30000 * 1000000ull;
                fake_release();
                settle(&one);
                over(&one, grips, messages);
                for (unsigned i = 0; i < 100; i++) {
                        if (i < EACH)
                                check(&one, i);
                        else
                                assert_int_equal(one.result[i].code, RDX_CODE_REQUEST_TIMEOUT);
                }
        }
}

/* Two sessions; one has asked for far more. */
static void sessions_in_turn(void **state)
{
        struct rdx_client_batch how = {.replies = 1};
        struct rdx_grip other = {0};
        unsigned messages, before, sent;
        uint64_t at;

        /* The world goes on while a window is bound, so that comes first. */
        assert_int_equal(rdx_grip_open(two.client, two.memory, 0, MEMORY_SIZE, false, 1, &other), 0);
        for (unsigned i = 0; i < 256; i++) {
                at = 0;
                wish_whole(&wishes[i], SMALL + i % 10, &at); /* all into the same place, which harms nobody else */
        }
        count_on = true;
        for (messages = 0; messages < 6; messages++)
                assert_int_equal(send(&one, grips + messages, 256, RDX_MESSAGE_ENTRIES, false, 0), 1);
        count_on = false;
        at = 0;
        wish_whole(&wishes[0], 7, &at);
        assert_int_equal(rdx_client_batch(two.client, &other, &how, &wishes[0].entry, 1, &sent), 0);
        rdx_client_poll(one.client);
        before = one.entries;
        while (two.last == 0) {
                assert_true(step());
                for (unsigned i = 0; i < STEP_LOOPS; i++) { /* as in every round of a loop */
                        step_self = &step_loop[i];
                        run_hooks(&step_loop[i]);
                        step_self = NULL;
                }
                rdx_client_poll(two.client);
                rdx_client_poll(one.client);
        }
        check(&two, 0);
        over(&two, &other, 1);
        print_message("%u entries of the other before, %u meanwhile\n", before, one.entries - before);
        assert_true(before < 6 * 256 && one.entries - before < 6 * 256 / 4);
        settle(&one);
        assert_int_equal(one.entries, 6 * 256);
        over(&one, grips, messages);
        client_keep(&one, 0, MEMORY_SIZE);
}

enum way { BY_FENCE, BY_END, BY_KILL, BY_REVOKING, WAYS };

static void end_session(enum way way)
{
        struct gw_credential other = {.access_key = "OTHER", .secret_key = "secret"};

        switch (way) {
        case BY_FENCE:
                rdx_client_fence(one.client);
                break;
        case BY_END:
                rdx_session_end(server, one.opened.session);
                break;
        case BY_KILL:
                fake_kill(one.bytes, MEMORY_SIZE);
                break;
        default:
                gw_credentials_set(gw, &other, 1);
                break;
        }
}

/* At any point, however it ends: everything is given back. */
static void sessions_that_end(void **state)
{
        for (unsigned round = 0; round < ENDINGS; round++) {
                unsigned steps = (unsigned)step_random(1500), messages;
                uint64_t at = 0;

                if (round > 0)
                        assert_int_equal(open_site(seed + round), 0);
                fake.slow_reads = step_random(2) == 0;
                fake.span = step_random(2) == 0 ? 20000 : 0;
                if (step_random(4) == 0)
                        take_all_slots();
                for (unsigned i = 0; i < 150; i++)
                        wish_whole(&wishes[i], i < 10 ? SMALL + i % 10 : i % SMALL, &at);
                messages = send(&one, grips, 150, 50, step_random(2) == 0, 0);
                while (steps-- > 0 && step())
                        ;
                end_session((enum way)step_random(WAYS));
                step_all();
                for (unsigned i = 0; i < 100; i++) {
                        step_time(250 * 1000000ull);
                        step_all();
                }
                assert_int_equal(fake.gets_open <= EACH, true);
                if (step_arena[0].slots == 1 && others[0].count == 1 && step_arena[0].reserved > 0) {
                        give_all_slots();
                        step_all();
                }
                memset(others, 0, sizeof(others));
                assert_int_equal(fake.gets_open, 0);
                step_arena_check();
                rdx_client_fence(one.client);
                for (unsigned i = 0; i < messages; i++)
                        rdx_grip_close(&grips[i], true);
                client_keep(&one, 0, MEMORY_SIZE);
                if (round + 1 < ENDINGS)
                        teardown(state);
        }
}

/* With lookups, reads and waiting for slots under way. */
static void an_end_in_the_midst(void **state)
{
        for (unsigned round = 0; round < STOPS; round++) {
                unsigned steps = (unsigned)step_random(800), messages;
                uint64_t at = 0;

                if (round > 0)
                        assert_int_equal(open_site(seed + round), 0);
                fake.slow_reads = step_random(2) == 0;
                if (step_random(2) == 0)
                        take_all_slots();
                for (unsigned i = 0; i < 150; i++)
                        wish_whole(&wishes[i], i < 10 ? SMALL + i % 10 : i % SMALL, &at);
                messages = send(&one, grips, 150, 50, step_random(2) == 0, 0);
                while (steps-- > 0 && step())
                        if (steps == 100 && round % 2 == 0)
                                fake_set_hold();
                rdx_client_fence(one.client);
                for (unsigned i = 0; i < messages; i++)
                        rdx_grip_close(&grips[i], true);
                client_keep(&one, 0, MEMORY_SIZE);
                if (others[0].count == 1)
                        give_all_slots();
                memset(others, 0, sizeof(others));
                if (round + 1 < STOPS)
                        teardown(state);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(random_batches, setup, teardown),
                cmocka_unit_test_setup_teardown(failures_of_the_engine, setup, teardown),
                cmocka_unit_test_setup_teardown(a_failure_in_the_midst, setup, teardown),
                cmocka_unit_test_setup_teardown(no_slots, setup, teardown),
                cmocka_unit_test_setup_teardown(slots_that_do_not_come, setup, teardown),
                cmocka_unit_test_setup_teardown(deadlines, setup, teardown),
                cmocka_unit_test_setup_teardown(sessions_in_turn, setup, teardown),
                cmocka_unit_test_setup_teardown(sessions_that_end, setup, teardown),
                cmocka_unit_test_setup_teardown(an_end_in_the_midst, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
