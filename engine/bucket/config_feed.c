/*
 * config_feed.c - see config_feed.h: the order of changes, and who waits for whom. config_rows.c has the
 * rows.
 */
#include "engine/bucket/config_feed.h"

#include "engine/bucket/config_digest.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* owner: coordinator */
struct eng_feed {
        struct eng_store *store;
        uint64_t version;
        struct eng_row_key items[ENG_FEED_ITEMS]; /* by version */
        LIST_HEAD(, eng_feed_reader) readers;
        STAILQ_HEAD(feed_waits, eng_feed_wait) waits; /* in order of version */
        uint64_t strangers_ns, strangers; /* for how long; and until when, once the store is open */
        struct lp_timer timer;          /* to the next time at which somebody believes no more */
        bool stopped, frozen;
        void (*changed)(void *arg);     /* constant once the store is started */
        void *arg;
};

static void feed_expired(struct lp_timer *timer);

bool eng_feed_make(struct eng_store *store)
{
        struct eng_feed *feed = calloc(1, sizeof(*feed));

        if (feed == NULL)
                return false;
        feed->store = store;
        LIST_INIT(&feed->readers);
        STAILQ_INIT(&feed->waits);
        feed->timer.expired = feed_expired;
        store->coord->feed = feed;
        return true;
}

void eng_feed_free(struct eng_store *store)
{
        free(store->coord->feed);
        store->coord->feed = NULL;
}

uint64_t eng_feed_version(const struct eng_store *store)
{
        return store->coord->feed->version;
}

void eng_feed_add(struct eng_store *store, const struct eng_row_key *row)
{
        struct eng_feed *feed = store->coord->feed;

        assert(eng_on_coordinator(store));
        feed->items[++feed->version % ENG_FEED_ITEMS] = *row;
        if (row->what == ENG_ROW_BUCKET || !eng_is_entry(row->kind))
                eng_digest_changed(store);
        eng_feed_tell(store);
}

void eng_feed_watch(struct eng_store *store, void (*changed)(void *arg), void *arg)
{
        store->coord->feed->changed = changed;
        store->coord->feed->arg = arg;
}

void eng_feed_tell(struct eng_store *store)
{
        const struct eng_feed *feed = store->coord->feed;

        if (feed->changed != NULL)
                feed->changed(feed->arg);
}

int eng_feed_next(const struct eng_store *store, uint64_t *version, struct eng_row_key *row)
{
        const struct eng_feed *feed = store->coord->feed;

        if (*version > feed->version || feed->version - *version > ENG_FEED_ITEMS)
                return -ESTALE;
        if (*version == feed->version)
                return -ENOENT;
        *row = feed->items[++*version % ENG_FEED_ITEMS];
        return 0;
}

/* ---- who waits for whom ---------------------------------------------------------------------- */

/* Nobody believes an older version any more. next: when that may be so. */
static bool all_have(const struct eng_feed *feed, uint64_t version, uint64_t *next)
{
        const struct eng_feed_reader *reader;
        uint64_t now = lp_now(feed->store->coord_loop->loop);

        *next = now < feed->strangers ? feed->strangers : 0;
        LIST_FOREACH (reader, &feed->readers, link)
                if (reader->has < version && reader->until > now && reader->until > *next)
                        *next = reader->until;
        return *next == 0;
}

static void feed_look(struct eng_feed *feed)
{
        struct lp_loop *loop = feed->store->coord_loop->loop;
        struct eng_feed_wait *first;
        uint64_t next;

        lp_timer_stop(loop, &feed->timer);
        if (feed->frozen && !feed->stopped)
                return;
        while ((first = STAILQ_FIRST(&feed->waits)) != NULL && (feed->stopped || all_have(feed, first->version, &next))) {
                STAILQ_REMOVE_HEAD(&feed->waits, link);
                first->done(first);
        }
        if (first != NULL)
                lp_timer_start(loop, &feed->timer, next - lp_now(loop));
}

static void feed_expired(struct lp_timer *timer)
{
        feed_look(container_of(timer, struct eng_feed, timer));
}

void eng_feed_attach(struct eng_store *store, struct eng_feed_reader *reader)
{
        assert(eng_on_coordinator(store));
        LIST_INSERT_HEAD(&store->coord->feed->readers, reader, link);
}

void eng_feed_detach(struct eng_store *store, struct eng_feed_reader *reader)
{
        assert(eng_on_coordinator(store));
        LIST_REMOVE(reader, link);
        feed_look(store->coord->feed);
}

void eng_feed_freeze(struct eng_store *store)
{
        assert(eng_on_coordinator(store));
        store->coord->feed->frozen = true;
}

void eng_feed_read(struct eng_store *store, struct eng_feed_reader *reader)
{
        assert(eng_on_coordinator(store) && reader->has <= store->coord->feed->version);
        if (!STAILQ_EMPTY(&store->coord->feed->waits))
                feed_look(store->coord->feed);
}

void eng_feed_strangers(struct eng_store *store, uint64_t ns)
{
        assert(eng_on_coordinator(store));
        store->coord->feed->frozen = false;
        store->coord->feed->strangers_ns = ns;
        if (store->coord->phase == ENG_PHASE_OPEN)
                eng_feed_open(store);
}

void eng_feed_open(struct eng_store *store)
{
        struct eng_feed *feed = store->coord->feed;

        assert(eng_on_coordinator(store) && store->coord->phase == ENG_PHASE_OPEN);
        feed->strangers = feed->strangers_ns == 0 ? 0 : lp_now(store->coord_loop->loop) + feed->strangers_ns;
}

void eng_feed_wait(struct eng_store *store, struct eng_feed_wait *wait)
{
        struct eng_feed *feed = store->coord->feed;

        assert(eng_on_coordinator(store) && wait->version <= feed->version);
        assert(STAILQ_EMPTY(&feed->waits) || STAILQ_LAST(&feed->waits, eng_feed_wait, link)->version <= wait->version);
        STAILQ_INSERT_TAIL(&feed->waits, wait, link);
        feed_look(feed);
}

void eng_feed_stop(struct eng_store *store)
{
        struct eng_feed *feed = store->coord->feed;
        struct lp_loop *before = lp_become(store->coord_loop->loop);

        feed->stopped = true;
        feed_look(feed);
        lp_become(before);
}
