/*
 * put_md5.c - the MD5 of uploads, hashed side by side (hasher.c).
 *
 * Home loop. Full units of striped uploads are hashed in their slots, by the hasher that all loops
 * share, while they are written and until the upload needs a slot or ends; small ones in their
 * buffer, by the loop's own, at the end of the round in which they came: with all others that came
 * then.
 */
#include "engine/base/store.h"
#include "engine/object/put.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void put_md5_let_go(struct eng_put *put, struct put_write *w)
{
        assert(w == NULL || w->users > 0);
        if (w == NULL || --w->users > 0)
                return;
        eng_put_drop_slot(put, w->op.write.slot);
        free(w);
}

static void hashed(struct eng_hash_piece *hash)
{
        struct put_piece *piece = container_of(hash, struct put_piece, hash);
        struct eng_put *put = piece->put;

        eng_step_ends(put->el, ENG_STEP_MD5, piece->began);
        put_md5_let_go(put, piece->written);
        eng_put_back(put);
}

static void told(struct eng_hash_stream *stream)
{
        eng_put_back(container_of(stream, struct eng_put, md5));
}

static void put_md5_begin(struct eng_put *put)
{
        if (put->md5.hasher != NULL)
                return;
        eng_hash_begin(&put->md5, put->striped ? put->el->home.bulk_hasher : &put->el->home.hasher, put->el->loop);
        put->md5.told = told;
}

static void put_md5_add(struct eng_put *put, struct put_piece *piece, const uint8_t *bytes, size_t len)
{
        piece->put = put;
        piece->began = lp_clock();
        piece->hash = (struct eng_hash_piece){.bytes = bytes, .len = len, .hashed = hashed};
        put->in_flight++;
        eng_hash_add(&put->md5, &piece->hash);
}

void eng_put_md5_add(struct eng_put *put, struct put_write *w, size_t len)
{
        if (!put->params.md5 || put->md5_ends || len == 0)
                return;
        put_md5_begin(put);
        w->users++;
        w->piece.written = w;
        put_md5_add(put, &w->piece, w->op.write.payload, len);
}

void eng_put_write_done(struct eng_put *put, struct put_write *w)
{
        put_md5_let_go(put, w);
}

/* Somebody waits for what is out. */
void eng_put_md5_hurry(struct eng_put *put)
{
        bool was_out = put->md5.wanting;

        if (put->md5.hasher == NULL)
                return;
        eng_hash_want(&put->md5);
        put->in_flight += put->md5.wanting && !was_out;
}

static bool all_hashed(const struct eng_put *put)
{
        return put->md5.out == 0;
}

bool eng_put_md5_wait(struct eng_put *put)
{
        if (all_hashed(put))
                return false;
        eng_put_md5_hurry(put);
        put->waiting = true;
        return true;
}

/* Nothing comes any more: what is in no full unit is to be hashed, too. */
static void add_rest(struct eng_put *put)
{
        const uint8_t *bytes[2] = {(const uint8_t *)put->current + LP_SLOT_HEADER, put->head + put->head_at};
        size_t len[2] = {put->fill, put->head_len - put->head_at};
        unsigned i;

        if (put->md5_ends)
                return;
        put->md5_ends = true;
        put_md5_begin(put);
        for (i = 0; i < 2; i++)
                if (len[i] != 0)
                        put_md5_add(put, &put->rest[i], bytes[i], len[i]);
}

bool eng_put_md5_ready(struct eng_put *put)
{
        if (put->error != 0)
                return true;
        add_rest(put);
        return !eng_put_md5_wait(put);
}

void eng_put_md5(struct eng_put *put, uint8_t out[ERA_MD5_SIZE])
{
        bool known;

        if (put->taken == 0)
                add_rest(put);
        known = put->md5_ends && all_hashed(put);
        assert(known || put->error != 0);
        if (known)
                era_md5_final(&put->md5.md5, out);
        else
                memset(out, 0, ERA_MD5_SIZE); /* the commit will say why */
}
