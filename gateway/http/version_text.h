/*
 * version_text.h - ids of versions, between the engine and clients. Pure; any thread.
 */
#ifndef GATEWAY_HTTP_VERSION_TEXT_H
#define GATEWAY_HTTP_VERSION_TEXT_H

#include "engine.h"
#include "s3.h"

/* INVALID_ARGUMENT with AWS's words in *message: it is no id that this store gave out. */
enum s3_error gw_version_read(struct s3_str text, struct eng_version *out, const char **message);
/* NUL-terminated; returns the length. */
size_t gw_version_text(const struct eng_version *id, char out[S3_VERSION_TEXT]);

#endif
