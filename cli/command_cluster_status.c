/*
 * command_cluster_status.c - `millrace admin cluster status`: asks one node, which asks the pools' leaders, and shows all
 * answers. Main thread only.
 *
 * What is amiss is gathered while the tables are printed, and comes last, a line each: those lines decide the exit status.
 */
#include "command_admin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CLUSTER_PATH "/admin/v1/cluster"
#define AMISS_MAX    32u
#define AMISS_LINE   256u
#define NO_ANSWER    2
#define SKEW_MS      1000 /* of clocks, worth a line */

/* What is not as it should be; out: where the rest is shown; count: of lines, those for which there was no room included. */
struct amiss {
        FILE *out;
        unsigned count;
        char lines[AMISS_MAX][AMISS_LINE];
};

static void amiss_add(struct amiss *amiss, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void amiss_add(struct amiss *amiss, const char *format, ...)
{
        va_list args;

        if (amiss->count++ >= AMISS_MAX)
                return;
        va_start(args, format);
        vsnprintf(amiss->lines[amiss->count - 1], AMISS_LINE, format, args);
        va_end(args);
}

static json_int_t signed_number(const json_t *object, const char *name)
{
        return json_integer_value(json_object_get(object, name));
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* What a pool's leader knows of a node at first hand. NULL: nothing. */
static const json_t *reached_by_leader(const json_t *pool, const json_t *node)
{
        const json_t *others = json_object_get(json_object_get(pool, "pool"), "nodes"), *other, *reached;
        size_t i;

        json_array_foreach(others, i, other)
        {
                reached = json_object_get(other, "reached");
                if (signed_number(other, "number") == signed_number(node, "number") && json_object_size(reached) > 0)
                        return reached;
        }
        return NULL;
}

/* Some leader's word of whether it reaches a node, else that of the node that was asked. by: whose it is. */
static const json_t *node_reached(const json_t *answer, const json_t *node, const char **by)
{
        const json_t *pools = json_object_get(answer, "pools"), *pool, *reached;
        size_t i;

        json_array_foreach(pools, i, pool)
        {
                reached = reached_by_leader(pool, node);
                if (reached == NULL)
                        continue;
                *by = cli_json_text(json_object_get(pool, "pool"), "name");
                return reached;
        }
        *by = cli_json_text(answer, "node");
        return json_object_get(node, "reached");
}

/* Of all drives of a node. */
struct drive_count {
        unsigned in, all;
};

static struct drive_count count_drives(const json_t *answer, json_int_t node)
{
        const json_t *pools = json_object_get(answer, "pools"), *pool, *drive;
        struct drive_count count = {0, 0};
        size_t i, j;

        json_array_foreach(pools, i, pool)
        {
                json_array_foreach(json_object_get(json_object_get(pool, "pool"), "drives"), j, drive)
                {
                        if (signed_number(drive, "node") != node || strcmp(cli_json_text(drive, "state"), "removed") == 0)
                                continue;
                        count.all++;
                        count.in += strcmp(cli_json_text(drive, "state"), "in") == 0;
                }
        }
        return count;
}

/* "  leads"; of several pools, "  leads 1, 3". */
static const char *node_leads(const json_t *answer, json_int_t node, char *out, size_t size)
{
        const json_t *pools = json_object_get(answer, "pools"), *pool;
        const char *before = "  leads ";
        size_t i;

        *out = '\0';
        json_array_foreach(pools, i, pool)
        {
                if (signed_number(pool, "leader") != node)
                        continue;
                if (json_array_size(pools) == 1)
                        snprintf(out, size, "  leads");
                else
                        snprintf(out + strlen(out), size - strlen(out), "%s%lld", before, (long long)signed_number(pool, "number"));
                before = ", ";
        }
        return out;
}

/* "up", "silent 12 s". */
static const char *node_state(const json_t *reached, bool asked, char *out, size_t size)
{
        if (asked || json_object_size(reached) == 0 || cli_json_true(reached, "up"))
                snprintf(out, size, "up");
        else if (json_is_integer(json_object_get(reached, "heard_ms_ago")))
                snprintf(out, size, "silent %llu s", (unsigned long long)cli_json_number(reached, "heard_ms_ago") / 1000);
        else
                snprintf(out, size, "silent");
        return out;
}

/* By the clock of the node that was asked, where that knows; *by is changed to it then. */
static const char *node_clock(const json_t *answer, const json_t *node, const json_t *reached, char *out, size_t size, json_int_t *ahead, const char **by)
{
        const json_t *known = json_object_get(json_object_get(node, "reached"), "clock_ahead_ms");

        if (json_is_integer(known))
                *by = cli_json_text(answer, "node");
        else
                known = json_object_get(reached, "clock_ahead_ms");
        *ahead = json_integer_value(known);
        if (json_is_integer(known) && llabs(*ahead) < 50)
                snprintf(out, size, "+0.0 s");
        else if (json_is_integer(known))
                snprintf(out, size, "%+.1f s", (double)*ahead / 1000);
        else
                snprintf(out, size, "-");
        return out;
}

/* Each pool's leader has said which drives it has. */
static bool all_answered(const json_t *answer)
{
        const json_t *pools = json_object_get(answer, "pools"), *pool;
        size_t i;

        json_array_foreach(pools, i, pool)
        {
                if (json_array_size(json_object_get(json_object_get(pool, "pool"), "drives")) == 0)
                        return false;
        }
        return json_array_size(pools) > 0;
}

/* As the node that was asked compares them with its own, or else some leader. */
static void show_secrets(const json_t *answer, const json_t *node, const json_t *reached, const char *by, struct amiss *amiss)
{
        const char *own = cli_json_text(json_object_get(node, "reached"), "secrets_differ"), *differ = *own != '\0' ? own : cli_json_text(reached, "secrets_differ"),
                   *whose = *own != '\0' ? cli_json_text(answer, "node") : by, *name = cli_json_text(node, "name");

        if (strcmp(differ, "first-key") == 0)
                amiss_add(amiss, "node %s: it seals with another key of key_file than %s: finish the change of keys", name, whose);
        else if (strcmp(differ, "root-credentials") == 0)
                amiss_add(amiss, "node %s: its root credentials are not those of %s: what clients sign with one is refused at the other", name, whose);
        else if (*differ != '\0')
                amiss_add(amiss, "node %s: its secrets are not those of %s: one cannot open what the other seals (key_file)", name, whose);
}

static void show_node(const json_t *answer, const json_t *node, struct amiss *amiss)
{
        const char *by, *clock_by;
        const json_t *reached = node_reached(answer, node, &by);
        struct drive_count drives = count_drives(answer, signed_number(node, "number"));
        const char *name = cli_json_text(node, "name"), *version = cli_json_text(node, "version"), *refused;
        char state[40], clock[24], count[24], leads[100];
        json_int_t ahead;

        node_state(reached, cli_json_true(node, "asked"), state, sizeof(state));
        clock_by = by;
        node_clock(answer, node, reached, clock, sizeof(clock), &ahead, &clock_by);
        snprintf(count, sizeof(count), "%u of %u", drives.in, drives.all);
        fprintf(amiss->out, "  %-20s %6lld %5lld  %-12s %-9s %9s  %-10s %s%s\n", name, (long long)signed_number(node, "number"), (long long)signed_number(node, "rack"), state, count,
               clock, version, cli_json_text(node, "address"), node_leads(answer, signed_number(node, "number"), leads, sizeof(leads)));
        if (strcmp(state, "up") != 0)
                amiss_add(amiss, "node %s is silent: is millraced running there, and can the other nodes reach %s?", name, cli_json_text(node, "address"));
        refused = cli_json_text(reached, "refused");
        if (*refused != '\0')
                amiss_add(amiss, "node %s refuses connections: %s", name, refused);
        if (llabs(ahead) > SKEW_MS)
                amiss_add(amiss, "the clock of node %s is %+.1f s from that of %s: let a time service set them", name, (double)ahead / 1000, clock_by);
        show_secrets(answer, node, reached, by, amiss);
        if (*version != '\0' && strcmp(version, cli_json_text(answer, "version")) != 0)
                amiss_add(amiss, "node %s runs version %s, and %s %s", name, version, cli_json_text(answer, "node"), cli_json_text(answer, "version"));
        if (signed_number(node, "empty_folders") > 0 && drives.all == 0 && all_answered(answer))
                amiss_add(amiss, "node %s has %lld empty folders, and no drive in the pool", name, (long long)signed_number(node, "empty_folders"));
}

/* ---- the pool -------------------------------------------------------------------------------- */

static const char *name_of(const json_t *answer, json_int_t number)
{
        const json_t *nodes = json_object_get(answer, "nodes"), *node;
        size_t i;

        json_array_foreach(nodes, i, node)
        {
                if (signed_number(node, "number") == number)
                        return cli_json_text(node, "name");
        }
        return "?";
}

/* "120 of about 600 names compared, 30 copied, 40 names/s, done in 0:12". */
static const char *catch_up_text(const json_t *drive, char *out, size_t size)
{
        const json_t *progress = json_object_get(drive, "catch_up");
        unsigned long long total = cli_json_number(progress, "total"), seconds = cli_json_number(progress, "seconds_left");
        char of[40] = "", left[24] = "";

        if (total > 0)
                snprintf(of, sizeof(of), " of about %llu", total);
        if (seconds > 0)
                cli_format_time(left, sizeof(left), (int64_t)seconds);
        snprintf(out, size, "%llu%s names compared, %llu copied, %llu names/s%s%s", (unsigned long long)cli_json_number(progress, "compared"), of,
                 (unsigned long long)cli_json_number(progress, "copied"), (unsigned long long)cli_json_number(progress, "rate"), seconds > 0 ? ", done in " : "", left);
        return out;
}

/* Why a drive is not in, or how far it is on its way. */
static const char *drive_reason(const json_t *drive, char *out, size_t size)
{
        if (json_is_object(json_object_get(drive, "catch_up")) && strcmp(cli_json_text(drive, "state"), "joining") == 0)
                return catch_up_text(drive, out, size);
        return cli_printable(stdout, cli_json_text(drive, "reason"), out, size);
}

/* A drive that counts already, and to which groups come. */
static void show_gains(const json_t *answer, const json_t *pool, FILE *out)
{
        const json_t *drives = json_object_get(pool, "drives"), *drive;
        char text[160];
        size_t i;

        json_array_foreach(drives, i, drive)
        {
                if (json_is_object(json_object_get(drive, "catch_up")) && strcmp(cli_json_text(drive, "state"), "joining") != 0)
                        fprintf(out, "moving     groups to slot %lld, of node %s: %s\n", (long long)signed_number(drive, "slot"), name_of(answer, signed_number(drive, "node")),
                                catch_up_text(drive, text, sizeof(text)));
        }
}

/* of: "", or which pool. */
static void show_pool_drives(const json_t *answer, const json_t *pool, const char *of, struct amiss *amiss)
{
        const json_t *drives = json_object_get(pool, "drives"), *drive;
        char reason[256];
        size_t i;

        json_array_foreach(drives, i, drive)
        {
                const char *state = cli_json_text(drive, "state"), *doing = "";

                doing = cli_json_true(drive, "leaving") ? ", being emptied" : cli_json_true(drive, "filling") || cli_json_true(drive, "adding") ? ", being filled" : "";
                if (strcmp(state, "removed") == 0 || (strcmp(state, "in") == 0 && *doing == '\0' && !cli_json_true(drive, "unreliable")))
                        continue;
                drive_reason(drive, reason, sizeof(reason));
                amiss_add(amiss, "%sslot %lld, of node %s, is %s%s%s%s%s", of, (long long)signed_number(drive, "slot"), name_of(answer, signed_number(drive, "node")), state, doing,
                          cli_json_true(drive, "unreliable") ? ", unreliable" : "", *reason != '\0' ? ": " : "", reason);
        }
}

/* The node that all drives of the pool are of; 0: there are several, or none. */
static json_int_t only_node(const json_t *pool)
{
        const json_t *drives = json_object_get(pool, "drives"), *drive;
        json_int_t node = 0;
        size_t i;

        json_array_foreach(drives, i, drive)
        {
                if (strcmp(cli_json_text(drive, "state"), "removed") == 0)
                        continue;
                if (node != 0 && node != signed_number(drive, "node"))
                        return 0;
                node = signed_number(drive, "node");
        }
        return node;
}

/* What the loss of a node would take, beyond what the code is for. */
static void show_spread(const json_t *answer, const json_t *pool, struct amiss *amiss)
{
        unsigned long long close = cli_json_number(json_object_get(pool, "heal"), "too_close");
        json_int_t node = only_node(pool);

        if (node != 0)
                fprintf(amiss->out, "spread     the pool lies on node %s alone: while that is away, so is all of it (millrace admin cluster node add)\n", name_of(answer, node));
        else if (close > 0)
                fprintf(amiss->out, "spread     %llu shards lie on nodes that hold more of their object than may be lost with a node\n", close);
}

/* "15 objects lack shards: 12 lack 1, 3 lack 2". A leader of an older build says no more than how many they are. */
static const char *lacking_text(const json_t *pool, char *out, size_t size)
{
        const json_t *lacking = json_object_get(pool, "objects_lacking"), *objects;
        unsigned long long below = cli_json_number(pool, "objects_below");
        const char *missing, *before = ":";
        int len = snprintf(out, size, "%llu object%s lack%s shards", below, below == 1 ? "" : "s", below == 1 ? "s" : "");

        json_object_foreach((json_t *)lacking, missing, objects)
        {
                if (json_integer_value(objects) == 0 || len < 0 || (size_t)len >= size)
                        continue;
                if (strcmp(missing, "more") == 0)
                        len += snprintf(out + len, size - (size_t)len, "%s %lld lack more than %lld, and cannot be read", before, (long long)json_integer_value(objects),
                                        (long long)signed_number(pool, "m"));
                else
                        len += snprintf(out + len, size - (size_t)len, "%s %lld lack %s", before, (long long)json_integer_value(objects), missing);
                before = ",";
        }
        return out;
}

static void show_heal(const json_t *pool, const char *of, struct amiss *amiss)
{
        const json_t *heal = json_object_get(pool, "heal");
        unsigned long long below = cli_json_number(pool, "objects_below"), lost = cli_json_number(pool, "lost_objects"),
                           seconds = cli_json_number(heal, "seconds_left"), looked_at = cli_json_number(heal, "looked_at");
        char left[24], rate[24], pace[24], time_left[32] = "", lacking[AMISS_LINE - 40];

        if (below > 0)
                fprintf(amiss->out, "redundancy %s", lacking_text(pool, lacking, sizeof(lacking)));
        else
                fprintf(amiss->out, "redundancy no object is known to lack a shard");
        if (looked_at > below)
                fprintf(amiss->out, "; %llu lack none of those that were looked at", looked_at - below);
        if (cli_json_number(heal, "level") > 0)
                fprintf(amiss->out, "; those that lack %llu are being rebuilt", (unsigned long long)cli_json_number(heal, "level"));
        fprintf(amiss->out, "%s\n", cli_json_true(heal, "surveyed") || !cli_json_true(heal, "running") ? "" : " (not all have been looked at)");
        if (cli_json_true(heal, "healing")) {
                cli_format_bytes(left, sizeof(left), cli_json_number(heal, "bytes_left"));
                cli_format_bytes(rate, sizeof(rate), cli_json_number(heal, "rate"));
                cli_format_bytes(pace, sizeof(pace), cli_json_number(heal, "pace"));
                if (seconds > 0)
                        cli_format_time(time_left, sizeof(time_left), (int64_t)seconds);
                fprintf(amiss->out, "healing    %llu of %llu objects done, %s left, %s/s so far, %s/s allowed%s%s\n", (unsigned long long)cli_json_number(heal, "done_objects"),
                       (unsigned long long)cli_json_number(heal, "todo_objects"), left, pace, rate, *time_left != '\0' ? ", whole in " : "", time_left);
        }
        if (below > 0)
                amiss_add(amiss, "%s%s", of, lacking_text(pool, lacking, sizeof(lacking)));
        if (lost > 0)
                amiss_add(amiss, "%s%llu objects have a stripe beyond repair: see millrace admin heal status", of, lost);
        if (cli_json_number(pool, "undecided_names") > 0)
                amiss_add(amiss, "%s%llu names differ between drives, and could not be made equal", of, (unsigned long long)cli_json_number(pool, "undecided_names"));
}

/* One of `pools`; several: it is not the only one. */
static void show_pool(const json_t *answer, const json_t *one, bool several, struct amiss *amiss)
{
        const json_t *pool = json_object_get(one, "pool");
        const char *reason = cli_json_text(pool, "reason");
        char uptime[24], title[24] = "pool", of[24] = "";

        if (several) {
                snprintf(title, sizeof(title), "pool %lld", (long long)signed_number(one, "number"));
                snprintf(of, sizeof(of), "pool %lld: ", (long long)signed_number(one, "number"));
        }
        if (!json_is_object(pool)) {
                fprintf(amiss->out, "%-10s ", title);
                if (*cli_json_text(one, "leader_name") != '\0')
                        fprintf(amiss->out, "led by %s, which does not answer: ", cli_json_text(one, "leader_name"));
                fprintf(amiss->out, "%s", cli_json_text(one, "pool_reason"));
                if (json_object_get(one, "epoch") != NULL)
                        fprintf(amiss->out, "; epoch %llu", (unsigned long long)cli_json_number(one, "epoch"));
                fprintf(amiss->out, "\n");
                amiss_add(amiss, "%sthe pool has no leader that answers: %s", of, cli_json_text(one, "pool_reason"));
                return;
        }
        cli_format_time(uptime, sizeof(uptime), (int64_t)cli_json_number(pool, "uptime_s"));
        fprintf(amiss->out, "%-10s led by %s for %s, epoch %llu, erasure code %lld+%lld, %lld gateways in session\n", title, cli_json_text(pool, "name"), uptime,
               (unsigned long long)cli_json_number(pool, "epoch"), (long long)signed_number(pool, "k"), (long long)signed_number(pool, "m"),
               (long long)signed_number(pool, "sessions"));
        fprintf(amiss->out, "state      %s, %s%s%s\n", cli_json_true(pool, "ready") ? "ready" : "NOT READY", cli_json_true(pool, "writable") ? "writable" : "NOT WRITABLE",
               cli_json_true(pool, "read_only") ? ", read-only" : "", cli_json_true(pool, "maintenance") ? ", in maintenance" : "");
        if (!cli_json_true(pool, "ready") || !cli_json_true(pool, "writable"))
                amiss_add(amiss, "%sthe pool is not %s%s%s", of, cli_json_true(pool, "ready") ? "writable" : "ready", *reason != '\0' ? ": " : "", reason);
        if (cli_json_true(pool, "ready"))
                show_heal(pool, of, amiss);
        show_spread(answer, pool, amiss);
        show_gains(answer, pool, amiss->out);
        show_pool_drives(answer, pool, of, amiss);
}

static void show_pools(const json_t *answer, struct amiss *amiss)
{
        const json_t *pools = json_object_get(answer, "pools");
        size_t i, count = json_array_size(pools);

        if (count == 0)
                show_pool(answer, answer, false, amiss);
        for (i = 0; i < count; i++)
                show_pool(answer, json_array_get(pools, i), count > 1, amiss);
}

/* ---- the command ----------------------------------------------------------------------------- */

int cli_admin_show_cluster(const json_t *answer, FILE *out)
{
        const json_t *nodes = json_object_get(answer, "nodes"), *etcd = json_object_get(answer, "etcd"), *node;
        struct amiss *amiss = calloc(1, sizeof(*amiss));
        int status = CLI_FAILED;
        size_t i;

        if (amiss == NULL)
                return status;
        amiss->out = out;
        fprintf(amiss->out, "cluster    %s, asked at node %s\n", cli_json_text(answer, "cluster"), cli_json_text(answer, "node"));
        fprintf(amiss->out, "etcd       %s%s%s, generation %llu\n", cli_json_true(etcd, "answers") ? "answers" : "DOES NOT ANSWER", *cli_json_text(etcd, "reason") != '\0' ? ": " : "",
               cli_json_text(etcd, "reason"), (unsigned long long)cli_json_number(etcd, "generation"));
        if (!cli_json_true(etcd, "answers"))
                amiss_add(amiss, "etcd does not answer node %s: the pool goes on until something else fails", cli_json_text(answer, "node"));
        show_pools(answer, amiss);
        fprintf(amiss->out, "\n  %-20s %6s %5s  %-12s %-9s %9s  %-10s %s\n", "node", "number", "rack", "state", "drives in", "clock", "version", "address");
        json_array_foreach(nodes, i, node)
        {
                if (strcmp(cli_json_text(node, "state"), "gone") != 0)
                        show_node(answer, node, amiss);
        }
        fprintf(amiss->out, "\n");
        for (i = 0; i < amiss->count && i < AMISS_MAX; i++)
                fprintf(amiss->out, "! %s\n", amiss->lines[i]);
        if (amiss->count > AMISS_MAX)
                fprintf(amiss->out, "! and %u more\n", amiss->count - AMISS_MAX);
        if (amiss->count == 0)
                fprintf(amiss->out, "All is whole.\n");
        status = amiss->count == 0 ? CLI_OK : CLI_FAILED;
        free(amiss);
        return status;
}

/* JSON is judged by the same lines, which nobody sees. */
static int show_answer(const struct cli_call *call, const json_t *answer)
{
        FILE *out = call->json ? fopen("/dev/null", "we") : stdout;
        int status = out != NULL ? cli_admin_show_cluster(answer, out) : CLI_FAILED;

        if (call->json) {
                cli_json_print(answer);
                if (out != NULL)
                        fclose(out);
        }
        fflush(stdout);
        return status;
}

static int ask_status(struct cli_call *call)
{
        json_t *answer;
        int status;

        if (cli_admin_ask(call, "GET", CLUSTER_PATH, NULL, 200, 200, &answer) != CLI_OK)
                return NO_ANSWER;
        if (call->watch && !call->json && isatty(STDOUT_FILENO))
                printf("\033[H\033[2J");
        status = show_answer(call, answer);
        json_decref(answer);
        return status;
}

int cli_admin_cluster_status(struct cli_call *call)
{
        static const struct timespec pause = {.tv_sec = 2};
        int status = ask_status(call);

        while (call->watch && !mr_client_canceled(call->client)) {
                nanosleep(&pause, NULL);
                if (!mr_client_canceled(call->client))
                        status = ask_status(call);
        }
        return status;
}
