/*
 * home_state.c - the state of a pool and its configuration, as its leader gives them to home stores. The
 * leader's coordinator.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "engine/bucket/config_digest.h"
#include "engine/bucket/config_feed.h"
#include "engine/drive/rec.h"
#include "engine/home/home_state.h"

_Static_assert(sizeof(struct home_state) + FMT_EPOCH_MAX(ENG_DRIVES_MAX) <= ENG_HOME_STATE_MAX, "engine_home.h");
_Static_assert(sizeof(struct eng_row_cursor) <= sizeof(((struct eng_home_reading *)NULL)->cursor), "engine_home.h");

bool eng_home_serves(const struct eng_store *store)
{
        assert(eng_on_coordinator(store));
        return store->coord->view.ready && store->coord->phase == ENG_PHASE_OPEN;
}

uint64_t eng_homes_calls(const struct eng_store *store)
{
        uint64_t sum = 0;
        unsigned i;

        for (i = 0; i < store->loop_count; i++)
                sum += atomic_load_explicit(&store->loops[i].leader.homes_calls, memory_order_relaxed);
        return sum;
}

size_t eng_home_state_write(struct eng_store *store, uint8_t out[ENG_HOME_STATE_MAX])
{
        const struct eng_coord *c = store->coord;
        const struct eng_view *view = &c->view;
        struct home_state state = {.up = view->up & (view->in | view->joining)};

        assert(eng_on_coordinator(store));
        if (c->body == NULL)
                return 0;
        state.epoch_len = c->body->len;
        state.flags = (eng_home_serves(store) ? HOME_READY : 0) | (view->in_doubt ? HOME_IN_DOUBT : 0) |
                      (view->writable ? HOME_WRITABLE : 0) | (atomic_load(&store->full) ? HOME_FULL : 0) |
                      (atomic_load(&store->stalled) ? HOME_STALLED : 0);
        memcpy(out, &state, sizeof(state));
        memcpy(out + sizeof(state), c->body->data, c->body->len);
        return sizeof(state) + c->body->len;
}

int home_state_read(const uint8_t *bytes, size_t len, struct home_state *out, struct eng_epoch_info *info)
{
        if (len < sizeof(*out))
                return -EBADMSG;
        memcpy(out, bytes, sizeof(*out));
        if (out->epoch_len != len - sizeof(*out) || (out->flags & ~HOME_FLAGS) != 0 || out->epoch_len > FMT_EPOCH_MAX(ENG_DRIVES_MAX))
                return -EBADMSG;
        if (eng_epoch_read(bytes + sizeof(*out), out->epoch_len, info) != 0 || info->slots == 0 || info->in == 0)
                return -EBADMSG;
        return 0;
}

void eng_home_watch(struct eng_store *store, void (*changed)(void *arg), void *arg)
{
        eng_feed_watch(store, changed, arg);
}

void eng_homes_set(struct eng_store *store, const struct eng_homes *homes)
{
        store->coord->homes = homes;
}

/* What changed in a loop's copy and is not in the feed yet is given again when it is. */
static bool has_all_rows(struct eng_store *store, const struct eng_rows_digest *said)
{
        struct eng_rows_digest own;

        eng_home_digest(store, &own);
        return eng_digest_same(&own, said);
}

size_t eng_home_rows_write(struct eng_store *store, struct eng_home_reading *reading, uint8_t *out, bool *first, bool *last)
{
        struct eng_row_cursor *cursor = (struct eng_row_cursor *)(void *)reading->cursor;
        struct eng_row_key key;
        const uint32_t given = store->options.home_rows_bytes, most = given != 0 && given < ENG_HOME_ROWS_MAX ? given : ENG_HOME_ROWS_MAX;
        uint64_t version = reading->version;
        size_t len = 0;
        bool stale;
        int rv = 1;

        assert(eng_on_coordinator(store));
        *first = *last = false;
        reading->more = true;
        if (store->coord->phase != ENG_PHASE_OPEN) /* what is read from drives at the start is no change that would follow */
                return 0;
        stale = !reading->all && eng_feed_next(store, &version, &key) == -ESTALE;
        reading->same = stale && reading->says && has_all_rows(store, &reading->digest);
        reading->says = false;
        if (reading->same) {
                reading->more = false;
                reading->version = eng_feed_version(store);
                return 0;
        }
        if (stale) {
                memset(reading, 0, sizeof(*reading));
                reading->all = true;
                reading->from = eng_feed_version(store);
                *first = true;
        }
        while (len == 0 || len + ENG_ROW_MAX <= most) {
                rv = reading->all ? eng_row_next(store, cursor, &key) : eng_feed_next(store, &reading->version, &key) == 0;
                if (rv != 1)
                        break;
                len += eng_row_put(store, &key, out + len);
        }
        if (reading->all && rv != 1) {
                *last = true;
                reading->all = false;
                reading->version = reading->from;
        }
        reading->more = reading->all || reading->version != eng_feed_version(store);
        return len;
}
