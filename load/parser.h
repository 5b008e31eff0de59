/*
 * parser.h - reads one HTTP/1.1 response from bytes as they come: status, length or chunks, whether
 * the connection is kept. What a load generator needs and no more. Private to this folder. Owner:
 * one connection.
 */
#ifndef LOAD_PARSER_H
#define LOAD_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_HEAD_MAX 8192u

enum load_parse_state { LOAD_HEAD, LOAD_BODY, LOAD_CHUNK_SIZE, LOAD_CHUNK_DATA, LOAD_TRAILER, LOAD_DONE };

struct load_parser {
        enum load_parse_state state;
        bool no_body; /* set by the caller: the request was a HEAD */
        bool chunked, keep;
        int status;
        uint64_t length; /* Content-Length; UINT64_MAX: none */
        uint64_t left;   /* of the body or the chunk */
        uint64_t body;   /* body bytes so far */
        size_t head_len;
        char head[LOAD_HEAD_MAX + 1]; /* the head, then lines of the chunked coding */
        char etag[96];
};

void load_parser_start(struct load_parser *parser, bool no_body);

/* Body bytes, as they come; an errno ends the reading. */
typedef int (*load_body_fn)(void *arg, uint64_t offset, const char *data, size_t len);

/*
 * Takes bytes up to the end of the response; *used says how many. 0 or a negative errno: -EPROTO,
 * or what body() returned. parser->state is LOAD_DONE at the end.
 */
int load_parser_feed(struct load_parser *parser, const char *data, size_t len, load_body_fn body, void *arg,
                     size_t *used);
/* The caller threw away n bytes of a body of known length without looking. */
void load_parser_skip(struct load_parser *parser, uint64_t n);

#endif
