/*
 * sealer.h - seals the secrets of users with the key in key_file, for the gateway.
 */
#ifndef MILLRACE_SERVER_SEALER_H
#define MILLRACE_SERVER_SEALER_H

#include <pthread.h>

#include "gateway.h"
#include "server/key_file.h"

/* Keys change on the main thread; any thread seals and opens. */
struct srv_sealer {
        pthread_rwlock_t lock; /* keys, told */
        struct srv_keys keys;  /* count 0: there is none */
        bool told;             /* that a key is missing */
};

/*
 * Takes the keys. may_make: makes one where there is none. 0 also where there is none and none can be
 * made: then nothing can be sealed, which is said. Errors: of a file that is there and cannot be used.
 * Main thread; blocking.
 */
int srv_sealer_open(struct srv_sealer *sealer, const struct srv_settings *settings, bool may_make,
                    struct srv_error *error);
/* SIGHUP: takes the keys anew; those in use stay if that fails. */
void srv_sealer_reload(struct srv_sealer *sealer, const struct srv_settings *settings);
void srv_sealer_close(struct srv_sealer *sealer);
/* What the gateway is given; it holds as long as sealer. */
struct gw_sealer srv_sealer_of(struct srv_sealer *sealer);

#endif
