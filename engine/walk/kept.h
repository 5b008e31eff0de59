/*
 * kept.h - a small record of the configuration that says how far some upkeep has come (private to
 * the upkeep).
 *
 * It is written beside all else, and nobody waits for it: one that is lost, old or nonsense may
 * cost work that was done before, and nothing more.
 */
#ifndef MILLRACE_ENGINE_KEPT_H
#define MILLRACE_ENGINE_KEPT_H

#include "engine/txn/txn.h"

/* owner: coordinator */
struct eng_kept {
        struct eng_store *store;
        char key;                      /* of its name, in FMT_SPACE_CONFIG */
        void (*loaded)(struct eng_kept *kept, const void *data, size_t len); /* NULL, 0: there is none, or it could not be read */
        struct eng_txn txn;            /* under way while busy */
        struct eng_buf *value;         /* being written */
        bool busy;
};

void eng_kept_init(struct eng_kept *kept, struct eng_store *store, char key, void (*loaded)(struct eng_kept *kept, const void *data, size_t len));
/* loaded() comes later, on this loop, also when the store is being closed. */
void eng_kept_load(struct eng_kept *kept);
/* Not while another one is under way, nor where the store only reads, nor without memory. */
void eng_kept_write(struct eng_kept *kept, const void *data, size_t len);
/* The loops have stopped around it. */
void eng_kept_stop(struct eng_kept *kept);

#endif
