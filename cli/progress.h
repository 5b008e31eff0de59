/* progress.h - how far a transfer is: a bar on a terminal, lines elsewhere. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "0 B", "1023 B", "1.5 KiB", "200 MiB" */
void cli_format_bytes(char *out, size_t size, uint64_t bytes);
/* "0:07", "12:34", "1:02:03", "-:--" for a negative number */
void cli_format_time(char *out, size_t size, int64_t seconds);

/* One moment of a transfer. */
struct cli_snapshot {
        uint64_t bytes, total_bytes; /* total 0: not known */
        uint64_t files, total_files; /* total <= 1: not shown */
        double seconds;              /* since the start */
        double rate;                 /* bytes a second, lately */
        bool total_growing;          /* still counting: neither percentage nor time left */
};

/* A line of at most width columns, without a line end, with a bar where there is room. */
void cli_format_bar(char *out, size_t size, unsigned width, const struct cli_snapshot *now);
/* The same facts as a plain line. */
void cli_format_line(char *out, size_t size, const struct cli_snapshot *now);

struct cli_progress;

enum cli_progress_style { CLI_PROGRESS_NONE, CLI_PROGRESS_BAR, CLI_PROGRESS_LINES };

/*
 * Draws on standard error from a thread of its own until freed, which ends the bar with its last
 * state. -ENOMEM, -EAGAIN.
 */
int cli_progress_new(enum cli_progress_style style, struct cli_progress **out);
void cli_progress_free(struct cli_progress *progress);
/* Any thread. */
void cli_progress_expect(struct cli_progress *progress, uint64_t files, uint64_t bytes);
void cli_progress_expect_done(struct cli_progress *progress); /* the total is known now */
void cli_progress_bytes(void *progress, int64_t delta);       /* an mr_progress_fn */
void cli_progress_file(struct cli_progress *progress);
/* Any thread: a line on standard output (out) or standard error that does not tear the bar. */
void cli_progress_print(struct cli_progress *progress, bool out, const char *line);

#endif
