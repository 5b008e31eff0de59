/*
 * hot_add.c - drives that come while the store serves: one that was missing or vanished is back,
 * one that failed is tried again by the operator, or an empty folder takes the place of one that is
 * lost. Coordinator; one at a time.
 *
 *   LET GO   what was open in that slot before lets go of its folder
 *   OPEN     a thread looks at the folder, formats it if it is to be a new drive, and opens it
 *   HAND     the slot has that drive now, stale: catch_up.c brings it up to date; heal.c gives a new one the shards it lacks
 *
 * What failed stays in memory, answering -EIO, until the store closes: operations may still be on
 * their way to it.
 */
#include "engine/epoch/epoch.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS (5ull * 1000 * 1000 * 1000)
#define LOOK_SOON_NS (500ull * 1000 * 1000) /* while a node formats new drives */
#define RETRY_NS (200ull * 1000 * 1000)
#define CLOSE_WAIT_S 5u /* for the thread, when the store is closed */
#define RETRIES 50u /* until what was open must have let go */

enum hot_add_step { STEP_LET_GO, STEP_OPEN, STEP_HAND };

/* One drive on its way in. owner: coordinator; the thread from its start to its message */
struct eng_hot_add {
        struct eng_store *store;
        eng_mask wanted;               /* slots it may be for */
        bool replace;                  /* the folder is to be a new drive */
        bool add;                      /* and the slot is new, too */
        enum hot_add_step step;
        _Atomic eng_mask held;         /* of wanted: what was open has not let go yet */
        atomic_bool spare_held;        /* nor has a drive without a slot */
        unsigned tries;
        char (*paths)[ENG_PATH_MAX];
        unsigned path_count;
        struct eng_member *member;     /* the last of store->unplaced */
        unsigned slot;
        uint64_t features;             /* of the store, when the thread began: it gives them to the drive */
        struct eng_op mark;            /* gives it those that came since; under way while marking */
        bool marking;
        pthread_t thread;
        bool running;
        int result;
        struct eng_error error;
        struct lp_msg msg;
        uint64_t number;               /* 0: nobody asked */
};

struct request {
        struct lp_msg msg;
        struct eng_store *store;
        unsigned slot;
        bool replace, add;
        char path[ENG_PATH_MAX];
        uint64_t number;
};

void eng_hot_add_report(struct eng_store *store, uint64_t number, int rv, const char *text)
{
        struct eng_hot_add_report *r = &store->attached[number % ENG_HOT_ADD_REPORTS];

        pthread_mutex_lock(&store->health_lock);
        if (number != 0 && r->number == number) {
                r->running = false;
                r->rv = rv;
                snprintf(r->text, sizeof(r->text), "%s", text);
        }
        pthread_mutex_unlock(&store->health_lock);
}

int eng_hot_add_read(struct eng_store *store, uint64_t number, struct eng_hot_add_report *out)
{
        const struct eng_hot_add_report *r = &store->attached[number % ENG_HOT_ADD_REPORTS];
        int rv = -ENOENT;

        pthread_mutex_lock(&store->health_lock);
        if (number != 0 && r->number == number) {
                *out = *r;
                rv = 0;
        }
        pthread_mutex_unlock(&store->health_lock);
        return rv;
}

uint64_t eng_hot_add_new_report(struct eng_store *store, unsigned slot, bool replace)
{
        struct eng_hot_add_report *r;
        uint64_t number;
        uint32_t first;

        pthread_mutex_lock(&store->health_lock);
        if (store->hot_add_number == 0) { /* whoever asks with another process's number is told that nobody knows it */
                lp_random(&first, sizeof(first));
                store->hot_add_number = (uint64_t)(first >> 1) << 20; /* a JSON number that all parsers take */
        }
        number = ++store->hot_add_number;
        r = &store->attached[number % ENG_HOT_ADD_REPORTS];
        memset(r, 0, sizeof(*r));
        r->number = number;
        r->slot = slot;
        r->replace = replace;
        r->running = true;
        pthread_mutex_unlock(&store->health_lock);
        return number;
}

static void free_hot_add(struct eng_hot_add *a)
{
        free(a->paths);
        free(a);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* The slot among those wanted whose drive this is, or -1. */
static int slot_of(const struct eng_hot_add *a, const struct eng_identity *identity)
{
        const struct eng_store *store = a->store;
        unsigned slot = identity->slot;

        if (memcmp(identity->store_id, store->store_id, FMT_ID) != 0 || slot >= store->drive_count)
                return -1;
        if (!(a->wanted & eng_bit(slot)) || memcmp(identity->drive_id, store->members[slot].id, FMT_ID) != 0)
                return -1;
        return (int)slot;
}

static int hot_add_find_known(struct eng_hot_add *a)
{
        struct eng_member *m = a->member;
        enum eng_folder_state state;
        struct eng_identity identity;
        unsigned i;
        int slot;

        for (i = 0; i < a->path_count; i++) {
                if (eng_drive_probe(a->store->options.opener, a->paths[i], &state, &identity, &a->error) != 0)
                        continue;
                slot = state == ENG_FOLDER_DRIVE ? slot_of(a, &identity) : -1;
                if (slot < 0) {
                        snprintf(a->error.text, sizeof(a->error.text), "%s does not hold that drive", a->paths[i]);
                        continue;
                }
                if (a->store->options.one_machine && (identity.features & FMT_FEATURE_SITES)) {
                        snprintf(a->error.text, sizeof(a->error.text), "%s: belongs to a cluster's pool, or is about to (millrace admin cluster adopt)", a->paths[i]);
                        continue;
                }
                a->slot = (unsigned)slot;
                m->identity = identity;
                m->identity.features |= a->features;
                snprintf(m->path, sizeof(m->path), "%s", a->paths[i]);
                return 0;
        }
        return -ENOENT;
}

/*
 * An epoch before all others, in which no drive is in: nothing follows from a drive that was
 * formatted and never handed over.
 */
static struct eng_buf *epoch_zero(const struct eng_store *store)
{
        struct fmt_epoch epoch = {.pg_count = store->pg_count, .k = (uint8_t)store->k, .m = (uint8_t)store->m};
        struct eng_buf *body = eng_buf_new(sizeof(epoch));

        if (body != NULL)
                memcpy(body->data, &epoch, sizeof(epoch));
        return body;
}

/* Formatted for this slot by an earlier attempt that did not come to hand it over. */
static bool is_left_over(const struct eng_hot_add *a, const struct eng_identity *identity)
{
        unsigned i;

        for (i = 0; i < a->store->drive_count; i++)
                if (memcmp(identity->drive_id, a->store->members[i].id, FMT_ID) == 0)
                        return false;
        return memcmp(identity->store_id, a->store->store_id, FMT_ID) == 0 && identity->slot == a->slot;
}

static int format_new(struct eng_hot_add *a)
{
        struct eng_member *m = a->member;
        enum eng_folder_state state;
        struct eng_buf *epoch;
        int rv = eng_folder_probe(a->paths[0], &state, &m->identity, &a->error);

        snprintf(m->path, sizeof(m->path), "%s", a->paths[0]);
        if (rv == 0 && state == ENG_FOLDER_DRIVE && is_left_over(a, &m->identity)) {
                m->identity.features |= a->features;
                return 0;
        }
        if (rv == 0 && state != ENG_FOLDER_EMPTY && state != ENG_FOLDER_PARTIAL) {
                rv = state == ENG_FOLDER_ABSENT ? -ENOENT : -ENOTEMPTY;
                snprintf(a->error.text, sizeof(a->error.text), "%s is %s", a->paths[0],
                         state == ENG_FOLDER_ABSENT ? "no folder" : "not empty");
        }
        if (rv != 0)
                return rv;
        memset(&m->identity, 0, sizeof(m->identity));
        memcpy(m->identity.store_id, a->store->store_id, FMT_ID);
        lp_random(m->identity.drive_id, FMT_ID);
        m->identity.slot = a->slot;
        m->identity.layout = FMT_LAYOUT_VERSION;
        m->identity.features = a->features;
        m->identity.created_ms = lp_wall_ms();
        epoch = epoch_zero(a->store);
        if (epoch == NULL)
                return -ENOMEM;
        rv = eng_folder_format(m->path, &m->identity, epoch->data, epoch->len, &a->error);
        eng_buf_unref(epoch);
        return rv;
}

static void *hot_add_open_thread(void *arg)
{
        struct eng_hot_add *a = arg;

        a->result = a->replace ? format_new(a) : hot_add_find_known(a);
        if (a->result == 0)
                a->result = eng_member_open(a->store, a->member, &a->error);
        lp_post(a->store->coord_loop->loop, &a->msg);
        return NULL;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void hot_add_finish(struct eng_hot_add *a, int rv)
{
        struct eng_store *store = a->store;

        assert(eng_on_coordinator(store) && store->coord->hot_add == a && !a->running);
        if (rv != 0 && a->member != NULL && atomic_load(&a->member->local) == NULL) {
                assert(a->member == &store->unplaced[store->unplaced_count - 1]);
                free(a->member->epoch);
                a->member->epoch = NULL;
                store->unplaced_count--;
        } /* one that is open and of no use is closed with the store */
        store->coord->hot_add = NULL;
        eng_hot_add_report(store, a->number, rv, rv == 0 ? "" : a->error.text[0] != 0 ? a->error.text : strerror(-rv));
        free_hot_add(a);
        if (store->stopping)
                return;
        eng_hot_add_start(store);
        eng_health_refresh(store);
        eng_catch_up_consider(store);
}

/*
 * Of a cluster's slot, whose last members may all be out by now, since their groups are lost: it has no epoch of behind the one by
 * which it left, as etcd's line has it; or it was no current member in its newest.
 */
static bool left_by_then(const struct eng_store *store, const struct eng_member *m)
{
        const unsigned slot = m->identity.slot;
        const struct fmt_epoch *epoch = eng_epoch_of(m);

        if (store->coord->decided == NULL || slot >= epoch->drives || slot >= ENG_DRIVES_MAX)
                return false;
        return eng_epoch_drives(m)[slot].in != FMT_EPOCH_IN || epoch->number < (store->coord->view.left[slot] & ~FMT_EPOCH_NO_TRUTH);
}

/*
 * A member of its newest epoch is in now: so its history and ours are one, and ours went on. Where etcd has decided
 * the epochs, one that was joining there, too: it was promoted from that epoch on, by no other line.
 */
static bool shares_history(const struct eng_store *store, const struct eng_member *m)
{
        const struct fmt_epoch *epoch = eng_epoch_of(m);
        const struct fmt_epoch_drive *d = eng_epoch_drives(m);
        unsigned i;

        if (left_by_then(store, m) || (store->coord->decided != NULL && eng_decided_has(store->coord, epoch)))
                return true;
        for (i = 0; i < epoch->drives && i < store->drive_count; i++)
                if ((d[i].in == FMT_EPOCH_IN || (d[i].in == FMT_EPOCH_JOINING && store->coord->decided != NULL)) && (store->coord->view.in & eng_bit(i)) &&
                    memcmp(d[i].drive_id, store->members[i].id, FMT_ID) == 0)
                        return true;
        return epoch->number == 0;
}

/* The store has one slot more. The epoch that takes the drive in says so, and any before it. */
static void hot_add_new_slot(struct eng_hot_add *a)
{
        struct eng_store *store = a->store;
        struct eng_member *m = &store->members[a->slot];

        assert(a->slot == store->drive_count);
        memset(m, 0, sizeof(*m));
        memcpy(m->place_id, a->member->identity.drive_id, FMT_ID);
        m->site = store->options.site;
        store->coord->wish.adding |= eng_bit(a->slot);
        pthread_mutex_lock(&store->health_lock);
        atomic_store(&store->drive_count, a->slot + 1);
        pthread_mutex_unlock(&store->health_lock);
}

/* The slot has this drive from now on. */
static void hand_over(struct eng_hot_add *a)
{
        struct eng_store *store = a->store;
        struct eng_coord *c = store->coord;
        const struct eng_member *from = a->member;
        struct eng_member *m = &store->members[a->slot];
        uint64_t seen = eng_epoch_of(from)->number;

        assert(a->step == STEP_HAND && !c->changing && c->catch_up == NULL);
        assert(((c->view.in | c->view.joining) & c->view.up & eng_bit(a->slot)) == 0);
        if (seen > c->view.epoch) /* of an epoch that never came in force */
                c->view.epoch = seen;
        c->view.since[a->slot] = c->view.epoch + 1;
        c->down &= ~eng_bit(a->slot);
        eng_down_is_back(store, a->slot);
        if (a->add) {
                hot_add_new_slot(a);
        } else if (a->replace) {
                c->filling |= eng_bit(a->slot);
                c->lost_writes &= ~eng_bit(a->slot);
                c->lost &= ~eng_bit(a->slot);
                c->given_up &= ~eng_bit(a->slot);
                c->believed &= ~eng_bit(a->slot);
                eng_lost_no_truth(c, a->slot);
        } /* of one whose log lost its end lost_groups.c takes that down before it joins */
        pthread_mutex_lock(&store->health_lock);
        memcpy(m->id, from->identity.drive_id, FMT_ID);
        memcpy(m->path, from->path, sizeof(m->path));
        m->identity = from->identity;
        atomic_store(&m->local, atomic_load(&from->local));
        atomic_store(&m->drive, atomic_load(&from->drive));
        eng_member_new_turn(m);
        pthread_mutex_unlock(&store->health_lock);
        eng_member_state(store, a->slot, ENG_DRIVE_STALE,
                         a->replace ? "is new" : "was out while the store went on without it");
        hot_add_finish(a, 0);
}

static bool settled(const struct eng_store *store)
{
        const struct eng_coord *c = store->coord;

        return !c->changing && c->catch_up == NULL;
}

static void hot_add_again(struct lp_timer *timer);

static void hot_add_opened(struct lp_msg *msg);

static void hot_add_marked(struct eng_op *op)
{
        struct eng_hot_add *a = container_of(op, struct eng_hot_add, mark);

        struct eng_coord *c = a->store->coord;

        a->marking = false;
        if ((eng_io_again(op->result) || eng_io_full(op->result)) && ++a->tries < RETRIES && !a->store->stopping) {
                c->hot_add_timer.expired = hot_add_again;
                lp_timer_start(a->store->coord_loop->loop, &c->hot_add_timer, RETRY_NS);
                return;
        }
        a->result = op->result;
        if (op->result == 0)
                a->member->identity.features |= op->features.bits;
        else
                snprintf(a->error.text, sizeof(a->error.text), "%s: FORMAT could not be written anew", a->member->path);
        hot_add_opened(&a->msg);
}

/* It has all features that the store has now (bucket/features.c, F4), or gets them first: false. */
static bool hot_add_has_features(struct eng_hot_add *a)
{
        struct eng_coord *c = a->store->coord;
        struct eng_member *m = a->member;

        c->features |= m->identity.features;
        if ((c->features & ~m->identity.features) == 0)
                return true;
        memset(&a->mark, 0, sizeof(a->mark));
        a->mark.kind = ENG_OP_FEATURES;
        a->mark.flags = ENG_OP_RESERVE;
        a->mark.epoch = c->view.epoch;
        a->mark.done = hot_add_marked;
        a->mark.features.bits = c->features;
        a->marking = true;
        eng_drive_submit(m->drive, &a->mark);
        return false;
}

static void hot_add_opened(struct lp_msg *msg)
{
        struct eng_hot_add *a = container_of(msg, struct eng_hot_add, msg);
        struct eng_coord *c = a->store->coord;

        if (c->store->stopping)
                return;
        assert(c->hot_add == a);
        if (a->running)
                pthread_join(a->thread, NULL);
        a->running = false;
        a->step = STEP_HAND;
        if (a->result == 0 && a->replace && eng_epoch_of(a->member)->number != 0) {
                snprintf(a->error.text, sizeof(a->error.text), "%s is not empty: it was a drive of this store", a->member->path);
                a->result = -ENOTEMPTY;
        }
        if (a->result == 0 && c->decided != NULL && eng_decided_denied_by(a->store, a->member, a->error.text, sizeof(a->error.text))) {
                eng_cluster_ended(a->store, a->error.text); /* it must not be told that it is stale: it may know better */
                a->result = -EXDEV;
        }
        if (a->result == 0 && !shares_history(a->store, a->member)) {
                snprintf(a->error.text, sizeof(a->error.text), "%s has another history than the drives in use", a->member->path);
                if (c->decided != NULL)
                        eng_cluster_ended(a->store, a->error.text);
                a->result = -EXDEV;
        }
        if (a->result == 0 && !a->replace && ((c->given_up | c->shape.gone) & eng_bit(a->slot))) {
                snprintf(a->error.text, sizeof(a->error.text), "%s was %s meanwhile", a->member->path, c->given_up & eng_bit(a->slot) ? "given up" : "removed");
                a->result = -EXDEV;
        }
        if (a->result == 0 && !settled(a->store)) { /* the slot is handed over between epochs */
                c->hot_add_timer.expired = hot_add_again;
                lp_timer_start(a->store->coord_loop->loop, &c->hot_add_timer, RETRY_NS);
                return;
        }
        if (a->result != 0)
                hot_add_finish(a, a->result);
        else if (hot_add_has_features(a))
                hand_over(a);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static void hot_add_let_go(struct eng_hot_add *a);

static void hot_add_again(struct lp_timer *timer)
{
        struct eng_coord *c = container_of(timer, struct eng_coord, hot_add_timer);

        if (c->hot_add->step == STEP_HAND)
                hot_add_opened(&c->hot_add->msg);
        else if (c->hot_add->step == STEP_LET_GO)
                hot_add_let_go(c->hot_add);
}

static void open_it(struct eng_hot_add *a)
{
        assert(a->step == STEP_LET_GO && !a->running);
        assert(a->store->unplaced_count < ENG_DRIVES_MAX + ENG_HOT_ADD_MAX);
        a->step = STEP_OPEN;
        a->tries = 0;
        a->features = a->store->coord->features;
        a->member = &a->store->unplaced[a->store->unplaced_count++];
        memset(a->member, 0, sizeof(*a->member));
        a->msg.run = hot_add_opened;
        a->running = true;
        if (pthread_create(&a->thread, NULL, hot_add_open_thread, a) != 0) {
                a->running = false;
                hot_add_finish(a, -EAGAIN);
        }
}

/*
 * A drive that was found at the start, or opened since, and has no slot: formatted to be taken in,
 * which did not come to pass.
 */
static bool is_spare(const struct eng_store *store, const struct eng_member *m)
{
        return m->drive != NULL && eng_epoch_of(m)->number == 0 && store->members[m->identity.slot].local != m->local;
}

/* Their folders may be what is given now. False: one needs some time. */
static bool let_go_of_spares(struct eng_loop *el)
{
        const struct eng_store *store = el->store;
        bool all = true;
        unsigned i;

        for (i = 0; i < store->unplaced_count; i++)
                if (is_spare(store, &store->unplaced[i]) && store->unplaced[i].local->owner == el->loop)
                        all &= eng_drive_let_go(store->unplaced[i].local);
        return all;
}

static bool ask_to_let_go(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        struct eng_hot_add *a = arg;
        unsigned i;

        for (i = 0; i < el->store->drive_count; i++) {
                struct eng_drive *local = el->store->members[i].local;

                if ((a->wanted & eng_bit(i)) && local != NULL && local->owner == el->loop && !eng_drive_let_go(local))
                        atomic_fetch_or(&a->held, eng_bit(i));
        }
        if (a->replace && !let_go_of_spares(el))
                atomic_store(&a->spare_held, true);
        return true;
}

static void have_let_go(struct eng_store *store, void *arg)
{
        struct eng_hot_add *a = arg;
        struct eng_coord *c = store->coord;
        eng_mask held = atomic_load(&a->held);

        assert(c->hot_add == a && a->step == STEP_LET_GO);
        if (c->store->stopping)
                return;
        if (!atomic_load(&a->spare_held) && (held == 0 || a->replace || (a->wanted & ~held) != 0)) {
                a->wanted = a->replace ? a->wanted : a->wanted & ~held;
                open_it(a);
                return;
        }
        c->hot_add_timer.expired = hot_add_again;
        if (++a->tries < RETRIES) {
                lp_timer_start(store->coord_loop->loop, &c->hot_add_timer, RETRY_NS);
                return;
        }
        snprintf(a->error.text, sizeof(a->error.text), "its last operations have not come back: it can be tried after a restart");
        hot_add_finish(a, -EBUSY);
}

static void hot_add_let_go(struct eng_hot_add *a)
{
        atomic_store(&a->held, 0);
        atomic_store(&a->spare_held, false);
        if (eng_broadcast(a->store, ask_to_let_go, have_let_go, a) != 0)
                hot_add_finish(a, -ENOMEM);
}

static struct eng_hot_add *new_hot_add(struct eng_store *store, unsigned paths)
{
        struct eng_hot_add *a = calloc(1, sizeof(*a));

        if (a == NULL)
                return NULL;
        a->store = store;
        a->result = -EAGAIN;
        a->paths = calloc(paths, sizeof(a->paths[0]));
        if (a->paths == NULL) {
                free_hot_add(a);
                return NULL;
        }
        return a;
}

/* ---- asked for ------------------------------------------------------------------------------- */

static const char *hot_add_refusal(const struct eng_store *store, const struct request *q, int *rv)
{
        const struct eng_coord *c = store->coord;

        *rv = -EHOSTDOWN;
        if (c->store->stopping || c->phase != ENG_PHASE_OPEN)
                return "the store is not open";
        *rv = -ENOTSUP;
        if (c->decided != NULL && (q->add || q->replace))
                return "drives of a cluster's pool are named by their node";
        *rv = -EMFILE;
        if (q->add && q->slot == ENG_DRIVES_MAX)
                return "all slots have been used";
        *rv = -EINVAL;
        if (q->add && eng_site_given(&store->options.site) && (c->features & FMT_FEATURE_SITES) == 0)
                return "the store is one machine's: it was not formatted for nodes";
        if (q->slot >= store->drive_count && !q->add)
                return "there is no such slot";
        if (q->replace && q->path[0] == 0)
                return "an empty folder is needed";
        if (c->shape.gone & eng_bit(q->slot))
                return "that drive was removed from the store: add one";
        *rv = -EBUSY;
        if (q->add && (c->shape.adding | c->wish.adding) != 0)
                return "another drive is being added";
        if (q->add && (c->shape.leaving | c->wish.leaving) != 0)
                return "a drive is being removed";
        *rv = -EEXIST;
        if (!q->add && (c->view.in | c->view.joining) & c->view.up & eng_bit(q->slot))
                return "the drive in that slot is in use";
        *rv = -EXDEV;
        if (!q->replace && (c->given_up & eng_bit(q->slot)))
                return "the drive in that slot was given up: only an emptied folder can take its place (drive replace)";
        *rv = -EROFS;
        if (!c->view.writable && !c->read_only)
                return "too few drives are in for a new epoch: restart, with a drive that failed if it can be had; else give it up then "
                       "(millrace admin start --force-without SLOTS) and replace it";
        if (!c->view.writable)
                return "too few drives are in for a new epoch: bring one back that was in last, and restart; if it is gone for good: "
                       "millrace admin start --force-without SLOTS, then replace it";
        *rv = -EBUSY;
        if (c->hot_add != NULL || c->catch_up != NULL)
                return "another drive is on its way in";
        if (!q->add && store->members[q->slot].state == ENG_DRIVE_STALE)
                return "the drive in that slot is about to be brought up to date";
        *rv = -EMFILE;
        if (store->unplaced_count == ENG_DRIVES_MAX + ENG_HOT_ADD_MAX)
                return "too many drives were taken in since the start: restart first";
        *rv = 0;
        return NULL;
}

/* The next one; the report says which. */
static void hot_add_take_slot(struct request *q)
{
        struct eng_store *store = q->store;

        q->slot = store->drive_count;
        pthread_mutex_lock(&store->health_lock);
        store->attached[q->number % ENG_HOT_ADD_REPORTS].slot = q->slot;
        pthread_mutex_unlock(&store->health_lock);
}

static void hot_add_requested(struct lp_msg *msg)
{
        struct request *q = (struct request *)msg;
        struct eng_store *store = q->store;
        struct eng_hot_add *a = NULL;
        const char *why;
        int rv;

        if (q->add)
                hot_add_take_slot(q);
        why = hot_add_refusal(store, q, &rv);
        if (why == NULL) {
                a = new_hot_add(store, 1);
                rv = a == NULL ? -ENOMEM : 0;
                why = a == NULL ? "no memory" : NULL;
        }
        if (why != NULL) {
                eng_hot_add_report(store, q->number, rv, why);
                free(q);
                return;
        }
        a->replace = q->replace;
        a->add = q->add;
        a->slot = q->slot;
        a->wanted = q->add ? 0 : eng_bit(q->slot);
        a->path_count = 1;
        snprintf(a->paths[0], ENG_PATH_MAX, "%s", q->path[0] != 0 ? q->path : store->members[q->slot].path);
        a->number = q->number;
        free(q);
        store->coord->hot_add = a;
        lp_timer_stop(store->coord_loop->loop, &store->coord->hot_add_timer);
        hot_add_let_go(a);
}

static int hot_add_ask(struct eng_store *store, unsigned slot, const char *path, bool replace, bool add, uint64_t *number)
{
        struct request *q;

        if (path != NULL && strlen(path) >= ENG_PATH_MAX)
                return -ENAMETOOLONG;
        q = calloc(1, sizeof(*q));
        if (q == NULL)
                return -ENOMEM;
        q->store = store;
        q->slot = slot;
        q->replace = replace;
        q->add = add;
        snprintf(q->path, sizeof(q->path), "%s", path == NULL ? "" : path);
        q->number = *number = eng_hot_add_new_report(store, slot, replace);
        q->msg.run = hot_add_requested;
        lp_post(store->coord_loop->loop, &q->msg);
        return 0;
}

int eng_drive_hot_add(struct eng_store *store, unsigned slot, const char *path, bool replace, uint64_t *number)
{
        return hot_add_ask(store, slot, path, replace, false, number);
}

int eng_drive_add(struct eng_store *store, const char *path, uint64_t *number)
{
        return hot_add_ask(store, ENG_DRIVES_MAX, path, true, true, number);
}

/* ---- looked for ------------------------------------------------------------------------------ */

/* Its folder went away; or, in a cluster, its node did not serve it yet when this process began. */
static bool may_come_back(const struct eng_store *store, const struct eng_member *m)
{
        if (m->local != NULL)
                return eng_drive_vanished(m->local);
        return store->options.cluster != NULL && !(eng_recover_opening(store) & eng_bit((unsigned)(m - store->members)));
}

/*
 * Slots whose drive may come back by itself: it was not there, or its folder went away. One that
 * failed waits for the operator (I8).
 */
static eng_mask away(const struct eng_store *store)
{
        eng_mask mask = 0;
        unsigned i;

        for (i = 0; i < store->drive_count; i++) {
                const struct eng_member *m = &store->members[i];

                if (((store->coord->view.in & store->coord->view.up) | store->coord->given_up | store->coord->shape.gone | store->coord->down) & eng_bit(i))
                        continue; /* one that is down has its folder open */
                if (m->state == ENG_DRIVE_MISSING || (m->state == ENG_DRIVE_FAILED && may_come_back(store, m)))
                        mask |= eng_bit(i);
        }
        return mask;
}

static bool hot_add_in_use(const struct eng_store *store, const char *path)
{
        unsigned i;

        for (i = 0; i < store->drive_count; i++)
                if (strcmp(store->members[i].path, path) == 0 && store->members[i].state != ENG_DRIVE_FAILED)
                        return true;
        return false;
}

static struct eng_hot_add *new_look(struct eng_store *store, eng_mask wanted)
{
        const struct eng_options *o = &store->options;
        struct eng_hot_add *a = new_hot_add(store, o->drive_count + store->drive_count);
        unsigned i;

        if (a == NULL)
                return NULL;
        a->wanted = wanted;
        for (i = 0; i < store->drive_count; i++)
                if ((wanted & eng_bit(i)) && store->members[i].path[0] != 0)
                        memcpy(a->paths[a->path_count++], store->members[i].path, ENG_PATH_MAX);
        for (i = 0; i < o->drive_count; i++)
                if (!store->hangs[i] && !hot_add_in_use(store, o->drives[i]))
                        snprintf(a->paths[a->path_count++], ENG_PATH_MAX, "%s", o->drives[i]);
        return a;
}

/*
 * One that was being opened when the start went on without it (recover.c): its slot is still its
 * own.
 */
static bool is_awaited(const struct eng_store *store, const struct eng_member *m)
{
        const struct eng_coord *c = store->coord;
        unsigned slot = m->identity.slot;

        return slot < store->drive_count && memcmp(store->members[slot].id, m->identity.drive_id, FMT_ID) == 0 &&
               ((c->view.in | c->view.joining | c->given_up | c->shape.gone) & eng_bit(slot)) == 0 && store->members[slot].drive == NULL;
}

static bool hand_late(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        struct eng_hot_add *a;

        if (c->hot_add != NULL || c->phase != ENG_PHASE_OPEN || !c->view.writable || !settled(store))
                return false;
        a = new_hot_add(store, 1);
        if (a == NULL)
                return false;
        do
                a->member = eng_recover_take_late(store);
        while (a->member != NULL && !is_awaited(store, a->member)); /* another has taken its place: it is closed with the store */
        if (a->member == NULL) {
                free_hot_add(a);
                return false;
        }
        a->slot = a->member->identity.slot;
        a->wanted = eng_bit(a->slot);
        a->result = 0;
        a->msg.run = hot_add_opened;
        c->hot_add = a;
        lp_timer_stop(store->coord_loop->loop, &c->hot_add_timer);
        hot_add_opened(&a->msg);
        return true;
}

void eng_hot_add_late(struct eng_store *store)
{
        if (!store->stopping)
                hand_late(store); /* what cannot be handed over now is looked at with the missing ones */
}

static void hot_add_look(struct lp_timer *timer);

/*
 * A drive whose index is damaged answers for what it can still read. It is taken out, one at a time
 * and only while all others are in, to come back with an index that is built anew from its log, as
 * any drive that was away.
 */
static void rest_damaged(struct eng_store *store)
{
        const struct eng_coord *c = store->coord;
        eng_mask in = c->view.in;
        unsigned i;

        if (c->phase != ENG_PHASE_OPEN || !c->view.writable || c->changing || c->catch_up != NULL || (in & ~c->view.up) != 0)
                return;
        for (i = 0; i < store->drive_count; i++) {
                const struct eng_member *m = &store->members[i];

                if (!(in & eng_bit(i)) || m->local == NULL || !eng_drive_index_damaged(m->local) ||
                    !eng_could_form(store, in & ~eng_bit(i), in))
                        continue;
                eng_drive_failed(store, i, m->drive, "its index is damaged, and is built anew");
                return;
        }
}

void eng_hot_add_start(struct eng_store *store)
{
        struct eng_coord *c = store->coord;

        if (c->store->stopping || c->hot_add != NULL)
                return;
        c->hot_add_timer.expired = hot_add_look;
        lp_timer_start(store->coord_loop->loop, &c->hot_add_timer, (c->shape.adding & away(store)) != 0 ? LOOK_SOON_NS : LOOK_NS);
}

static void hot_add_look(struct lp_timer *timer)
{
        struct eng_coord *c = container_of(timer, struct eng_coord, hot_add_timer);
        struct eng_store *store = c->store;
        eng_mask wanted = away(store);

        if (c->store->stopping || c->hot_add != NULL)
                return;
        if (hand_late(store))
                return;
        eng_hot_add_start(store);
        if (c->grow != NULL)
                return; /* what an operator has asked for goes first */
        rest_damaged(store);
        if (wanted == 0 || c->phase != ENG_PHASE_OPEN || !c->view.writable || !settled(store) ||
            store->unplaced_count == ENG_DRIVES_MAX + ENG_HOT_ADD_MAX)
                return;
        c->hot_add = new_look(store, wanted);
        if (c->hot_add == NULL)
                return;
        lp_timer_stop(store->coord_loop->loop, &c->hot_add_timer);
        hot_add_let_go(c->hot_add);
}

void eng_hot_add_stop(struct eng_store *store)
{
        struct eng_hot_add *a = store->coord->hot_add;

        if (a == NULL || !a->running)
                return;
        a->running = !eng_thread_ends(a->thread, store->left_behind ? 0 : CLOSE_WAIT_S);
        store->left_behind |= a->running;
}

void eng_hot_add_free(struct eng_store *store)
{
        struct eng_hot_add *a = store->coord->hot_add;

        store->coord->hot_add = NULL;
        if (a != NULL && !a->running && !a->marking) /* a drive that hangs may come back to it */
                free_hot_add(a);
}
