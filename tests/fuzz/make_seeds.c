/*
 * make_seeds.c - seeds that the project's own writers make, for the fuzz targets of what nodes say to one another: they are
 * as this build writes them, so what a fuzzer changes from there on is accepted deeper than what it makes from nothing.
 *
 *   make_seeds FOLDER      FOLDER/TARGET/made-NAME; tools/fuzz.sh calls this
 */
#include <endian.h>
#include <sys/stat.h>

#include "cluster_reseed.h"
#include "engine/bucket/config_feed.h"
#include "engine/call/leader_call.h"
#include "engine/home/home_state.h"
#include "engine_folder.h"
#include "remote/home_wire.h"
#include "tests/fuzz/remote_inputs.h"
#include "tests/unit/remote/remote_fixture.h"

#define SEED_MAX (256u << 10)

static uint8_t seed[SEED_MAX];
static size_t seed_len;
static const char *out;

static const uint8_t cluster[NET_CLUSTER_LEN] = "a test cluster", bucket_key[] = "a/key";

/* ---- one seed -------------------------------------------------------------------------------- */

static void put(const void *bytes, size_t len)
{
        MUST(len <= sizeof(seed) - seed_len);
        if (len > 0)
                memcpy(seed + seed_len, bytes, len);
        seed_len += len;
}

static void put_u8(unsigned n)
{
        put(&(uint8_t){(uint8_t)n}, 1);
}

static void put_u16(size_t n)
{
        MUST(n <= UINT16_MAX);
        put(&(uint16_t){(uint16_t)n}, 2);
}

static void put_zeroes(size_t len)
{
        MUST(len <= sizeof(seed) - seed_len);
        memset(seed + seed_len, 0, len);
        seed_len += len;
}

static void save(const char *target, const char *name, unsigned number)
{
        char path[400];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", out, target);
        mkdir(path, 0755);
        snprintf(path, sizeof(path), "%s/%s/made-%s-%u", out, target, name, number);
        file = fopen(path, "wb");
        MUST(file != NULL && fwrite(seed, 1, seed_len, file) == seed_len && fclose(file) == 0);
        seed_len = 0;
}

/* ---- net_frame, net_link --------------------------------------------------------------------- */

static void net_frame_heads(void)
{
        static const uint8_t body[100];
        uint8_t bytes[NET_HEAD_SIZE];
        unsigned kind;

        for (kind = NET_FRAME_HELLO; kind < NET_FRAME_KINDS; kind++) {
                bool greets = kind <= NET_FRAME_REFUSED, carries = kind == NET_FRAME_REQUEST || kind == NET_FRAME_REPLY;
                struct net_wire_head head = {.version = !greets, .kind = (uint8_t)kind, .id = greets ? 0 : 7, .body_len = greets || carries ? sizeof(body) : 0};

                if (carries)
                        head.bulk_len = 4096;
                if (kind == NET_FRAME_REQUEST) {
                        head.lane = 3;
                        head.deadline_ms = 5000;
                        head.room = 1 << 20;
                }
                net_head_write(&head, body, bytes);
                put_u8(0);
                put(bytes + 4, NET_HEAD_CRC - 4);
                save("net_frame", "head", kind);
        }
}

static void net_frame_greetings(void)
{
        static const uint8_t secret[NET_SECRET_LEN] = {1}, mac[NET_MAC_LEN] = {2};
        struct net_wire_hello hello = raw_hello(NET_LOG, 5, 1), plain = raw_hello(NET_BULK_0, 5, 2);
        struct net_wire_welcome welcome = {.node = 2, .to = 1, .version = 1, .boot = 6, .wall_ms = hello.wall_ms, .lane_bytes = 1 << 20, .body_max = NET_BODY_MAX, .requests = 1000};
        struct net_wire_refused refused = {.theirs = 1, .ours = 2};
        struct net_secrets secrets = {.count = 2, .key = {{1}, {2}}, .root = {{3}, {4}}};
        uint8_t bytes[NET_HELLO_MOST];

        net_hello_write(&hello, NULL, bytes);
        put_u8(1);
        put(bytes + NET_HEAD_SIZE, NET_HELLO_SIZE - NET_HEAD_SIZE);
        save("net_frame", "hello", 0);
        plain.flags = NET_HELLO_PLAIN;
        plain.control_sequence = 1;
        net_hello_write(&plain, secret, bytes);
        put_u8(1);
        put(bytes + NET_HEAD_SIZE, NET_HELLO_SIZE - NET_HEAD_SIZE);
        save("net_frame", "hello", 1);
        put_u8(1);
        put(bytes + NET_HEAD_SIZE, net_hello_write_secrets(&hello, &secrets, bytes) - NET_HEAD_SIZE);
        save("net_frame", "hello", 2);
        net_welcome_write(&welcome, secret, mac, bytes);
        put_u8(2);
        put(bytes + NET_HEAD_SIZE, NET_WELCOME_SIZE - NET_HEAD_SIZE);
        save("net_frame", "welcome", 0);
        for (refused.reason = 1; refused.reason < NET_REASONS_END; refused.reason++) {
                net_refused_write(&refused, bytes);
                put_u8(2);
                put(bytes + NET_HEAD_SIZE, NET_REFUSED_SIZE - NET_HEAD_SIZE);
                save("net_frame", "refused", refused.reason);
        }
}

/* As fuzz_net_link.c reads them: bytes of a whole frame in pieces of 256. */
static void link_bytes(const uint8_t *bytes, size_t len)
{
        size_t at, n;

        for (at = 0; at < len; at += n) {
                n = len - at < 255 ? len - at : 255;
                put_u8(2);
                put_u8((unsigned)n);
                put(bytes + at, n);
                put_u8(255);
        }
}

static void net_links(void)
{
        static const uint8_t body[] = "some body", bulk[300];
        static const unsigned operations[] = {OP_ECHO, OP_READ, OP_HOLD, OP_DISCARD, OP_WAIT};
        struct net_wire_hello hello = raw_hello(NET_LOG, 5, 1);
        uint8_t bytes[NET_HELLO_SIZE];
        unsigned i;

        for (i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
                struct net_wire_head head = {.version = 1, .kind = NET_FRAME_REQUEST, .id = 7 + i, .code = operations[i], .body_len = sizeof(body), .bulk_len = sizeof(bulk), .room = 1024};
                struct raw_frame *frame = raw_frame(&head, body, bulk);

                put_u8(1);
                link_bytes(frame->bytes, frame->len);
                put_u8(5);
                put_u8(4);
                put_u8(50);
                save("net_link", "request", i);
                free(frame);
        }
        net_hello_write(&hello, NULL, bytes);
        put_u8(0);
        link_bytes(bytes, sizeof(bytes));
        save("net_link", "hello", 0);
        put_u8(7);
        put((uint8_t *)&hello + NET_CLUSTER_LEN, sizeof(hello) - NET_CLUSTER_LEN);
        put_u8(3); /* a frame of many things */
        put_u8(0x1c);
        put_zeroes(40);
        put_u8(6);
        save("net_link", "things", 0);
}

/* ---- call ------------------------------------------------------------------------------------ */

/* An id that the home of fuzz_served.c has made. */
static void home_id(uint8_t id[FMT_ID])
{
        uint16_t node = htobe16(REM_HOME_FIRST + 1);
        uint64_t counter = htobe64(eng_id_counter(REM_HOME_FIRST + 1, 5, 1));

        memset(id, 0, FMT_ID);
        memcpy(id + 6, &node, sizeof(node));
        memcpy(id + 8, &counter, sizeof(counter));
}

/* A call of this kind that makes sense. */
static void call_make(enum eng_call_kind kind, struct eng_call *call)
{
        static struct eng_complete_part parts[2] = {{.number = 1, .id = {1}}, {.number = 2, .id = {2}}};
        static struct eng_call_proof proof = {.slot = 1, .drive_key = 2};
        static uint8_t value[sizeof(struct fmt_value)], bytes[TOY_INLINE];
        struct eng_buf *buf;

        *call = (struct eng_call){.kind = kind, .bucket = 1, .key = {(const char *)bucket_key, sizeof(bucket_key) - 1}};
        switch (kind) {
        case ENG_CALL_PUT:
                buf = toy_value(sizeof(value), 1);
                memcpy(value, buf->data, sizeof(value));
                eng_buf_unref(buf);
                home_id(((struct fmt_value *)(void *)value)->id);
                call->put.value = (struct eng_str){(const char *)value, sizeof(value)};
                call->put.bytes = (struct eng_str){(const char *)bytes, sizeof(bytes)};
                call->put.proof_count = 1;
                call->put.proofs = (const uint8_t *)&proof;
                call->put.now = true;
                break;
        case ENG_CALL_EXTRAS:
                call->extras.change.set_tags = true;
                call->extras.change.extras.tags = (struct eng_str){"a=b", 3};
                break;
        case ENG_CALL_UPDATE:
                call->update.attrs = (struct eng_str){"attrs", 5};
                break;
        case ENG_CALL_COMPLETE:
                call->complete.count = 2;
                call->complete.parts = parts;
                break;
        case ENG_CALL_LOOKUP:
                call->lookup.pin = 9;
                call->lookup.flags = ENG_OP_WANT_INLINE;
                eng_name_object(&call->lookup.name, call->bucket, bucket_key, sizeof(bucket_key) - 1);
                break;
        case ENG_CALL_MERGE:
                eng_name_space(&call->merge.from, FMT_SPACE_OBJECT, call->bucket);
                call->merge.to = call->merge.from;
                eng_name_successor(&call->merge.to);
                call->merge.delimiter = (struct eng_str){"/", 1};
                call->merge.max = 100;
                break;
        case ENG_CALL_RULES_SET:
                call->rules.has_rules = true;
                call->rules.rules = (struct eng_bucket_rules){.generation = 1, .versioning = ENG_VERSIONING_SUSPENDED};
                break;
        case ENG_CALL_TEXT_SET:
                call->text.bytes = (struct eng_str){"a text", 6};
                break;
        case ENG_CALL_LOCK_CONFIRM:
                call->wall_ms = 1700000000000;
                break;
        case ENG_CALL_DISCARD:
                home_id(call->discard.id);
                call->discard.drives = 3;
                break;
        default:
                break;
        }
}

static size_t bulk_len(const struct eng_call_bulk *bulk)
{
        size_t len = 0;
        unsigned i;

        for (i = 0; i < bulk->count; i++)
                len += bulk->piece[i].len;
        return len;
}

static void put_bulk(const struct eng_call_bulk *bulk)
{
        unsigned i;

        for (i = 0; i < bulk->count; i++)
                put(bulk->piece[i].bytes, bulk->piece[i].len);
}

static void save_call_seed(unsigned first, const uint8_t *body, int len, const struct eng_call_bulk *bulk, const char *name, unsigned number)
{
        MUST(len > 0);
        put_u8(first);
        put_u16(bulk_len(bulk));
        put(body, (size_t)len);
        put_bulk(bulk);
        save("call", name, number);
}

static void calls(void)
{
        static uint8_t body[ENG_CALL_BODY_MAX];
        struct eng_call_bulk bulk;
        struct eng_buf *entries = toy_entries(3), *value = toy_value(sizeof(struct fmt_value), 1), *bytes = toy_buf(TOY_INLINE, 2);
        unsigned kind;

        for (kind = 1; kind < ENG_CALL_KINDS; kind++) {
                struct eng_call_answer answer = {.recorded = true, .count = 3, .entries = {(const char *)entries->data, entries->len},
                                                 .value = {(const char *)value->data, value->len}, .bytes = {(const char *)bytes->data, bytes->len}};
                struct eng_call call;
                int len;

                call_make((enum eng_call_kind)kind, &call);
                len = eng_call_put(&call, body, &bulk);
                save_call_seed(0, body, len, &bulk, "call", kind);
                len = eng_call_put_answer((enum eng_call_kind)kind, &answer, body, &bulk);
                /* fuzz_call.c: the kind is 1 + first % (ENG_CALL_KINDS - 1), and first is neither 0 nor 1 */
                save_call_seed(kind - 1 + (kind < 3 ? ENG_CALL_KINDS - 1 : 0), body, len, &bulk, "answer", kind);
                answer = (struct eng_call_answer){.rv = kind == ENG_CALL_LOOKUP ? -EMSGSIZE : -ENOENT, .needs = 5000};
                len = eng_call_put_answer((enum eng_call_kind)kind, &answer, body, &bulk);
                save_call_seed(kind - 1 + (kind < 3 ? ENG_CALL_KINDS - 1 : 0), body, len, &bulk, "failed", kind);
        }
        eng_buf_unref(entries);
        eng_buf_unref(value);
        eng_buf_unref(bytes);
}

/* ---- operations of drives -------------------------------------------------------------------- */

/* Small ones: a seed has two bytes for a length. */
static void op_make(struct ask *ask, enum eng_op_kind kind)
{
        ask_make(ask, kind, 1);
        if (kind == ENG_OP_WRITE) {
                ask->op.write.payload_len = 4096;
                home_id(ask->op.write.object_id);
        }
        if (kind == ENG_OP_READ) {
                ask->op.read.payload_len = 4096;
                ask->op.read.len = 1000;
        }
}

static void op_answer(struct ask *ask)
{
        struct toy toy;

        toy_make(&toy, 0, NULL);
        ask->op.result = toy_do(&toy, &ask->op);
        ask->times = 1;
}

static size_t parts_len(const struct eng_wire_parts *parts)
{
        size_t len = 0;
        unsigned i;

        for (i = 0; i < parts->count; i++)
                len += parts->part[i].len;
        return len;
}

static void put_parts(const struct eng_wire_parts *parts)
{
        unsigned i;

        for (i = 0; i < parts->count; i++)
                put(parts->part[i].bytes, parts->part[i].len);
}

static void drive_wires(void)
{
        static uint8_t body[ENG_WIRE_BODY_MAX];
        struct eng_wire_parts parts;
        unsigned kind;
        struct ask ask;
        int len;

        for (kind = 0; kind < RF_KINDS; kind++) {
                op_make(&ask, (enum eng_op_kind)kind);
                len = eng_wire_put_request(&ask.op, body, &parts);
                MUST(len > 0);
                put_u8(ENG_OP_KINDS);
                put_u16(parts_len(&parts));
                put(body, (size_t)len);
                put_parts(&parts);
                save("drive_wire", "request", kind);
                op_answer(&ask);
                len = eng_wire_put_answer(&ask.op, body, &parts);
                if (len > 0 && parts_len(&parts) <= UINT16_MAX) {
                        put_u8(kind);
                        put_u16(parts_len(&parts));
                        put(body, (size_t)len);
                        put_parts(&parts);
                        save("drive_wire", "answer", kind);
                }
                ask_free(&ask);
        }
}

/* ---- remote_wire ----------------------------------------------------------------------------- */

static const struct rem_prefix prefix = {.incarnation = 1};
static const struct rem_refusal refusal = {.left_ns = 5, .newest = {.generation = 1, .revision = 9, .node = 2, .boot = 3}};
static uint8_t epoch[ENG_EPOCH_BODY_MAX];
static size_t epoch_len;

static void epoch_make(void)
{
        static uint8_t ids[3][ENG_ID_LEN] = {{1}, {2}, {3}};
        static const struct eng_site sites[3] = {{.node = 1, .rack = 1}, {.node = 2, .rack = 2}, {.node = 3, .rack = 3}};
        struct eng_new_pool pool = {.k = 2, .m = 1, .count = 3, .drive_ids = ids, .sites = sites};
        struct eng_error error;

        MUST(eng_pool_make(&pool, epoch, &epoch_len, &error) == 0);
}

static void put_facts(void)
{
        static uint8_t bytes[REM_INFO_MAX];
        static struct rem_facts facts = {.identity = {.layout = FMT_LAYOUT_VERSION, .features = 1}, .damage = "a little", .history = {.count = 1}};

        facts.epoch_len = epoch_len;
        memcpy(facts.epoch, epoch, epoch_len);
        put(bytes, rem_facts_write(&facts, bytes));
}

static void put_pool(void)
{
        struct rem_pool_head head = {.count = 2, .flags = REM_POOL_HEARD, .newest = refusal.newest};
        struct rem_slot slots[2] = {{.slot = 1, .incarnation = 7}, {.slot = 3, .incarnation = 8, .durable = refusal.newest}};

        put(&head, sizeof(head));
        put(slots, sizeof(slots));
}

static void put_state(uint32_t values)
{
        struct eng_drive_info info = {.state = ENG_DRIVE_IN, .free_bytes = 4711, .reason = "slow"};
        uint8_t bytes[REM_STATE_MAX];

        put(bytes, rem_state_write(&info, 0, values, bytes));
}

/* An answer of these bytes, which put_body() puts. */
static void put_answer(unsigned status, void (*put_body)(void), const void *bulk, size_t len)
{
        size_t at = seed_len, body;

        put_u8(status);
        put_u16(0);
        put_u16(len);
        body = seed_len;
        if (put_body != NULL)
                put_body();
        memcpy(seed + at + 1, &(uint16_t){(uint16_t)(seed_len - body)}, 2);
        put(bulk, len);
}

static void put_info_answer(void)
{
        put(&prefix, sizeof(prefix));
        put_facts();
}

static void put_open_answer(void)
{
        struct rem_before before = {.term = refusal.newest};

        put(&prefix, sizeof(prefix));
        put(&before, sizeof(before));
        put_facts();
}

static void put_refusal(void)
{
        put(&refusal, sizeof(refusal));
}

static void put_watch_answer(void)
{
        put(&prefix, sizeof(prefix));
        put_state(1);
}

static void put_watch(void)
{
        struct eng_buf *value = toy_value(sizeof(struct fmt_value), 1);
        uint8_t bulk[4 + sizeof(struct fmt_value)];

        memcpy(bulk, &value->len, 4);
        memcpy(bulk + 4, value->data, value->len);
        put_answer(REM_DONE, put_watch_answer, bulk, 4 + value->len);
        eng_buf_unref(value);
}

static void remote_reads(void)
{
        struct home_state state = {.up = 7, .epoch_len = (uint32_t)epoch_len, .flags = HOME_READY | HOME_WRITABLE};

        put_u8(READ_FACTS);
        put_facts();
        save("remote_wire", "facts", 0);
        put_u8(READ_REFUSAL);
        put_refusal();
        save("remote_wire", "refusal", 0);
        put_u8(READ_POOL);
        put_pool();
        save("remote_wire", "pool", 0);
        put_u8(READ_STATE);
        put_state(0);
        save("remote_wire", "state", 0);
        put_u8(READ_HOME_STATE);
        put(&state, sizeof(state));
        put(epoch, epoch_len);
        save("remote_wire", "home-state", 0);
}

static void remote_asks(void)
{
        unsigned what, status;

        for (what = ASK_OPEN; what <= ASK_INFO; what++) {
                put_u8(what);
                put_u8(1);
                put_answer(REM_DONE, what == ASK_OPEN ? put_open_answer : what == ASK_INFO ? put_info_answer : what == ASK_PREPARE ? NULL : put_pool, NULL, 0);
                save("remote_wire", "asked", what);
        }
        for (status = REM_BAD; status <= REM_STATUSES; status++) {
                put_u8(status % 2 == 0 ? ASK_OPEN : ASK_PING);
                put_u8(0);
                put_answer(status, put_refusal, NULL, 0);
                save("remote_wire", "refused", status);
        }
}

/* Of one that comes in two pieces the second is the rest. */
static void put_op_answer(const uint8_t *body, size_t len, const uint8_t *bulk, size_t size, size_t from, size_t to, bool pieces)
{
        struct rem_prefix p = {.incarnation = 1, .total = (uint32_t)size, .total_crc = pieces ? era_crc32c(0, bulk, size) : 0};

        put_u8(REM_DONE);
        put_u16(sizeof(p) + len);
        put_u16(to - from);
        put(&p, sizeof(p));
        put(body, len);
        put(bulk + from, to - from);
}

static void remote_op(enum eng_op_kind kind)
{
        static uint8_t body[ENG_WIRE_BODY_MAX], bulk[UINT16_MAX];
        struct eng_wire_parts parts;
        struct ask ask;
        size_t size = 0;
        unsigned i;
        int len;

        ask_make(&ask, kind, 1); /* as fuzz_remote_wire.c asks */
        if (kind == ENG_OP_READ)
                ask.op.read.len = 1000;
        op_answer(&ask);
        len = eng_wire_put_answer(&ask.op, body, &parts);
        if (len > 0 && parts_len(&parts) <= UINT16_MAX) {
                for (i = 0; i < parts.count; i++) {
                        memcpy(bulk + size, parts.part[i].bytes, parts.part[i].len);
                        size += parts.part[i].len;
                }
                put_u8(ASK_OP + kind);
                put_u8(kind == ENG_OP_LOOKUP);
                put_watch();
                put_op_answer(body, (size_t)len, bulk, size, 0, size, false);
                save("remote_wire", "op", kind);
                put_u8(ASK_OP + kind);
                put_u8(5);
                put_watch();
                put_answer(REM_BUSY, NULL, NULL, 0);
                put_op_answer(body, (size_t)len, bulk, size, 0, size / 2, true);
                put_op_answer(body, (size_t)len, bulk, size, size / 2, size, true);
                save("remote_wire", "pieces", kind);
        }
        ask_free(&ask);
}

/* ---- served ---------------------------------------------------------------------------------- */

#define RIGHT (RIGHT_PLACE | RIGHT_INCARNATION | RIGHT_SESSION | RIGHT_COMMITS | RIGHT_LINK)

static const struct eng_term leads = {.generation = 1, .revision = 5};

/* What comes behind it is its body, and its bulk. */
static void put_request(unsigned who, uint32_t operation, unsigned right, size_t body, size_t bulk, size_t room)
{
        put_u8(0);
        put_u8(who);
        put_u8(rem_is_operation(operation) ? operation - REM_OPERATIONS : REM_OPERATIONS_COUNT + operation - REM_HOME_OPERATIONS);
        put_u8(NET_LOG);
        put_u8(right);
        put_u16(body);
        put_u16(bulk);
        put_u16(room / 64);
}

static void put_head(uint16_t flags, const struct eng_term *term)
{
        struct rem_head head = {.flags = flags};

        if (term != NULL)
                head.term = *term;
        put(&head, sizeof(head));
}

static void put_open(void)
{
        put_request(LEADER, REM_OPEN, RIGHT | RIGHT_TERM, sizeof(struct rem_head) + sizeof(cluster), 0, 0);
        put_head(0, &leads);
        put(cluster, sizeof(cluster));
}

static void put_begin(const struct eng_term *term)
{
        put_request(LEADER, REM_INFO, RIGHT_PLACE | NEXT_SESSION | RIGHT_LINK | (term != NULL ? RIGHT_TERM : 0), sizeof(struct rem_head) + 8, 0, 0);
        put_head(REM_BEGIN, term);
        put_zeroes(8);
}

static void put_op(unsigned who, enum eng_op_kind kind, uint16_t flags, const struct eng_term *term)
{
        static uint8_t body[ENG_WIRE_BODY_MAX];
        struct eng_wire_parts parts;
        struct ask ask;
        int len;

        op_make(&ask, kind);
        len = eng_wire_put_request(&ask.op, body, &parts);
        MUST(len > 0);
        put_request(who, REM_OP, (kind == ENG_OP_COMMIT ? (RIGHT & ~RIGHT_COMMITS) | NEXT_COMMIT : RIGHT) | (term != NULL ? RIGHT_TERM : 0), sizeof(struct rem_head) + (size_t)len,
                    parts_len(&parts), 128u << 10);
        put_head(flags, term);
        put(body, (size_t)len);
        put_parts(&parts);
        ask_free(&ask);
}

static void served_drives(void)
{
        unsigned kind, operation;

        for (kind = 0; kind < RF_KINDS; kind++) {
                put_open();
                put_begin(&leads);
                put_op(LEADER, (enum eng_op_kind)kind, 0, &leads);
                put_op(STRANGER, (enum eng_op_kind)kind, 0, &leads);
                put_op(HOME, (enum eng_op_kind)kind, REM_HOME, NULL);
                save("served", "op", kind);
        }
        put_begin(NULL);
        put_u8(5);
        put_u8(ENG_OP_APPEND);
        put_op(LEADER, ENG_OP_APPEND, 0, NULL);
        put_op(LEADER, ENG_OP_COMMIT, 0, NULL);
        put_u8(7);
        put_u8(LEADER + 3 * NET_LOG);
        put_u8(6);
        save("served", "kept", 0);
        for (operation = REM_WATCH; operation < REM_END; operation++) {
                bool pool = operation >= REM_PING, term = operation != REM_STATE && operation != REM_PREPARE;
                size_t more = operation == REM_WATCH ? 8 : operation == REM_OPEN ? sizeof(cluster) : 0;

                put_open();
                put_begin(&leads);
                put_request(LEADER, operation, (pool ? RIGHT_PLACE | RIGHT_LINK : RIGHT) | (term ? RIGHT_TERM : 0), sizeof(struct rem_head) + more, 0, 8192);
                put_head(0, term ? &leads : NULL);
                put_zeroes(more);
                save("served", "asks", operation - REM_OPERATIONS);
        }
}

static void put_join(void)
{
        struct home_join join = {.loops = 1};

        put_request(HOME, HOME_JOIN, RIGHT_PLACE | RIGHT_LINK, sizeof(join), 0, 0);
        put(&join, sizeof(join));
        put_u8(4);
        put_u8(0);
}

static void put_home_watch(uint32_t room)
{
        struct home_watch watch = {.version = UINT64_MAX, .state_sum = UINT64_MAX};

        put_request(HOME, HOME_WATCH, RIGHT_SESSION | RIGHT_LINK, sizeof(watch) + sizeof(uint64_t), 0, room);
        put(&watch, sizeof(watch));
        put_zeroes(sizeof(uint64_t));
}

static void served_homes(void)
{
        static uint8_t body[ENG_CALL_BODY_MAX];
        struct eng_call_bulk bulk;
        struct eng_call call;
        unsigned kind, who;
        int len;

        put_join();
        put_home_watch(ENG_HOME_ROWS_MAX);
        put_home_watch(ENG_HOME_ROWS_MAX);
        save("served", "watch", 0);
        put_join();
        put_home_watch(64); /* too little for what is answered */
        save("served", "watch", 1);
        for (kind = 1; kind < ENG_CALL_KINDS; kind++) {
                call_make((enum eng_call_kind)kind, &call);
                call.put.proof_count = kind == ENG_CALL_PUT ? 0 : call.put.proof_count;
                len = eng_call_put(&call, body, &bulk);
                MUST(len > 0);
                put_join();
                for (who = HOME; who <= STRANGER; who++) {
                        put_request(who, HOME_CALL, RIGHT_SESSION | RIGHT_BUCKET | RIGHT_LINK, sizeof(struct home_call) + (size_t)len, bulk_len(&bulk), 64u << 10);
                        put_zeroes(sizeof(struct home_call));
                        put(body, (size_t)len);
                        put_bulk(&bulk);
                }
                save("served", "call", kind);
        }
        put_join();
        put_request(HOME, HOME_UNPIN, RIGHT_SESSION | RIGHT_LINK, sizeof(struct home_call) + 8, 0, 0);
        put_zeroes(sizeof(struct home_call));
        put(&(uint64_t){9}, 8);
        save("served", "unpin", 0);
        for (who = HOME; who <= STRANGER; who++) { /* what a stranger asks was kept for good once */
                put_request(who, HOME_ASK, RIGHT_LINK, 0, 5, 4096);
                put("hello", 5);
        }
        save("served", "ask", 0);
}

/* ---- cluster_values -------------------------------------------------------------------------- */

static void report_of(unsigned stores, unsigned pasts)
{
        static struct cl_report report;
        static char text[CL_REPORT_MAX];
        struct rem_known known = {.epoch = 1, .term = refusal.newest, .cluster = "cluster", .body_len = epoch_len, .past_count = pasts};
        struct eng_identity identity = {0};
        size_t len;
        unsigned i;

        memset(&report, 0, sizeof(report));
        report.node = 3;
        snprintf(report.self.name, sizeof(report.self.name), "n3");
        snprintf(report.self.address, sizeof(report.self.address), "192.0.2.3:7000");
        report.boot = 5;
        report.seen = (struct cl_seen){9, {1, 3}, 100};
        report.fence = (struct cl_generation){2, 7};
        report.pools = stores;
        snprintf(report.switches, sizeof(report.switches), "generation = 1\nread_only = yes\nmaintenance = no\n");
        memcpy(known.body, epoch, epoch_len);
        for (i = 0; i < pasts; i++)
                known.past[i].number = pasts - i;
        for (i = 0; i < stores; i++) {
                identity.slot = i;
                identity.store_id[0] = identity.drive_id[0] = (uint8_t)(1 + i);
                MUST(cl_report_add(&report, &identity, &known, true, i == 0 ? "a fault" : "") == 0);
        }
        len = cl_report_write(&report, text);
        MUST(len > 0);
        put_u8(6);
        put(text, len);
        save("cluster_values", "report", stores);
}

int main(int argc, char **argv)
{
        unsigned kind;

        MUST(argc == 2);
        out = argv[1];
        mkdir(out, 0755);
        epoch_make();
        net_frame_heads();
        net_frame_greetings();
        net_links();
        calls();
        drive_wires();
        remote_reads();
        remote_asks();
        for (kind = 0; kind < RF_KINDS; kind++)
                remote_op((enum eng_op_kind)kind);
        served_drives();
        served_homes();
        report_of(1, 0);
        report_of(2, 5);
        report_of(CL_POOLS_MAX, REM_PAST_MAX);
        return 0;
}
