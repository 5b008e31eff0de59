/*
 * rdma_target.c - the memory of a client of the header protocol over the live fake, for tests whose
 * HTTP is spoken by another program: commands on standard input, one line each, one line of answer
 * each.
 *
 *   rdma_target DRIVER KEY LEN      KEY: of the target, hex; LEN bytes of memory, filled with 0xee         ok GID NUMBER ADDRESS
 *
 *   region OFFSET LEN ACCESS        w or r: who has the key may write, or read      ok RKEY
 *   save OFFSET LEN FILE            of the memory                                   ok
 *   load OFFSET FILE                into it                                         ok LEN
 *
 * What fails answers "error ERRNO".
 */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fakerdma/fake.h"

#define REGIONS 64u

static const struct rdx_transport *transport;
static struct rdx_domain *domain;
static uint8_t *bytes;
static size_t bytes_len;
static struct rdx_region *regions[REGIONS];
static unsigned region_count;

static void answer(int rv)
{
        if (rv == 0)
                puts("ok");
        else
                printf("error %d\n", -rv);
}

/* ISO C has no other way from an object pointer to a function's. */
static void find(void *driver, const char *name, void *function)
{
        void *symbol = dlsym(driver, name);

        if (symbol == NULL)
                exit(2);
        memcpy(function, &symbol, sizeof(symbol));
}

static int begin(const char *path, uint64_t key)
{
        int (*target_open)(struct rdx_domain *, uint64_t, struct fake_target **);
        uint32_t (*target_number)(const struct fake_target *);
        struct fake_target *target;
        struct rdx_device *device;
        struct rdx_device_info info;
        char why[200];
        void *driver;
        unsigned i;
        int rv = rdx_transport_load(path, &transport);

        driver = rv == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (driver == NULL)
                return rv != 0 ? rv : -ENOEXEC;
        find(driver, "fake_target_open", &target_open);
        find(driver, "fake_target_number", &target_number);
        rv = transport->device_open("127.0.0.1", 0, true, 1000, &device, why, sizeof(why));
        if (rv == 0)
                rv = transport->domain_open(device, &domain);
        if (rv == 0)
                rv = target_open(domain, key, &target);
        if (rv != 0)
                return rv;
        transport->device_info(device, &info);
        printf("ok ");
        for (i = 0; i < RDX_GID_LEN; i++)
                printf("%02x", info.gid[i]);
        printf(" %06x %016" PRIx64 "\n", target_number(target), (uint64_t)(uintptr_t)bytes);
        return 0;
}

static bool is_inside(uint64_t offset, uint64_t len)
{
        return offset <= bytes_len && len <= bytes_len - offset;
}

static void do_region(const char *line)
{
        uint64_t offset, len;
        char access;
        int rv;

        if (sscanf(line, "%" SCNu64 " %" SCNu64 " %c", &offset, &len, &access) != 3 || !is_inside(offset, len) ||
            region_count == REGIONS) {
                answer(-EINVAL);
                return;
        }
        rv = transport->region_open(domain, bytes + offset, len,
                                    access == 'w' ? RDX_LOCAL_WRITE | RDX_REMOTE_WRITE : RDX_REMOTE_READ,
                                    &regions[region_count]);
        if (rv != 0)
                answer(rv);
        else
                printf("ok %08x\n", transport->region_rkey(regions[region_count++]));
}

static void do_save(const char *line)
{
        uint64_t offset, len;
        char path[400];
        bool whole;
        FILE *file;

        if (sscanf(line, "%" SCNu64 " %" SCNu64 " %399s", &offset, &len, path) != 3 || !is_inside(offset, len) ||
            (file = fopen(path, "wb")) == NULL) {
                answer(-EINVAL);
                return;
        }
        whole = fwrite(bytes + offset, 1, len, file) == len;
        answer(fclose(file) == 0 && whole ? 0 : -EIO);
}

static void do_load(const char *line)
{
        uint64_t offset;
        char path[400];
        FILE *file;

        if (sscanf(line, "%" SCNu64 " %399s", &offset, path) != 2 || !is_inside(offset, 0) ||
            (file = fopen(path, "rb")) == NULL) {
                answer(-EINVAL);
                return;
        }
        printf("ok %zu\n", fread(bytes + offset, 1, bytes_len - offset, file));
        fclose(file);
}

int main(int argc, char **argv)
{
        char line[600];
        int rv;

        setvbuf(stdout, NULL, _IOLBF, 0);
        if (argc != 4)
                return 2;
        bytes_len = strtoull(argv[3], NULL, 10);
        bytes = aligned_alloc(4096, (bytes_len + 4095) & ~(size_t)4095);
        if (bytes == NULL)
                return 2;
        memset(bytes, 0xee, bytes_len);
        rv = begin(argv[1], strtoull(argv[2], NULL, 16));
        if (rv != 0)
                answer(rv);
        while (rv == 0 && fgets(line, sizeof(line), stdin) != NULL) {
                if (strncmp(line, "region ", 7) == 0)
                        do_region(line + 7);
                else if (strncmp(line, "save ", 5) == 0)
                        do_save(line + 5);
                else if (strncmp(line, "load ", 5) == 0)
                        do_load(line + 5);
                else
                        answer(-EINVAL);
        }
        _exit(rv != 0); /* the fake's thread may be at work */
}
