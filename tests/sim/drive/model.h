/*
 * model.h - what one drive must hold: records of groups, names, and shards, as their sender knows
 * them.
 *
 * The sender is one primary of a store in which this drive is a member: it numbers records, has
 * them appended, says when they are stable everywhere, and after a crash settles what is pending,
 * or voids it and copies what the other members have. The model outlives the simulated process.
 */
#ifndef MILLRACE_TESTS_SIM_DRIVE_MODEL_H
#define MILLRACE_TESTS_SIM_DRIVE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/drive/drive.h"

#define GROUPS     3u
#define KEYS       18u
#define UPLOADS    3u
#define PARTS      3u
#define NAMES      (KEYS + UPLOADS * (1u + PARTS))
#define TOUCHES    6u
#define EPOCHS_MAX 48u /* fewer than a drive remembers */

/* ---- values ---------------------------------------------------------------------------------- */

enum value_kind { VALUE_BYTES, VALUE_SHARDS, VALUE_JOINED };

enum shards_state {
        SHARDS_UNSURE,   /* not flushed, or discarded with a crash since: there or not, but never wrong */
        SHARDS_SYNCED,   /* there */
        SHARDS_DISCARDED /* gone, as long as this process lives */
};

/*
 * One value that was given to a name. Its number is its id, and no id is used twice. 0: no value.
 */
struct value {
        enum value_kind kind;
        bool gone; /* its record was lost, or is void: nobody may see it, ever */
        bool voided; /* that it is void stands in the log: where that is damaged it may be back */
        unsigned name;
        uint32_t len; /* BYTES */
        enum shards_state shards;
        uint32_t stripes, unit;
        unsigned parts[PARTS], part_count; /* JOINED: values of kind SHARDS */
};

/* ---- names ----------------------------------------------------------------------------------- */

struct name {
        uint8_t bytes[64];
        uint16_t len;
        uint32_t pg;
        unsigned now;  /* value that counts */
        unsigned next; /* while a change is on its way: what it becomes. 0: nothing */
        bool locked;   /* by that change */
        bool doubtful; /* that change was under way in a crash, and counts at once if it is there */
        bool stale; /* a record of it is void on this drive: now is what the other members have, and is to be copied */
        uint64_t seq;     /* of the last record that changed it */
        uint32_t version; /* counts locks */
        uint64_t upload;  /* names of uploads: number of the one it is of now */
};

/* ---- records --------------------------------------------------------------------------------- */

enum record_state {
        RECORD_FLYING,  /* asked for, not answered */
        RECORD_STABLE,  /* answered: there for good */
        RECORD_COUNTS,  /* committed: what it says is the truth */
        RECORD_VOIDING, /* named by a VOID record that is not answered */
        RECORD_VOID,
        RECORD_LOST /* a crash took it; or it was refused */
};

struct record {
        uint32_t pg;
        uint16_t type;
        enum record_state state;
        uint64_t seq, epoch;
        struct eng_buf *body;
        uint32_t body_crc, inline_len;
        unsigned count;
        struct {
                unsigned name, value;
                uint64_t upload; /* as the name's was */
        } touch[TOUCHES];
        bool locks;              /* its names are locked by it */
        bool written;            /* a durable write to the log had it */
        uint64_t file, position; /* there */
        bool pending;            /* in the TAIL that was looked at last */
};

struct group {
        uint64_t given; /* highest number; none is given twice, that of a lost record neither */
        uint64_t told;  /* the drive may know that this is committed */
        uint64_t counted; /* up to here records count, as clients see it; a copy says so */
        struct record **records;
        unsigned count, size;
};

struct model {
        struct group groups[GROUPS];
        struct name names[NAMES];
        struct value *values;
        unsigned value_count, value_size;
        struct fmt_epoch epochs[EPOCHS_MAX]; /* oldest first */
        unsigned epoch_count;
        bool epoch_flying; /* the newest of them was not answered */
        bool must_void;    /* a VOID was under way in a crash */
        bool terms;        /* leaders OPEN the drive: all that is asked has a term */
        uint64_t term, term_asked; /* revisions: of the newest that was answered; of the newest that was asked for */
        uint64_t uploads;
};
extern struct model model;

void model_begin(void);
/*
 * The process is gone: what was not answered may have happened or not. discards_kept: what was
 * discarded does not come back.
 */
void model_life_ends(bool discards_kept);

unsigned value_new(enum value_kind kind, unsigned name);
bool value_lives(unsigned value);
/* Its bytes: of the whole of BYTES (stripe 0), or of one shard. */
void value_fill(unsigned value, uint32_t stripe, void *out, size_t len);
bool value_is(unsigned value, uint32_t stripe, const void *bytes, size_t len);
/* The name's value is exactly this: what LOOKUP said. */
bool value_matches(unsigned value, int rv, const struct eng_buf *found, const struct eng_buf *bytes);
unsigned value_of(const struct eng_buf *found); /* the number in it */
unsigned value_number(const uint8_t id[FMT_ID]);

unsigned name_upload(unsigned slot);
unsigned name_part(unsigned slot, unsigned part);
void name_new_upload(unsigned slot); /* its names get a new upload id */
void name_lock(unsigned name, unsigned next);
void name_unlock(unsigned name);

/* A record of the values its touches say; numbered, FLYING. */
struct record *record_new(uint32_t pg, uint16_t type, uint64_t epoch);
void record_touch(struct record *rec, unsigned name, unsigned value);
void record_number(struct record *rec, bool gap);
/*
 * Body of a record that puts or deletes each of its names; upload: slot of an upload that ends by
 * it, or UPLOADS.
 */
void record_encode(struct record *rec, unsigned upload);
void record_unlock(struct record *rec);
void record_counts(struct record *rec);
void record_lost(struct record *rec);
struct group *group_of(uint32_t pg);
/* All records up to here are answered. */
uint64_t group_stable(const struct group *group);
uint64_t model_epoch(void);
/* A durable write: a header block perhaps, then records. */
void model_written(const uint8_t *bytes, size_t len);
/*
 * An index batch was begun that covers the log up to here: nothing before it can be waiting for
 * COMMIT.
 */
void model_covered(uint64_t file, uint64_t position);

#endif
