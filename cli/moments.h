/* moments.h - times as people write them. Private to this folder; any thread. */
#ifndef CLI_MOMENTS_H
#define CLI_MOMENTS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Reads a date, 2026-01-31; a date and time, 2026-01-31T12:00[:00], with a space instead of the T
 * too; the same with seconds and a zone, 2026-01-31T12:00:00.123Z or +01:00; or how far away it is
 * from now, 90d, 12h, 30m, 45s: before now, if `past`, else after. Without a zone the time is
 * local. Milliseconds since 1970. -EINVAL: none of these.
 */
int cli_moment_parse(const char *text, int64_t now_ms, bool past, int64_t *ms);
int64_t cli_now_ms(void);

#endif
