/*
 * leader_call.h - what a home store asks the leader of its pool, and the answers, as bytes
 * (docs/design/any-gateway.md). Functions over values; any thread.
 *
 * A message is a body, and a bulk part of up to two pieces that lie elsewhere, so that they need not
 * be copied:
 *
 *   request   PUT: the value, inline bytes   COMPLETE: the parts   TEXT_SET: the text   else no bulk
 *   answer    LOOKUP: the value, inline bytes   MERGE: the entries                      else no bulk
 *
 * Integers are little-endian. What comes from outside is checked here: lengths, counts, numbers of
 * kinds, values and their parts, rules, but no entries; and not whether the sender may say so, nor what a bucket or a
 * group is of. Each message has one form: a body that was taken is, written again, the same bytes.
 */
#ifndef MILLRACE_ENGINE_CALL_LEADER_CALL_H
#define MILLRACE_ENGINE_CALL_LEADER_CALL_H

#include "engine.h"
#include "engine/format.h"
#include "engine/record/value.h"

#define ENG_CALL_BODY_MAX (60u << 10)
#define ENG_CALL_BULK_MAX FMT_BODY_MAX
#define ENG_CALL_WHICH_MAX   3u       /* the last of enum eng_lookup_which */
#define ENG_CALL_ENTRIES_MAX 4096u    /* of a page of a merge */

enum eng_call_kind {
        ENG_CALL_PUT = 1,      /* the record of an upload whose shards are durable */
        ENG_CALL_DELETE,
        ENG_CALL_UPDATE,
        ENG_CALL_EXTRAS,
        ENG_CALL_UPLOAD_CREATE,
        ENG_CALL_UPLOAD_ABORT,
        ENG_CALL_COMPLETE,
        ENG_CALL_LOOKUP,       /* a row, which is pinned if that is wanted */
        ENG_CALL_MERGE,        /* a page of an ordered list of rows */
        ENG_CALL_BUCKET_CREATE,
        ENG_CALL_RULES_SET,
        ENG_CALL_BUCKET_DELETE,
        ENG_CALL_TEXT_SET,
        ENG_CALL_TEXT_DELETE,
        ENG_CALL_LOCK_CONFIRM,
        ENG_CALL_HINT,         /* a group has something that is to be looked at */
        ENG_CALL_DISCARD,      /* shards of an upload that no record names, and none will */
        ENG_CALL_KINDS
};

/* Pieces of bulk, one behind the other. */
struct eng_call_bulk {
        unsigned count;
        struct {
                const uint8_t *bytes;
                size_t len;
        } piece[2];
};

/* A drive that has an upload's shards, durably. */
struct eng_call_proof {
        uint64_t slot, drive_key;      /* drive_key: as eng_view has it */
};

/* A call. Strings and pointers are the sender's; of a call that was read they point into body and bulk. */
struct eng_call {
        enum eng_call_kind kind;
        uint64_t bucket;       /* its id, or the entry's. Not of BUCKET_CREATE and what follows TEXT_DELETE; of BUCKET_DELETE 0: whichever has the name */
        struct eng_str key;    /* of an object; the name of a bucket that is created or deleted; of LOOKUP and MERGE none */
        union {
                struct {
                        struct eng_condition condition;
                        bool is_part;
                        uint8_t upload_id[FMT_ID]; /* of a part, as its number */
                        unsigned part_number;
                        bool now;                  /* its mtime is the leader's; else what the value says */
                        unsigned proof_count;
                        const uint8_t *proofs;     /* struct eng_call_proof, not aligned */
                        struct eng_str value, bytes;
                } put;
                struct {
                        bool by_version; /* version is given */
                        struct eng_version version;
                        struct eng_condition condition;
                        enum eng_place place;
                        bool object, bypass_governance;
                } del;
                struct {
                        struct eng_condition condition;
                        uint8_t tag[8];
                        struct eng_str attrs;
                } update;
                struct {
                        bool by_version;
                        struct eng_version version;
                        struct eng_extras_change change;
                } extras;
                struct {
                        uint8_t tag[8];
                        struct eng_str attrs;
                        struct eng_extras extras;
                } create;
                struct {
                        uint8_t upload_id[FMT_ID];
                } abort;
                struct {
                        uint8_t upload_id[FMT_ID], etag[16], tag[8];
                        struct eng_str attrs;
                        struct eng_condition condition;
                        int64_t mtime_ms;
                        unsigned count;
                        const struct eng_complete_part *parts;
                } complete;
                struct {
                        uint8_t which;             /* enum eng_lookup_which */
                        uint64_t pin;              /* the home's number for the pin; 0: none is wanted */
                        uint32_t flags;            /* ENG_OP_WANT_INLINE */
                        uint8_t random[ENG_VERSION_RANDOM];
                        struct eng_name name;
                } lookup;
                struct {
                        struct eng_name from, to;  /* to: of length 0: none */
                        bool after;
                        uint16_t prefix_len;
                        struct eng_str delimiter;
                        uint32_t flags, max;
                } merge;
                struct {
                        bool has_rules;            /* of BUCKET_CREATE; RULES_SET always has some */
                        struct eng_bucket_rules rules;
                        struct eng_str attrs;      /* of BUCKET_CREATE */
                } rules;
                struct {
                        uint8_t kind;
                        uint64_t expected;
                        bool decided;              /* by entries as in seen: eng_entry_set() */
                        struct eng_rows_digest seen;
                        struct eng_str bytes;      /* of TEXT_SET */
                } text;
                int64_t wall_ms;                   /* LOCK_CONFIRM */
                uint32_t group;                    /* HINT */
                struct {
                        uint8_t id[FMT_ID];
                        uint64_t drives;           /* slots */
                } discard;
        };
};

/*
 * Writes the body of a call, and says what its bulk is. Returns the body's length. -EMSGSIZE: it is
 * longer than any that is allowed.
 */
int eng_call_put(const struct eng_call *call, uint8_t body[ENG_CALL_BODY_MAX], struct eng_call_bulk *bulk);
/* How long the bulk of this body must be. -EBADMSG: it is no body of a call. */
int64_t eng_call_bulk_len(const uint8_t *body, size_t len);
/* It changes something for a client: not what keeps the store whole, nor the lock clock. Of what is no call: false. */
bool eng_call_changes(const uint8_t *body, size_t len);
/*
 * Makes a call of a body and bulk, which live as long as it does; bulk begins at a multiple of 8 bytes.
 * -EBADMSG.
 */
int eng_call_get(const uint8_t *body, size_t len, const uint8_t *bulk, size_t bulk_len, struct eng_call *call);

/* The answer to a call; what it has depends on the kind. Pointers as above. */
struct eng_call_answer {
        int rv;
        bool recorded;             /* a record may have reached a log: its shards must not be discarded */
        struct eng_object object;  /* PUT, UPDATE, EXTRAS, COMPLETE, where rv is 0: what was stored */
        struct eng_str value;      /* LOOKUP: the row's value */
        struct eng_str bytes;      /* LOOKUP: inline bytes; data NULL: none */
        struct eng_name name;      /* LOOKUP: the row's */
        bool pinned;               /* LOOKUP */
        uint32_t needs;            /* LOOKUP, rv -EMSGSIZE: the room that the answer's bulk needs */
        struct eng_deleted deleted;
        uint8_t upload_id[FMT_ID]; /* UPLOAD_CREATE */
        bool more;                 /* MERGE */
        unsigned count;
        struct eng_str entries;    /* MERGE: count of them, as in the answer to a SCAN; whoever asked checks them: eng_wire_page_answers() */
};
/* As above. A call's answer without success has no bulk. */
int eng_call_put_answer(enum eng_call_kind kind, const struct eng_call_answer *answer, uint8_t body[ENG_CALL_BODY_MAX],
                        struct eng_call_bulk *bulk);
int eng_call_get_answer(enum eng_call_kind kind, const uint8_t *body, size_t len, const uint8_t *bulk, size_t bulk_len,
                        struct eng_call_answer *answer);

#endif
