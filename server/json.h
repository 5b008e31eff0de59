/*
 * json.h - JSON text into a buffer of the caller's, for the access log, where nothing may be
 * allocated.
 */
#ifndef MILLRACE_SERVER_JSON_H
#define MILLRACE_SERVER_JSON_H

#include <stddef.h>
#include <stdint.h>

/*
 * One object being written. What has no room is left out as a whole field; the object is
 * well-formed at every size of 3 or more.
 */
struct srv_json {
        char *buf;
        size_t size, len;
};

void srv_json_begin(struct srv_json *json, char *buf, size_t size);
/*
 * "name":"value"; value may hold any bytes: control characters are escaped, what is not UTF-8
 * becomes U+FFFD. At most `most` bytes of escaped text, cut at a character. NULL: the field is left
 * out.
 */
void srv_json_string(struct srv_json *json, const char *name, const char *value, size_t most);
void srv_json_uint(struct srv_json *json, const char *name, uint64_t value);
/* Ends the object and the line. Returns the length of all. */
size_t srv_json_end(struct srv_json *json);

/* The escaping alone: at most size bytes, no NUL. Returns the length. */
size_t srv_json_escape(const char *value, size_t value_len, char *out, size_t size);

#endif
