/*
 * test_unknown_owners.c - values whose parts make no sense: no member is asked to take one, no
 * drive fails over one that stands in its log all the same, and nothing is discarded while one is
 * there, since nobody can tell which shards it names (I6).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/rec.h"
#include "engine/txn/txn.h"
#include "tests/lib/drive_fixture.h"
#include "tests/lib/store_fixture.h"

#include <setjmp.h>
#include <cmocka.h>

#include "ec.h"

/* ---- a drive --------------------------------------------------------------------------------- */

static void drop_index(const struct fx *fx)
{
        char command[256];

        snprintf(command, sizeof(command), "rm -rf '%s/index'", fx->path);
        assert_int_equal(system(command), 0);
}

/*
 * Makes nonsense of the part of a record in the log, as a build that knows other parts might have
 * written it.
 */
static void forge(const struct fx *fx, uint64_t part_id)
{
        static uint8_t bytes[1 << 20];
        struct fmt_record rec;
        struct fmt_part part;
        uint8_t id[FMT_ID];
        char path[256];
        uint64_t at;
        uint8_t *found;
        ssize_t n;
        int fd;

        fx_first(fx, "log", path, sizeof(path));
        fd = open(path, O_RDWR);
        assert_true(fd >= 0);
        n = pread(fd, bytes, sizeof(bytes), 0);
        assert_true(n > 0);
        fx_id(id, part_id);
        found = memmem(bytes, (size_t)n, id, FMT_ID);
        assert_non_null(found);
        found -= offsetof(struct fmt_part, id);
        memcpy(&part, found, sizeof(part));
        part.runs = 7;
        memcpy(found, &part, sizeof(part));
        for (at = (uint64_t)(found - bytes) / FMT_RECORD_ALIGN * FMT_RECORD_ALIGN;; at -= FMT_RECORD_ALIGN) {
                memcpy(&rec, bytes + at, sizeof(rec));
                if (rec.magic == FMT_RECORD_MAGIC && rec.position == at)
                        break;
                assert_true(at > 0);
        }
        rec.body_crc = era_crc32c(0, bytes + at + sizeof(rec), rec.body_len);
        eng_rec_seal(&rec);
        memcpy(bytes + at, &rec, sizeof(rec));
        assert_int_equal(pwrite(fd, bytes, (size_t)n, 0), n);
        close(fd);
}

static struct eng_drive_info info_of(const struct fx *fx)
{
        struct eng_drive_info info;

        eng_drive_info(fx->local, &info);
        return info;
}

/* Whether the drive says that some name has this id, once what is visible now is in its index. */
static bool is_owned(struct fx *fx, uint64_t number)
{
        uint8_t ids[1][FMT_ID];
        struct fx_op op = {.op = {.kind = ENG_OP_OWNED, .epoch = FX_EPOCH}};
        uint64_t mark;
        bool owned;
        int rv;

        assert_int_equal(fx_run(fx, &op), 0);
        mark = op.op.owned.mark;
        fx_id(ids[0], number);
        do {
                op = (struct fx_op){.op = {.kind = ENG_OP_OWNED, .epoch = FX_EPOCH}};
                op.op.owned.ids = (const uint8_t(*)[FMT_ID])ids;
                op.op.owned.count = 1;
                op.op.owned.mark = mark;
                rv = fx_run(fx, &op);
        } while (rv == -EAGAIN);
        assert_int_equal(rv, 0);
        owned = (op.op.owned.bits->data[0] & 1) != 0;
        eng_buf_unref(op.op.owned.bits);
        return owned;
}

static int put_parts(struct fx *fx, const char *key, uint64_t id)
{
        static struct fx_body body;
        uint8_t name[64];
        size_t len = fx_name(name, key);
        uint64_t seq = ++fx->seq;
        int rv;

        memset(&body, 0, sizeof(body));
        fx_body_put_part(&body, name, len, id + 1, id, 1);
        rv = fx_append(fx, &body, 1, seq, seq - 1);
        return rv != 0 ? rv : fx_commit(fx, 1, seq);
}

static void test_in_the_log(void **state)
{
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_put(&fx, "before", "b", 1), 0);
        assert_int_equal(put_parts(&fx, "odd", 0x5555), 0);
        fx_close(&fx);
        drop_index(&fx);
        forge(&fx, 0x5555);

        assert_int_equal(fx_open(&fx), 0);
        assert_null(eng_drive_damage(fx.local)); /* nothing of the log is lost */
        assert_int_equal(fx_commit(&fx, 1, fx.seq), 0);
        assert_true(fx_has(&fx, "before", "b", 1));
        assert_int_equal(fx_lookup_rv(&fx, "odd"), -EBADMSG);
        assert_int_equal(fx_put(&fx, "after", "a", 1), 0);
        assert_true(is_owned(&fx, 0x9999)); /* in a batch, and for all that anybody knows */
        assert_int_equal(info_of(&fx).unknown_owners, 1);
        assert_int_equal(fx_lookup_rv(&fx, "odd"), -EBADMSG); /* from the index */
        assert_false(eng_drive_index_damaged(fx.local));
        fx_close(&fx);

        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(info_of(&fx).unknown_owners, 1);
        assert_int_equal(put_parts(&fx, "odd", 0x6666), 0);
        assert_false(is_owned(&fx, 0x9999)); /* everything is known again */
        assert_true(is_owned(&fx, 0x6666));
        assert_int_equal(info_of(&fx).unknown_owners, 0);
        assert_int_equal(fx_dead_count(&fx), 0); /* what it named may be another's: the orphan collection asks all */
        assert_string_equal(fx.failed, "");
        fx_destroy(&fx);
}

static void test_not_taken(void **state)
{
        static struct fx_body body;
        struct fmt_part part;
        uint8_t name[64], id[FMT_ID], *at;
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        memset(&body, 0, sizeof(body));
        fx_body_put_part(&body, name, fx_name(name, "odd"), 1, 0x7777, 1);
        fx_id(id, 0x7777);
        at = memmem(body.bytes, body.len, id, FMT_ID);
        assert_non_null(at);
        at -= offsetof(struct fmt_part, id);
        memcpy(&part, at, sizeof(part));
        part.k = 0;
        memcpy(at, &part, sizeof(part));
        assert_int_equal(fx_append(&fx, &body, 1, 1, 0), -EINVAL);
        assert_string_equal(fx.failed, "");
        fx_destroy(&fx);
}

/* ---- a store --------------------------------------------------------------------------------- */

struct odd {
        struct eng_txn txn;
        struct lp_msg msg;
        sem_t ended;
};

static void odd_done(struct eng_txn *txn)
{
        sem_post(&((struct odd *)txn)->ended);
}

/* A record of a value with as many parts as it does not have. */
static void odd_prepare(struct eng_txn *txn)
{
        struct eng_value_spec spec = {.space = FMT_SPACE_OBJECT, .part_count = 1, .pg = txn->pg, .size = 9};
        struct eng_buf *value = eng_value_new(&spec);

        assert_non_null(value);
        eng_name_object(&txn->name, txn->bucket, txn->key, txn->key_len);
        assert_int_equal(eng_body_begin(&txn->body, eng_body_need(txn->name.len, value->len, 0)), 0);
        eng_body_put(&txn->body, &txn->name, value, eng_txn_take_seq(txn), NULL, 0);
        eng_buf_unref(value);
        eng_txn_append(txn);
}

static void odd_begin(struct lp_msg *msg)
{
        eng_txn_submit(&container_of(msg, struct odd, msg)->txn);
}

static void test_no_member_is_asked(void **state)
{
        struct odd *odd = calloc(1, sizeof(*odd));
        struct eng_health *h = calloc(1, sizeof(*h));
        uint64_t bucket;
        struct sf sf;

        assert_non_null(odd);
        assert_non_null(h);
        sf_make(&sf, 4, 2);
        sf.options.ec_k = sf.options.ec_m = 2;
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 60));
        assert_int_equal(sf_bucket(&sf, "odd", &bucket), 0);
        odd->txn.store = sf.store;
        odd->txn.bucket = bucket;
        odd->txn.prepare = odd_prepare;
        odd->txn.done = odd_done;
        odd->txn.key_len = 3;
        memcpy(odd->txn.key, "key", 3);
        odd->txn.pg = eng_pg_of_key(sf.store->pg_count, bucket, "key", 3);
        sem_init(&odd->ended, 0, 0);
        odd->msg.run = odd_begin;
        lp_post(sf.loops[0], &odd->msg);
        while (sem_wait(&odd->ended) != 0)
                ;
        assert_int_equal(odd->txn.result, -EPROTO);
        assert_int_equal(sf_put(&sf, 0, bucket, "key", 1, 3 << 20, true, NULL), 0);
        assert_int_equal(sf_get(&sf, 1, bucket, "key", 1, 3 << 20), 0);
        eng_health_read(sf.store, h);
        assert_int_equal(h->drives_in, 4);
        sf_close(&sf);
        sf_remove(&sf);
        free(odd);
        free(h);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_in_the_log),
                cmocka_unit_test(test_not_taken),
                cmocka_unit_test(test_no_member_is_asked),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
