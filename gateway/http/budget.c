/*
 * budget.c - memory that answers hold until the last byte is sent (I9).
 *
 * Pages of listings, gathered small objects, results of batches of deletes: they are built in
 * memory, and a client that reads slowly keeps them there. All loops share one budget,
 * answer_memory. Listings, whose work takes memory of the engine, too, wait in line for their
 * share. An answer that does not fit becomes 503 SlowDown, or is streamed where it can be; and for
 * a while after either the sweep closes connections that hold some of the budget and read less than
 * min_rate. Strangers are told what was wrong with their requests, and can make that long; all of
 * them together have a small share, so that they cannot keep clients that sign from theirs, nor
 * have slow ones of these cut.
 */
#include "gateway/http/budget.h"

#include "gateway/http/http_request.h"

#define IN_LINE_MAX     1024u          /* of one loop */
#define LINE_LONGEST_NS 10000000000ull /* longer than it takes to find a slow reader */
#define WANTED_NS 30000000000ull /* SDKs try again within this time */
#define STRANGERS_SHARE 8u       /* a part of so many */

bool gw_answer_book(struct gw_request *req, size_t size)
{
        struct gw_gateway *gw = req->loop->gw;
        bool stranger = req->access_key == NULL;
        uint64_t most = gw->limits.answer_memory / (stranger ? STRANGERS_SHARE : 1), more, before;

        if (size <= GW_UNCOUNTED || size <= req->answer.booked)
                return true;
        more = size - req->answer.booked;
        before = atomic_fetch_add_explicit(&gw->answer_memory, more, memory_order_relaxed);
        if (before != 0 && before + more > most) {
                atomic_fetch_sub_explicit(&gw->answer_memory, more, memory_order_relaxed);
                if (!stranger)
                        atomic_store_explicit(&gw->answers_refused_ns, gw_clock_ns(), memory_order_relaxed);
                return false;
        }
        req->answer.booked += more;
        return true;
}

void gw_answer_fits(struct gw_request *req, size_t size)
{
        uint64_t keeps = size > GW_UNCOUNTED ? size : 0;

        if (req->answer.booked <= keeps)
                return;
        atomic_fetch_sub_explicit(&req->loop->gw->answer_memory, req->answer.booked - keeps, memory_order_relaxed);
        req->answer.booked = keeps;
}

void gw_answer_reserve(struct gw_request *req, size_t size, void (*go)(struct gw_request *req))
{
        struct gw_loop *loop = req->loop;

        if (STAILQ_EMPTY(&loop->line) && gw_answer_book(req, size)) {
                go(req);
                return;
        }
        if (req->access_key == NULL) { /* strangers do not stand in the line, where they would be in the way */
                gw_reply_error(req, S3_ERR_SLOW_DOWN, NULL);
                return;
        }
        atomic_store_explicit(&loop->gw->answers_refused_ns, gw_clock_ns(), memory_order_relaxed);
        if (loop->line_count >= IN_LINE_MAX) {
                gw_reply_error(req, S3_ERR_SLOW_DOWN, NULL);
                return;
        }
        req->wants = size;
        req->wants_since_ns = gw_clock_ns();
        req->go = go;
        STAILQ_INSERT_TAIL(&loop->line, req, spare);
        loop->line_count++;
}

void gw_answers_serve(struct gw_loop *loop)
{
        struct gw_request *req;
        bool late;

        while ((req = STAILQ_FIRST(&loop->line)) != NULL) {
                late = req->peer_gone || loop->draining || gw_clock_ns() > req->wants_since_ns + LINE_LONGEST_NS;
                if (!late && !gw_answer_book(req, req->wants))
                        return;
                STAILQ_REMOVE_HEAD(&loop->line, spare);
                loop->line_count--;
                if (late)
                        gw_reply_error(req, S3_ERR_SLOW_DOWN, NULL);
                else
                        req->go(req);
        }
}

void gw_answer_unbook(struct gw_request *req)
{
        gw_answer_fits(req, 0);
}

static bool was_lately(atomic_uint_least64_t *when_ns, uint64_t now)
{
        uint64_t when = atomic_load_explicit(when_ns, memory_order_relaxed);

        return when != 0 && now < when + WANTED_NS;
}

bool gw_answers_wanted(struct gw_gateway *gw, uint64_t now)
{
        return was_lately(&gw->answers_refused_ns, now);
}

bool gw_uploads_wanted(struct gw_gateway *gw, uint64_t now)
{
        return was_lately(&gw->uploads_refused_ns, now);
}
