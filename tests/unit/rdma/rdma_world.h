/*
 * rdma_world.h - a server, its gateway's part (GETs, PUTs and batches of made-up objects), and
 * clients, over the fake transport and stepped loops.
 *
 * Object n's byte i is object_byte(n, i). A client's memory has a shadow: what it must look like
 * outside the windows that are open.
 */
#ifndef RDMA_TESTS_RDMA_WORLD_H
#define RDMA_TESTS_RDMA_WORLD_H

#include "tests/unit/rdma/rdma_fixture.h"
#include "tests/unit/rdma/step_loop.h"

#include "rdma.h"
#include "rdma_client.h"

#ifndef ARENA_SIZE
#define ARENA_SIZE  (8u << 20)
#define MEMORY_SIZE (64u << 10)
#endif
#define UNIT        (4u << 10)
#define UNITS_MOST  16u
#define OWNER       "AKIATEST"
#define TOKEN_KEY   0xffeeddccull

static struct rdx_server *server;
static char *arena;
static unsigned arena_next;
static bool world_tokens; /* the header protocol is on in the next world */

static inline uint8_t object_byte(unsigned object, uint64_t i)
{
        return (uint8_t)(object * 131 + i * 7 + (i >> 8) * 13 + 1);
}

/* ---- the gateway's part: GET and PUT --------------------------------------------------------- */

/* How a GET goes at the server. */
enum get_plan { GET_WHOLE, GET_BODY, GET_ABANDON, GET_OUTSIDE };

struct get {
        struct lp_msg start;
        struct rdx_request request;
        struct rdx_token token;
        struct rdx_write write[UNITS_MOST];
        char *slot[UNITS_MOST];
        enum get_plan plan;
        unsigned object, len, units, begun, done, ended, given;
        int begin_result, result;
};

/*
 * A piece of the arena, spoilt when it is given back, so that a device that reads it later is
 * noticed (I7).
 */
static inline char *slot_get(void)
{
        return arena + (size_t)(arena_next++ % (ARENA_SIZE / UNIT)) * UNIT;
}

static inline struct get *get_of(struct rdx_write *write)
{
        return container_of(write->request, struct get, request);
}

static inline void get_write_done(struct rdx_write *write, int result)
{
        struct get *get = get_of(write);

        assert_int_equal(get->ended, 0);
        if (!get->request.read)
                memset(write->buf, 0xdb, write->len);
        get->done++;
}

static inline void get_give(struct get *get)
{
        unsigned i, at;

        for (i = 0; i < get->units; i++) {
                struct rdx_write *write = &get->write[i];
                unsigned len = get->len - i * UNIT < UNIT ? get->len - i * UNIT : UNIT;

                *write = (struct rdx_write){.buf = slot_get(), .len = len, .offset = i * UNIT, .done = get_write_done};
                get->slot[i] = write->buf;
                if (get->plan == GET_OUTSIDE && i == get->units - 1)
                        write->offset = get->request.window.length - len + 1;
                for (at = 0; at < len && !get->request.read; at++)
                        ((uint8_t *)write->buf)[at] = object_byte(get->object, i * UNIT + at);
                rdx_request_write(&get->request, write);
                get->given++;
                if (get->plan == GET_ABANDON && i == get->units / 2)
                        break;
        }
        if (get->plan == GET_ABANDON)
                rdx_request_abandon(&get->request);
        else
                rdx_request_finish(&get->request);
}

static inline void get_begun(struct rdx_request *request, int result)
{
        struct get *get = container_of(request, struct get, request);

        get->begun++;
        get->begin_result = result;
        if (result != 0)
                return;
        if (get->plan == GET_BODY)
                rdx_request_abandon(request);
        else
                get_give(get);
}

static inline void get_ended(struct rdx_request *request, int result)
{
        struct get *get = container_of(request, struct get, request);

        get->ended++;
        get->result = result;
        assert_int_equal(get->done, get->given); /* nothing is the device's any more */
}

static inline void get_run(struct lp_msg *msg)
{
        struct get *get = container_of(msg, struct get, start);

        rdx_request_begin(server, &get->request);
}

/* The HTTP request has come, on some loop. */
static inline void get_start(struct get *get, const uint8_t session[RDX_ID_LEN], uint64_t number,
                             const struct rdx_window_span *place, unsigned object, unsigned len, enum get_plan plan)
{
        *get = (struct get){.plan = plan, .object = object, .len = len, .units = (len + UNIT - 1) / UNIT};
        memcpy(get->request.session, session, RDX_ID_LEN);
        get->request.number = number;
        get->request.window = *place;
        get->request.begun = get_begun;
        get->request.ended = get_ended;
        get->start.run = get_run;
        assert(get->units <= UNITS_MOST);
        lp_post(&step_loop[step_random(STEP_LOOPS)], &get->start);
}

/* The same by a token, on this loop. */
static inline void get_start_token(struct get *get, unsigned loop, const struct rdx_token *token, unsigned object,
                                   unsigned len, enum get_plan plan)
{
        *get = (struct get){
                .plan = plan, .object = object, .len = len, .units = (len + UNIT - 1) / UNIT, .token = *token};
        get->request.token = &get->token;
        get->request.begun = get_begun;
        get->request.ended = get_ended;
        get->start.run = get_run;
        assert(get->units <= UNITS_MOST);
        lp_post(&step_loop[loop], &get->start);
}

static inline bool get_over(const struct get *get)
{
        return get->begun == 1 && (get->begin_result != 0 || get->ended == 1);
}

/* ---- the gateway's part: batches ------------------------------------------------------------- */

/* A key is "OBJECT:LENGTH"; "none" is not there; what does not fit is told. */
static unsigned entries_done, batch_writes, batch_writes_done, batches_open;
static bool batches_backwards; /* results in the other order than entries */

struct batch_write {
        struct rdx_write write;
};

static inline void batch_write_done(struct rdx_write *write, int result)
{
        batch_writes_done++;
        memset(write->buf, 0xdb, write->len);
        free(write);
}

static inline void batch_entry(struct rdx_batch *batch, unsigned i)
{
        const struct rdx_entry *entry = rdx_batch_entry(batch, i);
        struct rdx_result result = {.status = 200, .etag = BYTES("etag")};
        unsigned object = 0, len = 0, at, from;
        char key[64];

        snprintf(key, sizeof(key), "%.*s", (int)entry->key.len, entry->key.data);
        if (sscanf(key, "%u:%u", &object, &len) != 2) {
                result.code = RDX_CODE_NO_SUCH_KEY;
        } else if (len > entry->length) {
                result.code = RDX_CODE_PLACE_TOO_SMALL;
                result.size = len;
        } else {
                result.bytes = result.size = len;
        }
        result.status = (uint16_t)rdx_code_status(result.code);
        for (from = 0; result.code == 0 && from < len; from += UNIT) {
                struct rdx_write *write = calloc(1, sizeof(*write));

                assert_non_null(write);
                write->len = len - from < UNIT ? len - from : UNIT;
                write->buf = slot_get();
                write->offset = from;
                write->done = batch_write_done;
                for (at = 0; at < write->len; at++)
                        ((uint8_t *)write->buf)[at] = object_byte(object, from + at);
                batch_writes++;
                rdx_batch_write(batch, i, write);
        }
        entries_done++;
        rdx_batch_result(batch, i, &result);
}

static inline void on_batch(void *arg, struct rdx_batch *batch)
{
        unsigned i, count = rdx_batch_message(batch)->count;

        assert_string_equal(rdx_batch_owner(batch), OWNER);
        for (i = 0; i < count; i++)
                batch_entry(batch, batches_backwards ? count - 1 - i : i);
}

static void (*world_batch)(void *arg, struct rdx_batch *batch) = on_batch; /* of the next world_open() */

/* ---- the server ------------------------------------------------------------------------------ */

static inline int world_open(uint64_t seed, const struct fake_options *how, const struct rdx_limits *limits)
{
        struct lp_loop *loops[STEP_LOOPS] = {&step_loop[0], &step_loop[1]};
        struct rdx_endpoint_options endpoint = {.address = "10.0.0.1"};
        struct rdx_server_options options = {.transport = fake_transport(),
                                             .loops = loops,
                                             .loop_count = STEP_LOOPS,
                                             .endpoints = &endpoint,
                                             .endpoint_count = 1,
                                             .tokens = world_tokens,
                                             .token_key = TOKEN_KEY,
                                             .batch = world_batch};
        char why[200];
        int rv;

        step_start(seed);
        fake_start(how);
        if (limits != NULL)
                options.limits = *limits;
        arena = aligned_alloc(4096, ARENA_SIZE);
        assert_non_null(arena);
        arena_next = entries_done = batch_writes = batch_writes_done = batches_open = 0;
        batches_backwards = false;
        rv = rdx_server_new(&options, &server, why, sizeof(why));
        if (rv == 0)
                rv = rdx_server_memory(server, arena, ARENA_SIZE);
        return rv == 0 ? rdx_server_start(server) : rv;
}

/* As the daemon ends: loops have stopped, what is owed is told, nothing is left. */
static inline void world_close(void)
{
        struct fake_counts counts;
        unsigned i;

        if (server != NULL)
                rdx_server_stop(server);
        for (i = 0; i < STEP_LOOPS; i++) {
                step_self = &step_loop[i];
                while (run_message(&step_loop[i]))
                        step_self = &step_loop[i = 0];
        }
        step_self = NULL;
        rdx_server_free(server);
        server = NULL;
        free(arena);
        fake_counts_read(&counts);
        assert_int_equal(counts.objects, 0);
        assert_int_equal(counts.rnr, 0);
        assert_int_equal(batch_writes, batch_writes_done);
}

/* ---- a client -------------------------------------------------------------------------------- */

struct client {
        struct rdx_opened opened;
        struct rdx_grant grant;
        struct rdx_client_domain *link;
        struct rdx_client *client;
        struct rdx_memory *memory;
        uint8_t *bytes, *shadow;
        unsigned notices, results, entries, last;
        struct rdx_result result[RDX_BATCH_ENTRIES];
        uint16_t order[RDX_BATCH_ENTRIES];
};

/* What a thread would do while it waits: the world goes on. */
static inline int client_wait(void *arg, int fd, unsigned timeout_ms)
{
        struct pollfd item = {.fd = fd, .events = POLLIN};

        while (poll(&item, 1, 0) == 0)
                if (!step())
                        return 0;
        return 1;
}

static inline void client_noticed(void *arg, uint64_t number)
{
        ((struct client *)arg)->notices++;
}

static inline void client_result(void *arg, const struct rdx_client_result *result)
{
        struct client *client = arg;
        struct rdx_reader reader = result->reader;
        struct rdx_result one;

        client->results++;
        client->last += result->last;
        while (rdx_reader_result(&reader, &one) == 1) {
                client->result[one.index] = one;
                client->order[client->entries++ % RDX_BATCH_ENTRIES] = one.index;
        }
}

static inline int client_open(struct client *client, unsigned rights)
{
        struct rdx_open open = {.owner = OWNER, .queue_pairs = 1, .receives = 128};
        struct rdx_grant *grant = &client->grant;
        int rv;

        lp_random(open.signing_key, sizeof(open.signing_key));
        lp_random(open.client_nonce, sizeof(open.client_nonce));
        open.rights = rights != 0 ? rights : RDX_RIGHTS_WINDOW2;
        rv = rdx_session_open(server, &open, &client->opened);
        if (rv != 0)
                return rv;
        *grant = (struct rdx_grant){.rights = client->opened.rights,
                                    .address = client->opened.endpoint[0].address,
                                    .port = client->opened.endpoint[0].port,
                                    .endpoint = (uint16_t)client->opened.endpoint[0].endpoint,
                                    .requests = client->opened.limits.requests,
                                    .messages = client->opened.limits.messages,
                                    .receives = open.receives};
        memcpy(grant->signing_key, open.signing_key, RDX_KEY_LEN);
        memcpy(grant->client_nonce, open.client_nonce, RDX_NONCE_LEN);
        memcpy(grant->server_nonce, client->opened.server_nonce, RDX_NONCE_LEN);
        memcpy(grant->session, client->opened.session, RDX_ID_LEN);
        memcpy(grant->boot, client->opened.endpoint[0].boot, RDX_BOOT_LEN);
        return 0;
}

static inline int client_connect(struct client *client)
{
        struct rdx_client_events events = {
                .noticed = client_noticed, .result = client_result, .wait = client_wait, .arg = client};

        return rdx_client_connect(client->link, &client->grant, &events, 1000, &client->client);
}

/*
 * The way, memory, a session, and its queue pair. What was made before a failure is there for
 * client_end().
 */
static inline int client_begin(struct client *client, unsigned rights)
{
        char why[200];
        int rv;

        memset(client, 0, sizeof(*client));
        client->bytes = aligned_alloc(4096, MEMORY_SIZE);
        client->shadow = malloc(MEMORY_SIZE);
        assert_true(client->bytes != NULL && client->shadow != NULL);
        memset(client->bytes, 0x5a, MEMORY_SIZE);
        memset(client->shadow, 0x5a, MEMORY_SIZE);
        rv = rdx_client_domain_open(fake_transport(), "10.0.0.1", 0, rights, 1000, &client->link, why, sizeof(why));
        if (rv == 0)
                rv = rdx_client_domain_memory(client->link, client->bytes, MEMORY_SIZE, -1, 0, &client->memory);
        if (rv == 0)
                rv = client_open(client, rights);
        return rv == 0 ? client_connect(client) : rv;
}

static inline void client_end(struct client *client)
{
        if (client->client != NULL)
                rdx_client_fence(client->client);
        rdx_client_close(client->client);
        client->client = NULL;
        rdx_memory_close(client->memory);
        rdx_client_domain_close(client->link);
        assert_memory_equal(client->bytes, client->shadow, MEMORY_SIZE);
        free(client->bytes);
        free(client->shadow);
}

/* Nothing but [from, from + len) may differ from what it was. */
static inline void client_check_outside(const struct client *client, unsigned from, unsigned len)
{
        assert_memory_equal(client->bytes, client->shadow, from);
        assert_memory_equal(client->bytes + from + len, client->shadow + from + len, MEMORY_SIZE - from - len);
}

/* The window is over: what is there now stays. */
static inline void client_keep(struct client *client, unsigned from, unsigned len)
{
        memcpy(client->shadow + from, client->bytes + from, len);
}

static inline void assert_object(const uint8_t *bytes, unsigned object, unsigned len)
{
        unsigned i;

        for (i = 0; i < len; i++)
                if (bytes[i] != object_byte(object, i))
                        fail_msg("byte %u of object %u is wrong", i, object);
}

#endif
