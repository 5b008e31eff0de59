/*
 * epoch.h - who is a member: the coordinator, recovery, drives that come, go and catch up.
 * Coordinator, unless a function says otherwise.
 */
#ifndef MILLRACE_ENGINE_EPOCH_H
#define MILLRACE_ENGINE_EPOCH_H

#include "engine/base/store.h"

/* ---- membership (broadcast.c, coord.c, epoch_append.c, recover.c) ------------------------------ */

/* Recovery from the beginning (recover.c). Coordinator. */
void eng_recover(struct eng_store *store);
/*
 * After the loops: waits for threads that still open drives, for some seconds; what they say is not
 * acted on. One that has not come back by then is left behind, with all that it may use
 * (store->left_behind).
 */
void eng_recover_stop(struct eng_store *store);
void eng_recover_free(struct eng_store *store);
/* Coordinator: events.slot_silent: the start may be waiting for that drive. Harmless at any time. */
void eng_recover_slot_silent(struct eng_store *store);
/* A drive that did not answer, and for which recovery may wait, does. */
void eng_recover_answers(struct eng_store *store);
/*
 * A drive that was opened when recovery had gone on without it, for hot_add.c to hand over; NULL:
 * none.
 */
struct eng_member *eng_recover_take_late(struct eng_store *store);
/* Slots whose drive the start is still opening, again and again, or has opened late: nobody else opens it, which would take its session from it. */
eng_mask eng_recover_opening(const struct eng_store *store);
/* ---- bodies of EPOCH records (epoch_body.c; also engine.h) ---- */

/* Encodes an epoch record body of these members. NULL: no memory. */
struct eng_buf *eng_epoch_body(struct eng_store *store, uint64_t number, const uint8_t id[FMT_ID],
                               const uint8_t parent[FMT_ID], eng_mask in, eng_mask joining, eng_mask base);
/* The one that was made last is in force: coord->body. */
void eng_epoch_body_taken(struct eng_coord *c);
/* What placement hashes of a slot, as the epoch of a member has it. */
const uint8_t *eng_epoch_place_id(const struct eng_member *of, unsigned slot);
/* The placement by an epoch that is not the store's yet. decided: by etcd. NULL: no memory. */
struct eng_placement *eng_epoch_placement(const struct eng_member *of, bool decided);
/* Both have the same placement: they differ in who is in, at most. */
bool eng_epoch_same_placement(const struct eng_member *a, const struct eng_member *b);

/* ---- epochs that etcd decides (decided.c) ---- */

/* Before the loops: which drives there are, by the epoch that was given. Looks at none of them. */
int eng_decided_recognise(struct eng_store *store, struct eng_error *error);
/* It is the epoch that was found in etcd, or one that this run has had decided since, of which the last ones are remembered. */
bool eng_decided_has(const struct eng_coord *c, const struct fmt_epoch *epoch);
/* A drive that was opened holds an epoch that etcd does not have (R2): text says which; and this one. */
bool eng_decided_denied(const struct eng_store *store, char *text, size_t size);
bool eng_decided_denied_by(const struct eng_store *store, const struct eng_member *m, char *text, size_t size);
/* The next epoch takes no drive out, and etcd does not answer: changes would wait for it. */
bool eng_decided_may_wait(const struct eng_store *store);
/* Proposes an epoch: then(), once it is etcd's; never, if it is refused. -ENOMEM. */
int eng_decision_ask(struct eng_store *store, struct eng_buf *body, void (*then)(struct eng_store *store));
/* The store is closed. */
void eng_decision_free(struct eng_coord *c);
void eng_decided_free(struct eng_coord *c);
/*
 * ---- groups that are lost (lost_groups.c; docs/design/lost-groups.md). Nothing without a cluster ----
 */
/* Its cluster lets groups be lost. */
bool eng_may_lose(const struct eng_store *store);
/* More than half of these must go on: all slots that are not removed, being added, or given up in an epoch. */
eng_mask eng_lost_counted(const struct eng_store *store);
/* `next` may go on behind `prev`, if need be without some groups. */
bool eng_lost_could_form(const struct eng_store *store, eng_mask next, eng_mask prev);
/*
 * The next epoch is to be of coord->next_in and next_joining, behind one of `prev`: takes out who may not join,
 * sets next_back and next_left.
 */
void eng_lost_next(struct eng_store *store, eng_mask prev);
/* That epoch is in force. */
void eng_lost_taken(struct eng_coord *c);
/* Behind that, when all loops have it: changes of groups that were lost are settled once all slots are in. */
void eng_lost_settle(struct eng_store *store);
/* A start: the chosen epoch of this drive, or of etcd. */
void eng_lost_load(struct eng_coord *c, const struct eng_member *chosen);
/*
 * The slot, which is not in, lacks what it acknowledged, or has another drive: it is no truth until it has been
 * a member again. The next epoch's record has it.
 */
void eng_lost_no_truth(struct eng_coord *c, unsigned slot);
/*
 * A stale slot may be brought up to date now; it is a truth, and to be settled first. The former asks its drive
 * whether it is no truth.
 */
bool eng_lost_may_join(struct eng_store *store, unsigned slot);
bool eng_lost_is_truth(const struct eng_store *store, unsigned slot);
/*
 * The operator's word (lost_force.c): the slots that lost groups wait for; and giving up some of those, while no epoch
 * is being made. eng_force_report_end() behind the epoch that says so.
 */
void eng_lost_outlook(const struct eng_store *store, struct eng_outlook *out);
void eng_lost_force(struct eng_store *store, eng_mask slots);
/* Of a record that a TAIL says is pending on this truth: it counts when the slot is back. */
bool eng_lost_counts(const struct eng_store *store, unsigned slot, uint32_t pg);

/* Of the epoch that is made next. Without a cluster, that of one that was not made durable everywhere is used again. */
uint64_t eng_epoch_next_number(const struct eng_store *store);

/*
 * Coordinator: makes an epoch of what lives now, with what catch_up.c wants (eng_catch_up_wants).
 */
void eng_epoch_change(struct eng_store *store);
/*
 * Appends an epoch record on all drives of the mask, for some seconds on those that answer -EAGAIN;
 * done(arg, failed) with the drives that did not take it. In a cluster the epoch is proposed first, and
 * nothing is appended, or done, if etcd refuses it. -ENOMEM.
 */
int eng_epoch_append(struct eng_store *store, uint64_t number, struct eng_buf *body, eng_mask to,
                     void (*done)(struct eng_store *store, eng_mask failed));
/* That drive has failed, or does not answer: what it is asked for is given up, and it is among `failed`. done() may be called within. */
void eng_epoch_append_without(struct eng_store *store, unsigned slot);
/* The store is closed: what waits to be asked for again is not. */
void eng_epoch_append_free(struct eng_store *store);
/* Coordinator: events.drive_failed. */
void eng_coord_drive_failed(struct eng_store *store, unsigned slot, const struct eng_drive *drive, const char *text);
/* Coordinator: events.drive_unreachable. */
void eng_coord_drive_unreachable(struct eng_store *store, unsigned slot, const struct eng_drive *drive, const char *text);
/* Recovery is over: serve. */
void eng_coord_open(struct eng_store *store);
void eng_health_refresh(struct eng_store *store);
void eng_health_start(struct eng_store *store);
void eng_member_state(struct eng_store *store, unsigned slot, enum eng_drive_state state, const char *reason);

/* ---- going on without drives (force.c) ------------------------------------------------------- */

/* Coordinator: what going on without the drives that are missed would mean. */
void eng_outlook_take(const struct eng_store *store, struct eng_outlook *out);
/* What was asked for last has been done (0), or not. */
void eng_force_report_end(struct eng_store *store, int rv, const char *text);
/* Recovery is over, with the store open (0) or not; nothing, if it was not forced. */
void eng_force_ended(struct eng_store *store, int rv, const char *text);

/* ---- drives that do not answer (down.c) ------------------------------------------------------ */

/* Coordinator, from time to time: asks those that are down whether they answer again. */
void eng_down_look(struct eng_store *store);
/*
 * Of a cluster's slot: it fails, does not answer or could not be brought up to date. One
 * that falls out again within a minute comes back after pauses of 1 s to 60 s.
 */
void eng_down_fell_out(struct eng_store *store, unsigned slot);
/* It is stale and about to be brought up to date. */
void eng_down_is_back(struct eng_store *store, unsigned slot);
/* It is a member. */
void eng_down_is_in(struct eng_store *store, unsigned slot);
/* When no drive has an operation any more. */
void eng_down_free(struct eng_store *store);
/* An epoch begins: what uploads wrote to drives that are down, and not in it, does not count from here on. */
void eng_down_write_off(struct eng_coord *c);

/* ---- drives that come while the store serves (hot_add.c) ------------------------------------- */

/*
 * Opens one folder as a drive. Blocking; any thread. member: path and identity set; the rest is
 * filled.
 */
int eng_member_open(struct eng_store *store, struct eng_member *member, struct eng_error *error);
/* Coordinator: a drive was opened that recovery has not waited for. Harmless at any time. */
void eng_hot_add_late(struct eng_store *store);
/* Coordinator: looks from time to time whether a drive that is missing or vanished is back. */
void eng_hot_add_start(struct eng_store *store);
/*
 * After the loops: waits for the thread that opens a drive; then, with nothing under way any more,
 * frees what is left.
 */
void eng_hot_add_stop(struct eng_store *store);
void eng_hot_add_free(struct eng_store *store);
/*
 * Reports of what an operator asked for, as eng_hot_add_read() gives them; number 0: nobody wants
 * to know.
 */
uint64_t eng_hot_add_new_report(struct eng_store *store, unsigned slot, bool replace);
void eng_hot_add_report(struct eng_store *store, uint64_t number, int rv, const char *text);

/* ---- what an operator asks for in a cluster (grow.c) ------------------------------------------ */

/* Coordinator: an epoch came into force. */
void eng_grow_epoch(struct eng_store *store);
/* After the loops. */
void eng_grow_free(struct eng_store *store);

/* ---- drives that are added or removed (rebalance.c, migrated_drop.c) ------------------------- */

/* Why these slots cannot be removed now, with the errno; NULL: they can. Coordinator. */
const char *eng_rebalance_refuses(const struct eng_store *store, eng_mask slots, int *rv);
/* Coordinator: they are to leave. The epoch that says so is the caller's to make. */
void eng_rebalance_wish(struct eng_store *store, eng_mask slots);
/* Of slots that could become members by the next epoch, those that may: of slots that are being added all, or none. */
eng_mask eng_rebalance_promotes(const struct eng_store *store, eng_mask promoted);
/* Coordinator: what the next epoch says, given that these become members: coord->next_shape. */
void eng_rebalance_next(struct eng_store *store, eng_mask promoted);
/*
 * Recovery: these members are here and lack the newest epoch. They may have names again that they
 * had forgotten.
 */
void eng_rebalance_behind(struct eng_store *store, eng_mask behind);
/*
 * Coordinator: makes the placement for coord->next_shape, if it is another than the one in force:
 * coord->next_map. -ENOMEM.
 */
int eng_shape_map(struct eng_store *store);
/* Makes it the coordinator's, if there is one. */
void eng_shape_map_taken(struct eng_coord *c);
/* An epoch came into force. */
void eng_rebalance_epoch(struct eng_store *store);
/*
 * A drive that is to catch up with groups that come to it, or -1; it has; no record names the drive
 * that leaves any more (said again until it is gone).
 */
int eng_rebalance_gainer(const struct eng_store *store);
void eng_rebalance_gained(struct eng_store *store, unsigned slot);
void eng_rebalance_drained(struct eng_store *store);
/* Goes on, if all that a step waits for is there. Harmless at any time. */
void eng_rebalance_consider(struct eng_store *store);
/* Coordinator: has drives forget names of groups that went from them. Harmless at any time. */
void eng_migrated_drop_consider(struct eng_store *store);
void eng_migrated_drop_free(struct eng_store *store);

/* ---- catching up (catch_up.c, resync.c) ------------------------------------------------------ */

/*
 * Coordinator: begins to bring a stale drive back, if there is one and nothing else is under way.
 * Harmless at any time.
 */
void eng_catch_up_consider(struct eng_store *store);
/*
 * Which drives the next epoch is to have as joining, given that these live, and which of them as
 * members.
 */
void eng_catch_up_wants(const struct eng_store *store, eng_mask *joining, eng_mask *promoted);
/* An epoch came into force, or was given up. */
void eng_catch_up_epoch(struct eng_store *store);
/* Coordinator: how far it is, if this slot's drive catches up. */
void eng_catch_up_read(struct eng_store *store, unsigned slot, struct eng_catch_up_progress *out);
void eng_catch_up_free(struct eng_store *store);

/* ---- the rate of the upkeep (heal_rate.c) ---- */

/*
 * Coordinator: where nobody has set the rate of the upkeep, drives that are being filled, emptied
 * or caught up with are done within a day, whatever their size.
 */
void eng_heal_choose_rate(struct eng_store *store);

#endif
