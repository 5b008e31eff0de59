/*
 * connection_session.c - opens a connection's sessions and ends them, on the connection's thread.
 *
 * The domain (a device, a protection domain, and the memory registered there) outlives sessions: it
 * is given up when no other can be opened, when sessions keep breaking, when the endpoint names
 * another address, and at the end. Where RDMA does not work, nobody asks for a while: the longer,
 * the more lasting the reason seems.
 */
#include "client/rdma/connection_session.h"

#include "client/credentials/creds.h"
#include "client/http/client_request.h"
#include "client/rdma/memory.h"
#include "client/rdma/rdma_context.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LINK_MS       10000u
#define CONNECT_MS    10000u
#define LACKING_MS    300000 /* the endpoint has no RDMA */
#define NO_DEVICE_MS  60000
#define DENIED_MS     10000
#define FAILED_MS     1000 /* and doubling */
#define FAILED_MOST   60000
#define MINUTE_MS     60000
#define LIFE_LEAST_MS 500   /* of a session; a shorter one would be old before anything is granted, again and again */
#define RENEW_MOST_MS 60000 /* before it expires, or a tenth of its life where that is less */

void mr_connection_session_init(struct mr_connection_session *session, struct mr_client *client,
                                struct mr_registrations *memory, const struct mr_connection_hooks *hooks)
{
        memset(session, 0, sizeof(*session));
        session->client = client;
        session->memory = memory;
        session->hooks = *hooks;
        pthread_mutex_init(&session->lock, NULL);
}

/* ---- when there is no use -------------------------------------------------------------------- */

int mr_connection_session_refused(struct mr_connection_session *session, bool insist, struct mr_error *err)
{
        int rv = 0;

        pthread_mutex_lock(&session->lock);
        if (mr_core_clock_ms() < session->refused_until_ms && (!insist || session->lasting)) {
                rv = session->refusal.code;
                if (err != NULL)
                        *err = session->refusal;
        }
        pthread_mutex_unlock(&session->lock);
        return rv;
}

static void refuse_for(struct mr_connection_session *session, const struct mr_error *why, int64_t ms, bool lasting)
{
        pthread_mutex_lock(&session->lock);
        session->refusal = *why;
        session->lasting = lasting;
        session->refused_until_ms = mr_core_clock_ms() + ms;
        pthread_mutex_unlock(&session->lock);
}

static void drop_link(struct mr_connection_session *session)
{
        if (session->domain == NULL)
                return;
        mr_memory_drop(session->memory);
        rdx_client_domain_close(session->domain);
        session->domain = NULL;
}

/* What is kept for the endpoint goes, so that another may have as much. */
static void give_up_endpoint(struct mr_connection_session *session)
{
        drop_link(session);
        mr_rdma_context_release(session->client, session->memory->kind, session->memory->endpoint);
}

static void connection_failed(struct mr_connection_session *session, const struct mr_error *err)
{
        int64_t ms = FAILED_MS << (session->failures < 6 ? session->failures : 6);

        session->failures++;
        give_up_endpoint(session);
        if (err->code == -EOPNOTSUPP)
                refuse_for(session, err, err->http_status != 0 ? LACKING_MS : NO_DEVICE_MS, true);
        else if (err->code == -EACCES)
                refuse_for(session, err, DENIED_MS, false);
        else
                refuse_for(session, err, ms < FAILED_MOST ? ms : FAILED_MOST, false);
}

void mr_connection_session_lost(struct mr_connection_session *session, bool our_will)
{
        int64_t now = mr_core_clock_ms(), *oldest = &session->ended_ms[session->ends % MR_SESSION_ENDS];
        struct mr_error err;

        rdx_client_close(session->rdx);
        session->rdx = NULL;
        mr_session_wipe(&session->opened);
        explicit_bzero(&session->key, sizeof(session->key));
        if (our_will)
                return;
        *oldest = now;
        session->ends++;
        oldest = &session->ended_ms[session->ends % MR_SESSION_ENDS];
        if (session->ends < MR_SESSION_ENDS || now - *oldest > MINUTE_MS)
                return;
        give_up_endpoint(session);
        mr_failure(&err, -EOPNOTSUPP, "RDMA sessions with the endpoint keep breaking");
        refuse_for(session, &err, MINUTE_MS, true);
}

/* ---- opening --------------------------------------------------------------------------------- */

static struct mr_session_wait waiting(const struct mr_connection_session *session)
{
        return (struct mr_session_wait){session->hooks.pause, session->hooks.wake, session->hooks.arg};
}

/* What may be asked for: of the device, once it is known. */
static unsigned rights_wanted(const struct mr_connection_session *session)
{
        unsigned wanted = session->client->settings.rdma_rights;

        if (session->memory->kind == MR_CONNECTION_DMABUF)
                return RDX_RIGHTS_REGION;
        return wanted;
}

static int open_link(struct mr_connection_session *session, struct mr_error *err)
{
        const struct mr_session *opened = &session->opened;
        const struct rdx_transport *transport;
        char why[256] = "";
        int rv = mr_rdma_driver(session->client, &transport, err);

        if (rv != 0)
                return rv;
        if (session->domain != NULL &&
            (strcmp(session->address, opened->address) != 0 || session->port != opened->grant.port))
                drop_link(session);
        if (session->domain != NULL)
                return 0;
        rv = rdx_client_domain_open(transport, opened->address, opened->grant.port, rights_wanted(session), LINK_MS,
                           &session->domain, why, sizeof(why));
        if (rv == -ENOTSUP)
                return mr_failure(err, -EOPNOTSUPP, "the RDMA device has none of the rights asked for");
        if (rv != 0)
                return mr_failure(err, rv == -ENODEV || rv == -ENOSYS ? -EOPNOTSUPP : rv,
                                  "no RDMA device reaches the endpoint at %s: %s", opened->address,
                                  why[0] != '\0' ? why : strerror(-rv));
        snprintf(session->address, sizeof(session->address), "%s", opened->address);
        session->port = opened->grant.port;
        return 0;
}

static int connection_open_session(struct mr_connection_session *session, unsigned rights, struct mr_error *err)
{
        struct mr_session_wait wait = waiting(session);
        int rv = mr_session_open(session->client, session->memory->endpoint, rights, &wait, &session->opened, err);

        if (rv != 0)
                return rv;
        memcpy(session->key.id, session->opened.id, sizeof(session->key.id));
        session->key.endpoint = session->memory->endpoint;
        return 0;
}

/*
 * Which rights the device has is known when it is, and which device it is when the endpoint has
 * named its address: so the first session of all may be one with rights that this device lacks, and
 * another is opened.
 */
static int ask_twice(struct mr_connection_session *session, struct mr_error *err)
{
        unsigned rights = session->domain != NULL ? rdx_client_domain_rights(session->domain) : rights_wanted(session);
        int rv = connection_open_session(
                session, rights != 0 ? rights : RDX_RIGHTS_WINDOW2 | RDX_RIGHTS_WINDOW1 | RDX_RIGHTS_REGION, err);

        if (rv == 0)
                rv = open_link(session, err);
        if (rv == 0 && (session->opened.grant.rights & rdx_client_domain_rights(session->domain)) == 0)
                rv = connection_open_session(session, rdx_client_domain_rights(session->domain), err);
        return rv;
}

static int connection_join_session(struct mr_connection_session *session, struct mr_error *err)
{
        struct rdx_client_events events = {.noticed = session->hooks.noticed,
                                           .result = session->hooks.result,
                                           .wait = session->hooks.wait,
                                           .arg = session->hooks.arg};
        int rv = rdx_client_connect(session->domain, &session->opened.grant, &events, CONNECT_MS, &session->rdx);

        if (rv == 0)
                return 0;
        if (rv == -EEXIST || rv == -ENOSPC) /* the other side's table of connections, and no object or drive */
                rv = -EBUSY;
        return mr_failure(err,
                          mr_client_canceled(session->client) ? -ECANCELED
                          : rv == -ENODEV                     ? -EIO
                                                              : rv,
                          "the RDMA connection to %s failed: %s", session->address,
                          rv == -EACCES ? "the other side is not the endpoint" : strerror(-rv));
}

static void plan_renewal(struct mr_connection_session *session)
{
        int64_t now = mr_core_clock_ms(), life = session->opened.expires_ms - now;
        int64_t ahead = life / 10 < RENEW_MOST_MS ? life / 10 : RENEW_MOST_MS;

        session->renew_ms = session->opened.expires_ms - ahead;
        session->used = false;
}

int mr_connection_session_open(struct mr_connection_session *session, struct mr_error *err)
{
        const struct rdx_transport *transport;
        int rv = 0;

        memset(err, 0, sizeof(*err));
        if (!mr_rdma_context_hold(session->client, session->memory->kind, session->memory->endpoint))
                return mr_failure(err, -EBUSY, "%u other endpoints have RDMA sessions", MR_RDMA_ENDPOINTS);
        if (mr_creds_none(session->client->creds))
                rv = mr_failure(err, -EOPNOTSUPP, "RDMA takes signed requests");
        if (rv == 0)
                rv = mr_rdma_driver(session->client, &transport, err);
        if (rv == 0)
                rv = ask_twice(session, err);
        if (rv == 0 && session->opened.expires_ms - mr_core_clock_ms() < LIFE_LEAST_MS)
                rv = mr_failure(err, -EPROTO, "the RDMA session that was opened expires at once");
        if (rv == 0)
                rv = connection_join_session(session, err);
        if (rv != 0) {
                mr_session_wipe(&session->opened);
                if (err->code == 0)
                        mr_failure_errno(err, rv);
                if (rv != -ECANCELED)
                        connection_failed(session, err);
                return rv;
        }
        session->failures = 0;
        refuse_for(session, err, 0, false);
        snprintf(session->key.access_key, sizeof(session->key.access_key), "%s", rdx_client_access_key(session->rdx));
        snprintf(session->key.secret, sizeof(session->key.secret), "%s", rdx_client_secret(session->rdx));
        plan_renewal(session);
        return 0;
}

/* ---- its end --------------------------------------------------------------------------------- */

bool mr_connection_session_old(const struct mr_connection_session *session)
{
        return mr_core_clock_ms() >= session->renew_ms ||
               mr_creds_generation(session->client->creds) != session->opened.generation;
}

int64_t mr_connection_session_due(const struct mr_connection_session *session)
{
        return session->rdx != NULL ? session->renew_ms : INT64_MAX;
}

static void hang_up(struct mr_connection_session *session)
{
        struct mr_session_wait wait = waiting(session);

        if (session->rdx == NULL)
                return;
        mr_session_delete(session->client, &session->key, &wait);
        mr_connection_session_lost(session, true);
}

void mr_connection_session_renew(struct mr_connection_session *session)
{
        bool wanted = session->used;
        struct mr_error err;

        hang_up(session);
        if (wanted)
                (void)mr_connection_session_open(session, &err); /* else the next that asks does, and hears why not */
}

void mr_connection_session_close(struct mr_connection_session *session)
{
        hang_up(session);
        drop_link(session);
}

void mr_connection_session_describe(const struct mr_connection_session *session, struct mr_rdma_report *out)
{
        struct rdx_device_info info;

        rdx_client_domain_device(session->domain, &info);
        snprintf(out->device, sizeof(out->device), "%s", info.name);
        snprintf(out->link, sizeof(out->link), "%s", info.link);
        snprintf(out->address, sizeof(out->address), "%s", session->address);
        out->port = session->port;
        snprintf(out->rights, sizeof(out->rights), "%s", rdx_rights_name(session->opened.grant.rights));
        out->requests = session->opened.grant.requests;
}
