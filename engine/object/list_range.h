/*
 * list_range.h - from which name to which a listing goes, and its entries (private to list.c and
 * list_versions.c).
 */
#ifndef MILLRACE_ENGINE_LIST_RANGE_H
#define MILLRACE_ENGINE_LIST_RANGE_H

#include "engine/object/object.h"

/* Sizes of what a caller may pass; longer ones match nothing or are refused. */
bool eng_list_params_fit(const struct eng_list_params *p);
/* `after` lies behind the beginning of the names with the prefix. */
bool eng_list_after_counts(const struct eng_list_params *p);
/* Of names with escaped keys: from the prefix, or from behind all names of the key, or prefix, `after`. True: of the key. */
bool eng_list_escaped_range(const struct eng_list_params *p, enum fmt_space space, struct eng_name *from, struct eng_name *to);
/* Whether there can be a name between the two. */
bool eng_list_is_empty(const struct eng_name *from, const struct eng_name *to);
/* The key that an escaped name begins with, or all of it; dst has room for as many bytes. */
size_t eng_list_unescape(uint8_t *dst, const uint8_t *src, size_t len);

/*
 * The entries of a page as a caller gets them: each `size` bytes, with its key behind the last of
 * them. view() fills one in, with its key in the memory given, and returns the key's length or an
 * error. The caller frees the answer. NULL: *rv is -ENOMEM, or what view() said.
 */
void *eng_list_view(const struct eng_scan_entry *const *entries, unsigned count, size_t size,
                    int (*view)(const struct eng_scan_entry *e, uint8_t *key, void *out), int *rv);

#endif
