/* ops.c - see ops.h. Each operation is a chain of the engine's calls and callbacks on one loop. */
#include "bench/micro/ops.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "load_content.h"

#define PIECE (256u << 10) /* bytes offered to a put at once */

static struct eng_str name_key(struct rig_op *op, uint64_t number)
{
        int n = snprintf(op->key, sizeof(op->key), "%012llu", (unsigned long long)number);

        return (struct eng_str){op->key, (size_t)n};
}

/* ---- put ------------------------------------------------------------------------------------- */

static void put_done(void *arg, int rv, const struct eng_object *object)
{
        struct rig_op *op = arg;

        rig_op_done(op, rv, op->run->size, 0);
}

static void put_more(void *arg)
{
        struct rig_op *op = arg;
        struct rig_run *run = op->run;
        struct eng_put_commit commit = {.attrs = "", .attrs_len = 0};

        while (op->at < run->size) {
                uint64_t from = (op->index * 4099 + op->at) % RIG_PATTERN;
                size_t n = run->size - op->at < PIECE ? (size_t)(run->size - op->at) : PIECE;
                ssize_t taken = eng_put_write(op->put, run->rig->pattern + from, n);

                if (taken < 0) {
                        eng_put_abort(op->put);
                        rig_op_done(op, (int)taken, 0, 0);
                        return;
                }
                op->at += (uint64_t)taken;
                if ((size_t)taken < n)
                        return; /* goes on when woken */
        }
        if (run->md5 && !eng_put_md5_ready(op->put))
                return;
        if (run->md5)
                eng_put_md5(op->put, commit.etag);
        eng_put_commit(op->put, &commit, put_done, op);
}

static void put_key(struct rig_op *op, uint64_t number)
{
        struct rig_run *run = op->run;
        struct eng_put_params params = {.bucket = run->rig->bucket,
                                        .key = name_key(op, number),
                                        .size = run->size,
                                        .md5 = run->md5,
                                        .wake = put_more,
                                        .arg = op};
        int rv = eng_put_open(run->rig->store, &params, &op->put);

        if (rv != 0)
                rig_op_done(op, rv, 0, 0);
        else
                put_more(op);
}

void op_put(struct rig_op *op)
{
        put_key(op, op->run->first + op->index);
}

void op_overwrite(struct rig_op *op)
{
        put_key(op, load_mix(op->index) % op->run->keys);
}

/* ---- get ------------------------------------------------------------------------------------- */

static void get_more(void *arg)
{
        struct rig_op *op = arg;
        const uint8_t *data;
        size_t len;
        int rv;

        while ((rv = eng_get_next(op->get, &data, &len)) == 0)
                op->at += len;
        if (rv == -EAGAIN)
                return;
        eng_get_close(op->get);
        if (rv == -ENODATA)
                rv = op->at == op->run->size ? 0 : -EMSGSIZE;
        rig_op_done(op, rv, op->at, 0);
}

static void read_opened(void *arg, int rv, struct eng_get *get)
{
        struct rig_op *op = arg;

        if (rv == 0) {
                op->get = get;
                rv = eng_get_start(get, 0, op->run->size, get_more, op);
                if (rv != 0)
                        eng_get_close(get);
        }
        if (rv != 0)
                rig_op_done(op, rv, 0, 0);
        else
                get_more(op);
}

void op_read(struct rig_op *op)
{
        struct rig *rig = op->run->rig;

        eng_get_open(rig->store, rig->bucket, name_key(op, load_once(op->index % op->run->keys, op->run->keys)),
                     NULL, read_opened, op);
}

static void lookup_opened(void *arg, int rv, struct eng_get *get)
{
        if (rv == 0)
                eng_get_close(get);
        rig_op_done(arg, rv, 0, 0);
}

void op_lookup(struct rig_op *op)
{
        struct rig *rig = op->run->rig;

        eng_get_open(rig->store, rig->bucket, name_key(op, load_mix(op->index) % op->run->keys), NULL, lookup_opened, op);
}

/* ---- list ------------------------------------------------------------------------------------ */

static void listed(void *arg, int rv, const struct eng_list_entry *entries, unsigned count, bool more)
{
        struct rig_op *op = arg;

        if (rv == 0 && count != op->run->max)
                rv = -EMSGSIZE;
        rig_op_done(op, rv, 0, count);
}

void op_list(struct rig_op *op)
{
        struct rig_run *run = op->run;
        struct eng_list_params params = {.bucket = run->rig->bucket, .max = run->max};

        params.after = name_key(op, load_mix(op->index) % (run->keys - run->max));
        eng_list(run->rig->store, &params, listed, op);
}
