/*
 * fuzz_remote_wire.c - libFuzzer: what a node is told by others of drives, pools and terms: what is read of answers, and
 * a client whose questions are answered by the input. What is taken lies within what came, and is the same bytes when it
 * is written again; each question ends once, and nothing of it is left.
 *
 * The first byte chooses: what is read, or a question. Of a question flags follow, u8, and the answers, one for each request
 * that comes: status u8, length of the body u16, of the bulk u16, body, bulk. Behind the last all are refused.
 */
#include "engine/home/home_state.h"
#include "tests/fuzz/remote_inputs.h"
#include "tests/unit/remote/remote_fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MS_MOST 60000u /* that a question may take: longer than any waits */

static struct rf rf;
static struct rem_client *leader;
static const uint8_t *answers;
static size_t answers_left;
static volatile uint32_t sum; /* so that all bytes are read */

static void see(const void *bytes, size_t len)
{
        if (len > 0)
                sum = era_crc32c(0, bytes, len);
}

static void see_buf(const struct eng_buf *buf)
{
        if (buf != NULL)
                see(buf->data, buf->len);
}

/* ---- what is read ---------------------------------------------------------------------------- */

static void read_facts(const uint8_t *bytes, size_t len)
{
        static uint8_t again[REM_INFO_MAX];
        static struct rem_facts facts;
        struct rem_info info, same;
        struct eng_epoch_info epoch;

        if (rem_facts_read(bytes, len, &facts) != 0)
                return;
        MUST(facts.epoch_len <= REM_EPOCH_MAX && facts.history.count <= ENG_EPOCH_HISTORY && facts.identity.slot < ENG_DRIVES_MAX);
        eng_epoch_read(facts.epoch, facts.epoch_len, &epoch);
        memcpy(&info, bytes, sizeof(info));
        if (strlen(facts.damage) != info.damage_len)
                return; /* a text ends with its first 0 */
        MUST(rem_facts_write(&facts, again) == len);
        memcpy(&same, again, sizeof(same));
        memset(info.zero, 0, sizeof(info.zero)); /* a later version may fill them */
        MUST(memcmp(&info, &same, sizeof(info)) == 0 && memcmp(again + sizeof(info), bytes + sizeof(info), len - sizeof(info)) == 0);
}

static void read_refusal(const uint8_t *bytes, size_t len)
{
        struct rem_refusal refusal;

        if (rem_refusal_read(bytes, len, &refusal) == 0)
                MUST(eng_term_is_sound(&refusal.newest));
}

static void read_pool(const uint8_t *bytes, size_t len)
{
        static struct rem_slot slots[REM_SLOTS_MAX];
        struct rem_pool_state state = {0};
        struct rem_pool_head head;

        if (rem_pool_read(bytes, len, &head, slots) != 0)
                return;
        MUST(head.count <= REM_SLOTS_MAX && len == sizeof(head) + head.count * sizeof(slots[0]));
        MUST(memcmp(bytes, &head, sizeof(head)) == 0 && memcmp(bytes + sizeof(head), slots, len - sizeof(head)) == 0);
        rem_pool_state_take(&state, &head);
        MUST(state.count == head.count);
}

static void read_state(const uint8_t *bytes, size_t len)
{
        uint8_t again[REM_STATE_MAX];
        struct eng_drive_info info = {0};
        struct rem_state state;

        if (rem_state_read(bytes, len, &state, &info) != 0)
                return;
        if (strlen(info.reason) == state.reason_len)
                MUST(rem_state_write(&info, state.first, state.values, again) == len && memcmp(again, bytes, len) == 0);
}

static void read_home_state(const uint8_t *bytes, size_t len)
{
        static struct eng_epoch_info info;
        struct home_state state;

        if (home_state_read(bytes, len, &state, &info) == 0)
                MUST(state.epoch_len == len - sizeof(state) && info.slots > 0 && info.slots <= ENG_DRIVES_MAX);
}

/* ---- who answers ----------------------------------------------------------------------------- */

static enum net_bulk answers_bulk(void *arg, struct net_request *request)
{
        return NET_BULK_DISCARD;
}

static void answers_lost(void *arg, struct net_request *request)
{
}

static void answers_request(void *arg, struct net_request *request)
{
        struct net_answer answer = {.status = REM_BAD};
        uint16_t body, bulk;

        if (answers_left >= 5) {
                memcpy(&body, answers + 1, sizeof(body));
                memcpy(&bulk, answers + 3, sizeof(bulk));
                answer.status = answers[0];
                answers += 5;
                answers_left -= 5;
                answer.body = answers;
                answer.body_len = body < answers_left ? body : (uint32_t)answers_left;
                answers += answer.body_len;
                answers_left -= answer.body_len;
                bulk = bulk < answers_left ? bulk : (uint16_t)answers_left;
                answer.bulk[0] = (struct iovec){(void *)answers, bulk < request->room ? bulk : request->room};
                answer.bulk_count = answer.bulk[0].iov_len > 0;
                answers += bulk;
                answers_left -= bulk;
        }
        request->answered = NULL;
        net_reply(request, &answer);
}

/* ---- who asks -------------------------------------------------------------------------------- */

static unsigned answered;

static void open_answered(struct rem_open *open)
{
        MUST(open->said != REM_SAID_DONE || (open->incarnation != 0 && open->epoch_len <= REM_EPOCH_MAX));
        if (open->said == REM_SAID_DONE)
                see(open->epoch_body, open->epoch_len);
        answered++;
}

static void ping_answered(struct rem_ping *ping)
{
        MUST(ping->count <= REM_SLOTS_MAX && (ping->said == REM_SAID_DONE || ping->count == 0));
        answered++;
}

static void state_answered(struct rem_pool_state *state)
{
        MUST(state->count <= REM_SLOTS_MAX);
        answered++;
}

static void prepare_answered(struct rem_prepare *prepare)
{
        answered++;
}

static void info_answered(struct rem_opening *opening)
{
        MUST(opening->rv <= 0 && (opening->rv != 0 || opening->prefix.incarnation != 0));
        answered++;
}

static void await_answer(void)
{
        unsigned ms;

        mem_settle();
        for (ms = 0; answered == 0 && ms < MS_MOST; ms += 10)
                mem_pass(10);
        MUST(answered == 1);
}

static void ask_of_pool(unsigned what)
{
        static struct rem_pool_state state;
        static struct rem_ping ping;
        struct rem_open open = {.client = leader, .pool = RF_POOL, .node = 2, .done = open_answered};
        struct rem_prepare prepare = {.client = leader, .pool = RF_POOL, .node = 2, .done = prepare_answered};
        struct lp_loop *outer = lp_become(rf.a.loops[0]);

        answered = 0;
        state = (struct rem_pool_state){.client = leader, .pool = RF_POOL, .node = 2, .done = state_answered};
        ping = (struct rem_ping){.client = leader, .pool = RF_POOL, .node = 2, .done = ping_answered};
        switch (what) {
        case ASK_OPEN:
                rem_open_ask(&open);
                break;
        case ASK_PING:
                rem_ping_ask(&ping);
                break;
        case ASK_RELEASE:
                rem_release_ask(&ping);
                break;
        case ASK_STATE:
                rem_pool_state_ask(&state);
                break;
        default:
                rem_prepare_ask(&prepare);
        }
        lp_become(outer);
        await_answer();
}

static void ask_info(bool begin)
{
        struct rem_opening opening = {.client = rf.client, .place = {.node = 2, .pool = RF_POOL}, .begin = begin, .done = info_answered};
        struct lp_loop *outer = lp_become(rf.a.loops[0]);

        answered = 0;
        rem_opening_ask(&opening);
        lp_become(outer);
        await_answer();
}

/* A drive whose opening is made up, so that all that it is answered is the input's. */
static struct eng_drive *drive_of(struct rem_client *client)
{
        struct rem_opening opening = {.client = client, .place = {.node = 2, .pool = RF_POOL}, .prefix.incarnation = 1, .session = 1, .call.peer = rf.to_b};
        struct eng_local_options options = {.path = "remote:2/3/0", .owner = rf.a.loops[1], .failed = rf_failed, .superseded = rf_superseded, .unreachable = rf_unreachable, .arg = &rf};
        struct eng_drive *drive;

        MUST(remote_drive_new(&opening, &options, &drive) == 0);
        return drive;
}

static void drive_end(struct eng_drive *drive)
{
        struct eng_drive_info info;
        struct lp_loop *outer;
        unsigned ms;
        bool gone = false;

        drive->ops->info(drive, &info);
        MUST(memchr(info.reason, '\0', sizeof(info.reason)) != NULL);
        for (ms = 0; !gone && ms < MS_MOST; ms += 10) {
                mem_pass(10);
                outer = lp_become(rf.a.loops[1]);
                gone = drive->ops->let_go(drive) && !drive->ops->awaits_file(drive);
                lp_become(outer);
        }
        MUST(gone);
        outer = lp_become(rf.a.loops[1]);
        drive->ops->close(drive);
        lp_become(outer);
}

static void see_answer(const struct eng_op *op)
{
        switch (op->kind) {
        case ENG_OP_LOOKUP:
                see_buf(op->lookup.value);
                see_buf(op->lookup.bytes);
                break;
        case ENG_OP_SCAN:
                see_buf(op->scan.entries);
                break;
        case ENG_OP_RECORD:
                see_buf(op->append.body);
                break;
        case ENG_OP_TAIL:
                see_buf(op->tail.entries);
                break;
        case ENG_OP_IDS:
                see_buf(op->ids.ids);
                break;
        default:
                break;
        }
}

static void ask_op(enum eng_op_kind kind, uint8_t flags)
{
        static const uint32_t of_lookup[] = {0, ENG_OP_WANT_INLINE, ENG_OP_WANT_RECORD, ENG_OP_WANT_INLINE | ENG_OP_OTHERS},
                              of_scan[] = {0, ENG_OP_LISTED, ENG_OP_WANT_ATTRS | ENG_OP_WANT_PARTS, ENG_OP_VERSIONS};
        struct eng_drive *drive = drive_of(rf.client);
        struct ask ask;
        unsigned ms;

        ask_make(&ask, kind, 1);
        if (kind == ENG_OP_LOOKUP)
                ask.op.flags = of_lookup[flags & 3];
        if (kind == ENG_OP_SCAN)
                ask.op.flags = of_scan[flags & 3];
        if ((flags & 4) != 0)
                ask.op.flags |= ENG_OP_ANEW;
        mem_settle(); /* WATCH */
        ask_submit(&rf, drive, 0, &ask);
        mem_settle();
        for (ms = 0; ask.times == 0 && ms < MS_MOST; ms += 10)
                mem_pass(10);
        MUST(ask.times == 1 && ask.op.result <= 0);
        if (ask.op.result == 0)
                see_answer(&ask.op);
        ask_free(&ask);
        drive_end(drive);
}

static void start(void)
{
        static const struct net_handler handler = {.bulk = answers_bulk, .request = answers_request, .lost = answers_lost};
        struct rem_client_options options = {.term = {.generation = 1, .revision = 5, .boot = 5, .node = 1}, .cluster = "a test cluster"};

        rf_start_with(&rf, &handler, 0);
        options.net = rf.a.node.net;
        options.loop = rf.a.loops[0];
        MUST(rem_client_new(&options, &leader) == 0);
}

static void ask(unsigned what, const uint8_t *data, size_t size)
{
        if (rf.client == NULL)
                start();
        if (size == 0)
                return;
        answers = data + 1;
        answers_left = size - 1;
        if (what < ASK_INFO)
                ask_of_pool(what);
        else if (what == ASK_INFO)
                ask_info((data[0] & 1) != 0);
        else
                ask_op((enum eng_op_kind)(what - ASK_OP), data[0]);
        answers_left = 0;
        rf.a.node.lines[0] = rf.b.node.lines[0] = '\0';
        MUST(mem_stats(&rf.b).body_memory == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static void (*const readers[])(const uint8_t *bytes, size_t len) = {
                [READ_FACTS] = read_facts, [READ_REFUSAL] = read_refusal, [READ_POOL] = read_pool, [READ_STATE] = read_state, [READ_HOME_STATE] = read_home_state};
        uint8_t *exact;
        unsigned what;

        if (size == 0)
                return 0;
        what = data[0] % (ASK_OP + RF_KINDS);
        exact = malloc(size > 1 ? size - 1 : 1); /* of its length, so that a sanitizer sees what lies beyond */
        MUST(exact != NULL);
        memcpy(exact, data + 1, size - 1);
        if (what < ASK_OPEN)
                readers[what](exact, size - 1);
        else
                ask(what, exact, size - 1);
        free(exact);
        return 0;
}
