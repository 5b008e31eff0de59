/*
 * claim.c - taking the leader key of a pool.
 *
 *   boots/N + 1  ->  leader: this one, over the key that was seen  ->  what etcd has, if leader is still this one
 *
 * The last step reads the configuration after the key was taken, not with it: nobody else changes it from
 * then on, since each change compares the leader key (R4), and that the key is still this one's is compared
 * where it is read.
 */
#include "cluster_leader.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { KEY_LEADER, KEY_CONFIG, KEY_FORMAT };

static struct cl_bytes claim_key(const struct cl_claim *claim, unsigned key)
{
        return (struct cl_bytes){claim->keys[key], strlen(claim->keys[key])};
}

static void claim_end(struct cl_claim *claim, int rv, const char *text)
{
        claim->rv = rv;
        snprintf(claim->text, sizeof(claim->text), "%s", text);
        claim->done(claim);
}

/* ---- what etcd has --------------------------------------------------------------------------- */

static int take_format(struct cl_claim *claim, const struct cl_key *key)
{
        struct cl_format *format = &claim->format;
        struct cl_seen seen;
        int rv = cl_format_read(key->value.data, key->value.len, format);

        if (rv != 0)
                return rv;
        cl_etcd_seen(claim->etcd, &seen);
        if (cl_generation_judge(&seen, &(struct cl_generation){format->generation, format->random}) != CL_SEEN_FINE) {
                cl_etcd_distrust(claim->etcd, CL_SEEN_OTHER_GENERATION);
                return -EBADMSG;
        }
        claim->term.generation = format->generation;
        return 0;
}

static void claim_read(struct cl_request *request)
{
        struct cl_claim *claim = container_of(request, struct cl_claim, request);
        const struct cl_answer *answer = request->answer;
        int rv;

        if (request->outcome != CL_DONE) {
                claim_end(claim, -EAGAIN, request->text);
        } else if (!answer->succeeded) {
                claim_end(claim, -EEXIST, "another process leads the pool by now");
        } else if (answer->range_count != 2 || answer->ranges[0].count != 1 || answer->ranges[1].count != 1) {
                claim_end(claim, -EBADMSG, "the cluster or the pool is not there");
        } else {
                claim->config_revision = answer->ranges[0].at[0].mod_revision;
                rv = cl_config_read(answer->ranges[0].at[0].value.data, answer->ranges[0].at[0].value.len, &claim->config);
                if (rv == 0)
                        rv = take_format(claim, &answer->ranges[1].at[0]);
                claim_end(claim, rv == -ENOMEM ? -EAGAIN : rv, rv == 0 ? "" : "what etcd has of the cluster or the pool makes no sense");
        }
}

static void ask_what_there_is(struct cl_claim *claim)
{
        claim->compare = (struct cl_compare){.kind = CL_COMPARE_MOD, .key = claim_key(claim, KEY_LEADER), .number = (int64_t)claim->term.revision};
        claim->ops[0] = (struct cl_op){.kind = CL_OP_RANGE, .key = claim_key(claim, KEY_CONFIG)};
        claim->ops[1] = (struct cl_op){.kind = CL_OP_RANGE, .key = claim_key(claim, KEY_FORMAT)};
        memset(&claim->request, 0, sizeof(claim->request));
        claim->request.kind = CL_TXN;
        claim->request.compares = &claim->compare;
        claim->request.compare_count = 1;
        claim->request.success = claim->ops;
        claim->request.success_count = 2;
        claim->request.done = claim_read;
        cl_etcd_submit(claim->etcd, &claim->request);
}

/* ---- the leader key -------------------------------------------------------------------------- */

/* False: it was not won, and the claim has ended. */
static bool is_won(struct cl_claim *claim, const struct cl_cas *cas)
{
        switch (cas->outcome) {
        case CL_CAS_WON:
                return true;
        case CL_CAS_LOST:
        case CL_CAS_OVERTAKEN:
                claim_end(claim, -EEXIST, "another process leads the pool by now");
                return false;
        case CL_CAS_FAILED:
        case CL_CAS_UNKNOWN:
                break;
        }
        claim_end(claim, cas->error == -ENOSPC ? -ENOSPC : -EAGAIN, cas->text);
        return false;
}

static void claim_leads(struct cl_cas *cas)
{
        struct cl_claim *claim = container_of(cas, struct cl_claim, cas);

        if (!is_won(claim, cas))
                return;
        claim->term.revision = (uint64_t)cas->revision;
        claim->term.node = cl_party(claim->node, claim->pool);
        claim->term.boot = claim->boot_taken;
        ask_what_there_is(claim);
}

static void claim_put(struct cl_claim *claim, unsigned key, int64_t mod_revision, size_t len, void (*done)(struct cl_cas *cas))
{
        if (len == 0) {
                claim_end(claim, -EAGAIN, "out of memory");
                return;
        }
        claim->value_len = len;
        memset(&claim->cas, 0, sizeof(claim->cas));
        claim->cas.etcd = claim->etcd;
        claim->cas.key = claim_key(claim, key);
        claim->cas.value = (struct cl_bytes){claim->value, len};
        claim->cas.mod_revision = mod_revision;
        claim->cas.done = done;
        cl_cas(&claim->cas);
}

static void claim_leader(struct cl_claim *claim)
{
        struct cl_owner owner = {.node = claim->node, .boot = claim->boot_taken};

        lp_random(owner.claim, sizeof(owner.claim));
        claim_put(claim, KEY_LEADER, claim->leader_revision, cl_owner_write(&owner, claim->value), claim_leads);
}

/* ---- the boot number ------------------------------------------------------------------------- */

static void claim_has_boot(struct cl_boot_take *take)
{
        struct cl_claim *claim = container_of(take, struct cl_claim, boot);

        claim->boot_taken = take->boot;
        if (take->rv != 0)
                claim_end(claim, take->rv, take->text);
        else
                claim_leader(claim);
}

void cl_claim_start(struct cl_claim *claim)
{
        assert(claim->pool >= 1 && claim->pool <= CL_POOL_LAST && claim->node >= 1 && claim->node <= CL_NODE_LAST);
        cl_key_name(claim->cluster, CL_KEY_LEADER, claim->pool, claim->keys[KEY_LEADER]);
        cl_key_name(claim->cluster, CL_KEY_CONFIG, claim->pool, claim->keys[KEY_CONFIG]);
        cl_key_name(claim->cluster, CL_KEY_FORMAT, 0, claim->keys[KEY_FORMAT]);
        if (claim->boot_taken != 0) {
                claim_leader(claim);
                return;
        }
        claim->boot = (struct cl_boot_take){.etcd = claim->etcd, .cluster = claim->cluster, .node = claim->node, .done = claim_has_boot};
        cl_boot_take(&claim->boot);
}
