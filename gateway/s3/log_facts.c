/*
 * log_facts.c - what the record of a bucket's access log says of a request. Called by log_delivery.c, on
 * the request's loop, when it is over.
 */
#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <stdio.h>

#include "gateway/http/gw.h"
#include "gateway/rights/owners.h"
#include "gateway/rights/rights.h"
#include "gateway/s3/log_delivery.h"

#define OPERATION_SIZE 64u
#define REQUESTER_SIZE 2048u

/* Sub-resources as AWS names them in records. */
static const struct {
        const char *sub, *resource;
} log_resources[] = {
        {"acl", "ACL"},
        {"policy", "BUCKETPOLICY"},
        {"policyStatus", "BUCKETPOLICYSTATUS"},
        {"location", "LOCATION"},
        {"versioning", "VERSIONING"},
        {"versions", "BUCKETVERSIONS"},
        {"lifecycle", "LIFECYCLE"},
        {"cors", "CORS"},
        {"tagging", "TAGGING"},
        {"website", "WEBSITE"},
        {"logging", "LOGGING_STATUS"},
        {"notification", "NOTIFICATION"},
        {"encryption", "ENCRYPTION"},
        {"replication", "REPLICATION"},
        {"publicAccessBlock", "PUBLIC_ACCESS_BLOCK"},
        {"ownershipControls", "OWNERSHIP_CONTROLS"},
        {"inventory", "INVENTORY"},
        {"metrics", "METRICS"},
        {"analytics", "ANALYTICS"},
        {"intelligent-tiering", "INTELLIGENT_TIERING"},
        {"accelerate", "ACCELERATE"},
        {"requestPayment", "REQUEST_PAYMENT"},
        {"object-lock", "OBJECT_LOCK_CONFIGURATION"},
        {"retention", "OBJECT_LOCK_RETENTION"},
        {"legal-hold", "OBJECT_LOCK_LEGALHOLD"},
        {"attributes", "OBJECT_ATTRIBUTES"},
        {"uploads", "UPLOADS"},
        {"uploadId", "UPLOAD"},
        {"delete", "MULTI_OBJECT_DELETE"},
};

static const char *log_resource(const struct gw_request *req)
{
        const char *sub = req->op->sub;

        if (s3_str_eq(req->method, S3_STR("OPTIONS")))
                return "PREFLIGHT";
        if (sub != NULL && strcmp(sub, "uploadId") == 0 && strncmp(req->op->name, "UploadPart", 10) == 0)
                return "PART";
        if (sub != NULL && strcmp(sub, "tagging") == 0 && req->op->scope == GW_OBJECT)
                return "OBJECT_TAGGING";
        for (unsigned i = 0; sub != NULL && i < sizeof(log_resources) / sizeof(log_resources[0]); i++)
                if (strcmp(log_resources[i].sub, sub) == 0)
                        return log_resources[i].resource;
        return req->key.len > 0 || req->site ? "OBJECT" : "BUCKET";
}

/* A method that is none of HTTP's has no operation, and may have any length. */
static struct s3_str log_operation(const struct gw_request *req, char out[OPERATION_SIZE])
{
        bool copies = req->op->header != NULL && strcmp(req->op->header, "x-amz-copy-source") == 0;
        struct s3_str method = copies ? S3_STR("COPY") : req->method;
        int n = snprintf(out, OPERATION_SIZE, "%s.%.*s.%s", req->site ? "WEBSITE" : "REST", (int)(method.len < 16 ? method.len : 16),
                         method.data, log_resource(req));

        return (struct s3_str){out, n > 0 && (size_t)n < OPERATION_SIZE ? (size_t)n : 0};
}

static struct s3_str log_remote(const struct gw_request *req, char out[INET6_ADDRSTRLEN])
{
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(req->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        const struct sockaddr *addr = info != NULL ? info->client_addr : NULL;
        const void *bytes;

        if (addr == NULL || (addr->sa_family != AF_INET && addr->sa_family != AF_INET6))
                return (struct s3_str){NULL, 0};
        bytes = addr->sa_family == AF_INET ? (const void *)&((const struct sockaddr_in *)addr)->sin_addr
                                           : (const void *)&((const struct sockaddr_in6 *)addr)->sin6_addr;
        return s3_str_of(inet_ntop(addr->sa_family, bytes, out, INET6_ADDRSTRLEN));
}

static void log_tls(const struct gw_request *req, struct s3_log_facts *facts)
{
        const union MHD_ConnectionInfo *info;

        if (!req->conn->listener->tls)
                return;
        info = MHD_get_connection_info(req->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
        if (info == NULL || info->tls_session == NULL)
                return;
        facts->tls = gnutls_protocol_get_version(info->tls_session) == GNUTLS_TLS1_3 ? S3_STR("TLSv1.3") : S3_STR("TLSv1.2");
        facts->cipher = s3_str_of(gnutls_ciphersuite_get(info->tls_session));
}

static void log_signature(const struct gw_request *req, struct s3_log_facts *facts)
{
        if (req->access_key == NULL)
                return;
        facts->signature = req->signed_by == S3_AUTH_QUERY_V2 ? S3_STR("SigV2") : S3_STR("SigV4");
        facts->auth_type = req->op->body == GW_BODY_FORM         ? S3_STR("POST")
                           : req->signed_by == S3_AUTH_HEADER ? S3_STR("AuthHeader")
                                                              : S3_STR("QueryString");
}

/* Of what was read or written. */
static void log_size(const struct gw_request *req, struct s3_log_facts *facts)
{
        facts->has_size = true;
        if (req->get != NULL && req->op->body == GW_BODY_NONE)
                facts->object_size = eng_get_object(req->get)->size;
        else if (req->body != NULL && req->op->body == GW_BODY_DATA)
                facts->object_size = req->body->received;
        else
                facts->has_size = false;
}

static struct s3_str log_version(const struct gw_request *req)
{
        for (unsigned i = 0; i < req->answer.header_count; i++)
                if (strcmp(req->answer.headers[i].name, "x-amz-version-id") == 0)
                        return s3_str_of(req->answer.headers[i].value);
        return (struct s3_str){NULL, 0};
}

ssize_t gw_log_record_of(struct gw_request *req, const struct eng_bucket *bucket, const struct gw_ended *end, char *out,
                         size_t cap)
{
        char account[GW_ACCOUNT_ID_LEN + 1], operation[OPERATION_SIZE], remote[INET6_ADDRSTRLEN], requester[REQUESTER_SIZE];
        const struct gw_gateway *gw = req->loop->gw;
        struct s3_log_facts facts = {
                .bucket = req->bucket,
                .time_ms = lp_wall_ms() - (int64_t)(end->total_us / 1000),
                .remote = log_remote(req, remote),
                .requester = {requester, gw_rights_requester(req, requester, sizeof(requester))},
                .request_id = s3_str_of(req->id),
                .operation = log_operation(req, operation),
                .key = req->key,
                .method = req->method,
                .target = req->target,
                .http10 = req->http10,
                .status = end->status,
                .bytes_sent = req->bytes_out,
                .total_ms = end->total_us / 1000,
                .turn_ms = end->first_byte_us / 1000,
                .referer = gw_header(req, "Referer"),
                .user_agent = gw_header(req, "User-Agent"),
                .version_id = log_version(req),
                .host_id = s3_str_of(gw->host_id),
                .host = gw_header(req, "Host"),
        };

        gw_bucket_account(bucket, account);
        facts.owner = gw_canonical_id(req->loop, account);
        if (end->error_code != NULL)
                facts.error_code = s3_str_of(end->error_code);
        log_signature(req, &facts);
        log_size(req, &facts);
        log_tls(req, &facts);
        return s3_log_record(&facts, out, cap);
}
