/*
 * heal_rate.c - the rate of the upkeep where nobody has set one. Coordinator.
 */
#include "engine/epoch/epoch.h"

#include <assert.h>

/*
 * What drives hold is taken from the size of their segments and log files: it is known as soon as a
 * drive is open, and leaves out what others have on its file system.
 */
void eng_heal_choose_rate(struct eng_store *store)
{
        const struct eng_coord *c = store->coord;
        eng_mask in = c->view.in & c->view.up, changing = (c->filling & in) | c->shape.leaving | c->view.joining;
        struct eng_drive_info info;
        uint64_t held = 0;
        unsigned i;

        assert(eng_on_coordinator(store));
        if (store->options.heal_rate != 0)
                return;
        for (i = 0; i < store->drive_count; i++) {
                if (!(in & eng_bit(i)) || store->members[i].local == NULL)
                        continue;
                eng_drive_info(store->members[i].local, &info);
                if (info.data_bytes + info.log_bytes > held)
                        held = info.data_bytes + info.log_bytes;
        }
        atomic_store(&store->pacer.rate, eng_pacer_rate(held, (unsigned)__builtin_popcountll(changing)));
}
