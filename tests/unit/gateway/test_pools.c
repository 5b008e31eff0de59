/*
 * A gateway over the stores of two pools: where buckets are made and found, lists of all of them, copies, creations that meet, entries
 * without a bucket, and a pool that cannot answer.
 */
#include <pthread.h>

#include "engine/bucket/bucket_pool.h"
#include "tests/unit/gateway/pools_fixture.h"

/* ---- one after the other --------------------------------------------------------------------- */

/* Everything that is done with a bucket, whichever pool has it. */
static void use_bucket(const char *name)
{
        char target[128];
        struct answer answer;

        assert_int_equal(http_bucket("HEAD", name), 200);
        assert_int_equal(http_object("PUT", name, "a/key", "bytes"), 200);
        expect_object(name, "a/key", "bytes");
        snprintf(target, sizeof(target), "/%s?tagging", name);
        assert_int_equal(http_status("PUT", target,
                                     "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"),
                         204);
        assert_int_equal(http_status("GET", target, ""), 200);
        snprintf(target, sizeof(target), "/%s?versioning", name);
        assert_int_equal(http_status("PUT", target,
                                     "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"),
                         200);
        http_ask("GET", target, "", NULL, 0, &answer);
        assert_non_null(strstr(answer.body, "Enabled"));
        answer_free(&answer);
        assert_int_equal(http_object("PUT", name, "a/key", "other bytes"), 200);
        expect_object(name, "a/key", "other bytes");
        snprintf(target, sizeof(target), "/%s?list-type=2&prefix=a", name);
        http_ask("GET", target, "", NULL, 0, &answer);
        assert_non_null(strstr(answer.body, "<Key>a/key</Key>"));
        answer_free(&answer);
        assert_int_equal(http_bucket("DELETE", name), 409);
}

static void test_made_where_said(void **state)
{
        char name[2][32];

        for (unsigned i = 0; i < 2; i++) {
                name_for(i == 0 ? FIRST : OTHER, name[i]);
                assert_int_equal(http_bucket("HEAD", name[i]), 404);
                assert_int_equal(http_bucket("PUT", name[i]), 200);
                assert_int_equal(http_bucket("PUT", name[i]), 200); /* its owner may, in us-east-1 */
                assert_int_equal(has_bucket(first, name[i]), i == 0);
                assert_int_equal(has_bucket(other, name[i]), i == 1);
                assert_true(eng_bucket_pools(first->store) == (i == 0 ? 0 : 1ull << OTHER));
                use_bucket(name[i]);
        }
        assert_true(eng_bucket_pools(other->store) == 0);
}

static void account_has(void *arg)
{
        struct job *job = arg;

        job->said = gw_account_has_bucket(gw, job->name);
}

/* Whether an account has buckets is asked of all pools. */
static void test_account(void **state)
{
        struct job job = {.name = GW_FIRST_ACCOUNT};
        char name[32];

        for (unsigned pool = FIRST; pool <= OTHER; pool++) {
                hf_run(base->loops[0], account_has, &job);
                assert_false(job.said);
                name_for(pool, name);
                assert_int_equal(http_bucket("PUT", name), 200);
                hf_run(base->loops[0], account_has, &job);
                assert_true(job.said);
                assert_int_equal(http_bucket("DELETE", name), 204);
        }
}

/* Deleted and made again, a bucket is in the pool where it was. */
static void test_again(void **state)
{
        char name[32];
        unsigned i;

        name_for(OTHER, name);
        for (i = 0; i < 3; i++) {
                assert_int_equal(http_bucket("PUT", name), 200);
                assert_true(has_bucket(other, name));
                assert_int_equal(http_object("PUT", name, "k", "bytes"), 200);
                assert_int_equal(http_object("DELETE", name, "k", ""), 204);
                assert_int_equal(http_bucket("DELETE", name), 204);
                assert_int_equal(http_bucket("HEAD", name), 404);
                assert_int_equal(http_object("GET", name, "k", ""), 404);
        }
}

/* Whoever made the entry went away before the bucket was there. */
static void test_left_entry(void **state)
{
        char name[32], target[128];

        name_for(FIRST, name);
        assert_int_equal(sf_bucket_pool_set(first, 0, name, OTHER), 0);
        snprintf(target, sizeof(target), "/%s", name);
        expect_error("GET", target, "", 404, "NoSuchBucket");
        snprintf(target, sizeof(target), "/%s/key", name);
        expect_error("PUT", target, "bytes", 404, "NoSuchBucket");
        assert_int_equal(http_status("GET", "/", ""), 200);
        assert_int_equal(http_bucket("PUT", name), 200);
        assert_true(has_bucket(other, name) && !has_bucket(first, name));
        use_bucket(name);
}

/* What S3's answer says in order, each name ended by a blank. */
static void names_of(const char *body, const char *element, char *out, size_t size)
{
        char start[64];
        size_t len = 0;

        snprintf(start, sizeof(start), "<%s>", element);
        out[0] = '\0';
        while ((body = strstr(body, start)) != NULL) {
                body += strlen(start);
                len += (size_t)snprintf(out + len, size - len, "%.*s ", (int)strcspn(body, "<"), body);
                assert_true(len < size);
        }
}

static void test_list(void **state)
{
        char name[7][32], all[512] = "", got[512], pages[512] = "", token[256] = "", target[512];
        struct answer answer;
        unsigned i, count = 0;

        assert_int_equal(http_status("GET", "/", ""), 200);
        for (i = 0; i < 7; i++) {
                snprintf(name[i], sizeof(name[i]), "list-%u", i);
                assert_int_equal(sf_bucket_pool_set(first, 0, name[i], OTHER), 0);
                if (i % 3 != 0)
                        snprintf(name[i], sizeof(name[i]), "list-%u-x",
                                 i); /* of which there is no entry, so it may be anywhere */
                assert_int_equal(http_bucket("PUT", name[i]), 200);
                strcat(strcat(all, name[i]), " ");
        }
        http_ask("GET", "/", "", NULL, 0, &answer);
        names_of(answer.body, "Name", got, sizeof(got));
        assert_string_equal(got, all);
        answer_free(&answer);
        do {
                snprintf(target, sizeof(target), "/?max-buckets=2%s%s", *token != '\0' ? "&continuation-token=" : "",
                         token);
                http_ask("GET", target, "", NULL, 0, &answer);
                assert_int_equal(answer.status, 200);
                names_of(answer.body, "Name", got, sizeof(got));
                strcat(pages, got);
                names_of(answer.body, "ContinuationToken", token, sizeof(token));
                token[strcspn(token, " ")] = '\0';
                answer_free(&answer);
        } while (*token != '\0' && count++ < 10);
        assert_string_equal(pages, all);
        http_ask("GET", "/?prefix=list-3", "", NULL, 0, &answer);
        names_of(answer.body, "Name", got, sizeof(got));
        assert_string_equal(got, "list-3 ");
        answer_free(&answer);
}

static void test_copies(void **state)
{
        struct s3_header headers[1] = {{S3_STR("x-amz-copy-source"), {NULL, 0}}};
        char here[32], there[32], source[64], target[256], upload[128], part[512], etag[64];
        struct answer answer;

        name_for(FIRST, here);
        name_for(OTHER, there);
        assert_int_equal(http_bucket("PUT", here), 200);
        assert_int_equal(http_bucket("PUT", there), 200);
        assert_int_equal(http_object("PUT", here, "k", "bytes of the first"), 200);
        snprintf(source, sizeof(source), "/%s/k", here);
        assert_int_equal(copy_object(there, "copy", source), 200);
        expect_object(there, "copy", "bytes of the first");
        assert_int_equal(http_object("PUT", there, "k", "bytes of the other"), 200); /* the same key */
        snprintf(source, sizeof(source), "/%s/k", there);
        assert_int_equal(copy_object(here, "k", source), 200);
        expect_object(here, "k", "bytes of the other");
        assert_int_equal(copy_object(here, "k", "/nothing-there/k"), 404);
        snprintf(source, sizeof(source), "/%s/k", here);
        assert_int_equal(copy_object(here, "k", source), 400); /* onto itself, and nothing changes */

        snprintf(target, sizeof(target), "/%s/parts?uploads", there);
        http_ask("POST", target, "", NULL, 0, &answer);
        assert_int_equal(answer.status, 200);
        names_of(answer.body, "UploadId", upload, sizeof(upload));
        upload[strcspn(upload, " ")] = '\0';
        answer_free(&answer);
        headers[0].value = s3_str_of(source);
        snprintf(target, sizeof(target), "/%s/parts?partNumber=1&uploadId=%s", there, upload);
        http_ask("PUT", target, "", headers, 1, &answer);
        assert_int_equal(answer.status, 200);
        names_of(answer.body, "ETag", etag, sizeof(etag));
        etag[strcspn(etag, " ")] = '\0';
        answer_free(&answer);
        snprintf(part, sizeof(part),
                 "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag></Part></"
                 "CompleteMultipartUpload>",
                 etag);
        snprintf(target, sizeof(target), "/%s/parts?uploadId=%s", there, upload);
        assert_int_equal(http_status("POST", target, part), 200);
        expect_object(there, "parts", "bytes of the other");
}

static uint64_t entry_number;

static void note_entry(void *arg, uint64_t id, unsigned kind, struct eng_text *text)
{
        struct eng_str name;
        unsigned pool;

        if (kind == ENG_ENTRY_BUCKET_POOL && eng_bucket_pool_read(text, &name, &pool) && name.len == strlen(arg) &&
            memcmp(name.data, arg, name.len) == 0)
                entry_number = id;
}

static uint64_t entry_becomes_anothers(struct eng_store *store, uint64_t arg)
{
        static const char bytes[] = "\1\2somebody-else";
        struct eng_text *text = eng_text_new(ENG_ENTRY_BUCKET_POOL, bytes, sizeof(bytes) - 1);
        uint32_t position = 0;

        while (eng_entries_walk(store, &position, 1u << 20, note_entry, (void *)(uintptr_t)arg))
                ;
        text->generation = 1;
        eng_text_unref(eng_entry_put(store, entry_number, ENG_ENTRY_BUCKET_POOL, text));
        return 0;
}

/* Its entry would be another name's: the bucket is the first pool's. */
static void test_collision(void **state)
{
        char name[32];

        name_for(OTHER, name);
        assert_int_equal(sf_bucket_pool_set(first, 0, name, OTHER), 0);
        sf_ask(first, entry_becomes_anothers, (uintptr_t)name);
        assert_int_equal(http_bucket("PUT", name), 200);
        assert_true(has_bucket(first, name) && !has_bucket(other, name));
        use_bucket(name);
}

/* The first pool has lost its entries: what other pools have is theirs all the same. */
static void test_lost_entry(void **state)
{
        uint64_t id;

        assert_int_equal(sf_bucket_pool_set(first, 0, "any-other", OTHER), 0);
        assert_int_equal(sf_bucket(other, "no-entry", &id), 0);
        assert_int_equal(http_bucket("HEAD", "no-entry"), 403); /* of the fixture's buckets nobody is the owner */
        assert_int_equal(http_bucket("PUT", "no-entry"), 409);
        assert_false(has_bucket(first, "no-entry"));
        assert_int_equal(http_bucket("HEAD", "no-entr"), 404);
}

/* Names go to both pools alike, and each gateway says the same. */
static void test_spread(void **state)
{
        unsigned count[3] = {0};
        char name[32];

        for (unsigned i = 0; i < 400; i++) {
                unsigned pool;

                snprintf(name, sizeof(name), "spread-%u", i);
                pool = pool_of_new(name);
                assert_true(pool == FIRST || pool == OTHER);
                assert_int_equal(pool_of_new(name), pool);
                count[pool]++;
        }
        assert_true(count[FIRST] > 120 && count[OTHER] > 120);
}

/* ---- what reaches over pools ----------------------------------------------------------------- */

static void test_inventory(void **state)
{
        static const char form[] =
                "<InventoryConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Destination>"
                "<S3BucketDestination><Bucket>arn:aws:s3:::%s</Bucket><Format>CSV</Format></S3BucketDestination>"
                "</Destination><IsEnabled>true</IsEnabled><Id>one</Id><IncludedObjectVersions>Current"
                "</IncludedObjectVersions><Schedule><Frequency>Daily</Frequency></Schedule></InventoryConfiguration>";
        char here[32], there[32], target[128], body[1024];

        name_for(FIRST, here);
        name_for(OTHER, there);
        assert_int_equal(http_bucket("PUT", here), 200);
        assert_int_equal(http_bucket("PUT", there), 200);
        for (unsigned i = 0; i < 2; i++) {
                const char *bucket = i == 0 ? here : there;

                snprintf(target, sizeof(target), "/%s?inventory&id=one", bucket);
                snprintf(body, sizeof(body), form, i == 0 ? there : here);
                expect_error("PUT", target, body, 400, "InvalidRequest");
                snprintf(body, sizeof(body), form, bucket);
                assert_int_equal(http_status("PUT", target, body), 204);
        }
}

/* Of a bucket of one pool, to one of the other, both ways. */
static void test_logs(void **state)
{
        static const char logging[] =
                "<BucketLoggingStatus xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><LoggingEnabled>"
                "<TargetBucket>%s</TargetBucket><TargetPrefix>log/</TargetPrefix></LoggingEnabled></"
                "BucketLoggingStatus>";
        static const char policy[] =
                "{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Allow\",\"Principal\":{\"Service\":"
                "\"logging.s3.amazonaws.com\"},\"Action\":\"s3:PutObject\",\"Resource\":\"arn:aws:s3:::%s/*\"}]}";
        char name[2][32], target[128], body[1024];
        unsigned i, turns;

        name_for(FIRST, name[0]);
        name_for(OTHER, name[1]);
        assert_int_equal(http_bucket("PUT", name[0]), 200);
        assert_int_equal(http_bucket("PUT", name[1]), 200);
        for (i = 0; i < 2; i++) {
                snprintf(target, sizeof(target), "/%s?policy", name[1 - i]);
                snprintf(body, sizeof(body), policy, name[1 - i]);
                assert_int_equal(http_status("PUT", target, body), 204);
                snprintf(target, sizeof(target), "/%s?logging", name[i]);
                snprintf(body, sizeof(body), logging, name[1 - i]);
                assert_int_equal(http_status("PUT", target, body), 200);
        }
        for (i = 0; i < 2; i++) {
                bool there = false;

                assert_int_equal(http_object("PUT", name[i], "k", "bytes"), 200);
                for (turns = 0; turns < 100 * WAIT_MOST && !there; turns++) {
                        there = has_object_below(name[1 - i], "log/");
                        sleep_ms(10);
                }
                assert_true(there);
        }
}

/* ---- gateways that know different things ----------------------------------------------------- */

struct creation {
        const char *name;
        unsigned status;
        pthread_t thread;
};

static void *create_bucket(void *arg)
{
        struct creation *c = arg;

        c->status = http_bucket("PUT", c->name);
        return NULL;
}

/* Another gateway has said where the bucket is, and this one was not told yet: it waits, and goes by it. */
static void test_told_later(void **state)
{
        struct creation c;
        char name[32];

        name_for(FIRST, name);
        assert_int_equal(sf_bucket_pool_set(&leader, 0, name, OTHER), 0);
        c.name = name;
        assert_int_equal(pthread_create(&c.thread, NULL, create_bucket, &c), 0);
        sleep_ms(200);
        assert_false(has_bucket(other, name));
        hf_follow(&hf);
        pthread_join(c.thread, NULL);
        assert_int_equal(c.status, 200);
        assert_true(has_bucket(other, name) && !has_bucket(&leader, name));

        name_for(OTHER, name); /* it thinks of the same pool, and is not the first to say so */
        assert_int_equal(sf_bucket_pool_set(&leader, 0, name, OTHER), 0);
        assert_int_equal(pthread_create(&c.thread, NULL, create_bucket, &c), 0);
        sleep_ms(200);
        assert_false(has_bucket(other, name));
        hf_follow(&hf);
        pthread_join(c.thread, NULL);
        assert_int_equal(c.status, 200);
        assert_true(has_bucket(other, name));
}

/* And it is told nothing, for as long as it waits. */
static void test_never_told(void **state)
{
        char name[32], target[128];

        name_for(FIRST, name);
        assert_int_equal(sf_bucket_pool_set(&leader, 0, name, OTHER), 0);
        snprintf(target, sizeof(target), "/%s", name);
        expect_error("PUT", target, "", 409, "OperationAborted");
        assert_false(has_bucket(other, name) || has_bucket(&leader, name));
}

/* There is a bucket in the first pool, of which it was not told: whose it is would be said if it was. */
static void test_bucket_there(void **state)
{
        char name[32], target[128];
        uint64_t id;

        name_for(OTHER, name);
        assert_int_equal(sf_bucket(&leader, name, &id), 0);
        snprintf(target, sizeof(target), "/%s", name);
        expect_error("PUT", target, "", 409, "OperationAborted");
        assert_false(has_bucket(other, name));
}

/* The leader of the first pool does what it is asked, and nobody hears of it. */
static void test_answer_lost(void **state)
{
        char name[32];
        unsigned pool;

        name_for(OTHER, name);
        atomic_store(&hf.lose_answers, true);
        assert_int_equal(http_bucket("PUT", name), 503);
        atomic_store(&hf.lose_answers, false);
        assert_false(has_bucket(other, name));
        assert_int_equal(sf_bucket_pool(&leader, 0, name, &pool), 0);
        hf_follow(&hf);
        assert_int_equal(http_bucket("HEAD", name), 404);
        assert_int_equal(http_bucket("PUT", name), 200);
        assert_true(has_bucket(other, name));
}

/* Many at once, half of them by another gateway that thinks of the other pool. */
static void test_meet(void **state)
{
        struct creation c[4];
        char name[32];

        for (unsigned round = 0; round < 20; round++) {
                bool entry;

                name_for(round % 2 == 0 ? FIRST : OTHER, name);
                for (unsigned i = 0; i < 4; i++) {
                        c[i].name = name;
                        assert_int_equal(pthread_create(&c[i].thread, NULL, create_bucket, &c[i]), 0);
                }
                entry = sf_bucket_pool_set(first, 0, name, OTHER) == 0;
                for (unsigned i = 0; i < 4; i++) {
                        pthread_join(c[i].thread, NULL);
                        assert_int_equal(c[i].status, 200);
                }
                assert_int_equal(has_bucket(first, name) + has_bucket(other, name), 1);
                if (entry)
                        assert_true(has_bucket(other, name));
        }
}

/* ---- a pool that cannot answer --------------------------------------------------------------- */

/* An answer of 503 says that it is one pool's: clients then do not take the endpoint for one that is down. */
static bool is_of_pool(const char *target)
{
        struct answer answer;
        char value[512];
        bool is;

        http_ask("GET", target, "", NULL, 0, &answer);
        assert_int_equal(answer.status, 503);
        is = answer_header(&answer, "x-millrace-unavailable", value) != NULL;
        assert_true(!is || strcmp(value, "pool") == 0);
        answer_free(&answer);
        return is;
}

/* Nor does one that is down say so. */
static void test_no_pool_answers(void **state)
{
        assert_int_equal(http_status("GET", "/", ""), 200);
        hf_lease(&hf, false);
        assert_false(is_of_pool("/"));
        hf_lease(&hf, true);
        assert_int_equal(sf_bucket_pool_set(&leader, 0, "of-another", OTHER), 0);
        hf_follow(&hf);
        assert_true(is_of_pool("/of-another"));
        hf_lease(&hf, false);
        assert_false(is_of_pool("/of-another"));
        assert_false(is_of_pool("/"));
        hf_lease(&hf, true);
}

static void test_first_down(void **state)
{
        char here[32], there[32], fresh[32];

        name_for(FIRST, here);
        name_for(OTHER, there);
        name_for(OTHER, fresh);
        make_user(&leader);
        make_bucket(here);
        make_bucket(there);
        assert_int_equal(http_object("PUT", here, "a/key", "bytes"), 200);
        use_bucket(there);
        EVENTUALLY(http_plain("/minio/health/cluster") == 200); /* people are gone through first */
        hf_lease(&hf, false);
        atomic_store(&hf.cut, true);
        assert_int_equal(http_bucket("HEAD", here), 503);
        assert_int_equal(http_object("GET", here, "a/key", ""), 503);
        assert_int_equal(http_bucket("HEAD", "nothing-there"), 503);
        assert_int_equal(http_object("PUT", "nothing-there", "k", "bytes"), 503);
        expect_error("GET", "/nothing-there", "", 503, "ServiceUnavailable"); /* a document that says why, as any error */
        expect_error("GET", "/", "", 503, "ServiceUnavailable");
        assert_int_equal(http_bucket("PUT", fresh), 503);
        assert_true(is_of_pool("/nothing-there") && is_of_pool("/"));
        expect_object(there, "a/key", "other bytes"); /* the operator's own key: nobody of the directory */
        assert_int_equal(http_object("PUT", there, "more", "bytes"), 200);
        be_user(true); /* she may be deleted by now */
        assert_int_equal(http_object("GET", there, "a/key", ""), 503);
        site_access = "AKIAIOSFODNN7EXAMPLF"; /* nobody, or one whom the first pool's leader knows by now */
        assert_int_equal(http_object("GET", there, "a/key", ""), 503);
        hf_lease(&hf, true);
        atomic_store(&hf.cut, false);
        assert_int_equal(http_object("GET", there, "a/key", ""), 403);
        be_user(true);
        expect_object(there, "a/key", "other bytes");
        be_user(false);
        expect_object(here, "a/key", "bytes");
        assert_int_equal(http_bucket("HEAD", "nothing-there"), 404);
        assert_int_equal(http_status("GET", "/", ""), 200);
        assert_int_equal(http_bucket("PUT", fresh), 200);
        assert_false(has_bucket(&leader, fresh));
}

static void buckets_known(void *arg)
{
        ((struct job *)arg)->rv = gw_buckets_known(gw);
}

static void test_other_down(void **state)
{
        struct job job = {0};
        char here[32], there[32], fresh[32], source[64];

        name_for(FIRST, here);
        name_for(OTHER, there);
        name_for(OTHER, fresh);
        assert_int_equal(http_bucket("PUT", here), 200);
        hf_lease(&hf, false);
        assert_int_equal(http_status("GET", "/", ""), 200); /* no bucket was ever made there */
        hf_lease(&hf, true);
        make_bucket(there);
        assert_int_equal(http_object("PUT", there, "a/key", "bytes"), 200);
        assert_int_equal(http_object("PUT", here, "a/key", "bytes"), 200);
        hf_lease(&hf, false);
        assert_int_equal(http_bucket("HEAD", there), 503);
        snprintf(source, sizeof(source), "/%s/a/key", there);
        assert_true(is_of_pool(source));
        assert_int_equal(http_object("PUT", there, "a/key", "other"), 503);
        assert_int_equal(http_bucket("DELETE", there), 503);
        assert_int_equal(http_bucket("PUT", there), 503);
        assert_int_equal(http_status("GET", "/", ""), 503);
        assert_int_equal(copy_object(here, "copy", source), 503);
        hf_run(base->loops[0], buckets_known, &job);
        assert_int_equal(job.rv, -EHOSTDOWN); /* so that no account is deleted that may have some */
        expect_object(here, "a/key", "bytes");
        assert_int_equal(http_bucket("HEAD", "nothing-there"), 404); /* the first pool would know */
        assert_int_equal(http_bucket("PUT", fresh), 200);            /* the pool that is its by its name takes none */
        assert_true(has_bucket(first, fresh));
        hf_lease(&hf, true);
        expect_object(there, "a/key", "bytes");
        assert_int_equal(http_status("GET", "/", ""), 200);
        hf_run(base->loops[0], buckets_known, &job);
        assert_int_equal(job.rv, 0);
}

/* An entry says that the bucket is the other pool's: whether it is there can't be told while that one may be old. */
static void test_target_in_other(void **state)
{
        static const char logging[] =
                "<BucketLoggingStatus xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><LoggingEnabled>"
                "<TargetBucket>%s</TargetBucket><TargetPrefix>log/</TargetPrefix></LoggingEnabled></"
                "BucketLoggingStatus>";
        char here[32], there[32], target[128], body[1024];

        name_for(FIRST, here);
        name_for(OTHER, there);
        assert_int_equal(http_bucket("PUT", here), 200);
        assert_int_equal(sf_bucket_pool_set(first, 0, there, OTHER), 0);
        snprintf(target, sizeof(target), "/%s?logging", here);
        snprintf(body, sizeof(body), logging, there);
        hf_lease(&hf, false);
        expect_error("PUT", target, body, 503, "ServiceUnavailable");
        hf_lease(&hf, true);
        expect_error("PUT", target, body, 400, "InvalidTargetBucketForLogging");
}

/* A pool that was made a moment ago: other gateways know it, this one does not yet. */
static void test_unknown_pool(void **state)
{
        char name[32];

        name_for(FIRST, name);
        assert_int_equal(http_bucket("PUT", name), 200);
        assert_int_equal(http_status("GET", "/", ""), 200);
        assert_int_equal(sf_bucket_pool_set(first, 0, "of-the-new-pool", OTHER), 0);
        assert_int_equal(http_bucket("HEAD", "of-the-new-pool"), 503);
        assert_int_equal(http_bucket("PUT", "of-the-new-pool"), 503);
        assert_int_equal(http_status("GET", "/", ""), 503);
        assert_int_equal(http_bucket("HEAD", "nothing-there"), 404);
        use_bucket(name);
        assert_int_equal(gw_pool_add(gw, 0, other->store), -EINVAL);
        assert_int_equal(gw_pool_add(gw, GW_POOLS_MAX, other->store), -EINVAL);
        assert_int_equal(gw_pool_add(gw, FIRST, other->store), -EEXIST);
        assert_int_equal(gw_pool_add(gw, OTHER, other->store), 0);
        assert_int_equal(gw_pool_add(gw, OTHER, other->store), -EEXIST);
        assert_int_equal(http_bucket("HEAD", "of-the-new-pool"), 404);
        assert_int_equal(http_bucket("PUT", "of-the-new-pool"), 200);
        assert_true(has_bucket(other, "of-the-new-pool"));
        assert_int_equal(http_status("GET", "/", ""), 200);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_made_where_said, begin_plain, end),
                cmocka_unit_test_setup_teardown(test_account, begin_plain, end),
                cmocka_unit_test_setup_teardown(test_again, begin_plain, end),
                cmocka_unit_test_setup_teardown(test_left_entry, begin_plain, end),
                cmocka_unit_test_setup_teardown(test_list, begin_plain, end),
                cmocka_unit_test_setup_teardown(test_copies, begin_plain, end),
                cmocka_unit_test_setup_teardown(test_collision, begin_plain, end),
                cmocka_unit_test_setup_teardown(test_lost_entry, begin_plain, end),
                cmocka_unit_test_setup_teardown(test_spread, begin_plain, end),
                cmocka_unit_test_setup_teardown(test_inventory, begin_plain, end),
                cmocka_unit_test_setup_teardown(test_logs, begin_plain, end),
                cmocka_unit_test_setup_teardown(test_meet, begin_plain, end),
                cmocka_unit_test_setup_teardown(test_told_later, begin_first_home, end),
                cmocka_unit_test_setup_teardown(test_never_told, begin_first_home, end),
                cmocka_unit_test_setup_teardown(test_bucket_there, begin_first_home, end),
                cmocka_unit_test_setup_teardown(test_answer_lost, begin_first_home, end),
                cmocka_unit_test_setup_teardown(test_first_down, begin_first_home, end),
                cmocka_unit_test_setup_teardown(test_no_pool_answers, begin_home_alone, end),
                cmocka_unit_test_setup_teardown(test_other_down, begin_other_home, end),
                cmocka_unit_test_setup_teardown(test_target_in_other, begin_other_home, end),
                cmocka_unit_test_setup_teardown(test_unknown_pool, begin_alone, end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
