/*
 * etcd is written anew: what a node makes of the etcd that it finds, what a plan is made of and refuses, and the command
 * over an etcd in memory, with answers that are lost.
 */
#include "tests/unit/cluster/etcd_fixture.h"

#include "cluster_reseed.h"
#include "engine_folder.h"
#include "tests/lib/memory_etcd.h"

static struct cl_report reports[ENG_DRIVES_MAX];
static struct cl_reseed_found found;
static struct cl_reseed_plan plan;
static const struct cl_reseed_wish nothing;
static uint8_t first[ENG_EPOCH_BODY_MAX];
static size_t first_len;
static const uint8_t store[CL_ID] = "store";

/* Three nodes of two drives, each with the pool's first epoch, and fenced by `found.request`. */
static int three_nodes(void **state)
{
        static uint8_t ids[6][ENG_ID_LEN];
        struct eng_site sites[6];
        struct eng_new_pool pool = {.k = 2, .m = 1, .count = 6, .drive_ids = ids, .sites = sites};
        struct eng_epoch_info info;
        struct eng_error error;
        unsigned i;

        for (i = 0; i < 6; i++) {
                memset(ids[i], (int)i + 1, ENG_ID_LEN);
                sites[i] = (struct eng_site){.node = (uint16_t)(1 + i / 2), .rack = (uint16_t)(1 + i / 2)};
        }
        MUST(eng_pool_make(&pool, first, &first_len, &error) == 0 && eng_epoch_read(first, first_len, &info) == 0);
        memset(reports, 0, sizeof(reports));
        found = (struct cl_reseed_found){.count = 3, .reports = reports, .has_request = true, .request = {.generation = 2, .random = 7}};
        for (i = 0; i < 6; i++) {
                struct cl_report *report = &reports[i / 2];
                struct eng_identity identity = {.slot = i};
                struct rem_known known = {.epoch = 1, .term = {.generation = 1, .revision = 10 + i, .node = 1024 + 2, .boot = 40 + i}, .cluster = "cluster", .body_len = first_len};

                memcpy(known.body, first, first_len);
                memcpy(known.epoch_id, info.id, 16);
                memcpy(identity.drive_id, ids[i], ENG_ID_LEN);
                memcpy(identity.store_id, store, CL_ID);
                report->node = (uint16_t)(1 + i / 2);
                snprintf(report->self.name, sizeof(report->self.name), "n%u", 1 + i / 2);
                snprintf(report->self.address, sizeof(report->self.address), "h:%u", i);
                report->boot = 5;
                report->seen = (struct cl_seen){9, {1, 3}, 100 + i};
                report->fence = (struct cl_generation){2, 7};
                MUST(cl_report_add(report, &identity, &known, true, "") == 0);
        }
        snprintf(reports[1].switches, sizeof(reports[1].switches), "read_only = yes\n");
        return 0;
}

static void plan_now(const struct cl_reseed_wish *wish, int rv)
{
        cl_reseed_plan(&found, wish, &plan);
        if (plan.rv != rv)
                print_message("%d: %s\n", plan.rv, plan.text);
        assert_int_equal(plan.rv, rv);
}

/* Of a report's drives: another epoch, made of the first. */
static void give_epoch(struct cl_report *report, unsigned held, uint64_t number, uint8_t id)
{
        struct cl_held *h = &report->held[held];

        memcpy(report->epochs[0].epoch, first, first_len);
        report->epochs[0].epoch_len = first_len;
        memcpy(report->epochs[0].epoch, &number, sizeof(number)); /* struct fmt_epoch begins with number and id */
        memset(report->epochs[0].epoch + 8, id, CL_ID);
        h->epoch = number;
        memset(h->epoch_id, id, CL_ID);
}

static void test_report(void **state)
{
        static char text[CL_REPORT_MAX];
        static struct cl_report back;
        size_t len = cl_report_write(&reports[1], text);

        assert_true(len > 0);
        assert_int_equal(cl_report_read(text, len, &back), 0);
        assert_memory_equal(back.held, reports[1].held, sizeof(back.held));
        assert_true(back.node == 2 && back.boot == 5 && back.epoch_count == 1 && back.pools == 0 && back.epochs[0].epoch_len == first_len && strcmp(back.switches, "read_only = yes\n") == 0 && back.has_cluster_id);
        assert_memory_equal(back.epochs[0].epoch, first, first_len);
        assert_memory_equal(&back.seen, &reports[1].seen, sizeof(back.seen));
        assert_int_equal(cl_report_read(text, len - 1, &back), -EBADMSG);
        assert_int_equal(cl_report_read("{}", 2, &back), -EBADMSG);
        assert_int_equal(cl_report_read("[]", 2, &back), -EBADMSG);
}

static void test_plan(void **state)
{
        plan_now(&nothing, 0);
        assert_true(plan.fenced && !plan.outdated && plan.pool_count == 1 && plan.pools[0].number == 1 && plan.pools[0].newest == 1 && plan.pools[0].epoch.number == 1 + (1u << 20) &&
                    plan.pools[0].epoch.in == 0x3f && plan.pools[0].given_up == 0);
        assert_true(plan.boots[1] == 5 + CL_RESEED_BOOTS && plan.boots[2] == 45 + CL_RESEED_BOOTS && plan.boots[4] == 0);
        assert_string_equal(plan.switches, "read_only = yes\n");
        assert_true(plan.has_cluster_id && memcmp(plan.cluster_id, "cluster", 7) == 0);
        assert_memory_equal(plan.pools[0].config.store_id, store, CL_ID);
        found.boots[1].boot = 100;
        plan_now(&nothing, 0);
        assert_int_equal(plan.boots[1], 100 + CL_RESEED_BOOTS);
        found.boots[1].boot = plan.boots[1];
        memcpy(found.boots[1].claim, plan.claim, CL_ID); /* this request has put it */
        plan_now(&nothing, 0);
        assert_int_equal(plan.boots[1], 100 + CL_RESEED_BOOTS);
        reports[0].boot = 200; /* a report that came since */
        plan_now(&nothing, 0);
        assert_int_equal(plan.boots[1], 200 + CL_RESEED_BOOTS);
        reports[0].boot = 5;
        found.request.random++; /* an earlier one has */
        plan_now(&nothing, 0);
        assert_int_equal(plan.boots[1], 100 + 2 * CL_RESEED_BOOTS);
        found.count = 0;
        plan_now(&nothing, -EAGAIN);
        found.boots[1].boot = ENG_BOOT_MAX - 2 * CL_RESEED_BOOTS;
        plan_now(&nothing, -EAGAIN);
        found.boots[1].boot = ENG_BOOT_MAX - CL_RESEED_BOOTS; /* reports would not help */
        plan_now(&nothing, -EINVAL);
}

static void test_plan_missing(void **state)
{
        struct cl_reseed_wish wish = {.node_count = 1, .nodes = {3}};

        found.count = 2;
        plan_now(&nothing, -EAGAIN);
        assert_non_null(strstr(plan.text, "4, 5"));
        plan_now(&wish, 0);
        assert_true(plan.pools[0].given_up == 0x30 && plan.pools[0].epoch.in == 0x0f);
        found.count = 3; /* it has reported: it is given up all the same */
        plan_now(&wish, 0);
        assert_int_equal(plan.pools[0].given_up, 0x30);
        snprintf(reports[2].held[1].fault, 20, "damaged");
        plan_now(&nothing, -EAGAIN);
        plan_now(&(struct cl_reseed_wish){.slots = {0, 1u << 5}}, 0);
        assert_int_equal(plan.pools[0].given_up, 0x20);
        plan_now(&(struct cl_reseed_wish){.node_count = 1, .nodes = {4}}, -EINVAL);
        plan_now(&(struct cl_reseed_wish){.slots = {0, 1u << 6}}, -EINVAL);
        plan_now(&(struct cl_reseed_wish){.node_count = 2, .nodes = {2, 3}}, -EINVAL); /* some group has nobody else */
        assert_non_null(strstr(plan.text, "no current member"));
}

static void test_plan_forks(void **state)
{
        give_epoch(&reports[0], 0, 7, 'a');
        plan_now(&nothing, 0);
        assert_int_equal(plan.pools[0].epoch.number, 7 + (1u << 20));
        give_epoch(&reports[2], 0, 7, 'b');
        plan_now(&nothing, -EINVAL);
        assert_non_null(strstr(plan.text, "two histories"));
        plan_now(&(struct cl_reseed_wish){.node_count = 1, .nodes = {3}}, 0);
        assert_int_equal(plan.pools[0].epoch.in, 0x0f);
        /* an older one that the newest drive knows as another */
        give_epoch(&reports[2], 0, 6, 'b');
        reports[0].epochs[0].past[0].number = 6;
        memset(reports[0].epochs[0].past[0].id, 'c', CL_ID);
        reports[0].epochs[0].past_count = 1;
        plan_now(&nothing, -EINVAL);
        memset(reports[0].epochs[0].past[0].id, 'b', CL_ID);
        plan_now(&nothing, 0);
}

static void test_plan_fences(void **state)
{
        reports[1].fence.random = 8; /* an older request's */
        plan_now(&nothing, 0);
        assert_false(plan.fenced);
        reports[1].fence = (struct cl_generation){2, 7};
        reports[1].held[0].fenced = false;
        plan_now(&nothing, 0);
        assert_true(!plan.fenced && !plan.outdated);
        reports[1].held[0].term.generation = 2; /* that is why */
        plan_now(&nothing, 0);
        assert_true(plan.outdated && plan.next.number == 3);
        reports[1].held[0].fenced = true; /* its own fence, from before its node was started again */
        plan_now(&nothing, 0);
        assert_true(plan.fenced && !plan.outdated);
        reports[2].seen.generation.number = 4;
        plan_now(&nothing, 0);
        assert_true(plan.outdated && plan.next.number == 5);
}

/* A store of one machine was adopted, and no node has led it: its drives say nothing of nodes. */
static void test_plan_without_nodes(void **state)
{
        unsigned i, slot;

        for (i = 0; i < 3; i++)
                for (slot = 0; slot < 6; slot++) /* node and rack end each drive's 24 bytes, behind the head's 48 */
                        memset(reports[i].epochs[0].epoch + 48 + slot * 24 + 20, 0, 4);
        plan_now(&nothing, -EAGAIN);
        assert_non_null(strstr(plan.text, "millrace admin cluster adopt"));
        give_epoch(&reports[2], 0, 7, 'a'); /* one that knows more */
        plan_now(&nothing, 0);
        assert_int_equal(plan.pools[0].epoch.number, 7 + (1u << 20));
}

/* ---- two pools ------------------------------------------------------------------------------- */

static const uint8_t second_store[CL_ID] = "second";

/* Each node has a drive of a second pool, too, led by pool 2's processes. */
static int two_pools(void **state)
{
        static uint8_t ids[3][ENG_ID_LEN], body[ENG_EPOCH_BODY_MAX];
        struct eng_site sites[3];
        struct eng_new_pool pool = {.k = 1, .m = 1, .count = 3, .drive_ids = ids, .sites = sites};
        struct eng_epoch_info info;
        struct eng_error error;
        size_t len;
        unsigned i;

        three_nodes(state);
        for (i = 0; i < 3; i++) {
                memset(ids[i], (int)i + 50, ENG_ID_LEN);
                sites[i] = (struct eng_site){.node = (uint16_t)(1 + i), .rack = (uint16_t)(1 + i)};
        }
        MUST(eng_pool_make(&pool, body, &len, &error) == 0 && eng_epoch_read(body, len, &info) == 0);
        for (i = 0; i < 3; i++) {
                struct eng_identity identity = {.slot = i};
                struct rem_known known = {.epoch = 1, .term = {.generation = 1, .revision = 10 + i, .node = 2 * 1024 + 3, .boot = 80 + i}, .cluster = "cluster", .body_len = len};

                memcpy(known.body, body, len);
                memcpy(known.epoch_id, info.id, 16);
                memcpy(identity.drive_id, ids[i], ENG_ID_LEN);
                memcpy(identity.store_id, second_store, CL_ID);
                reports[i].pools = 2;
                MUST(cl_report_add(&reports[i], &identity, &known, true, "") == 0);
        }
        return 0;
}

static void test_report_of_pools(void **state)
{
        static char text[CL_REPORT_MAX];
        static struct cl_report back;
        size_t len = cl_report_write(&reports[1], text);

        assert_int_equal(cl_report_read(text, len, &back), 0);
        assert_true(back.epoch_count == 2 && back.pools == 2 && back.held_count == 3);
        assert_memory_equal(cl_report_epoch_of(&back, store)->epoch, first, first_len);
        assert_memory_equal(cl_report_epoch_of(&back, second_store)->epoch, reports[1].epochs[1].epoch, reports[1].epochs[1].epoch_len);
        assert_null(cl_report_epoch_of(&back, (const uint8_t[CL_ID]){9}));
        assert_int_equal(cl_report_read("{\"more\":[{}]}", 13, &back), -EBADMSG);
}

static void test_plan_pools(void **state)
{
        struct cl_reseed_wish wish = {.slots = {[2] = 1u << 1}};
        unsigned i;

        plan_now(&nothing, 0);
        assert_true(plan.pool_count == 2 && plan.pools[0].number == 1 && plan.pools[1].number == 2 && plan.fenced);
        assert_memory_equal(plan.pools[0].config.store_id, store, CL_ID);
        assert_memory_equal(plan.pools[1].config.store_id, second_store, CL_ID);
        assert_true(plan.pools[0].epoch.slots == 6 && plan.pools[1].epoch.slots == 3 && plan.pools[1].epoch.number == 1 + (1u << 20));
        assert_int_equal(plan.boots[3], 82 + CL_RESEED_BOOTS); /* that leaders of either pool had */
        plan_now(&wish, 0); /* of pool 2 alone */
        assert_true(plan.pools[0].given_up == 0 && plan.pools[1].given_up == 2 && plan.pools[1].epoch.in == 5);
        wish.slots[3] = 1;
        plan_now(&wish, -EINVAL);
        assert_non_null(strstr(plan.text, "no pool 3"));
        plan_now(&(struct cl_reseed_wish){.slots = {[2] = 1u << 4}}, -EINVAL);
        assert_non_null(strstr(plan.text, "pool 2: the pool has no slot 4"));
        plan_now(&(struct cl_reseed_wish){.node_count = 1, .nodes = {3}}, 0);
        assert_true(plan.pools[0].given_up == 0x30 && plan.pools[1].given_up == 4);
        reports[2].held[2].fenced = false;
        plan_now(&nothing, 0);
        assert_false(plan.fenced);
        snprintf(reports[2].held[2].fault, 20, "damaged");
        plan_now(&nothing, -EAGAIN);
        assert_non_null(strstr(plan.text, "pool 2: nothing is known of slots that may have the newest changes: 2 "));
        *reports[2].held[2].fault = '\0';
        for (i = 0; i < 3; i++) /* it was never led: it has a number that is left */
                reports[i].held[2].term = (struct eng_term){0};
        plan_now(&nothing, 0);
        assert_true(plan.pools[1].number == 2 && memcmp(plan.pools[1].store, second_store, CL_ID) == 0);
        for (i = 0; i < 3; i++)
                reports[i].held[0].term = reports[i].held[1].term = reports[i].held[2].term; /* nor does the first */
        plan_now(&nothing, -EAGAIN); /* others may */
        assert_string_equal(plan.text, "the drives of 2 pools that have reported do not say which number their pool had");
}

/* A pool of which nothing is reported is not forgotten. */
static void test_plan_missing_pool(void **state)
{
        unsigned i;

        reports[1].pools = 3;
        plan_now(&nothing, -EAGAIN);
        assert_string_equal(plan.text, "no node has reported a drive of pool 3 yet");
        reports[1].pools = 2;
        for (i = 0; i < 3; i++)
                reports[i].held_count = 2; /* drives of the first pool alone */
        plan_now(&nothing, -EAGAIN);
        assert_string_equal(plan.text, "no node has reported a drive of pool 2 yet");
        two_pools(state);
        for (i = 0; i < 3; i++)
                reports[i].held[2].term.node = 3 * 1024 + 1;
        plan_now(&nothing, -EAGAIN);
        assert_string_equal(plan.text, "no node has reported a drive of pool 2 yet");
        for (i = 0; i < 3; i++)
                reports[i].held[2].term.node = 1024 + 1;
        plan_now(&nothing, -EINVAL);
        assert_string_equal(plan.text, "drives of two stores say that they are of pool 1");
        reports[0].held[2].term.node = 2 * 1024 + 1;
        plan_now(&nothing, -EINVAL);
        assert_non_null(strstr(plan.text, "were led as pool"));
}

static void test_judge(void **state)
{
        static struct cl_view view;
        static struct cl_pool pools[2];
        struct cl_reseed_self self = {.node = 2, .seen = {9, {1, 3}, 100}, .store_count = 1};
        struct cl_format now;

        memcpy(self.stores[0], store, CL_ID);
        memset(&view, 0, sizeof(view));
        memset(pools, 0, sizeof(pools));
        view.pools = pools;
        view.revision = 101;
        assert_int_equal(cl_reseed_judge(&self, 9, &view, &now), CL_RESEED_WAIT); /* empty */
        assert_int_equal(cl_reseed_judge(&(struct cl_reseed_self){.node = 2, .store_count = 1}, 9, &view, &now), CL_RESEED_WAIT);
        assert_int_equal(cl_reseed_judge(&(struct cl_reseed_self){.node = 2}, 9, &view, &now), CL_RESEED_OWN);
        view.has_format = pools[0].has_config = true;
        view.pool_count = pools[0].number = 1;
        view.format = (struct cl_format){.generation = 1, .random = 3};
        memcpy(pools[0].config.store_id, store, CL_ID);
        MUST(eng_epoch_read(first, first_len, &pools[0].epoch) == 0);
        assert_int_equal(cl_reseed_judge(&self, 9, &view, &now), CL_RESEED_OWN);
        assert_int_equal(cl_reseed_judge(&self, 8, &view, &now), CL_RESEED_WAIT);
        view.revision = 99;
        assert_int_equal(cl_reseed_judge(&self, 9, &view, &now), CL_RESEED_WAIT);
        view.revision = 101;
        view.has_request = true;
        view.request = (struct cl_format){.generation = 2, .random = 7};
        assert_int_equal(cl_reseed_judge(&self, 9, &view, &now), CL_RESEED_FENCE);
        assert_int_equal(now.random, 7);
        view.has_request = false;
        self.fence = (struct cl_generation){2, 7}; /* the old etcd is back: too late */
        assert_int_equal(cl_reseed_judge(&self, 9, &view, &now), CL_RESEED_WAIT);
        view.format = (struct cl_format){.generation = 2, .random = 8};
        assert_int_equal(cl_reseed_judge(&self, 8, &view, &now), CL_RESEED_WAIT);
        view.format.random = 7;
        assert_int_equal(cl_reseed_judge(&self, 8, &view, &now), CL_RESEED_TAKE);
        self.fence.number = 0; /* it was away: believed only where nothing counts on it */
        assert_int_equal(cl_reseed_judge(&self, 8, &view, &now), CL_RESEED_WAIT);
        pools[0].epoch.in = 0x33;
        assert_int_equal(cl_reseed_judge(&self, 8, &view, &now), CL_RESEED_TAKE);
        self.store_count = 2; /* it has drives of another pool, too */
        self.stores[1][0] = 77;
        assert_int_equal(cl_reseed_judge(&self, 8, &view, &now), CL_RESEED_WAIT);
        pools[1] = pools[0];
        pools[1].number = view.pool_count = 2;
        memcpy(pools[1].config.store_id, self.stores[1], CL_ID);
        assert_int_equal(cl_reseed_judge(&self, 8, &view, &now), CL_RESEED_TAKE);
        MUST(eng_epoch_read(first, first_len, &pools[1].epoch) == 0); /* which counts on it */
        assert_int_equal(cl_reseed_judge(&self, 8, &view, &now), CL_RESEED_WAIT);
        self.store_count = view.pool_count = 1;
        pools[0].config.store_id[0] ^= 1;
        assert_int_equal(cl_reseed_judge(&self, 8, &view, &now), CL_RESEED_WAIT);
}

/* A node that waits puts each state once: etcd keeps all that was ever put. */
static void test_report_stands(void **state)
{
        static struct cl_report_put put;
        static struct cl_view view;
        uint64_t now = 1, end = 60000 * MS;
        unsigned puts = 0;

        memset(&put, 0, sizeof(put));
        memset(&view, 0, sizeof(view));
        for (; now < end; now += 250 * MS) {
                if (!cl_report_stands(&put, 1023, "state", 5, &view, now)) {
                        puts++;
                        cl_report_was_put(&put, "state", 5, &view, now);
                }
                if (now > 500 * MS) /* the view is older than the answer */
                        view.reported[127] = 0x80;
        }
        assert_int_equal(puts, 1);
        assert_false(cl_report_stands(&put, 1023, "stat", 4, &view, now));
        assert_false(cl_report_stands(&put, 1023, "stale", 5, &view, now));
        assert_false(cl_report_stands(&put, 1022, "state", 5, &view, now));
        view.request_revision = 7; /* it fences, with what it has fenced for already */
        assert_false(cl_report_stands(&put, 1023, "state", 5, &view, now));
        view.request_revision = 0;
        assert_true(cl_report_stands(&put, 1023, "state", 5, &view, now));
        view.reported[127] = 0; /* another etcd: empty */
        assert_false(cl_report_stands(&put, 1023, "state", 5, &view, now));
}

/* ---- the command ----------------------------------------------------------------------------- */

static struct memory_etcd etcd;
static struct cl_reseed reseed;
static sem_t over;

static void reseed_over(struct cl_reseed *r)
{
        sem_post(&over);
}

static void set_fenced(struct cl_report *report, bool fenced)
{
        unsigned i;

        for (i = 0; i < report->held_count; i++)
                report->held[i].fenced = fenced;
}

static void put_report(unsigned i)
{
        static char text[CL_REPORT_MAX];
        char key[CL_KEY_NAME_MAX];

        cl_key_name("c1", CL_KEY_REPORT, reports[i].node, key);
        me_put(&etcd, key, text, cl_report_write(&reports[i], text));
}

static bool becomes_full; /* etcd, when nodes have fenced */

/* Nodes fence when they are asked to. */
static void nodes_fence(void *arg, const char *text)
{
        unsigned i;

        if (strstr(text, "fence") == NULL)
                return;
        for (i = 0; i < found.count; i++) {
                reports[i].fence = (struct cl_generation){reseed.found.request.generation, reseed.found.request.random};
                set_fenced(&reports[i], true);
                put_report(i);
        }
        me_set_full(&etcd, becomes_full);
}

static void start_reseed(struct lp_msg *msg)
{
        cl_reseed(&reseed);
}

static int run_reseed(bool doit)
{
        static struct lp_msg msg = {.run = start_reseed};

        memset(&reseed, 0, sizeof(reseed));
        reseed = (struct cl_reseed){.etcd = &etcd.etcd, .cluster = "c1", .wish = &nothing, .doit = doit, .wait_ms = 3000, .waits = nodes_fence, .done = reseed_over};
        sem_init(&over, 0, 0);
        lp_post(the_loop, &msg);
        wait_for(&over);
        cl_reseed_free(&reseed);
        return reseed.rv;
}

/* An etcd with what the nodes have reported by themselves. */
static void begin_etcd(void)
{
        const struct lp_config config = {.ring_entries = 8};
        unsigned i;

        MUST(lp_loop_new(&config, &the_loop) == 0 && pthread_create(&loop_thread, NULL, loop_thread_main, NULL) == 0);
        me_init(&etcd);
        for (i = 0; i < found.count; i++) {
                reports[i].fence.number = 0;
                set_fenced(&reports[i], false);
                put_report(i);
        }
}

static void end_etcd(void)
{
        me_free(&etcd);
        lp_loop_stop(the_loop);
        pthread_join(loop_thread, NULL);
        lp_loop_free(the_loop);
}

static void put_boot(unsigned node, uint64_t number)
{
        const struct cl_boot boot = {.boot = number, .claim = "another"};
        char key[CL_KEY_NAME_MAX], text[CL_JSON_MAX];

        cl_key_name("c1", CL_KEY_BOOT, node, key);
        me_put(&etcd, key, text, cl_boot_write(&boot, text));
}

static uint64_t boot_in_etcd(unsigned node)
{
        char key[CL_KEY_NAME_MAX];
        const struct cl_request read = {.kind = CL_RANGE, .key = {key, cl_key_name("c1", CL_KEY_BOOT, node, key)}};
        struct cl_answer *answer = me_carry_out(&etcd, &read);
        struct cl_boot boot;

        assert_int_equal(answer->ranges[0].count, 1);
        assert_int_equal(cl_boot_read(answer->ranges[0].at[0].value.data, answer->ranges[0].at[0].value.len, &boot), 0);
        cl_answer_free(answer);
        return boot.boot;
}

/* Answers of changes are lost: of so many, behind so many. */
static void with_answers_lost(unsigned lose, unsigned after, unsigned changes)
{
        char key[CL_KEY_NAME_MAX];

        begin_etcd();
        assert_int_equal(run_reseed(false), 0);
        cl_key_name("c1", CL_KEY_RESEED, 0, key);
        assert_true(me_revision(&etcd, key) == 0 && !reseed.plan.fenced);
        cl_key_name("c1", CL_KEY_LEADER, CL_POOL + 1, key);
        me_put(&etcd, key, "x", 1);
        cl_key_name("c1", CL_KEY_LEADER, CL_POOL, key);
        me_put(&etcd, key, "x", 1);
        etcd.lose_answers = lose;
        etcd.lose_after = after;
        assert_int_equal(run_reseed(true), 0);
        assert_int_equal(etcd.changes, changes);
        assert_int_equal(boot_in_etcd(1), 5 + CL_RESEED_BOOTS);
        assert_int_equal(me_revision(&etcd, key), 0);
        cl_key_name("c1", CL_KEY_REPORT, 1, key);
        assert_int_equal(me_revision(&etcd, key), 0);
        cl_key_name("c1", CL_KEY_CONFIG, CL_POOL, key);
        assert_true(me_revision(&etcd, key) > 0 && reseed.format.generation == 2);
        cl_key_name("c1", CL_KEY_CONFIG, CL_POOL + 1, key);
        assert_int_equal(me_revision(&etcd, key) > 0, reports[0].epoch_count > 1);
        cl_key_name("c1", CL_KEY_LEADER, CL_POOL + 1, key);
        assert_int_equal(me_revision(&etcd, key) > 0, reports[0].epoch_count == 1); /* of no pool that is written */
        assert_int_equal(run_reseed(true), -EAGAIN); /* nobody reports to another run */
        end_etcd();
}

/* The request, numbers of nodes, and all else at once. */
static void test_reseed(void **state)
{
        with_answers_lost(0, 0, 3);
}

static enum cl_node_state state_in_etcd(unsigned node)
{
        char key[CL_KEY_NAME_MAX];
        const struct cl_request read = {.kind = CL_RANGE, .key = {key, cl_key_name("c1", CL_KEY_NODE, node, key)}};
        struct cl_answer *answer = me_carry_out(&etcd, &read);
        struct cl_node found_node;

        assert_int_equal(answer->ranges[0].count, 1);
        assert_int_equal(cl_node_read(answer->ranges[0].at[0].value.data, answer->ranges[0].at[0].value.len, &found_node), 0);
        cl_answer_free(answer);
        return found_node.state;
}

/* A node that was removed, and has kept a drive, has no rights for that. One that has slots of the pool is one of it. */
static void test_removed_stays_removed(void **state)
{
        static const char gone[] = "{\"name\":\"n9\",\"address\":\"h:9\",\"s3\":\"m:1\",\"rack\":1,\"state\":\"gone\",\"boot\":1}";
        char key[CL_KEY_NAME_MAX];
        unsigned node;

        reports[3] = reports[2];
        reports[3].node = 9;
        reports[3].held_count = 0;
        snprintf(reports[3].self.name, sizeof(reports[3].self.name), "n9");
        found.count = 4;
        begin_etcd();
        for (node = 3; node <= 9; node += 6) {
                cl_key_name("c1", CL_KEY_NODE, node, key);
                me_put(&etcd, key, gone, sizeof(gone) - 1);
        }
        assert_int_equal(run_reseed(true), 0);
        assert_int_equal(state_in_etcd(3), CL_NODE_IN);
        assert_int_equal(state_in_etcd(9), CL_NODE_GONE);
        end_etcd();
}

static void test_reseed_pools(void **state)
{
        with_answers_lost(1, 0, 3);
}

static void test_reseed_lost_answer(void **state)
{
        with_answers_lost(1, 2, 3);
}

/* Numbers are put again, and are the same. */
static void test_reseed_lost_numbers(void **state)
{
        with_answers_lost(2, 0, 4);
}

/* ---- a large cluster ------------------------------------------------------------------------- */

#define FORMER 200u /* nodes that are gone: etcd has their boot numbers yet */

/* As many nodes as a pool has slots for, of a drive each. */
static int many_nodes(void **state)
{
        static uint8_t ids[ENG_DRIVES_MAX][ENG_ID_LEN];
        struct eng_site sites[ENG_DRIVES_MAX];
        struct eng_new_pool pool = {.k = 4, .m = 2, .count = ENG_DRIVES_MAX, .drive_ids = ids, .sites = sites};
        struct eng_epoch_info info;
        struct eng_error error;
        unsigned i;

        for (i = 0; i < ENG_DRIVES_MAX; i++) {
                memset(ids[i], (int)i + 1, ENG_ID_LEN);
                sites[i] = (struct eng_site){.node = (uint16_t)(1 + i), .rack = (uint16_t)(1 + i)};
        }
        MUST(eng_pool_make(&pool, first, &first_len, &error) == 0 && eng_epoch_read(first, first_len, &info) == 0);
        memset(reports, 0, sizeof(reports));
        found = (struct cl_reseed_found){.count = ENG_DRIVES_MAX, .reports = reports};
        for (i = 0; i < ENG_DRIVES_MAX; i++) {
                struct eng_identity identity = {.slot = i};
                struct rem_known known = {.epoch = 1, .term = {.generation = 1, .revision = 10, .node = 1024 + 2, .boot = 40}, .cluster = "cluster", .body_len = first_len};

                memcpy(known.body, first, first_len);
                memcpy(known.epoch_id, info.id, 16);
                memcpy(identity.drive_id, ids[i], ENG_ID_LEN);
                memcpy(identity.store_id, store, CL_ID);
                reports[i].node = (uint16_t)(1 + i);
                snprintf(reports[i].self.name, sizeof(reports[i].self.name), "n%u", 1 + i);
                snprintf(reports[i].self.address, sizeof(reports[i].self.address), "h:%u", i);
                reports[i].boot = 5 + i;
                MUST(cl_report_add(&reports[i], &identity, &known, false, "") == 0);
        }
        return 0;
}

static void test_reseed_many(void **state)
{
        char key[CL_KEY_NAME_MAX];
        unsigned i;

        begin_etcd();
        for (i = 0; i < FORMER; i++)
                put_boot(100 + i, 7);
        assert_int_equal(run_reseed(true), 0);
        assert_int_equal(etcd.changes, 2 + (ENG_DRIVES_MAX + FORMER + 30) / 31);
        for (i = 0; i < FORMER; i++)
                assert_int_equal(boot_in_etcd(100 + i), 7 + CL_RESEED_BOOTS);
        for (i = 1; i <= ENG_DRIVES_MAX; i++) {
                assert_int_equal(boot_in_etcd(i), (i == 2 ? 40 : 4 + i) + CL_RESEED_BOOTS);
                cl_key_name("c1", CL_KEY_NODE, i, key);
                assert_true(me_revision(&etcd, key) > 0);
        }
        end_etcd();
}

/* It has no room left: that is said, and the next run goes on from here. */
static void test_reseed_full(void **state)
{
        begin_etcd();
        becomes_full = true;
        assert_int_equal(run_reseed(true), -ENOSPC);
        assert_int_equal(etcd.changes, 1);
        becomes_full = false;
        me_set_full(&etcd, false);
        assert_int_equal(run_reseed(true), 0);
        end_etcd();
}

static const struct cl_etcd_ops *me_ops;
static bool takes_boot;

/* A process that has not noticed the request takes a boot number just before numbers are written. */
static void submit_behind_boot(struct cl_etcd *e, struct cl_request *request)
{
        if (takes_boot && request->kind == CL_TXN && request->compare_count == 1 + 3) {
                takes_boot = false;
                put_boot(2, 9000);
        }
        me_ops->submit(e, request);
}

/* It is not given once more. */
static void test_reseed_boot_taken(void **state)
{
        struct cl_etcd_ops ops;

        begin_etcd();
        me_ops = etcd.etcd.ops;
        ops = *me_ops;
        ops.submit = submit_behind_boot;
        etcd.etcd.ops = &ops;
        takes_boot = true;
        assert_int_equal(run_reseed(true), 0);
        assert_true(!takes_boot && boot_in_etcd(2) == 9000 + CL_RESEED_BOOTS);
        end_etcd();
}

/* What cannot be done is said before a node is asked to fence: nobody would end that. */
static void test_reseed_impossible(void **state)
{
        char key[CL_KEY_NAME_MAX];

        found.count = 0;
        begin_etcd();
        put_boot(3, ENG_BOOT_MAX - 1);
        assert_int_equal(run_reseed(true), -EINVAL);
        cl_key_name("c1", CL_KEY_RESEED, 0, key);
        assert_int_equal(me_revision(&etcd, key), 0);
        end_etcd();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(test_report, three_nodes),      cmocka_unit_test_setup(test_plan, three_nodes),
                cmocka_unit_test_setup(test_plan_missing, three_nodes), cmocka_unit_test_setup(test_plan_forks, three_nodes),
                cmocka_unit_test_setup(test_plan_fences, three_nodes), cmocka_unit_test_setup(test_judge, three_nodes),
                cmocka_unit_test_setup(test_plan_without_nodes, three_nodes),
                cmocka_unit_test_setup(test_report_of_pools, two_pools), cmocka_unit_test_setup(test_plan_pools, two_pools),
                cmocka_unit_test_setup(test_plan_missing_pool, two_pools), cmocka_unit_test_setup(test_reseed_pools, two_pools),
                cmocka_unit_test_setup(test_removed_stays_removed, three_nodes),
                cmocka_unit_test_setup(test_reseed, three_nodes),      cmocka_unit_test_setup(test_reseed_lost_answer, three_nodes),
                cmocka_unit_test_setup(test_reseed_lost_numbers, three_nodes), cmocka_unit_test_setup(test_reseed_many, many_nodes),
                cmocka_unit_test_setup(test_report_stands, three_nodes), cmocka_unit_test_setup(test_reseed_full, three_nodes),
                cmocka_unit_test_setup(test_reseed_boot_taken, three_nodes), cmocka_unit_test_setup(test_reseed_impossible, three_nodes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
