/*
 * cluster_reseed.h - etcd was lost, or restored from a backup: it is written anew from what the nodes' folders hold
 * (rule R2, docs/design/reseed.md).
 *
 *   /millrace/CLUSTER/reseed/request   a format: that the cluster is to have next. It is open while `format` is older
 *   /millrace/CLUSTER/reseed/nodes/N   struct cl_report: what node N holds
 *
 *   cl_reseed_judge   a node, before it joins: is this etcd its own, was it reseeded, or does it wait?
 *   cl_reseed_plan    all reports -> what etcd is to have
 *   cl_reseed         reads reports, asks for the fence, writes
 *
 * Errors are negative errno.
 */
#ifndef MILLRACE_CLUSTER_RESEED_H
#define MILLRACE_CLUSTER_RESEED_H

#include "cluster_node.h"

#define CL_REPORT_MAX      (192u << 10) /* of its value in etcd */
#define CL_RESEED_BOOTS    4096u       /* above all boot numbers that are known: nobody starts so often unseen */
#define CL_RESEED_LINES    96u
#define CL_RESEED_ASK_NS   (5ull * 1000 * 1000 * 1000) /* that nodes have to report by themselves */
#define CL_RESEED_WAIT_MS  60000u
#define CL_REPORT_SEEN_NS  (5ull * 1000 * 1000 * 1000) /* in which a report that was put is to be seen */

/* ---- reports --------------------------------------------------------------------------------- */

/* A folder that should be a drive of a pool. */
struct cl_held {
        uint8_t drive[CL_ID], store[CL_ID];
        unsigned slot;
        uint64_t epoch; /* its newest EPOCH record; 0: it was in none yet */
        uint8_t epoch_id[CL_ID];
        struct eng_term term; /* its newest TERM record but the fence's */
        bool fenced;          /* nothing older than the fence is taken by it any more, durably */
        char fault[160];      /* why nothing is known of it; "": it is */
};

/* What the drives of one store know of its epochs. */
struct cl_report_epoch {
        uint8_t store[CL_ID];
        size_t epoch_len; /* of the held drive with the newest EPOCH record */
        _Alignas(8) uint8_t epoch[CL_EPOCH_MAX];
        unsigned past_count;
        struct {
                uint64_t number;
                uint8_t id[CL_ID];
        } past[REM_PAST_MAX];
};

struct cl_report {
        uint16_t node;
        struct cl_node self; /* name, addresses, rack */
        uint64_t boot;       /* the highest that its folders know */
        struct cl_seen seen;
        struct cl_generation fence; /* of `fenced` above, and that it waits for; 0: none */
        bool has_cluster_id;
        uint8_t cluster_id[CL_ID]; /* of the newest TERM record: that `format` had */
        char switches[CL_SWITCHES_MAX];
        unsigned pools; /* the highest number of a pool that its folders know of; 0: none does */
        unsigned held_count;
        struct cl_held held[CL_DRIVES_MAX];
        unsigned epoch_count;
        struct cl_report_epoch epochs[CL_POOLS_MAX]; /* one for each store that it has drives of */
};
/* Any thread. NULL: it has no drive of that store. */
const struct cl_report_epoch *cl_report_epoch_of(const struct cl_report *report, const uint8_t store[CL_ID]);
/* Functions over values; any thread. At most CL_REPORT_MAX bytes; 0: no memory, or no room. */
size_t cl_report_write(const struct cl_report *report, char out[CL_REPORT_MAX]);
/* 0, -EBADMSG, -ENOMEM. */
int cl_report_read(const void *value, size_t len, struct cl_report *out);
/* What a drive has answered becomes part of the report. -ENOSPC: too many drives, or stores. */
int cl_report_add(struct cl_report *report, const struct eng_identity *identity, const struct rem_known *known, bool fenced, const char *fault);

/* ---- a node, before it joins ----------------------------------------------------------------- */

enum cl_reseed_says {
        CL_RESEED_OWN,   /* this is the etcd that the node knows: it joins */
        CL_RESEED_TAKE,  /* it was written anew, and the node goes by it: it keeps what `now` says, and joins */
        CL_RESEED_WAIT,  /* it is another one: the node serves nothing, reports, and waits */
        CL_RESEED_FENCE  /* the same, and a reseed is under way: it fences its drives with `now`, and reports that */
};
struct cl_reseed_self {
        uint16_t node;
        struct cl_seen seen;        /* of the node's folders */
        struct cl_generation fence; /* likewise */
        unsigned store_count;
        uint8_t stores[CL_POOLS_MAX][CL_ID]; /* that its drives are of */
};
/* etcd_id: of etcd, as the header of its answers has it. now: the generation that is meant; `cluster_id` with FENCE. */
enum cl_reseed_says cl_reseed_judge(const struct cl_reseed_self *self, uint64_t etcd_id, const struct cl_view *view, struct cl_format *now);
/* Why it does not join: a line. */
const char *cl_reseed_text(const struct cl_reseed_self *self, uint64_t etcd_id, const struct cl_view *view);

/* What a node has put of its report. Zero: nothing. */
struct cl_report_put {
        size_t len;
        int64_t request_revision; /* that it compared */
        uint64_t at;              /* lp_clock() */
        char value[CL_REPORT_MAX];
};
/*
 * It need not be put again: it is the same, of the same request, and etcd shows it, or was read too long ago to. etcd keeps each value
 * that is put until it is compacted.
 */
bool cl_report_stands(const struct cl_report_put *put, uint16_t node, const char *value, size_t len, const struct cl_view *view, uint64_t now);
void cl_report_was_put(struct cl_report_put *put, const char *value, size_t len, const struct cl_view *view, uint64_t now);

/* ---- the plan -------------------------------------------------------------------------------- */

/* What the operator gives up. */
struct cl_reseed_wish {
        unsigned node_count;
        uint16_t nodes[CL_NODE_LAST];
        uint64_t slots[CL_POOLS_MAX + 1]; /* of each pool, by number */
};

/* What etcd and the nodes have said. */
struct cl_reseed_found {
        unsigned count;
        struct cl_report *reports;
        bool has_format, has_request;
        struct cl_format format, request;
        int64_t format_revision, request_revision, config_revision[CL_POOLS_MAX + 1];
        struct cl_boot boots[CL_NODE_LAST + 1]; /* that etcd has; 0: none, or it makes no sense */
        int64_t boot_revision[CL_NODE_LAST + 1];
        bool gone[CL_NODE_LAST + 1]; /* etcd says that the node was removed */
};

/* What a pool is to have. */
struct cl_reseed_pool {
        unsigned number;
        uint8_t store[CL_ID];
        uint64_t newest; /* the newest EPOCH record's number */
        uint64_t given_up;
        struct cl_config config;
        struct eng_epoch_info epoch; /* of config */
};

struct cl_reseed_plan {
        int rv; /* 0: it can be done. -EAGAIN: something has not reported yet; -EINVAL: it cannot be done so. `text` says why */
        char text[CL_TEXT_MAX];
        bool fenced;     /* all drives that count are fenced by the request */
        bool outdated;   /* somebody knows a generation that is not below the request's: another request is needed */
        struct cl_generation next; /* for a request: above all that are known */
        unsigned pool_count;
        struct cl_reseed_pool pools[CL_POOLS_MAX]; /* by number */
        bool has_cluster_id;
        uint8_t cluster_id[CL_ID];
        uint64_t boots[CL_NODE_LAST + 1]; /* 0: none is written */
        uint8_t claim[CL_ID];             /* that boot numbers of this request have, by which a later run knows them */
        char switches[CL_SWITCHES_MAX];
        unsigned line_count;
        char lines[CL_RESEED_LINES][CL_TEXT_MAX]; /* for the operator */
};
/* A function over values; any thread. It takes chance from lp_random(). */
void cl_reseed_plan(const struct cl_reseed_found *found, const struct cl_reseed_wish *wish, struct cl_reseed_plan *out);

/* ---- doing it -------------------------------------------------------------------------------- */

/* On one loop. Zero it, fill in the first part. All it points to stays as it is until done(). */
struct cl_reseed {
        struct cl_etcd *etcd; /* that has seen nothing */
        const char *cluster;
        const struct cl_reseed_wish *wish;
        bool doit;        /* false: nothing is written */
        unsigned wait_ms; /* for reports, and again for fences; 0: CL_RESEED_WAIT_MS. Without doit: for reports */
        void (*waits)(void *arg, const char *text); /* whenever that changes; may be NULL */
        void (*done)(struct cl_reseed *reseed);
        void *arg;
        /* the answer: 0: done, or it could be; as the plan's rv; -EEXIST: another run has done it; -EHOSTUNREACH and others of etcd */
        int rv;
        char text[CL_TEXT_MAX];
        struct cl_reseed_plan plan;
        struct cl_format format; /* that was written */
        /* private */
        struct cl_reseed_found found;
        struct cl_request request;
        struct cl_cas cas;
        struct lp_timer timer;
        struct lp_loop *loop;
        uint64_t until, ask_at;
        bool asked, written;
        unsigned report_room, next_node;
        struct cl_compare compares[CL_COMPARES_MAX];
        char compare_keys[CL_COMPARES_MAX][CL_KEY_NAME_MAX];
        unsigned compare_count;
        struct cl_op ops[CL_OPS_MAX];
        unsigned op_count;
        char told[CL_TEXT_MAX], prefix[CL_KEY_NAME_MAX], request_key[CL_KEY_NAME_MAX], reports_key[CL_KEY_NAME_MAX];
        char format_value[CL_JSON_MAX];
        struct cl_reseed_text {
                char key[CL_KEY_NAME_MAX], value[CL_JSON_MAX];
        } texts[CL_OPS_MAX];
};
void cl_reseed(struct cl_reseed *reseed);
/* After done(); nothing if it was not begun. */
void cl_reseed_free(struct cl_reseed *reseed);

#endif
