/*
 * small_document.c - one request for a small document beside an object or a bucket: tags, locks,
 * rules. On the caller's thread, which waits.
 */
#include "millrace.h"

#include "client/http/client_request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mr_document_free(struct mr_document *document)
{
        free(document->text);
        memset(document, 0, sizeof(*document));
}

/* Takes over the body. */
static int take_document(struct mr_response *response, struct mr_document *out, struct mr_error *err)
{
        const char *version = mr_response_header(response, "x-amz-version-id");

        snprintf(out->version_id, sizeof(out->version_id), "%s", version != NULL ? version : "");
        out->text = response->body != NULL ? response->body : calloc(1, 1);
        out->len = response->body_len;
        response->body = NULL;
        return out->text != NULL ? 0 : mr_failure_errno(err, -ENOMEM);
}

static bool method_known(const char *method)
{
        return method != NULL &&
               (strcmp(method, "GET") == 0 || strcmp(method, "PUT") == 0 || strcmp(method, "DELETE") == 0);
}

int mr_sub_resource(struct mr_client *client, const struct mr_sub_resource *what, struct mr_document *out,
                    struct mr_error *err)
{
        struct mr_request request = {.method = what->method, .bucket = what->bucket, .key = what->key};
        struct mr_response response;
        int rv;

        if (out != NULL)
                memset(out, 0, sizeof(*out));
        if (!method_known(what->method) || what->bucket == NULL || what->bucket[0] == '\0' || what->name == NULL ||
            what->name[0] == '\0' || (what->key != NULL && what->key[0] == '\0'))
                return mr_failure_errno(err, -EINVAL);
        mr_request_query(&request, what->name, NULL);
        if (what->version_id != NULL)
                mr_request_query(&request, "versionId", what->version_id);
        for (unsigned i = 0; what->query != NULL && i < 4 && what->query[i] != NULL; i += 2)
                mr_request_query(&request, what->query[i], what->query[i + 1]);
        if (what->bypass_governance)
                mr_request_header(&request, "x-amz-bypass-governance-retention", "true");
        if (what->body != NULL) {
                mr_request_header(&request, "content-type", "application/xml");
                request.data = what->body;
                request.len = what->len;
                request.has_checksum = true; /* S3 asks for one here, whatever the settings say */
                request.checksum = S3_CRC32;
        }
        rv = mr_request_run(client, &request, &response, err);
        if (rv == 0 && out != NULL)
                rv = take_document(&response, out, err);
        mr_response_free(&response);
        return rv;
}
