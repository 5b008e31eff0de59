/*
 * command_admin.c - `millrace admin …`: asks the daemon's admin listener, whose answers are JSON,
 * and shows them. Uploads go by S3 itself. Main thread only. What the daemon sends is data: members
 * that are missing or of another type read as empty.
 */
#include "command_admin.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define INFO_PATH   "/admin/v1/info"
#define VERIFY_PATH "/admin/v1/verify"

const char *cli_json_text(const json_t *object, const char *name)
{
        const char *text = json_string_value(json_object_get(object, name));

        return text != NULL ? text : "";
}

uint64_t cli_json_number(const json_t *object, const char *name)
{
        json_int_t number = json_integer_value(json_object_get(object, name));

        return number > 0 ? (uint64_t)number : 0;
}

bool cli_json_true(const json_t *object, const char *name)
{
        return json_is_true(json_object_get(object, name));
}

/*
 * The daemon says {"error": "..."} or {"message": "..."}, or S3's XML; the status says enough where
 * it says neither.
 */
static int admin_refused(const char *path, const struct mr_reply *reply)
{
        json_t *body = json_loadb(reply->body, reply->body_len, 0, NULL);
        const char *why = cli_json_text(body, "message");

        if (why[0] == '\0')
                why = cli_json_text(body, "error");
        if (why[0] == '\0' && reply->status == 403)
                why = "access denied: the admin listener takes root credentials only";
        cli_error("%s: HTTP %d%s%s", path, reply->status, why[0] != '\0' ? ": " : "", why);
        json_decref(body);
        return CLI_FAILED;
}

#define QUERY_MOST 16
#define LED_MOST_S 30 /* another node begins to lead within seconds */

/* The pool has no leader that serves now, so nothing was done; or it did not answer in time, and was only asked. */
static bool is_not_led(const char *method, const struct mr_reply *reply)
{
        json_t *body = reply->status == 503 ? json_loadb(reply->body, reply->body_len, 0, NULL) : NULL;
        const char *error = cli_json_text(body, "error");
        const bool is = strcmp(error, "NotLed") == 0 || (strcmp(error, "Unknown") == 0 && strcmp(method, "GET") == 0);

        json_decref(body);
        return is;
}

/* As mr_admin(); asks again while the pool has no leader, unless that is an answer that is wanted. */
static int ask_leader(struct cli_call *call, const char *method, const char *path, const char *const query[], bool wants_503, struct mr_reply *reply,
                      struct mr_error *err)
{
        static const struct timespec pause = {.tv_sec = 1};
        struct timespec begun, now;
        bool told = false;
        int rv;

        clock_gettime(CLOCK_MONOTONIC, &begun);
        for (;;) {
                rv = mr_admin(call->client, method, path, query, reply, err);
                if (rv != 0 || wants_503 || !is_not_led(method, reply) || mr_client_canceled(call->client))
                        return rv;
                clock_gettime(CLOCK_MONOTONIC, &now);
                if (now.tv_sec >= begun.tv_sec + LED_MOST_S)
                        return 0;
                if (!told && !call->quiet)
                        cli_error("the pool has no leader that answers now: waiting for one");
                told = true;
                mr_reply_free(reply);
                nanosleep(&pause, NULL);
        }
}

int cli_admin_ask(struct cli_call *call, const char *method, const char *path, const char *const query[], int wanted, int also_wanted,
                  json_t **out)
{
        const char *of_pool[QUERY_MOST + 3];
        struct mr_reply reply;
        struct mr_error err;
        json_error_t where;
        int status = CLI_OK, n = 0;

        *out = NULL;
        if (call->pool != NULL) {
                of_pool[n++] = "pool";
                of_pool[n++] = call->pool;
                for (int i = 0; query != NULL && i < QUERY_MOST && query[i] != NULL; i++)
                        of_pool[n++] = query[i];
                of_pool[n] = NULL;
                query = of_pool;
        }
        if (ask_leader(call, method, path, query, wanted == 503 || also_wanted == 503, &reply, &err) != 0)
                return cli_failed(call->settings.admin, &err);
        if (reply.status != wanted && reply.status != also_wanted) {
                status = admin_refused(path, &reply);
        } else {
                *out = json_loadb(reply.body, reply.body_len, 0, &where);
                if (*out == NULL && strcmp(method, "GET") == 0) {
                        cli_error("%s: the answer is not JSON: %s", path, where.text);
                        status = CLI_FAILED;
                }
        }
        mr_reply_free(&reply);
        return status;
}

void cli_json_print(const json_t *value)
{
        json_dumpf(value, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        putchar('\n');
}

/* ---- info ------------------------------------------------------------------------------------ */

/* "9 days": when it is full; "-": not as far as is known. */
static const char *full_in(const json_t *of, char *out, size_t size)
{
        unsigned long long minutes = cli_json_number(of, "full_in_seconds") / 60;

        if (!json_is_integer(json_object_get(of, "full_in_seconds")))
                snprintf(out, size, "-");
        else if (minutes >= 2 * 24 * 60)
                snprintf(out, size, "%llu days", minutes / (24 * 60));
        else if (minutes >= 2 * 60)
                snprintf(out, size, "%llu h", minutes / 60);
        else
                snprintf(out, size, "%llu min", minutes);
        return out;
}

static void show_drive(const json_t *drive)
{
        char total[24], full[24], left[24], log[24], data[24], index[24], path[1024], reason[256];
        const char *why = cli_json_text(drive, "reason"), *where = cli_json_text(drive, "path");

        if (where[0] == '\0') /* no folder holds it */
                where = cli_json_text(drive, "id");
        cli_format_bytes(total, sizeof(total), cli_json_number(drive, "total_bytes"));
        cli_format_bytes(left, sizeof(left), cli_json_number(drive, "free_bytes"));
        cli_format_bytes(log, sizeof(log), cli_json_number(drive, "log_bytes"));
        cli_format_bytes(data, sizeof(data), cli_json_number(drive, "data_bytes"));
        cli_format_bytes(index, sizeof(index), cli_json_number(drive, "index_bytes"));
        printf("  %-8s %10s %10s %10s %10s %10s %10s  %s%s%s\n", cli_json_text(drive, "state"), total, left,
               full_in(drive, full, sizeof(full)), log, data, index,
               cli_printable(stdout, where, path, sizeof(path)), why[0] != '\0' ? ": " : "",
               cli_printable(stdout, why, reason, sizeof(reason)));
}

/* True where nothing needs an operator. */
static bool show_info(const json_t *info)
{
        const json_t *drives = json_object_get(info, "drives"), *drive;
        bool ready = cli_json_true(info, "ready"), writable = cli_json_true(info, "writable"), all_in = true;
        bool frozen = cli_json_true(info, "lock_clock_frozen");
        const char *reason = cli_json_text(info, "reason"), *mode = "";
        char uptime[24];
        size_t i;

        cli_format_time(uptime, sizeof(uptime), (int64_t)cli_json_number(info, "uptime_s"));
        if (cli_json_true(info, "read_only"))
                mode = ", read-only";
        printf("store      %s\nversion    %s, up %s\nerasure    %s\nepoch      %llu\nbuckets    %llu\n"
               "state      %s, %s%s%s%s%s\n\n",
               cli_json_text(info, "store"), cli_json_text(info, "version"), uptime, cli_json_text(info, "ec"),
               (unsigned long long)cli_json_number(info, "epoch"), (unsigned long long)cli_json_number(info, "buckets"),
               ready ? "ready" : "NOT READY", writable ? "writable" : "NOT WRITABLE", mode,
               cli_json_true(info, "maintenance") ? ", in maintenance" : "", reason[0] != '\0' ? ": " : "",
               reason);
        if (frozen)
                printf("lock clock FROZEN: locks end late, see millrace admin lock-clock\n\n");
        if (json_is_integer(json_object_get(info, "full_in_seconds")))
                printf("full in    %s, at the pace of the last hours or days\n\n", full_in(info, uptime, sizeof(uptime)));
        printf("  %-8s %10s %10s %10s %10s %10s %10s  %s\n", "drive", "size", "free", "full in", "log", "data", "index", "folder");
        json_array_foreach(drives, i, drive)
        {
                show_drive(drive);
                all_in = all_in && strcmp(cli_json_text(drive, "state"), "in") == 0;
        }
        return ready && writable && all_in && !frozen;
}

int cli_admin_info(struct cli_call *call)
{
        json_t *info;
        int status = cli_admin_ask(call, "GET", INFO_PATH, NULL, 200, 200, &info);

        if (status != CLI_OK)
                return status;
        if (call->json)
                cli_json_print(info);
        else if (!show_info(info))
                status = CLI_FAILED;
        json_decref(info);
        return status;
}

/* ---- verify ---------------------------------------------------------------------------------- */

/*
 * Whether all is sound. json: the report is the one document on standard output; quiet: only what
 * is bad.
 */
static bool show_verify(const json_t *report, bool json, bool quiet)
{
        static const struct {
                const char *name, *text;
                bool bad;
        } rows[] = {
                {"objects", "objects read", false},         {"shards", "shards read", false},
                {"damaged_shards", "damaged shards", true}, {"repaired_shards", "of these repaired", false},
                {"missing_shards", "missing shards", true}, {"unreadable_objects", "unreadable objects", true},
                {"unread_shards", "shards not looked at", true},
                {"differing_names", "names that differed", true}, {"repaired_names", "of these made the same", false},
        };
        uint64_t ms = cli_json_number(report, "ended_ms") - cli_json_number(report, "started_ms");
        bool sound = true;
        char bytes[24];

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                uint64_t number = cli_json_number(report, rows[i].name);

                sound = sound && !(rows[i].bad && number > 0);
                if (!json && (!quiet || (rows[i].bad && number > 0)))
                        printf("%-20s %llu\n", rows[i].text, (unsigned long long)number);
        }
        if (json)
                cli_json_print(report);
        if (json || quiet)
                return sound;
        cli_format_bytes(bytes, sizeof(bytes), cli_json_number(report, "bytes"));
        cli_admin_show_digests(report);
        printf("%-20s %s in %.1f s\n%s\n", "bytes read", bytes, (double)ms / 1000,
               sound ? "Everything is sound." : "DAMAGE was found.");
        return sound;
}

/* A line of plain progress at most every `every` rounds, on a terminal over the one before. */
static void show_verify_progress(enum cli_progress_style style, const json_t *report, unsigned round)
{
        char bytes[24];

        if (style == CLI_PROGRESS_NONE || (style == CLI_PROGRESS_LINES && round % 5 != 0))
                return;
        cli_format_bytes(bytes, sizeof(bytes), cli_json_number(report, "bytes"));
        fprintf(stderr, "%s%llu objects, %s, %llu damaged%s", style == CLI_PROGRESS_BAR ? "\r" : "",
                (unsigned long long)cli_json_number(report, "objects"), bytes,
                (unsigned long long)cli_json_number(report, "damaged_shards"), style == CLI_PROGRESS_BAR ? "\033[K" : "\n");
}

/* Asks until it has ended. An exit status; the last report is the caller's. */
static int wait_for_verify(struct cli_call *call, json_t **out)
{
        static const struct timespec pause = {.tv_nsec = 200 * 1000 * 1000};
        enum cli_progress_style style = cli_progress_wanted(call);

        for (unsigned round = 0;; round++) {
                int status = cli_admin_ask(call, "GET", VERIFY_PATH, NULL, 200, 200, out);

                if (status != CLI_OK)
                        return status;
                show_verify_progress(style, *out, round);
                if (!cli_json_true(*out, "running"))
                        break;
                json_decref(*out);
                *out = NULL;
                nanosleep(&pause, NULL);
                if (mr_client_canceled(call->client)) {
                        cli_error("interrupted; the verification goes on");
                        return CLI_FAILED;
                }
        }
        if (style == CLI_PROGRESS_BAR)
                fputs("\r\033[K", stderr);
        return CLI_OK;
}

int cli_admin_verify(struct cli_call *call)
{
        json_t *report = NULL;
        int status = cli_admin_ask(call, "POST", VERIFY_PATH, NULL, 202, 409, &report);

        json_decref(report);
        if (status == CLI_OK)
                status = wait_for_verify(call, &report);
        if (status != CLI_OK)
                return status;
        if (!show_verify(report, call->json, call->quiet))
                status = CLI_FAILED;
        json_decref(report);
        return status;
}

/* ---- uploads --------------------------------------------------------------------------------- */

/* owner: the main thread */
struct upload_walk {
        struct cli_call *call;
        const char *bucket;
        uint64_t found;
        int status;
};

static bool old_enough(const struct cli_call *call, const struct mr_upload *upload)
{
        return call->older_hours == 0 || time(NULL) - upload->initiated_s > (int64_t)call->older_hours * 3600;
}

static int show_upload(void *arg, const struct mr_upload *upload)
{
        struct upload_walk *walk = arg;
        char when[32], name[CLI_KEY_MAX * 2];

        if (mr_client_canceled(walk->call->client))
                return -ECANCELED;
        if (!old_enough(walk->call, upload))
                return 0;
        cli_format_when(when, sizeof(when), upload->initiated_s);
        printf("%s  %s  s3://%s/%s\n", when, upload->upload_id, walk->bucket,
               cli_printable(stdout, upload->key, name, sizeof(name)));
        return 0;
}

static int abort_one(struct upload_walk *walk, const char *key, const char *upload_id)
{
        struct mr_error err;
        char name[CLI_KEY_MAX * 2];

        walk->found++;
        if (mr_upload_abort(walk->call->client, walk->bucket, key, upload_id, &err) != 0) {
                walk->status = cli_failed(key, &err);
                return walk->status;
        }
        if (!walk->call->quiet)
                printf("aborted %s  s3://%s/%s\n", upload_id, walk->bucket,
                       cli_printable(stdout, key, name, sizeof(name)));
        return CLI_OK;
}

static int abort_found(void *arg, const struct mr_upload *upload)
{
        struct upload_walk *walk = arg;

        if (mr_client_canceled(walk->call->client))
                return -ECANCELED;
        if (old_enough(walk->call, upload))
                abort_one(walk, upload->key, upload->upload_id);
        return 0;
}

static int walk_uploads(struct cli_call *call, mr_upload_fn each)
{
        struct upload_walk walk = {.call = call};
        struct cli_path path;
        struct mr_error err;
        int rv = cli_path_arg(call, call->argv[0], false, &path);

        if (rv != 0)
                return rv;
        walk.bucket = path.bucket;
        rv = mr_uploads(call->client, path.bucket, path.key, each, &walk, &err);
        if (rv != 0 && err.code != 0)
                return cli_failed(call->argv[0], &err);
        return rv != 0 ? CLI_FAILED : walk.status;
}

int cli_admin_uploads_ls(struct cli_call *call)
{
        return walk_uploads(call, show_upload);
}

int cli_admin_uploads_abort(struct cli_call *call)
{
        struct upload_walk walk = {.call = call};
        struct cli_path path;
        int rv;

        if (call->recursive != (call->argc == 1))
                return cli_usage(call, call->recursive ? "-r takes no upload id" : "no upload id (or -r)");
        if (call->recursive)
                return walk_uploads(call, abort_found);
        rv = cli_path_arg(call, call->argv[0], true, &path);
        if (rv != 0)
                return rv;
        walk.bucket = path.bucket;
        return abort_one(&walk, path.key, call->argv[1]);
}
