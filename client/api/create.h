/* create.h - makes a client of its settings. Private to client/api/. */
#ifndef CLIENT_CREATE_H
#define CLIENT_CREATE_H

#include "client/base/core.h"

struct mr_core_options {
        unsigned threads;
        struct mr_creds *creds; /* belongs to the client once it was made */
};

/* Checks and copies settings. -EINVAL, -ENOMEM. */
int mr_core_new(const struct mr_settings *settings, const struct mr_core_options *options, struct mr_client **out);

#endif
