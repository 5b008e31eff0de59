/*
 * memory_etcd.h - an etcd in memory behind the table of functions, of single keys and few changes,
 * that loses requests, answers and time at a word. One loop.
 */
#ifndef MILLRACE_TEST_MEMORY_ETCD_H
#define MILLRACE_TEST_MEMORY_ETCD_H

#include "tests/unit/cluster/etcd_fixture.h"

#define MEMORY_CHANGES 64u
#define MEMORY_VALUE   16u

struct memory_change {
        char key;
        char value[MEMORY_VALUE]; /* "": deleted */
        int64_t revision, create_revision, version;
};

enum memory_fate { FATE_ANSWERED, FATE_ANSWER_LOST, FATE_NEVER, FATE_LATE, FATE_REFUSED, FATE_UNREACHABLE, FATE_FULL, FATE_FULL_DONE };

struct memory_etcd {
        struct cl_etcd base;
        int64_t revision, compacted;
        struct memory_change changes[MEMORY_CHANGES];
        unsigned count;
        enum memory_fate fate; /* of requests that change something; the others are ANSWERED or UNREACHABLE */
        enum memory_fate read_fate;
        struct cl_request late; /* a copy of what is carried out later */
        struct cl_op late_op;
        bool has_late;
        enum cl_verdict distrusted;
        void (*before)(struct memory_etcd *memory, struct cl_request *request); /* may change fates and keys */
        int64_t applied; /* revision of the last change that came by a request; 0: none */
};

static inline const struct memory_change *memory_find(const struct memory_etcd *memory, char key, int64_t revision)
{
        unsigned i;

        for (i = memory->count; i > 0; i--) {
                if (memory->changes[i - 1].key == key && memory->changes[i - 1].revision <= revision)
                        return memory->changes[i - 1].value[0] != '\0' ? &memory->changes[i - 1] : NULL;
        }
        return NULL;
}

/* value "": deletes. */
static inline int64_t memory_put(struct memory_etcd *memory, char key, const char *value)
{
        const struct memory_change *old = memory_find(memory, key, memory->revision);
        struct memory_change *change = &memory->changes[memory->count];

        MUST(memory->count++ < MEMORY_CHANGES);
        change->key = key;
        snprintf(change->value, sizeof(change->value), "%s", value);
        change->revision = ++memory->revision;
        change->create_revision = old != NULL ? old->create_revision : change->revision;
        change->version = old != NULL ? old->version + 1 : 1;
        return change->revision;
}

static inline bool memory_holds(const struct memory_etcd *memory, const struct cl_compare *compare)
{
        const struct memory_change *now = memory_find(memory, *(const char *)compare->key.data, memory->revision);

        switch (compare->kind) {
        case CL_COMPARE_MOD:
                return (now != NULL ? now->revision : 0) == compare->number;
        case CL_COMPARE_VERSION:
                return (now != NULL ? now->version : 0) == compare->number;
        case CL_COMPARE_VALUE:
                return now != NULL && bytes_are(compare->value, now->value);
        }
        return false;
}

static inline void memory_show(const struct memory_etcd *memory, struct cl_answer *answer, unsigned range,
                               struct cl_bytes name, int64_t revision)
{
        const struct memory_change *now = memory_find(memory, *(const char *)name.data, revision);
        struct cl_key key = {.key = name};

        if (now == NULL)
                return;
        key.value = bytes_of(now->value);
        key.mod_revision = now->revision;
        key.create_revision = now->create_revision;
        key.version = now->version;
        MUST(cl_answer_add(answer, range, &key) == 0);
}

static inline struct cl_answer *memory_txn(struct memory_etcd *memory, const struct cl_request *request)
{
        const struct cl_op *ops = request->success;
        unsigned count = request->success_count, i;
        struct cl_answer *answer = cl_answer_new(count > request->failure_count ? count : request->failure_count);

        answer->succeeded = true;
        for (i = 0; i < request->compare_count; i++)
                answer->succeeded = answer->succeeded && memory_holds(memory, &request->compares[i]);
        if (!answer->succeeded) {
                ops = request->failure;
                count = request->failure_count;
        }
        for (i = 0; i < count; i++) {
                char value[MEMORY_VALUE];

                if (ops[i].kind == CL_OP_PUT) {
                        snprintf(value, sizeof(value), "%.*s", (int)ops[i].value.len, (const char *)ops[i].value.data);
                        memory->applied = memory_put(memory, *(const char *)ops[i].key.data, value);
                }
                if (ops[i].kind == CL_OP_RANGE)
                        memory_show(memory, answer, i, ops[i].key, memory->revision);
        }
        answer->revision = memory->revision;
        return answer;
}

/* What is late comes now. */
static inline void memory_flush(struct memory_etcd *memory)
{
        if (memory->has_late)
                cl_answer_free(memory_txn(memory, &memory->late));
        memory->has_late = false;
}

static inline void memory_change(struct memory_etcd *memory, struct cl_request *request)
{
        struct cl_answer *answer = NULL;

        if (memory->fate == FATE_ANSWERED || memory->fate == FATE_ANSWER_LOST || memory->fate == FATE_FULL_DONE)
                answer = memory_txn(memory, request);
        switch (memory->fate) {
        case FATE_ANSWERED:
                cl_request_end(request, CL_DONE, 0, answer, "%s", "");
                return;
        case FATE_REFUSED:
        case FATE_UNREACHABLE:
                cl_request_end(request, CL_FAILED_SURE, -EHOSTUNREACH, NULL, "refused");
                return;
        case FATE_LATE:
                /* what a CAS points to stays until it ends, and its copy here is used no longer */
                memory->late = *request;
                memory->late_op = request->success[0];
                memory->late.success = &memory->late_op;
                memory->has_late = true;
                break;
        case FATE_FULL:
        case FATE_FULL_DONE:
                cl_answer_free(answer);
                cl_request_end(request, CL_UNKNOWN, -ENOSPC, NULL, "database space exceeded");
                return;
        case FATE_ANSWER_LOST:
        case FATE_NEVER:
                break;
        }
        cl_answer_free(answer);
        cl_request_end(request, CL_UNKNOWN, -ETIMEDOUT, NULL, "no answer");
}

static inline void memory_submit(struct cl_etcd *base, struct cl_request *request)
{
        struct memory_etcd *memory = container_of(base, struct memory_etcd, base);
        struct cl_answer *answer;

        MUST(cl_request_check(request) == 0);
        if (memory->before != NULL)
                memory->before(memory, request);
        if (cl_request_changes(request)) {
                memory_change(memory, request);
        } else if (memory->read_fate == FATE_UNREACHABLE) {
                cl_request_end(request, CL_FAILED_SURE, -EHOSTUNREACH, NULL, "unreachable");
        } else if (request->kind == CL_TXN) {
                cl_request_end(request, CL_DONE, 0, memory_txn(memory, request), "%s", "");
        } else if (request->at_revision != 0 && request->at_revision < memory->compacted) {
                cl_request_end(request, CL_FAILED_SURE, -ESTALE, NULL, "compacted");
        } else {
                answer = cl_answer_new(1);
                memory_show(memory, answer, 0, request->key,
                            request->at_revision != 0 ? request->at_revision : memory->revision);
                answer->revision = memory->revision;
                cl_request_end(request, CL_DONE, 0, answer, "%s", "");
        }
}

static inline void memory_seen(struct cl_etcd *base, struct cl_seen *out)
{
        *out = (struct cl_seen){.cluster_id = 1, .revision = container_of(base, struct memory_etcd, base)->revision};
}

static inline void memory_distrust(struct cl_etcd *base, enum cl_verdict verdict)
{
        container_of(base, struct memory_etcd, base)->distrusted = verdict;
}

static inline void memory_free(struct cl_etcd *base)
{
}

static const struct cl_etcd_ops memory_ops = {memory_submit, memory_seen, memory_distrust, memory_free};

#endif
