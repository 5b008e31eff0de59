/*
 * gcm.c - a provider for OpenSSL with one algorithm: AES-128-GCM by intel-ipsec-mb, which takes a
 * third to a quarter of the time that OpenSSL 3.0 takes, since it knows of wider instructions. TLS
 * stays OpenSSL's: it fetches the cipher of its records here, by name (tls.c).
 *
 * It does what TLS 1.3 asks of it: keys of 16 bytes, nonces of 12, each used for one message, tags of
 * up to 16. A message is encrypted or decrypted in one direction after einit() or dinit() gave it a
 * nonce; after its end, or an error, nothing is done before the next nonce. Decrypted bytes are
 * returned before the tag was compared: their receiver believes them when final() was right.
 */
#include "net/gcm.h"

#include <errno.h>
#include <intel-ipsec-mb.h>
#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define KEY_LEN 16u
#define IV_LEN  12u
#define TAG_LEN 16u
#define AAD_MAX 64u /* TLS 1.3 has 5: the head of a record */

/* Functions of the library for this processor, and nothing that changes. NULL: it cannot be used here. */
static IMB_MGR *library;
static pthread_once_t library_once = PTHREAD_ONCE_INIT;

/*
 * Which instructions there are is asked of the compiler's library, which knows of those that the kernel
 * has switched off; intel-ipsec-mb does not. It tests itself when it begins.
 */
static void library_begin(void)
{
        library = __builtin_cpu_supports("avx2") ? alloc_mb_mgr(0) : NULL;
        if (library != NULL && __builtin_cpu_supports("avx512f"))
                init_mb_mgr_avx512(library);
        else if (library != NULL)
                init_mb_mgr_avx2(library);
        if (library != NULL && imb_get_errno(library) != 0) {
                free_mb_mgr(library);
                library = NULL;
        }
}

enum gcm_step { GCM_NO_NONCE, GCM_AAD, GCM_TEXT };

struct gcm {
        struct gcm_key_data key;         /* has an alignment of its own */
        struct gcm_context_data message;
        enum gcm_step step;
        bool has_key, encrypts;
        uint8_t iv[IV_LEN], aad[AAD_MAX], tag[TAG_LEN];
        size_t aad_len, tag_len; /* tag_len: bytes of a tag that is expected, or was made; 0: none */
};

/* ---- messages -------------------------------------------------------------------------------- */

static void *gcm_new(void *provider)
{
        struct gcm *gcm;

        if (posix_memalign((void **)&gcm, 64, sizeof(*gcm)) != 0)
                return NULL;
        memset(gcm, 0, sizeof(*gcm));
        return gcm;
}

static void gcm_free(void *context)
{
        if (context != NULL)
                OPENSSL_cleanse(context, sizeof(struct gcm));
        free(context);
}

static int gcm_set(void *context, const OSSL_PARAM params[])
{
        struct gcm *gcm = context;
        const OSSL_PARAM *p;
        size_t len;

        p = params == NULL ? NULL : OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_AEAD_TAG);
        if (p != NULL) {
                if (p->data_type != OSSL_PARAM_OCTET_STRING || p->data == NULL || p->data_size == 0 ||
                    p->data_size > TAG_LEN || gcm->encrypts)
                        return 0;
                memcpy(gcm->tag, p->data, p->data_size);
                gcm->tag_len = p->data_size;
        }
        p = params == NULL ? NULL : OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_AEAD_IVLEN);
        if (p != NULL && (!OSSL_PARAM_get_size_t(p, &len) || len != IV_LEN))
                return 0;
        p = params == NULL ? NULL : OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_KEYLEN);
        return p == NULL || (OSSL_PARAM_get_size_t(p, &len) && len == KEY_LEN);
}

static int gcm_init(void *context, const unsigned char *key, size_t key_len, const unsigned char *iv, size_t iv_len,
                    const OSSL_PARAM params[], bool encrypts)
{
        struct gcm *gcm = context;

        if ((key != NULL && key_len != KEY_LEN) || (iv != NULL && iv_len != IV_LEN))
                return 0;
        gcm->encrypts = encrypts;
        if (key != NULL) {
                IMB_AES128_GCM_PRE(library, key, &gcm->key);
                gcm->has_key = true;
                gcm->step = GCM_NO_NONCE;
        }
        if (iv != NULL) {
                memcpy(gcm->iv, iv, IV_LEN);
                gcm->aad_len = gcm->tag_len = 0;
                gcm->step = GCM_AAD;
        }
        return gcm_set(gcm, params);
}

static int gcm_einit(void *context, const unsigned char *key, size_t key_len, const unsigned char *iv, size_t iv_len,
                     const OSSL_PARAM params[])
{
        return gcm_init(context, key, key_len, iv, iv_len, params, true);
}

static int gcm_dinit(void *context, const unsigned char *key, size_t key_len, const unsigned char *iv, size_t iv_len,
                     const OSSL_PARAM params[])
{
        return gcm_init(context, key, key_len, iv, iv_len, params, false);
}

static void gcm_begin_text(struct gcm *gcm)
{
        if (gcm->step != GCM_AAD)
                return;
        IMB_AES128_GCM_INIT(library, &gcm->key, &gcm->message, gcm->iv, gcm->aad, gcm->aad_len);
        gcm->step = GCM_TEXT;
}

static int gcm_update(void *context, unsigned char *out, size_t *out_len, size_t out_size, const unsigned char *in,
                      size_t in_len)
{
        struct gcm *gcm = context;

        *out_len = 0;
        if (!gcm->has_key || gcm->step == GCM_NO_NONCE)
                return 0;
        if (out == NULL) {
                if (gcm->step != GCM_AAD || in_len > AAD_MAX - gcm->aad_len)
                        return 0;
                memcpy(gcm->aad + gcm->aad_len, in, in_len);
                gcm->aad_len += in_len;
                *out_len = in_len;
                return 1;
        }
        if (out_size < in_len)
                return 0;
        gcm_begin_text(gcm);
        if (in_len > 0 && gcm->encrypts)
                IMB_AES128_GCM_ENC_UPDATE(library, &gcm->key, &gcm->message, out, in, in_len);
        else if (in_len > 0)
                IMB_AES128_GCM_DEC_UPDATE(library, &gcm->key, &gcm->message, out, in, in_len);
        *out_len = in_len;
        return 1;
}

static int gcm_final(void *context, unsigned char *out, size_t *out_len, size_t out_size)
{
        struct gcm *gcm = context;
        uint8_t tag[TAG_LEN];

        *out_len = 0;
        if (!gcm->has_key || gcm->step == GCM_NO_NONCE)
                return 0;
        gcm_begin_text(gcm);
        gcm->step = GCM_NO_NONCE;
        if (gcm->encrypts) {
                IMB_AES128_GCM_ENC_FINALIZE(library, &gcm->key, &gcm->message, gcm->tag, TAG_LEN);
                gcm->tag_len = TAG_LEN;
                return 1;
        }
        IMB_AES128_GCM_DEC_FINALIZE(library, &gcm->key, &gcm->message, tag, TAG_LEN);
        return gcm->tag_len > 0 && CRYPTO_memcmp(tag, gcm->tag, gcm->tag_len) == 0;
}

/* ---- what it is ------------------------------------------------------------------------------ */

static int set_if_asked(OSSL_PARAM params[], const char *name, size_t value)
{
        OSSL_PARAM *p = OSSL_PARAM_locate(params, name);

        return p == NULL || OSSL_PARAM_set_size_t(p, value);
}

static int set_flag_if_asked(OSSL_PARAM params[], const char *name)
{
        OSSL_PARAM *p = OSSL_PARAM_locate(params, name);

        return p == NULL || OSSL_PARAM_set_int(p, 1);
}

static int gcm_facts(OSSL_PARAM params[])
{
        OSSL_PARAM *mode = OSSL_PARAM_locate(params, OSSL_CIPHER_PARAM_MODE);

        return (mode == NULL || OSSL_PARAM_set_uint(mode, EVP_CIPH_GCM_MODE)) &&
               set_if_asked(params, OSSL_CIPHER_PARAM_KEYLEN, KEY_LEN) &&
               set_if_asked(params, OSSL_CIPHER_PARAM_IVLEN, IV_LEN) &&
               set_if_asked(params, OSSL_CIPHER_PARAM_BLOCK_SIZE, 1) &&
               set_flag_if_asked(params, OSSL_CIPHER_PARAM_AEAD) && set_flag_if_asked(params, OSSL_CIPHER_PARAM_CUSTOM_IV);
}

static const OSSL_PARAM *gcm_fact_names(void *provider)
{
        static const OSSL_PARAM names[] = {
                OSSL_PARAM_uint(OSSL_CIPHER_PARAM_MODE, NULL),      OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_KEYLEN, NULL),
                OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_IVLEN, NULL),   OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_BLOCK_SIZE, NULL),
                OSSL_PARAM_int(OSSL_CIPHER_PARAM_AEAD, NULL),       OSSL_PARAM_int(OSSL_CIPHER_PARAM_CUSTOM_IV, NULL),
                OSSL_PARAM_END,
        };

        return names;
}

static int gcm_get(void *context, OSSL_PARAM params[])
{
        const struct gcm *gcm = context;
        OSSL_PARAM *p = OSSL_PARAM_locate(params, OSSL_CIPHER_PARAM_AEAD_TAG);

        if (p != NULL && (!gcm->encrypts || gcm->tag_len == 0 || p->data_size == 0 || p->data_size > TAG_LEN ||
                          !OSSL_PARAM_set_octet_string(p, gcm->tag, p->data_size)))
                return 0;
        return set_if_asked(params, OSSL_CIPHER_PARAM_KEYLEN, KEY_LEN) && set_if_asked(params, OSSL_CIPHER_PARAM_IVLEN, IV_LEN) &&
               set_if_asked(params, OSSL_CIPHER_PARAM_AEAD_TAGLEN, TAG_LEN);
}

static const OSSL_PARAM *gcm_get_names(void *context, void *provider)
{
        static const OSSL_PARAM names[] = {
                OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_KEYLEN, NULL),      OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_IVLEN, NULL),
                OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_AEAD_TAGLEN, NULL), OSSL_PARAM_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, NULL, 0),
                OSSL_PARAM_END,
        };

        return names;
}

static const OSSL_PARAM *gcm_set_names(void *context, void *provider)
{
        static const OSSL_PARAM names[] = {
                OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_KEYLEN, NULL),
                OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_AEAD_IVLEN, NULL),
                OSSL_PARAM_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, NULL, 0),
                OSSL_PARAM_END,
        };

        return names;
}

/* ---- the provider ---------------------------------------------------------------------------- */

#define FUNCTION(number, name) {number, (void (*)(void))(name)}
static const OSSL_DISPATCH gcm_functions[] = {
        FUNCTION(OSSL_FUNC_CIPHER_NEWCTX, gcm_new),
        FUNCTION(OSSL_FUNC_CIPHER_FREECTX, gcm_free),
        FUNCTION(OSSL_FUNC_CIPHER_ENCRYPT_INIT, gcm_einit),
        FUNCTION(OSSL_FUNC_CIPHER_DECRYPT_INIT, gcm_dinit),
        FUNCTION(OSSL_FUNC_CIPHER_UPDATE, gcm_update),
        FUNCTION(OSSL_FUNC_CIPHER_FINAL, gcm_final),
        FUNCTION(OSSL_FUNC_CIPHER_GET_PARAMS, gcm_facts),
        FUNCTION(OSSL_FUNC_CIPHER_GETTABLE_PARAMS, gcm_fact_names),
        FUNCTION(OSSL_FUNC_CIPHER_GET_CTX_PARAMS, gcm_get),
        FUNCTION(OSSL_FUNC_CIPHER_GETTABLE_CTX_PARAMS, gcm_get_names),
        FUNCTION(OSSL_FUNC_CIPHER_SET_CTX_PARAMS, gcm_set),
        FUNCTION(OSSL_FUNC_CIPHER_SETTABLE_CTX_PARAMS, gcm_set_names),
        {0, NULL},
};

static const OSSL_ALGORITHM *provider_query(void *provider, int operation, int *no_cache)
{
        static const OSSL_ALGORITHM ciphers[] = {
                {"AES-128-GCM:id-aes128-GCM:2.16.840.1.101.3.4.1.6", "provider=millrace", gcm_functions, NULL},
                {NULL, NULL, NULL, NULL},
        };

        *no_cache = 0;
        return operation == OSSL_OP_CIPHER ? ciphers : NULL;
}

static int provider_begin(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *core, const OSSL_DISPATCH **out, void **provider)
{
        static const OSSL_DISPATCH functions[] = {FUNCTION(OSSL_FUNC_PROVIDER_QUERY_OPERATION, provider_query), {0, NULL}};

        pthread_once(&library_once, library_begin);
        *provider = (void *)&library; /* not NULL: nothing looks at it */
        *out = functions;
        return library != NULL;
}

int net_gcm_begin(struct net_gcm *gcm)
{
        gcm->context = OSSL_LIB_CTX_new();
        if (gcm->context == NULL || OSSL_PROVIDER_add_builtin(gcm->context, "millrace", provider_begin) != 1)
                return -ENOMEM;
        gcm->theirs = OSSL_PROVIDER_load(gcm->context, "default");
        gcm->ours = OSSL_PROVIDER_load(gcm->context, "millrace");
        ERR_clear_error();
        return gcm->theirs != NULL ? 0 : -ENOMEM;
}

void net_gcm_end(struct net_gcm *gcm)
{
        if (gcm->ours != NULL)
                OSSL_PROVIDER_unload(gcm->ours);
        if (gcm->theirs != NULL)
                OSSL_PROVIDER_unload(gcm->theirs);
        OSSL_LIB_CTX_free(gcm->context);
}
