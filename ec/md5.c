/*
 * md5.c - MD5 of several streams at a time, each in a lane of wide registers.
 *
 * Called on any thread; a stream by one thread at a time. MD5 is one long chain of dependent steps,
 * so a processor is mostly idle while it computes one; sixteen side by side cost little more. No
 * library of Debian does that.
 */
#include "ec/ec_internal.h"

#include <endian.h>
#include <string.h>

#include "ec/md5_steps.h"

#define LANES_MAX ERA_MD5_LANES_MAX

/* ---- one lane -------------------------------------------------------------------------------- */

static uint32_t rotate(uint32_t value, unsigned by)
{
        return value << by | value >> (32 - by);
}

static void md5_compress(uint32_t state[4], const uint8_t *data, size_t blocks)
{
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3], x[16];
        unsigned i;

#define F(b, c, d)                   ((d) ^ ((b) & ((c) ^ (d))))
#define G(b, c, d)                   F(d, b, c)
#define H(b, c, d)                   ((b) ^ (c) ^ (d))
#define I(b, c, d)                   ((c) ^ ((b) | ~(d)))
#define STEP(f, a, b, c, d, w, s, k) a = b + rotate(a + f(b, c, d) + x[w] + k, s);
        for (; blocks > 0; blocks--, data += ERA_MD5_BLOCK) {
                uint32_t a0 = a, b0 = b, c0 = c, d0 = d;

                memcpy(x, data, sizeof(x));
                for (i = 0; i < 16; i++)
                        x[i] = le32toh(x[i]);
                ERA_MD5_STEPS(STEP)
                a += a0;
                b += b0;
                c += c0;
                d += d0;
        }
#undef STEP
        state[0] = a;
        state[1] = b;
        state[2] = c;
        state[3] = d;
}

/* ---- ways ------------------------------------------------------------------------------------ */

unsigned era_md5_way_lanes(enum era_md5_way way)
{
#if defined(__x86_64__)
        if (way == ERA_MD5_AVX512)
                return __builtin_cpu_supports("avx512f") ? 16 : 0;
        if (way == ERA_MD5_AVX2)
                return __builtin_cpu_supports("avx2") ? 8 : 0;
#endif
        return way == ERA_MD5_ONE ? 1 : 0;
}

/* owner: who starts the process, before there are other threads */
static unsigned lanes_at_most = LANES_MAX;

void era_md5_limit(unsigned lanes)
{
        lanes_at_most = lanes > 0 ? lanes : LANES_MAX;
}

static bool may_be(enum era_md5_way way)
{
        unsigned lanes = era_md5_way_lanes(way);

        return lanes != 0 && lanes <= lanes_at_most;
}

static enum era_md5_way best(void)
{
        if (may_be(ERA_MD5_AVX512))
                return ERA_MD5_AVX512;
        return may_be(ERA_MD5_AVX2) ? ERA_MD5_AVX2 : ERA_MD5_ONE;
}

unsigned era_md5_lanes(void)
{
        return era_md5_way_lanes(best());
}

static void compress_lanes(enum era_md5_way way, struct era_md5_lanes *lanes, size_t blocks)
{
#if defined(__x86_64__)
        if (way == ERA_MD5_AVX512)
                era_md5_avx512(lanes, blocks);
        else
                era_md5_avx2(lanes, blocks);
#else
        (void)way, (void)lanes, (void)blocks;
#endif
}

/* ---- streams --------------------------------------------------------------------------------- */

void era_md5_init(struct era_md5 *md5)
{
        *md5 = (struct era_md5){.state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}};
}

/* Fills the block that was begun, so that what is left of the job begins with a whole one. */
static void md5_take_head(struct era_md5_job *job)
{
        struct era_md5 *md5 = job->md5;
        size_t have = md5->len % ERA_MD5_BLOCK, n = ERA_MD5_BLOCK - have;

        md5->len += job->len;
        if (have == 0)
                return;
        if (n > job->len)
                n = job->len;
        memcpy(md5->rest + have, job->buf, n);
        job->buf = (const uint8_t *)job->buf + n;
        job->len -= n;
        if (have + n == ERA_MD5_BLOCK)
                md5_compress(md5->state, md5->rest, 1);
}

static void md5_take_tail(struct era_md5_job *job)
{
        if (job->len > 0)
                memcpy(job->md5->rest + job->md5->len % ERA_MD5_BLOCK - job->len, job->buf, job->len);
}

static void md5_load_state(struct era_md5_lanes *lanes, unsigned lane, const struct era_md5_job *job)
{
        unsigned i;

        for (i = 0; i < 4; i++)
                lanes->state[i][lane] = job->md5->state[i];
        lanes->data[lane] = job->buf;
}

static void md5_store_state(const struct era_md5_lanes *lanes, unsigned lane, struct era_md5_job *job)
{
        unsigned i;

        for (i = 0; i < 4; i++)
                job->md5->state[i] = lanes->state[i][lane];
}

static void take_blocks_alone(struct era_md5_job *job)
{
        size_t blocks = job->len / ERA_MD5_BLOCK;

        md5_compress(job->md5->state, job->buf, blocks);
        job->buf = (const uint8_t *)job->buf + blocks * ERA_MD5_BLOCK;
        job->len -= blocks * ERA_MD5_BLOCK;
}

/* Whole blocks of all jobs, as many lanes at a time as there are jobs left; the last one alone. */
static void take_blocks(enum era_md5_way way, struct era_md5_job *jobs, unsigned count)
{
        struct era_md5_job *in[LANES_MAX];
        struct era_md5_lanes lanes;
        unsigned width = era_md5_way_lanes(way), used = 0, i;
        size_t blocks;

        for (;;) {
                for (; used < width && count > 0; jobs++, count--) {
                        if (jobs->len < ERA_MD5_BLOCK)
                                continue;
                        md5_load_state(&lanes, used, jobs);
                        in[used++] = jobs;
                }
                if (used == 0)
                        return;
                if (used == 1) {
                        take_blocks_alone(in[0]);
                        used = 0;
                        continue;
                }
                blocks = in[0]->len / ERA_MD5_BLOCK;
                for (i = 1; i < used; i++)
                        if (in[i]->len / ERA_MD5_BLOCK < blocks)
                                blocks = in[i]->len / ERA_MD5_BLOCK;
                for (i = used; i < width; i++)
                        md5_load_state(&lanes, i, in[0]); /* to have something: nobody looks at what comes of it */
                compress_lanes(way, &lanes, blocks);
                for (i = used; i-- > 0;) {
                        in[i]->buf = lanes.data[i];
                        in[i]->len -= blocks * ERA_MD5_BLOCK;
                        md5_store_state(&lanes, i, in[i]);
                        if (in[i]->len >= ERA_MD5_BLOCK)
                                continue;
                        in[i] = in[--used];
                        if (i < used)
                                md5_load_state(&lanes, i, in[i]);
                }
        }
}

void era_md5_update_by(enum era_md5_way way, struct era_md5_job *jobs, unsigned count)
{
        unsigned i;

        for (i = 0; i < count; i++)
                md5_take_head(&jobs[i]);
        take_blocks(way, jobs, count);
        for (i = 0; i < count; i++)
                md5_take_tail(&jobs[i]);
}

void era_md5_update(struct era_md5_job *jobs, unsigned count)
{
        era_md5_update_by(best(), jobs, count);
}

void era_md5_final(struct era_md5 *md5, uint8_t out[ERA_MD5_SIZE])
{
        size_t have = md5->len % ERA_MD5_BLOCK;
        uint64_t bits = htole64(md5->len * 8);
        unsigned i;

        md5->rest[have++] = 0x80;
        if (have > ERA_MD5_BLOCK - sizeof(bits)) {
                memset(md5->rest + have, 0, ERA_MD5_BLOCK - have);
                md5_compress(md5->state, md5->rest, 1);
                have = 0;
        }
        memset(md5->rest + have, 0, ERA_MD5_BLOCK - sizeof(bits) - have);
        memcpy(md5->rest + ERA_MD5_BLOCK - sizeof(bits), &bits, sizeof(bits));
        md5_compress(md5->state, md5->rest, 1);
        for (i = 0; i < 4; i++)
                md5->state[i] = htole32(md5->state[i]);
        memcpy(out, md5->state, ERA_MD5_SIZE);
}
