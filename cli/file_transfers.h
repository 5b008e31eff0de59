/*
 * file_transfers.h - what `put` and `get` share: many files on their way at once. Private to this
 * folder.
 */
#ifndef CLI_FILE_TRANSFERS_H
#define CLI_FILE_TRANSFERS_H

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>

#include "cli.h"
#include "job_queue.h"

/*
 * One file. owner: the main thread until it is handed to the workers, then the worker that does it
 */
struct cli_transfer {
        char local[PATH_MAX]; /* "-": standard input or output */
        char bucket[64];
        char key[CLI_KEY_MAX + 1];
        int64_t size; /* get: from the listing; -1: not known */
        char etag[96];
};

struct cli_transfers {
        struct cli_call *call;
        struct cli_progress *progress;
        struct cli_work *work;
        int (*one)(struct cli_transfers *transfers, struct cli_transfer *transfer); /* 0, or an exit status */
        atomic_int status; /* any thread: the worst exit status so far */
};

/* Starts progress and workers. An exit status. */
int cli_transfers_begin(struct cli_transfers *transfers, struct cli_call *call,
                        int (*one)(struct cli_transfers *transfers, struct cli_transfer *transfer));
/* Takes over a malloc'ed transfer of so many bytes. */
void cli_transfers_add(struct cli_transfers *transfers, struct cli_transfer *transfer, uint64_t bytes);
/* Waits for all; the exit status of the whole. */
int cli_transfers_end(struct cli_transfers *transfers);

/* A failure before or outside a transfer; what and why in one line. */
void cli_transfers_fail(struct cli_transfers *transfers, const char *what, const char *why);
/* A line about a transfer that is done ("put a -> b"), unless --quiet. */
void cli_transfers_say(struct cli_transfers *transfers, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A failed request of a transfer. Returns CLI_FAILED. */
int cli_transfers_failed(struct cli_transfers *transfers, const char *what, const struct mr_error *err);

#endif
