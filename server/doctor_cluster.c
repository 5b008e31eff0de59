/*
 * doctor_cluster.c - see doctor_cluster.h: names, folders, secrets, and what etcd has of the cluster.
 */
#include "server/doctor_cluster.h"

#include "server/cluster_link.h"
#include "server/credentials.h"
#include "server/daemon.h"
#include "server/key_file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ETCD_WAIT_S  10u
#define ETCD_LOOK_US 100000u

static unsigned found_mends;

void srv_find(enum srv_finding finding, const char *what, const char *mend, const char *format, ...)
{
        static const char *const marks[] = {"ok", "note", "MEND"};
        char text[1024];
        va_list args;
        char *c;

        found_mends += finding == SRV_FOUND_MEND;
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        for (c = text; *c != '\0'; c++)
                if ((unsigned char)*c < ' ' || (unsigned char)*c == 127)
                        *c = '?';
        printf("%-4s  %-16s %s\n", marks[finding], what, text);
        if (mend != NULL && finding != SRV_FOUND_GOOD)
                printf("      %-16s -> %s\n", "", mend);
        fflush(stdout); /* what takes a while is shown as it comes */
}

unsigned srv_find_mends(void)
{
        return found_mends;
}

/* ---- folders and secrets --------------------------------------------------------------------- */

static void find_folder(const struct srv_settings *s, const char *path)
{
        struct cl_node_file file;
        int rv = cl_node_file_read(path, &file);

        if (access(path, F_OK) != 0)
                srv_find(SRV_FOUND_MEND, "  folder", "is the drive mounted, and the path right?", "%s: %s", path, strerror(errno));
        else if (rv == -ENOENT)
                srv_find(SRV_FOUND_GOOD, "  folder", NULL, "%s: belongs to no node yet", path);
        else if (rv != 0)
                srv_find(SRV_FOUND_MEND, "  folder", "the daemon goes by the drive's other files; ask why it cannot be read", "%s: its file NODE: %s", path, strerror(-rv));
        else if (strcmp(file.cluster, s->cluster) != 0)
                srv_find(SRV_FOUND_MEND, "  folder", "millraced refuses it: name folders of this cluster", "%s: belongs to the cluster %s", path, file.cluster);
        else if (*file.name != '\0' && strcmp(file.name, s->node) != 0)
                srv_find(SRV_FOUND_MEND, "  folder", "millraced refuses it: correct `node`, or name this node's folders", "%s: belongs to node %s", path, file.name);
        else
                srv_find(SRV_FOUND_GOOD, "  folder", NULL, "%s: %s", path, file.made ? "a drive of this node" : "is to be a drive of this node");
}

static void find_secrets(const struct srv_settings *s)
{
        struct srv_credentials credentials;
        struct srv_error error = {""};
        struct srv_keys keys;
        int rv = srv_keys_load(s, &keys, &error);

        explicit_bzero(&keys, sizeof(keys));
        if (rv == 0)
                srv_find(SRV_FOUND_GOOD, "key_file", NULL, "%s", *s->key_file != '\0' ? s->key_file : "is there");
        else if (rv == -ENOENT && *s->cluster == '\0')
                srv_find(SRV_FOUND_NOTE, "key_file", "right where root credentials never needed one: millraced --rotate-key makes one", "%s", error.text);
        else
                srv_find(SRV_FOUND_MEND, "key_file", "copy the file that the other nodes have, mode 0600", "%s", *error.text != '\0' ? error.text : strerror(-rv));
        memset(&credentials, 0, sizeof(credentials));
        rv = *s->root_credentials != '\0' ? srv_credentials_read(s->root_credentials, &credentials, &error) : -ENOENT;
        explicit_bzero(&credentials, sizeof(credentials));
        if (*s->root_credentials == '\0' && *s->cluster == '\0')
                return; /* they are on the drives, or in the environment */
        if (rv >= 0)
                srv_find(SRV_FOUND_GOOD, "root_credentials", NULL, "%s", s->root_credentials);
        else
                srv_find(SRV_FOUND_MEND, "root_credentials", "copy the file that the other nodes have, mode 0600", "%s", *s->root_credentials != '\0' ? error.text : "not given");
}

/* ---- what etcd has --------------------------------------------------------------------------- */

/* A view that was read. Negative errno, with a line. */
static int read_view(const struct srv_settings *s, struct srv_link *link, struct cl_view *view, struct srv_error *error)
{
        const struct cl_seen nothing = {0};
        uint64_t until = lp_clock() + ETCD_WAIT_S * 1000000000ull;
        char text[CL_TEXT_MAX] = "";
        int why = 0, rv = srv_link_open(link, s, 1, 0, &nothing, error);

        link->unjudged = true;
        if (rv == 0)
                rv = srv_link_look(link, NULL, NULL, error);
        while (rv == 0 && lp_clock() < until) {
                rv = srv_link_view(link, view, &why, text);
                if (rv == 0 && view->revision > 0)
                        return 0;
                if (rv == 0)
                        cl_view_free(view);
                usleep(ETCD_LOOK_US);
        }
        return rv != 0 ? rv : srv_fail(error, -ETIMEDOUT, "%s", *text != '\0' ? text : "no answer");
}

/* The name, its number, and whose address it is. */
static void find_names(const struct srv_settings *s, const struct cl_view *view)
{
        uint16_t number = cl_names_number(&view->names, s->node);
        char address[280];
        unsigned i;

        srv_address_text(&s->cluster_listen, address, sizeof(address));
        if (view->names_bad)
                srv_find(SRV_FOUND_MEND, "names", "no new node can join: millrace admin cluster reseed writes them anew", "what etcd has of names makes no sense");
        else if (number != 0)
                srv_find(SRV_FOUND_GOOD, "name", NULL, "%s is node %u", s->node, (unsigned)number);
        else
                srv_find(SRV_FOUND_NOTE, "name", "if it should have joined before, compare `node` and `cluster` with the other nodes' settings", "%s has not joined the cluster yet", s->node);
        for (i = 0; i < view->count; i++)
                if (strcmp(view->members[i].node.address, address) == 0 && strcmp(view->members[i].node.name, s->node) != 0)
                        srv_find(SRV_FOUND_MEND, "name", "give each node a cluster_listen of its own", "%s is the address of node %s", address, view->members[i].node.name);
}

/* Of one of several. */
static void find_pool(const struct srv_settings *s, const struct cl_view *view, const struct cl_pool *pool)
{
        const struct cl_member *leader = pool->is_led ? cl_view_member(view, pool->leader.node) : NULL;
        const unsigned port = s->cluster_listen.port + pool->number;

        if (pool->has_config)
                srv_find(leader != NULL ? SRV_FOUND_GOOD : SRV_FOUND_NOTE, "pool", "millrace admin cluster status says more", "%u, epoch %llu, erasure code %u+%u, led by %s", pool->number,
                         (unsigned long long)pool->config.number, pool->epoch.k, pool->epoch.m, leader != NULL ? leader->node.name : "nobody");
        if (port > 65535)
                srv_find(SRV_FOUND_MEND, "pool", "choose a lower port for cluster_listen", "its leader would listen on port %u", port);
}

static void find_cluster(const struct srv_settings *s, const struct cl_view *view)
{
        const struct cl_pool *first = cl_view_pool(view, CL_POOL);
        const struct cl_member *leader = first->is_led ? cl_view_member(view, first->leader.node) : NULL;
        unsigned i;

        if (view->has_request)
                srv_find(SRV_FOUND_MEND, "cluster", "give millrace admin cluster reseed again: it goes on", "a reseed has begun, and has not ended");
        else if (!view->has_format)
                srv_find(SRV_FOUND_NOTE, "cluster", "millrace admin cluster init makes it, or adopt, of a store of one machine; if it was made, etcd was lost: millrace admin cluster reseed", "%s has not been made, as far as etcd knows",
                         s->cluster);
        else
                srv_find(SRV_FOUND_GOOD, "cluster", NULL, "%s, generation %llu, epoch %llu, led by %s", s->cluster, (unsigned long long)view->format.generation,
                         (unsigned long long)first->config.number, leader != NULL ? leader->node.name : "nobody");
        for (i = 0; i < view->pool_count && view->pool_count > 1; i++)
                find_pool(s, view, &view->pools[i]);
        find_names(s, view);
        for (i = 0; i < view->count; i++) {
                const struct cl_member *member = &view->members[i];

                if (strcmp(member->node.name, s->node) == 0 || member->node.state == CL_NODE_GONE)
                        continue;
                srv_doctor_node(s, member);
                srv_doctor_clock(s, member);
        }
}

int srv_doctor_cluster(const struct srv_settings *settings)
{
        static struct srv_link link; /* it is large, and there is one */
        struct srv_error error = {""};
        struct cl_view view = {0};
        unsigned i;
        int rv;

        if (*settings->cluster == '\0') {
                srv_find(SRV_FOUND_GOOD, "settings", NULL, "of a store of one machine");
                srv_doctor_files(settings);
                find_secrets(settings);
                return srv_find_mends() == 0 ? SRV_EXIT_DRAINED : SRV_EXIT_FAILED;
        }
        srv_find(SRV_FOUND_GOOD, "node", NULL, "%s of the cluster %s", settings->node, settings->cluster);
        for (i = 0; i < settings->drive.count; i++)
                find_folder(settings, settings->drive.item[i]);
        srv_doctor_files(settings);
        srv_doctor_certificate(settings);
        find_secrets(settings);
        srv_doctor_etcd(settings);
        rv = read_view(settings, &link, &view, &error);
        if (rv == 0)
                find_cluster(settings, &view);
        else
                srv_find(SRV_FOUND_MEND, "etcd", "a majority of its members has to run, and be reached", "%s", error.text);
        srv_link_close(&link);
        cl_view_free(&view);
        return srv_find_mends() == 0 ? SRV_EXIT_DRAINED : SRV_EXIT_FAILED;
}
