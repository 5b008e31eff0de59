/*
 * put_object.c - stores bytes that are all at hand, in memory or in a regular file.
 *
 *   start ──> one PUT ─────────────────────────────────────────────────> done
 *     └─────> create ──> parts, in parallel ──> complete or abort ─────────^
 *
 * What ends a request runs on its loop, several at once: the lock guards what they share. No part
 * is under way when the upload is completed or aborted, and nothing is when done() is called.
 */
#include "client/transfer/put_object.h"

#include "client/http/object_info.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One part under way. owner: the putting */
struct mr_putting_part {
        struct mr_putting *putting;
        struct mr_part_upload sending;
};

static void put_object_end(struct mr_putting *putting)
{
        mr_upload_free(&putting->steps);
        free(putting->part);
        free(putting->names);
        pthread_mutex_destroy(&putting->lock);
        putting->done(putting->done_arg, putting, putting->rv);
}

/* ---- one PUT --------------------------------------------------------------------------------- */

static void whole_done(void *arg, struct mr_request *request, int rv)
{
        struct mr_putting *putting = MR_CAST(mr_putting, arg);
        const char *version = mr_response_header(&request->response, "x-amz-version-id");

        putting->rv = rv;
        putting->error = request->error;
        if (rv == 0) {
                putting->result.size = request->len;
                putting->result.carried = putting->send.carried;
                mr_etag_copy(putting->result.etag, sizeof(putting->result.etag),
                             mr_response_header(&request->response, "etag"));
                if (version != NULL)
                        snprintf(putting->result.version_id, sizeof(putting->result.version_id), "%.127s", version);
        }
        mr_response_free(&request->response);
        put_object_end(putting);
}

static int put_whole(struct mr_putting *putting)
{
        struct mr_request *request = &putting->whole;
        int rv;

        putting->names = malloc(MR_META_NAMES);
        rv = putting->names != NULL ? mr_put_headers(putting->head, request, putting->names) : -ENOMEM;
        if (rv != 0)
                return mr_failure_errno(&putting->error, rv);
        request->method = "PUT";
        request->bucket = putting->head->bucket;
        request->key = putting->head->key;
        request->data = putting->data;
        request->fd = putting->fd;
        request->offset = putting->base;
        request->len = putting->size;
        request->has_checksum = putting->steps.has_checksum;
        request->checksum = putting->steps.checksum;
        request->progress = putting->progress;
        request->progress_arg = putting->progress_arg;
        request->canceled = putting->canceled;
        request->done = whole_done;
        request->done_arg = putting;
        mr_put_conditions(putting->head, request, putting->if_match);
        putting->send = (struct mr_send){.request = request,
                                         .transport = putting->transport,
                                         .buffer = putting->buffer,
                                         .buffer_at = putting->buffer_at};
        rv = mr_send_start(putting->client, &putting->send);
        if (rv != 0)
                putting->error = request->error;
        return rv;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* With lock. */
static void put_object_fail(struct mr_putting *putting, int rv, const struct mr_error *err)
{
        if (putting->rv != 0)
                return; /* later ones are mostly the stop of the first */
        putting->rv = rv;
        putting->error = *err;
        atomic_store(&putting->steps.stop, true);
}

static void put_object_closed(void *arg, int rv)
{
        struct mr_putting *putting = MR_CAST(mr_putting, arg);

        if (putting->rv == 0) {
                putting->rv = rv;
                putting->error = putting->steps.error;
                putting->result = putting->steps.result;
                putting->result.carried = putting->by_tcp ? MR_TRANSPORT_TCP : MR_TRANSPORT_RDMA;
        }
        put_object_end(putting);
}

/* All parts have ended. */
static void put_object_finish(struct mr_putting *putting)
{
        int rv = putting->rv;

        if (rv == 0) {
                rv = mr_upload_complete(&putting->steps, put_object_closed, putting);
                if (rv == 0)
                        return;
                putting->rv = rv;
                putting->error = putting->steps.error;
        }
        if (mr_upload_drop(&putting->steps, put_object_closed, putting) != 0)
                put_object_end(putting);
}

static void put_object_part_done(void *arg, struct mr_part_upload *sending, int rv);

/* With lock. */
static void put_object_part_start(struct mr_putting *putting, struct mr_putting_part *part)
{
        uint32_t index = putting->next;
        struct mr_request *request = &part->sending.request;
        int rv;

        if (index >= putting->plan.parts || putting->rv != 0)
                return;
        memset(part, 0, sizeof(*part));
        part->putting = putting;
        part->sending.steps = &putting->steps;
        part->sending.number = index + 1;
        part->sending.done = put_object_part_done;
        part->sending.done_arg = part;
        request->fd = putting->fd;
        request->len = mr_plan_length(&putting->plan, index);
        if (putting->data != NULL)
                request->data = putting->data + mr_plan_offset(&putting->plan, index);
        else
                request->offset = putting->base + mr_plan_offset(&putting->plan, index);
        part->sending.send.transport = putting->transport;
        part->sending.send.buffer = putting->buffer;
        part->sending.send.buffer_at = putting->buffer_at + mr_plan_offset(&putting->plan, index);
        request->progress = putting->progress;
        request->progress_arg = putting->progress_arg;
        putting->next++;
        putting->flying++;
        rv = mr_part_start(&part->sending);
        if (rv != 0) {
                putting->flying--;
                put_object_fail(putting, rv, &part->sending.error);
        }
}

static void put_object_part_done(void *arg, struct mr_part_upload *sending, int rv)
{
        struct mr_putting_part *part = arg;
        struct mr_putting *putting = part->putting;
        struct mr_client *client = putting->client;
        bool failed, last;

        pthread_mutex_lock(&putting->lock);
        if (rv != 0)
                put_object_fail(putting, rv, &sending->error);
        putting->by_tcp = putting->by_tcp || sending->send.carried != MR_TRANSPORT_RDMA;
        putting->flying--;
        put_object_part_start(putting, part);
        failed = putting->rv != 0;
        last = putting->flying == 0;
        pthread_mutex_unlock(&putting->lock);
        if (failed)
                mr_core_wake(client); /* whoever is last may have freed all else by now */
        if (last)
                put_object_finish(putting);
}

static void put_object_created(void *arg, int rv)
{
        struct mr_putting *putting = MR_CAST(mr_putting, arg);
        unsigned parts = putting->client->settings.parallel;
        bool none;

        if (parts > putting->plan.parts)
                parts = putting->plan.parts;
        if (rv == 0)
                putting->part = calloc(parts, sizeof(*putting->part));
        if (rv != 0) {
                putting->rv = rv;
                putting->error = putting->steps.error;
                put_object_end(putting);
                return;
        }
        pthread_mutex_lock(&putting->lock);
        if (putting->part == NULL) {
                putting->rv = mr_failure_errno(&putting->error, -ENOMEM);
                parts = 0;
        }
        putting->flying = 1; /* this function, so that none is the last before all are begun */
        for (unsigned i = 0; i < parts; i++)
                put_object_part_start(putting, &putting->part[i]);
        putting->flying--;
        none = putting->flying == 0;
        pthread_mutex_unlock(&putting->lock);
        if (none)
                put_object_finish(putting);
}

/* What is not registered goes by way of slots, where RDMA is asked for. */
static uint64_t put_object_part_size(const struct mr_putting *putting)
{
        uint64_t wanted = putting->client->settings.part_size;

        if (putting->transport != MR_TRANSPORT_RDMA || putting->buffer != NULL ||
            putting->size / MR_BOUNCE_SLOT >= MR_PARTS_MAX)
                return wanted;
        return wanted == 0 || wanted > MR_BOUNCE_SLOT ? MR_BOUNCE_SLOT : wanted;
}

int mr_putting_start(struct mr_putting *putting)
{
        int rv = mr_plan_upload(putting->size, put_object_part_size(putting), &putting->plan);

        if (rv != 0)
                return mr_failure(&putting->error, rv, "an object of %llu bytes is larger than S3 allows",
                                  (unsigned long long)putting->size);
        putting->magic = mr_putting_magic;
        pthread_mutex_init(&putting->lock, NULL);
        mr_upload_init(&putting->steps, putting->client, putting->head);
        putting->steps.canceled = putting->canceled;
        if (putting->buffer != NULL && putting->data == NULL) /* a dma-buf */
                putting->steps.has_checksum = false;          /* nobody here can sum what nobody here sees */
        if (putting->plan.parts == 0) {
                rv = put_whole(putting);
        } else {
                rv = mr_upload_create(&putting->steps, put_object_created, putting);
                if (rv != 0)
                        putting->error = putting->steps.error;
        }
        if (rv != 0) {
                mr_upload_free(&putting->steps);
                free(putting->names);
                pthread_mutex_destroy(&putting->lock);
        }
        return rv;
}
