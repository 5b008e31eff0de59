/*
 * test_memtable.c - visible names: LOOKUP and SCAN over active, frozen and indexed names against a
 * plain model, ended uploads, superseded values.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/drive_fixture.h"

#include "engine/drive/memtable.h"
#include "engine/drive/wire.h"

#include <setjmp.h>
#include <cmocka.h>

/* ---- the model ------------------------------------------------------------------------------- */

#define NAMES 400u
#define PGS   8u

struct model_name {
        uint8_t name[FMT_NAME_MAX];
        uint16_t len;
        uint32_t pg;
        uint64_t id; /* 0: not there */
};

struct model {
        struct model_name names[NAMES];
        unsigned count;
        uint64_t seqs[PGS], ids;
        unsigned seed;
};

static unsigned chance(struct model *m, unsigned n)
{
        return (unsigned)rand_r(&m->seed) % n;
}

static int by_name(const void *a, const void *b)
{
        const struct model_name *x = a, *y = b;

        return eng_name_compare(x->name, x->len, y->name, y->len);
}

/*
 * Keys over a small alphabet, with delimiters, some beyond what LMDB takes as a key, some with
 * bytes 00 and ff.
 */
static size_t random_key(struct model *m, char *out)
{
        static const char letters[] = "ab/\x01\xff";
        size_t n = 1 + chance(m, 6), i;

        for (i = 0; i < n; i++)
                out[i] = letters[chance(m, 5)];
        if (chance(m, 8) == 0) {
                memset(out + n, 'x', 600);
                n += 600;
                out[n++] = letters[chance(m, 5)];
        }
        out[n] = '\0';
        return n;
}

static void make_model(struct model *m)
{
        const char *seed = getenv("SEED");
        char key[1024];
        unsigned i, kept = 0;

        memset(m, 0, sizeof(*m));
        m->seed = seed != NULL ? (unsigned)atoi(seed) : (unsigned)time(NULL);
        print_message("SEED=%u\n", m->seed);
        for (i = 0; i < NAMES; i++) {
                random_key(m, key);
                m->names[i].len = (uint16_t)fx_name(m->names[i].name, key);
                m->names[i].pg = chance(m, PGS);
        }
        qsort(m->names, NAMES, sizeof(m->names[0]), by_name);
        for (i = 0; i < NAMES; i++)
                if (kept == 0 || by_name(&m->names[kept - 1], &m->names[i]) != 0)
                        m->names[kept++] = m->names[i];
        m->count = kept;
}

static void change(struct fx *fx, struct model *m)
{
        static struct fx_body body;
        struct model_name *name = &m->names[chance(m, m->count)];
        uint64_t seq = ++m->seqs[name->pg];

        body.len = body.inline_len = 0;
        if (chance(m, 3) == 0) {
                fx_body_delete(&body, name->name, name->len);
                name->id = 0;
        } else {
                name->id = ++m->ids;
                fx_body_put(&body, name->name, name->len, name->id, name->pg, &name->id, sizeof(name->id));
        }
        assert_int_equal(fx_append(fx, &body, name->pg, seq, seq - 1), 0);
        assert_int_equal(fx_commit(fx, name->pg, seq), 0);
}

static void check_lookup(struct fx *fx, const struct model_name *name)
{
        struct eng_buf *value = NULL, *bytes = NULL;
        int rv = fx_lookup(fx, name->name, name->len, &value, &bytes);

        assert_int_equal(rv, name->id != 0 ? 0 : -ENOENT);
        if (name->id != 0) {
                assert_int_equal(bytes->len, sizeof(name->id));
                assert_memory_equal(bytes->data, &name->id, sizeof(name->id));
        }
        eng_buf_unref(value);
        eng_buf_unref(bytes);
}

/* ---- scans against it ------------------------------------------------------------------------ */

struct expected {
        struct {
                const struct model_name *name;
                uint16_t len;
                bool prefix;
        } entries[NAMES];
        unsigned count;
        bool more;
};

static size_t collapse(const struct eng_op *op, const uint8_t *name, size_t len)
{
        size_t i;

        if (op->scan.delimiter == NULL)
                return 0;
        for (i = op->scan.prefix_len; i + op->scan.delimiter_len <= len; i++)
                if (memcmp(name + i, op->scan.delimiter, op->scan.delimiter_len) == 0)
                        return i + op->scan.delimiter_len;
        return 0;
}

static void expect(const struct model *m, const struct eng_op *op, struct expected *e)
{
        size_t from_prefix = op->scan.after ? collapse(op, op->scan.from, op->scan.from_len) : 0, prefix;
        const struct model_name *name;
        unsigned i;
        int order;

        memset(e, 0, sizeof(*e));
        for (i = 0; i < m->count; i++) {
                name = &m->names[i];
                order = eng_name_compare(name->name, name->len, op->scan.from, op->scan.from_len);
                if (name->id == 0 || order < 0 || (order == 0 && op->scan.after))
                        continue;
                if (op->scan.to != NULL && eng_name_compare(name->name, name->len, op->scan.to, op->scan.to_len) >= 0)
                        continue;
                if (op->scan.pgs != NULL && (op->scan.pgs[0] >> name->pg & 1) == 0)
                        continue;
                prefix = collapse(op, name->name, name->len);
                if (prefix > 0 && prefix == from_prefix && memcmp(name->name, op->scan.from, prefix) == 0)
                        continue;
                if (prefix > 0 && e->count > 0 && e->entries[e->count - 1].prefix &&
                    e->entries[e->count - 1].len == prefix &&
                    memcmp(e->entries[e->count - 1].name->name, name->name, prefix) == 0)
                        continue;
                if (e->count == op->scan.max) {
                        e->more = true;
                        return;
                }
                e->entries[e->count].name = name;
                e->entries[e->count].prefix = prefix > 0;
                e->entries[e->count++].len = (uint16_t)(prefix > 0 ? prefix : name->len);
        }
}

static void compare_answer(const struct eng_op *op, const struct expected *e)
{
        const uint8_t *at = op->scan.entries->data;
        struct eng_scan_entry head;
        struct fmt_value value;
        uint8_t id[FMT_ID];
        unsigned i;

        assert_int_equal(op->scan.count, e->count);
        assert_int_equal(op->scan.more, e->more);
        for (i = 0; i < e->count; i++) {
                memcpy(&head, at, sizeof(head));
                assert_int_equal(head.size % 8, 0);
                assert_int_equal(head.name_len, e->entries[i].len);
                assert_memory_equal(at + sizeof(head), e->entries[i].name->name, head.name_len);
                assert_int_equal(head.flags & 1, e->entries[i].prefix);
                if (!e->entries[i].prefix) {
                        assert_int_equal(head.value_len, sizeof(value));
                        memcpy(&value, at + sizeof(head) + head.name_len, sizeof(value));
                        fx_id(id, e->entries[i].name->id);
                        assert_memory_equal(value.id, id, FMT_ID);
                        assert_int_equal(value.crc, 0);
                }
                at += head.size;
        }
        assert_ptr_equal(at, op->scan.entries->data + op->scan.entries->len);
}

/* The same scan in the short form: the same entries, each value as a listing shows it. */
static void compare_short(struct fx *fx, struct fx_op *whole)
{
        const uint8_t *at = whole->op.scan.entries->data, *short_at;
        struct fx_op op = {.op = whole->op};
        struct eng_scan_entry e, s;
        struct eng_listed listed;
        unsigned i;

        op.op.flags |= ENG_OP_LISTED;
        op.op.scan.entries = NULL;
        op.op.scan.count = 0;
        op.op.scan.more = false;
        assert_int_equal(fx_run(fx, &op), 0);
        assert_int_equal(op.op.scan.count, whole->op.scan.count);
        assert_int_equal(op.op.scan.more, whole->op.scan.more);
        assert_true(eng_wire_page_answers(&op.op, op.op.scan.entries->data, op.op.scan.entries->len, op.op.scan.count));
        short_at = op.op.scan.entries->data;
        for (i = 0; i < op.op.scan.count; i++, at += e.size, short_at += s.size) {
                memcpy(&e, at, sizeof(e));
                memcpy(&s, short_at, sizeof(s));
                assert_int_equal(s.flags, e.flags);
                assert_int_equal(s.name_len, e.name_len);
                assert_memory_equal(short_at + sizeof(s), at + sizeof(e), e.name_len);
                if (e.flags != 0)
                        continue;
                eng_listed_of(at + sizeof(e) + e.name_len, &listed);
                assert_memory_equal(short_at + sizeof(s) + s.name_len, &listed, sizeof(listed));
        }
        assert_ptr_equal(short_at, op.op.scan.entries->data + op.op.scan.entries->len);
        eng_buf_unref(op.op.scan.entries);
}

static void scan_and_compare(struct fx *fx, const struct model *m, struct fx_op *op)
{
        static struct expected e;

        expect(m, &op->op, &e);
        assert_int_equal(fx_run(fx, op), 0);
        compare_answer(&op->op, &e);
        compare_short(fx, op);
        eng_buf_unref(op->op.scan.entries);
}

static void check_scan(struct fx *fx, struct model *m)
{
        static const uint8_t delimiters[2][2] = {{'/'}, {'a', 'b'}};
        struct fx_op op = {.op = {.kind = ENG_OP_SCAN}};
        const struct model_name *from = &m->names[chance(m, m->count)], *to = &m->names[chance(m, m->count)];
        uint64_t pgs = chance(m, 1u << PGS);
        unsigned which;

        op.op.scan.from = from->name;
        op.op.scan.from_len = chance(m, 3) == 0 ? 9 : (uint16_t)(9 + chance(m, from->len - 8u));
        op.op.scan.after = chance(m, 2);
        if (chance(m, 2)) {
                op.op.scan.to = to->name;
                op.op.scan.to_len = to->len;
        }
        if (chance(m, 2)) {
                which = chance(m, 2);
                op.op.scan.delimiter = delimiters[which];
                op.op.scan.delimiter_len = (uint16_t)(1 + which);
                op.op.scan.prefix_len = (uint16_t)(9 + chance(m, 3));
                /*
                 * what a caller asks: names that begin with the prefix, going on after one of them
                 */
                if (op.op.scan.from_len < op.op.scan.prefix_len)
                        op.op.scan.prefix_len = op.op.scan.from_len;
        }
        op.op.scan.max = 1 + chance(m, 30);
        if (chance(m, 2)) {
                op.op.scan.pgs = &pgs;
                op.op.scan.pg_words = chance(m, 2);
        }
        scan_and_compare(fx, m, &op);
}

static void check_all(struct fx *fx, struct model *m)
{
        struct fx_op op = {.op = {.kind = ENG_OP_SCAN, .scan = {.max = NAMES}}};
        unsigned i;

        scan_and_compare(fx, m, &op);
        for (i = 0; i < m->count; i++)
                check_lookup(fx, &m->names[i]);
}

static void test_scan_against_model(void **state)
{
        static struct model m;
        unsigned i, round, pg;
        char command[256];
        struct fx fx;

        make_model(&m);
        fx_make(&fx, 1);
        fx.options.memtable_bytes = 256u << 10; /* frozen every 64 KiB: all three sources have something */
        fx.options.cache_bytes = 4096;
        assert_int_equal(fx_open(&fx), 0);
        for (round = 0; round < 4; round++) {
                for (i = 0; i < 500; i++) {
                        change(&fx, &m);
                        if (i % 3 == 0)
                                check_scan(&fx, &m);
                        if (i % 5 == 0)
                                check_lookup(&fx, &m.names[chance(&m, m.count)]);
                }
                check_all(&fx, &m);
                fx_close(&fx);
                snprintf(command, sizeof(command), "rm -rf '%s/index'", fx.path);
                if (round % 2 == 1)
                        assert_int_equal(system(command), 0);
                assert_int_equal(fx_open(&fx), 0);
                for (pg = 0; pg < PGS; pg++)
                        assert_int_equal(fx_commit(&fx, pg, m.seqs[pg]), 0);
                check_all(&fx, &m);
        }
        fx_destroy(&fx);
}

/* A scan over far more tombstones than one slice looks at, and an answer longer than its bound. */
static void test_long_scans(void **state)
{
        static struct fx_op ops[6000];
        static struct fx_body body;
        struct fx_op op = {.op = {.kind = ENG_OP_SCAN, .scan = {.max = 1}}};
        struct eng_scan_entry head;
        uint8_t name[64];
        char key[32];
        unsigned i, half;
        struct fx fx;
        size_t len;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        for (half = 0; half < 2; half++) {
                for (i = 0; i < 6000; i++) {
                        snprintf(key, sizeof(key), "k%05u", i);
                        len = fx_name(name, key);
                        body.len = body.inline_len = 0;
                        if (half == 0 || i == 5999)
                                fx_body_put(&body, name, len, i + 1, 1, "", 0);
                        else
                                fx_body_delete(&body, name, len);
                        fx_fill_append(&ops[i], &body, 1, half * 6000 + i + 1, 0);
                        fx_start(&fx, 0, &ops[i]);
                }
                for (i = 0; i < 6000; i++) {
                        assert_int_equal(fx_wait(&ops[i]), 0);
                        eng_buf_unref(ops[i].op.append.body);
                }
                assert_int_equal(fx_commit(&fx, 1, half * 6000 + 6000), 0);
                assert_true(half == 1 || fx_wait_indexed(&fx));
        }
        assert_int_equal(fx_run(&fx, &op), 0);
        assert_int_equal(op.op.scan.count, 1);
        assert_false(op.op.scan.more);
        memcpy(&head, op.op.scan.entries->data, sizeof(head));
        assert_memory_equal(op.op.scan.entries->data + sizeof(head) + 9, "k05999", 6);
        eng_buf_unref(op.op.scan.entries);
        op.op.scan.max = 0;
        assert_int_equal(fx_run(&fx, &op), -EINVAL);
        fx_destroy(&fx);
}

/*
 * An answer ends when it is as long as was asked for, with one entry at least, and says that there
 * is more.
 */
static void test_short_answers(void **state)
{
        static const char *const keys[] = {"a", "b", "c"};
        struct fx_op op = {.op = {.kind = ENG_OP_SCAN}};
        uint8_t from[64];
        struct fx fx;
        unsigned i;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < 3; i++)
                assert_int_equal(fx_put(&fx, keys[i], "x", 1), 0);
        for (i = 0; i < 3; i++) {
                op.op.scan.from = from;
                op.op.scan.after = i > 0;
                op.op.scan.max = 10;
                op.op.scan.most = 1;
                assert_int_equal(fx_run(&fx, &op), 0);
                assert_int_equal(op.op.scan.count, 1);
                assert_true(op.op.scan.more == (i < 2));
                op.op.scan.from_len = (uint16_t)fx_name(from, keys[i]);
                assert_memory_equal(op.op.scan.entries->data + sizeof(struct eng_scan_entry), from, op.op.scan.from_len);
                eng_buf_unref(op.op.scan.entries);
        }
        fx_destroy(&fx);
}

/* ---- uploads --------------------------------------------------------------------------------- */

static size_t upload_name(uint8_t *out, uint8_t space, const char *key, uint8_t upload, unsigned part)
{
        size_t len = fx_name(out, key);

        out[0] = space;
        out[len++] = 0;
        out[len++] = 1;
        memset(out + len, upload, FMT_ID);
        len += FMT_ID;
        if (space == FMT_SPACE_PART) {
                out[len++] = (uint8_t)(part >> 8);
                out[len++] = (uint8_t)part;
        }
        return len;
}

static int lookup_upload(struct fx *fx, uint8_t space, const char *key, uint8_t upload, unsigned part)
{
        uint8_t name[FMT_NAME_MAX];

        return fx_lookup(fx, name, upload_name(name, space, key, upload, part), NULL, NULL);
}

static void apply(struct fx *fx, const struct fx_body *body)
{
        uint64_t seq = ++fx->seq;

        assert_int_equal(fx_append(fx, body, 1, seq, seq - 1), 0);
        assert_int_equal(fx_commit(fx, 1, seq), 0);
}

static void put_upload(struct fx *fx, const char *key, uint8_t upload, unsigned parts, uint64_t first_id)
{
        static struct fx_body body;
        uint8_t name[FMT_NAME_MAX];
        unsigned i;

        body.len = body.inline_len = 0;
        fx_body_put(&body, name, upload_name(name, FMT_SPACE_UPLOAD, key, upload, 0), 1, 1, "", 0);
        apply(fx, &body);
        for (i = 1; i <= parts; i++) {
                size_t len = upload_name(name, FMT_SPACE_PART, key, upload, i);

                body.len = body.inline_len = 0;
                fx_body_put_part(&body, name, len, first_id + i, first_id + i, 1);
                apply(fx, &body);
        }
}

static void end_upload(struct fx *fx, const char *key, uint8_t upload, const uint64_t *ids, size_t count)
{
        static struct fx_body body;
        uint8_t name[FMT_NAME_MAX];

        body.len = body.inline_len = 0;
        fx_body_end_upload(&body, name, upload_name(name, FMT_SPACE_UPLOAD, key, upload, 0), ids, count);
        apply(fx, &body);
}

static bool is_dead(struct fx *fx, uint64_t id)
{
        uint8_t bytes[FMT_ID];
        bool found = false;
        unsigned i;

        fx_id(bytes, id);
        pthread_mutex_lock(&fx->lock);
        for (i = 0; i < fx->dead.count; i++)
                found = found || memcmp(fx->dead.ids[i], bytes, FMT_ID) == 0;
        pthread_mutex_unlock(&fx->lock);
        return found;
}

static unsigned count_parts(struct fx *fx, const char *key, uint8_t upload)
{
        struct fx_op op = {.op = {.kind = ENG_OP_SCAN, .scan = {.max = 100}}};
        uint8_t from[FMT_NAME_MAX], to[FMT_NAME_MAX];

        op.op.scan.from = from;
        op.op.scan.from_len = (uint16_t)upload_name(from, FMT_SPACE_PART, key, upload, 0);
        op.op.scan.to = to;
        op.op.scan.to_len = (uint16_t)upload_name(to, FMT_SPACE_PART, key, upload, 0xffff);
        assert_int_equal(fx_run(fx, &op), 0);
        eng_buf_unref(op.op.scan.entries);
        return op.op.scan.count;
}

/*
 * Ends uploads whose parts are in the index, or still in memory, and looks at what lives, before
 * and after it is all indexed.
 */
static void test_end_upload(void **state)
{
        static const uint64_t keep[] = {102, 104};
        unsigned indexed, round, i;
        struct fx fx;

        for (indexed = 0; indexed < 2; indexed++) {
                fx_make(&fx, 1);
                assert_int_equal(fx_open(&fx), 0);
                put_upload(&fx, "k", 7, 5, 100);
                put_upload(&fx, "k", 8, 3, 200); /* another upload of the same key */
                if (indexed)
                        assert_true(fx_wait_indexed(&fx));
                end_upload(&fx, "k", 7, keep, 2);
                for (round = 0; round < 3; round++) {
                        assert_int_equal(lookup_upload(&fx, FMT_SPACE_UPLOAD, "k", 7, 0), -ENOENT);
                        for (i = 1; i <= 5; i++)
                                assert_int_equal(lookup_upload(&fx, FMT_SPACE_PART, "k", 7, i), -ENOENT);
                        assert_int_equal(count_parts(&fx, "k", 7), 0);
                        assert_int_equal(lookup_upload(&fx, FMT_SPACE_UPLOAD, "k", 8, 0), 0);
                        assert_int_equal(count_parts(&fx, "k", 8), 3);
                        if (round == 0)
                                assert_true(fx_wait_indexed(&fx));
                        if (round == 1) {
                                for (i = 1; i <= 5; i++)
                                        assert_int_equal(is_dead(&fx, 100 + i), i != 2 && i != 4);
                                assert_false(is_dead(&fx, 201));
                                fx_close(&fx);
                                assert_int_equal(fx_open(&fx), 0);
                        }
                }
                fx_destroy(&fx);
        }
}

/* ---- superseded values ----------------------------------------------------------------------- */

static void put_object(struct fx *fx, const char *key, uint64_t id, uint64_t part)
{
        static struct fx_body body;
        uint8_t name[FMT_NAME_MAX];
        size_t len = fx_name(name, key);

        body.len = body.inline_len = 0;
        fx_body_put_part(&body, name, len, id, part, 1);
        apply(fx, &body);
}

static unsigned pending(struct fx *fx)
{
        struct fx_op op = {.op = {.kind = ENG_OP_TAIL}};
        const struct eng_memtable_entry *e;
        unsigned i, n = 0;

        assert_int_equal(fx_run(fx, &op), 0);
        e = (const struct eng_memtable_entry *)op.op.tail.entries->data;
        for (i = 0; i < op.op.tail.count; i++)
                n += e[i].pending;
        eng_buf_unref(op.op.tail.entries);
        return n;
}

static void test_superseded(void **state)
{
        unsigned indexed;
        struct fx fx;

        for (indexed = 0; indexed < 2; indexed++) {
                fx_make(&fx, 1);
                assert_int_equal(fx_open(&fx), 0);
                put_object(&fx, "overwritten", 1, 11);
                put_object(&fx, "deleted", 2, 12);
                put_object(&fx, "rewritten", 3, 13);
                put_object(&fx, "renamed", 4, 14);
                put_object(&fx, "lives", 5, 15);
                if (indexed)
                        assert_true(fx_wait_indexed(&fx));
                put_object(&fx, "overwritten", 6, 16);
                assert_int_equal(fx_delete(&fx, "deleted"), 0);
                put_object(&fx, "rewritten", 3, 13); /* attrs changed: same id, same shards */
                put_object(&fx, "renamed", 9, 14);   /* new id, same shards */
                assert_false(is_dead(&fx, 11));      /* not before it is durable in the index */
                assert_true(fx_wait_indexed(&fx));
                assert_true(is_dead(&fx, 11));
                assert_true(is_dead(&fx, 12));
                assert_false(is_dead(&fx, 13));
                assert_false(is_dead(&fx, 14));
                assert_false(is_dead(&fx, 15));
                assert_false(is_dead(&fx, 16));
                fx_destroy(&fx);
        }
}

/* A part that a copy takes away may live on in an object that this drive does not know yet. */
static void test_part_deleted_by_copy(void **state)
{
        static struct fx_body body;
        uint8_t name[FMT_NAME_MAX];
        unsigned indexed;
        struct fx fx;

        for (indexed = 0; indexed < 2; indexed++) {
                struct fx_op op;

                fx_make(&fx, 1);
                assert_int_equal(fx_open(&fx), 0);
                put_upload(&fx, "k", 7, 2, 100);
                put_object(&fx, "o", 1, 11);
                if (indexed)
                        assert_true(fx_wait_indexed(&fx));
                body.len = body.inline_len = 0;
                fx_body_delete(&body, name, upload_name(name, FMT_SPACE_PART, "k", 7, 1));
                fx_body_delete(&body, name, fx_name(name, "o"));
                fx_fill_append(&op, &body, 1, fx.seq, 0);
                op.op.append.type = FMT_RECORD_COPY;
                assert_int_equal(fx_run(&fx, &op), 0);
                eng_buf_unref(op.op.append.body);
                put_object(&fx, "behind", 2, 12);
                assert_true(fx_wait_indexed(&fx));
                assert_int_equal(lookup_upload(&fx, FMT_SPACE_PART, "k", 7, 1), -ENOENT);
                assert_int_equal(lookup_upload(&fx, FMT_SPACE_PART, "k", 7, 2), 0);
                assert_false(is_dead(&fx, 101));
                assert_false(is_dead(&fx, 11)); /* an orphan collection finds it */
                fx_destroy(&fx);
        }
}

/*
 * A clean end leaves nothing to be replayed. What died shortly before is not told any more: the
 * store finds it by what no record names.
 */
static void test_clean_end(void **state)
{
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        put_object(&fx, "a", 1, 11);
        assert_true(fx_wait_indexed(&fx));
        put_object(&fx, "a", 2, 12);
        put_object(&fx, "b", 3, 13);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(pending(&fx), 0);
        assert_false(is_dead(&fx, 11));
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_scan_against_model),
                cmocka_unit_test(test_long_scans),
                cmocka_unit_test(test_short_answers),
                cmocka_unit_test(test_end_upload),
                cmocka_unit_test(test_superseded),
                cmocka_unit_test(test_part_deleted_by_copy),
                cmocka_unit_test(test_clean_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
