/*
 * ec.h - arithmetic on buffers: Reed-Solomon erasure code, CRCs and digests.
 *
 * Pure functions and small values: no I/O, no threads, no knowledge of S3. Any thread may call
 * them; one object is used by one thread at a time.
 */
#ifndef MILLRACE_EC_H
#define MILLRACE_EC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- erasure code ---------------------------------------------------------------------------- */

#define ERA_MAX_K 16
#define ERA_MAX_M 8
#define ERA_MAX_SHARDS (ERA_MAX_K + ERA_MAX_M)

struct era_code; /* tables of one k+m systematic Cauchy Reed-Solomon code over GF(2^8) (ISA-L); immutable after making */

/*
 * k in 1..ERA_MAX_K, m in 0..ERA_MAX_M, else -EINVAL; -ENOMEM. With m = 0 encode and update do
 * nothing.
 */
int era_code_new(unsigned k, unsigned m, struct era_code **out);
void era_code_free(struct era_code *code);

/*
 * Computes all m parity buffers from all k data buffers; len is bytes per buffer (a multiple of
 * 32).
 */
void era_encode(const struct era_code *code, size_t len, const uint8_t *const data[], uint8_t *const parity[]);

/*
 * Adds one data buffer (number index of k) into m parity accumulators; the first one (first) sets
 * them, whatever they held. After all k buffers were added in any order they equal era_encode()'s
 * result. A buffer that is left out counts as zeroes.
 */
void era_update(const struct era_code *code, size_t len, unsigned index, bool first, const uint8_t *data, uint8_t *const parity[]);

/*
 * Rebuilds shards. shards[i] for i in 0..k+m-1 points at len bytes where present[i], and is ignored
 * where not. want[j] (want_count of them) names the shards to rebuild into out[j]. -EINVAL: fewer
 * than k present, or a number out of range.
 */
int era_rebuild(const struct era_code *code, size_t len, const uint8_t *const shards[], const bool present[],
                const uint8_t want[], unsigned want_count, uint8_t *const out[]);

/* ---- CRCs ------------------------------------------------------------------------------------ */

/*
 * All start from 0 and may be continued: crc = era_crc32c(crc, next, n). Values are the usual
 * finished ones (RFC 3720; zlib; CRC-64/NVME as in the NVM Express specification), in host
 * integers.
 */
uint32_t era_crc32(uint32_t crc, const void *buf, size_t len);
uint32_t era_crc32c(uint32_t crc, const void *buf, size_t len);
uint64_t era_crc64nvme(uint64_t crc, const void *buf, size_t len);

/* CRC of A||B from the CRCs of A and of B and the length of B. */
uint32_t era_crc32_combine(uint32_t a, uint32_t b, uint64_t len_b);
uint32_t era_crc32c_combine(uint32_t a, uint32_t b, uint64_t len_b);
uint64_t era_crc64nvme_combine(uint64_t a, uint64_t b, uint64_t len_b);

/* ---- digests --------------------------------------------------------------------------------- */

enum era_digest_kind { ERA_MD5, ERA_SHA1, ERA_SHA256, ERA_SHA512 };
#define ERA_DIGEST_MAX 64

struct era_digest; /* one running digest */

int era_digest_new(enum era_digest_kind kind, struct era_digest **out); /* -ENOMEM */
void era_digest_free(struct era_digest *digest);                        /* NULL is allowed */
void era_digest_reset(struct era_digest *digest);
void era_digest_update(struct era_digest *digest, const void *buf, size_t len);
/* Writes 16, 20, 32 or 64 bytes and returns that number; the digest must then be reset or freed. */
size_t era_digest_final(struct era_digest *digest, uint8_t out[ERA_DIGEST_MAX]);
/* All in one go. */
size_t era_digest_of(enum era_digest_kind kind, const void *buf, size_t len, uint8_t out[ERA_DIGEST_MAX]);

/* ---- XXHash ---------------------------------------------------------------------------------- */

/* All with seed 0. Fast, yet no protection from anybody who means harm. */
enum era_xxhash_kind { ERA_XXH64, ERA_XXH3, ERA_XXH128 };
#define ERA_XXHASH_MAX 16

struct era_xxhash; /* one running hash */

int era_xxhash_new(enum era_xxhash_kind kind, struct era_xxhash **out); /* -ENOMEM */
void era_xxhash_free(struct era_xxhash *hash);                          /* NULL is allowed */
void era_xxhash_reset(struct era_xxhash *hash);
void era_xxhash_update(struct era_xxhash *hash, const void *buf, size_t len);
/*
 * Writes the canonical form (big-endian), 8, 8 or 16 bytes, and returns that number. The hash may
 * go on.
 */
size_t era_xxhash_final(const struct era_xxhash *hash, uint8_t out[ERA_XXHASH_MAX]);

/* ---- MD5 of many streams --------------------------------------------------------------------- */

/*
 * Several streams are hashed at once, side by side in the lanes of wide registers, for little more
 * than one costs.
 */
#define ERA_MD5_SIZE  16
#define ERA_MD5_BLOCK 64u

/* One running MD5 (RFC 1321). Private. */
struct era_md5 {
        uint32_t state[4];
        uint64_t len;
        uint8_t rest[ERA_MD5_BLOCK]; /* of a block that is not whole */
};

/* The next bytes of one stream. */
struct era_md5_job {
        struct era_md5 *md5;
        const void *buf; /* both are changed */
        size_t len;
};

void era_md5_init(struct era_md5 *md5);
/*
 * Any number of jobs, each of another stream. Best with several of about the same length; with one
 * it costs what a plain MD5 does.
 */
void era_md5_update(struct era_md5_job *jobs, unsigned count);
/* The stream must then be begun anew. */
void era_md5_final(struct era_md5 *md5, uint8_t out[ERA_MD5_SIZE]);
/* How many streams this processor hashes at once; 1: one after the other. */
unsigned era_md5_lanes(void);
/*
 * No more than so many from now on, to show what more are good for; 0: as many as there are. Before
 * other threads hash.
 */
void era_md5_limit(unsigned lanes);

#endif
