/*
 * nodes_grow.c - histories in which an operator changes the drives of the pool (docs/design/growing.md): nodes are given
 * drives, also such as had none; some of those are taken back before they are in; drives and whole nodes are drained.
 * The operator asks whoever serves, and asks again, over crashes and refusals, until it is done. All faults may come
 * besides, and some are aimed at the steps of such a change.
 */
#include "tests/sim/nodes/nodes_world.h"

#include <errno.h>
#include <string.h>

#include "engine/base/store.h"
#include "tests/sim/nodes/nodes.h"
#include "tests/sim/nodes/sim_etcd.h"
#include "tests/sim/nodes/sim_net.h"
#include "tests/sim/sim_clients.h"

#define GROWS_IN  8u /* histories, of which one has such an operator */
#define LOSES_TOO_IN 3u /* where groups are lost */
#define JOBS_MAX  4u
#define ADDS_MAX  3u /* drives at a time */
#define ASK_NS    (2 * SIM_S)
#define BACK_NS   (20 * SIM_MS) /* one is taken back between two that catch up */
#define STEPS_MAX 8u /* of a change in etcd, before something is aimed at it */

enum grow_job { JOB_NONE, JOB_ADD, JOB_DRAIN };

int nodes_grows;

static struct {
        unsigned jobs_left;
        bool ended; /* everything heals: the last job is done to its end */
        enum grow_job job;
        struct sim_node *node;            /* at which it is */
        struct sim_disk *disks[ADDS_MAX]; /* ADD */
        unsigned disk_count;
        uint64_t slots;    /* DRAIN; ADD: that are taken back */
        bool takes_back;   /* ADD: one of them will be; until nobody refuses it */
        bool asked_back;   /* what is awaited is that */
        uint64_t asked;    /* the number of the report that is awaited; 0: none */
        struct eng_store *of; /* whose report */
        unsigned steps;
} grow;

static uint64_t grow_below(uint64_t n)
{
        return sim_below(SIM_OPERATOR, n);
}

void grow_plan(bool none)
{
        struct nodes_plan *p = &nodes_plan;

        memset(&grow, 0, sizeof(grow));
        p->grows = nodes_grows == NODES_ALL || (nodes_grows == NODES_SOME && grow_below(p->loses ? LOSES_TOO_IN : GROWS_IN) == 0);
        p->grows &= !none;
        if (!p->grows)
                return;
        grow.jobs_left = 1 + (unsigned)grow_below(JOBS_MAX);
        if (p->nodes < NODES_MAX && grow_below(2) == 0) { /* one that has no drives yet */
                p->nodes++;
                p->bare_nodes = 1;
        }
}

bool grow_over(void)
{
        return grow.jobs_left == 0 && grow.job == JOB_NONE;
}

void grow_heal(void)
{
        grow.ended = true;
        grow.jobs_left = 0;
}

/* ---- what is there --------------------------------------------------------------------------- */

static const struct eng_coord *coord(void)
{
        return world.store->coord;
}

/* -1: none has it. */
static int slot_of_disk(const struct sim_disk *disk)
{
        unsigned i;

        for (i = 0; i < world.store->drive_count; i++)
                if (memcmp(world.store->members[i].id, disk->identity.drive_id, FMT_ID) == 0)
                        return (int)i;
        return -1;
}

static uint64_t slots_of_node(const struct sim_node *node)
{
        uint64_t slots = 0;
        unsigned i;

        for (i = 0; i < world.store->drive_count; i++)
                if (world.store->members[i].site.node == node->process.party && !(coord()->shape.gone & eng_bit(i)))
                        slots |= eng_bit(i);
        return slots;
}

static bool add_is_done(void)
{
        unsigned i;

        for (i = 0; i < grow.disk_count; i++) {
                const int slot = slot_of_disk(grow.disks[i]);

                if (slot < 0 || (!(coord()->shape.gone & eng_bit((unsigned)slot)) &&
                                 (!(coord()->view.in & eng_bit((unsigned)slot)) || (coord()->shape.adding & eng_bit((unsigned)slot)))))
                        return false;
        }
        return true;
}

static bool job_is_done(void)
{
        return grow.job == JOB_ADD ? add_is_done() : (grow.slots & ~coord()->shape.gone) == 0;
}

/* ---- aimed at its steps ---------------------------------------------------------------------- */

static void grow_aimed_now(void *arg)
{
        struct sim_leader *leader = newest_leader();

        if (grow.ended || grow.job == JOB_NONE)
                return;
        sim_trace("aimed at a change of the drives:");
        nodes_figures.aimed++;
        if (nodes_plan.loses && grow_below(4) != 0)
                lose_aimed();
        else if (grow_below(2) == 0 && leader != NULL)
                leader_kill(leader, true);
        else
                faults_kill_node(grow.node);
}

static void grow_aimed_step(void)
{
        unsigned before;

        if (grow.steps-- > 0) {
                sim_etcd_expect(nodes_config_key(), grow_aimed_step);
                return;
        }
        before = sim_enter(0); /* in the middle of an event of a process: it comes soon behind */
        sim_at(sim_skewed(SIM_OPERATOR, 0, 500 * SIM_MS), NULL, grow_aimed_now, NULL);
        sim_enter(before);
}

static void grow_aim(void)
{
        if (!nodes_plan.loses && (!faults_planned() || grow_below(2) == 0))
                return;
        grow.steps = (unsigned)sim_skewed(SIM_OPERATOR, 0, STEPS_MAX);
        sim_etcd_expect(nodes_config_key(), grow_aimed_step);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static bool begin_add(struct sim_node *node)
{
        unsigned n = 1 + (unsigned)grow_below(ADDS_MAX);

        for (grow.disk_count = 0; grow.disk_count < n; grow.disk_count++) {
                struct sim_disk *disk = node_new_folder(node);

                if (disk == NULL)
                        break;
                grow.disks[grow.disk_count] = disk;
        }
        if (grow.disk_count == 0)
                return false;
        grow.job = JOB_ADD;
        grow.takes_back = grow_below(4) == 0;
        grow.slots = 0;
        sim_trace("operator: node %u gets %u drives", node->process.party, grow.disk_count);
        return true;
}

static bool begin_drain(struct sim_node *node)
{
        uint64_t slots = slots_of_node(node);
        unsigned one;

        if (slots == 0)
                return false;
        if (grow_below(2) == 0) { /* one of them */
                do
                        one = (unsigned)grow_below(world.store->drive_count);
                while (!(slots & eng_bit(one)));
                slots = eng_bit(one);
        }
        grow.job = JOB_DRAIN;
        grow.slots = slots;
        sim_trace("operator: slots %llx of node %u are drained", (unsigned long long)slots, node->process.party);
        return true;
}

/* One that has fallen away, and may not come back for a while. NULL: all are there. */
static struct sim_node *node_away(void)
{
        unsigned i;

        for (i = 0; i < nodes_plan.nodes; i++) {
                const uint64_t slots = slots_of_node(&sim_nodes[i]);

                if (slots != 0 && (slots & coord()->view.in) == 0)
                        return &sim_nodes[i];
        }
        return NULL;
}

static void begin_grow_job(void)
{
        struct sim_node *away = node_away();
        bool begun;

        grow.node = &sim_nodes[grow_below(nodes_plan.nodes)];
        grow.asked = 0;
        grow.of = NULL;
        if (away != NULL && grow_below(3) != 0) {
                grow.node = away;
                begun = begin_drain(away);
        } else {
                begun = grow_below(2) == 0 ? begin_add(grow.node) : begin_drain(grow.node);
        }
        if (!begun)
                return;
        grow.jobs_left--;
        grow_aim();
}

static void end_grow_job(const char *how)
{
        sim_trace("operator: %s", how);
        nodes_figures.added += grow.job == JOB_ADD;
        nodes_figures.drained += grow.job == JOB_DRAIN;
        grow.job = JOB_NONE;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static int ask_add(uint64_t *number)
{
        struct eng_new_drive drives[ADDS_MAX];
        unsigned i;

        for (i = 0; i < grow.disk_count; i++) {
                memset(&drives[i], 0, sizeof(drives[i]));
                memcpy(drives[i].id, grow.disks[i]->identity.drive_id, FMT_ID);
                drives[i].site = (struct eng_site){.node = grow.node->process.party, .rack = grow.node->process.party};
        }
        return eng_drives_add(world.store, drives, grow.disk_count, number);
}

/* One that is being added is taken back. */
static int ask_back(uint64_t *number)
{
        const int slot = slot_of_disk(grow.disks[grow_below(grow.disk_count)]);

        if (slot < 0 || !(coord()->shape.adding & eng_bit((unsigned)slot)))
                return -EAGAIN;
        sim_trace("operator: slot %d is taken back", slot);
        grow.asked_back = true;
        return eng_drives_remove(world.store, eng_bit((unsigned)slot), number);
}

/* What nobody will do however often it is asked for. */
static bool is_refused(int rv)
{
        return rv == -EINVAL || rv == -EMFILE || rv == -ENOTSUP;
}

/* True: nothing is under way that was asked of this leader. */
static bool is_answered(void)
{
        struct eng_hot_add_report report;

        if (grow.asked == 0 || grow.of != world.store || eng_hot_add_read(world.store, grow.asked, &report) != 0)
                return true;
        if (report.running)
                return false;
        grow.asked = 0;
        if (report.rv == 0) {
                grow.takes_back &= !grow.asked_back;
                return true;
        }
        sim_trace("operator: refused: %d %s", report.rv, report.text);
        if (is_refused(report.rv) && !(grow.job == JOB_ADD && slot_of_disk(grow.disks[0]) >= 0))
                end_grow_job("it can't be done");
        return grow.job != JOB_NONE;
}

static void ask_for_it(void)
{
        unsigned before = sim_enter(newest_leader()->process.number);
        uint64_t number = 0;
        int rv = -EAGAIN;

        grow.asked_back = false;
        if (grow.job == JOB_DRAIN && (grow.slots & ~(coord()->shape.leaving | coord()->wish.leaving | coord()->shape.gone)) != 0)
                rv = eng_drives_remove(world.store, grow.slots & ~coord()->shape.gone, &number);
        else if (grow.job == JOB_ADD && slot_of_disk(grow.disks[0]) < 0)
                rv = ask_add(&number);
        else if (grow.job == JOB_ADD && grow.takes_back)
                rv = ask_back(&number);
        if (rv == 0) {
                grow.asked = number;
                grow.of = world.store;
        }
        sim_enter(before);
}

static void grow_look(void *arg)
{
        const bool soon = grow.job == JOB_ADD && grow.takes_back && world.store != NULL && slot_of_disk(grow.disks[0]) >= 0;

        sim_at(soon ? SIM_MS + sim_skewed(SIM_OPERATOR, 0, BACK_NS) : 100 * SIM_MS + sim_skewed(SIM_OPERATOR, 0, ASK_NS), NULL, grow_look, NULL);
        if (!leader_serves() || newest_leader() == NULL || newest_leader()->store != world.store || coord()->phase != ENG_PHASE_OPEN)
                return;
        if (grow.job == JOB_NONE && grow.jobs_left > 0)
                begin_grow_job();
        if (grow.job == JOB_NONE)
                return;
        if (job_is_done())
                end_grow_job("it is done");
        else if (is_answered())
                ask_for_it();
}

void grow_start(void)
{
        if (nodes_plan.grows)
                sim_at(sim_skewed(SIM_OPERATOR, SIM_MS, 10 * SIM_S), NULL, grow_look, NULL);
}
