/*
 * object_info.c - what the headers of an answer say of an object. Pure; any thread.
 */
#include "client/http/object_info.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mr_etag_copy(char *out, size_t size, const char *etag)
{
        size_t len;

        if (etag == NULL)
                etag = "";
        if (etag[0] == '"')
                etag++;
        len = strlen(etag);
        if (len > 0 && etag[len - 1] == '"')
                len--;
        snprintf(out, size, "%.*s", (int)len, etag);
}

void mr_etag_quote(char out[100], const char *etag)
{
        snprintf(out, 100, etag[0] == '"' || etag[0] == '\0' ? "%s" : "\"%s\"", etag);
}

void mr_checksum_of_answer(const struct mr_response *response, struct mr_object_info *out)
{
        const char *type = mr_response_header(response, "x-amz-checksum-type");

        for (unsigned kind = 0; kind < S3_CHECKSUM_KINDS; kind++) {
                const struct s3_checksum_info *info = s3_checksum_info((enum s3_checksum)kind);
                const char *value = mr_response_header(response, info->header);

                if (value == NULL)
                        continue;
                snprintf(out->checksum_kind, sizeof(out->checksum_kind), "%s", info->algorithm);
                snprintf(out->checksum, sizeof(out->checksum), "%s", value);
                /*
                 * endpoints that know no types mark the checksum of checksums by its "-parts" alone
                 */
                out->checksum_composite =
                        strchr(value, '-') != NULL || (type != NULL && strcmp(type, "COMPOSITE") == 0);
                return;
        }
}

int mr_info_of_answer(const struct mr_response *response, struct mr_object_info *out)
{
        const char *length = mr_response_header(response, "content-length");
        const char *modified = mr_response_header(response, "last-modified");
        const char *version = mr_response_header(response, "x-amz-version-id");
        int64_t ms;

        memset(out, 0, sizeof(*out));
        if (length == NULL || s3_parse_uint(s3_str_of(length), INT64_MAX, &out->size) != 0)
                return -EPROTO;
        if (modified != NULL && s3_date_parse_http(s3_str_of(modified), &ms) == 0)
                out->mtime_s = ms / 1000;
        mr_etag_copy(out->etag, sizeof(out->etag), mr_response_header(response, "etag"));
        if (version != NULL)
                snprintf(out->version_id, sizeof(out->version_id), "%.127s", version);
        mr_checksum_of_answer(response, out);
        return 0;
}

void mr_object_info_free(struct mr_object_info *info)
{
        for (unsigned i = 0; i < info->header_count; i++) {
                free(info->headers[i].name);
                free(info->headers[i].value);
        }
        free(info->headers);
        memset(info, 0, sizeof(*info));
}
