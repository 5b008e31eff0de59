/*
 * What a node does with etcd: reads what there is, enters itself, makes a cluster; and its files. An etcd in memory,
 * and one loop on a thread.
 */
#include "tests/unit/cluster/etcd_fixture.h"

#include "cluster_node.h"
#include "tests/lib/memory_etcd.h"

static struct memory_etcd etcd;

/* ---- on the loop ----------------------------------------------------------------------------- */

struct on_node_loop {
        struct lp_msg msg;
        void (*func)(void *arg);
        void *arg;
        sem_t done;
};

static void run_on_loop(struct lp_msg *msg)
{
        struct on_node_loop *on = container_of(msg, struct on_node_loop, msg);

        on->func(on->arg);
        sem_post(&on->done);
}

static void call_on_loop(void (*func)(void *arg), void *arg)
{
        struct on_node_loop on = {.msg.run = run_on_loop, .func = func, .arg = arg};

        sem_init(&on.done, 0, 0);
        lp_post(the_loop, &on.msg);
        wait_for(&on.done);
        sem_destroy(&on.done);
}

static int start(void **state)
{
        const struct lp_config config = {.ring_entries = 8};

        MUST(lp_loop_new(&config, &the_loop) == 0);
        MUST(pthread_create(&loop_thread, NULL, loop_thread_main, NULL) == 0);
        return 0;
}

static int stop(void **state)
{
        lp_loop_stop(the_loop);
        pthread_join(loop_thread, NULL);
        lp_loop_free(the_loop);
        return 0;
}

static int fresh(void **state)
{
        me_init(&etcd);
        return 0;
}

static int stale(void **state)
{
        me_free(&etcd);
        return 0;
}

/* ---- the view -------------------------------------------------------------------------------- */

static struct {
        sem_t came;
        struct cl_view view; /* the newest */
        int error;
        char text[CL_TEXT_MAX];
        pthread_mutex_t lock;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void looked(void *arg, const struct cl_view *view, int error, const char *text)
{
        pthread_mutex_lock(&seen.lock);
        cl_view_free(&seen.view);
        if (view != NULL)
                MUST(cl_view_copy(&seen.view, view) == 0);
        seen.error = error;
        snprintf(seen.text, sizeof(seen.text), "%s", text);
        pthread_mutex_unlock(&seen.lock);
        sem_post(&seen.came);
}

static void start_directory(void *arg)
{
        cl_directory_start(arg);
}

static void hurry_directory(void *arg)
{
        cl_directory_hurry(arg);
}

static void directory_ended(void *arg)
{
        sem_post(arg);
}

static sem_t ended;

static void stop_directory(void *arg)
{
        cl_directory_stop(arg, directory_ended, &ended);
}

static bool unjudged;

/* What there is now. */
static struct cl_view *view_now(void)
{
        struct cl_directory_options options = {.etcd = &etcd.etcd, .cluster = "c1", .unjudged = unjudged, .looked = looked};
        struct cl_directory *directory;

        sem_init(&seen.came, 0, 0);
        sem_init(&ended, 0, 0);
        MUST(cl_directory_new(&options, &directory) == 0);
        call_on_loop(start_directory, directory);
        wait_for(&seen.came);
        call_on_loop(hurry_directory, directory);
        wait_for(&seen.came);
        call_on_loop(stop_directory, directory);
        wait_for(&ended);
        cl_directory_free(directory);
        return &seen.view;
}

static void put_key(enum cl_key_kind kind, unsigned number, const char *text)
{
        char key[CL_KEY_NAME_MAX];

        cl_key_name("c1", kind, number, key);
        me_put(&etcd, key, text, strlen(text));
}

static void test_view(void **state)
{
        struct cl_view *view = view_now();

        assert_int_equal(seen.error, 0);
        assert_true(view->count == 0 && !view->has_format && view->pool_count == 0);
        put_key(CL_KEY_NODE, 12, "{\"name\":\"b\",\"address\":\"h:2\",\"s3\":\"h:9\",\"rack\":3,\"state\":\"in\",\"boot\":1}");
        put_key(CL_KEY_NODE, 2, "{\"name\":\"a\",\"address\":\"h:1\",\"s3\":\"h:8\",\"rack\":3,\"state\":\"in\",\"boot\":1,\"later\":[]}");
        put_key(CL_KEY_LEADER, CL_POOL, "{\"node\":2,\"boot\":3,\"claim\":\"00000000000000000000000000000000\"}");
        me_put(&etcd, "/millrace/c1/something/new", "x", 1);
        me_put(&etcd, "/millrace/c11/nodes/3", "x", 1);
        view = view_now();
        assert_int_equal(seen.error, 0);
        assert_int_equal(view->count, 2);
        assert_true(view->members[0].number == 2 && view->members[1].number == 12);
        assert_string_equal(cl_view_member(view, 12)->node.name, "b");
        assert_null(cl_view_member(view, 3));
        assert_true(cl_view_pool(view, CL_POOL)->is_led && cl_view_pool(view, CL_POOL)->leader.node == 2 && cl_view_pool(view, CL_POOL)->leader.boot == 3);
        put_key(CL_KEY_NODE, 3, "{}"); /* as one that is not there: the others go on */
        view = view_now();
        assert_true(seen.error == 0 && view->count == 2);
        put_key(CL_KEY_SWITCHES, 0, "off");
        put_key(CL_KEY_FORMAT, 0, "{}"); /* what all go by */
        view_now();
        assert_int_equal(seen.error, -EBADMSG);
        assert_non_null(strstr(seen.text, "/millrace/c1/format"));
        me_set_silent(&etcd, true);
        view_now();
        assert_true(seen.error != 0 && seen.view.revision == 0);
}

static void put_config(unsigned pool, const struct cl_config *config)
{
        static char value[CL_JSON_MAX];
        char key[CL_KEY_NAME_MAX];

        cl_key_name("c1", CL_KEY_CONFIG, pool, key);
        me_put(&etcd, key, value, cl_config_write(config, value));
}

/* A pool of these drives, one on each node from `node` on. */
static void make_config(struct cl_config *config, uint8_t store, uint8_t drive, uint16_t node, unsigned count)
{
        uint8_t ids[4][ENG_ID_LEN] = {{0}};
        struct eng_site sites[4];
        struct eng_new_pool pool = {.k = 1, .m = 1, .count = count, .drive_ids = ids, .sites = sites};
        struct eng_error error;
        unsigned i;

        for (i = 0; i < count; i++) {
                ids[i][0] = (uint8_t)(drive + i);
                sites[i] = (struct eng_site){.node = (uint16_t)(node + i), .rack = 1};
        }
        memset(config, 0, sizeof(*config));
        MUST(eng_pool_make(&pool, config->epoch, &config->epoch_len, &error) == 0);
        config->number = 1;
        config->store_id[0] = store;
}

static void test_view_of_pools(void **state)
{
        static struct cl_config first, tenth;
        static struct cl_view copy;
        struct cl_view *view;

        make_config(&first, 1, 10, 1, 3);
        make_config(&tenth, 2, 20, 5, 2);
        put_config(1, &first);
        put_config(10, &tenth);
        put_config(CL_POOLS_MAX + 1, &tenth); /* of a newer build */
        put_key(CL_KEY_LEADER, 10, "{\"node\":5,\"boot\":3,\"claim\":\"00000000000000000000000000000000\"}");
        put_key(CL_KEY_LEADER, 2, "{\"node\":6,\"boot\":3,\"claim\":\"00000000000000000000000000000000\"}"); /* a key alone */
        view = view_now();
        assert_int_equal(seen.error, 0);
        assert_int_equal(view->pool_count, 3);
        assert_true(view->pools[0].number == 1 && view->pools[1].number == 2 && view->pools[2].number == 10);
        assert_true(cl_view_pool(view, 1)->has_config && !cl_view_pool(view, 1)->is_led && cl_view_pool(view, 1)->epoch.slots == 3);
        assert_true(!cl_view_pool(view, 2)->has_config && cl_view_pool(view, 2)->is_led);
        assert_true(cl_view_pool(view, 10)->has_config && cl_view_pool(view, 10)->leader.node == 5 && cl_view_pool(view, 10)->config.store_id[0] == 2);
        assert_true(!cl_view_pool(view, 3)->has_config && cl_view_pool(view, 3)->number == 0 && !cl_view_pool(view, CL_POOLS_MAX + 1)->has_config);
        assert_int_equal(cl_view_copy(&copy, view), 0);
        assert_true(copy.pools != view->pools && copy.pool_count == 3 && cl_view_pool(&copy, 10)->epoch.slots == 2);
        cl_view_free(&copy);
        assert_int_equal(copy.pool_count, 0);
        assert_int_equal(cl_names_choose(view, "k6"), 4); /* 6 is a site of pool 10, 1 to 3 of pool 1 */
        put_key(CL_KEY_CONFIG, 10, "{}"); /* nothing is known of this pool: the others go on */
        view = view_now();
        assert_int_equal(seen.error, 0);
        assert_true(cl_view_pool(view, 10)->bad && !cl_view_pool(view, 10)->has_config && !cl_view_pool(view, 10)->is_led);
        assert_true(!cl_view_pool(view, 1)->bad && cl_view_pool(view, 1)->has_config);
        put_config(10, &tenth);
        put_key(CL_KEY_LEADER, 10, "{\"node\":");
        view = view_now();
        assert_int_equal(seen.error, 0);
        assert_true(cl_view_pool(view, 10)->bad && !cl_view_pool(view, 10)->has_config && !cl_view_pool(view, 10)->is_led);
        unjudged = true; /* who judges it wants all */
        view_now();
        unjudged = false;
        assert_int_equal(seen.error, -EBADMSG);
        assert_non_null(strstr(seen.text, "/millrace/c1/pools/10/leader"));
}

static void put_format(uint64_t generation, uint64_t random, uint8_t id)
{
        struct cl_format format = {.cluster_id = {id}, .generation = generation, .random = random};
        static char value[CL_JSON_MAX];
        char key[CL_KEY_NAME_MAX];

        cl_key_name("c1", CL_KEY_FORMAT, 0, key);
        me_put(&etcd, key, value, cl_format_write(&format, value));
}

/* What a directory says that has seen generation 3 of cluster 7, and then this. */
static int changed_to(uint64_t generation, uint64_t random, uint8_t id)
{
        struct cl_directory_options options = {.etcd = &etcd.etcd, .cluster = "c1", .looked = looked};
        struct cl_directory *directory;
        int error;

        put_format(3, 9, 7);
        sem_init(&seen.came, 0, 0);
        sem_init(&ended, 0, 0);
        MUST(cl_directory_new(&options, &directory) == 0);
        call_on_loop(start_directory, directory);
        wait_for(&seen.came);
        assert_int_equal(seen.error, 0);
        put_format(generation, random, id);
        while (seen.error == 0 && seen.view.format.generation == 3 && seen.view.format.random == 9 && seen.view.revision < etcd.revision) {
                call_on_loop(hurry_directory, directory);
                wait_for(&seen.came);
        }
        error = seen.error;
        call_on_loop(stop_directory, directory);
        wait_for(&ended);
        cl_directory_free(directory);
        return error;
}

/* Rule R2: of what this process has seen, and of what its folders say was seen before. */
static void test_another_cluster(void **state)
{
        assert_int_equal(changed_to(3, 9, 7), 0);
        assert_int_equal(changed_to(4, 9, 7), -EREMCHG);
        assert_int_equal(changed_to(3, 10, 7), -EREMCHG);
        assert_int_equal(changed_to(3, 9, 8), -EREMCHG);
        etcd.seen.generation = (struct cl_generation){3, 9};
        put_format(3, 9, 7);
        view_now();
        assert_int_equal(seen.error, 0);
        put_format(3, 8, 7);
        view_now();
        assert_int_equal(seen.error, -EREMCHG);
        me_free(&etcd);
        me_init(&etcd);
        etcd.seen.generation = (struct cl_generation){3, 9};
        view_now(); /* the key was deleted */
        assert_int_equal(seen.error, -EREMCHG);
}

/* ---- joining --------------------------------------------------------------------------------- */

static sem_t answered;

static void join_answered(struct cl_join *join)
{
        sem_post(&answered);
}

static void begin_join(void *arg)
{
        cl_join(arg);
}

static int join_as(unsigned number, const struct cl_node *node, struct cl_join *join)
{
        struct cl_view *view = view_now();

        *join = (struct cl_join){.etcd = &etcd.etcd, .cluster = "c1", .number = (uint16_t)number, .node = node, .view = view, .done = join_answered};
        sem_init(&answered, 0, 0);
        call_on_loop(begin_join, join);
        wait_for(&answered);
        return join->rv;
}

static struct cl_node node_named(const char *name, const char *address, unsigned drive)
{
        struct cl_node node = {.rack = 1, .drive_count = 2, .drives = {{(uint8_t)drive}, {(uint8_t)(drive + 1)}}};

        snprintf(node.name, sizeof(node.name), "%s", name);
        snprintf(node.address, sizeof(node.address), "%s", address);
        return node;
}

static void test_join(void **state)
{
        struct cl_node a = node_named("a", "h:1", 1), b = node_named("b", "h:2", 3), other;
        static struct cl_join join;
        char text[CL_JSON_MAX] = "";
        struct cl_view *view;

        assert_int_equal(join_as(1, &a, &join), 0);
        assert_int_equal(join.boot, 1);
        assert_int_equal(join_as(2, &b, &join), 0);
        assert_int_equal(join_as(1, &a, &join), 0); /* its next process */
        assert_int_equal(join.boot, 2);
        view = view_now();
        assert_true(view->count == 2 && view->members[0].node.boot == 2 && view->members[0].node.drive_count == 2);
        other = node_named("c", "h:3", 5);
        assert_int_equal(join_as(2, &other, &join), -EEXIST); /* another machine by this number */
        assert_non_null(strstr(join.text, "its name must stay"));
        other = node_named("a", "h:3", 5);
        assert_int_equal(join_as(3, &other, &join), -EEXIST);
        other = node_named("c", "h:2", 5);
        assert_int_equal(join_as(3, &other, &join), -EEXIST);
        other = node_named("c", "h:3", 4);
        assert_int_equal(join_as(3, &other, &join), -EEXIST);
        assert_non_null(strstr(join.text, "is a copy of one of node 2"));
        other = node_named("a", "h:7", 1);
        assert_int_equal(join_as(1, &other, &join), 0); /* it has moved */
        put_key(CL_KEY_BOOT, 1, "{\"boot\":16777215,\"claim\":\"00000000000000000000000000000000\"}");
        assert_int_equal(join_as(1, &other, &join), -EOVERFLOW);
        other = b;
        other.boot = 3;
        other.state = CL_NODE_GONE;
        assert_true(cl_node_write(&other, text) > 0);
        put_key(CL_KEY_NODE, 2, text);
        assert_int_equal(join_as(2, &b, &join), -EEXIST);
        assert_non_null(strstr(join.text, "was removed from the cluster"));
        other = node_named("new", "h:2", 7);
        assert_int_equal(join_as(4, &other, &join), 0); /* at the address that it had */
        other = node_named("newer", "h:4", 4);
        assert_int_equal(join_as(5, &other, &join), -EEXIST); /* with a folder of it */
        other = node_named("new", "h:2", 7);
        etcd.lose_answers = 2;
        assert_int_equal(join_as(4, &other, &join), 0); /* found out to be done (R1) */
        me_set_silent(&etcd, true);
        seen.view.revision = 1;
        join = (struct cl_join){.etcd = &etcd.etcd, .cluster = "c1", .number = 4, .node = &other, .view = &seen.view, .done = join_answered};
        sem_init(&answered, 0, 0);
        call_on_loop(begin_join, &join);
        wait_for(&answered);
        assert_int_equal(join.rv, -EAGAIN);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void name_answered(struct cl_name_take *take)
{
        sem_post(&answered);
}

static void begin_name(void *arg)
{
        cl_name_take(arg);
}

static int take_by(const struct cl_view *view, const char *name, unsigned bound, struct cl_name_take *take)
{
        *take = (struct cl_name_take){.etcd = &etcd.etcd, .cluster = "c1", .name = name, .bound = (uint16_t)bound, .view = view, .done = name_answered};
        sem_init(&answered, 0, 0);
        call_on_loop(begin_name, take);
        wait_for(&answered);
        return take->rv;
}

static int take_name(const char *name, unsigned bound, struct cl_name_take *take)
{
        return take_by(view_now(), name, bound, take);
}

static void test_names(void **state)
{
        static struct cl_name_take take;
        static struct cl_view before;
        struct cl_node node = node_named("away", "h:1", 1);
        static struct cl_join join;
        char full[CL_NAME_MAX];
        unsigned i;

        assert_int_equal(take_name("n3", 0, &take), 0);
        assert_int_equal(take.number, 3); /* as it ends */
        assert_int_equal(take_name("alpha", 0, &take), 0);
        assert_int_equal(take.number, 1);
        assert_int_equal(take_name("m3", 0, &take), 0);
        assert_int_equal(take.number, 2); /* 3 is n3's */
        assert_int_equal(take_name("n3", 3, &take), 0);
        assert_int_equal(take_name("n3", 4, &take), -EEXIST); /* drives of another node */
        assert_non_null(strstr(take.text, "n3 is node 3"));
        assert_int_equal(take_name("m1", 3, &take), -EEXIST);
        assert_non_null(strstr(take.text, "which is n3"));
        assert_int_equal(take_name("old", 77, &take), 0); /* its drives know it, and etcd does not: it was made anew */
        assert_int_equal(take.number, 77);
        assert_int_equal(cl_names_number(&view_now()->names, "old"), 77);

        /* two that chose at the same moment: one has to choose again */
        assert_int_equal(cl_view_copy(&before, view_now()), 0);
        assert_int_equal(take_by(&before, "x", 0, &take), 0);
        assert_int_equal(take.number, 4);
        assert_int_equal(take_by(&before, "y", 0, &take), -EAGAIN);
        assert_int_equal(take_name("y", 0, &take), 0);
        assert_int_equal(take.number, 5);
        etcd.lose_answers = 2;
        assert_int_equal(take_name("z", 0, &take), 0); /* found out to be done (R1) */
        assert_int_equal(take.number, 6);
        assert_int_equal(take_by(&before, "z", 0, &take), -EAGAIN); /* another process of this name, from what it read before */
        assert_int_equal(take_name("z", 0, &take), 0);
        assert_int_equal(take.number, 6);
        cl_view_free(&before);

        /* numbers that only an entry, or a boot number, is left of */
        assert_int_equal(join_as(9, &node, &join), 0);
        put_key(CL_KEY_BOOT, 8, "{\"boot\":1,\"claim\":\"00000000000000000000000000000000\"}");
        assert_int_equal(take_name("k8", 0, &take), 0);
        assert_int_equal(take.number, 7);
        assert_int_equal(take_name("k9", 0, &take), 0);
        assert_int_equal(take.number, 10);
        assert_int_equal(take_name("away", 0, &take), 0); /* a reseed has left its name out */
        assert_int_equal(take.number, 9);
        assert_int_equal(take_name("k1024", 0, &take), 0); /* no number */
        assert_int_equal(take.number, 11);

        for (i = view_now()->names.count; i < CL_NAMES_MAX; i++) {
                snprintf(full, sizeof(full), "f%u", i);
                assert_true(cl_names_add(&seen.view.names, full, (uint16_t)(500 + i)));
        }
        assert_int_equal(take_by(&seen.view, "last", 0, &take), -EOVERFLOW);
        put_key(CL_KEY_NAMES, 0, "{\"a\":1,\"b\":1}");
        assert_int_equal(take_name("a", 0, &take), -EAGAIN);
        assert_non_null(strstr(take.text, "make no sense"));
        me_set_silent(&etcd, true);
        seen.view.names_bad = false;
        assert_int_equal(take_by(&seen.view, "w", 0, &take), -EAGAIN);
}

/* ---- a new cluster --------------------------------------------------------------------------- */

static void create_answered(struct cl_create *create)
{
        sem_post(&answered);
}

static void begin_create(void *arg)
{
        cl_create(arg);
}

static int create_of(const uint16_t *nodes, unsigned count, unsigned k, unsigned m, struct cl_create *create)
{
        struct cl_view *view = view_now();

        *create = (struct cl_create){.etcd = &etcd.etcd, .cluster = "c1", .view = view, .nodes = nodes, .node_count = count, .k = k, .m = m, .done = create_answered};
        sem_init(&answered, 0, 0);
        call_on_loop(begin_create, create);
        wait_for(&answered);
        return create->rv;
}

static void test_create(void **state)
{
        static const uint16_t nodes[] = {1, 2, 3};
        static struct cl_create create, again;
        static struct cl_join join;
        struct eng_epoch_info epoch;
        const struct cl_pool *pool;
        struct cl_view *view;
        struct cl_node node;
        unsigned i;

        for (i = 1; i <= 3; i++) {
                char name[8], address[8];

                if (i == 3) {
                        assert_int_equal(create_of(nodes, 3, 0, 0, &create), -EINVAL);
                        assert_non_null(strstr(create.text, "node 3 has announced no empty folders"));
                }
                snprintf(name, sizeof(name), "n%u", i);
                snprintf(address, sizeof(address), "h:%u", i);
                node = node_named(name, address, 10 * i);
                assert_int_equal(join_as(i, &node, &join), 0);
        }
        assert_int_equal(create_of(nodes, 3, 9, 3, &create), -EINVAL);
        assert_non_null(strstr(create.text, "needs 12 drives"));
        assert_false(view_now()->has_format);
        /* cut off behind the pool: the next one takes that */
        assert_int_equal(create_of(nodes, 3, 2, 2, &create), 0);
        view = view_now();
        pool = cl_view_pool(view, CL_POOL);
        assert_true(view->has_format && view->pool_count == 1 && pool->has_config && view->format.generation == 1 && !pool->is_led);
        assert_int_equal(eng_epoch_read(pool->config.epoch, pool->config.epoch_len, &epoch), 0);
        assert_true(epoch.slots == 6 && epoch.k == 2 && epoch.m == 2 && epoch.in == 0x3f && epoch.number == 1 && epoch.features != 0);
        assert_true(epoch.slot[4].site.node == 3 && epoch.slot[4].drive_id[0] == 30);
        assert_int_equal(eng_epoch_serves(pool->config.epoch, pool->config.epoch_len, 0x3c), 1);
        assert_int_equal(create_of(nodes, 3, 2, 2, &again), -EEXIST);
        assert_string_equal(again.text, "there is a cluster of this name already"); /* not found out by writing */
        me_free(&etcd);
        me_init(&etcd);
        {
                static char value[CL_JSON_MAX];
                char key[CL_KEY_NAME_MAX];

                cl_key_name("c1", CL_KEY_CONFIG, CL_POOL, key);
                me_put(&etcd, key, value, cl_config_write(&create.config[1], value));
        }
        /* not the pool that is there: nothing is done */
        assert_int_equal(create_of(nodes, 3, 3, 2, &again), -EINVAL);
        assert_non_null(strstr(again.text, "erasure code 2+2"));
        assert_int_equal(create_of(nodes, 2, 2, 2, &again), -EINVAL);
        assert_non_null(strstr(again.text, "with drives of node"));
        assert_int_equal(create_of((const uint16_t[]){1, 2, 3, 4}, 4, 0, 0, &again), -EINVAL);
        assert_non_null(strstr(again.text, "without node"));
        assert_false(view_now()->has_format);
        assert_int_equal(create_of(nodes, 3, 2, 2, &again), 0);
        view = view_now();
        assert_true(view->has_format);
        assert_memory_equal(cl_view_pool(view, CL_POOL)->config.store_id, create.config[1].store_id, CL_ID);
}

/* Three nodes with three folders each; ids 10 to 12, 20 to 22, 30 to 32. */
static void three_nodes_join(unsigned folders)
{
        static struct cl_join join;
        struct cl_node node;
        unsigned i, j;

        for (i = 1; i <= 3; i++) {
                char name[8], address[8];

                snprintf(name, sizeof(name), "n%u", i);
                snprintf(address, sizeof(address), "h:%u", i);
                node = node_named(name, address, 10 * i);
                node.drive_count = folders;
                for (j = 0; j < folders; j++)
                        node.drives[j][0] = (uint8_t)(10 * i + j);
                assert_int_equal(join_as(i, &node, &join), 0);
        }
}

static int create_pools(unsigned pools, bool more, struct cl_create *create)
{
        static const uint16_t nodes[] = {1, 2, 3};

        *create = (struct cl_create){.etcd = &etcd.etcd, .cluster = "c1", .view = view_now(), .nodes = nodes, .node_count = 3, .pools = pools, .more = more, .done = create_answered};
        sem_init(&answered, 0, 0);
        call_on_loop(begin_create, create);
        wait_for(&answered);
        return create->rv;
}

/* Each folder is in one pool, and each pool has one of each node. */
static void check_dealt(const struct cl_view *view, unsigned pools)
{
        bool dealt[64] = {false};
        unsigned i, slot, nodes;

        assert_int_equal(view->pool_count, pools);
        for (i = 0; i < pools; i++) {
                const struct cl_pool *pool = cl_view_pool(view, i + 1);

                assert_true(pool->has_config && pool->epoch.slots == 3);
                for (slot = nodes = 0; slot < 3; slot++) {
                        const uint8_t id = pool->epoch.slot[slot].drive_id[0];

                        assert_true(id < 64 && !dealt[id] && pool->epoch.slot[slot].site.node == id / 10);
                        dealt[id] = true;
                        nodes |= 1u << pool->epoch.slot[slot].site.node;
                }
                assert_int_equal(nodes, 0xe);
        }
}

static void test_create_pools(void **state)
{
        static struct cl_create create, again;
        static struct cl_config config[4];
        unsigned i;

        three_nodes_join(3);
        assert_int_equal(create_pools(CL_POOLS_MAX + 1, false, &create), -EINVAL);
        assert_int_equal(create_pools(1, true, &create), -ENOENT); /* there is no cluster yet */
        assert_int_equal(create_pools(9, false, &create), -EINVAL); /* a folder for each */
        assert_non_null(strstr(create.text, "pool 1 would get 1 folders of one node"));
        assert_int_equal(create_pools(5, false, &create), -EINVAL); /* two folders for some: no code of two nodes */
        assert_int_equal(view_now()->pool_count, 0);
        assert_int_equal(create_pools(3, false, &create), 0);
        assert_true(create.first == 1 && create.last == 3 && view_now()->has_format);
        check_dealt(&seen.view, 3);
        assert_true(cl_view_pool(&seen.view, 3)->config_revision < cl_view_pool(&seen.view, 2)->config_revision &&
                    cl_view_pool(&seen.view, 2)->config_revision < cl_view_pool(&seen.view, 1)->config_revision);
        assert_memory_not_equal(cl_view_pool(&seen.view, 1)->config.store_id, cl_view_pool(&seen.view, 2)->config.store_id, CL_ID);
        assert_int_equal(create_pools(3, false, &again), -EEXIST);
        for (i = 1; i <= 3; i++)
                config[i] = create.config[i];

        /* cut off behind the last pool, and behind the next: the highest number says how many were meant */
        for (i = 3; i >= 1; i--) {
                me_free(&etcd);
                me_init(&etcd);
                three_nodes_join(3);
                put_config(3, &config[3]);
                if (i <= 2)
                        put_config(2, &config[2]);
                if (i == 1)
                        put_config(1, &config[1]);
                assert_int_equal(create_pools(1, false, &again), -EINVAL);
                assert_non_null(strstr(again.text, "3 pools were begun"));
                assert_int_equal(create_pools(2, false, &again), -EINVAL);
                assert_false(view_now()->has_format);
                assert_int_equal(create_pools(i == 2 ? 3 : 0, false, &again), 0);
                assert_true(view_now()->has_format);
                check_dealt(&seen.view, 3);
                assert_memory_equal(cl_view_pool(&seen.view, 3)->config.store_id, config[3].store_id, CL_ID);
        }
}

static void begin_second(struct cl_cas *cas)
{
        sem_post(&answered);
}

static struct cl_cas late;

static void put_late(void *arg)
{
        cl_cas(&late);
}

/* What a run that died had sent comes when the next has read, or has written: that one ends, or the late one has no effect. */
static void test_create_late(void **state)
{
        static const uint16_t nodes[] = {1, 2, 3};
        static struct cl_create create, next;
        static char value[CL_JSON_MAX];
        static struct cl_view before;
        char key[CL_KEY_NAME_MAX];

        three_nodes_join(3);
        assert_int_equal(cl_view_copy(&before, view_now()), 0);
        assert_int_equal(create_pools(3, false, &create), 0);
        next = (struct cl_create){.etcd = &etcd.etcd, .cluster = "c1", .view = &before, .nodes = nodes, .node_count = 3, .pools = 3, .done = create_answered};
        sem_init(&answered, 0, 0);
        call_on_loop(begin_create, &next); /* it had read before there was anything */
        wait_for(&answered);
        assert_int_equal(next.rv, -EEXIST);
        check_dealt(view_now(), 3);
        cl_key_name("c1", CL_KEY_CONFIG, 2, key);
        late = (struct cl_cas){.etcd = &etcd.etcd, .key = {key, strlen(key)}, .value = {value, cl_config_write(&next.config[2], value)}, .done = begin_second};
        sem_init(&answered, 0, 0);
        call_on_loop(put_late, NULL);
        wait_for(&answered);
        assert_int_equal(late.outcome, CL_CAS_LOST);
        check_dealt(view_now(), 3);
        cl_view_free(&before);
}

static void test_more_pools(void **state)
{
        static struct cl_create create;
        static struct cl_join join;
        struct cl_node node;

        three_nodes_join(1);
        assert_int_equal(create_pools(0, false, &create), 0);
        assert_int_equal(create_pools(1, true, &create), -EINVAL); /* no folder is left */
        node = node_named("n3", "h:3", 30);
        node.drive_count = 0;
        assert_int_equal(join_as(3, &node, &join), 0);
        assert_int_equal(create_pools(1, true, &create), -EINVAL);
        assert_non_null(strstr(create.text, "node 3 has announced no empty folders"));
        node = node_named("n3", "h:3", 30);
        snprintf(node.version, sizeof(node.version), "0.0.1"); /* it may know one pool alone */
        assert_int_equal(join_as(3, &node, &join), 0);
        assert_int_equal(create_pools(1, true, &create), -EINVAL);
        assert_non_null(strstr(create.text, "node 3, n3, has version 0.0.1"));
        three_nodes_join(3); /* the first of each is in the pool */
        assert_int_equal(create_pools(2, true, &create), 0);
        assert_true(create.first == 2 && create.last == 3);
        check_dealt(view_now(), 3);
        assert_int_equal(create_pools(1, true, &create), -EINVAL);
        assert_int_equal(create_pools(CL_POOLS_MAX - 2, true, &create), -EINVAL);
        assert_non_null(strstr(create.text, "at most 16 pools"));
}

/* Of a pool whose key makes no sense nobody knows which folders and numbers it has: none are given out. */
static void test_bad_pool(void **state)
{
        static struct cl_create create;
        static struct cl_name_take take;

        three_nodes_join(1);
        assert_int_equal(create_pools(0, false, &create), 0);
        assert_int_equal(take_name("n7", 0, &take), 0);
        three_nodes_join(3);
        put_key(CL_KEY_CONFIG, 1, "{\"store_id\":\"\"}");
        assert_int_equal(create_pools(1, true, &create), -EBADMSG);
        assert_non_null(strstr(create.text, "of pool 1 makes no sense"));
        assert_int_equal(take_name("n8", 0, &take), -EAGAIN);
        assert_non_null(strstr(take.text, "makes no sense"));
        assert_int_equal(take_name("n7", 0, &take), 0); /* who has a number keeps it */
        assert_int_equal(take.number, 7);
}

/* A pool that is led is there, though its configuration is lost: its number is not given to another. */
static void test_lost_pool(void **state)
{
        static struct cl_create create;

        three_nodes_join(2);
        assert_int_equal(create_pools(0, false, &create), 0);
        three_nodes_join(4);
        put_key(CL_KEY_LEADER, 2, "{\"node\":2,\"boot\":3,\"claim\":\"00000000000000000000000000000000\"}");
        assert_int_equal(create_pools(1, true, &create), -EBADMSG);
        assert_non_null(strstr(create.text, "of pool 2 lacks its configuration"));
        assert_int_equal(view_now()->pool_count, 2);
}

/* The folders that it had announced are nobody's to give. */
static void test_pool_of_a_removed_node(void **state)
{
        static struct cl_create create;

        three_nodes_join(2);
        assert_int_equal(create_pools(0, false, &create), 0);
        three_nodes_join(4);
        put_key(CL_KEY_NODE, 3, "{\"name\":\"n3\",\"address\":\"h:3\",\"s3\":\"m:1\",\"rack\":1,\"state\":\"gone\",\"boot\":1,\"drives\":[\"20000000000000000000000000000000\"]}");
        assert_int_equal(create_pools(1, true, &create), -EINVAL);
        assert_non_null(strstr(create.text, "node 3 was removed"));
}

/* Each process may have to do with each other one. */
static void test_most_nodes(void **state)
{
        const unsigned most = CL_PARTIES_MAX / CL_PARTIES_OF_NODE(CL_POOLS_MAX);
        static struct cl_config config;
        static struct cl_join join;
        struct cl_node node;
        char value[256];
        unsigned i;

        make_config(&config, 1, 200, 1, 3);
        put_config(CL_POOLS_MAX, &config);
        for (i = 1; i <= most; i++) {
                snprintf(value, sizeof(value), "{\"name\":\"m%u\",\"address\":\"m:%u\",\"s3\":\"m:1\",\"rack\":1,\"state\":\"%s\",\"boot\":1}", i, i, i == 1 ? "gone" : "in");
                put_key(CL_KEY_NODE, i, value);
        }
        node = node_named("n901", "n:1", 1);
        assert_int_equal(join_as(901, &node, &join), 0); /* one is gone */
        node = node_named("n902", "n:2", 5);
        assert_int_equal(join_as(902, &node, &join), -EEXIST);
        assert_non_null(strstr(join.text, "a cluster of 16 pools can have at most 56 nodes"));
        node = node_named("n901", "n:1", 1);
        assert_int_equal(join_as(901, &node, &join), 0); /* its next process */
}

/* ---- NODE ------------------------------------------------------------------------------------ */

static void test_file(void **state)
{
        struct cl_node_file file = {.cluster = "c1", .node = 1023, .drive = {0xab, 1}, .seen = {UINT64_MAX, {3, UINT64_MAX - 1}, INT64_MAX}}, found;
        char folder[] = "/tmp/millrace-test-node.XXXXXX", path[64];
        struct eng_identity identity;
        enum eng_folder_state folder_state;
        struct eng_error error;
        FILE *out;
        int dir;

        assert_non_null(mkdtemp(folder));
        dir = open(folder, O_RDONLY | O_DIRECTORY);
        assert_int_equal(cl_node_file_read(folder, &found), -ENOENT);
        assert_int_equal(cl_node_file_read("/nowhere/at/all", &found), -ENOENT);
        assert_int_equal(cl_node_file_write(dir, &file), 0);
        assert_int_equal(cl_node_file_read(folder, &found), 0);
        assert_true(strcmp(found.cluster, "c1") == 0 && found.node == 1023 && found.seen.cluster_id == UINT64_MAX && found.seen.revision == INT64_MAX &&
                    found.seen.generation.number == 3 && found.seen.generation.random == UINT64_MAX - 1);
        assert_memory_equal(found.drive, file.drive, CL_ID);
        assert_false(found.made);
        assert_string_equal(found.name, "");
        file.node = 0; /* not known yet: of a folder that is not made alone */
        assert_true(cl_node_file_write(dir, &file) == 0 && cl_node_file_read(folder, &found) == 0 && found.node == 0);
        file.made = true;
        assert_true(cl_node_file_write(dir, &file) == 0 && cl_node_file_read(folder, &found) == -EBADMSG);
        file.node = 1023;
        snprintf(file.name, sizeof(file.name), "n-1023");
        assert_true(cl_node_file_write(dir, &file) == 0 && cl_node_file_read(folder, &found) == 0);
        assert_string_equal(found.name, "n-1023");
        assert_int_equal(found.pools, 0);
        file.pools = 3;
        assert_true(cl_node_file_write(dir, &file) == 0 && cl_node_file_read(folder, &found) == 0 && found.pools == 3);
        file.seen.revision = 5;
        file.made = true;
        assert_int_equal(cl_node_file_write(dir, &file), 0);
        assert_int_equal(cl_node_file_read(folder, &found), 0);
        assert_true(found.seen.revision == 5 && found.made);
        /* cut off while it was written: the folder is an empty one all the same */
        snprintf(path, sizeof(path), "%s/NODE.new", folder);
        out = fopen(path, "w");
        fputs("{\"clu", out);
        fclose(out);
        assert_int_equal(eng_folder_probe(folder, &folder_state, &identity, &error), 0);
        assert_int_equal(folder_state, ENG_FOLDER_EMPTY);
        assert_int_equal(cl_node_file_write(dir, &file), 0);
        snprintf(path, sizeof(path), "%s/NODE", folder);
        out = fopen(path, "w");
        fputs("{\"cluster\": \"c1\"}", out);
        fclose(out);
        assert_int_equal(cl_node_file_read(folder, &found), -EBADMSG);
        unlink(path);
        close(dir);
        rmdir(folder);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_view, fresh, stale),
                cmocka_unit_test_setup_teardown(test_another_cluster, fresh, stale),
                cmocka_unit_test_setup_teardown(test_join, fresh, stale),
                cmocka_unit_test_setup_teardown(test_names, fresh, stale),
                cmocka_unit_test_setup_teardown(test_create, fresh, stale),
                cmocka_unit_test_setup_teardown(test_view_of_pools, fresh, stale),
                cmocka_unit_test_setup_teardown(test_create_pools, fresh, stale),
                cmocka_unit_test_setup_teardown(test_create_late, fresh, stale),
                cmocka_unit_test_setup_teardown(test_more_pools, fresh, stale),
                cmocka_unit_test_setup_teardown(test_bad_pool, fresh, stale),
                cmocka_unit_test_setup_teardown(test_lost_pool, fresh, stale),
                cmocka_unit_test_setup_teardown(test_pool_of_a_removed_node, fresh, stale),
                cmocka_unit_test_setup_teardown(test_most_nodes, fresh, stale),
                cmocka_unit_test(test_file),
        };

        return cmocka_run_group_tests(tests, start, stop);
}
