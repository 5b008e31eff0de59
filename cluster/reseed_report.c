/*
 * reseed_report.c - what a node reports when etcd is not the one that it knows, as a value in etcd. Functions over
 * values; what is read is outside data.
 */
#include "cluster_reseed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "s3_checksum.h"
#include "s3_json.h"

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *hex_json(const void *bytes, size_t len)
{
        char text[2 * CL_SWITCHES_MAX + 1];

        s3_hex_encode(bytes, len, text);
        return json_string(text);
}

static json_t *number64_json(uint64_t value)
{
        char text[17];

        snprintf(text, sizeof(text), "%016llx", (unsigned long long)value);
        return json_string(text);
}

static json_t *term_json(const struct eng_term *term)
{
        return json_pack("[I,I,i,I]", (json_int_t)term->generation, (json_int_t)term->revision, (int)term->node, (json_int_t)term->boot);
}

static json_t *held_json(const struct cl_held *held)
{
        return json_pack("{s:o, s:o, s:i, s:I, s:o, s:o, s:b, s:s}", "drive", hex_json(held->drive, CL_ID), "store", hex_json(held->store, CL_ID), "slot", (int)held->slot,
                         "epoch", (json_int_t)held->epoch, "id", hex_json(held->epoch_id, CL_ID), "term", term_json(&held->term), "fenced", (int)held->fenced, "fault", held->fault);
}

static json_t *all_held_json(const struct cl_report *report)
{
        json_t *held = json_array();
        unsigned i;

        for (i = 0; i < report->held_count; i++)
                json_array_append_new(held, held_json(&report->held[i]));
        return held;
}

static json_t *past_json(const struct cl_report_epoch *epoch)
{
        json_t *past = json_array();
        unsigned i;

        for (i = 0; i < epoch->past_count; i++)
                json_array_append_new(past, json_pack("[I,o]", (json_int_t)epoch->past[i].number, hex_json(epoch->past[i].id, CL_ID)));
        return past;
}

static json_t *epoch_json(const struct cl_report_epoch *epoch)
{
        char text[CL_EPOCH_MAX / 3 * 4 + 8] = "";

        if (epoch->epoch_len > 0)
                s3_base64_encode(epoch->epoch, epoch->epoch_len, text);
        return json_string(text);
}

/* Of the second store on. */
static json_t *more_json(const struct cl_report *report)
{
        json_t *more = json_array();
        unsigned i;

        for (i = 1; i < report->epoch_count; i++)
                json_array_append_new(more, json_pack("{s:o, s:o, s:o}", "store", hex_json(report->epochs[i].store, CL_ID), "epoch", epoch_json(&report->epochs[i]), "past",
                                                      past_json(&report->epochs[i])));
        return more;
}

size_t cl_report_write(const struct cl_report *report, char out[CL_REPORT_MAX])
{
        json_t *object;
        size_t len;

        object = json_pack("{s:i, s:s, s:s, s:s, s:i, s:I, s:o, s:I, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "node", (int)report->node, "name", report->self.name,
                           "address", report->self.address, "s3", report->self.s3, "rack", (int)report->self.rack, "boot", (json_int_t)report->boot, "etcd",
                           number64_json(report->seen.cluster_id), "generation", (json_int_t)report->seen.generation.number, "random", number64_json(report->seen.generation.random),
                           "revision", (json_int_t)report->seen.revision, "fence", (json_int_t)report->fence.number, "fence_random", number64_json(report->fence.random),
                           "cluster_id", hex_json(report->cluster_id, report->has_cluster_id ? CL_ID : 0), "switches",
                           hex_json(report->switches, strnlen(report->switches, CL_SWITCHES_MAX - 1)), "held", all_held_json(report), "epoch", epoch_json(&report->epochs[0]), "past",
                           past_json(&report->epochs[0]));
        if (report->epoch_count > 1)
                json_object_set_new(object, "more", more_json(report));
        if (report->pools > 1)
                json_object_set_new(object, "pools", json_integer(report->pools));
        len = object == NULL ? 0 : json_dumpb(object, out, CL_REPORT_MAX, JSON_COMPACT);
        json_decref(object);
        return len <= CL_REPORT_MAX ? len : 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool report_number(const json_t *value, uint64_t most, uint64_t *out)
{
        json_int_t n = json_is_integer(value) ? json_integer_value(value) : -1;

        *out = (uint64_t)n;
        return n >= 0 && *out <= most;
}

static bool report_text(const json_t *object, const char *name, char *out, size_t size)
{
        const json_t *text = json_object_get(object, name);

        if (!json_is_string(text) || json_string_length(text) >= size || strlen(json_string_value(text)) != json_string_length(text))
                return false;
        memcpy(out, json_string_value(text), json_string_length(text) + 1);
        return true;
}

static bool report_hex(const json_t *text, uint8_t *out, size_t len)
{
        return json_is_string(text) && cl_hex_read(json_string_value(text), out, len);
}

static bool report_hex64(const json_t *object, const char *name, uint64_t *out)
{
        const char *text = json_string_value(json_object_get(object, name));

        return text != NULL && cl_hex64_read(text, out);
}

static bool read_term(const json_t *array, struct eng_term *out)
{
        uint64_t node = 0;

        if (json_array_size(array) != 4 || !report_number(json_array_get(array, 0), INT64_MAX, &out->generation) ||
            !report_number(json_array_get(array, 1), INT64_MAX, &out->revision) || !report_number(json_array_get(array, 2), UINT16_MAX, &node) ||
            !report_number(json_array_get(array, 3), INT64_MAX, &out->boot))
                return false;
        out->node = (uint16_t)node;
        return eng_term_is_sound(out);
}

static bool read_held(const json_t *object, struct cl_held *out)
{
        uint64_t slot = 0;

        if (!report_hex(json_object_get(object, "drive"), out->drive, CL_ID) || !report_hex(json_object_get(object, "store"), out->store, CL_ID) ||
            !report_number(json_object_get(object, "slot"), ENG_DRIVES_MAX - 1, &slot) || !report_number(json_object_get(object, "epoch"), INT64_MAX, &out->epoch) ||
            !report_hex(json_object_get(object, "id"), out->epoch_id, CL_ID) || !read_term(json_object_get(object, "term"), &out->term) ||
            !report_text(object, "fault", out->fault, sizeof(out->fault)))
                return false;
        out->slot = (unsigned)slot;
        out->fenced = json_is_true(json_object_get(object, "fenced"));
        return true;
}

static bool read_all_held(const json_t *array, struct cl_report *out)
{
        size_t i;

        if (!json_is_array(array) || json_array_size(array) > CL_DRIVES_MAX)
                return false;
        for (i = 0; i < json_array_size(array); i++)
                if (!read_held(json_array_get(array, i), &out->held[i]))
                        return false;
        out->held_count = (unsigned)i;
        return true;
}

static bool read_past(const json_t *array, struct cl_report_epoch *out)
{
        size_t i;

        if (!json_is_array(array) || json_array_size(array) > REM_PAST_MAX)
                return false;
        for (i = 0; i < json_array_size(array); i++) {
                const json_t *one = json_array_get(array, i);

                if (json_array_size(one) != 2 || !report_number(json_array_get(one, 0), INT64_MAX, &out->past[i].number) || !report_hex(json_array_get(one, 1), out->past[i].id, CL_ID))
                        return false;
        }
        out->past_count = (unsigned)i;
        return true;
}

/* "": none. */
static bool read_epoch(const json_t *text, struct cl_report_epoch *out)
{
        const char *s = json_is_string(text) ? json_string_value(text) : NULL;
        size_t n = s != NULL ? json_string_length(text) : 0;
        struct eng_epoch_info info;

        if (s == NULL || n % 4 != 0)
                return false;
        if (n == 0)
                return true;
        out->epoch_len = n / 4 * 3 - (s[n - 1] == '=') - (s[n - 2] == '=');
        return out->epoch_len <= sizeof(out->epoch) && s3_base64_decode((struct s3_str){s, n}, out->epoch, out->epoch_len) == 0 &&
               eng_epoch_read(out->epoch, out->epoch_len, &info) == 0;
}

/* The first store is that of the first drive, so there are no others without one; they come under "more". Optional: a build before had one store. */
static bool read_epochs(const json_t *object, struct cl_report *out)
{
        const json_t *more = json_object_get(object, "more");
        size_t i, count = json_array_size(more);

        out->epoch_count = out->held_count > 0 ? 1 : 0;
        if (out->held_count > 0)
                memcpy(out->epochs[0].store, out->held[0].store, CL_ID);
        if (!read_epoch(json_object_get(object, "epoch"), &out->epochs[0]) || !read_past(json_object_get(object, "past"), &out->epochs[0]) || count >= CL_POOLS_MAX ||
            (count > 0 && out->held_count == 0))
                return false;
        for (i = 0; i < count; i++) {
                const json_t *one = json_array_get(more, i);
                struct cl_report_epoch *epoch = &out->epochs[out->epoch_count++];

                if (!report_hex(json_object_get(one, "store"), epoch->store, CL_ID) || !read_epoch(json_object_get(one, "epoch"), epoch) || !read_past(json_object_get(one, "past"), epoch))
                        return false;
        }
        return true;
}

static bool read_variable_hex(const json_t *text, uint8_t *out, size_t room, size_t *len)
{
        if (!json_is_string(text))
                return false;
        *len = json_string_length(text) / 2;
        return *len <= room && report_hex(text, out, *len);
}

static bool report_take(const json_t *object, struct cl_report *out)
{
        const json_t *pools = json_object_get(object, "pools");
        uint64_t node, rack, revision, count = 0;
        size_t len;

        if (!report_number(json_object_get(object, "node"), CL_NODE_LAST, &node) || node == 0 || !report_number(json_object_get(object, "rack"), UINT16_MAX, &rack) ||
            !report_text(object, "name", out->self.name, sizeof(out->self.name)) || !cl_name_is_sound(out->self.name) ||
            !report_text(object, "address", out->self.address, sizeof(out->self.address)) || out->self.address[0] == '\0' ||
            !report_text(object, "s3", out->self.s3, sizeof(out->self.s3)) || !report_number(json_object_get(object, "boot"), ENG_BOOT_MAX, &out->boot))
                return false;
        if (!report_hex64(object, "etcd", &out->seen.cluster_id) || !report_number(json_object_get(object, "generation"), INT64_MAX, &out->seen.generation.number) ||
            !report_hex64(object, "random", &out->seen.generation.random) || !report_number(json_object_get(object, "revision"), INT64_MAX, &revision) ||
            !report_number(json_object_get(object, "fence"), INT64_MAX, &out->fence.number) || !report_hex64(object, "fence_random", &out->fence.random))
                return false;
        if (pools != NULL && !report_number(pools, CL_POOLS_MAX, &count))
                return false;
        out->pools = (unsigned)count;
        out->node = (uint16_t)node;
        out->self.rack = (uint16_t)rack;
        out->seen.revision = (int64_t)revision;
        if (!read_variable_hex(json_object_get(object, "cluster_id"), out->cluster_id, CL_ID, &len) || (len != 0 && len != CL_ID))
                return false;
        out->has_cluster_id = len != 0;
        return read_variable_hex(json_object_get(object, "switches"), (uint8_t *)out->switches, CL_SWITCHES_MAX - 1, &len) &&
               read_all_held(json_object_get(object, "held"), out) && read_epochs(object, out);
}

int cl_report_read(const void *value, size_t len, struct cl_report *out)
{
        json_t *object;
        int rv;

        memset(out, 0, sizeof(*out));
        if (len > CL_REPORT_MAX)
                return -EBADMSG;
        object = s3_json_load((struct s3_str){value, len}, JSON_REJECT_DUPLICATES, NULL);
        if (object == NULL)
                return errno == ENOMEM ? -ENOMEM : -EBADMSG;
        rv = json_is_object(object) && report_take(object, out) ? 0 : -EBADMSG;
        json_decref(object);
        return rv;
}

/* ---- making one ------------------------------------------------------------------------------ */

/* Of the newest TERM record of all its drives. */
static bool term_is_newest(const struct cl_report *report, const struct eng_term *term)
{
        unsigned i;

        for (i = 0; i < report->held_count; i++)
                if (eng_term_compare(&report->held[i].term, term) > 0)
                        return false;
        return !eng_term_is_none(term);
}

static void report_take_epoch(struct cl_report_epoch *epoch, const struct rem_known *known)
{
        unsigned i;

        memcpy(epoch->epoch, known->body, known->body_len);
        epoch->epoch_len = known->body_len;
        epoch->past_count = known->past_count;
        for (i = 0; i < known->past_count; i++) {
                epoch->past[i].number = known->past[i].number;
                memcpy(epoch->past[i].id, known->past[i].id, CL_ID);
        }
}

const struct cl_report_epoch *cl_report_epoch_of(const struct cl_report *report, const uint8_t store[CL_ID])
{
        unsigned i;

        for (i = 0; i < report->epoch_count; i++)
                if (memcmp(report->epochs[i].store, store, CL_ID) == 0)
                        return &report->epochs[i];
        return NULL;
}

/* Of a store that may be new. NULL: there are too many. */
static struct cl_report_epoch *report_epoch_at(struct cl_report *report, const uint8_t store[CL_ID])
{
        unsigned i;

        for (i = 0; i < report->epoch_count; i++)
                if (memcmp(report->epochs[i].store, store, CL_ID) == 0)
                        return &report->epochs[i];
        if (report->epoch_count == CL_POOLS_MAX)
                return NULL;
        memcpy(report->epochs[report->epoch_count].store, store, CL_ID);
        return &report->epochs[report->epoch_count++];
}

int cl_report_add(struct cl_report *report, const struct eng_identity *identity, const struct rem_known *known, bool fenced, const char *fault)
{
        struct cl_held *held = &report->held[report->held_count];
        struct cl_report_epoch *epoch = report->held_count == CL_DRIVES_MAX ? NULL : report_epoch_at(report, identity->store_id);
        struct eng_epoch_info newest = {0};

        if (epoch == NULL)
                return -ENOSPC;
        if (epoch->epoch_len > 0)
                eng_epoch_read(epoch->epoch, epoch->epoch_len, &newest);
        *held = (struct cl_held){.slot = identity->slot, .epoch = known->epoch, .term = known->term, .fenced = fenced};
        memcpy(held->drive, identity->drive_id, CL_ID);
        memcpy(held->store, identity->store_id, CL_ID);
        memcpy(held->epoch_id, known->epoch_id, CL_ID);
        snprintf(held->fault, sizeof(held->fault), "%s", fault);
        if (term_is_newest(report, &known->term)) {
                memcpy(report->cluster_id, known->cluster, CL_ID);
                report->has_cluster_id = true;
        }
        report->held_count++;
        if (known->epoch > newest.number)
                report_take_epoch(epoch, known);
        return 0;
}
