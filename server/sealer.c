/*
 * sealer.c - seals the secrets of users with the key in key_file (AES-256-GCM), for the gateway, which
 * keeps them in the store. What is sealed is text:
 *
 *   key id (16 hex digits) . nonce (24) . bytes and tag (2 digits each)
 *
 * The name of what it belongs to is authenticated with it, so a sealed text is nothing in another
 * place. The key id says which key opens it after a rotation. Any thread; a lock that nobody holds for
 * long, since sealing copies a few hundred bytes.
 */
#include "server/sealer.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "loop.h"
#include "s3.h"
#include "server/daemon_log.h"

#define KEY_ID    16u
#define NONCE_HEX (2 * SRV_NONCE_LEN)
#define HEAD      (KEY_ID + 1 + NONCE_HEX + 1)

static int sealer_seal(void *arg, const char *about, const char *secret, char *out, size_t size)
{
        uint8_t nonce[SRV_NONCE_LEN], bytes[GW_SECRET_MAX + SRV_TAG_LEN];
        struct srv_sealer *sealer = arg;
        size_t len = strlen(secret);
        int rv = -ENOKEY;

        if (len > GW_SECRET_MAX || size < HEAD + 2 * (len + SRV_TAG_LEN) + 1)
                return -EINVAL;
        lp_random(nonce, sizeof(nonce));
        pthread_rwlock_rdlock(&sealer->lock);
        if (sealer->keys.count > 0) {
                rv = srv_seal(&sealer->keys.list[0], nonce, about, secret, len, bytes);
                memcpy(out, sealer->keys.list[0].id, KEY_ID);
        }
        pthread_rwlock_unlock(&sealer->lock);
        if (rv != 0)
                return rv;
        out[KEY_ID] = '.';
        s3_hex_encode(nonce, sizeof(nonce), out + KEY_ID + 1);
        out[HEAD - 1] = '.';
        s3_hex_encode(bytes, len + SRV_TAG_LEN, out + HEAD);
        return 0;
}

static void sealer_tell(struct srv_sealer *sealer, const char *id)
{
        char where[sizeof(sealer->keys.where)]; /* a reload may put another in its place meanwhile */
        bool told;

        pthread_rwlock_wrlock(&sealer->lock);
        told = sealer->told;
        sealer->told = true;
        memcpy(where, sealer->keys.where, sizeof(where));
        pthread_rwlock_unlock(&sealer->lock);
        if (!told)
                srv_log(SRV_LOG_ERROR,
                        "secrets of users are sealed with the key %s, which is not in %s: these users cannot sign "
                        "requests until it is put back there",
                        id, where);
}

/* The key that a text was sealed with. */
static int sealed_head(struct srv_sealer *sealer, const char *sealed, struct srv_key *copy)
{
        const struct srv_key *key;
        char id[KEY_ID + 1];

        if (strlen(sealed) < HEAD + 2 * SRV_TAG_LEN || sealed[KEY_ID] != '.' || sealed[HEAD - 1] != '.')
                return -EBADMSG;
        memcpy(id, sealed, KEY_ID);
        id[KEY_ID] = '\0';
        pthread_rwlock_rdlock(&sealer->lock);
        key = srv_keys_find(&sealer->keys, id);
        if (key != NULL)
                *copy = *key;
        pthread_rwlock_unlock(&sealer->lock);
        if (key == NULL)
                sealer_tell(sealer, id);
        return key != NULL ? 0 : -ENOKEY;
}

static int sealer_open(void *arg, const char *about, const char *sealed, char *secret, size_t size)
{
        uint8_t nonce[SRV_NONCE_LEN], bytes[GW_SECRET_MAX + SRV_TAG_LEN];
        size_t digits = strlen(sealed) < HEAD ? 0 : strlen(sealed) - HEAD, len = digits / 2;
        struct srv_key key;
        int rv;

        secret[0] = '\0';
        if (digits % 2 != 0 || len > sizeof(bytes) || len < SRV_TAG_LEN || len - SRV_TAG_LEN >= size)
                return -EBADMSG;
        rv = sealed_head(arg, sealed, &key);
        if (rv != 0)
                return rv;
        if (s3_hex_decode((struct s3_str){sealed + KEY_ID + 1, NONCE_HEX}, nonce, sizeof(nonce)) != 0 ||
            s3_hex_decode((struct s3_str){sealed + HEAD, digits}, bytes, len) != 0)
                rv = -EBADMSG;
        else
                rv = srv_unseal(&key, nonce, about, bytes, len, secret);
        secret[rv == 0 ? len - SRV_TAG_LEN : 0] = '\0';
        explicit_bzero(&key, sizeof(key));
        return rv;
}

static bool sealer_knows(void *arg, const char *sealed)
{
        struct srv_key key;
        bool known = sealed_head(arg, sealed, &key) == 0;

        explicit_bzero(&key, sizeof(key));
        return known;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/*
 * format (1 byte) . key id (8) . salt (16) . bytes . tag (16)
 *
 * Each token has a key and a nonce of its own, which come from the master key and the salt: with one key,
 * random nonces of 96 bits would repeat after some billions of tokens.
 */
#define TOKEN_FORMAT 1u
#define TOKEN_KEY_ID 8u
#define TOKEN_SALT   16u
#define TOKEN_HEAD   (1 + TOKEN_KEY_ID + TOKEN_SALT)
_Static_assert(TOKEN_HEAD + SRV_TAG_LEN == GW_TOKEN_MORE, "the parts of a token");

static int token_key(const struct srv_key *master, const uint8_t salt[TOKEN_SALT], struct srv_key *key,
                     uint8_t nonce[SRV_NONCE_LEN])
{
        static const char purpose[] = "millrace token 1";
        uint8_t input[sizeof(purpose) + TOKEN_SALT], mac[64];
        unsigned len = sizeof(mac);

        memcpy(input, purpose, sizeof(purpose));
        memcpy(input + sizeof(purpose), salt, TOKEN_SALT);
        if (HMAC(EVP_sha512(), master->bytes, SRV_KEY_LEN, input, sizeof(input), mac, &len) == NULL)
                return -EIO;
        memcpy(key->bytes, mac, SRV_KEY_LEN);
        memcpy(nonce, mac + SRV_KEY_LEN, SRV_NONCE_LEN);
        explicit_bzero(mac, sizeof(mac));
        return 0;
}

static int sealer_seal_token(void *arg, const char *about, const void *bytes, size_t len, uint8_t *out)
{
        struct srv_sealer *sealer = arg;
        struct srv_key master = {.id = ""}, key;
        uint8_t nonce[SRV_NONCE_LEN];
        int rv = -ENOKEY;

        pthread_rwlock_rdlock(&sealer->lock);
        if (sealer->keys.count > 0)
                master = sealer->keys.list[0];
        pthread_rwlock_unlock(&sealer->lock);
        out[0] = TOKEN_FORMAT;
        lp_random(out + 1 + TOKEN_KEY_ID, TOKEN_SALT);
        if (master.id[0] != '\0' &&
            s3_hex_decode((struct s3_str){master.id, KEY_ID}, out + 1, TOKEN_KEY_ID) == 0)
                rv = token_key(&master, out + 1 + TOKEN_KEY_ID, &key, nonce);
        if (rv == 0)
                rv = srv_seal(&key, nonce, about, bytes, len, out + TOKEN_HEAD);
        explicit_bzero(&master, sizeof(master));
        explicit_bzero(&key, sizeof(key));
        return rv;
}

/* Copies the key that a token was sealed with. */
static int token_master(struct srv_sealer *sealer, const uint8_t *sealed, size_t len, struct srv_key *copy)
{
        const struct srv_key *key;
        char id[KEY_ID + 1];

        if (len < GW_TOKEN_MORE || sealed[0] != TOKEN_FORMAT)
                return -EBADMSG;
        s3_hex_encode(sealed + 1, TOKEN_KEY_ID, id);
        pthread_rwlock_rdlock(&sealer->lock);
        key = srv_keys_find(&sealer->keys, id);
        if (key != NULL)
                *copy = *key;
        pthread_rwlock_unlock(&sealer->lock);
        return key != NULL ? 0 : -ENOKEY;
}

static int sealer_open_token(void *arg, const char *about, const uint8_t *sealed, size_t len, void *out)
{
        uint8_t nonce[SRV_NONCE_LEN];
        struct srv_key master, key;
        int rv = token_master(arg, sealed, len, &master);

        if (rv != 0)
                return rv;
        rv = token_key(&master, sealed + 1 + TOKEN_KEY_ID, &key, nonce);
        if (rv == 0)
                rv = srv_unseal(&key, nonce, about, sealed + TOKEN_HEAD, len - TOKEN_HEAD, out);
        explicit_bzero(&master, sizeof(master));
        explicit_bzero(&key, sizeof(key));
        return rv;
}

static bool sealer_knows_token(void *arg, const uint8_t *sealed, size_t len)
{
        struct srv_key key;
        bool known = token_master(arg, sealed, len, &key) == 0;

        explicit_bzero(&key, sizeof(key));
        return known;
}

struct gw_sealer srv_sealer_of(struct srv_sealer *sealer)
{
        return (struct gw_sealer){.arg = sealer,
                                  .seal = sealer_seal,
                                  .open = sealer_open,
                                  .knows = sealer_knows,
                                  .seal_token = sealer_seal_token,
                                  .open_token = sealer_open_token,
                                  .knows_token = sealer_knows_token};
}

/* ---- keys ------------------------------------------------------------------------------------ */

int srv_sealer_open(struct srv_sealer *sealer, const struct srv_settings *settings, bool may_make,
                    struct srv_error *error)
{
        int rv;

        memset(sealer, 0, sizeof(*sealer));
        pthread_rwlock_init(&sealer->lock, NULL);
        rv = srv_keys_load(settings, &sealer->keys, error);
        if (rv != -ENOENT)
                return rv;
        if (!may_make)
                return 0;
        rv = srv_keys_add(settings, &sealer->keys, error);
        if (rv == 0)
                srv_log(SRV_LOG_ALWAYS, "new key in %s: back it up, apart from the drives", sealer->keys.where);
        else
                srv_log(SRV_LOG_WARNING, "users cannot get access keys, since there is no key to seal them with: %s",
                        error->text);
        return 0;
}

void srv_sealer_reload(struct srv_sealer *sealer, const struct srv_settings *settings)
{
        struct srv_error error;
        struct srv_keys fresh;
        int rv = srv_keys_load(settings, &fresh, &error);

        if (rv == 0) {
                pthread_rwlock_wrlock(&sealer->lock);
                sealer->keys = fresh;
                sealer->told = false;
                pthread_rwlock_unlock(&sealer->lock);
        } else if (rv != -ENOENT || sealer->keys.count > 0) {
                srv_log(SRV_LOG_ERROR, "keys stay as they are: %s", rv == -ENOENT ? "the file is gone" : error.text);
        }
        explicit_bzero(&fresh, sizeof(fresh));
}

void srv_sealer_close(struct srv_sealer *sealer)
{
        explicit_bzero(&sealer->keys, sizeof(sealer->keys));
        pthread_rwlock_destroy(&sealer->lock);
}
