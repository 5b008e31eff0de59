/*
 * sub_resource.c - query parameters that choose an operation. Pure; any thread.
 */
#include "gateway/s3/sub_resource.h"

#include <stddef.h>

/*
 * Query parameters that name another thing than the object or bucket itself, whether we have it or
 * not.
 */
static const char *const sub_resources[] = {
        "abac",
        "accelerate",
        "acl",
        "analytics",
        "annotation",
        "attributes",
        "cors",
        "delete",
        "encryption",
        "intelligent-tiering",
        "inventory",
        "legal-hold",
        "lifecycle",
        "location",
        "logging",
        "metadataAnnotationTable",
        "metadataConfiguration",
        "metadataInventoryTable",
        "metadataJournalTable",
        "metadataTable",
        "metrics",
        "notification",
        "object-lock",
        "ownershipControls",
        "policy",
        "policyStatus",
        "publicAccessBlock",
        "renameObject",
        "replication",
        "requestPayment",
        "restore",
        "retention",
        "select",
        "session",
        "tagging",
        "torrent",
        "uploadId",
        "uploads",
        "versioning",
        "versions",
        "website",
};

/* All begin with a small letter; the parameters of a presigned URL do not. */
static bool is_sub_resource(struct s3_str name)
{
        if (name.len == 0 || name.data[0] < 'a' || name.data[0] > 'z')
                return false;
        for (unsigned i = 0; i < sizeof(sub_resources) / sizeof(sub_resources[0]); i++) {
                if (name.data[0] == sub_resources[i][0] && s3_str_eq(name, s3_str_of(sub_resources[i])))
                        return true;
        }
        return false;
}

enum s3_error gw_sub_find(const struct s3_query *query, const struct s3_query_param **out)
{
        *out = NULL;
        for (unsigned i = 0; i < query->count; i++) {
                if (!is_sub_resource(query->param[i].name))
                        continue;
                if (*out != NULL)
                        return S3_ERR_INVALID_ARGUMENT;
                *out = &query->param[i];
        }
        return S3_OK;
}

struct s3_str gw_sub_name(const struct s3_query *query)
{
        const struct s3_query_param *sub;

        return gw_sub_find(query, &sub) == S3_OK && sub != NULL ? sub->name : (struct s3_str){NULL, 0};
}
