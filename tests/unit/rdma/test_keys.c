/*
 * test_keys.c - keys and private data. The expected values come from an independent implementation
 * of docs/rdma-protocol.md (Python's hmac).
 */
#include "tests/unit/rdma/rdma_fixture.h"

static struct rdx_key_input input;
static struct rdx_keys keys;
static struct rdx_binding binding;
static struct rdx_private connect_data, accepted_data;
static uint8_t wire[RDX_PRIVATE_MOST + 1];

static void count_up(uint8_t *bytes, size_t len, uint8_t from)
{
        while (len-- > 0)
                *bytes++ = from++;
}

static void set_party(struct rdx_party *party, uint8_t last, uint32_t pair)
{
        memset(party->gid + 10, 0xff, 2);
        party->gid[12] = 10;
        party->gid[15] = last;
        party->pair = pair;
}

static int setup(void **state)
{
        memset(wire, 0, sizeof(wire));
        memset(&binding, 0, sizeof(binding));
        count_up(input.signing_key, RDX_KEY_LEN, 0);
        count_up(input.session, RDX_ID_LEN, 0x40);
        count_up(input.client_nonce, RDX_NONCE_LEN, 0x80);
        count_up(input.server_nonce, RDX_NONCE_LEN, 0xc0);
        rdx_keys_derive(&input, &keys);
        count_up(binding.boot, RDX_BOOT_LEN, 1);
        set_party(&binding.client, 2, 0x123456);
        set_party(&binding.server, 1, 0x654321);
        connect_data = (struct rdx_private){.kind = RDX_PRIVATE_CONNECT, .endpoint = 2, .index = 3};
        accepted_data = (struct rdx_private){.kind = RDX_PRIVATE_ACCEPTED, .endpoint = 2, .index = 3, .messages = 8};
        memcpy(connect_data.session, input.session, RDX_ID_LEN);
        memcpy(accepted_data.session, input.session, RDX_ID_LEN);
        return 0;
}

static void assert_hex(const uint8_t *bytes, size_t len, const char *expected)
{
        char text[2 * RDX_KEY_LEN + 1];

        rdx_hex(bytes, len, text);
        assert_string_equal(text, expected);
}

static void test_keys_are_those_of_the_specification(void **state)
{
        assert_hex(keys.connect, RDX_KEY_LEN, "31756f2d90c7b20a83ef5997e7325af10ba23a0ea1ca6b7e11fa46e8c1eae1bb");
        assert_string_equal(keys.secret, "de68c8f67427ebca9dc18d9aa9ebe0f2e59aafa8ef0d5772a42ef476513b9f06");
}

static void check_another_key(uint8_t *byte)
{
        struct rdx_keys other;

        *byte ^= 1;
        rdx_keys_derive(&input, &other);
        assert_memory_not_equal(other.connect, keys.connect, RDX_KEY_LEN);
        assert_string_not_equal(other.secret, keys.secret);
        *byte ^= 1;
}

static void test_every_part_makes_another_key(void **state)
{
        check_another_key(&input.signing_key[31]);
        check_another_key(&input.session[0]);
        check_another_key(&input.client_nonce[15]);
        check_another_key(&input.server_nonce[7]);
}

static void test_access_key_and_back(void **state)
{
        uint8_t session[RDX_ID_LEN];
        char text[RDX_ACCESS_KEY_LEN + 1];

        rdx_access_key(input.session, text);
        assert_string_equal(text, "MRDX404142434445464748494A4B4C4D4E4F");
        assert_true(rdx_access_key_parse(text, RDX_ACCESS_KEY_LEN, session));
        assert_memory_equal(session, input.session, RDX_ID_LEN);
        assert_false(rdx_access_key_parse(text, RDX_ACCESS_KEY_LEN - 1, session));
        text[24] = 'a'; /* not its one spelling */
        assert_false(rdx_access_key_parse(text, RDX_ACCESS_KEY_LEN, session));
        text[24] = 'G';
        assert_false(rdx_access_key_parse(text, RDX_ACCESS_KEY_LEN, session));
        assert_false(rdx_access_key_parse("AKIA404142434445464748494A4B4C4D4E4F", RDX_ACCESS_KEY_LEN, session));
}

/* ---- private data ---------------------------------------------------------------------------- */

static void test_connect_is_byte_for_byte(void **state)
{
        rdx_private_build(&connect_data, keys.connect, &binding, wire);
        assert_hex(wire, 24, "0101020003000000404142434445464748494a4b4c4d4e4f");
        assert_hex(wire + 24, RDX_MAC_LEN, "fefe7352f7734e9e7f387278e8dff748");
}

static void test_accepted_is_byte_for_byte(void **state)
{
        rdx_private_build(&accepted_data, keys.connect, &binding, wire);
        assert_hex(wire, 24, "0102020003000800404142434445464748494a4b4c4d4e4f");
        assert_hex(wire + 24, RDX_MAC_LEN, "cbab1aaf176275d74bb3625b89fac0ac");
}

static void test_it_is_read_back_padded_as_the_wire_pads_it(void **state)
{
        struct rdx_private out;

        rdx_private_build(&connect_data, keys.connect, &binding, wire);
        assert_int_equal(rdx_private_parse(wire, RDX_PRIVATE_MOST, &out), 0);
        assert_int_equal(out.kind, RDX_PRIVATE_CONNECT);
        assert_int_equal(out.endpoint, 2);
        assert_int_equal(out.index, 3);
        assert_memory_equal(out.session, input.session, RDX_ID_LEN);
        assert_true(rdx_private_verify(&out, keys.connect, &binding));
}

static void check_malformed(size_t at, uint8_t value)
{
        struct rdx_private out;
        uint8_t before = wire[at];

        wire[at] = value;
        assert_int_equal(rdx_private_parse(wire, RDX_PRIVATE_MOST, &out), -EBADMSG);
        wire[at] = before;
}

static void test_malformed_private_data(void **state)
{
        struct rdx_private out;

        rdx_private_build(&connect_data, keys.connect, &binding, wire);
        assert_int_equal(rdx_private_parse(wire, RDX_PRIVATE_LEN, &out), 0);
        assert_int_equal(rdx_private_parse(wire, RDX_PRIVATE_LEN - 1, &out), -EBADMSG);
        assert_int_equal(rdx_private_parse(wire, 0, &out), -EBADMSG);
        check_malformed(0, 2);
        check_malformed(1, 0);
        check_malformed(1, 3);
        check_malformed(6, 1); /* messages of a client */
        check_malformed(40, 1);
        check_malformed(55, 1);
}

/* No bit of what is sent, and nothing of what it is bound to, may be another. */
static void check_every_bit(const struct rdx_private *data)
{
        struct rdx_private out;
        unsigned bit;

        for (bit = 0; bit < 8 * RDX_PRIVATE_LEN; bit++) {
                wire[bit / 8] ^= (uint8_t)(1 << bit % 8);
                if (rdx_private_parse(wire, RDX_PRIVATE_LEN, &out) == 0)
                        assert_false(rdx_private_verify(&out, keys.connect, &binding));
                wire[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        for (bit = 0; bit < 8 * RDX_KEY_LEN; bit++) {
                keys.connect[bit / 8] ^= (uint8_t)(1 << bit % 8);
                assert_false(rdx_private_verify(data, keys.connect, &binding));
                keys.connect[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        assert_true(rdx_private_verify(data, keys.connect, &binding));
}

static void test_any_bit_changed_is_refused(void **state)
{
        rdx_private_build(&connect_data, keys.connect, &binding, wire);
        check_every_bit(&connect_data);
        rdx_private_build(&accepted_data, keys.connect, &binding, wire);
        check_every_bit(&accepted_data);
}

static void test_it_is_bound_to_both_ends_and_their_life(void **state)
{
        struct rdx_binding other = binding;

        rdx_private_build(&connect_data, keys.connect, &binding, wire);
        rdx_private_build(&accepted_data, keys.connect, &binding, wire);
        other.boot[7] ^= 1;
        assert_false(rdx_private_verify(&connect_data, keys.connect, &other));
        assert_false(rdx_private_verify(&accepted_data, keys.connect, &other));
        other = binding;
        other.client.pair++;
        assert_false(rdx_private_verify(&connect_data, keys.connect, &other));
        assert_false(rdx_private_verify(&accepted_data, keys.connect, &other));
        other = binding;
        other.client.gid[15]++;
        assert_false(rdx_private_verify(&connect_data, keys.connect, &other));
        assert_false(rdx_private_verify(&accepted_data, keys.connect, &other));
        other = binding;
        other.server.pair++;
        assert_true(rdx_private_verify(&connect_data, keys.connect, &other)); /* the client can't know it yet */
        assert_false(rdx_private_verify(&accepted_data, keys.connect, &other));
}

/* What one side said is no proof that the other one said it. */
static void test_a_connect_is_not_reflected_as_accepted(void **state)
{
        struct rdx_private out;

        binding.server = binding.client;
        rdx_private_build(&connect_data, keys.connect, &binding, wire);
        wire[1] = RDX_PRIVATE_ACCEPTED;
        assert_int_equal(rdx_private_parse(wire, RDX_PRIVATE_LEN, &out), 0);
        assert_false(rdx_private_verify(&out, keys.connect, &binding));
}

static void test_rejections(void **state)
{
        uint8_t data[RDX_REJECT_LEN];

        rdx_reject_build(RDX_REJECT_AGAIN, data);
        assert_hex(data, sizeof(data), "01030300");
        assert_int_equal(rdx_reject_parse(data, sizeof(data)), RDX_REJECT_AGAIN);
        assert_int_equal(rdx_reject_parse(data, 3), -EBADMSG);
        data[1] = RDX_PRIVATE_CONNECT;
        assert_int_equal(rdx_reject_parse(data, sizeof(data)), -EBADMSG);
        data[1] = RDX_PRIVATE_REJECTED;
        data[0] = 0;
        assert_int_equal(rdx_reject_parse(data, sizeof(data)), -EBADMSG);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(test_keys_are_those_of_the_specification, setup),
                cmocka_unit_test_setup(test_every_part_makes_another_key, setup),
                cmocka_unit_test_setup(test_access_key_and_back, setup),
                cmocka_unit_test_setup(test_connect_is_byte_for_byte, setup),
                cmocka_unit_test_setup(test_accepted_is_byte_for_byte, setup),
                cmocka_unit_test_setup(test_it_is_read_back_padded_as_the_wire_pads_it, setup),
                cmocka_unit_test_setup(test_malformed_private_data, setup),
                cmocka_unit_test_setup(test_any_bit_changed_is_refused, setup),
                cmocka_unit_test_setup(test_it_is_bound_to_both_ends_and_their_life, setup),
                cmocka_unit_test_setup(test_a_connect_is_not_reflected_as_accepted, setup),
                cmocka_unit_test_setup(test_rejections, setup),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
