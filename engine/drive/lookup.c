/*
 * lookup.c - LOOKUP: the newest visible value of one name.
 *
 * Looks in the active generation, the frozen one, then the index, and stops at the first that speaks for the name: generations only ever
 * grow newer (append.c sees to records that come late). Inline bytes come from the cache or from the record in the log
 * (recread.c), verified either way (I5). owner: the loop.
 */
#include "engine/drive/local.h"

#include <errno.h>
#include <string.h>

/* A copy of an index value as an answer; 0, -ENOMEM or -EBADMSG. */
static int copy_value(const struct eng_index_entry *found, struct eng_buf **out)
{
        struct eng_buf *value;

        if (eng_value_check(found->value, found->value_len) != 0)
                return -EBADMSG;
        value = eng_buf_new(found->value_len);
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
        const struct eng_tail_name *entry = eng_tail_find(l->active, name, len);

        if (entry == NULL && l->frozen != NULL)
                entry = eng_tail_find(l->frozen, name, len);
        if (entry == NULL)
                return find_in_index(l, name, len, out);
        if (entry->kind != ENG_TAIL_PUT)
                return -ENOENT;
        *out = eng_buf_ref(entry->value);
        return 0;
}

/* The value is found; its bytes are wanted. */
static void give_bytes(struct eng_local *l, struct eng_op *op, const struct fmt_value *value)
{
        size_t expect = sizeof(struct fmt_record) + sizeof(struct fmt_mutation) + op->lookup.name_len +
                        op->lookup.value->len + value->inline_len;

        op->lookup.bytes = eng_cache_get(l->cache, value->id);
        eng_count(op->lookup.bytes != NULL ? &l->figures.cache_hits : &l->figures.cache_misses, 1);
        if (op->lookup.bytes != NULL && op->lookup.bytes->len == value->inline_len) {
                eng_local_answer(op, 0);
                return;
        }
        eng_buf_unref(op->lookup.bytes);
        op->lookup.bytes = NULL;
        eng_rec_read(l, op, value->log_file, value->log_position, expect);
}

void eng_lookup_op(struct eng_local *l, struct eng_op *op)
{
        const struct fmt_value *value;
        int rv = -EINVAL;

        op->lookup.value = op->lookup.bytes = NULL;
        if (op->lookup.name_len > 0 && op->lookup.name_len <= FMT_NAME_MAX)
                rv = eng_lookup_value(l, op->lookup.name, op->lookup.name_len, &op->lookup.value);
        eng_local_index_error(l, rv);
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
