/*
 * iam_call.h - IAM's actions as the commands of `millrace admin` ask for them: a form in, and what stands in the
 * answer's result as JSON. Private to this folder. Main thread only.
 */
#ifndef CLI_IAM_CALL_H
#define CLI_IAM_CALL_H

#include <jansson.h>

#include "cli.h"

#define CLI_IAM_PAIRS_MAX 12u

/* What an action is asked with. Strings are the caller's. */
struct cli_iam {
        struct cli_call *call;
        const char *action;
        unsigned count;
        const char *pairs[2 * CLI_IAM_PAIRS_MAX + 1]; /* names and values by turns */
};

struct cli_iam cli_iam(struct cli_call *call, const char *action);
void cli_iam_add(struct cli_iam *iam, const char *name, const char *value); /* value NULL: not sent */
/*
 * Asks once. An element is a text, or an object of its elements, or an array where they are called "member". *out:
 * the <...Result>, an empty object where there is none. code (may be NULL): of an error, which is said where code is
 * NULL. An exit status.
 */
int cli_iam_ask(const struct cli_iam *iam, json_t **out, char code[64]);
/*
 * Asks for all pages, and calls fn for each member of `list`. An exit status: fn's, if that is not CLI_OK.
 */
typedef int (*cli_iam_fn)(void *arg, json_t *member);
int cli_iam_pages(const struct cli_iam *iam, const char *list, cli_iam_fn fn, void *arg);
/* An array, also where the answer had an element without members. NULL where there is none. */
json_t *cli_iam_members(const json_t *result, const char *list);
/* Percent-decoded, as policies come. NULL: no memory, or it is no such text; the caller frees it. */
char *cli_iam_document(const json_t *object, const char *name);

#endif
