/*
 * served_term.c - what a drive server says to leaders and candidates: OPEN of one drive, on its owner
 * loop; PING, RELEASE, STATE and PREPARE of a pool, on the connection's loop.
 *
 * What binds the drives of a pool is decided under the pool's lock (grant.c), in this order: an OPEN
 * ends the renewals of older terms, then the drive is asked, which refuses older terms from there on;
 * no ping comes between. A ping is answered with the slots that the node serves at that moment.
 */
#include "remote/drive_server.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- pools ----------------------------------------------------------------------------------- */

static struct rem_pool *pool_find(struct rem_server *server, uint32_t number)
{
        struct rem_pool *pool = atomic_load(&server->pools);

        while (pool != NULL && pool->pool != number)
                pool = pool->next;
        return pool;
}

struct rem_pool *server_pool(struct rem_server *server, uint32_t number)
{
        struct rem_pool *pool;

        pthread_mutex_lock(&server->lock);
        pool = pool_find(server, number);
        if (pool == NULL)
                pool = calloc(1, sizeof(*pool));
        if (pool != NULL && pool->grant.grant_ns == 0) {
                pool->pool = number;
                pthread_mutex_init(&pool->lock, NULL);
                rem_grant_init(&pool->grant, server->options.term_ms, server_now(server));
                pool->next = atomic_load(&server->pools);
                atomic_store(&server->pools, pool);
        }
        pthread_mutex_unlock(&server->lock);
        return pool;
}

void server_pools_free(struct rem_server *server)
{
        struct rem_pool *pool, *next;

        for (pool = atomic_load(&server->pools); pool != NULL; pool = next) {
                next = pool->next;
                pthread_mutex_destroy(&pool->lock);
                free(pool);
        }
        atomic_store(&server->pools, NULL);
}

void served_bind(struct rem_served *served)
{
        struct rem_pool *pool = served->in;

        pthread_mutex_lock(&pool->lock);
        eng_drive_term(served->drive, &served->durable.term, served->durable.cluster);
        served->admitted = served->durable.term;
        rem_grant_serve(&pool->grant, served->slot, &served->durable.term, server_now(served->server));
        pthread_mutex_unlock(&pool->lock);
}

void served_unbind(struct rem_served *served)
{
        pthread_mutex_lock(&served->in->lock);
        rem_grant_withdraw(&served->in->grant, served->slot);
        pthread_mutex_unlock(&served->in->lock);
}

/* ---- OPEN ------------------------------------------------------------------------------------ */

static void served_open_durable(struct served_request *r)
{
        struct rem_served *served = r->served;
        const struct rem_server_options *options = &served->server->options;
        struct rem_before before;
        bool newer;

        pthread_mutex_lock(&served->in->lock);
        before = served->durable;
        newer = eng_term_compare(&r->head.term, &served->in->grant.opened) > 0;
        if (eng_term_compare(&r->head.term, &before.term) >= 0) {
                served->durable.term = served->serves = r->head.term;
                memcpy(served->durable.cluster, r->op.open.cluster, FMT_ID);
        }
        rem_grant_opened(&served->in->grant, served->slot, &r->head.term);
        pthread_mutex_unlock(&served->in->lock);
        if (newer && options->opened != NULL)
                options->opened(options->opened_arg);
        served->identity.features |= FMT_FEATURE_TERMS;
        served_facts_say(r, &before);
}

static void served_open_done(struct eng_op *op)
{
        struct served_request *r = container_of(op, struct served_request, op);

        assert(lp_self() == r->served->owner);
        switch (op->result) {
        case 0:
                served_open_durable(r);
                return;
        case -ESTALE:
                served_refuse_term(r, REM_DEPOSED, &op->open.newest, 0);
                return;
        case -EXDEV:
                served_refuse_term(r, REM_OTHER_CLUSTER, &op->open.newest, 0);
                return;
        case -EIO:
                served_refuse(r, REM_FAILED);
                return;
        case -EAGAIN:
                served_refuse(r, REM_NO_MEMORY);
                return;
        default:
                served_refuse(r, REM_BAD);
                return;
        }
}

/* A new leader: nobody has a session of the drive. */
static void served_open_admit(struct rem_served *served, const struct eng_term *term)
{
        bool another = !eng_term_same(&served->admitted, term);

        served->admitted = *term;
        served->is_open = true;
        if (!another)
                return;
        served_watch_end(served, REM_DEPOSED);
        served->holder = NULL;
        served->holder_boot = served->session = served->commits = 0;
}

static bool of_other_cluster(const struct rem_before *durable, const struct eng_term *term,
                             const uint8_t cluster[FMT_ID])
{
        return !eng_term_is_none(&durable->term) && term->generation == durable->term.generation &&
               memcmp(cluster, durable->cluster, FMT_ID) != 0;
}

void served_open(struct lp_msg *msg)
{
        struct served_request *r = container_of(msg, struct served_request, msg);
        struct rem_served *served = r->served;
        const struct eng_term *term = &r->head.term;
        const uint8_t *cluster = r->request->body + sizeof(struct rem_head);
        enum rem_grant_says says = REM_GRANT_YES;
        struct eng_term newest;
        uint64_t left = 0;
        bool other;

        assert(lp_self() == served->owner);
        if (r->request->body_len != sizeof(struct rem_head) + FMT_ID || r->request->bulk_len != 0 ||
            eng_term_is_none(term)) {
                served_refuse(r, REM_BAD);
                return;
        }
        pthread_mutex_lock(&served->in->lock);
        other = of_other_cluster(&served->durable, term, cluster) || atomic_load(&served->server->distrusts);
        newest = served->durable.term;
        if (!other)
                says = rem_grant_open(&served->in->grant, served->slot, term, server_now(served->server), &left,
                                      &newest);
        pthread_mutex_unlock(&served->in->lock);
        if (other || says != REM_GRANT_YES) {
                served_refuse_term(r,
                                   other                    ? REM_OTHER_CLUSTER
                                   : says == REM_GRANT_WAIT ? REM_GRANTED
                                                            : REM_DEPOSED,
                                   &newest, left);
                return;
        }
        served_open_admit(served, term);
        r->op = (struct eng_op){.kind = ENG_OP_OPEN, .flags = ENG_OP_RESERVE, .term = *term, .done = served_open_done};
        memcpy(r->op.open.cluster, cluster, FMT_ID);
        eng_drive_submit(served->drive, &r->op);
}

/* ---- PING, RELEASE, STATE, PREPARE -------------------------------------------------------------------- */

/* An answer with memory of its own. */
struct pool_answer {
        struct net_answer answer;
        struct rem_pool_head head;
        struct rem_slot slots[REM_SLOTS_MAX]; /* behind the head, as they are sent */
};
_Static_assert(offsetof(struct pool_answer, slots) == offsetof(struct pool_answer, head) + sizeof(struct rem_pool_head),
               "one body");

static void pool_answered(struct net_request *request)
{
        free(request->user);
}

static void pool_refuse(struct net_request *request, enum rem_status status)
{
        struct net_answer answer = {.status = (int32_t)status};

        request->answered = NULL;
        net_reply(request, &answer);
}

static int slot_order(const void *a, const void *b)
{
        const struct rem_slot *x = a, *y = b;

        return (x->slot > y->slot) - (x->slot < y->slot);
}

/* What is served of a pool now. */
static uint32_t pool_list_slots(struct rem_server *server, struct rem_pool *pool, struct rem_slot *slots)
{
        uint32_t count = 0;
        unsigned i;

        for (i = 0; i < REM_DRIVES_MAX && count < REM_SLOTS_MAX; i++) {
                struct rem_served *served = atomic_load(&server->served[i]);
                struct rem_slot *slot = &slots[count];
                struct eng_drive_info info;

                if (served == NULL || served->in != pool || !served_get(served))
                        continue;
                eng_drive_info(served->drive, &info);
                *slot = (struct rem_slot){.incarnation = served->incarnation, .slot = served->slot};
                memcpy(slot->drive_id, served->identity.drive_id, FMT_ID);
                pthread_mutex_lock(&pool->lock);
                slot->durable = served->durable.term;
                memcpy(slot->cluster, served->durable.cluster, FMT_ID);
                if (!eng_term_is_none(&served->serves) && eng_term_same(&served->serves, &pool->grant.seen))
                        slot->flags |= REM_SLOT_OPENED;
                pthread_mutex_unlock(&pool->lock);
                slot->flags |= (info.state == ENG_DRIVE_FAILED ? REM_SLOT_FAILED : 0) |
                               (info.starved || eng_drive_exhausted(served->drive) ? REM_SLOT_FULL : 0);
                served_put(served);
                count++;
        }
        qsort(slots, count, sizeof(*slots), slot_order);
        return count;
}

static void pool_say(struct net_request *request, struct pool_answer *a)
{
        a->answer.status = REM_DONE;
        a->answer.body = &a->head;
        a->answer.body_len = (uint32_t)(sizeof(a->head) + a->head.count * sizeof(a->slots[0]));
        request->user = a;
        request->answered = pool_answered;
        net_reply(request, &a->answer);
}

static enum rem_status pool_status(enum rem_grant_says says)
{
        return says == REM_GRANT_YES ? REM_DONE : says == REM_GRANT_DEPOSED ? REM_DEPOSED : REM_NOT_OPEN;
}

/* Under the pool's lock, at once: what is answered is of one moment. */
static enum rem_status pool_do(const struct rem_server *server, struct rem_pool *pool, uint32_t operation,
                               const struct eng_term *term, struct rem_pool_head *out)
{
        uint64_t now = server_now(server);
        struct rem_grant *g = &pool->grant;
        enum rem_grant_says says = REM_GRANT_YES;

        if (operation == REM_PING)
                says = rem_grant_ping(g, term, now);
        else if (operation == REM_RELEASE)
                says = rem_grant_release(g, term, now);
        out->left_ns = rem_grant_left(g, now, &out->granted);
        out->heard_ns = now - g->heard;
        out->newest = g->seen;
        out->opened = g->opened;
        out->flags = (uint16_t)((g->released ? REM_POOL_RELEASED : 0) | (g->any ? REM_POOL_HEARD : 0));
        out->note = (uint16_t)(atomic_load(&server->note) | (pool->prepared ? REM_NOTE_PREPARED : 0));
        return pool_status(says);
}

static void pool_answer(struct rem_server *server, struct net_request *request, struct rem_pool *pool,
                        const struct eng_term *term)
{
        struct pool_answer *a = calloc(1, sizeof(*a));
        struct rem_refusal refusal = {0};
        enum rem_status status;

        if (a == NULL) {
                pool_refuse(request, REM_NO_MEMORY);
                return;
        }
        /* First, so that an incarnation that is gone is not named with a grant that began later. */
        a->head.count = pool_list_slots(server, pool, a->slots);
        if (a->head.count == 0) {
                free(a);
                pool_refuse(request, REM_UNKNOWN_DRIVE);
                return;
        }
        pthread_mutex_lock(&pool->lock);
        status = pool_do(server, pool, request->operation, term, &a->head);
        pthread_mutex_unlock(&pool->lock);
        if (status == REM_DONE && request->operation == REM_RELEASE && server->options.released != NULL)
                server->options.released(server->options.released_arg);
        if (status == REM_DONE) {
                pool_say(request, a);
                return;
        }
        refusal.newest = a->head.newest;
        memcpy(&a->head, &refusal, sizeof(refusal));
        a->answer.status = (int32_t)status;
        a->answer.body = &a->head;
        a->answer.body_len = sizeof(refusal);
        request->user = a;
        request->answered = pool_answered;
        net_reply(request, &a->answer);
}

void rem_server_distrust(struct rem_server *server)
{
        atomic_store(&server->distrusts, true);
}

void rem_server_pool_state(struct rem_server *server, uint32_t number, struct rem_pool_state *out)
{
        static const struct eng_term none;
        struct rem_pool *pool = pool_find(server, number);
        struct rem_pool_head head = {0};

        out->said = REM_SAID_ABSENT;
        out->count = 0;
        if (pool == NULL)
                return;
        head.count = pool_list_slots(server, pool, out->slots);
        if (head.count == 0)
                return;
        pthread_mutex_lock(&pool->lock);
        pool_do(server, pool, REM_STATE, &none, &head);
        pthread_mutex_unlock(&pool->lock);
        rem_pool_state_take(out, &head);
        out->said = REM_SAID_DONE;
}

void rem_server_note(struct rem_server *server, unsigned note)
{
        atomic_store(&server->note, note);
}

int rem_server_prepared(struct rem_server *server, uint32_t number, bool prepared)
{
        struct rem_pool *pool = server_pool(server, number);

        if (pool == NULL)
                return -ENOMEM;
        pthread_mutex_lock(&pool->lock);
        pool->prepared = prepared;
        pthread_mutex_unlock(&pool->lock);
        return 0;
}

/* Not by the pool's lock: whoever is asked may say so at once. */
static void pool_prepare(struct rem_server *server, struct net_request *request, uint32_t pool)
{
        static const enum rem_status status[] = {
                [REM_PREPARED_NO] = REM_FAILED, [REM_PREPARED_SOON] = REM_BUSY, [REM_PREPARED_YES] = REM_DONE};
        const struct rem_server_options *options = &server->options;
        struct net_answer answer = {.status = REM_FAILED};

        if (options->prepare != NULL && !atomic_load(&server->distrusts))
                answer.status = (int32_t)status[options->prepare(options->prepare_arg, pool)];
        request->answered = NULL;
        net_reply(request, &answer);
}

static bool has_no_term(uint32_t operation)
{
        return operation == REM_STATE || operation == REM_PREPARE;
}

void server_pool_request(struct rem_server *server, struct net_request *request)
{
        static const uint8_t none[FMT_ID];
        struct rem_head head = {0};
        struct rem_pool *pool;
        bool sound = request->body_len == sizeof(head) && request->bulk_len == 0 && request->link == NET_CONTROL;

        if (sound)
                memcpy(&head, request->body, sizeof(head));
        if (sound && !server_knows_term(request, &head.term))
                sound = false;
        if (!sound || head.zero != 0 || head.flags != 0 || head.slot != 0 || head.offset != 0 ||
            head.incarnation != 0 || head.session != 0 || head.commits != 0 ||
            memcmp(head.drive_id, none, FMT_ID) != 0 || !eng_term_is_sound(&head.term) ||
            eng_term_is_none(&head.term) != has_no_term(request->operation)) {
                pool_refuse(request, REM_BAD);
                return;
        }
        pool = pool_find(server, head.pool);
        if (pool == NULL)
                pool_refuse(request, REM_UNKNOWN_DRIVE);
        else if (request->operation == REM_PREPARE)
                pool_prepare(server, request, head.pool);
        else
                pool_answer(server, request, pool, &head.term);
}
