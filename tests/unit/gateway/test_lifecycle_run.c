/*
 * gateway/s3/lifecycle_run.c, lifecycle_page.c, lifecycle_act.c and lifecycle_place.c over an engine
 * whose listings are scripted: what passes ask to be deleted, and what becomes of a pass whose pages
 * fail, or that is cut off. That rules are carried out at all: tests/integration/test_lifecycle.py.
 */
#include "gateway/s3/bucket_texts.h"
#include "gateway/s3/lifecycle_pass.h"
#include "tests/unit/gateway/gateway_fixture.h"

#define RULES(actions)                                                                                                 \
        "<LifecycleConfiguration><Rule><ID>x</ID><Filter><Prefix></Prefix></Filter><Status>Enabled</Status>" actions   \
        "</Rule></LifecycleConfiguration>"
#define EXPIRATION "<Expiration><Days>1</Days></Expiration>"
#define NONCURRENT                                                                                                     \
        "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>"                                              \
        "<NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration>"
#define ABORT                                                                                                          \
        "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>"

static void set_rules(const char *rules)
{
        fake_text_set(GW_TEXT_LIFECYCLE, (struct eng_str){rules, strlen(rules)});
}

static struct gw_lifecycle_stats rule_figures(void)
{
        struct gw_lifecycle_stats stats;

        gw_lifecycle_read(site.gw, &stats);
        return stats;
}

static void add(struct eng_version_entry *out, unsigned *count, const char *key, uint64_t number, bool latest)
{
        assert_true(*count < FAKE_PAGE);
        out[(*count)++] = (struct eng_version_entry){.key = {key, strlen(key)},
                                                     .latest = latest,
                                                     .object = {.mtime_ms = 1000, .version = {.number = number}}};
}

/* ---- what is asked to be deleted ------------------------------------------------------------- */

static int page_of_all_kinds(const struct eng_list_params *params, const struct eng_version *after,
                             struct eng_version_entry *out, unsigned *count, bool *more)
{
        add(out, count, "a", 9, true);
        add(out, count, "a", 8, false);
        add(out, count, "a", 0, false);
        add(out, count, "a", 6, false);
        add(out, count, "b", 5, true);
        out[4].object.marker = true;
        add(out, count, "c", 0, true);
        return 0;
}

static void assert_deleted(unsigned i, const char *key, uint64_t number, enum eng_place place, bool object)
{
        const struct fake_deletion *deletion = &fake.deletions[i];

        assert_string_equal(deletion->key, key);
        assert_true(deletion->by_version && deletion->object == object);
        assert_int_equal(deletion->version.number, number);
        assert_int_equal(deletion->place, place);
}

/* The engine is told which version it was, and where it was among those of its key. */
static void deletions_say_what_was_listed(void **state)
{
        fake.version_page = page_of_all_kinds;
        set_rules(RULES(EXPIRATION NONCURRENT));
        EVENTUALLY(fake_figure(&fake.deletion_count) >= 4);
        assert_deleted(0, "a", 9, ENG_PLACE_NEWEST, true);
        assert_deleted(1, "a", 6, ENG_PLACE_OLDER, false);
        assert_deleted(2, "b", 5, ENG_PLACE_ALONE, false);
        assert_deleted(3, "c", 0, ENG_PLACE_NEWEST, true);
}

/* The first page ends with the null version; by the second one it has another place, before 8. */
static int pages_that_overlap(const struct eng_list_params *params, const struct eng_version *after,
                              struct eng_version_entry *out, unsigned *count, bool *more)
{
        if (after == NULL) {
                add(out, count, "k", 10, true);
                add(out, count, "k", 8, false);
                add(out, count, "k", 0, false);
                add(out, count, "k", 6, false);
                *more = true;
        } else {
                assert(after->number == 0);
                add(out, count, "k", 8, false);
                add(out, count, "k", 6, false);
        }
        return 0;
}

static void versions_given_twice_count_once(void **state)
{
        fake.version_page = pages_that_overlap;
        set_rules(RULES(NONCURRENT));
        EVENTUALLY(fake_figure(&fake.deletion_count) >= 2); /* of two passes */
        assert_deleted(0, "k", 6, ENG_PLACE_OLDER, false);
        assert_deleted(1, "k", 6, ENG_PLACE_OLDER, false);
}

/* ---- pages that fail ------------------------------------------------------------------------- */

static _Atomic unsigned pages_asked;
static _Atomic int page_rv;

static int page_that_fails(const struct eng_list_params *params, const struct eng_version *after,
                           struct eng_version_entry *out, unsigned *count, bool *more)
{
        pages_asked++;
        return page_rv;
}

static void a_page_is_tried_again_then_skipped(void **state)
{
        pages_asked = 0;
        page_rv = -EHOSTDOWN;
        fake.version_page = page_that_fails;
        set_rules(RULES(EXPIRATION ABORT));
        EVENTUALLY(fake_figure(&fake.upload_lists) > 0); /* what does not fail is gone on with */
        assert_true(pages_asked >= 5);
        assert_true(rule_figures().failed >= 5 && rule_figures().skipped > 0);
        EVENTUALLY(rule_figures().passes > 2);
}

static void a_bucket_that_goes_is_left(void **state)
{
        pages_asked = 0;
        page_rv = -EIDRM;
        fake.version_page = page_that_fails;
        set_rules(RULES(EXPIRATION ABORT));
        EVENTUALLY(pages_asked >= 3);
        assert_int_equal(rule_figures().skipped, 0);
        assert_int_equal(fake_figure(&fake.upload_lists), 0);
}

/* ---- passes that are cut off ----------------------------------------------------------------- */

static char asked_from[8]; /* by the first page since it was emptied; under fake.lock */

static void note_from(const struct eng_list_params *params)
{
        pthread_mutex_lock(&fake.lock);
        if (asked_from[0] == '\0')
                snprintf(asked_from, sizeof(asked_from), "<%.*s", (int)params->after.len, params->after.data);
        pthread_mutex_unlock(&fake.lock);
}

static int page_of_nothing(const struct eng_list_params *params, const struct eng_version *after,
                           struct eng_version_entry *out, unsigned *count, bool *more)
{
        note_from(params);
        return 0;
}

static bool place_is_kept(void)
{
        struct eng_text *text;

        return eng_text_get(&fake.store, 1, GW_TEXT_LIFECYCLE_PLACE, &text) == 0;
}

static void set_place(uint64_t generation, const char *rest)
{
        char text[64];
        int len = snprintf(text, sizeof(text), "1 %llu %s", (unsigned long long)generation, rest);

        fake_text_set(GW_TEXT_LIFECYCLE_PLACE, (struct eng_str){text, (size_t)len});
}

static int slow_setup(void **state)
{
        site_day_seconds = 48; /* the first pass begins after two seconds */
        site_open(NULL);
        site_day_seconds = 0;
        return 0;
}

static void begin_with_place(bool of_these_rules, const char *rest, const char *from)
{
        asked_from[0] = '\0';
        fake.version_page = page_of_nothing;
        set_rules(RULES(EXPIRATION));
        set_place(fake.texts[GW_TEXT_LIFECYCLE].generation + !of_these_rules, rest);
        EVENTUALLY(rule_figures().passes == 1);
        assert_string_equal(asked_from, from);
        assert_int_equal(rule_figures().resumed, 1);
        assert_false(place_is_kept());
}

static void a_start_goes_on_where_the_last_pass_was(void **state)
{
        begin_with_place(true, "0 0\nm", "<m");
}

static void other_rules_begin_anew(void **state)
{
        begin_with_place(false, "0 0\nm", "<");
}

static void a_place_without_sense_begins_anew(void **state)
{
        begin_with_place(true, "0 7\nm", "<");
}

/* An endless listing. */
static int page_of_one_more(const struct eng_list_params *params, const struct eng_version *after,
                            struct eng_version_entry *out, unsigned *count, bool *more)
{
        static const char *const keys[] = {"a", "b", "c", "d"};
        unsigned i = params->after.len == 1 ? (unsigned)(params->after.data[0] - 'a') % 3 + 1 : 0;

        note_from(params);
        add(out, count, keys[i], 1, true);
        out[0].object.mtime_ms = lp_wall_ms() + 1000000; /* not due */
        *more = true;
        return 0;
}

static void read_only_cuts_a_pass_off(void **state)
{
        fake.version_page = page_of_one_more;
        set_rules(RULES(EXPIRATION));
        EVENTUALLY(place_is_kept());
        gw_read_only(site.gw, true);
        EVENTUALLY(!rule_figures().running);
        assert_true(place_is_kept() && rule_figures().resumed == 0);
        set_place(fake.texts[GW_TEXT_LIFECYCLE].generation, "0 0\nc");
        pthread_mutex_lock(&fake.lock);
        asked_from[0] = '\0';
        pthread_mutex_unlock(&fake.lock);
        gw_read_only(site.gw, false);
        EVENTUALLY(rule_figures().resumed == 1);
        EVENTUALLY(asked_from[0] != '\0');
        assert_string_equal(asked_from, "<c");
}

static _Atomic unsigned asked_at_once; /* versions of a page */

static int page_of_few(const struct eng_list_params *params, const struct eng_version *after,
                       struct eng_version_entry *out, unsigned *count, bool *more)
{
        asked_at_once = params->max;
        add(out, count, "a", 1, true);
        out[0].object.mtime_ms = lp_wall_ms() + 1000000; /* not due */
        return 0;
}

/* Pages are short while clients work, also where their requests come in at other nodes. */
static void requests_at_other_nodes_count(void **state)
{
        fake.version_page = page_of_few;
        set_rules(RULES(EXPIRATION));
        EVENTUALLY(asked_at_once == LIFECYCLE_PAGE);
        EVENTUALLY((fake_count(&fake.homes_calls, 1), asked_at_once == LIFECYCLE_PAGE_BESIDE));
        EVENTUALLY(asked_at_once == LIFECYCLE_PAGE);
}

static int fast_setup(void **state)
{
        site_day_seconds = 1;
        site_open(NULL);
        site_day_seconds = 0;
        return 0;
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(deletions_say_what_was_listed, fast_setup, site_teardown),
                cmocka_unit_test_setup_teardown(versions_given_twice_count_once, fast_setup, site_teardown),
                cmocka_unit_test_setup_teardown(a_page_is_tried_again_then_skipped, fast_setup, site_teardown),
                cmocka_unit_test_setup_teardown(a_bucket_that_goes_is_left, fast_setup, site_teardown),
                cmocka_unit_test_setup_teardown(a_start_goes_on_where_the_last_pass_was, slow_setup, site_teardown),
                cmocka_unit_test_setup_teardown(other_rules_begin_anew, slow_setup, site_teardown),
                cmocka_unit_test_setup_teardown(a_place_without_sense_begins_anew, slow_setup, site_teardown),
                cmocka_unit_test_setup_teardown(read_only_cuts_a_pass_off, fast_setup, site_teardown),
                cmocka_unit_test_setup_teardown(requests_at_other_nodes_count, fast_setup, site_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
