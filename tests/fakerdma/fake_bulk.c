/*
 * fake_bulk.c - WRITEs and READs that came in one message of the live wire: each is checked and
 * executed as if it had come alone, but the bytes of WRITEs that follow one another are fetched
 * from the other process by one system call. A device has no such call to make, so what it takes
 * should weigh as little as it can.
 *
 * With the world's lock held throughout: nobody sees a WRITE of a message that is behind one not
 * fetched yet.
 */
#include "tests/fakerdma/fake_internal.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Bytes that are to be fetched, in order. */
static struct {
        struct iovec own[FAKE_BULK_MOST], other[FAKE_BULK_MOST];
        unsigned count;
        size_t len;
} wanted;

int fake_copy_between(const struct rdx_pair *pair, void *own, void *other, uint32_t len, bool fetch)
{
        struct iovec here = {own, len}, there = {other, len};

        if (!fetch)
                return 0; /* of a READ: who asked copies it, once it knows that it may (fake_wire.c) */
        /* By the system call: a device's DMA is nothing that a sanitizer would see. */
        return syscall(SYS_process_vm_readv, pair->pid, &here, 1ul, &there, 1ul, 0ul) == (long)len ? 0 : -ETIMEDOUT;
}

static int note_wanted(const struct rdx_pair *pair, void *own, void *other, uint32_t len, bool fetch)
{
        wanted.own[wanted.count] = (struct iovec){own, len};
        wanted.other[wanted.count++] = (struct iovec){other, len};
        wanted.len += len;
        return 0;
}

static int fetch_wanted(const struct rdx_pair *pair)
{
        unsigned long count = wanted.count;
        size_t len = wanted.len;

        wanted.count = 0;
        wanted.len = 0;
        if (count == 0)
                return 0;
        return syscall(SYS_process_vm_readv, pair->pid, wanted.own, count, wanted.other, count, 0ul) == (long)len
                       ? 0
                       : -ETIMEDOUT;
}

int fake_execute_bulk(struct rdx_pair *pair, const struct rdx_work *work, unsigned count, unsigned *last)
{
        int rv = 0, fetched = 0;
        unsigned i;

        FAKE_MUST(count > 0 && count <= FAKE_BULK_MOST);
        for (i = 0; i < count && rv == 0 && fetched == 0; i++) {
                bool wait =
                        work[i].op == RDX_OP_WRITE && !fake.strict; /* what is staged is looked at when it is staged */

                if (!wait)
                        fetched = fetch_wanted(pair);
                rv = fetched == 0 ? fake_execute(pair, &work[i], wait ? note_wanted : fake_copy_between) : fetched;
        }
        *last = i - 1;
        fetched = fetch_wanted(pair);
        return rv != 0 ? rv : fetched;
}
