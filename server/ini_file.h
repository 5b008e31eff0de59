/*
 * ini_file.h - files of NAME = VALUE lines.
 */
#ifndef MILLRACE_SERVER_INI_FILE_H
#define MILLRACE_SERVER_INI_FILE_H

#include "server/settings.h"

/*
 * Takes one line. shown_as ("FILE:LINE: NAME") is what error texts call it. 0; -ENOENT: there is no
 * such name (the reader words the error); another negative errno with a line in *error. The first
 * error ends the reading.
 */
typedef int (*srv_ini_line)(void *arg, const char *name, const char *value, const char *shown_as,
                            struct srv_error *error);

/*
 * Reads file from where it stands; path is for error texts. 0 or a negative errno with a line in
 * *error. Main thread only: inih keeps its settings in globals.
 */
int srv_ini_read(FILE *file, const char *path, srv_ini_line line, void *arg, struct srv_error *error);

#endif
