/*
 * sim_check.c - a close look at an idle store, from outside: what stands on each drive, shard by
 * shard.
 */
#include "tests/sim/sim_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <endian.h>
#include <string.h>

#include "engine/base/store.h"
#include "engine/bucket/bucket.h"
#include "engine/record/stripe.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_clients.h"
#include "tests/sim/sim_content.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_loss.h"
#include "tests/sim/sim_operator.h"

static const struct fmt_value *head_of(const struct sim_name *entry)
{
        return (const struct fmt_value *)entry->value->data;
}

/* Whether it is the drive of its slot. */
static bool serves(const struct sim_disk *disk)
{
        const struct eng_store *store = world.store;
        unsigned slot = disk->identity.slot;

        return disk->open != NULL && slot < store->drive_count && !(store->coord->shape.gone & eng_bit(slot)) &&
               memcmp(store->members[slot].id, disk->identity.drive_id, FMT_ID) == 0;
}

/* Its names; what was replaced or removed has none. */
static const struct sim_names *names_of(const struct sim_disk *disk)
{
        static const struct sim_names none;

        return serves(disk) ? sim_drive_names(disk) : &none;
}

/* ---- names ----------------------------------------------------------------------------------- */

static void check_name(const struct sim_disk *disk, const struct sim_name *entry)
{
        eng_mask members = eng_speakers(&world.store->coord->view, head_of(entry)->pg);
        const struct eng_group *group = &world.store->coord->view.map->groups[head_of(entry)->pg];
        unsigned i;

        if (!((group->before | group->after | world.store->coord->shape.dropping_migrated) & eng_bit(disk->identity.slot)))
                sim_fail("drive %u has a name of group %u, of which it has no part", disk->number, head_of(entry)->pg);
        for (i = 0; i < sim_disk_count; i++) {
                const struct sim_name *other;

                if (!serves(&sim_disks[i]) || !(members & eng_bit(sim_disks[i].identity.slot)))
                        continue;
                other = sim_names_find(sim_drive_names(&sim_disks[i]), entry->name->data, entry->name->len);
                if (other == NULL || other->kind != SIM_PUT)
                        sim_fail("a name of space %u (seq %llu) is on drive %u and not on drive %u",
                                 entry->name->data[0], (unsigned long long)entry->seq, disk->number, i);
                if (!eng_value_alike(entry->value->data, entry->value->len, other->value->data, other->value->len))
                        sim_fail("a name of space %u says one thing on drive %u and another on drive %u",
                                 entry->name->data[0], disk->number, i);
                if (entry->inline_len != other->inline_len ||
                    (entry->inline_len > 0 && memcmp(entry->body->data + entry->inline_at,
                                                     other->body->data + other->inline_at, entry->inline_len) != 0))
                        sim_fail("inline bytes differ between drive %u and drive %u", disk->number, i);
        }
}

/* What a deleted bucket left is gone, and so is the record that asks for it. */
static void check_bucket(const struct sim_disk *disk, const struct sim_name *entry)
{
        struct eng_name name = {.len = (uint16_t)entry->name->len};
        uint64_t bucket;

        memcpy(name.data, entry->name->data, name.len);
        if (eng_dead_bucket_name_len(&name) != 0)
                sim_fail("drive %u still has the record of a bucket that was deleted", disk->number);
        memcpy(&bucket, name.data + 1, sizeof(bucket));
        if (name.data[0] != FMT_SPACE_CONFIG && eng_bucket_by_id(&world.store->loops[0], be64toh(bucket)) == NULL)
                sim_fail("drive %u has a name of space %u of a bucket that was deleted", disk->number, name.data[0]);
}

void check_replicas(void)
{
        unsigned i, j;

        for (i = 0; i < sim_disk_count; i++) {
                const struct sim_names *names = names_of(&sim_disks[i]);

                for (j = 0; j < names->count; j++)
                        if (names->items[j].kind == SIM_PUT) {
                                check_name(&sim_disks[i], &names->items[j]);
                                check_bucket(&sim_disks[i], &names->items[j]);
                        }
        }
}

/* ---- shards ---------------------------------------------------------------------------------- */

static uint8_t units[ERA_MAX_SHARDS][FMT_UNIT_MAX];

/* The k+m units that a stripe should have. */
static void expect_stripe(const struct eng_part *part, uint32_t stripe, uint32_t content)
{
        uint64_t start = (uint64_t)stripe * part->head.k * part->head.unit,
                 left = eng_stripe_bytes(&part->head, stripe);
        uint32_t unit = eng_part_unit(&part->head, stripe);
        const uint8_t *data[ERA_MAX_K];
        uint8_t *parity[ERA_MAX_M];
        struct era_code *code;
        unsigned i;

        for (i = 0; i < part->head.k; i++) {
                size_t n = left < unit ? (size_t)left : unit;

                content_fill(content, start, units[i], n);
                memset(units[i] + n, 0, unit - n);
                start += n;
                left -= n;
                data[i] = units[i];
        }
        for (i = 0; i < part->head.m; i++)
                parity[i] = units[part->head.k + i];
        if (era_code_new(part->head.k, part->head.m, &code) != 0)
                abort();
        era_encode(code, unit, data, parity);
        era_code_free(code);
}

static const struct sim_disk *disk_of_slot(unsigned slot)
{
        unsigned i;

        for (i = 0; i < sim_disk_count; i++)
                if (serves(&sim_disks[i]) && sim_disks[i].identity.slot == slot)
                        return &sim_disks[i];
        return NULL;
}

static void check_shard(const struct eng_part *part, uint32_t stripe, unsigned shard, uint32_t content, int rotten)
{
        unsigned slot = eng_part_drive(part, stripe, shard);
        const struct sim_disk *disk = disk_of_slot(slot);
        uint32_t unit = eng_part_unit(&part->head, stripe);
        const struct sim_loss *loss = loss_of(part->head.id, stripe);
        const struct sim_frame *frame;

        if (loss != NULL && (loss->gone >> shard & 1) != 0) {
                frame = disk == NULL ? NULL : sim_disk_find(disk, part->head.id, stripe, shard);
                if (frame != NULL && !frame->damaged)
                        sim_fail("content %u: shard %u of stripe %u of %s is there again, and nothing is left of which it could be made",
                                 content, shard, stripe, sim_id(part->head.id));
                return;
        }
        if (loss != NULL && loss_may_have_grown(loss))
                return;
        if (disk == NULL)
                sim_fail("content %u: shard %u of stripe %u of %s is on no drive (slot %u)", content, shard, stripe,
                         sim_id(part->head.id), slot);
        if (shard < part->head.k && shard >= eng_stripe_units(&part->head, stripe))
                return; /* a unit without a byte is not stored */
        frame = sim_disk_find(disk, part->head.id, stripe, shard);
        if (rotten == (int)disk->number)
                return;
        if (frame == NULL || frame->damaged)
                sim_fail("content %u: shard %u of stripe %u of %s is %s on drive %u", content, shard, stripe,
                         sim_id(part->head.id), frame == NULL ? "not" : "damaged", disk->number);
        if (frame->payload->len != unit || memcmp(frame->payload->data, units[shard], unit) != 0)
                sim_fail("content %u: shard %u of stripe %u is wrong on drive %u", content, shard, stripe,
                         disk->number);
        if (!frame->synced)
                sim_fail("content %u: shard %u of stripe %u is named and not durable on drive %u (I2)", content, shard,
                         stripe, disk->number);
}

static void check_value(const struct sim_name *entry, int rotten)
{
        uint32_t content = content_of_etag(head_of(entry)->etag), own, stripe;
        const struct sim_content *c = content_of(content);
        struct eng_part part;
        unsigned i = 0, shard;
        size_t pos = 0;

        if (head_of(entry)->parts == 0)
                return;
        if (c == NULL)
                sim_fail("a record that nobody wrote");
        for (; eng_value_next_part(entry->value->data, entry->value->len, &pos, &part) == 1; i++) {
                own = c->part_count == 0 ? content : c->parts[i];
                for (stripe = 0; stripe < eng_part_stripes(&part.head); stripe++) {
                        expect_stripe(&part, stripe, own);
                        for (shard = 0; shard < (unsigned)part.head.k + part.head.m; shard++)
                                check_shard(&part, stripe, shard, own, rotten);
                }
        }
}

/* Each value once: on the first drive that has it. */
static bool is_first(unsigned disk, const struct sim_name *entry)
{
        unsigned i;

        for (i = 0; i < disk; i++) {
                const struct sim_name *other =
                        sim_names_find(names_of(&sim_disks[i]), entry->name->data, entry->name->len);

                if (other != NULL && other->kind == SIM_PUT)
                        return false;
        }
        return true;
}

void check_values(void (*look)(const struct sim_name *entry, void *arg), void *arg)
{
        unsigned i, j;

        for (i = 0; i < sim_disk_count; i++) {
                const struct sim_names *names = names_of(&sim_disks[i]);

                for (j = 0; j < names->count; j++)
                        if (names->items[j].kind == SIM_PUT && is_first(i, &names->items[j]))
                                look(&names->items[j], arg);
        }
}

static void check_one_value(const struct sim_name *entry, void *rotten)
{
        check_value(entry, *(int *)rotten);
}

void check_shards(int rotten)
{
        check_values(check_one_value, &rotten);
}

static bool is_there(const struct eng_part *part, uint32_t stripe, unsigned shard)
{
        const struct sim_disk *disk = disk_of_slot(eng_part_drive(part, stripe, shard));
        const struct sim_frame *frame;

        if (shard < part->head.k && shard >= eng_stripe_units(&part->head, stripe))
                return true;
        frame = disk == NULL ? NULL : sim_disk_find(disk, part->head.id, stripe, shard);
        return frame != NULL && !frame->damaged && frame->synced;
}

static bool has_all_shards(const struct sim_name *entry)
{
        struct eng_part part;
        uint32_t stripe;
        unsigned shard;
        size_t pos = 0;

        while (eng_value_next_part(entry->value->data, entry->value->len, &pos, &part) == 1)
                for (stripe = 0; stripe < eng_part_stripes(&part.head); stripe++)
                        for (shard = 0; shard < (unsigned)part.head.k + part.head.m; shard++)
                                if (!is_there(&part, stripe, shard) && loss_of(part.head.id, stripe) == NULL)
                                        return false;
        return true;
}

bool shards_whole(void)
{
        unsigned i, j;

        for (i = 0; i < sim_disk_count; i++) {
                const struct sim_names *names = names_of(&sim_disks[i]);

                for (j = 0; j < names->count; j++)
                        if (names->items[j].kind == SIM_PUT && !has_all_shards(&names->items[j]))
                                return false;
        }
        return true;
}

/* ---- stripes beyond repair ------------------------------------------------------------------- */

static unsigned gone_of(const struct eng_part *part, uint32_t stripe)
{
        unsigned shard, n = 0;

        for (shard = 0; shard < (unsigned)part->head.k + part->head.m; shard++)
                n += !is_there(part, stripe, shard);
        return n;
}

static void count_lost(const struct sim_name *entry, void *arg)
{
        struct lost_count *count = arg;
        struct eng_part part;
        uint32_t stripe;
        unsigned gone, stripes = 0;
        size_t pos = 0;

        if (head_of(entry)->parts == 0)
                return;
        while (eng_value_next_part(entry->value->data, entry->value->len, &pos, &part) == 1)
                for (stripe = 0; stripe < eng_part_stripes(&part.head); stripe++) {
                        gone = gone_of(&part, stripe);
                        if (gone > part.head.m && loss_of(part.head.id, stripe) == NULL)
                                sim_fail("%u shards of stripe %u of %s are gone", gone, stripe, sim_id(part.head.id));
                        count->shards += gone;
                        stripes += gone > part.head.m;
                }
        count->objects += stripes > 0;
        if (stripes > 0 && count->found != NULL)
                count->found(entry->name->data, entry->name->len);
}

void check_lost(struct lost_count *count)
{
        count->objects = count->shards = 0;
        check_values(count_lost, count);
}

/* ---- leaks ----------------------------------------------------------------------------------- */

static bool names_frame(const struct sim_name *entry, const struct sim_frame *frame, unsigned slot)
{
        struct eng_part part;
        size_t pos = 0;

        if (entry->kind != SIM_PUT)
                return false;
        while (eng_value_next_part(entry->value->data, entry->value->len, &pos, &part) == 1)
                if (memcmp(part.head.id, frame->object_id, FMT_ID) == 0 &&
                    eng_part_drive(&part, frame->stripe, frame->shard) == slot)
                        return true;
        return false;
}

static bool is_named(const struct sim_frame *frame, unsigned slot)
{
        unsigned i, j;

        for (i = 0; i < sim_disk_count; i++) {
                const struct sim_names *names = names_of(&sim_disks[i]);

                for (j = 0; j < names->count; j++)
                        if (names_frame(&names->items[j], frame, slot))
                                return true;
        }
        return false;
}

uint64_t check_leaks(void)
{
        uint64_t leaked = 0;
        unsigned i, j;

        for (i = 0; i < sim_disk_count; i++)
                for (j = 0; serves(&sim_disks[i]) && j < sim_disks[i].frame_count; j++)
                        if (sim_disks[i].frames[j]->discarded == 0 &&
                            !is_named(sim_disks[i].frames[j], sim_disks[i].identity.slot))
                                leaked++;
        return leaked;
}

void check_idle(void)
{
        unsigned i;

        for (i = 0; i < world.loop_count; i++) {
                const struct eng_loop *el = &world.store->loops[i];

                if (sim_slots_out(world.loops[i]) > 0)
                        sim_fail("loop %u: %u slots were not given back", i, sim_slots_out(world.loops[i]));
                if (el->leader.txns > 0 || el->leader.locks != NULL || el->leader.pins != NULL || el->leader.append_bytes > 0)
                        sim_fail("loop %u: %u changes, %s, %s, %llu bytes are still held", i, el->leader.txns,
                                 el->leader.locks == NULL ? "no lock" : "a lock", el->leader.pins == NULL ? "no pin" : "a pin",
                                 (unsigned long long)el->leader.append_bytes);
        }
}

/* ---- whether it is idle ---------------------------------------------------------------------- */

/*
 * What objects lack is known when a walk has looked at all of them. Without that, a walk that could
 * not be begun for lack of memory, and is tried again half a minute later, looks like one that
 * found nothing; meanwhile objects may name no drive for shards that were written while a drive was
 * away.
 */
static bool is_surveyed(void)
{
        return world.store->m == 0 || world.store->heal.surveyed;
}

bool check_healed(void)
{
        const struct eng_coord *c = world.store->coord;
        static struct eng_health health;

        eng_health_read(world.store, &health);
        /* one that is lost is removed when no part of an upload needs it any more: see check_at_rest() */
        return health.writable && (c->view.in | c->shape.leaving) == c->view.map->all && is_surveyed() && !health.healing &&
               world.store->heal.failed_objects == 0 && /* else it looks again, later */
               (health.objects_below == 0 || c->shape.leaving != 0) && c->catch_up == NULL && !eng_drop_running(world.store) &&
               c->verify == NULL;
}

/* Nothing is left of a change of the drives; what took another's place has all that it should. */
bool check_at_rest(void)
{
        const struct eng_coord *c = world.store->coord;

        return c->shape.adding == 0 && c->shape.leaving == 0 && c->shape.dropping_migrated == 0 && c->wish.leaving == 0 &&
               c->wish.gone == 0 && c->filling == 0 && operator_idle() && check_healed();
}

void check_tell_rest(void)
{
        const struct eng_health *h = &world.store->health;
        const struct eng_coord *c = world.store->coord;
        unsigned i;

        printf("%s, %swritable, %s, %llu objects below, %s\n", h->ready ? "ready" : "not ready",
               h->writable ? "" : "not ", h->healing ? "healing" : "not healing", (unsigned long long)h->objects_below,
               h->reason);
        printf("  adding %llx, leaving %llx, shedding %llx, filling %llx, the operator is %s\n",
               (unsigned long long)c->shape.adding, (unsigned long long)c->shape.leaving,
               (unsigned long long)c->shape.dropping_migrated, (unsigned long long)c->filling,
               operator_idle() ? "idle" : "not idle");
        for (i = 0; i < world.store->drive_count; i++)
                printf("  drive %u: state %d %s\n", i, (int)world.store->members[i].state,
                       world.store->members[i].reason);
}
