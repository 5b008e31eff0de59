/*
 * get.c - fetches an object into a file or a stream: whole where it is small, else by ranges in parallel. Every range
 * asks for the ETag seen first, so that what arrives is one object; its CRCs are combined and compared with the
 * object's (I5 on this side of the wire). Runs on the caller's thread and threads that end before it returns.
 */
#include "ec.h"
#include "object.h"
#include "plan.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct download {
        /* constant once ranges are fetched */
        struct mr_client *client;
        const struct mr_get_fd *get;
        int fd;
        bool stream;                /* fd takes bytes in order only */
        struct mr_object_info info; /* size, etag, checksum; headers are not kept */
        bool info_known;            /* by a HEAD, or from the first answer */
        struct mr_plan plan;
        bool summed; /* the object has a CRC of its bytes, of kind checksum and value wanted */
        enum s3_checksum checksum;
        uint8_t wanted[S3_CHECKSUM_MAX];
        char if_match[100];

        atomic_bool failed; /* any thread */
        _Atomic uint32_t next;

        /* guarded by lock */
        pthread_mutex_t lock;
        pthread_cond_t turn;             /* stream: another range was written */
        uint32_t written;                /* stream: ranges written so far, in order */
        uint8_t (*sum)[S3_CHECKSUM_MAX]; /* of each range; each written once, by the thread that fetched it */
        struct mr_error error;           /* the first one */
};

/* One range on its way. owner: the thread that fetches it */
struct span {
        struct download *down;
        uint64_t offset, len, got; /* len: UINT64_MAX where the answer will say */
        bool ranged;               /* a Range was asked for: only a 206 will do */
        char range[64];
        char *buffer;         /* NULL: straight to the file or stream */
        struct s3_sums *sums; /* of all its bytes, for the object's checksum */
        bool answer_began;    /* a byte of the present answer has come */
        bool answer_summed;   /* the answer names the CRC32C of its own bytes, as millrace's do */
        uint32_t answer_crc, answer_wanted;
};

static void note_failure(struct download *down, const struct mr_error *err)
{
        pthread_mutex_lock(&down->lock);
        if (!atomic_exchange(&down->failed, true))
                down->error = *err;
        pthread_cond_broadcast(&down->turn);
        pthread_mutex_unlock(&down->lock);
}

/* ---- bytes --------------------------------------------------------------------------------------- */

static int write_stream(const struct mr_client *client, int fd, const char *data, size_t len)
{
        while (len > 0) {
                ssize_t n = write(fd, data, len);

                if (n >= 0) {
                        data += n;
                        len -= (size_t)n;
                } else if (errno == EAGAIN) {
                        struct pollfd room = {.fd = fd, .events = POLLOUT};

                        (void)poll(&room, 1, 100);
                } else if (errno != EINTR) {
                        return -errno;
                }
                if (len > 0 && mr_client_canceled(client))
                        return -ECANCELED;
        }
        return 0;
}

static int write_at(int fd, const char *data, size_t len, uint64_t offset)
{
        while (len > 0) {
                ssize_t n = pwrite(fd, data, len, (off_t)offset);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                data += n;
                len -= (size_t)n;
                offset += (uint64_t)n;
        }
        return 0;
}

/* The CRC or digest to compare with, if the object has one of all its bytes that we can compute this way. */
static void choose_checksum(struct download *down, bool whole)
{
        const struct mr_object_info *info = &down->info;
        enum s3_checksum kind;

        down->summed = false;
        if (info->checksum_kind[0] == '\0' || info->checksum_composite)
                return;
        if (s3_checksum_by_algorithm(s3_str_of(info->checksum_kind), &kind) != 0)
                return;
        if (!whole && (kind == S3_SHA1 || kind == S3_SHA256)) /* cannot be combined */
                return;
        if (s3_checksum_parse(kind, s3_str_of(info->checksum), down->wanted) != 0)
                return;
        down->checksum = kind;
        down->summed = true;
}

/* Before ranges run in parallel, or with only one thread at work. */
static void set_if_match(struct download *down, const char *etag)
{
        if (etag[0] != '\0')
                snprintf(down->if_match, sizeof(down->if_match), "\"%s\"", etag);
}

static int first_answer(struct span *span, const struct mr_response *response)
{
        struct download *down = span->down;
        int rv = mr_info_of_answer(response, &down->info);

        if (rv != 0)
                return rv;
        down->info_known = true;
        choose_checksum(down, true);
        span->len = down->info.size;
        set_if_match(down, down->info.etag);
        return down->summed ? s3_sums_new(S3_CHECKSUM_BIT(down->checksum), &span->sums) : 0;
}

/* x-millrace-crc32c covers exactly the bytes of one answer: it finds damage on the way even where only a range was
 * asked for. */
static void begin_answer(struct span *span, const struct mr_response *response)
{
        const char *text = mr_response_header(response, "x-millrace-crc32c");
        uint8_t value[S3_CHECKSUM_MAX];

        span->answer_began = true;
        span->answer_crc = 0;
        span->answer_summed = text != NULL && s3_checksum_parse(S3_CRC32C, s3_str_of(text), value) == 0;
        if (span->answer_summed)
                span->answer_wanted = (uint32_t)s3_checksum_to_crc(S3_CRC32C, value);
}

static int take_bytes(void *arg, const struct mr_response *response, const void *data, size_t len)
{
        struct span *span = arg;
        struct download *down = span->down;
        int rv = 0;

        if (span->ranged && response->status != 206)
                return -EPROTO; /* these are other bytes than those asked for */
        if (!down->info_known)
                rv = first_answer(span, response);
        if (rv == 0 && len > span->len - span->got)
                rv = -EPROTO;
        if (rv != 0)
                return rv;
        if (!span->answer_began)
                begin_answer(span, response);
        if (span->answer_summed)
                span->answer_crc = era_crc32c(span->answer_crc, data, len);
        if (span->buffer != NULL)
                memcpy(span->buffer + span->got, data, len);
        else if (down->stream)
                rv = write_stream(down->client, down->fd, data, len);
        else
                rv = write_at(down->fd, data, len, span->offset + span->got);
        if (rv != 0)
                return rv;
        if (span->sums != NULL)
                s3_sums_update(span->sums, data, len);
        span->got += len;
        if (down->get->progress != NULL)
                down->get->progress(down->get->progress_arg, (int64_t)len);
        return 0;
}

/* Asks for what is still missing. Bytes that came are kept, and so is their checksum. */
static void ask_for_rest(struct span *span, struct mr_request *request)
{
        struct download *down = span->down;
        unsigned long long first = span->offset + span->got, last = span->offset + span->len - 1;

        span->ranged = true;
        snprintf(span->range, sizeof(span->range), "bytes=%llu-%llu", first, last);
        mr_request_header(request, "range", span->range);
        if (down->if_match[0] != '\0')
                mr_request_header(request, "if-match", down->if_match);
}

static int fetch_again(void *arg, struct mr_request *request)
{
        struct span *span = arg;

        span->answer_began = false;
        if (span->down->info_known && span->got < span->len)
                ask_for_rest(span, request);
        return 0;
}

/* Of the last answer; those before it broke off. */
static int check_answer(const struct span *span, struct mr_error *err)
{
        if (!span->answer_began || !span->answer_summed || span->answer_crc == span->answer_wanted)
                return 0;
        return mr_failure(err, -EBADMSG, "the bytes received do not match the answer's CRC32C");
}

/* ---- whole objects ------------------------------------------------------------------------------- */

static int check_sum(struct download *down, const uint8_t *found, struct mr_error *err)
{
        if (memcmp(found, down->wanted, s3_checksum_info(down->checksum)->len) == 0)
                return 0;
        return mr_failure(err, -EBADMSG, "the bytes received do not match the object's %s",
                          s3_checksum_info(down->checksum)->algorithm);
}

/* The words for a download of what is "a condition does not hold" elsewhere. */
static int explain(struct mr_error *err, int rv)
{
        if (err->http_status == 412 || err->http_status == 416)
                return mr_failure(err, -ESTALE, "the object changed while it was read");
        return rv;
}

static int get_whole(struct download *down, struct mr_error *err)
{
        struct span span = {.down = down, .len = UINT64_MAX};
        struct mr_request request = {
                .method = "GET",
                .bucket = down->get->bucket,
                .key = down->get->key,
                .sink = take_bytes,
                .again = fetch_again,
                .sink_arg = &span,
        };
        struct mr_response response;
        int rv;

        mr_request_header(&request, "x-amz-checksum-mode", "ENABLED");
        if (down->if_match[0] != '\0')
                mr_request_header(&request, "if-match", down->if_match);
        rv = mr_request_run(down->client, &request, &response, err);
        if (rv == 0 && !down->info_known) { /* no byte came: an empty object */
                rv = first_answer(&span, &response);
                if (rv != 0)
                        mr_failure(err, rv, "the endpoint answered without a Content-Length");
        }
        if (rv == 0 && span.got != span.len)
                rv = mr_failure(err, -EPROTO, "the endpoint sent %llu bytes of %llu", (unsigned long long)span.got,
                                (unsigned long long)span.len);
        if (rv == 0)
                rv = check_answer(&span, err);
        if (rv == 0 && span.sums != NULL) {
                s3_sums_final(span.sums);
                rv = check_sum(down, s3_sums_value(span.sums, down->checksum), err);
        }
        s3_sums_free(span.sums);
        mr_response_free(&response);
        return rv == 0 ? 0 : explain(err, rv);
}

/* ---- ranges -------------------------------------------------------------------------------------- */

/* Stream: waits until it is this range's turn, then writes it. */
static int write_in_turn(struct download *down, uint32_t index, const struct span *span)
{
        int rv;

        pthread_mutex_lock(&down->lock);
        while (down->written != index && !atomic_load(&down->failed))
                pthread_cond_wait(&down->turn, &down->lock);
        pthread_mutex_unlock(&down->lock);
        if (atomic_load(&down->failed))
                return -ECANCELED;
        rv = write_stream(down->client, down->fd, span->buffer, (size_t)span->got);
        pthread_mutex_lock(&down->lock);
        down->written++;
        pthread_cond_broadcast(&down->turn);
        pthread_mutex_unlock(&down->lock);
        return rv;
}

static int span_prepare(struct span *span)
{
        struct download *down = span->down;
        int rv = 0;

        if (down->summed)
                rv = s3_sums_new(S3_CHECKSUM_BIT(down->checksum), &span->sums);
        if (rv == 0 && down->stream) {
                span->buffer = malloc((size_t)span->len);
                rv = span->buffer != NULL ? 0 : -ENOMEM;
        }
        return rv;
}

static int span_run(struct span *span, struct mr_error *err)
{
        struct download *down = span->down;
        struct mr_request request = {
                .method = "GET",
                .bucket = down->get->bucket,
                .key = down->get->key,
                .sink = take_bytes,
                .again = fetch_again,
                .sink_arg = span,
                .stop = &down->failed,
        };
        struct mr_response response;
        int rv;

        ask_for_rest(span, &request);
        rv = mr_request_run(down->client, &request, &response, err);
        mr_response_free(&response);
        if (rv == 0 && span->got != span->len)
                rv = mr_failure(err, -EPROTO, "the endpoint sent less of a range than it was asked for");
        if (rv == 0)
                rv = check_answer(span, err);
        return rv == 0 ? 0 : explain(err, rv);
}

static int fetch_range(struct download *down, uint32_t index, struct mr_error *err)
{
        struct span span = {
                .down = down,
                .offset = mr_plan_offset(&down->plan, index),
                .len = mr_plan_length(&down->plan, index),
        };
        int rv = span_prepare(&span);

        if (rv != 0)
                mr_failure(err, rv, "%s", strerror(-rv));
        else
                rv = span_run(&span, err);
        if (rv == 0 && span.sums != NULL) {
                s3_sums_final(span.sums);
                memcpy(down->sum[index], s3_sums_value(span.sums, down->checksum),
                       s3_checksum_info(down->checksum)->len);
        }
        if (rv == 0 && down->stream) {
                rv = write_in_turn(down, index, &span);
                if (rv != 0)
                        mr_failure(err, rv, "%s", strerror(-rv));
        }
        s3_sums_free(span.sums);
        free(span.buffer);
        return rv;
}

static void fetch_ranges(void *arg)
{
        struct download *down = arg;

        while (!atomic_load(&down->failed)) {
                uint32_t index = atomic_fetch_add(&down->next, 1);
                struct mr_error err;

                if (index >= down->plan.parts)
                        return;
                if (fetch_range(down, index, &err) != 0)
                        note_failure(down, &err);
        }
}

static int check_ranges(struct download *down, struct mr_error *err)
{
        uint8_t found[S3_CHECKSUM_MAX];
        struct s3_parts_sum *sum;
        int rv;

        if (!down->summed)
                return 0;
        rv = s3_parts_sum_new(down->checksum, S3_FULL_OBJECT, &sum);
        if (rv != 0)
                return mr_failure(err, rv, "%s", strerror(-rv));
        for (uint32_t i = 0; i < down->plan.parts; i++)
                s3_parts_sum_add(sum, down->sum[i], mr_plan_length(&down->plan, i));
        s3_parts_sum_final(sum, found);
        s3_parts_sum_free(sum);
        return check_sum(down, found, err);
}

static int get_ranges(struct download *down, struct mr_error *err)
{
        unsigned threads = down->client->settings.parallel;
        int rv;

        if (down->stream && threads > MR_GET_STREAM_MEMORY / down->plan.part_size)
                threads = down->plan.part_size < MR_GET_STREAM_MEMORY
                                  ? (unsigned)(MR_GET_STREAM_MEMORY / down->plan.part_size)
                                  : 1;
        if (threads > down->plan.parts)
                threads = down->plan.parts;
        choose_checksum(down, false);
        down->sum = calloc(down->plan.parts, sizeof(down->sum[0]));
        if (down->sum == NULL)
                return mr_failure(err, -ENOMEM, "%s", strerror(ENOMEM));
        mr_core_together(threads, fetch_ranges, down);
        rv = atomic_load(&down->failed) ? down->error.code : 0;
        if (rv != 0 && err != NULL)
                *err = down->error;
        if (rv == 0)
                rv = check_ranges(down, err);
        free(down->sum);
        return rv;
}

/* Size, ETag and checksum by a HEAD; whole objects learn them again from the answer that carries the bytes. */
static int ask_first(struct download *down, struct mr_error *err)
{
        struct mr_object_info head;
        int rv = mr_head(down->client, down->get->bucket, down->get->key, &head, err);

        if (rv != 0)
                return rv;
        down->info = head;
        down->info.headers = NULL;
        down->info.header_count = 0;
        mr_object_info_free(&head);
        mr_plan_download(down->info.size, down->client->settings.part_size, &down->plan);
        set_if_match(down, down->info.etag);
        down->info_known = down->plan.parts > 1;
        return 0;
}

static int get_any(struct mr_client *client, const struct mr_get_fd *get, int fd, bool stream, struct mr_get_fd_result *out,
                   struct mr_error *err)
{
        struct download down = {.client = client, .get = get, .fd = fd, .stream = stream};
        struct mr_error ignored;
        int rv = 0;

        if (err == NULL)
                err = &ignored;
        memset(out, 0, sizeof(*out));
        mr_plan_download(get->size > 0 ? (uint64_t)get->size : 0, client->settings.part_size, &down.plan);
        if (get->size >= 0 && get->etag != NULL && down.plan.parts <= 1)
                set_if_match(&down, get->etag);
        else
                rv = ask_first(&down, err);
        if (rv != 0)
                return rv;
        pthread_mutex_init(&down.lock, NULL);
        pthread_cond_init(&down.turn, NULL);
        rv = down.plan.parts <= 1 ? get_whole(&down, err) : get_ranges(&down, err);
        pthread_cond_destroy(&down.turn);
        pthread_mutex_destroy(&down.lock);
        out->size = down.info.size;
        out->mtime_s = down.info.mtime_s;
        out->verified = rv == 0 && down.summed;
        return rv;
}

int mr_get_file(struct mr_client *client, const struct mr_get_fd *get, int fd, struct mr_get_fd_result *out,
                struct mr_error *err)
{
        return get_any(client, get, fd, false, out, err);
}

int mr_get_stream(struct mr_client *client, const struct mr_get_fd *get, int fd, struct mr_get_fd_result *out,
                  struct mr_error *err)
{
        return get_any(client, get, fd, true, out, err);
}
