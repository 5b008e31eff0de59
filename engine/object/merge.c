/*
 * merge.c - one ordered list out of scans of several drives: a smallest set of drives that covers
 * all PGs, each asked for the PGs it stands for, merged on the loop of the request.
 *
 * Answers are values, so nothing on a drive is held while a listing goes on; a drive that fails
 * meanwhile makes the merge begin again over those that are left, and a new placement makes it
 * begin again, too: a drive from which groups went may have forgotten their names
 * (migrated_drop.c).
 */
#include "engine/object/object.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RETRIES  40u
#define RETRY_NS (50ull * 1000 * 1000)

/* ---- the cover ------------------------------------------------------------------------------- */

static unsigned covers(const struct eng_loop *el, unsigned slot, const uint64_t *open)
{
        unsigned pg, n = 0;

        for (pg = 0; pg < el->store->pg_count; pg++)
                if ((open[pg / 64] >> (pg % 64) & 1) && (eng_speakers(&el->view, pg) & eng_bit(slot)))
                        n++;
        return n;
}

static void merge_take(const struct eng_loop *el, unsigned slot, uint64_t *open, uint64_t *taken)
{
        unsigned pg;

        for (pg = 0; pg < el->store->pg_count; pg++)
                if ((open[pg / 64] >> (pg % 64) & 1) && (eng_speakers(&el->view, pg) & eng_bit(slot))) {
                        open[pg / 64] &= ~(1ull << (pg % 64));
                        taken[pg / 64] |= 1ull << (pg % 64);
                }
}

/*
 * Greedy: the drive that covers most of what is open, until nothing is. -EHOSTDOWN: they do not
 * cover all.
 */
static int make_cover(struct eng_loop *el, eng_mask fit)
{
        struct eng_store *store = el->store;
        size_t words = store->pg_words;
        uint64_t *open = calloc(words, 8);
        unsigned left = store->pg_count, i;
        int rv = -ENOMEM;

        free(el->home.cover_pgs);
        el->home.cover_pgs = calloc(words * el->view.map->drives, 8);
        el->home.cover_count = 0;
        if (open == NULL || el->home.cover_pgs == NULL)
                goto out;
        for (i = 0; i < store->pg_count; i++)
                open[i / 64] |= 1ull << (i % 64);
        while (left > 0) {
                unsigned best = 0, best_n = 0;

                for (i = 0; i < el->view.map->drives; i++) {
                        unsigned n = fit & eng_bit(i) ? covers(el, i, open) : 0;

                        if (n > best_n) {
                                best = i;
                                best_n = n;
                        }
                }
                rv = -EHOSTDOWN;
                if (best_n == 0)
                        goto out;
                assert(best_n <= left && el->home.cover_count < el->view.map->drives);
                merge_take(el, best, open, el->home.cover_pgs + words * el->home.cover_count);
                el->home.cover_share[el->home.cover_count] = (uint16_t)best_n;
                el->home.cover_drive[el->home.cover_count++] = (uint16_t)best;
                fit &= ~eng_bit(best);
                left -= best_n;
        }
        rv = 0;
out:
        free(open);
        return rv;
}

/* Of these drives, those that this loop owns: asking them takes no message to another. */
static eng_mask own_drives(const struct eng_loop *el, eng_mask fit)
{
        eng_mask own = 0;
        unsigned i;

        for (i = 0; i < el->view.map->drives; i++)
                if ((fit & eng_bit(i)) && el->store->members[i].drive->owner == el->loop)
                        own |= eng_bit(i);
        return own;
}

int eng_cover(struct eng_loop *el, eng_mask avoid)
{
        eng_mask fit = eng_all_speakers(&el->view) & ~avoid;
        unsigned least;
        int rv;

        assert(eng_on_loop(el));
        if (el->home.cover_valid && el->home.cover_in == fit && el->home.cover_back == el->view.back && el->home.cover_map == el->view.map)
                return 0;
        rv = make_cover(el, fit);
        least = el->home.cover_count;
        if (rv == 0 && (make_cover(el, own_drives(el, fit)) != 0 || el->home.cover_count > least))
                rv = make_cover(el, fit);
        el->home.cover_valid = rv == 0;
        el->home.cover_in = fit;
        el->home.cover_back = el->view.back;
        el->home.cover_map = el->view.map;
        return rv;
}

/* ---- the merge ------------------------------------------------------------------------------- */

/* One drive's part of a merge. owner: the loop of the request; op: the drive while out */
struct source {
        struct eng_merge *merge;
        unsigned slot;
        struct eng_op op;
        struct eng_name from;
        bool after, more;
        unsigned batch;      /* entries asked for at once */
        const uint8_t *next; /* entry to be merged next */
        unsigned left;       /* entries from there */
        uint64_t *pgs;
};

struct eng_merge {
        struct eng_loop *el;
        const struct eng_placement *map; /* that the cover was made by */
        struct eng_name from, to;
        bool after;
        unsigned prefix_len, flags, max;
        uint8_t *delimiter;
        size_t delimiter_len;
        eng_merge_done done;
        void *arg;
        unsigned source_count, out, retries;
        eng_mask avoid; /* drives whose scans failed */
        struct source *sources;
        int rv;
        struct eng_buf **kept; /* answers the entries point into */
        unsigned kept_count, kept_cap;
        const struct eng_scan_entry **entries;
        unsigned count;
        struct lp_timer retry;
        TAILQ_ENTRY(eng_merge) link; /* el->home.retrying, while the timer runs */
        struct lp_msg msg;
};

static int merge_begin(struct eng_merge *merge);

static void drop_answers(struct eng_merge *merge)
{
        unsigned i;

        for (i = 0; i < merge->kept_count; i++)
                eng_buf_unref(merge->kept[i]);
        merge->kept_count = 0;
        merge->count = 0;
        for (i = 0; i < merge->source_count; i++)
                free(merge->sources[i].pgs);
        free(merge->sources);
        merge->sources = NULL;
        merge->source_count = 0;
}

static void merge_finish(struct eng_merge *merge, int rv, bool more)
{
        assert(merge->out == 0);
        if (rv == 0 && !eng_is_current(merge->el->store))
                rv = -EHOSTDOWN;
        merge->done(merge->arg, rv, merge->entries, rv == 0 ? merge->count : 0, more);
        drop_answers(merge);
        free(merge->kept);
        free(merge->entries);
        free(merge->delimiter);
        free(merge);
}

static void retry(struct lp_timer *timer)
{
        struct eng_merge *merge = container_of(timer, struct eng_merge, retry);
        int rv;

        TAILQ_REMOVE(&merge->el->home.retrying, merge, link);
        rv = merge_begin(merge);
        if (rv != 0)
                merge_finish(merge, rv, false);
}

/* All scans are back and one failed: again a little later, when the view may have changed. */
static void merge_fail(struct eng_merge *merge, int rv)
{
        struct eng_loop *el = merge->el;

        assert(merge->out == 0 && rv != 0);
        drop_answers(merge);
        merge->rv = 0;
        if (++merge->retries > RETRIES || el->home.merges_stopped) {
                merge_finish(merge, rv == -EBADMSG ? -EIO : -EHOSTDOWN, false);
                return;
        }
        lp_timer_start(el->loop, &merge->retry, RETRY_NS);
        TAILQ_INSERT_TAIL(&el->home.retrying, merge, link);
}

void eng_merges_stop(struct eng_loop *el)
{
        struct lp_loop *before = lp_become(el->loop);
        struct eng_merge *merge;

        el->home.merges_stopped = true;
        while ((merge = TAILQ_FIRST(&el->home.retrying)) != NULL) {
                TAILQ_REMOVE(&el->home.retrying, merge, link);
                lp_timer_stop(el->loop, &merge->retry);
                merge_finish(merge, -EHOSTDOWN, false);
        }
        lp_become(before);
}

static int merge_keep(struct eng_merge *merge, struct eng_buf *buf)
{
        if (merge->kept_count == merge->kept_cap) {
                unsigned cap = merge->kept_cap * 2 + 8;
                struct eng_buf **grown = realloc(merge->kept, cap * sizeof(*grown));

                if (grown == NULL)
                        return -ENOMEM;
                merge->kept = grown;
                merge->kept_cap = cap;
        }
        merge->kept[merge->kept_count++] = buf;
        return 0;
}

static void merge_on(struct eng_merge *merge);

static void merge_scanned(struct eng_op *op)
{
        struct source *src = container_of(op, struct source, op);
        struct eng_merge *merge = src->merge;
        int rv = op->result;

        assert(eng_on_loop(merge->el) && merge->out > 0);
        merge->out--;
        if (rv == 0 && op->scan.entries != NULL) {
                rv = merge_keep(merge, op->scan.entries);
                if (rv != 0)
                        eng_buf_unref(op->scan.entries);
        }
        if (rv == 0) {
                src->next = op->scan.entries == NULL || op->scan.count == 0 ? NULL : op->scan.entries->data;
                src->left = op->scan.count;
                src->more = op->scan.more && op->scan.count > 0;
        } else {
                merge->avoid |= eng_bit(src->slot); /* others of its PGs' members are asked instead */
                merge->rv = rv;
        }
        if (merge->out > 0)
                return;
        if (merge->rv == 0 && merge->map != merge->el->view.map)
                merge->rv = -ESTALE;
        if (merge->rv != 0)
                merge_fail(merge, merge->rv);
        else
                merge_on(merge);
}

static void scan(struct source *src)
{
        struct eng_merge *merge = src->merge;
        struct eng_op *op = &src->op;

        assert(src->left == 0);
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SCAN;
        op->flags = merge->flags | (merge->el->store->options.cluster != NULL ? ENG_OP_OTHERS : 0);
        op->epoch = merge->el->view.epoch;
        op->done = merge_scanned;
        op->scan.from = src->from.data;
        op->scan.from_len = src->from.len;
        op->scan.after = src->after;
        op->scan.to = merge->to.data;
        op->scan.to_len = merge->to.len;
        op->scan.prefix_len = (uint16_t)merge->prefix_len;
        op->scan.delimiter = merge->delimiter_len == 0 ? NULL : merge->delimiter;
        op->scan.delimiter_len = (uint16_t)merge->delimiter_len;
        op->scan.max = src->batch;
        op->scan.pgs = src->pgs;
        op->scan.pg_words = merge->el->store->pg_words;
        merge->out++;
        eng_drive_submit(merge->el->store->members[src->slot].drive, op);
}

int eng_scan_compare(const struct eng_scan_entry *a, const struct eng_scan_entry *b)
{
        unsigned n = a->name_len < b->name_len ? a->name_len : b->name_len;
        int c = memcmp(a + 1, b + 1, n);

        return c != 0 ? c : (int)a->name_len - (int)b->name_len;
}

static struct source *merge_least(struct eng_merge *merge)
{
        struct source *best = NULL;
        unsigned i;

        for (i = 0; i < merge->source_count; i++) {
                struct source *src = &merge->sources[i];

                if (src->left > 0 && (best == NULL || eng_scan_compare((const struct eng_scan_entry *)src->next,
                                                                       (const struct eng_scan_entry *)best->next) < 0))
                        best = src;
        }
        return best;
}

static bool same_as_last(const struct eng_merge *merge, const struct eng_scan_entry *e)
{
        const struct eng_scan_entry *last = merge->count == 0 ? NULL : merge->entries[merge->count - 1];

        return last != NULL && last->name_len == e->name_len && memcmp(eng_entry_name(last), eng_entry_name(e), e->name_len) == 0;
}

/*
 * The source's entries are used up but its drive has more: it goes on behind the last one. It may have
 * all that is left of the page, as where a key has many versions, or just one name of it.
 */
static void merge_refill(struct source *src, const struct eng_scan_entry *last)
{
        unsigned lacks = src->merge->max + 1 - src->merge->count;

        src->batch = lacks < 2 * src->batch ? lacks : 2 * src->batch;
        src->from.len = last->name_len;
        memcpy(src->from.data, eng_entry_name(last), last->name_len);
        src->after = true;
        if (eng_entry_is_prefix(last)) {
                eng_name_successor(&src->from);
                src->after = false;
        }
        scan(src);
}

static void merge_on(struct eng_merge *merge)
{
        struct source *src;

        while ((src = merge_least(merge)) != NULL) {
                const struct eng_scan_entry *e = (const struct eng_scan_entry *)src->next;

                if (!same_as_last(merge, e)) {
                        if (merge->count == merge->max) {
                                merge_finish(merge, 0, true);
                                return;
                        }
                        merge->entries[merge->count++] = e;
                }
                src->next += e->size;
                if (--src->left == 0 && src->more) {
                        merge_refill(src, e);
                        return;
                }
        }
        merge_finish(merge, 0, false);
}

/*
 * How many entries to ask a drive for that stands for `share` of all groups. Names fall into groups
 * by their hash, so its part of a page is binomial: two deviations more than the mean, and one drive
 * in fifty has to be asked again. A common prefix is on all drives.
 */
static unsigned batch_size(const struct eng_merge *merge, unsigned share)
{
        const uint64_t whole = (uint64_t)merge->max + 1, groups = merge->el->store->pg_count;
        const uint64_t mean = whole * share / groups + 1, variance = whole * share / groups * (groups - share) / groups;
        uint64_t spread = 1;

        assert(share <= groups);
        while (spread * spread < variance)
                spread++;
        return (unsigned)(merge->delimiter_len > 0 || mean + 2 * spread > whole ? whole : mean + 2 * spread);
}

static eng_mask drives_that_are_last(const struct eng_loop *el)
{
        eng_mask speakers = eng_all_speakers(&el->view), last = 0;
        unsigned i;

        for (i = 0; i < el->view.map->drives; i++)
                if ((speakers & eng_bit(i)) && eng_drive_is_last(el->store->members[i].drive))
                        last |= eng_bit(i);
        return last;
}

/* Asks the drives, which answer later. What keeps it from that; the merge stands then as before. */
static int merge_begin(struct eng_merge *merge)
{
        struct eng_loop *el = merge->el;
        size_t words = el->store->pg_words;
        unsigned i;
        int rv;

        assert(merge->out == 0 && merge->source_count == 0);
        if (el->view.ready)
                merge->avoid |= drives_that_are_last(el);
        rv = el->view.ready && !el->view.in_doubt ? eng_cover(el, merge->avoid) : -EHOSTDOWN;
        if (rv == -EHOSTDOWN && merge->avoid != 0 && el->view.ready && !el->view.in_doubt) {
                merge->avoid = 0;
                rv = eng_cover(el, 0);
        }

        merge->map = el->view.map;
        if (rv == 0) {
                merge->sources = calloc(el->home.cover_count, sizeof(merge->sources[0]));
                rv = merge->sources == NULL ? -ENOMEM : 0;
        }
        for (i = 0; rv == 0 && i < el->home.cover_count; i++) {
                struct source *src = &merge->sources[i];

                merge->source_count++;
                src->merge = merge;
                src->slot = el->home.cover_drive[i];
                src->from = merge->from;
                src->after = merge->after;
                src->batch = batch_size(merge, el->home.cover_share[i]);
                src->pgs = malloc(words * 8);
                if (src->pgs == NULL)
                        rv = -ENOMEM;
                else
                        memcpy(src->pgs, el->home.cover_pgs + words * i, words * 8);
        }
        if (rv != 0)
                return rv;
        for (i = 0; i < merge->source_count; i++)
                scan(&merge->sources[i]);
        return 0;
}

static void finish_from_message(struct lp_msg *msg)
{
        struct eng_merge *merge = container_of(msg, struct eng_merge, msg);

        assert(merge->rv != 0);
        merge_finish(merge, merge->rv, false);
}

/* No memory to begin with. */
struct refusal {
        struct lp_msg msg;
        eng_merge_done done;
        void *arg;
};

static void merge_refuse(struct lp_msg *msg)
{
        struct refusal *r = (struct refusal *)msg;

        r->done(r->arg, -ENOMEM, NULL, 0, false);
        free(r);
}

void eng_merge_start(struct eng_loop *el, const struct eng_merge_params *params, eng_merge_done done, void *arg)
{
        struct eng_merge *merge;

        if (eng_is_home(el->store)) {
                eng_home_merge(el, params, done, arg);
                return;
        }
        merge = calloc(1, sizeof(*merge));
        if (merge != NULL) {
                merge->entries = calloc(params->max + 1, sizeof(merge->entries[0]));
                merge->delimiter = malloc(params->delimiter_len + 1);
        }
        if (merge == NULL || merge->entries == NULL || merge->delimiter == NULL) {
                struct refusal *r = malloc(sizeof(*r));

                if (merge != NULL) {
                        free(merge->entries);
                        free(merge->delimiter);
                        free(merge);
                }
                if (r == NULL)
                        abort(); /* not even a message: the process is beyond answering */
                *r = (struct refusal){.msg.run = merge_refuse, .done = done, .arg = arg};
                lp_post(el->loop, &r->msg);
                return;
        }
        merge->el = el;
        merge->from = *params->from;
        merge->to = *params->to;
        merge->after = params->after;
        merge->prefix_len = params->prefix_len;
        merge->flags = params->flags;
        merge->max = params->max;
        memcpy(merge->delimiter, params->delimiter, params->delimiter_len);
        merge->delimiter_len = params->delimiter_len;
        merge->done = done;
        merge->arg = arg;
        merge->retry.expired = retry;
        merge->rv = merge_begin(merge);
        if (merge->rv == 0)
                return;
        merge->msg.run = finish_from_message;
        lp_post(el->loop, &merge->msg);
}
