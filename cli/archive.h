/*
 * archive.h - a .tar.gz made in memory and written at once. Main thread.
 */
#ifndef CLI_ARCHIVE_H
#define CLI_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>

struct cli_archive;

/* All entries lie in `folder` and have this time (seconds since 1970). NULL: no memory. */
struct cli_archive *cli_archive_new(const char *folder, int64_t time_s);
/*
 * One more file, copied. 0; -ENAMETOOLONG: folder and name have more than 99 bytes; -ENOMEM, and
 * then writing fails.
 */
int cli_archive_add(struct cli_archive *archive, const char *name, const void *data, size_t len);
/*
 * Writes all of it to a new file that its owner alone may read. 0; -EEXIST and other errors of
 * files; -ENOMEM.
 */
int cli_archive_write(struct cli_archive *archive, const char *path);
/* NULL is allowed. */
void cli_archive_free(struct cli_archive *archive);

#endif
