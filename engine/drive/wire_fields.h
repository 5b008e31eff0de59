/*
 * wire_fields.h - fields of messages between processes: one function goes through them, whether they
 * are written or read, so that both agree. Little-endian. Any thread.
 *
 * What is read is outside data: whoever goes through it looks at `bad` before the fields are used for
 * anything, and checks numbers of a bound of their own by eng_wire_check().
 */
#ifndef MILLRACE_ENGINE_DRIVE_WIRE_FIELDS_H
#define MILLRACE_ENGINE_DRIVE_WIRE_FIELDS_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/format.h"

_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "numbers go as they are");

/* A body that is written, or read; owner: the call */
struct eng_wire {
        uint8_t *out; /* NULL: it is read */
        const uint8_t *in;
        size_t at, len; /* len: of what is read, or room */
        bool bad;       /* no room; or it makes no sense */
};

void eng_wire_bytes(struct eng_wire *w, void *bytes, size_t len);
void eng_wire_u64(struct eng_wire *w, uint64_t *n);
void eng_wire_u32(struct eng_wire *w, uint32_t *n);
void eng_wire_u16(struct eng_wire *w, uint16_t *n);
void eng_wire_u8(struct eng_wire *w, uint8_t *n);
void eng_wire_bool(struct eng_wire *w, bool *b);
/* A number of the field's own, as is checked by the caller; of what is read only. */
void eng_wire_check(struct eng_wire *w, bool fine);
/* Zeroes up to a multiple of 8. */
void eng_wire_align(struct eng_wire *w);
/* Bytes that stay where they are: *bytes points into the body when it is read. */
void eng_wire_in_place(struct eng_wire *w, const uint8_t **bytes, size_t len);
void eng_wire_name(struct eng_wire *w, const uint8_t **name, uint16_t *len);
/* One that may be absent, which is another thing than an empty one. */
void eng_wire_optional(struct eng_wire *w, const uint8_t **bytes, uint16_t *len);

#endif
