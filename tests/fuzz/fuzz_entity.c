/*
 * fuzz_entity.c - any bytes as the text of an entity, as an ARN, and as whom an entry of a file means. What is read
 * keeps its bounds, and can be written, and is then the same.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/people/people_queue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(struct eng_str bytes)
{
        struct gw_entity *entity = gw_entity_decode(bytes), *again;
        char *text, *second;
        size_t len, second_len;
        int rv;

        if (entity == NULL)
                return;
        assert(gw_entity_name_valid(&entity->who));
        for (unsigned i = 0; i < GW_SETS; i++)
                assert(entity->sets[i].count <= (i == GW_SET_CLIENTS ? GW_CLIENTS_MAX : GW_ENTITY_SET_MAX));
        rv = gw_entity_encode(entity, &text, &len);
        assert(rv == 0 || rv == -E2BIG);
        if (rv == 0) {
                again = gw_entity_decode((struct eng_str){text, len});
                assert(again != NULL && gw_entity_same(&again->who, &entity->who));
                assert(gw_entity_encode(again, &second, &second_len) == 0);
                assert(len == second_len && memcmp(text, second, len) == 0);
                free(text);
                free(second);
                free(again);
        }
        free(entity);
}

static void check_arn(const uint8_t *data, size_t size)
{
        struct gw_entity_name who;
        char *arn = malloc(size + 1);

        if (arn == NULL)
                abort();
        memcpy(arn, data, size);
        arn[size] = '\0';
        if (gw_entity_of_arn(arn, &who) == 0)
                assert(gw_entity_name_valid(&who));
        free(arn);
}

static void check_terms(struct eng_str bytes)
{
        struct gw_people_terms *terms;
        struct eng_str rest = bytes;

        if (gw_terms_read(&rest, &terms) != 0)
                return;
        assert(rest.len <= bytes.len && rest.data + rest.len == bytes.data + bytes.len);
        assert(terms->count <= GW_PEOPLE_TERMS_MAX);
        for (unsigned i = 0; i < terms->count; i++)
                assert(gw_entity_name_valid(&terms->list[i].who) && terms->list[i].id[0] != '\0');
        free(terms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        check_terms((struct eng_str){(const char *)data, size});
        check_text((struct eng_str){(const char *)data, size});
        check_arn(data, size);
        return 0;
}
