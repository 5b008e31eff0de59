/*
 * new_cluster.c - a new cluster: its pools, the last one first, and then the key `format`, by which nodes know that there is
 * one. Further pools of a cluster, the first one first.
 *
 * Cut off in between it is done again: the pools that are there are taken, if they are what is asked for. The last pool is
 * written first, so its number says how many were meant. Each pool is made of folders that none of those has which were read
 * or written before; whoever finds a key taken by another process ends. So no folder is in two pools.
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

static void create_next(struct cl_create *create);

/* Of a key that is not there. */
static void create_put(struct cl_create *create, size_t len, void (*done)(struct cl_cas *cas))
{
        if (len == 0) {
                create_end(create, -ENOMEM, "out of memory");
                return;
        }
        memset(&create->cas, 0, sizeof(create->cas));
        create->cas.etcd = create->etcd;
        create->cas.key = (struct cl_bytes){create->key, strlen(create->key)};
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
                create_end(create, -EEXIST, create->more ? "somebody else has made a pool meanwhile" : "somebody else has made the cluster meanwhile");
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
        cl_key_name(create->cluster, CL_KEY_FORMAT, 0, create->key);
        create_put(create, cl_format_write(&format, create->value), created);
}

static void pool_created(struct cl_cas *cas)
{
        struct cl_create *create = container_of(cas, struct cl_create, cas);

        if (cas->outcome != CL_CAS_WON) {
                created(cas);
                return;
        }
        create->there[create->now] = true;
        create_next(create);
}

/* Of a new cluster the last pool that is not there, of further pools the first. 0: all are. */
static unsigned create_todo(const struct cl_create *create)
{
        unsigned i;

        for (i = 0; i <= create->last - create->first; i++) {
                const unsigned number = create->more ? create->first + i : create->last - i;

                if (!create->there[number])
                        return number;
        }
        return 0;
}

static void create_next(struct cl_create *create)
{
        create->now = create_todo(create);
        if (create->now != 0) {
                cl_key_name(create->cluster, CL_KEY_CONFIG, create->now, create->key);
                create_put(create, cl_config_write(&create->config[create->now], create->value), pool_created);
        } else if (create->more) {
                create_end(create, 0, "");
        } else {
                create_format(create);
        }
}

/* ---- dealing --------------------------------------------------------------------------------- */

/* What a pool is made of; its memory is the caller's. */
struct parts {
        uint8_t ids[ENG_DRIVES_MAX][ENG_ID_LEN];
        struct eng_site sites[ENG_DRIVES_MAX];
        unsigned count;
};

static bool some_pool_has(const struct cl_view *view, const uint8_t id[CL_ID])
{
        unsigned i, slot;

        for (i = 0; i < view->pool_count; i++)
                for (slot = 0; slot < view->pools[i].epoch.slots; slot++)
                        if (memcmp(view->pools[i].epoch.slot[slot].drive_id, id, CL_ID) == 0)
                                return true;
        return false;
}

/* What the pool gets of the node that was named as number `at`. */
static int take_drives_of(struct cl_create *create, unsigned at, unsigned number, struct parts *parts)
{
        const struct cl_member *member = cl_view_member(create->view, create->nodes[at]);
        const unsigned pools = create->last - create->first + 1;
        unsigned i, turn = at;

        if (member != NULL && member->node.state == CL_NODE_GONE) {
                snprintf(create->text, sizeof(create->text), "node %u was removed: the others refuse it", (unsigned)create->nodes[at]);
                return -EINVAL;
        }
        if (member == NULL || member->node.drive_count == 0) {
                snprintf(create->text, sizeof(create->text), "node %u has announced no empty folders", (unsigned)create->nodes[at]);
                return -EINVAL;
        }
        for (i = 0; i < member->node.drive_count; i++) {
                const bool had = some_pool_has(create->view, member->node.drives[i]);

                if (had && create->more)
                        continue;
                if (turn++ % pools != number - create->first || had) /* one that was begun has what it would have got */
                        continue;
                if (parts->count == ENG_DRIVES_MAX) {
                        snprintf(create->text, sizeof(create->text), "a pool has at most %u drives", ENG_DRIVES_MAX);
                        return -EINVAL;
                }
                memcpy(parts->ids[parts->count], member->node.drives[i], ENG_ID_LEN);
                parts->sites[parts->count++] = (struct eng_site){.node = create->nodes[at], .rack = member->node.rack};
        }
        return 0;
}

/* A pool that one node's loss ends is not made by the way, where others are made beside it. */
static bool lies_on_one_node(const struct parts *parts)
{
        unsigned i;

        for (i = 1; i < parts->count; i++)
                if (parts->sites[i].node != parts->sites[0].node)
                        return false;
        return true;
}

/* Drives of all nodes in turn would do as well: slots say nothing of where a drive is. */
static int make_pool(struct cl_create *create, unsigned number)
{
        struct parts *parts = calloc(1, sizeof(*parts));
        struct eng_new_pool pool = {.k = create->k, .m = create->m};
        struct cl_config *config = &create->config[number];
        struct eng_error error = {""};
        unsigned i;
        int rv = parts == NULL ? -ENOMEM : 0;

        for (i = 0; rv == 0 && i < create->node_count; i++)
                rv = take_drives_of(create, i, number, parts);
        if (rv == 0 && create->last > 1 && create->node_count > 1 && lies_on_one_node(parts)) {
                snprintf(create->text, sizeof(create->text), "pool %u would get %u folders of one node: make fewer pools, or give nodes more folders", number, parts->count);
                rv = -EINVAL;
        }
        if (rv == 0) {
                _Static_assert(ENG_EPOCH_BODY_MAX <= CL_EPOCH_MAX, "room");
                pool.count = parts->count;
                pool.drive_ids = parts->ids;
                pool.sites = parts->sites;
                rv = eng_pool_make(&pool, config->epoch, &config->epoch_len, &error);
                if (rv != 0 && create->last == create->first)
                        snprintf(create->text, sizeof(create->text), "%.250s", error.text);
                else if (rv != 0)
                        snprintf(create->text, sizeof(create->text), "pool %u would get %u folders: %.200s", number, parts->count, error.text);
        }
        free(parts);
        config->number = 1;
        lp_random(config->store_id, CL_ID);
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

/* The only pool of the cluster lies on all nodes that are named. */
static int check_all_are_in(struct cl_create *create, const struct eng_epoch_info *epoch)
{
        unsigned i, slot;

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

/* A pool that is there lies on nodes that are named, and has the code that is given. */
static int check_pool(struct cl_create *create, const struct cl_pool *pool)
{
        const struct eng_epoch_info *epoch = &pool->epoch;
        static const uint8_t none[CL_ID];
        unsigned slot;

        if (memcmp(epoch->parent, none, CL_ID) != 0) {
                snprintf(create->text, sizeof(create->text), "a store of one machine is about to become the pool of this cluster: end that (millrace admin cluster adopt --yes)");
                return -EEXIST;
        }
        if (create->k + create->m > 0 && (create->k != epoch->k || create->m != epoch->m)) {
                snprintf(create->text, sizeof(create->text), "a pool was made already, before this was cut off, with erasure code %u+%u: give that, or none", epoch->k, epoch->m);
                return -EINVAL;
        }
        for (slot = 0; slot < epoch->slots; slot++)
                if (!create_names(create, epoch->slot[slot].site.node)) {
                        snprintf(create->text, sizeof(create->text), "a pool was made already, before this was cut off, with drives of node %u: name its nodes", (unsigned)epoch->slot[slot].site.node);
                        return -EINVAL;
                }
        return create->last == 1 ? check_all_are_in(create, epoch) : 0;
}

/* ---- which ----------------------------------------------------------------------------------- */

static unsigned highest_pool(const struct cl_view *view)
{
        unsigned i, highest = 0;

        for (i = 0; i < view->pool_count; i++)
                if (view->pools[i].has_config)
                        highest = view->pools[i].number;
        return highest;
}

/* Folders of one that is bad, or that is led and whose configuration was lost, would be dealt again. */
static int check_no_bad_pool(struct cl_create *create)
{
        const struct cl_pool *bad = cl_view_bad_pool(create->view);

        if (bad == NULL)
                return 0;
        snprintf(create->text, sizeof(create->text), "what etcd has of pool %u %s: until it is put back, nobody knows which folders it has", bad->number,
                 bad->bad ? "makes no sense" : "lacks its configuration");
        return -EBADMSG;
}

/* Each process of a cluster may have connections with each other one. */
static int check_parties(struct cl_create *create)
{
        unsigned i, nodes = 0;

        for (i = 0; i < create->view->count; i++)
                nodes += create->view->members[i].node.state != CL_NODE_GONE;
        if (nodes * CL_PARTIES_OF_NODE(create->last) <= CL_PARTIES_MAX)
                return 0;
        snprintf(create->text, sizeof(create->text), "%u nodes can have at most %u pools", nodes, CL_PARTIES_MAX / nodes - CL_PARTIES_OF_NODE(0));
        return -EINVAL;
}

/* Numbers of the pools that are to be. */
static int choose_numbers(struct cl_create *create)
{
        const unsigned highest = highest_pool(create->view);

        if (create->more != create->view->has_format) {
                snprintf(create->text, sizeof(create->text), "%s", create->more ? "the cluster has not been made yet" : "there is a cluster of this name already");
                return create->more ? -ENOENT : -EEXIST;
        }
        if (!create->more && highest != 0 && create->pools != 0 && create->pools != highest) {
                snprintf(create->text, sizeof(create->text), "%u pools were begun, before this was cut off: give that number, or none", highest);
                return -EINVAL;
        }
        create->first = create->more ? highest + 1 : 1;
        create->last = !create->more && highest != 0 ? highest : create->first + (create->pools != 0 ? create->pools : 1) - 1;
        if (create->last > CL_POOLS_MAX) {
                snprintf(create->text, sizeof(create->text), "a cluster has at most %u pools", CL_POOLS_MAX);
                return -EINVAL;
        }
        return 0;
}

/*
 * A build that knows one pool alone serves that: it says 404 of buckets of the others, and leads the first one without looking at
 * which names they have.
 */
static int check_versions(struct cl_create *create)
{
        unsigned i;

        for (i = 0; create->last > 1 && i < create->view->count; i++) {
                const struct cl_member *member = &create->view->members[i];

                if (member->node.state == CL_NODE_GONE || *member->node.version == '\0' || strcmp(member->node.version, MILLRACE_VERSION) == 0)
                        continue;
                snprintf(create->text, sizeof(create->text), "node %u, %.63s, has version %.31s, and this is %s: before a cluster has several pools all its nodes are of one",
                         (unsigned)member->number, member->node.name, member->node.version, MILLRACE_VERSION);
                return -EINVAL;
        }
        return 0;
}

void cl_create(struct cl_create *create)
{
        unsigned number;
        int rv = check_no_bad_pool(create);

        if (rv == 0)
                rv = choose_numbers(create);
        if (rv == 0)
                rv = check_versions(create);
        if (rv == 0)
                rv = check_parties(create);
        for (number = create->first; rv == 0 && number <= create->last; number++) {
                const struct cl_pool *pool = cl_view_pool(create->view, number);

                create->there[number] = pool->has_config;
                if (pool->has_config)
                        create->config[number] = pool->config;
                rv = pool->has_config ? check_pool(create, pool) : make_pool(create, number);
        }
        if (rv != 0 || create->dry)
                create_end(create, rv, rv != 0 ? create->text : "");
        else
                create_next(create);
}
