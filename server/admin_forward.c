/*
 * admin_forward.c - calls of a pool come to any node's listener, which authorises them; the pool's leader
 * answers them.
 *
 *   question   METHOD SP TARGET LF, body
 *   answer     STATUS SP TYPE LF, body          TYPE: J, JSON; M, metrics
 *
 * Nodes are trusted with all of their pools (docs/design/any-gateway.md, G11). At the leader one thread
 * answers, as the admin thread of a store of one machine does.
 */
#include "server/admin_private.h"

#include "remote_home.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAR_WAITING_MOST 64u
#define HEAD_MAX         (S3_TARGET_MAX + 32u)

/* ---- the node -------------------------------------------------------------------------------- */

static struct admin_answer cannot_ask(ssize_t rv)
{
        if (rv == -ETIMEDOUT)
                return srv_admin_error(503, "Unknown", "the pool's leader has not answered in time: it may have been done");
        if (rv == -ENOENT)
                return srv_admin_error(503, "NotOpen", "the pool is new: this node does not know its leader yet");
        if (rv == -EMSGSIZE)
                return srv_admin_error(500, "TooLong", "the answer of the pool's leader is too long");
        return srv_admin_error(503, "NotLed", "the pool has no leader that answers now: nothing was done");
}

/* Copies what the leader said. */
static struct admin_answer far_answer(const uint8_t *bytes, size_t len)
{
        const uint8_t *end = memchr(bytes, '\n', len);
        struct admin_answer answer = {.status = 0};
        char type;

        if (end == NULL || len > REM_ASK_ROOM || sscanf((const char *)bytes, "%3u %c\n", &answer.status, &type) != 2 || answer.status < 200 ||
            answer.status > 599)
                return srv_admin_error(502, "BadAnswer", "the answer of the pool's leader makes no sense");
        answer.type = type == 'M' ? ADMIN_METRICS_TYPE : ADMIN_JSON_TYPE;
        answer.len = len - (size_t)(end + 1 - bytes);
        answer.body = malloc(answer.len + 1);
        if (answer.body == NULL)
                return (struct admin_answer){.status = 500, .type = ADMIN_JSON_TYPE};
        memcpy(answer.body, end + 1, answer.len);
        return answer;
}

struct admin_answer srv_admin_forward(const struct admin_request *request, unsigned pool)
{
        size_t size = HEAD_MAX + request->body_len, head;
        uint8_t *question = malloc(size), *room = malloc(REM_ASK_ROOM + 1);
        struct admin_answer answer = {.status = 500, .type = ADMIN_JSON_TYPE};
        ssize_t rv;

        if (question != NULL && room != NULL) {
                head = (size_t)snprintf((char *)question, HEAD_MAX, "%s %s\n", request->method, request->target);
                rv = -EMSGSIZE;
                if (head < HEAD_MAX) {
                        if (request->body_len > 0)
                                memcpy(question + head, request->body, request->body_len);
                        rv = request->admin->ask_leader(request->admin->ask_arg, pool, question, head + request->body_len, room);
                }
                if (rv >= 0)
                        room[rv] = '\0';
                answer = rv < 0 ? cannot_ask(rv) : far_answer(room, (size_t)rv);
        }
        free(question);
        free(room);
        return answer;
}

/* ---- the leader ------------------------------------------------------------------------------ */

struct far_question {
        STAILQ_ENTRY(far_question) link;
        struct rem_home_asked *asked;
};

struct admin_far {
        struct srv_admin *admin;
        pthread_t thread;
        pthread_mutex_t lock; /* over the members below */
        pthread_cond_t moved;
        STAILQ_HEAD(, far_question) questions;
        unsigned waiting;
        bool stopped;
};

/* Its request, or none: it makes no sense. The target is to be freed. */
static bool far_read(struct srv_admin *admin, const struct rem_home_asked *asked, char method[8], struct admin_request *out)
{
        const char *text = (const char *)asked->bytes, *end = memchr(text, '\n', asked->len), *space;

        memset(out, 0, sizeof(*out));
        space = end != NULL ? memchr(text, ' ', (size_t)(end - text)) : NULL;
        if (space == NULL || space - text >= 8 || end - space > (ptrdiff_t)S3_TARGET_MAX)
                return false;
        memcpy(method, text, (size_t)(space - text));
        method[space - text] = '\0';
        out->admin = admin;
        out->method = method;
        out->fd = -1;
        out->target = strndup(space + 1, (size_t)(end - space - 1));
        out->body_len = asked->len - (size_t)(end + 1 - text);
        out->body = (char *)(uintptr_t)(end + 1); /* only read */
        return out->target != NULL && s3_target_split(s3_str_of(out->target), &out->parts) == S3_OK;
}

static void far_answer_one(struct srv_admin *admin, struct rem_home_asked *asked)
{
        struct admin_answer answer;
        struct admin_request *request = malloc(sizeof(*request));
        char method[8], head[16];
        size_t len;

        if (request != NULL) {
                answer = far_read(admin, asked, method, request) ? srv_admin_answer_of_pool(request)
                                                                 : srv_admin_error(400, "InvalidRequest", "a node's question makes no sense");
                len = (size_t)snprintf(head, sizeof(head), "%u %c\n", answer.status, answer.type != NULL && strcmp(answer.type, ADMIN_METRICS_TYPE) == 0 ? 'M' : 'J');
                asked->answer = malloc(len + answer.len);
                if (asked->answer != NULL) {
                        memcpy(asked->answer, head, len);
                        if (answer.len > 0)
                                memcpy(asked->answer + len, answer.body, answer.len);
                        asked->answer_len = len + answer.len;
                }
                free(answer.body);
                free(request->target);
        }
        free(request);
        rem_home_asked_answer(asked);
}

static void *far_run(void *arg)
{
        struct admin_far *far = arg;
        struct far_question *q;

        for (;;) {
                pthread_mutex_lock(&far->lock);
                while (STAILQ_EMPTY(&far->questions) && !far->stopped)
                        pthread_cond_wait(&far->moved, &far->lock);
                q = far->stopped ? NULL : STAILQ_FIRST(&far->questions);
                if (q != NULL) {
                        STAILQ_REMOVE_HEAD(&far->questions, link);
                        far->waiting--;
                }
                pthread_mutex_unlock(&far->lock);
                if (q == NULL)
                        return NULL;
                far_answer_one(far->admin, q->asked);
                free(q);
        }
}

int srv_admin_far_start(struct srv_admin *admin)
{
        struct admin_far *far = calloc(1, sizeof(*far));

        if (far == NULL)
                return -ENOMEM;
        far->admin = admin;
        STAILQ_INIT(&far->questions);
        pthread_mutex_init(&far->lock, NULL);
        pthread_cond_init(&far->moved, NULL);
        if (pthread_create(&far->thread, NULL, far_run, far) != 0) {
                pthread_mutex_destroy(&far->lock);
                pthread_cond_destroy(&far->moved);
                free(far);
                return -ENOMEM;
        }
        admin->far = far;
        return 0;
}

void srv_admin_ask(struct srv_admin *admin, struct rem_home_asked *asked)
{
        struct far_question *q = malloc(sizeof(*q));
        struct admin_far *far = admin->far;
        bool taken = false;

        if (q != NULL) {
                q->asked = asked;
                pthread_mutex_lock(&far->lock);
                taken = !far->stopped && far->waiting < FAR_WAITING_MOST;
                if (taken) {
                        STAILQ_INSERT_TAIL(&far->questions, q, link);
                        far->waiting++;
                        pthread_cond_signal(&far->moved);
                }
                pthread_mutex_unlock(&far->lock);
        }
        if (taken)
                return;
        free(q);
        rem_home_asked_answer(asked);
}

void srv_admin_far_stop(struct admin_far *far)
{
        struct far_question *q;

        if (far == NULL)
                return;
        pthread_mutex_lock(&far->lock);
        far->stopped = true;
        pthread_cond_signal(&far->moved);
        pthread_mutex_unlock(&far->lock);
        pthread_join(far->thread, NULL);
        while ((q = STAILQ_FIRST(&far->questions)) != NULL) {
                STAILQ_REMOVE_HEAD(&far->questions, link);
                rem_home_asked_answer(q->asked);
                free(q);
        }
        pthread_mutex_destroy(&far->lock);
        pthread_cond_destroy(&far->moved);
        free(far);
}
