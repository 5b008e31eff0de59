/*
 * test_index_rot.c - bits of the index's file change, at rest or while it is open: what is answered
 * is right or an error, and the process lives.
 *
 * Each round takes a fresh copy of one image, damages it, and runs a mixed load over it in a child
 * process: lookups, scans, places, puts, deletes, commits, held against a model.
 * MILLRACE_ROT_ROUNDS (default 300) sets how many; `make rot` runs 100,000. An image of an older
 * build, whose pages have no sums, may hide names, but must not end the process either.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "test_index_fixture.h"

#define NAMES      2500u
#define VALUE_MOST 9000u /* some values take pages of their own */
#define PAGE       4096u
#define HEAD       16u     /* bytes of LMDB's page header */
#define SUM_FLAGS  0x3f80u /* the sum's bits in a page's flags (third_party/lmdb) */
#define OPS        60u

static const char *const kinds[] = {"bit", "byte", "block of noise", "zeroed sector", "page of another place"};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct model {
        unsigned version[NAMES]; /* 0: the name is not there */
};

/* owner: the test; the child has its own copy */
struct rot {
        struct fixture *f;
        struct model model;
        uint8_t *image;
        size_t size;
        bool sums;
};

static size_t rot_name(unsigned i, uint8_t name[FMT_NAME_MAX])
{
        size_t len = (size_t)sprintf((char *)name, "%05u/name of an object", i * 7919u % 100000u);

        if (i % 9 != 0)
                return len;
        memset(name + len, 'L', 700);
        return len + 700;
}

static size_t rot_value(unsigned i, unsigned version, uint8_t *value)
{
        size_t extra = i % 50 == 0 ? 8000 : 16 + i % 90;
        size_t len = fixture_value(value, 1 + i % 5, 0, (uint64_t)i * 1000 + version, extra);
        struct fmt_part part = {.number = FMT_PART_NARROW, .k = 2, .m = 1, .runs = 1};
        struct fmt_value head;

        if (i % 2 == 0)
                return len;
        memcpy(&head, value, sizeof(head)); /* with shards, so that pages of owners change too */
        head.attrs_len = (uint16_t)extra;
        head.parts = 1;
        memcpy(value, &head, sizeof(head));
        snprintf((char *)part.id, FMT_ID, "%u-%u", i, version);
        memcpy(value + len, &part, sizeof(part));
        memset(value + len + sizeof(part), 0, 3);
        return len + sizeof(part) + 3;
}

static void rot_object(unsigned i, uint8_t id[FMT_ID])
{
        memset(id, 0, FMT_ID);
        snprintf((char *)id, FMT_ID, "%07u", i * 7919u % 1000000u);
}

static void image_path(const struct rot *rot, char path[160])
{
        snprintf(path, 160, "%s/data.mdb", rot->f->path);
}

static int change(struct rot *rot, struct eng_index_txn *txn, unsigned i, unsigned version)
{
        uint8_t name[FMT_NAME_MAX], value[sizeof(struct fmt_value) + VALUE_MOST];
        size_t len = rot_name(i, name);

        if (version == 0)
                return eng_index_delete(txn, name, len);
        return eng_index_put(txn, name, len, value, rot_value(i, version, value));
}

/* Commits of some size, and deletions, so that the free list has something to give. */
static void make_image(struct rot *rot)
{
        struct fixture *f = rot->f;
        struct eng_index_txn *txn;
        uint8_t id[FMT_ID];

        for (unsigned i = 0; i < NAMES;) {
                txn = fixture_write(f);
                for (unsigned end = i + 500; i < end && i < NAMES; i++) {
                        struct eng_location location = {.segment = 1 + i % 3, .offset = 4096ull * i, .payload_len = 4096};

                        rot->model.version[i] = 1;
                        assert_int_equal(change(rot, txn, i, 1), 0);
                        rot_object(i, id);
                        assert_int_equal(eng_index_location_put(txn, id, &location, NULL), 0);
                }
                assert_int_equal(eng_index_write_commit(txn), 0);
        }
        for (unsigned round = 0; round < 6; round++) {
                txn = fixture_write(f);
                for (unsigned n = 0; n < 60; n++) {
                        unsigned i = (unsigned)fixture_random(f, NAMES);

                        if (rot->model.version[i] == 0)
                                continue;
                        rot->model.version[i] = round % 2 == 0 ? 0 : 2;
                        assert_int_equal(change(rot, txn, i, rot->model.version[i]), 0);
                }
                assert_int_equal(eng_index_write_commit(txn), 0);
        }
}

/* As an older build wrote it. */
static void strip_sums(uint8_t *image, size_t size)
{
        uint16_t flags;
        uint32_t pages;

        memset(image + HEAD + 24 + 48, 0, 4); /* md_pad of the second database */
        memset(image + PAGE + HEAD + 24 + 48, 0, 4);
        for (size_t at = 2 * PAGE; at < size; at += PAGE) {
                memcpy(&flags, image + at + 10, 2);
                if ((flags & 7) == 0)
                        continue; /* never written */
                memset(image + at + 8, 0, 2);
                flags &= (uint16_t)~SUM_FLAGS;
                memcpy(image + at + 10, &flags, 2);
                memcpy(&pages, image + at + 12, 4);
                if ((flags & 4) != 0 && pages > 1 && pages < 1000)
                        at += (size_t)(pages - 1) * PAGE;
        }
}

static void load_image(struct rot *rot)
{
        char path[160];
        struct stat st = {0};
        int fd;

        image_path(rot, path);
        fd = open(path, O_RDONLY);
        assert_true(fd >= 0 && fstat(fd, &st) == 0);
        rot->size = (size_t)st.st_size;
        rot->image = malloc(rot->size);
        assert_non_null(rot->image);
        assert_int_equal(read(fd, rot->image, rot->size), (ssize_t)rot->size);
        close(fd);
}

static void put_image(struct rot *rot)
{
        char path[160];
        int fd;

        image_path(rot, path);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, rot->image, rot->size), (ssize_t)rot->size);
        close(fd);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/*
 * Another page than this one: what it was itself once has the right number, and its sum; comparing
 * copies finds that.
 */
static size_t another_page(struct rot *rot, size_t page)
{
        size_t other = fixture_random(rot->f, rot->size / PAGE - 1);

        return other + (other >= page);
}

static void damage(struct rot *rot, unsigned kind)
{
        struct fixture *f = rot->f;
        uint8_t bytes[PAGE];
        size_t at = fixture_random(f, rot->size), len = 1;
        char path[160];
        int fd;

        if (fixture_random(f, 2) == 0) /* heads of pages, where their structure is */
                at = at / PAGE * PAGE + fixture_random(f, 64);
        if (fixture_random(f, 16) == 0) /* what an index begins with */
                at = fixture_random(f, 2) * PAGE + fixture_random(f, 160);
        image_path(rot, path);
        fd = open(path, O_RDWR);
        if (fd < 0 || pread(fd, bytes, 1, (off_t)at) != 1)
                _exit(4);
        switch (kind) {
        case 0:
                bytes[0] ^= (uint8_t)(1u << fixture_random(f, 8));
                break;
        case 1:
                bytes[0] ^= (uint8_t)(1 + fixture_random(f, 255));
                break;
        case 2:
                len = 8 + fixture_random(f, 500);
                for (size_t i = 0; i < len; i++)
                        bytes[i] = (uint8_t)fixture_random(f, 256);
                break;
        case 3:
                at = at / 512 * 512;
                len = 512;
                memset(bytes, 0, len);
                break;
        default:
                at = at / PAGE * PAGE;
                len = PAGE;
                memcpy(bytes, rot->image + another_page(rot, at / PAGE) * PAGE, len);
        }
        if (pwrite(fd, bytes, at + len > rot->size ? rot->size - at : len, (off_t)at) < 0)
                _exit(4);
        close(fd);
}

/* ---- load ------------------------------------------------------------------------------------ */

static void wrong(const char *what, unsigned i)
{
        printf("wrong: %s, name %u\n", what, i);
        fflush(stdout);
        _exit(3);
}

static bool is_damage(int rv)
{
        return rv == -EBADMSG || rv == -EIO || rv == -ESTALE;
}

/* Holds an answer against the model. An image without sums may miss names. */
static void check_answer(struct rot *rot, unsigned i, int rv, const struct eng_index_entry *entry)
{
        uint8_t value[sizeof(struct fmt_value) + VALUE_MOST];
        unsigned version = rot->model.version[i];
        size_t len = version == 0 ? 0 : rot_value(i, version, value);

        if (is_damage(rv) || (rv == -ENOENT && (version == 0 || !rot->sums)))
                return;
        if (rv != 0)
                wrong(strerror(-rv), i);
        if (version == 0 && rot->sums)
                wrong("a deleted name is back", i);
        if (version != 0 && rot->sums && (entry->value_len != len || memcmp(entry->value + 4, value + 4, len - 4) != 0))
                wrong("another value", i);
}

static void load_get(struct rot *rot)
{
        unsigned i = (unsigned)fixture_random(rot->f, NAMES);
        struct eng_index_entry entry;
        struct eng_index_txn *txn;
        uint8_t name[FMT_NAME_MAX];
        int rv;

        if (eng_index_reader_new(rot->f->index, &txn) != 0)
                _exit(4);
        rv = eng_index_read_begin(txn);
        if (rv == 0)
                rv = eng_index_get(txn, name, rot_name(i, name), &entry);
        check_answer(rot, i, rv, &entry);
        eng_index_reader_free(txn);
}

/* All names from the beginning: as many as there are, or an error. */
static void load_scan(struct rot *rot)
{
        struct eng_index_entry entry = {0};
        struct eng_index_txn *txn;
        unsigned found = 0, there = 0, bad = 0, steps = 0;
        int rv;

        if (eng_index_reader_new(rot->f->index, &txn) != 0)
                _exit(4);
        rv = eng_index_read_begin(txn);
        if (rv == 0)
                rv = eng_index_seek(txn, NULL, 0, false, &entry);
        while (rv == 0 || (rv == -EBADMSG && entry.name_len > 0)) {
                found += rv == 0;
                bad += rv != 0;
                if (steps++ > 4 * NAMES)
                        wrong("a scan without an end", 0);
                rv = eng_index_next(txn, &entry);
        }
        for (unsigned i = 0; i < NAMES; i++)
                there += rot->model.version[i] != 0;
        if (rv == -ENOENT && rot->sums && found + bad != there)
                wrong("a scan that lacks names", there - found);
        eng_index_reader_free(txn);
}

static void load_location(struct rot *rot)
{
        unsigned i = (unsigned)fixture_random(rot->f, NAMES);
        struct eng_index_txn *txn;
        struct eng_location location = {0};
        uint8_t id[FMT_ID];
        int rv;

        if (eng_index_reader_new(rot->f->index, &txn) != 0)
                _exit(4);
        rot_object(i, id);
        rv = eng_index_read_begin(txn);
        if (rv == 0)
                rv = eng_index_location_get(txn, id, 0, 0, &location);
        if (rv == 0 ? location.offset != 4096ull * i : !is_damage(rv) && (rv != -ENOENT || rot->sums))
                wrong("a place", i);
        eng_index_reader_free(txn);
}

/* A batch, sorted as the drive's are not, which is harder. 0: go on. */
static int load_write(struct rot *rot)
{
        struct model next = rot->model;
        struct eng_index_txn *txn;
        unsigned n = 1 + (unsigned)fixture_random(rot->f, 40);
        int rv;

        rv = eng_index_write_begin(rot->f->index, &txn);
        if (rv != 0)
                return is_damage(rv) ? 1 : (wrong("a write does not begin", 0), 1);
        while (n-- > 0 && rv == 0) {
                unsigned i = (unsigned)fixture_random(rot->f, NAMES), before = next.version[i];

                next.version[i] = fixture_random(rot->f, 3) == 0 ? 0 : 1 + (unsigned)fixture_random(rot->f, 900);
                rv = change(rot, txn, i, next.version[i]);
                if (rv == -ENOENT && (before == 0 || !rot->sums))
                        rv = 0;
        }
        if (rv != 0) {
                eng_index_write_abort(txn);
                if (!is_damage(rv) && rot->sums)
                        wrong(strerror(-rv), 0);
                return 1;
        }
        rv = eng_index_write_commit(txn);
        if (rv == 0)
                rot->model = next;
        else if (!is_damage(rv) && rot->sums)
                wrong(strerror(-rv), 1);
        return rv != 0;
}

static void child(struct rot *rot, unsigned kind)
{
        unsigned when = (unsigned)fixture_random(rot->f, OPS);
        bool live = fixture_random(rot->f, 2) == 0;
        int rv;

        if (!live)
                damage(rot, kind);
        rv = eng_index_open(&rot->f->options, &rot->f->index);
        if (is_damage(rv))
                _exit(1);
        if (rv != 0)
                wrong(strerror(-rv), 2);
        rv = 0;
        for (unsigned n = 0; n < OPS && rv == 0; n++) {
                if (live && n == when)
                        damage(rot, kind);
                switch (fixture_random(rot->f, 8)) {
                case 0:
                        load_scan(rot);
                        break;
                case 1:
                        load_location(rot);
                        break;
                case 2:
                case 3:
                        rv = load_write(rot);
                        break;
                default:
                        load_get(rot);
                }
        }
        eng_index_close(rot->f->index);
        _exit(rv == 0 ? 0 : 2);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static unsigned rounds_wanted(void)
{
        const char *text = getenv("MILLRACE_ROT_ROUNDS");

        return text != NULL ? (unsigned)strtoul(text, NULL, 0) : 300;
}

static void run_rounds(struct rot *rot, unsigned rounds)
{
        unsigned ends[3] = {0}, seen;
        int status;
        pid_t pid;

        for (unsigned n = 0; n < rounds; n++) {
                unsigned kind = n % 2 == 0 ? 0 : (unsigned)(fixture_random(rot->f, KINDS));

                if (kind == KINDS - 1 && rot->sums)
                        kind = 2; /* see test_misdirected */
                seen = n;
                put_image(rot);
                rot->f->random += n | 1;
                fflush(stdout);
                pid = fork();
                assert_true(pid >= 0);
                if (pid == 0)
                        child(rot, kind);
                assert_int_equal(waitpid(pid, &status, 0), pid);
                if (!WIFEXITED(status) || WEXITSTATUS(status) > 2)
                        fail_msg("round %u (%s): %s %d", seen, kinds[kind], WIFEXITED(status) ? "exit" : "signal",
                                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
                ends[WEXITSTATUS(status)]++;
        }
        printf("%u rounds: %u refused at opening, %u at a write, %u went on\n", rounds, ends[1], ends[2], ends[0]);
}

static void rot_begin(struct rot *rot, struct fixture *f, bool sums)
{
        memset(rot, 0, sizeof(*rot));
        rot->f = f;
        rot->sums = sums;
        make_image(rot);
        eng_index_close(f->index);
        f->index = NULL;
        load_image(rot);
        if (!sums)
                strip_sums(rot->image, rot->size);
}

static void rot_end(struct rot *rot)
{
        put_image(rot);
        assert_int_equal(eng_index_open(&rot->f->options, &rot->f->index), 0);
        for (unsigned n = 0; n < 50; n++)
                load_get(rot);
        load_scan(rot);
        free(rot->image);
}

static void test_rot(void **state)
{
        struct rot rot;

        rot_begin(&rot, *state, true);
        run_rounds(&rot, rounds_wanted());
        rot_end(&rot);
}

static void test_rot_older(void **state)
{
        struct rot rot;

        rot_begin(&rot, *state, false);
        run_rounds(&rot, rounds_wanted() / 4);
        rot_end(&rot);
}

/*
 * An older build's index is used as it is, page by page gets sums where it changes, and is whole
 * afterwards.
 */
static void test_older_goes_on(void **state)
{
        struct fixture *f = *state;
        struct eng_index_txn *txn;
        struct rot rot;

        rot_begin(&rot, f, false);
        put_image(&rot);
        assert_int_equal(eng_index_open(&f->options, &f->index), 0);
        rot.sums = true; /* nothing is damaged: every answer is right */
        for (unsigned n = 0; n < 20; n++)
                assert_int_equal(load_write(&rot), 0);
        load_scan(&rot);
        for (unsigned i = 0; i < NAMES; i++) {
                txn = fixture_write(f);
                if (rot.model.version[i] == 0) {
                        assert_int_equal(change(&rot, txn, i, 3), 0);
                        rot.model.version[i] = 3;
                }
                assert_int_equal(eng_index_write_commit(txn), 0);
        }
        load_scan(&rot);
        fixture_reopen(f);
        load_scan(&rot);
        free(rot.image);
}

/* A name that was not deleted, and that no pages of its own belong to. */
static unsigned plain_name(const struct rot *rot)
{
        unsigned i = 1;

        while (rot->model.version[i] == 0 || i % 9 == 0 || i % 50 == 0)
                i++;
        return i;
}

/*
 * One bit of a page that a lookup goes by, anywhere, is noticed by that lookup, unless it is free
 * space.
 */
static void test_every_bit(void **state)
{
        struct fixture *f = *state;
        struct eng_index_entry entry;
        struct eng_index_txn *txn;
        uint16_t flags, lower, upper;
        unsigned noticed = 0, bits = 0, pages = 0, found;
        uint8_t name[FMT_NAME_MAX], byte;
        struct rot rot;
        char path[160];
        int fd, rv;

        rot_begin(&rot, f, true);
        found = plain_name(&rot);
        put_image(&rot);
        assert_int_equal(eng_index_open(&f->options, &f->index), 0);
        image_path(&rot, path);
        fd = open(path, O_RDWR);
        assert_true(fd >= 0);
        assert_int_equal(eng_index_reader_new(f->index, &txn), 0);
        for (size_t page = 2 * PAGE; page < rot.size && pages < 3; page += PAGE) {
                memcpy(&flags, rot.image + page + 10, 2);
                memcpy(&lower, rot.image + page + 12, 2);
                memcpy(&upper, rot.image + page + 14, 2);
                byte = rot.image[page] ^ 1;
                assert_int_equal(pwrite(fd, &byte, 1, (off_t)page), 1);
                assert_int_equal(eng_index_read_begin(txn), 0);
                rv = eng_index_get(txn, name, rot_name(found, name), &entry);
                eng_index_read_end(txn);
                byte ^= 1;
                assert_int_equal(pwrite(fd, &byte, 1, (off_t)page), 1);
                if (rv != -EBADMSG)
                        continue; /* this lookup does not come by */
                pages++;
                for (unsigned bit = 0; bit < 8 * PAGE; bit++) {
                        if (bit / 8 >= lower && bit / 8 < upper)
                                continue;
                        bits++;
                        byte = rot.image[page + bit / 8] ^ (uint8_t)(1u << bit % 8);
                        assert_int_equal(pwrite(fd, &byte, 1, (off_t)(page + bit / 8)), 1);
                        assert_int_equal(eng_index_read_begin(txn), 0);
                        noticed += eng_index_get(txn, name, rot_name(found, name), &entry) == -EBADMSG;
                        eng_index_read_end(txn);
                        byte = rot.image[page + bit / 8];
                        assert_int_equal(pwrite(fd, &byte, 1, (off_t)(page + bit / 8)), 1);
                }
        }
        printf("%u bits of %u pages\n", bits, pages);
        assert_int_equal(pages, 3); /* the list of databases, a branch, a leaf */
        assert_int_equal(noticed, bits);
        assert_int_equal(eng_index_read_begin(txn), 0);
        rv = eng_index_get(txn, name, rot_name(found, name), &entry);
        assert_int_equal(rv, 0);
        check_answer(&rot, found, rv, &entry);
        eng_index_reader_free(txn);
        close(fd);
        free(rot.image);
}

/* A page that stands where another belongs says so by its number. */
static void test_misdirected(void **state)
{
        struct rot rot;
        int status;
        pid_t pid;

        rot_begin(&rot, *state, true);
        for (unsigned n = 0; n < 50; n++) {
                put_image(&rot);
                fixture_random(rot.f, 2);
                fflush(stdout);
                pid = fork();
                assert_true(pid >= 0);
                if (pid == 0)
                        child(&rot, KINDS - 1);
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 2);
        }
        rot_end(&rot);
}

/*
 * Goes through all names of the index, and asks for each name by itself: what a scan shows is in
 * order and can be found, and what can be found was shown. False: damage was met.
 */
static bool scan_agrees(struct rot *rot)
{
        uint8_t name[FMT_NAME_MAX], before[FMT_NAME_MAX];
        struct eng_index_entry entry = {0};
        size_t found = 0, shown = 0, len;
        unsigned before_len = 0;
        struct eng_index_txn *txn;
        int rv;

        assert_int_equal(eng_index_reader_new(rot->f->index, &txn), 0);
        rv = eng_index_read_begin(txn);
        if (rv == 0)
                rv = eng_index_seek(txn, NULL, 0, false, &entry);
        for (; rv == 0; rv = eng_index_next(txn, &entry)) {
                len = entry.name_len < before_len ? entry.name_len : before_len;
                rv = memcmp(entry.name, before, len);
                if (shown++ > 0 && (rv < 0 || (rv == 0 && entry.name_len <= before_len)))
                        fail_msg("name %zu of a scan is not behind the one before", shown);
                memcpy(before, entry.name, before_len = (unsigned)entry.name_len);
        }
        for (unsigned i = 0; rv == -ENOENT && i < NAMES; i++) {
                rv = eng_index_get(txn, name, rot_name(i, name), &entry);
                found += rv == 0;
                if (!is_damage(rv))
                        rv = -ENOENT;
        }
        eng_index_reader_free(txn);
        if (rv == -ENOENT)
                assert_int_equal(found, shown);
        else
                assert_true(is_damage(rv));
        return rv == -ENOENT;
}

/*
 * Each page in turn is what it was some commits ago. Names of it can then be missing or be old, which
 * comparing copies finds; but no other names are, and the order is right.
 */
static void test_yesterdays_page(void **state)
{
        unsigned tried = 0, noticed = 0, rounds = 8;
        struct rot old, now;

        rot_begin(&old, *state, true);
        now = old;
        put_image(&now);
        assert_int_equal(eng_index_open(&now.f->options, &now.f->index), 0);
        while (rounds-- > 0)
                assert_int_equal(load_write(&now), 0);
        eng_index_close(now.f->index);
        now.f->index = NULL;
        load_image(&now);
        for (size_t at = 2 * PAGE; at + PAGE <= old.size && at + PAGE <= now.size; at += PAGE) {
                uint8_t kept[PAGE];

                if (memcmp(old.image + at, now.image + at, PAGE) == 0 || (now.image[at + 10] & 3) == 0 || (old.image[at + 10] & 3) == 0)
                        continue; /* the same, or no page of a tree */
                memcpy(kept, now.image + at, PAGE);
                memcpy(now.image + at, old.image + at, PAGE);
                put_image(&now);
                memcpy(now.image + at, kept, PAGE);
                tried++;
                if (eng_index_open(&now.f->options, &now.f->index) != 0) {
                        noticed++;
                        continue;
                }
                noticed += !scan_agrees(&now);
                eng_index_close(now.f->index);
                now.f->index = NULL;
        }
        printf("%u pages, %u noticed\n", tried, noticed);
        assert_true(tried > 20);
        free(old.image);
        rot_end(&now);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        const struct CMUnitTest tests[] = {
                TEST(test_rot),       TEST(test_rot_older),   TEST(test_older_goes_on),
                TEST(test_every_bit), TEST(test_misdirected), TEST(test_yesterdays_page),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
