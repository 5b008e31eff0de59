/*
 * ec_internal.h - what the files of ec/ share with one another and with their tests; nobody else
 * includes it.
 */
#ifndef MILLRACE_EC_INTERNAL_H
#define MILLRACE_EC_INTERNAL_H

#include "ec.h"

/* ---- field.c: polynomials over GF(2) modulo a CRC's polynomial ------------------------------- */

/*
 * The ring a CRC computes in. Numbers are reflected, as the CRCs here are: the top bit is the
 * coefficient of x^0. Constant after era_field_init().
 */
struct era_field {
        uint64_t poly;            /* reflected, without the leading coefficient */
        uint64_t one;             /* x^0: the top bit of the width */
        uint64_t byte_powers[64]; /* x^(8 * 2^i) */
};

void era_field_init(struct era_field *field, uint64_t poly, unsigned width);
uint64_t era_field_multiply(const struct era_field *field, uint64_t a, uint64_t b);
/* x^n */
uint64_t era_field_power(const struct era_field *field, uint64_t n);
/* What len zero bytes more do to a CRC register: a * x^(8 len). */
uint64_t era_field_skip(const struct era_field *field, uint64_t a, uint64_t len);

/* ---- crc64.c: the ways to compute CRC-64/NVME, fastest last ---------------------------------- */

#define ERA_CRC64_POLY 0x9A6C9329AC4BC9B5ull /* reflected */

enum era_crc64_way { ERA_CRC64_TABLE, ERA_CRC64_PCLMUL, ERA_CRC64_VPCLMUL, ERA_CRC64_WAYS };

/* This processor has what the way needs. */
bool era_crc64_way_works(enum era_crc64_way way);
uint64_t era_crc64_by(enum era_crc64_way way, uint64_t crc, const void *buf, size_t len);

/* ---- md5.c, md5_wide.c: the ways to compute MD5 of several streams --------------------------- */

#define ERA_MD5_LANES_MAX 16

enum era_md5_way { ERA_MD5_ONE, ERA_MD5_AVX2, ERA_MD5_AVX512, ERA_MD5_WAYS };

/* Word by word, lane by lane; data: where each lane's next block is. */
struct era_md5_lanes {
        uint32_t state[4][ERA_MD5_LANES_MAX];
        const uint8_t *data[ERA_MD5_LANES_MAX];
};

/* Streams at a time; 0: this processor does not have what the way needs. */
unsigned era_md5_way_lanes(enum era_md5_way way);
void era_md5_update_by(enum era_md5_way way, struct era_md5_job *jobs, unsigned count);
/* Each lane's next blocks. data is moved on. */
void era_md5_avx2(struct era_md5_lanes *lanes, size_t blocks);
void era_md5_avx512(struct era_md5_lanes *lanes, size_t blocks);

#endif
