/*
 * client_window.c - rights to slices of memory: given for one request, known to be over before the
 * memory is anybody else's.
 *
 * A binding counts the receives that its request may use up, so that the sum never exceeds what is
 * posted. It is over when its window was invalidated (by the server's notice or here), or when the
 * pair is gone. Keeps the client's half of I7.
 */
#include "rdma/client_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* ---- binding --------------------------------------------------------------------------------- */

static int get_window(struct rdx_client *client, struct rdx_window **out)
{
        if (client->idle_count > 0) {
                *out = client->idle[--client->idle_count];
                return 0;
        }
        return client->transport->window_open(client->domain->pd, client->rights == RDX_RIGHTS_WINDOW2 ? 2 : 1, out);
}

static void put_window(struct rdx_client *client, struct rdx_window *window)
{
        if (client->pair != NULL && !client->over && client->idle_count < RDX_CLIENT_SENDS)
                client->idle[client->idle_count++] = window;
        else
                client->transport->window_close(window);
}

static int bind(struct rdx_client *client, struct rdx_window_binding *binding, uint64_t offset, uint64_t len, bool read)
{
        struct rdx_work work = {.op = RDX_OP_BIND,
                                .window = binding->window,
                                .region = binding->memory->region,
                                .address = binding->memory->address + offset,
                                .bind_len = len,
                                .access = read ? RDX_REMOTE_READ : RDX_REMOTE_WRITE};
        int rv = rdx_client_post(client, &work);

        assert(binding->window != NULL && !binding->bound);
        binding->place.rkey = client->transport->window_rkey(binding->window);
        if (rv == 0)
                rv = rdx_client_settle(client, RDX_LOCAL_MS);
        return rv;
}

/* ---- open ------------------------------------------------------------------------------------ */

static bool window_has_room(const struct rdx_client *client, unsigned receives, unsigned replies)
{
        if (client->spoken + receives > client->receives)
                return false;
        return replies > 0 ? client->messages < client->messages_most : client->requests < client->requests_most;
}

static void count(struct rdx_client *client, const struct rdx_window_binding *binding, int by)
{
        assert(by > 0 || client->spoken >= binding->receives);
        assert(by > 0 || (binding->replies > 0 ? client->messages : client->requests) > 0);
        client->spoken += (unsigned)by * binding->receives;
        if (binding->replies > 0)
                client->messages += (unsigned)by;
        else
                client->requests += (unsigned)by;
}

static int binding_window(struct rdx_client *client, struct rdx_window_binding *binding, uint64_t offset, uint64_t len, bool read)
{
        int rv;

        if (client->rights == RDX_RIGHTS_REGION) {
                binding->place.rkey = client->transport->region_rkey(binding->memory->region);
                return 0;
        }
        rv = get_window(client, &binding->window);
        if (rv != 0)
                return rv;
        rv = bind(client, binding, offset, len, read);
        binding->bound = rv == 0;
        if (rv != 0) { /* whether it is bound is not known */
                struct rdx_window *window = binding->window;

                binding->window = NULL;
                client->over = true;
                client->transport->window_close(window);
                rdx_client_fence(client);
        }
        return rv;
}

int rdx_window_binding_open(struct rdx_client *client, struct rdx_memory *memory, uint64_t offset, uint64_t len, bool read,
                  unsigned replies, struct rdx_window_binding *binding)
{
        unsigned receives = replies > 0 ? replies : !read;
        int rv;

        if (client->pair == NULL || client->over)
                return -ENOTCONN;
        if (len == 0 || offset > memory->len || len > memory->len - offset || replies > RDX_REPLIES_MOST)
                return -EINVAL;
        if (!window_has_room(client, receives, replies))
                return -EAGAIN;
        memset(binding, 0, sizeof(*binding));
        binding->client = client;
        binding->memory = memory;
        binding->receives = receives;
        binding->replies = replies;
        binding->place.address = (uint64_t)(uintptr_t)memory->address + offset;
        binding->place.length = len;
        rv = binding_window(client, binding, offset, len, read);
        if (rv != 0)
                return rv;
        binding->number = rdx_client_number(client);
        binding->next = client->bindings;
        client->bindings = binding;
        count(client, binding, 1);
        return 0;
}

/* ---- notices --------------------------------------------------------------------------------- */

void rdx_window_binding_notice(struct rdx_client *client, uint64_t number, uint64_t mask, const struct rdx_done *done)
{
        struct rdx_window_binding *binding = client->bindings;

        while (binding != NULL && (binding->number & mask) != (number & mask))
                binding = binding->next;
        if (binding == NULL)
                return;
        binding->noticed = true;
        if (done->invalidated && done->imm == binding->place.rkey)
                binding->bound = false;
        if (client->events.noticed != NULL)
                client->events.noticed(client->events.arg, binding->number);
}

bool rdx_window_binding_noticed(const struct rdx_window_binding *binding)
{
        return binding->noticed;
}

/* ---- close ----------------------------------------------------------------------------------- */

static void window_leave(struct rdx_window_binding *binding)
{
        struct rdx_client *client = binding->client;
        struct rdx_window_binding **link = &client->bindings;

        assert(client->bindings != NULL);
        while (*link != binding)
                link = &(*link)->next;
        *link = binding->next;
        count(client, binding, -1);
}

static int window_take_back(struct rdx_window_binding *binding)
{
        struct rdx_client *client = binding->client;
        struct rdx_work work = {.op = RDX_OP_INVALIDATE, .rkey = binding->place.rkey, .window = binding->window};
        int rv;

        assert(binding->window != NULL && binding->bound);
        if (client->rights == RDX_RIGHTS_WINDOW1)
                work = (struct rdx_work){.op = RDX_OP_BIND, .window = binding->window, .region = binding->memory->region};
        rv = rdx_client_post(client, &work);
        return rv == 0 ? rdx_client_settle(client, RDX_LOCAL_MS) : rv;
}

/*
 * The notice has come, and the device did not say that it invalidated the window with it (Soft-RoCE
 * never does). To invalidate it again would be wrong if it was; without the window there is no
 * right, whoever is right.
 */
static void drop_window(struct rdx_window_binding *binding)
{
        assert(binding->window != NULL && binding->noticed);
        binding->client->transport->window_close(binding->window);
        binding->window = NULL;
        binding->bound = false;
}

int rdx_window_binding_close(struct rdx_window_binding *binding, bool no_notice)
{
        struct rdx_client *client = binding->client;
        int rv = client->pair == NULL || client->over ? -ENOTCONN : 0;

        if (rv == 0 && !no_notice && !binding->noticed && binding->receives > 0)
                rv = -EPROTO; /* not over: it may still be written to */
        if (rv == 0 && binding->bound && binding->noticed && client->rights == RDX_RIGHTS_WINDOW2)
                drop_window(binding);
        else if (rv == 0 && binding->bound)
                rv = window_take_back(binding);
        if (rv != 0)
                rdx_client_fence(client);
        window_leave(binding);
        if (binding->window != NULL)
                put_window(client, binding->window);
        binding->window = NULL;
        return rv;
}

/* The fence: windows end with it. */
void rdx_window_bindings_forget(struct rdx_client *client)
{
        struct rdx_window_binding *binding;

        assert(client->pair != NULL);
        for (binding = client->bindings; binding != NULL; binding = binding->next) {
                if (binding->window != NULL)
                        client->transport->window_close(binding->window);
                binding->window = NULL;
                binding->bound = false;
        }
}
