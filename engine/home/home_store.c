/*
 * home_store.c - a home store: the view that its loops go by, from what its leader says and which drives
 * this process reaches. Coordinator, but for opening and closing.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/bucket/home_copy.h"
#include "engine/call/call_send.h"
#include "engine/epoch/epoch.h"
#include "engine/home/home.h"
#include "engine/home/home_state.h"
#include "engine/object/object.h"

#define LOOK_MOST_NS (5ull * 1000 * 1000 * 1000) /* at the start: that drives which the leader reaches are waited for */

/* ---- the view -------------------------------------------------------------------------------- */

/* What this process can tell: the leader has the rest. */
static void home_health(const struct eng_home *home)
{
        struct eng_store *store = home->store;
        const struct eng_view *view = home_view(home);
        struct eng_health *h = &store->health;

        pthread_mutex_lock(&store->health_lock);
        h->ready = view->ready;
        h->writable = view->ready && eng_takes_changes(store, view) && !atomic_load(&store->full);
        h->full = atomic_load(&store->full);
        h->ec_k = store->k;
        h->ec_m = store->m;
        h->drive_count = store->drive_count;
        h->drives_in = (unsigned)__builtin_popcountll(view->in);
        h->epoch = view->epoch;
        h->buckets = store->coord_loop->bucket_count;
        snprintf(h->reason, sizeof(h->reason), "%s", view->ready ? "" : "the leader of the pool has not told this node enough yet");
        pthread_mutex_unlock(&store->health_lock);
}

static void home_view_taken(struct eng_store *store, void *arg)
{
        struct eng_home *home = store->home;
        unsigned i, n = home->sent_count;
        struct home_wait sent[4];

        home->spreading = false;
        home_health(home);
        memcpy(sent, home->sent, sizeof(sent));
        home->sent_count = 0;
        if (home->again)
                home_spread(home);
        for (i = 0; i < n; i++)
                sent[i].done(sent[i].arg);
}

void home_spread(struct eng_home *home)
{
        struct eng_view *view = home_view(home);

        assert(eng_on_coordinator(home->store));
        home->again = home->spreading;
        if (home->spreading || view->map == NULL)
                return;
        view->up = home->leader_up & home_drives_up(home);
        if (home->look_until == 0)
                home->look_until = lp_now(home->store->coord_loop->loop) + LOOK_MOST_NS;
        home->looked |= (home->leader_up & ~view->up) == 0 || lp_now(home->store->coord_loop->loop) >= home->look_until;
        view->ready = home->leader_ready && home->rows_whole && home->looked;
        home->spreading = true;
        memcpy(home->sent, home->waits, sizeof(home->sent));
        home->sent_count = home->wait_count;
        home->wait_count = 0;
        eng_view_spread(home->store, view, home_view_taken);
}

/* ---- the state ------------------------------------------------------------------------------- */

/* The first epoch tells what the pool is. */
static int take_home_shape(struct eng_store *store, const struct eng_epoch_info *info)
{
        if (store->code == NULL) {
                store->k = info->k;
                store->m = info->m;
                store->pg_count = info->groups;
                store->pg_words = info->groups / 64 + 1;
                store->meta_replicas = info->m + 1;
                return era_code_new(info->k, info->m, &store->code) == 0 ? 0 : -ENOMEM;
        }
        return info->k == store->k && info->m == store->m && info->groups == store->pg_count ? 0 : -EBADMSG;
}

/*
 * Most epochs change only who is in, and go by the map of the one before. Older maps are kept until
 * the store closes: loops may look at them until they have the next.
 */
static int take_home_map(struct eng_home *home, const struct eng_member *of, const struct eng_epoch_info *info)
{
        struct eng_member before = {.epoch = home->epoch, .epoch_len = home->epoch_len};
        struct eng_placement *map;

        if (home->epoch != NULL && eng_epoch_same_placement(&before, of))
                return 0;
        map = eng_epoch_placement(of, info->slot[0].site.node != 0);
        if (map == NULL)
                return -ENOMEM;
        map->next = home->store->coord->maps;
        home->store->coord->maps = map;
        home_view(home)->map = map;
        return 0;
}

/* Another epoch: its map, and who is what in it. */
static int take_home_epoch(struct eng_home *home, const uint8_t *body, size_t len, const struct eng_epoch_info *info)
{
        struct eng_store *store = home->store;
        uint8_t *copy = malloc(len);
        struct eng_member of = {.epoch = copy, .epoch_len = len};
        int rv = copy != NULL ? 0 : -ENOMEM;
        unsigned i;

        if (rv == 0) {
                memcpy(copy, body, len);
                rv = take_home_map(home, &of, info);
        }
        if (rv != 0) {
                free(copy);
                return rv;
        }
        free(home->epoch);
        home->epoch = copy;
        home->epoch_len = len;
        home_view(home)->epoch = info->number;
        home_view(home)->in = info->in;
        home_view(home)->joining = info->joining;
        home_view(home)->back = info->back;
        for (i = 0; i < info->slots; i++) {
                memcpy(store->members[i].id, info->slot[i].drive_id, FMT_ID);
                memcpy(store->members[i].place_id, eng_epoch_place_id(&of, i), FMT_ID);
                store->members[i].site = info->slot[i].site;
        }
        pthread_mutex_lock(&store->health_lock);
        store->drive_count = info->slots;
        pthread_mutex_unlock(&store->health_lock);
        home_drives_epoch(home, info);
        return 0;
}

void eng_home_clock_take(struct eng_store *store, int64_t now_ms)
{
        struct eng_lock_clock *clock = &store->lock_clock;

        assert(eng_on_coordinator(store));
        pthread_mutex_lock(&clock->lock);
        clock->begun = true;
        clock->mark_ms = clock->anchor_ms = now_ms;
        clock->anchor_ns = store->options.clock_ns != NULL ? store->options.clock_ns() : lp_clock();
        pthread_mutex_unlock(&clock->lock);
}

int eng_home_state_take(struct eng_store *store, const uint8_t *bytes, size_t len, void (*done)(void *arg), void *arg)
{
        struct eng_home *home = store->home;
        const uint8_t *body = bytes + sizeof(struct home_state);
        struct eng_epoch_info info;
        struct home_state state;
        int rv = home_state_read(bytes, len, &state, &info);

        assert(eng_on_coordinator(store) && home->wait_count < 4);
        if (rv == 0)
                rv = take_home_shape(store, &info);
        if (rv == 0 && (home->epoch == NULL || home->epoch_len != state.epoch_len || memcmp(home->epoch, body, state.epoch_len) != 0))
                rv = info.number < home_view(home)->epoch ? -EBADMSG : take_home_epoch(home, body, state.epoch_len, &info);
        if (rv != 0)
                return rv;
        home->leader_up = state.up;
        home->leader_ready = (state.flags & HOME_READY) != 0;
        home_view(home)->in_doubt = (state.flags & HOME_IN_DOUBT) != 0;
        home_view(home)->writable = (state.flags & HOME_WRITABLE) != 0;
        atomic_store(&store->full, (state.flags & HOME_FULL) != 0);
        atomic_store(&store->stalled, (state.flags & HOME_STALLED) != 0);
        home->waits[home->wait_count++] = (struct home_wait){.done = done, .arg = arg};
        home_spread(home);
        return 0;
}

/* ---- uploads under way ----------------------------------------------------------------------- */

struct bounding {
        uint64_t *counts;
        void (*done)(void *arg);
        void *arg;
};

static bool home_bound(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        struct bounding *b = arg;
        struct eng_made made;
        uint8_t oldest[FMT_ID];
        uint64_t epoch;

        if (eng_put_oldest(el, oldest, &epoch))
                eng_id_made(oldest, &made);
        else
                eng_id_next(el, &made);
        b->counts[el->index] = made.count;
        return true;
}

static void home_bounded(struct eng_store *store, void *arg)
{
        struct bounding b = *(struct bounding *)arg;

        free(arg);
        b.done(b.arg);
}

int eng_home_bounds(struct eng_store *store, uint64_t *counts, void (*done)(void *arg), void *arg)
{
        struct bounding *b = malloc(sizeof(*b));

        if (b == NULL)
                return -ENOMEM;
        *b = (struct bounding){.counts = counts, .done = done, .arg = arg};
        if (eng_broadcast(store, home_bound, home_bounded, b) == 0)
                return 0;
        free(b);
        return -ENOMEM;
}

/* ---- the configuration ----------------------------------------------------------------------- */

static void rows_read(struct eng_store *store)
{
        struct eng_home *home = store->home;

        if (!home->rows_last) {
                home->rows.done(home->rows.arg);
                return;
        }
        home->rows_last = false;
        home->rows_whole = true;
        home->waits[home->wait_count++] = home->rows;
        home_spread(home);
}

static void rows_end(struct eng_store *store)
{
        if (eng_home_rows_end(store, rows_read) != 0)
                abort(); /* rows that are gone would be served for ever */
}

int eng_home_rows_read(struct eng_store *store, const uint8_t *bytes, size_t len, bool first, bool last, void (*done)(void *arg),
                       void *arg)
{
        struct eng_home *home = store->home;
        int rv;

        assert(eng_on_coordinator(store) && home->wait_count < 3);
        if (first)
                eng_home_rows_begin(store);
        rv = eng_home_rows_take(store, bytes, len, last ? rows_end : rows_read);
        if (rv != 0)
                return rv;
        home->rows = (struct home_wait){.done = done, .arg = arg};
        home->rows_last = last;
        return 0;
}

void eng_home_rows_same(struct eng_store *store, void (*done)(void *arg), void *arg)
{
        struct eng_home *home = store->home;

        assert(eng_on_coordinator(store) && home->wait_count < 3);
        eng_home_rows_settled(store);
        home->rows_whole = true;
        home->waits[home->wait_count++] = (struct home_wait){.done = done, .arg = arg};
        home_spread(home);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void home_view_changed(struct eng_loop *el)
{
        eng_puts_view_changed(el);
}

static void home_value_gone(struct eng_loop *el, const uint8_t id[FMT_ID])
{
}

static void hint_sent(void *arg, const struct eng_call_answer *answer)
{
}

static void home_look_at_group(struct eng_store *store, uint32_t group)
{
        struct eng_call call = {.kind = ENG_CALL_HINT, .group = group};

        if (!eng_hint_is_due(&store->hints, group, lp_now(eng_here(store)->loop)))
                return;
        (void)eng_call_send(store, &call, 0, hint_sent, NULL); /* one that is lost is found by the next walk */
}

static void home_look_at_version(struct eng_store *store, const struct eng_name *name)
{
}

static void home_nothing(struct eng_store *store)
{
}

const struct eng_events eng_home_events = {
        .drive_failed = home_drive_lost,
        .drive_unreachable = home_drive_lost,
        .view_changed = home_view_changed,
        .value_gone = home_value_gone,
        .look_at_group = home_look_at_group,
        .look_at_version = home_look_at_version,
        .work_changed = home_nothing,
        .serving = home_nothing,
};

/* ---- life ------------------------------------------------------------------------------------ */

struct lp_loop *eng_home_loop(const struct eng_store *store, unsigned index)
{
        return index < store->loop_count ? store->loops[index].loop : store->coord_loop->loop;
}

int eng_home_make(struct eng_store *store)
{
        store->home = calloc(1, sizeof(*store->home));
        if (store->home == NULL)
                return -ENOMEM;
        store->home->store = store;
        memcpy(store->store_id, store->options.leader->store_id, FMT_ID);
        return 0;
}

void eng_home_begin(struct eng_store *store)
{
        home_drives_start(store->home);
}

void eng_home_end(struct eng_store *store)
{
        home_drives_stop(store->home);
}

void eng_home_free(struct eng_store *store)
{
        if (store->home == NULL)
                return;
        free(store->home->epoch);
        free(store->home);
        store->home = NULL;
}
