/*
 * test_home_pins.c - what a home reads is kept for it (G7) while others overwrite it, while orphans are collected, and for
 * a while behind the end of its session. Loops run on threads.
 */
#include "tests/lib/store_versions.h"
#include "tests/unit/remote/session_fixture.h"

#define INDEXED_US 4000000 /* drives have written their indexes, and discarded what those say is dead */

/* ---- a reader of the home -------------------------------------------------------------------- */

static struct {
        struct eng_get *get;
        uint64_t got;
        bool right;
        int rv;
        sem_t ended;
} reader;

static void reader_opened(void *arg, int rv, struct eng_get *get)
{
        reader.rv = rv;
        reader.get = get;
        sem_post(&reader.ended);
}

static void reader_opens(void *arg)
{
        eng_get_open(hf.home.store, bucket, (struct eng_str){"read", 4}, NULL, reader_opened, NULL);
}

static void reader_goes_on(void *arg)
{
        static uint8_t expected[LARGE];
        const uint8_t *data;
        size_t len;

        while ((reader.rv = eng_get_next(reader.get, &data, &len)) == 0) {
                sf_fill(expected, 1, reader.got, len);
                reader.right &= memcmp(data, expected, len) == 0;
                reader.got += len;
        }
        if (reader.rv == -EAGAIN)
                return;
        eng_get_close(reader.get);
        sem_post(&reader.ended);
}

static void reader_reads(void *arg)
{
        reader.rv = eng_get_start(reader.get, 0, LARGE, reader_goes_on, NULL);
        reader_goes_on(NULL);
}

static void reader_step(void (*step)(void *arg))
{
        hf_run(hf.home.loops[0], step, NULL);
        while (sem_wait(&reader.ended) != 0)
                ;
}

/* An object whose shards drives tell of, opened at the home, and overwritten by others. */
static void open_and_overwrite(void)
{
        memset(&reader, 0, sizeof(reader));
        reader.right = true;
        sem_init(&reader.ended, 0, 0);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "read", 1, LARGE, true, NULL), 0);
        WAIT_UNTIL(ids_of_homes() >= 4 || (collect_all(), false));
        assert_true(ids_of_homes() >= 4);
        reader_step(reader_opens);
        assert_int_equal(reader.rv, 0);
        assert_int_equal(sf_put(&leader, 0, bucket, "read", 2, LARGE, true, NULL), 0);
}

static void reads_what_it_opened(void)
{
        reader_step(reader_reads);
        assert_int_equal(reader.rv, -ENODATA);
        assert_int_equal(reader.got, LARGE);
        assert_true(reader.right);
        sem_destroy(&reader.ended);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Nothing names it any more, and nobody has it under way: still a collection leaves it. */
static void test_collections(void **state)
{
        unsigned i;

        open_and_overwrite();
        for (i = 0; i < 2; i++) {
                usleep(INDEXED_US);
                collect_all();
        }
        reads_what_it_opened();
        WAIT_UNTIL(ids_of_homes() == 0); /* it is discarded when it was read */
        assert_int_equal(ids_of_homes(), 0);
}

static void test_session_ends(void **state)
{
        open_and_overwrite();
        lose_it();
        WAIT_UNTIL(rem_home_server_sessions(server) == 0);
        assert_int_equal(rem_home_server_sessions(server), 0);
        usleep(INDEXED_US);
        reads_what_it_opened();
        meet_again();
        assert_int_equal(sf_get(&hf.home, 0, bucket, "read", 2, LARGE), 0);
}

/* ---- many readers of one object -------------------------------------------------------------- */

#define READERS 24u
#define FEW     8u /* values of which there is room for */

static struct {
        struct eng_get *gets[READERS];
        atomic_uint opened, failed;
} readers;

static void one_of_many_opened(void *arg, int rv, struct eng_get *get)
{
        readers.gets[atomic_fetch_add(&readers.opened, 1)] = get;
        atomic_fetch_add(&readers.failed, rv != 0);
}

static void open_one_more(void *arg)
{
        eng_get_open(hf.home.store, bucket, (struct eng_str){"read", 4}, NULL, one_of_many_opened, NULL);
}

static void close_many(void *arg)
{
        unsigned i;

        for (i = 0; i < READERS; i++)
                eng_get_close(readers.gets[i]);
}

static int begin_with_little(void **state)
{
        leader_memory = FEW * 1024;
        return begin(state);
}

static int end_with_little(void **state)
{
        leader_memory = 0;
        return end(state);
}

/* What they have pinned is one value, or two where it is changed meanwhile: they do not use up what others need. */
static void test_many_readers_of_one(void **state)
{
        const struct eng_extras_change change = {.set_acl = true, .extras.acl = {"anybody", 7}};
        uint64_t one = 0;
        unsigned i;

        memset(&readers, 0, sizeof(readers));
        assert_int_equal(sf_put(&hf.home, 0, bucket, "read", 1, LARGE, true, NULL), 0);
        for (i = 0; i < READERS; i++) {
                hf_run(hf.home.loops[0], open_one_more, NULL);
                WAIT_UNTIL(atomic_load(&readers.opened) == i + 1);
                assert_int_equal(atomic_load(&readers.opened), i + 1);
                if (i == 0)
                        one = rem_home_server_pinned(server);
                if (i == READERS / 2) {
                        assert_int_equal(rem_home_server_pinned(server), one);
                        assert_int_equal(sv_extras(&leader, bucket, "read", NULL, &change), 0);
                }
        }
        assert_int_equal(atomic_load(&readers.failed), 0);
        assert_true(one > 0 && rem_home_server_pinned(server) > 2 * one && rem_home_server_pinned(server) < 3 * one);
        hf_run(hf.home.loops[0], close_many, NULL);
        WAIT_UNTIL(rem_home_server_pinned(server) == 0);
        assert_int_equal(rem_home_server_pinned(server), 0);
        assert_int_equal(sf_get(&hf.home, 1, bucket, "read", 1, LARGE), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_collections, begin, end),
                cmocka_unit_test_setup_teardown(test_session_ends, begin, end),
                cmocka_unit_test_setup_teardown(test_many_readers_of_one, begin_with_little, end_with_little),
        };

        return cmocka_run_group_tests(tests, fixture_certificates, fixture_no_certificates);
}
