/*
 * kernels.c - how fast one core does the arithmetic of ec/ by itself: digests, CRCs, erasure codes,
 * each over 1 MiB of fresh data at a time for a moment. Prints MiB of input a second by name, a
 * line each, or as JSON. usage: kernels [--json] [SECONDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ec.h"

#define BLOCK   (1u << 20)
#define BUFFERS (ERA_MAX_SHARDS + 1u) /* more than a core's cache holds */

/* One thread owns all of it. */
struct kernel {
        const char *name;
        void (*run)(const struct kernel *kernel, unsigned turn);
        enum era_digest_kind digest;
        unsigned streams;    /* of MD5 side by side, 1 MiB in all */
        unsigned k, m, lost; /* of a code; lost: shards that are rebuilt, 0: it encodes */
        struct era_code *code;
};

static uint8_t *buffers[BUFFERS];
static volatile uint64_t sink; /* keeps results that nobody asks for */

static const uint8_t *block(unsigned turn)
{
        return buffers[turn % BUFFERS];
}

static void run_digest(const struct kernel *kernel, unsigned turn)
{
        uint8_t out[ERA_DIGEST_MAX];

        era_digest_of(kernel->digest, block(turn), BLOCK, out);
        sink += out[0];
}

static void run_md5_streams(const struct kernel *kernel, unsigned turn)
{
        struct era_md5 md5[BUFFERS];
        struct era_md5_job jobs[BUFFERS];
        uint8_t out[ERA_MD5_SIZE] = {0};
        size_t each = BLOCK / kernel->streams;

        for (unsigned i = 0; i < kernel->streams; i++) {
                era_md5_init(&md5[i]);
                jobs[i] = (struct era_md5_job){.md5 = &md5[i], .buf = block(turn) + i * each, .len = each};
        }
        era_md5_update(jobs, kernel->streams);
        for (unsigned i = 0; i < kernel->streams; i++)
                era_md5_final(&md5[i], out);
        sink += out[0];
}

static void run_crc32(const struct kernel *kernel, unsigned turn)
{
        sink += era_crc32(0, block(turn), BLOCK);
}

static void run_crc32c(const struct kernel *kernel, unsigned turn)
{
        sink += era_crc32c(0, block(turn), BLOCK);
}

static void run_crc64(const struct kernel *kernel, unsigned turn)
{
        sink += era_crc64nvme(0, block(turn), BLOCK);
}

/* 1 MiB of data in k buffers, encoded; or the first `lost` of them made again from the others. */
static void run_code(const struct kernel *kernel, unsigned turn)
{
        size_t len = BLOCK / kernel->k / 32 * 32;

        if (kernel->lost == 0) {
                era_encode(kernel->code, len, (const uint8_t *const *)buffers, buffers + kernel->k);
        } else {
                bool present[ERA_MAX_SHARDS];
                uint8_t want[ERA_MAX_M], *out[ERA_MAX_M];

                for (unsigned i = 0; i < kernel->k + kernel->m; i++)
                        present[i] = i >= kernel->lost;
                for (unsigned i = 0; i < kernel->lost; i++) {
                        want[i] = (uint8_t)i;
                        out[i] = buffers[i];
                }
                era_rebuild(kernel->code, len, (const uint8_t *const *)buffers, present, want, kernel->lost, out);
        }
}

static double now_s(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double mib_a_second(const struct kernel *kernel, double seconds)
{
        double begun = now_s(), took;
        unsigned turn = 0;

        do {
                kernel->run(kernel, turn++);
                took = now_s() - begun;
        } while (took < seconds);
        return (double)turn / took;
}

static struct kernel kernels[] = {
        {.name = "MD5", .run = run_digest, .digest = ERA_MD5},
        {.name = "MD5, 8 streams", .run = run_md5_streams, .streams = 8},
        {.name = "MD5, 16 streams", .run = run_md5_streams, .streams = 16},
        {.name = "SHA-1", .run = run_digest, .digest = ERA_SHA1},
        {.name = "SHA-256", .run = run_digest, .digest = ERA_SHA256},
        {.name = "CRC32", .run = run_crc32},
        {.name = "CRC32C", .run = run_crc32c},
        {.name = "CRC64NVME", .run = run_crc64},
        {.name = "encode 1+1", .run = run_code, .k = 1, .m = 1},
        {.name = "encode 2+2", .run = run_code, .k = 2, .m = 2},
        {.name = "encode 4+2", .run = run_code, .k = 4, .m = 2},
        {.name = "encode 8+3", .run = run_code, .k = 8, .m = 3},
        {.name = "rebuild 1 of 2+2", .run = run_code, .k = 2, .m = 2, .lost = 1},
        {.name = "rebuild 2 of 4+2", .run = run_code, .k = 4, .m = 2, .lost = 2},
};

static int measure(struct kernel *kernel, double seconds, double *mib_s)
{
        if (kernel->k > 0 && era_code_new(kernel->k, kernel->m, &kernel->code) != 0)
                return -1;
        *mib_s = mib_a_second(kernel, seconds);
        era_code_free(kernel->code);
        return 0;
}

int main(int argc, char **argv)
{
        bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
        double seconds = argc > 1 + json ? atof(argv[1 + json]) : 0.5, mib_s;
        size_t count = sizeof(kernels) / sizeof(kernels[0]);

        for (unsigned i = 0; i < BUFFERS; i++) {
                buffers[i] = malloc(BLOCK);
                if (buffers[i] == NULL)
                        return 1;
                memset(buffers[i], (int)i + 1, BLOCK);
        }
        for (size_t i = 0; i < count; i++) {
                if (measure(&kernels[i], seconds, &mib_s) != 0)
                        return 1;
                if (json)
                        printf("%s\"%s\":%.1f", i > 0 ? "," : "{", kernels[i].name, mib_s);
                else
                        printf("%-36s %16.0f MiB/s\n", kernels[i].name, mib_s);
        }
        printf("%s", json ? "}\n" : "");
        for (unsigned i = 0; i < BUFFERS; i++)
                free(buffers[i]);
        return 0;
}
