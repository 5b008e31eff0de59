/*
 * lifecycle_run.c - passes over the buckets that have lifecycle rules: versions and uploads that
 * are due go, by the same calls as clients' requests.
 *
 * All on the gateway's first loop. A pass goes through buckets in order of name, through the
 * prefixes that their rules name, page by page; of a page at most LIFECYCLE_AT_ONCE changes are
 * under way (I9). After each page it rests as long as the page took, so that half of the loop and of
 * the drives are left. Where clients send requests meanwhile, changes come in waves instead, at a steady
 * pace: between two waves the drives have nothing of it to do. A pass begins an hour after the last has
 * ended.
 *
 * Nothing is deleted on what a listing said alone: a deletion names the version, its place among
 * those of its key, and time, size and ETag of what was listed, and the engine compares them under
 * the key's lock. What is protected by object lock stays, as for clients. A pass that is cut off
 * goes on near where it was (lifecycle_place.c).
 */
#include "gateway/s3/lifecycle_run.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/s3/lifecycle_pass.h"

#define SECOND_NS     1000000000ull
#define FIRST_NS      (60 * SECOND_NS) /* after the start, so that the store is up */
#define PASSES_A_DAY  24u
#define REST_LEAST_NS 1000000ull

static void lifecycle_bucket(struct gw_lifecycle *run);

/* ---- rests ----------------------------------------------------------------------------------- */

static void lifecycle_rested(struct lp_timer *timer)
{
        struct gw_lifecycle *run = container_of(timer, struct gw_lifecycle, timer);

        run->after_rest(run);
}

void gw_lifecycle_rest(struct gw_lifecycle *run, uint64_t ns, void (*then)(struct gw_lifecycle *run))
{
        run->after_rest = then;
        run->timer.expired = lifecycle_rested;
        lp_timer_start(run->loop, &run->timer, ns);
}

void gw_lifecycle_rest_a_page(struct gw_lifecycle *run, void (*then)(struct gw_lifecycle *run))
{
        uint64_t took = (run->beside ? run->page_listed : lp_now(run->loop)) - run->page_began;

        gw_lifecycle_rest(run, took > REST_LEAST_NS ? took : REST_LEAST_NS, then);
}

uint64_t gw_lifecycle_part_of_day(const struct gw_lifecycle *run, unsigned parts)
{
        return run->day_seconds * SECOND_NS / parts;
}

/* ---- what holds ------------------------------------------------------------------------------ */

bool gw_lifecycle_may(const struct gw_lifecycle *run)
{
        return !run->left && !atomic_load(&run->gw->drain) && !atomic_load(&run->gw->read_only);
}

bool gw_lifecycle_rules_hold(const struct gw_lifecycle *run)
{
        struct eng_text *text;

        return eng_text_get(run->gw->store, run->bucket, GW_TEXT_LIFECYCLE, &text) == 0 &&
               eng_text_generation(text) == eng_text_generation(run->text);
}

bool gw_lifecycle_is_due(const struct gw_lifecycle *run, const struct s3_lifecycle_due *due)
{
        return due->action != S3_LIFECYCLE_NOTHING && due->at_ms <= lp_wall_ms() && due->at_ms <= eng_lock_now(run->gw->store);
}

bool gw_lifecycle_back(struct gw_lifecycle *run)
{
        assert(run->under_way > 0);
        run->under_way--;
        if (run->left && run->under_way == 0)
                gw_lifecycle_free(run);
        else if (!run->left)
                return true;
        return false;
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* Before recovery no bucket is known: a pass would find nothing, and end. */
static bool store_is_up(const struct gw_lifecycle *run)
{
        const struct eng_bucket *bucket;

        return eng_bucket_get(run->gw->store, (struct eng_str){"", 0}, &bucket) != -EHOSTDOWN;
}

static uint64_t first_rest(const struct gw_lifecycle *run)
{
        uint64_t every = gw_lifecycle_part_of_day(run, PASSES_A_DAY);

        return every < FIRST_NS ? every : FIRST_NS;
}

static void lifecycle_pass(struct gw_lifecycle *run)
{
        if (!store_is_up(run)) {
                gw_lifecycle_rest(run, first_rest(run), lifecycle_pass);
                return;
        }
        run->name_len = 0;
        run->kept_at = lp_now(run->loop);
        atomic_store(&run->running, true);
        lifecycle_bucket(run);
}

static void lifecycle_let_go(struct gw_lifecycle *run)
{
        eng_text_unref(run->text);
        run->text = NULL;
        run->rules = NULL;
}

void gw_lifecycle_pass_ends(struct gw_lifecycle *run)
{
        lifecycle_let_go(run);
        run->seeking = !gw_lifecycle_may(run); /* it was cut off */
        atomic_store(&run->running, false);
        atomic_fetch_add(&run->passes, 1);
        gw_lifecycle_rest(run, gw_lifecycle_part_of_day(run, PASSES_A_DAY), lifecycle_pass);
}

/* ---- buckets --------------------------------------------------------------------------------- */

/* Tags of one rule among those of all, as far as there is room. */
static void take_tags(struct gw_lifecycle *run, const struct s3_lifecycle_rule *rule)
{
        for (unsigned i = 0; i < rule->tag_count; i++) {
                if (run->any.count == S3_TAGS_MAX)
                        run->any_are_all = false;
                else
                        run->any.tag[run->any.count++] = rule->tags[i];
        }
}

static void take_rules(struct gw_lifecycle *run)
{
        run->tags_decide = run->aborts = false;
        run->any.count = 0;
        run->any_are_all = true;
        for (unsigned i = 0; i < run->rules->rule_count; i++) {
                const struct s3_lifecycle_rule *rule = &run->rules->rules[i];

                if (rule->enabled)
                        take_tags(run, rule);
                run->tags_decide |= rule->enabled && rule->tag_count > 0;
                run->aborts |= rule->enabled && rule->abort_days > 0;
        }
}

/* Its rules, if it has some that are enabled. */
static bool lifecycle_take(struct gw_lifecycle *run, const struct eng_bucket *bucket)
{
        struct eng_text *text;

        run->bucket = bucket->id;
        if (eng_text_get(run->gw->store, bucket->id, GW_TEXT_LIFECYCLE, &text) != 0)
                return false;
        run->rules = gw_lifecycle_form(text);
        if (run->rules == NULL) {
                atomic_fetch_add(&run->failed, 1);
                return false;
        }
        run->text = eng_text_ref(text);
        take_rules(run);
        return run->rules->prefix_count > 0;
}

static void lifecycle_bucket_done(struct gw_lifecycle *run)
{
        lifecycle_let_go(run);
        gw_lifecycle_rest(run, REST_LEAST_NS / 100, lifecycle_bucket);
}

void gw_lifecycle_next_bucket(struct gw_lifecycle *run)
{
        gw_lifecycle_place_pass(run, lifecycle_bucket_done);
}

/* None is left. Where one was sought, and is gone, the pass begins with the first. */
static void lifecycle_last_bucket(struct gw_lifecycle *run)
{
        if (!gw_lifecycle_may(run)) {
                gw_lifecycle_pass_ends(run);
        } else if (!run->seeking) {
                gw_lifecycle_place_end(run, gw_lifecycle_pass_ends);
        } else {
                run->seeking = false;
                run->name_len = 0;
                lifecycle_bucket(run);
        }
}

/* The next one that has rules. */
static void lifecycle_bucket(struct gw_lifecycle *run)
{
        const struct eng_bucket *bucket;
        bool has;

        if (!gw_lifecycle_may(run) || eng_bucket_list(run->gw->store, (struct eng_str){run->name, run->name_len}, 1, &bucket) == 0) {
                lifecycle_last_bucket(run);
                return;
        }
        strcpy(run->name, bucket->name);
        run->name_len = strlen(run->name) + 1; /* with its NUL: the least name behind it */
        has = lifecycle_take(run, bucket);
        run->page_began = lp_now(run->loop);
        run->tries = 0;
        run->at.listing = LIFECYCLE_VERSIONS;
        run->at.prefix = 0;
        gw_lifecycle_cursor_begin(&run->at);
        if (has && run->seeking && gw_lifecycle_place_find(run)) {
                run->seeking = false;
                atomic_fetch_add(&run->resumed, 1);
        }
        if (run->seeking)
                lifecycle_bucket_done(run);
        else if (has)
                gw_lifecycle_page(run);
        else
                gw_lifecycle_next_bucket(run);
}

/* Versions of a prefix, then its uploads, then the next prefix. */
void gw_lifecycle_listing_ends(struct gw_lifecycle *run)
{
        run->tries = 0;
        gw_lifecycle_cursor_begin(&run->at);
        if (run->at.listing == LIFECYCLE_VERSIONS && run->aborts) {
                run->at.listing = LIFECYCLE_UPLOADS;
        } else {
                run->at.listing = LIFECYCLE_VERSIONS;
                run->at.prefix++;
        }
        gw_lifecycle_rest_a_page(run, run->at.prefix < run->rules->prefix_count ? gw_lifecycle_page : gw_lifecycle_next_bucket);
}

/* ---- beginning, end, figures ----------------------------------------------------------------- */

static void lifecycle_started(struct lp_msg *msg)
{
        struct gw_lifecycle *run = container_of(msg, struct gw_lifecycle, start);

        gw_lifecycle_rest(run, first_rest(run), lifecycle_pass);
}

int gw_lifecycle_start(struct gw_gateway *gw, unsigned day_seconds)
{
        struct gw_lifecycle *run = calloc(1, sizeof(*run));

        assert(gw->lifecycle == NULL && day_seconds > 0 && day_seconds <= S3_SECONDS_PER_DAY);
        if (run != NULL) {
                run->due = calloc(LIFECYCLE_PAGE, sizeof(*run->due));
                run->keys = malloc((size_t)LIFECYCLE_PAGE * ENG_KEY_MAX);
        }
        if (run == NULL || run->due == NULL || run->keys == NULL) {
                gw_lifecycle_free(run);
                return -ENOMEM;
        }
        run->magic = gw_lifecycle_magic;
        run->gw = gw;
        run->loop = gw->loops[0].lp;
        run->day_seconds = day_seconds;
        run->seeking = true; /* where the process before this one was */
        run->start.run = lifecycle_started;
        gw->lifecycle = run;
        lp_post(run->loop, &run->start);
        return 0;
}

void gw_lifecycle_free(struct gw_lifecycle *run)
{
        if (run == NULL)
                return;
        if (run->loop != NULL)
                lp_timer_stop(run->loop, &run->timer);
        if (run->under_way > 0) { /* what comes back last frees it */
                run->left = true;
                return;
        }
        eng_text_unref(run->text);
        free(run->due);
        free(run->keys);
        free(run);
}

void gw_lifecycle_read(const struct gw_gateway *gw, struct gw_lifecycle_stats *out)
{
        const struct gw_lifecycle *run = gw->lifecycle;

        memset(out, 0, sizeof(*out));
        if (run == NULL)
                return;
        out->running = atomic_load(&run->running);
        out->passes = atomic_load(&run->passes);
        out->resumed = atomic_load(&run->resumed);
        out->looked_at = atomic_load(&run->looked_at);
        out->expired = atomic_load(&run->expired);
        out->versions = atomic_load(&run->versions);
        out->markers = atomic_load(&run->markers);
        out->uploads = atomic_load(&run->uploads);
        out->protected = atomic_load(&run->protected);
        out->failed = atomic_load(&run->failed);
        out->skipped = atomic_load(&run->skipped);
}
