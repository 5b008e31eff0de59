/*
 * put_fd.c - stores what a descriptor has, for the program `millrace`: a regular file by
 * put_object.c; a stream in parts as they come, in buffers whose sum is bounded (I9). The caller's
 * thread reads the stream; parts end on the client's.
 */
#include "client/base/client_wait.h"
#include "client/base/object_check.h"
#include "client/http/object_info.h"
#include "client/transfer/put_object.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct mr_put_head put_fd_head_of(const struct mr_put_fd *put)
{
        return (struct mr_put_head){
                .bucket = put->bucket,
                .key = put->key,
                .content_type = put->content_type,
                .metadata = put->metadata,
                .metadata_count = put->metadata_count,
                .if_none_match = put->if_none_match,
        };
}

static void put_fd_operation_ended(void *arg, struct mr_putting *putting, int rv)
{
        mr_wait_tell(arg, rv);
}

/* From memory or, where data is NULL, from the descriptor's file at base. */
static int put_fd_send_bytes(struct mr_client *client, const struct mr_put_fd *put, const char *data, uint64_t base,
                             uint64_t size, struct mr_put_done *out, struct mr_error *err)
{
        struct mr_put_head head = put_fd_head_of(put);
        struct mr_wait wait = MR_WAIT_INIT;
        struct mr_putting *putting = calloc(1, sizeof(*putting));
        int rv;

        if (putting == NULL)
                return mr_failure_errno(err, -ENOMEM);
        putting->client = client;
        putting->head = &head;
        putting->transport = client->settings.transport;
        putting->data = data;
        putting->fd = put->fd;
        putting->base = base;
        putting->size = size;
        putting->progress = put->progress;
        putting->progress_arg = put->progress_arg;
        putting->done = put_fd_operation_ended;
        putting->done_arg = &wait;
        rv = mr_putting_start(putting);
        if (rv == 0)
                rv = mr_wait_for(&wait);
        *out = putting->result;
        *err = putting->error;
        free(putting);
        return rv;
}

/* ---- a stream -------------------------------------------------------------------------------- */

/* owner: the caller of mr_put_fd() */
struct stream {
        struct mr_client *client;
        const struct mr_put_fd *put;
        struct mr_upload_steps steps;
        uint32_t last_number;

        atomic_bool failed; /* any thread */

        /* guarded by lock */
        pthread_mutex_t lock;
        pthread_cond_t room; /* a part has ended */
        uint64_t memory;     /* of parts under way */
        unsigned flying;
        int rv; /* the first failure */
        struct mr_error error;
};

/* One buffer of a stream, and its part. owner: the reading thread, then the part */
struct piece {
        unsigned magic; /* object_check.h */
        struct stream *stream;
        char *data;
        uint64_t len, cap;
        struct mr_part_upload part;
};

static void put_fd_fail(struct stream *stream, int rv, const struct mr_error *err)
{
        pthread_mutex_lock(&stream->lock);
        if (stream->rv == 0) { /* later ones are mostly the stop of the first */
                stream->rv = rv;
                stream->error = *err;
        }
        pthread_mutex_unlock(&stream->lock);
        atomic_store(&stream->failed, true);
        atomic_store(&stream->steps.stop, true);
        mr_core_wake(stream->client);
}

/* Waits for input, but not past a cancellation or a failure elsewhere. */
static int wait_for_input(const struct stream *stream)
{
        struct pollfd poll_fd = {.fd = stream->put->fd, .events = POLLIN};

        for (;;) {
                int n = poll(&poll_fd, 1, 100);

                if (mr_client_canceled(stream->client) || atomic_load(&stream->failed))
                        return -ECANCELED;
                if (n > 0)
                        return 0;
                if (n < 0 && errno != EINTR)
                        return -errno;
        }
}

/*
 * Fills the piece up to cap or the end of the stream; allocates its buffer as bytes come, so that a
 * short stream costs little.
 */
static int piece_fill(struct piece *piece, uint64_t cap)
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
                rv = wait_for_input(piece->stream);
                if (rv != 0)
                        break;
                n = read(piece->stream->put->fd, piece->data + piece->len, (size_t)(piece->cap - piece->len));
                if (n == 0)
                        break;
                if (n > 0)
                        piece->len += (uint64_t)n;
                else if (errno != EINTR && errno != EAGAIN)
                        rv = -errno;
        }
        return rv;
}

static struct piece *piece_new(struct stream *stream)
{
        struct piece *piece = calloc(1, sizeof(*piece));

        if (piece == NULL)
                return NULL;
        piece->magic = piece_magic;
        piece->stream = stream;
        return piece;
}

static void piece_free(struct piece *piece)
{
        if (piece == NULL)
                return;
        MR_CHECK(piece, piece);
        piece->magic = 0;
        free(piece->data);
        free(piece);
}

/*
 * Waits for room for a part, which is always granted to one alone. -ECANCELED: a part has failed.
 */
static int put_fd_book_memory(struct stream *stream, uint64_t bytes)
{
        pthread_mutex_lock(&stream->lock);
        while (stream->flying > 0 && stream->rv == 0 &&
               (stream->memory + bytes > MR_STREAM_MEMORY || stream->flying >= stream->client->settings.parallel))
                pthread_cond_wait(&stream->room, &stream->lock);
        stream->memory += bytes;
        stream->flying++;
        pthread_mutex_unlock(&stream->lock);
        return atomic_load(&stream->failed) ? -ECANCELED : 0;
}

static void give_back(struct stream *stream, uint64_t bytes)
{
        pthread_mutex_lock(&stream->lock);
        assert(stream->memory >= bytes && stream->flying > 0);
        stream->memory -= bytes;
        stream->flying--;
        pthread_cond_signal(&stream->room);
        pthread_mutex_unlock(&stream->lock);
}

static void put_fd_piece_done(void *arg, struct mr_part_upload *part, int rv)
{
        struct piece *piece = MR_CAST(piece, arg);
        struct stream *stream = piece->stream;
        uint64_t booked = piece->cap;

        if (rv != 0)
                put_fd_fail(stream, rv, &part->error);
        piece_free(piece);
        give_back(stream, booked);
}

/* Takes the piece over. */
static int piece_send(struct stream *stream, struct piece *piece)
{
        int rv;

        piece->part.steps = &stream->steps;
        piece->part.number = ++stream->last_number;
        piece->part.request.data = piece->data;
        piece->part.request.len = piece->len;
        piece->part.request.fd = -1;
        piece->part.send.transport = stream->client->settings.transport;
        piece->part.request.progress = stream->put->progress;
        piece->part.request.progress_arg = stream->put->progress_arg;
        piece->part.done = put_fd_piece_done;
        piece->part.done_arg = piece;
        rv = mr_part_start(&piece->part);
        if (rv != 0)
                put_fd_piece_done(piece, &piece->part, rv);
        return rv;
}

/* 1: a piece is on its way; 0: the stream has ended; else it has failed, and so has the upload. */
static int next_piece(struct stream *stream)
{
        uint64_t size = mr_plan_stream_part(stream->last_number + 1, stream->client->settings.part_size);
        struct mr_error err;
        struct piece *piece;
        int rv = put_fd_book_memory(stream, size);

        piece = piece_new(stream);
        if (rv == 0 && piece == NULL)
                rv = -ENOMEM;
        if (rv == 0)
                rv = piece_fill(piece, size);
        if (rv == 0 && piece->len > 0 && stream->last_number == MR_PARTS_MAX)
                rv = -EFBIG;
        if (rv != 0 || piece->len == 0) {
                if (rv != 0) {
                        mr_failure(&err, rv, "%s",
                                   rv == -EFBIG ? "the stream is longer than 10,000 parts" : strerror(-rv));
                        put_fd_fail(stream, rv, &err);
                }
                give_back(stream, size);
                piece_free(piece);
                return rv;
        }
        piece->cap = size; /* as booked */
        rv = piece_send(stream, piece);
        return rv == 0 ? 1 : rv;
}

static void step_ended(void *arg, int rv)
{
        mr_wait_tell(arg, rv);
}

/* Completes the upload or, where something failed, drops it. */
static int close_upload(struct stream *stream, struct mr_put_done *out, struct mr_error *err)
{
        struct mr_wait wait = MR_WAIT_INIT;
        int rv;

        pthread_mutex_lock(&stream->lock);
        while (stream->flying > 0)
                pthread_cond_wait(&stream->room, &stream->lock);
        rv = stream->rv;
        *err = stream->error;
        pthread_mutex_unlock(&stream->lock);
        if (rv == 0) {
                rv = mr_upload_complete(&stream->steps, step_ended, &wait);
                if (rv == 0)
                        rv = mr_wait_for(&wait);
                *out = stream->steps.result;
                *err = stream->steps.error;
        }
        if (rv != 0 && mr_upload_drop(&stream->steps, step_ended, &wait) == 0)
                (void)mr_wait_for(&wait); /* what it answers changes nothing: the upload has failed, and why is known */
        return rv;
}

static int upload_stream(struct stream *stream, struct piece *first, struct mr_put_done *out, struct mr_error *err)
{
        struct mr_put_head head = put_fd_head_of(stream->put);
        struct mr_wait wait = MR_WAIT_INIT;
        int rv;

        mr_upload_init(&stream->steps, stream->client, &head);
        rv = mr_upload_create(&stream->steps, step_ended, &wait);
        if (rv == 0)
                rv = mr_wait_for(&wait);
        if (rv != 0) {
                *err = stream->steps.error;
                piece_free(first);
        } else {
                (void)put_fd_book_memory(stream, first->cap);
                if (piece_send(stream, first) == 0)
                        while (next_piece(stream) > 0)
                                ;
                rv = close_upload(stream, out, err);
        }
        mr_upload_free(&stream->steps);
        return rv;
}

static int put_stream(struct mr_client *client, const struct mr_put_fd *put, struct mr_put_done *out,
                      struct mr_error *err)
{
        uint64_t size = mr_plan_stream_part(1, client->settings.part_size);
        struct stream *stream = calloc(1, sizeof(*stream));
        struct piece *first = stream != NULL ? piece_new(stream) : NULL;
        int rv = -ENOMEM;

        if (first == NULL) {
                free(stream);
                return mr_failure_errno(err, rv);
        }
        stream->client = client;
        stream->put = put;
        pthread_mutex_init(&stream->lock, NULL);
        pthread_cond_init(&stream->room, NULL);
        rv = piece_fill(first, size);
        if (rv != 0) {
                mr_failure_errno(err, rv);
                piece_free(first);
        } else if (first->len < size) {
                rv = put_fd_send_bytes(client, put, first->data != NULL ? first->data : "", 0, first->len, out, err);
                piece_free(first);
        } else {
                rv = upload_stream(stream, first, out, err);
        }
        pthread_cond_destroy(&stream->room);
        pthread_mutex_destroy(&stream->lock);
        free(stream);
        return rv;
}

int mr_put_fd(struct mr_client *client, const struct mr_put_fd *put, struct mr_put_fd_result *out, struct mr_error *err)
{
        struct mr_put_done done = {0};
        struct mr_error ignored;
        struct stat st;
        off_t base;
        int rv;

        if (err == NULL)
                err = &ignored;
        memset(out, 0, sizeof(*out));
        if (fstat(put->fd, &st) != 0)
                return mr_failure(err, -errno, "%s", strerror(errno));
        if (S_ISDIR(st.st_mode))
                return mr_failure(err, -EISDIR, "%s", strerror(EISDIR));
        base = S_ISREG(st.st_mode) ? lseek(put->fd, 0, SEEK_CUR) : -1;
        if (base < 0)
                rv = put_stream(client, put, &done, err);
        else
                rv = put_fd_send_bytes(client, put, NULL, (uint64_t)base,
                                       st.st_size > base ? (uint64_t)(st.st_size - base) : 0, &done, err);
        out->size = done.size;
        out->parts = done.parts;
        snprintf(out->etag, sizeof(out->etag), "%s", done.etag);
        return rv;
}
