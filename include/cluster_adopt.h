/*
 * cluster_adopt.h - a store of one machine, stopped, becomes the first pool of a new cluster (docs/design/adopt.md).
 *
 *   cl_adopt_plan   what its drives say -> the pool's configuration, or why not
 *   cl_adopt_look   what etcd has of it
 *   cl_adopt_claim  puts pools/1/config: the cluster's name is taken
 *   cl_adopt_mark   marks the folders, so that nothing but this cluster's node opens them
 *   cl_adopt_end    puts `format`: the cluster exists
 *
 * They are called in this order, plan to claim once more between mark and end. Cut off anywhere, all of it can be done
 * again. Errors are negative errno.
 */
#ifndef MILLRACE_CLUSTER_ADOPT_H
#define MILLRACE_CLUSTER_ADOPT_H

#include "cluster_node.h"

/* A folder, and what its drive says. */
struct cl_adopt_drive {
        const char *path;
        struct eng_identity identity;
        uint64_t generation;    /* the highest that its file NODE knows; 0: none, or there is no such file */
        char node[CL_NAME_MAX]; /* the node's name in it; "": likewise */
        struct rem_known known; /* of rem_drive_ask() */
};

struct cl_adopt_plan {
        int rv; /* 0; -EINVAL and others: `text` says why */
        char text[2 * CL_TEXT_MAX];
        bool marked;  /* all folders are */
        bool is_pool; /* a node has led it: nothing is to be done, and what follows `epoch` is not filled */
        uint8_t store_id[CL_ID];
        struct eng_epoch_info epoch; /* the newest of its drives */
        struct cl_config config;     /* that the pool is to begin with */
        uint64_t generation;         /* that `format` is to have at least: above all that drives and folders know */
        uint64_t missing;            /* slots without a drive here: they are marked, and go on without these */
};
/*
 * A function over values; any thread. It takes chance from lp_random(). site: of all slots. All slots that were not
 * removed must be in, each of their drives given, with the newest EPOCH record. When all given are marked, a drive may be
 * missing: the others are a majority, and each group of names has a copy among them.
 */
void cl_adopt_plan(const struct cl_adopt_drive *drives, unsigned count, const struct eng_site *site, struct cl_adopt_plan *out);

enum cl_adopt_found {
        CL_ADOPT_NONE,  /* nothing under the cluster's name */
        CL_ADOPT_BEGUN, /* the store's pool, and no cluster yet */
        CL_ADOPT_DONE   /* the cluster, with this pool */
};
/* A function over values; any thread. One of these; -EEXIST, -EREMCHG or -EBUSY, and why: it cannot be adopted there. */
int cl_adopt_look(const struct cl_adopt_plan *plan, const struct cl_view *view, char text[CL_TEXT_MAX]);

/*
 * Whether the node may have this name and this address; any thread. -EEXIST, and why: folders are marked under another
 * name, or another node has the address.
 */
int cl_adopt_check_node(const struct cl_adopt_drive *drives, unsigned count, const char *name, const char *address, const struct cl_view *view, char text[CL_TEXT_MAX]);

/*
 * Of all folders at once: none is open as a drive. Writes NODE, as `as` says but for the drive, then the features of a
 * cluster's pool. Blocking; any thread. -EBUSY: one is open, and none was marked. Others, and why: some may be marked.
 */
int cl_adopt_mark(const struct cl_adopt_drive *drives, unsigned count, const struct cl_node_file *as, struct eng_error *error);

/* What is done in etcd. On one loop. Zero it, fill in the first part. All it points to stays as it is until done(). */
struct cl_adopt {
        struct cl_etcd *etcd;
        const char *cluster;
        const struct cl_view *view; /* just read; cl_adopt_look() has said NONE or BEGUN of it */
        const struct cl_adopt_plan *plan;
        void (*done)(struct cl_adopt *adopt);
        void *arg;
        /* the answer: 0; -EEXIST: somebody else was faster; -EAGAIN; -ENOSPC; -ENOMEM */
        int rv;
        char text[CL_TEXT_MAX];
        int64_t config_revision; /* that the claim has */
        /* private */
        struct cl_cas cas;
        struct cl_compare compares[2];
        bool ending;
        char key[CL_KEY_NAME_MAX], other_keys[2][CL_KEY_NAME_MAX], value[CL_JSON_MAX];
};
/* Puts the plan's config, unless the one that is there was made of the same epoch for the same site, or there is `format`. */
void cl_adopt_claim(struct cl_adopt *adopt);
/* Puts `format`, if the config is that of the claim. It ends a reseed that was asked for, if there is no other since. */
void cl_adopt_end(struct cl_adopt *adopt);

#endif
