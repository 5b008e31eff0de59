/*
 * fuzz_served.c - libFuzzer: a node that serves drives, and leads a pool that others are homes of, asked by parties that
 * may ask anything: the leader of the drives, a home of the pool, and one that is neither. The input is a list of things
 * that they do. No drive is asked for what the party may not have, each request is answered once, and nothing is left.
 *
 * Things: 0 to 3 a request: who u8, operation u8, link u8, what is put right u8, lengths of body and bulk u16, room u16,
 * body, bulk. 4 time passes, u8 x 10 ms; 5 drives keep what they are asked for, u8 which kind; 6 they answer; 7 a connection
 * is reset, u8 whose and which.
 */
#include <ftw.h>
#include <sys/stat.h>

#include "engine/base/store.h"
#include "engine/bucket/config_feed.h"
#include "engine/call/leader_call.h"
#include "engine_home.h"
#include "remote/home_wire.h"
#include "tests/fuzz/remote_inputs.h"
#include "tests/unit/remote/remote_fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DRIVES      2u
#define OPERATIONS  (REM_OPERATIONS_COUNT + REM_HOME_OPERATIONS_COUNT + 1u)
#define THINGS_MOST 24u
#define POOL        4u
#define MS_MOST     60000u

static struct rf rf;
static struct mem_node home_node, stranger_node;
static struct party {
        struct mem_node *node;
        struct net_peer *to;
        uint16_t number;
        uint64_t boot;
} party[PARTIES];
static struct rem_server *drives;
static struct rem_served *served[DRIVES];
static struct toy toys[DRIVES];
static struct eng_drive_ops guarded; /* the toys', behind what looks who asks */
static unsigned gone;
static bool cut; /* connections rest */

/* The leader's store of the pool; its loop has a thread. */
static struct eng_store *store;
static struct lp_loop *store_loop;
static uint64_t bucket;
static struct rem_home_server *homes;
static _Atomic uint64_t session; /* of the home, as the leader said last */

struct asked {
        struct net_call call;
        unsigned who;
        uint64_t session;
        bool done;
        uint8_t *body, *bulk, *room;
};
static struct asked asked[THINGS_MOST];
static unsigned asked_count;

struct input {
        const uint8_t *at;
        size_t left;
};

static void input_take(struct input *input, void *to, size_t len)
{
        size_t n = len < input->left ? len : input->left;

        memset(to, 0, len);
        if (n > 0)
                memcpy(to, input->at, n);
        input->at += n;
        input->left -= n;
}

static uint8_t input_u8(struct input *input)
{
        uint8_t n;

        input_take(input, &n, 1);
        return n;
}

static uint16_t input_u16(struct input *input)
{
        uint16_t n;

        input_take(input, &n, sizeof(n));
        return n;
}

/* ---- who may what ---------------------------------------------------------------------------- */

/* An operation comes to its drive: its party may ask for it. */
static void look_who_asks(const struct served_request *r, const struct eng_op *op)
{
        const struct net_request *request = r->request;
        const struct rem_served *s = r->served;
        const struct eng_term *term = &r->head.term;
        uint16_t node;
        uint32_t boot;

        MUST(eng_term_is_none(term) || (term->node == net_peer_node(request->peer) && term->boot == request->boot));
        MUST(eng_term_same(&op->term, term));
        if (request->operation == REM_OPEN) {
                MUST(op->kind == ENG_OP_OPEN && !eng_term_is_none(term));
                return;
        }
        MUST(op->kind != ENG_OP_OPEN && (request->operation == REM_OP || (request->operation == REM_INFO && op->kind == ENG_OP_FEATURES)));
        if (op->kind == ENG_OP_FEATURES)
                MUST(rem_is_known(0, op->features.bits));
        if (op->kind == ENG_OP_APPEND && op->append.body != NULL)
                MUST(op->append.body_crc == era_crc32c(0, op->append.body->data, op->append.body->len));
        if (op->kind == ENG_OP_READ)
                MUST(op->read.slot == r->slot && op->read.len <= LP_SLOT_UNIT && op->read.offset <= LP_SLOT_UNIT - op->read.len);
        MUST(op->of_home == ((r->head.flags & REM_HOME) != 0));
        if (op->of_home) {
                MUST(op->kind == ENG_OP_READ || op->kind == ENG_OP_SYNC || op->kind == ENG_OP_HELD || op->kind == ENG_OP_WRITE);
                MUST(eng_term_is_none(term) && (op->flags & ENG_OP_ANEW) == 0);
                if (op->kind == ENG_OP_WRITE) {
                        eng_id_maker(op->write.object_id, &node, &boot);
                        MUST(node == net_peer_node(request->peer) && boot == request->boot);
                }
                return;
        }
        MUST(r->head.incarnation == s->incarnation || (op->flags & ENG_OP_ANEW) != 0 || request->operation == REM_INFO);
        if (rem_is_bulk(op->kind))
                return; /* of any session: its drive looks at its term */
        MUST(s->holder == request->peer && s->holder_boot == request->boot && s->session == r->head.session);
        MUST(eng_term_is_none(&s->admitted) ? eng_term_is_none(term) : s->is_open && eng_term_same(&s->admitted, term));
}

static void guarded_submit(struct eng_drive *drive, struct eng_op *op)
{
        look_who_asks(container_of(op, struct served_request, op), op);
        if (op->kind == ENG_OP_SCAN && op->scan.max > 9)
                op->scan.max = 9; /* a toy has as many as it is asked for */
        toy_submit(drive, op);
}

static void asked_done(struct net_call *call)
{
        struct asked *a = container_of(call, struct asked, call);

        MUST(!a->done);
        a->done = true;
        if (call->outcome != NET_ANSWERED)
                return;
        if (rem_is_home_operation(call->operation)) {
                MUST(call->status != HOME_DONE || a->who == HOME);
                if (call->operation == HOME_JOIN && call->status == HOME_DONE) {
                        MUST(call->answer_len == sizeof(struct home_joined));
                        memcpy((void *)&session, call->answer, sizeof(session));
                }
        } else if (!rem_is_operation(call->operation)) {
                MUST(call->status == REM_BAD);
        }
}

/* ---- the store's loop ------------------------------------------------------------------------ */

struct there {
        struct lp_msg msg;
        sem_t done;
};

static void there_run(void (*run)(struct lp_msg *msg))
{
        struct there there = {.msg.run = run};

        sem_init(&there.done, 0, 0);
        lp_post(store_loop, &there.msg);
        sem_wait_or_fail(&there.done);
        sem_destroy(&there.done);
}

static void nothing_there(struct lp_msg *msg)
{
        sem_post(&container_of(msg, struct there, msg)->done);
}

/* ---- what they do ---------------------------------------------------------------------------- */

/* A head of a request to a drive server, of which some fields are what a party that may ask would say. */
static void head_put_right(uint8_t *body, unsigned who, uint32_t operation, uint8_t right)
{
        struct rem_head head;
        struct rem_served *s;
        unsigned slot;

        memcpy(&head, body, sizeof(head));
        slot = head.slot % DRIVES;
        s = served[slot];
        if ((right & RIGHT_PLACE) != 0)
                head.pool = RF_POOL;
        if ((right & RIGHT_PLACE) != 0 && operation < REM_PING) { /* the others are of a pool */
                head.slot = (uint16_t)slot;
                head.zero = 0;
                memcpy(head.drive_id, s->identity.drive_id, FMT_ID);
        }
        if ((right & RIGHT_INCARNATION) != 0)
                head.incarnation = s->incarnation;
        if ((right & (RIGHT_SESSION | NEXT_SESSION)) != 0)
                head.session = s->session + ((right & NEXT_SESSION) != 0);
        if ((right & (RIGHT_COMMITS | NEXT_COMMIT)) != 0)
                head.commits = s->commits + ((right & NEXT_COMMIT) != 0);
        if ((right & RIGHT_TERM) != 0) {
                head.term.node = party[who].number;
                head.term.boot = party[who].boot;
                memset(head.term.zero, 0, sizeof(head.term.zero));
        }
        memcpy(body, &head, sizeof(head));
}

static enum net_link_number right_link(uint32_t operation, const uint8_t *body, size_t len)
{
        if (operation == REM_WATCH || (operation >= REM_PING && operation < REM_END) || operation == HOME_JOIN)
                return NET_CONTROL;
        if (operation == REM_OP && len > sizeof(struct rem_head) && rem_is_bulk((enum eng_op_kind)body[sizeof(struct rem_head)]))
                return NET_BULK_0;
        return NET_LOG;
}

/* A call of the bucket that there is; the record of an upload names the group that is its key's. */
static void call_put_right(struct asked *a)
{
        const size_t at = sizeof(struct home_call);
        struct fmt_value head;
        struct eng_call call;

        if (a->call.body_len < at + 1 + sizeof(bucket))
                return;
        memcpy(a->body + at + 1, &bucket, sizeof(bucket)); /* the kind is before it (engine/call/call_wire.c) */
        if (a->body[at] != ENG_CALL_PUT || eng_call_get(a->body + at, a->call.body_len - at, a->bulk, a->call.bulk[0].iov_len, &call) != 0)
                return;
        memcpy(&head, a->bulk, sizeof(head));
        head.pg = (uint16_t)eng_pg_of_key(store->pg_count, bucket, call.key.data, call.key.len);
        memcpy(a->bulk, &head, sizeof(head));
}

static bool names_bucket(const struct asked *a)
{
        uint8_t kind = a->call.operation == HOME_CALL && a->call.body_len > sizeof(struct home_call) ? a->body[sizeof(struct home_call)] : 0;

        return (kind >= ENG_CALL_PUT && kind <= ENG_CALL_COMPLETE) || kind == ENG_CALL_RULES_SET || kind == ENG_CALL_TEXT_SET || kind == ENG_CALL_TEXT_DELETE;
}

static void put_right(struct asked *a, uint8_t right, uint8_t link)
{
        struct net_call *call = &a->call;
        uint64_t number = atomic_load(&session);
        uint32_t pool = POOL;

        if (rem_is_operation(call->operation) && call->body_len >= sizeof(struct rem_head))
                head_put_right(a->body, a->who, call->operation, right);
        if (call->operation == HOME_JOIN && (right & RIGHT_PLACE) != 0 && call->body_len >= sizeof(pool))
                memcpy(a->body, &pool, sizeof(pool));
        if ((call->operation == HOME_WATCH || call->operation == HOME_CALL || call->operation == HOME_UNPIN) && (right & RIGHT_SESSION) != 0 && call->body_len >= sizeof(number))
                memcpy(a->body, &number, sizeof(number));
        if ((right & RIGHT_BUCKET) != 0 && names_bucket(a))
                call_put_right(a);
        call->link = (right & RIGHT_LINK) != 0 ? right_link(call->operation, a->body, call->body_len) : (enum net_link_number)(link % NET_LINKS);
}

static void do_request(struct input *input)
{
        struct asked *a = &asked[asked_count++];
        struct net_call *call = &a->call;
        uint8_t operation, link, right;
        struct lp_loop *outer;
        uint32_t room;

        memset(a, 0, sizeof(*a));
        a->who = input_u8(input) % PARTIES;
        operation = input_u8(input) % OPERATIONS;
        link = input_u8(input);
        right = input_u8(input);
        call->operation = operation < REM_OPERATIONS_COUNT ? REM_OPERATIONS + operation : REM_HOME_OPERATIONS + operation - REM_OPERATIONS_COUNT;
        call->body_len = input_u16(input);
        call->body_len = call->body_len > input->left ? (uint32_t)input->left : call->body_len;
        a->body = malloc(call->body_len + 1);
        call->bulk[0].iov_len = input_u16(input);
        room = (uint32_t)input_u16(input) * 64;
        room = room > NET_BULK_MAX ? NET_BULK_MAX : room;
        call->body_len = call->body_len > input->left ? (uint32_t)input->left : call->body_len;
        input_take(input, a->body, call->body_len);
        call->bulk[0].iov_len = call->bulk[0].iov_len > input->left ? input->left : call->bulk[0].iov_len;
        a->bulk = malloc(call->bulk[0].iov_len + 1);
        a->room = malloc(room + 1);
        MUST(a->body != NULL && a->bulk != NULL && a->room != NULL);
        input_take(input, a->bulk, call->bulk[0].iov_len);
        put_right(a, right, link);
        call->peer = party[a->who].to;
        call->lane = (uint16_t)(asked_count % NET_LANES);
        call->body = a->body;
        call->bulk[0].iov_base = a->bulk;
        call->bulk_count = call->bulk[0].iov_len > 0;
        call->room[0] = (struct iovec){a->room, room};
        call->room_count = room > 0;
        call->done = asked_done;
        outer = lp_become(party[a->who].node->loops[0]);
        net_call(call);
        lp_become(outer);
        mem_settle();
        if (!rem_is_home_operation(call->operation))
                return;
        there_run(nothing_there); /* so that a session is there when JOIN was answered */
        mem_settle();
}

static void do_reset(uint8_t which)
{
        const struct net_link *link = &party[which % PARTIES].to->links[which / PARTIES % NET_LINKS];

        if (link->conn == NULL)
                return;
        mem_reset(mem_of(link->conn->stream));
        mem_settle();
        cut = true;
}

static void do_release(void)
{
        unsigned i;

        for (i = 0; i < DRIVES; i++)
                toy_release(&toys[i]);
}

static void one_thing(struct input *input)
{
        uint8_t what = input_u8(input) % 8, which;
        unsigned i;

        switch (what) {
        case 4:
                mem_pass(input_u8(input) * 10);
                break;
        case 5:
                which = input_u8(input) % ENG_OP_KINDS;
                for (i = 0; i < DRIVES; i++)
                        toys[i].holds[which] = true;
                break;
        case 6:
                do_release();
                break;
        case 7:
                do_reset(input_u8(input));
                break;
        default:
                do_request(input);
        }
}

/* ---- the node -------------------------------------------------------------------------------- */

static enum net_bulk node_takes(void *arg, struct net_request *request)
{
        return rem_is_home_operation(request->operation) ? rem_home_server_bulk(homes, request) : rem_server_bulk(drives, request);
}

static void node_serves(void *arg, struct net_request *request)
{
        if (rem_is_home_operation(request->operation))
                rem_home_server_request(homes, request);
        else
                rem_server_request(drives, request);
}

static void node_loses(void *arg, struct net_request *request)
{
        if (rem_is_home_operation(request->operation))
                rem_home_server_lost(homes, request);
        else
                rem_server_lost(drives, request);
}

static void drive_is_gone(void *arg)
{
        gone++;
}

static void drives_begin(void)
{
        unsigned i;

        MUST(rem_server_new(&drives) == 0);
        for (i = 0; i < DRIVES; i++) {
                toy_make(&toys[i], i, rf.b.loops[(i + 1) % MEM_LOOPS]);
                toys[i].base.ops = &guarded;
                MUST(rem_served_new(drives, RF_POOL, i, toys[i].base.owner, &served[i]) == 0);
                MUST(rem_served_publish(served[i], &toys[i].base, &toys[i].identity) == 0);
        }
}

static void drives_withdraw(void)
{
        unsigned i;

        gone = 0;
        for (i = 0; i < DRIVES; i++)
                rem_served_withdraw(served[i], drive_is_gone, NULL);
        do_release();
}

static void drives_end(void)
{
        unsigned i;

        MUST(gone == DRIVES && rf_has_no_slots(&rf));
        for (i = 0; i < DRIVES; i++) {
                MUST(atomic_load(&served[i]->append_bytes) == 0);
                rem_served_free(served[i]);
        }
        rem_server_free(drives);
}

/* ---- the store ------------------------------------------------------------------------------- */

static char root[] = "/dev/shm/millrace-served.XXXXXX";

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        return remove(path);
}

static void root_remove(void)
{
        nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void *run_store(void *loop)
{
        MUST(lp_loop_run(loop) == 0);
        return NULL;
}

static void store_begin(void)
{
        static char path[2][64];
        static const char *paths[2] = {path[0], path[1]};
        struct eng_options options = {.drives = paths, .drive_count = 2, .format = true, .ec_k = 1, .ec_m = 1, .loops = &store_loop, .loop_count = 1,
                                      .cache_bytes = 1 << 20, .log_file_bytes = 4 << 20, .segment_bytes = 16 << 20, .full_reserve_bytes = 1 << 20};
        struct lp_config config = {.slots = 16};
        static struct eng_health health;
        struct eng_error error;
        pthread_t thread;
        unsigned i;

        MUST(mkdtemp(root) != NULL && atexit(root_remove) == 0);
        for (i = 0; i < 2; i++) {
                snprintf(path[i], sizeof(path[i]), "%s/%u", root, i);
                MUST(mkdir(path[i], 0700) == 0);
        }
        MUST(lp_loop_new(&config, &store_loop) == 0);
        MUST(eng_store_open(&options, &store, &error) == 0);
        MUST(pthread_create(&thread, NULL, run_store, store_loop) == 0);
        eng_store_start(store);
        for (i = 0; !health.ready; i++) {
                MUST(i < MS_MOST);
                usleep(1000);
                eng_health_read(store, &health);
        }
}

static void bucket_made(void *arg, int rv)
{
        const struct eng_bucket *found;

        MUST(rv == 0 && eng_bucket_get(store, (struct eng_str){"bucket", 6}, &found) == 0);
        bucket = found->id;
        sem_post(arg);
}

static void bucket_make(struct lp_msg *msg)
{
        eng_bucket_create(store, (struct eng_str){"bucket", 6}, NULL, NULL, 0, bucket_made, &container_of(msg, struct there, msg)->done);
}

/* Says what was asked. */
static void say_it_again(void *arg, struct rem_home_asked *question)
{
        question->answer = malloc(question->len);
        MUST(question->answer != NULL);
        memcpy(question->answer, question->bytes, question->len);
        question->answer_len = question->len;
        rem_home_asked_answer(question);
}

static void homes_stop(struct lp_msg *msg)
{
        rem_home_server_stop(homes);
        sem_post(&container_of(msg, struct there, msg)->done);
}

/* No home of a leader before is waited for. */
static void strangers_none(struct lp_msg *msg)
{
        eng_feed_strangers(store, 0);
        sem_post(&container_of(msg, struct there, msg)->done);
}

static void homes_begin(void)
{
        struct rem_home_server_options options = {.store = store, .coordinator = store_loop, .pool = POOL, .term = {.generation = 1, .revision = 3, .node = 2, .boot = 6}, .memory = 1 << 20, .ask = say_it_again};

        MUST(rem_home_server_new(&options, &homes) == 0);
        there_run(strangers_none);
        atomic_store(&session, 0);
}

/* ---- one input ------------------------------------------------------------------------------- */

static void start(void)
{
        static const struct net_handler handler = {.bulk = node_takes, .request = node_serves, .lost = node_loses};
        static const uint16_t numbers[PARTIES] = {1, REM_HOME_FIRST + 1, 3};
        struct net_options options;
        unsigned i;

        store_begin();
        there_run(bucket_make);
        guarded = toy_ops;
        guarded.submit = guarded_submit;
        rf_start_with(&rf, &handler, 0);
        options = node_options(numbers[HOME], 5);
        mem_node_start(&home_node, &options);
        options = node_options(numbers[STRANGER], 5);
        mem_node_start(&stranger_node, &options);
        for (i = 0; i < PARTIES; i++) {
                party[i] = (struct party){.node = i == LEADER ? &rf.a : i == HOME ? &home_node : &stranger_node, .number = numbers[i], .boot = 5};
                party[i].to = i == LEADER ? rf.to_b : mem_knows(party[i].node, 2);
                if (i != LEADER)
                        mem_knows(&rf.b, numbers[i]);
        }
}

static bool all_answered(void)
{
        unsigned i;

        for (i = 0; i < asked_count && asked[i].done; i++)
                ;
        return i == asked_count && rem_home_server_calls(homes) == 0 && gone == DRIVES;
}

/* The store's loop goes on by itself. */
static void await_all(void)
{
        unsigned ms;

        mem_settle();
        for (ms = 0; !all_answered() && ms < MS_MOST; ms++) {
                there_run(nothing_there);
                mem_pass(1);
        }
        MUST(all_answered());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct input input = {data, size};
        unsigned i;

        if (store == NULL)
                start();
        drives_begin();
        homes_begin();
        asked_count = 0;
        while (input.left > 0 && asked_count < THINGS_MOST)
                one_thing(&input);
        rem_server_stop(drives);
        there_run(homes_stop);
        drives_withdraw();
        await_all();
        there_run(nothing_there); /* it is done with what it posted */
        mem_settle();
        drives_end();
        MUST(rem_home_server_bytes(homes) == 0);
        rem_home_server_free(homes);
        for (i = 0; i < asked_count; i++) {
                free(asked[i].body);
                free(asked[i].bulk);
                free(asked[i].room);
        }
        if (cut)
                mem_pass(1000);
        cut = false;
        rf.a.node.lines[0] = rf.b.node.lines[0] = home_node.node.lines[0] = stranger_node.node.lines[0] = '\0';
        MUST(mem_stats(&rf.b).body_memory == 0 && mem_stats(&rf.b).requests_in == 0);
        return 0;
}
