/*
 * engine_folder.h - folders of drives: what they are, formatting, what one is opened with, and the first
 * epoch of a new pool. Blocking; any thread. Errors are negative errno.
 */
#ifndef MILLRACE_ENGINE_FOLDER_H
#define MILLRACE_ENGINE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"

struct eng_buf;
struct eng_drive;
struct eng_drive_times;

/*
 * A folder that is no drive yet may have these files of its node's beside lost+found, and counts as empty. What they
 * say is not the engine's.
 */
#define ENG_FOLDER_NODE_FILE     "NODE"
#define ENG_FOLDER_NODE_FILE_NEW "NODE.new"

/* Bits of eng_identity.features that others than the engine ask for. */
#define ENG_FEATURE_SITES 2u /* a drive of a cluster's pool */
#define ENG_FEATURE_POOLS 8u /* of a cluster of several: builds that know only one do not use it */
#define ENG_FEATURES_OF_POOL 3u /* those that each drive of a cluster's pool has */
#define ENG_LAYOUT 2u        /* that this build writes: a drive of an older one gets it when it is opened */

/* What the FORMAT file says. */
struct eng_identity {
        uint8_t store_id[ENG_ID_LEN];
        uint8_t drive_id[ENG_ID_LEN];
        unsigned slot;
        unsigned layout;
        int64_t created_ms;
        uint64_t features;      /* bits that a reader must know (engine/format.h: FMT_FEATURES); layout 1 had none */
};

enum eng_folder_state {
        ENG_FOLDER_ABSENT,      /* no such folder, or not a folder */
        ENG_FOLDER_EMPTY,       /* nothing in it but possibly lost+found */
        ENG_FOLDER_PARTIAL,     /* a format of ours that did not finish: may be formatted again, or finished */
        ENG_FOLDER_FOREIGN,     /* other things, no FORMAT */
        ENG_FOLDER_DRIVE        /* has a valid FORMAT */
};
/*
 * Looks without changing anything. identity: of a drive; of a partial one what it was to be, or
 * zeroes. -EBADMSG: a FORMAT that is damaged; -EPROTONOSUPPORT: newer layout, or features not known
 * here; -EACCES ... ; error names the folder.
 */
int eng_folder_probe(const char *path, enum eng_folder_state *state, struct eng_identity *identity,
                     struct eng_error *error);
/*
 * Writes log/, data/, index/ and FORMAT.new; all synced, directories included. The first log file
 * begins with an EPOCH record of the given body. The folder is partial then. Safe to repeat after a
 * crash.
 */
int eng_folder_prepare(const char *path, const struct eng_identity *identity, const void *epoch_body, size_t epoch_len,
                       struct eng_error *error);
/* Makes a drive of a prepared folder, atomically; synced. */
int eng_folder_finish(const char *path, struct eng_error *error);
/* Both. 0 also when this very format is done already. */
int eng_folder_format(const char *path, const struct eng_identity *identity, const void *epoch_body, size_t epoch_len,
                      struct eng_error *error);

/*
 * Keeps a folder from being opened as a drive until *lock, a descriptor, is closed. -EBUSY: it is open, or
 * held by another.
 */
int eng_folder_hold(const char *path, int *lock, struct eng_error *error);
/* Adds bits to the features that FORMAT of a drive names, on stable storage, in one step. The caller holds the folder. */
int eng_folder_add_features(const char *path, uint64_t features, struct eng_error *error);

#define ENG_RECLAIM_OFF 1u

/*
 * Sizes that follow from a file system of total bytes, where a setting is 0. Log files: 64 MiB, or
 * as much more (a power of two, up to 1 GiB) as keeps their number at 65,536 at most. Segments: 256
 * MiB, or as much more (a power of two, up to 4 GiB) as keeps theirs at 16,384 at most. The reserve
 * below which PUTs are refused: 1 GiB or 5 %, the smaller, and at least two such segments on a file
 * system that has larger ones: reclaim may copy up to one segment before it can free the one it
 * came from. A segment is never chosen larger than half of a reserve that was set.
 */
uint64_t eng_log_file_size(uint64_t set, uint64_t total);
uint64_t eng_segment_size(uint64_t set, uint64_t total, uint64_t reserve);
uint64_t eng_reserve_size(uint64_t set, uint64_t total);

struct eng_local_options {
        const char *path;
        struct eng_identity identity;
        struct lp_loop *owner;
        uint64_t log_file_bytes, segment_bytes, memtable_bytes, cache_bytes, full_reserve_bytes; /* 0: defaults of engine.h; cache of inline bytes */
        unsigned open_files;           /* kept open for reading, by two descriptors each; 0: 1,024 */
        uint64_t reclaim_rate;         /* bytes/s read and written to get dead space back, at leisure; 0: default; ENG_RECLAIM_OFF: none */
        unsigned reclaim_dead_percent; /* files at least so dead are emptied; 0: as free space demands. For tests */
        uint64_t index_map_bytes;      /* first size of the index's map; 0: default. For tests */
        struct eng_drive_times *times; /* one for each loop, by its number; NULL: times are not counted. The caller's, until the drive is closed */
        bool short_logs;               /* log_file_bytes counts however few: the longest record must fit. For tests */
        /*
         * Called on the owner loop: the drive has failed (text says why); it answers -EIO from now
         * on.
         */
        void (*failed)(void *arg, struct eng_drive *drive, const char *text);
        /*
         * Called on the owner loop: there is no room for another log file. What is left of this one
         * is for deletions: nothing should be put any more.
         */
        void (*full)(void *arg, struct eng_drive *drive);
        /*
         * Called on the owner loop after an index batch is durable: objects with shards that died
         * by it (overwritten, deleted, dead parts). values: n buffers of fmt_value + attrs + parts,
         * valid during the call. The store discards their shards (I6: the committed record that
         * superseded them is the proof). Never a part that a COPY record deleted by itself: its
         * data may live on in an object. Never a value whose id equals the id of the value that
         * took its place (attrs were rewritten, the shards live on).
         */
        void (*superseded)(void *arg, struct eng_drive *drive, struct eng_buf *const values[], unsigned n);
        /*
         * Called on the owner loop, of a remote drive: its node will refuse all that is asked from
         * now on with -EHOSTUNREACH, until an operation with ENG_OP_ANEW. NULL: nobody wants to know.
         */
        void (*unreachable)(void *arg, struct eng_drive *drive, const char *text);
        void *arg;
};

/* ---- a new pool ------------------------------------------------------------------------------ */

/* k + m 0: by the number of drives, and of nodes that they are on. */
struct eng_new_pool {
        unsigned k, m;
        unsigned count;                /* of drives: its slots */
        const uint8_t (*drive_ids)[ENG_ID_LEN];
        const struct eng_site *sites;  /* of each; NULL: no cluster's */
};
/* Room for the body of any epoch. */
#define ENG_EPOCH_BODY_MAX 4096u
/* Its first epoch, all drives in. -EINVAL, and why: no such code, or too few drives for it. */
int eng_pool_make(const struct eng_new_pool *pool, uint8_t body[ENG_EPOCH_BODY_MAX], size_t *len, struct eng_error *error);

/* ---- a store of one machine becomes a pool ---------------------------------------------------- */

/*
 * The epoch that a store of one machine goes on with as a cluster's pool, all of whose slots lie at `site`: made of the
 * newest EPOCH record of its drives, each of which has it. Its number is far above that. -EBADMSG: it is no such body.
 * -EEXIST: it is a cluster's. -EINVAL, and why: some slot is neither in nor removed, or on its way; there is no parity.
 */
int eng_epoch_adopt(const void *body, size_t len, const struct eng_site *site, uint8_t out[ENG_EPOCH_BODY_MAX], size_t *out_len, struct eng_error *error);

/*
 * Whether these slots are a majority of the epoch of an EPOCH record that each of them has, and of the one that was surely
 * in force before it: without them no store of one machine makes another epoch, or has. 1: yes, 0: no. -EBADMSG.
 */
int eng_epoch_is_most(const void *body, size_t len, uint64_t slots);

/* ---- a pool whose configuration service was lost --------------------------------------------- */

/*
 * The epoch that a pool goes on with when its configuration is made anew from the newest EPOCH record that drives
 * hold: that record's body, with a number so far above it that no drive has come so far, and without the slots of
 * `given_up`, which are refused from then on as another history. -EBADMSG: it is no such body. -EINVAL, and why: some
 * group of names would have no current member, or its number is too high. -ENOMEM.
 */
int eng_epoch_reseed(const void *body, size_t len, uint64_t given_up, uint8_t out[ENG_EPOCH_BODY_MAX], size_t *out_len, struct eng_error *error);

#endif
