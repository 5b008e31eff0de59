/*
 * etcd_call.c - what becomes of a request: attempts at endpoints, a login where one is needed,
 * pages, and what each answer, or its absence, means. Called by the client's thread.
 *
 * The one rule that counts: a request that changes something is sent once. Where its answer is lost
 * or unclear its outcome is UNKNOWN, never a failure. It goes to another endpoint only if libcurl
 * had not begun to send it, or etcd refused its token. All others are asked again elsewhere until their deadline.
 */
#include "cluster/etcd_client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_FIRST_NS (50ull * 1000 * 1000)
#define PAUSE_MOST_NS  (1000ull * 1000 * 1000)

/* ---- the end --------------------------------------------------------------------------------- */

static void call_free(struct etcd_call *call)
{
        etcd_attempt_end(call);
        etcd_client_remove(call->client, call);
        cl_answer_free(call->answer);
        free(call);
}

/* Answers the request, and frees the call. */
static void call_close(struct etcd_call *call, enum cl_outcome outcome, int error, const char *text)
{
        struct cl_request *request = call->request;
        struct cl_answer *answer = NULL;
        char line[CL_TEXT_MAX]; /* the text may be the call's */

        snprintf(line, sizeof(line), "%s", text);
        if (outcome == CL_DONE) {
                answer = call->answer;
                call->answer = NULL;
        }
        atomic_fetch_sub(&call->client->queued, 1);
        call_free(call);
        cl_request_end(request, outcome, error, answer, "%s", line);
}

/* The login is over: those that wait for it go on, or fail with it. */
static void login_end(struct etcd_call *login, int error, const char *text)
{
        struct etcd_client *client = login->client;
        struct etcd_call *call = client->first, *next;

        client->login_runs = false;
        for (; call != NULL; call = next) {
                next = call->next;
                if (call->state != CALL_LOGIN)
                        continue;
                if (error == 0)
                        call->state = CALL_READY;
                else
                        call_close(call, CL_FAILED_SURE, error, text);
        }
        call_free(login);
}

/* It was not carried out, and is not asked again. */
static void call_fail(struct etcd_call *call, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void call_fail(struct etcd_call *call, int error, const char *format, ...)
{
        char text[CL_TEXT_MAX];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        if (call->request == NULL)
                login_end(call, error, text);
        else
                call_close(call, CL_FAILED_SURE, error, text);
}

/* It was sent, and what etcd made of it is not known: of those that change nothing that is a failure. */
static void call_end_unclear(struct etcd_call *call, int error, const char *text)
{
        if (call->changes)
                call_close(call, CL_UNKNOWN, error, text);
        else
                call_fail(call, error, "%s", text);
}

static void call_time_out(struct etcd_call *call)
{
        if (call->error != 0)
                call_fail(call, call->error, "no answer in time; the last attempt: %.200s", call->text);
        else
                call_fail(call, -ETIMEDOUT, "no answer in time");
}

void etcd_call_cancel(struct etcd_call *call)
{
        bool sent = call->state == CALL_RUNNING && call->attempt.sent;

        if (call->request == NULL)
                call_free(call);
        else
                call_close(call, sent && call->changes ? CL_UNKNOWN : CL_FAILED_SURE, -ECANCELED,
                           "the client of etcd ends");
}

/* ---- attempts -------------------------------------------------------------------------------- */

/* Endpoints that it may go to. */
static unsigned call_choices(const struct etcd_call *call)
{
        return call->request != NULL && call->request->member != 0 ? 1 : call->client->endpoint_count;
}

static void login_begin(struct etcd_client *client, uint64_t now)
{
        struct etcd_call *login;

        if (client->login_runs)
                return;
        login = calloc(1, sizeof(*login));
        if (login == NULL)
                return; /* those that wait look again, or time out */
        login->client = client;
        login->deadline = now + client->timeout_ns;
        client->login_runs = true;
        etcd_client_add(client, login);
}

static char *call_body(const struct etcd_call *call, const char **path, size_t *len, size_t *answer_max)
{
        *answer_max = ETCD_SMALL_MAX;
        if (call->request == NULL) {
                *path = "/v3/auth/authenticate";
                return etcd_write_login(call->client->user, call->client->password, len);
        }
        switch (call->request->kind) {
        case CL_RANGE:
                *path = "/v3/kv/range";
                *answer_max = ETCD_BODY_MAX;
                return etcd_write_range(call->request, &call->page, len);
        case CL_TXN:
                *path = "/v3/kv/txn";
                *answer_max = ETCD_BODY_MAX;
                return etcd_write_txn(call->request, len);
        case CL_STATUS:
                *path = "/v3/maintenance/status";
                *len = 2;
                return strdup("{}");
        }
        return NULL;
}

static void call_begin(struct etcd_call *call, uint64_t now)
{
        struct etcd_client *client = call->client;
        unsigned choices = call_choices(call);
        uint64_t left = call->deadline - now;
        enum cl_verdict verdict = etcd_client_verdict(client, &call->floor);
        const char *path;
        size_t len, answer_max;
        char *body;
        int rv = -ENOMEM;

        if (verdict != CL_SEEN_FINE) {
                call_fail(call, -EREMCHG, "%s", cl_verdict_text(verdict));
                return;
        }
        if (call->request != NULL && call->request->member > client->endpoint_count) {
                call_fail(call, -EINVAL, "there are only %u endpoints of etcd", client->endpoint_count);
                return;
        }
        call->endpoint = choices == 1 && call->request != NULL && call->request->member != 0 ? call->request->member - 1
                                                                                             : client->current;
        call->token_serial = client->token_serial;
        /* a member that hangs leaves time for the others */
        if (!call->changes && call->tries < choices)
                left /= choices - call->tries;
        body = call_body(call, &path, &len, &answer_max);
        if (body != NULL)
                rv = etcd_attempt_begin(call, path, body, len, answer_max, left);
        if (rv != 0)
                call_fail(call, rv, "a request to %s cannot be made", client->endpoints[call->endpoint]);
        else
                call->state = CALL_RUNNING;
}

static bool needs_login(const struct etcd_call *call)
{
        return call->request != NULL && call->client->user != NULL && call->client->token_serial == 0;
}

void etcd_call_look(struct etcd_call *call, uint64_t now)
{
        if (call->state == CALL_RUNNING)
                return; /* libcurl has its limit */
        if (now >= call->deadline) {
                call_time_out(call);
                return;
        }
        if (call->state == CALL_PAUSED && now < call->due)
                return;
        if (needs_login(call)) {
                call->state = CALL_LOGIN;
                login_begin(call->client, now);
                return;
        }
        call->state = CALL_READY;
        if (call->client->running < ETCD_RUNNING_MAX)
                call_begin(call, now);
}

/* Once more: at once at an endpoint that was not tried, after a pause when all were. */
static void call_again(struct etcd_call *call)
{
        unsigned rounds;

        call->tries++;
        rounds = call->tries / call_choices(call);
        call->state = CALL_READY;
        if (call->tries % call_choices(call) != 0)
                return;
        call->state = CALL_PAUSED;
        call->due = PAUSE_FIRST_NS << (rounds < 6 ? rounds - 1 : 5);
        if (call->due > PAUSE_MOST_NS)
                call->due = PAUSE_MOST_NS;
        call->due += lp_clock();
}

/* No answer, or one that says nothing. */
static void call_unanswered(struct etcd_call *call, bool sent, int error, const char *text)
{
        struct etcd_client *client = call->client;

        if (client->current == call->endpoint)
                client->current = (client->current + 1) % client->endpoint_count;
        call->error = error;
        snprintf(call->text, sizeof(call->text), "%.100s: %.140s", client->endpoints[call->endpoint], text);
        if (sent && call->changes)
                call_close(call, CL_UNKNOWN, error, call->text);
        else if (call->request != NULL && call->request->member != 0)
                call_fail(call, error, "%s", call->text);
        else
                call_again(call);
}

/* ---- answers that are none ------------------------------------------------------------------- */

/* A page was too large for etcd's gateway, or for us. */
static void call_too_large(struct etcd_call *call)
{
        if (call->request != NULL && call->request->kind == CL_RANGE && call->page.limit > 1) {
                call->page.limit = (call->page.limit + 3) / 4;
                call->state = CALL_READY;
                return;
        }
        call_end_unclear(call, -EMSGSIZE, "the answer is too large");
}

/* All anew: a range is of one revision. */
static void range_restart(struct etcd_call *call)
{
        cl_answer_free(call->answer);
        call->answer = NULL;
        call->page.after.len = 0;
        call->page.revision = call->request->at_revision;
        call->restarts++;
        call->state = CALL_READY;
}

static void call_compacted(struct etcd_call *call, const char *text)
{
        if (call->request != NULL && call->request->kind == CL_RANGE && call->page.after.len > 0 &&
            call->request->at_revision == 0 && call->restarts < ETCD_RESTARTS)
                range_restart(call);
        else
                call_fail(call, -ESTALE, "%s", text);
}

static void call_token_old(struct etcd_call *call, const char *text)
{
        struct etcd_client *client = call->client;

        if (client->user == NULL || call->request == NULL || call->renewals == ETCD_RENEWALS) {
                call_fail(call, -EACCES, "%s", text);
                return;
        }
        call->renewals++;
        if (client->token_serial == call->token_serial)
                client->token_serial = 0;
        call->state = CALL_READY;
}

static void call_not_ok(struct etcd_call *call, long status)
{
        struct s3_str body = {call->attempt.in, call->attempt.in_len};
        char text[CL_TEXT_MAX];
        enum etcd_refusal refusal = etcd_read_refusal(status, body, text);

        etcd_attempt_end(call);
        switch (refusal) {
        case ETCD_REFUSED:
                call_fail(call, call->request == NULL ? -EACCES : -EREMOTEIO, "%s", text);
                break;
        case ETCD_DENIED:
                call_fail(call, -EACCES, "%s", text);
                break;
        case ETCD_COMPACTED:
                call_compacted(call, text);
                break;
        case ETCD_TOKEN_OLD:
                call_token_old(call, text);
                break;
        case ETCD_TOO_LARGE:
                call_too_large(call);
                break;
        case ETCD_FULL:
                call_end_unclear(call, -ENOSPC, text);
                break;
        case ETCD_UNCLEAR:
                call_unanswered(call, true, -EHOSTUNREACH, text);
                break;
        }
}

/* ---- answers --------------------------------------------------------------------------------- */

static void answer_set(struct cl_answer *answer, const struct etcd_header *header, int64_t revision)
{
        answer->cluster_id = header->cluster_id;
        answer->member_id = header->member_id;
        answer->raft_term = header->raft_term;
        answer->revision = revision;
}

static int read_range(struct etcd_call *call, struct s3_str body, struct etcd_header *header, bool *more,
                      const char **why)
{
        int rv;

        if (call->answer == NULL)
                call->answer = cl_answer_new(1);
        if (call->answer == NULL)
                return -ENOMEM;
        rv = etcd_read_page(body, call->request, call->answer, header, more, why);
        if (rv == 0 && call->answer->revision == 0)
                answer_set(call->answer, header,
                           call->request->at_revision > 0 ? call->request->at_revision : header->revision);
        return rv;
}

static int read_txn(struct etcd_call *call, struct s3_str body, struct etcd_header *header, const char **why)
{
        int rv = etcd_read_txn(body, call->request, &call->answer, header, why);

        if (rv == 0)
                answer_set(call->answer, header, header->revision);
        return rv;
}

static int read_status(struct etcd_call *call, struct s3_str body, struct etcd_header *header, const char **why)
{
        struct cl_status status;
        int rv = etcd_read_status(body, &status, header, why);

        if (rv != 0)
                return rv;
        call->answer = cl_answer_new(0);
        if (call->answer == NULL)
                return -ENOMEM;
        call->answer->status = status;
        answer_set(call->answer, header, header->revision);
        /* a member that lags says so: its revision proves nothing (R2) */
        call->floor.revision = 0;
        return 0;
}

static int call_read(struct etcd_call *call, struct etcd_header *header, bool *more, const char **why)
{
        struct s3_str body = {call->attempt.in, call->attempt.in_len};

        *why = "there is no memory for the answer";
        switch (call->request->kind) {
        case CL_RANGE:
                return read_range(call, body, header, more, why);
        case CL_TXN:
                return read_txn(call, body, header, why);
        case CL_STATUS:
                return read_status(call, body, header, why);
        }
        return -EINVAL;
}

static void call_unreadable(struct etcd_call *call, int rv, const char *why)
{
        if (call->request->kind == CL_RANGE)
                range_restart(call); /* what it got of a wrong page is dropped with the rest */
        if (rv == -EBADMSG && !call->changes && call->tries + 1 < call_choices(call) && call->restarts <= ETCD_RESTARTS)
                call_unanswered(call, true, rv, why);
        else
                call_end_unclear(call, rv, rv == -EMSGSIZE ? "the answer is too large" : why);
}

static void range_next(struct etcd_call *call)
{
        const struct cl_keys *keys = &call->answer->ranges[0];

        call->page.after = keys->at[keys->count - 1].key;
        call->page.revision = call->answer->revision;
        call->tries = 0;
        call->state = CALL_READY;
}

static void call_answered(struct etcd_call *call)
{
        struct etcd_header header;
        const char *why = "";
        bool more = false;
        int rv = call_read(call, &header, &more, &why);
        enum cl_verdict verdict;

        etcd_attempt_end(call);
        if (rv != 0) {
                call_unreadable(call, rv, why);
                return;
        }
        verdict = etcd_client_judge(call->client, &call->floor, &header);
        if (verdict != CL_SEEN_FINE)
                call_end_unclear(call, -EREMCHG, cl_verdict_text(verdict));
        else if (more)
                range_next(call);
        else
                call_close(call, CL_DONE, 0, "");
}

static void login_answered(struct etcd_call *login)
{
        struct etcd_client *client = login->client;
        const char *why = "there is no memory for the answer";
        int rv = etcd_read_token((struct s3_str){login->attempt.in, login->attempt.in_len}, client->token, &why);

        etcd_attempt_end(login);
        if (rv != 0) {
                login_end(login, rv, why);
                return;
        }
        client->token_serial = ++client->token_next;
        login_end(login, 0, "");
}

void etcd_call_over(struct etcd_call *call, CURLcode code)
{
        struct etcd_attempt *attempt = &call->attempt;
        char text[CL_TEXT_MAX];
        long status = 0;

        if (code == CURLE_OK)
                curl_easy_getinfo(attempt->curl, CURLINFO_RESPONSE_CODE, &status);
        if (code == CURLE_OK && status == 200) {
                if (call->request == NULL)
                        login_answered(call);
                else
                        call_answered(call);
        } else if (code == CURLE_OK) {
                call_not_ok(call, status);
        } else {
                snprintf(text, sizeof(text), "%s", *attempt->text != '\0' ? attempt->text : curl_easy_strerror(code));
                etcd_attempt_end(call);
                if (attempt->too_large)
                        call_too_large(call);
                else
                        call_unanswered(call, attempt->sent,
                                        code == CURLE_OPERATION_TIMEDOUT ? -ETIMEDOUT : -EHOSTUNREACH, text);
        }
}
