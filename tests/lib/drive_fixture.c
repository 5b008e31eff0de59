/*
 * drive_fixture.c - see drive_fixture.h. Trouble of the fixture itself aborts: it is no result of
 * the test.
 */
#include "tests/lib/drive_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ec.h"
#include "tests/lib/filter_wire.h"
#include "tests/lib/must.h"
#include "tests/lib/wait.h"

static void run_command(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void run_command(const char *format, ...)
{
        char command[1024];
        va_list args;

        va_start(args, format);
        vsnprintf(command, sizeof(command), format, args);
        va_end(args);
        MUST(system(command) == 0);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_failed(void *arg, struct eng_drive *drive, const char *text)
{
        struct fx *fx = arg;

        pthread_mutex_lock(&fx->lock);
        snprintf(fx->failed, sizeof(fx->failed), "%s", text);
        pthread_mutex_unlock(&fx->lock);
}

static void on_superseded(void *arg, struct eng_drive *drive, struct eng_buf *const values[], unsigned n)
{
        struct fx *fx = arg;
        struct eng_part part;
        size_t pos;
        unsigned i;

        pthread_mutex_lock(&fx->lock);
        for (i = 0; i < n; i++) {
                pos = 0;
                while (eng_value_next_part(values[i]->data, values[i]->len, &pos, &part) == 1 && fx->dead.count < 4096)
                        memcpy(fx->dead.ids[fx->dead.count++], part.head.id, FMT_ID);
        }
        pthread_mutex_unlock(&fx->lock);
}

unsigned fx_dead_count(struct fx *fx)
{
        unsigned count;

        pthread_mutex_lock(&fx->lock);
        count = fx->dead.count;
        pthread_mutex_unlock(&fx->lock);
        return count;
}

void fx_make(struct fx *fx, unsigned loops)
{
        const char *tmp = getenv("TMPDIR");
        struct fmt_epoch epoch = {.number = FX_EPOCH, .id = {1}, .pg_count = 16, .drives = 0, .k = 1};

        memset(fx, 0, sizeof(*fx));
        pthread_mutex_init(&fx->lock, NULL);
        snprintf(fx->root, sizeof(fx->root), "%s/mr-drive-XXXXXX", tmp != NULL ? tmp : "/tmp");
        MUST(mkdtemp(fx->root) != NULL);
        snprintf(fx->path, sizeof(fx->path), "%s/drive", fx->root);
        MUST(mkdir(fx->path, 0700) == 0);
        fx->loop_count = loops;
        fx->options.path = fx->path;
        memset(fx->options.identity.store_id, 0xaa, FMT_ID);
        memset(fx->options.identity.drive_id, 0xbb, FMT_ID);
        fx->options.identity.layout = FMT_LAYOUT_VERSION;
        fx->options.log_file_bytes = 4u << 20;
        fx->options.segment_bytes = 8u << 20;
        fx->options.full_reserve_bytes = 1;
        fx->options.failed = on_failed;
        fx->options.superseded = on_superseded;
        fx->options.arg = fx;
        MUST(eng_folder_format(fx->path, &fx->options.identity, &epoch, sizeof(epoch), &fx->error) == 0);
}

static void *loop_main(void *arg)
{
        MUST(lp_loop_run(arg) == 0);
        return NULL;
}

static void stop_loops(struct fx *fx)
{
        unsigned i;

        for (i = 0; i < fx->loop_count && !fx->stopped; i++) {
                lp_loop_stop(fx->loops[i]);
                pthread_join(fx->threads[i], NULL);
        }
        fx->stopped = false;
}

void fx_stop(struct fx *fx)
{
        stop_loops(fx);
        fx->stopped = true;
}

static void free_loops(struct fx *fx)
{
        unsigned i;

        for (i = 0; i < fx->loop_count; i++)
                lp_loop_free(fx->loops[i]);
}

int fx_open(struct fx *fx)
{
        unsigned i;
        int rv;

        fx->closed = false;
        for (i = 0; i < fx->loop_count; i++) {
                struct lp_config config = {.index = i, .ring_entries = 64, .slots = FX_SLOTS};

                MUST(lp_loop_new(&config, &fx->loops[i]) == 0);
                MUST(pthread_create(&fx->threads[i], NULL, loop_main, fx->loops[i]) == 0);
        }
        fx->options.owner = fx->loops[0];
        rv = eng_local_open(&fx->options, &fx->local, &fx->error);
        fx->drive = fx->local;
        filter_wire_use();
        if (rv == 0 && fx->filters != NULL)
                rv = eng_filter_stack(fx->local, fx->filters, &fx->drive, &fx->error);
        if (rv != 0) {
                stop_loops(fx);
                if (fx->local != NULL)
                        fx->local->ops->close(fx->local);
                free_loops(fx);
                fx->drive = fx->local = NULL;
        }
        return rv;
}

void fx_close(struct fx *fx)
{
        if (fx->drive == NULL)
                return;
        stop_loops(fx);
        fx->closed = true;
        fx->drive->ops->close(fx->drive);
        free_loops(fx);
        fx->drive = fx->local = NULL;
}

void fx_snapshot(const struct fx *fx, const char *name)
{
        /* a file made ahead may be given its name meanwhile: then once more */
        run_command("for i in 1 2 3 4 5 6 7 8; do rm -rf '%s/%s' && cp -a --sparse=always '%s' '%s/%s' 2>/dev/null && exit 0; done; exit 1", fx->root, name, fx->path,
                    fx->root, name);
}

void fx_restore(struct fx *fx, const char *name)
{
        run_command("rm -rf '%s' && cp -a --sparse=always '%s/%s' '%s'", fx->path, fx->root, name, fx->path);
}

void fx_destroy(struct fx *fx)
{
        fx_close(fx);
        run_command("rm -rf '%s'", fx->root);
        pthread_mutex_destroy(&fx->lock);
}

/* ---- ops ------------------------------------------------------------------------------------- */

static void op_done(struct eng_op *op)
{
        struct fx_op *of = container_of(op, struct fx_op, op);

        sem_post(&of->ended);
}

static void op_submit(struct lp_msg *msg)
{
        struct fx_op *of = container_of(msg, struct fx_op, msg);

        if (!of->fx->closed) /* else a loop runs, as it is freed, what it was sent too late */
                eng_drive_submit(of->drive, &of->op);
}

void fx_start(struct fx *fx, unsigned loop, struct fx_op *op)
{
        sem_init(&op->ended, 0, 0);
        op->fx = fx;
        op->drive = fx->drive;
        op->op.done = op_done;
        if (op->op.epoch == 0)
                op->op.epoch = FX_EPOCH;
        if (eng_term_is_none(&op->op.term))
                op->op.term = fx->term;
        op->msg.run = op_submit;
        lp_post(fx->loops[loop], &op->msg);
}

int fx_wait(struct fx_op *op)
{
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += WAIT_MOST;
        while (sem_timedwait(&op->ended, &until) != 0)
                MUST(errno == EINTR);
        sem_destroy(&op->ended);
        return op->op.result;
}

int fx_run(struct fx *fx, struct fx_op *op)
{
        fx_start(fx, 0, op);
        return fx_wait(op);
}

static void wait_sem(sem_t *sem)
{
        while (sem_wait(sem) != 0)
                MUST(errno == EINTR);
}

struct call {
        struct lp_msg msg;
        void (*function)(void *arg);
        void *arg;
        sem_t ended;
};

static void call_run(struct lp_msg *msg)
{
        struct call *call = container_of(msg, struct call, msg);

        call->function(call->arg);
        sem_post(&call->ended);
}

void fx_call(struct fx *fx, unsigned loop, void (*function)(void *arg), void *arg)
{
        struct call call = {.function = function, .arg = arg};

        sem_init(&call.ended, 0, 0);
        call.msg.run = call_run;
        lp_post(fx->loops[loop], &call.msg);
        wait_sem(&call.ended);
        sem_destroy(&call.ended);
}

struct hold {
        struct lp_msg msg;
        sem_t held, go;
};

static void hold_run(struct lp_msg *msg)
{
        struct hold *hold = container_of(msg, struct hold, msg);

        sem_post(&hold->held);
        wait_sem(&hold->go);
}

static void do_nothing(void *arg)
{
}

void fx_start_group(struct fx *fx, struct fx_op *ops, unsigned n)
{
        static struct hold hold; /* the loop may still be in sem_wait() when this returns */
        unsigned i;

        hold.msg.run = hold_run;
        sem_init(&hold.held, 0, 0);
        sem_init(&hold.go, 0, 0);
        lp_post(fx->loops[0], &hold.msg);
        wait_sem(&hold.held);
        for (i = 0; i < n; i++)
                fx_start(fx, i % fx->loop_count, &ops[i]);
        for (i = 1; i < fx->loop_count; i++)
                fx_call(fx, i, do_nothing, NULL); /* what was started there has been handed on */
        sem_post(&hold.go);
}

/* ---- appends --------------------------------------------------------------------------------- */

void fx_fill_append(struct fx_op *op, const struct fx_body *body, uint32_t pg, uint64_t seq, uint64_t committed)
{
        memset(op, 0, sizeof(*op));
        op->op.kind = ENG_OP_APPEND;
        op->op.flags = ENG_OP_CACHE;
        op->op.append.body = fx_body_buf(body);
        op->op.append.body_crc = era_crc32c(0, body->bytes, body->len);
        op->op.append.inline_len = (uint32_t)body->inline_len;
        op->op.append.type = FMT_RECORD_PG;
        op->op.append.pg = pg;
        op->op.append.seq = seq;
        op->op.append.committed = committed;
}

int fx_append(struct fx *fx, const struct fx_body *body, uint32_t pg, uint64_t seq, uint64_t committed)
{
        struct fx_op op;
        int rv;

        fx_fill_append(&op, body, pg, seq, committed);
        rv = fx_run(fx, &op);
        eng_buf_unref(op.op.append.body);
        return rv;
}

int fx_commit(struct fx *fx, uint32_t pg, uint64_t seq)
{
        struct fx_op op = {.op = {.kind = ENG_OP_COMMIT, .commit = {.pg = pg, .seq = seq}}};

        return fx_run(fx, &op);
}

static int change(struct fx *fx, const struct fx_body *body)
{
        uint64_t seq = ++fx->seq;
        int rv = fx_append(fx, body, 1, seq, seq - 1);

        return rv != 0 ? rv : fx_commit(fx, 1, seq);
}

int fx_put(struct fx *fx, const char *name, const void *bytes, size_t len)
{
        static _Thread_local struct fx_body body;
        uint8_t full[FMT_NAME_MAX];
        size_t full_len = fx_name(full, name);

        body.len = body.inline_len = 0;
        fx_body_put(&body, full, full_len, fx->seq + 1, 1, bytes, len);
        return change(fx, &body);
}

int fx_delete(struct fx *fx, const char *name)
{
        static _Thread_local struct fx_body body;
        uint8_t full[FMT_NAME_MAX];
        size_t full_len = fx_name(full, name);

        body.len = body.inline_len = 0;
        fx_body_delete(&body, full, full_len);
        return change(fx, &body);
}

int fx_lookup(struct fx *fx, const void *name, size_t name_len, struct eng_buf **value, struct eng_buf **bytes)
{
        struct fx_op op = {.op = {.kind = ENG_OP_LOOKUP}};
        int rv;

        op.op.lookup.name = name;
        op.op.lookup.name_len = (uint16_t)name_len;
        op.op.flags = bytes != NULL ? ENG_OP_WANT_INLINE : 0;
        rv = fx_run(fx, &op);
        if (value != NULL)
                *value = op.op.lookup.value;
        else
                eng_buf_unref(op.op.lookup.value);
        if (bytes != NULL)
                *bytes = op.op.lookup.bytes;
        return rv;
}

bool fx_has(struct fx *fx, const char *name, const void *bytes, size_t len)
{
        struct eng_buf *value = NULL, *found = NULL;
        uint8_t full[FMT_NAME_MAX];
        size_t full_len = fx_name(full, name);
        bool same;

        same = fx_lookup(fx, full, full_len, &value, &found) == 0 &&
               (len == 0 ? found == NULL : found != NULL && found->len == len && memcmp(found->data, bytes, len) == 0);
        eng_buf_unref(value);
        eng_buf_unref(found);
        return same;
}

int fx_lookup_rv(struct fx *fx, const char *name)
{
        uint8_t full[FMT_NAME_MAX];
        size_t full_len = fx_name(full, name);

        return fx_lookup(fx, full, full_len, NULL, NULL);
}

bool fx_wait_indexed(struct fx *fx)
{
        struct eng_drive_info info;

        WAIT_UNTIL((eng_drive_info(fx->local, &info), info.memtable_bytes == 0));
        return info.memtable_bytes == 0;
}

/* ---- damage ---------------------------------------------------------------------------------- */

static bool ends_in(const char *name, const char *suffix)
{
        size_t n = strlen(name), m = strlen(suffix);

        return n >= m && strcmp(name + n - m, suffix) == 0;
}

static unsigned walk(const struct fx *fx, const char *folder, const char *suffix, char *first, size_t cap)
{
        char path[256], best[256] = "";
        struct dirent *entry;
        unsigned count = 0;
        DIR *dir;

        snprintf(path, sizeof(path), "%s/%s", fx->path, folder);
        dir = opendir(path);
        MUST(dir != NULL);
        while ((entry = readdir(dir)) != NULL) {
                if (entry->d_name[0] == '.' || !ends_in(entry->d_name, suffix))
                        continue;
                count++;
                if (best[0] == 0 || strcmp(entry->d_name, best) < 0)
                        memcpy(best, entry->d_name, strlen(entry->d_name) + 1);
        }
        closedir(dir);
        if (first != NULL)
                snprintf(first, cap, "%s/%s", path, best);
        return count;
}

void fx_first(const struct fx *fx, const char *folder, char *out, size_t cap)
{
        walk(fx, folder, "", out, cap);
}

unsigned fx_count_files(const struct fx *fx, const char *folder, const char *suffix)
{
        return walk(fx, folder, suffix, NULL, 0);
}

void fx_flip(const char *path, uint64_t offset)
{
        int fd = open(path, O_RDWR);
        uint8_t byte;

        MUST(fd >= 0);
        MUST(pread(fd, &byte, 1, (off_t)offset) == 1);
        byte ^= 0x40;
        MUST(pwrite(fd, &byte, 1, (off_t)offset) == 1);
        close(fd);
}

uint64_t fx_file_size(const char *path)
{
        struct stat st;

        MUST(stat(path, &st) == 0);
        return (uint64_t)st.st_size;
}
