/*
 * lifecycle_run.h - what lifecycle rules make due is done: passes over the buckets that have rules.
 */
#ifndef GATEWAY_S3_LIFECYCLE_RUN_H
#define GATEWAY_S3_LIFECYCLE_RUN_H

#include "gateway.h"

/* owner: the gateway's first loop; figures: any thread */
struct gw_lifecycle;

/* After the loops have stopped. NULL is allowed. */
void gw_lifecycle_free(struct gw_lifecycle *run);

#endif
