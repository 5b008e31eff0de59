/*
 * get_batch.c - the entries of a GetBatch, from their lookup to the first of their bytes.
 * op_get_batch.c sends them. On the request's loop.
 *
 * What each entry is, entry.c finds out. Bytes are never copied here: what waits to be sent is the
 * engine's, verified (I5).
 *
 * I9: at most GW_BATCH_AT_ONCE entries are under way. Those whose bytes live in their record are
 * read at once, but no more are begun while GW_BATCH_AHEAD bytes wait; for one that is being looked
 * up the largest of late is assumed. Of larger objects, which need buffers, GW_BATCH_READS are read
 * ahead, if little of each is wanted; the others wait for their turn. A client that goes away frees
 * all but what the engine still looks up, which comes back to a batch without request.
 */
#include "gateway/rdma/get_batch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct gw_batch *gw_batch_new(struct gw_request *req, char *bytes, size_t len, unsigned count, bool ordered)
{
        struct gw_batch *batch = calloc(1, sizeof(*batch));

        if (batch == NULL)
                return NULL;
        batch->magic = gw_batch_magic;
        batch->req = req;
        batch->bytes = bytes;
        batch->body.data = (const uint8_t *)bytes;
        batch->body.len = len;
        batch->count = count;
        batch->ordered = ordered;
        batch->estimate = ENG_INLINE_MAX; /* of those in records none is larger, whatever the store's limit is */
        TAILQ_INIT(&batch->free);
        TAILQ_INIT(&batch->whole);
        TAILQ_INIT(&batch->unread);
        for (unsigned i = 0; i < GW_BATCH_AT_ONCE; i++) {
                batch->slot[i].magic = gw_batch_slot_magic;
                batch->slot[i].batch = batch;
                TAILQ_INSERT_TAIL(&batch->free, &batch->slot[i], link);
        }
        return batch;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* Gives back what is read, too. */
static void slot_close_get(struct gw_batch_slot *slot)
{
        struct gw_batch *batch = slot->batch;

        if (slot->entry.get == NULL)
                return;
        GW_CHECK(gw_batch, batch);
        assert(!slot->started || (slot->entry.large ? batch->reads > 0 : batch->ahead >= slot->counted));
        gw_entry_close(&slot->entry);
        slot->span_left = 0;
        if (slot->started && slot->entry.large)
                batch->reads--;
        else if (slot->started)
                batch->ahead -= slot->counted;
        slot->started = false;
        if (batch->req != NULL)
                batch->req->buffers = batch->reads > 0;
}

/* What needs no waiting is sent first. */
static struct gw_batch_slots *slot_queue(struct gw_batch_slot *slot)
{
        return slot->entry.get != NULL && !slot->started ? &slot->batch->unread : &slot->batch->whole;
}

/* Its result is known. */
static void slot_ready(struct gw_batch_slot *slot)
{
        struct gw_batch *batch = slot->batch;

        assert(batch->req != NULL);
        assert(slot->state == GW_BATCH_OPENING || slot->state == GW_BATCH_READING);
        slot->state = GW_BATCH_READY;
        if (!batch->ordered)
                TAILQ_INSERT_TAIL(slot_queue(slot), slot, link);
        if (!batch->ordered || slot == &batch->slot[batch->sent % GW_BATCH_AT_ONCE])
                gw_request_wake(batch->req);
}

static void slot_fail(struct gw_batch_slot *slot, int rv)
{
        slot_close_get(slot);
        gw_entry_fail(&slot->entry, rv);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* 0: the first bytes are here, or a failure is the result; -EAGAIN. */
static int first_bytes(struct gw_batch_slot *slot)
{
        int rv = eng_get_next(slot->entry.get, &slot->span, &slot->span_left);

        if (rv != 0 && rv != -EAGAIN) {
                slot_fail(slot, rv);
                rv = 0;
        }
        return rv;
}

/* The engine has more. */
static void slot_woken(void *arg)
{
        struct gw_batch_slot *slot = GW_CAST(gw_batch_slot, arg);

        GW_CHECK(gw_batch, slot->batch);
        assert(slot->batch->req != NULL && slot->started);
        if (slot->state != GW_BATCH_READING) /* being sent */
                gw_request_wake(slot->batch->req);
        else if (first_bytes(slot) == 0)
                slot_ready(slot);
}

static int slot_start(struct gw_batch_slot *slot)
{
        struct gw_batch *batch = slot->batch;
        int rv;

        assert(!slot->started && slot->entry.get != NULL);
        slot->started = true;
        slot->counted = slot->entry.result.bytes;
        if (slot->entry.large)
                batch->reads++;
        else
                batch->ahead += slot->counted;
        batch->req->buffers = batch->reads > 0;
        rv = gw_entry_start(&slot->entry, false, slot_woken, slot);
        if (rv == 0)
                return first_bytes(slot);
        slot_fail(slot, rv);
        return 0;
}

static void slot_read_now(struct gw_batch_slot *slot)
{
        slot->state = GW_BATCH_READING;
        if (slot_start(slot) == 0)
                slot_ready(slot);
}

/*
 * Reads some of the large ones before their turn. Not where there is an order: buffers would be
 * held by entries that wait for one that waits for buffers.
 */
static void read_ahead(struct gw_batch *batch)
{
        struct gw_batch_slot *slot, *next;

        for (slot = TAILQ_FIRST(&batch->unread); slot != NULL && batch->reads < GW_BATCH_READS; slot = next) {
                next = TAILQ_NEXT(slot, link);
                if (slot->entry.result.bytes > GW_BATCH_READ_MOST)
                        continue;
                TAILQ_REMOVE(&batch->unread, slot, link);
                slot_read_now(slot);
        }
}

int gw_batch_first_bytes(struct gw_batch_slot *slot)
{
        assert(slot->state == GW_BATCH_READY);
        if (slot->entry.get == NULL || slot->span_left > 0)
                return 0;
        return slot->started ? first_bytes(slot) : slot_start(slot);
}

/* ---- looking up ------------------------------------------------------------------------------ */

static void batch_free(struct gw_batch *batch)
{
        GW_CHECK(gw_batch, batch);
        assert(batch->req == NULL && batch->opening == 0);
        batch->magic = 0;
        free(batch->bytes);
        free(batch);
}

static void slot_known(struct gw_entry *entry)
{
        struct gw_batch_slot *slot = container_of(entry, struct gw_batch_slot, entry);
        struct gw_batch *batch = slot->batch;

        GW_CHECK(gw_batch_slot, slot);
        GW_CHECK(gw_batch, batch);
        assert(batch->opening > 0 && slot->state == GW_BATCH_OPENING);
        batch->opening--;
        if (batch->req == NULL) {
                if (batch->opening == 0)
                        batch_free(batch);
                return;
        }
        if (entry->get == NULL) {
                slot_ready(slot);
        } else if (entry->large) {
                slot_ready(slot);
                read_ahead(batch);
        } else {
                batch->estimate -= batch->estimate / 4;
                if (batch->estimate < entry->result.bytes)
                        batch->estimate = entry->result.bytes;
                slot_read_now(slot);
        }
}

static void slot_begin(struct gw_batch_slot *slot, const struct rdx_entry *asked, unsigned index)
{
        struct gw_batch *batch = slot->batch;

        assert(slot->state == GW_BATCH_FREE);
        if (!batch->ordered)
                TAILQ_REMOVE(&batch->free, slot, link);
        *slot = (struct gw_batch_slot){.magic = gw_batch_slot_magic, .batch = batch, .state = GW_BATCH_READY};
        slot->entry.loop = batch->req->loop;
        slot->entry.req = batch->req;
        slot->entry.known = slot_known;
        slot->entry.result.index = (uint16_t)index;
        if (gw_entry_begin(&slot->entry, batch->req->access_key, asked)) {
                slot->state = GW_BATCH_OPENING;
                batch->opening++;
        } else if (!batch->ordered) {
                TAILQ_INSERT_TAIL(&batch->whole, slot, link);
        }
}

static struct gw_batch_slot *next_free_slot(struct gw_batch *batch)
{
        struct gw_batch_slot *slot = &batch->slot[batch->begun % GW_BATCH_AT_ONCE];

        if (!batch->ordered)
                return TAILQ_FIRST(&batch->free);
        return slot->state == GW_BATCH_FREE ? slot : NULL; /* there is none behind one that is not free */
}

void gw_batch_begin(struct gw_batch *batch)
{
        struct gw_batch_slot *slot;
        struct rdx_entry entry;
        unsigned index;

        GW_CHECK(gw_batch, batch);
        assert(batch->sent <= batch->begun && batch->begun <= batch->count);
        read_ahead(batch);
        if (batch->begun - batch->sent > GW_BATCH_FEW)
                return; /* many at once later: to wake the loops that own the names costs as much as a lookup */
        while (batch->begun < batch->count && batch->ahead + batch->opening * batch->estimate < GW_BATCH_AHEAD &&
               (slot = next_free_slot(batch)) != NULL && rdx_body_next(&batch->body, &entry, &index) == 1) {
                batch->begun++;
                slot_begin(slot, &entry, index);
        }
}

/* ---- handing out ----------------------------------------------------------------------------- */

/* Its turn has come. */
struct gw_batch_slot *gw_batch_pick(struct gw_batch *batch)
{
        struct gw_batch_slot *slot = &batch->slot[batch->sent % GW_BATCH_AT_ONCE];

        if (batch->ordered)
                return slot->state == GW_BATCH_READY ? slot : NULL;
        slot = TAILQ_FIRST(&batch->whole);
        if (slot == NULL)
                slot = TAILQ_FIRST(&batch->unread);
        if (slot != NULL)
                TAILQ_REMOVE(slot_queue(slot), slot, link);
        return slot;
}

void gw_batch_sent(struct gw_batch_slot *slot)
{
        GW_CHECK(gw_batch_slot, slot);
        assert(slot->state == GW_BATCH_READY && slot->batch->sent < slot->batch->begun);
        gw_entry_count(&slot->entry, GW_ENTRY_HTTP);
        slot_close_get(slot);
        slot->state = GW_BATCH_FREE;
        if (!slot->batch->ordered)
                TAILQ_INSERT_TAIL(&slot->batch->free, slot, link);
        slot->batch->sent++;
}

void gw_batch_end(struct gw_batch *batch)
{
        GW_CHECK(gw_batch, batch);
        assert(batch->req != NULL);
        batch->req = NULL;
        for (unsigned i = 0; i < GW_BATCH_AT_ONCE; i++) {
                slot_close_get(&batch->slot[i]);
                gw_entry_give_up(&batch->slot[i].entry);
        }
        if (batch->opening == 0)
                batch_free(batch);
}
