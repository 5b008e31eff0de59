/*
 * inventory_run.c - passes over the buckets with inventory configurations: which reports are due. Rules N1
 * to N4, N9 and N10 of docs/design/inventory.md.
 */
#include <errno.h>
#include <stdlib.h>

#include "gateway/s3/inventory_pass.h"

#define SECOND_NS     1000000000ull
#define FIRST_NS      (60 * SECOND_NS) /* after the start, so that the store is up */
#define PASSES_A_DAY  24u
#define REST_LEAST_NS 1000000ull

static void inventory_bucket(struct gw_inventory *run);
static void inventory_config(struct gw_inventory *run);

/* ---- rests ----------------------------------------------------------------------------------- */

static void inventory_rested(struct lp_timer *timer)
{
        struct gw_inventory *run = container_of(timer, struct gw_inventory, timer);

        run->after_rest(run);
}

void gw_inventory_rest(struct gw_inventory *run, uint64_t ns, void (*then)(struct gw_inventory *run))
{
        run->after_rest = then;
        run->timer.expired = inventory_rested;
        lp_timer_start(run->loop, &run->timer, ns);
}

void gw_inventory_rest_a_page(struct gw_inventory *run, void (*then)(struct gw_inventory *run))
{
        uint64_t took = lp_now(run->loop) - run->page_began;

        gw_inventory_rest(run, took > REST_LEAST_NS ? took : REST_LEAST_NS, then);
}

static uint64_t inventory_every(const struct gw_inventory *run)
{
        return run->day_seconds * SECOND_NS / PASSES_A_DAY;
}

bool gw_inventory_may(const struct gw_inventory *run)
{
        return !run->left && !atomic_load(&run->gw->drain) && !atomic_load(&run->gw->read_only);
}

bool gw_inventory_back(struct gw_inventory *run)
{
        assert(run->under_way > 0);
        run->under_way--;
        if (run->left && run->under_way == 0)
                gw_inventory_free(run);
        else if (!run->left)
                return true;
        return false;
}

/* ---- configurations -------------------------------------------------------------------------- */

void gw_inventory_next(struct gw_inventory *run)
{
        gw_inventory_let_go(run);
        run->page_began = lp_now(run->loop);
        gw_inventory_rest(run, REST_LEAST_NS, inventory_config);
}

static void inventory_looked(void *arg, int rv, struct eng_get *get)
{
        struct gw_inventory *run = GW_CAST(gw_inventory, arg);
        bool is_there = rv == 0 && !eng_get_object(get)->marker;

        if (rv == 0)
                eng_get_close(get);
        if (!gw_inventory_back(run))
                return;
        if (is_there) {
                gw_inventory_next(run);
        } else if (rv == 0 || rv == -ENOENT) {
                gw_inventory_report(run);
        } else {
                atomic_fetch_add(&run->failed, 1);
                gw_inventory_next(run);
        }
}

/* The configuration's report of this period, if it is due. False: nothing is under way for it. */
static bool inventory_begins(struct gw_inventory *run)
{
        const struct eng_bucket *destination;

        if (eng_bucket_get(run->gw->store, gw_eng_str(run->inventory.bucket), &destination) != 0) {
                atomic_fetch_add(&run->failed, 1);
                return false;
        }
        run->destination = destination->id;
        run->period_ms = s3_inventory_period(&run->inventory, lp_wall_ms(), run->day_seconds);
        if (!gw_inventory_mark(run) || !gw_inventory_permitted(run)) {
                atomic_fetch_add(&run->refused, 1);
                return false;
        }
        run->under_way++;
        eng_get_metadata(run->gw->store, run->destination, (struct eng_str){run->own_name, strlen(run->own_name)}, NULL,
                         inventory_looked, run);
        return true;
}

/* False: it asks for no report, or for one that is not written. */
static bool inventory_take(struct gw_inventory *run, struct s3_str document)
{
        struct s3_doc *doc;
        enum s3_error error = s3_doc_read(S3_DOC_INVENTORY, document, &doc);

        if (error == S3_OK)
                run->config = s3_doc_take_config(doc);
        s3_doc_free(doc);
        if (run->config != NULL && s3_inventory_read(run->config, &run->inventory) == 0)
                return run->inventory.enabled;
        atomic_fetch_add(&run->skipped, 1);
        return false;
}

/* The next of the bucket. */
static void inventory_config(struct gw_inventory *run)
{
        struct s3_str id, document;

        if (!gw_inventory_may(run)) {
                gw_inventory_pass_ends(run);
        } else if (!gw_text_list_next(&run->rest, &id, &document)) {
                eng_text_unref(run->text);
                run->text = NULL;
                inventory_bucket(run);
        } else if (!inventory_take(run, document) || !inventory_begins(run)) {
                gw_inventory_next(run);
        }
}

/* ---- buckets and passes ---------------------------------------------------------------------- */

static void inventory_pass(struct gw_inventory *run)
{
        const struct eng_bucket *bucket;

        if (eng_bucket_get(run->gw->store, (struct eng_str){"", 0}, &bucket) == -EHOSTDOWN) { /* before recovery */
                gw_inventory_rest(run, SECOND_NS, inventory_pass);
                return;
        }
        run->name_len = 0;
        atomic_store(&run->running, true);
        inventory_bucket(run);
}

void gw_inventory_pass_ends(struct gw_inventory *run)
{
        gw_inventory_let_go(run);
        eng_text_unref(run->text);
        run->text = NULL;
        atomic_store(&run->running, false);
        atomic_fetch_add(&run->passes, 1);
        gw_inventory_rest(run, inventory_every(run), inventory_pass);
}

/* The next one; those without configurations cost a look each. */
static void inventory_bucket(struct gw_inventory *run)
{
        const struct eng_bucket *bucket;
        struct eng_text *text;

        if (!gw_inventory_may(run) ||
            eng_bucket_list(run->gw->store, (struct eng_str){run->name, run->name_len}, 1, &bucket) == 0) {
                gw_inventory_pass_ends(run);
                return;
        }
        strcpy(run->name, bucket->name);
        run->name_len = strlen(run->name) + 1; /* with its NUL: the least name behind it */
        run->bucket = bucket->id;
        if (eng_text_get(run->gw->store, bucket->id, GW_TEXT_INVENTORY, &text) != 0) {
                gw_inventory_rest(run, REST_LEAST_NS / 100, inventory_bucket);
                return;
        }
        run->text = eng_text_ref(text);
        run->rest = gw_s3_str(eng_text_bytes(text));
        inventory_config(run);
}

/* ---- beginning, end, figures ----------------------------------------------------------------- */

static void inventory_started(struct lp_msg *msg)
{
        struct gw_inventory *run = container_of(msg, struct gw_inventory, start);
        uint64_t every = inventory_every(run);

        gw_inventory_rest(run, every < FIRST_NS ? every : FIRST_NS, inventory_pass);
}

int gw_inventory_start(struct gw_gateway *gw, unsigned day_seconds)
{
        struct gw_inventory *run = calloc(1, sizeof(*run));

        assert(gw->inventory == NULL && day_seconds > 0);
        if (run == NULL || era_gzip_new(&run->gzip) != 0) {
                free(run);
                return -ENOMEM;
        }
        run->magic = gw_inventory_magic;
        run->gw = gw;
        run->gw_loop = &gw->loops[0];
        run->loop = gw->loops[0].lp;
        run->day_seconds = day_seconds;
        run->start.run = inventory_started;
        gw->inventory = run;
        lp_post(run->loop, &run->start);
        return 0;
}

void gw_inventory_free(struct gw_inventory *run)
{
        if (run == NULL)
                return;
        lp_timer_stop(run->loop, &run->timer);
        if (!run->left && run->writing && gw_own_leave(&run->own))
                run->under_way--;
        run->left = true;
        if (run->under_way > 0) /* what comes back last frees it */
                return;
        gw_inventory_let_go(run);
        eng_text_unref(run->text);
        era_gzip_free(run->gzip);
        free(run);
}

void gw_inventory_read(const struct gw_gateway *gw, struct gw_inventory_stats *out)
{
        const struct gw_inventory *run = gw->inventory;

        memset(out, 0, sizeof(*out));
        if (run == NULL)
                return;
        out->running = atomic_load(&run->running);
        out->passes = atomic_load(&run->passes);
        out->reports = atomic_load(&run->reports);
        out->listed = atomic_load(&run->listed);
        out->failed = atomic_load(&run->failed);
        out->refused = atomic_load(&run->refused);
        out->skipped = atomic_load(&run->skipped);
}
