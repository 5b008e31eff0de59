/*
 * test_wire_frame.c - heads and greetings as bytes: what is taken, what is not, and reasons in words.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ec.h"
#include "net/wire_frame.h"

static struct net_wire_head some_head(void)
{
        return (struct net_wire_head){.version = 1,
                                      .kind = NET_FRAME_REQUEST,
                                      .lane = 3,
                                      .class = 4,
                                      .tenant = 0x05060708,
                                      .id = 0x1122334455667788,
                                      .trace = "0123456789abcde",
                                      .code = 9,
                                      .deadline_ms = 10,
                                      .body_len = 5,
                                      .bulk_len = 6,
                                      .room = 7,
                                      .bulk_crc = 8};
}

/* Written and read again, whatever it is. */
static int again(struct net_wire_head head)
{
        static uint8_t body[NET_BODY_MAX + 1];
        uint8_t bytes[NET_HEAD_SIZE];
        struct net_wire_head out;

        net_head_write(&head, body, bytes);
        return net_head_read(bytes, &out);
}

/* The bytes that docs/cluster-wire.md draws: the layout stays as it is. */
static void test_a_head_byte_by_byte(void **state)
{
        static const uint8_t expected[40] = {'M',  'R',  'N',  'F',  1,   0,   4,    0,    3,    0,
                                             4,    0,    8,    7,    6,   5,   0x88, 0x77, 0x66, 0x55,
                                             0x44, 0x33, 0x22, 0x11, '0', '1', '2',  '3',  '4',  '5',
                                             '6',  '7',  '8',  '9',  'a', 'b', 'c',  'd',  'e',  0};
        static const uint8_t numbers[24] = {9, 0, 0, 0, 10, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0};
        struct net_wire_head head = some_head(), out;
        uint8_t bytes[NET_HEAD_SIZE];
        uint32_t crc;

        net_head_write(&head, "hello", bytes);
        assert_memory_equal(bytes, expected, sizeof(expected));
        assert_memory_equal(bytes + 40, numbers, sizeof(numbers));
        memcpy(&crc, bytes + 64, 4);
        assert_int_equal(crc, era_crc32c(0, "hello", 5));
        memcpy(&crc, bytes + 68, 4);
        assert_int_equal(crc, era_crc32c(0, bytes, 68));
        assert_int_equal(net_head_read(bytes, &out), 0);
        assert_memory_equal(&out, &head, sizeof(head));
        assert_true(net_body_matches(&out, "hello"));
        assert_false(net_body_matches(&out, "hellp"));
}

static void test_limits_of_a_head(void **state)
{
        struct net_wire_head head = some_head();

        head.body_len = NET_BODY_MAX;
        head.bulk_len = head.room = NET_BULK_MAX;
        head.lane = NET_LANES - 1;
        assert_int_equal(again(head), 0);
        head.body_len++;
        assert_int_equal(again(head), -EBADMSG);
        head = some_head();
        head.bulk_len = NET_BULK_MAX + 1;
        assert_int_equal(again(head), -EBADMSG);
        head = some_head();
        head.room = NET_BULK_MAX + 1;
        assert_int_equal(again(head), -EBADMSG);
        head = some_head();
        head.lane = NET_LANES;
        assert_int_equal(again(head), -EBADMSG);
        head = some_head();
        head.kind = NET_FRAME_KINDS;
        assert_int_equal(again(head), -EBADMSG);
        head.kind = 0;
        assert_int_equal(again(head), -EBADMSG);
        head = some_head();
        head.bulk_len = 0; /* and a checksum of none */
        assert_int_equal(again(head), -EBADMSG);
        head = some_head();
        head.version = 0; /* a greeting's */
        assert_int_equal(again(head), -EBADMSG);
        head = (struct net_wire_head){.kind = NET_FRAME_HELLO, .body_len = NET_GREET_MAX};
        assert_int_equal(again(head), 0);
        head.body_len++;
        assert_int_equal(again(head), -EBADMSG);
        head = (struct net_wire_head){.version = 1, .kind = NET_FRAME_REPLY, .id = 1, .room = 1};
        assert_int_equal(again(head), -EBADMSG);
}

static struct net_wire_hello some_hello(void)
{
        return (struct net_wire_hello){.cluster = "cluster",
                                       .generation = 1,
                                       .node = 1,
                                       .to = 2,
                                       .link = NET_BULK_1,
                                       .version_min = 1,
                                       .version_max = 1,
                                       .boot = 3,
                                       .sequence = 4,
                                       .wall_ms = 1000000};
}

static int hello_again(struct net_wire_hello hello)
{
        uint8_t bytes[NET_HELLO_SIZE];
        struct net_wire_hello out;

        net_hello_write(&hello, NULL, bytes);
        return net_hello_read(bytes + NET_HEAD_SIZE, NET_HELLO_SIZE - NET_HEAD_SIZE, &out);
}

static void test_hello(void **state)
{
        struct net_wire_hello hello = some_hello();

        assert_int_equal(hello_again(hello), 0);
        hello.link = NET_LINKS;
        assert_int_equal(hello_again(hello), -EBADMSG);
        hello = some_hello();
        hello.boot = 0;
        assert_int_equal(hello_again(hello), -EBADMSG);
        hello = some_hello();
        hello.sequence = 0;
        assert_int_equal(hello_again(hello), -EBADMSG);
        hello = some_hello();
        hello.version_min = 2;
        assert_int_equal(hello_again(hello), -EBADMSG);
        hello.version_min = 0;
        assert_int_equal(hello_again(hello), -EBADMSG);
}

/* A MAC is of one secret, one role, one body and, in WELCOME, one HELLO. */
static struct net_secrets some_secrets(const char *keys, const char *roots)
{
        struct net_secrets secrets = {.count = (uint32_t)strlen(keys)};
        unsigned i;

        for (i = 0; i < secrets.count; i++) {
                memset(secrets.key[i], keys[i], NET_DIGEST_LEN);
                memset(secrets.root[i], roots[i], NET_DIGEST_LEN);
        }
        return secrets;
}

static void test_secrets_of_a_hello(void **state)
{
        struct net_secrets secrets = some_secrets("ab", "xy"), none = {0}, out;
        struct net_wire_hello hello = some_hello(), read;
        uint8_t bytes[NET_HELLO_MOST], *body = bytes + NET_HEAD_SIZE;
        size_t len = net_hello_write_secrets(&hello, &secrets, bytes) - NET_HEAD_SIZE, cut;

        assert_int_equal(len, NET_HELLO_MOST - NET_HEAD_SIZE);
        assert_in_range(len, 1, NET_GREET_MAX);
        assert_int_equal(net_hello_read(body, len, &read), 0);
        assert_memory_equal(&read, &hello, sizeof(read));
        assert_int_equal(net_hello_secrets(body, len, &out), 0);
        assert_memory_equal(&out, &secrets, sizeof(out));
        for (cut = NET_HELLO_SIZE - NET_HEAD_SIZE; cut < len; cut++) { /* of a build that says less */
                assert_int_equal(net_hello_secrets(body, cut, &out), 0);
                assert_int_equal(out.count, 0);
        }
        body[sizeof(hello)] = NET_SECRETS_MAX + 1;
        assert_int_equal(net_hello_secrets(body, len, &out), -EBADMSG);
        assert_int_equal(net_hello_write_secrets(&hello, &none, bytes), NET_HELLO_SIZE);
        assert_int_equal(net_hello_secrets(body, NET_HELLO_SIZE - NET_HEAD_SIZE, &out), 0);
        assert_int_equal(out.count, 0);
}

static void test_secrets_compared(void **state)
{
        static const struct {
                const char *keys, *roots, *their_keys, *their_roots;
                enum net_secrets_verdict verdict;
        } cases[] = {
                {"a", "x", "a", "x", NET_SECRETS_SAME},
                {"ab", "xy", "a", "x", NET_SECRETS_SAME},           /* a former key is gone at one end */
                {"ab", "xy", "ba", "yx", NET_SECRETS_FIRST_DIFFERS},
                {"ab", "xy", "ba", "zx", NET_SECRETS_FIRST_DIFFERS}, /* one key suffices to compare the credentials */
                {"ab", "xy", "ba", "yz", NET_SECRETS_ROOT_DIFFERS},
                {"a", "x", "a", "z", NET_SECRETS_ROOT_DIFFERS},
                {"a", "x", "ba", "yx", NET_SECRETS_APART}, /* a key that only one end has seals already */
                {"ab", "xy", "b", "y", NET_SECRETS_APART},
                {"a", "x", "b", "x", NET_SECRETS_APART},
                {"", "", "b", "x", NET_SECRETS_UNKNOWN},
        };
        unsigned i;

        for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct net_secrets ours = some_secrets(cases[i].keys, cases[i].roots), theirs = some_secrets(cases[i].their_keys, cases[i].their_roots);

                assert_int_equal(net_secrets_compare(&ours, &theirs), cases[i].verdict);
                if (cases[i].verdict != NET_SECRETS_FIRST_DIFFERS && cases[i].verdict != NET_SECRETS_ROOT_DIFFERS)
                        assert_int_equal(net_secrets_compare(&theirs, &ours), cases[i].verdict);
        }
}

static void test_macs(void **state)
{
        uint8_t secret[NET_SECRET_LEN] = {1}, other[NET_SECRET_LEN] = {2}, bytes[NET_HELLO_SIZE],
                welcomed[NET_WELCOME_SIZE], mac[NET_MAC_LEN];
        uint8_t *body = bytes + NET_HEAD_SIZE, *answer = welcomed + NET_HEAD_SIZE;
        size_t len = NET_HELLO_SIZE - NET_HEAD_SIZE, answer_len = NET_WELCOME_SIZE - NET_HEAD_SIZE, i;
        struct net_wire_hello hello = some_hello();
        struct net_wire_welcome welcome = {.version = 1};

        net_hello_write(&hello, secret, bytes);
        assert_true(net_hello_proves(body, len, secret));
        assert_false(net_hello_proves(body, len, other));
        for (i = 0; i < len * 8; i++) {
                body[i / 8] ^= (uint8_t)(1u << i % 8);
                assert_false(net_hello_proves(body, len, secret));
                body[i / 8] ^= (uint8_t)(1u << i % 8);
        }
        memcpy(mac, net_greeting_mac(body, len), sizeof(mac));
        net_welcome_write(&welcome, secret, mac, welcomed);
        assert_true(net_welcome_proves(answer, answer_len, secret, mac));
        assert_false(net_welcome_proves(answer, answer_len, other, mac));
        assert_false(net_hello_proves(answer, answer_len, secret));
        assert_false(net_welcome_proves(body, len, secret, mac)); /* HELLO sent back */
        mac[0] ^= 1;
        assert_false(net_welcome_proves(answer, answer_len, secret, mac));
        net_hello_write(&hello, NULL, bytes); /* over TLS: none, which proves nothing */
        assert_false(net_hello_proves(body, len, secret));
}

static void test_versions(void **state)
{
        struct net_self self = {.cluster = "cluster", .generation = {1, 0}, .node = 2, .boot = 9, .clock_s = 300};
        struct net_wire_hello hello = some_hello();
        struct net_wire_refused refused;
        uint16_t version = 0;
        char text[160];

        assert_int_equal(net_hello_judge(&self, &hello, 1000000, &version, &refused), NET_REASON_NONE);
        assert_int_equal(version, 1);
        hello.version_max = 700;
        assert_int_equal(net_hello_judge(&self, &hello, 1000000, &version, &refused), NET_REASON_NONE);
        assert_int_equal(version, NET_VERSION_NEWEST);
        hello.version_min = NET_VERSION_NEWEST + 1;
        assert_int_equal(net_hello_judge(&self, &hello, 1000000, &version, &refused), NET_REASON_VERSION);
        net_reason_text(&refused, text, sizeof(text));
        assert_string_equal(text, "its oldest version of the protocol is 2; the newest that the other end speaks is 1");
        hello.version_min = hello.version_max = NET_VERSION_LEAST - 1; /* too old */
        assert_int_equal(net_hello_judge(&self, &hello, 1000000, &version, &refused), NET_REASON_VERSION);
        net_reason_text(&refused, text, sizeof(text));
        assert_string_equal(text, "its newest version of the protocol is 0; the oldest that the other end speaks is 1");
        hello = some_hello();
        assert_int_equal(net_hello_judge(&self, &hello, 1000000 + 300999, &version, &refused), NET_REASON_NONE);
        assert_int_equal(net_hello_judge(&self, &hello, 1000000 + 301000, &version, &refused), NET_REASON_CLOCK);
        assert_int_equal(refused.theirs, 301);
        assert_int_equal(net_hello_judge(&self, &hello, INT64_MIN, &version, &refused), NET_REASON_CLOCK);
}

static void test_reasons_in_words(void **state)
{
        struct net_wire_refused refused = {.theirs = UINT64_MAX, .ours = UINT64_MAX};
        char text[160], tiny[4];

        for (refused.reason = 0; refused.reason < NET_REASONS_END; refused.reason++) {
                net_reason_text(&refused, text, sizeof(text));
                assert_true(strlen(text) > 0 && strlen(text) < sizeof(text) - 1);
                net_reason_text(&refused, tiny, sizeof(tiny));
                assert_int_equal(strlen(tiny), 3);
        }
        refused.reason = 12345;
        net_reason_text(&refused, text, sizeof(text));
        assert_string_equal(text, "reason 12345, which this version does not know");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_head_byte_by_byte),
                cmocka_unit_test(test_limits_of_a_head),
                cmocka_unit_test(test_hello),
                cmocka_unit_test(test_secrets_of_a_hello),
                cmocka_unit_test(test_secrets_compared),
                cmocka_unit_test(test_macs),
                cmocka_unit_test(test_versions),
                cmocka_unit_test(test_reasons_in_words),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
