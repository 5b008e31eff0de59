/*
 * crc64.c - CRC-64/NVME, which ISA-L 2.30 does not have, by tables or by carry-less multiplication.
 *
 * Called on any thread. The first call chooses the fastest way this processor has.
 *
 * Folding: a CRC is the message, as a polynomial, times x^64 modulo P. So any part of the message
 * may be replaced by something congruent to it. 128 bits at distance D before other 128 bits are
 * worth l(x) x^(D+64) + h(x) x^D there, l being the quadword in front and h the one behind it; with
 * x^(D+64) and x^D reduced modulo P, that is two carry-less multiplications of 64 by 64 bits and an
 * exclusive or. A register walks over the message in steps of D that way, several side by side,
 * until 128 bits are left that are congruent to all of it; the tables do those, and the odd bytes
 * at the end. In reflected numbers a carry-less product comes out one x too low, so the constants
 * are x^(D+63) and x^(D-1).
 */
#include "ec/ec_internal.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define SLICES 16
#define BLOCK  16u /* bytes in one 128-bit register */
#define WIDE   64u /* bytes in one 512-bit register */
#define LANES  4u  /* registers side by side */

/*
 * Constants to fold over a distance: what multiplies the quadword in front, and the one behind it.
 */
struct fold {
        uint64_t front, behind;
};

/* Constant after crc64_make(). */
static struct {
        uint64_t table[SLICES][256]; /* [n][b]: byte b with n zero bytes behind it */
        struct era_field field;
        struct fold by_block, by_wide, by_lanes_of_wide; /* distances of 16, 64 and 256 bytes */
        enum era_crc64_way best;
} crc64;

static pthread_once_t crc64_once = PTHREAD_ONCE_INIT;

/* ---- what is made once ----------------------------------------------------------------------- */

static void make_table(void)
{
        unsigned byte, bit, slice;
        uint64_t reg;

        for (byte = 0; byte < 256; byte++) {
                reg = byte;
                for (bit = 0; bit < 8; bit++)
                        reg = (reg >> 1) ^ ((reg & 1) != 0 ? ERA_CRC64_POLY : 0);
                crc64.table[0][byte] = reg;
        }
        for (slice = 1; slice < SLICES; slice++)
                for (byte = 0; byte < 256; byte++) {
                        reg = crc64.table[slice - 1][byte];
                        crc64.table[slice][byte] = (reg >> 8) ^ crc64.table[0][reg & 0xff];
                }
}

static struct fold make_fold(size_t bytes)
{
        return (struct fold){
                .front = era_field_power(&crc64.field, 8 * bytes + 63),
                .behind = era_field_power(&crc64.field, 8 * bytes - 1),
        };
}

static void crc64_make(void)
{
        unsigned way;

        era_field_init(&crc64.field, ERA_CRC64_POLY, 64);
        make_table();
        crc64.by_block = make_fold(BLOCK);
        crc64.by_wide = make_fold(WIDE);
        crc64.by_lanes_of_wide = make_fold(LANES * WIDE);
        for (way = 0; way < ERA_CRC64_WAYS; way++)
                if (era_crc64_way_works(way))
                        crc64.best = way;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static uint64_t load64(const uint8_t *at)
{
        uint64_t value;

        memcpy(&value, at, sizeof(value));
        return value; /* little-endian machines only, as all of millrace */
}

static uint64_t eight(uint64_t word, unsigned first)
{
        const uint64_t(*t)[256] = crc64.table;

        return t[first + 7][word & 0xff] ^ t[first + 6][word >> 8 & 0xff] ^ t[first + 5][word >> 16 & 0xff] ^
               t[first + 4][word >> 24 & 0xff] ^ t[first + 3][word >> 32 & 0xff] ^ t[first + 2][word >> 40 & 0xff] ^
               t[first + 1][word >> 48 & 0xff] ^ t[first][word >> 56];
}

static uint64_t run_table(uint64_t reg, const uint8_t *at, size_t len)
{
        for (; len >= SLICES; at += SLICES, len -= SLICES)
                reg = eight(reg ^ load64(at), 8) ^ eight(load64(at + 8), 0);
        for (; len > 0; at++, len--)
                reg = (reg >> 8) ^ crc64.table[0][(reg ^ *at) & 0xff];
        return reg;
}

/* ---- carry-less multiplication, 128 bits at a time ------------------------------------------- */

#if defined(__x86_64__)
#define TARGET_128 __attribute__((target("pclmul,sse4.1")))
#define TARGET_512 __attribute__((target("pclmul,avx512f,avx512vl,vpclmulqdq")))

static inline TARGET_128 __m128i load_fold(struct fold fold)
{
        return _mm_set_epi64x((long long)fold.behind, (long long)fold.front);
}

static inline TARGET_128 __m128i load_block(const uint8_t *at)
{
        return _mm_loadu_si128((const __m128i *)(const void *)at);
}

static inline TARGET_128 __m128i fold_block(__m128i reg, __m128i by, __m128i next)
{
        __m128i front = _mm_clmulepi64_si128(reg, by, 0x00);
        __m128i behind = _mm_clmulepi64_si128(reg, by, 0x11);

        return _mm_xor_si128(_mm_xor_si128(front, behind), next);
}

/* Goes on from one 128-bit register that stands for all before `at`. */
static TARGET_128 uint64_t finish_block(__m128i reg, const uint8_t *at, size_t len)
{
        const __m128i by = load_fold(crc64.by_block);
        uint8_t rest[BLOCK];

        for (; len >= BLOCK; at += BLOCK, len -= BLOCK)
                reg = fold_block(reg, by, load_block(at));
        _mm_storeu_si128((__m128i *)(void *)rest, reg);
        return run_table(run_table(0, rest, BLOCK), at, len);
}

static TARGET_128 uint64_t run_pclmul(uint64_t reg, const uint8_t *at, size_t len)
{
        const __m128i by_block = load_fold(crc64.by_block), by_lanes = load_fold(crc64.by_wide);
        __m128i lane[LANES];
        unsigned i;

        if (len < LANES * BLOCK)
                return run_table(reg, at, len);
        for (i = 0; i < LANES; i++)
                lane[i] = load_block(at + i * BLOCK);
        lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi64_si128((long long)reg));
        for (at += WIDE, len -= WIDE; len >= WIDE; at += WIDE, len -= WIDE)
                for (i = 0; i < LANES; i++)
                        lane[i] = fold_block(lane[i], by_lanes, load_block(at + i * BLOCK));
        for (i = 1; i < LANES; i++)
                lane[0] = fold_block(lane[0], by_block, lane[i]);
        return finish_block(lane[0], at, len);
}

/* ---- 512 bits at a time ---------------------------------------------------------------------- */

static inline TARGET_512 __m512i load_wide(const uint8_t *at)
{
        return _mm512_loadu_si512(at);
}

static inline TARGET_512 __m512i fold_wide(__m512i reg, __m512i by, __m512i next)
{
        __m512i front = _mm512_clmulepi64_epi128(reg, by, 0x00);
        __m512i behind = _mm512_clmulepi64_epi128(reg, by, 0x11);

        return _mm512_ternarylogic_epi64(front, behind, next, 0x96); /* exclusive or of all three */
}

static TARGET_512 uint64_t finish_wide(__m512i reg, const uint8_t *at, size_t len)
{
        const __m512i by_wide = _mm512_broadcast_i32x4(load_fold(crc64.by_wide));
        const __m128i by_block = load_fold(crc64.by_block);
        __m128i block;

        for (; len >= WIDE; at += WIDE, len -= WIDE)
                reg = fold_wide(reg, by_wide, load_wide(at));
        block = _mm512_castsi512_si128(reg);
        block = fold_block(block, by_block, _mm512_extracti32x4_epi32(reg, 1));
        block = fold_block(block, by_block, _mm512_extracti32x4_epi32(reg, 2));
        block = fold_block(block, by_block, _mm512_extracti32x4_epi32(reg, 3));
        _mm256_zeroupper(); /* the compiler forgets it before a tail call; code after this would be slowed down */
        return finish_block(block, at, len);
}

static TARGET_512 uint64_t run_vpclmul(uint64_t reg, const uint8_t *at, size_t len)
{
        const __m512i by_wide = _mm512_broadcast_i32x4(load_fold(crc64.by_wide));
        const __m512i by_lanes = _mm512_broadcast_i32x4(load_fold(crc64.by_lanes_of_wide));
        __m512i lane[LANES];
        unsigned i;

        if (len < LANES * WIDE)
                return run_pclmul(reg, at, len);
        for (i = 0; i < LANES; i++)
                lane[i] = load_wide(at + i * WIDE);
        lane[0] = _mm512_xor_si512(lane[0], _mm512_zextsi128_si512(_mm_cvtsi64_si128((long long)reg)));
        for (at += LANES * WIDE, len -= LANES * WIDE; len >= LANES * WIDE; at += LANES * WIDE, len -= LANES * WIDE)
                for (i = 0; i < LANES; i++)
                        lane[i] = fold_wide(lane[i], by_lanes, load_wide(at + i * WIDE));
        for (i = 1; i < LANES; i++)
                lane[0] = fold_wide(lane[0], by_wide, lane[i]);
        return finish_wide(lane[0], at, len);
}

bool era_crc64_way_works(enum era_crc64_way way)
{
        bool pclmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");

        switch (way) {
        case ERA_CRC64_TABLE:
                return true;
        case ERA_CRC64_PCLMUL:
                return pclmul;
        case ERA_CRC64_VPCLMUL:
                return pclmul && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("vpclmulqdq");
        default:
                return false;
        }
}

#else

#define run_pclmul  run_table
#define run_vpclmul run_table

bool era_crc64_way_works(enum era_crc64_way way)
{
        return way == ERA_CRC64_TABLE;
}

#endif

/* ---- the public functions -------------------------------------------------------------------- */

uint64_t era_crc64_by(enum era_crc64_way way, uint64_t crc, const void *buf, size_t len)
{
        static uint64_t (*const ways[])(uint64_t reg, const uint8_t *at, size_t len) = {
                [ERA_CRC64_TABLE] = run_table,
                [ERA_CRC64_PCLMUL] = run_pclmul,
                [ERA_CRC64_VPCLMUL] = run_vpclmul,
        };

        pthread_once(&crc64_once, crc64_make);
        return ~ways[way](~crc, buf, len);
}

uint64_t era_crc64nvme(uint64_t crc, const void *buf, size_t len)
{
        pthread_once(&crc64_once, crc64_make);
        return era_crc64_by(crc64.best, crc, buf, len);
}

uint64_t era_crc64nvme_combine(uint64_t a, uint64_t b, uint64_t len_b)
{
        pthread_once(&crc64_once, crc64_make);
        return era_field_skip(&crc64.field, a, len_b) ^ b;
}
