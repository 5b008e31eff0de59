/*
 * stats.c - figures of the gateway: counted per loop by its own thread, summed by whoever asks.
 */
#include "gw.h"

#include <string.h>

#include "route.h"

static const uint64_t bounds[GW_LATENCY_BUCKETS] = {
        10,     25,     50,      100,     250,     500,      1000,     2500,     5000,      10000,      25000,     50000,
        100000, 250000, 500000,  1000000, 2500000, 5000000,  10000000, 30000000, 60000000,  120000000,  UINT64_MAX,
};

const char *gw_stage_name(enum gw_stage stage)
{
        static const char *const names[] = {[GW_STAGE_HEAD] = "head", [GW_STAGE_LOOK] = "look", [GW_STAGE_BODY] = "body",
                                            [GW_STAGE_WORK] = "work", [GW_STAGE_SEND] = "send"};

        return names[stage];
}

uint64_t gw_latency_bound_us(unsigned bucket)
{
        return bucket < GW_LATENCY_BUCKETS ? bounds[bucket] : UINT64_MAX;
}

unsigned gw_latency_bucket(uint64_t us)
{
        unsigned bucket = 0;

        while (us > bounds[bucket])
                bucket++;
        return bucket;
}

static void add_time(struct gw_times *times, uint64_t ns)
{
        gw_count(&times->count[gw_latency_bucket((ns + 999) / 1000)], 1);
        gw_count(&times->sum_ns, ns);
}

void gw_stats_stage(struct gw_loop_stats *stats, enum gw_stage stage, uint64_t ns)
{
        add_time(&stats->stage[stage], ns);
}

void gw_stats_request(struct gw_loop_stats *stats, unsigned op, unsigned status, uint64_t bytes_in, uint64_t bytes_out,
                      uint64_t ns)
{
        struct gw_op_counters *c = &stats->op[op];
        unsigned class = status / 100;

        gw_count(&c->by_status[0], 1);
        if (class >= 2 && class <= 5)
                gw_count(&c->by_status[class], 1);
        gw_count(&c->bytes_in, bytes_in);
        gw_count(&c->bytes_out, bytes_out);
        add_time(&c->latency, ns);
}

static void sum_times(struct gw_histogram *sum, const struct gw_times *times)
{
        for (unsigned i = 0; i < GW_LATENCY_BUCKETS; i++)
                sum->count[i] += gw_counted(&times->count[i]);
        sum->sum_ns += gw_counted(&times->sum_ns);
}

static void add_op(struct gw_op_stats *sum, const struct gw_op_counters *c)
{
        for (unsigned i = 0; i < 6; i++)
                sum->by_status[i] += gw_counted(&c->by_status[i]);
        sum_times(&sum->latency, &c->latency);
        sum->bytes_in += gw_counted(&c->bytes_in);
        sum->bytes_out += gw_counted(&c->bytes_out);
}

void gw_stats_read(const struct gw_gateway *gw, struct gw_stats *out)
{
        memset(out, 0, sizeof(*out));
        out->operations = gw_op_count + 1;
        for (unsigned i = 0; i < out->operations; i++)
                out->op[i].operation = i < gw_op_count ? gw_ops[i].name : gw_op_none.name;
        out->upload_memory_used = atomic_load_explicit(&gw->upload_memory, memory_order_relaxed);
        for (unsigned l = 0; l < gw->loop_count; l++) {
                const struct gw_loop_stats *s = &gw->loops[l].stats;

                out->connections_open += gw_counted(&s->connections_open);
                out->connections_total += gw_counted(&s->connections_total);
                out->requests_active += gw_counted(&s->requests_active);
                out->requests_total += gw_counted(&s->requests_total);
                for (unsigned i = 0; i < out->operations; i++)
                        add_op(&out->op[i], &s->op[i]);
                for (unsigned i = 0; i < GW_STAGES; i++)
                        sum_times(&out->stage[i], &s->stage[i]);
        }
}

unsigned gw_active(const struct gw_gateway *gw)
{
        uint64_t active = 0;

        for (unsigned l = 0; l < gw->loop_count; l++)
                active += gw_counted(&gw->loops[l].stats.requests_active);
        return (unsigned)active;
}
