/*
 * format.h - what stands on a drive. Nothing else defines a byte on disk. All integers are little-endian unless said.
 *
 *   DRIVE/FORMAT           text, written once (see drive/identity.c)
 *   DRIVE/LOCK             flock'ed while a daemon uses the drive
 *   DRIVE/CREDENTIALS      root credentials (and .new while being written): the server's, see server/credentials.c
 *   DRIVE/log/%016x.log    header block, then records in batches            <- the truth
 *   DRIVE/data/%016x.seg   frames                                            <- shards of large objects
 *   DRIVE/index/           LMDB; derived
 *
 *   log file:  | fmt_log_header 4 KiB | batch | batch | ...       a batch starts at a multiple of 4 KiB and is one durable write
 *   batch:     | record | record | ... | zeroes to 4 KiB          a record starts at a multiple of 64 bytes
 *   record:    | fmt_record 128 B | body | zeroes to 64 |
 *   body (FMT_RECORD_PG):  mutations, each | fmt_mutation | name | value | ; the last value may be followed by inline bytes
 *   segment:   | fmt_segment_header 4 KiB | frame | frame | ...    made as %016x.new and renamed once whole; longer than
 *              what was written while it is appended to (fallocate)
 *   frame:     | fmt_frame 4 KiB | payload (multiple of 4 KiB) |   4 KiB aligned
 *   index:     see "the index" below
 */
#ifndef MILLRACE_ENGINE_FORMAT_H
#define MILLRACE_ENGINE_FORMAT_H

#include <stdint.h>

#define FMT_LAYOUT_VERSION 1u
#define FMT_BLOCK 4096u                /* unit of alignment of batches and frames */
#define FMT_RECORD_ALIGN 64u
#define FMT_BODY_MAX (1792u << 10)     /* bytes of one record's body */
#define FMT_NAME_MAX 2304u             /* bytes of one index name */
#define FMT_CRC_BLOCK (16u << 10)      /* payload bytes covered by one CRC */
#define FMT_UNIT_MAX (1u << 20)
#define FMT_RUN_BYTES (1ull << 30)     /* data bytes placed by one data PG */
#define FMT_ID 16

#define FMT_LOG_MAGIC 0x474c524du      /* "MRLG" */
#define FMT_RECORD_MAGIC 0x4352524du   /* "MRRC" */
#define FMT_FRAME_MAGIC 0x4652524du    /* "MRFR" */
#define FMT_SEGMENT_MAGIC 0x4753524du  /* "MRSG" */

struct fmt_log_header {
        uint32_t magic;
        uint32_t crc;                  /* CRC32C of the first 128 bytes with this field zero */
        uint32_t version;
        uint32_t flags;
        uint8_t drive_id[FMT_ID];
        uint64_t file;                 /* number, equals the name */
        uint64_t generation;           /* random, new each time a file is begun: old bytes of a recycled file never match */
        uint64_t prev_file;            /* 0: the first */
        uint32_t prev_crc;             /* header_crc of the last record of prev_file (0 for the first) */
        uint32_t pad;
        uint8_t rest[4096 - 64];
};

enum fmt_record_type {
        FMT_RECORD_PG = 1,             /* mutations of one placement group */
        FMT_RECORD_EPOCH = 2,          /* body: fmt_epoch */
        FMT_RECORD_FENCE = 3,          /* object ids of epochs before this record's, not named by a record, are void */
        FMT_RECORD_FREED = 4,          /* drive's own: body is fmt_freed x n: all log files freed between the oldest and this one */
        FMT_RECORD_COPY = 5,           /* mutations (no END_UPLOAD) as current members have them, for a drive that catches up: they count at once, with
                                          this record's seq, which is the highest the PG had given then */
        FMT_RECORD_VOID = 6,           /* drive's own: body is fmt_void x n: the PG records before it that are void; all others before it were applied */
        FMT_RECORD_MARKS = 7           /* drive's own: body is fmt_mark x n: how far each PG had come here. Written before log files are freed, so
                                          that no number is given twice though the record that had it is gone */
};
/* Log reclaim moves a living value by a COPY record of that one mutation, with the seq and epoch of the record it stood in. */

struct fmt_record {
        uint32_t magic;
        uint32_t header_crc;           /* CRC32C of these 128 bytes with this field zero; the chain's link */
        uint32_t body_crc;             /* CRC32C of the body */
        uint32_t body_len;
        uint32_t inline_len;           /* the last inline_len bytes of the body are an object's bytes */
        uint16_t type;
        uint16_t flags;
        uint8_t drive_id[FMT_ID];
        uint64_t file;
        uint64_t generation;
        uint64_t position;             /* of this record in its file */
        uint64_t batch;                /* position of the batch it was written in: a tear stays inside one batch */
        uint32_t prev_crc;             /* header_crc of the record before (across files) */
        uint32_t pg;
        uint64_t epoch;
        uint64_t seq;                  /* PG sequence number; a copy keeps its number */
        uint64_t committed;            /* seq the PG's primary knew stable on all members when it sent this; COPY: unless 0, the PG's records up to
                                          it count before this one */
        uint64_t time_ms;
        uint8_t pad[16];
};

struct fmt_void {
        uint32_t pg;
        uint32_t pad;
        uint64_t seq;
};

struct fmt_mark {
        uint32_t pg;
        uint32_t pad;
        uint64_t seq, epoch;           /* highest number seen, and the epoch of the record that had it */
};

struct fmt_freed {                     /* numbers first..last, both included */
        uint64_t first, last;
};

/* ---- names: [space u8][bucket id u64 big-endian][rest] -------------------------------------------- */

enum fmt_space {
        FMT_SPACE_CONFIG = 1,          /* rest: 'b' bucket name, or 's' (attrs of its value: fmt_scrub) */
        FMT_SPACE_OBJECT = 2,          /* rest: key */
        FMT_SPACE_UPLOAD = 3,          /* rest: esc(key) 00 01 upload id[16] (time-ordered) */
        FMT_SPACE_PART = 4             /* rest: esc(key) 00 01 upload id[16] part number u16 big-endian */
};                                     /* esc(): each byte 00 becomes 00 FF, so order stays bytewise */

enum fmt_mutation_kind {
        FMT_MUT_PUT = 1,               /* name := value */
        FMT_MUT_DELETE = 2,            /* name is gone (a tombstone) */
        FMT_MUT_END_UPLOAD = 3         /* name: the UPLOAD name. It and all PART names under it are gone; value: fmt ids (16 bytes each, sorted) of the
                                          parts that live on inside an object; data of the others is dead */
};

struct fmt_mutation {
        uint8_t kind;
        uint8_t pad;
        uint16_t name_len;
        uint32_t value_len;
};

/* ---- values --------------------------------------------------------------------------------------- */

enum fmt_value_flag {
        FMT_VALUE_INLINE = 1           /* the object's bytes are the inline bytes of the record that put it */
};

/* | fmt_value | attrs | parts |   in records and in the index alike; log_file, log_position and crc are filled by the drive. */
struct fmt_value {
        uint32_t crc;                  /* in the index: CRC32C of the name, then of all that follows; in a record 0 */
        uint8_t space;
        uint8_t flags;
        uint16_t attrs_len;
        uint32_t pg;                   /* of the name */
        uint32_t parts;                /* number of fmt_part that follow attrs: 0 for inline, else >= 1 */
        uint64_t seq;
        uint64_t size;
        int64_t mtime_ms;
        uint64_t log_file;             /* drive-local: where the record stands */
        uint64_t log_position;
        uint32_t inline_len;
        uint16_t etag_parts;
        uint16_t pad;
        uint8_t id[FMT_ID];            /* object id: epoch u32, loop u16, 0 u16, counter u64, all big-endian; unique per write */
        uint8_t etag[16];
        uint8_t upload_id[FMT_ID];
        uint8_t tag[8];
        uint8_t reserved[8];
};

/* | fmt_part | attrs | drives: u16[runs * (k+m)], 0xffff where a shard is missing |. A run is max(1, FMT_RUN_BYTES / (k * unit))
 * stripes; runs = ceil(stripes / stripes per run), at least 1 (also for size 0, which has no stripes) */
struct fmt_part {
        uint16_t number;               /* 0 for a simple PUT */
        uint8_t k, m;
        uint16_t attrs_len;
        uint16_t runs;
        uint32_t unit;                 /* bytes of data per shard in all stripes but the last; multiple of 4 KiB */
        uint32_t last_unit;            /* in the last stripe */
        uint64_t size;
        uint8_t id[FMT_ID];            /* object id in the frames */
        uint8_t etag[16];
};

/* ---- segments and frames --------------------------------------------------------------------------- */

struct fmt_segment_header {
        uint32_t magic;
        uint32_t crc;                  /* CRC32C of these 4,096 bytes with this field zero */
        uint32_t version;
        uint32_t flags;
        uint8_t drive_id[FMT_ID];
        uint64_t segment;              /* number, equals the name */
        uint64_t generation;           /* random, never 0 */
        uint8_t rest[4096 - 48];
};

enum fmt_frame_flag {
        FMT_FRAME_MOVED = 1            /* made by segment reclaim from a frame that the index knew durably: see counts() in drive/open.c */
};

struct fmt_frame {
        uint32_t magic;
        uint32_t header_crc;           /* CRC32C of these 4,096 bytes with this field zero */
        uint8_t drive_id[FMT_ID];
        uint8_t object_id[FMT_ID];     /* carries the write's id: unique per write */
        uint64_t segment;
        uint64_t generation;           /* of the segment */
        uint64_t position;             /* of this frame in the segment */
        uint32_t stripe;               /* in the part */
        uint8_t shard;                 /* 0..k-1 data, k..k+m-1 parity */
        uint8_t k, m;
        uint8_t flags;                 /* enum fmt_frame_flag */
        uint32_t payload_len;          /* multiple of 4 KiB, at most FMT_UNIT_MAX */
        uint32_t epoch;
        uint32_t block_crc[FMT_UNIT_MAX / FMT_CRC_BLOCK]; /* CRC32C per 16 KiB of payload (the last may cover less) */
        uint8_t rest[4096 - 80 - 256];
};

/* ---- how far a scrub has come ---------------------------------------------------------------------- */

struct fmt_scrub_counts {
        int64_t started_ms, ended_ms;
        uint64_t objects, bytes, shards, damaged_shards, repaired_shards, unreadable_objects, missing_shards;
};

/* | fmt_scrub | name of from_len bytes | */
struct fmt_scrub {
        struct fmt_scrub_counts now, last;
        uint32_t drive;
        uint32_t from_len;
};

/* ---- epochs --------------------------------------------------------------------------------------- */

enum fmt_epoch_in {
        FMT_EPOCH_OUT = 0,
        FMT_EPOCH_IN = 1,
        FMT_EPOCH_JOINING = 2          /* is written to and catches up; counts for nothing yet: to be brought up to date anew after a restart */
};

enum fmt_epoch_flag {
        FMT_EPOCH_FILLING = 1,         /* put in the place of another drive: shards that records name on it may not be there yet */
        FMT_EPOCH_ADDING = 2,          /* new: groups come to it by the placement, of which those before it still speak */
        FMT_EPOCH_LEAVING = 4,         /* being removed: groups go from it by the placement, and shards; it still speaks for those groups */
        FMT_EPOCH_GONE = 8,            /* was removed: its slot is used for nothing any more */
        FMT_EPOCH_SHEDDING = 16,       /* groups went from it: it may still hold names of them */
        FMT_EPOCH_GIVEN_UP = 32        /* out by the operator's word: this epoch, or one before it, was forced without it. What it holds is another
                                          history, whatever its number; the mark goes when the slot has another drive */
};

struct fmt_epoch_drive {
        uint8_t drive_id[FMT_ID];
        uint8_t in;                    /* enum fmt_epoch_in */
        uint8_t flags;                 /* enum fmt_epoch_flag */
        uint8_t base;                  /* 1: member of the last epoch that was surely in force when this one was made. None: as in */
        uint8_t pad[5];
};

/* A forced epoch's number is so far above all that are known that the drives given up have not come so far: numbers, and what is made of them (object
 * ids, PG sequence numbers), are not used twice. 4,095 of them fit in an object id's 32 bits. */
#define FMT_EPOCH_FORCED_STEP (1u << 20)

/* | fmt_epoch | fmt_epoch_drive x drives | place ids: u8[16] x drives |, drives by slot. A slot's place id is what placement hashes: the id of the
 * first drive it had, so that putting another drive in its place moves nothing. Absent: each slot has its first drive */
#define FMT_EPOCH_MAX(drives) (sizeof(struct fmt_epoch) + (drives) * (sizeof(struct fmt_epoch_drive) + FMT_ID)) /* bytes of a body */

struct fmt_epoch {
        uint64_t number;               /* from 1; 0: of a drive that was formatted for a slot and has never been in an epoch */
        uint8_t id[FMT_ID];
        uint8_t parent[FMT_ID];
        uint32_t pg_count;
        uint16_t drives;
        uint8_t k, m;                  /* the store's default code */
};

/*
 * ---- the index -------------------------------------------------------------------------------------
 *
 * An LMDB environment (data.mdb, lock.mdb) with these databases; keys are big-endian, so that bytewise order is the
 * order of numbers:
 *
 *   names      name of less than 511 bytes -> | fmt_value | attrs | parts |
 *              the first 511 bytes of a name of 511 or more -> fmt_index_piece
 *   tails      | piece id u64 | rest of less than 503 bytes | -> value of the name whose earlier bytes are those pieces
 *              | piece id u64 | next 503 bytes | -> fmt_index_piece, and so on: at most 5 levels for FMT_NAME_MAX bytes
 *   places     | object id[16] | stripe u32 | shard u8 | -> fmt_index_place
 *   segments   u64 -> fmt_index_segment
 *   logs       u64 -> fmt_index_log
 *   pgs        u32 -> fmt_index_pg
 *   meta       u8 -> | crc u32 | bytes |        0: fmt_index_identity; 1..: see drive/index.h
 *
 * A key shorter than the full length is a name's end, a key of full length leads on: names keep their bytewise order at
 * every depth. A piece goes with the last name under it. Every value begins with a CRC32C of its key followed by the
 * rest of the value, so that a value under the wrong key is damage too (names: of the whole name).
 *   DRIVE/index/CONDEMNED (empty): the index is to be removed and rebuilt.
 */
#define FMT_INDEX_PIECE_FIRST 511u
#define FMT_INDEX_PIECE_NEXT 503u
#define FMT_INDEX_LEVELS 5u

struct fmt_index_piece {
        uint32_t crc;
        uint32_t pad;
        uint64_t id;                   /* never used again */
};

struct fmt_index_place {
        uint32_t crc;
        uint32_t payload_len;
        uint64_t segment;
        uint64_t offset;
};

struct fmt_index_segment {
        uint32_t crc;
        uint32_t sealed;
        uint64_t segment;              /* the key again */
        uint64_t generation;
        uint64_t end;                  /* bytes written or reserved when this was put */
        uint64_t indexed_to;           /* all frames below are in places (or discarded) */
        uint64_t live_frames;          /* number and bytes (headers included) of the frames that places names here */
        uint64_t live_bytes;
};

struct fmt_index_log {
        uint32_t crc;
        uint32_t pad;
        uint64_t file;                 /* the key again */
        uint64_t live_names;           /* names whose value says log_file == file; bytes: name, value, inline bytes */
        uint64_t live_bytes;
        uint64_t tombstones;           /* these are the drive's own figures */
        uint64_t bytes;
        uint64_t first_seen_ms;
};

struct fmt_index_pg {
        uint32_t crc;
        uint32_t pg;                   /* the key again */
        uint64_t seq;                  /* highest applied */
        uint64_t committed;
        uint64_t epoch;                /* of the record with that seq */
};

struct fmt_index_identity {
        uint32_t layout;
        uint32_t pad;
        uint8_t drive_id[FMT_ID];
        uint64_t next_piece;
};

struct fmt_index_covered {             /* meta 1 */
        uint64_t file;
        uint64_t generation;
        uint64_t position;             /* end of the last record covered; replay goes on here */
        uint32_t prev_crc;             /* header_crc of that record */
        uint32_t pad;
};

_Static_assert(sizeof(struct fmt_segment_header) == 4096, "segment header");
_Static_assert(sizeof(struct fmt_index_place) == 24, "place");
_Static_assert(sizeof(struct fmt_log_header) == 4096, "log header");
_Static_assert(sizeof(struct fmt_record) == 128, "record");
_Static_assert(sizeof(struct fmt_frame) == 4096, "frame");
_Static_assert(sizeof(struct fmt_value) == 128, "value");
_Static_assert(sizeof(struct fmt_epoch_drive) == 24, "drive of an epoch");

#endif
