/*
 * probe_rdma.c - RDMA as this client would have it, for people: whether it is tried first, and a
 * grant that is asked for and given back. On the caller's thread, which waits.
 */
#include "client.h"

#include "client/base/failure.h"
#include "client/base/client_wait.h"
#include "client/base/object_check.h"
#include "client/rdma/connection.h"
#include "client/transfer/plan.h"

#include <string.h>

#define PROBE_LEN 4096u

/* owner: the caller, which waits */
struct probe {
        unsigned magic; /* object_check.h */
        struct mr_grant grant;
        struct mr_rdma_report *report;
        struct mr_wait wait;
};

static void probe_granted(void *arg, struct mr_grant *grant, int rv)
{
        struct probe *probe = MR_CAST(probe, arg);

        assert(grant == &probe->grant);
        if (rv != 0) {
                mr_wait_tell(&probe->wait, rv);
                return;
        }
        mr_grant_describe(grant, probe->report);
        mr_grant_over(grant, MR_LEASE_QUIET);
}

static void probe_ended(void *arg, struct mr_grant *grant, int rv)
{
        struct probe *probe = MR_CAST(probe, arg);

        assert(grant == &probe->grant);
        mr_wait_tell(&probe->wait, rv);
}

int mr_probe_rdma(struct mr_client *client, struct mr_rdma_report *out, struct mr_error *err)
{
        struct probe probe = {.magic = probe_magic, .report = out, .wait = MR_WAIT_INIT};
        int rv;

        memset(out, 0, sizeof(*out));
        probe.grant = (struct mr_grant){.len = PROBE_LEN,
                                        .read = true,
                                        .insist = true,
                                        .granted = probe_granted,
                                        .ended = probe_ended,
                                        .arg = &probe};
        rv = mr_buffer_new(client, PROBE_LEN, 0, &probe.grant.buffer);
        if (rv != 0)
                return mr_failure_errno(err, rv);
        rv = mr_grant_ask(client, &probe.grant);
        if (rv == 0)
                rv = mr_wait_for(&probe.wait);
        mr_buffer_free(probe.grant.buffer);
        if (rv != 0 && probe.grant.error.code != 0 && err != NULL)
                *err = probe.grant.error;
        else if (rv != 0)
                mr_failure_errno(err, rv);
        return rv;
}

bool mr_prefers_rdma(const struct mr_client *client, bool put, uint64_t len, size_t batch)
{
        uint64_t wanted = client->settings.part_size, tail;
        struct mr_plan plan;

        if (!put && batch > 1 && len <= MR_GET_PART)
                return true;
        if (!put)
                mr_plan_download(len, wanted, &plan);
        else if (mr_plan_upload(len, wanted, &plan) != 0)
                return false;
        tail = plan.parts > 1 ? mr_plan_length(&plan, plan.parts - 1) : len;
        return len >= MR_RDMA_LEAST && tail >= MR_RDMA_LEAST;
}
