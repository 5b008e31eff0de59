/*
 * hasher.c - MD5 of many streams side by side: who is hashed, when, and how much at a time.
 *
 * Called by put_md5.c, on the stream's loop and on the hasher's; between the two there are messages
 * only. Hashing begins when all lanes have something, when all have of whom something is to be
 * expected, or when somebody waits and has waited long enough for company. A slice of each stream
 * is hashed in a round, so that nobody on this loop waits for a whole unit.
 */
#include "engine/base/hasher.h"

#include <assert.h>
#include <stddef.h>

#define JOBS        32u
#define SLICE       (64u << 10)          /* of each stream in a round: a tenth of a millisecond */
#define PATIENCE_NS (2ull * 1000 * 1000) /* for others to have something, too */

static struct eng_hash_piece *hasher_of_msg(struct lp_msg *msg)
{
        return container_of(msg, struct eng_hash_piece, msg);
}

static struct eng_hash_stream *of_want(struct lp_msg *msg)
{
        return container_of(msg, struct eng_hash_stream, want_msg);
}

/* ---- stream's loop --------------------------------------------------------------------------- */

static void piece_is_back(struct lp_msg *msg)
{
        struct eng_hash_piece *piece = hasher_of_msg(msg);

        assert(lp_self() == piece->stream->home);
        assert(piece->stream->out > 0);
        piece->stream->out--;
        piece->hashed(piece);
}

static void want_arrives(struct lp_msg *msg);

static void send_want(struct eng_hash_stream *stream)
{
        stream->added = stream->again = false;
        stream->want_msg.run = want_arrives;
        lp_post(stream->hasher->loop, &stream->want_msg);
}

static void want_is_back(struct lp_msg *msg)
{
        struct eng_hash_stream *stream = of_want(msg);

        assert(stream->wanting && stream->out > 0);
        if (stream->again && stream->out > 1) { /* the word may have come before those that it was to hurry */
                send_want(stream);
                return;
        }
        stream->wanting = false;
        stream->out--;
        stream->told(stream);
}

/* ---- hasher's loop --------------------------------------------------------------------------- */

static void take_first(struct eng_hash_stream *stream)
{
        struct eng_hasher *hasher = stream->hasher;

        TAILQ_REMOVE(&stream->pieces, TAILQ_FIRST(&stream->pieces), link);
        if (!TAILQ_EMPTY(&stream->pieces))
                return;
        TAILQ_REMOVE(&hasher->streams, stream, link);
        assert(hasher->count > 0);
        hasher->count--;
        stream->wanted = false;
}

static void give_back_first(struct eng_hash_stream *stream)
{
        struct eng_hash_piece *piece = TAILQ_FIRST(&stream->pieces);

        take_first(stream);
        piece->msg.run = piece_is_back;
        lp_post(stream->home, &piece->msg);
}

static struct era_md5_job hasher_next_slice(struct eng_hash_stream *stream)
{
        struct eng_hash_piece *piece = TAILQ_FIRST(&stream->pieces);
        struct era_md5_job job = {
                .md5 = &stream->md5, .buf = piece->bytes, .len = piece->len < SLICE ? piece->len : SLICE};

        assert(piece->len > 0);
        piece->bytes += job.len;
        piece->len -= job.len;
        return job;
}

/* A slice of each stream, of as many as there are lanes. */
static void hash_slices(struct eng_hasher *hasher)
{
        unsigned most = era_md5_lanes() < JOBS ? era_md5_lanes() : JOBS, n = 0, i;
        struct eng_hash_stream *streams[JOBS], *stream;
        struct era_md5_job jobs[JOBS];

        TAILQ_FOREACH(stream, &hasher->streams, link) {
                if (n == most)
                        break;
                jobs[n] = hasher_next_slice(stream);
                streams[n++] = stream;
        }
        era_md5_update(jobs, n);
        for (i = 0; i < n; i++) {
                TAILQ_REMOVE(&hasher->streams, streams[i], link);
                TAILQ_INSERT_TAIL(&hasher->streams, streams[i], link);
        }
        for (i = 0; i < n; i++)
                if (TAILQ_FIRST(&streams[i]->pieces)->len == 0)
                        give_back_first(streams[i]);
}

static bool has_company(const struct eng_hasher *hasher)
{
        return hasher->count >= era_md5_lanes() || hasher->count >= atomic_load_explicit(&hasher->expected, memory_order_relaxed);
}

static bool hasher_is_wanted(const struct eng_hasher *hasher)
{
        const struct eng_hash_stream *stream;

        TAILQ_FOREACH(stream, &hasher->streams, link)
                if (stream->wanted)
                        return true;
        return false;
}

static void go_in(struct eng_hasher *hasher, uint64_t delay_ns)
{
        hasher->due = true;
        lp_timer_start(hasher->loop, &hasher->timer, delay_ns);
}

static void round_comes(struct lp_timer *timer)
{
        struct eng_hasher *hasher = container_of(timer, struct eng_hasher, timer);

        hasher->due = false;
        hash_slices(hasher);
        if (!hasher->due && hasher->count > 0 && (has_company(hasher) || hasher_is_wanted(hasher)))
                go_in(hasher, 0);
}

static void piece_arrives(struct lp_msg *msg)
{
        struct eng_hash_piece *piece = hasher_of_msg(msg);
        struct eng_hash_stream *stream = piece->stream;
        struct eng_hasher *hasher = stream->hasher;

        assert(lp_self() == hasher->loop);
        assert(piece->len > 0);
        if (TAILQ_EMPTY(&stream->pieces)) {
                TAILQ_INSERT_TAIL(&hasher->streams, stream, link);
                hasher->count++;
        }
        TAILQ_INSERT_TAIL(&stream->pieces, piece, link);
        if (hasher->stopped)
                give_back_first(stream);
        else if (has_company(hasher))
                go_in(hasher, 0);
}

static void is_wanted_now(struct eng_hash_stream *stream)
{
        struct eng_hasher *hasher = stream->hasher;

        if (TAILQ_EMPTY(&stream->pieces))
                return;
        stream->wanted = true;
        if (has_company(hasher))
                go_in(hasher, 0);
        else if (!hasher->due)
                go_in(hasher, PATIENCE_NS);
}

static void want_arrives(struct lp_msg *msg)
{
        struct eng_hash_stream *stream = of_want(msg);

        is_wanted_now(stream);
        msg->run = want_is_back;
        lp_post(stream->home, msg);
}

/* ---- for others ------------------------------------------------------------------------------ */

void eng_hasher_init(struct eng_hasher *hasher, struct lp_loop *loop)
{
        hasher->loop = loop;
        hasher->timer.expired = round_comes;
        TAILQ_INIT(&hasher->streams);
}

void eng_hasher_stop(struct eng_hasher *hasher)
{
        struct eng_hash_stream *stream;

        hasher->stopped = true;
        while ((stream = TAILQ_FIRST(&hasher->streams)) != NULL)
                give_back_first(stream);
        assert(hasher->count == 0);
}

void eng_hash_begin(struct eng_hash_stream *stream, struct eng_hasher *hasher, struct lp_loop *home)
{
        assert(stream->out == 0 && !stream->wanting);
        stream->hasher = hasher;
        stream->home = home;
        TAILQ_INIT(&stream->pieces);
        era_md5_init(&stream->md5);
}

void eng_hash_add(struct eng_hash_stream *stream, struct eng_hash_piece *piece)
{
        assert(piece->len > 0);
        piece->stream = stream;
        stream->out++;
        stream->added = true;
        if (stream->hasher->loop == stream->home) {
                piece_arrives(&piece->msg);
                return;
        }
        piece->msg.run = piece_arrives;
        lp_post(stream->hasher->loop, &piece->msg);
}

void eng_hash_want(struct eng_hash_stream *stream)
{
        assert(lp_self() == stream->home);
        if (stream->out == 0)
                return;
        if (stream->wanting) {
                stream->again |= stream->added;
                return;
        }
        if (stream->hasher->loop == stream->home) {
                is_wanted_now(stream);
                return;
        }
        stream->wanting = true;
        stream->out++;
        send_want(stream);
}
