/*
 * people_world.h - a directory over a real store: entities are found, made, changed and deleted by calls that go to a
 * loop and wait for it.
 */
#ifndef TESTS_UNIT_GATEWAY_PEOPLE_WORLD_H
#define TESTS_UNIT_GATEWAY_PEOPLE_WORLD_H

#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/http/operation.h"
#include "gateway/people/people.h"
#include "tests/lib/store_objects.h"
#include "tests/lib/wait.h"

#define ACCOUNT GW_FIRST_ACCOUNT
#define AKID    "AKIAIOSFODNN7EXAMPLE"

static atomic_uint gone;
static char gone_key[GW_ENTITY_NAME_MAX + 1];

static void key_gone(struct gw_gateway *gw, const char *access_key)
{
        snprintf(gone_key, sizeof(gone_key), "%s", access_key);
        atomic_fetch_add(&gone, 1);
}

static const struct gw_service service = {.credential_gone = key_gone};

/* What is sealed shows; it opens by its name alone. */
static int test_seal(void *arg, const char *about, const char *secret, char *out, size_t size)
{
        return (size_t)snprintf(out, size, "%s/%s", about, secret) < size ? 0 : -EINVAL;
}

static int test_open(void *arg, const char *about, const char *sealed, char *secret, size_t size)
{
        size_t len = strlen(about);

        if (strncmp(sealed, about, len) != 0 || sealed[len] != '/')
                return -EBADMSG;
        return (size_t)snprintf(secret, size, "%s", sealed + len + 1) < size ? 0 : -EBADMSG;
}

static bool test_knows(void *arg, const char *sealed)
{
        return true;
}

/* ---- a store with a directory ---------------------------------------------------------------- */

struct world {
        struct sf sf;
        struct gw_gateway *gw;
};
static bool people_read_only; /* when it is opened */

static uint64_t start_people(struct eng_store *store, uint64_t arg)
{
        return (uint64_t)gw_people_start((struct gw_gateway *)(uintptr_t)arg);
}

static void open_people(struct world *w, bool format)
{
        unsigned i;

        assert_int_equal(sf_open(&w->sf, format), 0);
        assert_true(sf_wait_health(&w->sf, so_whole, NULL, 60));
        w->gw = calloc(1, sizeof(*w->gw));
        assert_non_null(w->gw);
        w->gw->loops = calloc(w->sf.loop_count, sizeof(w->gw->loops[0]));
        assert_non_null(w->gw->loops);
        gw_pools_init(w->gw, 0, w->sf.store);
        w->gw->service = &service;
        w->gw->loop_count = w->sf.loop_count;
        atomic_store(&w->gw->read_only, people_read_only);
        w->gw->sealer = (struct gw_sealer){.seal = test_seal, .open = test_open, .knows = test_knows};
        for (i = 0; i < w->gw->loop_count; i++) {
                w->gw->loops[i].gw = w->gw;
                w->gw->loops[i].lp = w->sf.loops[i];
                w->gw->loops[i].index = i;
        }
        assert_int_equal(sf_ask(&w->sf, start_people, (uint64_t)(uintptr_t)w->gw), 0);
}

static uint64_t end_people(struct eng_store *store, uint64_t arg)
{
        gw_people_free((struct gw_gateway *)(uintptr_t)arg);
        return 0;
}

static void close_people(struct world *w)
{
        sf_ask(&w->sf, end_people, (uint64_t)(uintptr_t)w->gw);
        sf_close(&w->sf);
        free(w->gw->loops);
        free(w->gw);
}

static void make_people(struct world *w)
{
        sf_make(&w->sf, 4, 2);
        open_people(w, true);
}

static void remove_people(struct world *w)
{
        close_people(w);
        sf_remove(&w->sf);
}

/* ---- calls on loops -------------------------------------------------------------------------- */

struct call {
        struct lp_msg msg; /* first */
        sem_t ended;
        struct gw_loop *loop;
        const struct gw_entity *entity;
        const struct gw_entity_name *who;
        const struct gw_people_query *query;
        const struct gw_people_terms *terms;
        const char *text;
        uint64_t generation;
        int rv;
        struct gw_entity *copy;
        struct gw_credential signer;
        struct gw_listed names[GW_LIST_MAX];
        unsigned count;
        bool more;
        char last[GW_ENTITY_NAME_MAX + 8];
};

static void call_begin(struct call *c, void (*run)(struct lp_msg *msg))
{
        sem_init(&c->ended, 0, 0);
        c->msg.run = run;
        lp_post(c->loop->lp, &c->msg);
}

static int call_end(struct call *c)
{
        while (sem_wait(&c->ended) != 0)
                ;
        sem_destroy(&c->ended);
        return c->rv;
}

static void call_done(void *arg, int rv)
{
        struct call *c = arg;

        c->rv = rv;
        sem_post(&c->ended);
}

static void run_create(struct lp_msg *msg)
{
        struct call *c = (struct call *)msg;
        int rv = gw_people_create(c->loop, c->entity, c->terms, call_done, c);

        if (rv != 0)
                call_done(c, rv);
}

static void run_change(struct lp_msg *msg)
{
        struct call *c = (struct call *)msg;
        int rv = gw_people_change(c->loop, c->entity, c->generation, c->terms, call_done, c);

        if (rv != 0)
                call_done(c, rv);
}

static void run_delete(struct lp_msg *msg)
{
        struct call *c = (struct call *)msg;
        int rv = gw_people_delete(c->loop, c->who, c->generation, c->terms, call_done, c);

        if (rv != 0)
                call_done(c, rv);
}

static void run_rename(struct lp_msg *msg)
{
        struct call *c = (struct call *)msg;
        int rv = gw_people_rename(c->loop, c->entity, c->text, c->generation, c->terms, call_done, c);

        if (rv != 0)
                call_done(c, rv);
}

/* The entity as it would be written, to be looked at on this thread. */
static void run_find(struct lp_msg *msg)
{
        struct call *c = (struct call *)msg;
        const struct gw_entity *found;
        char *text;
        size_t len;
        int rv = c->text != NULL ? gw_people_find_arn(c->loop, c->text, &found, &c->generation)
                                 : gw_people_find(c->loop, c->who, &found, &c->generation);

        if (rv == 0)
                rv = gw_entity_encode(found, &text, &len);
        if (rv == 0) {
                c->copy = gw_entity_decode((struct eng_str){text, len});
                free(text);
        }
        call_done(c, rv);
}

static int create(struct world *w, const struct gw_entity *entity)
{
        struct call c = {.loop = &w->gw->loops[1], .entity = entity};

        do
                call_begin(&c, run_create);
        while (call_end(&c) == -EAGAIN); /* the index is being made */
        return c.rv;
}

static int change(struct world *w, const struct gw_entity *entity, uint64_t generation)
{
        struct call c = {.loop = &w->gw->loops[1], .entity = entity, .generation = generation};

        call_begin(&c, run_change);
        return call_end(&c);
}

static int delete_seen(struct world *w, unsigned kind, const char *account, const char *name, uint64_t generation)
{
        struct gw_entity_name who = {.kind = kind};
        struct call c = {.loop = &w->gw->loops[0], .who = &who, .generation = generation};

        strcpy(who.account, account);
        strcpy(who.name, name);
        do
                call_begin(&c, run_delete);
        while (call_end(&c) == -EAGAIN);
        return c.rv;
}

static int delete (struct world *w, unsigned kind, const char *account, const char *name)
{
        return delete_seen(w, kind, account, name, 0);
}

/* On each loop the same. The copy is the caller's. */
static int find(struct world *w, unsigned kind, const char *account, const char *name, struct gw_entity **copy,
                uint64_t *generation)
{
        struct gw_entity_name who = {.kind = kind};
        unsigned i;
        int rv = 0;

        strcpy(who.account, account);
        strcpy(who.name, name);
        for (i = 0; i < w->gw->loop_count; i++) {
                struct call c = {.loop = &w->gw->loops[i], .who = &who};

                call_begin(&c, run_find);
                rv = call_end(&c);
                if (copy != NULL && i == 0)
                        *copy = c.copy;
                else
                        free(c.copy);
                if (generation != NULL)
                        *generation = c.generation;
        }
        return rv;
}

/* ---- entities -------------------------------------------------------------------------------- */

static struct gw_entity entity_of(unsigned kind, const char *account, const char *name)
{
        static char ids[512][24]; /* made of the name: no two entities have one */
        static unsigned count;
        char *id = ids[count++ % 512];
        struct gw_entity e = {.path = "/", .id = id, .created_ms = 1767225600000};

        e.who.kind = kind;
        strcpy(e.who.account, account);
        strcpy(e.who.name, name);
        snprintf(id, sizeof(ids[0]), "ID%016llX", (unsigned long long)gw_entity_number(&e.who));
        if (kind == GW_ACCOUNT || kind == GW_ACCESS_KEY)
                e.path = "";
        return e;
}

static struct gw_entity key_of(const char *user, const char *name, const char *sealed)
{
        struct gw_entity e = entity_of(GW_ACCESS_KEY, "", name);

        strcpy(e.who.of, user);
        e.id = "";
        e.owner = ACCOUNT;
        e.sealed = sealed;
        e.active = 1;
        return e;
}

static struct gw_entity policy_of(const char *name, struct gw_pair *versions, unsigned count)
{
        struct gw_entity e = entity_of(GW_POLICY, ACCOUNT, name);

        e.version = "v1";
        e.sets[GW_SET_VERSIONS] = (struct gw_pairs){count, versions};
        return e;
}

#endif
