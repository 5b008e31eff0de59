/*
 * answer.h - what is taken from an answer's body as it comes (entries of a list, bytes to compare, text), and what is
 * wrong with its length. Owner: the connection's run.
 */
#ifndef BENCH_LOAD_ANSWER_H
#define BENCH_LOAD_ANSWER_H

#include "run.h"

static const char entry_tag[] = "<Contents>";
#define TAG_LEN (sizeof(entry_tag) - 1)

static inline void count_byte(struct conn *conn, char c)
{
        if (c == entry_tag[conn->matched])
                conn->matched++;
        else
                conn->matched = c == '<';
        if (conn->matched == TAG_LEN) {
                conn->entries++;
                conn->matched = 0;
        }
}

/* Counts "<Contents>" however it is cut: whole ones by memmem, byte by byte only around the ends of a piece. */
static inline void count_entries(struct conn *conn, const char *data, size_t len)
{
        const char *end = data + len, *found;

        while (data < end && conn->matched > 0)
                count_byte(conn, *data++);
        while ((found = memmem(data, (size_t)(end - data), entry_tag, TAG_LEN)) != NULL) {
                conn->entries++;
                data = found + TAG_LEN;
        }
        if ((size_t)(end - data) >= TAG_LEN)
                data = end - (TAG_LEN - 1);
        while (data < end)
                count_byte(conn, *data++);
}

/* owner: one call of load_parser_feed() */
struct receiving {
        const struct run *run;
        struct conn *conn;
};

static inline int take_body(void *arg, uint64_t offset, const char *data, size_t len)
{
        const struct receiving *receiving = arg;
        const struct run *run = receiving->run;
        struct conn *conn = receiving->conn;
        enum load_phase op = conn->op;
        size_t room = sizeof(conn->head) - 1 - conn->text_len;

        if (conn->parser.status >= 300 || op == LOAD_MULTIPART) { /* the request is gone: keep the text of the answer */
                memcpy(conn->head + conn->text_len, data, len < room ? len : room);
                conn->text_len += len < room ? len : room;
        } else if (op == LOAD_LIST) {
                count_entries(conn, data, len);
        } else if (run->options.verify && (op == LOAD_GET || op == LOAD_RANGE)) {
                return load_content_check(run->pattern, conn->key, conn->from + offset, data, len);
        }
        return 0;
}

/* NULL, or what is wrong with the length of an answer. */
static inline const char *wrong_length(const struct load_options *o, const struct conn *conn)
{
        const struct load_parser *p = &conn->parser;

        if ((conn->op == LOAD_GET && p->body != o->size) || (conn->op == LOAD_RANGE && p->body != o->range_size) ||
            (conn->op == LOAD_HEADS && p->length != o->size))
                return "bytes";
        if (conn->op == LOAD_LIST && conn->entries != (o->keys < o->max_keys ? o->keys : o->max_keys))
                return "entries";
        return NULL;
}

#endif
