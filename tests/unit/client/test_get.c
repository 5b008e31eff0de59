/*
 * test_get.c - downloads from a server of the test's own that hangs up halfway, sends other bytes,
 * changes the object, or ignores ranges.
 */
#include "tests/unit/client/fake_s3.h"

#include <errno.h>
#include <stdatomic.h>

#include "ec.h"
#include "s3.h"

#define LARGE (12u << 20) /* three ranges of 5 MiB at most */

/* The one object of the server, and what it does wrong. */
struct object {
        char *data;
        size_t len;
        enum s3_checksum kind;
        bool no_sum, wrong_sum, composite;
        int answer_sum;            /* each answer names its own CRC32C: 1, rightly; 2, wrongly */
        unsigned cut_from, cut_to; /* requests with these numbers get half of the body */
        bool ignore_ranges;        /* answers 200 with everything */
        unsigned change_at;        /* from this request on If-Match fails; 0: never */
        unsigned gets, heads, ranges_resumed;
        uint64_t asked;    /* bytes of all ranges asked for */
        bool other_length; /* ranges are a byte short */
};

static void object_make(struct object *object, size_t len)
{
        memset(object, 0, sizeof(*object));
        object->data = malloc(len + 1);
        object->len = len;
        object->kind = S3_CRC64NVME;
        for (size_t i = 0; i < len; i++)
                object->data[i] = (char)(i * 2654435761u >> 13);
}

static void object_headers(const struct object *object, bool whole, struct fake_reply *reply)
{
        char text[S3_CHECKSUM_TEXT], line[256] = "";
        struct s3_sums *sums;

        if (whole && !object->no_sum) {
                assert_int_equal(s3_sums_new(S3_CHECKSUM_BIT(object->kind), &sums), 0);
                s3_sums_update(sums, object->data, object->len);
                if (object->wrong_sum)
                        s3_sums_update(sums, "x", 1);
                s3_sums_final(sums);
                s3_checksum_format(object->kind, s3_sums_value(sums, object->kind), object->composite ? 2 : 0, text);
                s3_sums_free(sums);
                snprintf(line, sizeof(line), "%s: %s\r\n", s3_checksum_info(object->kind)->header, text);
        }
        snprintf(reply->headers, sizeof(reply->headers),
                 "ETag: \"e1\"\r\nLast-Modified: Fri, 24 May 2013 00:00:00 GMT\r\n%s", line);
}

static void serve_object(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        struct object *object = arg;
        unsigned long long first = 0, last = object->len == 0 ? 0 : object->len - 1;
        bool head = strcmp(request->method, "HEAD") == 0;
        char range[512], match[512];
        bool ranged;

        object->gets += !head;
        object->heads += head;
        fake_header(request, "If-Match", match);
        if (object->change_at != 0 && request->number >= object->change_at && match[0] != '\0') {
                fake_error(reply, 412, "PreconditionFailed");
                return;
        }
        ranged = !object->ignore_ranges &&
                 sscanf(fake_header(request, "Range", range), "bytes=%llu-%llu", &first, &last) == 2;
        reply->status = ranged ? 206 : 200;
        object_headers(object, !ranged, reply);
        if (ranged)
                snprintf(reply->headers + strlen(reply->headers), sizeof(reply->headers) - strlen(reply->headers),
                         "Content-Range: bytes %llu-%llu/%zu\r\n", first, last, object->len);
        fake_body(reply, object->data + first, object->len == 0 ? 0 : last + 1 - first);
        if (object->answer_sum != 0) {
                uint8_t value[S3_CHECKSUM_MAX];
                char text[S3_CHECKSUM_TEXT];
                size_t used = strlen(reply->headers);

                s3_checksum_from_crc(S3_CRC32C, era_crc32c(object->answer_sum == 2, reply->body, reply->body_len),
                                     value);
                s3_checksum_format(S3_CRC32C, value, 0, text);
                snprintf(reply->headers + used, sizeof(reply->headers) - used, "x-millrace-crc32c: %s\r\n", text);
        }
        object->asked += ranged ? last + 1 - first : 0;
        if (ranged && object->other_length)
                reply->body_len--;
        if (!head && request->number >= object->cut_from && request->number <= object->cut_to)
                reply->send = reply->body_len / 2;
        if (ranged && first % (5u << 20) != 0)
                object->ranges_resumed++;
}

struct outcome {
        int rv;
        struct mr_get_fd_result result;
        struct mr_error err;
        int64_t progress;
        bool equal;
};

static void count(void *arg, int64_t delta)
{
        atomic_fetch_add((_Atomic int64_t *)arg, delta);
}

/* Fetches the object into a temporary file; known: size and ETag are given. */
static struct outcome fetch(struct object *object, bool stream, bool known, unsigned attempts)
{
        struct outcome outcome = {0};
        _Atomic int64_t progress = 0;
        struct mr_get_fd get = {
                .bucket = "bkt",
                .key = "k",
                .size = known ? (int64_t)object->len : -1,
                .etag = known ? "e1" : NULL,
                .progress = count,
                .progress_arg = &progress,
        };
        FILE *file = tmpfile();
        char *found = malloc(object->len + 1);
        struct mr_client *client;
        struct fake_s3 fake;

        fake_start(&fake, serve_object, object);
        client = fake_client(&fake, attempts);
        if (stream)
                outcome.rv = mr_get_stream(client, &get, fileno(file), &outcome.result, &outcome.err);
        else
                outcome.rv = mr_get_file(client, &get, fileno(file), &outcome.result, &outcome.err);
        outcome.progress = progress;
        outcome.equal = pread(fileno(file), found, object->len + 1, 0) == (ssize_t)object->len &&
                        memcmp(found, object->data, object->len) == 0;
        mr_client_free(client);
        fake_stop(&fake);
        fclose(file);
        free(found);
        free(object->data);
        return outcome;
}

static void small_objects_come_whole_and_verified(void **state)
{
        for (unsigned kind = 0; kind < S3_CHECKSUM_KINDS; kind++) {
                struct object object;
                struct outcome outcome;

                object_make(&object, 1000);
                object.kind = (enum s3_checksum)kind;
                outcome = fetch(&object, kind % 2 == 0, true, 1);
                assert_int_equal(outcome.rv, 0);
                assert_true(outcome.equal);
                assert_true(outcome.result.verified);
                assert_int_equal(outcome.result.size, 1000);
                assert_int_equal(outcome.result.mtime_s, 1369353600);
                assert_int_equal(outcome.progress, 1000);
                assert_int_equal(object.gets, 1);
                assert_int_equal(object.heads, 0);
        }
}

static void empty_objects(void **state)
{
        struct object object;
        struct outcome outcome;

        for (int known = 0; known < 2; known++) {
                object_make(&object, 0);
                outcome = fetch(&object, false, known == 1, 1);
                assert_int_equal(outcome.rv, 0);
                assert_true(outcome.equal);
                assert_true(outcome.result.verified);
        }
}

static void wrong_bytes_are_found(void **state)
{
        for (int large = 0; large < 2; large++) {
                for (int stream = 0; stream < 2; stream++) {
                        struct object object;
                        struct outcome outcome;

                        object_make(&object, large ? LARGE : 1000);
                        object.wrong_sum = true;
                        outcome = fetch(&object, stream == 1, false, 3);
                        assert_int_equal(outcome.rv, -EBADMSG);
                        assert_false(outcome.result.verified);
                        assert_non_null(strstr(outcome.err.message, "CRC64NVME"));
                }
        }
}

static void the_sum_of_one_answer_is_compared(void **state)
{
        for (int large = 0; large < 2; large++) {
                for (int sum = 1; sum <= 2; sum++) {
                        struct object object;
                        struct outcome outcome;

                        object_make(&object, large ? LARGE : 1000);
                        object.no_sum = true; /* the object itself has none */
                        object.answer_sum = sum;
                        object.cut_from = object.cut_to = 2;
                        outcome = fetch(&object, false, true, 3);
                        assert_int_equal(outcome.rv, sum == 1 ? 0 : -EBADMSG);
                }
        }
}

static void without_a_checksum_of_the_bytes_nothing_is_claimed(void **state)
{
        struct object object;
        struct outcome outcome;

        object_make(&object, 1000);
        object.no_sum = true;
        outcome = fetch(&object, false, true, 1);
        assert_int_equal(outcome.rv, 0);
        assert_false(outcome.result.verified);
        object_make(&object, LARGE);
        object.kind = S3_CRC32C;
        object.composite = true;
        outcome = fetch(&object, false, true, 1);
        assert_int_equal(outcome.rv, 0);
        assert_true(outcome.equal);
        assert_false(outcome.result.verified);
        object_make(&object, LARGE); /* a digest cannot be put together from ranges */
        object.kind = S3_SHA256;
        outcome = fetch(&object, false, true, 1);
        assert_int_equal(outcome.rv, 0);
        assert_false(outcome.result.verified);
}

static void a_broken_download_goes_on_where_it_stopped(void **state)
{
        struct object object;
        struct outcome outcome;

        for (int stream = 0; stream < 2; stream++) {
                object_make(&object, 100000);
                object.cut_from = 1;
                object.cut_to = 2;
                outcome = fetch(&object, stream == 1, true, 5);
                assert_int_equal(outcome.rv, 0);
                assert_true(outcome.equal);
                assert_true(outcome.result.verified);
                assert_int_equal(outcome.progress, 100000);
                assert_int_equal(object.gets, 3);
                assert_int_equal(object.ranges_resumed, 2);
                assert_int_equal(object.asked, 50000 + 25000);
        }
}

static void it_does_not_go_on_for_ever(void **state)
{
        struct object object;
        struct outcome outcome;

        object_make(&object, 100000);
        object.cut_from = 1;
        object.cut_to = 100;
        outcome = fetch(&object, false, true, 3);
        assert_int_equal(outcome.rv, -EIO);
        assert_int_equal(object.gets, 3);
}

static void other_bytes_than_asked_for_are_refused(void **state)
{
        struct object object;
        struct outcome outcome;

        object_make(&object, 100000); /* the rest is asked for, the whole comes */
        object.cut_from = 1;
        object.cut_to = 1;
        object.ignore_ranges = true;
        outcome = fetch(&object, false, true, 3);
        assert_int_equal(outcome.rv, -EPROTO);
        object_make(&object, LARGE);
        object.ignore_ranges = true;
        outcome = fetch(&object, false, true, 3);
        assert_int_equal(outcome.rv, -EPROTO);
        object_make(&object, LARGE);
        object.other_length = true;
        outcome = fetch(&object, false, true, 3);
        assert_int_equal(outcome.rv, -EPROTO);
}

static void large_objects_come_in_parallel(void **state)
{
        for (int stream = 0; stream < 2; stream++) {
                struct object object;
                struct outcome outcome;

                object_make(&object, LARGE);
                object.kind = stream == 1 ? S3_CRC32 : S3_CRC32C;
                object.cut_from = 3; /* the first of the ranges is the second request: a HEAD comes before */
                object.cut_to = 4;
                outcome = fetch(&object, stream == 1, false, 5);
                assert_int_equal(outcome.rv, 0);
                assert_true(outcome.equal);
                assert_true(outcome.result.verified);
                assert_int_equal(outcome.progress, LARGE);
                assert_int_equal(object.gets, 3 + 2);
                assert_int_equal(object.heads, 1);
        }
}

static void a_changed_object_is_noticed(void **state)
{
        struct object object;
        struct outcome outcome;

        object_make(&object, LARGE);
        object.change_at = 3;
        outcome = fetch(&object, false, false, 3);
        assert_int_equal(outcome.rv, -ESTALE);
        object_make(&object, 1000);
        object.change_at = 1;
        outcome = fetch(&object, false, true, 3);
        assert_int_equal(outcome.rv, -ESTALE);
        object_make(&object, LARGE);
        object.change_at = 2;
        outcome = fetch(&object, true, false, 3);
        assert_int_equal(outcome.rv, -ESTALE);
}

static void a_target_that_takes_no_bytes(void **state)
{
        struct object object;
        struct mr_get_fd get = {.bucket = "bkt", .key = "k", .size = -1};
        struct mr_get_fd_result result;
        struct mr_client *client;
        struct mr_error err;
        struct fake_s3 fake;
        FILE *full = fopen("/dev/full", "w");

        assert_non_null(full);
        for (int large = 0; large < 2; large++) {
                object_make(&object, large ? LARGE : 1000);
                fake_start(&fake, serve_object, &object);
                client = fake_client(&fake, 3);
                assert_int_equal(mr_get_stream(client, &get, fileno(full), &result, &err), -ENOSPC);
                assert_int_equal(mr_get_file(client, &get, -1, &result, &err), -EBADF);
                mr_client_free(client);
                fake_stop(&fake);
                free(object.data);
        }
        fclose(full);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(small_objects_come_whole_and_verified),
                cmocka_unit_test(empty_objects),
                cmocka_unit_test(wrong_bytes_are_found),
                cmocka_unit_test(the_sum_of_one_answer_is_compared),
                cmocka_unit_test(without_a_checksum_of_the_bytes_nothing_is_claimed),
                cmocka_unit_test(a_broken_download_goes_on_where_it_stopped),
                cmocka_unit_test(it_does_not_go_on_for_ever),
                cmocka_unit_test(other_bytes_than_asked_for_are_refused),
                cmocka_unit_test(large_objects_come_in_parallel),
                cmocka_unit_test(a_changed_object_is_noticed),
                cmocka_unit_test(a_target_that_takes_no_bytes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
