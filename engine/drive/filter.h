/*
 * filter.h - what the filters share (filter.c, filter_copy.c, and the codec of tests). The grammar
 * of their text is in filter.c.
 */
#ifndef MILLRACE_ENGINE_DRIVE_FILTER_H
#define MILLRACE_ENGINE_DRIVE_FILTER_H

#include <bsd/sys/queue.h>

#include "engine/drive/drive.h"

struct eng_filter;

/* An op of the layer above, and the op made of it for the layer below. owner: the op's home loop */
struct eng_filter_op {
        struct eng_op op; /* below */
        struct eng_op *above;
        struct eng_filter *filter;
        LIST_ENTRY(eng_filter_op) entry; /* while the timer runs, as the next */
        struct lp_loop *loop;
        struct lp_timer timer;
        struct lp_msg msg;
        int result;      /* to be answered later */
        unsigned rounds; /* submissions still to come */
        void *wire;      /* serialise: what the decoded op points to */
        void *slot;
};

/* Copies what the caller set / what the drive answers from one op to another. */
void eng_filter_copy_request(struct eng_op *to, const struct eng_op *from);
void eng_filter_copy_answer(struct eng_op *to, const struct eng_op *from);
/* Releases the buffers of an answer. */
void eng_filter_drop_answer(struct eng_op *op);

/*
 * Through bytes and back, on the op's home loop: request makes of->op from of->above, answer hands
 * its results to of->above. -ENOMEM. free releases what request made.
 */
struct eng_filter_codec {
        int (*request)(struct eng_filter_op *of);
        int (*answer)(struct eng_filter_op *of);
        void (*free)(struct eng_filter_op *of);
};
/*
 * What the filter "serialise" works with; without it there is no such filter. Before any drive is
 * opened.
 */
void eng_filter_serialise_by(const struct eng_filter_codec *codec);

#endif
