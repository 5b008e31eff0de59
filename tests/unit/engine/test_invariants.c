/*
 * test_invariants.c - invariants of docs/design.md that no other test has for its subject: bytes of
 * a segment (I3), bounds of what comes from outside (I9).
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/drive/local.h"
#include "tests/lib/drive_fixture.h"
#include "tests/lib/shard_fixture.h"

#include <setjmp.h>
#include <cmocka.h>

#define UNIT        12288u
#define FILES_MAX   16u
#define BLOCK       4096u
#define APPENDS     900u
#define APPEND_SIZE (100u << 10)

/* ---- I3 -------------------------------------------------------------------------------------- */

/* The segments as they were when they were looked at last. */
struct images {
        struct {
                char name[64];
                uint8_t *bytes;
                size_t len;
        } of[FILES_MAX];
        unsigned count;
};

/*
 * NULL: it went just now. The drive works on meanwhile: an end that nothing was written to may be
 * cut off while it is read.
 */
static uint8_t *read_file(const char *path, size_t *len)
{
        FILE *file = fopen(path, "r");
        uint8_t *bytes;
        long size;

        if (file == NULL)
                return NULL;
        assert_int_equal(fseek(file, 0, SEEK_END), 0);
        size = ftell(file);
        assert_true(size >= 0);
        rewind(file);
        bytes = malloc((size_t)size + 1);
        assert_non_null(bytes);
        *len = fread(bytes, 1, (size_t)size, file);
        fclose(file);
        return bytes;
}

static bool is_zero(const uint8_t *block)
{
        static const uint8_t zeroes[BLOCK];

        return memcmp(block, zeroes, BLOCK) == 0;
}

/* Every block that was written is what it was. Its end may have been cut off, where nothing was. */
static void compare(const char *name, const uint8_t *before, size_t before_len, const uint8_t *now, size_t now_len)
{
        size_t at;

        for (at = 0; at + BLOCK <= before_len; at += BLOCK) {
                if (is_zero(before + at))
                        continue;
                if (at + BLOCK > now_len || memcmp(before + at, now + at, BLOCK) != 0)
                        fail_msg("%s has changed at %zu", name, at);
        }
}

static void look(const struct fx *fx, struct images *images)
{
        char folder[200], path[300];
        struct dirent *entry;
        unsigned i;
        DIR *dir;

        snprintf(folder, sizeof(folder), "%s/data", fx->path);
        dir = opendir(folder);
        assert_non_null(dir);
        while ((entry = readdir(dir)) != NULL) {
                size_t len;
                uint8_t *now;

                if (strstr(entry->d_name, ".seg") == NULL)
                        continue;
                snprintf(path, sizeof(path), "%s/%.60s", folder, entry->d_name);
                now = read_file(path, &len);
                if (now == NULL)
                        continue;
                for (i = 0; i < images->count && strcmp(images->of[i].name, entry->d_name) != 0; i++)
                        ;
                assert_true(i < FILES_MAX);
                if (i < images->count)
                        compare(entry->d_name, images->of[i].bytes, images->of[i].len, now, len);
                else
                        images->count++;
                snprintf(images->of[i].name, sizeof(images->of[i].name), "%.60s", entry->d_name);
                free(images->of[i].bytes);
                images->of[i].bytes = now;
                images->of[i].len = len;
        }
        closedir(dir);
}

static void write_some(struct fx *fx, uint64_t first)
{
        uint64_t id;

        for (id = first; id < first + 8; id++) {
                assert_int_equal(sh_write(fx, id, 0, UNIT), 0);
                assert_int_equal(sh_write(fx, id, 1, 2 * UNIT), 0);
        }
        assert_int_equal(sh_sync(fx), 0);
}

/*
 * I3: written, written anew, discarded, found again after a crash, and with the index lost: what
 * stands in a segment stays as it is.
 */
static void test_i3_bytes_of_a_segment_never_change(void **state)
{
        struct images images = {.count = 0};
        struct fx fx;
        unsigned i;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        write_some(&fx, 1);
        look(&fx, &images);
        assert_true(images.count > 0);
        write_some(&fx, 1); /* the same shards once more */
        look(&fx, &images);
        assert_int_equal(sh_discard(&fx, 3), 0);
        write_some(&fx, 20);
        look(&fx, &images);
        fx_snapshot(&fx, "crash");
        fx_close(&fx);
        fx_restore(&fx, "crash");
        assert_int_equal(fx_open(&fx), 0);
        look(&fx, &images);
        write_some(&fx, 40); /* into a segment of its own: what was found is not appended to */
        look(&fx, &images);
        fx_close(&fx);
        sh_remove_index(&fx);
        assert_int_equal(fx_open(&fx), 0);
        write_some(&fx, 60);
        look(&fx, &images);
        assert_int_equal(sh_read(&fx, 1, 1, 2 * UNIT), 0);
        fx_close(&fx);
        look(&fx, &images);
        for (i = 0; i < images.count; i++)
                free(images.of[i].bytes);
        fx_destroy(&fx);
}

/* ---- I9 -------------------------------------------------------------------------------------- */

/*
 * I9: more changes than a drive may have queued: each is answered, those beyond the bound with 'try
 * again', and then it takes changes as before.
 */
static void test_i9_changes_beyond_the_queue_are_answered(void **state)
{
        struct fx_op *ops = calloc(APPENDS, sizeof(*ops));
        unsigned i, taken = 0, refused = 0;
        static struct fx_body body;
        uint8_t name[64], *bytes;
        size_t name_len;
        struct fx fx;
        int rv;

        assert_non_null(ops);
        bytes = malloc(APPEND_SIZE);
        assert_non_null(bytes);
        memset(bytes, 'a', APPEND_SIZE);
        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        name_len = fx_name(name, "k");
        fx_body_put(&body, name, name_len, 1, 2, bytes, APPEND_SIZE);
        for (i = 0; i < APPENDS; i++) {
                fx_fill_append(&ops[i], &body, 2, i + 1, 0);
                fx_start(&fx, 0, &ops[i]);
        }
        for (i = 0; i < APPENDS; i++) {
                rv = fx_wait(&ops[i]);
                assert_true(rv == 0 || rv == -EAGAIN);
                taken += rv == 0;
                refused += rv != 0;
                eng_buf_unref(ops[i].op.append.body);
        }
        /* all of them are pending; what is being written just now is counted by neither */
        assert_true((uint64_t)taken * APPEND_SIZE <= ENG_APPEND_QUEUE_BYTES + ENG_BATCH_BYTES);
        assert_true(taken > 0 && refused > 0);
        assert_int_equal(fx_commit(&fx, 2, APPENDS), 0);
        assert_int_equal(fx_put(&fx, "after", "x", 1), 0);
        free(bytes);
        free(ops);
        fx_close(&fx);
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_i3_bytes_of_a_segment_never_change),
                cmocka_unit_test(test_i9_changes_beyond_the_queue_are_answered),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
