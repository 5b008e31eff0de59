/*
 * access_keys.h - the condition keys that are known by name. See access.h.
 *
 * A bucket policy may use no other key that begins with "aws:" or "s3:" (A20). Policies of other
 * kinds may use any key; one that is not listed here has the id ACC_KEY_OTHER.
 */
#ifndef MILLRACE_ACCESS_KEYS_H
#define MILLRACE_ACCESS_KEYS_H

#include "s3_base.h"

/* X(id, name). A name that ends in "/" stands for all keys that begin so. */
#define ACC_KEYS(X)                                                                                                    \
        X(AWS_ASSUMED_ROOT, "aws:AssumedRoot")                                                                         \
        X(AWS_CALLED_VIA, "aws:CalledVia")                                                                             \
        X(AWS_CALLED_VIA_FIRST, "aws:CalledViaFirst")                                                                  \
        X(AWS_CALLED_VIA_LAST, "aws:CalledViaLast")                                                                    \
        X(AWS_CURRENT_TIME, "aws:CurrentTime")                                                                         \
        X(AWS_EC2_SOURCE_IP, "aws:Ec2InstanceSourcePrivateIPv4")                                                       \
        X(AWS_EC2_SOURCE_VPC, "aws:Ec2InstanceSourceVpc")                                                              \
        X(AWS_EPOCH_TIME, "aws:EpochTime")                                                                             \
        X(AWS_FEDERATED_PROVIDER, "aws:FederatedProvider")                                                             \
        X(AWS_MFA_AGE, "aws:MultiFactorAuthAge")                                                                       \
        X(AWS_MFA_PRESENT, "aws:MultiFactorAuthPresent")                                                               \
        X(AWS_PRINCIPAL_ACCOUNT, "aws:PrincipalAccount")                                                               \
        X(AWS_PRINCIPAL_ARN, "aws:PrincipalArn")                                                                       \
        X(AWS_PRINCIPAL_IS_SERVICE, "aws:PrincipalIsAWSService")                                                       \
        X(AWS_PRINCIPAL_ORG_ID, "aws:PrincipalOrgID")                                                                  \
        X(AWS_PRINCIPAL_ORG_PATHS, "aws:PrincipalOrgPaths")                                                            \
        X(AWS_PRINCIPAL_SERVICE, "aws:PrincipalServiceName")                                                           \
        X(AWS_PRINCIPAL_SERVICES, "aws:PrincipalServiceNamesList")                                                     \
        X(AWS_PRINCIPAL_TAG, "aws:PrincipalTag/")                                                                      \
        X(AWS_PRINCIPAL_TYPE, "aws:PrincipalType")                                                                     \
        X(AWS_REFERER, "aws:Referer")                                                                                  \
        X(AWS_REQUESTED_REGION, "aws:RequestedRegion")                                                                 \
        X(AWS_REQUEST_TAG, "aws:RequestTag/")                                                                          \
        X(AWS_RESOURCE_ACCOUNT, "aws:ResourceAccount")                                                                 \
        X(AWS_RESOURCE_ORG_ID, "aws:ResourceOrgID")                                                                    \
        X(AWS_RESOURCE_ORG_PATHS, "aws:ResourceOrgPaths")                                                              \
        X(AWS_RESOURCE_TAG, "aws:ResourceTag/")                                                                        \
        X(AWS_SECURE_TRANSPORT, "aws:SecureTransport")                                                                 \
        X(AWS_SOURCE_ACCOUNT, "aws:SourceAccount")                                                                     \
        X(AWS_SOURCE_ARN, "aws:SourceArn")                                                                             \
        X(AWS_SOURCE_IDENTITY, "aws:SourceIdentity")                                                                   \
        X(AWS_SOURCE_IP, "aws:SourceIp")                                                                               \
        X(AWS_SOURCE_ORG_ID, "aws:SourceOrgID")                                                                        \
        X(AWS_SOURCE_ORG_PATHS, "aws:SourceOrgPaths")                                                                  \
        X(AWS_SOURCE_OWNER, "aws:SourceOwner")                                                                         \
        X(AWS_SOURCE_VPC, "aws:SourceVpc")                                                                             \
        X(AWS_SOURCE_VPC_ARN, "aws:SourceVpcArn")                                                                      \
        X(AWS_SOURCE_VPCE, "aws:SourceVpce")                                                                           \
        X(AWS_TAG_KEYS, "aws:TagKeys")                                                                                 \
        X(AWS_TOKEN_ISSUE_TIME, "aws:TokenIssueTime")                                                                  \
        X(AWS_USER_AGENT, "aws:UserAgent")                                                                             \
        X(AWS_USER_ID, "aws:userid")                                                                                   \
        X(AWS_USER_NAME, "aws:username")                                                                               \
        X(AWS_VIA_SERVICE, "aws:ViaAWSService")                                                                        \
        X(AWS_VPCE_ACCOUNT, "aws:VpceAccount")                                                                         \
        X(AWS_VPCE_ORG_ID, "aws:VpceOrgID")                                                                            \
        X(AWS_VPCE_ORG_PATHS, "aws:VpceOrgPaths")                                                                      \
        X(AWS_VPC_SOURCE_IP, "aws:VpcSourceIp")                                                                        \
        X(S3_ACCESS_GRANTS_INSTANCE, "s3:AccessGrantsInstanceArn")                                                     \
        X(S3_ACCESS_GRANT_SCOPE, "s3:AccessGrantScope")                                                                \
        X(S3_ACCESS_POINT_ACCOUNT, "s3:DataAccessPointAccount")                                                        \
        X(S3_ACCESS_POINT_ARN, "s3:DataAccessPointArn")                                                                \
        X(S3_ACCESS_POINT_ORIGIN, "s3:AccessPointNetworkOrigin")                                                       \
        X(S3_ACCESS_POINT_TAG, "s3:AccessPointTag/")                                                                   \
        X(S3_ACL, "s3:x-amz-acl")                                                                                      \
        X(S3_AUTH_TYPE, "s3:authType")                                                                                 \
        X(S3_BUCKET_TAG, "s3:BucketTag/")                                                                              \
        X(S3_CONTENT_SHA256, "s3:x-amz-content-sha256")                                                                \
        X(S3_COPY_SOURCE, "s3:x-amz-copy-source")                                                                      \
        X(S3_CREATION_OPERATION, "s3:ObjectCreationOperation")                                                         \
        X(S3_DELIMITER, "s3:delimiter")                                                                                \
        X(S3_DESTINATION_REGION, "s3:destinationRegion")                                                               \
        X(S3_EXISTING_OBJECT_TAG, "s3:ExistingObjectTag/")                                                             \
        X(S3_GRANT_FULL_CONTROL, "s3:x-amz-grant-full-control")                                                        \
        X(S3_GRANT_READ, "s3:x-amz-grant-read")                                                                        \
        X(S3_GRANT_READ_ACP, "s3:x-amz-grant-read-acp")                                                                \
        X(S3_GRANT_WRITE, "s3:x-amz-grant-write")                                                                      \
        X(S3_GRANT_WRITE_ACP, "s3:x-amz-grant-write-acp")                                                              \
        X(S3_IF_MATCH, "s3:if-match")                                                                                  \
        X(S3_IF_NONE_MATCH, "s3:if-none-match")                                                                        \
        X(S3_INVENTORY_FIELDS, "s3:InventoryAccessibleOptionalFields")                                                 \
        X(S3_JOB_OPERATION, "s3:RequestJobOperation")                                                                  \
        X(S3_JOB_OPERATION_EXISTING, "s3:ExistingJobOperation")                                                        \
        X(S3_JOB_PRIORITY, "s3:RequestJobPriority")                                                                    \
        X(S3_JOB_PRIORITY_EXISTING, "s3:ExistingJobPriority")                                                          \
        X(S3_JOB_SUSPENDED_CAUSE, "s3:JobSuspendedCause")                                                              \
        X(S3_LEGAL_HOLD, "s3:object-lock-legal-hold")                                                                  \
        X(S3_LOCATION, "s3:LocationConstraint")                                                                        \
        X(S3_LOCK_MODE, "s3:object-lock-mode")                                                                         \
        X(S3_MAX_KEYS, "s3:max-keys")                                                                                  \
        X(S3_METADATA_DIRECTIVE, "s3:x-amz-metadata-directive")                                                        \
        X(S3_OBJECT_OWNERSHIP, "s3:x-amz-object-ownership")                                                            \
        X(S3_PREFIX, "s3:prefix")                                                                                      \
        X(S3_REMAINING_DAYS, "s3:object-lock-remaining-retention-days")                                                \
        X(S3_REPLICATION_PAUSE, "s3:isReplicationPauseRequest")                                                        \
        X(S3_REQUEST_OBJECT_TAG, "s3:RequestObjectTag/")                                                               \
        X(S3_REQUEST_OBJECT_TAG_KEYS, "s3:RequestObjectTagKeys")                                                       \
        X(S3_RESOURCE_ACCOUNT, "s3:ResourceAccount")                                                                   \
        X(S3_RETAIN_UNTIL, "s3:object-lock-retain-until-date")                                                         \
        X(S3_SIGNATURE_AGE, "s3:signatureAge")                                                                         \
        X(S3_SIGNATURE_VERSION, "s3:signatureversion")                                                                 \
        X(S3_SSE, "s3:x-amz-server-side-encryption")                                                                   \
        X(S3_SSE_C, "s3:x-amz-server-side-encryption-customer-algorithm")                                              \
        X(S3_SSE_KMS_KEY, "s3:x-amz-server-side-encryption-aws-kms-key-id")                                            \
        X(S3_STORAGE_CLASS, "s3:x-amz-storage-class")                                                                  \
        X(S3_TLS_VERSION, "s3:TlsVersion")                                                                             \
        X(S3_VERSION_ID, "s3:VersionId")                                                                               \
        X(S3_WEBSITE_REDIRECT, "s3:x-amz-website-redirect-location")                                                   \
        X(STS_DURATION, "sts:DurationSeconds")                                                                         \
        X(STS_EXTERNAL_ID, "sts:ExternalId")                                                                           \
        X(STS_SESSION_NAME, "sts:RoleSessionName")                                                                     \
        X(STS_SOURCE_IDENTITY, "sts:SourceIdentity")                                                                   \
        X(STS_TRANSITIVE_TAGS, "sts:TransitiveTagKeys")                                                                \
        X(IAM_PASSED_TO_SERVICE, "iam:PassedToService")                                                                \
        X(IAM_PERMISSIONS_BOUNDARY, "iam:PermissionsBoundary")                                                         \
        X(IAM_POLICY_ARN, "iam:PolicyARN")                                                                             \
        X(IAM_RESOURCE_TAG, "iam:ResourceTag/")

enum acc_key_id {
        ACC_KEY_OTHER,
#define ACC_KEY_ENUM(id, name) ACC_KEY_##id,
        ACC_KEYS(ACC_KEY_ENUM)
#undef ACC_KEY_ENUM
                ACC_KEY_COUNT
};

/* A condition key as a policy names it. */
struct acc_key {
        enum acc_key_id id;
        struct s3_str name; /* as written; the case of its letters does not count */
        struct s3_str tag;  /* behind the "/" of a key that is listed with one, as written; else absent */
};

/* The name of a known key, as listed. */
struct s3_str acc_key_name(enum acc_key_id id);
/* Finds the key of a name, whatever its case. The result points into `name`. */
struct acc_key acc_key_find(struct s3_str name);

#endif
