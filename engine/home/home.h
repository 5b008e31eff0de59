/*
 * home.h - what the files of home stores share (private to the module).
 */
#ifndef MILLRACE_ENGINE_HOME_HOME_H
#define MILLRACE_ENGINE_HOME_HOME_H

#include "engine/base/store.h"
#include "engine/home/home_life.h"
#include "engine_home.h"

/* A slot's drive, as this process sees it. owner: coordinator; member, open, error: the thread while it opens */
struct home_slot {
        struct eng_home *home;
        unsigned slot;
        uint8_t drive_id[FMT_ID];       /* that it is opened for */
        struct eng_drive *drive;        /* NULL: not open */
        bool opening, asking;           /* a thread opens it; it is asked whether it answers again */
        bool reached;                   /* it answered last */
        uint64_t again;                 /* lp_now(): not tried before */
        pthread_t thread;
        struct lp_msg msg;
        struct eng_op op;
        char path[ENG_PATH_MAX];
        int rv;
};

/* owner: coordinator */
struct eng_home {
        struct eng_store *store;
        struct home_slot slots[ENG_DRIVES_MAX];
        struct lp_timer timer;          /* drives that are not reached are looked at */
        bool rows_whole;                /* the configuration was read to its end */
        uint8_t *epoch;                 /* body of the epoch that the view is of */
        size_t epoch_len;
        uint64_t leader_up;             /* drives that the leader reaches */
        bool leader_ready;
        bool looked;                    /* at all drives: those that are not reached are not waited for any more */
        uint64_t look_until;            /* lp_now(): they are until then; 0: no state has come yet */
        bool spreading, again;          /* the view is; again: it has changed since */
        struct home_wait {
                void (*done)(void *arg);
                void *arg;
        } waits[4], sent[4];            /* for the view that is spread next; for the one under way */
        unsigned wait_count, sent_count;
        struct home_wait rows;          /* for rows on their way */
        bool rows_last;
};

/* As last spread, or being spread. */
static inline struct eng_view *home_view(const struct eng_home *home)
{
        return &home->store->coord->view;
}

/* ---- home_drives.c ---- */

/* The epoch is another: drives of new slots are opened, those of others let go. */
void home_drives_epoch(struct eng_home *home, const struct eng_epoch_info *info);
/* Those that are reached. */
uint64_t home_drives_up(const struct eng_home *home);
/* Events of drives: one cannot be used for now. */
void home_drive_lost(struct eng_store *store, unsigned slot, const struct eng_drive *drive, const char *text);
void home_drives_start(struct eng_home *home);
/* The loops have stopped: threads are waited for. */
void home_drives_stop(struct eng_home *home);

/* ---- home_store.c ---- */

/* What loops should go by has changed. */
void home_spread(struct eng_home *home);

#endif
