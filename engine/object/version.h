/*
 * version.h - records of keys with versions (docs/design/versions.md): what the change of an object
 * becomes where its bucket has versioning. The primary loop of the key, with the key locked.
 */
#ifndef MILLRACE_ENGINE_VERSION_H
#define MILLRACE_ENGINE_VERSION_H

#include "engine/object/key_rows.h"

/*
 * Appends the record that makes the plain object, which the last lookup found together with its
 * inline bytes, the null version of its key. Sets rows to what then holds. Then goes on with then().
 * It needs more room than before: -ENOSPC if the store is full.
 */
void eng_version_convert(struct eng_txn *txn, struct eng_key_rows *rows, void (*then)(struct eng_txn *txn));

/* A version to be made the newest one of its key. */
struct eng_new_version {
        struct eng_key_rows *rows;     /* not PLAIN, unless the plain object is to die */
        const struct eng_bucket_rules *rules; /* that the change is decided by */
        bool marker;                   /* value is not given */
        struct eng_buf *value;         /* as the OBJECT row of a plain object would have it */
        const void *bytes;             /* inline */
        size_t inline_len;
        const struct eng_name *upload; /* ended by it; NULL: none */
        const uint8_t (*ids)[FMT_ID];  /* of the parts that live on */
        size_t id_count;
};
/*
 * Builds the record in txn->body. txn->name is the version's name then, and *out the version's value,
 * which the caller owns. -ENOMEM, -E2BIG.
 */
int eng_version_build(struct eng_txn *txn, const struct eng_new_version *version, struct eng_buf **out);

/*
 * Adds the put of the key's head to txn->body, which has room for it, once the record has its number:
 * what it says of the newest version is what that version's value says. -ENOMEM.
 */
int eng_version_head(struct eng_txn *txn, const struct eng_buf *newest, const struct fmt_head *versions);
/* Bytes of a record that it takes. */
size_t eng_version_head_need(const struct eng_txn *txn);

/* A version to be deleted. */
struct eng_gone_version {
        uint64_t number;
        struct fmt_head versions;      /* as the key's head has it */
        const struct eng_buf *head;    /* that row's value */
        const struct eng_key_scan *next; /* if it is the newest: what was found; its value NULL: no other version */
};
/* Builds the record in txn->body: the version's row goes, and the head says what is left. -ENOMEM. */
int eng_version_build_delete(struct eng_txn *txn, const struct eng_gone_version *gone);

/*
 * A copy of a value with other fields: those in more take the place of its own of the same kind, a
 * field of 0 bytes removes its own. NULL: no memory.
 */
struct eng_buf *eng_value_refield(const struct eng_buf *value, const struct eng_fields *more);

/* Whether a value asks for retention or a hold. */
bool eng_value_is_protected(const struct eng_buf *value);
/*
 * Encodes what extras say: fields in new memory, which the caller frees (none: NULL), and state bits.
 * -EINVAL: longer tags than there may be; -ENOMEM.
 */
int eng_extras_encode(const struct eng_extras *extras, struct eng_fields *fields, uint32_t *state);

#endif
