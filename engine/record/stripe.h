/*
 * stripe.h - the arithmetic of striped data (functions over values), shared by put.c, get.c and
 * verify.c.
 *
 * A part of size bytes is cut into stripes of k units; the last stripe has shorter units. Unit i of
 * a stripe covers the bytes from i * unit of the stripe. A data unit that holds no byte of the part
 * is all zeroes and is not stored.
 */
#ifndef MILLRACE_ENGINE_STRIPE_H
#define MILLRACE_ENGINE_STRIPE_H

#include "engine/record/value.h"

/* Unit for a part of a known size. */
uint32_t eng_stripe_unit(uint64_t size, unsigned k);
/* Unit of the last stripe: rem bytes (1..k*unit) over k units, a multiple of 4 KiB. */
uint32_t eng_stripe_last_unit(uint64_t rem, unsigned k);
uint32_t eng_stripes_per_run(unsigned k, uint32_t unit);
/* Bytes of the part in one stripe. */
uint64_t eng_stripe_bytes(const struct fmt_part *part, uint32_t stripe);
/* Data units of a stripe that are stored: those that hold a byte. */
unsigned eng_stripe_units(const struct fmt_part *part, uint32_t stripe);
/* Zeroes enough for any unit. */
extern const uint8_t eng_zero_unit[FMT_UNIT_MAX];

#endif
