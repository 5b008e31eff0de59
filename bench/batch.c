/*
 * batch.c - the program `batch`: how many objects a second libmillrace gets in batches, from keys that the program `load` has put.
 *
 *     batch ENDPOINT ACCESS SECRET BUCKET KEYFORMAT KEYS SIZE ENTRIES THREADS SECONDS
 *
 * KEYFORMAT has one %u, for 0 to KEYS - 1. Each thread gets ENTRIES objects after another by one call of mr_get_batch().
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "client.h"

/* Constant while threads run, but for the counters. */
static struct {
        struct mr_client *client;
        const char *bucket;
        char (*key)[64];
        unsigned keys, entries;
        size_t size;
        double until;
        atomic_ullong objects, failed;
} job;

static double seconds(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void get_once(struct mr_get *gets, struct mr_got *got, unsigned *seed)
{
        struct mr_batch batch = {.gets = gets, .count = job.entries, .got = got};
        struct mr_result result;

        for (unsigned i = 0; i < job.entries; i++)
                gets[i].key = job.key[(unsigned)rand_r(seed) % job.keys];
        mr_get_batch(job.client, &batch, &result);
        atomic_fetch_add(&job.objects, job.entries);
        atomic_fetch_add(&job.failed, result.code == 0 ? 0 : result.failed + 1);
}

static void *work(void *arg)
{
        unsigned seed = (unsigned)(uintptr_t)arg;
        struct mr_get *gets = calloc(job.entries, sizeof(*gets));
        struct mr_got *got = calloc(job.entries, sizeof(*got));
        char *place = malloc(job.entries * job.size);

        if (gets == NULL || got == NULL || place == NULL)
                abort();
        for (unsigned i = 0; i < job.entries; i++) {
                gets[i].bucket = job.bucket;
                gets[i].place.memory = place + i * job.size;
                gets[i].place.len = job.size;
        }
        while (seconds() < job.until)
                get_once(gets, got, &seed);
        free(gets);
        free(got);
        free(place);
        return NULL;
}

static int open_client(char **argv)
{
        struct mr_settings settings;

        mr_settings_default(&settings);
        snprintf(settings.endpoint, sizeof(settings.endpoint), "%s", argv[1]);
        snprintf(settings.access_key, sizeof(settings.access_key), "%s", argv[2]);
        snprintf(settings.secret_key, sizeof(settings.secret_key), "%s", argv[3]);
        return mr_client_new(&settings, &job.client);
}

static double cpu_seconds(void)
{
        struct rusage usage;

        getrusage(RUSAGE_SELF, &usage);
        return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
        pthread_t thread[64];
        unsigned threads, i;
        double began, took;

        if (argc != 11 || open_client(argv) != 0) {
                fprintf(stderr,
                        "usage: batch ENDPOINT ACCESS SECRET BUCKET KEYFORMAT KEYS SIZE ENTRIES THREADS SECONDS\n");
                return 2;
        }
        job.bucket = argv[4];
        job.keys = (unsigned)atoi(argv[6]);
        job.size = (size_t)atol(argv[7]);
        job.entries = (unsigned)atoi(argv[8]);
        threads = (unsigned)atoi(argv[9]);
        job.key = calloc(job.keys, sizeof(job.key[0]));
        if (job.key == NULL || threads == 0 || threads > 64)
                return 2;
        for (i = 0; i < job.keys; i++) {
                const char *number = strstr(argv[5], "%u");

                if (number == NULL)
                        return 2;
                snprintf(job.key[i], sizeof(job.key[i]), "%.*s%u%s", (int)(number - argv[5]), argv[5], i, number + 2);
        }
        began = seconds();
        job.until = began + atof(argv[10]);
        for (i = 0; i < threads; i++)
                if (pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)(i + 1)) != 0)
                        return 1;
        for (i = 0; i < threads; i++)
                pthread_join(thread[i], NULL);
        took = seconds() - began;
        printf("{\"ops_s\": %.0f, \"mib_s\": %.1f, \"failed\": %llu, \"client_cpu_us\": %.2f}\n",
               (double)job.objects / took, (double)job.objects * (double)job.size / took / 1048576,
               (unsigned long long)job.failed, cpu_seconds() * 1e6 / (double)job.objects);
        mr_client_free(job.client);
        free(job.key);
        return job.failed == 0 ? 0 : 1;
}
