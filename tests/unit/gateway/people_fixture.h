/*
 * people_fixture.h - a gateway over the fake engine that a user asks, with policies of the user's and of the bucket's.
 */
#ifndef TESTS_UNIT_GATEWAY_PEOPLE_FIXTURE_H
#define TESTS_UNIT_GATEWAY_PEOPLE_FIXTURE_H

#include "gateway/people/people.h"
#include "gateway/rights/bucket_policy.h"
#include "gateway/s3/bucket_texts.h"
#include "tests/unit/gateway/ops_fixture.h"

#define USER_KEY    "AKIAIOSFODNN7EXAMPLE"
#define USER_SECRET "another secret, of a user"

static bool user_signs(struct gw_loop *loop, const char *access_key, struct gw_credential *out)
{
        memset(out, 0, sizeof(*out));
        strcpy(out->access_key, USER_KEY);
        strcpy(out->secret_key, USER_SECRET);
        return strcmp(access_key, USER_KEY) == 0;
}

static struct gw_service service_with_user;

static int user_setup(void **state)
{
        site_open(NULL);
        service_with_user = *site.gw->service;
        service_with_user.signer = user_signs;
        site.gw->service = &service_with_user;
        site_access = USER_KEY;
        site_secret = USER_SECRET;
        return 0;
}

static int user_teardown(void **state)
{
        site_access = ACCESS_KEY;
        site_secret = SECRET_KEY;
        site_close();
        return 0;
}

#define ALLOW(action, resource) "{\"Effect\":\"Allow\",\"Action\":" action ",\"Resource\":" resource "}"
#define DENY(action, resource)  "{\"Effect\":\"Deny\",\"Action\":" action ",\"Resource\":" resource "}"
#define POLICY(statements)      "{\"Version\":\"2012-10-17\",\"Statement\":[" statements "]}"
#define TO_ALL(effect, action, resource, more)                                                                         \
        "{\"Effect\":\"" effect "\",\"Principal\":\"*\",\"Action\":\"" action "\",\"Resource\":\"arn:aws:s3:::" resource "\"" more "}"
#define IF(op, key, value) ",\"Condition\":{\"" op "\":{\"" key "\":\"" value "\"}}"

static void keep_entity(struct gw_entity *entity)
{
        char *text;
        size_t len;

        assert_int_equal(gw_entity_encode(entity, &text, &len), 0);
        fake_entry_set(gw_entity_number(&entity->who), entity->who.kind, (struct eng_str){text, len});
        free(text);
}

static struct gw_pair one_group = {.name = "staff"}, one_attached, one_inline = {.name = "own"}, one_tag = {"team", "blue", 0};

/* The user that site_access signs for, with this policy (NULL: none), attached policy, boundary. */
static void be_user(const char *policy, const char *attached, const char *boundary, bool grouped)
{
        struct gw_entity key = {.who = {.kind = GW_ACCESS_KEY, .of = "alice", .name = USER_KEY},
                                .owner = GW_FIRST_ACCOUNT, .sealed = "x", .created_ms = 1, .active = 1};
        struct gw_entity user = {.who = {.kind = GW_USER, .account = GW_FIRST_ACCOUNT, .name = "alice"},
                                 .path = "/", .id = "AIDAEXAMPLE", .boundary = boundary, .created_ms = 1};

        one_inline.text = policy;
        one_attached.name = attached;
        user.sets[GW_SET_INLINE] = (struct gw_pairs){policy != NULL, &one_inline};
        user.sets[GW_SET_ATTACHED] = (struct gw_pairs){attached != NULL, &one_attached};
        user.sets[GW_SET_GROUPS] = (struct gw_pairs){grouped, &one_group};
        user.sets[GW_SET_TAGS] = (struct gw_pairs){1, &one_tag};
        keep_entity(&key);
        keep_entity(&user);
        site_access = USER_KEY;
        site_secret = USER_SECRET;
}

/* That user, as it is made anew: with another unique id, or path. */
static void be_alice_of(const char *id, const char *path)
{
        struct gw_entity user = {.who = {.kind = GW_USER, .account = GW_FIRST_ACCOUNT, .name = "alice"}, .path = path, .id = id, .created_ms = 1};

        keep_entity(&user);
        site_access = USER_KEY;
        site_secret = USER_SECRET;
}

static void be_root(void)
{
        site_access = ACCESS_KEY;
        site_secret = SECRET_KEY;
}

static void bucket_policy(const char *text)
{
        fake_text_set(GW_BUCKET_POLICY, (struct eng_str){text, strlen(text)});
}

static void unblock_public(bool on)
{
        fake_text_set(GW_TEXT_PUBLIC_ACCESS, (struct eng_str){GW_TEXT_GONE, on});
}

static unsigned send_stranger(const char *method, const char *target, const char *more, const char *body)
{
        struct answer a;
        int fd = dial();
        char head[1024];

        snprintf(head, sizeof(head), "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n%s\r\n%s", method, target,
                 strlen(body), more, body);
        send_text(fd, head);
        read_answer(fd, &a, strcmp(method, "HEAD") == 0);
        answer_free(&a);
        close(fd);
        return a.status;
}

static unsigned send_as_is(const char *method, const char *target, const struct s3_header *header, const char *body)
{
        struct answer a;
        int fd = dial();

        ask(fd, method, target, header, header != NULL, NULL, body);
        read_answer(fd, &a, strcmp(method, "HEAD") == 0);
        answer_free(&a);
        close(fd);
        return a.status;
}

#endif
