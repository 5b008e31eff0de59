/*
 * access_log.c - the access log: rings of bytes from the loops to one writer thread.
 *
 * A loop formats its line and copies it into its own ring (one producer, one consumer, two
 * counters, no lock); the writer takes all whole lines of all rings every few milliseconds and
 * writes them. A full ring drops the line and counts it (I9), and the writer says so in the log
 * itself: a log that has gaps must not look whole. The writer sleeps on an eventfd when nothing
 * comes.
 */
#include "server/access_log.h"

#include "server/json.h"
#include "server/daemon_log.h"
#include "server/redact.h"

#include "s3.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES   (12u << 10) /* one line, escaped */
#define GATHER_NS        5000000l    /* between two looks at the rings while lines come */
#define CLOSE_TIMEOUT_S  5
#define TARGET_MAX_BYTES 4096u
#define KEY_MAX_BYTES    3072u
#define AGENT_MAX_BYTES  512u
#define FIELD_MAX_BYTES  256u

struct ring {
        /* owner: the loop */
        char line[LINE_MAX_BYTES];
        char text[TARGET_MAX_BYTES]; /* one of its fields, redacted */
        _Alignas(64) _Atomic uint64_t head; /* bytes ever put in; written by the loop */
        _Atomic uint64_t lines, dropped;
        /* owner: the writer */
        _Alignas(64) _Atomic uint64_t tail; /* bytes ever taken out */
        uint64_t dropped_told;
        char *bytes; /* SRV_ACCESS_RING of them; between tail and head the writer's, else the loop's */
};

struct srv_access_log {
        char *path;
        int wake_fd;
        pthread_t writer;
        unsigned ring_count;
        struct ring *rings;
        _Atomic bool asleep, stop, reopen; /* asleep: the next line must wake the writer */
        /* owner: the writer, once it runs */
        int fd;
        bool failing;
        _Atomic uint64_t failed;
};

/* ---- on the loops ---------------------------------------------------------------------------- */

/* A text that the client has written: what would let its reader repeat the request is taken out. */
static void add_client_text(struct srv_json *json, struct ring *ring, const char *name, const char *value, size_t most)
{
        if (value != NULL)
                value = srv_redact(value, ring->text, sizeof(ring->text));
        srv_json_string(json, name, value, most);
}

static size_t format_line(struct ring *ring, const struct gw_access *line)
{
        struct srv_json json;
        char time[S3_DATE_ISO_SIZE];

        s3_date_format_iso(line->time_ms, time);
        srv_json_begin(&json, ring->line, sizeof(ring->line));
        srv_json_string(&json, "time", time, FIELD_MAX_BYTES);
        srv_json_string(&json, "request_id", line->request_id, FIELD_MAX_BYTES);
        srv_json_string(&json, "remote", line->remote, FIELD_MAX_BYTES);
        srv_json_string(&json, "method", line->method, FIELD_MAX_BYTES);
        srv_json_string(&json, "operation", line->operation, FIELD_MAX_BYTES);
        srv_json_uint(&json, "status", line->status);
        srv_json_string(&json, "error", line->error_code, FIELD_MAX_BYTES);
        add_client_text(&json, ring, "bucket", line->bucket, FIELD_MAX_BYTES);
        add_client_text(&json, ring, "key", line->key, KEY_MAX_BYTES);
        srv_json_uint(&json, "bytes_in", line->bytes_in);
        srv_json_uint(&json, "bytes_out", line->bytes_out);
        srv_json_uint(&json, "total_us", line->total_us);
        srv_json_uint(&json, "first_byte_us", line->first_byte_us);
        srv_json_string(&json, "access_key", line->access_key, FIELD_MAX_BYTES);
        srv_json_string(&json, "trace_id", line->trace_id, FIELD_MAX_BYTES);
        srv_json_string(&json, "parent_id", line->parent_id, FIELD_MAX_BYTES);
        add_client_text(&json, ring, "user_agent", line->user_agent, AGENT_MAX_BYTES);
        add_client_text(&json, ring, "target", line->target, TARGET_MAX_BYTES);
        return srv_json_end(&json);
}

static void wake_writer(struct srv_access_log *log)
{
        uint64_t one = 1;

        if (write(log->wake_fd, &one, sizeof(one)) < 0)
                return; /* the counter is at its end: it is awake */
}

void srv_access_log_add(struct srv_access_log *log, unsigned ring_index, const struct gw_access *line)
{
        struct ring *ring = &log->rings[ring_index];
        uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
        uint64_t used = head - atomic_load_explicit(&ring->tail, memory_order_acquire);
        size_t len = format_line(ring, line), at = head % SRV_ACCESS_RING, first;

        if (len > SRV_ACCESS_RING - used) {
                atomic_fetch_add_explicit(&ring->dropped, 1, memory_order_relaxed);
                return;
        }
        first = len < SRV_ACCESS_RING - at ? len : SRV_ACCESS_RING - at;
        memcpy(ring->bytes + at, ring->line, first);
        memcpy(ring->bytes, ring->line + first, len - first);
        atomic_fetch_add_explicit(&ring->lines, 1, memory_order_relaxed);
        atomic_store(&ring->head, head + len);
        /*
         * In one order for both sides: either this load sees asleep, or the writer, once asleep,
         * sees head.
         */
        if (atomic_load(&log->asleep) && atomic_exchange(&log->asleep, false))
                wake_writer(log);
}

void srv_access_log_callback(void *log, const struct gw_access *line)
{
        const struct lp_loop *loop = lp_self();

        /* Requests that are given up at the end are on their loop, too, though it has stopped. */
        srv_access_log_add(log, loop != NULL ? lp_index(loop) : 0, line);
}

/* ---- the writer ------------------------------------------------------------------------------ */

static int open_file(const char *path, int *out)
{
        int fd, flags;

        if (strcmp(path, "-") == 0) {
                *out = STDERR_FILENO;
                return 0;
        }
        /* Not blocking: a FIFO without a reader is refused instead of waited for. */
        fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
        if (fd < 0)
                return -errno;
        flags = fcntl(fd, F_GETFL);
        if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0) {
                flags = -errno;
                close(fd);
                return flags;
        }
        *out = fd;
        return 0;
}

static void close_file(int fd)
{
        if (fd != STDERR_FILENO)
                close(fd);
}

static void reopen_file(struct srv_access_log *log)
{
        int fd, rv;

        rv = open_file(log->path, &fd);
        if (rv != 0) {
                srv_log(SRV_LOG_ERROR, "access log %s cannot be opened again, the open file stays in use: %s",
                        log->path, strerror(-rv));
                return;
        }
        close_file(log->fd);
        log->fd = fd;
}

static void count_failed(struct srv_access_log *log, const char *bytes, size_t len, int error)
{
        uint64_t lines = 0;
        size_t i;

        for (i = 0; i < len; i++)
                lines += bytes[i] == '\n';
        atomic_fetch_add_explicit(&log->failed, lines, memory_order_relaxed);
        if (!log->failing)
                srv_log(SRV_LOG_ERROR, "access log %s: lines are lost: %s", log->path, strerror(error));
        log->failing = true;
}

static void write_bytes(struct srv_access_log *log, const char *bytes, size_t len)
{
        ssize_t n;

        while (len > 0) {
                n = write(log->fd, bytes, len);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0) {
                        count_failed(log, bytes, len, errno);
                        return;
                }
                bytes += n;
                len -= (size_t)n;
        }
        if (log->failing)
                srv_log(SRV_LOG_WARNING, "access log %s is written again", log->path);
        log->failing = false;
}

static void tell_dropped(struct srv_access_log *log, struct ring *ring)
{
        uint64_t dropped = atomic_load_explicit(&ring->dropped, memory_order_relaxed);
        struct srv_json json;
        char line[128], time[S3_DATE_ISO_SIZE];

        if (dropped == ring->dropped_told)
                return;
        s3_date_format_iso(lp_wall_ms(), time);
        srv_json_begin(&json, line, sizeof(line));
        srv_json_string(&json, "time", time, FIELD_MAX_BYTES);
        srv_json_uint(&json, "dropped_lines", dropped - ring->dropped_told);
        write_bytes(log, line, srv_json_end(&json));
        ring->dropped_told = dropped;
}

/* Writes all that stands in a ring. False: nothing did. */
static bool empty_ring(struct srv_access_log *log, struct ring *ring)
{
        uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
        uint64_t head = atomic_load(&ring->head);
        size_t at = tail % SRV_ACCESS_RING, len = (size_t)(head - tail), first;

        if (len == 0)
                return false;
        first = len < SRV_ACCESS_RING - at ? len : SRV_ACCESS_RING - at;
        write_bytes(log, ring->bytes + at, first);
        if (len > first)
                write_bytes(log, ring->bytes, len - first);
        atomic_store_explicit(&ring->tail, head, memory_order_release);
        tell_dropped(log, ring);
        return true;
}

static bool anything_to_do(struct srv_access_log *log)
{
        unsigned i;

        if (atomic_load(&log->stop) || atomic_load(&log->reopen))
                return true;
        for (i = 0; i < log->ring_count; i++)
                if (atomic_load(&log->rings[i].head) != atomic_load(&log->rings[i].tail))
                        return true;
        return false;
}

static void sleep_until_woken(struct srv_access_log *log)
{
        struct pollfd fd = {.fd = log->wake_fd, .events = POLLIN};
        uint64_t count;

        atomic_store(&log->asleep, true);
        if (!anything_to_do(log))
                poll(&fd, 1, -1);
        atomic_store(&log->asleep, false);
        if (read(log->wake_fd, &count, sizeof(count)) < 0)
                return; /* was not woken by a line */
}

static void *run_writer(void *arg)
{
        struct srv_access_log *log = arg;
        struct timespec gather = {.tv_nsec = GATHER_NS};
        bool stop, wrote;
        unsigned i;

        for (;;) {
                stop = atomic_load(&log->stop); /* read before the rings: what was added before it was set is written */
                if (atomic_exchange(&log->reopen, false))
                        reopen_file(log);
                wrote = false;
                for (i = 0; i < log->ring_count; i++)
                        wrote |= empty_ring(log, &log->rings[i]);
                if (stop && !wrote)
                        return NULL;
                if (!wrote)
                        sleep_until_woken(log);
                else if (!stop)
                        nanosleep(&gather, NULL);
        }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void free_log(struct srv_access_log *log)
{
        unsigned i;

        for (i = 0; log->rings != NULL && i < log->ring_count; i++)
                free(log->rings[i].bytes);
        free(log->rings);
        free(log->path);
        if (log->wake_fd >= 0)
                close(log->wake_fd);
        if (log->fd >= 0)
                close_file(log->fd);
        free(log);
}

static int make_rings(struct srv_access_log *log, unsigned count)
{
        unsigned i;

        if (posix_memalign((void **)&log->rings, 64, count * sizeof(*log->rings)) != 0) {
                log->rings = NULL;
                return -ENOMEM;
        }
        memset(log->rings, 0, count * sizeof(*log->rings));
        log->ring_count = count;
        for (i = 0; i < count; i++) {
                log->rings[i].bytes = malloc(SRV_ACCESS_RING);
                if (log->rings[i].bytes == NULL)
                        return -ENOMEM;
        }
        return 0;
}

int srv_access_log_open(const char *path, unsigned rings, struct srv_access_log **out, struct srv_error *error)
{
        struct srv_access_log *log;
        int rv;

        log = calloc(1, sizeof(*log));
        if (log == NULL)
                return srv_fail(error, -ENOMEM, "access_log: out of memory");
        log->fd = -1;
        log->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        log->path = strdup(path);
        rv = log->wake_fd < 0 || log->path == NULL ? -ENOMEM : make_rings(log, rings);
        if (rv == 0)
                rv = open_file(path, &log->fd);
        if (rv == 0)
                rv = -pthread_create(&log->writer, NULL, run_writer, log);
        if (rv != 0) {
                free_log(log);
                return srv_fail(error, rv, "access_log: cannot open %.200s: %s", path, strerror(-rv));
        }
        pthread_setname_np(log->writer, "access-log");
        *out = log;
        return 0;
}

void srv_access_log_reopen(struct srv_access_log *log)
{
        atomic_store(&log->reopen, true);
        wake_writer(log);
}

void srv_access_log_stats(const struct srv_access_log *log, struct srv_access_stats *out)
{
        unsigned i;

        memset(out, 0, sizeof(*out));
        for (i = 0; i < log->ring_count; i++) {
                out->lines += atomic_load_explicit(&log->rings[i].lines, memory_order_relaxed);
                out->dropped += atomic_load_explicit(&log->rings[i].dropped, memory_order_relaxed);
        }
        out->failed = atomic_load_explicit(&log->failed, memory_order_relaxed);
}

void srv_access_log_close(struct srv_access_log *log)
{
        struct timespec until;

        if (log == NULL)
                return;
        atomic_store(&log->stop, true);
        wake_writer(log);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += CLOSE_TIMEOUT_S;
        if (pthread_timedjoin_np(log->writer, NULL, &until) != 0) {
                srv_log(SRV_LOG_ERROR, "access log %s blocks, what waits for it is lost", log->path);
                return; /* the writer may wake some day: what it uses is left to it */
        }
        free_log(log);
}
