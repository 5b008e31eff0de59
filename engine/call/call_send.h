/*
 * call_send.h - calls of a home store on their way to its leader. The loop of the request.
 */
#ifndef MILLRACE_ENGINE_CALL_SEND_H
#define MILLRACE_ENGINE_CALL_SEND_H

#include "engine/base/store.h"
#include "engine/call/leader_call.h"

/*
 * done() comes once, on this loop, never from inside. answer: what the leader said; or rv, without
 * anything else, -EHOSTDOWN where it could not be asked, or nobody knows what became of it (recorded
 * is set then), or -ENOMEM. What it points to stays until done() returns.
 */
typedef void (*eng_call_done)(void *arg, const struct eng_call_answer *answer);
/*
 * Sends a call. room: bytes that the answer's bulk may have; if it needs more it is asked again, with
 * more. What the call points to is copied, but value and bytes of a PUT, which stay until done().
 * -ENOMEM: done() does not come.
 */
int eng_call_send(struct eng_store *store, const struct eng_call *call, size_t room, eng_call_done done, void *arg);

#endif
