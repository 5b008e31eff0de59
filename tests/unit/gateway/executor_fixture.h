/*
 * executor_fixture.h - a gateway whose BATCH messages come by real sessions of two clients, over
 * the fake transport and stepped loops, with the fake engine behind it: what is asked for, what
 * must come of it, and what may not change.
 */
#ifndef GATEWAY_TESTS_EXECUTOR_FIXTURE_H
#define GATEWAY_TESTS_EXECUTOR_FIXTURE_H

#define ARENA_SIZE  (32u << 20)
#define MEMORY_SIZE (4u << 20)
#include "tests/unit/gateway/fake_engine.h"
#include "tests/unit/rdma/rdma_world.h"

#include "gateway.h"
#include "tests/unit/gateway/step_arena.h"

#define SMALL   20u /* objects 0 … of up to some KiB; the next ones do not live in a record */
#define OBJECTS 30u
#define BLOCK   (256u << 10)
#define BLOCKS  64u
#define GRIPS   8u
#define EACH    64u /* entries of a session under way: GW_EXECUTOR_EACH */

static struct gw_gateway *gw;
static struct client one, two;
static bool blocks[BLOCKS];

/* ---- the engine's memory: of large objects in the registered arena --------------------------- */

static inline uint8_t *memory(size_t len)
{
        if (len <= ENG_INLINE_MAX)
                return malloc(len + 1);
        for (unsigned i = 0; i < BLOCKS; i++)
                if (!blocks[i]) {
                        blocks[i] = true;
                        return (uint8_t *)arena + ARENA_SIZE - (size_t)(i + 1) * BLOCK;
                }
        fail_msg("more large objects are open than may be");
        return NULL;
}

static inline void memory_back(uint8_t *bytes, size_t len)
{
        memset(bytes, 0xdb, len);
        if (len <= ENG_INLINE_MAX)
                free(bytes);
        else
                blocks[(arena + ARENA_SIZE - (char *)bytes) / BLOCK - 1] = false;
}

static inline size_t size_of(unsigned object)
{
        return object == 0 ? 0 : object < SMALL ? 7 * object * object + 1 : ENG_INLINE_MAX + 1 + 997 * object;
}

static inline void add_objects(void)
{
        for (unsigned n = 0; n < OBJECTS; n++) {
                struct fake_object *o = &fake.objects[n];
                size_t len = size_of(n);

                *o = (struct fake_object){.used = true, .bucket = 1};
                o->key_len = (size_t)snprintf(o->key, sizeof(o->key), "%u", n);
                o->bytes = malloc(len + 1);
                for (size_t i = 0; i < len; i++)
                        o->bytes[i] = object_byte(n, i);
                o->object.size = len;
                o->object.etag[0] = (uint8_t)n;
        }
}

/* ---- the site -------------------------------------------------------------------------------- */

static inline void on_message(void *arg, struct rdx_batch *batch)
{
        gw_rdma_batch(gw, batch);
}

static unsigned seed;

static inline int open_site(unsigned with)
{
        struct gw_credential user = {.access_key = OWNER, .secret_key = "secret"};
        struct lp_loop *loops[STEP_LOOPS] = {&step_loop[0], &step_loop[1]};
        struct fake_options transport = {.seed = with};
        struct gw_options options = {.store = &fake.store, .loops = loops, .loop_count = STEP_LOOPS};

        world_batch = on_message;
        if (world_open(transport.seed, &transport, NULL) != 0)
                return -1;
        step_arena_start();
        memset(blocks, 0, sizeof(blocks));
        fake_reset(NULL);
        fake.memory = memory;
        fake.memory_back = memory_back;
        add_objects();
        options.rdma = server;
        if (gw_new(&options, &gw) != 0 || gw_credentials_set(gw, &user, 1) != 0)
                return -1;
        return client_begin(&one, RDX_RIGHTS_WINDOW2) == 0 && client_begin(&two, RDX_RIGHTS_WINDOW1) == 0 ? 0 : -1;
}

static inline int setup(void **state)
{
        seed = test_seed();
        return open_site(seed);
}

static inline void drain(void)
{
        while (lp_loop_drain(&step_loop[0]) + lp_loop_drain(&step_loop[1]) > 0)
                ;
}

/* As the daemon ends. */
static inline int teardown(void **state)
{
        client_end(&one);
        client_end(&two);
        rdx_server_stop(server);
        drain();
        gw_free(gw);
        fake_release();
        drain();
        rdx_server_free(server);
        server = NULL;
        assert_int_equal(fake.gets_open, 0);
        step_arena_check();
        world_close();
        fake_reset(NULL);
        return 0;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* What is asked for, and what must become of it. */
struct wish {
        char key[16];
        struct rdx_entry entry;
        enum rdx_code code;
        unsigned object;
        uint64_t from, len; /* of the object */
};

static struct wish wishes[RDX_BATCH_ENTRIES];
static struct rdx_window_binding grips[GRIPS];
static bool count_on; /* what has come, over several batches */

static inline void wish_whole(struct wish *wish, unsigned object, uint64_t *at)
{
        *wish = (struct wish){.object = object, .len = object < OBJECTS ? size_of(object) : 0};
        snprintf(wish->key, sizeof(wish->key), "%u", object);
        wish->code = object < OBJECTS ? RDX_CODE_OK : RDX_CODE_NO_SUCH_KEY;
        wish->entry = (struct rdx_entry){
                .bucket = BYTES("bucket"), .key = {wish->key, strlen(wish->key)}, .offset = *at, .length = wish->len};
        *at += wish->len;
}

/* Fits into `most` bytes at *at. */
static inline void wish_any(struct wish *wish, uint64_t most, uint64_t *at)
{
        unsigned object = (unsigned)step_random(OBJECTS + 3);
        uint64_t size = object < OBJECTS ? size_of(object) : 0, start = *at;

        wish_whole(wish, object, at);
        *at = start;
        if (object < OBJECTS && step_random(3) == 0) {
                wish->from = wish->entry.range_first = step_random(size + 2);
                wish->entry.range_length = 1 + step_random(most);
                wish->len = wish->from >= size                             ? 0
                            : size - wish->from < wish->entry.range_length ? size - wish->from
                                                                           : wish->entry.range_length;
                wish->code = wish->from >= size ? RDX_CODE_INVALID_RANGE : RDX_CODE_OK;
        }
        wish->entry.length = step_random(8) == 0 ? step_random(most) : wish->len + step_random(64);
        if (wish->entry.length > most)
                wish->entry.length = most;
        if (wish->len > wish->entry.length)
                wish->code = RDX_CODE_PLACE_TOO_SMALL;
        *at += wish->entry.length;
}

/* In messages of at most `each` entries, over the whole memory. How many messages. */
static inline unsigned send_batch(struct client *client, struct rdx_window_binding *grip, unsigned count, unsigned each, bool ordered,
                            unsigned deadline)
{
        static struct rdx_entry entries[RDX_BATCH_ENTRIES];
        unsigned first = 0, messages = 0, n;

        if (!count_on)
                client->entries = client->results = client->last = 0; /* some come while the later windows are bound */
        for (unsigned i = 0; i < count; i++)
                entries[i] = wishes[i].entry;
        while (first < count) {
                struct rdx_client_batch how = {
                        .batch = 3, .first = (uint16_t)first, .ordered = ordered, .deadline_ms = deadline};
                unsigned left = count - first < each ? count - first : each, most = left < 64 ? left : 64, sent;

                n = (left + 63) / 64;
                how.replies = (uint16_t)(n + step_random(most - n + 1));
                if (how.replies > 12)
                        how.replies = 12;
                assert_true(messages < GRIPS);
                assert_int_equal(rdx_window_binding_open(client->client, client->memory, 0, MEMORY_SIZE, false, how.replies,
                                               &grip[messages]),
                                 0);
                assert_int_equal(rdx_client_batch(client->client, &grip[messages], &how, entries + first, left, &sent),
                                 0);
                first += sent;
                messages++;
        }
        return messages;
}

static inline void settle(struct client *client)
{
        step_all();
        rdx_client_poll(client->client);
        step_all();
        rdx_client_poll(client->client);
}

static inline void over(struct client *client, struct rdx_window_binding *grip, unsigned messages)
{
        assert_int_equal(client->last, messages);
        for (unsigned i = 0; i < messages; i++)
                assert_int_equal(rdx_window_binding_close(&grip[i], false), 0);
}

/* The result, the bytes, and what was there before around them. */
static inline void check(struct client *client, unsigned i)
{
        const struct wish *wish = &wishes[i];
        const struct rdx_result *result = &client->result[i];
        const uint8_t *bytes = client->bytes + wish->entry.offset;

        assert_int_equal(result->code, wish->code);
        assert_int_equal(result->bytes, wish->code == RDX_CODE_OK ? wish->len : 0);
        if (wish->code != RDX_CODE_OK)
                return;
        assert_int_equal(result->size, size_of(wish->object));
        for (uint64_t k = 0; k < wish->len; k++)
                if (bytes[k] != object_byte(wish->object, wish->from + k))
                        fail_msg("entry %u: byte %llu of object %u is wrong", i, (unsigned long long)k, wish->object);
        assert_int_equal(result->crc32c, era_crc32c(0, bytes, wish->len));
        memcpy(client->shadow + wish->entry.offset, bytes, wish->len);
}

static inline void check_all(struct client *client, unsigned count, bool ordered)
{
        assert_int_equal(client->entries, count);
        for (unsigned i = 0; i < count; i++) {
                if (ordered)
                        assert_int_equal(client->order[i], i);
                check(client, i);
        }
        assert_memory_equal(client->bytes, client->shadow, MEMORY_SIZE);
}

/* Whole objects 0 … count - 1, over and over. */
static inline void whole_objects(struct client *client, unsigned count, unsigned from, unsigned to)
{
        uint64_t at = 0;
        unsigned messages;

        for (unsigned i = 0; i < count; i++)
                wish_whole(&wishes[i], from + i % (to - from), &at);
        assert_true(at <= MEMORY_SIZE);
        messages = send_batch(client, grips, count, RDX_MESSAGE_ENTRIES, false, 0);
        settle(client);
        over(client, grips, messages);
        check_all(client, count, false);
}

/* ---- slots ----------------------------------------------------------------------------------- */

static struct lp_reserve others[STEP_LOOPS];

static inline void nothing(struct lp_reserve *r)
{
}

/* Somebody else has all slots. */
static inline void take_all_slots(void)
{
        for (unsigned i = 0; i < STEP_LOOPS; i++) {
                step_arena[i].slots = 1;
                others[i] = (struct lp_reserve){.count = 1, .share = LP_SHARE_GET, .granted = nothing};
                assert_int_equal(lp_reserve(&step_loop[i], &others[i]), 0);
        }
}

static inline void give_all_slots(void)
{
        for (unsigned i = 0; i < STEP_LOOPS; i++)
                lp_unreserve(&step_loop[i], LP_SHARE_GET, 1);
}

#endif
