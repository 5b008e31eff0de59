/*
 * remote_wire.h - what remote drives and drive servers say to one another, beside the operations
 * themselves (engine/drive/wire.h). Functions over values; any thread. Little-endian.
 *
 *   request   OP     head, body of the operation          bulk: the operation's
 *             INFO   head, features that the drive is to have, u64
 *             WATCH  head, number of the first superseded value that has not come, u64
 *             OPEN   head, cluster
 *             PING, RELEASE, STATE, PREPARE: head, of a pool; no slot
 *   answer    status (enum rem_status); of REM_DONE:
 *             OP     prefix, body of the answer           bulk: from offset on, as far as there is room
 *             INFO   prefix, struct rem_info, epoch, history, text of the damage
 *             WATCH  prefix, struct rem_state, reason     bulk: superseded values, | length u32 | value | of each
 *             OPEN   prefix, struct rem_before, and as INFO
 *             PING, STATE: struct rem_pool_head, struct rem_slot of each slot; RELEASE, PREPARE: nothing
 *             of REM_DEPOSED, REM_GRANTED, REM_OTHER_CLUSTER: struct rem_refusal, or nothing
 */
#ifndef MILLRACE_REMOTE_WIRE_H
#define MILLRACE_REMOTE_WIRE_H

#include "engine/drive/drive.h"
#include "engine/drive/wire.h"
#include "remote.h"

enum rem_operation {
        REM_OP = REM_OPERATIONS,
        REM_INFO,
        REM_WATCH,
        REM_OPEN,
        REM_PING,
        REM_RELEASE,
        REM_STATE,
        REM_PREPARE,
        REM_END
};
_Static_assert(REM_END - REM_OPERATIONS == REM_OPERATIONS_COUNT, "remote.h");

enum rem_status {
        REM_DONE,              /* the drive has answered */
        REM_BAD,               /* it makes no sense */
        REM_UNKNOWN_DRIVE,     /* no such slot is served, or another drive is there */
        REM_OTHER_INCARNATION, /* what it stands on may be gone */
        REM_DEPOSED,           /* of an older term */
        REM_OLD_SESSION,       /* a newer one was begun */
        REM_GAP,               /* a COMMIT before it did not come */
        REM_BUSY,              /* there is no buffer now: nothing was begun */
        REM_NO_MEMORY,         /* nothing was begun */
        REM_GRANTED,           /* OPEN: to another term, for a time */
        REM_NOT_OPEN,          /* of a newer term than the drive serves, or which has to OPEN it anew */
        REM_OTHER_CLUSTER,     /* OPEN: a TERM record names another one */
        REM_FAILED,            /* OPEN: the drive has failed */
        REM_STATUSES
};

#define REM_BEGIN 1u /* head.flags of INFO: begins a session */
#define REM_HOME  2u /* of OP: of a home store, which has none (docs/design/any-gateway.md) */

/* Before the body of every request. */
struct rem_head {
        uint32_t pool;
        uint16_t slot, flags;
        uint8_t drive_id[FMT_ID]; /* zeroes: any; of INFO alone */
        uint64_t incarnation, session; /* of a home store: 0, or of SYNC the one that is meant; 0 */
        uint64_t commits; /* sent in this session, this one included */
        struct eng_term term; /* of the leader that asks; none: no leader, or no cluster */
        uint32_t offset;  /* of the answer's bulk */
        uint32_t zero;
};
_Static_assert(sizeof(struct rem_head) == 88 && sizeof(struct rem_head) % 8 == 0,
               "what follows begins at a multiple of 8");

#define REM_EXHAUSTED     1u
#define REM_UNRELIABLE    2u
#define REM_STALLED       4u
#define REM_VANISHED      8u
#define REM_INDEX_DAMAGED 16u
#define REM_LACKS         32u /* its log lost its end, or is damaged: since it was opened, which a session may not have seen */
#define REM_LOG_LOST      64u /* of these two, the first */
#define REM_FLAGS         127u

/* Before the body of every answer. */
struct rem_prefix {
        uint64_t incarnation;
        uint32_t flags;     /* of the drive, now */
        uint32_t total;     /* bytes of bulk in all */
        uint32_t total_crc; /* CRC32C of all of them, where they are more than came; else 0 */
        uint32_t zero;
};
_Static_assert(sizeof(struct rem_prefix) == 24, "prefix");

struct rem_info {
        uint8_t store_id[FMT_ID], drive_id[FMT_ID];
        int64_t created_ms;
        uint64_t features;
        uint32_t slot, layout, epoch_len;
        uint16_t history, damage_len;
        uint8_t log_lost, zero[7];
};
_Static_assert(sizeof(struct rem_info) == 72, "info");

struct rem_past {
        uint64_t number;
        uint8_t id[FMT_ID], parent[FMT_ID];
};

/* Of OPEN: the newest TERM record before. */
struct rem_before {
        struct eng_term term;
        uint8_t cluster[FMT_ID];
};
_Static_assert(sizeof(struct rem_before) == 48, "before");

struct rem_refusal {
        uint64_t left_ns;       /* of the grant */
        struct eng_term newest; /* that is known; REM_GRANTED: to whom it is granted */
};
_Static_assert(sizeof(struct rem_refusal) == 40, "refusal");

struct rem_pool_head {
        uint64_t left_ns, heard_ns;
        struct eng_term newest, opened, granted;
        uint32_t count;
        uint16_t flags, note; /* REM_POOL_RELEASED ...; REM_NOTE_ETCD ... */
};
#define REM_POOL_RELEASED 1u
#define REM_POOL_HEARD    2u
_Static_assert(sizeof(struct rem_pool_head) == 120 && sizeof(struct rem_slot) == 80, "pool");

#define REM_EPOCH_MAX  FMT_EPOCH_MAX(ENG_DRIVES_MAX)
#define REM_DAMAGE_MAX 256u /* with the final 0 */
#define REM_INFO_MAX                                                                                                   \
        (sizeof(struct rem_info) + REM_EPOCH_MAX + ENG_EPOCH_HISTORY * sizeof(struct rem_past) + REM_DAMAGE_MAX)

/* A SCAN's page and one entry more are one answer. */
#define REM_SCAN_MOST (NET_BULK_MAX - FMT_BODY_MAX - FMT_NAME_MAX - (uint32_t)sizeof(struct eng_scan_entry) - 8u)

/* What an opening is told. */
struct rem_facts {
        struct eng_identity identity;
        bool log_lost;
        char damage[REM_DAMAGE_MAX]; /* "": none */
        size_t epoch_len;
        uint8_t epoch[REM_EPOCH_MAX];
        struct eng_epoch_history history;
};
/* Returns the length. */
size_t rem_facts_write(const struct rem_facts *facts, uint8_t out[REM_INFO_MAX]);
/* -EBADMSG. */
int rem_facts_read(const uint8_t *bytes, size_t len, struct rem_facts *out);

/* Zeroes where nothing is said. -EBADMSG. */
int rem_refusal_read(const uint8_t *bytes, size_t len, struct rem_refusal *out);

#define REM_POOL_MAX (sizeof(struct rem_pool_head) + REM_SLOTS_MAX * sizeof(struct rem_slot))
/* slots: room for REM_SLOTS_MAX, ascending once they are read. -EBADMSG. */
int rem_pool_read(const uint8_t *bytes, size_t len, struct rem_pool_head *out, struct rem_slot *slots);
/* What a head says, as an answer's fields. */
void rem_pool_state_take(struct rem_pool_state *state, const struct rem_pool_head *head);

/* The numbers of struct eng_drive_info that are sent. */
#define REM_NUMBERS(X)                                                                                                 \
        X(reserve_bytes)                                                                                               \
        X(total_bytes)                                                                                                 \
        X(free_bytes)                                                                                                  \
        X(log_bytes)                                                                                                   \
        X(data_bytes)                                                                                                  \
        X(index_bytes)                                                                                                 \
        X(ops)                                                                                                         \
        X(errors) X(queue) X(memtable_bytes) X(appends) X(batches) X(syncs) X(read_bytes) X(written_bytes)             \
                X(cache_bytes) X(cache_hits) X(cache_misses) X(log_live_bytes) X(data_live_bytes) X(reclaim_copied)    \
                        X(reclaim_freed) X(index_reads) X(reclaim_damaged) X(read_errors) X(unknown_owners)

struct rem_state {
        uint64_t first;  /* number of the first value in the bulk */
        uint32_t values; /* in it */
        uint8_t failed, starved;
        uint16_t reason_len;
#define REM_NUMBER_FIELD(name) uint64_t name;
        REM_NUMBERS(REM_NUMBER_FIELD)
#undef REM_NUMBER_FIELD
};

#define REM_REASON_MAX sizeof(((struct eng_drive_info *)0)->reason)
#define REM_STATE_MAX  (sizeof(struct rem_state) + REM_REASON_MAX)
/* first and values are the caller's. Returns the length. */
size_t rem_state_write(const struct eng_drive_info *info, uint64_t first, uint32_t values, uint8_t out[REM_STATE_MAX]);
/* Fills what was sent, and leaves the rest of info. -EBADMSG. */
int rem_state_read(const uint8_t *bytes, size_t len, struct rem_state *state, struct eng_drive_info *info);

/* A drive that this build can open: as eng_folder_probe() has it. */
static inline bool rem_is_known(unsigned layout, uint64_t features)
{
        return layout <= FMT_LAYOUT_VERSION && (features & ~FMT_FEATURES) == 0;
}

/* True: READ and WRITE, whose bulk lies in a slot, and which go by the bulk connections. */
static inline bool rem_is_bulk(enum eng_op_kind kind)
{
        return kind == ENG_OP_READ || kind == ENG_OP_WRITE;
}

/* It needs a buffer there that others may have: REM_BUSY, and it is sent again. Nothing else is ever sent twice. */
static inline bool rem_may_wait(enum eng_op_kind kind)
{
        return rem_is_bulk(kind) || kind == ENG_OP_SCRUB;
}

/* It is done again for the rest of an answer: it changes nothing. */
static inline bool rem_is_question(enum eng_op_kind kind)
{
        return kind == ENG_OP_LOOKUP || kind == ENG_OP_SCAN || kind == ENG_OP_RECORD || kind == ENG_OP_TAIL ||
               kind == ENG_OP_IDS || kind == ENG_OP_OWNED;
}

#endif
