/*
 * admin_parameters.c - the query parameters of a call to the admin listener. On the admin thread.
 *
 * A parameter counts only where it is given exactly once: of two values nobody knows which one was
 * meant.
 */
#include "server/admin_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct admin_parameters *srv_admin_parameters(const struct admin_request *request)
{
        struct admin_parameters *p = malloc(sizeof(*p));

        if (p != NULL && s3_query_parse(request->parts.query, p->text, sizeof(p->text), &p->query) != S3_OK) {
                free(p);
                return NULL;
        }
        return p;
}

bool srv_admin_parameter(const struct admin_parameters *p, const char *name, char *out, size_t cap)
{
        const struct s3_query_param *found = s3_query_find(&p->query, name);

        if (found == NULL || s3_query_count(&p->query, name) != 1 || found->value.len >= cap ||
            memchr(found->value.data, 0, found->value.len) != NULL)
                return false;
        memcpy(out, found->value.data, found->value.len);
        out[found->value.len] = '\0';
        return true;
}

bool srv_admin_parameter_number(const struct admin_parameters *p, const char *name, uint64_t *out)
{
        char text[24], *end;

        if (!srv_admin_parameter(p, name, text, sizeof(text)) || text[0] < '0' || text[0] > '9')
                return false;
        errno = 0;
        *out = strtoull(text, &end, 10);
        return errno == 0 && *end == '\0';
}
