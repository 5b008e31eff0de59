/*
 * put.c - stores a file or a stream. A regular file is read by offset, by as many threads as there are parts to send;
 * a stream is read by one thread at a time into buffers whose sum is bounded (I9). Runs on the caller's thread and
 * threads that end before it returns.
 */
#include "object.h"
#include "plan.h"
#include "upload.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One PUT of a body that the request holds already. */
static int put_whole(struct mr_client *client, const struct mr_put_fd *put, struct mr_request *request,
                     struct mr_put_fd_result *out, struct mr_error *err)
{
        struct mr_response response;
        char *names = malloc(MR_META_NAMES);
        int rv = names != NULL ? mr_put_headers(put, request, names) : -ENOMEM;

        if (rv != 0) {
                free(names);
                return mr_failure(err, rv, "%s", strerror(-rv));
        }
        request->method = "PUT";
        request->bucket = put->bucket;
        request->key = put->key;
        request->has_checksum = mr_put_checksum(client, &request->checksum);
        request->progress = put->progress;
        request->progress_arg = put->progress_arg;
        if (put->if_none_match)
                mr_request_header(request, "if-none-match", "*");
        rv = mr_request_run(client, request, &response, err);
        if (rv == 0) {
                out->size = request->len;
                out->parts = 0;
                mr_etag_copy(out->etag, sizeof(out->etag), mr_response_header(&response, "etag"));
        }
        mr_response_free(&response);
        free(names);
        return rv;
}

/* ---- a regular file ------------------------------------------------------------------------------ */

struct file_job {
        struct mr_upload_run run;
        struct mr_plan plan;
        int fd;
        uint64_t base;         /* where in the file the object begins */
        _Atomic uint32_t next; /* any thread */
};

static void upload_file_parts(void *arg)
{
        struct file_job *job = arg;

        while (!atomic_load(&job->run.failed)) {
                uint32_t index = atomic_fetch_add(&job->next, 1);
                struct mr_request request = {.fd = job->fd};

                if (index >= job->plan.parts)
                        return;
                request.offset = job->base + mr_plan_offset(&job->plan, index);
                request.len = mr_plan_length(&job->plan, index);
                mr_upload_part(&job->run, index + 1, &request);
        }
}

static int put_file(struct mr_client *client, const struct mr_put_fd *put, uint64_t base, uint64_t size,
                    struct mr_put_fd_result *out, struct mr_error *err)
{
        struct file_job *job;
        struct mr_plan plan;
        unsigned threads;
        int rv = mr_plan_upload(size, client->settings.part_size, &plan);

        if (rv != 0)
                return mr_failure(err, rv, "an object of %llu bytes is larger than S3 allows",
                                  (unsigned long long)size);
        if (plan.parts == 0) {
                struct mr_request request = {.fd = put->fd, .offset = base, .len = size};

                return put_whole(client, put, &request, out, err);
        }
        job = calloc(1, sizeof(*job));
        if (job == NULL)
                return mr_failure(err, -ENOMEM, "%s", strerror(ENOMEM));
        rv = mr_upload_begin(client, put, &job->run, err);
        if (rv == 0) {
                job->plan = plan;
                job->fd = put->fd;
                job->base = base;
                threads = client->settings.parallel < plan.parts ? client->settings.parallel : plan.parts;
                mr_core_together(threads, upload_file_parts, job);
                rv = mr_upload_end(&job->run, out, err);
        }
        free(job);
        return rv;
}

/* ---- a stream ------------------------------------------------------------------------------------ */

/* One buffer of a stream. owner: the thread that took it */
struct piece {
        char *data;
        uint64_t len, cap;
        uint32_t number;
};

struct stream_job {
        struct mr_upload_run run;
        pthread_mutex_t source; /* held by the thread that reads the stream; run.lock may be taken inside */
        /* guarded by source */
        struct piece first; /* read before it was known that there is more */
        uint32_t last_number;
        bool ended;
};

/* Waits for input, but not past a cancellation or a failure elsewhere. failed may be NULL. */
static int wait_for_input(const struct mr_client *client, int fd, const atomic_bool *failed)
{
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

        for (;;) {
                int n = poll(&poll_fd, 1, 100);

                if (mr_client_canceled(client) || (failed != NULL && atomic_load(failed)))
                        return -ECANCELED;
                if (n > 0)
                        return 0;
                if (n < 0 && errno != EINTR)
                        return -errno;
        }
}

/* Fills the piece up to cap or the end of the stream; allocates its buffer as bytes come, so that a short stream
 * costs little. */
static int piece_fill(struct piece *piece, uint64_t cap, const struct mr_client *client, int fd,
                      const atomic_bool *failed)
{
        int rv = 0;

        while (piece->len < cap && rv == 0) {
                ssize_t n;

                if (piece->len == piece->cap) {
                        uint64_t grown_cap = piece->cap == 0 ? MR_MIB : piece->cap * 2;
                        char *grown = realloc(piece->data, grown_cap < cap ? grown_cap : cap);

                        if (grown == NULL)
                                return -ENOMEM;
                        piece->data = grown;
                        piece->cap = grown_cap < cap ? grown_cap : cap;
                }
                rv = wait_for_input(client, fd, failed);
                if (rv != 0)
                        break;
                n = read(fd, piece->data + piece->len, (size_t)(piece->cap - piece->len));
                if (n == 0)
                        break;
                if (n > 0)
                        piece->len += (uint64_t)n;
                else if (errno != EINTR && errno != EAGAIN)
                        rv = -errno;
        }
        return rv;
}

/* Books a buffer. One is always granted, whatever its size, so that a stream goes on. */
static int memory_book(struct mr_upload_run *run, uint64_t bytes)
{
        pthread_mutex_lock(&run->lock);
        while (run->memory != 0 && run->memory + bytes > MR_STREAM_MEMORY && !atomic_load(&run->failed))
                pthread_cond_wait(&run->room, &run->lock);
        run->memory += bytes;
        pthread_mutex_unlock(&run->lock);
        return atomic_load(&run->failed) ? -ECANCELED : 0;
}

static void memory_give_back(struct mr_upload_run *run, uint64_t bytes)
{
        pthread_mutex_lock(&run->lock);
        run->memory -= bytes;
        pthread_cond_broadcast(&run->room);
        pthread_mutex_unlock(&run->lock);
}

/* With source held. 1: a piece, its size booked; 0: the stream has ended or failed. */
static int next_piece(struct stream_job *job, struct piece *out)
{
        struct mr_upload_run *run = &job->run;
        uint64_t size;
        int rv;

        memset(out, 0, sizeof(*out));
        if (job->first.data != NULL) {
                *out = job->first;
                memset(&job->first, 0, sizeof(job->first));
                job->last_number = 1;
                return memory_book(run, out->len) == 0;
        }
        if (job->ended)
                return 0;
        size = mr_plan_stream_part(job->last_number + 1, run->client->settings.part_size);
        if (memory_book(run, size) != 0)
                return 0;
        rv = piece_fill(out, size, run->client, run->put->fd, &run->failed);
        if (rv != 0 || out->len < size)
                job->ended = true;
        if (rv == 0 && out->len > 0 && job->last_number == MR_PARTS_MAX)
                rv = -EFBIG;
        if (rv != 0)
                mr_upload_fail(run, rv, rv == -EFBIG ? "the stream is longer than 10,000 parts" : strerror(-rv));
        if (rv != 0 || out->len == 0) {
                memory_give_back(run, size);
                return 0;
        }
        if (out->len < size) {
                memory_give_back(run, size - out->len);
        }
        out->number = ++job->last_number;
        return 1;
}

static void upload_stream_parts(void *arg)
{
        struct stream_job *job = arg;

        while (!atomic_load(&job->run.failed)) {
                struct mr_request request = {.fd = -1};
                struct piece piece;
                int got;

                pthread_mutex_lock(&job->source);
                got = next_piece(job, &piece);
                pthread_mutex_unlock(&job->source);
                if (got != 0) {
                        request.data = piece.data;
                        request.len = piece.len;
                        mr_upload_part(&job->run, piece.number, &request);
                        memory_give_back(&job->run, piece.len);
                }
                free(piece.data);
                if (got == 0)
                        return;
        }
}

static int put_stream(struct mr_client *client, const struct mr_put_fd *put, struct mr_put_fd_result *out,
                      struct mr_error *err)
{
        uint64_t size = mr_plan_stream_part(1, client->settings.part_size);
        struct piece first = {.number = 1};
        struct stream_job *job = NULL;
        int rv = piece_fill(&first, size, client, put->fd, NULL);

        if (rv == 0 && first.len < size) {
                struct mr_request request = {.fd = -1, .data = first.data, .len = first.len};

                rv = put_whole(client, put, &request, out, err);
                free(first.data);
                return rv;
        }
        if (rv == 0)
                job = calloc(1, sizeof(*job));
        if (job == NULL) {
                free(first.data);
                rv = rv != 0 ? rv : -ENOMEM;
                return mr_failure(err, rv, "%s", strerror(-rv));
        }
        rv = mr_upload_begin(client, put, &job->run, err);
        if (rv == 0) {
                job->first = first;
                first.data = NULL;
                pthread_mutex_init(&job->source, NULL);
                mr_core_together(client->settings.parallel, upload_stream_parts, job);
                pthread_mutex_destroy(&job->source);
                free(job->first.data);
                rv = mr_upload_end(&job->run, out, err);
        }
        free(first.data);
        free(job);
        return rv;
}

int mr_put_fd(struct mr_client *client, const struct mr_put_fd *put, struct mr_put_fd_result *out, struct mr_error *err)
{
        struct stat st;
        off_t base;

        memset(out, 0, sizeof(*out));
        if (fstat(put->fd, &st) != 0)
                return mr_failure(err, -errno, "%s", strerror(errno));
        if (S_ISDIR(st.st_mode))
                return mr_failure(err, -EISDIR, "%s", strerror(EISDIR));
        base = S_ISREG(st.st_mode) ? lseek(put->fd, 0, SEEK_CUR) : -1;
        if (base < 0)
                return put_stream(client, put, out, err);
        return put_file(client, put, (uint64_t)base, st.st_size > base ? (uint64_t)(st.st_size - base) : 0, out, err);
}
