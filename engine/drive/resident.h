/*
 * resident.h - which pages of the index's map are in memory, so that a loop does not touch one that
 * is not.
 *
 * The kernel is asked (mincore) for a window of 64 pages at a time, and its answer is believed for
 * as long as the owner says: until eng_resident_forget(). So a page that is used costs a look into
 * a table.
 */
#ifndef MILLRACE_ENGINE_DRIVE_RESIDENT_H
#define MILLRACE_ENGINE_DRIVE_RESIDENT_H

#include <stdbool.h>
#include <stdint.h>

#define ENG_PAGE_BYTES     4096u
#define ENG_WINDOW_PAGES   64u
#define ENG_WINDOWS        8192u /* 24 bytes each; indexes beyond 2 GiB share them */

struct eng_resident_window {
        uint64_t number; /* + 1; 0: nothing is known */
        uint64_t pages;  /* bit: in memory */
        uint64_t read;   /* bit: was read. That counts whatever the kernel says: some file systems keep what they read elsewhere until the page is touched */
};

/* owner: the loop, once opened */
struct eng_resident {
        struct eng_resident_window *windows;
        bool blind; /* the kernel does not tell (a filter of system calls): everything counts as being there, and a page fault is what it is */
        bool deaf;  /* the kernel is not asked: only what was marked is there. For tests */
};

int eng_resident_open(struct eng_resident *resident); /* 0 or -ENOMEM */
void eng_resident_close(struct eng_resident *resident);
/*
 * Page number `page` stands at `at` in the map. strict: what the kernel said before does not count.
 * How many of the `count` pages are in memory, before the first that is not.
 */
uint64_t eng_resident_ask(struct eng_resident *resident, const void *at, uint64_t page, uint64_t count, bool strict);
/* They are in memory: they were read just now. */
void eng_resident_mark(struct eng_resident *resident, uint64_t page, uint64_t count);
/* Nothing is known any more. */
void eng_resident_forget(struct eng_resident *resident);

#endif
