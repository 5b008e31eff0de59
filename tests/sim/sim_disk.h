/*
 * sim_disk.h - what a simulated drive keeps when the process or the power goes: a log, an index
 * that covers part of it, frames.
 *
 * A disk is opened as a drive (sim_drive.c), which holds what is volatile. sim_disk_crash() decides
 * by seed what of it had reached the disk.
 */
#ifndef MILLRACE_TESTS_SIM_DISK_H
#define MILLRACE_TESTS_SIM_DISK_H

#include "engine/drive/drive.h"
#include "engine/drive/pgs.h"
#include "tests/sim/sim_names.h"

#define SIM_DISKS 40u /* all that a history sees, one after the other */

struct sim_frame {
        uint8_t object_id[FMT_ID];
        uint32_t stripe;
        uint8_t shard;
        struct eng_buf *payload;
        uint64_t key_hash;
        uint64_t written;   /* number of its completed WRITE; 0: under way */
        uint32_t discarded; /* generation of the index batch that will say so; 0: no */
        bool synced, damaged;
        bool known;         /* to be damaged: a scrub has found it */
};

struct sim_record {
        struct fmt_record rec; /* position: its place in the log */
        struct eng_buf *body;
};

/* What one transaction of the index holds. */
struct sim_index {
        struct sim_names names;
        struct fmt_index_pg *pgs;
        unsigned pg_count;
        uint64_t covered; /* records below are in it */
        uint64_t reach;   /* so many the log had then */
        uint32_t generation;
};

struct sim_drive;

/* All of a disk at one moment. */
struct sim_image {
        bool taken;
        uint64_t log_count;
        struct sim_index index;
        struct sim_frame *frames; /* by value, each with a reference of its payload */
        unsigned frame_count;
};

/* What the operator knows of it (sim_operator.c). */
enum sim_disk_use {
        SIM_DISK_SERVES, /* a drive of the store */
        SIM_DISK_NEW,    /* to be taken in */
        SIM_DISK_LOST,   /* it will never be seen again, and nothing has taken its place yet */
        SIM_DISK_PARTED  /* was replaced or removed */
};

struct sim_disk {
        char path[32];
        unsigned number;
        enum sim_disk_use use;
        bool present, formatted;
        bool kept;       /* PARTED, or LOST and given up: its folder is there, and given to the store at a start */
        bool unreadable; /* opening it fails */
        bool log_lost;   /* found at its last opening: its log ends before what its index covers */
        bool rolled_back; /* it lost acknowledged writes, and no epoch without it is in force yet */
        bool lied;        /* it lost acknowledged writes once */
        struct sim_image image;
        bool lose_index; /* it is gone at the next opening: derived from the log again (I4) */
        struct eng_identity identity;
        struct sim_record *log;
        uint64_t log_count, log_size;
        struct sim_index index;
        struct sim_frame **frames;
        unsigned frame_count, frame_size;
        uint64_t written; /* WRITEs completed */
        struct fmt_drive_scrub scrub;
        struct sim_drive *open;
        struct sim_drive *retired; /* failed in this life, and the store has let them go */
        struct sim_faults {       /* of drives opened from it */
                unsigned slow;    /* one op in so many takes long; 0: none */
                unsigned refuse;  /* one read or lookup in so many meets a full queue */
                unsigned damaged; /* one lookup in so many finds damaged bytes */
                unsigned forgets; /* one in so many misses a name that is there, and does not notice */
                unsigned rot;     /* one frame in so many is damaged some time after it was written */
        } faults;
        bool full; /* WRITEs are refused */
};

extern struct sim_disk sim_disks[SIM_DISKS];
extern unsigned sim_disk_count;
extern uint32_t sim_pg_count; /* of stores that are formatted */
extern bool sim_loose_order;  /* ops of different groups may overtake each other */

struct sim_figures {
        uint64_t ops, appends, writes, reads, power_cuts, kills, failures, hangs, rotten, rot_found, lost_records, lost_frames;
        uint64_t images_restored, cuts; /* disks put back to an earlier image; logs that lost acknowledged records at their end */
        uint64_t forgotten;      /* names that a lookup missed */
        uint64_t cut_off, late;  /* drives that could not be reached; operations that came to one late */
        uint64_t blocked, stuck; /* loops that did nothing for a while; openings that never came to an end */
};
extern struct sim_figures sim_figures;

void sim_disks_make(unsigned count);
/* One more: present, empty, NEW. NULL: there have been too many. */
struct sim_disk *sim_disk_new(void);
void sim_disks_free(void);
/* Drives of the store, as the operator knows them; of these, those that can't be used just now. */
unsigned sim_disks_serving(void);
unsigned sim_disks_away(void);
/*
 * The process ends: what was not durable is kept or lost. power: what no SYNC covered may be gone
 * too.
 */
void sim_disk_crash(struct sim_disk *disk, bool power);

/*
 * Of a disk that is not open: keeps all of it, as it is; puts it back to that; loses the last
 * records that it acknowledged.
 */
void sim_disk_image(struct sim_disk *disk);
void sim_disk_restore(struct sim_disk *disk);
void sim_disk_cut(struct sim_disk *disk, uint64_t records);

/* An object id as text, for the trace. */
const char *sim_id(const uint8_t id[FMT_ID]);

struct sim_frame *sim_disk_find(const struct sim_disk *disk, const uint8_t id[FMT_ID], uint32_t stripe, unsigned shard);
void sim_disk_append(struct sim_disk *disk, const struct fmt_record *rec, struct eng_buf *body);
struct sim_frame *sim_disk_frame(struct sim_disk *disk);
void sim_disk_drop_frame(struct sim_disk *disk, unsigned at);
/* Takes over next; frames discarded up to its generation are gone. */
void sim_disk_set_index(struct sim_disk *disk, struct sim_index *next);
void sim_index_clear(struct sim_index *index);

/* ---- drives (sim_drive.c) -------------------------------------------------------------------- */

/* The drive fails: everything answers -EIO from now on (I8). Harmless when it is not open. */
void sim_drive_fail(struct sim_disk *disk, const char *why);
/* It answers nothing for so long; from 10 s on it has failed. */
void sim_drive_hang(struct sim_disk *disk, uint64_t ns);
bool sim_drive_failed(const struct sim_disk *disk);
/*
 * For so long it cannot be reached: what is asked of it is answered so, and is lost, or done without
 * an answer, or done much later.
 */
void sim_drive_cut(struct sim_disk *disk, uint64_t ns);
bool sim_drive_is_cut(const struct sim_disk *disk);
/* Names that are visible on an open drive. */
const struct sim_names *sim_drive_names(const struct sim_disk *disk);
/* Decides what of an open drive had reached its disk, and frees it. */
void sim_drive_crash(struct sim_drive *drive, bool power);
void sim_drive_free_retired(struct sim_disk *disk); /* with the life */

#endif
