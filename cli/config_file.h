/*
 * config_file.h - what the two halves of `millrace admin config` share (command_admin_config.c exports,
 * command_config_import.c imports): the store's paths, the documents of a bucket, and whom a file means by names. Main
 * thread only.
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

/*
 * config_names.c: whom names mean in a file. ids: of each name that an entry of the file has; others: those of them that
 * are somebody else's in this store. A name is the first line of its entry, in lower case.
 */
struct config_names {
        json_t *ids, *others;
};
/* False: no memory; cli_names_end() all the same. */
bool cli_names_begin(struct config_names *names);
void cli_names_end(struct config_names *names);
/* An entry is in the file. */
void cli_names_note(struct config_names *names, const char *text);
/* The daemon says that somebody else has this entry's name here. */
void cli_names_other(struct config_names *names, const char *text);
/*
 * Each name that an entry, or a bucket's policy, refers to, with its id in the file, "-" where the file does not have
 * it: an object, the caller's. NULL: no memory.
 */
json_t *cli_names_of_entry(const struct config_names *names, const char *text);
json_t *cli_names_of_policy(const struct config_names *names, const char *text);
/* The first of such names that does not mean here whom it means in the file; NULL: they all do. */
const char *cli_names_who_is_other(const struct config_names *names, const json_t *named);

#endif
