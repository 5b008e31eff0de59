/*
 * test_reclaim_property.c - a drive with reclaim always at work against a model, over many lives
 * that end by SIGKILL, at whatever moment, or well.
 *
 * Each life is a process of its own: it opens the drive (now and then after the index was removed),
 * compares everything with the model, and then puts, overwrites, deletes, writes and discards at
 * random until it is killed or has done its share. The model is in memory that all lives share;
 * what was under way when a life ended may have happened or not. Objects are never the same twice,
 * so bytes of the wrong one show.
 *
 * SEED repeats a run; LIVES makes it longer.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/shard_fixture.h"

#include <setjmp.h>
#include <cmocka.h>

#define KEYS          120u
#define COLD          80u /* keys from here on are hardly ever changed */
#define GROUPS        4u
#define OBJECTS       400u
#define STRIPES       6u
#define LIVES_DEFAULT 24u
#define SIZES         4u

static const size_t sizes[SIZES] = {10, 3000, 20000, 60000};
static const uint32_t units[SIZES] = {4096, 20480, 262144, 1u << 20};

struct key {
        uint64_t id;      /* of the object it holds; 0: none */
        uint64_t next_id; /* what it becomes if the change under way has happened */
        bool changing;
};

enum shard_state { SHARD_NEVER, SHARD_WRITTEN, SHARD_SYNCED, SHARD_GONE };

struct model {
        uint64_t next_id;
        uint64_t seq[GROUPS + 1], committed[GROUPS + 1];
        struct key keys[KEYS];
        struct {
                uint8_t state; /* of all its stripes */
                uint8_t size, stripes;
                bool sure; /* GONE, and neither a crash nor a new index came since: it must not come back */
        } objects[OBJECTS];
        unsigned first_object, next_object;
        uint64_t ops, checks, copied, freed, damaged; /* the last three: summed over lives */
        bool crashed;                                 /* the life before */
        char wrong[200];
};

static struct model *model;
static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return random_state * 0x2545f4914f6cdd1dull % below;
}

#define MUST(what)                                                                                                     \
        do {                                                                                                           \
                if (!(what)) {                                                                                         \
                        snprintf(model->wrong, sizeof(model->wrong), "line %d: %s", __LINE__, #what);                  \
                        _exit(1);                                                                                      \
                }                                                                                                      \
        } while (0)

/* ---- names ----------------------------------------------------------------------------------- */

static uint32_t group_of(unsigned key)
{
        return 1 + key % GROUPS;
}

static size_t content(uint64_t id, uint8_t *out)
{
        size_t len = sizes[id % SIZES], i;

        for (i = 0; i < len; i++)
                out[i] = (uint8_t)(id * 131 + i * 7 + (i >> 8));
        memcpy(out, &id, sizeof(id));
        return len;
}

static size_t name_of(unsigned key, uint8_t *out)
{
        char text[32];

        snprintf(text, sizeof(text), "key-%u", key);
        return fx_name(out, text);
}

static bool holds(struct fx *fx, unsigned key, uint64_t id)
{
        static uint8_t want[1u << 16];
        struct eng_buf *value = NULL, *found = NULL;
        uint8_t name[FMT_NAME_MAX];
        size_t len = name_of(key, name), size = content(id, want);
        int rv = fx_lookup(fx, name, len, &value, &found);
        bool same;

        if (id == 0)
                same = rv == -ENOENT;
        else
                same = rv == 0 && found != NULL && found->len == size && memcmp(found->data, want, size) == 0;
        eng_buf_unref(value);
        eng_buf_unref(found);
        return same;
}

static void check_key(struct fx *fx, unsigned i)
{
        struct key *key = &model->keys[i];

        if (key->changing) {
                MUST(holds(fx, i, key->id) || holds(fx, i, key->next_id));
                if (holds(fx, i, key->next_id))
                        key->id = key->next_id;
                key->changing = false;
        }
        MUST(holds(fx, i, key->id));
}

static void change_key(struct fx *fx, unsigned i, bool delete)
{
        static struct fx_body body;
        static uint8_t want[1u << 16];
        struct key *key = &model->keys[i];
        uint32_t pg = group_of(i);
        uint8_t name[FMT_NAME_MAX];
        size_t len = name_of(i, name);
        uint64_t seq;

        body.len = body.inline_len = 0;
        key->next_id = delete ? 0 : model->next_id++;
        key->changing = true;
        seq = ++model->seq[pg];
        if (delete)
                fx_body_delete(&body, name, len);
        else
                fx_body_put(&body, name, len, key->next_id, pg, want, content(key->next_id, want));
        MUST(fx_append(fx, &body, pg, seq, model->committed[pg]) == 0);
        MUST(fx_commit(fx, pg, seq) == 0);
        model->committed[pg] = seq;
        key->id = key->next_id;
        key->changing = false;
}

/* ---- shards ---------------------------------------------------------------------------------- */

static void write_object(struct fx *fx)
{
        unsigned at = model->next_object % OBJECTS, s;

        if (model->next_object - model->first_object == OBJECTS || at >= OBJECTS)
                return;
        model->objects[at].size = (uint8_t)draw(SIZES);
        model->objects[at].stripes = (uint8_t)(1 + draw(STRIPES));
        model->objects[at].state = SHARD_WRITTEN;
        model->objects[at].sure = false;
        model->next_object++;
        for (s = 0; s < model->objects[at].stripes; s++)
                MUST(sh_write(fx, 1000000 + model->next_object - 1, s, units[model->objects[at].size]) == 0);
        MUST(sh_sync(fx) == 0);
        model->objects[at].state = SHARD_SYNCED;
}

static void discard_object(struct fx *fx)
{
        uint64_t living = model->next_object - model->first_object, n;
        unsigned at;

        if (living == 0)
                return;
        n = model->first_object + draw(living);
        at = (unsigned)(n % OBJECTS);
        if (model->objects[at].state == SHARD_SYNCED) {
                model->objects[at].state = SHARD_GONE;
                MUST(sh_discard(fx, 1000000 + n) == 0);
                model->objects[at].sure = true;
        }
        while (model->first_object < model->next_object &&
               model->objects[model->first_object % OBJECTS].state == SHARD_GONE)
                model->first_object++;
}

/*
 * What was synced is there and right. What was not, or was discarded, may be there or not; it is
 * never wrong.
 */
static void check_object(struct fx *fx, unsigned n)
{
        unsigned at = n % OBJECTS, s;
        int rv;

        for (s = 0; s < model->objects[at].stripes; s++) {
                rv = sh_read(fx, 1000000 + n, s, units[model->objects[at].size]);
                if (model->objects[at].state == SHARD_SYNCED)
                        MUST(rv == 0);
                else if (model->objects[at].sure)
                        MUST(rv == -ENOENT);
                else
                        MUST(rv == 0 || rv == -ENOENT || rv == -EBADMSG);
                MUST(rv != -EILSEQ);
        }
}

/* ---- lives ----------------------------------------------------------------------------------- */

static void check_all(struct fx *fx)
{
        unsigned i;

        for (i = 0; i < KEYS; i++)
                check_key(fx, i);
        for (i = model->first_object; i < model->next_object; i++) {
                check_object(fx, i);
                if (model->objects[i % OBJECTS].state == SHARD_WRITTEN) /* its end is not known: given up */
                        model->objects[i % OBJECTS].state = SHARD_GONE;
        }
        model->checks++;
}

static void one_op(struct fx *fx)
{
        unsigned key = (unsigned)(draw(50) == 0 ? draw(KEYS) : draw(COLD));
        uint64_t what = draw(100);

        if (what < 55)
                change_key(fx, key, false);
        else if (what < 70)
                change_key(fx, key, true);
        else if (what < 78)
                write_object(fx);
        else if (what < 86)
                discard_object(fx);
        else if (what < 95)
                check_key(fx, key);
        else if (model->first_object < model->next_object)
                check_object(fx, model->first_object + (unsigned)draw(model->next_object - model->first_object));
        model->ops++;
}

/* What reclaim did since last asked. */
static void count_reclaim(struct fx *fx, struct eng_drive_info *last)
{
        struct eng_drive_info now;

        eng_drive_info(fx->local, &now);
        model->copied += now.reclaim_copied - last->reclaim_copied;
        model->freed += now.reclaim_freed - last->reclaim_freed;
        model->damaged += now.reclaim_damaged - last->reclaim_damaged;
        *last = now;
}

static void live(struct fx *fx, unsigned ops)
{
        struct eng_drive_info last = {.state = ENG_DRIVE_IN};
        unsigned i;

        if (fx_open(fx) != 0) {
                snprintf(model->wrong, sizeof(model->wrong), "open: %.180s", fx->error.text);
                _exit(1);
        }
        for (i = 1; i <= GROUPS; i++) { /* recovery */
                MUST(fx_commit(fx, i, model->seq[i]) == 0);
                model->committed[i] = model->seq[i];
        }
        check_all(fx);
        for (i = 0; i < ops; i++) {
                one_op(fx);
                if (i % 20 == 0)
                        count_reclaim(fx, &last);
        }
        check_all(fx);
        MUST(fx->failed[0] == '\0');
        fx_close(fx);
        _exit(0);
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
        const char *text = getenv(name);

        return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

/* True: the life ended as it should. */
static bool one_life(struct fx *fx, unsigned number)
{
        bool kill_it = draw(4) != 0, killed;
        bool fresh_index = draw(3) == 0;
        useconds_t after = (useconds_t)(200000 + draw(1500000));
        unsigned ops = 300 + (unsigned)draw(1500);
        uint64_t seed = random_state + number;
        int status;
        unsigned i;
        pid_t pid;

        if (fresh_index)
                sh_remove_index(fx);
        if (fresh_index || model->crashed)
                for (i = 0; i < OBJECTS; i++)
                        model->objects[i].sure = false;
        fx->options.reclaim_rate = draw(4) == 0 ? ENG_RECLAIM_OFF : UINT64_MAX;
        fx->options.reclaim_dead_percent = draw(2) == 0 ? 10 : 60;
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                random_state = seed;
                live(fx, kill_it ? 1000000 : ops);
        }
        if (kill_it) {
                usleep(after);
                kill(pid, SIGKILL);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        model->crashed = killed;
        return killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_many_lives(void **state)
{
        uint64_t seed = from_environment("SEED", (uint64_t)time(NULL)),
                 lives = from_environment("LIVES", LIVES_DEFAULT), i;
        struct fx fx;

        print_message("SEED=%llu\n", (unsigned long long)seed);
        random_state = seed * 0x9e3779b97f4a7c15ull + 1;
        model = mmap(NULL, sizeof(*model), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(model != MAP_FAILED);
        model->next_id = 1;
        fx_make(&fx, 1);
        fx.options.segment_bytes = 4u << 20;
        fx.options.memtable_bytes = 1u << 20; /* the index is written often, in the middle of replays too */
        fx.options.cache_bytes = 1;
        for (i = 0; i < lives; i++) {
                if (!one_life(&fx, (unsigned)i))
                        fail_msg("life %llu: %s", (unsigned long long)i, model->wrong);
        }
        print_message("%llu changes, compared %llu times; %llu MiB moved, %llu MiB freed\n",
                      (unsigned long long)model->ops, (unsigned long long)model->checks,
                      (unsigned long long)model->copied >> 20, (unsigned long long)model->freed >> 20);
        assert_true(model->ops > 100);
        assert_true(model->copied > 0 && model->freed > 0);
        assert_int_equal(model->damaged, 0);
        munmap(model, sizeof(*model));
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_many_lives),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
