/*
 * inventory_report.c - one inventory report: pages of the bucket become rows, rows data files, and
 * manifests name these. Rules N4 to N8 of docs/design/inventory.md.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ec.h"
#include "gateway/http/version_text.h"
#include "gateway/rights/owners.h"
#include "gateway/rights/rights.h"
#include "gateway/s3/inventory_pass.h"
#include "gateway/s3/meta.h"

#define INVENTORY_SERVICE "s3.amazonaws.com"
#define INVENTORY_VERSION "2016-11-30"
#define TRIES             5u
#define TRY_NS            2000000000ull
#define FILES_FIRST       64u

static void inventory_page(struct gw_inventory *run);

/* ---- names ----------------------------------------------------------------------------------- */

/* "prefix/bucket/ID/" and what is said, in own_name. False: it is longer than a key. */
static __attribute__((format(printf, 2, 3))) bool inventory_name(struct gw_inventory *run, const char *format, ...)
{
        const struct s3_inventory *inv = &run->inventory;
        int head = snprintf(run->own_name, sizeof(run->own_name), "%.*s%s%s/%.*s/", (int)inv->to_prefix.len,
                            inv->to_prefix.len > 0 ? inv->to_prefix.data : "", inv->to_prefix.len > 0 ? "/" : "", run->name,
                            (int)inv->id.len, inv->id.data);
        va_list args;
        int tail;

        if (head < 0 || (size_t)head >= sizeof(run->own_name))
                return false;
        va_start(args, format);
        tail = vsnprintf(run->own_name + head, sizeof(run->own_name) - (size_t)head, format, args);
        va_end(args);
        return tail >= 0 && (size_t)head + (size_t)tail <= ENG_KEY_MAX;
}

static struct tm inventory_date(const struct gw_inventory *run)
{
        time_t seconds = (time_t)(run->period_ms / 1000);
        struct tm date = {0};

        gmtime_r(&seconds, &date);
        return date;
}

static bool inventory_dated(struct gw_inventory *run, const char *what)
{
        struct tm at = inventory_date(run);

        return inventory_name(run, "%04d-%02d-%02dT%02d-%02dZ/%s", at.tm_year + 1900, at.tm_mon + 1, at.tm_mday, at.tm_hour,
                              at.tm_min, what);
}

/* The same for the same report: N4. */
static bool inventory_data_name(struct gw_inventory *run, unsigned number)
{
        uint8_t digest[ERA_DIGEST_MAX];
        char text[256], hex[33];
        int len = snprintf(text, sizeof(text), "inventory %" PRIu64 " %.*s %" PRId64 " %u", run->bucket,
                           (int)run->inventory.id.len, run->inventory.id.data, run->period_ms, number);

        era_digest_of(ERA_SHA256, text, (size_t)len, digest);
        s3_hex_encode(digest, 16, hex);
        return inventory_name(run, "data/%.8s-%.4s-%.4s-%.4s-%.12s.%s", hex, hex + 8, hex + 12, hex + 16, hex + 20,
                              gw_inventory_file_suffix(run));
}

bool gw_inventory_mark(struct gw_inventory *run)
{
        return inventory_dated(run, "manifest.checksum");
}

/* Another account may have made a bucket of that name since. Where the configuration names the owner, no report goes there (N9). */
static bool inventory_owner_fits(const struct gw_inventory *run, const struct eng_bucket *destination)
{
        char account[GW_ACCOUNT_ID_LEN + 1];

        gw_bucket_account(destination, account);
        return run->inventory.account.len == 0 || s3_str_eq(run->inventory.account, s3_str_of(account));
}

bool gw_inventory_permitted(struct gw_inventory *run)
{
        const struct eng_bucket *bucket;

        return eng_bucket_get(run->gw->store, gw_eng_str(run->inventory.bucket), &bucket) == 0 &&
               bucket->id == run->destination && inventory_owner_fits(run, bucket) &&
               gw_rights_service(run->gw_loop, INVENTORY_SERVICE, bucket, s3_str_of(run->own_name), s3_str_of(run->name));
}

/* ---- writing --------------------------------------------------------------------------------- */

static void inventory_gives_up(struct gw_inventory *run)
{
        atomic_fetch_add(&run->failed, 1);
        gw_inventory_next(run);
}

static void inventory_written(void *arg, int rv)
{
        struct gw_inventory *run = GW_CAST(gw_inventory, arg);

        run->writing = false;
        if (!gw_inventory_back(run))
                return;
        free(run->content);
        run->content = NULL;
        if (rv == 0)
                run->after_write(run);
        else
                inventory_gives_up(run);
}

/* The object in own_name. */
static void inventory_write(struct gw_inventory *run, const char *type, const char *data, size_t len,
                            void (*then)(struct gw_inventory *run))
{
        if (!gw_inventory_may(run)) {
                gw_inventory_pass_ends(run);
                return;
        }
        if (!gw_inventory_permitted(run)) {
                atomic_fetch_add(&run->refused, 1);
                gw_inventory_next(run);
                return;
        }
        run->own = (struct gw_own){.loop = run->gw_loop,
                                  .store = run->gw->store,
                                   .bucket = run->destination,
                                   .key = s3_str_of(run->own_name),
                                   .type = type,
                                   .data = data,
                                   .len = len,
                                   .done = inventory_written,
                                   .arg = run};
        run->after_write = then;
        run->writing = true;
        run->under_way++;
        if (gw_own_write(&run->own) == 0)
                return;
        run->under_way--;
        run->writing = false;
        inventory_gives_up(run);
}

/* The same of a text that is freed when it is written. NULL: no memory. */
static void inventory_write_text(struct gw_inventory *run, const char *type, char *text, void (*then)(struct gw_inventory *run))
{
        run->content = text;
        if (text != NULL)
                inventory_write(run, type, text, strlen(text), then);
        else
                inventory_gives_up(run);
}

/* ---- manifests ------------------------------------------------------------------------------- */

static void inventory_done(struct gw_inventory *run)
{
        atomic_fetch_add(&run->reports, 1);
        gw_inventory_next(run);
}

static void inventory_checksum(struct gw_inventory *run)
{
        char *text = malloc(33);

        if (text != NULL)
                s3_hex_encode(run->own.md5, 16, text);
        if (gw_inventory_mark(run)) {
                inventory_write_text(run, "text/plain", text, inventory_done);
        } else {
                free(text);
                inventory_gives_up(run);
        }
}

static json_t *inventory_file_json(struct gw_inventory *run, unsigned number)
{
        char md5[33];

        s3_hex_encode(run->files[number].md5, 16, md5);
        if (!inventory_data_name(run, number))
                return NULL;
        return json_pack("{s:s, s:I, s:s}", "key", run->own_name, "size", (json_int_t)run->files[number].size, "MD5checksum", md5);
}

static char *inventory_manifest_text(struct gw_inventory *run)
{
        char schema[S3_INVENTORY_SCHEMA_SIZE], arn[64 + ENG_BUCKET_NAME_MAX], began[24], *text = NULL;
        json_t *files = json_array(), *root;

        s3_inventory_file_schema(&run->inventory, schema);
        snprintf(arn, sizeof(arn), "arn:aws:s3:::%.*s", (int)run->inventory.bucket.len, run->inventory.bucket.data);
        snprintf(began, sizeof(began), "%" PRId64, run->began_ms);
        for (unsigned i = 0; i < run->file_count; i++)
                if (json_array_append_new(files, inventory_file_json(run, i)) != 0) {
                        json_decref(files);
                        return NULL;
                }
        root = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "sourceBucket", run->name, "destinationBucket", arn, "version",
                         INVENTORY_VERSION, "creationTimestamp", began, "fileFormat",
                         run->inventory.parquet ? "Parquet" : "CSV", "fileSchema", schema, "files", files);
        if (root != NULL)
                text = json_dumps(root, JSON_INDENT(2));
        json_decref(root);
        return text;
}

static void inventory_manifest(struct gw_inventory *run)
{
        char *text = inventory_manifest_text(run);

        if (text != NULL && inventory_dated(run, "manifest.json")) {
                inventory_write_text(run, "application/json", text, inventory_checksum);
        } else {
                free(text);
                inventory_gives_up(run);
        }
}

/* The data files as Hive reads their names. */
static char *inventory_symlink_text(struct gw_inventory *run)
{
        size_t room = (size_t)run->file_count * (ENG_KEY_MAX + ENG_BUCKET_NAME_MAX + 8) + 1;
        char *text = malloc(room), *p = text;

        if (text == NULL)
                return NULL;
        *p = '\0';
        for (unsigned i = 0; i < run->file_count && inventory_data_name(run, i); i++)
                p += sprintf(p, "s3://%.*s/%s\n", (int)run->inventory.bucket.len, run->inventory.bucket.data, run->own_name);
        return text;
}

static void inventory_symlink(struct gw_inventory *run)
{
        struct tm at = inventory_date(run);
        char *text = inventory_symlink_text(run);

        if (text != NULL && inventory_name(run, "hive/dt=%04d-%02d-%02d-%02d-%02d/symlink.txt", at.tm_year + 1900, at.tm_mon + 1,
                                           at.tm_mday, at.tm_hour, at.tm_min)) {
                inventory_write_text(run, "text/plain", text, inventory_manifest);
        } else {
                free(text);
                inventory_gives_up(run);
        }
}

/* ---- data files ------------------------------------------------------------------------------ */

/* Room for one more file in the manifest. */
static bool inventory_list_room(struct gw_inventory *run)
{
        unsigned room = run->file_room == 0 ? FILES_FIRST : 2 * run->file_room;
        struct inventory_file *grown;

        if (run->file_count < run->file_room)
                return true;
        grown = run->file_count < INVENTORY_FILES_MAX ? realloc(run->files, room * sizeof(*grown)) : NULL;
        if (grown == NULL)
                return false;
        run->files = grown;
        run->file_room = room;
        return true;
}

static void inventory_file_written(struct gw_inventory *run)
{
        struct inventory_file *file = &run->files[run->file_count++];

        file->size = run->own.len;
        memcpy(file->md5, run->own.md5, sizeof(file->md5));
        gw_inventory_file_begin(run);
        gw_inventory_rest_a_page(run, run->more ? inventory_page : inventory_symlink);
}

static void inventory_file_ends(struct gw_inventory *run)
{
        if (gw_inventory_file_end(run) && inventory_list_room(run) && inventory_data_name(run, run->file_count))
                inventory_write(run, gw_inventory_file_type(run), run->buffer, gw_inventory_file_len(run),
                                inventory_file_written);
        else
                inventory_gives_up(run);
}

/* ---- pages ----------------------------------------------------------------------------------- */

static bool inventory_add(struct gw_inventory *run, struct eng_str key, const struct eng_object *object, bool latest)
{
        char version[S3_VERSION_TEXT], etag[S3_ETAG_SIZE];
        struct s3_inventory_row row = {.bucket = s3_str_of(run->name),
                                       .key = gw_s3_str(key),
                                       .latest = latest,
                                       .marker = object->marker,
                                       .multipart = object->etag_parts != 0,
                                       .hold = object->hold,
                                       .size = object->size,
                                       .mtime_ms = object->mtime_ms,
                                       .retain_until_ms = object->retention.until_ms,
                                       .owner = gw_canonical_id_of_bucket(run->gw_loop, s3_str_of(run->name))};
        struct gw_tag tag;

        gw_tag_read(object->tag, &tag);
        row.storage = s3_str_of(gw_storage_name(tag.storage));
        if (tag.has_checksum)
                row.checksum = s3_str_of(s3_checksum_info(tag.kind)->algorithm);
        if (object->retention.mode != ENG_RETENTION_NONE)
                row.lock_mode = object->retention.mode == ENG_RETENTION_GOVERNANCE ? S3_STR("GOVERNANCE") : S3_STR("COMPLIANCE");
        row.version_id = (struct s3_str){version, gw_version_text(&object->version, version)};
        row.etag = (struct s3_str){etag, s3_etag_format(object->etag, object->etag_parts, etag)};
        if (row.etag.len >= 2 && row.etag.data[0] == '"') /* columns have quotes of their own */
                row.etag = (struct s3_str){row.etag.data + 1, row.etag.len - 2};
        return gw_inventory_file_add(run, &row);
}

static void inventory_page_failed(struct gw_inventory *run, int rv)
{
        if (rv != -EIDRM && rv != -ENOENT && ++run->tries < TRIES)
                gw_inventory_rest(run, TRY_NS << run->tries, inventory_page);
        else
                inventory_gives_up(run);
}

/* True: its entries are to be taken. */
static bool inventory_page_came(struct gw_inventory *run, int rv, bool more)
{
        if (!gw_inventory_back(run))
                return false;
        if (rv != 0) {
                inventory_page_failed(run, rv);
                return false;
        }
        run->tries = 0;
        run->more = more;
        return true;
}

static void inventory_behind(struct gw_inventory *run, struct eng_str key)
{
        memcpy(run->key, key.data, key.len);
        run->key_len = key.len;
}

static void inventory_page_taken(struct gw_inventory *run, unsigned count, bool fine)
{
        atomic_fetch_add(&run->listed, count);
        if (!fine)
                inventory_gives_up(run);
        else if (run->rows > 0 && (!run->more || gw_inventory_file_len(run) >= INVENTORY_FILE_BYTES))
                inventory_file_ends(run);
        else
                gw_inventory_rest_a_page(run, run->more ? inventory_page : inventory_symlink);
}

/* ---- locks ----------------------------------------------------------------------------------- */

static void inventory_look(struct gw_inventory *run);

static struct eng_str inventory_entry_key(const struct gw_inventory *run)
{
        return (struct eng_str){run->keys + run->entries[run->entry].key_at, run->entries[run->entry].key_len};
}

/* What has gone since it was listed is in the report as it was. */
static void inventory_entry_found(void *arg, int rv, struct eng_get *get)
{
        struct gw_inventory *run = GW_CAST(gw_inventory, arg);
        struct eng_retention retention = {.mode = ENG_RETENTION_NONE};
        struct inventory_entry *entry;
        bool hold = false;

        if (rv == 0) {
                retention = eng_get_object(get)->retention;
                hold = eng_get_object(get)->hold;
                eng_get_close(get);
        }
        if (!gw_inventory_back(run))
                return;
        run->awaited = false;
        entry = &run->entries[run->entry];
        entry->object.retention = retention;
        entry->object.hold = hold;
        if (rv != 0 && rv != -ENOENT) {
                inventory_gives_up(run);
        } else if (!inventory_add(run, inventory_entry_key(run), &entry->object, entry->latest)) {
                inventory_gives_up(run);
        } else {
                run->entry++;
                inventory_look(run);
        }
}

/* One after the other; those that come back at once are gone on with by the outermost call. */
static void inventory_look(struct gw_inventory *run)
{
        if (run->looking)
                return;
        run->looking = true;
        while (run->entries != NULL && !run->awaited && run->entry < run->entry_count) {
                struct inventory_entry *entry = &run->entries[run->entry];

                run->awaited = true;
                run->under_way++;
                eng_get_metadata(run->gw->store, run->bucket, inventory_entry_key(run),
                                 run->inventory.all_versions ? &entry->object.version : NULL, inventory_entry_found, run);
        }
        run->looking = false;
        if (run->entries != NULL && !run->awaited)
                inventory_page_taken(run, run->entry_count, true);
}

/* Takes a listed object. False: there is no room for its row. */
static bool inventory_listed(struct gw_inventory *run, struct eng_str key, const struct eng_object *object, bool latest)
{
        struct inventory_entry *entry;

        if (run->entries == NULL)
                return inventory_add(run, key, object, latest);
        assert(run->entry_count < INVENTORY_PAGE && key.len <= ENG_KEY_MAX);
        entry = &run->entries[run->entry_count++];
        *entry = (struct inventory_entry){.object = *object, .latest = latest, .key_at = run->keys_len, .key_len = key.len};
        entry->object.attrs = entry->object.tags = (struct eng_str){NULL, 0};
        memcpy(run->keys + run->keys_len, key.data, key.len);
        run->keys_len += key.len;
        return true;
}

static void inventory_page_listed(struct gw_inventory *run, unsigned count, bool fine)
{
        run->entry = 0;
        run->looking = run->awaited = false;
        if (fine && run->entries != NULL)
                inventory_look(run);
        else
                inventory_page_taken(run, count, fine);
}

/* False: no memory. */
static bool inventory_locks_room(struct gw_inventory *run)
{
        const uint32_t asked = 1u << S3_INVENTORY_RETAIN_UNTIL | 1u << S3_INVENTORY_LOCK_MODE | 1u << S3_INVENTORY_HOLD;
        const struct eng_bucket *bucket;

        if ((run->inventory.fields & asked) == 0 ||
            eng_bucket_get(run->gw->store, gw_eng_str(s3_str_of(run->name)), &bucket) != 0 || !bucket->rules.lock)
                return true;
        run->entries = calloc(INVENTORY_PAGE, sizeof(*run->entries));
        run->keys = malloc((size_t)INVENTORY_PAGE * ENG_KEY_MAX);
        return run->entries != NULL && run->keys != NULL;
}

/* ---- listings -------------------------------------------------------------------------------- */

static void inventory_objects_listed(void *arg, int rv, const struct eng_list_entry *entries, unsigned count, bool more)
{
        struct gw_inventory *run = GW_CAST(gw_inventory, arg);
        bool fine = true;

        if (!inventory_page_came(run, rv, more && count > 0))
                return;
        for (unsigned i = 0; i < count && fine; i++)
                fine = inventory_listed(run, entries[i].name, &entries[i].object, true);
        if (count > 0)
                inventory_behind(run, entries[count - 1].name);
        inventory_page_listed(run, count, fine);
}

static void inventory_versions_listed(void *arg, int rv, const struct eng_version_entry *entries, unsigned count, bool more)
{
        struct gw_inventory *run = GW_CAST(gw_inventory, arg);
        bool fine = true;

        if (!inventory_page_came(run, rv, more && count > 0))
                return;
        for (unsigned i = 0; i < count && fine; i++)
                fine = inventory_listed(run, entries[i].key, &entries[i].object, entries[i].latest);
        if (count > 0) {
                inventory_behind(run, entries[count - 1].key);
                run->version = entries[count - 1].object.version;
                run->inside = true;
        }
        inventory_page_listed(run, count, fine);
}

/* The configuration is still the one that the report is written by. */
static bool inventory_holds(const struct gw_inventory *run)
{
        struct eng_text *text;

        return eng_text_get(run->gw->store, run->bucket, GW_TEXT_INVENTORY, &text) == 0 &&
               eng_text_generation(text) == eng_text_generation(run->text);
}

static void inventory_page(struct gw_inventory *run)
{
        struct eng_list_params params = {.bucket = run->bucket,
                                         .prefix = gw_eng_str(run->inventory.prefix),
                                         .after = {run->key, run->key_len},
                                         .hide_markers = true,
                                         .max = INVENTORY_PAGE};

        if (!gw_inventory_may(run)) {
                gw_inventory_pass_ends(run);
                return;
        }
        if (!inventory_holds(run)) { /* the next pass goes by the new ones */
                run->rest.len = 0;
                gw_inventory_next(run);
                return;
        }
        run->page_began = lp_now(run->loop);
        run->entry_count = 0;
        run->keys_len = 0;
        run->under_way++;
        if (run->inventory.all_versions)
                eng_version_list(run->gw->store, &params, run->inside ? &run->version : NULL, inventory_versions_listed, run);
        else
                eng_list(run->gw->store, &params, inventory_objects_listed, run);
}

/* ---- a report -------------------------------------------------------------------------------- */

void gw_inventory_report(struct gw_inventory *run)
{
        if (!gw_inventory_file_room(run) || !inventory_locks_room(run)) {
                inventory_gives_up(run);
                return;
        }
        run->began_ms = lp_wall_ms();
        run->inside = false;
        run->key_len = 0;
        run->tries = run->file_count = 0;
        gw_inventory_file_begin(run);
        inventory_page(run);
}

void gw_inventory_let_go(struct gw_inventory *run)
{
        s3_config_free(run->config);
        run->config = NULL;
        gw_inventory_file_free(run);
        free(run->entries);
        free(run->keys);
        run->entries = NULL;
        run->keys = NULL;
        free(run->files);
        run->files = NULL;
        run->file_count = run->file_room = 0;
        free(run->content);
        run->content = NULL;
}
