/*
 * operation_put.h - what mr_put() and uploads in parts have in common. Private to
 * client/operations/.
 */
#ifndef CLIENT_OPERATION_PUT_H
#define CLIENT_OPERATION_PUT_H

#include "client/operations/client_operation.h"
#include "client/transfer/upload.h"

/* owner: an operation, whose texts its strings are */
struct mr_put_copy {
        struct mr_put_head head;
        struct mr_header metadata[MR_HEADERS_MAX / 2];
};

/* Of all but the place. -EINVAL. */
int mr_put_check(const struct mr_put *put);
/* -ENOMEM, -EINVAL. */
int mr_put_copy_head(struct mr_op *op, const struct mr_put *put, struct mr_put_copy *out);
/* Ends the operation with the result of a PUT. */
void mr_put_result(struct mr_op *op, int rv, const struct mr_put_done *done, const struct mr_error *err);

#endif
