/*
 * test_memory.c - memory.c and buffer.c: buffers of every kind, slices of them, their registrations
 * with connections, and what ends those: the buffer, the link, the client.
 */
#include "tests/unit/client/connection_world.h"

#include <stdlib.h>

static unsigned fail_calloc; /* this one, counted from 1, fails; 0: none */
static bool no_maps, no_huge_pages;

static void *counted_calloc(size_t count, size_t size)
{
        return fail_calloc != 0 && --fail_calloc == 0 ? NULL : calloc(count, size);
}

#include <sys/mman.h>

static void *limited_mmap(void *at, size_t len, int rights, int flags, int fd, off_t offset)
{
        if (no_maps || (no_huge_pages && (flags & MAP_HUGETLB) != 0)) {
                errno = ENOMEM;
                return MAP_FAILED;
        }
        return mmap(at, len, rights, flags, fd, offset);
}

#define calloc counted_calloc
#define mmap   limited_mmap
#include "client/rdma/memory.c"

#include "client/rdma/buffer.c"
#undef calloc
#undef mmap

#define PAGE 4096u

static struct want want;

static int set_up(void **state)
{
        fail_calloc = 0;
        no_maps = no_huge_pages = false;
        return world_set_up(state);
}

static int grant_of(struct mr_buffer *buffer, uint64_t offset, uint64_t len)
{
        want_init(&want);
        want.grant.buffer = buffer;
        want.grant.offset = offset;
        want.grant.len = len;
        want.grant.insist = true;
        return want_briefly(&want);
}

static int descriptor(size_t len)
{
        int fd = memfd_create("buffer", MFD_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, (off_t)len), 0);
        return fd;
}

/* ---- buffers --------------------------------------------------------------------------------- */

static void the_librarys_own(void **state)
{
        static const unsigned flags[] = {0, MR_BUFFER_HUGE, MR_BUFFER_HUGE};
        static const size_t lens[] = {1, PAGE - 1, PAGE, PAGE + 1, 3u << 20};

        for (unsigned i = 0; i < 3; i++)
                for (unsigned n = 0; n < sizeof(lens) / sizeof(lens[0]); n++) {
                        struct mr_buffer *buffer;
                        const char *memory;

                        no_huge_pages = i == 2; /* ordinary ones then */
                        assert_int_equal(mr_buffer_new(world.client, lens[n], flags[i], &buffer), 0);
                        memory = mr_buffer_memory(buffer);
                        assert_int_equal((uintptr_t)memory % PAGE, 0);
                        assert_int_equal(mr_buffer_len(buffer), lens[n]);
                        assert_int_equal(memory[0] | memory[lens[n] - 1], 0);
                        assert_int_equal(mr_buffer_free(buffer), 0);
                }
}

static void none_of_that_kind(void **state)
{
        struct mr_buffer *buffer = NULL;
        char bytes[10];

        assert_int_equal(mr_buffer_new(world.client, 0, 0, &buffer), -EINVAL);
        assert_int_equal(mr_buffer_new(world.client, 1, 2, &buffer), -EINVAL);
        assert_int_equal(mr_buffer_new(world.client, SIZE_MAX, 0, &buffer), -EINVAL);
        assert_int_equal(mr_buffer_register(world.client, NULL, 1, &buffer), -EINVAL);
        assert_int_equal(mr_buffer_register(world.client, bytes, 0, &buffer), -EINVAL);
        assert_int_equal(mr_buffer_register(world.client, bytes, SIZE_MAX, &buffer), -EINVAL);
        assert_int_equal(mr_buffer_register_dmabuf(world.client, -1, 0, 1, &buffer), -EBADF);
        assert_int_equal(mr_buffer_register_dmabuf(world.client, 0, 0, 0, &buffer), -EINVAL);
        assert_int_equal(mr_buffer_register_dmabuf(world.client, 0, UINT64_MAX, 2, &buffer), -EINVAL);
        assert_int_equal(mr_buffer_free(NULL), 0);
        assert_null(buffer);
}

static void without_memory(void **state)
{
        struct mr_buffer *buffer = NULL;
        char bytes[10];

        fail_calloc = 1;
        assert_int_equal(mr_buffer_new(world.client, PAGE, 0, &buffer), -ENOMEM);
        fail_calloc = 1;
        assert_int_equal(mr_buffer_register(world.client, bytes, 10, &buffer), -ENOMEM);
        fail_calloc = 1;
        assert_int_equal(mr_buffer_register_dmabuf(world.client, 0, 0, 10, &buffer), -ENOMEM);
        no_maps = true;
        assert_int_equal(mr_buffer_new(world.client, PAGE, 0, &buffer), -ENOMEM);
        assert_int_equal(mr_buffer_new(world.client, PAGE, MR_BUFFER_HUGE, &buffer), -ENOMEM);
        assert_null(buffer);
}

static void slices(void **state)
{
        static const struct {
                uint64_t offset, len;
                int rv;
        } cases[] = {{0, 100, 0},
                     {0, 0, 0},
                     {100, 0, 0},
                     {99, 1, 0},
                     {0, 101, -EINVAL},
                     {100, 1, -EINVAL},
                     {101, 0, -EINVAL},
                     {UINT64_MAX, 1, -EINVAL},
                     {1, UINT64_MAX, -EINVAL}};
        struct mr_buffer *buffer = NULL, *taken;
        char bytes[100], *memory;

        assert_int_equal(mr_buffer_register(world.client, bytes, sizeof(bytes), &buffer), 0);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct mr_place place = {.buffer = buffer, .offset = cases[i].offset, .len = cases[i].len};

                assert_int_equal(mr_place_take(world.client, &place, &taken, &memory), cases[i].rv);
                if (cases[i].rv != 0)
                        continue;
                assert_ptr_equal(memory, bytes + cases[i].offset);
                assert_int_equal(mr_buffer_free(buffer), -EBUSY); /* and it is as it was */
                mr_buffer_put(taken);
        }
        assert_int_equal(mr_place_take(world.client, &(struct mr_place){.buffer = buffer, .memory = bytes, .len = 1},
                                       &taken, &memory),
                         -EINVAL);
        assert_int_equal(mr_buffer_free(buffer), 0);
        assert_int_equal(mr_place_take(world.client, &(struct mr_place){.len = 1}, &taken, &memory), -EINVAL);
        assert_int_equal(mr_place_take(world.client, &(struct mr_place){.len = 0}, &taken, &memory), 0);
        assert_non_null(memory);
}

/* Its bytes may be used by any client, over TCP; by RDMA, by its own. */
static void another_clients(void **state)
{
        struct mr_buffer *buffer = NULL, *taken;
        struct mr_options options;
        struct mr_client *other;
        char *memory;
        int fd = descriptor(PAGE);

        mr_options_init(&options);
        options.endpoint = "http://127.0.0.1:1";
        assert_int_equal(mr_client_open(&options, &other, NULL), 0);
        assert_null(mr_buffer_of(other, world.buffer));
        assert_ptr_equal(mr_buffer_of(world.client, world.buffer), world.buffer);
        assert_int_equal(mr_buffer_register_dmabuf(world.client, fd, 0, PAGE, &buffer), 0);
        assert_int_equal(mr_place_take(other, &(struct mr_place){.buffer = buffer, .len = PAGE}, &taken, &memory),
                         -EINVAL);
        assert_int_equal(mr_buffer_free(buffer), 0);
        mr_client_free(other);
        close(fd);
}

/* ---- registrations --------------------------------------------------------------------------- */

static void once_for_all_slices(void **state)
{
        for (unsigned i = 0; i < 5; i++)
                assert_int_equal(grant_of(world.buffer, i * 1000, 1000), 0);
        assert_int_equal(world_count(&world.registrations), 1);
}

static void until_the_buffer_goes(void **state)
{
        struct mr_buffer *buffer[3];

        for (unsigned i = 0; i < 3; i++) {
                assert_int_equal(mr_buffer_new(world.client, PAGE, 0, &buffer[i]), 0);
                assert_int_equal(grant_of(buffer[i], 0, PAGE), 0);
        }
        assert_int_equal(world_count(&world.registered), 3);
        for (unsigned i = 0; i < 3; i++) {
                assert_int_equal(mr_buffer_free(buffer[(i + 1) % 3]), 0);
                assert_int_equal(world_count(&world.registered), 2 - i);
        }
        assert_int_equal(world_count(&world.opens), 1); /* the session does not mind */
}

static void until_the_link_goes(void **state)
{
        assert_int_equal(grant_of(world.buffer, 0, PAGE), 0);
        world_down();
        world_locked();
        world.connect_rv = -EIO;
        world_unlocked();
        connection_turn();
        assert_int_equal(grant_of(world.buffer, 0, PAGE), -EIO);
        assert_int_equal(world_count(&world.registered), 0);
        world_locked();
        world.connect_rv = 0;
        world_unlocked();
        assert_int_equal(grant_of(world.buffer, 0, PAGE), 0);
        assert_int_equal(world_count(&world.registrations), 2);
}

/* A buffer that outlives its client's connections is only memory. */
static void until_the_client_goes(void **state)
{
        assert_int_equal(grant_of(world.buffer, 0, PAGE), 0);
        mr_client_cancel(world.client);
        mr_rdma_context_stop(world.client->rdma);
        assert_int_equal(world_count(&world.registered), 0);
        assert_int_equal(world_count(&world.links_open), 0);
}

static void registering_fails(void **state)
{
        world.memory_rv = -ENOMEM;
        assert_int_equal(grant_of(world.buffer, 0, PAGE), -ENOMEM);
        world_locked();
        world.memory_rv = 0;
        world_unlocked();
        fail_calloc = 1;
        assert_int_equal(grant_of(world.buffer, 0, PAGE), -ENOMEM);
        assert_int_equal(world_count(&world.registered), 0);
        assert_int_equal(grant_of(world.buffer, 0, PAGE), 0);
        assert_int_equal(world_count(&world.registered), 1);
}

/* Buffers go on one thread while another gives up the link. */
static void *free_them(void *arg)
{
        struct mr_buffer **buffer = arg;

        for (unsigned i = 0; i < 32; i++)
                MUST(mr_buffer_free(buffer[i]) == 0);
        return NULL;
}

static void buffers_and_link_go_at_once(void **state)
{
        struct mr_buffer *buffer[32];
        pthread_t thread;

        for (unsigned i = 0; i < 32; i++) {
                assert_int_equal(mr_buffer_new(world.client, PAGE, 0, &buffer[i]), 0);
                assert_int_equal(grant_of(buffer[i], 0, PAGE), 0);
        }
        assert_int_equal(pthread_create(&thread, NULL, free_them, buffer), 0);
        mr_client_cancel(world.client);
        mr_rdma_context_stop(world.client->rdma); /* rdx_client_domain_close() looks that all are given up */
        pthread_join(thread, NULL);
        assert_int_equal(world_count(&world.registered), 0);
}

/* ---- dma-buf --------------------------------------------------------------------------------- */

static void a_descriptor(void **state)
{
        struct mr_buffer *buffer;
        int fd = descriptor(4 * PAGE);

        world.device_rights = RDX_RIGHTS_REGION | RDX_RIGHTS_WINDOW2;
        assert_int_equal(mr_buffer_register_dmabuf(world.client, fd, PAGE + 100, PAGE, &buffer), 0);
        assert_null(mr_buffer_memory(buffer));
        assert_non_null(buffer->view);
        assert_false(mr_buffer_unseen(buffer));
        assert_int_equal(pwrite(fd, "x", 1, PAGE + 100), 1);
        assert_int_equal(buffer->view[0], 'x');
        assert_int_equal(grant_of(buffer, 5, 10), 0);
        assert_int_equal(world_count(&world.asked_rights), RDX_RIGHTS_REGION); /* windows know no dma-bufs */
        assert_true(world.dmabuf_fd >= 0 && world.dmabuf_fd != fd);            /* the caller may close its own */
        assert_int_equal(world.dmabuf_at, PAGE + 100);
        assert_int_equal((uintptr_t)world.dmabuf_address, 100);
        assert_int_equal(want.grant.place.address, 105);
        assert_int_equal(grant_of(world.buffer, 0, 10), 0); /* by another connection */
        assert_int_equal(world_count(&world.opens), 2);
        assert_int_equal(mr_buffer_free(buffer), 0);
        assert_int_equal(world_count(&world.registered), 1);
        close(fd);
}

static void a_descriptor_that_is_refused(void **state)
{
        struct mr_buffer *buffer;
        int fd = descriptor(PAGE);

        world.device_rights = RDX_RIGHTS_REGION;
        world.memory_rv = -EOPNOTSUPP;
        assert_int_equal(mr_buffer_register_dmabuf(world.client, fd, 0, PAGE, &buffer), 0);
        assert_int_equal(grant_of(buffer, 0, PAGE), -EOPNOTSUPP);
        assert_non_null(strstr(want.grant.error.message, "cannot be registered"));
        assert_int_equal(mr_buffer_free(buffer), 0);
        close(fd);
}

static void a_descriptor_that_cannot_be_seen(void **state)
{
        struct mr_buffer *buffer;
        int ends[2];

        assert_int_equal(pipe(ends), 0); /* of what cannot be mapped there is no view */
        assert_int_equal(mr_buffer_register_dmabuf(world.client, ends[0], 0, PAGE, &buffer), 0);
        assert_true(mr_buffer_unseen(buffer));
        assert_int_equal(mr_buffer_free(buffer), 0);
        assert_int_equal(mr_buffer_register_dmabuf(world.client, ends[0], 0, SIZE_MAX, &buffer), 0);
        assert_true(mr_buffer_unseen(buffer));
        assert_int_equal(mr_buffer_free(buffer), 0);
        close(ends[0]);
        close(ends[1]);
}

/* No device knows regions of it: nobody can write there, and that is said. */
static void a_device_without_dmabufs(void **state)
{
        struct mr_buffer *buffer;
        int fd = descriptor(PAGE);

        world.link_rv = -ENOTSUP;
        assert_int_equal(mr_buffer_register_dmabuf(world.client, fd, 0, PAGE, &buffer), 0);
        assert_int_equal(grant_of(buffer, 0, PAGE), -EOPNOTSUPP);
        assert_int_equal(mr_buffer_free(buffer), 0);
        close(fd);
}

#define WITH_MEMORY(test) cmocka_unit_test_setup_teardown(test, set_up, world_tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                WITH_MEMORY(the_librarys_own),
                WITH_MEMORY(none_of_that_kind),
                WITH_MEMORY(without_memory),
                WITH_MEMORY(slices),
                WITH_MEMORY(another_clients),
                WITH_MEMORY(once_for_all_slices),
                WITH_MEMORY(until_the_buffer_goes),
                WITH_MEMORY(until_the_link_goes),
                WITH_MEMORY(until_the_client_goes),
                WITH_MEMORY(registering_fails),
                WITH_MEMORY(buffers_and_link_go_at_once),
                WITH_MEMORY(a_descriptor),
                WITH_MEMORY(a_descriptor_that_is_refused),
                WITH_MEMORY(a_descriptor_that_cannot_be_seen),
                WITH_MEMORY(a_device_without_dmabufs),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
