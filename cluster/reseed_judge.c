/*
 * reseed_judge.c - whether the etcd that a node finds is the one that it knows: a function over values, asked before
 * the node joins. Rule R2's way out (docs/design/reseed.md).
 */
#include "cluster_reseed.h"

#include <string.h>

/* A reseed has asked, and the node has not seen it end. */
static bool is_fenced(const struct cl_reseed_self *self)
{
        return self->fence.number > self->seen.generation.number;
}

static uint64_t highest_known(const struct cl_reseed_self *self)
{
        return is_fenced(self) ? self->fence.number : self->seen.generation.number;
}

static struct cl_generation generation_of(const struct cl_format *format)
{
        return (struct cl_generation){format->generation, format->random};
}

static bool same_generation(const struct cl_generation *a, const struct cl_generation *b)
{
        return a->number == b->number && a->random == b->random;
}

/* No pool's epoch counts on any of this node's slots: whatever they hold is stale. */
static bool counts_on_none(const struct cl_reseed_self *self, const struct cl_view *view)
{
        unsigned i, slot;

        for (i = 0; i < view->pool_count; i++) {
                const struct eng_epoch_info *epoch = &view->pools[i].epoch;

                for (slot = 0; slot < epoch->slots; slot++)
                        if (((epoch->in | epoch->joining) >> slot & 1) && epoch->slot[slot].site.node == self->node)
                                return false;
        }
        return true;
}

static bool has_pools(const struct cl_view *view)
{
        unsigned i;

        for (i = 0; i < view->pool_count; i++)
                if (view->pools[i].has_config)
                        return true;
        return false;
}

/* All that it has drives of. */
static bool is_of_pools(const struct cl_reseed_self *self, const struct cl_view *view)
{
        unsigned i;

        for (i = 0; i < self->store_count; i++)
                if (cl_view_pool_of_store(view, self->stores[i]) == NULL)
                        return false;
        return self->store_count > 0;
}

static bool may_take(const struct cl_reseed_self *self, const struct cl_view *view)
{
        struct cl_generation found = generation_of(&view->format);

        if (!view->has_format || !is_of_pools(self, view))
                return false;
        if (is_fenced(self) && same_generation(&found, &self->fence))
                return true;
        return self->seen.generation.number != 0 && found.number > highest_known(self) && counts_on_none(self, view);
}

/* NULL: it is the node's own. */
static const char *what_differs(const struct cl_reseed_self *self, uint64_t etcd_id, const struct cl_view *view)
{
        struct cl_generation found = generation_of(&view->format);
        enum cl_verdict verdict = cl_seen_judge(&self->seen, etcd_id, view->revision);

        if (verdict != CL_SEEN_FINE)
                return cl_verdict_text(verdict);
        if (self->store_count > 0 && !has_pools(view))
                return "etcd has no pool, and the folders of this node have drives of one: it was made anew";
        if (!view->has_format)
                return self->seen.generation.number != 0 ? cl_verdict_text(CL_SEEN_OTHER_GENERATION) : NULL;
        if (cl_generation_judge(&self->seen, &found) != CL_SEEN_FINE)
                return cl_verdict_text(CL_SEEN_OTHER_GENERATION);
        return is_fenced(self) ? "a reseed has asked what the drives of this node hold, and has not ended" : NULL;
}

enum cl_reseed_says cl_reseed_judge(const struct cl_reseed_self *self, uint64_t etcd_id, const struct cl_view *view, struct cl_format *now)
{
        bool own = what_differs(self, etcd_id, view) == NULL;

        *now = view->format;
        if (own && !(view->has_request && self->store_count > 0))
                return CL_RESEED_OWN;
        if (!own && may_take(self, view))
                return CL_RESEED_TAKE;
        if (view->has_request && self->store_count > 0 && view->request.generation > self->seen.generation.number) {
                *now = view->request;
                return CL_RESEED_FENCE;
        }
        return CL_RESEED_WAIT;
}

const char *cl_reseed_text(const struct cl_reseed_self *self, uint64_t etcd_id, const struct cl_view *view)
{
        const char *text = what_differs(self, etcd_id, view);

        if (view->has_request)
                return "etcd is being written anew from what the nodes hold";
        return text != NULL ? text : "";
}

bool cl_report_stands(const struct cl_report_put *put, uint16_t node, const char *value, size_t len, const struct cl_view *view, uint64_t now)
{
        const bool seen = (view->reported[node / 8] >> node % 8 & 1) != 0;

        return len == put->len && memcmp(value, put->value, len) == 0 && view->request_revision == put->request_revision && (seen || now - put->at < CL_REPORT_SEEN_NS);
}

void cl_report_was_put(struct cl_report_put *put, const char *value, size_t len, const struct cl_view *view, uint64_t now)
{
        put->len = len;
        put->request_revision = view->request_revision;
        put->at = now;
        memcpy(put->value, value, len);
}
