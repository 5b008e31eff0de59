/*
 * identity.h - what makes a folder a drive: FORMAT and LOCK. Public part: eng_folder_probe(),
 * eng_folder_format() and the like in engine/drive/drive.h. Blocking; any thread.
 */
#ifndef MILLRACE_ENGINE_DRIVE_IDENTITY_H
#define MILLRACE_ENGINE_DRIVE_IDENTITY_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/drive/drive.h"

/*
 * Takes DRIVE/LOCK; the lock lives as long as the descriptor. -EBUSY: another process (or another
 * open of this one) has it.
 */
int eng_folder_lock(int dir_fd, const char *path, int *lock_fd, struct eng_error *error);

/*
 * Writes FORMAT anew, beside it and then by rename, with today's layout; the rest as in identity.
 * The caller holds the lock. A crash leaves the old one or the new one.
 */
int eng_folder_upgrade(int dir_fd, const char *path, const struct eng_identity *identity, struct eng_error *error);

/* Adds bits to the features that FORMAT has; as above. Written anew also where they are all there. */
int eng_folder_features(int dir_fd, const char *path, uint64_t bits, struct eng_error *error);

/* FORMAT as text and back. parse: -EBADMSG, -EPROTONOSUPPORT. */
size_t eng_identity_print(const struct eng_identity *identity, char *text, size_t cap);
int eng_identity_parse(const char *text, size_t len, struct eng_identity *out);

/* Sets error's text and returns rv, so that error paths stay one line. error may be NULL. */
int eng_error_set(struct eng_error *error, int rv, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
