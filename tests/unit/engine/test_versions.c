/*
 * Changes of keys with versions (docs/design/versions.md): which rows each leaves, also where members
 * differ, or rows are lost or cannot be read. Two drives that are both members of each group, unless
 * a test says otherwise.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/drive/index.h"
#include "tests/lib/store_versions.h"
#include "tests/lib/wait.h"

#define SMALL  500u /* inline */
#define LARGE  300000u
#define OTHERS 10000u

static const struct eng_version null_version;

static bool all_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == h->drive_count;
}

static bool is_walked(const struct eng_health *h, void *arg)
{
        return all_in(h, arg) && !h->healing;
}

/* Of k + m drives, each of which has all shards and rows that it may. */
static void begin(struct sf *sf, unsigned k, unsigned m, uint64_t *bucket, enum eng_versioning state)
{
        sf_make(sf, k + m, 2);
        sf->keep_version = true;
        sf->options.ec_k = k;
        sf->options.ec_m = m;
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
        sv_versioning(sf, *bucket, state);
}

static void again(struct sf *sf, uint64_t bucket, enum eng_versioning state)
{
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, all_in, NULL, 30));
        sv_versioning(sf, bucket, state);
}

static void end(struct sf *sf)
{
        sf_close(sf);
        sf_remove(sf);
}

static struct eng_version put(struct sf *sf, uint64_t bucket, const char *key, uint64_t seed, size_t size)
{
        assert_int_equal(sf_put(sf, 0, bucket, key, seed, size, true, NULL), 0);
        return sf->put_version;
}

static struct eng_deleted drop(struct sf *sf, uint64_t bucket, const char *key, const struct eng_version *version)
{
        struct eng_deleted deleted;

        assert_int_equal(sv_delete(sf, bucket, key, version, &deleted), 0);
        return deleted;
}

/*
 * The versions of the bucket, newest first: seeds, or 'x' for a marker; '*' before the latest, 'n'
 * behind the null version.
 */
static void assert_listed(struct sf *sf, uint64_t bucket, const char *expected)
{
        struct eng_list_params params = {
                .bucket = bucket, .prefix = {"", 0}, .delimiter = {"", 0}, .after = {"", 0}, .max = 100};
        struct sv_entry *entries = calloc(params.max, sizeof(*entries));
        char text[1000] = "";
        unsigned count, i;
        bool more;

        assert_int_equal(sv_list(sf, &params, NULL, entries, &count, &more), 0);
        for (i = 0; i < count; i++) {
                char one[40];

                assert_int_equal(entries[i].beside, 0); /* a page has a bound */
                if (entries[i].marker)
                        snprintf(one, sizeof(one), "%sx%s ", entries[i].latest ? "*" : "",
                                 entries[i].version.number == 0 ? "n" : "");
                else
                        snprintf(one, sizeof(one), "%s%u%s ", entries[i].latest ? "*" : "", (unsigned)entries[i].seed,
                                 entries[i].version.number == 0 ? "n" : "");
                strcat(text, one);
        }
        assert_string_equal(text, expected);
        free(entries);
}

/* ---- rows of a drive that is not open -------------------------------------------------------- */

/* No member can read it any more. */
static void spoil_row(const struct sf *sf, struct sf_row *row)
{
        const uint32_t state = FMT_STATE_ENCRYPTED; /* a bit that this build does not write */

        memcpy(row->value + offsetof(struct fmt_value, state), &state, sizeof(state));
        sf_put_row(sf, 0, row);
        sf_put_row(sf, 1, row);
}

static void verify(struct sf *sf)
{
        struct eng_verify_report r;

        assert_int_equal(eng_verify_start(sf->store), 0);
        WAIT_UNTIL((eng_verify_read(sf->store, &r), !r.running));
        assert_false(r.running);
        assert_true(sf_wait_health(sf, is_walked, NULL, 30));
}

/* ---- what changes leave ---------------------------------------------------------------------- */

static void test_versions_of_a_key(void **state)
{
        struct eng_extras_change tags = {.set_tags = true, .extras = {.tags = {"tags", 4}}};
        struct eng_version v2, v3, marker;
        struct eng_deleted deleted;
        uint64_t bucket;
        struct sf sf;

        (void)state;
        begin(&sf, 1, 1, &bucket, ENG_VERSIONING_NEVER);
        assert_int_equal(put(&sf, bucket, "key", 1, SMALL).number, 0);
        sv_versioning(&sf, bucket, ENG_VERSIONING_ENABLED);
        v2 = put(&sf, bucket, "key", 2, LARGE);
        v3 = put(&sf, bucket, "key", 3, SMALL);
        assert_true(v3.number > v2.number && v2.number != 0);
        assert_int_equal(sv_extras(&sf, bucket, "key", &v2, &tags), 0);
        assert_listed(&sf, bucket, "*3 2 1n ");
        assert_int_equal(sf_get_version(&sf, bucket, "key", NULL, 3, SMALL), 0);
        assert_int_equal(sf_get_version(&sf, bucket, "key", &v2, 2, LARGE), 0);
        assert_int_equal(sf_get_version(&sf, bucket, "key", &null_version, 1, SMALL), 0);

        deleted = drop(&sf, bucket, "key", NULL);
        assert_true(deleted.existed && deleted.marker && deleted.versioned);
        marker = deleted.version;
        assert_int_equal(sf_get_version(&sf, bucket, "key", NULL, 3, SMALL), -ENOENT);
        assert_listed(&sf, bucket, "*x 3 2 1n ");
        deleted = drop(&sf, bucket, "key", &marker);
        assert_true(deleted.existed && deleted.marker);
        assert_true(drop(&sf, bucket, "key", &v3).existed);
        assert_listed(&sf, bucket, "*2 1n ");
        v3.random[0] ^= 1;
        assert_false(drop(&sf, bucket, "key", &v3).existed);
        assert_true(drop(&sf, bucket, "key", &null_version).existed);
        assert_int_equal(sf_get_version(&sf, bucket, "key", &null_version, 1, SMALL), -ENOENT);
        assert_true(drop(&sf, bucket, "key", &v2).existed);
        assert_listed(&sf, bucket, "");
        assert_int_equal(sf_bucket_delete(&sf, "bucket"), 0);
        end(&sf);
}

/* What lifecycle rules found a version to be, a client may have changed before it is deleted. */
static int delete_at(struct sf *sf, uint64_t bucket, const struct eng_version *version, enum eng_place place, bool object)
{
        struct eng_delete_params params = {
                .bucket = bucket, .key = {"key", 3}, .version = version, .place = place, .object = object};
        struct eng_deleted deleted;

        return sv_delete_with(sf, &params, &deleted);
}

static void test_a_version_in_another_place_stays(void **state)
{
        struct eng_version v2, v3, marker;
        uint64_t bucket;
        struct sf sf;

        (void)state;
        begin(&sf, 1, 1, &bucket, ENG_VERSIONING_NEVER);
        put(&sf, bucket, "key", 1, SMALL);
        assert_int_equal(delete_at(&sf, bucket, &null_version, ENG_PLACE_OLDER, false), -ESTALE);
        sv_versioning(&sf, bucket, ENG_VERSIONING_ENABLED);
        v2 = put(&sf, bucket, "key", 2, SMALL);
        assert_int_equal(delete_at(&sf, bucket, &null_version, ENG_PLACE_NEWEST, true), -ESTALE); /* it was, in a plain row */
        v3 = put(&sf, bucket, "key", 3, SMALL);
        assert_int_equal(delete_at(&sf, bucket, &v2, ENG_PLACE_NEWEST, true), -ESTALE);
        assert_int_equal(delete_at(&sf, bucket, &v3, ENG_PLACE_OLDER, false), -ESTALE);
        assert_int_equal(delete_at(&sf, bucket, &v3, ENG_PLACE_ALONE, false), -ESTALE);
        assert_int_equal(delete_at(&sf, bucket, &v2, ENG_PLACE_ALONE, false), -ESTALE);
        assert_listed(&sf, bucket, "*3 2 1n ");

        assert_int_equal(delete_at(&sf, bucket, &v3, ENG_PLACE_NEWEST, true), 0);
        assert_listed(&sf, bucket, "*x 3 2 1n ");
        assert_int_equal(delete_at(&sf, bucket, &v3, ENG_PLACE_OLDER, false), 0);
        drop(&sf, bucket, "key", NULL);
        drop(&sf, bucket, "key", &v2);
        assert_int_equal(delete_at(&sf, bucket, &null_version, ENG_PLACE_OLDER, false), 0);
        marker = drop(&sf, bucket, "key", NULL).version;
        assert_int_equal(delete_at(&sf, bucket, &marker, ENG_PLACE_ALONE, false), -ESTALE); /* other markers are versions, too */
        assert_listed(&sf, bucket, "*x x x ");
        end(&sf);
}

static void test_a_marker_that_is_alone(void **state)
{
        struct eng_version marker;
        uint64_t bucket;
        struct sf sf;

        (void)state;
        begin(&sf, 1, 1, &bucket, ENG_VERSIONING_SUSPENDED);
        drop(&sf, bucket, "key", NULL);
        assert_int_equal(delete_at(&sf, bucket, &null_version, ENG_PLACE_OLDER, false), -ESTALE);
        assert_int_equal(delete_at(&sf, bucket, &null_version, ENG_PLACE_ALONE, false), 0);
        sv_versioning(&sf, bucket, ENG_VERSIONING_ENABLED);
        marker = drop(&sf, bucket, "key", NULL).version;
        assert_int_equal(delete_at(&sf, bucket, &marker, ENG_PLACE_ALONE, false), 0);
        assert_listed(&sf, bucket, "");
        end(&sf);
}

static void test_the_null_version_is_replaced(void **state)
{
        struct eng_version v1;
        uint64_t bucket;
        struct sf sf;

        (void)state;
        begin(&sf, 1, 1, &bucket, ENG_VERSIONING_ENABLED);
        v1 = put(&sf, bucket, "key", 1, LARGE);
        sv_versioning(&sf, bucket, ENG_VERSIONING_SUSPENDED);
        assert_int_equal(put(&sf, bucket, "key", 2, LARGE).number, 0);
        assert_int_equal(put(&sf, bucket, "key", 3, SMALL).number, 0);
        assert_listed(&sf, bucket, "*3n 1 ");
        assert_true(drop(&sf, bucket, "key", NULL).marker);
        assert_listed(&sf, bucket, "*xn 1 ");
        assert_int_equal(sf_get_version(&sf, bucket, "key", &v1, 1, LARGE), 0);
        assert_int_equal(put(&sf, bucket, "plain", 4, SMALL).number, 0);
        assert_int_equal(put(&sf, bucket, "plain", 5, SMALL).number, 0);
        assert_true(drop(&sf, bucket, "plain", &null_version).existed);
        assert_listed(&sf, bucket, "*xn 1 ");
        end(&sf);
}

/*
 * A head that is met where there should be none counts as in a bucket whose versioning
 * is suspended.
 */
static void test_a_head_under_never(void **state)
{
        struct eng_condition present = {.if_present = true};
        uint64_t bucket;
        struct sf sf;

        (void)state;
        begin(&sf, 1, 1, &bucket, ENG_VERSIONING_ENABLED);
        put(&sf, bucket, "key", 1, SMALL);
        sv_versioning(&sf, bucket, ENG_VERSIONING_NEVER);
        assert_int_equal(sf_put(&sf, 0, bucket, "key", 2, SMALL, true, &present), 0);
        assert_listed(&sf, bucket, "*2n 1 ");
        assert_true(drop(&sf, bucket, "key", NULL).marker);
        assert_listed(&sf, bucket, "*xn 1 ");
        end(&sf);
}

/* ACLs stay with their version, through other changes and a restart, and go to no other write. */
static void test_acls(void **state)
{
        struct eng_extras_change acl = {.set_acl = true, .if_id = true, .extras = {.acl = {"who", 3}}};
        struct eng_extras_change tags = {.set_tags = true, .if_tags = true, .extras = {.tags = {"tags", 4}}};
        struct eng_version v1;
        struct eng_object found;
        static struct sf_row row;
        uint64_t bucket;
        struct sf sf;

        (void)state;
        begin(&sf, 1, 1, &bucket, ENG_VERSIONING_NEVER);
        put(&sf, bucket, "key", 1, SMALL);
        assert_int_equal(sv_extras(&sf, bucket, "key", NULL, &acl), -ESTALE); /* no write has that id */
        acl.if_id = false;
        assert_int_equal(sv_extras(&sf, bucket, "key", NULL, &acl), 0);
        assert_int_equal(sv_extras(&sf, bucket, "key", NULL, &tags), 0);
        assert_int_equal(sv_extras(&sf, bucket, "key", NULL, &tags), -ESTALE); /* it has tags by now, and others than these */
        tags.tags_seen = (struct eng_str){"tag", 3};
        assert_int_equal(sv_extras(&sf, bucket, "key", NULL, &tags), -ESTALE);
        tags.tags_seen = (struct eng_str){"sgat", 4};
        assert_int_equal(sv_extras(&sf, bucket, "key", NULL, &tags), -ESTALE);
        tags.tags_seen = (struct eng_str){"tags", 4};
        assert_int_equal(sv_extras(&sf, bucket, "key", NULL, &tags), 0);
        acl.if_tags = true;
        assert_int_equal(sv_extras(&sf, bucket, "key", NULL, &acl), -ESTALE);
        acl.if_tags = false;
        tags.tags_seen.len = ENG_TAGS_MAX + 1;
        assert_int_equal(sv_extras(&sf, bucket, "key", NULL, &tags), -EINVAL);
        sf_close(&sf);
        assert_true(sv_object_row(&sf, 0, bucket, "key", &row));
        eng_encoded_object(row.value, row.len, &found);
        assert_int_equal(found.acl.len, 3);
        assert_memory_equal(found.acl.data, "who", 3);
        assert_int_equal(found.tags.len, 4);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 30));
        sv_versioning(&sf, bucket, ENG_VERSIONING_ENABLED);
        v1 = put(&sf, bucket, "key", 2, LARGE);
        assert_int_equal(sv_extras(&sf, bucket, "key", &v1, &acl), 0);
        acl.extras.acl.len = 0;
        assert_int_equal(sv_extras(&sf, bucket, "key", &null_version, &acl), 0);
        acl.extras.acl = (struct eng_str){(const char *)row.value, ENG_ACL_MAX + 1};
        assert_int_equal(sv_extras(&sf, bucket, "key", &v1, &acl), -EINVAL);
        assert_listed(&sf, bucket, "*2 1n ");
        end(&sf);
}

static void test_an_unknown_bucket(void **state)
{
        struct eng_extras_change tags = {.set_tags = true};
        struct eng_deleted deleted;
        uint64_t bucket;
        struct sf sf;

        (void)state;
        begin(&sf, 1, 1, &bucket, ENG_VERSIONING_ENABLED);
        assert_int_equal(sf_put(&sf, 0, bucket + 1, "key", 1, SMALL, true, NULL), -EIDRM);
        assert_int_equal(sv_delete(&sf, bucket + 1, "key", NULL, &deleted), -EIDRM);
        assert_int_equal(sv_extras(&sf, bucket + 1, "key", NULL, &tags), -EIDRM);
        end(&sf);
}

static void test_a_bucket_with_markers_is_not_empty(void **state)
{
        static struct sf_row row;
        struct eng_version v1;
        struct eng_deleted marker;
        uint64_t bucket;
        struct sf sf;

        (void)state;
        begin(&sf, 1, 1, &bucket, ENG_VERSIONING_ENABLED);
        marker = drop(&sf, bucket, "key", NULL);
        assert_int_equal(sf_bucket_delete(&sf, "bucket"), -EBUSY);
        v1 = put(&sf, bucket, "key", 1, SMALL);
        drop(&sf, bucket, "key", &marker.version);
        sf_close(&sf);
        assert_true(sv_object_row(&sf, 0, bucket, "key", &row));
        sv_lose_row(&sf, 0, &row); /* both members: a version without a head, which should not be */
        sv_lose_row(&sf, 1, &row);
        assert_true(sv_version_row(&sf, 0, bucket, "key", &v1, &row));
        again(&sf, bucket, ENG_VERSIONING_ENABLED);
        assert_int_equal(sf_bucket_delete(&sf, "bucket"), -EBUSY);
        end(&sf);
}

/* ---- members that differ --------------------------------------------------------------------- */

/*
 * Names that a walk comes to before it finds what a test has done to others: the test
 * is quicker.
 */
static void put_others(struct sf *sf, uint64_t bucket)
{
        char key[16];
        unsigned i;

        for (i = 0; i < OTHERS; i++) {
                snprintf(key, sizeof(key), "a%05u", i);
                put(sf, bucket, key, i, 8);
        }
}

/* In turn each member has lost the version that comes next: it is found on the other one. */
static void test_the_next_version_is_asked_of_two(void **state)
{
        static struct sf_row row;
        unsigned slot;
        struct sf sf;

        (void)state;
        for (slot = 0; slot < 2; slot++) {
                struct eng_version v2, v3;
                uint64_t bucket;

                begin(&sf, 1, 1, &bucket, ENG_VERSIONING_ENABLED);
                put_others(&sf, bucket);
                put(&sf, bucket, "key", 1, SMALL);
                v2 = put(&sf, bucket, "key", 2, SMALL);
                v3 = put(&sf, bucket, "key", 3, SMALL);
                sf_close(&sf);
                assert_true(sv_version_row(&sf, slot, bucket, "key", &v2, &row));
                sv_lose_row(&sf, slot, &row);
                again(&sf, bucket, ENG_VERSIONING_ENABLED);
                assert_true(drop(&sf, bucket, "key", &v3).existed);
                assert_int_equal(sf_get_version(&sf, bucket, "key", NULL, 2, SMALL), 0);
                end(&sf);
        }
}

/*
 * Both members have an old head. The version above the one that is deleted stays, and is
 * the newest.
 */
static void test_an_old_head_is_noticed(void **state)
{
        static struct sf_row old[2];
        struct eng_version v2;
        uint64_t bucket;
        unsigned slot;
        struct sf sf;

        (void)state;
        begin(&sf, 1, 1, &bucket, ENG_VERSIONING_ENABLED);
        put(&sf, bucket, "key", 1, SMALL);
        v2 = put(&sf, bucket, "key", 2, SMALL);
        sf_close(&sf);
        for (slot = 0; slot < 2; slot++)
                assert_true(sv_object_row(&sf, slot, bucket, "key", &old[slot]));
        again(&sf, bucket, ENG_VERSIONING_ENABLED);
        put(&sf, bucket, "key", 3, LARGE);
        sf_close(&sf);
        for (slot = 0; slot < 2; slot++)
                sf_put_row(&sf, slot, &old[slot]);
        again(&sf, bucket, ENG_VERSIONING_ENABLED);
        assert_int_equal(sf_get_version(&sf, bucket, "key", NULL, 2, SMALL), 0);
        assert_true(drop(&sf, bucket, "key", &v2).existed);
        assert_int_equal(sf_get_version(&sf, bucket, "key", NULL, 3, LARGE), 0);
        assert_listed(&sf, bucket, "*3 1 ");
        end(&sf);
}

/* In turn each of two members has the newest version back that was deleted: it is not the next newest one. */
static void test_a_version_that_one_member_has_back_is_not_the_next(void **state)
{
        static struct sf_row row;
        unsigned slot;
        struct sf sf;

        (void)state;
        for (slot = 0; slot < 2; slot++) {
                struct eng_version v2, v3;
                uint64_t bucket;

                begin(&sf, 1, 1, &bucket, ENG_VERSIONING_ENABLED);
                put_others(&sf, bucket);
                put(&sf, bucket, "key", 1, SMALL);
                v2 = put(&sf, bucket, "key", 2, SMALL);
                v3 = put(&sf, bucket, "key", 3, SMALL);
                sf_close(&sf);
                assert_true(sv_version_row(&sf, slot, bucket, "key", &v3, &row));
                again(&sf, bucket, ENG_VERSIONING_ENABLED);
                drop(&sf, bucket, "key", &v3);
                sf_close(&sf);
                sf_put_row(&sf, slot, &row);
                again(&sf, bucket, ENG_VERSIONING_ENABLED);
                assert_true(drop(&sf, bucket, "key", &v2).existed);
                assert_int_equal(sf_get_version(&sf, bucket, "key", NULL, 1, SMALL), 0);
                end(&sf);
        }
}

/*
 * In turn each member has an old head, with a null version that was deleted: no record is built
 * from it.
 */
static void test_heads_are_asked_of_two(void **state)
{
        static struct sf_row old;
        unsigned slot;
        struct sf sf;

        (void)state;
        for (slot = 0; slot < 2; slot++) {
                uint64_t bucket;

                begin(&sf, 1, 1, &bucket, ENG_VERSIONING_NEVER);
                put_others(&sf, bucket);
                put(&sf, bucket, "key", 1, SMALL);
                sv_versioning(&sf, bucket, ENG_VERSIONING_ENABLED);
                put(&sf, bucket, "key", 2, SMALL);
                sf_close(&sf);
                assert_true(sv_object_row(&sf, slot, bucket, "key", &old));
                again(&sf, bucket, ENG_VERSIONING_ENABLED);
                assert_true(drop(&sf, bucket, "key", &null_version).existed);
                sf_close(&sf);
                sf_put_row(&sf, slot, &old);
                again(&sf, bucket, ENG_VERSIONING_ENABLED);
                put(&sf, bucket, "key", 3, SMALL);
                assert_int_equal(sf_get_version(&sf, bucket, "key", &null_version, 1, SMALL), -ENOENT);
                end(&sf);
        }
}

/* In turn each of two members has a version back that was deleted: what the head says decides. */
static void test_the_head_decides_a_tie(void **state)
{
        static struct sf_row row;
        unsigned slot;
        struct sf sf;

        (void)state;
        for (slot = 0; slot < 2; slot++) {
                struct eng_version v2;
                uint64_t bucket;

                begin(&sf, 1, 1, &bucket, ENG_VERSIONING_ENABLED);
                put(&sf, bucket, "key", 1, SMALL);
                v2 = put(&sf, bucket, "key", 2, LARGE);
                sf_close(&sf);
                assert_true(sv_version_row(&sf, slot, bucket, "key", &v2, &row));
                again(&sf, bucket, ENG_VERSIONING_ENABLED);
                drop(&sf, bucket, "key", &v2);
                sf_close(&sf);
                sf_put_row(&sf, slot, &row);
                again(&sf, bucket, ENG_VERSIONING_ENABLED);
                verify(&sf);
                assert_listed(&sf, bucket, "*1 ");
                assert_int_equal(sf_get_version(&sf, bucket, "key", &v2, 2, LARGE), -ENOENT);
                sf_close(&sf);
                assert_false(sv_version_row(&sf, slot, bucket, "key", &v2, &row));
                sf_remove(&sf);
        }
}

/* In turn each of two members has lost a version that the head does not deny: it is given back. */
static void test_a_version_is_given_back(void **state)
{
        static struct sf_row row;
        unsigned slot;
        struct sf sf;

        (void)state;
        for (slot = 0; slot < 2; slot++) {
                struct eng_version v1;
                uint64_t bucket;

                begin(&sf, 1, 1, &bucket, ENG_VERSIONING_ENABLED);
                v1 = put(&sf, bucket, "key", 1, SMALL);
                put(&sf, bucket, "key", 2, LARGE);
                sf_close(&sf);
                assert_true(sv_version_row(&sf, slot, bucket, "key", &v1, &row));
                sv_lose_row(&sf, slot, &row);
                again(&sf, bucket, ENG_VERSIONING_ENABLED);
                verify(&sf);
                assert_int_equal(sf_get_version(&sf, bucket, "key", &v1, 1, SMALL), 0);
                sf_close(&sf);
                assert_true(sv_version_row(&sf, slot, bucket, "key", &v1, &row));
                sf_remove(&sf);
        }
}

/* Most members have lost the newest version: it is gone, and the head names the next one. */
static void test_a_head_is_written_anew(void **state)
{
        static struct sf_row row;
        struct eng_version v2;
        unsigned slot, lost = 0;
        uint64_t bucket;
        struct sf sf;

        (void)state;
        begin(&sf, 2, 2, &bucket, ENG_VERSIONING_ENABLED);
        put(&sf, bucket, "key", 1, SMALL);
        v2 = put(&sf, bucket, "key", 2, SMALL);
        sf_close(&sf);
        for (slot = 0; slot < 4 && lost < 2; slot++) {
                if (!sv_version_row(&sf, slot, bucket, "key", &v2, &row))
                        continue;
                sv_lose_row(&sf, slot, &row);
                lost++;
        }
        again(&sf, bucket, ENG_VERSIONING_ENABLED);
        verify(&sf);
        assert_int_equal(sf_get_version(&sf, bucket, "key", NULL, 1, SMALL), 0);
        assert_listed(&sf, bucket, "*1 ");
        end(&sf);
}

/* All members have lost a version that the head names: a delete of it puts the head right. */
static void test_a_version_that_is_gone_is_deleted(void **state)
{
        static struct sf_row row;
        struct eng_version v1, v2;
        uint64_t bucket;
        unsigned slot;
        struct sf sf;

        (void)state;
        begin(&sf, 1, 1, &bucket, ENG_VERSIONING_ENABLED);
        v1 = put(&sf, bucket, "key", 1, SMALL);
        v2 = put(&sf, bucket, "key", 2, SMALL);
        sf_close(&sf);
        assert_true(sv_version_row(&sf, 0, bucket, "key", &v2, &row));
        for (slot = 0; slot < 2; slot++)
                sv_lose_row(&sf, slot, &row);
        again(&sf, bucket, ENG_VERSIONING_ENABLED);
        assert_false(drop(&sf, bucket, "key", &v2).existed);
        assert_int_equal(sf_get_version(&sf, bucket, "key", NULL, 1, SMALL), 0);
        sf_close(&sf);
        assert_true(sv_version_row(&sf, 0, bucket, "key", &v1, &row));
        for (slot = 0; slot < 2; slot++)
                sv_lose_row(&sf, slot, &row);
        again(&sf, bucket, ENG_VERSIONING_ENABLED);
        drop(&sf, bucket, "key", &v1);
        assert_int_equal(sf_get_version(&sf, bucket, "key", NULL, 1, SMALL), -ENOENT);
        assert_int_equal(sf_bucket_delete(&sf, "bucket"), 0);
        end(&sf);
}

/* V35: all members have lost a version that the head names: who reads the key has the head put right. */
static void test_a_version_that_is_gone_is_noticed(void **state)
{
        static struct sf_row row;
        struct eng_version v1, v2;
        uint64_t bucket;
        unsigned slot;
        struct sf sf;

        (void)state;
        begin(&sf, 1, 1, &bucket, ENG_VERSIONING_ENABLED);
        v1 = put(&sf, bucket, "key", 1, SMALL);
        v2 = put(&sf, bucket, "key", 2, SMALL);
        sf_close(&sf);
        assert_true(sv_version_row(&sf, 0, bucket, "key", &v2, &row));
        for (slot = 0; slot < 2; slot++)
                sv_lose_row(&sf, slot, &row);
        again(&sf, bucket, ENG_VERSIONING_ENABLED);
        WAIT_UNTIL(sf_get_version(&sf, bucket, "key", NULL, 1, SMALL) == 0);
        assert_int_equal(sf_get_version(&sf, bucket, "key", NULL, 1, SMALL), 0);
        assert_listed(&sf, bucket, "*1 ");
        sf_close(&sf);
        assert_true(sv_version_row(&sf, 0, bucket, "key", &v1, &row));
        for (slot = 0; slot < 2; slot++)
                sv_lose_row(&sf, slot, &row);
        again(&sf, bucket, ENG_VERSIONING_ENABLED);
        WAIT_UNTIL(sf_get_version(&sf, bucket, "key", NULL, 1, SMALL) == -ENOENT);
        assert_int_equal(sf_get_version(&sf, bucket, "key", NULL, 1, SMALL), -ENOENT);
        assert_int_equal(sf_bucket_delete(&sf, "bucket"), 0);
        end(&sf);
}

/* ---- rows that nobody can read --------------------------------------------------------------- */

/* The head cannot be read: its versions say what it must have said. */
static void test_an_unreadable_head(void **state)
{
        static struct sf_row row;
        uint64_t bucket;
        struct sf sf;

        (void)state;
        begin(&sf, 1, 1, &bucket, ENG_VERSIONING_NEVER);
        put(&sf, bucket, "key", 1, SMALL);
        sv_versioning(&sf, bucket, ENG_VERSIONING_ENABLED);
        put(&sf, bucket, "key", 2, LARGE);
        put(&sf, bucket, "key", 3, SMALL);
        sf_close(&sf);
        assert_true(sv_object_row(&sf, 0, bucket, "key", &row));
        spoil_row(&sf, &row);
        again(&sf, bucket, ENG_VERSIONING_ENABLED);
        assert_int_equal(sf_get_version(&sf, bucket, "key", NULL, 3, SMALL), -EIO);
        put(&sf, bucket, "key", 4, SMALL);
        assert_listed(&sf, bucket, "*4 3 2 1n ");
        assert_int_equal(sf_get_version(&sf, bucket, "key", NULL, 4, SMALL), 0);
        assert_int_equal(sf_get_version(&sf, bucket, "key", &null_version, 1, SMALL), 0);
        end(&sf);
}

/* The same of a plain object: it can be replaced, unless it may be protected. */
static void test_an_unreadable_object(void **state)
{
        struct eng_bucket_rules locked = {.versioning = ENG_VERSIONING_ENABLED, .lock = true};
        static struct sf_row row;
        struct eng_condition present = {.if_present = true};
        struct eng_deleted deleted;
        uint64_t bucket;
        struct sf sf;

        (void)state;
        begin(&sf, 1, 1, &bucket, ENG_VERSIONING_NEVER);
        put(&sf, bucket, "a", 1, SMALL);
        put(&sf, bucket, "b", 2, SMALL);
        sf_close(&sf);
        assert_true(sv_object_row(&sf, 0, bucket, "a", &row));
        spoil_row(&sf, &row);
        assert_true(sv_object_row(&sf, 0, bucket, "b", &row));
        spoil_row(&sf, &row);
        again(&sf, bucket, ENG_VERSIONING_ENABLED);
        sv_rules(&sf, bucket, &locked);
        assert_int_equal(sf_put(&sf, 0, bucket, "a", 3, SMALL, true, NULL), -EIO);
        assert_int_equal(sv_delete(&sf, bucket, "a", &null_version, &deleted), -EIO);
        sv_versioning(&sf, bucket, ENG_VERSIONING_ENABLED);
        assert_int_equal(sf_put(&sf, 0, bucket, "a", 3, SMALL, true, &present), -EIO);
        put(&sf, bucket, "a", 3, SMALL);
        assert_true(drop(&sf, bucket, "b", &null_version).existed);
        assert_listed(&sf, bucket, "*3 ");
        assert_int_equal(sf_get_version(&sf, bucket, "b", NULL, 2, SMALL), -ENOENT);
        end(&sf);
}

/* ---- protection and room --------------------------------------------------------------------- */

/*
 * What a change would replace is not replaced while it is held, whatever the bucket's rules
 * are now.
 */
static void test_a_held_null_version_stays(void **state)
{
        struct eng_bucket_rules locked = {.versioning = ENG_VERSIONING_SUSPENDED, .lock = true};
        struct eng_extras_change hold = {.set_hold = true, .extras = {.hold = true}};
        struct eng_deleted deleted;
        uint64_t bucket;
        struct sf sf;

        (void)state;
        begin(&sf, 1, 1, &bucket, ENG_VERSIONING_NEVER);
        put(&sf, bucket, "key", 1, SMALL);
        assert_int_equal(sv_extras(&sf, bucket, "key", NULL, &hold), -ENOLCK);
        sv_rules(&sf, bucket, &locked);
        assert_int_equal(sv_extras(&sf, bucket, "key", NULL, &hold), 0);
        sv_versioning(&sf, bucket, ENG_VERSIONING_SUSPENDED);
        assert_int_equal(sf_put(&sf, 0, bucket, "key", 2, SMALL, true, NULL), -EACCES);
        assert_int_equal(sv_delete(&sf, bucket, "key", NULL, &deleted), -EACCES);
        assert_int_equal(sv_delete(&sf, bucket, "key", &null_version, &deleted), -EACCES);
        sv_versioning(&sf, bucket, ENG_VERSIONING_NEVER);
        assert_int_equal(sv_delete(&sf, bucket, "key", NULL, &deleted), -EACCES);
        sv_rules(&sf, bucket, &locked); /* with lock, versioning is enabled, whatever it says */
        assert_int_not_equal(put(&sf, bucket, "key", 3, SMALL).number, 0);
        assert_listed(&sf, bucket, "*3 1n ");
        sv_versioning(&sf, bucket, ENG_VERSIONING_SUSPENDED);
        assert_int_equal(sf_put(&sf, 0, bucket, "key", 4, SMALL, true, NULL), -EACCES);
        assert_int_equal(sv_delete(&sf, bucket, "key", NULL, &deleted), -EACCES);
        assert_int_equal(sf_get_version(&sf, bucket, "key", &null_version, 1, SMALL), 0);
        sv_rules(&sf, bucket, &locked);
        hold.extras.hold = false;
        assert_int_equal(sv_extras(&sf, bucket, "key", &null_version, &hold), 0);
        sv_versioning(&sf, bucket, ENG_VERSIONING_SUSPENDED);
        put(&sf, bucket, "key", 4, SMALL);
        assert_listed(&sf, bucket, "*4n 3 ");
        end(&sf);
}

static bool is_full(const struct eng_health *h, void *arg)
{
        return h->ready && h->full;
}

/* Only what frees something is done in a full store. */
static void test_a_full_store(void **state)
{
        static struct sf_row row;
        struct fmt_value found;
        struct eng_extras_change tags = {.set_tags = true};
        struct eng_version v1;
        struct eng_deleted deleted;
        uint64_t bucket;
        struct sf sf;

        (void)state;
        begin(&sf, 1, 1, &bucket, ENG_VERSIONING_ENABLED);
        v1 = put(&sf, bucket, "key", 1, SMALL);
        sv_versioning(&sf, bucket, ENG_VERSIONING_NEVER);
        put(&sf, bucket, "plain", 2, SMALL);
        sf_close(&sf);
        sf.options.full_reserve_bytes = 1ull << 60;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, is_full, NULL, 30));
        sv_versioning(&sf, bucket, ENG_VERSIONING_ENABLED);
        assert_int_equal(sv_delete(&sf, bucket, "key", NULL, &deleted), -ENOSPC);
        assert_int_equal(sv_delete(&sf, bucket, "plain", NULL, &deleted), -ENOSPC);
        assert_int_equal(sv_extras(&sf, bucket, "key", NULL, &tags), -ENOSPC);
        assert_int_equal(sv_delete(&sf, bucket, "key", &v1, &deleted), 0);
        assert_listed(&sf, bucket, "*2n ");
        sf_close(&sf);
        assert_true(sv_object_row(&sf, 0, bucket, "plain", &row)); /* nor has it been converted */
        memcpy(&found, row.value, sizeof(found));
        assert_int_equal(found.state, 0);
        sf_remove(&sf);
}

/* ---- uploads --------------------------------------------------------------------------------- */

/* The same answer as before, though other versions have come since. */
static void test_a_repeated_complete(void **state)
{
        struct eng_complete_part one = {.number = 1}, other = {.number = 1};
        uint8_t id[ENG_ID_LEN], part_id[ENG_ID_LEN];
        struct eng_version made;
        uint64_t bucket;
        struct sf sf;

        (void)state;
        begin(&sf, 1, 1, &bucket, ENG_VERSIONING_ENABLED);
        put(&sf, bucket, "key", 1, SMALL);
        assert_int_equal(sf_upload(&sf, bucket, "key", id), 0);
        assert_int_equal(sf_part(&sf, 0, bucket, "key", id, 1, 7, 0, LARGE, part_id), 0);
        memcpy(one.id, part_id, ENG_ID_LEN);
        assert_int_equal(sf_complete(&sf, bucket, "key", id, &one, 1), 0);
        made = sf.put_version;
        put(&sf, bucket, "key", 2, SMALL);
        drop(&sf, bucket, "key", NULL);
        assert_int_equal(sf_complete(&sf, bucket, "key", id, &one, 1), 0);
        assert_int_equal(sf.put_version.number, made.number);
        assert_int_equal(sf_complete(&sf, bucket, "key", id, &other, 1), -EINVAL);
        drop(&sf, bucket, "key", &made);
        assert_int_equal(sf_complete(&sf, bucket, "key", id, &one, 1), -ENOENT);
        end(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_versions_of_a_key),
                cmocka_unit_test(test_a_version_in_another_place_stays),
                cmocka_unit_test(test_a_marker_that_is_alone),
                cmocka_unit_test(test_the_null_version_is_replaced),
                cmocka_unit_test(test_a_head_under_never),
                cmocka_unit_test(test_an_unknown_bucket),
                cmocka_unit_test(test_a_bucket_with_markers_is_not_empty),
                cmocka_unit_test(test_the_next_version_is_asked_of_two),
                cmocka_unit_test(test_an_old_head_is_noticed),
                cmocka_unit_test(test_a_version_that_one_member_has_back_is_not_the_next),
                cmocka_unit_test(test_heads_are_asked_of_two),
                cmocka_unit_test(test_the_head_decides_a_tie),
                cmocka_unit_test(test_a_version_is_given_back),
                cmocka_unit_test(test_a_head_is_written_anew),
                cmocka_unit_test(test_a_version_that_is_gone_is_deleted),
                cmocka_unit_test(test_a_version_that_is_gone_is_noticed),
                cmocka_unit_test(test_an_unreadable_head),
                cmocka_unit_test(test_an_unreadable_object),
                cmocka_unit_test(test_a_held_null_version_stays),
                cmocka_unit_test(test_a_full_store),
                cmocka_unit_test(test_acls),
                cmocka_unit_test(test_a_repeated_complete),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
