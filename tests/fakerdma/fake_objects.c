/*
 * fake_objects.c - the fake's devices, domains, regions, windows and completion queues, and who may
 * touch what.
 */
#include "tests/fakerdma/fake_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct fake_world fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_port = 40000};

void fake_die(const char *file, int line, const char *what)
{
        fprintf(stderr, "fake RDMA, %s:%d: a rule was broken: %s\n", file, line, what);
        abort();
}

void fake_lock(void)
{
        FAKE_MUST(pthread_mutex_lock(&fake.lock) == 0);
}

void fake_unlock(void)
{
        FAKE_MUST(pthread_mutex_unlock(&fake.lock) == 0);
}

/* splitmix64 */
uint64_t fake_random(uint64_t below)
{
        uint64_t z = (fake.random += 0x9e3779b97f4a7c15u);

        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        z ^= z >> 31;
        return below > 0 ? z % below : 0;
}

bool fake_point(void)
{
        const struct fake_options *options = &fake.options;
        uint64_t point = ++fake.counts.points;
        bool fails = point == options->fail_at;

        if (options->fail_one_in > 0 && point >= options->fail_from && fake_random(options->fail_one_in) == 0)
                fails = true;
        fake.counts.failed += fails;
        return fails;
}

void fake_opened(void)
{
        fake.counts.objects++;
}

void fake_closed(void)
{
        FAKE_MUST(fake.counts.objects > 0);
        fake.counts.objects--;
}

void fake_start(const struct fake_options *options)
{
        fake_lock();
        FAKE_MUST(fake.counts.objects == 0 && fake.pairs == NULL);
        fake.options = *options;
        fake.counts = (struct fake_counts){0};
        fake.random = options->seed;
        fake.writes_out = 0;
        fake.live = false;
        fake.strict = true;
        fake_unlock();
}

void fake_counts_read(struct fake_counts *out)
{
        fake_lock();
        *out = fake.counts;
        fake_unlock();
}

/* ---- devices --------------------------------------------------------------------------------- */

static unsigned rights(void)
{
        return fake.options.rights != 0 ? fake.options.rights
                                        : RDX_RIGHTS_WINDOW2 | RDX_RIGHTS_WINDOW1 | RDX_RIGHTS_REGION;
}

static void fill_info(const uint8_t gid[RDX_GID_LEN], struct rdx_device_info *out)
{
        memset(out, 0, sizeof(*out));
        strcpy(out->name, "fake0");
        strcpy(out->link, "fake");
        memcpy(out->gid, gid, RDX_GID_LEN);
        out->mtu = FAKE_MTU;
        out->up = true;
        out->rights = rights();
        out->window1 = (out->rights & RDX_RIGHTS_WINDOW1) != 0;
        out->window2 = (out->rights & RDX_RIGHTS_WINDOW2) != 0;
        out->read_depth = 16;
        out->dc = fake.live ? getenv(FAKE_NO_DC) == NULL : !fake.options.no_dc;
}

int fake_devices(void (*visit)(void *arg, const struct rdx_device_info *info), void *arg)
{
        static const uint8_t gid[RDX_GID_LEN] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
        struct rdx_device_info info;

        fill_info(gid, &info);
        visit(arg, &info);
        return 1;
}

void fake_device_open_env(void)
{
        if (fake.live || getenv(FAKE_DIRECTORY) == NULL)
                return;
        fake.live = true;
        fake.strict = getenv(FAKE_STRICT) != NULL;
        fake.random = (uint64_t)getpid();
        fake_faults_open();
        fake_wire_start();
}

int fake_device_open(const char *address, uint16_t port, bool remote, unsigned timeout_ms, struct rdx_device **out,
                     char *why, size_t why_len)
{
        struct rdx_device *device;

        fake_lock();
        fake_device_open_env();
        device = fake_point() ? NULL : calloc(1, sizeof(*device));
        if (device != NULL) {
                /* The far end is at another address than the near one. */
                inet_pton(AF_INET, remote ? "127.0.0.2" : "127.0.0.1", device->gid + 12);
                memset(device->gid + 10, 0xff, 2);
                snprintf(device->address, sizeof(device->address), "%s", address);
                device->next = fake.devices;
                fake.devices = device;
                fake_opened();
        } else {
                snprintf(why, why_len, "no fake device");
        }
        fake_unlock();
        *out = device;
        return device != NULL ? 0 : -ENODEV;
}

void fake_device_close(struct rdx_device *device)
{
        struct rdx_device **link = &fake.devices;

        fake_lock();
        while (*link != device)
                link = &(*link)->next;
        *link = device->next;
        fake_closed();
        fake_unlock();
        free(device);
}

void fake_device_info(struct rdx_device *device, struct rdx_device_info *out)
{
        fake_lock();
        fill_info(device->gid, out);
        fake_unlock();
}

/* ---- domains, keys, regions ------------------------------------------------------------------ */

int fake_domain_open(struct rdx_device *device, struct rdx_domain **out)
{
        struct rdx_domain *domain;

        fake_lock();
        domain = fake_point() ? NULL : calloc(1, sizeof(*domain));
        if (domain != NULL) {
                domain->device = device;
                fake_opened();
        }
        fake_unlock();
        *out = domain;
        return domain != NULL ? 0 : -ENOMEM;
}

void fake_domain_close(struct rdx_domain *domain)
{
        fake_lock();
        FAKE_MUST(domain->users == 0);
        fake_closed();
        fake_unlock();
        free(domain);
}

/* The key's low byte changes with each use, so that one which is over is not the next one's. */
static uint32_t key_new(enum key_kind kind, void *object)
{
        uint32_t i;

        for (i = 1; i < fake.key_count; i++)
                if (fake.keys[i].kind == KEY_FREE)
                        break;
        if (i >= fake.key_count) {
                uint32_t count = fake.key_count > 0 ? 2 * fake.key_count : 16;

                fake.keys = realloc(fake.keys, count * sizeof(*fake.keys));
                FAKE_MUST(fake.keys != NULL);
                memset(fake.keys + fake.key_count, 0, (count - fake.key_count) * sizeof(*fake.keys));
                i = fake.key_count > 0 ? fake.key_count : 1;
                fake.key_count = count;
        }
        fake.keys[i].kind = kind;
        fake.keys[i].object = object;
        return i << 8 | ++fake.keys[i].generation;
}

static void key_free(uint32_t key)
{
        fake.keys[key >> 8].kind = KEY_FREE;
}

int fake_region_open(struct rdx_domain *domain, void *address, size_t len, unsigned access, struct rdx_region **out)
{
        struct rdx_region *region;

        fake_lock();
        region = fake_point() ? NULL : calloc(1, sizeof(*region));
        if (region != NULL) {
                *region = (struct rdx_region){.domain = domain, .base = address, .len = len, .access = access};
                region->key = key_new(KEY_REGION, region);
                domain->users++;
                fake_opened();
        }
        fake_unlock();
        *out = region;
        return region != NULL ? 0 : -ENOMEM;
}

/* Nothing on its way may be for it, which is for the caller to see to: fence first. */
void fake_region_close(struct rdx_region *region)
{
        struct rdx_pair *pair;
        struct fake_staged *staged;

        fake_lock();
        FAKE_MUST(region->windows == 0);
        for (pair = fake.pairs; pair != NULL; pair = pair->next)
                for (staged = pair->staged; staged != NULL; staged = staged->next)
                        FAKE_MUST(staged->to + staged->len <= region->base || staged->to >= region->base + region->len);
        key_free(region->key);
        region->domain->users--;
        fake_closed();
        fake_unlock();
        free(region);
}

uint32_t fake_region_lkey(const struct rdx_region *region)
{
        return region->key;
}

uint32_t fake_region_rkey(const struct rdx_region *region)
{
        return region->key;
}

bool fake_region_holds(const struct rdx_region *region, const void *address, uint64_t len)
{
        uintptr_t offset = (uintptr_t)address - (uintptr_t)region->base;

        return offset <= region->len && len <= region->len - offset;
}

struct rdx_region *fake_region_of(uint32_t lkey)
{
        struct fake_key *key = lkey >> 8 < fake.key_count ? &fake.keys[lkey >> 8] : NULL;

        if (key == NULL || key->kind != KEY_REGION || key->generation != (uint8_t)lkey)
                return NULL;
        return key->object;
}

/* ---- windows --------------------------------------------------------------------------------- */

int fake_window_open(struct rdx_domain *domain, unsigned type, struct rdx_window **out)
{
        struct rdx_window *window = NULL;
        int rv = -ENOMEM;

        fake_lock();
        if ((rights() & (type == 2 ? RDX_RIGHTS_WINDOW2 : RDX_RIGHTS_WINDOW1)) == 0)
                rv = -ENOTSUP;
        else if (!fake_point())
                window = calloc(1, sizeof(*window));
        if (window != NULL) {
                window->domain = domain;
                window->type = type;
                window->posted_key = key_new(KEY_WINDOW, window);
                window->index = window->posted_key >> 8;
                domain->users++;
                fake_opened();
                rv = 0;
        }
        fake_unlock();
        *out = window;
        return rv;
}

static void unbind(struct rdx_window *window)
{
        if (window->key == 0)
                return;
        window->key = 0;
        window->region->windows--;
}

void fake_window_close(struct rdx_window *window)
{
        struct rdx_pair *pair;

        fake_lock();
        for (pair = fake.pairs; pair != NULL; pair = pair->next)
                if (pair->domain == window->domain)
                        fake_settle(pair, pair->state == PAIR_READY);
        unbind(window);
        fake.keys[window->index].kind = KEY_FREE;
        window->domain->users--;
        fake_closed();
        fake_unlock();
        free(window);
}

uint32_t fake_window_rkey(const struct rdx_window *window)
{
        return window->posted_key;
}

/*
 * In the order of the send queue. A type 1 window is bound anew at will, a type 2 one only when it
 * was invalidated.
 */
int fake_bind(struct rdx_pair *pair, const struct rdx_work *work)
{
        struct rdx_window *window = work->window;

        if (window->domain != pair->domain || (window->type == 2 && window->key != 0))
                return -EIO;
        fake_settle(pair, true); /* nothing of before appears after */
        unbind(window);
        if (work->bind_len == 0)
                return 0;
        if (work->region->domain != pair->domain || (work->region->access & RDX_WINDOWS) == 0 ||
            !fake_region_holds(work->region, work->address, work->bind_len))
                return -EIO;
        window->region = work->region;
        window->region->windows++;
        window->key = work->rkey; /* chosen when it was posted */
        window->address = (uint64_t)(uintptr_t)work->address;
        window->len = work->bind_len;
        window->access = work->access;
        window->pair = window->type == 2 ? pair : NULL;
        return 0;
}

int fake_invalidate(struct rdx_pair *pair, uint32_t rkey)
{
        struct fake_key *key = rkey >> 8 < fake.key_count ? &fake.keys[rkey >> 8] : NULL;
        struct rdx_window *window = key != NULL && key->kind == KEY_WINDOW ? key->object : NULL;

        if (window == NULL || window->type != 2 || window->key != rkey || window->pair != pair)
                return -EACCES;
        unbind(window);
        return 0;
}

static bool inside(uint64_t base, uint64_t size, uint64_t address, uint64_t len)
{
        return address >= base && address - base <= size && len <= size - (address - base);
}

int fake_check_rights(const struct rdx_pair *pair, uint32_t rkey, uint64_t address, uint64_t len, unsigned access)
{
        struct fake_key *key = rkey >> 8 < fake.key_count ? &fake.keys[rkey >> 8] : NULL;
        const struct rdx_region *region = key != NULL && key->kind == KEY_REGION ? key->object : NULL;
        const struct rdx_window *window = key != NULL && key->kind == KEY_WINDOW ? key->object : NULL;
        bool good = false;

        if (len == 0)
                return 0; /* as the InfiniBand specification has it: no key is looked at */
        if (region != NULL)
                good = region->key == rkey && region->domain == pair->domain && (region->access & access) != 0 &&
                       inside((uint64_t)(uintptr_t)region->base, region->len, address, len);
        if (window != NULL)
                good = window->key == rkey && window->domain == pair->domain && (window->access & access) != 0 &&
                       (window->type == 1 || window->pair == pair) &&
                       inside(window->address, window->len, address, len);
        if (good)
                return 0;
        fake.counts.refused++;
        if (key == NULL || key->kind == KEY_FREE || (window != NULL && window->key != rkey))
                fake.counts.late++;
        return -EACCES;
}

/* ---- completion queues ----------------------------------------------------------------------- */

void fake_signal(int fd)
{
        uint64_t one = 1;

        FAKE_MUST(write(fd, &one, sizeof(one)) == sizeof(one));
}

int fake_queue_open(struct rdx_device *device, unsigned entries, struct rdx_queue **out)
{
        struct rdx_queue *queue;

        fake_lock();
        queue = fake_point() ? NULL : calloc(1, sizeof(*queue));
        if (queue != NULL) {
                queue->device = device;
                queue->size = entries;
                queue->done = calloc(entries, sizeof(*queue->done));
                queue->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
                FAKE_MUST(queue->done != NULL && queue->fd >= 0);
                fake_opened();
        }
        fake_unlock();
        *out = queue;
        return queue != NULL ? 0 : -ENOMEM;
}

void fake_queue_close(struct rdx_queue *queue)
{
        fake_lock();
        FAKE_MUST(queue->pairs == 0);
        fake_closed();
        fake_unlock();
        close(queue->fd);
        free(queue->done);
        free(queue);
}

int fake_queue_fd(const struct rdx_queue *queue)
{
        return queue->fd;
}

int fake_queue_arm(struct rdx_queue *queue)
{
        uint64_t count;

        fake_lock();
        while (read(queue->fd, &count, sizeof(count)) > 0)
                ;
        queue->armed = true;
        fake_unlock();
        return 0;
}

void fake_queue_push(struct rdx_queue *queue, const struct rdx_done *done)
{
        FAKE_MUST(queue->count < queue->size); /* overrun: a device stops for good */
        queue->done[(queue->head + queue->count++) % queue->size] = *done;
        if (queue->armed) {
                queue->armed = false;
                fake_signal(queue->fd);
        }
}

int fake_queue_poll(struct rdx_queue *queue, struct rdx_done *out, unsigned most)
{
        unsigned n = 0;

        fake_lock();
        while (n < most && queue->count > 0) {
                out[n++] = queue->done[queue->head];
                queue->head = (queue->head + 1) % queue->size;
                queue->count--;
        }
        fake_unlock();
        return (int)n;
}
