/*
 * words.c - what the members of a group say of one name: the one rule by which it is not there
 * (I6). Lookups, changes, repairs and completions of uploads all ask it. Functions over values, on
 * the primary loop.
 */
#include "engine/txn/txn.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

bool eng_outvoted(eng_mask have, eng_mask absent)
{
        return __builtin_popcountll(absent) > __builtin_popcountll(have);
}

void eng_words_begin(struct eng_words *words, const struct eng_view *view, uint32_t pg)
{
        memset(words, 0, sizeof(*words));
        words->members = eng_speakers(view, pg) & view->up;
}

void eng_words_take(struct eng_words *words, const struct eng_view *view, uint32_t pg, int rv)
{
        eng_mask slot = eng_bit(words->slot);

        assert((words->asked & slot) != 0);
        if (rv == -EBADMSG)
                words->damaged |= slot;
        else if (rv == -ENOENT && eng_may_say_absent(view, pg, words->slot))
                words->absent |= slot;
        else if (rv != 0)
                return;
        words->said |= slot;
}

bool eng_words_heard(const struct eng_words *words, const struct eng_view *view, uint32_t pg, unsigned wanted)
{
        unsigned left = (unsigned)__builtin_popcountll(words->members & eng_speakers(view, pg) & view->up & ~words->said);

        assert((words->said & ~words->asked) == 0);
        return left == 0 || (unsigned)__builtin_popcountll(words->said) >= wanted;
}

bool eng_words_absent(const struct eng_words *words, const struct eng_view *view, uint32_t pg)
{
        eng_mask speakers = eng_speakers(view, pg), absent = words->absent & speakers;
        eng_mask members = words->members & view->map->groups[pg].before; /* the group has gone from others meanwhile: those that speak have it all */

        assert((words->absent & words->damaged) == 0);
        return eng_outvoted((members | (speakers & view->up)) & ~absent, absent);
}

int eng_words_unsure(struct eng_loop *el, uint32_t pg, const struct eng_words *words)
{
        assert(((words->absent | words->damaged) & ~words->asked) == 0);
        if (words->damaged != 0 && words->absent != 0)
                eng_upkeep_group(el->store, pg);
        return words->damaged != 0 && words->damaged == words->asked ? -EIO : -EHOSTDOWN;
}
