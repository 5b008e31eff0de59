/*
 * command_admin_config.c - `millrace admin account` and `millrace admin config export`: accounts, and the configuration of a
 * store (people and buckets, without objects) as one file. Main thread only.
 *
 * The file is one JSON document with one item in a line, so that neither way holds more than an item in memory, but for
 * the names and ids of all entities where --merge compares them:
 * entries of the directory as the store keeps them, secrets sealed, and buckets with the documents beside them.
 * command_config_import.c reads it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "config_file.h"

#define ACCOUNTS_PATH "/admin/v1/accounts"
#define FORMAT        1
#define KIND_FIRST    128
#define KIND_LAST     143 /* kinds that this build does not know are taken along */
#define KIND_KEY      130

/* Who is named comes before whoever names it: accounts, policies, groups, then all others, and keys at last. */
static const int kinds_first[] = {128, 133, 131};

/* What the public access block would refuse is there before it. */
const char *const cli_config_documents[] = {"versioning", "object-lock",    "tagging",    "ownershipControls", "acl",
                                            "lifecycle",  "cors",           "website",    "logging",
                                            "requestPayment", "accelerate", "policy",     "publicAccessBlock", NULL};
const struct cli_config_list cli_config_lists[] = {{"inventory", "InventoryConfiguration"},
                                                   {"metrics", "MetricsConfiguration"},
                                                   {"analytics", "AnalyticsConfiguration"},
                                                   {"intelligent-tiering", "IntelligentTieringConfiguration"},
                                                   {NULL, NULL}};
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
                status = cli_admin_ask(call, "GET", CONFIG_PEOPLE_PATH, query, 200, 200, &page);
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

        while ((one = cut_element(&text, cli_config_lists[list].element, true)) != NULL) {
                at = one;
                id = cut_element(&at, "Id", false);
                if (id != NULL && snprintf(name, sizeof(name), "%s %s", cli_config_lists[list].name, id) < (int)sizeof(name))
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
                        .method = "GET", .bucket = bucket, .name = cli_config_lists[list].name, .query = token != NULL ? query : NULL};
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

json_t *cli_config_bucket(struct cli_call *call, const char *bucket)
{
        json_t *object = json_object(), *text;
        int status = object != NULL ? CLI_OK : CLI_FAILED;

        for (size_t i = 0; cli_config_documents[i] != NULL && status == CLI_OK; i++) {
                status = read_document(call, bucket, cli_config_documents[i], &text);
                if (text != NULL)
                        json_object_set_new(object, cli_config_documents[i], text);
        }
        for (size_t i = 0; cli_config_lists[i].name != NULL && status == CLI_OK; i++)
                status = read_list(call, bucket, i, object);
        if (status == CLI_OK)
                return object;
        json_decref(object);
        return NULL;
}

static int write_bucket(void *arg, const struct mr_bucket *bucket)
{
        struct config_file *out = arg;
        json_t *object = cli_config_bucket(out->call, bucket->name), *item;
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
