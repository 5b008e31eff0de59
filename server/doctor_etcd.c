/*
 * doctor_etcd.c - see doctor_cluster.h: what is asked by HTTP, of members of etcd and of other nodes.
 */
#include "server/doctor_cluster.h"

#include "loop.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ASK_MS       3000L
#define ANSWER_MAX   (2u << 20)
#define FSYNC_NOTE   10.0 /* ms, on average */
#define FSYNC_MEND   50.0
#define SKEW_NOTE_S  2
#define SKEW_MEND_S  60
#define SKEW_LIMIT   "nodes refuse each other beyond 300 s, and locks and logs go by the clock: let a time service set all clocks"

/* An answer, as long as it fits. */
struct told {
        long status;
        time_t date; /* of its clock; -1: it did not say */
        double took_ms;
        char error[CURL_ERROR_SIZE];
        char *body; /* with a final 0; from malloc() */
        size_t len;
};

static size_t told_bytes(char *bytes, size_t size, size_t count, void *arg)
{
        struct told *told = arg;
        char *more;

        if (told->len + count > ANSWER_MAX)
                return 0;
        more = realloc(told->body, told->len + count + 1);
        if (more == NULL)
                return 0;
        memcpy(more + told->len, bytes, count);
        told->body = more;
        told->len += count;
        told->body[told->len] = '\0';
        return count;
}

static size_t told_header(char *bytes, size_t size, size_t count, void *arg)
{
        struct told *told = arg;
        char line[128];

        if (count > 5 && count < sizeof(line) && strncasecmp(bytes, "date:", 5) == 0) {
                memcpy(line, bytes + 5, count - 5);
                line[count - 5] = '\0';
                told->date = curl_getdate(line, NULL);
        }
        return count;
}

/* s: whose files of etcd are shown; NULL: none. post: a body; NULL: GET. False: no answer, and why in told->error. */
static bool ask_http(const struct srv_settings *s, const char *url, const char *post, struct told *told)
{
        CURL *curl = curl_easy_init();
        bool good;

        *told = (struct told){.date = -1};
        if (curl == NULL)
                return false;
        good = curl_easy_setopt(curl, CURLOPT_URL, url) == CURLE_OK && curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK && curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, ASK_MS) == CURLE_OK && curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, told->error) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, told_bytes) == CURLE_OK && curl_easy_setopt(curl, CURLOPT_WRITEDATA, told) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, told_header) == CURLE_OK && curl_easy_setopt(curl, CURLOPT_HEADERDATA, told) == CURLE_OK;
        if (good && s != NULL && *s->etcd_ca != '\0')
                good = curl_easy_setopt(curl, CURLOPT_CAINFO, s->etcd_ca) == CURLE_OK && curl_easy_setopt(curl, CURLOPT_CAPATH, NULL) == CURLE_OK;
        if (good && s != NULL && *s->etcd_cert != '\0')
                good = curl_easy_setopt(curl, CURLOPT_SSLCERT, s->etcd_cert) == CURLE_OK && curl_easy_setopt(curl, CURLOPT_SSLKEY, s->etcd_key) == CURLE_OK;
        if (good && post != NULL)
                good = curl_easy_setopt(curl, CURLOPT_POSTFIELDS, post) == CURLE_OK;
        good = good && curl_easy_perform(curl) == CURLE_OK;
        if (good) {
                double took = 0;

                curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &told->status);
                curl_easy_getinfo(curl, CURLINFO_TOTAL_TIME, &took);
                told->took_ms = took * 1000;
        }
        curl_easy_cleanup(curl);
        return good;
}

static void find_clock(const char *what, const struct told *told)
{
        long long apart = (long long)told->date - (long long)time(NULL);

        if (told->date == -1)
                srv_find(SRV_FOUND_NOTE, what, NULL, "not known: it sends no date");
        else
                srv_find(llabs(apart) >= SKEW_MEND_S ? SRV_FOUND_MEND : llabs(apart) >= SKEW_NOTE_S ? SRV_FOUND_NOTE : SRV_FOUND_GOOD, what, SKEW_LIMIT, "%+lld s from this machine's, to the second", apart);
}

/* The value of a line "NAME VALUE" of metrics; -1: it is not there. */
static double metric(const char *text, const char *name)
{
        size_t len = strlen(name);
        const char *at = text;

        while (at != NULL && (at = strstr(at, name)) != NULL) {
                if ((at == text || at[-1] == '\n') && at[len] == ' ')
                        return strtod(at + len, NULL);
                at += len;
        }
        return -1;
}

static void find_disk(const char *text)
{
        double sum = metric(text, "etcd_disk_wal_fsync_duration_seconds_sum"), count = metric(text, "etcd_disk_wal_fsync_duration_seconds_count");
        double leader = metric(text, "etcd_server_has_leader"), bytes = metric(text, "etcd_mvcc_db_total_size_in_bytes"), quota = metric(text, "etcd_server_quota_backend_bytes");
        double ms = count > 0 ? sum / count * 1000 : 0;

        if (leader == 0)
                srv_find(SRV_FOUND_MEND, "  leader", "a majority of its members has to run, and reach one another", "it has none");
        if (count > 0)
                srv_find(ms >= FSYNC_MEND ? SRV_FOUND_MEND : ms >= FSYNC_NOTE ? SRV_FOUND_NOTE : SRV_FOUND_GOOD, "  disk", "give etcd a disk that is faster, or its own: failovers wait for it",
                         "a flush takes %.1f ms on average", ms);
        if (bytes > 0 && quota > 0 && bytes > 0.8 * quota)
                srv_find(SRV_FOUND_MEND, "  size", "compact and defragment it, or raise its quota: at the quota it takes no changes", "%.0f MiB of the %.0f MiB that it may have", bytes / 1048576, quota / 1048576);
}

/* Members that were not made as one etcd are several: each would take changes by itself. */
static void find_members(const struct srv_settings *s, const char *url)
{
        char path[SRV_VALUE_MAX + 32];
        struct told told;
        json_t *answer = NULL, *members;

        snprintf(path, sizeof(path), "%s/v3/cluster/member/list", url);
        if (ask_http(s, path, "{}", &told) && told.status == 200 && told.body != NULL)
                answer = json_loadb(told.body, told.len, 0, NULL);
        members = json_object_get(answer, "members");
        if (!json_is_array(members))
                srv_find(SRV_FOUND_NOTE, "  members", "ask it: etcdctl member list", "not known: it does not list them");
        else if (json_array_size(members) < s->etcd.count)
                srv_find(SRV_FOUND_MEND, "  members", "etcdctl member list has to show all that are given: one that was started by itself is another etcd; one that is gone is not given",
                         "it knows %zu, and %u are given", json_array_size(members), s->etcd.count);
        else
                srv_find(SRV_FOUND_GOOD, "  members", NULL, "%zu", json_array_size(members));
        json_decref(answer);
        free(told.body);
}

static void find_member(const struct srv_settings *s, const char *url)
{
        char path[SRV_VALUE_MAX + 16];
        struct told told;

        snprintf(path, sizeof(path), "%s/health", url);
        if (!ask_http(s, path, NULL, &told)) {
                srv_find(SRV_FOUND_MEND, "etcd", "is it running there, and are etcd_ca, etcd_cert and etcd_key right?", "%s: %s", url, *told.error != '\0' ? told.error : "no answer");
                free(told.body);
                return;
        }
        if (told.status == 200 && told.body != NULL && strstr(told.body, "true") != NULL)
                srv_find(SRV_FOUND_GOOD, "etcd", NULL, "%s: healthy, answers in %.1f ms", url, told.took_ms);
        else
                srv_find(SRV_FOUND_MEND, "etcd", "its log says why", "%s: HTTP %ld: %.200s", url, told.status, told.body != NULL ? told.body : "");
        find_clock("  clock", &told);
        free(told.body);
        find_members(s, url);
        snprintf(path, sizeof(path), "%s/metrics", url);
        if (ask_http(s, path, NULL, &told) && told.status == 200 && told.body != NULL)
                find_disk(told.body);
        else
                srv_find(SRV_FOUND_NOTE, "  disk", NULL, "not known: it shows no metrics there");
        free(told.body);
}

void srv_doctor_etcd(const struct srv_settings *s)
{
        unsigned i;

        if (s->etcd.count < 3)
                srv_find(SRV_FOUND_NOTE, "etcd", "three members, each named by `etcd`, go on when one is lost", "%u member%s given", s->etcd.count, s->etcd.count == 1 ? " is" : "s are");
        for (i = 0; i < s->etcd.count; i++)
                find_member(s, s->etcd.item[i]);
}

void srv_doctor_clock(const struct srv_settings *s, const struct cl_member *member)
{
        char url[300];
        struct told told;

        if (*member->node.version != '\0' && strcmp(member->node.version, MILLRACE_VERSION) != 0)
                srv_find(SRV_FOUND_NOTE, "  version", "nodes belong at one version, but while they are upgraded", "%s, and this is %s", member->node.version, MILLRACE_VERSION);
        if (*member->node.admin == '\0')
                return;
        snprintf(url, sizeof(url), "%s://%s/health/live", s->admin_tls ? "https" : "http", member->node.admin);
        if (s->admin_tls || !ask_http(NULL, url, NULL, &told)) {
                srv_find(SRV_FOUND_NOTE, "  clock", "millrace admin cluster status shows clocks, too", "not known: its admin address %s is not for this machine, or has TLS", member->node.admin);
                if (s->admin_tls)
                        return;
        } else {
                find_clock("  clock", &told);
        }
        free(told.body);
}
