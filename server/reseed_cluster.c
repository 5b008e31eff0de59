/*
 * reseed_cluster.c - `millraced --reseed-cluster`, which `millrace admin cluster reseed` runs: writes etcd anew from what
 * the nodes report. It speaks to etcd alone.
 */
#include "server/node_reseed.h"

#include "server/daemon.h"

#include "server/cluster_link.h"
#include "server/daemon_log.h"

#include "cluster_reseed.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#define DRY_WAIT_MS 5000u

struct reseeding {
        struct srv_link link;
        struct cl_reseed reseed;
        struct cl_reseed_wish wish;
        sem_t done;
};

/* "3": a node; "slot:5", or "slot:2/5": of the first pool, or of pool 2. */
static int wish_add(struct cl_reseed_wish *wish, const char *word, struct srv_error *error)
{
        bool slot = strncmp(word, "slot:", 5) == 0;
        const char *digits = slot ? word + 5 : word;
        unsigned long number, pool = CL_POOL;
        char *end;

        number = strtoul(digits, &end, 10);
        if (slot && *end == '/' && end[1] >= '0' && end[1] <= '9') {
                pool = number;
                number = strtoul(end + 1, &end, 10);
        }
        if (*digits < '0' || *digits > '9' || *end != '\0' || pool < CL_POOL || pool > CL_POOLS_MAX || (slot ? number >= ENG_DRIVES_MAX : number < 1 || number > CL_NODE_LAST))
                return srv_fail(error, -EINVAL, "reseed_without: '%.100s' is neither the number of a node nor slot:N, slot:POOL/N", word);
        if (slot) {
                wish->slots[pool] |= 1ull << number;
                return 0;
        }
        if (wish->node_count == CL_NODE_LAST)
                return srv_fail(error, -EINVAL, "reseed_without: too many nodes");
        wish->nodes[wish->node_count++] = (uint16_t)number;
        return 0;
}

static int wish_read(struct cl_reseed_wish *wish, const struct srv_list *list, struct srv_error *error)
{
        char copy[SRV_VALUE_MAX + 1], *word, *rest;
        unsigned i;
        int rv = 0;

        for (i = 0; i < list->count && rv == 0; i++) {
                snprintf(copy, sizeof(copy), "%s", list->item[i]);
                for (word = strtok_r(copy, ", ", &rest); word != NULL && rv == 0; word = strtok_r(NULL, ", ", &rest))
                        rv = wish_add(wish, word, error);
        }
        return rv;
}

static void reseed_says(void *arg, const char *text)
{
        srv_log(SRV_LOG_INFO, "%s", text);
}

static void reseed_ended(struct cl_reseed *reseed)
{
        sem_post(&((struct reseeding *)reseed->arg)->done);
}

static void begin_reseed(void *arg)
{
        cl_reseed(&((struct reseeding *)arg)->reseed);
}

static void print_plan(const struct cl_reseed_plan *plan)
{
        unsigned i;

        for (i = 0; i < plan->line_count; i++)
                printf("%s\n", plan->lines[i]);
}

int srv_cluster_reseed(const struct srv_settings *settings)
{
        static struct reseeding r; /* it is large, and there is one */
        const struct cl_seen nothing = {0};
        struct srv_error error = {""};
        int rv = wish_read(&r.wish, &settings->reseed_without, &error);

        if (rv == 0)
                rv = srv_link_open(&r.link, settings, 1, 0, &nothing, &error);
        if (rv == 0) {
                r.reseed = (struct cl_reseed){.etcd = r.link.etcd, .cluster = settings->cluster, .wish = &r.wish, .doit = settings->reseed_yes,
                                              .wait_ms = settings->reseed_yes ? 0 : DRY_WAIT_MS, .waits = reseed_says, .done = reseed_ended, .arg = &r};
                sem_init(&r.done, 0, 0);
                srv_link_call(&r.link, begin_reseed, &r);
                srv_link_wait(&r.done);
                sem_destroy(&r.done);
                rv = r.reseed.rv;
                print_plan(&r.reseed.plan);
                if (rv != 0)
                        srv_fail(&error, rv, "nothing was written: %s", r.reseed.text);
                else if (!settings->reseed_yes)
                        printf("Nothing was done. With --yes etcd is written so; all nodes fence their drives first.\n");
                else
                        printf("cluster %s: etcd was written anew, generation %llu; the nodes go on by themselves\n", settings->cluster,
                               (unsigned long long)r.reseed.format.generation);
        }
        srv_link_close(&r.link);
        cl_reseed_free(&r.reseed);
        if (rv != 0)
                srv_log(SRV_LOG_ERROR, "%s", error.text);
        return rv == 0 ? SRV_EXIT_DRAINED : SRV_EXIT_NOT_STARTED;
}
