/*
 * fake_work.c - what is posted to the fake: its way to the other end, its execution there, its
 * completion, and what an error does to the rest.
 *
 * Within a pair everything happens in order, as RC has it; between pairs in any. Bytes that a WRITE
 * brought lie staged, or are visible in part; a message behind them makes them visible; when the
 * pair dies some of them appear and some never do.
 */
#include "tests/fakerdma/fake_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- staged bytes ---------------------------------------------------------------------------- */

static void show(struct fake_staged *staged, uint32_t from, uint32_t to)
{
        memcpy(staged->to + from, staged->bytes + from, to - from);
}

static void stage(struct rdx_pair *pair, char *to, char *bytes, uint32_t len)
{
        struct fake_staged *staged = calloc(1, sizeof(*staged)), **link = &pair->staged;
        uint32_t part = (uint32_t)fake_random((uint64_t)len + 1);

        FAKE_MUST(staged != NULL);
        *staged = (struct fake_staged){.to = to, .bytes = bytes, .len = len};
        if (fake_random(2) == 0) /* some of it is there already */
                show(staged, part, len);
        while (*link != NULL)
                link = &(*link)->next;
        *link = staged;
}

/*
 * all: a message came behind them, or the right ends: nothing appears later. Else the pair is over:
 * any of them appear.
 */
void fake_settle(struct rdx_pair *pair, bool all)
{
        struct fake_staged *staged;

        while ((staged = pair->staged) != NULL) {
                pair->staged = staged->next;
                if (all || fake_random(2) == 0)
                        show(staged, 0, staged->len);
                free(staged->bytes);
                free(staged);
        }
}

/* ---- at the responder ------------------------------------------------------------------------ */

int fake_copy_here(const struct rdx_pair *pair, void *own, void *other, uint32_t len, bool fetch)
{
        if (fetch)
                memcpy(own, other, len);
        else
                memcpy(other, own, len);
        return 0;
}

static int execute_write(struct rdx_pair *pair, const struct rdx_work *work, fake_copy copy)
{
        char *to = (char *)(uintptr_t)work->remote, *bytes;
        int rv = fake_check_rights(pair, work->rkey, work->remote, work->len, RDX_REMOTE_WRITE);

        if (rv != 0)
                return rv;
        fake.counts.writes++;
        fake.counts.written += work->len;
        if (!fake.strict)
                return copy(pair, to, work->address, work->len, true);
        bytes = malloc(work->len + 1);
        FAKE_MUST(bytes != NULL);
        rv = copy(pair, bytes, work->address, work->len, true);
        if (rv == 0)
                stage(pair, to, bytes, work->len);
        else
                free(bytes);
        return rv;
}

static int execute_read(struct rdx_pair *pair, const struct rdx_work *work, fake_copy copy)
{
        int rv = fake_check_rights(pair, work->rkey, work->remote, work->len, RDX_REMOTE_READ);

        fake.counts.reads++;
        return rv != 0 ? rv : copy(pair, (void *)(uintptr_t)work->remote, work->address, work->len, false);
}

/* Takes the oldest receive. */
static int receive(struct rdx_pair *pair, const struct rdx_work *work, fake_copy copy)
{
        struct rdx_done done = {.kind = RDX_DONE_RECEIVED, .len = work->len};
        struct fake_receive *receive = pair->receive;
        int rv = 0;

        if (receive == NULL) {
                fake.counts.rnr++;
                return -ETIMEDOUT;
        }
        if (work->len > receive->len)
                return -EIO;
        if (work->op == RDX_OP_SEND_INVALIDATE)
                rv = fake_invalidate(pair, work->rkey);
        if (rv != 0)
                return rv;
        fake_settle(pair, true);
        if (work->len > 0)
                rv = copy(pair, receive->address, work->address, work->len, true);
        if (rv != 0)
                return rv;
        done.tag = receive->tag;
        done.has_imm = work->op == RDX_OP_WRITE_NOTICE;
        done.invalidated = work->op == RDX_OP_SEND_INVALIDATE;
        done.imm = done.has_imm ? work->imm : work->rkey;
        pair->receive = receive->next;
        if (pair->receive == NULL)
                pair->receive_last = &pair->receive;
        pair->receives_used--;
        free(receive);
        fake.counts.messages++;
        fake_queue_push(pair->queue, &done);
        return 0;
}

int fake_execute(struct rdx_pair *pair, const struct rdx_work *work, fake_copy copy)
{
        int rv;

        if (pair->state != PAIR_READY || pair->cut)
                return -ETIMEDOUT;
        switch (work->op) {
        case RDX_OP_WRITE:
                rv = execute_write(pair, work, copy);
                break;
        case RDX_OP_READ:
                rv = execute_read(pair, work, copy);
                break;
        default:
                rv = receive(pair, work, copy);
                break;
        }
        if (rv == -EACCES || rv == -EIO) { /* the responder's pair is in the error state, too */
                fake_event(pair->channel, RDX_EVENT_DOWN, pair, rv, NULL, 0, NULL);
                fake_to_error(pair, -ECANCELED);
        }
        return rv;
}

/* ---- posting --------------------------------------------------------------------------------- */

static bool is_local(const struct rdx_work *work)
{
        return work->op == RDX_OP_BIND || work->op == RDX_OP_INVALIDATE;
}

static bool is_bulk(const struct rdx_work *work)
{
        return work->op == RDX_OP_WRITE || work->op == RDX_OP_READ;
}

static void check_own_memory(const struct rdx_pair *pair, const struct rdx_work *work)
{
        struct rdx_region *region;

        if (is_local(work) || work->len == 0)
                return;
        region = fake_region_of(work->lkey);
        FAKE_MUST(region != NULL && region->domain == pair->domain &&
                  fake_region_holds(region, work->address, work->len));
        FAKE_MUST(work->op != RDX_OP_READ || (!pair->no_reads && (region->access & RDX_LOCAL_WRITE) != 0));
        FAKE_MUST(is_bulk(work) || work->len <= FAKE_SEND_MOST);
}

static void enqueue(struct rdx_pair *pair, const struct rdx_work *work)
{
        struct fake_work *item = calloc(1, sizeof(*item));

        FAKE_MUST(item != NULL);
        item->work = *work;
        item->seq = pair->next_seq++;
        if (work->op == RDX_OP_BIND) {
                struct rdx_window *window = work->window;

                window->posted_key = window->index << 8 | ++fake.keys[window->index].generation;
                item->work.rkey = window->posted_key;
        }
        if (work->route != NULL)
                work->route->works++;
        *pair->work_last = item;
        pair->work_last = &item->next;
        pair->sends_used++;
        if (is_bulk(work) && ++fake.writes_out > fake.counts.most_writes)
                fake.counts.most_writes = fake.writes_out;
}

int fake_post(struct rdx_pair *pair, const struct rdx_work *work, unsigned count, unsigned *posted)
{
        unsigned i;
        int rv = 0;

        fake_lock();
        for (i = 0; i < count && rv == 0; i++) {
                check_own_memory(pair, &work[i]);
                FAKE_MUST(pair->sends_used < pair->sends); /* the work queue is full */
                if (pair->state == PAIR_NEW || pair->state == PAIR_CONNECTING)
                        rv = -ENOTCONN;
                else if (fake_point() || fake_fault(&work[i]))
                        rv = -ENOMEM;
                else
                        enqueue(pair, &work[i]);
        }
        *posted = rv == 0 ? i : i - 1;
        if (pair->state == PAIR_ERROR && pair->work != NULL)
                fake_to_error(pair, -ECANCELED);
        else if (fake.live)
                fake_transmit_live(pair);
        fake_unlock();
        return rv;
}

int fake_post_receive(struct rdx_pair *pair, uint64_t tag, void *address, uint32_t len, uint32_t lkey)
{
        struct rdx_done done = {.tag = tag, .kind = RDX_DONE_RECEIVED, .result = -ECANCELED};
        struct fake_receive *item;
        struct rdx_region *region;
        int rv = -ENOMEM;

        fake_lock();
        region = fake_region_of(lkey);
        FAKE_MUST(region != NULL && region->domain == pair->domain && fake_region_holds(region, address, len) &&
                  (region->access & RDX_LOCAL_WRITE) != 0);
        FAKE_MUST(pair->receives_used < pair->receives);
        if (fake_point()) {
                /* refused */
        } else if (pair->state == PAIR_ERROR) {
                fake_queue_push(pair->queue, &done);
                rv = 0;
        } else {
                item = calloc(1, sizeof(*item));
                FAKE_MUST(item != NULL);
                *item = (struct fake_receive){.tag = tag, .address = address, .len = len};
                *pair->receive_last = item;
                pair->receive_last = &item->next;
                pair->receives_used++;
                rv = 0;
        }
        fake_unlock();
        return rv;
}

/* ---- completing ------------------------------------------------------------------------------ */

static void push_sent(struct rdx_pair *pair, const struct fake_work *item, int result)
{
        struct rdx_done done = {.tag = item->work.tag, .kind = RDX_DONE_SENT, .result = result};

        if (item->work.signalled || result != 0)
                fake_queue_push(pair->queue, &done);
}

static struct fake_work *pop_work(struct rdx_pair *pair)
{
        struct fake_work *item = pair->work;

        pair->work = item->next;
        if (pair->work == NULL)
                pair->work_last = &pair->work;
        pair->sends_used--;
        if (item->work.route != NULL)
                item->work.route->works--;
        if (is_bulk(&item->work))
                fake.writes_out--;
        return item;
}

static void flush_receives(struct rdx_pair *pair)
{
        struct rdx_done done = {.kind = RDX_DONE_RECEIVED, .result = -ECANCELED};
        struct fake_receive *item;

        while ((item = pair->receive) != NULL) {
                done.tag = item->tag;
                pair->receive = item->next;
                free(item);
                fake_queue_push(pair->queue, &done);
        }
        pair->receive_last = &pair->receive;
        pair->receives_used = 0;
}

/* What was executed and not completed may be told either way; it is flushed. */
void fake_to_error(struct rdx_pair *pair, int result)
{
        struct rdx_pair *remote = pair->remote;
        bool first = pair->state != PAIR_ERROR;

        pair->state = PAIR_ERROR;
        fake_settle(pair, false);
        while (pair->work != NULL) {
                struct fake_work *item = pop_work(pair);

                push_sent(pair, item, result);
                free(item);
                result = -ECANCELED;
        }
        flush_receives(pair);
        if (first && fake.live)
                fake_wire_close(pair);
        else if (first && remote != NULL && !pair->cut && !remote->cut)
                fake_event(remote->channel, RDX_EVENT_DOWN, remote, -ECONNRESET, NULL, 0, NULL);
}

/* Of a pair that is closed: completions that nobody took stay in the queue, as on some devices. */
void fake_forget_work(struct rdx_pair *pair)
{
        FAKE_MUST(pair->work == NULL && pair->receive == NULL && pair->staged == NULL);
}

void fake_executed(struct rdx_pair *pair, uint32_t seq, int result)
{
        struct fake_work *item;

        for (item = pair->work; item != NULL && (int32_t)(item->seq - seq) <= 0; item = item->next) {
                item->executed = true;
                item->result = item->seq == seq ? result : 0;
        }
}

bool fake_complete(struct rdx_pair *pair)
{
        struct fake_work *item = pair->work;

        if (item == NULL || !item->executed)
                return false;
        if (item->result != 0) {
                fake_to_error(pair, item->result);
                return true;
        }
        pop_work(pair);
        push_sent(pair, item, 0);
        free(item);
        return true;
}

/* ---- on the way ------------------------------------------------------------------------------ */

static struct fake_work *first_unsent(const struct rdx_pair *pair)
{
        struct fake_work *item = pair->work;

        while (item != NULL && item->sent)
                item = item->next;
        return item;
}

static int execute_local(struct rdx_pair *pair, const struct rdx_work *work)
{
        if (work->op == RDX_OP_BIND)
                return fake_bind(pair, work);
        fake_settle(pair, true);
        return fake_invalidate(pair, work->rkey);
}

/* Something that is posted has failed, and those before it are not through. */
static bool broken(const struct rdx_pair *pair)
{
        const struct fake_work *item;

        for (item = pair->work; item != NULL && item->sent; item = item->next)
                if (item->result != 0)
                        return true;
        return false;
}

/* WRITEs and READs from here on go together: the last of them. */
static struct fake_work *send_bulk(struct rdx_pair *pair, struct fake_work *first)
{
        struct fake_work *last = first;
        unsigned count = 1;

        while (count < FAKE_BULK_MOST && last->next != NULL && is_bulk(&last->next->work) &&
               !fake_faults_may(&last->next->work)) { /* what may fail goes alone */
                last = last->next;
                last->sent = true;
                count++;
        }
        fake_wire_send_bulk(pair, first, count);
        return last;
}

/*
 * An initiator has one on its way at a time: they go to different processes, and none may be behind
 * one that fails.
 */
void fake_transmit_live(struct rdx_pair *pair)
{
        struct fake_work *item, *sent = NULL; /* the latest, while it is known to be there */

        while (pair->state == PAIR_READY && (item = sent != NULL ? sent->next : first_unsent(pair)) != NULL &&
               (sent != NULL || !broken(pair))) {
                if (pair->dials && item != pair->work)
                        return;
                sent = NULL;
                item->sent = true;
                if (pair->dials) {
                        if (fake_wire_dial(pair, item))
                                return;
                        fake_executed(pair, item->seq, -ETIMEDOUT);
                        fake_complete(pair);
                } else if (is_local(&item->work)) {
                        fake_executed(pair, item->seq, execute_local(pair, &item->work));
                        while (fake_complete(pair))
                                ;
                } else if (fake_fault(&item->work)) {
                        /*
                         * Lost: told when those before it are through, and nothing goes behind it.
                         */
                        item->executed = true;
                        item->result = -ETIMEDOUT;
                        while (fake_complete(pair))
                                ;
                } else if (is_bulk(&item->work)) {
                        sent = send_bulk(pair, item);
                } else {
                        fake_wire_send(pair, item);
                        sent = item;
                }
        }
}

static int execute_far(struct rdx_pair *pair, const struct rdx_work *work)
{
        const struct fake_target *target;

        if (!pair->dials)
                return pair->remote != NULL ? fake_execute(pair->remote, work, fake_copy_here) : -ETIMEDOUT;
        target = fake_target_find(work->route->port.gid, work->target);
        return target != NULL ? fake_target_execute(target, pair, work, fake_copy_here) : -ETIMEDOUT;
}

/*
 * A failure here is one of a lost request (nothing happened), of a lost answer (it did), or of the
 * responder.
 */
static void transmit(struct rdx_pair *pair, struct fake_work *item)
{
        bool lost = fake_point(), unanswered = fake_point();
        int result = -ETIMEDOUT;

        item->sent = true;
        if (is_local(&item->work))
                result = execute_local(pair, &item->work);
        else if (!lost && !pair->cut)
                result = execute_far(pair, &item->work);
        if (unanswered && result == 0 && !is_local(&item->work))
                result = -ETIMEDOUT;
        if (pair->work != NULL) /* else the responder's end has taken ours with it */
                fake_executed(pair, item->seq, result);
}

static bool can_step(const struct rdx_pair *pair)
{
        const struct fake_work *next = first_unsent(pair);

        if (pair->work == NULL || pair->state == PAIR_NEW || pair->state == PAIR_CONNECTING)
                return false;
        return pair->work->executed || next != NULL;
}

static void step(struct rdx_pair *pair)
{
        struct fake_work *next = first_unsent(pair), *item;
        bool failed = false;

        for (item = pair->work; item != next; item = item->next)
                failed = failed || item->result != 0;
        if (next != NULL && !failed && (!pair->work->executed || fake_random(2) == 0))
                transmit(pair, next);
        else
                fake_complete(pair);
}

bool fake_step(void)
{
        struct rdx_pair *pair, *chosen = NULL;
        unsigned seen = 0;

        fake_lock();
        for (pair = fake.pairs; pair != NULL; pair = pair->next)
                if (can_step(pair) && fake_random(++seen) == 0)
                        chosen = pair;
        if (chosen != NULL)
                step(chosen);
        fake_unlock();
        return chosen != NULL;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct rdx_transport table = {
        .version = RDX_TRANSPORT_VERSION,
        .name = "fake",
        .devices = fake_devices,
        .device_open = fake_device_open,
        .device_close = fake_device_close,
        .device_info = fake_device_info,
        .domain_open = fake_domain_open,
        .domain_close = fake_domain_close,
        .region_open = fake_region_open,
        .region_close = fake_region_close,
        .region_lkey = fake_region_lkey,
        .region_rkey = fake_region_rkey,
        .window_open = fake_window_open,
        .window_close = fake_window_close,
        .window_rkey = fake_window_rkey,
        .queue_open = fake_queue_open,
        .queue_close = fake_queue_close,
        .queue_fd = fake_queue_fd,
        .queue_arm = fake_queue_arm,
        .queue_poll = fake_queue_poll,
        .channel_open = fake_channel_open,
        .channel_close = fake_channel_close,
        .channel_fd = fake_channel_fd,
        .channel_next = fake_channel_next,
        .listen = fake_listen,
        .listener_port = fake_listener_port,
        .unlisten = fake_unlisten,
        .reject = fake_reject,
        .pair_open = fake_pair_open,
        .pair_parties = fake_pair_parties,
        .pair_read_depth = fake_pair_read_depth,
        .pair_connect = fake_pair_connect,
        .pair_accept = fake_pair_accept,
        .pair_fail = fake_pair_fail,
        .pair_close = fake_pair_close,
        .post = fake_post,
        .post_receive = fake_post_receive,
        .initiator_open = fake_initiator_open,
        .initiator_close = fake_initiator_close,
        .initiator_reset = fake_initiator_reset,
        .initiator_post = fake_initiator_post,
        .route_open = fake_route_open,
        .route_close = fake_route_close,
};

const struct rdx_transport *fake_transport(void)
{
        return &table;
}

/*
 * What rdx_transport_load() looks for. A live one's ways are found as those of devices are: by who
 * may block.
 */
const struct rdx_transport *rdx_driver(void);
const struct rdx_transport *rdx_driver(void)
{
        static struct rdx_transport live;

        live = table;
        live.route_blocks = true;
        return &live;
}
