/*
 * multipart.c - uploads whose parts the program cuts. The first part creates the upload at the
 * endpoint; parts that are started meanwhile wait for it. Any thread starts parts, the client's
 * threads end them; the lock guards the state.
 */
#include "client/operations/operation_put.h"

#include "client/rdma/memory.h"
#include "client/transfer/put_object.h"
#include "client/base/object_check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum state { NEW, CREATING, OPEN, CLOSED };

struct part_op {
        struct mr_op op;
        unsigned magic; /* object_check.h */
        struct mr_multipart *upload;
        struct mr_part_upload sending;
        struct part_op *next; /* that waits, too */
};

struct mr_multipart {
        unsigned magic; /* object_check.h */
        struct mr_client *client;
        struct mr_op texts; /* not begun: it holds the copies */
        struct mr_put_copy copy;
        struct mr_upload_steps steps;
        enum mr_transport transport;

        /* guarded by lock */
        pthread_mutex_t lock;
        enum state state;
        struct part_op *waiting; /* for the upload to be created */
};

int mr_multipart_new(struct mr_client *client, const struct mr_put *put, struct mr_multipart **out)
{
        struct mr_multipart *upload;
        int rv = mr_put_check(put);

        if (rv != 0)
                return rv;
        upload = calloc(1, sizeof(*upload));
        if (upload == NULL)
                return -ENOMEM;
        upload->magic = mr_multipart_magic;
        upload->client = client;
        upload->transport = put->transport != MR_TRANSPORT_AUTO ? put->transport : client->settings.transport;
        pthread_mutex_init(&upload->lock, NULL);
        mr_upload_init(&upload->steps, client, &upload->copy.head);
        rv = mr_put_copy_head(&upload->texts, put, &upload->copy);
        if (rv != 0)
                mr_multipart_free(upload);
        else
                *out = upload;
        return rv;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void part_ended(void *arg, struct mr_part_upload *sending, int rv)
{
        struct part_op *part = MR_CAST(part_op, arg);
        struct mr_result *result = &part->op.result;

        if (rv == 0) {
                result->transport = part->sending.send.carried;
                result->bytes = sending->request.len;
        }
        result->error = sending->error;
        mr_op_end(&part->op, rv);
}

static void part_send(struct part_op *part)
{
        int rv = mr_part_start(&part->sending);

        if (rv != 0)
                part_ended(part, &part->sending, rv);
}

static void multipart_created(void *arg, int rv)
{
        struct mr_multipart *upload = MR_CAST(mr_multipart, arg);
        struct mr_error why = upload->steps.error;
        struct part_op *part;

        pthread_mutex_lock(&upload->lock);
        upload->state = rv == 0 ? OPEN : NEW;
        part = upload->waiting;
        upload->waiting = NULL;
        pthread_mutex_unlock(&upload->lock);
        while (part != NULL) { /* the last that ends may be the program's sign to free the upload */
                struct part_op *next = part->next;

                if (rv == 0) {
                        part_send(part);
                } else {
                        part->sending.error = why;
                        part_ended(part, &part->sending, rv);
                }
                part = next;
        }
}

/* The upload is there, or will be. */
static void part_wait(struct mr_multipart *upload, struct part_op *part)
{
        bool create = false, ready;

        pthread_mutex_lock(&upload->lock);
        ready = upload->state == OPEN;
        if (!ready) {
                part->next = upload->waiting;
                upload->waiting = part;
                create = upload->state == NEW;
                upload->state = CREATING;
        }
        pthread_mutex_unlock(&upload->lock);
        if (ready) {
                part_send(part);
        } else if (create) {
                int rv = mr_upload_create(&upload->steps, multipart_created, upload);

                if (rv != 0)
                        multipart_created(upload, rv);
        }
}

/* owner: one call */
struct part_what {
        struct mr_multipart *upload;
        unsigned number;
        const struct mr_place *place;
};

static int part_begin(struct mr_client *client, const void *arg, const struct mr_target *target)
{
        const struct part_what *what = arg;
        struct mr_multipart *upload = what->upload;
        struct part_op *part;
        struct mr_op *op;
        char *memory;
        bool is_closed;
        int rv;

        pthread_mutex_lock(&upload->lock);
        is_closed = upload->state == CLOSED;
        pthread_mutex_unlock(&upload->lock);
        if (what->number < 1 || what->number > MR_PARTS_MAX || is_closed)
                return -EINVAL;
        rv = mr_op_new(client, sizeof(*part), 1, target, &op);
        if (rv != 0)
                return rv;
        part = (struct part_op *)op;
        part->magic = part_op_magic;
        rv = mr_place_take(client, what->place, &op->buffer, &memory);
        if (rv == -EINVAL) {
                mr_op_abandon(op, 1);
                return rv;
        }
        if (rv == 0 && memory == NULL && upload->steps.has_checksum) /* nobody here can sum what nobody here sees */
                rv = -EOPNOTSUPP;
        if (rv != 0) {
                mr_op_end(op, rv);
                return 0;
        }
        part->upload = upload;
        part->sending.steps = &upload->steps;
        part->sending.number = what->number;
        part->sending.done = part_ended;
        part->sending.done_arg = part;
        part->sending.send.transport = upload->transport;
        part->sending.send.buffer = mr_buffer_of(client, op->buffer);
        part->sending.send.buffer_at = what->place->offset;
        part->sending.request.data = memory;
        part->sending.request.len = what->place->len;
        part->sending.request.canceled = &op->canceled;
        part_wait(upload, part);
        return 0;
}

int mr_multipart_part_start(struct mr_multipart *upload, unsigned number, const struct mr_place *place,
                            struct mr_queue *queue, void *tag, uint64_t *op)
{
        struct part_what what = {upload, number, place};

        return part_begin(upload->client, &what, &(struct mr_target){.queue = queue, .tag = tag, .op = op});
}

int mr_multipart_part(struct mr_multipart *upload, unsigned number, const struct mr_place *place, struct mr_result *out)
{
        struct part_what what = {upload, number, place};

        return mr_op_await(upload->client, part_begin, &what, out);
}

/* ---- the end --------------------------------------------------------------------------------- */

struct close_op {
        struct mr_op op;
        unsigned magic; /* object_check.h */
        struct mr_multipart *upload;
        struct mr_putting putting; /* of no bytes, where there was no part */
};

static void multipart_completed(void *arg, int rv)
{
        struct close_op *closing = MR_CAST(close_op, arg);

        mr_put_result(&closing->op, rv, &closing->upload->steps.result, &closing->upload->steps.error);
}

static void empty_put(void *arg, struct mr_putting *putting, int rv)
{
        struct close_op *closing = MR_CAST(close_op, arg);

        mr_put_result(&closing->op, rv, &putting->result, &putting->error);
}

static int put_empty(struct close_op *closing)
{
        struct mr_putting *putting = &closing->putting;
        int rv;

        putting->client = closing->op.client;
        putting->head = &closing->upload->copy.head;
        putting->data = "";
        putting->canceled = &closing->op.canceled;
        putting->done = empty_put;
        putting->done_arg = closing;
        rv = mr_putting_start(putting);
        if (rv != 0)
                closing->op.result.error = putting->error;
        return rv;
}

/*
 * It could not even be asked for: why is in the result, and what the abort answers changes nothing.
 */
static void given_up(void *arg, int rv)
{
        struct close_op *closing = MR_CAST(close_op, arg);

        mr_op_end(&closing->op, closing->op.result.error.code);
}

static int complete_begin(struct mr_client *client, const void *what, const struct mr_target *target)
{
        struct mr_multipart *upload = *(struct mr_multipart *const *)what;
        struct close_op *closing;
        enum state state;
        struct mr_op *op;
        int rv;

        pthread_mutex_lock(&upload->lock);
        state = upload->state;
        if (state == NEW || state == OPEN)
                upload->state = CLOSED;
        pthread_mutex_unlock(&upload->lock);
        if (state != NEW && state != OPEN)
                return -EINVAL;
        rv = mr_op_new(client, sizeof(*closing), 1, target, &op);
        if (rv != 0) {
                upload->state = state; /* no part is under way: nobody else looks */
                return rv;
        }
        closing = (struct close_op *)op;
        closing->magic = close_op_magic;
        closing->upload = upload;
        if (state == NEW) {
                rv = put_empty(closing);
        } else {
                upload->steps.canceled = &op->canceled;
                rv = mr_upload_complete(&upload->steps, multipart_completed, closing);
                if (rv != 0) {
                        op->result.error = upload->steps.error;
                        if (mr_upload_drop(&upload->steps, given_up, closing) == 0)
                                return 0;
                }
        }
        if (rv != 0)
                mr_op_end(op, rv);
        return 0;
}

int mr_multipart_complete_start(struct mr_multipart *upload, struct mr_queue *queue, void *tag, uint64_t *op)
{
        return complete_begin(upload->client, &upload, &(struct mr_target){.queue = queue, .tag = tag, .op = op});
}

int mr_multipart_complete(struct mr_multipart *upload, struct mr_result *out)
{
        return mr_op_await(upload->client, complete_begin, &upload, out);
}

static void multipart_dropped(void *arg, int rv)
{
        mr_wait_tell(arg, rv);
}

int mr_multipart_abort(struct mr_multipart *upload, struct mr_error *err)
{
        struct mr_wait wait = MR_WAIT_INIT;
        int rv;

        upload->state = CLOSED; /* no operation is under way: nobody else looks */
        rv = mr_upload_drop(&upload->steps, multipart_dropped, &wait);
        if (rv == -EALREADY)
                return 0;
        if (rv == 0)
                rv = mr_wait_for(&wait);
        if (err != NULL)
                *err = upload->steps.error;
        return rv;
}

void mr_multipart_free(struct mr_multipart *upload)
{
        if (upload == NULL)
                return;
        (void)mr_multipart_abort(upload, NULL); /* what it leaves then is the endpoint's to clean up */
        while (upload->texts.texts != NULL) {
                struct mr_text *next = upload->texts.texts->next;

                free(upload->texts.texts);
                upload->texts.texts = next;
        }
        mr_upload_free(&upload->steps);
        pthread_mutex_destroy(&upload->lock);
        free(upload);
}
