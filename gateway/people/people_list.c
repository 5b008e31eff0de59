/*
 * people_list.c - lists of names, from the index of the first loop. A page costs what it returns: names
 * behind its marker, and no more than so many that do not have the path that is asked for.
 */
#include "gateway/people/people.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/people/people_queue.h"

#define LOOKED_AT_MAX (2 * GW_LIST_MAX)

/* owner: home until sent, then the first loop until answered */
struct people_page {
        struct lp_msg msg; /* first */
        struct gw_loop *home;
        struct gw_people_query query;
        gw_people_listed done;
        void *arg;
        int rv;
        unsigned count;
        bool more;
        char last[GW_ENTITY_NAME_MAX + 8];
        struct gw_listed names[];
};

static void page_answer(struct lp_msg *msg)
{
        struct people_page *page = (struct people_page *)msg;

        page->done(page->arg, page->rv, page->names, page->count, page->more, page->last);
        free(page);
}

static void page_fill(struct people_page *page, struct gw_people *people)
{
        const struct gw_people_query *q = &page->query;
        size_t prefix = strlen(q->path);
        const struct gw_node *node;
        unsigned seen = 0;

        node = gw_index_after(&people->index, q->kind, q->account, q->of, *q->after == '\0' ? NULL : q->after);
        for (; node != NULL && page->count < q->max && seen < LOOKED_AT_MAX; node = gw_index_next(node), seen++) {
                snprintf(page->last, sizeof(page->last), "%s", node->name);
                if (strncmp(node->path, q->path, prefix) == 0)
                        strcpy(page->names[page->count++].name, page->last);
        }
        page->more = node != NULL;
}

static void page_arrive(struct lp_msg *msg)
{
        struct people_page *page = (struct people_page *)msg;
        struct gw_people *people = gw_people_ready(page->home->gw);

        if (people == NULL)
                page->rv = -EAGAIN;
        else
                page_fill(page, people);
        page->msg.run = page_answer;
        lp_post(page->home->lp, &page->msg);
}

int gw_people_list(struct gw_loop *loop, const struct gw_people_query *query, gw_people_listed done, void *arg)
{
        struct people_page *page;

        if (query->max < 1 || query->max > GW_LIST_MAX)
                return -EINVAL;
        page = loop->gw->ending ? NULL : calloc(1, sizeof(*page) + query->max * sizeof(page->names[0]));
        if (page == NULL)
                return -ENOMEM;
        page->home = loop;
        page->query = *query;
        page->done = done;
        page->arg = arg;
        page->msg.run = page_arrive;
        lp_post(loop->gw->loops[0].lp, &page->msg);
        return 0;
}

/* ---- how many -------------------------------------------------------------------------------- */

/* owner: home until sent, then the first loop until answered */
struct people_count {
        struct lp_msg msg; /* first */
        struct gw_loop *home;
        char account[GW_ACCOUNT_ID_LEN + 1];
        gw_people_counted done;
        void *arg;
        int rv;
        unsigned counts[GW_ENTITY_KINDS_END - GW_ACCOUNT];
};

static void count_answer(struct lp_msg *msg)
{
        struct people_count *count = (struct people_count *)msg;

        count->done(count->arg, count->rv, count->counts);
        free(count);
}

static void count_arrive(struct lp_msg *msg)
{
        struct people_count *count = (struct people_count *)msg;
        struct gw_people *people = gw_people_ready(count->home->gw);

        count->rv = people == NULL ? -EAGAIN : 0;
        for (unsigned kind = GW_ACCOUNT; people != NULL && kind < GW_ENTITY_KINDS_END; kind++)
                count->counts[kind - GW_ACCOUNT] = gw_index_count(&people->index, kind, count->account);
        count->msg.run = count_answer;
        lp_post(count->home->lp, &count->msg);
}

int gw_people_count(struct gw_loop *loop, const char *account, gw_people_counted done, void *arg)
{
        struct people_count *count = loop->gw->ending ? NULL : calloc(1, sizeof(*count));

        if (count == NULL)
                return -ENOMEM;
        count->home = loop;
        snprintf(count->account, sizeof(count->account), "%s", account);
        count->done = done;
        count->arg = arg;
        count->msg.run = count_arrive;
        lp_post(loop->gw->loops[0].lp, &count->msg);
        return 0;
}
