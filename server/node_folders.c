/*
 * node_folders.c - see node_folders.h.
 */
#include "server/node_folders.h"

#include "server/daemon_log.h"
#include "server/descriptors.h"

#include "loop.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static const uint8_t no_id[CL_ID];

/* ---- whose they are -------------------------------------------------------------------------- */

static int refuse_folder(struct srv_error *error, const char *path, const char *why)
{
        return srv_fail(error, -EINVAL, "%.300s: %s", path, why);
}

/* What NODE says must be of this node; a drive has one. */
static int look_at_file(struct srv_folder *folder, const struct srv_settings *s, struct srv_error *error)
{
        int rv = cl_node_file_read(folder->path, &folder->file);

        if (rv == -ENOENT)
                return folder->state == ENG_FOLDER_DRIVE ? refuse_folder(error, folder->path, "is a drive of a store of one machine, or its file NODE is lost") : 0;
        if (rv != 0)
                return srv_fail(error, rv, "%.300s/%s: %s", folder->path, ENG_FOLDER_NODE_FILE, rv == -EBADMSG ? "is damaged" : strerror(-rv));
        if (strcmp(folder->file.cluster, s->cluster) != 0)
                return srv_fail(error, -EINVAL, "%.300s: belongs to the cluster %s, and cluster is %s", folder->path, folder->file.cluster, s->cluster);
        if (folder->file.node != s->node)
                return srv_fail(error, -EINVAL, "%.300s: belongs to node %u, and this is node %u", folder->path, (unsigned)folder->file.node, (unsigned)s->node);
        if (folder->state == ENG_FOLDER_DRIVE && memcmp(folder->file.drive, folder->identity.drive_id, CL_ID) != 0)
                return srv_fail(error, -EINVAL, "%.300s: its files %s and FORMAT are of two drives", folder->path, ENG_FOLDER_NODE_FILE);
        return 0;
}

/* An empty folder gets an id, by which a new pool names it. */
static int look_at_empty(struct srv_folder *folder, const struct srv_settings *s, struct srv_error *error)
{
        int rv;

        if (memcmp(folder->file.drive, no_id, CL_ID) != 0)
                return 0;
        if (!s->format)
                return refuse_folder(error, folder->path, "is empty (--format makes it a drive when the pool takes it in)");
        snprintf(folder->file.cluster, sizeof(folder->file.cluster), "%s", s->cluster);
        folder->file.node = (uint16_t)s->node;
        lp_random(folder->file.drive, CL_ID);
        rv = cl_node_file_write(folder->path, &folder->file);
        return rv == 0 ? 0 : srv_fail(error, rv, "%.300s: cannot be written to: %s", folder->path, strerror(-rv));
}

static int look_at_folder(struct srv_folder *folder, const struct srv_settings *s, struct srv_error *error)
{
        struct eng_error why = {""};
        int rv = eng_folder_probe(folder->path, &folder->state, &folder->identity, &why);

        if (rv != 0) { /* as one that is missing: the others go on */
                srv_log(SRV_LOG_ERROR, "%s", why.text);
                folder->state = ENG_FOLDER_ABSENT;
                return 0;
        }
        if (folder->state == ENG_FOLDER_ABSENT) {
                srv_log(SRV_LOG_ERROR, "%s: is not there", folder->path);
                return 0;
        }
        if (folder->state == ENG_FOLDER_FOREIGN)
                return refuse_folder(error, folder->path, "has other files, and is no drive");
        rv = look_at_file(folder, s, error);
        return rv == 0 && folder->state != ENG_FOLDER_DRIVE ? look_at_empty(folder, s, error) : rv;
}

/* Folders of a node have seen the same etcd: the newest of what they say counts. */
static int join_seen(struct srv_folders *folders, const struct srv_folder *folder, struct srv_error *error)
{
        const struct cl_seen *seen = &folder->file.seen;

        if (seen->cluster_id == 0)
                return 0;
        if (folders->seen.cluster_id != 0 && folders->seen.cluster_id != seen->cluster_id)
                return refuse_folder(error, folder->path, "has seen another etcd than the other folders of this node (millrace admin cluster reseed)");
        folders->seen.cluster_id = seen->cluster_id;
        if (seen->generation.number > folders->seen.generation.number)
                folders->seen.generation = seen->generation;
        if (seen->revision > folders->seen.revision)
                folders->seen.revision = seen->revision;
        return 0;
}

int srv_folders_look(struct srv_folders *folders, const struct srv_settings *s, struct srv_error *error)
{
        unsigned i, k;
        int rv = 0;

        memset(folders, 0, sizeof(*folders));
        for (i = 0; i < s->drive.count && rv == 0; i++) {
                struct srv_folder *folder = &folders->at[folders->count++];

                folder->path = s->drive.item[i];
                rv = look_at_folder(folder, s, error);
                for (k = 0; k < i && rv == 0 && folder->state != ENG_FOLDER_ABSENT; k++)
                        if (memcmp(folders->at[k].file.drive, folder->file.drive, CL_ID) == 0)
                                rv = srv_fail(error, -EEXIST, "%.200s: is a copy of %.200s", folder->path, folders->at[k].path);
                if (rv == 0)
                        rv = join_seen(folders, folder, error);
        }
        return rv;
}

int srv_folders_refuse_cluster(const struct srv_settings *s, struct srv_error *error)
{
        enum eng_folder_state state;
        struct eng_identity identity;
        struct cl_node_file file;
        unsigned i;
        int rv;

        for (i = 0; i < s->drive.count; i++) {
                rv = cl_node_file_read(s->drive.item[i], &file);
                if (rv == 0)
                        return srv_fail(error, -EINVAL, "%.300s: belongs to node %u of the cluster %s (--cluster, --node)", s->drive.item[i], (unsigned)file.node,
                                        file.cluster);
                if (rv == -EBADMSG)
                        return srv_fail(error, rv, "%.300s: belongs to a cluster, and its file %s is damaged", s->drive.item[i], ENG_FOLDER_NODE_FILE);
                if (eng_folder_probe(s->drive.item[i], &state, &identity, NULL) == 0 && state == ENG_FOLDER_DRIVE && (identity.features & ENG_FEATURE_SITES))
                        return refuse_folder(error, s->drive.item[i], "belongs to a cluster's pool, and its file NODE is lost");
        }
        return 0;
}

int srv_folders_seen(const struct srv_settings *s, struct cl_seen *out, struct srv_error *error)
{
        struct srv_folders folders = {.count = 0};
        struct srv_folder folder;
        unsigned i;
        int rv = 0;

        for (i = 0; i < s->drive.count && rv == 0; i++) {
                folder = (struct srv_folder){.path = s->drive.item[i]};
                if (cl_node_file_read(folder.path, &folder.file) == 0)
                        rv = join_seen(&folders, &folder, error);
        }
        *out = folders.seen;
        return rv;
}

void srv_folders_announce(const struct srv_folders *folders, struct cl_node *node)
{
        unsigned i;

        node->drive_count = 0;
        for (i = 0; i < folders->count; i++)
                if (folders->at[i].state == ENG_FOLDER_EMPTY || folders->at[i].state == ENG_FOLDER_PARTIAL)
                        memcpy(node->drives[node->drive_count++], folders->at[i].file.drive, CL_ID);
}

/* ---- formatting ------------------------------------------------------------------------------ */

static int folder_slot(const struct srv_folder *folder, const struct srv_settings *s, const struct cl_view *view)
{
        unsigned slot;

        for (slot = 0; slot < view->epoch.slots; slot++)
                if ((view->epoch.gone >> slot & 1) == 0 && view->epoch.slot[slot].site.node == s->node && memcmp(view->epoch.slot[slot].drive_id, folder->file.drive, CL_ID) == 0)
                        return (int)slot;
        return -1;
}

/*
 * A drive that an epoch counts on had that epoch's record before the epoch was in force. So one that is empty, and is
 * counted on by any but the pool's first, was lost; it is not made anew.
 */
static void format_folder(struct srv_folder *folder, unsigned slot, const struct cl_view *view)
{
        struct eng_identity identity = {.slot = slot, .created_ms = lp_wall_ms(), .features = view->epoch.features};
        struct eng_error error = {""};
        int rv;

        if ((view->epoch.in >> slot & 1) && view->epoch.number > 1) {
                if (!folder->told)
                        srv_log(SRV_LOG_ERROR, "%s: is empty, and the pool counts on it as slot %u: what it held is lost", folder->path, slot);
                folder->told = true;
                return;
        }
        memcpy(identity.store_id, view->config.store_id, CL_ID);
        memcpy(identity.drive_id, folder->file.drive, CL_ID);
        rv = eng_folder_format(folder->path, &identity, view->config.epoch, view->config.epoch_len, &error);
        if (rv == 0)
                rv = eng_folder_probe(folder->path, &folder->state, &folder->identity, &error);
        if (rv == 0)
                srv_log(SRV_LOG_INFO, "%s: is slot %u of the pool now", folder->path, slot);
        else
                srv_log(SRV_LOG_ERROR, "%s", error.text);
}

void srv_folders_format(struct srv_folders *folders, const struct srv_settings *s, const struct cl_view *view)
{
        unsigned i;

        for (i = 0; i < folders->count; i++) {
                struct srv_folder *folder = &folders->at[i];
                int slot = folder_slot(folder, s, view);

                if (slot >= 0 && (folder->state == ENG_FOLDER_EMPTY || folder->state == ENG_FOLDER_PARTIAL))
                        format_folder(folder, (unsigned)slot, view);
        }
}

/* ---- serving --------------------------------------------------------------------------------- */

/* One opening. owner: its thread, then who joins it. */
struct opening {
        struct srv_folder *folder;
        struct eng_local_options options;
        struct eng_error error;
        pthread_t thread;
        bool begun;
        int rv;
};

static void *folder_open(void *arg)
{
        struct opening *o = arg;

        o->rv = rem_served_open(o->folder->served, &o->options, &o->error);
        return NULL;
}

static void folder_begin(struct opening *o, const struct srv_settings *s, struct rem_server *server, const struct srv_loops *loops)
{
        struct srv_folder *folder = o->folder;

        o->options = (struct eng_local_options){.path = folder->path,
                                                .identity = folder->identity,
                                                .log_file_bytes = s->log_file_size & ~4095ull,
                                                .segment_bytes = s->segment_size & ~4095ull,
                                                .memtable_bytes = s->memtable_size,
                                                .full_reserve_bytes = s->full_reserve,
                                                .open_files = srv_descriptors_files(s, loops->count),
                                                .reclaim_rate = s->reclaim_rate};
        o->rv = rem_served_new(server, CL_POOL, folder->identity.slot, loops->loops[folder->identity.slot % loops->count], &folder->served);
        if (o->rv == 0)
                o->rv = -pthread_create(&o->thread, NULL, folder_open, o);
        o->begun = o->rv == 0;
}

static void folder_end(struct opening *o)
{
        struct srv_folder *folder = o->folder;

        if (o->begun)
                pthread_join(o->thread, NULL);
        if (o->rv == 0) {
                srv_log(SRV_LOG_INFO, "%s: serves slot %u of the pool", folder->path, folder->identity.slot);
                folder->told = false;
                return;
        }
        if (!folder->told)
                srv_log(SRV_LOG_ERROR, "%s: %s", folder->path, *o->error.text != '\0' ? o->error.text : strerror(-o->rv));
        folder->told = true;
        if (folder->served == NULL || rem_served_drive(folder->served) != NULL)
                return; /* it was opened, and cannot be served: it is closed in the end */
        rem_served_free(folder->served);
        folder->served = NULL;
}

/* What the pool has in that slot is this very drive. */
static bool is_slot(struct srv_folder *folder, const struct srv_settings *s, const struct cl_view *view)
{
        int slot = folder_slot(folder, s, view);
        bool is = slot >= 0 && (unsigned)slot == folder->identity.slot && memcmp(folder->identity.store_id, view->config.store_id, CL_ID) == 0;

        if (!is && !folder->told)
                srv_log(SRV_LOG_WARNING, "%s: is no drive of the pool, or not any more", folder->path);
        folder->told |= !is;
        return is;
}

void srv_folders_serve(struct srv_folders *folders, const struct srv_settings *s, struct rem_server *server, const struct srv_loops *loops,
                       const struct cl_view *view)
{
        static struct opening openings[SRV_LIST_MAX];
        unsigned count = 0, i;

        for (i = 0; i < folders->count; i++) {
                struct srv_folder *folder = &folders->at[i];

                if (folder->state != ENG_FOLDER_DRIVE || folder->served != NULL || !is_slot(folder, s, view))
                        continue;
                openings[count] = (struct opening){.folder = folder};
                folder_begin(&openings[count++], s, server, loops);
        }
        for (i = 0; i < count; i++)
                folder_end(&openings[i]);
}

/* ---- what was seen --------------------------------------------------------------------------- */

void srv_folders_keep(struct srv_folders *folders, const struct cl_seen *seen)
{
        unsigned i;
        int rv;

        if (memcmp(&folders->seen, seen, sizeof(*seen)) == 0)
                return;
        folders->seen = *seen;
        for (i = 0; i < folders->count; i++) {
                struct srv_folder *folder = &folders->at[i];

                if (folder->state == ENG_FOLDER_ABSENT)
                        continue;
                folder->file.seen = *seen;
                rv = cl_node_file_write(folder->path, &folder->file);
                if (rv != 0)
                        srv_log(SRV_LOG_WARNING, "%s/%s: cannot be written: %s", folder->path, ENG_FOLDER_NODE_FILE, strerror(-rv));
        }
}

void srv_folders_close(struct srv_folders *folders)
{
        unsigned i;

        for (i = 0; i < folders->count; i++) {
                struct srv_folder *folder = &folders->at[i];

                if (folder->served == NULL)
                        continue;
                rem_served_close(folder->served);
                rem_served_free(folder->served);
                folder->served = NULL;
        }
}
