/*
 * target.h - request targets of presigned URLs. Those a run will repeat or can foresee are made before its clock
 * starts; signing one takes a few microseconds with the day's key at hand. Owner: the main thread.
 */
#ifndef BENCH_LOAD_TARGET_H
#define BENCH_LOAD_TARGET_H

#include <stdlib.h>

#include "content.h"
#include "options.h"
#include "s3.h"

#define LOAD_TARGET_MAX 4096
#define LOAD_READY_MAX  (1u << 20) /* targets held ready: 400 MB at the very most */

struct load_signer {
        const struct load_options *options;
        struct s3_signer signer;
        char host[280]; /* value of the Host header */
        int64_t time_ms;
};

static inline void load_signer_init(struct load_signer *signer, const struct load_options *options, int64_t now_ms)
{
        bool usual = strcmp(options->port, "80") == 0;

        signer->options = options;
        signer->time_ms = now_ms;
        snprintf(signer->host, sizeof(signer->host), "%s%s%s", options->host, usual ? "" : ":",
                 usual ? "" : options->port);
        s3_signer_init(&signer->signer, s3_str_of(options->access_key), s3_str_of(options->secret_key), options->region,
                       now_ms);
        signer->signer.service = "s3";
}

/* "/bucket/prefix000000000042", or 16 hexadecimal digits that no other key has; key UINT64_MAX: the bucket alone. 0 or a
 * negative errno. */
static inline int load_path(const struct load_options *options, uint64_t key, char *out, size_t size)
{
        char name[1200];
        int n;

        if (key == UINT64_MAX)
                snprintf(name, sizeof(name), "/%s", options->bucket);
        else if (options->random_names)
                snprintf(name, sizeof(name), "/%s/%s%016llx", options->bucket, options->prefix,
                         (unsigned long long)load_mix(key));
        else
                snprintf(name, sizeof(name), "/%s/%s%012llu", options->bucket, options->prefix,
                         (unsigned long long)key);
        n = s3_percent_encode(s3_str_of(name), S3_ENCODE_PATH, out, size - 1);
        if (n >= 0)
                out[n] = '\0';
        return n < 0 ? n : 0;
}

/* The target of one request, NUL-terminated. query may be "". Its length or a negative errno. */
static inline int load_sign(const struct load_signer *signer, const char *method, uint64_t key, const char *query,
                            char out[LOAD_TARGET_MAX])
{
        struct s3_header host = {S3_STR("host"), s3_str_of(signer->host)};
        char path[3800];
        struct s3_request request = {
                .method = s3_str_of(method),
                .query = query[0] != '\0' ? s3_str_of(query) : (struct s3_str){NULL, 0},
                .headers = &host,
                .header_count = 1,
        };
        int rv = load_path(signer->options, key, path, sizeof(path));

        if (rv != 0)
                return rv;
        request.path = s3_str_of(path);
        return s3_presign(&request, &signer->signer, signer->time_ms, 86400, (struct s3_str){NULL, 0}, out,
                          LOAD_TARGET_MAX);
}

/* The query of a list that begins behind one of the keys: number `which` of `of`, spread evenly over what can fill a
 * page. */
static inline void load_list_query(const struct load_options *options, uint64_t which, uint64_t of, char *out,
                                   size_t size)
{
        uint64_t room = options->keys > options->max_keys ? options->keys - options->max_keys : 0;
        char prefix[600], after[700], name[300];
        int n;

        n = s3_percent_encode(s3_str_of(options->prefix), S3_ENCODE_QUERY, prefix, sizeof(prefix) - 1);
        prefix[n > 0 ? n : 0] = '\0';
        if (which == 0 || room == 0) {
                snprintf(out, size, "list-type=2&max-keys=%u&prefix=%s", options->max_keys, prefix);
                return;
        }
        snprintf(name, sizeof(name), "%.200s%012llu", options->prefix, (unsigned long long)(room * which / of));
        n = s3_percent_encode(s3_str_of(name), S3_ENCODE_QUERY, after, sizeof(after) - 1);
        after[n > 0 ? n : 0] = '\0';
        snprintf(out, size, "list-type=2&max-keys=%u&prefix=%s&start-after=%s", options->max_keys, prefix, after);
}

#endif
