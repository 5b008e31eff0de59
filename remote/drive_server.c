/*
 * drive_server.c - a drive server: which drives are served, who asks, and how requests end.
 *
 * Called on the loops of connections; what concerns one drive is decided on the drive's own loop, so
 * that what came first is done first. A request has a reference of its drive from its first byte to
 * its answer's last, so that a drive that is withdrawn knows when nothing of it is used any more.
 */
#include "remote/drive_server.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/drive/identity.h"

/* ---- the drives ------------------------------------------------------------------------------ */

int rem_server_new(struct rem_server **out)
{
        struct rem_server *server = calloc(1, sizeof(*server));

        if (server == NULL)
                return -ENOMEM;
        pthread_mutex_init(&server->lock, NULL);
        *out = server;
        return 0;
}

void rem_server_free(struct rem_server *server)
{
        unsigned i;

        if (server == NULL)
                return;
        for (i = 0; i < REM_DRIVES_MAX; i++)
                assert(atomic_load(&server->served[i]) == NULL);
        server_pools_free(server);
        while (server->retired != NULL) {
                struct rem_served *served = server->retired;

                server->retired = served->next;
                free(served);
        }
        pthread_mutex_destroy(&server->lock);
        free(server);
}

void rem_server_set(struct rem_server *server, const struct rem_server_options *options)
{
        assert(atomic_load(&server->pools) == NULL);
        server->options = *options;
}

uint64_t server_now(const struct rem_server *server)
{
        return server->options.now != NULL ? server->options.now(server->options.now_arg) : lp_boot_clock();
}

static void served_stopped(struct lp_msg *msg)
{
        served_watch_kick(container_of(msg, struct rem_served, stop_msg));
}

void rem_server_stop(struct rem_server *server)
{
        unsigned i;

        if (atomic_exchange(&server->stopped, true))
                return;
        pthread_mutex_lock(&server->lock);
        for (i = 0; i < REM_DRIVES_MAX; i++) {
                struct rem_served *served = atomic_load(&server->served[i]);

                if (served == NULL)
                        continue;
                served->stop_msg.run = served_stopped;
                lp_post(served->owner, &served->stop_msg);
        }
        pthread_mutex_unlock(&server->lock);
}

int rem_served_new(struct rem_server *server, uint32_t pool, unsigned slot, struct lp_loop *owner,
                   struct rem_served **out)
{
        struct rem_served *served;

        if (slot >= ENG_DRIVES_MAX || owner == NULL)
                return -EINVAL;
        served = calloc(1, sizeof(*served));
        if (served == NULL)
                return -ENOMEM;
        served->in = server_pool(server, pool);
        if (served->in == NULL) {
                free(served);
                return -ENOMEM;
        }
        served->server = server;
        served->pool = pool;
        served->slot = slot;
        served->owner = owner;
        STAILQ_INIT(&served->reports);
        served->report_first = 1;
        while (served->incarnation == 0)
                lp_random(&served->incarnation, sizeof(served->incarnation));
        *out = served;
        return 0;
}

void rem_served_close(struct rem_served *served)
{
        if (served->drive != NULL)
                served->drive->ops->close(served->drive);
        served->drive = NULL;
}

struct eng_drive *rem_served_drive(const struct rem_served *served)
{
        return served->drive;
}

int rem_served_publish(struct rem_served *served, struct eng_drive *drive, const struct eng_identity *identity)
{
        struct rem_server *server = served->server;
        unsigned i, empty = REM_DRIVES_MAX;
        int rv = 0;

        assert(served->drive == NULL && atomic_load(&served->refs) == 0);
        pthread_mutex_lock(&server->lock);
        for (i = 0; i < REM_DRIVES_MAX; i++) {
                const struct rem_served *other = atomic_load(&server->served[i]);

                if (other == NULL && empty == REM_DRIVES_MAX)
                        empty = i;
                if (other != NULL && other->pool == served->pool && other->slot == served->slot)
                        rv = -EEXIST;
        }
        if (rv == 0 && empty == REM_DRIVES_MAX)
                rv = -ENOSPC;
        if (rv == 0) {
                served->drive = drive;
                served->identity = *identity;
                served_bind(served);
                atomic_store(&served->refs, 1);
                atomic_store(&server->served[empty], served);
        }
        pthread_mutex_unlock(&server->lock);
        return rv;
}

int rem_served_open(struct rem_served *served, const struct eng_local_options *options, struct eng_error *error)
{
        struct eng_local_options local = *options;
        struct eng_drive *drive;
        int rv;

        local.identity.slot = served->slot;
        local.owner = served->owner;
        local.failed = rem_served_failed;
        local.superseded = rem_served_superseded;
        local.arg = served;
        rv = eng_local_open(&local, &drive, error);
        if (rv != 0)
                return rv;
        rv = rem_served_publish(served, drive, &local.identity);
        if (rv != 0) { /* of a slot that is served already: it is the caller's to close, and to free */
                served->drive = drive;
                eng_error_set(error, rv, "%s: slot %u of pool %u cannot be served", options->path, served->slot,
                              served->pool);
        }
        return rv;
}

static void served_gone(struct lp_msg *msg)
{
        struct rem_served *served = container_of(msg, struct rem_served, gone_msg);

        lp_timer_stop(served->owner, &served->watch_timer);
        served->gone(served->gone_arg);
}

void served_put(struct rem_served *served)
{
        if (atomic_fetch_sub(&served->refs, 1) > 1)
                return;
        served->gone_msg.run = served_gone;
        lp_post(served->owner, &served->gone_msg);
}

bool served_get(struct rem_served *served)
{
        unsigned refs = atomic_load(&served->refs);

        while (refs > 0)
                if (atomic_compare_exchange_weak(&served->refs, &refs, refs + 1))
                        return true;
        return false;
}

/* Under the lock. */
static void server_forget(struct rem_server *server, const struct rem_served *served)
{
        unsigned i;

        for (i = 0; i < REM_DRIVES_MAX; i++)
                if (atomic_load(&server->served[i]) == served)
                        atomic_store(&server->served[i], NULL);
}

static void served_withdrawn(struct lp_msg *msg)
{
        struct rem_served *served = container_of(msg, struct rem_served, gone_msg);

        served_watch_end(served, REM_UNKNOWN_DRIVE);
        served_put(served);
}

void rem_served_withdraw(struct rem_served *served, void (*gone)(void *arg), void *arg)
{
        struct rem_server *server = served->server;

        served->gone = gone;
        served->gone_arg = arg;
        pthread_mutex_lock(&server->lock);
        server_forget(server, served);
        served_unbind(served);
        pthread_mutex_unlock(&server->lock);
        served->gone_msg.run = served_withdrawn;
        lp_post(served->owner, &served->gone_msg);
}

void rem_served_free(struct rem_served *served)
{
        struct rem_server *server;

        if (served == NULL)
                return;
        server = served->server;
        served_reports_free(served);
        if (!served->scratch_out) /* else the kernel may have it yet (I7) */
                free(served->scratch);
        pthread_mutex_lock(&server->lock);
        server_forget(server, served);
        served->next = server->retired;
        server->retired = served;
        pthread_mutex_unlock(&server->lock);
}

struct rem_served *server_find(struct rem_server *server, uint32_t pool, unsigned slot)
{
        unsigned i;

        for (i = 0; i < REM_DRIVES_MAX; i++) {
                struct rem_served *served = atomic_load(&server->served[i]);

                if (served != NULL && served->pool == pool && served->slot == slot)
                        return served;
        }
        return NULL;
}

/* ---- who may --------------------------------------------------------------------------------- */

/* Whether an operation begins a session. */
static bool op_begins(const struct net_request *request)
{
        const uint8_t *body = request->body + sizeof(struct rem_head);
        uint32_t flags;

        if (request->operation != REM_OP || request->body_len < sizeof(struct rem_head) + 1 + sizeof(flags))
                return false;
        memcpy(&flags, body + 1, sizeof(flags)); /* the kind is before them (engine/drive/wire.c) */
        return (flags & ENG_OP_ANEW) != 0;
}

bool server_knows_term(const struct net_request *request, const struct eng_term *term)
{
        return eng_term_is_sound(term) &&
               (eng_term_is_none(term) || (term->node == net_peer_node(request->peer) && term->boot == request->boot));
}

enum rem_status served_term_allows(const struct rem_served *served, const struct eng_term *term)
{
        int order = eng_term_compare(term, &served->admitted);

        if (eng_term_is_none(&served->admitted) && eng_term_is_none(term))
                return REM_DONE; /* no cluster */
        if (order > 0 || (order == 0 && !served->is_open))
                return REM_NOT_OPEN;
        return order == 0 && eng_term_same(term, &served->admitted) ? REM_DONE : REM_DEPOSED;
}

enum rem_status served_admit(struct rem_served *served, const struct served_request *r, bool begins)
{
        const struct net_request *request = r->request;
        bool same = served->holder == request->peer && served->holder_boot == request->boot;

        enum rem_status status = served_term_allows(served, &r->head.term);

        assert(lp_self() == served->owner);
        if (status != REM_DONE)
                return status;
        if (served->holder == request->peer && served->holder_boot > request->boot)
                return REM_DEPOSED; /* an old process of the same node */
        if (begins) {
                if (same && r->head.session <= served->session)
                        return REM_OLD_SESSION;
                served->holder = request->peer;
                served->holder_boot = request->boot;
                served->session = r->head.session;
                served->commits = 0;
                return REM_DONE;
        }
        return same && r->head.session == served->session ? REM_DONE : REM_OLD_SESSION;
}

static unsigned flags_of(uint32_t operation)
{
        return operation == REM_INFO ? REM_BEGIN : operation == REM_OP ? REM_HOME : 0;
}

/* Form, link, drive and incarnation. REM_DONE: out is a drive that is held. */
static enum rem_status server_look(struct rem_server *server, const struct net_request *request, struct rem_head *head,
                                   struct rem_served **out)
{
        static const uint8_t any[FMT_ID];
        const uint8_t *body = request->body + sizeof(*head);
        struct rem_served *served;
        bool begins;

        if (request->body_len <= sizeof(*head) || !rem_is_operation(request->operation))
                return REM_BAD;
        memcpy(head, request->body, sizeof(*head));
        if (head->zero != 0 || head->slot >= ENG_DRIVES_MAX || !server_knows_term(request, &head->term) ||
            (head->flags & ~flags_of(request->operation)) != 0)
                return REM_BAD;
        if (request->operation == REM_WATCH ? request->link != NET_CONTROL
            : request->operation == REM_OP && rem_is_bulk((enum eng_op_kind)body[0])
                    ? request->link != NET_BULK_0 && request->link != NET_BULK_1
                    : request->link != NET_LOG)
                return REM_BAD;
        served = server_find(server, head->pool, head->slot);
        if (served == NULL || (memcmp(head->drive_id, served->identity.drive_id, FMT_ID) != 0 &&
                               ((request->operation != REM_INFO && request->operation != REM_OPEN) ||
                                memcmp(head->drive_id, any, FMT_ID) != 0)))
                return REM_UNKNOWN_DRIVE;
        begins = request->operation == REM_INFO || request->operation == REM_OPEN ||
                 (op_begins(request) && request->link == NET_LOG) || ((head->flags & REM_HOME) != 0 && head->incarnation == 0);
        if (!begins && head->incarnation != served->incarnation)
                return REM_OTHER_INCARNATION;
        *out = served;
        return served_get(served) ? REM_DONE : REM_UNKNOWN_DRIVE;
}

/* ---- requests -------------------------------------------------------------------------------- */

static enum rem_status request_begin(struct rem_server *server, struct net_request *request,
                                     struct served_request **out)
{
        struct rem_served *served;
        struct served_request *r;
        struct rem_head head;
        enum rem_status status = server_look(server, request, &head, &served);

        if (status != REM_DONE)
                return status;
        if ((head.flags & REM_HOME) != 0 && atomic_load(&served->refs) > REM_REQUESTS_MAX / 2) {
                served_put(served);
                return REM_BUSY; /* the rest is the leader's, whose APPEND must never be refused because of them */
        }
        r = atomic_load(&served->refs) > REM_REQUESTS_MAX ? NULL : calloc(1, sizeof(*r));
        if (r == NULL) {
                served_put(served);
                return REM_NO_MEMORY;
        }
        r->served = served;
        r->request = request;
        r->at = lp_self();
        r->head = head;
        *out = r;
        return REM_DONE;
}

static void served_request_free(struct served_request *r)
{
        struct rem_served *served = r->served;

        assert(lp_self() == r->at);
        served_op_end(r);
        eng_buf_unref(r->values);
        free(r->more);
        free(r);
        served_put(served);
}

static void served_answered(struct net_request *request)
{
        served_request_free(request->user);
}

static void served_reply(struct lp_msg *msg)
{
        struct served_request *r = container_of(msg, struct served_request, msg);

        assert(lp_self() == r->at);
        r->answer.status = (int32_t)r->status;
        r->request->user = r;
        r->request->answered = served_answered;
        net_reply(r->request, &r->answer);
}

void served_answer(struct served_request *r)
{
        r->msg.run = served_reply;
        if (lp_self() == r->at)
                served_reply(&r->msg);
        else
                lp_post(r->at, &r->msg);
}

void served_refuse(struct served_request *r, enum rem_status status)
{
        if (status == REM_DEPOSED && lp_self() == r->served->owner) {
                served_refuse_term(r, status, &r->served->admitted, 0);
                return;
        }
        assert(status != REM_DONE && r->answer.body_len == 0 && r->answer.bulk_count == 0);
        r->status = status;
        served_answer(r);
}

void served_refuse_term(struct served_request *r, enum rem_status status, const struct eng_term *newest,
                        uint64_t left_ns)
{
        struct rem_refusal refusal = {.left_ns = left_ns, .newest = *newest};

        _Static_assert(sizeof(refusal) <= REM_SMALL_ANSWER, "small");
        assert(status != REM_DONE && r->answer.body_len == 0 && r->answer.bulk_count == 0);
        memcpy(r->small, &refusal, sizeof(refusal));
        r->answer.body = r->small;
        r->answer.body_len = sizeof(refusal);
        r->status = status;
        served_answer(r);
}

void served_prefix(const struct rem_served *served, struct rem_prefix *out)
{
        struct eng_drive *drive = served->drive;
        const bool lost_end = eng_drive_log_lost(drive);

        *out = (struct rem_prefix){.incarnation = served->incarnation,
                                   .flags = (eng_drive_exhausted(drive) ? REM_EXHAUSTED : 0) |
                                            (eng_drive_unreliable(drive) ? REM_UNRELIABLE : 0) |
                                            (eng_drive_stalled(drive) ? REM_STALLED : 0) |
                                            (eng_drive_vanished(drive) ? REM_VANISHED : 0) |
                                            (eng_drive_index_damaged(drive) ? REM_INDEX_DAMAGED : 0) |
                                            (lost_end ? REM_LOG_LOST : 0) | (lost_end || eng_drive_damage(drive) != NULL ? REM_LACKS : 0)};
}

/* Without a struct of its own: nothing of it is remembered. */
static void server_refuse(struct net_request *request, enum rem_status status)
{
        struct net_answer answer = {.status = (int32_t)status};

        request->answered = NULL;
        net_reply(request, &answer);
}

enum net_bulk rem_server_bulk(void *server, struct net_request *request)
{
        struct served_request *r = NULL;
        enum rem_status status = request_begin(server, request, &r);
        enum net_bulk bulk;

        if (status == REM_DONE) {
                request->user = r;
                bulk = request->operation == REM_OP ? served_op_bulk(r, &status) : (status = REM_BAD, NET_BULK_DISCARD);
                if (bulk != NET_BULK_DISCARD)
                        return bulk;
                served_request_free(r);
        }
        assert(status != REM_DONE);
        request->user = (void *)(uintptr_t)status; /* server_request() says so */
        return NET_BULK_DISCARD;
}

void rem_server_lost(void *server, struct net_request *request)
{
        if (!request->discarded)
                served_request_free(request->user);
}

void rem_server_request(void *server, struct net_request *request)
{
        enum rem_status status = request->discarded ? (enum rem_status)(uintptr_t)request->user : REM_DONE;
        struct served_request *r = request->discarded ? NULL : request->user;

        if (status == REM_DONE && r == NULL && request->operation >= REM_PING && request->operation < REM_END) {
                server_pool_request(server, request);
                return;
        }
        if (status == REM_DONE && r == NULL)
                status = request_begin(server, request, &r);
        if (status != REM_DONE) {
                server_refuse(request, status);
                return;
        }
        if (request->operation == REM_OP) {
                served_op(r);
                return;
        }
        r->msg.run = request->operation == REM_INFO   ? served_info
                     : request->operation == REM_OPEN ? served_open
                                                      : served_watch;
        lp_post(r->served->owner, &r->msg);
}
