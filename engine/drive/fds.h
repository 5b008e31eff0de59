/*
 * fds.h - descriptors for reading a drive's files: opened when somebody asks, and no more of them
 * kept than the drive may have.
 *
 * A drive has tens of thousands of segments and log files, a process far fewer descriptors. So a
 * file is opened when it is first read, by a thread (opening may have to read directories and
 * inodes, and hang), its header is checked then, and it stays open until descriptors are needed for
 * files that were read later. Descriptors that somebody uses are never closed: a number that was
 * closed may be another file's in the next moment.
 *
 * owner: the loop, unless marked. The functions that need the drive are declared in local.h
 * (fds.c).
 */
#ifndef MILLRACE_ENGINE_DRIVE_FDS_H
#define MILLRACE_ENGINE_DRIVE_FDS_H

#include <stdbool.h>
#include <stdint.h>
#include <bsd/sys/queue.h>

#define ENG_OPEN_FILES_DEFAULT 1024u /* files kept open for reading, by two descriptors each */
#define ENG_OPEN_FILES_LEAST   8u

/* Somebody waits for the descriptors of a file. The file stays (pinned) until have() was called. */
struct eng_want {
        /*
         * 0: they are there, until eng_fd_put(). Else nothing is held: -EAGAIN, -EBADMSG (the file
         * is damaged or gone), -EIO (the drive failed), or -ECANCELED: the drive is being closed,
         * and nobody waits for an answer
         */
        void (*have)(struct eng_want *want, int rv);
        TAILQ_ENTRY(eng_want) link;
};
TAILQ_HEAD(eng_want_list, eng_want);

enum eng_fd_kind { ENG_FD_SEGMENT, ENG_FD_LOG };

TAILQ_HEAD(eng_fd_list, eng_fd);

/* A member of struct eng_segment and struct eng_log_file. */
struct eng_fd {
        enum eng_fd_kind kind;
        int read_fd;           /* buffered; -1: not open */
        int direct_fd;         /* open when read_fd is: O_DIRECT; -1 where the file system has none */
        uint32_t direct_block; /* what reads from direct_fd begin and end at a multiple of; at most FMT_BLOCK */
        unsigned users;        /* between eng_fd_get() and eng_fd_put() */
        bool checked;          /* its header was seen, or this process wrote it */
        bool asked;            /* waits to be opened, or is being opened */
        /* private */
        bool again;                 /* there was no descriptor for it once */
        struct eng_want_list wants;
        struct eng_fd_list *idle;   /* the list it is in while it is open and nobody uses it; NULL: none */
        unsigned *open;             /* counts it while it is open */
        TAILQ_ENTRY(eng_fd) link;   /* idle, or waits to be opened */
};

void eng_fd_init(struct eng_fd *fd, enum eng_fd_kind kind);
/* Nobody uses it: its descriptors become the caller's (-1: not open), and it is as after init. */
void eng_fd_take(struct eng_fd *fd, int *read_fd, int *direct_fd);
/* The same, and closes them. Also with users, when the drive is being closed. */
void eng_fd_close(struct eng_fd *fd);

/*
 * Blocking, any thread. Opens it for reading through the page cache, without reading ahead. Returns
 * the descriptor or a negative errno.
 */
int eng_fd_open_plain(int dir_fd, const char *name);

#endif
