/*
 * wire.h - operations of a drive (drive.h) and their answers as bytes: what a drive in another
 * process is asked by. Functions over values; any thread.
 *
 * A message is a body, and a bulk part that lies elsewhere so that it need not be copied:
 *
 *   request   APPEND: the record's body        WRITE: the frame's payload      else no bulk
 *   answer    READ: the bytes that were read; RECORD, LOOKUP, SCAN, TAIL, IDS, OWNED, SCRUB: what
 *             the operation gives                                              else no bulk
 *
 * Integers are little-endian. What comes from outside is checked here: lengths, counts, offsets and
 * the structure of what callers walk through, but not what a value or a record says. Each message
 * has one form: a body that was taken is, written again, the same bytes.
 */
#ifndef MILLRACE_ENGINE_DRIVE_WIRE_H
#define MILLRACE_ENGINE_DRIVE_WIRE_H

#include "engine/drive/drive.h"

#define ENG_WIRE_BODY_MAX (32u << 10)                         /* bytes of a body */
#define ENG_WIRE_BULK_MAX (16u << 20)                         /* of a bulk part */

/* Where the bulk part of a message is to lie. */
enum eng_wire_bulk {
        ENG_WIRE_BULK_NONE,
        ENG_WIRE_BULK_BUF,  /* a buffer of its length */
        ENG_WIRE_BULK_SLOT  /* a slot: at LP_SLOT_HEADER; of an answer, at LP_SLOT_HEADER + read.offset */
};

/* Up to two pieces, one behind the other; they belong to the operation. */
struct eng_wire_parts {
        unsigned count;
        struct {
                const uint8_t *bytes;
                size_t len;
        } part[2];
};

/*
 * Writes the body of a request, and says what its bulk part is. Returns the body's length.
 * -EMSGSIZE: it is longer than any that is allowed; -EINVAL: a bitmap of groups without its length
 * (scan.pg_words). done, result and what the answer fills are not sent; nor is the term, which
 * stands before a message.
 */
int eng_wire_put_request(const struct eng_op *op, uint8_t body[ENG_WIRE_BODY_MAX], struct eng_wire_parts *bulk);
/* Whether the operation that the body begins with has a bulk part, or needs a slot. -EBADMSG. */
int eng_wire_request_needs(const uint8_t *body, size_t len, enum eng_wire_bulk *bulk, bool *slot);
/*
 * Makes an operation of a body, all but done. It points into the body, which begins at a multiple of
 * 8 bytes, and lives as long as the operation. buf: the bulk part of an APPEND (the operation takes
 * no reference); slot: where a WRITE's bulk part lies, and room for what READ and SCRUB need.
 * -EBADMSG.
 */
int eng_wire_get_request(const uint8_t *body, size_t len, struct eng_buf *buf, void *slot, size_t bulk_len, struct eng_op *op);

/* The same of an answer: the operation as the drive has left it. */
int eng_wire_put_answer(const struct eng_op *op, uint8_t body[ENG_WIRE_BODY_MAX], struct eng_wire_parts *bulk);
enum eng_wire_bulk eng_wire_answer_needs(const struct eng_op *asked);
/*
 * Fills the answer, and op->result, of the operation that was asked. buf: the bulk part where it is
 * one of a buffer, of which answers are references; of READ it lies in the slot already. -EBADMSG
 * (nothing is to be given back), -ENOMEM.
 */
int eng_wire_get_answer(const uint8_t *body, size_t len, struct eng_buf *buf, size_t bulk_len, struct eng_op *op);
/*
 * Whether bytes from elsewhere are `count` entries, to their end, that can answer this SCAN: lengths of
 * names and values, of what form these are, order, and names between those that were asked for.
 */
bool eng_wire_page_answers(const struct eng_op *asked, const uint8_t *bytes, size_t len, uint32_t count);
/* Releases the buffers of an answer that nobody takes. */
void eng_wire_drop_answer(struct eng_op *op);

#endif
