/*
 * home_fixture.c - see home_fixture.h.
 */
#include "tests/lib/home_fixture.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/identity.h"
#include "engine/serve/serve.h"
#include "engine_home.h"
#include "tests/lib/wait.h"

#define HOUR_NS (3600ull * 1000 * 1000 * 1000)
#define PINS    4096u

#define HOMES   3u

static struct hf *open_homes[HOMES];

/* ---- on a loop ------------------------------------------------------------------------------- */

struct errand {
        struct lp_msg msg;
        void (*run)(void *arg);
        void *arg;
        sem_t done;
};

static void errand_run(struct lp_msg *msg)
{
        struct errand *e = (struct errand *)msg;

        e->run(e->arg);
        sem_post(&e->done);
}

static void on_loop(struct lp_loop *loop, void (*run)(void *arg), void *arg)
{
        struct errand e = {.msg.run = errand_run, .run = run, .arg = arg};

        sem_init(&e.done, 0, 0);
        lp_post(loop, &e.msg);
        while (sem_wait(&e.done) != 0)
                ;
        sem_destroy(&e.done);
}

/* ---- drives ---------------------------------------------------------------------------------- */

struct far_drive {
        struct eng_drive drive; /* first */
        struct hf *hf;
};

struct far_op {
        struct eng_op op; /* first */
        struct lp_msg msg;
        struct hf *hf;
        struct eng_op *from;
        struct lp_loop *home;
        unsigned slot;
        uint8_t id[FMT_ID]; /* of the drive that is meant */
        void *memory;
};

static void far_op_back(struct lp_msg *msg)
{
        struct far_op *far = container_of(msg, struct far_op, msg);
        struct eng_op *from = far->from;

        atomic_fetch_sub(&far->hf->out, 1);
        from->result = far->op.result;
        if (from->kind == ENG_OP_READ && from->result == 0) {
                memcpy((uint8_t *)from->read.slot + LP_SLOT_HEADER + from->read.offset,
                       (uint8_t *)far->memory + LP_SLOT_HEADER + far->op.read.offset, from->read.len);
                from->read.crc = far->op.read.crc;
        } else if (from->kind == ENG_OP_WRITE) {
                from->incarnation = far->op.incarnation;
        } else if (from->kind == ENG_OP_HELD) {
                memcpy(from->held.bits, far->op.held.bits, sizeof(from->held.bits));
        }
        free(far->memory);
        free(far);
        from->done(from);
}

static void far_op_done(struct eng_op *op)
{
        struct far_op *far = (struct far_op *)op;

        far->op.incarnation = atomic_load(&far->hf->incarnation);
        far->msg.run = far_op_back;
        lp_post(far->home, &far->msg);
}

static void far_op_arrive(struct lp_msg *msg)
{
        struct far_op *far = container_of(msg, struct far_op, msg);
        struct eng_drive *drive = far->hf->leader->store->members[far->slot].drive;

        far->op.result = -EHOSTUNREACH;
        if ((atomic_load(&far->hf->unreached) & eng_bit(far->slot)) || drive == NULL || memcmp(drive->id, far->id, FMT_ID) != 0)
                far_op_done(&far->op);
        else if (far->op.kind == ENG_OP_SYNC && far->op.incarnation != atomic_load(&far->hf->incarnation))
                far_op_done(&far->op);
        else
                eng_drive_submit(drive, &far->op);
}

static void far_submit(struct eng_drive *drive, struct eng_op *op)
{
        struct far_drive *d = (struct far_drive *)drive;
        struct sf *leader = d->hf->leader;
        struct far_op *far = calloc(1, sizeof(*far));

        assert(far != NULL);
        assert(op->kind == ENG_OP_READ || op->kind == ENG_OP_WRITE || op->kind == ENG_OP_SYNC || op->kind == ENG_OP_HELD); /* all that a home asks */
        atomic_fetch_add(&d->hf->out, 1);
        atomic_fetch_add(&d->hf->writes, op->kind == ENG_OP_WRITE);
        memcpy(&far->op, op, sizeof(*op));
        far->op.done = far_op_done;
        far->hf = d->hf;
        far->from = op;
        far->home = lp_self();
        far->slot = drive->slot;
        memcpy(far->id, drive->id, FMT_ID);
        if (op->kind == ENG_OP_READ || op->kind == ENG_OP_WRITE) {
                far->memory = aligned_alloc(4096, LP_SLOT_SIZE);
                assert(far->memory != NULL);
        }
        if (op->kind == ENG_OP_READ) {
                far->op.read.slot = far->memory;
                far->op.read.left = NULL;
        } else if (op->kind == ENG_OP_WRITE) {
                memcpy((uint8_t *)far->memory + LP_SLOT_HEADER, op->write.payload, op->write.payload_len);
                far->op.write.slot = far->memory;
                far->op.write.payload = (uint8_t *)far->memory + LP_SLOT_HEADER;
        }
        far->msg.run = far_op_arrive;
        lp_post(leader->loops[drive->slot % leader->loop_count], &far->msg);
}

static void far_close(struct eng_drive *drive)
{
        free(drive);
}

static bool far_ends(struct eng_drive *drive, unsigned seconds)
{
        return true;
}

static bool far_waits(struct eng_drive *drive)
{
        return atomic_load(&((struct far_drive *)drive)->hf->out) > 0;
}

static const struct eng_drive_ops far_ops = {.submit = far_submit, .close = far_close, .ends = far_ends, .awaits_file = far_waits};

static bool far_is(const char *path)
{
        return strncmp(path, "home:", 5) == 0 || strncmp(path, "remote:", 7) == 0;
}

static int far_open(const struct eng_drive_opener *opener, const struct eng_local_options *options, struct eng_drive **out,
                    struct eng_error *error)
{
        struct hf *hf = container_of((struct eng_drive_opener *)opener, struct hf, opener);
        struct far_drive *d = calloc(1, sizeof(*d));

        assert(d != NULL);
        if (atomic_load(&hf->unreached) & eng_bit(options->identity.slot)) {
                free(d);
                return eng_error_set(error, -EAGAIN, "not reached");
        }
        d->drive.ops = &far_ops;
        d->drive.slot = options->identity.slot;
        memcpy(d->drive.id, options->identity.drive_id, FMT_ID);
        d->drive.owner = options->owner;
        d->hf = hf;
        *out = &d->drive;
        return 0;
}

static const struct eng_drive_opener far_opener = {.is_remote = far_is, .open = far_open};

static bool far_path(void *arg, unsigned slot, uint16_t node, char out[ENG_PATH_MAX])
{
        snprintf(out, ENG_PATH_MAX, "home:%u", slot);
        return true;
}

/* ---- calls ----------------------------------------------------------------------------------- */

struct flight {
        struct eng_serving serving; /* first */
        struct lp_msg msg;
        struct hf *hf;
        struct eng_leader_call *call;
        struct lp_loop *home;
        uint8_t *body, *answer, *bulk;
        size_t answer_len, bulk_len;
        enum eng_leader_outcome outcome;
};

static pthread_mutex_t pins_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
        const struct hf *hf;
        uint64_t number;
        struct eng_lookup *pin;
} pins[PINS];

static void keep_pin(struct hf *hf, uint64_t number, struct eng_lookup *pin)
{
        unsigned i;

        pthread_mutex_lock(&pins_lock);
        for (i = 0; i < PINS && pins[i].pin != NULL; i++)
                ;
        assert(i < PINS);
        pins[i].hf = hf;
        pins[i].number = number;
        pins[i].pin = pin;
        pthread_mutex_unlock(&pins_lock);
        atomic_fetch_add(&hf->pins, 1);
}

static void link_unpin(void *arg, uint64_t number)
{
        struct hf *hf = arg;
        unsigned i;

        pthread_mutex_lock(&pins_lock);
        for (i = 0; i < PINS && !(pins[i].pin != NULL && pins[i].hf == hf && pins[i].number == number); i++)
                ;
        assert(i < PINS);
        eng_serve_unpin(pins[i].pin);
        pins[i].pin = NULL;
        pthread_mutex_unlock(&pins_lock);
        atomic_fetch_sub(&hf->pins, 1);
}

static void flight_back(struct lp_msg *msg)
{
        struct flight *f = container_of(msg, struct flight, msg);
        struct eng_leader_call *call = f->call;

        atomic_fetch_sub(&f->hf->out, 1);
        call->outcome = f->outcome;
        call->answer = f->answer;
        call->answer_len = (uint32_t)f->answer_len;
        call->answer_bulk = f->bulk_len;
        if (f->bulk_len > 0) {
                assert(f->bulk_len <= call->room_len);
                memcpy(call->room, f->bulk, f->bulk_len);
        }
        call->done(call);
        free(f->body);
        free(f->answer);
        free(f->bulk);
        free(f);
}

static void flight_home(struct flight *f, enum eng_leader_outcome outcome)
{
        f->outcome = outcome;
        f->msg.run = flight_back;
        lp_post(f->home, &f->msg);
}

static void flight_served(struct eng_serving *s)
{
        struct flight *f = (struct flight *)s;
        unsigned i;

        atomic_fetch_add(&f->hf->calls, 1);
        if (s->pin != NULL)
                keep_pin(f->hf, s->pin_number, s->pin);
        f->answer = malloc(s->answer_len);
        memcpy(f->answer, s->answer, s->answer_len);
        f->answer_len = s->answer_len;
        for (i = 0; i < s->answer_bulk.count; i++)
                f->bulk_len += s->answer_bulk.piece[i].len;
        f->bulk = malloc(f->bulk_len + 1);
        for (f->bulk_len = i = 0; i < s->answer_bulk.count; f->bulk_len += s->answer_bulk.piece[i++].len)
                memcpy(f->bulk + f->bulk_len, s->answer_bulk.piece[i].bytes, s->answer_bulk.piece[i].len);
        if (f->hf->spoil != NULL && f->bulk_len > 0)
                f->hf->spoil(f->bulk, f->bulk_len);
        eng_buf_unref(s->bulk);
        s->bulk = NULL;
        if (atomic_load(&f->hf->lose_answers)) {
                f->bulk_len = 0;
                flight_home(f, ENG_LEADER_UNKNOWN);
        } else {
                flight_home(f, ENG_LEADER_ANSWERED);
        }
}

static bool link_awaits(void *arg)
{
        return atomic_load(&((struct hf *)arg)->out) > 0;
}

static void link_call(void *arg, struct eng_leader_call *call)
{
        struct hf *hf = arg;
        struct flight *f = calloc(1, sizeof(*f));
        size_t len = 0;
        unsigned i;

        assert(f != NULL);
        f->hf = hf;
        f->call = call;
        f->home = lp_self();
        atomic_fetch_add(&hf->out, 1);
        if (atomic_load(&hf->cut)) {
                flight_home(f, ENG_LEADER_NOT_SENT);
                return;
        }
        f->body = malloc(call->body_len);
        memcpy(f->body, call->body, call->body_len);
        for (i = 0; i < call->bulk_count; i++)
                len += call->bulk[i].iov_len;
        f->serving.bulk = len == 0 ? NULL : eng_buf_new(len);
        for (len = i = 0; i < call->bulk_count; len += call->bulk[i++].iov_len)
                memcpy(f->serving.bulk->data + len, call->bulk[i].iov_base, call->bulk[i].iov_len);
        f->serving.store = hf->leader->store;
        f->serving.body = f->body;
        f->serving.len = call->body_len;
        f->serving.room = call->room_len;
        f->serving.done = flight_served;
        assert(eng_serve_call(&f->serving, &(struct eng_served_home){.node = hf->home.options.site.node, .boot = hf->home.options.boot, .loops = hf->home.loop_count}) == 0);
}

/* ---- what the home follows ------------------------------------------------------------------- */

struct following {
        struct hf *hf;
        uint8_t *bytes;
        size_t len;
        bool first, last, rows;
        int rv;
        sem_t taken;
};

static void read_state(void *arg)
{
        struct following *f = arg;

        f->len = eng_home_state_write(f->hf->leader->store, f->bytes);
}

static void read_rows(void *arg)
{
        struct following *f = arg;

        f->len = eng_home_rows_write(f->hf->leader->store, f->hf->reading, f->bytes, &f->first, &f->last);
}

static void following_taken(void *arg)
{
        sem_post(&((struct following *)arg)->taken);
}

static void give_state(void *arg)
{
        struct following *f = arg;

        eng_home_clock_take(f->hf->home.store, eng_lock_now(f->hf->leader->store));
        f->rv = eng_home_state_take(f->hf->home.store, f->bytes, f->len, following_taken, f);
}

static void give_rows(void *arg)
{
        struct following *f = arg;

        f->rv = eng_home_rows_read(f->hf->home.store, f->bytes, f->len, f->first, f->last, following_taken, f);
}

static void give_same(void *arg)
{
        struct following *f = arg;

        f->rv = 0;
        eng_home_rows_same(f->hf->home.store, following_taken, f);
}

static void follow(struct following *f, void (*give)(void *arg))
{
        on_loop(f->hf->home.store->coord_loop->loop, give, f);
        assert(f->rv == 0);
        while (sem_wait(&f->taken) != 0)
                ;
}

void hf_follow(struct hf *hf)
{
        struct following f = {.hf = hf, .bytes = malloc(ENG_HOME_ROWS_MAX)};

        assert(f.bytes != NULL);
        sem_init(&f.taken, 0, 0);
        on_loop(hf->leader->store->coord_loop->loop, read_state, &f);
        assert(f.len > 0);
        follow(&f, give_state);
        do {
                on_loop(hf->leader->store->coord_loop->loop, read_rows, &f);
                if (hf->reading->same)
                        follow(&f, give_same);
                if (f.len > 0 || f.first || f.last)
                        follow(&f, give_rows);
        } while (f.len > 0 || hf->reading->all);
        sem_destroy(&f.taken);
        free(f.bytes);
}

void hf_lease(struct hf *hf, bool lasts)
{
        atomic_store(&hf->lease_end, lasts ? lp_boot_clock() + HOUR_NS : 0);
}

/* All drives that are in are reached. */
static bool reaches_all(struct hf *hf)
{
        struct eng_view view = sf_view(&hf->home);

        return view.ready && (view.in & ~view.up) == 0;
}

const struct eng_drive_opener *hf_drives(struct hf *hf, struct sf *leader)
{
        unsigned i = 0;

        memset(hf, 0, sizeof(*hf));
        while (i < HOMES - 1 && open_homes[i] != NULL && open_homes[i] != hf)
                i++;
        assert(open_homes[i] == NULL || open_homes[i] == hf);
        open_homes[i] = hf;
        hf->opener = far_opener;
        hf->leader = leader;
        atomic_store(&hf->incarnation, 77);
        return &hf->opener;
}

void hf_run(struct lp_loop *loop, void (*run)(void *arg), void *arg)
{
        on_loop(loop, run, arg);
}

static void home_begin(struct hf *hf, struct sf *leader, unsigned loops, struct sf *first)
{
        struct sf *home = &hf->home;
        unsigned i;

        hf_drives(hf, leader);
        hf->reading = calloc(1, sizeof(*hf->reading));
        hf->reading->version = UINT64_MAX; /* none: all rows are read */
        hf->link = (struct eng_leader_link){.call = link_call, .unpin = link_unpin, .awaits = link_awaits, .path = far_path, .lease_end = &hf->lease_end, .arg = hf};
        memcpy(hf->link.store_id, leader->store->store_id, FMT_ID);
        home->loop_count = loops;
        home->options = (struct eng_options){.leader = &hf->link, .opener = &hf->opener, .site.node = 9, .boot = 3, .inline_max = leader->options.inline_max};
        assert((first != NULL ? sf_open_beside(home, first, false) : sf_open(home, false)) == 0);
        hf_lease(hf, true);
        hf_follow(hf);
        for (i = 0; i < 100 * WAIT_MOST && !reaches_all(hf); i++)
                usleep(10000);
        assert(reaches_all(hf));
}

void hf_open(struct hf *hf, struct sf *leader, unsigned loops)
{
        home_begin(hf, leader, loops, NULL);
}

static void nothing(void *arg)
{
}

/* The leaders' loops, which posted the last answers to the home's, have had a turn since. */
static void home_closed(void)
{
        unsigned i, k;

        for (k = 0; k < HOMES; k++)
                for (i = 0; open_homes[k] != NULL && open_homes[k]->leader->store != NULL && i < open_homes[k]->leader->loop_count; i++)
                        on_loop(open_homes[k]->leader->loops[i], nothing, NULL);
}

void hf_open_beside(struct hf *hf, struct sf *leader, struct sf *first)
{
        home_begin(hf, leader, first->loop_count, first);
        if (first->closed == NULL)
                first->closed = home_closed;
}

void hf_free(struct hf *hf)
{
        unsigned i;

        free(hf->reading);
        for (i = 0; i < HOMES; i++)
                if (open_homes[i] == hf)
                        open_homes[i] = NULL;
}

void hf_close(struct hf *hf)
{
        if (hf->home.closed == NULL)
                hf->home.closed = home_closed;
        sf_close(&hf->home);
        hf_free(hf);
}

/* ---- an upload that stays open ---------------------------------------------------------------- */

static void upload_on(void *arg);

static void upload_done(void *arg, int rv, const struct eng_object *object)
{
        struct hf_upload *u = arg;

        u->rv = rv;
        sem_post(&u->done);
}

static void upload_on(void *arg)
{
        static const struct eng_put_commit commit = {.attrs = "x", .attrs_len = 1};
        struct hf_upload *u = arg;
        uint8_t bytes[4096];
        ssize_t n = 1;

        while (u->at < u->upto && n > 0) {
                size_t len = u->upto - u->at < sizeof(bytes) ? u->upto - u->at : sizeof(bytes);

                sf_fill(bytes, 4, u->at, len);
                n = eng_put_write(u->put, bytes, len);
                u->at += n > 0 ? (size_t)n : 0;
        }
        if (n < 0) {
                eng_put_abort(u->put);
                upload_done(u, (int)n, NULL);
        } else if (u->at < u->upto) {
                return; /* it is woken */
        } else if (u->aborts) {
                eng_put_abort(u->put);
                upload_done(u, 0, NULL);
        } else if (u->commits) {
                eng_put_commit(u->put, &commit, upload_done, u);
        } else {
                upload_done(u, 0, NULL);
        }
}

static void upload_begins(struct lp_msg *msg)
{
        struct hf_upload *u = container_of(msg, struct hf_upload, msg);
        struct eng_put_params params = {.bucket = u->bucket, .key = {"open", 4}, .size = u->size, .wake = upload_on, .arg = u};

        if (u->put == NULL)
                u->rv = eng_put_open(u->hf->home.store, &params, &u->put);
        if (u->rv == 0)
                upload_on(u);
        else
                sem_post(&u->done);
}

int hf_upload_go(struct hf *hf, uint64_t bucket, struct hf_upload *u, size_t upto)
{
        unsigned turns = 0;

        u->hf = hf;
        u->bucket = bucket;
        u->upto = upto;
        u->rv = 0;
        u->msg.run = upload_begins;
        sem_init(&u->done, 0, 0);
        lp_post(hf->home.loops[0], &u->msg);
        while (sem_trywait(&u->done) != 0) {
                if (u->follows && turns++ >= u->follows_after_ms && sf_view(hf->leader).epoch != sf_view(&hf->home).epoch)
                        hf_follow(hf);
                usleep(1000);
        }
        sem_destroy(&u->done);
        return u->rv;
}
