/*
 * lost_objects.h - objects with stripes beyond repair: how many are known, when each was found, and
 * when it is to be looked at again (private to the upkeep).
 */
#ifndef MILLRACE_ENGINE_LOST_OBJECTS_H
#define MILLRACE_ENGINE_LOST_OBJECTS_H

#include "engine/base/store.h"

/*
 * A repair has come to its end and left stripes of which more than m shards are gone. id: of the
 * value; part: that one of them is in. rests: all else was repaired, so that nothing can be done
 * for it while the drives stay as they are. On the primary loop of its key, as all of these.
 */
void eng_lost_object_found(struct eng_loop *el, const struct eng_name *name, const uint8_t id[FMT_ID], const uint8_t part[FMT_ID], bool rests);
/* All of this part was read: what was said of it is not so. */
void eng_lost_object_readable(struct eng_loop *el, const uint8_t part[FMT_ID]);
/* No name has this value any more. */
void eng_lost_object_gone(struct eng_loop *el, const uint8_t id[FMT_ID]);
/* Whether it was found so in this epoch, less than so many nanoseconds ago. */
bool eng_lost_object_rests(const struct eng_loop *el, const uint8_t id[FMT_ID], uint64_t ns);
void eng_lost_objects_free(struct eng_loop *el);

#endif
