/*
 * field.c - arithmetic on polynomials over GF(2) modulo a CRC's polynomial.
 *
 * Used by the CRCs of ec/ to join CRCs of parts and to make the constants that folding needs, so
 * that no such constant stands in the source. Pure functions of any thread; a field is made once
 * and then constant.
 */
#include "ec/ec_internal.h"

uint64_t era_field_multiply(const struct era_field *field, uint64_t a, uint64_t b)
{
        uint64_t product = 0, bit;

        for (bit = field->one; bit != 0; bit >>= 1) { /* without branches: no one could predict them */
                product ^= b & -(uint64_t)((a & bit) != 0);
                b = (b >> 1) ^ (field->poly & -(b & 1)); /* times x */
        }
        return product;
}

void era_field_init(struct era_field *field, uint64_t poly, unsigned width)
{
        unsigned i;

        field->poly = poly;
        field->one = 1ull << (width - 1);
        field->byte_powers[0] = field->one >> 8;
        for (i = 1; i < 64; i++)
                field->byte_powers[i] = era_field_multiply(field, field->byte_powers[i - 1], field->byte_powers[i - 1]);
}

uint64_t era_field_skip(const struct era_field *field, uint64_t a, uint64_t len)
{
        unsigned i;

        for (i = 0; len != 0; i++, len >>= 1)
                if ((len & 1) != 0)
                        a = era_field_multiply(field, a, field->byte_powers[i]);
        return a;
}

uint64_t era_field_power(const struct era_field *field, uint64_t n)
{
        uint64_t odd_bits = field->one >> (n % 8); /* x^(n mod 8) */

        return era_field_skip(field, odd_bits, n / 8);
}
