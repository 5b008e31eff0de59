/*
 * Calls of a home store as bytes, and their answers: each kind there and back, and bodies that are
 * cut, too long, or have any byte changed. What is taken has one form, and lies within what came.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/call/leader_call.h"
#include "engine/drive/drive.h"
#include "engine/txn/txn.h"

static uint64_t seed;

static uint64_t draw(void)
{
        seed = eng_hash(&seed, sizeof(seed), 1);
        return seed;
}

static bool coin(void)
{
        return draw() & 1;
}

/* Bytes that calls of a test point to. */
static struct {
        char text[64u << 10];
        struct eng_complete_part parts[300];
        struct eng_buf *value, *part_value;
} memory;

static struct eng_str text(size_t most)
{
        return (struct eng_str){memory.text + draw() % 1000, draw() % (most + 1)};
}

static void noise(void *to, size_t len)
{
        uint8_t *p = to;

        while (len-- > 0)
                *p++ = (uint8_t)draw();
}

static int begin_memory(void **state)
{
        const uint8_t id[FMT_ID] = {7};
        struct eng_value_spec spec = {.space = FMT_SPACE_OBJECT, .inline_value = true, .inline_len = 1000, .size = 1000, .id = id, .attrs = "attrs", .attrs_len = 5};
        unsigned i;

        noise(memory.text, sizeof(memory.text));
        for (i = 0; i < 300; i++) {
                memory.parts[i].number = 3 * i + 1;
                noise(memory.parts[i].id, FMT_ID);
        }
        memory.value = eng_value_new(&spec);
        spec = (struct eng_value_spec){.space = FMT_SPACE_PART, .id = id};
        memory.part_value = eng_value_new(&spec);
        assert_non_null(memory.value);
        assert_non_null(memory.part_value);
        return 0;
}

static int end_memory(void **state)
{
        eng_buf_unref(memory.value);
        eng_buf_unref(memory.part_value);
        return 0;
}

static struct eng_str bytes_of(const struct eng_buf *buf)
{
        return (struct eng_str){(const char *)buf->data, buf->len};
}

static void some_condition(struct eng_condition *c)
{
        *c = (struct eng_condition){.if_absent = coin(), .if_etag = coin(), .if_present = coin(), .etag_parts = (uint16_t)draw(),
                                    .if_mtime = coin(), .if_size = coin(), .mtime_s = (int64_t)draw(), .size = draw()};
        noise(c->etag, sizeof(c->etag));
}

static void some_extras(struct eng_extras *extras)
{
        *extras = (struct eng_extras){.tags = text(ENG_TAGS_MAX), .acl = text(ENG_ACL_MAX), .hold = coin(), .no_hold = coin(),
                                      .retention = {.mode = (enum eng_retention_mode)(draw() % 3), .until_ms = (int64_t)draw()}};
}

static void some_name(struct eng_name *name)
{
        name->len = (uint16_t)(draw() % (FMT_NAME_MAX + 1));
        noise(name->data, name->len);
}

static void some_rules(struct eng_bucket_rules *rules)
{
        *rules = (struct eng_bucket_rules){.generation = draw(), .versioning = (enum eng_versioning)(draw() % 3), .lock = coin(),
                                           .default_mode = (enum eng_retention_mode)(draw() % 3), .default_years = coin(), .default_period = (uint32_t)draw()};
}

/* Fields of a call that its kind does not have stay zero: they do not travel. */
static void some_call(enum eng_call_kind kind, struct eng_call *call)
{
        memset(call, 0, sizeof(*call));
        call->kind = kind;
        if (kind <= ENG_CALL_COMPLETE) {
                call->bucket = draw();
                call->key = text(ENG_KEY_MAX);
        }
        switch (kind) {
        case ENG_CALL_PUT:
                some_condition(&call->put.condition);
                call->put.is_part = coin();
                call->put.part_number = call->put.is_part ? 1 + (unsigned)(draw() % ENG_PARTS_MAX) : 0;
                noise(call->put.upload_id, FMT_ID);
                call->put.now = coin();
                call->put.proof_count = (unsigned)(draw() % 65);
                call->put.proofs = (const uint8_t *)memory.text;
                call->put.value = bytes_of(call->put.is_part ? memory.part_value : memory.value);
                call->put.bytes = (struct eng_str){memory.text, call->put.is_part ? 0 : 1000};
                break;
        case ENG_CALL_DELETE:
                call->del.by_version = coin();
                call->del.version.number = draw();
                noise(call->del.version.random, ENG_VERSION_RANDOM);
                some_condition(&call->del.condition);
                if (call->del.by_version) {
                        call->del.place = (enum eng_place)(draw() % 4);
                        call->del.object = call->del.place == ENG_PLACE_NEWEST && coin();
                }
                call->del.bypass_governance = coin();
                break;
        case ENG_CALL_UPDATE:
                some_condition(&call->update.condition);
                noise(call->update.tag, 8);
                call->update.attrs = text(ENG_ATTRS_MAX);
                break;
        case ENG_CALL_EXTRAS:
                call->extras.by_version = coin();
                call->extras.version.number = draw();
                some_extras(&call->extras.change.extras);
                call->extras.change.set_tags = coin();
                call->extras.change.set_hold = coin();
                call->extras.change.set_acl = coin();
                call->extras.change.set_retention = coin();
                call->extras.change.if_id = coin();
                call->extras.change.if_tags = coin();
                call->extras.change.bypass_governance = coin();
                noise(call->extras.change.id, ENG_ID_LEN);
                call->extras.change.tags_seen = text(ENG_TAGS_MAX);
                break;
        case ENG_CALL_UPLOAD_CREATE:
                noise(call->create.tag, 8);
                call->create.attrs = text(ENG_ATTRS_MAX);
                some_extras(&call->create.extras);
                break;
        case ENG_CALL_UPLOAD_ABORT:
                noise(call->abort.upload_id, FMT_ID);
                break;
        case ENG_CALL_COMPLETE:
                noise(call->complete.upload_id, FMT_ID);
                noise(call->complete.etag, 16);
                noise(call->complete.tag, 8);
                call->complete.attrs = text(ENG_ATTRS_MAX);
                some_condition(&call->complete.condition);
                call->complete.mtime_ms = (int64_t)draw();
                call->complete.count = 1 + (unsigned)(draw() % 300);
                call->complete.parts = memory.parts;
                break;
        case ENG_CALL_LOOKUP:
                call->lookup.which = (uint8_t)(draw() % 4);
                call->lookup.pin = coin() ? draw() : 0;
                call->lookup.flags = coin() ? ENG_OP_WANT_INLINE : 0;
                noise(call->lookup.random, ENG_VERSION_RANDOM);
                some_name(&call->lookup.name);
                break;
        case ENG_CALL_MERGE:
                some_name(&call->merge.from);
                some_name(&call->merge.to);
                call->merge.after = coin();
                call->merge.prefix_len = (uint16_t)(draw() % FMT_NAME_MAX);
                call->merge.delimiter = text(2 * ENG_KEY_MAX);
                call->merge.flags = (coin() ? ENG_OP_WANT_ATTRS : ENG_OP_WANT_PARTS) | (coin() ? ENG_OP_VERSIONS : 0) | (coin() ? ENG_OP_NO_MARKERS : 0);
                if (coin())
                        call->merge.flags = ENG_OP_LISTED | (call->merge.flags & ENG_OP_NO_MARKERS);
                call->merge.max = 1 + (uint32_t)(draw() % 10000);
                break;
        case ENG_CALL_BUCKET_CREATE:
        case ENG_CALL_RULES_SET:
                if (kind == ENG_CALL_BUCKET_CREATE) {
                        call->key = (struct eng_str){memory.text, 3 + draw() % 60};
                        call->rules.has_rules = coin();
                        call->rules.attrs = text(512);
                } else {
                        call->bucket = draw();
                        call->rules.has_rules = true;
                }
                some_rules(&call->rules.rules);
                break;
        case ENG_CALL_BUCKET_DELETE:
                call->bucket = draw();
                call->key = (struct eng_str){memory.text, 3 + draw() % 60};
                break;
        case ENG_CALL_TEXT_SET:
                call->text.bytes = text(60000);
                /* fall through */
        case ENG_CALL_TEXT_DELETE:
                call->bucket = draw();
                call->text.kind = (uint8_t)draw();
                call->text.expected = draw();
                call->text.decided = call->text.kind >= ENG_ENTRY_KINDS && coin();
                if (call->text.decided)
                        call->text.seen = (struct eng_rows_digest){draw(), {draw(), draw()}};
                break;
        case ENG_CALL_LOCK_CONFIRM:
                call->wall_ms = (int64_t)draw();
                break;
        case ENG_CALL_HINT:
                call->group = (uint32_t)draw();
                break;
        case ENG_CALL_DISCARD:
                noise(call->discard.id, FMT_ID);
                call->discard.drives = draw();
                break;
        default:
                fail();
        }
}

/* A message in memory of exactly its size, so that a sanitizer sees what lies beyond. */
struct message {
        uint8_t *body, *bulk;
        size_t len, bulk_len;
};

static void message_copy(struct message *m, const uint8_t *body, size_t len, const struct eng_call_bulk *bulk)
{
        unsigned i;

        m->len = len;
        m->body = malloc(len + 1);
        memcpy(m->body, body, len);
        m->bulk_len = 0;
        for (i = 0; i < bulk->count; i++)
                m->bulk_len += bulk->piece[i].len;
        m->bulk = malloc(m->bulk_len + 1);
        for (m->bulk_len = i = 0; i < bulk->count; m->bulk_len += bulk->piece[i++].len)
                memcpy(m->bulk + m->bulk_len, bulk->piece[i].bytes, bulk->piece[i].len);
}

static void message_free(struct message *m)
{
        free(m->body);
        free(m->bulk);
}

static bool same(const struct message *m, const uint8_t *body, int len, const struct eng_call_bulk *bulk)
{
        struct message again;
        bool rv;

        if (len < 0 || (size_t)len != m->len)
                return false;
        message_copy(&again, body, (size_t)len, bulk);
        rv = again.bulk_len == m->bulk_len && memcmp(again.body, m->body, m->len) == 0 && memcmp(again.bulk, m->bulk, m->bulk_len) == 0;
        message_free(&again);
        return rv;
}

static uint8_t out[ENG_CALL_BODY_MAX];

/* What is taken is, written again, the same. Returns whether it was. */
static bool take_call(const struct message *m)
{
        struct eng_call_bulk bulk;
        struct eng_call call;
        int rv = eng_call_get(m->body, m->len, m->bulk, m->bulk_len, &call);
        int64_t needs = eng_call_bulk_len(m->body, m->len);

        assert_true(rv == 0 || rv == -EBADMSG);
        if (rv != 0)
                return false;
        assert_int_equal(needs, m->bulk_len);
        rv = eng_call_put(&call, out, &bulk);
        assert_true(same(m, out, rv, &bulk));
        return true;
}

static void break_it(struct message *m, bool (*take)(const struct message *m))
{
        size_t i;

        for (i = 0; i < m->len; i += 1 + i / 64) { /* cut */
                size_t whole = m->len;
                uint8_t *body = m->body;

                m->body = malloc(i + 1);
                memcpy(m->body, body, i);
                m->len = i;
                assert_false(take(m));
                free(m->body);
                m->body = body;
                m->len = whole;
        }
        for (i = 0; i < m->len; i += 1 + i / 256) {
                uint8_t flip = (uint8_t)(1u << draw() % 8);

                m->body[i] ^= flip;
                (void)take(m);
                m->body[i] ^= flip;
        }
        for (i = 0; i < 200 && m->bulk_len > 0; i++) {
                size_t at = draw() % m->bulk_len;
                uint8_t flip = (uint8_t)(1u << draw() % 8);

                m->bulk[at] ^= flip;
                (void)take(m);
                m->bulk[at] ^= flip;
        }
        if (m->bulk_len > 0) {
                m->bulk_len--;
                assert_false(take(m));
                m->bulk_len++;
        }
        m->len++;
        m->body = realloc(m->body, m->len);
        m->body[m->len - 1] = 0;
        assert_false(take(m));
}

static void test_calls(void **state)
{
        unsigned kind, round;

        for (kind = ENG_CALL_PUT; kind < ENG_CALL_KINDS; kind++)
                for (round = 0; round < 10; round++) {
                        struct eng_call call;
                        struct eng_call_bulk bulk;
                        struct message m;
                        int len;

                        some_call((enum eng_call_kind)kind, &call);
                        len = eng_call_put(&call, out, &bulk);
                        assert_true(len > 0);
                        message_copy(&m, out, (size_t)len, &bulk);
                        assert_true(take_call(&m));
                        break_it(&m, take_call);
                        message_free(&m);
                }
}

/* What it says arrives, not only the same bytes. */
static void test_what_arrives(void **state)
{
        struct eng_call call, there;
        struct eng_call_bulk bulk;
        struct message m;
        int len;

        some_call(ENG_CALL_COMPLETE, &call);
        len = eng_call_put(&call, out, &bulk);
        message_copy(&m, out, (size_t)len, &bulk);
        assert_int_equal(eng_call_get(m.body, m.len, m.bulk, m.bulk_len, &there), 0);
        assert_int_equal(there.bucket, call.bucket);
        assert_int_equal(there.key.len, call.key.len);
        assert_memory_equal(there.key.data, call.key.data, call.key.len);
        assert_int_equal(there.complete.count, call.complete.count);
        assert_memory_equal(there.complete.parts, call.complete.parts, call.complete.count * sizeof(call.complete.parts[0]));
        assert_int_equal(there.complete.mtime_ms, call.complete.mtime_ms);
        assert_int_equal(there.complete.condition.size, call.complete.condition.size);
        message_free(&m);
}

/* What a leader would fail an assert by, or store. */
static void test_nonsense(void **state)
{
        struct eng_complete_part parts[2] = {{.number = 2}, {.number = 2}};
        struct eng_call call;
        struct eng_call_bulk bulk;
        struct message m;
        unsigned i;

        for (i = 0; i < 9; i++) {
                some_call(i < 3 ? ENG_CALL_PUT : i < 6 ? ENG_CALL_DELETE : ENG_CALL_COMPLETE, &call);
                if (i < 3) {
                        call.put.is_part = false;
                        call.put.part_number = 0;
                        call.put.value = bytes_of(memory.value);
                        call.put.bytes = (struct eng_str){memory.text, 1000};
                }
                switch (i) {
                case 0: /* bytes of another length than the value says */
                        call.put.bytes.len = 999;
                        break;
                case 1: /* a part's value as an object */
                        call.put.value = bytes_of(memory.part_value);
                        call.put.bytes.len = 0;
                        break;
                case 2:
                        call.put.value.len--;
                        break;
                case 3:
                        call.del.by_version = false;
                        call.del.place = ENG_PLACE_NEWEST;
                        break;
                case 4:
                        call.del.by_version = true;
                        call.del.object = true;
                        call.del.place = ENG_PLACE_OLDER;
                        break;
                case 5:
                        call.key.len = ENG_KEY_MAX + 1;
                        break;
                case 6: /* parts that do not ascend */
                        call.complete.parts = parts;
                        call.complete.count = 2;
                        break;
                case 7:
                        call.complete.count = 0;
                        break;
                default:
                        call.complete.attrs.len = ENG_ATTRS_MAX + 1;
                        break;
                }
                message_copy(&m, out, (size_t)eng_call_put(&call, out, &bulk), &bulk);
                assert_false(take_call(&m));
                message_free(&m);
        }
}

/* ---- answers --------------------------------------------------------------------------------- */

static enum eng_call_kind answered;

static bool take_answer(const struct message *m)
{
        struct eng_call_bulk bulk;
        struct eng_call_answer answer;
        int rv = eng_call_get_answer(answered, m->body, m->len, m->bulk, m->bulk_len, &answer);

        assert_true(rv == 0 || rv == -EBADMSG);
        if (rv != 0)
                return false;
        rv = eng_call_put_answer(answered, &answer, out, &bulk);
        assert_true(same(m, out, rv, &bulk));
        return true;
}

static void some_object(struct eng_object *object)
{
        *object = (struct eng_object){.size = draw(), .mtime_ms = (int64_t)draw(), .etag_parts = (uint16_t)draw(), .part_count = (uint32_t)draw(),
                                      .inline_value = coin(), .version.number = draw(), .marker = coin(), .hold = coin(), .hold_known = coin(),
                                      .retention = {.mode = (enum eng_retention_mode)(draw() % 3), .until_ms = (int64_t)draw()},
                                      .attrs = text(ENG_ATTRS_MAX), .tags = text(ENG_TAGS_MAX), .acl = text(ENG_ACL_MAX)};
        noise(object->id, ENG_ID_LEN);
        noise(object->etag, sizeof(object->etag));
        noise(object->version.random, ENG_VERSION_RANDOM);
}

static void some_answer(enum eng_call_kind kind, int rv, uint8_t *page, struct eng_call_answer *answer)
{
        memset(answer, 0, sizeof(*answer));
        answer->rv = rv;
        answer->recorded = coin();
        if (kind == ENG_CALL_DELETE) {
                answer->deleted = (struct eng_deleted){.existed = coin(), .versioned = coin(), .marker = coin(), .version.number = draw()};
                noise(answer->deleted.version.random, ENG_VERSION_RANDOM);
        } else if (kind == ENG_CALL_UPLOAD_CREATE) {
                noise(answer->upload_id, FMT_ID);
        } else if (kind == ENG_CALL_LOOKUP && rv == -EMSGSIZE) {
                answer->needs = 70000;
        } else if (rv == 0 && (kind <= ENG_CALL_EXTRAS || kind == ENG_CALL_COMPLETE)) {
                some_object(&answer->object);
        } else if (rv == 0 && kind == ENG_CALL_LOOKUP) {
                some_name(&answer->name);
                answer->value = bytes_of(memory.value);
                answer->pinned = coin();
                if (coin())
                        answer->bytes = (struct eng_str){memory.text, 1000};
        } else if (rv == 0 && kind == ENG_CALL_MERGE) {
                answer->more = coin();
                answer->count = (unsigned)(draw() % 50);
                answer->entries = (struct eng_str){(const char *)page, answer->count * 100u}; /* whoever asked looks at them */
                noise(page, answer->entries.len);
        }
}

static void test_answers(void **state)
{
        static const int results[] = {0, -ENOENT, -EMSGSIZE, -EHOSTDOWN};
        uint8_t *page = malloc(200000);
        unsigned kind, round;

        for (kind = ENG_CALL_PUT; kind < ENG_CALL_KINDS; kind++)
                for (round = 0; round < 12; round++) {
                        struct eng_call_answer answer;
                        struct eng_call_bulk bulk;
                        struct message m;
                        int len;

                        answered = (enum eng_call_kind)kind;
                        some_answer(answered, results[round % 4], page, &answer);
                        len = eng_call_put_answer(answered, &answer, out, &bulk);
                        assert_true(len > 0);
                        message_copy(&m, out, (size_t)len, &bulk);
                        assert_true(take_answer(&m));
                        break_it(&m, take_answer);
                        message_free(&m);
                }
        free(page);
}

static void test_noise(void **state)
{
        unsigned i;

        for (i = 0; i < 20000; i++) {
                struct message m = {.len = draw() % 300, .bulk_len = draw() % 100};

                m.body = malloc(m.len + 1);
                m.bulk = malloc(m.bulk_len + 1);
                noise(m.body, m.len);
                noise(m.bulk, m.bulk_len);
                if (m.len > 0)
                        m.body[0] %= ENG_CALL_KINDS + 1;
                (void)take_call(&m);
                answered = (enum eng_call_kind)(1 + draw() % (ENG_CALL_KINDS - 1));
                (void)take_answer(&m);
                message_free(&m);
        }
}

int main(void)
{
        const char *s = getenv("SEED");
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_calls),
                cmocka_unit_test(test_what_arrives),
                cmocka_unit_test(test_nonsense),
                cmocka_unit_test(test_answers),
                cmocka_unit_test(test_noise),
        };

        seed = s != NULL ? strtoull(s, NULL, 10) : (uint64_t)time(NULL);
        printf("SEED=%llu\n", (unsigned long long)seed);
        return cmocka_run_group_tests(tests, begin_memory, end_memory);
}
