/*
 * space.c - see space.h.
 *
 * Used by the local drive: admission of PUTs (eng_local_full), the size of files made ahead (log.c,
 * file.c), how hard reclaim works.
 */
#include "engine/drive/space.h"

#include "engine/drive/drive.h"
#include "engine/drive/logfile.h"
#include "engine/drive/segment.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define PORTIONS 8u /* a file made ahead takes at most this part of the room */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct eng_space *accounts; /* under lock */

static struct eng_space *space_find(dev_t device)
{
        struct eng_space *space;

        for (space = accounts; space != NULL && space->device != device; space = space->next)
                ;
        return space;
}

static struct eng_space *get_locked(dev_t device)
{
        struct eng_space *space = space_find(device);

        if (space == NULL) {
                space = calloc(1, sizeof(*space));
                if (space == NULL)
                        return NULL;
                space->device = device;
                space->next = accounts;
                accounts = space;
        }
        space->users++;
        atomic_store(&space->drives, space->users);
        return space;
}

int eng_space_get(int fd, struct eng_space **out)
{
        struct stat st;
        int rv;

        *out = NULL;
        if (fstat(fd, &st) != 0)
                return -errno;
        pthread_mutex_lock(&lock);
        *out = get_locked(st.st_dev);
        pthread_mutex_unlock(&lock);
        if (*out == NULL)
                return -ENOMEM;
        rv = eng_space_look(*out, fd);
        if (rv != 0) {
                eng_space_put(*out);
                *out = NULL;
        }
        return rv;
}

void eng_space_put(struct eng_space *space)
{
        struct eng_space **at = &accounts;

        if (space == NULL)
                return;
        pthread_mutex_lock(&lock);
        assert(space->users > 0);
        space->users--;
        atomic_store(&space->drives, space->users);
        if (space->users == 0) {
                while (*at != space)
                        at = &(*at)->next;
                *at = space->next;
                free(space);
        }
        pthread_mutex_unlock(&lock);
}

int eng_space_look(struct eng_space *space, int fd)
{
        struct statvfs now;

        if (fstatvfs(fd, &now) != 0)
                return -errno;
        atomic_store_explicit(&space->total, (uint64_t)now.f_blocks * now.f_frsize, memory_order_relaxed);
        atomic_store_explicit(&space->free, (uint64_t)now.f_bavail * now.f_frsize, memory_order_relaxed);
        return 0;
}

void eng_space_claim(struct eng_space *space, uint64_t bytes)
{
        atomic_fetch_add_explicit(&space->claimed, bytes, memory_order_relaxed);
}

void eng_space_drop(struct eng_space *space, uint64_t bytes)
{
        uint64_t before = atomic_fetch_sub_explicit(&space->claimed, bytes, memory_order_relaxed);

        assert(before >= bytes);
}

uint64_t eng_space_free(const struct eng_space *space)
{
        uint64_t left = atomic_load_explicit(&space->free, memory_order_relaxed);
        uint64_t claimed = atomic_load_explicit(&space->claimed, memory_order_relaxed);

        return left > claimed ? left - claimed : 0;
}

uint64_t eng_space_portion(const struct eng_space *space, uint64_t reserve, uint64_t want, uint64_t least)
{
        uint64_t left = eng_space_free(space), drives = atomic_load_explicit(&space->drives, memory_order_relaxed);
        uint64_t room = left > reserve ? (left - reserve) / (PORTIONS * (drives > 0 ? drives : 1)) : 0;

        while (want > room && want / 2 >= least)
                want /= 2;
        return want;
}

/* ---- sizes that follow from that of the file system ------------------------------------------ */

#define SEGMENTS_MOST     16384u
#define SEGMENT_BYTES_MOST (4ull << 30)
#define LOG_FILES_MOST    65536u
#define LOG_BYTES_MOST    (1ull << 30)
#define RESERVE_MOST      (1ull << 30)
#define RESERVE_PARTS     20u /* or this part of the file system, if that is less */

/* The least, doubled until no more than that many files fit into total, up to most. */
static uint64_t size_by_total(uint64_t total, uint64_t least, uint64_t most, uint64_t files)
{
        while (least < most && total / least > files)
                least *= 2;
        return least;
}

static uint64_t segment_by_total(uint64_t total)
{
        return size_by_total(total, ENG_SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_MOST, SEGMENTS_MOST);
}

uint64_t eng_log_file_size(uint64_t set, uint64_t total)
{
        return set != 0 ? set : size_by_total(total, ENG_LOG_BYTES_DEFAULT, LOG_BYTES_MOST, LOG_FILES_MOST);
}

uint64_t eng_segment_size(uint64_t set, uint64_t total, uint64_t reserve)
{
        uint64_t bytes = set != 0 ? set : segment_by_total(total);

        while (set == 0 && bytes > ENG_SEGMENT_BYTES_DEFAULT && bytes > reserve / 2)
                bytes /= 2;
        return bytes;
}

uint64_t eng_reserve_size(uint64_t set, uint64_t total)
{
        uint64_t part = total / RESERVE_PARTS, segments = 2 * segment_by_total(total);

        if (set != 0)
                return set;
        if (part < RESERVE_MOST)
                return part;
        return segments > RESERVE_MOST ? segments : RESERVE_MOST;
}
