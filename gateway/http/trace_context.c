/*
 * trace_context.c - the traceparent header of W3C Trace Context: "00-TRACE_ID-PARENT_ID-FLAGS".
 * Pure; any thread.
 *
 * A header that is not exactly well-formed is as good as none, as the specification demands. The
 * ids are hexadecimal digits and nothing else, so that they can stand in a line of a log as they
 * are.
 */
#include "gateway/http/trace_context.h"

#define VERSION_LEN 2u
#define TRACE_LEN   32u
#define PARENT_LEN  16u
#define FLAGS_LEN   2u
#define TRACE_AT    (VERSION_LEN + 1)
#define PARENT_AT   (TRACE_AT + TRACE_LEN + 1)
#define FLAGS_AT    (PARENT_AT + PARENT_LEN + 1)
#define ALL_LEN     (FLAGS_AT + FLAGS_LEN)

static bool is_lower_hex(const char *text, size_t len)
{
        for (size_t i = 0; i < len; i++)
                if ((text[i] < '0' || text[i] > '9') && (text[i] < 'a' || text[i] > 'f'))
                        return false;
        return true;
}

static bool all_zero(const char *text, size_t len)
{
        for (size_t i = 0; i < len; i++)
                if (text[i] != '0')
                        return false;
        return true;
}

/* A later version may say more behind another dash; version ff is forbidden. */
static bool version_fits(struct s3_str value)
{
        struct s3_str version = {value.data, VERSION_LEN};

        if (s3_str_eq(version, S3_STR("00")))
                return value.len == ALL_LEN;
        return !s3_str_eq(version, S3_STR("ff")) && (value.len == ALL_LEN || value.data[ALL_LEN] == '-');
}

static bool traceparent_parse(struct s3_str value, struct gw_trace_context *out)
{
        const char *p = value.data;

        if (value.len < ALL_LEN || !is_lower_hex(p, VERSION_LEN) || !version_fits(value))
                return false;
        if (p[TRACE_AT - 1] != '-' || p[PARENT_AT - 1] != '-' || p[FLAGS_AT - 1] != '-')
                return false;
        if (!is_lower_hex(p + TRACE_AT, TRACE_LEN) || !is_lower_hex(p + PARENT_AT, PARENT_LEN) ||
            !is_lower_hex(p + FLAGS_AT, FLAGS_LEN))
                return false;
        if (all_zero(p + TRACE_AT, TRACE_LEN) || all_zero(p + PARENT_AT, PARENT_LEN))
                return false;
        memcpy(out->trace_id, p + TRACE_AT, TRACE_LEN);
        out->trace_id[TRACE_LEN] = '\0';
        memcpy(out->parent_id, p + PARENT_AT, PARENT_LEN);
        out->parent_id[PARENT_LEN] = '\0';
        return true;
}

bool gw_trace_context_of(const struct s3_header *headers, unsigned count, struct gw_trace_context *out)
{
        const struct s3_header *found = NULL;

        for (unsigned i = 0; i < count; i++) {
                if (!s3_str_eq_nocase(headers[i].name, S3_STR("traceparent")))
                        continue;
                if (found != NULL)
                        return false;
                found = &headers[i];
        }
        return found != NULL && traceparent_parse(s3_str_trim(found->value), out);
}
