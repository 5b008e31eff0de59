/*
 * file_transfers.c - runs many transfers at once for `put` and `get`, with one progress display and
 * one exit status. The main thread adds; workers transfer. How many requests run at once is the
 * client's bound, not the number of workers.
 */
#include "file_transfers.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void transfers_fail(struct cli_transfers *transfers)
{
        atomic_store(&transfers->status, CLI_FAILED);
}

static void run_one(void *arg, void *job)
{
        struct cli_transfers *transfers = arg;
        struct cli_transfer *transfer = job;

        /* after a cancellation the queue only has to run empty */
        if (mr_client_canceled(transfers->call->client) || transfers->one(transfers, transfer) != CLI_OK)
                transfers_fail(transfers);
        else
                cli_progress_file(transfers->progress);
        free(transfer);
}

int cli_transfers_begin(struct cli_transfers *transfers, struct cli_call *call,
                        int (*one)(struct cli_transfers *transfers, struct cli_transfer *transfer))
{
        int rv;

        memset(transfers, 0, sizeof(*transfers));
        transfers->call = call;
        transfers->one = one;
        atomic_init(&transfers->status, CLI_OK);
        rv = cli_progress_new(cli_progress_wanted(call), &transfers->progress);
        if (rv == 0) {
                rv = cli_work_new(call->settings.parallel, run_one, transfers, &transfers->work);
                if (rv != 0)
                        cli_progress_free(transfers->progress);
        }
        if (rv == 0)
                return CLI_OK;
        cli_error("cannot start: %s", strerror(-rv));
        return CLI_FAILED;
}

void cli_transfers_add(struct cli_transfers *transfers, struct cli_transfer *transfer, uint64_t bytes)
{
        cli_progress_expect(transfers->progress, 1, bytes);
        cli_work_add(transfers->work, transfer);
}

int cli_transfers_end(struct cli_transfers *transfers)
{
        cli_progress_expect_done(transfers->progress);
        cli_work_finish(transfers->work);
        cli_progress_free(transfers->progress);
        if (mr_client_canceled(transfers->call->client))
                cli_error("interrupted");
        return atomic_load(&transfers->status);
}

void cli_transfers_fail(struct cli_transfers *transfers, const char *what, const char *why)
{
        struct mr_error err = {0};

        snprintf(err.message, sizeof(err.message), "%s", why);
        cli_transfers_failed(transfers, what, &err);
}

void cli_transfers_say(struct cli_transfers *transfers, const char *format, ...)
{
        char line[2 * PATH_MAX + 2200], printable[sizeof(line)];
        va_list args;

        if (transfers->call->quiet)
                return;
        va_start(args, format);
        vsnprintf(line, sizeof(line), format, args);
        va_end(args);
        cli_progress_print(transfers->progress, true, cli_printable(stdout, line, printable, sizeof(printable)));
}

int cli_transfers_failed(struct cli_transfers *transfers, const char *what, const struct mr_error *err)
{
        char line[PATH_MAX + 2200], printable[sizeof(line)];

        transfers_fail(transfers);
        if (mr_client_canceled(transfers->call->client))
                return CLI_FAILED; /* said once, at the end */
        snprintf(line, sizeof(line), "millrace: %s: %s%s%s%s", what, err->message, err->s3_code[0] != '\0' ? " (" : "",
                 err->s3_code, err->s3_code[0] != '\0' ? ")" : "");
        cli_progress_print(transfers->progress, false, cli_printable(stderr, line, printable, sizeof(printable)));
        return CLI_FAILED;
}
