/*
 * epoch_body.c - the body of an EPOCH record: written from what the coordinator knows, read for whoever
 * has nothing but the bytes.
 */
#include "engine/drive/rec.h"
#include "engine/epoch/epoch.h"
#include "engine/epoch/recover.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* ---- writing --------------------------------------------------------------------------------- */

static uint8_t epoch_flags(const struct eng_coord *c, eng_mask drive)
{
        const struct eng_shape *shape = &c->next_shape;
        eng_mask added = c->added | (c->shape.adding & ~shape->adding & ~shape->gone);

        return (uint8_t)((added & drive ? FMT_EPOCH_ADDED : 0) |
                         (c->filling & drive ? FMT_EPOCH_FILLING : 0) | (c->given_up & drive ? FMT_EPOCH_GIVEN_UP : 0) |
                         (c->filling & c->lost_writes & drive ? FMT_EPOCH_LOST_WRITES : 0) |
                         (shape->adding & drive ? FMT_EPOCH_ADDING : 0) |
                         (shape->leaving & drive ? FMT_EPOCH_LEAVING : 0) | (shape->gone & drive ? FMT_EPOCH_GONE : 0) |
                         (shape->dropping_migrated & drive ? FMT_EPOCH_DROPPING_MIGRATED : 0));
}

static uint32_t must_know(const struct eng_store *store)
{
        unsigned i;

        for (i = 0; i < store->drive_count; i++)
                if (eng_site_given(&store->members[i].site))
                        return FMT_EPOCH_MUST_SITES;
        return 0;
}

static uint32_t must_know_verdicts(const struct eng_store *store)
{
        unsigned i;

        for (i = 0; i < store->drive_count; i++)
                if (store->coord->next_left[i] & FMT_EPOCH_NO_TRUTH)
                        return FMT_EPOCH_MUST_NO_TRUTH;
        return 0;
}

/* Of each slot that is not in, when it left, and what is thought of it. */
static void put_left(const struct eng_store *store, uint8_t *out, eng_mask believed)
{
        unsigned slot;

        for (slot = 0; slot < store->drive_count; slot++) {
                const uint64_t left = store->coord->next_left[slot] | (believed & eng_bit(slot) ? FMT_EPOCH_BELIEVED : 0);

                memcpy(out + slot * sizeof(left), &left, sizeof(left));
        }
}

struct eng_buf *eng_epoch_body(struct eng_store *store, uint64_t number, const uint8_t id[FMT_ID],
                               const uint8_t parent[FMT_ID], eng_mask in, eng_mask joining, eng_mask base)
{
        struct fmt_epoch epoch = {
                .number = number,
                .pg_count = store->pg_count,
                .drives = (uint16_t)store->drive_count,
                .k = (uint8_t)store->k,
                .m = (uint8_t)store->m,
        };
        const size_t left = store->options.cluster != NULL ? FMT_EPOCH_LEFT(store->drive_count) : 0;
        struct fmt_epoch_tail tail = {.size = (uint32_t)(sizeof(tail) + left), .must = must_know(store), .in_force = store->coord->in_force};
        const size_t places = sizeof(epoch) + store->drive_count * sizeof(struct fmt_epoch_drive);
        const size_t placed = FMT_EPOCH_PLACED(store->drive_count);
        const eng_mask believed = left != 0 ? store->coord->believed & ~in : 0;
        struct eng_buf *buf = eng_buf_new(placed + tail.size);
        const struct eng_placement *map = store->coord->next_map != NULL ? store->coord->next_map : store->coord->view.map;
        unsigned i;

        assert(((in | joining) & ~eng_all_slots(store->drive_count)) == 0);
        if (buf == NULL)
                return NULL;
        memcpy(epoch.id, id, FMT_ID);
        memcpy(epoch.parent, parent, FMT_ID);
        memcpy(buf->data, &epoch, sizeof(epoch));
        memcpy(tail.in_force_id, store->coord->in_force_id, FMT_ID);
        if (left != 0 && eng_groups_lost(map->groups, map->group_count, in) != 0)
                tail.must |= FMT_EPOCH_MUST_LOST | must_know_verdicts(store);
        if (believed != 0)
                tail.must |= FMT_EPOCH_MUST_BELIEVED;
        if (left != 0)
                put_left(store, buf->data + placed + sizeof(tail), believed);
        memcpy(buf->data + placed, &tail, sizeof(tail));
        for (i = 0; i < store->drive_count; i++) {
                struct fmt_epoch_drive d = {.in = FMT_EPOCH_OUT};

                if (in & eng_bit(i))
                        d.in = FMT_EPOCH_IN;
                else if (joining & eng_bit(i))
                        d.in = left != 0 && (store->coord->next_back & eng_bit(i)) ? FMT_EPOCH_BACK : FMT_EPOCH_JOINING;
                d.flags = epoch_flags(store->coord, eng_bit(i));
                d.base = (base & eng_bit(i)) != 0;
                d.node = store->members[i].site.node;
                d.rack = store->members[i].site.rack;
                memcpy(d.drive_id, store->members[i].id, FMT_ID);
                memcpy(buf->data + sizeof(epoch) + i * sizeof(d), &d, sizeof(d));
                memcpy(buf->data + places + (size_t)i * FMT_ID, store->members[i].place_id, FMT_ID);
        }
        eng_buf_unref(store->coord->next_body);
        store->coord->next_body = eng_buf_ref(buf);
        return buf;
}

void eng_epoch_body_taken(struct eng_coord *c)
{
        assert(c->next_body != NULL);
        eng_buf_unref(c->body);
        c->body = c->next_body;
        c->next_body = NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

const uint8_t *eng_epoch_place_id(const struct eng_member *of, unsigned slot)
{
        const struct fmt_epoch *epoch = eng_epoch_of(of);
        const struct fmt_epoch_drive *d = eng_epoch_drives(of);

        if (of->epoch_len < FMT_EPOCH_PLACED(epoch->drives))
                return d[slot].drive_id;
        return (const uint8_t *)(d + epoch->drives) + (size_t)slot * FMT_ID;
}

struct eng_placement *eng_epoch_placement(const struct eng_member *of, bool decided)
{
        const struct fmt_epoch *epoch = eng_epoch_of(of);
        const struct fmt_epoch_drive *d = eng_epoch_drives(of);
        struct eng_placement_slots slots = {.count = epoch->drives, .pg_count = epoch->pg_count, .replicas = epoch->m + 1u, .decided = decided};
        unsigned i;

        for (i = 0; i < epoch->drives; i++) {
                memcpy(slots.ids[i], eng_epoch_place_id(of, i), FMT_ID);
                slots.sites[i] = (struct eng_site){.node = d[i].node, .rack = d[i].rack};
                slots.adding |= d[i].flags & FMT_EPOCH_ADDING ? eng_bit(i) : 0;
                slots.leaving |= d[i].flags & FMT_EPOCH_LEAVING ? eng_bit(i) : 0;
                slots.gone |= d[i].flags & FMT_EPOCH_GONE ? eng_bit(i) : 0;
        }
        return eng_placement_make(&slots);
}

bool eng_epoch_same_placement(const struct eng_member *a, const struct eng_member *b)
{
        const struct fmt_epoch *one = eng_epoch_of(a), *other = eng_epoch_of(b);
        const struct fmt_epoch_drive *d = eng_epoch_drives(a), *e = eng_epoch_drives(b);
        const unsigned flags = FMT_EPOCH_ADDING | FMT_EPOCH_LEAVING | FMT_EPOCH_GONE;
        unsigned i;

        if (one->drives != other->drives || one->pg_count != other->pg_count || one->m != other->m)
                return false;
        for (i = 0; i < one->drives; i++)
                if (memcmp(eng_epoch_place_id(a, i), eng_epoch_place_id(b, i), FMT_ID) != 0 || d[i].node != e[i].node || d[i].rack != e[i].rack ||
                    ((d[i].flags ^ e[i].flags) & flags) != 0)
                        return false;
        return true;
}

int eng_epoch_read(const void *body, size_t len, struct eng_epoch_info *out)
{
        struct fmt_epoch epoch;
        unsigned i;
        int rv = eng_rec_check_epoch(body, len);

        memset(out, 0, sizeof(*out));
        if (rv != 0)
                return rv;
        memcpy(&epoch, body, sizeof(epoch));
        out->number = epoch.number;
        memcpy(out->id, epoch.id, FMT_ID);
        memcpy(out->parent, epoch.parent, FMT_ID);
        out->k = epoch.k;
        out->m = epoch.m;
        out->groups = epoch.pg_count;
        out->slots = epoch.drives;
        for (i = 0; i < epoch.drives; i++) {
                struct fmt_epoch_drive d;

                memcpy(&d, (const uint8_t *)body + sizeof(epoch) + i * sizeof(d), sizeof(d));
                memcpy(out->slot[i].drive_id, d.drive_id, FMT_ID);
                out->slot[i].site = (struct eng_site){.node = d.node, .rack = d.rack};
                out->features |= eng_site_given(&out->slot[i].site) ? FMT_FEATURE_SITES : 0;
                out->in |= d.in == FMT_EPOCH_IN ? eng_bit(i) : 0;
                out->joining |= d.in == FMT_EPOCH_JOINING || d.in == FMT_EPOCH_BACK ? eng_bit(i) : 0;
                out->back |= d.in == FMT_EPOCH_BACK ? eng_bit(i) : 0;
                out->gone |= d.flags & FMT_EPOCH_GONE ? eng_bit(i) : 0;
                out->adding |= d.flags & FMT_EPOCH_ADDING ? eng_bit(i) : 0;
                out->leaving |= d.flags & FMT_EPOCH_LEAVING ? eng_bit(i) : 0;
                out->filling |= d.flags & FMT_EPOCH_FILLING ? eng_bit(i) : 0;
                out->given_up |= d.flags & FMT_EPOCH_GIVEN_UP ? eng_bit(i) : 0;
        }
        return 0;
}

int eng_epoch_serves(const void *body, size_t len, uint64_t slots)
{
        _Alignas(8) uint8_t copy[FMT_EPOCH_MAX(ENG_DRIVES_MAX)];
        const struct eng_member of = {.epoch = copy, .epoch_len = len};
        struct eng_epoch_info info;
        struct eng_placement *map;
        int rv = len > sizeof(copy) ? -EBADMSG : eng_epoch_read(body, len, &info);

        if (rv != 0)
                return rv;
        memcpy(copy, body, len);
        map = eng_epoch_placement(&of, true);
        if (map == NULL)
                return -ENOMEM;
        rv = info.in != 0 && eng_groups_kept(map->groups, map->group_count, false, slots & info.in, info.in);
        eng_placement_free(map);
        return rv;
}
