/*
 * main.c - the simulator of a drive (batches.h tells its options). Files lie in memory where there
 * is a folder in memory; --keep leaves those of a run in which something failed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/batches.h"
#include "tests/sim/drive/disk.h"
#include "tests/sim/drive/world.h"
#include "tests/sim/sim.h"

#define N(figure) ((unsigned long long)(figure))

static char folder[96];
static bool keep;

static void history(uint64_t seed, bool trace)
{
        world_run(seed, trace, folder);
}

static void report(uint64_t events)
{
        const struct world_figures *w = &world_figures;
        const struct disk_figures *d = &disk_figures;

        printf("  %llu processes: %llu ended well, %llu died in a call, %llu while opening; then %llu power cuts, %llu "
               "kills, %llu indexes lost; %llu sectors went bad\n",
               N(w->lives), N(w->closed), N(w->dead_in_call), N(w->opened_dead), N(w->power_cuts), N(w->kills),
               N(w->rebuilt), N(w->spoilt));
        printf("  %llu sectors of closed files rotten, %llu places told by name in %llu rounds of scrub\n", N(w->rotten), N(w->rot_found), N(w->rounds));
        printf("  %llu changes, %llu copies, %llu voids, %llu epochs, %llu discards, %llu lookups, %llu reads; %llu "
               "events\n",
               N(w->changes), N(w->copies), N(w->voids), N(w->epochs), N(w->discards), N(w->lookups), N(w->reads), N(events));
        printf("  %llu leaders, %llu operations refused to earlier ones\n", N(w->leaders), N(w->refused));
        printf("  records settled %llu, lost %llu, void %llu; writes torn %llu, lost %llu; %llu I/O errors, %llu reads failed, %llu met a full disk, %llu no descriptor\n",
               N(w->settled),
               N(w->lost), N(w->voided), N(d->torn), N(d->lost), N(d->errors), N(d->unreadable), N(d->full), N(d->unopened));
        printf("  log batches %llu with %llu records, index batches %llu, its pages read %llu; reclaim moved %llu KiB, freed %llu KiB\n",
               N(w->log_batches), N(w->log_records), N(w->index_batches), N(d->index_reads), N(w->copied >> 10), N(w->freed >> 10));
}

static uint64_t spoilt(void)
{
        const struct disk_figures *d = &disk_figures;

        return world_figures.power_cuts + world_figures.kills + world_figures.rebuilt + world_figures.spoilt + d->torn + d->lost + d->errors +
               d->unreadable + d->full + d->unopened;
}

static void make_folder(void)
{
        const char *in = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");

        snprintf(folder, sizeof(folder), "%.60s/mr-simdrive-XXXXXX", in != NULL ? in : "/tmp");
        if (mkdtemp(folder) == NULL) {
                perror(folder);
                exit(2);
        }
}

static void remove_folder(void)
{
        char command[128];

        snprintf(command, sizeof(command), "rm -rf '%s'", folder);
        if (system(command) != 0)
                perror(folder);
}

static bool option(const char *arg)
{
        keep = strcmp(arg, "--keep") == 0;
        return keep;
}

int main(int argc, char **argv)
{
        const struct batches batches = {
                .size = 8,
                .history = history,
                .figures = {{&world_figures, sizeof(world_figures)}, {&disk_figures, sizeof(disk_figures)}},
                .points = "I/Os and calls",
                .report = report,
                .spoilt = spoilt,
                .options = " [--keep]",
                .option = option,
        };
        int status;

        sim_program = "simdrive";
        make_folder();
        status = batches_main(argc, argv, &batches);
        if (keep && status == 1)
                printf("%s: see %s\n", sim_program, folder);
        else
                remove_folder();
        return status;
}
