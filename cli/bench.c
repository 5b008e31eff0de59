/*
 * bench.c - `millrace bench`: runs phases of load/, or with --transport by way of libmillrace,
 * against an endpoint, one after the other, each on objects of its own, and deletes everything it
 * has stored. Main thread. An interrupt ends the phase that runs; what was stored until then is
 * deleted all the same, through a client that the interrupt does not concern.
 */
#include "bench.h"
#include "bench_library.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define SECONDS        5.0
#define PART_SIZE      (16u << 20)
#define GET_SHARE      70u
#define LOOK_MS        250u
#define CLEAN_ROUNDS   10u
#define CLEAN_PAUSE_MS 300u /* what was under way when it was interrupted may still come to be stored */
#define SETS_MAX       BENCH_PHASES_MAX

/* Objects that are stored once, for all who read them. */
struct set {
        uint64_t size, count;
};

/* The whole run. owner: the main thread */
struct bench {
        struct cli_call *call;
        char bucket[64];
        char below[160]; /* of all names, ends in a slash */
        bool own_bucket, stored, interrupted;
        bool hopeless; /* nothing at all succeeds any more: no other phase is tried */
        struct bench_phase phases[BENCH_PHASES_MAX];
        unsigned phase_count;
        struct bench_row *rows[BENCH_PHASES_MAX]; /* of phases that have run */
        unsigned row_count;
        struct set sets[SETS_MAX];
        unsigned set_count;
        struct bench_library *library; /* NULL: phases are runs of load/ */
        /* of the run that is under way */
        const char *doing;
        enum cli_progress_style style;
        double said_s; /* when the last plain line was printed */
        bool drawn;    /* there is a line on the terminal to be overwritten */
};

/* ---- progress -------------------------------------------------------------------------------- */

static void wipe(struct bench *bench)
{
        if (bench->drawn)
                fputs("\r\033[K", stderr);
        bench->drawn = false;
}

static void bench_on_line(void *arg, const char *line)
{
        char printable[1000];

        wipe(arg);
        cli_error("%s", cli_printable(stderr, line, printable, sizeof(printable)));
}

static void on_moment(void *arg, const struct load_result *so_far)
{
        struct bench *bench = arg;
        double seconds = so_far->seconds > 0 ? so_far->seconds : 1e-9;
        bool bar = bench->style == CLI_PROGRESS_BAR;

        if (bench->style == CLI_PROGRESS_NONE || (!bar && seconds - bench->said_s < 1))
                return;
        bench->said_s = seconds;
        fprintf(stderr, "%s%s: %.0f s, %llu operations, %.0f/s, %.1f MiB/s, %llu errors%s", bar ? "\r\033[K" : "",
                bench->doing, seconds, (unsigned long long)so_far->stats.count, (double)so_far->stats.count / seconds,
                load_mib_s(so_far), (unsigned long long)so_far->failed, bar ? "" : "\n");
        fflush(stderr);
        bench->drawn = bar;
}

static bool on_stop(void *arg)
{
        const struct bench *bench = arg;

        return mr_client_canceled(bench->call->client);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* A run on objects below bench->below + folder. */
static struct load_settings settings_of(const struct bench *bench, enum load_phase kind, const char *prefix)
{
        const struct mr_settings *s = &bench->call->settings;
        const struct cli_bench_options *options = &bench->call->bench;
        struct load_settings settings;

        load_settings_default(&settings);
        settings.phase = kind;
        settings.endpoint = s->endpoint;
        settings.bucket = bench->bucket;
        settings.prefix = prefix;
        settings.region = s->region;
        settings.access_key = s->access_key;
        settings.secret_key = s->secret_key;
        settings.session_token = s->session_token;
        settings.ca_file = s->ca_file;
        settings.part_size = s->part_size > 0 ? s->part_size : PART_SIZE;
        settings.get_share = GET_SHARE;
        settings.verify = options->verify;
        return settings;
}

/*
 * The way is the same for all: --transport's, or load/. batch, carried: as of bench_library_run().
 */
static int bench_run(struct bench *bench, const char *doing, struct load_settings *settings, unsigned batch,
                     struct load_result *result, struct bench_carried *carried)
{
        struct load_watch watch = {
                .line = bench_on_line, .moment = on_moment, .stop = on_stop, .every_ms = LOOK_MS, .arg = bench};
        const char *wrong = load_settings_complete(settings);
        int rv;

        if (wrong != NULL) {
                cli_error("%s: %s", doing, wrong);
                return CLI_USAGE;
        }
        bench->doing = doing;
        bench->said_s = 0;
        if (bench->library != NULL)
                rv = bench_library_run(bench->library, settings, batch, &watch, result, carried);
        else
                rv = load_run(settings, &watch, result);
        wipe(bench);
        bench->interrupted = bench->interrupted || (rv == 0 && result->stopped);
        return rv == 0 && !bench->interrupted ? CLI_OK : CLI_FAILED;
}

/* Stores objects from number `from` up to `count` that a phase needs. */
static int store(struct bench *bench, const struct bench_phase *phase, const char *prefix, uint64_t from,
                 uint64_t count)
{
        struct load_result *result = calloc(1, sizeof(*result));
        struct load_settings settings = settings_of(bench, LOAD_PUT, prefix);
        struct bench_carried carried;
        char doing[80];
        int status;

        if (result == NULL)
                return CLI_FAILED;
        snprintf(doing, sizeof(doing), "%s: storing %llu objects", phase->name, (unsigned long long)(count - from));
        settings.size = phase->size;
        settings.start = from;
        settings.count = count - from;
        settings.connections = phase->size <= 1u << 20 ? 32 : 4;
        status = bench_run(bench, doing, &settings, 0, result, &carried);
        bench->hopeless = result->failed > 0 && result->stats.count == 0;
        if (status == CLI_OK && result->failed > 0) {
                cli_error("%s: %llu of the objects that it needs could not be stored", phase->name,
                          (unsigned long long)result->failed);
                status = CLI_FAILED;
        }
        free(result);
        return status;
}

/* Sees to it that a set of this size has so many objects. */
static int store_set(struct bench *bench, const struct bench_phase *phase, const char *prefix, uint64_t count)
{
        struct set *set = NULL;
        uint64_t from;

        for (unsigned i = 0; i < bench->set_count; i++)
                if (bench->sets[i].size == phase->size)
                        set = &bench->sets[i];
        if (set == NULL) {
                set = &bench->sets[bench->set_count++];
                *set = (struct set){.size = phase->size};
        }
        from = set->count;
        if (from >= count)
                return CLI_OK;
        set->count = count;
        return store(bench, phase, prefix, from, count);
}

/* Reads back what a phase has stored, and counts what was wrong with it among its errors. */
static int verify_stored(struct bench *bench, struct bench_row *row)
{
        struct load_settings settings = settings_of(bench, LOAD_GET, row->settings.prefix);
        struct load_result *result = calloc(1, sizeof(*result));
        struct bench_carried carried;
        char doing[80];
        int status;

        if (result == NULL)
                return CLI_FAILED;
        snprintf(doing, sizeof(doing), "%s: comparing", row->phase.name);
        settings.size = row->settings.size;
        settings.keys = row->result.stats.count;
        settings.once = true;
        settings.connections = row->settings.connections;
        status = bench_run(bench, doing, &settings, 0, result, &carried);
        row->result.failed += result->failed;
        for (int i = 0; i < LOAD_FAILURE_COUNT; i++)
                row->result.failures[i] += result->failures[i];
        free(result);
        return status;
}

/* ---- what was stored is deleted -------------------------------------------------------------- */

static int empty(struct bench *bench, const char *below, bool drop_bucket)
{
        struct cli_call call = *bench->call;
        struct cli_path path;
        uint64_t found = 1;
        unsigned quiet_rounds = bench->interrupted ? 2 : 1, rounds = 0, quiet = 0;
        int status = CLI_OK;
        struct mr_error err;

        if (bench->style == CLI_PROGRESS_BAR) {
                fputs("\r\033[Kdeleting what was stored", stderr);
                bench->drawn = true;
        }
        call.quiet = true;
        call.settings.parallel = 8;
        if (mr_client_new(&call.settings, &call.client) != 0) {
                cli_error("out of memory: s3://%s/%s is left behind", bench->bucket, below);
                return CLI_FAILED;
        }
        memcpy(path.bucket, bench->bucket, sizeof(path.bucket));
        for (; status == CLI_OK && quiet < quiet_rounds && rounds < CLEAN_ROUNDS; rounds++) {
                struct timespec pause = {.tv_nsec = CLEAN_PAUSE_MS * 1000000L};

                if (bench->interrupted && rounds > 0)
                        nanosleep(&pause, NULL);
                snprintf(path.key, sizeof(path.key), "%s", below);
                status = cli_empty(&call, &path, &found);
                quiet = found == 0 || !bench->interrupted ? quiet + 1 : 0;
        }
        if (quiet < quiet_rounds)
                status = CLI_FAILED; /* there was something each time: there may be more */
        if (drop_bucket && status == CLI_OK && mr_bucket_delete(call.client, bench->bucket, &err) != 0)
                status = cli_failed(bench->bucket, &err);
        mr_client_free(call.client);
        wipe(bench);
        if (status != CLI_OK)
                cli_error("s3://%s/%s may be left behind", bench->bucket, below);
        return status;
}

/* A bucket whose making was interrupted, and which may be there. */
static void forget_bucket(struct bench *bench)
{
        struct mr_client *client;
        struct mr_error err;

        if (mr_client_new(&bench->call->settings, &client) != 0)
                return;
        (void)mr_bucket_delete(client, bench->bucket, &err);
        mr_client_free(client);
}

/* ---- phases ---------------------------------------------------------------------------------- */

static bool bench_phase_writes(enum load_phase kind)
{
        return kind == LOAD_PUT || kind == LOAD_MULTIPART || kind == LOAD_MIXED || kind == LOAD_DELETE;
}

/* Stores what the phase needs. */
static int bench_prepare(struct bench *bench, struct bench_row *row)
{
        uint64_t objects = bench_plan_objects(&row->phase, &bench->call->bench);

        if (row->phase.kind == LOAD_DELETE)
                row->settings.count = objects;
        else
                row->settings.keys = objects;
        if (objects == 0)
                return CLI_OK;
        if (bench_phase_writes(row->phase.kind))
                return store(bench, &row->phase, row->settings.prefix, 0, objects);
        return store_set(bench, &row->phase, row->settings.prefix, objects);
}

static int measure(struct bench *bench, struct bench_row *row)
{
        const struct cli_bench_options *options = &bench->call->bench;
        struct load_settings *settings = &row->settings;
        int status = bench_prepare(bench, row);

        if (status != CLI_OK)
                return status;
        settings->size = row->phase.size;
        settings->range_size = row->phase.range;
        settings->max_keys = row->phase.max_keys;
        settings->connections = row->phase.connections;
        settings->duration_s = options->seconds > 0 ? options->seconds : SECONDS;
        settings->rate = options->rate;
        status = bench_run(bench, row->phase.name, settings, row->phase.batch, &row->result, &row->carried);
        bench->hopeless = row->result.failed > 0 && row->result.stats.count == 0;
        if (status == CLI_OK && options->verify && row->result.failed == 0 && row->result.stats.count > 0 &&
            (row->phase.kind == LOAD_PUT || row->phase.kind == LOAD_MULTIPART))
                status = verify_stored(bench, row);
        return status;
}

/*
 * Runs a phase on a prefix of its own, or on that of a set. The row is kept as soon as it has
 * figures.
 */
static int bench_run_phase(struct bench *bench, const struct bench_phase *phase)
{
        struct bench_row *row = calloc(1, sizeof(*row));
        char prefix[sizeof(bench->below) + 40];
        int status;

        if (row == NULL) {
                cli_error("out of memory");
                return CLI_FAILED;
        }
        if (bench_phase_writes(phase->kind))
                snprintf(prefix, sizeof(prefix), "%s%u-%s/", bench->below, bench->row_count, phase->name);
        else
                snprintf(prefix, sizeof(prefix), "%sset-%llu/", bench->below, (unsigned long long)phase->size);
        row->phase = *phase;
        row->library = bench->library != NULL;
        row->asked = bench->call->settings.transport;
        row->settings = settings_of(bench, phase->kind, prefix);
        bench->stored = true;
        status = measure(bench, row);
        if (row->result.stats.count == 0 && row->result.failed == 0) {
                free(row);
                return status;
        }
        row->settings.prefix = NULL; /* it ends here */
        bench->rows[bench->row_count++] = row;
        if (!bench->call->json)
                bench_print_row(stdout, row);
        if (status == CLI_OK && bench_phase_writes(phase->kind))
                status = empty(bench, prefix, false);
        return row->result.failed > 0 && status == CLI_OK ? CLI_FAILED : status;
}

static int run_phases(struct bench *bench)
{
        int worst = CLI_OK;

        if (!bench->call->json)
                bench_print_heading(stdout, bench->library != NULL);
        for (unsigned i = 0; i < bench->phase_count && !mr_client_canceled(bench->call->client); i++) {
                int status = bench_run_phase(bench, &bench->phases[i]);

                if (status != CLI_OK)
                        worst = status;
                if (status == CLI_USAGE || bench->hopeless)
                        break;
        }
        bench->interrupted = bench->interrupted || mr_client_canceled(bench->call->client);
        return bench->interrupted ? CLI_FAILED : worst;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* What is wrong with a phase. */
static int say_wrong(const struct cli_call *call, const char *phase, int rv)
{
        switch (rv) {
        case -E2BIG:
                return cli_usage(call, "more than %u phases", BENCH_PHASES_MAX);
        case -EFBIG:
                return cli_usage(call,
                                 "%s: with --transport there are at most %u operations in flight, and %llu MiB of "
                                 "memory for them, or for one object",
                                 phase, BENCH_FLIGHT_MAX, BENCH_MEMORY_MAX >> 20);
        case -EOPNOTSUPP:
                return cli_usage(call,
                                 call->bench.library
                                         ? "%s moves no objects through the library: without --transport only"
                                         : "%s goes through the library: with --transport only",
                                 phase);
        default:
                return cli_usage(call, "no such phase: %s", phase);
        }
}

static int bench_plan(struct bench *bench)
{
        struct cli_call *call = bench->call;
        int rv = call->argc == 0 ? bench_plan_all(&call->bench, bench->phases, &bench->phase_count) : 0;

        if (rv != 0)
                return say_wrong(call, "a usual phase", rv);
        for (int i = 0; i < call->argc; i++) {
                rv = bench_plan_add(call->argv[i], &call->bench, bench->phases, &bench->phase_count);
                if (rv != 0)
                        return say_wrong(call, call->argv[i], rv);
        }
        if (call->settings.access_key[0] == '\0' || call->settings.secret_key[0] == '\0') {
                cli_error("no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or access_key and "
                          "secret_key in the "
                          "configuration file");
                return CLI_USAGE;
        }
        return CLI_OK;
}

static int no_entry(void *arg, const struct mr_entry *entry)
{
        return 0;
}

/* A bucket to work in, and a prefix there that nobody else has. */
static int bench_choose_prefix(struct bench *bench)
{
        const struct cli_bench_options *options = &bench->call->bench;
        struct cli_path path;
        struct mr_error err;
        uint32_t random[2];
        char name[80];
        int rv;

        if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
                cli_error("no random numbers: %s", strerror(errno));
                return CLI_FAILED;
        }
        snprintf(bench->below, sizeof(bench->below), "%smillrace-bench-%08x/",
                 options->prefix != NULL ? options->prefix : "", random[0]);
        bench->own_bucket = options->bucket == NULL;
        if (bench->own_bucket)
                snprintf(name, sizeof(name), "s3://millrace-bench-%08x%08x", random[0], random[1]);
        else
                snprintf(name, sizeof(name), "s3://%.70s", options->bucket);
        if (cli_path_parse(name, &path) != 0 || path.key[0] != '\0' || path.bucket[0] == '\0')
                return cli_usage(bench->call, "--bucket takes the name of a bucket: %s", options->bucket);
        memcpy(bench->bucket, path.bucket, sizeof(bench->bucket));
        if (bench->own_bucket) {
                rv = mr_bucket_create(bench->call->client, bench->bucket, &err);
        } else {
                struct mr_list list = {.bucket = bench->bucket, .prefix = bench->below, .page = 1};

                rv = mr_list(bench->call->client, &list, no_entry, NULL, &err);
        }
        if (rv != 0 && bench->own_bucket && mr_client_canceled(bench->call->client))
                forget_bucket(bench);
        return rv == 0 ? CLI_OK : cli_failed(name, &err);
}

static int bench_finish(struct bench *bench, int status)
{
        int cleaned = bench->stored || bench->own_bucket ? empty(bench, bench->below, bench->own_bucket) : CLI_OK;
        const char *no_rdma = bench->library != NULL ? bench_library_no_rdma(bench->library) : "";

        if (bench->call->json) {
                if (bench_print_json(stdout, bench->call, bench->bucket, bench->rows, bench->row_count,
                                     bench->interrupted, no_rdma) != 0)
                        status = CLI_FAILED;
        } else {
                bench_print_remarks(stdout, bench->rows, bench->row_count, no_rdma);
        }
        if (bench->interrupted)
                cli_error("interrupted%s", cleaned == CLI_OK ? "; nothing is left behind" : "");
        return status == CLI_OK ? cleaned : status;
}

int cli_bench(struct cli_call *call)
{
        struct bench *bench = calloc(1, sizeof(*bench));
        int status;

        if (bench == NULL) {
                cli_error("out of memory");
                return CLI_FAILED;
        }
        bench->call = call;
        bench->style = cli_progress_wanted(call);
        status = bench_plan(bench);
        if (status == CLI_OK && call->bench.library)
                status = bench_library_open(call, bench->phases, bench->phase_count, &bench->library);
        if (status == CLI_OK)
                status = bench_choose_prefix(bench);
        if (status == CLI_OK)
                status = bench_finish(bench, run_phases(bench));
        for (unsigned i = 0; i < bench->row_count; i++)
                free(bench->rows[i]);
        bench_library_free(bench->library);
        free(bench);
        return status;
}
