/*
 * xml_answer.c - reads S3's answers as a run of flat records, which is what all of them are:
 * listings, upload results, errors. Stands on the bounded reader of s3.h, so no document type, no
 * entity and no depth can hurt. Called on the thread that made the request.
 */
#include "client/base/xml_answer.h"

#include "s3.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* owner: one call of mr_answer_read() */
struct reading {
        const char *root;
        unsigned depth;
        mr_record_fn fn;
        void *arg;
        struct mr_record record, top;
        bool has_children; /* the open element at `depth` has had one */
        int rv;
};

const char *mr_record_get(const struct mr_record *record, const char *name)
{
        for (unsigned i = 0; i < record->count; i++)
                if (strcmp(record->field[i].name, name) == 0)
                        return record->field[i].text;
        return "";
}

static enum s3_error xml_answer_stop(struct reading *reading, int rv)
{
        if (reading->rv == 0)
                reading->rv = rv;
        return S3_ERR_MALFORMED_XML;
}

/* Buffers stay with their slot, so that a page of a thousand records allocates as much as one. */
static int record_add(struct mr_record *record, struct s3_str name, struct s3_str text)
{
        char *grown;

        if (name.len >= sizeof(record->field[0].name) || record->count == MR_RECORD_FIELDS)
                return 0; /* nothing we know is called that, or has so many */
        for (unsigned i = 0; i < record->count; i++)
                if (s3_str_eq(s3_str_of(record->field[i].name), name))
                        return 0;
        if (record->field[record->count].cap < text.len + 1) {
                grown = realloc(record->field[record->count].text, text.len + 64);
                if (grown == NULL)
                        return -ENOMEM;
                record->field[record->count].text = grown;
                record->field[record->count].cap = text.len + 64;
        }
        memcpy(record->field[record->count].name, name.data, name.len);
        record->field[record->count].name[name.len] = '\0';
        if (text.len > 0)
                memcpy(record->field[record->count].text, text.data, text.len);
        record->field[record->count].text[text.len] = '\0';
        record->count++;
        return 0;
}

static void record_free(struct mr_record *record)
{
        for (unsigned i = 0; i < MR_RECORD_FIELDS; i++)
                free(record->field[i].text);
}

static enum s3_error element_open(void *arg, unsigned depth, struct s3_str name)
{
        struct reading *reading = arg;

        if (depth == 0 && !s3_str_eq(name, s3_str_of(reading->root)))
                return xml_answer_stop(reading, -EPROTO);
        if (depth == reading->depth) {
                snprintf(reading->record.name, sizeof(reading->record.name), "%.*s", (int)name.len, name.data);
                reading->record.count = 0;
                reading->has_children = false;
        } else if (depth == reading->depth + 1) {
                reading->has_children = true;
        }
        return S3_OK;
}

static enum s3_error element_close(void *arg, unsigned depth, struct s3_str name, struct s3_str text)
{
        struct reading *reading = arg;
        int rv = 0;

        if (depth == reading->depth + 1)
                rv = record_add(&reading->record, name, text);
        else if (depth == reading->depth && reading->has_children)
                rv = reading->fn(reading->arg, &reading->record);
        else if (depth == 1)
                rv = record_add(&reading->top, name, text);
        return rv == 0 ? S3_OK : xml_answer_stop(reading, rv);
}

int mr_answer_read(const char *body, size_t len, const char *root, unsigned depth, mr_record_fn fn, void *arg)
{
        static const struct s3_xml_events events = {element_open, element_close};
        struct reading *reading = calloc(1, sizeof(*reading));
        struct s3_xml_reader *reader = NULL;
        enum s3_error error;
        int rv;

        if (reading == NULL)
                return -ENOMEM;
        reading->root = root;
        reading->depth = depth;
        reading->fn = fn;
        reading->arg = arg;
        rv = s3_xml_reader_new(&events, reading, len + 1, &reader);
        if (rv != 0)
                goto out;
        error = s3_xml_reader_feed(reader, body, len);
        if (error == S3_OK)
                error = s3_xml_reader_finish(reader);
        rv = reading->rv;
        if (rv == 0 && error != S3_OK)
                rv = -EPROTO;
        if (rv == 0) {
                snprintf(reading->top.name, sizeof(reading->top.name), "%s", root);
                rv = fn(arg, &reading->top);
        }
out:
        s3_xml_reader_free(reader);
        record_free(&reading->record);
        record_free(&reading->top);
        free(reading);
        return rv;
}
