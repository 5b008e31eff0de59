/*
 * text.h - fixed-width hexadecimal of headers and tokens. Private to rdma/.
 */
#ifndef RDX_TEXT_H
#define RDX_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exactly digits (at most 16) lower-case hex digits. */
bool rdx_hex_number(const char *text, unsigned digits, uint64_t *out);
int rdx_hex_digit(char c); /* -1: none, or upper case */

#endif
