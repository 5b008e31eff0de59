/*
 * decided_fixture.h - a pool of three nodes whose epochs a configuration service decides (struct
 * eng_cluster): the test is that service. All drives are local. Test thread, but for what is atomic.
 */
#ifndef MILLRACE_TESTS_DECIDED_FIXTURE_H
#define MILLRACE_TESTS_DECIDED_FIXTURE_H

#include "tests/lib/store_fixture.h"

#define DF_DRIVES  9u /* 4+2, three on each node, so each group has a copy on each node */
#define DF_KEYS    40u
#define DF_FOREVER UINT64_MAX

enum df_word { DF_SAYS_YES, DF_SAYS_NOTHING };

/* word, before the store is opened; what proposes is loop 0 */
struct df_service {
        struct eng_cluster cluster;
        _Alignas(8) uint8_t epoch[FMT_EPOCH_MAX(ENG_DRIVES_MAX)]; /* that it has */
        const char *paths[ENG_DRIVES_MAX]; /* "": nowhere */
        _Atomic uint64_t lease_end;
        enum df_word word;
        atomic_uint proposed, ended;
        atomic_bool mute;              /* it does not answer, as the store is told; it decides all the same */
        struct lp_msg msg;
        void (*decided)(void *p);
        void *p;
};
extern struct df_service df_service;

/* A store of three nodes with objects, closed, whose epoch the service has from now on. */
void df_make(struct sf *sf, uint64_t *bucket);
/* The same of a store that is closed, with this epoch. */
void df_serve(struct sf *sf, const uint8_t store_id[FMT_ID], const void *epoch, size_t len);
/* What the service has. */
const struct fmt_epoch *df_epoch(void);
/* The newest epoch that a closed drive holds; its length. */
size_t df_epoch_on(const struct sf *sf, unsigned drive, void *out);
/* The pool's clock, which stands still. */
uint64_t df_now(void);
const char *df_key(unsigned i);
size_t df_size(unsigned i);
void df_check_objects(struct sf *sf, uint64_t bucket);
/* Ready, with all drives, and nothing is being repaired. For sf_wait_health(). */
bool df_all_in(const struct eng_health *h, void *arg);
/* For sf_ask(): the drive of the slot has failed; its node does not answer. */
uint64_t df_fail_drive(struct eng_store *store, uint64_t slot);
uint64_t df_say_silent(struct eng_store *store, uint64_t slot);

#endif
