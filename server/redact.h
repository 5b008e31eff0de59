/*
 * redact.h - what must not be written down: whoever reads a log must not be able to repeat a
 * request.
 */
#ifndef SERVER_REDACT_H
#define SERVER_REDACT_H

#include <stddef.h>

/*
 * Copies a text of a request (its target, a key, a header's value) with an asterisk in place of
 * every signature, token and key in it: what follows "Signature=", "X-Amz-Signature=" and the like,
 * in any case, percent-encoded or not, up to the next parameter. Cuts where out ends. Returns out.
 */
const char *srv_redact(const char *text, char *out, size_t size);

#endif
