/*
 * operation.c - operations by number, as counters and trace records have them. Pure; any thread.
 */
#include "gateway/http/operation.h"

const struct gw_op gw_op_none = {.name = "None", .method = ""};

unsigned gw_op_index(const struct gw_service *service, const struct gw_op *op)
{
        return op == &gw_op_none ? *service->op_count : (unsigned)(op - service->ops);
}

const struct gw_op *gw_op_at(const struct gw_service *service, unsigned index)
{
        return index < *service->op_count ? &service->ops[index] : &gw_op_none;
}
