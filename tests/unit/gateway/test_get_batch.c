/*
 * gateway/s3/op_get_batch.c and get_batch.c over an engine that is slow, fails at any point, or is
 * left waiting by clients that go away. What goes well is tested against the real engine, over
 * HTTP.
 */
#include "gateway/s3/bucket_texts.h"
#include "rdma_wire.h"
#include "tests/unit/gateway/ops_fixture.h"

#define KEYS 6u

struct frame {
        struct rdx_result result;
        bool whole; /* its bytes came, and their CRC is right */
};

static void put(int fd, const char *target, size_t len)
{
        char *data = malloc(len + 1);

        memset(data, 'x', len);
        send_put(fd, target, data, len);
        expect(fd, 200, NULL);
        free(data);
}

/* Asks for count entries k0, k1 … of which only the first KEYS are there. */
static void send_batch(int fd, unsigned count, bool ordered)
{
        struct rdx_message message = {.type = RDX_BATCH,
                                      .flags = ordered ? RDX_ORDERED : 0,
                                      .replies = (uint16_t)((count + RDX_RESULT_SHARE - 1) / RDX_RESULT_SHARE)};
        uint8_t data[RDX_MESSAGE_MAX], sha256[S3_SHA256_LEN];
        char hex[2 * S3_SHA256_LEN + 1], head[8192], more[128], key[16];
        struct s3_header amz = {S3_STR("x-amz-content-sha256"), {hex, 64}};
        struct rdx_writer writer;
        struct s3_sums *sums;
        size_t len;

        rdx_writer_open(&writer, data, &message);
        for (unsigned i = 0; i < count; i++) {
                struct rdx_entry entry = {.bucket = {"bucket", 6}, .length = UINT64_MAX};

                entry.key = (struct rdx_bytes){key, (size_t)snprintf(key, sizeof(key), "k%u", i)};
                assert_int_equal(rdx_writer_entry(&writer, &entry), 0);
        }
        len = rdx_writer_finish(&writer);
        assert_int_equal(s3_sums_new(S3_CHECKSUM_BIT(S3_SHA256), &sums), 0);
        s3_sums_update(sums, data, len);
        s3_sums_final(sums);
        memcpy(sha256, s3_sums_value(sums, S3_SHA256), sizeof(sha256));
        s3_sums_free(sums);
        s3_hex_encode(sha256, sizeof(sha256), hex);
        snprintf(more, sizeof(more), "Content-Type: " RDX_BATCH_TYPE "\r\nContent-Length: %zu\r\n", len);
        send_all(fd, head, signed_head(head, sizeof(head), "POST", "/_millrace/v1/batch", &amz, 1, more));
        send_all(fd, data, len);
}

static bool read_exactly(int fd, void *out, size_t len)
{
        size_t done = 0;
        ssize_t n;

        for (; done < len; done += (size_t)n) {
                n = recv_some(fd, (char *)out + done, len - done);
                if (n <= 0)
                        return false;
        }
        return true;
}

/* A chunked body, malloc'ed; *end: its last chunk came. */
static uint8_t *read_chunks(int fd, size_t *len, bool *end)
{
        uint8_t *body = malloc(ANSWER_MAX);
        char line[32];
        size_t n, at;

        *len = 0;
        for (*end = false; !*end;) {
                for (at = 0; at < sizeof(line) - 1 && (at == 0 || line[at - 1] != '\n'); at++)
                        if (!read_exactly(fd, line + at, 1))
                                return body;
                line[at] = '\0';
                n = strtoul(line, NULL, 16);
                assert_true(*len + n <= ANSWER_MAX);
                if (!read_exactly(fd, body + *len, n))
                        return body;
                *len += n;
                read_exactly(fd, line, 2);
                *end = n == 0;
        }
        return body;
}

/* Reads the answer into frames by index; returns how many came, *end: and their end. */
static unsigned read_frames(int fd, struct frame *frames, bool *end)
{
        struct answer a = {0};
        unsigned count = 0;
        size_t len, at = 0;
        uint8_t *body;
        int n;

        assert_true(read_head(fd, &a));
        assert_int_equal(a.status, 200);
        body = read_chunks(fd, &len, end);
        while (at + 4 <= len && (n = rdx_frame_length(body + at)) > 0) {
                struct rdx_result result;
                uint32_t crc = 0;

                assert_true(n > 0);
                at += 4;
                if (at + (size_t)n > len)
                        break;
                assert_int_equal(rdx_result_decode(body + at, (size_t)n, &result), n);
                at += (size_t)n;
                frames[result.index].result = result;
                if (at + result.bytes + (result.bytes > 0 ? RDX_FRAME_TAIL : 0) > len)
                        break;
                frames[result.index].whole = result.bytes == 0;
                if (result.bytes > 0) {
                        assert_int_equal(rdx_frame_tail_read(body + at + result.bytes, &crc), 0);
                        frames[result.index].whole = crc == era_crc32c(0, body + at, result.bytes);
                        at += result.bytes + RDX_FRAME_TAIL;
                }
                count++;
        }
        assert_true(!*end || at + 4 == len);
        free(body);
        return count;
}

/* k0 … k5, of which the odd ones are too large for a record. */
static int put_objects(void)
{
        int fd = dial();

        for (unsigned i = 0; i < KEYS; i++) {
                char target[32];

                snprintf(target, sizeof(target), "/bucket/k%u", i);
                put(fd, target, i % 2 == 0 ? 10000 + i : ENG_INLINE_MAX + 1000 + i);
        }
        return fd;
}

static void all_is_right(int fd, unsigned count, bool ordered)
{
        struct frame frames[256] = {0};
        bool end;

        send_batch(fd, count, ordered);
        assert_int_equal(read_frames(fd, frames, &end), count);
        assert_true(end);
        for (unsigned i = 0; i < count; i++) {
                assert_true(frames[i].whole);
                assert_int_equal(frames[i].result.status, i < KEYS ? 200 : 404);
        }
}

static void spans_that_are_short_and_late(void **state)
{
        int fd = put_objects();

        fake.span = 1000;
        all_is_right(fd, 100, false);
        fake.slow_reads = true;
        all_is_right(fd, 100, true);
        all_is_right(fd, 100, false);
        fake.shards = true;
        all_is_right(fd, 100, true);
        all_is_right(fd, 100, false);
        close(fd);
        EVENTUALLY(fake_figure(&fake.gets_open) == 0);
}

/* Nothing of it was sent: it is the entry's failure. */
static void a_failure_before_the_first_byte(void **state)
{
        int fd = put_objects();

        for (size_t i = 0; i < FAILURES; i++) {
                struct frame frames[256] = {0};
                bool end;

                if (failures[i].status == 507)
                        continue; /* of writes */
                fake.get_rv = failures[i].rv;
                send_batch(fd, 40, i % 2 == 0);
                assert_int_equal(read_frames(fd, frames, &end), 40);
                assert_true(end);
                for (unsigned k = 0; k < 40; k++)
                        assert_int_equal(frames[k].result.status, failures[i].status);
        }
        fake.get_rv = 0;
        all_is_right(fd, KEYS, true); /* on the same connection */
        fake.bucket_rv = -EHOSTDOWN;
        struct frame frames[256] = {0};
        bool end;
        send_batch(fd, 3, false);
        assert_int_equal(read_frames(fd, frames, &end), 3);
        assert_int_equal(frames[1].result.code, RDX_CODE_SERVICE_UNAVAILABLE);
        fake.bucket_rv = 0;
        close(fd);
}

/* A length was promised: the connection is cut, and what came before it is good. */
static void a_failure_in_the_midst(void **state)
{
        struct frame frames[256] = {0};
        int fd = put_objects();
        bool end;

        fake.span = 5000;
        fake.break_at = 100000;
        send_batch(fd, KEYS, true);
        assert_int_equal(read_frames(fd, frames, &end), 1);
        assert_false(end);
        assert_true(frames[0].whole);
        assert_false(frames[1].whole);
        close(fd);
        EVENTUALLY(fake_figure(&fake.gets_open) == 0);
}

static void clients_that_go_away(void **state)
{
        int fd = put_objects(), lost;

        for (unsigned round = 0; round < 4; round++) {
                fake.slow_reads = round >= 2;
                fake_set_hold();
                lost = dial();
                send_batch(lost, 100, round % 2 == 0);
                EVENTUALLY(fake_held() > 0); /* lookups */
                if (round >= 2) {
                        fake.stall_reads = true; /* and reads, next */
                        fake_release();
                        EVENTUALLY(fake_held() > 0);
                }
                close(lost);
                sleep_ms(100);
                fake.stall_reads = false;
                fake_release();
                EVENTUALLY(fake_figure(&fake.gets_open) == 0);
        }
        fake.slow_reads = false;
        all_is_right(fd, 50, false);
        close(fd);
}

/* Each entry is asked for by the user as he is then. */
static void a_user_that_is_taken_away(void **state)
{
        const struct gw_credential other = {"OTHER", "secret"};
        struct frame frames[256] = {0};
        int fd = put_objects();
        bool end;

        fake_set_hold();
        send_batch(fd, 100, true);
        EVENTUALLY(fake_held() == 8); /* looked up already */
        assert_int_equal(gw_credentials_set(site.gw, &other, 1), 0);
        fake_release();
        assert_int_equal(read_frames(fd, frames, &end), 100);
        assert_true(end);
        for (unsigned i = 0; i < 100; i++)
                assert_int_equal(frames[i].result.status, i < KEYS ? 200 : 403); /* 404 is for those who may list */
        close(fd);
}

static void a_body_for_which_there_is_no_room(void **state)
{
        const struct gw_limits limits = {.upload_memory = 64};
        int fd;

        site_open(&limits);
        fd = dial();
        send_batch(fd, 20, false);
        expect(fd, 503, "SlowDown");
        close(fd);
        site_close();
}

static bool no_odd_keys(const char *permission, struct s3_str bucket, struct s3_str key)
{
        return strcmp(permission, "s3:GetObject") != 0 || key.len == 0 || key.data[key.len - 1] % 2 == 0;
}

/* The batch is permitted, and each entry is asked for. */
static void entries_that_are_not_permitted(void **state)
{
        struct frame frames[256] = {0};
        int fd = put_objects();
        bool end;

        site_may = no_odd_keys;
        send_batch(fd, KEYS, true);
        assert_int_equal(read_frames(fd, frames, &end), KEYS);
        for (unsigned i = 0; i < KEYS; i++)
                assert_int_equal(frames[i].result.code, i % 2 == 0 ? RDX_CODE_OK : RDX_CODE_ACCESS_DENIED);
        close(fd);
}

/* Another account's object is not the bucket owner's to read, unless all in the bucket is. */
static void entries_of_another_owner(void **state)
{
        static const char writer[] = "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>";
        struct s3_acl acl = {.owner = "000000000002"};
        struct frame frames[256] = {0};
        int fd = put_objects();
        bool end;

        for (unsigned i = 0; i < FAKE_OBJECTS; i++) {
                struct fake_object *o = &fake.objects[i];

                if (o->used && o->key_len == 2 && (o->key[1] - '0') % 2 != 0)
                        o->object.acl = (struct eng_str){(const char *)o->acl, s3_acl_encode(&acl, o->acl)};
        }
        all_is_right(fd, KEYS, true); /* BucketOwnerEnforced */
        fake_text_set(GW_TEXT_OWNERSHIP, (struct eng_str){writer, sizeof(writer) - 1});
        send_batch(fd, KEYS + 1, true);
        assert_int_equal(read_frames(fd, frames, &end), KEYS + 1);
        for (unsigned i = 0; i < KEYS; i++)
                assert_int_equal(frames[i].result.code, i % 2 == 0 ? RDX_CODE_OK : RDX_CODE_ACCESS_DENIED);
        assert_int_equal(frames[KEYS].result.code, RDX_CODE_NO_SUCH_KEY);
        close(fd);
        EVENTUALLY(fake_figure(&fake.gets_open) == 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(spans_that_are_short_and_late, site_setup, site_teardown),
                cmocka_unit_test_setup_teardown(a_failure_before_the_first_byte, site_setup, site_teardown),
                cmocka_unit_test_setup_teardown(a_failure_in_the_midst, site_setup, site_teardown),
                cmocka_unit_test_setup_teardown(entries_that_are_not_permitted, site_setup, site_teardown),
                cmocka_unit_test_setup_teardown(entries_of_another_owner, site_setup, site_teardown),
                cmocka_unit_test_setup_teardown(clients_that_go_away, site_setup, site_teardown),
                cmocka_unit_test_setup_teardown(a_user_that_is_taken_away, site_setup, site_teardown),
                cmocka_unit_test(a_body_for_which_there_is_no_room),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
