/*
 * client_window.c - rights to slices of memory: given for one request, known to be over before the memory is anybody else's.
 *
 * A grip counts the receives that its request may use up, so that the sum never exceeds what is posted. It is over when its window was invalidated (by the server's
 * notice or here), or when the pair is gone. Keeps the client's half of I7.
 */
#include "rdma/client_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* ---- binding -------------------------------------------------------------------------------------- */

static int get_window(struct rdx_client *client, struct rdx_window **out)
{
        if (client->idle_count > 0) {
                *out = client->idle[--client->idle_count];
                return 0;
        }
        return client->transport->window_open(client->link->domain, client->rights == RDX_RIGHTS_WINDOW2 ? 2 : 1, out);
}

static void put_window(struct rdx_client *client, struct rdx_window *window)
{
        if (client->pair != NULL && !client->over && client->idle_count < RDX_CLIENT_SENDS)
                client->idle[client->idle_count++] = window;
        else
                client->transport->window_close(window);
}

static int bind(struct rdx_client *client, struct rdx_grip *grip, uint64_t offset, uint64_t len, bool read)
{
        struct rdx_work work = {.op = RDX_OP_BIND,
                                .window = grip->window,
                                .region = grip->memory->region,
                                .address = grip->memory->address + offset,
                                .bind_len = len,
                                .access = read ? RDX_REMOTE_READ : RDX_REMOTE_WRITE};
        int rv = rdx_client_post(client, &work);

        assert(grip->window != NULL && !grip->bound);
        grip->place.rkey = client->transport->window_rkey(grip->window);
        if (rv == 0)
                rv = rdx_client_settle(client, RDX_LOCAL_MS);
        return rv;
}

/* ---- open ----------------------------------------------------------------------------------------- */

static bool window_has_room(const struct rdx_client *client, unsigned receives, unsigned replies)
{
        if (client->spoken + receives > client->receives)
                return false;
        return replies > 0 ? client->messages < client->messages_most : client->requests < client->requests_most;
}

static void count(struct rdx_client *client, const struct rdx_grip *grip, int by)
{
        assert(by > 0 || client->spoken >= grip->receives);
        assert(by > 0 || (grip->replies > 0 ? client->messages : client->requests) > 0);
        client->spoken += (unsigned)by * grip->receives;
        if (grip->replies > 0)
                client->messages += (unsigned)by;
        else
                client->requests += (unsigned)by;
}

static int grip_window(struct rdx_client *client, struct rdx_grip *grip, uint64_t offset, uint64_t len, bool read)
{
        int rv;

        if (client->rights == RDX_RIGHTS_REGION) {
                grip->place.rkey = client->transport->region_rkey(grip->memory->region);
                return 0;
        }
        rv = get_window(client, &grip->window);
        if (rv != 0)
                return rv;
        rv = bind(client, grip, offset, len, read);
        grip->bound = rv == 0;
        if (rv != 0) { /* whether it is bound is not known */
                struct rdx_window *window = grip->window;

                grip->window = NULL;
                client->over = true;
                client->transport->window_close(window);
                rdx_client_fence(client);
        }
        return rv;
}

int rdx_grip_open(struct rdx_client *client, struct rdx_memory *memory, uint64_t offset, uint64_t len, bool read,
                  unsigned replies, struct rdx_grip *grip)
{
        unsigned receives = replies > 0 ? replies : !read;
        int rv;

        if (client->pair == NULL || client->over)
                return -ENOTCONN;
        if (len == 0 || offset > memory->len || len > memory->len - offset || replies > RDX_REPLIES_MOST)
                return -EINVAL;
        if (!window_has_room(client, receives, replies))
                return -EAGAIN;
        memset(grip, 0, sizeof(*grip));
        grip->client = client;
        grip->memory = memory;
        grip->receives = receives;
        grip->replies = replies;
        grip->place.address = (uint64_t)(uintptr_t)memory->address + offset;
        grip->place.length = len;
        rv = grip_window(client, grip, offset, len, read);
        if (rv != 0)
                return rv;
        grip->number = rdx_client_number(client);
        grip->next = client->grips;
        client->grips = grip;
        count(client, grip, 1);
        return 0;
}

/* ---- notices -------------------------------------------------------------------------------------- */

void rdx_grip_notice(struct rdx_client *client, uint64_t number, uint64_t mask, const struct rdx_done *done)
{
        struct rdx_grip *grip = client->grips;

        while (grip != NULL && (grip->number & mask) != (number & mask))
                grip = grip->next;
        if (grip == NULL)
                return;
        grip->noticed = true;
        if (done->invalidated && done->imm == grip->place.rkey)
                grip->bound = false;
        if (client->events.noticed != NULL)
                client->events.noticed(client->events.arg, grip->number);
}

bool rdx_grip_noticed(const struct rdx_grip *grip)
{
        return grip->noticed;
}

/* ---- close ---------------------------------------------------------------------------------------- */

static void window_leave(struct rdx_grip *grip)
{
        struct rdx_client *client = grip->client;
        struct rdx_grip **link = &client->grips;

        assert(client->grips != NULL);
        while (*link != grip)
                link = &(*link)->next;
        *link = grip->next;
        count(client, grip, -1);
}

static int window_take_back(struct rdx_grip *grip)
{
        struct rdx_client *client = grip->client;
        struct rdx_work work = {.op = RDX_OP_INVALIDATE, .rkey = grip->place.rkey, .window = grip->window};
        int rv;

        assert(grip->window != NULL && grip->bound);
        if (client->rights == RDX_RIGHTS_WINDOW1)
                work = (struct rdx_work){.op = RDX_OP_BIND, .window = grip->window, .region = grip->memory->region};
        rv = rdx_client_post(client, &work);
        return rv == 0 ? rdx_client_settle(client, RDX_LOCAL_MS) : rv;
}

/* The notice has come, and the device did not say that it invalidated the window with it (Soft-RoCE never does). To invalidate it again would be wrong if it
 * was; without the window there is no right, whoever is right. */
static void drop_window(struct rdx_grip *grip)
{
        assert(grip->window != NULL && grip->noticed);
        grip->client->transport->window_close(grip->window);
        grip->window = NULL;
        grip->bound = false;
}

int rdx_grip_close(struct rdx_grip *grip, bool no_notice)
{
        struct rdx_client *client = grip->client;
        int rv = client->pair == NULL || client->over ? -ENOTCONN : 0;

        if (rv == 0 && !no_notice && !grip->noticed && grip->receives > 0)
                rv = -EPROTO; /* not over: it may still be written to */
        if (rv == 0 && grip->bound && grip->noticed && client->rights == RDX_RIGHTS_WINDOW2)
                drop_window(grip);
        else if (rv == 0 && grip->bound)
                rv = window_take_back(grip);
        if (rv != 0)
                rdx_client_fence(client);
        window_leave(grip);
        if (grip->window != NULL)
                put_window(client, grip->window);
        grip->window = NULL;
        return rv;
}

/* The fence: windows end with it. */
void rdx_grips_forget(struct rdx_client *client)
{
        struct rdx_grip *grip;

        assert(client->pair != NULL);
        for (grip = client->grips; grip != NULL; grip = grip->next) {
                if (grip->window != NULL)
                        client->transport->window_close(grip->window);
                grip->window = NULL;
                grip->bound = false;
        }
}
