/*
 * test_commands.c - the commands from their arguments to files and exit statuses, against a bucket
 * in the test's memory: put, get, cat, ls, stat, rm, mb, rb and admin uploads, with names and
 * failures that a real endpoint and file system have.
 */
#include "tests/unit/client/fake_s3.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "s3.h"

#define OBJECTS 64

/* The bucket "bkt". */
struct bucket {
        struct {
                char key[256];
                char *data;
                size_t len;
        } object[OBJECTS];
        unsigned count;
        unsigned uploads, aborted;
        bool deny;          /* everything is refused */
        bool deny_deletes;  /* of single keys in a batch */
        char evil_key[256]; /* one more key in listings */
        bool exists;
};

static char folder[] = "/tmp/millrace-commands-XXXXXX";
static struct bucket bucket;
static struct fake_s3 fake;

static int find(const char *key)
{
        for (unsigned i = 0; i < bucket.count; i++)
                if (strcmp(bucket.object[i].key, key) == 0)
                        return (int)i;
        return -1;
}

static void forget(const char *key)
{
        int i = find(key);

        if (i < 0)
                return;
        free(bucket.object[i].data);
        bucket.object[i] = bucket.object[--bucket.count];
}

static void store(const char *key, const char *data, size_t len)
{
        forget(key);
        assert_true(bucket.count < OBJECTS);
        snprintf(bucket.object[bucket.count].key, 256, "%s", key);
        bucket.object[bucket.count].data = malloc(len + 1);
        memcpy(bucket.object[bucket.count].data, data, len);
        bucket.object[bucket.count++].len = len;
}

static void list_one(const char *key, size_t size, const char *prefix, bool delimited, char *text, size_t text_size)
{
        const char *slash = delimited ? strchr(key + strlen(prefix), '/') : NULL;
        size_t len = strlen(text);

        if (strncmp(key, prefix, strlen(prefix)) != 0)
                return;
        if (slash != NULL)
                snprintf(text + len, text_size - len, "<CommonPrefixes><Prefix>%.*s</Prefix></CommonPrefixes>",
                         (int)(slash + 1 - key), key);
        else
                snprintf(text + len, text_size - len,
                         "<Contents><Key>%s</Key><LastModified>2013-05-24T00:00:00Z</LastModified><ETag>\"e\"</ETag>"
                         "<Size>%zu</Size></Contents>",
                         key, size);
}

static void serve_list(const char *query, struct fake_reply *reply)
{
        static char text[65536];
        const char *at = strstr(query, "prefix=");
        char prefix[256] = "";
        int n = 0;

        if (at != NULL)
                n = s3_percent_decode((struct s3_str){at + 7, strcspn(at + 7, "&")}, true, prefix, sizeof(prefix) - 1);
        prefix[n] = '\0';
        snprintf(text, sizeof(text), "<ListBucketResult><IsTruncated>false</IsTruncated>");
        for (unsigned i = 0; i < bucket.count; i++)
                list_one(bucket.object[i].key, bucket.object[i].len, prefix, strstr(query, "delimiter=") != NULL, text,
                         sizeof(text));
        if (bucket.evil_key[0] != '\0')
                list_one(bucket.evil_key, 1, prefix, false, text, sizeof(text));
        strcat(text, "</ListBucketResult>");
        fake_text(reply, text);
}

static void serve_uploads(struct fake_reply *reply)
{
        char text[1024] = "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>";

        for (unsigned i = bucket.aborted; i < bucket.uploads; i++)
                snprintf(text + strlen(text), sizeof(text) - strlen(text),
                         "<Upload><Key>up%u</Key><UploadId>id%u</UploadId><Initiated>2013-05-24T00:00:00Z</Initiated>"
                         "</Upload>",
                         i, i);
        strcat(text, "</ListMultipartUploadsResult>");
        fake_text(reply, text);
}

static void serve_batch_delete(const struct fake_request *request, struct fake_reply *reply)
{
        char text[8192] = "<DeleteResult>", key[256];

        for (const char *at = request->body; (at = strstr(at, "<Key>")) != NULL; at++) {
                snprintf(key, sizeof(key), "%.*s", (int)strcspn(at + 5, "<"), at + 5);
                if (bucket.deny_deletes)
                        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                                 "<Error><Key>%s</Key><Code>AccessDenied</Code><Message>no</Message></Error>", key);
                else
                        forget(key);
        }
        strcat(text, "</DeleteResult>");
        fake_text(reply, text);
}

static void serve_bucket_itself(const struct fake_request *request, const char *query, struct fake_reply *reply)
{
        if (strcmp(request->method, "PUT") == 0) {
                if (bucket.exists)
                        fake_error(reply, 409, "BucketAlreadyOwnedByYou");
                bucket.exists = true;
        } else if (strcmp(request->method, "DELETE") == 0) {
                if (bucket.count > 0)
                        fake_error(reply, 409, "BucketNotEmpty");
                else
                        reply->status = 204;
        } else if (strcmp(request->method, "POST") == 0) {
                serve_batch_delete(request, reply);
        } else if (strstr(query, "uploads") != NULL) {
                serve_uploads(reply);
        } else if (strcmp(request->method, "GET") == 0) {
                serve_list(query, reply);
        }
}

static void serve_object(const struct fake_request *request, const char *key, struct fake_reply *reply)
{
        int i = find(key);
        char value[512];

        if (strcmp(request->method, "PUT") == 0) {
                if (i >= 0 && strcmp(fake_header(request, "if-none-match", value), "*") == 0)
                        fake_error(reply, 412, "PreconditionFailed");
                else
                        store(key, request->body, request->body_len);
        } else if (strcmp(request->method, "DELETE") == 0) {
                bucket.aborted += strstr(request->target, "uploadId=") != NULL;
                forget(key);
                reply->status = 204;
        } else if (i < 0) {
                fake_error(reply, 404, "NoSuchKey");
        } else {
                fake_body(reply, bucket.object[i].data, bucket.object[i].len);
                snprintf(reply->headers, sizeof(reply->headers),
                         "ETag: \"e\"\r\nLast-Modified: Fri, 24 May 2013 00:00:00 GMT\r\nContent-Type: text/plain\r\n"
                         "x-amz-meta-a: b\r\nx-amz-checksum-sha1: AAAA-2\r\n");
        }
}

static void serve_bucket(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        const char *query = strchr(request->target, '?');
        size_t len = query != NULL ? (size_t)(query - request->target) : strlen(request->target);
        char path[1024];
        int n = s3_percent_decode((struct s3_str){request->target, len}, false, path, sizeof(path) - 1);

        assert_true(n > 0);
        path[n] = '\0';
        query = query != NULL ? query + 1 : "";
        if (bucket.deny)
                fake_error(reply, 403, "AccessDenied");
        else if (strcmp(path, "/") == 0)
                fake_text(reply, "<ListAllMyBucketsResult><Buckets><Bucket><Name>bkt</Name></Bucket></Buckets>"
                                 "</ListAllMyBucketsResult>");
        else if (strcmp(path, "/bkt") == 0)
                serve_bucket_itself(request, query, reply);
        else if (strncmp(path, "/bkt/", 5) == 0)
                serve_object(request, path + 5, reply);
        else
                fake_error(reply, 404, "NoSuchBucket");
}

/* ---- running commands ------------------------------------------------------------------------ */

/*
 * "%" in a line stands for the test's folder. Its exit status; what it printed is in the file "out"
 * there.
 */
static int run(const char *line)
{
        char text[2048] = "millrace ", *argv[32], *rest = text;
        struct cli_call call;
        int argc = 0, status, saved, out;
        char path[128];

        for (const char *c = line; *c != '\0'; c++)
                snprintf(text + strlen(text), sizeof(text) - strlen(text), *c == '%' ? "%s" : "%.1s",
                         *c == '%' ? folder : c);
        while (rest != NULL && argc < 31)
                argv[argc++] = strsep(&rest, " ");
        argv[argc] = NULL;
        snprintf(path, sizeof(path), "%s/out", folder);
        fflush(stdout);
        saved = dup(STDOUT_FILENO);
        out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(out, STDOUT_FILENO);
        close(out);
        status = cli_call_parse(argc, argv, &call);
        if (status < 0) {
                assert_int_equal(mr_client_new(&call.settings, &call.client), 0);
                status = call.command->run(&call);
                mr_client_free(call.client);
        }
        fflush(stdout);
        dup2(saved, STDOUT_FILENO);
        close(saved);
        return status;
}

static const char *content(const char *name)
{
        static char text[16384];
        char path[512];
        ssize_t n;
        int fd;

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        fd = open(path, O_RDONLY);
        n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
        if (fd >= 0)
                close(fd);
        text[n < 0 ? 0 : n] = '\0';
        return n < 0 ? NULL : text;
}

static bool printed(const char *what)
{
        const char *text = content("out");

        return text != NULL && strstr(text, what) != NULL;
}

static void write_file(const char *name, const char *text)
{
        char path[512];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        file = fopen(path, "w");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
}

static void make_folder(const char *name)
{
        char path[512];

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        assert_int_equal(mkdir(path, 0700), 0);
}

static int clean(void **state)
{
        char command[128];

        while (bucket.count > 0)
                forget(bucket.object[0].key);
        memset(&bucket, 0, sizeof(bucket));
        snprintf(command, sizeof(command), "rm -rf %s/*", folder);
        return system(command);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void files_go_and_come_back(void **state)
{
        struct stat st;
        char path[256];

        write_file("a.txt", "hello");
        assert_int_equal(run("put %/a.txt s3://bkt/dir/"), CLI_OK);
        assert_true(printed("/a.txt -> s3://bkt/dir/a.txt"));
        assert_int_equal(run("put -q %/a.txt s3://bkt/other"), CLI_OK);
        assert_string_equal(content("out"), "");
        assert_int_equal(run("put %/a.txt s3://bkt"), CLI_OK);
        assert_true(find("dir/a.txt") >= 0 && find("other") >= 0 && find("a.txt") >= 0);
        assert_int_equal(run("get s3://bkt/other %/new/deep/b"), CLI_OK);
        assert_string_equal(content("new/deep/b"), "hello");
        snprintf(path, sizeof(path), "%s/new/deep/b", folder);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mtime, 1369353600);
        assert_int_equal(run("get s3://bkt/dir/a.txt s3://bkt/other %/new"), CLI_OK);
        assert_string_equal(content("new/a.txt"), "hello");
        assert_string_equal(content("new/other"), "hello");
        assert_int_equal(run("get s3://bkt/other -"), CLI_OK);
        assert_string_equal(content("out"), "hello");
        assert_int_equal(run("cat s3://bkt/other s3://bkt/a.txt"), CLI_OK);
        assert_string_equal(content("out"), "hellohello");
        assert_int_equal(run("get s3://bkt/other /dev/null"), CLI_OK);
}

static void trees_go_and_come_back(void **state)
{
        make_folder("t");
        make_folder("t/x");
        write_file("t/a", "1");
        write_file("t/x/b", "22");
        assert_int_equal(run("put -r --progress %/t s3://bkt/tree"), CLI_OK);
        assert_int_equal(bucket.count, 2);
        assert_true(find("tree/a") >= 0 && find("tree/x/b") >= 0);
        store("tree/empty/", "", 0); /* a marker of a folder */
        store("treehouse", "", 0);
        assert_int_equal(run("get -r s3://bkt/tree %/back"), CLI_OK);
        assert_string_equal(content("back/a"), "1");
        assert_string_equal(content("back/x/b"), "22");
        assert_null(content("back/house"));
        assert_int_equal(run("ls s3://bkt/"), CLI_OK);
        assert_true(printed("PREFIX  tree/") && printed("treehouse"));
        assert_int_equal(run("ls -r -H s3://bkt/tree/"), CLI_OK);
        assert_true(printed("2 B  tree/x/b"));
        assert_int_equal(run("ls s3://bkt/tree/x/"), CLI_OK);
        assert_true(printed("  b\n"));
        assert_int_equal(run("rm -r s3://bkt/tree"), CLI_OK);
        assert_int_equal(bucket.count, 1);
        assert_true(find("treehouse") >= 0);
}

static void a_listing_cannot_write_elsewhere(void **state)
{
        static const char *const evil[] = {"t/../../escaped", "t//etc/passwd", "t/./x", "t/a/.."};

        for (size_t i = 0; i < sizeof(evil) / sizeof(evil[0]); i++) {
                snprintf(bucket.evil_key, sizeof(bucket.evil_key), "%s", evil[i]);
                store("t/good", "g", 1);
                make_folder("in");
                assert_int_equal(run("get -r s3://bkt/t %/in/back"), CLI_FAILED);
                assert_string_equal(content("in/back/good"), "g");
                assert_null(content("escaped"));
                assert_null(content("in/escaped"));
                clean(state);
        }
}

static void what_is_not_there(void **state)
{
        assert_int_equal(run("put %/absent s3://bkt/k"), CLI_FAILED);
        assert_int_equal(run("get s3://bkt/absent %/x"), CLI_FAILED);
        assert_null(content("x"));
        assert_int_equal(run("get -r s3://bkt/absent %/x"), CLI_FAILED);
        assert_int_equal(run("cat s3://bkt/absent"), CLI_FAILED);
        assert_int_equal(run("stat s3://bkt/absent"), CLI_FAILED);
        assert_int_equal(run("stat s3://other"), CLI_FAILED);
        assert_int_equal(run("ls s3://bkt/absent"), CLI_FAILED);
        assert_int_equal(run("ls s3://bkt"), CLI_OK);          /* an empty bucket is no failure */
        assert_int_equal(run("put % s3://bkt/k"), CLI_FAILED); /* a folder, without -r */
}

static void a_failure_among_many_shows_in_the_status(void **state)
{
        char path[256];

        make_folder("t");
        write_file("t/a", "1");
        snprintf(path, sizeof(path), "%s/t/dangling", folder);
        assert_int_equal(symlink("nowhere", path), 0);
        snprintf(path, sizeof(path), "%s/t/loop", folder);
        assert_int_equal(symlink(".", path), 0);
        assert_int_equal(run("put -r %/t s3://bkt/x"), CLI_FAILED);
        assert_int_equal(bucket.count, 1);
        assert_true(find("x/a") >= 0);
        bucket.deny = true;
        assert_int_equal(run("put %/t/a s3://bkt/x"), CLI_FAILED);
        assert_int_equal(run("ls"), CLI_FAILED);
        assert_int_equal(run("ls s3://bkt"), CLI_FAILED);
        assert_int_equal(run("get -r s3://bkt %/y"), CLI_FAILED);
        assert_int_equal(run("rm s3://bkt/x/a"), CLI_FAILED);
        assert_int_equal(run("rm -r s3://bkt/x"), CLI_FAILED);
        assert_int_equal(run("mb s3://bkt"), CLI_FAILED);
        assert_int_equal(run("rb -f s3://bkt"), CLI_FAILED);
        assert_int_equal(run("admin uploads ls s3://bkt"), CLI_FAILED);
        assert_int_equal(run("admin uploads abort s3://bkt/k id"), CLI_FAILED);
}

static void a_target_that_cannot_be_written(void **state)
{
        store("k", "1", 1);
        write_file("file", "");
        assert_int_equal(run("get s3://bkt/k %/file/below"), CLI_FAILED);
        assert_int_equal(run("get s3://bkt/k /proc/no/such"), CLI_FAILED);
        store("dir/", "", 0);
        assert_int_equal(run("get s3://bkt/dir/ %"), CLI_FAILED); /* no name is left for it */
}

static void what_is_there_is_kept_if_asked_for(void **state)
{
        store("k", "old", 3);
        write_file("a", "new");
        assert_int_equal(run("put -n %/a s3://bkt/k"), CLI_FAILED);
        assert_int_equal(memcmp(bucket.object[find("k")].data, "old", 3), 0);
        assert_int_equal(run("put %/a s3://bkt/k"), CLI_OK);
        assert_int_equal(memcmp(bucket.object[find("k")].data, "new", 3), 0);
}

static void buckets(void **state)
{
        assert_int_equal(run("mb s3://bkt"), CLI_OK);
        assert_true(printed("mb s3://bkt"));
        assert_int_equal(run("mb s3://bkt"), CLI_FAILED);
        assert_int_equal(run("ls"), CLI_OK);
        assert_true(printed("s3://bkt"));
        assert_int_equal(run("ls s3://"), CLI_OK);
        assert_int_equal(run("stat s3://bkt"), CLI_OK);
        store("a", "1", 1);
        bucket.uploads = 2;
        assert_int_equal(run("rb s3://bkt"), CLI_FAILED);
        bucket.deny_deletes = true;
        assert_int_equal(run("rb -f s3://bkt"), CLI_FAILED);
        assert_int_equal(bucket.count, 1);
        bucket.deny_deletes = false;
        assert_int_equal(run("rb -f s3://bkt"), CLI_OK);
        assert_int_equal(bucket.count, 0);
        assert_int_equal(bucket.aborted, 2);
}

static void objects_told_about(void **state)
{
        store("k", "12345", 5);
        assert_int_equal(run("stat s3://bkt/k"), CLI_OK);
        assert_true(printed("size: 5 (5 B)") && printed("etag: e\n") && printed("x-amz-meta-a: b") &&
                    printed("checksum: SHA1 AAAA-2 (of the parts)") && printed("content-type: text/plain"));
        assert_int_equal(run("rm s3://bkt/k"), CLI_OK);
        assert_int_equal(bucket.count, 0);
}

static void unfinished_uploads(void **state)
{
        bucket.uploads = 3;
        assert_int_equal(run("admin uploads ls s3://bkt"), CLI_OK);
        assert_true(printed("id0  s3://bkt/up0") && printed("id2  s3://bkt/up2"));
        assert_int_equal(run("admin uploads ls --older 1000000 s3://bkt"), CLI_OK);
        assert_string_equal(content("out"), "");
        assert_int_equal(run("admin uploads abort s3://bkt/up0 id0"), CLI_OK);
        assert_int_equal(bucket.aborted, 1);
        assert_int_equal(run("admin uploads abort -r --older 24 s3://bkt"), CLI_OK);
        assert_int_equal(bucket.aborted, 3);
}

static void wrong_usage(void **state)
{
        static const char *const lines[] = {
                "put %/a %/b",
                "put s3://bkt/a s3://bkt/b",
                "put - s3://bkt/",
                "put - %/a s3://bkt/k",
                "get %/a",
                "get s3://bkt/a s3://bkt/b",
                "get s3://bkt %/a",
                "get s3://bkt/a s3://bkt/b -",
                "get -r s3://bkt/a -",
                "cat s3://bkt",
                "ls bkt",
                "rm s3://bkt",
                "rm s3://bkt/k bkt/k",
                "stat s3://",
                "mb s3://bkt/k",
                "rb bkt",
                "admin uploads abort s3://bkt/k",
                "admin uploads abort -r s3://bkt/k id",
                "admin uploads ls bkt",
        };

        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
                assert_int_equal(run(lines[i]), CLI_USAGE);
        assert_int_equal(bucket.count, 0);
}

static int set_up(void **state)
{
        if (mkdtemp(folder) == NULL)
                return -1;
        fake_start(&fake, serve_bucket, NULL);
        setenv("MILLRACE_ENDPOINT", fake.url, 1);
        setenv("MILLRACE_ROOT_ACCESS_KEY", "AK", 1);
        setenv("MILLRACE_ROOT_SECRET_KEY", "SK", 1);
        setenv("MILLRACE_ATTEMPTS", "1", 1);
        setenv("MILLRACE_PARALLEL", "2", 1);
        setenv("HOME", "/nonexistent", 1);
        return 0;
}

static int tear_down(void **state)
{
        clean(state);
        fake_stop(&fake);
        return rmdir(folder);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(files_go_and_come_back, clean),
                cmocka_unit_test_setup(trees_go_and_come_back, clean),
                cmocka_unit_test_setup(a_listing_cannot_write_elsewhere, clean),
                cmocka_unit_test_setup(what_is_not_there, clean),
                cmocka_unit_test_setup(a_failure_among_many_shows_in_the_status, clean),
                cmocka_unit_test_setup(a_target_that_cannot_be_written, clean),
                cmocka_unit_test_setup(what_is_there_is_kept_if_asked_for, clean),
                cmocka_unit_test_setup(buckets, clean),
                cmocka_unit_test_setup(objects_told_about, clean),
                cmocka_unit_test_setup(unfinished_uploads, clean),
                cmocka_unit_test_setup(wrong_usage, clean),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}
