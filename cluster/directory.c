/*
 * directory.c - what etcd has of the cluster: all keys of it in one read at one revision, twice a second.
 */
#include "cluster_node.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS_NS         (1000ull * 1000)
#define HURRY_FOR_NS  (1000 * MS_NS)

/* ---- a view ---------------------------------------------------------------------------------- */

const struct cl_member *cl_view_member(const struct cl_view *view, uint16_t number)
{
        unsigned i;

        for (i = 0; i < view->count; i++)
                if (view->members[i].number == number)
                        return &view->members[i];
        return NULL;
}

const struct cl_pool *cl_view_pool(const struct cl_view *view, unsigned number)
{
        static const struct cl_pool none;
        unsigned i;

        for (i = 0; i < view->pool_count; i++)
                if (view->pools[i].number == number)
                        return &view->pools[i];
        return &none;
}

const struct cl_pool *cl_view_pool_of_store(const struct cl_view *view, const uint8_t store_id[CL_ID])
{
        unsigned i;

        for (i = 0; i < view->pool_count; i++)
                if (view->pools[i].has_config && memcmp(view->pools[i].config.store_id, store_id, CL_ID) == 0)
                        return &view->pools[i];
        return NULL;
}

const struct cl_pool *cl_view_bad_pool(const struct cl_view *view)
{
        unsigned i;

        for (i = 0; i < view->pool_count; i++)
                if (view->pools[i].bad || (view->pools[i].is_led && !view->pools[i].has_config))
                        return &view->pools[i];
        return NULL;
}

int cl_view_copy(struct cl_view *to, const struct cl_view *from)
{
        struct cl_member *members = malloc((from->count + 1) * sizeof(*members));
        struct cl_pool *pools = malloc((from->pool_count + 1) * sizeof(*pools));

        if (members == NULL || pools == NULL) {
                free(members);
                free(pools);
                return -ENOMEM;
        }
        if (from->count > 0)
                memcpy(members, from->members, from->count * sizeof(*members));
        if (from->pool_count > 0)
                memcpy(pools, from->pools, from->pool_count * sizeof(*pools));
        *to = *from;
        to->members = members;
        to->pools = pools;
        return 0;
}

void cl_view_free(struct cl_view *view)
{
        free(view->members);
        free(view->pools);
        memset(view, 0, sizeof(*view));
}

static int member_order(const void *a, const void *b)
{
        const struct cl_member *x = a, *y = b;

        return (x->number > y->number) - (x->number < y->number);
}

/* One that makes no sense, or for which there is no room, is as one that is not there: the others go on. */
static void view_add_node(struct cl_view *view, unsigned number, const struct cl_key *key)
{
        struct cl_member *member = &view->members[view->count];

        if (view->count == CL_MEMBERS_MAX || cl_node_read(key->value.data, key->value.len, &member->node) != 0)
                return;
        member->number = (uint16_t)number;
        member->revision = key->mod_revision;
        view->count++;
}

/* Keys come in the order of their texts: 10 before 2. NULL: of a newer build. */
static struct cl_pool *view_pool_at(struct cl_view *view, unsigned number)
{
        unsigned at;

        if (number < CL_POOL || number > CL_POOLS_MAX)
                return NULL;
        for (at = 0; at < view->pool_count && view->pools[at].number < number; at++)
                ;
        if (at < view->pool_count && view->pools[at].number == number)
                return &view->pools[at];
        memmove(&view->pools[at + 1], &view->pools[at], (view->pool_count - at) * sizeof(*view->pools));
        memset(&view->pools[at], 0, sizeof(*view->pools));
        view->pools[at].number = number;
        view->pool_count++;
        return &view->pools[at];
}

static int pool_take_config(struct cl_pool *pool, const struct cl_key *key)
{
        int rv = cl_config_read(key->value.data, key->value.len, &pool->config);

        if (rv == 0)
                rv = eng_epoch_read(pool->config.epoch, pool->config.epoch_len, &pool->epoch);
        pool->config_revision = key->mod_revision;
        pool->has_config = rv == 0;
        return rv;
}

static int pool_take_leader(struct cl_pool *pool, const struct cl_key *key)
{
        int rv = cl_owner_read(key->value.data, key->value.len, &pool->leader);

        pool->leader_revision = key->mod_revision;
        pool->is_led = rv == 0;
        return rv;
}

/* One that makes no sense costs its pool alone, but where who reads it is to judge all that there is. */
static int view_add_pool(struct cl_view *view, enum cl_key_kind kind, unsigned number, const struct cl_key *key, bool unjudged)
{
        struct cl_pool *pool = view_pool_at(view, number);
        int rv = pool == NULL ? 0 : kind == CL_KEY_CONFIG ? pool_take_config(pool, key) : pool_take_leader(pool, key);

        if (rv != -EBADMSG || unjudged)
                return rv;
        pool->bad = true;
        return 0;
}

static int view_add(struct cl_view *view, enum cl_key_kind kind, unsigned number, const struct cl_key *key, bool unjudged)
{
        struct cl_boot boot;
        int rv;

        switch (kind) {
        case CL_KEY_FORMAT:
                rv = cl_format_read(key->value.data, key->value.len, &view->format);
                view->has_format = rv == 0;
                return rv;
        case CL_KEY_NODE:
                view_add_node(view, number, key);
                return 0;
        case CL_KEY_CONFIG:
        case CL_KEY_LEADER:
                return view_add_pool(view, kind, number, key, unjudged);
        case CL_KEY_BOOT:
                if (cl_boot_read(key->value.data, key->value.len, &boot) == 0)
                        view->boots[number] = boot.boot;
                return 0;
        case CL_KEY_SWITCHES:
                if (key->value.len < sizeof(view->switches))
                        memcpy(view->switches, key->value.data, key->value.len);
                return 0;
        case CL_KEY_RESEED:
                view->has_request = cl_format_read(key->value.data, key->value.len, &view->request) == 0;
                view->request_revision = key->mod_revision;
                return 0;
        case CL_KEY_NAMES: /* without them nobody new can join; the others go on */
                view->names_revision = key->mod_revision;
                view->names_bad = cl_names_read(key->value.data, key->value.len, &view->names) != 0;
                return 0;
        case CL_KEY_REPORT:
                view->reported[number / 8] |= (uint8_t)(1u << number % 8);
                return 0;
        }
        return 0;
}

/* why: CL_TEXT_MAX. */
static int view_read(struct cl_view *view, const char *cluster, bool unjudged, const struct cl_answer *answer, char *why)
{
        const struct cl_keys *keys = &answer->ranges[0];
        enum cl_key_kind kind;
        unsigned number;
        size_t i;
        int rv = 0;

        memset(view, 0, sizeof(*view));
        view->revision = answer->revision;
        view->members = calloc((keys->count < CL_MEMBERS_MAX ? keys->count : CL_MEMBERS_MAX) + 1, sizeof(*view->members));
        view->pools = calloc(CL_POOLS_MAX, sizeof(*view->pools));
        if (view->members == NULL || view->pools == NULL)
                rv = -ENOMEM;
        for (i = 0; rv == 0 && i < keys->count; i++) {
                const struct cl_key *key = &keys->at[i];

                if (!cl_key_parse(cluster, key->key.data, key->key.len, &kind, &number))
                        continue; /* of a newer build */
                rv = view_add(view, kind, number, key, unjudged);
                if (rv != 0)
                        snprintf(why, CL_TEXT_MAX, "what etcd has under %.*s makes no sense", (int)key->key.len, (const char *)key->key.data);
        }
        if (view->has_format && view->request.generation <= view->format.generation) /* it was done */
                view->has_request = false;
        for (i = 0; i < view->pool_count; i++)
                if (view->pools[i].bad)
                        view->pools[i].has_config = view->pools[i].is_led = false;
        if (rv == 0)
                qsort(view->members, view->count, sizeof(*view->members), member_order);
        return rv;
}

/* ---- twice a second -------------------------------------------------------------------------- */

struct cl_directory {
        struct cl_directory_options options;
        char cluster[CL_NAME_MAX], prefix[CL_KEY_NAME_MAX];
        struct lp_loop *loop;
        struct lp_timer timer;
        struct cl_request request;
        bool asks;
        struct cl_format known; /* that was read first; generation 0: none was yet */
        struct cl_view view;    /* what the last answer said that made sense */
        struct cl_answer *answer; /* that one, held; NULL: none did */
        uint64_t hurries; /* until then */
        void (*stopped)(void *arg);
        void *stopped_arg;
        struct lp_msg stop_msg;
};

static void directory_stopped(struct lp_msg *msg)
{
        struct cl_directory *d = container_of(msg, struct cl_directory, stop_msg);

        d->stopped(d->stopped_arg);
}

static void directory_stop_now(struct cl_directory *d)
{
        d->stop_msg.run = directory_stopped;
        lp_post(d->loop, &d->stop_msg);
}

/* Rule R2: the cluster is the one that this node has seen, before this process and in it. */
static enum cl_verdict directory_verdict(struct cl_directory *d, const struct cl_view *view)
{
        const struct cl_generation found = {view->format.generation, view->format.random};
        struct cl_seen seen;

        cl_etcd_seen(d->options.etcd, &seen);
        if (!view->has_format) /* it was deleted */
                return d->known.generation == 0 && seen.generation.number == 0 ? CL_SEEN_FINE : CL_SEEN_OTHER_GENERATION;
        if (d->known.generation == 0)
                d->known = view->format;
        if (memcmp(d->known.cluster_id, view->format.cluster_id, CL_ID) != 0)
                return CL_SEEN_OTHER_CLUSTER;
        if (cl_generation_judge(&seen, &found) != CL_SEEN_FINE)
                return CL_SEEN_OTHER_GENERATION;
        seen.generation = (struct cl_generation){d->known.generation, d->known.random};
        return cl_generation_judge(&seen, &found);
}

static int directory_judge(struct cl_directory *d, const struct cl_view *view, char *why)
{
        enum cl_verdict verdict = d->options.unjudged ? CL_SEEN_FINE : directory_verdict(d, view);

        if (verdict == CL_SEEN_FINE)
                return 0;
        cl_etcd_distrust(d->options.etcd, verdict);
        snprintf(why, CL_TEXT_MAX, "%s", cl_verdict_text(verdict));
        return -EREMCHG;
}

static bool bytes_same(struct cl_bytes a, struct cl_bytes b)
{
        return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* An etcd that was restored may say something else with the same revisions: all is compared. */
static bool keys_same(const struct cl_keys *a, const struct cl_keys *b)
{
        size_t i;

        if (a->count != b->count)
                return false;
        for (i = 0; i < a->count; i++)
                if (a->at[i].mod_revision != b->at[i].mod_revision || !bytes_same(a->at[i].key, b->at[i].key) ||
                    !bytes_same(a->at[i].value, b->at[i].value))
                        return false;
        return true;
}

static void directory_forget(struct cl_directory *d)
{
        cl_view_free(&d->view);
        cl_answer_free(d->answer);
        d->answer = NULL;
}

/* Most answers say what the one before said: it was read then. */
static int directory_take(struct cl_directory *d, struct cl_answer *answer, char *why)
{
        int rv;

        if (d->answer != NULL && keys_same(&d->answer->ranges[0], &answer->ranges[0])) {
                d->view.revision = answer->revision;
                return 0;
        }
        directory_forget(d);
        rv = view_read(&d->view, d->cluster, d->options.unjudged, answer, why);
        if (rv != 0) {
                cl_view_free(&d->view);
                return rv;
        }
        cl_answer_hold(answer);
        d->answer = answer;
        return 0;
}

static void directory_read(struct cl_request *request)
{
        struct cl_directory *d = container_of(request, struct cl_directory, request);
        char why[CL_TEXT_MAX] = "out of memory";
        int rv;

        d->asks = false;
        if (d->stopped != NULL) {
                directory_stop_now(d);
                return;
        }
        if (request->outcome != CL_DONE) {
                d->options.looked(d->options.arg, NULL, request->error, request->text);
        } else {
                rv = directory_take(d, request->answer, why);
                if (rv == 0)
                        rv = directory_judge(d, &d->view, why);
                d->options.looked(d->options.arg, rv == 0 ? &d->view : NULL, rv, why);
        }
        if (d->stopped == NULL)
                lp_timer_start(d->loop, &d->timer, (lp_now(d->loop) < d->hurries ? CL_HURRY_MS : CL_LOOK_MS) * MS_NS);
        else
                directory_stop_now(d);
}

static void directory_ask(struct lp_timer *timer)
{
        struct cl_directory *d = container_of(timer, struct cl_directory, timer);

        memset(&d->request, 0, sizeof(d->request));
        d->request.kind = CL_RANGE;
        d->request.key = (struct cl_bytes){d->prefix, strlen(d->prefix)};
        d->request.prefix = true;
        d->request.done = directory_read;
        d->asks = true;
        cl_etcd_submit(d->options.etcd, &d->request);
}

int cl_directory_new(const struct cl_directory_options *options, struct cl_directory **out)
{
        struct cl_directory *d = calloc(1, sizeof(*d));

        if (d == NULL)
                return -ENOMEM;
        d->options = *options;
        snprintf(d->cluster, sizeof(d->cluster), "%s", options->cluster);
        cl_key_prefix(d->cluster, d->prefix);
        *out = d;
        return 0;
}

void cl_directory_start(struct cl_directory *d)
{
        assert(d->loop == NULL);
        d->loop = lp_self();
        d->timer.expired = directory_ask;
        directory_ask(&d->timer);
}

void cl_directory_hurry(struct cl_directory *d)
{
        d->hurries = lp_now(d->loop) + HURRY_FOR_NS;
        if (d->asks || d->stopped != NULL)
                return;
        lp_timer_stop(d->loop, &d->timer);
        lp_timer_start(d->loop, &d->timer, 0);
}

void cl_directory_stop(struct cl_directory *d, void (*stopped)(void *arg), void *arg)
{
        assert(lp_self() == d->loop && d->stopped == NULL);
        lp_timer_stop(d->loop, &d->timer);
        d->stopped = stopped;
        d->stopped_arg = arg;
        if (!d->asks)
                directory_stop_now(d);
}

void cl_directory_free(struct cl_directory *d)
{
        if (d == NULL)
                return;
        directory_forget(d);
        free(d);
}
