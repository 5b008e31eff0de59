/*
 * index_guard.h - survives what reading a memory map can do to a process: SIGBUS (the drive fails
 * to read a page, or the file was cut short), and what LMDB does on pages that make no sense:
 * assertions, and pointers to nowhere.
 */
#ifndef MILLRACE_ENGINE_DRIVE_INDEX_GUARD_H
#define MILLRACE_ENGINE_DRIVE_INDEX_GUARD_H

#include <setjmp.h>
#include <stdatomic.h>

/* owner: the thread that runs the guarded call; lives on its stack */
struct eng_guard {
        sigjmp_buf jump;
        struct eng_guard *outer;
        _Atomic int *broken;
};

/*
 * Puts the handlers in place unless they are there. For the whole process; any thread. 0 or
 * negative errno.
 */
int eng_guard_install(void);

/* broken receives the error when one is caught. */
sigjmp_buf *eng_guard_enter(struct eng_guard *guard, _Atomic int *broken);
void eng_guard_leave(struct eng_guard *guard);
/* After a jump: leaves, keeps the error in *broken, gives it. */
int eng_guard_caught(struct eng_guard *guard, int code);
/* From LMDB's assertion hook: jumps, or returns when no guard is entered. */
void eng_guard_assert(void);

/*
 * The whole body of a function that returns int: returns the error kept in broken if there is one,
 * else the result of call, or what was caught in it. call must be one function call whose arguments
 * are parameters never assigned to (sigsetjmp), and that holds no lock or memory of its own across
 * a read of the map. A macro because sigsetjmp must stand in the frame that stays.
 */
#define ENG_GUARDED(broken_at, call)                                                                                   \
        do {                                                                                                           \
                struct eng_guard guard_;                                                                               \
                int code_, rv_ = atomic_load_explicit((broken_at), memory_order_relaxed);                              \
                if (rv_ != 0)                                                                                          \
                        return rv_;                                                                                    \
                code_ = sigsetjmp(*eng_guard_enter(&guard_, (broken_at)), 0);                                          \
                if (code_ != 0)                                                                                        \
                        return eng_guard_caught(&guard_, code_);                                                       \
                rv_ = (call);                                                                                          \
                eng_guard_leave(&guard_);                                                                              \
                return rv_;                                                                                            \
        } while (0)

#endif
