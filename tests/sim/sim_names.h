/*
 * sim_names.h - the names of one simulated drive: a sorted list, nothing more.
 */
#ifndef MILLRACE_TESTS_SIM_NAMES_H
#define MILLRACE_TESTS_SIM_NAMES_H

#include "engine/drive/drive.h"
#include "engine/drive/rec.h"

enum sim_name_kind {
        SIM_PUT,
        SIM_GONE, /* a tombstone: hides what comes late with a lower seq */
        SIM_ENDED /* a PART prefix: the same for all parts under it */
};

struct sim_name {
        struct eng_buf *name, *value;
        struct eng_buf *body; /* of the record, for inline bytes; else NULL */
        uint32_t inline_at, inline_len;
        uint64_t seq;
        uint32_t generation; /* of the index batch that will hold it */
        enum sim_name_kind kind;
};

struct sim_names {
        struct sim_name *items;
        unsigned count, size;
};

/* First name that is >= this one (after: >). */
unsigned sim_names_seek(const struct sim_names *names, const uint8_t *name, size_t len, bool after);
struct sim_name *sim_names_find(const struct sim_names *names, const uint8_t *name, size_t len);
/* The entry of this name, made if need be (then zero but for its name). */
struct sim_name *sim_names_get(struct sim_names *names, const uint8_t *name, size_t len);
void sim_names_remove(struct sim_names *names, unsigned at);
void sim_names_clear(struct sim_names *names);
/* What an index would hold of them: all PUTs. */
void sim_names_copy(struct sim_names *to, const struct sim_names *from);
/* Tombstones of generations up to this one are in the index now, as absence. */
void sim_names_thaw(struct sim_names *names, uint32_t generation);

/*
 * Applies one mutation of a record. Values with shards that died by it are given to dead, with a
 * reference.
 */
void sim_names_apply(struct sim_names *names, const struct eng_mut *mut, const struct fmt_record *rec,
                     struct eng_buf *body, uint32_t generation, void (*dead)(void *arg, struct eng_buf *value),
                     void *arg);

/* Answers a SCAN. */
void sim_names_scan(const struct sim_names *names, struct eng_op *op);

#endif
