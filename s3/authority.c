/*
 * Whom a request is sent to: the one place that reads the Host header and the authority of an
 * absolute-form target. The gateway asks here for every request, on the loop that received it,
 * before anything is routed: a signature covers the Host header, so nothing else may choose the
 * bucket.
 */
#include <arpa/inet.h>

#include "s3_internal.h"

#define HOST_MAX 255u /* bytes of a name, as in DNS */
#define PORT_MAX 65535u

static bool is_name_byte(char c)
{
        return s3_is(c, S3_CLASS_UNRESERVED);
}

/*
 * "name" without the final dot of a full domain name. Neither "" nor "." is a name, and no label
 * between dots is empty.
 */
static bool parse_name(struct s3_str text, struct s3_str *out)
{
        if (text.len > 0 && text.data[text.len - 1] == '.')
                text.len--;
        if (text.len == 0 || text.len > HOST_MAX || text.data[text.len - 1] == '.' || text.data[0] == '.')
                return false;
        for (size_t i = 0; i < text.len; i++)
                if (!is_name_byte(text.data[i]) || (text.data[i] == '.' && text.data[i + 1] == '.'))
                        return false;
        *out = text;
        return true;
}

/* "[address]" as it stands; a zone means nothing to the other end of a connection and is none. */
static bool parse_literal(struct s3_str text, struct s3_str *out)
{
        char address[INET6_ADDRSTRLEN];
        struct in6_addr ignored;

        if (text.len < 2 || text.len - 2 >= sizeof(address))
                return false;
        memcpy(address, text.data + 1, text.len - 2);
        address[text.len - 2] = '\0';
        if (memchr(address, '\0', text.len - 2) != NULL || inet_pton(AF_INET6, address, &ignored) != 1)
                return false;
        *out = text;
        return true;
}

/* "host" and "host:" name no port. */
static bool parse_port(struct s3_str text, struct s3_authority *out)
{
        uint64_t port;

        if (text.len == 0)
                return true;
        if (text.len > 5 || s3_parse_uint(text, PORT_MAX, &port) != 0)
                return false;
        out->has_port = true;
        out->port = (uint16_t)port;
        return true;
}

bool s3_authority_parse(struct s3_str text, struct s3_authority *out)
{
        struct s3_str host = text, port = {NULL, 0};
        const char *end;

        *out = (struct s3_authority){0};
        if (text.len > 0 && text.data[0] == '[') {
                end = memchr(text.data, ']', text.len);
                if (end == NULL)
                        return false;
                host.len = (size_t)(end - text.data) + 1;
                port = (struct s3_str){end + 1, text.len - host.len};
                if (port.len > 0 && port.data[0] != ':')
                        return false;
                if (port.len > 0)
                        port = (struct s3_str){port.data + 1, port.len - 1};
                return parse_literal(host, &out->host) && parse_port(port, out);
        }
        host = s3_str_cut(text, ':', &port);
        return parse_name(host, &out->host) && parse_port(port, out);
}

bool s3_authority_equal(const struct s3_authority *a, const struct s3_authority *b)
{
        return s3_str_eq_nocase(a->host, b->host) && a->has_port == b->has_port && a->port == b->port;
}

static enum s3_error authority_refuse(const char **message, const char *why)
{
        *message = why;
        return S3_ERR_BAD_REQUEST;
}

enum s3_error s3_authority_of_request(const struct s3_target *target, const struct s3_header *headers, size_t count,
                                      bool http10, struct s3_authority *out, const char **message)
{
        struct s3_str host = {NULL, 0};
        struct s3_authority in_target;
        unsigned hosts = 0;

        *out = (struct s3_authority){0};
        for (size_t i = 0; i < count; i++)
                if (s3_str_eq_nocase(headers[i].name, S3_STR("Host"))) {
                        host = s3_str_trim(headers[i].value);
                        hosts++;
                }
        if (hosts > 1 || (hosts == 0 && (!http10 || target->host.data != NULL)))
                return authority_refuse(message, "There must be one Host header");
        if (hosts == 1 && !s3_authority_parse(host, out))
                return authority_refuse(message, "The Host header is not well-formed");
        if (target->host.data == NULL)
                return S3_OK;
        if (!s3_authority_parse(target->host, &in_target) || !s3_authority_equal(&in_target, out))
                return authority_refuse(message, "The Host header and the request target name different hosts");
        return S3_OK;
}
