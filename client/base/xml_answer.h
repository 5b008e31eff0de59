/* xml_answer.h - reads the XML documents that S3 answers with. Private to client/. */
#ifndef CLIENT_XML_ANSWER_H
#define CLIENT_XML_ANSWER_H

#include <stddef.h>

#define MR_RECORD_FIELDS 16

/*
 * One element and the text of its children that have none themselves. Further children of a name
 * already there are left out.
 */
struct mr_record {
        char name[40];
        unsigned count;
        struct {
                char name[40];
                char *text;
                size_t cap;
        } field[MR_RECORD_FIELDS];
};

/* The text of a child, "" where there is none. */
const char *mr_record_get(const struct mr_record *record, const char *name);

typedef int (*mr_record_fn)(void *arg, const struct mr_record *record);

/*
 * Calls fn for every element at the given depth (the root is 0) that has children, in order, and at
 * the end once for the root, with its own leaf children. A result other than 0 ends the reading and
 * is its result. -EPROTO: not XML, too much of it, or another root; -ENOMEM.
 */
int mr_answer_read(const char *body, size_t len, const char *root, unsigned depth, mr_record_fn fn, void *arg);

#endif
