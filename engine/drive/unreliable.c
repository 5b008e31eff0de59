/*
 * unreliable.c - reads that the drive could not do, and from how many on it is called unreliable.
 *
 * A read error is damage of one frame or record: it is answered -EBADMSG, served from other drives,
 * and what was lost is written anew elsewhere on this drive. Reads never end a drive (I8 is about
 * writes and flushes). But a drive on which many places cannot be read is likely to lose more, so
 * beyond a budget it is marked: health, metrics and the daemon's log say so, and others are read
 * first. The mark stays until the drive is opened again. Whether it is replaced is the operator's
 * decision.
 *
 * owner: the loop, but for the two atomics, which any thread reads.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>

/*
 * What cannot be repaired, or not yet, may be read again and again: it counts once for as long as
 * it is remembered.
 */
static bool is_known(const struct eng_unreadable *u, uint64_t file, uint64_t position)
{
        unsigned i;

        for (i = 0; i < ENG_READ_ERROR_BUDGET; i++)
                if (u->seen[i].file == file && u->seen[i].position == position && u->seen[i].at != 0)
                        return true;
        return false;
}

/* times: so much of the budget. */
static void spend(struct eng_local *l, uint64_t file, uint64_t position, unsigned times)
{
        struct eng_unreadable *u = &l->unreadable;
        uint64_t now = lp_now(l->drive.owner) + 1;

        assert(eng_local_on_loop(l));
        assert(times > 0 && times <= ENG_READ_ERROR_BUDGET && u->next < ENG_READ_ERROR_BUDGET);
        eng_count(&l->statistics.read_errors, 1);
        if (is_known(u, file, position))
                return;
        for (; times > 0; times--) {
                u->seen[u->next].file = file;
                u->seen[u->next].position = position;
                u->seen[u->next].at = now;
                u->next = (u->next + 1) % ENG_READ_ERROR_BUDGET; /* the oldest of them now */
        }
        if (u->seen[u->next].at != 0 && now - u->seen[u->next].at <= ENG_READ_ERROR_WINDOW_NS)
                atomic_store_explicit(&l->unreliable, true, memory_order_relaxed);
}

void eng_local_read_error(struct eng_local *l, uint64_t file, uint64_t position)
{
        spend(l, file, position, 1);
}

void eng_local_read_late(struct eng_local *l, uint64_t file, uint64_t position)
{
        spend(l, file, position, ENG_READ_LATE_COST);
}

bool eng_io_full(int res)
{
        return res == -ENOSPC || res == -EDQUOT || res == -EFBIG;
}

/* -ECANCELED: the loop has ended before the drive was asked. */
bool eng_io_again(int res)
{
        return res == -EMFILE || res == -ENFILE || res == -ENOMEM || res == -EAGAIN || res == -EINTR || res == -ENOBUFS ||
               res == -ECANCELED;
}

bool eng_io_unreadable(int res)
{
        return res < 0 && !eng_io_again(res);
}
