/*
 * home_state.h - the bytes of a pool's state (private to the module).
 */
#ifndef MILLRACE_ENGINE_HOME_HOME_STATE_H
#define MILLRACE_ENGINE_HOME_HOME_STATE_H

#include "engine/base/store.h"
#include "engine_home.h"

#define HOME_READY    1u
#define HOME_IN_DOUBT 2u
#define HOME_WRITABLE 4u
#define HOME_FULL     8u
#define HOME_STALLED  16u
#define HOME_FLAGS    31u

/* Followed by the body of the epoch in force. */
struct home_state {
        uint64_t up;                    /* members that the leader reaches */
        uint32_t epoch_len, flags;
};

/* -EBADMSG. */
int home_state_read(const uint8_t *bytes, size_t len, struct home_state *out, struct eng_epoch_info *info);

#endif
