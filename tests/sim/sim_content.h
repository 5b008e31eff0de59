/*
 * sim_content.h - the bytes that clients store: derived from a number, so that none need be kept.
 */
#ifndef MILLRACE_TESTS_SIM_CONTENT_H
#define MILLRACE_TESTS_SIM_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTENT_PARTS_MAX 4u
#define CONTENT_ATTRS_MAX 40u

/* What is stored under a number, from 1. */
struct sim_content {
        uint64_t size;
        unsigned part_count; /* 0: bytes of its own */
        uint32_t parts[CONTENT_PARTS_MAX];
};

void contents_begin(void);
uint32_t content_new(uint64_t bytes);
uint32_t content_joined(const uint32_t *parts, unsigned part_count);
const struct sim_content *content_of(uint32_t content); /* NULL: no such */
void content_fill(uint32_t content, uint64_t offset, uint8_t *to, size_t len);
bool content_equals(uint32_t content, uint64_t offset, const uint8_t *data, size_t len);
/* The etag it is stored with, and back; 0: no etag of ours. */
void content_etag(uint32_t content, uint8_t etag[16]);
uint32_t content_of_etag(const uint8_t etag[16]);
/* The attrs stored with a tag. */
size_t content_attrs(uint32_t tag, uint8_t attrs[CONTENT_ATTRS_MAX]);

#endif
