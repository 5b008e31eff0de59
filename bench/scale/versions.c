/*
 * versions.c - fills a stopped store of one drive with objects, versions and delete markers in bulk,
 * for bench/versions.py.
 *
 *   versions --drive FOLDER [--log-bytes B] KIND:PREFIX:KEYS:COUNT...
 *
 * KIND is objects, versions or markers: COUNT of them in KEYS keys, which are those of `load`
 * (PREFIX, then 12 digits). Objects go into the bucket of the store's plain object, the others into
 * that of its first version. Sets are given in the order of their prefixes. Nothing that is made
 * here can be read: its records stand in a log file that is all holes.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/scale/bulk.h"
#include "loop.h"

#define BODY_BYTES 64u
#define MTIME_MS   1700000000000 /* long ago: whatever days a rule has are over */

enum set_kind { SET_OBJECTS, SET_VERSIONS, SET_MARKERS };

struct set {
        enum set_kind kind;
        const char *prefix;
        uint64_t keys, count;
};

struct versions_run {
        struct bulk bulk;
        struct bulk_model plain, versioned;
};

static const char *const set_kinds[] = {
        [SET_OBJECTS] = "objects", [SET_VERSIONS] = "versions", [SET_MARKERS] = "markers"};

/* A key of a set, and the numbers of its versions: after + 1 to after + count. */
struct set_key {
        char text[256];
        size_t len;
        uint64_t bucket, after, count;
        uint32_t pg;
};

static void set_key(const struct set *set, uint64_t bucket, uint64_t i, struct set_key *out)
{
        out->len = (size_t)snprintf(out->text, sizeof(out->text), "%s%012llu", set->prefix, (unsigned long long)i);
        out->bucket = bucket;
        out->pg = eng_pg_of_key(BULK_PGS, bucket, out->text, out->len);
        out->count = set->count / set->keys + (i < set->count % set->keys);
}

/* What values of a set have in common. */
static struct eng_value_spec set_spec(const struct set *set, const struct bulk_model *model, const struct set_key *key,
                                      const uint8_t id[FMT_ID])
{
        static const uint8_t etag[16] = {1};
        struct eng_value_spec spec = {.space = FMT_SPACE_OBJECT, .pg = key->pg, .mtime_ms = MTIME_MS, .id = id};

        if (set->kind == SET_MARKERS) {
                spec.state = FMT_STATE_MARKER;
                return spec;
        }
        spec.size = BODY_BYTES;
        spec.etag = etag;
        spec.tag = model->tag;
        return spec;
}

/* It has bytes of its own. */
static void add_bytes(const struct set *set, const struct bulk_model *model, struct eng_value_spec *spec)
{
        if (set->kind == SET_MARKERS)
                return;
        spec->inline_value = true;
        spec->inline_len = BODY_BYTES;
        spec->attrs = model->attrs;
        spec->attrs_len = model->attrs_len;
}

static void put_spec(struct versions_run *run, const struct eng_name *name, const struct eng_value_spec *spec,
                     uint64_t seq)
{
        struct eng_buf *value = eng_value_new(spec);

        if (value == NULL)
                bulk_fail(ENOMEM, "a value");
        bulk_hollow_name(&run->bulk, name, value, seq, seq);
}

static void put_plain(struct versions_run *run, const struct set *set, const struct set_key *key)
{
        uint8_t id[FMT_ID];
        struct eng_value_spec spec = set_spec(set, &run->plain, key, id);
        struct eng_name name;

        bulk_next_id(&run->bulk, id);
        add_bytes(set, &run->plain, &spec);
        eng_name_object(&name, key->bucket, key->text, key->len);
        put_spec(run, &name, &spec, ++run->bulk.seq[key->pg]);
}

/* As eng_version_head() has it. */
static void put_head(struct versions_run *run, const struct set *set, const struct set_key *key)
{
        uint8_t id[FMT_ID], bytes[sizeof(struct fmt_field) + sizeof(struct fmt_head)];
        struct fmt_head head = {.newest = key->after + key->count};
        struct eng_fields fields = {.data = bytes, .size = sizeof(bytes)};
        struct eng_value_spec spec = set_spec(set, &run->versioned, key, id);
        struct eng_name name;

        bulk_next_id(&run->bulk, id);
        eng_fields_add(&fields, FMT_FIELD_HEAD, &head, sizeof(head));
        spec.state |= FMT_STATE_HEAD;
        spec.fields = bytes;
        spec.fields_len = fields.len;
        eng_name_object(&name, key->bucket, key->text, key->len);
        put_spec(run, &name, &spec, head.newest);
}

static void put_version(struct versions_run *run, const struct set *set, const struct set_key *key, uint64_t number)
{
        uint8_t id[FMT_ID], bytes[sizeof(struct fmt_field) + ENG_VERSION_RANDOM], random[ENG_VERSION_RANDOM];
        struct eng_fields fields = {.data = bytes, .size = sizeof(bytes)};
        struct eng_value_spec spec = set_spec(set, &run->versioned, key, id);
        struct eng_name name;

        bulk_next_id(&run->bulk, id);
        lp_random(random, sizeof(random));
        eng_fields_add(&fields, FMT_FIELD_VERSION, random, sizeof(random));
        spec.space = FMT_SPACE_VERSION;
        spec.fields = bytes;
        spec.fields_len = fields.len;
        add_bytes(set, &run->versioned, &spec);
        eng_name_version(&name, key->bucket, key->text, key->len, number);
        put_spec(run, &name, &spec, number);
}

/* Heads of all keys, then their versions, newest first: both in the order of their names. */
static void make_versions(struct versions_run *run, const struct set *set)
{
        uint64_t *after = malloc(set->keys * sizeof(*after)), i, n;
        struct set_key key;

        if (after == NULL)
                bulk_fail(ENOMEM, "numbers");
        for (i = 0; i < set->keys; i++) {
                set_key(set, run->versioned.bucket, i, &key);
                after[i] = key.after = run->bulk.seq[key.pg];
                run->bulk.seq[key.pg] += key.count;
                put_head(run, set, &key);
        }
        for (i = 0; i < set->keys; i++) {
                set_key(set, run->versioned.bucket, i, &key);
                key.after = after[i];
                for (n = key.count; n > 0; n--)
                        put_version(run, set, &key, key.after + n);
        }
        free(after);
}

static void make_set(struct versions_run *run, const struct set *set)
{
        struct set_key key;
        uint64_t i;

        if (set->kind != SET_OBJECTS) {
                make_versions(run, set);
                return;
        }
        for (i = 0; i < set->keys; i++) {
                set_key(set, run->plain.bucket, i, &key);
                put_plain(run, set, &key);
        }
}

/* ---- the whole ------------------------------------------------------------------------------- */

_Noreturn static void usage(void)
{
        fprintf(stderr, "versions: --drive FOLDER [--log-bytes B] KIND:PREFIX:KEYS:COUNT...; COUNT of objects is "
                        "KEYS, of the others no less\n");
        exit(2);
}

/* Of text, which it takes apart. */
static void take_set(char *text, struct set *out)
{
        char *kind = strtok(text, ":"), *prefix = strtok(NULL, ":"), *keys = strtok(NULL, ":"),
             *count = strtok(NULL, ":");
        unsigned i;

        if (count == NULL || strlen(prefix) > 200)
                usage();
        for (i = 0; i < sizeof(set_kinds) / sizeof(set_kinds[0]) && strcmp(kind, set_kinds[i]) != 0; i++)
                ;
        *out = (struct set){i, prefix, strtoull(keys, NULL, 0), strtoull(count, NULL, 0)};
        if (i == sizeof(set_kinds) / sizeof(set_kinds[0]) || out->keys == 0 || out->count < out->keys ||
            (out->kind == SET_OBJECTS && out->count != out->keys))
                usage();
}

int main(int argc, char **argv)
{
        static const struct option names[] = {{"drive", 1, NULL, 'd'}, {"log-bytes", 1, NULL, 'l'}, {0}};
        struct versions_run *run = calloc(1, sizeof(*run));
        uint64_t log_bytes = 64u << 20;
        const char *drive = NULL;
        struct set *sets;
        int c, i, count;

        while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
                if (c == 'd')
                        drive = optarg;
                else if (c == 'l')
                        log_bytes = strtoull(optarg, NULL, 0);
                else
                        usage();
        }
        count = argc - optind;
        if (drive == NULL || count == 0)
                usage();
        sets = calloc((size_t)count, sizeof(*sets));
        if (run == NULL || sets == NULL)
                bulk_fail(ENOMEM, "versions");
        for (i = 0; i < count; i++)
                take_set(argv[optind + i], &sets[i]);
        bulk_open(&run->bulk, drive, log_bytes);
        bulk_learn(&run->bulk, FMT_SPACE_OBJECT, &run->plain);
        bulk_learn(&run->bulk, FMT_SPACE_VERSION, &run->versioned);
        for (i = 0; i < count; i++)
                make_set(run, &sets[i]);
        bulk_close(&run->bulk);
        free(sets);
        free(run);
        return 0;
}
