/*
 * etcd_request.c - requests and answers as values: their bounds, their memory, and how a request
 * ends. Used by the real client and by those that stand in for it.
 */
#include "cluster_etcd.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers --------------------------------------------------------------------------------- */

struct cl_answer *cl_answer_new(unsigned range_count)
{
        struct cl_answer *answer = calloc(1, sizeof(*answer));

        if (answer == NULL)
                return NULL;
        answer->ranges = calloc(range_count > 0 ? range_count : 1, sizeof(*answer->ranges));
        if (answer->ranges == NULL) {
                free(answer);
                return NULL;
        }
        answer->range_count = range_count;
        atomic_init(&answer->holders, 1);
        return answer;
}

void cl_answer_hold(struct cl_answer *answer)
{
        atomic_fetch_add(&answer->holders, 1);
}

static int keys_make_room(struct cl_keys *keys)
{
        size_t room = keys->room > 0 ? keys->room * 2 : 8;
        struct cl_key *at;

        if (keys->count < keys->room)
                return 0;
        at = realloc(keys->at, room * sizeof(*at));
        if (at == NULL)
                return -ENOMEM;
        keys->at = at;
        keys->room = room;
        return 0;
}

static void bytes_copy(char *to, struct cl_bytes from)
{
        if (from.len > 0)
                memcpy(to, from.data, from.len);
}

int cl_answer_add(struct cl_answer *answer, unsigned range, const struct cl_key *key)
{
        struct cl_keys *keys = &answer->ranges[range];
        size_t len = key->key.len + key->value.len;
        char *memory;
        int rv;

        if (key->key.len > CL_ANSWER_MAX || key->value.len > CL_ANSWER_MAX ||
            len + CL_KEY_COST > CL_ANSWER_MAX - answer->bytes)
                return -EMSGSIZE;
        rv = keys_make_room(keys);
        if (rv != 0)
                return rv;
        memory = malloc(len > 0 ? len : 1);
        if (memory == NULL)
                return -ENOMEM;
        bytes_copy(memory, key->key);
        bytes_copy(memory + key->key.len, key->value);
        keys->at[keys->count] = *key;
        keys->at[keys->count].key.data = memory;
        keys->at[keys->count].value.data = memory + key->key.len;
        keys->count++;
        answer->bytes += len + CL_KEY_COST;
        return 0;
}

void cl_answer_free(struct cl_answer *answer)
{
        unsigned i;
        size_t k;

        if (answer == NULL || atomic_fetch_sub(&answer->holders, 1) > 1)
                return;
        for (i = 0; i < answer->range_count; i++) {
                for (k = 0; k < answer->ranges[i].count; k++)
                        free((void *)answer->ranges[i].at[k].key.data);
                free(answer->ranges[i].at);
        }
        free(answer->ranges);
        free(answer);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static bool ops_change(const struct cl_op *ops, unsigned count)
{
        unsigned i;

        for (i = 0; i < count; i++) {
                if (ops[i].kind != CL_OP_RANGE)
                        return true;
        }
        return false;
}

bool cl_request_changes(const struct cl_request *request)
{
        return request->kind == CL_TXN && (ops_change(request->success, request->success_count) ||
                                           ops_change(request->failure, request->failure_count));
}

/* Adds what it takes of CL_TXN_BYTES_MAX. */
static bool bytes_fit(struct cl_bytes key, struct cl_bytes value, size_t *total)
{
        if (key.len == 0 || key.len > CL_KEY_MAX || value.len > CL_VALUE_MAX)
                return false;
        *total += key.len + value.len;
        return *total <= CL_TXN_BYTES_MAX;
}

static bool ops_fit(const struct cl_op *ops, unsigned count, size_t *total)
{
        unsigned i;

        if (count > CL_OPS_MAX)
                return false;
        for (i = 0; i < count; i++) {
                if (ops[i].kind > CL_OP_RANGE || !bytes_fit(ops[i].key, ops[i].value, total))
                        return false;
        }
        return true;
}

static bool txn_fits(const struct cl_request *request)
{
        size_t total = 0;
        unsigned i;

        if (request->compare_count > CL_COMPARES_MAX)
                return false;
        for (i = 0; i < request->compare_count; i++) {
                const struct cl_compare *compare = &request->compares[i];

                if (compare->kind > CL_COMPARE_VALUE || compare->number < 0 ||
                    !bytes_fit(compare->key, compare->value, &total))
                        return false;
        }
        return ops_fit(request->success, request->success_count, &total) &&
               ops_fit(request->failure, request->failure_count, &total);
}

int cl_request_check(const struct cl_request *request)
{
        switch (request->kind) {
        case CL_RANGE:
                return request->key.len > 0 && request->key.len <= CL_KEY_MAX && request->min_mod_revision >= 0 &&
                                       request->at_revision >= 0
                               ? 0
                               : -EINVAL;
        case CL_TXN:
                return txn_fits(request) ? 0 : -EINVAL;
        case CL_STATUS:
                return request->member <= CL_ENDPOINTS_MAX ? 0 : -EINVAL;
        }
        return -EINVAL;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void request_ended(struct lp_msg *msg)
{
        struct cl_request *request = container_of(msg, struct cl_request, msg);
        struct cl_answer *answer = request->answer;

        request->done(request);
        cl_answer_free(answer);
}

void cl_request_end(struct cl_request *request, enum cl_outcome outcome, int error, struct cl_answer *answer,
                    const char *format, ...)
{
        va_list args;

        request->outcome = outcome;
        request->error = outcome == CL_DONE ? 0 : error;
        request->answer = answer;
        va_start(args, format);
        vsnprintf(request->text, sizeof(request->text), format, args);
        va_end(args);
        request->msg.run = request_ended;
        lp_post(request->home, &request->msg);
}

/* ---- the table ------------------------------------------------------------------------------- */

void cl_etcd_submit(struct cl_etcd *etcd, struct cl_request *request)
{
        request->home = lp_self();
        assert(request->home != NULL);
        request->answer = NULL;
        etcd->ops->submit(etcd, request);
}

void cl_etcd_seen(struct cl_etcd *etcd, struct cl_seen *out)
{
        etcd->ops->seen(etcd, out);
}

void cl_etcd_distrust(struct cl_etcd *etcd, enum cl_verdict verdict)
{
        etcd->ops->distrust(etcd, verdict);
}

void cl_etcd_free(struct cl_etcd *etcd)
{
        if (etcd != NULL)
                etcd->ops->free(etcd);
}
