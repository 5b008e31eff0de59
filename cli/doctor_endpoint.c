/*
 * doctor_endpoint.c - what doctor finds out of the endpoint and the admin listener: whether they
 * answer, are ready, agree with this machine's clock, and take the credentials. Main thread only.
 */
#include "command_admin.h"
#include "doctor.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SKEW_REFUSED_S 900 /* what S3 tolerates */
#define SKEW_NOTED_S   60

static void find_skew(struct cli_report *report, const struct mr_reply *reply)
{
        int64_t skew = reply->date_s - (int64_t)time(NULL);

        if (reply->date_s == 0)
                cli_find(report, CLI_NOTE, "  clock skew", NULL, "not known: the endpoint sends no Date");
        else if (llabs(skew) >= SKEW_REFUSED_S)
                cli_find(report, CLI_MEND, "  clock skew",
                         "set this clock or the endpoint's: signed requests are refused",
                         "the endpoint's clock is %+lld s from this one", (long long)skew);
        else
                cli_find(report, llabs(skew) >= SKEW_NOTED_S ? CLI_NOTE : CLI_GOOD, "  clock skew",
                         "signatures are refused beyond 900 s", "%+lld s", (long long)skew);
}

static int ignore_bucket(void *arg, const struct mr_bucket *bucket)
{
        (*(unsigned *)arg)++;
        return 0;
}

static void find_credentials(struct cli_report *report, struct mr_client *client, const struct mr_settings *settings)
{
        struct mr_error err;
        unsigned count = 0;

        if (settings->access_key[0] == '\0' || settings->secret_key[0] == '\0')
                cli_find(report, CLI_MEND, "  credentials",
                         "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or access_key and secret_key in the file",
                         "none");
        else if (mr_buckets(client, ignore_bucket, &count, &err) == 0)
                cli_find(report, CLI_GOOD, "  credentials", NULL, "accepted; %u buckets", count);
        else
                cli_find(report, CLI_MEND, "  credentials", "check access key, secret key and region", "%s%s%s%s",
                         err.message, err.s3_code[0] != '\0' ? " (" : "", err.s3_code,
                         err.s3_code[0] != '\0' ? ")" : "");
}

static void find_ready(struct cli_report *report, struct mr_client *client, const struct mr_settings *settings)
{
        struct mr_reply reply;
        struct mr_error err;
        const char *reason;
        json_t *body;

        if (mr_probe_admin(client, "/health/ready", &reply, &err) != 0) {
                cli_find(report, CLI_NOTE, "admin listener",
                         "give its address with --admin; it may be reachable from the daemon's machine only", "%s: %s",
                         settings->admin, err.message);
                return;
        }
        body = json_loadb(reply.body, reply.body_len, 0, NULL);
        reason = json_string_value(json_object_get(body, "reason"));
        if (reply.status == 200)
                cli_find(report, CLI_GOOD, "admin listener", NULL, "%s: ready", settings->admin);
        else if (reply.status == 503)
                cli_find(report, CLI_MEND, "admin listener", "millrace admin info says which drive is missing",
                         "%s: %s", settings->admin, reason != NULL ? reason : "not ready");
        else
                cli_find(report, CLI_NOTE, "admin listener", "is this millraced's admin address?", "%s: HTTP %d",
                         settings->admin, reply.status);
        json_decref(body);
        mr_reply_free(&reply);
}

/*
 * RDMA is a convenience: where it is asked for, its absence is to be mended; else it is worth a
 * note.
 */
static void doctor_endpoint_find_rdma(struct cli_report *report, struct mr_client *client,
                                      const struct mr_settings *settings)
{
        struct mr_rdma_report found;
        struct mr_error err;

        if (mr_probe_rdma(client, &found, &err) == 0)
                cli_find(report, CLI_GOOD, "  RDMA", NULL, "from %s (%s) to %s:%u, rights %s, %u requests at once",
                         found.device, found.link, found.address, found.port, found.rights, found.requests);
        else
                cli_find(report, settings->transport == MR_TRANSPORT_RDMA ? CLI_MEND : CLI_NOTE, "  RDMA",
                         settings->transport == MR_TRANSPORT_RDMA ? "transport is rdma: requests fail"
                                                                  : "everything goes over TCP",
                         "none: %s", err.message);
}

/* A node of a cluster that does not serve yet says what it waits for, to all. */
static bool find_waiting(struct cli_report *report, struct mr_client *client, const struct mr_settings *settings)
{
        struct mr_reply reply;
        struct mr_error err;
        json_t *body;
        bool waits;

        if (mr_probe_admin(client, "/admin/v1/cluster", &reply, &err) != 0)
                return false;
        body = json_loadb(reply.body, reply.body_len, 0, NULL);
        waits = reply.status == 503 && strcmp(cli_json_text(body, "error"), "Waits") == 0;
        if (waits)
                cli_find(report, CLI_NOTE, "endpoint", NULL, "%s: it serves nothing yet: %s", settings->endpoint, cli_json_text(body, "message"));
        json_decref(body);
        mr_reply_free(&reply);
        return waits;
}

bool cli_doctor_endpoint(struct cli_report *report, struct mr_client *client, const struct mr_settings *settings)
{
        struct mr_reply reply;
        struct mr_error err;

        if (find_waiting(report, client, settings))
                return false;
        if (mr_probe_endpoint(client, &reply, &err) != 0) {
                cli_find(report, CLI_MEND, "endpoint",
                         "start millraced there, or give the right address with --endpoint or MILLRACE_ENDPOINT",
                         "%s: %s", settings->endpoint, err.message);
        } else {
                cli_find(report, reply.status < 500 ? CLI_GOOD : CLI_MEND, "endpoint",
                         "it answers, but cannot serve: see its log", "%s: answers (HTTP %d)", settings->endpoint,
                         reply.status);
                find_skew(report, &reply);
                find_credentials(report, client, settings);
                if (settings->transport != MR_TRANSPORT_TCP)
                        doctor_endpoint_find_rdma(report, client, settings);
                mr_reply_free(&reply);
        }
        find_ready(report, client, settings);
        return true;
}
