/*
 * rot.c - what the scrub of a drive knows: how far it has come, and which places of its segments
 * are not as they were written.
 *
 * A shard found damaged counts as missing from then on: HELD does not count it, so that whoever
 * looks for missing shards has it written anew, at another place. Then the index names that place,
 * and the damage is forgotten. Reads do not ask here: blocks of a damaged frame whose checksums are
 * right may be just what another drive lacks.
 *
 * Damage in the log is remembered as gaps, too: a value that stands in one is damaged for those
 * that ask for its record (ENG_OP_WANT_RECORD).
 *
 * Where no frame was found, one may have been whose header is gone. Only the index can tell, and it
 * is sorted by object. So the gap is remembered, and a place inside it counts as damaged when
 * somebody asks for it. It is owed a walk of all names, which does ask: the row says so until one
 * has been, over restarts.
 *
 * A row speaks of a file by its number. Numbers of log files only grow with an index: one whose log
 * ends before what it covers is made anew. A segment's number may be given again once no file and
 * no row of the index has it, and these rows count for that (eng_segments_beyond()).
 *
 * All of it is a row of the index, which is told at most once a minute, at once of damage, and when
 * the drive is closed. If the index is lost the scrub begins anew, and finds the damage again.
 *
 * owner: the loop; open and close while no loop runs.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOOKED 16u /* of what is remembered, in one go */

_Static_assert(sizeof(struct fmt_drive_scrub) + ENG_ROT_MAX * sizeof(struct fmt_rot) <= ENG_INDEX_META_MAX, "fits a row");

static bool rot_covers(const struct fmt_rot *rot, const uint8_t *object_id, const struct eng_location *location)
{
        if (rot->segment != location->segment)
                return false;
        if (rot->kind == FMT_ROT_GAP)
                return location->offset >= rot->offset && location->offset < rot->offset + rot->length;
        return rot->offset == location->offset && rot->stripe == location->stripe && rot->shard == location->shard &&
               memcmp(rot->object_id, object_id, FMT_ID) == 0;
}

static void rot_changed(struct eng_local *l, bool urgent)
{
        l->rot.dirty = true;
        l->rot.urgent |= urgent;
}

static void rot_forget(struct eng_local *l, unsigned i)
{
        struct eng_rot *rot = &l->rot;

        assert(i < rot->count && rot->count == rot->shards + rot->gaps);
        rot->shards -= rot->items[i].kind == FMT_ROT_SHARD;
        rot->gaps -= rot->items[i].kind == FMT_ROT_GAP;
        rot->items[i] = rot->items[--rot->count];
        rot_changed(l, false);
}

static bool rot_full(const struct eng_rot *rot, enum fmt_rot_kind kind)
{
        return rot->count == ENG_ROT_MAX || (kind == FMT_ROT_GAP && rot->gaps == ENG_ROT_GAPS);
}

/*
 * Goes round, so that the one that goes is among the longest known. Shards, or gaps that names were
 * compared for: what was damaged there is a shard by now.
 */
static void rot_make_room(struct eng_local *l, enum fmt_rot_kind kind)
{
        struct eng_rot *rot = &l->rot;
        unsigned n;

        for (n = 0; n < rot->count; n++) {
                if (rot->ousted >= rot->count)
                        rot->ousted = 0;
                if (rot->items[rot->ousted].kind == kind && (rot->items[rot->ousted].flags & FMT_ROT_OWED) == 0) {
                        rot_forget(l, rot->ousted++); /* the newest comes there, and is passed by */
                        return;
                }
                rot->ousted++;
        }
}

/* NULL: there is no room, or no memory. */
static struct fmt_rot *rot_new(struct eng_local *l, enum fmt_rot_kind kind)
{
        struct eng_rot *rot = &l->rot;

        if (rot->items == NULL)
                rot->items = calloc(ENG_ROT_MAX, sizeof(*rot->items));
        if (rot->items == NULL || rot_full(rot, kind))
                return NULL;
        assert(rot->count == rot->shards + rot->gaps);
        rot->shards += kind == FMT_ROT_SHARD;
        rot->gaps += kind == FMT_ROT_GAP;
        rot_changed(l, kind == FMT_ROT_SHARD);
        memset(&rot->items[rot->count], 0, sizeof(rot->items[0]));
        rot->items[rot->count].kind = kind;
        return &rot->items[rot->count++];
}

void eng_rot_state(struct eng_local *l, const struct fmt_drive_scrub *state)
{
        if (memcmp(&l->rot.state, state, sizeof(*state)) == 0)
                return;
        l->rot.state = *state;
        rot_changed(l, false);
}

/* 1: it was known; 0; -ENOBUFS: there is no room for it. */
static int rot_add(struct eng_local *l, const uint8_t object_id[FMT_ID], const struct eng_location *location)
{
        struct fmt_rot *rot;
        unsigned i;

        for (i = 0; i < l->rot.count; i++)
                if (l->rot.items[i].kind == FMT_ROT_SHARD && rot_covers(&l->rot.items[i], object_id, location))
                        return 1;
        rot = rot_new(l, FMT_ROT_SHARD);
        if (rot == NULL)
                return -ENOBUFS;
        memcpy(rot->object_id, object_id, FMT_ID);
        rot->segment = location->segment;
        rot->offset = location->offset;
        rot->length = eng_location_bytes(location);
        rot->stripe = location->stripe;
        rot->shard = location->shard;
        return 0;
}

void eng_rot_found(struct eng_local *l, const uint8_t object_id[FMT_ID], const struct eng_location *location)
{
        if (rot_add(l, object_id, location) != -ENOBUFS)
                return;
        rot_make_room(l, FMT_ROT_SHARD);
        rot_add(l, object_id, location);
}

void eng_rot_add_gap(struct eng_local *l, uint64_t segment, uint64_t from, uint64_t to, bool told)
{
        struct fmt_rot *rot;
        unsigned i;

        for (i = 0; i < l->rot.count; i++) {
                rot = &l->rot.items[i];
                if (rot->kind == FMT_ROT_GAP && rot->segment == segment && rot->offset == from &&
                    rot->offset + rot->length >= to)
                        return;
        }
        l->rot.fresh |= !told;
        if (rot_full(&l->rot, FMT_ROT_GAP))
                rot_make_room(l, FMT_ROT_GAP);
        rot = rot_new(l, FMT_ROT_GAP);
        if (rot == NULL) {
                l->rot.more = true;
                l->rot.dropped++;
                rot_changed(l, false);
                return;
        }
        rot->segment = segment;
        rot->offset = from;
        rot->length = to - from;
        rot->flags = FMT_ROT_OWED;
}

void eng_rot_compared(struct eng_local *l)
{
        unsigned i;

        for (i = 0; i < l->rot.count; i++) {
                if ((l->rot.items[i].flags & FMT_ROT_OWED) != 0)
                        rot_changed(l, false);
                l->rot.items[i].flags &= (uint16_t)~FMT_ROT_OWED;
        }
}

void eng_rot_round(struct eng_local *l)
{
        if (l->rot.more)
                rot_changed(l, false);
        l->rot.more = false;
}

bool eng_rot_owed(const struct eng_local *l)
{
        unsigned i;

        for (i = 0; i < l->rot.count; i++)
                if ((l->rot.items[i].flags & FMT_ROT_OWED) != 0)
                        return true;
        return false;
}

bool eng_rot_in_log(const struct eng_local *l, uint64_t file, uint64_t position)
{
        const struct fmt_rot *rot = l->rot.items;
        unsigned i;

        for (i = 0; l->rot.gaps > 0 && i < l->rot.count; i++)
                if (rot[i].kind == FMT_ROT_GAP && rot[i].segment == (file | ENG_UNREADABLE_LOG) && position >= rot[i].offset &&
                    position < rot[i].offset + rot[i].length)
                        return true;
        return false;
}

bool eng_rot_at(struct eng_local *l, const uint8_t object_id[FMT_ID], const struct eng_location *location)
{
        unsigned i;

        for (i = 0; i < l->rot.count; i++) {
                if (!rot_covers(&l->rot.items[i], object_id, location))
                        continue;
                if (l->rot.items[i].kind == FMT_ROT_GAP)
                        rot_add(l, object_id, location);
                return true;
        }
        return false;
}

void eng_rot_sound(struct eng_local *l, uint64_t segment, uint64_t offset)
{
        struct eng_rot *rot = &l->rot;
        unsigned i = 0;

        while (i < rot->count) {
                if (rot->items[i].segment == segment && offset >= rot->items[i].offset &&
                    offset < rot->items[i].offset + rot->items[i].length)
                        rot_forget(l, i);
                else
                        i++;
        }
}

void eng_rot_replaced(struct eng_local *l, const uint8_t object_id[FMT_ID], const struct eng_location *location)
{
        struct eng_rot *rot = &l->rot;
        unsigned i = 0;

        while (i < rot->count) {
                const struct fmt_rot *one = &rot->items[i];

                if (one->kind == FMT_ROT_SHARD && memcmp(one->object_id, object_id, FMT_ID) == 0 &&
                    (location == NULL || (one->stripe == location->stripe && one->shard == location->shard)))
                        rot_forget(l, i);
                else
                        i++;
        }
}

/* Its file is there. */
static bool rot_has_file(struct eng_local *l, const struct fmt_rot *rot)
{
        if ((rot->segment & ENG_UNREADABLE_LOG) != 0)
                return eng_log_files_find(&l->files, rot->segment & ~ENG_UNREADABLE_LOG) != NULL;
        return eng_segment_find(l->segments, rot->segment) != NULL;
}

/*
 * Whether it may still matter: a shard as long as the index names that place, a gap as long as its
 * file is there.
 */
static bool rot_counts(struct eng_local *l, const struct fmt_rot *rot)
{
        struct eng_location location;
        int rv;

        if (rot->kind == FMT_ROT_GAP)
                return rot_has_file(l, rot);
        rv = eng_location_find(l, rot->object_id, rot->stripe, rot->shard, &location);
        return rv == 0 ? rot_covers(rot, rot->object_id, &location) : rv != -ENOENT;
}

void eng_rot_prune(struct eng_local *l)
{
        struct eng_rot *rot = &l->rot;
        unsigned n;

        for (n = 0; n < LOOKED && n < rot->count; n++) {
                if (rot->looked >= rot->count)
                        rot->looked = 0;
                if (rot_counts(l, &rot->items[rot->looked]))
                        rot->looked++;
                else
                        rot_forget(l, rot->looked);
        }
}

void eng_rot_tell(const struct eng_local *l, struct eng_op *op)
{
        op->scrub.remembered = l->rot.shards;
        op->scrub.gaps = l->rot.gaps;
        op->scrub.gaps_dropped = l->rot.dropped;
        op->scrub.more = l->rot.more;
}

void eng_rot_answer(struct eng_local *l, struct eng_op *op)
{
        eng_rot_prune(l);
        eng_rot_state(l, &op->scrub.state);
        eng_rot_tell(l, op);
        op->scrub.gap = l->rot.fresh;
        l->rot.fresh = false;
        if (l->rot.urgent)
                eng_batch_start(l);
}

/* ---- the index ------------------------------------------------------------------------------- */

static bool rot_makes_sense(const struct fmt_rot *rot)
{
        return (rot->kind == FMT_ROT_SHARD || rot->kind == FMT_ROT_GAP) && rot->segment != 0 && rot->length > 0;
}

static void rot_take(struct eng_local *l, const uint8_t *bytes, size_t len)
{
        const size_t head = sizeof(l->rot.state);
        struct fmt_rot one, *rot;
        bool gone = false;
        size_t at;

        if (len < head || (len - head) % sizeof(one) != 0 || (len - head) / sizeof(one) > ENG_ROT_MAX)
                return;
        memcpy(&l->rot.state, bytes, head);
        for (at = head; at < len; at += sizeof(one)) {
                memcpy(&one, bytes + at, sizeof(one));
                l->rot.more |= (one.flags & FMT_ROT_MORE) != 0;
                if (rot_makes_sense(&one) && (one.segment & ENG_UNREADABLE_LOG) == 0)
                        eng_segments_beyond(l->segments, one.segment);
                if (!rot_has_file(l, &one)) {
                        gone = true; /* and is not to be known any more; but until the index knows that, its number is given to no other */
                        continue;
                }
                one.flags &= FMT_ROT_OWED;
                rot = rot_makes_sense(&one) ? rot_new(l, (enum fmt_rot_kind)one.kind) : NULL;
                if (rot != NULL)
                        *rot = one;
        }
        l->rot.dirty = gone;
        l->rot.urgent = false;
}

int eng_rot_load(struct eng_local *l, struct eng_index_txn *txn)
{
        uint8_t *bytes = malloc(ENG_INDEX_META_MAX);
        size_t len;
        int rv;

        if (bytes == NULL)
                return -ENOMEM;
        rv = eng_index_meta_get(txn, ENG_INDEX_SCRUB, bytes, ENG_INDEX_META_MAX, &len);
        if (rv == 0)
                rot_take(l, bytes, len);
        free(bytes);
        return rv == -ENOENT || rv == -ENOBUFS ? 0 : rv;
}

bool eng_rot_due(const struct eng_local *l, bool running)
{
        if (!l->rot.dirty)
                return false;
        return !running || l->rot.urgent || lp_now(l->drive.owner) - l->rot.kept_at >= ENG_ROT_KEEP_NS;
}

int eng_rot_snapshot(struct eng_local *l, struct eng_buf **out)
{
        size_t len = l->rot.count * sizeof(*l->rot.items);

        assert(l->rot.count <= ENG_ROT_MAX);
        if (!l->rot.dirty)
                return 0;
        *out = eng_buf_new(sizeof(l->rot.state) + len);
        if (*out == NULL)
                return -ENOMEM;
        memcpy((*out)->data, &l->rot.state, sizeof(l->rot.state));
        if (l->rot.count > 0)
                l->rot.items[0].flags |= l->rot.more ? FMT_ROT_MORE : 0;
        if (len > 0)
                memcpy((*out)->data + sizeof(l->rot.state), l->rot.items, len);
        if (l->rot.count > 0)
                l->rot.items[0].flags &= (uint16_t)~FMT_ROT_MORE;
        return 0;
}

void eng_rot_kept(struct eng_local *l)
{
        l->rot.dirty = l->rot.urgent = false;
        l->rot.kept_at = l->opened ? lp_now(l->drive.owner) : 0;
}

void eng_rot_free(struct eng_local *l)
{
        free(l->rot.items);
        l->rot.items = NULL;
        l->rot.count = l->rot.shards = l->rot.gaps = 0;
}
