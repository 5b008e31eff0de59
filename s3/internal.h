/*
 * Small things the files of s3/ share.
 */
#ifndef S3_INTERNAL_H
#define S3_INTERNAL_H

#include "s3.h"

/* Value of a hexadecimal digit, or -1. */
static inline int s3_hex_value(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

static inline bool s3_is_digit(char c)
{
        return c >= '0' && c <= '9';
}

static inline char s3_lower(char c)
{
        return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* RFC 3986 unreserved: what SigV4 never encodes. */
static inline bool s3_is_unreserved(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || s3_is_digit(c) || c == '-' || c == '_' || c == '.' ||
               c == '~';
}

/* Cuts s at the first c: the part before is returned, the part behind goes to *rest (absent if there was no c). */
struct s3_str s3_str_cut(struct s3_str s, char c, struct s3_str *rest);

/* Length of the well-formed UTF-8 sequence at the front of s (which is not empty), or 0. */
size_t s3_utf8_sequence(struct s3_str s);

#endif
