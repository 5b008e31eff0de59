/*
 * reply.h - making answers. Every operation ends in exactly one of the gw_reply_*() calls.
 */
#ifndef GATEWAY_HTTP_REPLY_H
#define GATEWAY_HTTP_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "gateway/http/error.h"
#include "s3.h"

struct gw_request;

#define GW_ANSWER_HEADERS 160u /* of user metadata at most 2 KiB come back, and some 30 others */

enum gw_answer_body { GW_ANSWER_EMPTY, GW_ANSWER_BUFFER, GW_ANSWER_KEPT, GW_ANSWER_STREAM, GW_ANSWER_LENGTH_ONLY };

struct gw_answer_header {
        const char *name, *value;
};

/* An answer being prepared. owner: its request */
struct gw_answer {
        unsigned status;                /* 0: none yet */
        const char *error_code;         /* for the access log */
        enum gw_answer_body body;
        char *buffer;                   /* malloc'ed; the library's once queued */
        const void *bytes;              /* kept by */
        void *kept;                     /* the engine's (eng_get_keep()); the library's once queued */
        uint64_t size;
        uint64_t booked;                /* of the memory of all answers (budget.h) */
        ssize_t (*reader)(void *cls, uint64_t pos, char *buf, size_t max); /* of a stream; cls is the request */
        struct gw_answer_header *headers; /* in the arena */
        unsigned header_count, header_room;
};

/* Adds a header; strings must live as long as the request. */
void gw_reply_header(struct gw_request *req, const char *name, const char *value);
void gw_reply_header_str(struct gw_request *req, const char *name, struct s3_str value); /* copies */
void gw_reply_header_uint(struct gw_request *req, const char *name, uint64_t value);

void gw_reply_empty(struct gw_request *req, unsigned status);
/* Takes the buffer over. */
void gw_reply_buffer(struct gw_request *req, unsigned status, char *buffer, size_t len);
/* Bytes that stay where they are as long as kept (eng_get_keep()), which is taken over. */
void gw_reply_kept(struct gw_request *req, unsigned status, const void *bytes, size_t len, void *kept);
/* Takes the text over; an error that stuck to it becomes an error answer. */
void gw_reply_xml(struct gw_request *req, unsigned status, struct s3_xml *xml);
/* size bytes from req->get, started already. */
void gw_reply_stream(struct gw_request *req, unsigned status, uint64_t size);
/*
 * Bytes of no length known beforehand, from a content reader of the library's; what it gets is the
 * request.
 */
void gw_reply_chunks(struct gw_request *req, unsigned status,
                     ssize_t (*reader)(void *cls, uint64_t pos, char *buf, size_t max));
/* Answer of a HEAD: the length, no bytes. */
void gw_reply_length(struct gw_request *req, unsigned status, uint64_t size);
/*
 * An error document; message NULL: the default one. extra: markup within <Error>, or NULL. What is
 * open towards the engine is closed.
 */
void gw_reply_error(struct gw_request *req, enum s3_error error, const char *message);
void gw_reply_error_extra(struct gw_request *req, enum s3_error error, const char *message, const char *extra);

/* Answers with the error of a result. */
void gw_reply_errno(struct gw_request *req, int rv, enum gw_about about);
void gw_reply_no_memory(struct gw_request *req);

/* InvalidArgument, and which argument it was. message NULL: the default one. */
void gw_reply_argument(struct gw_request *req, const char *name, struct s3_str value, const char *message);
/*
 * Elements for extra: one or two (name2 may be NULL), escaped; what belongs to an error by itself
 * (NULL: nothing). NULL: no memory.
 */
const char *gw_detail(struct gw_request *req, const char *name, struct s3_str value, const char *name2,
                      struct s3_str value2);
/* The same for elements that the caller has written; frees xml. */
const char *gw_detail_xml(struct gw_request *req, struct s3_xml *xml);
const char *gw_detail_of(struct gw_request *req, enum s3_error error);

bool gw_answered(const struct gw_request *req);

/*
 * Library side: makes a response of the answer and queues it. False: the connection must be closed.
 */
bool gw_reply_queue(struct gw_request *req);
/*
 * Writes an error answer past the library, in the middle of a request body. False: it could not be
 * sent. For gw_conn_answer().
 */
bool gw_reply_raw(struct gw_request *req);

#endif
