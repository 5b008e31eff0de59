/*
 * fake_faults.c - the fake between processes: READs that fail when a test says so, by a file that
 * both have mapped.
 *
 * Under the world's lock; the test writes while nothing is posted, or takes what comes.
 */
#include "tests/fakerdma/fake_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile struct fake_faults *faults;

void fake_faults_open(void)
{
        const char *name = getenv(FAKE_FAULTS);
        void *mapped;
        int fd;

        if (name == NULL || faults != NULL)
                return;
        fd = open(name, O_RDWR | O_CLOEXEC);
        FAKE_MUST(fd >= 0);
        mapped = mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        FAKE_MUST(mapped != MAP_FAILED);
        close(fd);
        faults = mapped;
}

bool fake_faults_may(const struct rdx_work *work)
{
        return faults != NULL && work->op == RDX_OP_READ;
}

/* The point's own number, so that the same seed chooses the same points. */
static uint64_t chance(uint64_t point)
{
        uint64_t z = (faults->seed + point) * 0x9e3779b97f4a7c15u;

        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        return (z ^ (z >> 27)) >> 8;
}

bool fake_fault(const struct rdx_work *work)
{
        uint64_t point;
        bool fails;

        if (!fake_faults_may(work))
                return false;
        point = ++faults->points;
        fails = point == faults->fail_at || (faults->one_in > 0 && chance(point) % faults->one_in == 0);
        if (fails)
                faults->failed++;
        return fails;
}
