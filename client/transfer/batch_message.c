/*
 * batch_message.c - gets many small objects by one BATCH message: a grant of the memory that its
 * places lie in, the message, and RESULT messages behind the bytes that the server has written
 * (docs/rdma-protocol.md, "Batched GET on the control queue pair").
 *
 *   start ─> grant ─> message ─> results ─> grant ended ─> each entry's bytes compared with their CRC32C ─> settled()
 *              ^                                                                                            │
 *              └──────── the entries that are worth it, after a pause, in a message of their own ───────────┘
 *
 * Nothing is said of an entry before the grant has ended: until then the server may write to its
 * memory. No byte counts that was not compared with the CRC32C that came with it (I5). An entry is
 * always asked for as a whole, so its bytes are of one version. Steps follow one another, on the
 * connection's thread and on workers; no two at a time. Bounds (I9): attempts, pauses, the
 * session's limits.
 */
#include "client/transfer/batch_message.h"

#include "client/http/client_request.h"
#include "client/http/retry.h"
#include "client/rdma/memory.h"
#include "client/transfer/batch_request.h"
#include "ec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define AUTO_ATTEMPTS 2u          /* then TCP, with all of its own */
#define VERIFY_HERE   (64u << 10) /* bytes that the connection's thread sums by the way */
#define HEAD_LEN      56u         /* of a BATCH message, before its entries */
#define ENTRY_LEN     40u         /* of an entry, before its strings */

/* What S3 calls them: words, and what is worth another attempt, go by that. */
static const struct {
        enum rdx_code code;
        const char *name;
} names[] = {
        {RDX_CODE_NO_SUCH_KEY, "NoSuchKey"},
        {RDX_CODE_NO_SUCH_BUCKET, "NoSuchBucket"},
        {RDX_CODE_NO_SUCH_VERSION, "NoSuchVersion"},
        {RDX_CODE_ACCESS_DENIED, "AccessDenied"},
        {RDX_CODE_PRECONDITION_FAILED, "PreconditionFailed"},
        {RDX_CODE_INVALID_RANGE, "InvalidRange"},
        {RDX_CODE_PLACE_TOO_SMALL, "RDMAWindowTooSmall"},
        {RDX_CODE_INVALID_ARGUMENT, "InvalidArgument"},
        {RDX_CODE_SLOW_DOWN, "SlowDown"},
        {RDX_CODE_INTERNAL_ERROR, "InternalError"},
        {RDX_CODE_SERVICE_UNAVAILABLE, "ServiceUnavailable"},
        {RDX_CODE_REQUEST_TIMEOUT, "RequestTimeout"},
        {RDX_CODE_METHOD_NOT_ALLOWED, "MethodNotAllowed"},
};

static const char *name_of(unsigned code)
{
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (names[i].code == code)
                        return names[i].name;
        return "";
}

/* ---- what is asked for ----------------------------------------------------------------------- */

static bool message_bytes_equal(struct rdx_bytes a, struct rdx_bytes b)
{
        return a.len == b.len && (a.data == b.data || memcmp(a.data, b.data, a.len) == 0);
}

static bool encodable(const struct rdx_entry *wire)
{
        return wire->key.len >= 1 && wire->key.len <= RDX_KEY_MOST && wire->bucket.len >= 1 &&
               wire->bucket.len <= RDX_BUCKET_MOST && wire->if_match.len <= RDX_ETAG_MOST &&
               wire->version_id.len <= RDX_VERSION_ID_MOST;
}

/* Of the newest entry; the writer leaves out a bucket that is the one before's. */
static size_t encoded(const struct mr_message *message)
{
        const struct rdx_entry *wire = &message->wire[message->count];
        size_t size = ENTRY_LEN + wire->key.len + wire->if_match.len + wire->version_id.len;

        if (message->count == 0)
                return HEAD_LEN + size + wire->bucket.len;
        return message_bytes_equal(wire->bucket, wire[-1].bucket) ? size : size + wire->bucket.len;
}

int mr_message_add(struct mr_message *message, const struct mr_get *get, size_t index)
{
        uint64_t len = mr_batch_most(get), from = get->place.offset, to = from + len, at = from;
        struct rdx_entry *wire = &message->wire[message->count];

        if (message->count == RDX_MESSAGE_ENTRIES)
                return -ENOSPC;
        mr_batch_wire(get, wire);
        wire->length = len;
        if (!encodable(wire) || len == 0 || len > MR_MESSAGE_OBJECT)
                return -EINVAL;
        if (message->count > 0 && message->from < from)
                from = message->from;
        if (message->count > 0 && message->to > to)
                to = message->to;
        if (to - from > MR_MESSAGE_WINDOW || message->size + encoded(message) > RDX_MESSAGE_MAX)
                return -ENOSPC;
        message->from = from;
        message->to = to;
        message->size += encoded(message);
        message->entry[message->count++] = (struct mr_message_entry){.index = index, .get = get, .at = at};
        return 0;
}

/* ---- what came of an entry ------------------------------------------------------------------- */

/* How many bytes there should be, where the whole object's size is known. */
static bool plausible(const struct mr_message_entry *entry, uint64_t room)
{
        const struct mr_get *get = entry->get;
        uint64_t first = get->offset, len = get->len != 0 ? get->len : UINT64_MAX;

        if (entry->bytes > room)
                return false;
        if (entry->size == 0)
                return true;
        if (get->last != 0) {
                first = get->last < entry->size ? entry->size - get->last : 0;
                len = get->last;
        }
        return first <= entry->size && entry->bytes == (len < entry->size - first ? len : entry->size - first);
}

static bool is_right(const struct mr_message *message, const struct mr_message_entry *entry)
{
        const char *memory = message->buffer->memory + entry->at;

        return plausible(entry, message->wire[entry - message->entry].length) &&
               era_crc32c(0, memory, (size_t)entry->bytes) == entry->crc;
}

static void message_judge(struct mr_message *message, struct mr_message_entry *entry)
{
        enum mr_retry class;

        if (entry->code == RDX_CODE_OK && entry->status / 100 == 2) {
                if (is_right(message, entry))
                        entry->state = MR_MESSAGE_GOT;
                return; /* else once more */
        }
        if (entry->code == RDX_CODE_DECLINED) {
                entry->state = MR_MESSAGE_DECLINED;
                return;
        }
        class = mr_retry_class(0, entry->status, name_of(entry->code));
        if (class == MR_RETRY_NO)
                entry->state = MR_MESSAGE_FAILED;
        message->slower = message->slower || class == MR_RETRY_SLOWER;
}

int mr_message_error(const struct mr_message *message, const struct mr_message_entry *entry, struct mr_error *err)
{
        bool pinned = entry->get->if_match != NULL;

        if (!entry->answered) {
                *err = message->error;
                return err->code;
        }
        mr_failure_of_code(entry->status, name_of(entry->code), err);
        if (entry->status == 412 || (entry->status == 416 && pinned))
                return mr_failure(err, -ESTALE, "the object changed while it was read");
        if (entry->status == 416)
                return mr_failure(err, -ERANGE, "the range begins behind the object's end");
        if (entry->code == RDX_CODE_PLACE_TOO_SMALL)
                return mr_failure(err, -EMSGSIZE, "the object's %llu bytes do not fit their place",
                                  (unsigned long long)entry->size);
        return err->code;
}

/* ---- when a message is over ------------------------------------------------------------------ */

static int message_send(struct mr_message *message);

/* Nothing that came of those counts: what was said of the grant, or the session, does. */
static void fail_open(struct mr_message *message)
{
        for (unsigned i = 0; i < message->count; i++) {
                struct mr_message_entry *entry = &message->entry[i];

                if (entry->state != MR_MESSAGE_OPEN)
                        continue;
                entry->state = MR_MESSAGE_FAILED;
                entry->answered = false;
        }
}

static bool any_open(const struct mr_message *message)
{
        for (unsigned i = 0; i < message->count; i++)
                if (message->entry[i].state == MR_MESSAGE_OPEN)
                        return true;
        return false;
}

static void keep_open(struct mr_message *message)
{
        unsigned kept = 0;

        message->from = UINT64_MAX;
        message->to = 0;
        for (unsigned i = 0; i < message->count; i++) {
                struct mr_message_entry *entry = &message->entry[kept];
                uint64_t to;

                if (message->entry[i].state != MR_MESSAGE_OPEN)
                        continue;
                *entry = message->entry[i];
                entry->answered = false;
                message->wire[kept] = message->wire[i];
                to = entry->at + message->wire[kept++].length;
                message->from = entry->at < message->from ? entry->at : message->from;
                message->to = to > message->to ? to : message->to;
        }
        message->count = kept;
}

/* Another message has a chance. */
static bool may_pass(const struct mr_message *message)
{
        unsigned most = message->insist ? message->client->settings.attempts : AUTO_ATTEMPTS;
        int rv = message->rv;

        return message->attempts < most && rv != -EINVAL && mr_grant_may_pass(message->client, &message->grant, rv);
}

/* The memory is ours, and what came is judged. */
static void message_retry_or_report(struct mr_message *message)
{
        bool again;

        if (message->rv == -ECANCELED)
                fail_open(message);
        again = any_open(message) && may_pass(message);
        if (!again && message->insist && message->rv != 0)
                fail_open(message);
        message->settled(message->arg, message, !again);
        if (!again)
                return;
        keep_open(message);
        message->grant.delay_ms = mr_retry_delay_ms(message->slower ? MR_RETRY_SLOWER : MR_RETRY_SOON,
                                                    message->attempts + 1, mr_core_random(), 0);
        if (message_send(message) != 0)
                message->settled(message->arg, message, true);
}

static void message_verify(void *arg)
{
        struct mr_message *message = MR_CAST(mr_message, arg);

        for (unsigned i = 0; i < message->count; i++)
                if (message->entry[i].answered)
                        message_judge(message, &message->entry[i]);
        message_retry_or_report(message);
}

static void message_grant_ended(void *arg, struct mr_grant *grant, int rv)
{
        struct mr_message *message = MR_CAST(mr_message, arg);

        if (message->rv == 0 && rv != 0) {
                message->rv = rv;
                mr_failure(&message->error, rv == -ENOTCONN ? -EIO : rv,
                           rv == -ECANCELED ? "canceled" : "the RDMA session ended before all bytes were here");
        }
        if (message->rv != 0) {
                message_retry_or_report(message);
        } else if (message->written <= VERIFY_HERE) {
                message_verify(message);
        } else {
                message->job = (struct mr_job){.run = message_verify, .arg = message};
                mr_work(message->client, &message->job);
        }
}

/* ---- the connection's thread ----------------------------------------------------------------- */

static void result_came(void *arg, struct mr_grant *grant, const struct rdx_client_result *came)
{
        struct mr_message *message = MR_CAST(mr_message, arg);
        struct rdx_reader reader = came->reader;
        struct rdx_result result;

        if (came->notices != 0)
                return; /* of queue pairs that no session of ours has */
        while (rdx_reader_result(&reader, &result) == 1) {
                struct mr_message_entry *entry;

                if (result.index >= message->count || message->entry[result.index].answered)
                        continue;
                entry = &message->entry[result.index];
                entry->answered = true;
                entry->status = result.status;
                entry->code = result.code;
                entry->crc = result.crc32c;
                entry->bytes = result.bytes;
                entry->size = result.size;
                memcpy(entry->etag, result.etag.data, result.etag.len);
                entry->etag[result.etag.len] = '\0';
                message->written += result.bytes;
        }
}

static void message_granted(void *arg, struct mr_grant *grant, int rv)
{
        struct mr_message *message = MR_CAST(mr_message, arg);
        struct rdx_client_batch batch = {.batch = (uint32_t)grant->number, .replies = (uint16_t)grant->replies};
        unsigned sent;

        message->rv = rv;
        if (rv != 0) {
                message->error = grant->error;
                message_retry_or_report(message);
                return;
        }
        rv = mr_grant_batch(grant, &batch, message->wire, message->count, &sent);
        if (rv == 0)
                return;
        message->rv = rv;
        mr_failure(&message->error, rv, "a batch could not be sent: %s", strerror(-rv));
        mr_grant_over(grant, MR_LEASE_QUIET);
}

static int message_send(struct mr_message *message)
{
        struct mr_grant *grant = &message->grant;

        message->attempts++;
        message->written = 0;
        message->slower = false;
        for (unsigned i = 0; i < message->count; i++)
                message->wire[i].offset = message->entry[i].at - message->from;
        grant->offset = message->from;
        grant->len = message->to - message->from;
        grant->replies = (message->count + RDX_RESULT_SHARE - 1) / RDX_RESULT_SHARE;
        return mr_grant_ask(message->client, grant);
}

int mr_message_start(struct mr_message *message)
{
        message->magic = mr_message_magic;
        message->grant = (struct mr_grant){.buffer = message->buffer,
                                           .insist = message->insist,
                                           .canceled = message->canceled,
                                           .granted = message_granted,
                                           .result = result_came,
                                           .ended = message_grant_ended,
                                           .arg = message};
        return message_send(message);
}
