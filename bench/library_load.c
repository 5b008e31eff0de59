/*
 * library_load.c - the program `library_load`: libmillrace under load, over TCP or RDMA, in batches
 * or one by one, and what that costs both ends; bench/load/library_options.h says how it is called.
 * Threads of their own wait for what they asked for; each has its part of one memory, which is
 * registered unless told otherwise.
 *
 * CPU time is that of the measured time alone; of threads that are the fake transport's device it
 * is told apart (bench/load/threads.h).
 */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

#include "bench/load/library_options.h"
#include "bench/load/threads.h"
#include "client.h"
#include "load_content.h"

/* Constant while threads run, but for the counters. */
static struct {
        struct batch_options options;
        struct mr_client *client;
        struct mr_buffer *buffer; /* NULL: the memory is not registered */
        char *memory, *pattern;
        char (*key)[96];
        double until;
        atomic_ullong ops, bytes, failed, by_rdma;
        atomic_flag told;
} job;

/* A thread that asks. owner: itself */
struct worker {
        pthread_t thread;
        unsigned seed;
        size_t at; /* of its part of the memory */
        unsigned long long first;
        struct mr_get *gets;
        struct mr_got *got;
};

static double seconds(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void fail(const struct mr_error *error)
{
        atomic_fetch_add(&job.failed, 1);
        if (!atomic_flag_test_and_set(&job.told))
                fprintf(stderr, "library_load: the first that failed: %s\n", error->message);
}

static struct mr_place place_at(size_t at)
{
        struct mr_place place = {.len = job.options.size};

        place.buffer = job.buffer;
        if (job.buffer != NULL)
                place.offset = at;
        else
                place.memory = job.memory + at;
        return place;
}

/* ---- what is asked for ----------------------------------------------------------------------- */

static void count(int code, enum mr_transport transport, uint64_t bytes, const struct mr_error *error)
{
        static const struct mr_error wrong = {.message = "another length"};

        if (code != 0 || bytes != job.options.size)
                fail(code != 0 ? error : &wrong);
        atomic_fetch_add(&job.ops, 1);
        atomic_fetch_add(&job.bytes, code == 0 ? bytes : 0);
        atomic_fetch_add(&job.by_rdma, transport == MR_TRANSPORT_RDMA ? 1 : 0);
}

static void get_batch(struct worker *w, unsigned entries)
{
        struct mr_batch batch = {.gets = w->gets, .count = entries, .got = w->got};
        struct mr_result result;

        mr_get_batch(job.client, &batch, &result);
        if (result.code != 0 && result.failed == 0) {
                fail(&result.error);
                return;
        }
        for (unsigned i = 0; i < entries; i++)
                count(w->got[i].code, w->got[i].transport, w->got[i].bytes, &w->got[i].error);
}

static void get_one(struct worker *w)
{
        struct mr_result result;

        mr_get(job.client, w->gets, &result);
        count(result.code, result.transport, result.bytes, &result.error);
}

static void put_one(struct worker *w)
{
        struct mr_put put = {.bucket = job.options.bucket, .key = job.key[w->first], .place = place_at(w->at)};
        struct mr_result result;

        mr_put(job.client, &put, &result);
        count(result.code, result.transport, result.bytes, &result.error);
}

static void get_some(struct worker *w)
{
        for (unsigned i = 0; i < job.options.entries; i++)
                w->gets[i].key = job.key[(unsigned)rand_r(&w->seed) % job.options.keys];
        if (job.options.entries == 1)
                get_one(w);
        else
                get_batch(w, (unsigned)job.options.entries);
}

static void *work(void *arg)
{
        struct worker *w = arg;

        do {
                if (job.options.put)
                        put_one(w);
                else
                        get_some(w);
        } while (seconds() < job.until); /* once at least, also where others have kept the machine busy for so long */
        return NULL;
}

/* ---- what has to be there -------------------------------------------------------------------- */

/* The keys from first on, as many as a batch has, got and compared. Main thread. */
static void compare(struct worker *w, unsigned long long first, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                w->gets[i].key = job.key[first + i];
        if (job.options.entries == 1)
                get_one(w);
        else
                get_batch(w, n);
        for (unsigned i = 0; i < n; i++) {
                struct mr_error wrong = {.message = "other bytes than were put"};

                if (load_content_check(job.pattern, first + i, 0, job.memory + w->at + i * job.options.size,
                                       job.options.size) != 0)
                        fail(&wrong);
        }
}

static void compare_all(struct worker *w, unsigned long long keys)
{
        unsigned long long first, entries = job.options.entries;

        assert(w->gets != NULL);
        for (first = 0; first < keys; first += entries)
                compare(w, first, (unsigned)(keys - first < entries ? keys - first : entries));
}

static void fill(const struct worker *w)
{
        char *to = job.memory + w->at;
        uint64_t done = 0;

        while (done < job.options.size) {
                uint32_t at = load_content_at(w->first, done);
                size_t run = load_content_run(at, job.options.size - done);

                memcpy(to + done, job.pattern + at, run);
                done += run;
        }
}

static int open_client(void)
{
        const struct batch_options *o = &job.options;
        struct mr_options options;
        struct mr_error error;

        mr_options_init(&options);
        options.endpoint = o->endpoint;
        options.region = "us-east-1";
        options.access_key = o->access_key;
        options.secret_key = o->secret_key;
        options.sign_body = MR_SIGN_NEVER; /* as with RDMA; else the digest of the body, too, would be compared */
        options.parallel = (unsigned)o->parallel;
        options.part_size = o->part;
        options.test_rdma_driver = o->driver;
        options.transport = strcmp(o->transport, "tcp") == 0    ? MR_TRANSPORT_TCP
                            : strcmp(o->transport, "rdma") == 0 ? MR_TRANSPORT_RDMA
                                                                : MR_TRANSPORT_AUTO;
        if (mr_client_open(&options, &job.client, &error) == 0)
                return 0;
        fprintf(stderr, "library_load: %s\n", error.message);
        return -1;
}

static int prepare(void)
{
        const struct batch_options *o = &job.options;
        unsigned long long keys = o->keys > o->threads ? o->keys : o->threads;
        size_t len = o->threads * o->entries * o->size;

        job.pattern = load_pattern_new();
        job.key = calloc(keys, sizeof(job.key[0]));
        if (job.pattern == NULL || job.key == NULL || open_client() != 0)
                return -1;
        for (unsigned long long i = 0; i < keys; i++)
                snprintf(job.key[i], sizeof(job.key[i]), "%s%012llu", o->prefix, i);
        if (o->loose)
                job.memory = malloc(len);
        else if (mr_buffer_new(job.client, len, 0, &job.buffer) == 0)
                job.memory = mr_buffer_memory(job.buffer);
        return job.memory != NULL ? 0 : -1;
}

static int new_worker(struct worker *w, unsigned number)
{
        const struct batch_options *o = &job.options;

        w->seed = number + 1;
        w->first = number;
        w->at = (size_t)(number * o->entries * o->size);
        w->gets = calloc(o->entries, sizeof(*w->gets));
        w->got = calloc(o->entries, sizeof(*w->got));
        if (w->gets == NULL || w->got == NULL)
                return -1;
        for (unsigned i = 0; i < o->entries; i++) {
                w->gets[i].bucket = o->bucket;
                w->gets[i].place = place_at(w->at + i * o->size);
        }
        return 0;
}

static void release(struct worker *workers)
{
        for (unsigned i = 0; i < job.options.threads; i++) {
                free(workers[i].gets);
                free(workers[i].got);
        }
        if (job.buffer == NULL)
                free(job.memory);
        mr_buffer_free(job.buffer);
        mr_client_free(job.client);
        free(job.pattern);
        free(job.key);
}

/* ---- measuring ------------------------------------------------------------------------------- */

struct cost {
        double at, own_s;
        struct load_threads own, server;
        bool server_known;
};

static void take_cost(struct cost *cost)
{
        struct rusage usage;

        cost->at = seconds();
        getrusage(RUSAGE_SELF, &usage); /* with threads that have ended */
        cost->own_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                      (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
        (void)load_threads_read((int)getpid(), &cost->own);
        cost->server_known =
                job.options.server_pid > 0 && load_threads_read((int)job.options.server_pid, &cost->server) == 0;
}

static int run(struct worker *workers, struct cost *before, struct cost *after)
{
        unsigned i, begun = 0;

        take_cost(before);
        job.until = before->at + job.options.seconds;
        for (i = 0; i < job.options.threads; i++, begun++)
                if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
                        break;
        for (i = 0; i < begun; i++)
                pthread_join(workers[i].thread, NULL);
        take_cost(after);
        return begun == job.options.threads ? 0 : -1;
}

static void print(const struct cost *before, const struct cost *after, unsigned long long compared)
{
        double took = after->at - before->at, device_s = after->own.device_s - before->own.device_s;

        printf("{\"ops\": %llu, \"bytes\": %llu, \"seconds\": %.4f, \"ops_s\": %.1f, \"mib_s\": %.2f, \"errors\": "
               "%llu, "
               "\"by_rdma\": %llu, \"compared\": %llu, \"bounced\": %llu, \"client_cpu_s\": %.6f, \"client_device_s\": "
               "%.6f",
               job.ops, job.bytes, took, (double)job.ops / took, (double)job.bytes / took / 1048576, job.failed,
               job.by_rdma, compared, (unsigned long long)mr_client_bounced(job.client),
               after->own_s - before->own_s - device_s, device_s);
        if (before->server_known && after->server_known)
                printf(", \"server_cpu_s\": %.6f, \"server_device_s\": %.6f",
                       after->server.others_s - before->server.others_s,
                       after->server.device_s - before->server.device_s);
        printf("}\n");
}

/* What was compared before it counts no more. */
static unsigned long long compare_before(struct worker *w)
{
        unsigned long long keys = job.options.keys;

        if (job.options.put || job.options.as_they_come)
                return 0;
        compare_all(w, keys);
        job.ops = job.bytes = job.by_rdma = 0;
        return keys;
}

/* What was put: it is not what the memory holds anyway. */
static unsigned long long compare_after(struct worker *w)
{
        unsigned long long ops = job.ops, bytes = job.bytes, by_rdma = job.by_rdma;

        if (!job.options.put || job.options.as_they_come)
                return 0;
        memset(job.memory, 0, job.options.threads * job.options.size);
        compare_all(w, job.options.threads);
        job.ops = ops;
        job.bytes = bytes;
        job.by_rdma = by_rdma;
        return job.options.threads;
}

int main(int argc, char **argv)
{
        struct worker workers[BATCH_THREADS_MAX] = {0};
        struct cost before = {0}, after = {0};
        unsigned long long compared;
        int status = batch_options_parse(argc, argv, &job.options);

        if (status >= 0)
                return status;
        status = 1;
        if (prepare() != 0)
                goto out;
        for (unsigned i = 0; i < job.options.threads; i++) {
                if (new_worker(&workers[i], i) != 0)
                        goto out;
                if (job.options.put)
                        fill(&workers[i]);
        }
        compared = compare_before(&workers[0]);
        if (run(workers, &before, &after) != 0)
                goto out;
        compared += compare_after(&workers[0]);
        print(&before, &after, compared);
        status = job.failed == 0 && job.ops > 0 ? 0 : 1;
out:
        release(workers);
        return status;
}
