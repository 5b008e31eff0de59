/*
 * lister.c - listings of objects from page to page: the next is asked for while the program has
 * one. Memory is that of two pages. A page that leads nowhere new ends the listing with -EPROTO
 * (I9). On the program's thread.
 */
#include "client.h"

#include "client/base/failure.h"
#include "client/base/client_wait.h"
#include "client/operations/client_operation.h"
#include "client/operations/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct mr_lister {
        struct mr_client *client;
        char *bucket, *prefix, *delimiter, *start_after, *token;
        unsigned page_size;
        bool versions;
        struct mr_page *page; /* being handed out */
        size_t at;
        struct mr_wait wait;
        struct mr_result next; /* of the page that was asked for */
        uint64_t op;
        bool asked;
        int rv; /* what ended it; 1: not yet */
        struct mr_error error;
};

static void lister_ask(struct mr_lister *lister, const char *token)
{
        struct mr_list list = {
                .bucket = lister->bucket,
                .prefix = lister->prefix,
                .delimiter = lister->delimiter,
                .start_after = lister->start_after,
                .page = lister->page_size,
                .versions = lister->versions,
                .token = token,
        };
        struct mr_target target = {.wait = &lister->wait, .out = &lister->next, .op = &lister->op};
        int rv;

        memset(&lister->next, 0, sizeof(lister->next));
        rv = mr_list_begin(lister->client, &list, &target);
        lister->asked = rv == 0;
        if (rv != 0)
                lister->rv = mr_failure_errno(&lister->error, rv);
}

static char *copy_of(const char *text, bool *no_memory)
{
        char *copy = text != NULL ? strdup(text) : NULL;

        *no_memory = *no_memory || (text != NULL && copy == NULL);
        return copy;
}

int mr_lister_open(struct mr_client *client, const struct mr_list *list, struct mr_lister **out, struct mr_error *err)
{
        struct mr_lister *lister = calloc(1, sizeof(*lister));
        bool no_memory = false;

        if (lister == NULL)
                return mr_failure_errno(err, -ENOMEM);
        lister->client = client;
        lister->rv = 1;
        lister->page_size = list->page;
        lister->versions = list->versions;
        lister->wait = (struct mr_wait)MR_WAIT_INIT;
        lister->bucket = copy_of(list->bucket, &no_memory);
        lister->prefix = copy_of(list->prefix, &no_memory);
        lister->delimiter = copy_of(list->delimiter, &no_memory);
        lister->start_after = copy_of(list->start_after, &no_memory);
        lister->token = copy_of(list->token, &no_memory);
        if (no_memory) {
                mr_lister_free(lister);
                return mr_failure_errno(err, -ENOMEM);
        }
        lister_ask(lister, lister->token);
        *out = lister;
        return 0;
}

/* The page that was asked for is handed out, and the one after it asked for. */
static int turn(struct mr_lister *lister)
{
        const char *token;
        int rv;

        mr_page_free(lister->page);
        lister->page = NULL;
        lister->at = 0;
        if (!lister->asked)
                return 0;
        rv = mr_wait_for(&lister->wait);
        lister->asked = false;
        if (rv != 0) {
                lister->error = lister->next.error;
                return rv;
        }
        lister->page = lister->next.page;
        token = mr_page_token(lister->page);
        if (token == NULL)
                return 1;
        if (lister->token != NULL && strcmp(token, lister->token) == 0)
                return mr_failure(&lister->error, -EPROTO, "a truncated listing does not say where it goes on");
        free(lister->token);
        lister->token = strdup(token);
        if (lister->token == NULL)
                return mr_failure_errno(&lister->error, -ENOMEM);
        lister_ask(lister, lister->token);
        return 1;
}

int mr_lister_next(struct mr_lister *lister, const struct mr_entry **out, struct mr_error *err)
{
        while (lister->page == NULL || lister->at == mr_page_count(lister->page)) {
                int rv = lister->rv != 1 && !lister->asked ? lister->rv : turn(lister);

                if (rv != 1) {
                        lister->rv = rv;
                        if (err != NULL)
                                *err = lister->error;
                        return rv;
                }
        }
        *out = mr_page_entry(lister->page, lister->at++);
        return 1;
}

void mr_lister_free(struct mr_lister *lister)
{
        if (lister == NULL)
                return;
        if (lister->asked) {
                mr_cancel(lister->client, lister->op);
                if (mr_wait_for(&lister->wait) == 0)
                        mr_page_free(lister->next.page);
        }
        mr_page_free(lister->page);
        free(lister->bucket);
        free(lister->prefix);
        free(lister->delimiter);
        free(lister->start_after);
        free(lister->token);
        free(lister);
}

int mr_list(struct mr_client *client, const struct mr_list *list, mr_entry_fn entry, void *arg, struct mr_error *err)
{
        const struct mr_entry *at;
        struct mr_lister *lister;
        int rv;

        if (err != NULL)
                memset(err, 0, sizeof(*err));
        rv = mr_lister_open(client, list, &lister, err);
        if (rv != 0)
                return rv;
        while ((rv = mr_lister_next(lister, &at, err)) == 1) {
                rv = entry(arg, at);
                if (rv != 0)
                        break;
        }
        mr_lister_free(lister);
        return rv;
}
