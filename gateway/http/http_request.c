/*
 * http_request.c - life and memory of one request: its states, its arena, its place in the
 * library's suspend and resume.
 *
 * Called by http.c (the library's side) and by every operation; all on the request's loop. A
 * suspended request is never freed: the library closes no suspended connection, and only a closed
 * or finished one is completed. One that asks without being suspended stays behind its connection
 * until it is told. I9: structures are bounded by connections, but for these, of which each waits
 * for one lookup.
 */
#include "gateway/http/http_request.h"
#include "gateway/http/budget.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gw_arena_block {
        struct gw_arena_block *next;
        char bytes[] __attribute__((aligned(16)));
};

#define GW_ARENA_BLOCK 4096u

uint64_t gw_clock_ns(void)
{
        return lp_clock();
}

/* ---- arena ----------------------------------------------------------------------------------- */

static void *arena_more(struct gw_arena *arena, size_t size)
{
        struct gw_arena_block *block;
        size_t room = size > GW_ARENA_BLOCK ? size : GW_ARENA_BLOCK;

        if (arena->blocks == NULL || arena->more_size - arena->more_used < size) {
                block = malloc(sizeof(*block) + room);
                if (block == NULL)
                        return NULL;
                block->next = arena->blocks;
                arena->blocks = block;
                arena->more_used = 0;
                arena->more_size = room;
        }
        arena->more_used += size;
        return arena->blocks->bytes + arena->more_used - size;
}

static void *arena_take(struct gw_request *req, size_t size)
{
        struct gw_arena *arena = &req->arena;
        size_t rounded = (size + 15) & ~(size_t)15;

        if (GW_ARENA_INLINE - arena->used >= rounded) {
                arena->used += rounded;
                return arena->bytes + arena->used - rounded;
        }
        return arena_more(arena, rounded);
}

void *gw_alloc(struct gw_request *req, size_t size)
{
        void *p = arena_take(req, size);

        if (p != NULL)
                memset(p, 0, size);
        return p;
}

char *gw_copy(struct gw_request *req, struct s3_str text)
{
        char *p = arena_take(req, text.len + 1);

        if (p != NULL) {
                if (text.len > 0)
                        memcpy(p, text.data, text.len);
                p[text.len] = '\0';
        }
        return p;
}

char *gw_printf(struct gw_request *req, const char *format, ...)
{
        char text[512];
        va_list args;
        char *p;
        int n;

        va_start(args, format);
        n = vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        if (n < 0)
                return NULL;
        p = arena_take(req, (size_t)n + 1);
        if (p == NULL)
                return NULL;
        va_start(args, format);
        vsnprintf(p, (size_t)n + 1, format, args);
        va_end(args);
        return p;
}

void gw_arena_free(struct gw_arena *arena)
{
        struct gw_arena_block *block;

        while ((block = arena->blocks) != NULL) {
                arena->blocks = block->next;
                free(block);
        }
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Not a counter in the clear: it also tells requests of different starts apart. */
static uint64_t make_id(struct gw_loop *loop, char id[17])
{
        static const char digits[] = "0123456789ABCDEF";
        uint64_t n = loop->next_id++ * 0x9e3779b97f4a7c15ull;

        n ^= n >> 29;
        n *= 0xbf58476d1ce4e5b9ull;
        n ^= n >> 32;
        for (unsigned i = 0; i < 16; i++)
                id[i] = digits[(n >> (60 - 4 * i)) & 15];
        id[16] = '\0';
        return n;
}

struct gw_request *gw_request_new(struct gw_loop *loop, const char *target)
{
        struct gw_request *req = STAILQ_FIRST(&loop->spare);
        size_t len = strlen(target);

        if (req != NULL) {
                STAILQ_REMOVE_HEAD(&loop->spare, spare);
                loop->spare_count--;
        } else {
                req = malloc(sizeof(*req));
                if (req == NULL)
                        return NULL;
        }
        memset(req, 0, offsetof(struct gw_request, arena.bytes));
        req->alive = GW_REQUEST_ALIVE;
        req->loop = loop;
        req->store = loop->gw->store;
        req->started_ns = req->state_ns = gw_clock_ns();
        req->op = &gw_op_none;
        req->number = make_id(loop, req->id);
        lp_trace_set_request(req->number);
        lp_trace_at(req->started_ns, LP_TRACE_HTTP_BEGIN, 0, 0);
        gw_count(&loop->stats.requests_active, 1);
        gw_count(&loop->stats.requests_total, 1);
        req->target = (struct s3_str){gw_copy(req, (struct s3_str){target, len}), len};
        if (req->target.data == NULL) {
                gw_request_free(req);
                return NULL;
        }
        return req;
}

void gw_request_release(struct gw_request *req)
{
        if (req->carrier != NULL)
                req->carrier->drop(req);
        if (req->get != NULL) {
                eng_get_close(req->get);
                req->get = NULL;
        }
        if (req->put != NULL) {
                eng_put_abort(req->put);
                req->put = NULL;
        }
        if (req->release != NULL) {
                req->release(req);
                req->release = NULL;
        }
        if (req->body != NULL)
                gw_body_free(req);
}

/* Only at the end of the process, one thread. */
static struct gw_request *orphans;

static void keep_orphan(struct gw_request *req)
{
        req->orphan = true;
        req->spare.stqe_next = orphans;
        orphans = req;
}

void gw_requests_abandon(struct gw_loop *loop)
{
        struct gw_request *req;

        while ((req = STAILQ_FIRST(&loop->left)) != NULL) {
                STAILQ_REMOVE_HEAD(&loop->left, spare);
                keep_orphan(req);
        }
}

/* Nobody knows it any more. */
static void put_away(struct gw_request *req)
{
        struct gw_loop *loop = req->loop;

        assert(req->alive == GW_REQUEST_ALIVE && !req->suspended);
        req->alive = 0;
        free(req->answer.buffer);
        gw_answer_unbook(req);
        eng_kept_release(req->answer.kept);
        if (req->temporary != NULL)
                req->loop->gw->service->temporary_put(req->temporary);
        if (req->streaming) {
                assert(loop->streams > 0);
                loop->streams--;
        }
        gw_arena_free(&req->arena);
        gw_count(&loop->stats.requests_active, (uint64_t)-1);
        if (req->changing)
                gw_count(&loop->stats.changes_active, (uint64_t)-1);
        if (loop->spare_count < GW_REQUESTS_KEPT) {
                STAILQ_INSERT_HEAD(&loop->spare, req, spare);
                loop->spare_count++;
        } else {
                free(req);
        }
}

void gw_request_free(struct gw_request *req)
{
        assert(req->alive == GW_REQUEST_ALIVE && !req->suspended && !req->left);
        gw_request_release(req);
        if (req->orphan) { /* the engine may still call it back: kept to the end of the process */
                keep_orphan(req);
        } else if (req->asking) {
                req->left = true;
                STAILQ_INSERT_TAIL(&req->loop->left, req, spare);
        } else {
                put_away(req);
        }
}

/* ---- states ---------------------------------------------------------------------------------- */

#define FROM(state) (1u << GW_##state)

static enum gw_stage stage_of(const struct gw_request *req, enum gw_state state)
{
        static const enum gw_stage stages[] = {
                [GW_BEGIN] = GW_STAGE_LOOK,   [GW_CHECKED] = GW_STAGE_WORK, [GW_BODY] = GW_STAGE_BODY,
                [GW_DRAIN] = GW_STAGE_BODY,   [GW_RUN] = GW_STAGE_WORK,     [GW_ANSWER] = GW_STAGE_SEND,
                [GW_SENDING] = GW_STAGE_SEND, [GW_GONE] = GW_STAGE_SEND,
        };

        return state == GW_LINE ? req->head : stages[state];
}

void gw_request_leaves(struct gw_request *req, uint64_t now)
{
        lp_times_add(&req->loop->stats.stage[stage_of(req, req->state)], now - req->state_ns);
        req->state_ns = now;
}

void gw_request_head(struct gw_request *req, enum gw_stage stage)
{
        assert(req->state == GW_LINE);
        gw_request_leaves(req, gw_clock_ns());
        req->head = stage;
}

void gw_request_move(struct gw_request *req, enum gw_state state)
{
        static const unsigned allowed[] = {
                [GW_LINE] = 0,
                [GW_BEGIN] = FROM(LINE),
                [GW_CHECKED] = FROM(BEGIN),
                [GW_BODY] = FROM(BEGIN),
                [GW_DRAIN] = FROM(LINE) | FROM(BEGIN) | FROM(BODY),
                [GW_RUN] = FROM(CHECKED) | FROM(BODY),
                [GW_ANSWER] = FROM(LINE) | FROM(BEGIN) | FROM(CHECKED) | FROM(BODY) | FROM(DRAIN) | FROM(RUN),
                [GW_SENDING] = FROM(ANSWER),
                [GW_GONE] = ~0u,
        };
        uint64_t now;

        assert(req->alive == GW_REQUEST_ALIVE);
        assert((allowed[state] & (1u << req->state)) != 0);
        now = gw_clock_ns();
        if (stage_of(req, state) != stage_of(req, req->state))
                gw_request_leaves(req, now);
        lp_trace_at(now, LP_TRACE_HTTP_STATE, state, gw_op_index(req->loop->gw->service, req->op));
        req->state = state;
}

void gw_request_wait(struct gw_request *req)
{
        assert(req->alive == GW_REQUEST_ALIVE && lp_self() == req->loop->lp);
        assert(req->inside && !req->suspended);
        req->suspended = true;
        MHD_suspend_connection(req->mhd);
}

void gw_request_wake(struct gw_request *req)
{
        assert(req->alive == GW_REQUEST_ALIVE);
        if (!req->suspended)
                return;
        assert(req->conn->request == req);
        req->suspended = false;
        req->conn->listener->due = true;
        MHD_resume_connection(req->mhd);
}

void gw_request_ask(struct gw_request *req)
{
        assert(lp_self() == req->loop->lp);
        assert(!req->asking && !req->left);
        req->asking = true;
}

bool gw_request_told(struct gw_request *req)
{
        assert(req->alive == GW_REQUEST_ALIVE);
        assert(req->asking || !req->left);
        req->asking = false;
        if (req->left && !req->orphan) {
                STAILQ_REMOVE(&req->loop->left, req, gw_request, spare);
                put_away(req);
                return false;
        }
        return !req->orphan;
}

void gw_begin_done(struct gw_request *req)
{
        assert(!req->begun);
        req->begun = true;
        gw_request_wake(req);
}

/* ---- head ------------------------------------------------------------------------------------ */

struct s3_str gw_header(const struct gw_request *req, const char *name)
{
        struct s3_str wanted = s3_str_of(name);

        for (unsigned i = 0; i < req->header_count; i++) {
                if (req->headers[i].name.len == wanted.len && s3_str_eq_nocase(req->headers[i].name, wanted))
                        return s3_str_trim(req->headers[i].value);
        }
        return (struct s3_str){NULL, 0};
}

struct s3_str gw_query(const struct gw_request *req, const char *name)
{
        const struct s3_query_param *param = s3_query_find(req->query, name);

        return param != NULL ? param->value : (struct s3_str){NULL, 0};
}

bool gw_query_has(const struct gw_request *req, const char *name)
{
        return s3_query_find(req->query, name) != NULL;
}
