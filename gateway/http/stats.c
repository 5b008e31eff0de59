/*
 * stats.c - figures of the gateway: counted per loop by its own thread, summed by whoever asks.
 */
#include "gateway/http/gw.h"

#include <string.h>

#include "gateway/http/operation.h"

const char *gw_stage_name(enum gw_stage stage)
{
        static const char *const names[] = {
                [GW_STAGE_HEAD] = "head", [GW_STAGE_PARSE] = "parse", [GW_STAGE_AUTHENTICATE] = "authenticate",
                [GW_STAGE_LOOK] = "look", [GW_STAGE_BODY] = "body",   [GW_STAGE_WORK] = "work",
                [GW_STAGE_SEND] = "send",
        };

        return names[stage];
}

const char *gw_step_name(enum gw_step step)
{
        static const char *const names[] = {[GW_STEP_CHECKSUMS] = "checksums", [GW_STEP_CHUNKS] = "chunks"};

        return names[step];
}

const char *gw_entry_way_name(enum gw_entry_way way)
{
        return way == GW_ENTRY_HTTP ? "http" : "rdma";
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
        lp_times_add(&c->latency, ns);
}

static void add_op(struct gw_op_stats *sum, const struct gw_op_counters *c)
{
        for (unsigned i = 0; i < 6; i++)
                sum->by_status[i] += gw_counted(&c->by_status[i]);
        lp_times_sum(&c->latency, &sum->latency);
        sum->bytes_in += gw_counted(&c->bytes_in);
        sum->bytes_out += gw_counted(&c->bytes_out);
}

void gw_stats_read(const struct gw_gateway *gw, struct gw_stats *out)
{
        memset(out, 0, sizeof(*out));
        out->operations = gw_op_numbers(gw->service);
        for (unsigned i = 0; i < out->operations; i++)
                out->op[i].operation = gw_op_at(gw->service, i)->name;
        out->answer_memory_used = atomic_load_explicit(&gw->answer_memory, memory_order_relaxed);
        out->upload_memory_used = atomic_load_explicit(&gw->upload_memory, memory_order_relaxed);
        for (unsigned l = 0; l < gw->loop_count; l++) {
                const struct gw_loop_stats *s = &gw->loops[l].stats;

                out->connections_open += gw_counted(&s->connections_open);
                out->connections_total += gw_counted(&s->connections_total);
                out->connections_evicted += gw_counted(&s->connections_evicted);
                out->requests_active += gw_counted(&s->requests_active);
                out->changes_active += gw_counted(&s->changes_active);
                out->requests_total += gw_counted(&s->requests_total);
                for (unsigned i = 0; i < out->operations; i++)
                        add_op(&out->op[i], &s->op[i]);
                for (unsigned i = 0; i < GW_STAGES; i++)
                        lp_times_sum(&s->stage[i], &out->stage[i]);
                for (unsigned i = 0; i < GW_STEPS; i++)
                        lp_times_sum(&s->step[i], &out->step[i]);
                for (unsigned i = 0; i < GW_ENTRY_WAYS * GW_ENTRY_CODES; i++)
                        out->entries[i / GW_ENTRY_CODES][i % GW_ENTRY_CODES] +=
                                gw_counted(&s->entries[i / GW_ENTRY_CODES][i % GW_ENTRY_CODES]);
        }
}

unsigned gw_changing(const struct gw_gateway *gw)
{
        uint64_t changing = 0;

        for (unsigned l = 0; l < gw->loop_count; l++)
                changing += atomic_load(&gw->loops[l].stats.changes_active);
        return (unsigned)changing;
}

unsigned gw_active(const struct gw_gateway *gw)
{
        uint64_t active = 0;

        for (unsigned l = 0; l < gw->loop_count; l++)
                active += gw_counted(&gw->loops[l].stats.requests_active);
        return (unsigned)active;
}
