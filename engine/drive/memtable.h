/*
 * memtable.h - a generation: what was applied in memory and is not in the index yet - names, places
 * of shards, discards.
 *
 * A drive has two: the active one, which grows, and the frozen one, which the index worker is
 * writing out. Frozen means that nobody changes it, so the loop and the worker may both read it.
 */
#ifndef MILLRACE_ENGINE_DRIVE_TAIL_H
#define MILLRACE_ENGINE_DRIVE_TAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <bsd/sys/tree.h>
#include <uthash.h>

#include "engine/drive/drive.h"
#include "engine/drive/index.h"
#include "engine/drive/rec.h"

enum eng_memtable_kind {
        ENG_MEMTABLE_PUT,  /* value: fmt_value, attrs, parts */
        ENG_MEMTABLE_GONE, /* a tombstone */
        ENG_MEMTABLE_RANGE /* name: the prefix of an ended upload's PART names; value: ids of the parts that live on */
};

/* One name. owner: the generation's */
struct eng_memtable_name {
        RB_ENTRY(eng_memtable_name) tree;
        uint64_t seq;
        struct eng_buf *value; /* NULL for GONE */
        const uint8_t *name;   /* = bytes, but for search keys */
        uint16_t name_len;
        uint8_t kind;
        bool copied; /* a COPY was among what came under this name: what older generations hold did not die by proof */
        uint8_t bytes[];
};
RB_HEAD(eng_memtable_tree, eng_memtable_name);

struct eng_memtable_object;

struct eng_location_key { /* no holes: hashed as bytes */
        uint8_t object_id[FMT_ID];
        uint32_t stripe;
        uint32_t shard;
};

/* Place of one frame. */
struct eng_memtable_location {
        struct eng_location_key key;
        struct eng_location location;
        struct eng_memtable_location *next; /* of the same object */
        UT_hash_handle hh;
};

/* All that is known of one object id here. */
struct eng_memtable_object {
        uint8_t id[FMT_ID];
        bool discarded; /* what older generations and the index know of it is gone */
        struct eng_memtable_location *locations;
        UT_hash_handle hh;
};

/* A list of buffers held, growing. */
struct eng_buf_list {
        struct eng_buf **items;
        unsigned count, size;
};
/* Takes over one reference; releases it on -ENOMEM. */
int eng_buf_list_add(struct eng_buf_list *list, struct eng_buf *buf);
void eng_buf_list_clear(struct eng_buf_list *list);

struct eng_memtable {
        struct eng_memtable_tree names;
        struct eng_memtable_location *locations;   /* uthash */
        struct eng_memtable_object *objects; /* uthash */
        unsigned name_count, range_count, location_count, discard_count;
        bool copying; /* what is being applied is a COPY record, which proves nothing dead (I6): the data of a part that is deleted by one may live on
                         in an object, and those who completed it have said what died */
        uint64_t bytes;           /* memory it takes, roughly */
        uint64_t since;           /* when its first entry came; lp_now() scale */
        struct eng_buf_list dead; /* values with shards that were superseded within it */
};

struct eng_memtable *eng_memtable_new(void); /* NULL: no memory */
void eng_memtable_free(struct eng_memtable *memtable);
static inline bool eng_memtable_empty(const struct eng_memtable *memtable)
{
        return memtable->name_count == 0 && memtable->objects == NULL && memtable->dead.count == 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

/*
 * All three: per name the highest seq wins; what loses and has shards goes to dead, unless the
 * winner has the same shards. put takes over the reference to value in any case. -ENOMEM.
 */
int eng_memtable_put(struct eng_memtable *memtable, const uint8_t *name, size_t len, struct eng_buf *value, uint64_t seq);
int eng_memtable_delete(struct eng_memtable *memtable, const uint8_t *name, size_t len, uint64_t seq);
/* Whether an entry of this kind takes a value away without its shards being dead by that. */
bool eng_memtable_only_forgets(enum eng_memtable_kind kind, const uint8_t *name);
/* ids: sorted ids of the parts that live on; taken over. */
int eng_memtable_end_upload(struct eng_memtable *memtable, const uint8_t *upload, size_t len, struct eng_buf *ids, uint64_t seq);

/*
 * The entry that speaks for this name (an ended upload speaks for its parts, as a RANGE), or NULL:
 * ask the next older generation.
 */
const struct eng_memtable_name *eng_memtable_find(const struct eng_memtable *memtable, const uint8_t *name, size_t len);
/* First entry (RANGE included) with name >= (after: >) the given one. */
const struct eng_memtable_name *eng_memtable_seek(const struct eng_memtable *memtable, const uint8_t *name, size_t len, bool after);
const struct eng_memtable_name *eng_memtable_next(const struct eng_memtable_name *entry);
/* True: an upload that ended here, at a seq above, holds this PART name. */
bool eng_memtable_hides(const struct eng_memtable *memtable, const uint8_t *name, size_t len, uint64_t seq);

/* The shards of older live on in newer: the same object rewritten. */
bool eng_value_same_shards(const void *older, size_t older_len, const void *newer, size_t newer_len);
/* ids: as in END_UPLOAD. True: the part's data lives on. */
bool eng_value_in_ids(const struct fmt_value *value, const uint8_t *ids, size_t ids_len);

/* ---- places ---------------------------------------------------------------------------------- */

/* Sets the place of a shard. 0: new; 1: replaced *old. -ENOMEM. */
int eng_memtable_location(struct eng_memtable *memtable, const uint8_t object_id[FMT_ID], const struct eng_location *location,
                   struct eng_location *old);
/*
 * Forgets the object here and says so to what is older. gone is called for each place that was
 * here. -ENOMEM.
 */
int eng_memtable_discard(struct eng_memtable *memtable, const uint8_t object_id[FMT_ID], eng_index_location_gone gone, void *arg);
/* 1: *out; 0: nothing said here, ask older; -ENOENT: discarded here. */
int eng_memtable_location_find(const struct eng_memtable *memtable, const uint8_t object_id[FMT_ID], uint32_t stripe, uint8_t shard,
                        struct eng_location *out);

#endif
