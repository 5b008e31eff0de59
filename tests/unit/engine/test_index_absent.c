/*
 * test_index_absent.c - a reader that asks before it touches a page: with the map made inaccessible
 * but for what it was told to be there, every answer comes without a fault, page by page, whatever
 * is written in between.
 */
#include <lmdb.h>
#include <sys/mman.h>

#include "engine/drive/resident.h"
#include "test_index_fixture.h"

#define NAMES     3000u
#define LONG_NAME 1200u
#define PLACES    3000u
#define PAGES     (FIXTURE_MAP / ENG_PAGE_BYTES)

struct world {
        struct fixture *f;
        struct eng_index_txn *reader;
        uint8_t *map;         /* NULL: not known yet */
        bool there[PAGES];
        uint64_t page, count; /* asked for last, and refused */
        unsigned refused;
        bool refuse;
};

static int ask(void *arg, const void *at, size_t page, size_t count)
{
        struct world *w = arg;
        size_t i;

        assert_true(page + count <= PAGES);
        w->map = (uint8_t *)at - page * ENG_PAGE_BYTES;
        if (!w->refuse)
                return MDB_SUCCESS;
        for (i = 0; i < count; i++) {
                if (w->there[page + i])
                        continue;
                w->page = page;
                w->count = count;
                return MDB_ABSENT;
        }
        return MDB_SUCCESS;
}

static void hide(struct world *w)
{
        memset(w->there, 0, sizeof(w->there));
        assert_int_equal(mprotect(w->map, FIXTURE_MAP, PROT_NONE), 0);
        w->refuse = true;
}

static void show(struct world *w)
{
        w->refuse = false;
        assert_int_equal(mprotect(w->map, FIXTURE_MAP, PROT_READ), 0);
}

static void bring(struct world *w)
{
        uint64_t i;

        for (i = 0; i < w->count; i++)
                w->there[w->page + i] = true;
        assert_int_equal(mprotect(w->map + w->page * ENG_PAGE_BYTES, w->count * ENG_PAGE_BYTES, PROT_READ), 0);
        w->refused++;
}

/* What needs pages ends with ENG_INDEX_ABSENT until they are there; each time it is begun again. */
static int until_there(struct world *w, int (*call)(struct world *w, const void *arg), const void *arg)
{
        unsigned tries;
        int rv;

        for (tries = 0; tries < 5000; tries++) {
                rv = eng_index_read_begin(w->reader);
                if (rv == 0)
                        rv = call(w, arg);
                eng_index_read_end(w->reader);
                if (rv != ENG_INDEX_ABSENT)
                        return rv;
                bring(w);
        }
        return -ETIMEDOUT;
}

/* ---- what stands in it ----------------------------------------------------------------------- */

static size_t name_of(unsigned i, uint8_t *name)
{
        size_t len = (size_t)sprintf((char *)name, "name-%06u", i * 7919 % 100000);

        if (i % 50 == 7) { /* pieces in the other database */
                memset(name + len, 'x', LONG_NAME - len);
                len = LONG_NAME;
        }
        return len;
}

static size_t value_len(unsigned i)
{
        return sizeof(struct fmt_value) + (i % 100 == 3 ? 400000 : i % 10 == 4 ? 6000 : i % 60);
}

static void put_names(struct world *w, unsigned from, unsigned to, uint8_t fill)
{
        static uint8_t value[500000];
        uint8_t name[FMT_NAME_MAX];
        struct eng_index_txn *txn;
        unsigned i;

        memset(value + sizeof(struct fmt_value), fill, sizeof(value) - sizeof(struct fmt_value));
        assert_int_equal(eng_index_write_begin(w->f->index, &txn), 0);
        for (i = from; i < to; i++)
                assert_int_equal(eng_index_put(txn, name, name_of(i, name), value, value_len(i)), 0);
        assert_int_equal(eng_index_write_commit(txn), 0);
}

static void id_of(unsigned i, uint8_t id[FMT_ID])
{
        memset(id, 0, FMT_ID);
        i *= 2654435761u;
        memcpy(id, &i, sizeof(i));
}

static void put_locations(struct world *w)
{
        struct eng_location location = {.segment = 1, .payload_len = 4096};
        struct eng_index_txn *txn;
        uint8_t id[FMT_ID];
        unsigned i;

        assert_int_equal(eng_index_write_begin(w->f->index, &txn), 0);
        for (i = 0; i < PLACES; i++) {
                id_of(i, id);
                location.offset = i;
                assert_int_equal(eng_index_location_put(txn, id, &location, NULL), 0);
        }
        assert_int_equal(eng_index_write_commit(txn), 0);
}

/* ---- what is asked --------------------------------------------------------------------------- */

struct asked {
        unsigned i;
        uint8_t fill;
};

static int get_name(struct world *w, const void *arg)
{
        const struct asked *asked = arg;
        struct eng_index_entry found;
        uint8_t name[FMT_NAME_MAX];
        size_t len = name_of(asked->i, name);
        int rv = eng_index_get(w->reader, name, len, &found);

        if (rv != 0)
                return rv;
        assert_int_equal(found.value_len, value_len(asked->i));
        if (found.value_len > sizeof(struct fmt_value))
                assert_int_equal(found.value[found.value_len - 1], asked->fill);
        return 0;
}

static int get_location(struct world *w, const void *arg)
{
        const struct asked *asked = arg;
        struct eng_location location;
        uint8_t id[FMT_ID];
        int rv;

        id_of(asked->i, id);
        rv = eng_index_location_get(w->reader, id, 0, 0, &location);
        if (rv == 0)
                assert_int_equal(location.offset, asked->i);
        return rv;
}

static int next_location(struct world *w, const void *arg)
{
        const struct asked *asked = arg;
        uint8_t id[FMT_ID], out[FMT_ID];
        uint64_t hash;
        int rv;

        id_of(asked->i, id);
        rv = eng_index_location_next(w->reader, id, out, &hash);
        if (rv == 0)
                assert_true(memcmp(out, id, FMT_ID) > 0);
        return rv == -ENOENT ? 0 : rv;
}

static int is_owned(struct world *w, const void *arg)
{
        const struct asked *asked = arg;
        uint8_t id[FMT_ID];

        id_of(asked->i, id);
        return eng_index_owned(w->reader, id);
}

/* From a name on, to the end. */
static int walk(struct world *w, const void *arg)
{
        const struct asked *asked = arg;
        struct eng_index_entry found;
        uint8_t name[FMT_NAME_MAX], before[FMT_NAME_MAX];
        size_t len = name_of(asked->i, name), before_len = 0;
        unsigned seen = 0;
        int rv = eng_index_seek(w->reader, name, len, false, &found);

        while (rv == 0) {
                if (before_len > 0)
                        assert_true(memcmp(found.name, before, before_len < found.name_len ? before_len : found.name_len) >= 0);
                memcpy(before, found.name, found.name_len);
                before_len = found.name_len;
                seen++;
                rv = eng_index_next(w->reader, &found);
        }
        if (rv == -ENOENT)
                assert_true(seen > 0);
        return rv == -ENOENT ? 0 : rv;
}

static int segment_seen(void *arg, const struct fmt_index_segment *row)
{
        assert_int_equal(row->live_frames, PLACES);
        return 0;
}

static int rows(struct world *w, const void *arg)
{
        return eng_index_each_segment(w->reader, segment_seen, NULL);
}

static void ask_all(struct world *w, uint8_t fill)
{
        struct asked asked = {.fill = fill};
        unsigned round;

        for (round = 0; round < 400; round++) {
                asked.i = (unsigned)fixture_random(w->f, NAMES);
                if (round % 40 == 0) {
                        show(w);
                        hide(w);
                }
                assert_int_equal(until_there(w, get_name, &asked), 0);
                assert_int_equal(until_there(w, get_location, &asked), 0);
                assert_int_equal(until_there(w, next_location, &asked), 0);
                assert_int_equal(until_there(w, is_owned, &asked), 0);
                if (round % 100 == 50)
                        assert_int_equal(until_there(w, walk, &asked), 0);
                if (round % 100 == 51)
                        assert_int_equal(until_there(w, rows, &asked), 0);
        }
}

static void test_nothing_else_is_touched(void **state)
{
        static struct world w;

        memset(&w, 0, sizeof(w));
        w.f = *state;
        put_names(&w, 0, NAMES / 2, 1);
        put_names(&w, NAMES / 2, NAMES, 1);
        put_locations(&w);
        assert_int_equal(eng_index_reader_new(w.f->index, &w.reader), 0);
        assert_int_equal(eng_index_reader_ask(w.reader, ask, &w), 0);
        assert_int_equal(eng_index_read_begin(w.reader), 0);
        eng_index_read_end(w.reader);
        assert_non_null(w.map);
        hide(&w);
        ask_all(&w, 1);
        assert_true(w.refused > 100);
        show(&w);
        put_names(&w, 0, NAMES, 2); /* other pages */
        hide(&w);
        ask_all(&w, 2);
        show(&w);
        eng_index_reader_free(w.reader);
}

/*
 * A lookup that ended for want of a page holds nothing: what it would have read is written anew,
 * again and again, and the file does not grow.
 */
static void test_nothing_is_held(void **state)
{
        static struct world w;
        struct asked asked = {.i = 5};
        uint64_t before, after;
        unsigned i;

        memset(&w, 0, sizeof(w));
        w.f = *state;
        put_names(&w, 0, NAMES, 1);
        assert_int_equal(eng_index_reader_new(w.f->index, &w.reader), 0);
        assert_int_equal(eng_index_reader_ask(w.reader, ask, &w), 0);
        for (i = 0; i < 4; i++)
                put_names(&w, 0, 100, 2);
        assert_int_equal(eng_index_used(w.f->index, &before), 0);
        for (i = 0; i < 20; i++) {
                w.refuse = true;
                w.there[0] = w.there[1] = false;
                assert_int_equal(eng_index_read_begin(w.reader), ENG_INDEX_ABSENT);
                w.there[0] = w.there[1] = true;
                assert_int_equal(eng_index_read_begin(w.reader), 0);
                assert_int_equal(get_name(&w, &asked), ENG_INDEX_ABSENT);
                eng_index_read_end(w.reader);
                put_names(&w, 0, 100, 2);
        }
        assert_int_equal(eng_index_used(w.f->index, &after), 0);
        assert_true(after <= before + before / 4);
        eng_index_reader_free(w.reader);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_nothing_else_is_touched, fixture_setup, fixture_teardown),
                cmocka_unit_test_setup_teardown(test_nothing_is_held, fixture_setup, fixture_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
