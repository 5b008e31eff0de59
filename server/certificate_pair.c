/*
 * certificate_pair.c - reads the certificate pair.
 *
 * Called by the main thread, at the start and on SIGHUP.
 */
#include "server/certificate_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PEM_MAX (1 << 20)

static int read_pem_bytes(int fd, char *out, size_t len)
{
        ssize_t n;

        while (len > 0) {
                n = read(fd, out, len);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EIO; /* it has become shorter */
                out += n;
                len -= (size_t)n;
        }
        return 0;
}

static int read_open_file(int fd, char **out)
{
        struct stat st;
        char *text;
        int rv;

        if (fstat(fd, &st) != 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || st.st_size > PEM_MAX)
                return -EINVAL;
        text = calloc(1, (size_t)st.st_size + 1);
        if (text == NULL)
                return -ENOMEM;
        rv = read_pem_bytes(fd, text, (size_t)st.st_size);
        if (rv != 0) {
                free(text);
                return rv;
        }
        *out = text;
        return 0;
}

static int read_pem(const char *setting, const char *path, char **out, struct srv_error *error)
{
        int fd, rv;

        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
                return srv_fail(error, -errno, "%s: cannot open %.300s: %s", setting, path, strerror(errno));
        rv = read_open_file(fd, out);
        close(fd);
        return rv == 0 ? 0 : srv_fail(error, rv, "%s: cannot read %.300s: %s", setting, path, strerror(-rv));
}

int srv_tls_read(const struct srv_settings *settings, struct srv_pem *out, struct srv_error *error)
{
        int rv;

        *out = (struct srv_pem){NULL, NULL};
        rv = read_pem("tls_cert", settings->tls_cert, &out->cert, error);
        if (rv == 0)
                rv = read_pem("tls_key", settings->tls_key, &out->key, error);
        return rv;
}

void srv_tls_forget(struct srv_pem *pem)
{
        if (pem->key != NULL)
                explicit_bzero(pem->key, strlen(pem->key));
        free(pem->key);
        free(pem->cert);
        *pem = (struct srv_pem){NULL, NULL};
}

int srv_tls_load(const struct srv_settings *settings, struct gw_gateway *gateway, struct srv_error *error)
{
        struct srv_pem pem;
        int rv = srv_tls_read(settings, &pem, error);

        if (rv == 0) {
                rv = gw_tls_set(gateway, pem.cert, pem.key);
                if (rv != 0)
                        srv_fail(error, rv,
                                 "tls_cert: %.200s and tls_key %.200s are not a certificate and its key in PEM",
                                 settings->tls_cert, settings->tls_key);
        }
        srv_tls_forget(&pem);
        return rv;
}
