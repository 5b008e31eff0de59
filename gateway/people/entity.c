/*
 * entity.c - texts of entities. A text is a line with format version, kind and full name, and then a
 * JSON object whose members are those of the tables below:
 *
 *   1 user 000000000001 - alice
 *   {"path":"/","id":"AIDA...","created":1767225600000,"groups":{"staff":""},...}
 *
 * "-" stands for an account or user that there is none of. Sets are objects of name and text, of
 * versions: name and [ms, text]. A member that is not known is an error: what it says may forbid
 * something. So a later build that adds one takes another format version.
 */
#include "gateway/people/entity.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ec.h"
#include "s3_json.h"

#define K(kind)  (1u << ((kind)-GW_ACCOUNT))
#define K_PERSON (K(GW_USER) | K(GW_GROUP) | K(GW_ROLE))
#define K_PATH   (K_PERSON | K(GW_POLICY))
#define K_ALL    (K_PATH | K(GW_ACCOUNT) | K(GW_ACCESS_KEY) | K(GW_PROVIDER))
#define HEAD_MAX 512u

static const struct {
        const char *word;
        const char *arn; /* what stands before the path; NULL: no ARN of this form */
        unsigned name_most;
} words[] = {
        {"account", NULL, GW_ACCOUNT_ID_LEN},
        {"user", "user", 64},
        {"key", NULL, 128},
        {"group", "group", 128},
        {"role", "role", 64},
        {"policy", "policy", 128},
        {"provider", "oidc-provider", GW_PROVIDER_NAME - 1},
};
#define WORDS (sizeof(words) / sizeof(words[0]))
_Static_assert(WORDS == GW_ENTITY_KINDS_END - GW_ACCOUNT, "one row for each kind");

static const struct {
        const char *name;
        size_t at;
        unsigned kinds, most;
} strings[] = {
        {"path", offsetof(struct gw_entity, path), K_PATH, GW_ENTITY_PATH_MAX},
        {"id", offsetof(struct gw_entity, id), K_PATH | K(GW_ACCOUNT), GW_ENTITY_ID_MAX},
        {"title", offsetof(struct gw_entity, title), K(GW_ACCOUNT), 128},
        {"description", offsetof(struct gw_entity, description), K(GW_ROLE) | K(GW_POLICY), 1000},
        {"owner", offsetof(struct gw_entity, owner), K(GW_ACCESS_KEY), GW_ACCOUNT_ID_LEN},
        {"sealed", offsetof(struct gw_entity, sealed), K(GW_ACCESS_KEY), GW_SEALED_MAX - 1},
        {"boundary", offsetof(struct gw_entity, boundary), K(GW_USER) | K(GW_ROLE), 2048},
        {"trust", offsetof(struct gw_entity, trust), K(GW_ROLE), 8192},
        {"version", offsetof(struct gw_entity, version), K(GW_POLICY), 16},
        {"url", offsetof(struct gw_entity, url), K(GW_PROVIDER), GW_PROVIDER_URL_MAX},
        {"from", offsetof(struct gw_entity, from), K(GW_USER) | K(GW_GROUP), GW_ENTITY_NAME_MAX},
};
static const struct {
        const char *name;
        size_t at;
        unsigned kinds;
        int64_t most;
} numbers[] = {
        {"created", offsetof(struct gw_entity, created_ms), K_ALL, INT64_MAX},
        {"session", offsetof(struct gw_entity, session_seconds), K(GW_ROLE), 43200},
        {"active", offsetof(struct gw_entity, active), K(GW_ACCESS_KEY), 1},
};
static const struct {
        const char *name;
        unsigned kinds, name_most, text_most, most;
} sets[GW_SETS] = {
        [GW_SET_GROUPS] = {"groups", K(GW_USER), 128, 0, GW_ENTITY_SET_MAX},
        [GW_SET_ATTACHED] = {"attached", K_PERSON, 2048, 0, GW_ENTITY_SET_MAX},
        [GW_SET_INLINE] = {"inline", K_PERSON, 128, 10240, GW_ENTITY_SET_MAX},
        [GW_SET_TAGS] = {"tags", K(GW_USER) | K(GW_ROLE) | K(GW_POLICY) | K(GW_PROVIDER), 512, 1024, GW_ENTITY_SET_MAX},
        [GW_SET_VERSIONS] = {"versions", K(GW_POLICY), 16, 24576, GW_ENTITY_SET_MAX},
        [GW_SET_CLIENTS] = {"clients", K(GW_PROVIDER), 1020, 0, GW_CLIENTS_MAX},
        [GW_SET_THUMBPRINTS] = {"thumbprints", K(GW_PROVIDER), 40, 0, GW_ENTITY_SET_MAX},
};
#define NUMBERS_KEPT 61u /* of a thread: 17 KiB */
#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const char **entity_string_at(struct gw_entity *entity, unsigned i)
{
        return (const char **)(void *)((char *)entity + strings[i].at);
}

static int64_t *entity_number_at(struct gw_entity *entity, unsigned i)
{
        return (int64_t *)(void *)((char *)entity + numbers[i].at);
}

/* ---- names ----------------------------------------------------------------------------------- */

static unsigned entity_bit(unsigned kind)
{
        return kind >= GW_ACCOUNT && kind < GW_ENTITY_KINDS_END ? K(kind) : 0;
}

static uint64_t make_number(const struct gw_entity_name *who)
{
        char name[16 + GW_ACCOUNT_ID_LEN + GW_ENTITY_NAME_MAX + 1];
        uint8_t digest[ERA_DIGEST_MAX];
        uint64_t number;
        int len = snprintf(name, sizeof(name), "%u %s ", who->kind, who->account);
        const char *p;

        for (p = who->name; *p != '\0'; p++)
                name[len++] = *p >= 'A' && *p <= 'Z' ? (char)(*p + ('a' - 'A')) : *p;
        era_digest_of(ERA_SHA256, name, (size_t)len, digest);
        memcpy(&number, digest, sizeof(number));
        return number;
}

/*
 * A digest takes half a microsecond, and a user's request asks for its key's number, its own and those of its
 * policies: the last ones are remembered by the thread. Numbers follow from names alone, so none gets old.
 */
uint64_t gw_entity_number(const struct gw_entity_name *who)
{
        static _Thread_local struct {
                struct gw_entity_name who; /* kind 0: none */
                uint64_t number;
        } last[NUMBERS_KEPT], *one;
        unsigned spread = who->kind;
        const char *p;

        for (p = who->account; *p != '\0'; p++)
                spread = spread * 31 + (unsigned char)*p;
        for (p = who->name; *p != '\0'; p++)
                spread = spread * 31 + (unsigned char)*p;
        one = &last[spread % NUMBERS_KEPT];
        if (who->kind == 0 || one->who.kind != who->kind || strcmp(one->who.name, who->name) != 0 ||
            strcmp(one->who.account, who->account) != 0) {
                one->number = make_number(who);
                one->who = *who;
        }
        return one->number;
}

bool gw_entity_same(const struct gw_entity_name *a, const struct gw_entity_name *b)
{
        return a->kind == b->kind && strcmp(a->account, b->account) == 0 && strcasecmp(a->name, b->name) == 0;
}

/* AWS: letters, digits and these. */
static bool is_name(const char *name, size_t most)
{
        size_t len = strlen(name);

        return len >= 1 && len <= most &&
               strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+=,.@-") == len;
}

static bool is_account_id(const char *id)
{
        return strlen(id) == GW_ACCOUNT_ID_LEN && strspn(id, "0123456789") == GW_ACCOUNT_ID_LEN;
}

/* In a text it stands for no name: a key "of -" would be read as one of the account's root. */
static bool is_dash(const char *name)
{
        return strcmp(name, "-") == 0;
}

const char *gw_provider_place(const char *url)
{
        const char *scheme = strstr(url, "://");

        return scheme != NULL ? scheme + 3 : url;
}

void gw_provider_name(const char *place, char out[GW_PROVIDER_NAME])
{
        uint8_t digest[ERA_DIGEST_MAX];

        era_digest_of(ERA_SHA256, place, strlen(place), digest);
        s3_hex_encode(digest, S3_SHA256_LEN, out);
}

bool gw_entity_name_valid(const struct gw_entity_name *who)
{
        if (entity_bit(who->kind) == 0 || !is_name(who->name, words[who->kind - GW_ACCOUNT].name_most))
                return false;
        if (who->kind == GW_ACCOUNT)
                return who->account[0] == '\0' && who->of[0] == '\0' && is_account_id(who->name);
        if (who->kind == GW_ACCESS_KEY)
                return who->account[0] == '\0' &&
                       strspn(who->name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == strlen(who->name) &&
                       strlen(who->name) >= 16 && (who->of[0] == '\0' || (is_name(who->of, 64) && !is_dash(who->of)));
        if (who->kind == GW_PROVIDER &&
            (strspn(who->name, "0123456789abcdef") != GW_PROVIDER_NAME - 1 || who->name[GW_PROVIDER_NAME - 1] != '\0'))
                return false;
        return is_account_id(who->account) && who->of[0] == '\0' && !is_dash(who->name);
}

bool gw_entity_id_valid(unsigned kind, const char *id)
{
        size_t len = strlen(id);

        if (len == 0)
                return (entity_bit(kind) & (K_PATH | K(GW_ACCOUNT))) == 0;
        return len <= GW_ENTITY_ID_MAX &&
               strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") == len;
}

static bool is_path(const char *path)
{
        size_t len = strlen(path), i;

        for (i = 0; i < len; i++)
                if (path[i] < '!' || path[i] > '~')
                        return false;
        return len >= 1 && len <= GW_ENTITY_PATH_MAX && path[0] == '/' && path[len - 1] == '/';
}

static const char *or_empty(const char *text)
{
        return text == NULL ? "" : text;
}

/* Its name is that of its URL, so that its ARN finds it, and no other's. */
static bool is_provider_sound(const struct gw_entity *entity)
{
        const char *url = or_empty(entity->url), *place = gw_provider_place(url);
        char name[GW_PROVIDER_NAME];

        gw_provider_name(place, name);
        for (const char *p = url; *p != '\0'; p++)
                if (*p < '!' || *p > '~')
                        return false;
        return place != url && *place != '\0' && strcmp(name, entity->who.name) == 0;
}

static bool is_former_name(const struct gw_entity *entity)
{
        struct gw_entity_name former = entity->who;

        if (strlen(entity->from) > GW_ENTITY_NAME_MAX)
                return false;
        strcpy(former.name, entity->from);
        return gw_entity_name_valid(&former);
}

/* What no table can say. */
static bool is_sound(const struct gw_entity *entity)
{
        const struct gw_pairs *versions = &entity->sets[GW_SET_VERSIONS];
        unsigned bit = entity_bit(entity->who.kind), i;

        if (!gw_entity_name_valid(&entity->who) || ((bit & K_PATH) != 0 && !is_path(or_empty(entity->path))))
                return false;
        if (entity->who.kind == GW_ACCESS_KEY)
                return is_account_id(or_empty(entity->owner)) && *or_empty(entity->sealed) != '\0';
        if (entity->who.kind == GW_PROVIDER)
                return is_provider_sound(entity);
        if (entity->who.kind != GW_POLICY)
                return *or_empty(entity->from) == '\0' || is_former_name(entity);
        for (i = 0; i < versions->count; i++)
                if (strcmp(versions->list[i].name, or_empty(entity->version)) == 0)
                        return true;
        return false;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int encode_strings(const struct gw_entity *entity, unsigned bit, json_t *object)
{
        struct gw_entity *e = (struct gw_entity *)(uintptr_t)entity;
        unsigned i;

        for (i = 0; i < COUNT(strings); i++) {
                const char *value = *entity_string_at(e, i);

                if (value == NULL || *value == '\0')
                        continue;
                if ((strings[i].kinds & bit) == 0 || strlen(value) > strings[i].most)
                        return -EINVAL;
                if (json_object_set_new(object, strings[i].name, json_string(value)) != 0)
                        return s3_utf8_valid(s3_str_of(value)) ? -ENOMEM : -EINVAL;
        }
        for (i = 0; i < COUNT(numbers); i++) {
                int64_t value = *entity_number_at(e, i);

                if (value == 0)
                        continue;
                if ((numbers[i].kinds & bit) == 0 || value < 0 || value > numbers[i].most)
                        return -EINVAL;
                if (json_object_set_new(object, numbers[i].name, json_integer(value)) != 0)
                        return -ENOMEM;
        }
        return 0;
}

static int encode_set(const struct gw_pairs *set, unsigned kind, unsigned bit, json_t *object)
{
        json_t *pairs = set->count == 0 ? NULL : json_object(), *value;
        unsigned i;
        int rv = 0;

        if (set->count == 0)
                return 0;
        if ((sets[kind].kinds & bit) == 0 || set->count > sets[kind].most)
                rv = -EINVAL;
        for (i = 0; rv == 0 && i < set->count; i++) {
                const struct gw_pair *pair = &set->list[i];
                const char *text = or_empty(pair->text);

                if (*pair->name == '\0' || strlen(pair->name) > sets[kind].name_most ||
                    strlen(text) > sets[kind].text_most || json_object_get(pairs, pair->name) != NULL ||
                    !s3_utf8_valid(s3_str_of(text)) || !s3_utf8_valid(s3_str_of(pair->name))) {
                        rv = -EINVAL;
                        break;
                }
                value = kind == GW_SET_VERSIONS ? json_pack("[I,s]", (json_int_t)pair->ms, text) : json_string(text);
                rv = json_object_set_new(pairs, pair->name, value) != 0 ? -ENOMEM : 0;
        }
        if (rv == 0)
                rv = json_object_set(object, sets[kind].name, pairs) != 0 ? -ENOMEM : 0;
        json_decref(pairs);
        return rv;
}

static const char *or_dash(const char *name)
{
        return *name == '\0' ? "-" : name;
}

static int encode_text(const struct gw_entity *entity, const json_t *object, char **text, size_t *len)
{
        const struct gw_entity_name *who = &entity->who;
        char head[HEAD_MAX], *body = json_dumps(object, JSON_COMPACT);
        int n = snprintf(head, sizeof(head), "1 %s %s %s %s\n", words[who->kind - GW_ACCOUNT].word,
                         or_dash(who->account), or_dash(who->of), who->name);

        if (body == NULL)
                return -ENOMEM;
        *len = (size_t)n + strlen(body);
        *text = malloc(*len + 1);
        if (*text != NULL) {
                memcpy(*text, head, (size_t)n);
                strcpy(*text + n, body);
        }
        free(body);
        if (*text == NULL)
                return -ENOMEM;
        if (*len <= GW_ENTITY_BYTES_MAX)
                return 0;
        free(*text);
        return -E2BIG;
}

int gw_entity_encode(const struct gw_entity *entity, char **text, size_t *len)
{
        unsigned bit = entity_bit(entity->who.kind), i;
        json_t *object;
        int rv;

        if (bit == 0 || !is_sound(entity))
                return -EINVAL;
        object = json_object();
        rv = object == NULL ? -ENOMEM : encode_strings(entity, bit, object);
        for (i = 0; rv == 0 && i < GW_SETS; i++)
                rv = encode_set(&entity->sets[i], i, bit, object);
        if (rv == 0)
                rv = encode_text(entity, object, text, len);
        json_decref(object);
        return rv;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Memory for what a text says: strings are never longer than in the text, with their quotes. */
struct entity_room {
        char *at, *end;
};

static const char *room_text(struct entity_room *room, const char *text)
{
        size_t len = strlen(text) + 1;
        char *out = room->at;

        if ((size_t)(room->end - room->at) < len)
                return NULL;
        memcpy(out, text, len);
        room->at += len;
        return out;
}

static const char *room_string(struct entity_room *room, const json_t *value)
{
        const char *text = json_string_value(value);

        return strlen(text) == json_string_length(value) ? room_text(room, text) : NULL;
}

static bool decode_head(struct eng_str text, struct gw_entity_name *who, size_t *len)
{
        const char *end = memchr(text.data, '\n', text.len < HEAD_MAX ? text.len : HEAD_MAX);
        char line[HEAD_MAX], word[16], account[16];
        int used = 0;
        unsigned i;

        if (end == NULL || memchr(text.data, '\0', (size_t)(end - text.data)) != NULL)
                return false;
        memcpy(line, text.data, (size_t)(end - text.data));
        line[end - text.data] = '\0';
        if (sscanf(line, "1 %15s %15s %128s %128s%n", word, account, who->of, who->name, &used) != 4 ||
            line[used] != '\0')
                return false;
        for (i = 0; i < WORDS && strcmp(words[i].word, word) != 0; i++)
                ;
        if (i == WORDS || strlen(account) > GW_ACCOUNT_ID_LEN)
                return false;
        who->kind = GW_ACCOUNT + i;
        strcpy(who->account, strcmp(account, "-") == 0 ? "" : account);
        if (strcmp(who->of, "-") == 0)
                who->of[0] = '\0';
        *len = (size_t)(end - text.data) + 1;
        return true;
}

bool gw_entity_name_read(struct s3_str line, struct gw_entity_name *out)
{
        char text[HEAD_MAX];
        int len = snprintf(text, sizeof(text), "%.*s\n", (int)line.len, line.data);
        size_t head;

        *out = (struct gw_entity_name){.kind = 0};
        return len < (int)sizeof(text) && decode_head((struct eng_str){text, (size_t)len}, out, &head) &&
               head == (size_t)len && gw_entity_name_valid(out);
}

static bool decode_pair(struct entity_room *room, unsigned kind, const char *name, json_t *value, struct gw_pair *out)
{
        if (kind == GW_SET_VERSIONS) {
                out->ms = json_integer_value(json_array_get(value, 0));
                value = json_array_size(value) == 2 ? json_array_get(value, 1) : NULL;
        }
        out->name = room_text(room, name);
        out->text = json_is_string(value) ? room_string(room, value) : NULL;
        return out->name != NULL && out->text != NULL && out->ms >= 0 && *out->name != '\0' &&
               strlen(out->name) <= sets[kind].name_most && strlen(out->text) <= sets[kind].text_most;
}

static bool decode_set(struct gw_entity *entity, struct entity_room *room, struct gw_pair **pairs, unsigned kind,
                       json_t *object)
{
        struct gw_pairs *set = &entity->sets[kind];
        const char *name;
        json_t *value;

        if (!json_is_object(object) || json_object_size(object) > sets[kind].most)
                return false;
        set->list = *pairs;
        json_object_foreach(object, name, value)
        {
                if (!decode_pair(room, kind, name, value, &set->list[set->count]))
                        return false;
                set->count++;
        }
        *pairs += set->count;
        return true;
}

static bool decode_member(struct gw_entity *entity, struct entity_room *room, struct gw_pair **pairs, const char *name,
                          json_t *value)
{
        unsigned bit = entity_bit(entity->who.kind), i;

        for (i = 0; i < COUNT(strings); i++)
                if (strcmp(strings[i].name, name) == 0) {
                        *entity_string_at(entity, i) = json_is_string(value) ? room_string(room, value) : NULL;
                        return (strings[i].kinds & bit) != 0 && *entity_string_at(entity, i) != NULL &&
                               strlen(*entity_string_at(entity, i)) <= strings[i].most;
                }
        for (i = 0; i < COUNT(numbers); i++)
                if (strcmp(numbers[i].name, name) == 0) {
                        *entity_number_at(entity, i) = json_integer_value(value);
                        return (numbers[i].kinds & bit) != 0 && json_is_integer(value) &&
                               *entity_number_at(entity, i) >= 0 && *entity_number_at(entity, i) <= numbers[i].most;
                }
        for (i = 0; i < GW_SETS; i++)
                if (strcmp(sets[i].name, name) == 0)
                        return (sets[i].kinds & bit) != 0 && decode_set(entity, room, pairs, i, value);
        return false;
}

static bool decode_members(struct gw_entity *entity, struct entity_room *room, struct gw_pair *pairs, json_t *object)
{
        const char *name;
        json_t *value;
        unsigned i;

        for (i = 0; i < COUNT(strings); i++)
                *entity_string_at(entity, i) = "";
        json_object_foreach(object, name, value) if (!decode_member(entity, room, &pairs, name, value)) return false;
        return is_sound(entity);
}

static unsigned count_pairs(json_t *object)
{
        size_t count = 0;
        unsigned i;

        for (i = 0; i < GW_SETS; i++)
                count += json_object_size(json_object_get(object, sets[i].name));
        return count > GW_SETS * GW_CLIENTS_MAX ? 0 : (unsigned)count + 1;
}

struct gw_entity *gw_entity_decode(struct eng_str text)
{
        struct gw_entity *entity = NULL;
        struct gw_entity_name who = {.kind = 0};
        struct entity_room room;
        json_t *object;
        unsigned pairs;
        size_t head;
        int error;

        errno = EBADMSG;
        if (text.len > GW_ENTITY_BYTES_MAX || !decode_head(text, &who, &head))
                return NULL;
        object = s3_json_load((struct s3_str){text.data + head, text.len - head}, JSON_REJECT_DUPLICATES, NULL);
        error = object == NULL ? errno : EBADMSG;
        pairs = json_is_object(object) ? count_pairs(object) : 0;
        if (pairs > 0) {
                entity = calloc(1, sizeof(*entity) + pairs * sizeof(struct gw_pair) + text.len);
                error = entity == NULL ? ENOMEM : EBADMSG;
        }
        if (entity != NULL) {
                struct gw_pair *list = (struct gw_pair *)(void *)(entity + 1);

                entity->who = who;
                room.at = (char *)(list + pairs);
                room.end = room.at + text.len;
                if (!decode_members(entity, &room, list, object)) {
                        free(entity);
                        entity = NULL;
                }
        }
        json_decref(object);
        errno = error;
        return entity;
}

/* ---- ARNs ------------------------------------------------------------------------------------ */

int gw_entity_of_arn(const char *arn, struct gw_entity_name *out)
{
        static const char start[] = "arn:aws:iam::";
        const char *rest = arn + sizeof(start) - 1, *name;
        size_t i, len;

        memset(out, 0, sizeof(*out));
        if (strncmp(arn, start, sizeof(start) - 1) != 0 || strspn(rest, "0123456789") != GW_ACCOUNT_ID_LEN ||
            rest[GW_ACCOUNT_ID_LEN] != ':')
                return -EINVAL;
        memcpy(out->account, rest, GW_ACCOUNT_ID_LEN);
        rest += GW_ACCOUNT_ID_LEN + 1;
        if (strcmp(rest, "root") == 0) {
                out->kind = GW_ACCOUNT;
                strcpy(out->name, out->account);
                out->account[0] = '\0';
                return 0;
        }
        for (i = 0; i < WORDS; i++) {
                len = words[i].arn == NULL ? 0 : strlen(words[i].arn);
                if (len == 0 || strncmp(rest, words[i].arn, len) != 0 || rest[len] != '/')
                        continue;
                out->kind = (unsigned)(GW_ACCOUNT + i);
                if (out->kind == GW_PROVIDER) {
                        gw_provider_name(rest + len + 1, out->name);
                        return rest[len + 1] != '\0' ? 0 : -EINVAL;
                }
                name = strrchr(rest, '/') + 1;
                if (strlen(name) > GW_ENTITY_NAME_MAX)
                        return -EINVAL;
                strcpy(out->name, name);
                return gw_entity_name_valid(out) ? 0 : -EINVAL;
        }
        return -EINVAL;
}

bool gw_entity_arn(const struct gw_entity *entity, char *out, size_t size)
{
        const struct gw_entity_name *who = &entity->who;
        const char *word = entity_bit(who->kind) == 0 ? NULL : words[who->kind - GW_ACCOUNT].arn;
        int len;

        if (who->kind == GW_ACCOUNT)
                len = snprintf(out, size, "arn:aws:iam::%s:root", who->name);
        else if (who->kind == GW_PROVIDER)
                len = snprintf(out, size, "arn:aws:iam::%s:%s/%s", who->account, word, gw_provider_place(entity->url));
        else if (word != NULL)
                len = snprintf(out, size, "arn:aws:iam::%s:%s%s%s", who->account, word, entity->path, who->name);
        else
                return false;
        return len > 0 && (size_t)len < size;
}
