/*
 * sim_world.c - one history, life by life.
 *
 * A life is a process: loops, an opened store, clients, faults, and an end: by crash at any event,
 * by power cut, or clean. The last life has all drives and no faults; there everything must heal
 * and be readable.
 */
#include "tests/sim/sim_world.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/bucket/bucket.h"
#include "tests/sim/history.h"
#include "tests/sim/sim_alloc.h"
#include "tests/sim/sim_clients.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_locks.h"
#include "tests/sim/sim_loss.h"
#include "tests/sim/sim_operator.h"

#define LIVES_MAX  6u
#define EVENTS_MAX 3000000u
#define LIFE_NS    (60 * SIM_S)
#define SCRUB_PERIOD_MS   10000
#define SCRUB_INTERVAL_MS 30000
#define HEAL_NS    (700 * SIM_S) /* parts of unfinished uploads are looked at again after 600 s */

struct world_figures world_figures;

/* What the seed has in store. */
static struct plan {
        unsigned k, m, lives;
        unsigned tolerated;       /* drives that may be away at the same time */
        int rotten;               /* disk whose frames rot, or -1 */
        bool scrubs;
        unsigned away[SIM_DISKS]; /* lives for which it stays missing */
        bool faults, refuses, shared_hasher;
        unsigned coord_loop;
        bool cuts; /* drives cannot be reached now and then */
        bool forgetful;  /* no member may have a readable copy of a plain object: then a put replaces what should become a version (V20) */
        bool rolls_back; /* disks lose writes that they acknowledged */
        bool inline_varies; /* each process has another limit for inline objects */
        unsigned ops_per_life;
        bool nodes; /* the disks lie on nodes and in racks */
        struct eng_site sites[SIM_DISKS], added_at;
        uint32_t boot; /* of the process, which runs on the node of added_at */
        uint64_t scrub_interval_ms; /* 0: no scrub */
        uint64_t heal_rate;
} plan;

static bool plan_chance(unsigned of)
{
        return sim_chance(SIM_PLAN, of);
}

static uint64_t plan_below(uint64_t n)
{
        return sim_below(SIM_PLAN, n);
}

/* ---- the plan -------------------------------------------------------------------------------- */

static void plan_code(unsigned drives)
{
        static const struct {
                unsigned k, m;
        } usual[] = {{0, 0}, {1, 0}, {1, 1}, {2, 1}, {2, 2}, {2, 2}, {4, 2}};

        plan.k = usual[drives].k;
        plan.m = usual[drives].m;
        if (plan_chance(2))
                return;
        plan.m = (unsigned)plan_below(drives < 4 ? drives : 4);
        plan.k = 1 + (unsigned)plan_below(drives - plan.m);
}

static void plan_keys(void)
{
        unsigned i;

        world.key_count = 1 + (unsigned)plan_below(KEYS_MAX);
        for (i = 0; i < world.key_count; i++)
                snprintf(world.keys[i], sizeof(world.keys[i]), i % 3 == 0 ? "d/%u" : i % 3 == 1 ? "d/e/%u" : "k%u", i);
}

/*
 * Beside the disk on which copies are found damaged one that misses names: together they are all
 * there is of some.
 */
static void plan_forgetful(unsigned drives)
{
        unsigned at = (unsigned)sim_below(SIM_FORGET, drives - 1);

        at += at >= (unsigned)plan.rotten;
        sim_disks[at].faults.forgets = 2 + (unsigned)sim_below(SIM_FORGET, 10);
        if (sim_chance(SIM_FORGET, 2))
                sim_disks[plan.rotten].faults.damaged = 2 + (unsigned)sim_below(SIM_FORGET, 8);
}

/*
 * Objects of several stripes, times at which the store is whole, and drives that it can do without.
 */
static void plan_losses(unsigned drives)
{
        world.bytes_left += 32u << 20;
        world.large = 2;
        if (sim_chance(SIM_LOSS, 2))
                plan.tolerated = 0;
        if (drives > 2 && sim_chance(SIM_LOSS, 2)) {
                plan.k = drives > 4 ? 2 : 1;
                plan.m = drives > 3 ? 2 : 1;
        }
}

/* Nodes of one or more disks, in one to three racks. */
static void plan_sites(unsigned drives)
{
        unsigned nodes = 1 + (unsigned)sim_below(SIM_SITES, drives), racks = 1 + (unsigned)sim_below(SIM_SITES, 3), i;

        plan.nodes = sim_chance(SIM_SITES, 3);
        plan.coord_loop = (unsigned)sim_below(SIM_SITES, LOOPS_MAX);
        for (i = 0; i < SIM_DISKS && plan.nodes; i++) {
                uint16_t node = (uint16_t)(1 + (sim_chance(SIM_SITES, 4) ? sim_below(SIM_SITES, nodes) : i % nodes));

                plan.sites[i] = (struct eng_site){.node = node, .rack = (uint16_t)(node % racks)};
        }
        if (plan.nodes)
                plan.added_at = plan.sites[sim_below(SIM_SITES, SIM_DISKS)];
}

static void plan_history(void)
{
        static const uint64_t heal_rates[] = {0, 1 << 20, 64 << 20}; /* 0: by what drives hold */
        static const uint32_t groups[] = {1, 3, 16, 64, 256};
        unsigned drives = plan_chance(3) ? 4 : 1 + (unsigned)plan_below(6), i;

        memset(&plan, 0, sizeof(plan));
        memset(&world, 0, sizeof(world));
        sim_disks_make(drives);
        plan_code(drives);
        plan_sites(drives);
        sim_pg_count = groups[plan_below(5)];
        sim_loose_order = plan_chance(2);
        sim.slow_loops = plan_chance(3);
        plan.lives = 1 + (unsigned)plan_below(LIVES_MAX);
        plan.faults = !plan_chance(4);
        plan.tolerated = plan_chance(5) ? drives : plan.m;
        plan.rotten = plan.faults && plan.m > 0 && plan_chance(3) ? (int)plan_below(drives) : -1;
        plan.ops_per_life = 30 + (unsigned)sim_skewed(SIM_PLAN, 0, 1200 / plan.lives);
        for (i = 0; i < drives && plan.faults; i++) {
                struct sim_faults *f = &sim_disks[i].faults;

                f->slow = plan_chance(3) ? 10 + (unsigned)plan_below(300) : 0;
                f->refuse = plan_chance(6) ? 10 + (unsigned)plan_below(300) : 0;
                plan.refuses |= f->refuse != 0;
        }
        if (plan.rotten >= 0) {
                sim_disks[plan.rotten].faults.rot = 1 + (unsigned)plan_below(4);
                sim_disks[plan.rotten].faults.damaged = 10 + (unsigned)plan_below(100);
        }
        plan.forgetful = plan.rotten >= 0 && drives > 1 && sim_chance(SIM_FORGET, 2);
        if (plan.forgetful)
                plan_forgetful(drives);
        world.loop_count = 1 + (unsigned)plan_below(LOOPS_MAX);
        plan.shared_hasher = plan_chance(2);
        world.client_count = 1 + (unsigned)plan_below(CLIENTS_MAX);
        world.bytes_left = plan_below(6u << 20);
        world.large = 2 + (unsigned)plan_below(8);
        world.parts = plan_chance(2) ? 2 + (unsigned)plan_below(10) : 0;
        world.buckets_on = plan_chance(3) ? 4 + (unsigned)plan_below(20) : 0;
        world.think = sim_skewed(SIM_PLAN, 1, 500 * SIM_MS);
        plan.rolls_back = plan.faults && sim_chance(SIM_ROLLBACK, 2);
        plan.cuts = plan.faults && sim_chance(SIM_CUTS, 3);
        plan.scrub_interval_ms = sim_chance(SIM_TROUBLE, 2) ? 0 : 100 + sim_below(SIM_TROUBLE, 20000);
        plan.scrubs = plan.scrub_interval_ms != 0 && sim_chance(SIM_SCRUB, 2);
        plan.inline_varies = sim_chance(SIM_INLINE, 2);
        plan.heal_rate = heal_rates[sim_below(SIM_HEAL, sizeof(heal_rates) / sizeof(heal_rates[0]))];
        plan_keys();
        versions_plan(plan.forgetful);
        operator_begin(plan.faults && plan.rotten < 0);
        loss_begin(plan.faults, plan.rotten);
        if (loss_planned())
                plan_losses(drives);
        sim_trace("plan: %u drives, %u+%u, %u loops, %u groups, %u clients, %u keys, %u lives, %s%s", drives, plan.k,
                  plan.m, world.loop_count, sim_pg_count, world.client_count, world.key_count, plan.lives,
                  plan.faults ? "faults" : "calm", plan.nodes ? ", on nodes" : "");
        sim_trace("plan: %s", plan.cuts ? "drives are cut off" : "all can be reached");
}

static bool any_rolled_back(void)
{
        unsigned i;

        for (i = 0; i < sim_disk_count; i++)
                if (sim_disks[i].rolled_back)
                        return true;
        return false;
}

static void none_rolled_back(void)
{
        unsigned i;

        for (i = 0; i < sim_disk_count; i++)
                sim_disks[i].rolled_back = false;
}

/* ---- beginning and ending a life ------------------------------------------------------------- */

/* Whether it could be there, but for what the seed says of this life. */
static bool is_there(const struct sim_disk *disk)
{
        return disk->use == SIM_DISK_PARTED || disk->use == SIM_DISK_LOST ? disk->kept : true;
}

static uint64_t newest_epoch(const struct sim_disk *disk)
{
        uint64_t i, newest = 0;

        for (i = 0; i < disk->log_count; i++)
                if (disk->log[i].rec.type == FMT_RECORD_EPOCH && disk->log[i].rec.epoch > newest)
                        newest = disk->log[i].rec.epoch;
        return newest;
}

/*
 * What a disk has lost only others can prove. Of those with the newest epoch one is there, if there
 * is any that did not lie.
 */
static bool only_liars(void)
{
        uint64_t newest = 0;
        bool any = false;
        unsigned i;

        for (i = 0; i < sim_disk_count; i++)
                if (newest_epoch(&sim_disks[i]) > newest)
                        newest = newest_epoch(&sim_disks[i]);
        for (i = 0; i < sim_disk_count; i++) {
                if (!sim_disks[i].present)
                        continue;
                if (!sim_disks[i].lied || newest_epoch(&sim_disks[i]) == newest)
                        return false;
                any = true;
        }
        return any;
}

static void all_there(void)
{
        unsigned i;

        memset(plan.away, 0, sizeof(plan.away));
        for (i = 0; i < sim_disk_count; i++)
                sim_disks[i].present = is_there(&sim_disks[i]);
}

static void choose_drives(bool first, bool last)
{
        unsigned i;

        for (i = 0; i < sim_disk_count; i++) {
                struct sim_disk *disk = &sim_disks[i];

                if (plan.away[i] > 0)
                        plan.away[i]--;
                if (last)
                        plan.away[i] = 0;
                disk->present = plan.away[i] == 0 && is_there(disk);
                disk->unreadable = disk->full = false;
                if (last)
                        memset(&disk->faults, 0, sizeof(disk->faults));
        }
        if (any_rolled_back()) {
                all_there();
                return;
        }
        for (i = 0; i < sim_disk_count && plan.faults && !first && !last; i++) {
                struct sim_disk *disk = &sim_disks[i];

                if (!disk->present || sim_disks_away() >= plan.tolerated)
                        continue;
                if (sim_chance(SIM_FAULTS, 5))
                        plan.away[i] = 1 + (unsigned)sim_below(SIM_FAULTS, 3);
                disk->present = plan.away[i] == 0;
                disk->unreadable = disk->present && sim_chance(SIM_FAULTS, 20);
                disk->lose_index = sim_chance(SIM_FAULTS, 20);
        }
        if (only_liars())
                all_there();
}

static uint32_t draw_inline_max(void)
{
        static const uint32_t limits[] = {ENG_INLINE_NONE, 1, 700, 4096, 64u << 10, ENG_INLINE_MAX};

        return plan.inline_varies ? limits[sim_below(SIM_INLINE, sizeof(limits) / sizeof(limits[0]))] : 0;
}

static int open_store(bool format)
{
        static const char *paths[SIM_DISKS];
        static struct lp_loop *loops[LOOPS_MAX];
        struct lp_config config = {.slots = 32 + (unsigned)plan_below(32)};
        struct eng_options options = {.drives = paths,
                                      .drive_count = sim_disk_count,
                                      .format = format,
                                      .ec_k = plan.k,
                                      .ec_m = plan.m,
                                      .sites = plan.nodes ? plan.sites : NULL,
                                      .site = plan.added_at,
                                      .boot = plan.nodes ? ++plan.boot : 0,
                                      .loops = loops,
                                      .loop_count = world.loop_count,
                                      .coord_loop = plan.coord_loop % world.loop_count,
                                      .hash_loops = loops, /* one of them hashes for the others, too */
                                      .hash_loop_count = plan.shared_hasher,
                                      .inline_max = draw_inline_max(),
                                      .cache_bytes = 1 << 20,
                                      .wall_ms = locks_wall_ms,
                                      .clock_ns = locks_clock_ns,
                                      .heal_rate = plan.heal_rate,
                                      .heal_keep_ms = 1,
                                      .scrub_rate = plan.scrub_interval_ms == 0 ? 0 : 1 << 30,
                                      .scrub_interval_ms = plan.scrub_interval_ms,
                                      .scrub_period_ms = plan.scrubs ? SCRUB_PERIOD_MS : 0};
        struct eng_error error;
        unsigned i;
        int rv;

        for (i = 0; i < sim_disk_count; i++)
                paths[i] = sim_disks[i].path;
        for (i = 0; i < world.loop_count; i++) {
                config.index = i;
                rv = lp_loop_new(&config, &loops[i]);
                if (rv != 0)
                        abort();
                world.loops[i] = loops[i];
        }
        rv = eng_store_open(&options, &world.store, &error);
        if (rv != 0)
                sim_trace("open: %d %s", rv, error.text);
        if (rv == 0) {
                eng_store_start(world.store);
                operator_start();
                loss_start();
        }
        return rv;
}

bool world_others_speak(unsigned slot, uint32_t pg)
{
        const struct eng_view *view = &eng_primary(world.store, pg)->view;
        eng_mask speakers = view->ready ? eng_speakers(view, pg) & view->up : 0;

        return (speakers & eng_bit(slot)) != 0 && (speakers & ~eng_bit(slot)) != 0;
}

/* ---- disks that lose what they acknowledged -------------------------------------------------- */

/*
 * All drives are in and have all that they should; the others can go on without this one, and tell
 * that it lost something.
 */
static bool may_roll_back(unsigned slot)
{
        const struct eng_coord *c = world.store->coord;
        eng_mask all;

        if (c->phase != ENG_PHASE_OPEN || !c->view.writable || plan.rotten >= 0 || world.store->m == 0 || loss_pending())
                return false;
        all = c->view.map->all;
        return !c->changing && c->catch_up == NULL && c->hot_add == NULL && c->view.in == all && (c->view.up & all) == all &&
               c->filling == 0 && c->shape.adding == 0 && c->shape.leaving == 0 && c->wish.adding == 0 &&
               c->wish.leaving == 0 && operator_idle() && (all & eng_bit(slot)) != 0 && !(c->shape.gone & eng_bit(slot)) &&
               eng_could_form(world.store, all & ~eng_bit(slot), all);
}

/*
 * The disk that the process now ending, or the time until the next one begins, will spoil; or none.
 */
static struct sim_disk *victim(void)
{
        unsigned at = (unsigned)sim_below(SIM_ROLLBACK, sim_disk_count);
        struct sim_disk *disk = &sim_disks[at];

        if (!plan.rolls_back || world.store == NULL || world.last || disk->use != SIM_DISK_SERVES || !disk->formatted ||
            !disk->present || sim_disks_away() > 0)
                return NULL;
        return may_roll_back(disk->identity.slot) ? disk : NULL;
}

/* An image is of the disk as it is between two processes. */
static void roll_back(struct sim_disk *disk)
{
        unsigned i;

        if (disk != NULL && sim_chance(SIM_ROLLBACK, 2)) {
                if (disk->image.taken && !sim_chance(SIM_ROLLBACK, 3))
                        sim_disk_restore(disk);
                else
                        sim_disk_cut(disk, sim_skewed(SIM_ROLLBACK, 1, 400));
        }
        for (i = 0; plan.rolls_back && i < sim_disk_count; i++)
                if (sim_disks[i].formatted && !sim_disks[i].rolled_back && sim_chance(SIM_ROLLBACK, 2))
                        sim_disk_image(&sim_disks[i]);
}

/* What the upkeep goes by, and since when. */
static struct {
        const struct eng_store *store;
        eng_mask in, filling, homeless;
        uint64_t looked, changed, may_since;
        int64_t walk;          /* when the one under way began */
        uint64_t walk_since;   /* and since when nothing has kept it from its end */
} upkeep;

static uint64_t down_since; /* a drive that is down could be taken back */

enum ending { END_POWER, END_KILL, END_CLEAN };

static void end_life(enum ending how)
{
        static const char *const words[] = {"power cut", "kill", "clean end"};
        struct sim_disk *spoilt = victim();
        unsigned i;

        sim_trace("%s", words[how]);
        world.stopping = true;
        if (how == END_CLEAN && world.store != NULL && !eng_store_close(world.store) && !world.store->left_behind)
                sim_fail("a clean end did not come to its end");
        sim_events_clear();
        sim_loops_clear();
        for (i = 0; i < sim_disk_count; i++) {
                sim_disk_crash(&sim_disks[i], how == END_POWER);
                sim_drive_free_retired(&sim_disks[i]);
        }
        roll_back(spoilt);
        clients_lost();
        sim_figures.power_cuts += how == END_POWER;
        sim_figures.kills += how == END_KILL;
        world.store = NULL;
        down_since = 0;
        memset(&upkeep, 0, sizeof(upkeep));
        world.stopping = false;
        sim.now += SIM_MS + sim_below(SIM_FAULTS, 10 * SIM_S);
        locks_between(how == END_POWER);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void not_full_any_more(void *arg)
{
        ((struct sim_disk *)arg)->full = false;
}

static void fault(void *arg)
{
        struct sim_disk *disk = &sim_disks[sim_below(SIM_FAULTS, sim_disk_count)];

        if (any_rolled_back())
                return;
        world_figures.faults++;
        world.calm = false;
        switch (sim_below(SIM_FAULTS, 6)) {
        case 0:
        case 1:
                if (sim_disks_away() < plan.tolerated)
                        sim_drive_fail(disk, "its seed says so");
                break;
        case 2:
                if (sim_disks_away() < plan.tolerated)
                        sim_drive_hang(disk, 5 * SIM_S + sim_below(SIM_FAULTS, 10 * SIM_S));
                break;
        case 3:
        case 4:
                sim_drive_hang(disk, sim_skewed(SIM_FAULTS, SIM_MS, 8 * SIM_S));
                break;
        case 5:
                disk->full = true;
                sim_at(sim_skewed(SIM_FAULTS, SIM_MS, 5 * SIM_S), NULL, not_full_any_more, disk);
                break;
        }
}

/* A loop that is held up: by a page fault on a bad drive, or because its processor is not there. */
static void block(void *arg)
{
        if (any_rolled_back())
                return;
        world.calm = false;
        sim_figures.blocked++;
        sim_trace("a loop does nothing for a while");
        sim_block(world.loops[sim_below(SIM_TROUBLE, world.loop_count)], sim_skewed(SIM_TROUBLE, SIM_MS, 15 * SIM_S));
}

/* A drive cannot be reached for a while. */
static void cut_off(void *arg)
{
        struct sim_disk *disk = &sim_disks[sim_below(SIM_CUTS, sim_disk_count)];

        if (any_rolled_back() || sim_disks_away() >= plan.tolerated)
                return;
        world_figures.faults++;
        world.calm = false;
        sim_drive_cut(disk, sim_skewed(SIM_CUTS, SIM_MS, 40 * SIM_S));
}

static void plan_cuts(void)
{
        unsigned n = plan.cuts ? 1 + (unsigned)sim_below(SIM_CUTS, 4) : 0;

        while (n-- > 0)
                sim_at(sim_skewed(SIM_CUTS, 1, 10 * SIM_S), NULL, cut_off, NULL);
}

static void plan_faults(void)
{
        unsigned n = plan.faults ? (unsigned)sim_below(SIM_FAULTS, 5) : 0;

        while (n-- > 0)
                sim_at(sim_skewed(SIM_FAULTS, 1, 5 * SIM_S), NULL, fault, NULL);
        if (plan.faults && sim_chance(SIM_TROUBLE, 3))
                sim_at(sim_skewed(SIM_TROUBLE, 1, 5 * SIM_S), NULL, block, NULL);
}

/* ---- a life ---------------------------------------------------------------------------------- */

static bool is_open(void)
{
        return world.store->coord->phase == ENG_PHASE_OPEN;
}

/* One event, and what follows from a store that has just opened. */
static void live(bool *open)
{
        if (setjmp(sim_alloc_gone) != 0) {
                sim_alloc_arm(false);
                sim_trace("no memory: the process ends itself");
                world.gone = true;
                return;
        }
        sim_alloc_arm((!world.last || (sim_sweep_at != 0 && !world.final)) && world.bucket_count > 0);
        if (!sim_step())
                sim_fail("nothing happens any more");
        sim_alloc_arm(false);
        locks_watch();
        if (sim.events > EVENTS_MAX)
                sim_fail("it does not come to an end");
        if (*open || !is_open())
                return;
        *open = true;
        sim_trace("the store is open%s, epoch %llu", world.store->coord->view.writable ? "" : " for reading",
                  (unsigned long long)world.store->coord->view.epoch);
        if ((world.store->coord->view.in & world.store->coord->view.up) != world.store->coord->view.map->all)
                world.calm = false; /* groups with too few current members that are there refuse changes */
        if (world.store->coord->view.writable) {
                history_settled();
                none_rolled_back();
        }
        world_figures.settled += world.store->reconciled_records;
        if (sim_chance(SIM_ROLLBACK, 4))
                (void)eng_verify_start(world.store); /* beside whatever happens */
        if (plan.scrubs && sim_chance(SIM_SCRUB, 2))
                (void)eng_scrub_start(world.store);
        clients_start();
}

/* A drive that can be reached again does not stay down while the store could take it back. */
static void watch_down(void)
{
        const struct eng_coord *c = world.store->coord;
        eng_mask answers = c->down;
        unsigned i;

        for (i = 0; i < sim_disk_count; i++)
                if (sim_disks[i].formatted && (sim_drive_is_cut(&sim_disks[i]) || sim_drive_failed(&sim_disks[i])))
                        answers &= ~eng_bit(sim_disks[i].identity.slot);
        answers &= ~(c->view.in | c->view.joining | c->given_up | c->shape.gone);
        if (answers == 0 || c->phase != ENG_PHASE_OPEN || !c->view.writable || c->changing || c->catch_up != NULL || c->hot_add != NULL)
                down_since = 0;
        else if (down_since == 0)
                down_since = sim.now;
        else if (sim.now > down_since + 60 * SIM_S)
                sim_fail("a drive answers again and is not taken back: %llx", (unsigned long long)answers);
}

/*
 * Within a minute after its drives have changed, a store looks for what lacks shards, and repairs
 * what it meets.
 */
static void watch_upkeep(bool open)
{
        const struct eng_store *store = world.store;
        const struct eng_coord *c;
        uint64_t last = upkeep.looked;
        eng_mask in, filling, homeless;

        upkeep.looked = sim.now;
        if (store != NULL)
                loss_watch();
        if (store != NULL)
                watch_down();
        if (!open || store == NULL || store->coord->phase != ENG_PHASE_OPEN || store->m == 0 || sim_alloc_fails()) {
                upkeep.store = NULL;
                return;
        }
        c = store->coord;
        in = c->view.in & c->view.up;
        filling = c->filling & in;
        homeless = eng_placement_homeless(c->view.map);
        if (upkeep.store != store || upkeep.in != in || upkeep.filling != filling || upkeep.homeless != homeless) {
                upkeep.store = store;
                upkeep.in = in;
                upkeep.filling = filling;
                upkeep.homeless = homeless;
                upkeep.changed = last;
                upkeep.may_since = sim.now;
        }
        if (c->changing)
                upkeep.may_since = sim.now;
        if (sim.now > upkeep.may_since + 60 * SIM_S &&
            store->heal.started_ms + 1 < lp_wall_ms() - (int64_t)((sim.now - upkeep.changed) / SIM_MS))
                sim_fail("a minute after its drives have changed the store has not begun to look for what lacks shards");
        if (!store->heal.running || store->heal.started_ms != upkeep.walk || upkeep.may_since > upkeep.walk_since || store->health.full) {
                upkeep.walk = store->heal.started_ms;
                upkeep.walk_since = sim.now;
        }
        if (sim.now > upkeep.walk_since + 60 * SIM_S)
                sim_fail("the store has looked for what lacks shards for a minute, and has not come to the end of it");
}

static void live_for(uint64_t ns, bool *open)
{
        uint64_t until = sim.now + ns;

        while (sim.now < until && !world.gone) {
                live(open);
                clients_watch();
                watch_upkeep(*open);
        }
}

static void first_buckets(bool *open)
{
        if (world.bucket_count > 0)
                return;
        world.bucket_count = 0;
        clients_first_bucket();
        while (!world.gone && (world.bucket_count == 0 || !clients_idle()))
                live(open);
        if (world.gone || !versions_planned())
                return;
        clients_versions_bucket();
        while (!world.gone && !clients_idle())
                live(open);
}

static void wait_for(bool (*state)(void), bool *open);
static bool scrub_rests(void);

static bool rebuilds_rest(void)
{
        unsigned i;

        for (i = 0; i < world.loop_count; i++)
                if (!TAILQ_EMPTY(&world.store->loops[i].leader.rebuilds))
                        return false;
        return true;
}

/* A store without faults gives all dead space back. */
static void check_calm(bool *open)
{
        uint64_t leaked;

        live_for(12 * SIM_S, open);
        leaked = operator_worked() ? 0 : check_leaks(); /* else orphan collection may be still to come */
        if (leaked > 0)
                sim_fail("%llu frames that nothing names are left, though nothing has gone wrong",
                         (unsigned long long)leaked);
        if (plan.scrubs)
                wait_for(scrub_rests, open);
        if (operator_worked()) /* a drive may be on its way in or out still: its rebuilds hold buffers */
                wait_for(rebuilds_rest, open);
        check_replicas();
        if (world.store->coord->shape.leaving == 0) /* else parts of uploads that began before may lack a shard till they end */
                check_shards(-1);
        check_idle();
}

static void one_life(unsigned number)
{
        uint64_t crash_at = sim.events + (number == 0 ? 3000 : 10) + sim_skewed(SIM_FAULTS, 1, 60000);
        bool to_the_end = sim_chance(SIM_FAULTS, 3), open = false;
        uint64_t until = sim.now + LIFE_NS;

        choose_drives(number == 0, false);
        world.gone = world.stuck = false;
        world.calm = plan.rotten < 0 && !plan.refuses && sim_disks_away() == 0 && !sim_alloc_fails();
        world_figures.lives++;
        world.ops_left = number == 0 ? 0 : plan.ops_per_life;
        if (open_store(number == 0) != 0) {
                if (sim_disks_away() < sim_disks_serving() && !world.stuck)
                        sim_fail("a store with drives could not be opened");
                end_life(END_KILL);
                return;
        }
        if (number == 0) {
                while (!open && !world.gone)
                        live(&open);
                first_buckets(&open);
                world.ops_left = plan.ops_per_life;
                clients_start();
        }
        plan_faults();
        plan_cuts();
        locks_life();
        while (!world.gone && sim.now < until && (to_the_end || sim.events < crash_at)) {
                live(&open);
                clients_watch();
                watch_upkeep(open);
                if (open && world.ops_left == 0 && clients_idle())
                        break;
        }
        while (!world.gone && to_the_end && !clients_idle()) {
                world.ops_left = 0;
                live(&open);
                clients_watch();
                watch_upkeep(open);
        }
        if (world.gone) {
                end_life(END_KILL);
                return;
        }
        if (world.calm && !plan.faults && !sim_alloc_fails() && number == 0 && to_the_end && clients_idle())
                check_calm(&open);
        end_life(to_the_end && sim_chance(SIM_FAULTS, 2) ? END_CLEAN
                 : sim_chance(SIM_FAULTS, 2)             ? END_POWER
                                                         : END_KILL);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void not_whole(void)
{
        check_tell_rest();
        sim_fail("with all drives back and no faults it is not whole after %llu s", HEAL_NS / SIM_S);
}

/*
 * In a sweep: memory that was not to be had has stopped a start, or put a drive out, and the store
 * says so: it is to be restarted.
 */
static bool asks_for_restart(void)
{
        unsigned i;

        if (sim_sweep_at == 0 || sim.points < sim_sweep_at || world.restarted)
                return false;
        for (i = 0; i < world.store->drive_count; i++)
                if (world.store->members[i].state == ENG_DRIVE_FAILED)
                        return true;
        return world.store->coord->phase == ENG_PHASE_WAITING;
}

static void wait_for(bool (*state)(void), bool *open)
{
        uint64_t until = sim.now + HEAL_NS;

        while (!world.gone && (!*open || !state())) {
                live_for(SIM_S / 2, open);
                if (sim.now > until && asks_for_restart())
                        world.gone = world.restarted = true;
                else if (sim.now > until)
                        not_whole();
        }
}

/*
 * All drives are there and nothing fails any more, but in a sweep an allocation may still, once;
 * then it begins again.
 */
static void begin_last_life(bool lose_indexes, bool *open)
{
        unsigned i;

        choose_drives(false, true);
        world.gone = *open = false;
        world.last = true;
        for (i = 0; i < sim_disk_count; i++) {
                sim_disks[i].lose_index = lose_indexes;
                sim_disks[i].faults.forgets = 0;
        }
        world_figures.lives++;
        world.ops_left = 0;
        if (open_store(false) != 0)
                sim_fail("the last opening fails");
        wait_for(check_healed, open);
        if (world.gone) {
                end_life(END_KILL);
                begin_last_life(lose_indexes, open);
        }
}

static bool is_verified(void)
{
        struct eng_verify_report r;

        eng_verify_read(world.store, &r);
        return !r.running;
}

/* It holds no slot, and mends nothing. */
static bool scrub_rests(void)
{
        static struct eng_verify_report now, last;
        unsigned i;

        eng_scrub_read(world.store, &now, &last);
        for (i = 0; i < world.store->drive_count; i++)
                if (world.store->scrub_progress[i].running)
                        return false;
        return !now.running;
}

/*
 * Since then a round of each drive has begun and ended, and all names have been walked after that.
 * The first one to end may have been begun by a process before.
 */
static bool has_scrubbed(void)
{
        const struct eng_coord *c = world.store->coord;
        static struct eng_verify_report now, last;
        int64_t ended = world.scrubbed_ms;
        unsigned i;

        for (i = 0; i < world.store->drive_count; i++) {
                const struct eng_scrub_progress *p = &world.store->scrub_progress[i];

                if ((c->view.in & c->view.up & eng_bit(i)) == 0)
                        continue;
                if (p->last_ended_ms < world.scrubbed_ms)
                        return false;
                if (world.round_ended_ms[i] == 0)
                        world.round_ended_ms[i] = p->last_ended_ms;
                if (p->last_ended_ms <= world.round_ended_ms[i])
                        return false;
                if (p->last_damaged > 0 && p->last_ended_ms > ended)
                        ended = p->last_ended_ms;
        }
        eng_scrub_read(world.store, &now, &last);
        /*
         * Damage of what no name has on that drive is met by each round: the walk that it asks for
         * begins in the same millisecond.
         */
        return last.started_ms >= ended && scrub_rests();
}

/* What has rotted was found, though nobody asked for it, and repaired. */
static void check_scrub(bool *open)
{
        if (!plan.scrubs)
                return;
        world.scrubbed_ms = lp_wall_ms();
        memset(world.round_ended_ms, 0, sizeof(world.round_ended_ms));
        wait_for(has_scrubbed, open);
}

/* An idle store, read as an operator has it read: its members agree, and nothing is amiss. */
static void check_verification(bool *open)
{
        struct eng_verify_report r;

        wait_for(is_verified, open);
        if (world.gone || eng_verify_start(world.store) != 0)
                return;
        wait_for(is_verified, open);
        eng_verify_read(world.store, &r);
        if (world.gone)
                return;
        if (r.differing_names > 0)
                sim_fail("verification found %llu names that differ", (unsigned long long)r.differing_names);
        if ((plan.rotten < 0 || plan.scrubs) && r.damaged_shards + r.missing_shards + r.unreadable_objects > 0)
                sim_fail("verification found %llu shards damaged, %llu missing, %llu objects unreadable",
                         (unsigned long long)r.damaged_shards, (unsigned long long)r.missing_shards,
                         (unsigned long long)r.unreadable_objects);
}

/*
 * Read as an operator has it read, until a verification has found nothing but what can't be given
 * back.
 */
static void verify_all(bool *open, struct eng_verify_report *r)
{
        wait_for(is_verified, open);
        if (!world.gone)
                (void)eng_verify_start(world.store);
        wait_for(is_verified, open);
        if (!world.gone)
                eng_verify_read(world.store, r);
}

static bool none_counted_lost(void)
{
        return world.store->health.lost_objects == 0;
}

static struct {
        uint64_t bucket;
        char key[24];
} lost_names[KEYS_MAX * BUCKETS_MAX];
static unsigned lost_name_count;

static void note_lost(const uint8_t *name, size_t len)
{
        uint64_t bucket;

        memcpy(&bucket, name + 1, sizeof(bucket));
        lost_names[lost_name_count].bucket = be64toh(bucket);
        memset(lost_names[lost_name_count].key, 0, sizeof(lost_names[0].key));
        memcpy(lost_names[lost_name_count++].key, name + 9, len - 9);
}

static bool is_lost_name(uint64_t bucket, const char *key)
{
        unsigned i;

        for (i = 0; i < lost_name_count; i++)
                if (lost_names[i].bucket == bucket && strcmp(lost_names[i].key, key) == 0)
                        return true;
        return false;
}

static unsigned find_lost(struct lost_count *count)
{
        lost_name_count = 0;
        count->found = note_lost;
        check_lost(count);
        return lost_name_count;
}

/*
 * All that could be repaired is, and of the rest the store says how much it is; it is served but
 * for the stripes that are lost.
 */
static void check_what_is_left(bool *open)
{
        static struct eng_verify_report r;
        struct lost_count count;

        verify_all(open, &r); /* finds and repairs what can be */
        wait_for(check_at_rest, open);
        verify_all(open, &r);
        (void)find_lost(&count);
        if (r.damaged_shards + r.missing_shards != count.shards || r.unreadable_objects != count.objects || r.differing_names > 0)
                sim_fail("verification found %llu shards damaged, %llu missing, %llu objects unreadable, %llu names that differ: %llu shards of %llu "
                         "objects are lost",
                         (unsigned long long)r.damaged_shards, (unsigned long long)r.missing_shards, (unsigned long long)r.unreadable_objects,
                         (unsigned long long)r.differing_names, (unsigned long long)count.shards, (unsigned long long)count.objects);
        if (world.store->health.lost_objects != count.objects)
                sim_fail("the store counts %llu objects with stripes beyond repair, and there are %llu",
                         (unsigned long long)world.store->health.lost_objects, (unsigned long long)count.objects);
        check_shards(-1);
        clients_read_all();
        loss_figures.counted += count.objects;
}

/*
 * Objects with stripes beyond repair hold nothing up. They can be overwritten and deleted, and then
 * there is nothing amiss.
 */
static void check_losses(bool *open)
{
        struct lost_count count;

        if (!loss_planned())
                return;
        loss_at_rest();
        check_what_is_left(open);
        if (loss_changes_drive()) {
                wait_for(check_at_rest, open);
                check_what_is_left(open);
        }
        while (find_lost(&count) > 0)
                loss_figures.overwritten += clients_replace(is_lost_name);
        wait_for(none_counted_lost, open);
        wait_for(check_at_rest, open);
}

static void last_life(bool lose_indexes)
{
        bool open;

        begin_last_life(lose_indexes, &open);
        world.final = true;
        clients_final();
        live_for(12 * SIM_S, &open);
        wait_for(check_at_rest, &open); /* parts of the uploads that have ended now were in its way */
        check_losses(&open);
        check_scrub(&open);
        check_verification(&open);
        clients_read_versions(); /* upkeep has destroyed nothing */
        if (versions_exist() && sim_chance(SIM_LOCKS, 3)) {
                clients_end_versions();
                clients_read_versions();
                live_for(12 * SIM_S, &open); /* what they had is discarded */
        }
        live_for(SIM_S, &open);  /* what was read is unpinned by messages */
        if (plan.scrubs)
                wait_for(scrub_rests, &open);
        check_replicas();
        check_shards(plan.scrubs ? -1 : plan.rotten);
        check_idle();
        world_figures.leaked_frames += check_leaks();
        world.final = world.last = false;
        end_life(END_CLEAN);
}

void world_run(uint64_t seed, bool trace)
{
        unsigned i;

        sim_begin(seed, trace);
        sim_alloc_begin(seed);
        history_begin();
        clients_begin();
        plan_history();
        for (i = 0; i < plan.lives; i++)
                one_life(i);
        last_life(false);
        if (sim_chance(SIM_FAULTS, 6))
                last_life(true); /* I4 */
        client_figures.undecided += history_check();
        sim_note(5, history_count(), history_now());
        sim_disks_free();
        world_figures.histories++;
}
