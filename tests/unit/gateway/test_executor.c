/*
 * gateway/rdma/executor.c, work_item.c and bounce.c: BATCH messages of real sessions, with an
 * engine that is slow, fails, or is left waiting. Every result and every byte is compared; nothing
 * outside the places may change; buffers are spoilt when they are given back. Sessions that end
 * meanwhile: test_executor_ends.c.
 */
#include "tests/unit/gateway/executor_fixture.h"

#include "gateway/http/gw.h"

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
                messages = send_batch(&one, grips, count, (count + 3) / 4 + (unsigned)step_random(64), ordered, 0);
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
        unsigned messages = send_batch(&one, grips, count, RDX_MESSAGE_ENTRIES, false, 0);

        settle(&one);
        over(&one, grips, messages);
        for (unsigned i = 0; i < count; i++) {
                assert_int_equal(one.result[i].code, code);
                assert_int_equal(one.result[i].status, rdx_code_status(code));
                assert_true(one.result[i].bytes == 0 && one.result[i].crc32c == 0);
        }
        assert_int_equal(fake.gets_open, 0);
}

static bool permits_nothing(const struct gw_credential *who, const char *permission, struct s3_str bucket,
                            struct s3_str key)
{
        assert_string_equal(who->access_key, OWNER);
        assert_string_equal(permission, "s3:GetObject");
        assert_true(bucket.len > 0 && key.len > 0);
        return false;
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
        fake.old = true; /* what is known here of rights may be, too */
        expect_codes(40, RDX_CODE_SERVICE_UNAVAILABLE);
        gw->policy = permits_nothing;
        expect_codes(40, RDX_CODE_SERVICE_UNAVAILABLE);
        gw->policy = NULL;
        fake.old = false;
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

static bool permits_no_version(const struct gw_credential *who, const char *permission, struct s3_str bucket,
                               struct s3_str key)
{
        return strcmp(permission, "s3:GetObjectVersion") != 0;
}

static void entries_that_are_not_permitted(void **state)
{
        uint64_t at = 0;

        for (unsigned i = 0; i < 40; i++)
                wish_whole(&wishes[i], i % OBJECTS, &at);
        gw->policy = permits_nothing;
        expect_codes(40, RDX_CODE_ACCESS_DENIED);
        for (unsigned i = 0; i < 40; i++)
                wishes[i].entry.version_id = BYTES("null");
        gw->policy = permits_no_version;
        expect_codes(40, RDX_CODE_ACCESS_DENIED);
        gw->policy = NULL;
        assert_memory_equal(one.bytes, one.shadow, MEMORY_SIZE);
}

/*
 * In the midst of a large object, with writes of it under way: it has failed, and the others have
 * not.
 */
static void a_failure_in_the_midst(void **state)
{
        uint64_t at = 0;
        unsigned messages;

        fake.span = 10000;
        fake.break_at = 100000;
        for (unsigned i = 0; i < 24; i++)
                wish_whole(&wishes[i], i % 2 == 0 ? i % SMALL : SMALL + i % 10, &at);
        messages = send_batch(&one, grips, 24, RDX_MESSAGE_ENTRIES, false, 0);
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

/* Small objects wait for a slot. What needs none goes on. */
static void no_slots(void **state)
{
        uint64_t at = 0;
        unsigned messages;

        take_all_slots();
        for (unsigned i = 0; i < 60; i++)
                wish_whole(&wishes[i], i < 12 ? SMALL + i % 10 : 1 + i % (SMALL - 1), &at);
        messages = send_batch(&one, grips, 60, RDX_MESSAGE_ENTRIES, false, 0);
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
        messages = send_batch(&one, grips, 60, RDX_MESSAGE_ENTRIES, false, 0);
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
                messages = send_batch(&one, grips, 100, RDX_MESSAGE_ENTRIES, true, limits[round]);
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
        struct rdx_window_binding other = {0};
        unsigned messages, before, sent;
        uint64_t at;

        /* The world goes on while a window is bound, so that comes first. */
        assert_int_equal(rdx_window_binding_open(two.client, two.memory, 0, MEMORY_SIZE, false, 1, &other), 0);
        for (unsigned i = 0; i < 256; i++) {
                at = 0;
                wish_whole(&wishes[i], SMALL + i % 10, &at); /* all into the same place, which harms nobody else */
        }
        count_on = true;
        for (messages = 0; messages < 6; messages++)
                assert_int_equal(send_batch(&one, grips + messages, 256, RDX_MESSAGE_ENTRIES, false, 0), 1);
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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(random_batches, setup, teardown),
                cmocka_unit_test_setup_teardown(failures_of_the_engine, setup, teardown),
                cmocka_unit_test_setup_teardown(entries_that_are_not_permitted, setup, teardown),
                cmocka_unit_test_setup_teardown(a_failure_in_the_midst, setup, teardown),
                cmocka_unit_test_setup_teardown(no_slots, setup, teardown),
                cmocka_unit_test_setup_teardown(slots_that_do_not_come, setup, teardown),
                cmocka_unit_test_setup_teardown(deadlines, setup, teardown),
                cmocka_unit_test_setup_teardown(sessions_in_turn, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
