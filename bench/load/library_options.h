/* library_options.h - what a run of `library_load` is asked to do. Main thread. */
#ifndef BENCH_LIBRARY_OPTIONS_H
#define BENCH_LIBRARY_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace.h"

#define BATCH_THREADS_MAX 64u
#define BATCH_MEMORY_MAX  (4ull << 30)

struct batch_options {
        const char *endpoint, *access_key, *secret_key, *bucket, *prefix, *driver, *transport;
        unsigned long long size, part, keys, entries, threads, parallel, server_pid;
        double seconds;
        bool put, loose, as_they_come;
};

static const char batch_usage[] =
        "Usage: library_load get|put [OPTION]...\n"
        "\n"
        "How many objects a second libmillrace gets, in batches or one by one, or puts, and what that costs client and "
        "server. It gets what\n"
        "`load put` has put, each key once before it measures, and compares every byte of that; what it has put it "
        "gets back and compares.\n"
        "\n"
        "  --endpoint URL     http[s]://HOST:PORT (default $MILLRACE_ENDPOINT or http://127.0.0.1:9000)\n"
        "  --bucket NAME      (default load)\n"
        "  --prefix TEXT      of all keys (default \"o/\")\n"
        "  --size BYTES       of objects (default 10240)\n"
        "  --keys N           how many there are to get (default 1000)\n"
        "  --entries N        of a batch; 1: one GET after another (default 1)\n"
        "  --threads N        that each wait for their own batch, GET or PUT, 1 to 64 (default 1)\n"
        "  --parallel N       requests that the client has under way at most (default: the library's)\n"
        "  --part BYTES       of a large object that comes or goes in parts (default: the library's)\n"
        "  --seconds S        (default 1)\n"
        "  --transport NAME   tcp, rdma or auto (default tcp)\n"
        "  --driver FILE      a transport without hardware, in place of verbs\n"
        "  --unregistered     into memory that is not registered\n"
        "  --unverified       compare nothing beforehand or afterwards\n"
        "  --server-pid PID   report the CPU time of this process, too\n"
        "  --help\n"
        "\n"
        "Credentials: MILLRACE_ROOT_ACCESS_KEY and MILLRACE_ROOT_SECRET_KEY, or AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY. Prints JSON. Exit\n"
        "status 1 if anything failed, 2 for wrong usage.\n";

static inline const char *batch_environment(const char *first, const char *second, const char *otherwise)
{
        const char *value = getenv(first);

        if (value == NULL || value[0] == '\0')
                value = second != NULL ? getenv(second) : NULL;
        return value != NULL && value[0] != '\0' ? value : otherwise;
}

/* The option's number; false: it has none, or one out of its range. */
static inline bool batch_number(const char *text, unsigned long long least, unsigned long long most,
                                unsigned long long *out)
{
        char *end;

        *out = strtoull(text, &end, 10);
        return text[0] >= '0' && text[0] <= '9' && *end == '\0' && *out >= least && *out <= most;
}

static inline bool batch_seconds(const char *text, double *out)
{
        char *end;

        *out = strtod(text, &end);
        return end != text && *end == '\0' && *out > 0 && *out <= 3600;
}

enum batch_option {
        BATCH_ENDPOINT = 1,
        BATCH_BUCKET,
        BATCH_PREFIX,
        BATCH_SIZE,
        BATCH_KEYS,
        BATCH_ENTRIES,
        BATCH_THREADS,
        BATCH_PARALLEL,
        BATCH_PART,
        BATCH_SECONDS,
        BATCH_TRANSPORT,
        BATCH_DRIVER,
        BATCH_UNREGISTERED,
        BATCH_UNVERIFIED,
        BATCH_SERVER_PID,
        BATCH_HELP
};

/* False: the value is no good. */
static inline bool batch_take(struct batch_options *o, enum batch_option option, const char *value)
{
        switch (option) {
        case BATCH_ENDPOINT:
                o->endpoint = value;
                return true;
        case BATCH_BUCKET:
                o->bucket = value;
                return true;
        case BATCH_PREFIX:
                o->prefix = value;
                return strlen(value) <= 64;
        case BATCH_SIZE:
                return batch_number(value, 1, 1 << 30, &o->size);
        case BATCH_KEYS:
                return batch_number(value, 1, 1 << 24, &o->keys);
        case BATCH_ENTRIES:
                return batch_number(value, 1, MR_BATCH_MAX, &o->entries);
        case BATCH_THREADS:
                return batch_number(value, 1, BATCH_THREADS_MAX, &o->threads);
        case BATCH_PARALLEL:
                return batch_number(value, 1, 256, &o->parallel);
        case BATCH_PART:
                return batch_number(value, 1, 5ull << 30, &o->part);
        case BATCH_SECONDS:
                return batch_seconds(value, &o->seconds);
        case BATCH_TRANSPORT:
                o->transport = value;
                return strcmp(value, "tcp") == 0 || strcmp(value, "rdma") == 0 || strcmp(value, "auto") == 0;
        case BATCH_DRIVER:
                o->driver = value;
                return true;
        case BATCH_UNREGISTERED:
                o->loose = true;
                return true;
        case BATCH_UNVERIFIED:
                o->as_they_come = true;
                return true;
        default:
                return batch_number(value, 1, 1 << 30, &o->server_pid);
        }
}

static const struct option batch_long[] = {{"endpoint", required_argument, NULL, BATCH_ENDPOINT},
                                           {"bucket", required_argument, NULL, BATCH_BUCKET},
                                           {"prefix", required_argument, NULL, BATCH_PREFIX},
                                           {"size", required_argument, NULL, BATCH_SIZE},
                                           {"keys", required_argument, NULL, BATCH_KEYS},
                                           {"entries", required_argument, NULL, BATCH_ENTRIES},
                                           {"threads", required_argument, NULL, BATCH_THREADS},
                                           {"parallel", required_argument, NULL, BATCH_PARALLEL},
                                           {"part", required_argument, NULL, BATCH_PART},
                                           {"seconds", required_argument, NULL, BATCH_SECONDS},
                                           {"transport", required_argument, NULL, BATCH_TRANSPORT},
                                           {"driver", required_argument, NULL, BATCH_DRIVER},
                                           {"unregistered", no_argument, NULL, BATCH_UNREGISTERED},
                                           {"unverified", no_argument, NULL, BATCH_UNVERIFIED},
                                           {"server-pid", required_argument, NULL, BATCH_SERVER_PID},
                                           {"help", no_argument, NULL, BATCH_HELP},
                                           {NULL, 0, NULL, 0}};

/* -1, or the exit status. */
static inline int batch_options_parse(int argc, char **argv, struct batch_options *o)
{
        int option, index;

        *o = (struct batch_options){.bucket = "load",
                                    .prefix = "o/",
                                    .transport = "tcp",
                                    .size = 10240,
                                    .keys = 1000,
                                    .entries = 1,
                                    .threads = 1,
                                    .seconds = 1};
        o->endpoint = batch_environment("MILLRACE_ENDPOINT", NULL, "http://127.0.0.1:9000");
        o->access_key = batch_environment("MILLRACE_ROOT_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "");
        o->secret_key = batch_environment("MILLRACE_ROOT_SECRET_KEY", "AWS_SECRET_ACCESS_KEY", "");
        while ((option = getopt_long(argc, argv, "", batch_long, &index)) != -1) {
                if (option == BATCH_HELP) {
                        fputs(batch_usage, stdout);
                        return 0;
                }
                if (option == '?') {
                        fputs(batch_usage, stderr);
                        return 2;
                }
                if (!batch_take(o, (enum batch_option)option, optarg)) {
                        fprintf(stderr, "library_load: --%s: %s is no good here\n", batch_long[index].name, optarg);
                        return 2;
                }
        }
        if (optind != argc - 1 || (strcmp(argv[optind], "get") != 0 && strcmp(argv[optind], "put") != 0)) {
                fputs(batch_usage, stderr);
                return 2;
        }
        o->put = strcmp(argv[optind], "put") == 0;
        if (o->put && o->entries > 1) {
                fprintf(stderr, "library_load: --entries: there are no batches of PUTs\n");
                return 2;
        }
        if (o->size > BATCH_MEMORY_MAX / o->threads / o->entries) {
                fprintf(stderr, "library_load: --size, --threads, --entries: more than 4 GiB at once\n");
                return 2;
        }
        return -1;
}

#endif
