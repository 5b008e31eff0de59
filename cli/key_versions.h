/*
 * key_versions.h - the versions of keys below a path, as `undo` and `diff` walk them. Private to
 * this folder. Main thread only.
 */
#ifndef CLI_KEY_VERSIONS_H
#define CLI_KEY_VERSIONS_H

#include "cli.h"

/* A result other than 0 ends the walk. */
typedef int (*cli_key_version_fn)(void *arg, const struct mr_entry *entry);

/*
 * Calls fn for each version and delete marker of the keys that are the path's key or below it
 * (cli_key_is_below()), key by key, the newest first; and first makes sure that the bucket keeps
 * versions, or has kept them. An exit status; what went wrong has been said, also that there is no
 * such key.
 */
int cli_key_versions(struct cli_call *call, const struct cli_path *path, cli_key_version_fn fn, void *arg);

#endif
