/*
 * rebuild.h - one object being given back the shards it lacks (private to the upkeep and
 * verification).
 */
#ifndef MILLRACE_ENGINE_REBUILD_H
#define MILLRACE_ENGINE_REBUILD_H

#include <endian.h>

#include "engine/base/store.h"

/* A shard that was found damaged or missing on the drive that a record names for it. */
struct eng_rebuild_bad {
        uint8_t id[FMT_ID];            /* of the part */
        uint32_t stripe;
        uint8_t shard;
};

/* What a repair has written. */
struct eng_rebuild_written {
        uint64_t bytes;                /* also of what a failure has left of no use */
        uint64_t shards;               /* those that are durable */
};

struct eng_rebuild;
typedef void (*eng_rebuild_done)(void *arg, int rv, struct eng_rebuild_written written);

/* The most shards that any run of a part lacks: no drive is named, or one of these. */
unsigned eng_rebuild_lack(const struct eng_part *part, eng_mask drives);
/* The most shards that any run of a part has on these drives. */
unsigned eng_rebuild_most_on(const struct eng_part *part, eng_mask drives);
/* How an object lies over nodes, and how it would if its runs were placed once more. */
struct eng_rebuild_spread {
        uint64_t close, close_then;    /* shards on nodes that hold more of their run than may be lost with them */
        unsigned unsafe, unsafe_then;  /* runs that the loss of as many nodes as may be lost can take */
};
/* Adds a part to it. fit: where its runs would be placed. */
void eng_rebuild_add_spread(const struct eng_store *store, const struct eng_placement *map, const struct eng_part *part, eng_mask fit,
                            struct eng_rebuild_spread *spread);
/* A value of that name may be written anew elsewhere. */
bool eng_rebuild_may_move(const struct eng_name *name, const void *value, size_t len);
/* Bytes of the shards that it lacks: no drive is named, or one of these. */
uint64_t eng_rebuild_lack_bytes(const struct eng_part *part, eng_mask drives);
/*
 * Rebuilds one object or version, named by its row, on the primary loop of its key. done comes later,
 * on the loop it was started on: 0 when nothing is left that could be done (also if the object is
 * gone, or no drive is fit to take what it lacks); -ENODATA when that is so, and stripes are left
 * of which more than m shards are gone (lost_objects.c). digests: one for each drive, to which what
 * is written is added (what a failure leaves of no use included); not begun unless it is started on
 * the primary loop. bad: shards to be written anew, as far as they are still the object's; valid
 * until done. filling: drives that may lack shards which records name on them, and are asked. What
 * is written is paid for at store->pacer. NULL: not begun, for want of memory or since nobody could
 * have written such a name.
 *
 * An object that lacks nothing, and would survive the loss of nodes elsewhere, is written once more,
 * under ids that are new. What it was until then is superseded by that, as by an
 * upload: its shards are given back when nobody reads them any more (deferred_delete.c). A null
 * version of a key with versions stays where it is.
 *
 * Objects of one key are repaired by one rebuild at a time: another one begins when the first has
 * ended, and reads the value anew. One that was named by its OBJECT row, and has become the null
 * version meanwhile, is repaired as that.
 */
struct eng_rebuild_order {
        const struct eng_name *name;
        eng_mask filling;
        struct eng_digest *digests;
        const struct eng_rebuild_bad *bad;
        unsigned bad_count;
};
struct eng_rebuild *eng_rebuild_start(struct eng_store *store, const struct eng_rebuild_order *order, eng_rebuild_done done, void *arg);
/*
 * On its own loop, where it was started: it ends soon, with -ECANCELED, unless all is written. done
 * may come from inside.
 */
void eng_rebuild_cancel(struct eng_rebuild *rebuild);
/*
 * The oldest of the loop's rebuilds that write under new ids: the first id that may still come to be
 * named, and the epoch in which that rebuild began. False: there is none.
 */
bool eng_rebuild_oldest(const struct eng_loop *el, uint8_t id[FMT_ID], uint64_t *epoch);
/*
 * The loops have stopped around it. What drives still have of it lives until
 * eng_rebuild_free_late(), when they are closed.
 */
void eng_rebuild_drop(struct eng_rebuild *rebuild);

#endif
