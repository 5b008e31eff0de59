/*
 * home_copy.h - the copy of its leader's configuration that a home store has: rows (config_feed.h) are
 * given to all loops. Coordinator.
 */
#ifndef MILLRACE_ENGINE_BUCKET_HOME_COPY_H
#define MILLRACE_ENGINE_BUCKET_HOME_COPY_H

#include "engine/bucket/config_feed.h"

/*
 * Takes some rows; done() comes once all loops have them, later. One call at a time. bytes: not looked at
 * any more when it returns. -EBADMSG, -ENOMEM: none was taken, and done() does not come.
 */
int eng_home_rows_take(struct eng_store *store, const uint8_t *bytes, size_t len, void (*done)(struct eng_store *store));
/* All rows are read from here on: rows that are not, until the end, are dropped then. */
void eng_home_rows_begin(struct eng_store *store);
/* As eng_home_rows_take(). */
int eng_home_rows_end(struct eng_store *store, void (*done)(struct eng_store *store));
/* Instead: a reading that has begun is over, and what there is is all. */
void eng_home_rows_settled(struct eng_store *store);
void eng_home_rows_free(struct eng_store *store);

#endif
