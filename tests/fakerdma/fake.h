/*
 * fake.h - an RDMA transport without hardware, for tests and measurements.
 *
 * It enforces what devices enforce, and some do not: bounds, rights, domains, the end of windows,
 * order within a queue pair, no receive no message; and that written bytes are visible only behind
 * a notice. Two ways to use it:
 *  - stepped: all ends in one process, one thread; nothing happens until fake_step(), which does one thing chosen by the seed. Failures are
 *    put at any point by number.
 *  - live: between processes. Environment MILLRACE_FAKE_RDMA names a folder for sockets; a thread per process is the device, and copies
 *    from the other process's memory. Loaded into daemon and client as a driver (libfakerdma.so); the product does not contain it.
 */
#ifndef FAKERDMA_FAKE_H
#define FAKERDMA_FAKE_H

#include "rdma_transport.h"

#define FAKE_DIRECTORY "MILLRACE_FAKE_RDMA"       /* environment: live, sockets here */
#define FAKE_NO_DC     "MILLRACE_FAKE_RDMA_NO_DC" /* environment: live, the device has no dynamically connected transport */
#define FAKE_STRICT    "MILLRACE_FAKE_RDMA_STRICT" /* environment: live, bytes become visible with the notice only */
#define FAKE_NO_READS  "MILLRACE_FAKE_RDMA_NO_READS" /* environment: live, of a client: its pairs take no READs */
#define FAKE_MUTE      "MILLRACE_FAKE_RDMA_MUTE"     /* environment: live, of a client: it never says that a connection is established */
#define FAKE_FAULTS    "MILLRACE_FAKE_RDMA_FAULTS" /* environment: live, a file of struct fake_faults, mapped */

/*
 * What of this process's own work fails, live: written by the test while the process runs. Points:
 * each READ posted, on its way there, and on its way back.
 */
struct fake_faults {
        uint64_t points;  /* so far; the test begins anew with 0 */
        uint64_t fail_at; /* this one fails, counted from 1; 0: none */
        uint64_t one_in;  /* and one in so many, by the seed; 0: none */
        uint64_t seed;
        uint64_t failed; /* so far */
};

struct fake_options {
        uint64_t seed;
        uint64_t fail_at;     /* this point fails, counted from 1; 0: none */
        uint64_t fail_from;   /* the first point that may fail at random, see fail_one_in */
        unsigned fail_one_in; /* 0: none */
        unsigned rights;      /* mask of what the device has; 0: all */
        unsigned queue_pairs; /* that can exist at a time; 0: no bound */
        bool no_dc;           /* the device has no dynamically connected transport */
        bool no_reads;        /* what connects takes no READs */
        bool mute;            /* what connects never says that it is established */
};

/* Points: every call that can fail, every post, every work request's way there and its way back. */
struct fake_counts {
        uint64_t points, failed;
        uint64_t
                objects; /* that are open: devices, domains, regions, windows, queues, channels, listeners, pairs, arrivals, initiators, routes, targets */
        uint64_t rnr;    /* messages for which no receive was posted */
        uint64_t refused; /* by rights */
        uint64_t late;    /* refused because the right had ended */
        uint64_t writes, written, reads, messages;
        uint64_t most_writes; /* posted and not completed at a time, of all pairs of the process */
};

const struct rdx_transport *fake_transport(void);

/* Stepped. All objects must be gone. */
void fake_start(const struct fake_options *options);
/* One thing happens; false: there is nothing that could. */
bool fake_step(void);
void fake_counts_read(struct fake_counts *out);
/*
 * The cable is pulled: no pair reaches its peer any more; the device reports itself gone if told
 * so.
 */
void fake_cut(bool device_gone);
/*
 * How a process dies: the pairs of the domain in which this memory is registered reach nobody any
 * more, and the peers are not told.
 */
void fake_kill(const void *memory, size_t len);

/*
 * A dynamically connected target, as a client's token names it: by its device's GID and its number.
 * Initiators that know the key reach what is registered in its domain, within the rights of regions
 * and type 1 windows. Open, number and close may be found by dlsym() in the driver.
 */
struct fake_target;
int fake_target_open(struct rdx_domain *domain, uint64_t key, struct fake_target **out);
uint32_t fake_target_number(const struct fake_target *target);
void fake_target_close(struct fake_target *target);

#endif
