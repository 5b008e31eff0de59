/*
 * command_cluster.c - `millrace cluster cert` and `secrets`: makes the certificates that the nodes of a cluster
 * show one another, and what they share. Files in a folder of this machine; no endpoint is asked. Main thread only.
 */
#include "cli.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "net_cert.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHY_MAX 512

int cli_cluster_cert_ca(struct cli_call *call)
{
        char why[WHY_MAX];

        if (mkdir(call->argv[0], 0700) != 0 && errno != EEXIST) {
                cli_error("%s: %s", call->argv[0], strerror(errno));
                return CLI_FAILED;
        }
        if (net_cert_make_ca(call->argv[0], call->argv[1], NET_CERT_DAYS_CA, why, sizeof(why)) != 0) {
                cli_error("%s", why);
                return CLI_FAILED;
        }
        if (!call->quiet)
                printf("%s/ca.crt is for every node; keep %s/ca.key away from them, and make a copy of it.\n",
                       call->argv[0], call->argv[0]);
        return CLI_OK;
}

/* Says so: it is never replaced. */
static bool is_there(const char *folder, const char *name, const char *ending)
{
        char path[PATH_MAX];

        if (snprintf(path, sizeof(path), "%s/%s%s", folder, name, ending) >= (int)sizeof(path) || access(path, F_OK) != 0)
                return false;
        cli_error("%s: %s", path, strerror(EEXIST));
        return true;
}

int cli_cluster_cert_node(struct cli_call *call)
{
        char why[WHY_MAX];
        int i;

        for (i = 1; i < call->argc; i++) { /* all or none */
                if (!net_cert_names_node(call->argv[i])) {
                        cli_error("%s: " NET_CERT_NAME_RULE, call->argv[i]);
                        return CLI_FAILED;
                }
                if (is_there(call->argv[0], call->argv[i], ".key") || is_there(call->argv[0], call->argv[i], ".crt"))
                        return CLI_FAILED;
        }
        for (i = 1; i < call->argc; i++) {
                if (net_cert_make_node(call->argv[0], call->argv[i], NET_CERT_DAYS_NODE, why, sizeof(why)) != 0) {
                        cli_error("%s", why);
                        return CLI_FAILED;
                }
                if (!call->quiet)
                        printf("%s/%s.crt and %s/%s.key are for node %s, with ca.crt.\n", call->argv[0], call->argv[i],
                               call->argv[0], call->argv[i], call->argv[i]);
        }
        return CLI_OK;
}

/* ---- secrets --------------------------------------------------------------------------------- */

#define KEY_BYTES    32u
#define ACCESS_BYTES 10u
#define SECRET_BYTES 20u

/* len random bytes as digits. False: the system has none. */
static bool random_hex(char *out, size_t len)
{
        static const char digits[] = "0123456789abcdef";
        uint8_t bytes[KEY_BYTES];

        if (getrandom(bytes, len, 0) != (ssize_t)len)
                return false;
        for (size_t i = 0; i < len; i++) {
                out[2 * i] = digits[bytes[i] >> 4];
                out[2 * i + 1] = digits[bytes[i] & 15];
        }
        out[2 * len] = '\0';
        explicit_bzero(bytes, sizeof(bytes));
        return true;
}

/* A new file, on stable storage, or none. An exit status. */
static int make_secret(const char *folder, const char *name, const char *text)
{
        char path[PATH_MAX];
        size_t len = strlen(text);
        int fd, rv = 0;

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0) {
                cli_error("%s: %s", path, strerror(errno));
                return CLI_FAILED;
        }
        if (write(fd, text, len) != (ssize_t)len || fsync(fd) != 0)
                rv = errno != 0 ? errno : EIO;
        if (close(fd) != 0 && rv == 0)
                rv = errno;
        if (rv == 0)
                return CLI_OK;
        (void)unlink(path);
        cli_error("%s: %s", path, strerror(rv));
        return CLI_FAILED;
}

int cli_cluster_secrets(struct cli_call *call)
{
        char key[2 * KEY_BYTES + 1], access[2 * ACCESS_BYTES + 1], secret[2 * SECRET_BYTES + 1], text[256];
        const char *folder = call->argv[0];
        int status = CLI_FAILED;

        if (!random_hex(key, KEY_BYTES) || !random_hex(access, ACCESS_BYTES) || !random_hex(secret, SECRET_BYTES)) {
                cli_error("the system has no random numbers: %s", strerror(errno));
        } else if (!is_there(folder, "key", "") && !is_there(folder, "root-credentials", "")) {
                snprintf(text, sizeof(text), "key = %s\n", key);
                status = make_secret(folder, "key", text);
                snprintf(text, sizeof(text), "access_key = %s\nsecret_key = %s\n", access, secret);
                if (status == CLI_OK)
                        status = make_secret(folder, "root-credentials", text);
        }
        if (status == CLI_OK && !call->quiet)
                printf("%s/key and %s/root-credentials are for every node; make a copy of both.\n", folder, folder);
        explicit_bzero(key, sizeof(key));
        explicit_bzero(secret, sizeof(secret));
        explicit_bzero(text, sizeof(text));
        return status;
}
