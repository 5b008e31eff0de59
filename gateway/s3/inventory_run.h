/*
 * inventory_run.h - inventory reports are written (docs/design/inventory.md). All on the gateway's first
 * loop. Its beginning and its figures are in gateway.h.
 */
#ifndef GATEWAY_S3_INVENTORY_RUN_H
#define GATEWAY_S3_INVENTORY_RUN_H

#include "gateway/http/gw.h"

struct gw_inventory;

/* The loops have stopped. NULL is allowed. */
void gw_inventory_free(struct gw_inventory *run);

#endif
