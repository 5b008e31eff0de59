/*
 * fuzz_net_frame.c - heads and greetings of other nodes from any bytes. The first byte chooses
 * which; heads and MACs are made right, so that what lies behind them is reached. What is taken
 * keeps the limits, and written again it is the same.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"
#include "net/wire_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_head(const uint8_t *data, size_t size)
{
        uint8_t bytes[NET_HEAD_SIZE] = "MRNF", again[NET_HEAD_SIZE];
        static uint8_t body[NET_BODY_MAX];
        struct net_wire_head head, copy;
        uint32_t crc;

        memcpy(bytes + 4, data, size < NET_HEAD_CRC - 4 ? size : NET_HEAD_CRC - 4);
        crc = era_crc32c(0, bytes, NET_HEAD_CRC);
        memcpy(bytes + NET_HEAD_CRC, &crc, sizeof(crc));
        if (net_head_read(bytes, &head) != 0)
                return;
        assert(head.body_len <= NET_BODY_MAX && head.bulk_len <= NET_BULK_MAX && head.room <= NET_BULK_MAX &&
               head.lane < NET_LANES);
        assert(head.kind > 0 && head.kind < NET_FRAME_KINDS && head.flags == 0 && head.zero == 0);
        assert((head.version == 0) == (head.kind <= NET_FRAME_REFUSED));
        copy = head;
        net_head_write(&copy, body, again);
        assert(net_head_read(again, &copy) == 0 && net_body_matches(&copy, body));
        assert(memcmp(bytes, again, 64) == 0);
}

static void fuzz_hello(const uint8_t *data, size_t size)
{
        static const uint8_t secret[NET_SECRET_LEN] = {1};
        struct net_self self = {.node = 2, .boot = 1, .clock_s = 300};
        struct net_wire_refused refused;
        struct net_wire_hello hello;
        struct net_secrets secrets;
        uint8_t bytes[NET_HELLO_SIZE];
        char text[200];
        uint16_t version = 0;

        if (net_hello_read(data, size, &hello) != 0)
                return;
        assert(hello.link < NET_LINKS && hello.boot != 0 && hello.sequence != 0 && size <= NET_GREET_MAX);
        net_hello_proves(data, size, secret);
        if (net_hello_secrets(data, size, &secrets) == 0) {
                assert(secrets.count <= NET_SECRETS_MAX);
                assert(net_secrets_compare(&secrets, &secrets) == (secrets.count > 0 ? NET_SECRETS_SAME : NET_SECRETS_UNKNOWN) || secrets.count > 1);
        }
        memcpy(self.cluster, hello.cluster, NET_CLUSTER_LEN);
        self.generation.number = hello.generation;
        if (net_hello_judge(&self, &hello, hello.wall_ms, &version, &refused) == NET_REASON_NONE)
                assert(version >= NET_VERSION_LEAST && version <= NET_VERSION_NEWEST && hello.to == 2 &&
                       hello.node != 2);
        net_hello_judge(&self, &hello, 0, &version, &refused);
        net_reason_text(&refused, text, sizeof(text));
        net_hello_write(&hello, secret, bytes);
        assert(memcmp(bytes + NET_HEAD_SIZE, data, sizeof(hello)) == 0);
        assert(net_hello_proves(bytes + NET_HEAD_SIZE, NET_HELLO_SIZE - NET_HEAD_SIZE, secret));
}

static void fuzz_answers(const uint8_t *data, size_t size)
{
        static const uint8_t secret[NET_SECRET_LEN] = {1}, mac[NET_MAC_LEN] = {2};
        struct net_wire_welcome welcome;
        struct net_wire_refused refused;
        char text[200];

        if (net_welcome_read(data, size, &welcome) == 0) {
                assert(welcome.version >= NET_VERSION_LEAST && welcome.version <= NET_VERSION_NEWEST &&
                       welcome.requests > 0);
                net_welcome_proves(data, size, secret, mac);
        }
        if (net_refused_read(data, size, &refused) == 0) {
                net_reason_text(&refused, text, sizeof(text));
                assert(strlen(text) < sizeof(text));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size == 0)
                return 0;
        switch (data[0] % 3) {
        case 0:
                fuzz_head(data + 1, size - 1);
                break;
        case 1:
                fuzz_hello(data + 1, size - 1);
                break;
        default:
                fuzz_answers(data + 1, size - 1);
        }
        return 0;
}
