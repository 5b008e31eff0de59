/*
 * test_leader.c - leaders of a pool on three nodes, in this process: drive servers of real drives over TCP,
 * stores over remote drives, and an etcd in memory. What ends a process in the product ends a store here.
 */
#include "tests/unit/net/net_fixture.h"

#include "cluster/election.h"
#include "cluster_leader.h"
#include "engine/base/store.h"
#include "engine/drive/drive.h"
#include "engine/drive/index.h"
#include "remote/remote_wire.h"
#include "tests/lib/memory_etcd.h"
#include "tests/lib/store_fixture.h"

#define NODES   3u
#define DRIVES  6u
#define POOL    1u
#define TERM_MS 4000u /* for a machine that does much else */
#define KEYS    20u
#define CLUSTER "c1"

static const struct eng_site sites[DRIVES] = {{1, 1}, {1, 1}, {2, 2}, {2, 2}, {3, 3}, {3, 3}};

/* A node process: its drive server. */
static struct server {
        struct node node;
        struct rem_server *server;
        struct rem_served *served[DRIVES];
        bool runs;
} servers[NODES];

/* A leader process. */
struct leading {
        struct node node;
        struct rem_client *client;
        struct cl_claim claim;
        struct cl_leader *leader;
        struct sf sf; /* over the pool's folders, which are all_folders' */
        uint64_t silent;
        atomic_uint begins_to_end, ended, said; /* ended: why is there */
        char why[300];
        sem_t done;
};

static struct sf all_folders;
static struct memory_etcd etcd;
static struct cl_config first_config; /* that etcd had first */
static uint64_t bucket;

static const char *key_of(unsigned i)
{
        static char key[16];

        snprintf(key, sizeof(key), "key%u", i);
        return key;
}

static size_t size_of(unsigned i)
{
        return i % 2 == 0 ? 100 : 300000;
}

/* ---- the pool -------------------------------------------------------------------------------- */

static void put_into_etcd(void)
{
        struct cl_format format = {.generation = 1, .random = 5};
        struct cl_config *config = &first_config;
        char key[CL_KEY_NAME_MAX], value[CL_JSON_MAX];
        struct eng_index *index = sf_index(&all_folders, 0);
        struct eng_index_txn *txn;

        MUST(eng_index_reader_new(index, &txn) == 0);
        MUST(eng_index_read_begin(txn) == 0);
        MUST(eng_index_meta_get(txn, ENG_INDEX_EPOCH, config->epoch, sizeof(config->epoch), &config->epoch_len) == 0);
        eng_index_reader_free(txn);
        eng_index_close(index);
        config->number = ((struct fmt_epoch *)config->epoch)->number;
        me_init(&etcd);
        cl_key_name(CLUSTER, CL_KEY_FORMAT, 0, key);
        me_put(&etcd, key, value, cl_format_write(&format, value));
        cl_key_name(CLUSTER, CL_KEY_CONFIG, POOL, key);
        me_put(&etcd, key, value, cl_config_write(config, value));
}

static void serve(unsigned slot)
{
        struct server *s = &servers[sites[slot].node - 1];
        struct eng_local_options options = {.path = all_folders.path[slot], .log_file_bytes = 4 << 20, .segment_bytes = 16 << 20, .full_reserve_bytes = 1 << 20};
        enum eng_folder_state state;
        struct eng_error error;

        MUST(eng_folder_probe(options.path, &state, &options.identity, &error) == 0 && state == ENG_FOLDER_DRIVE);
        MUST(rem_served_new(s->server, POOL, slot, s->node.lp[slot % NODE_LOOPS], &s->served[slot]) == 0);
        MUST(rem_served_open(s->served[slot], &options, &error) == 0);
}

/* Pings that come are taken on so much later: what they grant is granted then. */
static atomic_uint slow_pings_ms;

struct slow_ping {
        struct lp_timer timer;
        struct rem_server *server;
        struct net_request *request;
};

static void slow_ping_goes_on(struct lp_timer *timer)
{
        struct slow_ping *slow = container_of(timer, struct slow_ping, timer);

        rem_server_request(slow->server, slow->request);
        free(slow);
}

static void request_comes(void *arg, struct net_request *request)
{
        struct slow_ping *slow = NULL;
        unsigned ms = atomic_load(&slow_pings_ms);

        if (ms > 0 && request->operation == REM_PING)
                MUST((slow = calloc(1, sizeof(*slow))) != NULL);
        if (slow == NULL) {
                rem_server_request(arg, request);
                return;
        }
        *slow = (struct slow_ping){.timer.expired = slow_ping_goes_on, .server = arg, .request = request};
        lp_timer_start(lp_self(), &slow->timer, ms * 1000000ull);
}

static void start_server(unsigned i)
{
        struct server *s = &servers[i];
        static uint64_t boots;
        struct net_options options = node_options((uint16_t)(i + 1), ++boots);
        unsigned slot;

        memset(s, 0, sizeof(*s));
        MUST(rem_server_new(&s->server) == 0);
        rem_server_set(s->server, &(struct rem_server_options){.term_ms = TERM_MS});
        options.handler = (struct net_handler){.bulk = rem_server_bulk, .request = request_comes, .lost = rem_server_lost};
        options.handler_arg = s->server;
        fixture_peer_slots = 8;
        node_start(&s->node, &options);
        fixture_peer_slots = 0;
        for (slot = 0; slot < DRIVES; slot++)
                if (sites[slot].node == i + 1)
                        serve(slot);
        s->runs = true;
}

static void stop_server(unsigned i)
{
        struct server *s = &servers[i];
        unsigned slot, k;

        s->runs = false;
        rem_server_stop(s->server);
        net_stop(s->node.net, node_has_stopped, &s->node);
        sem_wait_or_fail(&s->node.stopped);
        for (k = 0; k < NODE_LOOPS; k++)
                lp_loop_stop(s->node.loops[k].lp);
        for (k = 0; k < NODE_LOOPS; k++)
                pthread_join(s->node.loops[k].thread, NULL);
        net_free(s->node.net);
        for (slot = 0; slot < DRIVES; slot++) {
                if (s->served[slot] == NULL)
                        continue;
                rem_served_drive(s->served[slot])->ops->close(rem_served_drive(s->served[slot]));
                rem_served_free(s->served[slot]);
        }
        rem_server_free(s->server);
        for (k = 0; k < NODE_LOOPS; k++)
                lp_loop_free(s->node.loops[k].lp);
        net_tcp_free(s->node.transport);
        sem_destroy(&s->node.listening);
        sem_destroy(&s->node.stopped);
        pthread_mutex_destroy(&s->node.lock);
}

static int start(void **state)
{
        unsigned i;

        fixture_certificates(state);
        sf_make(&all_folders, DRIVES, 2);
        all_folders.options.sites = sites;
        all_folders.options.ec_k = 2;
        all_folders.options.ec_m = 2;
        MUST(sf_open(&all_folders, true) == 0);
        MUST(sf_wait_ready(&all_folders, 20));
        MUST(sf_bucket(&all_folders, "bucket", &bucket) == 0);
        for (i = 0; i < KEYS; i++)
                MUST(sf_put(&all_folders, 0, bucket, key_of(i), i, size_of(i), true, NULL) == 0);
        sf_close(&all_folders);
        put_into_etcd();
        for (i = 0; i < NODES; i++)
                start_server(i);
        return 0;
}

static int stop(void **state)
{
        unsigned i;

        for (i = 0; i < NODES; i++)
                stop_server(i);
        me_free(&etcd);
        sf_remove(&all_folders);
        return fixture_no_certificates(state);
}

/* ---- a leader -------------------------------------------------------------------------------- */

static void claimed(struct cl_claim *claim)
{
        sem_post(&((struct leading *)claim->arg)->done);
}

static void begin_claim(void *arg)
{
        cl_claim_start(arg);
}

/* What the claim says. leader_revision: as election had seen it. */
static int claim(struct leading *l, uint16_t node, int64_t leader_revision)
{
        memset(l, 0, sizeof(*l));
        sem_init(&l->done, 0, 0);
        l->claim = (struct cl_claim){.etcd = &etcd.etcd, .cluster = CLUSTER, .pool = POOL, .node = node, .leader_revision = leader_revision, .done = claimed, .arg = l};
        on_loop(servers[0].node.lp[0], begin_claim, &l->claim);
        sem_wait_or_fail(&l->done);
        return l->claim.rv;
}

static int64_t leader_key(void)
{
        char key[CL_KEY_NAME_MAX];

        cl_key_name(CLUSTER, CL_KEY_LEADER, POOL, key);
        return me_revision(&etcd, key);
}

static void on_ended(void *arg, const char *why)
{
        struct leading *l = arg;

        if (atomic_fetch_add(&l->begins_to_end, 1) != 0)
                return;
        snprintf(l->why, sizeof(l->why), "%s", why);
        atomic_store(&l->ended, 1);
}

static void on_says(void *arg, const char *text)
{
        struct leading *l = arg;

        assert_non_null(strstr(text, "etcd's database is full"));
        atomic_fetch_add(&l->said, 1);
}

static void on_deposed(void *arg, const struct eng_term *by)
{
        on_ended(arg, "deposed");
}

/* The process is a party of net/ by what it has claimed. */
static void become_a_party(struct leading *l)
{
        uint16_t party = l->claim.term.node;
        struct net_options options = node_options(party, l->claim.term.boot);
        unsigned i;

        assert_int_equal(party, cl_party(l->claim.node, POOL));
        node_start_with(&l->node, &options, fixture_transport("ca", "node-4"));
        for (i = 0; i < NODES; i++) {
                if (!servers[i].runs)
                        continue;
                node_meets(&l->node, &servers[i].node);
                node_knows(&servers[i].node, party, "node-4", l->node.address);
        }
}

static void start_leader(void *arg)
{
        struct leading *l = arg;

        cl_leader_start(l->leader, l->sf.store);
}

/* The claim was won: the store is opened. */
static void lead(struct leading *l)
{
        struct rem_client_options client = {.term = l->claim.term, .deposed = on_deposed, .deposed_arg = l, .wait_ms = 2000};
        struct cl_leader_options options = {.etcd = &etcd.etcd, .cluster = CLUSTER, .pool = POOL, .claim = &l->claim, .term_ms = TERM_MS, .ended = on_ended, .says = on_says, .silent = l->silent, .arg = l};

        become_a_party(l);
        client.net = l->node.net;
        client.loop = l->node.lp[0];
        memcpy(client.cluster, "a test cluster", 15);
        MUST(rem_client_new(&client, &l->client) == 0);
        options.client = l->client;
        MUST(cl_leader_new(&options, &l->leader) == 0);
        l->sf = all_folders;
        l->sf.options.sites = NULL;
        l->sf.options.cluster = cl_leader_cluster(l->leader);
        l->sf.options.opener = rem_client_opener(l->client);
        l->sf.options.site = (struct eng_site){l->claim.node, l->claim.node};
        l->sf.options.boot = (uint32_t)l->claim.term.boot;
        l->sf.options.drive_wait_ms = TERM_MS * 5 / 4 + 1000;
        MUST(sf_open(&l->sf, false) == 0);
        on_loop(l->sf.loops[0], start_leader, l);
}

static struct node *quiet_node;

static void net_is_quiet(void)
{
        node_all_know(quiet_node);
}

static void has_stopped(void *arg)
{
        sem_post(&((struct leading *)arg)->done);
}

static void stop_leader(void *arg)
{
        struct leading *l = arg;

        cl_leader_stop(l->leader, has_stopped, l);
}

static void end_leading(struct leading *l)
{
        if (l->leader != NULL) {
                on_loop(l->sf.loops[0], stop_leader, l);
                sem_wait_or_fail(&l->done);
                quiet_node = &l->node;
                l->sf.closed = net_is_quiet;
                sf_close(&l->sf);
        }
        if (l->leader != NULL)
                node_stop(&l->node);
        rem_client_free(l->client);
        cl_leader_free(l->leader);
        sem_destroy(&l->done);
}

static bool all_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == DRIVES && !h->healing;
}

static bool four_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == 4;
}

static bool answers(struct leading *l)
{
        return sf_get(&l->sf, 0, bucket, key_of(0), 0, size_of(0)) == 0;
}

static void check_objects(struct leading *l)
{
        unsigned i;

        for (i = 0; i < KEYS; i++)
                assert_int_equal(sf_get(&l->sf, i % 2, bucket, key_of(i), i, size_of(i)), 0);
}

static void change_objects(struct leading *l)
{
        unsigned i;

        for (i = 0; i < KEYS; i++)
                assert_int_equal(sf_put(&l->sf, i % 2, bucket, key_of(i), i, size_of(i), true, NULL), 0);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_one(void **state)
{
        static struct leading a;

        assert_int_equal(claim(&a, 1, leader_key()), 0);
        lead(&a);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 60));
        WAIT_UNTIL(answers(&a));
        check_objects(&a);
        change_objects(&a);
        check_objects(&a);
        assert_int_equal(a.ended, 0);
        end_leading(&a);
}

/* While one leads another takes the key: it waits for the grants, the first one is told, and both never answer at a time. */
static void test_another(void **state)
{
        static struct leading a, b;
        int64_t seen = leader_key();

        assert_int_equal(claim(&a, 1, seen), 0);
        assert_int_equal(claim(&b, 2, seen), -EEXIST); /* it was judged by a key that has changed */
        sem_destroy(&b.done);
        lead(&a);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 60));
        WAIT_UNTIL(answers(&a));
        change_objects(&a);
        assert_int_equal(claim(&b, 2, leader_key()), 0);
        lead(&b);
        WAIT_UNTIL(a.ended > 0);
        assert_false(eng_is_current(a.sf.store));
        assert_int_equal(sf_get(&a.sf, 0, bucket, key_of(0), 0, size_of(0)), -EHOSTDOWN);
        assert_true(sf_wait_health(&b.sf, all_in, NULL, 60));
        WAIT_UNTIL(answers(&b));
        check_objects(&b);
        change_objects(&b);
        assert_false(eng_is_current(a.sf.store));
        end_leading(&a);
        check_objects(&b);
        assert_int_equal(b.ended, 0);
        end_leading(&b);
}

/* A node ends: nobody writes or reads, and it is noticed by pings alone. It comes back, and is a member again. */
static void test_a_node_ends(void **state)
{
        static struct leading a;

        assert_int_equal(claim(&a, 3, leader_key()), 0);
        lead(&a);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 60));
        stop_server(1);
        assert_true(sf_wait_health(&a.sf, four_in, NULL, 60));
        WAIT_UNTIL(answers(&a));
        check_objects(&a);
        change_objects(&a);
        assert_int_equal(a.ended, 0);
        start_server(1);
        node_knows(&servers[1].node, a.claim.term.node, "node-4", a.node.address);
        node_meets(&a.node, &servers[1].node);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 120));
        WAIT_UNTIL(answers(&a));
        check_objects(&a);
        assert_int_equal(a.ended, 0);
        end_leading(&a);
}

/* etcd's answer is lost: the epoch is found out to be decided. etcd is silent: nothing ends, and one that is needed waits. */
static void test_etcd(void **state)
{
        static struct leading a;
        unsigned changes;

        assert_int_equal(claim(&a, 1, leader_key()), 0);
        etcd.lose_answers = 1;
        lead(&a);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 60));
        assert_int_equal(etcd.lose_answers, 0);
        WAIT_UNTIL(answers(&a));
        changes = etcd.changes;
        me_set_silent(&etcd, true);
        usleep(TERM_MS * 3 * 1000);
        assert_true(answers(&a));
        change_objects(&a);
        stop_server(2);
        usleep(TERM_MS * 1000);
        assert_int_equal(etcd.changes, changes);
        assert_int_equal(a.ended, 0);
        me_set_silent(&etcd, false);
        assert_true(sf_wait_health(&a.sf, four_in, NULL, 60));
        WAIT_UNTIL(answers(&a));
        check_objects(&a);
        start_server(2);
        node_knows(&servers[2].node, a.claim.term.node, "node-4", a.node.address);
        node_meets(&a.node, &servers[2].node);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 120));
        assert_int_equal(a.ended, 0);
        end_leading(&a);
}

/*
 * etcd has no room. Nobody takes the key, and is told why; whoever leads says it once, and goes on where nothing has to change.
 * Where a node has to leave it gives up, and the words are etcd's.
 */
static void test_no_room(void **state)
{
        static struct leading a, b;

        assert_int_equal(claim(&a, 1, leader_key()), 0);
        lead(&a);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 60));
        WAIT_UNTIL(answers(&a));
        me_set_full(&etcd, true);
        assert_int_equal(claim(&b, 2, leader_key()), -ENOSPC);
        assert_non_null(strstr(b.claim.text, "etcd's database is full"));
        sem_destroy(&b.done);
        change_objects(&a);
        assert_int_equal(a.said, 0);
        stop_server(2);
        WAIT_UNTIL(a.said == 1);
        WAIT_UNTIL(a.ended > 0);
        assert_int_equal(a.said, 1);
        assert_non_null(strstr(a.why, "etcd's database is full"));
        me_set_full(&etcd, false);
        end_leading(&a);
        assert_int_equal(claim(&b, 2, leader_key()), 0);
        lead(&b);
        assert_true(sf_wait_health(&b.sf, four_in, NULL, 60));
        check_objects(&b);
        start_server(2);
        node_knows(&servers[2].node, b.claim.term.node, "node-4", b.node.address);
        node_meets(&b.node, &servers[2].node);
        assert_true(sf_wait_health(&b.sf, all_in, NULL, 120));
        end_leading(&b);
}

/* A node that was silent before is waited for as long as a ping takes. */
static void test_silent_before(void **state)
{
        static struct leading a;
        uint64_t began;

        stop_server(2);
        usleep(TERM_MS * 5 / 4 * 1000); /* nobody has a grant any more */
        assert_int_equal(claim(&a, 1, leader_key()), 0);
        a.silent = 1ull << 4 | 1ull << 5;
        lead(&a);
        began = lp_clock();
        assert_true(sf_wait_health(&a.sf, four_in, NULL, 60));
        assert_true(lp_clock() - began < (TERM_MS / CL_PINGS * 2 - 100) * 1000000ull);
        WAIT_UNTIL(answers(&a));
        check_objects(&a);
        start_server(2);
        node_knows(&servers[2].node, a.claim.term.node, "node-4", a.node.address);
        node_meets(&a.node, &servers[2].node);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 120));
        assert_int_equal(a.ended, 0);
        end_leading(&a);
}

/*
 * A lease counts from when a ping was sent. Pings that are on their way for long leave so much less of it at any time; by
 * when they were answered it would be longer than what the drive servers have granted.
 */
static void test_a_lease_counts_from_the_ping(void **state)
{
        enum { SLOW_MS = 300, TIMES = 2000 };
        static struct leading a;
        const struct eng_cluster *cluster;
        uint64_t end, now, longest = 0;
        unsigned i, ends = 0;

        assert_int_equal(claim(&a, 1, leader_key()), 0);
        lead(&a);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 60));
        WAIT_UNTIL(answers(&a));
        cluster = cl_leader_cluster(a.leader);
        atomic_store(&slow_pings_ms, SLOW_MS);
        usleep(TERM_MS / CL_PINGS * 2 * 1000); /* those that were not slow have been answered */
        for (i = 0; i < TIMES; i++) {
                uint64_t before = end = atomic_load(cluster->lease_end);

                now = lp_boot_clock();
                if (end > now && end - now > longest)
                        longest = end - now;
                usleep(2000);
                ends += atomic_load(cluster->lease_end) != before;
        }
        atomic_store(&slow_pings_ms, 0);
        assert_in_range(ends, 1, TIMES); /* it was renewed by slow pings */
        assert_in_range(longest, 1, (TERM_MS - SLOW_MS + 20) * 1000000ull);
        assert_int_equal(a.ended, 0);
        end_leading(&a);
}

static atomic_uint released;

static void on_released(void *arg)
{
        atomic_fetch_add(&released, 1);
}

static void release(void *arg)
{
        cl_leader_release(((struct leading *)arg)->leader, on_released, NULL);
}

/* A planned end: the next leader need not wait for grants. */
static void test_hand_over(void **state)
{
        static struct leading a, b;

        assert_int_equal(claim(&a, 1, leader_key()), 0);
        lead(&a);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 60));
        WAIT_UNTIL(answers(&a));
        change_objects(&a);
        on_loop(a.sf.loops[0], release, &a);
        WAIT_UNTIL(released == 1);
        assert_int_equal(sf_get(&a.sf, 0, bucket, key_of(0), 0, size_of(0)), -EHOSTDOWN);
        end_leading(&a);
        assert_int_equal(claim(&b, 2, leader_key()), 0);
        lead(&b);
        assert_true(sf_wait_health(&b.sf, all_in, NULL, 60));
        WAIT_UNTIL(answers(&b));
        check_objects(&b);
        end_leading(&b);
}

/* ---- who tries ------------------------------------------------------------------------------- */

static struct {
        struct cl_elector *elector;
        struct cl_view view;
        sem_t judged, stopped;
        uint64_t silent;
        atomic_uint tries;
} elected;

#define HURRIES_AFTER_NS (CL_SILENCE_NS / 2)

static void on_lead(void *arg, int64_t leader_revision, bool whole_stop, uint64_t silent)
{
        elected.silent = silent;
        atomic_fetch_add(&elected.tries, 1);
        sem_post(&elected.judged);
}

static void on_waits(void *arg, const char *why)
{
        sem_post(&elected.judged);
}

static atomic_uint hurries;

static void on_hurry(void *arg)
{
        atomic_fetch_add(&hurries, 1);
}

static void look(void *arg)
{
        cl_elector_look(elected.elector, &elected.view);
}

static void has_no_questions(void *arg)
{
        sem_post(&elected.stopped);
}

static void stop_elector(void *arg)
{
        cl_elector_stop(elected.elector, has_no_questions, NULL);
}

/* A round of questions; ms that it took. */
static uint64_t ask_round(void)
{
        uint64_t began = lp_clock();

        on_loop(servers[0].node.lp[0], look, NULL);
        sem_wait_or_fail(&elected.judged);
        return (lp_clock() - began) / 1000000;
}

static void begin_electing(struct rem_client **client)
{
        struct rem_client_options of = {.net = servers[0].node.net, .loop = servers[0].node.lp[0], .wait_ms = 2000};
        struct cl_elector_options options = {.node = 1, .server = servers[0].server, .lead = on_lead, .waits = on_waits, .hurry = on_hurry};

        memset(&elected, 0, sizeof(elected));
        sem_init(&elected.judged, 0, 0);
        sem_init(&elected.stopped, 0, 0);
        MUST(rem_client_new(&of, client) == 0);
        options.client = *client;
        MUST(cl_elector_new(&options, &elected.elector) == 0);
        elected.view = (struct cl_view){.has_pool = true, .config = first_config}; /* nobody leads: each round ends with a word */
        MUST(eng_epoch_read(first_config.epoch, first_config.epoch_len, &elected.view.epoch) == 0);
}

static void end_electing(struct rem_client *client)
{
        on_loop(servers[0].node.lp[0], stop_elector, NULL);
        sem_wait_or_fail(&elected.stopped);
        cl_elector_free(elected.elector);
        rem_client_free(client);
        sem_destroy(&elected.judged);
        sem_destroy(&elected.stopped);
}

static void they_meet(unsigned other)
{
        node_meets(&servers[0].node, &servers[other].node);
        node_meets(&servers[other].node, &servers[0].node);
}

/* Rounds wait for a node that does not answer once, and a second later its slots are said to be silent; until it answers again. */
static void test_rounds(void **state)
{
        struct rem_client *client;
        uint64_t until;
        unsigned i;

        they_meet(1);
        they_meet(2);
        begin_electing(&client);
        ask_round();
        assert_int_equal(elected.silent, 0);
        stop_server(2);
        usleep(300000);
        ask_round();
        assert_int_equal(elected.silent, 0); /* for a moment only, yet */
        until = lp_clock() + 20000000000ull;
        while (elected.silent == 0 && lp_clock() < until) {
                uint64_t least = 1000;

                for (i = 0; i < 5; i++) {
                        uint64_t took = ask_round();

                        least = took < least ? took : least;
                }
                assert_true(least < 250); /* a question has 500 ms */
                usleep(100000);
        }
        assert_int_equal(elected.silent, 1u << 4 | 1u << 5);
        start_server(2);
        they_meet(2);
        for (until = lp_clock() + 20000000000ull; elected.silent != 0 && lp_clock() < until; usleep(50000))
                ask_round();
        assert_int_equal(elected.silent, 0);
        end_electing(client);
}

static uint64_t heard_ns(void)
{
        struct rem_pool_state state = {0};

        rem_server_pool_state(servers[0].server, POOL, &state);
        return state.heard_ns;
}

/*
 * A leader that is heard of is left alone. One that falls silent is looked at more often before its time is over, and then
 * there is somebody who tries.
 */
static void test_hurry(void **state)
{
        static struct leading a;
        struct rem_client *client;
        uint64_t until;

        they_meet(1);
        they_meet(2);
        assert_int_equal(claim(&a, 1, leader_key()), 0);
        lead(&a);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 60));
        begin_electing(&client);
        elected.view.is_led = true;
        atomic_store(&hurries, 0);
        elected.tries = 0;
        on_loop(servers[0].node.lp[0], look, NULL);
        usleep(600000);
        if (heard_ns() < CL_SILENCE_NS / 4) { /* the machine was not away */
                assert_int_equal(atomic_load(&hurries), 0);
                assert_int_equal(elected.tries, 0);
        }
        end_leading(&a); /* without handing over */
        for (until = lp_clock() + 20000000000ull; elected.tries == 0 && lp_clock() < until; usleep(50000)) {
                unsigned before = atomic_load(&hurries);

                on_loop(servers[0].node.lp[0], look, NULL);
                if (atomic_load(&hurries) > before)
                        assert_true(heard_ns() >= HURRIES_AFTER_NS);
        }
        assert_int_equal(elected.tries, 1);
        assert_true(heard_ns() >= CL_SILENCE_NS);
        assert_true(atomic_load(&hurries) > 0);
        end_electing(client);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one),  cmocka_unit_test(test_another),   cmocka_unit_test(test_a_node_ends),
                cmocka_unit_test(test_etcd), cmocka_unit_test(test_no_room),   cmocka_unit_test(test_silent_before), cmocka_unit_test(test_hand_over),
                cmocka_unit_test(test_a_lease_counts_from_the_ping),
                cmocka_unit_test(test_rounds), cmocka_unit_test(test_hurry),
        };

        return cmocka_run_group_tests(tests, start, stop);
}
