/*
 * progress.c - shows how far a transfer is. Workers add to counters from their threads; one thread
 * of its own draws, five times a second on a terminal and once a second as plain lines. Messages go
 * through cli_progress_print(), so that they never tear the bar.
 */
#include "progress.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

struct cli_progress {
        /* any thread */
        _Atomic uint64_t bytes, total_bytes, files, total_files;
        atomic_bool total_known;
        /* guarded by lock */
        pthread_mutex_t lock;
        pthread_cond_t wake;
        bool stop, drawn;
        /* owner: the drawing thread, until it is joined */
        enum cli_progress_style style;
        struct timespec start;
        double last_seconds, rate;
        uint64_t last_bytes;
        pthread_t thread;
        bool threaded;
};

void cli_format_bytes(char *out, size_t size, uint64_t bytes)
{
        static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
        double value = (double)bytes / 1024;
        unsigned unit = 0;

        if (bytes < 1024) {
                snprintf(out, size, "%llu B", (unsigned long long)bytes);
                return;
        }
        while (value >= 1023.95 && unit + 1 < sizeof(units) / sizeof(units[0])) {
                value /= 1024;
                unit++;
        }
        snprintf(out, size, value < 99.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

void cli_format_time(char *out, size_t size, int64_t seconds)
{
        long long s = seconds;

        if (s < 0)
                snprintf(out, size, "-:--");
        else if (s < 3600)
                snprintf(out, size, "%lld:%02lld", s / 60, s % 60);
        else
                snprintf(out, size, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
}

static bool total_known(const struct cli_snapshot *now)
{
        return !now->total_growing && now->total_bytes > 0;
}

static double fraction(const struct cli_snapshot *now)
{
        double part = (double)now->bytes / (double)now->total_bytes;

        return part > 1 ? 1 : part;
}

static int64_t progress_seconds_left(const struct cli_snapshot *now)
{
        if (!total_known(now) || now->rate < 1)
                return -1;
        if (now->bytes >= now->total_bytes)
                return 0;
        return (int64_t)((double)(now->total_bytes - now->bytes) / now->rate + 0.5);
}

void cli_format_line(char *out, size_t size, const struct cli_snapshot *now)
{
        char done[24], total[24], rate[24], left[24], files[64] = "", percent[16] = "", of[32] = "", eta[40] = "";

        cli_format_bytes(done, sizeof(done), now->bytes);
        cli_format_bytes(total, sizeof(total), now->total_bytes);
        cli_format_bytes(rate, sizeof(rate), now->rate > 0 ? (uint64_t)now->rate : 0);
        cli_format_time(left, sizeof(left), progress_seconds_left(now));
        if (total_known(now)) {
                snprintf(percent, sizeof(percent), "%3d%%  ", (int)(fraction(now) * 100));
                snprintf(of, sizeof(of), " / %s", total);
                snprintf(eta, sizeof(eta), "  left %s", left);
        }
        if (now->total_files > 1)
                snprintf(files, sizeof(files), "  %llu/%llu%s files", (unsigned long long)now->files,
                         (unsigned long long)now->total_files, now->total_growing ? "+" : "");
        snprintf(out, size, "%s%s%s  %s/s%s%s", percent, done, of, rate, eta, files);
}

void cli_format_bar(char *out, size_t size, unsigned width, const struct cli_snapshot *now)
{
        char line[256];
        unsigned room, filled;
        size_t len;

        cli_format_line(line, sizeof(line), now);
        len = strlen(line);
        if (size == 0)
                return;
        if (width >= size)
                width = (unsigned)size - 1;
        if (!total_known(now) || width < len + 14) { /* no room for a bar that says anything */
                snprintf(out, (size_t)width + 1, "%s", line);
                return;
        }
        room = width - (unsigned)len - 3;
        if (room > 40)
                room = 40;
        filled = (unsigned)(fraction(now) * room);
        out[0] = '[';
        memset(out + 1, '#', filled);
        memset(out + 1 + filled, '.', room - filled);
        snprintf(out + 1 + room, size - 1 - room, "] %s", line);
}

/* ---- drawing --------------------------------------------------------------------------------- */

static double seconds_since(const struct timespec *start)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static struct cli_snapshot progress_snapshot(struct cli_progress *progress)
{
        struct cli_snapshot now = {
                .bytes = atomic_load(&progress->bytes),
                .total_bytes = atomic_load(&progress->total_bytes),
                .files = atomic_load(&progress->files),
                .total_files = atomic_load(&progress->total_files),
                .total_growing = !atomic_load(&progress->total_known),
                .seconds = seconds_since(&progress->start),
        };
        double passed = now.seconds - progress->last_seconds;

        if (passed >= 0.1) { /* the mean of about the last three seconds, so that a stall shows and a hiccup does not */
                double latest = ((double)now.bytes - (double)progress->last_bytes) / passed;
                double weight = passed < 3 ? passed / 3 : 1;

                if (progress->last_seconds <= 0)
                        weight = 1;
                progress->rate += weight * ((latest > 0 ? latest : 0) - progress->rate);
                progress->last_seconds = now.seconds;
                progress->last_bytes = now.bytes;
        }
        now.rate = progress->rate;
        return now;
}

static unsigned terminal_width(void)
{
        struct winsize window;

        if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0)
                return 79;
        return window.ws_col - 1u;
}

/* With the lock held. */
static void draw(struct cli_progress *progress, bool last)
{
        struct cli_snapshot now = progress_snapshot(progress);
        char line[512];

        if (last && now.seconds > 0)
                now.rate = (double)now.bytes / now.seconds;
        if (progress->style == CLI_PROGRESS_LINES) {
                cli_format_line(line, sizeof(line), &now);
                fprintf(stderr, "%s\n", line);
                return;
        }
        cli_format_bar(line, sizeof(line), terminal_width(), &now);
        fprintf(stderr, "\r%s\033[K%s", line, last ? "\n" : "");
        fflush(stderr);
        progress->drawn = !last;
}

static void *draw_until_stopped(void *arg)
{
        struct cli_progress *progress = arg;
        struct timespec next;

        pthread_mutex_lock(&progress->lock);
        clock_gettime(CLOCK_MONOTONIC, &next);
        while (!progress->stop) {
                if (progress->style == CLI_PROGRESS_LINES)
                        next.tv_sec += 1;
                else
                        next.tv_nsec += 200 * 1000 * 1000;
                if (next.tv_nsec >= 1000 * 1000 * 1000) {
                        next.tv_nsec -= 1000 * 1000 * 1000;
                        next.tv_sec++;
                }
                while (!progress->stop && pthread_cond_timedwait(&progress->wake, &progress->lock, &next) == 0)
                        ;
                if (!progress->stop)
                        draw(progress, false);
        }
        draw(progress, true);
        pthread_mutex_unlock(&progress->lock);
        return NULL;
}

int cli_progress_new(enum cli_progress_style style, struct cli_progress **out)
{
        struct cli_progress *progress = calloc(1, sizeof(*progress));
        pthread_condattr_t attr;
        int rv = 0;

        if (progress == NULL)
                return -ENOMEM;
        progress->style = style;
        clock_gettime(CLOCK_MONOTONIC, &progress->start);
        pthread_mutex_init(&progress->lock, NULL);
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_cond_init(&progress->wake, &attr);
        pthread_condattr_destroy(&attr);
        if (style != CLI_PROGRESS_NONE) {
                rv = -pthread_create(&progress->thread, NULL, draw_until_stopped, progress);
                progress->threaded = rv == 0;
        }
        if (rv != 0)
                cli_progress_free(progress);
        else
                *out = progress;
        return rv;
}

void cli_progress_free(struct cli_progress *progress)
{
        if (progress == NULL)
                return;
        if (progress->threaded) {
                pthread_mutex_lock(&progress->lock);
                progress->stop = true;
                pthread_cond_signal(&progress->wake);
                pthread_mutex_unlock(&progress->lock);
                pthread_join(progress->thread, NULL);
        }
        pthread_cond_destroy(&progress->wake);
        pthread_mutex_destroy(&progress->lock);
        free(progress);
}

void cli_progress_expect(struct cli_progress *progress, uint64_t files, uint64_t bytes)
{
        atomic_fetch_add(&progress->total_files, files);
        atomic_fetch_add(&progress->total_bytes, bytes);
}

void cli_progress_expect_done(struct cli_progress *progress)
{
        atomic_store(&progress->total_known, true);
}

void cli_progress_bytes(void *arg, int64_t delta)
{
        struct cli_progress *progress = arg;

        atomic_fetch_add(&progress->bytes, (uint64_t)delta);
}

void cli_progress_file(struct cli_progress *progress)
{
        atomic_fetch_add(&progress->files, 1);
}

void cli_progress_print(struct cli_progress *progress, bool out, const char *line)
{
        pthread_mutex_lock(&progress->lock);
        if (progress->drawn) {
                fputs("\r\033[K", stderr);
                fflush(stderr);
                progress->drawn = false;
        }
        fprintf(out ? stdout : stderr, "%s\n", line);
        pthread_mutex_unlock(&progress->lock);
}
