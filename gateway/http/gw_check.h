/*
 * gw_check.h - what comes back through a void * is what was handed over: an object has the number
 * of its kind from its beginning on, and who gets it back compares it. A mismatch is a bug of the
 * gateway's, never of who calls it. Requests have a number of their own (http_request.h).
 */
#ifndef GATEWAY_HTTP_GW_CHECK_H
#define GATEWAY_HTTP_GW_CHECK_H

#include <assert.h>
#include <stddef.h>

/* Each is named after its struct. No number is what zeroed or freed memory tends to hold. */
enum gw_magic {
        attributes_magic = 0x67770101,
        acl_work_magic,
        complete_magic,
        extras_work_magic,
        get_work_magic,
        gw_batch_magic,
        gw_batch_slot_magic,
        gw_completed_magic,
        gw_copying_magic,
        gw_entry_magic,
        gw_new_bucket_magic,
        gw_lifecycle_magic,
        gw_inventory_magic,
        gw_log_batch_magic,
        gw_own_magic,
        gw_executor_magic,
        gw_queue_magic,
        gw_bounce_magic,
        gw_bounce_slot_magic,
        gw_work_item_magic,
        gw_transfer_magic,
        item_magic,
        site_work_magic,
        lifecycle_due_magic,
        list_magic,
        list_work_magic,
        many_magic,
        parts_magic,
        policy_work_magic,
        put_work_magic,
        rules_work_magic,
        text_work_magic,
        uploads_magic,
};

/* Asserts that an object is there and is of its struct's kind: GW_CHECK(gw_batch, batch). */
#define GW_CHECK(tag, object) assert((object)->magic == tag##_magic)

/*
 * A void * as a pointer to struct tag, checked: struct get_work *work = GW_CAST(get_work,
 * req->work).
 */
#define GW_CAST(tag, arg)                                                                                              \
        ({                                                                                                             \
                struct tag *cast_ = (arg);                                                                             \
                GW_CHECK(tag, cast_);                                                                                  \
                cast_;                                                                                                 \
        })

#endif
