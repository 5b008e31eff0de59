/*
 * remote_wire.c - see remote_wire.h: what an opening is told of a drive, and what is told of it
 * while it is used. What comes from outside is checked here.
 */
#include "remote/remote_wire.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "engine/drive/rec.h"

_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "structs go as they are");
_Static_assert(sizeof(struct rem_prefix) + REM_INFO_MAX <= NET_BODY_MAX && sizeof(struct rem_past) == 8 + 2 * FMT_ID,
               "info");
_Static_assert(sizeof(struct rem_head) + ENG_WIRE_BODY_MAX <= NET_BODY_MAX, "operation");

size_t rem_facts_write(const struct rem_facts *facts, uint8_t out[REM_INFO_MAX])
{
        struct rem_info info = {.created_ms = facts->identity.created_ms,
                                .features = facts->identity.features,
                                .slot = facts->identity.slot,
                                .layout = facts->identity.layout,
                                .epoch_len = (uint32_t)facts->epoch_len,
                                .history = (uint16_t)facts->history.count,
                                .damage_len = (uint16_t)strlen(facts->damage),
                                .log_lost = facts->log_lost};
        struct rem_past past;
        size_t at = sizeof(info);
        unsigned i;

        assert(facts->epoch_len <= REM_EPOCH_MAX && facts->history.count <= ENG_EPOCH_HISTORY);
        memcpy(info.store_id, facts->identity.store_id, FMT_ID);
        memcpy(info.drive_id, facts->identity.drive_id, FMT_ID);
        memcpy(out, &info, sizeof(info));
        memcpy(out + at, facts->epoch, facts->epoch_len);
        at += facts->epoch_len;
        for (i = 0; i < facts->history.count; i++, at += sizeof(past)) {
                past.number = facts->history.past[i].number;
                memcpy(past.id, facts->history.past[i].id, FMT_ID);
                memcpy(past.parent, facts->history.past[i].parent, FMT_ID);
                memcpy(out + at, &past, sizeof(past));
        }
        memcpy(out + at, facts->damage, info.damage_len);
        return at + info.damage_len;
}

int rem_facts_read(const uint8_t *bytes, size_t len, struct rem_facts *out)
{
        struct rem_info info;
        struct rem_past past;
        unsigned i;

        memset(out, 0, sizeof(*out));
        if (len < sizeof(info))
                return -EBADMSG;
        memcpy(&info, bytes, sizeof(info));
        if (info.epoch_len < sizeof(struct fmt_epoch) || info.epoch_len > REM_EPOCH_MAX ||
            info.history > ENG_EPOCH_HISTORY || info.damage_len >= REM_DAMAGE_MAX || info.log_lost > 1 ||
            info.slot >= ENG_DRIVES_MAX ||
            len != sizeof(info) + info.epoch_len + info.history * sizeof(past) + info.damage_len)
                return -EBADMSG;
        memcpy(out->identity.store_id, info.store_id, FMT_ID);
        memcpy(out->identity.drive_id, info.drive_id, FMT_ID);
        out->identity.slot = info.slot;
        out->identity.layout = info.layout;
        out->identity.created_ms = info.created_ms;
        out->identity.features = info.features;
        out->log_lost = info.log_lost == 1;
        out->epoch_len = info.epoch_len;
        bytes += sizeof(info);
        if (eng_rec_check_epoch(bytes, info.epoch_len) != 0)
                return -EBADMSG;
        memcpy(out->epoch, bytes, info.epoch_len);
        bytes += info.epoch_len;
        out->history.count = info.history;
        for (i = 0; i < info.history; i++, bytes += sizeof(past)) {
                memcpy(&past, bytes, sizeof(past));
                out->history.past[i].number = past.number;
                memcpy(out->history.past[i].id, past.id, FMT_ID);
                memcpy(out->history.past[i].parent, past.parent, FMT_ID);
        }
        memcpy(out->damage, bytes, info.damage_len);
        return 0;
}

int rem_refusal_read(const uint8_t *bytes, size_t len, struct rem_refusal *out)
{
        memset(out, 0, sizeof(*out));
        if (len == 0)
                return 0;
        if (len != sizeof(*out))
                return -EBADMSG;
        memcpy(out, bytes, sizeof(*out));
        return eng_term_is_sound(&out->newest) ? 0 : -EBADMSG;
}

int rem_pool_read(const uint8_t *bytes, size_t len, struct rem_pool_head *out, struct rem_slot *slots)
{
        unsigned i;

        if (len < sizeof(*out))
                return -EBADMSG;
        memcpy(out, bytes, sizeof(*out));
        if (out->count > REM_SLOTS_MAX || len != sizeof(*out) + out->count * sizeof(*slots) ||
            (out->flags & ~(REM_POOL_RELEASED | REM_POOL_HEARD)) != 0 || !eng_term_is_sound(&out->newest) ||
            !eng_term_is_sound(&out->opened) || !eng_term_is_sound(&out->granted))
                return -EBADMSG;
        memcpy(slots, bytes + sizeof(*out), out->count * sizeof(*slots));
        for (i = 0; i < out->count; i++)
                if (slots[i].slot >= REM_SLOTS_MAX || (i > 0 && slots[i].slot <= slots[i - 1].slot) ||
                    slots[i].incarnation == 0 ||
                    (slots[i].flags & ~(REM_SLOT_FAILED | REM_SLOT_FULL | REM_SLOT_OPENED)) != 0 ||
                    !eng_term_is_sound(&slots[i].durable))
                        return -EBADMSG;
        return 0;
}

void rem_pool_state_take(struct rem_pool_state *state, const struct rem_pool_head *head)
{
        state->newest = head->newest;
        state->opened = head->opened;
        state->granted = head->granted;
        state->left_ns = head->left_ns;
        state->heard_ns = head->heard_ns;
        state->released = (head->flags & REM_POOL_RELEASED) != 0;
        state->heard = (head->flags & REM_POOL_HEARD) != 0;
        state->note = head->note;
        state->count = head->count;
}

size_t rem_state_write(const struct eng_drive_info *info, uint64_t first, uint32_t values, uint8_t out[REM_STATE_MAX])
{
        struct rem_state state = {.first = first,
                                  .values = values,
                                  .failed = info->state == ENG_DRIVE_FAILED,
                                  .starved = info->starved,
                                  .reason_len = (uint16_t)strnlen(info->reason, REM_REASON_MAX - 1)};

#define REM_NUMBER_PUT(name) state.name = info->name;
        REM_NUMBERS(REM_NUMBER_PUT)
#undef REM_NUMBER_PUT
        memcpy(out, &state, sizeof(state));
        memcpy(out + sizeof(state), info->reason, state.reason_len);
        return sizeof(state) + state.reason_len;
}

int rem_state_read(const uint8_t *bytes, size_t len, struct rem_state *state, struct eng_drive_info *info)
{
        if (len < sizeof(*state))
                return -EBADMSG;
        memcpy(state, bytes, sizeof(*state));
        if (state->failed > 1 || state->starved > 1 || state->reason_len >= REM_REASON_MAX ||
            len != sizeof(*state) + state->reason_len)
                return -EBADMSG;
        info->state = state->failed ? ENG_DRIVE_FAILED : ENG_DRIVE_IN;
        info->starved = state->starved;
        memcpy(info->reason, bytes + sizeof(*state), state->reason_len);
        info->reason[state->reason_len] = '\0';
#define REM_NUMBER_TAKE(name) info->name = state->name;
        REM_NUMBERS(REM_NUMBER_TAKE)
#undef REM_NUMBER_TAKE
        return 0;
}
