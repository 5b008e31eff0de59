/*
 * A store of one machine becomes a cluster's pool: real stores on folders, and an etcd in memory. What is refused; the
 * steps, cut off behind each of them; and the pool, opened by the epoch that etcd has, with all that was in the store.
 */
#include "tests/unit/cluster/etcd_fixture.h"

#include <sys/stat.h>

#include "cluster_adopt.h"
#include "engine/format.h"
#include "tests/lib/decided_fixture.h"
#include "tests/lib/memory_etcd.h"

#define DRIVES  4u /* 2+2 */
#define OBJECTS 8u
#define LARGE   300000u
#define STEP    (1u << 20)

static struct memory_etcd etcd;
static const struct eng_site site = {.node = 1, .rack = 7};

/* ---- a store --------------------------------------------------------------------------------- */

static struct sf sf;
static uint64_t bucket;
static uint8_t upload[ENG_ID_LEN], part[ENG_ID_LEN];

static const char *key_of(unsigned i)
{
        static char key[16];

        snprintf(key, sizeof(key), "o%u", i);
        return key;
}

static size_t size_of(unsigned i)
{
        return i % 2 == 0 ? 100 : LARGE;
}

/* Objects, and an upload under way; closed. */
static void make_store(void)
{
        unsigned i;

        sf_make(&sf, DRIVES, 2);
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        for (i = 0; i < OBJECTS; i++)
                assert_int_equal(sf_put(&sf, i % 2, bucket, key_of(i), i, size_of(i), true, NULL), 0);
        assert_int_equal(sf_upload(&sf, bucket, "upload", upload), 0);
        assert_int_equal(sf_part(&sf, 0, bucket, "upload", upload, 1, 77, 0, LARGE, part), 0);
        sf_close(&sf);
}

static void check_objects(void)
{
        unsigned i;

        for (i = 0; i < OBJECTS; i++)
                assert_int_equal(sf_get(&sf, i % 2, bucket, key_of(i), i, size_of(i)), 0);
}

static bool all_are_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == DRIVES;
}

/* As millraced does without a cluster. */
static int open_alone(void)
{
        sf.options.one_machine = true;
        return sf_open(&sf, false);
}

/* ---- what its drives say --------------------------------------------------------------------- */

static struct cl_adopt_drive drives[DRIVES];
static struct cl_adopt_plan plan;

static int ask_drives(void)
{
        struct cl_node_file file;
        struct eng_error error;
        unsigned i;
        int rv = 0;

        memset(drives, 0, sizeof(drives));
        for (i = 0; rv == 0 && i < DRIVES; i++) {
                struct eng_local_options options = {.path = sf.path[i], .log_file_bytes = sf.options.log_file_bytes};
                enum eng_folder_state state;

                drives[i].path = sf.path[i];
                assert_int_equal(eng_folder_probe(sf.path[i], &state, &drives[i].identity, &error), 0);
                assert_int_equal(state, ENG_FOLDER_DRIVE);
                if (cl_node_file_read(sf.path[i], &file) == 0)
                        drives[i].generation = file.seen.generation.number;
                options.identity = drives[i].identity;
                rv = rem_drive_ask(&options, NULL, NULL, NULL, &drives[i].known, &error);
        }
        return rv;
}

static int ask_one(unsigned i, const struct eng_identity *expected)
{
        struct eng_local_options options = {.path = sf.path[i], .identity = *expected, .log_file_bytes = sf.options.log_file_bytes};
        struct eng_error error;

        return rem_drive_ask(&options, NULL, NULL, NULL, &drives[i].known, &error);
}

static void plan_says(unsigned count, int rv, const char *text)
{
        cl_adopt_plan(drives, count, &site, &plan);
        if (plan.rv != rv || strstr(plan.text, text) == NULL)
                print_message("%d: %s\n", plan.rv, plan.text);
        assert_int_equal(plan.rv, rv);
        assert_non_null(strstr(plan.text, text));
}

/* In the newest epoch of all drives. */
static void set_slot(unsigned slot, uint8_t in, uint8_t flags)
{
        struct fmt_epoch_drive d;
        unsigned i;

        for (i = 0; i < DRIVES; i++) {
                uint8_t *at = drives[i].known.body + sizeof(struct fmt_epoch) + slot * sizeof(d);

                memcpy(&d, at, sizeof(d));
                d.in = in;
                d.flags = flags;
                memcpy(at, &d, sizeof(d));
        }
}

static void set_epoch(size_t offset, const void *bytes, size_t len)
{
        unsigned i;

        for (i = 0; i < DRIVES; i++)
                memcpy(drives[i].known.body + offset, bytes, len);
}

static void test_plan(void **state)
{
        struct eng_epoch_info was, is;
        struct fmt_epoch_tail tail;
        struct fmt_epoch_drive d;
        struct eng_error error;
        uint8_t again[ENG_EPOCH_BODY_MAX];
        size_t len;
        unsigned i;

        make_store();
        assert_int_equal(ask_drives(), 0);
        plan_says(DRIVES, 0, "");
        assert_true(!plan.marked && !plan.is_pool && plan.generation == 1);
        assert_int_equal(eng_epoch_read(drives[2].known.body, drives[2].known.body_len, &was), 0);
        assert_int_equal(eng_epoch_read(plan.config.epoch, plan.config.epoch_len, &is), 0);
        assert_true(is.number == was.number + STEP && plan.config.number == is.number && is.k == 2 && is.m == 2 && is.groups == was.groups && is.slots == DRIVES && is.in == 0xf);
        assert_memory_equal(is.parent, was.id, 16);
        assert_memory_not_equal(is.id, was.id, 16);
        assert_int_equal(is.features, ENG_FEATURE_SITES);
        for (i = 0; i < DRIVES; i++) {
                assert_memory_equal(is.slot[i].drive_id, was.slot[i].drive_id, 16);
                assert_true(is.slot[i].site.node == 1 && is.slot[i].site.rack == 7);
                memcpy(&d, plan.config.epoch + sizeof(struct fmt_epoch) + i * sizeof(d), sizeof(d));
                assert_int_equal(d.base, 1);
        }
        memcpy(&tail, plan.config.epoch + FMT_EPOCH_PLACED(DRIVES), sizeof(tail));
        assert_true(tail.in_force == was.number && tail.must == FMT_EPOCH_MUST_SITES && FMT_EPOCH_PLACED(DRIVES) + tail.size == plan.config.epoch_len);
        assert_memory_equal(tail.in_force_id, was.id, 16);
        assert_memory_equal(plan.config.epoch + FMT_EPOCH_PLACED(DRIVES) - DRIVES * FMT_ID, drives[0].known.body + FMT_EPOCH_PLACED(DRIVES) - DRIVES * FMT_ID, DRIVES * FMT_ID);
        assert_int_equal(eng_epoch_serves(plan.config.epoch, plan.config.epoch_len, 0xf), 1);
        assert_int_equal(eng_epoch_adopt(plan.config.epoch, plan.config.epoch_len, &site, again, &len, &error), -EEXIST);
        /* of a build that wrote neither place ids nor a tail */
        assert_int_equal(eng_epoch_adopt(drives[0].known.body, FMT_EPOCH_PLACED(DRIVES) - DRIVES * FMT_ID, &site, again, &len, &error), 0);
        assert_int_equal(len, plan.config.epoch_len);
        for (i = 0; i < DRIVES; i++)
                assert_memory_equal(again + FMT_EPOCH_PLACED(DRIVES) - (DRIVES - i) * FMT_ID, was.slot[i].drive_id, FMT_ID);
        assert_int_equal(eng_epoch_serves(again, len, 0xf), 1);
        /* without nodes there is nothing to write etcd anew from */
        assert_int_equal(eng_epoch_reseed(drives[0].known.body, drives[0].known.body_len, 0, again, &len, &error), -EINVAL);
        assert_non_null(strstr(error.text, "cluster adopt"));
        /* folders and drives know of a cluster that is lost */
        drives[1].generation = 3;
        plan_says(DRIVES, 0, "");
        assert_int_equal(plan.generation, 4);
        drives[3].known.term.generation = 8;
        plan_says(DRIVES, 0, "");
        assert_int_equal(plan.generation, 9);
        sf_remove(&sf);
}

static void test_refused(void **state)
{
        static struct cl_adopt_drive kept[DRIVES];
        uint64_t high = INT32_MAX - STEP;

        make_store();
        assert_int_equal(ask_drives(), 0);
        memcpy(kept, drives, sizeof(kept));
#define REFUSED(count, rv, text)                                                                                       \
        do {                                                                                                           \
                plan_says(count, rv, text);                                                                            \
                memcpy(drives, kept, sizeof(drives));                                                                  \
        } while (0)
        REFUSED(0, -ENOENT, "no folder");
        REFUSED(3, -ENOENT, "slot ");
        drives[2].identity.store_id[0] ^= 1;
        REFUSED(DRIVES, -EXDEV, "another store");
        memcpy(drives[2].identity.drive_id, drives[1].identity.drive_id, CL_ID);
        REFUSED(DRIVES, -EEXIST, "copy of");
        drives[2].identity.drive_id[0] ^= 1;
        REFUSED(DRIVES, -EINVAL, "no drive of the store any more");
        drives[2].identity.slot = 63;
        REFUSED(DRIVES, -EINVAL, "no drive of the store any more");
        drives[3].known.epoch--;
        REFUSED(DRIVES, -EINVAL, sf.path[3]);
        drives[3].known.epoch_id[3] ^= 1;
        REFUSED(DRIVES, -EINVAL, "has epoch");
        set_slot(2, FMT_EPOCH_OUT, 0);
        REFUSED(DRIVES, -EINVAL, "slot 2 is not in");
        set_slot(2, FMT_EPOCH_JOINING, 0);
        REFUSED(DRIVES, -EINVAL, "slot 2 is not in");
        set_slot(1, FMT_EPOCH_IN, FMT_EPOCH_ADDING);
        REFUSED(DRIVES, -EINVAL, "slot 1 is being added");
        set_slot(1, FMT_EPOCH_IN, FMT_EPOCH_LEAVING);
        REFUSED(DRIVES, -EINVAL, "slot 1 is being removed");
        set_slot(3, FMT_EPOCH_OUT, FMT_EPOCH_GIVEN_UP);
        REFUSED(DRIVES, -EINVAL, "slot 3 was given up");
        set_epoch(offsetof(struct fmt_epoch, m), "\0", 1);
        REFUSED(DRIVES, -EINVAL, "2+0");
        set_epoch(offsetof(struct fmt_epoch, number), &high, sizeof(high));
        REFUSED(DRIVES, -EINVAL, "too high");
        drives[0].known.body_len = drives[1].known.body_len = drives[2].known.body_len = drives[3].known.body_len = 7;
        REFUSED(DRIVES, -EBADMSG, "makes no sense");
        set_slot(1, FMT_EPOCH_IN, FMT_EPOCH_FILLING | FMT_EPOCH_ADDED); /* it was added, and is filled yet */
        REFUSED(DRIVES, 0, "");
#undef REFUSED
        sf_remove(&sf);
}

/* ---- etcd ------------------------------------------------------------------------------------ */

static struct {
        sem_t came;
        struct cl_view view;
        pthread_mutex_t lock;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
        struct lp_msg msg;
        void (*func)(void *arg);
        void *arg;
} on_loop;

static void run_on_loop(struct lp_msg *msg)
{
        on_loop.func(on_loop.arg);
}

static void post_to_loop(void (*func)(void *arg), void *arg)
{
        on_loop.msg.run = run_on_loop;
        on_loop.func = func;
        on_loop.arg = arg;
        lp_post(the_loop, &on_loop.msg);
}

static void looked(void *arg, const struct cl_view *view, int error, const char *text)
{
        pthread_mutex_lock(&seen.lock);
        MUST(view != NULL);
        cl_view_free(&seen.view);
        MUST(cl_view_copy(&seen.view, view) == 0);
        pthread_mutex_unlock(&seen.lock);
        sem_post(&seen.came);
}

static void start_directory(void *arg)
{
        cl_directory_start(arg);
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

static const struct cl_view *view_now(void)
{
        struct cl_directory_options options = {.etcd = &etcd.etcd, .cluster = "c1", .looked = looked};
        struct cl_directory *directory;

        sem_init(&seen.came, 0, 0);
        sem_init(&ended, 0, 0);
        MUST(cl_directory_new(&options, &directory) == 0);
        post_to_loop(start_directory, directory);
        wait_for(&seen.came);
        post_to_loop(stop_directory, directory);
        wait_for(&ended);
        cl_directory_free(directory);
        return &seen.view;
}

static int look_says(int rv, const char *part_of)
{
        char text[CL_TEXT_MAX];
        int said = cl_adopt_look(&plan, view_now(), text);

        if (said != rv || strstr(text, part_of) == NULL)
                print_message("%d: %s\n", said, text);
        assert_int_equal(said, rv);
        assert_non_null(strstr(text, part_of));
        return said;
}

static struct cl_adopt adopt;
static sem_t over;

static void adopt_over(struct cl_adopt *a)
{
        sem_post(&over);
}

static void start_claim(void *arg)
{
        cl_adopt_claim(arg);
}

static void start_end(void *arg)
{
        cl_adopt_end(arg);
}

static int claim_of(const struct cl_view *view)
{
        adopt = (struct cl_adopt){.etcd = &etcd.etcd, .cluster = "c1", .view = view, .plan = &plan, .done = adopt_over};
        post_to_loop(start_claim, &adopt);
        wait_for(&over);
        return adopt.rv;
}

static int end_now(void)
{
        post_to_loop(start_end, &adopt);
        wait_for(&over);
        return adopt.rv;
}

static void put_format(void)
{
        static const char text[] = "{\"cluster_id\":\"00112233445566778899aabbccddeeff\",\"generation\":1,\"random\":\"0011223344556677\"}";
        char key[CL_KEY_NAME_MAX];

        cl_key_name("c1", CL_KEY_FORMAT, 0, key);
        me_put(&etcd, key, text, sizeof(text) - 1);
}

static void put_config(unsigned number, const struct cl_config *config)
{
        static char text[CL_JSON_MAX];
        char key[CL_KEY_NAME_MAX];

        cl_key_name("c1", CL_KEY_CONFIG, number, key);
        me_put(&etcd, key, text, cl_config_write(config, text));
}

static int loop_and_etcd(void **state)
{
        sem_init(&over, 0, 0);
        MUST(loop_begin(state) == 0);
        me_init(&etcd);
        return 0;
}

static int no_loop(void **state)
{
        me_free(&etcd);
        return loop_finish(state);
}

static void test_what_etcd_has(void **state)
{
        static struct cl_config other;
        struct cl_view view = {.revision = 1, .has_request = true};
        char text[CL_TEXT_MAX];

        make_store();
        assert_int_equal(ask_drives(), 0);
        plan_says(DRIVES, 0, "");
        look_says(CL_ADOPT_NONE, "");
        assert_int_equal(cl_adopt_look(&plan, &view, text), -EBUSY);
        plan.is_pool = true; /* a node has led it, and this etcd is empty */
        look_says(-EREMCHG, "reseed");
        plan.is_pool = false;
        other = plan.config;
        other.store_id[0] ^= 1;
        put_config(1, &other);
        look_says(-EEXIST, "has been begun");
        put_format();
        look_says(-EEXIST, "there is a cluster of this name");
        put_config(1, &plan.config);
        look_says(-EEXIST, "an older state"); /* its folders are not marked */
        plan.marked = true;
        look_says(CL_ADOPT_DONE, "");
        me_free(&etcd);
        me_init(&etcd);
        put_config(1, &plan.config);
        look_says(CL_ADOPT_BEGUN, "");
        put_config(2, &other);
        look_says(-EEXIST, "has been begun");
        sf_remove(&sf);
}

/* Folders marked under one name take no other; nor does a node that has the address of another. */
static void test_one_node(void **state)
{
        struct cl_member members[2] = {{.number = 3, .node = {.name = "n3", .address = "a:1"}}, {.number = 4, .node = {.name = "n4", .address = "a:2"}}};
        struct cl_view view = {.revision = 1, .count = 2, .members = members};
        static struct cl_adopt_drive two[2];
        char text[CL_TEXT_MAX];

        memset(two, 0, sizeof(two));
        two[0].path = "first";
        two[1].path = "second";
        snprintf(two[1].node, sizeof(two[1].node), "n1"); /* it was cut off before FORMAT: nobody goes by it */
        assert_int_equal(cl_adopt_check_node(two, 2, "n2", "a:3", &view, text), 0);
        two[0].identity.features = two[1].identity.features = ENG_FEATURES_OF_POOL;
        assert_int_equal(cl_adopt_check_node(two, 2, "n2", "a:3", &view, text), -EEXIST);
        assert_non_null(strstr(text, "second: is marked for the node n1"));
        assert_int_equal(cl_adopt_check_node(two, 2, "n1", "a:3", &view, text), 0);
        assert_int_equal(cl_adopt_check_node(two, 2, "n1", "a:2", &view, text), -EEXIST);
        assert_non_null(strstr(text, "n4"));
        snprintf(two[1].node, sizeof(two[1].node), "n4"); /* it waits for the cluster already */
        assert_int_equal(cl_adopt_check_node(two, 2, "n4", "a:2", &view, text), 0);
}

static void put_request(uint64_t generation, uint64_t random)
{
        struct cl_format request = {.generation = generation, .random = random};
        static char text[CL_JSON_MAX];
        char key[CL_KEY_NAME_MAX];

        cl_key_name("c1", CL_KEY_RESEED, 0, key);
        me_put(&etcd, key, text, cl_format_write(&request, text));
}

/* A reseed was asked for, which can never end: what it would write is on no drive. */
static void test_reseed_was_asked(void **state)
{
        make_store();
        put_request(5, 1);
        assert_int_equal(ask_drives(), 0);
        plan_says(DRIVES, 0, "");
        look_says(-EBUSY, "reseed"); /* nothing says that it is not of another cluster's nodes */
        plan.marked = true;
        look_says(CL_ADOPT_NONE, "");
        plan.is_pool = true;
        look_says(-EBUSY, "reseed");
        plan.is_pool = false;
        assert_int_equal(claim_of(view_now()), 0);
        put_request(7, 2); /* it is made anew just then */
        assert_int_equal(end_now(), -EEXIST);
        assert_false(view_now()->has_format);
        assert_int_equal(claim_of(view_now()), 0);
        assert_int_equal(end_now(), 0);
        assert_int_equal(view_now()->format.generation, 8);
        assert_false(seen.view.has_request); /* it is over */
        look_says(CL_ADOPT_DONE, "");
        sf_remove(&sf);
}

static void create_over(struct cl_create *create)
{
        sem_post(&over);
}

static void start_create(void *arg)
{
        cl_create(arg);
}

/* `init` under that name, by a node that waits: it takes no claim of a store's for a pool of its own. */
static void test_init_meanwhile(void **state)
{
        static const uint16_t nodes[] = {1};
        static struct cl_create create;

        make_store();
        assert_int_equal(ask_drives(), 0);
        plan_says(DRIVES, 0, "");
        assert_int_equal(claim_of(view_now()), 0);
        create = (struct cl_create){.etcd = &etcd.etcd, .cluster = "c1", .view = view_now(), .nodes = nodes, .node_count = 1, .done = create_over};
        post_to_loop(start_create, &create);
        wait_for(&over);
        assert_int_equal(create.rv, -EEXIST);
        assert_non_null(strstr(create.text, "cluster adopt"));
        assert_false(view_now()->has_format);
        sf_remove(&sf);
}

/* Answers that are lost; others who are faster; a claim that is behind the store. */
static void test_claims(void **state)
{
        struct cl_view before, late;
        struct cl_config config;
        unsigned lose;

        make_store();
        for (lose = 0; lose < 2; lose++) {
                me_free(&etcd);
                me_init(&etcd);
                assert_int_equal(ask_drives(), 0);
                plan_says(DRIVES, 0, "");
                etcd.lose_answers = 2 * lose;
                assert_int_equal(claim_of(view_now()), 0);
                assert_int_equal(end_now(), 0);
                assert_int_equal(etcd.changes, 2);
                assert_true(view_now()->has_format && seen.view.format.generation == 1 && seen.view.pool_count == 1);
                assert_int_equal(end_now(), -EEXIST);
        }
        me_free(&etcd);
        me_init(&etcd);
        assert_int_equal(cl_view_copy(&before, view_now()), 0);
        assert_int_equal(claim_of(&before), 0);
        config = plan.config;
        plan_says(DRIVES, 0, ""); /* another process, that saw nothing either */
        assert_int_equal(claim_of(&before), -EEXIST);
        assert_int_equal(claim_of(view_now()), 0); /* it takes what is there */
        assert_int_equal(etcd.changes, 1);
        assert_memory_equal(seen.view.pools[0].config.epoch, config.epoch, config.epoch_len);
        plan.config.epoch[offsetof(struct fmt_epoch, parent)] ^= 1; /* the store has gone on alone */
        assert_int_equal(claim_of(&seen.view), 0);
        assert_int_equal(etcd.changes, 2);
        put_config(1, &config); /* somebody has changed it */
        assert_int_equal(claim_of(view_now()), 0); /* of an older epoch: it is put anew */
        put_config(1, &config);
        assert_int_equal(end_now(), -EEXIST);
        assert_int_equal(cl_view_copy(&late, view_now()), 0);
        assert_false(late.has_format);
        put_format(); /* and has made the cluster, before a claim that saw none arrives */
        assert_int_equal(claim_of(&late), -EEXIST);
        assert_int_equal(view_now()->pools[0].config_revision, late.pools[0].config_revision);
        cl_view_free(&late);
        me_free(&etcd);
        me_init(&etcd);
        put_config(1, &config);
        me_set_full(&etcd, true);
        assert_int_equal(claim_of(view_now()), -ENOSPC);
        me_set_full(&etcd, false);
        me_set_silent(&etcd, true);
        assert_int_equal(claim_of(&seen.view), -EAGAIN);
        cl_view_free(&before);
        sf_remove(&sf);
}

/* ---- the folders ----------------------------------------------------------------------------- */

static const struct cl_node_file as = {.cluster = "c1", .node = 1, .name = "n1"};

static unsigned marked_folders(void)
{
        enum eng_folder_state found;
        struct eng_identity identity;
        struct eng_error error;
        unsigned i, n = 0;

        for (i = 0; i < DRIVES; i++) {
                assert_int_equal(eng_folder_probe(sf.path[i], &found, &identity, &error), 0);
                n += (identity.features & ENG_FEATURE_SITES) != 0;
        }
        return n;
}

static void test_marks(void **state)
{
        struct cl_node_file file;
        struct eng_error error;
        char path[256];
        unsigned i;
        int lock;

        make_store();
        assert_int_equal(ask_drives(), 0);
        /* it runs: none is marked */
        assert_int_equal(open_alone(), 0);
        assert_true(sf_wait_health(&sf, all_are_in, NULL, 60));
        assert_int_equal(cl_adopt_mark(drives, DRIVES, &as, &error), -EBUSY);
        assert_int_equal(marked_folders(), 0);
        assert_int_equal(ask_drives(), -EBUSY);
        sf_close(&sf);
        assert_int_equal(ask_drives(), 0);
        /* the last folder is held: none is marked */
        assert_int_equal(eng_folder_hold(sf.path[DRIVES - 1], &lock, &error), 0);
        assert_int_equal(eng_folder_hold(sf.path[DRIVES - 1], &(int){0}, &error), -EBUSY);
        assert_int_equal(cl_adopt_mark(drives, DRIVES, &as, &error), -EBUSY);
        assert_int_equal(marked_folders(), 0);
        close(lock);
        /* FORMAT of the third cannot be written */
        assert_int_equal(ask_drives(), 0);
        snprintf(path, sizeof(path), "%s/FORMAT.new", sf.path[2]);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_true(cl_adopt_mark(drives, DRIVES, &as, &error) < 0);
        assert_non_null(strstr(error.text, sf.path[2]));
        assert_int_equal(marked_folders(), 2);
        assert_int_equal(open_alone(), -EINVAL);
        assert_non_null(strstr(sf.error.text, "cluster adopt"));
        rmdir(path);
        assert_int_equal(cl_adopt_mark(drives, DRIVES, &as, &error), 0);
        assert_int_equal(marked_folders(), DRIVES);
        for (i = 0; i < DRIVES; i++) {
                assert_int_equal(cl_node_file_read(sf.path[i], &file), 0);
                assert_true(file.made && file.node == 1 && strcmp(file.name, "n1") == 0 && strcmp(file.cluster, "c1") == 0 && file.seen.cluster_id == 0);
                assert_memory_equal(file.drive, drives[i].identity.drive_id, CL_ID);
        }
        assert_int_equal(ask_one(0, &drives[0].identity), -EINVAL); /* who looked at it before it was marked */
        assert_int_equal(cl_adopt_mark(drives, DRIVES, &as, &error), 0); /* again */
        assert_int_equal(eng_folder_hold("/nowhere/at/all", &lock, &error), -ENOENT);
        assert_int_equal(eng_folder_add_features("/nowhere/at/all", 1, &error), -ENOENT);
        sf_remove(&sf);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* As the command does it, from whatever there is. */
static void adopt_all(void)
{
        struct eng_error error;
        char text[CL_TEXT_MAX];
        int rv;

        assert_int_equal(ask_drives(), 0);
        plan_says(DRIVES, 0, "");
        rv = cl_adopt_look(&plan, view_now(), text);
        if (rv == CL_ADOPT_DONE)
                return;
        assert_true(rv == CL_ADOPT_NONE || rv == CL_ADOPT_BEGUN);
        assert_int_equal(claim_of(&seen.view), 0);
        assert_int_equal(cl_adopt_mark(drives, DRIVES, &as, &error), 0);
        assert_int_equal(ask_drives(), 0);
        plan_says(DRIVES, 0, "");
        assert_true(plan.marked);
        look_says(CL_ADOPT_BEGUN, "");
        assert_int_equal(claim_of(&seen.view), 0);
        assert_int_equal(end_now(), 0);
}

/* By the epoch that etcd has: everything is there, and more can be written. */
static void check_pool_of_etcd(void)
{
        const struct cl_pool *pool = cl_view_pool(view_now(), CL_POOL);
        struct eng_complete_part one = {.number = 1};

        assert_true(seen.view.has_format && pool->has_config);
        df_serve(&sf, pool->config.store_id, pool->config.epoch, pool->config.epoch_len);
        sf.options.one_machine = false;
        sf.options.site = site;
        sf.options.boot = 1;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, all_are_in, NULL, 60));
        check_objects();
        memcpy(one.id, part, ENG_ID_LEN);
        assert_int_equal(sf_complete(&sf, bucket, "upload", upload, &one, 1), 0);
        assert_int_equal(sf_get(&sf, 0, bucket, "upload", 77, LARGE), 0);
        assert_int_equal(sf_put(&sf, 1, bucket, "new", 99, LARGE, true, NULL), 0);
        assert_int_equal(sf_get(&sf, 0, bucket, "new", 99, LARGE), 0);
        sf_close(&sf);
        assert_true(df_epoch()->number > pool->config.number);
        sf.options.cluster = NULL;
        sf.options.site = (struct eng_site){0};
        sf.options.boot = 0;
}

enum cut { CUT_NOTHING, CUT_CLAIM, CUT_NODE, CUT_ONE, CUT_THREE, CUT_MARKED, CUT_FORMAT, CUTS };

static void adopt_up_to(enum cut cut)
{
        struct cl_node_file file = as;
        struct eng_error error;
        int dir;

        assert_int_equal(ask_drives(), 0);
        plan_says(DRIVES, 0, "");
        if (cut >= CUT_CLAIM)
                assert_int_equal(claim_of(view_now()), 0);
        if (cut >= CUT_NODE) {
                dir = open(sf.path[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                file.made = true;
                memcpy(file.drive, drives[0].identity.drive_id, CL_ID);
                assert_int_equal(cl_node_file_write(dir, &file), 0);
                close(dir);
        }
        if (cut >= CUT_ONE)
                assert_int_equal(cl_adopt_mark(drives, cut == CUT_ONE ? 1 : cut == CUT_THREE ? 3 : DRIVES, &as, &error), 0);
        if (cut == CUT_FORMAT) {
                assert_int_equal(ask_drives(), 0);
                plan_says(DRIVES, 0, "");
                assert_int_equal(claim_of(view_now()), 0);
                etcd.lose_answers = 1;
                assert_int_equal(end_now(), 0);
        }
}

/* The store starts as before, or adopting it again ends it; whatever was there is there. */
static void test_cut_off(void **state)
{
        unsigned cut;

        for (cut = CUT_NOTHING; cut < CUTS; cut++) {
                me_free(&etcd);
                me_init(&etcd);
                make_store();
                adopt_up_to((enum cut)cut);
                if (cut < CUT_ONE) {
                        assert_int_equal(open_alone(), 0); /* and goes on */
                        assert_true(sf_wait_health(&sf, all_are_in, NULL, 60));
                        check_objects();
                        assert_int_equal(sf_put(&sf, 0, bucket, key_of(0), 0, size_of(0), true, NULL), 0);
                        sf_close(&sf);
                } else {
                        assert_int_equal(open_alone(), -EINVAL);
                        assert_non_null(strstr(sf.error.text, "cluster adopt"));
                }
                adopt_all();
                assert_memory_equal(view_now()->pools[0].epoch.parent, plan.epoch.id, 16); /* of the newest that the store had */
                assert_int_equal(open_alone(), -EINVAL);
                check_pool_of_etcd();
                assert_int_equal(open_alone(), -EINVAL);
                sf_remove(&sf);
        }
}

static struct eng_term a_term(const struct rem_known *known, const void *arg)
{
        return (struct eng_term){.generation = 1, .revision = 9, .node = 1024 + 1, .boot = 1};
}

/* etcd is lost before a node has led, and after. */
static void test_etcd_is_lost(void **state)
{
        struct eng_error error;
        struct rem_known known;
        unsigned i;

        make_store();
        adopt_all();
        for (i = 0; i < 2; i++) { /* a leader has begun with two of them */
                struct eng_local_options options = {.path = sf.path[i], .identity = drives[i].identity, .log_file_bytes = sf.options.log_file_bytes};

                assert_int_equal(rem_drive_ask(&options, a_term, NULL, (const uint8_t *)"cluster.........", &known, &error), 0);
        }
        me_free(&etcd);
        me_init(&etcd);
        adopt_all();
        assert_true(view_now()->format.generation == 2); /* its drives take no leader of the first one */
        sf_remove(&sf);
        me_free(&etcd);
        me_init(&etcd);
        make_store();
        adopt_all();
        check_pool_of_etcd();
        assert_int_equal(ask_drives(), 0);
        plan_says(DRIVES, 0, "");
        assert_true(plan.is_pool && plan.marked);
        look_says(CL_ADOPT_DONE, "");
        me_free(&etcd);
        me_init(&etcd);
        look_says(-EREMCHG, "reseed");
        sf_remove(&sf);
}

static bool goes_on_with_three(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == DRIVES - 1;
}

/* A drive is away when the node starts for the first time: it holds the epoch from before, and catches up. */
static void test_drive_is_late(void **state)
{
        const struct cl_pool *pool;

        make_store();
        adopt_all();
        pool = cl_view_pool(view_now(), CL_POOL);
        df_serve(&sf, pool->config.store_id, pool->config.epoch, pool->config.epoch_len);
        sf.options.one_machine = false;
        sf.options.site = site;
        sf.options.boot = 1;
        df_service.paths[2] = "";
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, goes_on_with_three, NULL, 60));
        check_objects();
        assert_int_equal(sf_put(&sf, 0, bucket, key_of(1), 1, size_of(1), true, NULL), 0);
        sf_close(&sf);
        df_service.paths[2] = sf.path[2];
        sf.options.boot = 2;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, all_are_in, NULL, 120));
        check_objects();
        sf_close(&sf);
        sf_remove(&sf);
}

/* A running store takes no drive that was marked while it was away. */
static void test_marked_drive_returns(void **state)
{
        struct eng_hot_add_report report;
        struct eng_error error;
        uint64_t number;
        unsigned i;

        make_store();
        assert_int_equal(ask_drives(), 0);
        sf_give(&sf, 0x7);
        assert_int_equal(open_alone(), 0);
        assert_true(sf_wait_ready(&sf, 60));
        assert_int_equal(cl_adopt_mark(&drives[3], 1, &as, &error), 0);
        assert_int_equal(eng_drive_hot_add(sf.store, 3, sf.path[3], false, &number), 0);
        for (i = 0; i < 20000; i++) {
                assert_int_equal(eng_hot_add_read(sf.store, number, &report), 0);
                if (!report.running)
                        break;
                usleep(1000);
        }
        assert_true(!report.running && report.rv == -ENOENT);
        assert_non_null(strstr(report.text, "belongs to a cluster's pool"));
        sf_close(&sf);
        sf_give(&sf, 0xf);
        sf_remove(&sf);
}

/*
 * A disk dies when some or all are marked: the others go on if they are a majority that has all names. It returns, and
 * catches up if it was marked.
 */
static void test_disk_dies_meanwhile(void **state)
{
        const struct cl_pool *pool;
        struct eng_error error;
        uint64_t all = 0;
        unsigned i;

        make_store();
        assert_int_equal(ask_drives(), 0);
        for (i = 0; i < DRIVES; i++)
                all |= 1ull << drives[i].identity.slot;
        assert_int_equal(eng_epoch_is_most(drives[0].known.body, drives[0].known.body_len, all), 1);
        assert_int_equal(eng_epoch_is_most(drives[0].known.body, drives[0].known.body_len, 0x5), 0);
        assert_int_equal(eng_epoch_is_most(drives[0].known.body, 7, all), -EBADMSG);
        assert_int_equal(cl_adopt_mark(drives, 2, &as, &error), 0);
        assert_int_equal(ask_drives(), 0);
        plan_says(2, -ENOENT, "too few"); /* the other two may have gone on alone */
        plan_says(3, -ENOENT, "in none of the folders given"); /* the third is not marked */
        assert_int_equal(cl_adopt_mark(drives, DRIVES, &as, &error), 0);
        assert_int_equal(ask_drives(), 0);
        plan_says(3, 0, "");
        assert_int_equal(plan.missing, 1ull << drives[3].identity.slot);
        assert_int_equal(claim_of(view_now()), 0);
        assert_int_equal(end_now(), 0);
        pool = cl_view_pool(view_now(), CL_POOL);
        df_serve(&sf, pool->config.store_id, pool->config.epoch, pool->config.epoch_len);
        sf.options.one_machine = false;
        sf.options.site = site;
        for (i = 0; i < 2; i++) {
                df_service.paths[3] = i == 0 ? "" : sf.path[3];
                sf.options.boot = i + 1;
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_health(&sf, i == 0 ? goes_on_with_three : all_are_in, NULL, 120));
                check_objects();
                assert_int_equal(sf_put(&sf, 0, bucket, key_of(1), 1, size_of(1), true, NULL), 0);
                sf_close(&sf);
        }
        sf.options.cluster = NULL;
        sf.options.site = (struct eng_site){0};
        sf.options.boot = 0;
        sf_remove(&sf);
}

/* A drive that was out has to be in first. */
static void test_drive_was_out(void **state)
{
        unsigned i;

        make_store();
        for (i = 0; i < 2; i++) {
                sf_give(&sf, i == 0 ? 0x7 : 0xf);
                assert_int_equal(open_alone(), 0);
                assert_true(i == 0 ? sf_wait_ready(&sf, 60) : sf_wait_health(&sf, all_are_in, NULL, 60));
                sf_close(&sf);
                sf_give(&sf, 0xf);
                assert_int_equal(ask_drives(), 0);
                if (i == 0)
                        plan_says(DRIVES, -EINVAL, "slot 3 is not in");
        }
        adopt_all();
        check_pool_of_etcd();
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_plan),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_marks),
                cmocka_unit_test(test_one_node),
                cmocka_unit_test(test_marked_drive_returns),
                cmocka_unit_test_setup_teardown(test_what_etcd_has, loop_and_etcd, no_loop),
                cmocka_unit_test_setup_teardown(test_reseed_was_asked, loop_and_etcd, no_loop),
                cmocka_unit_test_setup_teardown(test_init_meanwhile, loop_and_etcd, no_loop),
                cmocka_unit_test_setup_teardown(test_disk_dies_meanwhile, loop_and_etcd, no_loop),
                cmocka_unit_test_setup_teardown(test_claims, loop_and_etcd, no_loop),
                cmocka_unit_test_setup_teardown(test_cut_off, loop_and_etcd, no_loop),
                cmocka_unit_test_setup_teardown(test_etcd_is_lost, loop_and_etcd, no_loop),
                cmocka_unit_test_setup_teardown(test_drive_is_late, loop_and_etcd, no_loop),
                cmocka_unit_test_setup_teardown(test_drive_was_out, loop_and_etcd, no_loop),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
