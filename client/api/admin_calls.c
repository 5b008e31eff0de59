/*
 * admin_calls.c - one request to the daemon's admin listener, or to IAM, or a probe of it or of the endpoint.
 * On the caller's thread, which waits.
 */
#include "client.h"

#include "client/http/client_request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t admin_read_date(const struct mr_response *response)
{
        const char *date = mr_response_header(response, "date");
        int64_t ms;

        return date != NULL && s3_date_parse_http(s3_str_of(date), &ms) == 0 ? ms / 1000 : 0;
}

/* What changes something must not be done twice unasked. */
static void admin_send_once(struct mr_request *request)
{
        request->once = true;
        request->fresh = strcmp(request->method, "GET") != 0;
}

/* Takes over the body. */
static int take_reply(struct mr_response *response, struct mr_reply *out, struct mr_error *err)
{
        out->status = response->status;
        out->date_s = admin_read_date(response);
        out->body = response->body != NULL ? response->body : calloc(1, 1);
        out->body_len = response->body_len;
        response->body = NULL;
        return out->body != NULL ? 0 : mr_failure(err, -ENOMEM, "%s", strerror(ENOMEM));
}

static int reply_of(struct mr_client *client, struct mr_request *request, struct mr_reply *out, struct mr_error *err)
{
        struct mr_response response;
        int rv;

        memset(out, 0, sizeof(*out));
        admin_send_once(request);
        rv = mr_request_run(client, request, &response, err);
        if (rv == 0)
                rv = take_reply(&response, out, err);
        mr_response_free(&response);
        return rv;
}

#define ADMIN_START    "x-millrace-start"
#define ADMIN_ATTEMPTS 3u

/*
 * Remembers how the listener calls its start. True: the call was refused and had named another one,
 * or none.
 */
static bool meant_for_another_start(struct mr_client *client, const struct mr_response *response, const char *named)
{
        const char *start = mr_response_header(response, ADMIN_START);

        if (start == NULL || *start == '\0' || strlen(start) >= MR_ADMIN_START_MAX)
                return false;
        pthread_mutex_lock(&client->lock);
        snprintf(client->admin_start, sizeof(client->admin_start), "%s", start);
        pthread_mutex_unlock(&client->lock);
        return response->status == 403 && strcmp(start, named) != 0;
}

/*
 * One attempt of an admin call. *again: it was refused for the start that it named, or did not
 * name, and did nothing.
 */
static int admin_once(struct mr_client *client, struct mr_request request, struct mr_reply *out, struct mr_error *err, bool *again)
{
        char named[MR_ADMIN_START_MAX];
        struct mr_response response;
        int rv;

        memset(out, 0, sizeof(*out));
        pthread_mutex_lock(&client->lock);
        memcpy(named, client->admin_start, sizeof(named));
        pthread_mutex_unlock(&client->lock);
        if (named[0] != '\0')
                mr_request_header(&request, ADMIN_START, named);
        admin_send_once(&request);
        rv = mr_request_run(client, &request, &response, err);
        *again = rv == 0 && meant_for_another_start(client, &response, named);
        if (rv == 0 && !*again)
                rv = take_reply(&response, out, err);
        mr_response_free(&response);
        return rv;
}

static int admin_run(struct mr_client *client, struct mr_request request, const char *const query[], struct mr_reply *out,
                     struct mr_error *err)
{
        bool again = true;
        unsigned i;
        int rv = 0;

        for (i = 0; query != NULL && query[i] != NULL && i < 2 * MR_ADMIN_QUERY_MAX; i += 2)
                mr_request_query(&request, query[i], query[i + 1]);
        /*
         * The first call of a client is refused, and so is the first after a restart, which may
         * come between two attempts.
         */
        for (i = 0; again && rv == 0 && i < ADMIN_ATTEMPTS; i++)
                rv = admin_once(client, request, out, err, &again);
        if (rv == 0 && again)
                rv = mr_failure(err, -EAGAIN, "the daemon has started anew several times meanwhile");
        return rv;
}

int mr_admin(struct mr_client *client, const char *method, const char *path, const char *const query[],
             struct mr_reply *out, struct mr_error *err)
{
        struct mr_request request = {.method = method, .admin_path = path};

        return admin_run(client, request, query, out, err);
}

int mr_admin_send(struct mr_client *client, const char *path, const char *const query[], const char *body, size_t len,
                  struct mr_reply *out, struct mr_error *err)
{
        struct mr_request request = {.method = "POST", .admin_path = path, .data = body, .len = len};

        return admin_run(client, request, query, out, err);
}

/* "NAME=VALUE&...", percent-encoded; the caller wipes and frees it. */
static char *form_of(const char *const pairs[], size_t *len)
{
        size_t size = 1;
        char *form;
        int n;

        for (unsigned i = 0; pairs[i] != NULL; i++)
                size += 3 * strlen(pairs[i]) + 1;
        form = malloc(size);
        *len = 0;
        for (unsigned i = 0; form != NULL && pairs[i] != NULL; i++) {
                if (i > 0)
                        form[(*len)++] = i % 2 == 0 ? '&' : '=';
                n = s3_percent_encode(s3_str_of(pairs[i]), S3_ENCODE_QUERY, form + *len, size - *len);
                *len += n > 0 ? (size_t)n : 0;
        }
        return form;
}

int mr_iam(struct mr_client *client, const char *service, const char *const pairs[], struct mr_reply *out,
           struct mr_error *err)
{
        struct mr_request request = {.method = "POST", .service = service, .signed_body = true};
        size_t len;
        char *form = form_of(pairs, &len);
        int rv;

        if (form == NULL)
                return mr_failure(err, -ENOMEM, "%s", strerror(ENOMEM));
        request.data = (const void *)form;
        request.len = len;
        mr_request_header(&request, "content-type", "application/x-www-form-urlencoded; charset=utf-8");
        rv = reply_of(client, &request, out, err);
        free(form);
        return rv;
}

int mr_probe_endpoint(struct mr_client *client, struct mr_reply *out, struct mr_error *err)
{
        struct mr_request request = {.method = "GET", .unsigned_request = true};

        return reply_of(client, &request, out, err);
}

int mr_probe_admin(struct mr_client *client, const char *path, struct mr_reply *out, struct mr_error *err)
{
        struct mr_request request = {.method = "GET", .admin_path = path, .unsigned_request = true};

        return reply_of(client, &request, out, err);
}

void mr_reply_free(struct mr_reply *reply)
{
        free(reply->body);
        memset(reply, 0, sizeof(*reply));
}
