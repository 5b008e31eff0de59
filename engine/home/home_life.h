/*
 * home_life.h - what store.c does with a home store, in the order in which it does.
 */
#ifndef MILLRACE_ENGINE_HOME_HOME_LIFE_H
#define MILLRACE_ENGINE_HOME_HOME_LIFE_H

#include "engine/base/store.h"

extern const struct eng_events eng_home_events;
int eng_home_make(struct eng_store *store);     /* -ENOMEM */
void eng_home_begin(struct eng_store *store);   /* coordinator */
void eng_home_end(struct eng_store *store);     /* the loops have stopped */
void eng_home_free(struct eng_store *store);

#endif
