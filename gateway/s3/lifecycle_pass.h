/*
 * lifecycle_pass.h - what the files that carry out lifecycle rules share: a pass, where it is, and
 * what of the present page is due. All on the gateway's first loop.
 *
 *   lifecycle_run.c      beginning and end, passes, buckets, prefixes
 *   lifecycle_page.c     pages of versions and uploads: what is due
 *   lifecycle_act.c      what is due is done
 *   lifecycle_place.c    where a pass is, kept over restarts
 */
#ifndef GATEWAY_S3_LIFECYCLE_PASS_H
#define GATEWAY_S3_LIFECYCLE_PASS_H

#include "gateway/http/gw.h"
#include "gateway/http/gw_check.h"
#include "gateway/s3/bucket_texts.h"
#include "gateway/s3/lifecycle_run.h"

#define LIFECYCLE_PAGE    1000u
#define LIFECYCLE_AT_ONCE 32u
/*
 * Where clients have sent requests since the page before: shorter pages, and waves of changes, so that
 * one flush of a drive is of many of them, at the pace of 1e9 changes in 24 hours and a little more.
 */
#define LIFECYCLE_PAGE_BESIDE 250u
#define LIFECYCLE_WAVE        8u
#define LIFECYCLE_PACE        10000u /* changes a second */

/* One thing of a page that is due, or may be. owner: its run */
struct lifecycle_due {
        unsigned magic; /* gw_check.h */
        struct gw_lifecycle *run;
        struct s3_lifecycle_version version; /* key: in the run's memory */
        struct eng_version id;
        struct eng_condition same;      /* it is what was listed */
        bool look;                      /* its tags decide */
        enum s3_lifecycle_action action;
        uint8_t upload_id[ENG_ID_LEN];
};

/* What a prefix is gone through for. */
enum lifecycle_listing { LIFECYCLE_VERSIONS, LIFECYCLE_UPLOADS };

/* Where the listing has come to. */
struct lifecycle_cursor {
        enum lifecycle_listing listing;
        unsigned prefix;                /* of the rules */
        bool inside;                    /* behind that version or upload of the key; else behind the key */
        struct eng_version version;
        uint8_t upload[ENG_ID_LEN];
        size_t key_len;
        char key[ENG_KEY_MAX];
        /* of the key */
        int64_t newer_ms;               /* when the version before was written */
        unsigned noncurrent;            /* met so far */
        uint64_t least;                 /* number of the oldest version met, the null version left out; UINT64_MAX: none */
        /* the key before, of which all was met */
        size_t whole_len;
        char whole[ENG_KEY_MAX];
};

struct gw_lifecycle {
        unsigned magic; /* gw_check.h */
        struct gw_gateway *gw;
        struct lp_loop *loop;
        struct lp_msg start;
        struct lp_timer timer;
        void (*after_rest)(struct gw_lifecycle *run);
        unsigned day_seconds;
        bool left;                      /* the gateway is gone: what comes back last frees this */
        /* the pass */
        bool seeking;                   /* the bucket where one before was cut off */
        uint64_t kept_at;               /* lp_now(): its place was kept */
        uint64_t placed;                /* bucket that keeps its place; 0: none */
        int place_rv;                   /* of the last change of one, */
        void (*after_change)(struct gw_lifecycle *run), (*after_place)(struct gw_lifecycle *run); /* and what comes then */
        /* the bucket */
        char name[ENG_BUCKET_NAME_MAX + 1];
        size_t name_len;                /* one more once it is done with: what sorts behind it */
        uint64_t bucket;
        struct eng_text *text;
        const struct s3_lifecycle *rules; /* of text */
        bool tags_decide, aborts;       /* an enabled rule asks for tags; ends uploads */
        struct s3_tags any;             /* all tags that rules ask for */
        bool any_are_all;               /* none was left out */
        struct lifecycle_cursor at;
        /* the page */
        uint64_t page_began;            /* lp_now() */
        uint64_t requests_seen;         /* of clients, when the page was asked for */
        uint64_t page_listed;           /* lp_now() */
        bool beside;                    /* clients send requests */
        uint64_t wave_at;               /* lp_now(): the next wave may begin */
        unsigned at_once;               /* changes of it under way at most */
        unsigned tries;                 /* that failed */
        bool more;
        unsigned count, next, under_way;
        size_t keys_len;
        char *keys;
        struct lifecycle_due *due;
        /* figures */
        atomic_bool running;
        atomic_uint_least64_t passes, resumed, looked_at, expired, versions, markers, uploads, protected, failed, skipped;
};

/* ---- lifecycle_run.c ---- */

/* Changes are allowed, and the gateway goes on. */
bool gw_lifecycle_may(const struct gw_lifecycle *run);
/* The rules that the pass works by are in force still. */
bool gw_lifecycle_rules_hold(const struct gw_lifecycle *run);
/* By both clocks: one that was set ahead makes nothing due. */
bool gw_lifecycle_is_due(const struct gw_lifecycle *run, const struct s3_lifecycle_due *due);
/*
 * A callback's first step: something is back. False: the gateway is gone, and so may the run be.
 */
bool gw_lifecycle_back(struct gw_lifecycle *run);
/* then() comes after a while; at least as long as the page took, or its listing where clients are served. */
void gw_lifecycle_rest(struct gw_lifecycle *run, uint64_t ns, void (*then)(struct gw_lifecycle *run));
void gw_lifecycle_rest_a_page(struct gw_lifecycle *run, void (*then)(struct gw_lifecycle *run));
/* A day of the rules, or one of so many parts of it. */
uint64_t gw_lifecycle_part_of_day(const struct gw_lifecycle *run, unsigned parts);
/* Nothing more is done in this pass, or with this bucket, or with this listing of a prefix. */
void gw_lifecycle_pass_ends(struct gw_lifecycle *run);
void gw_lifecycle_next_bucket(struct gw_lifecycle *run);
void gw_lifecycle_listing_ends(struct gw_lifecycle *run);

/* ---- lifecycle_page.c ---- */

/* The cursor stands before all that the listing has of its prefix. */
void gw_lifecycle_cursor_begin(struct lifecycle_cursor *at);
/* One page, from the cursor on; then what is due of it. */
void gw_lifecycle_page(struct gw_lifecycle *run);

/* ---- lifecycle_act.c ---- */

/* Does what is due of the page, then goes on. */
void gw_lifecycle_act(struct gw_lifecycle *run);
/* A change is counted before the switch is looked at (gw_changing()). False: there are to be none. */
bool gw_lifecycle_change_begins(struct gw_lifecycle *run);
void gw_lifecycle_change_ends(struct gw_lifecycle *run);

/* ---- lifecycle_place.c ---- */

/*
 * Keeps where the pass is, if that was not done lately, then goes on with then(); what fails is no
 * loss.
 */
void gw_lifecycle_place_keep(struct gw_lifecycle *run, void (*then)(struct gw_lifecycle *run));
/* A pass was cut off in the present bucket: the cursor is set to where, if its rules are the same. */
bool gw_lifecycle_place_find(struct gw_lifecycle *run);
/* The bucket is done with, or the pass: a place that no pass is to go on from is not kept. */
void gw_lifecycle_place_pass(struct gw_lifecycle *run, void (*then)(struct gw_lifecycle *run));
void gw_lifecycle_place_end(struct gw_lifecycle *run, void (*then)(struct gw_lifecycle *run));

#endif
