/*
 * switches.c - read-only and maintenance: in force in the gateway, kept on the drives.
 *
 * They belong to the store, so they are kept where it is: in a small file in the folder of each
 * drive that is in use, with a generation; the newest that is found counts. So a drive that was
 * away, or a crash between two drives, changes nothing, and they come along when drives move to
 * another machine. There is no such file until something was switched for the first time. A cluster's
 * are one text in etcd.
 *
 * A drive that hangs must hold up neither the start nor the admin listener: each drive's file is
 * read or written by a thread of its own, which is left behind when it does not come back. What is
 * on can be asked for and set by any thread.
 */
#include "server/switches.h"

#include "server/key_file.h"
#include "server/daemon_log.h"
#include "server/lead.h"

#include "engine.h"
#include "gateway.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WAIT_S    5
#define SETTLE_MS 3000u /* less than a node waits for the leader's answer */
#define TEXT_SIZE SRV_SWITCHES_TEXT
#define ETCD_KEY  "switches"

/* What a file says. generation 0: nothing was ever switched. */
struct kept {
        uint64_t generation;
        bool on[SRV_SWITCH_COUNT];
};

struct srv_switches {
        struct eng_store *store;
        struct gw_gateway *gateway;
        struct srv_lead *lead; /* NULL: not in a cluster */
        bool by_setting[SRV_SWITCH_COUNT];
        pthread_mutex_t lock; /* over the members below */
        struct kept now;
        uint64_t stored; /* the newest generation that a drive has for sure */
};

/* One file read or written on each of several drives. Freed by the last who knows it. */
struct round {
        pthread_mutex_t lock; /* over the members below */
        pthread_cond_t moved;
        unsigned users, pending, done;
        struct kept newest; /* of those read */
};

/* owner: the thread of its drive */
struct visit {
        struct round *round;
        bool write;
        struct kept kept; /* to be written */
        char path[PATH_MAX];
};

const char *srv_switch_name(enum srv_switch which)
{
        return which == SRV_READ_ONLY ? "read-only" : "maintenance";
}

/* ---- one file -------------------------------------------------------------------------------- */

static const char *yes_or_no(bool value)
{
        return value ? "yes" : "no";
}

static bool switches_take_word(const char *word, bool *out)
{
        *out = strcmp(word, "yes") == 0;
        return *out || strcmp(word, "no") == 0;
}

#define GENERATION_MOST 999999999999999999ull /* of the 18 digits that are read */

/* The whole text. */
static bool switches_parse(const char *text, struct kept *out)
{
        char read_only[4], maintenance[4];
        unsigned long long generation;
        int end = -1;

        if (sscanf(text, "generation = %18llu read_only = %3s maintenance = %3s %n", &generation, read_only, maintenance, &end) != 3 || end < 0 || text[end] != '\0' ||
            generation == 0 || generation > GENERATION_MOST || !switches_take_word(read_only, &out->on[SRV_READ_ONLY]) || !switches_take_word(maintenance, &out->on[SRV_MAINTENANCE]))
                return false;
        out->generation = generation;
        return true;
}

static void switches_print(const struct kept *kept, char text[TEXT_SIZE])
{
        snprintf(text, TEXT_SIZE, "generation = %llu\nread_only = %s\nmaintenance = %s\n", (unsigned long long)kept->generation, yes_or_no(kept->on[SRV_READ_ONLY]),
                 yes_or_no(kept->on[SRV_MAINTENANCE]));
}

/* 0; -ENOENT: there is none; another negative errno with a line in *error. */
static int switches_file_read(const char *path, struct kept *out, struct srv_error *error)
{
        char text[TEXT_SIZE];
        FILE *file;
        size_t len;
        int rv;

        rv = srv_secret_open(path, &file, error);
        if (rv != 0)
                return rv;
        len = fread(text, 1, sizeof(text) - 1, file);
        fclose(file);
        text[len] = '\0';
        return switches_parse(text, out) ? 0 : srv_fail(error, -EINVAL, "%.300s: is damaged", path);
}

/*
 * An older one never takes the place of a newer one: the thread of an earlier change may come back
 * late.
 */
static int switches_file_write(const char *path, const struct kept *kept, struct srv_error *error)
{
        struct kept there = {.generation = 0};
        char text[TEXT_SIZE];

        if (switches_file_read(path, &there, error) == 0 && there.generation >= kept->generation)
                return 0;
        switches_print(kept, text);
        return srv_secret_write(path, text, error);
}

int srv_switches_on_drives(const struct srv_list *drives, char text[SRV_SWITCHES_TEXT], struct srv_error *error)
{
        struct kept newest = {.generation = 0}, one;
        unsigned i;

        for (i = 0; i < drives->count; i++) {
                char path[PATH_MAX];
                int rv;

                snprintf(path, sizeof(path), "%s/%s", drives->item[i], SRV_SWITCHES_FILE);
                rv = switches_file_read(path, &one, error);
                if (rv != 0 && rv != -ENOENT)
                        return rv;
                if (rv == 0 && one.generation > newest.generation)
                        newest = one;
        }
        *text = '\0';
        if (newest.generation != 0)
                switches_print(&newest, text);
        return 0;
}

/* ---- all drives ------------------------------------------------------------------------------ */

static void round_leave(struct round *round)
{
        bool last;

        pthread_mutex_lock(&round->lock);
        last = --round->users == 0;
        pthread_mutex_unlock(&round->lock);
        if (!last)
                return;
        pthread_mutex_destroy(&round->lock);
        pthread_cond_destroy(&round->moved);
        free(round);
}

static struct round *round_new(void)
{
        struct round *round = calloc(1, sizeof(*round));
        pthread_condattr_t attr;

        if (round == NULL)
                return NULL;
        pthread_mutex_init(&round->lock, NULL);
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_cond_init(&round->moved, &attr);
        pthread_condattr_destroy(&attr);
        round->users = 1;
        return round;
}

static void visit_note(struct round *round, int rv, const struct kept *kept)
{
        pthread_mutex_lock(&round->lock);
        round->pending--;
        round->done += rv == 0;
        if (kept->generation > round->newest.generation)
                round->newest = *kept;
        pthread_cond_signal(&round->moved);
        pthread_mutex_unlock(&round->lock);
}

static void *visit_run(void *arg)
{
        struct visit *visit = arg;
        struct kept kept = {.generation = 0};
        struct srv_error error;
        int rv;

        if (visit->write) {
                kept = visit->kept;
                rv = switches_file_write(visit->path, &kept, &error);
        } else {
                rv = switches_file_read(visit->path, &kept, &error);
        }
        if (rv != 0 && (visit->write || rv != -ENOENT))
                srv_log(SRV_LOG_WARNING, "%s", error.text);
        if (rv != 0)
                memset(&kept, 0, sizeof(kept));
        visit_note(visit->round, rv, &kept);
        round_leave(visit->round);
        free(visit);
        return NULL;
}

/* Begins with one drive; what cannot be begun counts as failed. */
static void visit_begin(struct round *round, const char *folder, const struct kept *write)
{
        struct visit *visit = calloc(1, sizeof(*visit));
        pthread_attr_t attr;
        pthread_t thread;
        int rv;

        if (visit == NULL)
                return;
        visit->round = round;
        visit->write = write != NULL;
        if (write != NULL)
                visit->kept = *write;
        if (snprintf(visit->path, sizeof(visit->path), "%s/%s", folder, SRV_SWITCHES_FILE) >= (int)sizeof(visit->path)) {
                free(visit);
                return;
        }
        pthread_mutex_lock(&round->lock);
        round->users++;
        round->pending++;
        pthread_mutex_unlock(&round->lock);
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        rv = pthread_create(&thread, &attr, visit_run, visit);
        pthread_attr_destroy(&attr);
        if (rv == 0)
                return;
        pthread_mutex_lock(&round->lock);
        round->users--;
        round->pending--;
        pthread_mutex_unlock(&round->lock);
        free(visit);
}

/* True: all have come back. */
static bool round_wait(struct round *round)
{
        struct timespec until;
        int rv = 0;
        bool all;

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += WAIT_S;
        pthread_mutex_lock(&round->lock);
        while (round->pending > 0 && rv == 0)
                rv = pthread_cond_timedwait(&round->moved, &round->lock, &until);
        all = round->pending == 0;
        pthread_mutex_unlock(&round->lock);
        return all;
}

/* Begins to write it to each drive in use. NULL: no memory. */
static struct round *write_everywhere(struct srv_switches *switches, const struct kept *kept)
{
        struct eng_health *health = malloc(sizeof(*health));
        struct round *round = health != NULL ? round_new() : NULL;
        unsigned i;

        if (round != NULL) {
                eng_health_read(switches->store, health);
                for (i = 0; i < health->drive_count; i++)
                        if (health->drives[i].state == ENG_DRIVE_IN && *health->drives[i].path != '\0')
                                visit_begin(round, health->drives[i].path, kept);
        }
        free(health);
        return round;
}

/* ---- in force -------------------------------------------------------------------------------- */

/* Under the lock. */
static bool switch_is_on(const struct srv_switches *switches, enum srv_switch which)
{
        return switches->by_setting[which] || switches->now.on[which];
}

/* Under the lock. */
static void switches_apply(const struct srv_switches *switches)
{
        gw_read_only(switches->gateway, switch_is_on(switches, SRV_READ_ONLY));
        gw_shed(switches->gateway, switch_is_on(switches, SRV_MAINTENANCE));
        if (switches->lead != NULL)
                srv_lead_read_only(switches->lead, switches->now.on[SRV_READ_ONLY] ? switches->now.generation : 0);
}

static void switches_say(const struct srv_switches *switches)
{
        if (switches->by_setting[SRV_READ_ONLY])
                srv_log(SRV_LOG_WARNING, "read-only is on: the setting read_only is yes");
        else if (switches->now.on[SRV_READ_ONLY])
                srv_log(SRV_LOG_WARNING, "read-only is on: it was switched on before this start (millrace admin read-only off)");
        if (switches->now.on[SRV_MAINTENANCE])
                srv_log(SRV_LOG_WARNING, "maintenance is on: it was switched on before this start (millrace admin maintenance off)");
}

static int switches_load(struct srv_switches *switches, const struct srv_list *drives)
{
        struct round *round = round_new();
        bool all;
        unsigned i;

        if (round == NULL)
                return -ENOMEM;
        for (i = 0; i < drives->count; i++)
                visit_begin(round, drives->item[i], NULL);
        all = round_wait(round);
        pthread_mutex_lock(&round->lock);
        switches->now = round->newest;
        pthread_mutex_unlock(&round->lock);
        round_leave(round);
        switches->stored = switches->now.generation;
        if (!all)
                srv_log(SRV_LOG_WARNING, "a drive does not answer: the file %s on it was not read", SRV_SWITCHES_FILE);
        return 0;
}

/* ---- in etcd --------------------------------------------------------------------------------- */

static int switches_load_cluster(struct srv_switches *switches)
{
        char text[TEXT_SIZE];
        int rv = srv_link_get(&switches->lead->link, ETCD_KEY, text, sizeof(text));

        if (rv > 0)
                rv = switches_parse(text, &switches->now) ? 0 : -EBADMSG;
        switches->stored = switches->now.generation;
        return rv;
}

static int switches_keep_cluster(struct srv_switches *switches, const struct kept *kept)
{
        char text[TEXT_SIZE];
        int rv;

        switches_print(kept, text);
        rv = srv_link_put(&switches->lead->link, ETCD_KEY, text, (int64_t)switches->lead->claim.term.revision);
        if (rv != 0)
                return rv == -ETIMEDOUT ? rv : -EIO;
        pthread_mutex_lock(&switches->lock);
        if (switches->stored < kept->generation)
                switches->stored = kept->generation;
        pthread_mutex_unlock(&switches->lock);
        return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct srv_switches *switches_new(const struct srv_settings *settings, struct gw_gateway *gateway)
{
        struct srv_switches *switches = calloc(1, sizeof(*switches));

        if (switches == NULL)
                return NULL;
        switches->gateway = gateway;
        switches->by_setting[SRV_READ_ONLY] = settings->read_only;
        pthread_mutex_init(&switches->lock, NULL);
        return switches;
}

int srv_switches_open(const struct srv_settings *settings, struct eng_store *store, struct gw_gateway *gateway, struct srv_lead *lead,
                      struct srv_switches **out)
{
        struct srv_switches *switches = switches_new(settings, gateway);
        int rv;

        if (switches == NULL)
                return -ENOMEM;
        switches->store = store;
        switches->lead = lead;
        rv = lead != NULL ? switches_load_cluster(switches) : switches_load(switches, &settings->drive);
        if (rv != 0) {
                srv_switches_free(switches);
                return rv;
        }
        switches_apply(switches);
        switches_say(switches);
        *out = switches;
        return 0;
}

int srv_switches_of_node(const struct srv_settings *settings, struct gw_gateway *gateway, struct srv_switches **out)
{
        struct srv_switches *switches = switches_new(settings, gateway);

        if (switches == NULL)
                return -ENOMEM;
        switches_apply(switches);
        *out = switches;
        return 0;
}

void srv_switches_follow(struct srv_switches *switches, const char *text)
{
        struct kept now;

        if (!switches_parse(text, &now))
                return;
        pthread_mutex_lock(&switches->lock);
        if (now.generation > switches->now.generation) {
                switches->now = now;
                switches->stored = now.generation;
                switches_apply(switches);
        }
        pthread_mutex_unlock(&switches->lock);
}

void srv_switches_free(struct srv_switches *switches)
{
        if (switches == NULL)
                return;
        pthread_mutex_destroy(&switches->lock);
        free(switches);
}

/* Waits until a drive has it. */
static int switches_keep(struct srv_switches *switches, const struct kept *kept)
{
        struct round *round;
        unsigned done;
        bool all;

        if (switches->lead != NULL)
                return switches_keep_cluster(switches, kept);
        round = write_everywhere(switches, kept);
        if (round == NULL)
                return -ENOMEM;
        all = round_wait(round);
        pthread_mutex_lock(&round->lock);
        done = round->done;
        pthread_mutex_unlock(&round->lock);
        round_leave(round);
        if (done == 0)
                return all ? -EIO : -ETIMEDOUT;
        pthread_mutex_lock(&switches->lock);
        if (switches->stored < kept->generation)
                switches->stored = kept->generation;
        pthread_mutex_unlock(&switches->lock);
        return 0;
}

uint64_t srv_switches_generation(struct srv_switches *switches)
{
        uint64_t generation;

        pthread_mutex_lock(&switches->lock);
        generation = switches->now.generation;
        pthread_mutex_unlock(&switches->lock);
        return generation;
}

unsigned srv_switches_changing(struct srv_switches *switches)
{
        return gw_changing(switches->gateway) + (switches->lead != NULL ? srv_lead_changing(switches->lead) : 0);
}

/* Each node hears of it from etcd, and tells when it has nothing under way any more. */
static void switches_settle(struct srv_switches *switches)
{
        unsigned i;

        for (i = 0; i < SETTLE_MS && srv_switches_changing(switches) > 0; i++)
                usleep(1000);
}

int srv_switch_set(struct srv_switches *switches, enum srv_switch which, bool on)
{
        bool changed, stored;
        struct kept kept;
        int rv;

        if (switches->lead != NULL && !srv_lead_is_first(switches->lead))
                return -EXDEV;
        pthread_mutex_lock(&switches->lock);
        if (switches->by_setting[which] && !on) {
                pthread_mutex_unlock(&switches->lock);
                return -EPERM;
        }
        changed = switches->now.on[which] != on;
        if (changed) {
                switches->now.on[which] = on;
                switches->now.generation++;
                switches_apply(switches);
        }
        kept = switches->now;
        stored = switches->stored == kept.generation;
        pthread_mutex_unlock(&switches->lock);
        if (changed)
                srv_log(SRV_LOG_WARNING, "%s is switched %s", srv_switch_name(which), on ? "on" : "off");
        rv = stored ? 0 : switches_keep(switches, &kept);
        if (rv == 0 && switches->lead != NULL && which == SRV_READ_ONLY && on)
                switches_settle(switches);
        return rv;
}

struct srv_switch_state srv_switch_read(struct srv_switches *switches, enum srv_switch which)
{
        struct srv_switch_state state;

        pthread_mutex_lock(&switches->lock);
        state.on = switch_is_on(switches, which);
        state.by_setting = switches->by_setting[which];
        state.kept = switches->stored == switches->now.generation;
        pthread_mutex_unlock(&switches->lock);
        return state;
}

void srv_switches_spread(struct srv_switches *switches)
{
        struct round *round;
        struct kept kept;

        pthread_mutex_lock(&switches->lock);
        kept = switches->now;
        pthread_mutex_unlock(&switches->lock);
        if (kept.generation == 0 || switches->lead != NULL)
                return;
        round = write_everywhere(switches, &kept);
        if (round != NULL)
                round_leave(round);
}
