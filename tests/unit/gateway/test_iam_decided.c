/*
 * Rule D26 of docs/design/people.md by IAM's own calls: somebody gets another's name after a decision has looked at it
 * for the first time, and before the change is made. The change is not made of whoever has come: it is decided anew.
 */
#include <openssl/hmac.h>

#include "gateway/iam/call.h"
#include "tests/unit/gateway/people_fixture.h"

#define BOB_KEY "AKIAIOSFODNN7EXAMPLB"
#define ACCOUNT GW_FIRST_ACCOUNT
#define ON_RED  "[\"arn:aws:iam::" ACCOUNT ":*/red/*\",\"arn:aws:iam::" ACCOUNT ":user/*/rob\"]" /* and may call anybody rob */

/* ---- requests of IAM ------------------------------------------------------------------------- */

static void hmac(unsigned char key[32], size_t key_len, const char *text)
{
        unsigned char out[32];

        assert_non_null(HMAC(EVP_sha256(), key, (int)key_len, (const unsigned char *)text, strlen(text), out, NULL));
        memcpy(key, out, sizeof(out));
}

static void hex_of(const char *text, char out[65])
{
        unsigned char digest[32];

        assert_int_equal(EVP_Digest(text, strlen(text), digest, NULL, EVP_sha256(), NULL), 1);
        s3_hex_encode(digest, sizeof(digest), out);
}

/* Signature of a form at this time, by the user's key. */
static void sign_form(const char *form, const char *date, char out[65])
{
        unsigned char key[64] = "AWS4" USER_SECRET;
        char canonical[512], body[65], digest[65], text[256], day[9];

        snprintf(day, sizeof(day), "%.8s", date);
        hex_of(form, body);
        snprintf(canonical, sizeof(canonical), "POST\n/\n\nhost:localhost\nx-amz-date:%s\n\nhost;x-amz-date\n%s", date, body);
        hex_of(canonical, digest);
        snprintf(text, sizeof(text), "AWS4-HMAC-SHA256\n%s\n%s/us-east-1/iam/aws4_request\n%s", date, day, digest);
        hmac(key, strlen("AWS4" USER_SECRET), day);
        hmac(key, 32, "us-east-1");
        hmac(key, 32, "iam");
        hmac(key, 32, "aws4_request");
        hmac(key, 32, text);
        s3_hex_encode(key, 32, out);
}

static void ask_iam(const char *action, unsigned status, const char *code)
{
        char form[1024], head[2048], date[S3_DATE_AMZ_SIZE], signature[65];
        int fd = dial();

        snprintf(form, sizeof(form), "Version=2010-05-08&Action=%s", action);
        s3_date_format_amz(lp_wall_ms(), date);
        sign_form(form, date, signature);
        snprintf(head, sizeof(head),
                 "POST / HTTP/1.1\r\nHost: localhost\r\nx-amz-date: %s\r\nContent-Type: application/x-www-form-urlencoded\r\n"
                 "Content-Length: %zu\r\nAuthorization: AWS4-HMAC-SHA256 Credential=" USER_KEY
                 "/%.8s/us-east-1/iam/aws4_request, SignedHeaders=host;x-amz-date, Signature=%s\r\n\r\n%s",
                 date, strlen(form), date, signature, form);
        send_text(fd, head);
        expect(fd, status, code);
        close(fd);
}

/* ---- who there is ---------------------------------------------------------------------------- */

static atomic_bool people_started;

static int seal_nothing(void *arg, const char *about, const char *secret, char *out, size_t size)
{
        snprintf(out, size, "x");
        return 0;
}

static void start_people(struct lp_msg *msg)
{
        assert_int_equal(gw_people_start(site.gw), 0);
        atomic_store(&people_started, true);
}

static int decided_setup(void **state)
{
        static struct lp_msg start = {.run = start_people};

        user_setup(state);
        site.gw->sealer.seal = seal_nothing;
        atomic_store(&people_started, false);
        lp_post(site.loop, &start);
        WAIT_UNTIL(atomic_load(&people_started) && gw_people_known(site.gw));
        return gw_people_known(site.gw) ? 0 : -1;
}

static struct gw_pair bobs_group = {.name = "staff"};

static struct gw_entity bob_of(const char *id, const char *path)
{
        struct gw_entity bob = {.who = {.kind = GW_USER, .account = ACCOUNT, .name = "bob"},
                                .path = path, .id = id, .created_ms = 1};

        bob.sets[GW_SET_GROUPS] = (struct gw_pairs){1, &bobs_group};
        return bob;
}

static struct gw_entity staff_of(const char *id, const char *path)
{
        return (struct gw_entity){
                .who = {.kind = GW_GROUP, .account = ACCOUNT, .name = "staff"}, .path = path, .id = id, .created_ms = 1};
}

static void forget_entities(void)
{
        pthread_mutex_lock(&fake.lock);
        for (unsigned i = 0; i < sizeof(fake.entries_kept) / sizeof(fake.entries_kept[0]); i++) {
                fake_text_write(&fake.entries_kept[i].text, (struct eng_str){"", 0});
                fake.entries_kept[i].kind = 0;
        }
        pthread_mutex_unlock(&fake.lock);
}

/* Alice may do everything to what has the path /red/, as bob, ann and staff have. Bob has a key. */
static void begin_red(void)
{
        struct gw_entity bob = bob_of("AIDABOB", "/red/"), staff = staff_of("AGPASTAFF", "/red/"),
                         key = {.who = {.kind = GW_ACCESS_KEY, .of = "bob", .name = BOB_KEY},
                                .owner = ACCOUNT, .sealed = "x", .created_ms = 1, .active = 1},
                         ann = {.who = {.kind = GW_USER, .account = ACCOUNT, .name = "ann"},
                                .path = "/", .id = "AIDAANN", .created_ms = 1};

        forget_entities();
        be_user(POLICY(ALLOW("\"iam:*\"", ON_RED)), NULL, NULL, false);
        keep_entity(&bob);
        keep_entity(&staff);
        keep_entity(&key);
        keep_entity(&ann);
}

static struct {
        uint64_t number;
        unsigned kind, looks;
} watched; /* loop, once a request is sent */

/* In the place of the red one, whose text stays for those who have found it. Its generation is its own. */
static void become_blue(unsigned kind)
{
        struct gw_entity bob = bob_of("AIDABOB2", "/blue/"), staff = staff_of("AGPASTAFF2", "/blue/");
        struct fake_entry *entry = fake.entries_kept;

        pthread_mutex_lock(&fake.lock);
        while (entry->kind != kind || entry->id != watched.number)
                entry++;
        entry->id = ~entry->id;
        pthread_mutex_unlock(&fake.lock);
        keep_entity(kind == GW_USER ? &bob : &staff);
        pthread_mutex_lock(&fake.lock);
        for (entry = fake.entries_kept; entry->kind != kind || entry->id != watched.number; entry++)
                ;
        entry->text.generation = 1000;
        pthread_mutex_unlock(&fake.lock);
}

static void at_second_look(uint64_t id, unsigned kind)
{
        if (kind != watched.kind || id != watched.number || ++watched.looks != 2)
                return;
        fake.before_entry = NULL;
        become_blue(kind);
}

/* From the second look on, another one has the name. */
static void watch(const struct gw_entity_name *who)
{
        watched.number = gw_entity_number(who);
        watched.kind = who->kind;
        watched.looks = 0;
        fake.before_entry = at_second_look;
}

/* Those of that text, by what it contains. */
static bool is_kept(const struct gw_entity_name *who, const char *text)
{
        uint64_t number = gw_entity_number(who);
        bool has = false;

        pthread_mutex_lock(&fake.lock);
        for (unsigned i = 0; i < sizeof(fake.entries_kept) / sizeof(fake.entries_kept[0]); i++) {
                struct fake_entry *entry = &fake.entries_kept[i];

                if (entry->kind == who->kind && entry->id == number && entry->text.len > 0)
                        has |= memmem(entry->text.bytes, entry->text.len, text, strlen(text)) != NULL;
        }
        pthread_mutex_unlock(&fake.lock);
        return has;
}

static unsigned keys_kept(void)
{
        unsigned count = 0;

        pthread_mutex_lock(&fake.lock);
        for (unsigned i = 0; i < sizeof(fake.entries_kept) / sizeof(fake.entries_kept[0]); i++)
                count += fake.entries_kept[i].kind == GW_ACCESS_KEY && fake.entries_kept[i].text.len > 0;
        pthread_mutex_unlock(&fake.lock);
        return count;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Of each kind of change one, and of some two: of whom the decision is about, and of another entity. */
static const struct {
        unsigned kind; /* of whoever gets another */
        const char *action;
} cases[] = {
        {GW_USER, "CreateAccessKey&UserName=bob"},
        {GW_USER, "UpdateAccessKey&UserName=bob&AccessKeyId=" BOB_KEY "&Status=Inactive"},
        {GW_USER, "DeleteAccessKey&UserName=bob&AccessKeyId=" BOB_KEY},
        {GW_GROUP, "AddUserToGroup&GroupName=staff&UserName=ann"},
        {GW_GROUP, "RemoveUserFromGroup&GroupName=staff&UserName=bob"},
        {GW_USER, "UpdateUser&UserName=bob&NewPath=/red/team/"},
        {GW_USER, "UpdateUser&UserName=bob&NewUserName=rob"},
        {GW_USER, "AttachUserPolicy&UserName=bob&PolicyArn=arn:aws:iam::aws:policy/readonly"},
        {GW_USER, "PutUserPolicy&UserName=bob&PolicyName=p&PolicyDocument=%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A"
                  "%5B%7B%22Effect%22%3A%22Allow%22%2C%22Action%22%3A%22s3%3A*%22%2C%22Resource%22%3A%22*%22%7D%5D%7D"},
        {GW_USER, "PutUserPermissionsBoundary&UserName=bob&PermissionsBoundary=arn:aws:iam::aws:policy/readonly"},
        {GW_USER, "TagUser&UserName=bob&Tags.member.1.Key=a&Tags.member.1.Value=b"},
        {GW_GROUP, "UpdateGroup&GroupName=staff&NewPath=/red/team/"},
        {GW_GROUP, "DeleteGroup&GroupName=staff"},
};

static void whoever_comes_is_decided_about_anew(void **state)
{
        const struct gw_entity bob = bob_of("", "/"), staff = staff_of("", "/");
        const struct gw_entity_name key = {.kind = GW_ACCESS_KEY, .name = BOB_KEY},
                                    ann = {.kind = GW_USER, .account = ACCOUNT, .name = "ann"};

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                begin_red();
                ask_iam(cases[i].action, 200, NULL); /* nobody comes */
                begin_red();
                watch(cases[i].kind == GW_USER ? &bob.who : &staff.who);
                ask_iam(cases[i].action, 403, "AccessDenied");
                if (fake.before_entry != NULL)
                        fail_msg("%s: looked once", cases[i].action);
                assert_int_equal(keys_kept(), 2);
                assert_true(is_kept(&key, "\"active\":1") && is_kept(&ann, "AIDAANN") && !is_kept(&ann, "staff"));
                if (cases[i].kind == GW_USER)
                        assert_true(is_kept(&bob.who, "{\"path\":\"/blue/\",\"id\":\"AIDABOB2\",\"created\":1,"
                                                      "\"groups\":{\"staff\":\"\"}}"));
                else
                        assert_true(is_kept(&staff.who, "AGPASTAFF2") && is_kept(&staff.who, "/blue/"));
        }
}

/* Whoever has come is one of those that she may change: the change is made, after a second decision. */
static void who_may_change_both_is_not_refused(void **state)
{
        const struct gw_entity bob = bob_of("", "/");

        begin_red();
        be_user(POLICY(ALLOW("\"iam:*\"", "\"*\"")), NULL, NULL, false);
        watch(&bob.who);
        ask_iam("CreateAccessKey&UserName=bob", 200, NULL);
        assert_int_equal(keys_kept(), 3);
        assert_true(fake.before_entry == NULL && is_kept(&bob.who, "AIDABOB2"));
}

/* Nobody was there to decide about: who comes then is asked about. */
static void nobody_is_seen_as_such(void **state)
{
        const struct gw_entity bob = bob_of("", "/");

        begin_red();
        watch(&bob.who);
        fake.before_entry = NULL;
        become_blue(GW_USER);
        ask_iam("CreateAccessKey&UserName=bob", 403, "AccessDenied");
        ask_iam("CreateAccessKey&UserName=nobody", 403, "AccessDenied");
        assert_int_equal(keys_kept(), 2);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(whoever_comes_is_decided_about_anew, decided_setup, user_teardown),
                cmocka_unit_test_setup_teardown(who_may_change_both_is_not_refused, decided_setup, user_teardown),
                cmocka_unit_test_setup_teardown(nobody_is_seen_as_such, decided_setup, user_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
