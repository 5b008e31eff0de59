/*
 * target.c - what requests ask for, signed, by URL or by headers. Called by load_request.c and run.c on the running
 * thread.
 */
#include "load/target.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "load_content.h"

#define EXPIRES_S 86400u /* longer than any run */

void load_signer_init(struct load_signer *signer, const struct load_settings *settings, int64_t now_ms)
{
        signer->settings = settings;
        signer->time_ms = now_ms;
        s3_signer_init(&signer->signer, s3_str_of(settings->access_key), s3_str_of(settings->secret_key),
                       settings->region, now_ms);
        signer->signer.service = "s3";
}

void load_key_name(const struct load_settings *settings, uint64_t key, char *out, size_t size)
{
        if (settings->random_names)
                snprintf(out, size, "%s%016llx", settings->prefix, (unsigned long long)load_mix(key));
        else
                snprintf(out, size, "%s%012llu", settings->prefix, (unsigned long long)key);
}

/* "/bucket/prefix000000000042"; key UINT64_MAX: the bucket alone. 0 or a negative errno. */
static int load_target_path_of(const struct load_settings *settings, uint64_t key, char *out, size_t size)
{
        char key_name[800], name[1200];
        int n;

        key_name[0] = '\0';
        if (key != UINT64_MAX)
                load_key_name(settings, key, key_name, sizeof(key_name));
        snprintf(name, sizeof(name), "/%s%s%s", settings->bucket, key != UINT64_MAX ? "/" : "", key_name);
        n = s3_percent_encode(s3_str_of(name), S3_ENCODE_PATH, out, size - 1);
        if (n >= 0)
                out[n] = '\0';
        return n < 0 ? n : 0;
}

/* The request's headers but host, and its signature, as lines behind its first one. */
static int sign_by_headers(const struct load_signer *signer, struct s3_request *request, const char *token,
                           char out[LOAD_TARGET_MAX])
{
        char date[S3_DATE_AMZ_SIZE], authorization[1024];
        struct s3_header headers[] = {
                request->headers[0],
                {S3_STR("x-amz-content-sha256"), S3_STR(S3_UNSIGNED_PAYLOAD)},
                {S3_STR("x-amz-date"), {date, S3_DATE_AMZ_SIZE - 1}},
                {S3_STR("x-amz-security-token"), s3_str_of(token)},
        };
        int n, rv;

        s3_date_format_amz(signer->time_ms, date);
        request->headers = headers;
        request->header_count = token[0] != '\0' ? 4 : 3;
        rv = s3_sign_headers(request, &signer->signer, authorization, sizeof(authorization), NULL);
        if (rv < 0)
                return rv;
        n = snprintf(out, LOAD_TARGET_MAX,
                     "%.*s%s%.*s HTTP/1.1\r\nx-amz-content-sha256: " S3_UNSIGNED_PAYLOAD
                     "\r\nx-amz-date: %s\r\nAuthorization: %s%s%s",
                     (int)request->path.len, request->path.data, request->query.len > 0 ? "?" : "",
                     (int)request->query.len, request->query.data != NULL ? request->query.data : "", date,
                     authorization, token[0] != '\0' ? "\r\nx-amz-security-token: " : "", token);
        return n < LOAD_TARGET_MAX ? n : -ENOBUFS;
}

static int sign_by_url(const struct load_signer *signer, const struct s3_request *request, const char *token,
                       char out[LOAD_TARGET_MAX])
{
        static const char version[] = " HTTP/1.1";
        int rv = s3_presign(request, &signer->signer, signer->time_ms, EXPIRES_S,
                            token[0] != '\0' ? s3_str_of(token) : (struct s3_str){NULL, 0}, out,
                            LOAD_TARGET_MAX - sizeof(version));

        if (rv < 0)
                return rv;
        memcpy(out + rv, version, sizeof(version));
        return rv + (int)sizeof(version) - 1;
}

int load_sign(const struct load_signer *signer, unsigned server, const char *method, uint64_t key, const char *query,
              char out[LOAD_TARGET_MAX])
{
        struct s3_header host = {S3_STR("host"), s3_str_of(signer->settings->server[server].header)};
        char path[3800];
        struct s3_request request = {
                .method = s3_str_of(method),
                .query = query[0] != '\0' ? s3_str_of(query) : (struct s3_str){NULL, 0},
                .headers = &host,
                .header_count = 1,
        };
        const char *token = signer->settings->session_token != NULL ? signer->settings->session_token : "";
        int rv = load_target_path_of(signer->settings, key, path, sizeof(path));

        if (rv != 0)
                return rv;
        request.path = s3_str_of(path);
        return signer->settings->sign_headers ? sign_by_headers(signer, &request, token, out)
                                              : sign_by_url(signer, &request, token, out);
}

void load_list_query(const struct load_settings *settings, uint64_t which, uint64_t of, char *out, size_t size)
{
        uint64_t room = settings->keys > settings->max_keys ? settings->keys - settings->max_keys : 0;
        char prefix[600], after[700], name[300];
        int n;

        n = s3_percent_encode(s3_str_of(settings->prefix), S3_ENCODE_QUERY, prefix, sizeof(prefix) - 1);
        prefix[n > 0 ? n : 0] = '\0';
        if (which == 0 || room == 0) {
                snprintf(out, size, "list-type=2&max-keys=%u&prefix=%s", settings->max_keys, prefix);
                return;
        }
        snprintf(name, sizeof(name), "%.200s%012llu", settings->prefix, (unsigned long long)(room * which / of));
        n = s3_percent_encode(s3_str_of(name), S3_ENCODE_QUERY, after, sizeof(after) - 1);
        after[n > 0 ? n : 0] = '\0';
        snprintf(out, size, "list-type=2&max-keys=%u&prefix=%s&start-after=%s", settings->max_keys, prefix, after);
}
