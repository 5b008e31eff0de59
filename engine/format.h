/*
 * format.h - what stands on a drive. Nothing else defines a byte on disk, but for what these bytes
 * carry for others: attrs and tag of a value are the gateway's (gateway/s3/attrs_format.h). All
 * integers are little-endian unless said.
 *
 * Numbers of every enumeration here are stored: append only, and a number that was given is never
 * given again.
 *
 *   DRIVE/FORMAT           text, written once, and anew by an upgrade or for another feature (see drive/identity.c)
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

#include <stddef.h>
#include <stdint.h>

#define FMT_LAYOUT_VERSION 2u         /* docs/format.md says what a store of layout 1 becomes */
#define FMT_FEATURES ((uint64_t)(FMT_FEATURE_VERSIONS | FMT_FEATURE_SITES | FMT_FEATURE_TERMS | FMT_FEATURE_POOLS)) /* bits of FORMAT's line 'features' that this build knows */
#define FMT_BLOCK 4096u                /* unit of alignment of batches and frames */
#define FMT_RECORD_ALIGN 64u
#define FMT_BODY_MAX (1792u << 10)     /* bytes of one record's body */
#define FMT_VALUE_MAX (FMT_BODY_MAX - (16u << 10)) /* bytes of one value that is made: a record of it and the rows that go with it must fit */
#define FMT_NAME_MAX 2304u             /* bytes of one index name */
#define FMT_INLINE_MAX (128u << 10)    /* inline bytes of one value: what a reader takes, whatever the limit was when it was written */
#define FMT_CRC_BLOCK (16u << 10)      /* payload bytes covered by one CRC */
#define FMT_UNIT_MAX (1u << 20)
#define FMT_RUN_BYTES (1ull << 30)     /* data bytes placed by one data PG */
#define FMT_ID 16

/*
 * Bits of the line 'features'. One that is set says that records may stand in the log which a build that
 * does not know it would misread (docs/design/bucket-rules.md has the order of events).
 */
enum fmt_feature {
        FMT_FEATURE_VERSIONS = 1,      /* fields and states of values, names of versions, rules and texts of buckets */
        FMT_FEATURE_SITES = 2,         /* epochs with nodes and racks (FMT_EPOCH_MUST_SITES): older builds take such a record for a damaged one */
        FMT_FEATURE_TERMS = 4,         /* TERM records: who may write is decided by them */
        FMT_FEATURE_POOLS = 8          /* entries of kind FMT_TEXT_BUCKET_POOL: a build that does not look at them would make a bucket twice */
};

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
        uint64_t prev_end;             /* where the last record of prev_file ends: behind it there may be what a tear left; 0: not known */
        uint8_t rest[4096 - 72];
};

enum fmt_record_type {
        FMT_RECORD_PG = 1,             /* mutations of one placement group */
        FMT_RECORD_EPOCH = 2,          /* body: fmt_epoch */
        /* 3 was FENCE: it was never written, and the number is not used again */
        FMT_RECORD_FREED = 4,          /* drive's own: body is fmt_freed x n: all log files freed between the oldest and this one */
        FMT_RECORD_COPY = 5,           /* mutations (no END_UPLOAD) as current members have them, for a drive that catches up: they count at once, with
                                          this record's seq, which is the highest the PG had given then */
        FMT_RECORD_VOID = 6,           /* drive's own: body is fmt_void x n: the PG records before it that are void; all others before it were applied */
        FMT_RECORD_MARKS = 7,          /* drive's own: body is fmt_mark x n: how far each PG had come here. Written before log files are freed, so
                                          that no number is given twice though the record that had it is gone */
        FMT_RECORD_TERM = 8,           /* body is fmt_term: the leader that may write from here on */
        FMT_RECORD_ENDS = 9            /* drive's own, optional: body is fmt_end x n: how log files ended behind which files are gone. Stands before the
                                          FREED record that names those */
};

enum fmt_record_flag {
        FMT_RECORD_OPTIONAL = 1        /* whoever does not know the type skips the record; without this bit it refuses the drive */
};
/*
 * Log reclaim moves a living value by a COPY record of that one mutation, with the seq and epoch of
 * the record it stood in.
 */

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

/* A term of a cluster's pool: terms are ordered by generation, then revision. Only in drives with FMT_FEATURE_TERMS. */
struct fmt_term {
        uint64_t generation, revision, boot;
        uint16_t node;
        uint8_t pad[6];
        uint8_t cluster[FMT_ID];       /* that etcd had */
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

struct fmt_end {
        uint64_t file;
        uint32_t crc;                  /* header_crc of its last record: what the header of the next file says, */
        uint32_t end_units;            /* and where that ends, / FMT_RECORD_ALIGN; 0: not known */
};

/* ---- names: [space u8][bucket id u64 big-endian][rest] --------------------------------------- */

enum fmt_space {
        FMT_SPACE_CONFIG = 1,          /* rest: 'b' bucket name; 's' (attrs of its value: fmt_scrub); 'w' (attrs: a name, where a walk of upkeep was); 'd' name 00 id[8] of a deleted bucket, of which uploads may be left (value: the bucket's); 'c' bucket id u64 big-endian (kinds from 128 on: any number), kind u8, piece u8 (attrs: fmt_text, bytes); 't' (attrs: fmt_lock_clock) */
        FMT_SPACE_OBJECT = 2,          /* rest: key */
        FMT_SPACE_UPLOAD = 3,          /* rest: esc(key) 00 01 upload id[16] (time-ordered) */
        FMT_SPACE_PART = 4,            /* rest: esc(key) 00 01 upload id[16] part number u16 big-endian */
        FMT_SPACE_VERSION = 5          /* rest: esc(key) 00 01, complement of the version's number u64 big-endian: newest first */
};                                     /* esc(): each byte 00 becomes 00 FF, so order stays bytewise. record/spaces.def has a row for each */
#define FMT_SPACE_LAST FMT_SPACE_VERSION /* that this build reads and writes */

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

/* ---- values ---------------------------------------------------------------------------------- */

enum fmt_value_flag {
        FMT_VALUE_INLINE = 1           /* the object's bytes are the inline bytes of the record that put it */
};

/* Bits of fmt_value.state: what a listing must know without reading fields. */
enum fmt_value_state {
        FMT_STATE_MARKER = 1,          /* a delete marker */
        FMT_STATE_NULL = 2,            /* the null version of its key */
        FMT_STATE_HOLD = 4,            /* legal hold */
        FMT_STATE_HEAD = 8,            /* the key has versions: this row is their head and owns nothing */
        FMT_STATE_ENCRYPTED = 16,
        FMT_STATE_REMOTE = 32          /* the bytes are on another tier */
};
#define FMT_STATE_KNOWN (FMT_STATE_MARKER | FMT_STATE_NULL | FMT_STATE_HOLD | FMT_STATE_HEAD) /* bits that this build writes */

/* Kinds of fields. A reader keeps those that it does not know. */
enum fmt_field_kind {
        FMT_FIELD_RETENTION = 1,       /* fmt_retention */
        FMT_FIELD_TAGS = 2,            /* | count u8 | { key_len u16, value_len u16, key, value } x count | */
        FMT_FIELD_STORED = 3,          /* fmt_stored */
        FMT_FIELD_ENVELOPE = 4,        /* | algorithm u16 | key id_len u16 | key id | wrapped key and nonces | */
        FMT_FIELD_REMOTE = 5,          /* | tier u32 | length u32 | name of the copy there | */
        FMT_FIELD_OWNER = 6,           /* fmt_owner */
        FMT_FIELD_VERSION = 7,         /* 16 random bytes: what makes the version id unguessable */
        FMT_FIELD_HEAD = 8,            /* fmt_head */
        FMT_FIELD_BUCKET = 9,          /* fmt_bucket_rules, in the row of a bucket; without it: never versioned, no lock */
        FMT_FIELD_HOLD = 10,           /* 1 byte, 0: a legal hold was set, on or off; FMT_STATE_HOLD says which */
        FMT_FIELD_ACL = 11             /* bytes of the gateway's: owner and grants (include/s3_acl.h) */
};
struct fmt_field {
        uint16_t kind;
        uint16_t len;                  /* of the bytes behind this; the next field begins at a multiple of 4 */
};
#define FMT_FIELDS_MAX (48u << 10)     /* bytes of all fields of one value */

enum fmt_retention_mode {
        FMT_RETENTION_GOVERNANCE = 1,
        FMT_RETENTION_COMPLIANCE = 2
};
struct fmt_retention {
        int64_t until_ms;
        uint8_t mode;                  /* enum fmt_retention_mode */
        uint8_t pad[7];
};
struct fmt_stored {                    /* reserved, as the next */
        uint64_t bytes;                /* as stored; fmt_value.size is what a client sees */
        uint32_t codec;
        uint32_t pad;
};
struct fmt_owner {
        uint64_t account, user;
};
enum fmt_versioning {
        FMT_VERSIONING_NEVER = 0,
        FMT_VERSIONING_ENABLED = 1,
        FMT_VERSIONING_SUSPENDED = 2
};
enum fmt_retention_unit {
        FMT_RETENTION_DAYS = 0,
        FMT_RETENTION_YEARS = 1
};
/* By which changes of a bucket's objects are decided. */
struct fmt_bucket_rules {
        uint64_t generation;           /* one more with each change, from 1 on: of two copies of a bucket's row the higher one counts */
        uint8_t versioning;            /* enum fmt_versioning */
        uint8_t lock;                  /* 1: versions can be protected; versioning is enabled then */
        uint8_t retention_mode;        /* enum fmt_retention_mode, of new versions that come without one; 0: none */
        uint8_t retention_unit;        /* enum fmt_retention_unit */
        uint32_t retention;            /* so long; 0 without a mode */
};
/* A piece of a text of a bucket (attrs of its row, a name of 'c'): this, then its bytes. */
struct fmt_text {
        uint64_t generation;           /* number of the record that put it */
        uint32_t len;                  /* of the whole text */
        uint32_t crc;                  /* CRC32C of the whole text */
};
#define FMT_TEXT_MAX (256u << 10)      /* bytes of a text */
#define FMT_TEXT_PIECE ((8u << 10) - 16u) /* bytes of each piece but the last */
/* The text of an entry of this kind: this, then the name of a bucket, which is in that pool and in no other (docs/design/pools.md). */
#define FMT_TEXT_BUCKET_POOL 255u
struct fmt_bucket_pool {
        uint8_t version;               /* FMT_BUCKET_POOL_VERSION */
        uint8_t pool;                  /* 1 .. 63 */
};
#define FMT_BUCKET_POOL_VERSION 1u
struct fmt_head {
        uint64_t newest, null_number;  /* of versions; null_number 0: there is no null version */
        uint8_t null_id[FMT_ID];       /* object id of the null version: it lives on although this row, which had it, has another value */
};

/*
 * | fmt_value | attrs | fields | parts |   in records and in the index alike; log_file, log_position and crc are filled by the drive.
 */
struct fmt_value {
        uint32_t crc;                  /* in the index: CRC32C of the name, then of all that follows; in a record 0 */
        uint8_t space;
        uint8_t flags;
        uint16_t attrs_len;
        uint32_t pg;                   /* of the name */
        uint32_t parts;                /* number of fmt_part that follow attrs: 0 for inline, else >= 1 */
        uint64_t seq;
        /*
         * Bytes of the object, and today also those that are stored. As stored bytes it is taken by
         * object/put_buffer.c (units that a client's device fills), object/complete.c (offsets of
         * parts), upkeep/verify_value.c and upkeep/rebuild_plan.c (which shards there are), and,
         * with fmt_part.size, by record/stripe.c. Where the two are to differ: FMT_FIELD_STORED.
         */
        uint64_t size;
        int64_t mtime_ms;
        uint64_t log_file;             /* drive-local: where the record stands */
        uint64_t log_position;
        uint32_t inline_len;
        uint16_t etag_parts;
        uint16_t fields_len;           /* bytes of fields, a multiple of 4 */
        uint8_t id[FMT_ID];            /* object id: epoch u32, loop u16, node u16 (0: no cluster), counter u64, all big-endian; unique per write */
        uint8_t etag[16];
        uint8_t upload_id[FMT_ID];
        uint8_t tag[8];
        uint32_t state;                /* enum fmt_value_state */
        uint8_t storage_class;         /* reserved: the gateway's number; 0 STANDARD */
        uint8_t pad[3];
};

#define FMT_PART_NARROW 0x8000u        /* in fmt_part.number: drives are u8, 0xff where a shard is missing */
#define FMT_PART_NUMBER 0x7fffu
/*
 * | fmt_part | attrs | drives: u16[runs * (k+m)], 0xffff where a shard is missing |. A run is max(1, FMT_RUN_BYTES / (k * unit))
 * stripes; runs = ceil(stripes / stripes per run), at least 1 (also for size 0, which has no stripes)
 */
struct fmt_part {
        uint16_t number;               /* 0 for a simple PUT; and FMT_PART_NARROW */
        uint8_t k, m;
        uint16_t attrs_len;
        uint16_t runs;
        uint32_t unit;                 /* bytes of data per shard in all stripes but the last; multiple of 4 KiB */
        uint32_t last_unit;            /* in the last stripe */
        uint64_t size;
        uint8_t id[FMT_ID];            /* object id in the frames */
        uint8_t etag[16];
};

/* ---- segments and frames --------------------------------------------------------------------- */

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
        FMT_FRAME_MOVED = 1,           /* made by segment reclaim from a frame that the index knew durably: see counts() in drive/open.c */
        FMT_FRAME_KEYED = 2            /* key_hash is there; not in frames of layout 1 */
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
        uint64_t key_hash;             /* of bucket id and key: eng_hash_of_key() */
        uint8_t rest[4096 - 88 - 256];
};

/* ---- how far a scrub has come ---------------------------------------------------------------- */

struct fmt_scrub_counts {
        int64_t started_ms, ended_ms;
        uint64_t objects, bytes, shards, damaged_shards, repaired_shards, unreadable_objects, missing_shards;
};

#define FMT_SCRUB_ALL UINT32_MAX       /* walk: of the names of all drives at once */

/* | fmt_scrub | name of from_len bytes | */
struct fmt_scrub {
        struct fmt_scrub_counts now, last;
        uint32_t walk;                 /* other: the drive whose names were walked by 0.1, which went through them drive by drive */
        uint32_t from_len;             /* names up to this one are through; 0: none is */
};

/*
 * How far the scrub of a drive's segments has come (meta of its index): | fmt_drive_scrub | fmt_rot x n |. Without it a round
 * begins anew.
 */
struct fmt_drive_scrub {
        uint64_t segment, generation;  /* being read; segment 0: no round is under way; 1 << 63 | number: a log file, as in last and in fmt_rot */
        uint64_t position;             /* in it: a frame begins there, or is looked for */
        uint64_t gap;                  /* from here to position no frame was found; 0: one ends at position. Of a log file + 1: not all is zero */
        uint64_t last;                 /* segment of the round; newer ones belong to the next */
        uint64_t total, bytes;         /* of segments: when the round began; gone through so far */
        uint64_t frames, damaged;      /* whole frames; shards found damaged */
        int64_t started_ms;
        int64_t last_started_ms, last_ended_ms; /* of the last round that came to its end, as the next two */
        uint64_t last_bytes, last_damaged;
};

enum fmt_rot_kind {
        FMT_ROT_SHARD = 1,             /* of this shard's frame something does not match its checksum, or cannot be read */
        FMT_ROT_GAP = 2                /* no frame (record) that is right was found where there may be one: [offset, offset + length) */
};

enum fmt_rot_flag {
        FMT_ROT_OWED = 1,              /* of a gap: names have not been compared since it was found */
        FMT_ROT_MORE = 2               /* there were more gaps than could be remembered (on any one row) */
};

/*
 * A place of a segment that is not as it was written. It counts for as long as the index names it.
 */
struct fmt_rot {
        uint8_t object_id[FMT_ID];     /* of a shard */
        uint64_t segment, offset;
        uint64_t length;
        uint32_t stripe;
        uint8_t shard;
        uint8_t kind;                  /* enum fmt_rot_kind */
        uint16_t flags;                /* enum fmt_rot_flag; builds that do not know them write 0 */
};

/* ---- the lock clock -------------------------------------------------------------------------- */

struct fmt_lock_clock {
        int64_t mark_ms;               /* high-water mark: the lock clock has come so far */
        int64_t budget_ms;             /* by so much the next start may advance it, 0 to FMT_LOCK_BUDGET_MS; a row that ends before it: all of that */
};
#define FMT_LOCK_BUDGET_MS (24ll * 3600 * 1000)

/* ---- epochs ---------------------------------------------------------------------------------- */

enum fmt_epoch_in {
        FMT_EPOCH_OUT = 0,
        FMT_EPOCH_IN = 1,
        FMT_EPOCH_BACK = 3,            /* joining, and current for lost groups whose truth it is (FMT_EPOCH_MUST_LOST) */
        FMT_EPOCH_JOINING = 2          /* is written to and catches up; counts for nothing yet: to be brought up to date anew after a restart */
};

enum fmt_epoch_flag {
        FMT_EPOCH_FILLING = 1,         /* put in the place of another drive: shards that records name on it may not be there yet */
        FMT_EPOCH_ADDING = 2,          /* new: groups come to it by the placement, of which those before it still speak */
        FMT_EPOCH_LEAVING = 4,         /* being removed: groups go from it by the placement, and shards; it still speaks for those groups */
        FMT_EPOCH_GONE = 8,            /* was removed: its slot is used for nothing any more */
        FMT_EPOCH_DROPPING_MIGRATED = 16,       /* groups went from it: it may still hold names of them */
        FMT_EPOCH_GIVEN_UP = 32,       /* out by the operator's word: this epoch, or one before it, was forced without it. What it holds is another
                                          history, whatever its number; the mark goes when the slot has another drive */
        FMT_EPOCH_LOST_WRITES = 64,    /* with FILLING: it had lost writes that it acknowledged. No group begins anew from what it holds */
        FMT_EPOCH_ADDED = 128          /* was ADDING in the last epoch that was surely in force: it still is if this one never was, and it has not got it */
};

struct fmt_epoch_drive {
        uint8_t drive_id[FMT_ID];
        uint8_t in;                    /* enum fmt_epoch_in */
        uint8_t flags;                 /* enum fmt_epoch_flag */
        uint8_t base;                  /* 1: member of the last epoch that was surely in force when this one was made. None: as in */
        uint8_t pad;
        uint16_t node, rack;           /* that it lies on, in a cluster (FMT_EPOCH_MUST_SITES); else 0 */
};

/*
 * A forced epoch's number is so far above all that are known that the drives given up have not come
 * so far: numbers, and what is made of them (object ids, PG sequence numbers), are not used twice.
 * 4,095 of them fit in an object id's 32 bits.
 */
#define FMT_EPOCH_FORCED_STEP (1u << 20)

/*
 *   | fmt_epoch | fmt_epoch_drive x drives | place ids: u8[16] x drives | fmt_epoch_tail and what later versions add to it |
 *
 * Drives by slot. A slot's place id is what placement hashes: the id of the first drive it had, so
 * that putting another drive in its place moves nothing. Absent: each slot has its first drive. The
 * tail may be absent; where it is there, so are the place ids.
 */
#define FMT_EPOCH_PLACED(drives) (sizeof(struct fmt_epoch) + (drives) * (sizeof(struct fmt_epoch_drive) + FMT_ID)) /* bytes up to the tail */
#define FMT_EPOCH_TAIL_MAX 1024u
#define FMT_EPOCH_MAX(drives) (FMT_EPOCH_PLACED(drives) + FMT_EPOCH_TAIL_MAX) /* bytes of a body */

/*
 * The last epoch that was surely in force when this one was made. A drive that was in it and has
 * not got it has lost writes. A reader skips the bytes behind the fields that it knows, and refuses
 * the record if `must` has a bit that it does not know.
 */
struct fmt_epoch_tail {
        uint32_t size;                 /* of the tail, this field included: up to the end of the body; a multiple of 8 */
        uint32_t must;                 /* enum fmt_epoch_must: what a reader has to understand */
        uint64_t in_force;             /* number of that epoch; 0: none is known */
        uint8_t in_force_id[FMT_ID];
};
enum fmt_epoch_must {
        FMT_EPOCH_MUST_SITES = 1,      /* some slot has a node or rack: the placement, and who may go on alone, follow them */
        FMT_EPOCH_MUST_LOST = 2,       /* some group has no member that is in: who may join follows from FMT_EPOCH_LEFT */
        FMT_EPOCH_MUST_NO_TRUTH = 4,   /* and some slot has FMT_EPOCH_NO_TRUTH */
        FMT_EPOCH_MUST_BELIEVED = 8    /* some slot has FMT_EPOCH_BELIEVED */
};
#define FMT_EPOCH_MUST_KNOWN ((uint32_t)(FMT_EPOCH_MUST_SITES | FMT_EPOCH_MUST_LOST | FMT_EPOCH_MUST_NO_TRUTH | FMT_EPOCH_MUST_BELIEVED))

/*
 * Behind fmt_epoch_tail, in a cluster: u64 x drives. Of a slot that is not in: the epoch that went on without
 * it, if it was in until then; the last one that it was back in, if it was that; 0: neither. With
 * FMT_EPOCH_NO_TRUTH, the slot does not hold all that it acknowledged until then: nothing begins from it. With
 * FMT_EPOCH_BELIEVED, it is taken for one that does by the operator's word, whatever its drive says of its log.
 */
#define FMT_EPOCH_LEFT(drives) ((drives) * sizeof(uint64_t))
#define FMT_EPOCH_NO_TRUTH (1ull << 63)
#define FMT_EPOCH_BELIEVED (1ull << 62)

struct fmt_epoch {
        uint64_t number;               /* from 1; 0: of a drive that was formatted for a slot and has never been in an epoch */
        uint8_t id[FMT_ID];
        uint8_t parent[FMT_ID];
        uint32_t pg_count;
        uint16_t drives;
        uint8_t k, m;                  /* the store's default code */
};

/*
 * ---- the index
 * -------------------------------------------------------------------------------------
 *
 * An LMDB environment (data.mdb) with these databases; keys are big-endian, so that bytewise order
 * is the order of numbers:
 *
 *   names      name of less than 511 bytes -> | fmt_value | attrs | parts |
 *              the first 511 bytes of a name of 511 or more -> fmt_index_piece
 *   tails      | piece id u64 | rest of less than 503 bytes | -> value of the name whose earlier bytes are those pieces
 *              | piece id u64 | next 503 bytes | -> fmt_index_piece, and so on: at most 5 levels for FMT_NAME_MAX bytes
 *   places     | object id[16] | stripe u32 | shard u8 | -> fmt_index_location (fmt_index_place1 where layout 1 put it)
 *   owners     | object id[16] | hash of the name u64 | -> fmt_index_owner: that name has a part of this id
 *   segments   u64 -> fmt_index_segment
 *   logs       u64 -> fmt_index_log
 *   pgs        u32 -> fmt_index_pg
 *   meta       u8, enum fmt_index_meta -> | crc u32 | bytes |
 *
 * A key shorter than the full length is a name's end, a key of full length leads on: names keep
 * their bytewise order at every depth. A piece goes with the last name under it. Every value begins
 * with a CRC32C of its key followed by the rest of the value, so that a value under the wrong key
 * is damage too (names: of the whole name).
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

struct fmt_index_location {
        uint32_t crc;
        uint32_t payload_len;
        uint64_t segment;
        uint64_t offset;
        uint64_t key_hash;             /* as in the frame; 0: not known */
};
#define FMT_INDEX_PLACE1 24u           /* bytes of a row of layout 1: without key_hash */

struct fmt_index_owner {
        uint32_t crc;
        uint32_t pg;                   /* of the name */
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
        uint32_t end_crc;              /* header_crc of its last record, if the file behind it is gone or was about to go; 0: not known */
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

enum fmt_index_meta {
        FMT_INDEX_META_IDENTITY = 0,   /* fmt_index_identity */
        FMT_INDEX_META_COVERED = 1,    /* fmt_index_covered */
        FMT_INDEX_META_EPOCH = 2,      /* body of the newest EPOCH record */
        FMT_INDEX_META_HISTORY = 3,    /* fmt_index_epoch x n: of the newest and of those before it */
        FMT_INDEX_META_DAMAGE = 4,     /* fmt_index_damage */
        FMT_INDEX_META_OWNERS = 5,     /* the first bytes of fmt_index_owners_made */
        FMT_INDEX_META_UNKNOWN_OWNERS = 6, /* u64: names whose parts cannot be decoded */
        FMT_INDEX_META_SCRUB = 7,      /* | fmt_drive_scrub | fmt_rot x n | */
        FMT_INDEX_META_REACH = 8,      /* fmt_index_covered: the end of the log when this index took from it last */
        FMT_INDEX_META_TERM = 9        /* fmt_index_term: the newest TERM record */
};

#define FMT_INDEX_LAYOUT 1u            /* of the index alone: what layout 2 adds is added to an index of layout 1 as it is used */
struct fmt_index_identity {
        uint32_t layout;               /* FMT_INDEX_LAYOUT */
        uint32_t pad;
        uint8_t drive_id[FMT_ID];
        uint64_t next_piece;
};

struct fmt_index_covered {
        uint64_t file;
        uint64_t generation;
        uint64_t position;             /* end of the last record covered; replay goes on here */
        uint32_t prev_crc;             /* header_crc of that record */
        uint32_t pad;
};

/* An epoch whose record stands in the log. */
struct fmt_index_epoch {
        struct fmt_epoch head;
        uint64_t file;                 /* log file that holds its record */
};

struct fmt_index_term {
        struct fmt_term term;
        uint64_t file;                 /* log file that holds its record */
};

/* The log had damage when this index was built from it: drive/damage.c. */
struct fmt_index_damage {
        uint64_t epoch;                /* the newest that the drive knew then; UINT64_MAX: replay had not come to its end */
        char text[160];                /* for the operator, with its 0 */
};

/* How far rows of owners are made in an index of layout 1. */
struct fmt_index_owners_made {
        uint8_t complete;              /* 1: all are, and nothing follows */
        uint8_t from[FMT_NAME_MAX];    /* names up to this one have theirs; stored is as much as the name is long */
};

_Static_assert(sizeof(struct fmt_segment_header) == 4096, "segment header");
_Static_assert(sizeof(struct fmt_index_location) == 32 && FMT_INDEX_PLACE1 == offsetof(struct fmt_index_location, key_hash), "place");
_Static_assert(sizeof(struct fmt_index_owner) == 8, "owner");
_Static_assert(sizeof(struct fmt_drive_scrub) == 112 && sizeof(struct fmt_rot) == 48, "scrub");
_Static_assert(sizeof(struct fmt_log_header) == 4096 && offsetof(struct fmt_log_header, prev_end) == 64, "log header");
_Static_assert(sizeof(struct fmt_record) == 128, "record");
_Static_assert(sizeof(struct fmt_frame) == 4096, "frame");
_Static_assert(offsetof(struct fmt_frame, key_hash) == 336, "key of a frame");
_Static_assert(sizeof(struct fmt_value) == 128, "value");
_Static_assert(offsetof(struct fmt_value, fields_len) == 62 && offsetof(struct fmt_value, state) == 120, "value of layout 2");
_Static_assert(sizeof(struct fmt_part) == 56, "part");
_Static_assert(sizeof(struct fmt_field) == 4 && sizeof(struct fmt_retention) == 16 && sizeof(struct fmt_stored) == 16 &&
                       sizeof(struct fmt_owner) == 16 && sizeof(struct fmt_head) == 32 && sizeof(struct fmt_bucket_rules) == 16,
               "fields");
_Static_assert(sizeof(struct fmt_text) == 16 && FMT_TEXT_MAX / FMT_TEXT_PIECE < 255, "texts of a bucket");
_Static_assert(sizeof(struct fmt_bucket_pool) == 2, "the pool of a bucket");
_Static_assert(sizeof(struct fmt_lock_clock) == 16 && offsetof(struct fmt_lock_clock, budget_ms) == 8, "lock clock");
_Static_assert(sizeof(struct fmt_term) == 48, "term");
_Static_assert(sizeof(struct fmt_epoch_drive) == 24, "drive of an epoch");
_Static_assert(sizeof(struct fmt_epoch) == 48, "epoch");
_Static_assert(sizeof(struct fmt_epoch_tail) == 32, "tail of an epoch");
_Static_assert(FMT_EPOCH_PLACED(0) % 8 == 0 && FMT_EPOCH_PLACED(1) % 8 == 0, "the tail is aligned");
_Static_assert(sizeof(struct fmt_mutation) == 8, "mutation");
_Static_assert(sizeof(struct fmt_void) == 16 && sizeof(struct fmt_mark) == 24 && sizeof(struct fmt_freed) == 16 && sizeof(struct fmt_end) == 16,
               "bodies of a drive's own records");
_Static_assert(sizeof(struct fmt_scrub_counts) == 72 && sizeof(struct fmt_scrub) == 152, "walk of a scrub");
_Static_assert(sizeof(struct fmt_index_piece) == 16 && sizeof(struct fmt_index_segment) == 56 && sizeof(struct fmt_index_log) == 56 &&
                       sizeof(struct fmt_index_pg) == 32,
               "rows of the index");
_Static_assert(sizeof(struct fmt_index_identity) == 32 && sizeof(struct fmt_index_covered) == 32 && sizeof(struct fmt_index_epoch) == 56 && sizeof(struct fmt_index_term) == 56 &&
                       sizeof(struct fmt_index_damage) == 168 && sizeof(struct fmt_index_owners_made) == 1 + FMT_NAME_MAX,
               "meta of the index");

/* Each number that is stored, once more: a list that was reordered does not build. */
#define FMT_STORED(name, number) _Static_assert((name) == (number), #name " is stored")

FMT_STORED(FMT_RECORD_PG, 1);
FMT_STORED(FMT_RECORD_EPOCH, 2);
FMT_STORED(FMT_RECORD_FREED, 4);
FMT_STORED(FMT_RECORD_COPY, 5);
FMT_STORED(FMT_RECORD_VOID, 6);
FMT_STORED(FMT_RECORD_MARKS, 7);
FMT_STORED(FMT_RECORD_TERM, 8);
FMT_STORED(FMT_RECORD_ENDS, 9);

FMT_STORED(FMT_RECORD_OPTIONAL, 1);

FMT_STORED(FMT_SPACE_CONFIG, 1);
FMT_STORED(FMT_SPACE_OBJECT, 2);
FMT_STORED(FMT_SPACE_UPLOAD, 3);
FMT_STORED(FMT_SPACE_PART, 4);
FMT_STORED(FMT_SPACE_VERSION, 5);

FMT_STORED(FMT_MUT_PUT, 1);
FMT_STORED(FMT_MUT_DELETE, 2);
FMT_STORED(FMT_MUT_END_UPLOAD, 3);

FMT_STORED(FMT_VALUE_INLINE, 1);

FMT_STORED(FMT_STATE_MARKER, 1);
FMT_STORED(FMT_STATE_NULL, 2);
FMT_STORED(FMT_STATE_HOLD, 4);
FMT_STORED(FMT_STATE_HEAD, 8);
FMT_STORED(FMT_STATE_ENCRYPTED, 16);
FMT_STORED(FMT_STATE_REMOTE, 32);

FMT_STORED(FMT_FIELD_RETENTION, 1);
FMT_STORED(FMT_FIELD_TAGS, 2);
FMT_STORED(FMT_FIELD_STORED, 3);
FMT_STORED(FMT_FIELD_ENVELOPE, 4);
FMT_STORED(FMT_FIELD_REMOTE, 5);
FMT_STORED(FMT_FIELD_OWNER, 6);
FMT_STORED(FMT_FIELD_VERSION, 7);
FMT_STORED(FMT_FIELD_HEAD, 8);
FMT_STORED(FMT_FIELD_BUCKET, 9);
FMT_STORED(FMT_FIELD_HOLD, 10);
FMT_STORED(FMT_FIELD_ACL, 11);

FMT_STORED(FMT_FEATURE_VERSIONS, 1);
FMT_STORED(FMT_FEATURE_SITES, 2);
FMT_STORED(FMT_FEATURE_TERMS, 4);
FMT_STORED(FMT_FEATURE_POOLS, 8);

FMT_STORED(FMT_VERSIONING_NEVER, 0);
FMT_STORED(FMT_VERSIONING_ENABLED, 1);
FMT_STORED(FMT_VERSIONING_SUSPENDED, 2);

FMT_STORED(FMT_RETENTION_DAYS, 0);
FMT_STORED(FMT_RETENTION_YEARS, 1);

FMT_STORED(FMT_RETENTION_GOVERNANCE, 1);
FMT_STORED(FMT_RETENTION_COMPLIANCE, 2);

FMT_STORED(FMT_FRAME_MOVED, 1);
FMT_STORED(FMT_FRAME_KEYED, 2);

FMT_STORED(FMT_ROT_SHARD, 1);
FMT_STORED(FMT_ROT_GAP, 2);

FMT_STORED(FMT_EPOCH_OUT, 0);
FMT_STORED(FMT_EPOCH_IN, 1);
FMT_STORED(FMT_EPOCH_JOINING, 2);
FMT_STORED(FMT_EPOCH_BACK, 3);

FMT_STORED(FMT_EPOCH_FILLING, 1);
FMT_STORED(FMT_EPOCH_ADDING, 2);
FMT_STORED(FMT_EPOCH_LEAVING, 4);
FMT_STORED(FMT_EPOCH_GONE, 8);
FMT_STORED(FMT_EPOCH_DROPPING_MIGRATED, 16);
FMT_STORED(FMT_EPOCH_GIVEN_UP, 32);
FMT_STORED(FMT_EPOCH_LOST_WRITES, 64);
FMT_STORED(FMT_EPOCH_ADDED, 128);

FMT_STORED(FMT_EPOCH_MUST_SITES, 1);
FMT_STORED(FMT_EPOCH_MUST_LOST, 2);
FMT_STORED(FMT_EPOCH_MUST_NO_TRUTH, 4);
FMT_STORED(FMT_EPOCH_MUST_BELIEVED, 8);
FMT_STORED(FMT_EPOCH_NO_TRUTH, 1ull << 63);
FMT_STORED(FMT_EPOCH_BELIEVED, 1ull << 62);

FMT_STORED(FMT_INDEX_META_IDENTITY, 0);
FMT_STORED(FMT_INDEX_META_COVERED, 1);
FMT_STORED(FMT_INDEX_META_EPOCH, 2);
FMT_STORED(FMT_INDEX_META_HISTORY, 3);
FMT_STORED(FMT_INDEX_META_DAMAGE, 4);
FMT_STORED(FMT_INDEX_META_OWNERS, 5);
FMT_STORED(FMT_INDEX_META_UNKNOWN_OWNERS, 6);
FMT_STORED(FMT_INDEX_META_SCRUB, 7);
FMT_STORED(FMT_INDEX_META_REACH, 8);
FMT_STORED(FMT_INDEX_META_TERM, 9);

FMT_STORED(FMT_PART_NARROW, 0x8000u);
FMT_STORED(FMT_LOG_MAGIC, 0x474c524du);
FMT_STORED(FMT_RECORD_MAGIC, 0x4352524du);
FMT_STORED(FMT_FRAME_MAGIC, 0x4652524du);
FMT_STORED(FMT_SEGMENT_MAGIC, 0x4753524du);
#undef FMT_STORED

#endif
