/*
 * test_put.c - uploads to a server of the test's own: what is sent and with which checksums, what
 * is tried again, and that an upload in parts that fails is aborted.
 */
#include "tests/unit/client/fake_s3.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "s3.h"

#define LARGE (12u << 20)
#define PART  (5u << 20)

/* The server: keeps what it gets, and fails as told. */
struct store {
        char *data; /* of the object */
        size_t len;
        char *part[16]; /* of the upload */
        size_t part_len[16];
        unsigned puts, creates, completes, aborts, parts;
        int fail_part;      /* this part number is refused with 400, once or for ever */
        unsigned slow_puts; /* so many PUTs get a 503 first */
        bool no_upload_id, no_etag, bad_digest;
        int complete_mode;   /* 0: well; 1: an error inside a 200 first; 2: nonsense; 3: refused inside a 200 */
        int truncate_fd;     /* file to cut short when the upload begins; -1: none */
        char head[4096];     /* of the last PUT or Create */
        char complete[4096]; /* document of the last Complete */
        char complete_head[4096];
};

static void store_part(struct store *store, const struct fake_request *request, unsigned number,
                       struct fake_reply *reply)
{
        assert_true(number >= 1 && number <= 16);
        store->parts++;
        if (store->fail_part == (int)number) {
                fake_error(reply, 400, "InvalidArgument");
                return;
        }
        free(store->part[number - 1]);
        store->part[number - 1] = malloc(request->body_len + 1);
        memcpy(store->part[number - 1], request->body, request->body_len);
        store->part_len[number - 1] = request->body_len;
        if (!store->no_etag)
                snprintf(reply->headers, sizeof(reply->headers), "ETag: \"p%u\"\r\n", number);
}

static void store_complete(struct store *store, const struct fake_request *request, struct fake_reply *reply)
{
        size_t len = 0;

        store->completes++;
        snprintf(store->complete, sizeof(store->complete), "%s", request->body);
        snprintf(store->complete_head, sizeof(store->complete_head), "%s", request->head);
        if (store->complete_mode == 1 && store->completes == 1) {
                fake_error(reply, 200, "InternalError");
                return;
        }
        if (store->complete_mode == 2) {
                fake_text(reply, "what?");
                return;
        }
        if (store->complete_mode == 3) {
                fake_error(reply, 200, "InvalidPart");
                return;
        }
        store->data = malloc(LARGE * 2);
        for (int i = 0; i < 16 && store->part[i] != NULL; i++) {
                memcpy(store->data + len, store->part[i], store->part_len[i]);
                len += store->part_len[i];
        }
        store->len = len;
        fake_text(reply, "  \n<?xml version=\"1.0\"?><CompleteMultipartUploadResult><ETag>&quot;whole-3&quot;</ETag>"
                         "</CompleteMultipartUploadResult>");
}

static void serve_store(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        struct store *store = arg;
        const char *part = strstr(request->target, "partNumber=");

        if (strcmp(request->method, "PUT") == 0 && store->slow_puts > 0) {
                store->slow_puts--;
                fake_error(reply, 503, "SlowDown");
        } else if (part != NULL) {
                store_part(store, request, (unsigned)atoi(part + 11), reply);
        } else if (strcmp(request->method, "PUT") == 0) {
                store->puts++;
                snprintf(store->head, sizeof(store->head), "%s", request->head);
                free(store->data);
                store->data = malloc(request->body_len + 1);
                memcpy(store->data, request->body, request->body_len);
                store->len = request->body_len;
                snprintf(reply->headers, sizeof(reply->headers), "ETag: \"single\"\r\n");
                if (store->bad_digest)
                        fake_error(reply, 400, "BadDigest");
        } else if (strcmp(request->method, "DELETE") == 0) {
                store->aborts++;
                reply->status = 204;
        } else if (strstr(request->target, "?uploads") != NULL) {
                store->creates++;
                snprintf(store->head, sizeof(store->head), "%s", request->head);
                if (store->truncate_fd >= 0)
                        assert_int_equal(ftruncate(store->truncate_fd, 1000), 0);
                fake_text(reply, store->no_upload_id ? "<InitiateMultipartUploadResult/>"
                                                     : "<InitiateMultipartUploadResult><UploadId>u&amp;1</UploadId>"
                                                       "</InitiateMultipartUploadResult>");
        } else {
                assert_non_null(strstr(request->target, "uploadId=u%261"));
                store_complete(store, request, reply);
        }
}

static void store_free(struct store *store)
{
        free(store->data);
        for (int i = 0; i < 16; i++)
                free(store->part[i]);
}

static char *content(size_t len)
{
        char *data = malloc(len + 1);

        for (size_t i = 0; i < len; i++)
                data[i] = (char)(i * 2654435761u >> 11);
        return data;
}

static void count(void *arg, int64_t delta)
{
        atomic_fetch_add((_Atomic int64_t *)arg, delta);
}

struct outcome {
        int rv;
        struct mr_put_fd_result result;
        struct mr_error err;
        int64_t progress;
        char sum[S3_CHECKSUM_TEXT]; /* CRC64NVME of the bytes */
};

struct feeding {
        int fd;
        const char *data;
        size_t len;
};

static void *feed(void *arg)
{
        struct feeding *feeding = arg;
        size_t at = 0;

        while (at < feeding->len) {
                ssize_t n = write(feeding->fd, feeding->data + at, feeding->len - at);

                if (n <= 0)
                        break;
                at += (size_t)n;
        }
        close(feeding->fd);
        return NULL;
}

/*
 * Uploads so many bytes, from a file or through a pipe, and compares what the store has where it
 * went well.
 */
static struct outcome upload(struct store *store, size_t len, bool pipe_in, bool if_none_match)
{
        static const struct mr_header meta[] = {{(char *)"colour", (char *)"red"}};
        struct outcome outcome = {0};
        _Atomic int64_t progress = 0;
        char *data = content(len);
        struct feeding feeding = {.data = data, .len = len};
        struct mr_put_fd put = {
                .bucket = "bkt",
                .key = "k",
                .content_type = "text/plain",
                .metadata = meta,
                .metadata_count = 1,
                .if_none_match = if_none_match,
                .progress = count,
                .progress_arg = &progress,
        };
        struct s3_sums *sums;
        struct mr_client *client;
        struct fake_s3 fake;
        FILE *file = tmpfile();
        pthread_t thread;
        int ends[2];

        assert_int_equal(s3_sums_new(S3_CHECKSUM_BIT(S3_CRC64NVME), &sums), 0);
        s3_sums_update(sums, data, len);
        s3_sums_final(sums);
        s3_checksum_format(S3_CRC64NVME, s3_sums_value(sums, S3_CRC64NVME), 0, outcome.sum);
        s3_sums_free(sums);
        fake_start(&fake, serve_store, store);
        client = fake_client(&fake, 3);
        if (pipe_in) {
                assert_int_equal(pipe(ends), 0);
                feeding.fd = ends[1];
                assert_int_equal(pthread_create(&thread, NULL, feed, &feeding), 0);
                put.fd = ends[0];
        } else {
                assert_int_equal(fwrite(data, 1, len, file), len);
                rewind(file);
                put.fd = fileno(file);
                if (store->truncate_fd == 0)
                        store->truncate_fd = put.fd;
        }
        outcome.rv = mr_put_fd(client, &put, &outcome.result, &outcome.err);
        outcome.progress = progress;
        if (pipe_in) {
                close(ends[0]);
                pthread_join(thread, NULL);
        }
        mr_client_free(client);
        fake_stop(&fake);
        if (outcome.rv == 0) {
                assert_int_equal(store->len, len);
                assert_int_equal(memcmp(store->data, data, len), 0);
                assert_int_equal(outcome.result.size, len);
                assert_int_equal(outcome.progress, len);
        }
        fclose(file);
        free(data);
        return outcome;
}

static bool has_line(const char *head, const char *name, const char *value)
{
        struct fake_request request = {.head = head};
        char found[512];

        return strcmp(fake_header(&request, name, found), value) == 0;
}

static void small_files_are_one_request(void **state)
{
        for (int pipe_in = 0; pipe_in < 2; pipe_in++) {
                struct store store = {.truncate_fd = -1, .slow_puts = 1};
                struct outcome outcome = upload(&store, 1000, pipe_in == 1, pipe_in == 1);

                assert_int_equal(outcome.rv, 0);
                assert_int_equal(store.puts, 1);
                assert_int_equal(outcome.result.parts, 0);
                assert_string_equal(outcome.result.etag, "single");
                assert_true(has_line(store.head, "x-amz-checksum-crc64nvme", outcome.sum));
                assert_true(has_line(store.head, "content-type", "text/plain"));
                assert_true(has_line(store.head, "x-amz-meta-colour", "red"));
                assert_true(has_line(store.head, "if-none-match", pipe_in == 1 ? "*" : ""));
                assert_false(has_line(store.head, "x-amz-content-sha256", "UNSIGNED-PAYLOAD"));
                store_free(&store);
        }
}

static void nothing_at_all_can_be_stored(void **state)
{
        for (int pipe_in = 0; pipe_in < 2; pipe_in++) {
                struct store store = {.truncate_fd = -1};
                struct outcome outcome = upload(&store, 0, pipe_in == 1, false);

                assert_int_equal(outcome.rv, 0);
                assert_true(has_line(store.head, "content-length", "0"));
                store_free(&store);
        }
}

static void large_files_go_in_parts(void **state)
{
        for (int pipe_in = 0; pipe_in < 2; pipe_in++) {
                struct store store = {.truncate_fd = -1, .slow_puts = 2, .complete_mode = 1};
                struct outcome outcome = upload(&store, LARGE, pipe_in == 1, true);

                assert_int_equal(outcome.rv, 0);
                assert_int_equal(outcome.result.parts, 3);
                assert_string_equal(outcome.result.etag, "whole-3");
                assert_int_equal(store.part_len[0], PART);
                assert_int_equal(store.part_len[2], LARGE - 2 * PART);
                assert_int_equal(store.creates, 1);
                assert_int_equal(store.completes, 2); /* the first answered InternalError inside a 200 */
                assert_int_equal(store.aborts, 0);
                assert_true(has_line(store.head, "x-amz-checksum-algorithm", "CRC64NVME"));
                assert_true(has_line(store.head, "x-amz-checksum-type", "FULL_OBJECT"));
                assert_true(has_line(store.head, "x-amz-meta-colour", "red"));
                assert_true(has_line(store.complete_head, "x-amz-checksum-crc64nvme", outcome.sum));
                assert_true(has_line(store.complete_head, "x-amz-mp-object-size", "12582912"));
                assert_true(has_line(store.complete_head, "if-none-match", "*"));
                assert_non_null(strstr(store.complete, "<ETag>&quot;p1&quot;</ETag><PartNumber>1</PartNumber>"));
                assert_non_null(strstr(store.complete, "<ChecksumCRC64NVME>"));
                store_free(&store);
        }
}

/* Every way an upload in parts can fail ends in one abort and the first error. */
static void failed_uploads_are_aborted(void **state)
{
        static const struct {
                struct store store;
                int rv;
        } cases[] = {
                {{.truncate_fd = -1, .fail_part = 2}, -EINVAL},
                {{.truncate_fd = -1, .no_etag = true}, -EPROTO},
                {{.truncate_fd = -1, .complete_mode = 2}, -EPROTO},
                {{.truncate_fd = -1, .complete_mode = 3}, -EREMOTEIO},
                {{.truncate_fd = -1, .slow_puts = 1000}, -EBUSY},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                for (int pipe_in = 0; pipe_in < 2; pipe_in++) {
                        struct store store = cases[i].store;
                        struct outcome outcome = upload(&store, LARGE, pipe_in == 1, false);

                        assert_int_equal(outcome.rv, cases[i].rv);
                        assert_int_equal(outcome.err.code, cases[i].rv);
                        assert_int_equal(store.aborts, 1);
                        assert_int_equal(store.completes, cases[i].store.complete_mode != 0);
                        store_free(&store);
                }
        }
}

static void a_file_cut_short_meanwhile_is_noticed(void **state)
{
        struct store store = {.truncate_fd = 0}; /* 0: the file that is uploaded */
        struct outcome outcome = upload(&store, LARGE, false, false);

        assert_int_equal(outcome.rv, -ESTALE);
        assert_int_equal(store.aborts, 1);
        assert_int_equal(store.completes, 0);
        store_free(&store);
}

static void an_upload_without_an_id_never_begins(void **state)
{
        struct store store = {.truncate_fd = -1, .no_upload_id = true};
        struct outcome outcome = upload(&store, LARGE, false, false);

        assert_int_equal(outcome.rv, -EPROTO);
        assert_int_equal(store.parts, 0);
        assert_int_equal(store.aborts, 0);
        store_free(&store);
}

static void bytes_damaged_on_the_way_are_sent_again(void **state)
{
        struct store store = {.truncate_fd = -1, .bad_digest = true};
        struct outcome outcome = upload(&store, 1000, false, false);

        assert_int_equal(outcome.rv, -EBADMSG);
        assert_int_equal(store.puts, 3);
        assert_int_equal(outcome.progress, 0); /* what an attempt sent is taken back when it failed */
        store_free(&store);
}

static void what_cannot_be_read_is_refused(void **state)
{
        struct store store = {.truncate_fd = -1};
        struct mr_put_fd put = {.bucket = "bkt", .key = "k", .fd = -1};
        struct mr_put_fd_result result;
        struct mr_client *client;
        struct mr_error err;
        struct fake_s3 fake;
        FILE *folder = fopen("/tmp", "r");

        fake_start(&fake, serve_store, &store);
        client = fake_client(&fake, 1);
        assert_int_equal(mr_put_fd(client, &put, &result, &err), -EBADF);
        put.fd = fileno(folder);
        assert_int_equal(mr_put_fd(client, &put, &result, &err), -EISDIR);
        assert_int_equal(fake.requests, 0);
        mr_client_free(client);
        fake_stop(&fake);
        fclose(folder);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(small_files_are_one_request),
                cmocka_unit_test(nothing_at_all_can_be_stored),
                cmocka_unit_test(large_files_go_in_parts),
                cmocka_unit_test(failed_uploads_are_aborted),
                cmocka_unit_test(a_file_cut_short_meanwhile_is_noticed),
                cmocka_unit_test(an_upload_without_an_id_never_begins),
                cmocka_unit_test(bytes_damaged_on_the_way_are_sent_again),
                cmocka_unit_test(what_cannot_be_read_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
