/*
 * people_change.c - changes of the directory: decided on the first loop, one after the other, so that
 * what was looked at still holds when it is recorded. Then one entry is set or deleted, and the answer
 * goes to the loop that asked.
 */
#include "gateway/people/bucket_owner.h"
#include "gateway/people/people.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gateway/people/people_queue.h"
#include "gateway/people/quotas.h"

#define CHANGES_MAX 256u /* waiting; beyond: -EAGAIN */
#define AGAINS_MAX  500u                    /* that a change is decided again, ... */
#define AGAIN_NS    (10ull * 1000 * 1000) /* ... so much later */

enum change_kind {
        CHANGE_CREATE,
        CHANGE_REPLACE,
        CHANGE_DELETE,
        CHANGE_RENAME,   /* several records, one after the other: people_rename.h */
        CHANGE_CONTINUE, /* of a rename that was cut off; nobody has asked */
};

/* owner: home until sent, then the first loop until answered */
struct gw_change {
        struct lp_msg msg; /* first */
        STAILQ_ENTRY(gw_change) link;
        struct gw_loop *home;
        struct gw_people *people; /* once it is in the queue */
        enum change_kind kind;
        struct gw_entity_name who; /* of a rename: what it is called now */
        uint64_t generation;       /* that it takes the place of */
        struct gw_entity *entity;  /* as it is to be; NULL: deleted */
        struct gw_people_terms *terms;
        char *text;
        size_t len;
        struct gw_rename_place place; /* of a rename */
        bool goes_on;                 /* likewise: a record was made */
        unsigned agains;
        gw_people_done done;
        void *arg;
        int rv;
};

static struct gw_loop *first_loop(const struct gw_change *change)
{
        return &change->home->gw->loops[0];
}

/* ---- what is allowed ------------------------------------------------------------------------- */

static unsigned policy_chars(const char *text)
{
        unsigned count = 0;

        for (; *text != '\0'; text++)
                count += strchr(" \t\r\n", *text) == NULL;
        return count;
}

static bool inline_fits(const struct gw_entity *entity)
{
        const struct gw_pairs *set = &entity->sets[GW_SET_INLINE];
        unsigned most = entity->who.kind == GW_USER    ? INLINE_USER_CHARS
                        : entity->who.kind == GW_GROUP ? INLINE_GROUP_CHARS
                                                       : INLINE_ROLE_CHARS;
        unsigned chars = 0, i;

        for (i = 0; i < set->count; i++)
                chars += policy_chars(set->list[i].text);
        return chars <= most;
}

static bool versions_fit(const struct gw_entity *entity)
{
        const struct gw_pairs *set = &entity->sets[GW_SET_VERSIONS];
        unsigned i;

        for (i = 0; i < set->count; i++)
                if (policy_chars(set->list[i].text) > POLICY_CHARS)
                        return false;
        return set->count <= VERSIONS_MAX;
}

static bool sets_fit(const struct gw_entity *entity)
{
        return entity->sets[GW_SET_GROUPS].count <= GROUPS_OF_USER_MAX &&
               entity->sets[GW_SET_ATTACHED].count <= ATTACHED_MAX && entity->sets[GW_SET_TAGS].count <= TAGS_MAX &&
               entity->sets[GW_SET_THUMBPRINTS].count <= THUMBPRINTS_MAX && inline_fits(entity) && versions_fit(entity);
}

/* Canned policies of AWS are no entities: whoever lets them be named has looked whether there is such a one. */
static bool has_policy(const struct gw_change *change, const char *arn)
{
        const struct gw_entity *policy;

        return strncmp(arn, GW_AWS_POLICY_ARN, sizeof(GW_AWS_POLICY_ARN) - 1) == 0 ||
               (strncmp(arn + 13, change->who.account, GW_ACCOUNT_ID_LEN) == 0 &&
                gw_people_find_arn(first_loop(change), arn, &policy, NULL) == 0 && policy->who.kind == GW_POLICY);
}

/* The same policy named twice, by another case, would be one reference and two attachments. */
static bool set_is_simple(const struct gw_pairs *set)
{
        unsigned i, j;

        for (i = 0; i < set->count; i++)
                for (j = 0; j < i; j++)
                        if (strcasecmp(set->list[i].name, set->list[j].name) == 0)
                                return false;
        return true;
}

/* What the entity names is there. */
static int references_refusal(const struct gw_change *change)
{
        const struct gw_pairs *groups = &change->entity->sets[GW_SET_GROUPS],
                              *attached = &change->entity->sets[GW_SET_ATTACHED];
        struct gw_entity_name who = {.kind = GW_GROUP};
        const struct gw_entity *group;
        unsigned i;

        if (!set_is_simple(groups) || !set_is_simple(attached))
                return -EINVAL;
        strcpy(who.account, change->who.account);
        for (i = 0; i < groups->count; i++) {
                strcpy(who.name, groups->list[i].name);
                if (gw_people_find(first_loop(change), &who, &group, NULL) != 0)
                        return -ENOENT;
        }
        for (i = 0; i < attached->count; i++)
                if (strlen(attached->list[i].name) < 20 || !has_policy(change, attached->list[i].name))
                        return -ENOENT;
        if (*change->entity->boundary != '\0' &&
            (strlen(change->entity->boundary) < 20 || !has_policy(change, change->entity->boundary)))
                return -ENOENT;
        return 0;
}

static unsigned quota(unsigned kind)
{
        switch (kind) {
        case GW_ACCOUNT:
                return ACCOUNTS_MAX;
        case GW_USER:
                return USERS_MAX;
        case GW_GROUP:
                return GROUPS_MAX;
        case GW_ROLE:
                return ROLES_MAX;
        case GW_POLICY:
                return POLICIES_MAX;
        case GW_PROVIDER:
                return PROVIDERS_MAX;
        default:
                return UINT32_MAX; /* of access keys: each user's */
        }
}

/* A key's user is there, and has not as many as he may. */
static int key_refusal(struct gw_people *people, const struct gw_change *change)
{
        const struct gw_entity *key = change->entity, *user;
        struct gw_entity_name who = {.kind = GW_USER};
        const struct gw_node *node;
        unsigned count = 0;

        if (key->who.of[0] == '\0' && strcmp(key->owner, GW_FIRST_ACCOUNT) == 0)
                return -EPERM; /* the settings have it */
        if (!gw_people_has_account(first_loop(change), key->owner))
                return -ENOENT;
        strcpy(who.account, key->owner);
        strcpy(who.name, key->who.of);
        if (*who.name != '\0' && gw_people_find(first_loop(change), &who, &user, NULL) != 0)
                return -ENOENT;
        for (node = gw_index_after(&people->index, GW_ACCESS_KEY, key->owner, key->who.of, NULL); node != NULL;
             node = gw_index_next(node))
                count++;
        return count < KEYS_OF_USER_MAX ? 0 : -EDQUOT;
}

/*
 * Somebody has the id, whatever his name, kind and account (D23): what policies say of it, what ACLs grant to
 * it and what tokens were made for it would be the new one's, too. Other characters than letters and digits would
 * be read as something else where policies are kept with the ids of whom they name (D24).
 */
int gw_people_id_refusal(struct gw_people *people, const struct gw_entity *entity)
{
        if (!gw_entity_id_valid(entity->who.kind, entity->id))
                return -EILSEQ;
        if (*entity->id == '\0')
                return 0;
        return strcasecmp(entity->id, people->gw->owner_id) == 0 || gw_index_has_id(&people->index, entity->id)
                       ? -ENOTUNIQ
                       : 0;
}

/* Nobody is called so, nor has the number of the name. */
static int name_refusal(struct gw_people *people, const struct gw_entity_name *who)
{
        struct eng_text *text;
        const struct gw_entity *there;
        int rv = eng_text_get(people->gw->store, gw_entity_number(who), who->kind, &text);

        if (rv != 0)
                return rv == -ENOENT ? 0 : rv;
        there = gw_entity_form(text);
        if (there == NULL && errno != EBADMSG)
                return -ENOMEM;
        return there != NULL && !gw_entity_same(&there->who, who) ? -ENOSPC : -EEXIST;
}

static int create_refusal(struct gw_people *people, const struct gw_change *change)
{
        unsigned kind = change->who.kind;
        int rv = name_refusal(people, &change->who);

        if (rv != 0)
                return rv;
        if (kind == GW_ACCOUNT && strcmp(change->who.name, GW_FIRST_ACCOUNT) == 0)
                return -EEXIST;
        rv = gw_people_id_refusal(people, change->entity);
        if (rv != 0)
                return rv;
        if (kind == GW_ACCESS_KEY)
                return key_refusal(people, change);
        if (kind != GW_ACCOUNT && !gw_people_has_account(first_loop(change), change->who.account))
                return -ENOENT;
        if (gw_index_count(&people->index, kind, change->who.account) >= quota(kind))
                return -EDQUOT;
        return 0;
}

/* What others know it by is not changed this way: a policy or role with another path has another ARN. */
static bool same_identity(const struct gw_entity *a, const struct gw_entity *b)
{
        bool fixed = a->who.kind == GW_POLICY || a->who.kind == GW_ROLE;

        return strcmp(a->who.name, b->who.name) == 0 && strcmp(a->who.of, b->who.of) == 0 &&
               strcmp(a->owner, b->owner) == 0 && strcmp(a->id, b->id) == 0 && strcmp(a->url, b->url) == 0 &&
               (!fixed || strcmp(a->path, b->path) == 0);
}

/* What the change is about, as whoever asked for it has seen it. -ESTALE: it has changed since. */
static int find_unchanged(const struct gw_change *change, const struct gw_entity **out)
{
        uint64_t generation;
        int rv = gw_people_find(first_loop(change), &change->who, out, &generation);

        if (rv != 0)
                return rv;
        return generation == change->generation ? 0 : -ESTALE;
}

static int replace_refusal(const struct gw_change *change)
{
        const struct gw_entity *there;
        int rv = find_unchanged(change, &there);

        if (rv != 0)
                return rv;
        return same_identity(there, change->entity) ? 0 : -EINVAL;
}

/* The new name must be free. The old name in another case is the same entry. */
static int rename_refusal(struct gw_people *people, const struct gw_change *change)
{
        const struct gw_entity *there;
        int rv = find_unchanged(change, &there);

        if (rv != 0)
                return rv;
        if (strcmp(there->id, change->entity->id) != 0 || strcmp(there->who.name, change->entity->who.name) == 0)
                return -EINVAL;
        return gw_entity_same(&there->who, &change->entity->who) ? 0 : name_refusal(people, &change->entity->who);
}

/* ---- deletion -------------------------------------------------------------------------------- */

static bool has_any(struct gw_people *people, unsigned kind, const char *account, const char *of)
{
        return gw_index_after(&people->index, kind, account, of, NULL) != NULL;
}

static bool policy_in_use(struct gw_people *people, const struct gw_entity *policy)
{
        char arn[GW_ENTITY_PATH_MAX + GW_ENTITY_NAME_MAX + 64];

        return !gw_entity_arn(policy, arn, sizeof(arn)) ||
               has_any(people, GW_LIST_ATTACHED, policy->who.account, arn) ||
               has_any(people, GW_LIST_BOUNDED, policy->who.account, arn);
}

static bool account_in_use(struct gw_people *people, const char *account)
{
        unsigned kind;

        for (kind = GW_USER; kind < GW_ENTITY_KINDS_END; kind++)
                if (gw_index_count(&people->index, kind, account) > 0)
                        return true;
        return false;
}

/*
 * Others name it. Asked also of what cannot be read: keys of a user who is deleted with them would
 * be those of whoever gets the name next.
 */
static bool is_referred_to(struct gw_people *people, const struct gw_entity_name *who)
{
        switch (who->kind) {
        case GW_ACCOUNT:
                return account_in_use(people, who->name) || gw_account_has_bucket(people->gw, who->name);
        case GW_USER:
                return has_any(people, GW_ACCESS_KEY, who->account, who->name);
        case GW_GROUP:
                return has_any(people, GW_LIST_MEMBERS, who->account, who->name);
        default:
                return false;
        }
}

/* As AWS: what is left of it must go first. */
static bool is_in_use(struct gw_people *people, const struct gw_entity *there)
{
        if (there->sets[GW_SET_GROUPS].count + there->sets[GW_SET_ATTACHED].count + there->sets[GW_SET_INLINE].count >
            0)
                return true;
        return there->who.kind == GW_POLICY && (there->sets[GW_SET_VERSIONS].count > 1 || policy_in_use(people, there));
}

static int delete_refusal(struct gw_people *people, const struct gw_change *change)
{
        const struct gw_entity *there;
        uint64_t generation;
        int rv;

        if (change->who.kind == GW_ACCOUNT && strcmp(change->who.name, GW_FIRST_ACCOUNT) == 0)
                return -EPERM;
        rv = gw_people_find(first_loop(change), &change->who, &there, &generation);
        if (rv == 0 && change->generation != 0 && change->generation != generation)
                return -ESTALE;
        if (rv == -EIO && change->who.kind == GW_POLICY && /* of what cannot be read the path is not known */
            gw_index_names_policy(&people->index, change->who.account, change->who.name))
                return -EBUSY;
        if (change->who.kind == GW_ACCOUNT && (rv == 0 || rv == -EIO) && gw_buckets_known(people->gw) != 0)
                return -EHOSTDOWN;
        if ((rv == 0 && is_in_use(people, there)) || ((rv == 0 || rv == -EIO) && is_referred_to(people, &change->who)))
                return -EBUSY;
        return rv == -EIO ? 0 : rv; /* what cannot be read can be deleted: nothing else gets rid of it */
}

/* It is about somebody whose rename was cut off, and could not go on just now; or about a key or a member of one. */
static bool is_being_renamed(const struct gw_people *people, const struct gw_change *change)
{
        const struct gw_entity *entity = change->entity;
        struct gw_entity_name who = {.kind = GW_USER};

        if (TAILQ_EMPTY(&people->renames))
                return false;
        if (gw_rename_has(&people->renames, &change->who) ||
            (entity != NULL && gw_rename_has(&people->renames, &entity->who)))
                return true;
        if (entity != NULL && entity->who.kind == GW_ACCESS_KEY) {
                snprintf(who.account, sizeof(who.account), "%s", entity->owner);
                snprintf(who.name, sizeof(who.name), "%s", entity->who.of);
                return gw_rename_has(&people->renames, &who);
        }
        who.kind = GW_GROUP;
        snprintf(who.account, sizeof(who.account), "%s", change->who.account);
        for (unsigned i = 0; entity != NULL && i < entity->sets[GW_SET_GROUPS].count; i++) {
                snprintf(who.name, sizeof(who.name), "%s", entity->sets[GW_SET_GROUPS].list[i].name);
                if (gw_rename_has(&people->renames, &who))
                        return true;
        }
        return false;
}

static int change_refusal(struct gw_people *people, struct gw_change *change)
{
        int rv;

        if (is_being_renamed(people, change))
                return -ESTALE;
        rv = gw_terms_refusal(people, change->terms);
        if (rv != 0)
                return rv;
        if (change->kind == CHANGE_DELETE)
                return delete_refusal(people, change);
        rv = change->kind == CHANGE_CREATE   ? create_refusal(people, change)
             : change->kind == CHANGE_RENAME ? rename_refusal(people, change)
                                             : replace_refusal(change);
        if (rv == 0 && !sets_fit(change->entity))
                rv = -EDQUOT;
        return rv == 0 ? references_refusal(change) : rv;
}

/* ---- the queue ------------------------------------------------------------------------------- */

static void people_change_begin(struct gw_people *people);
static void people_change_again(struct lp_timer *timer);

static void people_change_free(struct gw_change *change)
{
        free(change->terms);
        free(change->entity);
        free(change->text);
        free(change);
}

static void people_change_answer(struct lp_msg *msg)
{
        struct gw_change *change = (struct gw_change *)msg;

        change->done(change->arg, change->rv);
        people_change_free(change);
}

static void people_change_reply(struct gw_change *change, int rv)
{
        change->rv = rv;
        change->msg.run = people_change_answer;
        lp_post(change->home->lp, &change->msg);
}

static void people_change_ended(void *arg, int rv);

/* Decided by what the first loop knows now. text NULL: the entry goes. */
static void entry_goes(struct gw_change *change, uint64_t number, unsigned kind, uint64_t generation, const struct eng_rows_digest *seen, struct eng_str text)
{
        eng_entry_set(change->people->gw->store, number, kind, generation, seen, text, people_change_ended, change);
}

/* The next record of a rename. True: it is on its way. */
static bool people_rename_goes_on(struct gw_change *change, int *rv)
{
        struct gw_people *people = change->people;
        struct gw_rename_record record;
        struct eng_rows_digest seen;

        eng_entries_seen(people->gw->store, &seen);
        *rv = people->ready ? 0 : -EAGAIN; /* the index is being made again: it knows too few keys and members */
        if (*rv != 0)
                return false;
        *rv = gw_rename_next(people, change->kind == CHANGE_RENAME ? &change->entity->who : &change->who, &change->place,
                             &record);
        if (*rv != 1)
                return false;
        free(change->text);
        change->text = record.text;
        if (record.drop)
                entry_goes(change, record.number, record.kind, ENG_TEXT_ANY, &seen, (struct eng_str){NULL, 0});
        else
                entry_goes(change, record.number, record.kind, record.generation, &seen, (struct eng_str){record.text, record.len});
        return true;
}

static void people_change_ended(void *arg, int rv)
{
        struct gw_change *change = arg;
        struct gw_people *people = change->people;

        if (people->gw == NULL) { /* the gateway has ended */
                people_change_free(change);
                free(people);
                return;
        }
        assert(STAILQ_FIRST(&people->changes) == change);
        if (rv == -ERESTART && change->agains++ < AGAINS_MAX) {
                people->resting = true;
                people->again.expired = people_change_again;
                lp_timer_start(people->gw->loops[0].lp, &people->again, AGAIN_NS);
                return;
        }
        change->goes_on |= rv == 0;
        if (rv == 0 && change->kind >= CHANGE_RENAME && people_rename_goes_on(change, &rv))
                return;
        STAILQ_REMOVE_HEAD(&people->changes, link);
        people->change_count--;
        people_change_reply(change, rv == -ERESTART ? -EAGAIN : rv);
        people_change_begin(people);
}

/* The head, which another process was quicker than: what there is by now may have been told. */
static void people_change_again(struct lp_timer *timer)
{
        struct gw_people *people = container_of(timer, struct gw_people, again);
        struct gw_change *change = STAILQ_FIRST(&people->changes);
        int rv;

        assert(people->resting && change != NULL);
        people->resting = false;
        if (!change->goes_on && change->kind != CHANGE_CONTINUE)
                people_change_begin(people);
        else if (!people_rename_goes_on(change, &rv))
                people_change_ended(change, rv);
}

/* The generation that its record takes the place of: a rename begins with an entry that is not there yet. */
static uint64_t change_takes(const struct gw_change *change)
{
        return change->kind == CHANGE_RENAME && !gw_entity_same(&change->who, &change->entity->who)
                       ? 0
                       : change->generation;
}

static void people_rename_continued(void *arg, int rv)
{
}

/* A rename that was cut off goes on first, once for each change that comes. True: it is on its way. */
static bool people_rename_continue(struct gw_people *people)
{
        struct gw_rename *rename;
        struct gw_change *change;
        int rv;

        TAILQ_FOREACH (rename, &people->renames, link)
                if (!rename->tried)
                        break;
        change = rename != NULL && people->ready ? calloc(1, sizeof(*change)) : NULL;
        if (change == NULL)
                return false;
        rename->tried = true;
        change->home = &people->gw->loops[0];
        change->people = people;
        change->kind = CHANGE_CONTINUE;
        change->who = rename->to;
        change->done = people_rename_continued;
        STAILQ_INSERT_HEAD(&people->changes, change, link);
        people->change_count++;
        if (people_rename_goes_on(change, &rv))
                return true;
        STAILQ_REMOVE_HEAD(&people->changes, link);
        people->change_count--;
        people_change_free(change);
        return false;
}

void gw_people_renames_go(struct gw_people *people)
{
        if (STAILQ_EMPTY(&people->changes) && !atomic_load(&people->gw->read_only))
                people_change_begin(people);
}

/* Those that are refused are answered at once, down to one that is recorded. */
static void people_change_begin(struct gw_people *people)
{
        struct gw_change *change;
        struct eng_rows_digest seen;
        uint64_t number;
        int rv;

        if (people_rename_continue(people))
                return;
        eng_entries_seen(people->gw->store, &seen);
        while ((change = STAILQ_FIRST(&people->changes)) != NULL) {
                rv = people->ready ? change_refusal(people, change) : -EAGAIN;
                if (rv == 0)
                        break;
                STAILQ_REMOVE_HEAD(&people->changes, link);
                people->change_count--;
                people_change_reply(change, rv);
        }
        if (change == NULL)
                return;
        number = gw_entity_number(change->entity != NULL ? &change->entity->who : &change->who);
        if (change->kind == CHANGE_DELETE)
                entry_goes(change, number, change->who.kind, ENG_TEXT_ANY, &seen, (struct eng_str){NULL, 0});
        else
                entry_goes(change, number, change->who.kind, change_takes(change), &seen, (struct eng_str){change->text, change->len});
}

static void people_change_arrive(struct lp_msg *msg)
{
        struct gw_change *change = (struct gw_change *)msg;
        struct gw_people *people = gw_people_ready(change->home->gw);
        bool first;

        if (people == NULL || people->change_count >= CHANGES_MAX) {
                people_change_reply(change, -EAGAIN);
                return;
        }
        first = STAILQ_EMPTY(&people->changes);
        gw_renames_try(&people->renames);
        change->people = people;
        STAILQ_INSERT_TAIL(&people->changes, change, link);
        people->change_count++;
        if (first)
                people_change_begin(people);
}

/* What waits was asked for by requests that have ended with their connections. */
bool gw_people_drop_changes(struct gw_people *people)
{
        struct gw_change *head = STAILQ_FIRST(&people->changes), *change;

        while ((change = STAILQ_FIRST(&people->changes)) != NULL) {
                STAILQ_REMOVE_HEAD(&people->changes, link);
                if (change != head || people->resting)
                        people_change_free(change);
        }
        return head == NULL || people->resting;
}

/* ---- asked for ------------------------------------------------------------------------------- */

/* Checks what is to be kept by reading it as it will be read. */
static int people_change_take(struct gw_change *change, const struct gw_entity *entity)
{
        int rv = gw_entity_encode(entity, &change->text, &change->len);

        if (rv != 0)
                return rv;
        change->entity = gw_entity_decode((struct eng_str){change->text, change->len});
        return change->entity == NULL ? (errno == EBADMSG ? -EINVAL : -ENOMEM) : 0;
}

static int people_change_send(struct gw_loop *loop, enum change_kind kind, const struct gw_entity_name *who,
                              const struct gw_entity *entity, uint64_t generation, const struct gw_people_terms *terms,
                              gw_people_done done, void *arg)
{
        struct gw_change *change = loop->gw->ending ? NULL : calloc(1, sizeof(*change));
        int rv = 0;

        if (change == NULL)
                return -ENOMEM;
        change->home = loop;
        change->kind = kind;
        change->who = *who;
        change->generation = generation;
        change->done = done;
        change->arg = arg;
        change->terms = gw_terms_copy(terms);
        if (change->terms == NULL)
                rv = -ENOMEM;
        else if (change->terms->count > GW_PEOPLE_TERMS_MAX)
                rv = -E2BIG;
        else if (entity != NULL && kind != CHANGE_RENAME && entity->from != NULL && *entity->from != '\0')
                rv = kind == CHANGE_REPLACE ? -ESTALE : -EINVAL; /* only a rename leaves that, and takes it away */
        else if (entity != NULL)
                rv = people_change_take(change, entity);
        else if (!gw_entity_name_valid(who))
                rv = -EINVAL;
        if (rv != 0) {
                people_change_free(change);
                return rv;
        }
        change->msg.run = people_change_arrive;
        lp_post(loop->gw->loops[0].lp, &change->msg);
        return 0;
}

int gw_people_create(struct gw_loop *loop, const struct gw_entity *entity, const struct gw_people_terms *terms,
                     gw_people_done done, void *arg)
{
        return people_change_send(loop, CHANGE_CREATE, &entity->who, entity, 0, terms, done, arg);
}

int gw_people_change(struct gw_loop *loop, const struct gw_entity *entity, uint64_t generation,
                     const struct gw_people_terms *terms, gw_people_done done, void *arg)
{
        return people_change_send(loop, CHANGE_REPLACE, &entity->who, entity, generation, terms, done, arg);
}

int gw_people_delete(struct gw_loop *loop, const struct gw_entity_name *who, uint64_t generation,
                     const struct gw_people_terms *terms, gw_people_done done, void *arg)
{
        return people_change_send(loop, CHANGE_DELETE, who, NULL, generation, terms, done, arg);
}

int gw_people_rename(struct gw_loop *loop, const struct gw_entity *entity, const char *from, uint64_t generation,
                     const struct gw_people_terms *terms, gw_people_done done, void *arg)
{
        struct gw_entity renamed = *entity;
        struct gw_entity_name who = entity->who;

        if ((who.kind != GW_USER && who.kind != GW_GROUP) || strlen(from) > GW_ENTITY_NAME_MAX)
                return -EINVAL;
        strcpy(who.name, from);
        renamed.from = from;
        return people_change_send(loop, CHANGE_RENAME, &who, &renamed, generation, terms, done, arg);
}
