/*
 * command_config_import.c - `millrace admin config import`: makes a store again from a file that export has written, one
 * item in a line. Main thread only.
 *
 * The file is read several times: what is there is looked at before anything is changed. Entries go to the admin
 * listener in lists, since it takes a bounded number of calls in a quarter of an hour (server/admin_auth.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config_file.h"

#define BATCH_ENTRIES 100u         /* of one call, as the listener takes them */
#define BATCH_BYTES   (240u << 10) /* its bodies have 256 KiB at most; a longer entry goes alone, as it is */

struct config_import {
        struct cli_call *call;
        FILE *file;
        const char *name;
        bool only_look;
        json_t *batch;      /* entries that wait to be sent together, */
        size_t batch_bytes; /* and what they take as JSON */
        json_t *fresh;      /* names of the buckets that were made */
        struct config_names names; /* with --merge */
        uint64_t made, same, kept, left_out, failed, unopened;
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
                version |= strncmp(line, "{\"millrace_config\": 1,", 22) == 0 ||
                           strcmp(line, "{\"millrace_config\": 1") == 0;
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

/* Behind the line that says whom the entry means, where there is one. */
static const char *sent_entry(const char *sent)
{
        return *sent == '{' ? strchr(sent, '\n') + 1 : sent;
}

/* who: the name that is somebody else's here; NULL: it has become so since it was looked at. */
static void leave_out(struct config_import *in, const char *what, size_t len, const char *who)
{
        char line[1024], shown[1024];

        snprintf(line, sizeof(line), "%.*s names %s", (int)(len < 480 ? len : 480), what, who != NULL ? who : "somebody");
        printf("left out: %s, who is somebody else here\n", cli_printable(stdout, line, shown, sizeof(shown)));
        in->left_out++;
}

static void leave_out_entry(struct config_import *in, const char *text)
{
        json_t *named = cli_names_of_entry(&in->names, text);

        leave_out(in, text, strcspn(text, "\n"), cli_names_who_is_other(&in->names, named));
        json_decref(named);
}

/* With --merge an id that somebody has is in nobody's way: that entry fails when its turn comes. */
static bool answer_can_wait(const struct config_import *in, const json_t *answer)
{
        return in->only_look && in->call->merge && strcmp(cli_json_text(answer, "error"), "EntityAlreadyExists") == 0;
}

/* What became of an entry, as the daemon says. */
static void entry_answered(struct config_import *in, const char *sent, const json_t *answer)
{
        const char *result = cli_json_text(answer, "result"), *text = sent_entry(sent);

        if (answer_can_wait(in, answer))
                return;
        if (in->call->merge && cli_json_true(answer, "another"))
                cli_names_other(&in->names, text);
        if (strcmp(cli_json_text(answer, "error"), "NameOfAnother") == 0) {
                leave_out_entry(in, text);
        } else if (*result == '\0') {
                const char *why = cli_json_text(answer, "message");

                cli_error("%.*s: %s", (int)strcspn(text, "\n"), text,
                          *why != '\0' ? why : cli_json_text(answer, "error"));
                in->failed++;
        } else if (strcmp(result, "differs") == 0) {
                say_entry(text, !in->call->merge || in->only_look       ? "differs from what is here"
                                : cli_json_true(answer, "another") ? "kept as it is here, somebody else"
                                                                   : "kept as it is here");
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

        if (mr_admin_send(in->call->client, CONFIG_PEOPLE_PATH, in->only_look ? query : NULL, body, strlen(body),
                          &reply, &err) != 0) {
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

/* What is sent of an entry: with --merge, whom it means stands in front. The caller's; NULL: it is none. */
static json_t *entry_to_send(struct config_import *in, json_t *item)
{
        const char *text = json_string_value(item);
        json_t *named, *sent = NULL;
        char *line;

        if (text == NULL || *text == '{') /* no entry begins so */
                return NULL;
        if (!in->call->merge || in->only_look)
                return json_incref(item);
        named = cli_names_of_entry(&in->names, text);
        line = named != NULL ? json_dumps(named, JSON_COMPACT) : NULL;
        if (line != NULL)
                sent = json_object_size(named) > 0 ? json_sprintf("%s\n%s", line, text) : json_incref(item);
        free(line);
        json_decref(named);
        return sent;
}

static void import_sent(struct config_import *in, json_t *sent)
{
        size_t bytes = json_dumpb(sent, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY) + 1;

        if (json_array_size(in->batch) == BATCH_ENTRIES || in->batch_bytes + bytes > BATCH_BYTES)
                import_batch(in);
        if (bytes > BATCH_BYTES) {
                import_alone(in, json_string_value(sent));
                return;
        }
        json_array_append(in->batch, sent);
        in->batch_bytes += bytes;
}

static void import_entry(struct config_import *in, json_t *item)
{
        json_t *sent = entry_to_send(in, item);

        if (sent != NULL)
                import_sent(in, sent);
        else
                in->failed++;
        json_decref(sent);
}

/* Whom the file has, before anything is asked. */
static void note_entry(struct config_import *in, json_t *item)
{
        if (json_is_string(item))
                cli_names_note(&in->names, json_string_value(item));
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
static void store_document(struct config_import *in, const char *bucket, const char *name, const char *id,
                           const char *text)
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
        here = cli_config_bucket(in->call, bucket);
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

        json_object_foreach(wanted, name, text) for (size_t i = 0; cli_config_lists[i].name != NULL; i++)
        {
                size_t len = strlen(cli_config_lists[i].name);

                if (strncmp(name, cli_config_lists[i].name, len) == 0 && name[len] == ' ' && json_is_string(text) &&
                    json_object_get(here, name) == NULL)
                        store_document(in, bucket, cli_config_lists[i].name, name + len + 1, json_string_value(text));
        }
}

/* Something is there that the file does not have so. */
static bool keeps_any(const json_t *wanted, json_t *here)
{
        const char *name;
        json_t *there;

        json_object_foreach(here, name, there) if (!json_equal(json_object_get(wanted, name), there)) return true;
        return false;
}

/* A bucket's policy would be bound to whoever has its names here. */
static bool leaves_out_policy(struct config_import *in, const char *bucket, const char *name, const char *text)
{
        bool policy = in->call->merge && strcmp(name, "policy") == 0;
        json_t *named = policy ? cli_names_of_policy(&in->names, text) : NULL;
        const char *who = cli_names_who_is_other(&in->names, named);
        char what[128];

        snprintf(what, sizeof(what), "policy of bucket %s", bucket);
        if (who != NULL)
                leave_out(in, what, strlen(what), who);
        json_decref(named);
        return who != NULL;
}

/* Documents that are not there; others stay. Of a bucket that was just made, what it came with goes. */
static void make_documents(struct config_import *in, json_t *item)
{
        const char *bucket = bucket_of(in, item), *text;
        json_t *wanted = json_object_get(item, "documents");
        json_t *here = bucket != NULL ? cli_config_bucket(in->call, bucket) : NULL;

        if (here == NULL) {
                in->failed += bucket != NULL;
                return;
        }
        if (json_object_get(in->fresh, bucket) != NULL)
                clear_new_bucket(in, bucket, here);
        for (size_t i = 0; cli_config_documents[i] != NULL; i++) {
                text = json_string_value(json_object_get(wanted, cli_config_documents[i]));
                if (text != NULL && json_object_get(here, cli_config_documents[i]) == NULL &&
                    !leaves_out_policy(in, bucket, cli_config_documents[i], text))
                        store_document(in, bucket, cli_config_documents[i], NULL, text);
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
        *rv = in->call->merge ? each_item(in, "entries", note_entry) : 0;
        if (*rv == 0)
                *rv = import_entries(in);
        if (*rv == 0)
                *rv = each_item(in, "buckets", look_at_bucket);
        if (*rv != 0)
                return false;
        return in->failed == 0 && (in->kept == 0 || in->call->merge);
}

/* An exit status. */
static int import_report(const struct config_import *in)
{
        if (!in->call->quiet) {
                printf("%llu made, %llu entries were there, %llu kept as they were, ", (unsigned long long)in->made,
                       (unsigned long long)in->same, (unsigned long long)in->kept);
                if (in->left_out > 0)
                        printf("%llu left out, ", (unsigned long long)in->left_out);
                printf("%llu failed\n", (unsigned long long)in->failed);
        }
        if (in->unopened > 0)
                cli_error("%llu secrets are sealed with a key that the daemon does not have: put it into its key file",
                          (unsigned long long)in->unopened);
        return in->failed == 0 && in->left_out == 0 && in->unopened == 0 ? CLI_OK : CLI_FAILED;
}

/* An exit status. */
static int import_file(struct config_import *look)
{
        struct config_import in = *look;
        int rv;

        if (!import_look(look, &rv)) {
                if (rv != 0)
                        return import_failed(look, rv);
                cli_error(
                        "nothing was changed: %llu items differ from what is here, %llu cannot be taken; --merge keeps "
                        "what is here",
                        (unsigned long long)look->kept, (unsigned long long)look->failed);
                return CLI_FAILED;
        }
        in.fresh = json_object();
        rv = in.fresh != NULL ? import_entries(&in) : -ENOMEM;
        if (rv == 0)
                rv = each_item(&in, "buckets", make_bucket);
        if (rv == 0)
                rv = each_item(&in, "buckets", make_documents);
        json_decref(in.fresh);
        return rv != 0 ? import_failed(&in, rv) : import_report(&in);
}

int cli_admin_config_import(struct cli_call *call)
{
        struct config_import in = {.call = call, .name = call->argv[0]};
        int status = CLI_FAILED;

        in.file = fopen(in.name, "re");
        if (in.file == NULL) {
                cli_error("%s: %s", in.name, strerror(errno));
                return CLI_FAILED;
        }
        if (cli_names_begin(&in.names))
                status = import_file(&in);
        else
                cli_error("%s", strerror(ENOMEM));
        cli_names_end(&in.names);
        fclose(in.file);
        return status;
}
