/*
 * home_changes.c - see home_changes.h.
 */
#include "engine/bucket/home_changes.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/call/call_send.h"
#include "engine/txn/txn_util.h"

/* Whom it is answered to. */
struct home_config {
        eng_done done;
        void *arg;
};

static void home_configured(void *arg, const struct eng_call_answer *answer)
{
        struct home_config *change = arg;

        change->done(change->arg, answer->rv);
        free(change);
}

static void send_change(struct eng_store *store, const struct eng_call *call, bool fit, eng_done done, void *arg)
{
        struct home_config *change = fit ? malloc(sizeof(*change)) : NULL;
        int rv = !fit ? -EINVAL : change == NULL ? -ENOMEM : !eng_here(store)->view.ready ? -EHOSTDOWN : 0;

        if (rv == 0) {
                *change = (struct home_config){.done = done, .arg = arg};
                rv = eng_call_send(store, call, 0, home_configured, change);
        }
        if (rv == 0)
                return;
        free(change);
        eng_early(store, (struct eng_early){.plain = done, .arg = arg, .rv = rv});
}

void eng_home_bucket_create(struct eng_store *store, struct eng_str name, const struct eng_bucket_rules *rules, const void *attrs,
                            size_t attrs_len, eng_done done, void *arg)
{
        struct eng_call call = {.kind = ENG_CALL_BUCKET_CREATE, .key = name, .rules = {.has_rules = rules != NULL, .attrs = {attrs, attrs_len}}};
        bool fit = name.len >= 1 && name.len <= ENG_BUCKET_NAME_MAX && attrs_len <= sizeof(((struct eng_bucket *)NULL)->attrs);

        if (rules != NULL)
                call.rules.rules = *rules;
        send_change(store, &call, fit, done, arg);
}

void eng_home_rules_set(struct eng_store *store, uint64_t bucket, const struct eng_bucket_rules *rules, eng_done done, void *arg)
{
        struct eng_call call = {.kind = ENG_CALL_RULES_SET, .bucket = bucket, .rules = {.has_rules = true, .rules = *rules}};

        send_change(store, &call, true, done, arg);
}

void eng_home_bucket_delete(struct eng_store *store, struct eng_str name, uint64_t id, eng_done done, void *arg)
{
        struct eng_call call = {.kind = ENG_CALL_BUCKET_DELETE, .key = name, .bucket = id};

        send_change(store, &call, name.len >= 1 && name.len <= ENG_BUCKET_NAME_MAX, done, arg);
}

void eng_home_text_set(struct eng_store *store, uint64_t bucket, unsigned kind, uint64_t expected, const struct eng_rows_digest *seen,
                       struct eng_str bytes, eng_done done, void *arg)
{
        struct eng_call call = {.kind = bytes.data == NULL ? ENG_CALL_TEXT_DELETE : ENG_CALL_TEXT_SET, .bucket = bucket,
                                .text = {.kind = (uint8_t)kind, .expected = expected, .decided = seen != NULL, .bytes = bytes}};

        if (seen != NULL)
                call.text.seen = *seen;

        send_change(store, &call, kind < ENG_TEXTS_KINDS && (bytes.data == NULL || (bytes.len >= 1 && bytes.len <= ENG_TEXT_MAX)), done, arg);
}

void eng_home_lock_confirm(struct eng_store *store, int64_t wall_ms, eng_done done, void *arg)
{
        struct eng_call call = {.kind = ENG_CALL_LOCK_CONFIRM, .wall_ms = wall_ms};

        send_change(store, &call, wall_ms > 0, done, arg);
}
