/*
 * lifecycle_page.c - one page of a bucket's versions or uploads: what of it rules make due. On the
 * gateway's first loop.
 *
 * A page that cannot be listed is asked for again, a few times. Then what lies behind it in that
 * prefix is left to the next pass, and counted as skipped; other prefixes are gone on with.
 */
#include "gateway/s3/lifecycle_pass.h"

#include <errno.h>

#include "engine_home.h"

#define TRIES 5u

/* ---- the cursor ------------------------------------------------------------------------------ */

void gw_lifecycle_cursor_begin(struct lifecycle_cursor *at)
{
        at->inside = false;
        at->key_len = at->whole_len = 0;
        at->noncurrent = 0;
        at->least = UINT64_MAX;
}

static bool cursor_is_at(const struct lifecycle_cursor *at, struct eng_str key)
{
        return at->inside && at->key_len == key.len && memcmp(at->key, key.data, key.len) == 0;
}

static void cursor_enter(struct lifecycle_cursor *at, struct eng_str key)
{
        if (cursor_is_at(at, key))
                return;
        memcpy(at->whole, at->key, at->key_len);
        at->whole_len = at->key_len;
        memcpy(at->key, key.data, key.len);
        at->key_len = key.len;
        at->inside = true;
        at->noncurrent = 0;
        at->least = UINT64_MAX;
}

/*
 * The null version that a page ended with was replaced: the next page begins behind its successor,
 * which is newer, and gives again what lies between.
 */
static bool cursor_met(const struct lifecycle_cursor *at, const struct eng_version_entry *entry)
{
        uint64_t number = entry->object.version.number;

        return cursor_is_at(at, entry->key) && !entry->latest && number != 0 && number >= at->least;
}

/* Behind this entry the next page begins. */
static void cursor_pass_version(struct lifecycle_cursor *at, const struct eng_version_entry *entry)
{
        const struct eng_version *version = &entry->object.version;

        at->noncurrent = entry->latest ? 0 : at->noncurrent + 1;
        at->newer_ms = entry->object.mtime_ms;
        at->version = *version;
        if (entry->latest) /* also where a page gives the key anew */
                at->least = UINT64_MAX;
        if (version->number != 0)
                at->least = version->number;
}

/* ---- versions -------------------------------------------------------------------------------- */

static struct lifecycle_due *due_add(struct gw_lifecycle *run, struct eng_str key)
{
        struct lifecycle_due *due = &run->due[run->count++];

        assert(run->count <= LIFECYCLE_PAGE && key.len <= ENG_KEY_MAX);
        *due = (struct lifecycle_due){.magic = lifecycle_due_magic, .run = run};
        memcpy(run->keys + run->keys_len, key.data, key.len);
        due->version.key = (struct s3_str){run->keys + run->keys_len, key.len};
        run->keys_len += key.len;
        return due;
}

/* Tags could make it due. */
static bool tags_could(const struct gw_lifecycle *run, struct s3_lifecycle_version version)
{
        struct s3_lifecycle_due found;

        if (!run->tags_decide || version.marker)
                return false;
        version.tags = &run->any;
        found = s3_lifecycle_evaluate(run->rules, &version, run->day_seconds);
        return !run->any_are_all || gw_lifecycle_is_due(run, &found);
}

/* The version is still what was listed. */
static struct eng_condition as_listed(const struct eng_object *object)
{
        struct eng_condition same = {.if_mtime = true, .mtime_s = object->mtime_ms / 1000};

        if (object->marker)
                return same;
        same.if_size = same.if_etag = true;
        same.size = object->size;
        same.etag_parts = object->etag_parts;
        memcpy(same.etag, object->etag, sizeof(same.etag));
        return same;
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
                                               .successor_ms = run->at.newer_ms,
                                               .newer_noncurrent = run->at.noncurrent};
        struct s3_lifecycle_due found = s3_lifecycle_evaluate(run->rules, &version, run->day_seconds);
        bool act = gw_lifecycle_is_due(run, &found), look = !act && tags_could(run, version);
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
        due->same = as_listed(object);
}

static bool are_of_one_key(const struct eng_version_entry *a, const struct eng_version_entry *b)
{
        return a->key.len == b->key.len && memcmp(a->key.data, b->key.data, a->key.len) == 0;
}

/* Of the last of a page nobody knows yet whether it is the only one of its key. */
static unsigned entries_to_take(unsigned count, bool more)
{
        return more && count > 1 ? count - 1 : count;
}

static void take_listed_version(struct gw_lifecycle *run, const struct eng_version_entry *entry, bool only)
{
        if (cursor_met(&run->at, entry)) {
                run->at.newer_ms = entry->object.mtime_ms;
                return;
        }
        cursor_enter(&run->at, entry->key);
        version_look(run, entry, only);
        cursor_pass_version(&run->at, entry);
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* Two seconds, four, and so on. */
static uint64_t page_wait(const struct gw_lifecycle *run)
{
        return gw_lifecycle_part_of_day(run, S3_SECONDS_PER_DAY) << run->tries;
}

static void page_failed(struct gw_lifecycle *run, int rv)
{
        atomic_fetch_add(&run->failed, 1);
        if (rv == -EIDRM || rv == -ENOENT) { /* the bucket is gone */
                gw_lifecycle_rest_a_page(run, gw_lifecycle_next_bucket);
        } else if (++run->tries < TRIES) {
                gw_lifecycle_rest(run, page_wait(run), gw_lifecycle_page);
        } else {
                atomic_fetch_add(&run->skipped, 1);
                gw_lifecycle_listing_ends(run);
        }
}

/* True: its entries are to be looked at. */
static bool page_came(struct gw_lifecycle *run, int rv)
{
        if (!gw_lifecycle_back(run))
                return false;
        run->page_listed = lp_now(run->loop);
        if (rv != 0)
                page_failed(run, rv);
        return rv == 0;
}

static void page_looked_at(struct gw_lifecycle *run, bool more)
{
        run->tries = 0;
        run->more = more;
        gw_lifecycle_act(run);
}

static void lifecycle_versions_listed(void *arg, int rv, const struct eng_version_entry *entries, unsigned count, bool more)
{
        struct gw_lifecycle *run = GW_CAST(gw_lifecycle, arg);

        if (!page_came(run, rv))
                return;
        for (unsigned i = 0; i < entries_to_take(count, more); i++)
                take_listed_version(run, &entries[i], i + 1 < count ? !are_of_one_key(&entries[i], &entries[i + 1]) : !more);
        page_looked_at(run, more && count > 0);
}

static void take_listed_upload(struct gw_lifecycle *run, const struct eng_upload_entry *entry)
{
        struct s3_lifecycle_due found =
                s3_lifecycle_evaluate_upload(run->rules, gw_s3_str(entry->key), entry->object.mtime_ms, run->day_seconds);
        struct lifecycle_due *due;

        atomic_fetch_add(&run->looked_at, 1);
        cursor_enter(&run->at, entry->key);
        memcpy(run->at.upload, entry->upload_id, ENG_ID_LEN);
        if (!gw_lifecycle_is_due(run, &found))
                return;
        due = due_add(run, entry->key);
        due->action = S3_LIFECYCLE_ABORT;
        memcpy(due->upload_id, entry->upload_id, ENG_ID_LEN);
}

static void lifecycle_uploads_listed(void *arg, int rv, const struct eng_upload_entry *entries, unsigned count, bool more)
{
        struct gw_lifecycle *run = GW_CAST(gw_lifecycle, arg);

        if (!page_came(run, rv))
                return;
        for (unsigned i = 0; i < count; i++)
                take_listed_upload(run, &entries[i]);
        page_looked_at(run, more && count > 0);
}

/* Requests, and entries of batches, that clients have sent so far, also to other nodes. */
static uint64_t requests_so_far(const struct gw_gateway *gw)
{
        uint64_t sum = eng_homes_calls(gw->store);

        for (unsigned i = 0; i < gw->loop_count; i++) {
                const struct gw_loop_stats *stats = &gw->loops[i].stats;

                sum += gw_counted(&stats->requests_total);
                for (unsigned way = 0; way < GW_ENTRY_WAYS; way++)
                        sum += gw_counted(&stats->entries[way][0]);
        }
        return sum;
}

static void page_yields(struct gw_lifecycle *run)
{
        uint64_t requests = requests_so_far(run->gw);

        run->beside = requests != run->requests_seen;
        run->at_once = run->beside ? LIFECYCLE_WAVE : LIFECYCLE_AT_ONCE;
        run->requests_seen = requests;
}

static void page_ask(struct gw_lifecycle *run)
{
        const struct lifecycle_cursor *at = &run->at;
        struct eng_list_params params = {.bucket = run->bucket,
                                         .prefix = gw_eng_str(run->rules->prefixes[at->prefix]),
                                         .after = {at->key, at->key_len}};

        run->count = run->next = 0;
        run->keys_len = 0;
        run->page_began = lp_now(run->loop);
        page_yields(run);
        params.max = run->beside ? LIFECYCLE_PAGE_BESIDE : LIFECYCLE_PAGE;
        run->under_way++;
        if (at->listing == LIFECYCLE_VERSIONS)
                eng_version_list(run->gw->store, &params, at->inside ? &at->version : NULL, lifecycle_versions_listed, run);
        else
                eng_upload_list(run->gw->store, &params, at->inside ? at->upload : NULL, lifecycle_uploads_listed, run);
}

void gw_lifecycle_page(struct gw_lifecycle *run)
{
        if (!gw_lifecycle_may(run))
                gw_lifecycle_pass_ends(run);
        else if (!gw_lifecycle_rules_hold(run)) /* the next pass goes by the new ones */
                gw_lifecycle_next_bucket(run);
        else
                gw_lifecycle_place_keep(run, page_ask);
}
