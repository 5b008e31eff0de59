/*
 * rights_service.c - may a service of the store put an object there, as AWS's services ask it: log delivery and
 * inventory. On the loop of whoever asks; nothing here waits.
 */
#include <string.h>

#include "gateway/http/users.h"
#include "gateway/rights/bucket_policy.h"
#include "gateway/rights/owners.h"
#include "gateway/rights/rights.h"
#include "gateway/rights/who.h"

#define SERVICE_NAME_MAX (13u + ENG_BUCKET_NAME_MAX + 1u + ENG_KEY_MAX)

/* What conditions of such a policy ask. owner: the call */
struct service_case {
        struct s3_str source_arn, service, now, value;
        char source[GW_ACCOUNT_ID_LEN + 1], target[GW_ACCOUNT_ID_LEN + 1]; /* accounts that own the buckets */
};

/* Keys that are not here are absent. */
static bool service_lookup(void *context, const struct acc_key *key, struct acc_values *out)
{
        struct service_case *c = context;

        switch (key->id) {
        case ACC_KEY_AWS_SOURCE_ARN:
                c->value = c->source_arn;
                break;
        case ACC_KEY_AWS_SOURCE_ACCOUNT:
                c->value = s3_str_of(c->source);
                break;
        case ACC_KEY_AWS_RESOURCE_ACCOUNT:
        case ACC_KEY_S3_RESOURCE_ACCOUNT:
                c->value = s3_str_of(c->target);
                break;
        case ACC_KEY_AWS_PRINCIPAL_SERVICE:
        case ACC_KEY_AWS_PRINCIPAL_SERVICES:
                c->value = c->service;
                break;
        case ACC_KEY_AWS_PRINCIPAL_IS_SERVICE:
        case ACC_KEY_AWS_SECURE_TRANSPORT: /* it leaves the process by no network */
                c->value = S3_STR("true");
                break;
        case ACC_KEY_AWS_VIA_SERVICE:
                c->value = S3_STR("false");
                break;
        case ACC_KEY_AWS_CURRENT_TIME:
                c->value = c->now;
                break;
        case ACC_KEY_S3_ACL: /* as AWS's services send it */
                c->value = S3_STR("bucket-owner-full-control");
                break;
        default:
                return false;
        }
        *out = (struct acc_values){&c->value, 1, ACC_KNOWN};
        return true;
}

static size_t service_arn(char *out, struct s3_str bucket, struct s3_str key)
{
        char *p = stpcpy(out, "arn:aws:s3:::");

        p = mempcpy(p, bucket.data, bucket.len);
        if (key.len > 0) {
                *p++ = '/';
                p = mempcpy(p, key.data, key.len);
        }
        return (size_t)(p - out);
}

bool gw_rights_service(struct gw_loop *loop, const char *service, const struct eng_bucket *bucket, struct s3_str key,
                       struct s3_str source)
{
        char resource[SERVICE_NAME_MAX], source_arn[SERVICE_NAME_MAX], now[S3_DATE_ISO_SIZE];
        struct acc_principal who = {.kind = ACC_SERVICE, .name = s3_str_of(service)};
        struct service_case c = {.service = who.name};
        struct acc_policies policies = {.resource = NULL};
        struct acc_request request = {.principal = &who, .action = S3_STR("s3:PutObject"), .lookup = service_lookup, .context = &c};
        struct s3_str name = s3_str_of(bucket->name);

        if (key.len > ENG_KEY_MAX || source.len > ENG_BUCKET_NAME_MAX ||
            gw_bucket_policy_find(bucket->store, bucket->id, name, &policies.resource) != 0)
                return false;
        gw_account_of_bucket(loop, source, c.source);
        gw_bucket_account(bucket, c.target);
        policies.resource_account = s3_str_of(c.target);
        c.source_arn = (struct s3_str){source_arn, service_arn(source_arn, source, (struct s3_str){NULL, 0})};
        c.now = (struct s3_str){now, s3_date_format_iso(lp_wall_ms(), now)};
        request.resource = (struct s3_str){resource, service_arn(resource, name, key)};
        return acc_decide(&policies, &request).allowed;
}

size_t gw_rights_requester(struct gw_request *req, char *out, size_t size)
{
        struct gw_ask ask = {.loop = req->loop, .access_key = req->access_key, .req = req};
        struct s3_str name = {NULL, 0};
        struct gw_who who;

        if (req->access_key == NULL)
                return 0;
        if (gw_who_find(&ask, gw_credentials_find(req->loop, req->access_key) != NULL, &who))
                name = who.principal.kind == ACC_ROOT ? who.principal.canonical_id : who.principal.arn;
        if (name.len > size)
                name.len = 0;
        if (name.len > 0)
                memcpy(out, name.data, name.len);
        gw_who_put(&who);
        return name.len;
}
