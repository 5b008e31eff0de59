/*
 * sim_objects.c - clients that put, get, delete and update objects; the bytes of a part go the same
 * way.
 */
#include "tests/sim/sim_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"
#include "engine/home/home.h"
#include "tests/sim/sim_content.h"
#include "tests/sim/sim_loss.h"

#define CHUNK_MAX (64u << 10)
#define LOSS_AHEAD (16u << 20) /* the longest stripe */

/* ---- put ------------------------------------------------------------------------------------- */

static void pump(void *arg);

static uint64_t draw_size(void)
{
        uint64_t size;

        if (world.bytes_left == 0 || !sim_chance(SIM_CLIENTS, world.large))
                return sim_chance(SIM_CLIENTS, 8) ? sim_skewed(SIM_CLIENTS, 0, ENG_INLINE_MAX)
                                                  : sim_skewed(SIM_CLIENTS, 0, 3000);
        size = ENG_INLINE_MAX + 1 + sim_below(SIM_CLIENTS, 200u << 10);
        if (sim_chance(SIM_CLIENTS, 8))
                size = (1u << 20) + sim_below(SIM_CLIENTS, 3u << 20);
        if ((world.slow_puts || world.slow_gets) && sim_chance(SIM_CLIENTS, 2))
                size = (2u << 20) + sim_below(SIM_CLIENTS, 3u << 20);
        if (loss_planned() && sim_chance(SIM_LOSS, 4)) /* of several stripes */
                size = (1u << 20) + sim_below(SIM_LOSS, 6u << 20);
        world.bytes_left -= size < world.bytes_left ? size : world.bytes_left;
        return size;
}

static void put_done(void *arg, int rv, const struct eng_object *object)
{
        struct client *c = arg;

        rv = client_told(c, rv);
        c->put = NULL;
        if (c->is_part && rv == -ENOENT)
                client_dropped(c->op); /* its upload has ended */
        else if (!c->is_part && client_has_versions(c))
                versions_put_answered(c, rv, object);
        else
                client_answered(c, c->op, rv);
        if (rv == 0 && (content_of_etag(object->etag) != c->content || object->size != c->size))
                sim_fail("client %u: a put answers with another object than was put", c->number);
        if (rv == 0 && !c->is_part)
                c->seen[c->key] = c->content;
        if (c->is_part && rv == 0)
                client_saw(c, world.uploads[c->upload].reg, H_READ, H_VALUE(1, 1));
        else if (c->is_part && rv == -ENOENT)
                client_saw(c, world.uploads[c->upload].reg, H_ABSENT, 0);
        else if (rv != 0 && rv != -EEXIST && rv != -ESTALE && rv != -ENOENT && !(client_has_versions(c) && !c->is_part))
                client_error(c, rv);
        client_done(c, rv);
}

void object_describe(const struct client *c, struct eng_put_commit *commit, uint8_t attrs[CONTENT_ATTRS_MAX])
{
        commit->condition = c->condition;
        content_etag(c->content, commit->etag);
        memcpy(commit->tag, &c->content, sizeof(c->content));
        commit->attrs = attrs;
        commit->attrs_len = content_attrs(c->content, attrs);
}

int object_ask(struct client *c, uint32_t extra)
{
        int at = client_has_versions(c) ? versions_ask_put(c, extra)
                                        : client_asks(c, client_reg(c), H_WRITE, H_VALUE(c->content, c->content));
        struct history_op *op = history_at((unsigned)at);

        op->need = c->condition.if_absent    ? NEED_ABSENT
                   : c->condition.if_etag    ? NEED_CONTENT
                   : c->condition.if_present ? NEED_PRESENT
                                             : NEED_NOTHING;
        op->content = c->condition.if_etag ? content_of_etag(c->condition.etag) : 0;
        return at;
}

static void commit(struct client *c)
{
        struct eng_put_commit commit = {.attrs_len = 0};
        uint8_t attrs[CONTENT_ATTRS_MAX];
        char tags[16];

        object_describe(c, &commit, attrs);
        if (c->is_part)
                c->op = client_asks(c, world.uploads[c->upload].part_regs[c->part], H_WRITE, H_VALUE(c->content, c->content));
        else
                c->op = object_ask(c, versions_draw_extras(c, &commit.extras, tags));
        eng_put_commit(c->put, &commit, put_done, c);
}

static void give_up(struct client *c, int rv)
{
        eng_put_abort(c->put);
        c->put = NULL;
        client_error(c, rv);
        client_done(c, rv);
}

static void wake_put(void *arg)
{
        struct client *c = arg;

        if (c->put != NULL && !world.stopping)
                client_later(c, 0, pump);
}

/* Until a client has more of a body. */
static uint64_t put_pause(void)
{
        if (world.slow_puts && sim_chance(SIM_CLIENTS, 10))
                return sim_below(SIM_CLIENTS, 2 * SIM_S);
        return sim_chance(SIM_CLIENTS, 20) ? sim_below(SIM_CLIENTS, 200 * SIM_MS) : 2 * SIM_US;
}

static void pump(void *arg)
{
        static uint8_t chunk[CHUNK_MAX];
        struct client *c = arg;
        size_t n;
        ssize_t taken;

        if (world.stopping || c->put == NULL)
                return;
        client_moved(c);
        if (c->sent == c->size) {
                commit(c);
                return;
        }
        if (sim_chance(SIM_CLIENTS, 150)) {
                eng_put_abort(c->put);
                c->put = NULL;
                c->doing = "an aborted put";
                client_done(c, 0);
                return;
        }
        n = 1 + sim_below(SIM_CLIENTS, CHUNK_MAX);
        if (sim_chance(SIM_CLIENTS, 2))
                n = CHUNK_MAX;
        if (n > c->size - c->sent)
                n = (size_t)(c->size - c->sent);
        content_fill(c->content, c->sent, chunk, n);
        taken = eng_put_write(c->put, chunk, n);
        memset(chunk, 0xee, n);
        if (taken < 0) {
                give_up(c, (int)taken);
                return;
        }
        c->sent += (uint64_t)taken;
        if ((size_t)taken == n)
                client_later(c, put_pause(), pump);
}

static void begin_put(struct client *c)
{
        struct eng_put_params params = {
                .bucket = world.buckets[c->bucket].id,
                .key = client_key(c),
                .is_part = c->is_part,
                .part_number = c->part,
                .size = sim_chance(SIM_CLIENTS, 4) ? ENG_SIZE_UNKNOWN : c->size,
                .wake = wake_put,
                .arg = c,
        };
        int rv;

        if (c->is_part)
                memcpy(params.upload_id, world.uploads[c->upload].id, ENG_ID_LEN);
        c->content = content_new(c->size);
        c->sent = 0;
        rv = eng_put_open(c->store, &params, &c->put);
        if (rv != 0) {
                c->put = NULL;
                if (rv != -ENOENT || c->bucket == 0)
                        client_error(c, rv);
                client_done(c, rv);
                return;
        }
        client_later(c, 0, pump);
}

void object_put(struct client *c)
{
        c->doing = "put";
        c->is_part = false;
        c->part = 0;
        c->size = draw_size();
        begin_put(c);
}

void upload_part(struct client *c)
{
        c->doing = "part";
        c->is_part = true;
        c->part = 1 + (unsigned)sim_below(SIM_CLIENTS, PARTS_MAX);
        memset(&c->condition, 0, sizeof(c->condition));
        c->size = sim_chance(SIM_CLIENTS, 2) ? sim_skewed(SIM_CLIENTS, 0, 40000) : draw_size();
        begin_put(c);
}

/* ---- get ------------------------------------------------------------------------------------- */

static void pull(void *arg);

static void wake_get(void *arg)
{
        struct client *c = arg;

        if (c->get != NULL && !world.stopping)
                client_later(c, 0, pull);
}

/* Slots whose drives are not read from. */
static uint64_t slots_away(const struct eng_store *store)
{
        const struct eng_view *view = &store->coord->view;
        struct eng_epoch_info info;

        if (store->home == NULL)
                return eng_all_slots(store->drive_count) & ~store->coord->shape.gone & ~(view->in & view->up);
        if (eng_epoch_read(store->home->epoch, store->home->epoch_len, &info) != 0)
                sim_fail("a home has an epoch that nobody can read");
        return eng_all_slots(info.slots) & ~info.gone & ~home_view(store->home)->up;
}

/*
 * A thread that opens a drive may take seconds to begin. Its home serves without that drive meanwhile, and a new leader goes on
 * without those that it waited for in vain: they may be more than the code makes good for.
 */
static bool drives_open(const struct eng_store *store)
{
        unsigned i;

        for (i = 0; store->home != NULL && i < ENG_DRIVES_MAX; i++)
                if (store->home->slots[i].opening)
                        return false;
        return (unsigned)__builtin_popcountll(slots_away(store)) <= store->m;
}

static void end_get(struct client *c, int rv)
{
        bool lost = rv == -EIO && c->get != NULL && loss_meets(c->content, c->offset, c->end);

        if (world.reads_last && rv != 0 && rv != ENG_GET_BUSY && rv != -EAGAIN && drives_open(c->store))
                sim_fail("client %u: get of key %u, content %u, which had begun, ends with %d at %llu", c->number, c->key, c->content, rv,
                         (unsigned long long)c->offset);
        eng_get_close(c->get);
        c->get = NULL;
        if (rv != 0 && !lost)
                client_error(c, rv == ENG_GET_BUSY ? -EAGAIN : rv);
        client_done(c, rv);
}

/* ---- get of an object with stripes that are beyond repair ------------------------------------ */

static void begin_beside(struct client *c);

static void begin_beside_again(void *arg)
{
        begin_beside(arg);
}

/* All of it, which must fail; then each range between stripes that are lost, which must not. */
static void begin_beside(struct client *c)
{
        struct loss_range lost[LOSSES_MAX];
        unsigned n = loss_ranges(c->content, lost);
        int rv;

        if (world.stopping || c->get == NULL)
                return;
        c->offset = c->beside < 3 ? 0 : lost[c->beside - 3].to;
        c->end = c->beside < 2 || c->beside == n + 2 ? content_of(c->content)->size : lost[c->beside - 2].from;
        c->crc = 0;
        if (c->beside > n + 2) {
                end_get(c, 0);
                return;
        }
        if (c->offset == c->end) {
                c->beside++;
                begin_beside(c);
                return;
        }
        eng_get_sum(c->get);
        rv = eng_get_start(c->get, c->offset, c->end - c->offset, wake_get, c);
        if (rv == ENG_GET_BUSY)
                client_later(c, SIM_MS, begin_beside_again);
        else if (rv != 0)
                end_get(c, rv);
        else
                pull(c);
}

/* A range has come to its end; one stripe is read ahead. */
static void beside_over(struct client *c, int rv)
{
        struct loss_range lost[LOSSES_MAX];

        (void)loss_ranges(c->content, lost);
        if (c->beside == 1 && rv != -EIO)
                sim_fail("client %u: get of key %u, which is lost from %llu on, ends with %d", c->number, c->key,
                         (unsigned long long)lost[0].from, rv);
        if (c->beside == 1 && (c->offset > lost[0].from || c->offset + (lost[0].to - lost[0].from) + LOSS_AHEAD < lost[0].from))
                sim_fail("client %u: get of key %u, which is lost from %llu on, fails at %llu", c->number, c->key,
                         (unsigned long long)lost[0].from, (unsigned long long)c->offset);
        if (c->beside > 1 && rv != 0)
                sim_fail("client %u: get of key %u from %llu to %llu, beside what is lost, ends with %d", c->number, c->key,
                         (unsigned long long)c->offset, (unsigned long long)c->end, rv);
        c->beside++;
        begin_beside(c);
}

static bool is_lost(const struct client *c)
{
        return c->verifying && loss_meets(c->content, 0, UINT64_MAX);
}

static void begin_range(struct client *c, uint64_t size)
{
        int rv;

        c->offset = 0;
        c->end = size;
        if (size > 0 && !c->verifying && sim_chance(SIM_CLIENTS, 2)) {
                c->offset = sim_below(SIM_CLIENTS, size);
                c->end = c->offset + 1 + sim_skewed(SIM_CLIENTS, 0, size - c->offset - 1);
        }
        c->crc = 0;
        eng_get_sum(c->get);
        rv = eng_get_start(c->get, c->offset, c->end - c->offset, wake_get, c);
        if (rv != 0)
                end_get(c, rv);
        else
                pull(c);
}

static void check_bytes(struct client *c, const uint8_t *data, size_t len)
{
        if (c->offset + len > c->end)
                sim_fail("client %u: get of key %u gives more bytes than it was asked for", c->number, c->key);
        if (!content_equals(c->content, c->offset, data, len))
                sim_fail("client %u: get of key %u: wrong bytes in %zu from %llu of content %u (I5)", c->number, c->key,
                         len, (unsigned long long)c->offset, c->content);
        c->offset += len;
        c->crc = era_crc32c(c->crc, data, len);
}

static void pull(void *arg)
{
        struct client *c = arg;
        const uint8_t *data;
        size_t len;
        int rv;

        if (world.stopping || c->get == NULL)
                return;
        client_moved(c);
        while ((rv = eng_get_next(c->get, &data, &len)) == 0) {
                check_bytes(c, data, len);
                if (c->slow && sim_chance(SIM_CLIENTS, 2)) {
                        client_later(c, sim_chance(SIM_CLIENTS, 3) ? 4 * SIM_S : sim_skewed(SIM_CLIENTS, 1, SIM_S),
                                     pull);
                        return;
                }
        }
        if (rv == -EAGAIN)
                return;
        if (rv == -ENODATA && c->offset != c->end)
                sim_fail("client %u: get of key %u ends at %llu instead of %llu", c->number, c->key,
                         (unsigned long long)c->offset, (unsigned long long)c->end);
        if (rv == -ENODATA && c->crc != eng_get_crc32c(c->get))
                sim_fail("client %u: get of key %u: the CRC of other bytes than were given", c->number, c->key);
        if (c->beside != 0) {
                beside_over(c, rv == -ENODATA ? 0 : rv);
                return;
        }
        if (rv == -ENODATA && c->ranges-- > 0)
                begin_range(c, content_of(c->content)->size);
        else
                end_get(c, rv == -ENODATA ? 0 : rv);
}

static void check_object(struct client *c, const struct eng_object *object)
{
        uint8_t attrs[CONTENT_ATTRS_MAX];
        size_t len;

        c->content = content_of_etag(object->etag);
        memcpy(&c->tag, object->tag, sizeof(c->tag));
        if (c->content == 0 || content_of(c->content)->size != object->size ||
            content_of(c->content)->part_count != object->etag_parts)
                sim_fail("client %u: get of key %u: an object that nobody wrote", c->number, c->key);
        len = content_attrs(c->tag, attrs);
        if (len != object->attrs.len || memcmp(attrs, object->attrs.data, len) != 0)
                sim_fail("client %u: get of key %u: wrong attrs", c->number, c->key);
}

static void opened(void *arg, int rv, struct eng_get *get)
{
        struct client *c = arg;

        if (rv == 0 && !eng_get_object(get)->marker) {
                check_object(c, eng_get_object(get));
                c->seen[c->key] = c->content;
        }
        if (client_has_versions(c)) {
                versions_opened(c, rv, rv == 0 ? eng_get_object(get) : NULL);
        } else if (rv == 0) {
                if (eng_get_object(get)->marker)
                        sim_fail("client %u: a delete marker in a bucket without versions", c->number);
                client_saw(c, client_reg(c), H_READ, H_VALUE(c->content, c->tag));
        } else if (rv == -ENOENT) {
                client_saw(c, client_reg(c), H_READ, 0);
        } else {
                client_error(c, rv);
        }
        if (rv != 0) {
                client_done(c, rv);
                return;
        }
        c->get = get;
        if (world.stopping || eng_get_object(get)->marker) {
                end_get(c, 0);
                return;
        }
        client_moved(c);
        c->slow = !c->verifying && world.pace == 0 && sim_chance(SIM_CLIENTS, world.slow_gets ? 2 : 8);
        c->ranges = sim_chance(SIM_CLIENTS, 8) ? 1 : 0;
        c->beside = is_lost(c);
        if (c->beside != 0)
                begin_beside(c);
        else
                begin_range(c, eng_get_object(get)->size);
}

void object_get(struct client *c)
{
        c->doing = "get";
        eng_get_open(c->store, world.buckets[c->bucket].id, client_key(c), c->by_version ? &c->version : NULL, opened, c);
}

/* ---- delete and update ----------------------------------------------------------------------- */

static void need_of(struct client *c)
{
        struct history_op *op = history_at((unsigned)c->op);

        if (c->condition.if_etag) {
                op->need = NEED_CONTENT;
                op->content = content_of_etag(c->condition.etag);
        }
}

static void deleted(void *arg, int rv, const struct eng_deleted *what)
{
        struct client *c = arg;

        rv = client_told(c, rv);
        if (rv == 0 && !what->existed)
                client_instead(c->op, H_ABSENT);
        else
                client_answered(c, c->op, rv);
        if (rv != 0 && rv != -ESTALE && rv != -ENOENT)
                client_error(c, rv);
        client_done(c, rv);
}

void object_delete(struct client *c)
{
        struct eng_delete_params params = {0};

        c->doing = "delete";
        c->condition.if_absent = false;
        c->op = client_asks(c, client_reg(c), H_DELETE, 0);
        need_of(c);
        params.bucket = world.buckets[c->bucket].id;
        params.key = client_key(c);
        params.condition = c->condition;
        eng_delete(c->store, &params, deleted, c);
}

static void updated(void *arg, int rv, const struct eng_object *object)
{
        struct client *c = arg;

        rv = client_told(c, rv);
        if (rv == 0) {
                history_at((unsigned)c->op)->value = H_VALUE(content_of_etag(object->etag), c->tag);
                client_took(c->op);
        } else if (rv == -ENOENT) {
                client_instead(c->op, H_ABSENT);
        } else {
                client_answered(c, c->op, rv);
        }
        if (rv != 0 && rv != -ESTALE && rv != -ENOENT && rv != -EEXIST)
                client_error(c, rv);
        client_done(c, rv);
}

void object_update(struct client *c)
{
        uint8_t attrs[CONTENT_ATTRS_MAX], tag[8] = {0};
        size_t len;

        c->doing = "update";
        memset(&c->condition, 0, sizeof(c->condition));
        c->tag = content_new(0);
        memcpy(tag, &c->tag, sizeof(c->tag));
        len = content_attrs(c->tag, attrs);
        c->op = client_asks(c, client_reg(c), H_UPDATE, H_VALUE(0, c->tag));
        eng_update(c->store, world.buckets[c->bucket].id, client_key(c), &c->condition, attrs, len, tag, updated, c);
}
