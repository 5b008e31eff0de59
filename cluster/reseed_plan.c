/*
 * reseed_plan.c - what etcd is to have, from all that nodes have reported: a function over values
 * (docs/design/reseed.md has the reasons, and what breaks without each check).
 *
 *   stores -> pools, by the terms of their drives
 *   of each: newest EPOCH record -> forks? -> slots that count: reported, or named -> epoch
 *   generation, boots
 */
#include "cluster_reseed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct planning {
        const struct cl_reseed_found *found;
        const struct cl_reseed_wish *wish;
        struct cl_reseed_plan *out;
        /* of the pool that is planned now */
        struct cl_reseed_pool *pool;
        char of[16]; /* "pool 2: ", where there are several */
        const struct cl_report *newest; /* that has the newest EPOCH record */
        struct eng_epoch_info epoch;
        uint64_t missing; /* slots that count, and are neither reported nor named */
};

static void plan_line(struct cl_reseed_plan *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void plan_line(struct cl_reseed_plan *out, const char *format, ...)
{
        va_list args;

        if (out->line_count == CL_RESEED_LINES)
                return;
        va_start(args, format);
        vsnprintf(out->lines[out->line_count++], CL_TEXT_MAX, format, args);
        va_end(args);
}

static int plan_end(struct cl_reseed_plan *out, int rv, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int plan_end(struct cl_reseed_plan *out, int rv, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vsnprintf(out->text, sizeof(out->text), format, args);
        va_end(args);
        out->rv = rv;
        return rv;
}

static bool wish_names(const struct cl_reseed_wish *wish, uint16_t node)
{
        unsigned i;

        for (i = 0; i < wish->node_count; i++)
                if (wish->nodes[i] == node)
                        return true;
        return false;
}

static bool held_counts(const struct cl_held *held)
{
        return held->fault[0] == '\0' && held->epoch > 0;
}

/* ---- the newest epoch ------------------------------------------------------------------------ */

static const struct cl_held *newest_held(const struct cl_report *report, const uint8_t store[CL_ID])
{
        const struct cl_held *best = NULL;
        unsigned i;

        for (i = 0; i < report->held_count; i++)
                if (held_counts(&report->held[i]) && memcmp(report->held[i].store, store, CL_ID) == 0 && (best == NULL || report->held[i].epoch > best->epoch))
                        best = &report->held[i];
        return best;
}

static const struct cl_report_epoch *plan_newest(const struct planning *p)
{
        return cl_report_epoch_of(p->newest, p->pool->store);
}

static int find_newest(struct planning *p)
{
        const struct cl_held *best = NULL;
        unsigned i;

        for (i = 0; i < p->found->count; i++) {
                const struct cl_report *report = &p->found->reports[i];
                const struct cl_held *held = wish_names(p->wish, report->node) ? NULL : newest_held(report, p->pool->store);
                const struct cl_report_epoch *epoch = held != NULL ? cl_report_epoch_of(report, p->pool->store) : NULL;

                if (epoch == NULL || epoch->epoch_len == 0 || (best != NULL && held->epoch <= best->epoch))
                        continue;
                if (eng_epoch_read(epoch->epoch, epoch->epoch_len, &p->epoch) != 0 || p->epoch.number != held->epoch || memcmp(p->epoch.id, held->epoch_id, CL_ID) != 0)
                        return plan_end(p->out, -EINVAL, "%snode %u contradicts itself about the newest epoch of its drives", p->of, (unsigned)report->node);
                best = held;
                p->newest = report;
        }
        if (best == NULL)
                return plan_end(p->out, -EAGAIN, "%sno node has reported a drive of the pool yet", p->of);
        eng_epoch_read(plan_newest(p)->epoch, plan_newest(p)->epoch_len, &p->epoch);
        p->pool->newest = p->epoch.number;
        if ((p->epoch.features & ENG_FEATURE_SITES) == 0) /* another node may know more yet */
                return plan_end(p->out, -EAGAIN, "%sthe newest epoch reported has no nodes: unless others are to report, a store of one machine was adopted and never led: stop its node, "
                                                 "and adopt it again (millrace admin cluster adopt)", p->of);
        return 0;
}

/* What the drive that has the newest epoch knows of an older one. NULL: nothing. */
static const uint8_t *past_id(const struct planning *p, uint64_t number)
{
        const struct cl_report_epoch *newest = plan_newest(p);
        unsigned i;

        if (number == p->epoch.number)
                return p->epoch.id;
        for (i = 0; i < newest->past_count; i++)
                if (newest->past[i].number == number)
                        return newest->past[i].id;
        return NULL;
}

static bool wish_has_slot(const struct planning *p, unsigned slot)
{
        return (p->wish->slots[p->pool->number] >> slot & 1) != 0;
}

static bool is_in_epoch(const struct planning *p, const struct cl_held *held)
{
        return held->slot < p->epoch.slots && memcmp(p->epoch.slot[held->slot].drive_id, held->drive, CL_ID) == 0 && memcmp(held->store, p->pool->store, CL_ID) == 0;
}

/* Two histories: some node went on after another etcd had been put in place. Nobody but the operator knows which counts. */
static int find_forks(struct planning *p)
{
        unsigned i, j;

        for (i = 0; i < p->found->count; i++)
                for (j = 0; j < p->found->reports[i].held_count; j++) {
                        const struct cl_report *report = &p->found->reports[i];
                        const struct cl_held *held = &report->held[j];
                        const uint8_t *id = held_counts(held) && is_in_epoch(p, held) ? past_id(p, held->epoch) : NULL;

                        if (id != NULL && memcmp(id, held->epoch_id, CL_ID) != 0 && !wish_names(p->wish, report->node) && !wish_has_slot(p, held->slot))
                                return plan_end(p->out, -EINVAL,
                                                "%sepoch %" PRIu64 " is not the same on node %u, slot %u, and on node %u: the pool has two histories; name the nodes of one of them, "
                                                "which is given up",
                                                p->of, held->epoch, (unsigned)report->node, held->slot, (unsigned)p->newest->node);
                }
        return 0;
}

/* ---- slots ----------------------------------------------------------------------------------- */

static const struct cl_report *plan_report(const struct planning *p, uint16_t node)
{
        unsigned i;

        for (i = 0; i < p->found->count; i++)
                if (p->found->reports[i].node == node)
                        return &p->found->reports[i];
        return NULL;
}

static const struct cl_held *plan_held(const struct planning *p, const struct cl_report *report, unsigned slot)
{
        unsigned i;

        for (i = 0; report != NULL && i < report->held_count; i++)
                if (report->held[i].slot == slot && is_in_epoch(p, &report->held[i]))
                        return &report->held[i];
        return NULL;
}

/* By this request: of a report from before it the drive may have gone on. */
static bool is_fenced_now(const struct planning *p, const struct cl_report *report, const struct cl_held *held)
{
        const struct cl_format *request = &p->found->request;

        return p->found->has_request && held->fenced && report->fence.number == request->generation && report->fence.random == request->random;
}

static void judge_slot(struct planning *p, unsigned slot)
{
        uint16_t node = p->epoch.slot[slot].site.node;
        const struct cl_report *report = plan_report(p, node);
        const struct cl_held *held = plan_held(p, report, slot);
        bool counts = ((p->epoch.in | p->epoch.joining) >> slot & 1) != 0, gone = (p->epoch.gone >> slot & 1) != 0;
        bool named = wish_names(p->wish, node) || wish_has_slot(p, slot);
        const char *state = (p->epoch.in >> slot & 1) ? "in" : counts ? "joining" : gone ? "removed" : "out";

        if (named && !gone) {
                p->pool->given_up |= 1ull << slot;
                plan_line(p->out, "%sslot %2u, node %u, %s: given up", p->of, slot, (unsigned)node, state);
        } else if (held == NULL || !held_counts(held)) {
                p->missing |= counts ? 1ull << slot : 0;
                plan_line(p->out, "%sslot %2u, node %u, %s: %.160s", p->of, slot, (unsigned)node, state, report == NULL ? "the node has not reported" : held == NULL ? "the node has no such drive" : *held->fault != '\0' ? held->fault : "it was in no epoch yet");
        } else {
                if (counts && !is_fenced_now(p, report, held))
                        p->out->fenced = false;
                plan_line(p->out, "%sslot %2u, node %u, %s: epoch %" PRIu64, p->of, slot, (unsigned)node, state, held->epoch);
        }
}

static void plan_list_slots(uint64_t slots, char *out, size_t size)
{
        unsigned slot;

        *out = '\0';
        for (slot = 0; slot < ENG_DRIVES_MAX; slot++)
                if (slots >> slot & 1)
                        snprintf(out + strlen(out), size - strlen(out), "%s%u", *out != '\0' ? ", " : "", slot);
}

/* A name that means nothing is a mistake of who gives something up. */
static int check_wished_slots(struct planning *p)
{
        unsigned slot;

        for (slot = p->epoch.slots; slot < ENG_DRIVES_MAX; slot++)
                if (wish_has_slot(p, slot))
                        return plan_end(p->out, -EINVAL, "%sthe pool has no slot %u", p->of, slot);
        return 0;
}

/* Some pool has a slot of it; or it has reported drives, which are another cluster's then. */
static bool is_known_node(const struct planning *p, uint16_t node)
{
        const struct cl_reseed_plan *out = p->out;
        unsigned i, slot;

        if (plan_report(p, node) != NULL && plan_report(p, node)->held_count > 0)
                return true;
        for (i = 0; i < out->pool_count; i++)
                for (slot = 0; slot < out->pools[i].epoch.slots; slot++)
                        if (out->pools[i].epoch.slot[slot].site.node == node)
                                return true;
        return false;
}

/* When all pools' epochs are known. */
static int check_wish(struct planning *p)
{
        unsigned i;

        for (i = 0; i < p->wish->node_count; i++)
                if (!is_known_node(p, p->wish->nodes[i]))
                        return plan_end(p->out, -EINVAL, "node %u, which is to be given up, has no drive in the pool", (unsigned)p->wish->nodes[i]);
        for (i = CL_POOL + p->out->pool_count; i <= CL_POOLS_MAX; i++)
                if (p->wish->slots[i] != 0)
                        return plan_end(p->out, -EINVAL, "the cluster has no pool %u", i);
        return 0;
}

static int judge_slots(struct planning *p)
{
        char list[160];
        unsigned slot;
        int rv = check_wished_slots(p);

        if (rv != 0)
                return rv;
        p->missing = 0;
        for (slot = 0; slot < p->epoch.slots; slot++)
                judge_slot(p, slot);
        if (p->missing == 0)
                return 0;
        plan_list_slots(p->missing, list, sizeof(list));
        return plan_end(p->out, -EAGAIN, "%snothing is known of slots that may have the newest changes: %s (start their nodes, or give them up by name)", p->of, list);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void raise_number(uint64_t *number, uint64_t to)
{
        if (to > *number)
                *number = to;
}

static void plan_generation(struct planning *p)
{
        uint64_t highest = p->found->has_format ? p->found->format.generation : 0, of_others;
        unsigned i, j;

        of_others = highest;
        for (i = 0; i < p->found->count; i++) {
                const struct cl_report *report = &p->found->reports[i];
                bool asked = p->found->has_request && report->fence.number == p->found->request.generation && report->fence.random == p->found->request.random;

                raise_number(&of_others, report->seen.generation.number);
                raise_number(asked ? &highest : &of_others, report->fence.number);
                for (j = 0; j < report->held_count; j++)
                        raise_number(report->held[j].fenced && asked ? &highest : &of_others, report->held[j].term.generation);
        }
        p->out->outdated = p->found->has_request && of_others >= p->found->request.generation;
        raise_number(&highest, of_others);
        raise_number(&highest, p->found->has_request ? p->found->request.generation : 0);
        p->out->next.number = highest + 1;
        lp_random(&p->out->next.random, sizeof(p->out->next.random));
}

/* Above what etcd has. What this request has put there stays, however often it is taken up. */
static uint64_t above_etcd(const struct planning *p, const struct cl_boot *boot)
{
        bool put = p->found->has_request && memcmp(boot->claim, p->out->claim, CL_ID) == 0;

        return boot->boot == 0 || put ? boot->boot : boot->boot + CL_RESEED_BOOTS;
}

static void plan_boots(struct planning *p)
{
        uint64_t *boots = p->out->boots;
        bool is_node[CL_NODE_LAST + 1] = {false};
        unsigned i, j;

        memset(boots, 0, sizeof(p->out->boots));
        memcpy(p->out->claim, &p->found->request.generation, 8);
        memcpy(p->out->claim + 8, &p->found->request.random, 8);

        for (i = 0; i < p->out->pool_count; i++)
                for (j = 0; j < p->out->pools[i].epoch.slots; j++)
                        is_node[p->out->pools[i].epoch.slot[j].site.node & CL_NODE_LAST] = true;
        for (i = 0; i < p->found->count; i++) {
                const struct cl_report *report = &p->found->reports[i];

                is_node[report->node] = true;
                raise_number(&boots[report->node], report->boot);
                for (j = 0; j < report->held_count; j++) {
                        const struct eng_term *term = &report->held[j].term;

                        if (!eng_term_is_none(term))
                                raise_number(&boots[term->node & CL_NODE_LAST], term->boot);
                }
        }
        for (i = 1; i <= CL_NODE_LAST; i++) {
                boots[i] = is_node[i] || boots[i] != 0 ? boots[i] + CL_RESEED_BOOTS : 0;
                raise_number(&boots[i], above_etcd(p, &p->found->boots[i]));
        }
}

static int plan_numbers(struct planning *p)
{
        unsigned i;

        plan_boots(p);
        for (i = 1; i <= CL_NODE_LAST; i++)
                if (p->out->boots[i] >= ENG_BOOT_MAX)
                        return plan_end(p->out, -EINVAL, "node %u was started too often: no boot number is left above those that are known", i);
        return 0;
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* Of the report that has seen the newest revision of the newest generation. */
static void plan_switches(struct planning *p)
{
        const struct cl_report *best = NULL;
        unsigned i;

        for (i = 0; i < p->found->count; i++) {
                const struct cl_report *report = &p->found->reports[i];

                if (report->switches[0] != '\0' && (best == NULL || report->seen.generation.number > best->seen.generation.number ||
                                                    (report->seen.generation.number == best->seen.generation.number && report->seen.revision > best->seen.revision)))
                        best = report;
        }
        if (best != NULL)
                memcpy(p->out->switches, best->switches, sizeof(p->out->switches));
}

/* Drives may refuse another cluster id; a format that is there yet may be of an older time. */
static void plan_cluster_id(struct planning *p)
{
        struct eng_term newest = {0};
        unsigned i, j;

        if (p->found->has_format) {
                memcpy(p->out->cluster_id, p->found->format.cluster_id, CL_ID);
                p->out->has_cluster_id = true;
        }
        for (i = 0; i < p->found->count; i++)
                for (j = 0; j < p->found->reports[i].held_count; j++) {
                        const struct cl_report *report = &p->found->reports[i];

                        if (!report->has_cluster_id || eng_term_compare(&report->held[j].term, &newest) <= 0)
                                continue;
                        newest = report->held[j].term;
                        memcpy(p->out->cluster_id, report->cluster_id, CL_ID);
                        p->out->has_cluster_id = true;
                }
}

static int plan_epoch(struct planning *p)
{
        struct cl_reseed_pool *pool = p->pool;
        const struct cl_report_epoch *newest = plan_newest(p);
        struct eng_error error = {""};
        uint8_t *body = calloc(1, ENG_EPOCH_BODY_MAX);
        int rv = body == NULL ? -ENOMEM : eng_epoch_reseed(newest->epoch, newest->epoch_len, pool->given_up, body, &pool->config.epoch_len, &error);

        if (rv == 0) {
                memcpy(pool->config.epoch, body, pool->config.epoch_len);
                memcpy(pool->config.store_id, pool->store, CL_ID);
                eng_epoch_read(body, pool->config.epoch_len, &pool->epoch);
                pool->config.number = pool->epoch.number;
        }
        free(body);
        return rv == 0 ? 0 : plan_end(p->out, rv, "%s%.230s", p->of, error.text);
}

/* ---- which pools ----------------------------------------------------------------------------- */

static struct cl_reseed_pool *pool_of_store(struct cl_reseed_plan *out, const uint8_t store[CL_ID])
{
        unsigned i;

        for (i = 0; i < out->pool_count; i++)
                if (memcmp(out->pools[i].store, store, CL_ID) == 0)
                        return &out->pools[i];
        return NULL;
}

/* Stores of drives that count, with the numbers that their terms name; 0: none does. */
static int find_stores(struct planning *p)
{
        struct cl_reseed_plan *out = p->out;
        unsigned i, j;

        for (i = 0; i < p->found->count; i++)
                for (j = 0; j < p->found->reports[i].held_count; j++) {
                        const struct cl_report *report = &p->found->reports[i];
                        const struct cl_held *held = &report->held[j];
                        const unsigned number = cl_party_pool(held->term.node);
                        struct cl_reseed_pool *pool = pool_of_store(out, held->store);

                        if (!held_counts(held) || wish_names(p->wish, report->node))
                                continue;
                        if (pool == NULL && out->pool_count == CL_POOLS_MAX)
                                return plan_end(out, -EINVAL, "drives of more than %u pools were reported", CL_POOLS_MAX);
                        if (pool == NULL) {
                                pool = &out->pools[out->pool_count++];
                                memcpy(pool->store, held->store, CL_ID);
                        }
                        if (number != 0 && pool->number != 0 && pool->number != number)
                                return plan_end(out, -EINVAL, "node %u, slot %u: drives of one pool were led as pool %u and as pool %u", (unsigned)report->node, held->slot, pool->number, number);
                        pool->number = number != 0 ? number : pool->number;
                }
        return 0;
}

static int order_of_pools(const void *a, const void *b)
{
        const struct cl_reseed_pool *x = a, *y = b;

        return (x->number > y->number) - (x->number < y->number);
}

/* One pool of which no drive says the number gets the one that is left: of several nobody could say which is which. */
static int number_the_rest(struct cl_reseed_plan *out)
{
        unsigned i, j, number = CL_POOL, without = 0;

        for (i = 0; i < out->pool_count; i++)
                without += out->pools[i].number == 0;
        if (without > 1)
                return plan_end(out, -EAGAIN, "the drives of %u pools that have reported do not say which number their pool had", without);
        for (i = 0; i < out->pool_count; i++)
                while (out->pools[i].number == 0) {
                        for (j = 0; j < out->pool_count && out->pools[j].number != number; j++)
                                ;
                        if (j == out->pool_count)
                                out->pools[i].number = number;
                        number++;
                }
        return 0;
}

/* All pools have been reported that some folder knows of: one that is not written would be lost. */
static int find_pools(struct planning *p)
{
        struct cl_reseed_plan *out = p->out;
        unsigned i, most;
        int rv = find_stores(p);

        if (rv == 0)
                rv = number_the_rest(out);
        if (rv != 0)
                return rv;
        qsort(out->pools, out->pool_count, sizeof(out->pools[0]), order_of_pools);
        most = out->pool_count > 0 ? out->pools[out->pool_count - 1].number : CL_POOL;
        for (i = 0; i < p->found->count; i++)
                most = p->found->reports[i].pools > most ? p->found->reports[i].pools : most;
        for (i = 0; i < most; i++) {
                if (i < out->pool_count && out->pools[i].number == CL_POOL + i)
                        continue;
                if (i + 1 < out->pool_count && out->pools[i + 1].number == out->pools[i].number)
                        return plan_end(out, -EINVAL, "drives of two stores say that they are of pool %u", out->pools[i].number);
                if (i > 0 && i < out->pool_count && out->pools[i].number == out->pools[i - 1].number)
                        return plan_end(out, -EINVAL, "drives of two stores say that they are of pool %u", out->pools[i].number);
                return most == CL_POOL ? plan_end(out, -EAGAIN, "no node has reported a drive of the pool yet")
                                       : plan_end(out, -EAGAIN, "no node has reported a drive of pool %u yet", CL_POOL + i);
        }
        return 0;
}

static void plan_pool_line(struct cl_reseed_plan *out, const struct cl_reseed_pool *pool)
{
        char of[64] = "";
        unsigned i, len;

        if (out->pool_count > 1) {
                len = (unsigned)snprintf(of, sizeof(of), "pool %u: store ", pool->number);
                for (i = 0; i < CL_ID; i++)
                        len += (unsigned)snprintf(of + len, sizeof(of) - len, "%02x", pool->store[i]);
                snprintf(of + len, sizeof(of) - len, ", ");
        }
        plan_line(out, "%snewest epoch %" PRIu64 ", next %" PRIu64 "; generation %" PRIu64, of, pool->newest, pool->epoch.number, out->next.number);
}

static int plan_begin_pool(struct planning *p, struct cl_reseed_pool *pool)
{
        int rv;

        p->pool = pool;
        p->newest = NULL;
        if (p->out->pool_count > 1)
                snprintf(p->of, sizeof(p->of), "pool %u: ", pool->number);
        rv = find_newest(p);
        if (rv == 0)
                pool->epoch = p->epoch;
        return rv;
}

static int plan_pool(struct planning *p, struct cl_reseed_pool *pool)
{
        int rv = plan_begin_pool(p, pool);

        if (rv == 0)
                rv = find_forks(p);
        if (rv == 0)
                rv = judge_slots(p);
        return rv == 0 ? plan_epoch(p) : rv;
}

void cl_reseed_plan(const struct cl_reseed_found *found, const struct cl_reseed_wish *wish, struct cl_reseed_plan *out)
{
        struct planning p = {.found = found, .wish = wish, .out = out};
        unsigned i;

        memset(out, 0, sizeof(*out));
        plan_generation(&p);
        plan_cluster_id(&p);
        plan_switches(&p);
        if (plan_numbers(&p) != 0 || find_pools(&p) != 0) /* no node is asked to fence for what cannot be done */
                return;
        for (i = 0; i < out->pool_count; i++)
                if (plan_begin_pool(&p, &out->pools[i]) != 0)
                        return;
        if (check_wish(&p) != 0 || plan_numbers(&p) != 0)
                return;
        out->fenced = true;
        for (i = 0; i < out->pool_count; i++)
                if (plan_pool(&p, &out->pools[i]) != 0)
                        return;
        for (i = 0; i < out->pool_count; i++)
                plan_pool_line(out, &out->pools[i]);
}
