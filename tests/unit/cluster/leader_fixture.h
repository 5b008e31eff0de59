/*
 * leader_fixture.h - leaders of a pool on three nodes, in this process: drive servers of real drives over TCP,
 * stores over remote drives, and an etcd in memory. What ends a process in the product ends a store here.
 */
#ifndef MILLRACE_TEST_LEADER_FIXTURE_H
#define MILLRACE_TEST_LEADER_FIXTURE_H

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

static inline const char *key_of(unsigned i)
{
        static char key[16];

        snprintf(key, sizeof(key), "key%u", i);
        return key;
}

static inline size_t size_of(unsigned i)
{
        return i % 2 == 0 ? 100 : 300000;
}

/* ---- the pool -------------------------------------------------------------------------------- */

static inline void put_into_etcd(void)
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

static inline void serve(unsigned slot)
{
        struct server *s = &servers[sites[slot].node - 1];
        struct eng_local_options options = {.path = all_folders.path[slot], .log_file_bytes = 4 << 20, .segment_bytes = 16 << 20, .full_reserve_bytes = 1 << 20};
        enum eng_folder_state state;
        struct eng_error error;

        MUST(eng_folder_probe(options.path, &state, &options.identity, &error) == 0 && state == ENG_FOLDER_DRIVE);
        MUST(rem_served_new(s->server, POOL, slot, s->node.lp[slot % NODE_LOOPS], &s->served[slot]) == 0);
        MUST(rem_served_open(s->served[slot], &options, &error) == 0);
}

/* Pings that come are taken on so much later: what they grant is granted then. And questions of candidates, or all, to the last node. */
static atomic_uint slow_pings_ms, slow_states_ms, slow_node_ms;
static struct rem_server *_Atomic last_server; /* of the last node */

struct slow_request {
        struct lp_timer timer;
        struct rem_server *server;
        struct net_request *request;
};

static inline void slow_request_goes_on(struct lp_timer *timer)
{
        struct slow_request *slow = container_of(timer, struct slow_request, timer);

        rem_server_request(slow->server, slow->request);
        free(slow);
}

static inline void request_comes(void *arg, struct net_request *request)
{
        struct slow_request *slow = NULL;
        bool last = arg == atomic_load(&last_server);
        unsigned ms = last ? atomic_load(&slow_node_ms) : 0;

        if (ms == 0 && request->operation == REM_PING)
                ms = atomic_load(&slow_pings_ms);
        else if (ms == 0 && last && request->operation == REM_STATE)
                ms = atomic_load(&slow_states_ms);
        if (ms > 0)
                MUST((slow = calloc(1, sizeof(*slow))) != NULL);
        if (slow == NULL) {
                rem_server_request(arg, request);
                return;
        }
        *slow = (struct slow_request){.timer.expired = slow_request_goes_on, .server = arg, .request = request};
        lp_timer_start(lp_self(), &slow->timer, ms * 1000000ull);
}

static inline void start_server(unsigned i)
{
        struct server *s = &servers[i];
        static uint64_t boots;
        struct net_options options = node_options((uint16_t)(i + 1), ++boots);
        unsigned slot;

        memset(s, 0, sizeof(*s));
        MUST(rem_server_new(&s->server) == 0);
        if (i == NODES - 1)
                atomic_store(&last_server, s->server);
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

static inline void stop_server(unsigned i)
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

static inline int start(void **state)
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

static inline int stop(void **state)
{
        unsigned i;

        for (i = 0; i < NODES; i++)
                stop_server(i);
        me_free(&etcd);
        sf_remove(&all_folders);
        return fixture_no_certificates(state);
}

/* ---- a leader -------------------------------------------------------------------------------- */

static inline void claimed(struct cl_claim *claim)
{
        sem_post(&((struct leading *)claim->arg)->done);
}

static inline void begin_claim(void *arg)
{
        cl_claim_start(arg);
}

/* What the claim says. leader_revision: as election had seen it. */
static inline int claim(struct leading *l, uint16_t node, int64_t leader_revision)
{
        memset(l, 0, sizeof(*l));
        sem_init(&l->done, 0, 0);
        l->claim = (struct cl_claim){.etcd = &etcd.etcd, .cluster = CLUSTER, .pool = POOL, .node = node, .leader_revision = leader_revision, .done = claimed, .arg = l};
        on_loop(servers[0].node.lp[0], begin_claim, &l->claim);
        sem_wait_or_fail(&l->done);
        return l->claim.rv;
}

static inline int64_t leader_key(void)
{
        char key[CL_KEY_NAME_MAX];

        cl_key_name(CLUSTER, CL_KEY_LEADER, POOL, key);
        return me_revision(&etcd, key);
}

static inline void on_ended(void *arg, const char *why)
{
        struct leading *l = arg;

        if (atomic_fetch_add(&l->begins_to_end, 1) != 0)
                return;
        snprintf(l->why, sizeof(l->why), "%s", why);
        atomic_store(&l->ended, 1);
}

static inline void on_says(void *arg, const char *text)
{
        struct leading *l = arg;

        assert_non_null(strstr(text, "etcd's database is full"));
        atomic_fetch_add(&l->said, 1);
}

static inline void on_deposed(void *arg, const struct eng_term *by)
{
        on_ended(arg, "deposed");
}

/* The process is a party of net/ by what it has claimed. */
static inline void become_a_party(struct leading *l)
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

static inline void start_leader(void *arg)
{
        struct leading *l = arg;

        cl_leader_start(l->leader, l->sf.store);
}

/* The claim was won: the store is opened. */
static inline void lead(struct leading *l)
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

static inline void net_is_quiet(void)
{
        node_all_know(quiet_node);
}

static inline void has_stopped(void *arg)
{
        sem_post(&((struct leading *)arg)->done);
}

static inline void stop_leader(void *arg)
{
        struct leading *l = arg;

        cl_leader_stop(l->leader, has_stopped, l);
}

static inline void end_leading(struct leading *l)
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

static inline bool all_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == DRIVES && !h->healing;
}

static inline bool four_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == 4;
}

static inline bool answers(struct leading *l)
{
        return sf_get(&l->sf, 0, bucket, key_of(0), 0, size_of(0)) == 0;
}

static inline void check_objects(struct leading *l)
{
        unsigned i;

        for (i = 0; i < KEYS; i++)
                assert_int_equal(sf_get(&l->sf, i % 2, bucket, key_of(i), i, size_of(i)), 0);
}

static inline void change_objects(struct leading *l)
{
        unsigned i;

        for (i = 0; i < KEYS; i++)
                assert_int_equal(sf_put(&l->sf, i % 2, bucket, key_of(i), i, size_of(i), true, NULL), 0);
}

/* ---- tests ----------------------------------------------------------------------------------- */

#endif
