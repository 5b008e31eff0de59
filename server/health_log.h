/*
 * health_log.h - says in the daemon's log, and to the service manager, what has changed in the
 * store's state.
 *
 * A line for each transition an operator cares about: ready and writable, drives, epochs, recovery,
 * catching up, repair, scrub, reclaim, the search for orphans, lost objects, the lock clock. A line of
 * one kind about one drive comes at most once a minute, with what has happened since the last
 * (transitions that need an operator at once are not held back). The main thread, unless said otherwise.
 */
#ifndef MILLRACE_SERVER_HEALTH_LOG_H
#define MILLRACE_SERVER_HEALTH_LOG_H

#include "engine.h"

#define SRV_HEALTH_LOG_PACE_MS 60000 /* between two lines of one kind about one drive */

/* What was last said. */
struct srv_health_log;

/* pool: that its lines name; 0: none. NULL: no memory. */
struct srv_health_log *srv_health_log_open(unsigned pool);
void srv_health_log_close(struct srv_health_log *log); /* NULL: nothing */

/*
 * Any thread. The store's health, as the daemon tells it: it is ready once the directory of users is known, too,
 * since IAM would answer 503 until then.
 */
struct gw_gateway;
void srv_health_read(struct eng_store *store, const struct gw_gateway *gateway, struct eng_health *out);

/*
 * Reads the store's health and says what has changed since the last call. What was read stays until
 * the next.
 */
const struct eng_health *srv_health_log_look(struct srv_health_log *log, struct eng_store *store,
                                               const struct gw_gateway *gateway);

/*
 * The same of figures that the caller has. repair: the last repair that ended (eng_heal_read()).
 * now_ms: of a clock that does not jump.
 */
void srv_health_log_say(struct srv_health_log *log, const struct eng_health *health, const struct eng_heal_report *repair, int64_t now_ms);

#endif
