/*
 * cutlog.h - the log of a cutfs: everything that changed the file system and everything that made
 * changes durable, in one order.
 *
 * cutfs appends to it, cutimg reads it. A file is a sequence of entries: | cut_entry | name | new name | data |. The number of an entry is its
 * place in the sequence, from 1 on; a power cut "at N" comes after entry N and before entry N+1. Inode numbers are never used again.
 */
#ifndef MILLRACE_TESTS_POWER_CUTLOG_H
#define MILLRACE_TESTS_POWER_CUTLOG_H

#include <stdint.h>

#define CUT_MAGIC  0x54554331u /* "1CUT" */
#define CUT_SECTOR 512u        /* what a disk writes whole or not at all */
#define CUT_ROOT   1u          /* inode of the root folder */

enum cut_kind {
        CUT_CREATE = 1, /* inode becomes name in folder; offset: mode */
        CUT_MKDIR,      /* the same for a folder */
        CUT_UNLINK,     /* name leaves folder (files and folders) */
        CUT_RENAME,     /* inode leaves name and becomes new name, both in folder */
        CUT_WRITE,      /* data_len bytes at offset; data follows, unless CUT_ZEROES */
        CUT_SIZE,       /* offset is the new size */
        CUT_RANGE,      /* bytes offset .. offset + data_len are durable: the end of a write with O_DSYNC */
        CUT_FSYNC,      /* all of the inode's data and its size are durable */
        CUT_FSYNCDIR,   /* all of the folder's names are durable */
        CUT_SETTLE,     /* everything is durable */
        CUT_KINDS
};

#define CUT_KIND_NAMES                                                                                                 \
        {                                                                                                              \
                "", "create", "mkdir", "unlink", "rename", "write", "size", "range", "fsync", "fsyncdir", "settle"     \
        }

enum cut_flag { CUT_ZEROES = 1 }; /* data is all zeroes and left out */

struct cut_entry {
        uint32_t magic;
        uint16_t kind;
        uint16_t flags;
        uint64_t inode;
        uint64_t folder;
        uint64_t offset;
        uint64_t data_len;
        uint16_t name_len, new_len;
        uint32_t pad;
};

_Static_assert(sizeof(struct cut_entry) == 48, "entry");

#endif
