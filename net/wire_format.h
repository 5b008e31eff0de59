/*
 * wire_format.h - bytes between two nodes: frames and the greetings that open a connection. The page for
 * people is docs/cluster-wire.md. Little-endian, without padding; nothing else in the project knows
 * these layouts.
 *
 * A frame:
 *
 *   0        4       6      7       8      10      11     12       16          24
 *   +--------+-------+------+-------+-------+-------+------+--------+-----------+
 *   | magic  |version| kind | flags | lane  | class | zero | tenant | request id|
 *   +--------+-------+------+-------+-------+-------+------+--------+-----------+
 *   24               40     44          48         52         56     60         64         68         72
 *   +----------------+------+-----------+----------+----------+------+----------+----------+----------+
 *   | trace id       | code | deadline  | body len | bulk len | room | bulk CRC | body CRC | head CRC |
 *   +----------------+------+-----------+----------+----------+------+----------+----------+----------+
 *   72                            72 + body len                     + bulk len
 *   +-----------------------------+----------------------------------+
 *   | body, at most 64 KiB        | bulk, at most 2 MiB              |
 *   +-----------------------------+----------------------------------+
 *
 * head CRC is the CRC32C of the 68 bytes before it, so that no length is believed that was not
 * sent; through it the two other CRCs are covered, too.
 */
#ifndef MILLRACE_NET_WIRE_FORMAT_H
#define MILLRACE_NET_WIRE_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "net.h"

#define NET_MAGIC 0x464e524du /* "MRNF" */

/* The versions that this build speaks. Greetings have version 0 in their head: their form stays. */
#define NET_VERSION_LEAST  1u
#define NET_VERSION_NEWEST 1u

enum net_frame_kind {
        NET_FRAME_HELLO = 1, /* opener: first */
        NET_FRAME_WELCOME,   /* acceptor: first, or */
        NET_FRAME_REFUSED,   /* acceptor: first and last */
        NET_FRAME_REQUEST,   /* opener */
        NET_FRAME_REPLY,     /* acceptor */
        NET_FRAME_PING,      /* opener */
        NET_FRAME_PONG,      /* acceptor: of a ping, or with request id 0 when it has sent nothing for a second */
        NET_FRAME_KINDS
};

#define NET_HEAD_SIZE 72u
#define NET_HEAD_CRC  68u   /* where it stands: it covers what is before it */
#define NET_GREET_MAX 1024u /* bytes of a greeting's body: versions to come may add to it */

struct net_wire_head {
        uint32_t magic;
        uint16_t version;
        uint8_t kind, flags; /* flags: zero in version 1 */
        uint16_t lane;
        uint8_t class, zero;
        uint32_t tenant;
        uint64_t id;
        uint8_t trace[NET_TRACE_LEN];
        uint32_t code;        /* REQUEST: operation; REPLY: status, a signed number */
        uint32_t deadline_ms; /* REQUEST: left when it was sent; 0: none */
        uint32_t body_len, bulk_len;
        uint32_t room; /* REQUEST: bulk that its reply may have */
        uint32_t bulk_crc, body_crc, head_crc;
} __attribute__((packed));

_Static_assert(sizeof(struct net_wire_head) == NET_HEAD_SIZE, "wire_format.h");
_Static_assert(offsetof(struct net_wire_head, lane) == 8 && offsetof(struct net_wire_head, tenant) == 12,
               "wire_format.h");
_Static_assert(offsetof(struct net_wire_head, id) == 16 && offsetof(struct net_wire_head, trace) == 24,
               "wire_format.h");
_Static_assert(offsetof(struct net_wire_head, code) == 40 && offsetof(struct net_wire_head, body_len) == 48,
               "wire_format.h");
_Static_assert(offsetof(struct net_wire_head, room) == 56 && offsetof(struct net_wire_head, head_crc) == NET_HEAD_CRC,
               "wire_format.h");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fields are read as they lie");

/*
 * Body of HELLO: the fields, whatever later versions add, and the MAC in the last 32 bytes (zero
 * over TLS).
 *
 *   0         16            32      34     36     37      38           40           42      44   48
 *   +---------+-------------+-------+------+------+-------+------------+------------+-------+----+
 *   | cluster | generation  | node  | to   | link | zero  | version min| version max| flags |zero|
 *   +---------+-------------+-------+------+------+-------+------------+------------+-------+----+
 *   48     56         64        72                 80         96       104        112       144
 *   +------+----------+---------+------------------+----------+---------+----------+---------+
 *   | boot | sequence | wall ms | control sequence | nonce    | features| zero     | MAC     |
 *   +------+----------+---------+------------------+----------+---------+----------+---------+
 */
#define NET_HELLO_PLAIN 1u /* flags: not TLS; the MAC counts */

struct net_wire_hello {
        uint8_t cluster[NET_CLUSTER_LEN];
        uint64_t generation, generation_random;
        uint16_t node, to;
        uint8_t link, zero; /* enum net_link_number */
        uint16_t version_min, version_max;
        uint16_t flags;
        uint32_t zero_too;
        uint64_t boot;
        uint64_t sequence; /* of this boot's connections of this link to this node: grows */
        int64_t wall_ms;
        uint64_t control_sequence; /* plain: of the control connection whose secret the MAC is made with */
        uint8_t nonce[16];
        uint64_t features;
        uint64_t more;
} __attribute__((packed));

/*
 * Over TLS, between HELLO's fields and the MAC, struct net_secrets: count, then digests of 8 bytes. An
 * opener without secrets, or of a build that does not know them, leaves it out.
 */
_Static_assert(sizeof(struct net_secrets) == 264 && offsetof(struct net_secrets, key) == 8 && offsetof(struct net_secrets, root) == 136,
               "wire_format.h");

/*
 * Body of WELCOME, and the MAC in its last 32 bytes.
 *
 *   0      2      4         8      16        24           28           32            36   40      56         64     96
 *   +------+------+---------+------+---------+------------+------------+-------------+----+-------+----------+------+
 *   | node | to   | version | boot | wall ms | lane bytes | body bytes | requests    |zero| nonce | features | MAC  |
 *   +------+------+---------+------+---------+------------+------------+-------------+----+-------+----------+------+
 */
struct net_wire_welcome {
        uint16_t node, to;
        uint32_t version;
        uint64_t boot;
        int64_t wall_ms;
        uint32_t lane_bytes; /* that the opener may have unanswered on one lane */
        uint32_t body_max;   /* longest body that is taken */
        uint32_t requests;   /* that the opener may have unanswered */
        uint32_t zero;
        uint8_t nonce[16]; /* HELLO's */
        uint64_t features;
} __attribute__((packed));

/* Body of REFUSED: numbers, no text, so that nothing of a stranger's gets into a log. */
struct net_wire_refused {
        uint32_t reason; /* enum net_reason */
        uint32_t zero;
        uint64_t theirs, ours; /* as the one that refuses sees it; what they mean depends on the reason */
} __attribute__((packed));

#define NET_MAC_LEN    32u
#define NET_SECRET_LEN 32u

_Static_assert(sizeof(struct net_wire_hello) == 112 && offsetof(struct net_wire_hello, boot) == 48, "wire_format.h");
_Static_assert(offsetof(struct net_wire_hello, nonce) == 80, "wire_format.h");
_Static_assert(sizeof(struct net_wire_welcome) == 64 && offsetof(struct net_wire_welcome, nonce) == 40,
               "wire_format.h");
_Static_assert(sizeof(struct net_wire_refused) == 24, "wire_format.h");

#endif
