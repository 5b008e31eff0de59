/*
 * canned.c - managed policies that are always there: those of AWS that are about all of S3, and four more for
 * common purposes. Compiled at the start, then constant; any loop.
 */
#include "gateway/rights/canned.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/people/entity.h"

#define CANNED_ALLOW(actions)                                                                                          \
        "{\"Version\":\"2012-10-17\",\"Statement\":["                                                                  \
        "{\"Effect\":\"Allow\",\"Action\":[" actions "],\"Resource\":\"*\"}]}"

static const struct gw_canned canned_list[] = {
        {GW_AWS_POLICY_ARN "AdministratorAccess", "ANPAIWMBCKSKIEE64ZLYK",
         CANNED_ALLOW("\"*\"")},
        {GW_AWS_POLICY_ARN "AmazonS3FullAccess", "ANPAIFIR6V6BVTRAHWINE",
         CANNED_ALLOW("\"s3:*\",\"s3-object-lambda:*\"")},
        {GW_AWS_POLICY_ARN "AmazonS3ReadOnlyAccess", "ANPAIZTJ4DXE7G6AGAE6M",
         CANNED_ALLOW("\"s3:Get*\",\"s3:List*\",\"s3:Describe*\","
                                                           "\"s3-object-lambda:Get*\",\"s3-object-lambda:List*\"")},
        {GW_AWS_POLICY_ARN "readonly", "ANPAMILLRACEREADONLY2",
         CANNED_ALLOW("\"s3:GetBucketLocation\",\"s3:GetObject\"")},
        {GW_AWS_POLICY_ARN "readwrite", "ANPAMILLRACEREADWRITE",
         CANNED_ALLOW("\"s3:*\"")},
        {GW_AWS_POLICY_ARN "writeonly", "ANPAMILLRACEWRITEONLY",
         CANNED_ALLOW("\"s3:PutObject\"")},
        {GW_AWS_POLICY_ARN "diagnostics", "ANPAMILLRACEDIAGNOSTI",
         CANNED_ALLOW("\"s3:ListAllMyBuckets\",\"s3:GetBucketLocation\"")},
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
