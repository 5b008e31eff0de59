/*
 * etcd_read.h - what etcd answers. Every byte of it is outside data: it is believed only where it
 * fits what was asked.
 */
#ifndef MILLRACE_CLUSTER_ETCD_READ_H
#define MILLRACE_CLUSTER_ETCD_READ_H

#include "cluster_etcd.h"
#include "s3_base.h"

#define ETCD_TOKEN_MAX 4096u /* with the final 0 */

struct etcd_header {
        uint64_t cluster_id, member_id, raft_term;
        int64_t revision;
};

/*
 * Any thread, as all of these. 0, -EBADMSG (`why` is then a text that stays), -EMSGSIZE
 * (CL_ANSWER_MAX), -ENOMEM. What `answer` got before an error stays in it.
 *
 * A page of a range: adds its keys, which are behind those that are there, of answer->revision (0:
 * it is the first page). `more`: there are others behind them.
 */
int etcd_read_page(struct s3_str body, const struct cl_request *request, struct cl_answer *answer,
                   struct etcd_header *header, bool *more, const char **why);
/* A transaction: makes the answer. */
int etcd_read_txn(struct s3_str body, const struct cl_request *request, struct cl_answer **answer,
                  struct etcd_header *header, const char **why);
int etcd_read_status(struct s3_str body, struct cl_status *status, struct etcd_header *header, const char **why);
/* The token, into ETCD_TOKEN_MAX bytes: it can stand in a header of HTTP. */
int etcd_read_token(struct s3_str body, char *token, const char **why);

/* What a status of HTTP other than 200 means, with its body. */
enum etcd_refusal {
        ETCD_REFUSED,   /* not carried out; another member would say the same */
        ETCD_DENIED,    /* the same, for want of a right */
        ETCD_COMPACTED, /* the same, since the revision that was asked for is gone */
        ETCD_TOKEN_OLD, /* not carried out; a new login will help */
        ETCD_TOO_LARGE, /* the answer is too large for etcd's gateway. It may have been carried out */
        ETCD_FULL,      /* its database has no space. It may have been carried out */
        ETCD_UNCLEAR    /* it may have been carried out; another member may know better */
};
/* text: CL_TEXT_MAX bytes, for people. */
enum etcd_refusal etcd_read_refusal(long http_status, struct s3_str body, char *text);

#endif
