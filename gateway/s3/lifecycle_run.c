/*
 * lifecycle_run.c - passes over the buckets that have lifecycle rules: versions and uploads that
 * are due go, by the same calls as clients' requests.
 *
 * All on the gateway's first loop. A pass goes through buckets in order of name, through the
 * prefixes that their rules name, page by page; of a page at most AT_ONCE changes are under way
 * (I9). After each page it rests as long as the page took, so clients have half of the loop and of
 * the drives at least. A pass begins an hour after the last has ended.
 *
 * Nothing is deleted on what a listing said alone: a deletion names the version, or the time, size
 * and ETag of what was listed, and the engine compares them under the key's lock. What is protected
 * by object lock stays, as for clients. A pass that is cut off is no loss: the next one meets what
 * was left.
 */
#include "gateway/s3/lifecycle_run.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/http/gw.h"
#include "gateway/http/gw_check.h"
#include "gateway/s3/bucket_texts.h"

#define PAGE_MAX      1000u
#define AT_ONCE       32u
#define SECOND_NS     1000000000ull
#define FIRST_NS      (60 * SECOND_NS) /* after the start, so that the store is up */
#define PASSES_A_DAY  24u
#define REST_LEAST_NS 1000000ull

/* One thing of a page that is due, or may be. owner: its run */
struct lifecycle_due {
        unsigned magic; /* gw_check.h */
        struct gw_lifecycle *run;
        struct s3_lifecycle_version version; /* key: in the run's memory */
        struct eng_version id;
        struct eng_condition same;      /* it is what was listed */
        bool look;                      /* its tags decide */
        enum s3_lifecycle_action action;
        uint8_t upload_id[ENG_ID_LEN];
};

struct gw_lifecycle {
        unsigned magic; /* gw_check.h */
        struct gw_gateway *gw;
        struct lp_loop *loop;
        struct lp_msg start;
        struct lp_timer timer;
        void (*after_rest)(struct gw_lifecycle *run);
        unsigned day_seconds;
        uint64_t page_began;            /* lp_now() */
        bool left;                      /* the gateway is gone: what comes back last frees this */
        /* the bucket */
        char name[ENG_BUCKET_NAME_MAX + 1];
        size_t name_len;                /* one more once it is done with: what sorts behind it */
        uint64_t bucket;
        bool versioned;
        struct eng_text *text;
        const struct s3_lifecycle *rules; /* of text */
        bool tags_decide, aborts;       /* an enabled rule asks for tags; ends uploads */
        struct s3_tags any;             /* all tags that rules ask for */
        bool any_are_all;               /* none was left out */
        unsigned prefix;
        void (*listing)(struct gw_lifecycle *run); /* of versions, then of uploads */
        /* where the listing has come to */
        bool inside;                    /* behind after_version of that key; else behind the key */
        struct eng_version after_version;
        uint8_t after_upload[ENG_ID_LEN];
        size_t after_len;
        char after[ENG_KEY_MAX];
        int64_t newer_ms;               /* when the version before was written */
        unsigned noncurrent;            /* of the key, met so far */
        bool more;
        /* the page */
        unsigned count, next, under_way;
        size_t keys_len;
        char *keys;
        struct lifecycle_due *due;
        /* figures */
        atomic_bool running;
        atomic_uint_least64_t passes, looked_at, expired, versions, markers, uploads, protected, failed;
};

static void lifecycle_bucket(struct gw_lifecycle *run);
static void lifecycle_page(struct gw_lifecycle *run);
static void lifecycle_uploads(struct gw_lifecycle *run);
static void lifecycle_some(struct gw_lifecycle *run);

/* ---- rests ----------------------------------------------------------------------------------- */

static void lifecycle_rested(struct lp_timer *timer)
{
        struct gw_lifecycle *run = container_of(timer, struct gw_lifecycle, timer);

        run->after_rest(run);
}

static void lifecycle_rest(struct gw_lifecycle *run, uint64_t ns, void (*then)(struct gw_lifecycle *run))
{
        run->after_rest = then;
        run->timer.expired = lifecycle_rested;
        lp_timer_start(run->loop, &run->timer, ns);
}

/* As long as the page took. */
static void lifecycle_rest_a_page(struct gw_lifecycle *run, void (*then)(struct gw_lifecycle *run))
{
        uint64_t took = lp_now(run->loop) - run->page_began;

        lifecycle_rest(run, took > REST_LEAST_NS ? took : REST_LEAST_NS, then);
}

static bool lifecycle_may(const struct gw_lifecycle *run)
{
        return !run->left && !atomic_load(&run->gw->drain) && !atomic_load(&run->gw->read_only);
}

/* ---- passes and buckets ---------------------------------------------------------------------- */

static void lifecycle_pass(struct gw_lifecycle *run)
{
        run->name_len = 0;
        atomic_store(&run->running, true);
        lifecycle_bucket(run);
}

static void lifecycle_let_go(struct gw_lifecycle *run)
{
        eng_text_unref(run->text);
        run->text = NULL;
        run->rules = NULL;
}

static void lifecycle_pass_ends(struct gw_lifecycle *run)
{
        lifecycle_let_go(run);
        run->listing = lifecycle_page;
        atomic_store(&run->running, false);
        atomic_fetch_add(&run->passes, 1);
        lifecycle_rest(run, run->day_seconds * SECOND_NS / PASSES_A_DAY, lifecycle_pass);
}

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

/* The rules that the pass works by are in force still. */
static bool lifecycle_rules_hold(const struct gw_lifecycle *run)
{
        struct eng_text *text;

        return eng_text_get(run->gw->store, run->bucket, GW_TEXT_LIFECYCLE, &text) == 0 &&
               eng_text_generation(text) == eng_text_generation(run->text);
}

static bool lifecycle_take(struct gw_lifecycle *run, const struct eng_bucket *bucket)
{
        struct eng_text *text;

        if (eng_text_get(run->gw->store, bucket->id, GW_TEXT_LIFECYCLE, &text) != 0)
                return false;
        run->rules = gw_lifecycle_form(text);
        if (run->rules == NULL) {
                atomic_fetch_add(&run->failed, 1);
                return false;
        }
        run->text = eng_text_ref(text);
        run->bucket = bucket->id;
        run->versioned = bucket->rules.versioning != ENG_VERSIONING_NEVER;
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
        return true;
}

static void lifecycle_walk_prefix(struct gw_lifecycle *run)
{
        run->after_len = 0;
        run->inside = false;
        run->noncurrent = 0;
        lifecycle_page(run);
}

static void lifecycle_next_bucket(struct gw_lifecycle *run)
{
        lifecycle_let_go(run);
        lifecycle_bucket(run);
}

/* The next one that has rules. */
static void lifecycle_bucket(struct gw_lifecycle *run)
{
        const struct eng_bucket *bucket;
        bool has;

        if (!lifecycle_may(run) || eng_bucket_list(run->gw->store, (struct eng_str){run->name, run->name_len}, 1, &bucket) == 0) {
                lifecycle_pass_ends(run);
                return;
        }
        strcpy(run->name, bucket->name);
        run->name_len = strlen(run->name) + 1; /* with its NUL: the least name behind it */
        has = lifecycle_take(run, bucket);
        run->page_began = lp_now(run->loop);
        run->prefix = 0;
        if (has && run->rules->prefix_count > 0)
                lifecycle_walk_prefix(run);
        else
                lifecycle_rest(run, REST_LEAST_NS / 100, has ? lifecycle_next_bucket : lifecycle_bucket);
}

static void lifecycle_next_prefix(struct gw_lifecycle *run)
{
        run->prefix++;
        if (run->prefix < run->rules->prefix_count)
                lifecycle_walk_prefix(run);
        else
                lifecycle_next_bucket(run);
}

/* ---- one page of versions -------------------------------------------------------------------- */

static struct lifecycle_due *due_add(struct gw_lifecycle *run, struct eng_str key)
{
        struct lifecycle_due *due = &run->due[run->count++];

        assert(run->count <= PAGE_MAX && key.len <= ENG_KEY_MAX);
        *due = (struct lifecycle_due){.magic = lifecycle_due_magic, .run = run};
        memcpy(run->keys + run->keys_len, key.data, key.len);
        due->version.key = (struct s3_str){run->keys + run->keys_len, key.len};
        run->keys_len += key.len;
        return due;
}

/* By both clocks: one that was set ahead makes nothing due. */
static bool is_due(const struct gw_lifecycle *run, const struct s3_lifecycle_due *due)
{
        return due->action != S3_LIFECYCLE_NOTHING && due->at_ms <= lp_wall_ms() && due->at_ms <= eng_lock_now(run->gw->store);
}

/* Tags could make it due. */
static bool tags_could(const struct gw_lifecycle *run, struct s3_lifecycle_version version)
{
        struct s3_lifecycle_due found;

        if (!run->tags_decide || version.marker)
                return false;
        version.tags = &run->any;
        found = s3_lifecycle_evaluate(run->rules, &version, run->day_seconds);
        return !run->any_are_all || is_due(run, &found);
}

static void version_look(struct gw_lifecycle *run, const struct eng_version_entry *entry, bool only)
{
        const struct eng_object *object = &entry->object;
        struct s3_lifecycle_version version = {.key = gw_s3_str(entry->key),
                                               .size = object->size,
                                               .mtime_ms = object->mtime_ms,
                                               .latest = entry->latest,
                                               .marker = object->marker,
                                               .only = entry->latest && only,
                                               .successor_ms = run->newer_ms,
                                               .newer_noncurrent = run->noncurrent};
        struct s3_lifecycle_due found = s3_lifecycle_evaluate(run->rules, &version, run->day_seconds);
        bool act = is_due(run, &found), look = !act && tags_could(run, version);
        struct lifecycle_due *due;

        atomic_fetch_add(&run->looked_at, 1);
        if (!act && !look)
                return;
        due = due_add(run, entry->key);
        version.key = due->version.key;
        due->version = version;
        due->look = look;
        due->action = found.action;
        due->id = object->version;
        due->same = (struct eng_condition){.if_mtime = true, .mtime_s = object->mtime_ms / 1000};
        if (!object->marker) {
                due->same.if_size = due->same.if_etag = true;
                due->same.size = object->size;
                due->same.etag_parts = object->etag_parts;
                memcpy(due->same.etag, object->etag, sizeof(due->same.etag));
        }
}

/* Behind this entry the next page begins. */
static void version_passed(struct gw_lifecycle *run, const struct eng_version_entry *entry)
{
        run->noncurrent = entry->latest ? 0 : run->noncurrent + 1;
        run->newer_ms = entry->object.mtime_ms;
        run->after_len = entry->key.len;
        memcpy(run->after, entry->key.data, entry->key.len);
        run->after_version = entry->object.version;
        run->inside = true;
}

static bool are_of_one_key(const struct eng_version_entry *a, const struct eng_version_entry *b)
{
        return a->key.len == b->key.len && memcmp(a->key.data, b->key.data, a->key.len) == 0;
}

static void page_failed(struct gw_lifecycle *run)
{
        run->listing = lifecycle_page;
        atomic_fetch_add(&run->failed, 1);
        lifecycle_rest_a_page(run, lifecycle_next_bucket); /* the next pass tries again */
}

static void lifecycle_listed(void *arg, int rv, const struct eng_version_entry *entries, unsigned count, bool more)
{
        struct gw_lifecycle *run = GW_CAST(gw_lifecycle, arg);
        unsigned i, whole;

        run->under_way--;
        if (run->left) {
                gw_lifecycle_free(run);
                return;
        }
        if (rv != 0) {
                page_failed(run);
                return;
        }
        whole = more && count > 1 ? count - 1 : count; /* of the last nobody knows yet whether it is the only one */
        for (i = 0; i < whole; i++) {
                version_look(run, &entries[i], i + 1 < count ? !are_of_one_key(&entries[i], &entries[i + 1]) : !more);
                version_passed(run, &entries[i]);
        }
        run->more = more && count > 0;
        lifecycle_some(run);
}

/* A page from where the last has ended. False: the pass ends. */
static bool page_begin(struct gw_lifecycle *run, struct eng_list_params *params)
{
        if (!lifecycle_may(run)) {
                lifecycle_pass_ends(run);
                return false;
        }
        if (!lifecycle_rules_hold(run)) { /* the next pass goes by the new ones */
                run->listing = lifecycle_page;
                lifecycle_rest(run, REST_LEAST_NS, lifecycle_next_bucket);
                return false;
        }
        *params = (struct eng_list_params){.bucket = run->bucket,
                                           .prefix = gw_eng_str(run->rules->prefixes[run->prefix]),
                                           .after = {run->after, run->after_len},
                                           .max = PAGE_MAX};
        run->count = run->next = 0;
        run->keys_len = 0;
        run->page_began = lp_now(run->loop);
        run->under_way++;
        return true;
}

static void lifecycle_page(struct gw_lifecycle *run)
{
        struct eng_list_params params;

        if (page_begin(run, &params))
                eng_version_list(run->gw->store, &params, run->inside ? &run->after_version : NULL, lifecycle_listed, run);
}

/* ---- one page of uploads --------------------------------------------------------------------- */

static void lifecycle_uploads_listed(void *arg, int rv, const struct eng_upload_entry *entries, unsigned count, bool more)
{
        struct gw_lifecycle *run = GW_CAST(gw_lifecycle, arg);

        run->under_way--;
        if (run->left) {
                gw_lifecycle_free(run);
                return;
        }
        if (rv != 0) {
                page_failed(run);
                return;
        }
        for (unsigned i = 0; i < count; i++) {
                struct s3_lifecycle_due found = s3_lifecycle_evaluate_upload(run->rules, gw_s3_str(entries[i].key),
                                                                             entries[i].object.mtime_ms, run->day_seconds);

                atomic_fetch_add(&run->looked_at, 1);
                run->after_len = entries[i].key.len;
                memcpy(run->after, entries[i].key.data, entries[i].key.len);
                memcpy(run->after_upload, entries[i].upload_id, ENG_ID_LEN);
                run->inside = true;
                if (is_due(run, &found)) {
                        struct lifecycle_due *due = due_add(run, entries[i].key);

                        due->action = S3_LIFECYCLE_ABORT;
                        memcpy(due->upload_id, entries[i].upload_id, ENG_ID_LEN);
                }
        }
        run->more = more && count > 0;
        lifecycle_some(run);
}

static void lifecycle_uploads(struct gw_lifecycle *run)
{
        struct eng_list_params params;

        if (page_begin(run, &params))
                eng_upload_list(run->gw->store, &params, run->inside ? run->after_upload : NULL, lifecycle_uploads_listed, run);
}

/* ---- what is due ----------------------------------------------------------------------------- */

static void due_done(struct lifecycle_due *due, int rv, atomic_uint_least64_t *counter)
{
        struct gw_lifecycle *run = due->run;

        if (rv == 0)
                atomic_fetch_add(counter, 1);
        else if (rv == -EACCES)
                atomic_fetch_add(&run->protected, 1);
        else if (rv != -ENOENT && rv != -ESTALE && rv != -EIDRM) /* somebody was faster */
                atomic_fetch_add(&run->failed, 1);
        atomic_fetch_sub(&run->gw->loops[0].stats.changes_active, 1);
        run->under_way--;
        lifecycle_some(run);
}

static void due_deleted(void *arg, int rv, const struct eng_deleted *deleted)
{
        struct lifecycle_due *due = GW_CAST(lifecycle_due, arg);
        struct gw_lifecycle *run = due->run;

        due_done(due, rv,
                 due->action == S3_LIFECYCLE_EXPIRE           ? &run->expired
                 : due->action == S3_LIFECYCLE_DELETE_VERSION ? &run->versions
                                                              : &run->markers);
}

static void due_aborted(void *arg, int rv)
{
        struct lifecycle_due *due = GW_CAST(lifecycle_due, arg);

        due_done(due, rv, &due->run->uploads);
}

/* run->under_way counts it already. False: it is not done, nothing comes back. */
static bool due_act(struct lifecycle_due *due)
{
        struct gw_lifecycle *run = due->run;
        struct eng_delete_params params = {
                .bucket = run->bucket, .key = gw_eng_str(due->version.key), .condition = due->same};

        atomic_fetch_add(&run->gw->loops[0].stats.changes_active, 1); /* before the switch is looked at: gw_changing() */
        if (atomic_load(&run->gw->read_only)) {
                atomic_fetch_sub(&run->gw->loops[0].stats.changes_active, 1);
                return false;
        }
        if (due->action == S3_LIFECYCLE_ABORT) {
                eng_upload_abort(run->gw->store, run->bucket, params.key, due->upload_id, due_aborted, due);
                return true;
        }
        if (due->action != S3_LIFECYCLE_EXPIRE)
                params.version = &due->id;
        eng_delete(run->gw->store, &params, due_deleted, due);
        return true;
}

/* The version as it is now, with its tags. */
static void due_looked(void *arg, int rv, struct eng_get *get)
{
        struct lifecycle_due *due = GW_CAST(lifecycle_due, arg);
        struct gw_lifecycle *run = due->run;
        struct s3_lifecycle_due found = {.action = S3_LIFECYCLE_NOTHING};
        struct s3_tags tags = {.count = 0};

        if (rv == 0) {
                const struct eng_object *object = eng_get_object(get);

                if (object->tags.len == 0 || s3_tags_decode(object->tags.data, object->tags.len, &tags) == 0) {
                        due->version.tags = &tags;
                        found = s3_lifecycle_evaluate(run->rules, &due->version, run->day_seconds);
                        due->version.tags = NULL;
                }
                eng_get_close(get);
        }
        due->action = found.action;
        if (lifecycle_may(run) && lifecycle_rules_hold(run) && is_due(run, &found) && due_act(due))
                return;
        run->under_way--;
        lifecycle_some(run);
}

static void lifecycle_page_done(struct gw_lifecycle *run)
{
        if (run->more)
                lifecycle_rest_a_page(run, run->listing);
        else if (run->listing == lifecycle_page && run->aborts) {
                run->after_len = 0;
                run->inside = false;
                run->listing = lifecycle_uploads;
                lifecycle_rest_a_page(run, lifecycle_uploads);
        } else {
                run->listing = lifecycle_page;
                lifecycle_rest_a_page(run, lifecycle_next_prefix);
        }
}

static void lifecycle_some(struct gw_lifecycle *run)
{
        while (lifecycle_may(run) && run->next < run->count && run->under_way < AT_ONCE && lifecycle_rules_hold(run)) {
                struct lifecycle_due *due = &run->due[run->next++];

                run->under_way++;
                if (due->look)
                        eng_get_metadata(run->gw->store, run->bucket, gw_eng_str(due->version.key),
                                         due->version.latest ? NULL : &due->id, due_looked, due);
                else if (!due_act(due))
                        run->under_way--;
        }
        if (run->under_way > 0)
                return;
        if (run->left)
                gw_lifecycle_free(run);
        else if (lifecycle_may(run))
                lifecycle_page_done(run);
        else
                lifecycle_pass_ends(run);
}

/* ---- beginning, end, figures ----------------------------------------------------------------- */

static void lifecycle_started(struct lp_msg *msg);

int gw_lifecycle_start(struct gw_gateway *gw, unsigned day_seconds)
{
        struct gw_lifecycle *run = calloc(1, sizeof(*run));

        assert(gw->lifecycle == NULL && day_seconds > 0 && day_seconds <= S3_SECONDS_PER_DAY);
        if (run != NULL) {
                run->due = calloc(PAGE_MAX, sizeof(*run->due));
                run->keys = malloc((size_t)PAGE_MAX * ENG_KEY_MAX);
        }
        if (run == NULL || run->due == NULL || run->keys == NULL) {
                gw_lifecycle_free(run);
                return -ENOMEM;
        }
        run->magic = gw_lifecycle_magic;
        run->gw = gw;
        run->loop = gw->loops[0].lp;
        run->day_seconds = day_seconds;
        run->listing = lifecycle_page;
        run->start.run = lifecycle_started;
        gw->lifecycle = run;
        lp_post(run->loop, &run->start);
        return 0;
}

static void lifecycle_started(struct lp_msg *msg)
{
        struct gw_lifecycle *run = container_of(msg, struct gw_lifecycle, start);
        uint64_t every = run->day_seconds * SECOND_NS / PASSES_A_DAY;

        lifecycle_rest(run, every < FIRST_NS ? every : FIRST_NS, lifecycle_pass);
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
        out->looked_at = atomic_load(&run->looked_at);
        out->expired = atomic_load(&run->expired);
        out->versions = atomic_load(&run->versions);
        out->markers = atomic_load(&run->markers);
        out->uploads = atomic_load(&run->uploads);
        out->protected = atomic_load(&run->protected);
        out->failed = atomic_load(&run->failed);
}
