/*
 * get_fd.c - gets an object into a descriptor, for the program `millrace`: into a regular file by
 * download.c; into a stream by ranges in parallel, held in buffers whose sum is bounded (I9) until
 * it is their turn. The caller's thread writes to the stream; ranges end on the client's.
 */
#include "client/base/client_wait.h"
#include "client/base/object_check.h"
#include "client/http/object_info.h"
#include "client/transfer/download.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool get_fd_is_known(const struct mr_get_fd *get)
{
        return get->size >= 0 && get->etag != NULL;
}

/* ---- a file ---------------------------------------------------------------------------------- */

/*
 * The page cache takes it; where it is full of what the disk has not taken yet this waits, and
 * others of this client with it.
 */
static int write_at(void *arg, uint64_t at, const void *data, size_t len)
{
        int fd = *(const int *)arg;

        while (len > 0) {
                ssize_t n = pwrite(fd, data, len, (off_t)at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                data = (const char *)data + n;
                len -= (size_t)n;
                at += (uint64_t)n;
        }
        return 0;
}

static void download_ended(void *arg, struct mr_download *download, int rv)
{
        mr_wait_tell(arg, rv);
}

int mr_get_file(struct mr_client *client, const struct mr_get_fd *get, int fd, struct mr_get_fd_result *out,
                struct mr_error *err)
{
        struct mr_download *download = calloc(1, sizeof(*download));
        uint64_t part = client->settings.part_size != 0 ? client->settings.part_size : MR_GET_PART;
        struct mr_wait wait = MR_WAIT_INIT;
        int rv;

        memset(out, 0, sizeof(*out));
        if (download == NULL)
                return mr_failure_errno(err, -ENOMEM);
        download->client = client;
        download->bucket = get->bucket;
        download->transport = client->settings.transport;
        download->key = get->key;
        download->version_id = get->version_id;
        download->size = -1;
        if (get_fd_is_known(get) && (uint64_t)get->size <= part) { /* a larger one is asked about anyway */
                download->size = get->size;
                download->etag = get->etag;
        }
        download->write = write_at;
        download->write_arg = &fd;
        download->progress = get->progress;
        download->progress_arg = get->progress_arg;
        download->done = download_ended;
        download->done_arg = &wait;
        rv = mr_download_start(download);
        if (rv == 0)
                rv = mr_wait_for(&wait);
        out->size = download->info.size;
        out->mtime_s = download->info.mtime_s;
        out->verified = rv == 0 && download->object_verified;
        if (err != NULL)
                *err = download->error;
        free(download);
        return rv;
}

/* ---- a stream -------------------------------------------------------------------------------- */

struct stream;

/* A buffer and the range that fills it. owner: the calling thread, but while fetch is under way */
struct slot {
        unsigned magic; /* object_check.h */
        struct stream *stream;
        struct mr_fetch fetch;
        char *buffer;
        bool flying, ready; /* guarded by the stream's lock */
        int rv;
};

/* owner: one call of mr_get_stream() */
struct stream {
        struct mr_client *client;
        const struct mr_get_fd *get;
        int fd;
        struct mr_object_info info; /* no headers */
        char if_match[100];
        struct mr_plan plan;
        bool summed, whole; /* whole: one fetch, which compares with the object's checksum itself */
        enum s3_checksum sum_kind;
        uint8_t wanted[S3_CHECKSUM_MAX];
        struct s3_parts_sum *sum;
        struct slot *slot;
        unsigned slots;
        uint32_t next; /* to be fetched */

        atomic_bool stop; /* any thread */
        pthread_mutex_t lock;
        pthread_cond_t ended;
};

static void slot_ended(void *arg, struct mr_fetch *fetch, int rv)
{
        struct slot *slot = MR_CAST(slot, arg);
        struct stream *stream = slot->stream;

        pthread_mutex_lock(&stream->lock);
        assert(slot->flying && !slot->ready);
        slot->rv = rv;
        slot->flying = false;
        slot->ready = true;
        pthread_cond_signal(&stream->ended);
        pthread_mutex_unlock(&stream->lock);
}

static int write_out(const struct stream *stream, const char *data, size_t len)
{
        while (len > 0) {
                ssize_t n = write(stream->fd, data, len);

                if (n >= 0) {
                        data += n;
                        len -= (size_t)n;
                } else if (errno == EAGAIN) {
                        struct pollfd room = {.fd = stream->fd, .events = POLLOUT};

                        (void)poll(&room, 1, 100);
                } else if (errno != EINTR) {
                        return -errno;
                }
                if (len > 0 && mr_client_canceled(stream->client))
                        return -ECANCELED;
        }
        return 0;
}

/* Begins the next range, if there is one. */
static int fetch_next(struct stream *stream, struct slot *slot, struct mr_error *err)
{
        struct mr_fetch *fetch = &slot->fetch;
        int rv;

        if (stream->next >= stream->plan.parts)
                return 0;
        memset(fetch, 0, sizeof(*fetch));
        fetch->bucket = stream->get->bucket;
        fetch->key = stream->get->key;
        fetch->version_id = stream->get->version_id;
        fetch->transport = stream->client->settings.transport;
        memcpy(fetch->if_match, stream->if_match, sizeof(fetch->if_match));
        fetch->offset = mr_plan_offset(&stream->plan, stream->next);
        fetch->len = stream->whole ? UINT64_MAX : mr_plan_length(&stream->plan, stream->next);
        fetch->memory = slot->buffer;
        fetch->room = mr_plan_length(&stream->plan, stream->next);
        fetch->stop = &stream->stop;
        fetch->progress = stream->get->progress;
        fetch->progress_arg = stream->get->progress_arg;
        fetch->summed = stream->summed && !stream->whole;
        fetch->sum_kind = stream->sum_kind;
        fetch->done = slot_ended;
        fetch->done_arg = slot;
        slot->flying = true;
        rv = mr_fetch_start(stream->client, fetch);
        if (rv != 0) {
                slot->flying = false;
                *err = fetch->error;
                return rv;
        }
        stream->next++;
        return 0;
}

/* Waits for the range of this index, writes it, and begins another in its place. */
static int hand_on(struct stream *stream, uint32_t index, struct mr_error *err)
{
        struct slot *slot = &stream->slot[index % stream->slots];
        int rv;

        pthread_mutex_lock(&stream->lock);
        while (!slot->ready)
                pthread_cond_wait(&stream->ended, &stream->lock);
        slot->ready = false;
        pthread_mutex_unlock(&stream->lock);
        if (slot->rv != 0) {
                *err = slot->fetch.error;
                return slot->rv;
        }
        if (slot->fetch.got != mr_plan_length(&stream->plan, index))
                return mr_failure(err, -EPROTO, "the endpoint sent less of a range than it was asked for");
        if (stream->sum != NULL)
                s3_parts_sum_add(stream->sum, slot->fetch.sum, slot->fetch.got);
        rv = write_out(stream, slot->buffer, (size_t)slot->fetch.got);
        if (rv != 0)
                return mr_failure_errno(err, rv);
        return fetch_next(stream, slot, err);
}

static int check_sum(struct stream *stream, struct mr_error *err)
{
        uint8_t found[S3_CHECKSUM_MAX];

        if (stream->sum == NULL)
                return 0;
        s3_parts_sum_final(stream->sum, found);
        if (memcmp(found, stream->wanted, s3_checksum_info(stream->sum_kind)->len) == 0)
                return 0;
        return mr_failure(err, -EBADMSG, "the bytes received do not match the object's %s",
                          s3_checksum_info(stream->sum_kind)->algorithm);
}

static int get_fd_run(struct stream *stream, struct mr_error *err)
{
        int rv = 0;

        for (unsigned i = 0; i < stream->slots && rv == 0; i++) {
                stream->slot[i].magic = slot_magic;
                stream->slot[i].stream = stream;
                stream->slot[i].buffer = malloc((size_t)stream->plan.part_size + 1);
                rv = stream->slot[i].buffer == NULL ? mr_failure_errno(err, -ENOMEM)
                                                    : fetch_next(stream, &stream->slot[i], err);
        }
        for (uint32_t i = 0; i < stream->plan.parts && rv == 0; i++)
                rv = hand_on(stream, i, err);
        if (rv == 0)
                return check_sum(stream, err);
        atomic_store(&stream->stop, true);
        mr_core_wake(stream->client);
        pthread_mutex_lock(&stream->lock);
        for (unsigned i = 0; i < stream->slots; i++)
                while (stream->slot[i].flying)
                        pthread_cond_wait(&stream->ended, &stream->lock);
        pthread_mutex_unlock(&stream->lock);
        return rv;
}

/* How it is cut, and what it is compared with. */
static int get_fd_plan(struct stream *stream, struct mr_error *err)
{
        const struct mr_get_fd *get = stream->get;
        struct mr_head asked = {.bucket = get->bucket, .key = get->key, .version_id = get->version_id};
        struct mr_object_info head = {0};
        int rv = 0;

        mr_plan_download(get_fd_is_known(get) ? (uint64_t)get->size : 0, stream->client->settings.part_size,
                         &stream->plan);
        if (get_fd_is_known(get) && stream->plan.parts <= 1) {
                stream->info.size = (uint64_t)get->size;
                mr_etag_quote(stream->if_match, get->etag);
        } else {
                rv = mr_head_version(stream->client, &asked, &head, err);
                if (rv != 0)
                        return rv;
                stream->info = head;
                stream->info.headers = NULL;
                stream->info.header_count = 0;
                mr_object_info_free(&head);
                mr_etag_quote(stream->if_match, stream->info.etag);
        }
        mr_plan_download(stream->info.size, stream->client->settings.part_size, &stream->plan);
        if (stream->plan.parts <= 1) {
                stream->whole = true;
                stream->plan.parts = 1;
                return 0;
        }
        stream->summed = mr_info_checksum(&stream->info, false, &stream->sum_kind, stream->wanted);
        if (stream->summed)
                rv = s3_parts_sum_new(stream->sum_kind, S3_FULL_OBJECT, &stream->sum);
        return rv == 0 ? 0 : mr_failure_errno(err, rv);
}

int mr_get_stream(struct mr_client *client, const struct mr_get_fd *get, int fd, struct mr_get_fd_result *out,
                  struct mr_error *err)
{
        struct stream stream = {.client = client,
                                .get = get,
                                .fd = fd,
                                .lock = PTHREAD_MUTEX_INITIALIZER,
                                .ended = PTHREAD_COND_INITIALIZER};
        struct mr_error ignored;
        uint64_t most;
        int rv;

        if (err == NULL)
                err = &ignored;
        memset(out, 0, sizeof(*out));
        rv = get_fd_plan(&stream, err);
        if (rv == 0) {
                most = MR_GET_STREAM_MEMORY / (stream.plan.part_size > 0 ? stream.plan.part_size : 1);
                stream.slots = most < client->settings.parallel ? (unsigned)most : client->settings.parallel;
                stream.slots = stream.slots > stream.plan.parts ? stream.plan.parts
                               : stream.slots == 0              ? 1
                                                                : stream.slots;
                stream.slot = calloc(stream.slots, sizeof(*stream.slot));
                rv = stream.slot != NULL ? get_fd_run(&stream, err) : mr_failure_errno(err, -ENOMEM);
        }
        if (rv == 0) {
                out->size = stream.info.size;
                out->mtime_s = stream.whole ? stream.slot[0].fetch.info.mtime_s : stream.info.mtime_s;
                out->verified = stream.whole ? stream.slot[0].fetch.object_verified : stream.summed;
        }
        for (unsigned i = 0; stream.slot != NULL && i < stream.slots; i++)
                free(stream.slot[i].buffer);
        free(stream.slot);
        s3_parts_sum_free(stream.sum);
        return rv;
}
