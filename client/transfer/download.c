/*
 * download.c - gets an object or a range of it. What fits one part is one fetch; more is asked
 * about first (HEAD: size, version, checksum), then got in parts, as many at once as the client has
 * turns. Each part asks for that version; their checksums are combined and compared with the
 * object's.
 *
 *   start ──> one fetch ────────────────────────────┬──> done
 *     │                                             │
 *     └─────> HEAD ──> fetches, in parallel ────────┤
 *     ^                                             │
 *     └── all have ended, and the object was replaced: again, a few times
 *
 * What ends a fetch runs on its loop, several at once: the lock guards what they share. No fetch is
 * under way when done() is called, so the place is the caller's again.
 */
#include "client/transfer/download.h"

#include "client/http/object_info.h"
#include "client/rdma/bounce_buffers.h"
#include "client/base/object_check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One part under way. owner: the download */
struct mr_span {
        unsigned magic; /* object_check.h */
        struct mr_download *download;
        struct mr_fetch fetch;
        uint32_t index;
        uint64_t at; /* in what is wanted */
};

static int download_attempt(struct mr_download *download);

static bool may_restart(const struct mr_download *download)
{
        return download->rv == -ESTALE && download->version_id == NULL && download->etag == NULL &&
               download->restarts < download->restarts_max;
}

static void download_release(struct mr_download *download)
{
        free(download->span);
        free(download->sum);
        download->span = NULL;
        download->sum = NULL;
        download->spans = 0;
}

/* Nothing is under way any more. */
static void download_end(struct mr_download *download)
{
        download_release(download);
        if (may_restart(download)) {
                download->restarts++;
                if (download_attempt(download) == 0)
                        return;
        }
        pthread_mutex_destroy(&download->lock);
        download->done(download->done_arg, download, download->rv);
}

/* With lock. */
static void download_fail(struct mr_download *download, int rv, const struct mr_error *err)
{
        if (download->rv != 0)
                return; /* later ones are mostly the stop of the first */
        download->rv = rv;
        download->error = *err;
        atomic_store(&download->stop, true);
}

static int download_write_part(void *arg, uint64_t at, const void *data, size_t len)
{
        struct mr_span *span = MR_CAST(mr_span, arg);

        return span->download->write(span->download->write_arg, span->at + at, data, len);
}

/* Bytes that may come, as far as is known without asking. */
static uint64_t download_part_limit(const struct mr_download *download)
{
        if (download->last != 0)
                return download->last;
        if (download->len != 0)
                return download->len;
        if (download->size >= 0)
                return (uint64_t)download->size;
        if (download->bound != 0)
                return download->bound;
        return download->write == NULL ? download->room : UINT64_MAX;
}

static void fetch_of(struct mr_download *download, struct mr_span *span, uint64_t at)
{
        struct mr_fetch *fetch = &span->fetch;

        memset(span, 0, sizeof(*span));
        span->magic = mr_span_magic;
        span->download = download;
        span->at = at;
        fetch->bucket = download->bucket;
        fetch->key = download->key;
        fetch->version_id = download->version_id;
        memcpy(fetch->if_match, download->if_match, sizeof(fetch->if_match));
        fetch->transport = download->transport;
        fetch->stop = &download->stop;
        fetch->canceled = download->canceled;
        fetch->progress = download->progress;
        fetch->progress_arg = download->progress_arg;
        fetch->done_arg = span;
        fetch->unseen = download->unseen;
        if (download->write != NULL) {
                fetch->write = download_write_part;
                fetch->write_arg = span;
                fetch->room = download_part_limit(download); /* as a bound of what may come; UINT64_MAX: none */
                return;
        }
        fetch->memory = download->memory != NULL ? download->memory + at : NULL;
        fetch->room = download->room - at;
        fetch->buffer = download->buffer;
        fetch->buffer_at = download->buffer_at + at;
}

/* ---- one fetch ------------------------------------------------------------------------------- */

static void single_done(void *arg, struct mr_fetch *fetch, int rv)
{
        struct mr_span *span = MR_CAST(mr_span, arg);
        struct mr_download *download = span->download;

        download->carried = fetch->carried;
        if (fetch->info_known)
                download->info = fetch->info;
        if (rv != 0)
                download_fail(download, rv, &fetch->error);
        download->got = fetch->got;
        download->wire_verified = rv == 0 && fetch->wire_verified;
        download->object_verified = rv == 0 && fetch->object_verified;
        download_end(download);
}

/* len 0: to the end. */
static int get_single(struct mr_download *download, uint64_t offset, uint64_t len, uint64_t last)
{
        struct mr_span *span = malloc(sizeof(*span));
        int rv;

        if (span == NULL)
                return mr_failure_errno(&download->error, -ENOMEM);
        fetch_of(download, span, 0);
        span->fetch.offset = offset;
        span->fetch.len = len != 0 ? len : UINT64_MAX;
        span->fetch.last = last;
        span->fetch.done = single_done;
        download->span = span;
        rv = mr_fetch_start(download->client, &span->fetch);
        if (rv != 0) {
                download->error = span->fetch.error;
                download_release(download);
        }
        return rv;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* All parts are there: do they make up the object? */
static void check_parts(struct mr_download *download)
{
        uint8_t found[S3_CHECKSUM_MAX];
        struct s3_parts_sum *sum;
        int rv;

        if (!download->summed)
                return;
        rv = s3_parts_sum_new(download->sum_kind, S3_FULL_OBJECT, &sum);
        if (rv != 0) {
                download->rv = mr_failure_errno(&download->error, rv);
                return;
        }
        for (uint32_t i = 0; i < download->plan.parts; i++)
                s3_parts_sum_add(sum, download->sum[i], mr_plan_length(&download->plan, i));
        s3_parts_sum_final(sum, found);
        s3_parts_sum_free(sum);
        if (memcmp(found, download->wanted, s3_checksum_info(download->sum_kind)->len) == 0)
                download->object_verified = true;
        else
                download->rv = mr_failure(&download->error, -EBADMSG, "the bytes received do not match the object's %s",
                                          s3_checksum_info(download->sum_kind)->algorithm);
}

static void download_part_done(void *arg, struct mr_fetch *fetch, int rv);

/* With lock: begins the next part in span. Those that are left where it fails are not begun. */
static void download_part_start(struct mr_download *download, struct mr_span *span)
{
        uint32_t index = download->next;
        int rv;

        if (index >= download->plan.parts || download->rv != 0)
                return;
        fetch_of(download, span, mr_plan_offset(&download->plan, index));
        span->index = index;
        span->fetch.offset = download->base + span->at;
        span->fetch.len = mr_plan_length(&download->plan, index);
        span->fetch.room = span->fetch.len;
        span->fetch.summed = download->summed;
        span->fetch.sum_kind = download->sum_kind;
        span->fetch.done = download_part_done;
        download->next++;
        download->flying++;
        rv = mr_fetch_start(download->client, &span->fetch);
        if (rv != 0) {
                download->flying--;
                download_fail(download, rv, &span->fetch.error);
        }
}

static void download_part_done(void *arg, struct mr_fetch *fetch, int rv)
{
        struct mr_span *span = MR_CAST(mr_span, arg);
        struct mr_download *download = span->download;
        struct mr_client *client = download->client;
        bool failed, last;

        pthread_mutex_lock(&download->lock);
        if (rv == 0 && fetch->got != mr_plan_length(&download->plan, span->index))
                rv = mr_failure(&fetch->error, -EPROTO, "the endpoint sent less of a range than it was asked for");
        if (rv != 0)
                download_fail(download, rv, &fetch->error);
        else if (download->summed)
                memcpy(download->sum[span->index], fetch->sum, S3_CHECKSUM_MAX);
        download->got += rv == 0 ? fetch->got : 0;
        download->wire_verified = download->wire_verified && fetch->wire_verified;
        if (download->carried != MR_TRANSPORT_TCP) /* RDMA: all of its bytes, as of a PUT */
                download->carried = fetch->carried;
        download->flying--;
        download_part_start(download, span);
        last = download->flying == 0;
        failed = download->rv != 0;
        pthread_mutex_unlock(&download->lock);
        if (failed)
                mr_core_wake(client); /* whoever is last may have freed the download by now */
        if (!last)
                return;
        if (!failed)
                check_parts(download);
        download_end(download);
}

/* The plan is made. 0: done() will come. */
static int get_parts(struct mr_download *download)
{
        unsigned spans = download->client->settings.parallel;
        bool any;

        if (spans > download->plan.parts)
                spans = download->plan.parts;
        download->span = calloc(spans, sizeof(*download->span));
        download->sum = calloc(download->plan.parts, sizeof(download->sum[0]));
        if (download->span == NULL || download->sum == NULL) {
                download_release(download);
                return mr_failure_errno(&download->error, -ENOMEM);
        }
        download->wire_verified = true;
        pthread_mutex_lock(&download->lock);
        download->spans = spans;
        download->next = 0;
        download->flying = 1; /* this function, so that none is the last before all are begun */
        for (unsigned i = 0; i < spans; i++)
                download_part_start(download, &download->span[i]);
        download->flying--;
        any = download->flying > 0;
        pthread_mutex_unlock(&download->lock);
        if (any)
                return 0;
        if (download->rv == 0) { /* all done by now */
                check_parts(download);
                download_end(download);
                return 0;
        }
        download_release(download);
        return download->rv;
}

/* ---- HEAD ------------------------------------------------------------------------------------ */

static uint64_t download_part_size(const struct mr_download *download)
{
        uint64_t wanted = download->client->settings.part_size;

        if (download->transport == MR_TRANSPORT_RDMA && download->buffer == NULL && wanted > MR_BOUNCE_SLOT)
                wanted = MR_BOUNCE_SLOT;
        return wanted != 0 ? wanted : MR_GET_PART;
}

/* Size and version are known. */
static int get_known(struct mr_download *download)
{
        uint64_t size = download->info.size, want;

        if (download->last != 0) {
                download->base = download->last < size ? size - download->last : 0;
                want = size - download->base;
        } else {
                if (download->offset >= size && (download->offset > 0 || download->len > 0))
                        return mr_failure(&download->error, -ERANGE, "the range begins behind the object's end");
                download->base = download->offset;
                want = size - download->base;
                if (download->len != 0 && want > download->len)
                        want = download->len;
        }
        if (download->write == NULL && want > download->room)
                return mr_failure(&download->error, -EMSGSIZE, "the object's %llu bytes do not fit their place",
                                  (unsigned long long)size);
        if (download->write != NULL) /* a place has its own bound */
                download->bound = want;
        if (strncmp(download->info.etag, "W/", 2) != 0) /* one like that matches nothing */
                mr_etag_quote(download->if_match, download->info.etag);
        if (want <= download_part_size(download) || (download->if_match[0] == '\0' && download->version_id == NULL))
                return want == size ? get_single(download, 0, 0, 0) : get_single(download, download->base, want, 0);
        mr_plan_download(want, download_part_size(download), &download->plan);
        download->summed = want == size && !download->unseen &&
                           mr_info_checksum(&download->info, false, &download->sum_kind, download->wanted);
        return get_parts(download);
}

static void head_done(void *arg, struct mr_request *request, int rv)
{
        struct mr_download *download = MR_CAST(mr_download, arg);

        if (rv == 0) {
                rv = mr_info_of_answer(&request->response, &download->info);
                if (rv != 0)
                        mr_failure(&request->error, rv, "the endpoint answered without a Content-Length");
        }
        mr_response_free(&request->response);
        if (rv != 0 && request->error.http_status == 412)
                rv = mr_failure(&request->error, -ESTALE, "the object is not the one asked for any more");
        if (rv == 0) {
                rv = get_known(download);
                if (rv == 0)
                        return;
        } else {
                download->error = request->error;
        }
        download->rv = rv;
        download_end(download);
}

static int ask_first(struct mr_download *download)
{
        struct mr_request *head = &download->head;
        int rv;

        memset(head, 0, sizeof(*head));
        head->method = "HEAD";
        head->bucket = download->bucket;
        head->key = download->key;
        head->stop = &download->stop;
        head->canceled = download->canceled;
        head->done = head_done;
        head->done_arg = download;
        mr_request_header(head, "x-amz-checksum-mode", "ENABLED");
        if (download->if_match[0] != '\0')
                mr_request_header(head, "if-match", download->if_match);
        if (download->version_id != NULL)
                mr_request_query(head, "versionId", download->version_id);
        rv = mr_request_start(download->client, head);
        if (rv != 0)
                download->error = head->error;
        return rv;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* From the beginning. 0: done() will come. */
static int download_attempt(struct mr_download *download)
{
        int rv;

        download->rv = 0;
        download->got = 0;
        download->carried = MR_TRANSPORT_AUTO;
        download->bound = 0;
        download->object_verified = false;
        atomic_store(&download->stop, false);
        download->if_match[0] = '\0';
        if (download->etag != NULL)
                mr_etag_quote(download->if_match, download->etag);
        if (download_part_limit(download) <= download_part_size(download))
                rv = get_single(download, download->offset, download->len, download->last);
        else
                rv = ask_first(download);
        if (rv != 0) /* else it may be over and gone by now */
                download->rv = rv;
        return rv;
}

int mr_download_start(struct mr_download *download)
{
        int rv;

        if (download->etag != NULL && strlen(download->etag) >= sizeof(download->info.etag))
                return mr_failure(&download->error, -EINVAL, "the ETag is too long");
        download->magic = mr_download_magic;
        pthread_mutex_init(&download->lock, NULL);
        rv = download_attempt(download);
        if (rv != 0)
                pthread_mutex_destroy(&download->lock);
        return rv;
}
