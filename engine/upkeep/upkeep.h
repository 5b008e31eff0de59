/*
 * upkeep.h - rebuild, verification, scrub, and the search for orphans: what the store does by
 * itself. Coordinator, unless a function says otherwise.
 */
#ifndef MILLRACE_ENGINE_UPKEEP_H
#define MILLRACE_ENGINE_UPKEEP_H

#include "engine/base/store.h"

/* ---- shards that are missing (heal.c, walk_worker.c, rebuild.c) ------------------------------ */

/* All drives are closed. */
void eng_rebuild_free_late(struct eng_store *store);
/* As eng_drop_make(). */
bool eng_heal_make(struct eng_store *store);
/*
 * Coordinator: membership has changed; looks (again) for objects that lack shards, and rebuilds
 * those it can. Harmless at any time.
 */
void eng_heal_consider(struct eng_store *store);
/* Any loop: events.look_at_group. */
void eng_heal_look_at_group(struct eng_store *store, uint32_t group);
/* store->heal has changed: health follows. With health_lock held. */
void eng_heal_publish(struct eng_store *store);
void eng_heal_free(struct eng_store *store);
/* All drives are closed. */
void eng_heal_free_late(struct eng_store *store);

/* ---- heads whose version nobody has (heads.c) ------------------------------------------------ */

/* Any loop: events.look_at_version. */
void eng_heads_look_at(struct eng_store *store, const struct eng_name *name);
void eng_heads_free(struct eng_store *store);

/* ---- shards that no record names (orphans.c) ------------------------------------------------- */

/*
 * Coordinator: begins an orphan collection, if all drives are in and none is under way. Harmless at
 * any time.
 */
void eng_orphans_consider(struct eng_store *store);
void eng_orphans_free(struct eng_store *store);
/* ---- verification (verify.c) ----------------------------------------------------------------- */

struct eng_verify;
/*
 * Coordinator: reads on behind a name (len 0: from the first on) at no more than rate bytes/s,
 * adding to what the report says; published as store->scrub. ended: later, when it has come to the
 * end. NULL: no memory.
 */
struct eng_verify *eng_verify_scrub(struct eng_store *store, const struct eng_name *place, const struct eng_verify_report *so_far, uint64_t rate,
                                    void (*ended)(void *arg), void *arg);
/* The last name that is through, and what was counted. */
void eng_verify_where(const struct eng_verify *v, struct eng_name *place, struct eng_verify_report *so_far);
/* The loops have stopped around it. */
void eng_verify_drop(struct eng_verify *v);
void eng_verify_free(struct eng_store *store);

/* ---- scrub (scrub.c) ------------------------------------------------------------------------- */

/*
 * Coordinator, while the store is open: reads how far the last run came, and goes on. Harmless once
 * it has begun.
 */
void eng_scrub_begin(struct eng_store *store);
void eng_scrub_free(struct eng_store *store);
/*
 * Any loop: shards were found damaged: names are walked soon, from the first on, which repairs what
 * they name.
 */
void eng_scrub_names_soon(struct eng_store *store);
/*
 * Any loop: names are to be compared, for damage of which nobody can tell what stood there, or that
 * stays. Requests are one: the first has names walked at once, those that come behind its beginning
 * once it has ended and nine times as long as it took is over, or, of longer walks, a day or as
 * long as it took.
 */
void eng_scrub_names_owed(struct eng_store *store);

/* ---- scrub of the drives' data (scrub_drive.c) ----------------------------------------------- */

/*
 * Coordinator, likewise. Each drive is read by a scrubber on its own loop, whenever it is a member.
 */
void eng_scrub_drives_begin(struct eng_store *store);
/* Coordinator: rounds begin now where none is under way, and go on as fast as they may. */
void eng_scrub_drives_start(struct eng_store *store);
/* The loops have stopped; drives may still have operations of it: nothing is begun any more. */
void eng_scrub_drives_stop(struct eng_store *store);
/* The drives are closed. */
void eng_scrub_drives_free(struct eng_store *store);

#endif
