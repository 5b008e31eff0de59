/*
 * adopt_cluster.c - `millraced --adopt-store`, which `millrace admin cluster adopt` runs: a store of one machine, stopped,
 * becomes the first pool of a new cluster, with this machine as its node (docs/design/adopt.md). It speaks to etcd and to
 * the folders alone. Main thread.
 */
#include "server/node_process.h"

#include "server/cluster_link.h"
#include "server/cluster_secrets.h"
#include "server/daemon_log.h"

#include "cluster_adopt.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ADOPT_VIEW_NS (20ull * 1000 * 1000 * 1000) /* for etcd to answer */
#define ADOPT_LOOK_US 50000u

struct adopting {
        struct srv_settings own; /* a copy, which gets the number when it is known */
        struct srv_link link;
        struct cl_view view;
        struct cl_adopt_drive drives[CL_DRIVES_MAX];
        unsigned count;
        struct eng_site site;
        struct cl_adopt_plan plan;
        struct cl_name_take name;
        struct cl_adopt adopt;
        char switches[SRV_SWITCHES_TEXT]; /* what an operator has switched on; "": nothing ever was */
        sem_t done;
};

/* ---- the folders ----------------------------------------------------------------------------- */

/*
 * One command at a time, up to its end: between its steps the folders are not locked as drives, and another with
 * another name of a node would mark them anew.
 */
static int adopt_alone(const struct adopting *a, struct srv_error *error)
{
        unsigned i;
        int dir;

        for (i = 0; i < a->own.drive.count; i++) {
                dir = open(a->own.drive.item[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* closed when the process ends */
                if (dir < 0)
                        return srv_fail(error, -errno, "%.300s: %s", a->own.drive.item[i], strerror(errno));
                if (flock(dir, LOCK_EX | LOCK_NB) != 0)
                        return srv_fail(error, -EBUSY, "%.300s: another process adopts it", a->own.drive.item[i]);
        }
        return 0;
}

/* It is a drive, of a layout that is not changed by opening it. */
static int adopt_probe(struct cl_adopt_drive *drive, struct srv_error *error)
{
        enum eng_folder_state state;
        struct cl_node_file file;
        struct eng_error why = {""};
        int rv = eng_folder_probe(drive->path, &state, &drive->identity, &why);

        if (rv != 0)
                return srv_fail(error, rv, "%.400s", why.text);
        if (state != ENG_FOLDER_DRIVE)
                return srv_fail(error, -ENOENT, "%.300s: %s: give the folders of the store, and all of them", drive->path,
                                state == ENG_FOLDER_ABSENT ? "is not there" : "is no drive of a store");
        if (drive->identity.layout < ENG_LAYOUT)
                return srv_fail(error, -EPROTO, "%.300s: is of layout %u, and clusters have layout %u: start the store once with --upgrade", drive->path, drive->identity.layout, ENG_LAYOUT);
        drive->generation = 0;
        drive->node[0] = '\0';
        if (cl_node_file_read(drive->path, &file) != 0)
                return 0;
        snprintf(drive->node, sizeof(drive->node), "%s", file.name);
        drive->generation = file.seen.generation.number > file.fence.number ? file.seen.generation.number : file.fence.number;
        return 0;
}

/* Whose FORMAT is. False: there is none. */
static bool adopt_owner(const char *path, struct stat *st)
{
        char name[PATH_MAX];

        return snprintf(name, sizeof(name), "%s/FORMAT", path) < (int)sizeof(name) && stat(name, st) == 0;
}

/*
 * An operator may be root, and the daemon another user, who could not open files of root's: from here on this process is
 * that user. Where a FORMAT is root's, the daemon is, too.
 */
static int adopt_as_owner(const struct adopting *a, struct srv_error *error)
{
        const struct passwd *user;
        struct stat st, first;
        bool found = false;
        unsigned i;

        for (i = 0; geteuid() == 0 && i < a->own.drive.count; i++) {
                if (!adopt_owner(a->own.drive.item[i], &st))
                        continue;
                if (st.st_uid == 0)
                        return 0;
                if (found && (st.st_uid != first.st_uid || st.st_gid != first.st_gid))
                        return srv_fail(error, -EPERM, "%.300s: FORMAT is of another user or group than those of other folders", a->own.drive.item[i]);
                first = st;
                found = true;
        }
        if (!found)
                return 0;
        user = getpwuid(first.st_uid);
        if ((user != NULL ? initgroups(user->pw_name, first.st_gid) : setgroups(1, &first.st_gid)) != 0 || setegid(first.st_gid) != 0 || seteuid(first.st_uid) != 0)
                return srv_fail(error, -errno, "cannot become user %u, whose the drives are: %s", (unsigned)first.st_uid, strerror(errno));
        return 0;
}

/* What each drive says; it is opened for that, and closed again. */
static int adopt_ask(struct adopting *a, struct srv_error *error)
{
        const struct srv_settings *s = &a->own;
        unsigned i;
        int rv = 0;

        if (s->drive.count > CL_DRIVES_MAX)
                return srv_fail(error, -EINVAL, "drive: a pool has at most %u drives", CL_DRIVES_MAX);
        a->count = s->drive.count;
        for (i = 0; rv == 0 && i < a->count; i++) {
                a->drives[i].path = s->drive.item[i];
                rv = adopt_probe(&a->drives[i], error);
        }
        for (i = 0; rv == 0 && i < a->count; i++) {
                struct eng_local_options options = {.path = a->drives[i].path, .identity = a->drives[i].identity, .log_file_bytes = s->log_file_size & ~4095ull,
                                                    .segment_bytes = s->segment_size & ~4095ull, .memtable_bytes = s->memtable_size, .full_reserve_bytes = s->full_reserve};
                struct eng_error why = {""};

                rv = rem_drive_ask(&options, NULL, NULL, NULL, &a->drives[i].known, &why);
                if (rv != 0)
                        srv_fail(error, rv, "%.400s%s", why.text, rv == -EBUSY ? ": stop the store first" : "");
        }
        return rv;
}

/* ---- secrets --------------------------------------------------------------------------------- */

/* The settings have what a node needs, and what the store's users are sealed with. */
static int adopt_check_secrets(const struct adopting *a, struct srv_error *error)
{
        static const uint8_t no_cluster[CL_ID];
        struct srv_credentials given = {.access_key = ""}, kept = given;
        struct net_secrets secrets;
        int rv = srv_secrets_digest(&a->own, no_cluster, &secrets, error);

        if (rv == 0)
                rv = srv_link_check_files(&a->own, error);
        if (rv != 0)
                return rv;
        rv = srv_credentials_on_drives(&a->own, &kept, error);
        if (rv == -ENOENT) /* they came from elsewhere */
                return 0;
        if (rv == 0)
                rv = srv_credentials_read(a->own.root_credentials, &given, error);
        if (rv == 0 && (strcmp(given.access_key, kept.access_key) != 0 || strcmp(given.secret_key, kept.secret_key) != 0))
                rv = srv_fail(error, -EINVAL, "%.200s: has other root credentials than the drives: put there what millraced --show-credentials prints", a->own.root_credentials);
        explicit_bzero(&given, sizeof(given));
        explicit_bzero(&kept, sizeof(kept));
        return rv;
}

/* ---- etcd ------------------------------------------------------------------------------------ */

/* What etcd has, not older than that revision. */
static int adopt_read_view(struct adopting *a, int64_t revision, struct srv_error *error)
{
        uint64_t until = lp_clock() + ADOPT_VIEW_NS;
        char text[CL_TEXT_MAX] = "";
        int why = 0;

        do {
                cl_view_free(&a->view);
                memset(&a->view, 0, sizeof(a->view));
                if (srv_link_view(&a->link, &a->view, &why, text) != 0)
                        return srv_fail(error, -ENOMEM, "out of memory");
                if (why == 0 && a->view.revision > 0 && a->view.revision >= revision)
                        return 0;
                if (why == -EBADMSG)
                        return srv_fail(error, why, "%s", text);
                usleep(ADOPT_LOOK_US);
        } while (lp_clock() < until);
        return srv_fail(error, -ETIMEDOUT, "etcd does not answer%s%s", *text != '\0' ? ": " : "", text);
}

static void adopt_named(struct cl_name_take *take)
{
        sem_post(&((struct adopting *)take->arg)->done);
}

static void begin_adopt_name(void *arg)
{
        cl_name_take(&((struct adopting *)arg)->name);
}

/* dry: the number that it would get. */
static int adopt_take_number(struct adopting *a, bool dry, struct srv_error *error)
{
        uint16_t number = cl_names_number(&a->view.names, a->own.node);

        if (number == 0 && dry)
                number = cl_names_choose(&a->view, a->own.node);
        if (number == 0) {
                a->name = (struct cl_name_take){.etcd = a->link.etcd, .cluster = a->own.cluster, .name = a->own.node, .view = &a->view, .done = adopt_named, .arg = a};
                srv_link_call(&a->link, begin_adopt_name, a);
                srv_link_wait(&a->done);
                if (a->name.rv != 0)
                        return srv_fail(error, a->name.rv, "%s", *a->name.text != '\0' ? a->name.text : "another node got its number at the same time: give the command again");
                number = a->name.number;
        }
        a->own.number = number;
        a->site = (struct eng_site){.node = number, .rack = srv_cluster_rack(&a->own)};
        return 0;
}

static void adopt_put_over(struct cl_adopt *adopt)
{
        sem_post(&((struct adopting *)adopt->arg)->done);
}

static void begin_claim(void *arg)
{
        cl_adopt_claim(&((struct adopting *)arg)->adopt);
}

static void begin_end(void *arg)
{
        cl_adopt_end(&((struct adopting *)arg)->adopt);
}

static int adopt_run(struct adopting *a, void (*begin)(void *arg), struct srv_error *error)
{
        srv_link_call(&a->link, begin, a);
        srv_link_wait(&a->done);
        return a->adopt.rv == 0 ? 0 : srv_fail(error, a->adopt.rv, "%s", a->adopt.text);
}

/* ---- the steps ------------------------------------------------------------------------------- */

/* What the drives say now becomes the plan, judged by what etcd has. An enum cl_adopt_found, or an error with a line. */
static int adopt_look(struct adopting *a, struct srv_error *error)
{
        char text[CL_TEXT_MAX];
        int rv = adopt_ask(a, error);

        if (rv != 0)
                return rv;
        cl_adopt_plan(a->drives, a->count, &a->site, &a->plan);
        if (a->plan.rv != 0)
                return srv_fail(error, a->plan.rv, "%s", a->plan.text);
        rv = cl_adopt_look(&a->plan, &a->view, text);
        if (rv >= 0 && rv != CL_ADOPT_DONE && cl_adopt_check_node(a->drives, a->count, a->own.node, a->link.address, &a->view, text) != 0)
                rv = -EEXIST;
        return rv >= 0 ? rv : srv_fail(error, rv, "%s", text);
}

static void adopt_show(const struct adopting *a)
{
        const struct eng_epoch_info *epoch = &a->plan.epoch;
        unsigned slot;

        printf("cluster %s, pool 1: the %u drives of this store, erasure code %u+%u, epoch %llu\n", a->own.cluster, a->count, epoch->k, epoch->m, (unsigned long long)epoch->number);
        printf("node    %s, number %u, rack %u: all of them lie there\n", a->own.node, (unsigned)a->site.node, (unsigned)a->site.rack);
        for (slot = 0; slot < epoch->slots; slot++)
                if (a->plan.missing >> slot & 1)
                        printf("slot %u  its drive is not here: the pool begins without it; replace it then (millrace admin drive replace)\n", slot);
        if (epoch->m == 1)
                printf("While a drive is away, groups of names of which it had one of the two copies take no changes: a code with M of 2 at least has spare ones.\n");
        if (a->plan.marked)
                printf("It has been begun: the folders are marked already.\n");
        else
                printf("From then on no millraced opens them without the settings of this cluster, and there is no way back.\n");
}

/* Step 3: the name of the cluster is this store's. */
static int adopt_claim(struct adopting *a, struct srv_error *error)
{
        a->adopt = (struct cl_adopt){.etcd = a->link.etcd, .cluster = a->own.cluster, .view = &a->view, .plan = &a->plan, .done = adopt_put_over, .arg = a};
        return adopt_run(a, begin_claim, error);
}

static int adopt_mark(struct adopting *a, struct srv_error *error)
{
        struct cl_node_file as = {.node = a->own.number, .made = true};
        struct eng_error why = {""};
        int rv;

        snprintf(as.cluster, sizeof(as.cluster), "%.63s", a->own.cluster);
        snprintf(as.name, sizeof(as.name), "%.63s", a->own.node);
        rv = cl_adopt_mark(a->drives, a->count, &as, &why);
        return rv == 0 ? 0 : srv_fail(error, rv, "%.400s", why.text);
}

/* What an operator had switched on stays so. Nobody leads yet. */
static int adopt_keep_switches(struct adopting *a, struct srv_error *error)
{
        int rv = *a->switches != '\0' ? srv_link_put(&a->link, "switches", a->switches, 0) : 0;

        return rv == 0 ? 0 : srv_fail(error, rv, "etcd does not take the switches: %s", strerror(-rv));
}

/* From step 3 on. */
static int adopt_do(struct adopting *a, struct srv_error *error)
{
        const uint64_t generation = a->plan.generation; /* folders forget theirs */
        int rv = adopt_claim(a, error);

        if (rv == 0)
                rv = adopt_mark(a, error);
        if (rv == 0)
                rv = adopt_read_view(a, a->adopt.config_revision, error);
        if (rv == 0) {
                rv = adopt_look(a, error);
                a->plan.generation = generation > a->plan.generation ? generation : a->plan.generation;
                rv = rv == CL_ADOPT_DONE ? srv_fail(error, -EEXIST, "somebody else has made the cluster meanwhile: give the command again") : rv < 0 ? rv : 0;
        }
        if (rv == 0)
                rv = adopt_claim(a, error);
        if (rv == 0)
                rv = adopt_keep_switches(a, error);
        return rv == 0 ? adopt_run(a, begin_end, error) : rv;
}

static int adopt_store(struct adopting *a, struct srv_error *error)
{
        const bool doit = a->own.adopt_yes;
        const struct cl_seen nothing = {0};
        int rv = srv_link_open(&a->link, &a->own, 1, 0, &nothing, error);

        if (rv == 0)
                rv = srv_link_look(&a->link, NULL, NULL, error);
        if (rv == 0)
                rv = adopt_check_secrets(a, error);
        if (rv == 0)
                rv = adopt_as_owner(a, error);
        if (rv == 0)
                rv = adopt_alone(a, error);
        if (rv == 0)
                rv = srv_switches_on_drives(&a->own.drive, a->switches, error);
        if (rv == 0)
                rv = adopt_read_view(a, 0, error);
        if (rv == 0)
                rv = adopt_take_number(a, true, error);
        if (rv == 0)
                rv = adopt_look(a, error);
        if (rv == CL_ADOPT_DONE) {
                printf("The store is a pool of the cluster %s already: start millraced.\n", a->own.cluster);
                return 0;
        }
        if (rv < 0)
                return rv;
        adopt_show(a);
        if (!doit) {
                printf("Nothing was done. With --yes it is done.\n");
                return 0;
        }
        rv = adopt_take_number(a, false, error);
        if (rv == 0) /* by the number that it has got */
                cl_adopt_plan(a->drives, a->count, &a->site, &a->plan);
        if (rv == 0)
                rv = adopt_do(a, error);
        if (rv == 0)
                printf("The store is pool 1 of the cluster %s: start millraced with these settings; then add nodes (millrace admin cluster node add)\n", a->own.cluster);
        return rv;
}

int srv_cluster_adopt(const struct srv_settings *settings)
{
        static struct adopting a; /* it is large, and there is one */
        struct srv_error error = {""};
        int rv;

        a.own = *settings;
        sem_init(&a.done, 0, 0);
        rv = adopt_store(&a, &error);
        srv_link_close(&a.link);
        cl_view_free(&a.view);
        if (rv < 0)
                srv_log(SRV_LOG_ERROR, "%s", error.text);
        fflush(stdout);
        return rv >= 0 ? SRV_EXIT_DRAINED : SRV_EXIT_NOT_STARTED;
}
