/*
 * lifecycle_act.c - what of a page rules make due is done: by the calls of clients' deletes, of
 * which a few are under way at a time. On the gateway's first loop.
 *
 * Between the listing and the deletion a client may change the key. So each deletion says what was
 * listed, and where it was among the versions of its key: a version that has become the current one
 * again does not go as a noncurrent one, an object that was overwritten gets no delete marker, and a
 * marker goes only while nothing is behind it.
 */
#include "gateway/s3/lifecycle_pass.h"

#include <errno.h>

/* ---- changes --------------------------------------------------------------------------------- */

bool gw_lifecycle_change_begins(struct gw_lifecycle *run)
{
        atomic_fetch_add(&run->gw->loops[0].stats.changes_active, 1);
        if (!atomic_load(&run->gw->read_only))
                return true;
        gw_lifecycle_change_ends(run);
        return false;
}

void gw_lifecycle_change_ends(struct gw_lifecycle *run)
{
        atomic_fetch_sub(&run->gw->loops[0].stats.changes_active, 1);
}

static void due_done(struct lifecycle_due *due, int rv, atomic_uint_least64_t *counter)
{
        struct gw_lifecycle *run = due->run;

        if (rv == 0)
                atomic_fetch_add(counter, 1);
        else if (rv == -EACCES)
                atomic_fetch_add(&run->protected, 1);
        else if (rv != -ENOENT && rv != -ESTALE && rv != -EIDRM) /* somebody was faster */
                atomic_fetch_add(&run->failed, 1);
        if (!run->left)
                gw_lifecycle_change_ends(run);
        if (gw_lifecycle_back(run))
                gw_lifecycle_act(run);
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

static void due_delete(struct lifecycle_due *due)
{
        static const enum eng_place places[] = {
                [S3_LIFECYCLE_EXPIRE] = ENG_PLACE_NEWEST,
                [S3_LIFECYCLE_DELETE_VERSION] = ENG_PLACE_OLDER,
                [S3_LIFECYCLE_DELETE_MARKER] = ENG_PLACE_ALONE,
        };
        struct eng_delete_params params = {.bucket = due->run->bucket,
                                           .key = gw_eng_str(due->version.key),
                                           .version = &due->id,
                                           .condition = due->same,
                                           .place = places[due->action],
                                           .object = due->action == S3_LIFECYCLE_EXPIRE};

        eng_delete(due->run->gw->store, &params, due_deleted, due);
}

/* run->under_way counts it already. False: it is not done, nothing comes back. */
static bool due_act(struct lifecycle_due *due)
{
        struct gw_lifecycle *run = due->run;

        if (!gw_lifecycle_change_begins(run))
                return false;
        if (due->action == S3_LIFECYCLE_ABORT)
                eng_upload_abort(run->gw->store, run->bucket, gw_eng_str(due->version.key), due->upload_id, due_aborted, due);
        else
                due_delete(due);
        return true;
}

/* ---- what tags decide ------------------------------------------------------------------------ */

/* The version as it is now, with its tags. */
static struct s3_lifecycle_due due_by_tags(struct lifecycle_due *due, const struct eng_object *object)
{
        struct s3_lifecycle_due found = {.action = S3_LIFECYCLE_NOTHING};
        struct s3_tags tags = {.count = 0};

        if (object->tags.len == 0 || s3_tags_decode(object->tags.data, object->tags.len, &tags) == 0) {
                due->version.tags = &tags;
                found = s3_lifecycle_evaluate(due->run->rules, &due->version, due->run->day_seconds);
                due->version.tags = NULL;
        }
        return found;
}

static void due_looked(void *arg, int rv, struct eng_get *get)
{
        struct lifecycle_due *due = GW_CAST(lifecycle_due, arg);
        struct gw_lifecycle *run = due->run;
        struct s3_lifecycle_due found = {.action = S3_LIFECYCLE_NOTHING};

        if (rv == 0) {
                found = due_by_tags(due, eng_get_object(get));
                eng_get_close(get);
        }
        due->action = found.action;
        if (gw_lifecycle_may(run) && gw_lifecycle_rules_hold(run) && gw_lifecycle_is_due(run, &found) && due_act(due))
                return;
        if (gw_lifecycle_back(run))
                gw_lifecycle_act(run);
}

/* ---- the page -------------------------------------------------------------------------------- */

/* False: it is not done, nothing comes back. */
static bool due_begin(struct lifecycle_due *due)
{
        if (!due->look)
                return due_act(due);
        eng_get_metadata(due->run->gw->store, due->run->bucket, gw_eng_str(due->version.key), &due->id, due_looked, due);
        return true;
}

/* Beside clients, changes begin together and come back together. True: it is not yet time for others. */
static bool wave_waits(struct gw_lifecycle *run)
{
        uint64_t now = lp_now(run->loop);

        if (!run->beside || run->next == run->count)
                return false;
        if (run->under_way > 0)
                return true;
        if (now < run->wave_at) {
                gw_lifecycle_rest(run, run->wave_at - now, gw_lifecycle_act);
                return true;
        }
        run->wave_at = now + LIFECYCLE_WAVE * 1000000000ull / LIFECYCLE_PACE;
        return false;
}

void gw_lifecycle_act(struct gw_lifecycle *run)
{
        if (wave_waits(run))
                return;
        while (run->next < run->count && run->under_way < run->at_once && gw_lifecycle_may(run) &&
               gw_lifecycle_rules_hold(run)) {
                run->under_way++;
                if (!due_begin(&run->due[run->next++]))
                        run->under_way--;
        }
        if (run->under_way > 0)
                return;
        if (!gw_lifecycle_may(run))
                gw_lifecycle_pass_ends(run);
        else if (run->more)
                gw_lifecycle_rest_a_page(run, gw_lifecycle_page);
        else
                gw_lifecycle_listing_ends(run);
}
