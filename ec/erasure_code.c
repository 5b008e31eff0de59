/*
 * erasure_code.c - the erasure code: k data shards, m parity shards, any k of which give all the
 * others.
 *
 * Called by the gateway when it writes, reads with shards missing, or repairs, on any thread. A
 * code is the k+m by k matrix of a systematic Cauchy code (the first k rows are the identity) and
 * ISA-L's tables of its parity rows; it is immutable, so that all loops share one. Every k by k
 * part of a Cauchy matrix can be inverted, which is why any k shards are enough.
 */
#include "ec/ec_internal.h"

#include <assert.h>
#include <errno.h>
#include <isa-l/erasure_code.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_SIZE 32 /* bytes of ISA-L's table for one coefficient */

struct era_code {
        unsigned k, m;
        uint8_t matrix[ERA_MAX_SHARDS * ERA_MAX_K];
        uint8_t tables[TABLE_SIZE * ERA_MAX_K * ERA_MAX_M];
};

int era_code_new(unsigned k, unsigned m, struct era_code **out)
{
        struct era_code *code;

        if (k < 1 || k > ERA_MAX_K || m > ERA_MAX_M)
                return -EINVAL;
        code = calloc(1, sizeof(*code));
        if (code == NULL)
                return -ENOMEM;
        code->k = k;
        code->m = m;
        gf_gen_cauchy1_matrix(code->matrix, (int)(k + m), (int)k);
        if (m > 0)
                ec_init_tables((int)k, (int)m, code->matrix + k * k, code->tables);
        *out = code;
        return 0;
}

void era_code_free(struct era_code *code)
{
        free(code);
}

/* ISA-L takes tables and sources without const, but only reads them; its lengths are ints. */

void era_encode(const struct era_code *code, size_t len, const uint8_t *const data[], uint8_t *const parity[])
{
        assert(len % 32 == 0 && len <= INT32_MAX);
        if (code->m == 0 || len == 0)
                return;
        ec_encode_data((int)len, (int)code->k, (int)code->m, (uint8_t *)code->tables, (uint8_t **)data,
                       (uint8_t **)parity);
}

/* As of a code of one data shard: to set parity is not to read it. */
static void set_parity(const struct era_code *code, size_t len, unsigned index, const uint8_t *data, uint8_t *const parity[])
{
        uint8_t tables[TABLE_SIZE * ERA_MAX_M];
        unsigned i;

        for (i = 0; i < code->m; i++)
                memcpy(tables + TABLE_SIZE * i, code->tables + TABLE_SIZE * (i * code->k + index), TABLE_SIZE);
        ec_encode_data((int)len, 1, (int)code->m, tables, (uint8_t *[]){(uint8_t *)data}, (uint8_t **)parity);
}

void era_update(const struct era_code *code, size_t len, unsigned index, bool first, const uint8_t *data, uint8_t *const parity[])
{
        assert(len % 32 == 0 && len <= INT32_MAX && index < code->k);
        if (code->m == 0 || len == 0)
                return;
        if (first) {
                set_parity(code, len, index, data, parity);
                return;
        }
        ec_encode_data_update((int)len, (int)code->k, (int)code->m, (int)index, (uint8_t *)code->tables,
                              (uint8_t *)data, (uint8_t **)parity);
}

/* ---- rebuilding ------------------------------------------------------------------------------ */

/* Names the first k shards that are there. -EINVAL: fewer. */
static int code_choose(const struct era_code *code, const bool present[], unsigned chosen[])
{
        unsigned i, count = 0;

        for (i = 0; i < code->k + code->m && count < code->k; i++)
                if (present[i])
                        chosen[count++] = i;
        return count == code->k ? 0 : -EINVAL;
}

/* inverse: turns the chosen shards into the data shards. */
static void invert(const struct era_code *code, const unsigned chosen[], uint8_t inverse[])
{
        uint8_t rows[ERA_MAX_K * ERA_MAX_K];
        unsigned i;
        int singular;

        for (i = 0; i < code->k; i++)
                memcpy(rows + i * code->k, code->matrix + chosen[i] * code->k, code->k);
        singular = gf_invert_matrix(rows, inverse, (int)code->k);
        assert(singular == 0); /* never, of a Cauchy matrix */
}

/*
 * row: turns the chosen shards into shard number `shard`, its row of the matrix times the inverse.
 */
static void make_row(const struct era_code *code, const uint8_t inverse[], unsigned shard, uint8_t row[])
{
        const uint8_t *of_data = code->matrix + shard * code->k;
        unsigned i, j;

        memset(row, 0, code->k);
        for (i = 0; i < code->k; i++)
                for (j = 0; j < code->k && of_data[i] != 0; j++)
                        row[j] ^= gf_mul(of_data[i], inverse[i * code->k + j]);
}

int era_rebuild(const struct era_code *code, size_t len, const uint8_t *const shards[], const bool present[],
                const uint8_t want[], unsigned want_count, uint8_t *const out[])
{
        uint8_t rows[ERA_MAX_SHARDS * ERA_MAX_K], tables[TABLE_SIZE * ERA_MAX_SHARDS * ERA_MAX_K];
        uint8_t inverse[ERA_MAX_K * ERA_MAX_K];
        const uint8_t *sources[ERA_MAX_K];
        unsigned chosen[ERA_MAX_K], i;
        int rv;

        if (want_count > code->k + code->m || len > INT32_MAX)
                return -EINVAL;
        for (i = 0; i < want_count; i++)
                if (want[i] >= code->k + code->m)
                        return -EINVAL;
        rv = code_choose(code, present, chosen);
        if (rv != 0 || want_count == 0 || len == 0)
                return rv;
        invert(code, chosen, inverse);
        for (i = 0; i < code->k; i++)
                sources[i] = shards[chosen[i]];
        for (i = 0; i < want_count; i++)
                make_row(code, inverse, want[i], rows + i * code->k);
        ec_init_tables((int)code->k, (int)want_count, rows, tables);
        ec_encode_data((int)len, (int)code->k, (int)want_count, tables, (uint8_t **)sources, (uint8_t **)out);
        return 0;
}
