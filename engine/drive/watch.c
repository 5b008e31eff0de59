/*
 * watch.c - I/O that takes too long, and the probe that tells a place that is slow to read from a
 * drive that hangs.
 *
 * A write, a flush or an opening that is late ends the drive (I8). A read that is late does so only
 * if nothing else of the drive has ended for as long; otherwise it counts as damage of that place.
 * A drive may have nothing else to do than that read. So when all has been quiet for half the time,
 * the drive asks for something itself: a probe, the first block of the index's file, past the page
 * cache. It ends as any other I/O does, or it hangs as well. Where the file system refuses such a
 * read (no O_DIRECT), a quiet drive has no other witness, and a late read ends it.
 *
 * The probe's memory is its own until its I/O has ended, whatever becomes of the drive (I7).
 *
 * owner: the loop, but for eng_probe_open() and eng_probe_close().
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct eng_probe {
        struct lp_io io;
        struct eng_watch watch;
        struct eng_local *l;
        uint8_t *block;
};

/* ---- watches --------------------------------------------------------------------------------- */

static void watch_begin(struct eng_local *l, struct eng_watch *watch, bool read, struct eng_flight *waits)
{
        assert(eng_local_on_loop(l) && !watch->under_way);
        watch->under_way = true;
        watch->started = lp_now(l->drive.owner);
        watch->read = read;
        watch->late = false;
        watch->waits = waits;
        TAILQ_INSERT_TAIL(&l->watches, watch, link);
}

void eng_watch_begin(struct eng_local *l, struct eng_watch *watch)
{
        watch_begin(l, watch, false, NULL);
}

void eng_watch_begin_read(struct eng_local *l, struct eng_watch *watch, struct eng_flight *waits)
{
        watch_begin(l, watch, true, waits);
}

static void watch_forget(struct eng_local *l, struct eng_watch *watch)
{
        assert(watch->under_way);
        watch->under_way = false;
        TAILQ_REMOVE(&l->watches, watch, link);
}

void eng_watch_end(struct eng_local *l, struct eng_watch *watch)
{
        watch_forget(l, watch);
        l->ended_at = lp_now(l->drive.owner);
}

/* ---- the probe ------------------------------------------------------------------------------- */

void eng_probe_open(struct eng_local *l)
{
        l->probe_fd = openat(l->dir_fd, "index/" ENG_INDEX_DATA_FILE, O_RDONLY | O_DIRECT | O_CLOEXEC);
}

void eng_probe_close(struct eng_local *l)
{
        if (l->probe_fd >= 0)
                close(l->probe_fd);
        l->probe_fd = -1;
}

static void probe_free(struct eng_probe *probe)
{
        free(probe->block);
        free(probe);
}

/*
 * Any answer of the drive is a sign of life, an error too. What the kernel refused before it asked
 * the drive is not.
 */
static void probe_done(struct lp_io *io, int res)
{
        struct eng_probe *probe = container_of(io, struct eng_probe, io);
        struct eng_local *l = probe->l;

        if (eng_local_release(l)) {
                assert(l->probe == probe);
                l->probe = NULL;
                if (eng_io_again(res) || res == -EINVAL)
                        watch_forget(l, &probe->watch);
                else
                        eng_watch_end(l, &probe->watch);
        }
        probe_free(probe);
}

static void probe_send(struct eng_local *l)
{
        struct eng_probe *probe;

        if (l->probe != NULL || l->probe_fd < 0)
                return;
        probe = calloc(1, sizeof(*probe));
        if (probe == NULL)
                return; /* at the next tick */
        probe->block = aligned_alloc(FMT_BLOCK, FMT_BLOCK);
        if (probe->block == NULL) {
                probe_free(probe);
                return;
        }
        probe->l = l;
        probe->io.done = probe_done;
        l->probe = probe;
        eng_local_hold(l);
        eng_watch_begin_read(l, &probe->watch, NULL);
        lp_read(l->drive.owner, &probe->io, l->probe_fd, probe->block, FMT_BLOCK, 0);
}

/* ---- what is late ---------------------------------------------------------------------------- */

/* For so long nothing of the drive has ended while this one was under way. */
static uint64_t watch_quiet(const struct eng_local *l, const struct eng_watch *watch, uint64_t now)
{
        return now - l->ended_at < now - watch->started ? now - l->ended_at : now - watch->started;
}

/* It is late. Of a read: and nothing else of the drive has ended for as long. */
static bool watch_hangs(const struct eng_local *l, const struct eng_watch *watch, uint64_t now)
{
        uint64_t quiet = watch_quiet(l, watch, now);

        if (!watch->read)
                return true;
        return (watch->waits != NULL ? quiet : quiet / ENG_IO_PATIENCE) >= l->io_limit_ns;
}

/* The place counts as unreadable now: this I/O may never end. */
static void watch_give_up(struct eng_local *l, struct eng_watch *watch)
{
        assert(watch->read && !watch->late);
        eng_local_read_late(l, watch->file, watch->position);
        eng_flight_give_up(watch->waits);
        watch->waits = NULL;
        watch->late = true;
}

bool eng_local_check_watches(struct eng_local *l)
{
        uint64_t now = lp_now(l->drive.owner);
        bool quiet = false;
        struct eng_watch *watch;

        assert(eng_local_on_loop(l));
        TAILQ_FOREACH (watch, &l->watches, link) {
                quiet |= watch->read && watch_quiet(l, watch, now) >= l->io_limit_ns / 2;
                assert(watch->under_way);
                if (now - watch->started < l->io_limit_ns)
                        break;
                if (watch_hangs(l, watch, now)) {
                        eng_local_fail(l, -ETIMEDOUT, "a read, write or flush");
                        return true;
                }
                if (watch->waits != NULL)
                        watch_give_up(l, watch);
        }
        if (quiet)
                probe_send(l);
        eng_read_late(l);
        return false;
}
