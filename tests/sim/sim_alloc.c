/*
 * sim_alloc.c - see sim_alloc.h.
 */
#include "tests/sim/sim_alloc.h"

#include <stdlib.h>

#include "engine/drive/drive.h"
#include "tests/sim/sim.h"

jmp_buf sim_alloc_gone;
struct sim_alloc_figures sim_alloc_figures;

static struct {
        uint64_t state;
        uint64_t one_in; /* allocations; 0: none fails */
        bool armed;
} alloc;

void *sim_engine_malloc(size_t size);
void *sim_engine_calloc(size_t n, size_t size);
void *sim_engine_realloc(void *old, size_t size);
void sim_engine_abort(void) __attribute__((noreturn));
void sim_engine_exit(int status) __attribute__((noreturn));

/* Its own numbers, so that histories without it go as they went before there was this. */
static uint64_t draw(void)
{
        alloc.state = sim_mix(alloc.state + 1);
        return alloc.state;
}

void sim_alloc_begin(uint64_t seed)
{
        alloc.state = sim_mix(seed ^ 0xa110c);
        alloc.armed = false;
        alloc.one_in = draw() % 4 != 0 || sim_sweep_at != 0 ? 0 : 20ull << draw() % 11;
        if (alloc.one_in != 0)
                sim_trace("plan: one of %llu allocations fails", (unsigned long long)alloc.one_in);
}

bool sim_alloc_fails(void)
{
        return alloc.one_in != 0 || sim_sweep_at != 0;
}

void sim_alloc_arm(bool armed)
{
        alloc.armed = armed;
}

static bool fails(void)
{
        if (!alloc.armed || !sim_alloc_fails())
                return false;
        if (sim_sweep_at != 0 ? !sim_sweep_point() : draw() % alloc.one_in != 0)
                return false;
        sim_trace("an allocation fails");
        sim_alloc_figures.failed++;
        return true;
}

void *sim_engine_malloc(size_t size)
{
        return fails() ? NULL : malloc(size);
}

void *sim_engine_calloc(size_t n, size_t size)
{
        return fails() ? NULL : calloc(n, size);
}

void *sim_engine_realloc(void *old, size_t size)
{
        return fails() ? NULL : realloc(old, size);
}

struct eng_buf *sim_buf_new(size_t len)
{
        struct eng_buf *buf;
        bool armed = alloc.armed;

        alloc.armed = false;
        buf = eng_buf_new(len);
        alloc.armed = armed;
        return buf;
}

static _Noreturn void end(void)
{
        if (!alloc.armed || !sim_alloc_fails())
                abort();
        sim_alloc_figures.ends++;
        longjmp(sim_alloc_gone, 1);
}

void sim_engine_abort(void)
{
        end();
}

void sim_engine_exit(int status)
{
        end();
}
