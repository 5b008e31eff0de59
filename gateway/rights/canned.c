/*
 * canned.c - managed policies that are always there: those of AWS that are about all of S3, and four more for
 * common purposes. Compiled at the start, then constant; any loop.
 */
#include "gateway/rights/canned.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CANNED_ARN "arn:aws:iam::aws:policy/"
#define CANNED_ALLOW(actions)                                                                                          \
        "{\"Version\":\"2012-10-17\",\"Statement\":["                                                                  \
        "{\"Effect\":\"Allow\",\"Action\":[" actions "],\"Resource\":\"*\"}]}"

static const struct gw_canned canned_list[] = {
        {CANNED_ARN "AdministratorAccess", CANNED_ALLOW("\"*\"")},
        {CANNED_ARN "AmazonS3FullAccess", CANNED_ALLOW("\"s3:*\",\"s3-object-lambda:*\"")},
        {CANNED_ARN "AmazonS3ReadOnlyAccess", CANNED_ALLOW("\"s3:Get*\",\"s3:List*\",\"s3:Describe*\","
                                                           "\"s3-object-lambda:Get*\",\"s3-object-lambda:List*\"")},
        {CANNED_ARN "readonly", CANNED_ALLOW("\"s3:GetBucketLocation\",\"s3:GetObject\"")},
        {CANNED_ARN "readwrite", CANNED_ALLOW("\"s3:*\"")},
        {CANNED_ARN "writeonly", CANNED_ALLOW("\"s3:PutObject\"")},
        {CANNED_ARN "diagnostics", CANNED_ALLOW("\"s3:ListAllMyBuckets\",\"s3:GetBucketLocation\"")},
};
#define CANNED_COUNT (sizeof(canned_list) / sizeof(canned_list[0]))

struct gw_rights {
        struct acc_policy *canned[CANNED_COUNT];
};

const struct gw_canned *gw_canned_at(unsigned index)
{
        return index < CANNED_COUNT ? &canned_list[index] : NULL;
}

const struct acc_policy *gw_canned_policy(const struct gw_gateway *gw, const char *arn)
{
        for (unsigned i = 0; gw->rights != NULL && i < CANNED_COUNT; i++)
                if (strcmp(arn, canned_list[i].arn) == 0)
                        return gw->rights->canned[i];
        return NULL;
}

int gw_rights_start(struct gw_gateway *gw)
{
        struct gw_rights *rights = calloc(1, sizeof(*rights));
        struct acc_error error;

        if (rights == NULL)
                return -ENOMEM;
        gw->rights = rights;
        for (unsigned i = 0; i < CANNED_COUNT; i++) {
                int rv = acc_policy_compile(s3_str_of(canned_list[i].text), ACC_MANAGED, (struct s3_str){NULL, 0},
                                            &rights->canned[i], &error);

                if (rv != 0)
                        return rv; /* gw_rights_free() frees what there is */
        }
        return 0;
}

void gw_rights_free(struct gw_gateway *gw)
{
        struct gw_rights *rights = gw->rights;

        gw->rights = NULL;
        for (unsigned i = 0; rights != NULL && i < CANNED_COUNT; i++)
                acc_policy_free(rights->canned[i]);
        free(rights);
}
