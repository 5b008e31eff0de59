/*
 * ghost_table.c - see ghost_table.h. Used by read.c for units and by recread.c for records. owner:
 * the loop.
 */
#include "engine/drive/ghost_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GHOSTS_MIN 1024u

/* The table is made when it is first needed: a drive that is only written to has none. */
static bool make(struct eng_ghosts *ghosts)
{
        uint64_t count = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / ghosts->memory_each;
        unsigned sets;

        assert(ghosts->at == NULL);
        if (count > ghosts->most)
                count = ghosts->most;
        sets = (unsigned)(count < GHOSTS_MIN ? GHOSTS_MIN : count) / ENG_GHOSTS_SET;
        ghosts->at = calloc(sets, sizeof(ghosts->at[0]));
        if (ghosts->at == NULL)
                return false;
        ghosts->sets = sets;
        return true;
}

bool eng_ghosts_touch(struct eng_ghosts *ghosts, uint64_t file, uint64_t position)
{
        uint64_t hash = (file ^ position * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;
        uint32_t value, *set;
        unsigned i = 0;
        bool was;

        if (ghosts->sets == 0 && !make(ghosts))
                return false;
        hash ^= hash >> 32; /* the product's lower bits know nothing of the upper ones of what went in */
        hash *= 0xc4ceb9fe1a85ec53ull;
        value = (uint32_t)hash | 1; /* 0 means none */
        set = ghosts->at[(hash >> 32) % ghosts->sets];
        while (i < ENG_GHOSTS_SET - 1 && set[i] != value)
                i++;
        was = set[i] == value;
        memmove(set + 1, set, i * sizeof(*set));
        set[0] = value;
        return was;
}

void eng_ghosts_clear(struct eng_ghosts *ghosts)
{
        free(ghosts->at);
        ghosts->at = NULL;
        ghosts->sets = 0;
}
