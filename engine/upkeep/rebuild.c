/*
 * rebuild.c - gives one object back the shards it lacks. The primary loop of its key; each loop
 * repairs some at a time.
 *
 * It is read and encoded again. Shards for which its record names no drive go to drives that hold
 * none of their run, and the record then says so. Shards that it names on a drive which is being
 * filled, and which that drive does not hold, are written there; and so are those that the caller
 * found damaged.
 *
 * What is to be written: rebuild_plan.c. Reading, encoding and writing: rebuild_write.c. The
 * record: rebuild_record.c. Here: the life of a repair.
 *
 * The bytes come through get.c, so they are verified, rebuilt where need be, and pinned. The record
 * is changed with the key locked, and only if it is still that object.
 *
 * A stripe beyond repair, one of which more than m shards are gone, is passed by: all others are
 * repaired, and the repair ends with -ENODATA. What is left of such a stripe on drives that leave
 * is copied as it is before the record names others (rebuild_write.c).
 *
 * Heal, scrub and verification can all ask for the same object. One of them repairs it at a time
 * (el->leader.rebuilds); the next one reads its value anew. What was written in vain is discarded
 * (I6) while the key is locked, on drives that the value read under that lock does not name for it,
 * and only where that value, or two members' word that there is none, was there to be read. After
 * any other end nothing is discarded: the orphan collection finds what no record names.
 */
#include "engine/object/object.h"
#include "engine/upkeep/upkeep.h"
#include "engine/upkeep/lost_objects.h"
#include "engine/upkeep/rebuild_parts.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void read_object(struct eng_rebuild *rebuild);
static void rebuild_opened(void *arg, int rv, struct eng_get *get);

/* ---- the end --------------------------------------------------------------------------------- */

static void drop_slots(struct eng_rebuild *rebuild)
{
        struct lp_loop *loop = rebuild->el->loop;
        unsigned i;

        assert(rebuild->in_flight == 0);
        if (rebuild->unit != NULL)
                lp_slot_put(loop, rebuild->unit);
        for (i = 0; i < ERA_MAX_M; i++)
                if (rebuild->parity[i] != NULL)
                        lp_slot_put(loop, rebuild->parity[i]);
        if (rebuild->granted)
                lp_unreserve(loop, LP_SHARE_INTERNAL, rebuild->reserve.count);
        rebuild->granted = false;
}

/* Lets go of all it has but itself. Its operations that are out go on. */
static void rebuild_clear(struct eng_rebuild *rebuild)
{
        struct eng_rebuild_plan *plan;

        if (rebuild->listed)
                TAILQ_REMOVE(&rebuild->el->leader.rebuilds, rebuild, link);
        rebuild->listed = false;
        lp_timer_stop(rebuild->el->loop, &rebuild->timer);
        if (rebuild->has_turn)
                eng_pacer_give_back(&rebuild->store->pacer, &rebuild->turn);
        rebuild->has_turn = rebuild->awaits_turn = false;
        if (rebuild->queued)
                lp_reserve_cancel(rebuild->el->loop, &rebuild->reserve);
        rebuild->queued = false;
        if (rebuild->get != NULL)
                eng_get_close(rebuild->get);
        while ((plan = STAILQ_FIRST(&rebuild->plans)) != NULL) {
                STAILQ_REMOVE_HEAD(&rebuild->plans, link);
                eng_rebuild_free_plan(plan);
        }
        eng_buf_unref(rebuild->value);
        eng_buf_unref(rebuild->patched);
        era_code_free(rebuild->code);
        rebuild->get = NULL;
        rebuild->value = rebuild->patched = NULL;
        rebuild->code = NULL;
        eng_txn_abandon(&rebuild->txn);
        eng_txn_drop(&rebuild->txn);
}

void eng_rebuild_drop(struct eng_rebuild *rebuild)
{
        if (!rebuild->ended)
                rebuild_clear(rebuild);
        if (rebuild->in_flight == 0 && atomic_load(&rebuild->discards_out) == 0) {
                free(rebuild);
                return;
        }
        rebuild->error = -ECANCELED;
        rebuild->next_late = rebuild->store->coord->late_rebuilds;
        rebuild->store->coord->late_rebuilds = rebuild;
}

void eng_rebuild_free_late(struct eng_store *store)
{
        struct eng_rebuild *rebuild;

        while ((rebuild = store->coord->late_rebuilds) != NULL) {
                store->coord->late_rebuilds = rebuild->next_late;
                free(rebuild);
        }
}

/*
 * The first in line of those for a key, whichever of its rows they are for: an object may be one
 * repair's OBJECT row, and another's VERSION row.
 */
static struct eng_rebuild *find_rebuild(struct eng_loop *el, const struct eng_txn *key)
{
        struct eng_rebuild *rebuild;

        TAILQ_FOREACH(rebuild, &el->leader.rebuilds, link)
                if (rebuild->txn.bucket == key->bucket && rebuild->txn.key_len == key->key_len &&
                    memcmp(rebuild->txn.key, key->key, key->key_len) == 0)
                        break;
        return rebuild;
}

/* At home: it has been cleared on its own loop. */
static void rebuild_over(struct eng_rebuild *rebuild)
{
        eng_rebuild_done done = rebuild->done;
        struct eng_rebuild_written written = rebuild->written;
        int rv = rebuild->result;
        void *arg = rebuild->arg;

        assert(eng_on_loop(rebuild->home) && rebuild->ended);
        if (!rebuild->durable)
                written.shards = 0;
        free(rebuild);
        done(arg, rv, written);
}

static void came_home(struct lp_msg *msg)
{
        struct eng_rebuild *rebuild = container_of(msg, struct eng_rebuild, msg);

        if (!rebuild->store->stopping) /* else eng_rebuild_drop() frees it */
                rebuild_over(rebuild);
}

/* All was done that could be: what that is for an object with stripes beyond repair. */
static int rebuild_verdict(const struct eng_rebuild *rebuild)
{
        struct eng_rebuild_plan *plan;

        if (rebuild->value == NULL || rebuild->replaced)
                return 0;
        if (rebuild->lost > 0) {
                eng_lost_object_found(rebuild->el, &rebuild->name, eng_value_head(rebuild->value->data)->id, rebuild->lost_id, !rebuild->kept);
                return rebuild->kept ? -EHOSTDOWN : -ENODATA;
        }
        STAILQ_FOREACH(plan, &rebuild->plans, link)
                eng_lost_object_readable(rebuild->el, plan->part.head.id);
        return 0;
}

/* What was written under new ids, which no record that was sent names: as an upload that ends (I6). */
static void discard_new(const struct eng_rebuild *rebuild)
{
        const struct eng_rebuild_plan *plan;

        STAILQ_FOREACH(plan, &rebuild->plans, link)
                eng_discard(rebuild->store, plan->id, rebuild->touched);
}

void eng_rebuild_finish(struct eng_rebuild *rebuild, int rv)
{
        struct eng_store *store = rebuild->store;
        struct eng_rebuild *next;

        assert(eng_on_loop(rebuild->el) && !rebuild->ended);
        assert(atomic_load(&rebuild->discards_out) == 0);
        if (rv != 0 && rebuild->anew && !rebuild->txn.appended && !store->stopping)
                discard_new(rebuild);
        if (rv == 0)
                rv = rebuild_verdict(rebuild); /* before the get is closed: what it reads is not given back until then, and with that forgotten */
        drop_slots(rebuild);
        rebuild_clear(rebuild);
        rebuild->ended = true;
        rebuild->result = rv;
        next = find_rebuild(rebuild->el, &rebuild->txn);
        if (next != NULL && !store->stopping)
                read_object(next);
        if (rebuild->home == rebuild->el) {
                rebuild_over(rebuild);
                return;
        }
        rebuild->msg.run = came_home;
        lp_post(rebuild->home->loop, &rebuild->msg);
}

void eng_rebuild_new_id(const struct eng_rebuild *rebuild, uint8_t id[FMT_ID])
{
        eng_new_id(rebuild->el, id);
        rebuild->el->home.own_ids++;
}

bool eng_rebuild_touched_anew(const struct eng_rebuild *rebuild, const struct eng_view *view)
{
        unsigned i;

        for (i = 0; i < rebuild->store->drive_count; i++)
                if ((rebuild->touched & eng_bit(i)) && view->since[i] > rebuild->epoch)
                        return true;
        return false;
}

bool eng_rebuild_oldest(const struct eng_loop *el, uint8_t id[FMT_ID], uint64_t *epoch)
{
        const struct eng_rebuild *rebuild;
        struct eng_made made, oldest;
        bool any = false;

        assert(eng_on_loop(el));
        TAILQ_FOREACH(rebuild, &el->leader.rebuilds, link) {
                if (!rebuild->anew)
                        continue;
                eng_id_made(rebuild->id, &made);
                if (any && !eng_made_before(&made, &oldest))
                        continue;
                any = true;
                oldest = made;
                memcpy(id, rebuild->id, FMT_ID);
                *epoch = rebuild->epoch;
        }
        return any;
}

/* What waits for its turn behind another one is none that others wait for. */
static void leave_line(struct eng_rebuild *rebuild)
{
        assert(rebuild->waits && rebuild->get == NULL && rebuild->in_flight == 0);
        rebuild_clear(rebuild);
        rebuild->ended = true;
        rebuild->result = rebuild->error;
        rebuild_over(rebuild);
}

void eng_rebuild_cancel(struct eng_rebuild *rebuild)
{
        assert(rebuild->home == rebuild->el && eng_on_loop(rebuild->el));
        if (rebuild->ended || (rebuild->granted && rebuild->plan == NULL)) /* all is written: it ends by itself */
                return;
        if (rebuild->error == 0)
                rebuild->error = -ECANCELED;
        if (rebuild->waits)
                leave_line(rebuild);
        else if (rebuild->queued || (rebuild->granted && rebuild->in_flight == 0)) /* it waits for slots, its rate, or what is read */
                eng_rebuild_give_up(rebuild, rebuild->error);
}

/*
 * The row is the head of a key with versions: the plain object that the repair is for has become the
 * null version, if it still is there. That one is opened instead.
 */
static bool open_null_version(struct eng_rebuild *rebuild)
{
        const struct eng_buf *value = eng_get_value(rebuild->get);
        struct fmt_head versions;

        if (!eng_value_head_field(value->data, value->len, &versions) || versions.null_number == 0)
                return false;
        eng_get_close(rebuild->get);
        rebuild->get = NULL;
        eng_name_version(&rebuild->name, rebuild->txn.bucket, rebuild->txn.key, rebuild->txn.key_len, versions.null_number);
        rebuild->el->home.own_gets++;
        eng_get_open_name(rebuild->store, &rebuild->name, rebuild_opened, rebuild);
        return true;
}

static void rebuild_opened(void *arg, int rv, struct eng_get *get)
{
        struct eng_rebuild *rebuild = arg;

        assert(rebuild->get == NULL && rebuild->value == NULL);
        rebuild->get = rv == 0 ? get : NULL;
        if (rv == 0 && rebuild->error != 0)
                rv = rebuild->error;
        if (rv == 0 && open_null_version(rebuild))
                return;
        if (rv == 0 && eng_get_object(get)->size > 0) {
                rebuild->value = eng_buf_ref(eng_get_value(get));
                rv = eng_rebuild_make_plans(rebuild);
        }
        if (rv != 0) {
                eng_rebuild_finish(rebuild, rv == -ENOENT ? 0 : rv);
                return;
        }
        eng_rebuild_ask_held(rebuild);
}

/* Nobody else repairs it now. */
static void read_object(struct eng_rebuild *rebuild)
{
        const struct eng_name *name = &rebuild->name;

        assert(eng_on_loop(rebuild->el) && find_rebuild(rebuild->el, &rebuild->txn) == rebuild);
        rebuild->waits = false;
        rebuild->lost_stripe = NO_STRIPE;
        rebuild->epoch = rebuild->el->view.epoch;
        rebuild->homeless = eng_placement_homeless(rebuild->el->view.map);
        rebuild->filling &= ~rebuild->homeless & rebuild->el->view.in & rebuild->el->view.up;
        rebuild->el->home.own_gets++;
        eng_get_open_name(rebuild->store, name, rebuild_opened, rebuild);
}

/* On its own loop. */
static void take_turn(struct eng_rebuild *rebuild)
{
        assert(eng_on_loop(rebuild->el) && !rebuild->listed);
        rebuild->waits = find_rebuild(rebuild->el, &rebuild->txn) != NULL;
        TAILQ_INSERT_TAIL(&rebuild->el->leader.rebuilds, rebuild, link);
        rebuild->listed = true;
        if (!rebuild->waits)
                read_object(rebuild);
}

static void rebuild_came(struct lp_msg *msg)
{
        struct eng_rebuild *rebuild = container_of(msg, struct eng_rebuild, msg);

        if (!rebuild->store->stopping)
                take_turn(rebuild);
}

struct eng_rebuild *eng_rebuild_start(struct eng_store *store, const struct eng_rebuild_order *order, eng_rebuild_done done, void *arg)
{
        const struct eng_name *name = order->name;
        struct eng_rebuild *rebuild;
        uint8_t key[FMT_NAME_MAX];
        uint64_t bucket;
        size_t len;

        if (eng_name_key(name, &bucket, key, &len) != 0 || len > ENG_KEY_MAX)
                return NULL;
        rebuild = calloc(1, sizeof(*rebuild));
        if (rebuild == NULL)
                return NULL;
        rebuild->store = store;
        rebuild->home = eng_here(store);
        rebuild->name = *name;
        rebuild->filling = order->filling;
        rebuild->digests = order->digests;
        rebuild->bad = order->bad;
        rebuild->bad_count = order->bad_count;
        rebuild->done = done;
        rebuild->arg = arg;
        STAILQ_INIT(&rebuild->plans);
        eng_txn_init(&rebuild->txn, store, bucket, key, len);
        rebuild->el = eng_primary(store, rebuild->txn.pg);
        if (order->digests != NULL && rebuild->el != rebuild->home) { /* who walks a group by what values say of it has met one that is of another */
                free(rebuild);
                return NULL;
        }
        if (rebuild->el == rebuild->home) {
                take_turn(rebuild);
                return rebuild;
        }
        rebuild->msg.run = rebuild_came;
        lp_post(rebuild->el->loop, &rebuild->msg);
        return rebuild;
}
