/*
 * config_names.c - whom the entries and bucket policies of a file mean by the names that are in them, for `millrace
 * admin config import --merge`: names are looked up in the file itself, and go with their ids to the daemon, which makes
 * nothing for somebody else who is called so here (D25 of docs/design/people.md). Main thread only.
 *
 * A name is written as the first line of its entry, in lower case: "1 user 000000000001 - alice". Policies are bound to
 * ids once they are set, so of a role's trust policy only names that are not bound count.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "config_file.h"

#define NAME_SIZE     512u
#define FIRST_ACCOUNT "000000000001" /* always there, and in no file */
#define NOBODY        "-"            /* the id of a name that the file does not have: nobody's */
#define BOUND_MARK    "\n#1\n"       /* between a policy and the ids of those whom it names */

static bool name_line(char out[NAME_SIZE], const char *kind, const char *account, const char *name)
{
        int len = snprintf(out, NAME_SIZE, "1 %s %s - %s", kind, account, name);

        for (char *p = out; *p != '\0'; p++)
                *p = (char)tolower((unsigned char)*p);
        return len > 0 && len < (int)NAME_SIZE;
}

/* The name of an entry. False: it is none. */
static bool name_of_entry(const char *text, char out[NAME_SIZE])
{
        char kind[16], account[16], of[130], name[130];

        return sscanf(text, "1 %15s %15s %129s %129s", kind, account, of, name) == 4 &&
               name_line(out, kind, account, name);
}

static json_t *entry_body(const char *text)
{
        const char *end = strchr(text, '\n');

        return end != NULL ? json_loads(end + 1, JSON_REJECT_DUPLICATES, NULL) : NULL;
}

bool cli_names_begin(struct config_names *names)
{
        names->ids = json_object();
        names->others = json_object();
        return names->ids != NULL && names->others != NULL;
}

void cli_names_end(struct config_names *names)
{
        json_decref(names->ids);
        json_decref(names->others);
        names->ids = names->others = NULL;
}

void cli_names_note(struct config_names *names, const char *text)
{
        json_t *body = entry_body(text);
        const char *id = cli_json_text(body, "id");
        char name[NAME_SIZE];

        if (*id != '\0' && name_of_entry(text, name))
                json_object_set_new(names->ids, name, json_string(id));
        json_decref(body);
}

void cli_names_other(struct config_names *names, const char *text)
{
        char name[NAME_SIZE];

        if (name_of_entry(text, name))
                json_object_set_new(names->others, name, json_true());
}

/* ---- whom something names -------------------------------------------------------------------- */

static void names_add(const struct config_names *names, json_t *named, const char *kind, const char *account,
                      const char *name)
{
        const char *id;
        char line[NAME_SIZE];

        if (strcmp(kind, "account") == 0 && strcmp(name, FIRST_ACCOUNT) == 0)
                return;
        if (!name_line(line, kind, account, name))
                return;
        id = cli_json_text(names->ids, line);
        json_object_set_new(named, line, json_string(*id != '\0' ? id : NOBODY));
}

static void names_add_account(const struct config_names *names, json_t *named, const char *account)
{
        names_add(names, named, "account", "-", account);
}

/* arn:aws:iam::ACCOUNT:KIND/PATH/NAME; arn:aws:sts::ACCOUNT:assumed-role/NAME/SESSION, or federated-user/NAME. */
static void names_add_arn(const struct config_names *names, json_t *named, const char *arn)
{
        static const char *const kinds[] = {"user", "group", "role", "policy"};
        char account[16], what[32], rest[2049], *session;
        const char *name;

        if (sscanf(arn, "arn:aws:iam::%12[0-9]:%31[a-z-]/%2048s", account, what, rest) == 3) {
                name = strrchr(rest, '/') != NULL ? strrchr(rest, '/') + 1 : rest;
                for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                        if (strcmp(what, kinds[i]) == 0)
                                names_add(names, named, what, account, name);
        } else if (sscanf(arn, "arn:aws:sts::%12[0-9]:%31[a-z-]/%2048s", account, what, rest) == 3) {
                session = strchr(rest, '/');
                if (session != NULL)
                        *session = '\0';
                names_add(names, named, strcmp(what, "federated-user") == 0 ? "user" : "role", account, rest);
        } else if (sscanf(arn, "arn:aws:iam::%12[0-9]:%31[a-z]", account, what) == 2 && strcmp(what, "root") == 0) {
                names_add_account(names, named, account);
        }
}

static void names_add_principal(const struct config_names *names, json_t *named, const json_t *value, bool bound)
{
        const char *text = json_string_value(value);

        if (text == NULL || (bound && strncmp(text, "arn:aws:sts:", 12) != 0))
                return;
        if (strlen(text) == strlen(FIRST_ACCOUNT) && strspn(text, "0123456789") == strlen(text))
                names_add_account(names, named, text);
        else
                names_add_arn(names, named, text);
}

/* bound: users and roles in it are known by their ids. */
static void names_add_statement(const struct config_names *names, json_t *named, const json_t *statement, bool bound)
{
        static const char *const members[] = {"Principal", "NotPrincipal"};

        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
                const json_t *who = json_object_get(json_object_get(statement, members[i]), "AWS");
                const json_t *one;
                size_t k;

                names_add_principal(names, named, who, bound);
                json_array_foreach(who, k, one)
                {
                        names_add_principal(names, named, one, bound);
                }
        }
}

static void names_add_policy(const struct config_names *names, json_t *named, const char *text)
{
        const char *mark = strstr(text, BOUND_MARK);
        json_t *policy = json_loadb(text, mark != NULL ? (size_t)(mark - text) : strlen(text), 0, NULL);
        const json_t *list = json_object_get(policy, "Statement"), *one;
        size_t i;

        if (json_is_object(list))
                names_add_statement(names, named, list, mark != NULL);
        json_array_foreach(list, i, one)
        {
                names_add_statement(names, named, one, mark != NULL);
        }
        json_decref(policy);
}

static void names_of_key(const struct config_names *names, json_t *named, const char *text, const json_t *body)
{
        const char *owner = cli_json_text(body, "owner");
        char of[130] = NOBODY;

        sscanf(text, "1 key %*s %129s", of);
        names_add_account(names, named, owner);
        if (strcmp(of, "-") != 0)
                names_add(names, named, "user", owner, of);
}

json_t *cli_names_of_entry(const struct config_names *names, const char *text)
{
        json_t *named = json_object(), *body = entry_body(text), *value;
        char kind[16] = "", account[16] = "";
        const char *name;

        if (sscanf(text, "1 %15s %15s", kind, account) != 2)
                strcpy(kind, "account"); /* it is no entry, as the daemon will say */
        if (strcmp(kind, "key") == 0) {
                names_of_key(names, named, text, body);
        } else if (strcmp(kind, "account") != 0) {
                names_add_account(names, named, account);
                json_object_foreach(json_object_get(body, "groups"), name, value)
                {
                        names_add(names, named, "group", account, name);
                }
                json_object_foreach(json_object_get(body, "attached"), name, value)
                {
                        names_add_arn(names, named, name);
                }
                names_add_arn(names, named, cli_json_text(body, "boundary"));
                names_add_policy(names, named, cli_json_text(body, "trust"));
        }
        json_decref(body);
        return named;
}

json_t *cli_names_of_policy(const struct config_names *names, const char *text)
{
        json_t *named = json_object();

        names_add_policy(names, named, text);
        return named;
}

const char *cli_names_who_is_other(const struct config_names *names, const json_t *named)
{
        json_t *object = (json_t *)(uintptr_t)named, *id;
        const char *name;

        json_object_foreach(object, name, id)
        {
                if (json_object_get(names->others, name) != NULL || strcmp(json_string_value(id), NOBODY) == 0)
                        return name;
        }
        return NULL;
}
