/*
 * keys.c - a session's keys, and the private data that proves them when a queue pair connects.
 * Pure; the server's CM loop and the client's thread call it. Nothing here allocates for outside
 * data: a connection costs the server two HMACs before it is believed.
 */
#include "rdma_wire.h"

#include "rdma/bytes.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

static void hmac(const uint8_t *key, size_t key_len, const void *data, size_t len, uint8_t out[RDX_KEY_LEN])
{
        unsigned out_len = 0;
        const unsigned char *done = HMAC(EVP_sha256(), key, (int)key_len, data, len, out, &out_len);

        assert(done != NULL &&
               out_len == RDX_KEY_LEN); /* fails only without memory: no key is better than a wrong one */
}

/* ---- keys ------------------------------------------------------------------------------------ */

void rdx_keys_derive(const struct rdx_key_input *input, struct rdx_keys *out)
{
        static const char label[] = "millrace-rdma"; /* its 0 is part of what is hashed */
        uint8_t text[sizeof(label) + 2 + RDX_ID_LEN + 2 * RDX_NONCE_LEN], *at = text;
        uint8_t session_key[RDX_KEY_LEN], secret[RDX_KEY_LEN];

        memcpy(at, label, sizeof(label));
        at += sizeof(label);
        rdx_put16(at, RDX_VERSION);
        at += 2;
        memcpy(at, input->session, RDX_ID_LEN);
        at += RDX_ID_LEN;
        memcpy(at, input->client_nonce, RDX_NONCE_LEN);
        at += RDX_NONCE_LEN;
        memcpy(at, input->server_nonce, RDX_NONCE_LEN);
        hmac(input->signing_key, RDX_KEY_LEN, text, sizeof(text), session_key);
        hmac(session_key, RDX_KEY_LEN, "connect", strlen("connect"), out->connect);
        hmac(session_key, RDX_KEY_LEN, "request", strlen("request"), secret);
        rdx_hex(secret, RDX_KEY_LEN, out->secret);
        OPENSSL_cleanse(session_key, sizeof(session_key));
        OPENSSL_cleanse(secret, sizeof(secret));
}

void rdx_access_key(const uint8_t session[RDX_ID_LEN], char out[RDX_ACCESS_KEY_LEN + 1])
{
        static const char prefix[4] = {'M', 'R', 'D', 'X'};
        char *at;

        memcpy(out, prefix, sizeof(prefix));
        rdx_hex(session, RDX_ID_LEN, out + 4);
        for (at = out + 4; *at != '\0'; at++)
                if (*at >= 'a')
                        *at = (char)(*at - 'a' + 'A');
}

bool rdx_access_key_parse(const char *text, size_t len, uint8_t session[RDX_ID_LEN])
{
        char hex[2 * RDX_ID_LEN];
        size_t i;

        if (len != RDX_ACCESS_KEY_LEN || memcmp(text, "MRDX", 4) != 0)
                return false;
        for (i = 0; i < sizeof(hex); i++) {
                char c = text[4 + i];

                if (c >= 'a' && c <= 'f')
                        return false;
                hex[i] = c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c;
        }
        return rdx_unhex(hex, sizeof(hex), session, RDX_ID_LEN);
}

/* ---- private data ---------------------------------------------------------------------------- */

/*
 *   0 version  1 kind  2 endpoint  4 index  6 messages (CONNECT: zero)  8 session  24 MAC  40
 */
enum { AT_VERSION = 0, AT_KIND = 1, AT_ENDPOINT = 2, AT_INDEX = 4, AT_MESSAGES = 6, AT_SESSION = 8, AT_MAC = 24 };

static void keys_put_head(const struct rdx_private *private, uint8_t *out)
{
        out[AT_VERSION] = RDX_VERSION;
        out[AT_KIND] = (uint8_t) private->kind;
        rdx_put16(out + AT_ENDPOINT, private->endpoint);
        rdx_put16(out + AT_INDEX, private->index);
        rdx_put16(out + AT_MESSAGES, private->messages);
        memcpy(out + AT_SESSION, private->session, RDX_ID_LEN);
}

static uint8_t *put_party(uint8_t *at, const struct rdx_party *party)
{
        memcpy(at, party->gid, RDX_GID_LEN);
        rdx_put32(at + RDX_GID_LEN, party->pair);
        return at + RDX_GID_LEN + 4;
}

static void make_mac(const struct rdx_private *private, const uint8_t key[RDX_KEY_LEN],
                     const struct rdx_binding *binding, uint8_t mac[RDX_MAC_LEN])
{
        uint8_t text[1 + AT_MAC + RDX_BOOT_LEN + 2 * (RDX_GID_LEN + 4)], *at = text, full[RDX_KEY_LEN];
        bool accepted = private->kind == RDX_PRIVATE_ACCEPTED;

        *at++ = accepted ? 'S' : 'C';
        keys_put_head(private, at);
        at += AT_MAC;
        memcpy(at, binding->boot, RDX_BOOT_LEN);
        at += RDX_BOOT_LEN;
        if (accepted)
                at = put_party(at, &binding->server);
        at = put_party(at, &binding->client);
        hmac(key, RDX_KEY_LEN, text, (size_t)(at - text), full);
        memcpy(mac, full, RDX_MAC_LEN);
}

void rdx_private_build(struct rdx_private *private, const uint8_t key[RDX_KEY_LEN], const struct rdx_binding *binding,
                       uint8_t out[RDX_PRIVATE_LEN])
{
        assert(private->kind == RDX_PRIVATE_CONNECT || private->kind == RDX_PRIVATE_ACCEPTED);
        assert(private->kind == RDX_PRIVATE_ACCEPTED || private->messages == 0);
        make_mac(private, key, binding, private->mac);
        keys_put_head(private, out);
        memcpy(out + AT_MAC, private->mac, RDX_MAC_LEN);
}

static bool keys_is_zero(const uint8_t *data, size_t len)
{
        while (len > 0)
                if (data[--len] != 0)
                        return false;
        return true;
}

int rdx_private_parse(const void *data, size_t len, struct rdx_private *out)
{
        const uint8_t *at = data;

        memset(out, 0, sizeof(*out));
        if (len < RDX_PRIVATE_LEN || at[AT_VERSION] != RDX_VERSION ||
            !keys_is_zero(at + RDX_PRIVATE_LEN, len - RDX_PRIVATE_LEN))
                return -EBADMSG;
        if (at[AT_KIND] != RDX_PRIVATE_CONNECT && at[AT_KIND] != RDX_PRIVATE_ACCEPTED)
                return -EBADMSG;
        out->kind = at[AT_KIND];
        out->endpoint = rdx_get16(at + AT_ENDPOINT);
        out->index = rdx_get16(at + AT_INDEX);
        out->messages = rdx_get16(at + AT_MESSAGES);
        memcpy(out->session, at + AT_SESSION, RDX_ID_LEN);
        memcpy(out->mac, at + AT_MAC, RDX_MAC_LEN);
        return out->kind == RDX_PRIVATE_CONNECT && out->messages != 0 ? -EBADMSG : 0;
}

bool rdx_private_verify(const struct rdx_private *private, const uint8_t key[RDX_KEY_LEN],
                        const struct rdx_binding *binding)
{
        uint8_t mac[RDX_MAC_LEN];

        make_mac(private, key, binding, mac);
        return CRYPTO_memcmp(mac, private->mac, RDX_MAC_LEN) == 0;
}

void rdx_reject_build(enum rdx_reject reason, uint8_t out[RDX_REJECT_LEN])
{
        out[0] = RDX_VERSION;
        out[1] = RDX_PRIVATE_REJECTED;
        rdx_put16(out + 2, (uint16_t)reason);
}

int rdx_reject_parse(const void *data, size_t len)
{
        const uint8_t *at = data;

        if (len < RDX_REJECT_LEN || at[0] != RDX_VERSION || at[1] != RDX_PRIVATE_REJECTED)
                return -EBADMSG;
        return rdx_get16(at + 2);
}
