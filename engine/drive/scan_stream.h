/*
 * scan_stream.h - visible names of a drive in order, merged from the active generation, the frozen
 * one and the index (private to scan.c and scan_stream.c). The loop.
 *
 * All three are in bytewise order. At each step the least name wins, and among equals the newest
 * source; a tombstone there hides the name below.
 */
#ifndef MILLRACE_ENGINE_DRIVE_SCAN_STREAM_H
#define MILLRACE_ENGINE_DRIVE_SCAN_STREAM_H

#include "engine/drive/local.h"

enum eng_source { ENG_SOURCE_ACTIVE, ENG_SOURCE_FROZEN, ENG_SOURCE_INDEX, ENG_SOURCES };

/* Where one source stands. name NULL: at its end. */
struct eng_cursor {
        const uint8_t *name;
        size_t name_len;
        const struct eng_memtable_name *entry; /* of a generation */
        struct eng_index_entry found;      /* of the index */
};

struct eng_scan_stream {
        struct eng_local *l;
        struct eng_index_txn *reader;
        struct eng_cursor at[ENG_SOURCES];
};

/* The reader has begun. Stands at the first name that is not below (after: above) this one. */
int eng_stream_seek(struct eng_scan_stream *stream, const uint8_t *name, size_t len, bool after);
/* The source that has the least name; NULL: all are at their end. */
const struct eng_cursor *eng_stream_least(const struct eng_scan_stream *stream);
/* Steps over the name of that source, in all sources. */
int eng_stream_step(struct eng_scan_stream *stream, const struct eng_cursor *cursor);
/* Its value; not aligned. 1; 0: the name is deleted; or an error of the index, if its reader is a lazy one. */
int eng_stream_value(struct eng_scan_stream *stream, const struct eng_cursor *cursor, const uint8_t **value, size_t *len);
/* It is the head of a key, by its row in the index, of which nothing was checked. */
bool eng_stream_seems_head(const struct eng_scan_stream *stream, const struct eng_cursor *cursor);
/* Whether the value is visible: what ended its upload may hide it. */
bool eng_stream_visible(const struct eng_scan_stream *stream, const struct eng_cursor *cursor, const uint8_t *value);

#endif
