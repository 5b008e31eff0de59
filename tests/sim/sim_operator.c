/*
 * sim_operator.c - see sim_operator.h.
 */
#include "tests/sim/sim_operator.h"

#include <errno.h>
#include <string.h>

#include "engine/epoch/epoch.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_clients.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_loss.h"
#include "tests/sim/sim_world.h"

#define WORKS_IN 3u /* one history in so many */
#define JOBS_MAX 5u

struct operator_figures operator_figures;

enum job { JOB_NONE, JOB_REPLACE, JOB_ADD, JOB_REMOVE };

static struct {
        bool may_lose, worked, looks; /* looks: in this process he looks now and then */
        unsigned jobs_left;
        enum job job;
        unsigned slot;         /* REPLACE, REMOVE */
        struct sim_disk *disk; /* REPLACE, ADD: an empty folder, at first */
        eng_mask more;         /* REPLACE: slots of others that were lost with it, to be replaced next */
        bool may_force;        /* these drives are gone for good, and the store was told so, or may be */
        uint64_t number;       /* of the report that is awaited; 0: none */
        uint64_t forced;       /* likewise, of the one that says that the store goes on without drives */
} work;

static uint64_t below(uint64_t n)
{
        return sim_below(SIM_OPERATOR, n);
}

static bool chance(unsigned of)
{
        return sim_chance(SIM_OPERATOR, of);
}

static struct eng_coord *coord(void)
{
        return world.store->coord;
}

/* ---- what is there --------------------------------------------------------------------------- */

/* Whether the store's map has this disk in its slot. */
static bool is_placed(const struct sim_disk *disk)
{
        return disk->formatted && disk->identity.slot < world.store->drive_count &&
               memcmp(world.store->members[disk->identity.slot].id, disk->identity.drive_id, FMT_ID) == 0;
}

static bool is_in(const struct sim_disk *disk)
{
        return is_placed(disk) && world.store->members[disk->identity.slot].state == ENG_DRIVE_IN;
}

static struct sim_disk *disk_in_use(unsigned slot)
{
        unsigned i;

        for (i = 0; i < sim_disk_count; i++)
                if (sim_disks[i].use == SIM_DISK_SERVES && sim_disks[i].identity.slot == slot)
                        return &sim_disks[i];
        return NULL;
}

/* One that is to be taken in and is in the map already: this one, or one of an earlier try. */
static struct sim_disk *new_disk_placed(void)
{
        unsigned i;

        for (i = 0; i < sim_disk_count; i++)
                if (sim_disks[i].use == SIM_DISK_NEW && is_placed(&sim_disks[i]))
                        return &sim_disks[i];
        return NULL;
}

/* No change of the drives is under way, and all that there are have what they should. */
static bool is_whole(void)
{
        const struct eng_coord *c = coord();
        const struct eng_shape *s = &c->shape;
        eng_mask all = c->view.map->all;

        return c->view.writable && !c->changing && c->catch_up == NULL && c->hot_add == NULL && c->view.in == all &&
               (c->view.up & all) == all && c->base == all && c->filling == 0 && (s->adding | s->leaving) == 0 &&
               (c->wish.adding | c->wish.leaving | c->wish.gone) == 0 && sim_disks_away() == 0;
}

/* So many drives that one less can hold an object's shards, each on another. */
static bool may_shrink(void)
{
        return world.store->m > 0 && eng_counted(&coord()->view) > world.store->k + world.store->m;
}

/*
 * A known gap: with one parity shard, uploads in groups of a drive that is lost can't end, and its
 * removal waits for them.
 */
static bool can_do_without(void)
{
        return world.store->m > 1 || world.parts == 0;
}

/* The next of those that were lost together. */
static void next_lost(void)
{
        work.slot = (unsigned)__builtin_ctzll(work.more);
        work.more &= work.more - 1;
        work.disk = sim_disk_new();
        if (work.disk == NULL)
                sim_fail("the simulator has too few disks");
}

/* ---- what he begins -------------------------------------------------------------------------- */

/*
 * The disk, and all that it held, is gone; the others can go on without it. Another one takes its
 * place where stripes are beyond repair: a drive that is gone may hold what is left of one, and
 * can't be removed.
 */
static bool lose(void)
{
        unsigned slot = (unsigned)below(world.store->drive_count);
        struct sim_disk *disk = disk_in_use(slot);
        eng_mask all = coord()->view.map->all;

        if (!work.may_lose || disk == NULL || world.store->m == 0 || !is_whole() || loss_pending() ||
            !eng_could_form(world.store, all & ~eng_bit(slot), all))
                return false;
        work.slot = slot;
        work.job = JOB_REMOVE;
        if (!may_shrink() || !can_do_without() || !chance(3) || loss_count() > 0) {
                work.disk = sim_disk_new();
                work.job = work.disk != NULL ? JOB_REPLACE : JOB_NONE;
        }
        if (work.job == JOB_NONE)
                return false;
        sim_trace("operator: drive %u is lost, it will be %s", slot, work.job == JOB_REMOVE ? "removed" : "replaced");
        operator_figures.lost++;
        world.calm = false;
        disk->use = SIM_DISK_LOST;
        disk->present = false;
        sim_drive_fail(disk, "it is lost for good");
        return true;
}

/*
 * Such an upload may have begun without a drive that is in now. If its record is made visible after
 * a crash, it has fewer shards than others, as nobody was told.
 */
static bool uploads(void)
{
        unsigned i;

        for (i = 0; i < world.loop_count; i++)
                if (!TAILQ_EMPTY(&world.store->loops[i].home.puts))
                        return true;
        return false;
}

/*
 * As many drives as the code makes good for are gone at once, with the process: those left may be
 * too few for an epoch, and then the operator says that they are to go on all the same. What they
 * have is all that was acknowledged.
 */
static bool lose_many(void)
{
        unsigned n, slots = world.store->drive_count, slot;
        struct sim_disk *disk;

        if (!work.may_lose || world.store->m < 2 || world.parts != 0 || !is_whole() || uploads() || !shards_whole() ||
            sim_disk_count + 8 > SIM_DISKS)
                return false;
        n = 2 + (unsigned)sim_below(SIM_TROUBLE, world.store->m - 1);
        while (n > 0) {
                slot = (unsigned)sim_below(SIM_TROUBLE, slots);
                disk = disk_in_use(slot);
                if (disk == NULL)
                        continue;
                sim_trace("operator: drive %u is lost with others", slot);
                operator_figures.lost++;
                disk->use = SIM_DISK_LOST;
                disk->present = disk->kept = false;
                work.more |= eng_bit(slot);
                n--;
        }
        work.job = JOB_REPLACE;
        work.may_force = true;
        next_lost();
        world.gone = true;
        return true;
}

static bool add(void)
{
        work.disk = sim_disk_new();
        if (work.disk == NULL)
                return false;
        work.job = JOB_ADD;
        sim_trace("operator: a drive is to be added");
        return true;
}

static bool remove_one(void)
{
        unsigned slot = (unsigned)below(world.store->drive_count);

        if (!may_shrink() || disk_in_use(slot) == NULL)
                return false;
        work.job = JOB_REMOVE;
        work.slot = slot;
        sim_trace("operator: drive %u is to be removed", slot);
        return true;
}

/*
 * One that is away or has failed is back, and the store is told so: if it does not take it, the
 * next start will.
 */
static bool bring_back(void)
{
        struct sim_disk *disk = &sim_disks[below(sim_disk_count)];
        uint64_t number;

        if (disk->use != SIM_DISK_SERVES || (disk->present && !disk->unreadable && !sim_drive_failed(disk)))
                return false;
        sim_trace("operator: drive %u is back", disk->identity.slot);
        disk->present = true;
        disk->unreadable = false;
        if (eng_drive_hot_add(world.store, disk->identity.slot, chance(2) ? disk->path : NULL, false, &number) == 0)
                operator_figures.returned++;
        return true;
}

static void begin_job(void)
{
        bool begun = false;

        if (work.jobs_left == 0 || world.last)
                return;
        if (sim_chance(SIM_TROUBLE, 3) && lose_many()) {
                work.jobs_left--;
                work.worked = true;
                return;
        }
        switch (below(6)) {
        case 0:
        case 1:
                begun = lose();
                break;
        case 2:
                begun = add();
                break;
        case 3:
                begun = remove_one();
                break;
        default:
                begun = bring_back();
        }
        work.jobs_left -= begun;
        work.worked |= begun;
}

/* ---- what he goes on with -------------------------------------------------------------------- */

static void job_done(uint64_t *figure)
{
        (*figure)++;
        work.job = JOB_NONE;
        work.disk = NULL;
        if (work.more != 0) {
                work.job = JOB_REPLACE;
                next_lost();
        } else {
                work.may_force = false;
        }
}

/*
 * A disk is no drive of the store any more. Its folder may still be given to the store, or be found
 * again.
 */
static void part_with(struct sim_disk *disk)
{
        disk->use = SIM_DISK_PARTED;
        disk->kept = chance(3);
}

static bool is_taken_in(void)
{
        struct sim_disk *disk = new_disk_placed(), *lost;

        if (disk == NULL || !is_in(disk) || (coord()->shape.adding & eng_bit(disk->identity.slot)))
                return false;
        for (lost = sim_disks; lost < sim_disks + sim_disk_count; lost++)
                if (lost->use == SIM_DISK_LOST && lost->identity.slot == disk->identity.slot)
                        part_with(lost);
        disk->use = SIM_DISK_SERVES;
        return true;
}

static bool is_removed(void)
{
        unsigned i;

        if (!(coord()->shape.gone & eng_bit(work.slot)))
                return false;
        for (i = 0; i < sim_disk_count; i++)
                if (sim_disks[i].identity.slot == work.slot &&
                    (sim_disks[i].use == SIM_DISK_SERVES || sim_disks[i].use == SIM_DISK_LOST))
                        part_with(&sim_disks[i]);
        return true;
}

/* Too little would be left without it, however often he asks. What is lost is replaced, then. */
static void cannot_remove(void)
{
        struct sim_disk *disk = disk_in_use(work.slot);

        work.job = JOB_NONE;
        if (disk != NULL)
                return;
        work.disk = sim_disk_new();
        if (work.disk == NULL)
                sim_fail("the simulator has too few disks");
        work.job = JOB_REPLACE;
}

/* The last request has been answered, or was forgotten with its process. False, too: nothing is to be asked for. */
static bool is_answered(void)
{
        struct eng_hot_add_report report;

        if (work.number == 0 || eng_hot_add_read(world.store, work.number, &report) != 0)
                return true;
        if (report.running)
                return false;
        work.number = 0;
        if (report.rv == 0)
                return true;
        operator_figures.refused++;
        sim_trace("operator: refused: %d %s", report.rv, report.text);
        if (work.job == JOB_REMOVE && report.rv == -EINVAL)
                cannot_remove();
        return work.job != JOB_NONE;
}

/*
 * A folder that an earlier try has left in use, or with something on it, is no good: he takes
 * another, while there are any.
 */
static bool have_folder(void)
{
        struct sim_disk *another;

        if (work.disk->open == NULL && !(work.disk->formatted && work.disk->log_count > 1))
                return true;
        another = sim_disk_new();
        if (another != NULL)
                work.disk = another;
        return another != NULL;
}

static void take_in(void)
{
        int rv = 0;

        if (new_disk_placed() != NULL || !is_answered() || !have_folder())
                return; /* it is on its way */
        if (work.job == JOB_ADD)
                rv = eng_drive_add(world.store, work.disk->path, &work.number);
        else
                rv = eng_drive_hot_add(world.store, work.slot, work.disk->path, true, &work.number);
        if (rv != 0)
                work.number = 0;
}

static void take_out(void)
{
        if (((coord()->shape.leaving | coord()->wish.leaving) & eng_bit(work.slot)) || !is_answered())
                return;
        if (eng_drive_remove(world.store, work.slot, &work.number) != 0)
                work.number = 0;
}

static eng_mask lost_slots(void)
{
        eng_mask lost = 0;
        unsigned i;

        for (i = 0; i < sim_disk_count; i++)
                if (sim_disks[i].use == SIM_DISK_LOST)
                        lost |= eng_bit(sim_disks[i].identity.slot);
        return lost;
}

/*
 * What is neither lost nor open has failed for a while: it may hold what no other does, and an
 * operator brings it back first.
 */
static bool all_others_open(eng_mask open)
{
        unsigned i;

        for (i = 0; i < sim_disk_count; i++)
                if (sim_disks[i].use == SIM_DISK_SERVES && !(open & eng_bit(sim_disks[i].identity.slot)))
                        return false;
        return true;
}

/*
 * They have been given up: whatever they hold, it is not asked for any more, and now and then they
 * are there again.
 */
static void given_up(void)
{
        unsigned i;

        for (i = 0; i < sim_disk_count; i++)
                if (sim_disks[i].use == SIM_DISK_LOST)
                        sim_disks[i].kept = sim_chance(SIM_TROUBLE, 2);
        operator_figures.forced++;
        work.may_force = false;
}

/* The store waits for the drives that are lost, and for no others. */
static void force(void)
{
        struct eng_force_report report;
        struct eng_outlook outlook;
        char why[200];

        if (work.forced != 0 && eng_force_read(world.store, work.forced, &report) == 0) {
                if (report.running)
                        return;
                work.forced = 0;
                if (report.rv == 0) {
                        given_up();
                        return;
                }
                sim_trace("operator: not forced: %d %s", report.rv, report.text);
        }
        eng_outlook_take(world.store, &outlook);
        if (outlook.missed != lost_slots() || !all_others_open(outlook.open))
                return;
        eng_outlook_refuse(&outlook, outlook.missed, why);
        if (why[0] != 0)
                return;
        if (outlook.lost + outlook.unreadable != 0)
                sim_fail("%u drives are lost, and of %u groups no copy is left, %u are unreadable",
                         (unsigned)__builtin_popcountll(outlook.missed), outlook.lost, outlook.unreadable);
        if (eng_force(world.store, outlook.missed, &work.forced) != 0)
                work.forced = 0;
}

static void go_on(void)
{
        switch (work.job) {
        case JOB_NONE:
                begin_job();
                break;
        case JOB_ADD:
        case JOB_REPLACE:
                if (is_taken_in())
                        job_done(work.job == JOB_ADD ? &operator_figures.added : &operator_figures.replaced);
                else
                        take_in();
                break;
        case JOB_REMOVE:
                if (is_removed())
                        job_done(&operator_figures.removed);
                else
                        take_out();
                break;
        }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void look(void *arg)
{
        if (work.may_force)
                force();
        if (coord()->phase == ENG_PHASE_OPEN && world.bucket_count > 0)
                go_on();
        work.looks = work.job != JOB_NONE || work.jobs_left > 0;
        if (work.looks)
                sim_at(sim_skewed(SIM_OPERATOR, 10 * SIM_MS, 2 * SIM_S), NULL, look, NULL);
}

void operator_begin(bool may_lose)
{
        memset(&work, 0, sizeof(work));
        work.may_lose = may_lose;
        if (!chance(WORKS_IN))
                return;
        work.jobs_left = 1 + (unsigned)below(JOBS_MAX);
        sim_trace("plan: an operator with %u things to do", work.jobs_left);
}

void operator_start(void)
{
        work.number = work.forced = 0;
        work.looks = work.job != JOB_NONE || work.jobs_left > 0;
        if (work.looks)
                sim_at(sim_skewed(SIM_OPERATOR, SIM_MS, 3 * SIM_S), NULL, look, NULL);
}

bool operator_changes_one(void)
{
        if (work.job != JOB_NONE || world.store->m == 0 || !(chance(2) ? lose() || remove_one() : remove_one() || lose()))
                return false;
        work.worked = true;
        if (!work.looks)
                sim_at(SIM_MS, NULL, look, NULL);
        work.looks = true;
        return true;
}

bool operator_worked(void)
{
        return work.worked;
}

bool operator_sees_whole(void)
{
        return is_whole();
}

bool operator_idle(void)
{
        return work.job == JOB_NONE;
}
