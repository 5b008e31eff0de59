/*
 * command_lock.c - `millrace lock status`, `retain` and `hold`: retention and legal hold of a
 * version, and the default retention of a bucket. Main thread only.
 */
#include "moments.h"
#include "sub_resources.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOCK_XML_MAX (16u << 10)

/* ---- status ---------------------------------------------------------------------------------- */

static int lock_show_bucket(struct cli_call *call, const struct cli_path *path)
{
        struct s3_doc *doc;
        struct mr_error err;
        int rv = cli_document_get(call, path, "object-lock", S3_DOC_LOCK_CONFIG, &doc, &err);

        if (rv == 0) {
                const struct s3_lock_config *config = &doc->lock_config;

                printf("object lock: on\ndefault retention: ");
                if (config->mode == S3_LOCK_NONE)
                        printf("none\n");
                else
                        printf("%s for %u %s\n", s3_lock_mode_name(config->mode),
                               config->days > 0 ? config->days : config->years, config->days > 0 ? "days" : "years");
        } else if (strcmp(err.s3_code, "ObjectLockConfigurationNotFoundError") == 0) {
                printf("object lock: off\n");
                rv = 0;
        }
        s3_doc_free(doc);
        return rv == 0 ? CLI_OK : cli_failed(call->argv[0], &err);
}

/* Is it only that the version has no such document? */
static bool lock_is_none(int rv, const struct mr_error *err)
{
        return rv == -ENOENT && strcmp(err->s3_code, "NoSuchObjectLockConfiguration") == 0;
}

static int lock_show_retention(struct cli_call *call, const struct cli_path *path)
{
        char when[S3_DATE_ISO_SIZE];
        struct s3_doc *doc;
        struct mr_error err;
        int rv = cli_document_get(call, path, "retention", S3_DOC_RETENTION, &doc, &err);

        if (lock_is_none(rv, &err) || (rv == 0 && doc->retention.mode == S3_LOCK_NONE)) {
                printf("retention: none\n");
                rv = 0;
        } else if (rv == 0) {
                s3_date_format_iso(doc->retention.until_ms, when);
                printf("retention: %s until %s\n", s3_lock_mode_name(doc->retention.mode), when);
        }
        s3_doc_free(doc);
        return rv == 0 ? CLI_OK : cli_failed(call->argv[0], &err);
}

static int lock_show_hold(struct cli_call *call, const struct cli_path *path)
{
        struct s3_doc *doc;
        struct mr_error err;
        int rv = cli_document_get(call, path, "legal-hold", S3_DOC_LEGAL_HOLD, &doc, &err);

        if (rv == 0 || lock_is_none(rv, &err)) {
                printf("legal hold: %s\n", rv == 0 && doc->legal_hold ? "on" : "off");
                rv = 0;
        }
        s3_doc_free(doc);
        return rv == 0 ? CLI_OK : cli_failed(call->argv[0], &err);
}

int cli_lock_status(struct cli_call *call)
{
        struct cli_path path;
        int rv = cli_path_arg(call, call->argv[0], false, &path);

        if (rv != 0)
                return rv;
        if (path.key[0] == '\0')
                return lock_show_bucket(call, &path);
        rv = lock_show_retention(call, &path);
        return rv == CLI_OK ? lock_show_hold(call, &path) : rv;
}

/* ---- retain ---------------------------------------------------------------------------------- */

/* The arguments behind the path. 0 or an exit status. */
static int lock_take_mode(struct cli_call *call, enum s3_lock_mode *mode)
{
        const char *name = call->argv[1];

        if (strcmp(name, "none") == 0)
                *mode = S3_LOCK_NONE;
        else if (strcmp(name, "governance") == 0)
                *mode = S3_LOCK_GOVERNANCE;
        else if (strcmp(name, "compliance") == 0)
                *mode = S3_LOCK_COMPLIANCE;
        else
                return cli_usage(call, "the mode is governance, compliance or none: %s", name);
        if ((*mode == S3_LOCK_NONE) == (call->argc == 2))
                return 0;
        return *mode == S3_LOCK_NONE ? cli_usage(call, "none takes no time") : cli_usage(call, "%s takes a time", name);
}

/* "90d", "2y". 0 or an exit status. */
static int lock_take_period(struct cli_call *call, struct s3_lock_config *config)
{
        const char *text = call->argv[2];
        size_t digits = strspn(text, "0123456789");
        unsigned long number = digits > 0 && digits < 6 ? strtoul(text, NULL, 10) : 0;

        if (strcmp(text + digits, "d") == 0 && number > 0 && number <= S3_LOCK_DAYS_MAX)
                config->days = (uint32_t)number;
        else if (strcmp(text + digits, "y") == 0 && number > 0 && number <= S3_LOCK_YEARS_MAX)
                config->years = (uint32_t)number;
        else
                return cli_usage(call, "the period of a bucket is up to %ud or %uy: %s", S3_LOCK_DAYS_MAX,
                                 S3_LOCK_YEARS_MAX, text);
        return 0;
}

/* Sends the document, and says what was done. An exit status. */
static int lock_store(struct cli_call *call, const struct cli_path *path, const char *name, struct s3_xml *xml)
{
        struct mr_error err;
        int rv = cli_sub_resource(call, "PUT", path, name, xml, NULL, &err);

        s3_xml_free(xml);
        if (rv != 0)
                return cli_failed(call->argv[0], &err);
        if (!call->quiet)
                printf("%s: %s %s%s%s\n", call->argv[0], name, call->argv[1], call->argc > 2 ? " " : "",
                       call->argc > 2 ? call->argv[2] : "");
        return CLI_OK;
}

int cli_lock_retain(struct cli_call *call)
{
        struct s3_lock_config config = {.mode = S3_LOCK_NONE};
        struct s3_retention retention = {.mode = S3_LOCK_NONE};
        enum s3_lock_mode mode = S3_LOCK_NONE;
        struct cli_path path;
        struct s3_xml xml;
        int rv = cli_path_arg(call, call->argv[0], false, &path);

        if (rv == 0)
                rv = lock_take_mode(call, &mode);
        if (rv != 0)
                return rv;
        config.mode = retention.mode = mode;
        if (mode != S3_LOCK_NONE && path.key[0] == '\0')
                rv = lock_take_period(call, &config);
        else if (mode != S3_LOCK_NONE && cli_moment_parse(call->argv[2], cli_now_ms(), false, &retention.until_ms) != 0)
                rv = cli_usage(call, "not a time: %s", call->argv[2]);
        if (rv != 0)
                return rv;
        s3_xml_init(&xml, LOCK_XML_MAX);
        if (path.key[0] == '\0')
                s3_lock_config_write(&xml, &config);
        else
                s3_retention_write(&xml, &retention);
        return lock_store(call, &path, path.key[0] == '\0' ? "object-lock" : "retention", &xml);
}

/* ---- hold ------------------------------------------------------------------------------------ */

int cli_lock_hold(struct cli_call *call)
{
        struct cli_path path;
        struct s3_xml xml;
        bool on = strcmp(call->argv[1], "on") == 0;
        int rv = cli_path_arg(call, call->argv[0], true, &path);

        if (rv != 0)
                return rv;
        if (!on && strcmp(call->argv[1], "off") != 0)
                return cli_usage(call, "a legal hold is on or off: %s", call->argv[1]);
        s3_xml_init(&xml, LOCK_XML_MAX);
        s3_legal_hold_write(&xml, on);
        return lock_store(call, &path, "legal-hold", &xml);
}
