/*
 * bulk.h - a stopped store of one drive, filled in bulk: names go into the index in their order,
 * records into its log, both by the engine's own code, so that a change of the format needs nothing
 * here. Main thread. What fails ends the program.
 */
#ifndef BENCH_SCALE_BULK_H
#define BENCH_SCALE_BULK_H

#include <stddef.h>
#include <stdint.h>

#include "engine/drive/drive.h"
#include "engine/drive/index.h"
#include "engine/drive/logfile.h"
#include "engine/placement/place.h"
#include "engine/record/value.h"

#define BULK_PGS 4096u

/* A log that is written from where the index says that it ends. */
struct bulk_log {
        int dir_fd, fd;
        struct eng_log_ident ident;
        uint64_t bytes, at, batch; /* size of a file; where the next record stands; where its batch began */
        uint32_t prev_crc;
        uint8_t *buffer;
        size_t used;
};

struct bulk {
        struct eng_identity identity;
        struct eng_index *index;
        struct eng_index_txn *txn;
        struct bulk_log log;
        int data_fd;
        uint64_t changed;       /* since the last commit */
        uint64_t seq[BULK_PGS]; /* given so far */
        uint64_t counter;       /* of ids */
        uint64_t hollow;        /* number of the log file without records */
};

/* What an object of the store says of the others that are made after it. */
struct bulk_model {
        uint64_t bucket;
        uint8_t attrs[ENG_ATTRS_MAX], tag[8]; /* what the gateway keeps beside each object */
        size_t attrs_len;
};

/* Says what failed, and ends the program. rv: an errno, negative or not. */
_Noreturn void bulk_fail(int rv, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same if rv is negative. */
void bulk_check(int rv, const char *what);

/* log_bytes: of each file that is begun. */
void bulk_open(struct bulk *bulk, const char *drive, uint64_t log_bytes);
/* Makes the index and the log agree, and both durable. */
void bulk_close(struct bulk *bulk);
/* The first plain object, or the first version with bytes, of the store: space says which. */
void bulk_learn(const struct bulk *bulk, enum fmt_space space, struct bulk_model *out);

/*
 * Unique, and older than every upload of the daemon that opens this: the epoch of formatting, in
 * which nothing is written.
 */
void bulk_next_id(struct bulk *bulk, uint8_t id[FMT_ID]);
/* Appends a record; the returned position in the file of log.ident is where it stands. */
uint64_t bulk_record(struct bulk *bulk, const struct eng_body *body, uint32_t inline_len, uint32_t pg, uint64_t seq);
/* Puts a name whose record stands there. Frees value. */
void bulk_name(struct bulk *bulk, const struct eng_name *name, struct eng_buf *value, uint64_t seq, uint64_t file,
               uint64_t position);
/* The same of a record that was never written, in the file that is all holes. which: any number. */
void bulk_hollow_name(struct bulk *bulk, const struct eng_name *name, struct eng_buf *value, uint64_t seq,
                      uint64_t which);
/* After another change of the index: commits now and then. */
void bulk_changed(struct bulk *bulk);

#endif
