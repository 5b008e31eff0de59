/*
 * owners.c - see owners.h. On any loop; nothing here waits.
 */
#include "gateway/rights/owners.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/http/users.h"
#include "gateway/rights/who.h"

bool gw_account_of(const struct gw_ask *ask, char account[GW_ACCOUNT_ID_LEN + 1])
{
        struct gw_who who;
        bool root = ask->access_key != NULL && gw_credentials_find(ask->loop, ask->access_key) != NULL;
        bool found;

        *account = '\0';
        if (root) {
                strcpy(account, GW_FIRST_ACCOUNT);
                return true;
        }
        if (ask->access_key == NULL)
                return false;
        found = gw_who_find(ask, root, &who) && who.principal.account.len == GW_ACCOUNT_ID_LEN;
        if (found) {
                memcpy(account, who.principal.account.data, GW_ACCOUNT_ID_LEN);
                account[GW_ACCOUNT_ID_LEN] = '\0';
        }
        gw_who_put(&who);
        return found;
}

void gw_account_of_bucket(struct gw_loop *loop, struct s3_str name, char account[GW_ACCOUNT_ID_LEN + 1])
{
        const struct eng_bucket *bucket;

        *account = '\0';
        if (name.len > 0 && gw_bucket_get(loop->gw, name, &bucket, NULL) == 0)
                gw_bucket_account(bucket, account);
}

bool gw_same_owner(struct gw_loop *loop, const struct eng_bucket *bucket, struct s3_str name)
{
        char one[GW_ACCOUNT_ID_LEN + 1], other[GW_ACCOUNT_ID_LEN + 1];

        gw_bucket_account(bucket, one);
        gw_account_of_bucket(loop, name, other);
        return *one != '\0' && strcmp(one, other) == 0;
}

struct s3_str gw_canonical_id_of_bucket(struct gw_loop *loop, struct s3_str name)
{
        char account[GW_ACCOUNT_ID_LEN + 1];

        gw_account_of_bucket(loop, name, account);
        return gw_canonical_id(loop, account);
}

static const struct gw_entity *owner_entity(struct gw_loop *loop, const char *account)
{
        struct gw_entity_name name = {.kind = GW_ACCOUNT};
        const struct gw_entity *found;

        if (strlen(account) != GW_ACCOUNT_ID_LEN)
                return NULL;
        strcpy(name.name, account);
        return gw_people_find(loop, &name, &found, NULL) == 0 ? found : NULL;
}

struct s3_str gw_canonical_id(struct gw_loop *loop, const char *account)
{
        const struct gw_entity *found;

        if (strcmp(account, GW_FIRST_ACCOUNT) == 0)
                return s3_str_of(loop->gw->owner_id);
        found = owner_entity(loop, account);
        return found != NULL ? s3_str_of(found->id) : S3_STR("");
}

const char *gw_account_title(struct gw_loop *loop, const char *account)
{
        const struct gw_entity *found;

        if (strcmp(account, GW_FIRST_ACCOUNT) == 0)
                return "root";
        found = owner_entity(loop, account);
        return found != NULL ? found->title : NULL;
}

/* ---- the ACL of a bucket --------------------------------------------------------------------- */

struct bucket_acl_form {
        bool readable;
        struct s3_acl acl;
};

static void *bucket_acl_make(struct eng_str bytes, void *arg)
{
        struct bucket_acl_form *made = calloc(1, sizeof(*made));

        if (made != NULL)
                made->readable = s3_acl_decode(bytes.data, bytes.len, &made->acl) == 0;
        return made;
}

int gw_bucket_acl_find(struct eng_store *store, uint64_t bucket, const struct s3_acl **out)
{
        const struct bucket_acl_form *made;
        struct eng_text *text;
        int rv = eng_text_get(store, bucket, GW_BUCKET_ACL, &text);

        if (rv != 0)
                return rv;
        made = eng_text_form(text, bucket_acl_make, NULL, free);
        if (made == NULL)
                return -ENOMEM;
        *out = &made->acl;
        return made->readable ? 0 : -EBADMSG;
}
