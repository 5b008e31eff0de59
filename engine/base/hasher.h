/*
 * hasher.h - MD5 of many streams side by side, on a loop that may be another than theirs.
 *
 * A stream can't be hurried, but several of them cost hardly more than one (ec/md5.c), so what is
 * to be hashed waits for company, but for no longer than it has to. Pieces of a stream are hashed
 * in the order in which they were added, a slice in a round of the hasher's loop, and go back one
 * by one.
 */
#ifndef MILLRACE_ENGINE_HASHER_H
#define MILLRACE_ENGINE_HASHER_H

#include <bsd/sys/queue.h>
#include <stdatomic.h>

#include "ec.h"
#include "loop.h"

struct eng_hash_piece {
        /* set by who adds it */
        const uint8_t *bytes;                          /* they stay where they are until it is back */
        size_t len;
        void (*hashed)(struct eng_hash_piece *piece);  /* on the stream's loop */
        /* private; owner: the hasher's loop until it is back */
        struct eng_hash_stream *stream;
        TAILQ_ENTRY(eng_hash_piece) link;
        struct lp_msg msg;
};

struct eng_hasher;

struct eng_hash_stream {
        /* owner: the stream's loop */
        struct eng_hasher *hasher;
        struct lp_loop *home;
        unsigned out;                                  /* pieces that are not back, and the word that they are wanted */
        bool wanting;                                  /* that word is on its way, */
        bool added, again;                             /* pieces were added after it was sent; and are wanted, too */
        void (*told)(struct eng_hash_stream *stream);  /* that word is back */
        struct lp_msg want_msg;
        /* owner: the hasher's loop while pieces are out, else the stream's */
        struct era_md5 md5;
        TAILQ_HEAD(eng_hash_pieces, eng_hash_piece) pieces;
        TAILQ_ENTRY(eng_hash_stream) link;             /* hasher->streams, while it has pieces */
        bool wanted;
};

TAILQ_HEAD(eng_hash_streams, eng_hash_stream);

/* owner: its loop, but for expected */
struct eng_hasher {
        struct lp_loop *loop;
        struct eng_hash_streams streams; /* with pieces, those that waited longest first */
        unsigned count;
        struct lp_timer timer;
        bool due, stopped;
        atomic_uint expected;            /* streams that will have pieces before long: it is no use to wait for more */
};

void eng_hasher_init(struct eng_hasher *hasher, struct lp_loop *loop);
/*
 * The loops have stopped: what is there, and what comes, goes back unhashed, by messages still to
 * be run.
 */
void eng_hasher_stop(struct eng_hasher *hasher);

/* hasher may be the loop's own. The stream must stay until nothing of it is out. */
void eng_hash_begin(struct eng_hash_stream *stream, struct eng_hasher *hasher, struct lp_loop *home);
/* Stream's loop. piece: bytes, len (not 0) and hashed are set. hashed() never comes from inside. */
void eng_hash_add(struct eng_hash_stream *stream, struct eng_hash_piece *piece);
/*
 * Stream's loop: somebody waits for all that was added so far. Where the hasher is another's,
 * told() is called when the word is back; till then it counts as out.
 */
void eng_hash_want(struct eng_hash_stream *stream);

#endif
