/*
 * lookup.c - reads the value of a name through the primary of its key, and pins what it names.
 *
 * Going through the primary is what makes the pin safe: discards of dead shards come to the same
 * loop, wait for the lookups of their group that may still find the dead value, and are held back
 * while an id is pinned (deferred_delete.c). A member that does not answer or is damaged is passed
 * over for the next. That a name is not there is said only when members agree on it
 * (eng_words_absent()); where they can't, the answer is that nobody can tell.
 *
 * For a key with versions the lookup goes on from the key's head to the version that is wanted.
 */
#include "engine/txn/txn.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Heads of one key that a lookup follows before it gives up: each but the first means that the
 * version which the head named was deleted before it was looked up.
 */
#define HEADS_MAX 8u

static void try_next(struct eng_lookup *lookup);

static void lookup_answer(struct lp_msg *msg)
{
        struct eng_lookup *lookup = container_of(msg, struct eng_lookup, msg);

        assert(eng_on_loop(lookup->home));
        lookup->done(lookup);
}

/* From here on only its pin keeps what it found. */
static void uncount(struct eng_lookup *lookup)
{
        if (lookup->counted)
                TAILQ_REMOVE(&lookup->at->leader.lookups, lookup, link);
        lookup->counted = false;
}

static void lookup_finish(struct eng_lookup *lookup, int result)
{
        assert(lookup->msg.run != lookup_answer);
        uncount(lookup);
        lookup->result = result;
        lookup->msg.run = lookup_answer;
        lp_post(lookup->home->loop, &lookup->msg);
}

/* The same from a message of lookup->at: the caller is not there any more. */
static void finish_at(struct eng_lookup *lookup, int result)
{
        assert(eng_on_loop(lookup->at) && lookup->msg.run != lookup_answer);
        uncount(lookup);
        lookup->result = result;
        lookup->msg.run = lookup_answer;
        if (lookup->home == lookup->at)
                lookup->done(lookup);
        else
                lp_post(lookup->home->loop, &lookup->msg);
}

static int pin(struct eng_lookup *lookup)
{
        const struct fmt_value *v = eng_value_head(lookup->value->data);
        struct eng_loop *el = lookup->at;
        struct eng_pin *p;

        assert(eng_on_loop(el) && !lookup->pinned);
        HASH_FIND(hh, el->leader.pins, v->id, FMT_ID, p);
        if (p == NULL) {
                p = calloc(1, sizeof(*p));
                if (p == NULL)
                        return -ENOMEM;
                memcpy(p->id, v->id, FMT_ID);
                HASH_ADD(hh, el->leader.pins, id, FMT_ID, p);
        }
        p->count++;
        lookup->pinned = true;
        return 0;
}

/* ---- a key with versions --------------------------------------------------------------------- */

/* Another row of the key is asked for, from the first member on. */
static void look_for(struct eng_lookup *lookup)
{
        eng_words_begin(&lookup->words, &lookup->at->view, lookup->pg);
        lookup->mute = 0;
        lookup->waits = false;
        try_next(lookup);
}

/* Sets the lookup's name to that of another row of its key. -EBADMSG: it is no name of a key. */
static int name_other_row(struct eng_lookup *lookup, uint64_t number)
{
        uint8_t key[FMT_NAME_MAX];
        uint64_t bucket;
        size_t len;

        if (eng_name_key(&lookup->name, &bucket, key, &len) != 0 || len > ENG_KEY_MAX)
                return -EBADMSG;
        if (number == 0)
                eng_name_object(&lookup->name, bucket, key, len);
        else
                eng_name_version(&lookup->name, bucket, key, len, number);
        return 0;
}

static void lookup_forget(struct eng_lookup *lookup)
{
        eng_buf_unref(lookup->value);
        eng_buf_unref(lookup->bytes);
        lookup->value = lookup->bytes = NULL;
}

/* The key's head was found: goes on with the version that is wanted. */
static void follow_head(struct eng_lookup *lookup, const struct fmt_head *versions)
{
        uint64_t number = lookup->which == ENG_LOOKUP_NEWEST ? versions->newest : versions->null_number;
        int rv = number == 0 ? -ENOENT : name_other_row(lookup, number);

        if (lookup->which == ENG_LOOKUP_VERSION)
                rv = -EBADMSG; /* a head in a version's row, or a home that asks for a version by an object's name */
        lookup->head_slot = lookup->words.slot;
        lookup_forget(lookup);
        if (rv == 0 && lookup->heads++ == HEADS_MAX)
                rv = -EAGAIN;
        if (rv != 0)
                finish_at(lookup, rv);
        else
                look_for(lookup);
}

/*
 * All agree that the row is not there. A version that a head named was deleted in between, or that
 * member's head is an old one: others are asked first (V12).
 */
static void lookup_absent(struct eng_lookup *lookup)
{
        const struct eng_name version = lookup->name;

        if (lookup->heads == 0 || version.data[0] != FMT_SPACE_VERSION || name_other_row(lookup, 0) != 0) {
                lookup_finish(lookup, eng_is_current(lookup->store) ? -ENOENT : -EHOSTDOWN);
                return;
        }
        lookup->doubted |= eng_bit(lookup->head_slot);
        if (lookup->heads > 1) {
                eng_upkeep_group(lookup->store, lookup->pg);
                eng_upkeep_version(lookup->store, &version);
        }
        look_for(lookup);
}

/* Whether a version that was found is the one whose id was given. */
static bool is_that_version(const struct eng_lookup *lookup)
{
        const uint8_t *random;
        size_t len;

        if (lookup->which != ENG_LOOKUP_VERSION)
                return true;
        random = eng_value_field(lookup->value->data, lookup->value->len, FMT_FIELD_VERSION, &len);
        return random != NULL && len == ENG_VERSION_RANDOM && memcmp(random, lookup->random, len) == 0;
}

/* ---- members --------------------------------------------------------------------------------- */

static void lookup_take(struct eng_lookup *lookup)
{
        struct fmt_head versions;
        int rv = 0;

        if (!eng_is_current(lookup->store)) {
                lookup_forget(lookup);
                finish_at(lookup, -EHOSTDOWN);
                return;
        }
        if (lookup->which != ENG_LOOKUP_NAME && eng_value_head_field(lookup->value->data, lookup->value->len, &versions)) {
                follow_head(lookup, &versions);
                return;
        }
        if (!is_that_version(lookup)) {
                lookup_forget(lookup);
                rv = -ENOENT;
        } else if (lookup->pin && eng_value_has_shards(eng_value_head(lookup->value->data))) {
                rv = pin(lookup);
        }
        finish_at(lookup, rv);
}

static void lookup_found(struct eng_op *op)
{
        struct eng_lookup *lookup = container_of(op, struct eng_lookup, op);
        int rv = op->result;

        eng_step_ends(lookup->at, ENG_STEP_LOOKUP, op->submitted);
        if (rv == 0) {
                lookup->value = op->lookup.value;
                lookup->bytes = op->lookup.bytes;
                lookup_take(lookup);
        } else {
                eng_buf_unref(op->lookup.value); /* found, but its bytes are damaged */
                eng_buf_unref(op->lookup.bytes);
                if (rv == -EAGAIN && (op->flags & ENG_OP_OTHERS) != 0)
                        lookup->mute |= eng_bit(lookup->words.slot);
                eng_words_take(&lookup->words, &lookup->at->view, lookup->pg, rv);
                try_next(lookup);
        }
}

static void try_next(struct eng_lookup *lookup)
{
        struct eng_words *words = &lookup->words;
        struct eng_op *op = &lookup->op;
        bool others;
        int slot;

        if (eng_words_absent(words, &lookup->at->view, lookup->pg)) {
                lookup_absent(lookup);
                return;
        }
        slot = eng_pg_reader(lookup->at, lookup->pg, words->asked | lookup->doubted);
        if (slot < 0)
                slot = eng_pg_reader(lookup->at, lookup->pg, words->asked);
        if (slot < 0 && lookup->mute != 0) { /* without them nobody can tell: they are waited for */
                words->asked &= ~lookup->mute;
                slot = eng_pg_reader(lookup->at, lookup->pg, words->asked);
                lookup->mute = 0;
                lookup->waits = true;
        }
        if (slot < 0) {
                lookup_finish(lookup, eng_words_unsure(lookup->at, lookup->pg, words));
                return;
        }
        assert((words->asked & eng_bit((unsigned)slot)) == 0);
        words->slot = (unsigned)slot;
        words->asked |= eng_bit(words->slot);
        others = !lookup->waits && lookup->store->options.cluster != NULL;
        eng_op_lookup(op, &lookup->name, lookup->flags | (others ? ENG_OP_OTHERS : 0), lookup->at->view.epoch, lookup_found);
        eng_drive_submit(lookup->store->members[slot].drive, op);
}

static void lookup_arrive(struct lp_msg *msg)
{
        struct eng_lookup *lookup = container_of(msg, struct eng_lookup, msg);

        assert(eng_on_loop(lookup->at) && !lookup->counted);
        if (lookup->pin) {
                lookup->number = ++lookup->at->leader.lookup_count;
                TAILQ_INSERT_TAIL(&lookup->at->leader.lookups, lookup, link);
                lookup->counted = true;
        }
        if (!lookup->at->view.ready || lookup->store->pgs[lookup->pg].in_doubt) {
                lookup_finish(lookup, -EHOSTDOWN);
                return;
        }
        look_for(lookup);
}

void eng_lookup_which(struct eng_lookup *lookup, uint64_t bucket, struct eng_str key, const struct eng_version *version)
{
        if (version != NULL && version->number != 0) {
                lookup->which = ENG_LOOKUP_VERSION;
                memcpy(lookup->random, version->random, sizeof(lookup->random));
                eng_name_version(&lookup->name, bucket, key.data, key.len, version->number);
                return;
        }
        lookup->which = version != NULL ? ENG_LOOKUP_NULL : ENG_LOOKUP_NEWEST;
        eng_name_object(&lookup->name, bucket, key.data, key.len);
}

void eng_lookup_start(struct eng_lookup *lookup)
{
        lookup->home = eng_here(lookup->store);
        lookup->counted = false;
        if (eng_is_home(lookup->store)) {
                eng_home_lookup(lookup);
                return;
        }
        if (!lookup->home->view.ready) { /* and there may be no PGs yet */
                lookup_finish(lookup, -EHOSTDOWN);
                return;
        }
        lookup->at = eng_primary(lookup->store, lookup->pg);
        lookup->msg.run = lookup_arrive;
        if (lookup->at == lookup->home)
                lookup_arrive(&lookup->msg);
        else
                lp_post(lookup->at->loop, &lookup->msg);
}

uint64_t eng_lookups_since(const struct eng_loop *el)
{
        const struct eng_lookup *oldest = TAILQ_FIRST(&el->leader.lookups);

        return oldest == NULL ? UINT64_MAX : oldest->number;
}

static void unpin(struct lp_msg *msg)
{
        struct eng_lookup *lookup = container_of(msg, struct eng_lookup, msg);
        const struct fmt_value *v = eng_value_head(lookup->value->data);
        struct eng_pin *p;

        HASH_FIND(hh, lookup->at->leader.pins, v->id, FMT_ID, p);
        assert(p != NULL && p->count > 0);
        if (--p->count == 0) {
                HASH_DEL(lookup->at->leader.pins, p);
                free(p);
        }
        lookup->done(lookup);
}

void eng_unpin(struct eng_lookup *lookup, void (*free_it)(struct eng_lookup *lookup))
{
        assert(eng_on_loop(lookup->home) && lookup->pinned);
        lookup->pinned = false;
        if (eng_is_home(lookup->store)) {
                eng_home_unpin(lookup);
                free_it(lookup);
                return;
        }
        lookup->done = free_it;
        lookup->msg.run = unpin;
        lp_post(lookup->at->loop, &lookup->msg);
}
