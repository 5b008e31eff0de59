/*
 * wire_frame.c - frames and greetings as bytes and back. Called by link_conn.c, link.c, admission.c and the fuzz
 * target; any thread. Lengths and checksums are looked at before anything that depends on them.
 */
#include "net/wire_frame.h"

#include "ec.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROLE_LEN 16u

/* ---- heads ----------------------------------------------------------------------------------- */

void net_head_write(struct net_wire_head *head, const void *body, uint8_t out[NET_HEAD_SIZE])
{
        head->magic = NET_MAGIC;
        head->zero = 0;
        head->flags = 0;
        head->body_crc = head->body_len > 0 ? era_crc32c(0, body, head->body_len) : 0;
        head->head_crc = era_crc32c(0, head, NET_HEAD_CRC);
        memcpy(out, head, NET_HEAD_SIZE);
}

/* Which fields a kind may use: a frame that says more than its kind can is wrong. */
static bool fits_its_kind(const struct net_wire_head *head)
{
        bool request = head->kind == NET_FRAME_REQUEST, carries = request || head->kind == NET_FRAME_REPLY;

        if (!carries && (head->bulk_len != 0 || head->bulk_crc != 0 || head->code != 0))
                return false;
        if (!request && (head->room != 0 || head->deadline_ms != 0 || head->lane != 0))
                return false;
        switch (head->kind) {
        case NET_FRAME_HELLO:
        case NET_FRAME_WELCOME:
        case NET_FRAME_REFUSED:
                return head->version == 0 && head->body_len <= NET_GREET_MAX && head->id == 0;
        case NET_FRAME_PING:
        case NET_FRAME_PONG:
                return head->version != 0 && head->body_len == 0;
        default:
                return head->version != 0 && (head->bulk_len != 0 || head->bulk_crc == 0);
        }
}

int net_head_read(const uint8_t bytes[NET_HEAD_SIZE], struct net_wire_head *out)
{
        memcpy(out, bytes, NET_HEAD_SIZE);
        if (out->magic != NET_MAGIC || out->head_crc != era_crc32c(0, bytes, NET_HEAD_CRC))
                return -EBADMSG;
        if (out->kind == 0 || out->kind >= NET_FRAME_KINDS || out->flags != 0 || out->zero != 0)
                return -EBADMSG;
        if (out->body_len > NET_BODY_MAX || out->bulk_len > NET_BULK_MAX || out->room > NET_BULK_MAX)
                return -EBADMSG;
        if (out->lane >= NET_LANES || (out->body_len == 0 && out->body_crc != 0) || !fits_its_kind(out))
                return -EBADMSG;
        return 0;
}

bool net_body_matches(const struct net_wire_head *head, const void *body)
{
        return head->body_len == 0 || era_crc32c(0, body, head->body_len) == head->body_crc;
}

/* ---- MACs ------------------------------------------------------------------------------------ */

/*
 * HMAC-SHA256 of a word that says which end speaks (so that neither's greeting can be sent back to
 * it), of the other end's MAC, if there is one, and of the body.
 */
static void greeting_mac(const uint8_t *secret, const char role[ROLE_LEN], const uint8_t *before, const uint8_t *body,
                         size_t len, uint8_t out[NET_MAC_LEN])
{
        uint8_t text[ROLE_LEN + NET_MAC_LEN + NET_GREET_MAX] = {0};
        size_t at = ROLE_LEN;
        unsigned out_len = NET_MAC_LEN;

        memcpy(text, role, ROLE_LEN);
        if (before != NULL)
                memcpy(text + at, before, NET_MAC_LEN);
        at += NET_MAC_LEN;
        memcpy(text + at, body, len);
        if (HMAC(EVP_sha256(), secret, NET_SECRET_LEN, text, at + len, out, &out_len) == NULL)
                abort(); /* only without memory for a few words */
}

static const char opener_role[ROLE_LEN] = "millrace opener", acceptor_role[ROLE_LEN] = "millrace accept";

const uint8_t *net_greeting_mac(const uint8_t *body, size_t len)
{
        return body + len - NET_MAC_LEN;
}

bool net_hello_proves(const uint8_t *body, size_t len, const uint8_t secret[NET_SECRET_LEN])
{
        uint8_t mac[NET_MAC_LEN];

        greeting_mac(secret, opener_role, NULL, body, len - NET_MAC_LEN, mac);
        return CRYPTO_memcmp(mac, net_greeting_mac(body, len), NET_MAC_LEN) == 0;
}

bool net_welcome_proves(const uint8_t *body, size_t len, const uint8_t secret[NET_SECRET_LEN],
                        const uint8_t before[NET_MAC_LEN])
{
        uint8_t mac[NET_MAC_LEN];

        greeting_mac(secret, acceptor_role, before, body, len - NET_MAC_LEN, mac);
        return CRYPTO_memcmp(mac, net_greeting_mac(body, len), NET_MAC_LEN) == 0;
}

/* ---- greetings ------------------------------------------------------------------------------- */

/* Puts the head before a body that is there already. */
static void greeting_finish(enum net_frame_kind kind, size_t len, uint8_t *out)
{
        struct net_wire_head head = {.kind = (uint8_t)kind, .body_len = (uint32_t)len};

        net_head_write(&head, out + NET_HEAD_SIZE, out);
}

void net_hello_write(const struct net_wire_hello *hello, const uint8_t *secret, uint8_t out[NET_HELLO_SIZE])
{
        uint8_t *body = out + NET_HEAD_SIZE, *mac = body + sizeof(*hello);

        memcpy(body, hello, sizeof(*hello));
        memset(mac, 0, NET_MAC_LEN);
        if (secret != NULL)
                greeting_mac(secret, opener_role, NULL, body, sizeof(*hello), mac);
        greeting_finish(NET_FRAME_HELLO, sizeof(*hello) + NET_MAC_LEN, out);
}

size_t net_hello_write_secrets(const struct net_wire_hello *hello, const struct net_secrets *secrets, uint8_t out[NET_HELLO_MOST])
{
        uint8_t *body = out + NET_HEAD_SIZE;
        size_t more = secrets->count > 0 ? sizeof(*secrets) : 0;

        memcpy(body, hello, sizeof(*hello));
        memcpy(body + sizeof(*hello), secrets, more);
        memset(body + sizeof(*hello) + more, 0, NET_MAC_LEN);
        greeting_finish(NET_FRAME_HELLO, sizeof(*hello) + more + NET_MAC_LEN, out);
        return NET_HELLO_SIZE + more;
}

void net_welcome_write(const struct net_wire_welcome *welcome, const uint8_t *secret, const uint8_t before[NET_MAC_LEN],
                       uint8_t out[NET_WELCOME_SIZE])
{
        uint8_t *body = out + NET_HEAD_SIZE, *mac = body + sizeof(*welcome);

        memcpy(body, welcome, sizeof(*welcome));
        memset(mac, 0, NET_MAC_LEN);
        if (secret != NULL)
                greeting_mac(secret, acceptor_role, before, body, sizeof(*welcome), mac);
        greeting_finish(NET_FRAME_WELCOME, sizeof(*welcome) + NET_MAC_LEN, out);
}

void net_refused_write(const struct net_wire_refused *refused, uint8_t out[NET_REFUSED_SIZE])
{
        memcpy(out + NET_HEAD_SIZE, refused, sizeof(*refused));
        greeting_finish(NET_FRAME_REFUSED, sizeof(*refused), out);
}

/* What a later version has added lies behind what this one knows. */
static int greeting_read(const uint8_t *body, size_t len, size_t mac_len, void *out, size_t size)
{
        if (len < size + mac_len || len > NET_GREET_MAX)
                return -EBADMSG;
        memcpy(out, body, size);
        return 0;
}

int net_hello_read(const uint8_t *body, size_t len, struct net_wire_hello *out)
{
        int rv = greeting_read(body, len, NET_MAC_LEN, out, sizeof(*out));

        if (rv != 0)
                return rv;
        if (out->version_min == 0 || out->version_min > out->version_max || out->boot == 0 || out->sequence == 0)
                return -EBADMSG;
        return out->link < NET_LINKS ? 0 : -EBADMSG;
}

int net_hello_secrets(const uint8_t *body, size_t len, struct net_secrets *out)
{
        memset(out, 0, sizeof(*out));
        if (len < sizeof(struct net_wire_hello) + sizeof(*out) + NET_MAC_LEN)
                return 0;
        memcpy(out, body + sizeof(struct net_wire_hello), sizeof(*out));
        return out->count <= NET_SECRETS_MAX ? 0 : -EBADMSG;
}

int net_welcome_read(const uint8_t *body, size_t len, struct net_wire_welcome *out)
{
        int rv = greeting_read(body, len, NET_MAC_LEN, out, sizeof(*out));

        if (rv != 0)
                return rv;
        if (out->version < NET_VERSION_LEAST || out->version > NET_VERSION_NEWEST || out->boot == 0)
                return -EBADMSG;
        return out->requests > 0 && out->lane_bytes > 0 ? 0 : -EBADMSG;
}

int net_refused_read(const uint8_t *body, size_t len, struct net_wire_refused *out)
{
        return greeting_read(body, len, 0, out, sizeof(*out));
}

/* ---- judging --------------------------------------------------------------------------------- */

static enum net_reason judged(struct net_wire_refused *out, enum net_reason reason, uint64_t theirs, uint64_t ours)
{
        *out = (struct net_wire_refused){.reason = reason, .theirs = theirs, .ours = ours};
        return reason;
}

static uint64_t seconds_apart(int64_t a, int64_t b)
{
        uint64_t ms = a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;

        return ms / 1000;
}

enum net_reason net_hello_judge(const struct net_self *self, const struct net_wire_hello *hello, int64_t wall_ms,
                                uint16_t *version, struct net_wire_refused *out)
{
        uint64_t apart = seconds_apart(hello->wall_ms, wall_ms);

        if (memcmp(hello->cluster, self->cluster, NET_CLUSTER_LEN) != 0)
                return judged(out, NET_REASON_CLUSTER, 0, 0);
        if (hello->generation != self->generation.number || hello->generation_random != self->generation.random)
                return judged(out, NET_REASON_GENERATION, hello->generation, self->generation.number);
        if (hello->to != self->node)
                return judged(out, NET_REASON_WRONG_NODE, hello->to, self->node);
        if (hello->node == self->node)
                return judged(out, NET_REASON_DUPLICATE, hello->boot, self->boot);
        if (hello->version_max < NET_VERSION_LEAST)
                return judged(out, NET_REASON_VERSION, hello->version_max, NET_VERSION_LEAST);
        if (hello->version_min > NET_VERSION_NEWEST)
                return judged(out, NET_REASON_VERSION, hello->version_min, NET_VERSION_NEWEST);
        if (apart > self->clock_s)
                return judged(out, NET_REASON_CLOCK, apart, self->clock_s);
        *version = hello->version_max < NET_VERSION_NEWEST ? hello->version_max : NET_VERSION_NEWEST;
        return judged(out, NET_REASON_NONE, 0, 0);
}

/* Where a digest stands among the keys; -1: nowhere. */
static int secrets_find(const struct net_secrets *secrets, const uint8_t key[NET_DIGEST_LEN])
{
        unsigned i;

        for (i = 0; i < secrets->count; i++)
                if (memcmp(secrets->key[i], key, NET_DIGEST_LEN) == 0)
                        return (int)i;
        return -1;
}

enum net_secrets_verdict net_secrets_compare(const struct net_secrets *ours, const struct net_secrets *theirs)
{
        int at;

        if (ours->count == 0 || theirs->count == 0)
                return NET_SECRETS_UNKNOWN;
        at = secrets_find(theirs, ours->key[0]);
        if (at < 0 || secrets_find(ours, theirs->key[0]) < 0)
                return NET_SECRETS_APART;
        if (memcmp(ours->root[0], theirs->root[at], NET_DIGEST_LEN) != 0)
                return NET_SECRETS_ROOT_DIFFERS;
        return at == 0 ? NET_SECRETS_SAME : NET_SECRETS_FIRST_DIFFERS;
}

void net_reason_text(const struct net_wire_refused *refused, char *text, size_t size)
{
        unsigned long long theirs = refused->theirs, ours = refused->ours;

        switch (refused->reason) {
#define NET_REASON_CASE(name, ...)                                                                                     \
        case NET_REASON_##name:                                                                                        \
                snprintf(text, size, __VA_ARGS__);                                                                     \
                break;
                NET_REASONS(NET_REASON_CASE)
#undef NET_REASON_CASE
        default:
                snprintf(text, size, "reason %u, which this version does not know", (unsigned)refused->reason);
        }
}
