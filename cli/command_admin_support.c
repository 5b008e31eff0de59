/*
 * command_admin_support.c - `millrace admin support-bundle`: what somebody needs who is to find out
 * from afar what ails a store, in one file. Main thread only.
 *
 * Each part is an answer of the admin listener as it came. None of them has secrets, names of
 * objects or data; should the secret key that this program signs with stand in one nevertheless, it
 * is taken out before anything is written.
 */
#include "command_admin.h"
#include "archive.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define NAME_MAX_BYTES 64u

struct support_part {
        const char *name, *path;
};

static const struct support_part parts[] = {
        {"support.json", "/admin/v1/support"}, {"info.json", "/admin/v1/info"},     {"drives.json", "/admin/v1/drives"},
        {"heal.json", "/admin/v1/heal"},       {"scrub.json", "/admin/v1/scrub"},   {"verify.json", "/admin/v1/verify"},
        {"trace.json", "/admin/v1/trace"},     {"lock-clock.json", "/admin/v1/lock-clock"},
        {"ready.json", "/health/ready"},       {"live.json", "/health/live"},       {"metrics.txt", "/metrics"},
};
/* Of each pool of a cluster, as its leader has them. */
static const struct support_part pool_parts[] = {
        {"info.json", "/admin/v1/info"},   {"drives.json", "/admin/v1/drives"}, {"heal.json", "/admin/v1/heal"},
        {"scrub.json", "/admin/v1/scrub"}, {"verify.json", "/admin/v1/verify"}, {"metrics.txt", "/metrics/pool"},
};

static void support_remove_secret(char *text, size_t len, const char *secret)
{
        size_t secret_len = strlen(secret);
        char *at = text;

        while (secret_len > 0 && (at = memmem(at, len - (size_t)(at - text), secret, secret_len)) != NULL)
                memset(at, '*', secret_len);
}

static int support_add_reply(const struct cli_call *call, struct cli_archive *archive, const char *name, const char *path, struct mr_reply *reply,
                             json_t *contents)
{
        support_remove_secret(reply->body, reply->body_len, call->settings.secret_key);
        json_array_append_new(contents, json_pack("{s:s, s:s, s:i}", "name", name, "path", path, "status", reply->status));
        return cli_archive_add(archive, name, reply->body, reply->body_len) == 0 ? CLI_OK : CLI_FAILED; /* writing says it */
}

/* Takes one part in; what it came to stands in the list of contents. query: as mr_admin()'s. An exit status. */
static int support_add_part(struct cli_call *call, struct cli_archive *archive, const char *name, const char *path, const char *const *query,
                            json_t *contents)
{
        struct mr_reply reply;
        struct mr_error err;
        int status;

        if (mr_admin(call->client, "GET", path, query, &reply, &err) != 0) {
                json_array_append_new(contents, json_pack("{s:s, s:s}", "name", name, "missing", err.message));
                return cli_failed(path, &err);
        }
        status = support_add_reply(call, archive, name, path, &reply, contents);
        if (reply.status == 403 || reply.status == 404) {
                cli_error("%s: HTTP %d", path, reply.status);
                status = CLI_FAILED;
        }
        mr_reply_free(&reply);
        return status;
}

static int support_add_pool(struct cli_call *call, struct cli_archive *archive, unsigned long long pool, json_t *contents)
{
        char name[NAME_MAX_BYTES], number[24];
        const char *const query[] = {"pool", number, NULL};
        int status = CLI_OK;

        snprintf(number, sizeof(number), "%llu", pool);

        for (size_t i = 0; i < sizeof(pool_parts) / sizeof(pool_parts[0]); i++) {
                snprintf(name, sizeof(name), "pool-%llu-%s", pool, pool_parts[i].name);
                if (support_add_part(call, archive, name, pool_parts[i].path, query, contents) != CLI_OK)
                        status = CLI_FAILED;
        }
        return status;
}

/* What only a cluster has: its nodes, and each of its pools. A store of one machine answers 404. */
static int support_add_cluster(struct cli_call *call, struct cli_archive *archive, json_t *contents)
{
        static const char path[] = "/admin/v1/cluster";
        struct mr_reply reply;
        struct mr_error err;
        json_t *answer, *pool;
        int status = CLI_OK;
        size_t i;

        if (mr_admin(call->client, "GET", path, NULL, &reply, &err) != 0)
                return CLI_FAILED; /* as for the other parts, which said so */
        answer = reply.status == 404 ? NULL : json_loadb(reply.body, reply.body_len, 0, NULL);
        if (reply.status != 404)
                status = support_add_reply(call, archive, "cluster.json", path, &reply, contents);
        if (reply.status != 404 && support_add_part(call, archive, "nodes.json", "/admin/v1/nodes", NULL, contents) != CLI_OK)
                status = CLI_FAILED;
        json_array_foreach(json_object_get(answer, "pools"), i, pool)
                if (support_add_pool(call, archive, cli_json_number(pool, "number"), contents) != CLI_OK)
                        status = CLI_FAILED;
        json_decref(answer);
        mr_reply_free(&reply);
        return status;
}

static int take_contents(const struct cli_call *call, struct cli_archive *archive, const char *when, json_t *contents)
{
        json_t *json = json_pack("{s:s, s:s, s:s, s:O}", "made", when, "client", MILLRACE_VERSION, "admin", call->settings.admin,
                                 "parts", contents);
        char *text = json != NULL ? json_dumps(json, JSON_INDENT(2)) : NULL;
        int rv = text != NULL ? cli_archive_add(archive, "contents.json", text, strlen(text)) : -ENOMEM;

        free(text);
        json_decref(json);
        return rv;
}

static int make_bundle(struct cli_call *call, const char *folder, const char *when, const char *path)
{
        struct cli_archive *archive = cli_archive_new(folder, time(NULL));
        json_t *contents = json_array();
        int status = CLI_OK, rv = archive != NULL && contents != NULL ? 0 : -ENOMEM;

        for (size_t i = 0; rv == 0 && i < sizeof(parts) / sizeof(parts[0]); i++)
                if (support_add_part(call, archive, parts[i].name, parts[i].path, NULL, contents) != CLI_OK)
                        status = CLI_FAILED;
        if (rv == 0 && support_add_cluster(call, archive, contents) != CLI_OK)
                status = CLI_FAILED;
        if (rv == 0)
                rv = take_contents(call, archive, when, contents);
        if (rv == 0)
                rv = cli_archive_write(archive, path);
        if (rv != 0) {
                cli_error("%s: %s", path, strerror(-rv));
                status = CLI_FAILED;
        } else if (!call->quiet) {
                printf("%s\n", path);
        }
        json_decref(contents);
        cli_archive_free(archive);
        return status;
}

int cli_admin_support_bundle(struct cli_call *call)
{
        char folder[NAME_MAX_BYTES], file[NAME_MAX_BYTES + 8], when[NAME_MAX_BYTES];
        time_t now = time(NULL);
        struct tm utc;

        gmtime_r(&now, &utc);
        strftime(folder, sizeof(folder), "millrace-support-%Y%m%dT%H%M%SZ", &utc);
        strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &utc);
        snprintf(file, sizeof(file), "%s.tar.gz", folder);
        return make_bundle(call, folder, when, call->argc > 0 ? call->argv[0] : file);
}
