/*
 * people.c - the directory: entities found on any loop, and the index of the first loop, which follows
 * the entries of the store.
 *
 * What there was at the start is gone through some entries at a time, so that the loop serves meanwhile;
 * each change is told by the engine before it is answered (E4 in docs/design/people.md). Where the index
 * has no memory for an entry it is made again from the beginning.
 */
#include "gateway/people/people.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/http/operation.h"
#include "gateway/people/people_queue.h"

#define WALK_STEP 50u         /* entries in one turn of the loop */
#define WALK_NS   1000000ull  /* and then so long nothing */
#define CLOSED_NS 10000000ull /* while the store is not open */

/* ---- forms ----------------------------------------------------------------------------------- */

/* What is kept with the text of an entity: what it says, and its policies once somebody has asked. */
struct entity_form {
        struct gw_entity *entity;
        _Atomic(struct gw_policies *) policies;
};

static void entity_drop(void *form)
{
        struct entity_form *made = form;

        gw_policies_free(atomic_load(&made->policies));
        free(made->entity);
        free(made);
}

static void *entity_make(struct eng_str bytes, void *arg)
{
        struct entity_form *made = malloc(sizeof(*made));

        if (made == NULL)
                return NULL;
        atomic_init(&made->policies, NULL);
        made->entity = gw_entity_decode(bytes);
        if (made->entity == NULL) {
                free(made);
                return NULL;
        }
        return made;
}

/* NULL, and errno: EBADMSG, it is no such text; ENOMEM. */
static struct entity_form *entity_form_of(struct eng_text *text)
{
        errno = ENOMEM; /* of what eng_text_form() itself needs */
        return eng_text_form(text, entity_make, NULL, entity_drop);
}

const struct gw_entity *gw_entity_form(struct eng_text *text)
{
        const struct entity_form *made = entity_form_of(text);

        return made != NULL ? made->entity : NULL;
}

static int people_find_form(struct gw_loop *loop, const struct gw_entity_name *who, struct entity_form **out,
                            uint64_t *generation)
{
        struct eng_text *text;
        int rv = eng_text_get(loop->gw->store, gw_entity_number(who), who->kind, &text);

        if (rv != 0)
                return rv;
        *out = entity_form_of(text);
        if (*out == NULL)
                return errno == EBADMSG ? -EIO : -ENOMEM;
        if (!gw_entity_same(&(*out)->entity->who, who))
                return -ENOENT; /* another one whose number is the same */
        if (generation != NULL)
                *generation = eng_text_generation(text);
        return 0;
}

int gw_people_find(struct gw_loop *loop, const struct gw_entity_name *who, const struct gw_entity **out,
                   uint64_t *generation)
{
        struct entity_form *made;
        int rv = people_find_form(loop, who, &made, generation);

        if (rv == 0)
                *out = made->entity;
        return rv;
}

/* Two loops may compile them at once; one of the two stays. */
static const struct gw_policies *form_policies(struct entity_form *made)
{
        struct gw_policies *there = atomic_load(&made->policies), *mine;

        if (there != NULL)
                return there;
        mine = gw_policies_compile(made->entity);
        if (mine == NULL || atomic_compare_exchange_strong(&made->policies, &there, mine))
                return mine;
        gw_policies_free(mine);
        return there;
}

int gw_people_policies(struct gw_loop *loop, const struct gw_entity_name *who, const struct gw_entity **entity,
                       const struct gw_policies **out)
{
        struct entity_form *made;
        int rv = people_find_form(loop, who, &made, NULL);

        if (rv != 0)
                return rv;
        *out = form_policies(made);
        if (entity != NULL)
                *entity = made->entity;
        return *out != NULL ? 0 : -ENOMEM;
}

int gw_people_managed(struct gw_loop *loop, const char *arn, const struct gw_policies **out)
{
        char own[GW_ENTITY_PATH_MAX + GW_ENTITY_NAME_MAX + 64];
        const struct gw_entity *entity;
        struct gw_entity_name who;
        int rv = gw_entity_of_arn(arn, &who);

        if (rv == 0 && who.kind != GW_POLICY)
                rv = -EINVAL;
        if (rv == 0)
                rv = gw_people_policies(loop, &who, &entity, out);
        if (rv == 0 && (!gw_entity_arn(entity, own, sizeof(own)) || strcasecmp(own, arn) != 0))
                rv = -ENOENT; /* its path is another one */
        return rv;
}

int gw_people_find_key(struct gw_loop *loop, const char *access_key, const struct gw_entity **out)
{
        struct gw_entity_name who = {.kind = GW_ACCESS_KEY};

        if (strlen(access_key) > GW_ENTITY_NAME_MAX)
                return -ENOENT;
        strcpy(who.name, access_key);
        return gw_people_find(loop, &who, out, NULL);
}

int gw_people_find_arn(struct gw_loop *loop, const char *arn, const struct gw_entity **out, uint64_t *generation)
{
        struct gw_entity_name who;
        int rv = gw_entity_of_arn(arn, &who);
        char own[GW_ENTITY_PATH_MAX + GW_ENTITY_NAME_MAX + 64];

        if (rv == 0)
                rv = gw_people_find(loop, &who, out, generation);
        if (rv == 0 && (!gw_entity_arn(*out, own, sizeof(own)) || strcasecmp(own, arn) != 0))
                rv = -ENOENT; /* its path is another one */
        return rv;
}

bool gw_people_has_account(struct gw_loop *loop, const char *account)
{
        struct gw_entity_name who = {.kind = GW_ACCOUNT};
        const struct gw_entity *entity;

        if (strcmp(account, GW_FIRST_ACCOUNT) == 0)
                return true;
        if (strlen(account) != GW_ACCOUNT_ID_LEN)
                return false;
        memcpy(who.name, account, GW_ACCOUNT_ID_LEN);
        return gw_people_find(loop, &who, &entity, NULL) == 0;
}

/* A key's user, or the account whose root it is of, is there and can be read. */
static bool has_owner(struct gw_loop *loop, const struct gw_entity *key)
{
        struct gw_entity_name who = {.kind = GW_USER};
        const struct gw_entity *user;

        if (key->who.of[0] == '\0')
                return strcmp(key->owner, GW_FIRST_ACCOUNT) != 0 && gw_people_has_account(loop, key->owner);
        strcpy(who.account, key->owner);
        strcpy(who.name, key->who.of);
        return gw_people_find(loop, &who, &user, NULL) == 0;
}

bool gw_people_signer(struct gw_loop *loop, const char *access_key, struct gw_credential *out)
{
        const struct gw_sealer *sealer = &loop->gw->sealer;
        const struct gw_entity *key;

        memset(out, 0, sizeof(*out));
        if (sealer->open == NULL || gw_people_find_key(loop, access_key, &key) != 0 || !key->active ||
            !has_owner(loop, key))
                return false;
        if (strcmp(key->who.name, access_key) != 0)
                return false; /* case matters here */
        snprintf(out->access_key, sizeof(out->access_key), "%s", access_key);
        return sealer->open(sealer->arg, key->who.name, key->sealed, out->secret_key, sizeof(out->secret_key)) == 0;
}

/* ---- the index ------------------------------------------------------------------------------- */

static void index_again(struct gw_people *people, uint64_t delay_ns)
{
        gw_index_free(&people->index);
        gw_renames_forget(&people->renames);
        people->position = 0;
        people->ready = false;
        lp_timer_start(people->gw->loops[0].lp, &people->timer, delay_ns);
}

/*
 * Of a text that cannot be read nothing is known: whoever looks for it gets -EIO. The text is read for the
 * index alone, and no form is kept of it: most entities are looked for seldom.
 */
static int index_take(struct gw_people *people, struct eng_text *text)
{
        struct gw_entity *entity = gw_entity_decode(eng_text_bytes(text));
        const struct gw_sealer *sealer = &people->gw->sealer;
        int rv;

        if (entity == NULL)
                return errno == EBADMSG ? 0 : -ENOMEM;
        if (entity->who.kind == GW_ACCESS_KEY && sealer->knows != NULL)
                sealer->knows(sealer->arg, entity->sealed); /* tells which key is missing */
        rv = gw_index_put(&people->index, entity);
        if (rv == 0)
                rv = gw_rename_seen(&people->renames, entity);
        free(entity);
        return rv;
}

struct index_step {
        struct gw_people *people;
        int rv;
};

static void index_walked(void *arg, uint64_t id, unsigned kind, struct eng_text *text)
{
        struct index_step *step = arg;

        if (text != NULL && kind >= GW_ACCOUNT && kind < GW_ENTITY_KINDS_END && step->rv == 0)
                step->rv = index_take(step->people, text);
}

static void people_step(struct lp_timer *timer)
{
        struct gw_people *people = container_of(timer, struct gw_people, timer);
        struct index_step step = {.people = people};
        struct eng_text *text;
        bool more;

        if (eng_text_get(people->gw->store, 0, GW_ACCOUNT, &text) == -EHOSTDOWN) {
                lp_timer_start(people->gw->loops[0].lp, timer, CLOSED_NS);
                return;
        }
        if (people->opened_ns == 0)
                people->opened_ns = lp_clock();
        more = eng_entries_walk(people->gw->store, &people->position, WALK_STEP, index_walked, &step);
        if (step.rv != 0)
                index_again(people, CLOSED_NS);
        else if (more)
                lp_timer_start(people->gw->loops[0].lp, timer, WALK_NS);
        else
                people->ready = true;
        if (people->ready)
                gw_people_renames_go(people);
        if (people->ready || lp_clock() - people->opened_ns > GW_PEOPLE_WAIT_MS * 1000000ull)
                atomic_store(&people->known, true);
}

/* What was opened with a key ends with it, and with its being active. */
static void key_changed(struct gw_people *people, const char *name)
{
        const struct gw_entity *key;

        if (gw_people_find_key(&people->gw->loops[0], name, &key) != 0 || !key->active)
                people->gw->service->credential_gone(people->gw, name);
}

static void entry_changed(void *arg, unsigned loop, uint64_t id, unsigned kind)
{
        struct gw_people *people = arg;
        const struct gw_node *node;
        struct eng_text *text;
        int rv;

        if (loop != 0 || kind < GW_ACCOUNT || kind >= GW_ENTITY_KINDS_END)
                return;
        node = gw_index_number(&people->index, kind, id);
        if (node != NULL && kind == GW_ACCESS_KEY)
                key_changed(people, node->name);
        rv = eng_text_get(people->gw->store, id, kind, &text);
        gw_index_remove(&people->index, kind, id);
        gw_rename_gone(&people->renames, kind, id);
        if (rv == 0 && index_take(people, text) != 0)
                index_again(people, CLOSED_NS);
}

struct gw_people *gw_people_ready(struct gw_gateway *gw)
{
        return gw->people != NULL && gw->people->ready ? gw->people : NULL;
}

bool gw_people_known(const struct gw_gateway *gw)
{
        return gw->people == NULL || atomic_load(&gw->people->known);
}

/* ---- start and end --------------------------------------------------------------------------- */

static void people_begin(struct lp_msg *msg)
{
        struct gw_people *people = container_of(msg, struct gw_people, start);

        people_step(&people->timer);
}

int gw_people_start(struct gw_gateway *gw)
{
        struct gw_people *people = calloc(1, sizeof(*people));

        assert(gw->people == NULL);
        if (people == NULL)
                return -ENOMEM;
        people->gw = gw;
        people->timer.expired = people_step;
        people->start.run = people_begin;
        gw_index_init(&people->index);
        STAILQ_INIT(&people->changes);
        TAILQ_INIT(&people->renames);
        gw->people = people;
        eng_entries_watch(gw->store, entry_changed, people);
        lp_post(gw->loops[0].lp, &people->start);
        return 0;
}

void gw_people_free(struct gw_gateway *gw)
{
        struct gw_people *people = gw->people;

        if (people == NULL)
                return;
        gw->people = NULL;
        eng_entries_watch(gw->store, NULL, NULL);
        lp_timer_stop(gw->loops[0].lp, &people->timer);
        lp_timer_stop(gw->loops[0].lp, &people->again);
        gw_index_free(&people->index);
        gw_renames_forget(&people->renames);
        people->gw = NULL;
        if (gw_people_drop_changes(people))
                free(people);
}
