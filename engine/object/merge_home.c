/*
 * merge_home.c - lists of a home store: pages that the leader of its pool has merged, one behind the
 * other. The loop of the request.
 */
#include "engine/call/call_send.h"
#include "engine/drive/wire.h"
#include "engine/object/object.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_ROOM (1u << 20)

/* owner: home loop */
struct home_merge {
        struct lp_msg msg;             /* first */
        struct eng_loop *el;
        struct eng_call call;          /* its delimiter is the bytes behind */
        unsigned max, count;
        eng_merge_done done;
        void *arg;
        const struct eng_scan_entry **entries;
        struct eng_buf **pages;        /* that entries point into, but for the last */
        unsigned page_count;
        int rv;
        char delimiter[];
};

static void home_merge_finish(struct home_merge *merge, int rv, bool more)
{
        unsigned i;

        merge->done(merge->arg, rv, merge->entries, rv == 0 ? merge->count : 0, more);
        for (i = 0; i < merge->page_count; i++)
                eng_buf_unref(merge->pages[i]);
        free(merge->pages);
        free(merge->entries);
        free(merge);
}

/* What comes from the leader is held to what was asked, as a drive's answer is. */
static bool page_answers(const struct home_merge *merge, const struct eng_call_answer *answer)
{
        const struct eng_op asked = {.kind = ENG_OP_SCAN,
                                     .flags = merge->call.merge.flags,
                                     .scan = {.from = merge->call.merge.from.data,
                                              .from_len = merge->call.merge.from.len,
                                              .after = merge->call.merge.after,
                                              .to = merge->call.merge.to.len == 0 ? NULL : merge->call.merge.to.data,
                                              .to_len = merge->call.merge.to.len,
                                              .prefix_len = merge->call.merge.prefix_len,
                                              .delimiter = merge->call.merge.delimiter.len == 0 ? NULL : (const uint8_t *)merge->delimiter,
                                              .delimiter_len = (uint16_t)merge->call.merge.delimiter.len}};

        return eng_wire_page_answers(&asked, (const uint8_t *)answer->entries.data, answer->entries.len, answer->count);
}

static void add_entries(struct home_merge *merge, struct eng_str page)
{
        const uint8_t *at = (const uint8_t *)page.data, *end = at + page.len;

        for (; merge->count < merge->max && at < end; at += merge->entries[merge->count++]->size)
                merge->entries[merge->count] = (const struct eng_scan_entry *)(const void *)at;
}

/* A page that is not the last stays until the end. */
static int keep_page(struct home_merge *merge, struct eng_str *page)
{
        struct eng_buf **grown = realloc(merge->pages, (merge->page_count + 1) * sizeof(*grown));
        struct eng_buf *kept;

        if (grown == NULL)
                return -ENOMEM;
        merge->pages = grown;
        kept = eng_buf_new(page->len);
        if (kept == NULL)
                return -ENOMEM;
        memcpy(kept->data, page->data, page->len);
        merge->pages[merge->page_count++] = kept;
        page->data = (const char *)kept->data;
        return 0;
}

static int ask_page(struct home_merge *merge);

/* The next page begins behind the last entry. */
static int go_on(struct home_merge *merge)
{
        const struct eng_scan_entry *last = merge->entries[merge->count - 1];
        struct eng_name *from = &merge->call.merge.from;

        from->len = last->name_len;
        memcpy(from->data, eng_entry_name(last), last->name_len);
        merge->call.merge.after = !eng_entry_is_prefix(last);
        if (eng_entry_is_prefix(last) && !eng_name_successor(from))
                return -EIO;
        return ask_page(merge);
}

static void page_answered(void *arg, const struct eng_call_answer *answer)
{
        struct home_merge *merge = arg;
        struct eng_str page = answer->entries;
        int rv = answer->rv;

        if (rv == 0 && answer->more && (answer->count == 0 || answer->count > merge->max - merge->count))
                rv = -EIO; /* a leader that makes no sense would be asked for ever */
        if (rv == 0 && !page_answers(merge, answer))
                rv = -EHOSTDOWN; /* as any answer that makes no sense */
        if (rv == 0 && answer->more && merge->count + answer->count < merge->max)
                rv = keep_page(merge, &page);
        if (rv != 0) {
                home_merge_finish(merge, rv, false);
                return;
        }
        add_entries(merge, page);
        if (!answer->more || merge->count == merge->max) {
                home_merge_finish(merge, 0, answer->more);
                return;
        }
        rv = go_on(merge);
        if (rv != 0)
                home_merge_finish(merge, rv, false);
}

static int ask_page(struct home_merge *merge)
{
        merge->call.merge.max = merge->max - merge->count;
        return merge->el->view.ready ? eng_call_send(merge->el->store, &merge->call, PAGE_ROOM, page_answered, merge) : -EHOSTDOWN;
}

static void home_merge_refused(struct lp_msg *msg)
{
        struct home_merge *merge = (struct home_merge *)msg;

        home_merge_finish(merge, merge->rv, false);
}

void eng_home_merge(struct eng_loop *el, const struct eng_merge_params *params, eng_merge_done done, void *arg)
{
        struct home_merge *merge = calloc(1, sizeof(*merge) + params->delimiter_len);

        if (merge == NULL)
                abort(); /* as eng_early(): not even a message */
        merge->el = el;
        merge->max = params->max;
        merge->done = done;
        merge->arg = arg;
        if (params->delimiter_len > 0)
                memcpy(merge->delimiter, params->delimiter, params->delimiter_len);
        merge->call = (struct eng_call){.kind = ENG_CALL_MERGE,
                                        .merge = {.from = *params->from, .to = *params->to, .after = params->after,
                                                  .prefix_len = (uint16_t)params->prefix_len, .flags = params->flags,
                                                  .delimiter = {merge->delimiter, params->delimiter_len}}};
        merge->entries = calloc(params->max + 1, sizeof(merge->entries[0]));
        merge->rv = merge->entries == NULL ? -ENOMEM : ask_page(merge);
        if (merge->rv == 0)
                return;
        merge->msg.run = home_merge_refused;
        lp_post(el->loop, &merge->msg);
}
