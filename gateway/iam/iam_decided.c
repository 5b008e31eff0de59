/*
 * iam_decided.c - what a decision about a request of IAM looked at: whose path, tags and boundary were compared. Each
 * change that follows names all of it, and is made only if it is still so (D26 of docs/design/people.md); else whoever
 * asks is asked for anew (iam_changed()). On the request's loop.
 *
 * Other loops change entities while a decision is made, so two looks at one name can differ. The first look is the
 * one that counts: what is of that generation when the change is made was so at each look between.
 */
#include "gateway/iam/call.h"

#include <assert.h>
#include <string.h>

void iam_decision_begin(struct iam_call *call)
{
        call->seen_count = 0;
}

static void decision_saw(struct iam_call *call, const struct gw_entity_name *who, uint64_t generation)
{
        for (unsigned i = 0; i < call->seen_count; i++)
                if (gw_entity_same(&call->seen[i].who, who))
                        return;
        assert(call->seen_count < IAM_SEEN_MAX);
        call->seen[call->seen_count++] = (struct gw_people_seen){.who = *who, .generation = generation};
}

int iam_look(struct iam_call *call, const struct gw_entity_name *who, const struct gw_entity **out)
{
        uint64_t generation = GW_PEOPLE_UNSEEN;
        int rv = gw_people_find(call->req->loop, who, out, &generation);

        decision_saw(call, who, generation);
        return rv;
}

/* Somebody of another path has the name, but not the ARN: that is seen all the same, since the ARN may be his next. */
int iam_look_arn(struct iam_call *call, const char *arn, const struct gw_entity **out)
{
        const struct gw_entity *named;
        struct gw_entity_name who;

        if (gw_entity_of_arn(arn, &who) == 0)
                iam_look(call, &who, &named);
        return gw_people_find_arn(call->req->loop, arn, out, NULL);
}

struct gw_people_terms iam_decided(const struct iam_call *call)
{
        return (struct gw_people_terms){.count = call->seen_count, .list = call->seen};
}
