/*
 * call_send.c - see call_send.h.
 */
#include "engine/call/call_send.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* owner: home loop; link: the link while it is on its way */
struct sent {
        struct eng_leader_call link; /* first */
        struct eng_loop *el;
        enum eng_call_kind kind;
        eng_call_done done;
        void *arg;
        uint8_t *room;
        uint8_t *bulk;               /* copied; NULL: it is elsewhere, or none */
        uint8_t body[];
};

static void sent_free(struct sent *sent)
{
        free(sent->room);
        free(sent->bulk);
        free(sent);
}

static void sent_finish(struct sent *sent, const struct eng_call_answer *answer)
{
        sent->done(sent->arg, answer);
        sent_free(sent);
}

/* 0: there is room for so much now. */
static int sent_make_room(struct sent *sent, size_t room)
{
        uint8_t *memory = malloc(room + 1);

        if (memory == NULL)
                return -ENOMEM;
        free(sent->room);
        sent->room = sent->link.room = memory;
        sent->link.room_len = room;
        return 0;
}

static void sent_go(struct sent *sent)
{
        const struct eng_leader_link *link = sent->el->store->options.leader;

        link->call(link->arg, &sent->link);
}

static void sent_answered(struct eng_leader_call *call)
{
        struct sent *sent = (struct sent *)call;
        struct eng_call_answer answer = {.rv = -EHOSTDOWN, .recorded = call->outcome != ENG_LEADER_NOT_SENT};
        int rv;

        assert(eng_on_loop(sent->el));
        if (call->outcome != ENG_LEADER_ANSWERED) {
                sent_finish(sent, &answer);
                return;
        }
        rv = eng_call_get_answer(sent->kind, call->answer, call->answer_len, sent->room, call->answer_bulk, &answer);
        if (rv != 0) { /* it makes no sense: what became of it is not known */
                answer = (struct eng_call_answer){.rv = -EHOSTDOWN, .recorded = true};
        } else if (answer.rv == -EMSGSIZE && sent->kind == ENG_CALL_LOOKUP && answer.needs > call->room_len) {
                rv = sent_make_room(sent, answer.needs);
                if (rv == 0) {
                        sent_go(sent);
                        return;
                }
                answer = (struct eng_call_answer){.rv = rv};
        }
        sent_finish(sent, &answer);
}

/* The bulk of a call, copied into memory of its own where it is the caller's. */
static int sent_take_bulk(struct sent *sent, const struct eng_call_bulk *bulk)
{
        size_t len = 0;
        unsigned i;

        sent->link.bulk_count = bulk->count;
        for (i = 0; i < bulk->count; i++)
                len += bulk->piece[i].len;
        if (sent->kind != ENG_CALL_PUT && len > 0) {
                assert(bulk->count == 1);
                sent->bulk = malloc(len);
                if (sent->bulk == NULL)
                        return -ENOMEM;
                memcpy(sent->bulk, bulk->piece[0].bytes, len);
                sent->link.bulk[0].iov_base = sent->bulk;
                sent->link.bulk[0].iov_len = len;
                return 0;
        }
        for (i = 0; i < bulk->count; i++) {
                sent->link.bulk[i].iov_base = (void *)(uintptr_t)bulk->piece[i].bytes;
                sent->link.bulk[i].iov_len = bulk->piece[i].len;
        }
        return 0;
}

int eng_call_send(struct eng_store *store, const struct eng_call *call, size_t room, eng_call_done done, void *arg)
{
        uint8_t body[ENG_CALL_BODY_MAX];
        struct eng_call_bulk bulk;
        struct sent *sent;
        int len = eng_call_put(call, body, &bulk);

        assert(len > 0); /* callers have checked the bounds of engine.h */
        sent = calloc(1, sizeof(*sent) + (size_t)len);
        if (sent == NULL)
                return -ENOMEM;
        memcpy(sent->body, body, (size_t)len);
        sent->el = eng_here(store);
        sent->kind = call->kind;
        sent->done = done;
        sent->arg = arg;
        sent->link.body = sent->body;
        sent->link.body_len = (uint32_t)len;
        sent->link.reads = call->kind == ENG_CALL_LOOKUP || call->kind == ENG_CALL_MERGE;
        sent->link.key_hash = call->kind == ENG_CALL_LOOKUP ? eng_hash_of_key(0, call->lookup.name.data, call->lookup.name.len)
                                                            : eng_hash_of_key(call->bucket, call->key.len == 0 ? "" : call->key.data, call->key.len);
        sent->link.done = sent_answered;
        if (sent_take_bulk(sent, &bulk) != 0 || (room > 0 && sent_make_room(sent, room) != 0)) {
                sent_free(sent);
                return -ENOMEM;
        }
        sent_go(sent);
        return 0;
}
