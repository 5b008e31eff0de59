/*
 * init_cluster.c - `millraced --init-cluster`: waits until the nodes that it is to use are there, and makes
 * their empty folders the pools of a new cluster, or further pools of one.
 */
#include "server/node_process.h"

#include "server/cluster_link.h"
#include "server/daemon_log.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INIT_WAIT_S 300u
#define INIT_LOOK_US 200000u
#define INIT_NODES_MAX 256u

struct init {
        struct srv_link link;
        struct cl_create create;
        struct cl_view view;
        char names[INIT_NODES_MAX][CL_NAME_MAX];
        uint16_t nodes[INIT_NODES_MAX]; /* their numbers */
        int64_t first[INIT_NODES_MAX]; /* revision of the node's entry when it was first seen; 0: it was not yet */
        unsigned count;
        bool more; /* of a cluster that there is */
        sem_t done;
};

static int init_add_node(struct init *init, const char *word, struct srv_error *error)
{
        unsigned i;

        if (!cl_name_is_sound(word))
                return srv_fail(error, -EINVAL, "new_pool_nodes: '%.100s' is no name of a node", word);
        for (i = 0; i < init->count; i++)
                if (strcmp(init->names[i], word) == 0)
                        return srv_fail(error, -EINVAL, "new_pool_nodes: node %s is named twice", word);
        if (init->count == INIT_NODES_MAX)
                return srv_fail(error, -EINVAL, "new_pool_nodes: too many");
        snprintf(init->names[init->count++], CL_NAME_MAX, "%s", word);
        return 0;
}

static int init_read_nodes(struct init *init, const struct srv_list *list, struct srv_error *error)
{
        char copy[SRV_VALUE_MAX + 1], *word, *rest;
        unsigned i;
        int rv = 0;

        for (i = 0; i < list->count && rv == 0; i++) {
                snprintf(copy, sizeof(copy), "%s", list->item[i]);
                for (word = strtok_r(copy, ", ", &rest); word != NULL && rv == 0; word = strtok_r(NULL, ", ", &rest))
                        rv = init_add_node(init, word, error);
        }
        return rv == 0 && init->count == 0 ? srv_fail(error, -EINVAL, "new_pool_nodes: names no node") : rv;
}

static const struct cl_member *init_member(const struct cl_view *view, const char *name)
{
        unsigned i;

        for (i = 0; i < view->count; i++)
                if (strcmp(view->members[i].node.name, name) == 0)
                        return &view->members[i];
        return NULL;
}

/*
 * The first that is not there yet; NULL: all are. What a node said before may be of one that is gone: it has to say it again, if
 * it does not serve already.
 */
static const char *init_missing(struct init *init)
{
        const char *missing = NULL;
        unsigned i;

        for (i = 0; i < init->count; i++) {
                const struct cl_member *member = init_member(&init->view, init->names[i]);

                if (member != NULL && init->first[i] == 0)
                        init->first[i] = member->revision;
                if (missing == NULL && (member == NULL || member->node.drive_count == 0 || (member->revision == init->first[i] && !init->more)))
                        missing = init->names[i];
                init->nodes[i] = member != NULL ? member->number : 0;
        }
        return missing;
}

static int init_wait(struct init *init, struct srv_error *error)
{
        uint64_t until = lp_clock() + INIT_WAIT_S * 1000000000ull;
        char text[CL_TEXT_MAX] = "";
        const char *missing = NULL, *told = NULL;
        struct cl_view view;
        int why;

        while (lp_clock() < until) {
                if (srv_link_view(&init->link, &view, &why, text) == 0) {
                        cl_view_free(&init->view);
                        init->view = view;
                        missing = init_missing(init);
                        if (view.revision > 0 && (missing == NULL || view.has_format != init->more))
                                return 0;
                        if (view.revision > 0 && missing != NULL && missing != told)
                                srv_log(SRV_LOG_INFO, "waiting for node %s to say that it has empty folders", missing);
                        told = view.revision > 0 ? missing : NULL;
                }
                srv_link_keep(&init->link);
                usleep(INIT_LOOK_US);
        }
        if (missing == NULL || *text != '\0')
                return srv_fail(error, -ETIMEDOUT, "etcd does not answer: %s", text);
        return srv_fail(error, -ETIMEDOUT, "node %s has announced no empty folders within %u s", missing, INIT_WAIT_S);
}

static void init_created(struct cl_create *create)
{
        sem_post(&((struct init *)create->arg)->done);
}

static void init_start(void *arg)
{
        cl_create(&((struct init *)arg)->create);
}

/* ---- what it would be ------------------------------------------------------------------------ */

static int init_ask_create(struct init *init, const struct srv_settings *s, bool dry, struct srv_error *error)
{
        init->create = (struct cl_create){.etcd = init->link.etcd, .cluster = s->cluster, .view = &init->view, .nodes = init->nodes, .node_count = init->count,
                                          .k = s->ec.k, .m = s->ec.m, .pools = (unsigned)s->new_pools, .more = s->init_more, .dry = dry, .done = init_created, .arg = init};
        sem_init(&init->done, 0, 0);
        srv_link_call(&init->link, init_start, init);
        srv_link_wait(&init->done);
        sem_destroy(&init->done);
        return init->create.rv == 0 ? 0 : srv_fail(error, init->create.rv, "%s", init->create.text);
}

/* Different ones among the nodes that are named. */
static unsigned init_racks(const struct init *init)
{
        unsigned i, j, count = 0;

        for (i = 0; i < init->count; i++) {
                const struct cl_member *member = cl_view_member(&init->view, init->nodes[i]);

                for (j = 0; j < i && cl_view_member(&init->view, init->nodes[j])->node.rack != member->node.rack; j++)
                        ;
                count += j == i;
        }
        return count;
}

/*
 * How many of so many nodes, or racks, may fail at once: shards of a stripe and copies of a name are spread over them as evenly as
 * they can be.
 */
static unsigned may_fail(const struct eng_epoch_info *epoch, unsigned places)
{
        unsigned together = (epoch->k + epoch->m + places - 1) / places, copies = epoch->m + 1 < places ? epoch->m + 1 : places;
        unsigned by_shards = epoch->m / together;

        return by_shards < copies - 1 ? by_shards : copies - 1;
}

/* Different nodes, or racks, that a pool lies on. */
static unsigned pool_places(const struct eng_epoch_info *epoch, bool racks)
{
        unsigned i, j, count = 0;

        for (i = 0; i < epoch->slots; i++) {
                for (j = 0; j < i && (racks ? epoch->slot[j].site.rack != epoch->slot[i].site.rack : epoch->slot[j].site.node != epoch->slot[i].site.node); j++)
                        ;
                count += j == i;
        }
        return count;
}

static void init_show_node(const struct init *init, unsigned i, uint64_t *room)
{
        const struct cl_member *member = cl_view_member(&init->view, init->nodes[i]);

        *room += member->node.room;
        printf("  %-20s %6u %6u %7u  %10.1f GB  %s\n", member->node.name, (unsigned)member->number, (unsigned)member->node.rack, member->node.drive_count,
               (double)member->node.room / 1e9, member->node.address);
}

/* What one pool is. several: it has a number. room: of all folders of the nodes. */
static void init_show_pool(const struct init *init, unsigned number, bool several, uint64_t room)
{
        const struct cl_config *config = &init->create.config[number];
        unsigned nodes = init->count, racks = init_racks(init);
        struct eng_epoch_info epoch;
        char of[24] = "";

        if (eng_epoch_read(config->epoch, config->epoch_len, &epoch) != 0)
                return;
        if (several) {
                nodes = pool_places(&epoch, false);
                racks = pool_places(&epoch, true);
                snprintf(of, sizeof(of), "pool %u: ", number);
                printf("%s%u folders of %u nodes, erasure code %u+%u\n", of, epoch.slots, nodes, epoch.k, epoch.m);
        } else {
                printf("erasure code %u+%u: %.1f GB of the %.1f GB are for data, if each folder has a disk of its own and all are of one size\n", epoch.k, epoch.m,
                       (double)room * epoch.k / (epoch.k + epoch.m) / 1e9, (double)room / 1e9);
        }
        printf("%smay fail at once, and nothing is lost: %u drives, or %u nodes", of, epoch.m, may_fail(&epoch, nodes));
        if (racks > 1 && racks < nodes)
                printf(", or %u racks", may_fail(&epoch, racks));
        printf("\n");
        if (may_fail(&epoch, nodes) == 0)
                printf("WARNING: %sthe loss of one node can lose data: name more nodes, or give a code with more parity (--ec K+M)\n", of);
}

static void init_show(const struct init *init, const char *cluster)
{
        const struct cl_create *create = &init->create;
        uint64_t room = 0;
        unsigned i;

        printf("cluster %s\n  %-20s %6s %6s %7s  %13s  %s\n", cluster, "node", "number", "rack", "folders", "size", "address");
        for (i = 0; i < init->count; i++)
                init_show_node(init, i, &room);
        for (i = create->first; i <= create->last; i++)
                init_show_pool(init, i, create->first < create->last || create->more, room);
}

/* The word of whoever sits at the terminal. */
static bool init_agreed(void)
{
        char line[16] = "";

        if (!isatty(STDIN_FILENO)) {
                printf("Nothing was done. With --yes it is made so.\n");
                return false;
        }
        printf("Make it? The folders are formatted. [y/N] ");
        fflush(stdout);
        if (fgets(line, sizeof(line), stdin) != NULL && (line[0] == 'y' || line[0] == 'Y'))
                return true;
        printf("Nothing was done.\n");
        return false;
}

/* Whether the drives are those that were shown. */
static bool is_same_pool(const struct cl_config *shown, const struct cl_config *now)
{
        struct eng_epoch_info a, b;
        unsigned i;

        if (eng_epoch_read(shown->epoch, shown->epoch_len, &a) != 0 || eng_epoch_read(now->epoch, now->epoch_len, &b) != 0 || a.slots != b.slots || a.k != b.k || a.m != b.m)
                return false;
        for (i = 0; i < a.slots; i++)
                if (memcmp(a.slot[i].drive_id, b.slot[i].drive_id, CL_ID) != 0 || a.slot[i].site.node != b.slot[i].site.node)
                        return false;
        return true;
}

/* 1: it was not agreed to. */
static int init_plan(struct init *init, const struct srv_settings *s, struct srv_error *error)
{
        static struct cl_config shown[CL_POOLS_MAX + 1]; /* they are large */
        unsigned first, last, i;
        int rv = init_ask_create(init, s, true, error);

        if (rv != 0)
                return rv;
        init_show(init, s->cluster);
        if (!s->init_ask)
                return 0;
        if (!init_agreed())
                return 1;
        memcpy(shown, init->create.config, sizeof(shown));
        first = init->create.first;
        last = init->create.last;
        rv = init_wait(init, error); /* what was read is as old as the answer took */
        if (rv == 0)
                rv = init_ask_create(init, s, true, error);
        for (i = first; rv == 0 && i <= last; i++)
                if (init->create.first != first || init->create.last != last || !is_same_pool(&shown[i], &init->create.config[i]))
                        rv = srv_fail(error, -EAGAIN, "the nodes' folders have changed meanwhile: give the command again");
        return rv;
}

int srv_cluster_init(const struct srv_settings *settings)
{
        static struct init init; /* it is large, and there is one */
        const struct cl_seen seen = {0};
        struct srv_error error = {""};
        int rv = init_read_nodes(&init, &settings->new_pool_nodes, &error);

        init.more = settings->init_more;
        if (rv == 0)
                rv = srv_link_open(&init.link, settings, 1, 0, &seen, &error);
        if (rv == 0)
                rv = srv_link_look(&init.link, NULL, NULL, &error);
        if (rv == 0)
                rv = init_wait(&init, &error);
        if (rv == 0)
                rv = init_plan(&init, settings, &error);
        if (rv == 0)
                rv = init_ask_create(&init, settings, false, &error);
        if (rv == 0 && init.more)
                printf("cluster %s has pools up to %u now: nodes format their folders, and serve buckets of new pools in some seconds\n", settings->cluster, init.create.last);
        else if (rv == 0)
                printf("cluster %s is made: its nodes format their folders now, and serve in some seconds\n", settings->cluster);
        srv_link_close(&init.link);
        cl_view_free(&init.view);
        if (rv < 0)
                srv_log(SRV_LOG_ERROR, "%s", error.text);
        return rv >= 0 ? SRV_EXIT_DRAINED : SRV_EXIT_NOT_STARTED;
}
