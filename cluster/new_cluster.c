/*
 * new_cluster.c - a new cluster: its first pool, and then the key `format`, by which nodes know that there is one.
 *
 * Cut off in between it is done again: the pool that is there is taken, if it is the one that is asked for.
 */
#include "cluster_node.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void create_end(struct cl_create *create, int rv, const char *text)
{
        create->rv = rv;
        if (text != create->text)
                snprintf(create->text, sizeof(create->text), "%s", text);
        create->done(create);
}

/* Of a key that is not there. */
static void create_put(struct cl_create *create, unsigned key, size_t len, void (*done)(struct cl_cas *cas))
{
        if (len == 0) {
                create_end(create, -ENOMEM, "out of memory");
                return;
        }
        memset(&create->cas, 0, sizeof(create->cas));
        create->cas.etcd = create->etcd;
        create->cas.key = (struct cl_bytes){create->keys[key], strlen(create->keys[key])};
        create->cas.value = (struct cl_bytes){create->value, len};
        create->cas.done = done;
        cl_cas(&create->cas);
}

static void created(struct cl_cas *cas)
{
        struct cl_create *create = container_of(cas, struct cl_create, cas);

        switch (cas->outcome) {
        case CL_CAS_WON:
                create_end(create, 0, "");
                break;
        case CL_CAS_LOST:
        case CL_CAS_OVERTAKEN:
                create_end(create, -EEXIST, "somebody else has made the cluster meanwhile");
                break;
        case CL_CAS_FAILED:
        case CL_CAS_UNKNOWN:
                create_end(create, -EAGAIN, cas->text);
                break;
        }
}

static void create_format(struct cl_create *create)
{
        struct cl_format format = {.generation = 1};

        lp_random(format.cluster_id, sizeof(format.cluster_id));
        lp_random(&format.random, sizeof(format.random));
        create_put(create, 1, cl_format_write(&format, create->value), created);
}

static void pool_created(struct cl_cas *cas)
{
        struct cl_create *create = container_of(cas, struct cl_create, cas);

        if (cas->outcome == CL_CAS_WON)
                create_format(create);
        else
                created(cas);
}

/* What the pool is made of; its memory is the caller's. */
struct parts {
        uint8_t ids[ENG_DRIVES_MAX][ENG_ID_LEN];
        struct eng_site sites[ENG_DRIVES_MAX];
        unsigned count;
};

static int take_drives_of(struct cl_create *create, uint16_t number, struct parts *parts)
{
        const struct cl_member *member = cl_view_member(create->view, number);
        unsigned i;

        if (member == NULL || member->node.drive_count == 0) {
                snprintf(create->text, sizeof(create->text), "node %u has announced no empty folders", (unsigned)number);
                return -EINVAL;
        }
        for (i = 0; i < member->node.drive_count; i++) {
                if (parts->count == ENG_DRIVES_MAX) {
                        snprintf(create->text, sizeof(create->text), "a pool has at most %u drives", ENG_DRIVES_MAX);
                        return -EINVAL;
                }
                memcpy(parts->ids[parts->count], member->node.drives[i], ENG_ID_LEN);
                parts->sites[parts->count++] = (struct eng_site){.node = number, .rack = member->node.rack};
        }
        return 0;
}

/* Drives of all nodes in turn would do as well: slots say nothing of where a drive is. */
static int make_pool(struct cl_create *create)
{
        struct parts *parts = calloc(1, sizeof(*parts));
        struct eng_new_pool pool = {.k = create->k, .m = create->m};
        struct eng_error error = {""};
        unsigned i;
        int rv = parts == NULL ? -ENOMEM : 0;

        for (i = 0; rv == 0 && i < create->node_count; i++)
                rv = take_drives_of(create, create->nodes[i], parts);
        if (rv == 0) {
                _Static_assert(ENG_EPOCH_BODY_MAX <= CL_EPOCH_MAX, "room");
                pool.count = parts->count;
                pool.drive_ids = parts->ids;
                pool.sites = parts->sites;
                rv = eng_pool_make(&pool, create->config.epoch, &create->config.epoch_len, &error);
                if (rv != 0)
                        snprintf(create->text, sizeof(create->text), "%.250s", error.text);
        }
        free(parts);
        create->config.number = 1;
        lp_random(create->config.store_id, CL_ID);
        return rv;
}

static bool create_names(const struct cl_create *create, uint16_t node)
{
        unsigned i;

        for (i = 0; i < create->node_count; i++)
                if (create->nodes[i] == node)
                        return true;
        return false;
}

/* The pool that is there lies on the nodes that are named, on all of them, and has the code that is given. */
static int check_pool(struct cl_create *create)
{
        const struct eng_epoch_info *epoch = &create->view->epoch;
        unsigned i, slot;

        if (create->k + create->m > 0 && (create->k != epoch->k || create->m != epoch->m)) {
                snprintf(create->text, sizeof(create->text), "a pool was made already, before this was cut off, with erasure code %u+%u: give that, or none", epoch->k, epoch->m);
                return -EINVAL;
        }
        for (slot = 0; slot < epoch->slots; slot++)
                if (!create_names(create, epoch->slot[slot].site.node)) {
                        snprintf(create->text, sizeof(create->text), "a pool was made already, before this was cut off, with drives of node %u: name its nodes", (unsigned)epoch->slot[slot].site.node);
                        return -EINVAL;
                }
        for (i = 0; i < create->node_count; i++) {
                for (slot = 0; slot < epoch->slots && epoch->slot[slot].site.node != create->nodes[i]; slot++)
                        ;
                if (slot == epoch->slots) {
                        snprintf(create->text, sizeof(create->text), "a pool was made already, before this was cut off, without node %u: name its nodes", (unsigned)create->nodes[i]);
                        return -EINVAL;
                }
        }
        return 0;
}

void cl_create(struct cl_create *create)
{
        const struct cl_view *view = create->view;
        int rv;

        cl_key_name(create->cluster, CL_KEY_CONFIG, CL_POOL, create->keys[0]);
        cl_key_name(create->cluster, CL_KEY_FORMAT, 0, create->keys[1]);
        if (view->has_format) {
                create_end(create, -EEXIST, "there is a cluster of this name already");
                return;
        }
        if (view->has_pool) {
                create->config = view->config;
                rv = check_pool(create);
                if (rv != 0 || create->dry)
                        create_end(create, rv, rv != 0 ? create->text : "");
                else
                        create_format(create);
                return;
        }
        rv = make_pool(create);
        if (rv != 0 || create->dry)
                create_end(create, rv, rv != 0 ? create->text : "");
        else
                create_put(create, 0, cl_config_write(&create->config, create->value), pool_created);
}
