/*
 * rdma_wire.h - what both ends of an RDMA session must agree on: keys, private data, request
 * numbers, messages, tokens.
 *
 * docs/rdma-protocol.md is the specification; this is its code, for the server and for the client
 * library. Pure functions over the caller's memory: no I/O, no state but what is passed, any
 * thread. Decoders take bytes that anybody may have sent: 0, or -EBADMSG and nothing usable in the
 * result.
 */
#ifndef MILLRACE_RDMA_WIRE_H
#define MILLRACE_RDMA_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RDX_VERSION 1u

#define RDX_ID_LEN     16u /* of a session */
#define RDX_NONCE_LEN  16u
#define RDX_BOOT_LEN   8u
#define RDX_GID_LEN    16u
#define RDX_KEY_LEN    32u
#define RDX_MAC_LEN    16u
#define RDX_SECRET_LEN 64u /* characters */

/* ---- keys ------------------------------------------------------------------------------------ */

/* What a session key is derived from. */
struct rdx_key_input {
        uint8_t signing_key[RDX_KEY_LEN]; /* SigV4's, of the opening request */
        uint8_t session[RDX_ID_LEN];
        uint8_t client_nonce[RDX_NONCE_LEN], server_nonce[RDX_NONCE_LEN];
};

struct rdx_keys {
        uint8_t connect[RDX_KEY_LEN];    /* of private data's MACs */
        char secret[RDX_SECRET_LEN + 1]; /* SigV4 secret of the session's requests, with its 0 */
};

void rdx_keys_derive(const struct rdx_key_input *input, struct rdx_keys *out);

/*
 * The access key that a session's requests are signed with: "MRDX" and the session in upper-case
 * hex.
 */
#define RDX_ACCESS_KEY_LEN 36u
void rdx_access_key(const uint8_t session[RDX_ID_LEN], char out[RDX_ACCESS_KEY_LEN + 1]);
/* False: no session's access key. */
bool rdx_access_key_parse(const char *text, size_t len, uint8_t session[RDX_ID_LEN]);

/*
 * Lower-case hex of exactly len bytes, as ids and nonces are written. text: len * 2 characters and
 * a 0.
 */
void rdx_hex(const uint8_t *bytes, size_t len, char *text);
bool rdx_unhex(const char *text, size_t text_len, uint8_t *bytes, size_t len);

/* ---- private data of rdma_cm ----------------------------------------------------------------- */

#define RDX_PRIVATE_LEN  40u
#define RDX_PRIVATE_MOST 56u /* what RDMA_PS_TCP carries in a request */
#define RDX_REJECT_LEN   4u

enum rdx_private_kind { RDX_PRIVATE_CONNECT = 1, RDX_PRIVATE_ACCEPTED = 2, RDX_PRIVATE_REJECTED = 3 };

/* Why a connection is refused. */
enum rdx_reject { RDX_REJECT_MALFORMED = 1, RDX_REJECT_UNKNOWN = 2, RDX_REJECT_AGAIN = 3, RDX_REJECT_NO_ROOM = 4 };

struct rdx_private {
        enum rdx_private_kind kind; /* CONNECT or ACCEPTED */
        uint16_t endpoint, index;
        uint16_t messages; /* ACCEPTED: receives posted for batch messages */
        uint8_t session[RDX_ID_LEN];
        uint8_t mac[RDX_MAC_LEN];
};

/* One end of a connection, as rdma_cm shows it to both. */
struct rdx_party {
        uint8_t gid[RDX_GID_LEN];
        uint32_t pair; /* queue-pair number */
};

/* What a MAC covers beside the private data. server: used for ACCEPTED only. */
struct rdx_binding {
        uint8_t boot[RDX_BOOT_LEN];
        struct rdx_party client, server;
};

/* Fills in mac, and writes RDX_PRIVATE_LEN bytes. */
void rdx_private_build(struct rdx_private *private, const uint8_t key[RDX_KEY_LEN], const struct rdx_binding *binding,
                       uint8_t out[RDX_PRIVATE_LEN]);
/*
 * Syntax only: version, kind, zero fields, nothing but zeros behind. No secret is needed, nothing
 * may be believed yet.
 */
int rdx_private_parse(const void *data, size_t len, struct rdx_private *out);
/* Takes constant time. */
bool rdx_private_verify(const struct rdx_private *private, const uint8_t key[RDX_KEY_LEN],
                        const struct rdx_binding *binding);

void rdx_reject_build(enum rdx_reject reason, uint8_t out[RDX_REJECT_LEN]);
/* The reason, or -EBADMSG. */
int rdx_reject_parse(const void *data, size_t len);

/* ---- request numbers ------------------------------------------------------------------------- */

#define RDX_NUMBER_WINDOW 1024u
#define RDX_NUMBER_JUMP   (1ull << 20)

/* Zeroed: none accepted. owner: whoever embeds it. */
struct rdx_numbers {
        uint64_t highest;
        uint64_t seen[RDX_NUMBER_WINDOW / 64]; /* bit n % RDX_NUMBER_WINDOW of those within the window */
};

/*
 * 0: accepted, and never again. -EEXIST: accepted before, or so old that nobody knows. -ERANGE: 0,
 * or too far ahead.
 */
int rdx_number_accept(struct rdx_numbers *numbers, uint64_t number);

/* ---- windows --------------------------------------------------------------------------------- */

/* Memory of a client that one request may touch. */
struct rdx_window_span {
        uint64_t address, length;
        uint32_t rkey;
};

/* Inside, without overflow. */
bool rdx_window_span_holds(const struct rdx_window_span *place, uint64_t offset, uint64_t length);

/* The header's form, "ADDRESS:RKEY:LENGTH". -EBADMSG also where address + length overflows. */
#define RDX_PLACE_TEXT 42u
int rdx_window_span_parse(const char *text, size_t len, struct rdx_window_span *out);
void rdx_window_span_print(const struct rdx_window_span *place, char out[RDX_PLACE_TEXT + 1]);

/* ---- messages of the control queue pair ------------------------------------------------------ */

#define RDX_MESSAGE_MAX     16384u
#define RDX_MESSAGE_ENTRIES 256u  /* of a BATCH or RESULT message */
#define RDX_BATCH_ENTRIES   1024u /* of all messages of a batch */
#define RDX_HEADER_LEN      32u
#define RDX_REPLIES_MOST    64u
#define RDX_RESULT_SHARE    64u /* a RESULT has room for so many entries, whatever their strings */
#define RDX_KEY_MOST        1024u
#define RDX_BUCKET_MOST     63u
#define RDX_ETAG_MOST       64u
#define RDX_VERSION_ID_MOST 64u

enum rdx_message_type { RDX_BATCH = 1, RDX_RESULT = 2, RDX_NOTICE = 3 };
enum { RDX_ORDERED = 1, RDX_LAST = 2 };

struct rdx_message {
        enum rdx_message_type type;
        uint8_t flags;
        uint32_t length; /* of the whole message */
        uint64_t number;
        uint32_t batch;
        uint16_t count, first, replies;
        uint32_t deadline_ms;
        struct rdx_window_span window; /* BATCH */
};

/* Bytes of the message or of the caller; not terminated. */
struct rdx_bytes {
        const char *data;
        size_t len;
};

struct rdx_entry {
        struct rdx_bytes bucket, key, if_match, version_id;
        bool suffix;
        uint64_t range_first, range_length;
        uint64_t offset, length; /* its place in the window */
};

#define RDX_CODES(X)                                                                                                   \
        X(OK, 0, 200)                                                                                                  \
        X(NO_SUCH_KEY, 1, 404)                                                                                         \
        X(NO_SUCH_BUCKET, 2, 404)                                                                                      \
        X(NO_SUCH_VERSION, 3, 404)                                                                                     \
        X(ACCESS_DENIED, 4, 403)                                                                                       \
        X(PRECONDITION_FAILED, 5, 412)                                                                                 \
        X(INVALID_RANGE, 6, 416)                                                                                       \
        X(PLACE_TOO_SMALL, 7, 400)                                                                                     \
        X(INVALID_ARGUMENT, 8, 400)                                                                                    \
        X(DECLINED, 9, 501)                                                                                            \
        X(SLOW_DOWN, 10, 503)                                                                                          \
        X(INTERNAL_ERROR, 11, 500)                                                                                     \
        X(SERVICE_UNAVAILABLE, 12, 503)                                                                                \
        X(REQUEST_TIMEOUT, 13, 400)                                                                                    \
        X(METHOD_NOT_ALLOWED, 14, 405)

enum rdx_code {
#define RDX_CODE_ENUM(name, number, status) RDX_CODE_##name = (number),
        RDX_CODES(RDX_CODE_ENUM)
#undef RDX_CODE_ENUM
};
/*
 * The HTTP status that goes with a code; 500 for one that is not known. OK: 200 (206 is said by the
 * caller).
 */
unsigned rdx_code_status(unsigned code);

struct rdx_result {
        uint16_t index, status, code;
        uint32_t crc32c;
        uint64_t bytes, size;
        struct rdx_bytes etag, version_id;
};

/*
 * Decoding: open once, then next() until it answers 0 (no more). The message must stay as it is
 * meanwhile. A message is checked as far as it is read; rdx_reader_check() runs through all of it
 * first, so that whoever acts on entries acts on whole messages only.
 */
struct rdx_reader {
        const uint8_t *data;
        size_t len, at;
        unsigned left;           /* entries to come */
        struct rdx_bytes bucket; /* of the entry before */
        struct rdx_message message;
};

/*
 * Anything from RDX_HEADER_LEN to RDX_MESSAGE_MAX bytes; len is what arrived, and must be the
 * length that the header says.
 */
int rdx_reader_open(struct rdx_reader *reader, const void *data, size_t len);
/* 1: *out is the next entry; 0: there are no more, and nothing is left over; -EBADMSG. */
int rdx_reader_entry(struct rdx_reader *reader, struct rdx_entry *out);
int rdx_reader_result(struct rdx_reader *reader, struct rdx_result *out);
/* All entries are good, and inside the window. Does not move the reader. */
int rdx_reader_check(const struct rdx_reader *reader);

/* One RESULT entry, as GetBatch frames carry it. Bytes used, or -EBADMSG. */
int rdx_result_decode(const void *data, size_t len, struct rdx_result *out);

/* Writes one, RDX_RESULT_MOST bytes at the most. Bytes used, or -EINVAL. */
#define RDX_RESULT_MOST (32u + RDX_ETAG_MOST + RDX_VERSION_ID_MOST)
int rdx_result_encode(const struct rdx_result *result, void *out);

/* Encoding into a buffer of RDX_MESSAGE_MAX bytes, the header last. */
struct rdx_writer {
        uint8_t *data;
        size_t len;
        struct rdx_message message;
        struct rdx_bytes bucket; /* of the entry before, inside data */
};

/* message: type and the header's fields; length and count are counted here. */
void rdx_writer_open(struct rdx_writer *writer, uint8_t *buf, const struct rdx_message *message);
/*
 * 0, -ENOSPC (the message is full; it is as it was), -EINVAL (longer than the format has room for).
 */
int rdx_writer_entry(struct rdx_writer *writer, const struct rdx_entry *entry);
int rdx_writer_result(struct rdx_writer *writer, const struct rdx_result *result);
/* Writes the header; returns the message's length. */
size_t rdx_writer_finish(struct rdx_writer *writer);

/* ---- GetBatch over HTTP ---------------------------------------------------------------------- */

#define RDX_BATCH_TYPE      "application/x-millrace-batch"
#define RDX_BATCH_BODY_MOST (2u << 20) /* bytes of messages in one request */

/*
 * A request's body: BATCH messages end to end. Zero-fill but for data and len, then next() until it
 * answers 0. owner: whoever embeds it; the body must stay meanwhile. A body that rdx_body_check()
 * found good never answers -EBADMSG.
 */
struct rdx_body {
        const uint8_t *data;
        size_t len, at; /* at: behind the message being read */
        unsigned next;  /* index of the next entry */
        struct rdx_reader reader;
};
/* 1: *out is the entry of that index; 0: there are no more; -EBADMSG. */
int rdx_body_next(struct rdx_body *body, struct rdx_entry *out, unsigned *index);
/*
 * The number of entries, 1 to RDX_BATCH_ENTRIES, of a body that is right from its first byte to its
 * last; -EBADMSG.
 */
int rdx_body_check(const void *data, size_t len, bool *ordered);

/*
 * The answer: frames. Each is its head, then as many bytes as its result says and, behind at least
 * one byte, its tail; a head of length 0 ends them.
 */
#define RDX_FRAME_HEAD_MOST (4u + RDX_RESULT_MOST)
#define RDX_FRAME_TAIL      8u
#define RDX_FRAME_END       4u
/* Bytes written. result->crc32c must be 0. */
size_t rdx_frame_head(const struct rdx_result *result, uint8_t out[RDX_FRAME_HEAD_MOST]);
void rdx_frame_tail(uint32_t crc32c, uint8_t out[RDX_FRAME_TAIL]);
/*
 * The length of the RESULT entry that begins behind these 4 bytes: 0 the end, -EBADMSG what no
 * entry has.
 */
int rdx_frame_length(const uint8_t at[4]);
int rdx_frame_tail_read(const uint8_t at[RDX_FRAME_TAIL], uint32_t *crc32c);

/* ---- the header protocol's token ------------------------------------------------------------- */

struct rdx_token {
        uint64_t address, size;
        uint32_t rkey;
        uint16_t lid;
        uint32_t dct; /* number of the target, 24 bits */
        bool has_gid;
        uint8_t gid[RDX_GID_LEN];
};

/* x-amz-rdma-token in either form, strictly. */
int rdx_token_parse(const char *text, size_t len, struct rdx_token *out);

#endif
