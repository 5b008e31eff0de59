/*
 * object_check.h - what comes back through a void * is what was handed over: an object has the
 * number of its kind from its beginning on, and callbacks compare it. A mismatch is a bug of the
 * library's, never of who calls it.
 */
#ifndef CLIENT_OBJECT_CHECK_H
#define CLIENT_OBJECT_CHECK_H

#include <assert.h>
#include <stddef.h>

/* Each is named after its struct. No number is what zeroed or freed memory tends to hold. */
enum mr_magic {
        close_op_magic = 0x6d720101,
        exchange_magic,
        get_op_magic,
        group_magic,
        message_magic,
        mr_batch_fetch_magic,
        mr_batch_item_magic,
        mr_batch_op_magic,
        mr_batch_slot_magic,
        mr_buffer_magic,
        mr_connection_magic,
        mr_download_magic,
        mr_fetch_magic,
        mr_grant_magic,
        mr_loop_magic,
        mr_message_magic,
        mr_multipart_magic,
        mr_op_magic,
        mr_page_magic,
        mr_part_upload_magic,
        mr_putting_magic,
        mr_request_magic,
        mr_send_magic,
        mr_span_magic,
        mr_transfer_magic,
        mr_upload_steps_magic,
        part_op_magic,
        piece_magic,
        probe_magic,
        put_op_magic,
        slot_magic,
        small_op_magic,
};

/* Asserts that an object is there and is of its struct's kind: MR_CHECK(mr_fetch, fetch). */
#define MR_CHECK(tag, object) assert((object)->magic == tag##_magic)

/* A void * as a pointer to struct tag, checked: struct mr_fetch *fetch = MR_CAST(mr_fetch, arg). */
#define MR_CAST(tag, arg)                                                                                              \
        ({                                                                                                             \
                struct tag *cast_ = (arg);                                                                             \
                MR_CHECK(tag, cast_);                                                                                  \
                cast_;                                                                                                 \
        })

#endif
