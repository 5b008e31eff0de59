/*
 * memory_etcd.h - an etcd in memory, for tests: keys with revisions, behind the table of cluster_etcd.h. Any
 * thread. It answers at once, by messages, unless it is told to be silent.
 */
#ifndef MILLRACE_TESTS_MEMORY_ETCD_H
#define MILLRACE_TESTS_MEMORY_ETCD_H

#include <pthread.h>

#include "cluster_etcd.h"

#define ME_KEYS 512u

struct memory_etcd {
        struct cl_etcd etcd; /* first */
        pthread_mutex_t lock;
        /* under lock */
        int64_t revision;
        bool silent;          /* requests fail for sure */
        bool full;            /* what changes something is refused: -ENOSPC */
        unsigned lose_answers; /* of so many transactions with puts: carried out, and UNKNOWN */
        unsigned lose_after;   /* behind so many that were carried out before */
        unsigned changes;     /* transactions with puts that were carried out */
        struct me_key {
                char key[256];
                char *value;
                size_t len;
                int64_t mod_revision, create_revision, version;
        } keys[ME_KEYS];
        unsigned used; /* of keys: none is behind these */
        struct me_key *past; /* values that others have taken the place of */
        size_t past_count, past_size;
        struct cl_seen seen;
};

void me_init(struct memory_etcd *me);
void me_free(struct memory_etcd *me);
void me_put(struct memory_etcd *me, const char *key, const void *value, size_t len);
/* Its mod_revision; 0: it is not there. */
int64_t me_revision(struct memory_etcd *me, const char *key);
/* Carries a request out at once; the answer is the caller's. Without the lock, as me_copy(). */
struct cl_answer *me_carry_out(struct memory_etcd *me, const struct cl_request *request);
/* All keys and their past, and the revision. */
void me_copy(struct memory_etcd *to, const struct memory_etcd *from);
void me_set_silent(struct memory_etcd *me, bool silent);
void me_set_full(struct memory_etcd *me, bool full);

#endif
