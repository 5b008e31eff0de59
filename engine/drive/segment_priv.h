/*
 * segment_priv.h - what the files of the segments share. Nothing else includes it.
 */
#ifndef MILLRACE_ENGINE_DRIVE_SEGMENT_PRIV_H
#define MILLRACE_ENGINE_DRIVE_SEGMENT_PRIV_H

#include "engine/drive/segment.h"

#define SEGMENT_NAME_MAX    24
#define SEGMENT_FIRST_FRAME FMT_BLOCK

RB_HEAD(segment_tree, eng_segment);
TAILQ_HEAD(segment_list, eng_segment);

/* owner: the loop */
struct eng_segments {
        int dir_fd;
        uint8_t drive_id[FMT_ID];
        uint64_t segment_bytes;
        uint64_t next_id;
        struct segment_tree by_id;
        struct eng_segment *active; /* NULL: none, or full */
        struct eng_segment *next;   /* prepared; in by_id only once it is active */
        bool preparing;
        struct eng_segments_info total; /* of those in by_id */
        struct segment_list unsynced;
        struct segment_list stale; /* their rows in the index are behind */
        unsigned stale_count;
        struct segment_list
                quiet; /* sealed, unpinned, synced: may be worth reaping or trimming; looked at again when picked */
};

RB_PROTOTYPE(segment_tree, eng_segment, by_id, segment_order)

/* segment.c */
void segment_add(struct eng_segments *set, struct eng_segment *segment);
/* The next batch writes its row if that is behind by then. */
void segment_row_changes(struct eng_segments *set, struct eng_segment *segment);
void segment_note_quiet(struct eng_segments *set, struct eng_segment *segment);
void segment_free(struct eng_segment *segment);
/* Before and after a change of what the totals count. */
void segment_count_out(struct eng_segments *set, const struct eng_segment *segment);
void segment_count_in(struct eng_segments *set, const struct eng_segment *segment);

/* segment_file.c */
enum segment_suffix { SEGMENT_WHOLE, SEGMENT_NEW };
void segment_name(uint64_t id, enum segment_suffix suffix, char out[SEGMENT_NAME_MAX]);
/* 0 when name is exactly what segment_name gives. */
int segment_name_parse(const char *name, uint64_t *id, enum segment_suffix *suffix);
void segment_header_make(struct fmt_segment_header *header, const uint8_t drive_id[FMT_ID], uint64_t id,
                         uint64_t generation);
/* -EBADMSG: damaged; -EPROTONOSUPPORT: newer; -ESTALE: whole, but of another drive or number. */
int segment_header_check(const struct fmt_segment_header *header, const uint8_t drive_id[FMT_ID], uint64_t id);
/* Closes those of them that are open, and forgets them. */
void segment_close_all(int *read_fd, int *direct_fd, int *write_fd);
/* All of len bytes, or a negative errno (-ENODATA: the file ends). */
int segment_read(int fd, void *buf, size_t len, uint64_t offset);

#endif
