/*
 * rec.h - one record of the log as bytes: sealing, checking, and walking the mutations in its body.
 * Pure functions; any thread.
 */
#ifndef MILLRACE_ENGINE_DRIVE_REC_H
#define MILLRACE_ENGINE_DRIVE_REC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/format.h"

/* Which log file bytes claim to belong to. */
struct eng_log_ident {
        uint8_t drive_id[FMT_ID];
        uint64_t file, generation;
};

static inline uint64_t eng_round_up(uint64_t n, uint64_t unit)
{
        return (n + unit - 1) / unit * unit;
}

/* Bytes a record takes in a batch. */
static inline uint64_t eng_rec_size(uint32_t body_len)
{
        return eng_round_up(sizeof(struct fmt_record) + (uint64_t)body_len, FMT_RECORD_ALIGN);
}

void eng_log_header_seal(struct fmt_log_header *header);
/* Magic, CRC and drive; version is the caller's to check. */
bool eng_log_header_ok(const struct fmt_log_header *header, const uint8_t drive_id[FMT_ID]);

/* Fills magic and header_crc. */
void eng_rec_seal(struct fmt_record *rec);
/* A header of this file, standing where it says, with lengths in their limits. Not: chain, body. */
bool eng_rec_ok(const struct fmt_record *rec, const struct eng_log_ident *ident, uint64_t position);

/* One mutation: pointers into the body. */
struct eng_mut {
        enum fmt_mutation_kind kind;
        uint16_t name_len;
        uint32_t value_len;
        uint32_t inline_len; /* bytes that follow the value: only of the last, if it is an inline PUT */
        const uint8_t *name, *value, *inline_bytes;
};

/*
 * The mutations of a FMT_RECORD_PG body, *pos = 0 at first. body may lack its last inline_len bytes
 * (inline_bytes is then not to be read). 1: one; 0: end; -EBADMSG: lengths that lead nowhere.
 */
int eng_rec_next(const uint8_t *body, size_t len, uint32_t inline_len, size_t *pos, struct eng_mut *out);
/* Everything that applying it relies on: names, values, ids, where inline bytes stand. -EBADMSG. */
int eng_rec_check_body(const uint8_t *body, size_t len, uint32_t inline_len);
/*
 * The same of a COPY record, which ends no upload: parts are copied, or deleted, one by one.
 * -EBADMSG.
 */
int eng_rec_check_copy(const uint8_t *body, size_t len, uint32_t inline_len);
/*
 * Of records that stand in the log: a value whose parts cannot be decoded is no damage of the log.
 * Its name reads as damaged, and is there.
 */
int eng_rec_check_stored(const uint8_t *body, size_t len, uint32_t inline_len);
int eng_rec_check_stored_copy(const uint8_t *body, size_t len, uint32_t inline_len);
/*
 * Body of an EPOCH record: long enough for what it says. -EBADMSG; -EPROTONOSUPPORT: a newer build
 * wrote it, and says that it must be understood.
 */
int eng_rec_check_epoch(const void *body, size_t len);

/*
 * Length of the prefix of all PART names of the upload whose UPLOAD name this is (the same bytes
 * but for the space), 0: not an UPLOAD name.
 */
size_t eng_rec_upload_name(const uint8_t *name, size_t len);

/* Bytewise order of names. */
int eng_name_compare(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len);

#endif
