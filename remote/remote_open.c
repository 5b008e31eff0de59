/*
 * remote_open.c - clients of drive servers, and how the engine finds and opens drives by them.
 *
 * The engine opens a drive on a thread of its own, which waits here; the question is asked on the
 * client's loop. An opening begins a session, so it is the last word of whoever had the drive before.
 */
#include "remote/remote_drive.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_NS (5000ull * 1000 * 1000)

/* ---- paths ----------------------------------------------------------------------------------- */

static const char PREFIX[] = "remote:";

/* A decimal number up to most, and what follows it. */
static bool place_number(const char **text, unsigned long most, unsigned long *out)
{
        const char *p = *text;

        for (*out = 0; *p >= '0' && *p <= '9'; p++) {
                *out = *out * 10 + (unsigned long)(*p - '0');
                if (*out > most)
                        return false;
        }
        if (p == *text)
                return false;
        *text = p;
        return true;
}

static bool rem_is_remote(const char *path)
{
        return strncmp(path, PREFIX, sizeof(PREFIX) - 1) == 0;
}

bool rem_place_read(const char *path, struct rem_place *out)
{
        unsigned long node, pool, slot;

        if (!rem_is_remote(path))
                return false;
        path += sizeof(PREFIX) - 1;
        if (!place_number(&path, UINT16_MAX, &node) || *path++ != '/' || !place_number(&path, UINT32_MAX, &pool) ||
            *path++ != '/' || !place_number(&path, ENG_DRIVES_MAX - 1, &slot) || *path != '\0')
                return false;
        *out = (struct rem_place){.node = (uint16_t)node, .slot = (uint16_t)slot, .pool = (uint32_t)pool};
        return true;
}

/* ---- the question ---------------------------------------------------------------------------- */

/* A drive server compares them by node and boot, and so by process: clients come and go. */
static _Atomic uint64_t sessions_given;

uint64_t remote_session_new(struct rem_client *client)
{
        remote_count(client, REM_COUNT_begins);
        return atomic_fetch_add(&sessions_given, 1) + 1;
}

static bool is_asked_for(const struct rem_opening *o)
{
        static const uint8_t any[FMT_ID];

        return memcmp(o->drive_id, any, FMT_ID) == 0 || memcmp(o->drive_id, o->facts.identity.drive_id, FMT_ID) == 0;
}

static int opening_result(struct rem_opening *o)
{
        const struct net_call *call = &o->call;

        if (call->outcome != NET_ANSWERED || call->status == (int32_t)REM_BUSY ||
            call->status == (int32_t)REM_NO_MEMORY)
                return -EAGAIN;
        if (call->status == (int32_t)REM_UNKNOWN_DRIVE)
                return -ENODEV;
        if (call->status == (int32_t)REM_NOT_OPEN)
                return -EAGAIN; /* the leader has to OPEN it anew */
        if (call->status == (int32_t)REM_DEPOSED && !eng_term_is_none(&o->client->options.term)) {
                remote_deposed_by(o->client, call);
                return -ESTALE;
        }
        if (call->status != (int32_t)REM_DONE)
                return -EACCES;
        if (!remote_prefix_read(call, &o->prefix) ||
            rem_facts_read(call->answer + sizeof(o->prefix), call->answer_len - sizeof(o->prefix), &o->facts) != 0 ||
            o->facts.identity.slot != o->place.slot || !is_asked_for(o))
                return -EBADMSG;
        return rem_is_known(o->facts.identity.layout, o->facts.identity.features) ? 0 : -EPROTONOSUPPORT;
}

static void opening_called(struct net_call *call)
{
        struct rem_opening *o = container_of(call, struct rem_opening, call);

        o->rv = opening_result(o);
        if (o->rv == -EBADMSG)
                remote_count(o->client, REM_COUNT_lies);
        o->done(o);
}

static void opening_no_peer(struct lp_msg *msg)
{
        struct rem_opening *o = container_of(msg, struct rem_opening, msg);

        o->rv = -EAGAIN; /* it may be made known yet */
        o->done(o);
}

void rem_opening_ask(struct rem_opening *o)
{
        struct rem_client *client = o->client;
        struct rem_head head = {.pool = o->place.pool,
                                .slot = o->place.slot,
                                .flags = o->begin ? REM_BEGIN : 0,
                                .term = client->options.term};

        if (o->begin)
                o->session = remote_session_new(client);
        head.session = o->session;
        memcpy(head.drive_id, o->drive_id, FMT_ID);
        memcpy(o->body, &head, sizeof(head));
        memcpy(o->body + sizeof(head), &o->features, sizeof(o->features));
        memset(&o->call, 0, sizeof(o->call));
        o->call.peer = net_peer_find(client->net, o->place.node);
        if (o->call.peer == NULL) {
                o->msg.run = opening_no_peer;
                lp_post(lp_self(), &o->msg);
                return;
        }
        o->call.link = NET_LOG;
        o->call.lane = (uint16_t)(2 * rem_place_lane(&o->place) + 1);
        o->call.operation = REM_INFO;
        o->call.body = o->body;
        o->call.body_len = sizeof(o->body);
        o->call.deadline = lp_now(lp_self()) + client->wait_ns;
        o->call.done = opening_called;
        net_call(&o->call);
}

static void opening_start(struct lp_msg *msg)
{
        rem_opening_ask(container_of(msg, struct rem_opening, msg));
}

static void opening_wake(struct rem_opening *o)
{
        sem_post(&o->ended);
}

/* On a thread that is no loop. */
static void opening_wait(struct rem_opening *o)
{
        o->done = opening_wake;
        sem_init(&o->ended, 0, 0);
        o->msg.run = opening_start;
        lp_post(o->client->loop, &o->msg);
        while (sem_wait(&o->ended) != 0)
                assert(errno == EINTR);
        sem_destroy(&o->ended);
}

/* A drive that its node does not serve may be one that it is opening yet: nodes begin together. */
static int opening_say(const char *path, int rv, struct eng_error *error)
{
        if (rv == -EAGAIN)
                snprintf(error->text, sizeof(error->text), "%s: its node does not answer", path);
        else if (rv == -ENODEV)
                snprintf(error->text, sizeof(error->text), "%s: its node does not serve that drive", path);
        else if (rv == -ESTALE)
                snprintf(error->text, sizeof(error->text), "%s: its node knows a newer leader", path);
        else if (rv == -EPROTONOSUPPORT)
                snprintf(error->text, sizeof(error->text),
                         "%s: it has a layout, or features, that this build does not know", path);
        else
                snprintf(error->text, sizeof(error->text), "%s: its node has refused, or makes no sense: %s", path,
                         strerror(-rv));
        return rv == -ENODEV ? -EAGAIN : rv;
}

/* ---- for the engine -------------------------------------------------------------------------- */

struct opener {
        struct eng_drive_opener base; /* first */
        struct rem_client *client;
};

static struct rem_opening *opening_new(const struct eng_drive_opener *opener, const char *path, struct eng_error *error,
                                       int *rv)
{
        struct rem_opening *o = calloc(1, sizeof(*o));

        *rv = o == NULL ? -ENOMEM : 0;
        if (o == NULL) {
                snprintf(error->text, sizeof(error->text), "%s: no memory", path);
                return NULL;
        }
        o->client = ((const struct opener *)opener)->client;
        if (rem_place_read(path, &o->place))
                return o;
        free(o);
        *rv = -EINVAL;
        snprintf(error->text, sizeof(error->text), "%s: not remote:NODE/POOL/SLOT", path);
        return NULL;
}

static int opener_probe(const struct eng_drive_opener *opener, const char *path, enum eng_folder_state *state,
                        struct eng_identity *identity, struct eng_error *error)
{
        struct rem_opening *o;
        int rv;

        *state = ENG_FOLDER_ABSENT;
        o = opening_new(opener, path, error, &rv);
        if (o == NULL)
                return rv;
        opening_wait(o);
        rv = o->rv;
        if (rv == 0) {
                *state = ENG_FOLDER_DRIVE;
                *identity = o->facts.identity;
        }
        free(o);
        return rv == 0 ? 0 : opening_say(path, rv, error);
}

static int opener_open(const struct eng_drive_opener *opener, const struct eng_local_options *options,
                       struct eng_drive **out, struct eng_error *error)
{
        struct rem_opening *o;
        int rv;

        o = opening_new(opener, options->path, error, &rv);
        if (o == NULL)
                return rv;
        if (near_is_own(o->client, &o->place)) {
                rv = near_drive_open(o->client, &o->place, options, out);
                free(o);
                return rv == 0 ? 0 : opening_say(options->path, rv == -EAGAIN ? -ENODEV : rv, error);
        }
        memcpy(o->drive_id, options->identity.drive_id, FMT_ID);
        o->begin = !o->client->options.home;
        o->features = o->begin ? options->identity.features : 0;
        opening_wait(o);
        rv = o->rv;
        if (rv == 0)
                rv = remote_drive_new(o, options, out);
        free(o);
        return rv == 0 ? 0 : opening_say(options->path, rv, error);
}

/* ---- clients --------------------------------------------------------------------------------- */

int rem_client_new(const struct rem_client_options *options, struct rem_client **out)
{
        struct rem_client *client = calloc(1, sizeof(*client));
        struct opener *opener = calloc(1, sizeof(*opener));

        if (client == NULL || opener == NULL) {
                free(client);
                free(opener);
                return -ENOMEM;
        }
        *opener = (struct opener){.base = {.is_remote = rem_is_remote, .probe = opener_probe, .open = opener_open},
                                  .client = client};
        pthread_mutex_init(&client->lock, NULL);
        client->options = *options;
        client->net = options->net;
        client->loop = options->loop;
        client->wait_ns = options->wait_ms == 0 ? WAIT_NS : options->wait_ms * 1000ull * 1000;
        client->opener = &opener->base;
        *out = client;
        return 0;
}

void rem_client_free(struct rem_client *client)
{
        if (client == NULL)
                return;
        assert(LIST_EMPTY(&client->drives));
        pthread_mutex_destroy(&client->lock);
        free((void *)client->opener);
        free(client);
}

const struct eng_drive_opener *rem_client_opener(struct rem_client *client)
{
        return client->opener;
}

void rem_stats_read(const struct rem_client *client, struct rem_stats *out)
{
#define REM_COUNTER_READ(name, help)                                                                                   \
        out->name = atomic_load_explicit(&client->counts[REM_COUNT_##name], memory_order_relaxed);
        REM_COUNTERS(REM_COUNTER_READ)
#undef REM_COUNTER_READ
}
