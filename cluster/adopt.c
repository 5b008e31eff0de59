/*
 * adopt.c - a store of one machine becomes the first pool of a new cluster: what its drives must say, marking them, and
 * what is put into etcd (docs/design/adopt.md has the order of events, and what cuts it off).
 *
 * The plan and the look are functions over values. Marking blocks, on the caller's thread; etcd is asked on its loop.
 */
#include "cluster_adopt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the plan -------------------------------------------------------------------------------- */

static int adopt_refuse(struct cl_adopt_plan *out, int rv, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int adopt_refuse(struct cl_adopt_plan *out, int rv, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vsnprintf(out->text, sizeof(out->text), format, args);
        va_end(args);
        return rv;
}

/* They are different drives of one store. */
static int adopt_check_store(const struct cl_adopt_drive *drives, unsigned count, struct cl_adopt_plan *out)
{
        unsigned i, j;

        for (i = 1; i < count; i++) {
                if (memcmp(drives[i].identity.store_id, drives[0].identity.store_id, CL_ID) != 0)
                        return adopt_refuse(out, -EXDEV, "%.200s: belongs to another store than %.200s", drives[i].path, drives[0].path);
                for (j = 0; j < i; j++)
                        if (memcmp(drives[i].identity.drive_id, drives[j].identity.drive_id, CL_ID) == 0)
                                return adopt_refuse(out, -EEXIST, "%.200s: is a copy of %.200s", drives[i].path, drives[j].path);
        }
        return 0;
}

static const struct cl_adopt_drive *adopt_newest(const struct cl_adopt_drive *drives, unsigned count)
{
        const struct cl_adopt_drive *newest = &drives[0];
        unsigned i;

        for (i = 1; i < count; i++)
                if (drives[i].known.epoch > newest->known.epoch)
                        newest = &drives[i];
        return newest;
}

/* Each is a member of the newest epoch, and has it. */
static int adopt_check_members(const struct cl_adopt_drive *drives, unsigned count, const struct cl_adopt_drive *newest, struct cl_adopt_plan *out)
{
        const struct eng_epoch_info *epoch = &out->epoch;
        uint64_t held = 0;
        unsigned i, slot;

        for (i = 0; i < count; i++) {
                slot = drives[i].identity.slot;
                if (slot >= epoch->slots || memcmp(epoch->slot[slot].drive_id, drives[i].identity.drive_id, CL_ID) != 0)
                        return adopt_refuse(out, -EINVAL, "%.200s: is no drive of the store any more", drives[i].path);
                if (drives[i].known.epoch != newest->known.epoch || memcmp(drives[i].known.epoch_id, newest->known.epoch_id, CL_ID) != 0)
                        return adopt_refuse(out, -EINVAL, "%.200s: has epoch %llu, and %.200s epoch %llu: start the store once, and stop it when all drives are in", drives[i].path,
                                            (unsigned long long)drives[i].known.epoch, newest->path, (unsigned long long)newest->known.epoch);
                held |= 1ull << slot;
        }
        out->missing = epoch->in & ~held;
        if (out->missing == 0 || (out->marked && eng_epoch_is_most(newest->known.body, newest->known.body_len, held) == 1 &&
                                  eng_epoch_serves(out->config.epoch, out->config.epoch_len, held) == 1))
                return 0;
        return adopt_refuse(out, -ENOENT, "slot %u: its drive is in none of the folders given%s", (unsigned)__builtin_ctzll(out->missing),
                            out->marked ? ", and the others are too few to go on without it" : "");
}

static int adopt_judge(const struct cl_adopt_drive *drives, unsigned count, const struct eng_site *site, struct cl_adopt_plan *out)
{
        const struct cl_adopt_drive *newest;
        struct eng_error why = {""};
        unsigned i;
        int rv;

        if (count == 0)
                return adopt_refuse(out, -ENOENT, "no folder is given");
        rv = adopt_check_store(drives, count, out);
        if (rv != 0)
                return rv;
        newest = adopt_newest(drives, count);
        memcpy(out->store_id, newest->identity.store_id, CL_ID);
        out->marked = true;
        for (i = 0; i < count; i++)
                out->marked &= (drives[i].identity.features & ENG_FEATURES_OF_POOL) == ENG_FEATURES_OF_POOL;
        if (eng_epoch_read(newest->known.body, newest->known.body_len, &out->epoch) != 0)
                return adopt_refuse(out, -EBADMSG, "%.200s: its EPOCH record makes no sense", newest->path);
        out->is_pool = (out->epoch.features & ENG_FEATURE_SITES) != 0;
        if (out->is_pool)
                return 0;
        rv = eng_epoch_adopt(newest->known.body, newest->known.body_len, site, out->config.epoch, &out->config.epoch_len, &why);
        if (rv != 0)
                return adopt_refuse(out, rv, "%.300s", why.text);
        memcpy(out->config.store_id, out->store_id, CL_ID);
        memcpy(&out->config.number, out->config.epoch, sizeof(out->config.number));
        for (i = 0; i < count; i++) {
                out->generation = drives[i].generation > out->generation ? drives[i].generation : out->generation;
                out->generation = drives[i].known.term.generation > out->generation ? drives[i].known.term.generation : out->generation;
        }
        out->generation++;
        return adopt_check_members(drives, count, newest, out);
}

void cl_adopt_plan(const struct cl_adopt_drive *drives, unsigned count, const struct eng_site *site, struct cl_adopt_plan *out)
{
        memset(out, 0, sizeof(*out));
        out->rv = adopt_judge(drives, count, site, out);
}

/* ---- what etcd has --------------------------------------------------------------------------- */

static int look_refuse(char text[CL_TEXT_MAX], int rv, const char *why)
{
        snprintf(text, CL_TEXT_MAX, "%s", why);
        return rv;
}

int cl_adopt_look(const struct cl_adopt_plan *plan, const struct cl_view *view, char text[CL_TEXT_MAX])
{
        const struct cl_pool *own = cl_view_pool_of_store(view, plan->store_id);
        unsigned i;

        *text = '\0';
        if (view->has_request && (!plan->marked || plan->is_pool || view->has_format)) /* a marked pool that was never led: nobody else has it, and it ends the request */
                return look_refuse(text, -EBUSY, "etcd is being written anew from what nodes hold (millrace admin cluster reseed): wait for that, or give this cluster another name");
        if (view->has_format && own == NULL)
                return look_refuse(text, -EEXIST, "there is a cluster of this name already: give this one another name");
        if (view->has_format && !plan->marked && !plan->is_pool)
                return look_refuse(text, -EEXIST, "the cluster of this name counts on an older state of this store: give this one another name");
        if (view->has_format)
                return CL_ADOPT_DONE;
        if (plan->is_pool)
                return look_refuse(text, -EREMCHG, "the store is a cluster's pool already, which this etcd does not know (millrace admin cluster reseed)");
        for (i = 0; i < view->pool_count; i++)
                if (view->pools[i].has_config && &view->pools[i] != own)
                        return look_refuse(text, -EEXIST, "another cluster of this name has been begun: give this one another name");
        if (own != NULL && own->number != CL_POOL)
                return look_refuse(text, -EEXIST, "the store is another pool than the first of a cluster that has been begun");
        return own != NULL ? CL_ADOPT_BEGUN : CL_ADOPT_NONE;
}

int cl_adopt_check_node(const struct cl_adopt_drive *drives, unsigned count, const char *name, const char *address, const struct cl_view *view, char text[CL_TEXT_MAX])
{
        unsigned i;

        *text = '\0';
        for (i = 0; i < count; i++)
                if ((drives[i].identity.features & ENG_FEATURE_SITES) != 0 && drives[i].node[0] != '\0' && strcmp(drives[i].node, name) != 0) {
                        snprintf(text, CL_TEXT_MAX, "%.120s: is marked for the node %s already: give it that name (node)", drives[i].path, drives[i].node);
                        return -EEXIST;
                }
        for (i = 0; i < view->count; i++)
                if (strcmp(view->members[i].node.address, address) == 0 && strcmp(view->members[i].node.name, name) != 0) {
                        snprintf(text, CL_TEXT_MAX, "the node %s has the address %.150s: stop it, or give this one another address", view->members[i].node.name, address);
                        return -EEXIST;
                }
        return 0;
}

/* ---- etcd ------------------------------------------------------------------------------------ */

static void adopt_answer(struct cl_adopt *adopt, int rv, const char *text)
{
        adopt->rv = rv;
        if (text != adopt->text)
                snprintf(adopt->text, sizeof(adopt->text), "%s", text);
        adopt->done(adopt);
}

static void adopt_put_done(struct cl_cas *cas)
{
        struct cl_adopt *adopt = container_of(cas, struct cl_adopt, cas);

        switch (cas->outcome) {
        case CL_CAS_WON:
                if (!adopt->ending)
                        adopt->config_revision = cas->revision;
                adopt_answer(adopt, 0, "");
                break;
        case CL_CAS_LOST:
        case CL_CAS_OVERTAKEN:
                adopt_answer(adopt, -EEXIST, "somebody else has begun or made a cluster of this name meanwhile");
                break;
        case CL_CAS_FAILED:
        case CL_CAS_UNKNOWN:
                adopt_answer(adopt, cas->error == -ENOSPC ? -ENOSPC : -EAGAIN, cas->text);
                break;
        }
}

/* 0: there is none. */
static void adopt_compare(struct cl_adopt *adopt, unsigned i, enum cl_key_kind kind, unsigned number, int64_t revision)
{
        char *key = adopt->other_keys[i];

        adopt->compares[i] = (struct cl_compare){.kind = CL_COMPARE_MOD, .key = {key, cl_key_name(adopt->cluster, kind, number, key)}, .number = revision};
}

/* Only while so many other keys are as they were. */
static void adopt_put(struct cl_adopt *adopt, size_t len, int64_t revision, unsigned others)
{
        if (len == 0) {
                adopt_answer(adopt, -ENOMEM, "out of memory");
                return;
        }
        memset(&adopt->cas, 0, sizeof(adopt->cas));
        adopt->cas.etcd = adopt->etcd;
        adopt->cas.key = (struct cl_bytes){adopt->key, strlen(adopt->key)};
        adopt->cas.value = (struct cl_bytes){adopt->value, len};
        adopt->cas.mod_revision = revision;
        adopt->cas.others = adopt->compares;
        adopt->cas.other_count = others;
        adopt->cas.done = adopt_put_done;
        cl_cas(&adopt->cas);
}

/* It was made of the epoch that the drives have now, for the node's slots as they would be named now. */
static bool is_own_claim(const struct cl_pool *pool, const struct cl_adopt_plan *plan)
{
        struct eng_epoch_info want;
        unsigned i;

        if (eng_epoch_read(plan->config.epoch, plan->config.epoch_len, &want) != 0 || memcmp(pool->epoch.parent, want.parent, CL_ID) != 0 || pool->epoch.slots != want.slots)
                return false;
        for (i = 0; i < want.slots; i++)
                if (pool->epoch.slot[i].site.node != want.slot[i].site.node || pool->epoch.slot[i].site.rack != want.slot[i].site.rack)
                        return false;
        return true;
}

void cl_adopt_claim(struct cl_adopt *adopt)
{
        const struct cl_pool *pool = cl_view_pool(adopt->view, CL_POOL);

        if (pool->has_config && is_own_claim(pool, adopt->plan)) {
                adopt->config_revision = pool->config_revision;
                adopt_answer(adopt, 0, "");
                return;
        }
        adopt->ending = false;
        cl_key_name(adopt->cluster, CL_KEY_CONFIG, CL_POOL, adopt->key);
        adopt_compare(adopt, 0, CL_KEY_FORMAT, 0, 0);
        adopt_put(adopt, cl_config_write(&adopt->plan->config, adopt->value), pool->has_config ? pool->config_revision : 0, 1);
}

void cl_adopt_end(struct cl_adopt *adopt)
{
        const struct cl_view *view = adopt->view;
        struct cl_format format = {.generation = adopt->plan->generation};

        if (view->has_request && view->request.generation >= format.generation)
                format.generation = view->request.generation + 1;
        adopt->ending = true;
        lp_random(format.cluster_id, sizeof(format.cluster_id));
        lp_random(&format.random, sizeof(format.random));
        cl_key_name(adopt->cluster, CL_KEY_FORMAT, 0, adopt->key);
        adopt_compare(adopt, 0, CL_KEY_CONFIG, CL_POOL, adopt->config_revision);
        adopt_compare(adopt, 1, CL_KEY_RESEED, 0, view->request_revision);
        adopt_put(adopt, cl_format_write(&format, adopt->value), 0, 2);
}

/* ---- the folders ----------------------------------------------------------------------------- */

/* NODE first: whose the folder is, when it belongs to nobody but a node. */
static int mark_folder(const struct cl_adopt_drive *drive, const struct cl_node_file *as, struct eng_error *error)
{
        struct cl_node_file file = *as;
        int dir = open(drive->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rv;

        if (dir < 0) {
                rv = -errno;
        } else {
                memcpy(file.drive, drive->identity.drive_id, CL_ID);
                file.made = true;
                rv = cl_node_file_write(dir, &file);
                close(dir);
        }
        if (rv != 0) {
                snprintf(error->text, sizeof(error->text), "%.200s/%s cannot be written: %s", drive->path, ENG_FOLDER_NODE_FILE, strerror(-rv));
                return rv;
        }
        return eng_folder_add_features(drive->path, ENG_FEATURES_OF_POOL, error);
}

int cl_adopt_mark(const struct cl_adopt_drive *drives, unsigned count, const struct cl_node_file *as, struct eng_error *error)
{
        int locks[CL_DRIVES_MAX], rv = 0;
        unsigned held = 0, i;

        if (count > CL_DRIVES_MAX)
                return -EINVAL;
        while (rv == 0 && held < count) {
                rv = eng_folder_hold(drives[held].path, &locks[held], error);
                held += rv == 0;
        }
        for (i = 0; rv == 0 && i < count; i++)
                rv = mark_folder(&drives[i], as, error);
        while (held > 0)
                close(locks[--held]);
        return rv;
}
