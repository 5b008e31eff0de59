/*
 * bucket_rules.c - changes of the rules of a bucket: versioning, object lock, default retention
 * (docs/design/bucket-rules.md). Coordinator, one after the other with all changes of buckets; every
 * loop has the new rules before the answer.
 */
#include "engine/bucket/bucket.h"
#include "engine/bucket/bucket_queue.h"
#include "engine/bucket/home_changes.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* owner: home until sent, then the coordinator until answered */
struct rules_change {
        struct eng_change change;      /* first */
        struct eng_bucket bucket;      /* as its row is to be */
};

/* ---- what is allowed ------------------------------------------------------------------------- */

int eng_rules_complete(const struct eng_bucket_rules *now, struct eng_bucket_rules *wanted)
{
        bool was_versioned = now->versioning != ENG_VERSIONING_NEVER;

        if (wanted->lock && wanted->versioning == ENG_VERSIONING_NEVER && !was_versioned)
                wanted->versioning = ENG_VERSIONING_ENABLED;
        if (was_versioned && wanted->versioning == ENG_VERSIONING_NEVER)
                return -EPERM;
        if (now->lock && !wanted->lock)
                return -EPERM;
        if (wanted->lock && wanted->versioning == ENG_VERSIONING_SUSPENDED)
                return -EPERM;
        return eng_rules_make_sense(wanted) ? 0 : -EINVAL;
}

/* ---- changing -------------------------------------------------------------------------------- */

static bool rules_take(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        const struct rules_change *rules = arg;
        struct eng_config_bucket *b = eng_bucket_by_id(el, rules->bucket.id);

        assert(b != NULL); /* no change of it but this one is under way */
        b->bucket.rules = rules->bucket.rules;
        return true;
}

static void rules_taken(struct eng_store *store, void *arg)
{
        struct rules_change *rules = arg;

        rules->change.touched = (struct eng_row_key){.what = ENG_ROW_BUCKET, .id = rules->bucket.id};
        eng_change_recorded(arg);
}

static void rules_prepare(struct eng_txn *txn)
{
        eng_bucket_put_row(txn, &((struct rules_change *)eng_change_of(txn))->bucket);
}

static void rules_recorded(struct eng_txn *txn)
{
        struct eng_change *change = eng_change_of(txn);

        if (!txn->counts)
                eng_change_finish(change, txn->result);
        else if (eng_broadcast(txn->store, rules_take, rules_taken, change) != 0)
                abort(); /* recorded, but the loops can't be told: a restart reads it */
}

static void rules_put(struct rules_change *rules)
{
        eng_change_submit(&rules->change, rules->bucket.name, strlen(rules->bucket.name), rules_prepare, rules_recorded);
}

static void rules_marked(void *arg, int rv)
{
        struct rules_change *rules = arg;

        if (rv != 0)
                eng_change_finish(&rules->change, rv);
        else
                rules_put(rules);
}

static void rules_allowed(void *arg, int rv)
{
        struct rules_change *rules = arg;

        if (rv == 0 && rules->bucket.rules.lock)
                eng_lock_require(rules->change.store, rules_marked, rules); /* else a lost mark could end what the lock protects */
        else
                rules_marked(rules, rv);
}

static void rules_begin(struct eng_change *change)
{
        struct rules_change *rules = (struct rules_change *)change;
        const struct eng_config_bucket *b = eng_bucket_by_id(change->store->coord_loop, rules->bucket.id);
        struct eng_bucket_rules wanted = rules->bucket.rules;
        int rv = b == NULL ? -EIDRM : b->bucket.rules.generation != wanted.generation ? -ESTALE : 0;

        if (rv == 0)
                rv = eng_rules_complete(&b->bucket.rules, &wanted);
        if (rv != 0 || eng_rules_same(&b->bucket.rules, &wanted)) {
                eng_change_finish(change, rv);
                return;
        }
        rules->bucket = b->bucket;
        rules->bucket.rules = wanted;
        rules->bucket.rules.generation++;
        eng_features_set(change->store, FMT_FEATURE_VERSIONS, rules_allowed, rules);
}

static void rules_free(struct eng_change *change)
{
        free(change);
}

void eng_bucket_rules_set(struct eng_store *store, uint64_t bucket, const struct eng_bucket_rules *rules, eng_done done, void *arg)
{
        struct rules_change *change;

        if (eng_is_home(store)) {
                eng_home_rules_set(store, bucket, rules, done, arg);
                return;
        }
        change = calloc(1, sizeof(*change));
        if (change == NULL) {
                eng_early(store, (struct eng_early){.plain = done, .arg = arg, .rv = -ENOMEM});
                return;
        }
        change->bucket.id = bucket;
        change->bucket.rules = *rules;
        change->change.begin = rules_begin;
        change->change.drop = rules_free;
        eng_change_send(&change->change, store, done, arg);
}

/* ---- a row that members have differently ----------------------------------------------------- */

static void row_recorded(struct eng_txn *txn)
{
        eng_change_finish(eng_change_of(txn), txn->result);
}

static void row_begin(struct eng_change *change)
{
        struct rules_change *row = (struct rules_change *)change;
        const struct eng_config_bucket *b = eng_bucket_by_id(change->store->coord_loop, row->bucket.id);

        if (b == NULL) {
                eng_change_finish(change, 0);
                return;
        }
        row->bucket = b->bucket;
        eng_change_submit(change, row->bucket.name, strlen(row->bucket.name), rules_prepare, row_recorded);
}

int eng_bucket_rewrite(struct eng_store *store, uint64_t bucket, eng_done done, void *arg)
{
        struct rules_change *row = calloc(1, sizeof(*row));

        if (row == NULL)
                return -ENOMEM;
        row->bucket.id = bucket;
        row->change.begin = row_begin;
        row->change.drop = rules_free;
        eng_change_own(&row->change, store, done, arg);
        return 0;
}
