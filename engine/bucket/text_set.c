/*
 * text_set.c - changes of texts of buckets and entries of the store: one record that replaces all pieces of a text, then every
 * loop's copy, then the answer. Coordinator, one after the other with all changes of buckets.
 */
#include "engine/bucket/bucket.h"
#include "engine/bucket/bucket_pool.h"
#include "engine/bucket/bucket_queue.h"
#include "engine/bucket/bucket_text.h"
#include "engine/bucket/config_digest.h"
#include "engine/bucket/home_changes.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* owner: home until sent, then the coordinator until answered; nodes: each loop its own, in the broadcast */
struct text_change {
        struct eng_change change;      /* first */
        uint64_t bucket;               /* or the id of an entry */
        unsigned kind;
        uint64_t expected;             /* generation, or ENG_TEXT_ANY */
        bool decided;                  /* by what entries said: */
        struct eng_rows_digest seen;
        struct eng_text *text;         /* NULL: it is deleted */
        bool rewrite;                  /* as it is, to members that have it otherwise */
        uint32_t old_len;
        unsigned pieces_before;        /* rows that there may be */
        struct eng_bucket_text **nodes; /* one for each loop; of an entry: NULL */
        struct eng_text *replaced;     /* an entry's text, until no loop looks at it */
};

static unsigned text_pieces(size_t len)
{
        return len == 0 ? 0 : (unsigned)((len - 1) / FMT_TEXT_PIECE) + 1;
}

static struct text_change *text_of(struct eng_txn *txn)
{
        return (struct text_change *)eng_change_of(txn);
}

static void text_free(struct eng_change *change)
{
        struct text_change *tc = (struct text_change *)change;
        unsigned i;

        for (i = 0; tc->nodes != NULL && i < change->store->loop_count; i++)
                free(tc->nodes[i]);
        free(tc->nodes);
        eng_text_unref(tc->text);
        free(tc);
}

/* ---- the record ------------------------------------------------------------------------------ */

static int text_put_piece(struct eng_txn *txn, const struct text_change *tc, unsigned piece)
{
        const struct eng_text *text = tc->text;
        size_t at = (size_t)piece * FMT_TEXT_PIECE, len = text->len - at < FMT_TEXT_PIECE ? text->len - at : FMT_TEXT_PIECE;
        struct fmt_text head = {.generation = text->generation, .len = text->len, .crc = text->crc};
        uint8_t attrs[sizeof(head) + FMT_TEXT_PIECE];
        struct eng_value_spec spec = {.space = FMT_SPACE_CONFIG, .pg = txn->pg, .attrs = attrs, .attrs_len = sizeof(head) + len};
        struct eng_buf *value;

        memcpy(attrs, &head, sizeof(head));
        memcpy(attrs + sizeof(head), text->bytes + at, len);
        value = eng_value_new(&spec);
        if (value == NULL)
                return -ENOMEM;
        eng_name_text(&txn->name, tc->bucket, tc->kind, piece);
        eng_body_put(&txn->body, &txn->name, value, txn->seq, NULL, 0);
        eng_buf_unref(value);
        return 0;
}

static void text_prepare(struct eng_txn *txn)
{
        struct text_change *tc = text_of(txn);
        unsigned pieces = tc->text == NULL ? 0 : text_pieces(tc->text->len), i;
        size_t most = sizeof(struct fmt_value) + sizeof(struct fmt_text) + FMT_TEXT_PIECE;
        int rv;

        eng_name_text(&txn->name, tc->bucket, tc->kind, 0);
        rv = eng_body_begin(&txn->body, pieces * eng_body_need(txn->name.len, most, 0) + ENG_TEXT_PIECES * eng_body_need(txn->name.len, 0, 0));
        if (rv == 0)
                eng_txn_take_seq(txn);
        if (rv == 0 && tc->text != NULL && !tc->rewrite)
                tc->text->generation = txn->seq; /* higher than of any text before it */
        for (i = 0; rv == 0 && i < pieces; i++)
                rv = text_put_piece(txn, tc, i);
        for (i = pieces; rv == 0 && i < tc->pieces_before; i++) {
                eng_name_text(&txn->name, tc->bucket, tc->kind, i);
                eng_body_delete(&txn->body, &txn->name);
        }
        if (rv == 0)
                eng_txn_append(txn);
        else
                eng_txn_finish(txn, rv);
}

static bool text_take(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        struct text_change *tc = arg;
        struct eng_config_bucket *b;

        if (eng_is_entry(tc->kind)) {
                eng_entry_tell(el, tc->bucket, tc->kind);
                if (el == el->store->coord_loop)
                        eng_digest_told(el->store);
                return true;
        }
        b = eng_bucket_by_id(el, tc->bucket);
        assert(b != NULL); /* no change of it but this one is under way */
        tc->nodes[el->index] = eng_text_put(b, tc->kind, tc->text, tc->nodes[el->index]);
        return true;
}

static void text_taken(struct eng_store *store, void *arg)
{
        struct text_change *tc = arg;

        eng_text_unref(tc->replaced); /* each loop has had a turn since */
        tc->change.touched = (struct eng_row_key){.what = ENG_ROW_TEXT, .kind = (uint8_t)tc->kind, .id = tc->bucket};
        eng_change_recorded(arg);
}

static void text_recorded(struct eng_txn *txn)
{
        struct text_change *tc = text_of(txn);

        if (!txn->counts || tc->rewrite) {
                eng_change_finish(&tc->change, txn->result);
                return;
        }
        eng_config_of(txn->store)->text_bytes += tc->text == NULL ? 0 : tc->text->len;
        eng_config_of(txn->store)->text_bytes -= tc->old_len;
        if (eng_is_entry(tc->kind))
                tc->replaced = eng_entry_put(txn->store, tc->bucket, tc->kind, tc->text == NULL ? NULL : eng_text_ref(tc->text));
        if (eng_broadcast(txn->store, text_take, text_taken, tc) != 0)
                abort(); /* recorded, but the loops can't be told: a restart reads it */
}

static void text_allowed(void *arg, int rv)
{
        struct text_change *tc = arg;
        uint8_t key[ENG_TEXT_KEY];

        eng_text_key(key, tc->bucket, tc->kind);
        if (rv != 0)
                eng_change_finish(&tc->change, rv);
        else
                eng_change_submit(&tc->change, key, sizeof(key), text_prepare, text_recorded);
}

/* ---- what is allowed ------------------------------------------------------------------------- */

static int text_refusal(const struct text_change *tc, const struct eng_text *old)
{
        uint64_t all = eng_config_of(tc->change.store)->text_bytes;

        int rv = tc->kind == ENG_ENTRY_BUCKET_POOL ? eng_bucket_pool_refusal(tc->change.store, tc->bucket, tc->text, old) : 0;

        if (rv != 0)
                return rv;
        if (tc->decided && !eng_digest_is_seen(tc->change.store, &tc->seen))
                return -ERESTART;
        if (tc->expected != ENG_TEXT_ANY && tc->expected != (old == NULL ? 0 : old->generation))
                return -ESTALE;
        if (tc->text == NULL)
                return old == NULL ? -ENOENT : 0;
        if (old == NULL && eng_is_entry(tc->kind) && eng_entries_full(tc->change.store))
                return -ENOSPC;
        return tc->text->len > tc->old_len && all - tc->old_len + tc->text->len > ENG_TEXTS_BYTES ? -EDQUOT : 0;
}

static void text_begin(struct eng_change *change)
{
        struct text_change *tc = (struct text_change *)change;
        struct eng_text *old;
        uint64_t features = FMT_FEATURE_VERSIONS | (tc->kind == ENG_ENTRY_BUCKET_POOL ? FMT_FEATURE_POOLS : 0);
        int rv = -EIDRM;

        if (eng_text_find(change->store->coord_loop, tc->bucket, tc->kind, &old)) {
                tc->old_len = old == NULL ? 0 : old->len;
                tc->pieces_before = old != NULL && old->damaged ? ENG_TEXT_PIECES : text_pieces(tc->old_len);
                rv = text_refusal(tc, old);
        }
        if (rv != 0)
                eng_change_finish(change, rv);
        else
                eng_features_set(change->store, features, text_allowed, tc);
}

/* ---- asked for ------------------------------------------------------------------------------- */

static bool text_make_nodes(struct text_change *tc, unsigned loops)
{
        unsigned i;

        tc->nodes = calloc(loops, sizeof(tc->nodes[0]));
        for (i = 0; tc->nodes != NULL && i < loops; i++) {
                tc->nodes[i] = calloc(1, sizeof(*tc->nodes[i]));
                if (tc->nodes[i] == NULL)
                        return false;
        }
        return tc->nodes != NULL;
}

static struct text_change *text_change_new(struct eng_store *store, uint64_t bucket, unsigned kind)
{
        struct text_change *tc = calloc(1, sizeof(*tc));

        if (tc == NULL)
                return NULL;
        tc->bucket = bucket;
        tc->kind = kind;
        tc->change.store = store;
        tc->change.begin = text_begin;
        tc->change.drop = text_free;
        if (eng_is_entry(kind) || text_make_nodes(tc, store->loop_count))
                return tc;
        text_free(&tc->change);
        return NULL;
}

static void text_send(struct eng_store *store, struct text_change *tc, int rv, eng_done done, void *arg)
{
        if (tc != NULL && rv == 0) {
                eng_change_send(&tc->change, store, done, arg);
                return;
        }
        if (tc != NULL)
                text_free(&tc->change);
        eng_early(store, (struct eng_early){.plain = done, .arg = arg, .rv = rv == 0 ? -ENOMEM : rv});
}

/* bytes.data NULL: it is deleted. seen NULL: nobody has decided by other entries. */
static void text_ask(struct eng_store *store, uint64_t bucket, unsigned kind, uint64_t expected, const struct eng_rows_digest *seen,
                     struct eng_str bytes, eng_done done, void *arg)
{
        bool deletes = bytes.data == NULL, fit = kind < ENG_TEXTS_KINDS && (deletes || (bytes.len >= 1 && bytes.len <= ENG_TEXT_MAX));
        struct text_change *tc;

        if (eng_is_home(store)) {
                eng_home_text_set(store, bucket, kind, expected, seen, bytes, done, arg);
                return;
        }
        tc = fit ? text_change_new(store, bucket, kind) : NULL;
        if (tc != NULL) {
                tc->expected = expected;
                tc->decided = seen != NULL;
                tc->seen = seen != NULL ? *seen : (struct eng_rows_digest){0};
                tc->text = deletes ? NULL : eng_text_new(kind, bytes.data, bytes.len);
        }
        text_send(store, tc, !fit ? -EINVAL : tc == NULL || (!deletes && tc->text == NULL) ? -ENOMEM : 0, done, arg);
}

void eng_text_set(struct eng_store *store, uint64_t bucket, unsigned kind, uint64_t expected, struct eng_str bytes, eng_done done,
                  void *arg)
{
        text_ask(store, bucket, kind, expected, NULL, bytes.data != NULL ? bytes : (struct eng_str){"", 0}, done, arg);
}

void eng_text_delete(struct eng_store *store, uint64_t bucket, unsigned kind, uint64_t expected, eng_done done, void *arg)
{
        text_ask(store, bucket, kind, expected, NULL, (struct eng_str){NULL, 0}, done, arg);
}

void eng_entry_set(struct eng_store *store, uint64_t id, unsigned kind, uint64_t expected, const struct eng_rows_digest *seen, struct eng_str bytes,
                   eng_done done, void *arg)
{
        assert(eng_is_entry(kind) && seen != NULL);
        text_ask(store, id, kind, expected, seen, bytes, done, arg);
}

/* ---- rows that members have differently ------------------------------------------------------ */

static void rewrite_begin(struct eng_change *change)
{
        struct text_change *tc = (struct text_change *)change;
        struct eng_text *text;

        eng_text_find(change->store->coord_loop, tc->bucket, tc->kind, &text);
        if (text == NULL || text->damaged) {
                eng_change_finish(change, 0);
                return;
        }
        tc->text = eng_text_ref(text);
        tc->pieces_before = ENG_TEXT_PIECES;
        text_allowed(tc, 0);
}

int eng_text_rewrite(struct eng_store *store, uint64_t bucket, unsigned kind, eng_done done, void *arg)
{
        struct text_change *tc = text_change_new(store, bucket, kind);

        if (tc == NULL)
                return -ENOMEM;
        tc->rewrite = true;
        tc->change.begin = rewrite_begin;
        eng_change_own(&tc->change, store, done, arg);
        return 0;
}
