/* experiments.c - see micro.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/micro/micro.h"
#include "bench/micro/ops.h"

#define SMALL      4096u
#define FILL_DEPTH 256u
#define PAGE       1000u

static double us(const struct rig_run *run, double share)
{
        return (double)load_stats_percentile(&run->stats[0], share) / 1000;
}

static double per_second(const struct rig_run *run, uint64_t count)
{
        return (double)count / run->took_s;
}

/* Rate and latencies of a run. */
static void figures_of(struct micro_options *options, const struct rig_run *run, const char *name)
{
        micro_figure(options, per_second(run, atomic_load(&run->done)), "1/s", "%s.ops_s", name);
        micro_figure(options, us(run, 0.5), "us", "%s.p50_us", name);
        micro_figure(options, us(run, 0.99), "us", "%s.p99_us", name);
}

static struct rig_run *new_run(struct rig *rig, void (*begin)(struct rig_op *op), unsigned depth, uint64_t count)
{
        struct rig_run *run = calloc(1, sizeof(*run));

        if (run == NULL)
                return NULL;
        run->rig = rig;
        run->begin = begin;
        run->depth = depth;
        run->count = count;
        return run;
}

/* Stores `count` objects. */
static int fill(struct rig *rig, uint64_t count, uint64_t size, double *rate)
{
        struct rig_run *run = new_run(rig, op_put, FILL_DEPTH, count);
        int rv;

        if (run == NULL)
                return -ENOMEM;
        run->size = size;
        rv = rig_run(run);
        if (rate != NULL)
                *rate = per_second(run, atomic_load(&run->done));
        free(run);
        return rv;
}

/* A store of one drive while an experiment lasts. */
static int with_store(struct micro_options *options, int (*experiment)(struct micro_options *options, struct rig *rig),
                      void (*prepare)(struct rig *rig))
{
        struct rig rig;
        int rv = rig_make(&rig, options->folder, options->loops);

        if (rv != 0)
                return rv;
        if (prepare != NULL)
                prepare(&rig);
        rv = rig_open(&rig, true);
        if (rv == 0) {
                rv = experiment(options, &rig);
                if (rig.store != NULL)
                        rig_close(&rig);
        }
        rig_remove(&rig);
        return rv;
}

/* ---- commits --------------------------------------------------------------------------------- */

static int commit_at(struct micro_options *options, struct rig *rig, unsigned depth, uint64_t *first)
{
        struct rig_run *run = new_run(rig, op_put, depth, UINT64_MAX);
        struct eng_drive_info before, after;
        char name[32];
        int rv;

        if (run == NULL)
                return -ENOMEM;
        run->size = SMALL;
        run->seconds = options->seconds;
        run->first = *first;
        rig_drive_info(rig, &before);
        rv = rig_run(run);
        sleep(1); /* figures are a second old at most */
        rig_drive_info(rig, &after);
        snprintf(name, sizeof(name), "commit.depth%u", depth);
        if (rv == 0) {
                figures_of(options, run, name);
                if (after.batches > before.batches)
                        micro_figure(options,
                                     (double)(after.appends - before.appends) /
                                             (double)(after.batches - before.batches),
                                     "", "%s.appends_for_each_write", name);
        }
        *first += atomic_load(&run->next);
        free(run);
        return rv;
}

static int commit(struct micro_options *options, struct rig *rig)
{
        static const unsigned depths[] = {1, 4, 16, 64, 256};
        uint64_t first = 0;
        int rv = 0;

        for (size_t i = 0; rv == 0 && i < sizeof(depths) / sizeof(depths[0]); i++)
                rv = commit_at(options, rig, depths[i], &first);
        return rv;
}

int micro_commit(struct micro_options *options)
{
        return with_store(options, commit, NULL);
}

/* ---- lookups --------------------------------------------------------------------------------- */

/* So that names are found in the index, not in the tail in memory. */
static int open_again(struct rig *rig)
{
        rig_wait_indexed(rig);
        rig_close(rig);
        return rig_open(rig, false);
}

static int lookup_at(struct micro_options *options, struct rig *rig, unsigned depth)
{
        struct rig_run *run = new_run(rig, op_lookup, depth, UINT64_MAX);
        char name[32];
        int rv;

        if (run == NULL)
                return -ENOMEM;
        run->seconds = options->seconds;
        run->keys = options->objects;
        snprintf(name, sizeof(name), "lookup.depth%u", depth);
        rv = rig_run(run);
        if (rv == 0)
                figures_of(options, run, name);
        free(run);
        return rv;
}

static int lookup(struct micro_options *options, struct rig *rig)
{
        static const unsigned depths[] = {1, 16, 64};
        int rv = fill(rig, options->objects, SMALL, NULL);

        if (rv == 0)
                rv = open_again(rig);
        for (size_t i = 0; rv == 0 && i < sizeof(depths) / sizeof(depths[0]); i++)
                rv = lookup_at(options, rig, depths[i]);
        return rv;
}

int micro_lookup(struct micro_options *options)
{
        return with_store(options, lookup, NULL);
}

/* ---- replay ---------------------------------------------------------------------------------- */

/* In a process of its own: stores records, says so, and waits to be killed. */
static void store_and_wait(struct micro_options *options, struct rig *rig, int said)
{
        if (rig_open(rig, true) != 0 || fill(rig, options->records, SMALL, NULL) != 0 || write(said, "y", 1) != 1)
                _exit(1);
        for (;;)
                pause();
}

/* Leaves a store as a kill leaves it. */
static int make_killed(struct micro_options *options, struct rig *rig)
{
        int ends[2], rv = 0;
        char said;
        pid_t pid;

        if (pipe(ends) != 0)
                return -errno;
        pid = fork();
        if (pid == 0) {
                close(ends[0]);
                store_and_wait(options, rig, ends[1]);
        }
        close(ends[1]);
        if (pid < 0 || read(ends[0], &said, 1) != 1)
                rv = -ECHILD;
        close(ends[0]);
        if (pid > 0) {
                kill(pid, SIGKILL);
                waitpid(pid, NULL, 0);
        }
        return rv;
}

int micro_replay(struct micro_options *options)
{
        struct rig rig;
        double begun;
        int rv = rig_make(&rig, options->folder, options->loops);

        if (rv != 0)
                return rv;
        rv = make_killed(options, &rig);
        begun = rig_now_s();
        if (rv == 0)
                rv = rig_open(&rig, false);
        if (rv == 0) {
                micro_figure(options, (double)options->records, "", "replay.records");
                micro_figure(options, rig_now_s() - begun, "s", "replay.seconds");
                rig_close(&rig);
        }
        rig_remove(&rig);
        return rv;
}

/* ---- listings -------------------------------------------------------------------------------- */

static int list_at(struct micro_options *options, struct rig *rig, unsigned depth)
{
        struct rig_run *run = new_run(rig, op_list, depth, UINT64_MAX);
        char name[32];
        int rv;

        if (run == NULL)
                return -ENOMEM;
        run->seconds = options->seconds;
        run->keys = options->names;
        run->max = PAGE;
        snprintf(name, sizeof(name), "list.depth%u", depth);
        rv = rig_run(run);
        if (rv == 0) {
                micro_figure(options, per_second(run, atomic_load(&run->entries)), "1/s", "%s.entries_s", name);
                figures_of(options, run, name);
        }
        free(run);
        return rv;
}

static int list(struct micro_options *options, struct rig *rig)
{
        double rate;
        int rv = fill(rig, options->names, 0, &rate);

        if (rv == 0)
                rv = open_again(rig);
        if (rv == 0) {
                micro_figure(options, (double)options->names, "", "list.names");
                micro_figure(options, rate, "1/s", "list.stored_s");
                micro_figure(options, (double)rig_disk_bytes(rig, "index") / (double)options->names, "bytes",
                             "list.index_bytes_for_each_name");
                rv = list_at(options, rig, 1);
        }
        return rv == 0 ? list_at(options, rig, 4) : rv;
}

int micro_list(struct micro_options *options)
{
        return with_store(options, list, NULL);
}

/* ---- reclaim --------------------------------------------------------------------------------- */

static void small_files(struct rig *rig)
{
        rig->options.log_file_bytes = 8 << 20; /* so that there is something to reclaim soon */
        rig->options.reclaim_rate = UINT64_C(1) << 30;
}

static int reclaim(struct micro_options *options, struct rig *rig)
{
        struct rig_run *run = new_run(rig, op_overwrite, 64, UINT64_MAX);
        struct eng_drive_info before, after;
        double rate;
        int rv = run != NULL ? fill(rig, options->objects, SMALL, &rate) : -ENOMEM;

        if (rv == 0) {
                run->size = SMALL;
                run->keys = options->objects;
                run->seconds = options->seconds * 4; /* most of each file has to be dead before it is worth its while */
                rig_wait_indexed(rig);
                sleep(1);
                rig_drive_info(rig, &before);
                rv = rig_run(run);
        }
        if (rv == 0) {
                double bytes = (double)atomic_load(&run->bytes);

                sleep(1);
                rig_drive_info(rig, &after);
                micro_figure(options, rate, "1/s", "reclaim.ops_s_of_new_names");
                figures_of(options, run, "reclaim.overwriting");
                micro_figure(options, (double)(after.reclaim_copied - before.reclaim_copied) / bytes, "x",
                             "reclaim.moved_for_each_byte");
                micro_figure(options, (double)(after.reclaim_freed - before.reclaim_freed) / bytes, "x",
                             "reclaim.freed_for_each_byte");
                micro_figure(options, (double)(after.written_bytes - before.written_bytes) / bytes, "x",
                             "reclaim.written_for_each_byte");
        }
        free(run);
        return rv;
}

int micro_reclaim(struct micro_options *options)
{
        return with_store(options, reclaim, small_files);
}

/* ---- against fio ----------------------------------------------------------------------------- */

static void no_cache(struct rig *rig)
{
        rig->options.cache_bytes = 1;
}

static int lookups_once(struct micro_options *options, struct rig *rig)
{
        struct rig_run *run = new_run(rig, op_lookup, options->depth, options->objects);
        int rv;

        if (run == NULL)
                return -ENOMEM;
        run->keys = options->objects;
        rv = rig_run(run);
        free(run);
        return rv;
}

static int reads(struct micro_options *options, struct rig *rig)
{
        struct rig_run *run = new_run(rig, op_read, options->depth, options->objects);
        int rv = run != NULL ? fill(rig, options->objects, SMALL, NULL) : -ENOMEM;

        if (rv == 0)
                rv = open_again(rig);
        if (rv == 0)
                rv = lookups_once(options, rig); /* the index is warm */
        if (rv == 0)
                rv = open_again(rig); /* and stays so in the page cache; what the drive knows of objects read before is forgotten */
        if (rv == 0) {
                rig_cool(rig);
                run->size = SMALL;
                run->keys = options->objects;
                run->seconds = options->seconds * 4; /* or each of them once */
                rv = rig_run(run);
        }
        if (rv == 0) {
                micro_figure(options, (double)(options->objects * SMALL), "bytes", "reads.working_set");
                micro_figure(options, (double)options->depth, "", "reads.depth");
                figures_of(options, run, "reads");
        }
        free(run);
        return rv;
}

int micro_reads(struct micro_options *options)
{
        return with_store(options, reads, no_cache);
}

static int write_large(struct micro_options *options, struct rig *rig, bool md5, const char *name, uint64_t *first)
{
        struct rig_run *run = new_run(rig, op_put, 4, UINT64_MAX);
        int rv;

        if (run == NULL)
                return -ENOMEM;
        run->size = options->size;
        run->seconds = options->seconds;
        run->first = *first;
        run->md5 = md5;
        rv = rig_run(run);
        *first += atomic_load(&run->next);
        if (rv == 0)
                micro_figure(options, per_second(run, atomic_load(&run->bytes)) / 1048576, "MiB/s", "writes.%s.mib_s",
                             name);
        free(run);
        return rv;
}

static int writes(struct micro_options *options, struct rig *rig)
{
        uint64_t first = 0;
        int rv = write_large(options, rig, false, "plain", &first);

        return rv == 0 ? write_large(options, rig, true, "md5", &first) : rv;
}

int micro_writes(struct micro_options *options)
{
        return with_store(options, writes, NULL);
}
