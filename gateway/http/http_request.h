/*
 * http_request.h - one S3 request from its request line to the last byte of its answer.
 *
 * A request is made when its request line is in, and lives until libmicrohttpd says that it is
 * over. While an operation waits for the engine the connection is suspended, and a suspended
 * connection is never closed, so a callback of the engine always finds its request alive; so it
 * does where gw_request_ask() has kept the request. owner of everything here: the loop.
 */
#ifndef GATEWAY_HTTP_HTTP_REQUEST_H
#define GATEWAY_HTTP_HTTP_REQUEST_H

#include <assert.h>
#include <stdarg.h>

#include "gateway/http/gw.h"
#include "gateway/http/operation.h"
#include "gateway/http/reply.h"

/*
 *   LINE -> BEGIN -> CHECKED -> RUN -> ANSWER -> SENDING
 *     |       |----> BODY -------^        ^
 *     |-------|-------|-------> DRAIN ----|        any -> GONE
 */
enum gw_state {
        GW_LINE,    /* the request line is in, headers are coming */
        GW_BEGIN,   /* the head is accepted, the operation looks before the body is asked for */
        GW_CHECKED, /* there is no body: the operation runs at the library's second call */
        GW_BODY,    /* the body is coming in */
        GW_DRAIN,   /* refused: the answer is ready, the rest of the body is read and dropped */
        GW_RUN,     /* all is in, the operation is at work */
        GW_ANSWER,  /* the answer is ready to be queued */
        GW_SENDING, /* the answer is queued */
        GW_GONE     /* the connection is to be closed without (another) answer */
};

/* Another way of an object's bytes than the connection. Constant. */
struct gw_carrier {
        /*
         * The request is over, whatever becomes of the bytes under way. Harmless where there are
         * none.
         */
        void (*drop)(struct gw_request *req);
        /*
         * Of an upload: how many bytes there are; some are under way, or are about to be; the
         * client's device is waited for.
         */
        uint64_t (*length)(const struct gw_request *req);
        bool (*under_way)(const struct gw_request *req);
        bool (*waits)(const struct gw_request *req);
        /* The client is too slow, and others wait for what it holds. */
        void (*cut)(struct gw_request *req);
};

#define GW_ARENA_INLINE 4096u

/* Memory that lives as long as its request. */
struct gw_arena {
        struct gw_arena_block *blocks;  /* beyond the inline part */
        size_t used, more_used, more_size;
        char bytes[GW_ARENA_INLINE] __attribute__((aligned(16)));
};

#define GW_REQUEST_ALIVE 0x52455155u

struct gw_request {
        uint32_t alive; /* GW_REQUEST_ALIVE until it is put away: what comes back through a void * must have it */
        struct gw_loop *loop;
        struct gw_conn *conn;
        struct MHD_Connection *mhd;
        STAILQ_ENTRY(gw_request) spare;
        enum gw_state state;
        bool inside;                    /* the library has called us and waits */
        bool suspended;
        bool peer_gone;                 /* found out while suspended: long operations give up */
        bool begun;                     /* begin() has let it pass: see gw_begin_done() */
        bool orphan;                    /* the gateway was freed around it: callbacks do nothing */
        bool asking;                    /* not suspended, though the engine is to call back: see gw_request_ask() */
        bool left;                      /* and its connection ended meanwhile */
        bool closing;                   /* the connection ends with this answer */
        bool changing;                  /* it may change something: counted in changes_active */
        bool streaming;                 /* counted in loop->streams */
        uint64_t started_ns, state_ns;  /* when it began, when it entered its stage */
        enum gw_stage head;             /* the stage it is in while GW_LINE */
        uint64_t answered_ns;           /* answer queued */
        uint64_t number;                /* what id shows; trace records have it */
        char id[17];

        /* head */
        struct s3_str method;           /* the library's memory, as are header values */
        bool is_head;
        bool http10;
        struct s3_str target;           /* raw */
        const char *raw_target;         /* the library's memory it was copied from: only to be compared */
        struct s3_target cut;
        const struct s3_header *headers;
        unsigned header_count;
        const struct s3_query *query;   /* made as long as needed */
        struct s3_str bucket, key;
        bool virtual_host;              /* the bucket was taken from the Host header */
        bool site;                      /* its host is a website's: errors are pages */
        const char *site_host;          /* and this is how it was named, with its port */
        enum s3_error second_error;     /* of the error document `key`, shown with the first one; S3_OK: none */
        bool chunked;                   /* Transfer-Encoding: chunked */
        const char *body_at, *body_seen; /* in the library's buffer: where bodies begin; end of the data that was handed over last */
        bool expects_continue;
        uint64_t drained;               /* bytes dropped since it was refused */
        uint64_t content_length;        /* S3_LENGTH_UNKNOWN when chunked, 0 when there is no body */

        /* who and what */
        const struct gw_op *op;
        const char *access_key;         /* NULL: not authenticated; at an operation: anonymous */
        struct gw_temporary *temporary; /* whose credentials access_key is of (gateway/sts/), counted; NULL: of none */
        enum s3_auth_kind signed_by;    /* how it was signed, */
        int64_t signed_ms;              /* and when, as it says */
        const char *refusal;            /* AccessDenied's text of the gate; NULL: the usual one */
        struct gw_rdma *rdma;           /* it came with a session's key and names a window; NULL: it did not */
        const struct gw_carrier *carrier; /* set with rdma */
        struct eng_store *store;        /* the pool of its bucket; of none: the first pool */
        struct eng_store *also;         /* of another bucket that the answer goes by: a copy's source; NULL: none */
        bool undecided;                 /* which pool has the bucket, or whether one has, is not known now */
        bool lists_all;                 /* the answer is about the buckets of all pools */
        bool anonymous;                 /* nobody signed, and nobody tried to */
        uint64_t bucket_id;
        bool versioned, lockable;       /* the bucket has or had versioning; it has object lock, */
        bool retains;                   /* and a default retention */
        bool object_decides;            /* let in if the object is such: asked again once it is found (gw_rights_permit_object()) */
        int bucket_rv;                  /* what the one look at the bucket's name said (head.c) */
        const char *refused_header;     /* what is not implemented: a header, */
        struct s3_str refused_query;    /* or a sub-resource; shown with NOT_IMPLEMENTED */

        /* work */
        struct gw_body *body;           /* while one is expected */
        struct eng_get *get;            /* closed with the request */
        bool buffers;                   /* holds the engine's buffers for reading without get */
        const uint8_t *span;            /* of it, not copied out yet (stream.c) */
        size_t span_left;
        bool crc_follows;               /* a streamed answer ends in the CRC32C of its bytes (stream.c) */
        unsigned crc_sent;              /* bytes of it */
        struct eng_put *put;            /* aborted with the request, unless committed */
        void *work;                     /* the operation's own, in the arena */
        void (*release)(struct gw_request *req); /* frees what the operation holds outside the arena */

        /* answer */
        struct gw_answer answer;
        uint64_t bytes_in, bytes_out;
        size_t wants;                   /* in the loop's line for memory: how much, since when, and what then (budget.c) */
        uint64_t wants_since_ns;
        void (*go)(struct gw_request *req);
        uint64_t rate_bytes;            /* moved as the sweep saw it last */
        unsigned rate_slow;             /* sweeps in a row below the minimum rate */

        struct gw_arena arena;          /* last: not cleared */
};

struct gw_request *gw_request_new(struct gw_loop *loop, const char *target);
/* Aborts and closes what is open, then keeps or frees the structure. */
void gw_request_free(struct gw_request *req);
/* At the end: those that were left behind their connections are never told. */
void gw_requests_abandon(struct gw_loop *loop);
/* The only place where a state changes. */
void gw_request_move(struct gw_request *req, enum gw_state state);
/* Counts the time that it has been in its stage, which ends now: a gw_clock_ns(). */
void gw_request_leaves(struct gw_request *req, uint64_t now);
/* GW_LINE: the next stage of the head begins. */
void gw_request_head(struct gw_request *req, enum gw_stage stage);

/* From inside the library's call: suspends the connection until gw_request_wake(). */
void gw_request_wait(struct gw_request *req);
void gw_request_wake(struct gw_request *req);
/*
 * Before the engine is asked for what it mostly has at hand: the connection is not suspended at
 * once, which costs more than the answer, but asked again in the library's next round. It may end
 * meanwhile; then the request stays until the engine calls back.
 */
void gw_request_ask(struct gw_request *req);
/*
 * First of all when the engine has called back. False: the request is gone (with it what was its
 * own), or an orphan.
 */
bool gw_request_told(struct gw_request *req);
/* begin() is through and has not refused: the body may come. */
void gw_begin_done(struct gw_request *req);
/* Closes what is open towards the engine: get, put, and what release() knows. */
void gw_request_release(struct gw_request *req);

/* ---- arena: NULL when out of memory ---- */
void *gw_alloc(struct gw_request *req, size_t size); /* zeroed */
char *gw_copy(struct gw_request *req, struct s3_str text); /* with NUL */
char *gw_printf(struct gw_request *req, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Frees what lies beyond the inline part. */
void gw_arena_free(struct gw_arena *arena);

/* ---- head ---- */
/* Value of a header without spaces around it; absent if there is none. */
struct s3_str gw_header(const struct gw_request *req, const char *name);
/* Value of a query parameter ("" if it has none); absent if it is not there. */
struct s3_str gw_query(const struct gw_request *req, const char *name);
bool gw_query_has(const struct gw_request *req, const char *name);

static inline struct eng_str gw_eng_str(struct s3_str s)
{
        return (struct eng_str){s.data != NULL ? s.data : "", s.len};
}
static inline struct s3_str gw_s3_str(struct eng_str s)
{
        return (struct s3_str){s.data, s.len};
}

/* It is an upload whose bytes do not come as its body. */
static inline bool gw_carried_upload(const struct gw_request *req)
{
        return req->carrier != NULL && req->op->body == GW_BODY_DATA;
}

/*
 * First thing in every callback of the engine: false when the gateway is gone and nothing may be
 * touched.
 */
static inline bool gw_back(const struct gw_request *req)
{
        assert(req->alive == GW_REQUEST_ALIVE);
        return !req->orphan;
}

uint64_t gw_clock_ns(void);

#endif
