/*
 * An object with a stripe beyond repair (rebuild.c, lost_objects.c): all its other stripes are
 * repaired, what is left of that one stays, and it is counted and named. Stripes are of 2+2 units
 * of 1 MiB.
 */
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ec.h"
#include "engine/drive/local.h"
#include "engine/upkeep/lost_objects.h"
#include "engine/upkeep/rebuild.h"
#include "engine/object/object.h"
#include "tests/lib/fd_faults.h"
#include "tests/lib/store_objects.h"

#define UNIT    (1u << 20)
#define STRIPE  (2u * UNIT)
#define STRIPES 6u
#define SIZE    (STRIPES * STRIPE)
#define SEED    77u
#define ALIGNED 4096u

/* ---- damage ---------------------------------------------------------------------------------- */

/* The payload of a shard of the object with this seed. */
static void expect_shard(uint64_t seed, unsigned stripe, unsigned shard, uint8_t *out)
{
        uint8_t *units = malloc(4 * UNIT);
        const uint8_t *data[2] = {units, units + UNIT};
        uint8_t *parity[2] = {units + 2 * UNIT, units + 3 * UNIT};
        struct era_code *code;

        assert_non_null(units);
        sf_fill(units, seed, (uint64_t)stripe * STRIPE, STRIPE);
        assert_int_equal(era_code_new(2, 2, &code), 0);
        era_encode(code, UNIT, data, parity);
        era_code_free(code);
        memcpy(out, units + shard * UNIT, UNIT);
        free(units);
}

/* Spoils the payload wherever it stands in a file: reclaim may have left dead copies. */
static bool spoil_in(const char *path, const uint8_t *payload)
{
        int fd = open(path, O_RDWR);
        uint8_t start[256], byte;
        struct stat st = {0};
        bool found = false;
        off_t at;

        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        for (at = 0; at + UNIT <= st.st_size; at += ALIGNED) {
                assert_int_equal(pread(fd, start, sizeof(start), at), sizeof(start));
                if (memcmp(start, payload, sizeof(start)) != 0)
                        continue;
                found = true;
                assert_int_equal(pread(fd, &byte, 1, at + UNIT / 2), 1);
                byte = ~byte;
                assert_int_equal(pwrite(fd, &byte, 1, at + UNIT / 2), 1);
        }
        close(fd);
        return found;
}

static bool spoil_on(const struct sf *sf, unsigned drive, const uint8_t *payload)
{
        const struct dirent *entry;
        bool found = false;
        char path[512];
        DIR *dir;

        snprintf(path, sizeof(path), "%s/data", sf->path[drive]);
        dir = opendir(path);
        assert_non_null(dir);
        while ((entry = readdir(dir)) != NULL) {
                if (entry->d_name[0] == '.')
                        continue;
                snprintf(path, sizeof(path), "%s/data/%s", sf->path[drive], entry->d_name);
                found |= spoil_in(path, payload);
        }
        closedir(dir);
        return found;
}

/* The store is closed. Returns the drive that the shard is on. */
static unsigned spoil(const struct sf *sf, uint64_t seed, unsigned stripe, unsigned shard)
{
        uint8_t *payload = malloc(UNIT);
        unsigned drive = 0;

        assert_non_null(payload);
        expect_shard(seed, stripe, shard, payload);
        while (drive < sf->drives && !spoil_on(sf, drive, payload))
                drive++;
        free(payload);
        assert_true(drive < sf->drives);
        return drive;
}

/* Two of the three shards that there are of a stripe; data units, if it has both. */
static void spoil_two(const struct sf *sf, unsigned stripe)
{
        uint8_t *payload = malloc(UNIT);
        unsigned shard, drive, n = 0;

        assert_non_null(payload);
        for (shard = 0; shard < 4 && n < 2; shard++) {
                expect_shard(SEED, stripe, shard, payload);
                for (drive = 0; drive < sf->drives; drive++)
                        n += spoil_on(sf, drive, payload);
        }
        free(payload);
        assert_int_equal(n, 2);
}

/* ---- stores ---------------------------------------------------------------------------------- */

static void begin_on(struct sf *sf, unsigned drives, unsigned loops, uint64_t *bucket)
{
        sf_make(sf, drives, loops);
        sf->options.ec_k = sf->options.ec_m = 2;
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
        assert_int_equal(sf_put(sf, 0, *bucket, "key", SEED, SIZE, true, NULL), 0);
        sf_close(sf);
}

static void begin(struct sf *sf, unsigned drives, uint64_t *bucket)
{
        begin_on(sf, drives, 2, bucket);
}

static bool at_rest(const struct eng_health *h, void *arg)
{
        return so_whole(h, arg) && !h->collecting_orphans;
}

static void begin_again(struct sf *sf)
{
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, at_rest, NULL, 60));
}

static struct eng_verify_report *verify(struct sf *sf)
{
        static struct eng_verify_report report;

        assert_int_equal(eng_verify_start(sf->store), 0);
        do {
                usleep(1000);
                eng_verify_read(sf->store, &report);
        } while (report.running);
        return &report;
}

static uint64_t lost_objects(struct sf *sf)
{
        struct eng_health *h = malloc(sizeof(*h));
        uint64_t n;

        assert_non_null(h);
        eng_health_read(sf->store, h);
        n = h->lost_objects;
        free(h);
        return n;
}

static int get_stripe(struct sf *sf, uint64_t bucket, unsigned stripe)
{
        return sf_get_range(sf, stripe % 2, bucket, "key", SEED, SIZE, (uint64_t)stripe * STRIPE, STRIPE);
}

/* All but this stripe. */
static void get_others(struct sf *sf, uint64_t bucket, unsigned lost)
{
        unsigned stripe;

        for (stripe = 0; stripe < STRIPES; stripe++)
                assert_int_equal(get_stripe(sf, bucket, stripe), stripe == lost ? -EIO : 0);
        assert_int_equal(sf_get(sf, 0, bucket, "key", SEED, SIZE), -EIO);
}

/* ---- repairs that a test asks for ------------------------------------------------------------ */

/* owner: test until posted, then loop 0 until ended */
struct repair {
        struct lp_msg msg;
        struct lp_timer timer;
        struct sf *sf;
        struct eng_name name;
        struct eng_rebuild *rebuild;
        struct eng_rebuild_bad bad;       /* one that is said to be, which makes it read the part */
        uint64_t cancel_after;         /* ns; 0: not at all */
        bool rested;                   /* before it, the object was known to be lost, and to be left alone */
        int rv;
        struct eng_rebuild_written written;
        sem_t ended;
};

static void repaired(void *arg, int rv, struct eng_rebuild_written written)
{
        struct repair *r = arg;

        if (r->cancel_after != 0)
                lp_timer_stop(r->sf->loops[0], &r->timer);
        r->rebuild = NULL;
        r->rv = rv;
        r->written = written;
        sem_post(&r->ended);
}

static void cancel_repair(struct lp_timer *timer)
{
        eng_rebuild_cancel(container_of(timer, struct repair, timer)->rebuild);
}

static void opened(void *arg, int rv, struct eng_get *get)
{
        struct repair *r = arg;
        struct eng_rebuild_order order = {.name = &r->name, .bad = &r->bad, .bad_count = 1};
        struct eng_part part;
        size_t pos = 0;

        assert_int_equal(rv, 0);
        assert_int_equal(eng_value_next_part(eng_get_value(get)->data, eng_get_value(get)->len, &pos, &part), 1);
        assert_int_equal(part.head.unit, UNIT);
        memcpy(r->bad.id, part.head.id, FMT_ID);
        r->rested = eng_lost_object_rests(&r->sf->store->loops[0], eng_value_head(eng_get_value(get)->data)->id, UINT64_MAX);
        eng_get_close(get);
        if (r->cancel_after != 0) {
                r->timer.expired = cancel_repair;
                lp_timer_start(r->sf->loops[0], &r->timer, r->cancel_after);
        }
        r->rebuild = eng_rebuild_start(r->sf->store, &order, repaired, r);
        assert_non_null(r->rebuild);
}

static void begin_repair(struct lp_msg *msg)
{
        struct repair *r = (struct repair *)msg;
        uint64_t bucket;

        memcpy(&bucket, r->name.data + 1, sizeof(bucket));
        eng_get_open(r->sf->store, be64toh(bucket), (struct eng_str){"key", 3}, NULL, opened, r);
}

static void repair(struct repair *r)
{
        sem_init(&r->ended, 0, 0);
        r->msg.run = begin_repair;
        lp_post(r->sf->loops[0], &r->msg);
        while (sem_wait(&r->ended) != 0)
                ;
        sem_destroy(&r->ended);
}

static struct repair *new_repair(struct sf *sf, uint64_t bucket, uint32_t stripe, uint8_t shard)
{
        struct repair *r = calloc(1, sizeof(*r));

        assert_non_null(r);
        r->sf = sf;
        r->bad.stripe = stripe;
        r->bad.shard = shard;
        eng_name_object(&r->name, bucket, "key", 3);
        return r;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/*
 * The first stripe, the last one, and one between are beyond repair in turn; a stripe before it and
 * one behind it lack a shard.
 */
static void lost_at(unsigned lost)
{
        unsigned before = (lost + STRIPES - 1) % STRIPES, behind = (lost + 1) % STRIPES, shard;
        struct eng_lost_object *named = malloc(sizeof(*named));
        struct eng_verify_report *report;
        uint64_t bucket, number = 0;
        struct sf sf;
        bool existed;

        assert_non_null(named);
        begin(&sf, 4, &bucket);
        for (shard = 0; shard < 3; shard++)
                spoil(&sf, SEED, lost, shard);
        spoil(&sf, SEED, before, 1);
        spoil(&sf, SEED, behind, 3);
        begin_again(&sf);

        report = verify(&sf);
        assert_int_equal(report->damaged_shards + report->missing_shards, 5);
        assert_int_equal(report->repaired_shards, 2);
        assert_int_equal(report->unreadable_objects, 1);
        assert_int_equal(lost_objects(&sf), 1);
        assert_true(eng_lost_object_next(sf.store, &number, named));
        assert_string_equal(named->bucket, "bucket");
        assert_int_equal(named->key_len, 3);
        assert_memory_equal(named->key, "key", 3);
        get_others(&sf, bucket, lost);

        report = verify(&sf); /* nothing else is amiss */
        assert_int_equal(report->damaged_shards + report->missing_shards, 3);
        assert_int_equal(report->repaired_shards, 0);
        assert_int_equal(lost_objects(&sf), 1);
        sf_close(&sf);

        spoil(&sf, SEED, before, 0); /* a stripe that is damaged later is repaired, too */
        begin_again(&sf);
        report = verify(&sf);
        assert_int_equal(report->damaged_shards + report->missing_shards, 4);
        assert_int_equal(report->repaired_shards, 1);
        get_others(&sf, bucket, lost);
        assert_int_equal(sf_delete(&sf, 0, bucket, "key", &existed), 0);
        sf_close(&sf);
        sf_remove(&sf);
        free(named);
}

static void test_all_other_stripes(void **state)
{
        lost_at(0);
        lost_at(2);
        lost_at(STRIPES - 1);
}

/* No two stripes after the other can be read; then none at all. */
static void test_many_stripes(void **state)
{
        struct eng_verify_report *report;
        unsigned stripe, shard;
        uint64_t bucket;
        struct sf sf;

        begin(&sf, 4, &bucket);
        for (shard = 1; shard < 4; shard++) {
                spoil(&sf, SEED, 1, shard);
                spoil(&sf, SEED, 2, shard);
                spoil(&sf, SEED, 4, shard);
        }
        spoil(&sf, SEED, 3, 2);
        spoil(&sf, SEED, 5, 0);
        begin_again(&sf);
        report = verify(&sf);
        assert_int_equal(report->damaged_shards + report->missing_shards, 11);
        assert_int_equal(report->repaired_shards, 2);
        assert_int_equal(lost_objects(&sf), 1);
        for (stripe = 0; stripe < STRIPES; stripe++)
                assert_int_equal(get_stripe(&sf, bucket, stripe), stripe == 1 || stripe == 2 || stripe == 4 ? -EIO : 0);
        sf_close(&sf);

        for (shard = 1; shard < 4; shard++) {
                spoil(&sf, SEED, 0, shard);
                spoil(&sf, SEED, 3, shard);
                spoil(&sf, SEED, 5, shard);
        }
        begin_again(&sf);
        report = verify(&sf);
        assert_int_equal(report->damaged_shards + report->missing_shards, 18);
        assert_int_equal(report->repaired_shards, 0);
        for (stripe = 0; stripe < STRIPES; stripe++)
                assert_int_equal(sf_get_range(&sf, 0, bucket, "key", SEED, SIZE, (uint64_t)stripe * STRIPE, UNIT), 0);
        assert_int_equal(lost_objects(&sf), 1);
        sf_close(&sf);
        sf_remove(&sf);
}

static bool is_removed(const struct eng_health *h, void *arg)
{
        return h->drives_removed == 1 && at_rest(h, NULL);
}

/*
 * A drive leaves that has the last unit of a lost stripe which can be read: that unit goes with the
 * others, and the drive is free to go.
 */
static void test_a_drive_leaves(void **state)
{
        struct eng_verify_report *report;
        uint64_t bucket, number;
        unsigned shard, drive;
        struct sf sf;

        begin(&sf, 5, &bucket);
        for (shard = 1; shard < 4; shard++)
                spoil(&sf, SEED, 2, shard);
        drive = spoil(&sf, SEED, 4, 0); /* a stripe of the same run, so the same drives */
        begin_again(&sf);
        assert_int_equal(sf_get_range(&sf, 0, bucket, "key", SEED, SIZE, 2 * STRIPE, UNIT), 0);
        assert_int_equal(eng_drive_remove(sf.store, drive, &number), 0);
        assert_true(sf_wait_health(&sf, is_removed, NULL, 60));
        assert_int_equal(lost_objects(&sf), 1);
        assert_int_equal(sf_get_range(&sf, 0, bucket, "key", SEED, SIZE, 2 * STRIPE, UNIT), 0);
        get_others(&sf, bucket, 2);
        report = verify(&sf);
        assert_int_equal(report->damaged_shards + report->missing_shards, 3);
        sf_close(&sf);
        sf_remove(&sf);
}

static bool heal_failed(struct sf *sf)
{
        struct eng_heal_report *reports = malloc(2 * sizeof(*reports));
        bool failed;

        assert_non_null(reports);
        eng_heal_read(sf->store, &reports[0], &reports[1]);
        failed = reports[0].failed_objects != 0;
        free(reports);
        return failed;
}

/*
 * The same, but reads of that drive hang: the unit is given up, and with it the buffer, which the
 * kernel has. The repair ends there, and is tried again.
 */
static void test_a_late_drive_leaves(void **state)
{
        struct fd_faults faults;
        uint64_t bucket, number;
        unsigned shard, drive, tries, i;
        char part[256];
        struct sf sf;

        begin(&sf, 5, &bucket);
        for (shard = 1; shard < 4; shard++)
                spoil(&sf, SEED, 2, shard);
        drive = spoil(&sf, SEED, 4, 0);
        begin_again(&sf);
        for (i = 0; i < sf.loop_count; i++)
                sf.store->loops[i].home.read_times.least_ns = 3600ull * 1000 * 1000 * 1000; /* nothing is asked for elsewhere for being late */
        assert_int_equal(sf_get_range(&sf, 0, bucket, "key", SEED, SIZE, 2 * STRIPE, UNIT), 0); /* opens its segments for reading */
        eng_local_of(sf.store->members[drive].local)->io_limit_ns = 3000000000ull;
        snprintf(part, sizeof(part), "%s/data/", sf.path[drive]);
        fd_faults_hang(&faults, part);
        assert_int_equal(eng_drive_remove(sf.store, drive, &number), 0);
        for (tries = 0; tries < 600 && !heal_failed(&sf); tries++)
                usleep(100000);
        assert_true(heal_failed(&sf));
        fd_faults_end(&faults);
        assert_true(sf_wait_health(&sf, is_removed, NULL, 120));
        get_others(&sf, bucket, 2);
        sf_close(&sf);
        sf_remove(&sf);
}

/* owner: test until posted, then loop 0 until ended */
struct misled {
        struct lp_msg msg;
        struct sf *sf;
        struct eng_digest *digests;
        sem_t ended;
        unsigned refused, begun;
        unsigned out;
};

static void misled_rebuilt(void *arg, int rv, struct eng_rebuild_written written)
{
        struct misled *m = arg;

        if (--m->out == 0)
                sem_post(&m->ended);
}

/* Keys of all groups, by one loop. */
static void mislead(struct lp_msg *msg)
{
        struct misled *m = (struct misled *)msg;
        struct eng_name name;
        struct eng_rebuild_order order = {.name = &name, .digests = m->digests};
        char key[16];
        unsigned i;

        m->out = 1;
        for (i = 0; i < 32; i++) {
                snprintf(key, sizeof(key), "no %u", i);
                eng_name_object(&name, 1, key, strlen(key));
                m->out++;
                if (eng_rebuild_start(m->sf->store, &order, misled_rebuilt, m) == NULL) {
                        m->refused++;
                        m->out--;
                } else {
                        m->begun++;
                }
        }
        misled_rebuilt(m, 0, (struct eng_rebuild_written){0});
}

/*
 * A value may say that it is of another group than its name is: who walks that group on that
 * group's loop is refused the repair.
 */
static void test_another_loops_object(void **state)
{
        struct misled m = {.out = 0};
        uint64_t bucket;
        struct sf sf;

        begin(&sf, 4, &bucket);
        begin_again(&sf);
        m.sf = &sf;
        m.digests = calloc(ENG_DRIVES_MAX, sizeof(*m.digests));
        assert_non_null(m.digests);
        sem_init(&m.ended, 0, 0);
        m.msg.run = mislead;
        lp_post(sf.loops[0], &m.msg);
        while (sem_wait(&m.ended) != 0)
                ;
        assert_true(m.refused > 0 && m.begun > 0);
        sem_destroy(&m.ended);
        sf_close(&sf);
        sf_remove(&sf);
        free(m.digests);
}

/*
 * An object was written while a drive was out: of one stripe two more shards are gone. Upkeep gives
 * all others theirs, and is done with it.
 */
static void test_upkeep_is_done_with_it(void **state)
{
        const struct eng_verify_report *report;
        uint64_t bucket;
        unsigned stripe;
        struct sf sf;

        sf_make(&sf, 4, 2);
        sf.options.ec_k = sf.options.ec_m = 2;
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        sf_close(&sf);
        sf_give(&sf, 0xe);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_put(&sf, 0, bucket, "key", SEED, SIZE, true, NULL), 0);
        sf_close(&sf);
        sf_give(&sf, 0xf);
        spoil_two(&sf, 3);
        begin_again(&sf);
        assert_int_equal(lost_objects(&sf), 1);
        assert_false(heal_failed(&sf));
        report = verify(&sf);
        assert_int_equal(report->damaged_shards, 2);
        assert_int_equal(report->missing_shards, 1); /* the one that there never was */
        assert_int_equal(report->unreadable_objects, 1);
        for (stripe = 0; stripe < STRIPES; stripe++)
                assert_int_equal(get_stripe(&sf, bucket, stripe) == 0, stripe != 3 || report->damaged_shards == 0);
        sf_close(&sf);

        sf_give(&sf, 0x3); /* what it has written is needed, and is there */
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        for (stripe = 0; stripe < STRIPES; stripe++)
                if (stripe != 3)
                        assert_int_equal(get_stripe(&sf, bucket, stripe), 0);
        sf_close(&sf);
        sf_remove(&sf);
}

/* Two shards of a stripe are damaged, and a drive with another is away: that is no loss. */
static void test_away_is_not_lost(void **state)
{
        struct repair *r;
        uint64_t bucket;
        unsigned drive;
        struct sf sf;

        begin(&sf, 4, &bucket);
        spoil(&sf, SEED, 2, 1);
        spoil(&sf, SEED, 2, 2);
        drive = spoil(&sf, SEED, 4, 3);
        sf_give(&sf, 0xfu & ~(1u << drive));
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        r = new_repair(&sf, bucket, 4, 3);
        repair(r);
        assert_true(r->rv == -EIO || r->rv == -EHOSTDOWN);
        assert_int_equal(lost_objects(&sf), 0);
        sf_close(&sf);

        sf_give(&sf, 0xf);
        begin_again(&sf);
        assert_int_equal(verify(&sf)->unreadable_objects, 0);
        assert_int_equal(verify(&sf)->damaged_shards, 0);
        assert_int_equal(lost_objects(&sf), 0);
        assert_int_equal(sf_get(&sf, 0, bucket, "key", SEED, SIZE), 0);
        sf_close(&sf);
        sf_remove(&sf);
        free(r);
}

/*
 * Whatever a repair is at when it is cancelled, it ends once, holds nothing, and the next one does
 * all that is left.
 */
static void test_cancelled(void **state)
{
        const struct eng_verify_report *report;
        unsigned cancelled = 0, shard;
        uint64_t bucket, ns;
        struct repair *r;
        struct sf sf;

        begin_on(&sf, 4, 1, &bucket); /* a repair is cancelled on its own loop */
        for (shard = 0; shard < 3; shard++)
                spoil(&sf, SEED, 2, shard);
        spoil(&sf, SEED, 3, 0);
        begin_again(&sf);
        r = new_repair(&sf, bucket, 3, 0);
        for (ns = 20000; ns < 40u * 1000 * 1000; ns += ns / 6) {
                r->cancel_after = ns;
                repair(r);
                assert_true(r->rv == -ECANCELED || r->rv == -ENODATA);
                cancelled += r->rv == -ECANCELED;
        }
        assert_true(cancelled > 0);
        r->cancel_after = 0;
        repair(r);
        assert_int_equal(r->rv, -ENODATA);
        assert_int_equal(r->written.shards, 1);
        repair(r);
        assert_true(r->rested);
        assert_int_equal(r->written.bytes, UNIT);
        assert_int_equal(lost_objects(&sf), 1);
        assert_int_equal(sf_get_range(&sf, 0, bucket, "key", SEED, SIZE, 3 * STRIPE, 3 * STRIPE), 0);
        report = verify(&sf);
        assert_int_equal(report->damaged_shards + report->missing_shards, 3);
        sf_close(&sf);
        sf_remove(&sf);
        free(r);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_other_stripes),
                cmocka_unit_test(test_many_stripes),
                cmocka_unit_test(test_a_drive_leaves),
                cmocka_unit_test(test_a_late_drive_leaves),
                cmocka_unit_test(test_another_loops_object),
                cmocka_unit_test(test_upkeep_is_done_with_it),
                cmocka_unit_test(test_away_is_not_lost),
                cmocka_unit_test(test_cancelled),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
