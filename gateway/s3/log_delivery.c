/*
 * log_delivery.c - records of buckets' access logs: gathered by each loop in batches, which become
 * objects of the target bucket. On the loop concerned, but for what says so. Rules G1 to G10 of
 * docs/design/access-logs.md.
 */
#include "gateway/s3/log_delivery.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/http/gw_check.h"
#include "gateway/people/people.h"
#include "gateway/rights/owners.h"
#include "gateway/rights/rights.h"
#include "gateway/s3/bucket_texts.h"
#include "gateway/s3/log_grants.h"
#include "gateway/s3/own_object.h"

#define LOG_SERVICE      "logging.s3.amazonaws.com"
#define LOG_BATCH_FULL   (1u << 20)
#define LOG_BATCH_FIRST  (4u << 10)
#define LOG_MEMORY_MAX   (16u << 20) /* of all batches of a loop: G4 */
#define LOG_BATCHES_MAX  1024u
#define LOG_AT_ONCE      4u /* that are being written */
#define LOG_TRIES        5u
#define LOG_CHAINS       64u
#define LOG_TICKS        4u /* in an interval */
#define LOG_TICK_MAX_NS  60000000000ull
#define LOG_TICK_END_NS  200000000ull /* at the end of the process */
#define MS_NS            1000000ull
#define DAY_MS           86400000ll

/* Records of one source bucket, under one configuration. owner: its loop */
struct gw_log_batch {
        unsigned magic; /* gw_check.h */
        struct gw_logs *logs;
        LIST_ENTRY(gw_log_batch) open;      /* takes more records, */
        STAILQ_ENTRY(gw_log_batch) due;     /* or waits to be written, */
        LIST_ENTRY(gw_log_batch) going;     /* or is being written */
        struct eng_store *store;            /* of the source, */
        uint64_t source;
        char source_name[ENG_BUCKET_NAME_MAX + 1];
        struct eng_text *text;              /* counted */
        const struct s3_config *config;     /* of text */
        int64_t event_ms;                   /* of the first record */
        uint64_t opened_ns;                 /* lp_now() */
        unsigned records, tries;
        size_t len, cap;
        char *data;
        uint8_t *acl;                       /* of the object, from TargetGrants; NULL: none */
        struct gw_own own;
        char name[S3_LOG_NAME_SIZE];
};

LIST_HEAD(log_batch_list, gw_log_batch);
STAILQ_HEAD(log_batch_queue, gw_log_batch);

/* The share of one loop. owner: loop */
struct gw_logs {
        struct gw_loop *loop;
        uint64_t interval_ns;
        struct lp_timer tick;
        bool ticking;
        bool ending;                        /* all is due at once */
        struct lp_msg flush;                /* posted by gw_logs_flush() */
        struct log_batch_list chains[LOG_CHAINS];
        struct log_batch_queue due;
        struct log_batch_list going;
        unsigned going_count, batches;
        size_t memory;
        char record[S3_LOG_RECORD_MAX];
};

static void logs_deliver_new(struct gw_logs *logs);

static struct gw_logs_figures *logs_figures(struct gw_logs *logs)
{
        return &logs->loop->gw->logs_figures;
}

/* ---- batches --------------------------------------------------------------------------------- */

static struct log_batch_list *log_chain(struct gw_logs *logs, uint64_t source)
{
        return &logs->chains[source % LOG_CHAINS];
}

static uint32_t log_enabled(const struct s3_config *config)
{
        return s3_config_first(config, 0, "LoggingEnabled");
}

/* NULL: names are not partitioned. "EventTime" or "DeliveryTime". */
static struct s3_str log_partition(const struct s3_config *config)
{
        uint32_t format = s3_config_first(config, log_enabled(config), "TargetObjectKeyFormat");
        uint32_t partitioned =
                format != S3_CONFIG_NONE ? s3_config_first(config, format, "PartitionedPrefix") : S3_CONFIG_NONE;

        return partitioned != S3_CONFIG_NONE ? s3_config_text_of(config, partitioned, "PartitionDateSource")
                                             : (struct s3_str){NULL, 0};
}

static bool log_by_event(const struct s3_config *config)
{
        return s3_str_eq(log_partition(config), S3_STR("EventTime"));
}

/* It is in no list any more. */
static void log_batch_free(struct gw_log_batch *batch)
{
        struct gw_logs *logs = batch->logs;

        logs->memory -= batch->cap;
        logs->batches--;
        atomic_fetch_sub(&logs->loop->gw->logs_pending, 1);
        eng_text_unref(batch->text);
        free(batch->data);
        free(batch->acl);
        free(batch);
}

static struct gw_log_batch *log_batch_new(struct gw_logs *logs, const struct eng_bucket *source, struct eng_text *text,
                                          const struct s3_config *config)
{
        struct gw_log_batch *batch = logs->batches < LOG_BATCHES_MAX ? calloc(1, sizeof(*batch)) : NULL;

        if (batch == NULL)
                return NULL;
        batch->magic = gw_log_batch_magic;
        batch->logs = logs;
        batch->store = source->store;
        batch->source = source->id;
        strcpy(batch->source_name, source->name);
        batch->text = eng_text_ref(text);
        batch->config = config;
        batch->event_ms = lp_wall_ms();
        batch->opened_ns = lp_now(logs->loop->lp);
        logs->batches++;
        atomic_fetch_add(&logs->loop->gw->logs_pending, 1);
        LIST_INSERT_HEAD(log_chain(logs, source->id), batch, open);
        return batch;
}

static void log_batch_due(struct gw_log_batch *batch)
{
        LIST_REMOVE(batch, open);
        STAILQ_INSERT_TAIL(&batch->logs->due, batch, due);
}

static bool log_batch_fits(const struct gw_log_batch *batch, struct eng_text *text)
{
        return eng_text_generation(batch->text) == eng_text_generation(text) &&
               (!log_by_event(batch->config) || batch->event_ms / DAY_MS == lp_wall_ms() / DAY_MS);
}

/* The batch that takes the next record of the source. NULL: there is no room for one. */
static struct gw_log_batch *log_batch_of(struct gw_logs *logs, const struct eng_bucket *source, struct eng_text *text,
                                         const struct s3_config *config)
{
        struct gw_log_batch *batch;

        LIST_FOREACH(batch, log_chain(logs, source->id), open)
                if (batch->source == source->id && batch->store == source->store)
                        break;
        if (batch != NULL && !log_batch_fits(batch, text)) {
                log_batch_due(batch);
                batch = NULL;
        }
        return batch != NULL ? batch : log_batch_new(logs, source, text, config);
}

/* Room for that many bytes more. */
static bool log_batch_room(struct gw_log_batch *batch, size_t more)
{
        size_t cap = batch->cap > 0 ? batch->cap : LOG_BATCH_FIRST;
        char *grown;

        if (more <= batch->cap - batch->len)
                return true;
        while (cap - batch->len < more)
                cap *= 2;
        if (batch->logs->memory + (cap - batch->cap) > LOG_MEMORY_MAX)
                return false;
        grown = realloc(batch->data, cap);
        if (grown == NULL)
                return false;
        batch->logs->memory += cap - batch->cap;
        batch->cap = cap;
        batch->data = grown;
        return true;
}

/* ---- delivery -------------------------------------------------------------------------------- */

static void log_batch_drop(struct gw_log_batch *batch, atomic_uint_least64_t *counter)
{
        atomic_fetch_add(counter, batch->records);
        log_batch_free(batch);
}

/* It is in no list. What another try can mend has one. */
static void log_batch_failed(struct gw_log_batch *batch, int rv)
{
        if (++batch->tries < LOG_TRIES && rv != -EIDRM && rv != -EINVAL)
                STAILQ_INSERT_TAIL(&batch->logs->due, batch, due);
        else
                log_batch_drop(batch, &logs_figures(batch->logs)->dropped);
}

static void log_batch_written(void *arg, int rv)
{
        struct gw_log_batch *batch = GW_CAST(gw_log_batch, arg);
        struct gw_logs *logs = batch->logs;

        if (rv == -ECANCELED) { /* the gateway, and with it logs, are gone */
                eng_text_unref(batch->text);
                free(batch->data);
                free(batch->acl);
                free(batch);
                return;
        }
        LIST_REMOVE(batch, going);
        logs->going_count--;
        if (rv == 0) {
                atomic_fetch_add(&logs_figures(logs)->objects, 1);
                atomic_fetch_add(&logs_figures(logs)->delivered, batch->records);
                log_batch_free(batch);
                logs_deliver_new(logs); /* the next one has room */
        } else {
                log_batch_failed(batch, rv);
        }
}

static struct s3_str log_batch_name(struct gw_log_batch *batch)
{
        const struct gw_gateway *gw = batch->logs->loop->gw;
        char account[GW_ACCOUNT_ID_LEN + 1];
        struct s3_log_name name = {
                .prefix = s3_config_text_of(batch->config, log_enabled(batch->config), "TargetPrefix"),
                .partitioned = log_partition(batch->config).len > 0,
                .by_event = log_by_event(batch->config),
                .region = s3_str_of(gw->region),
                .bucket = s3_str_of(batch->source_name),
                .event_ms = batch->event_ms,
                .delivery_ms = lp_wall_ms(),
        };
        ssize_t len;

        if (*batch->name != '\0') /* of a try before: what came of that may be there, and is replaced */
                return s3_str_of(batch->name);
        gw_account_of_bucket(batch->logs->loop, s3_str_of(batch->source_name), account);
        name.account = s3_str_of(account);
        lp_random(&name.unique, sizeof(name.unique));
        len = s3_log_name(&name, batch->name, sizeof(batch->name));
        if (len <= 0 || len > ENG_KEY_MAX)
                *batch->name = '\0';
        return s3_str_of(batch->name);
}

/* 0: the bucket that was logged is there. -ENOENT: one that another made under its name since gets none of its records. */
static int log_source_find(struct gw_log_batch *batch)
{
        const struct eng_bucket *source;
        int rv = gw_bucket_get(batch->logs->loop->gw, s3_str_of(batch->source_name), &source, NULL);

        return rv == 0 && source->id != batch->source ? -ENOENT : rv;
}

static bool log_batch_permitted(const struct gw_log_batch *batch, const struct eng_bucket *target, struct s3_str key)
{
        struct s3_str source = s3_str_of(batch->source_name);
        struct gw_loop *loop = batch->logs->loop;

        return key.len > 0 && !target->rules.lock && gw_same_owner(loop, target, source) &&
               gw_rights_service(loop, LOG_SERVICE, target, key, source);
}

/* Taken from the queue: it is written, dropped, or in the queue again. */
static void log_batch_deliver(struct gw_log_batch *batch)
{
        struct gw_logs *logs = batch->logs;
        struct s3_str target = s3_config_text_of(batch->config, log_enabled(batch->config), "TargetBucket"),
                      key = log_batch_name(batch);
        const struct eng_bucket *bucket = NULL;
        bool permitted;
        size_t acl_len;
        int rv = log_source_find(batch);

        if (rv == 0)
                rv = gw_bucket_get(logs->loop->gw, target, &bucket, NULL);
        permitted = rv == 0 && log_batch_permitted(batch, bucket, key);
        if (!eng_is_current(rv == 0 ? bucket->store : logs->loop->gw->store)) /* what was decided may be otherwise */
                rv = -EHOSTDOWN;
        if (rv != 0 && rv != -ENOENT) {
                log_batch_failed(batch, rv);
                return;
        }
        if (!permitted) {
                log_batch_drop(batch, &logs_figures(logs)->refused);
                return;
        }
        free(batch->acl);
        rv = gw_log_grants(logs->loop, batch->config, bucket, &batch->acl, &acl_len);
        if (rv != 0) {
                log_batch_failed(batch, rv);
                return;
        }
        batch->own = (struct gw_own){.loop = logs->loop,
                                     .store = bucket->store,
                                     .bucket = bucket->id,
                                     .key = key,
                                     .acl = {(const char *)batch->acl, acl_len},
                                     .type = "text/plain",
                                     .data = batch->data,
                                     .len = batch->len,
                                     .done = log_batch_written,
                                     .arg = batch};
        LIST_INSERT_HEAD(&logs->going, batch, going);
        logs->going_count++;
        rv = gw_own_write(&batch->own); /* log_batch_written() may have come already */
        if (rv == 0)
                return;
        LIST_REMOVE(batch, going);
        logs->going_count--;
        log_batch_failed(batch, rv);
}

/* What was due when this was called: each batch has one try. */
static void logs_deliver(struct gw_logs *logs)
{
        struct log_batch_queue now = STAILQ_HEAD_INITIALIZER(now);
        struct gw_log_batch *batch;

        STAILQ_CONCAT(&now, &logs->due);
        while (logs->going_count < LOG_AT_ONCE && (batch = STAILQ_FIRST(&now)) != NULL) {
                STAILQ_REMOVE_HEAD(&now, due);
                log_batch_deliver(batch);
        }
        STAILQ_CONCAT(&now, &logs->due); /* those that had no turn come first */
        STAILQ_CONCAT(&logs->due, &now);
}

/* Those that have failed before wait for a tick. */
static void logs_deliver_new(struct gw_logs *logs)
{
        if (!STAILQ_EMPTY(&logs->due) && STAILQ_FIRST(&logs->due)->tries == 0)
                logs_deliver(logs);
}

/* ---- time ------------------------------------------------------------------------------------ */

static uint64_t logs_tick_ns(const struct gw_logs *logs)
{
        uint64_t tick = logs->interval_ns / LOG_TICKS;

        if (logs->ending)
                return LOG_TICK_END_NS;
        return tick < LOG_TICK_MAX_NS ? tick : LOG_TICK_MAX_NS;
}

static void logs_tick_start(struct gw_logs *logs);

static void logs_look(struct gw_logs *logs)
{
        uint64_t now = lp_now(logs->loop->lp);
        struct gw_log_batch *batch, *next;

        for (unsigned i = 0; i < LOG_CHAINS; i++)
                LIST_FOREACH_SAFE(batch, &logs->chains[i], open, next)
                        if (logs->ending || now - batch->opened_ns >= logs->interval_ns)
                                log_batch_due(batch);
        logs_deliver(logs);
}

static void logs_ticked(struct lp_timer *timer)
{
        struct gw_logs *logs = container_of(timer, struct gw_logs, tick);

        logs->ticking = false;
        logs_look(logs);
        if (logs->batches > 0)
                logs_tick_start(logs);
}

static void logs_tick_start(struct gw_logs *logs)
{
        if (logs->ticking)
                return;
        logs->ticking = true;
        logs->tick.expired = logs_ticked;
        lp_timer_start(logs->loop->lp, &logs->tick, logs_tick_ns(logs));
}

static void logs_flush_now(struct lp_msg *msg)
{
        struct gw_logs *logs = container_of(msg, struct gw_logs, flush);

        logs->ending = true;
        if (logs->ticking)
                lp_timer_stop(logs->loop->lp, &logs->tick);
        logs->ticking = false;
        logs_ticked(&logs->tick);
}

void gw_logs_flush(struct gw_gateway *gw)
{
        for (unsigned i = 0; i < gw->loop_count; i++)
                if (gw->loops[i].logs != NULL) {
                        gw->loops[i].logs->flush.run = logs_flush_now;
                        lp_post(gw->loops[i].lp, &gw->loops[i].logs->flush);
                }
}

unsigned gw_logs_pending(const struct gw_gateway *gw)
{
        return atomic_load(&gw->logs_pending);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void logs_add(struct gw_logs *logs, const struct eng_bucket *source, struct eng_text *text,
                     const struct s3_config *config, size_t len)
{
        struct gw_log_batch *batch = log_batch_of(logs, source, text, config);

        if (batch != NULL && log_batch_room(batch, len)) {
                memcpy(batch->data + batch->len, logs->record, len);
                batch->len += len;
                batch->records++;
                if (batch->len >= LOG_BATCH_FULL)
                        log_batch_due(batch);
        } else {
                atomic_fetch_add(&logs_figures(logs)->dropped, 1);
                if (batch != NULL && batch->len == 0) {
                        LIST_REMOVE(batch, open);
                        log_batch_free(batch);
                }
        }
        logs_deliver_new(logs);
        if (logs->batches > 0)
                logs_tick_start(logs);
}

void gw_logs_ended(struct gw_request *req, const struct gw_ended *end)
{
        struct gw_logs *logs = req->loop->logs;
        const struct eng_bucket *source;
        const struct s3_config *config;
        struct eng_text *text;
        ssize_t len;

        if (logs == NULL || req->bucket.len == 0 || req->loop->gw->ending ||
            gw_bucket_get(req->loop->gw, req->bucket, &source, NULL) != 0 ||
            (req->bucket_id != 0 && req->bucket_id != source->id) || /* it was another of that name */
            eng_text_get(source->store, source->id, GW_TEXT_LOGGING, &text) != 0)
                return;
        config = gw_config_form(text, GW_TEXT_LOGGING);
        if (config != NULL && log_enabled(config) == S3_CONFIG_NONE)
                return;
        len = config != NULL ? gw_log_record_of(req, source, end, logs->record, sizeof(logs->record)) : -ENOMEM;
        if (len > 0)
                logs_add(logs, source, text, config, (size_t)len);
        else
                atomic_fetch_add(&logs_figures(logs)->dropped, 1);
}

/* ---- beginning, end, figures ----------------------------------------------------------------- */

int gw_logs_start(struct gw_gateway *gw, uint64_t interval_ms)
{
        for (unsigned i = 0; i < gw->loop_count; i++) {
                struct gw_logs *logs = calloc(1, sizeof(*logs));

                if (logs == NULL)
                        return -ENOMEM; /* what there is goes with the gateway */
                logs->loop = &gw->loops[i];
                logs->interval_ns = interval_ms * MS_NS;
                for (unsigned chain = 0; chain < LOG_CHAINS; chain++)
                        LIST_INIT(&logs->chains[chain]);
                STAILQ_INIT(&logs->due);
                LIST_INIT(&logs->going);
                gw->loops[i].logs = logs;
        }
        return 0;
}

void gw_logs_free(struct gw_logs *logs)
{
        struct gw_log_batch *batch, *next;

        if (logs == NULL)
                return;
        lp_timer_stop(logs->loop->lp, &logs->tick);
        for (unsigned i = 0; i < LOG_CHAINS; i++)
                LIST_FOREACH_SAFE(batch, &logs->chains[i], open, next)
                        log_batch_drop(batch, &logs_figures(logs)->dropped);
        while ((batch = STAILQ_FIRST(&logs->due)) != NULL) {
                STAILQ_REMOVE_HEAD(&logs->due, due);
                log_batch_drop(batch, &logs_figures(logs)->dropped);
        }
        LIST_FOREACH_SAFE(batch, &logs->going, going, next)
                if (gw_own_leave(&batch->own))
                        log_batch_drop(batch, &logs_figures(logs)->dropped);
        free(logs);
}

void gw_logs_read(const struct gw_gateway *gw, struct gw_logs_stats *out)
{
        out->delivered = atomic_load(&gw->logs_figures.delivered);
        out->objects = atomic_load(&gw->logs_figures.objects);
        out->dropped = atomic_load(&gw->logs_figures.dropped);
        out->refused = atomic_load(&gw->logs_figures.refused);
}
