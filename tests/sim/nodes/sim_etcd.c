/*
 * sim_etcd.c - see sim_etcd.h.
 *
 * The way to etcd is an event of the world, since a request that was sent arrives whether its process lives or not;
 * the way back is one of the process. What is on its way is a copy.
 */
#include "tests/sim/nodes/sim_etcd.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/memory_etcd.h"
#include "tests/sim/nodes/sim_net.h"

#define WAY_NS     (300 * SIM_US)
#define TAIL_IN    40 /* requests, of which one takes long */
#define TAIL_NS    (800 * SIM_MS)
#define LATE_NS    (20 * SIM_S) /* a change may be carried out so much later */
#define REFUSED_NS (5 * SIM_MS)
#define ETCD_HOSTS 8u

struct sim_etcd_figures sim_etcd_figures;

struct client_etcd {
        struct cl_etcd etcd; /* first */
        struct client_etcd *next;
        unsigned process, host;
        bool dead;
        struct cl_seen seen;
        enum cl_verdict verdict;
};

/* A request on its way. */
struct flight {
        struct client_etcd *client;
        struct cl_request *request; /* of its process */
        struct cl_request copy;
        struct cl_seen seen;        /* when it was sent */
        struct cl_answer *answer;
        uint32_t deadline;          /* event; 0: it has ended */
        bool ended;                 /* whoever asked was told */
        bool loses;                 /* its answer is lost */
};

static struct {
        struct memory_etcd now, backup, right;
        bool made, has_backup, is_restored;
        uint64_t cluster_id, down_until, lossy_until, cut_until[ETCD_HOSTS];
        struct client_etcd *clients;
        const char *key;
        void (*step)(void);
} world_etcd;

/* ---- copies of what is asked ----------------------------------------------------------------- */

static struct cl_bytes bytes_copy(struct cl_bytes from)
{
        void *to = malloc(from.len + 1);

        assert(to != NULL);
        if (from.len > 0)
                memcpy(to, from.data, from.len);
        return (struct cl_bytes){to, from.len};
}

static struct cl_op *ops_copy(const struct cl_op *from, unsigned count)
{
        struct cl_op *to = calloc(count + 1, sizeof(*to));
        unsigned i;

        assert(to != NULL);
        for (i = 0; i < count; i++) {
                to[i] = from[i];
                to[i].key = bytes_copy(from[i].key);
                to[i].value = bytes_copy(from[i].value);
        }
        return to;
}

static struct cl_compare *compares_copy(const struct cl_compare *from, unsigned count)
{
        struct cl_compare *to = calloc(count + 1, sizeof(*to));
        unsigned i;

        assert(to != NULL);
        for (i = 0; i < count; i++) {
                to[i] = from[i];
                to[i].key = bytes_copy(from[i].key);
                to[i].value = bytes_copy(from[i].value);
        }
        return to;
}

static void ops_free(const struct cl_op *ops, unsigned count)
{
        unsigned i;

        for (i = 0; i < count; i++) {
                free((void *)ops[i].key.data);
                free((void *)ops[i].value.data);
        }
        free((void *)ops);
}

static void flight_free(struct flight *f)
{
        unsigned i;

        free((void *)f->copy.key.data);
        for (i = 0; i < f->copy.compare_count; i++) {
                free((void *)f->copy.compares[i].key.data);
                free((void *)f->copy.compares[i].value.data);
        }
        free((void *)f->copy.compares);
        ops_free(f->copy.success, f->copy.success_count);
        ops_free(f->copy.failure, f->copy.failure_count);
        cl_answer_free(f->answer);
        free(f);
}

static struct flight *flight_new(struct client_etcd *client, struct cl_request *r)
{
        struct flight *f = calloc(1, sizeof(*f));

        assert(f != NULL);
        f->client = client;
        f->request = r;
        f->seen = client->seen;
        f->copy = *r;
        f->copy.key = bytes_copy(r->key);
        f->copy.compares = compares_copy(r->compares, r->compare_count);
        f->copy.success = ops_copy(r->success, r->success_count);
        f->copy.failure = ops_copy(r->failure, r->failure_count);
        return f;
}

/* ---- the way there and back ------------------------------------------------------------------ */

static uint64_t way(void)
{
        return !sim_net_is_prompt() && sim_chance(SIM_NODES, TAIL_IN) ? sim_skewed(SIM_NODES, WAY_NS, TAIL_NS) : WAY_NS + sim_below(SIM_NODES, 4 * WAY_NS);
}

static bool reaches(const struct client_etcd *c)
{
        return sim.now >= world_etcd.down_until && sim.now >= world_etcd.cut_until[c->host];
}

static bool changes_key(const struct flight *f, const char *key)
{
        unsigned i;

        for (i = 0; i < f->copy.success_count; i++) {
                const struct cl_op *op = &f->copy.success[i];

                if (op->kind == CL_OP_PUT && op->key.len == strlen(key) && memcmp(op->key.data, key, op->key.len) == 0)
                        return true;
        }
        return false;
}

/* One of three of these is what somebody waits for. */
static void step_taken(const struct flight *f)
{
        void (*step)(void) = world_etcd.step;

        if (step == NULL || !changes_key(f, world_etcd.key) || !sim_chance(SIM_NODES, 3))
                return;
        world_etcd.step = NULL;
        step();
}

static void flight_end(struct flight *f, enum cl_outcome outcome, int error, const char *text)
{
        struct cl_answer *answer = outcome == CL_DONE ? f->answer : NULL;

        f->ended = true;
        if (f->deadline != 0)
                sim_cancel(f->deadline);
        f->deadline = 0;
        if (outcome == CL_DONE)
                f->answer = NULL;
        sim_etcd_figures.unknown += outcome == CL_UNKNOWN;
        cl_request_end(f->request, outcome, error, answer, "%s", text);
}

/* In the process. */
static void flight_late(void *arg)
{
        struct flight *f = arg;

        f->deadline = 0;
        flight_end(f, cl_request_changes(&f->copy) ? CL_UNKNOWN : CL_FAILED_SURE, -ETIMEDOUT, "etcd has not answered in time");
}

static void flight_refused(void *arg)
{
        struct flight *f = arg;

        sim_etcd_figures.refused++;
        flight_end(f, CL_FAILED_SURE, -EHOSTUNREACH, "etcd cannot be reached");
        flight_free(f);
}

static void flight_back(void *arg)
{
        struct flight *f = arg;
        struct client_etcd *c = f->client;
        enum cl_verdict verdict = cl_seen_judge(&f->seen, f->answer->cluster_id, f->answer->revision);

        if (!f->ended && verdict != CL_SEEN_FINE)
                c->verdict = verdict;
        if (!f->ended && c->verdict != CL_SEEN_FINE) {
                flight_end(f, cl_request_changes(&f->copy) ? CL_UNKNOWN : CL_FAILED_SURE, -EREMCHG, cl_verdict_text(c->verdict));
        } else if (!f->ended) {
                cl_seen_add(&c->seen, f->answer->cluster_id, f->answer->revision);
                step_taken(f);
                flight_end(f, CL_DONE, 0, "");
        }
        flight_free(f);
}

static void flight_answer(struct flight *f)
{
        unsigned before;

        f->answer->cluster_id = world_etcd.cluster_id;
        if (f->client->dead || f->ended) {
                flight_free(f);
                return;
        }
        if (f->loses || !reaches(f->client))
                return; /* it may be late, and nobody frees it */
        before = sim_enter(f->client->process);
        sim_at(way(), NULL, flight_back, f);
        sim_enter(before);
}

static void flight_arrives(void *arg)
{
        struct flight *f = arg;

        step_taken(f);
        f->answer = me_carry_out(&world_etcd.now, &f->copy);
        sim_etcd_figures.changes += cl_request_changes(&f->copy) && f->answer->succeeded;
        if (sim.trace && cl_request_changes(&f->copy))
                sim_trace("  etcd: %.*s by process %u: %s, revision %lld", (int)f->copy.success[0].key.len, (const char *)f->copy.success[0].key.data,
                          f->client->process, f->answer->succeeded ? "put" : "it compares with another", (long long)f->answer->revision);
        step_taken(f);
        flight_answer(f);
}

/* So late that nobody waits for it any more, or nearly. */
static void flight_arrives_late(void *arg)
{
        struct flight *f = arg;

        if (sim.now < world_etcd.down_until)
                return; /* lost for good */
        flight_arrives(f);
}

/* It is on its way. */
static void flight_sent(void *arg)
{
        struct flight *f = arg;
        bool there = reaches(f->client), lossy = sim.now < world_etcd.lossy_until && sim_chance(SIM_NODES, 3);

        if (there && !lossy) {
                flight_arrives(f);
                return;
        }
        f->loses = true;
        if (!cl_request_changes(&f->copy))
                return;
        switch (sim_below(SIM_NODES, there ? 3 : 2)) {
        case 0: /* never */
                return;
        case 1: /* later: by another way than the one that is cut */
                sim_etcd_figures.late++;
                sim_at(sim_skewed(SIM_NODES, SIM_MS, LATE_NS), NULL, flight_arrives_late, f);
                return;
        default:
                flight_arrives(f);
        }
}

/* ---- the table ------------------------------------------------------------------------------- */

static void sim_etcd_submit(struct cl_etcd *etcd, struct cl_request *request)
{
        struct client_etcd *c = (struct client_etcd *)etcd;
        uint64_t now = lp_now(request->home), left = CL_TIMEOUT_MS * SIM_MS;
        struct flight *f;
        unsigned before;

        assert(request->kind != CL_STATUS && !c->dead);
        sim_etcd_figures.requests++;
        if (c->verdict != CL_SEEN_FINE) {
                cl_request_end(request, CL_FAILED_SURE, -EREMCHG, NULL, "%s", cl_verdict_text(c->verdict));
                return;
        }
        f = flight_new(c, request);
        before = sim_enter(c->process);
        if (!reaches(c) && sim_chance(SIM_NODES, 2)) { /* nobody listens there, and says so */
                sim_at(sim_skewed(SIM_NODES, WAY_NS, REFUSED_NS), NULL, flight_refused, f);
                sim_enter(before);
                return;
        }
        if (request->deadline != 0)
                left = request->deadline > now ? request->deadline - now : 0;
        f->deadline = sim_at(sim_span(c->process, left), NULL, flight_late, f);
        step_taken(f);
        sim_enter(0);
        sim_at(way(), NULL, flight_sent, f);
        sim_enter(before);
}

static void sim_etcd_seen(struct cl_etcd *etcd, struct cl_seen *out)
{
        *out = ((const struct client_etcd *)etcd)->seen;
}

static void sim_etcd_distrust(struct cl_etcd *etcd, enum cl_verdict verdict)
{
        ((struct client_etcd *)etcd)->verdict = verdict;
}

static void sim_etcd_free(struct cl_etcd *etcd)
{
}

struct cl_etcd *sim_etcd_client(unsigned host, const struct cl_seen *seen)
{
        static const struct cl_etcd_ops ops = {.submit = sim_etcd_submit, .seen = sim_etcd_seen, .distrust = sim_etcd_distrust, .free = sim_etcd_free};
        struct client_etcd *c = calloc(1, sizeof(*c));

        assert(c != NULL && host < ETCD_HOSTS);
        c->etcd.ops = &ops;
        c->process = sim.process;
        c->host = host;
        c->seen = *seen;
        c->verdict = CL_SEEN_FINE;
        c->next = world_etcd.clients;
        world_etcd.clients = c;
        return &c->etcd;
}

void sim_etcd_killed(unsigned process)
{
        struct client_etcd *c;

        for (c = world_etcd.clients; c != NULL; c = c->next)
                c->dead |= c->process == process;
}

/* ---- life and faults ------------------------------------------------------------------------- */

void sim_etcd_begin(void)
{
        if (world_etcd.made) {
                me_free(&world_etcd.now);
                me_free(&world_etcd.backup);
                me_free(&world_etcd.right);
        }
        memset(&world_etcd, 0, sizeof(world_etcd));
        me_init(&world_etcd.now);
        me_init(&world_etcd.backup);
        me_init(&world_etcd.right);
        world_etcd.made = true;
        world_etcd.cluster_id = SIM_ETCD_ID;
}

void sim_etcd_put(const char *key, const void *value, size_t len)
{
        me_put(&world_etcd.now, key, value, len);
}

static void no_earlier(uint64_t *until, uint64_t ns)
{
        if (*until < sim.now + ns)
                *until = sim.now + ns;
}

void sim_etcd_down(uint64_t ns)
{
        sim_trace("etcd is down for %.3f s", (double)ns / 1e9);
        no_earlier(&world_etcd.down_until, ns);
}

void sim_etcd_cut(unsigned host, uint64_t ns)
{
        sim_trace("host %u does not reach etcd for %.3f s", host, (double)ns / 1e9);
        no_earlier(&world_etcd.cut_until[host], ns);
}

void sim_etcd_lossy(uint64_t ns)
{
        sim_trace("etcd loses requests and answers for %.3f s", (double)ns / 1e9);
        no_earlier(&world_etcd.lossy_until, ns);
}

void sim_etcd_keep(void)
{
        if (world_etcd.is_restored)
                return;
        sim_trace("etcd: a backup is made, revision %lld", (long long)world_etcd.now.revision);
        me_copy(&world_etcd.backup, &world_etcd.now);
        world_etcd.has_backup = true;
}

bool sim_etcd_restore(void)
{
        if (!world_etcd.has_backup || world_etcd.is_restored)
                return false;
        sim_trace("etcd is restored from its backup, revision %lld", (long long)world_etcd.backup.revision);
        me_copy(&world_etcd.right, &world_etcd.now);
        me_copy(&world_etcd.now, &world_etcd.backup);
        world_etcd.cluster_id++;
        world_etcd.is_restored = true;
        sim_etcd_figures.restored++;
        return true;
}

bool sim_etcd_right(void)
{
        if (!world_etcd.is_restored)
                return false;
        sim_trace("etcd is put right again");
        me_copy(&world_etcd.now, &world_etcd.right);
        world_etcd.cluster_id--;
        world_etcd.is_restored = false;
        return true;
}

void sim_etcd_heal(void)
{
        world_etcd.down_until = world_etcd.lossy_until = 0;
        memset(world_etcd.cut_until, 0, sizeof(world_etcd.cut_until));
        world_etcd.step = NULL;
}

void sim_etcd_expect(const char *key, void (*step)(void))
{
        world_etcd.key = key;
        world_etcd.step = step;
}
