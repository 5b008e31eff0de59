/*
 * operation.c - operations by number, as counters and trace records have them. Pure; any thread.
 */
#include "gateway/http/operation.h"

#include <stdint.h>

const struct gw_op gw_op_none = {.name = "None", .method = ""};

unsigned gw_op_index(const struct gw_service *service, const struct gw_op *op)
{
        uintptr_t at = (uintptr_t)op, first = (uintptr_t)service->ops;

        if (at < first || at >= (uintptr_t)(service->ops + *service->op_count))
                return *service->op_count;
        return (unsigned)(op - service->ops);
}

const struct gw_op *gw_op_at(const struct gw_service *service, unsigned index)
{
        return index < *service->op_count ? &service->ops[index] : &gw_op_none;
}
