/*
 * fake_rdma.h - the calls of include/rdma.h that the gateway makes, over one session and a device
 * that does what it is told: so that each moment of a transfer can be held, and each of its steps
 * can fail. All of it happens on the gateway's loop; knobs are set while it rests.
 */
#include "rdma.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FABRIC_SESSION "00112233445566778899aabbccddeeff"
#define FABRIC_ACCESS  "MRDX00112233445566778899AABBCCDDEEFF"
#define FABRIC_SECRET  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define FABRIC_BASE    0x10000u /* address of the client's memory */
#define FABRIC_MEMORY  (6u << 20)
#define FABRIC_POSTED  3u /* of a request at a time: the others can be taken back */

struct rdx_server {
        struct lp_loop *loop;
};

static struct {
        struct rdx_server server;
        uint8_t memory[FABRIC_MEMORY];
        /* knobs */
        bool absent, unconnected;
        int begin_rv;
        unsigned fail_at; /* the session ends instead of this transfer, counted from 1; 0: never */
        _Atomic bool hold;
        /* figures */
        _Atomic unsigned begun, ended, read, dropped, posted, session_ends;
        unsigned declined[RDX_DECLINE_KINDS];
        uint64_t last_number;
        /* of the one request under way */
        struct rdx_request *request;
        struct rdx_write *line[64];
        unsigned count;
        int result;
        bool closing, stepping;
        struct lp_msg step, go;
} fabric;

static void fabric_reset(struct lp_loop *loop)
{
        memset(&fabric, 0, sizeof(fabric));
        fabric.server.loop = loop;
}

static void fabric_kick(void);

static void fabric_done(struct rdx_write *write, int result)
{
        struct rdx_request *request = fabric.request;

        if (result == 0) {
                uint64_t at = request->window.address + write->offset - FABRIC_BASE;

                assert(request->read && at + write->len <= FABRIC_MEMORY);
                assert(write->offset + write->len <= request->window.length);
                memcpy(write->buf, fabric.memory + at, write->len);
                fabric.read++;
                request->posted = true;
        } else {
                fabric.dropped++;
        }
        write->done(write, result);
}

static struct rdx_write *fabric_take(unsigned i)
{
        struct rdx_write *write = fabric.line[i];

        memmove(&fabric.line[i], &fabric.line[i + 1], (--fabric.count - i) * sizeof(fabric.line[0]));
        return write;
}

static void fabric_end(void)
{
        struct rdx_request *request = fabric.request;

        if (!fabric.closing || fabric.count > 0)
                return;
        fabric.request = NULL;
        fabric.ended++;
        request->ended(request, fabric.result);
}

static void fabric_step(struct lp_msg *msg)
{
        struct rdx_write *write;

        fabric.stepping = false;
        if (fabric.hold)
                return;
        if (fabric.count > 0) {
                write = fabric_take(0);
                if (fabric.result == 0 && fabric.fail_at != 0 && fabric.read + 1 == fabric.fail_at) {
                        fabric.result = -ECONNRESET;
                        fabric.request->posted = true;
                }
                /* What is posted when the caller gives up is done all the same. */
                fabric_done(write, fabric.result == -ECONNRESET ? -ECONNRESET : 0);
        } else if (fabric.request != NULL) {
                fabric_end();
        }
        fabric_kick();
}

static void fabric_kick(void)
{
        fabric.posted = fabric.count < FABRIC_POSTED ? fabric.count : FABRIC_POSTED;
        if (fabric.stepping || fabric.hold || (fabric.count == 0 && !(fabric.closing && fabric.request != NULL)))
                return;
        fabric.stepping = true;
        fabric.step.run = fabric_step;
        lp_post(fabric.server.loop, &fabric.step);
}

static void fabric_go_on(struct lp_msg *msg)
{
        fabric.hold = false;
        fabric_kick();
}

/* Any thread: what was held goes on. */
static void fabric_go(void)
{
        fabric.go.run = fabric_go_on;
        lp_post(fabric.server.loop, &fabric.go);
}

/* ---- what the gateway calls ---- */

int rdx_session_find(struct rdx_server *server, const uint8_t session[RDX_ID_LEN], struct rdx_session_info *out)
{
        memset(out, 0, sizeof(*out));
        memcpy(out->owner, ACCESS_KEY, sizeof(ACCESS_KEY));
        memcpy(out->secret, FABRIC_SECRET, RDX_SECRET_LEN);
        out->connected = !fabric.unconnected;
        return fabric.absent ? -ENOENT : 0;
}

static void fabric_begun(struct lp_msg *msg)
{
        struct rdx_request *request = container_of(msg, struct rdx_request, msg);
        int rv = fabric.begin_rv;

        if (rv == 0 && request->number <= fabric.last_number)
                rv = -EEXIST;
        if (rv == 0) {
                assert(fabric.request == NULL);
                fabric.last_number = request->number;
                fabric.request = request;
                fabric.count = 0;
                fabric.result = 0;
                fabric.closing = false;
                fabric.begun++;
        }
        request->begun(request, rv);
}

void rdx_request_begin(struct rdx_server *server, struct rdx_request *request)
{
        request->msg.run = fabric_begun;
        lp_post(server->loop, &request->msg);
}

void rdx_request_write(struct rdx_request *request, struct rdx_write *write)
{
        assert(request == fabric.request && !fabric.closing && fabric.count < 64);
        fabric.line[fabric.count++] = write;
        fabric_kick();
}

void rdx_request_finish(struct rdx_request *request)
{
        assert(request == fabric.request && !fabric.closing);
        fabric.closing = true;
        fabric_kick();
}

static void fabric_drop(struct lp_msg *msg)
{
        while (fabric.request != NULL && fabric.count > FABRIC_POSTED)
                fabric_done(fabric_take(FABRIC_POSTED), -ECANCELED);
        fabric_kick();
}

void rdx_request_abandon(struct rdx_request *request)
{
        assert(request == fabric.request && !fabric.closing);
        fabric.closing = true;
        if (fabric.result == 0)
                fabric.result = -ECANCELED;
        request->msg.run = fabric_drop;
        lp_post(fabric.server.loop, &request->msg);
}

void rdx_count_decline(struct rdx_server *server, enum rdx_decline decline)
{
        fabric.declined[decline]++;
}

const char *rdx_decline_name(enum rdx_decline decline)
{
        return decline == RDX_DECLINE_DEVICE ? "device" : "queue-pairs";
}

bool rdx_server_registered(const struct rdx_server *server, const void *buf, size_t len)
{
        return true;
}

void rdx_sessions_each(struct rdx_server *server, void (*each)(void *arg, const char *owner), void *arg)
{
}

unsigned rdx_sessions_revoke(struct rdx_server *server, const char *owner)
{
        return 0;
}

int rdx_session_open(struct rdx_server *server, const struct rdx_open *open, struct rdx_opened *out)
{
        return -ENODEV;
}

/* The device lets go of what it held. */
int rdx_session_end(struct rdx_server *server, const uint8_t session[RDX_ID_LEN])
{
        fabric.session_ends++;
        fabric.result = -ECONNRESET;
        if (fabric.request != NULL && fabric.count > 0)
                fabric.request->posted = true;
        fabric.hold = false;
        fabric_kick();
        return 0;
}

/* No batch comes. */
const struct rdx_message *rdx_batch_message(const struct rdx_batch *batch)
{
        return NULL;
}

const struct rdx_entry *rdx_batch_entry(const struct rdx_batch *batch, unsigned i)
{
        return NULL;
}

const char *rdx_batch_owner(const struct rdx_batch *batch)
{
        return "";
}

const void *rdx_batch_session(const struct rdx_batch *batch)
{
        return NULL;
}

uint64_t rdx_batch_deadline(const struct rdx_batch *batch)
{
        return 0;
}

bool rdx_batch_dead(const struct rdx_batch *batch)
{
        return true;
}

void rdx_batch_write(struct rdx_batch *batch, unsigned i, struct rdx_write *write)
{
}

void rdx_batch_result(struct rdx_batch *batch, unsigned i, const struct rdx_result *result)
{
}
