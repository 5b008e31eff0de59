/*
 * test_pair.c - server and client as two processes, with real loops and real time: over the live
 * fake, or, in a guest with Soft-RoCE, over verbs:
 *
 *   test_pair [--verbs ADDRESS]
 *
 * Each process is a program of its own (--serve, --die), since verbs that were used do not survive
 * a fork. A socket stands in for HTTP. The server's process makes up objects; object n's byte i is
 * object_byte(n, i).
 */
#include "tests/unit/rdma/rdma_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rdma.h"
#include "rdma_client.h"
#include "tests/fakerdma/fake.h"
#include "tests/lib/must.h"

#define LOOPS   2u
#define UNIT    (256u << 10)
#define AREA    (4u << 20) /* most bytes of an object */
#define AREAS   4u         /* that may be served at a time */
#define SAMPLE  1000u
#define OWNER   "AKIATEST"
#define PATIENT 20000u

enum ask_kind { ASK_OPEN, ASK_GET, ASK_END, ASK_STATS, ASK_QUIT };

struct ask {
        enum ask_kind kind;
        struct rdx_open open;
        uint8_t session[RDX_ID_LEN];
        uint64_t number;
        struct rdx_window_span place;
        unsigned object, len;
        bool read;
};

struct answer {
        int result, begin_result;
        bool posted, notice, right; /* right: what a PUT read is the object */
        uint64_t bytes;
        struct rdx_opened opened;
        char address[64];
        struct rdx_stats stats;
};

static const struct rdx_transport *transport;
static const char *address;

static uint8_t object_byte(unsigned object, uint64_t i)
{
        return (uint8_t)(object * 131 + i * 7 + (i >> 8) * 13 + 1);
}

/* ---- the server's process -------------------------------------------------------------------- */

static struct rdx_server *server;
static struct lp_loop *loop[LOOPS];
static char *arena;
static struct lp_watch control;

struct get {
        struct rdx_request request;
        struct rdx_write write[AREA / UNIT];
        char *area;
        unsigned object, len, units;
        struct answer answer;
};
static struct get get_of_area[AREAS];
static unsigned next_area;

static void answer(const struct answer *what)
{
        if (send(control.fd, what, sizeof(*what), MSG_NOSIGNAL) < 0)
                lp_loop_stop(loop[0]);
}

static void write_done(struct rdx_write *write, int result)
{
}

static void get_ended(struct rdx_request *request, int result)
{
        struct get *get = container_of(request, struct get, request);
        unsigned i;

        get->answer.result = result;
        get->answer.posted = request->posted;
        get->answer.notice = request->notice;
        get->answer.bytes = request->bytes;
        get->answer.right = true;
        for (i = 0; i < get->len && request->read; i++)
                get->answer.right = get->answer.right && (uint8_t)get->area[i] == object_byte(get->object, i);
        answer(&get->answer);
}

static void get_begun(struct rdx_request *request, int result)
{
        struct get *get = container_of(request, struct get, request);
        unsigned i;

        get->answer.begin_result = result;
        if (result != 0) {
                answer(&get->answer);
                return;
        }
        for (i = 0; i < get->units; i++) {
                struct rdx_write *write = &get->write[i];

                *write = (struct rdx_write){
                        .buf = get->area + (size_t)i * UNIT, .offset = (uint64_t)i * UNIT, .done = write_done};
                write->len = get->len - i * UNIT < UNIT ? get->len - i * UNIT : UNIT;
                rdx_request_write(request, write);
        }
        rdx_request_finish(request);
}

static void serve_get(const struct ask *ask)
{
        struct get *get = &get_of_area[next_area % AREAS];
        unsigned i;

        *get = (struct get){
                .area = arena + (size_t)(next_area++ % AREAS) * AREA, .object = ask->object, .len = ask->len};
        get->units = (ask->len + UNIT - 1) / UNIT;
        memcpy(get->request.session, ask->session, RDX_ID_LEN);
        get->request.number = ask->number;
        get->request.window = ask->place;
        get->request.read = ask->read;
        get->request.begun = get_begun;
        get->request.ended = get_ended;
        for (i = 0; i < ask->len; i++)
                get->area[i] = ask->read ? 0 : (char)object_byte(ask->object, i);
        rdx_request_begin(server, &get->request);
}

static void batch_write_done(struct rdx_write *write, int result)
{
        free(write);
}

/* Entry n of a batch is object n's first SAMPLE bytes. The areas' end holds them. */
static void on_batch(void *arg, struct rdx_batch *batch)
{
        const struct rdx_message *message = rdx_batch_message(batch);
        struct rdx_result result = {.status = 200, .bytes = SAMPLE, .size = SAMPLE, .etag = BYTES("etag")};
        unsigned i, at;

        for (i = 0; i < message->count; i++) {
                struct rdx_write *write = calloc(1, sizeof(*write));
                unsigned object = message->first + i;

                MUST(write != NULL);
                write->buf = arena + (size_t)AREAS * AREA + (size_t)object * SAMPLE;
                write->len = SAMPLE;
                write->done = batch_write_done;
                for (at = 0; at < SAMPLE; at++)
                        ((uint8_t *)write->buf)[at] = object_byte(object, at);
                rdx_batch_write(batch, i, write);
                rdx_batch_result(batch, i, &result);
        }
}

static void serve_open(struct ask *ask)
{
        struct answer what = {0};

        ask->open.owner = OWNER;
        what.result = rdx_session_open(server, &ask->open, &what.opened);
        snprintf(what.address, sizeof(what.address), "%s", what.result == 0 ? what.opened.endpoint[0].address : "");
        answer(&what);
}

static void on_ask(struct lp_watch *watch, uint32_t events)
{
        struct answer what = {0};
        struct ask ask;

        if (recv(control.fd, &ask, sizeof(ask), 0) != (ssize_t)sizeof(ask))
                ask.kind = ASK_QUIT;
        switch (ask.kind) {
        case ASK_OPEN:
                serve_open(&ask);
                break;
        case ASK_GET:
                serve_get(&ask);
                break;
        case ASK_END:
                what.result = rdx_session_end(server, ask.session);
                answer(&what);
                break;
        case ASK_STATS:
                rdx_stats_read(server, &what.stats);
                answer(&what);
                break;
        default:
                lp_loop_stop(loop[0]);
                lp_loop_stop(loop[1]);
        }
}

static void *loop_main(void *arg)
{
        MUST(lp_loop_run(arg) == 0);
        return NULL;
}

static void make_server(void)
{
        struct rdx_endpoint_options endpoint = {.address = address};
        struct rdx_server_options options = {.transport = transport,
                                             .loops = loop,
                                             .loop_count = LOOPS,
                                             .endpoints = &endpoint,
                                             .endpoint_count = 1,
                                             .limits = {.sessions = 16},
                                             .batch = on_batch};
        size_t size = (size_t)AREAS * AREA + (size_t)RDX_BATCH_ENTRIES * SAMPLE;
        char why[200];
        unsigned i;

        for (i = 0; i < LOOPS; i++)
                MUST(lp_loop_new(&(struct lp_config){.index = i}, &loop[i]) == 0);
        arena = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
        MUST(arena != NULL);
        if (rdx_server_new(&options, &server, why, sizeof(why)) != 0) {
                fprintf(stderr, "%s\n", why);
                exit(1);
        }
        MUST(rdx_server_memory(server, arena, size) == 0);
        MUST(rdx_server_start(server) == 0);
        control.ready = on_ask;
        MUST(lp_watch_add(loop[0], &control, EPOLLIN) == 0);
}

static void serve(int fd)
{
        pthread_t thread[LOOPS];
        unsigned i;

        control.fd = fd;
        make_server();
        for (i = 0; i < LOOPS; i++)
                MUST(pthread_create(&thread[i], NULL, loop_main, loop[i]) == 0);
        for (i = 0; i < LOOPS; i++)
                pthread_join(thread[i], NULL);
        rdx_server_stop(server);
        while (lp_loop_drain(loop[0]) + lp_loop_drain(loop[1]) > 0)
                ;
        rdx_server_free(server);
        for (i = 0; i < LOOPS; i++)
                lp_loop_free(loop[i]);
        free(arena);
        exit(0);
}

/* ---- the client's process -------------------------------------------------------------------- */

static int http = -1; /* what stands in for it */
static pid_t server_pid;

struct session {
        struct rdx_grant grant;
        struct rdx_client_domain *link;
        struct rdx_memory *memory;
        struct rdx_client *client;
        uint8_t *bytes;
        char address[64];
        unsigned entries, wrong;
};
static struct session one, two;

static struct answer request(const struct ask *what)
{
        struct answer reply;

        assert_int_equal(send(http, what, sizeof(*what), 0), sizeof(*what));
        assert_int_equal(recv(http, &reply, sizeof(reply), 0), sizeof(reply));
        return reply;
}

/* This program again, in another part, with the socket that stands in for HTTP. */
static pid_t start_part(const char *part, int fd)
{
        char number[12];
        pid_t pid = fork();

        if (pid != 0)
                return pid;
        snprintf(number, sizeof(number), "%d", fd);
        execl("/proc/self/exe", "test_pair", part, number, transport == rdx_verbs() ? "--verbs" : "--fake", address,
              NULL);
        _exit(127);
}

static void start_server(void)
{
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
        assert_int_equal(fcntl(pair[0], F_SETFD, FD_CLOEXEC), 0);
        server_pid = start_part("--serve", pair[1]);
        close(pair[1]);
        http = pair[0];
}

static int stop_server(void)
{
        struct ask quit = {.kind = ASK_QUIT};
        int status = 0;

        if (server_pid == 0)
                return 0;
        send(http, &quit, sizeof(quit), MSG_NOSIGNAL);
        waitpid(server_pid, &status, 0);
        close(http);
        server_pid = 0;
        return status;
}

static void on_result(void *arg, const struct rdx_client_result *result)
{
        struct session *session = arg;
        struct rdx_reader reader = result->reader;
        struct rdx_result entry;

        while (rdx_reader_result(&reader, &entry) == 1) {
                session->entries++;
                session->wrong += entry.status != 200 || entry.bytes != SAMPLE;
        }
}

static void ask_for_session(struct session *session, unsigned rights)
{
        struct ask ask = {.kind = ASK_OPEN, .open = {.queue_pairs = 1, .receives = 128, .rights = rights}};
        struct answer reply;

        memset(ask.open.signing_key, 7, RDX_KEY_LEN);
        memset(ask.open.client_nonce, 9, RDX_NONCE_LEN);
        reply = request(&ask);
        assert_int_equal(reply.result, 0);
        snprintf(session->address, sizeof(session->address), "%s", reply.address);
        session->grant = (struct rdx_grant){.rights = reply.opened.rights,
                                            .address = session->address,
                                            .port = reply.opened.endpoint[0].port,
                                            .endpoint = (uint16_t)reply.opened.endpoint[0].endpoint,
                                            .requests = reply.opened.limits.requests,
                                            .messages = reply.opened.limits.messages,
                                            .receives = 128};
        memcpy(session->grant.signing_key, ask.open.signing_key, RDX_KEY_LEN);
        memcpy(session->grant.client_nonce, ask.open.client_nonce, RDX_NONCE_LEN);
        memcpy(session->grant.server_nonce, reply.opened.server_nonce, RDX_NONCE_LEN);
        memcpy(session->grant.session, reply.opened.session, RDX_ID_LEN);
        memcpy(session->grant.boot, reply.opened.endpoint[0].boot, RDX_BOOT_LEN);
}

static int connect_session(struct session *session)
{
        struct rdx_client_events events = {.result = on_result, .arg = session};

        return rdx_client_connect(session->link, &session->grant, &events, PATIENT, &session->client);
}

/* False: the device does not have these rights. */
static bool begin(struct session *session, unsigned rights)
{
        char why[200] = "";
        int rv;

        memset(session, 0, sizeof(*session));
        ask_for_session(session, rights);
        rv = rdx_client_domain_open(transport, session->address, session->grant.port, rights, PATIENT, &session->link, why,
                           sizeof(why));
        if (rv == -ENOTSUP)
                return false;
        if (rv != 0)
                fail_msg("%s", why);
        session->bytes = aligned_alloc(4096, AREA);
        assert_non_null(session->bytes);
        memset(session->bytes, 0x5a, AREA);
        assert_int_equal(rdx_client_domain_memory(session->link, session->bytes, AREA, -1, 0, &session->memory), 0);
        assert_int_equal(connect_session(session), 0);
        return true;
}

static void end(struct session *session)
{
        rdx_client_close(session->client);
        rdx_memory_close(session->memory);
        rdx_client_domain_close(session->link);
        free(session->bytes);
}

static void await(struct session *session, const struct rdx_window_binding *binding)
{
        while (!rdx_window_binding_noticed(binding))
                assert_int_equal(rdx_client_wait(session->client, PATIENT), 0);
}

static struct answer ask_get(struct session *session, const struct rdx_window_binding *binding, unsigned object, unsigned len,
                             bool read)
{
        struct ask ask = {.kind = ASK_GET,
                          .number = binding->number,
                          .place = binding->place,
                          .object = object,
                          .len = len,
                          .read = read};

        memcpy(ask.session, session->grant.session, RDX_ID_LEN);
        return request(&ask);
}

static void get(struct session *session, unsigned object, unsigned from, unsigned len)
{
        struct rdx_window_binding binding;
        struct answer reply;
        unsigned i;

        assert_int_equal(rdx_window_binding_open(session->client, session->memory, from, len, false, 0, &binding), 0);
        reply = ask_get(session, &binding, object, len, false);
        assert_int_equal(reply.begin_result, 0);
        assert_int_equal(reply.result, 0);
        assert_true(reply.notice && reply.bytes == len);
        await(session, &binding);
        for (i = 0; i < len; i++)
                if (session->bytes[from + i] != object_byte(object, i))
                        fail_msg("object %u of %u bytes: byte %u is wrong", object, len, i);
        if (from > 0)
                assert_int_equal(session->bytes[from - 1], 0x5a);
        if (from + len < AREA)
                assert_int_equal(session->bytes[from + len], 0x5a);
        assert_int_equal(rdx_window_binding_close(&binding, false), 0);
        memset(session->bytes + from, 0x5a, len);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static int setup(void **state)
{
        start_server();
        return 0;
}

static int teardown(void **state)
{
        return stop_server() == 0 ? 0 : -1;
}

static void sizes(unsigned rights)
{
        static const unsigned lens[] = {1, 100, 4096, 65536, UNIT, UNIT + 1, 3 * UNIT - 7, 2 << 20};
        unsigned i;

        if (!begin(&one, rights)) {
                skip();
                return;
        }
        for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
                get(&one, i, 1 + i * 333, lens[i]);
        end(&one);
}

static void test_sizes_window2(void **state)
{
        sizes(RDX_RIGHTS_WINDOW2);
}

static void test_sizes_window1(void **state)
{
        sizes(RDX_RIGHTS_WINDOW1);
}

static void test_sizes_region(void **state)
{
        sizes(RDX_RIGHTS_REGION);
}

static void test_a_put(void **state)
{
        struct rdx_window_binding binding;
        struct answer reply;
        unsigned i, len = 3 * UNIT + 5;

        assert_true(begin(&one, RDX_RIGHTS_WINDOW2));
        for (i = 0; i < len; i++)
                one.bytes[77 + i] = object_byte(5, i);
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 77, len, true, 0, &binding), 0);
        reply = ask_get(&one, &binding, 5, len, true);
        assert_int_equal(reply.result, 0);
        assert_true(reply.right && reply.bytes == len && !reply.notice);
        assert_int_equal(rdx_window_binding_close(&binding, true), 0);
        memset(one.bytes, 0x5a, AREA);
        get(&one, 1, 10, 1000);
        end(&one);
}

static void test_a_whole_batch(void **state)
{
        static char keys[RDX_BATCH_ENTRIES][16];
        static struct rdx_entry entries[RDX_BATCH_ENTRIES];
        struct rdx_window_binding bindings[8];
        unsigned i, k, first = 0, messages = 0;

        assert_true(begin(&one, RDX_RIGHTS_WINDOW2));
        for (i = 0; i < RDX_BATCH_ENTRIES; i++) {
                snprintf(keys[i], sizeof(keys[i]), "%u", i);
                entries[i] = (struct rdx_entry){.bucket = BYTES("b"),
                                                .key = {keys[i], strlen(keys[i])},
                                                .offset = (uint64_t)i * SAMPLE,
                                                .length = SAMPLE};
        }
        while (first < RDX_BATCH_ENTRIES) {
                struct rdx_client_batch batch = {.batch = 1, .first = (uint16_t)first, .replies = 4};
                unsigned sent = 0;

                assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, AREA, false, 4, &bindings[messages]), 0);
                assert_int_equal(rdx_client_batch(one.client, &bindings[messages++], &batch, entries + first,
                                                  RDX_BATCH_ENTRIES - first, &sent),
                                 0);
                first += sent;
        }
        for (i = 0; i < messages; i++)
                await(&one, &bindings[i]);
        assert_int_equal(one.entries, RDX_BATCH_ENTRIES);
        assert_int_equal(one.wrong, 0);
        for (i = 0; i < RDX_BATCH_ENTRIES; i++)
                for (k = 0; k < SAMPLE; k++)
                        assert_int_equal(one.bytes[i * SAMPLE + k], object_byte(i, k));
        for (i = 0; i < messages; i++)
                assert_int_equal(rdx_window_binding_close(&bindings[i], false), 0);
        end(&one);
}

static void test_forged_and_replayed(void **state)
{
        assert_true(begin(&one, RDX_RIGHTS_WINDOW2));
        assert_true(begin(&two, RDX_RIGHTS_WINDOW2));
        rdx_client_close(two.client);
        two.client = NULL;
        ask_for_session(&two, RDX_RIGHTS_WINDOW2);
        two.grant.signing_key[0] ^= 1;
        assert_int_equal(connect_session(&two), -EACCES);
        two.grant.signing_key[0] ^= 1;
        assert_int_equal(connect_session(&two), 0);
        get(&two, 3, 0, 5000);
        get(&one, 4, 0, 5000); /* others are not touched by it */
        end(&two);
        end(&one);
}

/*
 * A key that is none of ours: the client's device refuses, the session ends, the other one goes on.
 */
static void test_a_wrong_rkey(void **state)
{
        struct rdx_window_binding binding;
        struct answer reply;

        assert_true(begin(&one, RDX_RIGHTS_WINDOW2));
        assert_true(begin(&two, RDX_RIGHTS_WINDOW2));
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, 5000, false, 0, &binding), 0);
        binding.place.rkey ^= 0x5500;
        reply = ask_get(&one, &binding, 1, 5000, false);
        assert_int_not_equal(reply.result, 0);
        assert_true(reply.posted);
        rdx_client_fence(one.client);
        assert_int_equal(rdx_window_binding_close(&binding, false), -ENOTCONN);
        assert_int_equal(one.bytes[0], 0x5a);
        get(&two, 3, 0, 5000);
        end(&one);
        end(&two);
}

static void test_the_session_is_ended(void **state)
{
        struct ask ask = {.kind = ASK_END};
        unsigned tries = 0;

        assert_true(begin(&one, RDX_RIGHTS_WINDOW2));
        memcpy(ask.session, one.grant.session, RDX_ID_LEN);
        assert_int_equal(request(&ask).result, 0);
        while (rdx_client_poll(one.client) == 0 && tries++ < 2000)
                usleep(10000);
        assert_int_equal(rdx_client_poll(one.client), -ENOTCONN);
        end(&one);
}

/* The part of a client that dies: after a GET that went well, with its session open. */
static void die(int fd)
{
        http = fd;
        begin(&one, RDX_RIGHTS_WINDOW2);
        get(&one, 2, 0, 100000);
        kill(getpid(), SIGKILL);
}

/* A client that dies is noticed, and its session's end is the end of what it held. */
static void test_the_client_is_killed(void **state)
{
        struct ask ask = {.kind = ASK_STATS};
        unsigned tries = 0;
        int status, fd;
        pid_t pid;

        fd = dup(http);
        pid = start_part("--die", fd);
        close(fd);
        waitpid(pid, &status, 0);
        assert_true(WIFSIGNALED(status));
        while (request(&ask).stats.sessions > 0 && tries++ < 3000)
                usleep(10000);
        assert_int_equal(request(&ask).stats.sessions, 0);
        assert_true(begin(&one, RDX_RIGHTS_WINDOW2));
        get(&one, 2, 0, 100000);
        end(&one);
}

static void test_the_server_is_killed(void **state)
{
        struct rdx_window_binding binding;
        unsigned tries = 0;

        assert_true(begin(&one, RDX_RIGHTS_WINDOW2));
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, 5000, false, 0, &binding), 0);
        kill(server_pid, SIGKILL);
        waitpid(server_pid, NULL, 0);
        close(http);
        server_pid = 0;
        while (rdx_client_poll(one.client) == 0 && tries++ < 3000)
                usleep(10000);
        assert_int_equal(rdx_client_poll(one.client), -ENOTCONN);
        rdx_client_fence(one.client);
        rdx_window_binding_close(&binding, false);
        end(&one);
}

static void set_link(const char *state)
{
        char command[64];

        snprintf(command, sizeof(command), "ip link set v0 %s", state);
        assert_int_equal(system(command), 0);
}

/*
 * In the midst of GETs: each ends, and if one ended by an error, the session does, with nothing in
 * flight.
 */
static void test_the_link_goes_down(void **state)
{
        struct ask ask = {.kind = ASK_GET, .object = 3, .len = AREA}, stats = {.kind = ASK_STATS};
        struct rdx_window_binding binding[3];
        struct answer reply;
        unsigned i, failed = 0, tries = 0;

        assert_true(begin(&one, RDX_RIGHTS_WINDOW2));
        memcpy(ask.session, one.grant.session, RDX_ID_LEN);
        for (i = 0; i < 3; i++) {
                assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, AREA, false, 0, &binding[i]), 0);
                ask.number = binding[i].number;
                ask.place = binding[i].place;
                assert_int_equal(send(http, &ask, sizeof(ask), 0), sizeof(ask));
        }
        set_link("down");
        for (i = 0; i < 3; i++) {
                assert_int_equal(recv(http, &reply, sizeof(reply), 0), sizeof(reply));
                failed += reply.begin_result != 0 || reply.result != 0;
        }
        set_link("up");
        printf("%u of 3 ended by an error\n", failed);
        while (failed > 0 && request(&stats).stats.sessions > 0 && tries++ < 500)
                usleep(10000);
        reply = request(&stats);
        assert_true(failed == 0 || reply.stats.sessions == 0);
        assert_int_equal(reply.stats.in_flight, 0);
        rdx_client_fence(one.client);
        for (i = 0; i < 3; i++)
                rdx_window_binding_close(&binding[i], false);
        end(&one);
}

/* A server that was killed leaves its socket. */
static void remove_directory(const char *path)
{
        DIR *directory = opendir(path);
        struct dirent *entry;

        while (directory != NULL && (entry = readdir(directory)) != NULL)
                unlinkat(dirfd(directory), entry->d_name, 0);
        if (directory != NULL)
                closedir(directory);
        rmdir(path);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
        char directory[] = "/tmp/millrace-fakerdma-XXXXXX";
        const struct CMUnitTest tests[] = {
                TEST(test_sizes_window2),        TEST(test_sizes_window1),
                TEST(test_sizes_region),         TEST(test_a_put),
                TEST(test_a_whole_batch),        TEST(test_forged_and_replayed),
                TEST(test_a_wrong_rkey),         TEST(test_the_session_is_ended),
                TEST(test_the_client_is_killed), TEST(test_the_server_is_killed),
                TEST(test_the_link_goes_down), /* of verbs alone; last: afterwards rdma_cm on Soft-RoCE connects no more */
        };
        const size_t all = sizeof(tests) / sizeof(tests[0]);
        int failed;

        if (argc == 5) { /* another part: part, socket, transport, address */
                transport = strcmp(argv[3], "--verbs") == 0 ? rdx_verbs() : fake_transport();
                address = argv[4];
                if (strcmp(argv[1], "--serve") == 0)
                        serve(atoi(argv[2]));
                die(atoi(argv[2]));
        }
        if (argc == 3 && strcmp(argv[1], "--verbs") == 0) {
                transport = rdx_verbs();
                address = argv[2];
                return _cmocka_run_group_tests("verbs", tests, all, NULL, NULL);
        }
        transport = fake_transport();
        address = "127.0.0.1";
        MUST(mkdtemp(directory) != NULL && setenv(FAKE_DIRECTORY, directory, 1) == 0);
        failed = _cmocka_run_group_tests("fake", tests, all - 1, NULL, NULL);
        remove_directory(directory);
        return failed;
}
