/*
 * object_id.c - ids of new objects: epoch, loop and a counter of the loop, so that no two are ever
 * the same. The loop.
 */
#include "engine/base/store.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

void eng_new_id(struct eng_loop *el, uint8_t id[FMT_ID])
{
        uint32_t epoch = htobe32((uint32_t)el->view.epoch);
        uint16_t loop = htobe16((uint16_t)el->index);
        uint64_t counter = htobe64(++el->home.id_counter);

        assert(eng_on_loop(el));
        memcpy(id, &epoch, 4);
        memcpy(id + 4, &loop, 2);
        memset(id + 6, 0, 2);
        memcpy(id + 8, &counter, 8);
}
