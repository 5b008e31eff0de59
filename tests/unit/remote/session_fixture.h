/*
 * session_fixture.h - a home store and its leader in one process, over TCP and TLS. Loops run on threads.
 */
#ifndef MILLRACE_TESTS_SESSION_FIXTURE_H
#define MILLRACE_TESTS_SESSION_FIXTURE_H

#include "engine/upkeep/upkeep.h"
#include "remote/home_wire.h"
#include "tests/lib/home_fixture.h"
#include "tests/lib/store_objects.h"
#include "tests/unit/net/net_fixture.h"

#define POOL  1u
#define SMALL 3000u
#define LARGE (3u << 20)

static struct sf leader;
static struct hf hf;
static struct node a, b; /* the home's process, and the leader's */
static struct net_peer *to_b;
static struct rem_home_server *server;
static struct rem_home_link *link_;
static struct rem_home_server_options server_options;
static atomic_uint watches, joins; /* that came in */
static void (*_Atomic at_each_watch)(void); /* called before the leader sees one, on a loop of the leader's node; NULL: nothing is */
static const _Atomic uint64_t *leader_lease; /* NULL: it always leads */
static _Atomic uint64_t told_switches, told_changing; /* by the home */
static uint64_t leader_memory; /* for calls; 0: as usual */
static int64_t (*leader_wall)(void); /* the clock of both stores; NULL: the machine's */
static uint64_t bucket;

static _Atomic(struct rem_home_asked *) held; /* a question that nobody has answered */
static atomic_bool hold;

/* Says what was asked, backwards; a question that begins with + gets as many bytes as it says. */
static inline void answer_it(void *arg, struct rem_home_asked *asked)
{
        size_t i, size = asked->len;

        if (atomic_load(&hold)) {
                atomic_store(&held, asked);
                return;
        }
        if (asked->bytes[0] == '+')
                memcpy(&size, asked->bytes + 1, sizeof(size));
        asked->answer = size == 0 ? NULL : calloc(1, size);
        for (i = 0; asked->bytes[0] != '+' && i < size; i++)
                asked->answer[i] = asked->bytes[size - 1 - i];
        asked->answer_len = size;
        rem_home_asked_answer(asked);
}

static inline void make_server(void *arg)
{
        MUST(rem_home_server_new(&server_options, &server) == 0);
}

static inline void stop_server(void *arg)
{
        rem_home_server_stop(server);
}

static inline void home_stopped(void)
{
        rem_home_link_stop(link_);
}

/* The loops of the net, and the leader's, which posted the last answers to the home's, have had a turn since. */
static inline void nothing(void *arg)
{
}

static inline void home_closed(void)
{
        unsigned i;

        for (i = 0; i < NODE_LOOPS; i++)
                hf_run(a.lp[i], nothing, NULL);
        for (i = 0; i < leader.loop_count; i++)
                hf_run(leader.loops[i], nothing, NULL);
}

/* Requests that have come, and that the leader has not seen yet. */
static struct {
        _Atomic int operation; /* they are kept while it is this; 0: none is */
        atomic_uint taken, count; /* places; those of them that have a request */
        struct net_request *request[8];
        struct lp_loop *at[8];
} unseen;

static inline bool keep_request(struct net_request *request)
{
        unsigned i;

        if (atomic_load(&unseen.operation) == 0 || (int)request->operation != atomic_load(&unseen.operation))
                return false;
        i = atomic_fetch_add(&unseen.taken, 1);
        MUST(i < 8);
        unseen.request[i] = request;
        unseen.at[i] = lp_self();
        atomic_fetch_add(&unseen.count, 1);
        return true;
}

static inline void give_unseen(void *arg)
{
        rem_home_server_request(server, arg);
}

/* They come to the leader. */
static inline void let_unseen_go(void)
{
        unsigned i, n = atomic_exchange(&unseen.count, 0);

        atomic_store(&unseen.operation, 0);
        atomic_store(&unseen.taken, 0);
        for (i = 0; i < n; i++)
                hf_run(unseen.at[i], give_unseen, unseen.request[i]);
}

/* On its way to the server. */
static inline void count_request(void *arg, struct net_request *request)
{
        void (*look)(void) = atomic_load(&at_each_watch);

        if (look != NULL && request->operation == HOME_WATCH)
                look();
        atomic_fetch_add(&watches, request->operation == HOME_WATCH);
        atomic_fetch_add(&joins, request->operation == HOME_JOIN);
        if (keep_request(request))
                return;
        rem_home_server_request(arg, request);
}

static inline void start_leader_node(uint64_t revision)
{
        struct net_options options = node_options(2, 6);

        server_options = (struct rem_home_server_options){.store = leader.store, .coordinator = leader.store->coord_loop->loop, .pool = POOL,
                                                          .term = {.generation = 1, .revision = revision, .node = 2, .boot = 6}, .ask = answer_it, .memory = leader_memory,
                                                          .lease_end = leader_lease};
        hf_run(server_options.coordinator, make_server, NULL);
        options.handler = (struct net_handler){.bulk = rem_home_server_bulk, .request = count_request, .lost = rem_home_server_lost};
        options.handler_arg = server;
        node_start(&b, &options);
}

static inline void leader_has_answered(void)
{
        unsigned i;

        for (i = 0; i < leader.loop_count; i++)
                hf_run(leader.loops[i], nothing, NULL);
}

static inline void stop_leader_node(void)
{
        hf_run(server_options.coordinator, stop_server, NULL);
        fixture_net_stopped = leader_has_answered;
        node_stop(&b);
        fixture_net_stopped = NULL;
}

static inline bool follows(void)
{
        struct eng_view view = sf_view(&hf.home);

        return view.ready && (view.in & ~view.up) == 0 && eng_is_current(hf.home.store);
}

static inline void read_switches(void *arg, uint64_t *generation, uint64_t *changing)
{
        *generation = atomic_load(&told_switches);
        *changing = atomic_load(&told_changing);
}

static inline int begin(void **state)
{
        struct rem_home_link_options options = {.pool = POOL, .loop_count = 2};
        struct net_options net = node_options(REM_HOME_FIRST + 1, 5);
        const struct eng_drive_opener *opener;

        sf_make(&leader, 5, 2);
        leader.options.inline_max = 16u << 10;
        leader.options.ec_k = leader.options.ec_m = 2;
        leader.options.wall_ms = leader_wall;
        MUST(sf_open(&leader, true) == 0);
        MUST(sf_wait_ready(&leader, 20));
        MUST(sf_bucket(&leader, "bucket", &bucket) == 0);
        start_leader_node(10);
        node_start(&a, &net);
        to_b = node_meets(&a, &b);
        node_meets(&b, &a);
        opener = hf_drives(&hf, &leader);
        options.net = a.net;
        memcpy(options.store_id, leader.store->store_id, sizeof(options.store_id));
        MUST(rem_home_link_new(&options, &link_) == 0);
        hf.home.loop_count = 2;
        hf.home.stopped = home_stopped;
        hf.home.closed = home_closed;
        hf.home.options = (struct eng_options){.leader = rem_home_link_engine(link_), .opener = opener, .site.node = 1, .maker = REM_HOME_FIRST + 1, .boot = 5, .wall_ms = leader_wall, .inline_max = 16u << 10};
        MUST(sf_open(&hf.home, false) == 0);
        rem_home_link_leader(link_, 2);
        rem_home_link_switches(link_, &(struct rem_home_switches){.read = read_switches});
        rem_home_link_start(link_, hf.home.store);
        WAIT_UNTIL(follows());
        MUST(follows());
        return 0;
}

static inline int end(void **state)
{
        hf_close(&hf);
        node_stop(&a);
        rem_home_link_free(link_);
        stop_leader_node();
        sf_close(&leader);
        rem_home_server_free(server);
        sf_remove(&leader);
        return 0;
}

/* The connection of the home to its leader. */
static inline void lose_it(void)
{
        MUST(net_peer_remove(to_b) == 0);
        node_all_know(&a);
}

static inline void meet_again(void)
{
        to_b = node_meets(&a, &b);
        WAIT_UNTIL(follows());
        MUST(follows());
}

/* ---- orphan collections ---------------------------------------------------------------------- */

static inline uint64_t collect(struct eng_store *store, uint64_t arg)
{
        eng_orphans_consider(store);
        return store->coord->orphans != NULL;
}

static inline uint64_t collects(struct eng_store *store, uint64_t arg)
{
        return store->coord->orphans != NULL;
}

struct ids {
        struct eng_op op;
        sem_t read;
        unsigned slot, of_homes;
};

static inline void ids_came(struct eng_op *op)
{
        struct ids *ids = container_of(op, struct ids, op);
        struct eng_made made;
        unsigned i;

        for (i = 0; op->result == 0 && i < op->ids.count; i++) {
                eng_id_made(((const struct eng_held_id *)op->ids.ids->data)[i].id, &made);
                ids->of_homes += made.node >= REM_HOME_FIRST;
        }
        if (op->result == 0)
                eng_buf_unref(op->ids.ids);
        sem_post(&ids->read);
}

static inline void ask_ids(void *arg)
{
        struct ids *ids = arg;

        ids->op = (struct eng_op){.kind = ENG_OP_IDS, .epoch = UINT32_MAX, .done = ids_came, .ids.max = ENG_IDS_MAX};
        eng_drive_submit(leader.store->members[ids->slot].drive, &ids->op);
}

/* What drives tell a collection of uploads of homes: what they have only just written they tell later. */
static inline unsigned ids_of_homes(void)
{
        struct ids ids = {.slot = 0};

        sem_init(&ids.read, 0, 0);
        for (; ids.slot < leader.drives; ids.slot++) {
                hf_run(leader.loops[0], ask_ids, &ids);
                while (sem_wait(&ids.read) != 0)
                        ;
        }
        sem_destroy(&ids.read);
        return ids.of_homes;
}

static inline void collect_all(void)
{
        WAIT_UNTIL(sf_ask(&leader, collects, 0) == 0);
        assert_int_equal(sf_ask(&leader, collect, 0), 1);
        WAIT_UNTIL(sf_ask(&leader, collects, 0) == 0);
        assert_int_equal(sf_ask(&leader, collects, 0), 0);
}

#endif
