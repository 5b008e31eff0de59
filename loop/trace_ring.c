/*
 * trace_ring.c - a ring of trace records for each thread that runs a loop.
 *
 * A ring has one writer, its thread. Any thread may read: every word of a record is a relaxed
 * atomic (on the processors we know a plain store), and the number of records written is published
 * after the record. A reader copies, looks at that number again, and drops what may have been
 * overwritten since.
 *
 * Rings are static tables that are allocated when a slot is taken first and never freed: a dump at
 * an abort must not meet memory that is going away. A slot is used again by a later loop.
 */
#include "loop_trace.h"

#include "loop.h"

#include <assert.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ABORT_RECORDS 128u /* of each ring */

static_assert((LP_TRACE_RECORDS & (LP_TRACE_RECORDS - 1)) == 0, "the place of a record is a mask");

struct record {
        _Atomic uint64_t time, request, a, b, event;
};

/* owner: the thread that took it; read by any */
struct ring {
        _Atomic uint64_t written;
        char name[24];
        struct record records[LP_TRACE_RECORDS];
};

static struct ring *_Atomic rings[LP_TRACE_RINGS];
static atomic_bool taken[LP_TRACE_RINGS];
static _Thread_local struct ring *own;
static _Thread_local unsigned own_number;

_Thread_local uint64_t lp_trace_current;

const struct lp_trace_text lp_trace_texts[LP_TRACE_COUNT] = {[LP_TRACE_NONE] = {"", "", ""},
#define TEXT(event, text, first, second) [LP_TRACE_##event] = {text, first, second},
                                                             LP_TRACE_EVENTS(TEXT)
#undef TEXT
};

/* ---- rings ----------------------------------------------------------------------------------- */

void lp_trace_begin(const char *name, unsigned index)
{
        struct ring *ring = NULL;
        unsigned i;

        if (own != NULL)
                return;
        for (i = 0; i < LP_TRACE_RINGS; i++)
                if (!atomic_exchange(&taken[i], true))
                        break;
        if (i == LP_TRACE_RINGS)
                return; /* more loops than are traced */
        ring = atomic_load(&rings[i]);
        if (ring == NULL)
                ring = calloc(1, sizeof(*ring));
        if (ring == NULL) {
                atomic_store(&taken[i], false);
                return;
        }
        atomic_store(&ring->written, 0); /* nothing is shown of whoever had it before */
        snprintf(ring->name, sizeof(ring->name), "%.14s-%u", name, index);
        own = ring;
        own_number = i;
        atomic_store(&rings[i], ring);
}

void lp_trace_end(void)
{
        if (own == NULL)
                return;
        own = NULL;
        lp_trace_current = 0;
        atomic_store(&taken[own_number], false);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_word(_Atomic uint64_t *word, uint64_t value)
{
        atomic_store_explicit(word, value, memory_order_relaxed);
}

void lp_trace_at(uint64_t time, enum lp_trace_event event, uint64_t a, uint64_t b)
{
        struct ring *ring = own;
        struct record *record;
        uint64_t n;

        if (ring == NULL)
                return;
        n = atomic_load_explicit(&ring->written, memory_order_relaxed);
        record = &ring->records[n & (LP_TRACE_RECORDS - 1)];
        put_word(&record->time, time);
        put_word(&record->request, lp_trace_current);
        put_word(&record->a, a);
        put_word(&record->b, b);
        put_word(&record->event, event);
        atomic_store_explicit(&ring->written, n + 1, memory_order_release);
}

void lp_trace(enum lp_trace_event event, uint64_t a, uint64_t b)
{
        if (own != NULL)
                lp_trace_at(lp_clock(), event, a, b);
}

/* ---- reading --------------------------------------------------------------------------------- */

unsigned lp_trace_rings(void)
{
        unsigned i;

        for (i = LP_TRACE_RINGS; i > 0; i--)
                if (atomic_load(&rings[i - 1]) != NULL)
                        break;
        return i;
}

void lp_trace_ring_name(unsigned number, char name[24])
{
        const struct ring *ring = number < LP_TRACE_RINGS ? atomic_load(&rings[number]) : NULL;

        memset(name, 0, 24);
        if (ring != NULL)
                memcpy(name, ring->name, sizeof(ring->name) - 1);
}

static uint64_t word(const _Atomic uint64_t *from)
{
        return atomic_load_explicit(from, memory_order_relaxed);
}

static void trace_copy_record(const struct record *from, unsigned number, struct lp_trace_record *to)
{
        to->time = word(&from->time);
        to->request = word(&from->request);
        to->a = word(&from->a);
        to->b = word(&from->b);
        to->event = (uint16_t)word(&from->event);
        to->ring = (uint16_t)number;
}

/*
 * The record that the writer is at work on replaces the oldest one that a full ring has, so one
 * less than a ring holds is sure.
 */
size_t lp_trace_read(unsigned number, struct lp_trace_record *out, size_t max)
{
        const struct ring *ring = number < LP_TRACE_RINGS ? atomic_load(&rings[number]) : NULL;
        uint64_t end, begin, now, i;

        if (ring == NULL)
                return 0;
        if (max > LP_TRACE_RECORDS - 1)
                max = LP_TRACE_RECORDS - 1;
        end = atomic_load_explicit(&ring->written, memory_order_acquire);
        begin = end > max ? end - max : 0;
        for (i = begin; i < end; i++)
                trace_copy_record(&ring->records[i & (LP_TRACE_RECORDS - 1)], number, &out[i - begin]);
        atomic_thread_fence(memory_order_acquire);
        now = atomic_load_explicit(&ring->written, memory_order_relaxed) + 1;
        if (now <= begin + LP_TRACE_RECORDS)
                return end - begin;
        now -= LP_TRACE_RECORDS; /* the oldest that is whole */
        if (now >= end)
                return 0;
        memmove(out, out + (now - begin), (end - now) * sizeof(*out));
        return end - now;
}

/* ---- at an abort: only what a signal handler may do ------------------------------------------ */

struct line {
        char text[256];
        size_t len;
};

static void trace_add_text(struct line *line, const char *text)
{
        while (*text != '\0' && line->len < sizeof(line->text) - 1)
                line->text[line->len++] = *text++;
}

static void add_number(struct line *line, uint64_t n, unsigned base)
{
        char digits[24];
        unsigned len = 0;

        do
                digits[len++] = "0123456789ABCDEF"[n % base];
        while ((n /= base) > 0 && len < sizeof(digits));
        while (len > 0 && line->len < sizeof(line->text) - 1)
                line->text[line->len++] = digits[--len];
}

static void add_word(struct line *line, const char *name, uint64_t value)
{
        if (*name == '\0')
                return;
        trace_add_text(line, " ");
        trace_add_text(line, name);
        trace_add_text(line, "=");
        if ((int64_t)value < 0 && (int64_t)value > -4096) { /* a result */
                trace_add_text(line, "-");
                value = -value;
        }
        add_number(line, value, 10);
}

static void write_line(struct line *line)
{
        ssize_t ignored;

        line->text[line->len++] = '\n';
        ignored = write(STDERR_FILENO, line->text, line->len);
        (void)ignored;
        line->len = 0;
}

static void write_record(const char *name, const struct record *record)
{
        uint64_t event = word(&record->event);
        struct line line = {.len = 0};

        if (event == LP_TRACE_NONE || event >= LP_TRACE_COUNT)
                return;
        trace_add_text(&line, "trace ");
        add_number(&line, word(&record->time), 10);
        trace_add_text(&line, " ");
        trace_add_text(&line, name);
        trace_add_text(&line, " ");
        add_number(&line, word(&record->request), 16);
        trace_add_text(&line, " ");
        trace_add_text(&line, lp_trace_texts[event].name);
        add_word(&line, lp_trace_texts[event].a, word(&record->a));
        add_word(&line, lp_trace_texts[event].b, word(&record->b));
        write_line(&line);
}

static void on_fault(int signal_number)
{
        unsigned count = lp_trace_rings(), i;

        for (i = 0; i < count; i++) {
                const struct ring *ring = atomic_load(&rings[i]);
                uint64_t end, n;

                if (ring == NULL)
                        continue;
                end = atomic_load_explicit(&ring->written, memory_order_acquire);
                for (n = end > ABORT_RECORDS ? end - ABORT_RECORDS : 0; n < end; n++)
                        write_record(ring->name, &ring->records[n & (LP_TRACE_RECORDS - 1)]);
        }
        /*
         * Not by SA_RESETHAND: a handler that was set later calls this one
         * (engine/drive/index_guard.c).
         */
        signal(signal_number, SIG_DFL);
        raise(signal_number);
}

void lp_trace_on_abort(void)
{
        static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
        struct sigaction action;

        memset(&action, 0, sizeof(action));
        action.sa_handler = on_fault;
        action.sa_flags = SA_NODEFER;
        for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
                struct sigaction before;

                if (sigaction(signals[i], NULL, &before) == 0 &&
                    before.sa_handler == SIG_DFL) /* a sanitizer's own stays */
                        sigaction(signals[i], &action, NULL);
        }
}
