/*
 * test_remote_store.c - a store of six drives, two of which lie on another node, in this process:
 * objects are put, read, overwritten and deleted; the link is cut, the other node's drives begin
 * anew, and the store is closed in the middle. In the end all is there on the folders themselves.
 */
#include "tests/unit/remote/remote_nodes.h"

#include "engine/base/store.h"
#include "tests/lib/store_objects.h"

#define DRIVES 6u
#define FIRST  1u /* the remote ones: slots 1 and 3 */
#define SECOND 3u

static struct rn nodes;
static struct sf sf;
static struct so_expected expected;
static struct rem_served *served[8];
static unsigned served_slot[8], served_count;
static uint64_t bucket;
static unsigned early_looks; /* the thread that looks at the first one, then the test */

static bool one_is_out(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives[FIRST].state != ENG_DRIVE_IN &&
               h->drives[SECOND].state != ENG_DRIVE_IN;
}

static void serve(unsigned slot)
{
        struct eng_local_options options = {.path = sf.path[slot],
                                            .log_file_bytes = 4 << 20,
                                            .segment_bytes = 16 << 20,
                                            .full_reserve_bytes = 1 << 20};
        enum eng_folder_state state;
        struct eng_error error;

        MUST(served_count < 8);
        MUST(eng_folder_probe(sf.path[slot], &state, &options.identity, &error) == 0 && state == ENG_FOLDER_DRIVE);
        served_slot[served_count] = slot;
        MUST(rem_served_new(nodes.server, RN_POOL, slot, nodes.b.lp[slot % NODE_LOOPS], &served[served_count]) == 0);
        MUST(rem_served_open(served[served_count++], &options, &error) == 0);
}

static void let_go(void *arg)
{
        struct eng_drive *drive = rem_served_drive(served[*(unsigned *)arg]);

        *(unsigned *)arg = eng_drive_let_go(drive) ? UINT32_MAX : *(unsigned *)arg;
}

static void serve_no_more(unsigned slot)
{
        unsigned arg = served_count - 1;

        while (served_slot[arg] != slot)
                arg--;
        rn_withdraw(served[arg]);
        WAIT_UNTIL((on_loop(nodes.b.lp[slot % NODE_LOOPS], let_go, &arg), arg == UINT32_MAX));
        MUST(arg == UINT32_MAX);
}

/* The folder is closed and opened again: another incarnation. */
static void serve_anew(unsigned slot)
{
        serve_no_more(slot);
        serve(slot);
}

static void close_drives(void *arg)
{
        unsigned i;

        for (i = 0; i < served_count; i++) {
                struct eng_drive *drive = rem_served_drive(served[i]);

                drive->ops->close(drive);
                rem_served_free(served[i]);
        }
        served_count = 0;
}

static void open_remote(void)
{
        static const char *const paths[DRIVES] = {[FIRST] = "remote:2/1/1", [SECOND] = "remote:2/1/3"};

        sf.paths[FIRST] = paths[FIRST];
        sf.paths[SECOND] = paths[SECOND];
        sf.options.opener = rem_client_opener(nodes.client);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 60));
}

/* A loop of net/ that has given a call its end may be inside lp_post() yet. */
static void net_is_quiet(void)
{
        node_all_know(&nodes.a);
}

/* The store with local drives alone has the objects; then two drives move to the other node. */
static int start(void **state)
{
        fixture_certificates(state);
        so_begin_coded(&sf, DRIVES, 2, 3, &bucket, &expected); /* a PUT that loses both goes on */
        sf_close(&sf);
        rn_start(&nodes, 8);
        serve(FIRST);
        serve(SECOND);
        sf.closed = net_is_quiet;
        open_remote();
        return 0;
}

static int stop(void **state)
{
        struct eng_verify_report report;

        sf_close(&sf);
        rn_stop(&nodes, close_drives, NULL);
        sf.paths[FIRST] = sf.path[FIRST];
        sf.paths[SECOND] = sf.path[SECOND];
        sf.options.opener = NULL;
        sf.closed = NULL;
        MUST(sf_open(&sf, false) == 0);
        MUST(sf_wait_health(&sf, so_whole, NULL, 60));
        so_check(&sf, bucket, &expected);
        so_verify(&sf, &report);
        sf_close(&sf);
        sf_remove(&sf);
        return fixture_no_certificates(state);
}

static void whole(void)
{
        struct eng_verify_report report;

        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        so_check(&sf, bucket, &expected);
        so_verify(&sf, &report);
}

static void test_objects(void **state)
{
        struct eng_health health;
        unsigned round;

        so_check(&sf, bucket, &expected);
        for (round = 0; round < 4; round++)
                so_change(&sf, bucket, &expected, round, 4);
        whole();
        eng_health_read(sf.store, &health);
        assert_int_equal(health.drives[FIRST].state, ENG_DRIVE_IN);
        assert_string_equal(health.drives[FIRST].path, "remote:2/1/1");
        assert_true(health.drives[FIRST].total_bytes > 0); /* WATCH tells */
}

/* Both drives of the node are lost, and come back: they catch up without a restart. */
static void test_cut(void **state)
{
        uint64_t epoch = sf_view(&sf).epoch;
        unsigned round;

        rn_cut(&nodes, true);
        for (round = 0; round < 4; round++)
                so_change(&sf, bucket, &expected, round, 4);
        assert_true(sf_wait_health(&sf, one_is_out, NULL, 60));
        assert_true(sf_view(&sf).epoch > epoch);
        assert_true(sf_view(&sf).since[FIRST] > epoch && sf_view(&sf).since[SECOND] > epoch); /* before they are back */
        so_check(&sf, bucket, &expected);
        rn_cut(&nodes, false);
        whole();
        assert_int_equal(sf_view(&sf).in, eng_all_slots(DRIVES));
}

/* Short cuts, again and again, while clients work. */
static void test_flapping(void **state)
{
        unsigned round;

        for (round = 0; round < 8; round++) {
                rn_cut(&nodes, true);
                so_change(&sf, bucket, &expected, round % 4, 8);
                rn_cut(&nodes, false);
                so_change(&sf, bucket, &expected, round % 4 + 4, 8);
        }
        whole();
}

/* The drives of the node begin anew under the store, which takes them for others until they have caught up. */
static void test_restart(void **state)
{
        struct rem_stats stats;

        serve_anew(FIRST);
        so_change(&sf, bucket, &expected, 0, 2);
        serve_anew(SECOND);
        so_change(&sf, bucket, &expected, 1, 2);
        whole();
        rem_stats_read(nodes.client, &stats);
        assert_true(stats.refused > 0 && stats.begins >= 4);
        assert_int_equal(stats.lies, 0);
}

/* The store, the leader of a cluster, ends and begins again over drives that stay open. */
static void test_leader_restarts(void **state)
{
        so_change(&sf, bucket, &expected, 1, 3);
        sf_close(&sf);
        open_remote();
        so_check(&sf, bucket, &expected);
        so_change(&sf, bucket, &expected, 2, 3);
        whole();
}

/* A node that begins at the same time as the store, and opens its folder a little later. */
static int probe_early(const struct eng_drive_opener *opener, const char *path, enum eng_folder_state *state,
                       struct eng_identity *identity, struct eng_error *error)
{
        const struct eng_drive_opener *real = rem_client_opener(nodes.client);
        int rv = real->probe(real, path, state, identity, error);

        if (rv != 0 && strcmp(path, sf.paths[FIRST]) == 0 && ++early_looks == 5)
                serve(FIRST);
        return rv;
}

static int open_early(const struct eng_drive_opener *opener, const struct eng_local_options *options,
                      struct eng_drive **out, struct eng_error *error)
{
        const struct eng_drive_opener *real = rem_client_opener(nodes.client);

        return real->open(real, options, out, error);
}

static void test_start_before_the_drive(void **state)
{
        struct eng_drive_opener early = {
                .is_remote = rem_client_opener(nodes.client)->is_remote, .probe = probe_early, .open = open_early};

        sf_close(&sf);
        serve_no_more(FIRST);
        early_looks = 0;
        sf.options.opener = &early;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_int_equal(early_looks, 5);
        assert_true(sf_wait_ready(&sf, 60));
        whole();
        sf_close(&sf);
        open_remote();
}

/* It ends, starts and ends again while the node is away; the next start takes its drives in. */
static void test_start_without_the_node(void **state)
{
        rn_cut(&nodes, true);
        so_change(&sf, bucket, &expected, 0, 5);
        sf_close(&sf);
        sf.options.drive_wait_ms = 10000; /* a look at a drive that does not answer ends after five seconds */
        open_remote();
        so_check(&sf, bucket, &expected);
        so_change(&sf, bucket, &expected, 1, 5);
        sf_close(&sf);
        rn_cut(&nodes, false);
        open_remote();
        so_check(&sf, bucket, &expected);
        whole();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_objects),
                cmocka_unit_test(test_cut),
                cmocka_unit_test(test_flapping),
                cmocka_unit_test(test_restart),
                cmocka_unit_test(test_leader_restarts),
                cmocka_unit_test(test_start_before_the_drive),
                cmocka_unit_test(test_start_without_the_node),
        };

        cmocka_set_test_filter(getenv("ONLY")); /* NULL: all */
        return cmocka_run_group_tests(tests, start, stop);
}
