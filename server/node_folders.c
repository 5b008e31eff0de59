/*
 * node_folders.c - see node_folders.h.
 */
#include "server/node_folders.h"

#include "server/cluster_link.h"
#include "server/daemon_log.h"
#include "server/descriptors.h"

#include "loop.h"
#include "s3_checksum.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define TRY_NS    (10ull * 1000 * 1000 * 1000) /* before what failed is tried again */
#define SETTLE_US 10000u
#define LOOK_NS   (10ull * 1000 * 1000 * 1000) /* that a start waits until one folder is there; */
#define LATE_NS   (3ull * 1000 * 1000 * 1000)  /* and for the others, if one is */
#define LOOK_STEP_US 1000u

static const uint8_t no_id[CL_ID];

/* Something is amiss with a folder: once for each thing. */
static void folder_say(struct srv_folder *folder, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void folder_say(struct srv_folder *folder, const char *format, ...)
{
        char text[sizeof(folder->said)];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        if (strcmp(text, folder->said) == 0)
                return;
        memcpy(folder->said, text, sizeof(text));
        srv_log(SRV_LOG_ERROR, "%s: %s", folder->path, text);
}

/* ---- whose they are -------------------------------------------------------------------------- */

static int refuse_folder(struct srv_error *error, const char *path, const char *why)
{
        return srv_fail(error, -EINVAL, "%.300s: %s", path, why);
}

/* It is used as if it were not there. */
static int leave_out(struct srv_folder *folder)
{
        folder->state = ENG_FOLDER_ABSENT;
        return 0;
}

static void folder_is_ours(struct srv_folder *folder, const struct srv_settings *s)
{
        snprintf(folder->file.cluster, sizeof(folder->file.cluster), "%.63s", s->cluster);
        snprintf(folder->file.name, sizeof(folder->file.name), "%.63s", s->node);
        folder->file.node = s->number;
}

/* NODE cannot be read. Of a drive of a pool FORMAT tells who it is, and the pool whether it is this node's. */
static int look_without_file(struct srv_folder *folder, const struct srv_settings *s, int rv, struct srv_error *error)
{
        memset(&folder->file, 0, sizeof(folder->file));
        if (folder->state == ENG_FOLDER_DRIVE && (folder->identity.features & ENG_FEATURE_SITES) == 0)
                return refuse_folder(error, folder->path, "is a drive of a store of one machine: stop that, and let it become a pool (millrace admin cluster adopt)");
        if (folder->state == ENG_FOLDER_DRIVE) {
                folder_say(folder, "its file %s is %s: FORMAT and the pool say whose it is", ENG_FOLDER_NODE_FILE, rv == -ENOENT ? "lost" : "damaged");
                folder_is_ours(folder, s);
                memcpy(folder->file.drive, folder->identity.drive_id, CL_ID);
                folder->file.made = true;
        } else if (rv != -ENOENT) {
                folder_say(folder, "its file %s cannot be used (%s): without it the folder is announced as a new one", ENG_FOLDER_NODE_FILE, strerror(-rv));
                return leave_out(folder);
        }
        return 0;
}

/* What NODE says must be of this node; a drive has one. */
static int look_at_file(struct srv_folder *folder, const struct srv_settings *s, struct srv_error *error)
{
        int rv = cl_node_file_read(folder->path, &folder->file);

        if (rv != 0)
                return look_without_file(folder, s, rv, error);
        if (strcmp(folder->file.cluster, s->cluster) != 0)
                return srv_fail(error, -EINVAL, "%.300s: belongs to the cluster %s, and cluster is %s", folder->path, folder->file.cluster, s->cluster);
        if (*folder->file.name != '\0' && strcmp(folder->file.name, s->node) != 0)
                return srv_fail(error, -EINVAL, "%.300s: belongs to node %s, and this is node %s", folder->path, folder->file.name, s->node);
        if (folder->file.made && s->number != 0 && folder->file.node != 0 && folder->file.node != s->number)
                return srv_fail(error, -EINVAL, "%.300s: belongs to node %u, and this is node %u", folder->path, (unsigned)folder->file.node, (unsigned)s->number);
        if (folder->state == ENG_FOLDER_DRIVE && memcmp(folder->file.drive, folder->identity.drive_id, CL_ID) != 0)
                return srv_fail(error, -EINVAL, "%.300s: its files %s and FORMAT are of two drives", folder->path, ENG_FOLDER_NODE_FILE);
        folder->file.made |= folder->state == ENG_FOLDER_DRIVE;
        if (!folder->file.made || folder->file.node == 0) /* what an earlier process wrote before it knew its number binds nothing */
                folder->file.node = s->number;
        snprintf(folder->file.name, sizeof(folder->file.name), "%.63s", s->node);
        return 0;
}

/* An empty folder gets an id, by which a new pool names it. */
static int look_at_empty(struct srv_folder *folder, const struct srv_settings *s)
{
        struct statvfs fs;
        int rv;

        folder->room = fstatvfs(folder->dir, &fs) == 0 ? (uint64_t)fs.f_blocks * fs.f_frsize : 0;
        if (memcmp(folder->file.drive, no_id, CL_ID) != 0)
                return 0;
        if (!s->format) {
                folder_say(folder, "is empty (with --format it is announced as a new folder)");
                return leave_out(folder);
        }
        folder_is_ours(folder, s);
        lp_random(folder->file.drive, CL_ID);
        rv = cl_node_file_write(folder->dir, &folder->file);
        if (rv != 0) {
                folder_say(folder, "cannot be written to: %s", strerror(-rv));
                memset(&folder->file, 0, sizeof(folder->file));
                return leave_out(folder);
        }
        return 0;
}

static int look_at_folder(struct srv_folder *folder, const struct srv_settings *s, struct srv_error *error)
{
        struct eng_error why = {""};
        int rv;

        if (folder->dir >= 0)
                close(folder->dir);
        folder->dir = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        rv = eng_folder_probe(folder->path, &folder->state, &folder->identity, &why);
        if (rv != 0)
                folder_say(folder, "cannot be used: %s", why.text);
        else if (folder->state == ENG_FOLDER_ABSENT || folder->dir < 0)
                folder_say(folder, "is not there");
        else if (folder->state == ENG_FOLDER_FOREIGN)
                folder_say(folder, "has other files, and is no drive");
        if (rv != 0 || folder->dir < 0 || folder->state == ENG_FOLDER_FOREIGN)
                return leave_out(folder);
        rv = folder->state != ENG_FOLDER_ABSENT ? look_at_file(folder, s, error) : 0;
        return rv == 0 && (folder->state == ENG_FOLDER_EMPTY || folder->state == ENG_FOLDER_PARTIAL) ? look_at_empty(folder, s) : rv;
}

/* Folders of a node have seen the same etcd: the newest of what they say counts. */
static int join_seen(struct srv_folders *folders, const struct srv_folder *folder, struct srv_error *error)
{
        const struct cl_seen *seen = &folder->file.seen;

        if (seen->cluster_id == 0)
                return 0;
        if (folder->file.fence.number > folders->fence.number)
                folders->fence = folder->file.fence;
        if (seen->generation.number > folders->seen.generation.number) { /* etcd was written anew while the others were not here */
                folders->seen = *seen;
                return 0;
        }
        if (seen->generation.number < folders->seen.generation.number)
                return 0;
        if (folders->seen.cluster_id != 0 && folders->seen.cluster_id != seen->cluster_id)
                return refuse_folder(error, folder->path, "has seen another etcd than the other folders of this node (millrace admin cluster reseed)");
        folders->seen.cluster_id = seen->cluster_id;
        folders->seen.generation = seen->generation;
        if (seen->revision > folders->seen.revision)
                folders->seen.revision = seen->revision;
        return 0;
}

static int refuse_copy(const struct srv_folders *folders, const struct srv_folder *folder, struct srv_error *error)
{
        unsigned i;

        for (i = 0; i < folders->count; i++)
                if (&folders->at[i] != folder && folders->at[i].state != ENG_FOLDER_ABSENT && memcmp(folders->at[i].file.drive, folder->file.drive, CL_ID) == 0)
                        return srv_fail(error, -EEXIST, "%.200s: is a copy of %.200s", folder->path, folders->at[i].path);
        return 0;
}

/* ---- the first look -------------------------------------------------------------------------- */

enum { LOOK_GOES_ON, LOOK_DONE, LOOK_GIVEN_UP };

/* Of one folder, by a thread of its own. owner: the thread, until `state` says that it is done; then whoever finds that out frees it. */
struct first_look {
        struct srv_folder seen; /* what it finds; of no use to anybody else before it is done */
        struct srv_folder *folder; /* job: it works, for as long as the thread does */
        const struct srv_settings *settings;
        struct srv_error error;
        int rv;
        atomic_int state;
};

static void *first_look_run(void *arg)
{
        struct first_look *look = arg;
        struct srv_folder *folder = look->folder;

        look->rv = look_at_folder(&look->seen, look->settings, &look->error);
        if (atomic_exchange(&look->state, LOOK_DONE) != LOOK_GIVEN_UP)
                return NULL;
        if (look->seen.dir >= 0) /* nobody waits for it any more: the folder is looked at once more */
                close(look->seen.dir);
        free(look);
        atomic_store(&folder->job, SRV_FOLDER_DONE);
        return NULL;
}

static int begin_thread(void *(*run)(void *arg), void *arg)
{
        pthread_attr_t attr;
        pthread_t thread;
        int rv;

        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        rv = pthread_create(&thread, &attr, run, arg);
        pthread_attr_destroy(&attr);
        return -rv;
}

/* NULL: not now; the folder is looked at later. */
static struct first_look *first_look_begin(struct srv_folder *folder, const struct srv_settings *s)
{
        struct first_look *look = calloc(1, sizeof(*look));

        if (look == NULL)
                return NULL;
        look->folder = folder;
        look->settings = s;
        look->seen = (struct srv_folder){.path = folder->path, .dir = -1, .state = ENG_FOLDER_ABSENT};
        atomic_store(&folder->job, SRV_FOLDER_WORKS);
        if (begin_thread(first_look_run, look) == 0)
                return look;
        atomic_store(&folder->job, SRV_FOLDER_IDLE);
        free(look);
        return NULL;
}

static void first_looks_wait(struct first_look *const looks[], unsigned count)
{
        uint64_t begun = lp_clock();
        unsigned i, out, there;

        do {
                for (i = out = there = 0; i < count; i++)
                        if (looks[i] != NULL && atomic_load(&looks[i]->state) == LOOK_GOES_ON)
                                out++;
                        else
                                there += looks[i] != NULL && looks[i]->seen.state != ENG_FOLDER_ABSENT;
                if (out > 0)
                        usleep(LOOK_STEP_US);
        } while (out > 0 && lp_clock() - begun < (there > 0 ? LATE_NS : LOOK_NS));
}

/* What it has found, or that it hangs. The folder is as if it were not there where nothing can be said of it. */
static int first_look_take(struct first_look *look, struct srv_folder *folder, struct srv_error *error)
{
        int rv;

        if (look == NULL)
                return 0;
        if (atomic_exchange(&look->state, LOOK_GIVEN_UP) == LOOK_GOES_ON) {
                folder_say(folder, "does not answer: it is left out until it does");
                return 0;
        }
        rv = look->rv;
        if (rv != 0)
                *error = look->error;
        folder->dir = look->seen.dir;
        folder->state = look->seen.state;
        folder->identity = look->seen.identity;
        folder->file = look->seen.file;
        memcpy(folder->said, look->seen.said, sizeof(folder->said));
        atomic_store(&folder->job, SRV_FOLDER_IDLE);
        free(look);
        return rv;
}

/* Drives know the node's number before etcd is asked. */
static int join_number(struct srv_folders *folders, const struct srv_folder *folder, struct srv_error *error)
{
        if (!folder->file.made || folder->file.node == 0)
                return 0;
        if (folders->number != 0 && folders->number != folder->file.node)
                return srv_fail(error, -EINVAL, "%.300s: belongs to node %u, and folders before it to node %u", folder->path, (unsigned)folder->file.node,
                                (unsigned)folders->number);
        folders->number = folder->file.node;
        return 0;
}

int srv_folders_look(struct srv_folders *folders, const struct srv_settings *s, struct srv_error *error)
{
        struct first_look *looks[SRV_LIST_MAX];
        struct srv_error other;
        unsigned i, there = 0;
        int rv = 0, rv_one;

        memset(folders, 0, sizeof(*folders));
        folders->settings = s;
        for (i = 0; i < s->drive.count; i++) {
                folders->at[i] = (struct srv_folder){.path = s->drive.item[i], .dir = -1, .state = ENG_FOLDER_ABSENT};
                looks[i] = first_look_begin(&folders->at[i], s);
        }
        folders->count = s->drive.count;
        first_looks_wait(looks, folders->count);
        for (i = 0; i < folders->count; i++) {
                struct srv_folder *folder = &folders->at[i];

                rv_one = first_look_take(looks[i], folder, &other);
                if (rv_one == 0 && folder->state != ENG_FOLDER_ABSENT)
                        rv_one = refuse_copy(folders, folder, &other);
                if (rv_one == 0 && folder->state != ENG_FOLDER_ABSENT)
                        rv_one = join_number(folders, folder, &other);
                if (rv_one == 0 && folder->state != ENG_FOLDER_ABSENT)
                        rv_one = join_seen(folders, folder, &other);
                there += folder->state != ENG_FOLDER_ABSENT;
                if (rv == 0 && rv_one != 0) { /* the first in their order, as far as they have answered */
                        rv = rv_one;
                        *error = other;
                }
        }
        return rv == 0 && there == 0 ? srv_fail(error, -ENOENT, "none of the folders given can be used") : rv;
}

/* ---- its slots ------------------------------------------------------------------------------- */

static bool is_blank(const struct srv_folder *folder)
{
        return folder->state == ENG_FOLDER_EMPTY || folder->state == ENG_FOLDER_PARTIAL;
}

void srv_folders_own(struct srv_folders *folders, uint16_t number)
{
        unsigned i;

        for (i = 0; i < folders->count; i++)
                if (folders->at[i].state != ENG_FOLDER_ABSENT && (!folders->at[i].file.made || folders->at[i].file.node == 0))
                        folders->at[i].file.node = number;
}

bool srv_folders_hold(const struct srv_folders *folders)
{
        unsigned i;

        for (i = 0; i < folders->count; i++)
                if (atomic_load(&folders->at[i].job) == SRV_FOLDER_IDLE && folders->at[i].state == ENG_FOLDER_DRIVE)
                        return true;
        return false;
}

void srv_folders_announce(const struct srv_folders *folders, struct cl_node *node)
{
        unsigned i;

        node->drive_count = 0;
        for (i = 0; i < folders->count; i++)
                if (is_blank(&folders->at[i]) && !folders->at[i].file.made) {
                        memcpy(node->drives[node->drive_count++], folders->at[i].file.drive, CL_ID);
                        node->room += folders->at[i].room;
                }
}

static bool is_slot_of_node(const struct cl_pool *pool, unsigned slot, uint64_t node)
{
        return (pool->epoch.gone >> slot & 1) == 0 && pool->epoch.slot[slot].site.node == node;
}

/* Which slot of the pool it is. -1: none. */
static int slot_in_pool(const struct srv_folder *folder, const struct srv_settings *s, const struct cl_pool *pool)
{
        unsigned slot;

        for (slot = 0; slot < pool->epoch.slots; slot++)
                if (is_slot_of_node(pool, slot, s->number) && memcmp(pool->epoch.slot[slot].drive_id, folder->file.drive, CL_ID) == 0)
                        return (int)slot;
        return -1;
}

/*
 * The pool that has it as a slot of this node, and which. A drive is of the store that FORMAT names. If two pools name an empty
 * folder, which only two requests at once can bring about, the first one has it. NULL: none.
 */
static const struct cl_pool *folder_pool(const struct srv_folder *folder, const struct srv_settings *s, const struct cl_view *view, unsigned *slot)
{
        const struct cl_pool *found = NULL;
        unsigned i;
        int at;

        for (i = 0; folder->state != ENG_FOLDER_ABSENT && i < view->pool_count; i++) {
                const struct cl_pool *pool = &view->pools[i];
                const bool own = folder->state == ENG_FOLDER_DRIVE && memcmp(folder->identity.store_id, pool->config.store_id, CL_ID) == 0;

                at = slot_in_pool(folder, s, pool);
                if (at < 0 || (found != NULL && !own))
                        continue;
                found = pool;
                *slot = (unsigned)at;
                if (own)
                        break;
        }
        return found;
}

/* Slots of the pool that are of this node; and those of them that a folder here holds. */
static void count_slots(const struct srv_folders *folders, const struct cl_view *view, const struct cl_pool *pool, uint64_t *ours, uint64_t *held)
{
        unsigned slot, i;

        *ours = *held = 0;
        for (slot = 0; slot < pool->epoch.slots; slot++)
                *ours |= is_slot_of_node(pool, slot, folders->settings->number) ? 1ull << slot : 0;
        for (i = 0; i < folders->count; i++)
                if (folder_pool(&folders->at[i], folders->settings, view, &slot) == pool)
                        *held |= 1ull << slot;
}

bool srv_folders_belong(const struct srv_folders *folders, const struct cl_view *view)
{
        uint64_t ours, held, all_ours = 0, all_held = 0;
        unsigned i;

        for (i = 0; i < view->pool_count; i++) {
                count_slots(folders, view, &view->pools[i], &ours, &held);
                all_ours |= ours;
                all_held |= held;
        }
        return all_ours == 0 || all_held != 0;
}

static bool folder_is_free(const struct srv_folder *folder)
{
        return atomic_load(&folder->job) != SRV_FOLDER_WORKS;
}

bool srv_folders_drained(const struct srv_folders *folders, const struct cl_view *view)
{
        bool had = false;
        unsigned i, slot;

        for (i = 0; i < folders->count; i++)
                if (!folder_is_free(&folders->at[i]) || (folders->at[i].state == ENG_FOLDER_DRIVE && cl_view_pool_of_store(view, folders->at[i].identity.store_id) == NULL))
                        return false;
        for (i = 0; i < view->pool_count; i++) {
                const struct cl_pool *pool = &view->pools[i];

                for (slot = 0; slot < pool->epoch.slots; slot++) {
                        if (is_slot_of_node(pool, slot, folders->settings->number))
                                return false;
                        had |= pool->epoch.slot[slot].site.node == folders->settings->number;
                }
        }
        return had;
}

/* ---- what a job does ------------------------------------------------------------------------- */

/* One thing that is done with a folder, by a thread of its own. Freed by it. */
struct folder_job {
        struct srv_folder *folder;
        const struct srv_settings *settings;
        struct srv_link *link; /* NULL: nobody is to be told */
        struct rem_server *server;
        bool looks, formats, opens, keeps;
        unsigned slot;
        struct cl_pool pool; /* that has it */
        char of[16];         /* that, in words */
};

/*
 * NODE says first that the folder is about to be a drive. From then on it is one: if it is empty later, what it held was lost,
 * and is not made anew, since an epoch may count on it.
 */
static void job_format(struct folder_job *job)
{
        const struct eng_epoch_info *epoch = &job->pool.epoch;
        struct srv_folder *folder = job->folder;
        struct eng_identity identity = {.slot = job->slot, .created_ms = lp_wall_ms(), .features = job->pool.epoch.features};
        bool begun = folder->state == ENG_FOLDER_PARTIAL && (memcmp(folder->identity.drive_id, folder->file.drive, CL_ID) == 0 || memcmp(folder->identity.drive_id, no_id, CL_ID) == 0);
        struct eng_error error = {""};
        int rv = 0;

        /* nothing counts on a slot that is being added: it may have been cut off before it held anything */
        if ((folder->file.made && !begun && !(epoch->adding >> job->slot & 1)) || (((epoch->in | epoch->joining) >> job->slot & 1) && epoch->number > 1)) {
                folder_say(folder, "was slot %u of %s, and is empty: what it held is lost, and it is not used", job->slot, job->of);
                return;
        }
        if (!folder->file.made) {
                folder->file.made = true;
                rv = cl_node_file_write(folder->dir, &folder->file);
                folder->file.made = rv == 0;
        }
        if (rv != 0) {
                folder_say(folder, "cannot be written to: %s", strerror(-rv));
                return;
        }
        if (job->pool.number != CL_POOL)
                identity.features |= ENG_FEATURE_POOLS;
        memcpy(identity.store_id, job->pool.config.store_id, CL_ID);
        memcpy(identity.drive_id, folder->file.drive, CL_ID);
        rv = eng_folder_format(folder->path, &identity, job->pool.config.epoch, job->pool.config.epoch_len, &error);
        if (rv == 0)
                rv = eng_folder_probe(folder->path, &folder->state, &folder->identity, &error);
        if (rv == 0)
                srv_log(SRV_LOG_INFO, "%s: is slot %u of %s now", folder->path, job->slot, job->of);
        else
                folder_say(folder, "%s", error.text);
}

static void job_open(struct folder_job *job)
{
        const struct srv_settings *s = job->settings;
        const struct srv_loops *loops = &job->link->loops;
        struct srv_folder *folder = job->folder;
        struct eng_local_options options = {.path = folder->path,
                                            .identity = folder->identity,
                                            .log_file_bytes = s->log_file_size & ~4095ull,
                                            .segment_bytes = s->segment_size & ~4095ull,
                                            .memtable_bytes = s->memtable_size,
                                            .full_reserve_bytes = s->full_reserve,
                                            .open_files = srv_descriptors_files(s, loops->count),
                                            .reclaim_rate = s->reclaim_rate};
        struct rem_served *served;
        struct eng_error error = {""};
        unsigned loop = (folder->identity.slot + job->pool.number - CL_POOL) % loops->count;
        int rv = rem_served_new(job->server, job->pool.number, folder->identity.slot, loops->loops[loop], &served);

        if (rv == 0)
                rv = rem_served_open(served, &options, &error);
        else
                served = NULL;
        if (rv == 0) {
                folder->served = served;
                folder->said[0] = '\0';
                srv_log(SRV_LOG_INFO, "%s: serves slot %u of %s", folder->path, folder->identity.slot, job->of);
                return;
        }
        folder_say(folder, "%s", *error.text != '\0' ? error.text : strerror(-rv));
        if (served != NULL && rem_served_drive(served) != NULL)
                folder->served = served; /* it was opened, and cannot be served: it is closed in the end */
        else
                rem_served_free(served);
}

static bool slot_is_its_own(const struct folder_job *job)
{
        const struct srv_folder *folder = job->folder;

        return folder->identity.slot == job->slot && memcmp(folder->identity.store_id, job->pool.config.store_id, CL_ID) == 0 &&
               memcmp(folder->identity.drive_id, folder->file.drive, CL_ID) == 0;
}

static void *folder_run(void *arg)
{
        struct folder_job *job = arg;
        struct srv_folder *folder = job->folder;
        struct srv_link *link = job->link;
        struct srv_error error = {""};
        int rv;

        if (job->looks && look_at_folder(folder, job->settings, &error) != 0) {
                folder_say(folder, "%.180s", error.text);
                leave_out(folder);
        }
        if (job->formats)
                job_format(job);
        if (job->keeps) {
                rv = cl_node_file_write(folder->dir, &folder->file);
                if (rv != 0)
                        folder_say(folder, "its file %s cannot be written: %s", ENG_FOLDER_NODE_FILE, strerror(-rv));
        }
        if (job->opens && folder->state == ENG_FOLDER_DRIVE && slot_is_its_own(job))
                job_open(job);
        else if (job->opens && folder->state == ENG_FOLDER_DRIVE)
                folder_say(folder, "is a drive of another pool, or of another slot");
        if (job->looks && folder->state != ENG_FOLDER_ABSENT)
                folder->tried = 0; /* it is there now: what is next is done at once */
        free(job);
        atomic_store(&folder->job, SRV_FOLDER_DONE);
        if (link != NULL)
                srv_link_wake(link);
        return NULL;
}

static void folder_begin(const struct folder_job *what)
{
        struct folder_job *job = malloc(sizeof(*job));
        int rv = -ENOMEM;

        if (job != NULL) {
                *job = *what;
                atomic_store(&job->folder->job, SRV_FOLDER_WORKS);
                rv = begin_thread(folder_run, job);
        }
        if (rv == 0)
                return;
        atomic_store(&what->folder->job, SRV_FOLDER_IDLE); /* it is tried again */
        free(job);
}

/* ---- what is to be done ---------------------------------------------------------------------- */

/* "the pool", where the cluster has one. */
static void pool_in_words(const struct cl_view *view, unsigned number, char out[16])
{
        if (view->pool_count > 1)
                snprintf(out, 16, "pool %u", number);
        else
                snprintf(out, 16, "the pool");
}

static void say_unheld_of(struct srv_folders *folders, const struct cl_view *view, const struct cl_pool *pool)
{
        uint64_t ours, held, *said = &folders->unheld[pool->number];
        char list[200] = "", of[16];
        unsigned slot;

        count_slots(folders, view, pool, &ours, &held);
        ours &= ~held;
        if (ours == *said)
                return;
        *said = ours;
        pool_in_words(view, pool->number, of);
        for (slot = 0; slot < 64; slot++)
                if (ours >> slot & 1)
                        snprintf(list + strlen(list), sizeof(list) - strlen(list), " %u", slot);
        if (ours != 0)
                srv_log(SRV_LOG_ERROR, "slots of %s that are this node's and in none of its folders:%s", of, list);
}

static void say_unheld(struct srv_folders *folders, const struct cl_view *view)
{
        unsigned i;

        for (i = 0; i < view->pool_count; i++)
                say_unheld_of(folders, view, &view->pools[i]);
}

/* A new one is told by its id, by which an operator names it. */
static void say_unused(struct srv_folder *folder)
{
        char id[2 * CL_ID + 1];

        s3_hex_encode(folder->file.drive, CL_ID, id);
        if (is_blank(folder))
                folder_say(folder, "is empty, and no drive of the pool: as a new folder its id is %s", id);
        else
                folder_say(folder, "is no drive of the pool, or not any more");
}

static void folder_gone(void *arg)
{
        /* it is closed with the others, when the loops have stopped */
}

/*
 * The slot has another drive by now, which is to be served in its place, or was removed. Of a pool whose key etcd lacks, by
 * whoever's mistake, nothing is known.
 */
static void withdraw_former(struct srv_folder *folder, const struct srv_settings *s, const struct cl_view *view)
{
        unsigned slot;

        if (folder->withdrawn || rem_served_drive(folder->served) == NULL || cl_view_pool_of_store(view, folder->identity.store_id) == NULL || folder_pool(folder, s, view, &slot) != NULL)
                return;
        folder->withdrawn = true;
        rem_served_withdraw(folder->served, folder_gone, NULL);
        folder_say(folder, "is no drive of the pool any more");
}

void srv_folders_work(struct srv_folders *folders, struct rem_server *server, struct srv_link *link, const struct cl_view *view)
{
        const struct srv_settings *s = folders->settings;
        uint64_t now = lp_clock();
        bool all = true;
        unsigned i;

        for (i = 0; i < folders->count; i++) {
                struct srv_folder *folder = &folders->at[i];
                struct folder_job job = {.folder = folder, .settings = s, .link = link, .server = server};
                const struct cl_pool *pool;

                if (!folder_is_free(folder)) {
                        all = false;
                        continue;
                }
                if (folder->served != NULL)
                        withdraw_former(folder, s, view);
                if (folder->served != NULL || (folder->tried != 0 && now - folder->tried < TRY_NS))
                        continue;
                pool = folder_pool(folder, s, view, &job.slot);
                if (folder->state != ENG_FOLDER_ABSENT && pool == NULL) {
                        say_unused(folder);
                        continue;
                }
                folder->tried = now;
                job.looks = folder->state == ENG_FOLDER_ABSENT;
                job.formats = is_blank(folder) && s->format;
                job.opens = pool != NULL;
                job.keeps = job.opens && folder->file.seen.generation.number == 0; /* it serves nobody before it can tell etcd from another */
                if (job.keeps)
                        folder->file.seen = folders->seen;
                if (pool != NULL) {
                        job.pool = *pool;
                        pool_in_words(view, pool->number, job.of);
                }
                folder_begin(&job);
                all = false;
        }
        if (all)
                say_unheld(folders, view);
        if (!folders->drained_told && srv_folders_drained(folders, view)) {
                srv_log(SRV_LOG_INFO, "node %s is drained: none of its drives is in the pool any more, and it may be switched off. Its name is not used again",
                        s->node);
                folders->drained_told = true;
        }
}

static bool file_says(const struct cl_node_file *file, const struct cl_seen *seen, uint64_t boot, unsigned pools, const char *switches)
{
        return memcmp(&file->seen, seen, sizeof(*seen)) == 0 && file->boot >= boot && file->pools >= pools && strcmp(file->switches, switches) == 0;
}

bool srv_folders_keep(struct srv_folders *folders, const struct cl_seen *seen, uint64_t boot, unsigned pools, const char *switches)
{
        bool all = true;
        unsigned i;

        folders->seen = *seen;
        for (i = 0; i < folders->count; i++) {
                struct srv_folder *folder = &folders->at[i];

                if (!folder_is_free(folder)) {
                        all = false;
                        continue;
                }
                if (folder->state == ENG_FOLDER_ABSENT || file_says(&folder->file, seen, boot, pools, switches))
                        continue;
                folder->file.boot = boot > folder->file.boot ? boot : folder->file.boot;
                folder->file.pools = pools > folder->file.pools ? pools : folder->file.pools;
                snprintf(folder->file.switches, sizeof(folder->file.switches), "%.255s", switches);
                folder->file.seen = *seen;
                folder_begin(&(struct folder_job){.folder = folder, .settings = folders->settings, .keeps = true});
        }
        return all;
}

bool srv_folders_settle(struct srv_folders *folders, unsigned most_ms)
{
        uint64_t begun = lp_clock();
        unsigned i;

        for (i = 0; i < folders->count; i++)
                while (!folder_is_free(&folders->at[i])) {
                        if (lp_clock() - begun >= most_ms * 1000000ull)
                                return false;
                        usleep(SETTLE_US);
                }
        return true;
}

void srv_folders_close(struct srv_folders *folders)
{
        unsigned i;

        for (i = 0; i < folders->count; i++) {
                struct srv_folder *folder = &folders->at[i];

                if (folder->served != NULL) {
                        rem_served_close(folder->served);
                        rem_served_free(folder->served);
                        folder->served = NULL;
                }
                if (folder->dir >= 0)
                        close(folder->dir);
                folder->dir = -1;
        }
}
