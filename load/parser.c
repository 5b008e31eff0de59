/*
 * parser.c - reads one HTTP/1.1 response from bytes as they come. Called by run.c on the running
 * thread.
 */
#include "load/parser.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void load_parser_start(struct load_parser *parser, bool no_body)
{
        parser->state = LOAD_HEAD;
        parser->no_body = no_body;
        parser->chunked = false;
        parser->keep = true;
        parser->status = 0;
        parser->length = UINT64_MAX;
        parser->left = 0;
        parser->body = 0;
        parser->head_len = 0;
        parser->etag[0] = '\0';
}

static void parse_field(struct load_parser *parser, const char *line, const char *end)
{
        const char *colon = memchr(line, ':', (size_t)(end - line));
        const char *value = colon != NULL ? colon + 1 : NULL;
        size_t name = colon != NULL ? (size_t)(colon - line) : 0;
        size_t len;

        if (value == NULL)
                return;
        while (value < end && *value == ' ')
                value++;
        len = (size_t)(end - value);
        if (name == 14 && strncasecmp(line, "Content-Length", 14) == 0)
                parser->length = strtoull(value, NULL, 10);
        else if (name == 17 && strncasecmp(line, "Transfer-Encoding", 17) == 0)
                parser->chunked = len == 7 && strncasecmp(value, "chunked", 7) == 0;
        else if (name == 10 && strncasecmp(line, "Connection", 10) == 0)
                parser->keep = !(len == 5 && strncasecmp(value, "close", 5) == 0);
        else if (name == 4 && strncasecmp(line, "ETag", 4) == 0 && len < sizeof(parser->etag)) {
                memcpy(parser->etag, value, len);
                parser->etag[len] = '\0';
        }
}

/* The head is whole. 0 or -EPROTO. */
static int parse_head(struct load_parser *parser)
{
        const char *at = parser->head, *end = parser->head + parser->head_len;
        const char *line_end = memchr(at, '\r', (size_t)(end - at));

        if (parser->head_len < 12 || strncmp(at, "HTTP/1.1 ", 9) != 0 || line_end == NULL)
                return -EPROTO;
        parser->status = atoi(at + 9);
        for (at = line_end + 2; at < end - 2; at = line_end + 2) {
                line_end = memchr(at, '\r', (size_t)(end - at));
                if (line_end == NULL)
                        return -EPROTO;
                parse_field(parser, at, line_end);
        }
        if (parser->status >= 100 && parser->status < 200) { /* not the answer yet */
                load_parser_start(parser, parser->no_body);
                return 0;
        }
        parser->head_len = 0;
        if (parser->no_body || parser->status == 204 || parser->status == 304) {
                parser->state = LOAD_DONE;
        } else if (parser->chunked) {
                parser->state = LOAD_CHUNK_SIZE;
        } else if (parser->length == UINT64_MAX) {
                return -EPROTO; /* until the connection closes: no S3 server does that */
        } else {
                parser->left = parser->length;
                parser->state = parser->left > 0 ? LOAD_BODY : LOAD_DONE;
        }
        return 0;
}

/* Collects one line of the chunked coding. 1: it is whole, its end cut off; 0: more; -EPROTO. */
static int parse_line(struct load_parser *parser, char c)
{
        if (c != '\n') {
                if (parser->head_len >= 1024)
                        return -EPROTO;
                parser->head[parser->head_len++] = c;
                return 0;
        }
        while (parser->head_len > 0 && parser->head[parser->head_len - 1] == '\r')
                parser->head_len--;
        parser->head[parser->head_len] = '\0';
        return 1;
}

static int parse_chunk_line(struct load_parser *parser, char c)
{
        int whole = parse_line(parser, c);

        if (whole <= 0)
                return whole;
        if (parser->state == LOAD_TRAILER) {
                if (parser->head_len == 0)
                        parser->state = LOAD_DONE;
        } else if (parser->head_len > 0) { /* else: the line end behind a chunk's data */
                parser->left = strtoull(parser->head, NULL, 16);
                parser->state = parser->left > 0 ? LOAD_CHUNK_DATA : LOAD_TRAILER;
        }
        parser->head_len = 0;
        return 0;
}

static int parse_head_byte(struct load_parser *parser, char c)
{
        if (parser->head_len == LOAD_HEAD_MAX)
                return -EPROTO;
        parser->head[parser->head_len++] = c;
        if (c != '\n' || parser->head_len < 4 || memcmp(parser->head + parser->head_len - 4, "\r\n\r\n", 4) != 0)
                return 0;
        return parse_head(parser);
}

int load_parser_feed(struct load_parser *parser, const char *data, size_t len, load_body_fn body, void *arg,
                     size_t *used)
{
        size_t at = 0;
        int rv = 0;

        while (at < len && rv == 0 && parser->state != LOAD_DONE) {
                if (parser->state == LOAD_HEAD) {
                        rv = parse_head_byte(parser, data[at++]);
                } else if (parser->state == LOAD_CHUNK_SIZE || parser->state == LOAD_TRAILER) {
                        rv = parse_chunk_line(parser, data[at++]);
                } else {
                        size_t run = parser->left < len - at ? (size_t)parser->left : len - at;

                        rv = body(arg, parser->body, data + at, run);
                        at += run;
                        parser->body += run;
                        parser->left -= run;
                        if (parser->left == 0)
                                parser->state = parser->state == LOAD_BODY ? LOAD_DONE : LOAD_CHUNK_SIZE;
                }
        }
        *used = at;
        return rv;
}

void load_parser_skip(struct load_parser *parser, uint64_t n)
{
        parser->body += n;
        parser->left -= n;
        if (parser->left == 0)
                parser->state = LOAD_DONE;
}
