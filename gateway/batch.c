/*
 * batch.c - the entries of a GetBatch, from their lookup to the first of their bytes. op_batch.c sends them. On the request's loop.
 *
 * Each entry is a GetObject of its own: its bucket is looked up when its turn comes, its version is the one found then, and pinned (eng_get); its failure
 * is its result and nobody else's. Bytes are never copied here: what waits to be sent is the engine's, verified (I5).
 *
 * I9: at most GW_BATCH_AT_ONCE entries are under way. Those whose bytes live in their record are read at once, but no more are begun while
 * GW_BATCH_AHEAD bytes wait; for one that is being looked up the largest of late is assumed. Of larger objects, which need buffers,
 * GW_BATCH_READS are read ahead, if little of each is wanted; the others wait for their turn. A client that goes away frees all but what the engine still looks up, which comes back to a batch without request.
 */
#include "batch.h"

#include "ops.h"

#include <errno.h>
#include <stdlib.h>

struct gw_batch *gw_batch_new(struct gw_request *req, char *bytes, size_t len, unsigned count, bool ordered)
{
        struct gw_batch *batch = calloc(1, sizeof(*batch));

        if (batch == NULL)
                return NULL;
        batch->req = req;
        batch->store = req->loop->gw->store;
        batch->bytes = bytes;
        batch->body.data = (const uint8_t *)bytes;
        batch->body.len = len;
        batch->count = count;
        batch->ordered = ordered;
        batch->estimate = ENG_INLINE_MAX;
        for (unsigned i = 0; i < GW_BATCH_AT_ONCE; i++)
                batch->slot[i].batch = batch;
        return batch;
}

/* ---- results ------------------------------------------------------------------------------------- */

static void set_code(struct gw_batch_slot *slot, enum rdx_code code)
{
        slot->result.code = (uint16_t)code;
        slot->result.status = (uint16_t)rdx_code_status(code);
        slot->result.bytes = 0;
}

/* An entry's form of an S3 error; those that are not of the data are InternalError. */
static enum rdx_code code_of(enum s3_error error)
{
        switch (error) {
        case S3_ERR_NO_SUCH_KEY:
                return RDX_CODE_NO_SUCH_KEY;
        case S3_ERR_NO_SUCH_BUCKET:
                return RDX_CODE_NO_SUCH_BUCKET;
        case S3_ERR_SLOW_DOWN:
                return RDX_CODE_SLOW_DOWN;
        case S3_ERR_SERVICE_UNAVAILABLE:
                return RDX_CODE_SERVICE_UNAVAILABLE;
        default:
                return RDX_CODE_INTERNAL_ERROR;
        }
}

/* Gives back what is read, too. */
static void close_get(struct gw_batch_slot *slot)
{
        struct gw_batch *batch = slot->batch;

        if (slot->get == NULL)
                return;
        eng_get_close(slot->get);
        slot->get = NULL;
        slot->span_left = 0;
        if (slot->started && slot->large)
                batch->reads--;
        else if (slot->started)
                batch->ahead -= slot->result.bytes;
        slot->started = false;
        if (batch->req != NULL)
                batch->req->buffers = batch->reads > 0;
}

/* Its result is known. */
static void ready(struct gw_batch_slot *slot)
{
        struct gw_batch *batch = slot->batch;

        slot->state = GW_BATCH_READY;
        if (!batch->ordered || slot == &batch->slot[batch->sent % GW_BATCH_AT_ONCE])
                gw_request_wake(batch->req);
}

static void fail(struct gw_batch_slot *slot, int rv)
{
        close_get(slot);
        set_code(slot, code_of(gw_error_of(rv, GW_ABOUT_KEY)));
}

/* ---- what of an object --------------------------------------------------------------------------- */

static bool is_wanted_version(const struct gw_batch_slot *slot, const struct eng_object *object)
{
        uint8_t md5[16];
        unsigned parts;

        if (slot->if_match.len == 0)
                return true;
        return s3_etag_parse((struct s3_str){slot->if_match.data, slot->if_match.len}, md5, &parts) == 0 &&
               parts == object->etag_parts && memcmp(md5, object->etag, sizeof(md5)) == 0;
}

/* The same bytes as the HTTP range of that meaning; false: there are none. */
static bool place(struct gw_batch_slot *slot, uint64_t size)
{
        struct rdx_result *result = &slot->result;
        bool whole = !slot->suffix && slot->range_first == 0 && slot->range_length == 0;

        if (slot->suffix) {
                result->bytes = slot->range_length < size ? slot->range_length : size;
                slot->offset = size - result->bytes;
        } else {
                if (slot->range_first >= size && !whole)
                        return false;
                slot->offset = slot->range_first;
                result->bytes = size - slot->offset;
                if (slot->range_length != 0 && slot->range_length < result->bytes)
                        result->bytes = slot->range_length;
        }
        result->status = whole || size == 0 ? 200 : 206;
        return true;
}

static void describe(struct gw_batch_slot *slot, const struct eng_object *object)
{
        size_t len = s3_etag_format(object->etag, object->etag_parts, slot->etag);

        slot->result.etag = (struct rdx_bytes){slot->etag + 1, len - 2}; /* without its quotes */
        slot->result.size = object->size;
        slot->large = object->size > ENG_INLINE_MAX;
}

/* True: it has bytes to be read. */
static bool look_at(struct gw_batch_slot *slot)
{
        const struct eng_object *object = eng_get_object(slot->get);

        describe(slot, object);
        if (!is_wanted_version(slot, object))
                set_code(slot, RDX_CODE_PRECONDITION_FAILED);
        else if (!place(slot, object->size))
                set_code(slot, RDX_CODE_INVALID_RANGE);
        else if (slot->result.bytes > slot->room)
                set_code(slot, RDX_CODE_PLACE_TOO_SMALL);
        return slot->result.bytes > 0;
}

/* ---- reading ------------------------------------------------------------------------------------- */

/* 0: the first bytes are here, or a failure is the result; -EAGAIN. */
static int first_bytes(struct gw_batch_slot *slot)
{
        int rv = eng_get_next(slot->get, &slot->span, &slot->span_left);

        if (rv != 0 && rv != -EAGAIN) {
                fail(slot, rv);
                rv = 0;
        }
        return rv;
}

/* The engine has more. */
static void woken(void *arg)
{
        struct gw_batch_slot *slot = arg;

        if (slot->state != GW_BATCH_READING) /* being sent */
                gw_request_wake(slot->batch->req);
        else if (first_bytes(slot) == 0)
                ready(slot);
}

static int start(struct gw_batch_slot *slot)
{
        struct gw_batch *batch = slot->batch;
        int rv;

        slot->started = true;
        if (slot->large)
                batch->reads++;
        else
                batch->ahead += slot->result.bytes;
        batch->req->buffers = batch->reads > 0;
        eng_get_sum(slot->get);
        rv = eng_get_start(slot->get, slot->offset, slot->result.bytes, woken, slot);
        if (rv == 0)
                return first_bytes(slot);
        fail(slot, rv);
        return 0;
}

static void read_now(struct gw_batch_slot *slot)
{
        slot->state = GW_BATCH_READING;
        if (start(slot) == 0)
                ready(slot);
}

/*
 * Reads some of the large ones before their turn. Not where there is an order: buffers would be held by entries that wait for one that waits for buffers.
 */
static void read_ahead(struct gw_batch *batch)
{
        for (unsigned i = 0; i < GW_BATCH_AT_ONCE && !batch->ordered && batch->reads < GW_BATCH_READS; i++) {
                struct gw_batch_slot *slot = &batch->slot[i];

                if (slot->state == GW_BATCH_READY && slot->get != NULL && slot != batch->current && !slot->started &&
                    slot->result.bytes <= GW_BATCH_READ_MOST)
                        read_now(slot);
        }
}

int gw_batch_first_bytes(struct gw_batch_slot *slot)
{
        if (slot->get == NULL || slot->span_left > 0)
                return 0;
        return slot->started ? first_bytes(slot) : start(slot);
}

/* ---- looking up ---------------------------------------------------------------------------------- */

static void batch_free(struct gw_batch *batch)
{
        free(batch->bytes);
        free(batch);
}

static void opened(void *arg, int rv, struct eng_get *get)
{
        struct gw_batch_slot *slot = arg;
        struct gw_batch *batch = slot->batch;

        batch->opening--;
        if (batch->req == NULL) {
                if (rv == 0)
                        eng_get_close(get);
                if (batch->opening == 0)
                        batch_free(batch);
                return;
        }
        if (rv != 0) {
                set_code(slot, code_of(gw_error_of(rv, GW_ABOUT_KEY)));
                ready(slot);
                return;
        }
        slot->get = get;
        if (!look_at(slot)) {
                close_get(slot);
                ready(slot);
        } else if (slot->large) {
                ready(slot);
                read_ahead(batch);
        } else {
                batch->estimate -= batch->estimate / 4;
                if (batch->estimate < slot->result.bytes)
                        batch->estimate = slot->result.bytes;
                read_now(slot);
        }
}

static bool names_are_valid(const struct rdx_entry *entry)
{
        return s3_bucket_name_valid((struct s3_str){entry->bucket.data, entry->bucket.len}) &&
               memchr(entry->key.data, '\0', entry->key.len) == NULL &&
               (entry->version_id.len == 0 ||
                (entry->version_id.len == 4 && memcmp(entry->version_id.data, "null", 4) == 0));
}

static void begin(struct gw_batch_slot *slot, const struct rdx_entry *entry, unsigned index)
{
        struct gw_batch *batch = slot->batch;
        const struct eng_bucket *bucket;
        int rv;

        *slot = (struct gw_batch_slot){.batch = batch,
                                       .state = GW_BATCH_READY,
                                       .if_match = entry->if_match,
                                       .range_first = entry->range_first,
                                       .range_length = entry->range_length,
                                       .suffix = entry->suffix,
                                       .room = entry->length};
        slot->result.index = (uint16_t)index;
        if (!names_are_valid(entry)) {
                set_code(slot, RDX_CODE_INVALID_ARGUMENT);
                return;
        }
        rv = eng_bucket_get(batch->store, (struct eng_str){entry->bucket.data, entry->bucket.len}, &bucket);
        if (rv != 0) {
                set_code(slot, code_of(gw_error_of(rv, GW_ABOUT_BUCKET)));
                return;
        }
        slot->state = GW_BATCH_OPENING;
        batch->opening++;
        eng_get_open(batch->store, bucket->id, (struct eng_str){entry->key.data, entry->key.len}, opened, slot);
}

static struct gw_batch_slot *free_slot(struct gw_batch *batch)
{
        struct gw_batch_slot *slot = &batch->slot[batch->begun % GW_BATCH_AT_ONCE];

        if (batch->ordered || slot->state == GW_BATCH_FREE) /* in order: there is none behind one that is not free */
                return slot->state == GW_BATCH_FREE ? slot : NULL;
        for (unsigned i = 0; i < GW_BATCH_AT_ONCE; i++)
                if (batch->slot[i].state == GW_BATCH_FREE)
                        return &batch->slot[i];
        return NULL;
}

void gw_batch_begin(struct gw_batch *batch)
{
        struct gw_batch_slot *slot;
        struct rdx_entry entry;
        unsigned index;

        read_ahead(batch);
        while (batch->begun < batch->count && batch->ahead + batch->opening * batch->estimate < GW_BATCH_AHEAD &&
               (slot = free_slot(batch)) != NULL && rdx_body_next(&batch->body, &entry, &index) == 1) {
                batch->begun++;
                begin(slot, &entry, index);
        }
}

/* ---- handing out --------------------------------------------------------------------------------- */

/* Whether a is to be sent before b: what needs no waiting first, then by order. */
static bool is_before(const struct gw_batch_slot *a, const struct gw_batch_slot *b)
{
        bool a_waits = a->get != NULL && !a->started, b_waits = b->get != NULL && !b->started;

        return a_waits != b_waits ? b_waits : a->result.index < b->result.index;
}

struct gw_batch_slot *gw_batch_pick(struct gw_batch *batch)
{
        struct gw_batch_slot *slot = &batch->slot[batch->sent % GW_BATCH_AT_ONCE], *found = NULL;

        if (batch->ordered)
                return slot->state == GW_BATCH_READY ? slot : NULL;
        for (unsigned i = 0; i < GW_BATCH_AT_ONCE; i++) {
                slot = &batch->slot[i];
                if (slot->state == GW_BATCH_READY && (found == NULL || is_before(slot, found)))
                        found = slot;
        }
        return found;
}

void gw_batch_sent(struct gw_batch_slot *slot)
{
        close_get(slot);
        slot->state = GW_BATCH_FREE;
        slot->batch->sent++;
}

void gw_batch_end(struct gw_batch *batch)
{
        batch->req = NULL;
        for (unsigned i = 0; i < GW_BATCH_AT_ONCE; i++)
                close_get(&batch->slot[i]);
        if (batch->opening == 0)
                batch_free(batch);
}
