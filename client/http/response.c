/*
 * response.c - an answer's status, headers and, where nothing else takes it, body. On the thread
 * that has the request. Bounded (I9): headers beyond the first dozens are left out, a body beyond
 * 16 MiB is -EPROTO.
 */
#include "client/http/client_request.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *mr_response_header(const struct mr_response *response, const char *name)
{
        for (unsigned i = 0; i < response->header_count; i++)
                if (strcmp(response->header[i].name, name) == 0)
                        return response->header[i].value;
        return NULL;
}

void mr_response_clear(struct mr_response *response)
{
        for (unsigned i = 0; i < response->header_count; i++) {
                free(response->header[i].name);
                free(response->header[i].value);
        }
        response->header_count = 0;
        response->status = 0;
        response->body_len = 0;
        if (response->body != NULL)
                response->body[0] = '\0';
}

void mr_response_free(struct mr_response *response)
{
        mr_response_clear(response);
        free(response->body);
        memset(response, 0, sizeof(*response));
}

/* Metadata beyond ASCII comes as words of RFC 2047; programs want what was stored. */
static void decode_metadata(const struct mr_header *header)
{
        ssize_t n;

        if (strncmp(header->name, "x-amz-meta-", 11) != 0)
                return;
        n = s3_words_decode(s3_str_of(header->value), header->value);
        if (n >= 0)
                header->value[n] = '\0';
}

static int response_add_header(struct mr_response *response, struct s3_str name, struct s3_str value)
{
        struct mr_header *header = &response->header[response->header_count];

        if (response->header_count == MR_HEADERS_MAX)
                return 0; /* what we look for comes in the first dozen */
        header->name = strndup(name.data, name.len);
        header->value = strndup(value.data, value.len);
        if (header->name == NULL || header->value == NULL) {
                free(header->name);
                free(header->value);
                return -ENOMEM;
        }
        for (char *c = header->name; *c != '\0'; c++)
                *c = (char)tolower((unsigned char)*c);
        decode_metadata(header);
        response->header_count++;
        return 0;
}

int mr_response_add_line(struct mr_response *response, const char *data, size_t len)
{
        struct s3_str line = {data, len};
        const char *colon;

        if (line.len > 5 && strncmp(data, "HTTP/", 5) == 0) { /* also after a 100 Continue: only the last counts */
                const char *space = memchr(data, ' ', line.len);

                mr_response_clear(response);
                response->status = space != NULL ? atoi(space + 1) : 0;
                return 0;
        }
        while (line.len > 0 && (line.data[line.len - 1] == '\n' || line.data[line.len - 1] == '\r'))
                line.len--;
        colon = memchr(line.data, ':', line.len);
        if (colon == NULL)
                return 0;
        return response_add_header(response, (struct s3_str){line.data, (size_t)(colon - line.data)},
                                   s3_str_trim((struct s3_str){colon + 1, line.len - (size_t)(colon - line.data) - 1}));
}

int mr_response_add_body(struct mr_response *response, const void *data, size_t len)
{
        size_t need = response->body_len + len + 1;
        size_t cap = response->body_cap;
        char *grown;

        if (need > MR_ANSWER_MAX)
                return -EPROTO;
        if (need > cap) {
                cap = cap * 2 > need ? cap * 2 : need + 4096;
                grown = realloc(response->body, cap);
                if (grown == NULL)
                        return -ENOMEM;
                response->body = grown;
                response->body_cap = cap;
        }
        memcpy(response->body + response->body_len, data, len);
        response->body_len += len;
        response->body[response->body_len] = '\0';
        return 0;
}

int mr_failure_of_answer(const struct mr_response *response, struct mr_error *err)
{
        return mr_failure_of_document(response->status, response->body, response->body_len,
                                      mr_response_header(response, "x-amz-request-id"), err);
}
