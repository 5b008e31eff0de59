/*
 * new_bucket_tags.c - see new_bucket_tags.h.
 */
#include "gateway/s3/new_bucket_tags.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/http/users.h"
#include "gateway/rights/owners.h"
#include "gateway/rights/trust.h"

/* In the request's arena: values stay until the decision is made. */
struct new_tags_keys {
        const struct s3_tags *tags;
        struct s3_str value[S3_TAGS_MAX], name[S3_TAGS_MAX];
};

/* A tag that the request has not is absent, not unknown. */
static bool new_tags_lookup(void *context, const struct acc_key *key, struct acc_values *out)
{
        struct new_tags_keys *keys = context;
        const struct s3_tags *tags = keys->tags;

        if (key->id != ACC_KEY_AWS_REQUEST_TAG && key->id != ACC_KEY_AWS_TAG_KEYS)
                return false;
        *out = (struct acc_values){NULL, 0, ACC_KNOWN};
        for (unsigned i = 0; i < tags->count; i++) {
                keys->name[i] = tags->tag[i].key;
                if (key->id == ACC_KEY_AWS_TAG_KEYS)
                        *out = (struct acc_values){keys->name, i + 1, ACC_KNOWN};
                else if (s3_str_eq_nocase(tags->tag[i].key, key->tag)) {
                        keys->value[i] = tags->tag[i].value;
                        *out = (struct acc_values){&keys->value[i], 1, ACC_KNOWN};
                }
        }
        return true;
}

static bool new_tags_allow(struct gw_ask *ask, const struct gw_trust *trust, const char *permission, char *why)
{
        ask->permission = permission;
        if (gw_credentials_find(ask->loop, ask->access_key) != NULL) /* root of the settings is the gate's to answer */
                return gw_permit(ask, why);
        return gw_rights_trust(ask, trust, why);
}

bool gw_new_bucket_tags_permit(struct gw_request *req)
{
        const struct s3_tags *tags = &req->body->doc->tags;
        struct gw_ask ask = {.loop = req->loop, .access_key = req->access_key, .req = req};
        struct new_tags_keys *keys;
        struct gw_trust trust;
        char account[GW_ACCOUNT_ID_LEN + 1], why[GW_WHY_MAX] = "";
        const char *arn;

        if (tags->count == 0)
                return true;
        keys = gw_alloc(req, sizeof(*keys));
        arn = gw_printf(req, "arn:aws:s3:::%.*s", (int)req->bucket.len, req->bucket.data);
        if (keys == NULL || arn == NULL) {
                gw_reply_no_memory(req);
                return false;
        }
        keys->tags = tags;
        ask.resource = s3_str_of(arn);
        trust = (struct gw_trust){.more = new_tags_lookup, .more_context = keys};
        if (req->access_key != NULL && gw_account_of(&ask, account)) {
                trust.account = s3_str_of(account);
                if (new_tags_allow(&ask, &trust, "s3:CreateBucket", why) &&
                    new_tags_allow(&ask, &trust, "s3:TagResource", why))
                        return true;
        }
        gw_reply_error(req, S3_ERR_ACCESS_DENIED, why[0] != '\0' ? gw_copy(req, s3_str_of(why)) : NULL);
        return false;
}

int gw_new_bucket_tags_text(struct gw_request *req, struct eng_str *out)
{
        const struct s3_tags *tags = &req->body->doc->tags;
        struct s3_xml xml;
        char *text;
        size_t len;
        int rv;

        *out = (struct eng_str){"", 0};
        if (tags->count == 0)
                return 0;
        s3_xml_init(&xml, ENG_TEXT_MAX);
        s3_tags_write(&xml, tags); /* as PutBucketTagging keeps them */
        rv = s3_xml_take(&xml, &text, &len);
        if (rv != 0)
                return rv;
        *out = (struct eng_str){gw_copy(req, (struct s3_str){text, len}), len};
        free(text);
        return out->data != NULL ? 0 : -ENOMEM;
}
