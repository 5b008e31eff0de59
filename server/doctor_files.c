/*
 * doctor_files.c - see doctor_cluster.h: whether the user who will run the daemon can read the files that the settings name.
 *
 * That user is whose the drives' folders are. Only root can see with another's eyes: this process is that user while it looks.
 */
#include "server/doctor_cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROUPS_MOST 256

/* Whose the first folder is that is there. False: none is. */
static bool folders_owner(const struct srv_settings *s, struct stat *st)
{
        unsigned i;

        for (i = 0; i < s->drive.count; i++)
                if (stat(s->drive.item[i], st) == 0)
                        return true;
        return false;
}

static void name_user(const struct stat *owner, char *out, size_t size)
{
        const struct passwd *user = getpwuid(owner->st_uid);

        if (user != NULL)
                snprintf(out, size, "%s", user->pw_name);
        else
                snprintf(out, size, "%u", (unsigned)owner->st_uid);
}

static int become_user(const struct stat *owner)
{
        const struct passwd *user = getpwuid(owner->st_uid);

        if ((user != NULL ? initgroups(user->pw_name, owner->st_gid) : setgroups(1, &owner->st_gid)) != 0 || setegid(owner->st_gid) != 0 || seteuid(owner->st_uid) != 0)
                return -errno;
        return 0;
}

/* root again. It can be: nothing but the effective ids were changed. */
static void become_root(gid_t group, size_t count, const gid_t *groups)
{
        if (seteuid(0) != 0 || setegid(group) != 0 || setgroups(count, groups) != 0)
                abort();
}

static void find_files(const struct srv_settings *s, const char *user)
{
        const struct {
                const char *what, *path;
        } files[] = {{"cluster_ca", s->cluster_ca},     {"cluster_cert", s->cluster_cert}, {"cluster_key", s->cluster_key}, {"key_file", s->key_file},
                     {"root_credentials", s->root_credentials}, {"etcd_ca", s->etcd_ca},   {"etcd_cert", s->etcd_cert},     {"etcd_key", s->etcd_key},
                     {"etcd_password_file", s->etcd_password_file}, {"tls_cert", s->tls_cert}, {"tls_key", s->tls_key},     {"oidc_ca_file", s->oidc_ca_file}};
        unsigned i, unread = 0;

        for (i = 0; i < sizeof(files) / sizeof(*files); i++) {
                int fd = *files[i].path != '\0' ? open(files[i].path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;

                if (fd >= 0)
                        close(fd);
                else if (*files[i].path != '\0' && errno != ENOENT) { /* what is not there is told with what it is for */
                        srv_find(SRV_FOUND_MEND, "files", "give it to the user who runs the daemon: chown", "%s: %s: the user %s, whose the drives' folders are, cannot read it: %s",
                                 files[i].what, files[i].path, user, strerror(errno));
                        unread++;
                }
        }
        if (unread == 0)
                srv_find(SRV_FOUND_GOOD, "files", NULL, "the user %s, whose the drives' folders are, can read all that the settings name", user);
}

void srv_doctor_files(const struct srv_settings *s)
{
        const gid_t group = getegid();
        gid_t groups[GROUPS_MOST];
        int count = getgroups(GROUPS_MOST, groups), rv = 0;
        struct stat owner;
        char user[64];

        if (!folders_owner(s, &owner))
                return; /* that is told of each folder */
        name_user(&owner, user, sizeof(user));
        if (owner.st_uid == geteuid()) {
                find_files(s, user);
        } else if (geteuid() != 0 || count < 0) {
                srv_find(SRV_FOUND_NOTE, "files", "run this as root, or as that user", "not looked at: the drives' folders are the user %s's, and this is another", user);
        } else {
                rv = become_user(&owner);
                if (rv == 0)
                        find_files(s, user);
                become_root(group, (size_t)count, groups);
        }
        if (rv != 0)
                srv_find(SRV_FOUND_NOTE, "files", NULL, "not looked at: cannot become the user %s: %s", user, strerror(-rv));
}
