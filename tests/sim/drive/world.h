/*
 * world.h - one history of one drive: its processes one after the other, what is asked of it, and
 * what must be found after each of them.
 */
#ifndef MILLRACE_TESTS_SIM_DRIVE_WORLD_H
#define MILLRACE_TESTS_SIM_DRIVE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/drive/model.h"
#include "tests/sim/sim.h"

#define LOOPS 2u

/* What a crash is most likely to spoil comes right behind one of these. */
enum moment {
        MOMENT_DURABLE, /* an APPEND or SYNC was answered */
        MOMENT_INDEX,   /* the index worker has written a batch */
        MOMENT_JOB,     /* another worker has done something: a file, a step of reclaim */
        MOMENT_WRITTEN, /* a write came back */
        MOMENTS
};

/* How fast things go in a history, at most, and how long values are. */
struct tempo {
        uint64_t io_ns, job_ns, turn_ns, commit_ns;
        uint32_t bytes_max;
        unsigned late_commits; /* one in so many records is committed with a later one; 0: none */
};

struct world {
        struct tempo tempo;
        char path[128];
        struct lp_loop *loops[LOOPS]; /* the first owns the drive */
        struct eng_drive *drive;
        uint64_t crash_at;  /* of sim.events; 0: not by that */
        enum moment moment; /* or so many events behind the last of so many of these */
        uint64_t moments_left, events_behind;
        uint64_t batches; /* of the index, looked at */
        unsigned acts;    /* asked for and not answered */
        bool quiet;       /* clients begin nothing new */
        bool spoilt;      /* what lies on its disk went bad: it may fail */
        bool failed;      /* and it has, since it was opened */
        unsigned reign;   /* counts leaders: nobody waits for what an earlier one asked */
        uint64_t term;    /* of the leader; 0: none */
        uint64_t change_at; /* of sim.events: another comes; 0: none does */
};
extern struct world world;

struct world_figures {
        uint64_t lives, power_cuts, kills, dead_in_call, closed, rebuilt,
                opened_dead; /* processes, by their end; without an index */
        uint64_t changes, copies, voids, epochs, discards, lookups, reads;
        uint64_t copied, freed, index_batches, log_batches, log_records; /* of the drive's own figures */
        uint64_t settled, lost, voided;                                  /* records */
        uint64_t spoilt;                                                 /* sectors of files */
        uint64_t rotten, rot_found, rounds;                              /* sectors of files; by scrub; rounds of that */
        uint64_t leaders, refused;                                       /* OPENs that were answered; what was refused to those before */
};
extern struct world_figures world_figures;

/* Runs the history of a seed in a folder that does not exist yet. */
void world_run(uint64_t seed, bool trace, const char *folder);
/*
 * A process begins: loops, and the drive. The drive is closed, and all that is in flight comes to
 * an end. Its index is gone.
 */
int world_open(struct eng_error *error);
void world_close(void);
void world_remove_index(void);
/*
 * A leader OPENs the drive that has just been opened, in histories that have terms. False: the process
 * has died.
 */
bool world_lead(void);
/* The next event. False: the process has died. */
bool world_step(void);
void world_moment(enum moment moment);

/* ---- one operation --------------------------------------------------------------------------- */

/*
 * after() is called once op was answered, on the loop that asked; it asks again, or ends it by
 * act_end().
 */
struct act {
        uint64_t troubles; /* of the disk, when it was submitted */
        struct eng_op op;
        void (*after)(struct act *act);
        struct lp_loop *loop;
        bool answered;
        unsigned reign;
        struct record *rec;
        unsigned value, stripe, name, upload;
        uint32_t version;         /* of the name, when it was asked */
        enum shards_state before; /* of the value, likewise */
        uint8_t *slot;
};
struct act *act_new(unsigned loop, void (*after)(struct act *act));
void act_submit(struct act *act); /* on its loop */
void act_end(struct act *act);
/*
 * From outside of events: asks on the owner loop and waits; the caller ends it. False: the process
 * has died.
 */
bool act_run(struct act *act, enum eng_op_kind kind);

void fill_append(struct eng_op *op, const struct record *rec, uint64_t committed, uint64_t epoch);
void fill_lookup(struct eng_op *op, unsigned name);
void fill_read(struct act *act, unsigned value, uint32_t stripe);
/* READ gave nothing but what was written. */
bool read_right(const struct act *act);

/* ---- clients (clients.c) --------------------------------------------------------------------- */

void clients_begin(void);
/* The drive said that the shards of these are dead. */
void clients_superseded(void *arg, struct eng_drive *drive, struct eng_buf *const values[], unsigned n);

/* ---- after an opening (recovery.c) ----------------------------------------------------------- */

/*
 * Compares with the model, settles or voids what is pending, and compares again. False: the process
 * has died.
 */
bool recover(void);
/*
 * All that is pending is said to count, as a start does that finds nothing missing. False: the
 * process has died.
 */
bool settle_again(void);
/*
 * What the other members have is copied, name by name, to a drive of which nobody knows what it
 * lost. False: the process has died.
 */
bool copy_all(void);
/* A record of a name is appended, which gives it the value it has, and is not committed. */
void leave_pending(unsigned name);
/* Every name is what it should be. */
void check_all_names(void);

/* ---- a disk that goes bad (spoil.c) ---------------------------------------------------------- */

/*
 * The drive, which is not open, is opened, settled and closed; then it is spoilt, and made good by
 * its peers, some times.
 */
void spoil_drive(void);
bool spoil_admits(void); /* the spoilt drive says of itself that something is missing */

/* ---- closed files that go bad, and a scrub that finds it (drive_scrub.c) --------------------- */

/* The drive is open and settled, and is afterwards. */
void scrub_drive(void);

#endif
