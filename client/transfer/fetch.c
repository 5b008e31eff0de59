/*
 * fetch.c - gets one range of one version into its place over TCP: one GET, which goes on where it
 * broke off. What comes later asks for the version that came first (If-Match, versionId), so that
 * all bytes are of one.
 *
 * I5 on this side of the wire: x-millrace-crc32c is the CRC32C of exactly the bytes of one answer.
 * The CRC that the first answer named runs on over those that continue it, since they end at the
 * same byte; bytes that came before any answer named one make the fetch unverified. A large answer
 * sends its CRC behind its bytes, where it is asked to ("follows"): one that broke off is not
 * continued but asked for again. A CRC that is wrong begins the fetch again. On a loop.
 */
#include "client/transfer/fetch.h"

#include "client/http/object_info.h"
#include "ec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool mr_info_checksum(const struct mr_object_info *info, bool whole, enum s3_checksum *kind,
                      uint8_t value[S3_CHECKSUM_MAX])
{
        if (info->checksum_kind[0] == '\0' || info->checksum_composite)
                return false;
        if (s3_checksum_by_algorithm(s3_str_of(info->checksum_kind), kind) != 0)
                return false;
        if (!whole && !s3_checksum_type_allowed(*kind, S3_FULL_OBJECT)) /* cannot be combined */
                return false;
        return s3_checksum_parse(*kind, s3_str_of(info->checksum), value) == 0;
}

/* ---- what is asked for ----------------------------------------------------------------------- */

static void fetch_ask(struct mr_fetch *fetch)
{
        struct mr_request *request = &fetch->request;
        unsigned long long first = fetch->offset + fetch->got;

        fetch->ranged = true;
        if (fetch->want != UINT64_MAX && fetch->got < fetch->want)
                snprintf(fetch->range, sizeof(fetch->range), "bytes=%llu-%llu", first,
                         (unsigned long long)(fetch->offset + fetch->want - 1));
        else if (fetch->last != 0)
                snprintf(fetch->range, sizeof(fetch->range), "bytes=-%llu", (unsigned long long)fetch->last);
        else if (fetch->len != UINT64_MAX)
                snprintf(fetch->range, sizeof(fetch->range), "bytes=%llu-%llu", first,
                         (unsigned long long)(fetch->offset + fetch->len - 1));
        else if (first != 0)
                snprintf(fetch->range, sizeof(fetch->range), "bytes=%llu-", first);
        else
                fetch->ranged = false;
        if (fetch->ranged)
                mr_request_header(request, "range", fetch->range);
        if (fetch->if_match[0] != '\0')
                mr_request_header(request, "if-match", fetch->if_match);
}

/* All bytes are wanted again. */
static void fetch_forget(struct mr_fetch *fetch)
{
        if (fetch->progress != NULL && fetch->got > 0)
                fetch->progress(fetch->progress_arg, -(int64_t)fetch->got);
        fetch->got = 0;
        fetch->crc_begun = false;
        fetch->crc_known = false;
        fetch->crc_follows = false;
        fetch->tail_got = 0;
        if (fetch->sums != NULL)
                s3_sums_reset(fetch->sums);
}

static int fetch_retry(void *arg, struct mr_request *request)
{
        struct mr_fetch *fetch = MR_CAST(mr_fetch, arg);

        fetch->answered = false;
        if (fetch->crc_follows)
                fetch_forget(fetch);
        if (fetch->got > 0 && fetch->if_match[0] == '\0' && fetch->version_id == NULL) {
                fetch_forget(fetch); /* nothing says what version came: what follows may be of another */
                fetch->info_known = false;
                fetch->want = UINT64_MAX;
        }
        if (!fetch->info_known || fetch->want == 0)
                return 0;
        if (fetch->got >= fetch->want) /* all of it came, and the answer failed at its end */
                fetch_forget(fetch);
        fetch_ask(fetch);
        return 0;
}

/* ---- what is answered ------------------------------------------------------------------------ */

/* "bytes 5-9/20" */
struct extent {
        unsigned long long first, last, size;
};

static int read_content_range(const struct mr_response *response, struct extent *out)
{
        const char *text = mr_response_header(response, "content-range");

        if (text == NULL || sscanf(text, "bytes %llu-%llu/%llu", &out->first, &out->last, &out->size) != 3 ||
            out->last < out->first || out->last >= out->size)
                return -EPROTO;
        return 0;
}

/* Of the first answer: all that was asked for and is there, and nothing else. */
static int first_range(struct mr_fetch *fetch, const struct mr_response *response, uint64_t *len)
{
        struct extent come;
        uint64_t first = fetch->offset;
        int rv = read_content_range(response, &come);

        if (rv != 0)
                return rv;
        if (fetch->last != 0)
                first = come.size > fetch->last ? come.size - fetch->last : 0;
        if (come.first != first || come.last != (fetch->len < come.size - first ? first + fetch->len : come.size) - 1)
                return -EPROTO;
        fetch->offset = first;
        fetch->info.size = come.size;
        *len = come.last - first + 1;
        return 0;
}

/* Of an answer that goes on where another broke off. */
static int next_range(const struct mr_fetch *fetch, const struct mr_response *response)
{
        struct extent come;
        int rv = read_content_range(response, &come);

        if (rv == 0 && (come.first != fetch->offset + fetch->got || come.last != fetch->offset + fetch->want - 1))
                rv = -EPROTO;
        return rv;
}

static bool follows(const struct mr_response *response)
{
        const char *text = mr_response_header(response, "x-millrace-crc32c");

        return text != NULL && strcmp(text, "follows") == 0;
}

/* RDMA has carried the bytes: Content-Length is that of no body. */
static bool fetch_written(const struct mr_response *response, uint64_t *bytes)
{
        const char *transport = mr_response_header(response, "x-millrace-transport");
        const char *text = mr_response_header(response, "x-millrace-rdma-bytes");

        return transport != NULL && strcmp(transport, "rdma") == 0 && text != NULL &&
               s3_parse_uint(s3_str_of(text), INT64_MAX, bytes) == 0;
}

static int first_answer(struct mr_fetch *fetch, const struct mr_response *response)
{
        const char *version = mr_response_header(response, "x-amz-version-id");
        int rv = mr_info_of_answer(response, &fetch->info);
        uint64_t len;

        if (rv != 0)
                return rv;
        if (fetch_written(response, &len)) {
                fetch->info.size = len;
        } else if (follows(response)) {
                if (fetch->info.size < sizeof(fetch->tail))
                        return -EPROTO;
                fetch->info.size -= sizeof(fetch->tail);
        }
        len = fetch->info.size;
        if (fetch->ranged)
                rv = first_range(fetch, response, &len);
        if (rv != 0)
                return rv;
        fetch->info_known = true;
        if (fetch->write == NULL && len > fetch->room)
                return -EMSGSIZE;
        if (fetch->len != UINT64_MAX && len > fetch->len)
                return -EPROTO;
        fetch->want = len;
        if (fetch->if_match[0] == '\0' && fetch->info.etag[0] != '\0' && strncmp(fetch->info.etag, "W/", 2) != 0)
                mr_etag_quote(fetch->if_match, fetch->info.etag);
        if (fetch->version_id == NULL && version != NULL && strlen(version) < sizeof(fetch->version)) {
                snprintf(fetch->version, sizeof(fetch->version), "%s", version);
                fetch->version_id = fetch->version;
                mr_request_query(&fetch->request, "versionId", fetch->version);
        }
        if (!fetch->ranged && !fetch->summed && mr_info_checksum(&fetch->info, true, &fetch->sum_kind, fetch->wanted))
                fetch->has_wanted = true;
        if ((fetch->summed || fetch->has_wanted) && fetch->sums == NULL)
                return s3_sums_new(S3_CHECKSUM_BIT(fetch->sum_kind), &fetch->sums);
        return 0;
}

static void begin_crc(struct mr_fetch *fetch, const struct mr_response *response)
{
        const char *text = mr_response_header(response, "x-millrace-crc32c");
        uint8_t value[S3_CHECKSUM_MAX];

        if (fetch->crc_begun)
                return;
        fetch->crc_begun = true;
        fetch->crc_known = text != NULL && s3_checksum_parse(S3_CRC32C, s3_str_of(text), value) == 0;
        fetch->crc_from = fetch->got;
        fetch->crc = 0;
        fetch->crc_follows = follows(response);
        if (fetch->crc_known)
                fetch->crc_wanted = (uint32_t)s3_checksum_to_crc(S3_CRC32C, value);
        else if (fetch->crc_follows)
                fetch->crc_known = true; /* when it has come */
        else
                fetch->crc_begun = false; /* an answer that continues this one may name one */
}

/* Once for each answer, before its first byte or, where it has none, at its end. */
static int begin_answer(struct mr_fetch *fetch, const struct mr_response *response)
{
        int rv = 0;

        if (fetch->answered)
                return 0;
        fetch->answered = true;
        if (fetch->ranged && response->status != 206)
                return -EPROTO; /* these are other bytes than those asked for */
        if (!fetch->info_known)
                rv = first_answer(fetch, response);
        else if (fetch->ranged)
                rv = next_range(fetch, response);
        if (rv == 0)
                begin_crc(fetch, response);
        return rv;
}

/* What there is behind the object's bytes. */
static int fetch_take_tail(struct mr_fetch *fetch, const uint8_t *data, size_t len)
{
        if (!fetch->crc_follows || len > sizeof(fetch->tail) - fetch->tail_got)
                return -EPROTO;
        memcpy(fetch->tail + fetch->tail_got, data, len);
        fetch->tail_got += (unsigned)len;
        if (fetch->tail_got == sizeof(fetch->tail))
                fetch->crc_wanted = (uint32_t)s3_checksum_to_crc(S3_CRC32C, fetch->tail);
        return 0;
}

int mr_fetch_sink(void *arg, const struct mr_response *response, const void *data, size_t len)
{
        struct mr_fetch *fetch = MR_CAST(mr_fetch, arg);
        int rv = begin_answer(fetch, response);

        if (rv == 0 && len > fetch->want - fetch->got) {
                size_t own = (size_t)(fetch->want - fetch->got);

                rv = fetch_take_tail(fetch, (const uint8_t *)data + own, len - own);
                len = own;
        }
        if (rv != 0)
                return rv;
        if (fetch->write != NULL)
                rv = fetch->write(fetch->write_arg, fetch->got, data, len);
        else
                memcpy(fetch->memory + fetch->got, data, len);
        if (rv != 0)
                return rv;
        if (fetch->crc_known)
                fetch->crc = era_crc32c(fetch->crc, data, len);
        if (fetch->sums != NULL)
                s3_sums_update(fetch->sums, data, len);
        fetch->got += len;
        if (fetch->progress != NULL)
                fetch->progress(fetch->progress_arg, (int64_t)len);
        return 0;
}

static int fetch_check_sums(struct mr_fetch *fetch, struct mr_error *err)
{
        if (fetch->sums == NULL)
                return 0;
        s3_sums_final(fetch->sums);
        memcpy(fetch->sum, s3_sums_value(fetch->sums, fetch->sum_kind), s3_checksum_info(fetch->sum_kind)->len);
        if (!fetch->has_wanted)
                return 0;
        if (memcmp(fetch->sum, fetch->wanted, s3_checksum_info(fetch->sum_kind)->len) != 0) {
                mr_failure(err, -EBADMSG, "the bytes received do not match the object's %s",
                           s3_checksum_info(fetch->sum_kind)->algorithm);
                if (fetch->wire_verified)
                        return -EILSEQ; /* not the wire is wrong but the object: not to be tried again */
                fetch_forget(fetch);
                return -EBADMSG;
        }
        fetch->object_verified = true;
        return 0;
}

static int no_answer(struct mr_error *err, int rv)
{
        return mr_failure(err, rv,
                          rv == -EMSGSIZE ? "the object is larger than its place"
                                          : "the endpoint's answer is not one to a GET");
}

int mr_fetch_check(void *arg, const struct mr_response *response, struct mr_error *err)
{
        struct mr_fetch *fetch = MR_CAST(mr_fetch, arg);
        int rv = begin_answer(fetch, response);

        if (rv != 0)
                return no_answer(err, rv);
        if (fetch->got != fetch->want || (fetch->crc_follows && fetch->tail_got != sizeof(fetch->tail)))
                return mr_failure(err, -EPROTO, "the endpoint sent %llu bytes of %llu", (unsigned long long)fetch->got,
                                  (unsigned long long)fetch->want);
        if (fetch->crc_known && fetch->crc != fetch->crc_wanted) {
                fetch_forget(fetch);
                return mr_failure(err, -EBADMSG, "the bytes received do not match the answer's CRC32C");
        }
        fetch->wire_verified = fetch->crc_known && fetch->crc_from == 0;
        return fetch_check_sums(fetch, err);
}

/* From where RDMA has written it to where it is wanted. */
static int give_on(struct mr_fetch *fetch, const char *from)
{
        if (fetch->write != NULL)
                return fetch->write(fetch->write_arg, 0, from, (size_t)fetch->want);
        if (from != fetch->memory && fetch->memory != NULL)
                memcpy(fetch->memory, from, (size_t)fetch->want);
        return 0;
}

int mr_fetch_written(struct mr_fetch *fetch, const struct mr_response *response, const char *from, uint64_t bytes,
                     struct mr_error *err)
{
        int rv = begin_answer(fetch, response);

        if (rv != 0)
                return no_answer(err, rv);
        if (fetch->want != bytes || fetch->crc_follows)
                return mr_failure(err, -EPROTO, "the endpoint wrote %llu bytes where %llu were wanted",
                                  (unsigned long long)bytes, (unsigned long long)fetch->want);
        if (from != NULL && !fetch->crc_known)
                return mr_failure(err, -EPROTO, "the endpoint did not say what the CRC32C of its bytes is");
        fetch->crc = from != NULL ? era_crc32c(0, from, (size_t)bytes) : 0;
        if (from != NULL && fetch->crc != fetch->crc_wanted)
                return mr_failure(err, -EBADMSG, "the bytes received do not match the answer's CRC32C");
        fetch->wire_verified = from != NULL;
        rv = bytes > 0 && from != NULL ? give_on(fetch, from) : 0;
        if (rv != 0)
                return mr_failure_errno(err, rv);
        fetch->got = bytes;
        if (fetch->progress != NULL && bytes > 0)
                fetch->progress(fetch->progress_arg, (int64_t)bytes);
        if (fetch->sums != NULL && from != NULL)
                s3_sums_update(fetch->sums, from, (size_t)bytes);
        return from != NULL ? fetch_check_sums(fetch, err) : 0;
}

/* The words for a GET of what is "a condition does not hold" elsewhere. */
int mr_fetch_explain(struct mr_fetch *fetch, int rv)
{
        struct mr_error *err = &fetch->error;

        if (err->http_status == 412 || (err->http_status == 416 && fetch->if_match[0] != '\0'))
                return mr_failure(err, -ESTALE, "the object changed while it was read");
        if (err->http_status == 416)
                return mr_failure(err, -ERANGE, "the range begins behind the object's end");
        if (rv == -EMSGSIZE)
                return mr_failure(err, rv, "the object's %llu bytes do not fit their place",
                                  (unsigned long long)fetch->info.size);
        return rv == -EILSEQ ? -EBADMSG : rv;
}

static void fetched(void *arg, struct mr_request *request, int rv)
{
        struct mr_fetch *fetch = MR_CAST(mr_fetch, arg);

        fetch->error = request->error;
        s3_sums_free(fetch->sums);
        fetch->sums = NULL;
        mr_response_free(&request->response);
        fetch->carried = MR_TRANSPORT_TCP;
        fetch->done(fetch->done_arg, fetch, rv == 0 ? 0 : mr_fetch_explain(fetch, rv));
}

void mr_fetch_request(struct mr_fetch *fetch)
{
        struct mr_request *request = &fetch->request;

        memset(request, 0, sizeof(*request));
        request->method = "GET";
        request->bucket = fetch->bucket;
        request->key = fetch->key;
        request->stop = fetch->stop;
        request->canceled = fetch->canceled;
        request->sink_arg = fetch;
        mr_request_header(request, "x-amz-checksum-mode", "ENABLED");
        mr_request_header(request, "x-millrace-crc32c", "follows");
        if (fetch->version_id != NULL)
                mr_request_query(request, "versionId", fetch->version_id);
        fetch_ask(fetch);
}

void mr_fetch_begin_again(struct mr_fetch *fetch)
{
        fetch_forget(fetch);
        fetch->info_known = false;
        fetch->answered = false;
        fetch->want = UINT64_MAX;
}

int mr_fetch_tcp(struct mr_client *client, struct mr_fetch *fetch)
{
        struct mr_request *request = &fetch->request;
        int rv;

        if (fetch->memory == NULL && fetch->write == NULL)
                return mr_failure(&fetch->error, -EOPNOTSUPP, "only RDMA reaches this memory");
        mr_fetch_request(fetch);
        request->sink = mr_fetch_sink;
        request->check = mr_fetch_check;
        request->again = fetch_retry;
        request->done = fetched;
        request->done_arg = fetch;
        rv = mr_request_start(client, request);
        if (rv != 0)
                fetch->error = request->error;
        return rv;
}
