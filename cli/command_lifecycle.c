/* command_lifecycle.c - `millrace lifecycle get`, `set` and `remove`. Main thread only. */
#include "lifecycle_json.h"
#include "sub_resources.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RULES_FILE_MAX (8u << 20)

/* 0 or an exit status. */
static int lifecycle_bucket(struct cli_call *call, struct cli_path *path)
{
        int rv = cli_path_arg(call, call->argv[0], false, path);

        if (rv == 0 && path->key[0] != '\0')
                return cli_usage(call, "not a bucket: %s", call->argv[0]);
        return rv;
}

int cli_lifecycle_get(struct cli_call *call)
{
        struct mr_document document;
        struct cli_path path;
        struct mr_error err;
        json_t *rules;
        int rv = lifecycle_bucket(call, &path);

        if (rv != 0)
                return rv;
        if (cli_sub_resource(call, "GET", &path, "lifecycle", NULL, &document, &err) != 0)
                return cli_failed(call->argv[0], &err);
        rv = cli_lifecycle_json_read(document.text, document.len, &rules);
        mr_document_free(&document);
        if (rv != 0) {
                cli_error("%s: %s", call->argv[0],
                          rv == -EPROTO ? "the rules have something that this program does not know" : strerror(-rv));
                return CLI_FAILED;
        }
        rv = json_dumpf(rules, stdout, JSON_INDENT(4));
        json_decref(rules);
        printf("\n");
        return rv == 0 ? CLI_OK : CLI_FAILED;
}

/* The rules in a file, or on standard input. NULL: it has been said why not. */
static json_t *lifecycle_load(const char *name)
{
        bool standard = strcmp(name, "-") == 0;
        FILE *file = standard ? stdin : fopen(name, "re");
        char *text = malloc(RULES_FILE_MAX);
        json_error_t error;
        json_t *rules = NULL;
        size_t len;

        if (file == NULL || text == NULL) {
                cli_error("%s: %s", name, strerror(errno));
                goto out;
        }
        len = fread(text, 1, RULES_FILE_MAX, file);
        if (ferror(file)) {
                cli_error("%s: %s", name, strerror(errno));
        } else if (len == RULES_FILE_MAX) {
                cli_error("%s: more than %u MiB", name, RULES_FILE_MAX >> 20);
        } else {
                rules = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
                if (rules == NULL)
                        cli_error("%s: not JSON: line %d: %s", name, error.line, error.text);
        }
out:
        free(text);
        if (file != NULL && !standard)
                fclose(file);
        return rules;
}

int cli_lifecycle_set(struct cli_call *call)
{
        const char *name = call->argc > 1 ? call->argv[1] : "-";
        struct cli_path path;
        struct mr_error err;
        struct s3_xml xml;
        char why[256];
        json_t *rules;
        size_t count;
        int rv = lifecycle_bucket(call, &path);

        if (rv != 0)
                return rv;
        rules = lifecycle_load(name);
        if (rules == NULL)
                return CLI_FAILED;
        count = json_array_size(json_object_get(rules, "Rules"));
        s3_xml_init(&xml, S3_LIFECYCLE_BODY_MAX);
        rv = cli_lifecycle_json_write(rules, &xml, why, sizeof(why));
        json_decref(rules);
        if (rv != 0) {
                cli_error("%s: %s", name, why);
                s3_xml_free(&xml);
                return CLI_FAILED;
        }
        rv = cli_sub_resource(call, "PUT", &path, "lifecycle", &xml, NULL, &err);
        s3_xml_free(&xml);
        if (rv != 0)
                return cli_failed(call->argv[0], &err);
        if (!call->quiet)
                printf("%s: %zu rules\n", call->argv[0], count);
        return CLI_OK;
}

int cli_lifecycle_remove(struct cli_call *call)
{
        struct cli_path path;
        struct mr_error err;
        int rv = lifecycle_bucket(call, &path);

        if (rv != 0)
                return rv;
        if (cli_sub_resource(call, "DELETE", &path, "lifecycle", NULL, NULL, &err) != 0)
                return cli_failed(call->argv[0], &err);
        if (!call->quiet)
                printf("%s: no rules\n", call->argv[0]);
        return CLI_OK;
}
