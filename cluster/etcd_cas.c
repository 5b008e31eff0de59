/*
 * etcd_cas.c - compare and set of one key, and what became of it when its answer was lost (R1).
 * Works with any etcd behind the table. Called on the loop of the caller; one request is under way
 * at a time.
 *
 * That the old value is read back proves nothing: the transaction may still be on its way, and may
 * be carried out after the read. What proves that it never will be: a compared key has moved on,
 * since a mod_revision never comes back; or etcd has answered that its database is full. It says so
 * also where it has carried the transaction out, but then a read behind that answer shows it.
 */
#include "cluster_etcd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PAUSE_FIRST_NS (20ull * 1000 * 1000)
#define PAUSE_MOST_NS  (500ull * 1000 * 1000)
#define STEPS_MAX      16u /* changes of the key that are looked at backwards */

#define FULL_TEXT "etcd's database is full, and takes no change before it is compacted, defragmented and its NOSPACE alarm disarmed: "

/* cas.state */
enum { CAS_TXN, CAS_LOOK, CAS_WALK };

static void cas_look(struct cl_cas *cas);
static void cas_walk(struct cl_cas *cas);

static struct cl_cas *cas_of(struct cl_request *request)
{
        return container_of(request, struct cl_cas, request);
}

static bool bytes_equal(struct cl_bytes a, struct cl_bytes b)
{
        return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* ---- what an answer shows -------------------------------------------------------------------- */

/* Such a compare will not hold again. */
static bool compare_is_dead(const struct cl_compare *compare, const struct cl_key *now)
{
        return compare->kind == CL_COMPARE_MOD && compare->number > 0 && now->mod_revision != compare->number;
}

enum cl_cas_sight cl_cas_judge(const struct cl_cas *cas, const struct cl_key *now)
{
        unsigned i;

        if (now->mod_revision == cas->mod_revision) {
                for (i = 0; i < cas->other_count; i++) {
                        if (compare_is_dead(&cas->others[i], &now[1 + i]))
                                return CL_SIGHT_DEAD;
                }
                return CL_SIGHT_UNDECIDED;
        }
        if (now->mod_revision == 0)
                return CL_SIGHT_OVERTAKEN; /* deleted */
        if (now->mod_revision < cas->mod_revision)
                return CL_SIGHT_BACKWARDS;
        if (bytes_equal(now->value, cas->value))
                return CL_SIGHT_OWN;
        if (cas->mod_revision == 0 && now->version == 1)
                return CL_SIGHT_DEAD; /* another one has created it */
        return CL_SIGHT_PAST;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void cas_end(struct cl_cas *cas, enum cl_cas_outcome outcome, int error, const char *text)
{
        struct cl_answer *kept = cas->kept;

        cas->outcome = outcome;
        cas->error = error;
        if (text != cas->text)
                snprintf(cas->text, sizeof(cas->text), "%s", text);
        cas->done(cas);
        cl_answer_free(kept);
}

static void cas_won(struct cl_cas *cas, int64_t revision)
{
        cas->revision = revision;
        cas_end(cas, CL_CAS_WON, 0, "");
}

/* What it knows of the key is all that it will know. */
static void cas_give_up(struct cl_cas *cas, int error, const char *text)
{
        cas_end(cas, cas->state == CAS_WALK ? CL_CAS_OVERTAKEN : CL_CAS_UNKNOWN, error, text);
}

/* Keeps the answer that `now` points into. */
static void cas_keep(struct cl_cas *cas, struct cl_answer *answer, const struct cl_key *now)
{
        cl_answer_hold(answer);
        cl_answer_free(cas->kept);
        cas->kept = answer;
        cas->now = *now;
}

/* ---- again ----------------------------------------------------------------------------------- */

static void cas_timer_expired(struct lp_timer *timer)
{
        struct cl_cas *cas = container_of(timer, struct cl_cas, timer);

        if (cas->state == CAS_WALK)
                cas_walk(cas);
        else
                cas_look(cas);
}

static void cas_pause(struct cl_cas *cas, int error, const char *text)
{
        uint64_t now = lp_now(cas->home), pause = cas->pause_ns;

        if (error == -EREMCHG || error == -ECANCELED || now >= cas->deadline) {
                cas_give_up(cas, error, text);
                return;
        }
        if (pause > cas->deadline - now)
                pause = cas->deadline - now;
        cas->pause_ns = cas->pause_ns * 2 < PAUSE_MOST_NS ? cas->pause_ns * 2 : PAUSE_MOST_NS;
        lp_timer_start(cas->home, &cas->timer, pause);
}

/* The key with index i of a transaction that reads single keys; absent: all 0. */
static struct cl_key key_of(const struct cl_answer *answer, unsigned i)
{
        struct cl_key none = {0};

        return i < answer->range_count && answer->ranges[i].count > 0 ? answer->ranges[i].at[0] : none;
}

/* ---- backwards through the key's changes ----------------------------------------------------- */

/*
 * Of the changes behind the compared revision only the first can be the CAS. now->mod_revision > the
 * compared one, and its value is another's.
 */
static void cas_walk_judge(struct cl_cas *cas, const struct cl_key *before)
{
        if (before->mod_revision == cas->mod_revision) {
                cas_end(cas, CL_CAS_LOST, 0, "another change of the key came first");
        } else if (before->mod_revision > cas->mod_revision && bytes_equal(before->value, cas->value)) {
                cas_won(cas, before->mod_revision);
        } else if (before->mod_revision < cas->mod_revision || before->mod_revision >= cas->step ||
                   ++cas->steps == STEPS_MAX) {
                cas_end(cas, CL_CAS_OVERTAKEN, 0, "the key was changed too often, or deleted, to tell what came first");
        } else {
                cas->step = before->mod_revision;
                cas_walk(cas);
        }
}

static void cas_walk_done(struct cl_request *request)
{
        struct cl_cas *cas = cas_of(request);
        struct cl_key before;

        if (request->outcome == CL_DONE) {
                before = key_of(request->answer, 0);
                cas_walk_judge(cas, &before);
        } else if (request->error == -ESTALE) {
                cas_end(cas, CL_CAS_OVERTAKEN, -ESTALE, "the key's earlier changes were compacted");
        } else {
                cas_pause(cas, request->error, request->text);
        }
}

static void cas_walk(struct cl_cas *cas)
{
        cas->state = CAS_WALK;
        cas->request = (struct cl_request){.kind = CL_RANGE,
                                           .key = cas->key,
                                           .at_revision = cas->step - 1,
                                           .deadline = cas->deadline,
                                           .done = cas_walk_done};
        cl_etcd_submit(cas->etcd, &cas->request);
}

/* ---- what is there now ----------------------------------------------------------------------- */

static void cas_look_judge(struct cl_cas *cas)
{
        struct cl_key now[CL_COMPARES_MAX];
        unsigned i;

        for (i = 0; i <= cas->other_count; i++)
                now[i] = key_of(cas->request.answer, i);
        cas_keep(cas, cas->request.answer, &now[0]);
        switch (cl_cas_judge(cas, now)) {
        case CL_SIGHT_OWN:
                cas_won(cas, now[0].mod_revision);
                break;
        case CL_SIGHT_DEAD:
                cas_end(cas, CL_CAS_LOST, 0, "what was compared has moved on");
                break;
        case CL_SIGHT_OVERTAKEN:
                cas_end(cas, CL_CAS_OVERTAKEN, 0, "the key was deleted");
                break;
        case CL_SIGHT_PAST:
                cas->step = now[0].mod_revision;
                cas_walk(cas);
                break;
        case CL_SIGHT_UNDECIDED:
                if (cas->full) {
                        cas_end(cas, CL_CAS_FAILED, -ENOSPC, cas->text);
                        break;
                }
                cas_pause(cas, -ETIMEDOUT, "no answer, and the key is as it was: it may still be changed");
                break;
        case CL_SIGHT_BACKWARDS:
                cl_etcd_distrust(cas->etcd, CL_SEEN_LOWER_REVISION);
                cas_end(cas, CL_CAS_UNKNOWN, -EREMCHG, cl_verdict_text(CL_SEEN_LOWER_REVISION));
                break;
        }
}

static void cas_look_done(struct cl_request *request)
{
        struct cl_cas *cas = cas_of(request);

        if (request->outcome == CL_DONE)
                cas_look_judge(cas);
        else
                cas_pause(cas, request->error, request->text);
}

/* The key and the others that were compared, at one revision: a transaction that changes nothing. */
static void cas_look(struct cl_cas *cas)
{
        unsigned i;

        cas->state = CAS_LOOK;
        cas->ops[0] = (struct cl_op){.kind = CL_OP_RANGE, .key = cas->key};
        for (i = 0; i < cas->other_count; i++)
                cas->ops[1 + i] = (struct cl_op){.kind = CL_OP_RANGE, .key = cas->others[i].key};
        cas->request = (struct cl_request){.kind = CL_TXN,
                                           .success = cas->ops,
                                           .success_count = 1 + cas->other_count,
                                           .deadline = cas->deadline,
                                           .done = cas_look_done};
        cl_etcd_submit(cas->etcd, &cas->request);
}

/* ---- the transaction ------------------------------------------------------------------------- */

static void cas_txn_done(struct cl_request *request)
{
        struct cl_cas *cas = cas_of(request);
        struct cl_key now;

        switch (request->outcome) {
        case CL_DONE:
                if (request->answer->succeeded) {
                        cas_won(cas, request->answer->revision);
                        break;
                }
                now = key_of(request->answer, 0);
                cas_keep(cas, request->answer, &now);
                cas_end(cas, CL_CAS_LOST, 0, "a compare did not hold");
                break;
        case CL_FAILED_SURE:
                cas_end(cas, CL_CAS_FAILED, request->error, request->text);
                break;
        case CL_UNKNOWN:
                cas->error = request->error;
                cas->full = request->error == -ENOSPC;
                if (cas->full)
                        snprintf(cas->text, sizeof(cas->text), FULL_TEXT "%.100s", request->text);
                if (request->error == -EREMCHG || request->error == -ECANCELED)
                        cas_end(cas, CL_CAS_UNKNOWN, request->error, request->text);
                else
                        cas_look(cas);
                break;
        }
}

static void cas_wrong(struct lp_msg *msg)
{
        cas_end(container_of(msg, struct cl_cas, msg), CL_CAS_FAILED, -EINVAL, "too many compares");
}

void cl_cas(struct cl_cas *cas)
{
        uint64_t now, left;

        cas->home = lp_self();
        cas->kept = NULL;
        cas->now = (struct cl_key){.mod_revision = -1};
        cas->pause_ns = PAUSE_FIRST_NS;
        cas->steps = 0;
        cas->full = false;
        cas->timer = (struct lp_timer){.expired = cas_timer_expired};
        cas->state = CAS_TXN;
        if (cas->other_count >= CL_COMPARES_MAX) {
                cas->msg.run = cas_wrong;
                lp_post(cas->home, &cas->msg);
                return;
        }
        now = lp_now(cas->home);
        if (cas->deadline == 0)
                cas->deadline = now + 2 * CL_TIMEOUT_MS * 1000000ull;
        /* half of the time is for reading back */
        left = cas->deadline > now ? (cas->deadline - now) / 2 : 1;
        if (left > CL_TIMEOUT_MS * 1000000ull)
                left = CL_TIMEOUT_MS * 1000000ull;
        cas->compares[0] = (struct cl_compare){.kind = CL_COMPARE_MOD, .key = cas->key, .number = cas->mod_revision};
        if (cas->other_count > 0)
                memcpy(&cas->compares[1], cas->others, cas->other_count * sizeof(*cas->others));
        cas->ops[0] = (struct cl_op){.kind = CL_OP_PUT, .key = cas->key, .value = cas->value};
        cas->ops[1] = (struct cl_op){.kind = CL_OP_RANGE, .key = cas->key};
        cas->request = (struct cl_request){.kind = CL_TXN,
                                           .compares = cas->compares,
                                           .compare_count = 1 + cas->other_count,
                                           .success = &cas->ops[0],
                                           .success_count = 1,
                                           .failure = &cas->ops[1],
                                           .failure_count = 1,
                                           .deadline = now + left,
                                           .done = cas_txn_done};
        cl_etcd_submit(cas->etcd, &cas->request);
}
