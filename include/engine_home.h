/*
 * engine_home.h - a home store: one whose leader is another process (docs/design/any-gateway.md). It is
 * opened by eng_store_open() with options.leader, started by eng_store_start(), and serves once it was
 * given the state of the pool and all rows of its configuration.
 *
 * All calls are made on the coordinator's loop of the store, unless they say otherwise.
 */
#ifndef MILLRACE_ENGINE_HOME_H
#define MILLRACE_ENGINE_HOME_H

#include "engine.h"

#define ENG_HOME_STATE_MAX (12u << 10)  /* bytes of a state */
#define ENG_HOME_ROWS_MAX  (512u << 10) /* of a page of rows */

/* Who has made an object's id: its node, and which boot of that. Any thread. */
void eng_id_maker(const uint8_t id[ENG_ID_LEN], uint16_t *node, uint32_t *boot);

/* ---- the leader's side: a store that others are homes of ------------------------------------- */

/* Calls are done: what the store is of was recovered. */
bool eng_home_serves(const struct eng_store *store);
/* Calls that were done for homes so far: what clients want of the store, where their requests come in elsewhere. Any thread. */
uint64_t eng_homes_calls(const struct eng_store *store);
/* The state of the pool, as bytes: how many. 0: it does not serve. The same bytes where nothing has changed. */
size_t eng_home_state_write(struct eng_store *store, uint8_t out[ENG_HOME_STATE_MAX]);
/* changed() is called, on that loop, when the state or the configuration may be another than before, and some four times a second. Before the store is started; NULL: not any more. */
void eng_home_watch(struct eng_store *store, void (*changed)(void *arg), void *arg);

/*
 * What the leader knows of its homes: asked of whoever keeps their sessions, by orphan collection and by
 * who waits for readers. On the coordinator's loop.
 */
struct eng_homes {
        /*
         * Each home that there is has told which uploads are under way, at or behind this lp_now(), and none of its earlier
         * sessions has calls under way. is_past() then goes by that, and by nothing later, until this is true again.
         */
        bool (*have_told)(void *arg, uint64_t since);
        /*
         * By that, no upload that was under way then, or began later, has an id of this node, boot and loop with
         * such a count. False also for nodes of whom nothing was known then.
         */
        bool (*is_past)(void *arg, uint16_t node, uint32_t boot, uint16_t loop, uint64_t count);
        /* Each value that some home has pinned. */
        void (*each_pinned)(void *arg, void (*each)(void *context, const void *value, size_t len), void *context);
        void *arg;
};
/* Before the store is started, or on that loop; NULL: no more. It stays until then. */
void eng_homes_set(struct eng_store *store, const struct eng_homes *homes);
/*
 * On that loop, before the store is open: homes may read by what a leader before this one has pinned for
 * them, of which nothing is known here. For so long from when it is open, no shards that a record has named
 * are discarded.
 */
void eng_pins_strangers(struct eng_store *store, uint64_t ns);

/* Of all rows of the configuration that this store has: what a home says when it joins. */
void eng_home_digest(struct eng_store *store, struct eng_rows_digest *out);

/* Where a home's reading of the configuration stands. Zeroes: at the beginning. */
struct eng_home_reading {
        bool says;                      /* the home has said what its rows come to, and has changed none since: */
        struct eng_rows_digest digest;
        bool same;                      /* from eng_home_rows_write(): it has them all by that, and is to be told so */
        bool more;                      /* likewise: with this page it does not have all changes yet, and believes nothing by it */
        uint64_t version;               /* that it has, once `all` is over */
        bool all;                       /* all rows are being read */
        uint64_t from;                  /* the version when that began */
        uint8_t cursor[96];             /* private */
};
/*
 * The next page of rows: its length, 0: it has them all. *first, *last: of a reading of all rows. out:
 * ENG_HOME_ROWS_MAX bytes. A reading whose version is not remembered is over at once if the home's digest is this store's;
 * else it becomes one of all rows. Before the store is open: 0, and none of first and last.
 */
size_t eng_home_rows_write(struct eng_store *store, struct eng_home_reading *reading, uint8_t *out, bool *first, bool *last);

/* ---- the home's side ------------------------------------------------------------------------- */

/* A loop of the store; UINT32_MAX: the coordinator's. Any thread. */
struct lp_loop *eng_home_loop(const struct eng_store *home, unsigned index);

/*
 * From which count on uploads of each loop may still come to be named: counts[i] of loop i, of as many as
 * there are. done() comes later. -ENOMEM: it does not.
 */
int eng_home_bounds(struct eng_store *home, uint64_t *counts, void (*done)(void *arg), void *arg);
/* The state of the pool, from its leader. done() comes when all loops go by it, later. -EBADMSG, -ENOMEM: it does not. */
int eng_home_state_take(struct eng_store *home, const uint8_t *bytes, size_t len, void (*done)(void *arg), void *arg);
/* What the leader's lock clock shows (eng_lock_now()): this store's goes on from there, and keeps nothing of it. */
void eng_home_clock_take(struct eng_store *home, int64_t lock_now_ms);
/* Instead of rows: the home has them all. As eng_home_state_take(), but for -EBADMSG. */
void eng_home_rows_same(struct eng_store *home, void (*done)(void *arg), void *arg);
/* A page of rows. After the last of a reading of all rows the store serves. As above. */
int eng_home_rows_read(struct eng_store *home, const uint8_t *bytes, size_t len, bool first, bool last, void (*done)(void *arg),
                       void *arg);

#endif
