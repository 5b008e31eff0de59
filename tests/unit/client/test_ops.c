/*
 * test_ops.c - the operations of millrace.h against a server of the test's own that replaces,
 * damages and cuts what is read: results, queues, batches, buffers, cancellation.
 */
#include "tests/unit/client/fake_store.h"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>

#define LARGE (12u << 20) /* three parts of 5 MiB at most */

struct fixture {
        struct store store;
        struct fake_s3 fake;
        struct mr_client *client;
        char *place;
};

static void set_up(struct fixture *f, size_t len, unsigned attempts)
{
        store_make(&f->store, len);
        fake_start(&f->fake, store_serve, &f->store);
        f->client = store_client(&f->fake, attempts);
        f->place = calloc(1, len + 100);
}

static void tear_down(struct fixture *f)
{
        mr_client_free(f->client);
        fake_stop(&f->fake);
        store_free(&f->store);
        free(f->place);
}

static struct mr_get get_of(struct fixture *f, size_t room)
{
        return (struct mr_get){.bucket = "bkt", .key = "obj", .place = {.memory = f->place, .len = room}};
}

/* ---- gets ------------------------------------------------------------------------------------ */

static void whole_objects_are_verified_twice(void **state)
{
        static const size_t sizes[] = {0, 1, 1000, 5u << 20, LARGE};

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                struct mr_result result;
                struct fixture f;
                struct mr_get get;

                set_up(&f, sizes[i], 3);
                get = get_of(&f, sizes[i] + 100);
                assert_int_equal(mr_get(f.client, &get, &result), 0);
                assert_int_equal(result.bytes, sizes[i]);
                assert_int_equal(result.object.size, sizes[i]);
                assert_string_equal(result.object.etag, "g1");
                assert_int_equal(result.transport, MR_TRANSPORT_TCP);
                assert_true(result.wire_verified);
                assert_true(result.object_verified);
                assert_true(store_is(&f.store, f.place, 0, sizes[i], 1));
                tear_down(&f);
        }
}

static void ranges_come_as_asked_for(void **state)
{
        static const struct {
                uint64_t offset, len, last, from, bytes;
        } cases[] = {
                {0, 10, 0, 0, 10},
                {LARGE - 5, 10, 0, LARGE - 5, 5},
                {7, 0, 0, 7, LARGE - 7},
                {3, 11u << 20, 0, 3, 11u << 20},
                {0, 0, 100, LARGE - 100, 100},
                {0, 0, 11u << 20, LARGE - (11u << 20), 11u << 20},
                {0, 0, LARGE + 50, 0, LARGE},
        };
        struct fixture f;

        set_up(&f, LARGE, 3);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct mr_get get = get_of(&f, LARGE + 100);
                struct mr_result result;

                get.offset = cases[i].offset;
                get.len = cases[i].len;
                get.last = cases[i].last;
                assert_int_equal(mr_get(f.client, &get, &result), 0);
                assert_int_equal(result.bytes, cases[i].bytes);
                assert_int_equal(result.object.size, LARGE);
                assert_true(result.wire_verified);
                assert_true(store_is(&f.store, f.place, cases[i].from, cases[i].bytes, 1));
        }
        tear_down(&f);
}

static void what_cannot_be_is_told(void **state)
{
        struct mr_result result;
        struct fixture f;
        struct mr_get get;

        set_up(&f, LARGE, 3);
        get = get_of(&f, 1000); /* one request: it breaks off */
        assert_int_equal(mr_get(f.client, &get, &result), -EMSGSIZE);
        assert_int_equal(result.object.size, LARGE);
        assert_true(f.place[0] == 0 && memcmp(f.place, f.place + 1, LARGE) == 0);
        get = get_of(&f, 6u << 20); /* asked first */
        assert_int_equal(mr_get(f.client, &get, &result), -EMSGSIZE);
        assert_int_equal(result.object.size, LARGE);
        get = get_of(&f, 10);
        get.offset = LARGE;
        get.len = 10;
        assert_int_equal(mr_get(f.client, &get, &result), -ERANGE);
        get = get_of(&f, LARGE);
        get.offset = LARGE;
        assert_int_equal(mr_get(f.client, &get, &result), -ERANGE);
        get = get_of(&f, 10);
        get.transport = MR_TRANSPORT_RDMA;
        assert_int_equal(mr_get(f.client, &get, &result), -EOPNOTSUPP);
        assert_non_null(strstr(result.error.message, "RDMA"));
        get = get_of(&f, 10);
        get.len = 11;
        assert_int_equal(mr_get(f.client, &get, &result), -EINVAL);
        get = get_of(&f, 10);
        get.reserved[1] = 1;
        assert_int_equal(mr_get(f.client, &get, &result), -EINVAL);
        f.store.lack_at = f.store.gets + 1;
        get = get_of(&f, 10);
        assert_int_equal(mr_get(f.client, &get, &result), -ENOENT);
        assert_string_equal(result.error.s3_code, "NoSuchKey");
        tear_down(&f);
}

static void a_broken_answer_is_continued_and_still_verified(void **state)
{
        struct mr_result result;
        struct fixture f;
        struct mr_get get;

        set_up(&f, 100000, 5);
        f.store.cut_from = 1;
        f.store.cut_to = 2;
        get = get_of(&f, 100000);
        assert_int_equal(mr_get(f.client, &get, &result), 0);
        assert_true(result.wire_verified);
        assert_true(result.object_verified);
        assert_true(store_is(&f.store, f.place, 0, 100000, 1));
        assert_int_equal(f.store.gets, 3);
        assert_int_equal(f.store.with_match, 2);
        tear_down(&f);
}

/* The byte is damaged in what came before the break: only the CRC of the first answer can tell. */
static void damage_before_a_break_is_found(void **state)
{
        struct mr_result result;
        struct fixture f;
        struct mr_get get;

        set_up(&f, 100000, 5);
        f.store.no_sum = true;
        f.store.fail_from = f.store.fail_to = 2;
        get = get_of(&f, 99999);
        get.len = 99999;
        f.store.damage_from = f.store.damage_to = 1;
        assert_int_equal(mr_get(f.client, &get, &result), 0);
        assert_true(result.wire_verified);
        assert_false(result.object_verified);
        assert_true(store_is(&f.store, f.place, 0, 99999, 1));
        assert_int_equal(f.store.gets, 3);
        tear_down(&f);
}

static void a_crc_may_follow_the_bytes(void **state)
{
        static const size_t sizes[] = {0, 1, 1000, 300000, LARGE};

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                struct mr_result result;
                struct fixture f;
                struct mr_get get;

                set_up(&f, sizes[i], 5);
                f.store.crc_follows = true;
                f.store.cut_from =
                        sizes[i] > 4 ? 1 : 0; /* what came before is asked for again: nothing tells its CRC */
                f.store.cut_to = 1;
                f.store.damage_from = f.store.damage_to = 2;
                get = get_of(&f, sizes[i]);
                assert_int_equal(mr_get(f.client, &get, &result), 0);
                assert_int_equal(result.bytes, sizes[i]);
                assert_int_equal(result.object.size, sizes[i]);
                assert_true(result.wire_verified && result.object_verified);
                assert_true(store_is(&f.store, f.place, 0, sizes[i], 1));
                f.store.tail_short = true;
                assert_int_equal(mr_get(f.client, &get, &result), -EPROTO);
                tear_down(&f);
        }
}

static void damage_that_stays_is_an_error(void **state)
{
        for (int large = 0; large < 2; large++) {
                struct mr_result result;
                struct fixture f;
                struct mr_get get;

                set_up(&f, large ? LARGE : 1000, 3);
                f.store.damage_from = 1;
                f.store.damage_to = 1000;
                get = get_of(&f, f.store.len);
                assert_int_equal(mr_get(f.client, &get, &result), -EBADMSG);
                assert_false(result.wire_verified);
                tear_down(&f);
        }
}

static void without_a_crc_nothing_is_claimed(void **state)
{
        struct mr_result result;
        struct fixture f;
        struct mr_get get;

        set_up(&f, 1000, 3);
        f.store.no_crc = true;
        get = get_of(&f, 1000);
        get.len = 500;
        assert_int_equal(mr_get(f.client, &get, &result), 0);
        assert_false(result.wire_verified);
        assert_false(result.object_verified);
        tear_down(&f);
}

static void an_object_replaced_under_a_get_is_read_again(void **state)
{
        struct mr_result result;
        struct fixture f;
        struct mr_get get;

        set_up(&f, LARGE, 3);
        f.store.replace_at = 2;
        get = get_of(&f, LARGE);
        assert_int_equal(mr_get(f.client, &get, &result), 0);
        assert_int_equal(result.restarts, 1);
        assert_string_equal(result.object.etag, "g2");
        assert_true(store_is(&f.store, f.place, 0, LARGE, 2));
        assert_true(result.object_verified);
        tear_down(&f);
}

static void one_replaced_all_the_time_is_given_up(void **state)
{
        struct mr_result result;
        struct fixture f;
        struct mr_get get;

        set_up(&f, LARGE, 3);
        f.store.replace_each_from = 1;
        get = get_of(&f, LARGE);
        assert_int_equal(mr_get(f.client, &get, &result), -ESTALE);
        assert_int_equal(result.restarts, 3);
        get.if_match = "g1"; /* the program wants this one: nothing to begin again for */
        f.store.replace_each_from = 0;
        assert_int_equal(mr_get(f.client, &get, &result), -ESTALE);
        assert_int_equal(result.restarts, 0);
        tear_down(&f);
}

/* ---- batches --------------------------------------------------------------------------------- */

#define ENTRIES 50

static void entries_of_a_batch_have_results_of_their_own(void **state)
{
        struct mr_get gets[ENTRIES];
        struct mr_got got[ENTRIES];
        struct mr_batch batch = {.gets = gets, .count = ENTRIES, .got = got};
        struct mr_result result;
        struct fixture f;

        set_up(&f, 100000, 3);
        for (unsigned i = 0; i < ENTRIES; i++) {
                gets[i] = get_of(&f, 1000);
                gets[i].place.memory = f.place + i * 1000;
                gets[i].offset = i * 777;
                gets[i].len = 1000;
        }
        gets[7].place.len = 10;   /* smaller than what is asked for: malformed */
        gets[8].len = 0;          /* all of the rest does not fit */
        gets[9].offset = 1000000; /* behind the end */
        assert_int_equal(mr_get_batch(f.client, &batch, &result), -EINVAL);
        assert_int_equal(result.failed, 3);
        assert_int_equal(result.bytes, 47000);
        for (unsigned i = 0; i < ENTRIES; i++) {
                assert_int_equal(got[i].code, i == 7 ? -EINVAL : i == 8 ? -EMSGSIZE : i == 9 ? -ERANGE : 0);
                if (got[i].code != 0)
                        continue;
                assert_int_equal(got[i].bytes, 1000);
                assert_true(got[i].wire_verified);
                assert_true(store_is(&f.store, f.place + i * 1000, i * 777, 1000, 1));
        }
        assert_int_equal(got[8].size, 100000);
        tear_down(&f);
}

static void a_batch_can_tell_of_each_entry(void **state)
{
        struct mr_get gets[ENTRIES];
        struct mr_got got[ENTRIES];
        struct mr_batch batch = {.gets = gets, .count = ENTRIES, .got = got, .each = true};
        bool seen[ENTRIES] = {false};
        struct mr_queue *queue;
        struct mr_result result;
        struct fixture f;
        uint64_t op;

        set_up(&f, 100000, 3);
        for (unsigned i = 0; i < ENTRIES; i++) {
                gets[i] = get_of(&f, 1000);
                gets[i].place.memory = f.place + i * 1000;
                gets[i].len = 1000;
        }
        assert_int_equal(mr_queue_new(f.client, ENTRIES, &queue), 0);
        assert_int_equal(mr_get_batch_start(f.client, &batch, queue, &f, &op), -EAGAIN); /* one too many */
        mr_queue_free(queue);
        assert_int_equal(mr_queue_new(f.client, ENTRIES + 1, &queue), 0);
        assert_int_equal(mr_get_batch_start(f.client, &batch, queue, &f, &op), 0);
        for (unsigned i = 0; i < ENTRIES; i++) {
                assert_int_equal(mr_queue_take(queue, &result, 1, -1), 1);
                assert_int_equal(result.op, op);
                assert_ptr_equal(result.tag, &f);
                assert_int_equal(result.code, 0);
                assert_true(result.entry < ENTRIES && !seen[result.entry]);
                seen[result.entry] = true;
        }
        assert_int_equal(mr_queue_take(queue, &result, 1, -1), 1);
        assert_int_equal(result.entry, MR_ENTRY_NONE);
        assert_int_equal(result.bytes, ENTRIES * 1000);
        assert_int_equal(mr_queue_take(queue, &result, 1, -1), 0); /* nothing is under way */
        mr_queue_free(queue);
        tear_down(&f);
}

/*
 * What a batch request brings counts, and all else is asked for by itself: each entry is right in
 * the end.
 */
static void what_a_batch_request_brings(void **state)
{
        struct mr_get gets[ENTRIES];
        struct mr_got got[ENTRIES];
        struct mr_batch batch = {.gets = gets, .count = ENTRIES, .got = got};
        struct mr_result result;
        struct fixture f;

        set_up(&f, 100000, 3);
        f.store.has_batch = true;
        for (unsigned i = 0; i < ENTRIES; i++) {
                gets[i] = get_of(&f, 1000);
                gets[i].place.memory = f.place + i * 1000;
                gets[i].offset = i * 777;
                gets[i].len = 1000;
        }
        for (unsigned fault = 0; fault < 4; fault++) {
                f.store.batch_damage = fault == 1 ? 5 : 0;
                f.store.batch_cut = fault == 2 ? 10 : 0;
                f.store.batch_lack = fault == 3 ? 7 : 0;
                f.store.gets = f.store.batches = 0;
                memset(f.place, 0, ENTRIES * 1000);
                assert_int_equal(mr_get_batch(f.client, &batch, &result), 0);
                assert_int_equal(result.bytes, ENTRIES * 1000);
                assert_true(result.wire_verified);
                assert_int_equal(f.store.batches, 2); /* of 32 and 18 */
                if (fault == 0)
                        assert_int_equal(f.store.gets, 0);
                else if (fault == 2)
                        assert_true(f.store.gets >= 10); /* those behind the cut, of both; the answer goes backwards */
                else
                        assert_int_equal(f.store.gets, 2); /* one of each request */
                for (unsigned i = 0; i < ENTRIES; i++) {
                        assert_int_equal(got[i].code, 0);
                        assert_int_equal(got[i].size, 100000);
                        assert_string_equal(got[i].etag, "g1");
                        assert_true(store_is(&f.store, f.place + i * 1000, i * 777, 1000, 1));
                }
        }
        tear_down(&f);
}

static void an_endpoint_without_it_is_asked_once(void **state)
{
        struct mr_get gets[ENTRIES];
        struct mr_got got[ENTRIES];
        struct mr_batch batch = {.gets = gets, .count = 20, .got = got};
        struct mr_result result;
        struct fixture f;

        set_up(&f, 100000, 3);
        for (unsigned i = 0; i < 20; i++) {
                gets[i] = get_of(&f, 1000);
                gets[i].place.memory = f.place + i * 1000;
                gets[i].len = 1000;
        }
        for (unsigned round = 0; round < 3; round++)
                assert_int_equal(mr_get_batch(f.client, &batch, &result), 0);
        assert_int_equal(f.store.batches, 1);
        assert_int_equal(f.store.gets, 60);
        tear_down(&f);
}

/* ---- queues and cancellation ----------------------------------------------------------------- */

static void a_queue_is_readable_while_it_has_results(void **state)
{
        struct mr_head head = {.bucket = "bkt", .key = "obj"};
        struct mr_result results[8];
        struct mr_queue *queue;
        struct pollfd fd = {.events = POLLIN};
        struct fixture f;
        int taken = 0;

        set_up(&f, 1000, 3);
        assert_int_equal(mr_queue_new(f.client, 4, &queue), 0);
        fd.fd = mr_queue_fd(queue);
        assert_int_equal(poll(&fd, 1, 0), 0);
        for (unsigned i = 0; i < 4; i++)
                assert_int_equal(mr_head_start(f.client, &head, queue, NULL, NULL), 0);
        assert_int_equal(mr_head_start(f.client, &head, queue, NULL, NULL), -EAGAIN);
        while (taken < 4) {
                assert_int_equal(poll(&fd, 1, 10000), 1);
                taken += mr_queue_take(queue, results + taken, 8 - (unsigned)taken, 0);
        }
        assert_int_equal(poll(&fd, 1, 0), 0);
        for (int i = 0; i < 4; i++) {
                assert_int_equal(results[i].code, 0);
                assert_int_equal(results[i].object.size, 1000);
                assert_true(results[i].object.header_count > 3);
                mr_result_free(&results[i]);
        }
        mr_queue_free(queue);
        tear_down(&f);
}

static void canceled_operations_end(void **state)
{
        struct mr_queue *queue;
        struct mr_result result;
        struct fixture f;
        struct mr_get get;
        uint64_t op[20];

        set_up(&f, LARGE, 20);
        f.store.fail_from = 1; /* for ever in retries */
        f.store.fail_to = 1u << 30;
        get = get_of(&f, LARGE);
        assert_int_equal(mr_queue_new(f.client, 20, &queue), 0);
        for (unsigned i = 0; i < 20; i++)
                assert_int_equal(mr_get_start(f.client, &get, queue, &op[i], &op[i]), 0);
        for (unsigned i = 0; i < 10; i++)
                mr_cancel(f.client, op[i]);
        for (unsigned i = 0; i < 10; i++) {
                assert_int_equal(mr_queue_take(queue, &result, 1, 10000), 1);
                assert_int_equal(result.code, -ECANCELED);
                assert_true((uint64_t *)result.tag < op + 10);
        }
        mr_cancel(f.client, op[0]); /* long gone */
        mr_cancel(f.client, 1u << 30);
        mr_client_cancel(f.client);
        for (unsigned i = 0; i < 10; i++) {
                assert_int_equal(mr_queue_take(queue, &result, 1, 10000), 1);
                assert_int_equal(result.code, -ECANCELED);
        }
        assert_int_equal(mr_get(f.client, &get, &result), -ECANCELED);
        mr_queue_free(queue);
        tear_down(&f);
}

static void a_queue_can_go_before_its_operations(void **state)
{
        struct mr_queue *queue;
        struct fixture f;
        struct mr_get get;

        set_up(&f, LARGE, 20);
        f.store.fail_from = 1;
        f.store.fail_to = 1u << 30;
        get = get_of(&f, LARGE);
        assert_int_equal(mr_queue_new(f.client, 20, &queue), 0);
        for (unsigned i = 0; i < 10; i++)
                assert_int_equal(mr_get_start(f.client, &get, queue, NULL, NULL), 0);
        mr_queue_free(queue);
        tear_down(&f);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void what_is_put_arrives(void **state)
{
        static const size_t sizes[] = {0, 1000, LARGE};

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                struct mr_header colour = {(char *)"colour", (char *)"blue"};
                struct mr_put put = {.bucket = "bkt", .key = "new", .metadata = &colour, .metadata_count = 1};
                struct mr_result result;
                struct fixture f;

                set_up(&f, sizes[i], 3);
                put.place = (struct mr_place){.memory = f.store.data, .len = sizes[i]};
                assert_int_equal(mr_put(f.client, &put, &result), 0);
                assert_int_equal(result.bytes, sizes[i]);
                assert_string_equal(result.object.etag, sizes[i] == LARGE ? "whole-2" : "p0");
                assert_int_equal(f.store.stored_len, sizes[i]);
                assert_memory_equal(f.store.stored, f.store.data, sizes[i]);
                assert_int_equal(f.store.completes, sizes[i] == LARGE);
                tear_down(&f);
        }
}

static void a_part_that_fails_aborts_the_put(void **state)
{
        struct mr_put put = {.bucket = "bkt", .key = "new"};
        struct mr_result result;
        struct fixture f;

        set_up(&f, LARGE, 1);
        f.store.fail_parts = true;
        put.place = (struct mr_place){.memory = f.store.data, .len = LARGE};
        assert_int_equal(mr_put(f.client, &put, &result), -EINVAL);
        assert_string_equal(result.error.s3_code, "InvalidArgument");
        assert_int_equal(f.store.completes, 0);
        assert_int_equal(f.store.aborts, 1);
        tear_down(&f);
}

static void parts_may_come_in_any_order(void **state)
{
        struct mr_put put = {.bucket = "bkt", .key = "new"};
        struct mr_multipart *upload;
        struct mr_result result;
        struct mr_queue *queue;
        struct fixture f;

        set_up(&f, 4000, 3);
        assert_int_equal(mr_multipart_new(f.client, &put, &upload), 0);
        assert_int_equal(mr_queue_new(f.client, 8, &queue), 0);
        for (unsigned i = 4; i >= 1; i--) {
                struct mr_place place = {.memory = f.store.data + 1000 * (i - 1), .len = 1000};

                assert_int_equal(mr_multipart_part_start(upload, i, &place, queue, NULL, NULL), 0);
        }
        for (unsigned i = 0; i < 4; i++) {
                assert_int_equal(mr_queue_take(queue, &result, 1, -1), 1);
                assert_int_equal(result.code, 0);
                assert_int_equal(result.bytes, 1000);
        }
        assert_int_equal(mr_multipart_complete_start(upload, queue, NULL, NULL), 0);
        assert_int_equal(mr_queue_take(queue, &result, 1, -1), 1);
        assert_int_equal(result.code, 0);
        assert_int_equal(result.bytes, 4000);
        assert_memory_equal(f.store.stored, f.store.data, 4000);
        assert_int_equal(mr_multipart_complete(upload, &result), -EINVAL); /* once */
        mr_multipart_free(upload);
        assert_int_equal(f.store.aborts, 0);
        mr_queue_free(queue);
        tear_down(&f);
}

static void uploads_end_as_they_should(void **state)
{
        struct mr_put put = {.bucket = "bkt", .key = "new"};
        struct mr_multipart *upload;
        struct mr_result result;
        struct mr_place place;
        struct fixture f;

        set_up(&f, 4000, 3);
        place = (struct mr_place){.memory = f.store.data, .len = 1000};
        assert_int_equal(mr_multipart_new(f.client, &put, &upload), 0); /* no part: an empty object */
        assert_int_equal(mr_multipart_complete(upload, &result), 0);
        assert_int_equal(f.store.stored_len, 0);
        assert_int_equal(f.store.completes, 0);
        mr_multipart_free(upload);
        assert_int_equal(mr_multipart_new(f.client, &put, &upload), 0); /* a part is missing */
        assert_int_equal(mr_multipart_part(upload, 2, &place, &result), 0);
        assert_int_equal(mr_multipart_complete(upload, &result), -EINVAL);
        assert_non_null(strstr(result.error.message, "part 1"));
        assert_int_equal(f.store.aborts, 1);
        mr_multipart_free(upload);
        assert_int_equal(f.store.aborts, 1);
        assert_int_equal(mr_multipart_new(f.client, &put, &upload),
                         0); /* left alone, also when the client was canceled */
        assert_int_equal(mr_multipart_part(upload, 1, &place, &result), 0);
        assert_int_equal(mr_multipart_part(upload, 0, &place, &result), -EINVAL);
        mr_client_cancel(f.client);
        assert_int_equal(mr_multipart_part(upload, 2, &place, &result), -ECANCELED);
        mr_multipart_free(upload);
        assert_int_equal(f.store.aborts, 2);
        tear_down(&f);
}

static void copies_name_their_source(void **state)
{
        struct mr_copy copy = {.bucket = "bkt", .key = "new", .source_bucket = "old", .source_key = "a b/ü"};
        struct mr_error err;
        struct fixture f;

        set_up(&f, 10, 3);
        assert_int_equal(mr_copy(f.client, &copy, &err), 0);
        assert_string_equal(f.store.query, "/old/a%20b/%C3%BC");
        copy.source_version_id = "v+1/&";
        assert_int_equal(mr_copy(f.client, &copy, &err), 0);
        assert_string_equal(f.store.query, "/old/a%20b/%C3%BC?versionId=v%2B1%2F%26");
        tear_down(&f);
}

/* ---- listings -------------------------------------------------------------------------------- */

static void a_lister_goes_from_page_to_page(void **state)
{
        struct mr_list list = {.bucket = "bkt"};
        const struct mr_entry *entry;
        struct mr_lister *lister;
        struct mr_error err;
        struct fixture f;
        char found[64] = "";

        set_up(&f, 10, 3);
        assert_int_equal(mr_lister_open(f.client, &list, &lister, &err), 0);
        while (mr_lister_next(lister, &entry, &err) == 1)
                snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s%s ", entry->key,
                         entry->is_prefix ? "*" : "");
        assert_string_equal(found, "a b/* c ");
        assert_int_equal(mr_lister_next(lister, &entry, &err), 0);
        mr_lister_free(lister);
        assert_int_equal(mr_lister_open(f.client, &list, &lister, &err), 0); /* left in the middle */
        assert_int_equal(mr_lister_next(lister, &entry, &err), 1);
        mr_lister_free(lister);
        tear_down(&f);
}

/* ---- buffers --------------------------------------------------------------------------------- */

static void buffers_are_sliced(void **state)
{
        struct mr_buffer *buffer, *dmabuf;
        struct mr_result result;
        struct mr_get get;
        struct fixture f;
        FILE *file = tmpfile();

        set_up(&f, 1000, 3);
        assert_int_equal(mr_buffer_new(f.client, 4u << 20, MR_BUFFER_HUGE, &buffer), 0);
        assert_true((uintptr_t)mr_buffer_memory(buffer) % 4096 == 0);
        get = get_of(&f, 0);
        get.place = (struct mr_place){.buffer = buffer, .offset = (4u << 20) - 1000, .len = 1000};
        assert_int_equal(mr_get(f.client, &get, &result), 0);
        assert_true(store_is(&f.store, (char *)mr_buffer_memory(buffer) + get.place.offset, 0, 1000, 1));
        get.place.offset++;
        assert_int_equal(mr_get(f.client, &get, &result), -EINVAL);
        assert_int_equal(mr_buffer_free(buffer), 0);
        assert_int_equal(mr_buffer_register(f.client, f.place, 1000, &buffer), 0);
        assert_int_equal(mr_buffer_len(buffer), 1000);
        get.place = (struct mr_place){.buffer = buffer, .len = 1000};
        assert_int_equal(mr_get(f.client, &get, &result), 0);
        assert_int_equal(mr_buffer_free(buffer), 0);
        assert_int_equal(mr_buffer_register_dmabuf(f.client, fileno(file), 0, 1000, &dmabuf), 0);
        assert_null(mr_buffer_memory(dmabuf));
        get.place = (struct mr_place){.buffer = dmabuf, .len = 1000};
        assert_int_equal(mr_get(f.client, &get, &result), -EOPNOTSUPP); /* TCP cannot reach it */
        assert_int_equal(mr_buffer_free(dmabuf), 0);
        assert_int_equal(mr_buffer_register_dmabuf(f.client, -1, 0, 1000, &dmabuf), -EBADF);
        fclose(file);
        tear_down(&f);
}

static void a_buffer_in_use_stays(void **state)
{
        struct mr_buffer *buffer;
        struct mr_result result;
        struct mr_queue *queue;
        struct mr_get get;
        struct fixture f;

        set_up(&f, 1000, 20);
        f.store.fail_from = 1;
        f.store.fail_to = 1u << 30;
        assert_int_equal(mr_buffer_new(f.client, 1000, 0, &buffer), 0);
        assert_int_equal(mr_queue_new(f.client, 1, &queue), 0);
        get = get_of(&f, 0);
        get.place = (struct mr_place){.buffer = buffer, .len = 1000};
        assert_int_equal(mr_get_start(f.client, &get, queue, NULL, NULL), 0);
        assert_int_equal(mr_buffer_free(buffer), -EBUSY);
        mr_client_cancel(f.client);
        assert_int_equal(mr_queue_take(queue, &result, 1, -1), 1);
        assert_int_equal(mr_buffer_free(buffer), 0);
        mr_queue_free(queue);
        tear_down(&f);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void a_child_opens_its_own_client(void **state)
{
        struct mr_result result;
        struct mr_get get;
        struct fixture f;
        int status;
        pid_t pid;

        set_up(&f, 1000, 3);
        get = get_of(&f, 1000);
        assert_int_equal(mr_get(f.client, &get, &result), 0);
        pid = fork();
        if (pid == 0) {
                int rv = mr_get(f.client, &get, &result);

                mr_client_free(f.client);
                _exit(rv == -ECHILD ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_int_equal(mr_get(f.client, &get, &result), 0);
        tear_down(&f);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(whole_objects_are_verified_twice),
                cmocka_unit_test(ranges_come_as_asked_for),
                cmocka_unit_test(what_cannot_be_is_told),
                cmocka_unit_test(a_broken_answer_is_continued_and_still_verified),
                cmocka_unit_test(damage_before_a_break_is_found),
                cmocka_unit_test(a_crc_may_follow_the_bytes),
                cmocka_unit_test(damage_that_stays_is_an_error),
                cmocka_unit_test(without_a_crc_nothing_is_claimed),
                cmocka_unit_test(an_object_replaced_under_a_get_is_read_again),
                cmocka_unit_test(one_replaced_all_the_time_is_given_up),
                cmocka_unit_test(entries_of_a_batch_have_results_of_their_own),
                cmocka_unit_test(a_batch_can_tell_of_each_entry),
                cmocka_unit_test(what_a_batch_request_brings),
                cmocka_unit_test(an_endpoint_without_it_is_asked_once),
                cmocka_unit_test(a_queue_is_readable_while_it_has_results),
                cmocka_unit_test(canceled_operations_end),
                cmocka_unit_test(a_queue_can_go_before_its_operations),
                cmocka_unit_test(what_is_put_arrives),
                cmocka_unit_test(a_part_that_fails_aborts_the_put),
                cmocka_unit_test(parts_may_come_in_any_order),
                cmocka_unit_test(uploads_end_as_they_should),
                cmocka_unit_test(copies_name_their_source),
                cmocka_unit_test(a_lister_goes_from_page_to_page),
                cmocka_unit_test(buffers_are_sliced),
                cmocka_unit_test(a_buffer_in_use_stays),
                cmocka_unit_test(a_child_opens_its_own_client),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
