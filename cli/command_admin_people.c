/*
 * command_admin_people.c - `millrace admin user`, `group`, `role`, `policy` and `key`: IAM's actions by a table. Main
 * thread only.
 *
 * Each command is one action, whose parameters are the arguments in their order; some arguments are looked up first:
 * a policy's ARN by its name, a key's user by the key.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command_admin.h"
#include "iam_call.h"

#define DOCUMENT_MAX (128u << 10)
#define ARN_MAX      2049u
#define COLUMNS_MAX  5u

/* Parameters whose argument is something else than their value: */
#define OF_POLICY "PolicyArn"      /* a policy's name or ARN */
#define OF_FILE   "PolicyDocument" /* a file, or - */
#define OF_TRUST  "AssumeRolePolicyDocument"
#define OF_KEY    "AccessKeyId" /* whose user is looked up, too */

struct people_command {
        const char *name, *action;
        const char *parameter[3]; /* of the arguments */
        const char *fixed[2];     /* one more, and its value */
        const char *list;         /* what is listed: the columns of its members; NULL: the result is one thing */
        const char *columns[COLUMNS_MAX];
};

static const struct people_command people_commands[] = {
        {"admin user list", "ListUsers", {"PathPrefix"}, {NULL}, "Users", {"UserName", "UserId", "CreateDate", "Arn"}},
        {"admin user create", "CreateUser", {"UserName", "Path"}, {NULL}, NULL, {NULL}},
        {"admin user delete", "DeleteUser", {"UserName"}, {NULL}, NULL, {NULL}},
        {"admin user show", "GetUser", {"UserName"}, {NULL}, NULL, {NULL}},
        {"admin user attach", "AttachUserPolicy", {"UserName", OF_POLICY}, {NULL}, NULL, {NULL}},
        {"admin user detach", "DetachUserPolicy", {"UserName", OF_POLICY}, {NULL}, NULL, {NULL}},

        {"admin group list", "ListGroups", {"PathPrefix"}, {NULL}, "Groups", {"GroupName", "GroupId", "CreateDate", "Arn"}},
        {"admin group create", "CreateGroup", {"GroupName", "Path"}, {NULL}, NULL, {NULL}},
        {"admin group delete", "DeleteGroup", {"GroupName"}, {NULL}, NULL, {NULL}},
        {"admin group show", "GetGroup", {"GroupName"}, {NULL}, NULL, {NULL}},
        {"admin group attach", "AttachGroupPolicy", {"GroupName", OF_POLICY}, {NULL}, NULL, {NULL}},
        {"admin group detach", "DetachGroupPolicy", {"GroupName", OF_POLICY}, {NULL}, NULL, {NULL}},
        {"admin group add", "AddUserToGroup", {"GroupName", "UserName"}, {NULL}, NULL, {NULL}},
        {"admin group remove", "RemoveUserFromGroup", {"GroupName", "UserName"}, {NULL}, NULL, {NULL}},

        {"admin role list", "ListRoles", {"PathPrefix"}, {NULL}, "Roles", {"RoleName", "RoleId", "CreateDate", "Arn"}},
        {"admin role create", "CreateRole", {"RoleName", OF_TRUST, "Path"}, {NULL}, NULL, {NULL}},
        {"admin role delete", "DeleteRole", {"RoleName"}, {NULL}, NULL, {NULL}},
        {"admin role show", "GetRole", {"RoleName"}, {NULL}, NULL, {NULL}},
        {"admin role attach", "AttachRolePolicy", {"RoleName", OF_POLICY}, {NULL}, NULL, {NULL}},
        {"admin role detach", "DetachRolePolicy", {"RoleName", OF_POLICY}, {NULL}, NULL, {NULL}},

        {"admin policy list", "ListPolicies", {"PathPrefix"}, {NULL}, "Policies", {"PolicyName", "DefaultVersionId", "UpdateDate", "Arn"}},
        {"admin policy create", "CreatePolicy", {"PolicyName", OF_FILE, "Path"}, {NULL}, NULL, {NULL}},
        {"admin policy delete", "DeletePolicy", {OF_POLICY}, {NULL}, NULL, {NULL}},
        {"admin policy show", "GetPolicy", {OF_POLICY}, {NULL}, NULL, {NULL}},

        {"admin key list", "ListAccessKeys", {"UserName"}, {NULL}, "AccessKeyMetadata", {"AccessKeyId", "Status", "CreateDate", "UserName"}},
        {"admin key create", "CreateAccessKey", {"UserName"}, {NULL}, NULL, {NULL}},
        {"admin key enable", "UpdateAccessKey", {OF_KEY}, {"Status", "Active"}, NULL, {NULL}},
        {"admin key disable", "UpdateAccessKey", {OF_KEY}, {"Status", "Inactive"}, NULL, {NULL}},
        {"admin key delete", "DeleteAccessKey", {OF_KEY}, {NULL}, NULL, {NULL}},
};

/* What an argument stands for. owner: the command */
struct people_values {
        char arn[ARN_MAX], user[256];
        char *document;
};

/* ---- arguments ------------------------------------------------------------------------------- */

struct policy_search {
        const char *name;
        char *arn;
};

static int policy_seen(void *arg, json_t *policy)
{
        struct policy_search *search = arg;

        if (strcmp(cli_json_text(policy, "PolicyName"), search->name) == 0)
                snprintf(search->arn, ARN_MAX, "%s", cli_json_text(policy, "Arn"));
        return CLI_OK;
}

/* One of the account's own goes before one that is always there: it comes later in the list. */
static int policy_arn(struct cli_call *call, const char *name, char out[ARN_MAX])
{
        struct policy_search search = {.name = name, .arn = out};
        struct cli_iam iam = cli_iam(call, "ListPolicies");
        int status;

        snprintf(out, ARN_MAX, "%s", strncmp(name, "arn:", 4) == 0 ? name : "");
        if (out[0] != '\0')
                return CLI_OK;
        status = cli_iam_pages(&iam, "Policies", policy_seen, &search);
        if (status == CLI_OK && out[0] == '\0') {
                cli_error("there is no policy %s", name);
                status = CLI_FAILED;
        }
        return status;
}

static int key_user(struct cli_call *call, const char *key, char out[256])
{
        struct cli_iam iam = cli_iam(call, "GetAccessKeyLastUsed");
        json_t *result;
        int status;

        cli_iam_add(&iam, OF_KEY, key);
        status = cli_iam_ask(&iam, &result, NULL);
        snprintf(out, 256, "%s", cli_json_text(result, "UserName"));
        json_decref(result);
        return status;
}

/* The whole of a file, - being standard input. NULL: it has been said why not. */
static char *read_document(const char *name)
{
        bool standard = strcmp(name, "-") == 0;
        FILE *file = standard ? stdin : fopen(name, "re");
        char *text = malloc(DOCUMENT_MAX + 1);
        size_t len = file != NULL && text != NULL ? fread(text, 1, DOCUMENT_MAX + 1, file) : 0;

        if (file == NULL || text == NULL || ferror(file) || len > DOCUMENT_MAX) {
                cli_error("%s: %s", name, len > DOCUMENT_MAX ? "too long for a policy" : strerror(errno));
                free(text);
                text = NULL;
        } else {
                text[len] = '\0';
        }
        if (file != NULL && !standard)
                fclose(file);
        return text;
}

static int add_argument(struct cli_iam *iam, const char *parameter, const char *argument, struct people_values *values)
{
        int status = CLI_OK;

        if (strcmp(parameter, OF_POLICY) == 0) {
                status = policy_arn(iam->call, argument, values->arn);
                argument = values->arn;
        } else if (strcmp(parameter, OF_FILE) == 0 || strcmp(parameter, OF_TRUST) == 0) {
                argument = values->document = read_document(argument);
                status = argument != NULL ? CLI_OK : CLI_FAILED;
        } else if (strcmp(parameter, OF_KEY) == 0) {
                status = key_user(iam->call, argument, values->user);
                cli_iam_add(iam, "UserName", values->user[0] != '\0' ? values->user : NULL);
        }
        if (status == CLI_OK)
                cli_iam_add(iam, parameter, argument);
        return status;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* A line for each; or, for --json, all of them in one array. */
struct people_list {
        const struct people_command *command;
        json_t *all; /* NULL: lines */
};

static void print_text(const char *text)
{
        char room[4096];

        fputs(cli_printable(stdout, text, room, sizeof(room)), stdout);
}

static int list_line(void *arg, json_t *member)
{
        struct people_list *list = arg;

        if (list->all != NULL)
                return json_array_append(list->all, member) == 0 ? CLI_OK : CLI_FAILED;
        for (unsigned i = 0; i < COLUMNS_MAX && list->command->columns[i] != NULL; i++) {
                if (i > 0)
                        putchar('\t');
                print_text(cli_json_text(member, list->command->columns[i]));
        }
        putchar('\n');
        return CLI_OK;
}

static void show_value(const char *name, const json_t *value)
{
        char *decoded;

        if (json_is_string(value) && strstr(name, "Document") != NULL) {
                json_t *object = json_pack("{s:O}", name, value);

                decoded = cli_iam_document(object, name);
                printf("%s\t", name);
                print_text(decoded != NULL ? decoded : "");
                putchar('\n');
                free(decoded);
                json_decref(object);
        } else if (json_is_string(value)) {
                printf("%s\t", name);
                print_text(json_string_value(value));
                putchar('\n');
        }
        for (void *at = json_object_iter((json_t *)(uintptr_t)value); at != NULL;
             at = json_object_iter_next((json_t *)(uintptr_t)value, at))
                show_value(json_object_iter_key(at), json_object_iter_value(at));
        for (size_t i = 0; i < json_array_size(value); i++)
                show_value(name, json_array_get(value, i));
}

static int show_more_line(void *arg, json_t *member)
{
        show_value(arg, member);
        return CLI_OK;
}

/* What hangs on it beside what one action tells: policies and groups. */
static int show_holdings(struct cli_call *call, const char *kind, const char *name)
{
        static const char *const lists[][3] = {{"ListAttached%sPolicies", "AttachedPolicies", "AttachedPolicy"},
                                               {"List%sPolicies", "PolicyNames", "InlinePolicy"}};
        char action[64], parameter[32];
        int status = CLI_OK;

        snprintf(parameter, sizeof(parameter), "%sName", kind);
        for (size_t i = 0; status == CLI_OK && i < sizeof(lists) / sizeof(lists[0]); i++) {
                struct cli_iam iam;

                snprintf(action, sizeof(action), i == 0 ? "ListAttached%sPolicies" : "List%sPolicies", kind);
                iam = cli_iam(call, action);
                cli_iam_add(&iam, parameter, name);
                status = cli_iam_pages(&iam, lists[i][1], show_more_line, (void *)(uintptr_t)lists[i][2]);
        }
        if (status == CLI_OK && strcmp(kind, "User") == 0) {
                struct cli_iam iam = cli_iam(call, "ListGroupsForUser");

                cli_iam_add(&iam, parameter, name);
                status = cli_iam_pages(&iam, "Groups", show_more_line, (void *)(uintptr_t) "Group");
        }
        return status;
}

/* The text of a managed policy, as it is in force. */
static int show_policy_text(struct cli_call *call, const json_t *result)
{
        const json_t *policy = json_object_get(result, "Policy");
        struct cli_iam iam = cli_iam(call, "GetPolicyVersion");
        json_t *version;
        int status;

        cli_iam_add(&iam, "PolicyArn", cli_json_text(policy, "Arn"));
        cli_iam_add(&iam, "VersionId", cli_json_text(policy, "DefaultVersionId"));
        status = cli_iam_ask(&iam, &version, NULL);
        if (status == CLI_OK)
                show_value("Document", json_object_get(json_object_get(version, "PolicyVersion"), "Document"));
        json_decref(version);
        return status;
}

static int show_result(struct cli_call *call, const struct people_command *command, json_t *result)
{
        bool show = strstr(command->name, " show") != NULL;

        if (json_object_size(result) == 0) {
                if (!call->quiet)
                        printf("%s: done\n", command->name + strlen("admin "));
                return CLI_OK;
        }
        if (call->json) {
                cli_json_print(result);
                return CLI_OK;
        }
        if (show || !call->quiet || strcmp(command->action, "CreateAccessKey") == 0)
                show_value("", result);
        if (!show)
                return CLI_OK;
        if (strcmp(command->action, "GetPolicy") == 0)
                return show_policy_text(call, result);
        return show_holdings(call,
                             strcmp(command->action, "GetUser") == 0    ? "User"
                             : strcmp(command->action, "GetGroup") == 0 ? "Group"
                                                                        : "Role",
                             call->argv[0]);
}

int cli_admin_people(struct cli_call *call)
{
        const struct people_command *command = people_commands;
        struct people_values values = {.document = NULL};
        struct people_list list;
        struct cli_iam iam;
        json_t *result = NULL;
        int status = CLI_OK;

        while (strcmp(command->name, call->command->name) != 0) /* each that comes here has a row */
                command++;
        iam = cli_iam(call, command->action);
        for (int i = 0; status == CLI_OK && i < call->argc; i++)
                status = add_argument(&iam, command->parameter[i], call->argv[i], &values);
        cli_iam_add(&iam, command->fixed[0], command->fixed[1]);
        if (status == CLI_OK && command->list != NULL) {
                list = (struct people_list){command, call->json ? json_array() : NULL};
                status = cli_iam_pages(&iam, command->list, list_line, &list);
                if (list.all != NULL && status == CLI_OK)
                        cli_json_print(list.all);
                json_decref(list.all);
        } else if (status == CLI_OK) {
                status = cli_iam_ask(&iam, &result, NULL);
                if (status == CLI_OK)
                        status = show_result(call, command, result);
                json_decref(result);
        }
        free(values.document);
        return status;
}
