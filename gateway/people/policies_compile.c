/*
 * policies_compile.c - the policies of an entity, compiled: a user's, group's or role's own, and a managed
 * policy's version in force. On any loop, when the first request needs them (people.c keeps them).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/people/people_queue.h"

void gw_policies_free(struct gw_policies *policies)
{
        if (policies == NULL)
                return;
        for (unsigned i = 0; i < policies->count; i++)
                acc_policy_free(policies->list[i]);
        free(policies);
}

static enum acc_kind compile_kind(unsigned kind)
{
        switch (kind) {
        case GW_USER:
                return ACC_INLINE_USER;
        case GW_GROUP:
                return ACC_INLINE_GROUP;
        case GW_ROLE:
                return ACC_INLINE_ROLE;
        default:
                return ACC_MANAGED;
        }
}

/* Of a managed policy, one version counts. */
static bool document_counts(const struct gw_entity *entity, const struct gw_pair *document)
{
        return entity->who.kind != GW_POLICY || strcmp(document->name, entity->version) == 0;
}

struct gw_policies *gw_policies_compile(const struct gw_entity *entity)
{
        bool managed = entity->who.kind == GW_POLICY;
        const struct gw_pairs *set = &entity->sets[managed ? GW_SET_VERSIONS : GW_SET_INLINE];
        struct gw_policies *made = calloc(1, sizeof(*made) + set->count * sizeof(made->list[0]));
        struct acc_error error;
        int rv = 0;

        if (made == NULL)
                return NULL;
        for (unsigned i = 0; i < set->count && rv != -ENOMEM; i++) {
                if (!document_counts(entity, &set->list[i]))
                        continue;
                rv = acc_policy_compile(s3_str_of(set->list[i].text), compile_kind(entity->who.kind),
                                        (struct s3_str){NULL, 0}, &made->list[made->count], &error);
                made->count += rv == 0;
                made->broken |= rv != 0;
        }
        made->broken |= managed && made->count == 0; /* the version in force is missing */
        if (rv != -ENOMEM)
                return made;
        gw_policies_free(made);
        return NULL;
}
