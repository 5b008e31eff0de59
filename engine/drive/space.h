/*
 * space.h - room on a file system, counted once for all drives that lie on it.
 *
 * Several drives on one file system share what is free there, and one reserve. Free space is looked
 * at now and then; files that are being made meanwhile are claimed, so that two drives never count
 * on the same room.
 *
 * Threads: get and put take a lock and come at opening and closing; the others are any thread's,
 * and wait for nothing but the file system.
 */
#ifndef MILLRACE_ENGINE_DRIVE_SPACE_H
#define MILLRACE_ENGINE_DRIVE_SPACE_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

struct eng_space {
        dev_t device;
        unsigned users; /* under the lock of space.c, as is next */
        struct eng_space *next;
        atomic_uint drives; /* the same number as users, for any thread */
        atomic_uint_fast64_t total, free, claimed;
};

/*
 * The account of the file system that a descriptor lies on. -ENOMEM, or why it cannot be looked at:
 * *out is NULL then. Blocking.
 */
int eng_space_get(int fd, struct eng_space **out);
void eng_space_put(struct eng_space *space); /* NULL is allowed */

/* Asks the file system again. Blocking: workers only. 0 or a negative errno. */
int eng_space_look(struct eng_space *space, int fd);
/*
 * A file of so many bytes is going to be made; drop: it was made (and looked at afterwards), or
 * will not be.
 */
void eng_space_claim(struct eng_space *space, uint64_t bytes);
void eng_space_drop(struct eng_space *space, uint64_t bytes);
/* What is free and not claimed. */
uint64_t eng_space_free(const struct eng_space *space);

/*
 * How large a file that takes its space ahead should be: want, or, where that is much of what is
 * free above the reserve, a half, a quarter ... of it, but not less than least. Drives that share
 * the file system are counted.
 */
uint64_t eng_space_portion(const struct eng_space *space, uint64_t reserve, uint64_t want, uint64_t least);

#endif
