/*
 * boot.c - the next boot number of a node: processes of a node have numbers of their own, each higher than
 * those before.
 */
#include "cluster_node.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BOOT_TRIES 32u /* other processes of the node take numbers, too */

static void boot_read(struct cl_request *request);

static void boot_end(struct cl_boot_take *take, int rv, const char *text)
{
        take->rv = rv;
        snprintf(take->text, sizeof(take->text), "%s", text);
        take->done(take);
}

static void boot_ask(struct cl_boot_take *take)
{
        memset(&take->request, 0, sizeof(take->request));
        take->request.kind = CL_RANGE;
        take->request.key = (struct cl_bytes){take->key, strlen(take->key)};
        take->request.done = boot_read;
        cl_etcd_submit(take->etcd, &take->request);
}

static void boot_put(struct cl_cas *cas)
{
        struct cl_boot_take *take = container_of(cas, struct cl_boot_take, cas);

        if (cas->outcome == CL_CAS_WON)
                boot_end(take, 0, "");
        else if ((cas->outcome == CL_CAS_LOST || cas->outcome == CL_CAS_OVERTAKEN) && ++take->tries < BOOT_TRIES)
                boot_ask(take);
        else
                boot_end(take, cas->error == -ENOSPC ? -ENOSPC : -EAGAIN, cas->text);
}

static void boot_read(struct cl_request *request)
{
        struct cl_boot_take *take = container_of(request, struct cl_boot_take, request);
        const struct cl_keys *keys = request->outcome == CL_DONE ? &request->answer->ranges[0] : NULL;
        struct cl_boot boot = {.boot = 0};
        int64_t revision = 0;
        size_t len;

        if (keys == NULL) {
                boot_end(take, -EAGAIN, request->text);
                return;
        }
        if (keys->count > 0) {
                revision = keys->at[0].mod_revision;
                if (cl_boot_read(keys->at[0].value.data, keys->at[0].value.len, &boot) != 0) {
                        boot_end(take, -EBADMSG, "the node's boot number in etcd makes no sense");
                        return;
                }
        }
        if (boot.boot >= ENG_BOOT_MAX) {
                boot_end(take, -EOVERFLOW, "the node was started too often: give it a new number");
                return;
        }
        take->boot = ++boot.boot;
        lp_random(boot.claim, sizeof(boot.claim));
        len = cl_boot_write(&boot, take->value);
        if (len == 0) {
                boot_end(take, -EAGAIN, "out of memory");
                return;
        }
        memset(&take->cas, 0, sizeof(take->cas));
        take->cas.etcd = take->etcd;
        take->cas.key = (struct cl_bytes){take->key, strlen(take->key)};
        take->cas.value = (struct cl_bytes){take->value, len};
        take->cas.mod_revision = revision;
        take->cas.done = boot_put;
        cl_cas(&take->cas);
}

void cl_boot_take(struct cl_boot_take *take)
{
        cl_key_name(take->cluster, CL_KEY_BOOT, take->node, take->key);
        boot_ask(take);
}
