/*
 * people_admin.c - the directory as operators take it out, put it back, and make accounts in it (admin_people.c of
 * the server). Called on the admin thread, which waits; all work is on the first loop, whose index says what may be
 * done. Rules D15 to D17 of docs/design/people.md.
 */
#include <errno.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "gateway/people/people_queue.h"

#define ADMIN_WAIT_S   10
#define ADMIN_WALK     50u           /* entries between two looks at how much there is */
#define ADMIN_WALKS    40u           /* so that a call is short, however seldom its kind is */
#define ADMIN_BYTES    (256u << 10)  /* of a page; one entry more fits in any case */

/* What the two threads share. references: the caller, and the loop until it has answered. */
struct admin_people_call {
        struct lp_msg msg; /* first */
        struct gw_gateway *gw;
        _Atomic int references;
        pthread_mutex_t lock; /* over answered and rv */
        pthread_cond_t changed;
        bool answered;
        int rv;
        /* owner: the loop, until answered */
        bool look_only;
        enum gw_people_put result;
        unsigned kind;
        uint32_t position;
        bool more;
        char *texts; /* of a page, each with its NUL; or the text that is put */
        size_t len, size;
        struct gw_entity *entity;
        struct gw_people_terms *terms; /* whom the text means by names */
        struct gw_account_made account;
};

static void admin_people_drop(struct admin_people_call *call)
{
        if (atomic_fetch_sub(&call->references, 1) != 1)
                return;
        explicit_bzero(&call->account, sizeof(call->account));
        pthread_mutex_destroy(&call->lock);
        pthread_cond_destroy(&call->changed);
        free(call->texts);
        free(call->entity);
        free(call->terms);
        free(call);
}

static struct admin_people_call *admin_people_new(const struct gw_gateway *gw, void (*run)(struct lp_msg *msg))
{
        struct admin_people_call *call = calloc(1, sizeof(*call));
        pthread_condattr_t attr;

        if (call == NULL)
                return NULL;
        call->gw = gw->loops[0].gw;
        call->msg.run = run;
        atomic_init(&call->references, 2);
        pthread_mutex_init(&call->lock, NULL);
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_cond_init(&call->changed, &attr);
        pthread_condattr_destroy(&attr);
        return call;
}

static void admin_people_answer(struct admin_people_call *call, int rv)
{
        pthread_mutex_lock(&call->lock);
        call->rv = rv;
        call->answered = true;
        pthread_cond_signal(&call->changed);
        pthread_mutex_unlock(&call->lock);
        admin_people_drop(call);
}

/* As gw_people_done. */
static void admin_people_done(void *arg, int rv)
{
        admin_people_answer(arg, rv);
}

/* -ETIMEDOUT: the loop goes on, and what it finds is dropped. */
static int admin_people_wait(struct admin_people_call *call)
{
        struct timespec until;
        int rv = 0;

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += ADMIN_WAIT_S;
        lp_post(call->gw->loops[0].lp, &call->msg);
        pthread_mutex_lock(&call->lock);
        while (!call->answered && rv == 0)
                rv = pthread_cond_timedwait(&call->changed, &call->lock, &until);
        rv = call->answered ? call->rv : -ETIMEDOUT;
        pthread_mutex_unlock(&call->lock);
        return rv;
}

/* ---- taken out ------------------------------------------------------------------------------- */

static void admin_people_text(void *arg, uint64_t id, unsigned kind, struct eng_text *text)
{
        struct admin_people_call *call = arg;
        struct eng_str bytes = text != NULL ? eng_text_bytes(text) : (struct eng_str){NULL, 0};
        char *grown;

        if (kind != call->kind || text == NULL || call->rv != 0)
                return;
        if (call->len + bytes.len + 1 > call->size) {
                size_t size = 2 * call->size + bytes.len + 4096;

                grown = realloc(call->texts, size);
                if (grown == NULL) {
                        call->rv = -ENOMEM;
                        return;
                }
                call->texts = grown;
                call->size = size;
        }
        memcpy(call->texts + call->len, bytes.data, bytes.len);
        call->texts[call->len + bytes.len] = '\0';
        call->len += bytes.len + 1;
}

static void admin_people_read(struct lp_msg *msg)
{
        struct admin_people_call *call = (struct admin_people_call *)msg;

        call->more = true;
        if (gw_people_ready(call->gw) == NULL) {
                admin_people_answer(call, -EAGAIN);
                return;
        }
        for (unsigned i = 0; i < ADMIN_WALKS && call->more && call->len < ADMIN_BYTES && call->rv == 0; i++)
                call->more = eng_entries_walk(call->gw->store, &call->position, ADMIN_WALK, admin_people_text, call);
        admin_people_answer(call, call->rv);
}

int gw_people_texts(const struct gw_gateway *gw, unsigned kind, uint32_t *position, bool *more, char **texts,
                    size_t *len)
{
        struct admin_people_call *call = admin_people_new(gw, admin_people_read);
        int rv;

        if (call == NULL)
                return -ENOMEM;
        call->kind = kind;
        call->position = *position;
        rv = admin_people_wait(call);
        if (rv == 0) {
                *position = call->position;
                *more = call->more;
                *texts = call->texts;
                *len = call->len;
                call->texts = NULL;
        }
        admin_people_drop(call);
        return rv;
}

/* ---- put back -------------------------------------------------------------------------------- */

/* What is there under the name. */
static enum gw_people_put admin_people_result(const struct admin_people_call *call, struct eng_text *there)
{
        const struct gw_entity *entity;
        struct eng_str bytes = eng_text_bytes(there);

        if (bytes.len == call->len && memcmp(bytes.data, call->texts, call->len) == 0)
                return GW_PEOPLE_SAME;
        entity = gw_entity_form(there);
        return entity != NULL && strcasecmp(entity->id, call->entity->id) != 0 ? GW_PEOPLE_ANOTHER : GW_PEOPLE_DIFFERS;
}

static int admin_people_compare(struct admin_people_call *call)
{
        struct eng_text *there;
        int rv = eng_text_get(call->gw->store, gw_entity_number(&call->entity->who), call->entity->who.kind, &there);

        call->result = GW_PEOPLE_NEW;
        if (rv == -ENOENT) {
                rv = gw_people_id_refusal(call->gw->people, call->entity);
                return rv == 0 ? gw_terms_refusal(call->gw->people, call->terms) : rv;
        }
        if (rv != 0)
                return rv;
        call->result = admin_people_result(call, there);
        return 0;
}

static void admin_people_write(struct lp_msg *msg)
{
        struct admin_people_call *call = (struct admin_people_call *)msg;
        int rv = gw_people_ready(call->gw) == NULL ? -EAGAIN : admin_people_compare(call);

        if (rv == 0 && call->result == GW_PEOPLE_NEW && !call->look_only)
                rv = gw_people_create(&call->gw->loops[0], call->entity, call->terms, admin_people_done, call);
        else {
                admin_people_answer(call, rv);
                return;
        }
        if (rv != 0)
                admin_people_answer(call, rv);
}

/* The entry that is to be put, and whom it means. */
static int admin_people_take(struct admin_people_call *call, struct eng_str text)
{
        int rv = gw_terms_read(&text, &call->terms);

        if (rv != 0)
                return rv;
        call->entity = gw_entity_decode(text);
        if (call->entity == NULL)
                return errno == EBADMSG ? -EINVAL : -ENOMEM;
        call->texts = strndup(text.data, text.len);
        call->len = text.len;
        if (call->texts == NULL)
                return -ENOMEM;
        return gw_entity_id_valid(call->entity->who.kind, call->entity->id) ? 0 : -EILSEQ;
}

int gw_people_put(const struct gw_gateway *gw, const char *text, size_t len, bool look_only, enum gw_people_put *result,
                  bool *opens)
{
        struct admin_people_call *call = admin_people_new(gw, admin_people_write);
        const struct gw_sealer *sealer = &gw->sealer;
        int rv;

        if (call == NULL)
                return -ENOMEM;
        call->look_only = look_only;
        rv = admin_people_take(call, (struct eng_str){text, len});
        if (rv == 0)
                *opens = call->entity->who.kind != GW_ACCESS_KEY ||
                         (sealer->knows != NULL && sealer->knows(sealer->arg, call->entity->sealed));
        if (rv != 0)
                admin_people_drop(call); /* the loop's part */
        else
                rv = admin_people_wait(call);
        if (rv == 0)
                *result = call->result;
        admin_people_drop(call);
        return rv;
}

/* ---- accounts -------------------------------------------------------------------------------- */

/* Random letters of base32, and digits. False: there is no randomness. */
static bool account_names(struct gw_account_made *made)
{
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        unsigned char random[16 + GW_ACCOUNT_ID_LEN], secret[30], canonical[32];

        if (RAND_bytes(random, sizeof(random)) != 1 || RAND_bytes(secret, sizeof(secret)) != 1 ||
            RAND_bytes(canonical, sizeof(canonical)) != 1)
                return false;
        memcpy(made->access_key, "AKIA", 4);
        for (unsigned i = 0; i < 16; i++)
                made->access_key[4 + i] = letters[random[i] % 32];
        made->access_key[20] = '\0';
        made->id[0] = (char)('1' + random[16] % 9);
        for (unsigned i = 1; i < GW_ACCOUNT_ID_LEN; i++)
                made->id[i] = (char)('0' + random[16 + i] % 10);
        made->id[GW_ACCOUNT_ID_LEN] = '\0';
        s3_base64_encode(secret, sizeof(secret), made->secret_key);
        s3_hex_encode(canonical, sizeof(canonical), made->canonical_id);
        explicit_bzero(secret, sizeof(secret));
        return true;
}

/* The account is there: its root's key. */
static void account_made(void *arg, int rv)
{
        struct admin_people_call *call = arg;
        const struct gw_sealer *sealer = &call->gw->sealer;
        char sealed[GW_SEALED_MAX];
        struct gw_entity key = {.who = {.kind = GW_ACCESS_KEY},
                                .owner = call->account.id,
                                .sealed = sealed,
                                .created_ms = lp_wall_ms(),
                                .active = 1};

        strcpy(key.who.name, call->account.access_key);
        if (rv == 0)
                rv = sealer->seal(sealer->arg, call->account.access_key, call->account.secret_key, sealed,
                                  sizeof(sealed));
        if (rv == 0)
                rv = gw_people_create(&call->gw->loops[0], &key, NULL, admin_people_done, call);
        if (rv != 0)
                admin_people_answer(call, rv);
}

static void account_create(struct lp_msg *msg)
{
        struct admin_people_call *call = (struct admin_people_call *)msg;
        struct gw_entity account = {.who = {.kind = GW_ACCOUNT},
                                    .id = call->account.canonical_id,
                                    .title = call->account.title,
                                    .created_ms = lp_wall_ms()};
        int rv = gw_people_ready(call->gw) == NULL ? -EAGAIN : 0;

        strcpy(account.who.name, call->account.id);
        if (rv == 0)
                rv = gw_people_create(&call->gw->loops[0], &account, NULL, account_made, call);
        if (rv != 0)
                admin_people_answer(call, rv);
}

int gw_account_create(const struct gw_gateway *gw, const char *title, struct gw_account_made *out)
{
        struct admin_people_call *call;
        int rv = -ENOKEY;

        if (gw->sealer.seal == NULL)
                return rv;
        call = admin_people_new(gw, account_create);
        if (call == NULL)
                return -ENOMEM;
        snprintf(call->account.title, sizeof(call->account.title), "%s", title);
        if (account_names(&call->account)) {
                rv = admin_people_wait(call);
        } else {
                rv = -EIO;
                admin_people_drop(call); /* the loop's part */
        }
        if (rv == 0)
                *out = call->account;
        admin_people_drop(call);
        return rv;
}

/* Its keys, one after the other, then the account itself. */
static void account_delete_next(void *arg, int rv)
{
        struct admin_people_call *call = arg;
        struct gw_people *people = gw_people_ready(call->gw);
        struct gw_entity_name who = {.kind = GW_ACCESS_KEY};
        const struct gw_node *key;

        if (rv != 0 || people == NULL) {
                admin_people_answer(call, rv != 0 ? rv : -EAGAIN);
                return;
        }
        key = gw_index_after(&people->index, GW_ACCESS_KEY, call->account.id, "", NULL);
        if (key != NULL) {
                snprintf(who.name, sizeof(who.name), "%s", key->name);
                rv = gw_people_delete(&call->gw->loops[0], &who, 0, NULL, account_delete_next, call);
        } else {
                who.kind = GW_ACCOUNT;
                strcpy(who.name, call->account.id);
                rv = gw_people_delete(&call->gw->loops[0], &who, 0, NULL, admin_people_done, call);
        }
        if (rv != 0)
                admin_people_answer(call, rv);
}

static void account_delete(struct lp_msg *msg)
{
        struct admin_people_call *call = (struct admin_people_call *)msg;
        struct gw_people *people = gw_people_ready(call->gw);
        int rv = people == NULL ? -EAGAIN : 0;

        if (rv == 0 && strcmp(call->account.id, GW_FIRST_ACCOUNT) == 0)
                rv = -EPERM;
        if (rv == 0 && !gw_people_has_account(&call->gw->loops[0], call->account.id))
                rv = -ENOENT;
        for (unsigned kind = GW_USER; rv == 0 && kind < GW_ENTITY_KINDS_END; kind++)
                if (kind != GW_ACCESS_KEY && gw_index_count(&people->index, kind, call->account.id) > 0)
                        rv = -EBUSY;
        if (rv != 0)
                admin_people_answer(call, rv);
        else
                account_delete_next(call, 0);
}

int gw_account_delete(const struct gw_gateway *gw, const char *id)
{
        struct admin_people_call *call;
        int rv;

        if (strlen(id) != GW_ACCOUNT_ID_LEN)
                return -ENOENT;
        call = admin_people_new(gw, account_delete);
        if (call == NULL)
                return -ENOMEM;
        strcpy(call->account.id, id);
        rv = admin_people_wait(call);
        admin_people_drop(call);
        return rv;
}
