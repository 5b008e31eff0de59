/*
 * home_ask.c - what operators ask a node, and its pool's leader answers: bytes there and back.
 */
#include <assert.h>
#include <stdlib.h>

#include "remote/home_wire.h"

/* owner: the connection's loop; who answers; the connection's loop */
struct home_asked {
        struct rem_home_asked asked; /* first */
        struct lp_msg msg;
        struct net_request *request;
        struct lp_loop *at;
        uint8_t *question;
        struct net_answer answer;
};

static void home_asked_free(struct home_asked *a)
{
        free(a->question);
        free(a->asked.answer);
        free(a);
}

enum net_bulk home_ask_bulk(struct net_request *request)
{
        struct home_asked *a = request->bulk_len <= REM_ASK_MAX ? calloc(1, sizeof(*a)) : NULL;

        if (a == NULL)
                return NET_BULK_DISCARD;
        a->question = malloc(request->bulk_len);
        if (a->question == NULL) {
                free(a);
                return NET_BULK_DISCARD;
        }
        request->user = a;
        request->bulk[0] = (struct iovec){a->question, request->bulk_len};
        request->bulk_count = 1;
        return NET_BULK_TAKE;
}

void home_ask_lost(struct net_request *request)
{
        home_asked_free(request->user);
}

static void home_asked_reply(struct lp_msg *msg)
{
        struct home_asked *a = container_of(msg, struct home_asked, msg);
        struct rem_home_asked *asked = &a->asked;
        bool fits = asked->answer != NULL && asked->answer_len > 0 && asked->answer_len <= a->request->room;

        a->answer.status = fits ? HOME_DONE : asked->answer_len > 0 ? HOME_BAD : HOME_NOT_NOW;
        a->answer.bulk[0] = (struct iovec){asked->answer, asked->answer_len};
        a->answer.bulk_count = fits;
        a->request->user = a;
        a->request->answered = home_ask_lost; /* it is over, too */
        net_reply(a->request, &a->answer);
}

void rem_home_asked_answer(struct rem_home_asked *asked)
{
        struct home_asked *a = (struct home_asked *)asked;

        a->msg.run = home_asked_reply;
        lp_post(a->at, &a->msg);
}

void home_ask_request(const struct rem_home_server_options *options, struct net_request *request)
{
        struct home_asked *a = request->user;
        struct net_answer answer = {.status = request->bulk_len == 0 ? HOME_BAD : HOME_NOT_NOW};

        if (request->bulk_len == 0 || a == NULL || options->ask == NULL) {
                if (request->bulk_len > 0 && a != NULL)
                        home_asked_free(a);
                request->user = NULL;
                net_reply(request, &answer);
                return;
        }
        a->request = request;
        a->at = lp_self();
        a->asked.bytes = a->question;
        a->asked.len = request->bulk_len;
        options->ask(options->ask_arg, &a->asked);
}
