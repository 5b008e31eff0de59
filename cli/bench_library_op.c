/*
 * bench_library_op.c - operations of `millrace bench --transport`: what is asked of libmillrace,
 * whether what came of it is right, and what it counts as. Main thread; called by bench_library.c.
 */
#include "bench_library.h"

#include <errno.h>
#include <string.h>

#include "load_content.h"

#define RIGHT LOAD_FAILURE_COUNT /* no failure */

/* ---- what is asked for ----------------------------------------------------------------------- */

static uint64_t library_op_offset(const struct bench_flight *flight, const struct bench_slot *slot, unsigned entry)
{
        return slot->number * flight->place + entry * flight->len;
}

/* One object of the slot's operation. */
static void library_op_choose(const struct bench_flight *flight, const struct bench_slot *slot, unsigned entry,
                              struct load_choice *out)
{
        load_choose(flight->settings, slot->index * flight->batch + entry, out);
}

static int start_put(struct bench_flight *flight, struct bench_slot *slot, const struct load_choice *choice)
{
        const struct load_settings *o = flight->settings;
        struct bench_library *library = flight->library;
        struct mr_put put = {
                .bucket = o->bucket,
                .key = flight->names[0],
                .place = {.buffer = library->buffer,
                          .offset = library->places_len + load_content_at(choice->key, 0),
                          .len = o->size},
        };

        load_key_name(o, choice->key, flight->names[0], BENCH_NAME_SIZE);
        return mr_put_start(library->client, &put, flight->queue, slot, NULL);
}

static void make_get(struct bench_flight *flight, const struct bench_slot *slot, unsigned entry,
                     const struct load_choice *choice)
{
        const struct load_settings *o = flight->settings;
        uint64_t place = library_op_offset(flight, slot, entry);
        bool range = o->phase == LOAD_RANGE;

        load_key_name(o, choice->key, flight->names[entry], BENCH_NAME_SIZE);
        flight->gets[entry] = (struct mr_get){
                .bucket = o->bucket,
                .key = flight->names[entry],
                .offset = choice->from,
                .len = range ? o->range_size : 0, /* all: an object that is longer does not fit */
                .place = {.buffer = flight->library->buffer, .offset = place, .len = flight->len},
        };
        if (o->verify) /* what was there before could be right */
                memset(flight->library->memory + place, 0, flight->len);
}

int bench_op_start(struct bench_flight *flight, struct bench_slot *slot)
{
        struct mr_client *client = flight->library->client;
        struct mr_batch batch = {.gets = flight->gets, .count = flight->batch, .got = slot->got};
        struct load_choice choice;

        library_op_choose(flight, slot, 0, &choice);
        slot->op = choice.op;
        if (slot->op == LOAD_PUT)
                return start_put(flight, slot, &choice);
        make_get(flight, slot, 0, &choice);
        if (!flight->batched)
                return mr_get_start(client, flight->gets, flight->queue, slot, NULL);
        for (unsigned i = 1; i < flight->batch; i++) {
                library_op_choose(flight, slot, i, &choice);
                make_get(flight, slot, i, &choice);
        }
        return mr_get_batch_start(client, &batch, flight->queue, slot, NULL);
}

/* ---- what came of it ------------------------------------------------------------------------- */

static enum load_failure library_op_kind(int code)
{
        switch (code) {
        case -ECONNREFUSED:
        case -EOPNOTSUPP: /* no session */
                return LOAD_FAIL_CONNECT;
        case -EIO:
                return LOAD_FAIL_CLOSED;
        case -ETIMEDOUT:
                return LOAD_FAIL_TIMEOUT;
        case -EBUSY:
                return LOAD_FAIL_REFUSED;
        case -EMSGSIZE:
        case -ERANGE:
                return LOAD_FAIL_LENGTH;
        case -EBADMSG:
                return LOAD_FAIL_CONTENT;
        case -ENOENT:
        case -EACCES:
        case -EEXIST:
        case -ENOSPC:
        case -EREMOTEIO:
                return LOAD_FAIL_STATUS;
        default:
                return LOAD_FAIL_PROTOCOL;
        }
}

static void library_op_fail(struct bench_flight *flight, uint64_t key, enum load_failure kind, const char *why)
{
        const struct load_watch *watch = flight->watch;
        char line[700];

        flight->result->failures[kind]++;
        flight->result->failed++;
        if (flight->told == LOAD_FAILURES_TOLD || watch->line == NULL)
                return;
        flight->told++;
        snprintf(line, sizeof(line), "%s of key %llu: %s: %s", load_phase_name(flight->settings->phase),
                 (unsigned long long)key, load_failure_name(kind), why);
        watch->line(watch->arg, line);
}

void bench_op_failed(struct bench_flight *flight, struct bench_slot *slot, int rv)
{
        struct load_choice choice;

        library_op_choose(flight, slot, 0, &choice);
        library_op_fail(flight, choice.key, library_op_kind(rv), strerror(-rv));
}

static void count_object(struct bench_flight *flight, const struct bench_slot *slot, enum mr_transport transport)
{
        enum mr_transport asked = flight->library->asked;
        bool preferred = slot->op == LOAD_PUT ? flight->put_prefers_rdma : flight->get_prefers_rdma;

        if (transport == MR_TRANSPORT_RDMA) {
                flight->carried->rdma++;
                return;
        }
        flight->carried->tcp++;
        flight->carried->fallbacks += asked == MR_TRANSPORT_RDMA || (asked == MR_TRANSPORT_AUTO && preferred);
}

/*
 * Of one object; as it is told in got, whose code is 0 or a failure. RIGHT, or what is wrong, and
 * why in words.
 */
static enum load_failure library_op_judge(struct bench_flight *flight, const struct bench_slot *slot, unsigned entry,
                                          const struct mr_got *got, const struct load_choice *choice, char *why,
                                          size_t why_size)
{
        const struct load_settings *o = flight->settings;
        uint64_t wanted = slot->op == LOAD_PUT ? o->size : flight->len;

        if (got->code != 0) {
                snprintf(why, why_size, "%s%s%s%s", got->error.message, got->error.s3_code[0] != '\0' ? " (" : "",
                         got->error.s3_code, got->error.s3_code[0] != '\0' ? ")" : "");
                return library_op_kind(got->code);
        }
        if (got->bytes != wanted || got->size != o->size) {
                snprintf(why, why_size, "%llu bytes of %llu", (unsigned long long)got->bytes,
                         (unsigned long long)got->size);
                return LOAD_FAIL_LENGTH;
        }
        if (o->verify && slot->op != LOAD_PUT &&
            load_content_check(flight->library->pattern, choice->key, choice->from,
                               flight->library->memory + library_op_offset(flight, slot, entry), flight->len) != 0) {
                snprintf(why, why_size, "other bytes");
                return LOAD_FAIL_CONTENT;
        }
        count_object(flight, slot, got->transport);
        return RIGHT;
}

static void library_op_succeed(struct bench_flight *flight, const struct bench_slot *slot, uint64_t now_ns)
{
        struct load_result *result = flight->result;

        load_stats_add(&result->stats, now_ns - slot->since_ns);
        if (flight->settings->phase == LOAD_MIXED)
                load_stats_add(&result->mixed[slot->op == LOAD_PUT], now_ns - slot->since_ns);
        result->bytes += flight->len * flight->batch;
        result->entries += flight->batched ? flight->batch : 0;
}

void bench_op_end(struct bench_flight *flight, struct bench_slot *slot, const struct mr_result *result, uint64_t now_ns)
{
        bool by_itself =
                !flight->batched || (result->code != 0 && result->failed == 0); /* or the batch was never begun */
        struct mr_got whole = {.code = result->code,
                               .transport = result->transport,
                               .bytes = result->bytes,
                               .size = result->object.size,
                               .error = result->error};
        enum load_failure kind = RIGHT;
        struct load_choice wrong = {0};
        char why[600] = "";

        for (unsigned i = 0; i < (by_itself ? 1 : flight->batch); i++) {
                const struct mr_got *got = by_itself ? &whole : &slot->got[i];
                struct load_choice choice;
                enum load_failure found;
                char words[sizeof(why)];

                if (got->code == -ECANCELED) {
                        flight->over = true;
                        return;
                }
                library_op_choose(flight, slot, i, &choice);
                found = library_op_judge(flight, slot, i, got, &choice, words, sizeof(words));
                if (found == RIGHT || kind != RIGHT)
                        continue;
                kind = found;
                wrong = choice;
                memcpy(why, words, sizeof(why));
        }
        if (kind == RIGHT)
                library_op_succeed(flight, slot, now_ns);
        else
                library_op_fail(flight, wrong.key, kind, why);
}
