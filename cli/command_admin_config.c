/*
 * command_admin_config.c - `millrace admin account` and `millrace admin config`: accounts, and the configuration of a
 * store (people and buckets, without objects) as one file. Main thread only.
 *
 * The file is one JSON document with one item in a line, so that neither way holds more than an item in memory:
 * entries of the directory as the store keeps them, secrets sealed, and buckets with the documents beside them. Import
 * reads it several times: what is there is looked at before anything is changed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "command_admin.h"

#define PEOPLE_PATH   "/admin/v1/people"
#define ACCOUNTS_PATH "/admin/v1/accounts"
#define FORMAT        1
#define KIND_FIRST    128
#define KIND_LAST     143 /* kinds that this build does not know are taken along */
#define KIND_KEY      130
#define BATCH_ENTRIES 100u         /* of one call, as the listener takes them */
#define BATCH_BYTES   (240u << 10) /* its bodies have 256 KiB at most; a longer entry goes alone, as it is */

/* Who is named comes before whoever names it: accounts, policies, groups, then all others, and keys at last. */
static const int kinds_first[] = {128, 133, 131};

/*
 * A bucket's documents, in the order in which they can be set: what the public access block would refuse is there
 * before it.
 */
static const char *const documents[] = {"versioning", "object-lock",    "tagging",    "ownershipControls", "acl",
                                        "lifecycle",  "cors",           "website",    "logging",
                                        "requestPayment", "accelerate", "policy",     "publicAccessBlock"};
#define DOCUMENTS (sizeof(documents) / sizeof(documents[0]))
/* Of which there can be several with ids; each is a document "name id". */
static const struct {
        const char *name, *element;
} lists[] = {{"inventory", "InventoryConfiguration"},
             {"metrics", "MetricsConfiguration"},
             {"analytics", "AnalyticsConfiguration"},
             {"intelligent-tiering", "IntelligentTieringConfiguration"}};
#define LISTS      (sizeof(lists) / sizeof(lists[0]))
#define CONFIG_ID  256u
#define LIST_PAGES 100u

/* ---- accounts -------------------------------------------------------------------------------- */

/* Calls fn for the text of each entry of a kind. An exit status. */
typedef int (*entry_fn)(void *arg, const json_t *text);
static int each_entry(struct cli_call *call, int kind, entry_fn fn, void *arg)
{
        char number[16], position[24] = "0";
        const char *query[] = {"kind", number, "position", position, NULL};
        int status = CLI_OK;
        bool more = true;
        json_t *page, *text;
        size_t i;

        snprintf(number, sizeof(number), "%d", kind);
        while (more && status == CLI_OK) {
                status = cli_admin_ask(call, "GET", PEOPLE_PATH, query, 200, 200, &page);
                if (status != CLI_OK)
                        return status;
                json_array_foreach(json_object_get(page, "entries"), i, text)
                {
                        status = fn(arg, text);
                        if (status != CLI_OK)
                                break;
                }
                snprintf(position, sizeof(position), "%llu", (unsigned long long)cli_json_number(page, "position"));
                more = cli_json_true(page, "more");
                json_decref(page);
                if (mr_client_canceled(call->client))
                        status = CLI_FAILED;
        }
        return status;
}

/* "1 account - - 123456789012" and an object with its name and canonical id. */
static int account_line(void *arg, const json_t *text)
{
        const char *line = json_string_value(text), *object = line != NULL ? strchr(line, '\n') : NULL;
        json_t *body = object != NULL ? json_loads(object, 0, NULL) : NULL;
        char id[13] = "?", name[512];

        if (object != NULL && object - line >= 12)
                snprintf(id, sizeof(id), "%.12s", object - 12);
        printf("%s\t%s\t%s\n", id, cli_printable(stdout, cli_json_text(body, "title"), name, sizeof(name)),
               cli_json_text(body, "id"));
        json_decref(body);
        return CLI_OK;
}

int cli_admin_account_list(struct cli_call *call)
{
        return each_entry(call, KIND_FIRST, account_line, NULL);
}

static int account_ask(struct cli_call *call, const char *what, json_t **out)
{
        const char *query[] = {what, call->argv[0], NULL};

        return cli_admin_ask(call, "POST", ACCOUNTS_PATH, query, 200, 200, out);
}

int cli_admin_account_create(struct cli_call *call)
{
        json_t *made;
        int status = account_ask(call, "create", &made);

        if (status == CLI_OK && call->json)
                cli_json_print(made);
        else if (status == CLI_OK)
                printf("Account\t%s\nCanonicalId\t%s\nAccessKeyId\t%s\nSecretAccessKey\t%s\n", cli_json_text(made, "id"),
                       cli_json_text(made, "canonical_id"), cli_json_text(made, "access_key"),
                       cli_json_text(made, "secret_key"));
        json_decref(made);
        return status;
}

int cli_admin_account_delete(struct cli_call *call)
{
        json_t *deleted;
        int status = account_ask(call, "delete", &deleted);

        if (status == CLI_OK && !call->quiet)
                printf("account delete: done\n");
        json_decref(deleted);
        return status;
}

/* ---- export ---------------------------------------------------------------------------------- */

struct config_file {
        struct cli_call *call;
        FILE *file;
        const char *name;
        bool first; /* no item of this list yet */
        uint64_t entries, buckets, accounts;
};

static int write_item(struct config_file *out, const json_t *item)
{
        fputs(out->first ? "" : ",\n", out->file);
        out->first = false;
        if (json_dumpf(item, out->file, JSON_COMPACT | JSON_ENCODE_ANY | JSON_PRESERVE_ORDER) == 0 && !ferror(out->file))
                return CLI_OK;
        cli_error("%s: %s", out->name, strerror(errno != 0 ? errno : EIO));
        return CLI_FAILED;
}

static int write_entry(void *arg, const json_t *text)
{
        struct config_file *out = arg;

        out->entries++;
        out->accounts += strncmp(json_string_value(text) != NULL ? json_string_value(text) : "", "1 account ", 10) == 0;
        return write_item(out, text);
}

/* The text between the first <name> and </name> from *at on, copied; *at goes behind it. NULL: there is none. */
static char *cut_element(const char **at, const char *name, bool with_tags)
{
        char open[64], close[64], *out = NULL;
        const char *from, *to;

        snprintf(open, sizeof(open), "<%s>", name);
        snprintf(close, sizeof(close), "</%s>", name);
        from = strstr(*at, open);
        to = from != NULL ? strstr(from, close) : NULL;
        if (to != NULL) {
                *at = to + strlen(close);
                out = with_tags ? strndup(from, (size_t)(*at - from))
                                : strndup(from + strlen(open), (size_t)(to - from) - strlen(open));
        }
        return out;
}

/* All that the owner may, and nothing else: what every bucket has. */
static bool acl_says_nothing(const char *text)
{
        const char *at = text, *grant = strstr(text, "<Grant>");
        char *owner = cut_element(&at, "ID", false), *grantee = cut_element(&at, "ID", false);
        bool plain = owner != NULL && grantee != NULL && strcmp(owner, grantee) == 0 && grant != NULL &&
                     strstr(grant + 1, "<Grant>") == NULL && strstr(grant, ">FULL_CONTROL<") != NULL;

        free(owner);
        free(grantee);
        return plain;
}

static bool says_nothing(const char *name, const char *text)
{
        if (strcmp(name, "versioning") == 0 || strcmp(name, "accelerate") == 0)
                return strstr(text, "<Status>") == NULL;
        if (strcmp(name, "logging") == 0)
                return strstr(text, "<LoggingEnabled>") == NULL;
        if (strcmp(name, "requestPayment") == 0)
                return strstr(text, "<Payer>BucketOwner<") != NULL;
        return strcmp(name, "acl") == 0 && acl_says_nothing(text);
}

/* *out: its text, or NULL where the bucket has none; also a default that says nothing. 0 or CLI_FAILED. */
static int read_document(struct cli_call *call, const char *bucket, const char *name, json_t **out)
{
        struct mr_sub_resource what = {.method = "GET", .bucket = bucket, .name = name};
        struct mr_document document;
        struct mr_error err;
        int rv = mr_sub_resource(call->client, &what, &document, &err);

        *out = NULL;
        if (rv == 0) {
                if (!says_nothing(name, document.text))
                        *out = json_stringn(document.text, document.len);
                mr_document_free(&document);
                return CLI_OK;
        }
        mr_document_free(&document);
        if (err.http_status == 404 || err.http_status == 501)
                return CLI_OK;
        return cli_failed(bucket, &err);
}

/* Those of one page. */
static void take_configurations(json_t *object, size_t list, const char *text)
{
        char *one, *id, name[CONFIG_ID];
        const char *at;

        while ((one = cut_element(&text, lists[list].element, true)) != NULL) {
                at = one;
                id = cut_element(&at, "Id", false);
                if (id != NULL && snprintf(name, sizeof(name), "%s %s", lists[list].name, id) < (int)sizeof(name))
                        json_object_set_new(object, name, json_string(one));
                free(id);
                free(one);
        }
}

static int read_list(struct cli_call *call, const char *bucket, size_t list, json_t *object)
{
        char *token = NULL;
        int status = CLI_OK;

        for (unsigned page = 0; page < LIST_PAGES && status == CLI_OK && (page == 0 || token != NULL); page++) {
                const char *query[] = {"continuation-token", token, NULL}, *at;
                struct mr_sub_resource what = {
                        .method = "GET", .bucket = bucket, .name = lists[list].name, .query = token != NULL ? query : NULL};
                struct mr_document document;
                struct mr_error err;
                int rv = mr_sub_resource(call->client, &what, &document, &err);

                free(token);
                token = NULL;
                if (rv == 0) {
                        take_configurations(object, list, document.text);
                        at = document.text;
                        token = cut_element(&at, "NextContinuationToken", false);
                } else if (err.http_status != 404 && err.http_status != 501) {
                        status = cli_failed(bucket, &err);
                }
                mr_document_free(&document);
        }
        free(token);
        return status;
}

/* NULL: it has been said why not. */
static json_t *read_bucket(struct cli_call *call, const char *bucket)
{
        json_t *object = json_object(), *text;
        int status = object != NULL ? CLI_OK : CLI_FAILED;

        for (size_t i = 0; i < DOCUMENTS && status == CLI_OK; i++) {
                status = read_document(call, bucket, documents[i], &text);
                if (text != NULL)
                        json_object_set_new(object, documents[i], text);
        }
        for (size_t i = 0; i < LISTS && status == CLI_OK; i++)
                status = read_list(call, bucket, i, object);
        if (status == CLI_OK)
                return object;
        json_decref(object);
        return NULL;
}

static int write_bucket(void *arg, const struct mr_bucket *bucket)
{
        struct config_file *out = arg;
        json_t *object = read_bucket(out->call, bucket->name), *item;
        int status;

        if (object == NULL)
                return -ECANCELED; /* it has been said */
        item = json_pack("{s:s, s:o}", "bucket", bucket->name, "documents", object);
        status = write_item(out, item);
        json_decref(item);
        out->buckets++;
        return status == CLI_OK ? 0 : -ECANCELED;
}

static bool is_kind_first(int kind)
{
        for (size_t i = 0; i < sizeof(kinds_first) / sizeof(kinds_first[0]); i++)
                if (kinds_first[i] == kind)
                        return true;
        return false;
}

static int write_entries(struct config_file *out)
{
        int status = CLI_OK;

        for (size_t i = 0; status == CLI_OK && i < sizeof(kinds_first) / sizeof(kinds_first[0]); i++)
                status = each_entry(out->call, kinds_first[i], write_entry, out);
        for (int kind = KIND_FIRST; status == CLI_OK && kind <= KIND_LAST; kind++)
                if (!is_kind_first(kind) && kind != KIND_KEY)
                        status = each_entry(out->call, kind, write_entry, out);
        return status == CLI_OK ? each_entry(out->call, KIND_KEY, write_entry, out) : status;
}

int cli_admin_config_export(struct cli_call *call)
{
        const char *name = call->argc > 0 ? call->argv[0] : "-";
        struct config_file out = {.call = call, .name = name, .first = true};
        char when[32];
        struct mr_error err;
        int status;

        out.file = strcmp(name, "-") == 0 ? stdout : fopen(name, "wxe"); /* x: nothing is overwritten */
        if (out.file == NULL) {
                cli_error("%s: %s", name, strerror(errno));
                return CLI_FAILED;
        }
        if (out.file != stdout)
                fchmod(fileno(out.file), 0600);
        cli_format_when(when, sizeof(when), time(NULL));
        fprintf(out.file, "{\"millrace_config\": %d, \"exported\": \"%s\",\n\"entries\": [\n", FORMAT, when);
        status = write_entries(&out);
        if (status == CLI_OK)
                fputs("\n],\n\"buckets\": [\n", out.file);
        out.first = true;
        if (status == CLI_OK && mr_buckets(call->client, write_bucket, &out, &err) != 0)
                status = err.code != 0 && err.code != -ECANCELED ? cli_failed("buckets", &err) : CLI_FAILED;
        if (status == CLI_OK) /* what is cut off has no end, so that nobody takes it for whole */
                fputs("\n]}\n", out.file);
        if ((out.file == stdout ? fflush(stdout) : fclose(out.file)) != 0 && status == CLI_OK) {
                cli_error("%s: %s", name, strerror(errno));
                status = CLI_FAILED;
        }
        if (status == CLI_OK && out.file != stdout && !call->quiet)
                printf("%s: %llu entries, %llu buckets\n", name, (unsigned long long)out.entries,
                       (unsigned long long)out.buckets);
        if (status == CLI_OK && out.accounts > 0)
                cli_error("buckets are those of the first account: those of %llu others are not in the file",
                          (unsigned long long)out.accounts);
        return status;
}

/* ---- import ---------------------------------------------------------------------------------- */

struct config_import {
        struct cli_call *call;
        FILE *file;
        const char *name;
        bool only_look;
        json_t *batch; /* entries that wait to be sent together, */
        size_t batch_bytes; /* and what they take as JSON */
        json_t *fresh; /* names of the buckets that were made */
        uint64_t made, same, kept, failed, unopened;
};

/* Each item of one of the two lists. -EINVAL: the file is none that export has written. */
typedef void (*item_fn)(struct config_import *in, json_t *item);
static int each_item(struct config_import *in, const char *list, item_fn fn)
{
        char *line = NULL, head[32];
        size_t cap = 0, within = 0, seen = 0;
        bool version = false, whole = false;
        ssize_t len;
        int rv = 0;

        snprintf(head, sizeof(head), "\"%s\": [", list);
        rewind(in->file);
        while (rv == 0 && (len = getline(&line, &cap, in->file)) > 0) {
                while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == ','))
                        line[--len] = '\0';
                version |= strncmp(line, "{\"millrace_config\": 1,", 22) == 0 || strcmp(line, "{\"millrace_config\": 1") == 0;
                if (len > 0)
                        whole = strcmp(line, "]}") == 0;
                if (strcmp(line, head) == 0) {
                        within = 1;
                        seen = 1;
                } else if (line[0] == ']') {
                        within = 0;
                } else if (within && len > 0) {
                        json_t *item = json_loads(line, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);

                        if (item == NULL)
                                rv = -EINVAL;
                        else
                                fn(in, item);
                        json_decref(item);
                        if (mr_client_canceled(in->call->client))
                                rv = -ECANCELED;
                }
        }
        free(line);
        return rv == 0 && (!version || !seen || !whole || ferror(in->file)) ? -EINVAL : rv;
}

/* The first line of an entry says what it is. */
static void say_entry(const char *text, const char *what)
{
        char head[512], shown[512]; /* a file can have been made by anybody */

        snprintf(head, sizeof(head), "%.*s", (int)strcspn(text, "\n"), text);
        printf("%s: %s\n", what, cli_printable(stdout, head, shown, sizeof(shown)));
}

static void say_bucket(const char *bucket, const char *what)
{
        char shown[512];

        printf("%s: bucket %s\n", what, cli_printable(stdout, bucket, shown, sizeof(shown)));
}

/* What became of an entry, as the daemon says. */
static void entry_answered(struct config_import *in, const char *text, const json_t *answer)
{
        const char *result = cli_json_text(answer, "result");

        if (*result == '\0') {
                const char *why = cli_json_text(answer, "message");

                cli_error("%.*s: %s", (int)strcspn(text, "\n"), text, *why != '\0' ? why : cli_json_text(answer, "error"));
                in->failed++;
        } else if (strcmp(result, "differs") == 0) {
                say_entry(text, in->call->merge && !in->only_look ? "kept as it is here" : "differs from what is here");
                in->kept++;
        } else {
                in->made += strcmp(result, "new") == 0;
                in->same += strcmp(result, "same") == 0;
                in->unopened += !cli_json_true(answer, "opens");
        }
}

/* Sends one entry, or a list of them. NULL: it has been said why not. */
static json_t *send_entries(struct config_import *in, const char *body)
{
        const char *query[] = {"only", "look", NULL};
        struct mr_reply reply;
        struct mr_error err;
        json_t *answer;

        if (mr_admin_send(in->call->client, PEOPLE_PATH, in->only_look ? query : NULL, body, strlen(body), &reply, &err) != 0) {
                cli_failed(in->call->settings.admin, &err);
                return NULL;
        }
        answer = json_loadb(reply.body, reply.body_len, 0, NULL);
        mr_reply_free(&reply);
        return answer != NULL ? answer : json_object();
}

/*
 * The listener takes some 25,000 calls in a quarter of an hour (admin_auth.c): one for each entry would end an import
 * of a large store in the middle.
 */
static void import_batch(struct config_import *in)
{
        size_t count = json_array_size(in->batch);
        char *body = count > 0 ? json_dumps(in->batch, JSON_COMPACT) : NULL;
        json_t *answer = body != NULL ? send_entries(in, body) : NULL, *results = json_object_get(answer, "results");

        if (answer != NULL && json_array_size(results) != count) { /* all of it was refused */
                cli_error("%s: %s", in->call->settings.admin, cli_json_text(answer, "message"));
                results = NULL;
        }
        for (size_t i = 0; results != NULL && i < count; i++)
                entry_answered(in, json_string_value(json_array_get(in->batch, i)), json_array_get(results, i));
        if (results == NULL)
                in->failed += count;
        json_decref(answer);
        free(body);
        json_array_clear(in->batch);
        in->batch_bytes = 0;
}

static void import_alone(struct config_import *in, const char *text)
{
        json_t *answer = send_entries(in, text);

        if (answer != NULL)
                entry_answered(in, text, answer);
        else
                in->failed++;
        json_decref(answer);
}

static void import_entry(struct config_import *in, json_t *item)
{
        const char *text = json_string_value(item);
        size_t bytes = text != NULL ? json_dumpb(item, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY) + 1 : 0;

        if (bytes == 0) {
                in->failed++;
                return;
        }
        if (json_array_size(in->batch) == BATCH_ENTRIES || in->batch_bytes + bytes > BATCH_BYTES)
                import_batch(in);
        if (bytes > BATCH_BYTES) {
                import_alone(in, text);
                return;
        }
        json_array_append(in->batch, item);
        in->batch_bytes += bytes;
}

/* All of them, in the order of the file. As each_item(). */
static int import_entries(struct config_import *in)
{
        int rv;

        in->batch = json_array();
        in->batch_bytes = 0;
        rv = in->batch != NULL ? each_item(in, "entries", import_entry) : -ENOMEM;
        if (rv == 0)
                import_batch(in);
        json_decref(in->batch);
        in->batch = NULL;
        return rv;
}

/* id: of one of several; else NULL. */
static void store_document(struct config_import *in, const char *bucket, const char *name, const char *id, const char *text)
{
        const char *query[] = {"id", id, NULL};
        struct mr_sub_resource what = {.method = text != NULL ? "PUT" : "DELETE",
                                       .bucket = bucket,
                                       .name = name,
                                       .query = id != NULL ? query : NULL,
                                       .body = text,
                                       .len = text != NULL ? strlen(text) : 0};
        struct mr_error err;
        char about[512];

        if (mr_sub_resource(in->call->client, &what, NULL, &err) == 0)
                return;
        snprintf(about, sizeof(about), "%s: %s%s%s", bucket, name, id != NULL ? " " : "", id != NULL ? id : "");
        in->failed++;
        cli_failed(about, &err);
}

/* Whether it is there; *fine false: it could not be found out, which was said. */
static bool bucket_is_there(struct config_import *in, const char *bucket, bool *fine)
{
        struct mr_error err;
        int rv = mr_bucket_head(in->call->client, bucket, &err);

        *fine = rv == 0 || rv == -ENOENT;
        if (!*fine) {
                cli_failed(bucket, &err);
                in->failed++;
        }
        return rv == 0;
}

static const char *bucket_of(struct config_import *in, const json_t *item)
{
        const char *bucket = cli_json_text(item, "bucket");

        if (*bucket != '\0' && json_is_object(json_object_get(item, "documents")))
                return bucket;
        in->failed++;
        return NULL;
}

/* What is there, before anything is changed. */
static void look_at_bucket(struct config_import *in, json_t *item)
{
        const char *bucket = bucket_of(in, item);
        json_t *here;
        bool fine;

        if (bucket == NULL || !bucket_is_there(in, bucket, &fine)) {
                in->made += bucket != NULL && fine;
                return;
        }
        here = read_bucket(in->call, bucket);
        if (here == NULL) {
                in->failed++;
        } else if (json_equal(here, json_object_get(item, "documents"))) {
                in->same++;
        } else {
                say_bucket(bucket, "differs from what is here");
                in->kept++;
        }
        json_decref(here);
}

/* All buckets are there before one is named by another's document. */
static void make_bucket(struct config_import *in, json_t *item)
{
        const char *bucket = bucket_of(in, item);
        struct mr_error err;
        bool fine;

        if (bucket == NULL || bucket_is_there(in, bucket, &fine) || !fine)
                return;
        if (mr_bucket_create(in->call->client, bucket, &err) == 0) {
                json_object_set_new(in->fresh, bucket, json_true());
                in->made++;
        } else {
                cli_failed(bucket, &err);
                in->failed++;
        }
}

/* What a new bucket has without being asked. It may be in the way of what is to come. */
static void clear_new_bucket(struct config_import *in, const char *bucket, json_t *here)
{
        static const char *const given[] = {"publicAccessBlock", "ownershipControls"};

        for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
                if (json_object_get(here, given[i]) == NULL)
                        continue;
                store_document(in, bucket, given[i], NULL, NULL);
                json_object_del(here, given[i]);
        }
}

/* Each list's configurations that are not there; those of a name that is none of a list are passed over. */
static void make_configurations(struct config_import *in, const char *bucket, json_t *wanted, const json_t *here)
{
        const char *name;
        json_t *text;

        json_object_foreach(wanted, name, text)
                for (size_t i = 0; i < LISTS; i++) {
                        size_t len = strlen(lists[i].name);

                        if (strncmp(name, lists[i].name, len) == 0 && name[len] == ' ' && json_is_string(text) &&
                            json_object_get(here, name) == NULL)
                                store_document(in, bucket, lists[i].name, name + len + 1, json_string_value(text));
                }
}

/* Something is there that the file does not have so. */
static bool keeps_any(const json_t *wanted, json_t *here)
{
        const char *name;
        json_t *there;

        json_object_foreach(here, name, there)
                if (!json_equal(json_object_get(wanted, name), there))
                        return true;
        return false;
}

/* Documents that are not there; others stay. Of a bucket that was just made, what it came with goes. */
static void make_documents(struct config_import *in, json_t *item)
{
        const char *bucket = bucket_of(in, item), *text;
        json_t *wanted = json_object_get(item, "documents");
        json_t *here = bucket != NULL ? read_bucket(in->call, bucket) : NULL;

        if (here == NULL) {
                in->failed += bucket != NULL;
                return;
        }
        if (json_object_get(in->fresh, bucket) != NULL)
                clear_new_bucket(in, bucket, here);
        for (size_t i = 0; i < DOCUMENTS; i++) {
                text = json_string_value(json_object_get(wanted, documents[i]));
                if (text != NULL && json_object_get(here, documents[i]) == NULL)
                        store_document(in, bucket, documents[i], NULL, text);
        }
        make_configurations(in, bucket, wanted, here);
        if (keeps_any(wanted, here)) {
                say_bucket(bucket, "kept as it is here");
                in->kept++;
        }
        json_decref(here);
}

static int import_failed(const struct config_import *in, int rv)
{
        if (rv == -ECANCELED)
                cli_error("interrupted");
        else
                cli_error("%s: not a file that millrace admin config export has written", in->name);
        return CLI_FAILED;
}

/* True: nothing is in the way. */
static bool import_look(struct config_import *in, int *rv)
{
        in->only_look = true;
        *rv = import_entries(in);
        if (*rv == 0)
                *rv = each_item(in, "buckets", look_at_bucket);
        if (*rv != 0)
                return false;
        return in->failed == 0 && (in->kept == 0 || in->call->merge);
}

int cli_admin_config_import(struct cli_call *call)
{
        struct config_import look = {.call = call, .name = call->argv[0]}, in;
        int rv;

        look.file = fopen(look.name, "re");
        if (look.file == NULL) {
                cli_error("%s: %s", look.name, strerror(errno));
                return CLI_FAILED;
        }
        in = look;
        if (!import_look(&look, &rv)) {
                fclose(look.file);
                if (rv != 0)
                        return import_failed(&look, rv);
                cli_error("nothing was changed: %llu items differ from what is here, %llu cannot be taken; --merge keeps "
                          "what is here",
                          (unsigned long long)look.kept, (unsigned long long)look.failed);
                return CLI_FAILED;
        }
        in.fresh = json_object();
        rv = in.fresh != NULL ? import_entries(&in) : -ENOMEM;
        if (rv == 0)
                rv = each_item(&in, "buckets", make_bucket);
        if (rv == 0)
                rv = each_item(&in, "buckets", make_documents);
        fclose(in.file);
        json_decref(in.fresh);
        if (rv != 0)
                return import_failed(&in, rv);
        if (!call->quiet)
                printf("%llu made, %llu entries were there, %llu kept as they were, %llu failed\n",
                       (unsigned long long)in.made, (unsigned long long)in.same, (unsigned long long)in.kept,
                       (unsigned long long)in.failed);
        if (in.unopened > 0)
                cli_error("%llu secrets are sealed with a key that the daemon does not have: put it into its key file",
                          (unsigned long long)in.unopened);
        return in.failed == 0 && in.unopened == 0 ? CLI_OK : CLI_FAILED;
}
