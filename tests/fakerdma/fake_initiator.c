/*
 * fake_initiator.c - the fake's dynamically connected transport: initiators, the ways to ports, and
 * targets.
 *
 * An initiator is a pair whose work requests each name a target, by GID and number. A target checks
 * its key and the rights of what is registered in its domain, and a refusal is the initiator's
 * error alone. There are no notices: what was written is visible when it has completed.
 */
#include "tests/fakerdma/fake_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- initiators ------------------------------------------------------------------------------ */

int fake_initiator_open(struct rdx_domain *domain, struct rdx_queue *queue, unsigned sends, struct rdx_initiator **out)
{
        struct rdx_initiator *initiator;

        fake_lock();
        FAKE_MUST(sends > 0 && !fake.options.no_dc);
        initiator = fake_point() ? NULL : calloc(1, sizeof(*initiator));
        if (initiator != NULL) {
                struct rdx_pair *pair = &initiator->pair;

                pair->domain = domain;
                pair->queue = queue;
                pair->sends = sends;
                pair->work_last = &pair->work;
                pair->receive_last = &pair->receive;
                pair->fd = -1;
                pair->dials = true;
                pair->state = PAIR_READY;
                domain->users++;
                queue->pairs++;
                pair->next = fake.pairs;
                fake.pairs = pair;
                fake_opened();
        }
        fake_unlock();
        *out = initiator;
        return initiator != NULL ? 0 : -ENOMEM;
}

void fake_initiator_close(struct rdx_initiator *initiator)
{
        struct rdx_pair *pair = &initiator->pair, **link = &fake.pairs;

        fake_lock();
        fake_to_error(pair, -ECANCELED);
        fake_forget_work(pair);
        fake_wire_hang_up(pair);
        pair->domain->users--;
        pair->queue->pairs--;
        while (*link != pair)
                link = &(*link)->next;
        *link = pair->next;
        fake_closed();
        fake_unlock();
        free(initiator);
}

int fake_initiator_reset(struct rdx_initiator *initiator)
{
        int rv = -EIO;

        fake_lock();
        FAKE_MUST(initiator->pair.work == NULL); /* what was posted is over */
        if (!fake_point()) {
                initiator->pair.state = PAIR_READY;
                rv = 0;
        }
        fake_unlock();
        return rv;
}

int fake_initiator_post(struct rdx_initiator *initiator, const struct rdx_work *work, unsigned count, unsigned *posted)
{
        struct rdx_pair *pair = &initiator->pair;
        unsigned i;

        fake_lock();
        for (i = 0; i < count; i++)
                FAKE_MUST((work[i].op == RDX_OP_WRITE || work[i].op == RDX_OP_READ) && work[i].route != NULL &&
                          work[i].route->domain == pair->domain && work[i].target < 1u << 24);
        fake_unlock();
        return fake_post(pair, work, count, posted);
}

/* ---- ways ------------------------------------------------------------------------------------ */

int fake_route_open(struct rdx_domain *domain, const struct rdx_port *port, struct rdx_route **out)
{
        struct rdx_route *route;

        fake_lock();
        route = fake_point() ? NULL : calloc(1, sizeof(*route));
        if (route != NULL) {
                route->domain = domain;
                route->port = *port;
                domain->users++;
                fake_opened();
        }
        fake_unlock();
        *out = route;
        return route != NULL ? 0 : -EHOSTUNREACH;
}

void fake_route_close(struct rdx_route *route)
{
        fake_lock();
        FAKE_MUST(route->works == 0);
        route->domain->users--;
        fake_closed();
        fake_unlock();
        free(route);
}

/* ---- targets --------------------------------------------------------------------------------- */

int fake_target_open(struct rdx_domain *domain, uint64_t key, struct fake_target **out)
{
        struct fake_target *target = calloc(1, sizeof(*target));
        int rv;

        FAKE_MUST(target != NULL);
        fake_lock();
        target->domain = domain;
        target->key = key;
        target->fd = -1;
        target->number = (((uint32_t)getpid() << 8) + fake.next_pair++) & 0xffffff;
        rv = fake.live ? fake_wire_target(target) : 0;
        if (rv == 0) {
                domain->users++;
                target->next = fake.targets;
                fake.targets = target;
                fake_opened();
        }
        fake_unlock();
        if (rv != 0)
                free(target);
        *out = rv == 0 ? target : NULL;
        return rv;
}

uint32_t fake_target_number(const struct fake_target *target)
{
        return target->number;
}

void fake_target_close(struct fake_target *target)
{
        struct fake_target **link = &fake.targets;

        fake_lock();
        while (*link != target)
                link = &(*link)->next;
        *link = target->next;
        if (fake.live)
                fake_wire_untarget(target);
        target->domain->users--;
        fake_closed();
        fake_unlock();
        free(target);
}

struct fake_target *fake_target_find(const uint8_t gid[RDX_GID_LEN], uint32_t number)
{
        struct fake_target *target = fake.targets;

        while (target != NULL &&
               (target->number != number || memcmp(target->domain->device->gid, gid, RDX_GID_LEN) != 0))
                target = target->next;
        return target;
}

int fake_target_execute(const struct fake_target *target, const struct rdx_pair *pair, const struct rdx_work *work,
                        fake_copy copy)
{
        struct rdx_pair there = {.domain = target->domain, .pid = pair->pid};
        bool read = work->op == RDX_OP_READ;
        int rv;

        if (work->key != target->key) {
                fake.counts.refused++;
                return -EACCES;
        }
        rv = fake_check_rights(&there, work->rkey, work->remote, work->len, read ? RDX_REMOTE_READ : RDX_REMOTE_WRITE);
        if (rv != 0)
                return rv;
        if (read) {
                fake.counts.reads++;
        } else {
                fake.counts.writes++;
                fake.counts.written += work->len;
        }
        return copy(&there, (void *)(uintptr_t)work->remote, work->address, work->len, !read);
}
