/*
 * call_faults.h - a call of the engine, on files of some drives, that the kernel refuses: once, or
 * for a while.
 *
 * The program that uses it is linked with --wrap for each of those functions (CALL_FAULTS_WRAP in
 * the Makefile). A call has a kind (which function, and what it is asked for), a site (where in the
 * engine it stands), and a class of files. In a run that looks, each (kind, site, class, drive) is
 * counted; in a run that has a fault, the nth of one of them fails. What the engine gives to a ring
 * is a call that ends with its completion.
 */
#ifndef MILLRACE_TESTS_CALL_FAULTS_H
#define MILLRACE_TESTS_CALL_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cf_kind {
        CF_OPEN,   /* open, openat for reading, fdopendir */
        CF_CREATE, /* open, openat with O_CREAT */
        CF_STAT,   /* fstat, fstatat, stat, statx, fstatfs, fstatvfs, lseek */
        CF_READ,   /* pread, readdir */
        CF_WRITE,  /* pwrite, write, writev */
        CF_SIZE,   /* ftruncate, fallocate, posix_fallocate */
        CF_FLUSH,  /* fsync, fdatasync, msync */
        CF_NAME,   /* unlinkat, renameat, mkdirat */
        CF_MAP,    /* mmap */
        CF_THREAD, /* pthread_create: of no drive */
        CF_RING_READ,
        CF_RING_WRITE,
        CF_RING_FLUSH,
        CF_KINDS
};
extern const char *const cf_kind_names[CF_KINDS];

#define CF_DRIVES_MAX 8u
#define CF_SITES_MAX  1024u
#define CF_ALL        UINT32_MAX /* drives */

struct cf_site {
        uint64_t offset;  /* in the program: for addr2line */
        enum cf_kind kind;
        char class_of[8]; /* "log", "data", "index", or "" */
        uint32_t drive;
        uint32_t count;
};

struct cf_fault {
        struct cf_site at; /* count: which of them */
        int error;         /* as in errno */
        uint32_t for_ms;   /* 0: that call only; else all calls at which such an error fits, for so long */
        bool everywhere;   /* of all drives, then */
        uint32_t seed;     /* how much of a write is done */
};

/* In memory that processes share. owner: the threads of the process that runs, under a lock */
struct cf_seen {
        uint32_t count;
        struct cf_site sites[CF_SITES_MAX];
        bool met; /* the fault was */
};

/* The errors that fit a kind; ends with 0. */
const int *cf_errors(enum cf_kind kind);
/*
 * Begins: roots are the folders of the drives. fault NULL: looks only. spared: what threads that
 * the test itself makes are given.
 */
void cf_begin(struct cf_seen *seen, const struct cf_fault *fault, const char *const *roots, unsigned count);
void cf_spare(void *const *args, unsigned count);
/* No call fails from now on, and none is counted. */
void cf_end(void);

#endif
