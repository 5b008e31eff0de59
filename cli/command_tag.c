/* command_tag.c - `millrace tag get`, `set` and `remove`. Main thread only. */
#include "sub_resources.h"

#include <errno.h>
#include <string.h>

#define TAGS_XML_MAX (1u << 20)

/* The tags of an object or bucket; that it has none is no failure. *doc as cli_document_get(). */
static int tag_read(struct cli_call *call, const struct cli_path *path, struct s3_doc **doc, struct mr_error *err)
{
        /* a bucket may have more tags: its kind reads an object's, too */
        int rv = cli_document_get(call, path, "tagging", S3_DOC_BUCKET_TAGGING, doc, err);

        return rv == -ENOENT && strcmp(err->s3_code, "NoSuchTagSet") == 0 ? 0 : rv;
}

/* An exit status. No tags: what it has is deleted. */
static int tag_store(struct cli_call *call, const struct cli_path *path, const struct s3_tags *tags)
{
        struct mr_error err;
        struct s3_xml xml;
        int rv;

        s3_xml_init(&xml, TAGS_XML_MAX);
        if (tags->count > 0)
                s3_tags_write(&xml, tags);
        rv = cli_sub_resource(call, tags->count > 0 ? "PUT" : "DELETE", path, "tagging", tags->count > 0 ? &xml : NULL,
                              NULL, &err);
        s3_xml_free(&xml);
        if (rv != 0)
                return cli_failed(call->argv[0], &err);
        if (!call->quiet)
                printf("%s: %u tags\n", call->argv[0], tags->count);
        return CLI_OK;
}

static void tag_print(const char *name, struct s3_str text)
{
        char raw[S3_TAG_VALUE_BYTES + 1], printable[S3_TAG_VALUE_BYTES + 1];

        snprintf(raw, sizeof(raw), "%.*s", (int)text.len, text.data);
        printf("%s%s", name, cli_printable(stdout, raw, printable, sizeof(printable)));
}

int cli_tag_get(struct cli_call *call)
{
        struct s3_doc *doc;
        struct cli_path path;
        struct mr_error err;
        int rv = cli_path_arg(call, call->argv[0], false, &path);

        if (rv != 0)
                return rv;
        rv = tag_read(call, &path, &doc, &err);
        for (unsigned i = 0; rv == 0 && doc != NULL && i < doc->tags.count; i++) {
                tag_print("", doc->tags.tag[i].key);
                tag_print("=", doc->tags.tag[i].value);
                printf("\n");
        }
        s3_doc_free(doc);
        return rv == 0 ? CLI_OK : cli_failed(call->argv[0], &err);
}

/* Those of the arguments, which the tags point into. 0 or an exit status. */
static int tags_of_arguments(struct cli_call *call, struct s3_tags *tags)
{
        const char *message = "";

        tags->count = 0;
        for (int i = 1; i < call->argc; i++) {
                const char *text = call->argv[i], *equals = strchr(text, '=');

                if (equals == NULL || equals == text)
                        return cli_usage(call, "not a tag of the form TAG=VALUE: %s", text);
                if (tags->count == S3_TAGS_MAX)
                        return cli_usage(call, "more than %u tags", S3_TAGS_MAX);
                tags->tag[tags->count].key = (struct s3_str){text, (size_t)(equals - text)};
                tags->tag[tags->count++].value = s3_str_of(equals + 1);
        }
        if (s3_tags_check(tags, S3_TAGS_MAX, &message) != S3_OK)
                return cli_usage(call, "%s", message);
        return 0;
}

int cli_tag_set(struct cli_call *call)
{
        struct s3_tags tags;
        struct cli_path path;
        int rv = cli_path_arg(call, call->argv[0], false, &path);

        if (rv == 0)
                rv = tags_of_arguments(call, &tags);
        return rv != 0 ? rv : tag_store(call, &path, &tags);
}

/* Takes one out of the tags. False: it is not among them. */
static bool tag_drop(struct s3_tags *tags, const char *key)
{
        for (unsigned i = 0; i < tags->count; i++) {
                if (!s3_str_eq(tags->tag[i].key, s3_str_of(key)))
                        continue;
                memmove(&tags->tag[i], &tags->tag[i + 1], (tags->count - i - 1) * sizeof(tags->tag[0]));
                tags->count--;
                return true;
        }
        return false;
}

int cli_tag_remove(struct cli_call *call)
{
        struct s3_tags none = {.count = 0};
        struct s3_doc *doc = NULL;
        struct cli_path path;
        struct mr_error err;
        int rv = cli_path_arg(call, call->argv[0], false, &path);

        if (rv != 0)
                return rv;
        if (call->argc == 1)
                return tag_store(call, &path, &none);
        rv = tag_read(call, &path, &doc, &err);
        if (rv != 0) {
                s3_doc_free(doc);
                return cli_failed(call->argv[0], &err);
        }
        for (int i = 1; i < call->argc && rv == CLI_OK; i++) {
                if (doc != NULL && tag_drop(&doc->tags, call->argv[i]))
                        continue;
                cli_error("%s: it has no tag %s", call->argv[0], call->argv[i]);
                rv = CLI_FAILED;
        }
        if (rv == CLI_OK)
                rv = tag_store(call, &path, &doc->tags);
        s3_doc_free(doc);
        return rv;
}
