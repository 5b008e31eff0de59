/*
 * memory_etcd.c - an etcd in memory.
 */
#include "tests/lib/memory_etcd.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct memory_etcd *me_of(struct cl_etcd *etcd)
{
        return (struct memory_etcd *)etcd;
}

static struct me_key *me_find(struct memory_etcd *me, struct cl_bytes key)
{
        unsigned i;

        for (i = 0; i < me->used; i++)
                if (me->keys[i].mod_revision != 0 && strlen(me->keys[i].key) == key.len && memcmp(me->keys[i].key, key.data, key.len) == 0)
                        return &me->keys[i];
        return NULL;
}

static void me_keep_past(struct memory_etcd *me, struct me_key *k)
{
        if (me->past_count == me->past_size) {
                me->past_size = 2 * me->past_size + 16;
                me->past = realloc(me->past, me->past_size * sizeof(*me->past));
                assert(me->past != NULL);
        }
        me->past[me->past_count++] = *k;
        k->value = NULL;
}

static void me_store(struct memory_etcd *me, struct cl_bytes key, const void *value, size_t len)
{
        struct me_key *k = me_find(me, key);
        unsigned i;

        for (i = 0; k == NULL && i < ME_KEYS; i++)
                if (me->keys[i].mod_revision == 0)
                        k = &me->keys[i];
        if (i > me->used)
                me->used = i;
        assert(k != NULL && key.len < sizeof(k->key));
        if (k->mod_revision == 0) {
                memcpy(k->key, key.data, key.len);
                k->key[key.len] = 0;
                k->create_revision = me->revision;
                k->version = 0;
        }
        if (k->mod_revision != 0)
                me_keep_past(me, k);
        k->value = malloc(len + 1);
        assert(k->value != NULL);
        memcpy(k->value, value, len);
        k->len = len;
        k->mod_revision = me->revision;
        k->version++;
}

static bool me_holds(struct memory_etcd *me, const struct cl_compare *c)
{
        const struct me_key *k = me_find(me, c->key);

        switch (c->kind) {
        case CL_COMPARE_MOD:
                return (k == NULL ? 0 : k->mod_revision) == c->number;
        case CL_COMPARE_VERSION:
                return (k == NULL ? 0 : k->version) == c->number;
        case CL_COMPARE_VALUE:
                break;
        }
        return k != NULL && k->len == c->value.len && memcmp(k->value, c->value.data, k->len) == 0;
}

/* A key as it was then; NULL: it was not there. */
static const struct me_key *me_at(const struct memory_etcd *me, const struct me_key *now, int64_t revision)
{
        size_t i;

        if (now->mod_revision <= revision)
                return now;
        for (i = me->past_count; i-- > 0;)
                if (strcmp(me->past[i].key, now->key) == 0 && me->past[i].mod_revision <= revision)
                        return &me->past[i];
        return NULL;
}

static void me_add(struct cl_answer *answer, unsigned range, struct memory_etcd *me, struct cl_bytes key, bool prefix, int64_t least, int64_t revision)
{
        unsigned i;

        for (i = 0; i < me->used; i++) {
                const struct me_key *k = &me->keys[i];
                size_t len = strlen(k->key);
                struct cl_key out;

                if (k->mod_revision == 0 || (k = me_at(me, k, revision)) == NULL)
                        continue;
                out = (struct cl_key){.key = {k->key, len},
                                     .value = {k->value, k->len},
                                     .mod_revision = k->mod_revision,
                                     .create_revision = k->create_revision,
                                     .version = k->version};

                if (k->mod_revision >= least && (prefix ? len >= key.len : len == key.len) &&
                    memcmp(k->key, key.data, key.len) == 0)
                        assert(cl_answer_add(answer, range, &out) == 0);
        }
}

/* What was there is not among the past: nobody asks for it. */
static void me_remove(struct memory_etcd *me, const struct cl_op *op)
{
        unsigned i;

        for (i = 0; i < me->used; i++) {
                struct me_key *k = &me->keys[i];
                size_t len = strlen(k->key);

                if (k->mod_revision == 0 || (op->prefix ? len < op->key.len : len != op->key.len) || memcmp(k->key, op->key.data, op->key.len) != 0)
                        continue;
                free(k->value);
                memset(k, 0, sizeof(*k));
        }
}

static void me_txn(struct memory_etcd *me, const struct cl_request *r, struct cl_answer *answer)
{
        const struct cl_op *ops = r->success;
        unsigned i, n = r->success_count, range = 0;

        answer->succeeded = true;
        for (i = 0; i < r->compare_count; i++)
                answer->succeeded &= me_holds(me, &r->compares[i]);
        if (!answer->succeeded) {
                ops = r->failure;
                n = r->failure_count;
        }
        for (i = 0; i < n; i++)
                if (ops[i].kind != CL_OP_RANGE) {
                        me->revision++;
                        me->changes++;
                        break;
                }
        for (i = 0; i < n; i++) {
                if (ops[i].kind == CL_OP_DELETE)
                        me_remove(me, &ops[i]);
                else if (ops[i].kind == CL_OP_PUT)
                        me_store(me, ops[i].key, ops[i].value.data, ops[i].value.len);
                else
                        me_add(answer, range++, me, ops[i].key, ops[i].prefix, 0, INT64_MAX);
        }
}

static unsigned count_ranges(const struct cl_request *r)
{
        unsigned i, success = 0, failure = 0;

        for (i = 0; i < r->success_count; i++)
                success += r->success[i].kind == CL_OP_RANGE;
        for (i = 0; i < r->failure_count; i++)
                failure += r->failure[i].kind == CL_OP_RANGE;
        return r->kind == CL_RANGE ? 1 : success > failure ? success : failure;
}

struct cl_answer *me_carry_out(struct memory_etcd *me, const struct cl_request *request)
{
        struct cl_answer *answer = cl_answer_new(count_ranges(request));

        assert(answer != NULL && cl_request_check(request) == 0);
        if (request->kind == CL_RANGE)
                me_add(answer, 0, me, request->key, request->prefix, request->min_mod_revision, request->at_revision > 0 ? request->at_revision : INT64_MAX);
        else if (request->kind == CL_TXN)
                me_txn(me, request, answer);
        answer->revision = me->revision;
        return answer;
}

static void me_submit(struct cl_etcd *etcd, struct cl_request *request)
{
        struct memory_etcd *me = me_of(etcd);
        struct cl_answer *answer;
        bool lost;

        pthread_mutex_lock(&me->lock);
        if (me->silent) {
                pthread_mutex_unlock(&me->lock);
                cl_request_end(request, CL_FAILED_SURE, -EHOSTUNREACH, NULL, "etcd is silent");
                return;
        }
        if (me->full && cl_request_changes(request)) {
                pthread_mutex_unlock(&me->lock);
                cl_request_end(request, CL_UNKNOWN, -ENOSPC, NULL, "database space exceeded");
                return;
        }
        answer = me_carry_out(me, request);
        lost = me->lose_answers > 0 && me->changes > me->lose_after && cl_request_changes(request);
        me->lose_answers -= lost;
        pthread_mutex_unlock(&me->lock);
        if (lost) {
                cl_answer_free(answer);
                cl_request_end(request, CL_UNKNOWN, -ETIMEDOUT, NULL, "the answer was lost");
        } else {
                cl_request_end(request, CL_DONE, 0, answer, "%s", "");
        }
}

static void me_seen(struct cl_etcd *etcd, struct cl_seen *out)
{
        *out = me_of(etcd)->seen;
}

static void me_distrust(struct cl_etcd *etcd, enum cl_verdict verdict)
{
}

static void me_no_free(struct cl_etcd *etcd)
{
}

void me_init(struct memory_etcd *me)
{
        static const struct cl_etcd_ops ops = {.submit = me_submit, .seen = me_seen, .distrust = me_distrust, .free = me_no_free};

        memset(me, 0, sizeof(*me));
        me->etcd.ops = &ops;
        me->revision = 1;
        pthread_mutex_init(&me->lock, NULL);
}

static void me_clear(struct memory_etcd *me)
{
        unsigned i;

        for (i = 0; i < me->used; i++)
                free(me->keys[i].value);
        memset(me->keys, 0, sizeof(me->keys));
        me->used = 0;
        while (me->past_count > 0)
                free(me->past[--me->past_count].value);
        free(me->past);
        me->past = NULL;
        me->past_size = 0;
}

void me_free(struct memory_etcd *me)
{
        me_clear(me);
        pthread_mutex_destroy(&me->lock);
}

void me_put(struct memory_etcd *me, const char *key, const void *value, size_t len)
{
        pthread_mutex_lock(&me->lock);
        me->revision++;
        me_store(me, (struct cl_bytes){key, strlen(key)}, value, len);
        pthread_mutex_unlock(&me->lock);
}

static void me_key_copy(struct me_key *to, const struct me_key *from)
{
        *to = *from;
        if (from->value == NULL)
                return;
        to->value = malloc(from->len + 1);
        assert(to->value != NULL);
        memcpy(to->value, from->value, from->len);
}

void me_copy(struct memory_etcd *to, const struct memory_etcd *from)
{
        unsigned i;

        to->revision = from->revision;
        me_clear(to);
        to->used = from->used;
        for (i = 0; i < from->used; i++)
                me_key_copy(&to->keys[i], &from->keys[i]);
        to->past = calloc(from->past_count + 1, sizeof(*to->past));
        assert(to->past != NULL);
        to->past_size = from->past_count + 1;
        for (; to->past_count < from->past_count; to->past_count++)
                me_key_copy(&to->past[to->past_count], &from->past[to->past_count]);
}

int64_t me_revision(struct memory_etcd *me, const char *key)
{
        const struct me_key *k;
        int64_t revision;

        pthread_mutex_lock(&me->lock);
        k = me_find(me, (struct cl_bytes){key, strlen(key)});
        revision = k == NULL ? 0 : k->mod_revision;
        pthread_mutex_unlock(&me->lock);
        return revision;
}

void me_set_silent(struct memory_etcd *me, bool silent)
{
        pthread_mutex_lock(&me->lock);
        me->silent = silent;
        pthread_mutex_unlock(&me->lock);
}

void me_set_full(struct memory_etcd *me, bool full)
{
        pthread_mutex_lock(&me->lock);
        me->full = full;
        pthread_mutex_unlock(&me->lock);
}
