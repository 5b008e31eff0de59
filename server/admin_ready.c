/*
 * admin_ready.c - /health/ready?drives=in: whether a process that has started waits for its own drives before it counts as
 * ready. For who restarts one node after the other, and goes by readiness alone. On the admin thread.
 *
 * It waits for a time only: a drive that is dead for good does not keep a node that serves from serving.
 */
#include "server/admin_private.h"

#include "server/cluster_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DRIVES_WAIT_S 600u

/* What became of the drives in the folders of this process; of a node those of all pools. */
struct own_drives {
        unsigned in, joining, others;
};

static void count_own_slots(struct own_drives *own, const struct eng_epoch_info *epoch, uint16_t node)
{
        unsigned i;

        for (i = 0; i < epoch->slots; i++) {
                if (epoch->slot[i].site.node != node || (epoch->gone >> i & 1) != 0)
                        continue;
                own->in += (epoch->in >> i & 1) != 0;
                own->joining += (epoch->joining >> i & 1) != 0;
                own->others += ((epoch->in | epoch->joining) >> i & 1) == 0;
        }
}

/* As etcd has it, which decides who counts. */
static int count_of_node(struct own_drives *own, struct srv_link *link)
{
        struct cl_view *view = calloc(1, sizeof(*view));
        char text[CL_TEXT_MAX];
        int why, rv = view == NULL ? -ENOMEM : srv_link_view(link, view, &why, text);
        unsigned i;

        for (i = 0; rv == 0 && i < view->pool_count; i++)
                if (view->pools[i].has_config)
                        count_own_slots(own, &view->pools[i].epoch, link->settings->number);
        if (rv == 0)
                cl_view_free(view);
        free(view);
        return rv;
}

static void count_of_store(struct own_drives *own, const struct eng_health *health)
{
        unsigned i;

        for (i = 0; i < health->drive_count; i++) {
                const enum eng_drive_state state = health->drives[i].state;

                own->in += state == ENG_DRIVE_IN;
                own->joining += state == ENG_DRIVE_JOINING;
                own->others += state != ENG_DRIVE_IN && state != ENG_DRIVE_JOINING && state != ENG_DRIVE_REMOVED;
        }
}

/* 1: it is asked for; 0: it is not; -EINVAL: what is asked for makes no sense. */
static int drives_wanted(const struct admin_request *request, uint64_t *seconds)
{
        struct admin_parameters *p = srv_admin_parameters(request);
        char text[8];
        int rv = p == NULL ? -EINVAL : s3_query_find(&p->query, "drives") == NULL ? 0 : 1;

        *seconds = DRIVES_WAIT_S;
        if (rv == 1 && (!srv_admin_parameter(p, "drives", text, sizeof(text)) || strcmp(text, "in") != 0))
                rv = -EINVAL;
        if (rv == 1 && s3_query_find(&p->query, "for") != NULL && !srv_admin_parameter_number(p, "for", seconds))
                rv = -EINVAL;
        free(p);
        return rv;
}

int srv_admin_awaits_drives(const struct admin_request *request, const struct eng_health *health, char *why, size_t size)
{
        const struct srv_admin *admin = request->admin;
        struct own_drives own = {0};
        uint64_t seconds;
        int rv = drives_wanted(request, &seconds);

        if (rv != 1)
                return rv;
        if ((lp_clock() - admin->since) / 1000000000ull >= seconds)
                return 0;
        if (admin->link == NULL)
                count_of_store(&own, health);
        else if (count_of_node(&own, admin->link) != 0)
                return -ENOMEM;
        if (own.joining + own.others == 0)
                return 0;
        snprintf(why, size, "of the %u drives here %u are not in use yet, of which %u catch up", own.in + own.joining + own.others, own.joining + own.others, own.joining);
        return 1;
}
