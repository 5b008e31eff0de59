/*
 * people_terms.c - what a change relies on: that names are still those of the entities that were meant when it was
 * decided, or when a file was written. The queue of changes compares them on the first loop, where nothing comes
 * between that and the record. Rules D25 and D26 of docs/design/people.md.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gateway/people/people_queue.h"
#include "s3_json.h"

/* With room for this many, which follow it. NULL: no memory. */
static struct gw_people_terms *terms_new(size_t count)
{
        struct gw_people_terms *terms = calloc(1, sizeof(*terms) + count * sizeof(terms->list[0]));

        if (terms != NULL)
                terms->list = (const struct gw_people_seen *)(const void *)(terms + 1);
        return terms;
}

static struct gw_people_seen *terms_next(struct gw_people_terms *terms)
{
        return (struct gw_people_seen *)(uintptr_t)&terms->list[terms->count++];
}

struct gw_people_terms *gw_terms_copy(const struct gw_people_terms *terms)
{
        unsigned count = terms != NULL ? terms->count : 0;
        struct gw_people_terms *copy = terms_new(count);

        for (unsigned i = 0; copy != NULL && i < count; i++)
                *terms_next(copy) = terms->list[i];
        return copy;
}

/* Of what cannot be read the id is not known, so it may be somebody else. */
static int seen_refusal(struct gw_people *people, const struct gw_people_seen *seen)
{
        const struct gw_entity *there;
        uint64_t generation = GW_PEOPLE_UNSEEN;
        int rv = gw_people_find(&people->gw->loops[0], &seen->who, &there, &generation);

        if (rv == -ENOMEM || (rv == -EIO && seen->id[0] != '\0'))
                return rv;
        if (seen->id[0] == '\0')
                return generation == seen->generation ? 0 : -ESTALE;
        return rv != 0 || strcasecmp(there->id, seen->id) == 0 ? 0 : -EREMCHG;
}

int gw_terms_refusal(struct gw_people *people, const struct gw_people_terms *terms)
{
        int rv = 0;

        for (unsigned i = 0; rv == 0 && i < terms->count; i++)
                rv = seen_refusal(people, &terms->list[i]);
        return rv;
}

/* ---- of a file ------------------------------------------------------------------------------- */

static int terms_of_json(json_t *object, struct gw_people_terms **out)
{
        const char *line;
        json_t *id;

        if (!json_is_object(object) || json_object_size(object) > GW_PEOPLE_TERMS_MAX)
                return -EINVAL;
        *out = terms_new(json_object_size(object));
        if (*out == NULL)
                return -ENOMEM;
        json_object_foreach(object, line, id)
        {
                struct gw_people_seen *seen = terms_next(*out);
                size_t len = json_string_length(id);

                if (!json_is_string(id) || len == 0 || len > GW_ENTITY_ID_MAX ||
                    strlen(json_string_value(id)) != len || !gw_entity_name_read(s3_str_of(line), &seen->who))
                        return -EINVAL;
                strcpy(seen->id, json_string_value(id));
        }
        return 0;
}

int gw_terms_read(struct eng_str *text, struct gw_people_terms **out)
{
        const char *end = text->len > 0 && *text->data == '{' ? memchr(text->data, '\n', text->len) : NULL;
        size_t len = end != NULL ? (size_t)(end - text->data) : 0;
        json_t *object;
        int rv;

        *out = NULL;
        if (end == NULL) {
                *out = terms_new(0);
                return *out != NULL ? 0 : -ENOMEM;
        }
        object = s3_json_load((struct s3_str){text->data, len}, JSON_REJECT_DUPLICATES, NULL);
        rv = object != NULL ? terms_of_json(object, out) : errno == ENOMEM ? -ENOMEM : -EINVAL;
        json_decref(object);
        if (rv != 0) {
                free(*out);
                *out = NULL;
                return rv;
        }
        *text = (struct eng_str){end + 1, text->len - len - 1};
        return 0;
}
