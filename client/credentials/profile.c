/*
 * profile.c - reads the shared files of the AWS tools. Called when a client is opened, and by
 * workers when credentials are needed. The files are read anew each time: others rewrite them.
 */
#include "client/credentials/profile.h"

#include "client/base/failure.h"

#include <errno.h>
#include <ini.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t limits_once = PTHREAD_ONCE_INIT;

static void limits_set(void)
{
        ini_use_stack = false;
        ini_allow_realloc = true;
        ini_max_line = 16384;
}

int mr_ini_parse(FILE *file, int (*handler)(void *arg, const char *section, const char *name, const char *value),
                 void *arg)
{
        pthread_once(&limits_once, limits_set);
        return ini_parse_file(file, handler, arg);
}

const char *mr_profile_name(void)
{
        const char *name = getenv("AWS_PROFILE");

        return name != NULL && name[0] != '\0' ? name : "default";
}

#define FIELD(member) offsetof(struct mr_profile, member), sizeof(((struct mr_profile *)0)->member)

static const struct {
        const char *name;
        size_t offset, size;
} fields[] = {
        {"aws_access_key_id", FIELD(credentials.access_key)},
        {"aws_secret_access_key", FIELD(credentials.secret_key)},
        {"aws_session_token", FIELD(credentials.session_token)},
        {"credential_process", FIELD(process)},
        {"web_identity_token_file", FIELD(token_file)},
        {"role_arn", FIELD(role)},
        {"role_session_name", FIELD(session)},
        {"source_profile", FIELD(source_profile)},
        {"region", FIELD(region)},
        {"endpoint_url", FIELD(endpoint)},
        {"ca_bundle", FIELD(ca_file)},
};

/* owner: one call of mr_profile_load() */
struct reading {
        struct mr_profile *profile;
        char section[300]; /* "default", "profile NAME" */
        const char *too_long;
};

static int take_value(void *arg, const char *section, const char *name, const char *value)
{
        struct reading *reading = arg;

        if (strcmp(section, reading->section) != 0)
                return 1;
        reading->profile->found = true;
        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
                if (strcmp(fields[i].name, name) != 0)
                        continue;
                if (strlen(value) >= fields[i].size) {
                        reading->too_long = fields[i].name;
                        return 0;
                }
                memcpy((char *)reading->profile + fields[i].offset, value, strlen(value) + 1);
        }
        return 1;
}

static int profile_read_file(const char *path, struct reading *reading, struct mr_error *err)
{
        FILE *file = fopen(path, "re");
        int line;

        if (file == NULL)
                return errno == ENOENT || errno == ENOTDIR ? 0
                                                           : mr_failure(err, -errno, "%s: %s", path, strerror(errno));
        line = mr_ini_parse(file, take_value, reading);
        fclose(file);
        if (reading->too_long != NULL)
                return mr_failure(err, -EINVAL, "%s:%d: %s is too long", path, line, reading->too_long);
        return line == 0 ? 0 : mr_failure(err, -EINVAL, "%s:%d: not a line of the form name = value", path, line);
}

/*
 * The file that the variable names, else the one of that name in ~/.aws. false: there is no home.
 */
static bool profile_path_of(const char *variable, const char *name, char out[4096])
{
        const char *value = getenv(variable), *home = getenv("HOME");

        if (value != NULL && value[0] != '\0')
                return snprintf(out, 4096, "%s", value) < 4096;
        return home != NULL && home[0] == '/' && snprintf(out, 4096, "%s/.aws/%s", home, name) < 4096;
}

int mr_profile_load(const char *name, struct mr_profile *out, struct mr_error *err)
{
        struct reading reading = {.profile = out};
        bool is_default = strcmp(name, "default") == 0;
        char path[4096];
        int rv = 0;

        memset(out, 0, sizeof(*out));
        if (strlen(name) >= 256)
                return mr_failure(err, -EINVAL, "the name of the profile is too long");
        snprintf(reading.section, sizeof(reading.section), is_default ? "%s" : "profile %s", name);
        if (profile_path_of("AWS_CONFIG_FILE", "config", path))
                rv = profile_read_file(path, &reading, err);
        snprintf(reading.section, sizeof(reading.section), "%s", name);
        if (rv == 0 && profile_path_of("AWS_SHARED_CREDENTIALS_FILE", "credentials", path))
                rv = profile_read_file(path, &reading, err);
        return rv;
}
