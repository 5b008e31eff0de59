/*
 * A home store and its leader in one process: objects of all sizes, listings, uploads in parts,
 * configuration; drives that it does not reach or that began anew, answers that are lost, a lease that is
 * over; what a home may not say.
 */
#include <endian.h>
#include <errno.h>
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

#include "engine/object/object.h"
#include "engine/serve/serve.h"
#include "engine_home.h"
#include "tests/lib/home_fixture.h"
#include "tests/lib/store_objects.h"
#include "tests/lib/store_versions.h"
#include "tests/lib/wait.h"

#define SMALL 3000u
#define LARGE (5u << 20)

static struct sf leader;
static struct hf hf;
static uint64_t bucket;

static int begin(void **state)
{
        sf_make(&leader, 5, 2);
        leader.options.inline_max = 16u << 10;
        leader.options.ec_k = leader.options.ec_m = 2;
        assert_int_equal(sf_open(&leader, true), 0);
        assert_true(sf_wait_ready(&leader, 20));
        assert_int_equal(sf_bucket(&leader, "bucket", &bucket), 0);
        hf_open(&hf, &leader, 2);
        return 0;
}

/* More data shards than a short object fills. */
static int begin_wide(void **state)
{
        sf_make(&leader, 5, 2);
        leader.options.inline_max = ENG_INLINE_NONE;
        leader.options.ec_k = 4;
        leader.options.ec_m = 1;
        assert_int_equal(sf_open(&leader, true), 0);
        assert_true(sf_wait_ready(&leader, 20));
        assert_int_equal(sf_bucket(&leader, "bucket", &bucket), 0);
        hf_open(&hf, &leader, 2);
        return 0;
}

static int end(void **state)
{
        hf_close(&hf);
        sf_close(&leader);
        sf_remove(&leader);
        return 0;
}

static void test_objects(void **state)
{
        static const size_t sizes[] = {0, 1, SMALL, 16u << 10, (16u << 10) + 1, 100000, 1u << 20, LARGE};
        char key[32];
        unsigned i, loop;
        bool existed;

        for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                for (loop = 0; loop < 2; loop++) {
                        snprintf(key, sizeof(key), "o/%u-%u", i, loop);
                        assert_int_equal(sf_put(&hf.home, loop, bucket, key, 7 * i + loop, sizes[i], i % 2 == 0, NULL), 0);
                        assert_int_equal(sf_get(&hf.home, 1 - loop, bucket, key, 7 * i + loop, sizes[i]), 0);
                        assert_int_equal(sf_get(&leader, loop, bucket, key, 7 * i + loop, sizes[i]), 0);
                }
        assert_int_equal(sf_put(&leader, 0, bucket, "o/3-1", 99, LARGE, true, NULL), 0);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "o/3-1", 99, LARGE), 0);
        assert_int_equal(sf_delete(&hf.home, 0, bucket, "o/3-1", &existed), 0);
        assert_true(existed);
        assert_int_equal(sf_get(&leader, 0, bucket, "o/3-1", 99, LARGE), -ENOENT);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "o/3-1", 99, LARGE), -ENOENT);
        assert_int_equal(atomic_load(&hf.pins), 0);
}

/* Shards of which nothing was written need no proof that they are durable. */
static void test_empty_shards(void **state)
{
        static const size_t sizes[] = {1, SMALL, 100000};
        struct eng_health health;
        char key[32];
        unsigned i, known;

        for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                for (known = 0; known < 2; known++) {
                        snprintf(key, sizeof(key), "e/%u-%u", i, known);
                        assert_int_equal(sf_put(&hf.home, 0, bucket, key, i, sizes[i], known != 0, NULL), 0);
                        assert_int_equal(sf_get(&leader, 0, bucket, key, i, sizes[i]), 0);
                }
        eng_health_read(leader.store, &health);
        assert_int_equal(health.objects_below, 0);
}

static void test_conditions(void **state)
{
        const struct eng_condition absent = {.if_absent = true}, present = {.if_present = true};

        assert_int_equal(sf_put(&hf.home, 0, bucket, "c", 1, SMALL, true, &present), -ENOENT);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "c", 1, LARGE, true, &absent), 0);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "c", 2, LARGE, true, &absent), -EEXIST);
        assert_int_equal(sf_get(&leader, 0, bucket, "c", 1, LARGE), 0);
        assert_int_equal(sf_put(&hf.home, 0, bucket + 1, "c", 2, SMALL, true, NULL), -EIDRM);
}

static void same_list(const char *prefix, const char *delimiter, const char *after, unsigned max)
{
        bool more, more_there;
        int rv, rv_there;
        char *here = sf_list(&hf.home, 1, bucket, prefix, delimiter, after, max, &rv, &more);
        char *there = sf_list(&leader, 0, bucket, prefix, delimiter, after, max, &rv_there, &more_there);

        assert_int_equal(rv, 0);
        assert_int_equal(rv_there, 0);
        assert_int_equal(more, more_there);
        assert_string_equal(here, there);
        free(here);
        free(there);
}

static void test_lists(void **state)
{
        char key[1000];
        unsigned i;

        memset(key, 'k', sizeof(key)); /* long names: a page takes more than one answer */
        for (i = 0; i < 1200; i++) {
                snprintf(key, 16, "l/%u/%04u", i % 7, i);
                key[strlen(key)] = 'k';
                key[990] = 0;
                assert_int_equal(sf_put(i % 2 == 0 ? &hf.home : &leader, i % 2, bucket, key, i, 10, true, NULL), 0);
        }
        same_list("l/", "", "", 1001);
        same_list("l/", "/", "", 1001);
        same_list("l/", "/", "l/3/", 3);
        same_list("l/4", "", "l/4/0300", 50);
        same_list("", "", "", 1);
        same_list("nothing", "", "", 100);
        same_list("", "/", "", 1000);
}

static unsigned lie;

/* Of the first entry of a page. */
static void spoil_page(uint8_t *page, size_t len)
{
        struct eng_scan_entry e;

        memcpy(&e, page, sizeof(e));
        switch (lie) {
        case 0:
                e.name_len = 3; /* no room for a bucket */
                break;
        case 1:
                e.value_len = sizeof(struct fmt_value); /* not the short form, and not there */
                break;
        case 2:
                e.value_len--;
                break;
        case 3:
                e.flags = 1; /* a prefix, without a delimiter */
                e.value_len = 0;
                break;
        case 4:
                e.size = (uint32_t)len + 8;
                break;
        case 5:
                e.size = 0;
                break;
        case 6:
                page[sizeof(e)]++; /* in another space: behind what was asked for */
                break;
        case 7:
                page[sizeof(e) + e.name_len - 1] = 'z'; /* behind the next name */
                break;
        default:
                return;
        }
        memcpy(page, &e, sizeof(e));
}

/* A leader is not trusted to be right: its pages are held to what was asked. */
static void test_pages_that_lie(void **state)
{
        bool more;
        char *text;
        int rv;

        assert_int_equal(sf_put(&hf.home, 0, bucket, "l/a", 1, 10, true, NULL), 0);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "l/b", 2, 10, true, NULL), 0);
        hf.spoil = spoil_page;
        for (lie = 0; lie <= 8; lie++) {
                text = sf_list(&hf.home, 0, bucket, "l/", "", "", 10, &rv, &more);
                assert_int_equal(rv, lie < 8 ? -EHOSTDOWN : 0);
                assert_string_equal(text, lie < 8 ? "" : "l/a\nl/b\n");
                free(text);
        }
        hf.spoil = NULL;
}

static void test_uploads(void **state)
{
        uint8_t id[ENG_ID_LEN];
        struct eng_complete_part parts[3];
        unsigned i;

        assert_int_equal(sf_upload(&hf.home, bucket, "u", id), 0);
        for (i = 0; i < 3; i++) {
                parts[i].number = i + 1;
                assert_int_equal(sf_part(i == 1 ? &leader : &hf.home, 0, bucket, "u", id, i + 1, 5, i * (size_t)LARGE, LARGE, parts[i].id), 0);
        }
        assert_int_equal(sf_complete(&hf.home, bucket, "u", id, parts, 3), 0);
        assert_int_equal(sf_complete(&hf.home, bucket, "u", id, parts, 3), 0); /* repeated */
        assert_int_equal(sf_get(&hf.home, 0, bucket, "u", 5, 3 * (size_t)LARGE), 0);
        assert_int_equal(sf_get(&leader, 0, bucket, "u", 5, 3 * (size_t)LARGE), 0);
        assert_int_equal(sf_upload(&hf.home, bucket, "u2", id), 0);
        assert_int_equal(sf_upload_abort(&hf.home, bucket, "u2", id), 0);
        assert_int_equal(sf_complete(&hf.home, bucket, "u2", id, parts, 3), -ENOENT);
}

/* What the leader has, and changes that homes have asked for. */
static void test_configuration(void **state)
{
        struct eng_bucket_rules rules = {.versioning = ENG_VERSIONING_ENABLED}, seen;
        struct eng_text *text;
        uint64_t other, gone;

        assert_int_equal(sf_bucket(&leader, "other", &other), 0);
        assert_int_equal(sf_bucket(&leader, "gone", &gone), 0);
        assert_int_equal(sf_text_set(&leader, 0, other, 3, 0, "text", 4), 0);
        assert_int_equal(sf_text_set(&leader, 0, 12345, 200, 0, "entry", 5), 0);
        hf_follow(&hf);
        assert_int_equal(sf_text(&hf.home, 1, other, 3, &text), 0);
        assert_int_equal(eng_text_bytes(text).len, 4);
        eng_text_unref(text);
        assert_int_equal(sf_text(&hf.home, 0, 12345, 200, &text), 0);
        eng_text_unref(text);
        assert_int_equal(sf_rules_set(&hf.home, 0, other, &rules), 0);
        assert_int_equal(sf_text_set(&hf.home, 1, other, 3, ENG_TEXT_ANY, "longer text", 11), 0);
        assert_int_equal(sf_text_set(&hf.home, 1, other, 3, 1, "x", 1), -ESTALE);
        assert_int_equal(sf_text_delete(&hf.home, 0, 12345, 200, ENG_TEXT_ANY), 0);
        assert_int_equal(sf_bucket_delete(&hf.home, "gone"), 0);
        hf_follow(&hf);
        assert_int_equal(sf_rules(&hf.home, 1, "other", &seen), 0);
        assert_int_equal(seen.versioning, ENG_VERSIONING_ENABLED);
        assert_int_equal(sf_text(&hf.home, 0, other, 3, &text), 0);
        assert_int_equal(eng_text_bytes(text).len, 11);
        eng_text_unref(text);
        assert_int_equal(sf_text(&hf.home, 0, 12345, 200, &text), -ENOENT);
        assert_int_equal(sf_rules(&hf.home, 0, "gone", &seen), -ENOENT);
        assert_int_equal(sf_rules(&leader, 0, "gone", &seen), -ENOENT);
        /* a bucket of the same name is another */
        assert_int_equal(sf_bucket_delete(&leader, "other"), 0);
        assert_int_equal(sf_bucket(&leader, "other", &gone), 0);
        hf_follow(&hf);
        assert_int_equal(sf_text(&hf.home, 0, other, 3, &text), -EIDRM);
        assert_int_equal(sf_text(&hf.home, 0, gone, 3, &text), -ENOENT);
}

/* All rows anew, as from a leader that has just begun: what is gone meanwhile goes here, too. */
static void test_all_rows_anew(void **state)
{
        struct eng_bucket_rules seen;
        struct eng_text *text;
        uint64_t id, kept;
        char name[16];
        unsigned i;

        assert_int_equal(sf_bucket(&leader, "kept", &kept), 0);
        assert_int_equal(sf_text_set(&leader, 0, 777, 222, 0, "entry", 5), 0);
        assert_int_equal(sf_text_set(&leader, 0, 778, 222, 0, "entry", 5), 0);
        for (i = 0; i < 5; i++) {
                snprintf(name, sizeof(name), "many-%u", i);
                assert_int_equal(sf_bucket(&leader, name, &id), 0);
                assert_int_equal(sf_text_set(&leader, 0, id, 1, 0, leader.root, sizeof(leader.root)), 0);
        }
        hf_follow(&hf);
        assert_int_equal(sf_bucket_delete(&leader, "many-3"), 0);
        assert_int_equal(sf_text_delete(&leader, 0, 777, 222, ENG_TEXT_ANY), 0);
        memset(hf.reading, 0, sizeof(*hf.reading));
        hf.reading->version = UINT64_MAX;
        hf_follow(&hf);
        assert_int_equal(sf_rules(&hf.home, 1, "many-3", &seen), -ENOENT);
        assert_int_equal(sf_rules(&hf.home, 1, "many-4", &seen), 0);
        assert_int_equal(sf_rules(&hf.home, 0, "kept", &seen), 0);
        assert_int_equal(sf_text(&hf.home, 0, 777, 222, &text), -ENOENT);
        assert_int_equal(sf_text(&hf.home, 0, 778, 222, &text), 0);
        eng_text_unref(text);
}

static void read_digest(void *arg)
{
        struct sf *sf = ((void **)arg)[0];

        eng_home_digest(sf->store, ((void **)arg)[1]);
}

static struct eng_rows_digest digest_of(struct sf *sf)
{
        struct eng_rows_digest digest;

        hf_run(sf->store->coord_loop->loop, read_digest, (void *[]){sf, &digest});
        return digest;
}

static bool same_digest(const struct eng_rows_digest *a, const struct eng_rows_digest *b)
{
        return a->rows == b->rows && a->sum[0] == b->sum[0] && a->sum[1] == b->sum[1];
}

/* The leader's is another than before, by so many rows, and the home's is the same once it has followed. */
static void digest_moves(struct eng_rows_digest *before, int rows)
{
        struct eng_rows_digest now = digest_of(&leader), there = digest_of(&hf.home);

        assert_true(same_digest(before, &there)); /* it has not heard of it */
        assert_int_equal((int64_t)(now.rows - before->rows), rows);
        assert_true(now.sum[0] != before->sum[0] && now.sum[1] != before->sum[1]);
        hf_follow(&hf);
        there = digest_of(&hf.home);
        assert_true(same_digest(&now, &there));
        *before = now;
}

/* Each change makes it another, and the same rows make the same: at a home, and behind a start of the leader. */
static void test_digest(void **state)
{
        struct eng_bucket_rules rules = {.versioning = ENG_VERSIONING_ENABLED};
        struct eng_rows_digest before, first;
        uint64_t one, two;

        hf_follow(&hf);
        first = before = digest_of(&leader);
        assert_int_equal(sf_bucket(&leader, "one", &one), 0);
        digest_moves(&before, 1);
        assert_int_equal(sf_bucket(&leader, "two", &two), 0);
        digest_moves(&before, 1);
        assert_int_equal(sf_rules_set(&leader, 0, one, &rules), 0);
        digest_moves(&before, 0);
        assert_int_equal(sf_text_set(&leader, 0, one, 3, 0, "text", 4), 0);
        digest_moves(&before, 1);
        assert_int_equal(sf_text_set(&leader, 0, one, 3, ENG_TEXT_ANY, "text", 4), 0); /* its generation is another */
        digest_moves(&before, 0);
        assert_int_equal(sf_text_set(&leader, 0, 1, 200, 0, "entry", 5), 0);
        digest_moves(&before, 1);
        assert_int_equal(sf_text_set(&leader, 0, 1, 201, 0, "entry", 5), 0);
        digest_moves(&before, 1);
        assert_int_equal(sf_text_set(&leader, 0, 1, 200, ENG_TEXT_ANY, "other", 5), 0);
        digest_moves(&before, 0);
        assert_int_equal(sf_text_delete(&leader, 0, 1, 201, ENG_TEXT_ANY), 0);
        digest_moves(&before, -1);
        assert_int_equal(sf_bucket_delete(&leader, "two"), 0);
        digest_moves(&before, -1);
        hf_close(&hf);
        sf_close(&leader);
        assert_int_equal(sf_open(&leader, false), 0);
        assert_true(sf_wait_ready(&leader, 20));
        hf_open(&hf, &leader, 2);
        first = digest_of(&leader);
        assert_true(same_digest(&first, &before));
        first = digest_of(&hf.home);
        assert_true(same_digest(&first, &before));
        assert_int_equal(sf_bucket_delete(&leader, "one"), 0); /* its text with it */
        digest_moves(&before, -2);
}

/* A home that has all rows is told so; one that lacks one, or has one more, reads all. What was said counts once. */
static void test_rows_by_digest(void **state)
{
        struct eng_text *before, *after;

        assert_int_equal(sf_text_set(&leader, 0, 777, 222, 0, "entry", 5), 0);
        hf_follow(&hf);
        assert_int_equal(sf_text(&hf.home, 0, 777, 222, &before), 0);
        *hf.reading = (struct eng_home_reading){.version = UINT64_MAX, .says = true, .digest = digest_of(&hf.home)};
        hf_follow(&hf);
        assert_false(hf.reading->says);
        assert_int_equal(sf_text(&hf.home, 0, 777, 222, &after), 0);
        assert_ptr_equal(before, after);
        eng_text_unref(after);
        assert_int_equal(sf_text_set(&leader, 0, 778, 222, 0, "entry", 5), 0); /* the feed goes on from there */
        hf_follow(&hf);
        assert_int_equal(sf_text(&hf.home, 0, 778, 222, &after), 0);
        eng_text_unref(after);
        assert_int_equal(sf_text(&hf.home, 0, 777, 222, &after), 0);
        assert_ptr_equal(before, after);
        eng_text_unref(after);
        *hf.reading = (struct eng_home_reading){.version = UINT64_MAX, .says = true, .digest = digest_of(&hf.home)};
        assert_int_equal(sf_text_delete(&leader, 0, 778, 222, ENG_TEXT_ANY), 0);
        hf_follow(&hf);
        assert_int_equal(sf_text(&hf.home, 0, 778, 222, &after), -ENOENT);
        assert_int_equal(sf_text(&hf.home, 0, 777, 222, &after), 0);
        assert_ptr_not_equal(before, after);
        eng_text_unref(after);
        eng_text_unref(before);
}

/* ---- what is decided by other entries ---- */

struct deciding {
        struct sf *sf;
        uint64_t id;
        struct eng_rows_digest seen;
        const char *text;              /* NULL: it is deleted */
        sem_t done;
        int rv;
};

static void read_seen(void *arg)
{
        struct deciding *d = arg;

        eng_entries_seen(d->sf->store, &d->seen);
}

static void decided(void *arg, int rv)
{
        struct deciding *d = arg;

        d->rv = rv;
        sem_post(&d->done);
}

static void decide(void *arg)
{
        struct deciding *d = arg;

        eng_entry_set(d->sf->store, d->id, 200, ENG_TEXT_ANY, &d->seen, (struct eng_str){d->text, d->text == NULL ? 0 : strlen(d->text)}, decided, d);
}

/* By what was seen last. */
static int entry_set(struct deciding *d, uint64_t id, const char *text)
{
        d->id = id;
        d->text = text;
        sem_init(&d->done, 0, 0);
        hf_run(d->sf->store->coord_loop->loop, decide, d);
        while (sem_wait(&d->done) != 0)
                ;
        sem_destroy(&d->done);
        return d->rv;
}

static void see(struct deciding *d)
{
        hf_run(d->sf->store->coord_loop->loop, read_seen, d);
}

/* Two decide by the same entries: one of them has to decide again, which it can when it has heard of the other's change. */
static void test_decided_by_others(void **state)
{
        struct deciding here = {.sf = &leader}, there = {.sf = &hf.home};
        struct eng_text *text;

        see(&here);
        see(&there);
        assert_int_equal(entry_set(&here, 1, "one"), 0);
        assert_int_equal(entry_set(&there, 2, "two"), -ERESTART);
        see(&there);
        assert_int_equal(entry_set(&there, 2, "two"), -ERESTART); /* it has not heard of it */
        assert_int_equal(sf_text(&leader, 0, 2, 200, &text), -ENOENT);
        hf_follow(&hf);
        see(&there);
        assert_int_equal(entry_set(&there, 2, "two"), 0);
        assert_int_equal(entry_set(&here, 1, NULL), -ERESTART);
        see(&here);
        assert_int_equal(entry_set(&here, 1, NULL), 0);
        assert_int_equal(entry_set(&there, 2, NULL), -ERESTART);
        hf_follow(&hf);
        see(&there);
        assert_int_equal(entry_set(&there, 2, NULL), 0);
        see(&here);
        assert_int_equal(entry_set(&here, 2, NULL), -ENOENT);
        assert_int_equal(sf_text_set(&leader, 0, 3, 201, 0, "x", 1), 0); /* who has not decided by others is not asked */
        assert_int_equal(sf_text_set(&hf.home, 0, 4, 201, 0, "x", 1), 0);
        hf_close(&hf);
        sf_close(&leader);
        assert_int_equal(sf_open(&leader, false), 0);
        assert_true(sf_wait_ready(&leader, 20));
        hf_open(&hf, &leader, 2);
        see(&here); /* what was read at the start is seen, too */
        see(&there);
        assert_int_equal(here.seen.rows, 2);
        assert_true(same_digest(&here.seen, &there.seen));
        assert_int_equal(entry_set(&there, 5, "five"), 0);
}

/* What lacks shards is given them, without anybody's asking. */
static void becomes_whole(void)
{
        struct eng_verify_report report;
        unsigned i;

        for (i = 0; i < WAIT_MOST; i++) {
                assert_true(sf_wait_health(&leader, so_whole, NULL, 60));
                assert_int_equal(eng_verify_start(leader.store), 0);
                do {
                        usleep(10000);
                        eng_verify_read(leader.store, &report);
                } while (report.running);
                assert_int_equal(report.damaged_shards + report.unreadable_objects, 0);
                if (report.missing_shards == 0)
                        return;
                usleep(100000);
        }
        fail();
}

/* Shards that it could not write are given back by the leader. */
struct early {
        bool first, last;
        size_t before, after;
        uint8_t rows[ENG_HOME_ROWS_MAX];
};

static void read_early(void *arg)
{
        struct early *early = arg;
        struct eng_home_reading reading = {.version = UINT64_MAX};
        enum eng_phase phase = leader.store->coord->phase;

        leader.store->coord->phase = ENG_PHASE_CONFIG;
        early->before = eng_home_rows_write(leader.store, &reading, early->rows, &early->first, &early->last);
        leader.store->coord->phase = phase;
        if (!early->first && !early->last)
                early->after = eng_home_rows_write(leader.store, &reading, early->rows, &early->first, &early->last);
}

/* A leader that has not read the configuration itself says nothing of it; the same reading has all of it later. */
static void test_rows_before_the_leader_has_them(void **state)
{
        static struct early early;

        hf_run(leader.store->coord_loop->loop, read_early, &early);
        assert_int_equal(early.before, 0);
        assert_true(early.after > 0 && early.first && early.last);
}

static void test_drive_not_reached(void **state)
{
        unsigned i;

        atomic_store(&hf.unreached, 1u << 1);
        for (i = 0; i < 4; i++)
                assert_int_equal(sf_put(&hf.home, i % 2, bucket, i % 2 == 0 ? "r0" : "r1", i, LARGE, true, NULL), 0);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "r0", 2, LARGE), 0);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "r1", 3, LARGE), 0);
        becomes_whole();
        atomic_store(&hf.unreached, 0);
        for (i = 0; i < 100 * WAIT_MOST && (sf_view(&hf.home).up & 2) == 0; i++)
                usleep(10000);
        assert_true((sf_view(&hf.home).up & 2) != 0);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "r2", 9, LARGE, true, NULL), 0);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "r2", 9, LARGE), 0);
}

/* Too few drives are reached for k + 1 shards: nothing is made. */
static void test_too_few_reached(void **state)
{
        atomic_store(&hf.unreached, 7);
        assert_int_not_equal(sf_put(&hf.home, 0, bucket, "few", 1, LARGE, true, NULL), 0);
        assert_int_equal(sf_get(&leader, 0, bucket, "few", 1, LARGE), -ENOENT);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "few", 1, SMALL, true, NULL), 0); /* its bytes go to the leader */
        atomic_store(&hf.unreached, 0);
}

/* What it has written to is another process now, which answers SYNC though it may have lost all of it. */
static void test_incarnation(void **state)
{
        struct hf_upload u = {.size = 4 * LARGE};
        struct hf_upload v = {.size = 4 * LARGE};

        assert_int_equal(hf_upload_go(&hf, bucket, &u, 3 * LARGE), 0);
        atomic_store(&hf.incarnation, 78);
        u.commits = true;
        assert_int_not_equal(hf_upload_go(&hf, bucket, &u, 4 * LARGE), 0);
        assert_int_equal(sf_get(&leader, 0, bucket, "open", 4, 4 * LARGE), -ENOENT);
        assert_int_equal(hf_upload_go(&hf, bucket, &v, 3 * LARGE), 0);
        v.commits = true;
        assert_int_equal(hf_upload_go(&hf, bucket, &v, 4 * LARGE), 0);
        assert_int_equal(sf_get(&leader, 0, bucket, "open", 4, 4 * LARGE), 0);
}

/* Its shards are discarded, by the leader. */
static void test_aborted(void **state)
{
        struct hf_upload u = {.size = 4 * LARGE};
        uint64_t before = sf_live_bytes(&leader);

        assert_int_equal(hf_upload_go(&hf, bucket, &u, 3 * LARGE), 0);
        WAIT_UNTIL(sf_live_bytes(&leader) >= before + LARGE);
        assert_true(sf_live_bytes(&leader) >= before + LARGE);
        u.aborts = true;
        assert_int_equal(hf_upload_go(&hf, bucket, &u, u.at), 0);
        WAIT_UNTIL(sf_live_bytes(&leader) <= before);
        assert_int_equal(sf_live_bytes(&leader), before);
}

static uint64_t fail_drive(struct eng_store *store, uint64_t slot)
{
        eng_drive_failed(store, (unsigned)slot, store->members[slot].drive, "the test says so");
        return 0;
}

static uint64_t maps_of(struct eng_store *store, uint64_t arg)
{
        const struct eng_placement *map;
        uint64_t n = 0;

        for (map = store->coord->maps; map != NULL; map = map->next)
                n++;
        return n;
}

/* Drives have an epoch that the home has not heard of: what they refuse waits for it, and is not asked again and again. */
static void test_epoch_ahead(void **state)
{
        struct hf_upload u = {.size = 4 * LARGE, .follows = true, .follows_after_ms = 2000};
        unsigned i;

        assert_int_equal(hf_upload_go(&hf, bucket, &u, LARGE), 0);
        sf_ask(&leader, fail_drive, 2);
        for (i = 0; i < 100 * WAIT_MOST && (sf_view(&leader).in & 4) != 0; i++)
                usleep(10000);
        atomic_store(&hf.writes, 0);
        u.commits = true;
        assert_int_equal(hf_upload_go(&hf, bucket, &u, 4 * LARGE), 0);
        assert_int_equal(sf_get(&leader, 0, bucket, "open", 4, 4 * LARGE), 0);
        assert_true(sf_view(&hf.home).epoch == sf_view(&leader).epoch);
        assert_int_equal(sf_ask(&hf.home, maps_of, 0), 1); /* who is in makes no other one */
        assert_in_range(atomic_load(&hf.writes), 20, 250);
}

/* Nobody tells the home of it: after ten seconds the upload is refused, and may be tried again. */
static void test_epoch_unheard_of(void **state)
{
        struct hf_upload u = {.size = 4 * LARGE};
        unsigned i;

        assert_int_equal(hf_upload_go(&hf, bucket, &u, LARGE), 0);
        sf_ask(&leader, fail_drive, 2);
        for (i = 0; i < 100 * WAIT_MOST && (sf_view(&leader).in & 4) != 0; i++)
                usleep(10000);
        u.commits = true;
        assert_int_equal(hf_upload_go(&hf, bucket, &u, 4 * LARGE), -EBUSY);
        assert_int_equal(sf_get(&leader, 0, bucket, "open", 4, 4 * LARGE), -ENOENT);
        hf_follow(&hf);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "open", 4, 4 * LARGE, true, NULL), 0);
}

/* It fails, and another one has all of its shards. */
static void replace_drive(unsigned slot)
{
        struct eng_hot_add_report added;
        uint64_t number;
        char path[256];
        unsigned i;

        sf_ask(&leader, fail_drive, slot);
        for (i = 0; i < 100 * WAIT_MOST && (sf_view(&leader).in & eng_bit(slot)) != 0; i++)
                usleep(10000);
        snprintf(path, sizeof(path), "%s/new%u", leader.root, slot);
        assert_int_equal(mkdir(path, 0755), 0);
        assert_int_equal(eng_drive_hot_add(leader.store, slot, path, true, &number), 0);
        for (i = 0; i < 100 * WAIT_MOST; i++, usleep(10000))
                if (eng_hot_add_read(leader.store, number, &added) == 0 && !added.running)
                        break;
        assert_int_equal(added.rv, 0);
        assert_true(sf_wait_health(&leader, so_whole, NULL, 60));
        hf_follow(&hf);
}

/* A drive is replaced while an upload is under way: what the record names has a proof. */
static void test_replaced_drive(void **state)
{
        struct hf_upload u = {.size = 4 * LARGE, .follows = true};

        assert_int_equal(hf_upload_go(&hf, bucket, &u, 3 * LARGE), 0);
        replace_drive(2);
        u.commits = true;
        assert_int_equal(hf_upload_go(&hf, bucket, &u, 4 * LARGE), 0);
        assert_int_equal(sf_get(&leader, 0, bucket, "open", 4, 4 * LARGE), 0);
        becomes_whole();
}

/* ---- what a home may not say ---- */

struct said {
        struct eng_serving serving; /* first */
        sem_t done;
        int rv;
};

static void said_done(struct eng_serving *s)
{
        struct said *said = (struct said *)s;
        struct eng_call_answer answer;

        assert_int_equal(eng_call_get_answer(s->call.kind, s->answer, s->answer_len, NULL, 0, &answer), 0);
        said->rv = answer.rv;
        sem_post(&said->done);
}

static const _Atomic uint64_t *said_bounds;

/* What the leader answers to a call of node 9, boot 3. */
static int say(const struct eng_call *call)
{
        uint8_t body[ENG_CALL_BODY_MAX];
        struct eng_call_bulk bulk;
        int len = eng_call_put(call, body, &bulk);
        struct said said = {.serving = {.store = leader.store, .body = body, .len = (size_t)len, .done = said_done}};
        size_t bytes = bulk.count == 0 ? 0 : bulk.piece[0].len;
        int rv;

        assert_true(len > 0 && bulk.count <= 1);
        if (bytes > 0) {
                said.serving.bulk = eng_buf_new(bytes);
                memcpy(said.serving.bulk->data, bulk.piece[0].bytes, bytes);
        }
        sem_init(&said.done, 0, 0);
        rv = eng_serve_call(&said.serving, &(struct eng_served_home){.node = 9, .boot = 3, .loops = 2, .bounds = said_bounds});
        if (rv == 0) {
                while (sem_wait(&said.done) != 0)
                        ;
                rv = said.rv;
        }
        sem_destroy(&said.done);
        eng_buf_unref(said.serving.bulk);
        return rv;
}

static void home_id(uint8_t id[FMT_ID], uint16_t node, uint32_t boot)
{
        const uint16_t n = htobe16(node);
        const uint64_t counter = htobe64(eng_id_counter(node, boot, 5));

        memset(id, 0, FMT_ID);
        memcpy(id + 6, &n, 2);
        memcpy(id + 8, &counter, 8);
}

/* A part, or an object, of one run on these slots. */
static struct eng_buf *a_value(uint8_t space, const uint8_t id[FMT_ID], uint32_t pg, unsigned k, const uint8_t slots[4])
{
        uint8_t bytes[sizeof(struct fmt_part) + 4];
        struct fmt_part part = {.number = 1 | FMT_PART_NARROW, .k = (uint8_t)k, .m = 2, .runs = 1, .unit = 4096, .last_unit = 4096, .size = 8192};
        struct eng_value_spec spec = {.space = space, .pg = pg, .size = 8192, .id = id, .parts = bytes, .parts_len = sizeof(bytes), .part_count = 1};

        memcpy(part.id, id, FMT_ID);
        memcpy(bytes, &part, sizeof(part));
        memcpy(bytes + sizeof(part), slots, 4);
        return eng_value_new(&spec);
}

static int say_part(uint16_t node, uint32_t boot, uint32_t pg, unsigned k, uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
        const uint8_t slots[4] = {a, b, c, d};
        struct eng_call call = {.kind = ENG_CALL_PUT, .bucket = bucket, .key = {"liar", 4}, .put = {.is_part = true, .part_number = 1}};
        struct eng_buf *value;
        uint8_t id[FMT_ID];
        int rv;

        home_id(id, node, boot);
        value = a_value(FMT_SPACE_PART, id, pg, k, slots);
        assert_int_equal(eng_value_check(value->data, value->len), 0);
        call.put.value = (struct eng_str){(const char *)value->data, value->len};
        rv = say(&call);
        eng_buf_unref(value);
        return rv;
}

/* An object on the first four slots, of which as many are proven. */
static int say_object(uint32_t pg, unsigned proven)
{
        struct eng_call call = {.kind = ENG_CALL_PUT, .bucket = bucket, .key = {"liar", 4}};
        struct eng_call_proof proofs[4];
        struct eng_buf *value;
        uint8_t id[FMT_ID];
        unsigned i;
        int rv;

        home_id(id, 9, 3);
        value = a_value(FMT_SPACE_OBJECT, id, pg, 2, (const uint8_t[]){0, 1, 2, 3});
        assert_int_equal(eng_value_check(value->data, value->len), 0);
        for (i = 0; i < 4; i++)
                proofs[i] = (struct eng_call_proof){.slot = (uint16_t)i, .drive_key = leader.store->loops[0].view.drive_key[i] + (i >= proven)};
        call.put.value = (struct eng_str){(const char *)value->data, value->len};
        call.put.proofs = (const uint8_t *)proofs;
        call.put.proof_count = 4;
        rv = say(&call);
        eng_buf_unref(value);
        return rv;
}

/* An object's name asks for a version, though the key has a head; and a PUT to such a key fills all that fields may have. */
static void test_liars_about_versions(void **state)
{
        static uint8_t fields[FMT_FIELDS_MAX];
        const struct fmt_field field = {.kind = 999, .len = FMT_FIELDS_MAX - sizeof(field)};
        struct eng_value_spec spec = {.space = FMT_SPACE_OBJECT, .pg = eng_pg_of_key(ENG_PG_COUNT, bucket, "liar", 4), .inline_value = true,
                                      .fields = fields, .fields_len = sizeof(fields)};
        struct eng_call call = {.kind = ENG_CALL_LOOKUP, .lookup.which = ENG_LOOKUP_VERSION};
        struct eng_buf *value;
        uint8_t id[FMT_ID];

        sv_versioning(&leader, bucket, ENG_VERSIONING_ENABLED);
        assert_int_equal(sf_put(&leader, 0, bucket, "liar", 1, SMALL, true, NULL), 0);
        eng_name_object(&call.lookup.name, bucket, "liar", 4);
        assert_int_equal(say(&call), -EBADMSG);
        memcpy(fields, &field, sizeof(field));
        home_id(id, 9, 3);
        spec.id = id;
        value = eng_value_new(&spec);
        assert_int_equal(eng_value_check(value->data, value->len), 0);
        call = (struct eng_call){.kind = ENG_CALL_PUT, .bucket = bucket, .key = {"liar", 4}, .put.value = {(const char *)value->data, value->len}};
        assert_int_equal(say(&call), -EINVAL);
        eng_buf_unref(value);
        assert_int_equal(sf_get(&leader, 0, bucket, "liar", 1, SMALL), 0);
}

static void test_liars(void **state)
{
        static const _Atomic uint64_t past[2] = {1ull << 40, 1ull << 40};
        const uint32_t pg = eng_pg_of_key(ENG_PG_COUNT, bucket, "liar", 4);
        struct eng_call call = {.kind = ENG_CALL_MERGE, .merge = {.max = 1}};

        assert_int_equal(say_part(9, 3, pg, 2, 0, 1, 2, 3), -ENOENT); /* no such upload: it makes sense so far */
        assert_int_equal(say_part(8, 3, pg, 2, 0, 1, 2, 3), -EPERM);  /* another node's id */
        assert_int_equal(say_part(9, 2, pg, 2, 0, 1, 2, 3), -EPERM);  /* another boot's */
        assert_int_equal(say_part(9, 3, pg + 1, 2, 0, 1, 2, 3), -EINVAL);
        assert_int_equal(say_part(9, 3, pg, 2, 0, 1, 2, 2), -EINVAL); /* twice on a slot */
        assert_int_equal(say_part(9, 3, pg, 2, 0, 1, 2, 200), -EINVAL);
        assert_int_equal(say_object(pg, 2), -EBUSY); /* R10: no shard of it could be lost */
        assert_int_equal(say_object(pg, 3), 0);
        eng_name_bucket(&call.merge.from, "bucket");
        eng_name_bucket(&call.merge.to, "bucket");
        assert_int_equal(say(&call), -EPERM); /* the configuration: users and keys are there */
        eng_name_space(&call.merge.from, FMT_SPACE_OBJECT, bucket);
        eng_name_space(&call.merge.to, FMT_SPACE_OBJECT, bucket + 1000);
        assert_int_equal(say(&call), -EPERM);
        call = (struct eng_call){.kind = ENG_CALL_LOOKUP};
        eng_name_bucket(&call.lookup.name, "bucket");
        assert_int_equal(say(&call), -EINVAL);
        call = (struct eng_call){.kind = ENG_CALL_DISCARD, .discard.drives = ~0ull};
        assert_int_equal(say(&call), -EPERM);
        said_bounds = past;
        assert_int_equal(say_part(9, 3, pg, 2, 0, 1, 2, 3), -EPERM); /* it said that it would not name it */
        home_id(call.discard.id, 9, 3);
        assert_int_equal(say(&call), 0); /* an upload has ended, and its bound was told before this came */
        said_bounds = NULL;
        call = (struct eng_call){.kind = ENG_CALL_HINT, .group = UINT32_MAX};
        assert_int_equal(say(&call), 0);
}

static void test_outcome_unknown(void **state)
{
        unsigned i;

        for (i = 0; i < 100 * WAIT_MOST && sf_view(&hf.home).up != 31; i++)
                usleep(10000);
        atomic_store(&hf.lose_answers, true);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "lost", 1, LARGE, true, NULL), -EHOSTDOWN);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "lost", 1, LARGE), -EHOSTDOWN);
        atomic_store(&hf.lose_answers, false);
        assert_int_equal(sf_get(&leader, 0, bucket, "lost", 1, LARGE), 0); /* its shards were not discarded */
        atomic_store(&hf.cut, true);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "cut", 1, LARGE, true, NULL), -EHOSTDOWN);
        atomic_store(&hf.cut, false);
        assert_int_equal(sf_get(&leader, 0, bucket, "cut", 1, LARGE), -ENOENT);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "lost", 1, LARGE), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_objects, begin, end),
                cmocka_unit_test_setup_teardown(test_empty_shards, begin_wide, end),
                cmocka_unit_test_setup_teardown(test_conditions, begin, end),
                cmocka_unit_test_setup_teardown(test_lists, begin, end),
                cmocka_unit_test_setup_teardown(test_pages_that_lie, begin, end),
                cmocka_unit_test_setup_teardown(test_uploads, begin, end),
                cmocka_unit_test_setup_teardown(test_configuration, begin, end),
                cmocka_unit_test_setup_teardown(test_all_rows_anew, begin, end),
                cmocka_unit_test_setup_teardown(test_digest, begin, end),
                cmocka_unit_test_setup_teardown(test_rows_by_digest, begin, end),
                cmocka_unit_test_setup_teardown(test_decided_by_others, begin, end),
                cmocka_unit_test_setup_teardown(test_rows_before_the_leader_has_them, begin, end),
                cmocka_unit_test_setup_teardown(test_drive_not_reached, begin, end),
                cmocka_unit_test_setup_teardown(test_too_few_reached, begin, end),
                cmocka_unit_test_setup_teardown(test_outcome_unknown, begin, end),
                cmocka_unit_test_setup_teardown(test_incarnation, begin, end),
                cmocka_unit_test_setup_teardown(test_aborted, begin, end),
                cmocka_unit_test_setup_teardown(test_epoch_ahead, begin, end),
                cmocka_unit_test_setup_teardown(test_epoch_unheard_of, begin, end),
                cmocka_unit_test_setup_teardown(test_replaced_drive, begin, end),
                cmocka_unit_test_setup_teardown(test_liars, begin, end),
                cmocka_unit_test_setup_teardown(test_liars_about_versions, begin, end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
