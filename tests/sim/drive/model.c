/*
 * model.c - see model.h.
 */
#include "tests/sim/drive/model.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"
#include "engine/drive/rec.h"
#include "tests/lib/body_fixture.h"
#include "tests/sim/sim.h"

struct model model;

/* ---- values ---------------------------------------------------------------------------------- */

unsigned value_new(enum value_kind kind, unsigned name)
{
        if (model.value_count == model.value_size) {
                model.value_size = 2 * model.value_size + 64;
                model.values = realloc(model.values, model.value_size * sizeof(*model.values));
                assert(model.values != NULL);
        }
        model.values[model.value_count] = (struct value){.kind = kind, .name = name};
        return model.value_count++;
}

static bool holds(unsigned outer, unsigned value)
{
        unsigned i;

        if (outer == value)
                return true;
        for (i = 0; i < model.values[outer].part_count; i++)
                if (model.values[outer].parts[i] == value)
                        return true;
        return false;
}

bool value_lives(unsigned value)
{
        const struct name *name;

        for (name = model.names; name < model.names + NAMES; name++)
                if (holds(name->now, value) || (name->locked && holds(name->next, value)))
                        return true;
        return false;
}

static uint64_t word_of(unsigned value, uint32_t stripe, size_t i)
{
        return ((uint64_t)value << 32 | stripe << 24 | i) * 0x9e3779b97f4a7c15ull;
}

void value_fill(unsigned value, uint32_t stripe, void *out, size_t len)
{
        uint8_t *to = out;
        uint64_t word;
        size_t at;

        for (at = 0; at + sizeof(word) <= len; at += sizeof(word)) {
                word = word_of(value, stripe, at);
                memcpy(to + at, &word, sizeof(word));
        }
        word = word_of(value, stripe, at);
        memcpy(to + at, &word, len - at);
}

bool value_is(unsigned value, uint32_t stripe, const void *bytes, size_t len)
{
        const uint8_t *from = bytes;
        uint64_t word, wrong = 0;
        size_t at;

        for (at = 0; at + sizeof(word) <= len; at += sizeof(word)) {
                memcpy(&word, from + at, sizeof(word));
                wrong |= word ^ word_of(value, stripe, at);
        }
        word = word_of(value, stripe, at);
        return wrong == 0 && memcmp(from + at, &word, len - at) == 0;
}

unsigned value_number(const uint8_t id[FMT_ID])
{
        return (unsigned)id[0] << 24 | (unsigned)id[1] << 16 | (unsigned)id[2] << 8 | id[3];
}

unsigned value_of(const struct eng_buf *found)
{
        struct fmt_value head;

        memcpy(&head, found->data, sizeof(head));
        return value_number(head.id);
}

static bool parts_match(const struct value *value, unsigned id, const struct eng_buf *found)
{
        struct eng_part part;
        uint8_t want[FMT_ID];
        unsigned i, n = value->kind == VALUE_JOINED ? value->part_count : 1;
        size_t pos = 0;

        for (i = 0; i < n; i++) {
                fx_id(want, value->kind == VALUE_JOINED ? value->parts[i] : id);
                if (eng_value_next_part(found->data, found->len, &pos, &part) != 1 ||
                    memcmp(part.head.id, want, FMT_ID) != 0)
                        return false;
        }
        return pos == found->len;
}

bool value_matches(unsigned id, int rv, const struct eng_buf *found, const struct eng_buf *bytes)
{
        const struct value *value = &model.values[id];

        if (id == 0)
                return rv == -ENOENT;
        if (rv != 0 || value_of(found) != id)
                return false;
        if (value->kind != VALUE_BYTES)
                return parts_match(value, id, found);
        if (value->len == 0)
                return bytes == NULL;
        return bytes != NULL && bytes->len == value->len && value_is(id, 0, bytes->data, value->len);
}

/* ---- names ----------------------------------------------------------------------------------- */

unsigned name_upload(unsigned slot)
{
        return KEYS + slot * (1 + PARTS);
}

unsigned name_part(unsigned slot, unsigned part)
{
        return name_upload(slot) + 1 + part;
}

void name_lock(unsigned at, unsigned next)
{
        struct name *name = &model.names[at];

        assert(!name->locked && !name->stale);
        name->locked = true;
        name->next = next;
        name->version++;
}

void name_unlock(unsigned at)
{
        sim_trace("unlock %u", at);
        model.names[at].locked = model.names[at].doubtful = false;
        model.names[at].next = 0;
        model.names[at].version++;
}

static void set_upload_name(struct name *name, enum fmt_space space, unsigned slot, unsigned part)
{
        char key[8] = {'k', 'e', 'y', '-', (char)('0' + slot)};
        uint8_t id[FMT_ID];

        name->upload = model.uploads;
        fx_id(id, model.uploads);
        name->len = (uint16_t)fx_name(name->bytes, key);
        name->bytes[0] = (uint8_t)space;
        memcpy(name->bytes + name->len, "\0\1", 2);
        memcpy(name->bytes + name->len + 2, id, FMT_ID);
        name->len = (uint16_t)(name->len + 2 + FMT_ID);
        if (space != FMT_SPACE_PART)
                return;
        name->bytes[name->len++] = 0;
        name->bytes[name->len++] = (uint8_t)(part + 1);
}

void name_new_upload(unsigned slot)
{
        unsigned i;

        model.uploads++;
        set_upload_name(&model.names[name_upload(slot)], FMT_SPACE_UPLOAD, slot, 0);
        for (i = 0; i < PARTS; i++)
                set_upload_name(&model.names[name_part(slot, i)], FMT_SPACE_PART, slot, i);
}

/* ---- records --------------------------------------------------------------------------------- */

struct group *group_of(uint32_t pg)
{
        return &model.groups[pg - 1];
}

struct record *record_new(uint32_t pg, uint16_t type, uint64_t epoch)
{
        struct record *rec = calloc(1, sizeof(*rec));

        assert(rec != NULL);
        rec->pg = pg;
        rec->type = type;
        rec->epoch = epoch;
        return rec;
}

void record_touch(struct record *rec, unsigned name, unsigned value)
{
        assert(rec->count < TOUCHES);
        rec->touch[rec->count].name = name;
        rec->touch[rec->count].value = value;
        rec->touch[rec->count++].upload = model.names[name].upload;
}

static void keep(struct group *group, struct record *rec)
{
        if (group->count == group->size) {
                group->size = 2 * group->size + 64;
                group->records = realloc(group->records, group->size * sizeof(*group->records));
                assert(group->records != NULL);
        }
        group->records[group->count++] = rec;
}

void record_number(struct record *rec, bool gap)
{
        struct group *group = group_of(rec->pg);
        unsigned i;

        if (rec->type != FMT_RECORD_COPY) {
                group->given += gap ? 2 : 1;
        } else {
                for (i = 0; i < rec->count; i++)
                        if (model.names[rec->touch[i].name].seq >= group->given)
                                group->given = model.names[rec->touch[i].name].seq + 1;
        }
        rec->seq = group->given;
        keep(group, rec);
}

static struct fx_body body;

static void encode_put(unsigned name_at, unsigned id, bool *has_bytes)
{
        static uint8_t bytes[ENG_INLINE_MAX];
        const struct name *name = &model.names[name_at];
        const struct value *value = &model.values[id];
        uint64_t parts[PARTS];
        size_t i;

        if (value->kind == VALUE_BYTES) {
                assert(!*has_bytes);
                value_fill(id, 0, bytes, value->len);
                fx_body_put(&body, name->bytes, name->len, id, name->pg, bytes, value->len);
                *has_bytes = value->len > 0;
                return;
        }
        parts[0] = id;
        for (i = 0; i < value->part_count; i++)
                parts[i] = value->parts[i];
        fx_body_put_parts(&body, name->bytes, name->len, id, parts, value->part_count > 0 ? value->part_count : 1,
                          name->pg);
}

static int by_number(const void *a, const void *b)
{
        const uint64_t *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

static void encode_end(const struct record *rec, unsigned slot)
{
        const struct name *name = &model.names[name_upload(slot)];
        const struct value *value = &model.values[rec->touch[0].value]; /* the object made of it, or none */
        uint64_t ids[PARTS];
        unsigned i;

        for (i = 0; i < value->part_count; i++)
                ids[i] = value->parts[i];
        qsort(ids, value->part_count, sizeof(ids[0]), by_number);
        fx_body_end_upload(&body, name->bytes, name->len, ids, value->part_count);
}

void record_encode(struct record *rec, unsigned upload)
{
        const struct name *name;
        bool has_bytes = false;
        unsigned i;

        body.len = body.inline_len = 0;
        for (i = 0; i < rec->count; i++) {
                name = &model.names[rec->touch[i].name];
                if (rec->touch[i].value != 0)
                        encode_put(rec->touch[i].name, rec->touch[i].value, &has_bytes);
                else if (upload == UPLOADS)
                        fx_body_delete(&body, name->bytes, name->len);
        }
        if (upload != UPLOADS)
                encode_end(rec, upload);
        rec->body = fx_body_buf(&body);
        rec->body_crc = era_crc32c(0, body.bytes, body.len);
        rec->inline_len = (uint32_t)body.inline_len;
}

void record_counts(struct record *rec)
{
        struct name *name;
        unsigned i;

        rec->state = RECORD_COUNTS;
        for (i = 0; i < rec->count; i++) {
                name = &model.names[rec->touch[i].name];
                name->now = rec->touch[i].value;
                name->seq = rec->seq;
        }
}

void record_unlock(struct record *rec)
{
        unsigned i;

        for (i = 0; i < rec->count && rec->locks; i++)
                name_unlock(rec->touch[i].name);
        rec->locks = false;
}

void record_lost(struct record *rec)
{
        unsigned i;

        rec->state = RECORD_LOST;
        for (i = 0; i < rec->count; i++) {
                if (rec->touch[i].value != 0 && rec->touch[i].value != model.names[rec->touch[i].name].now)
                        model.values[rec->touch[i].value].gone = true; /* not a copy of what is there */
        }
        record_unlock(rec);
}

uint64_t group_stable(const struct group *group)
{
        uint64_t upto = group->given;
        unsigned i;

        for (i = group->count; i-- > 0;)
                if (group->records[i]->state == RECORD_FLYING && group->records[i]->type != FMT_RECORD_COPY &&
                    group->records[i]->seq <= upto)
                        upto = group->records[i]->seq - 1;
        return upto;
}

uint64_t model_epoch(void)
{
        return model.epochs[model.epoch_count - 1 - model.epoch_flying].number;
}

static void was_written(const struct fmt_record *head)
{
        const struct group *group;
        unsigned i;

        if (head->pg == 0 || head->pg > GROUPS)
                return; /* of the drive's own */
        group = group_of(head->pg);
        for (i = group->count; i-- > 0;)
                if (group->records[i]->seq == head->seq && group->records[i]->type == head->type &&
                    !group->records[i]->written) {
                        group->records[i]->written = true;
                        group->records[i]->file = head->file;
                        group->records[i]->position = head->position;
                }
}

void model_written(const uint8_t *bytes, size_t len)
{
        struct fmt_record head;
        uint32_t magic;
        size_t at;

        memcpy(&magic, bytes, sizeof(magic));
        for (at = magic == FMT_LOG_MAGIC ? FMT_BLOCK : 0; at + sizeof(head) <= len; at += eng_rec_size(head.body_len)) {
                memcpy(&head, bytes + at, sizeof(head));
                if (head.magic != FMT_RECORD_MAGIC)
                        return; /* zeroes up to the end of the block */
                was_written(&head);
        }
}

/* Only COMMIT applies it, and none was sent. */
static bool waits(const struct record *rec)
{
        return rec->written && rec->type != FMT_RECORD_COPY &&
               (rec->state == RECORD_FLYING || (rec->state == RECORD_STABLE && rec->seq > group_of(rec->pg)->told));
}

void model_covered(uint64_t file, uint64_t position)
{
        const struct record *rec;
        unsigned g, i;

        for (g = 0; g < GROUPS; g++)
                for (i = 0; i < model.groups[g].count; i++) {
                        rec = model.groups[g].records[i];
                        if (waits(rec) && (rec->file < file || (rec->file == file && rec->position < position)))
                                sim_fail("the index is to cover record %u.%llu, which waits", rec->pg,
                                         (unsigned long long)rec->seq);
                }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void forget(void)
{
        unsigned g, i;

        for (g = 0; g < GROUPS; g++) {
                for (i = 0; i < model.groups[g].count; i++) {
                        eng_buf_unref(model.groups[g].records[i]->body);
                        free(model.groups[g].records[i]);
                }
                free(model.groups[g].records);
        }
        free(model.values);
        memset(&model, 0, sizeof(model));
}

void model_begin(void)
{
        char key[8] = "key-";
        unsigned i;

        forget();
        value_new(VALUE_BYTES, 0); /* 0: no value */
        for (i = 0; i < NAMES; i++)
                model.names[i].pg = 1 + (i < KEYS ? i % GROUPS : (i - KEYS) / (1 + PARTS) % GROUPS);
        for (i = 0; i < KEYS; i++) {
                key[4] = (char)('0' + i);
                model.names[i].len = (uint16_t)fx_name(model.names[i].bytes, key);
        }
        for (i = 0; i < UPLOADS; i++)
                name_new_upload(i);
}

/*
 * What the drive knows to be committed counts. What a record that may be there speaks of stays
 * locked until it is known.
 */
static void look_at_records(struct group *group, bool held[NAMES])
{
        struct record *rec;
        unsigned i, n;

        for (i = 0; i < group->count; i++) {
                rec = group->records[i];
                if (rec->state == RECORD_STABLE && rec->seq <= group->told)
                        record_counts(rec);
                if (rec->state == RECORD_COUNTS)
                        record_unlock(rec);
                if (rec->state != RECORD_FLYING && rec->state != RECORD_STABLE)
                        continue;
                for (n = 0; n < rec->count; n++) {
                        held[rec->touch[n].name] = true;
                        model.names[rec->touch[n].name].doubtful = rec->type == FMT_RECORD_COPY;
                }
        }
}

void model_life_ends(bool discards_kept)
{
        bool held[NAMES] = {false};
        struct name *name;
        unsigned i;

        for (i = 1; i < model.value_count && !discards_kept; i++)
                if (model.values[i].shards == SHARDS_DISCARDED)
                        model.values[i].shards = SHARDS_UNSURE;
        for (i = 0; i < GROUPS; i++)
                look_at_records(&model.groups[i], held);
        for (i = 0; i < NAMES; i++) {
                name = &model.names[i];
                if (!name->locked || held[i])
                        continue;
                if (name->next != name->now && name->next != 0)
                        model.values[name->next].gone = true; /* its record was not even asked for */
                name_unlock(i);
        }
}
