/*
 * bench_plan.c - the phases of `millrace bench` by name, and what each needs. Pure; called by
 * bench.c.
 */
#include "bench.h"

#include <errno.h>
#include <string.h>

#define KIB 1024ull
#define MIB (1024 * KIB)

#define RANGE_OF     (64 * MIB)
#define MULTIPART    (1024 * MIB)
#define SET_BYTES    (256 * MIB) /* of objects for those who read, as far as that is not too many or too few of them */
#define SET_MAX      1000u
#define SET_MIN      4u
#define OBJECT_MAX   (5 * 1024 * MIB)
#define MAX_KEYS_MAX 1000u
#define BATCH_OBJECT "64k"

#define BY_LOAD    1u /* by load/ */
#define BY_LIBRARY 2u /* by way of libmillrace: phases that move objects */

/*
 * What a word may begin with, the sizes that it means by itself, and connections by size where not
 * by kind.
 */
static const struct kind {
        const char *word;
        const char *usual[5];
        enum load_phase kind;
        unsigned connections; /* 0: by size */
        unsigned ways;
        bool sized, batched;
} kinds[] = {
        {"put", {"4k", "64k", "1m", "16m"}, LOAD_PUT, 0, BY_LOAD | BY_LIBRARY, true, false},
        {"get", {"4k", "64k", "1m", "16m"}, LOAD_GET, 0, BY_LOAD | BY_LIBRARY, true, false},
        {"batch", {"64-4k", "64-64k"}, LOAD_GET, 4, BY_LIBRARY, true, true},
        {"range", {"64k"}, LOAD_RANGE, 32, BY_LOAD | BY_LIBRARY, true, false},
        {"multipart", {""}, LOAD_MULTIPART, 2, BY_LOAD, false, false},
        {"list", {"1000", "40"}, LOAD_LIST, 4, BY_LOAD, true, false},
        {"head", {""}, LOAD_HEADS, 64, BY_LOAD, false, false},
        {"mixed", {"4k"}, LOAD_MIXED, 64, BY_LOAD | BY_LIBRARY, true, false},
        {"delete", {""}, LOAD_DELETE, 64, BY_LOAD, false, false},
};

static unsigned connections_of(const struct kind *kind, uint64_t size)
{
        if (kind->connections > 0)
                return kind->connections;
        return size <= 4 * KIB ? 64 : size <= 64 * KIB ? 32 : size <= MIB ? 16 : 4;
}

/* "N", "N-SIZE": objects of a batch, and what is left. */
static int take_batch(const char **text, unsigned *out)
{
        uint64_t number = 0;

        for (; **text >= '0' && **text <= '9' && number <= BENCH_BATCH_MAX; (*text)++)
                number = 10 * number + (uint64_t)(**text - '0');
        if (number == 0 || number > BENCH_BATCH_MAX || (**text != '\0' && **text != '-'))
                return -EINVAL;
        *text = **text == '-' ? *text + 1 : BATCH_OBJECT;
        *out = (unsigned)number;
        return 0;
}

uint64_t bench_plan_place(const struct bench_phase *phase)
{
        switch (phase->kind) {
        case LOAD_GET:
                return phase->size * (phase->batch > 0 ? phase->batch : 1);
        case LOAD_RANGE:
                return phase->range;
        case LOAD_MIXED:
                return phase->size;
        default:
                return 0;
        }
}

/*
 * As many operations in flight as memory allows. -EFBIG: not one, or not as many as were asked for.
 */
static int fit(struct bench_phase *phase, const struct cli_bench_options *options)
{
        uint64_t place = bench_plan_place(phase), most = BENCH_FLIGHT_MAX;

        if (place > 0 && BENCH_MEMORY_MAX / place < most)
                most = BENCH_MEMORY_MAX / place;
        if (phase->size > BENCH_MEMORY_MAX || most == 0 || options->connections > most)
                return -EFBIG;
        if (phase->connections > most)
                phase->connections = (unsigned)most;
        return 0;
}

static bool plan_kind_suits(const struct kind *kind, const struct cli_bench_options *options)
{
        return (kind->ways & (options->library ? BY_LIBRARY : BY_LOAD)) != 0;
}

/* One phase of a kind. -EINVAL, -E2BIG, -EFBIG. */
static int plan_add(const struct kind *kind, const char *text, const struct cli_bench_options *options,
                    struct bench_phase phases[BENCH_PHASES_MAX], unsigned *count)
{
        struct bench_phase phase = {.kind = kind->kind, .size = 4 * KIB, .max_keys = MAX_KEYS_MAX};
        const char *size_text = text;
        uint64_t number = 0;

        if (kind->batched && take_batch(&size_text, &phase.batch) != 0)
                return -EINVAL;
        if (kind->sized && (load_parse_size(size_text, &number) != 0 || number == 0 || number > OBJECT_MAX))
                return -EINVAL;
        if (kind->kind == LOAD_LIST) {
                if (number > MAX_KEYS_MAX)
                        return -EINVAL;
                phase.max_keys = (unsigned)number;
        } else if (kind->kind == LOAD_RANGE) {
                phase.size = options->range_of > 0 ? options->range_of : RANGE_OF;
                phase.range = number;
                if (phase.range > phase.size)
                        return -EINVAL;
        } else if (kind->kind == LOAD_MULTIPART) {
                phase.size = options->size > 0 ? options->size : MULTIPART;
        } else if (kind->sized) {
                phase.size = number;
        }
        if (*count == BENCH_PHASES_MAX)
                return -E2BIG;
        phase.connections = options->connections > 0 ? options->connections : connections_of(kind, phase.size);
        if ((size_t)snprintf(phase.name, sizeof(phase.name), "%s%s%s", kind->word, kind->sized ? "-" : "",
                             kind->sized ? text : "") >= sizeof(phase.name))
                return -EINVAL;
        if (options->library && fit(&phase, options) != 0)
                return -EFBIG;
        phases[(*count)++] = phase;
        return 0;
}

static int add_usual(const struct kind *kind, const struct cli_bench_options *options,
                     struct bench_phase phases[BENCH_PHASES_MAX], unsigned *count)
{
        int rv = 0;

        for (unsigned i = 0; rv == 0 && kind->usual[i] != NULL; i++)
                rv = plan_add(kind, kind->usual[i], options, phases, count);
        return rv;
}

int bench_plan_add(const char *word, const struct cli_bench_options *options,
                   struct bench_phase phases[BENCH_PHASES_MAX], unsigned *count)
{
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
                const struct kind *kind = &kinds[i];
                size_t len = strlen(kind->word);

                if (strncmp(word, kind->word, len) != 0 || (word[len] != '\0' && (!kind->sized || word[len] != '-')))
                        continue;
                if (!plan_kind_suits(kind, options))
                        return -EOPNOTSUPP;
                if (word[len] == '\0')
                        return add_usual(kind, options, phases, count);
                return plan_add(kind, word + len + 1, options, phases, count);
        }
        return -EINVAL;
}

int bench_plan_all(const struct cli_bench_options *options, struct bench_phase phases[BENCH_PHASES_MAX],
                   unsigned *count)
{
        int rv = 0;

        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && rv != -EFBIG; i++)
                if (plan_kind_suits(&kinds[i],
                                    options)) /* -EINVAL: left out where --range-of is smaller than a usual range */
                        rv = add_usual(&kinds[i], options, phases, count);
        return rv == -EFBIG ? rv : 0;
}

uint64_t bench_plan_objects(const struct bench_phase *phase, const struct cli_bench_options *options)
{
        uint64_t objects = options->objects;

        if (phase->kind == LOAD_PUT || phase->kind == LOAD_MULTIPART)
                return 0;
        if (objects == 0) {
                objects = SET_BYTES / phase->size;
                objects = objects > SET_MAX ? SET_MAX : objects < SET_MIN ? SET_MIN : objects;
        }
        return phase->kind == LOAD_LIST && objects < phase->max_keys ? phase->max_keys : objects;
}
