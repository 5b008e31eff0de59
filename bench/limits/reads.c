/*
 * reads.c - the least that serving large objects can cost: one thread reads a file that lies in the
 * page cache, 1 MiB at a time, and computes the CRC32C of every byte once. Prints CPU seconds a GiB
 * and MiB a second, as JSON. The file is made, and gone afterwards.
 *
 * Less than a server can come to, by two things. The file is written through the page cache, so the
 * kernel keeps it in large folios; a store's data came there by reads of units here and there,
 * which leave it in single pages, and copying these costs about half as much again. And it runs
 * alone: nobody fetches the bytes meanwhile, as the other end of a fake wire does with its copy on
 * the next processor.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ec.h"

#define BLOCK   (1u << 20)
#define MIB_MAX 65536u
#define BUFFERS 16u /* in turn: bytes that were read are not in the core's cache when the next are */

static const char usage[] = "Usage: reads FOLDER MIB SECONDS\n"
                            "\n"
                            "Reads MIB MiB (1 to 65536) of a file in FOLDER again and again, warm, with the CRC32C of "
                            "all of it, for SECONDS.\n";

static volatile uint64_t sink; /* keeps results that nobody asks for */

static double now_s(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu_s(void)
{
        struct timespec now;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int make_file(const char *folder, uint8_t *block, unsigned blocks)
{
        char path[4096];
        int fd;

        if (snprintf(path, sizeof(path), "%s/reads-XXXXXX", folder) >= (int)sizeof(path))
                return -ENAMETOOLONG;
        fd = mkostemp(path, O_CLOEXEC);
        if (fd < 0)
                return -errno;
        unlink(path);
        for (unsigned i = 0; i < blocks; i++) {
                memset(block, (int)i + 1, BLOCK);
                if (write(fd, block, BLOCK) != BLOCK) {
                        close(fd);
                        return -EIO;
                }
        }
        if (fdatasync(fd) != 0) { /* nothing is left for the kernel to do meanwhile */
                close(fd);
                return -EIO;
        }
        return fd;
}

/* All of it once. 0 or -EIO. */
static int pass(int fd, uint8_t *memory, unsigned blocks)
{
        for (unsigned i = 0; i < blocks; i++) {
                uint8_t *to = memory + (size_t)(i % BUFFERS) * BLOCK;

                if (pread(fd, to, BLOCK, (off_t)i * BLOCK) != BLOCK)
                        return -EIO;
                sink += era_crc32c(0, to, BLOCK);
        }
        return 0;
}

static int measure(int fd, uint8_t *memory, unsigned blocks, double seconds)
{
        double begun, cpu, took;
        uint64_t done = 0;
        int rv = pass(fd, memory, blocks);

        begun = now_s();
        cpu = cpu_s();
        do {
                if (rv == 0)
                        rv = pass(fd, memory, blocks);
                done += blocks;
                took = now_s() - begun;
        } while (rv == 0 && took < seconds);
        cpu = cpu_s() - cpu;
        if (rv == 0)
                printf("{\"cpu_s_gib\": %.6f, \"mib_s\": %.1f}\n", cpu * 1024 / (double)done, (double)done / took);
        return rv;
}

int main(int argc, char **argv)
{
        uint8_t *memory;
        double seconds;
        long blocks;
        int fd, rv;

        if (argc == 2 && strcmp(argv[1], "--help") == 0) {
                fputs(usage, stdout);
                return 0;
        }
        blocks = argc == 4 ? atol(argv[2]) : 0;
        seconds = argc == 4 ? atof(argv[3]) : 0;
        if (blocks < 1 || blocks > MIB_MAX || !(seconds > 0 && seconds <= 3600)) {
                fputs(usage, stderr);
                return 2;
        }
        memory = aligned_alloc(4096, (size_t)BUFFERS * BLOCK);
        if (memory == NULL)
                return 1;
        fd = make_file(argv[1], memory, (unsigned)blocks);
        rv = fd < 0 ? fd : measure(fd, memory, (unsigned)blocks, seconds);
        if (rv != 0)
                fprintf(stderr, "reads: %s: %s\n", argv[1], strerror(-rv));
        if (fd >= 0)
                close(fd);
        free(memory);
        return rv == 0 ? 0 : 1;
}
