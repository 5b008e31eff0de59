/*
 * store_versions.h - versions of objects in a store of store_fixture.h: blocking calls, and what a
 * bucket's rules are. Test thread only.
 */
#ifndef MILLRACE_TESTS_STORE_VERSIONS_H
#define MILLRACE_TESTS_STORE_VERSIONS_H

#include "tests/lib/store_fixture.h"

/* From now on each loop sees these rules of the bucket. A store that is opened again has none. */
void sv_rules(struct sf *sf, uint64_t bucket, const struct eng_bucket_rules *rules);
/* The same for no more than a state. */
void sv_versioning(struct sf *sf, uint64_t bucket, enum eng_versioning state);

/* A small object under a key of any bytes; *out: the version that it is. */
int sv_put(struct sf *sf, uint64_t bucket, struct eng_str key, uint64_t seed, struct eng_version *out);
int sv_delete_with(struct sf *sf, const struct eng_delete_params *params, struct eng_deleted *out);
int sv_delete_key(struct sf *sf, uint64_t bucket, struct eng_str key, const struct eng_version *version,
                  struct eng_deleted *out);
/* version NULL: of the key's object. */
int sv_delete(struct sf *sf, uint64_t bucket, const char *key, const struct eng_version *version,
              struct eng_deleted *out);
int sv_extras(struct sf *sf, uint64_t bucket, const char *key, const struct eng_version *version,
              const struct eng_extras_change *change);

/* The row of an object, or of a version, of a drive that is not open. False: it has none. */
bool sv_object_row(const struct sf *sf, unsigned slot, uint64_t bucket, const char *key, struct sf_row *row);
bool sv_version_row(const struct sf *sf, unsigned slot, uint64_t bucket, const char *key, const struct eng_version *version,
                    struct sf_row *row);
/* Its index has lost this row. */
void sv_lose_row(const struct sf *sf, unsigned slot, const struct sf_row *row);

struct sv_entry {
        char key[ENG_KEY_MAX];
        size_t key_len;
        bool is_prefix, latest, marker;
        struct eng_version version;
        uint64_t seed; /* of what sf_put() has put */
        size_t beside; /* bytes of attrs and tags that came with it */
};
/* One page. out has room for params->max entries. */
int sv_list(struct sf *sf, const struct eng_list_params *params, const struct eng_version *after_version,
            struct sv_entry *out, unsigned *count, bool *more);

#endif
