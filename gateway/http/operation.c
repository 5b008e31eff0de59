/*
 * operation.c - operations by number, as counters and trace records have them. Pure; any thread.
 */
#include "gateway/http/operation.h"

#include <stdint.h>

const struct gw_op gw_op_none = {.name = "None", .method = ""};

unsigned gw_op_index(const struct gw_service *service, const struct gw_op *op)
{
        uintptr_t at = (uintptr_t)op, first = (uintptr_t)service->ops;

        if (at >= first && at < (uintptr_t)(service->ops + *service->op_count))
                return (unsigned)(op - service->ops);
        for (unsigned i = 0; service->others != NULL && service->others[i] != NULL; i++)
                if (service->others[i] == op)
                        return *service->op_count + 1 + i;
        return *service->op_count;
}

unsigned gw_op_numbers(const struct gw_service *service)
{
        unsigned count = *service->op_count + 1;

        for (unsigned i = 0; service->others != NULL && service->others[i] != NULL; i++)
                count++;
        return count;
}

const struct gw_op *gw_op_at(const struct gw_service *service, unsigned index)
{
        if (index < *service->op_count)
                return &service->ops[index];
        return index > *service->op_count && index < gw_op_numbers(service)
                       ? service->others[index - *service->op_count - 1]
                       : &gw_op_none;
}
