/*
 * bucket_owner.c - see bucket_owner.h.
 */
#include "gateway/people/bucket_owner.h"

#include <assert.h>
#include <string.h>

#define OWNER_VERSION 1u
#define OWNER_BATCH   128u /* buckets asked of the engine at a time */

void gw_bucket_account(const struct eng_bucket *bucket, char account[GW_ACCOUNT_ID_LEN + 1])
{
        strcpy(account, bucket->attrs_len == 0 ? GW_FIRST_ACCOUNT : "");
        if (bucket->attrs_len != GW_BUCKET_ATTRS_BYTES || bucket->attrs[0] != OWNER_VERSION)
                return;
        for (unsigned i = 0; i < GW_ACCOUNT_ID_LEN; i++)
                if (bucket->attrs[1 + i] < '0' || bucket->attrs[1 + i] > '9')
                        return;
        memcpy(account, bucket->attrs + 1, GW_ACCOUNT_ID_LEN);
        account[GW_ACCOUNT_ID_LEN] = '\0';
}

size_t gw_bucket_attrs(const char *account, uint8_t out[GW_BUCKET_ATTRS_BYTES])
{
        if (strcmp(account, GW_FIRST_ACCOUNT) == 0)
                return 0;
        assert(strlen(account) == GW_ACCOUNT_ID_LEN);
        out[0] = OWNER_VERSION;
        memcpy(out + 1, account, GW_ACCOUNT_ID_LEN);
        return GW_BUCKET_ATTRS_BYTES;
}

bool gw_account_has_bucket(struct gw_gateway *gw, const char *account)
{
        const struct eng_bucket *batch[OWNER_BATCH];
        char from[ENG_BUCKET_NAME_MAX + 2] = "", owner[GW_ACCOUNT_ID_LEN + 1];
        unsigned count;

        do {
                count = gw_bucket_list(gw, (struct eng_str){from, strlen(from)}, OWNER_BATCH, batch);
                for (unsigned i = 0; i < count; i++) {
                        gw_bucket_account(batch[i], owner);
                        if (strcmp(owner, account) == 0)
                                return true;
                }
                if (count > 0)
                        strcat(strcpy(from, batch[count - 1]->name), "!"); /* the next name there can be */
        } while (count == OWNER_BATCH);
        return false;
}
