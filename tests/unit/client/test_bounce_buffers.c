/*
 * test_bounce_buffers.c - bounce_buffers.c: slots are given out in the order of asking, never one
 * to two, and no more than there are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>

static bool no_memory;

static void *limited_calloc(size_t count, size_t size)
{
        return no_memory ? NULL : calloc(count, size);
}

#include "client.h"

static int limited_buffer(struct mr_client *client, size_t len, unsigned flags, struct mr_buffer **out);

#define calloc        limited_calloc
#define mr_buffer_new limited_buffer
#include "client/rdma/bounce_buffers.c"
#undef calloc
#undef mr_buffer_new

#include "tests/lib/must.h"

#include <semaphore.h>

#define THREADS 12u
#define TURNS   500u

static unsigned made;

static int limited_buffer(struct mr_client *client, size_t len, unsigned flags, struct mr_buffer **out)
{
        assert_int_equal(len, (size_t)MR_BOUNCE_SLOT * MR_BOUNCE_SLOTS);
        if (no_memory)
                return -ENOMEM;
        made++;
        return mr_buffer_new(client, len, flags, out);
}

static struct mr_bounce *bounce;
static struct mr_bounce_wait *order[64];
static unsigned readies;

static void ready(void *arg)
{
        order[readies++] = arg;
}

static int set_up(void **state)
{
        no_memory = false;
        made = readies = 0;
        return mr_bounce_new(NULL, &bounce);
}

static int tear_down(void **state)
{
        mr_bounce_free(bounce);
        return 0;
}

static void in_the_order_of_asking(void **state)
{
        struct mr_bounce_wait wait[10];
        unsigned seen = 0;

        for (unsigned i = 0; i < 10; i++) {
                wait[i] = (struct mr_bounce_wait){.ready = ready, .arg = &wait[i]};
                assert_int_equal(mr_bounce_take(bounce, &wait[i]), i < MR_BOUNCE_SLOTS ? 0 : 1);
        }
        assert_int_equal(made, 1);
        assert_int_equal(mr_bounce_asked(bounce), 10);
        for (unsigned i = 0; i < MR_BOUNCE_SLOTS; i++)
                seen |= 1u << mr_bounce_offset(&wait[i]) / MR_BOUNCE_SLOT;
        assert_int_equal(seen, (1u << MR_BOUNCE_SLOTS) - 1); /* each its own */
        for (unsigned i = 0; i < 10; i++) {
                uint64_t offset = mr_bounce_offset(&wait[i]);

                mr_bounce_put(bounce, &wait[i]);
                assert_int_equal(wait[i].slot, -1);
                if (i + MR_BOUNCE_SLOTS >= 10)
                        continue;
                assert_int_equal(readies, i + 1);
                assert_ptr_equal(order[i], &wait[i + MR_BOUNCE_SLOTS]);
                assert_int_equal(mr_bounce_offset(order[i]), offset);
        }
        assert_int_equal(readies, 10 - MR_BOUNCE_SLOTS);
        assert_int_equal(mr_bounce_take(bounce, &wait[0]), 0);
        mr_bounce_put(bounce, &wait[0]);
}

/* Nobody's slot is made free by giving back none, or the same twice. */
static void given_back_twice(void **state)
{
        struct mr_bounce_wait wait[MR_BOUNCE_SLOTS + 1];

        for (unsigned i = 0; i < MR_BOUNCE_SLOTS; i++)
                assert_int_equal(mr_bounce_take(bounce, &wait[i]), 0);
        mr_bounce_put(bounce, &wait[0]);
        mr_bounce_put(bounce, &wait[0]);
        assert_int_equal(mr_bounce_take(bounce, &wait[0]), 0);
        wait[MR_BOUNCE_SLOTS] = (struct mr_bounce_wait){.ready = ready, .arg = &wait[MR_BOUNCE_SLOTS]};
        assert_int_equal(mr_bounce_take(bounce, &wait[MR_BOUNCE_SLOTS]), 1);
        mr_bounce_put(bounce, &wait[MR_BOUNCE_SLOTS]); /* it has none yet */
        assert_int_equal(readies, 0);
        mr_bounce_put(bounce, &wait[2]);
        assert_int_equal(readies, 1);
}

static void without_memory(void **state)
{
        struct mr_bounce_wait wait;
        struct mr_bounce *none = bounce;

        no_memory = true;
        assert_int_equal(mr_bounce_new(NULL, &none), -ENOMEM);
        assert_int_equal(mr_bounce_take(bounce, &wait), -ENOMEM);
        assert_int_equal(wait.slot, -1);
        mr_bounce_put(bounce, &wait);
        no_memory = false; /* it is tried again */
        assert_int_equal(mr_bounce_take(bounce, &wait), 0);
        mr_bounce_put(bounce, &wait);
        mr_bounce_free(NULL);
}

/* ---- many at once ---------------------------------------------------------------------------- */

static atomic_uint users[MR_BOUNCE_SLOTS];

static void post(void *arg)
{
        sem_post(arg);
}

static void *use_slots(void *arg)
{
        sem_t semaphore;
        struct mr_bounce_wait wait = {.ready = post, .arg = &semaphore};

        sem_init(&semaphore, 0, 0);
        for (unsigned i = 0; i < TURNS; i++) {
                unsigned slot;
                char *bytes;

                if (mr_bounce_take(bounce, &wait) == 1)
                        sem_wait(&semaphore);
                slot = (unsigned)(mr_bounce_offset(&wait) / MR_BOUNCE_SLOT);
                MUST(atomic_fetch_add(&users[slot], 1) == 0);
                bytes = (char *)mr_buffer_memory(mr_bounce_buffer(bounce)) + mr_bounce_offset(&wait);
                bytes[0]++; /* the thread sanitizer sees two of them */
                MUST(atomic_fetch_sub(&users[slot], 1) == 1);
                mr_bounce_put(bounce, &wait);
        }
        sem_destroy(&semaphore);
        return NULL;
}

static void one_slot_for_one(void **state)
{
        pthread_t thread[THREADS];

        for (unsigned i = 0; i < THREADS; i++)
                assert_int_equal(pthread_create(&thread[i], NULL, use_slots, NULL), 0);
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(thread[i], NULL);
        assert_int_equal(mr_bounce_asked(bounce), THREADS * TURNS);
        assert_int_equal(made, 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(in_the_order_of_asking, set_up, tear_down),
                cmocka_unit_test_setup_teardown(given_back_twice, set_up, tear_down),
                cmocka_unit_test_setup_teardown(without_memory, set_up, tear_down),
                cmocka_unit_test_setup_teardown(one_slot_for_one, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
