/*
 * md5_wide.c - MD5's compression in all lanes of AVX2's registers (8) or AVX-512's (16). Pure; any
 * thread, on processors that have them.
 *
 * A register holds one word of each lane. Blocks are read lane by lane and transposed.
 */
#include "ec/ec_internal.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "ec/md5_steps.h"

/* ---- AVX2 ------------------------------------------------------------------------------------ */

/* 8 words of 8 lanes, which follow one another from `offset` on. */
__attribute__((target("avx2"))) static inline void transpose8(const struct era_md5_lanes *lanes, size_t offset, __m256i out[8])
{
        __m256i row[8], pair[8], quad[8];
        unsigned i;

        for (i = 0; i < 8; i++)
                row[i] = _mm256_loadu_si256((const __m256i *)(lanes->data[i] + offset));
        for (i = 0; i < 8; i += 2) {
                pair[i] = _mm256_unpacklo_epi32(row[i], row[i + 1]);
                pair[i + 1] = _mm256_unpackhi_epi32(row[i], row[i + 1]);
        }
        for (i = 0; i < 8; i += 4) {
                quad[i] = _mm256_unpacklo_epi64(pair[i], pair[i + 2]);
                quad[i + 1] = _mm256_unpackhi_epi64(pair[i], pair[i + 2]);
                quad[i + 2] = _mm256_unpacklo_epi64(pair[i + 1], pair[i + 3]);
                quad[i + 3] = _mm256_unpackhi_epi64(pair[i + 1], pair[i + 3]);
        }
        for (i = 0; i < 4; i++) {
                out[i] = _mm256_permute2x128_si256(quad[i], quad[i + 4], 0x20);
                out[i + 4] = _mm256_permute2x128_si256(quad[i], quad[i + 4], 0x31);
        }
}

#define ADD(a, b) _mm256_add_epi32(a, b)
#define F(b, c, d) _mm256_xor_si256(d, _mm256_and_si256(b, _mm256_xor_si256(c, d)))
#define G(b, c, d) F(d, b, c)
#define H(b, c, d) _mm256_xor_si256(_mm256_xor_si256(c, d), b)
#define I(b, c, d) _mm256_xor_si256(c, _mm256_or_si256(b, _mm256_xor_si256(d, ones)))
#define STEP(f, a, b, c, d, w, s, k)                                                                                   \
        a = ADD(ADD(a, ADD(x[w], _mm256_set1_epi32((int)k))), f(b, c, d));                                             \
        a = ADD(b, _mm256_or_si256(_mm256_slli_epi32(a, s), _mm256_srli_epi32(a, 32 - s)));

__attribute__((target("avx2"))) void era_md5_avx2(struct era_md5_lanes *lanes, size_t blocks)
{
        const __m256i ones = _mm256_set1_epi32(-1);
        __m256i x[16], state[4], a, b, c, d;
        unsigned i;

        for (i = 0; i < 4; i++)
                state[i] = _mm256_loadu_si256((const __m256i *)lanes->state[i]);
        for (; blocks > 0; blocks--) {
                transpose8(lanes, 0, x);
                transpose8(lanes, ERA_MD5_BLOCK / 2, x + 8);
                for (i = 0; i < 8; i++)
                        lanes->data[i] += ERA_MD5_BLOCK;
                a = state[0];
                b = state[1];
                c = state[2];
                d = state[3];
                ERA_MD5_STEPS(STEP)
                state[0] = ADD(state[0], a);
                state[1] = ADD(state[1], b);
                state[2] = ADD(state[2], c);
                state[3] = ADD(state[3], d);
        }
        for (i = 0; i < 4; i++)
                _mm256_storeu_si256((__m256i *)lanes->state[i], state[i]);
}

#undef ADD
#undef F
#undef G
#undef H
#undef I
#undef STEP

/* ---- AVX-512 --------------------------------------------------------------------------------- */

/* A block of 16 lanes. */
__attribute__((target("avx512f"))) static inline void transpose16(const struct era_md5_lanes *lanes, __m512i out[16])
{
        __m512i row[16], pair[16], quad[16], half[16];
        unsigned i;

        for (i = 0; i < 16; i++)
                row[i] = _mm512_loadu_si512(lanes->data[i]);
        for (i = 0; i < 16; i += 2) {
                pair[i] = _mm512_unpacklo_epi32(row[i], row[i + 1]);
                pair[i + 1] = _mm512_unpackhi_epi32(row[i], row[i + 1]);
        }
        for (i = 0; i < 16; i += 4) {
                quad[i] = _mm512_unpacklo_epi64(pair[i], pair[i + 2]);
                quad[i + 1] = _mm512_unpackhi_epi64(pair[i], pair[i + 2]);
                quad[i + 2] = _mm512_unpacklo_epi64(pair[i + 1], pair[i + 3]);
                quad[i + 3] = _mm512_unpackhi_epi64(pair[i + 1], pair[i + 3]);
        }
        /*
         * quad[4 r + j]: of the words j, j + 4, j + 8, j + 12 one each in a quarter, lanes 4 r to 4
         * r + 3
         */
        for (i = 0; i < 4; i++) {
                half[i] = _mm512_shuffle_i32x4(quad[i], quad[i + 4], 0x88);
                half[i + 4] = _mm512_shuffle_i32x4(quad[i], quad[i + 4], 0xdd);
                half[i + 8] = _mm512_shuffle_i32x4(quad[i + 8], quad[i + 12], 0x88);
                half[i + 12] = _mm512_shuffle_i32x4(quad[i + 8], quad[i + 12], 0xdd);
        }
        for (i = 0; i < 4; i++) {
                out[i] = _mm512_shuffle_i32x4(half[i], half[i + 8], 0x88);
                out[i + 4] = _mm512_shuffle_i32x4(half[i + 4], half[i + 12], 0x88);
                out[i + 8] = _mm512_shuffle_i32x4(half[i], half[i + 8], 0xdd);
                out[i + 12] = _mm512_shuffle_i32x4(half[i + 4], half[i + 12], 0xdd);
        }
}

/*
 * Any function of three bits is one instruction; the number is its table, b being the highest bit
 * of the place.
 */
#define ADD(a, b)  _mm512_add_epi32(a, b)
#define F(b, c, d) _mm512_ternarylogic_epi32(b, c, d, 0xca)
#define G(b, c, d) F(d, b, c)
#define H(b, c, d) _mm512_ternarylogic_epi32(b, c, d, 0x96)
#define I(b, c, d) _mm512_ternarylogic_epi32(b, c, d, 0x39)
#define STEP(f, a, b, c, d, w, s, k)                                                                                   \
        a = ADD(ADD(a, ADD(x[w], _mm512_set1_epi32((int)k))), f(b, c, d));                                             \
        a = ADD(b, _mm512_rol_epi32(a, s));

__attribute__((target("avx512f"))) void era_md5_avx512(struct era_md5_lanes *lanes, size_t blocks)
{
        __m512i x[16], state[4], a, b, c, d;
        unsigned i;

        for (i = 0; i < 4; i++)
                state[i] = _mm512_loadu_si512(lanes->state[i]);
        for (; blocks > 0; blocks--) {
                transpose16(lanes, x);
                for (i = 0; i < 16; i++)
                        lanes->data[i] += ERA_MD5_BLOCK;
                a = state[0];
                b = state[1];
                c = state[2];
                d = state[3];
                ERA_MD5_STEPS(STEP)
                state[0] = ADD(state[0], a);
                state[1] = ADD(state[1], b);
                state[2] = ADD(state[2], c);
                state[3] = ADD(state[3], d);
        }
        for (i = 0; i < 4; i++)
                _mm512_storeu_si512(lanes->state[i], state[i]);
}

#endif
