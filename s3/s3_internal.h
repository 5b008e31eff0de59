/*
 * Small things the files of s3/ share.
 */
#ifndef S3_INTERNAL_H
#define S3_INTERNAL_H

#include "s3.h"

/*
 * Value of a hexadecimal digit, or -1. By a table: which of the three kinds a digit of a signature
 * is cannot be foreseen.
 */
extern const int8_t s3_hex_values[256];

static inline int s3_hex_value(char c)
{
        return s3_hex_values[(unsigned char)c];
}

static inline bool s3_is_digit(char c)
{
        return c >= '0' && c <= '9';
}

static inline char s3_lower(char c)
{
        return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/*
 * What may stand as it is: bits of a table, since every byte of every request and answer is asked
 * for.
 */
#define S3_CLASS_UNRESERVED 1u /* RFC 3986: SigV4 never encodes it */
#define S3_CLASS_PATH       2u /* in a canonical URI: the same and "/" */
#define S3_CLASS_LIST       4u /* in a listing with encoding-type=url */
#define S3_CLASS_XML        8u /* in XML text; the others need a second look */
extern const uint8_t s3_classes[256];

static inline bool s3_is(char c, unsigned class)
{
        return (s3_classes[(unsigned char)c] & class) != 0;
}

/* Number of bytes at the front of s that are of the class. */
static inline size_t s3_span(struct s3_str s, unsigned class)
{
        size_t n = 0;

        while (n < s.len && s3_is(s.data[n], class))
                n++;
        return n;
}

/*
 * Cuts s at the first c: the part before is returned, the part behind goes to *rest (absent if
 * there was no c).
 */
struct s3_str s3_str_cut(struct s3_str s, char c, struct s3_str *rest);

/* Length of the well-formed UTF-8 sequence at the front of s (which is not empty), or 0. */
size_t s3_utf8_sequence(struct s3_str s);

/*
 * Decodes one name or value of a query behind the *used bytes that buf holds already. False: bad
 * escape, invalid UTF-8, no room.
 */
bool s3_query_decode(struct s3_str raw, char *buf, size_t cap, size_t *used, struct s3_str *out);

#endif
