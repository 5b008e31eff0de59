/* marks.c - see marks.h. Used by read.c for units and by recread.c for records. owner: the loop. */
#include "engine/drive/marks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARKS_MIN 1024u

/* The table is made when it is first needed: a drive that is only written to has none. */
static bool make(struct eng_marks *marks)
{
        uint64_t count = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / marks->memory_each;
        unsigned sets;

        if (count > marks->most)
                count = marks->most;
        sets = (unsigned)(count < MARKS_MIN ? MARKS_MIN : count) / ENG_MARKS_SET;
        marks->at = calloc(sets, sizeof(marks->at[0]));
        if (marks->at == NULL)
                return false;
        marks->sets = sets;
        return true;
}

bool eng_marks_touch(struct eng_marks *marks, uint64_t file, uint64_t position)
{
        uint64_t hash = (file ^ position * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;
        uint32_t value, *set;
        unsigned i = 0;
        bool was;

        if (marks->sets == 0 && !make(marks))
                return false;
        hash ^= hash >> 32; /* the product's lower bits know nothing of the upper ones of what went in */
        hash *= 0xc4ceb9fe1a85ec53ull;
        value = (uint32_t)hash | 1; /* 0 means none */
        set = marks->at[(hash >> 32) % marks->sets];
        while (i < ENG_MARKS_SET - 1 && set[i] != value)
                i++;
        was = set[i] == value;
        memmove(set + 1, set, i * sizeof(*set));
        set[0] = value;
        return was;
}

void eng_marks_clear(struct eng_marks *marks)
{
        free(marks->at);
        marks->at = NULL;
        marks->sets = 0;
}
