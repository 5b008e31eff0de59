/*
 * descriptors.h - how many descriptors the process may open, and who gets them.
 */
#ifndef MILLRACE_SERVER_DESCRIPTORS_H
#define MILLRACE_SERVER_DESCRIPTORS_H

#include "server/settings.h"

#define SRV_DESCRIPTORS_WARNING 256u

/*
 * Connections that may be open: max_connections, or fewer where the limit of open files would not
 * leave the store what it needs. The store comes first, up to half of the limit: a drive that
 * cannot open its files serves nobody. warning: what is to be logged of that when the daemon
 * serves, or "".
 */
unsigned srv_descriptors_connections(const struct srv_settings *settings, unsigned loops, char warning[SRV_DESCRIPTORS_WARNING]);

/*
 * Files that each drive may keep open for reading, by two descriptors each: 1,024, or what the same
 * share of the limit leaves.
 */
unsigned srv_descriptors_files(const struct srv_settings *settings, unsigned loops);

#endif
