/*
 * test_batch_message.c - BATCH messages of the client over a connection of the test's own, which
 * says yes and no, writes bytes, damages them, and answers with every result there is. What the
 * real connection and a real server make of it stands in
 * tests/integration/test_client_rdma_batch.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define mr_grant_ask   fake_ask
#define mr_grant_over  fake_over
#define mr_grant_batch fake_batch
#include "client/transfer/batch_message.c"

#include <semaphore.h>
#include <stdlib.h>

#define SLOT    1000u
#define ENTRIES 256u

/* What the connection does with one message. */
struct turn {
        int refused; /* granted() says so */
        int unsent;  /* mr_grant_batch() says so */
        int lost;    /* ended() says so, after the results */
        unsigned code[ENTRIES], damage, twice, beyond, greedy, silent,
                notices; /* of entry N (from 1) of the message: a wrong byte, ... */
};

static struct {
        struct mr_client *client;
        struct mr_buffer buffer;
        struct mr_message message;
        struct mr_get get[ENTRIES];
        char key[ENTRIES][32];
        size_t size; /* of each object */
        struct turn turn[8];
        unsigned turns, asked, sent[8], delay[8];
        struct mr_grant *over;
        enum mr_grant_end how;
        /* of settled() */
        unsigned got, failed, declined, left, calls;
        int error[ENTRIES];
        struct mr_error words[ENTRIES];
        bool last;
        sem_t done;
} f;

static char object_byte(size_t index, size_t at)
{
        return (char)(index * 31 + at * 7 + 1);
}

/* ---- the connection -------------------------------------------------------------------------- */

static void answer(struct mr_grant *grant, const struct turn *turn, const struct rdx_entry *entries, unsigned count)
{
        static uint8_t data[RDX_MESSAGE_MAX];
        struct rdx_message head = {.type = RDX_RESULT, .number = grant->number, .flags = RDX_LAST};

        for (unsigned from = 0; from < count; from += RDX_RESULT_SHARE) {
                struct rdx_client_result came = {.number = grant->number, .notices = (uint16_t)turn->notices};
                struct rdx_writer writer;

                rdx_writer_open(&writer, data, &head);
                for (unsigned i = from; i < count && i < from + RDX_RESULT_SHARE; i++) {
                        size_t index = (size_t)strtoul(entries[i].key.data, NULL, 10);
                        char *place = f.buffer.memory + grant->offset + entries[i].offset;
                        struct rdx_result result = {.index = (uint16_t)i,
                                                    .code = (uint16_t)turn->code[i],
                                                    .status = (uint16_t)rdx_code_status(turn->code[i]),
                                                    .size = f.size,
                                                    .etag = {"e", 1}};

                        if (turn->silent == i + 1)
                                continue;
                        assert_true(entries[i].offset + entries[i].length <= grant->len);
                        if (turn->code[i] == RDX_CODE_OK) {
                                assert_true(entries[i].length >= f.size);
                                for (size_t at = 0; at < f.size; at++)
                                        place[at] = object_byte(index, at);
                                result.bytes = f.size;
                                result.crc32c = era_crc32c(0, place, f.size);
                        }
                        if (turn->damage == i + 1)
                                place[f.size / 2] ^= 1;
                        if (turn->greedy == i + 1)
                                result.bytes = entries[i].length + 1;
                        if (turn->beyond == i + 1)
                                result.index = (uint16_t)count;
                        assert_int_equal(rdx_writer_result(&writer, &result), 0);
                        if (turn->twice == i + 1) { /* the first one counts */
                                result.crc32c++;
                                assert_int_equal(rdx_writer_result(&writer, &result), 0);
                        }
                }
                assert_int_equal(rdx_reader_open(&came.reader, data, rdx_writer_finish(&writer)), 0);
                grant->result(grant->arg, grant, &came);
        }
}

int fake_ask(struct mr_client *client, struct mr_grant *grant)
{
        struct turn *turn = &f.turn[f.asked];

        assert_in_range(f.asked, 0, f.turns - 1);
        f.delay[f.asked++] = grant->delay_ms;
        grant->number = 40 + f.asked;
        grant->tried = 1;
        if (turn->refused != 0) {
                mr_failure(&grant->error, turn->refused, "refused by the test");
                grant->granted(grant->arg, grant, turn->refused);
                return 0;
        }
        f.over = NULL;
        grant->granted(grant->arg, grant, 0);
        if (f.over != NULL)
                assert_int_equal(f.how, MR_LEASE_QUIET);
        grant->ended(grant->arg, grant, turn->lost);
        return 0;
}

void fake_over(struct mr_grant *grant, enum mr_grant_end how)
{
        f.over = grant;
        f.how = how;
}

int fake_batch(struct mr_grant *grant, const struct rdx_client_batch *batch, const struct rdx_entry *entries,
               unsigned count, unsigned *sent)
{
        const struct turn *turn = &f.turn[f.asked - 1];

        assert_int_equal(batch->first, 0);
        assert_int_equal(batch->replies, grant->replies);
        assert_int_equal(grant->replies, (count + 63) / 64);
        *sent = 0;
        if (turn->unsent != 0)
                return turn->unsent;
        *sent = count;
        f.sent[f.asked - 1] = count;
        answer(grant, turn, entries, count);
        return 0;
}

/* ---- the batch ------------------------------------------------------------------------------- */

static void settled(void *arg, struct mr_message *message, bool last)
{
        f.calls++;
        for (unsigned i = 0; i < message->count; i++) {
                const struct mr_message_entry *entry = &message->entry[i];
                const char *memory = f.buffer.memory + entry->at;

                switch (entry->state) {
                case MR_MESSAGE_GOT:
                        f.got++;
                        assert_int_equal(entry->bytes, f.size);
                        for (size_t at = 0; at < f.size; at++)
                                assert_int_equal(memory[at], object_byte(entry->index, at));
                        break;
                case MR_MESSAGE_FAILED:
                        f.failed++;
                        f.error[entry->index] = mr_message_error(message, entry, &f.words[entry->index]);
                        break;
                case MR_MESSAGE_DECLINED:
                        f.declined++;
                        break;
                case MR_MESSAGE_OPEN:
                        f.left += last;
                        break;
                }
        }
        f.last = last;
        if (last)
                sem_post(&f.done);
}

static void prepare(unsigned count, size_t size, bool insist)
{
        memset(&f.message, 0, sizeof(f.message));
        memset(f.turn, 0, sizeof(f.turn));
        memset(f.error, 0, sizeof(f.error));
        memset(f.get, 0, sizeof(f.get));
        f.turns = f.asked = f.got = f.failed = f.declined = f.left = f.calls = 0;
        f.size = size;
        f.message.client = f.client;
        f.message.buffer = &f.buffer;
        f.message.insist = insist;
        f.message.settled = settled;
        for (unsigned i = 0; i < count; i++) {
                snprintf(f.key[i], sizeof(f.key[i]), "%u", i);
                f.get[i] = (struct mr_get){.bucket = "bucket", .key = f.key[i]};
                f.get[i].place = (struct mr_place){.buffer = &f.buffer, .offset = 500 + i * size, .len = size};
                assert_int_equal(mr_message_add(&f.message, &f.get[i], i), 0);
        }
}

static void run(unsigned turns)
{
        f.turns = turns;
        assert_int_equal(mr_message_start(&f.message), 0);
        sem_wait(&f.done);
        assert_int_equal(f.asked, turns);
}

static int set_up(void **state)
{
        struct mr_options options;

        mr_options_init(&options);
        options.endpoint = "http://127.0.0.1:1";
        options.credentials = MR_CREDENTIALS_NONE;
        options.attempts = 4;
        sem_init(&f.done, 0, 0);
        f.buffer = (struct mr_buffer){.memory = calloc(1, ENTRIES * SLOT * 4), .len = ENTRIES * SLOT * 4, .fd = -1};
        if (f.buffer.memory == NULL)
                return -1;
        return mr_client_open(&options, &f.client, NULL);
}

static int tear_down(void **state)
{
        mr_client_free(f.client);
        free(f.buffer.memory);
        sem_destroy(&f.done);
        return 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void all_that_is_asked_for_comes(void **state)
{
        static const unsigned counts[] = {1, 2, 63, 64, 65, 255, 256};

        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                prepare(counts[i], i == 6 ? SLOT : 100, i % 2 == 0); /* the last one is summed by a worker */
                run(1);
                assert_int_equal(f.got, counts[i]);
                assert_int_equal(f.sent[0], counts[i]);
                assert_int_equal(f.message.grant.offset, 500);
                assert_int_equal(f.message.grant.len, counts[i] * f.size);
        }
}

/*
 * Errors have the values and words of a GET's; what may pass comes with the next message, which
 * holds nothing else.
 */
static void each_result_means_something(void **state)
{
        static const struct {
                unsigned code;
                int error; /* 0: once more; 1: not over RDMA */
                const char *s3_code;
        } cases[] = {
                {RDX_CODE_NO_SUCH_KEY, -ENOENT, "NoSuchKey"},
                {RDX_CODE_NO_SUCH_BUCKET, -ENOENT, "NoSuchBucket"},
                {RDX_CODE_NO_SUCH_VERSION, -ENOENT, "NoSuchVersion"},
                {RDX_CODE_ACCESS_DENIED, -EACCES, "AccessDenied"},
                {RDX_CODE_PRECONDITION_FAILED, -ESTALE, ""},
                {RDX_CODE_INVALID_RANGE, -ERANGE, ""},
                {RDX_CODE_PLACE_TOO_SMALL, -EMSGSIZE, ""},
                {RDX_CODE_INVALID_ARGUMENT, -EINVAL, "InvalidArgument"},
                {RDX_CODE_METHOD_NOT_ALLOWED, -EINVAL, "MethodNotAllowed"},
                {RDX_CODE_DECLINED, 1, ""},
                {RDX_CODE_SLOW_DOWN, 0, ""},
                {RDX_CODE_INTERNAL_ERROR, 0, ""},
                {RDX_CODE_SERVICE_UNAVAILABLE, 0, ""},
                {RDX_CODE_REQUEST_TIMEOUT, 0, ""},
                {99, 0, ""}, /* of another age: 500 */
        };
        const unsigned count = sizeof(cases) / sizeof(cases[0]);

        prepare(count + 1, 100, false);
        for (unsigned i = 0; i < count; i++)
                f.turn[0].code[i] = cases[i].code;
        run(2);
        assert_int_equal(f.sent[0], count + 1);
        assert_int_equal(f.sent[1], 5);
        assert_in_range(f.delay[1], 1, 20000);
        assert_int_equal(f.got, 6);
        assert_int_equal(f.declined, 1);
        assert_int_equal(f.failed, 9);
        for (unsigned i = 0; i < count; i++) {
                if (cases[i].error >= 0)
                        continue;
                assert_int_equal(f.error[i], cases[i].error);
                assert_string_equal(f.words[i].s3_code, cases[i].s3_code);
                assert_true(f.words[i].message[0] != '\0');
        }
}

static void a_range_of_one_version_that_ends_before_it(void **state)
{
        prepare(1, 100, true);
        f.get[0].if_match = "\"tag\"";
        f.turn[0].code[0] = RDX_CODE_INVALID_RANGE;
        run(1);
        assert_int_equal(f.error[0], -ESTALE);
}

/* Bytes that are not what they are said to be, and results that cannot be, count for nothing. */
static void wrong_answers_are_asked_again(void **state)
{
        for (unsigned wrong = 0; wrong < 6; wrong++) {
                struct turn *turn = &f.turn[0];

                prepare(70, 100, false);
                *(wrong == 0   ? &turn->damage
                  : wrong == 1 ? &turn->beyond
                  : wrong == 2 ? &turn->greedy
                  : wrong == 3 ? &turn->silent
                  : wrong == 4 ? &turn->twice
                               : &turn->notices) = 66;
                run(wrong == 4 ? 1 : 2);
                assert_int_equal(f.got, 70);
                if (wrong != 4)
                        assert_int_equal(f.sent[1], wrong == 5 ? 70 : 1);
        }
}

static void attempts_are_bounded(void **state)
{
        for (unsigned insist = 0; insist < 2; insist++) {
                prepare(3, 100, insist);
                for (unsigned i = 0; i < 4; i++)
                        f.turn[i].damage = i == 0 ? 2 : 1;
                run(insist ? 4 : 2);
                assert_int_equal(f.got, 2);
                assert_int_equal(f.left, 1); /* somebody else is to get it */
                assert_int_equal(f.failed, 0);
        }
}

/* Whatever had come before: the memory's bytes are not known. */
static void a_session_that_ends(void **state)
{
        prepare(100, 100, false);
        f.turn[0].lost = -ENOTCONN;
        run(2);
        assert_int_equal(f.got, 100);

        prepare(100, 100, false);
        f.turn[0].lost = f.turn[1].lost = -ENOTCONN;
        run(2);
        assert_int_equal(f.left, 100);

        prepare(100, 100, true);
        for (unsigned i = 0; i < 4; i++)
                f.turn[i].lost = -ETIMEDOUT;
        run(4);
        assert_int_equal(f.failed, 100);
        assert_int_equal(f.error[99], -ETIMEDOUT);
        assert_non_null(strstr(f.words[99].message, "session ended"));
}

static void a_message_that_cannot_be_sent(void **state)
{
        prepare(5, 100, false);
        f.turn[0].unsent = -EAGAIN;
        run(2);
        assert_int_equal(f.got, 5);

        prepare(5, 100, true);
        f.turn[0].unsent = -EINVAL;
        run(1);
        assert_int_equal(f.failed, 5);
        assert_int_equal(f.error[0], -EINVAL);
}

static void a_grant_that_is_refused(void **state)
{
        prepare(5, 100, false);
        f.turn[0].refused = -EOPNOTSUPP;
        run(1);
        assert_int_equal(f.left, 5);

        prepare(5, 100, true);
        f.turn[0].refused = -EOPNOTSUPP;
        run(1);
        assert_int_equal(f.failed, 5);
        assert_int_equal(f.error[4], -EOPNOTSUPP);
        assert_string_equal(f.words[4].message, "refused by the test");

        prepare(5, 100, true);
        f.turn[0].refused = -ECONNREFUSED; /* it may pass */
        run(2);
        assert_int_equal(f.got, 5);
}

static void a_cancellation(void **state)
{
        for (unsigned when = 0; when < 2; when++) {
                prepare(5, 100, when == 1);
                f.turn[0].refused = when == 0 ? -ECANCELED : 0;
                f.turn[0].lost = when == 1 ? -ECANCELED : 0;
                run(1);
                assert_int_equal(f.failed, 5);
                assert_int_equal(f.error[0], -ECANCELED);
        }
}

static void a_message_has_bounds(void **state)
{
        const char *bucket = "0123456789012345678901234567890123456789012345678901234567890123";
        char key[RDX_KEY_MOST + 2];
        struct mr_get get = {.bucket = "bucket", .key = "k", .place = {.buffer = &f.buffer, .len = 10}};
        struct mr_message *message = &f.message;
        uint8_t encoded_by[RDX_MESSAGE_MAX];
        struct rdx_message head = {.type = RDX_BATCH};
        struct rdx_writer writer;
        unsigned i;

        memset(key, 'k', sizeof(key));
        key[RDX_KEY_MOST + 1] = '\0';
        prepare(0, 100, false);
        get.key = key;
        assert_int_equal(mr_message_add(message, &get, 0), -EINVAL);
        get.key = "";
        assert_int_equal(mr_message_add(message, &get, 0), -EINVAL);
        get.key = "k";
        get.bucket = bucket;
        assert_int_equal(mr_message_add(message, &get, 0), -EINVAL);
        get.bucket = "bucket";
        get.place.len = 0;
        assert_int_equal(mr_message_add(message, &get, 0), -EINVAL);
        get.place.len = MR_MESSAGE_OBJECT + 1;
        assert_int_equal(mr_message_add(message, &get, 0), -EINVAL);
        get.len = 5; /* of which only this much is asked for */
        assert_int_equal(mr_message_add(message, &get, 0), 0);
        assert_int_equal(message->to - message->from, 5);
        get.len = 0;
        get.place = (struct mr_place){.buffer = &f.buffer, .offset = MR_MESSAGE_WINDOW, .len = 1};
        assert_int_equal(mr_message_add(message, &get, 0), -ENOSPC);
        get.place.offset--;
        assert_int_equal(mr_message_add(message, &get, 0), 0);

        /* what it takes for full is what the format takes for full */
        prepare(0, 100, false);
        key[200] = '\0';
        rdx_writer_open(&writer, encoded_by, &head);
        for (i = 0;; i++) {
                struct rdx_entry wire;
                int rv;

                get = (struct mr_get){.bucket = i % 3 == 0 ? "one" : "another",
                                      .key = key + i % 50,
                                      .place = {.buffer = &f.buffer, .offset = i * 10, .len = 10}};
                mr_batch_wire(&get, &wire);
                rv = rdx_writer_entry(&writer, &wire);
                assert_int_equal(mr_message_add(message, &get, i), rv);
                if (rv != 0)
                        break;
        }
        assert_in_range(i, 10, 255);
        prepare(ENTRIES, 10, false);
        assert_int_equal(mr_message_add(message, &get, 0), -ENOSPC);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(all_that_is_asked_for_comes),
                cmocka_unit_test(each_result_means_something),
                cmocka_unit_test(a_range_of_one_version_that_ends_before_it),
                cmocka_unit_test(wrong_answers_are_asked_again),
                cmocka_unit_test(attempts_are_bounded),
                cmocka_unit_test(a_session_that_ends),
                cmocka_unit_test(a_message_that_cannot_be_sent),
                cmocka_unit_test(a_grant_that_is_refused),
                cmocka_unit_test(a_cancellation),
                cmocka_unit_test(a_message_has_bounds),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}
