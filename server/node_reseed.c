/*
 * node_reseed.c - see node_reseed.h: the node's side.
 *
 *   look at etcd -> own: join;  taken: keep, join;  wait: report;  fence: NODE, OPEN, report
 *
 * Each folder is asked on a thread of its own, which may hang with its disk. One that has not answered within 3 s is
 * reported so, and again when it has. A thread that has not ended when the process goes on holds the folder's lock:
 * the folder is left out until the thread has ended.
 */
#include "server/node_reseed.h"

#include "server/cluster_link.h"
#include "server/daemon_log.h"
#include "server/notify.h"

#include "cluster_reseed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define GATE_POLL_MS  500
#define GATE_QUIET_NS 3000000000ull /* a wait for etcd that is shorter is not told to who started this */
#define GATE_LATE_NS  3000000000ull /* others do not wait any longer for a folder */
#define GATE_BOOT     1u /* of the fence's term: the same in each attempt, so that it can be made again */

enum ask_state { ASK_WORKS, ASK_DONE, ASK_GIVEN_UP };

/* owner: its thread, until state is ASK_DONE; freed by the gate then. One that was given up is freed by its thread */
struct folder_ask {
        struct srv_folder folder; /* a copy */
        struct srv_folder *left;  /* that it is a copy of; given up: its job is done when the thread ends */
        uint64_t begun;           /* lp_clock() */
        struct eng_local_options options;
        bool fences;
        struct cl_format request;
        struct rem_known known;
        int rv;
        struct eng_error error;
        int wake; /* its own */
        atomic_int state;
};

struct gate {
        const struct srv_settings *settings;
        struct srv_folders *folders;
        struct srv_standby *standby;
        int signal_fd, *signo;
        struct srv_link link;
        struct cl_reseed_self self;
        struct folder_ask *asks[SRV_LIST_MAX];
        struct cl_format asked; /* the request that drives were asked for; generation 0: none */
        char told[CL_TEXT_MAX], value[CL_REPORT_MAX];
        struct cl_report report;
        struct cl_report_put put;
};

/* ---- a folder -------------------------------------------------------------------------------- */

/* NODE first: whatever happens then, the node knows that it was asked. */
static int ask_keep_fence(struct folder_ask *ask)
{
        struct cl_generation fence = {ask->request.generation, ask->request.random};

        if (memcmp(&ask->folder.file.fence, &fence, sizeof(fence)) == 0)
                return 0;
        if (ask->folder.file.fence.number >= fence.number)
                return -ESTALE;
        ask->folder.file.fence = fence;
        return cl_node_file_write(ask->folder.dir, &ask->folder.file);
}

/* A folder that was given up is looked at once more. */
static void ask_end(struct folder_ask *ask)
{
        const int wake = ask->wake;
        const uint64_t one = 1;

        if (atomic_exchange(&ask->state, ASK_DONE) == ASK_GIVEN_UP) {
                struct srv_folder *left = ask->left;

                if (ask->folder.dir >= 0)
                        close(ask->folder.dir);
                free(ask);
                atomic_store(&left->job, SRV_FOLDER_DONE);
        } else if (write(wake, &one, sizeof(one)) < 0) {
                ; /* it is readable then */
        }
        close(wake);
}

/* The drive's newest term goes on saying of which pool it is: nothing else does. */
static struct eng_term fence_of(const struct rem_known *known, const void *arg)
{
        const struct folder_ask *ask = arg;

        return (struct eng_term){.generation = ask->request.generation,
                                 .revision = 1,
                                 .node = cl_party(ask->folder.file.node, cl_party_pool(known->term.node)),
                                 .boot = GATE_BOOT};
}

static void *ask_run(void *arg)
{
        struct folder_ask *ask = arg;

        ask->rv = ask->fences ? ask_keep_fence(ask) : 0;
        if (ask->rv != 0)
                snprintf(ask->error.text, sizeof(ask->error.text), "its file NODE cannot be written: %s", strerror(-ask->rv));
        else
                ask->rv = rem_drive_ask(&ask->options, ask->fences ? fence_of : NULL, ask, ask->request.cluster_id, &ask->known, &ask->error);
        if (ask->rv == -ESTALE || ask->rv == -EXDEV) { /* what it knows is reported, unfenced: the request is made anew above it */
                ask->fences = false;
                ask->rv = 0;
        }
        ask_end(ask);
        return NULL;
}

static void ask_begin(struct gate *gate, unsigned i, const struct cl_format *request)
{
        const struct srv_settings *s = gate->settings;
        struct folder_ask *ask = calloc(1, sizeof(*ask));
        pthread_t thread;

        if (ask == NULL)
                return; /* it is reported as not known yet */
        ask->folder = gate->folders->at[i];
        ask->options = (struct eng_local_options){.path = ask->folder.path, .identity = ask->folder.identity, .log_file_bytes = s->log_file_size & ~4095ull,
                                                  .segment_bytes = s->segment_size & ~4095ull, .memtable_bytes = s->memtable_size, .full_reserve_bytes = s->full_reserve};
        ask->fences = request != NULL;
        ask->request = request != NULL ? *request : (struct cl_format){0};
        ask->left = &gate->folders->at[i];
        ask->begun = lp_clock();
        ask->wake = dup(gate->link.wake);
        gate->asks[i] = ask;
        if (pthread_create(&thread, NULL, ask_run, ask) != 0) {
                close(ask->wake);
                free(ask);
                gate->asks[i] = NULL;
                return;
        }
        pthread_detach(thread);
}

static bool ask_works(const struct folder_ask *ask)
{
        return ask != NULL && atomic_load(&ask->state) != ASK_DONE;
}

/* Each folder has answered, or had its time. */
static bool asks_are_over(const struct gate *gate)
{
        const uint64_t now = lp_clock();
        unsigned i;

        for (i = 0; i < gate->folders->count; i++)
                if (ask_works(gate->asks[i]) && now - gate->asks[i]->begun < GATE_LATE_NS)
                        return false;
        return true;
}

/* The process may go on: it has a folder to keep on what it goes by. */
static bool gate_may_go_on(const struct gate *gate)
{
        unsigned i, works = 0, done = 0;

        for (i = 0; i < gate->folders->count; i++) {
                works += ask_works(gate->asks[i]);
                done += gate->asks[i] != NULL && !ask_works(gate->asks[i]);
        }
        return works == 0 || (done > 0 && asks_are_over(gate));
}

/* Nobody waits any longer for the folders that still work: each is as if it were not there, until its thread has ended. */
static void gate_end_asks(struct gate *gate)
{
        unsigned i;

        for (i = 0; i < gate->folders->count; i++) {
                struct srv_folder *folder = &gate->folders->at[i];

                if (gate->asks[i] == NULL)
                        continue;
                atomic_store(&folder->job, SRV_FOLDER_WORKS);
                if (atomic_exchange(&gate->asks[i]->state, ASK_GIVEN_UP) == ASK_DONE) {
                        atomic_store(&folder->job, SRV_FOLDER_IDLE);
                        free(gate->asks[i]);
                } else {
                        srv_log(SRV_LOG_WARNING, "%s: does not answer: it is left out until it does", folder->path);
                        folder->state = ENG_FOLDER_ABSENT;
                        folder->dir = -1;
                }
                gate->asks[i] = NULL;
        }
}

/* What the folders say by now. One that still fences may have kept it already. */
static void gate_take_fences(struct gate *gate)
{
        unsigned i;

        for (i = 0; i < gate->folders->count; i++) {
                struct cl_node_file *file = &gate->folders->at[i].file;

                struct cl_generation fence;

                if (gate->asks[i] == NULL)
                        continue;
                if (ask_works(gate->asks[i]))
                        fence = (struct cl_generation){gate->asks[i]->request.generation, gate->asks[i]->request.random};
                else
                        fence = file->fence = gate->asks[i]->folder.file.fence;
                if (fence.number > gate->self.fence.number)
                        gate->self.fence = fence;
        }
}

/*
 * All drives are asked, again where another request has come; one that is still at the question before is asked when it
 * has answered that. False: others are to be waited for.
 */
static bool gate_ask(struct gate *gate, const struct cl_format *request)
{
        static const struct cl_format none;
        const struct cl_format *want = request != NULL ? request : &none;
        unsigned i;

        for (i = 0; i < gate->folders->count; i++) {
                const struct folder_ask *ask = gate->asks[i];

                if (gate->folders->at[i].state != ENG_FOLDER_DRIVE || ask_works(ask) || (ask != NULL && memcmp(&ask->request, want, sizeof(*want)) == 0))
                        continue;
                free(gate->asks[i]);
                gate->asks[i] = NULL;
                ask_begin(gate, i, request);
        }
        gate->asked = *want;
        return asks_are_over(gate);
}

/* ---- the report ------------------------------------------------------------------------------ */

static void report_folder(struct gate *gate, const struct srv_folder *folder, const struct folder_ask *ask)
{
        static const struct rem_known nothing;
        struct cl_report *report = &gate->report;
        bool works = ask_works(ask), known = ask != NULL && !works && ask->rv == 0;
        char fault[160] = "";

        if (!known)
                snprintf(fault, sizeof(fault), "%.150s", works ? "it does not answer" : ask != NULL ? ask->error.text : "no memory to ask it");
        cl_report_add(report, &folder->identity, known ? &ask->known : &nothing, known && ask->fences, fault);
        if (folder->file.boot > report->boot)
                report->boot = folder->file.boot;
        if (folder->file.pools > report->pools)
                report->pools = folder->file.pools;
        if (folder->file.switches[0] != '\0')
                memcpy(report->switches, folder->file.switches, sizeof(report->switches));
}

static void gate_report(struct gate *gate, const struct cl_view *view)
{
        const struct srv_settings *s = gate->settings;
        struct cl_report *report = &gate->report;
        struct srv_address s3 = s->listen;
        char name[CL_KEY_NAME_MAX];
        size_t len;
        unsigned i;
        int rv;

        memset(report, 0, sizeof(*report));
        report->node = s->number;
        report->seen = gate->self.seen;
        report->fence = gate->asked.generation != 0 ? (struct cl_generation){gate->asked.generation, gate->asked.random} : gate->self.fence;
        snprintf(report->self.name, sizeof(report->self.name), "%s", gate->link.name);
        snprintf(report->self.address, sizeof(report->self.address), "%.255s", gate->link.address);
        if (srv_address_is_every(&s3))
                memcpy(s3.host, s->cluster_listen.host, sizeof(s3.host));
        srv_address_text(&s3, report->self.s3, sizeof(report->self.s3));
        report->self.rack = srv_cluster_rack(s);
        for (i = 0; i < gate->folders->count; i++)
                if (gate->folders->at[i].state == ENG_FOLDER_DRIVE)
                        report_folder(gate, &gate->folders->at[i], gate->asks[i]);
        len = cl_report_write(report, gate->value);
        snprintf(name, sizeof(name), "reseed/nodes/%u", (unsigned)s->number);
        if (len > 0 && cl_report_stands(&gate->put, s->number, gate->value, len, view, lp_clock()))
                return;
        rv = len == 0 ? -ENOMEM : srv_link_report(&gate->link, name, gate->value, len, view->request_revision);
        if (rv == 0)
                cl_report_was_put(&gate->put, gate->value, len, view, lp_clock());
        else if (rv != -EPERM)
                srv_log(SRV_LOG_WARNING, "what the drives of this node hold cannot be reported: %s", strerror(-rv));
}

/* ---- what is taken --------------------------------------------------------------------------- */

/* Every folder keeps which etcd counts from here on; one that cannot is told at the next start, by the others. */
static int gate_take(struct gate *gate, uint64_t etcd_id, const struct cl_view *view, struct srv_error *error)
{
        const struct cl_seen seen = {.cluster_id = etcd_id, .generation = {view->format.generation, view->format.random}, .revision = view->revision};
        unsigned i, kept = 0;
        int rv = -ENOENT, last;

        for (i = 0; i < gate->folders->count; i++) {
                struct srv_folder *folder = &gate->folders->at[i];

                if (folder->state == ENG_FOLDER_ABSENT)
                        continue;
                folder->file.seen = seen;
                folder->file.fence = (struct cl_generation){0, 0};
                last = cl_node_file_write(folder->dir, &folder->file);
                kept += last == 0;
                rv = last != 0 ? last : rv;
        }
        if (kept == 0)
                return srv_fail(error, rv, "no folder can keep which etcd counts: %s", strerror(-rv));
        gate->folders->seen = seen;
        gate->folders->fence = (struct cl_generation){0, 0};
        srv_log(SRV_LOG_INFO, "etcd was written anew: this node goes by it (generation %llu)", (unsigned long long)seen.generation.number);
        return 0;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void gate_wait(struct gate *gate)
{
        struct pollfd fds[] = {{.fd = gate->signal_fd, .events = POLLIN}, {.fd = gate->link.wake, .events = POLLIN}};
        struct signalfd_siginfo info;
        uint64_t count;

        if (poll(fds, 2, GATE_POLL_MS) <= 0)
                return;
        if (fds[1].revents != 0 && read(gate->link.wake, &count, sizeof(count)) < 0)
                return; /* it was read already */
        while (read(gate->signal_fd, &info, sizeof(info)) == sizeof(info))
                if (info.ssi_signo == SIGHUP)
                        srv_standby_reload(gate->standby);
                else if (info.ssi_signo != SIGCHLD)
                        *gate->signo = (int)info.ssi_signo;
}

static void gate_tell(struct gate *gate, const char *text)
{
        char page[CL_TEXT_MAX + 100];

        if (strcmp(text, gate->told) == 0)
                return;
        snprintf(gate->told, sizeof(gate->told), "%s", text);
        srv_log(SRV_LOG_ERROR, "%s: this node serves nothing, and waits (millrace admin cluster reseed)", text);
        snprintf(page, sizeof(page), "This node waits for its cluster to be reseeded: %s.", text);
        srv_standby_say(gate->standby, page, "");
        srv_notify_waits("for its cluster to be reseeded: millrace admin cluster reseed");
}

/* 1: the node may join. 0: it waits. Errors have a line. */
static int gate_step(struct gate *gate, struct srv_error *error)
{
        struct cl_view view;
        struct cl_format now;
        struct cl_seen found;
        char text[CL_TEXT_MAX];
        int why, rv = srv_link_view(&gate->link, &view, &why, text);

        srv_link_keep(&gate->link);
        if (rv != 0 || view.revision == 0 || why != 0) {
                if (rv == 0)
                        cl_view_free(&view);
                return why == -EREMCHG || why == -EBADMSG ? srv_fail(error, why, "%s", text) : 0;
        }
        cl_etcd_seen(gate->link.etcd, &found);
        gate_take_fences(gate);
        switch (cl_reseed_judge(&gate->self, found.cluster_id, &view, &now)) {
        case CL_RESEED_OWN:
                rv = gate_may_go_on(gate);
                break;
        case CL_RESEED_TAKE:
                if (!gate_may_go_on(gate))
                        break;
                gate_end_asks(gate);
                rv = gate_take(gate, found.cluster_id, &view, error);
                rv = rv == 0 ? 1 : rv;
                break;
        case CL_RESEED_FENCE:
        case CL_RESEED_WAIT:
                gate_tell(gate, gate->self.node != 0 ? cl_reseed_text(&gate->self, found.cluster_id, &view)
                                                     : "etcd is not the one that this node knows, and no folder says the node's number: its drives are as lost");
                if (gate->self.node == 0)
                        break;
                if (gate_ask(gate, memcmp(&now, &view.request, sizeof(now)) == 0 && view.has_request ? &now : NULL))
                        gate_report(gate, &view);
                break;
        }
        cl_view_free(&view);
        return rv;
}

static void knows_store(struct cl_reseed_self *self, const uint8_t store[CL_ID])
{
        unsigned i;

        for (i = 0; i < self->store_count; i++)
                if (memcmp(self->stores[i], store, CL_ID) == 0)
                        return;
        if (self->store_count < CL_POOLS_MAX)
                memcpy(self->stores[self->store_count++], store, CL_ID);
}

/* Folders that are not drives yet have nothing to report, and nothing to lose. */
static bool gate_knows_itself(struct gate *gate)
{
        unsigned i;

        gate->self = (struct cl_reseed_self){.node = gate->settings->number, .seen = gate->folders->seen, .fence = gate->folders->fence};
        for (i = 0; i < gate->folders->count; i++)
                if (gate->folders->at[i].state == ENG_FOLDER_DRIVE)
                        knows_store(&gate->self, gate->folders->at[i].identity.store_id);
        return gate->self.store_count > 0;
}

int srv_reseed_gate(const struct srv_settings *settings, struct srv_folders *folders, struct srv_standby *standby, int signal_fd, int *signo, struct srv_error *error)
{
        static struct gate the_gate; /* it is large, and there is one */
        const struct cl_seen nothing = {0};
        struct gate *gate = &the_gate;
        const uint64_t begun = lp_clock();
        bool waits_told = false;
        int rv;

        *gate = (struct gate){.settings = settings, .folders = folders, .standby = standby, .signal_fd = signal_fd, .signo = signo};
        if (!gate_knows_itself(gate))
                return 0;
        rv = srv_link_open(&gate->link, settings, 1, 0, &nothing, error);
        gate->link.unjudged = true;
        if (rv == 0)
                rv = srv_link_look(&gate->link, NULL, NULL, error);
        while (rv == 0 && *signo == 0) {
                gate_wait(gate);
                rv = gate_step(gate, error);
                if (rv == 0 && gate->told[0] == '\0' && !waits_told && lp_clock() - begun >= GATE_QUIET_NS) {
                        srv_notify_waits("for etcd");
                        waits_told = true;
                }
        }
        gate_end_asks(gate);
        srv_link_close(&gate->link);
        return rv == 1 ? 0 : rv == 0 ? -EINTR : rv;
}
