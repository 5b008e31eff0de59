/*
 * send.h - a request whose body is bytes at hand (a PUT, or a part), by whatever transport. Private
 * to client/transfer/.
 */
#ifndef CLIENT_SEND_H
#define CLIENT_SEND_H

#include "client/http/client_request.h"
#include "client/rdma/bounce_buffers.h"
#include "client/rdma/connection.h"
#include "client/base/object_check.h"

/*
 * owner: the caller until mr_send_start(), and again from the request's done() on. Zeroed by the
 * caller, but for what it sets.
 */
struct mr_send {
        unsigned magic; /* object_check.h */
        struct mr_request *
                request; /* ready to be started, without check() or sink(): its body is sent, or read by the server. done() is called as ever */
        enum mr_transport transport;
        struct mr_buffer *
                buffer; /* where request->data is registered, at buffer_at of it; NULL: nowhere. A dma-buf has no data */
        uint64_t buffer_at;

        enum mr_transport carried; /* what came of it */

        /* private to send_rdma.c */
        struct mr_client *client;
        struct mr_grant grant;
        struct mr_bounce_wait bounce;
        struct mr_job job;
        bool bounced, insist, declined;
        unsigned attempts, headers;
        int rv;
        char number[24], place[RDX_PLACE_TEXT + 1];
        void (*done)(void *arg, struct mr_request *request, int rv);
        void *done_arg;
};

/*
 * As mr_request_start(). RDMA, where it is asked for, or suits; what is declined, or fails without
 * having been insisted on, goes over TCP.
 */
int mr_send_start(struct mr_client *client, struct mr_send *send);

#endif
