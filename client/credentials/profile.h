/*
 * profile.h - the shared files of the AWS tools: ~/.aws/config, ~/.aws/credentials. Private to
 * client/.
 */
#ifndef CLIENT_PROFILE_H
#define CLIENT_PROFILE_H

#include "client.h"

#include <stdio.h>

struct mr_profile {
        bool found;
        struct mr_credentials credentials;
        char process[4096], token_file[4096], role[2048], session[128];
        char source_profile[256];
        char region[64], endpoint[2048], ca_file[1024];
};

/*
 * Reads one profile of both files; what credentials says overrides config. found is false where
 * neither knows it; a file that does not exist is empty. -EINVAL: a line is malformed, or a value
 * too long; or the errno of a file that cannot be read.
 */
int mr_profile_load(const char *name, struct mr_profile *out, struct mr_error *err);

/* The name that AWS_PROFILE gives, else "default". */
const char *mr_profile_name(void);

/*
 * inih with bounds that fit long tokens. 0, the number of the first line that is wrong, or -1:
 * cannot be read. Any thread.
 */
int mr_ini_parse(FILE *file, int (*handler)(void *arg, const char *section, const char *name, const char *value),
                 void *arg);

#endif
