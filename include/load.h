/*
 * load.h - a load generator for S3 endpoints that costs far less than what it loads: one thread,
 * one epoll set, kept connections over http or https, presigned requests (signed ahead where they
 * can be foreseen), bodies that are windows of one pattern. Used by `millrace bench` and by the
 * program `load` of bench/.
 *
 * One run is one phase. Status and length of every answer are checked; contents where `verify` asks
 * for it. All calls of a run are made by one thread.
 */
#ifndef MILLRACE_LOAD_H
#define MILLRACE_LOAD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "load_stats.h"

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
/* "bucket", "put", "get", "range", "list", "head", "delete", "multipart", "mixed" */
const char *load_phase_name(enum load_phase phase);

#define LOAD_CONNECTIONS_MAX 20000u

#define LOAD_SERVERS_MAX 16u

struct load_address {
        char host[256], port[16];
        char header[280]; /* its Host header, which is signed, as HTTP libraries write it */
};

/*
 * What a run is asked to do. Text is the caller's, and must live as long as the run. Keys are
 * numbers: object 42 below prefix "o/" is "o/000000000042", and its bytes follow from 42.
 */
struct load_settings {
        enum load_phase phase;
        const char *endpoint; /* http[s]://HOST[:PORT], or several of one store with commas between them */
        const char *bucket, *prefix, *region, *access_key, *secret_key;
        const char *session_token;            /* NULL or "": none */
        const char *ca_file;                  /* PEM, of https; NULL or "": the system's */
        uint64_t size, range_size, part_size; /* of an object, a range, a part */
        uint64_t count;                       /* operations in all; 0: as many as go into duration_s */
        uint64_t keys, start;                 /* objects that are read: 0..keys-1; first that is written */
        uint64_t pace;                        /* bytes a second that requests carry at most; 0: as fast as it goes */
        double duration_s;                    /* what is under way then is awaited */
        double rate; /* > 0: open loop: so many begin a second, and a latency counts from when its operation was due */
        unsigned connections, max_keys, get_share;  /* get_share: GETs of a hundred operations of LOAD_MIXED */
        bool verify, once, random_names;            /* once: no key is read twice */
        bool sign_headers;                          /* taken for 15 minutes, as SDKs sign; else by presigned URLs */
        /* of endpoint, by load_settings_complete(): connections take turns at the servers */
        struct load_address server[LOAD_SERVERS_MAX];
        unsigned servers;
        bool tls;
};

void load_settings_default(struct load_settings *settings);
/* "4096", "4K", "16M", "1G". 0 or -1. */
int load_parse_size(const char *text, uint64_t *out);
/*
 * Fills what follows from the rest. NULL, or what would make no run, in the words of `load`'s
 * options.
 */
const char *load_settings_complete(struct load_settings *settings);

#define LOAD_FAILURES(X)                                                                                               \
        X(CONNECT, "connect")   /* no connection */                                                                    \
        X(CLOSED, "closed")     /* the server hung up */                                                               \
        X(TIMEOUT, "timeout")   /* no answer within a minute */                                                        \
        X(PROTOCOL, "protocol") /* not HTTP, or not what it said it would be */                                        \
        X(REFUSED, "refused")   /* 503: come back later */                                                             \
        X(STATUS, "status")     /* another status than the one of success */                                           \
        X(LENGTH, "length")     /* another length, or number of entries */                                             \
        X(CONTENT, "content")   /* other bytes */

enum load_failure {
#define LOAD_FAILURE_ID(id, name) LOAD_FAIL_##id,
        LOAD_FAILURES(LOAD_FAILURE_ID)
#undef LOAD_FAILURE_ID
                LOAD_FAILURE_COUNT
};
const char *load_failure_name(enum load_failure kind);

struct load_result {
        struct load_stats stats;    /* of operations that succeeded, nanoseconds */
        struct load_stats mixed[2]; /* a mixed phase's GETs, and its PUTs */
        uint64_t bytes, entries;    /* of objects; of lists */
        uint64_t failures[LOAD_FAILURE_COUNT], failed, reconnects;
        double seconds, cpu_s; /* cpu_s: this process's own */
        bool stopped;          /* watch->stop() said so */
};

/* Who looks on: each may be NULL. Called by the run's thread. */
struct load_watch {
        void (*line)(void *arg, const char *line);                   /* the first failures, in words */
        void (*moment)(void *arg, const struct load_result *so_far); /* now and then; so_far->seconds since the start */
        bool (*stop)(void *arg); /* true ends the run at once, what is under way included */
        unsigned every_ms;       /* of moment() and stop(); also after each signal */
        void *arg;
};

/* What an operation is about: the index-th of a run. */
struct load_choice {
        enum load_phase op; /* LOAD_GET or LOAD_PUT in a mixed phase */
        uint64_t key;
        uint64_t from; /* of LOAD_RANGE: where it begins */
};
/* Pure; settings are completed. */
void load_choose(const struct load_settings *settings, uint64_t index, struct load_choice *out);
/*
 * "o/000000000042", or 16 hexadecimal digits that no other key has. Cut where it is longer than
 * out.
 */
void load_key_name(const struct load_settings *settings, uint64_t key, char *out, size_t size);

#define LOAD_FAILURES_MAX  10000u /* then a run ends: something is broken */
#define LOAD_FAILURES_TOLD 5u     /* so many get a line each */

uint64_t load_now_ns(void);  /* monotonic */
double load_own_cpu_s(void); /* of this process, so far */

/*
 * Runs a phase, completed settings. 0: *out holds its figures, errors counted; or a negative errno:
 * it could not begin, and line() was told why.
 */
int load_run(const struct load_settings *settings, const struct load_watch *watch, struct load_result *out);

/* Microseconds that a share of all (0..1) does not exceed. */
double load_us(const struct load_stats *stats, double share);
double load_mib_s(const struct load_result *result);
/* All figures as a JSON object; NULL: no memory. The caller decrefs. */
json_t *load_result_json(const struct load_settings *settings, const struct load_result *result);
/* The same object as one line on a stream. 0 or -1. */
int load_json_print(const json_t *object, FILE *out);

#endif
