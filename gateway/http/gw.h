/*
 * gw.h - the gateway's own structures: the gateway, its share of each loop, listeners and
 * connections.
 *
 * Everything a request touches belongs to one loop; the only state shared between threads is the
 * table of credentials, the TLS pair and the counters, and each says so.
 */
#ifndef GATEWAY_HTTP_GW_H
#define GATEWAY_HTTP_GW_H

#include <pthread.h>
#include <stdatomic.h>
#include <bsd/sys/queue.h>
#include <gnutls/abstract.h>
#include <microhttpd.h>

#include "engine.h"
#include "gateway.h"
#include "loop.h"
#include "s3.h"

#include "gateway/http/body.h"
#include "gateway/http/guests.h"
#include "gateway/http/pools.h"
#include "gateway/http/stats.h"

/*
 * The library's memory per connection; holds the head of a request. One page more than 32 KiB: the
 * library maps pools beyond that instead of taking them from the heap, so that what thousands of
 * connections needed is given back when they close.
 */
#define GW_POOL_BYTES ((32u << 10) + 4096u)
#define GW_HEADERS_MAX 100u             /* header fields of one request */
#define GW_DOMAINS_MAX 16u
#define GW_DOMAINS_TEXT 1024u           /* a list of them, with its NUL */
#define GW_KEYS_CACHED 16u              /* signing keys per loop */
#define GW_REQUESTS_KEPT 256u           /* free request structures a loop keeps */
#define GW_DRAIN_BYTES (8u << 20)       /* of a refused body that are read so that the answer arrives */
#define GW_DRAIN_MS 2000u
#define GW_LINGER_MS 30000u            /* a socket whose client goes on sending is read for this long */
#define GW_LINGERS_MAX 256u             /* sockets per loop that are read to their end after an early answer */
#define GW_SWEEP_MS 500u
#define GW_SHED_IDLE_MS 5000u           /* an idle connection is closed after this long while connections are shed */
#define GW_GONE_MS 1000u                /* a suspended connection is asked whether its peer is there after this long */
#define GW_OBJECT_MAX (5ull << 30)      /* one PUT or part */
#define GW_SMALL_GET (1u << 20)         /* answers up to this leave from one buffer */

struct gw_executor;
struct gw_held;
struct gw_issuers;
struct gw_key_uses;
struct gw_request;
struct gw_service;
struct gw_temporary;
struct gw_tls;

/*
 * Access keys and secrets. Immutable once made; counted by the gateway and every loop that looked
 * at it.
 */
struct gw_credentials {
        atomic_uint references;
        unsigned count;
        struct gw_credential list[];
};

/* One listening socket of one loop, and the library's daemon for such connections. owner: loop */
struct gw_listener {
        struct MHD_Daemon *daemon;
        struct gw_loop *loop;
        struct lp_watch watch;          /* on the daemon's epoll descriptor */
        struct lp_watch accept;         /* on the listening socket; fd -1 once it is closed */
        bool accepting;                 /* it is watched */
        bool tls;
        const struct gw_targets *targets; /* that tokens may name; NULL: none */
        bool due;                       /* the daemon has something to do */
        uint64_t timeout_ns;            /* gw_clock_ns() at which it wants to be run; 0: none */
        SLIST_ENTRY(gw_listener) next;
};

/* One client connection. owner: loop */
struct gw_conn {
        struct gw_listener *listener;
        struct MHD_Connection *mhd;
        struct gw_request *request;     /* being served, or NULL */
        uint64_t since_ns;              /* opened, or last answer complete */
        int fd;
        struct gw_guest guest;          /* until a valid signature has come */
        bool known;                     /* it has, or nobody counts it any more */
        bool cut;                       /* shut down by us: nothing more is expected of it */
        bool broken;                    /* the library answered a head it could not parse */
        unsigned ended;                 /* sweeps in a row that found the peer's end closed */
        unsigned broken_off;            /* or both ends, or an error: nothing can be sent any more */
        LIST_ENTRY(gw_conn) entry;
};

/*
 * A socket whose answer left before its request was read: read and dropped for a while, lest a
 * reset overtake the answer. owner: loop
 */
struct gw_linger {
        struct lp_watch watch;
        struct gw_loop *loop;
        uint64_t deadline_ns, end_ns;   /* moved by each byte; not moved */
        size_t left;                    /* bytes still read */
        LIST_ENTRY(gw_linger) entry;
};

struct gw_key_cached {
        uint64_t used;                  /* when, in the loop's count of uses; 0: empty */
        char access_key[S3_ACCESS_KEY_MAX + 1];
        char scope_date[9];
        char service[17];
        char region[S3_REGION_MAX + 1];
        struct s3_signing_key key;
};

/* A list of domains or hosts, from a setting. */
struct gw_domains {
        char text[GW_DOMAINS_TEXT];
        struct s3_str list[GW_DOMAINS_MAX];
        unsigned count;
};

/* Of access logs of buckets; any thread. */
struct gw_logs_figures {
        atomic_uint_least64_t delivered, objects, dropped, refused;
};

LIST_HEAD(gw_conn_list, gw_conn);
LIST_HEAD(gw_linger_list, gw_linger);
SLIST_HEAD(gw_listener_list, gw_listener);
STAILQ_HEAD(gw_request_list, gw_request);

/* The gateway's part of one loop. owner: loop, but for the counters */
struct gw_loop {
        struct gw_gateway *gw;
        struct lp_loop *lp;
        unsigned index;
        struct gw_listener_list listeners;
        struct gw_conn_list conns;
        struct gw_linger_list lingers;
        unsigned linger_count;
        atomic_uint taken;                      /* connections it has or is about to get; other loops add to it */
        atomic_bool starved;                    /* it does not accept, for want of room; other loops look */
        struct gw_guest_list going;             /* guests to be cut; under the guests' lock */
        struct lp_msg going_msg, resume_msg, room_msg;
        atomic_bool going_posted, resume_posted;
        bool room_asked;                        /* room_msg goes from loop to loop; it is at this one: */
        unsigned room_at;                       /* owner: who has the message */
        unsigned streams;                       /* answers being sent block by block */
        struct gw_request_list spare;           /* request structures to be used again */
        struct gw_request_list left;            /* the engine will call these back, their connections are gone */
        unsigned spare_count;
        struct gw_request_list line;            /* requests that wait for memory of answers, the first to come first */
        unsigned line_count;
        struct lp_hook hook;
        struct lp_timer sweep;
        bool sweep_armed;
        struct lp_msg drain_msg;
        bool draining;
        struct gw_credentials *credentials;     /* counted reference */
        unsigned credentials_seen;              /* generation it is of */
        struct gw_key_cached keys[GW_KEYS_CACHED];
        uint64_t key_uses;
        struct gw_digests digests;              /* hashing contexts to be used again */
        uint64_t next_id;
        struct gw_logs *logs;                   /* access logs of buckets; NULL: none are gathered */
        struct gw_executor *executor;           /* of batches on RDMA sessions; NULL: none has come yet */
        struct gw_temporary **opened;           /* tokens opened of late (gateway/sts/); NULL: none */
        /* scratch of the head of one request, used within one call */
        struct s3_auth auth;
        struct s3_query query;
        struct s3_header headers[GW_HEADERS_MAX];
        struct gw_loop_stats stats;             /* relaxed atomics: any thread reads */
};

struct gw_gateway {
        const struct gw_service *service;
        struct eng_store *store;                /* the first pool's */
        struct gw_pools pools;                  /* all of them, that one first */
        struct rdx_server *rdma;                /* NULL: none */
        atomic_uint logs_pending;               /* batches of access logs of buckets, on all loops */
        struct gw_logs_figures logs_figures;
        struct gw_inventory *inventory;         /* NULL: no reports are written */
        struct gw_lifecycle *lifecycle;         /* NULL: none is run */
        struct gw_people *people;               /* the directory (gateway/people/); NULL: there is none */
        struct gw_rights *rights;               /* AWS's own policies (gateway/rights/); NULL: there are none */
        struct gw_held *held;                   /* tokens of RDMA sessions (gateway/sts/); NULL: there are none */
        struct gw_key_uses *key_uses;           /* when keys signed last (gateway/sts/); NULL: it is not noted */
        struct gw_issuers *issuers;             /* of web identities (gateway/sts/); NULL: there are none */
        struct gw_sealer sealer;
        struct gw_limits limits;
        const struct gw_networks *proxies;      /* NULL: none */
        const char *tls_priorities;
        char region[S3_REGION_MAX + 1];
        struct gw_domains domains;
        struct gw_domains site_domains, site_hosts; /* of websites: BUCKET.DOMAIN, and hosts that are named as their bucket */
        bool presign_v2;
        char owner_id[65];                      /* canonical user id of root */
        char host_id[65];                       /* x-amz-id-2 */
        uint64_t started_ns;                    /* gw_clock_ns() */
        bool (*policy)(const struct gw_credential *who, const char *permission, struct s3_str bucket,
                       struct s3_str key); /* may they? NULL: yes (permit.h); set before the loops run */
        void (*access)(void *arg, const struct gw_access *line);
        void *access_arg;
        /* shared */
        pthread_mutex_t lock;                   /* credentials and tls: taken when they change */
        struct gw_credentials *credentials;
        atomic_uint credentials_generation;
        struct gw_tls *tls;                     /* newest first; older ones are kept for handshakes under way */
        atomic_bool drain;
        atomic_bool read_only;                  /* gw_read_only() */
        atomic_bool shedding;                   /* gw_shed() */
        bool ending;                            /* the loops have stopped for good */
        struct gw_guests guests;
        atomic_uint_least64_t upload_memory;    /* bytes held by small uploads and XML bodies on all loops */
        atomic_uint_least64_t answer_memory;    /* and by answers */
        atomic_uint_least64_t uploads_refused_ns, answers_refused_ns; /* when one did not fit; 0: never */
        unsigned loop_count;
        struct gw_loop *loops;
};

/*
 * The pair for a new handshake: the callback libmicrohttpd hands to GnuTLS. It is the gateway's
 * that gw_tls_serve() named on this thread.
 */
void gw_tls_free(struct gw_gateway *gw);
int gw_tls_retrieve(gnutls_session_t session, const gnutls_datum_t *ca, int ca_count, const gnutls_pk_algorithm_t *algos,
                    int algo_count, gnutls_pcert_st **pcert, unsigned *pcert_count, gnutls_privkey_t *key);

/* gw_new(), of a service. */
int gw_site_new(const struct gw_options *options, const struct gw_service *service, struct gw_gateway **out);

/* accept.c */
/*
 * Takes connections (again); called when there may be room, harmless where it does already. owner:
 * loop
 */
int gw_accept_resume(struct gw_listener *listener);
/* Closes the listening socket. */
void gw_accept_end(struct gw_listener *listener);

/* http.c */
struct MHD_Daemon *gw_http_daemon(struct gw_listener *listener);

/* conn_sweep.c: deadlines, peers that went away, lingering sockets */
void gw_sweep_start(struct gw_loop *loop);
/* Shuts the socket down: the library then closes the connection by itself. */
void gw_conn_cut(struct gw_conn *conn);
/*
 * The client has closed, also where only its own end, and so has given up: it may have asked elsewhere
 * meanwhile. A change of it is not begun, since it could count after a newer one: what it had sent may
 * have waited for a minute, here or on the way.
 */
bool gw_conn_gave_up(const struct gw_conn *conn);
/* Keeps a copy of the connection's socket and reads it dry after the library has closed its own. */
void gw_conn_linger(struct gw_conn *conn);
/*
 * Answers in the middle of a request body, past the library, and lingers. False: it could not be
 * sent.
 */
bool gw_conn_answer(struct gw_request *req);
/* The library is about to close: lingers where its own answer might be lost otherwise. */
void gw_conn_closing(struct gw_conn *conn);
void gw_linger_free_all(struct gw_loop *loop);

#endif
