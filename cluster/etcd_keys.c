/*
 * etcd_keys.c - values of keys in etcd, to JSON and back.
 */
#include "cluster_keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine.h"
#include "s3_checksum.h"
#include "s3_json.h"

_Static_assert(CL_EPOCH_MAX / 3 * 4 + 512 < CL_JSON_MAX, "an epoch fits, with what stands beside it");

bool cl_name_is_sound(const char *name)
{
        size_t len = strlen(name), i;

        for (i = 0; i < len; i++) {
                bool letter = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') || (name[i] >= '0' && name[i] <= '9');

                if (!letter && (i == 0 || strchr("-_.", name[i]) == NULL))
                        return false;
        }
        return len > 0 && len < CL_NAME_MAX;
}

size_t cl_key_name(const char *cluster, enum cl_key_kind key, unsigned number, char out[CL_KEY_NAME_MAX])
{
        static const char *const forms[] = {[CL_KEY_FORMAT] = "/millrace/%s/format",
                                            [CL_KEY_NODE] = "/millrace/%s/nodes/%u",
                                            [CL_KEY_BOOT] = "/millrace/%s/boots/%u",
                                            [CL_KEY_CONFIG] = "/millrace/%s/pools/%u/config",
                                            [CL_KEY_LEADER] = "/millrace/%s/pools/%u/leader",
                                            [CL_KEY_SWITCHES] = "/millrace/%s/switches",
                                            [CL_KEY_RESEED] = "/millrace/%s/reseed/request",
                                            [CL_KEY_REPORT] = "/millrace/%s/reseed/nodes/%u",
                                            [CL_KEY_NAMES] = "/millrace/%s/names"};

        return (size_t)snprintf(out, CL_KEY_NAME_MAX, forms[key], cluster, number);
}

size_t cl_key_prefix(const char *cluster, char out[CL_KEY_NAME_MAX])
{
        return (size_t)snprintf(out, CL_KEY_NAME_MAX, "/millrace/%s/", cluster);
}

/* Of keys that have one. */
static unsigned key_number_most(enum cl_key_kind kind)
{
        return kind == CL_KEY_NODE || kind == CL_KEY_BOOT || kind == CL_KEY_REPORT ? CL_NODE_LAST : kind == CL_KEY_CONFIG || kind == CL_KEY_LEADER ? CL_POOL_LAST : 0;
}

bool cl_key_parse(const char *cluster, const void *key, size_t len, enum cl_key_kind *kind, unsigned *number)
{
        char text[CL_KEY_NAME_MAX], again[CL_KEY_NAME_MAX];
        size_t prefix = cl_key_prefix(cluster, again), i;
        bool known;

        if (len >= sizeof(text) || len < prefix || memcmp(key, again, prefix) != 0)
                return false;
        memcpy(text, key, len);
        text[len] = '\0';
        *number = 0;
        for (i = prefix; i < len && *number <= CL_NODE_LAST; i++)
                if (text[i] >= '0' && text[i] <= '9')
                        *number = *number * 10 + (unsigned)(text[i] - '0');
        *kind = strcmp(text + prefix, "format") == 0                  ? CL_KEY_FORMAT
                : strcmp(text + prefix, "switches") == 0              ? CL_KEY_SWITCHES
                : strcmp(text + prefix, "reseed/request") == 0        ? CL_KEY_RESEED
                : strcmp(text + prefix, "names") == 0                 ? CL_KEY_NAMES
                : strncmp(text + prefix, "reseed/nodes/", 13) == 0    ? CL_KEY_REPORT
                : strncmp(text + prefix, "nodes/", 6) == 0            ? CL_KEY_NODE
                : strncmp(text + prefix, "boots/", 6) == 0            ? CL_KEY_BOOT
                : strstr(text + prefix, "/config") != NULL            ? CL_KEY_CONFIG
                                                                      : CL_KEY_LEADER;
        known = key_number_most(*kind) == 0 || (*number >= 1 && *number <= key_number_most(*kind));
        return known && cl_key_name(cluster, *kind, *number, again) == len && memcmp(again, text, len) == 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Takes the object. NULL: there was no memory to make it. */
static size_t value_write(json_t *object, char out[CL_JSON_MAX])
{
        size_t len = object == NULL ? 0 : json_dumpb(object, out, CL_JSON_MAX, JSON_COMPACT);

        json_decref(object);
        return len <= CL_JSON_MAX ? len : 0;
}

size_t cl_format_write(const struct cl_format *format, char out[CL_JSON_MAX])
{
        char id[2 * CL_ID + 1], random[17];

        s3_hex_encode(format->cluster_id, CL_ID, id);
        snprintf(random, sizeof(random), "%016llx", (unsigned long long)format->random);
        return value_write(json_pack("{s:s, s:I, s:s}", "cluster_id", id, "generation", (json_int_t)format->generation, "random", random), out);
}

static const char *const node_states[] = {[CL_NODE_IN] = "in", [CL_NODE_DRAINING] = "draining", [CL_NODE_GONE] = "gone"};

size_t cl_node_write(const struct cl_node *node, char out[CL_JSON_MAX])
{
        json_t *drives = json_array();
        char id[2 * CL_ID + 1];
        unsigned i;

        for (i = 0; i < node->drive_count; i++) {
                s3_hex_encode(node->drives[i], CL_ID, id);
                if (json_array_append_new(drives, json_string(id)) != 0) {
                        json_decref(drives);
                        return 0;
                }
        }
        return value_write(json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:i, s:s, s:I, s:o}", "name", node->name, "address", node->address, "s3", node->s3,
                                     "admin", node->admin, "version", node->version, "room", (json_int_t)node->room, "rack",
                                     (int)node->rack, "state", node_states[node->state], "boot", (json_int_t)node->boot, "drives", drives),
                           out);
}

size_t cl_boot_write(const struct cl_boot *boot, char out[CL_JSON_MAX])
{
        char claim[2 * CL_ID + 1];

        s3_hex_encode(boot->claim, CL_ID, claim);
        return value_write(json_pack("{s:I, s:s}", "boot", (json_int_t)boot->boot, "claim", claim), out);
}

size_t cl_config_write(const struct cl_config *config, char out[CL_JSON_MAX])
{
        char id[2 * CL_ID + 1], epoch[CL_EPOCH_MAX / 3 * 4 + 8];

        if (config->epoch_len > CL_EPOCH_MAX)
                return 0;
        s3_hex_encode(config->store_id, CL_ID, id);
        s3_base64_encode(config->epoch, config->epoch_len, epoch);
        return value_write(json_pack("{s:s, s:I, s:s}", "store_id", id, "number", (json_int_t)config->number, "epoch", epoch), out);
}

size_t cl_owner_write(const struct cl_owner *owner, char out[CL_JSON_MAX])
{
        char claim[2 * CL_ID + 1];

        s3_hex_encode(owner->claim, CL_ID, claim);
        return value_write(json_pack("{s:i, s:I, s:s}", "node", (int)owner->node, "boot", (json_int_t)owner->boot, "claim", claim), out);
}

size_t cl_names_write(const struct cl_names *names, char out[CL_JSON_MAX])
{
        json_t *object = json_object();
        unsigned i;

        for (i = 0; i < names->count; i++)
                if (json_object_set_new(object, names->at[i].name, json_integer(names->at[i].number)) != 0) {
                        json_decref(object);
                        return 0;
                }
        return value_write(object, out);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* An object, or NULL with *rv. */
static json_t *value_read(const void *value, size_t len, int *rv)
{
        json_t *object;

        *rv = -EBADMSG;
        if (len > CL_JSON_MAX)
                return NULL;
        object = s3_json_load((struct s3_str){value, len}, JSON_REJECT_DUPLICATES, NULL);
        if (object == NULL) {
                *rv = errno == ENOMEM ? -ENOMEM : -EBADMSG;
                return NULL;
        }
        if (json_is_object(object))
                return object;
        json_decref(object);
        return NULL;
}

static bool take_number(const json_t *object, const char *name, uint64_t least, uint64_t most, uint64_t *out)
{
        const json_t *number = json_object_get(object, name);
        json_int_t n = json_is_integer(number) ? json_integer_value(number) : -1;

        *out = (uint64_t)n;
        return n >= 0 && *out >= least && *out <= most;
}

static bool take_text(const json_t *object, const char *name, char *out, size_t size)
{
        const json_t *text = json_object_get(object, name);

        if (!json_is_string(text) || json_string_length(text) >= size || strlen(json_string_value(text)) != json_string_length(text))
                return false;
        memcpy(out, json_string_value(text), json_string_length(text) + 1);
        return true;
}

static int key_hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool cl_hex_read(const char *text, uint8_t *out, size_t len)
{
        size_t i;

        if (strlen(text) != 2 * len)
                return false;
        for (i = 0; i < len; i++) {
                int high = key_hex_digit(text[2 * i]), low = key_hex_digit(text[2 * i + 1]);

                if (high < 0 || low < 0)
                        return false;
                out[i] = (uint8_t)(high << 4 | low);
        }
        return true;
}

bool cl_hex64_read(const char *text, uint64_t *out)
{
        uint8_t bytes[8];
        unsigned i;

        if (!cl_hex_read(text, bytes, sizeof(bytes)))
                return false;
        for (i = 0, *out = 0; i < sizeof(bytes); i++)
                *out = *out << 8 | bytes[i];
        return true;
}

static bool take_hex(const json_t *object, const char *name, uint8_t *out, size_t len)
{
        char text[2 * CL_ID + 1];

        return take_text(object, name, text, sizeof(text)) && cl_hex_read(text, out, len);
}

/* Reads the value into an object, judges what is said of it, and lets go of it. */
#define VALUE_READ(value, len, out, said)                                                                                                  \
        int rv;                                                                                                                             \
        json_t *object;                                                                                                                     \
                                                                                                                                            \
        memset(out, 0, sizeof(*(out)));                                                                                                     \
        object = value_read(value, len, &rv);                                                                                               \
        if (object == NULL)                                                                                                                 \
                return rv;                                                                                                                  \
        rv = (said) ? 0 : -EBADMSG;                                                                                                         \
        json_decref(object);                                                                                                                \
        return rv

int cl_format_read(const void *value, size_t len, struct cl_format *out)
{
        char random[17];

        VALUE_READ(value, len, out,
                   take_hex(object, "cluster_id", out->cluster_id, CL_ID) && take_number(object, "generation", 1, INT64_MAX, &out->generation) &&
                           take_text(object, "random", random, sizeof(random)) && cl_hex64_read(random, &out->random));
}

static bool take_state(const json_t *object, enum cl_node_state *out)
{
        char text[16];
        unsigned i;

        if (!take_text(object, "state", text, sizeof(text)))
                return false;
        for (i = 0; i < sizeof(node_states) / sizeof(node_states[0]); i++)
                if (strcmp(text, node_states[i]) == 0) {
                        *out = (enum cl_node_state)i;
                        return true;
                }
        return false;
}

/* Builds before did not write it. */
static bool take_drives(const json_t *object, struct cl_node *out)
{
        const json_t *drives = json_object_get(object, "drives");
        size_t i;

        if (drives == NULL)
                return true;
        if (!json_is_array(drives) || json_array_size(drives) > CL_DRIVES_MAX)
                return false;
        for (i = 0; i < json_array_size(drives); i++) {
                const json_t *id = json_array_get(drives, i);

                if (!json_is_string(id) || !cl_hex_read(json_string_value(id), out->drives[i], CL_ID))
                        return false;
        }
        out->drive_count = (unsigned)i;
        return true;
}

/* Builds before did not write these. */
static bool take_extras(const json_t *object, struct cl_node *out)
{
        return (json_object_get(object, "admin") == NULL || take_text(object, "admin", out->admin, sizeof(out->admin))) &&
               (json_object_get(object, "version") == NULL || take_text(object, "version", out->version, sizeof(out->version))) &&
               (json_object_get(object, "room") == NULL || take_number(object, "room", 0, INT64_MAX, &out->room));
}

int cl_node_read(const void *value, size_t len, struct cl_node *out)
{
        uint64_t rack = 0;

        VALUE_READ(value, len, out,
                   take_text(object, "name", out->name, sizeof(out->name)) && cl_name_is_sound(out->name) &&
                           take_text(object, "address", out->address, sizeof(out->address)) && out->address[0] != 0 &&
                           take_text(object, "s3", out->s3, sizeof(out->s3)) && take_number(object, "rack", 0, UINT16_MAX, &rack) &&
                           take_state(object, &out->state) && take_number(object, "boot", 1, ENG_BOOT_MAX, &out->boot) && take_drives(object, out) && take_extras(object, out) && ((out->rack = (uint16_t)rack), true));
}

int cl_boot_read(const void *value, size_t len, struct cl_boot *out)
{
        VALUE_READ(value, len, out, take_number(object, "boot", 1, ENG_BOOT_MAX, &out->boot) && take_hex(object, "claim", out->claim, CL_ID));
}

static bool take_base64(const json_t *object, const char *name, uint8_t *out, size_t size, size_t *len)
{
        const json_t *text = json_object_get(object, name);
        const char *s = json_is_string(text) ? json_string_value(text) : "";
        size_t n = json_is_string(text) ? json_string_length(text) : 0;

        if (n == 0 || n % 4 != 0)
                return false;
        *len = n / 4 * 3 - (s[n - 1] == '=') - (s[n - 2] == '=');
        return *len <= size && s3_base64_decode((struct s3_str){s, n}, out, *len) == 0;
}

static bool config_is_sound(const struct cl_config *config)
{
        struct eng_epoch_info info;

        return eng_epoch_read(config->epoch, config->epoch_len, &info) == 0 && info.number == config->number && info.number > 0;
}

int cl_config_read(const void *value, size_t len, struct cl_config *out)
{
        VALUE_READ(value, len, out,
                   take_hex(object, "store_id", out->store_id, CL_ID) && take_number(object, "number", 1, INT64_MAX, &out->number) &&
                           take_base64(object, "epoch", out->epoch, sizeof(out->epoch), &out->epoch_len) && config_is_sound(out));
}

int cl_owner_read(const void *value, size_t len, struct cl_owner *out)
{
        uint64_t node = 0;

        VALUE_READ(value, len, out,
                   take_number(object, "node", 1, CL_NODE_LAST, &node) && take_number(object, "boot", 1, ENG_BOOT_MAX, &out->boot) &&
                           take_hex(object, "claim", out->claim, CL_ID) && ((out->node = (uint16_t)node), true));
}

/* ---- names ----------------------------------------------------------------------------------- */

uint16_t cl_names_number(const struct cl_names *names, const char *name)
{
        unsigned i;

        for (i = 0; i < names->count; i++)
                if (strcmp(names->at[i].name, name) == 0)
                        return names->at[i].number;
        return 0;
}

const char *cl_names_name(const struct cl_names *names, uint16_t number)
{
        unsigned i;

        for (i = 0; i < names->count; i++)
                if (names->at[i].number == number)
                        return names->at[i].name;
        return NULL;
}

bool cl_names_add(struct cl_names *names, const char *name, uint16_t number)
{
        if (names->count == CL_NAMES_MAX || cl_names_number(names, name) != 0 || cl_names_name(names, number) != NULL)
                return false;
        snprintf(names->at[names->count].name, CL_NAME_MAX, "%s", name);
        names->at[names->count++].number = number;
        return true;
}

static bool take_names(json_t *object, struct cl_names *out)
{
        const char *name;
        json_t *value;

        json_object_foreach(object, name, value) {
                json_int_t number = json_is_integer(value) ? json_integer_value(value) : 0;

                if (!cl_name_is_sound(name) || number < 1 || number > (json_int_t)CL_NODE_LAST || !cl_names_add(out, name, (uint16_t)number))
                        return false;
        }
        return true;
}

int cl_names_read(const void *value, size_t len, struct cl_names *out)
{
        VALUE_READ(value, len, out, take_names(object, out));
}
