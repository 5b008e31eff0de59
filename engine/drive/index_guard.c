/*
 * index_guard.c - a guarded call ends with an error where the process would have died.
 *
 * LMDB reads its pages through a memory map and trusts them. A page that the drive fails to read
 * comes as SIGBUS on the reading thread; on a page whose bytes changed LMDB aborts, or follows a
 * pointer to nowhere. All this concerns one drive, not the process (DESIGN: "SIGBUS inside the map
 * is a failure of that drive"). The index calls LMDB inside a guard: a jump buffer of the calling
 * thread. The signal handler and the assertion hook jump to it; the index then counts as broken,
 * and LMDB is not called for it again but to let go. Any thread; the guards of threads do not
 * touch.
 *
 * A signal outside any guard, or sent by somebody, goes to whoever handled it before (by default:
 * the process ends).
 */
#include "engine/drive/index_guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#define GUARD_ASSERT (-1) /* the other codes are signal numbers */

/* Signals by which a bad page shows; what each means for the index. */
static struct {
        int signal, error;
        struct sigaction before; /* written under guard_lock before our handler can run */
} guard_signals[] = {
        {.signal = SIGBUS, .error = -EIO},
        {.signal = SIGSEGV, .error = -EBADMSG},
        {.signal = SIGFPE, .error = -EBADMSG},
};
#define GUARD_SIGNALS (sizeof(guard_signals) / sizeof(guard_signals[0]))

static _Thread_local struct eng_guard *guard_now;
static pthread_mutex_t guard_lock = PTHREAD_MUTEX_INITIALIZER;

static void guard_pass_on(int sig, siginfo_t *info, void *context)
{
        const struct sigaction *before = NULL;

        for (unsigned i = 0; i < GUARD_SIGNALS; i++)
                if (guard_signals[i].signal == sig)
                        before = &guard_signals[i].before;
        if (before != NULL && (before->sa_flags & SA_SIGINFO) != 0) {
                before->sa_sigaction(sig, info, context);
                return;
        }
        if (before != NULL && before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN) {
                before->sa_handler(sig);
                return;
        }
        signal(sig, SIG_DFL);
        /*
         * A fault happens again on return and meets the default; a signal that was sent does not.
         */
        if (info->si_code <= 0)
                raise(sig);
}

static void guard_on_signal(int sig, siginfo_t *info, void *context)
{
        /* si_code <= 0: sent by kill() and the like, no matter where this thread was. */
        if (guard_now != NULL && info->si_code > 0) {
                /* The jump restores no mask (saving it would cost a system call at each entry). */
                pthread_sigmask(SIG_SETMASK, &((ucontext_t *)context)->uc_sigmask, NULL);
                siglongjmp(guard_now->jump, sig);
        }
        guard_pass_on(sig, info, context);
}

int eng_guard_install(void)
{
        struct sigaction action, now;
        int rv = 0;

        memset(&action, 0, sizeof(action));
        action.sa_sigaction = guard_on_signal;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        pthread_mutex_lock(&guard_lock);
        for (unsigned i = 0; i < GUARD_SIGNALS && rv == 0; i++) {
                if (sigaction(guard_signals[i].signal, NULL, &now) != 0)
                        rv = -errno;
                if (rv != 0 || ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == guard_on_signal))
                        continue;
                guard_signals[i].before = now;
                if (sigaction(guard_signals[i].signal, &action, NULL) != 0)
                        rv = -errno;
        }
        pthread_mutex_unlock(&guard_lock);
        return rv;
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
        int rv = -EBADMSG;

        for (unsigned i = 0; i < GUARD_SIGNALS; i++)
                if (guard_signals[i].signal == code)
                        rv = guard_signals[i].error;
        eng_guard_leave(guard);
        atomic_store_explicit(guard->broken, rv, memory_order_relaxed);
        return rv;
}

void eng_guard_assert(void)
{
        if (guard_now != NULL)
                siglongjmp(guard_now->jump, GUARD_ASSERT);
}
