/*
 * pgs.c - placement groups of one drive, and their pending records.
 *
 * APPEND adds records, COMMIT and replay take them out in order of seq, recovery lists them. A
 * drive has as many groups as the store's map, and each record asks for its own three times: they
 * are found by number, and a tree keeps their order. Records of one group nearly always come in
 * order, so a list kept sorted from its end is all it needs. owner: the loop (replay: the opening
 * thread).
 */
#include "engine/drive/pgs.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/drive/rec.h"

static int pgs_compare(const struct eng_log_pg *a, const struct eng_log_pg *b)
{
        return a->pg < b->pg ? -1 : a->pg > b->pg;
}

RB_GENERATE_INTERNAL(eng_log_pg_tree, eng_log_pg, tree, pgs_compare, static __attribute__((unused)))

void eng_append_free(struct eng_append *append)
{
        if (append == NULL)
                return;
        eng_buf_unref(append->body);
        eng_buf_unref(append->head);
        free(append);
}

static uint64_t append_bytes(const struct eng_append *append)
{
        uint64_t held = append->body != NULL ? append->body->len : 0;

        return sizeof(*append) + held + (append->head != NULL ? append->head->len : 0);
}

void eng_pgs_init(struct eng_pgs *pgs)
{
        memset(pgs, 0, sizeof(*pgs));
        RB_INIT(&pgs->tree);
        TAILQ_INIT(&pgs->order);
}

void eng_pgs_clear(struct eng_pgs *pgs)
{
        struct eng_append *append;
        struct eng_log_pg *pg;

        while ((pg = RB_MIN(eng_log_pg_tree, &pgs->tree)) != NULL) {
                while ((append = TAILQ_FIRST(&pg->pending)) != NULL) {
                        TAILQ_REMOVE(&pg->pending, append, link);
                        eng_append_free(append);
                }
                RB_REMOVE(eng_log_pg_tree, &pgs->tree, pg);
                free(pg);
        }
        eng_pgs_init(pgs);
}

struct eng_log_pg *eng_pgs_find(const struct eng_pgs *pgs, uint32_t number)
{
        struct eng_log_pg key = {.pg = number};

        if (number < ENG_PGS_NEAR)
                return pgs->near[number];
        return RB_FIND(eng_log_pg_tree, (struct eng_log_pg_tree *)&pgs->tree, &key);
}

struct eng_log_pg *eng_pgs_get(struct eng_pgs *pgs, uint32_t number)
{
        struct eng_log_pg *pg = eng_pgs_find(pgs, number), *there;

        if (pg != NULL)
                return pg;
        pg = calloc(1, sizeof(*pg));
        if (pg == NULL)
                return NULL;
        pg->pg = number;
        TAILQ_INIT(&pg->pending);
        there = RB_INSERT(eng_log_pg_tree, &pgs->tree, pg);
        assert(there == NULL);
        if (number < ENG_PGS_NEAR)
                pgs->near[number] = pg;
        pgs->count++;
        return pg;
}

struct eng_log_pg *eng_pgs_next(const struct eng_pgs *pgs, struct eng_log_pg *after)
{
        if (after == NULL)
                return RB_MIN(eng_log_pg_tree, (struct eng_log_pg_tree *)&pgs->tree);
        return RB_NEXT(eng_log_pg_tree, NULL, after);
}

bool eng_pgs_add(struct eng_pgs *pgs, struct eng_log_pg *pg, struct eng_append *append)
{
        const struct eng_append *last = TAILQ_LAST(&pgs->order, eng_append_list);
        struct eng_append *before;

        assert(append->rec.pg == pg->pg);
        assert(last == NULL || last->rec.file < append->rec.file ||
               (last->rec.file == append->rec.file && last->rec.position <= append->rec.position));
        TAILQ_FOREACH_REVERSE(before, &pg->pending, eng_append_list, link)
        {
                if (before->rec.seq <= append->rec.seq)
                        break;
        }
        if (before != NULL && before->rec.seq == append->rec.seq)
                return false;
        if (before != NULL)
                TAILQ_INSERT_AFTER(&pg->pending, before, append, link);
        else
                TAILQ_INSERT_HEAD(&pg->pending, append, link);
        TAILQ_INSERT_TAIL(&pgs->order, append, order);
        pgs->pending_count++;
        pgs->pending_bytes += append_bytes(append);
        if (append->rec.seq > pg->seen) {
                pg->seen = append->rec.seq;
                pg->epoch = append->rec.epoch;
        }
        return true;
}

/* What a MARKS record says was seen, and does not wait for COMMIT, was applied. */
static void catch_up(struct eng_log_pg *pg)
{
        const struct eng_append *first = TAILQ_FIRST(&pg->pending);

        if (pg->known <= pg->applied || (first != NULL && first->rec.seq <= pg->known))
                return;
        pg->applied = pg->known;
        pg->applied_epoch = pg->known_epoch;
        pg->dirty = true;
}

static void pending_leave(struct eng_pgs *pgs, struct eng_log_pg *pg, struct eng_append *append)
{
        assert(pgs->pending_count > 0 && pgs->pending_bytes >= append_bytes(append));
        TAILQ_REMOVE(&pg->pending, append, link);
        TAILQ_REMOVE(&pgs->order, append, order);
        pgs->pending_count--;
        pgs->pending_bytes -= append_bytes(append);
}

struct eng_append *eng_pgs_take(struct eng_pgs *pgs, struct eng_log_pg *pg, uint64_t up_to)
{
        struct eng_append *append = TAILQ_FIRST(&pg->pending);

        if (append == NULL || append->rec.seq > up_to)
                return NULL;
        pending_leave(pgs, pg, append);
        if (append->rec.seq > pg->applied) {
                pg->applied = append->rec.seq;
                pg->applied_epoch = append->rec.epoch;
        }
        pg->recent[pg->recent_next++ % ENG_PG_RECENT] = append->rec.seq;
        pg->dirty = true;
        catch_up(pg);
        return append;
}

struct eng_append *eng_pgs_find_pending(const struct eng_log_pg *pg, uint64_t seq)
{
        struct eng_append *append;

        TAILQ_FOREACH_REVERSE(append, &pg->pending, eng_append_list, link)
        {
                if (append->rec.seq <= seq)
                        break;
        }
        return append != NULL && append->rec.seq == seq ? append : NULL;
}

bool eng_pgs_applied_lately(const struct eng_log_pg *pg, uint64_t seq)
{
        unsigned i, n = pg->recent_next < ENG_PG_RECENT ? pg->recent_next : ENG_PG_RECENT;

        for (i = 0; i < n; i++)
                if (pg->recent[i] == seq)
                        return true;
        return false;
}

struct eng_buf *eng_pgs_void_body(const struct eng_pgs *pgs)
{
        const size_t len = pgs->pending_count * sizeof(struct fmt_void);
        struct eng_buf *body = len <= FMT_BODY_MAX ? eng_buf_new(len) : NULL;
        const struct eng_append *append;
        struct fmt_void one;
        size_t at = 0;

        if (body == NULL)
                return NULL;
        TAILQ_FOREACH (append, &pgs->order, order) {
                one = (struct fmt_void){.pg = append->rec.pg, .seq = append->rec.seq};
                memcpy(body->data + at, &one, sizeof(one));
                at += sizeof(one);
        }
        assert(at == len);
        return body;
}

void eng_pgs_void(struct eng_pgs *pgs, const struct fmt_void *which)
{
        struct eng_log_pg *pg = eng_pgs_find(pgs, which->pg);
        struct eng_append *append = pg != NULL ? eng_pgs_find_pending(pg, which->seq) : NULL;
        const struct eng_append *last;

        if (append == NULL)
                return;
        pending_leave(pgs, pg, append);
        eng_append_free(append);
        catch_up(pg);
        last = TAILQ_LAST(&pg->pending, eng_append_list);
        pg->seen = last != NULL && last->rec.seq > pg->applied ? last->rec.seq : pg->applied;
}

void eng_pgs_see(struct eng_log_pg *pg, uint64_t seq, uint64_t epoch)
{
        if (seq > pg->seen) {
                pg->seen = seq;
                pg->epoch = epoch;
        }
}

void eng_pgs_mark(struct eng_log_pg *pg, uint64_t seq, uint64_t epoch)
{
        eng_pgs_see(pg, seq, epoch);
        if (seq > pg->known) {
                pg->known = seq;
                pg->known_epoch = epoch;
        }
        catch_up(pg);
}

void eng_pgs_set_committed(struct eng_log_pg *pg, uint64_t committed)
{
        if (committed <= pg->committed)
                return;
        pg->committed = committed;
        pg->dirty = true;
}

static void fill_pending(struct eng_memtable_entry *out, const struct eng_log_pg *pg, const struct eng_append *append)
{
        memset(out, 0, sizeof(*out));
        out->pg = pg->pg;
        out->seq = append->rec.seq;
        out->committed = pg->committed;
        out->epoch = append->rec.epoch;
        out->pending = 1;
        out->body_len = append->rec.body_len;
}

static void fill_mark(struct eng_memtable_entry *out, const struct eng_log_pg *pg)
{
        memset(out, 0, sizeof(*out));
        out->pg = pg->pg;
        out->seq = pg->seen > pg->applied ? pg->seen : pg->applied;
        out->committed = pg->committed;
        out->epoch = pg->epoch;
        out->applied = pg->applied;
        out->applied_epoch = pg->applied_epoch;
}

struct eng_buf *eng_pgs_tail(const struct eng_pgs *pgs, uint32_t *count)
{
        const size_t n = (size_t)pgs->count + pgs->pending_count;
        struct eng_buf *buf = eng_buf_new(n * sizeof(struct eng_memtable_entry));
        const struct eng_append *append;
        struct eng_log_pg *pg = NULL;
        struct eng_memtable_entry entry;
        size_t at = 0;

        if (buf == NULL)
                return NULL;
        while ((pg = eng_pgs_next(pgs, pg)) != NULL) {
                TAILQ_FOREACH (append, &pg->pending, link) {
                        fill_pending(&entry, pg, append);
                        memcpy(buf->data + at++ * sizeof(entry), &entry, sizeof(entry));
                }
                fill_mark(&entry, pg);
                memcpy(buf->data + at++ * sizeof(entry), &entry, sizeof(entry));
        }
        assert(at == n);
        *count = (uint32_t)at;
        return buf;
}
