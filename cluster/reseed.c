/*
 * reseed.c - etcd is written anew: reads what nodes have reported, asks them to fence their drives, and writes: numbers
 * of nodes first, 31 in a transaction, then all else in one. On one loop.
 *
 *   READ <-----------+        the plan cannot be made yet: again, until the time is over
 *    |  plan         | pause
 *    +-> ASK --------+        CAS of reseed/request: nodes fence, and report again
 *    +-> NUMBERS -> READ      each compares the request, and the boot numbers that were read
 *          +-> WRITE -> READ  the last one compares the request, format and configurations; READ finds what became of it
 *
 * Nothing is there half: before the last transaction etcd has what it had, with higher boot numbers, and a request that
 * the next run takes up.
 */
#include "cluster_reseed.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESEED_PAUSE_NS (250ull * 1000 * 1000)
#define RESEED_MS_NS    (1000ull * 1000)
#define RESEED_NUMBERS  (CL_COMPARES_MAX - 1) /* nodes of a transaction, beside the request */

_Static_assert(2 * RESEED_NUMBERS <= CL_OPS_MAX, "boots/N and nodes/N");

static void reseed_end(struct cl_reseed *r, int rv, const char *text)
{
        r->rv = rv;
        if (text != r->text)
                snprintf(r->text, sizeof(r->text), "%s", text);
        r->done(r);
}

static void reseed_wait(struct cl_reseed *r, const char *text)
{
        if (r->waits != NULL && strcmp(text, r->told) != 0)
                r->waits(r->arg, text);
        snprintf(r->told, sizeof(r->told), "%s", text);
        lp_timer_start(r->loop, &r->timer, RESEED_PAUSE_NS);
}

static void reseed_more_time(struct cl_reseed *r)
{
        r->until = lp_now(r->loop) + (r->wait_ms != 0 ? r->wait_ms : CL_RESEED_WAIT_MS) * RESEED_MS_NS;
}

/* ---- what there is --------------------------------------------------------------------------- */

static void found_add_report(struct cl_reseed_found *found, unsigned number, const struct cl_key *key)
{
        struct cl_report *report = &found->reports[found->count];

        if (cl_report_read(key->value.data, key->value.len, report) != 0 || report->node != number)
                return; /* as if it had not reported: it does so again */
        found->count++;
}

/* What makes no sense is as if it were not there: it is what is written anew. */
static void found_add(struct cl_reseed_found *found, enum cl_key_kind kind, unsigned number, const struct cl_key *key)
{
        struct cl_node node;

        switch (kind) {
        case CL_KEY_FORMAT:
                found->has_format = cl_format_read(key->value.data, key->value.len, &found->format) == 0;
                found->format_revision = key->mod_revision;
                break;
        case CL_KEY_CONFIG:
                if (number <= CL_POOLS_MAX)
                        found->config_revision[number] = key->mod_revision;
                break;
        case CL_KEY_BOOT:
                if (cl_boot_read(key->value.data, key->value.len, &found->boots[number]) != 0)
                        found->boots[number].boot = 0;
                found->boot_revision[number] = key->mod_revision;
                break;
        case CL_KEY_RESEED:
                found->has_request = cl_format_read(key->value.data, key->value.len, &found->request) == 0;
                found->request_revision = key->mod_revision;
                break;
        case CL_KEY_REPORT:
                found_add_report(found, number, key);
                break;
        case CL_KEY_NODE:
                found->gone[number] = cl_node_read(key->value.data, key->value.len, &node) == 0 && node.state == CL_NODE_GONE;
                break;
        case CL_KEY_LEADER:
        case CL_KEY_NAMES:
        case CL_KEY_SWITCHES:
                break;
        }
}

static int reseed_make_room(struct cl_reseed *r, const struct cl_keys *keys)
{
        enum cl_key_kind kind;
        unsigned number, count = 0;
        size_t i;

        for (i = 0; i < keys->count; i++)
                count += cl_key_parse(r->cluster, keys->at[i].key.data, keys->at[i].key.len, &kind, &number) && kind == CL_KEY_REPORT;
        if (count <= r->report_room)
                return 0;
        cl_reseed_free(r);
        r->found.reports = calloc(count, sizeof(*r->found.reports));
        r->report_room = r->found.reports != NULL ? count : 0;
        return r->found.reports != NULL ? 0 : -ENOMEM;
}

static int reseed_take(struct cl_reseed *r, const struct cl_keys *keys)
{
        int rv = reseed_make_room(r, keys);
        struct cl_report *reports = r->found.reports;
        enum cl_key_kind kind;
        unsigned number;
        size_t i;

        if (rv != 0)
                return rv;
        memset(&r->found, 0, sizeof(r->found));
        r->found.reports = reports;
        for (i = 0; i < keys->count; i++)
                if (cl_key_parse(r->cluster, keys->at[i].key.data, keys->at[i].key.len, &kind, &number))
                        found_add(&r->found, kind, number, &keys->at[i]);
        if (r->found.has_format && r->found.has_request && r->found.request.generation <= r->found.format.generation)
                r->found.has_request = false; /* of a reseed that has ended */
        return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Of the next text. */
static void write_put(struct cl_reseed *r, enum cl_key_kind kind, unsigned number, size_t len)
{
        struct cl_reseed_text *text = &r->texts[r->op_count];

        cl_key_name(r->cluster, kind, number, text->key);
        r->ops[r->op_count++] = (struct cl_op){.kind = CL_OP_PUT, .key = {text->key, strlen(text->key)}, .value = {text->value, len}};
}

static char *write_room(struct cl_reseed *r)
{
        assert(r->op_count < CL_OPS_MAX);
        return r->texts[r->op_count].value;
}

/* It was removed when no pool had a slot of it any more: a drive that it has kept gives it no rights back. */
static bool stays_removed(const struct cl_reseed *r, unsigned number)
{
        const struct cl_reseed_plan *plan = &r->plan;
        unsigned i, slot;

        for (i = 0; r->found.gone[number] && i < plan->pool_count; i++)
                for (slot = 0; slot < plan->pools[i].epoch.slots; slot++)
                        if (plan->pools[i].epoch.slot[slot].site.node == number && (plan->pools[i].epoch.gone >> slot & 1) == 0)
                                return false;
        return r->found.gone[number];
}

/* The node as it has reported itself; it enters itself again when it joins. */
static bool write_node(struct cl_reseed *r, unsigned number)
{
        const struct cl_reseed_plan *plan = &r->plan;
        struct cl_boot boot = {.boot = plan->boots[number]};
        struct cl_node node;
        size_t len;
        unsigned i;

        memcpy(boot.claim, plan->claim, CL_ID);
        len = cl_boot_write(&boot, write_room(r));
        write_put(r, CL_KEY_BOOT, number, len);
        for (i = 0; len > 0 && i < r->found.count; i++) {
                if (r->found.reports[i].node != number)
                        continue;
                node = r->found.reports[i].self;
                node.state = stays_removed(r, number) ? CL_NODE_GONE : CL_NODE_IN;
                node.boot = boot.boot;
                node.drive_count = 0;
                len = cl_node_write(&node, write_room(r));
                write_put(r, CL_KEY_NODE, number, len);
        }
        return len > 0;
}

/* All that have reported. What etcd has may be of nodes that took a number while it was not known whose that is. */
static bool write_node_names(struct cl_reseed *r)
{
        struct cl_names *names = calloc(1, sizeof(*names));
        size_t len;
        unsigned i;

        for (i = 0; names != NULL && i < r->found.count; i++)
                if (r->plan.boots[r->found.reports[i].node] != 0)
                        cl_names_add(names, r->found.reports[i].self.name, r->found.reports[i].node);
        len = names == NULL ? 0 : cl_names_write(names, write_room(r));
        write_put(r, CL_KEY_NAMES, 0, len);
        free(names);
        return len > 0;
}

static void write_delete(struct cl_reseed *r, enum cl_key_kind kind, unsigned number)
{
        struct cl_reseed_text *text = &r->texts[r->op_count];

        cl_key_name(r->cluster, kind, number, text->key);
        r->ops[r->op_count++] = (struct cl_op){.kind = CL_OP_DELETE, .key = {text->key, strlen(text->key)}};
}

/* Nobody leads it. */
static bool write_pool(struct cl_reseed *r, const struct cl_reseed_pool *pool)
{
        size_t len = cl_config_write(&pool->config, write_room(r));

        write_put(r, CL_KEY_CONFIG, pool->number, len);
        write_delete(r, CL_KEY_LEADER, pool->number);
        return len > 0;
}

static bool write_new_etcd(struct cl_reseed *r)
{
        size_t len;
        bool ok = true;
        unsigned i;

        for (i = 0; i < r->plan.pool_count; i++)
                ok &= write_pool(r, &r->plan.pools[i]);
        len = cl_format_write(&r->format, write_room(r));
        ok &= len > 0;
        write_put(r, CL_KEY_FORMAT, 0, len);
        ok = ok && write_node_names(r);
        if (r->plan.switches[0] != '\0') {
                len = (size_t)snprintf(write_room(r), CL_JSON_MAX, "%s", r->plan.switches);
                write_put(r, CL_KEY_SWITCHES, 0, len);
        }
        /* It stays, as one that has ended: a late request of another run finds the key changed. */
        len = cl_format_write(&r->format, write_room(r));
        ok &= len > 0;
        write_put(r, CL_KEY_RESEED, 0, len);
        r->ops[r->op_count++] = (struct cl_op){.kind = CL_OP_DELETE, .key = {r->reports_key, strlen(r->reports_key)}, .prefix = true};
        return ok;
}

static void txn_compare(struct cl_reseed *r, enum cl_key_kind kind, unsigned number, int64_t revision)
{
        char *key = r->compare_keys[r->compare_count];

        cl_key_name(r->cluster, kind, number, key);
        r->compares[r->compare_count++] = (struct cl_compare){.kind = CL_COMPARE_MOD, .key = {key, strlen(key)}, .number = revision};
}

static void reseed_ask(struct cl_reseed *r);

/* Each transaction has effect only while the request that was read is the one. */
static void txn_begin(struct cl_reseed *r)
{
        r->op_count = r->compare_count = 0;
        txn_compare(r, CL_KEY_RESEED, 0, r->found.request_revision);
}

static void txn_submit(struct cl_reseed *r, void (*done)(struct cl_request *request))
{
        memset(&r->request, 0, sizeof(r->request));
        r->request.kind = CL_TXN;
        r->request.compares = r->compares;
        r->request.compare_count = r->compare_count;
        r->request.success = r->ops;
        r->request.success_count = r->op_count;
        r->request.done = done;
        cl_etcd_submit(r->etcd, &r->request);
}

static void txn_failed(struct cl_reseed *r)
{
        const struct cl_request *request = &r->request;
        const bool sure = request->outcome == CL_FAILED_SURE && request->error != -ETIMEDOUT && request->error != -EHOSTUNREACH;

        if (request->outcome != CL_DONE && (sure || lp_now(r->loop) >= r->until))
                reseed_end(r, request->error, request->text);
        else if (request->outcome != CL_DONE)
                reseed_wait(r, request->text);
        else if (lp_now(r->loop) >= r->until)
                reseed_end(r, -EAGAIN, "etcd has changed again and again: give the command again, it goes on from here");
        else
                reseed_wait(r, "etcd has changed meanwhile: it is read again");
}

static void reseed_written(struct cl_request *request)
{
        struct cl_reseed *r = container_of(request, struct cl_reseed, request);

        if (request->outcome == CL_DONE && request->answer->succeeded) {
                reseed_end(r, 0, "");
                return;
        }
        txn_failed(r);
}

static void reseed_write(struct cl_reseed *r)
{
        unsigned i;

        r->format = r->found.request;
        txn_begin(r);
        if (!write_new_etcd(r)) {
                reseed_end(r, -ENOMEM, "out of memory");
                return;
        }
        txn_compare(r, CL_KEY_FORMAT, 0, r->found.format_revision);
        for (i = 0; i < r->plan.pool_count; i++) {
                const unsigned number = r->plan.pools[i].number;

                txn_compare(r, CL_KEY_CONFIG, number, r->found.config_revision[number]);
        }
        r->written = true;
        txn_submit(r, reseed_written);
}

static void reseed_write_numbers(struct cl_reseed *r);

static void numbers_written(struct cl_request *request)
{
        struct cl_reseed *r = container_of(request, struct cl_reseed, request);

        if (request->outcome == CL_DONE && request->answer->succeeded)
                reseed_write_numbers(r);
        else
                txn_failed(r);
}

/*
 * Of the next nodes; when all have theirs, all else. A process that has not noticed the request may take a boot number
 * meanwhile: none is put below it, so each is given once.
 */
static void reseed_write_numbers(struct cl_reseed *r)
{
        txn_begin(r);
        for (; r->next_node <= CL_NODE_LAST && r->compare_count < CL_COMPARES_MAX; r->next_node++) {
                if (r->plan.boots[r->next_node] == 0)
                        continue;
                if (!write_node(r, r->next_node)) {
                        reseed_end(r, -ENOMEM, "out of memory");
                        return;
                }
                txn_compare(r, CL_KEY_BOOT, r->next_node, r->found.boot_revision[r->next_node]);
        }
        if (r->op_count == 0)
                reseed_write(r);
        else
                txn_submit(r, numbers_written);
}

static void reseed_begin_writing(struct cl_reseed *r)
{
        r->next_node = 1;
        reseed_write_numbers(r);
}

/* ---- the request ----------------------------------------------------------------------------- */

static void reseed_requested(struct cl_cas *cas)
{
        struct cl_reseed *r = container_of(cas, struct cl_reseed, cas);

        if (cas->outcome == CL_CAS_FAILED) {
                reseed_end(r, cas->error, cas->text);
                return;
        }
        reseed_more_time(r);
        reseed_ask(r); /* whoever's request is there, it is the one */
}

static void reseed_request(struct cl_reseed *r)
{
        struct cl_format next = {.generation = r->plan.next.number, .random = r->plan.next.random};
        size_t len;

        if (r->plan.has_cluster_id)
                memcpy(next.cluster_id, r->plan.cluster_id, CL_ID);
        else
                lp_random(next.cluster_id, CL_ID);
        len = cl_format_write(&next, r->format_value);
        if (len == 0) {
                reseed_end(r, -ENOMEM, "out of memory");
                return;
        }
        memset(&r->cas, 0, sizeof(r->cas));
        r->cas.etcd = r->etcd;
        r->cas.key = (struct cl_bytes){r->request_key, strlen(r->request_key)};
        r->cas.value = (struct cl_bytes){r->format_value, len};
        r->cas.mod_revision = r->found.request_revision;
        r->cas.done = reseed_requested;
        cl_cas(&r->cas);
}

/* ---- a step ---------------------------------------------------------------------------------- */

static bool is_format_of(const struct cl_format *a, const struct cl_format *b)
{
        return a->generation == b->generation && a->random == b->random;
}

/* The own transaction, or another run's, has been carried out. */
static bool reseed_is_over(struct cl_reseed *r)
{
        if (r->written && r->found.has_format && is_format_of(&r->found.format, &r->format)) {
                reseed_end(r, 0, "");
                return true;
        }
        if (r->doit && r->asked && r->found.has_format && !r->found.has_request) {
                reseed_end(r, -EEXIST, "another run has written etcd meanwhile");
                return true;
        }
        return false;
}

static void reseed_step(struct cl_reseed *r)
{
        struct cl_reseed_plan *plan = &r->plan;
        bool over = lp_now(r->loop) >= r->until;

        if (reseed_is_over(r))
                return;
        r->asked |= r->found.has_request;
        cl_reseed_plan(&r->found, r->wish, plan);
        if (plan->rv == -EAGAIN && r->doit && !r->found.has_request && lp_now(r->loop) >= r->ask_at)
                reseed_request(r); /* nodes that take this etcd for their own report when they are asked */
        else if (plan->rv != 0 && (plan->rv != -EAGAIN || over))
                reseed_end(r, plan->rv, plan->text);
        else if (plan->rv != 0)
                reseed_wait(r, plan->text);
        else if (!r->doit)
                reseed_end(r, 0, "");
        else if (!r->found.has_request || plan->outdated)
                reseed_request(r);
        else if (plan->fenced)
                reseed_begin_writing(r);
        else if (over)
                reseed_end(r, -ETIMEDOUT, "not all nodes have fenced their drives: give the command again, it goes on from here");
        else
                reseed_wait(r, "waiting for the nodes to fence their drives");
}

static void reseed_read(struct cl_request *request)
{
        struct cl_reseed *r = container_of(request, struct cl_reseed, request);

        if (request->outcome == CL_DONE) {
                if (reseed_take(r, &request->answer->ranges[0]) == 0)
                        reseed_step(r);
                else
                        reseed_end(r, -ENOMEM, "out of memory");
        } else if (lp_now(r->loop) >= r->until || request->error == -EACCES || request->error == -EINVAL) {
                reseed_end(r, request->error, request->text);
        } else {
                reseed_wait(r, request->text);
        }
}

static void reseed_ask(struct cl_reseed *r)
{
        memset(&r->request, 0, sizeof(r->request));
        r->request.kind = CL_RANGE;
        r->request.key = (struct cl_bytes){r->prefix, strlen(r->prefix)};
        r->request.prefix = true;
        r->request.done = reseed_read;
        cl_etcd_submit(r->etcd, &r->request);
}

static void reseed_again(struct lp_timer *timer)
{
        reseed_ask(container_of(timer, struct cl_reseed, timer));
}

void cl_reseed(struct cl_reseed *r)
{
        r->loop = lp_self();
        r->timer.expired = reseed_again;
        cl_key_prefix(r->cluster, r->prefix);
        cl_key_name(r->cluster, CL_KEY_RESEED, 0, r->request_key);
        snprintf(r->reports_key, sizeof(r->reports_key), "%.100sreseed/nodes/", r->prefix);
        reseed_more_time(r);
        r->ask_at = lp_now(r->loop) + CL_RESEED_ASK_NS;
        reseed_ask(r);
}

void cl_reseed_free(struct cl_reseed *r)
{
        free(r->found.reports);
        r->found.reports = NULL;
}
