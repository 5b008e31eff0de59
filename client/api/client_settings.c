/*
 * client_settings.c - the client's settings: one table that the configuration file, the
 * environment, the command line and the manual go by. Called by programs while they start.
 */
#include "client.h"

#include "client/api/client_settings.h"
#include "client/base/endpoints.h"
#include "client/credentials/profile.h"
#include "client/transfer/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { URL, URLS, TEXT, NUMBER, BYTES, SIGN, CHECKSUM, TRANSPORT };

#define FIELD(member) offsetof(struct mr_settings, member), sizeof(((struct mr_settings *)0)->member)

/* Each row's first member is what the public struct shows. */
static const struct row {
        struct mr_setting_info info;
        enum kind kind;
        size_t offset, size;
        uint64_t min, max;
} rows[] = {
        {{"endpoint", "MILLRACE_ENDPOINT AWS_ENDPOINT_URL_S3 AWS_ENDPOINT_URL", "S3 endpoint, http[s]://host[:port]; several of one cluster: commas between them"},
         URLS,
         FIELD(endpoint),
         0,
         0},
        {{"admin", "MILLRACE_ADMIN", "admin listener of millraced, http[s]://host[:port]"}, URL, FIELD(admin), 0, 0},
        {{"region", "MILLRACE_REGION AWS_REGION AWS_DEFAULT_REGION", "region that requests are signed for"},
         TEXT,
         FIELD(region),
         0,
         0},
        {{"access_key", "MILLRACE_ROOT_ACCESS_KEY AWS_ACCESS_KEY_ID", "access key"}, TEXT, FIELD(access_key), 0, 0},
        {{"secret_key", "MILLRACE_ROOT_SECRET_KEY AWS_SECRET_ACCESS_KEY", "secret key"}, TEXT, FIELD(secret_key), 0, 0},
        {{"session_token", "AWS_SESSION_TOKEN", "token of temporary credentials"}, TEXT, FIELD(session_token), 0, 0},
        {{"ca_file", "MILLRACE_CA_FILE AWS_CA_BUNDLE", "PEM file of the authorities that TLS trusts"},
         TEXT,
         FIELD(ca_file),
         0,
         0},
        {{"sign_body", "MILLRACE_SIGN_BODY", "sign bodies by SHA-256: auto (on http://), always or never"},
         SIGN,
         FIELD(sign_body),
         0,
         0},
        {{"checksum", "MILLRACE_CHECKSUM", "checksum of uploads: crc64nvme, crc32c, crc32 or none"},
         CHECKSUM,
         FIELD(checksum),
         0,
         0},
        {{"transport", "MILLRACE_TRANSPORT", "how objects' bytes travel: auto, tcp or rdma"},
         TRANSPORT,
         FIELD(transport),
         0,
         0},
        {{"test_rdma_driver", "",
          "file of a transport without hardware, in place of verbs: for tests and measurements"},
         TEXT,
         FIELD(test_rdma_driver),
         0,
         0},
        {{"parallel", "MILLRACE_PARALLEL", "requests at once"}, NUMBER, FIELD(parallel), 1, 64},
        {{"attempts", "MILLRACE_ATTEMPTS", "attempts per request"}, NUMBER, FIELD(attempts), 1, 20},
        {{"connect_timeout", "MILLRACE_CONNECT_TIMEOUT", "seconds to wait for a connection"},
         NUMBER,
         FIELD(connect_timeout_s),
         1,
         300},
        {{"stall_timeout", "MILLRACE_STALL_TIMEOUT", "seconds without a byte after which an attempt is given up"},
         NUMBER,
         FIELD(stall_timeout_s),
         1,
         3600},
        {{"part_size", "MILLRACE_PART_SIZE", "size of parts, with K, M or G; 0: chosen by the object's size"},
         BYTES,
         FIELD(part_size),
         MR_PART_MIN,
         MR_PART_MAX},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const char *const sign_names[] = {"auto", "always", "never"};
static const char *const checksum_names[] = {"crc64nvme", "crc32c", "crc32", "none"};
static const char *const transport_names[] = {"auto", "tcp", "rdma"};

const struct mr_setting_info *mr_setting_info(unsigned index)
{
        return index < ROWS ? &rows[index].info : NULL;
}

void mr_settings_default(struct mr_settings *settings)
{
        memset(settings, 0, sizeof(*settings));
        snprintf(settings->endpoint, sizeof(settings->endpoint), "http://127.0.0.1:9000");
        snprintf(settings->admin, sizeof(settings->admin), "http://127.0.0.1:9001");
        snprintf(settings->region, sizeof(settings->region), "us-east-1");
        settings->sign_body = MR_SIGN_AUTO;
        settings->checksum = MR_CRC64NVME;
        settings->parallel = 8;
        settings->attempts = 5;
        settings->connect_timeout_s = 10;
        settings->stall_timeout_s = 60;
}

int mr_parse_bytes(const char *text, uint64_t *out)
{
        static const char units[] = "KMGT";
        const char *unit;
        uint64_t value;
        char *end;

        if (*text < '0' || *text > '9')
                return -EINVAL;
        errno = 0;
        value = strtoull(text, &end, 10);
        if (errno != 0)
                return -EINVAL;
        unit = *end != '\0' ? strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end) : NULL;
        if (unit != NULL) {
                unsigned shift = 10 * (unsigned)(unit - units + 1);

                if (value > UINT64_MAX >> shift)
                        return -EINVAL;
                value <<= shift;
                end++;
                if (*end == 'i')
                        end++;
        }
        if (*end == 'B')
                end++;
        if (*end != '\0')
                return -EINVAL;
        *out = value;
        return 0;
}

static int setting_find_name(const char *const names[], size_t count, const char *value)
{
        for (size_t i = 0; i < count; i++)
                if (strcmp(names[i], value) == 0)
                        return (int)i;
        return -1;
}

static int set_text(void *field, size_t size, const char *value)
{
        size_t len = strlen(value);

        if (len >= size || strpbrk(value, "\r\n") != NULL)
                return -EINVAL;
        memcpy(field, value, len + 1);
        return 0;
}

static int set_url(char *field, size_t size, const char *value)
{
        size_t len;

        if (mr_url_check(value) != 0 || set_text(field, size, value) != 0)
                return -EINVAL;
        len = strlen(field);
        if (field[len - 1] == '/')
                field[len - 1] = '\0';
        return 0;
}

/* Kept as they are used: without blanks, slashes at the end, and repetitions. */
static int set_urls(char *field, size_t size, const char *value)
{
        struct mr_endpoints endpoints;
        char kept[MR_ENDPOINTS_MAX * (MR_ENDPOINT_URL_MAX + 1)];
        size_t len = 0;

        if (mr_endpoints_parse(value, &endpoints) != 0)
                return -EINVAL;
        for (unsigned i = 0; i < endpoints.count; i++)
                len += (size_t)snprintf(kept + len, sizeof(kept) - len, "%s%s", i == 0 ? "" : ",", endpoints.at[i].url);
        return set_text(field, size, kept);
}

static int setting_set_number(const struct row *row, void *field, const char *value)
{
        uint64_t number;

        if (mr_parse_bytes(value, &number) != 0)
                return -EINVAL;
        if ((number < row->min || number > row->max) && !(row->kind == BYTES && number == 0))
                return -EINVAL;
        if (row->kind == BYTES)
                *(uint64_t *)field = number;
        else
                *(unsigned *)field = (unsigned)number;
        return 0;
}

static int set_row(const struct row *row, struct mr_settings *settings, const char *value)
{
        void *field = (char *)settings + row->offset;
        int found;

        switch (row->kind) {
        case URL:
                return set_url(field, row->size, value);
        case URLS:
                return set_urls(field, row->size, value);
        case TEXT:
                return set_text(field, row->size, value);
        case NUMBER:
        case BYTES:
                return setting_set_number(row, field, value);
        case SIGN:
                found = setting_find_name(sign_names, sizeof(sign_names) / sizeof(sign_names[0]), value);
                if (found >= 0)
                        settings->sign_body = (enum mr_sign_body)found;
                return found >= 0 ? 0 : -EINVAL;
        case CHECKSUM:
                found = setting_find_name(checksum_names, sizeof(checksum_names) / sizeof(checksum_names[0]), value);
                if (found >= 0)
                        settings->checksum = (enum mr_checksum)found;
                return found >= 0 ? 0 : -EINVAL;
        case TRANSPORT:
                found = setting_find_name(transport_names, sizeof(transport_names) / sizeof(transport_names[0]), value);
                if (found >= 0)
                        settings->transport = (enum mr_transport)found;
                return found >= 0 ? 0 : -EINVAL;
        }
        return -EINVAL;
}

/* The value is not repeated: it may be a secret. */
static void setting_explain(const struct row *row, char *why, size_t why_size)
{
        char range[64] = "";

        if (row->kind == NUMBER)
                snprintf(range, sizeof(range), " (%llu to %llu)", (unsigned long long)row->min,
                         (unsigned long long)row->max);
        else if (row->kind == BYTES)
                snprintf(range, sizeof(range), " (%lluM to %lluG)", (unsigned long long)(row->min / MR_MIB),
                         (unsigned long long)(row->max / MR_GIB));
        else if (row->kind == TEXT)
                snprintf(range, sizeof(range), " (one line, up to %zu bytes)", row->size - 1);
        snprintf(why, why_size, "bad value for %s: %s%s", row->info.name, row->info.help, range);
}

int mr_settings_set(struct mr_settings *settings, const char *name, const char *value, char *why, size_t why_size)
{
        for (size_t i = 0; i < ROWS; i++) {
                if (strcmp(rows[i].info.name, name) != 0)
                        continue;
                if (set_row(&rows[i], settings, value) == 0)
                        return 0;
                if (why != NULL)
                        setting_explain(&rows[i], why, why_size);
                return -EINVAL;
        }
        if (why != NULL)
                snprintf(why, why_size, "unknown setting %s", name);
        return -ENOENT;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* owner: the loading thread */
struct file_reading {
        struct mr_settings *settings;
        char why[256];
        int rv; /* the first error */
};

static int file_value(void *arg, const char *section, const char *name, const char *value)
{
        struct file_reading *reading = arg;
        int rv;

        if (section[0] != '\0' && strcmp(section, "default") != 0) {
                rv = -ENOENT;
                if (reading->rv == 0)
                        snprintf(reading->why, sizeof(reading->why), "unknown section [%.64s]", section);
        } else {
                rv = mr_settings_set(reading->settings, name, value, reading->rv == 0 ? reading->why : NULL,
                                     sizeof(reading->why));
        }
        if (reading->rv == 0)
                reading->rv = rv;
        return rv == 0;
}

static int load_file(const char *path, bool must_exist, struct mr_settings *settings, char *why, size_t why_size)
{
        struct file_reading reading = {.settings = settings};
        FILE *file = fopen(path, "re");
        int line, rv;

        if (file == NULL) {
                rv = -errno;
                if (rv == -ENOENT && !must_exist)
                        return 0;
                snprintf(why, why_size, "%s: %s", path, strerror(-rv));
                return rv;
        }
        line = mr_ini_parse(file, file_value, &reading);
        rv = ferror(file) ? -EIO : 0;
        fclose(file);
        if (line == 0 && rv == 0)
                return 0;
        if (reading.rv == 0) /* the parser's own complaint */
                snprintf(reading.why, sizeof(reading.why), "not a line of the form name = value");
        snprintf(why, why_size, "%s:%d: %s", path, line > 0 ? line : 0, reading.why);
        return reading.rv != 0 ? reading.rv : -EINVAL;
}

/* ---- the environment ------------------------------------------------------------------------- */

/* The first variable of the row that is set and not empty; its name into found. */
static const char *environment_value(const struct row *row, char *found, size_t found_size)
{
        const char *at = row->info.environment;

        while (*at != '\0') {
                size_t len = strcspn(at, " ");
                const char *value;

                snprintf(found, found_size, "%.*s", (int)len, at);
                value = getenv(found);
                if (value != NULL && value[0] != '\0')
                        return value;
                at += len + strspn(at + len, " ");
        }
        return NULL;
}

/*
 * Credentials count as a set: a session token without the AWS key it belongs to would only spoil
 * the key that is used.
 */
static bool token_applies(void)
{
        const char *root = getenv("MILLRACE_ROOT_ACCESS_KEY");
        const char *key = getenv("AWS_ACCESS_KEY_ID");

        return (root == NULL || root[0] == '\0') && key != NULL && key[0] != '\0';
}

static int load_environment(struct mr_settings *settings, char *why, size_t why_size)
{
        char variable[64], reason[256];

        for (size_t i = 0; i < ROWS; i++) {
                const char *value = environment_value(&rows[i], variable, sizeof(variable));

                if (rows[i].offset == offsetof(struct mr_settings, access_key) && value != NULL)
                        settings->session_token[0] = '\0'; /* the file's belonged to the file's key */
                if (rows[i].offset == offsetof(struct mr_settings, session_token) && !token_applies())
                        continue;
                if (value == NULL)
                        continue;
                if (set_row(&rows[i], settings, value) != 0) {
                        setting_explain(&rows[i], reason, sizeof(reason));
                        snprintf(why, why_size, "%s: %s", variable, reason);
                        return -EINVAL;
                }
        }
        return 0;
}

int mr_settings_load(const char *path, struct mr_settings *settings, char *why, size_t why_size)
{
        const char *variable = getenv("MILLRACE_CONFIG"), *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
        bool must_exist = true;
        char name[4096];
        int rv = 0;

        mr_settings_default(settings);
        name[0] = '\0';
        if (path != NULL) {
                snprintf(name, sizeof(name), "%s", path);
        } else if (variable != NULL && variable[0] != '\0') {
                snprintf(name, sizeof(name), "%s", variable);
        } else {
                must_exist = false;
                if (xdg != NULL && xdg[0] == '/')
                        snprintf(name, sizeof(name), "%s/millrace/config", xdg);
                else if (home != NULL && home[0] == '/')
                        snprintf(name, sizeof(name), "%s/.config/millrace/config", home);
        }
        if (name[0] != '\0')
                rv = load_file(name, must_exist, settings, why, why_size);
        if (rv != 0)
                return rv;
        return load_environment(settings, why, why_size);
}
