/*
 * world.c - one history: a drive is formatted, and processes use it one after the other until each
 * is killed, dies in a call, loses its power or ends well; now and then its index is lost in
 * between.
 */
#include "tests/sim/drive/world.h"

#include <assert.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ec.h"
#include "engine/drive/local.h"
#include "engine/drive/wire.h"
#include "tests/lib/body_fixture.h"
#include "tests/sim/drive/disk.h"

#define LIVES_MAX   7u
#define EVENTS_MAX  20000u   /* of a process whose end does not come */
#define WAIT_EVENTS 2000000u /* of an operation that must be answered */
#define PAGES_EACH  3u       /* processes, about: its index's pages are not in memory until they were read */

struct world world;
struct world_figures world_figures;

static void look_at_batch(void)
{
        const struct eng_local *l = eng_local_of(world.drive);

        if (l->batches_begun == world.batches)
                return;
        world.batches = l->batches_begun;
        model_covered(l->batch.covered.file, l->batch.covered.position);
}

bool world_step(void)
{
        if (world.crash_at != 0 && sim.events >= world.crash_at)
                return false;
        if (!sim_step()) {
                if (disk_erred())
                        return false; /* a drive that failed has nothing to do any more */
                sim_fail("nothing happens any more");
        }
        look_at_batch();
        return !disk_dead();
}

/* ---- operations ------------------------------------------------------------------------------ */

#define OPENING_NS (50ull * SIM_MS) /* an opening takes less until it is told */

/*
 * Since it was asked for a read failed or a file could not be opened, and that may be all that is
 * wrong: asked again, as others would be.
 */
static bool could_not_read(struct act *act)
{
        if (act->troubles == disk_figures.unreadable + disk_figures.unopened)
                return false;
        if (act->op.kind == ENG_OP_LOOKUP) {
                eng_buf_unref(act->op.lookup.value);
                act->op.lookup.value = NULL;
        }
        act_submit(act);
        return true;
}

/* Of a leader before: nobody takes it. */
static void act_drop(struct act *act)
{
        world_figures.refused += act->op.result == -ESTALE && act->op.deposed;
        eng_wire_drop_answer(&act->op);
        if (act->op.kind == ENG_OP_APPEND && act->op.append.type == FMT_RECORD_EPOCH)
                eng_buf_unref(act->op.append.body);
        act_end(act);
}

static void answered(struct eng_op *op)
{
        struct act *act = container_of(op, struct act, op);

        if (act->reign != world.reign) {
                act_drop(act);
                return;
        }
        if (op->result == -ENOTCONN || op->deposed)
                sim_fail("an operation of kind %d is refused to the leader", (int)op->kind);
        act->answered = true;
        if (disk_erred() && op->result != 0)
                return; /* of a drive that failed; its process ends soon */
        if ((op->result == -EBADMSG || (op->result == -EAGAIN && op->kind != ENG_OP_DISCARD)) && could_not_read(act))
                return;
        if (op->kind == ENG_OP_APPEND || op->kind == ENG_OP_SYNC)
                world_moment(MOMENT_DURABLE);
        if (act->after != NULL)
                act->after(act);
}

struct act *act_new(unsigned loop, void (*after)(struct act *act))
{
        struct act *act = calloc(1, sizeof(*act));

        assert(act != NULL);
        act->loop = world.loops[loop];
        act->after = after;
        act->reign = world.reign;
        world.acts++;
        return act;
}

static void submit(void *arg)
{
        struct act *act = arg;

        eng_drive_submit(world.drive, &act->op);
}

void act_submit(struct act *act)
{
        act->op.done = answered;
        act->answered = false;
        act->troubles = disk_figures.unreadable + disk_figures.unopened;
        if (disk_figures.unopened_at != 0 && sim.now - disk_figures.unopened_at < OPENING_NS)
                act->troubles--; /* it may wait for an opening that has failed already */
        if (act->op.epoch == 0)
                act->op.epoch = model_epoch();
        if (world.term != 0)
                act->op.term = (struct eng_term){.generation = 1, .revision = world.term, .node = 1};
        if (sim.self == act->loop)
                submit(act);
        else
                sim_at(0, act->loop, submit, act);
}

void act_end(struct act *act)
{
        world.acts--;
        free(act->slot);
        free(act);
}

bool act_run(struct act *act, enum eng_op_kind kind)
{
        uint64_t until = sim.events + WAIT_EVENTS;

        act->op.kind = kind;
        act_submit(act);
        while (!act->answered) {
                if (!world_step())
                        return false;
                if (sim.events > until)
                        sim_fail("an operation of kind %d waits for ever", (int)kind);
        }
        return !disk_erred() || act->op.result == 0;
}

void fill_append(struct eng_op *op, const struct record *rec, uint64_t committed, uint64_t epoch)
{
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_APPEND;
        op->flags = ENG_OP_RESERVE | (rec->seq % 2 == 0 ? ENG_OP_CACHE : 0);
        op->epoch = epoch;
        op->append.body = rec->body;
        op->append.body_crc = rec->body_crc;
        op->append.inline_len = rec->inline_len;
        op->append.type = rec->type;
        op->append.pg = rec->pg;
        op->append.seq = rec->seq;
        op->append.committed = committed;
}

void fill_lookup(struct eng_op *op, unsigned name)
{
        op->kind = ENG_OP_LOOKUP;
        op->flags = ENG_OP_WANT_INLINE;
        op->lookup.name = model.names[name].bytes;
        op->lookup.name_len = model.names[name].len;
}

void fill_read(struct act *act, unsigned value, uint32_t stripe)
{
        act->slot = aligned_alloc(4096, LP_SLOT_SIZE);
        assert(act->slot != NULL);
        act->value = value;
        act->stripe = stripe;
        act->op.kind = ENG_OP_READ;
        act->op.flags = stripe % 2 == 0 ? ENG_OP_WANT_CRC : 0;
        fx_id(act->op.read.object_id, value);
        act->op.read.stripe = stripe;
        act->op.read.len = act->op.read.payload_len = model.values[value].unit;
        act->op.read.slot = act->slot;
}

bool read_right(const struct act *act)
{
        const uint8_t *bytes = act->slot + LP_SLOT_HEADER;
        uint32_t unit = model.values[act->value].unit;

        if ((act->op.flags & ENG_OP_WANT_CRC) != 0 && act->op.read.crc != era_crc32c(0, bytes, unit))
                return false;
        return value_is(act->value, act->stripe, bytes, unit);
}

/* ---- one process ----------------------------------------------------------------------------- */

static void failed(void *arg, struct eng_drive *drive, const char *text)
{
        world.failed = true;
        sim_trace("the drive failed: %s", text);
        if (!disk_dead() && !disk_erred() && !world.spoilt)
                sim_fail("the drive failed: %s", text);
}

static struct eng_local_options options;

static void make_options(void)
{
        static const uint64_t log_bytes[] = {32u << 10, 128u << 10, 512u << 10};
        static const uint64_t memtable_bytes[] = {8u << 10, 32u << 10, 128u << 10, 1u << 20};
        static const unsigned dead[] = {1, 10, 40};

        memset(&options, 0, sizeof(options));
        options.path = world.path;
        memset(options.identity.store_id, 0xaa, FMT_ID);
        memset(options.identity.drive_id, 0xbb, FMT_ID);
        options.identity.layout = FMT_LAYOUT_VERSION;
        options.log_file_bytes = log_bytes[sim_below(SIM_PLAN, 3)];
        options.short_logs = true;
        options.segment_bytes = 4u << 20;
        options.memtable_bytes = memtable_bytes[sim_below(SIM_PLAN, 4)];
        options.cache_bytes = sim_chance(SIM_PLAN, 2) ? 1 : 0;
        options.full_reserve_bytes = 1;
        options.reclaim_rate = sim_chance(SIM_PLAN, 8) ? ENG_RECLAIM_OFF : UINT64_MAX;
        options.reclaim_dead_percent = dead[sim_below(SIM_PLAN, 3)];
        options.failed = failed;
        options.superseded = clients_superseded;
}

void world_moment(enum moment moment)
{
        if (world.moments_left > 0 && moment == world.moment && --world.moments_left == 0)
                world.crash_at = sim.events + world.events_behind;
}

static void make_tempo(void)
{
        static const uint64_t io[] = {20 * SIM_US, 500 * SIM_US, 4 * SIM_MS};
        static const uint64_t job[] = {50 * SIM_US, 2 * SIM_MS, 30 * SIM_MS};
        static const uint64_t turn[] = {50 * SIM_US, 2 * SIM_MS, 30 * SIM_MS};
        static const uint64_t commit[] = {2 * SIM_US, 200 * SIM_US, 20 * SIM_MS};

        world.tempo.io_ns = io[sim_below(SIM_PLAN, 3)];
        world.tempo.job_ns = job[sim_below(SIM_PLAN, 3)];
        world.tempo.turn_ns = turn[sim_below(SIM_PLAN, 3)];
        world.tempo.commit_ns = commit[sim_below(SIM_PLAN, 3)];
        world.tempo.late_commits = sim_chance(SIM_PLAN, 2) ? 8 : 0;
        world.tempo.bytes_max = (uint32_t)(options.log_file_bytes / 8 < 60000 ? options.log_file_bytes / 8 : 60000);
}

/*
 * When, and how, this process ends: well, in a call, at any event, or just behind something that
 * matters.
 */
static void plan_end(void)
{
        world.crash_at = world.moments_left = 0;
        disk_arm(0);
        switch (sim_below(SIM_PLAN, 9)) {
        case 0:
                return;
        case 1:
        case 2:
                disk_arm(sim_skewed(SIM_PLAN, 1, 400));
                return;
        case 3:
        case 4:
                world.crash_at = sim.events + sim_skewed(SIM_PLAN, 1, 12000);
                return;
        case 5:
                disk_err(sim_skewed(SIM_PLAN, 1, 3000));
                return;
        default:
                world.moment = (enum moment)sim_below(SIM_PLAN, MOMENTS);
                world.moments_left = sim_skewed(
                        SIM_PLAN, 1, world.moment == MOMENT_DURABLE || world.moment == MOMENT_WRITTEN ? 400 : 40);
                world.events_behind = sim_skewed(SIM_PLAN, 0, 15);
        }
}

static void open_loops(void)
{
        struct lp_config config = {.slots = 0};
        unsigned i;

        for (i = 0; i < LOOPS; i++) {
                config.index = i;
                if (lp_loop_new(&config, &world.loops[i]) != 0)
                        sim_fail("no loop");
        }
        options.owner = world.loops[0];
}

/* Nothing in the log ever goes bad here: reclaim can move all that lives, if it could read it. */
static void check_log_files(struct eng_local *l)
{
        const struct eng_log_file *file;

        TAILQ_FOREACH (file, &l->files.list, order)
                if (file->kept)
                        sim_fail("reclaim left %llu names in log file %llu", (unsigned long long)file->live_names,
                                 (unsigned long long)file->number);
}

static void count_figures(void)
{
        struct eng_drive_info info;

        eng_drive_info(world.drive, &info);
        world_figures.copied += info.reclaim_copied;
        world_figures.freed += info.reclaim_freed;
        world_figures.index_batches += eng_local_of(world.drive)->batches_ended;
        world_figures.log_batches += info.batches;
        world_figures.log_records += info.appends;
        if (info.read_errors == 0)
                check_log_files(eng_local_of(world.drive));
}

int world_open(struct eng_error *error)
{
        open_loops();
        world.drive = NULL;
        world.failed = false;
        world.reign++;
        return eng_local_open(&options, &world.drive, error);
}

/* ---- leaders --------------------------------------------------------------------------------- */

static void check_term(uint64_t least)
{
        struct eng_term term;
        uint8_t cluster[FMT_ID];

        eng_drive_term(world.drive, &term, cluster);
        if (term.revision < least || term.revision > model.term_asked)
                sim_fail("its term is %llu: it was at least %llu, at most %llu", (unsigned long long)term.revision,
                         (unsigned long long)least, (unsigned long long)model.term_asked);
}

static bool open_as(uint64_t revision)
{
        unsigned tries;
        int rv = -EAGAIN;

        sim_trace("open of term %llu", (unsigned long long)revision);
        world.term = revision;
        if (revision > model.term_asked)
                model.term_asked = revision;
        for (tries = 0; rv == -EAGAIN && tries < 1000; tries++) {
                struct act *act = act_new(0, NULL);

                act->op.flags = ENG_OP_RESERVE;
                memset(act->op.open.cluster, 0xcc, FMT_ID);
                if (!act_run(act, ENG_OP_OPEN))
                        return false;
                rv = act->op.result;
                act_end(act);
        }
        if (rv != 0)
                sim_fail("OPEN: %s", strerror(-rv));
        model.term = revision;
        check_term(revision);
        world_figures.leaders++;
        return true;
}

bool world_lead(void)
{
        world.term = 0;
        if (!model.terms)
                return true;
        check_term(world.spoilt ? 0 : model.term);
        return open_as(model.term_asked + (model.term_asked == 0 || !sim_chance(SIM_TERMS, 3)));
}

/*
 * What the one before has under way is answered to nobody. Once OPEN is answered the log has all that
 * it will ever have of it: as after a crash, what was not answered is there or not.
 */
static bool leader_changes(void)
{
        world.change_at = sim_chance(SIM_TERMS, 2) ? sim.events + sim_skewed(SIM_TERMS, 50, 3000) : 0;
        world.reign++;
        if (!open_as(model.term_asked + 1))
                return false;
        model_life_ends(true);
        if (!recover())
                return false;
        clients_begin();
        return true;
}

/* False: it died. */
static bool live(void)
{
        struct eng_error error;
        uint64_t until, longest;
        int rv;

        rv = world_open(&error);
        if (disk_dead() || (rv != 0 && disk_erred()))
                return false;
        if (rv != 0)
                sim_fail("it cannot be opened: %s", error.text);
        world.quiet = false;
        disk_trouble(true);
        world.batches = eng_local_of(world.drive)->batches_begun;
        if (sim_chance(SIM_PLAN, PAGES_EACH))
                eng_pages_pretend(eng_local_of(world.drive), 0, 0);
        world.change_at = model.terms && sim_chance(SIM_TERMS, 2) ? sim.events + sim_skewed(SIM_TERMS, 50, 6000) : 0;
        if (!world_lead() || !recover())
                return false;
        clients_begin();
        until = sim.events + sim_skewed(SIM_PLAN, 100, 12000);
        longest = sim.events + EVENTS_MAX;
        while ((world.crash_at != 0 || world.moments_left != 0 || sim.events < until) && sim.events < longest) {
                if (!world_step())
                        return false;
                if (world.change_at != 0 && sim.events >= world.change_at && !leader_changes())
                        return false;
        }
        world.quiet = true;
        until = sim.events + WAIT_EVENTS;
        while (world.acts > 0) {
                if (!world_step())
                        return false;
                if (sim.events > until)
                        sim_fail("%u operations wait for ever", world.acts);
        }
        return true;
}

static void end_well(void)
{
        unsigned i, n;

        world.crash_at = world.moments_left = 0;
        disk_arm(0);
        disk_err(0);
        disk_sweep(false);
        disk_trouble(false);
        disk_finish();
        world.drive->ops->close(world.drive);
        for (n = 0; n < 2; n++)
                for (i = 0; i < LOOPS; i++)
                        lp_loop_drain(world.loops[i]);
        world_figures.closed++;
}

/* ---- between two ----------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
        return remove(path);
}

static void remove_folder(const char *path)
{
        if (nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0)
                sim_fail("%s cannot be removed", path);
}

void world_remove_index(void)
{
        char path[DISK_PATH_MAX];

        snprintf(path, sizeof(path), "%s/index", world.path);
        if (access(path, F_OK) != 0)
                return; /* it is gone, and the process that was to make it has died before */
        remove_folder(path);
        world_figures.rebuilt++;
}

static bool lose_index(void)
{
        if (!sim_chance(SIM_PLAN, 4))
                return false;
        world_remove_index();
        return true;
}

void world_close(void)
{
        uint64_t until = sim.events + WAIT_EVENTS;

        world.quiet = true;
        while (world.acts > 0 && !world.failed) {
                if (!world_step())
                        sim_fail("the process has died");
                if (sim.events > until)
                        sim_fail("%u operations wait for ever", world.acts);
        }
        end_well();
        disk_kill();
        sim_events_clear();
        sim_loops_clear();
        world.acts = 0;
        world.drive = NULL;
}

static void process_ends(bool well)
{
        bool power = sim_chance(SIM_PLAN, 4) ? false : true;

        if (well)
                end_well();
        else if (disk_dead())
                world_figures.dead_in_call++;
        if (world.drive == NULL)
                world_figures.opened_dead++;
        sim_trace("---- %s, %s",
                  well          ? "ended well"
                  : disk_dead() ? "died in a call"
                                : "died",
                  power ? "power cut" : "kill");
        if (power)
                disk_power_cut();
        else
                disk_kill();
        world_figures.power_cuts += power;
        world_figures.kills += !power;
        sim_events_clear();
        sim_loops_clear();
        world.acts = 0;
        model_life_ends(!lose_index() && well && !disk_erred()); /* a drive that has failed keeps no discards */
}

static void one_process(void)
{
        bool well;

        disk_begin();
        plan_end();
        disk_sweep(true);
        well = live();
        if (world.drive != NULL)
                count_figures();
        process_ends(well);
        world_figures.lives++;
}

static void format(void)
{
        struct fmt_epoch epoch = {.number = 1, .id = {1}, .pg_count = GROUPS, .drives = 0, .k = 1};
        struct eng_error error;

        if (mkdir(world.path, 0700) != 0) {
                if (errno != EEXIST)
                        sim_fail("no folder %s", world.path);
                remove_folder(world.path); /* of a point of this sweep that failed */
                if (mkdir(world.path, 0700) != 0)
                        sim_fail("no folder %s", world.path);
        }
        disk_begin();
        if (eng_folder_format(world.path, &options.identity, &epoch, sizeof(epoch), &error) != 0)
                sim_fail("it cannot be formatted: %s", error.text);
        model.epochs[model.epoch_count++] = epoch;
}

void world_run(uint64_t seed, bool trace, const char *folder)
{
        uint64_t lives, i;

        sim_begin(seed, trace);
        snprintf(world.path, sizeof(world.path), "%s/%llu", folder, (unsigned long long)seed);
        model_begin();
        model.terms = sim_chance(SIM_TERMS, 2);
        world.term = world.reign = 0;
        make_options();
        make_tempo();
        format();
        lives = 2 + sim_below(SIM_PLAN, LIVES_MAX - 1);
        for (i = 0; i < lives; i++)
                one_process();
        if (sim_sweep_at == 0 && sim_chance(SIM_TROUBLE, 2))
                spoil_drive();
        disk_power_cut();
        remove_folder(world.path);
}
