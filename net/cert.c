/*
 * cert.c - a CA for a cluster, and certificates for its nodes. Called by the command line and by
 * tests; any thread, writes files.
 *
 * The CA may sign nothing but nodes (no CA below it). A node's certificate serves both ends of a
 * connection and has one name.
 */
#include "net_cert.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SERIAL_BITS   127
#define DAY_S         86400L
#define BACKDATE_S    3600L /* clocks of nodes differ */
#define CERT_NAME_MAX 63u /* as the setting `node` */

/* ---- files ----------------------------------------------------------------------------------- */

static int cert_failed(char *why, size_t why_size, int rv, const char *what)
{
        unsigned long code = ERR_peek_last_error();

        snprintf(why, why_size, "%s: %s", what, code != 0 ? ERR_reason_error_string(code) : strerror(-rv));
        ERR_clear_error();
        return rv;
}

/* Keys are their owner's alone; certificates are no secrets, and whoever runs the daemon may be another than who copied them. */
static int file_write(const char *path, const char *data, size_t len, mode_t mode)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), rv = 0;
        ssize_t n;

        if (fd < 0)
                return -errno;
        for (size_t at = 0; at < len && rv == 0; at += n > 0 ? (size_t)n : 0) {
                n = write(fd, data + at, len - at);
                if (n < 0 && errno != EINTR)
                        rv = -errno;
        }
        if (rv == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0)) /* whatever the umask is */
                rv = -errno;
        if (close(fd) < 0 && rv == 0)
                rv = -errno;
        if (rv != 0)
                unlink(path);
        return rv;
}

static int folder_flush(const char *folder)
{
        int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rv;

        if (fd < 0)
                return -errno;
        rv = fsync(fd) < 0 ? -errno : 0;
        close(fd);
        return rv;
}

static int path_of(const char *folder, const char *name, const char *ending, char path[PATH_MAX])
{
        int len = snprintf(path, PATH_MAX, "%s/%s%s", folder, name, ending);

        return len > 0 && len < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* PEM of one of them. */
static int pem_write(const char *path, X509 *cert, EVP_PKEY *key)
{
        BIO *memory = BIO_new(BIO_s_mem());
        char *data;
        long len;
        int rv = -ENOMEM;

        if (memory == NULL)
                return rv;
        if ((cert != NULL ? PEM_write_bio_X509(memory, cert)
                          : PEM_write_bio_PrivateKey(memory, key, NULL, NULL, 0, NULL, NULL)) == 1) {
                len = BIO_get_mem_data(memory, &data);
                rv = file_write(path, data, (size_t)len, key != NULL ? 0600 : 0644);
                if (key != NULL)
                        OPENSSL_cleanse(data, (size_t)len);
        }
        BIO_free(memory);
        return rv;
}

/* Both, or none. */
static int pair_write(const char *folder, const char *name, X509 *cert, EVP_PKEY *key, char *why, size_t why_size)
{
        char cert_path[PATH_MAX], key_path[PATH_MAX];
        int rv = path_of(folder, name, ".crt", cert_path);

        if (rv == 0)
                rv = path_of(folder, name, ".key", key_path);
        if (rv != 0)
                return cert_failed(why, why_size, rv, folder);
        rv = pem_write(key_path, NULL, key);
        if (rv != 0)
                return cert_failed(why, why_size, rv, key_path);
        rv = pem_write(cert_path, cert, NULL);
        if (rv != 0) {
                unlink(key_path);
                return cert_failed(why, why_size, rv, cert_path);
        }
        rv = folder_flush(folder);
        if (rv != 0) {
                unlink(cert_path);
                unlink(key_path);
                return cert_failed(why, why_size, rv, folder);
        }
        return 0;
}

/* ---- certificates ---------------------------------------------------------------------------- */

static bool serial_set(X509 *cert)
{
        BIGNUM *number = BN_new();
        bool ok = number != NULL && BN_rand(number, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
                  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL;

        BN_free(number);
        return ok;
}

static bool extension_add(X509 *cert, X509 *issuer, int nid, const char *value)
{
        X509V3_CTX context;
        X509_EXTENSION *extension;
        bool ok;

        X509V3_set_ctx_nodb(&context);
        X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
        extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
        ok = extension != NULL && X509_add_ext(cert, extension, -1) == 1;
        X509_EXTENSION_free(extension);
        return ok;
}

static bool subject_set(X509 *cert, const char *name)
{
        return X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8, (const unsigned char *)name,
                                          (int)strnlen(name, 64), -1, 0) == 1;
}

/* What all have; signed with extensions added by the caller. days below 0: it has expired. */
static X509 *cert_begin(const char *name, EVP_PKEY *key, long days)
{
        X509 *cert = X509_new();
        long end = days * DAY_S, begin = end < 0 ? end - DAY_S : -BACKDATE_S;

        if (cert != NULL && X509_set_version(cert, X509_VERSION_3) == 1 && serial_set(cert) &&
            subject_set(cert, name) && X509_gmtime_adj(X509_getm_notBefore(cert), begin) != NULL &&
            X509_gmtime_adj(X509_getm_notAfter(cert), end) != NULL && X509_set_pubkey(cert, key) == 1)
                return cert;
        X509_free(cert);
        return NULL;
}

int net_cert_make_ca(const char *folder, const char *cluster_name, unsigned days, char *why, size_t why_size)
{
        EVP_PKEY *key = EVP_EC_gen("P-256");
        X509 *cert = key != NULL ? cert_begin(cluster_name, key, (long)days) : NULL;
        int rv;

        if (cert != NULL && X509_set_issuer_name(cert, X509_get_subject_name(cert)) == 1 &&
            extension_add(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
            extension_add(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") &&
            extension_add(cert, cert, NID_subject_key_identifier, "hash") && X509_sign(cert, key, EVP_sha256()) > 0)
                rv = pair_write(folder, "ca", cert, key, why, why_size);
        else
                rv = cert_failed(why, why_size, -ENOMEM, "the CA");
        X509_free(cert);
        EVP_PKEY_free(key);
        return rv;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/*
 * A host name of letters, digits, '-' and '.', or an address: what neither a file's name nor
 * OpenSSL's text of extensions takes for something else.
 */
static bool name_fits(const char *name, bool *is_address)
{
        uint8_t address[16];
        size_t len = strnlen(name, CERT_NAME_MAX + 1);

        *is_address = inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
        if (*is_address)
                return true;
        if (len == 0 || len > CERT_NAME_MAX || name[0] == '.' || name[0] == '-' || strcmp(name, "ca") == 0)
                return false;
        return name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")] == '\0';
}

bool net_cert_names_node(const char *name)
{
        bool is_address;

        return name_fits(name, &is_address);
}

static int ca_open(const char *folder, const char *ending, FILE **out, char *why, size_t why_size)
{
        char path[PATH_MAX];
        int rv = path_of(folder, "ca", ending, path);

        if (rv == 0 && (*out = fopen(path, "re")) == NULL)
                rv = -errno;
        if (rv != 0)
                cert_failed(why, why_size, rv, path);
        return rv != 0 ? -EINVAL : 0;
}

static int ca_read(const char *folder, X509 **cert, EVP_PKEY **key, char *why, size_t why_size)
{
        FILE *file;

        *cert = NULL;
        *key = NULL;
        if (ca_open(folder, ".crt", &file, why, why_size) != 0)
                return -EINVAL;
        *cert = PEM_read_X509(file, NULL, NULL, NULL);
        fclose(file);
        if (ca_open(folder, ".key", &file, why, why_size) != 0)
                return -EINVAL;
        *key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
        fclose(file);
        if (*cert == NULL || *key == NULL || X509_check_private_key(*cert, *key) != 1)
                return cert_failed(why, why_size, -EINVAL, "the CA's certificate and key");
        return 0;
}

int net_cert_make_node(const char *folder, const char *name, int days, char *why, size_t why_size)
{
        EVP_PKEY *ca_key = NULL, *key = NULL;
        X509 *ca = NULL, *cert = NULL;
        char alternative[CERT_NAME_MAX + 8];
        bool is_address;
        int rv;

        if (!name_fits(name, &is_address))
                return cert_failed(why, why_size, -EINVAL, NET_CERT_NAME_RULE);
        snprintf(alternative, sizeof(alternative), "%s:%s", is_address ? "IP" : "DNS", name);
        rv = ca_read(folder, &ca, &ca_key, why, why_size);
        if (rv != 0)
                goto out;
        key = EVP_EC_gen("P-256");
        cert = key != NULL ? cert_begin(name, key, days) : NULL;
        if (cert != NULL && X509_set_issuer_name(cert, X509_get_subject_name(ca)) == 1 &&
            extension_add(cert, ca, NID_basic_constraints, "critical,CA:FALSE") &&
            extension_add(cert, ca, NID_key_usage, "critical,digitalSignature") &&
            extension_add(cert, ca, NID_ext_key_usage, "serverAuth,clientAuth") &&
            extension_add(cert, ca, NID_subject_alt_name, alternative) &&
            extension_add(cert, ca, NID_authority_key_identifier, "keyid") && X509_sign(cert, ca_key, EVP_sha256()) > 0)
                rv = pair_write(folder, name, cert, key, why, why_size);
        else
                rv = cert_failed(why, why_size, -ENOMEM, name);
out:
        X509_free(cert);
        EVP_PKEY_free(key);
        X509_free(ca);
        EVP_PKEY_free(ca_key);
        return rv;
}
