/*
 * pages.c - see pages.h.
 *
 * The bytes themselves are not wanted: reading them by way of the page cache brings the page to
 * where it is mapped. All reads have the same memory to go to, which nobody looks at. So nothing of
 * a drive is in the kernel's hands but the descriptor, and a read that never ends keeps only the
 * drive's own memory (holds).
 *
 * owner: the loop.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <lmdb.h>
#include <stdlib.h>

#define READ_PAGES 64u   /* of one read */
#define MOST_PAGES (ENG_INDEX_VALUE_MAX / ENG_PAGE_BYTES + 2) /* of one value, with its page's header */

static uint8_t sink[READ_PAGES * ENG_PAGE_BYTES] __attribute__((aligned(ENG_PAGE_BYTES)));

struct eng_page_read {
        struct lp_io io;
        struct lp_timer timer; /* instead of io: one that a test makes hang */
        bool timed;
        struct eng_local *l;
        uint64_t page, count;
        struct eng_watch watch;
        struct eng_page_wait_list waiting;
        LIST_ENTRY(eng_page_read) link;
};

_Static_assert(sizeof(struct eng_page_wait) <= sizeof(((struct eng_op *)0)->priv), "an op has room for its wait");

struct eng_page_wait *eng_pages_of_op(struct eng_op *op)
{
        return (struct eng_page_wait *)op->priv;
}

struct eng_op *eng_pages_op(struct eng_page_wait *wait)
{
        return container_of((void *)wait, struct eng_op, priv);
}

/* ---- may a page be touched? ------------------------------------------------------------------ */

static bool is_suspect(struct eng_local *l)
{
        const struct eng_watch *oldest = TAILQ_FIRST(&l->watches);

        return oldest != NULL && lp_now(l->drive.owner) - oldest->started > ENG_PAGES_SUSPECT_NS;
}

static int pages_ask(void *arg, const void *at, size_t page, size_t count)
{
        struct eng_local *l = arg;
        uint64_t there;

        if (l->pages.open)
                return MDB_SUCCESS;
        if (count > MOST_PAGES)
                return MDB_CORRUPTED; /* no value is that long */
        there = eng_resident_ask(&l->pages.resident, at, page, count, is_suspect(l));
        if (there == count)
                return MDB_SUCCESS;
        assert(there < count);
        l->pages.page = page + there;
        l->pages.count = count - there;
        return MDB_ABSENT;
}

int eng_pages_open(struct eng_local *l)
{
        int rv = eng_resident_open(&l->pages.resident);

        if (rv == 0)
                rv = eng_index_reader_ask(l->reader, pages_ask, l);
        return rv != 0 ? rv : eng_index_reader_ask(l->second_reader, pages_ask, l);
}

void eng_pages_tick(struct eng_local *l)
{
        if (atomic_exchange_explicit(&l->pages.pretend_soon, false, memory_order_acquire))
                eng_pages_pretend(l, l->pages.hang_after_soon, l->pages.hang_ms_soon);
        if (l->pages.hang_ms == 0)
                eng_resident_forget(&l->pages.resident);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void tell_all(struct eng_local *l, struct eng_page_wait_list *list, int rv)
{
        struct eng_page_wait *wait;

        while ((wait = TAILQ_FIRST(list)) != NULL) {
                TAILQ_REMOVE(list, wait, link);
                wait->again(l, wait, rv == 0 && eng_local_failed(l) ? -EIO : rv);
        }
}

/*
 * res: what the kernel says of a read of count pages. A page that the file does not have is one
 * that cannot be read, as a fault would say.
 */
static int outcome(struct eng_local *l, const struct eng_page_read *r, int res)
{
        if (res >= (int)ENG_PAGE_BYTES) {
                eng_resident_mark(&l->pages.resident, r->page, (unsigned)res / ENG_PAGE_BYTES);
                return 0;
        }
        if (res < 0 && !eng_io_unreadable(res))
                return -EAGAIN;
        eng_index_lost(l->index);
        return -EIO;
}

static void read_ended(struct eng_page_read *r, int res)
{
        struct eng_local *l = r->l;
        struct eng_page_wait_list waiting = TAILQ_HEAD_INITIALIZER(waiting), line = TAILQ_HEAD_INITIALIZER(line);
        int rv;

        if (!eng_local_release(l)) {
                free(r);
                return;
        }
        eng_watch_end(l, &r->watch);
        LIST_REMOVE(r, link);
        assert(l->pages.reading > 0);
        l->pages.reading--;
        if (eng_local_failed(l)) { /* they were told when it failed */
                free(r);
                return;
        }
        rv = outcome(l, r, res);
        TAILQ_CONCAT(&waiting, &r->waiting, link);
        TAILQ_CONCAT(&line, &l->pages.line, link);
        free(r);
        eng_local_index_error(l, rv);
        eng_local_hold(l);
        tell_all(l, &waiting, rv);
        tell_all(l, &line, 0);
        eng_local_release(l);
}

static void pages_read_done(struct lp_io *io, int res)
{
        struct eng_page_read *r = container_of(io, struct eng_page_read, io);

        assert(!r->timed);
        read_ended(r, res);
}

static void hang_over(struct lp_timer *timer)
{
        struct eng_page_read *r = container_of(timer, struct eng_page_read, timer);

        assert(r->timed);
        read_ended(r, (int)(r->count * ENG_PAGE_BYTES));
}

static bool hangs(struct eng_local *l)
{
        if (l->pages.hang_ms == 0)
                return false;
        if (l->pages.hang_after > 0) {
                l->pages.hang_after--;
                return false;
        }
        return true;
}

static struct eng_page_read *pages_read_start(struct eng_local *l, uint64_t page, uint64_t count)
{
        struct eng_page_read *r;

        assert(count > 0 && l->pages.reading < ENG_PAGES_AT_ONCE);
        r = calloc(1, sizeof(*r));
        if (r == NULL)
                return NULL;
        r->l = l;
        r->page = page;
        r->count = count < READ_PAGES ? count : READ_PAGES;
        TAILQ_INIT(&r->waiting);
        r->io.done = pages_read_done;
        r->timer.expired = hang_over;
        r->timed = hangs(l);
        if (r->timed) {
                lp_timer_start(l->drive.owner, &r->timer, l->pages.hang_ms * 1000000ull);
        } else {
                lp_read(l->drive.owner, &r->io, eng_index_fd(l->index), sink, (uint32_t)(r->count * ENG_PAGE_BYTES),
                        page * ENG_PAGE_BYTES);
        }
        LIST_INSERT_HEAD(&l->pages.reads, r, link);
        l->pages.reading++;
        eng_count(&l->statistics.index_reads, 1);
        eng_watch_begin(l, &r->watch);
        eng_local_hold(l);
        return r;
}

static struct eng_page_read *read_of(struct eng_local *l, uint64_t page)
{
        struct eng_page_read *r;

        LIST_FOREACH (r, &l->pages.reads, link)
                if (page >= r->page && page < r->page + r->count)
                        return r;
        return NULL;
}

void eng_pages_wait(struct eng_local *l, struct eng_page_wait *wait)
{
        struct eng_page_read *r;

        assert(eng_local_on_loop(l));
        assert(!l->pages.open && wait->again != NULL);
        if (++wait->tries > ENG_PAGES_TRIES) {
                wait->again(l, wait, -EAGAIN);
                return;
        }
        r = read_of(l, l->pages.page);
        if (r == NULL && l->pages.reading >= ENG_PAGES_AT_ONCE) {
                wait->tries--;
                TAILQ_INSERT_TAIL(&l->pages.line, wait, link);
                return;
        }
        if (r == NULL)
                r = pages_read_start(l, l->pages.page, l->pages.count);
        if (r == NULL)
                wait->again(l, wait, -EAGAIN);
        else
                TAILQ_INSERT_TAIL(&r->waiting, wait, link);
}

void eng_pages_wait_op(struct eng_local *l, struct eng_op *op, void (*again)(struct eng_local *, struct eng_page_wait *, int))
{
        struct eng_page_wait *wait = eng_pages_of_op(op);

        wait->again = again;
        eng_pages_wait(l, wait);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void tell_everybody(struct eng_local *l, int rv)
{
        struct eng_page_read *r;

        LIST_FOREACH (r, &l->pages.reads, link)
                tell_all(l, &r->waiting, rv);
        tell_all(l, &l->pages.line, rv);
}

void eng_pages_fail(struct eng_local *l)
{
        tell_everybody(l, -EIO);
}

/* What a test makes hang is no I/O: nobody would end it. */
static void drop_timed(struct eng_local *l)
{
        struct eng_page_read *r, *next;

        LIST_FOREACH_SAFE (r, &l->pages.reads, link, next) {
                if (!r->timed)
                        continue;
                assert(l->pages.reading > 0);
                lp_timer_stop(l->drive.owner, &r->timer);
                LIST_REMOVE(r, link);
                l->pages.reading--;
                eng_watch_end(l, &r->watch);
                free(r);
                eng_local_release(l);
        }
}

void eng_pages_close(struct eng_local *l)
{
        tell_everybody(l, -ECANCELED);
        drop_timed(l);
        eng_resident_close(&l->pages.resident);
}

/* ---- for tests ------------------------------------------------------------------------------- */

void eng_pages_pretend(struct eng_local *l, uint64_t after, uint64_t ms)
{
        eng_resident_forget(&l->pages.resident);
        l->pages.resident.deaf = true;
        l->pages.hang_after = after;
        l->pages.hang_ms = ms;
}

void eng_pages_pretend_soon(struct eng_drive *drive, uint64_t after, uint64_t ms)
{
        struct eng_pages *pages = &eng_local_of(drive)->pages;

        pages->hang_after_soon = after;
        pages->hang_ms_soon = ms;
        atomic_store_explicit(&pages->pretend_soon, true, memory_order_release);
}
