/*
 * test_listing.c - listings and batch deletes: pages, names that XML cannot carry, endpoints that
 * lead nowhere, documents that are none.
 */
#include "tests/unit/client/fake_s3.h"

#include <errno.h>

#include "client/base/xml_answer.h"

/* A server that answers request n with text n, and keeps the targets and last body. */
struct pages {
        const char *text[4];
        char target[4][8300];
        char body[4096];
};

static void serve_page(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        struct pages *pages = arg;
        unsigned n = request->number - 1;

        assert_true(n < 4);
        snprintf(pages->target[n], sizeof(pages->target[n]), "%s", request->target);
        snprintf(pages->body, sizeof(pages->body), "%s", request->body);
        fake_text(reply, pages->text[n]);
}

/* What a listing gave, as one text. */
struct found {
        char text[4096];
        int stop_after; /* 0: never */
};

static int note_entry(void *arg, const struct mr_entry *entry)
{
        struct found *found = arg;
        size_t len = strlen(found->text);

        if (entry->is_prefix)
                snprintf(found->text + len, sizeof(found->text) - len, "<%s>", entry->key);
        else if (entry->marker || entry->version_id[0] != '\0')
                snprintf(found->text + len, sizeof(found->text) - len, "[%s %s%s%s %llu %lld]", entry->key,
                         entry->version_id, entry->latest ? " latest" : "", entry->marker ? " marker" : "",
                         (unsigned long long)entry->size, (long long)entry->mtime_ms);
        else
                snprintf(found->text + len, sizeof(found->text) - len, "[%s %llu %lld %s]", entry->key,
                         (unsigned long long)entry->size, (long long)entry->mtime_s, entry->etag);
        return found->stop_after > 0 && --found->stop_after == 0 ? 7 : 0;
}

static int note_upload(void *arg, const struct mr_upload *upload)
{
        struct found *found = arg;
        size_t len = strlen(found->text);

        snprintf(found->text + len, sizeof(found->text) - len, "[%s %s %lld]", upload->key, upload->upload_id,
                 (long long)upload->initiated_s);
        return 0;
}

static int note_bucket(void *arg, const struct mr_bucket *bucket)
{
        struct found *found = arg;
        size_t len = strlen(found->text);

        snprintf(found->text + len, sizeof(found->text) - len, "[%s %lld]", bucket->name, (long long)bucket->created_s);
        return found->stop_after > 0 && --found->stop_after == 0 ? 7 : 0;
}

enum what { OBJECTS, VERSIONS, UPLOADS, BUCKETS };

static int list(struct pages *pages, enum what what, struct found *found, struct mr_error *err)
{
        struct mr_list objects = {.bucket = "bkt", .prefix = "p/", .delimiter = "/", .start_after = "p/a", .page = 2};
        struct mr_client *client;
        struct fake_s3 fake;
        int rv;

        found->text[0] = '\0';
        objects.versions = what == VERSIONS;
        memset(err, 0, sizeof(*err));
        fake_start(&fake, serve_page, pages);
        client = fake_client(&fake, 1);
        if (what == OBJECTS || what == VERSIONS)
                rv = mr_list(client, &objects, note_entry, found, err);
        else if (what == UPLOADS)
                rv = mr_uploads(client, "bkt", "p/", note_upload, found, err);
        else
                rv = mr_buckets(client, note_bucket, found, err);
        mr_client_free(client);
        fake_stop(&fake);
        return rv;
}

#define ENTRY(key, size)                                                                                               \
        "<Contents><Key>" key "</Key><LastModified>2013-05-24T00:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag>"  \
        "<Size>" size "</Size><Owner><ID>x</ID></Owner></Contents>"

static void pages_are_put_together_in_order(void **state)
{
        struct pages pages = {
                .text = {"<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                         "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>" ENTRY("p/b+%25%0A", "1")
                                 ENTRY("p/d%C3%BC",
                                       "22") "<CommonPrefixes><Prefix>p/c/</Prefix></CommonPrefixes>"
                                             "<NextContinuationToken>t+/=</NextContinuationToken></ListBucketResult>",
                         "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>" ENTRY(
                                 "p/e", "0") "</ListBucketResult>"},
        };
        struct found found = {0};
        struct mr_error err;

        assert_int_equal(list(&pages, OBJECTS, &found, &err), 0);
        assert_string_equal(found.text,
                            "[p/b %\n 1 1369353600 e]<p/c/>[p/d\xc3\xbc 22 1369353600 e][p/e 0 1369353600 e]");
        assert_string_equal(
                pages.target[0],
                "/bkt?list-type=2&encoding-type=url&prefix=p%2F&delimiter=%2F&max-keys=2&start-after=p%2Fa");
        assert_non_null(strstr(pages.target[1], "&continuation-token=t%2B%2F%3D"));
        assert_null(strstr(pages.target[1], "start-after"));
}

#define VERSION(key, id, latest)                                                                                       \
        "<Version><Key>" key "</Key><VersionId>" id "</VersionId><IsLatest>" latest "</IsLatest>"                      \
        "<LastModified>2013-05-24T00:00:00.123Z</LastModified><ETag>&quot;e&quot;</ETag><Size>7</Size></Version>"
#define MARKER(key, id, latest)                                                                                        \
        "<DeleteMarker><Key>" key "</Key><VersionId>" id "</VersionId><IsLatest>" latest "</IsLatest>"                 \
        "<LastModified>2013-05-24T00:00:01.000Z</LastModified></DeleteMarker>"

static void versions_page_by_two_markers(void **state)
{
        struct pages pages = {
                .text = {"<ListVersionsResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
                         "<NextKeyMarker>p/b+c%20</NextKeyMarker><NextVersionIdMarker>v2</NextVersionIdMarker>" MARKER(
                                 "p/b+c%20", "v3", "true") VERSION("p/b+c%20", "v2", "false") "</ListVersionsResult>",
                         "<ListVersionsResult><IsTruncated>true</IsTruncated><NextKeyMarker>p/z/</"
                         "NextKeyMarker>" VERSION("p/b c ", "v1", "false") VERSION(
                                 "p/c", "null", "true") "<CommonPrefixes>"
                                                        "<Prefix>p/bb/</Prefix></CommonPrefixes></ListVersionsResult>",
                         "<ListVersionsResult></ListVersionsResult>"},
        };
        struct found found = {0};
        struct mr_error err;

        assert_int_equal(list(&pages, VERSIONS, &found, &err), 0);
        assert_string_equal(found.text, "[p/b c  v3 latest marker 0 1369353601000][p/b c  v2 7 1369353600123]"
                                        "[p/b c  v1 7 1369353600123]<p/bb/>[p/c null latest 7 1369353600123]");
        assert_string_equal(pages.target[0],
                            "/bkt?versions=&encoding-type=url&prefix=p%2F&delimiter=%2F&max-keys=2&key-marker=p%2Fa");
        assert_non_null(strstr(pages.target[1], "&key-marker=p%2Fb%20c%20&version-id-marker=v2"));
        /* a page that ended with a common prefix */
        assert_non_null(strstr(pages.target[2], "&key-marker=p%2Fz%2F"));
        assert_null(strstr(pages.target[2], "version-id-marker"));
}

static void a_token_of_another_listing_is_refused(void **state)
{
        struct mr_list list = {.bucket = "bkt", .versions = true, .token = "nospace"};
        struct pages pages = {.text = {NULL}};
        struct mr_client *client;
        struct mr_error err;
        struct fake_s3 fake;

        fake_start(&fake, serve_page, &pages);
        client = fake_client(&fake, 1);
        assert_int_equal(mr_list(client, &list, note_entry, NULL, &err), -EINVAL);
        assert_int_equal(fake.requests, 0);
        mr_client_free(client);
        fake_stop(&fake);
}

static void names_stay_as_they_are_where_nothing_was_encoded(void **state)
{
        struct pages pages = {.text = {"<ListBucketResult><IsTruncated>false</IsTruncated>" ENTRY(
                                      "a+%25", "1") "</ListBucketResult>"}};
        struct found found = {0};
        struct mr_error err;

        assert_int_equal(list(&pages, OBJECTS, &found, &err), 0);
        assert_string_equal(found.text, "[a+%25 1 1369353600 e]");
}

static void a_listing_ends_when_told_to(void **state)
{
        struct pages pages = {
                .text = {"<ListBucketResult><IsTruncated>true</IsTruncated>" ENTRY("a", "1")
                                 ENTRY("b", "1") "<NextContinuationToken>t</NextContinuationToken></ListBucketResult>",
                         "<ListBucketResult></ListBucketResult>"}, /* asked for ahead, perhaps */
        };
        struct found found = {.stop_after = 1};
        struct mr_error err;

        assert_int_equal(list(&pages, OBJECTS, &found, &err), 7);
        assert_string_equal(found.text, "[a 1 1369353600 e]");
        assert_int_equal(err.code, 0);
}

static void listings_that_lead_nowhere_end(void **state)
{
        static const char truncated[] = "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>";
        static const char same[] = "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t"
                                   "</NextContinuationToken></ListBucketResult>";
        static const char uploads[] = "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k"
                                      "</NextKeyMarker><NextUploadIdMarker>i</NextUploadIdMarker>"
                                      "</ListMultipartUploadsResult>";
        static const char nowhere[] = "<ListVersionsResult><IsTruncated>true</IsTruncated></ListVersionsResult>";
        static const char versions[] = "<ListVersionsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k"
                                       "</NextKeyMarker><NextVersionIdMarker>i</NextVersionIdMarker>"
                                       "</ListVersionsResult>";
        static const char buckets[] = "<ListAllMyBucketsResult><Buckets/><ContinuationToken>t</ContinuationToken>"
                                      "</ListAllMyBucketsResult>";
        static const struct {
                struct pages pages;
                enum what what;
        } cases[] = {
                {{.text = {truncated}}, OBJECTS},        {{.text = {same, same}}, OBJECTS},
                {{.text = {nowhere}}, VERSIONS},         {{.text = {versions, versions}}, VERSIONS},
                {{.text = {uploads, uploads}}, UPLOADS}, {{.text = {buckets, buckets}}, BUCKETS},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct pages pages = cases[i].pages;
                struct found found = {0};
                struct mr_error err;

                assert_int_equal(list(&pages, cases[i].what, &found, &err), -EPROTO);
                assert_non_null(strstr(err.message, "where it goes on"));
        }
}

static void answers_that_are_none_are_refused(void **state)
{
        static const char *const texts[] = {
                "",
                "no XML",
                "<ListBucketResult>",
                "<Other></Other>",
                "<!DOCTYPE a [<!ENTITY b \"c\">]><ListBucketResult><Name>&b;</Name></ListBucketResult>",
                "<ListBucketResult>" ENTRY("a", "-1") "</ListBucketResult>",
                "<ListBucketResult>" ENTRY("a", "x") "</ListBucketResult>",
                "<ListBucketResult><EncodingType>url</EncodingType>" ENTRY("%zz", "1") "</ListBucketResult>",
                "<ListVersionsResult><Version><Key>k</Key><Size>-1</Size></Version></ListVersionsResult>",
                "<ListVersionsResult><EncodingType>url</EncodingType><NextKeyMarker>%zz</NextKeyMarker>"
                "</ListVersionsResult>",
                "<ListVersionsResult><NextKeyMarker>k</NextKeyMarker><NextVersionIdMarker>a b</NextVersionIdMarker>"
                "</ListVersionsResult>",
                "<ListBucketResult><EncodingType>url</EncodingType>" ENTRY("a%00b", "1") "</ListBucketResult>",
        };

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                for (enum what what = OBJECTS; what <= BUCKETS; what++) {
                        struct pages pages = {.text = {texts[i]}};
                        struct found found = {0};
                        struct mr_error err;

                        assert_int_equal(list(&pages, what, &found, &err), -EPROTO);
                        assert_string_equal(found.text, "");
                        assert_true(err.message[0] != '\0');
                }
        }
}

static void uploads_page_by_two_markers(void **state)
{
        struct pages pages = {
                .text = {"<ListMultipartUploadsResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
                         "<Upload><Key>a+b</Key><UploadId>i+1</UploadId><Initiated>2013-05-24T00:00:00.000Z</Initiated>"
                         "</Upload><NextKeyMarker>a+b</NextKeyMarker><NextUploadIdMarker>i+1</NextUploadIdMarker>"
                         "</ListMultipartUploadsResult>",
                         "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated><Upload><Key>c+</Key>"
                         "<UploadId>2</UploadId></Upload></ListMultipartUploadsResult>"},
        };
        struct found found = {0};
        struct mr_error err;

        assert_int_equal(list(&pages, UPLOADS, &found, &err), 0);
        assert_string_equal(found.text, "[a b i+1 1369353600][c+ 2 0]");
        assert_string_equal(pages.target[0], "/bkt?uploads=&encoding-type=url&prefix=p%2F");
        assert_non_null(strstr(pages.target[1], "&key-marker=a%20b&upload-id-marker=i%2B1"));
}

static void buckets_page_too(void **state)
{
        struct pages pages = {
                .text = {"<ListAllMyBucketsResult><Owner><ID>o</ID></Owner><Buckets><Bucket><Name>one</"
                         "Name><CreationDate>"
                         "2013-05-24T00:00:00.000Z</CreationDate></Bucket><Bucket><Name>two</Name></Bucket></Buckets>"
                         "<ContinuationToken>t</ContinuationToken></ListAllMyBucketsResult>",
                         "<ListAllMyBucketsResult><Buckets><Bucket><Name>three</Name></Bucket></Buckets>"
                         "</ListAllMyBucketsResult>"},
        };
        struct found found = {0};
        struct mr_error err;

        assert_int_equal(list(&pages, BUCKETS, &found, &err), 0);
        assert_string_equal(found.text, "[one 1369353600][two 0][three 0]");
        assert_string_equal(pages.target[1], "/?continuation-token=t");
        found.stop_after = 1;
        assert_int_equal(list(&pages, BUCKETS, &found, &err), 7);
        assert_string_equal(found.text, "[one 1369353600]");
}

static void note_failed(void *arg, const char *key, const char *code, const char *message)
{
        struct found *found = arg;
        size_t len = strlen(found->text);

        snprintf(found->text + len, sizeof(found->text) - len, "[%s %s %s]", key, code, message);
}

static void deletes_name_what_failed(void **state)
{
        static const char *const keys[] = {"a<b", "c&d", "e"};
        static const struct mr_key_version versions[] = {{"a&b", "v<1"}, {"c", NULL}};
        struct pages pages = {
                .text = {"<DeleteResult><Deleted><Key>a&lt;b</Key></Deleted><Error><Key>c&amp;d</Key><Code>AccessDenied"
                         "</Code><Message>no</Message></Error></DeleteResult>",
                         "nonsense"},
        };
        struct found found = {0};
        struct mr_client *client;
        struct mr_error err;
        struct fake_s3 fake;

        fake_start(&fake, serve_page, &pages);
        client = fake_client(&fake, 1);
        assert_int_equal(mr_delete_many(client, "bkt", keys, 3, note_failed, &found, &err), 0);
        assert_string_equal(found.text, "[c&d AccessDenied no]");
        assert_string_equal(pages.target[0], "/bkt?delete=");
        assert_non_null(strstr(pages.body, "<Object><Key>a&lt;b</Key></Object><Object><Key>c&amp;d</Key></Object>"));
        assert_non_null(strstr(pages.body, "<Quiet>true</Quiet>"));
        assert_int_equal(mr_delete_many(client, "bkt", keys, 3, note_failed, &found, &err), -EPROTO);
        assert_int_equal(mr_delete_many(client, "bkt", keys, 0, note_failed, &found, &err), 0);
        assert_int_equal(fake.requests, 2);
        pages.text[2] = "<DeleteResult/>";
        assert_int_equal(mr_delete_many_versions(client, "bkt", versions, 2, true, note_failed, &found, &err), 0);
        assert_non_null(strstr(pages.body, "<Object><Key>a&amp;b</Key><VersionId>v&lt;1</VersionId></Object>"
                                           "<Object><Key>c</Key></Object>"));
        assert_int_equal(mr_delete_many_versions(client, "bkt", versions, 0, true, note_failed, &found, &err), 0);
        assert_int_equal(fake.requests, 3);
        mr_client_free(client);
        fake_stop(&fake);
}

/* ---- the reader ------------------------------------------------------------------------------ */

static int note_record(void *arg, const struct mr_record *record)
{
        struct found *found = arg;
        size_t len = strlen(found->text);

        snprintf(found->text + len, sizeof(found->text) - len, "(%s a=%s b=%s)", record->name,
                 mr_record_get(record, "a"), mr_record_get(record, "b"));
        return found->stop_after > 0 && --found->stop_after == 0 ? -EINTR : 0;
}

static void records_are_flat(void **state)
{
        static const char text[] = "<r><a>0</a><x><a>1</a><a>2</a><b><a>3</a></b></x><y><b>4</b></y><b>5</b><z/></r>";
        struct found found = {0};

        assert_int_equal(mr_answer_read(text, strlen(text), "r", 1, note_record, &found), 0);
        assert_string_equal(found.text, "(x a=1 b=)(y a= b=4)(r a=0 b=5)");
        found = (struct found){.stop_after = 2};
        assert_int_equal(mr_answer_read(text, strlen(text), "r", 1, note_record, &found), -EINTR);
        assert_string_equal(found.text, "(x a=1 b=)(y a= b=4)");
        assert_int_equal(mr_answer_read(text, strlen(text), "s", 1, note_record, &found), -EPROTO);
}

static void more_fields_than_anyone_has_are_left_out(void **state)
{
        char text[4096] = "<r><x>";
        struct found found = {0};

        for (int i = 0; i < 40; i++)
                snprintf(text + strlen(text), sizeof(text) - strlen(text), "<f%d>v</f%d>", i, i);
        strcat(text, "<a>late</a></x><a-name-longer-than-any-that-s3-has-ever-used>v"
                     "</a-name-longer-than-any-that-s3-has-ever-used></r>");
        assert_int_equal(mr_answer_read(text, strlen(text), "r", 1, note_record, &found), 0);
        assert_string_equal(found.text, "(x a= b=)(r a= b=)");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(pages_are_put_together_in_order),
                cmocka_unit_test(versions_page_by_two_markers),
                cmocka_unit_test(a_token_of_another_listing_is_refused),
                cmocka_unit_test(names_stay_as_they_are_where_nothing_was_encoded),
                cmocka_unit_test(a_listing_ends_when_told_to),
                cmocka_unit_test(listings_that_lead_nowhere_end),
                cmocka_unit_test(answers_that_are_none_are_refused),
                cmocka_unit_test(uploads_page_by_two_markers),
                cmocka_unit_test(buckets_page_too),
                cmocka_unit_test(deletes_name_what_failed),
                cmocka_unit_test(records_are_flat),
                cmocka_unit_test(more_fields_than_anyone_has_are_left_out),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
