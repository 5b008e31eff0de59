/*
 * credentials.h - the root credentials: where they come from, how they are kept.
 */
#ifndef MILLRACE_SERVER_CREDENTIALS_H
#define MILLRACE_SERVER_CREDENTIALS_H

#include "server/settings.h"

#define SRV_ACCESS_KEY_ENV   "MILLRACE_ROOT_ACCESS_KEY"
#define SRV_SECRET_KEY_ENV   "MILLRACE_ROOT_SECRET_KEY"
#define SRV_CREDENTIALS_FILE "CREDENTIALS" /* in a drive's folder, beside FORMAT */

struct srv_credentials {
        char access_key[129];
        char secret_key[129];
};

/*
 * From the environment, else from the file of the setting root_credentials, else from the file
 * CREDENTIALS on the drives. Where there are none, and may_generate: made, kept (on every drive
 * that is there, so that losing one does not lose them), and shown on standard error, this once.
 * Main thread; blocking.
 *
 * 0; -ENOENT: there are none; -EINVAL: malformed; -EPERM: a file that others can read; -EEXIST:
 * drives have different ones; -ENOKEY: they are sealed with a key that is not there; others of
 * files. *error has one line that names the file or variable.
 */
int srv_credentials_load(const struct srv_settings *settings, bool may_generate, struct srv_credentials *out,
                         struct srv_error *error);

/* The first of these ways alone. 1: they are there; 0: neither of them is; -EINVAL. */
int srv_credentials_from_environment(struct srv_credentials *out, struct srv_error *error);

/* What stands on the drives alone, whatever the setting says; nothing is changed. As srv_credentials_load(). */
int srv_credentials_on_drives(const struct srv_settings *settings, struct srv_credentials *out, struct srv_error *error);

/* What stands in the file of the setting, or on the drives; nothing is changed, and the environment does not count. As srv_credentials_load(). */
int srv_credentials_find(const struct srv_settings *settings, struct srv_credentials *out, struct srv_error *error);

/*
 * For who administers the machine. Prints the credentials in force as two lines that a shell can
 * take (export NAME='...').
 */
int srv_credentials_show(const struct srv_settings *settings, FILE *out, struct srv_error *error);
/*
 * New credentials in place of those on the drives, also where these can't be opened. A daemon takes
 * them on SIGHUP.
 */
int srv_credentials_rotate(const struct srv_settings *settings, struct srv_error *error);
/* A new key, and the credentials sealed with it; the former key stays in the file, behind it. */
int srv_credentials_rotate_key(const struct srv_settings *settings, struct srv_error *error);

/* One file in plain text. -ENOENT if it is not there. */
int srv_credentials_read(const char *path, struct srv_credentials *out, struct srv_error *error);
/* Replaces the file in one step, mode 0600, on stable storage when it returns. */
int srv_credentials_write(const char *path, const struct srv_credentials *credentials, struct srv_error *error);
/* 20 and 40 characters from the kernel's random numbers. */
void srv_credentials_generate(struct srv_credentials *out);

#endif
