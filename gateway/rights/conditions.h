/*
 * conditions.h - what a request knows of the keys of conditions (private to the module).
 */
#ifndef GATEWAY_RIGHTS_CONDITIONS_H
#define GATEWAY_RIGHTS_CONDITIONS_H

#include <arpa/inet.h>

#include "gateway/rights/who.h"

#define GW_CONDITION_TEXT 8192u /* a longer x-amz-tagging counts as unknown */

/* Values stay where they are until the decision is made, so each key has room of its own. */
struct gw_conditions {
        const struct gw_ask *ask;
        const struct gw_who *who;
        bool tags_read, tags_known, existing_read, existing_known;
        struct s3_tags tags, existing; /* what the request gives the object; what the object that was found has */
        struct s3_str tag_keys[S3_TAGS_MAX], copy_source[2], principal_tag[GW_ENTITY_SET_MAX];
        struct s3_str session_tag[GW_SESSION_TAGS];
        struct s3_str value[ACC_KEY_COUNT];
        acc_lookup *more; /* of a request of STS: keys that it has beside others; NULL: none */
        void *more_context;
        char issued[S3_DATE_ISO_SIZE], now[S3_DATE_ISO_SIZE], epoch[24], age[24], address[INET6_ADDRSTRLEN];
        char owner[GW_ACCOUNT_ID_LEN + 1];
        char tag_text[GW_CONDITION_TEXT], copy_text[GW_CONDITION_TEXT];
};

void gw_conditions_init(struct gw_conditions *conditions, const struct gw_ask *ask, const struct gw_who *who);
acc_lookup gw_conditions_lookup;

#endif
