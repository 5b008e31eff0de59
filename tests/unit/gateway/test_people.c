/*
 * The directory over a real store: entities are created once, changed by generation and deleted as AWS lets
 * them; races have one winner; lists come in order, page by page; all is there after a restart; a key that
 * is switched off signs nothing. And texts of entities, whatever they say.
 */
#include <ctype.h>
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <cmocka.h>

#include "gateway/people/bucket_owner.h"
#include "tests/unit/gateway/people_world.h"

static void run_signer(struct lp_msg *msg)
{
        struct call *c = (struct call *)msg;

        call_done(c, gw_people_signer(c->loop, c->text, &c->signer));
}

static void call_listed(void *arg, int rv, const struct gw_listed *names, unsigned count, bool more, const char *last)
{
        struct call *c = arg;

        memcpy(c->names, names, count * sizeof(names[0]));
        c->count = count;
        c->more = more;
        snprintf(c->last, sizeof(c->last), "%s", last);
        call_done(c, rv);
}

static void run_list(struct lp_msg *msg)
{
        struct call *c = (struct call *)msg;
        int rv = gw_people_list(c->loop, c->query, call_listed, c);

        if (rv != 0)
                call_done(c, rv);
}

static bool signs(struct world *w, const char *access_key, const char *secret)
{
        bool all = true;
        unsigned i;

        for (i = 0; i < w->gw->loop_count; i++) {
                struct call c = {.loop = &w->gw->loops[i], .text = access_key};

                call_begin(&c, run_signer);
                all &= call_end(&c) && strcmp(c.signer.secret_key, secret) == 0 &&
                       strcmp(c.signer.access_key, access_key) == 0;
        }
        return all;
}

static struct gw_entity provider_of(const char *url, struct gw_pair *clients, unsigned count)
{
        struct gw_entity e = entity_of(GW_PROVIDER, ACCOUNT, "");

        gw_provider_name(gw_provider_place(url), e.who.name);
        e.path = e.id = "";
        e.url = url;
        e.sets[GW_SET_CLIENTS] = (struct gw_pairs){count, clients};
        return e;
}

/* Case and the last slash tell URLs apart, the scheme does not; a name is that of its URL. */
static void test_providers(void **state)
{
        struct gw_pair clients[GW_CLIENTS_MAX + 1];
        char names[GW_CLIENTS_MAX + 1][8], arn[128];
        struct gw_entity a = provider_of("https://Id.example.org/a", clients, GW_CLIENTS_MAX), *found, other;
        struct gw_entity_name who;
        uint64_t generation;
        struct world w;

        for (unsigned i = 0; i <= GW_CLIENTS_MAX; i++) {
                snprintf(names[i], sizeof(names[i]), "c%u", i);
                clients[i] = (struct gw_pair){.name = names[i], .text = ""};
        }
        make_people(&w);
        assert_int_equal(create(&w, &a), 0);
        other = provider_of("http://Id.example.org/a", clients, 1);
        assert_int_equal(create(&w, &other), -EEXIST);
        other = provider_of("https://id.example.org/a", clients, 1);
        assert_int_equal(create(&w, &other), 0);
        assert_true(gw_entity_arn(&a, arn, sizeof(arn)));
        assert_string_equal(arn, "arn:aws:iam::000000000001:oidc-provider/Id.example.org/a");
        assert_int_equal(gw_entity_of_arn(arn, &who), 0);
        assert_true(gw_entity_same(&who, &a.who));
        assert_int_equal(gw_entity_of_arn("arn:aws:iam::000000000001:oidc-provider/", &who), -EINVAL);
        other = provider_of("https://Id.example.org/a/", clients, GW_CLIENTS_MAX + 1);
        assert_int_equal(create(&w, &other), -EINVAL);
        other = a;
        other.url = "https://id.example.org/b"; /* of another name */
        assert_int_equal(create(&w, &other), -EINVAL);
        strcpy(other.who.name, "a");
        assert_int_equal(create(&w, &other), -EINVAL);
        close_people(&w);
        open_people(&w, false);
        assert_int_equal(find(&w, GW_PROVIDER, ACCOUNT, a.who.name, &found, &generation), 0);
        assert_string_equal(found->url, a.url);
        assert_int_equal(found->sets[GW_SET_CLIENTS].count, GW_CLIENTS_MAX);
        assert_string_equal(found->sets[GW_SET_CLIENTS].list[GW_CLIENTS_MAX - 1].name, "c99");
        free(found);
        assert_int_equal(delete (&w, GW_PROVIDER, ACCOUNT, a.who.name), 0);
        assert_int_equal(delete (&w, GW_PROVIDER, ACCOUNT, a.who.name), -ENOENT);
        remove_people(&w);
}

static void test_users_and_keys(void **state)
{
        struct gw_entity alice = entity_of(GW_USER, ACCOUNT, "Alice"), key = key_of("Alice", AKID, AKID "/secret"),
                         other;
        struct gw_entity *found;
        uint64_t generation;
        struct world w;

        make_people(&w);
        assert_int_equal(find(&w, GW_USER, ACCOUNT, "Alice", NULL, NULL), -ENOENT);
        assert_int_equal(create(&w, &key), -ENOENT); /* nobody's */
        assert_int_equal(create(&w, &alice), 0);
        assert_int_equal(create(&w, &alice), -EEXIST);
        other = entity_of(GW_USER, ACCOUNT, "aLICE");
        assert_int_equal(create(&w, &other), -EEXIST);
        other = entity_of(GW_USER, "000000000002", "Alice");
        assert_int_equal(create(&w, &other), -ENOENT); /* no such account */
        assert_int_equal(find(&w, GW_USER, ACCOUNT, "alice", &found, &generation), 0);
        assert_string_equal(found->who.name, "Alice");
        assert_string_equal(found->path, "/");
        assert_int_equal(found->created_ms, 1767225600000);
        free(found);
        assert_int_equal(create(&w, &key), 0);
        assert_int_equal(create(&w, &key), -EEXIST);
        assert_true(signs(&w, AKID, "secret"));
        assert_false(signs(&w, "AKIAIOSFODNN7EXAMPLF", "secret"));
        assert_false(signs(&w, "akiaiosfodnn7example", "secret"));
        other = key_of("Alice", "AKIAIOSFODNN7EXAMPL2", AKID "/secret"); /* another one's sealed text */
        assert_int_equal(create(&w, &other), 0);
        assert_false(signs(&w, "AKIAIOSFODNN7EXAMPL2", "secret"));
        other = key_of("Alice", "AKIAIOSFODNN7EXAMPL3", "x");
        assert_int_equal(create(&w, &other), -EDQUOT);
        other = key_of("", "AKIAIOSFODNN7EXAMPL4", "x"); /* of the first account's root */
        assert_int_equal(create(&w, &other), -EPERM);
        assert_int_equal(delete (&w, GW_USER, ACCOUNT, "Alice"), -EBUSY);
        assert_int_equal(delete (&w, GW_ACCESS_KEY, "", "AKIAIOSFODNN7EXAMPL2"), 0);

        /* switched off, and on again */
        assert_int_equal(find(&w, GW_ACCESS_KEY, "", AKID, &found, &generation), 0);
        atomic_store(&gone, 0);
        found->active = 0;
        assert_int_equal(change(&w, found, generation + 1), -ESTALE);
        assert_int_equal(atomic_load(&gone), 0);
        assert_int_equal(change(&w, found, generation), 0);
        assert_int_equal(atomic_load(&gone), 1);
        assert_string_equal(gone_key, AKID);
        assert_false(signs(&w, AKID, "secret"));
        assert_int_equal(change(&w, found, generation), -ESTALE);
        strcpy(found->who.of, "Bob");
        free(found);
        assert_int_equal(find(&w, GW_ACCESS_KEY, "", AKID, &found, &generation), 0);
        found->active = 1;
        assert_int_equal(change(&w, found, generation), 0);
        assert_true(signs(&w, AKID, "secret"));
        free(found);

        close_people(&w);
        open_people(&w, false);
        assert_true(signs(&w, AKID, "secret"));
        assert_int_equal(delete (&w, GW_USER, ACCOUNT, "Alice"), -EBUSY); /* the index knows it again */
        assert_int_equal(delete (&w, GW_ACCESS_KEY, "", AKID), 0);
        assert_int_equal(atomic_load(&gone), 2);
        assert_false(signs(&w, AKID, "secret"));
        assert_int_equal(delete (&w, GW_USER, ACCOUNT, "ALICE"), 0);
        assert_int_equal(delete (&w, GW_USER, ACCOUNT, "Alice"), -ENOENT);
        remove_people(&w);
}

static atomic_int bucket_made;

static void bucket_is_made(void *arg, int rv)
{
        atomic_store(&bucket_made, rv == 0 ? 1 : rv);
}

static uint64_t make_bucket(struct eng_store *store, uint64_t arg)
{
        uint8_t attrs[GW_BUCKET_ATTRS_BYTES];

        eng_bucket_create(store, (struct eng_str){"theirs", 6}, NULL, attrs, gw_bucket_attrs("000000000002", attrs), bucket_is_made, NULL);
        return 0;
}

static void test_accounts(void **state)
{
        struct gw_entity account = entity_of(GW_ACCOUNT, "", "000000000002"),
                         user = entity_of(GW_USER, "000000000002", "alice"), key;
        struct world w;

        make_people(&w);
        assert_int_equal(create(&w, &account), 0);
        assert_int_equal(create(&w, &user), 0);
        user = entity_of(GW_USER, ACCOUNT, "alice"); /* another one */
        assert_int_equal(create(&w, &user), 0);
        account = entity_of(GW_ACCOUNT, "", ACCOUNT);
        assert_int_equal(create(&w, &account), -EEXIST);
        assert_int_equal(delete (&w, GW_ACCOUNT, "", ACCOUNT), -EPERM);
        assert_int_equal(delete (&w, GW_ACCOUNT, "", "000000000002"), -EBUSY);
        assert_int_equal(delete (&w, GW_USER, "000000000002", "alice"), 0);
        key = key_of("", AKID, AKID "/secret");
        key.owner = "000000000002"; /* of its root */
        assert_int_equal(create(&w, &key), 0);
        assert_true(signs(&w, AKID, "secret"));
        assert_int_equal(delete (&w, GW_ACCOUNT, "", "000000000002"), -EBUSY);
        assert_int_equal(delete (&w, GW_ACCESS_KEY, "", AKID), 0);
        sf_ask(&w.sf, make_bucket, 0);
        WAIT_UNTIL(atomic_load(&bucket_made) != 0);
        assert_int_equal(atomic_load(&bucket_made), 1);
        assert_int_equal(delete (&w, GW_ACCOUNT, "", "000000000002"), -EBUSY); /* it owns a bucket */
        assert_int_equal(sf_bucket_delete(&w.sf, "theirs"), 0);
        assert_int_equal(delete (&w, GW_ACCOUNT, "", "000000000002"), 0);
        assert_int_equal(find(&w, GW_USER, ACCOUNT, "alice", NULL, NULL), 0);
        remove_people(&w);
}

/* In a text, "-" is nobody: a key of a user called so would be read as the root's of its account. */
static void test_key_of_a_dash(void **state)
{
        struct gw_entity account = entity_of(GW_ACCOUNT, "", "000000000002"), key = key_of("-", AKID, AKID "/secret");
        struct world w;

        make_people(&w);
        assert_int_equal(create(&w, &account), 0);
        key.owner = "000000000002";
        assert_int_equal(create(&w, &key), -EINVAL);
        assert_false(signs(&w, AKID, "secret"));
        assert_int_equal(delete (&w, GW_ACCOUNT, "", "000000000002"), 0);
        remove_people(&w);
}

/* Who gets the name of a user whose entry was lost does not get that user's keys with it. */
static void test_unreadable_user_with_key(void **state)
{
        struct gw_entity alice = entity_of(GW_USER, ACCOUNT, "alice"), key = key_of("alice", AKID, AKID "/secret");
        uint64_t number = gw_entity_number(&alice.who);
        struct world w;

        make_people(&w);
        assert_int_equal(create(&w, &alice), 0);
        assert_int_equal(create(&w, &key), 0);
        assert_int_equal(sf_text_set(&w.sf, 0, number, GW_USER, ENG_TEXT_ANY, "no entity", 9), 0);
        assert_false(signs(&w, AKID, "secret"));
        assert_int_equal(delete (&w, GW_USER, ACCOUNT, "alice"), -EBUSY);
        assert_int_equal(delete (&w, GW_ACCESS_KEY, "", AKID), 0);
        assert_int_equal(delete (&w, GW_USER, ACCOUNT, "alice"), 0);
        assert_int_equal(create(&w, &alice), 0);
        assert_false(signs(&w, AKID, "secret"));
        remove_people(&w);
}

/* Nobody knows its ARN, and somebody has it all the same. */
static void test_unreadable_policy_in_use(void **state)
{
        struct gw_entity policy = entity_of(GW_POLICY, ACCOUNT, "read"), alice = entity_of(GW_USER, ACCOUNT, "alice");
        struct gw_pair v1 = {.name = "v1", .text = "{}"}, attached = {.name = "arn:aws:iam::" ACCOUNT ":policy/a/read"};
        uint64_t number = gw_entity_number(&policy.who);
        struct world w;

        make_people(&w);
        policy.path = "/a/";
        policy.version = "v1";
        policy.sets[GW_SET_VERSIONS] = (struct gw_pairs){1, &v1};
        assert_int_equal(create(&w, &policy), 0);
        alice.sets[GW_SET_ATTACHED] = (struct gw_pairs){1, &attached};
        assert_int_equal(create(&w, &alice), 0);
        assert_int_equal(sf_text_set(&w.sf, 0, number, GW_POLICY, ENG_TEXT_ANY, "no entity", 9), 0);
        assert_int_equal(delete (&w, GW_POLICY, ACCOUNT, "read"), -EBUSY);
        assert_int_equal(delete (&w, GW_POLICY, ACCOUNT, "rea"), -ENOENT);
        assert_int_equal(sf_text_delete(&w.sf, 0, gw_entity_number(&alice.who), GW_USER, ENG_TEXT_ANY), 0);
        assert_int_equal(delete (&w, GW_POLICY, ACCOUNT, "read"), 0);
        remove_people(&w);
}

/* Two names of one number cannot both be there, and neither is taken for the other. */
static void test_same_number(void **state)
{
        static const char bob[] = "1 user " ACCOUNT " - bob\n{\"path\":\"/\"}", bad[] = "no entity";
        struct gw_entity alice = entity_of(GW_USER, ACCOUNT, "alice");
        uint64_t number = gw_entity_number(&alice.who);
        struct world w;

        make_people(&w);
        assert_int_equal(sf_text_set(&w.sf, 0, number, GW_USER, 0, bob, sizeof(bob) - 1), 0);
        assert_int_equal(find(&w, GW_USER, ACCOUNT, "alice", NULL, NULL), -ENOENT);
        assert_int_equal(create(&w, &alice), -ENOSPC);
        assert_int_equal(delete (&w, GW_USER, ACCOUNT, "alice"), -ENOENT);
        assert_int_equal(sf_text_set(&w.sf, 0, number, GW_USER, ENG_TEXT_ANY, bad, sizeof(bad) - 1), 0);
        assert_int_equal(find(&w, GW_USER, ACCOUNT, "alice", NULL, NULL), -EIO);
        assert_int_equal(create(&w, &alice), -EEXIST);
        assert_int_equal(delete (&w, GW_USER, ACCOUNT, "alice"), 0);
        assert_int_equal(create(&w, &alice), 0);
        remove_people(&w);
}

/* ---- who refers to whom ---------------------------------------------------------------------- */

static unsigned list(struct world *w, const struct gw_people_query *query, struct call *c)
{
        memset(c, 0, sizeof(*c));
        c->loop = &w->gw->loops[1];
        c->query = query;
        do
                call_begin(c, run_list);
        while (call_end(c) == -EAGAIN);
        assert_int_equal(c->rv, 0);
        return c->count;
}

/* ---- other names ----------------------------------------------------------------------------- */

static int rename_as(struct world *w, const struct gw_entity *entity, const char *from, uint64_t generation)
{
        struct call c = {.loop = &w->gw->loops[1], .entity = entity, .text = from, .generation = generation};

        call_begin(&c, run_rename);
        return call_end(&c);
}

/* What there is of this name is called so from now on. */
static int rename_to(struct world *w, unsigned kind, const char *from, const char *name)
{
        struct gw_entity *entity;
        uint64_t generation;
        int rv = find(w, kind, ACCOUNT, from, &entity, &generation);

        if (rv != 0)
                return rv;
        strcpy(entity->who.name, name);
        rv = rename_as(w, entity, from, generation);
        free(entity);
        return rv;
}

static void expect_key_of(struct world *w, const char *key, const char *user)
{
        struct gw_entity *found;

        assert_int_equal(find(w, GW_ACCESS_KEY, "", key, &found, NULL), 0);
        assert_string_equal(found->who.of, user);
        free(found);
}

static void expect_in_group(struct world *w, const char *user, const char *group)
{
        struct gw_entity *found;

        assert_int_equal(find(w, GW_USER, ACCOUNT, user, &found, NULL), 0);
        assert_int_equal(found->sets[GW_SET_GROUPS].count, 2);
        assert_true(strcmp(found->sets[GW_SET_GROUPS].list[0].name, group) == 0 ||
                    strcmp(found->sets[GW_SET_GROUPS].list[1].name, group) == 0);
        assert_string_equal(found->from, "");
        free(found);
}

static unsigned count_listed(struct world *w, unsigned kind, const char *of)
{
        struct gw_people_query query = {.kind = kind, .account = ACCOUNT, .max = 100};
        struct call c;

        strcpy(query.of, of);
        return list(w, &query, &c);
}

#define AKID2 "AKIAIOSFODNN7EXAMPL2"

/* alice, with two keys, and bob; both in staff and in more. */
static void make_staff(struct world *w)
{
        struct gw_pair in[] = {{.name = "more"}, {.name = "staff"}};
        struct gw_entity alice = entity_of(GW_USER, ACCOUNT, "alice"), bob = entity_of(GW_USER, ACCOUNT, "bob"),
                         staff = entity_of(GW_GROUP, ACCOUNT, "staff"), more = entity_of(GW_GROUP, ACCOUNT, "more"),
                         one = key_of("alice", AKID, AKID "/secret"), two = key_of("alice", AKID2, AKID2 "/secret");

        bob.id = "AIDABOB";
        staff.id = "AGPASTAFF";
        more.id = "AGPAMORE";
        alice.sets[GW_SET_GROUPS] = bob.sets[GW_SET_GROUPS] = (struct gw_pairs){2, in};
        assert_int_equal(create(w, &staff) | create(w, &more) | create(w, &alice) | create(w, &bob), 0);
        assert_int_equal(create(w, &one) | create(w, &two), 0);
}

/* No second entity has an id, whatever its name, kind and account, and however the first came to its name. */
static void test_an_id_is_of_one(void **state)
{
        struct gw_pair read = {.name = "v1", .text = "{}", .ms = 1};
        struct gw_entity of_kind[] = {entity_of(GW_USER, ACCOUNT, "alice"), entity_of(GW_GROUP, ACCOUNT, "staff"),
                                      entity_of(GW_ROLE, ACCOUNT, "role"), policy_of("Read", &read, 1),
                                      entity_of(GW_ACCOUNT, "", "000000000002")};
        unsigned kinds = sizeof(of_kind) / sizeof(of_kind[0]);
        struct gw_entity other, key = key_of("alice", AKID, AKID "/secret");
        char lower[24];
        struct world w;

        make_people(&w);
        for (unsigned i = 0; i < kinds; i++)
                assert_int_equal(create(&w, &of_kind[i]), 0);
        for (unsigned i = 0; i < kinds * kinds; i++) {
                other = of_kind[i % kinds];
                strcpy(other.who.name, other.who.kind == GW_ACCOUNT ? "000000000003" : "other");
                other.id = of_kind[i / kinds].id;
                assert_int_equal(create(&w, &other), -ENOTUNIQ);
        }
        other = entity_of(GW_USER, "000000000002", "alice");
        for (unsigned i = 0; i < sizeof(lower); i++)
                lower[i] = (char)tolower(of_kind[0].id[i]);
        other.id = lower;
        assert_int_equal(create(&w, &other), -ENOTUNIQ);
        assert_int_equal(create(&w, &key), 0);
        assert_int_equal(rename_to(&w, GW_USER, "alice", "bob"), 0);
        for (int i = 0; i < 2; i++) { /* what a file from before the rename has; and once the index was made anew */
                assert_int_equal(create(&w, &of_kind[0]), -ENOTUNIQ);
                close_people(&w);
                open_people(&w, false);
        }
        assert_int_equal(delete (&w, GW_ACCESS_KEY, "", AKID), 0);
        assert_int_equal(delete (&w, GW_USER, ACCOUNT, "bob"), 0);
        assert_int_equal(create(&w, &of_kind[0]), 0); /* the id is nobody's */
        other = entity_of(GW_ACCOUNT, "", "000000000003");
        strcpy(w.gw->owner_id, other.id); /* the first account's, which has no entry */
        assert_int_equal(create(&w, &other), -ENOTUNIQ);
        remove_people(&w);
}

static void test_renames(void **state)
{
        struct gw_entity alice = entity_of(GW_USER, ACCOUNT, "alice"), *found;
        uint64_t generation;
        struct world w;

        make_people(&w);
        make_staff(&w);
        atomic_store(&gone, 0);
        assert_int_equal(rename_to(&w, GW_USER, "alice", "bob"), -EEXIST);
        assert_int_equal(rename_to(&w, GW_USER, "alice", "alice"), -EINVAL);
        assert_int_equal(rename_to(&w, GW_USER, "alice", "a/b"), -EINVAL);
        assert_int_equal(find(&w, GW_USER, ACCOUNT, "alice", &found, &generation), 0);
        strcpy(found->who.name, "carol");
        assert_int_equal(rename_as(&w, found, "alice", generation + 1), -ESTALE);
        assert_int_equal(rename_as(&w, found, "nobody", generation), -ENOENT);
        found->id = "AIDAOTHER";
        assert_int_equal(rename_as(&w, found, "alice", generation), -EINVAL);
        free(found);
        assert_int_equal(rename_to(&w, GW_USER, "alice", "Carol"), 0);
        assert_int_equal(find(&w, GW_USER, ACCOUNT, "alice", NULL, NULL), -ENOENT);
        expect_in_group(&w, "carol", "staff");
        expect_key_of(&w, AKID, "Carol");
        expect_key_of(&w, AKID2, "Carol");
        assert_true(signs(&w, AKID, "secret") && signs(&w, AKID2, "secret"));
        assert_int_equal(atomic_load(&gone), 0); /* sessions that the keys opened go on */
        assert_int_equal(count_listed(&w, GW_USER, ""), 2);
        assert_int_equal(count_listed(&w, GW_LIST_MEMBERS, "staff"), 2);
        alice.id = "AIDANEW";
        assert_int_equal(create(&w, &alice), 0); /* the name is free, and has no keys */
        assert_int_equal(count_listed(&w, GW_ACCESS_KEY, "alice"), 0);
        assert_int_equal(rename_to(&w, GW_USER, "Carol", "CAROL"), 0); /* one entry all the time */
        assert_int_equal(find(&w, GW_USER, ACCOUNT, "carol", &found, NULL), 0);
        assert_string_equal(found->who.name, "CAROL");
        assert_string_equal(found->from, "");
        free(found);
        expect_key_of(&w, AKID, "CAROL");
        assert_int_equal(rename_to(&w, GW_GROUP, "staff", "crew"), 0);
        expect_in_group(&w, "carol", "crew");
        expect_in_group(&w, "bob", "crew");
        assert_int_equal(find(&w, GW_GROUP, ACCOUNT, "staff", NULL, NULL), -ENOENT);
        assert_int_equal(count_listed(&w, GW_LIST_MEMBERS, "crew"), 2);
        assert_int_equal(rename_to(&w, GW_GROUP, "crew", "Crew"), 0);
        expect_in_group(&w, "bob", "Crew");
        assert_int_equal(rename_to(&w, GW_GROUP, "more", "CREW"), -EEXIST);
        close_people(&w);
        open_people(&w, false);
        assert_true(signs(&w, AKID, "secret"));
        expect_in_group(&w, "bob", "Crew");
        alice = entity_of(GW_ROLE, ACCOUNT, "role");
        assert_int_equal(create(&w, &alice), 0);
        assert_int_equal(rename_to(&w, GW_ROLE, "role", "other"), -EINVAL);
        remove_people(&w);
}

/* A record as a rename writes it, or none in its place. */
static void put_raw(struct world *w, const struct gw_entity *entity)
{
        char *text;
        size_t len;

        assert_int_equal(gw_entity_encode(entity, &text, &len), 0);
        assert_int_equal(sf_text_set(&w->sf, 0, gw_entity_number(&entity->who), entity->who.kind, ENG_TEXT_ANY, text, len), 0);
        free(text);
}

static void drop_raw(struct world *w, unsigned kind, const char *name)
{
        struct gw_entity entity = entity_of(kind, ACCOUNT, name);

        assert_int_equal(sf_text_delete(&w->sf, 0, gw_entity_number(&entity.who), kind, ENG_TEXT_ANY), 0);
}

/* What a crash leaves behind each of the records of a rename of alice and of staff. */
static void cut_user(struct world *w, unsigned records)
{
        struct gw_entity *alice, one = key_of("eve", AKID, AKID "/secret"), two = key_of("eve", AKID2, AKID2 "/secret");

        assert_int_equal(find(w, GW_USER, ACCOUNT, "alice", &alice, NULL), 0);
        strcpy(alice->who.name, "eve");
        alice->from = "alice";
        put_raw(w, alice);
        if (records > 1)
                put_raw(w, &one);
        if (records > 2)
                put_raw(w, &two);
        if (records > 3)
                drop_raw(w, GW_USER, "alice");
        free(alice);
}

static void cut_group(struct world *w, unsigned records)
{
        struct gw_pair in[] = {{.name = "crew"}, {.name = "more"}};
        struct gw_entity *staff, *user;

        assert_int_equal(find(w, GW_GROUP, ACCOUNT, "staff", &staff, NULL), 0);
        strcpy(staff->who.name, "crew");
        staff->from = "staff";
        put_raw(w, staff);
        for (unsigned i = 0; i < 2 && records > i + 1; i++) {
                assert_int_equal(find(w, GW_USER, ACCOUNT, i == 0 ? "alice" : "bob", &user, NULL), 0);
                user->sets[GW_SET_GROUPS].list = in;
                put_raw(w, user);
                free(user);
        }
        if (records > 3)
                drop_raw(w, GW_GROUP, "staff");
        free(staff);
}

static bool is_over(void *arg)
{
        struct world *w = arg;
        struct gw_entity *eve = NULL, *crew = NULL;
        bool over = find(w, GW_USER, ACCOUNT, "alice", NULL, NULL) == -ENOENT &&
                    find(w, GW_GROUP, ACCOUNT, "staff", NULL, NULL) == -ENOENT &&
                    find(w, GW_USER, ACCOUNT, "eve", &eve, NULL) == 0 && find(w, GW_GROUP, ACCOUNT, "crew", &crew, NULL) == 0 &&
                    *eve->from == '\0' && *crew->from == '\0';

        free(eve);
        free(crew);
        return over;
}

static void expect_over(struct world *w)
{
        for (unsigned i = 0; i < 3000 && !is_over(w); i++)
                usleep(10000);
        assert_true(is_over(w));
        expect_key_of(w, AKID, "eve");
        expect_key_of(w, AKID2, "eve");
        assert_true(signs(w, AKID, "secret") && signs(w, AKID2, "secret"));
        expect_in_group(w, "eve", "crew");
        expect_in_group(w, "bob", "crew");
        assert_int_equal(count_listed(w, GW_USER, ""), 2);
        assert_int_equal(count_listed(w, GW_GROUP, ""), 2);
        assert_int_equal(count_listed(w, GW_LIST_MEMBERS, "crew"), 2);
}

static void test_renames_that_were_cut_off(void **state)
{
        for (unsigned records = 1; records <= 4; records++) {
                struct world w;

                make_people(&w);
                make_staff(&w);
                cut_group(&w, records);
                cut_user(&w, records);
                assert_true(signs(&w, AKID, "secret") && signs(&w, AKID2, "secret")); /* at each moment */
                close_people(&w);
                open_people(&w, false);
                expect_over(&w);
                remove_people(&w);
        }
}

/* The next change finds what an error left, and lets it go on first. */
static void test_a_rename_goes_on_with_the_next_change(void **state)
{
        struct gw_entity other = entity_of(GW_USER, ACCOUNT, "dan"), *eve;
        uint64_t generation;
        struct world w;

        make_people(&w);
        make_staff(&w);
        cut_group(&w, 2);
        cut_user(&w, 2);
        assert_int_equal(find(&w, GW_USER, ACCOUNT, "eve", &eve, &generation), 0);
        assert_int_equal(change(&w, eve, generation), -ESTALE); /* it is not over */
        assert_int_equal(create(&w, eve), -EINVAL);             /* as from a file */
        free(eve);
        assert_int_equal(create(&w, &other), 0);
        assert_int_equal(delete (&w, GW_USER, ACCOUNT, "dan"), 0);
        expect_over(&w);
        remove_people(&w);
}

/* A store that is read-only is not written to at the start. */
static void test_a_rename_waits_for_a_store_that_takes_changes(void **state)
{
        struct gw_entity other = entity_of(GW_USER, ACCOUNT, "dan");
        struct world w;

        make_people(&w);
        make_staff(&w);
        cut_group(&w, 1);
        cut_user(&w, 1);
        close_people(&w);
        people_read_only = true;
        open_people(&w, false);
        people_read_only = false;
        assert_int_equal(count_listed(&w, GW_USER, ""), 3); /* the index is whole */
        assert_int_equal(find(&w, GW_USER, ACCOUNT, "alice", NULL, NULL), 0);
        atomic_store(&w.gw->read_only, false);
        assert_int_equal(create(&w, &other), 0);
        assert_int_equal(delete (&w, GW_USER, ACCOUNT, "dan"), 0);
        expect_over(&w);
        remove_people(&w);
}

/* Somebody who has the old name with another id is somebody else. */
static void test_a_rename_leaves_others_alone(void **state)
{
        struct gw_entity eve = entity_of(GW_USER, ACCOUNT, "eve"), bob = entity_of(GW_USER, ACCOUNT, "bob"),
                         dan = entity_of(GW_USER, ACCOUNT, "dan"), *found;
        struct world w;

        make_people(&w);
        bob.id = "AIDABOB";
        assert_int_equal(create(&w, &bob), 0);
        eve.from = "bob";
        put_raw(&w, &eve);
        assert_int_equal(create(&w, &dan), 0);
        assert_int_equal(find(&w, GW_USER, ACCOUNT, "bob", &found, NULL), 0);
        assert_string_equal(found->id, "AIDABOB");
        free(found);
        assert_int_equal(find(&w, GW_USER, ACCOUNT, "eve", &found, NULL), 0);
        assert_string_equal(found->from, "");
        free(found);
        remove_people(&w);
}

static void test_references(void **state)
{
        static const char arn[] = "arn:aws:iam::" ACCOUNT ":policy/Read";
        struct gw_pair versions[] = {{"v1", "{}", 1}, {"v2", "{}", 2}}, in[] = {{"staff", "", 0}},
                       attached[] = {{arn, "", 0}, {arn, "", 0}};
        struct gw_entity group = entity_of(GW_GROUP, ACCOUNT, "staff"), policy = policy_of("Read", versions, 2);
        struct gw_entity user = entity_of(GW_USER, ACCOUNT, "alice");
        struct gw_people_query query = {.kind = GW_LIST_MEMBERS, .account = ACCOUNT, .of = "staff", .max = 10};
        struct call *c = malloc(sizeof(*c));
        struct gw_entity *found;
        uint64_t generation;
        struct world w;

        assert_non_null(c);
        make_people(&w);
        user.sets[GW_SET_GROUPS] = (struct gw_pairs){1, in};
        assert_int_equal(create(&w, &user), -ENOENT); /* no such group */
        assert_int_equal(create(&w, &group), 0);
        user.sets[GW_SET_ATTACHED] = (struct gw_pairs){1, attached};
        assert_int_equal(create(&w, &user), -ENOENT); /* no such policy */
        assert_int_equal(create(&w, &policy), 0);
        user.sets[GW_SET_ATTACHED].count = 2;
        assert_int_equal(create(&w, &user), -EINVAL); /* twice */
        user.sets[GW_SET_ATTACHED].count = 1;
        assert_int_equal(create(&w, &user), 0);
        assert_int_equal(list(&w, &query, c), 1);
        assert_string_equal(c->names[0].name, "user/alice");
        query.kind = GW_LIST_ATTACHED;
        strcpy(query.of, arn);
        assert_int_equal(list(&w, &query, c), 1);
        assert_int_equal(delete (&w, GW_GROUP, ACCOUNT, "Staff"), -EBUSY);
        assert_int_equal(delete (&w, GW_POLICY, ACCOUNT, "Read"), -EBUSY);
        assert_int_equal(delete (&w, GW_USER, ACCOUNT, "alice"), -EBUSY);
        close_people(&w);
        open_people(&w, false);
        assert_int_equal(list(&w, &query, c), 1);

        assert_int_equal(find(&w, GW_USER, ACCOUNT, "alice", &found, &generation), 0);
        assert_string_equal(found->sets[GW_SET_GROUPS].list[0].name, "staff");
        assert_string_equal(found->sets[GW_SET_ATTACHED].list[0].name, arn);
        found->sets[GW_SET_GROUPS].count = found->sets[GW_SET_ATTACHED].count = 0;
        found->boundary = arn;
        assert_int_equal(change(&w, found, generation), 0);
        free(found);
        assert_int_equal(list(&w, &query, c), 0);
        assert_int_equal(delete (&w, GW_GROUP, ACCOUNT, "staff"), 0);
        assert_int_equal(delete (&w, GW_POLICY, ACCOUNT, "Read"), -EBUSY); /* two versions, and a boundary */
        assert_int_equal(find(&w, GW_POLICY, ACCOUNT, "Read", &found, &generation), 0);
        assert_int_equal(found->sets[GW_SET_VERSIONS].list[1].ms, 2);
        found->path = "/other/"; /* it would have another ARN */
        assert_int_equal(change(&w, found, generation), -EINVAL);
        found->path = "/";
        found->id = "ANPAOTHER";
        assert_int_equal(change(&w, found, generation), -EINVAL);
        found->id = policy.id;
        found->sets[GW_SET_VERSIONS].count = 1;
        assert_int_equal(change(&w, found, generation), 0);
        free(found);
        assert_int_equal(delete (&w, GW_POLICY, ACCOUNT, "Read"), -EBUSY); /* a boundary */
        assert_int_equal(delete (&w, GW_USER, ACCOUNT, "alice"), 0);
        assert_int_equal(delete (&w, GW_POLICY, ACCOUNT, "Read"), 0);
        free(c);
        remove_people(&w);
}

/* AWS's quotas that one entity can break. */
static void test_quotas(void **state)
{
        struct gw_pair versions[6], tags[51], groups[11];
        static char names[51][8], big[6200];
        struct gw_entity e;
        struct world w;
        unsigned i;

        make_people(&w);
        memset(big, 'x', sizeof(big) - 1);
        for (i = 0; i < 51; i++) {
                snprintf(names[i], sizeof(names[i]), "v%u", i + 1);
                tags[i] = (struct gw_pair){names[i], "", 0};
                if (i < 6)
                        versions[i] = (struct gw_pair){names[i], "{}", 0};
                if (i < 11)
                        groups[i] = (struct gw_pair){names[i], "", 0};
        }
        for (i = 0; i < 11; i++) {
                e = entity_of(GW_GROUP, ACCOUNT, names[i]);
                assert_int_equal(create(&w, &e), 0);
        }
        e = policy_of("p", versions, 6);
        assert_int_equal(create(&w, &e), -EDQUOT);
        versions[0].text = big;
        e = policy_of("p", versions, 1);
        assert_int_equal(create(&w, &e), -EDQUOT);
        memset(big, ' ', 100); /* white space does not count */
        assert_int_equal(create(&w, &e), 0);
        e = entity_of(GW_USER, ACCOUNT, "u");
        e.sets[GW_SET_TAGS] = (struct gw_pairs){51, tags};
        assert_int_equal(create(&w, &e), -EDQUOT);
        e.sets[GW_SET_TAGS].count = 50;
        e.sets[GW_SET_GROUPS] = (struct gw_pairs){11, groups};
        assert_int_equal(create(&w, &e), -EDQUOT);
        e.sets[GW_SET_GROUPS].count = 10;
        e.sets[GW_SET_INLINE] = (struct gw_pairs){1, versions};
        assert_int_equal(create(&w, &e), -EDQUOT);
        big[2100] = '\0'; /* 2,000 without the spaces */
        assert_int_equal(create(&w, &e), 0);
        remove_people(&w);
}

/* ---- races and lists ------------------------------------------------------------------------- */

static void test_races(void **state)
{
        struct gw_entity e;
        struct world w;
        unsigned i;

        make_people(&w);
        e = entity_of(GW_USER, ACCOUNT, "first");
        assert_int_equal(create(&w, &e), 0);
        for (i = 0; i < 30; i++) {
                struct call a = {.loop = &w.gw->loops[0], .entity = &e}, b = {.loop = &w.gw->loops[1], .entity = &e};
                char name[16];
                int first, second;

                snprintf(name, sizeof(name), "user%u", i);
                e = entity_of(GW_USER, ACCOUNT, name);
                call_begin(&a, run_create);
                call_begin(&b, run_create);
                first = call_end(&a);
                second = call_end(&b);
                assert_int_equal(first + second, -EEXIST); /* one of them */
                assert_true(first == 0 || second == 0);
        }
        remove_people(&w);
}

static int compare_listed(const void *a, const void *b)
{
        return strcasecmp(((const struct gw_listed *)a)->name, ((const struct gw_listed *)b)->name);
}

#define LISTED 120u

/* Pages of every size are what sorted memory says, also with a path. */
static void test_lists(void **state)
{
        static struct gw_listed all[LISTED], some[LISTED];
        struct gw_people_query query = {.kind = GW_USER, .account = ACCOUNT};
        struct call *c = malloc(sizeof(*c));
        unsigned i, count, some_count = 0, max;
        struct gw_entity e;
        struct world w;

        assert_non_null(c);
        make_people(&w);
        for (i = 0; i < LISTED; i++) {
                snprintf(all[i].name, sizeof(all[i].name), "%c%c%u", (i % 2 ? 'a' : 'A') + (int)(i * 7 % 26),
                         i % 3 ? 'x' : '_', i * 7919 % 1000);
                e = entity_of(GW_USER, ACCOUNT, all[i].name);
                e.path = i % 4 == 0 ? "/team/x/" : "/";
                if (i % 4 == 0)
                        some[some_count++] = all[i];
                assert_int_equal(create(&w, &e), 0);
        }
        e = entity_of(GW_GROUP, ACCOUNT, "zz"); /* no user */
        assert_int_equal(create(&w, &e), 0);
        qsort(all, LISTED, sizeof(all[0]), compare_listed);
        qsort(some, some_count, sizeof(some[0]), compare_listed);
        for (max = 1; max <= LISTED + 1; max += 1 + max / 3) {
                query.max = max;
                query.path[0] = query.after[0] = '\0';
                for (count = 0; count < LISTED; count += c->count) {
                        assert_true(list(&w, &query, c) >= 1 && c->count <= max);
                        assert_memory_equal(c->names, all + count, c->count * sizeof(all[0]));
                        assert_int_equal(c->more, count + c->count < LISTED);
                        strcpy(query.after, c->last);
                }
                strcpy(query.path, "/team/");
                query.after[0] = '\0';
                for (count = 0;; count += c->count) {
                        list(&w, &query, c);
                        assert_memory_equal(c->names, some + count, c->count * sizeof(some[0]));
                        if (!c->more)
                                break;
                        strcpy(query.after, c->last);
                }
                assert_int_equal(count + c->count, some_count);
        }
        query.max = 0;
        assert_int_equal(gw_people_list(&w.gw->loops[0], &query, call_listed, c), -EINVAL);
        free(c);
        remove_people(&w);
}

/* ---- many ------------------------------------------------------------------------------------ */

#define IN_FLIGHT 100u

/* Without what is mapped of files. */
static long resident_kib(void)
{
        FILE *file = fopen("/proc/self/status", "r");
        char line[128];
        long kib = 0;

        while (file != NULL && fgets(line, sizeof(line), file) != NULL)
                if (sscanf(line, "RssAnon: %ld", &kib) == 1)
                        break;
        if (file != NULL)
                fclose(file);
        return kib;
}

static void create_users(struct world *w, unsigned first, unsigned count)
{
        static struct gw_entity users[IN_FLIGHT], keys[IN_FLIGHT];
        struct call *calls = calloc(2 * IN_FLIGHT, sizeof(*calls));
        static char sealed[IN_FLIGHT][GW_SEALED_MAX];
        char name[32], id[32];
        unsigned i;

        assert_non_null(calls);
        for (i = 0; i < count; i++) {
                snprintf(name, sizeof(name), "user%07u", first + i);
                snprintf(id, sizeof(id), "AKIAMILLRACE%08u", first + i);
                snprintf(sealed[i], sizeof(sealed[i]), "%s/secret of forty characters, as AWS has them", id);
                users[i] = entity_of(GW_USER, ACCOUNT, name);
                keys[i] = key_of(name, id, sealed[i]);
                calls[2 * i] = (struct call){.loop = &w->gw->loops[i % 2], .entity = &users[i]};
                calls[2 * i + 1] = (struct call){.loop = &w->gw->loops[i % 2], .entity = &keys[i]}; /* behind it */
                call_begin(&calls[2 * i], run_create);
                call_begin(&calls[2 * i + 1], run_create);
        }
        for (i = 0; i < 2 * count; i++)
                assert_int_equal(call_end(&calls[i]), 0);
        free(calls);
}

static void run_look_up(struct lp_msg *msg)
{
        struct call *c = (struct call *)msg;
        const struct gw_entity *found;
        char id[32];
        unsigned i;

        c->rv = 0;
        for (i = 0; i < c->count; i++) {
                snprintf(id, sizeof(id), "AKIAMILLRACE%08u", i);
                c->rv |= gw_people_find_key(c->loop, id, &found) != 0;
        }
        call_done(c, c->rv);
}

static uint64_t look_up_ns(struct world *w, unsigned count)
{
        struct call c = {.loop = &w->gw->loops[1], .count = count};
        uint64_t began = lp_clock();

        call_begin(&c, run_look_up);
        assert_int_equal(call_end(&c), 0);
        return (lp_clock() - began) / count;
}

/* MILLRACE_PEOPLE users with a key each: 100,000 take minutes. What it prints is in docs/design/people.md. */
static void test_many(void **state)
{
        const char *wanted = getenv("MILLRACE_PEOPLE");
        unsigned count = wanted != NULL ? (unsigned)atoi(wanted) : 300, i;
        struct gw_people_query query = {.kind = GW_USER, .account = ACCOUNT, .max = 10};
        struct call *c = malloc(sizeof(*c));
        struct gw_entity last = entity_of(GW_USER, ACCOUNT, "a");
        uint64_t began = lp_clock(), opened;
        struct world w;
        long before;

        assert_non_null(c);
        make_people(&w);
        assert_int_equal(create(&w, &last), 0); /* the index is there */
        before = resident_kib();
        for (i = 0; i < count; i += IN_FLIGHT)
                create_users(&w, i, count - i < IN_FLIGHT ? count - i : IN_FLIGHT);
        print_message("%u users and keys: %.1f s, %ld KiB more\n", count, (double)(lp_clock() - began) / 1e9,
                      resident_kib() - before);
        close_people(&w);
        began = lp_clock();
        open_people(&w, false);
        opened = lp_clock();
        print_message("start: %.2f s; first look-up of each key: %llu ns", (double)(opened - began) / 1e9,
                      (unsigned long long)look_up_ns(&w, count));
        print_message(", then %llu ns\n", (unsigned long long)look_up_ns(&w, count));
        assert_int_equal(list(&w, &query, c), 10);
        print_message("index: %.2f s after the start, %ld KiB in all\n", (double)(lp_clock() - opened) / 1e9,
                      resident_kib());
        assert_string_equal(c->names[1].name, "user0000000");
        began = lp_clock();
        assert_int_equal(list(&w, &query, c), 10);
        print_message("list of 10: %llu us\n", (unsigned long long)(lp_clock() - began) / 1000);
        free(c);
        remove_people(&w);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static void test_texts(void **state)
{
        static const char *const bad[] = {
                "",
                "1 user 000000000001 - alice",
                "1 user 000000000001 - alice\n",
                "1 user 000000000001 - alice\n[]",
                "1 user 000000000001 - alice\n{}",
                "2 user 000000000001 - alice\n{\"path\":\"/\"}",
                "1 user 00000000001 - alice\n{\"path\":\"/\"}",
                "1 user 000000000001 - al ice\n{\"path\":\"/\"}",
                "1 user 000000000001 bob alice\n{\"path\":\"/\"}",
                "1 nobody 000000000001 - alice\n{\"path\":\"/\"}",
                "1 user 000000000001 - alice\n{\"path\":\"/\"}x",
                "1 user 000000000001 - alice\n{\"path\":\"a\"}",
                "1 user 000000000001 - alice\n{\"path\":\"/\",\"path\":\"/\"}",
                "1 user 000000000001 - alice\n{\"path\":\"/\",\"sealed\":\"x\"}",
                "1 user 000000000001 - alice\n{\"path\":\"/\",\"unknown\":\"x\"}",
                "1 user 000000000001 - alice\n{\"path\":\"/\",\"created\":-1}",
                "1 user 000000000001 - alice\n{\"path\":\"/\",\"created\":\"1\"}",
                "1 user 000000000001 - alice\n{\"path\":\"/\",\"groups\":[]}",
                "1 user 000000000001 - alice\n{\"path\":\"/\",\"groups\":{\"a\":1}}",
                "1 user 000000000001 - alice\n{\"path\":\"/\",\"groups\":{\"a\":\"text\"}}",
                "1 key - alice AKIAIOSFODNN7EXAMPLE\n{\"owner\":\"000000000001\"}",
                "1 key - alice akiaiosfodnn7example\n{\"owner\":\"000000000001\",\"sealed\":\"x\"}",
                "1 policy 000000000001 - p\n{\"path\":\"/\",\"version\":\"v1\"}",
        };
        struct gw_entity *e;
        char *text;
        size_t len;
        unsigned i;

        for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_null(gw_entity_decode((struct eng_str){bad[i], strlen(bad[i])}));
        e = gw_entity_decode((struct eng_str){
                "1 user 000000000001 - alice\n{\"path\":\"/\\u0061/\",\"tags\":{\"\\u00fc\":\"\"}}", 75});
        assert_null(e); /* cut */
        text = strdup("1 user 000000000001 - alice\n{\"path\":\"/\\u0061/\",\"tags\":{\"\\u00fc\":\"\\u00fc\"}}");
        assert_non_null(text);
        e = gw_entity_decode((struct eng_str){text, strlen(text)});
        free(text);
        assert_non_null(e);
        assert_string_equal(e->path, "/a/");
        assert_string_equal(e->sets[GW_SET_TAGS].list[0].text, "\xc3\xbc");
        assert_int_equal(gw_entity_encode(e, &text, &len), 0);
        assert_non_null(strstr(text, "1 user 000000000001 - alice\n"));
        free(text);
        free(e);
}

/* What was decided for one entity is not done to the next one of its name, nor to what it has become. */
static void test_deletes_what_was_seen(void **state)
{
        struct gw_entity alice = entity_of(GW_USER, ACCOUNT, "alice"), *found;
        uint64_t first, second;
        struct world w;

        make_people(&w);
        assert_int_equal(delete_seen(&w, GW_USER, ACCOUNT, "alice", GW_PEOPLE_UNSEEN), -ENOENT);
        assert_int_equal(create(&w, &alice), 0);
        assert_int_equal(delete_seen(&w, GW_USER, ACCOUNT, "alice", GW_PEOPLE_UNSEEN), -ESTALE);
        assert_int_equal(find(&w, GW_USER, ACCOUNT, "alice", &found, &first), 0);
        assert_int_equal(change(&w, found, first), 0);
        free(found);
        assert_int_equal(delete_seen(&w, GW_USER, ACCOUNT, "alice", first), -ESTALE);
        assert_int_equal(find(&w, GW_USER, ACCOUNT, "alice", NULL, &second), 0);
        assert_int_equal(delete_seen(&w, GW_USER, ACCOUNT, "alice", second), 0);
        assert_int_equal(delete_seen(&w, GW_USER, ACCOUNT, "alice", second), -ENOENT);
        assert_int_equal(create(&w, &alice), 0);
        assert_int_equal(delete_seen(&w, GW_USER, ACCOUNT, "alice", second), -ESTALE);
        assert_int_equal(delete (&w, GW_USER, ACCOUNT, "alice"), 0);
        remove_people(&w);
}

/* Whatever was asked before. They are stored: the first one is "129 000000000001 alice", by another program. */
static void test_numbers(void **state)
{
        enum { NAMES = 600 };
        static struct gw_entity_name names[NAMES];
        uint64_t numbers[NAMES];
        struct gw_entity_name none = {0}, upper = {.kind = GW_USER, .account = ACCOUNT, .name = "ALICE"};

        assert_true(gw_entity_number(&none) != 0);
        for (unsigned i = 0; i < NAMES; i++) {
                names[i].kind = i % 2 == 0 ? GW_USER : GW_GROUP;
                snprintf(names[i].account, sizeof(names[i].account), "%012u", 1 + i / 2 % 3);
                snprintf(names[i].name, sizeof(names[i].name), "%s%.0u", "alice", i / 6);
                numbers[i] = gw_entity_number(&names[i]);
        }
        for (unsigned i = 0; i < NAMES; i++)
                for (unsigned k = 0; k < i; k++)
                        assert_true(numbers[i] != numbers[k]);
        for (unsigned i = 0; i < 20 * NAMES; i++) {
                unsigned at = i * 7919u % NAMES;

                assert_true(gw_entity_number(&names[at]) == numbers[at]);
        }
        assert_true(gw_entity_number(&upper) == numbers[0] && numbers[0] == 12800444559555607113ull);
}

static void test_arns(void **state)
{
        static const char *const bad[] = {"",
                                          "arn:aws:iam::000000000001",
                                          "arn:aws:iam::000000000001:",
                                          "arn:aws:iam::000000000001:user",
                                          "arn:aws:iam::000000000001:user/",
                                          "arn:aws:iam::000000000001:user/a/",
                                          "arn:aws:iam::000000000001:users/a",
                                          "arn:aws:iam::00000000001:user/a",
                                          "arn:aws:iam::aws:policy/ReadOnlyAccess",
                                          "arn:aws:sts::000000000001:user/a",
                                          "arn:aws:iam::000000000001:user/a b",
                                          "arn:aws:iam::000000000001:key/AKIAIOSFODNN7EXAMPLE"};
        struct gw_entity e = entity_of(GW_ROLE, ACCOUNT, "r");
        struct gw_entity_name who;
        char arn[64];
        unsigned i;

        for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_int_equal(gw_entity_of_arn(bad[i], &who), -EINVAL);
        assert_int_equal(gw_entity_of_arn("arn:aws:iam::000000000001:root", &who), 0);
        assert_int_equal(who.kind, GW_ACCOUNT);
        assert_string_equal(who.name, ACCOUNT);
        e.path = "/a/b/";
        assert_true(gw_entity_arn(&e, arn, sizeof(arn)));
        assert_string_equal(arn, "arn:aws:iam::000000000001:role/a/b/r");
        assert_int_equal(gw_entity_of_arn(arn, &who), 0);
        assert_true(gw_entity_same(&who, &e.who));
        assert_false(gw_entity_arn(&e, arn, 30));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_providers),
                cmocka_unit_test(test_texts),          cmocka_unit_test(test_arns),
                cmocka_unit_test(test_numbers),        cmocka_unit_test(test_deletes_what_was_seen),
                cmocka_unit_test(test_users_and_keys), cmocka_unit_test(test_accounts),
                cmocka_unit_test(test_an_id_is_of_one),
                cmocka_unit_test(test_same_number),    cmocka_unit_test(test_races),
                cmocka_unit_test(test_references),     cmocka_unit_test(test_quotas),
                cmocka_unit_test(test_key_of_a_dash),  cmocka_unit_test(test_unreadable_user_with_key),
                cmocka_unit_test(test_unreadable_policy_in_use),
                cmocka_unit_test(test_renames),        cmocka_unit_test(test_renames_that_were_cut_off),
                cmocka_unit_test(test_a_rename_goes_on_with_the_next_change),
                cmocka_unit_test(test_a_rename_waits_for_a_store_that_takes_changes),
                cmocka_unit_test(test_a_rename_leaves_others_alone),
                cmocka_unit_test(test_lists),          cmocka_unit_test(test_many),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
