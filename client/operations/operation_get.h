/*
 * operation_get.h - what reads of one object and of many have in common. Private to operation_get.c
 * and operation_batch.c.
 */
#ifndef CLIENT_OPERATION_GET_H
#define CLIENT_OPERATION_GET_H

#include "client/operations/client_operation.h"
#include "client/transfer/download.h"

/* -EINVAL: it asks for what cannot be. */
int mr_get_check(const struct mr_get *get);
/* The download that it is, of which only done is to be set. Strings are referenced. */
void mr_get_download(struct mr_op *op, const struct mr_get *get, char *memory, struct mr_buffer *buffer,
                     struct mr_download *out);

#endif
