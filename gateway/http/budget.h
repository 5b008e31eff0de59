/*
 * budget.h - memory that answers hold until the last byte is sent.
 */
#ifndef GATEWAY_HTTP_BUDGET_H
#define GATEWAY_HTTP_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gw_gateway;
struct gw_loop;
struct gw_request;

#define GW_UNCOUNTED 4096u /* answers and uploads up to this count as part of their connection, whose number is bounded */

/*
 * Before an answer of `size` bytes is made, or once it is: books what is not booked yet, until the
 * request is freed. False: the budget is used up (remembered: see gw_answers_wanted()). One answer
 * always fits. Who has not signed gets what is left of a small share, and nothing is remembered.
 */
bool gw_answer_book(struct gw_request *req, size_t size);
/* The answer is made: what was booked for it beyond its size is given back. */
void gw_answer_fits(struct gw_request *req, size_t size);
/*
 * For an operation whose work needs memory before there is an answer: go() is called once `size`
 * bytes are booked, now or later. Who waits for too long, or comes when too many wait, is answered
 * SlowDown; and so are strangers who would have to wait. The request is at work (GW_RUN).
 */
void gw_answer_reserve(struct gw_request *req, size_t size, void (*go)(struct gw_request *req));
/* In each round of the loop: those in line go on for whom there is room. */
void gw_answers_serve(struct gw_loop *loop);
void gw_answer_unbook(struct gw_request *req);
/* Some were refused lately: who holds memory and does not read is not spared. */
bool gw_answers_wanted(struct gw_gateway *gw, uint64_t now);
/* The same of upload_memory (body.c). */
bool gw_uploads_wanted(struct gw_gateway *gw, uint64_t now);

#endif
