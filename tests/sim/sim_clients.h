/*
 * sim_clients.h - clients of the store: what they do is drawn from the seed, what they are told
 * goes into the history.
 */
#ifndef MILLRACE_TESTS_SIM_CLIENTS_H
#define MILLRACE_TESTS_SIM_CLIENTS_H

#include "engine.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_content.h"

#define CLIENTS_MAX 6u
#define KEYS_MAX    12u
#define BUCKETS_MAX 24u
#define LOOPS_MAX   4u
#define UPLOADS_MAX 48u
#define HOMES_MAX   5u
#define PARTS_MAX   CONTENT_PARTS_MAX

struct sim_bucket {
        char name[24];
        uint64_t id;
        unsigned reg; /* register of its being there */
        bool closing;    /* somebody asked for its end */
        bool made, gone; /* a client was told so: gone, of a bucket that was made before */
        bool versions; /* its keys are judged by history_versions.h */
};

struct sim_upload {
        unsigned bucket, key, reg;
        uint32_t extra; /* that the completed object will have, as history_versions.h has them */
        uint64_t retain;
        uint8_t id[ENG_ID_LEN];
        unsigned part_regs[PARTS_MAX + 1];
};

/* A home store of another process, which clients ask beside the leader's own. */
struct sim_home_store {
        struct eng_store *store;
        struct lp_loop *loops[LOOPS_MAX];
};

struct world {
        struct eng_store *store; /* NULL: no process runs. Of several: of the newest that serves */
        const struct eng_store *ousted; /* is about to be deposed, and some go on asking it; NULL: none */
        void (*step)(void);      /* one event, and what belongs to it, where several processes may serve; else NULL */
        uint64_t (*mute)(const struct eng_store *store); /* when its process last was one that answers nobody, and must not; NULL: none is */
        void (*told_of_bucket)(struct eng_str name, bool there); /* a client was told that it was made, or deleted, just now; NULL: nothing follows */
        struct lp_loop *loops[LOOPS_MAX];
        unsigned loop_count; /* of each store */
        struct sim_home_store homes[HOMES_MAX];
        unsigned home_count;
        bool stopping;  /* callbacks are to do nothing more */
        bool calm;      /* no fault in this life so far: no error is to be seen */
        bool gone;      /* the process has ended itself for want of memory */
        bool last;      /* life: nothing goes wrong any more */
        bool restarted; /* in it: once, for want of memory (in a sweep) */
        bool stuck;     /* a drive of this process hangs while it is looked at or opened, for ever */
        bool final;     /* all drives are back: everything must be readable */
        int64_t scrubbed_ms; /* see check_scrub() */
        int64_t round_ended_ms[ENG_DRIVES_MAX]; /* the first since then; 0: none */
        unsigned client_count, key_count, ops_left;
        uint64_t bytes_left;               /* of large bodies */
        unsigned large, parts, buckets_on; /* one operation in so many is of that sort; 0: none */
        uint64_t think;                    /* ns between operations, most */
        uint64_t patience;                 /* ns that an answer may take; 0: a long time */
        bool slow_puts;                    /* many bodies have several stripes, and take seconds */
        bool slow_gets;                    /* many readers take seconds */
        bool reads_last;                   /* nothing happens that a read which has begun could fail by */
        uint64_t took;                     /* when a change was last acknowledged */
        uint64_t asked;                    /* when one was first asked for behind that; 0: none was */
        uint64_t slowest_get;              /* ns that one took which said what is there, or that nothing is; whoever asks how long sets it to 0 */
        uint64_t pace;                     /* ns from one operation of a client to the next, nearly, and nobody reads slowly; 0: by `think` */
        char keys[KEYS_MAX][24];
        struct sim_bucket buckets[BUCKETS_MAX];
        unsigned bucket_count, bucket_serial;
        bool making_bucket; /* one at a time, by this client */
        unsigned bucket_maker;
        unsigned key_regs[BUCKETS_MAX][KEYS_MAX];
        struct sim_upload uploads[UPLOADS_MAX];
        unsigned upload_count;
};
extern struct world world;

struct client_figures {
        uint64_t ops, errors, undecided, asked_old; /* asked_old: of a process that is not the newest which serves */
        uint64_t asked_homes;
};
extern struct client_figures client_figures;

void clients_begin(void);        /* a new history */
void clients_start(void);        /* a process serves: they go on, while ops are left */
/* This home store serves: some clients ask it from now on. It is one until clients_lost_of() it. */
void clients_home(struct eng_store *store, struct lp_loop *const *loops);
void clients_seek(void);         /* those whose process is gone ask another, if one serves */
void clients_first_bucket(void); /* made by the first client; not awaited */
void clients_versions_bucket(void); /* likewise, the one with versions */
void clients_lost(void);         /* the process is gone: what they waited for will not be answered */
void clients_lost_of(const struct eng_store *store); /* the same of one of several */
/* That one will be deposed: some clients look for another now, and others go on asking it. */
void clients_oust(const struct eng_store *store);
bool clients_idle(void);
/* One of them works on this key, in any bucket. */
bool clients_use(const uint8_t *key, size_t len);
/* Fails the history if one has waited too long. */
void clients_watch(void);
/* Reads every object, lists every bucket, ends all uploads; then clients_idle(). */
void clients_final(void);
/* Reads every object once more. */
void clients_read_all(void);
/* The same at this home. */
void clients_read_home(const struct sim_home_store *home);
/* Lists all versions, which must be as the history has it, and reads each. */
void clients_read_versions(void);
/*
 * An operator sets the wall clock right and confirms it. Then all versions that were listed last are
 * deleted: those that are locked must stay, and all others go.
 */
void clients_end_versions(void);
/* Overwrites or deletes every object that this says; returns how many. */
unsigned clients_replace(bool (*is_one)(uint64_t bucket, const char *key));

/* ---- a bucket with versions (sim_versions.c) ------------------------------------------------- */

struct version_figures {
        uint64_t buckets, states, listings, markers, deleted, extras, walks, expired;
};
extern struct version_figures version_figures;

void versions_plan(bool steady); /* a new history; steady: versioning is enabled, and stays so */
void versions_plan_no_locks(void); /* behind it: nothing is locked */
void versions_start(void);       /* a process serves */
bool versions_planned(void);
bool versions_exist(void);
bool versions_are_of(uint64_t bucket);

#endif
