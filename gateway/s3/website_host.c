/*
 * website_host.c - which hosts are websites, and what a request to one names. Called by head.c, on the
 * request's loop; nothing here waits. Rules W1 and W2 of docs/design/website.md.
 */
#include "gateway/s3/website_serve.h"

#include <errno.h>

/* host is NAME.domain: the length of NAME; 0: it is not, or is the domain itself. */
static size_t site_name_under(struct s3_str host, struct s3_str domain)
{
        size_t least = domain.len + 1;

        if (host.len <= least || host.data[host.len - least] != '.' ||
            !s3_str_eq_nocase((struct s3_str){host.data + host.len - domain.len, domain.len}, domain))
                return 0;
        return host.len - least;
}

static bool site_under_domain(const struct gw_domains *domains, struct s3_str host, struct s3_str *bucket)
{
        size_t longest = 0;
        bool found = false;

        *bucket = (struct s3_str){host.data, 0};
        for (unsigned i = 0; i < domains->count; i++) {
                struct s3_str domain = domains->list[i];
                size_t name = site_name_under(host, domain);

                if ((name == 0 && !s3_str_eq_nocase(host, domain)) || domain.len < longest)
                        continue;
                found = true;
                longest = domain.len;
                bucket->len = name;
        }
        return found;
}

static bool site_is_listed(const struct gw_domains *hosts, struct s3_str host)
{
        for (unsigned i = 0; i < hosts->count; i++) {
                struct s3_str entry = hosts->list[i];

                if (entry.data[0] == '.' ? site_name_under(host, (struct s3_str){entry.data + 1, entry.len - 1}) > 0
                                         : s3_str_eq_nocase(host, entry))
                        return true;
        }
        return false;
}

bool gw_site_host(const struct gw_gateway *gw, struct s3_str host, struct s3_str *bucket)
{
        if (host.len == 0 || gw->site_domains.count + gw->site_hosts.count == 0)
                return false;
        if (site_is_listed(&gw->site_hosts, host)) {
                *bucket = host;
                return true;
        }
        return site_under_domain(&gw->site_domains, host, bucket);
}

/* A key longer than any object's is one that no object has: pages of errors show it cut off. */
static enum s3_error site_key(struct gw_request *req)
{
        struct s3_str path = {req->cut.path.data + 1, req->cut.path.len - 1};
        char key[S3_KEY_MAX];
        int len = s3_percent_decode(path, false, key, sizeof(key));

        if (len == -ENOBUFS)
                return S3_ERR_KEY_TOO_LONG;
        if (len < 0 || !s3_utf8_valid((struct s3_str){key, (size_t)len}))
                return S3_ERR_INVALID_URI;
        req->key = (struct s3_str){gw_copy(req, (struct s3_str){key, (size_t)len}), (size_t)len};
        return req->key.data != NULL ? S3_OK : S3_ERR_SLOW_DOWN;
}

enum s3_error gw_site_address(struct gw_request *req, const struct s3_authority *authority, struct s3_str bucket)
{
        char *name = gw_copy(req, bucket);

        req->site = req->virtual_host = true;
        req->site_host = authority->has_port
                                 ? gw_printf(req, "%.*s:%u", (int)authority->host.len, authority->host.data, authority->port)
                                 : gw_copy(req, authority->host);
        if (name == NULL || req->site_host == NULL)
                return S3_ERR_SLOW_DOWN;
        for (size_t i = 0; i < bucket.len; i++)
                if (name[i] >= 'A' && name[i] <= 'Z')
                        name[i] = (char)(name[i] - 'A' + 'a');
        req->bucket = (struct s3_str){name, bucket.len};
        if (req->cut.path.data[0] != '/')
                return S3_ERR_INVALID_URI;
        return site_key(req);
}
