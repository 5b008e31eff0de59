/*
 * cuttree.h - the files and folders of a cutfs, and its log. One thread.
 */
#ifndef MILLRACE_TESTS_POWER_CUTTREE_H
#define MILLRACE_TESTS_POWER_CUTTREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/power/cutlog.h"

#define CUT_CONTROL  2u           /* inode of the control file */
#define CUT_FILE_MAX (1ull << 30) /* address space of each file */
#define CUT_PAGE     4096ull

struct cut_node;

struct cut_name {
        char *text;
        struct cut_node *node;
        off_t cookie; /* for readdir: increases, never used again */
        TAILQ_ENTRY(cut_name) link;
};

struct cut_node {
        uint64_t inode;
        struct cut_node *top; /* folder of the root it lies in; NULL: the root itself */
        bool failing;         /* of a top folder */
        mode_t mode;
        uint64_t lookups; /* that the kernel has not forgotten */
        unsigned links;
        struct timespec mtime;
        uint8_t *data; /* files: CUT_FILE_MAX bytes of address space */
        uint64_t size;
        TAILQ_HEAD(, cut_name) names; /* folders */
};

/* ---- the log: each of these ends the process if it cannot be written ------------------------- */

void cut_log_open(const char *path);
uint64_t cut_log_count(void);
/* A change of name in folder; new_name: of a rename. */
void cut_log_name(enum cut_kind kind, const struct cut_node *folder, const struct cut_node *node, const char *name,
                  const char *new_name);
void cut_log_write(uint64_t inode, uint64_t offset, const void *data, uint64_t len);
/* All other kinds. */
void cut_log_inode(enum cut_kind kind, uint64_t inode, uint64_t offset, uint64_t len);

/* ---- files and folders ----------------------------------------------------------------------- */

/* folder NULL: the root. NULL: no memory, or no numbers left. */
struct cut_node *cut_node_new(const struct cut_node *folder, mode_t mode);
struct cut_node *cut_node_of(uint64_t inode);
/* Frees it once nothing names it and the kernel has forgotten it. */
void cut_node_release(struct cut_node *node);
bool cut_node_failing(const struct cut_node *node);
void cut_node_attributes(const struct cut_node *node, struct stat *out);
/* Changes the size and logs it. */
void cut_node_set_size(struct cut_node *node, uint64_t size);
struct cut_name *cut_name_find(const struct cut_node *folder, const char *text);
int cut_name_add(struct cut_node *folder, const char *text, struct cut_node *node);
void cut_name_remove(struct cut_node *folder, struct cut_name *name);
bool cut_all_zero(const uint8_t *data, size_t len);

#endif
