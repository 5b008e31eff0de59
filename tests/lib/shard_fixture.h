/*
 * shard_fixture.h - shards on a drive of drive_fixture.h: written, read and discarded, with bytes
 * that follow from their names.
 */
#ifndef MILLRACE_TESTS_SHARD_FIXTURE_H
#define MILLRACE_TESTS_SHARD_FIXTURE_H

#include "tests/lib/drive_fixture.h"

#define SH_SHARD 1u /* number of the shard that all of these use */

/* Byte i of the payload of a stripe of object id. */
uint8_t sh_pattern(uint64_t id, uint32_t stripe, size_t i);
/*
 * One loop's slot is another loop's memory: tests use memory of their own of the same shape. free()
 * it.
 */
uint8_t *sh_new_slot(void);
int sh_write(struct fx *fx, uint64_t id, uint32_t stripe, uint32_t len);
/* 0; -EILSEQ for wrong bytes (never to be seen); or READ's result. */
int sh_read(struct fx *fx, uint64_t id, uint32_t stripe, uint32_t len);
int sh_sync(struct fx *fx);
int sh_discard(struct fx *fx, uint64_t id);
/* Polls until a folder holds at most so many files of the suffix; about ten seconds. */
bool sh_wait_files(struct fx *fx, const char *folder, const char *suffix, unsigned at_most);
void sh_remove_index(struct fx *fx); /* while it is closed */

#endif
