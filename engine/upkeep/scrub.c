/*
 * scrub.c - walks all names at a bounded rate, again and again: their copies are compared, small
 * objects are read, and drives are asked for the shards that they should hold. What is missing, or
 * known to be damaged, is written anew. Bytes of shards are read by scrub_drive.c, which asks for a
 * walk when it has found damage. Coordinator.
 *
 * The walking is verify.c's. How far it has come is a record of the configuration
 * (FMT_SPACE_CONFIG, 's'), written once a minute, so that a restart goes on from there: on small
 * stores and large ones alike every byte is read in its turn.
 */
#include "engine/walk/kept.h"
#include "engine/upkeep/upkeep.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_NS (60ull * 1000 * 1000 * 1000) /* after the store has opened */
#define KEEP_NS (60ull * 1000 * 1000 * 1000)   /* between records of how far it is, where options.heal_keep_ms says nothing */
#define SOON_NS (1000ull * 1000 * 1000)         /* before a walk that damage asks for */
#define LATER_NS (600ull * 1000 * 1000 * 1000)
#define REST_LEAST_NS (10ull * 1000 * 1000 * 1000)
#define DAY_NS (24 * 3600ull * 1000 * 1000 * 1000)
#define REST 9u                                /* times as long as it took, a walk that is owed waits behind the last that was */
#define KEY 's'

/* owner: coordinator */
struct eng_scrub {
        struct eng_store *store;
        struct eng_verify *run;         /* NULL: none under way */
        struct eng_name at;             /* names up to it are through; len 0: none is */
        struct eng_verify_report now, last;
        struct eng_kept kept;           /* the record */
        bool loaded;
        bool again;                     /* another walk is wanted, from the first name on */
        bool owed;                      /* one is, once the last that was owed has rested */
        bool pays;                      /* the walk under way is the one that was */
        uint64_t number;                /* of the walk under way, in walks_begun; 0: it was begun before a restart */
        uint64_t began, rest_until;     /* lp_now() */
        struct lp_timer timer;
};

/* A message to the coordinator. */
struct scrub_start {
        struct lp_msg msg;
        struct eng_store *store;
        uint64_t begun;                 /* walks, when it was sent */
};

static void wait_for_turn(struct eng_scrub *scrub);
static void scrub_go(struct eng_scrub *scrub);

static void scrub_publish(struct eng_scrub *scrub)
{
        struct eng_store *store = scrub->store;

        pthread_mutex_lock(&store->health_lock);
        if (scrub->run == NULL)
                store->scrub = scrub->now;
        store->last_scrub = scrub->last;
        pthread_mutex_unlock(&store->health_lock);
}

/* ---- the record ------------------------------------------------------------------------------ */

static void to_counts(const struct eng_verify_report *r, struct fmt_scrub_counts *c)
{
        *c = (struct fmt_scrub_counts){
                .started_ms = r->started_ms,
                .ended_ms = r->ended_ms,
                .objects = r->objects,
                .bytes = r->bytes,
                .shards = r->shards,
                .damaged_shards = r->damaged_shards,
                .repaired_shards = r->repaired_shards,
                .unreadable_objects = r->unreadable_objects,
                .missing_shards = r->missing_shards,
        };
}

static void from_counts(const struct fmt_scrub_counts *c, struct eng_verify_report *r)
{
        *r = (struct eng_verify_report){
                .started_ms = c->started_ms,
                .ended_ms = c->ended_ms,
                .objects = c->objects,
                .bytes = c->bytes,
                .shards = c->shards,
                .damaged_shards = c->damaged_shards,
                .repaired_shards = c->repaired_shards,
                .unreadable_objects = c->unreadable_objects,
                .missing_shards = c->missing_shards,
        };
}

/*
 * A record that makes no sense is as none; of one that a walk of another kind has left only what it
 * says of the last walk counts.
 */
static void decode(struct eng_scrub *scrub, const void *data, size_t len)
{
        struct fmt_scrub head;

        if (len < sizeof(head))
                return;
        memcpy(&head, data, sizeof(head));
        if (head.from_len > FMT_NAME_MAX || len != sizeof(head) + head.from_len)
                return;
        from_counts(&head.last, &scrub->last);
        if (head.walk != FMT_SCRUB_ALL)
                return;
        scrub->at.len = (uint16_t)head.from_len;
        memcpy(scrub->at.data, (const uint8_t *)data + sizeof(head), head.from_len);
        from_counts(&head.now, &scrub->now);
}

static void scrub_keep(struct eng_scrub *scrub)
{
        struct fmt_scrub head = {.walk = FMT_SCRUB_ALL, .from_len = scrub->at.len};
        uint8_t bytes[sizeof(head) + FMT_NAME_MAX];

        to_counts(&scrub->now, &head.now);
        to_counts(&scrub->last, &head.last);
        memcpy(bytes, &head, sizeof(head));
        memcpy(bytes + sizeof(head), scrub->at.data, head.from_len);
        eng_kept_write(&scrub->kept, bytes, sizeof(head) + head.from_len);
}

static void loaded(struct eng_kept *kept, const void *data, size_t len)
{
        struct eng_scrub *scrub = container_of(kept, struct eng_scrub, kept);

        assert(!scrub->loaded);
        decode(scrub, data, len);
        scrub->loaded = true;
        scrub_publish(scrub);
        wait_for_turn(scrub);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* From the first name on: it is any that was wanted until now. */
static void walk_begins(struct eng_scrub *scrub)
{
        struct eng_store *store = scrub->store;

        assert(scrub->at.len == 0);
        scrub->pays = scrub->owed;
        scrub->again = scrub->owed = false;
        scrub->began = lp_now(store->coord_loop->loop);
        scrub->number = atomic_fetch_add(&store->walks_begun, 1) + 1;
}

static void scrub_walk_ended(struct eng_scrub *scrub)
{
        const uint64_t now = lp_now(scrub->store->coord_loop->loop), took = now - scrub->began;
        uint64_t rest = took > DAY_NS ? took : took > DAY_NS / REST ? DAY_NS : took * REST;

        if (scrub->number == 0)
                return;
        assert(scrub->number > atomic_load(&scrub->store->walks_ended));
        atomic_store(&scrub->store->walks_ended, scrub->number);
        scrub->number = 0;
        if (scrub->pays)
                scrub->rest_until = now + (rest > REST_LEAST_NS ? rest : REST_LEAST_NS);
}

static void scrub_ended(void *arg)
{
        struct eng_scrub *scrub = arg;

        assert(scrub->run != NULL);
        scrub->run = NULL;
        if (scrub->store->stopping)
                return;
        pthread_mutex_lock(&scrub->store->health_lock);
        scrub->last = scrub->store->scrub;
        pthread_mutex_unlock(&scrub->store->health_lock);
        scrub_walk_ended(scrub);
        scrub->at.len = 0;
        scrub->now = (struct eng_verify_report){.started_ms = 0};
        scrub_publish(scrub);
        scrub_keep(scrub);
        wait_for_turn(scrub);
}

static uint64_t keep_ns(const struct eng_scrub *scrub)
{
        uint64_t ms = scrub->store->options.heal_keep_ms;

        return ms == 0 ? KEEP_NS : ms * 1000 * 1000;
}

static void scrub_tick(struct lp_timer *timer)
{
        struct eng_scrub *scrub = container_of(timer, struct eng_scrub, timer);

        if (scrub->run == NULL) {
                scrub_go(scrub);
                return;
        }
        eng_verify_where(scrub->run, &scrub->at, &scrub->now);
        scrub_keep(scrub);
        lp_timer_start(scrub->store->coord_loop->loop, timer, keep_ns(scrub));
}

static void scrub_go(struct eng_scrub *scrub)
{
        struct eng_store *store = scrub->store;

        assert(scrub->loaded && scrub->run == NULL);
        if (store->stopping)
                return;
        if (scrub->now.started_ms == 0)
                scrub->now.started_ms = lp_wall_ms();
        scrub->timer.expired = scrub_tick;
        scrub->run = eng_verify_scrub(store, &scrub->at, &scrub->now, store->options.scrub_rate, scrub_ended, scrub);
        if (scrub->run != NULL && scrub->at.len == 0)
                walk_begins(scrub);
        lp_timer_start(store->coord_loop->loop, &scrub->timer, scrub->run != NULL ? keep_ns(scrub) : LATER_NS);
}

/* Until a walk may begin that is owed. */
static uint64_t owed_ns(const struct eng_scrub *scrub)
{
        const uint64_t now = lp_now(scrub->store->coord_loop->loop);

        return scrub->rest_until > now + SOON_NS ? scrub->rest_until - now : SOON_NS;
}

/*
 * One that a restart has cut off goes on soon; else the next begins an interval after the last did.
 */
static void wait_for_turn(struct eng_scrub *scrub)
{
        const int64_t interval = (int64_t)scrub->store->options.scrub_interval_ms;
        int64_t left = scrub->now.started_ms != 0 ? 0 : scrub->last.started_ms + interval - lp_wall_ms();
        uint64_t ns = left <= 0 || left > interval ? 0 : (uint64_t)left * 1000 * 1000; /* longer: the clock was wrong then, or is now */

        assert(scrub->loaded && scrub->run == NULL);
        if (ns < SETTLE_NS)
                ns = SETTLE_NS;
        if (scrub->now.started_ms == 0 && scrub->owed && ns > owed_ns(scrub))
                ns = owed_ns(scrub);
        if (scrub->now.started_ms == 0 && scrub->again) /* the next walk is the one that was wanted */
                ns = SOON_NS;
        scrub->timer.expired = scrub_tick;
        lp_timer_start(scrub->store->coord_loop->loop, &scrub->timer, ns);
}

void eng_scrub_begin(struct eng_store *store)
{
        struct eng_scrub *scrub;

        if (store->options.scrub_rate == 0 || store->coord->scrub != NULL)
                return;
        scrub = calloc(1, sizeof(*scrub));
        if (scrub == NULL)
                return;
        scrub->store = store;
        store->coord->scrub = scrub;
        eng_kept_init(&scrub->kept, store, KEY, loaded);
        eng_kept_load(&scrub->kept);
}

void eng_scrub_free(struct eng_store *store)
{
        struct eng_scrub *scrub = store->coord->scrub;

        if (scrub == NULL)
                return;
        store->coord->scrub = NULL;
        lp_timer_stop(store->coord_loop->loop, &scrub->timer);
        if (scrub->run != NULL)
                eng_verify_drop(scrub->run);
        eng_kept_stop(&scrub->kept);
        free(scrub);
}

/* ---- asked for ------------------------------------------------------------------------------- */

static void scrub_started(struct lp_msg *msg)
{
        struct scrub_start *s = (struct scrub_start *)msg;
        struct eng_scrub *scrub = s->store->coord->scrub;

        eng_scrub_drives_start(s->store);
        free(s);
        if (scrub == NULL || !scrub->loaded || scrub->run != NULL)
                return;
        lp_timer_stop(scrub->store->coord_loop->loop, &scrub->timer);
        scrub_go(scrub);
}

static void scrub_names_wanted(struct lp_msg *msg)
{
        struct scrub_start *s = (struct scrub_start *)msg;
        struct eng_scrub *scrub = s->store->coord->scrub;

        free(s);
        if (scrub == NULL)
                return;
        /* One under way may be past the name. */
        scrub->again |= !scrub->loaded || scrub->run != NULL || scrub->at.len > 0;
        if (!scrub->loaded || scrub->run != NULL)
                return;
        lp_timer_stop(scrub->store->coord_loop->loop, &scrub->timer);
        scrub_go(scrub);
}

static void scrub_walk_owed(struct lp_msg *msg)
{
        struct scrub_start *s = (struct scrub_start *)msg;
        struct eng_scrub *scrub = s->store->coord->scrub;
        const uint64_t begun = s->begun;

        free(s);
        if (scrub == NULL || atomic_load(&scrub->store->walks_begun) > begun)
                return;
        scrub->owed = true;
        if (!scrub->loaded || scrub->run != NULL)
                return; /* behind that */
        lp_timer_stop(scrub->store->coord_loop->loop, &scrub->timer);
        wait_for_turn(scrub);
}

static void scrub_tell(struct eng_store *store, void (*run)(struct lp_msg *msg))
{
        struct scrub_start *s = calloc(1, sizeof(*s));

        if (s == NULL)
                return; /* the walk comes in its turn */
        s->store = store;
        s->begun = atomic_load(&store->walks_begun);
        s->msg.run = run;
        lp_post(store->coord_loop->loop, &s->msg);
}

void eng_scrub_names_soon(struct eng_store *store)
{
        scrub_tell(store, scrub_names_wanted);
}

void eng_scrub_names_owed(struct eng_store *store)
{
        scrub_tell(store, scrub_walk_owed);
}

int eng_scrub_start(struct eng_store *store)
{
        struct scrub_start *s;

        if (store->options.scrub_rate == 0)
                return -EOPNOTSUPP;
        s = calloc(1, sizeof(*s));
        if (s == NULL)
                return -ENOMEM;
        s->store = store;
        s->msg.run = scrub_started;
        lp_post(store->coord_loop->loop, &s->msg);
        return 0;
}

void eng_scrub_read(struct eng_store *store, struct eng_verify_report *now, struct eng_verify_report *last)
{
        pthread_mutex_lock(&store->health_lock);
        *now = store->scrub;
        *last = store->last_scrub;
        pthread_mutex_unlock(&store->health_lock);
}
