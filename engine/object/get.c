/*
 * get.c - reading one open object: verified bytes, in order, from any k shards of each stripe.
 *
 * Healthy: the data units a range touches are read straight from their drives, a stripe ahead of
 * what is handed out; in a cluster parity of near drives may stand in for data of far ones. When a unit's drive is missing, fails, or gives bytes that are not what was
 * written, the stripe is read again from any k shards and the missing units are computed
 * (degraded); what was damaged on a living drive is written anew. Every byte handed out was
 * verified by the drive that read it or rebuilt from verified ones (I5). Home loop throughout.
 */
#include "engine/object/object.h"
#include "engine/object/get.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SPARES_MOST 256u /* of a loop */

static void get_fill(struct eng_get *get);

/* ---- opening --------------------------------------------------------------------------------- */

static int index_parts(struct eng_get *get)
{
        const struct eng_buf *value = get->lookup.value;
        unsigned count = eng_value_head(value->data)->parts, i;
        struct eng_part part;
        uint64_t offset = 0;
        size_t pos = 0;

        get->parts = calloc(count + 1, sizeof(get->parts[0]));
        if (get->parts == NULL)
                return -ENOMEM;
        for (i = 0; i < count; i++) {
                get->parts[i].pos = pos;
                get->parts[i].offset = offset;
                if (eng_value_next_part(value->data, value->len, &pos, &part) != 1)
                        return -EIO;
                offset += part.head.size;
        }
        get->parts[count].offset = offset;
        get->part_count = count;
        return offset == get->object.size ? 0 : -EIO;
}

static void release_get(struct eng_get *get)
{
        eng_buf_unref(get->lookup.value);
        eng_buf_unref(get->lookup.bytes);
        free(get->parts);
        free(get->stripes[0]);
        free(get->stripes[1]);
}

static void free_get(struct eng_lookup *lookup)
{
        struct eng_get *get = (struct eng_get *)lookup;

        assert(!get->lookup.pinned && get->in_flight == 0);
        release_get(get);
        free(get);
}

/* On its home loop. */
static void spare_get(struct eng_get *get)
{
        struct eng_loop *el = get->el;

        assert(eng_on_loop(el) && el->home.spare_get_count <= SPARES_MOST);
        release_get(get);
        if (el->home.spare_get_count == SPARES_MOST) {
                free(get);
                return;
        }
        TAILQ_INSERT_HEAD(&el->home.spare_gets, get, link);
        el->home.spare_get_count++;
}

void eng_get_free_spares(struct eng_loop *el)
{
        struct get_stripe *left;
        struct eng_get *get;

        while ((get = TAILQ_FIRST(&el->home.spare_gets)) != NULL) {
                TAILQ_REMOVE(&el->home.spare_gets, get, link);
                free(get);
        }
        el->home.spare_get_count = 0;
        while ((left = LIST_FIRST(&el->home.left_stripes)) != NULL) { /* their reads do not come back: the drives are closed */
                LIST_REMOVE(left, left_link);
                free(left);
        }
}

static void end_get(struct eng_get *get)
{
        assert(get->in_flight == 0 && get->used == 0 && !get->granted && !get->reserving);
        eng_get_watch_end(get);
        TAILQ_REMOVE(&get->el->home.gets, get, link);
        if (get->lookup.pinned)
                eng_unpin(&get->lookup, free_get);
        else
                spare_get(get);
}

/* Else it is of the metadata alone. */
static bool reads_bytes(const struct eng_get *get)
{
        return (get->lookup.flags & ENG_OP_WANT_INLINE) != 0;
}

static void object_get_opened(struct eng_lookup *lookup)
{
        struct eng_get *get = (struct eng_get *)lookup;
        int rv = lookup->result;

        assert(eng_on_loop(get->el) && !get->looked_up);
        lp_trace_set_request(get->request);
        get->looked_up = true;
        if (rv == 0 && (eng_value_head(lookup->value->data)->state & FMT_STATE_HEAD) != 0)
                rv = -ENOENT; /* opened by its name: the object has become a version */
        if (rv == 0) {
                eng_value_object(lookup->value, &lookup->name, &get->object);
                if (eng_value_has_shards(eng_value_head(lookup->value->data)))
                        rv = index_parts(get);
                else if (reads_bytes(get) && get->object.size != (lookup->bytes == NULL ? 0 : lookup->bytes->len))
                        rv = -EIO;
        }
        lp_trace(LP_TRACE_GET_FOUND, (uint64_t)(int64_t)rv, rv == 0 ? get->object.size : 0);
        get->opened(get->arg, rv, rv == 0 ? get : NULL);
        if (rv != 0)
                end_get(get);
}

/* Zeroed but for the room of the name, which is most of it. */
static struct eng_get *new_get(struct eng_loop *el)
{
        const size_t before = offsetof(struct eng_get, lookup.name.data), behind = before + FMT_NAME_MAX;
        struct eng_get *get = TAILQ_FIRST(&el->home.spare_gets);

        if (get != NULL) {
                TAILQ_REMOVE(&el->home.spare_gets, get, link);
                el->home.spare_get_count--;
        } else {
                get = malloc(sizeof(*get));
        }
        if (get == NULL)
                return NULL;
        memset(get, 0, before);
        memset((char *)get + behind, 0, sizeof(*get) - behind);
        return get;
}

static void get_open_failed(struct eng_store *store, int rv, eng_get_opened done, void *arg)
{
        eng_early(store, (struct eng_early){.get = done, .arg = arg, .rv = rv});
}

/* A get whose lookup has all but its name. NULL: it was refused, which is told later. */
static struct eng_get *get_begin(struct eng_store *store, uint64_t bucket, struct eng_str key, unsigned flags, eng_get_opened done, void *arg)
{
        bool fit = key.len <= ENG_KEY_MAX;
        struct eng_get *get = fit ? new_get(eng_here(store)) : NULL;

        if (get == NULL) {
                get_open_failed(store, fit ? -ENOMEM : -EINVAL, done, arg);
                return NULL;
        }
        get->store = store;
        get->el = eng_here(store);
        get->request = lp_trace_request();
        get->number = ++get->el->home.get_count;
        TAILQ_INSERT_TAIL(&get->el->home.gets, get, link);
        get->opened = done;
        get->arg = arg;
        get->lookup.store = store;
        get->key_hash = eng_hash_of_key(bucket, key.data, key.len);
        get->lookup.pg = eng_pg_of_hash(store->pg_count, get->key_hash);
        get->lookup.flags = flags;
        get->lookup.pin = true;
        get->lookup.done = object_get_opened;
        lp_trace(LP_TRACE_GET_OPEN, bucket, get->lookup.pg);
        return get;
}

static void get_open(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_version *version, unsigned flags,
                     eng_get_opened done, void *arg)
{
        struct eng_get *get = get_begin(store, bucket, key, flags, done, arg);

        if (get == NULL)
                return;
        eng_lookup_which(&get->lookup, bucket, key, version);
        eng_lookup_start(&get->lookup);
}

void eng_get_open(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_version *version, eng_get_opened done,
                  void *arg)
{
        get_open(store, bucket, key, version, ENG_OP_WANT_INLINE, done, arg);
}

void eng_get_metadata(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_version *version, eng_get_opened done,
                      void *arg)
{
        get_open(store, bucket, key, version, 0, done, arg);
}

void eng_get_open_name(struct eng_store *store, const struct eng_name *name, eng_get_opened done, void *arg)
{
        uint8_t key[FMT_NAME_MAX];
        struct eng_get *get;
        uint64_t bucket;
        size_t len;

        if (eng_name_key(name, &bucket, key, &len) != 0) {
                get_open_failed(store, -EINVAL, done, arg);
                return;
        }
        get = get_begin(store, bucket, (struct eng_str){(const char *)key, len}, ENG_OP_WANT_INLINE, done, arg);
        if (get == NULL)
                return;
        get->lookup.which = ENG_LOOKUP_NAME;
        get->lookup.name = *name;
        eng_lookup_start(&get->lookup);
}

bool eng_get_each_part(const struct eng_loop *el, uint64_t upto, void (*each)(void *arg, const struct eng_part *part), void *arg)
{
        const struct eng_get *get;
        bool known = true;

        TAILQ_FOREACH(get, &el->home.gets, link) {
                struct eng_part part;
                size_t pos = 0;

                if (!get->looked_up) /* the lookup is the primary loop's */
                        known &= get->number > upto;
                else if (get->lookup.value != NULL)
                        while (eng_value_next_part(get->lookup.value->data, get->lookup.value->len, &pos, &part) == 1)
                                each(arg, &part);
        }
        return known;
}

const struct eng_object *eng_get_object(const struct eng_get *get)
{
        return &get->object;
}

struct eng_buf *eng_get_value(const struct eng_get *get)
{
        return get->lookup.value;
}

int eng_get_part(const struct eng_get *get, unsigned i, struct eng_part_view *out)
{
        struct eng_part part;

        if (i >= get->object.part_count)
                return -ENOENT;
        eng_get_part_at(get, i, &part);
        out->number = part.head.number;
        out->offset = get->parts[i].offset;
        out->size = part.head.size;
        memcpy(out->etag, part.head.etag, 16);
        out->attrs.data = (const char *)part.attrs;
        out->attrs.len = part.head.attrs_len;
        return 0;
}

/* ---- reservations ---------------------------------------------------------------------------- */

void eng_get_wake(struct eng_get *get)
{
        void (*call)(void *arg) = get->wake;

        if (!get->waiting || get->closed)
                return;
        get->waiting = false;
        lp_trace_set_request(get->request);
        call(get->wake_arg);
}

static void get_granted(struct lp_reserve *reserve)
{
        struct eng_get *get = container_of(reserve, struct eng_get, reserve);

        assert(get->reserving && !get->granted);
        lp_trace_set_request(get->request);
        get->granted = true;
        get->reserving = false;
        eng_step(get->el, ENG_STEP_BUFFERS, lp_now(get->el->loop) - reserve->since);
        get_fill(get);
}

static int reserve(struct eng_get *get, unsigned count)
{
        unsigned most = lp_share_slots(get->el->loop, LP_SHARE_GET);
        int rv;

        assert(!get->granted && !get->reserving && get->used == 0);
        get->reserve.share = LP_SHARE_GET;
        get->reserve.granted = get_granted;
        get->reserve.count = count < most ? count : most;
        rv = lp_reserve(get->el->loop, &get->reserve);
        get->granted = rv == 0;
        get->reserving = rv == -EAGAIN;
        if (get->granted)
                eng_step(get->el, ENG_STEP_BUFFERS, 0);
        return rv == -EAGAIN ? 0 : rv;
}

static void unreserve(struct eng_get *get)
{
        assert(get->used == 0);
        if (get->granted)
                lp_unreserve(get->el->loop, LP_SHARE_GET, get->reserve.count);
        else if (get->reserving)
                lp_reserve_cancel(get->el->loop, &get->reserve);
        get->granted = get->reserving = false;
}

/* ---- stripes --------------------------------------------------------------------------------- */

static void get_fail(struct eng_get *get, int rv)
{
        assert(rv != 0);
        if (get->error == 0)
                get->error = rv;
        eng_get_proceed(get);
}

/* All that could be asked for was. */
static void stripe_fails(struct eng_get *get, const struct get_stripe *s, int rv)
{
        if (get->error == 0 && eng_get_stripe_lost(get, s)) {
                get->lost = true;
                get->lost_at = s->next - s->hi;
        }
        get_fail(get, rv);
}

static void stripe_ready(struct eng_get *get, struct get_stripe *s)
{
        assert(s->state == STRIPE_READING && s->pending == 0);
        s->state = STRIPE_READY;
        if (s == get->stripes[get->current])
                eng_get_wake(get);
}

void eng_get_stripe_done(struct eng_get *get, struct get_stripe *s)
{
        unsigned u;
        int rv;

        assert(s->get == get && s->pending == 0);
        if (get->closed || get->error != 0 || get->degrading) {
                eng_get_proceed(get);
                return;
        }
        if (s->hedge != NULL && s->good < s->asked)
                return; /* it may have what did not come */
        eng_get_hedge_lost(get, s);
        if (s->degraded && !s->lost) {
                rv = eng_get_read_any(get, s);
                if (rv == 0 && s->pending > 0)
                        return;
                eng_step_ends(get->el, ENG_STEP_READ, s->began);
                if (rv != 0) {
                        stripe_fails(get, s, rv);
                        return;
                }
                rv = eng_get_rebuild(get, s);
                if (rv == 0)
                        stripe_ready(get, s);
                else
                        get_fail(get, rv);
                return;
        }
        eng_step_ends(get->el, ENG_STEP_READ, s->began);
        rv = s->near ? eng_get_near_end(get, s) : 0;
        if (rv != 0 && rv != -EAGAIN) {
                get_fail(get, rv);
                return;
        }
        for (u = s->first; u <= s->last; u++)
                if (s->state_of[u] != SHARD_GOOD) {
                        get->degrading = true;
                        get->keep_bad = s->bad;
                        get->keep_damaged = s->damaged;
                        get->keep_silent = s->silent;
                        get->keep_next = s->next;
                        eng_get_proceed(get);
                        return;
                }
        stripe_ready(get, s);
}

/* Begins to read the stripe at get->ahead. False: no slots for it now. */
static bool start_stripe(struct eng_get *get, struct get_stripe *s)
{
        unsigned room = get->reserve.count - get->used;
        int rv;

        assert(s->state == STRIPE_FREE && s->repairs == 0);
        assert(get->granted && get->used <= get->reserve.count);
        eng_get_locate(get, s, get->ahead);
        s->get = get;
        s->began = lp_clock();
        s->damaged = 0;
        s->repairs = 0;
        if (get->keep_next == s->next) {
                s->bad = get->keep_bad;
                s->damaged = get->keep_damaged;
                s->silent = get->keep_silent;
        }
        if (eng_get_plain_units(s) > room)
                return false;
        if (eng_get_read_near(get, s) || eng_get_read_plain(get, s)) {
                s->state = STRIPE_READING;
                get->ahead = s->next;
                eng_get_watch_stripe(get);
                return true;
        }
        if (get->reserve.count < eng_get_shards(s)) {
                get->degrading = true; /* needs a larger reservation first */
                return false;
        }
        if (get->used != 0)
                return false;
        s->degraded = true;
        s->state = STRIPE_READING;
        get->ahead = s->next;
        rv = eng_get_read_any(get, s);
        if (rv != 0)
                stripe_fails(get, s, rv);
        else if (s->pending == 0)
                eng_get_stripe_done(get, s);
        return true;
}

/* Reads ahead as far as slots and the two stripes go. */
static void get_fill(struct eng_get *get)
{
        while (get->granted && get->error == 0 && !get->closed && !get->degrading && get->ahead < get->end) {
                struct get_stripe *s = get->stripes[get->current];

                if (s->state == STRIPE_READING && (s->degraded || s->silent != 0))
                        break; /* it may need every slot there is; or what is known of it would be forgotten for another one's */
                if (s->state != STRIPE_FREE)
                        s = get->stripes[get->current ^ 1];
                if (s->state != STRIPE_FREE || s->repairs != 0 || !start_stripe(get, s))
                        break;
        }
        eng_get_proceed(get);
}

/*
 * Degrading: once nothing is in flight and nothing is being handed out, the reservation is changed
 * for one that holds a whole stripe and the reading goes on from where handing out stopped.
 */
static void degrade(struct eng_get *get)
{
        struct get_stripe *s = get->stripes[get->current];
        int rv;

        assert(get->in_flight == 0);
        if (s->state == STRIPE_READY || get->stripes[0]->held != 0 || get->stripes[1]->held != 0)
                return; /* handed out first, and let go */
        eng_get_drop_stripes(get);
        unreserve(get);
        get->ahead = get->pos;
        get->degrading = false;
        rv = reserve(get, get->widest);
        if (rv != 0)
                get_fail(get, rv);
        else if (get->granted)
                get_fill(get);
}

void eng_get_proceed(struct eng_get *get)
{
        if (get->in_flight > 0)
                return;
        if (get->closing) {
                eng_get_drop_stripes(get);
                unreserve(get);
                end_get(get);
        } else if (get->error != 0) {
                eng_get_wake(get);
        } else if (get->degrading) {
                degrade(get);
        }
}

/* ---- the caller's side ----------------------------------------------------------------------- */

int eng_get_start(struct eng_get *get, uint64_t offset, uint64_t len, void (*wake_cb)(void *arg), void *arg)
{
        assert(get->looked_up && !get->closed);
        if (!reads_bytes(get) || offset > get->object.size || len > get->object.size - offset)
                return -EINVAL;
        get->pos = get->ahead = offset;
        get->end = offset + len;
        get->wake = wake_cb;
        get->wake_arg = arg;
        get->crc = 0;
        get->rebuilt = false;
        if (get->part_count == 0)
                return 0;
        if (get->stripes[0] == NULL)
                get->stripes[0] = calloc(1, sizeof(*get->stripes[0]));
        if (get->stripes[1] == NULL)
                get->stripes[1] = calloc(1, sizeof(*get->stripes[1]));
        if (get->stripes[0] == NULL || get->stripes[1] == NULL)
                return -ENOMEM;
        if (len == 0)
                return 0;
        if (get->in_flight > 0)
                return ENG_GET_BUSY; /* a repair of the last range is under way */
        assert(eng_on_loop(get->el) && get->stripes[0]->held == 0 && get->stripes[1]->held == 0);
        eng_get_drop_stripes(get);
        unreserve(get);
        get->error = 0;
        get->lost = get->degrading = false;
        get->keep_next = 0;
        get->widest = eng_get_widest(get);
        if (get->widest > lp_share_slots(get->el->loop, LP_SHARE_GET))
                return -EIO; /* a record from elsewhere: recovery made sure that this store's stripes fit */
        return reserve(get, eng_get_units_wanted(get));
}

bool eng_get_lost(const struct eng_get *get, uint64_t *offset)
{
        *offset = get->lost_at;
        return get->error != 0 && get->lost;
}

int eng_get_restart(struct eng_get *get, uint64_t offset, uint64_t len, void (*wake_cb)(void *arg), void *arg)
{
        get->wake = wake_cb;
        get->wake_arg = arg;
        get->waiting = get->in_flight > 0;
        return get->waiting ? -EAGAIN : eng_get_start(get, offset, len, wake_cb, arg);
}

/* crc: theirs, from who verified them; NULL: not known. */
static int object_get_give(struct eng_get *get, const uint8_t *data, size_t n, const uint32_t *crc, const uint8_t **out,
                size_t *len)
{
        assert(n <= get->end - get->pos);
        *out = data;
        *len = n;
        get->pos += n;
        if (get->summing)
                get->crc = crc == NULL     ? era_crc32c(get->crc, data, n)
                           : get->crc == 0 ? *crc /* what is combined with 0 stays as it is */
                                           : era_crc32c_combine(get->crc, *crc, n);
        return 0;
}

static bool handed_out(const struct get_stripe *s)
{
        return s->state == STRIPE_READY && s->at == s->hi;
}

static bool get_in_use(const struct get_stripe *s)
{
        return s->repairs != 0 || s->held != 0;
}

/*
 * A stripe that was handed out to its end makes room for the next; one of which spans are held
 * stays while the other is handed out.
 */
static void get_advance(struct eng_get *get)
{
        struct get_stripe *s = get->stripes[get->current], *other = get->stripes[get->current ^ 1];
        bool moved = false;

        if (handed_out(other) && !get_in_use(other)) {
                eng_get_drop_stripe(get, other);
                moved = true;
        }
        if (handed_out(s) && s->repairs == 0 && (s->held == 0 || !handed_out(other))) {
                if (s->held == 0)
                        eng_get_drop_stripe(get, s);
                get->current ^= 1;
                moved = true;
        }
        if (moved)
                get_fill(get);
}

/* Of a small object all that is wanted is here. */
static int give_inline(struct eng_get *get, const uint8_t **data, size_t *len)
{
        struct eng_buf *bytes = get->lookup.bytes;
        size_t n = get->end - get->pos;
        uint32_t crc;

        if (n == 0)
                return -ENODATA;
        if (!get->summing || n != bytes->len)
                return object_get_give(get, bytes->data + get->pos, n, NULL, data, len);
        crc = eng_buf_crc32c(bytes);
        return object_get_give(get, bytes->data, n, &crc, data, len);
}

int eng_get_next(struct eng_get *get, const uint8_t **data, size_t *len)
{
        const uint8_t *unit;
        struct get_stripe *s;
        uint32_t offset, n;
        unsigned u;

        assert(eng_on_loop(get->el) && !get->closed);
        if (get->part_count == 0)
                return give_inline(get, data, len);
        get_advance(get);
        if (get->error == 0 && get->ahead == get->pos && get->pos < get->end)
                get_fill(get);
        if (get->error != 0)
                return get->error;
        if (get->pos == get->end)
                return -ENODATA;
        s = get->stripes[get->current];
        if (s->state != STRIPE_READY || s->at == s->hi) {
                get->waiting = true;
                return -EAGAIN;
        }
        u = (unsigned)(s->at / s->unit);
        eng_get_wanted(s, u, &offset, &n);
        unit = (const uint8_t *)s->slot[u] + LP_SLOT_HEADER;
        s->at += n;
        s->held += get->holding;
        return object_get_give(get, unit + offset, n, s->summed >> u & 1 ? &s->read[u].op.read.crc : NULL, data, len);
}

void *eng_get_keep(struct eng_get *get)
{
        return get->part_count == 0 && get->lookup.bytes != NULL ? eng_buf_ref(get->lookup.bytes) : NULL;
}

void eng_kept_release(void *kept)
{
        eng_buf_unref(kept);
}

void eng_get_hold(struct eng_get *get)
{
        get->holding = true;
}

static bool lies_in(const struct get_stripe *s, const uint8_t *data)
{
        unsigned u;

        for (u = s->first; s->held != 0 && u <= s->last; u++)
                if (s->slot[u] != NULL && (uintptr_t)data - (uintptr_t)s->slot[u] < LP_SLOT_SIZE)
                        return true;
        return false;
}

void eng_get_let_go(struct eng_get *get, const uint8_t *data)
{
        struct get_stripe *s = get->stripes[0];

        if (s == NULL)
                return; /* inline bytes stay as long as the object is open */
        if (!lies_in(s, data))
                s = get->stripes[1];
        assert(lies_in(s, data));
        get->waiting = false; /* who lets go asks again */
        if (--s->held == 0)
                eng_get_proceed(get);
}

void eng_get_sum(struct eng_get *get)
{
        get->summing = true;
}

uint32_t eng_get_crc32c(const struct eng_get *get)
{
        return get->crc;
}

static void close_now(struct lp_msg *msg)
{
        struct eng_get *get = container_of(msg, struct eng_get, close_msg);

        assert(get->closed && !get->closing);
        get->closing = true;
        lp_trace(LP_TRACE_GET_END, (uint64_t)(int64_t)get->error, 0);
        eng_get_proceed(get);
}

/*
 * By message: the caller may be inside its eng_get_wake(), and what woke it is not done with get.
 */
void eng_get_close(struct eng_get *get)
{
        assert(!get->closed);
        get->closed = true;
        get->waiting = false;
        get->close_msg.run = close_now;
        lp_post(get->el->loop, &get->close_msg);
}
