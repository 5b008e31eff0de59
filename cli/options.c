/*
 * options.c - from argv to a struct cli_call: finds the command, reads its options, loads settings,
 * prints help. Main thread only.
 */
#include "cli.h"
#include "load.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const struct {
        const char *letter, *name, *argument, *help;
} options[] = {
#define CLI_OPTION_ROW(id, letter, name, argument, help) {letter, name, argument, help},
        CLI_OPTIONS(CLI_OPTION_ROW)
#undef CLI_OPTION_ROW
};

/* ---- help ------------------------------------------------------------------------------------ */

uint64_t cli_command_options(const struct cli_command *command)
{
        const bool of_operator = strncmp(command->name, "admin ", 6) == 0 && (command->options & CLI_HAS(ENDPOINT)) != 0;

        return command->options | (of_operator ? CLI_HAS(SETTINGS) : 0);
}

static void help_option(FILE *out, unsigned id)
{
        char left[64];

        snprintf(left, sizeof(left), "%s%s%s--%s%s%s", options[id].letter[0] != '\0' ? "-" : "   ", options[id].letter,
                 options[id].letter[0] != '\0' ? ", " : " ", options[id].name,
                 options[id].argument[0] != '\0' ? " " : "", options[id].argument);
        fprintf(out, "  %-27s %s\n", left, options[id].help);
}

static void help_program(FILE *out)
{
        fputs("Usage: millrace COMMAND [OPTION]... [ARGUMENT]...\n\nCommands:\n", out);
        for (const struct cli_command *c = cli_commands; c->name != NULL; c++)
                fprintf(out, "  %-20s %s\n", c->name, c->summary);
        fputs("\n`millrace COMMAND --help` says more of each; `millrace --version` prints the version.\n\n"
              "Settings, from the configuration file (name = value) or the environment:\n",
              out);
        for (unsigned i = 0; mr_setting_info(i) != NULL; i++) {
                const struct mr_setting_info *info = mr_setting_info(i);

                fprintf(out, "  %-16s %s\n  %-16s   %s\n", info->name, info->help, "", info->environment);
        }
        fputs("\nExit status: 0 done, 1 something failed, 2 wrong usage.\n", out);
}

void cli_help(FILE *out, const struct cli_command *command)
{
        if (command == NULL) {
                help_program(out);
                return;
        }
        fprintf(out, "Usage: millrace %s [OPTION]...%s%s\n\n%c%s.\n%s%s\nOptions:\n", command->name,
                command->arguments[0] != '\0' ? " " : "", command->arguments, command->summary[0] - 'a' + 'A',
                command->summary + 1, command->details[0] != '\0' ? "\n" : "", command->details);
        for (unsigned id = 0; id < CLI_OPTION_COUNT; id++)
                if ((cli_command_options(command) & UINT64_C(1) << id) != 0)
                        help_option(out, id);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Matches as many words of argv as the command's name has. The number of words, or 0. */
static int options_match(const struct cli_command *command, int argc, char **argv)
{
        const char *at = command->name;
        int words = 0;

        while (*at != '\0') {
                size_t len = strcspn(at, " ");

                if (words >= argc || strlen(argv[words]) != len || strncmp(argv[words], at, len) != 0)
                        return 0;
                words++;
                at += len + (at[len] == ' ');
        }
        return words;
}

static const struct cli_command *find_command(int argc, char **argv, int *words)
{
        for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
                *words = options_match(c, argc, argv);
                if (*words != 0)
                        return c;
        }
        return NULL;
}

#define WORDS_MAX 128

/* What comes before options, as far as there is room. */
static size_t first_words(int argc, char **argv, char words[WORDS_MAX])
{
        size_t len = 0;

        words[0] = '\0';
        for (int i = 0; i < argc && argv[i][0] != '-' && len + strlen(argv[i]) + 2 < WORDS_MAX; i++)
                len += (size_t)sprintf(words + len, "%s%s", i > 0 ? " " : "", argv[i]);
        return len;
}

/* "admin" alone, "admin cluster --help": the commands that begin so. */
static bool help_group(int argc, char **argv, FILE *out)
{
        char words[WORDS_MAX];
        size_t len = first_words(argc, argv, words);
        bool found = false;

        for (const struct cli_command *c = cli_commands; len > 0 && c->name != NULL; c++) {
                if (strncmp(c->name, words, len) != 0 || c->name[len] != ' ')
                        continue;
                if (!found)
                        fprintf(out, "Usage: millrace %s COMMAND [OPTION]... [ARGUMENT]...\n\nCommands:\n", words);
                found = true;
                fprintf(out, "  %-20s %s\n", c->name, c->summary);
        }
        return found;
}

static bool is_help(const char *word)
{
        return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int unknown_command(int argc, char **argv)
{
        char words[WORDS_MAX];

        cli_error("unknown command: %s (see millrace --help)", first_words(argc, argv, words) > 0 ? words : argv[0]);
        return CLI_USAGE;
}

/* Everything that is no command: help, version, mistakes. An exit status. */
static int no_command(int argc, char **argv)
{
        const struct cli_command *command;
        int words;

        if (argc < 1) {
                cli_help(stderr, NULL);
                return CLI_USAGE;
        }
        if (strcmp(argv[0], "--version") == 0 || strcmp(argv[0], "version") == 0) {
                printf("millrace %s\n", MILLRACE_VERSION);
                return CLI_OK;
        }
        if (is_help(argv[0]) || strcmp(argv[0], "help") == 0) {
                command = argc > 1 ? find_command(argc - 1, argv + 1, &words) : NULL;
                if (command != NULL || argc == 1) {
                        cli_help(stdout, command);
                        return CLI_OK;
                }
                if (help_group(argc - 1, argv + 1, stdout))
                        return CLI_OK;
                argc--;
                argv++;
        } else if (is_help(argv[argc - 1]) && help_group(argc - 1, argv, stdout)) {
                return CLI_OK;
        } else if (help_group(argc, argv, stderr)) {
                return CLI_USAGE;
        }
        return unknown_command(argc, argv);
}

/* ---- options --------------------------------------------------------------------------------- */

/* getopt's tables for what this command takes. Codes are the ids, from 256 on. */
static void getopt_tables(const struct cli_command *command, struct option longs[CLI_OPTION_COUNT + 1], char *shorts)
{
        unsigned count = 0;

        *shorts++ = ':';
        for (unsigned id = 0; id < CLI_OPTION_COUNT; id++) {
                bool argument = options[id].argument[0] != '\0';

                if ((cli_command_options(command) & UINT64_C(1) << id) == 0)
                        continue;
                longs[count++] = (struct option){options[id].name, argument ? required_argument : no_argument, NULL,
                                                 256 + (int)id};
                if (options[id].letter[0] != '\0') {
                        *shorts++ = options[id].letter[0];
                        if (argument)
                                *shorts++ = ':';
                }
        }
        longs[count] = (struct option){NULL, 0, NULL, 0};
        *shorts = '\0';
}

static int id_of(int code)
{
        if (code >= 256)
                return code - 256;
        for (int id = 0; id < CLI_OPTION_COUNT; id++)
                if (options[id].letter[0] == code)
                        return id;
        return -1;
}

static int add_meta(struct cli_call *call, char *text)
{
        char *equals = strchr(text, '=');

        if (equals == NULL || equals == text || call->meta_count == CLI_META_MAX || strpbrk(text, "\r\n") != NULL)
                return cli_usage(call, "--meta takes NAME=VALUE, up to %d times: %s", CLI_META_MAX, text);
        *equals = '\0';
        if (strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != strlen(text))
                return cli_usage(call, "--meta: a name is made of letters, digits, - _ and .: %s", text);
        for (char *c = text; *c != '\0'; c++)
                if (*c >= 'A' && *c <= 'Z')
                        *c = (char)(*c - 'A' + 'a');
        call->meta[call->meta_count++] = (struct mr_header){text, equals + 1};
        return -1;
}

static int add_drive(struct cli_call *call, const char *folder)
{
        if (call->drive_count == CLI_DRIVES_MAX)
                return cli_usage(call, "more than %d drives", CLI_DRIVES_MAX);
        call->drives[call->drive_count++] = folder;
        return -1;
}

static int set_older(struct cli_call *call, const char *text)
{
        char *end;
        unsigned long hours = strtoul(text, &end, 10);

        if (*text < '0' || *text > '9' || *end != '\0' || hours > 1000000)
                return cli_usage(call, "--older takes a number of hours: %s", text);
        call->older_hours = (unsigned)hours;
        return -1;
}

static int options_set_count(struct cli_call *call, const char *name, const char *text, uint64_t most, uint64_t *out)
{
        if (load_parse_size(text, out) != 0 || *out == 0 || *out > most)
                return cli_usage(call, "--%s takes 1 to %llu: %s", name, (unsigned long long)most, text);
        return -1;
}

static int set_real(struct cli_call *call, const char *name, const char *text, double most, double *out)
{
        char *end;

        *out = strtod(text, &end);
        if (end == text || *end != '\0' || !(*out > 0 && *out <= most))
                return cli_usage(call, "--%s takes more than 0, up to %.0f: %s", name, most, text);
        return -1;
}

/* Options of `bench`. -1 or an exit status. */
static int take_bench_option(struct cli_call *call, int id, char *value)
{
        struct cli_bench_options *bench = &call->bench;
        uint64_t connections;
        int rv;

        switch (id) {
        case CLI_OPT_BUCKET:
                bench->bucket = value;
                return -1;
        case CLI_OPT_PREFIX:
                bench->prefix = value;
                return strlen(value) <= 100 ? -1 : cli_usage(call, "--prefix takes 100 bytes at most");
        case CLI_OPT_CONNECTIONS:
                rv = options_set_count(call, "connections", value, LOAD_CONNECTIONS_MAX, &connections);
                bench->connections = rv == -1 ? (unsigned)connections : 0;
                return rv;
        case CLI_OPT_SECONDS:
                return set_real(call, "seconds", value, 3600, &bench->seconds);
        case CLI_OPT_OBJECTS:
                return options_set_count(call, "objects", value, 100000000, &bench->objects);
        case CLI_OPT_SIZE:
                return options_set_count(call, "size", value, UINT64_C(5) << 40, &bench->size);
        case CLI_OPT_RANGE_OF:
                return options_set_count(call, "range-of", value, UINT64_C(5) << 30, &bench->range_of);
        case CLI_OPT_RATE:
                return set_real(call, "rate", value, 10e6, &bench->rate);
        case CLI_OPT_TRANSPORT: /* its value is a setting */
                bench->library = true;
                return -1;
        default:
                bench->verify = bench->verify || id == CLI_OPT_VERIFY;
                return -1;
        }
}

static bool is_pool_number(const char *text)
{
        return text[0] >= '1' && text[0] <= '9' && strspn(text, "0123456789") == strlen(text) && strlen(text) < 5;
}

/* Options about versions. -1 or an exit status. */
static int take_version_option(struct cli_call *call, int id, char *value)
{
        switch (id) {
        case CLI_OPT_VERSIONS:
                call->versions = true;
                return -1;
        case CLI_OPT_VERSION_ID:
                call->version_id = value;
                return value[0] != '\0' ? -1 : cli_usage(call, "--version-id takes the id of a version");
        case CLI_OPT_BYPASS_GOVERNANCE:
                call->bypass_governance = true;
                return -1;
        case CLI_OPT_MERGE:
                call->merge = true;
                return -1;
        case CLI_OPT_DRY_RUN:
                call->dry_run = true;
                return -1;
        case CLI_OPT_NODES:
                call->nodes = value;
                return -1;
        case CLI_OPT_SETTINGS:
                call->settings_file = value;
                return -1;
        case CLI_OPT_EC:
                call->ec = value;
                return -1;
        case CLI_OPT_POOL:
                call->pool = value;
                return is_pool_number(value) ? -1 : cli_usage(call, "--pool takes the number of a pool");
        case CLI_OPT_POOLS:
                call->pools = value;
                return is_pool_number(value) ? -1 : cli_usage(call, "--pools takes a number");
        case CLI_OPT_WATCH:
                call->watch = true;
                return -1;
        case CLI_OPT_FROM:
                call->from = value;
                return -1;
        case CLI_OPT_TO:
                call->to = value;
                return -1;
        default:
                return take_bench_option(call, id, value);
        }
}

/* -1 or an exit status. Settings are noted by set_settings(), later, over file and environment. */
static int options_take_option(struct cli_call *call, int id, char *value)
{
        switch (id) {
        case CLI_OPT_RECURSIVE:
                call->recursive = true;
                return -1;
        case CLI_OPT_QUIET:
                call->quiet = true;
                return -1;
        case CLI_OPT_PROGRESS:
                call->progress = true;
                return -1;
        case CLI_OPT_NO_PROGRESS:
                call->no_progress = true;
                return -1;
        case CLI_OPT_NO_CLOBBER:
                call->no_clobber = true;
                return -1;
        case CLI_OPT_HUMAN:
                call->human = true;
                return -1;
        case CLI_OPT_FORCE:
                call->force = true;
                return -1;
        case CLI_OPT_JSON:
                call->json = true;
                return -1;
        case CLI_OPT_YES:
                call->yes = true;
                return -1;
        case CLI_OPT_FORCE_WITHOUT:
                call->force_without = value;
                return -1;
        case CLI_OPT_CONFIRM:
                call->confirm = value;
                return -1;
        case CLI_OPT_REQUEST:
                call->request = value;
                return -1;
        case CLI_OPT_HELP:
                call->help = true;
                return -1;
        case CLI_OPT_CONTENT_TYPE:
                call->content_type = value;
                return strpbrk(value, "\r\n") == NULL ? -1 : cli_usage(call, "--content-type takes one line");
        case CLI_OPT_META:
                return add_meta(call, value);
        case CLI_OPT_OLDER:
                return set_older(call, value);
        case CLI_OPT_DRIVE:
                return add_drive(call, value);
        case CLI_OPT_CONFIG:
                call->config = value;
                return -1;
        default:
                return take_version_option(call, id, value);
        }
}

/* An option that stands for a setting: its name in the file. */
static const char *setting_of(int id)
{
        switch (id) {
        case CLI_OPT_PARALLEL:
                return "parallel";
        case CLI_OPT_PART_SIZE:
                return "part_size";
        case CLI_OPT_CHECKSUM:
                return "checksum";
        case CLI_OPT_TRANSPORT:
                return "transport";
        case CLI_OPT_ENDPOINT:
                return "endpoint";
        case CLI_OPT_ADMIN:
                return "admin";
        case CLI_OPT_REGION:
                return "region";
        case CLI_OPT_CA_FILE:
                return "ca_file";
        default:
                return NULL;
        }
}

static int set_settings(struct cli_call *call, char *const values[CLI_OPTION_COUNT])
{
        char why[512];

        if (mr_settings_load(call->config, &call->settings, why, sizeof(why)) != 0) {
                cli_error("%s", why);
                return CLI_USAGE;
        }
        if (call->settings_file != NULL && cli_settings_of_daemon(&call->settings, call->settings_file, call->command->run == cli_doctor) != 0)
                return CLI_USAGE;
        for (int id = 0; id < CLI_OPTION_COUNT; id++) {
                if (values[id] == NULL || setting_of(id) == NULL)
                        continue;
                if (mr_settings_set(&call->settings, setting_of(id), values[id], why, sizeof(why)) != 0)
                        return cli_usage(call, "--%s: %s", options[id].name, why);
        }
        return -1;
}

/* NULL: not set, or empty. */
static const char *options_environment(const char *name)
{
        const char *value = getenv(name);

        return value != NULL && value[0] != '\0' ? value : NULL;
}

static int read_options(struct cli_call *call, int argc, char **argv)
{
        struct option longs[CLI_OPTION_COUNT + 1];
        char shorts[2 * CLI_OPTION_COUNT + 2];
        char *values[CLI_OPTION_COUNT] = {NULL};
        int code, rv, id;

        getopt_tables(call->command, longs, shorts);
        optind = 0; /* glibc: start afresh */
        opterr = 0;
        while ((code = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
                if (code == '?' || code == ':')
                        return cli_usage(call, code == ':' ? "option needs a value: %s" : "unknown option: %s",
                                         argv[optind - 1]);
                id = id_of(code);
                values[id] = optarg;
                rv = options_take_option(call, id, optarg);
                if (rv != -1)
                        return rv;
        }
        if (call->settings_file == NULL && (cli_command_options(call->command) & CLI_HAS(SETTINGS)) != 0)
                call->settings_file = options_environment("MILLRACE_SETTINGS");
        call->argc = argc - optind;
        call->argv = argv + optind;
        if (call->help) {
                cli_help(stdout, call->command);
                return CLI_OK;
        }
        if (call->argc < call->command->min_args)
                return cli_usage(call, "too few arguments");
        if (call->command->max_args >= 0 && call->argc > call->command->max_args)
                return cli_usage(call, "too many arguments: %s", call->argv[call->command->max_args]);
        return set_settings(call, values);
}

int cli_call_parse(int argc, char **argv, struct cli_call *call)
{
        int words = 0;

        memset(call, 0, sizeof(*call));
        call->command = find_command(argc - 1, argv + 1, &words);
        if (call->command == NULL)
                return no_command(argc - 1, argv + 1);
        return read_options(call, argc - words, argv + words);
}
