/*
 * node_join.c - a node process gets its number, and waits for its pool (node.h). The main thread; what asks etcd runs on the link's loop.
 */
#include "server/node.h"

#include "server/daemon_log.h"
#include "server/notify.h"

#include <errno.h>
#include <string.h>

#define BEAT_NS (3 * NS_A_SECOND) /* between two times that a node says that it waits */

static void node_joined(struct cl_join *join)
{
        sem_post(&container_of(join, struct node, join)->joined);
}

static void begin_join(void *arg)
{
        cl_join(arg);
}

static void node_named(struct cl_name_take *take)
{
        sem_post(&container_of(take, struct node, name)->joined);
}

static void begin_name(void *arg)
{
        cl_name_take(arg);
}

static void node_describe(struct node *n, struct cl_node *out)
{
        const struct srv_settings *s = n->settings;
        struct srv_address s3 = s->listen, admin = s->admin;

        memset(out, 0, sizeof(*out));
        snprintf(out->name, sizeof(out->name), "%s", n->link.name);
        snprintf(out->address, sizeof(out->address), "%.255s", n->link.address);
        if (srv_address_is_every(&s3))
                memcpy(s3.host, s->cluster_listen.host, sizeof(s3.host));
        srv_address_text(&s3, out->s3, sizeof(out->s3));
        if (srv_address_is_every(&admin))
                memcpy(admin.host, s->cluster_listen.host, sizeof(admin.host));
        srv_address_text(&admin, out->admin, sizeof(out->admin));
        snprintf(out->version, sizeof(out->version), "%s", MILLRACE_VERSION);
        out->rack = srv_cluster_rack(s);
        srv_folders_announce(&n->folders, out);
}

/* The number that etcd has for the node's name; it does not change while this process lives. */
static int node_take_number(struct node *n, struct srv_error *error)
{
        n->name = (struct cl_name_take){.etcd = n->link.etcd, .cluster = n->own.cluster, .name = n->own.node, .bound = n->own.number, .view = &n->view, .done = node_named};
        srv_link_call(&n->link, begin_name, &n->name);
        srv_link_wait(&n->joined);
        if (n->name.rv != 0)
                return srv_fail(error, n->name.rv, "%s", n->name.text);
        n->own.number = n->name.number;
        srv_folders_own(&n->folders, n->own.number);
        return 0;
}

bool srv_node_is_removed(const struct node *n)
{
        const struct cl_member *self = cl_view_member(&n->view, n->settings->number);

        return self != NULL && self->node.state == CL_NODE_GONE;
}

/* 0, -EAGAIN: not now, -ENOSPC: etcd is full, or an error with a line. */
static int try_to_join(struct node *n, struct srv_error *error)
{
        struct cl_node self;
        int rv = node_take_number(n, error);

        if (rv != 0)
                return rv;
        if (!srv_folders_belong(&n->folders, &n->view))
                return srv_fail(error, -EEXIST, "node %u has drives in the pool, and none of them is here: this is another machine, or its disks are not there",
                                (unsigned)n->settings->number);
        if (!srv_node_is_removed(n) && srv_folders_drained(&n->folders, &n->view))
                return srv_fail(error, -EEXIST, "node %s was drained: a machine that joins the cluster anew needs another name, and empty folders", n->link.name);
        node_describe(n, &self);
        n->join = (struct cl_join){.etcd = n->link.etcd, .cluster = n->settings->cluster, .number = n->settings->number, .node = &self, .view = &n->view, .done = node_joined};
        srv_link_call(&n->link, begin_join, &n->join);
        srv_link_wait(&n->joined);
        if (n->join.boot > n->boot)
                n->boot = n->join.boot;
        return n->join.rv == 0 ? 0 : srv_fail(error, n->join.rv, "%s", n->join.text);
}

/* Until etcd answers, takes changes, and the node has joined, or it is told to end. */
int srv_node_join(struct node *n, struct srv_error *error)
{
        struct srv_error before = {""};
        const uint64_t begun = lp_clock();
        bool told = false;
        int rv = -EAGAIN;

        while (n->signo == 0) {
                if (srv_node_take_view(n)) {
                        rv = try_to_join(n, error);
                        if (rv != -EAGAIN && rv != -ENOSPC) /* a full etcd is mended */
                                return rv;
                        if (*error->text != '\0' && strcmp(error->text, before.text) != 0)
                                srv_log(SRV_LOG_WARNING, "cannot join yet: %s", error->text);
                        before = *error;
                } else if (n->view_error == -EREMCHG) {
                        return srv_fail(error, -EREMCHG, "%s (millrace admin cluster reseed)", n->view_text);
                }
                if (!told && lp_clock() - begun >= BEAT_NS) {
                        srv_notify_waits(n->view.revision > 0 ? "to join its cluster: its log says why" : "for etcd");
                        told = true;
                }
                srv_node_wait(n, NODE_POLL_MS);
        }
        return -EINTR;
}

/* Another process has entered under this node's number: a copy of this machine, or one that was started twice. */
bool srv_node_is_replaced(const struct node *n)
{
        const struct cl_member *self = cl_view_member(&n->view, n->settings->number);

        return self != NULL && self->node.boot > n->boot;
}

/* -EEXIST: started again, it would only take the other one's place in turn. */
int srv_node_fail_replaced(const struct node *n, struct srv_error *error)
{
        return srv_fail(error, -EEXIST, "another process has entered the cluster as %s, at %s: this one ends. Of two machines with one name, one needs another name and empty folders",
                        n->link.name, cl_view_member(&n->view, n->own.number)->node.address);
}

/* Until there is a pool. While it waits it says again and again that it is there: --init-cluster counts on no others. */
int srv_node_wait_for_pool(struct node *n, struct srv_error *error)
{
        uint64_t said = lp_clock();

        while (n->signo == 0) {
                if (srv_node_take_view(n) && n->view.has_format && cl_view_pool(&n->view, CL_POOL)->has_config) /* it may be a reseed's, and this number another node's there */
                        return srv_folders_belong(&n->folders, &n->view) ? 0 : srv_fail(error, -EEXIST, "node %u has drives in the pool, and none of them is here: %s needs another number, and gets it by its next start",
                                                                                       (unsigned)n->own.number, n->link.name);
                if (n->view_error == -EREMCHG)
                        return srv_fail(error, -EREMCHG, "%s (millrace admin cluster reseed)", n->view_text);
                if (!n->waits_told) {
                        srv_log(SRV_LOG_INFO, "node %u, %s, waits for the cluster %s to be made: millrace admin cluster %s", (unsigned)n->settings->number, n->link.name,
                                n->settings->cluster, srv_folders_hold(&n->folders) ? "adopt --yes (its folders hold drives)" : "init");
                        srv_node_says(n, "The cluster has not been made yet.", "");
                        srv_notify_waits("for the cluster to be made: millrace admin cluster init, or adopt");
                }
                n->waits_told = true;
                if (n->view_error == 0 && lp_clock() - said >= BEAT_NS) {
                        said = lp_clock();
                        if (srv_node_is_replaced(n))
                                return srv_node_fail_replaced(n, error);
                        if (try_to_join(n, error) == -EEXIST)
                                return -EEXIST;
                }
                srv_node_wait(n, NODE_POLL_MS);
        }
        return -EINTR;
}
