/*
 * remote_inputs.h - numbers in the inputs of fuzz_remote_wire.c and fuzz_served.c, which make_seeds.c writes, too.
 */
#ifndef MILLRACE_TEST_REMOTE_INPUTS_H
#define MILLRACE_TEST_REMOTE_INPUTS_H

/* fuzz_remote_wire.c: what is read, and questions; ASK_OP + k: an operation of kind k. */
enum { READ_FACTS, READ_REFUSAL, READ_POOL, READ_STATE, READ_HOME_STATE, ASK_OPEN, ASK_PING, ASK_RELEASE, ASK_STATE, ASK_PREPARE, ASK_INFO, ASK_OP };

/* fuzz_served.c: who asks, and what of a request is put right. */
enum { LEADER, HOME, STRANGER, PARTIES };
enum {
        RIGHT_PLACE = 1,
        RIGHT_INCARNATION = 2,
        RIGHT_SESSION = 4,
        NEXT_SESSION = 8,
        RIGHT_COMMITS = 16,
        NEXT_COMMIT = 32,
        RIGHT_TERM = 64,
        RIGHT_LINK = 128,
        RIGHT_BUCKET = RIGHT_COMMITS /* of a call of a home */
};

#endif
