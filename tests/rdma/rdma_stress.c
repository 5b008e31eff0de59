/*
 * rdma_stress.c - threads that share one client of the library and one registered buffer: reads and
 * writes by RDMA, many of them canceled in their midst. Each thread's slices are compared with what
 * is known of the object, and what lies around them must stay as it was.
 *
 *   rdma_stress ENDPOINT ACCESS_KEY SECRET_KEY DRIVER BUCKET KEY SIZE RIGHTS SEED ROUNDS
 *
 * The object's byte i is pattern(i). Prints what went over which transport; exits with 1 where
 * something was wrong.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace.h"

#define THREADS 4u
#define SLICE   (1u << 20)
#define EDGE    4096u

static struct mr_client *client;
static struct mr_buffer *buffer;
static const char *bucket, *key;
static uint64_t object_size;
static unsigned rounds, first_seed;
static atomic_uint by_rdma, by_tcp, canceled, wrong;

static unsigned char pattern(uint64_t i)
{
        return (unsigned char)((i * 2654435761u) >> 11);
}

static void fail(const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fputc('\n', stderr);
        atomic_fetch_add(&wrong, 1);
}

static void count(const struct mr_result *result)
{
        if (result->code == -ECANCELED)
                atomic_fetch_add(&canceled, 1);
        else if (result->code != 0)
                fail("%d: %s", result->code, result->error.message);
        else if (result->transport == MR_TRANSPORT_RDMA)
                atomic_fetch_add(&by_rdma, 1);
        else
                atomic_fetch_add(&by_tcp, 1);
}

/* What lies around a slice belongs to nobody's request. */
static void check_edges(const unsigned char *slice, uint64_t before, uint64_t len)
{
        for (uint64_t i = 0; i < before; i++)
                if (slice[i] != 0xee)
                        fail("a byte before the window was written");
        for (uint64_t i = before + len; i < SLICE; i++)
                if (slice[i] != 0xee)
                        fail("a byte behind the window was written");
}

static int run(struct mr_queue *queue, int rv, uint64_t op, unsigned cancel_after, struct mr_result *result)
{
        if (rv != 0) {
                fail("start: %d", rv);
                return rv;
        }
        if (cancel_after > 0 && mr_queue_take(queue, result, 1, (int)cancel_after - 1) == 1)
                return result->code;
        if (cancel_after > 0)
                mr_cancel(client, op);
        mr_queue_take(queue, result, 1, -1);
        return result->code;
}

static void read_one(struct mr_queue *queue, unsigned slot, unsigned *seed)
{
        uint64_t len = 1 + (uint64_t)rand_r(seed) % (SLICE - 2 * EDGE), before = (uint64_t)rand_r(seed) % EDGE;
        unsigned char *slice = (unsigned char *)mr_buffer_memory(buffer) + (size_t)slot * SLICE;
        struct mr_get get = {.bucket = bucket,
                             .key = key,
                             .offset = (uint64_t)rand_r(seed) % (object_size - len),
                             .len = len,
                             .place = {.buffer = buffer, .offset = (uint64_t)slot * SLICE + before, .len = len},
                             .transport = rand_r(seed) % 4 == 0 ? MR_TRANSPORT_AUTO : MR_TRANSPORT_RDMA};
        struct mr_result result;
        uint64_t op = 0;
        int rv;

        memset(slice, 0xee, SLICE);
        rv = mr_get_start(client, &get, queue, NULL, &op);
        rv = run(queue, rv, op, rand_r(seed) % 8 == 0 ? 1 + (unsigned)rand_r(seed) % 4 : 0, &result);
        count(&result);
        if (rv == 0 && (result.bytes != len || !result.wire_verified))
                fail("%llu bytes of %llu", (unsigned long long)result.bytes, (unsigned long long)len);
        for (uint64_t i = 0; rv == 0 && i < len; i++)
                if (slice[before + i] != pattern(get.offset + i)) {
                        fail("a byte is wrong");
                        break;
                }
        check_edges(slice, before, len);
        mr_result_free(&result);
}

/*
 * names: of this thread's; a write that was canceled may still come into force, so what is written
 * next has another name.
 */
static void write_one(struct mr_queue *queue, unsigned slot, unsigned *seed, unsigned *names)
{
        uint64_t len = 1 + (uint64_t)rand_r(seed) % SLICE;
        unsigned char *slice = (unsigned char *)mr_buffer_memory(buffer) + (size_t)slot * SLICE;
        char name[64];
        struct mr_put put = {.bucket = bucket,
                             .key = name,
                             .place = {.buffer = buffer, .offset = (uint64_t)slot * SLICE, .len = len},
                             .transport = MR_TRANSPORT_RDMA};
        unsigned char *back = malloc(len);
        struct mr_get get = {
                .bucket = bucket, .key = name, .place = {.memory = back, .len = len}, .transport = MR_TRANSPORT_TCP};
        struct mr_result result;
        uint64_t op = 0;
        int rv;

        snprintf(name, sizeof(name), "written-%u-%u", slot, *names);
        for (uint64_t i = 0; i < len; i++)
                slice[i] = (unsigned char)rand_r(seed);
        rv = mr_put_start(client, &put, queue, NULL, &op);
        rv = run(queue, rv, op, rand_r(seed) % 8 == 0 ? 1 + (unsigned)rand_r(seed) % 4 : 0, &result);
        count(&result);
        *names += rv == -ECANCELED;
        if (rv == 0 && (rv = mr_get(client, &get, &result)) != 0)
                fail("what was written cannot be read: %d: %s", rv, result.error.message);
        else if (rv == 0 && memcmp(back, slice, len) != 0)
                fail("what was written is not what is read");
        free(back);
}

static void *work(void *arg)
{
        unsigned slot = *(unsigned *)arg, seed = first_seed + slot * 7919, names = 0;
        struct mr_queue *queue;

        if (mr_queue_new(client, 4, &queue) != 0) {
                fail("no queue");
                return NULL;
        }
        for (unsigned i = 0; i < rounds; i++) {
                if (rand_r(&seed) % 4 == 0)
                        write_one(queue, slot, &seed, &names);
                else
                        read_one(queue, slot, &seed);
        }
        mr_queue_free(queue);
        return NULL;
}

int main(int argc, char **argv)
{
        struct mr_options options = {.credentials = MR_CREDENTIALS_EXPLICIT, .region = "us-east-1", .attempts = 20};
        pthread_t thread[THREADS];
        unsigned slot[THREADS];
        struct mr_error err;

        if (argc != 11)
                return 2;
        options.endpoint = argv[1];
        options.access_key = argv[2];
        options.secret_key = argv[3];
        options.test_rdma_driver = argv[4];
        bucket = argv[5];
        key = argv[6];
        object_size = strtoull(argv[7], NULL, 10);
        options.rdma_rights = (unsigned)atoi(argv[8]);
        rounds = (unsigned)atoi(argv[10]);
        first_seed = (unsigned)strtoul(argv[9], NULL, 10);
        printf("seed %u\n", first_seed);
        if (mr_client_open(&options, &client, &err) != 0 ||
            mr_buffer_new(client, (size_t)THREADS * SLICE, 0, &buffer) != 0)
                return 2;
        for (unsigned i = 0; i < THREADS; i++) {
                slot[i] = i;
                if (pthread_create(&thread[i], NULL, work, &slot[i]) != 0)
                        return 2;
        }
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(thread[i], NULL);
        if (mr_buffer_free(buffer) != 0)
                fail("the buffer is in use");
        mr_client_free(client);
        printf("rdma %u tcp %u canceled %u wrong %u\n", by_rdma, by_tcp, canceled, wrong);
        return wrong != 0;
}
