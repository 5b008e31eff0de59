/*
 * Rules D24 to D26: ids of letters and digits; a change is made for those who were meant by their names when it was
 * decided, or when a file was written, and for nobody else.
 */
#include <strings.h>

#include "gateway/iam/call.h"
#include "gateway/people/people_queue.h"
#include "tests/unit/gateway/people_world.h"

#define AKID2 "AKIAIOSFODNN7EXAMPL2"

/* ---- ids ------------------------------------------------------------------------------------- */

static int put(struct world *w, const char *names, const struct gw_entity *entity, bool look,
               enum gw_people_put *result)
{
        char *text, *both;
        size_t len;
        bool opens;
        int rv;

        assert_int_equal(gw_entity_encode(entity, &text, &len), 0);
        assert_true(asprintf(&both, "%s%s%s", names, *names != '\0' ? "\n" : "", text) > 0);
        do
                rv = gw_people_put(w->gw, both, strlen(both), look, result, &opens);
        while (rv == -EAGAIN); /* the index is being made */
        free(both);
        free(text);
        return rv;
}

/* With a space or a line's end an id would be read as another binding of a policy; without one nothing is bound. */
static void test_ids_are_letters_and_digits(void **state)
{
        static const char *const bad[] = {"",      "AIDA X",   "AIDA\nAIDAB arn", "AIDA-", "-",
                                          "AIDA/", "AIDA\xc3\xbc", "AIDA.",       " ",     "AIDA\t"};
        struct gw_pair read = {.name = "v1", .text = "{}", .ms = 1};
        struct gw_entity kinds[] = {entity_of(GW_USER, ACCOUNT, "alice"), entity_of(GW_GROUP, ACCOUNT, "staff"),
                                    entity_of(GW_ROLE, ACCOUNT, "robot"), policy_of("Read", &read, 1),
                                    entity_of(GW_ACCOUNT, "", "000000000002")};
        char longest[GW_ENTITY_ID_MAX + 1];
        enum gw_people_put result;
        struct world w;

        make_people(&w);
        for (unsigned kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
                struct gw_entity e = kinds[kind];

                for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                        e.id = bad[i];
                        assert_int_equal(create(&w, &e), -EILSEQ);
                        assert_int_equal(put(&w, "", &e, true, &result), -EILSEQ);
                        assert_int_equal(put(&w, "", &e, false, &result), -EILSEQ);
                }
                assert_int_equal(find(&w, e.who.kind, e.who.account, e.who.name, NULL, NULL), -ENOENT);
                memset(longest, "aB9zK"[kind], GW_ENTITY_ID_MAX);
                longest[GW_ENTITY_ID_MAX] = '\0';
                e.id = longest;
                assert_int_equal(create(&w, &e), 0);
                e.id = "AIDA X"; /* also of a name that is there: the file is wrong, whatever is kept */
                assert_int_equal(put(&w, "", &e, true, &result), -EILSEQ);
        }
        assert_true(gw_entity_id_valid(GW_ACCESS_KEY, "") && gw_entity_id_valid(GW_PROVIDER, ""));
        remove_people(&w);
}

/* ---- of a file (D25) ------------------------------------------------------------------------- */

#define ALICE_A "{\"1 user " ACCOUNT " - alice\":\"AIDAA\"}"
#define ALICE_B "{\"1 user " ACCOUNT " - ALICE\":\"aidab\"}"

static void test_a_key_is_made_for_whom_the_file_means(void **state)
{
        struct gw_entity alice = entity_of(GW_USER, ACCOUNT, "alice"), file = alice,
                         key = key_of("alice", AKID, AKID "/secret");
        enum gw_people_put result;
        struct world w;

        make_people(&w);
        assert_int_equal(put(&w, ALICE_A, &key, false, &result), -ENOENT); /* she is not here */
        alice.id = "AIDAB";
        file.id = "AIDAA";
        assert_int_equal(create(&w, &alice), 0);
        assert_int_equal(put(&w, "", &file, true, &result), 0);
        assert_int_equal(result, GW_PEOPLE_ANOTHER);
        assert_int_equal(put(&w, "", &alice, true, &result), 0);
        assert_int_equal(result, GW_PEOPLE_SAME);
        file.id = "AIDAB";
        file.path = "/team/";
        assert_int_equal(put(&w, "", &file, true, &result), 0);
        assert_int_equal(result, GW_PEOPLE_DIFFERS);

        assert_int_equal(put(&w, ALICE_A, &key, true, &result), -EREMCHG);
        assert_int_equal(put(&w, ALICE_A, &key, false, &result), -EREMCHG);
        assert_int_equal(put(&w, "{\"1 user " ACCOUNT " - alice\":\"-\"}", &key, false, &result), -EREMCHG);
        assert_int_equal(find(&w, GW_ACCESS_KEY, "", AKID, NULL, NULL), -ENOENT);
        assert_int_equal(put(&w, ALICE_B, &key, true, &result), 0);
        assert_int_equal(result, GW_PEOPLE_NEW);
        assert_int_equal(put(&w, ALICE_B, &key, false, &result), 0);
        assert_int_equal(find(&w, GW_ACCESS_KEY, "", AKID, NULL, NULL), 0);
        assert_int_equal(put(&w, ALICE_A, &key, false, &result), 0); /* it is there, whoever was meant */
        assert_int_equal(result, GW_PEOPLE_SAME);
        key = key_of("alice", AKID2, AKID2 "/secret");
        assert_int_equal(put(&w, "", &key, false, &result), 0); /* a file that says nothing goes by names */
        remove_people(&w);
}

static void test_each_name_of_an_entry_counts(void **state)
{
        struct gw_pair read = {.name = "v1", .text = "{}", .ms = 1}, in = {.name = "staff"},
                       has = {.name = "arn:aws:iam::" ACCOUNT ":policy/Read"};
        struct gw_entity staff = entity_of(GW_GROUP, ACCOUNT, "staff"), policy = policy_of("Read", &read, 1),
                         bob = entity_of(GW_USER, ACCOUNT, "bob");
        enum gw_people_put result;
        struct world w;

        staff.id = "AGPAB";
        policy.id = "ANPAB";
        bob.sets[GW_SET_GROUPS] = (struct gw_pairs){1, &in};
        bob.sets[GW_SET_ATTACHED] = (struct gw_pairs){1, &has};
        make_people(&w);
        assert_int_equal(create(&w, &staff) | create(&w, &policy), 0);
        assert_int_equal(put(&w, "{\"1 group " ACCOUNT " - staff\":\"AGPAB\",\"1 policy " ACCOUNT " - Read\":\"ANPAA\"}",
                             &bob, false, &result),
                         -EREMCHG);
        assert_int_equal(put(&w, "{\"1 group " ACCOUNT " - staff\":\"AGPAA\",\"1 policy " ACCOUNT " - Read\":\"ANPAB\"}",
                             &bob, false, &result),
                         -EREMCHG);
        assert_int_equal(find(&w, GW_USER, ACCOUNT, "bob", NULL, NULL), -ENOENT);
        assert_int_equal(put(&w, "{\"1 group " ACCOUNT " - staff\":\"AGPAB\",\"1 policy " ACCOUNT " - Read\":\"ANPAB\"}",
                             &bob, false, &result),
                         0);
        remove_people(&w);
}

static void test_names_that_make_no_sense(void **state)
{
        static const char *const bad[] = {
                "{",
                "{}x",
                "{\"1 user " ACCOUNT " - alice\":\"\"}",
                "{\"1 user " ACCOUNT " - alice\":7}",
                "{\"1 user " ACCOUNT " - alice\":\"A\\u0000B\"}",
                "{\"1 user " ACCOUNT " - alice\":\"A\",\"1 user " ACCOUNT " - alice\":\"B\"}",
                "{\"1 user " ACCOUNT " - al ice\":\"A\"}",
                "{\"1 user 1 - alice\":\"A\"}",
                "{\"alice\":\"A\"}",
                "{\"\":\"A\"}",
                "{\"1 user " ACCOUNT " - alice\\n{}\":\"A\"}",
                "{\"1 user " ACCOUNT " - alice\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}",
        };
        struct gw_people_terms *terms;
        struct eng_str text;
        char line[256], *many, *at;

        for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                snprintf(line, sizeof(line), "%s\nrest", bad[i]);
                text = (struct eng_str){line, strlen(line)};
                assert_int_equal(gw_terms_read(&text, &terms), -EINVAL);
                assert_null(terms);
        }
        strcpy(line, "{\"1 account - - 123456789012\":\"abc\"}\nrest");
        text = (struct eng_str){line, strlen(line)};
        assert_int_equal(gw_terms_read(&text, &terms), 0);
        assert_int_equal(terms->count, 1);
        assert_int_equal(terms->list[0].who.kind, GW_ACCOUNT);
        assert_string_equal(terms->list[0].who.name, "123456789012");
        assert_string_equal(terms->list[0].id, "abc");
        assert_true(text.len == 4 && memcmp(text.data, "rest", 4) == 0);
        free(terms);
        strcpy(line, "1 user");
        text = (struct eng_str){line, strlen(line)};
        assert_int_equal(gw_terms_read(&text, &terms), 0);
        assert_true(terms->count == 0 && text.len == 6);
        free(terms);

        many = malloc((GW_PEOPLE_TERMS_MAX + 1) * 48 + 8);
        assert_non_null(many);
        at = many;
        for (unsigned i = 0; i <= GW_PEOPLE_TERMS_MAX; i++)
                at += sprintf(at, "%s\"1 user " ACCOUNT " - u%u\":\"A\"", i == 0 ? "{" : ",", i);
        strcpy(at, "}\n");
        text = (struct eng_str){many, strlen(many)};
        assert_int_equal(gw_terms_read(&text, &terms), -EINVAL);
        free(many);
}

/* ---- what was decided (D26) ------------------------------------------------------------------ */

/* A decision of IAM looks at a user, by name and by ARN; the call keeps it. */
struct decision {
        struct lp_msg msg; /* first */
        struct call *done;
        struct gw_request req;
        struct iam_call iam;
        const struct gw_entity_name *who;
        const char *arn;
        bool goes_on; /* the decision that was begun before looks once more */
};

static void run_decision(struct lp_msg *msg)
{
        struct decision *d = (struct decision *)msg;
        const struct gw_entity *found;
        int rv;

        if (!d->goes_on)
                iam_decision_begin(&d->iam);
        rv = iam_look(&d->iam, d->who, &found);
        if (d->arn != NULL)
                assert_int_equal(iam_look_arn(&d->iam, d->arn, &found), rv);
        call_done(d->done, rv);
}

static int decide(struct world *w, struct decision *d, const struct gw_entity_name *who, const char *arn)
{
        struct call done = {.rv = 0};

        d->done = &done;
        d->req.loop = &w->gw->loops[1];
        d->iam.req = &d->req;
        d->who = who;
        d->arn = arn;
        sem_init(&done.ended, 0, 0);
        d->msg.run = run_decision;
        lp_post(d->req.loop->lp, &d->msg);
        return call_end(&done);
}

static int create_decided(struct world *w, const struct decision *d, const struct gw_entity *entity)
{
        const struct gw_people_terms terms = iam_decided(&d->iam);
        struct call c = {.loop = &w->gw->loops[1], .entity = entity, .terms = &terms};

        call_begin(&c, run_create);
        return call_end(&c);
}

/* What there is of this name, with another path. */
static int change_decided(struct world *w, const struct decision *d, const char *name, const char *path)
{
        const struct gw_people_terms terms = iam_decided(&d->iam);
        struct call c = {.loop = &w->gw->loops[1], .terms = &terms};
        struct gw_entity *found;
        int rv = find(w, GW_USER, ACCOUNT, name, &found, &c.generation);

        assert_int_equal(rv, 0);
        found->path = path;
        c.entity = found;
        call_begin(&c, run_change);
        rv = call_end(&c);
        free(found);
        return rv;
}

/* As IAM deletes an access key that it has just found. */
static int delete_decided(struct world *w, const struct decision *d, const char *key)
{
        const struct gw_people_terms terms = iam_decided(&d->iam);
        struct gw_entity_name who = {.kind = GW_ACCESS_KEY};
        struct call c = {.loop = &w->gw->loops[0], .who = &who, .terms = &terms};

        strcpy(who.name, key);
        assert_int_equal(find(w, GW_ACCESS_KEY, "", key, NULL, &c.generation), 0);
        call_begin(&c, run_delete);
        return call_end(&c);
}

static int rename_decided(struct world *w, const struct decision *d, const char *from, const char *name)
{
        const struct gw_people_terms terms = iam_decided(&d->iam);
        struct call c = {.loop = &w->gw->loops[1], .text = from, .terms = &terms};
        struct gw_entity *found;
        int rv;

        assert_int_equal(find(w, GW_USER, ACCOUNT, from, &found, &c.generation), 0);
        strcpy(found->who.name, name);
        c.entity = found;
        call_begin(&c, run_rename);
        rv = call_end(&c);
        free(found);
        return rv;
}

/* bob is deleted, and somebody else is called so; his keys are none of those that were decided about bob. */
static void make_bob_anew(struct world *w, const char *id)
{
        struct gw_entity bob = entity_of(GW_USER, ACCOUNT, "bob");

        bob.id = id;
        assert_int_equal(delete (w, GW_USER, ACCOUNT, "bob"), 0);
        assert_int_equal(create(w, &bob), 0);
}

static void test_a_key_is_made_for_whom_it_was_decided(void **state)
{
        struct gw_entity bob = entity_of(GW_USER, ACCOUNT, "bob"), key = key_of("bob", AKID, AKID "/secret"),
                         second = key_of("bob", AKID2, AKID2 "/secret"), *found;
        struct decision none = {.done = NULL}, first = none, changed = none, anew = none;
        uint64_t generation;
        struct world w;

        make_people(&w);
        assert_int_equal(decide(&w, &none, &bob.who, "arn:aws:iam::" ACCOUNT ":user/bob"), -ENOENT);
        assert_int_equal(create(&w, &bob), 0);
        assert_int_equal(decide(&w, &first, &bob.who, "arn:aws:iam::" ACCOUNT ":user/bob"), 0);
        assert_int_equal(first.iam.seen_count, 1);
        assert_int_equal(create_decided(&w, &none, &key), -ESTALE); /* nobody was there to decide about */

        assert_int_equal(find(&w, GW_USER, ACCOUNT, "bob", &found, &generation), 0);
        assert_int_equal(change(&w, found, generation), 0);
        free(found);
        assert_int_equal(create_decided(&w, &first, &key), -ESTALE); /* his tags may be others now */
        assert_int_equal(decide(&w, &changed, &bob.who, NULL), 0);
        make_bob_anew(&w, "AIDABOB2");
        assert_int_equal(create_decided(&w, &first, &key), -ESTALE);
        assert_int_equal(create_decided(&w, &changed, &key), -ESTALE);
        assert_int_equal(find(&w, GW_ACCESS_KEY, "", AKID, NULL, NULL), -ENOENT);
        assert_int_equal(decide(&w, &anew, &bob.who, NULL), 0);
        assert_int_equal(create_decided(&w, &anew, &key), 0);
        assert_int_equal(create_decided(&w, &anew, &second), 0); /* what he has is in other entries */

        assert_int_equal(delete (&w, GW_ACCESS_KEY, "", AKID) | delete (&w, GW_ACCESS_KEY, "", AKID2), 0);
        assert_int_equal(delete (&w, GW_USER, ACCOUNT, "bob"), 0);
        assert_int_equal(create_decided(&w, &anew, &key), -ESTALE);
        assert_int_equal(create_decided(&w, &none, &key), -ENOENT);
        remove_people(&w);
}

/* Each kind of change, also of another entity than the one that was decided about, as of a group's member. */
static void test_every_change_is_of_what_was_decided(void **state)
{
        struct gw_entity bob = entity_of(GW_USER, ACCOUNT, "bob"), ann = entity_of(GW_USER, ACCOUNT, "ann"),
                         key = key_of("ann", AKID, AKID "/secret");
        struct decision first = {.done = NULL}, second = {.done = NULL};
        struct world w;

        make_people(&w);
        assert_int_equal(create(&w, &bob) | create(&w, &ann) | create(&w, &key), 0);
        assert_int_equal(decide(&w, &first, &bob.who, NULL), 0);
        make_bob_anew(&w, "AIDABOB2");
        assert_int_equal(change_decided(&w, &first, "ann", "/a/"), -ESTALE);
        assert_int_equal(rename_decided(&w, &first, "ann", "anne"), -ESTALE);
        assert_int_equal(change_decided(&w, &first, "bob", "/a/"), -ESTALE);
        assert_int_equal(delete_decided(&w, &first, AKID), -ESTALE);
        assert_int_equal(decide(&w, &second, &bob.who, NULL), 0);
        assert_int_equal(change_decided(&w, &second, "ann", "/a/"), 0);
        assert_int_equal(rename_decided(&w, &second, "ann", "anne"), 0);
        assert_int_equal(delete_decided(&w, &second, AKID), 0);
        assert_int_equal(change_decided(&w, &second, "bob", "/a/"), 0);
        assert_int_equal(change_decided(&w, &second, "bob", "/b/"), -ESTALE); /* the decision is spent */
        remove_people(&w);
}

/* Two looks at one name, between which it became another's: what is changed later must be the first. */
static void test_the_first_look_counts(void **state)
{
        struct gw_entity bob = entity_of(GW_USER, ACCOUNT, "bob"), key = key_of("bob", AKID, AKID "/secret");
        struct decision d = {.done = NULL};
        uint64_t first;
        struct world w;

        make_people(&w);
        assert_int_equal(create(&w, &bob), 0);
        assert_int_equal(decide(&w, &d, &bob.who, NULL), 0);
        first = d.iam.seen[0].generation;
        make_bob_anew(&w, "AIDABOB2");
        d.goes_on = true;
        assert_int_equal(decide(&w, &d, &bob.who, "arn:aws:iam::" ACCOUNT ":user/bob"), 0);
        assert_true(d.iam.seen_count == 1 && d.iam.seen[0].generation == first);
        assert_int_equal(create_decided(&w, &d, &key), -ESTALE);
        d.goes_on = false;
        assert_int_equal(decide(&w, &d, &bob.who, NULL), 0);
        assert_int_equal(create_decided(&w, &d, &key), 0);
        remove_people(&w);
}

static void test_terms_have_a_bound(void **state)
{
        static struct gw_people_seen list[GW_PEOPLE_TERMS_MAX + 1];
        struct gw_people_terms terms = {GW_PEOPLE_TERMS_MAX + 1, list};
        struct gw_entity bob = entity_of(GW_USER, ACCOUNT, "bob");
        struct call c = {.entity = &bob, .terms = &terms};
        struct world w;

        for (unsigned i = 0; i <= GW_PEOPLE_TERMS_MAX; i++)
                list[i] = (struct gw_people_seen){.who = bob.who, .generation = GW_PEOPLE_UNSEEN};
        make_people(&w);
        c.loop = &w.gw->loops[1];
        call_begin(&c, run_create);
        assert_int_equal(call_end(&c), -E2BIG);
        terms.count--;
        do
                call_begin(&c, run_create);
        while (call_end(&c) == -EAGAIN);
        assert_int_equal(c.rv, 0);
        remove_people(&w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_ids_are_letters_and_digits),
                cmocka_unit_test(test_a_key_is_made_for_whom_the_file_means),
                cmocka_unit_test(test_each_name_of_an_entry_counts),
                cmocka_unit_test(test_names_that_make_no_sense),
                cmocka_unit_test(test_a_key_is_made_for_whom_it_was_decided),
                cmocka_unit_test(test_every_change_is_of_what_was_decided),
                cmocka_unit_test(test_the_first_look_counts),
                cmocka_unit_test(test_terms_have_a_bound),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
