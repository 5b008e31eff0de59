/*
 * switches.h - what an operator switches on and off while the daemon serves, and what stays so over
 * restarts: read-only, and maintenance.
 */
#ifndef MILLRACE_SERVER_SWITCHES_H
#define MILLRACE_SERVER_SWITCHES_H

#include "server/settings.h"

#include <stdbool.h>
#include <stdint.h>

#define SRV_SWITCHES_TEXT 256u
#define SRV_SWITCHES_FILE "SWITCHES" /* in a drive's folder, beside FORMAT; there once anything was switched */

struct eng_health;
struct eng_store;
struct gw_gateway;
struct srv_lead;
struct srv_switches;

enum srv_switch { SRV_READ_ONLY, SRV_MAINTENANCE, SRV_SWITCH_COUNT };

/* One switch as it is now. */
struct srv_switch_state {
        bool on;
        bool by_setting; /* the configuration says so: no command takes it back */
        bool kept;       /* a drive at least has it on stable storage, or it is as in a new store */
};

/*
 * Reads what the drives say, the newest first, and puts it into force; says what is on. A drive
 * that does not answer within seconds is not waited for. Main thread; after the gateway was made,
 * before it serves. lead: they are a cluster's, and kept in etcd in place of drives; else NULL. 0 or -ENOMEM; of a
 * cluster also what etcd says.
 */
int srv_switches_open(const struct srv_settings *settings, struct eng_store *store, struct gw_gateway *gateway, struct srv_lead *lead,
                      struct srv_switches **out);
/*
 * What the drives of a store that is stopped say, the newest, as a cluster's text in etcd says it. "": nothing was ever
 * switched. Errors have a line: a file cannot be read.
 */
int srv_switches_on_drives(const struct srv_list *drives, char text[SRV_SWITCHES_TEXT], struct srv_error *error);
/* Of a node's gateway: they are set at the pool's leader, and followed here. -ENOMEM. */
int srv_switches_of_node(const struct srv_settings *settings, struct gw_gateway *gateway, struct srv_switches **out);
/* As the cluster's text in etcd says: in force when it returns. Of srv_switches_of_node(), and of leaders of further pools. */
void srv_switches_follow(struct srv_switches *switches, const char *text);
void srv_switches_free(struct srv_switches *switches); /* NULL is allowed */

/*
 * In force when it returns; at a cluster's leader read-only also waits for changes under way at all nodes, some seconds at
 * most: srv_switches_changing(). Waits until it is kept on the drives in use, but not for long:
 * -ETIMEDOUT or -EIO, it is kept on none yet, and a restart may find what was before. -EPERM: the
 * configuration says otherwise; -EXDEV: this is the leader of another pool than the first. Any thread that may block.
 */
int srv_switch_set(struct srv_switches *switches, enum srv_switch which, bool on);
/* Of what is in force; 0: nothing was ever switched. Any thread. */
uint64_t srv_switches_generation(struct srv_switches *switches);
/*
 * Changes of clients under way, at all nodes; a node that has not told yet counts as one while read-only is on.
 * 0 while it is: no change is answered any more until it is off. Any thread.
 */
unsigned srv_switches_changing(struct srv_switches *switches);
/* Any thread. */
struct srv_switch_state srv_switch_read(struct srv_switches *switches, enum srv_switch which);
/*
 * Some drives may not know what is kept, because they were away or are new: writes it there. Does
 * not wait. Any thread.
 */
void srv_switches_spread(struct srv_switches *switches);

/* "read-only", "maintenance" */
const char *srv_switch_name(enum srv_switch which);

#endif
