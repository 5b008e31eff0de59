/*
 * test_etcd_cas.c - compare and set over an etcd that loses answers and delays requests: what is
 * said of an outcome is what came of it, then and later (R1). MILLRACE_SEED takes a seed back.
 */
#include "tests/unit/cluster/memory_etcd.h"

/* ---- one sight ------------------------------------------------------------------------------- */

static enum cl_cas_sight sight_of(int64_t compared, int64_t mod, int64_t version, const char *value, int64_t other,
                                  int64_t other_now)
{
        struct cl_compare compare = {.kind = CL_COMPARE_MOD, .key = TEXT("l"), .number = other};
        struct cl_cas cas = {.mod_revision = compared, .value = TEXT("own"), .others = &compare, .other_count = 1};
        struct cl_key now[2] = {{.value = bytes_of(value), .mod_revision = mod, .version = version},
                                {.mod_revision = other_now}};

        return cl_cas_judge(&cas, now);
}

static void test_sights(void **state)
{
        /* the old value proves nothing, whatever it is */
        assert_int_equal(sight_of(5, 5, 1, "old", 3, 3), CL_SIGHT_UNDECIDED);
        assert_int_equal(sight_of(5, 5, 1, "own", 3, 3), CL_SIGHT_UNDECIDED);
        assert_int_equal(sight_of(0, 0, 0, "", 3, 3), CL_SIGHT_UNDECIDED);
        /* another compared key has moved on */
        assert_int_equal(sight_of(5, 5, 1, "old", 3, 4), CL_SIGHT_DEAD);
        assert_int_equal(sight_of(5, 5, 1, "old", 3, 0), CL_SIGHT_DEAD);
        /* what is absent may be absent again */
        assert_int_equal(sight_of(5, 5, 1, "old", 0, 4), CL_SIGHT_UNDECIDED);
        assert_int_equal(sight_of(5, 9, 2, "own", 3, 4), CL_SIGHT_OWN);
        assert_int_equal(sight_of(0, 9, 2, "own", 3, 3), CL_SIGHT_OWN);
        assert_int_equal(sight_of(5, 9, 2, "else", 3, 3), CL_SIGHT_PAST);
        assert_int_equal(sight_of(0, 9, 1, "else", 3, 3), CL_SIGHT_DEAD);
        assert_int_equal(sight_of(0, 9, 2, "else", 3, 3), CL_SIGHT_PAST);
        assert_int_equal(sight_of(5, 0, 0, "", 3, 3), CL_SIGHT_OVERTAKEN);
        assert_int_equal(sight_of(5, 4, 1, "own", 3, 3), CL_SIGHT_BACKWARDS);
}

static void test_other_kinds_are_not_dead(void **state)
{
        struct cl_compare compare = {.kind = CL_COMPARE_VALUE, .key = TEXT("l"), .value = TEXT("a"), .number = 7};
        struct cl_cas cas = {.mod_revision = 5, .value = TEXT("own"), .others = &compare, .other_count = 1};
        struct cl_key now[2] = {{.value = TEXT("old"), .mod_revision = 5}, {.value = TEXT("b"), .mod_revision = 9}};

        assert_int_equal(cl_cas_judge(&cas, now), CL_SIGHT_UNDECIDED);
        compare.kind = CL_COMPARE_VERSION;
        assert_int_equal(cl_cas_judge(&cas, now), CL_SIGHT_UNDECIDED);
}

/* ---- one at a time --------------------------------------------------------------------------- */

static struct memory_etcd *memory_new(enum memory_fate fate)
{
        struct memory_etcd *memory = calloc(1, sizeof(*memory));

        memory->base.ops = &memory_ops;
        memory->fate = fate;
        memory->revision = 1;
        return memory;
}

static void test_each_fate(void **state)
{
        static const struct {
                enum memory_fate fate;
                enum cl_cas_outcome outcome;
        } cases[] = {{FATE_ANSWERED, CL_CAS_WON},   {FATE_ANSWER_LOST, CL_CAS_WON}, {FATE_NEVER, CL_CAS_UNKNOWN},
                     {FATE_REFUSED, CL_CAS_FAILED}, {FATE_LATE, CL_CAS_UNKNOWN},    {FATE_UNREACHABLE, CL_CAS_FAILED},
                     {FATE_FULL, CL_CAS_FAILED},    {FATE_FULL_DONE, CL_CAS_WON}};
        struct asked asked;
        size_t i;

        for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct memory_etcd *memory = memory_new(cases[i].fate);

                assert_int_equal(cas_now(&asked, &memory->base, "k", 0, "own", 100), cases[i].outcome);
                assert_int_equal(asked.cas.error != 0, cases[i].outcome != CL_CAS_WON);
                if (cases[i].outcome == CL_CAS_WON)
                        assert_int_equal(asked.cas.revision, 2);
                free(memory);
        }
}

/* etcd has no room: said at once, and in words. Another's change that came before says more. */
static void test_full(void **state)
{
        struct memory_etcd *memory = memory_new(FATE_FULL);
        uint64_t began = lp_clock();
        struct asked asked;

        assert_int_equal(cas_now(&asked, &memory->base, "k", 0, "own", 20000), CL_CAS_FAILED);
        assert_int_equal(asked.cas.error, -ENOSPC);
        assert_non_null(strstr(asked.cas.text, "etcd's database is full"));
        assert_true(lp_clock() - began < 5000 * MS);
        memory_put(memory, 'k', "else");
        assert_int_equal(cas_now(&asked, &memory->base, "k", 0, "own", 1000), CL_CAS_LOST);
        free(memory);
}

static void test_backwards(void **state)
{
        struct memory_etcd *memory = memory_new(FATE_NEVER);
        struct asked asked;

        memory_put(memory, 'k', "old");
        assert_int_equal(cas_now(&asked, &memory->base, "k", 50, "own", 1000), CL_CAS_UNKNOWN);
        assert_int_equal(asked.cas.error, -EREMCHG);
        assert_int_equal(memory->distrusted, CL_SEEN_LOWER_REVISION);
        free(memory);
}

static void test_too_many_compares(void **state)
{
        struct memory_etcd *memory = memory_new(FATE_ANSWERED);
        struct asked asked = {0};

        asked.cas = (struct cl_cas){.etcd = &memory->base, .other_count = CL_COMPARES_MAX, .done = cas_asked_done};
        asked.msg.run = cas_submit;
        sem_init(&asked.done, 0, 0);
        lp_post(the_loop, &asked.msg);
        assert_int_equal(cas_wait(&asked), CL_CAS_FAILED);
        assert_int_equal(asked.cas.error, -EINVAL);
        free(memory);
}

/* More changes than are looked at: it is overtaken, that is all. */
static void before_many(struct memory_etcd *memory, struct cl_request *request)
{
        unsigned i;

        if (cl_request_changes(request) || memory->count > 1)
                return;
        for (i = 0; i < 20; i++)
                memory_put(memory, 'k', "else");
}

static void test_too_many_changes(void **state)
{
        struct memory_etcd *memory = memory_new(FATE_NEVER);
        struct asked asked;

        memory_put(memory, 'k', "old");
        memory->before = before_many;
        assert_int_equal(cas_now(&asked, &memory->base, "k", 2, "own", 5000), CL_CAS_OVERTAKEN);
        assert_int_equal(asked.cas.now.mod_revision, 22);
        free(memory);
}

/* ---- many at once, by chance ----------------------------------------------------------------- */

#define WORLDS 3000u

struct world {
        struct memory_etcd memory;
        struct asked asked;
        struct cl_compare other;
        uint64_t random;
        int64_t compared;
        bool had_late; /* it was carried out while the CAS looked */
};

static unsigned world_below(struct world *world, unsigned n)
{
        world->random = world->random * 6364136223846793005ull + 1442695040888963407ull;
        return (unsigned)(world->random >> 33) % n;
}

/* Others work, what is late may come, reads may fail. */
static void world_before(struct memory_etcd *memory, struct cl_request *request)
{
        struct world *world = container_of(memory, struct world, memory);

        memory->read_fate = world_below(world, 5) == 0 ? FATE_UNREACHABLE : FATE_ANSWERED;
        if (memory->count > MEMORY_CHANGES - 8 || cl_request_changes(request))
                return;
        if (world_below(world, 6) == 0)
                memory_flush(memory);
        if (world_below(world, 8) == 0)
                memory_put(memory, 'k', "else");
        if (world->compared > 0 && world_below(world, 20) == 0)
                memory_put(memory, 'k', "");
        if (world_below(world, 12) == 0)
                memory_put(memory, 'l', "leader");
        if (world_below(world, 20) == 0)
                memory->compacted = memory->revision;
}

static void world_begin(struct world *world, uint64_t seed)
{
        static const enum memory_fate fates[] = {FATE_ANSWERED, FATE_ANSWER_LOST, FATE_ANSWER_LOST, FATE_NEVER,
                                                 FATE_LATE,     FATE_LATE,        FATE_LATE,        FATE_REFUSED,
                                                 FATE_FULL,     FATE_FULL_DONE};
        struct cl_cas *cas = &world->asked.cas;

        world->random = seed * 0x9e3779b97f4a7c15ull + 1;
        world->memory.base.ops = &memory_ops;
        world->memory.revision = 1;
        world->memory.fate = fates[world_below(world, sizeof(fates) / sizeof(*fates))];
        world->memory.before = world_before;
        world->other = (struct cl_compare){.kind = CL_COMPARE_MOD, .key = TEXT("l")};
        world->other.number = memory_put(&world->memory, 'l', "leader");
        if (world_below(world, 2) == 0)
                world->compared = memory_put(&world->memory, 'k', world_below(world, 4) == 0 ? "own" : "old");
        if (world_below(world, 8) == 0)
                memory_put(&world->memory, 'k', "else"); /* it has lost before it begins */
        *cas = (struct cl_cas){.etcd = &world->memory.base,
                               .key = TEXT("k"),
                               .value = TEXT("own"),
                               .mod_revision = world->compared,
                               .others = &world->other,
                               .other_count = world_below(world, 2),
                               .deadline = lp_clock() + 400 * MS,
                               .done = cas_asked_done};
        world->asked.msg.run = cas_submit;
        sem_init(&world->asked.done, 0, 0);
        lp_post(the_loop, &world->asked.msg);
}

/* The outcome is what came of it, and what comes later changes nothing of that. */
static bool world_is_right(struct world *world)
{
        const struct cl_cas *cas = &world->asked.cas;
        int64_t then = world->memory.applied, later;

        memory_flush(&world->memory);
        later = world->memory.applied;
        switch (cas->outcome) {
        case CL_CAS_WON:
                return then != 0 && cas->revision == then && later == then;
        case CL_CAS_LOST:
        case CL_CAS_FAILED:
                return later == 0;
        case CL_CAS_OVERTAKEN:
                return later == then;
        case CL_CAS_UNKNOWN:
                return true;
        }
        return false;
}

static void test_random(void **state)
{
        const char *given = getenv("MILLRACE_SEED");
        uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : lp_clock();
        struct world *worlds = calloc(WORLDS, sizeof(*worlds));
        unsigned i, wrong = 0, count[CL_CAS_UNKNOWN + 1] = {0};

        MUST(worlds != NULL);
        for (i = 0; i < WORLDS; i++)
                world_begin(&worlds[i], seed + i);
        for (i = 0; i < WORLDS; i++)
                count[cas_wait(&worlds[i].asked)]++;
        for (i = 0; i < WORLDS; i++) {
                if (!world_is_right(&worlds[i])) {
                        fprintf(stderr, "MILLRACE_SEED=%llu: outcome %d, fate %d, revision %lld, applied in %lld: %s\n",
                                (unsigned long long)(seed + i), worlds[i].asked.cas.outcome, worlds[i].memory.fate,
                                (long long)worlds[i].asked.cas.revision, (long long)worlds[i].memory.applied,
                                worlds[i].asked.cas.text);
                        wrong++;
                }
        }
        free(worlds);
        assert_int_equal(wrong, 0);
        for (i = 0; i <= CL_CAS_UNKNOWN; i++)
                assert_true(count[i] > 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sights),
                cmocka_unit_test(test_other_kinds_are_not_dead),
                cmocka_unit_test(test_each_fate),
                cmocka_unit_test(test_full),
                cmocka_unit_test(test_backwards),
                cmocka_unit_test(test_too_many_compares),
                cmocka_unit_test(test_too_many_changes),
                cmocka_unit_test(test_random),
        };

        return cmocka_run_group_tests(tests, loop_begin, loop_finish);
}
