/*
 * sim_net.h - a network between simulated processes: net_transport.h over virtual time.
 *
 * A stream is two rows of pieces of bytes, each of which arrives after a while: latency by pair with
 * a heavy tail, a bandwidth, a window. Hosts are on or off, and pairs of hosts are cut, one way or
 * both; what was sent then arrives when the cut has ended, as TCP has it. A process that dies
 * resets its streams, or ends them; a host that dies says nothing, and resets what comes to it when it
 * runs again.
 */
#ifndef MILLRACE_TESTS_SIM_NODES_SIM_NET_H
#define MILLRACE_TESTS_SIM_NODES_SIM_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "net_transport.h"
#include "tests/sim/sim.h"

void sim_net_begin(void); /* a new history */
void sim_net_prompt(void); /* in it nothing takes much longer than usual, from now on; nor does etcd */
bool sim_net_is_prompt(void);
void sim_net_slow(uint64_t least_ns, uint64_t most_ns); /* in it hosts are so far apart */
/* There is such a party, whose process may not have begun yet: to connect to it is refused. */
void sim_net_name(unsigned process, uint16_t party, unsigned host);
/*
 * The transport of a process that begins, on this host. Others connect to it by "node-PARTY", which
 * is in its certificate, too.
 */
struct net_transport *sim_net_party(unsigned process, uint16_t party, unsigned host);
/* The process is dead. told: its streams end, or are reset; else they fall silent, as when its host has died. */
void sim_net_killed(unsigned process, bool told);
void sim_net_host(unsigned host, bool on);

/* ---- faults ---------------------------------------------------------------------------------- */

#define SIM_FOREVER (1000000 * SIM_S)
void sim_net_cut(unsigned from, unsigned to, uint64_t ns); /* what host `from` sends does not reach host `to` */
void sim_net_heal(void);                                   /* no cut, no stall, nothing flips from now on */
/* Of a random stream. False: there is none. */
/*
 * The connection on which the so manieth frame from now on is sent (a beat is none) is reset while that is under way: one
 * end learns of it at once; the other, late_ns later, behind all that was under way. One at a time.
 */
void sim_net_arm(unsigned frames, uint64_t late_ns);
bool sim_net_armed(void);
bool sim_net_stall(uint64_t ns);      /* nothing arrives, either way */
bool sim_net_flip(void);              /* one bit of the next piece */

struct sim_net_figures {
        uint64_t streams, refused, cuts, resets, stalls, flips, late, bytes;
};
extern struct sim_net_figures sim_net_figures;

#endif
