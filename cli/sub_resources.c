/*
 * sub_resources.c - asks for and stores what S3 keeps beside objects and buckets: one request each,
 * on the main thread.
 */
#include "sub_resources.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Fills err for what went wrong on our side of the request. */
static int sub_resource_failed(struct mr_error *err, int rv, const char *message)
{
        memset(err, 0, sizeof(*err));
        err->code = rv;
        snprintf(err->message, sizeof(err->message), "%s", message);
        return rv;
}

int cli_sub_resource(struct cli_call *call, const char *method, const struct cli_path *path, const char *name,
                     struct s3_xml *body, struct mr_document *out, struct mr_error *err)
{
        struct mr_sub_resource what = {
                .method = method,
                .bucket = path->bucket,
                .key = path->key[0] != '\0' ? path->key : NULL,
                .name = name,
                .version_id = path->key[0] != '\0' ? call->version_id : NULL,
                .bypass_governance = call->bypass_governance,
        };
        char *text = NULL;
        int rv = 0;

        if (out != NULL)
                memset(out, 0, sizeof(*out));
        if (body != NULL)
                rv = s3_xml_take(body, &text, &what.len);
        if (rv != 0)
                return sub_resource_failed(err, rv, strerror(-rv));
        what.body = text;
        rv = mr_sub_resource(call->client, &what, out, err);
        free(text);
        return rv;
}

int cli_document_get(struct cli_call *call, const struct cli_path *path, const char *name, enum s3_doc_kind kind,
                     struct s3_doc **out, struct mr_error *err)
{
        struct mr_document document;
        int rv = cli_sub_resource(call, "GET", path, name, NULL, &document, err);

        *out = NULL;
        if (rv == 0 && s3_doc_read(kind, (struct s3_str){document.text, document.len}, out) != S3_OK)
                rv = sub_resource_failed(err, -EPROTO, "the answer is not the document that was asked for");
        mr_document_free(&document);
        return rv;
}

const char *cli_config_text(const struct s3_doc *doc, const char *name, char *out, size_t size)
{
        out[0] = '\0';
        for (unsigned i = 0; i < doc->leaf_count; i++) {
                if (!s3_str_eq(doc->leaf[i].name, s3_str_of(name)) || doc->leaf[i].value.len >= size)
                        continue;
                memcpy(out, doc->leaf[i].value.data, doc->leaf[i].value.len);
                out[doc->leaf[i].value.len] = '\0';
                break;
        }
        return out;
}
