/*
 * history.c - linearizability of registers (Wing and Gong's search with Lowe's memory of states),
 * each name by itself.
 */
#include "tests/sim/history.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/history_versions.h"
#include "tests/sim/sim.h"

#define OPS_MAX    512u    /* of one register */
#define STATES_MAX 200000u /* looked at before a register is called too hard */
#define WORDS      (OPS_MAX / 64)
#define NEVER      UINT64_MAX

#define NAMES_MAX  4096u

static struct history_op *ops;
static unsigned *next_of; /* of each of them: the next one of its register */
static unsigned op_count, op_size;
static char names[NAMES_MAX][40];
static unsigned first_of[NAMES_MAX], last_of[NAMES_MAX];
static unsigned name_count;
static uint64_t instant;
static uint64_t settled[256];
static unsigned settled_count;

void history_begin(void)
{
        op_count = name_count = settled_count = 0;
        instant = 0;
        versions_begin();
}

uint64_t history_now(void)
{
        return ++instant;
}

unsigned history_name(const char *text)
{
        unsigned i;

        for (i = 0; i < name_count; i++)
                if (strcmp(names[i], text) == 0)
                        return i;
        assert(name_count < NAMES_MAX);
        snprintf(names[name_count], sizeof(names[0]), "%s", text);
        first_of[name_count] = HISTORY_END;
        return name_count++;
}

const char *history_text(unsigned name)
{
        return names[name];
}

static void *grown(void *array, size_t each)
{
        void *more = realloc(array, op_size * each);

        assert(more != NULL);
        return more;
}

struct history_op *history_add(unsigned name, enum history_kind kind, uint64_t asked)
{
        if (op_count == op_size) {
                op_size = op_size * 2 + 256;
                ops = grown(ops, sizeof(ops[0]));
                next_of = grown(next_of, sizeof(next_of[0]));
        }
        *(first_of[name] == HISTORY_END ? &first_of[name] : &next_of[last_of[name]]) = op_count;
        last_of[name] = op_count;
        next_of[op_count] = HISTORY_END;
        ops[op_count] = (struct history_op){.name = (uint16_t)name, .kind = (uint8_t)kind, .asked = asked};
        return &ops[op_count++];
}

unsigned history_count(void)
{
        return op_count;
}

struct history_op *history_at(unsigned i)
{
        return &ops[i];
}

unsigned history_first(unsigned name)
{
        return first_of[name];
}

unsigned history_next(unsigned i)
{
        return next_of[i];
}

void history_settled(void)
{
        assert(settled_count < sizeof(settled) / sizeof(settled[0]));
        settled[settled_count++] = history_now();
}

static bool changes(const struct history_op *op)
{
        return op->kind == H_WRITE || op->kind == H_DELETE || op->kind == H_UPDATE || op->kind == H_SEAL;
}

/* The first answer to a change of this name that was asked for behind that instant: changes of a name are made in turn. */
static uint64_t next_change(unsigned name, uint64_t since)
{
        uint64_t first = NEVER;
        unsigned i;

        for HISTORY_EACH (i, name)
                if (ops[i].asked > since && !ops[i].maybe && !ops[i].dropped && changes(&ops[i]) && ops[i].answered < first)
                        first = ops[i].answered;
        return first;
}

/* From when on it cannot take effect any more. */
static uint64_t end_of(const struct history_op *op)
{
        uint64_t end;
        unsigned i;

        if (!op->maybe)
                return op->answered;
        if (op->at_home && op->answered == 0)
                return NEVER;
        end = op->given_up ? next_change(op->name, op->answered) : NEVER;
        for (i = 0; i < settled_count && settled[i] < end; i++)
                if (settled[i] > op->asked && settled[i] > op->answered)
                        return settled[i];
        return end;
}

/* ---- one register ---------------------------------------------------------------------------- */

static bool needs_met(const struct history_op *op, uint64_t state)
{
        switch (op->need) {
        case NEED_ABSENT:
                return state == 0;
        case NEED_PRESENT:
                return state != 0;
        case NEED_CONTENT:
                return state != 0 && H_CONTENT(state) == op->content;
        }
        return true;
}

/* The state after op, or false if it cannot have happened in this one. */
static bool step(const struct history_op *op, uint64_t state, uint64_t *after)
{
        *after = state;
        if (op->kind >= H_ADD)
                return versions_step(op, state, after);
        if (state == H_SEALED)
                return op->kind == H_ABSENT || (op->kind == H_READ && op->value == 0);
        switch (op->kind) {
        case H_READ:
                return state == op->value;
        case H_WRITE:
                *after = op->value;
                return needs_met(op, state);
        case H_DELETE:
                *after = 0;
                return state != 0 && needs_met(op, state);
        case H_ABSENT:
                return state == 0;
        case H_PRESENT:
                return state != 0;
        case H_OTHER:
                return state != 0 && H_CONTENT(state) != op->content;
        case H_UPDATE:
                *after = H_VALUE(H_CONTENT(state), (uint32_t)op->value);
                return state != 0 && (op->maybe || H_CONTENT(state) == H_CONTENT(op->value)) && needs_met(op, state);
        case H_SEAL:
                *after = H_SEALED;
                return state == 0;
        }
        return false;
}

struct search {
        const struct history_op *op[OPS_MAX];
        uint64_t end[OPS_MAX];
        unsigned count, states;
        uint64_t done[WORDS];
        /* states seen: open addressing */
        struct seen {
                uint64_t hash, check;
        } * seen;
        unsigned seen_size, touched[STATES_MAX + 1], touched_count;
};

static bool is_done(const struct search *s, unsigned i)
{
        return (s->done[i / 64] >> i % 64 & 1) != 0;
}

/* True if this state was there before; two independent hashes stand for it. */
static bool seen_before(struct search *s, uint64_t state)
{
        uint64_t hash = sim_mix(state + 1), check = sim_mix(state ^ 0x5bd1e995);
        unsigned i, at;

        for (i = 0; i < WORDS; i++) {
                hash = sim_mix(hash ^ s->done[i]) + 0x9e3779b97f4a7c15ull;
                check = sim_mix(check + s->done[i]) ^ 0xbf58476d1ce4e5b9ull;
        }
        hash |= 1;
        for (at = (unsigned)(hash % s->seen_size); s->seen[at].hash != 0; at = (at + 1) % s->seen_size)
                if (s->seen[at].hash == hash && s->seen[at].check == check)
                        return true;
        s->seen[at] = (struct seen){hash, check};
        s->touched[s->touched_count++] = at;
        return false;
}

/* 1: explained; 0: not; -1: too hard. */
static int search(struct search *s, uint64_t state)
{
        uint64_t first = NEVER, after;
        unsigned i, left = 0, forced = s->count;
        int rv;

        for (i = 0; i < s->count; i++) {
                if (is_done(s, i))
                        continue;
                left += !s->op[i]->maybe;
                if (s->end[i] < first) {
                        first = s->end[i];
                        forced = i;
                }
        }
        if (left == 0)
                return 1;
        if (seen_before(s, state))
                return 0;
        if (++s->states > STATES_MAX)
                return -1;
        for (i = 0; i < s->count; i++) {
                if (is_done(s, i) || s->op[i]->asked > first || !step(s->op[i], state, &after))
                        continue;
                s->done[i / 64] |= 1ull << i % 64;
                rv = search(s, after);
                s->done[i / 64] &= ~(1ull << i % 64);
                if (rv != 0)
                        return rv;
        }
        if (forced == s->count || !s->op[forced]->maybe)
                return 0;
        s->done[forced / 64] |= 1ull << forced % 64; /* it never took effect */
        rv = search(s, state);
        s->done[forced / 64] &= ~(1ull << forced % 64);
        return rv;
}

static const char *const kind_names[] = {
        [H_READ] = "read",       [H_WRITE] = "write",      [H_DELETE] = "delete",    [H_ABSENT] = "absent",
        [H_PRESENT] = "present", [H_OTHER] = "other than", [H_UPDATE] = "update to", [H_SEAL] = "bucket gone",
        [H_ADD] = "add",         [H_CUT] = "cut",          [H_TAG] = "tag",          [H_HOLD] = "hold",
        [H_RETAIN] = "retain",   [H_KEPT] = "kept",        [H_ELSEWHERE] = "elsewhere",
        [H_HAS] = "has",         [H_HELD] = "held",        [H_LACKS] = "lacks",      [H_NEWEST] = "newest",
        [H_CURRENT] = "current", [H_ANOTHER] = "another",  [H_NONE] = "none",        [H_EMPTY] = "empty",
        [H_LIST] = "list"};

static void print_op(const struct history_op *op)
{
        printf("  client %u  %6llu .. %6llu%s  %-11s %u/%u", op->client, (unsigned long long)op->asked,
               (unsigned long long)op->answered, op->maybe ? "?" : " ", kind_names[op->kind], H_CONTENT(op->value),
               (uint32_t)op->value);
        if (op->kind >= H_ADD)
                versions_print(op);
        if (op->need != NEED_NOTHING)
                printf("  if %s %u",
                       op->need == NEED_ABSENT    ? "absent"
                       : op->need == NEED_PRESENT ? "present"
                                                  : "content",
                       op->content);
        if (op->maybe && end_of(op) != NEVER)
                printf("  settled at %llu", (unsigned long long)end_of(op));
        printf("\n");
}

void history_show(unsigned name)
{
        unsigned i;

        printf("%s:\n", names[name]);
        for HISTORY_EACH (i, name)
                if (!ops[i].dropped)
                        print_op(&ops[i]);
}

static int by_end(const void *a, const void *b)
{
        const struct history_op *x = *(const struct history_op *const *)a, *y = *(const struct history_op *const *)b;
        uint64_t p = x->maybe ? NEVER : x->answered, q = y->maybe ? NEVER : y->answered;

        if (p != q)
                return p < q ? -1 : 1;
        return x->asked < y->asked ? -1 : x->asked > y->asked;
}

static bool may_write(const struct history_op *op, uint64_t value)
{
        if (op->kind == H_WRITE)
                return op->value == value;
        return op->kind == H_UPDATE && (uint32_t)op->value == (uint32_t)value;
}

/* Some answer speaks of what this change, which may not have taken effect, would have left. */
static bool is_observed(const struct history_op *change)
{
        unsigned i;

        if (change->kind >= H_ADD)
                return versions_observed(change);
        if (change->kind != H_WRITE && change->kind != H_UPDATE)
                return true;
        for HISTORY_EACH (i, change->name) {
                const struct history_op *op = &ops[i];

                if (op->dropped || op->maybe)
                        continue;
                if (op->kind == H_READ && may_write(change, op->value))
                        return true;
                if (change->kind == H_WRITE &&
                    (H_CONTENT(op->value) == H_CONTENT(change->value) || op->content == H_CONTENT(change->value)))
                        return true;
        }
        return false;
}

/*
 * With all: also changes that may have taken effect and that nobody saw. Few histories need them,
 * and they make the search long.
 */
static int check_register(unsigned name, bool all)
{
        static struct search s;
        unsigned i;
        int rv;

        s.count = s.states = 0;
        memset(s.done, 0, sizeof(s.done));
        for (i = first_of[name]; i != HISTORY_END && s.count < OPS_MAX; i = next_of[i])
                if (!ops[i].dropped && (ops[i].maybe || ops[i].answered != 0) &&
                    (all || !ops[i].maybe || is_observed(&ops[i])))
                        s.op[s.count++] = &ops[i];
        if (s.count == OPS_MAX)
                return -1;
        qsort(s.op, s.count, sizeof(s.op[0]), by_end);
        for (i = 0; i < s.count; i++)
                s.end[i] = end_of(s.op[i]);
        if (s.seen == NULL) {
                s.seen_size = 2 * STATES_MAX + 3;
                s.seen = calloc(s.seen_size, sizeof(s.seen[0]));
                assert(s.seen != NULL);
        }
        versions_prepare(name);
        rv = search(&s, 0);
        while (s.touched_count > 0)
                s.seen[s.touched[--s.touched_count]].hash = 0;
        return rv;
}

unsigned history_check(void)
{
        unsigned i, hard = 0;

        for (i = 0; i < name_count; i++) {
                int rv = check_register(i, false);

                if (rv != 1)
                        rv = check_register(i, true);
                if (rv == 0) {
                        history_show(i);
                        sim_fail("the answers about %s contradict each other", names[i]);
                }
                hard += rv < 0;
        }
        return hard;
}

/* ---- what may have been there ---------------------------------------------------------------- */

uint64_t history_latest(const struct history_op *op)
{
        return op->answered == 0 ? NEVER : end_of(op);
}

/* Something else was surely put in its place after `since` and before `until`. */
static bool replaced(unsigned name, uint64_t since, uint64_t until, const struct history_op *but)
{
        unsigned i;

        for HISTORY_EACH (i, name)
                if (&ops[i] != but && !ops[i].dropped && !ops[i].maybe && changes(&ops[i]) &&
                    ops[i].asked > since && history_latest(&ops[i]) < until)
                        return true;
        return false;
}

/* What this change left may have been there at some time between these. */
static bool may_last(const struct history_op *change, uint64_t asked, uint64_t answered)
{
        return !change->dropped && change->asked <= answered && !replaced(change->name, history_latest(change), asked, change);
}

bool history_possible(unsigned name, uint64_t value, uint64_t asked, uint64_t answered)
{
        unsigned i;

        for HISTORY_EACH (i, name) {
                const struct history_op *op = &ops[i];

                if ((value == 0 ? (op->kind == H_DELETE || op->kind == H_SEAL) : may_write(op, value)) && may_last(op, asked, answered))
                        return true;
        }
        return value == 0 && !replaced(name, 0, asked, NULL); /* as it was in the beginning */
}

bool history_possibly_there(unsigned name, uint64_t asked, uint64_t answered)
{
        unsigned i;

        for HISTORY_EACH (i, name)
                if ((ops[i].kind == H_WRITE || ops[i].kind == H_UPDATE) && may_last(&ops[i], asked, answered))
                        return true;
        return false;
}
