/*
 * upkeep.h - who finds damage in a placement group asks for a look at all of it (events.c, heal.c).
 */
#ifndef MILLRACE_ENGINE_UPKEEP_H
#define MILLRACE_ENGINE_UPKEEP_H

#include <stdint.h>

struct eng_store;

/*
 * Any loop: damage was found that concerns this placement group. Its members' names are compared, and its objects' shards
 * looked for, before those of other groups. A group that is not one of the store's is ignored. The request is lost if there
 * is no memory for it, or the store closes: the next walk of all groups comes to it.
 */
void eng_upkeep_group(struct eng_store *store, uint32_t group);

#endif
