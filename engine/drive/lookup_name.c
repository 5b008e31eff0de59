/*
 * lookup_name.c - LOOKUP: the newest visible value of one name.
 *
 * Looks in the active generation, the frozen one, then the index, and stops at the first that
 * speaks for the name: generations only ever grow newer (append.c sees to records that come late).
 * Inline bytes come from the cache or from the record in the log (recread.c), verified either way
 * (I5). Pages of the index that are not in memory are waited for (pages.c). owner: the loop.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* A copy of an index value as an answer; 0 or -ENOMEM. */
static int copy_value(const struct eng_index_entry *found, struct eng_buf **out)
{
        struct eng_buf *value = eng_buf_new(found->value_len);

        assert(found->value_len >= sizeof(struct fmt_value)); /* index.h */
        if (value == NULL)
                return -ENOMEM;
        memcpy(value->data, found->value, found->value_len);
        ((struct fmt_value *)value->data)->crc = 0;
        *out = value;
        return 0;
}

static int find_in_index(struct eng_local *l, const uint8_t *name, size_t len, struct eng_buf **out)
{
        struct eng_index_entry found;
        int rv;

        rv = eng_index_read_begin(l->reader);
        if (rv != 0)
                return rv;
        rv = eng_index_get(l->reader, name, len, &found);
        if (rv == 0)
                rv = copy_value(&found, out);
        eng_index_read_end(l->reader);
        return rv;
}

int eng_lookup_value(struct eng_local *l, const uint8_t *name, size_t len, struct eng_buf **out)
{
        const struct eng_memtable_name *entry = eng_memtable_find(l->active, name, len);

        if (entry == NULL && l->frozen != NULL)
                entry = eng_memtable_find(l->frozen, name, len);
        if (entry == NULL)
                return find_in_index(l, name, len, out);
        if (entry->kind != ENG_MEMTABLE_PUT)
                return -ENOENT;
        assert(entry->value->len >= sizeof(struct fmt_value));
        *out = eng_buf_ref(entry->value);
        return 0;
}

/* The value is found; its bytes are wanted. */
static void give_bytes(struct eng_local *l, struct eng_op *op, const struct fmt_value *value)
{
        size_t expect = sizeof(struct fmt_record) + sizeof(struct fmt_mutation) + op->lookup.name_len +
                        op->lookup.value->len + value->inline_len;

        if (value->space == FMT_SPACE_VERSION) /* the key's head comes before it */
                expect += sizeof(struct fmt_mutation) + op->lookup.name_len + sizeof(*value) + eng_field_size(sizeof(struct fmt_head));
        op->lookup.bytes = eng_cache_get(l->cache, value->id);
        eng_count(op->lookup.bytes != NULL ? &l->statistics.cache_hits : &l->statistics.cache_misses, 1);
        if (op->lookup.bytes != NULL && op->lookup.bytes->len == value->inline_len) {
                eng_local_answer(op, 0);
                return;
        }
        eng_buf_unref(op->lookup.bytes);
        op->lookup.bytes = NULL;
        eng_rec_read(l, op, value->log_file, value->log_position, expect);
}

static void lookup_again(struct eng_local *l, struct eng_page_wait *wait, int rv);

static void lookup_now(struct eng_local *l, struct eng_op *op)
{
        const struct fmt_value *value;
        int rv;

        assert(op->lookup.value == NULL && op->lookup.bytes == NULL);
        rv = eng_lookup_value(l, op->lookup.name, op->lookup.name_len, &op->lookup.value);
        if (rv == ENG_INDEX_ABSENT) {
                eng_pages_wait_op(l, op, lookup_again);
                return;
        }
        eng_local_index_error(l, rv);
        if (rv == 0 && (op->flags & ENG_OP_WANT_RECORD) != 0 && op->lookup.value->len >= sizeof(*value)) {
                value = (const struct fmt_value *)op->lookup.value->data;
                if (eng_rot_in_log(l, value->log_file, value->log_position)) {
                        eng_buf_unref(op->lookup.value);
                        op->lookup.value = NULL;
                        eng_local_answer(op, -EBADMSG);
                        return;
                }
        }
        if (rv == 0 && eng_value_check(op->lookup.value->data, op->lookup.value->len) != 0) { /* as it was put: no damage of the index */
                eng_buf_unref(op->lookup.value);
                op->lookup.value = NULL;
                rv = -EBADMSG;
        }
        if (rv != 0) {
                eng_local_answer(op, rv == -ENOMEM ? -EAGAIN : rv);
                return;
        }
        value = (const struct fmt_value *)op->lookup.value->data;
        if ((op->flags & ENG_OP_WANT_INLINE) != 0 && (value->flags & FMT_VALUE_INLINE) != 0 && value->inline_len > 0)
                give_bytes(l, op, value);
        else
                eng_local_answer(op, 0);
}

static void lookup_again(struct eng_local *l, struct eng_page_wait *wait, int rv)
{
        struct eng_op *op = eng_pages_op(wait);

        if (rv == 0)
                lookup_now(l, op);
        else if (rv != -ECANCELED)
                eng_local_answer(op, rv);
}

void eng_lookup_op(struct eng_local *l, struct eng_op *op)
{
        op->lookup.value = op->lookup.bytes = NULL;
        eng_pages_of_op(op)->tries = 0;
        if (op->lookup.name_len > 0 && op->lookup.name_len <= FMT_NAME_MAX)
                lookup_now(l, op);
        else
                eng_local_answer(op, -EINVAL);
}
