/*
 * rdma_session.h - requests on RDMA sessions (docs/rdma-protocol.md): whose key signed them, which
 * window they name, and the bytes' way there.
 */
#ifndef GATEWAY_RDMA_RDMA_SESSION_H
#define GATEWAY_RDMA_RDMA_SESSION_H

#include "rdma.h"
#include "gateway/http/http_request.h"

struct gw_transfer;

#define GW_TOKEN_HEADER "x-amz-rdma-token"

/* What a request on a session says of itself. In the request's arena. owner: its loop */
struct gw_rdma {
        const struct rdx_token *token; /* it came by the header protocol, of no session; NULL: on a session */
        uint8_t session[RDX_ID_LEN];
        uint64_t number;
        struct rdx_window_span window; /* or the token's memory */
        bool connected;          /* its queue pairs are */
        bool declined;           /* answered in the body, for this reason: */
        enum rdx_decline reason;
        bool posted;                  /* memory was perhaps written */
        struct gw_transfer *transfer; /* from its begin until it ends or is dropped */
};

/* ---- rdma_session.c ---- */

/*
 * False: no session's access key, or the session is over. out: its secret, which stands for the
 * user that opened it.
 */
bool gw_session_credential(struct gw_loop *loop, const char *access_key, struct gw_credential *out);
/*
 * The signature is good, by a session's key or by another one. Fills req->rdma, and makes the
 * session's user the request's. False: answered (a session's key signs nothing but its own
 * requests, and these nothing but it).
 */
bool gw_session_accept(struct gw_request *req, bool by_session);
/* In SignedHeaders; name in lower case. */
bool gw_session_signed(const struct s3_auth *auth, const char *name);
/* Of an upload: the bytes are in the window, and nowhere else. */
bool gw_session_bodyless(const struct gw_request *req);
/* Of an answer: its bytes went by RDMA. */
void gw_session_headers(struct gw_request *req, unsigned status, uint64_t bytes);
/* The session that the path of EndRDMASession names; false: it names none. */
bool gw_session_of_path(const struct gw_request *req, uint8_t session[RDX_ID_LEN]);
/*
 * The client may use the memory again, whatever the answer: it named some, and nothing was posted.
 */
bool gw_session_none_posted(const struct gw_request *req);

/* The request has it from here on. */
void gw_session_attach(struct gw_request *req, struct gw_rdma *rdma);

/* ---- session_open.c: operations ---- */

void gw_begin_session_open(struct gw_request *req);
void gw_run_session_open(struct gw_request *req);
void gw_run_session_end(struct gw_request *req);

/* ---- rdma_token.c ---- */

/*
 * The request is authenticated and has its operation. Fills req->rdma where it is a GET or an
 * upload with a token; is it to be declined, req->rdma says so. False: answered (not signed as the
 * header protocol wants it, or malformed).
 */
bool gw_token_accept(struct gw_request *req);
/* Counts it; an upload is answered, a GET goes on with a body. */
void gw_token_decline(struct gw_request *req, enum rdx_decline reason);

/* ---- rdma_transfer.c ---- */

/*
 * begin(): takes the number. Goes on with next(), or answers, or (a GET that is declined) ends in
 * gw_begin_done().
 */
void gw_transfer_begin(struct gw_request *req, void (*next)(struct gw_request *req));
extern const struct gw_carrier gw_transfer_carrier;

/* ---- transfer_get.c ---- */

/*
 * Takes req->get over and answers when all is over. False: declined, the body is to answer (headers
 * that say so are added).
 */
bool gw_transfer_send(struct gw_request *req, unsigned status, uint64_t offset, uint64_t len);

/* ---- transfer_put.c ---- */

/* The engine is to wake the transfer. */
void gw_transfer_wakes(struct gw_request *req, struct eng_put_params *params);
/*
 * begin() of an upload, which was opened with that: takes req->put over, and lets the request go
 * on. It gets req->put back when all its bytes are read and hashed, or an answer: an error.
 */
void gw_transfer_receive(struct gw_request *req);

#endif
