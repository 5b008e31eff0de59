/* rig.c - see rig.h. Trouble of the rig itself is told and ends the experiment. */
#include "bench/micro/rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SLOTS     64u
#define READY_S   120
#define INDEXED_S 120
#define BUCKET    "micro"

static uint64_t now_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double rig_now_s(void)
{
        return (double)now_ns() / 1e9;
}

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
        interrupted = 1;
}

void rig_catch_interrupts(void)
{
        struct sigaction action = {.sa_handler = on_interrupt};

        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
}

bool rig_interrupted(void)
{
        return interrupted != 0;
}

static void pause_ms(long ms)
{
        struct timespec pause = {.tv_nsec = ms * 1000000};

        nanosleep(&pause, NULL);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void fill_pattern(uint8_t *pattern)
{
        uint64_t x = 0x9e3779b97f4a7c15ull;

        for (size_t i = 0; i < RIG_PATTERN; i += sizeof(x)) {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                memcpy(pattern + i, &x, sizeof(x));
        }
        memcpy(pattern + RIG_PATTERN, pattern, RIG_PATTERN);
}

int rig_make(struct rig *rig, const char *below, unsigned loops)
{
        int rv = -ENAMETOOLONG;

        memset(rig, 0, sizeof(*rig));
        if ((size_t)snprintf(rig->root, sizeof(rig->root), "%s/millrace-micro-XXXXXX", below) >= sizeof(rig->root))
                goto err;
        if (mkdtemp(rig->root) == NULL) {
                rv = -errno;
                goto err;
        }
        snprintf(rig->drive, sizeof(rig->drive), "%s/drive", rig->root);
        rig->pattern = malloc(2 * (size_t)RIG_PATTERN);
        if (rig->pattern == NULL || mkdir(rig->drive, 0700) != 0) {
                rv = rig->pattern == NULL ? -ENOMEM : -errno;
                goto err_remove;
        }
        fill_pattern(rig->pattern);
        rig->loop_count = loops;
        rig->drives[0] = rig->drive;
        rig->options = (struct eng_options){.drives = rig->drives, .drive_count = 1, .cache_bytes = 64 << 20};
        return 0;

err_remove:
        rig_remove(rig);
err:
        fprintf(stderr, "micro: %s: %s\n", below, strerror(-rv));
        return rv;
}

static int unlink_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
        return remove(path);
}

void rig_remove(struct rig *rig)
{
        (void)nftw(rig->root, unlink_one, 16, FTW_DEPTH | FTW_PHYS);
        free(rig->pattern);
        rig->pattern = NULL;
}

static void *loop_main(void *arg)
{
        lp_loop_run(arg);
        return NULL;
}

static int make_loops(struct rig *rig)
{
        int rv = 0;

        for (unsigned i = 0; i < rig->loop_count; i++) {
                struct lp_config config = {.index = i, .slots = SLOTS};

                rv = lp_loop_new(&config, &rig->loops[i]);
                if (rv != 0) {
                        while (i-- > 0)
                                lp_loop_free(rig->loops[i]);
                        return rv;
                }
        }
        return 0;
}

static int wait_ready(struct rig *rig)
{
        struct eng_health *health = malloc(sizeof(*health));
        double until = rig_now_s() + READY_S;
        bool ready = false;

        while (health != NULL && !ready && rig_now_s() < until) {
                eng_health_read(rig->store, health);
                ready = health->ready && health->writable;
                if (!ready)
                        pause_ms(1);
        }
        if (health != NULL && !ready)
                fprintf(stderr, "micro: the store is not ready: %s\n", health->reason);
        free(health);
        return ready ? 0 : -ETIMEDOUT;
}

/* owner: the loop, until `done` */
struct bucket_call {
        struct lp_msg msg;
        struct rig *rig;
        sem_t done;
        int rv;
};

static const struct eng_str bucket_name = {BUCKET, sizeof(BUCKET) - 1};

static void bucket_made(void *arg, int rv)
{
        struct bucket_call *call = arg;
        const struct eng_bucket *bucket;

        call->rv = rv == -EEXIST ? 0 : rv;
        if (call->rv == 0)
                call->rv = eng_bucket_get(call->rig->store, bucket_name, &bucket);
        if (call->rv == 0)
                call->rig->bucket = bucket->id;
        sem_post(&call->done);
}

static void make_bucket(struct lp_msg *msg)
{
        struct bucket_call *call = (struct bucket_call *)msg;

        eng_bucket_create(call->rig->store, bucket_name, NULL, "", 0, bucket_made, call);
}

static int find_bucket(struct rig *rig)
{
        struct bucket_call call = {.msg.run = make_bucket, .rig = rig};

        sem_init(&call.done, 0, 0);
        lp_post(rig->loops[0], &call.msg);
        while (sem_wait(&call.done) != 0)
                ;
        sem_destroy(&call.done);
        return call.rv;
}

int rig_open(struct rig *rig, bool format)
{
        struct eng_error error = {{0}};
        int rv = make_loops(rig);

        if (rv != 0) {
                fprintf(stderr, "micro: cannot make event loops: %s\n", strerror(-rv));
                return rv;
        }
        rig->options.format = format;
        rig->options.loops = rig->loops;
        rig->options.loop_count = rig->loop_count;
        rv = eng_store_open(&rig->options, &rig->store, &error);
        if (rv != 0) {
                fprintf(stderr, "micro: %s\n", error.text);
                for (unsigned i = 0; i < rig->loop_count; i++)
                        lp_loop_free(rig->loops[i]);
                return rv;
        }
        for (unsigned i = 0; i < rig->loop_count; i++)
                if (pthread_create(&rig->threads[i], NULL, loop_main, rig->loops[i]) != 0)
                        abort(); /* no way back from here that would be worth its lines */
        eng_store_start(rig->store);
        rv = wait_ready(rig);
        if (rv == 0)
                rv = find_bucket(rig);
        if (rv != 0)
                rig_close(rig);
        return rv;
}

void rig_close(struct rig *rig)
{
        for (unsigned i = 0; i < rig->loop_count; i++)
                lp_loop_stop(rig->loops[i]);
        for (unsigned i = 0; i < rig->loop_count; i++)
                pthread_join(rig->threads[i], NULL);
        if (eng_store_close(rig->store)) /* else a thread may come back to all that, and the process ends soon */
                for (unsigned i = 0; i < rig->loop_count; i++)
                        lp_loop_free(rig->loops[i]);
        rig->store = NULL;
}

void rig_drive_info(struct rig *rig, struct eng_drive_info *out)
{
        struct eng_health *health = malloc(sizeof(*health));

        memset(out, 0, sizeof(*out));
        if (health == NULL)
                return;
        eng_health_read(rig->store, health);
        *out = health->drives[0];
        free(health);
}

void rig_wait_indexed(struct rig *rig)
{
        double until = rig_now_s() + INDEXED_S;
        struct eng_drive_info info;

        do {
                pause_ms(20);
                rig_drive_info(rig, &info);
        } while (info.memtable_bytes > 0 && rig_now_s() < until);
}

/* Calls act() for each file of a folder of the drive. */
static void each_file(const struct rig *rig, const char *name, void (*act)(int fd, void *arg), void *arg)
{
        char path[600];
        struct dirent *entry;
        DIR *dir;

        snprintf(path, sizeof(path), "%s/%s", rig->drive, name);
        dir = opendir(path);
        while (dir != NULL && (entry = readdir(dir)) != NULL) {
                int fd = entry->d_name[0] != '.' ? openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC) : -1;

                if (fd < 0)
                        continue;
                act(fd, arg);
                close(fd);
        }
        if (dir != NULL)
                closedir(dir);
}

static void cool(int fd, void *arg)
{
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

void rig_cool(const struct rig *rig)
{
        sync();
        each_file(rig, "log", cool, NULL);
        each_file(rig, "data", cool, NULL);
}

static void add_bytes(int fd, void *arg)
{
        struct stat st;

        if (fstat(fd, &st) == 0)
                *(uint64_t *)arg += (uint64_t)st.st_blocks * 512;
}

uint64_t rig_disk_bytes(const struct rig *rig, const char *name)
{
        uint64_t bytes = 0;

        each_file(rig, name, add_bytes, &bytes);
        return bytes;
}

/* ---- operations ------------------------------------------------------------------------------ */

/* The operation's next turn, or its end. */
static void op_next(struct rig_op *op)
{
        struct rig_run *run = op->run;
        uint64_t index = atomic_fetch_add(&run->next, 1);

        if (index >= run->count || interrupted || atomic_load(&run->rv) != 0 ||
            (run->end_ns != 0 && now_ns() >= run->end_ns)) {
                if (atomic_fetch_sub(&run->live, 1) == 1)
                        sem_post(&run->over);
                return;
        }
        op->index = index;
        op->at = 0;
        op->since_ns = now_ns();
        run->begin(op);
}

static void op_start(struct lp_msg *msg)
{
        op_next((struct rig_op *)msg);
}

void rig_op_done(struct rig_op *op, int rv, uint64_t bytes, uint64_t entries)
{
        struct rig_run *run = op->run;
        int none = 0;

        if (rv != 0) {
                atomic_compare_exchange_strong(&run->rv, &none, rv);
        } else {
                load_stats_add(&run->stats[op->loop], now_ns() - op->since_ns);
                atomic_fetch_add(&run->done, 1);
                atomic_fetch_add(&run->bytes, bytes);
                atomic_fetch_add(&run->entries, entries);
        }
        op_next(op);
}

static void merge(struct load_stats *into, const struct load_stats *from)
{
        into->count += from->count;
        into->sum += from->sum;
        if (from->max > into->max)
                into->max = from->max;
        for (unsigned i = 0; i < LOAD_BUCKETS; i++)
                into->bucket[i] += from->bucket[i];
}

int rig_run(struct rig_run *run)
{
        struct rig_op *ops = calloc(run->depth, sizeof(*ops));
        uint64_t begun;

        if (ops == NULL)
                return -ENOMEM;
        sem_init(&run->over, 0, 0);
        atomic_store(&run->live, run->depth);
        begun = now_ns();
        run->end_ns = run->seconds > 0 ? begun + (uint64_t)(run->seconds * 1e9) : 0;
        for (unsigned i = 0; i < run->depth; i++) {
                ops[i].msg.run = op_start;
                ops[i].run = run;
                ops[i].loop = i % run->rig->loop_count;
                lp_post(run->rig->loops[ops[i].loop], &ops[i].msg);
        }
        while (sem_wait(&run->over) != 0)
                ; /* interrupted: the operations notice */
        run->took_s = (double)(now_ns() - begun) / 1e9;
        sem_destroy(&run->over);
        for (unsigned i = 1; i < run->rig->loop_count; i++)
                merge(&run->stats[0], &run->stats[i]);
        free(ops);
        if (interrupted)
                return -EINTR;
        if (atomic_load(&run->rv) != 0)
                fprintf(stderr, "micro: an operation failed: %s\n", strerror(-atomic_load(&run->rv)));
        return atomic_load(&run->rv);
}
