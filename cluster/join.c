/*
 * join.c - a node enters the cluster: it is who it says it is, it takes a boot number, and tells the others
 * where it is.
 */
#include "cluster_node.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void join_end(struct cl_join *join, int rv, const char *text)
{
        join->rv = rv;
        snprintf(join->text, sizeof(join->text), "%s", text);
        join->done(join);
}

static bool names_drive(const struct cl_node *node, const uint8_t id[CL_ID])
{
        unsigned i;

        for (i = 0; i < node->drive_count; i++)
                if (memcmp(node->drives[i], id, CL_ID) == 0)
                        return true;
        return false;
}

/* Two nodes cannot be one, nor have one drive: folders that were copied. */
static bool differs(struct cl_join *join, const struct cl_member *member)
{
        const struct cl_node *node = join->node, *other = &member->node;
        const unsigned number = member->number;
        unsigned i;

        if (number == join->number && other->state == CL_NODE_GONE) {
                snprintf(join->text, sizeof(join->text), "node %u, %s, was removed from the cluster: a machine that joins it anew needs another name, and empty folders", number, other->name);
                return false;
        }
        if (number == join->number && strcmp(other->name, node->name) == 0)
                return true;
        if (number == join->number) {
                snprintf(join->text, sizeof(join->text), "node %u of the cluster is %s, and this is %s: its name must stay", number, other->name, node->name);
                return false;
        }
        if (other->state != CL_NODE_GONE && (strcmp(other->name, node->name) == 0 || strcmp(other->address, node->address) == 0)) {
                snprintf(join->text, sizeof(join->text), "%.60s at %.100s is node %u of the cluster already", node->name, node->address, number);
                return false;
        }
        for (i = 0; i < node->drive_count; i++)
                if (names_drive(other, node->drives[i])) {
                        snprintf(join->text, sizeof(join->text), "a folder of this node is a copy of one of node %u", number);
                        return false;
                }
        return true;
}

static void join_entered(struct cl_cas *cas)
{
        struct cl_join *join = container_of(cas, struct cl_join, cas);

        switch (cas->outcome) {
        case CL_CAS_WON:
                join_end(join, 0, "");
                break;
        case CL_CAS_LOST:
        case CL_CAS_OVERTAKEN:
                join_end(join, -EAGAIN, "another process has entered under this node's number meanwhile");
                break;
        case CL_CAS_FAILED:
        case CL_CAS_UNKNOWN:
                join_end(join, cas->error == -ENOSPC ? -ENOSPC : -EAGAIN, cas->text);
                break;
        }
}

static void join_has_boot(struct cl_boot_take *take)
{
        struct cl_join *join = container_of(take, struct cl_join, take);
        const struct cl_member *before = cl_view_member(join->view, join->number);
        struct cl_node node = *join->node;
        size_t len;

        if (take->rv != 0) {
                join_end(join, take->rv, take->text);
                return;
        }
        join->boot = node.boot = take->boot; /* no other process enters it with this one: see struct cl_cas */
        if (before != NULL)
                node.state = before->node.state;
        len = cl_node_write(&node, join->value);
        if (len == 0) {
                join_end(join, -EAGAIN, "out of memory");
                return;
        }
        cl_key_name(join->cluster, CL_KEY_NODE, join->number, join->key);
        memset(&join->cas, 0, sizeof(join->cas));
        join->cas.etcd = join->etcd;
        join->cas.key = (struct cl_bytes){join->key, strlen(join->key)};
        join->cas.value = (struct cl_bytes){join->value, len};
        join->cas.mod_revision = before != NULL ? before->revision : 0;
        join->cas.done = join_entered;
        cl_cas(&join->cas);
}

/* One more would have more processes than one of them can meet. */
static bool has_place(struct cl_join *join)
{
        const struct cl_view *view = join->view;
        unsigned i, nodes = 0;
        unsigned pools = view->pool_count > 0 ? view->pools[view->pool_count - 1].number : 1;

        for (i = 0; i < view->count; i++)
                nodes += view->members[i].node.state != CL_NODE_GONE && view->members[i].number != join->number;
        if (cl_view_member(view, join->number) != NULL || (nodes + 1) * CL_PARTIES_OF_NODE(pools) <= CL_PARTIES_MAX)
                return true;
        snprintf(join->text, sizeof(join->text), "a cluster of %u pools can have at most %u nodes", pools, CL_PARTIES_MAX / CL_PARTIES_OF_NODE(pools));
        return false;
}

void cl_join(struct cl_join *join)
{
        unsigned i;

        if (!has_place(join)) {
                join->rv = -EEXIST;
                join->done(join);
                return;
        }

        for (i = 0; i < join->view->count; i++)
                if (!differs(join, &join->view->members[i])) {
                        join->rv = -EEXIST;
                        join->done(join);
                        return;
                }
        join->take = (struct cl_boot_take){.etcd = join->etcd, .cluster = join->cluster, .node = join->number, .done = join_has_boot};
        cl_boot_take(&join->take);
}
