/*
 * put_md5.c - the MD5 of uploads: of several at once, as they lie in slots.
 *
 * Home loop. A stream of MD5 can't be hurried, but several side by side cost hardly more than one (ec/md5.c). So bytes of an upload are not hashed as they
 * come: units that are full wait, in their slots even when they are written, until some upload needs a slot or ends. It then waits for the loop's
 * round to end, since what comes in a round comes in bursts, upload after upload; in the next round the units of all uploads are hashed, row by row.
 */
#include "engine/put.h"

#include <stdlib.h>
#include <string.h>

#define JOBS        32u
#define AT_ONCE     (8u << 10)          /* bytes that it is not worth to wait with */
#define PATIENCE_NS (2ull * 1000 * 1000) /* for others to have something, too */

static bool is_alone(const struct eng_loop *el)
{
        return TAILQ_FIRST(&el->puts) == TAILQ_LAST(&el->puts, eng_puts);
}

static struct put_piece *take_first(struct eng_put *put)
{
        struct put_piece *piece = TAILQ_FIRST(&put->pieces);

        TAILQ_REMOVE(&put->pieces, piece, link);
        piece->waits = false;
        if (TAILQ_EMPTY(&put->pieces)) {
                TAILQ_REMOVE(&put->el->hashing, put, hashing);
                put->el->hashing_count--;
        }
        return piece;
}

static void let_go(struct eng_put *put, struct put_piece *piece)
{
        if (piece->written == NULL)
                return;
        lp_slot_put(put->el->loop, piece->written->op.write.slot);
        put->used--;
        free(piece->written);
}

/* The next piece of each upload, this one's first. */
static void hash_row(struct eng_put *needs)
{
        struct eng_loop *el = needs->el;
        struct era_md5_job jobs[JOBS];
        struct put_piece *pieces[JOBS];
        struct eng_put *puts[JOBS], *put = needs, *next;
        uint64_t began;
        unsigned n, i;

        for (n = 0; put != NULL && n < JOBS; put = next) {
                next = put == needs ? TAILQ_FIRST(&el->hashing) : TAILQ_NEXT(put, hashing);
                if (next == needs)
                        next = TAILQ_NEXT(needs, hashing);
                pieces[n] = take_first(put);
                jobs[n] = (struct era_md5_job){.md5 = &put->md5, .buf = pieces[n]->bytes, .len = pieces[n]->len};
                puts[n++] = put;
        }
        began = lp_clock();
        era_md5_update(jobs, n);
        eng_step_ends(el, ENG_STEP_MD5, began);
        for (i = 0; i < n; i++)
                let_go(puts[i], pieces[i]);
}

static void add(struct eng_put *put, struct put_piece *piece, const uint8_t *bytes, size_t len)
{
        *piece = (struct put_piece){.bytes = bytes, .len = len, .waits = true};
        if (TAILQ_EMPTY(&put->pieces)) {
                TAILQ_INSERT_TAIL(&put->el->hashing, put, hashing);
                put->el->hashing_count++;
        }
        TAILQ_INSERT_TAIL(&put->pieces, piece, link);
}

void eng_put_md5_begin(struct eng_put *put)
{
        TAILQ_INIT(&put->pieces);
        era_md5_init(&put->md5);
}

void eng_put_md5_add(struct eng_put *put, struct put_piece *piece, const uint8_t *bytes, size_t len)
{
        if (!put->params.md5 || put->md5_ends)
                return;
        add(put, piece, bytes, len);
        if (is_alone(put->el) || put->el->hashing_count >= era_md5_lanes())
                hash_row(put);
}

void eng_put_md5_flush(struct eng_put *put)
{
        while (!TAILQ_EMPTY(&put->pieces))
                hash_row(put);
}

void eng_put_md5_round(struct lp_timer *timer)
{
        struct eng_loop *el = (struct eng_loop *)((char *)timer - offsetof(struct eng_loop, hash_timer));
        struct eng_put *put, *next;

        el->hash_due = false;
        while ((put = TAILQ_FIRST(&el->hashing)) != NULL)
                hash_row(put);
        for (put = TAILQ_FIRST(&el->puts); put != NULL; put = next) {
                next = TAILQ_NEXT(put, link);
                if (!put->awaits_md5)
                        continue;
                put->awaits_md5 = false;
                eng_put_wake(put);
        }
}

bool eng_put_md5_wait(struct eng_put *put)
{
        struct eng_loop *el = put->el;
        bool all;

        if (TAILQ_EMPTY(&put->pieces))
                return false;
        if (is_alone(el)) {
                eng_put_md5_flush(put);
                return false;
        }
        all = el->hashing_count >= el->granted_puts;
        if (all || !el->hash_due) {
                if (lp_timer_start(el->loop, &el->hash_timer, all ? 0 : PATIENCE_NS) != 0) {
                        eng_put_md5_flush(put);
                        return false;
                }
                el->hash_due = true;
        }
        put->awaits_md5 = put->waiting = true;
        return true;
}

void eng_put_md5_forget(struct eng_put *put)
{
        put->awaits_md5 = false;
        while (!TAILQ_EMPTY(&put->pieces))
                let_go(put, take_first(put));
}

/* Nothing comes any more: what is in no full unit is a piece, too. */
static void add_rest(struct eng_put *put)
{
        if (put->md5_ends)
                return;
        put->md5_ends = true;
        if (put->fill > 0)
                add(put, &put->rest[0], (const uint8_t *)put->current + LP_SLOT_HEADER, put->fill);
        if (put->head_at < put->head_len)
                add(put, &put->rest[1], put->head + put->head_at, put->head_len - put->head_at);
}

bool eng_put_md5_ready(struct eng_put *put)
{
        add_rest(put);
        return put->error != 0 || put->taken <= AT_ONCE || !eng_put_md5_wait(put);
}

void eng_put_md5(struct eng_put *put, uint8_t out[ERA_MD5_SIZE])
{
        add_rest(put);
        eng_put_md5_flush(put);
        era_md5_final(&put->md5, out);
}
