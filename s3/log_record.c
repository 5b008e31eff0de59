/*
 * log_record.c - records of a bucket's access log. Called by the gateway when a request is over; pure.
 *
 * Fields are separated by spaces and lines by line feeds, and clients choose many of the bytes: whatever
 * could end a field early is percent-encoded (G2 in docs/design/access-logs.md).
 */
#include "s3_log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

struct record {
        char *out;
        size_t at, cap;
        bool full;
};

static void record_put(struct record *r, const char *bytes, size_t len)
{
        if (len > r->cap - r->at) {
                r->full = true;
                return;
        }
        memcpy(r->out + r->at, bytes, len);
        r->at += len;
}

static __attribute__((format(printf, 2, 3))) void record_format(struct record *r, const char *format, ...)
{
        char text[160];
        va_list args;
        int len;

        va_start(args, format);
        len = vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        record_put(r, text, len > 0 && (size_t)len < sizeof(text) ? (size_t)len : 0);
}

static void record_encoded(struct record *r, unsigned char c)
{
        record_format(r, "%%%02X", c);
}

/* A field of ours, or one that has no choice of bytes: blanks and what is not ASCII are encoded all the same. */
static void record_field(struct record *r, struct s3_str text)
{
        if (text.len == 0)
                record_put(r, "-", 1);
        for (size_t i = 0; i < text.len; i++) {
                unsigned char c = (unsigned char)text.data[i];

                if (c > ' ' && c < 0x7f && c != '"')
                        record_put(r, (const char *)&c, 1);
                else
                        record_encoded(r, c);
        }
        record_put(r, " ", 1);
}

static void record_key(struct record *r, struct s3_str key)
{
        for (size_t i = 0; i < key.len; i++) {
                unsigned char c = (unsigned char)key.data[i];
                bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                            (c != '\0' && strchr("-_.~/", c) != NULL);

                if (kept)
                        record_put(r, (const char *)&c, 1);
                else
                        record_encoded(r, c);
        }
        record_put(r, key.len > 0 ? " " : "- ", key.len > 0 ? 1 : 2);
}

/* What stands within quotes: spaces do no harm there. */
static void record_within(struct record *r, struct s3_str text)
{
        size_t len = text.len < S3_LOG_FIELD_MAX ? text.len : S3_LOG_FIELD_MAX;

        for (size_t i = 0; i < len; i++) {
                unsigned char c = (unsigned char)text.data[i];

                if (c >= ' ' && c != 0x7f && c != '"')
                        record_put(r, (const char *)&c, 1);
                else
                        record_encoded(r, c);
        }
}

static void record_quoted(struct record *r, struct s3_str text)
{
        record_put(r, "\"", 1);
        record_within(r, text.len > 0 ? text : S3_STR("-"));
        record_put(r, "\" ", 2);
}

static void record_number(struct record *r, bool has, uint64_t number)
{
        if (has)
                record_format(r, "%" PRIu64 " ", number);
        else
                record_put(r, "- ", 2);
}

static struct tm date_of(int64_t ms)
{
        time_t seconds = (time_t)(ms / 1000);
        struct tm date = {0};

        gmtime_r(&seconds, &date);
        return date;
}

static void record_time(struct record *r, int64_t ms)
{
        static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
        struct tm date = date_of(ms);

        record_format(r, "[%02d/%s/%04d:%02d:%02d:%02d +0000] ", date.tm_mday, months[date.tm_mon], date.tm_year + 1900,
                      date.tm_hour, date.tm_min, date.tm_sec);
}

ssize_t s3_log_record(const struct s3_log_facts *f, char *out, size_t cap)
{
        struct record r = {.out = out, .cap = cap};

        record_field(&r, f->owner);
        record_field(&r, f->bucket);
        record_time(&r, f->time_ms);
        record_field(&r, f->remote);
        record_field(&r, f->requester);
        record_field(&r, f->request_id);
        record_field(&r, f->operation);
        record_key(&r, f->key);
        record_put(&r, "\"", 1);
        record_within(&r, f->method);
        record_put(&r, " ", 1);
        record_within(&r, f->target);
        record_format(&r, " HTTP/1.%d\" ", f->http10 ? 0 : 1);
        record_number(&r, f->status != 0, f->status);
        record_field(&r, f->error_code);
        record_number(&r, f->bytes_sent != 0, f->bytes_sent);
        record_number(&r, f->has_size, f->object_size);
        record_number(&r, true, f->total_ms);
        record_number(&r, true, f->turn_ms);
        record_quoted(&r, f->referer);
        record_quoted(&r, f->user_agent);
        record_field(&r, f->version_id);
        record_field(&r, f->host_id);
        record_field(&r, f->signature);
        record_field(&r, f->cipher);
        record_field(&r, f->auth_type);
        record_field(&r, f->host);
        record_field(&r, f->tls);
        record_put(&r, "- ", 2); /* access point */
        record_put(&r, f->acl_required ? "Yes\n" : "-\n", f->acl_required ? 4 : 2);
        return r.full ? -ENOBUFS : (ssize_t)r.at;
}

ssize_t s3_log_name(const struct s3_log_name *name, char *out, size_t cap)
{
        struct record r = {.out = out, .cap = cap};
        struct tm at = date_of(name->by_event ? name->event_ms : name->delivery_ms);

        if (name->partitioned && name->by_event) /* AWS: of the day, without a time */
                at.tm_hour = at.tm_min = at.tm_sec = 0;
        record_put(&r, name->prefix.data != NULL ? name->prefix.data : "", name->prefix.len);
        if (name->partitioned) {
                record_put(&r, name->account.data, name->account.len);
                record_put(&r, "/", 1);
                record_put(&r, name->region.data, name->region.len);
                record_put(&r, "/", 1);
                record_put(&r, name->bucket.data, name->bucket.len);
                record_format(&r, "/%04d/%02d/%02d/", at.tm_year + 1900, at.tm_mon + 1, at.tm_mday);
        }
        record_format(&r, "%04d-%02d-%02d-%02d-%02d-%02d-%016" PRIX64, at.tm_year + 1900, at.tm_mon + 1, at.tm_mday,
                      at.tm_hour, at.tm_min, at.tm_sec, name->unique);
        record_put(&r, "", 1);
        return r.full ? -ENOBUFS : (ssize_t)r.at - 1;
}
