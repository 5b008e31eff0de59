/*
 * lifecycle_place.c - where a pass is, kept over restarts: a pass over 1e9 objects takes hours, and
 * a store that is restarted more often than that must still come to its last bucket. On the
 * gateway's first loop.
 *
 * The place is a text of the bucket that the pass is in, written about once a minute: the rules'
 * generation, which of their prefixes, and the last key of which everything was met. It is a hint:
 * whoever goes on from it meets some things again, which is no loss, and other rules begin anew. The
 * bucket keeps it until another has one, or the pass ends. Where a crash leaves two, the pass that
 * goes on from the first of them comes to the other, whose text goes when its bucket is done with.
 */
#include "gateway/s3/lifecycle_pass.h"

#include <errno.h>
#include <stdio.h>

#define KEEPS_A_DAY   1440u
#define KEEP_LEAST_NS 100000000ull /* with the short days of tests */
#define PLACE_HEAD    80u

/* | "1 generation listing prefix", a line feed | key |. The 1 is the version of this form. */
static size_t place_write(const struct gw_lifecycle *run, char *out)
{
        int len = snprintf(out, PLACE_HEAD, "1 %llu %u %u\n", (unsigned long long)eng_text_generation(run->text),
                           (unsigned)run->at.listing, run->at.prefix);

        assert(len > 0 && len < (int)PLACE_HEAD);
        memcpy(out + len, run->at.whole, run->at.whole_len);
        return (size_t)len + run->at.whole_len;
}

/* False: it is of other rules, or of another build. */
static bool place_read(struct gw_lifecycle *run, struct eng_str text)
{
        const char *end = memchr(text.data, '\n', text.len < PLACE_HEAD ? text.len : PLACE_HEAD - 1);
        size_t head = end != NULL ? (size_t)(end - text.data) + 1 : 0;
        unsigned version, listing, prefix;
        unsigned long long generation;
        char line[PLACE_HEAD];

        if (end == NULL || text.len - head > ENG_KEY_MAX)
                return false;
        memcpy(line, text.data, head);
        line[head - 1] = '\0';
        if (sscanf(line, "%u %llu %u %u", &version, &generation, &listing, &prefix) != 4 || version != 1 ||
            generation != eng_text_generation(run->text) || listing > LIFECYCLE_UPLOADS || prefix >= run->rules->prefix_count)
                return false;
        run->at.listing = (enum lifecycle_listing)listing;
        run->at.prefix = prefix;
        run->at.key_len = run->at.whole_len = text.len - head;
        memcpy(run->at.key, text.data + head, run->at.key_len);
        memcpy(run->at.whole, run->at.key, run->at.key_len);
        return true;
}

/* ---- changes --------------------------------------------------------------------------------- */

static void place_changed(void *arg, int rv)
{
        struct gw_lifecycle *run = GW_CAST(gw_lifecycle, arg);

        if (!run->left)
                gw_lifecycle_change_ends(run);
        run->place_rv = rv;
        if (gw_lifecycle_back(run))
                run->after_change(run);
}

/* Something comes back, and then() is called. False: changes are not allowed. */
static bool place_change_begins(struct gw_lifecycle *run, void (*then)(struct gw_lifecycle *run))
{
        if (!gw_lifecycle_change_begins(run))
                return false;
        run->after_change = then;
        run->under_way++;
        return true;
}

static void place_delete(struct gw_lifecycle *run, uint64_t bucket, void (*then)(struct gw_lifecycle *run))
{
        if (place_change_begins(run, then))
                eng_text_delete(run->gw->store, bucket, GW_TEXT_LIFECYCLE_PLACE, ENG_TEXT_ANY, place_changed, run);
        else
                then(run);
}

/* The one before is of no use any more. */
static void place_was_kept(struct gw_lifecycle *run)
{
        uint64_t before = run->placed;

        if (run->place_rv == 0)
                run->placed = run->bucket;
        if (before != 0 && before != run->placed)
                place_delete(run, before, run->after_place);
        else
                run->after_place(run);
}

void gw_lifecycle_place_keep(struct gw_lifecycle *run, void (*then)(struct gw_lifecycle *run))
{
        uint64_t every = gw_lifecycle_part_of_day(run, KEEPS_A_DAY);
        char text[PLACE_HEAD + ENG_KEY_MAX];

        if (lp_now(run->loop) - run->kept_at < (every > KEEP_LEAST_NS ? every : KEEP_LEAST_NS) ||
            !place_change_begins(run, place_was_kept)) {
                then(run);
                return;
        }
        run->after_place = then;
        run->kept_at = lp_now(run->loop);
        eng_text_set(run->gw->store, run->bucket, GW_TEXT_LIFECYCLE_PLACE, ENG_TEXT_ANY,
                     (struct eng_str){text, place_write(run, text)}, place_changed, run);
}

void gw_lifecycle_place_pass(struct gw_lifecycle *run, void (*then)(struct gw_lifecycle *run))
{
        struct eng_text *text;
        int rv = eng_text_get(run->gw->store, run->bucket, GW_TEXT_LIFECYCLE_PLACE, &text);

        if (run->bucket != run->placed && (rv == 0 || rv == -EIO)) /* -EIO: there is one that nobody can read */
                place_delete(run, run->bucket, then);
        else
                then(run);
}

void gw_lifecycle_place_end(struct gw_lifecycle *run, void (*then)(struct gw_lifecycle *run))
{
        uint64_t placed = run->placed;

        run->placed = 0;
        if (placed != 0)
                place_delete(run, placed, then);
        else
                then(run);
}

bool gw_lifecycle_place_find(struct gw_lifecycle *run)
{
        struct eng_text *text;

        if (eng_text_get(run->gw->store, run->bucket, GW_TEXT_LIFECYCLE_PLACE, &text) != 0)
                return false;
        run->placed = run->bucket;
        place_read(run, eng_text_bytes(text));
        return true;
}
