/*
 * entry.h - one entry of a batch: who may read it, which object, which version, which bytes of it,
 * and what became of it (docs/rdma-protocol.md).
 *
 * The same for GetBatch over HTTP (get_batch.c) and for BATCH messages of RDMA sessions
 * (executor.c), which differ in how bytes leave. On one loop.
 */
#ifndef GATEWAY_RDMA_ENTRY_H
#define GATEWAY_RDMA_ENTRY_H

#include "engine.h"
#include "rdma_wire.h"
#include "s3.h"

#include "gateway/http/gw.h"
#include "gateway/http/gw_check.h"

struct gw_request;

/* owner: whoever embeds it; it must stay until known() where gw_entry_begin() said that it comes */
struct gw_entry {
        unsigned magic; /* gw_check.h */
        struct gw_loop *loop;
        struct gw_request *req; /* whose entry it is; NULL: that of a batch on an RDMA session */
        const char *access_key;       /* until it is known, as the message's strings */
        struct s3_str bucket, key, version_id; /* key, version_id: of the message */
        bool object_decides;          /* let in if the object is such: asked again once it is found */
        struct eng_store *store;      /* the pool of its bucket; of none: the first pool */
        uint64_t bucket_id;
        struct eng_get *get;      /* found, and has bytes to be read; gw_entry_close() */
        struct rdx_result result; /* strings point into etag and version_text */
        char etag[S3_ETAG_SIZE], version_text[S3_VERSION_TEXT];
        bool versioned;           /* its bucket has or had versioning */
        bool by_version;          /* version was asked for, not the newest */
        struct eng_version version;
        struct rdx_bytes if_match; /* of the message */
        uint64_t range_first, range_length, room;
        bool suffix;
        bool large;      /* not in its record: reading it takes buffers that others wait for */
        bool given_up;   /* nobody wants it any more */
        uint64_t offset; /* in the object, of the bytes wanted */
        void (*known)(struct gw_entry *entry);
};

/*
 * Looks one up as a GetObject of the user with this access key would, now: allowed, which version
 * (pinned from here on), which range. Zero it, and set loop, req, known and result.index before. False:
 * its result is known. True: known() will be called, and if get is set then, its bytes are to be
 * read. The message's strings must stay until then, unless it is given up.
 */
bool gw_entry_begin(struct gw_entry *entry, const char *access_key, const struct rdx_entry *asked);
/* While it is being looked up: known() comes, with nothing. */
void gw_entry_give_up(struct gw_entry *entry);
/*
 * Reading its bytes, summed. hold: spans are let go one by one (eng_get_hold()). As
 * eng_get_start().
 */
int gw_entry_start(struct gw_entry *entry, bool hold, void (*wake)(void *arg), void *arg);
/* Its result is this failure. Of a code, or of what the engine said. get stays open. */
void gw_entry_refuse(struct gw_entry *entry, enum rdx_code code);
void gw_entry_fail(struct gw_entry *entry, int rv);
void gw_entry_close(struct gw_entry *entry); /* harmless where nothing is open */
/* Its result is given. */
void gw_entry_count(const struct gw_entry *entry, enum gw_entry_way way);

#endif
