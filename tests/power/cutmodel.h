/*
 * cutmodel.h - what of a cutfs is durable and what is not, after the entries of its log that have
 * been taken in. One thread; what goes wrong ends the process.
 */
#ifndef MILLRACE_TESTS_POWER_CUTMODEL_H
#define MILLRACE_TESTS_POWER_CUTMODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/power/cutlog.h"

#define CUT_NODES_MAX (1u << 20)

/* A change that is not durable yet. */
struct cut_piece {
        uint32_t number; /* of its entry */
        enum cut_kind kind;
        uint64_t inode;       /* names: what is named */
        uint64_t offset, len; /* writes: whole sectors; size: offset */
        uint64_t end;         /* writes: the file is at least so long */
        bool cuts;            /* sizes: the file becomes shorter */
        const uint8_t *bytes; /* writes: NULL: zeroes */
        uint8_t *own;         /* where bytes lie, if not in the log */
        char *name, *new_name;
};

struct cut_name {
        char *text;
        uint64_t inode;
};

struct cut_node {
        uint64_t inode, top, folder; /* folder it was made in */
        char *label;                 /* the name it was made with, or renamed to last */
        bool is_folder;
        struct cut_piece *pieces;
        size_t piece_count, piece_size;
        /* files: what is durable */
        uint8_t *durable;
        uint32_t *numbers; /* by sector: entry that durable's bytes are from */
        uint64_t room;     /* bytes that durable holds */
        uint64_t durable_size, size_now;
        /* folders: durable names */
        struct cut_name *names;
        size_t name_count, name_size;
};

/* By inode; from 0 up to, not including, cut_node_end. Those unlinked stay. */
extern struct cut_node *cut_nodes[CUT_NODES_MAX];
extern uint64_t cut_node_end;

struct cut_reader {
        const uint8_t *bytes;
        uint64_t len, at;
        uint32_t number; /* of the entry that cut_next() gave last */
        struct cut_entry entry;
        char name[256], new_name[256];
        const uint8_t *data; /* NULL: none, or zeroes */
};

void cut_reader_open(struct cut_reader *r, const char *path);
/* The next entry. False: the log ends here. */
bool cut_next(struct cut_reader *r);
/* Takes in the entry that cut_next() gave. */
void cut_take(const struct cut_reader *r);

struct cut_node *cut_node_new(uint64_t inode, uint64_t folder, bool is_folder, const char *label);
/* A piece is durable after all: the whole of it; one sector of a write; a file at least so long. */
void cut_apply(struct cut_node *node, const struct cut_piece *piece);
void cut_apply_sector(struct cut_node *file, const struct cut_piece *piece, uint64_t at);
void cut_grow(struct cut_node *file, uint64_t size);
void cut_die(const char *what) __attribute__((noreturn));

#endif
