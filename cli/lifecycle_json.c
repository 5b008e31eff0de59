/*
 * lifecycle_json.c - lifecycle rules from XML to JSON and back, along one table of elements, so
 * that what is read and written again is the same. Pure; the reader's bounds of depth and size
 * hold.
 */
#include "lifecycle_json.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ROOT "LifecycleConfiguration"

enum rule_kind { RULE_OBJECT, RULE_LIST, RULE_TEXT, RULE_NUMBER, RULE_BOOL, RULE_DATE };

struct rule_element {
        const char *xml, *json;
        enum rule_kind kind;
};

/* Tag is a list below And, which comes first here, else one object. */
static const struct rule_element rule_elements[] = {
        {"Tag", "Tags", RULE_LIST},
        {"Tag", "Tag", RULE_OBJECT},
        {"Rule", "Rules", RULE_LIST},
        {"Transition", "Transitions", RULE_LIST},
        {"NoncurrentVersionTransition", "NoncurrentVersionTransitions", RULE_LIST},
        {"Filter", "Filter", RULE_OBJECT},
        {"And", "And", RULE_OBJECT},
        {"Expiration", "Expiration", RULE_OBJECT},
        {"NoncurrentVersionExpiration", "NoncurrentVersionExpiration", RULE_OBJECT},
        {"AbortIncompleteMultipartUpload", "AbortIncompleteMultipartUpload", RULE_OBJECT},
        {"ID", "ID", RULE_TEXT},
        {"Status", "Status", RULE_TEXT},
        {"Prefix", "Prefix", RULE_TEXT},
        {"Key", "Key", RULE_TEXT},
        {"Value", "Value", RULE_TEXT},
        {"StorageClass", "StorageClass", RULE_TEXT},
        {"Date", "Date", RULE_DATE},
        {"Days", "Days", RULE_NUMBER},
        {"NoncurrentDays", "NoncurrentDays", RULE_NUMBER},
        {"NewerNoncurrentVersions", "NewerNoncurrentVersions", RULE_NUMBER},
        {"DaysAfterInitiation", "DaysAfterInitiation", RULE_NUMBER},
        {"ObjectSizeGreaterThan", "ObjectSizeGreaterThan", RULE_NUMBER},
        {"ObjectSizeLessThan", "ObjectSizeLessThan", RULE_NUMBER},
        {"ExpiredObjectDeleteMarker", "ExpiredObjectDeleteMarker", RULE_BOOL},
};
#define RULE_ELEMENTS (sizeof(rule_elements) / sizeof(rule_elements[0]))

/* ---- from XML -------------------------------------------------------------------------------- */

/* owner: one call of cli_lifecycle_json_read() */
struct rules_reading {
        json_t *object[S3_XML_DEPTH_MAX]; /* of the open elements; NULL: one with text. [0] owns all */
        const struct rule_element *element[S3_XML_DEPTH_MAX];
        int rv;
};

static enum s3_error rules_stop(struct rules_reading *reading, int rv)
{
        if (reading->rv == 0)
                reading->rv = rv;
        return S3_ERR_MALFORMED_XML;
}

static const struct rule_element *rule_of_xml(struct s3_str name, const struct rule_element *parent)
{
        bool in_and = parent != NULL && strcmp(parent->xml, "And") == 0;

        for (size_t i = in_and ? 0 : 1; i < RULE_ELEMENTS; i++)
                if (s3_str_eq(name, s3_str_of(rule_elements[i].xml)))
                        return &rule_elements[i];
        return NULL;
}

/* Puts a new object where the element has its place in the one around it. NULL: no memory. */
static json_t *rule_new_object(json_t *around, const struct rule_element *element)
{
        json_t *made = json_object(), *list;

        if (element->kind == RULE_OBJECT)
                return json_object_set_new(around, element->json, made) == 0 ? made : NULL;
        list = json_object_get(around, element->json);
        if (list == NULL) {
                list = json_array();
                if (json_object_set_new(around, element->json, list) != 0)
                        list = NULL;
        }
        return json_array_append_new(list, made) == 0 ? made : NULL;
}

static enum s3_error rule_opens(void *arg, unsigned depth, struct s3_str name)
{
        struct rules_reading *reading = arg;
        const struct rule_element *element;

        if (depth == 0)
                return s3_str_eq(name, S3_STR(ROOT)) ? S3_OK : rules_stop(reading, -EPROTO);
        if (depth >= S3_XML_DEPTH_MAX || reading->object[depth - 1] == NULL)
                return rules_stop(reading, -EPROTO);
        element = rule_of_xml(name, depth > 1 ? reading->element[depth - 1] : NULL);
        if (element == NULL)
                return rules_stop(reading, -EPROTO);
        reading->element[depth] = element;
        reading->object[depth] = NULL;
        if (element->kind != RULE_OBJECT && element->kind != RULE_LIST)
                return S3_OK;
        reading->object[depth] = rule_new_object(reading->object[depth - 1], element);
        return reading->object[depth] != NULL ? S3_OK : rules_stop(reading, -ENOMEM);
}

/* NULL: the text is none of the element's, or no memory. */
static json_t *rule_value(enum rule_kind kind, struct s3_str text)
{
        uint64_t number;

        switch (kind) {
        case RULE_NUMBER:
                return s3_parse_uint(text, INT64_MAX, &number) == 0 ? json_integer((json_int_t)number) : NULL;
        case RULE_BOOL:
                if (!s3_str_eq(text, S3_STR("true")) && !s3_str_eq(text, S3_STR("false")))
                        return NULL;
                return json_boolean(s3_str_eq(text, S3_STR("true")));
        default:
                return json_stringn(text.data != NULL ? text.data : "", text.len);
        }
}

static enum s3_error rule_closes(void *arg, unsigned depth, struct s3_str name, struct s3_str text)
{
        struct rules_reading *reading = arg;
        const struct rule_element *element = reading->element[depth];

        if (depth == 0 || reading->object[depth] != NULL)
                return S3_OK;
        return json_object_set_new(reading->object[depth - 1], element->json, rule_value(element->kind, text)) == 0
                       ? S3_OK
                       : rules_stop(reading, -EPROTO);
}

int cli_lifecycle_json_read(const char *xml, size_t len, json_t **out)
{
        static const struct s3_xml_events events = {rule_opens, rule_closes};
        struct rules_reading reading = {.object = {json_object()}};
        struct s3_xml_reader *reader = NULL;
        enum s3_error error;
        int rv = -ENOMEM;

        *out = NULL;
        if (reading.object[0] == NULL)
                return -ENOMEM;
        if (s3_xml_reader_new(&events, &reading, len + 1, &reader) == 0) {
                error = s3_xml_reader_feed(reader, xml, len);
                if (error == S3_OK)
                        error = s3_xml_reader_finish(reader);
                rv = reading.rv != 0 ? reading.rv : error != S3_OK ? -EPROTO : 0;
        }
        s3_xml_reader_free(reader);
        if (rv == 0)
                *out = reading.object[0];
        else
                json_decref(reading.object[0]);
        return rv;
}

/* ---- to XML ---------------------------------------------------------------------------------- */

/* owner: one call of cli_lifecycle_json_write() */
struct rules_writing {
        struct s3_xml *xml;
        char *why;
        size_t why_size;
};

static int rules_refuse(struct rules_writing *writing, const char *name, const char *what)
{
        snprintf(writing->why, writing->why_size, "%s: %s", name, what);
        return -EINVAL;
}

/* A date alone means its midnight, UTC; S3 takes nothing but whole times. */
static int rule_write_date(struct rules_writing *writing, const struct rule_element *element, const char *text)
{
        char whole[64];
        int64_t ms;

        snprintf(whole, sizeof(whole), "%s%s", text, strlen(text) == 10 ? "T00:00:00Z" : "");
        if (s3_date_parse_iso(s3_str_of(whole), &ms) != 0)
                return rules_refuse(writing, element->json, "takes a date, 2027-01-31");
        s3_xml_date(writing->xml, element->xml, ms);
        return 0;
}

static int rule_write_scalar(struct rules_writing *writing, const struct rule_element *element, const json_t *value)
{
        if (element->kind == RULE_NUMBER && json_is_integer(value) && json_integer_value(value) >= 0)
                s3_xml_uint(writing->xml, element->xml, (uint64_t)json_integer_value(value));
        else if (element->kind == RULE_NUMBER)
                return rules_refuse(writing, element->json, "takes a whole number");
        else if (element->kind == RULE_BOOL && json_is_boolean(value))
                s3_xml_bool(writing->xml, element->xml, json_is_true(value));
        else if (element->kind == RULE_BOOL)
                return rules_refuse(writing, element->json, "takes true or false");
        else if (!json_is_string(value))
                return rules_refuse(writing, element->json, "takes a text");
        else if (element->kind == RULE_DATE)
                return rule_write_date(writing, element, json_string_value(value));
        else
                s3_xml_textz(writing->xml, element->xml, json_string_value(value));
        return 0;
}

static const struct rule_element *rule_of_json(const char *name)
{
        for (size_t i = 0; i < RULE_ELEMENTS; i++)
                if (strcmp(name, rule_elements[i].json) == 0)
                        return &rule_elements[i];
        return NULL;
}

static int rule_write_members(struct rules_writing *writing, const json_t *object, unsigned depth);

static int rule_write_object(struct rules_writing *writing, const struct rule_element *element, const json_t *value,
                             unsigned depth)
{
        int rv;

        if (!json_is_object(value))
                return rules_refuse(writing, element->json, "takes { ... }");
        s3_xml_open(writing->xml, element->xml);
        rv = rule_write_members(writing, value, depth + 1);
        s3_xml_close(writing->xml, element->xml);
        return rv;
}

static int rule_write(struct rules_writing *writing, const char *name, const json_t *value, unsigned depth)
{
        const struct rule_element *element = rule_of_json(name);
        int rv = 0;

        if (element == NULL || depth >= S3_XML_DEPTH_MAX)
                return rules_refuse(writing, name, "there is no such member here");
        if (element->kind == RULE_OBJECT)
                return rule_write_object(writing, element, value, depth);
        if (element->kind != RULE_LIST)
                return rule_write_scalar(writing, element, value);
        if (!json_is_array(value))
                return rules_refuse(writing, name, "takes [ ... ]");
        for (size_t i = 0; i < json_array_size(value) && rv == 0; i++)
                rv = rule_write_object(writing, element, json_array_get(value, i), depth);
        return rv;
}

static int rule_write_members(struct rules_writing *writing, const json_t *object, unsigned depth)
{
        const char *name;
        json_t *value;
        int rv = 0;

        json_object_foreach((json_t *)object, name, value)
        {
                rv = rule_write(writing, name, value, depth);
                if (rv != 0)
                        break;
        }
        return rv;
}

int cli_lifecycle_json_write(const json_t *rules, struct s3_xml *xml, char *why, size_t why_size)
{
        struct rules_writing writing = {xml, why, why_size};
        const json_t *list = json_object_get(rules, "Rules");
        int rv;

        if (!json_is_array(list) || json_object_size(rules) != 1)
                return rules_refuse(&writing, "Rules", "the document is {\"Rules\": [ ... ]}");
        s3_xml_root(xml, ROOT);
        rv = rule_write_members(&writing, rules, 1);
        s3_xml_close(xml, ROOT);
        if (rv == 0 && xml->error != 0) {
                snprintf(why, why_size, "%s", strerror(-xml->error));
                rv = xml->error;
        }
        return rv;
}
