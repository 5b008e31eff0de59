/*
 * test_xxhash.c - XXH64, XXH3 and XXH128: known values, the same in one go and in pieces of any
 * size, reset and used again.
 */
#include "tests/unit/ec/ec_fixture.h"

static const struct {
        enum era_xxhash_kind kind;
        size_t size;
        const char *empty, *digits; /* hex of "" and of "123456789" */
} known[] = {
        {ERA_XXH64, 8, "ef46db3751d8e999", "8cb841db40e6ae83"},
        {ERA_XXH3, 8, "2d06800538d394c2", "72dcb18b67a17dff"},
        {ERA_XXH128, 16, "99aa06d3014798d86001c324468d497f", "33119477ede5dcd5e9716427681d5860"},
};
#define KNOWN (sizeof(known) / sizeof(known[0]))

static void check_hash(const struct era_xxhash *hash, size_t size, const char *want)
{
        uint8_t out[ERA_XXHASH_MAX];
        char text[2 * ERA_XXHASH_MAX + 1];

        assert_int_equal(era_xxhash_final(hash, out), size);
        for (size_t i = 0; i < size; i++)
                snprintf(text + 2 * i, 3, "%02x", out[i]);
        assert_string_equal(text, want);
}

static void known_values(void **state)
{
        for (size_t i = 0; i < KNOWN; i++) {
                struct era_xxhash *hash;

                assert_int_equal(era_xxhash_new(known[i].kind, &hash), 0);
                check_hash(hash, known[i].size, known[i].empty);
                era_xxhash_update(hash, NULL, 0);
                check_hash(hash, known[i].size, known[i].empty);
                era_xxhash_update(hash, "1234", 4);
                era_xxhash_update(hash, "56789", 5);
                check_hash(hash, known[i].size, known[i].digits);
                era_xxhash_reset(hash);
                check_hash(hash, known[i].size, known[i].empty);
                era_xxhash_free(hash);
        }
        era_xxhash_free(NULL);
}

/* The library buffers what is short of a block; pieces of every size cross its limits. */
static void pieces_are_one_stream(void **state)
{
        static uint8_t data[5000];

        for (size_t i = 0; i < sizeof(data); i++)
                data[i] = (uint8_t)(i * 2654435761u >> 13);
        for (size_t i = 0; i < KNOWN; i++) {
                uint8_t whole[ERA_XXHASH_MAX], pieces[ERA_XXHASH_MAX];
                struct era_xxhash *hash;

                assert_int_equal(era_xxhash_new(known[i].kind, &hash), 0);
                era_xxhash_update(hash, data, sizeof(data));
                era_xxhash_final(hash, whole);
                for (size_t step = 1; step <= 1100; step += 7) {
                        era_xxhash_reset(hash);
                        for (size_t at = 0, n; at < sizeof(data); at += n) {
                                n = sizeof(data) - at < step ? sizeof(data) - at : step;
                                era_xxhash_update(hash, data + at, n);
                        }
                        era_xxhash_final(hash, pieces);
                        assert_memory_equal(pieces, whole, known[i].size);
                }
                era_xxhash_free(hash);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(known_values), cmocka_unit_test(pieces_are_one_stream)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
