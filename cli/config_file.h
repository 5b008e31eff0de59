/*
 * config_file.h - what the two halves of `millrace admin config` share (command_admin_config.c exports,
 * command_config_import.c imports): the store's paths, and the documents of a bucket. Main thread only.
 */
#ifndef MILLRACE_CLI_CONFIG_FILE_H
#define MILLRACE_CLI_CONFIG_FILE_H

#include "command_admin.h"

#define CONFIG_PEOPLE_PATH "/admin/v1/people"

/* Names of a bucket's documents, in the order in which they can be set. NULL ends the list. */
extern const char *const cli_config_documents[];
/* Of which there can be several with ids; each is a document "name id". name NULL ends the list. */
struct cli_config_list {
        const char *name, *element;
};
extern const struct cli_config_list cli_config_lists[];

/* A bucket's documents by name. NULL: it has been said why not. */
json_t *cli_config_bucket(struct cli_call *call, const char *bucket);

#endif
