/*
 * verbs_device.c - devices, protection domains, memory regions and windows of the verbs transport.
 * Set-up calls; those that pin memory or ask the kernel take their time.
 */
#include "rdma/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a device can ----------------------------------------------------------------------- */

static void fill_odp(struct ibv_context *context, struct rdx_device_info *out)
{
        struct verbs_context *extended = verbs_get_ctx_op(context, query_device_ex);
        struct ibv_device_attr_ex attr;

        memset(&attr, 0, sizeof(attr));
        if (extended != NULL && extended->query_device_ex(context, NULL, &attr, sizeof(attr)) == 0)
                out->on_demand_paging = (attr.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0;
}

static void fill_port(struct ibv_context *context, uint8_t port, struct rdx_device_info *out)
{
        struct ibv_port_attr attr;

        /* The library's own function knows the beginning of the structure only. */
        memset(&attr, 0, sizeof(attr));
        if (rdx_lib.ibv_query_port_fn(context, port, (struct _compat_ibv_port_attr *)&attr) != 0)
                return;
        out->up = attr.state == IBV_PORT_ACTIVE;
        out->mtu = 128u << attr.active_mtu;
        snprintf(out->link, sizeof(out->link), "%s",
                 attr.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand");
}

static void fill_info(struct ibv_context *context, uint8_t port, const struct ibv_device_attr *attr,
                      struct rdx_device_info *out)
{
        unsigned windows2 = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;

        snprintf(out->name, sizeof(out->name), "%s", rdx_lib.ibv_get_device_name_fn(context->device));
        out->window1 = (attr->device_cap_flags & IBV_DEVICE_MEM_WINDOW) != 0;
        out->window2 = (attr->device_cap_flags & windows2) != 0;
        out->read_depth = attr->max_qp_rd_atom > 0 ? (unsigned)attr->max_qp_rd_atom : 0;
        out->rights =
                RDX_RIGHTS_REGION | (out->window1 ? RDX_RIGHTS_WINDOW1 : 0) | (out->window2 ? RDX_RIGHTS_WINDOW2 : 0);
        out->dc = rdx_verbs_dc(context);
        fill_port(context, port, out);
        fill_odp(context, out);
}

void rdx_verbs_device_info(struct rdx_device *device, struct rdx_device_info *out)
{
        memset(out, 0, sizeof(*out));
        memcpy(out->gid, device->id->route.addr.addr.ibaddr.sgid.raw, RDX_GID_LEN);
        fill_info(device->context, device->port, &device->attr, out);
}

static void visit_one(struct ibv_device *device, void (*visit)(void *arg, const struct rdx_device_info *info),
                      void *arg)
{
        struct ibv_context *context = rdx_lib.ibv_open_device_fn(device);
        struct rdx_device_info info;
        struct ibv_device_attr attr;
        union ibv_gid gid;

        if (context == NULL)
                return;
        memset(&info, 0, sizeof(info));
        if (rdx_lib.ibv_query_device_fn(context, &attr) == 0) {
                fill_info(context, 1, &attr, &info);
                if (rdx_lib.ibv_query_gid_fn(context, 1, 0, &gid) == 0)
                        memcpy(info.gid, gid.raw, RDX_GID_LEN);
                visit(arg, &info);
        }
        rdx_lib.ibv_close_device_fn(context);
}

int rdx_verbs_devices(void (*visit)(void *arg, const struct rdx_device_info *info), void *arg)
{
        struct ibv_device **list;
        int i, count = 0;

        if (rdx_libraries() == NULL)
                return -ENOSYS;
        list = rdx_lib.ibv_get_device_list_fn(&count);
        if (list == NULL)
                return errno == ENOSYS || errno == 0 ? 0 : -errno; /* a kernel without RDMA has none */
        for (i = 0; i < count; i++)
                visit_one(list[i], visit, arg);
        rdx_lib.ibv_free_device_list_fn(list);
        return count;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* By address: rdma_cm knows which device an address belongs to, or is reached through. */
static int find_device(struct rdx_device *device, struct sockaddr_storage *address, bool remote, unsigned timeout_ms)
{
        int rv;

        if (!remote)
                return rdx_lib.rdma_bind_addr_fn(device->id, (struct sockaddr *)address) == 0 ? 0 : -errno;
        if (rdx_lib.rdma_resolve_addr_fn(device->id, NULL, (struct sockaddr *)address, (int)timeout_ms) != 0)
                return -errno;
        rv = rdx_verbs_await(device->channel, RDMA_CM_EVENT_ADDR_RESOLVED, timeout_ms);
        return rv;
}

int rdx_verbs_device_open(const char *address, uint16_t port, bool remote, unsigned timeout_ms, struct rdx_device **out,
                          char *why, size_t why_len)
{
        struct sockaddr_storage name;
        struct rdx_device *device;
        int rv = rdx_verbs_address(address, remote ? port : 0, &name);

        *out = NULL;
        if (rv != 0) {
                snprintf(why, why_len, "%s is no address", address);
                return rv;
        }
        if (rdx_libraries() == NULL) {
                snprintf(why, why_len, "libibverbs and librdmacm are not installed");
                return -ENOSYS;
        }
        device = calloc(1, sizeof(*device));
        if (device == NULL)
                return -ENOMEM;
        rv = -ENODEV;
        device->channel = rdx_lib.rdma_create_event_channel_fn();
        if (device->channel == NULL)
                goto err_free;
        if (rdx_lib.rdma_create_id_fn(device->channel, &device->id, NULL, RDMA_PS_TCP) != 0)
                goto err_channel;
        rv = find_device(device, &name, remote, timeout_ms);
        if (rv == 0 && device->id->verbs == NULL)
                rv = -ENODEV;
        if (rv != 0)
                goto err_id;
        device->context = device->id->verbs;
        device->port = device->id->port_num;
        if (rdx_lib.ibv_query_device_fn(device->context, &device->attr) != 0) {
                rv = -EIO;
                goto err_id;
        }
        *out = device;
        return 0;

err_id:
        rdx_lib.rdma_destroy_id_fn(device->id);
err_channel:
        rdx_lib.rdma_destroy_event_channel_fn(device->channel);
err_free:
        free(device);
        snprintf(why, why_len, "no RDMA device for %s: %s", address, strerror(-rv));
        return rv;
}

void rdx_verbs_device_close(struct rdx_device *device)
{
        rdx_lib.rdma_destroy_id_fn(device->id);
        rdx_lib.rdma_destroy_event_channel_fn(device->channel);
        free(device);
}

int rdx_verbs_domain_open(struct rdx_device *device, struct rdx_domain **out)
{
        struct rdx_domain *domain = calloc(1, sizeof(*domain));

        *out = NULL;
        if (domain == NULL)
                return -ENOMEM;
        domain->device = device;
        domain->pd = rdx_lib.ibv_alloc_pd_fn(device->context);
        if (domain->pd == NULL) {
                free(domain);
                return -EIO;
        }
        *out = domain;
        return 0;
}

void rdx_verbs_domain_close(struct rdx_domain *domain)
{
        rdx_lib.ibv_dealloc_pd_fn(domain->pd);
        free(domain);
}

/* ---- regions and windows --------------------------------------------------------------------- */

static int access_flags(unsigned access)
{
        int flags = 0;

        if ((access & RDX_LOCAL_WRITE) != 0)
                flags |= IBV_ACCESS_LOCAL_WRITE;
        if ((access & RDX_REMOTE_WRITE) != 0)
                flags |= IBV_ACCESS_REMOTE_WRITE;
        if ((access & RDX_REMOTE_READ) != 0)
                flags |= IBV_ACCESS_REMOTE_READ;
        if ((access & RDX_WINDOWS) != 0)
                flags |= IBV_ACCESS_MW_BIND;
        return flags;
}

static int keep_region(struct ibv_mr *mr, struct rdx_region **out)
{
        struct rdx_region *region;

        *out = NULL;
        if (mr == NULL)
                return errno != 0 ? -errno : -EIO;
        region = calloc(1, sizeof(*region));
        if (region == NULL) {
                rdx_lib.ibv_dereg_mr_fn(mr);
                return -ENOMEM;
        }
        region->mr = mr;
        *out = region;
        return 0;
}

int rdx_verbs_region_open(struct rdx_domain *domain, void *address, size_t len, unsigned access,
                          struct rdx_region **out)
{
        return keep_region(rdx_lib.ibv_reg_mr_fn(domain->pd, address, len, access_flags(access)), out);
}

int rdx_verbs_region_open_dmabuf(struct rdx_domain *domain, int fd, uint64_t offset, uint64_t address, size_t len,
                                 unsigned access, struct rdx_region **out)
{
        *out = NULL;
        if (rdx_lib.ibv_reg_dmabuf_mr_fn == NULL)
                return -ENOTSUP;
        return keep_region(
                rdx_lib.ibv_reg_dmabuf_mr_fn(domain->pd, offset, len, address, fd, access_flags(access & ~RDX_WINDOWS)),
                out);
}

void rdx_verbs_region_close(struct rdx_region *region)
{
        rdx_lib.ibv_dereg_mr_fn(region->mr);
        free(region);
}

uint32_t rdx_verbs_region_lkey(const struct rdx_region *region)
{
        return region->mr->lkey;
}

uint32_t rdx_verbs_region_rkey(const struct rdx_region *region)
{
        return region->mr->rkey;
}

int rdx_verbs_window_open(struct rdx_domain *domain, unsigned type, struct rdx_window **out)
{
        struct rdx_window *window = calloc(1, sizeof(*window));

        *out = NULL;
        if (window == NULL)
                return -ENOMEM;
        window->mw = ibv_alloc_mw(domain->pd, type == 2 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1);
        if (window->mw == NULL) {
                int rv = errno != 0 ? -errno : -ENOTSUP;

                free(window);
                return rv;
        }
        *out = window;
        return 0;
}

void rdx_verbs_window_close(struct rdx_window *window)
{
        ibv_dealloc_mw(window->mw);
        free(window);
}

uint32_t rdx_verbs_window_rkey(const struct rdx_window *window)
{
        return window->mw->rkey;
}
