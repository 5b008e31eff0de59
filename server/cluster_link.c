/*
 * cluster_link.c - see cluster_link.h.
 */
#include "server/cluster_link.h"

#include "server/cluster_secrets.h"
#include "server/daemon_log.h"
#include "server/key_file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CONNECT_MS   2000u
#define SILENCE_MS   2000u
#define HANDSHAKE_MS 2000u
#define BACKOFF_MS   1024u
#define SECRETS_NS   (1000ull * 1000 * 1000)
#define SECRETS_ANEW_NS (600 * SECRETS_NS) /* before it is said again that secrets of nodes differ */

/* ---- on the loop ----------------------------------------------------------------------------- */

void srv_link_wait(sem_t *done)
{
        while (sem_wait(done) != 0 && errno == EINTR)
                ;
}

struct link_call {
        struct lp_msg msg;
        void (*func)(void *arg);
        void *arg;
        sem_t done;
};

static void link_run(struct lp_msg *msg)
{
        struct link_call *call = container_of(msg, struct link_call, msg);

        call->func(call->arg);
        sem_post(&call->done);
}

static void link_call_on(struct lp_loop *loop, void (*func)(void *arg), void *arg)
{
        struct link_call call = {.msg.run = link_run, .func = func, .arg = arg};

        sem_init(&call.done, 0, 0);
        lp_post(loop, &call.msg);
        srv_link_wait(&call.done);
        sem_destroy(&call.done);
}

void srv_link_call(struct srv_link *link, void (*func)(void *arg), void *arg)
{
        link_call_on(link->loops.loops[0], func, arg);
}

static void link_does_nothing(void *arg)
{
}

void srv_link_quiet(struct srv_link *link)
{
        unsigned i;

        for (i = 0; i < link->loops.running; i++)
                link_call_on(link->loops.loops[i], link_does_nothing, NULL);
}

void srv_link_wake(struct srv_link *link)
{
        uint64_t one = 1;

        if (write(link->wake, &one, sizeof(one)) < 0)
                return; /* it is readable then */
}

void srv_link_say(struct srv_link *link, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        pthread_mutex_lock(&link->lock);
        if (link->line_count < SRV_LINK_LINES)
                vsnprintf(link->lines[link->line_count++], sizeof(link->lines[0]), format, args);
        else
                link->lines_lost++;
        pthread_mutex_unlock(&link->lock);
        va_end(args);
        srv_link_wake(link);
}

static void say_lines(struct srv_link *link)
{
        char lines[SRV_LINK_LINES][256];
        unsigned count, lost, i;

        pthread_mutex_lock(&link->lock);
        count = link->line_count;
        lost = link->lines_lost;
        memcpy(lines, link->lines, count * sizeof(lines[0]));
        link->line_count = link->lines_lost = 0;
        pthread_mutex_unlock(&link->lock);
        for (i = 0; i < count; i++)
                srv_log(SRV_LOG_INFO, "%s", lines[i]);
        if (lost > 0)
                srv_log(SRV_LOG_WARNING, "%u more lines like these are not shown", lost);
}

/* ---- etcd ------------------------------------------------------------------------------------ */

static int read_password(const char *path, char *out, size_t size, struct srv_error *error)
{
        FILE *file;
        size_t len;
        int rv = srv_secret_open(path, &file, error);

        if (rv != 0)
                return rv;
        len = fread(out, 1, size - 1, file);
        fclose(file);
        out[len] = '\0';
        out[strcspn(out, "\r\n")] = '\0';
        return *out != '\0' ? 0 : srv_fail(error, -EINVAL, "%.300s: is empty", path);
}

static const char *file_or_null(const char *path)
{
        return *path != '\0' ? path : NULL;
}

static int open_etcd(struct srv_link *link, const struct cl_seen *seen, struct srv_error *error)
{
        const struct srv_settings *s = link->settings;
        char password[256] = "", why[256] = "";
        struct cl_etcd_options options = {.endpoints = (const char *const *)s->etcd.item,
                                          .endpoint_count = s->etcd.count,
                                          .ca_file = file_or_null(s->etcd_ca),
                                          .cert_file = file_or_null(s->etcd_cert),
                                          .key_file = file_or_null(s->etcd_key),
                                          .user = file_or_null(s->etcd_user),
                                          .seen = *seen};
        int rv = 0;

        if (options.user != NULL) {
                rv = read_password(s->etcd_password_file, password, sizeof(password), error);
                options.password = password;
        }
        if (rv != 0)
                return rv;
        rv = cl_etcd_new(&options, &link->etcd, why, sizeof(why));
        explicit_bzero(password, sizeof(password));
        return rv == 0 ? 0 : srv_fail(error, rv, "etcd: %s", *why != '\0' ? why : strerror(-rv));
}

int srv_link_open(struct srv_link *link, const struct srv_settings *settings, unsigned loops, unsigned peer_slots, const struct cl_seen *seen,
                  struct srv_error *error)
{
        int rv;

        memset(link, 0, sizeof(*link));
        link->settings = settings;
        pthread_mutex_init(&link->lock, NULL);
        link->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (link->wake < 0)
                return srv_fail(error, -errno, "cannot make an eventfd: %s", strerror(errno));
        snprintf(link->name, sizeof(link->name), "%.63s", settings->node);
        srv_address_text(&settings->cluster_listen, link->address, sizeof(link->address));
        rv = srv_loops_make_links(loops, peer_slots, &link->loops, error);
        if (rv == 0)
                rv = srv_loops_start(&link->loops, error);
        return rv == 0 ? open_etcd(link, seen, error) : rv;
}

/* ---- the view -------------------------------------------------------------------------------- */

struct looking {
        struct srv_link *link;
        void (*looked)(void *arg, const struct cl_view *view);
        void *arg;
};

static struct looking looking; /* of the process: it has one link */

static void view_looked(void *arg, const struct cl_view *view, int error, const char *text)
{
        struct srv_link *link = looking.link;
        struct cl_view copy;
        int rv = view != NULL ? cl_view_copy(&copy, view) : error;

        pthread_mutex_lock(&link->lock);
        link->view_error = rv;
        snprintf(link->view_text, sizeof(link->view_text), "%s", view != NULL ? "" : text);
        if (rv == 0) {
                cl_view_free(&link->view);
                link->view = copy;
                link->view_fresh = true;
                link->view_answered = lp_clock();
        }
        pthread_mutex_unlock(&link->lock);
        if (looking.looked != NULL)
                looking.looked(looking.arg, view);
        srv_link_wake(link);
}

static void start_directory(void *arg)
{
        cl_directory_start(arg);
}

int srv_link_look(struct srv_link *link, void (*looked)(void *arg, const struct cl_view *view), void *arg, struct srv_error *error)
{
        struct cl_directory_options options = {.etcd = link->etcd, .cluster = link->settings->cluster, .unjudged = link->unjudged, .looked = view_looked};

        link->view_answered = lp_clock();
        looking = (struct looking){.link = link, .looked = looked, .arg = arg};
        if (cl_directory_new(&options, &link->directory) != 0)
                return srv_fail(error, -ENOMEM, "out of memory");
        srv_link_call(link, start_directory, link->directory);
        return 0;
}

int srv_link_view(struct srv_link *link, struct cl_view *out, int *error, char text[CL_TEXT_MAX])
{
        int rv;

        pthread_mutex_lock(&link->lock);
        *error = link->view_error;
        snprintf(text, CL_TEXT_MAX, "%s", link->view_text);
        rv = cl_view_copy(out, &link->view);
        pthread_mutex_unlock(&link->lock);
        return rv;
}

/* ---- texts ----------------------------------------------------------------------------------- */

#define TEXT_WAIT_NS (2000ull * 1000 * 1000)

struct link_request {
        struct cl_request request;
        struct srv_link *link;
        sem_t done;
        struct cl_answer *answer; /* held; NULL: none */
};

static void link_request_done(struct cl_request *request)
{
        struct link_request *r = container_of(request, struct link_request, request);

        if (request->answer != NULL)
                cl_answer_hold(request->answer);
        r->answer = request->answer;
        sem_post(&r->done);
}

static void link_request_start(void *arg)
{
        struct link_request *r = arg;

        r->request.deadline = lp_now(r->link->loops.loops[0]) + TEXT_WAIT_NS;
        cl_etcd_submit(r->link->etcd, &r->request);
}

/* 0: r->answer is there, and the caller's. */
static int link_text_ask(struct srv_link *link, struct link_request *r)
{
        r->link = link;
        r->request.done = link_request_done;
        sem_init(&r->done, 0, 0);
        srv_link_call(link, link_request_start, r);
        srv_link_wait(&r->done);
        sem_destroy(&r->done);
        return r->request.outcome == CL_DONE ? 0 : r->request.error;
}

int srv_link_get(struct srv_link *link, const char *name, char *out, size_t size)
{
        struct link_request r = {.request = {.kind = CL_RANGE}};
        char key[CL_KEY_NAME_MAX + 32];
        const struct cl_keys *keys;
        int rv;

        cl_key_prefix(link->settings->cluster, key);
        strcat(key, name);
        r.request.key = (struct cl_bytes){key, strlen(key)};
        rv = link_text_ask(link, &r);
        if (rv != 0)
                return rv;
        keys = &r.answer->ranges[0];
        if (keys->count > 0 && keys->at[0].value.len >= size) {
                rv = -EMSGSIZE;
        } else if (keys->count > 0) {
                memcpy(out, keys->at[0].value.data, keys->at[0].value.len);
                out[keys->at[0].value.len] = '\0';
                rv = (int)keys->at[0].value.len;
        }
        cl_answer_free(r.answer);
        return rv;
}

static int link_put_if(struct srv_link *link, const char *name, struct cl_bytes value, enum cl_key_kind kind, unsigned number, int64_t revision)
{
        char key[CL_KEY_NAME_MAX + 32], compared[CL_KEY_NAME_MAX];
        struct cl_compare own = {.kind = CL_COMPARE_MOD, .key = {compared, cl_key_name(link->settings->cluster, kind, number, compared)}, .number = revision};
        struct cl_op put = {.kind = CL_OP_PUT, .value = value};
        struct link_request r = {.request = {.kind = CL_TXN, .compares = &own, .compare_count = 1, .success = &put, .success_count = 1}};
        int rv;

        cl_key_prefix(link->settings->cluster, key);
        strcat(key, name);
        put.key = (struct cl_bytes){key, strlen(key)};
        rv = link_text_ask(link, &r);
        if (rv == 0 && !r.answer->succeeded)
                rv = -EPERM;
        cl_answer_free(r.answer);
        return rv;
}

int srv_link_put(struct srv_link *link, const char *name, const char *text, int64_t leader_revision)
{
        return link_put_if(link, name, (struct cl_bytes){text, strlen(text)}, CL_KEY_LEADER, CL_POOL, leader_revision);
}

int srv_link_report(struct srv_link *link, const char *name, const char *text, size_t len, int64_t request_revision)
{
        return link_put_if(link, name, (struct cl_bytes){text, len}, CL_KEY_RESEED, 0, request_revision);
}

int srv_link_remove(struct srv_link *link, const struct cl_member *member)
{
        struct cl_node node = member->node;
        char name[32], text[CL_JSON_MAX];
        size_t len;

        node.state = CL_NODE_GONE;
        len = cl_node_write(&node, text);
        if (len == 0)
                return -ENOMEM;
        snprintf(name, sizeof(name), "nodes/%u", (unsigned)member->number);
        return link_put_if(link, name, (struct cl_bytes){text, len}, CL_KEY_NODE, member->number, member->revision);
}

/* ---- other nodes ----------------------------------------------------------------------------- */

static void on_net_line(void *arg, const char *line)
{
        srv_link_say(arg, "%s", line);
}

struct listening {
        int result;
        sem_t done;
};

static void on_listening(void *arg, int result, const char *address)
{
        struct listening *l = arg;

        l->result = result;
        sem_post(&l->done);
}

static int start_net(struct srv_link *link, struct net *net, struct srv_error *error)
{
        struct listening l;

        sem_init(&l.done, 0, 0);
        net_start(net, on_listening, &l);
        srv_link_wait(&l.done);
        sem_destroy(&l.done);
        return l.result == 0 ? 0 : srv_fail(error, l.result, "cluster_listen: cannot listen on %s: %s", link->address, strerror(-l.result));
}

static int make_transport(const struct srv_settings *s, struct net_transport **out, struct srv_error *error)
{
        const struct net_tcp_options files = {s->cluster_ca, s->cluster_cert, s->cluster_key};
        char why[256] = "";
        int rv = net_tcp_new(&files, out, why, sizeof(why));

        return rv == 0 ? 0 : srv_fail(error, rv, "%s", *why != '\0' ? why : strerror(-rv));
}

int srv_link_check_files(const struct srv_settings *settings, struct srv_error *error)
{
        struct net_transport *transport = NULL;
        char why[256];
        int rv = make_transport(settings, &transport, error);

        if (rv == 0 && net_tcp_check(transport, settings->node, why, sizeof(why)) != 0)
                rv = srv_fail(error, -EACCES, "cluster_cert: %.200s: %s", settings->cluster_cert, why);
        net_tcp_free(transport);
        return rv;
}

/* The same address with a port so many higher. -ERANGE. */
static int port_further(const char *address, unsigned more, char out[NET_ADDRESS_MAX])
{
        const char *colon = strrchr(address, ':');
        unsigned long port = colon == NULL ? 0 : strtoul(colon + 1, NULL, 10);

        if (port == 0 || port + more > 65535)
                return -ERANGE;
        snprintf(out, NET_ADDRESS_MAX, "%.*s:%lu", (int)(colon - address), address, port + more);
        return 0;
}

/* A party of net/ that runs; listen "": nobody connects to it. */
static int make_net(struct srv_link *link, const struct srv_link_party *party, const char *listen, struct net **out, struct srv_error *error)
{
        const struct srv_settings *s = link->settings;
        struct net_options options = {.generation = {party->format->generation, party->format->random},
                                      .node = party->party,
                                      .boot = party->boot,
                                      .loops = link->loops.loops,
                                      .loop_count = link->loops.count,
                                      .transport = link->transport,
                                      .plain_bulk = s->cluster_tls == 0,
                                      .log = on_net_line,
                                      .log_arg = link,
                                      .limits = {.silence_ms = SILENCE_MS, .handshake_ms = HANDSHAKE_MS, .backoff_ms = BACKOFF_MS}};
        int rv;

        memcpy(options.cluster, party->format->cluster_id, sizeof(options.cluster));
        if (party->handler != NULL) {
                options.handler = *party->handler;
                options.handler_arg = party->handler_arg;
        }
        snprintf(options.listen, sizeof(options.listen), "%s", listen);
        snprintf(options.name, sizeof(options.name), "%s", link->name);
        memcpy(link->cluster_id, party->format->cluster_id, sizeof(link->cluster_id));
        rv = srv_secrets_digest(s, link->cluster_id, &options.secrets, error);
        if (rv != 0)
                return rv;
        rv = net_new(&options, out);
        return rv == 0 ? start_net(link, *out, error) : srv_fail(error, rv, "cannot make links to other nodes: %s", strerror(-rv));
}

/* All that are known are told to net/ once more. */
static void peers_anew(struct srv_link *link)
{
        memset(link->peers_seen, 0, sizeof(link->peers_seen));
        pthread_mutex_lock(&link->lock);
        link->view_fresh = true;
        pthread_mutex_unlock(&link->lock);
        srv_link_keep(link);
}

int srv_link_connect(struct srv_link *link, const struct srv_link_party *party, struct srv_error *error)
{
        struct rem_client_options client = {.loop = link->loops.loops[0], .wait_ms = CONNECT_MS};
        char listen[NET_ADDRESS_MAX];
        int rv = port_further(link->address, party->pool, listen);

        if (rv != 0)
                return srv_fail(error, rv, "cluster_listen: there is no port %u further than %s, which the leader of a pool needs", party->pool, link->address);
        link->party = party->party;
        rv = make_transport(link->settings, &link->transport, error);
        if (rv == 0)
                rv = make_net(link, party, listen, &link->net, error);
        if (rv != 0)
                return rv;
        client.net = link->net;
        if (party->pool == 0 && rem_client_new(&client, &link->client) != 0) /* a leader's has a term */
                return srv_fail(error, -ENOMEM, "out of memory");
        peers_anew(link);
        return 0;
}

int srv_link_connect_home(struct srv_link *link, const struct srv_link_party *party, struct srv_error *error)
{
        int rv = make_net(link, party, "", &link->home_net, error);

        if (rv != 0)
                return rv;
        link->home_party = party->party;
        peers_anew(link);
        return 0;
}

static void set_peer(struct net *net, uint16_t own, const struct cl_member *member, uint16_t party, unsigned further)
{
        struct net_peer_options options = {.node = party};
        struct net_peer *peer;
        int rv;

        if (party == own)
                return;
        snprintf(options.name, sizeof(options.name), "%s", member->node.name);
        rv = port_further(member->node.address, further, options.address);
        if (rv == 0)
                rv = net_peer_set(net, &options, &peer);
        if (rv != 0)
                srv_log(SRV_LOG_ERROR, "node %u, %s, cannot be reached: %s", (unsigned)member->number, member->node.name, strerror(-rv));
}

/* A node that was removed is refused, whatever it shows. */
static void remove_peers(struct net *net, const struct cl_member *member)
{
        unsigned pool;

        for (pool = 0; pool <= CL_POOL_HOMES; pool++) {
                struct net_peer *peer = net_peer_find(net, cl_party(member->number, pool));
                int rv = peer == NULL ? 0 : net_peer_remove(peer);

                if (rv != 0)
                        srv_log(SRV_LOG_ERROR, "node %u, %s, was removed, and still has connections: %s", (unsigned)member->number, member->node.name, strerror(-rv));
        }
}

/* All parties of a node: its node process, its gateway, and the processes that lead pools there, if they do. pools: a bit for each number. */
static void set_peers(struct net *net, uint16_t own, const struct cl_member *member, uint32_t pools)
{
        unsigned pool;

        if (member->node.state == CL_NODE_GONE) {
                remove_peers(net, member);
                return;
        }
        set_peer(net, own, member, member->number, 0);
        set_peer(net, own, member, cl_party(member->number, CL_POOL_HOMES), 0); /* nobody connects to a gateway */
        for (pool = 1; pool <= CL_POOLS_MAX; pool++)
                if (pools >> pool & 1)
                        set_peer(net, own, member, cl_party(member->number, pool), pool);
}

/* A node may lead pools that it has slots of; and the first one, which it may know of before it has any. */
static void pools_of_nodes(const struct cl_view *view, uint32_t out[CL_NODE_LAST + 1])
{
        unsigned i, slot;

        for (i = 0; i <= CL_NODE_LAST; i++)
                out[i] = 1u << CL_POOL;
        for (i = 0; i < view->pool_count; i++)
                for (slot = 0; slot < view->pools[i].epoch.slots; slot++)
                        out[view->pools[i].epoch.slot[slot].site.node & CL_NODE_LAST] |= 1u << view->pools[i].number;
}

/* Connections that are open stay: a node is refused for what it shows when it connects the next time. */
static void reload_certificates(struct srv_link *link)
{
        const struct srv_settings *s = link->settings;
        const struct net_tcp_options files = {s->cluster_ca, s->cluster_cert, s->cluster_key};
        char why[256];

        if (link->transport != NULL && net_tcp_renew(link->transport, &files, s->node, why, sizeof(why)) != 0)
                srv_log(SRV_LOG_ERROR, "cluster_ca, cluster_cert and cluster_key stay as they are: %s", why);
}

void srv_link_reload(struct srv_link *link)
{
        struct net_secrets secrets;
        struct srv_error error;

        if (link->net == NULL)
                return;
        reload_certificates(link);
        if (srv_secrets_digest(link->settings, link->cluster_id, &secrets, &error) != 0) {
                srv_log(SRV_LOG_ERROR, "what other nodes compare stays as it is: %s", error.text);
                return;
        }
        net_secrets_set(link->net, &secrets);
        if (link->home_net != NULL)
                net_secrets_set(link->home_net, &secrets);
}

/* A node that is refused for its secrets is not told of here: both ends log that. */
static void tell_of_secrets(struct srv_link *link, const struct cl_member *member)
{
        const struct net_peer *peer = net_peer_find(link->net, member->number);
        uint8_t *told = &link->secrets_told[member->number];
        struct net_peer_state state;

        if (peer == NULL)
                return;
        net_peer_state_read(peer, &state);
        if (state.secrets == *told || state.opened_by_it == 0)
                return;
        if (state.secrets == NET_SECRETS_ROOT_DIFFERS)
                srv_log(SRV_LOG_WARNING, "node %u, %s, has other root credentials than this node: what clients sign with one is refused at the other", (unsigned)member->number,
                        member->node.name);
        else if (state.secrets == NET_SECRETS_FIRST_DIFFERS)
                srv_log(SRV_LOG_WARNING, "node %u, %s, seals with another key of key_file than this node, and each has the other's: finish the change of keys",
                        (unsigned)member->number, member->node.name);
        else if (state.secrets == NET_SECRETS_SAME && *told != NET_SECRETS_UNKNOWN)
                srv_log(SRV_LOG_INFO, "node %u, %s, has the same secrets as this node again", (unsigned)member->number, member->node.name);
        *told = (uint8_t)state.secrets;
}

/* Of the node process alone: once a second. */
static void look_at_secrets(struct srv_link *link)
{
        uint64_t now = lp_clock();
        struct cl_view view;
        unsigned i;

        if (link->net == NULL || link->party > CL_NODE_LAST || now - link->secrets_looked < SECRETS_NS)
                return;
        link->secrets_looked = now;
        if (now >= link->secrets_anew) {
                memset(link->secrets_told, NET_SECRETS_UNKNOWN, sizeof(link->secrets_told));
                link->secrets_anew = now + SECRETS_ANEW_NS;
        }
        pthread_mutex_lock(&link->lock);
        i = cl_view_copy(&view, &link->view) != 0;
        pthread_mutex_unlock(&link->lock);
        if (i != 0)
                return;
        for (i = 0; i < view.count; i++)
                tell_of_secrets(link, &view.members[i]);
        cl_view_free(&view);
}

static void tell_of_etcd(struct srv_link *link, int error, const char *text)
{
        if (error != 0 && error != -EREMCHG && link->told_error == 0) /* that one ends what the process does, which says so */
                srv_log(SRV_LOG_WARNING, "etcd: %s", text);
        else if (error == 0 && link->told_error != 0)
                srv_log(SRV_LOG_INFO, "etcd answers again");
        link->told_error = error;
}

void srv_link_keep(struct srv_link *link)
{
        uint32_t pools[CL_NODE_LAST + 1];
        struct cl_member *members = NULL;
        char text[CL_TEXT_MAX];
        unsigned count = 0, i;
        int error;

        pthread_mutex_lock(&link->lock);
        error = link->view_error;
        snprintf(text, sizeof(text), "%s", link->view_text);
        if (link->net != NULL && link->view_fresh) {
                count = link->view.count;
                members = malloc((count + 1) * sizeof(*members));
                if (members != NULL && count > 0)
                        memcpy(members, link->view.members, count * sizeof(*members));
                pools_of_nodes(&link->view, pools);
                link->view_fresh = members == NULL;
        }
        pthread_mutex_unlock(&link->lock);
        for (i = 0; members != NULL && i < count; i++)
                if (link->peers_seen[i] != (uint64_t)members[i].revision || link->peers_pools[i] != pools[members[i].number]) {
                        link->peers_seen[i] = (uint64_t)members[i].revision;
                        link->peers_pools[i] = pools[members[i].number];
                        set_peers(link->net, link->party, &members[i], link->peers_pools[i]);
                        if (link->home_net != NULL)
                                set_peers(link->home_net, link->home_party, &members[i], link->peers_pools[i]);
                }
        free(members);
        tell_of_etcd(link, error, text);
        look_at_secrets(link);
        say_lines(link);
}

void srv_link_warm(struct srv_link *link)
{
        uint16_t node[CL_MEMBERS_MAX];
        unsigned count, i;

        pthread_mutex_lock(&link->lock);
        count = link->view.count;
        for (i = 0; i < count; i++)
                node[i] = link->view.members[i].number;
        pthread_mutex_unlock(&link->lock);
        for (i = 0; i < count; i++) {
                struct net_peer *peer = net_peer_find(link->net, node[i]);

                if (peer != NULL)
                        net_peer_connect(peer);
        }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void link_stopped(void *arg)
{
        sem_post(arg);
}

struct stopping {
        struct srv_link *link;
        sem_t done;
};

static void stop_directory(void *arg)
{
        struct stopping *stopping = arg;

        cl_directory_stop(stopping->link->directory, link_stopped, &stopping->done);
}

void srv_link_end(struct srv_link *link)
{
        struct stopping stopping = {.link = link};

        if (link->settings == NULL)
                return;
        sem_init(&stopping.done, 0, 0);
        if (link->directory != NULL && link->loops.running > 0) {
                srv_link_call(link, stop_directory, &stopping);
                srv_link_wait(&stopping.done);
        }
        if (link->home_net != NULL) {
                net_stop(link->home_net, link_stopped, &stopping.done);
                srv_link_wait(&stopping.done);
        }
        if (link->net != NULL) {
                net_stop(link->net, link_stopped, &stopping.done);
                srv_link_wait(&stopping.done);
        }
        sem_destroy(&stopping.done);
        cl_etcd_free(link->etcd);
        srv_loops_stop(&link->loops);
        srv_loops_drain(&link->loops);
        net_free(link->home_net);
        net_free(link->net);
        link->etcd = NULL;
        link->net = link->home_net = NULL;
}

void srv_link_close(struct srv_link *link)
{
        if (link->settings == NULL)
                return;
        srv_link_end(link);
        cl_directory_free(link->directory);
        rem_client_free(link->client);
        srv_loops_free(&link->loops);
        net_tcp_free(link->transport);
        cl_view_free(&link->view);
        say_lines(link);
        if (link->wake >= 0)
                close(link->wake);
        pthread_mutex_destroy(&link->lock);
}
