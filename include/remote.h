/*
 * remote.h - drives of other nodes, over net.h: a drive server that serves local drives to peers,
 * and remote drives, which the engine uses as any other. docs/design/remote-drives.md has the
 * reasons, and what each rule prevents.
 *
 * Errors are negative errno values.
 */
#ifndef MILLRACE_REMOTE_H
#define MILLRACE_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "loop.h"
#include "net.h"

struct eng_buf;
struct eng_drive;
struct eng_drive_opener;
struct eng_identity;
struct eng_local_options;

#define REM_DRIVES_MAX 256u /* that a node serves */
#define REM_SLOTS_MAX  64u  /* of a pool: below ENG_DRIVES_MAX */

/* Operations of requests (struct net_request) from here on are the drive server's, so many. */
#define REM_OPERATIONS       0x100u
#define REM_OPERATIONS_COUNT 3u
static inline bool rem_is_operation(uint32_t operation)
{
        return operation - REM_OPERATIONS < REM_OPERATIONS_COUNT;
}

/* ---- the drive server ------------------------------------------------------------------------ */

struct rem_server;
struct rem_served;

/* Any thread. -ENOMEM. */
int rem_server_new(struct rem_server **out);
/*
 * How its requests are served: for struct net_handler, with the server as the argument, or for who
 * hands it those that rem_is_operation() says are its own. On the loop of the connection.
 */
enum net_bulk rem_server_bulk(void *server, struct net_request *request);
void rem_server_request(void *server, struct net_request *request);
void rem_server_lost(void *server, struct net_request *request);
/* Any thread, before net_stop(): what waits for something to say is answered, now and from now on. */
void rem_server_stop(struct rem_server *server);
/* Any thread, after net_stop() has stopped, when all drives were freed. NULL is allowed. */
void rem_server_free(struct rem_server *server);

/*
 * A drive to be served, as a slot of a pool; nobody is served yet. owner: the loop of the drive. Any
 * thread. -ENOMEM, -EINVAL.
 */
int rem_served_new(struct rem_server *server, uint32_t pool, unsigned slot, struct lp_loop *owner,
                   struct rem_served **out);
/*
 * Opens a folder and serves it from then on. Its callbacks are filled in here, its slot and owner,
 * too. As eng_local_open(): blocking. -EEXIST: the slot of the pool is served already; -ENOSPC:
 * REM_DRIVES_MAX.
 */
int rem_served_open(struct rem_served *served, const struct eng_local_options *options, struct eng_error *error);
/*
 * The same of a drive that is open. Its `superseded` and `failed` are to call the two functions below
 * with `served`, on its owner loop. Any thread.
 */
int rem_served_publish(struct rem_served *served, struct eng_drive *drive, const struct eng_identity *identity);
void rem_served_superseded(void *served, struct eng_drive *drive, struct eng_buf *const values[], unsigned n);
void rem_served_failed(void *served, struct eng_drive *drive, const char *text);
/*
 * Any thread, once: no more is taken on for it. gone() is called on the owner loop when all that is
 * under way was answered: then rem_served_free() is allowed, and closing the drive.
 */
void rem_served_withdraw(struct rem_served *served, void (*gone)(void *arg), void *arg);
/*
 * Of a drive that was withdrawn and has gone, was never published, or whose loops have stopped with
 * net_free() behind. The drive itself is the caller's to close. NULL is allowed.
 */
void rem_served_free(struct rem_served *served);
/* NULL: not open. */
struct eng_drive *rem_served_drive(const struct rem_served *served);

/* ---- remote drives --------------------------------------------------------------------------- */

struct rem_client;

struct rem_client_options {
        struct net *net;
        struct lp_loop *loop; /* runs while drives are opened: questions of openings are asked on it */
        unsigned wait_ms;     /* that an opening waits for an answer; 0: 5,000 */
};

/* Any thread. -ENOMEM. */
int rem_client_new(const struct rem_client_options *options, struct rem_client **out);
/* After all its drives were closed. NULL is allowed. */
void rem_client_free(struct rem_client *client);
/*
 * For eng_options.opener: drives whose paths are "remote:NODE/POOL/SLOT", of nodes that net_peer_set()
 * has made known. Lives as long as the client. A drive is closed when the loops of the store have
 * stopped, and those of the net go on, or net_stop() has stopped; loops that the net's still run beside
 * are freed when each of these has had a turn since. An opening fails with -EAGAIN while its node does
 * not answer, or does not serve the drive, which it may be opening yet.
 */
const struct eng_drive_opener *rem_client_opener(struct rem_client *client);

/* Name, help: counts of all drives of a client. Any thread; each number by itself. */
#define REM_COUNTERS(X)                                                                                                \
        X(unreachable, "Operations that were answered with EHOSTUNREACH.")                                             \
        X(refused, "Operations that a drive server refused: another incarnation, an old session, a lost COMMIT.")      \
        X(lies, "Answers of drive servers that made no sense.")                                                        \
        X(busy, "Operations that a drive server had no buffer for; they were sent again.")                             \
        X(pieces, "Answers that came in more than one piece.")                                                         \
        X(begins, "Sessions that were begun.")

struct rem_stats {
#define REM_COUNTER_FIELD(name, help) uint64_t name;
        REM_COUNTERS(REM_COUNTER_FIELD)
#undef REM_COUNTER_FIELD
};
void rem_stats_read(const struct rem_client *client, struct rem_stats *out);

#endif
