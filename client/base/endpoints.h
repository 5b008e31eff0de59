/*
 * endpoints.h - the endpoints of one store that a client may send a request to: which one the next
 * attempt takes, and what its end says about it (docs/design/endpoints.md). Pure: the caller brings
 * the clock and random numbers. Private to client/.
 */
#ifndef CLIENT_ENDPOINTS_H
#define CLIENT_ENDPOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_ENDPOINTS_MAX    16u
#define MR_ENDPOINT_URL_MAX 512u

#define MR_ENDPOINT_PAUSE_MS     1000 /* after the first failure; doubled by each further one */
#define MR_ENDPOINT_PAUSE_MAX_MS 30000

struct mr_endpoint {
        /* constant after mr_endpoints_parse() */
        char url[MR_ENDPOINT_URL_MAX];  /* without a "/" at its end */
        char host[MR_ENDPOINT_URL_MAX]; /* value of the Host header: without a default port */

        /* guarded by the caller's lock */
        unsigned load;         /* attempts under way, those that wait for their turn included */
        unsigned failures;     /* of tries, one after another; 0: it is up */
        int64_t avoided_until; /* ms; while failures > 0 */
        bool probed;           /* an attempt tries it after its pause */
};

struct mr_endpoints {
        unsigned count; /* at least 1 */
        bool tls;       /* all of them */
        struct mr_endpoint at[MR_ENDPOINTS_MAX];
};

/* An attempt's use of an endpoint. owner: the attempt's request */
struct mr_endpoint_use {
        unsigned index;
        bool taken; /* until mr_endpoints_give() */
        bool probe;
};

enum mr_endpoint_end {
        MR_ENDPOINT_WORKS,  /* it answered */
        MR_ENDPOINT_FAILED, /* it did not, or said that it cannot serve */
        MR_ENDPOINT_UNKNOWN /* the attempt says nothing about it */
};

/*
 * "http[s]://host[:port][/]", nothing else. Returns 0 or -EINVAL.
 */
int mr_url_check(const char *url);
/* Fills in the Host header of a URL that mr_url_check() accepts, and whether it is https. */
void mr_url_host(const char *url, bool *tls, char *out, size_t size);

/*
 * Takes a list of URLs apart: commas between them, blanks around them. Endpoints named twice count
 * once. -EINVAL: an element is no URL, schemes are mixed, or there are none or too many.
 */
int mr_endpoints_parse(const char *text, struct mr_endpoints *out);

/*
 * Chooses an endpoint for an attempt. tried is a mask of those to be used only where no other is
 * up. Every use is given back.
 */
struct mr_endpoint_use mr_endpoints_take(struct mr_endpoints *endpoints, unsigned tried, int64_t now_ms,
                                         uint32_t random);
/* The same among some of them: a mask, not empty. */
struct mr_endpoint_use mr_endpoints_take_among(struct mr_endpoints *endpoints, unsigned among, unsigned tried,
                                               int64_t now_ms, uint32_t random);
/* What the end of an attempt says that had to go to this endpoint, and is no use of it. */
void mr_endpoints_note(struct mr_endpoints *endpoints, unsigned index, enum mr_endpoint_end end, int64_t now_ms,
                       uint32_t random);
/* Ends a use that is taken. */
void mr_endpoints_give(struct mr_endpoints *endpoints, struct mr_endpoint_use *use, enum mr_endpoint_end end,
                       int64_t now_ms, uint32_t random);

/* Its pause is not over. */
bool mr_endpoint_avoided(const struct mr_endpoint *endpoint, int64_t now_ms);

#endif
