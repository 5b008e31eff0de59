/*
 * Ids of objects: the bytes that stores have had from the first on, those of a cluster's nodes, which
 * of two came first, and which are of runs that are over.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/store.h"

/* A loop of a store that no loop runs: the test's thread is on it. */
static struct eng_store store;
static struct eng_loop loop;

static void begin(uint16_t node, uint32_t boot, unsigned index, uint64_t epoch)
{
        memset(&store, 0, sizeof(store));
        memset(&loop, 0, sizeof(loop));
        store.options.site.node = node;
        store.options.boot = boot;
        store.loop_count = 4;
        store.first_epoch = epoch;
        loop.store = &store;
        loop.index = index;
        loop.view.epoch = epoch;
}

static struct eng_made made_of(const uint8_t id[FMT_ID])
{
        struct eng_made made;

        eng_id_made(id, &made);
        return made;
}

static struct eng_made new_one(void)
{
        uint8_t id[FMT_ID];

        eng_new_id(&loop, id);
        return made_of(id);
}

static void test_bytes(void **state)
{
        static const uint8_t one_machine[FMT_ID] = {0x01, 0x02, 0x03, 0x04, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
        static const uint8_t of_a_node[FMT_ID] = {0x01, 0x02, 0x03, 0x04, 0, 2, 0x12, 0x34, 0xab, 0xcd, 0xef, 0, 0, 0, 0, 2};
        uint8_t id[FMT_ID];

        begin(0, 0, 3, 0x01020304);
        eng_new_id(&loop, id);
        assert_memory_equal(id, one_machine, FMT_ID);
        begin(0x1234, 0xabcdef, 2, 0x01020304);
        loop.home.id_counter = 1;
        eng_new_id(&loop, id);
        assert_memory_equal(id, of_a_node, FMT_ID);
        assert_int_equal(made_of(id).node, 0x1234);
        assert_int_equal(made_of(id).loop, 2);
        assert_int_equal(made_of(id).run, 0xabcdef);
        assert_int_equal(made_of(id).count, 2);
}

/* Each id comes after those before it, also where a node believes in an older epoch than before. */
static void test_order(void **state)
{
        struct eng_made last, next;
        unsigned node, i;

        for (node = 0; node < 2; node++) {
                begin((uint16_t)node, node == 0 ? 0 : 7, 1, 100);
                last = new_one();
                for (i = 0; i < 1000; i++) {
                        loop.view.epoch = node == 0 ? 100 + i / 10 : 100 - i / 10;
                        eng_id_next(&loop, &next);
                        assert_true(eng_made_before(&last, &next));
                        last = new_one();
                        assert_false(eng_made_before(&last, &next));
                        assert_false(eng_made_before(&next, &last));
                }
                store.options.boot += node;
                loop.home.id_counter = 0;
                loop.view.epoch = node == 0 ? 300 : 1; /* another run */
                next = new_one();
                assert_true(eng_made_before(&last, &next));
                assert_false(eng_made_before(&next, &last));
        }
        begin(1, 7, 1, 100); /* as many as a boot can give */
        loop.home.id_counter = (1ull << 40) - 2;
        last = new_one();
        assert_int_equal(last.count, (1ull << 40) - 1);
        assert_int_equal(last.run, 7);
        begin(1, 8, 1, 100);
        next = new_one();
        assert_true(eng_made_before(&last, &next));
}

static void test_a_boot_has_no_more_than_its_own(void **state)
{
        static const struct rlimit no_core;
        int status;
        pid_t child = fork();

        if (child == 0) {
                setrlimit(RLIMIT_CORE, &no_core);
                begin(1, 7, 1, 100);
                loop.home.id_counter = (1ull << 40) - 1;
                new_one();
                _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        begin(0, 0, 1, 100); /* on one machine the counter has no boots in it */
        loop.home.id_counter = (1ull << 40) - 1;
        assert_int_equal(new_one().count, 1ull << 40);
}

static void test_runs_that_are_over(void **state)
{
        static const struct {
                uint16_t node;
                uint32_t boot;
                struct eng_made made;
                bool over;
        } cases[] = {
                {0, 0, {0, 9, 99, 5}, true},   {0, 0, {0, 9, 100, 5}, false},
                {0, 0, {1, 0, 1, 5}, false}, /* a node's, in a store that knows of none */
                {2, 7, {2, 9, 6, 5}, true},    {2, 7, {2, 9, 7, 5}, false},
                {2, 7, {2, 9, 8, 5}, false},   {2, 7, {3, 0, 1, 5}, false}, /* another node: nothing is known of its runs */
                {2, 7, {0, 0, 99, 5}, true}, /* of the one machine that the pool was on */
                {2, 7, {0, 0, 100, 5}, false},
        };
        size_t i;

        for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                begin(cases[i].node, cases[i].boot, 0, 100);
                assert_int_equal(eng_made_before_run(&store, &cases[i].made), cases[i].over);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_bytes),
                cmocka_unit_test(test_order),
                cmocka_unit_test(test_a_boot_has_no_more_than_its_own),
                cmocka_unit_test(test_runs_that_are_over),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
