/*
 * decided.c - epochs that a configuration service decides (struct eng_cluster): where the store of a
 * cluster's leader differs from one whose drives say which epoch counts (docs/design/leaders.md).
 *
 * The epoch that etcd has stands in coord->decided as if a drive held it: recovery takes the drive
 * map and the members from there. Coordinator, but for the opening.
 */
#include "engine/drive/identity.h"
#include "engine/epoch/epoch.h"
#include "engine/epoch/recover.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Pools of a cluster are made with all of these. */
#define DECIDED_FEATURES ((uint64_t)ENG_FEATURES_OF_POOL)

void eng_decided_free(struct eng_coord *c)
{
        if (c->decided != NULL)
                free(c->decided->epoch);
        free(c->decided);
        c->decided = NULL;
}

/* The epoch is etcd's from here on. -ENOMEM. */
static int decided_set(struct eng_coord *c, const void *body, size_t len)
{
        struct eng_member *m = calloc(1, sizeof(*m));
        uint8_t *copy = malloc(len);

        if (m == NULL || copy == NULL) {
                free(m);
                free(copy);
                return -ENOMEM;
        }
        memcpy(copy, body, len);
        m->epoch = copy;
        m->epoch_len = len;
        eng_decided_free(c);
        c->decided = m;
        return 0;
}

static void decided_take_slot(struct eng_store *store, const struct eng_epoch_info *info, unsigned slot)
{
        const struct eng_cluster *cluster = store->options.cluster;
        struct eng_member *m;

        if ((info->gone & eng_bit(slot)) || cluster->paths[slot][0] == 0)
                return;
        m = &store->unplaced[store->unplaced_count++];
        snprintf(m->path, sizeof(m->path), "%s", cluster->paths[slot]);
        memcpy(m->identity.store_id, cluster->store_id, FMT_ID);
        memcpy(m->identity.drive_id, info->slot[slot].drive_id, FMT_ID);
        m->identity.slot = slot;
        m->identity.layout = FMT_LAYOUT_VERSION;
        m->identity.features = DECIDED_FEATURES;
}

int eng_decided_recognise(struct eng_store *store, struct eng_error *error)
{
        const struct eng_cluster *cluster = store->options.cluster;
        struct eng_epoch_info info;
        unsigned i;

        if (eng_epoch_read(cluster->epoch, cluster->epoch_len, &info) != 0 || info.number == 0 || info.slots == 0 || info.in == 0)
                return eng_error_set(error, -EBADMSG, "the pool's epoch in etcd is damaged");
        for (i = 0; i < info.slots; i++)
                if (info.slot[i].site.node == 0)
                        return eng_error_set(error, -EBADMSG, "the pool's epoch in etcd has a slot that lies on no node");
        if (decided_set(store->coord, cluster->epoch, cluster->epoch_len) != 0)
                return eng_error_set(error, -ENOMEM, "no memory");
        store->coord->found.number = info.number;
        memcpy(store->coord->found.id, info.id, FMT_ID);
        memcpy(store->store_id, cluster->store_id, FMT_ID);
        for (i = 0; i < info.slots; i++)
                decided_take_slot(store, &info, i);
        if (store->unplaced_count == 0)
                return eng_error_set(error, -ENOENT, "none of the pool's drives can be reached");
        store->options.drives = cluster->paths;
        store->options.drive_count = info.slots;
        store->coord->features = DECIDED_FEATURES;
        atomic_store(&store->features, DECIDED_FEATURES);
        return 0;
}

bool eng_decided_has(const struct eng_coord *c, const struct fmt_epoch *epoch)
{
        const struct eng_decided_own *own = &c->own[epoch->number % ENG_DECIDED_OWN];

        return (epoch->number == c->found.number && memcmp(epoch->id, c->found.id, FMT_ID) == 0) ||
               (epoch->number == own->number && memcmp(epoch->id, own->id, FMT_ID) == 0);
}

/* Or it may have been: long ago, and what is remembered are the last ones. */
static bool may_be_decided(const struct eng_coord *c, const struct fmt_epoch *epoch)
{
        const bool long_ago = epoch->number != c->found.number && c->own[epoch->number % ENG_DECIDED_OWN].number > epoch->number;

        return long_ago || eng_decided_has(c, epoch);
}

bool eng_decided_denied_by(const struct eng_store *store, const struct eng_member *m, char *text, size_t size)
{
        const struct eng_coord *c = store->coord;

        if (m->drive == NULL || eng_epoch_of(m)->number < c->found.number || may_be_decided(c, eng_epoch_of(m)))
                return false;
        snprintf(text, size, "%.80s has epoch %llu, which etcd does not: etcd was restored from a backup (millrace admin cluster reseed)",
                 m->path, (unsigned long long)eng_epoch_of(m)->number);
        return true;
}

bool eng_decided_denied(const struct eng_store *store, char *text, size_t size)
{
        unsigned i;

        for (i = 0; i < store->unplaced_count; i++)
                if (eng_decided_denied_by(store, &store->unplaced[i], text, size))
                        return true;
        return false;
}

bool eng_decided_may_wait(const struct eng_store *store)
{
        const struct eng_cluster *cluster = store->options.cluster;
        const struct eng_view *view = &store->coord->view;

        return cluster != NULL && cluster->answers != NULL && !view->paused && ((view->in | view->joining) & ~view->up) == 0 && !cluster->answers(cluster->arg);
}

/* owner: coordinator */
struct eng_decision {
        struct eng_store *store;
        struct eng_buf *body;
        void (*then)(struct eng_store *store);
};

void eng_decision_free(struct eng_coord *c)
{
        if (c->decision != NULL)
                eng_buf_unref(c->decision->body);
        free(c->decision);
        c->decision = NULL;
}

static void decision_came(void *arg)
{
        struct eng_decision *decision = arg;
        struct eng_store *store = decision->store;
        struct eng_coord *c = store->coord;
        const struct fmt_epoch *epoch = (const struct fmt_epoch *)decision->body->data;
        void (*then)(struct eng_store *) = decision->then;

        assert(eng_on_coordinator(store) && c->decision == decision);
        if (decided_set(c, decision->body->data, decision->body->len) != 0)
                abort(); /* what etcd has must be known from here on */
        c->own[epoch->number % ENG_DECIDED_OWN].number = epoch->number;
        memcpy(c->own[epoch->number % ENG_DECIDED_OWN].id, epoch->id, FMT_ID);
        memcpy(c->epoch_id, epoch->id, FMT_ID); /* the next one's parent, whether it comes into force or not */
        eng_decision_free(c);
        then(store);
}

int eng_decision_ask(struct eng_store *store, struct eng_buf *body, void (*then)(struct eng_store *store))
{
        const struct eng_cluster *cluster = store->options.cluster;
        struct eng_coord *c = store->coord;
        struct eng_decision *decision = calloc(1, sizeof(*decision));
        unsigned i;

        assert(eng_on_coordinator(store) && c->decision == NULL);
        for (i = 0; i < store->drive_count; i++)
                assert(store->members[i].site.node != 0); /* the next start would refuse it */
        if (decision == NULL)
                return -ENOMEM;
        *decision = (struct eng_decision){.store = store, .body = eng_buf_ref(body), .then = then};
        c->decision = decision;
        cluster->propose(cluster->arg, body->data, body->len, decision_came, decision);
        return 0;
}

uint64_t eng_epoch_next_number(const struct eng_store *store)
{
        const struct eng_coord *c = store->coord;
        uint64_t newest = c->view.epoch;

        if (c->decided != NULL && eng_epoch_of(c->decided)->number > newest) /* one that never came into force, too */
                newest = eng_epoch_of(c->decided)->number;
        return newest + 1;
}
