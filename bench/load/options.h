/* options.h - what a run of the load generator is asked to do. Main thread. */
#ifndef BENCH_LOAD_OPTIONS_H
#define BENCH_LOAD_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum load_phase {
        LOAD_BUCKET, /* makes the bucket */
        LOAD_PUT,
        LOAD_GET,
        LOAD_RANGE,
        LOAD_LIST,
        LOAD_HEADS,
        LOAD_DELETE,
        LOAD_MULTIPART,
        LOAD_MIXED, /* each operation is a GET or a PUT */
        LOAD_PHASES
};

static const char *const load_phase_names[LOAD_PHASES] = {"bucket", "put",    "get",       "range", "list",
                                                          "head",   "delete", "multipart", "mixed"};

struct load_options {
        enum load_phase phase;
        const char *endpoint, *bucket, *prefix, *region, *access_key, *secret_key;
        char host[256], port[16]; /* of endpoint */
        uint64_t size, range_size, part_size, count, keys, start;
        uint64_t pace;           /* bytes a second that requests carry at most; 0: as fast as it goes */
        double duration_s, rate; /* rate > 0: open loop */
        unsigned connections, max_keys, get_share;
        bool verify, json_only, once, random_names;
        unsigned server_pid; /* 0: none */
};

static const char load_usage[] =
        "Usage: load PHASE [OPTION]...\n"
        "\n"
        "Phases: bucket put get range list head delete multipart mixed\n"
        "\n"
        "  --endpoint URL    http://HOST:PORT (default $MILLRACE_ENDPOINT or http://127.0.0.1:9000)\n"
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
        "  --start N         first key's number for put, delete, multipart (default 0) and mixed (default: keys)\n"
        "  --get-share N     GETs of a hundred operations of mixed; the others are PUTs (default 70)\n"
        "  --range SIZE      of a range (default 4K)\n"
        "  --part SIZE       of a part (default 8M)\n"
        "  --max-keys N      of a list (default 1000)\n"
        "  --verify          compare every byte\n"
        "  --server-pid PID  report the server's CPU time and memory\n"
        "  --region NAME     (default us-east-1)\n"
        "  --json            only JSON, on standard output; else a line for people too, on standard error\n"
        "\n"
        "Credentials: MILLRACE_ROOT_ACCESS_KEY and MILLRACE_ROOT_SECRET_KEY, or AWS_ACCESS_KEY_ID and\n"
        "AWS_SECRET_ACCESS_KEY. Exit status 1 if anything failed, 2 for wrong usage.\n";

/* "4096", "4K", "16M", "1G". 0 or -1. */
static inline int load_parse_size(const char *text, uint64_t *out)
{
        char *end;
        unsigned shift = 0;

        *out = strtoull(text, &end, 10);
        if (end == text || text[0] == '-')
                return -1;
        if (*end == 'K' || *end == 'k')
                shift = 10;
        else if (*end == 'M' || *end == 'm')
                shift = 20;
        else if (*end == 'G' || *end == 'g')
                shift = 30;
        end += shift != 0;
        *out <<= shift;
        return *end == '\0' ? 0 : -1;
}

/* "http://host:port" into its pieces. 0 or -1. */
static inline int load_parse_endpoint(struct load_options *options)
{
        const char *host = options->endpoint, *colon;
        size_t len;

        if (strncmp(host, "http://", 7) != 0)
                return -1;
        host += 7;
        len = strcspn(host, "/");
        if (host[len] == '/' && host[len + 1] != '\0')
                return -1;
        colon = memchr(host, ':', len);
        snprintf(options->port, sizeof(options->port), "%.*s", colon != NULL ? (int)(host + len - colon - 1) : 2,
                 colon != NULL ? colon + 1 : "80");
        if (colon != NULL)
                len = (size_t)(colon - host);
        snprintf(options->host, sizeof(options->host), "%.*s", (int)len, host);
        return len > 0 && len < sizeof(options->host) && options->port[0] != '\0' ? 0 : -1;
}

static inline const char *load_environment(const char *first, const char *second, const char *otherwise)
{
        const char *value = getenv(first);

        if (value == NULL || value[0] == '\0')
                value = second != NULL ? getenv(second) : NULL;
        return value != NULL && value[0] != '\0' ? value : otherwise;
}

static inline void load_options_default(struct load_options *options)
{
        *options = (struct load_options){
                .phase = LOAD_PHASES,
                .endpoint = load_environment("MILLRACE_ENDPOINT", NULL, "http://127.0.0.1:9000"),
                .bucket = "load",
                .prefix = "o/",
                .region = "us-east-1",
                .access_key = load_environment("MILLRACE_ROOT_ACCESS_KEY", "AWS_ACCESS_KEY_ID", ""),
                .secret_key = load_environment("MILLRACE_ROOT_SECRET_KEY", "AWS_SECRET_ACCESS_KEY", ""),
                .size = 4096,
                .range_size = 4096,
                .part_size = 8 << 20,
                .connections = 16,
                .max_keys = 1000,
                .get_share = 70,
        };
}

enum load_option_kind { LOAD_TEXT, LOAD_SIZE, LOAD_NUMBER, LOAD_REAL, LOAD_FLAG };

/* Every option but --help: the member it sets, and what that is. */
#define LOAD_OPTIONS(X)                                                                                                \
        X("endpoint", LOAD_TEXT, endpoint)                                                                             \
        X("bucket", LOAD_TEXT, bucket)                                                                                 \
        X("prefix", LOAD_TEXT, prefix)                                                                                 \
        X("region", LOAD_TEXT, region)                                                                                 \
        X("size", LOAD_SIZE, size)                                                                                     \
        X("range", LOAD_SIZE, range_size)                                                                              \
        X("part", LOAD_SIZE, part_size)                                                                                \
        X("count", LOAD_SIZE, count)                                                                                   \
        X("keys", LOAD_SIZE, keys)                                                                                     \
        X("start", LOAD_SIZE, start)                                                                                   \
        X("pace", LOAD_SIZE, pace)                                                                                     \
        X("conns", LOAD_NUMBER, connections)                                                                           \
        X("max-keys", LOAD_NUMBER, max_keys)                                                                           \
        X("get-share", LOAD_NUMBER, get_share)                                                                         \
        X("server-pid", LOAD_NUMBER, server_pid)                                                                       \
        X("duration", LOAD_REAL, duration_s)                                                                           \
        X("rate", LOAD_REAL, rate)                                                                                     \
        X("once", LOAD_FLAG, once)                                                                                     \
        X("random-names", LOAD_FLAG, random_names)                                                                     \
        X("verify", LOAD_FLAG, verify)                                                                                 \
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

/* Numbers that would make no run. NULL: all is well. */
static inline const char *load_options_wrong(struct load_options *o)
{
        if (o->once && o->count == 0)
                o->count = o->keys;
        if (o->count == 0 && o->duration_s <= 0)
                o->count = o->phase == LOAD_BUCKET ? 1 : 1000;
        if (o->phase == LOAD_BUCKET)
                o->connections = 1;
        if (o->keys == 0)
                o->keys = o->count;
        if (o->phase == LOAD_MIXED && o->start == 0)
                o->start = o->keys;
        if (o->connections > 20000)
                return "--conns takes 1 to 20,000";
        if (o->keys == 0 && o->phase != LOAD_PUT && o->phase != LOAD_MULTIPART)
                return "with --duration say how many --keys there are";
        if (o->phase == LOAD_DELETE && o->count == 0)
                return "delete takes a --count";
        if (o->once && o->count > o->keys)
                return "--once takes no more --count than --keys";
        if (o->get_share > 100)
                return "--get-share takes 1 to 100";
        if (o->random_names && o->phase == LOAD_LIST)
                return "list needs counted names";
        if (o->phase == LOAD_RANGE && (o->range_size == 0 || o->range_size > o->size))
                return "--range is larger than --size";
        if (o->phase == LOAD_MULTIPART && (o->part_size == 0 || o->size == 0 || o->size / o->part_size > 9999))
                return "--part does not fit --size";
        if (load_parse_endpoint(o) != 0)
                return "--endpoint takes http://HOST:PORT";
        if (o->access_key[0] == '\0' || o->secret_key[0] == '\0')
                return "no credentials in the environment";
        return NULL;
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
                if (strcmp(argv[optind], load_phase_names[i]) == 0)
                        options->phase = (enum load_phase)i;
        if (options->phase == LOAD_PHASES)
                wrong = "name one phase";
        else
                wrong = load_options_wrong(options);
        if (wrong == NULL)
                return -1;
        fprintf(stderr, "load: %s (see load --help)\n", wrong);
        return 2;
}

#endif
