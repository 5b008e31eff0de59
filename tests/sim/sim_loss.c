/*
 * sim_loss.c - see sim_loss.h.
 */
#include "tests/sim/sim_loss.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "engine/record/stripe.h"
#include "engine/upkeep/upkeep.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_clients.h"
#include "tests/sim/sim_content.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_operator.h"
#include "tests/sim/sim_world.h"

#define LOSES_IN 3u   /* one history with faults in so many */
#define TRIES    100u  /* in a life */

struct loss_figures loss_figures;

static struct {
        bool planned, exact; /* exact: nothing else damages shards, so that as many can be taken as the code makes good for */
        bool waits;         /* no more in this life */
        bool changes;       /* a drive is to be lost or removed while objects with stripes beyond repair are there */
        unsigned tries;
        struct sim_loss items[LOSSES_MAX];
        unsigned count;
        bool pending;       /* loss_pending(), unless it has come to an end since */
        uint64_t named;     /* eng_lost_object_next() */
} losses;

static uint64_t below(uint64_t n)
{
        return sim_below(SIM_LOSS, n);
}

static bool chance(unsigned of)
{
        return sim_chance(SIM_LOSS, of);
}

/* ---- what is lost ---------------------------------------------------------------------------- */

static uint64_t taken_by_others(void)
{
        return operator_figures.lost + sim_figures.images_restored + sim_figures.cuts + sim_figures.rotten + sim_figures.lost_frames;
}

bool loss_planned(void)
{
        return losses.planned;
}

unsigned loss_count(void)
{
        return losses.count;
}

const struct sim_loss *loss_of(const uint8_t id[FMT_ID], uint32_t stripe)
{
        unsigned i;

        for (i = 0; i < losses.count; i++)
                if (losses.items[i].stripe == stripe && memcmp(losses.items[i].id, id, FMT_ID) == 0)
                        return &losses.items[i];
        return NULL;
}

bool loss_may_have_grown(const struct sim_loss *loss)
{
        return taken_by_others() != loss->others;
}

static int by_place(const void *a, const void *b)
{
        const struct loss_range *x = a, *y = b;

        return x->from < y->from ? -1 : x->from > y->from;
}

/* Those of one part, which begins there in its object. */
static unsigned ranges_of(uint32_t own, uint64_t start, struct loss_range *out)
{
        unsigned i, n = 0;

        for (i = 0; i < losses.count; i++)
                if (losses.items[i].content == own)
                        out[n++] = (struct loss_range){start + losses.items[i].from, start + losses.items[i].to};
        return n;
}

unsigned loss_ranges(uint32_t content, struct loss_range out[LOSSES_MAX])
{
        const struct sim_content *c = content_of(content);
        uint64_t start = 0;
        unsigned i, n;

        if (c == NULL || losses.count == 0)
                return 0;
        n = c->part_count == 0 ? ranges_of(content, 0, out) : 0;
        for (i = 0; i < c->part_count; i++) {
                n += ranges_of(c->parts[i], start, out + n);
                start += content_of(c->parts[i])->size;
        }
        qsort(out, n, sizeof(out[0]), by_place);
        return n;
}

bool loss_meets(uint32_t content, uint64_t from, uint64_t to)
{
        struct loss_range ranges[LOSSES_MAX];
        unsigned i, n = loss_ranges(content, ranges);

        for (i = 0; i < n; i++)
                if (ranges[i].from < to && from < ranges[i].to)
                        return true;
        return false;
}

bool loss_pending(void)
{
        losses.pending = losses.pending && !shards_whole();
        return losses.pending;
}

/* ---- taking shards --------------------------------------------------------------------------- */

static bool is_shard(const struct sim_frame *frame, const uint8_t id[FMT_ID], uint32_t stripe, unsigned shard)
{
        return frame->written != 0 && frame->stripe == stripe && frame->shard == shard && memcmp(frame->object_id, id, FMT_ID) == 0;
}

static void spoil_image(struct sim_image *image, const uint8_t id[FMT_ID], uint32_t stripe, unsigned shard)
{
        unsigned i;

        for (i = 0; i < image->frame_count; i++)
                if (is_shard(&image->frames[i], id, stripe, shard))
                        image->frames[i].damaged = true;
}

/* No disk has it any more, in no copy: it is not there, or not readable. */
static void take(const uint8_t id[FMT_ID], uint32_t stripe, unsigned shard)
{
        bool rots = chance(2);
        unsigned i, j;

        loss_figures.shards++;
        sim_trace("  shard %u of stripe %u of %s is %s", shard, stripe, sim_id(id), rots ? "damaged" : "gone");
        for (i = 0; i < sim_disk_count; i++) {
                struct sim_disk *disk = &sim_disks[i];

                spoil_image(&disk->image, id, stripe, shard);
                for (j = disk->frame_count; j-- > 0;)
                        if (is_shard(disk->frames[j], id, stripe, shard)) {
                                disk->frames[j]->damaged = true;
                                if (!rots)
                                        sim_disk_drop_frame(disk, j);
                        }
        }
}

/* So many shards of the stripe that are stored, drawn; a bit for each. */
static uint32_t draw_shards(const struct eng_part *part, uint32_t stripe, unsigned n)
{
        unsigned shards = (unsigned)part->head.k + part->head.m, shard;
        uint32_t drawn = 0;

        while (n > 0) {
                shard = (unsigned)below(shards);
                if ((drawn >> shard & 1) != 0 || (shard < part->head.k && shard >= eng_stripe_units(&part->head, stripe)))
                        continue;
                drawn |= 1u << shard;
                n--;
        }
        return drawn;
}

static void take_all(const struct eng_part *part, uint32_t stripe, uint32_t shards)
{
        unsigned i;

        for (i = 0; i < 32; i++)
                if ((shards >> i & 1) != 0)
                        take(part->head.id, stripe, i);
}

/* ---- which ----------------------------------------------------------------------------------- */

static struct {
        unsigned met;
        const struct sim_name *entry; /* holds while no event runs */
        struct eng_part part;
        uint32_t stripe, content;
        unsigned stripes;             /* of the object */
} target;

static uint32_t own_content(const struct sim_name *entry, unsigned part)
{
        uint32_t content = content_of_etag(((const struct fmt_value *)entry->value->data)->etag);
        const struct sim_content *c = content_of(content);

        if (c == NULL)
                return 0;
        return c->part_count == 0 ? content : c->parts[part];
}

/* One that may become a version, of which these scenes know nothing. */
static bool is_of_versions(const struct sim_name *entry)
{
        uint64_t bucket;

        memcpy(&bucket, entry->name->data + 1, sizeof(bucket));
        return versions_are_of(be64toh(bucket));
}

/* Any stripe is as good as any other. */
static void draw_target(const struct sim_name *entry, void *arg)
{
        struct eng_part part;
        uint32_t stripe;
        unsigned i = 0, stripes = 0;
        size_t pos = 0;

        if (entry->name->data[0] != FMT_SPACE_OBJECT || ((const struct fmt_value *)entry->value->data)->parts == 0 ||
            clients_use(entry->name->data + 9, entry->name->len - 9u) || is_of_versions(entry))
                return;
        while (eng_value_next_part(entry->value->data, entry->value->len, &pos, &part) == 1)
                stripes += eng_part_stripes(&part.head);
        for (pos = 0; eng_value_next_part(entry->value->data, entry->value->len, &pos, &part) == 1; i++)
                for (stripe = 0; stripe < eng_part_stripes(&part.head); stripe++)
                        if (below(++target.met) == 0 && own_content(entry, i) != 0) {
                                target.entry = entry;
                                target.part = part;
                                target.stripe = stripe;
                                target.content = own_content(entry, i);
                                target.stripes = stripes;
                        }
}

/* Of some other stripes of the same part, as many shards as the code makes good for. */
static void damage_beside(void)
{
        uint32_t stripe;

        for (stripe = 0; stripe < eng_part_stripes(&target.part.head); stripe++)
                if (stripe != target.stripe && loss_of(target.part.head.id, stripe) == NULL && chance(2)) {
                        take_all(&target.part, stripe, draw_shards(&target.part, stripe, 1 + (unsigned)below(target.part.head.m)));
                        losses.pending = true;
                }
}

static void lose(void)
{
        struct sim_loss *loss = &losses.items[losses.count++];
        uint64_t width = (uint64_t)target.part.head.k * target.part.head.unit;

        sim_trace("a stripe of content %u is lost", target.content);
        memcpy(loss->id, target.part.head.id, FMT_ID);
        memset(loss->key, 0, sizeof(loss->key));
        memcpy(loss->key, target.entry->name->data + 9, target.entry->name->len - 9u);
        loss->stripe = target.stripe;
        loss->content = target.content;
        loss->from = target.stripe * width;
        loss->to = loss->from + eng_stripe_bytes(&target.part.head, target.stripe);
        loss->gone = draw_shards(&target.part, target.stripe, target.part.head.m + 1u);
        take_all(&target.part, target.stripe, loss->gone);
        loss->others = taken_by_others();
        loss_figures.stripes++;
        loss_figures.of_several += target.stripes > 1;
        if (target.part.head.m > 0 && losses.exact && chance(2))
                damage_beside();
}

/* As many as the code makes good for, and then a drive with another one goes away. */
static void nearly_lose(void)
{
        unsigned shards = (unsigned)target.part.head.k + target.part.head.m, shard = (unsigned)below(shards), i;
        uint32_t taken = draw_shards(&target.part, target.stripe, target.part.head.m);
        unsigned slot;

        while ((taken >> shard & 1) != 0)
                shard = (shard + 1) % shards;
        slot = eng_part_drive(&target.part, target.stripe, shard);
        sim_trace("a stripe of content %u is lost but for drive %u", target.content, slot);
        take_all(&target.part, target.stripe, taken);
        losses.pending = true;
        loss_figures.nearly++;
        world.calm = false;
        for (i = 0; i < sim_disk_count; i++)
                if (sim_disks[i].use == SIM_DISK_SERVES && sim_disks[i].open != NULL && sim_disks[i].identity.slot == slot)
                        sim_drive_fail(&sim_disks[i], "a stripe needs it");
}

/* ---- when ------------------------------------------------------------------------------------ */

static bool rebuilds(void)
{
        unsigned i;

        for (i = 0; i < world.loop_count; i++)
                if (!TAILQ_EMPTY(&world.store->loops[i].leader.rebuilds))
                        return true;
        return false;
}

/* It is being written, by a repair that has read it before. */
static bool is_written(const uint8_t id[FMT_ID])
{
        unsigned i, j;

        for (i = 0; i < sim_disk_count; i++)
                for (j = 0; j < sim_disks[i].frame_count; j++)
                        if (sim_disks[i].frames[j]->written == 0 && memcmp(sim_disks[i].frames[j]->object_id, id, FMT_ID) == 0)
                                return true;
        return false;
}

/*
 * Every shard that is named is there, and nobody holds what it has read of them to write it anew.
 */
static bool find_target(void)
{
        if (losses.count == LOSSES_MAX || !operator_sees_whole() || !operator_idle() || loss_pending() || rebuilds() || !shards_whole())
                return false;
        memset(&target, 0, sizeof(target));
        check_values(draw_target, NULL);
        return target.entry != NULL && loss_of(target.part.head.id, target.stripe) == NULL && !is_written(target.part.head.id);
}

static void look(void *arg)
{
        if (world.gone || losses.tries == 0)
                return;
        losses.tries--;
        if (losses.changes && world.store->coord->phase == ENG_PHASE_OPEN && losses.count > 0 && operator_changes_one()) {
                losses.changes = false;
                loss_figures.changed++;
        }
        if (losses.waits || world.store->coord->phase != ENG_PHASE_OPEN || world.bucket_count == 0 || !find_target()) {
                sim_at(sim_skewed(SIM_LOSS, SIM_MS, SIM_S), NULL, look, NULL);
                return;
        }
        if (losses.exact && target.part.head.m > 0 && chance(2))
                nearly_lose();
        else
                lose();
        if (chance(2))
                (void)eng_verify_start(world.store);
        losses.changes = losses.exact && chance(2);
        losses.waits = !chance(3);
        sim_at(sim_skewed(SIM_LOSS, SIM_MS, SIM_S), NULL, look, NULL);
}

void loss_begin(bool faults, int rotten)
{
        memset(&losses, 0, sizeof(losses));
        losses.planned = faults && chance(LOSES_IN);
        losses.exact = rotten < 0;
        if (losses.planned)
                sim_trace("plan: stripes are lost");
}

void loss_start(void)
{
        losses.named = 0;
        losses.waits = false;
        losses.tries = losses.planned && !world.last ? TRIES : 0;
        if (losses.tries > 0)
                sim_at(sim_skewed(SIM_LOSS, SIM_MS, 5 * SIM_S), NULL, look, NULL);
}

void loss_at_rest(void)
{
        unsigned n;

        for (n = losses.planned ? 1 + (unsigned)below(2) : 0; n > 0; n--)
                if (find_target())
                        lose();
}

bool loss_changes_drive(void)
{
        if (losses.count == 0 || !chance(2) || !operator_changes_one())
                return false;
        loss_figures.changed++;
        return true;
}

/* ---- what the store says --------------------------------------------------------------------- */

static bool is_named_right(const struct eng_lost_object *said)
{
        unsigned i;

        for (i = 0; i < losses.count; i++)
                if (strlen((const char *)losses.items[i].key) == said->key_len && memcmp(losses.items[i].key, said->key, said->key_len) == 0)
                        return true;
        return false;
}

void loss_watch(void)
{
        static struct eng_lost_object said;

        if (world.store->health.lost_objects > losses.count)
                sim_fail("the store counts %llu objects with stripes beyond repair, and there are %u at most",
                         (unsigned long long)world.store->health.lost_objects, losses.count);
        while (losses.named < world.store->lost_number && eng_lost_object_next(world.store, &losses.named, &said))
                if (!is_named_right(&said))
                        sim_fail("the store says that %.*s has a stripe beyond repair, and it has none", (int)said.key_len, said.key);
}
