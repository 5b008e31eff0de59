/*
 * inventory_pass.h - what the files that write inventory reports share. All on the gateway's first loop.
 *
 *   inventory_run.c      beginning and end, passes, buckets, configurations
 *   inventory_report.c   one report: pages, data files, manifests
 *   inventory_file.c     the bytes of a data file
 */
#ifndef GATEWAY_S3_INVENTORY_PASS_H
#define GATEWAY_S3_INVENTORY_PASS_H

#include "ec_gzip.h"
#include "gateway/http/gw_check.h"
#include "gateway/s3/bucket_texts.h"
#include "gateway/s3/inventory_run.h"
#include "gateway/s3/own_object.h"
#include "s3_inventory.h"

#define INVENTORY_PAGE       1000u
#define INVENTORY_FILE_BYTES (8u << 20)
#define INVENTORY_FILES_MAX  20000u
/* A file ends with the page by which it is long enough, and has a footer, or what the compressor held back. */
#define INVENTORY_BUFFER_BYTES (INVENTORY_FILE_BYTES + INVENTORY_PAGE * S3_INVENTORY_ROW_MAX + ERA_GZIP_SLACK)
#define INVENTORY_NAME_SIZE  2048u

/* A data file that was written. */
struct inventory_file {
        uint64_t size;
        uint8_t md5[16];
};

/* An object of the page whose lock is looked up: listings do not say it. */
struct inventory_entry {
        struct eng_object object;       /* without attrs and tags */
        bool latest;
        size_t key_at, key_len;         /* in keys */
};

struct gw_inventory {
        unsigned magic; /* gw_check.h */
        struct gw_gateway *gw;
        struct gw_loop *gw_loop;
        struct lp_loop *loop;
        struct lp_msg start;
        struct lp_timer timer;
        void (*after_rest)(struct gw_inventory *run);
        unsigned day_seconds;
        unsigned under_way;             /* calls that will come back */
        bool left;                      /* the gateway is gone: what comes back last frees this */
        /* the bucket */
        char name[ENG_BUCKET_NAME_MAX + 1];
        size_t name_len;                /* one more once it was looked at: what sorts behind it */
        uint64_t bucket;
        struct eng_text *text;          /* counted: its configurations, */
        struct s3_str rest;             /* those that have not had their turn */
        /* the report */
        struct s3_config *config;
        struct s3_inventory inventory;  /* slices of config */
        uint64_t destination;
        int64_t period_ms, began_ms;
        bool inside;                    /* the next page begins behind that version of the key, else behind the key */
        bool more;
        struct eng_version version;
        size_t key_len;
        char key[ENG_KEY_MAX];
        unsigned tries;                 /* of the page */
        uint64_t page_began;            /* lp_now() */
        struct era_gzip *gzip;
        struct s3_parquet *parquet;     /* NULL: the data files are CSV */
        char *buffer;                   /* of the data file; NULL: no report is being written */
        uint64_t rows;                  /* in it */
        struct inventory_entry *entries; /* NULL: no lock is asked for, or the bucket has none */
        char *keys;
        size_t keys_len;
        unsigned entry_count, entry;    /* the one that is looked up */
        bool looking, awaited;          /* inventory_look() runs; a look-up is under way */
        struct inventory_file *files;
        unsigned file_count, file_room;
        /* the object that is being written */
        struct gw_own own;
        bool writing;
        void (*after_write)(struct gw_inventory *run);
        char *content;                  /* its bytes, but of a data file */
        char own_name[INVENTORY_NAME_SIZE];
        /* figures */
        atomic_bool running;
        atomic_uint_least64_t passes, reports, listed, failed, refused, skipped;
};

/* ---- inventory_run.c ---- */

/* Reports may be written, and the gateway goes on. */
bool gw_inventory_may(const struct gw_inventory *run);
/* The callback's first step. False: the gateway is gone, and so may the run be. */
bool gw_inventory_back(struct gw_inventory *run);
void gw_inventory_rest(struct gw_inventory *run, uint64_t ns, void (*then)(struct gw_inventory *run));
void gw_inventory_rest_a_page(struct gw_inventory *run, void (*then)(struct gw_inventory *run));
/* The report is written, or given up. */
void gw_inventory_next(struct gw_inventory *run);
void gw_inventory_pass_ends(struct gw_inventory *run);

/* ---- inventory_report.c ---- */

/* Name of the object that says that the period has its report. False: no object can have it. */
bool gw_inventory_mark(struct gw_inventory *run);
/* May reports be written there? Of the object in own_name. */
bool gw_inventory_permitted(struct gw_inventory *run);
void gw_inventory_report(struct gw_inventory *run);
/* Frees what a report holds. */
void gw_inventory_let_go(struct gw_inventory *run);

/* ---- inventory_file.c ---- */

/* Memory for data files, from the report's beginning to its end. False: there is none; free it all the same. */
bool gw_inventory_file_room(struct gw_inventory *run);
void gw_inventory_file_free(struct gw_inventory *run);
void gw_inventory_file_begin(struct gw_inventory *run);
/* False: there is no room for the row, or for the rest; the file is of no use. */
bool gw_inventory_file_add(struct gw_inventory *run, const struct s3_inventory_row *row);
bool gw_inventory_file_end(struct gw_inventory *run);
/* Bytes so far, in the buffer. */
size_t gw_inventory_file_len(const struct gw_inventory *run);
/* Of the name, and the content type. */
const char *gw_inventory_file_suffix(const struct gw_inventory *run);
const char *gw_inventory_file_type(const struct gw_inventory *run);

#endif
