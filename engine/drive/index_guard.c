/*
 * index_guard.c - a guarded call ends with an error where the process would have died.
 *
 * LMDB reads its pages through a memory map. A page that the drive fails to read comes as SIGBUS on the reading thread, and LMDB's answer to a
 * page that makes no sense is abort(). Both concern one drive, not the process (DESIGN: "SIGBUS inside the map is a failure of that drive").
 * The index calls LMDB inside a guard: a jump buffer of the calling thread. The signal handler and the assertion hook jump to it; the index
 * then counts as broken, and LMDB is not called for it again but to let go. Any thread; the guards of threads do not touch.
 *
 * A SIGBUS outside any guard goes to whoever handled it before (by default: the process ends).
 */
#include "engine/drive/index_guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

enum guard_code { GUARD_BUS = 1, GUARD_ASSERT = 2 };

static _Thread_local struct eng_guard *guard_now;
static struct sigaction guard_before;
static pthread_once_t guard_once = PTHREAD_ONCE_INIT;
static int guard_installed;

static void guard_on_bus(int sig, siginfo_t *info, void *context)
{
        if (guard_now != NULL)
                siglongjmp(guard_now->jump, GUARD_BUS);
        if ((guard_before.sa_flags & SA_SIGINFO) != 0) {
                guard_before.sa_sigaction(sig, info, context);
                return;
        }
        if (guard_before.sa_handler != SIG_DFL && guard_before.sa_handler != SIG_IGN) {
                guard_before.sa_handler(sig);
                return;
        }
        /* The faulting instruction runs again and meets the default action. */
        signal(sig, SIG_DFL);
}

static void guard_install_once(void)
{
        struct sigaction action;

        memset(&action, 0, sizeof(action));
        action.sa_sigaction = guard_on_bus;
        /* SA_NODEFER: the handler is left by a jump, which restores no mask. */
        action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        if (sigaction(SIGBUS, &action, &guard_before) != 0)
                guard_installed = -errno;
}

int eng_guard_install(void)
{
        int rv = pthread_once(&guard_once, guard_install_once);

        return rv != 0 ? -rv : guard_installed;
}

sigjmp_buf *eng_guard_enter(struct eng_guard *guard, _Atomic int *broken)
{
        guard->outer = guard_now;
        guard->broken = broken;
        guard_now = guard;
        return &guard->jump;
}

void eng_guard_leave(struct eng_guard *guard)
{
        guard_now = guard->outer;
}

int eng_guard_caught(struct eng_guard *guard, int code)
{
        int rv = code == GUARD_BUS ? -EIO : -EBADMSG;

        eng_guard_leave(guard);
        atomic_store_explicit(guard->broken, rv, memory_order_relaxed);
        return rv;
}

void eng_guard_assert(void)
{
        if (guard_now != NULL)
                siglongjmp(guard_now->jump, GUARD_ASSERT);
}
