/*
 * test_creds.c - where credentials come from, and that they are fresh: sources in environment,
 * files, processes and endpoints of the test's own, and a server that calls them expired.
 */
#include "tests/unit/client/fake_s3.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

/* A server of credentials and of an object, in one. Guarded by the fake's lock. */
struct server {
        unsigned asked;          /* for credentials */
        unsigned failures;       /* of these many 500 */
        const char *refused;     /* requests signed with this access key get ExpiredToken */
        char key[64], token[64]; /* of the last request */
        char authorization[512], body[4096], target[512];
        bool no_credentials; /* an answer without any */
        unsigned requests;
};

static void iso_in(char out[32], int seconds)
{
        time_t at = time(NULL) + seconds;
        struct tm tm;

        strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&at, &tm));
}

static void hand_out(struct server *server, bool is_sts, struct fake_reply *reply)
{
        char text[1024], expires[32];

        server->asked++;
        if (server->failures > 0) {
                server->failures--;
                reply->status = 500;
                return;
        }
        iso_in(expires, 3600);
        if (server->no_credentials)
                snprintf(text, sizeof(text), "{}");
        else if (is_sts)
                snprintf(text, sizeof(text),
                         "<AssumeRoleWithWebIdentityResponse "
                         "xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleWithWebIdentityResult>"
                         "<Credentials><AccessKeyId>STS%u</AccessKeyId><SecretAccessKey>s</"
                         "SecretAccessKey><SessionToken>tok</SessionToken>"
                         "<Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult></"
                         "AssumeRoleWithWebIdentityResponse>",
                         server->asked, expires);
        else
                snprintf(text, sizeof(text),
                         "{\"AccessKeyId\": \"BOX%u\", \"SecretAccessKey\": \"s\", \"Token\": \"tok\", \"Expiration\": "
                         "\"%s\"}",
                         server->asked, expires);
        fake_text(reply, text);
}

static void serve(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        struct server *server = arg;
        char value[512];

        if (strncmp(request->target, "/creds", 6) == 0 || strstr(request->body, "AssumeRoleWithWebIdentity") != NULL) {
                snprintf(server->authorization, sizeof(server->authorization), "%s",
                         fake_header(request, "Authorization", value));
                snprintf(server->body, sizeof(server->body), "%s", request->body);
                hand_out(server, request->body_len > 0, reply);
                return;
        }
        server->requests++;
        fake_header(request, "Authorization", value);
        server->key[0] = '\0';
        sscanf(value, "AWS4-HMAC-SHA256 Credential=%63[^/]", server->key);
        snprintf(server->token, sizeof(server->token), "%.63s", fake_header(request, "x-amz-security-token", value));
        if (server->refused != NULL && strcmp(server->refused, server->key) == 0)
                fake_error(reply, 400, "ExpiredToken");
        else
                reply->status = 204;
}

struct fixture {
        struct server server;
        struct fake_s3 fake;
        char home[64];
        struct mr_options options;
        struct mr_error err;
};

static const char *const variables[] = {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_ROLE_ARN",
        "AWS_ROLE_SESSION_NAME",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_ENDPOINT_URL_STS",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_CA_BUNDLE",
};

static void set_up(struct fixture *f)
{
        memset(f, 0, sizeof(*f));
        for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
                unsetenv(variables[i]);
        snprintf(f->home, sizeof(f->home), "/tmp/millrace-creds-XXXXXX");
        assert_non_null(mkdtemp(f->home));
        setenv("HOME", f->home, 1);
        fake_start(&f->fake, serve, &f->server);
        mr_options_init(&f->options);
        f->options.endpoint = f->fake.url;
        f->options.attempts = 3;
}

static void tear_down(struct fixture *f)
{
        char command[128];

        fake_stop(&f->fake);
        snprintf(command, sizeof(command), "rm -rf %s", f->home);
        assert_int_equal(system(command), 0);
}

static void write_file(struct fixture *f, const char *name, const char *text, char path[256])
{
        FILE *file;

        snprintf(path, 256, "%s/%s", f->home, name);
        file = fopen(path, "w");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
}

/* One request with what the options say; its result. */
static int delete_one(struct fixture *f)
{
        struct mr_client *client;
        int rv = mr_client_open(&f->options, &client, &f->err);

        if (rv != 0)
                return rv;
        rv = mr_delete(client, "bkt", "k", &f->err);
        mr_client_free(client);
        return rv;
}

static void the_environment_comes_first(void **state)
{
        struct fixture f;
        char path[256];

        set_up(&f);
        write_file(&f, "credentials", "[default]\naws_access_key_id = FILE\naws_secret_access_key = s\n", path);
        setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
        assert_int_equal(delete_one(&f), 0);
        assert_string_equal(f.server.key, "FILE");
        setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
        setenv("AWS_SECRET_ACCESS_KEY", "s", 1);
        setenv("AWS_SESSION_TOKEN", "envtok", 1);
        assert_int_equal(delete_one(&f), 0);
        assert_string_equal(f.server.key, "ENV");
        assert_string_equal(f.server.token, "envtok");
        f.options.access_key = "GIVEN";
        f.options.secret_key = "s";
        assert_int_equal(delete_one(&f), 0);
        assert_string_equal(f.server.key, "GIVEN");
        assert_string_equal(f.server.token, "");
        f.options.credentials = MR_CREDENTIALS_PROFILE;
        assert_int_equal(delete_one(&f), 0);
        assert_string_equal(f.server.key, "FILE");
        f.options.credentials = MR_CREDENTIALS_NONE;
        assert_int_equal(delete_one(&f), 0);
        assert_string_equal(f.server.key, "");
        tear_down(&f);
}

static void without_credentials_nothing_is_sent(void **state)
{
        struct fixture f;

        set_up(&f);
        assert_int_equal(delete_one(&f), -EACCES);
        assert_non_null(strstr(f.err.message, "no credentials"));
        f.options.credentials = MR_CREDENTIALS_WEB_IDENTITY;
        assert_int_equal(delete_one(&f), -EACCES);
        assert_non_null(strstr(f.err.message, "AWS_WEB_IDENTITY_TOKEN_FILE"));
        assert_int_equal(f.server.requests, 0);
        tear_down(&f);
}

static void profiles_are_read_from_both_files(void **state)
{
        struct fixture f;
        struct mr_client *client;
        char path[256], config[1024];

        set_up(&f);
        snprintf(config, sizeof(config),
                 "[default]\nregion = eu-north-1\n[profile other]\nregion = eu-west-9\nendpoint_url = "
                 "%s\naws_access_key_id = CONFIG\n"
                 "aws_secret_access_key = s\n[profile role]\nrole_arn = arn:x\nsource_profile = default\n",
                 f.fake.url);
        write_file(&f, "config", config, path);
        setenv("AWS_CONFIG_FILE", path, 1);
        write_file(&f, "credentials", "[other]\naws_access_key_id = CREDS\naws_secret_access_key = s\n", path);
        setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
        f.options.profile = "other";
        f.options.endpoint = NULL;
        assert_int_equal(delete_one(&f), 0);
        assert_string_equal(f.server.key, "CREDS");
        assert_int_equal(mr_client_open(&f.options, &client, &f.err), 0);
        assert_string_equal(mr_client_region(client), "eu-west-9");
        assert_string_equal(mr_client_endpoint(client), f.fake.url);
        mr_client_free(client);
        f.options.profile = "nobody";
        assert_int_equal(delete_one(&f), -ENOENT);
        f.options.profile = NULL;
        setenv("AWS_PROFILE", "role", 1);
        f.options.endpoint = f.fake.url;
        assert_int_equal(delete_one(&f), -EACCES);
        assert_non_null(strstr(f.err.message, "role of another profile"));
        write_file(&f, "config", "[default]\nthis is not a line\n", path);
        assert_int_equal(delete_one(&f), -EINVAL);
        assert_non_null(strstr(f.err.message, "config:2"));
        tear_down(&f);
}

static void endpoints_come_from_the_environment(void **state)
{
        struct mr_client *client;
        struct fixture f;

        set_up(&f);
        f.options.endpoint = NULL;
        setenv("AWS_REGION", "eu-south-2", 1);
        assert_int_equal(mr_client_open(&f.options, &client, &f.err), 0);
        assert_string_equal(mr_client_endpoint(client), "https://s3.eu-south-2.amazonaws.com");
        mr_client_free(client);
        setenv("AWS_ENDPOINT_URL", "http://a:1", 1);
        assert_int_equal(mr_client_open(&f.options, &client, &f.err), 0);
        assert_string_equal(mr_client_endpoint(client), "http://a:1");
        mr_client_free(client);
        setenv("AWS_ENDPOINT_URL_S3", "http://b:2/", 1);
        assert_int_equal(mr_client_open(&f.options, &client, &f.err), 0);
        assert_string_equal(mr_client_endpoint(client), "http://b:2");
        mr_client_free(client);
        f.options.endpoint = "b:2";
        assert_int_equal(mr_client_open(&f.options, &client, &f.err), -EINVAL);
        f.options.endpoint = NULL;
        f.options.parallel = 257;
        assert_int_equal(mr_client_open(&f.options, &client, &f.err), -EINVAL);
        assert_non_null(strstr(f.err.message, "parallel"));
        tear_down(&f);
}

static void a_process_may_be_asked(void **state)
{
        static const struct {
                const char *command;
                const char *says; /* NULL: it works */
        } cases[] = {
                {"echo '{\"Version\": 1, \"AccessKeyId\": \"PROC\", \"SecretAccessKey\": \"s\", \"SessionToken\": "
                 "\"pt\"}'",
                 NULL},
                {"echo '{\"AccessKeyId\": \"PROC\"}'", "did not print"},
                {"exit 3", "status 3"},
                {"sleep 100", "credential_process"},
                {"exec >&-; sleep 100", "credential_process"}, /* nothing more comes, but it goes on */
                {"yes 2>/dev/null", "credential_process"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char path[256], config[512];
                struct fixture f;

                set_up(&f);
                snprintf(config, sizeof(config), "[default]\ncredential_process = %s\n", cases[i].command);
                write_file(&f, "config", config, path);
                setenv("AWS_CONFIG_FILE", path, 1);
                f.options.stall_timeout_s = 1;
                assert_int_equal(delete_one(&f), cases[i].says == NULL ? 0 : -EACCES);
                if (cases[i].says != NULL)
                        assert_non_null(strstr(f.err.message, cases[i].says));
                else
                        assert_string_equal(f.server.token, "pt");
                tear_down(&f);
        }
}

static void a_token_becomes_credentials(void **state)
{
        struct fixture f;
        char path[256];

        set_up(&f);
        write_file(&f, "token", "a.b+c\n", path);
        setenv("AWS_WEB_IDENTITY_TOKEN_FILE", path, 1);
        setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
        setenv("AWS_ENDPOINT_URL_STS", f.fake.url, 1);
        f.server.failures = 1; /* it is tried again */
        assert_int_equal(delete_one(&f), 0);
        assert_string_equal(f.server.key, "STS2");
        assert_string_equal(f.server.token, "tok");
        assert_non_null(strstr(f.server.body, "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr"));
        assert_non_null(strstr(f.server.body, "WebIdentityToken=a.b%2Bc"));
        f.server.no_credentials = true;
        assert_int_equal(delete_one(&f), -EACCES);
        f.server.no_credentials = false;
        write_file(&f, "token", "", path);
        assert_int_equal(delete_one(&f), -EACCES);
        assert_non_null(strstr(f.err.message, "is empty"));
        setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere", 1);
        assert_int_equal(delete_one(&f), -EACCES);
        assert_non_null(strstr(f.err.message, "/nowhere"));
        tear_down(&f);
}

/* A token service is each of a cluster's nodes: one that is gone, or cannot serve, is passed over. */
static void a_token_service_may_be_a_list(void **state)
{
        static const char *const variables_of_it[] = {"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS"};
        struct fake_s3 gone;
        struct fixture f;
        char path[256], list[512];

        fake_start(&gone, serve, NULL);
        fake_stop(&gone); /* nobody listens there any more */
        for (unsigned i = 0; i < 2; i++) {
                set_up(&f);
                write_file(&f, "token", "a.b+c\n", path);
                setenv("AWS_WEB_IDENTITY_TOKEN_FILE", path, 1);
                setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
                snprintf(list, sizeof(list), "%s , %s/,%s,%s,%s", gone.url, gone.url, gone.url, gone.url, f.fake.url);
                setenv(variables_of_it[i], list, 1);
                assert_int_equal(delete_one(&f), 0);
                assert_string_equal(f.server.key, "STS1");
                assert_int_equal(f.server.asked, 1);
                tear_down(&f);
        }
        set_up(&f);
        write_file(&f, "token", "a.b+c\n", path);
        setenv("AWS_WEB_IDENTITY_TOKEN_FILE", path, 1);
        setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
        setenv("AWS_ENDPOINT_URL_STS", " ,, ", 1);
        assert_int_equal(delete_one(&f), -EINVAL);
        assert_non_null(strstr(f.err.message, "empty"));
        memset(list, ',', sizeof(list) - 1);
        for (unsigned i = 0; i < sizeof(list) - 1; i += 2)
                list[i] = 'u';
        list[sizeof(list) - 1] = '\0';
        setenv("AWS_ENDPOINT_URL_STS", list, 1);
        assert_int_equal(delete_one(&f), -EINVAL);
        assert_non_null(strstr(f.err.message, "more than 16"));
        tear_down(&f);
}

static void a_container_has_an_endpoint(void **state)
{
        struct fixture f;
        char url[128], path[256];

        set_up(&f);
        snprintf(url, sizeof(url), "%s/creds", f.fake.url);
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
        setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "letmein", 1);
        assert_int_equal(delete_one(&f), 0);
        assert_string_equal(f.server.key, "BOX1");
        assert_string_equal(f.server.authorization, "letmein");
        write_file(&f, "token", "fromfile\n", path);
        setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path, 1);
        assert_int_equal(delete_one(&f), 0);
        assert_string_equal(f.server.authorization, "fromfile");
        write_file(&f, "token", " \n", path);
        assert_int_equal(delete_one(&f), -EACCES);
        assert_non_null(strstr(f.err.message, "is empty"));
        write_file(&f, "token", "fromfile", path);
        f.server.no_credentials = true;
        assert_int_equal(delete_one(&f), -EACCES);
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://localhost:80@example.com/creds", 1); /* a user's name */
        assert_int_equal(delete_one(&f), -EINVAL);
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:80@example.com/creds", 1);
        assert_int_equal(delete_one(&f), -EINVAL);
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/creds", 1);
        assert_int_equal(delete_one(&f), -EINVAL);
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1.example.com/creds", 1);
        assert_int_equal(delete_one(&f), -EINVAL);
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://localhost.example.com/creds", 1);
        assert_int_equal(delete_one(&f), -EINVAL);
        tear_down(&f);
}

/* ---- fresh ones ------------------------------------------------------------------------------ */

struct source {
        atomic_uint asked;
        int life_s; /* of what it gives; 0: for ever */
        atomic_bool fails;
};

static int ask_source(void *arg, struct mr_credentials *out)
{
        struct source *source = arg;
        unsigned n = atomic_fetch_add(&source->asked, 1) + 1;

        if (atomic_load(&source->fails))
                return -EIO;
        snprintf(out->access_key, sizeof(out->access_key), "K%u", n);
        snprintf(out->secret_key, sizeof(out->secret_key), "s");
        out->expires_s = source->life_s != 0 ? time(NULL) + source->life_s : 0;
        return 0;
}

static void credentials_that_last_are_asked_for_once(void **state)
{
        struct source source = {.life_s = 3600};
        struct mr_credentials credentials;
        struct mr_client *client;
        struct fixture f;

        set_up(&f);
        f.options.credentials_fn = ask_source;
        f.options.credentials_arg = &source;
        assert_int_equal(mr_client_open(&f.options, &client, &f.err), 0);
        for (unsigned i = 0; i < 10; i++)
                assert_int_equal(mr_delete(client, "bkt", "k", &f.err), 0);
        assert_int_equal(source.asked, 1);
        assert_int_equal(mr_client_credentials(client, &credentials, &f.err), 0);
        assert_string_equal(credentials.access_key, "K1");
        mr_client_free(client);
        tear_down(&f);
}

static void expiring_ones_are_replaced_in_time(void **state)
{
        struct source source = {.life_s = 2};
        struct timespec pause = {.tv_sec = 2, .tv_nsec = 200000000};
        struct mr_client *client;
        struct fixture f;

        set_up(&f);
        f.options.credentials_fn = ask_source;
        f.options.credentials_arg = &source;
        assert_int_equal(mr_client_open(&f.options, &client, &f.err), 0);
        assert_int_equal(mr_delete(client, "bkt", "k", &f.err), 0);
        nanosleep(&pause, NULL);
        assert_int_equal(mr_delete(client, "bkt", "k", &f.err), 0);
        assert_int_equal(source.asked, 2);
        assert_string_equal(f.server.key, "K2");
        atomic_store(&source.fails, true); /* and when they cannot be */
        nanosleep(&pause, NULL);
        assert_int_equal(mr_delete(client, "bkt", "k", &f.err), -EIO);
        assert_non_null(strstr(f.err.message, "source of credentials"));
        mr_client_free(client);
        tear_down(&f);
}

static void refused_ones_are_replaced_once(void **state)
{
        struct source source = {.life_s = 3600};
        struct mr_client *client;
        struct fixture f;

        set_up(&f);
        f.options.credentials_fn = ask_source;
        f.options.credentials_arg = &source;
        f.server.refused = "K1";
        assert_int_equal(mr_client_open(&f.options, &client, &f.err), 0);
        assert_int_equal(mr_delete(client, "bkt", "k", &f.err), 0);
        assert_string_equal(f.server.key, "K2");
        mr_client_free(client);
        f.options.credentials_fn = NULL; /* fixed ones: nothing to try again with */
        f.options.access_key = "K1";
        f.options.secret_key = "s";
        f.server.requests = 0;
        assert_int_equal(delete_one(&f), -EACCES);
        assert_int_equal(f.server.requests, 1);
        tear_down(&f);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_environment_comes_first),
                cmocka_unit_test(without_credentials_nothing_is_sent),
                cmocka_unit_test(profiles_are_read_from_both_files),
                cmocka_unit_test(endpoints_come_from_the_environment),
                cmocka_unit_test(a_process_may_be_asked),
                cmocka_unit_test(a_token_becomes_credentials),
                cmocka_unit_test(a_token_service_may_be_a_list),
                cmocka_unit_test(a_container_has_an_endpoint),
                cmocka_unit_test(credentials_that_last_are_asked_for_once),
                cmocka_unit_test(expiring_ones_are_replaced_in_time),
                cmocka_unit_test(refused_ones_are_replaced_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
