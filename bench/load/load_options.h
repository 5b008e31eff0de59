/* load_options.h - what a run of the load generator is asked to do. Main thread. */
#ifndef BENCH_LOAD_OPTIONS_H
#define BENCH_LOAD_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"

/* A run, and what `load` adds to it. */
struct load_options {
        struct load_settings settings;
        bool json_only;
        unsigned server_pid; /* 0: none */
};

static const char load_usage[] =
        "Usage: load PHASE [OPTION]...\n"
        "\n"
        "Phases: bucket put get range list head delete multipart mixed\n"
        "\n"
        "  --endpoint URL    http[s]://HOST:PORT (default $MILLRACE_ENDPOINT or http://127.0.0.1:9000)\n"
        "  --bucket NAME     (default load)\n"
        "  --prefix TEXT     of all keys (default \"o/\")\n"
        "  --size SIZE       of objects, with K, M or G (default 4K)\n"
        "  --conns N         connections (default 16)\n"
        "  --count N         operations in all (default 1000, if there is no --duration)\n"
        "  --duration S      seconds; what is under way then is awaited\n"
        "  --rate R          open loop: R operations begin each second, and a latency counts from when its\n"
        "                    operation was due (default: closed loop)\n"
        "  --pace SIZE       begin a request with a body only when no more than SIZE bytes a second were sent:\n"
        "                    put, and each part of multipart (default: as fast as it goes)\n"
        "  --keys N          how many keys there are to get, head or list (default: count)\n"
        "  --once            get each key no more than once, in a fixed shuffled order\n"
        "  --random-names    names of 16 digits in no order, instead of counted ones\n"
        "  --sign-headers    sign by headers, which are taken for 15 minutes (default: presigned URLs)\n"
        "  --start N         first key's number for put, delete, multipart (default 0) and mixed (default: keys)\n"
        "  --get-share N     GETs of a hundred operations of mixed; the others are PUTs (default 70)\n"
        "  --range SIZE      of a range (default 4K)\n"
        "  --part SIZE       of a part (default 8M)\n"
        "  --max-keys N      of a list (default 1000)\n"
        "  --verify          compare every byte\n"
        "  --server-pid PID  report the server's CPU time and memory\n"
        "  --region NAME     (default us-east-1)\n"
        "  --ca-file FILE    PEM file of the authorities that https trusts\n"
        "  --json            only JSON, on standard output; else a line for people too, on standard error\n"
        "\n"
        "Credentials: MILLRACE_ROOT_ACCESS_KEY and MILLRACE_ROOT_SECRET_KEY, or AWS_ACCESS_KEY_ID and\n"
        "AWS_SECRET_ACCESS_KEY, with AWS_SESSION_TOKEN where there is one. Exit status 1 if anything failed, 2 for wrong usage.\n";

static inline const char *load_environment(const char *first, const char *second, const char *otherwise)
{
        const char *value = getenv(first);

        if (value == NULL || value[0] == '\0')
                value = second != NULL ? getenv(second) : NULL;
        return value != NULL && value[0] != '\0' ? value : otherwise;
}

static inline void load_options_default(struct load_options *options)
{
        *options = (struct load_options){.server_pid = 0};
        load_settings_default(&options->settings);
        options->settings.endpoint = load_environment("MILLRACE_ENDPOINT", NULL, options->settings.endpoint);
        options->settings.access_key = load_environment("MILLRACE_ROOT_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "");
        options->settings.secret_key = load_environment("MILLRACE_ROOT_SECRET_KEY", "AWS_SECRET_ACCESS_KEY", "");
        options->settings.session_token = load_environment("AWS_SESSION_TOKEN", NULL, "");
}

enum load_option_kind { LOAD_TEXT, LOAD_SIZE, LOAD_NUMBER, LOAD_REAL, LOAD_FLAG };

/* Every option but --help: the member it sets, and what that is. */
#define LOAD_OPTIONS(X)                                                                                                \
        X("endpoint", LOAD_TEXT, settings.endpoint)                                                                    \
        X("bucket", LOAD_TEXT, settings.bucket)                                                                        \
        X("prefix", LOAD_TEXT, settings.prefix)                                                                        \
        X("region", LOAD_TEXT, settings.region)                                                                        \
        X("ca-file", LOAD_TEXT, settings.ca_file)                                                                      \
        X("size", LOAD_SIZE, settings.size)                                                                            \
        X("range", LOAD_SIZE, settings.range_size)                                                                     \
        X("part", LOAD_SIZE, settings.part_size)                                                                       \
        X("count", LOAD_SIZE, settings.count)                                                                          \
        X("keys", LOAD_SIZE, settings.keys)                                                                            \
        X("start", LOAD_SIZE, settings.start)                                                                          \
        X("pace", LOAD_SIZE, settings.pace)                                                                            \
        X("conns", LOAD_NUMBER, settings.connections)                                                                  \
        X("max-keys", LOAD_NUMBER, settings.max_keys)                                                                  \
        X("get-share", LOAD_NUMBER, settings.get_share)                                                                \
        X("server-pid", LOAD_NUMBER, server_pid)                                                                       \
        X("duration", LOAD_REAL, settings.duration_s)                                                                  \
        X("rate", LOAD_REAL, settings.rate)                                                                            \
        X("once", LOAD_FLAG, settings.once)                                                                            \
        X("random-names", LOAD_FLAG, settings.random_names)                                                            \
        X("sign-headers", LOAD_FLAG, settings.sign_headers)                                                            \
        X("verify", LOAD_FLAG, settings.verify)                                                                        \
        X("json", LOAD_FLAG, json_only)

static const struct {
        const char *name;
        enum load_option_kind kind;
        size_t offset;
} load_option_rows[] = {
#define LOAD_OPTION_ROW(name, kind, member) {name, kind, offsetof(struct load_options, member)},
        LOAD_OPTIONS(LOAD_OPTION_ROW)
#undef LOAD_OPTION_ROW
};

#define LOAD_OPTION_COUNT (sizeof(load_option_rows) / sizeof(load_option_rows[0]))

/* Sets one option by its row. 0 or -1. */
static inline int load_take_option(struct load_options *options, int row, const char *value)
{
        void *member = (char *)options + load_option_rows[row].offset;
        uint64_t number;

        switch (load_option_rows[row].kind) {
        case LOAD_TEXT:
                *(const char **)member = value;
                return 0;
        case LOAD_SIZE:
                return load_parse_size(value, member);
        case LOAD_NUMBER:
                if (load_parse_size(value, &number) != 0 || number == 0 || number > INT32_MAX)
                        return -1;
                *(unsigned *)member = (unsigned)number;
                return 0;
        case LOAD_REAL:
                *(double *)member = atof(value);
                return *(double *)member > 0 ? 0 : -1;
        case LOAD_FLAG:
                *(bool *)member = true;
                return 0;
        }
        return -1;
}

/* getopt's table: an option's code is its row, --help's the one behind them. */
static inline void load_longs(struct option longs[LOAD_OPTION_COUNT + 2])
{
        size_t i;

        for (i = 0; i < LOAD_OPTION_COUNT; i++)
                longs[i] = (struct option){load_option_rows[i].name,
                                           load_option_rows[i].kind == LOAD_FLAG ? no_argument : required_argument,
                                           NULL, (int)i};
        longs[i] = (struct option){"help", no_argument, NULL, (int)i};
        longs[i + 1] = (struct option){NULL, 0, NULL, 0};
}

/* -1: go on; else the exit status. */
static inline int load_options_parse(int argc, char **argv, struct load_options *options)
{
        struct option longs[LOAD_OPTION_COUNT + 2];
        const char *wrong = NULL;
        int which;

        load_options_default(options);
        load_longs(longs);
        while ((which = getopt_long(argc, argv, "", longs, NULL)) != -1) {
                if (which == (int)LOAD_OPTION_COUNT) {
                        fputs(load_usage, stdout);
                        return 0;
                }
                if (which == '?')
                        return 2;
                if (load_take_option(options, which, optarg) != 0) {
                        fprintf(stderr, "load: bad value: %s\n", optarg);
                        return 2;
                }
        }
        for (int i = 0; i < LOAD_PHASES && optind + 1 == argc; i++)
                if (strcmp(argv[optind], load_phase_name((enum load_phase)i)) == 0)
                        options->settings.phase = (enum load_phase)i;
        if (options->settings.phase == LOAD_PHASES)
                wrong = "name one phase";
        else
                wrong = load_settings_complete(&options->settings);
        if (wrong == NULL)
                return -1;
        fprintf(stderr, "load: %s (see load --help)\n", wrong);
        return 2;
}

#endif
