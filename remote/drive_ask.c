/*
 * drive_ask.c - what a drive knows that no drive server serves: opened, OPENed if that is asked for, and closed
 * again. For a node that waits until etcd is written anew (docs/design/reseed.md). The caller's thread waits; the
 * drive has a loop of its own meanwhile.
 */
#include "remote/drive_server.h"

#include "engine/drive/drive.h"
#include "engine/drive/identity.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#define ASK_RING 64u

struct drive_ask {
        struct eng_drive *drive;
        rem_fence fence;
        const void *arg;
        const uint8_t *cluster;
        struct rem_known *known;
        struct lp_msg msg;
        struct eng_op op;
        sem_t done;
        int rv;
};

static void ask_ignore_values(void *arg, struct eng_drive *drive, struct eng_buf *const values[], unsigned n)
{
}

static void ask_ignore_text(void *arg, struct eng_drive *drive, const char *text)
{
}

/* On the drive's loop. */
static int ask_epochs(struct drive_ask *ask)
{
        struct rem_known *known = ask->known;
        struct eng_epoch_history history = {0};
        struct eng_epoch_info info;
        unsigned i;
        int rv = eng_drive_epoch(ask->drive, known->body, sizeof(known->body), &known->body_len, &history);

        if (rv == 0)
                rv = eng_epoch_read(known->body, known->body_len, &info);
        if (rv != 0)
                return rv;
        known->epoch = info.number;
        memcpy(known->epoch_id, info.id, sizeof(known->epoch_id));
        for (i = 0; i < history.count && i < REM_PAST_MAX; i++) {
                known->past[i].number = history.past[i].number;
                memcpy(known->past[i].id, history.past[i].id, sizeof(known->past[i].id));
        }
        known->past_count = i;
        return 0;
}

static void ask_opened(struct eng_op *op)
{
        struct drive_ask *ask = container_of(op, struct drive_ask, op);

        ask->rv = op->result;
        sem_post(&ask->done);
}

static void ask_now(struct lp_msg *msg)
{
        struct drive_ask *ask = container_of(msg, struct drive_ask, msg);

        eng_drive_term(ask->drive, &ask->known->term, ask->known->cluster);
        ask->rv = ask_epochs(ask);
        if (ask->rv != 0 || ask->fence == NULL) {
                sem_post(&ask->done);
                return;
        }
        ask->op = (struct eng_op){.kind = ENG_OP_OPEN, .flags = ENG_OP_RESERVE, .term = ask->fence(ask->known, ask->arg), .done = ask_opened};
        memcpy(ask->op.open.cluster, ask->cluster, FMT_ID);
        eng_drive_submit(ask->drive, &ask->op);
}

static void *ask_run_loop(void *loop)
{
        lp_loop_run(loop);
        return NULL;
}

static void ask_close(struct drive_ask *ask, struct lp_loop *loop, const pthread_t *thread)
{
        if (thread != NULL) {
                lp_loop_stop(loop);
                pthread_join(*thread, NULL);
                while (lp_loop_drain(loop) > 0)
                        ;
        }
        if (ask->drive != NULL)
                ask->drive->ops->close(ask->drive);
        lp_loop_free(loop);
}

int rem_drive_ask(const struct eng_local_options *options, rem_fence fence, const void *arg, const uint8_t cluster[NET_CLUSTER_LEN], struct rem_known *out,
                  struct eng_error *error)
{
        const struct lp_config config = {.name = "ask", .ring_entries = ASK_RING};
        struct eng_local_options local = *options;
        struct drive_ask ask = {.fence = fence, .arg = arg, .cluster = cluster, .known = out};
        struct lp_loop *loop = NULL;
        pthread_t thread;
        int rv = lp_loop_new(&config, &loop);

        memset(out, 0, sizeof(*out));
        if (rv != 0)
                return eng_error_set(error, rv, "%s: %s", options->path, strerror(-rv));
        local.owner = loop;
        local.failed = ask_ignore_text;
        local.superseded = ask_ignore_values;
        local.arg = NULL;
        local.reclaim_rate = ENG_RECLAIM_OFF;
        rv = eng_local_open(&local, &ask.drive, error);
        if (rv == 0) {
                rv = -pthread_create(&thread, NULL, ask_run_loop, loop);
                if (rv != 0)
                        eng_error_set(error, rv, "%s: no thread: %s", options->path, strerror(-rv));
        } else {
                ask.drive = NULL;
        }
        if (rv != 0) {
                ask_close(&ask, loop, NULL);
                return rv;
        }
        sem_init(&ask.done, 0, 0);
        ask.msg.run = ask_now;
        lp_post(loop, &ask.msg);
        while (sem_wait(&ask.done) != 0 && errno == EINTR)
                ;
        sem_destroy(&ask.done);
        ask_close(&ask, loop, &thread);
        if (ask.rv != 0)
                eng_error_set(error, ask.rv, "%s: %s", options->path, ask.rv == -ESTALE || ask.rv == -EXDEV ? "knows a newer term" : strerror(-ask.rv));
        return ask.rv;
}
