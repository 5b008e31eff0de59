/*
 * names.c - which number a node has: the one that its name has in the key `names` for good (docs/design/node-names.md).
 */
#include "cluster_node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool number_was_used(const struct cl_view *view, uint16_t number)
{
        unsigned i, slot;

        if (view->boots[number] != 0 || cl_names_name(&view->names, number) != NULL || cl_view_member(view, number) != NULL)
                return true;
        for (i = 0; i < view->pool_count; i++)
                for (slot = 0; slot < view->pools[i].epoch.slots; slot++)
                        if (view->pools[i].epoch.slot[slot].site.node == number)
                                return true;
        return false;
}

uint16_t cl_names_choose(const struct cl_view *view, const char *name)
{
        const char *digits = name + strlen(name);
        unsigned long hint;
        uint16_t number;

        while (digits > name && digits[-1] >= '0' && digits[-1] <= '9')
                digits--;
        hint = strtoul(digits, NULL, 10);
        if (hint >= 1 && hint <= CL_NODE_LAST && !number_was_used(view, (uint16_t)hint))
                return (uint16_t)hint;
        for (number = 1; number <= CL_NODE_LAST; number++)
                if (!number_was_used(view, number))
                        return number;
        return 0;
}

static void name_end(struct cl_name_take *take, int rv, const char *text)
{
        take->rv = rv;
        if (text != take->text)
                snprintf(take->text, sizeof(take->text), "%s", text);
        take->done(take);
}

/*
 * Two processes that add the same name write the same value, and cannot tell whose it was: they have one number then, as they
 * have to.
 */
static void name_added(struct cl_cas *cas)
{
        struct cl_name_take *take = container_of(cas, struct cl_name_take, cas);

        switch (cas->outcome) {
        case CL_CAS_WON:
                name_end(take, 0, "");
                break;
        case CL_CAS_LOST:
        case CL_CAS_OVERTAKEN:
                name_end(take, -EAGAIN, ""); /* it happens, and is tried again by what is there then */
                break;
        case CL_CAS_FAILED:
        case CL_CAS_UNKNOWN:
                name_end(take, cas->error == -ENOSPC ? -ENOSPC : -EAGAIN, cas->text);
                break;
        }
}

static void name_take_add(struct cl_name_take *take)
{
        size_t len = 0;

        take->names = take->view->names;
        if (cl_names_add(&take->names, take->name, take->number))
                len = cl_names_write(&take->names, take->value);
        if (len == 0) {
                name_end(take, -EOVERFLOW, "the cluster has too many names of nodes");
                return;
        }
        cl_key_name(take->cluster, CL_KEY_NAMES, 0, take->key);
        memset(&take->cas, 0, sizeof(take->cas));
        take->cas.etcd = take->etcd;
        take->cas.key = (struct cl_bytes){take->key, strlen(take->key)};
        take->cas.value = (struct cl_bytes){take->value, len};
        take->cas.mod_revision = take->view->names_revision;
        take->cas.done = name_added;
        cl_cas(&take->cas);
}

/* Of a name that `names` lacks. A reseed, too, leaves out a node that has reported nothing, but not its entry. */
static uint16_t number_to_add(const struct cl_name_take *take)
{
        unsigned i;

        if (take->bound != 0)
                return take->bound;
        for (i = 0; i < take->view->count; i++)
                if (strcmp(take->view->members[i].node.name, take->name) == 0)
                        return take->view->members[i].number;
        return cl_names_choose(take->view, take->name);
}

/* Its number and its name are not another node's. */
static int judge_number(struct cl_name_take *take)
{
        const struct cl_member *member = cl_view_member(take->view, take->number);
        const char *owner = cl_names_name(&take->view->names, take->number);

        if (owner == NULL && member != NULL)
                owner = member->node.name;
        if (owner == NULL || strcmp(owner, take->name) == 0)
                return 0;
        snprintf(take->text, sizeof(take->text), "drives of this node are of node %u, which is %s in this cluster, and this is %s", (unsigned)take->number, owner, take->name);
        return -EEXIST;
}

void cl_name_take(struct cl_name_take *take)
{
        take->number = cl_names_number(&take->view->names, take->name);
        if (take->view->names_bad) {
                name_end(take, -EAGAIN, "the names of nodes that etcd has make no sense");
        } else if (take->number != 0 && (take->bound == 0 || take->bound == take->number)) {
                name_end(take, 0, "");
        } else if (take->number != 0) {
                snprintf(take->text, sizeof(take->text), "%s is node %u in this cluster, and its drives are of node %u", take->name, (unsigned)take->number, (unsigned)take->bound);
                name_end(take, -EEXIST, take->text);
        } else if (cl_view_bad_pool(take->view) != NULL) {
                name_end(take, -EAGAIN, "what etcd has of a pool makes no sense, or lacks its configuration, so which numbers were used is not known");
        } else {
                take->number = number_to_add(take);
                if (take->number == 0)
                        name_end(take, -EOVERFLOW, "no number is left for a node");
                else if (judge_number(take) != 0)
                        name_end(take, -EEXIST, take->text);
                else
                        name_take_add(take);
        }
}
