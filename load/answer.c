/*
 * answer.c - what is taken from an answer's body as it comes (entries of a list, bytes to compare,
 * text), and what is wrong with its length. Called by run.c on the running thread.
 */
#include "load/run.h"

#include <string.h>

#include "load_content.h"

static const char entry_tag[] = "<Contents>";
#define TAG_LEN (sizeof(entry_tag) - 1)

static void count_byte(struct load_conn *conn, char c)
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

/*
 * Counts "<Contents>" however it is cut: whole ones by memmem, byte by byte only around the ends of
 * a piece.
 */
void load_count_entries(struct load_conn *conn, const char *data, size_t len)
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

int load_take_body(void *arg, uint64_t offset, const char *data, size_t len)
{
        const struct load_receiving *receiving = arg;
        const struct load_run *run = receiving->run;
        struct load_conn *conn = receiving->conn;
        enum load_phase op = conn->op;
        size_t room = sizeof(conn->head) - 1 - conn->text_len;

        if (conn->parser.status >= 300 || op == LOAD_MULTIPART) { /* the request is gone: keep the text of the answer */
                memcpy(conn->head + conn->text_len, data, len < room ? len : room);
                conn->text_len += len < room ? len : room;
        } else if (op == LOAD_LIST) {
                load_count_entries(conn, data, len);
        } else if (run->settings->verify && (op == LOAD_GET || op == LOAD_RANGE)) {
                return load_content_check(run->pattern, conn->key, conn->from + offset, data, len);
        }
        return 0;
}

const char *load_wrong_length(const struct load_settings *o, const struct load_conn *conn)
{
        const struct load_parser *p = &conn->parser;

        if ((conn->op == LOAD_GET && p->body != o->size) || (conn->op == LOAD_RANGE && p->body != o->range_size) ||
            (conn->op == LOAD_HEADS && p->length != o->size))
                return "bytes";
        if (conn->op == LOAD_LIST && conn->entries != (o->keys < o->max_keys ? o->keys : o->max_keys))
                return "entries";
        return NULL;
}
