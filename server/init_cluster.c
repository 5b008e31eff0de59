/*
 * init_cluster.c - `millraced --init-cluster`: waits until the nodes that it is to use are there, and makes
 * their empty folders the pool of a new cluster.
 */
#include "server/node_process.h"

#include "server/cluster_link.h"
#include "server/daemon_log.h"

#include <errno.h>
#include <semaphore.h>
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

/* The first that is not there yet; NULL: all are. What a node said before may be of one that is gone: it has to say it again. */
static const char *init_missing(struct init *init)
{
        const char *missing = NULL;
        unsigned i;

        for (i = 0; i < init->count; i++) {
                const struct cl_member *member = init_member(&init->view, init->names[i]);

                if (member != NULL && init->first[i] == 0)
                        init->first[i] = member->revision;
                if (missing == NULL && (member == NULL || member->node.drive_count == 0 || member->revision == init->first[i]))
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
                        if (view.revision > 0 && (missing == NULL || view.has_format))
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

static int init_create(struct init *init, const struct srv_settings *s, struct srv_error *error)
{
        struct eng_epoch_info epoch;

        init->create = (struct cl_create){.etcd = init->link.etcd, .cluster = s->cluster, .view = &init->view, .nodes = init->nodes, .node_count = init->count,
                                          .k = s->ec.k, .m = s->ec.m, .done = init_created, .arg = init};
        sem_init(&init->done, 0, 0);
        srv_link_call(&init->link, init_start, init);
        srv_link_wait(&init->done);
        sem_destroy(&init->done);
        if (init->create.rv != 0)
                return srv_fail(error, init->create.rv, "%s", init->create.text);
        if (eng_epoch_read(init->create.config.epoch, init->create.config.epoch_len, &epoch) == 0)
                printf("cluster %s: %u drives, erasure code %u+%u\n", s->cluster, epoch.slots, epoch.k, epoch.m);
        return 0;
}

int srv_cluster_init(const struct srv_settings *settings)
{
        static struct init init; /* it is large, and there is one */
        const struct cl_seen seen = {0};
        struct srv_error error = {""};
        int rv = init_read_nodes(&init, &settings->new_pool_nodes, &error);

        if (rv == 0)
                rv = srv_link_open(&init.link, settings, 1, 0, &seen, &error);
        if (rv == 0)
                rv = srv_link_look(&init.link, NULL, NULL, &error);
        if (rv == 0)
                rv = init_wait(&init, &error);
        if (rv == 0)
                rv = init_create(&init, settings, &error);
        srv_link_close(&init.link);
        cl_view_free(&init.view);
        if (rv != 0)
                srv_log(SRV_LOG_ERROR, "%s", error.text);
        return rv == 0 ? SRV_EXIT_DRAINED : SRV_EXIT_NOT_STARTED;
}
