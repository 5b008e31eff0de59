/*
 * test_hasher.c - streams hashed side by side: right digests whatever comes when, from another loop
 * or the hasher's own; pieces go back in order, once, and in time for who waits for them.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/evp.h>

#include "engine/base/hasher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define STREAMS 24u
#define PIECES  12u
#define BYTES   (300u << 10)

struct stream {
        struct eng_hash_stream hash;
        struct piece {
                struct eng_hash_piece hash;
                struct stream *stream;
        } pieces[PIECES];
        uint8_t *bytes;
        size_t lens[PIECES];
        unsigned added;
        _Atomic unsigned back; /* looked at by who waits */
        bool in_order;
};

/* owner: loop 0 while it runs */
static struct {
        struct lp_loop *loops[2];
        pthread_t threads[2];
        struct eng_hasher hasher;
        struct stream streams[STREAMS];
        _Atomic unsigned left;
        unsigned seed;
        bool told;
        struct lp_timer timer;
        struct lp_msg msg;
        sem_t done;
} t;

static void *run(void *loop)
{
        return lp_loop_run(loop) == 0 ? NULL : loop;
}

static void on_home(void (*function)(struct lp_msg *msg))
{
        t.msg.run = function;
        lp_post(t.loops[0], &t.msg);
        sem_wait(&t.done);
}

/* hasher_at: 0: home itself, 1: the other loop */
static void make(unsigned hasher_at)
{
        unsigned i;

        memset(&t, 0, sizeof(t));
        t.seed = getenv("SEED") != NULL ? (unsigned)strtoul(getenv("SEED"), NULL, 10) : (unsigned)time(NULL);
        print_message("SEED=%u\n", t.seed);
        sem_init(&t.done, 0, 0);
        for (i = 0; i < 2; i++) {
                struct lp_config config = {.index = i};

                assert_int_equal(lp_loop_new(&config, &t.loops[i]), 0);
        }
        eng_hasher_init(&t.hasher, t.loops[hasher_at]);
        for (i = 0; i < 2; i++)
                assert_int_equal(pthread_create(&t.threads[i], NULL, run, t.loops[i]), 0);
}

static void stop_loops(void)
{
        unsigned i;

        for (i = 0; i < 2; i++)
                lp_loop_stop(t.loops[i]);
        for (i = 0; i < 2; i++)
                pthread_join(t.threads[i], NULL);
}

static void unmake(void)
{
        unsigned i;

        for (i = 0; i < 2; i++)
                lp_loop_free(t.loops[i]);
        for (i = 0; i < STREAMS; i++)
                free(t.streams[i].bytes);
        sem_destroy(&t.done);
}

static void told(struct eng_hash_stream *stream)
{
        t.told = true;
}

static void begin(struct stream *s)
{
        unsigned i;

        s->in_order = true;
        s->bytes = malloc(BYTES * PIECES);
        for (i = 0; i < PIECES; i++)
                s->lens[i] = 1 + (unsigned)rand_r(&t.seed) % BYTES;
        for (i = 0; i < BYTES * PIECES; i++)
                s->bytes[i] = (uint8_t)(i * 31 + i / 4096 + t.seed);
        eng_hash_begin(&s->hash, &t.hasher, t.loops[0]);
        s->hash.told = told;
}

static bool digest_is_right(struct stream *s)
{
        uint8_t got[ERA_MD5_SIZE], want[EVP_MAX_MD_SIZE];
        EVP_MD_CTX *context = EVP_MD_CTX_new();
        unsigned i;

        EVP_DigestInit_ex(context, EVP_md5(), NULL);
        for (i = 0; i < PIECES; i++)
                EVP_DigestUpdate(context, s->bytes + i * BYTES, s->lens[i]);
        EVP_DigestFinal_ex(context, want, NULL);
        EVP_MD_CTX_free(context);
        era_md5_final(&s->hash.md5, got);
        return memcmp(got, want, ERA_MD5_SIZE) == 0;
}

/* ---- many at once ---------------------------------------------------------------------------- */

static void add_next(struct stream *s);

static void is_hashed(struct eng_hash_piece *piece)
{
        struct piece *p = container_of(piece, struct piece, hash);
        struct stream *s = p->stream;

        s->in_order &= p == &s->pieces[s->back];
        s->back++;
        if (--t.left == 0)
                sem_post(&t.done);
        else if (s->added < PIECES)
                add_next(s);
        else if (s->back < PIECES)
                eng_hash_want(&s->hash);
}

static void add_next(struct stream *s)
{
        unsigned n = 1 + (unsigned)rand_r(&t.seed) % 3;

        for (; n > 0 && s->added < PIECES; n--, s->added++) {
                struct piece *p = &s->pieces[s->added];

                p->stream = s;
                p->hash.bytes = s->bytes + s->added * BYTES;
                p->hash.len = s->lens[s->added];
                p->hash.hashed = is_hashed;
                eng_hash_add(&s->hash, &p->hash);
        }
        if (s->added == PIECES || rand_r(&t.seed) % 2 == 0)
                eng_hash_want(&s->hash);
}

/* So that streams that nobody waits for come to an end, too. */
static void want_all(struct lp_timer *timer)
{
        unsigned i;

        for (i = 0; i < STREAMS; i++)
                eng_hash_want(&t.streams[i].hash);
        if (t.left > 0)
                lp_timer_start(t.loops[0], timer, 5 * 1000 * 1000);
}

static void many(struct lp_msg *msg)
{
        unsigned i;

        t.left = STREAMS * PIECES;
        atomic_store(&t.hasher.expected, STREAMS / 2);
        t.timer.expired = want_all;
        lp_timer_start(t.loops[0], &t.timer, 5 * 1000 * 1000);
        for (i = 0; i < STREAMS; i++)
                add_next(&t.streams[i]);
}

static void many_streams(unsigned hasher_at)
{
        unsigned i;

        make(hasher_at);
        for (i = 0; i < STREAMS; i++)
                begin(&t.streams[i]);
        on_home(many);
        stop_loops();
        for (i = 0; i < 2; i++)
                lp_loop_drain(t.loops[i]);
        for (i = 0; i < STREAMS; i++) {
                assert_true(t.streams[i].in_order);
                assert_int_equal(t.streams[i].back, PIECES);
                assert_true(digest_is_right(&t.streams[i]));
        }
        unmake();
}

static void test_many_streams_of_another_loop(void **state)
{
        many_streams(1);
}

static void test_many_streams_of_the_same_loop(void **state)
{
        many_streams(0);
}

/* ---- company --------------------------------------------------------------------------------- */

static void count_back(struct eng_hash_piece *piece)
{
        struct stream *s = container_of(piece, struct piece, hash)->stream;

        s->back++;
        t.left--;
}

static void add_one(struct stream *s)
{
        struct piece *p = &s->pieces[s->added++];

        p->stream = s;
        p->hash.bytes = s->bytes;
        p->hash.len = s->lens[0];
        p->hash.hashed = count_back;
        t.left++;
        eng_hash_add(&s->hash, &p->hash);
}

static void add_alone(struct lp_msg *msg)
{
        atomic_store(&t.hasher.expected, 3);
        add_one(&t.streams[0]);
        sem_post(&t.done);
}

static void look_later(struct lp_timer *timer)
{
        sem_post(&t.done);
}

static void wait_a_while(struct lp_msg *msg)
{
        t.timer.expired = look_later;
        lp_timer_start(t.loops[0], &t.timer, 30 * 1000 * 1000);
}

static void add_others(struct lp_msg *msg)
{
        add_one(&t.streams[1]);
        add_one(&t.streams[2]);
        sem_post(&t.done);
}

static void want_first(struct lp_msg *msg)
{
        eng_hash_want(&t.streams[0].hash);
        sem_post(&t.done);
}

static void want_all_three(struct lp_msg *msg)
{
        unsigned i;

        for (i = 0; i < 3; i++)
                eng_hash_want(&t.streams[i].hash);
        sem_post(&t.done);
}

static void wait_until_left(unsigned most)
{
        unsigned i;

        for (i = 0; i < 1000 && t.left > most; i++)
                on_home(wait_a_while);
        assert_in_range(t.left, 0, most);
}

static void test_a_piece_waits_for_company_until_it_is_wanted(void **state)
{
        unsigned i;

        make(1);
        for (i = 0; i < 3; i++)
                begin(&t.streams[i]);
        on_home(add_alone);
        on_home(wait_a_while);
        assert_int_equal(t.streams[0].back, era_md5_lanes() == 1); /* with one worker there is no company */
        on_home(add_others);
        wait_until_left(2); /* all have come of whom something was expected: it begins, and the shortest ends */
        on_home(want_all_three);
        wait_until_left(0);
        on_home(add_alone);
        on_home(want_first);
        wait_until_left(0);
        assert_int_equal(t.streams[0].back, 2);
        for (i = 0; i < 1000 && !t.told; i++)
                on_home(wait_a_while);
        assert_true(t.told);
        stop_loops();
        unmake();
}

/* owner: loop 1 */
struct look {
        struct lp_msg msg;
        _Atomic bool looked, empty;
};

static void look_at_hasher(struct lp_msg *msg)
{
        struct look *look = container_of(msg, struct look, msg);

        look->empty = t.hasher.count == 0;
        look->looked = true;
}

/*
 * The word that the first is wanted comes back to a loop that is busy, and has meanwhile added, and
 * wants, a second.
 */
static void want_twice(struct lp_msg *msg)
{
        struct look look = {.msg.run = look_at_hasher};

        atomic_store(&t.hasher.expected, 3);
        add_one(&t.streams[0]);
        eng_hash_want(&t.streams[0].hash);
        while (!look.empty) {
                look.looked = false;
                lp_post(t.loops[1], &look.msg);
                while (!look.looked)
                        sched_yield();
        }
        add_one(&t.streams[0]);
        eng_hash_want(&t.streams[0].hash);
        sem_post(&t.done);
}

static void test_a_piece_is_wanted_while_that_word_is_on_its_way(void **state)
{
        unsigned i;

        make(1);
        begin(&t.streams[0]);
        on_home(want_twice);
        for (i = 0; i < 1000 && (t.left > 0 || !t.told); i++)
                on_home(wait_a_while);
        assert_int_equal(t.left, 0);
        assert_true(t.told);
        stop_loops();
        assert_int_equal(t.streams[0].hash.out, 0);
        unmake();
}

/* ---- the end --------------------------------------------------------------------------------- */

static void test_what_is_left_goes_back_when_loops_have_stopped(void **state)
{
        unsigned i, round;

        make(1);
        begin(&t.streams[0]);
        on_home(add_alone);
        on_home(wait_a_while);
        stop_loops();
        add_one(&t.streams[0]);
        eng_hasher_stop(&t.hasher);
        for (round = 0; round < 4; round++)
                for (i = 0; i < 2; i++)
                        lp_loop_drain(t.loops[i]);
        assert_int_equal(t.left, 0);
        assert_int_equal(t.streams[0].hash.out, 0);
        unmake();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_many_streams_of_another_loop),
                cmocka_unit_test(test_many_streams_of_the_same_loop),
                cmocka_unit_test(test_a_piece_waits_for_company_until_it_is_wanted),
                cmocka_unit_test(test_a_piece_is_wanted_while_that_word_is_on_its_way),
                cmocka_unit_test(test_what_is_left_goes_back_when_loops_have_stopped),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
