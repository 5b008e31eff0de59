/*
 * fuzz_etcd_answer.c - any bytes as an answer of etcd: the first one says to what. What is believed
 * of it fits what was asked.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/etcd_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct cl_op fuzz_success[] = {{.kind = CL_OP_PUT, .key = {"a", 1}, .value = {"x", 1}},
                                            {.kind = CL_OP_RANGE, .key = {"a", 1}, .prefix = true},
                                            {.kind = CL_OP_DELETE, .key = {"b", 1}}};
static const struct cl_op fuzz_failure[] = {{.kind = CL_OP_RANGE, .key = {"a", 1}}};
static const struct cl_compare fuzz_compare = {.kind = CL_COMPARE_MOD, .key = {"a", 1}};

static void check_keys(const struct cl_keys *keys, bool prefix, int64_t newest)
{
        size_t i;

        assert(keys->count <= CL_PAGE_KEYS && (prefix || keys->count <= 1));
        for (i = 0; i < keys->count; i++) {
                const struct cl_key *key = &keys->at[i];

                assert(key->key.len > 0 && key->key.len <= CL_KEY_MAX && *(const char *)key->key.data == 'a');
                assert(prefix || key->key.len == 1);
                assert(key->mod_revision > 0 && key->mod_revision <= newest && key->version > 0);
                assert(key->create_revision > 0 && key->create_revision <= key->mod_revision);
        }
}

static void check_page(struct s3_str body, bool prefix)
{
        struct cl_request request = {.kind = CL_RANGE, .key = {"a", 1}, .prefix = prefix};
        struct cl_answer *answer = cl_answer_new(1);
        struct etcd_header header;
        const char *why = NULL;
        bool more;

        assert(answer != NULL);
        if (etcd_read_page(body, &request, answer, &header, &more, &why) == 0) {
                assert(header.cluster_id != 0 && header.revision > 0 && (!more || answer->ranges[0].count > 0));
                check_keys(&answer->ranges[0], prefix, header.revision);
        }
        cl_answer_free(answer);
}

static void check_txn(struct s3_str body)
{
        struct cl_request request = {.kind = CL_TXN,
                                     .compares = &fuzz_compare,
                                     .compare_count = 1,
                                     .success = fuzz_success,
                                     .success_count = 3,
                                     .failure = fuzz_failure,
                                     .failure_count = 1};
        struct cl_answer *answer = NULL;
        struct etcd_header header;
        const char *why;

        if (etcd_read_txn(body, &request, &answer, &header, &why) == 0) {
                assert(answer->range_count == 1 && header.cluster_id != 0 && header.revision > 0);
                check_keys(&answer->ranges[0], answer->succeeded, header.revision);
        } else {
                assert(answer == NULL);
        }
        cl_answer_free(answer);
}

static void check_status(struct s3_str body)
{
        struct etcd_header header;
        struct cl_status status;
        const char *why;

        if (etcd_read_status(body, &status, &header, &why) == 0)
                assert(memchr(status.version, '\0', sizeof(status.version)) != NULL && status.db_size >= 0);
}

static void check_token(struct s3_str body)
{
        char token[ETCD_TOKEN_MAX];
        const char *why;

        if (etcd_read_token(body, token, &why) == 0)
                assert(*token != '\0' && strlen(token) < sizeof(token) && strpbrk(token, "\r\n ") == NULL);
}

static void check_refusal(struct s3_str body)
{
        char text[CL_TEXT_MAX];

        assert(etcd_read_refusal(400, body, text) <= ETCD_UNCLEAR);
        assert(memchr(text, '\0', sizeof(text)) != NULL && strchr(text, '\n') == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct s3_str body;
        char *exact;

        if (size == 0)
                return 0;
        exact = malloc(size);
        if (exact == NULL)
                abort();
        memcpy(exact, data + 1, size - 1);
        body = (struct s3_str){exact, size - 1};
        switch (data[0] % 6) {
        case 0:
        case 1:
                check_page(body, data[0] % 6 == 1);
                break;
        case 2:
                check_txn(body);
                break;
        case 3:
                check_status(body);
                break;
        case 4:
                check_token(body);
                break;
        default:
                check_refusal(body);
        }
        free(exact);
        return 0;
}
