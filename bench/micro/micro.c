/*
 * micro.c - the program `micro`: the engine through its own API, without a network: commits,
 * lookups, replay, listings, reclaim, reads and writes on one drive. Prints a line for each figure,
 * or JSON.
 */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/micro/micro.h"
#include "load.h"

static const struct {
        const char *name, *help;
        int (*run)(struct micro_options *options);
} experiments[] = {
        {"commit", "PUTs of 4 KiB, 1 to 256 at a time", micro_commit},
        {"lookup", "names found in a warm index, 1 to 64 at a time", micro_lookup},
        {"replay", "a store opens after a kill with --records of 4 KiB", micro_replay},
        {"list", "pages of 1,000 of --names", micro_list},
        {"reclaim", "overwriting of random 4 KiB objects while space comes back", micro_reclaim},
        {"reads", "cold bytes of 4 KiB objects by a warm index, --depth at a time", micro_reads},
        {"writes", "large objects without an erasure code, four at a time, without and with MD5", micro_writes},
};
#define EXPERIMENTS (sizeof(experiments) / sizeof(experiments[0]))

void micro_figure(struct micro_options *options, double value, const char *unit, const char *name, ...)
{
        char text[96];
        va_list args;

        va_start(args, name);
        vsnprintf(text, sizeof(text), name, args);
        va_end(args);
        if (options->json) {
                if (json_object_set_new(options->figures, text, json_real(value)) != 0)
                        abort();
                return;
        }
        printf("%-36s %16.*f %s\n", text, value < 100 ? 2 : 0, value, unit);
        fflush(stdout);
}

static void usage(FILE *out)
{
        fputs("Usage: micro [OPTION]... [EXPERIMENT]...\n\nExperiments (default: all):\n", out);
        for (size_t i = 0; i < EXPERIMENTS; i++)
                fprintf(out, "  %-16s %s\n", experiments[i].name, experiments[i].help);
        fputs("\nEach has a store of its own, gone afterwards; writes may take some GiB.\n\nOptions:\n"
              "  --folder DIR     stores are made below DIR (default $TMPDIR or /tmp)\n"
              "  --seconds S      of each measurement (default 2)\n"
              "  --objects N      of 4 KiB that are looked up, overwritten, read (default 50K)\n"
              "  --records N      at the kill (default 100K)\n"
              "  --names N        that are listed (default 1M)\n"
              "  --size SIZE      of a large object (default 16M)\n"
              "  --depth N        cold reads at a time (default 64)\n"
              "  --loops N        event loops (default: one for each processor)\n"
              "  --json           one JSON object\n",
              out);
}

static const struct option longs[] = {
        {"folder", required_argument, NULL, 'f'},
        {"seconds", required_argument, NULL, 's'},
        {"objects", required_argument, NULL, 'o'},
        {"records", required_argument, NULL, 'r'},
        {"names", required_argument, NULL, 'n'},
        {"size", required_argument, NULL, 'z'},
        {"depth", required_argument, NULL, 'd'},
        {"loops", required_argument, NULL, 'l'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
};

static int set_count(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
        return load_parse_size(text, out) == 0 && *out >= least && *out <= most ? 0 : -EINVAL;
}

static int set_unsigned(const char *text, uint64_t most, unsigned *out)
{
        uint64_t number;
        int rv = set_count(text, 1, most, &number);

        if (rv == 0)
                *out = (unsigned)number;
        return rv;
}

static int take(struct micro_options *options, int which, const char *value)
{
        switch (which) {
        case 'f':
                options->folder = value;
                return 0;
        case 's':
                options->seconds = atof(value);
                return options->seconds > 0 ? 0 : -EINVAL;
        case 'o':
                return set_count(value, 1, UINT32_MAX, &options->objects);
        case 'r':
                return set_count(value, 1, UINT32_MAX, &options->records);
        case 'n':
                return set_count(value, 2000, UINT32_MAX, &options->names);
        case 'z':
                return set_count(value, 1, UINT64_C(1) << 40, &options->size);
        case 'd':
                return set_unsigned(value, 4096, &options->depth);
        case 'l':
                return set_unsigned(value, RIG_LOOPS_MAX, &options->loops);
        case 'j':
                options->json = true;
                return 0;
        default:
                return -EINVAL;
        }
}

/*
 * Runs one by its name; "": all. The number of them that failed, or -1: there is none of that name.
 */
static int run_named(struct micro_options *options, const char *name)
{
        int failed = 0;
        bool found = false;

        for (size_t i = 0; i < EXPERIMENTS; i++) {
                if (name[0] != '\0' && strcmp(name, experiments[i].name) != 0)
                        continue;
                found = true;
                if (rig_interrupted())
                        failed++;
                else if (experiments[i].run(options) != 0) {
                        fprintf(stderr, "micro: %s failed\n", experiments[i].name);
                        failed++;
                }
        }
        return found ? failed : -1;
}

static int run_all(struct micro_options *options, int count, char **names)
{
        int failed = 0;

        for (int i = 0; i < count || (count == 0 && i == 0); i++) {
                int one = run_named(options, count > 0 ? names[i] : "");

                if (one < 0) {
                        fprintf(stderr, "micro: no such experiment: %s (see micro --help)\n", names[i]);
                        return 2;
                }
                failed += one;
        }
        return failed > 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
        long processors = sysconf(_SC_NPROCESSORS_ONLN);
        struct micro_options options = {.folder = getenv("TMPDIR"),
                                        .seconds = 2,
                                        .objects = 50 << 10,
                                        .records = 100 << 10,
                                        .names = 1 << 20,
                                        .size = 16 << 20,
                                        .depth = 64};
        int which, status;

        options.loops = processors < 1 ? 1 : processors < RIG_LOOPS_MAX ? (unsigned)processors : RIG_LOOPS_MAX;
        if (options.folder == NULL)
                options.folder = "/tmp";
        while ((which = getopt_long(argc, argv, "", longs, NULL)) != -1) {
                if (which == 'h') {
                        usage(stdout);
                        return 0;
                }
                if (take(&options, which, optarg) != 0) {
                        usage(stderr);
                        return 2;
                }
        }
        rig_catch_interrupts();
        options.figures = json_object();
        if (options.figures == NULL)
                return 1;
        status = run_all(&options, argc - optind, argv + optind);
        if (options.json && status != 2 && load_json_print(options.figures, stdout) != 0)
                status = 1;
        json_decref(options.figures);
        return status;
}
