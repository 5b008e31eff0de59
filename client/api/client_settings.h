/* client_settings.h - checks of settings' values that the client makes again when it is created. */
#ifndef CLIENT_SETTINGS_H
#define CLIENT_SETTINGS_H

#include <stdint.h>

/* "8388608", "8M", "8MiB", "8MB" (binary units). -EINVAL. */
int mr_parse_bytes(const char *text, uint64_t *out);

#endif
