/*
 * fd_faults.h - makes descriptors of this process misbehave, with what the kernel has for it: a
 * read of a place of /proc/self/mem where nothing is mapped is EIO; a read of an empty pipe does
 * not come back.
 */
#ifndef MILLRACE_TESTS_FD_FAULTS_H
#define MILLRACE_TESTS_FD_FAULTS_H

#define FD_FAULTS_MAX 64u

struct fd_faults {
        unsigned count;
        struct {
                int fd, before; /* before: a copy of what it was */
        } at[FD_FAULTS_MAX];
        int pipe[2];        /* of hanging reads */
        char stand_in[512]; /* the link in /proc of what took their places */
};

/*
 * Descriptors that are open for reading only, of files whose path contains this. Reads of them are
 * EIO from now on.
 */
void fd_faults_unreadable(struct fd_faults *faults, const char *part);
/* Reads of them hang. */
void fd_faults_hang(struct fd_faults *faults, const char *part);
/*
 * Reads that hang, and those to come, get so many bytes, which mean nothing. At most what a pipe
 * holds.
 */
void fd_faults_feed(const struct fd_faults *faults, unsigned bytes);
/* Everything is as before; reads that hang come back, short. */
void fd_faults_end(struct fd_faults *faults);

#endif
