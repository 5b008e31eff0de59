/*
 * fetch.h - one range of one version of one object, by whatever transport. Private to
 * client/transfer/.
 */
#ifndef CLIENT_FETCH_H
#define CLIENT_FETCH_H

#include "client/http/client_request.h"
#include "client/base/object_check.h"

struct mr_buffer;
struct mr_transfer;

/*
 * owner: the caller until mr_fetch_start(), and again from done() on; between, the transport.
 * Zeroed by the caller. Strings are referenced until done().
 */
struct mr_fetch {
        unsigned magic; /* object_check.h */
        const char *bucket, *key;
        const char *version_id; /* NULL: the current one */
        char if_match[100];     /* with quotes; "": any at first, the one that the first answer was of from then on */
        uint64_t offset;
        uint64_t len;  /* UINT64_MAX: to the end */
        uint64_t last; /* not 0: the last bytes instead of offset and len */
        enum mr_transport transport;
        const atomic_bool *stop, *canceled; /* as in struct mr_request */

        /*
         * Where bytes go: to memory, of room bytes, or else to write(), which gets each in order,
         * and its offset in the fetch. On a loop or worker. buffer: where the memory is registered,
         * at buffer_at of it; NULL: nowhere. A dma-buf has no memory. room is known with write(),
         * too, if it is not 0.
         */
        char *memory;
        struct mr_buffer *buffer;
        uint64_t buffer_at;
        bool unseen; /* bytes that the CPU cannot see may come unverified */
        uint64_t room;
        int (*write)(void *arg, uint64_t at, const void *data, size_t len);
        void *write_arg;
        mr_progress_fn progress;
        void *progress_arg;

        bool summed; /* the checksum of the bytes is wanted, of kind sum_kind. A whole object's own is, by itself */
        enum s3_checksum sum_kind;

        void (*done)(void *arg, struct mr_fetch *fetch, int rv); /* on a loop or worker; must not wait */
        void *done_arg;

        /* what came of it */
        struct mr_object_info info; /* by the first answer; size is the whole object's. No headers */
        bool info_known;
        uint64_t got;
        bool wire_verified, object_verified;
        enum mr_transport carried;
        uint8_t sum[S3_CHECKSUM_MAX];
        struct mr_error error;

        /* private to fetch.c and fetch_rdma.c */
        struct mr_transfer *transfer;
        struct mr_request request;
        uint64_t want; /* bytes, once an answer told; UINT64_MAX: not yet */
        bool ranged;   /* a Range was asked for: only a 206 will do */
        bool answered; /* a byte of the present answer has come, or it is over */
        bool crc_known; /* an answer named the CRC32C of its bytes, which begin at crc_from and end where the fetch ends */
        bool crc_begun;
        bool crc_follows; /* it comes behind the bytes, in tail */
        unsigned tail_got;
        uint8_t tail[4];
        uint64_t crc_from;
        uint32_t crc_wanted, crc;
        bool has_wanted; /* the object's own checksum */
        uint8_t wanted[S3_CHECKSUM_MAX];
        struct s3_sums *sums;
        char range[64];
        char version[128];
};

/*
 * Fetches. 0: done() will be called; else nothing was begun and error is filled. Its results: 0;
 * -ESTALE where the version is gone; -ERANGE where the range begins behind the object's end;
 * -EMSGSIZE where more comes than there is room; and those of millrace.h. -EOPNOTSUPP: not by this
 * transport.
 */
int mr_fetch_start(struct mr_client *client, struct mr_fetch *fetch);

/* ---- between fetch.c and fetch_rdma.c -------------------------------------------------------- */

/*
 * The GET of what is still wanted, by fetch->request, which is zeroed first; done() and signature
 * are the caller's affair.
 */
void mr_fetch_request(struct mr_fetch *fetch);
/* All of it is wanted again, of whatever version (but if_match stays), by whatever transport. */
void mr_fetch_begin_again(struct mr_fetch *fetch);
/* The request's sink and check of an answer with a body. */
int mr_fetch_sink(void *arg, const struct mr_response *response, const void *data, size_t len);
int mr_fetch_check(void *arg, const struct mr_response *response, struct mr_error *err);
/*
 * An answer that says that `bytes` were written to `from` (NULL: nobody can see them). Compares,
 * and gives them on. As a request's check().
 */
int mr_fetch_written(struct mr_fetch *fetch, const struct mr_response *response, const char *from, uint64_t bytes,
                     struct mr_error *err);
/* The fetch's result from the request's. */
int mr_fetch_explain(struct mr_fetch *fetch, int rv);
int mr_fetch_tcp(struct mr_client *client, struct mr_fetch *fetch);

/* ---- fetch_rdma.c ---------------------------------------------------------------------------- */

/* Whether RDMA should carry it, as far as is known without asking anybody. */
bool mr_fetch_suits_rdma(struct mr_client *client, const struct mr_fetch *fetch);
/* As mr_fetch_start(). Falls back to TCP, unless fetch->transport insists. */
int mr_fetch_rdma(struct mr_client *client, struct mr_fetch *fetch);

/*
 * The object's own checksum of all its bytes, where it has one that ranges' checksums can be made
 * into.
 */
bool mr_info_checksum(const struct mr_object_info *info, bool whole, enum s3_checksum *kind,
                      uint8_t value[S3_CHECKSUM_MAX]);

#endif
