/*
 * sim_clients.c - what all clients share: their life, what they draw next, and how answers are
 * booked.
 */
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_locks.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE (200 * SIM_S)
#define VERIFY_IN 60 /* operations, before somebody asks for a verification */
#define MOVE_IN   6  /* operations, before a client asks another process, where there are homes */

struct world world;
struct client_figures client_figures;
static struct client clients[CLIENTS_MAX];

static void next(void *arg);

/* NULL: it is a leader's. */
static const struct sim_home_store *home_of(const struct eng_store *store)
{
        unsigned i;

        for (i = 0; i < world.home_count; i++)
                if (world.homes[i].store == store)
                        return &world.homes[i];
        return NULL;
}

/* ---- booking --------------------------------------------------------------------------------- */

int client_asks(struct client *c, unsigned reg, enum history_kind kind, uint64_t value)
{
        struct history_op *op = history_add(reg, kind, history_now());

        if (world.asked == 0)
                world.asked = sim.now;
        op->value = value;
        op->maybe = true;
        op->client = (uint8_t)c->number;
        op->at_home = home_of(c->store) != NULL;
        op->lock_lo = op->lock_hi = locks_now();
        return (int)history_count() - 1;
}

/* It was decided by now. */
static void client_decided(struct history_op *op)
{
        int64_t now = locks_now();

        if (now > op->lock_hi)
                op->lock_hi = now;
        if (now < op->lock_lo)
                op->lock_lo = now;
        op->answered = history_now();
}

/* Another change is asked for, and not answered yet. */
static bool is_asked(void)
{
        const struct history_op *op;
        unsigned i;

        for (i = 0; i < world.client_count; i++) {
                op = clients[i].busy && clients[i].op >= 0 && (unsigned)clients[i].op < history_count() ? history_at((unsigned)clients[i].op) : NULL;
                if (op != NULL && op->maybe && !op->dropped && op->answered == 0)
                        return true;
        }
        return false;
}

void client_took(int op)
{
        history_at((unsigned)op)->maybe = false;
        world.took = sim.now;
        world.asked = is_asked() ? sim.now : 0;
        client_decided(history_at((unsigned)op));
}

void client_dropped(int op)
{
        history_at((unsigned)op)->dropped = true;
}

static void client_lost(int op)
{
        client_decided(history_at((unsigned)op));
        if (history_at((unsigned)op)->by_state)
                versions_undecided(op);
}

void client_unknown(int op)
{
        history_at((unsigned)op)->given_up = history_at((unsigned)op)->at_home;
        client_lost(op);
}

void client_instead(int op, enum history_kind kind)
{
        history_at((unsigned)op)->kind = (uint8_t)kind;
        history_at((unsigned)op)->need = NEED_NOTHING;
        client_took(op);
}

void client_saw(struct client *c, unsigned reg, enum history_kind kind, uint64_t value)
{
        struct history_op *op = history_add(reg, kind, c->asked);

        op->value = value;
        op->client = (uint8_t)c->number;
        op->answered = history_now();
}

int client_told(const struct client *c, int rv)
{
        return rv == -EIDRM && !eng_is_current(c->store) ? -EHOSTDOWN : rv;
}

int client_told_of_bucket(const struct client *c, int rv)
{
        return (rv == -ENOENT || rv == -EEXIST || rv == -EBUSY || rv == -EIDRM) && !eng_is_current(c->store) ? -EHOSTDOWN : rv;
}

bool client_refused(const struct client *c, int rv)
{
        if (rv == -EHOSTDOWN && home_of(c->store) != NULL) /* its leader may have done it */
                return false;
        return rv == -EAGAIN || rv == -ENOSPC || rv == -EHOSTDOWN || rv == -EINVAL || rv == -ENOMEM;
}

bool client_may_be_gone(const struct client *c)
{
        return c->bucket != 0 && history_possible(world.buckets[c->bucket].reg, 0, c->asked, history_now());
}

void client_answered(struct client *c, int op, int rv)
{
        const struct eng_condition *cond = &c->condition;
        bool plain = !cond->if_absent && !cond->if_etag && !cond->if_present;

        if (rv == 0)
                client_took(op);
        else if (rv == -EEXIST && cond->if_absent)
                client_instead(op, H_PRESENT);
        else if (rv == -ESTALE && cond->if_etag)
                client_instead(op, H_OTHER);
        else if (rv == -ENOENT && (cond->if_etag || cond->if_present))
                client_instead(op, H_ABSENT);
        else if (rv == -ENOENT && !plain)
                client_dropped(op);
        else if (rv == -EIDRM && client_may_be_gone(c))
                client_dropped(op);
        else if (rv == -ENOENT || rv == -EEXIST || rv == -ESTALE || rv == -EIDRM)
                sim_fail("client %u: %s answers %d", c->number, c->doing, rv);
        else if (client_refused(c, rv))
                client_dropped(op);
        else
                client_unknown(op);
}

/* ---- one operation after the other ----------------------------------------------------------- */

unsigned client_reg(const struct client *c)
{
        return world.key_regs[c->bucket][c->key];
}

struct eng_str client_key(const struct client *c)
{
        return (struct eng_str){world.keys[c->key], strlen(world.keys[c->key])};
}

void client_moved(struct client *c)
{
        c->since = sim.now;
}

void client_later(struct client *c, uint64_t ns, void (*fn)(void *client))
{
        sim_at(ns, c->loop, fn, c);
}

void client_error(struct client *c, int rv)
{
        client_figures.errors++;
        if (rv == -EAGAIN || (rv == -EIDRM && client_may_be_gone(c)))
                return;
        if (world.final || world.calm)
                sim_fail("client %u: %s answers %d without cause", c->number, c->doing, rv);
}

void client_done(struct client *c, int rv)
{
        uint64_t pause = sim_skewed(SIM_CLIENTS, 0, world.think);

        sim_trace("client %u: %s bucket %u key %u: %d", c->number, c->doing, c->bucket, c->key, rv);
        sim_note(3, c->number, (uint64_t)(int64_t)rv);
        if ((rv == 0 || rv == -ENOENT) && !c->verifying && c->doing != NULL && strcmp(c->doing, "get") == 0 && sim.now - c->begun > world.slowest_get)
                world.slowest_get = sim.now - c->begun;
        client_figures.ops++;
        c->busy = false;
        if (rv == -EROFS || rv == -EHOSTDOWN || rv == -ENOSPC || rv == -EIO)
                pause = 50 * SIM_MS + sim_below(SIM_CLIENTS, 1 * SIM_S);
        if (c->store == world.ousted && c->store != NULL)
                pause = 20 * SIM_MS + sim_below(SIM_CLIENTS, 200 * SIM_MS);
        else if (world.pace != 0)
                pause = world.pace / 2 + sim_below(SIM_CLIENTS, world.pace);
        if (!world.stopping)
                client_later(c, pause, next);
}

/* ---- what to do ------------------------------------------------------------------------------ */

static bool one_in(unsigned of)
{
        return sim_chance(SIM_CLIENTS, of);
}

static void choose_condition(struct client *c)
{
        memset(&c->condition, 0, sizeof(c->condition));
        switch (sim_below(SIM_CLIENTS, 8)) {
        case 0:
                c->condition.if_absent = true;
                break;
        case 1:
                if (c->seen[c->key] == 0)
                        break;
                c->condition.if_etag = true;
                content_etag(c->seen[c->key], c->condition.etag);
                c->condition.etag_parts = (uint16_t)content_of(c->seen[c->key])->part_count;
                break;
        case 2:
                c->condition.if_present = one_in(2);
                break;
        }
}

static void multipart(struct client *c)
{
        if (world.upload_count == 0 || one_in(5)) {
                upload_create(c);
                return;
        }
        /* the newest ones are most worth a look */
        c->upload = world.upload_count - 1 -
                    (unsigned)sim_below(SIM_CLIENTS, world.upload_count < 3 ? world.upload_count : 3);
        c->bucket = world.uploads[c->upload].bucket;
        c->key = world.uploads[c->upload].key;
        switch (sim_below(SIM_CLIENTS, 12)) {
        case 0:
                upload_abort(c);
                break;
        case 1:
        case 2:
                upload_complete(c);
                break;
        case 3:
                upload_parts(c);
                break;
        case 4:
                listing_uploads(c);
                break;
        default:
                upload_part(c);
        }
}

static void buckets(struct client *c)
{
        c->bucket = world.bucket_count - 1;
        if (c->bucket == 0 || client_has_versions(c) || (world.buckets[c->bucket].closing && one_in(2)))
                bucket_create(c);
        else if (one_in(4))
                bucket_upload(c);
        else if (one_in(2))
                bucket_look(c);
        else
                bucket_delete(c);
}

static void object(struct client *c)
{
        switch (sim_below(SIM_CLIENTS, 20)) {
        case 0:
        case 1:
        case 2:
                object_delete(c);
                break;
        case 3:
                object_update(c);
                break;
        case 4:
        case 5:
                listing_objects(c);
                break;
        case 6:
        case 7:
        case 8:
        case 9:
        case 10:
        case 11:
                object_get(c);
                break;
        default:
                object_put(c);
        }
}

static void attach_home(struct client *c, const struct sim_home_store *home)
{
        c->store = home->store;
        c->loop = home->loops[c->number % world.loop_count];
}

/* It asks the newest process that serves. */
static void attach(struct client *c)
{
        c->store = world.store;
        c->loop = world.loops[c->number % world.loop_count];
}

/* Or one of the homes, more often. */
static void attach_any(struct client *c)
{
        unsigned leads = world.store != NULL ? 1 : 0, at = 0;

        if (world.home_count > 0)
                at = (unsigned)sim_below(SIM_HOMES, leads + 2 * world.home_count);
        if (world.home_count == 0 || at < leads)
                attach(c);
        else
                attach_home(c, &world.homes[(at - leads) / 2]);
}

/* Now and then it asks another process than before. */
static bool moves_on(const struct client *c)
{
        if (c->busy || c->verifying)
                return false;
        if (home_of(c->store) != NULL || (c->store == world.store && world.home_count > 0))
                return sim_chance(SIM_HOMES, MOVE_IN);
        return c->store != world.store && world.store != NULL && one_in(c->store == world.ousted ? 10 : 3);
}

/* What a leader that is deposed can still do harm with. */
static void ask_ousted(struct client *c)
{
        switch (sim_below(SIM_CLIENTS, 6)) {
        case 0:
                listing_objects(c);
                break;
        case 1:
                bucket_look(c);
                break;
        case 2: /* by a condition */
                c->condition = (struct eng_condition){.if_absent = true};
                object_put(c);
                break;
        default:
                object_get(c);
        }
}

static void next(void *arg)
{
        struct client *c = arg;
        bool at_home;

        if (sim.self != c->loop)
                return; /* it asks another process by now */
        if (moves_on(c)) {
                attach_any(c);
                client_later(c, 0, next);
                return;
        }
        c->rests = world.ops_left == 0;
        if (world.stopping || world.ops_left == 0 || c->busy || c->verifying)
                return;
        at_home = home_of(c->store) != NULL;
        world.ops_left--;
        client_figures.asked_old += c->store != world.store && !at_home;
        client_figures.asked_homes += at_home;
        c->busy = true;
        c->begun = sim.now;
        c->op = c->op2 = NO_OP;
        c->by_version = false;
        c->walking = false;
        c->bucket = world.bucket_count > 1 && !world.buckets[world.bucket_count - 1].versions && one_in(6) ? world.bucket_count - 1 : 0;
        c->key = (unsigned)sim_below(SIM_CLIENTS, world.key_count);
        client_moved(c);
        choose_condition(c);
        c->asked = history_now();
        if (c->store == world.ousted) {
                ask_ousted(c);
                return;
        }
        if (one_in(VERIFY_IN) && !at_home)
                eng_verify_start(c->store); /* beside heals: both repair */
        if (versions_operation(c))
                return;
        if (one_in(world.parts))
                multipart(c);
        else if (one_in(world.buckets_on))
                buckets(c);
        else
                object(c);
}

/* ---- verifying ------------------------------------------------------------------------------- */

static void begin_step(struct client *c)
{
        c->busy = true;
        c->op = c->op2 = NO_OP;
        c->by_version = false;
        memset(&c->condition, 0, sizeof(c->condition));
        client_moved(c);
        c->asked = history_now();
}

static void verify_next(struct client *c)
{
        unsigned gets = world.bucket_count * world.key_count;

        begin_step(c);
        if (c->at < gets) {
                c->bucket = c->at / world.key_count;
                c->key = c->at % world.key_count;
                object_get(c);
        } else if (c->at < gets + world.bucket_count) {
                c->bucket = c->at - gets;
                listing_objects(c);
        } else {
                c->upload = c->at - gets - world.bucket_count;
                c->bucket = world.uploads[c->upload].bucket;
                c->key = world.uploads[c->upload].key;
                upload_abort(c);
        }
        c->at++;
}

/* Until it is answered. */
static void await(struct client *c)
{
        do {
                if (world.step != NULL) {
                        world.step();
                        continue;
                }
                if (!sim_step())
                        sim_fail("nothing happens any more while everything is read");
                locks_watch();
                clients_watch();
        } while (c->busy);
}

/* home NULL: at the leader. */
static void verify_up_to(unsigned steps, const struct sim_home_store *home)
{
        struct client *c = &clients[0];

        if (home != NULL)
                attach_home(c, home);
        else
                attach(c);
        c->verifying = true;
        c->at = 0;
        while (c->at < steps) {
                sim.self = c->loop;
                verify_next(c);
                sim.self = NULL;
                await(c);
        }
        c->verifying = false;
}

void clients_final(void)
{
        verify_up_to(world.bucket_count * (world.key_count + 1) + world.upload_count, NULL);
}

void clients_read_versions(void)
{
        struct client *c = &clients[0];
        unsigned i;

        if (!versions_exist())
                return;
        c->verifying = true;
        for (i = 0; i <= versions_to_verify(c); i++) {
                begin_step(c);
                sim.self = c->loop;
                if (i == 0)
                        listing_versions(c);
                else
                        versions_verify(c, i - 1);
                sim.self = NULL;
                await(c);
        }
        c->verifying = false;
}

void clients_end_versions(void)
{
        struct client *c = &clients[0];
        unsigned i;

        if (!versions_exist())
                return;
        c->verifying = true;
        locks_last();
        begin_step(c);
        sim.self = c->loop;
        versions_confirm(c);
        sim.self = NULL;
        await(c);
        for (i = 0; i < versions_to_verify(c); i++) {
                begin_step(c);
                sim.self = c->loop;
                versions_end(c, i);
                sim.self = NULL;
                await(c);
        }
        c->verifying = false;
}

void clients_read_all(void)
{
        verify_up_to(world.bucket_count * world.key_count, NULL);
}

void clients_read_home(const struct sim_home_store *home)
{
        verify_up_to(world.bucket_count * (world.key_count + 1), home);
}

unsigned clients_replace(bool (*is_one)(uint64_t bucket, const char *key))
{
        struct client *c = &clients[0];
        unsigned i, n = 0;

        c->verifying = true;
        for (i = 0; i < world.bucket_count * world.key_count; i++) {
                if (!is_one(world.buckets[i / world.key_count].id, world.keys[i % world.key_count]))
                        continue;
                n++;
                begin_step(c);
                c->bucket = i / world.key_count;
                c->key = i % world.key_count;
                sim.self = c->loop;
                if (sim_chance(SIM_LOSS, 2))
                        object_delete(c);
                else
                        object_put(c);
                sim.self = NULL;
                await(c);
        }
        c->verifying = false;
        return n;
}

/* ---- life ------------------------------------------------------------------------------------ */

void clients_begin(void)
{
        memset(clients, 0, sizeof(clients));
        contents_begin();
}

void clients_start(void)
{
        versions_start();
        clients_seek();
}

/* Another process serves it yet, or this one does. */
static bool goes_on(const struct client *c)
{
        if (world.step == NULL || c->store == NULL)
                return false;
        return c->busy || (home_of(c->store) != NULL ? !c->rests : c->store != world.store);
}

void clients_seek(void)
{
        unsigned i;

        for (i = 0; i < world.client_count && (world.store != NULL || world.home_count > 0); i++) {
                struct client *c = &clients[i];

                if (goes_on(c))
                        continue;
                c->number = i;
                attach_any(c);
                c->busy = c->rests = false;
                client_later(c, sim_below(SIM_CLIENTS, 5 * SIM_MS), next);
        }
}

static void first_client(void (*fn)(struct client *c))
{
        struct client *c = &clients[0];

        attach(c);
        begin_step(c);
        sim.self = c->loop;
        fn(c);
        sim.self = NULL;
}

void clients_first_bucket(void)
{
        first_client(bucket_create);
}

void clients_versions_bucket(void)
{
        first_client(versions_bucket);
}

void clients_home(struct eng_store *store, struct lp_loop *const *loops)
{
        struct sim_home_store *home = &world.homes[world.home_count++];

        assert(world.home_count <= HOMES_MAX);
        home->store = store;
        memcpy(home->loops, loops, sizeof(home->loops));
        clients_seek();
}

static void forget_home(const struct eng_store *store)
{
        const struct sim_home_store *home = home_of(store);

        if (home != NULL)
                world.homes[home - world.homes] = world.homes[--world.home_count];
}

void clients_lost_of(const struct eng_store *store)
{
        bool lost[CLIENTS_MAX] = {false};
        unsigned i;

        forget_home(store);
        for (i = 0; i < CLIENTS_MAX; i++) {
                struct client *c = &clients[i];

                if (store != NULL && c->store != store)
                        continue;
                lost[i] = true;
                if (world.making_bucket && c->busy && world.bucket_maker == i)
                        world.making_bucket = false;
                c->busy = false;
                c->store = NULL;
                c->put = NULL;
                c->get = NULL;
        }
        if (store == NULL || world.ousted == store)
                world.ousted = NULL;
        for (i = 0; i < history_count(); i++)
                if (history_at(i)->maybe && history_at(i)->answered == 0 && lost[history_at(i)->client])
                        client_lost((int)i);
}

void clients_oust(const struct eng_store *store)
{
        unsigned i;

        world.ousted = store;
        for (i = 1; i < world.client_count; i += 2)
                if (clients[i].store == store && !clients[i].busy) {
                        clients[i].store = NULL;
                        clients[i].loop = NULL;
                }
}

void clients_lost(void)
{
        clients_lost_of(NULL);
        world.making_bucket = false;
}

bool clients_use(const uint8_t *key, size_t len)
{
        unsigned i;

        for (i = 0; i < world.client_count; i++)
                if (clients[i].busy && strlen(world.keys[clients[i].key]) == len && memcmp(world.keys[clients[i].key], key, len) == 0)
                        return true;
        return false;
}

bool clients_idle(void)
{
        unsigned i;

        for (i = 0; i < world.client_count; i++)
                if (clients[i].busy)
                        return false;
        return true;
}

/* Longer than it may, while it could have been answered. */
static bool client_waits_long(const struct client *c, uint64_t most)
{
        uint64_t mute;

        if (!c->busy || sim.now - c->since <= most)
                return false;
        mute = world.mute == NULL ? 0 : world.mute(c->store);
        return sim.now - (mute > c->since ? mute : c->since) > most;
}

void clients_watch(void)
{
        uint64_t most = world.patience == 0 ? PATIENCE : world.patience;
        unsigned i;

        for (i = 0; i < world.client_count; i++)
                if (client_waits_long(&clients[i], most))
                        sim_fail("client %u: %s bucket %u key %u is not answered", i, clients[i].doing,
                                 clients[i].bucket, clients[i].key);
}
