/*
 * settings.c - the table of settings made into values.
 *
 * Called by the main thread before anything else is started. Values arrive as text from three
 * places (defaults, the file, the command line) and all go through srv_settings_set(), which knows
 * types, ranges and who overrides whom.
 */
#include "server/settings.h"

#include "server/ini_file.h"

#include "gateway.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const struct srv_setting_info srv_setting_infos[SRV_SETTING_COUNT] = {
#define SRV_SETTING_INFO(name, type, default_text, least, most, argument, help)                                        \
        {#name, SRV_##type, default_text, least, most, argument, help, offsetof(struct srv_settings, name)},
        SRV_SETTINGS(SRV_SETTING_INFO)
#undef SRV_SETTING_INFO
};

int srv_fail(struct srv_error *error, int rv, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vsnprintf(error->text, sizeof(error->text), format, args);
        va_end(args);
        return rv;
}

/* Names that settings had before, which are accepted still. */
static const struct {
        const char *old, *now;
} old_setting_names[] = {{"tail_size", "memtable_size"}};

int srv_setting_find(const char *name)
{
        size_t old;
        int i;

        for (old = 0; old < sizeof(old_setting_names) / sizeof(old_setting_names[0]); old++)
                if (strcmp(old_setting_names[old].old, name) == 0)
                        name = old_setting_names[old].now;

        for (i = 0; i < SRV_SETTING_COUNT; i++)
                if (strcmp(srv_setting_infos[i].name, name) == 0)
                        return i;
        return -1;
}

/* ---- one value ------------------------------------------------------------------------------- */

static void *member(struct srv_settings *settings, const struct srv_setting_info *info)
{
        return (char *)settings + info->offset;
}

static void clear_list(struct srv_list *list)
{
        while (list->count > 0)
                free(list->item[--list->count]);
}

static int add_to_list(struct srv_list *list, const char *value, const char **why)
{
        if (*value == '\0') {
                *why = "is empty";
                return -EINVAL;
        }
        if (list->count == SRV_LIST_MAX) {
                *why = "is given more than 64 times";
                return -EINVAL;
        }
        list->item[list->count] = strdup(value);
        if (list->item[list->count] == NULL)
                return -ENOMEM;
        list->count++;
        return 0;
}

static int set_string(const struct srv_setting_info *info, char **out, const char *value, const char **why)
{
        char *copy;

        if (info->most != 0 && (strlen(value) < (size_t)info->least || strlen(value) > (size_t)info->most)) {
                *why = "is empty or too long";
                return -EINVAL;
        }
        copy = strdup(value);
        if (copy == NULL)
                return -ENOMEM;
        free(*out);
        *out = copy;
        return 0;
}

/* Where the value is stored only when it is good: a parser may have written half of it. */
static int set_number(const struct srv_setting_info *info, uint64_t *out, const char *value, const char **why)
{
        uint64_t number = 0;
        int rv;

        if (info->type == SRV_INT)
                rv = srv_parse_int(value, &number, why);
        else if (info->type == SRV_SIZE)
                rv = srv_parse_size(value, &number, why);
        else
                rv = srv_parse_duration(value, &number, why);
        if (rv != 0)
                return rv;
        if (number == 0 && strcmp(info->default_text, "0") == 0) {
                *out = 0;
                return 0;
        }
        if (number < (uint64_t)info->least || number > (uint64_t)info->most) {
                *why = NULL; /* the range says it */
                return -ERANGE;
        }
        *out = number;
        return 0;
}

static int set_value(struct srv_settings *settings, const struct srv_setting_info *info, const char *value,
                     const char **why)
{
        void *out = member(settings, info);

        switch (info->type) {
        case SRV_STRING:
                return set_string(info, out, value, why);
        case SRV_LIST:
                return add_to_list(out, value, why);
        case SRV_BOOL:
                return srv_parse_bool(value, out, why);
        case SRV_INT:
        case SRV_SIZE:
        case SRV_DURATION:
                return set_number(info, out, value, why);
        case SRV_ADDRESS:
                return srv_parse_address(value, out, why);
        case SRV_EC:
                return srv_parse_ec(value, out, why);
        case SRV_CHOICE:
                return srv_parse_choice(value, info->argument, out, why);
        }
        return -EINVAL;
}

static void format_bound(const struct srv_setting_info *info, int64_t bound, char *out, size_t size)
{
        if (info->type == SRV_SIZE)
                srv_format_size((uint64_t)bound, out, size);
        else if (info->type == SRV_DURATION)
                srv_format_duration((uint64_t)bound, out, size);
        else
                snprintf(out, size, "%" PRId64, bound);
}

static int refuse_value(const struct srv_setting_info *info, const char *value, const char *why, const char *shown_as,
                        struct srv_error *error)
{
        char least[32], most[32];

        if (why != NULL && info->type == SRV_CHOICE)
                return srv_fail(error, -EINVAL, "%s: '%.200s' is none of %s", shown_as, value, info->argument);
        if (why != NULL)
                return srv_fail(error, -EINVAL, "%s: '%.200s' %s", shown_as, value, why);
        format_bound(info, info->least, least, sizeof(least));
        format_bound(info, info->most, most, sizeof(most));
        return srv_fail(error, -EINVAL, "%s: %.200s is not between %s and %s", shown_as, value, least, most);
}

int srv_settings_set(struct srv_settings *settings, enum srv_setting_id id, enum srv_source source, const char *value,
                     const char *shown_as, struct srv_error *error)
{
        const struct srv_setting_info *info = &srv_setting_infos[id];
        const char *why = "is not valid";
        int rv;

        if (source < settings->source[id])
                return 0;
        if (strlen(value) > SRV_VALUE_MAX)
                return srv_fail(error, -EINVAL, "%s: value is longer than %u bytes", shown_as, SRV_VALUE_MAX);
        if (source == settings->source[id] && source != SRV_FROM_DEFAULT && info->type != SRV_LIST)
                return srv_fail(error, -EINVAL, "%s is given twice", shown_as);
        if (source > settings->source[id] && info->type == SRV_LIST)
                clear_list(member(settings, info));
        rv = set_value(settings, info, value, &why);
        if (rv == -ENOMEM)
                return srv_fail(error, rv, "%s: out of memory", shown_as);
        if (rv != 0)
                return refuse_value(info, value, why, shown_as, error);
        settings->source[id] = source;
        return 0;
}

/* ---- all values ------------------------------------------------------------------------------ */

int srv_settings_init(struct srv_settings *settings)
{
        struct srv_error error = {""};
        int i, rv;

        memset(settings, 0, sizeof(*settings));
        for (i = 0; i < SRV_SETTING_COUNT; i++) {
                if (srv_setting_infos[i].type == SRV_LIST)
                        continue;
                rv = srv_settings_set(settings, (enum srv_setting_id)i, SRV_FROM_DEFAULT,
                                      srv_setting_infos[i].default_text, srv_setting_infos[i].name, &error);
                if (rv != 0)
                        return rv;
        }
        return 0;
}

void srv_settings_free(struct srv_settings *settings)
{
        int i;

        for (i = 0; i < SRV_SETTING_COUNT; i++) {
                if (srv_setting_infos[i].type == SRV_STRING)
                        free(*(char **)member(settings, &srv_setting_infos[i]));
                else if (srv_setting_infos[i].type == SRV_LIST)
                        clear_list(member(settings, &srv_setting_infos[i]));
        }
        memset(settings, 0, sizeof(*settings));
}

int srv_settings_check(const struct srv_settings *settings, struct srv_error *error)
{
        struct gw_networks networks;
        struct srv_address address;
        const char *why = "";
        struct gw_oidc oidc;
        char *room;
        unsigned i;
        int rv;

        if (settings->drive.count == 0)
                return srv_fail(error, -EINVAL, "no --drive given: name the folder of each drive (see --help)");
        if (!settings->listen.set)
                return srv_fail(error, -EINVAL, "listen: no address given");
        if (!settings->admin.set)
                return srv_fail(error, -EINVAL, "admin: no address given");
        if (settings->rdma_listen.count > SRV_RDMA_LISTEN_MAX)
                return srv_fail(error, -EINVAL, "rdma_listen: is given more than %u times", SRV_RDMA_LISTEN_MAX);
        for (i = 0; i < settings->rdma_listen.count; i++)
                if (srv_parse_address(settings->rdma_listen.item[i], &address, &why) != 0)
                        return srv_fail(error, -EINVAL, "rdma_listen: '%.200s' %s", settings->rdma_listen.item[i], why);
        if (srv_networks(&settings->proxy, "proxy", &networks, error) != 0)
                return -EINVAL;
        rv = srv_oidc(settings, &oidc, &room, error);
        free(room);
        if (rv != 0)
                return rv;
        if (srv_token_check(settings, error) != 0)
                return -EINVAL;
        if ((*settings->tls_cert != '\0') != (*settings->tls_key != '\0'))
                return srv_fail(error, -EINVAL, "%s: given without %s",
                                *settings->tls_cert != '\0' ? "tls_cert" : "tls_key",
                                *settings->tls_cert != '\0' ? "tls_key" : "tls_cert");
        if (settings->admin_tls && *settings->tls_cert == '\0')
                return srv_fail(error, -EINVAL, "admin_tls: given without tls_cert");
        if (*settings->cluster != '\0' && srv_cluster_check(settings, SRV_RUN, error) != 0)
                return -EINVAL;
        if (gw_tls_check_priorities(settings->tls_priorities, &why) != 0)
                return srv_fail(error, -EINVAL, "tls_priorities: is not a priority string of GnuTLS, from '%.200s' on", why);
        return 0;
}

/* ---- the file -------------------------------------------------------------------------------- */

static int take_file_line(void *arg, const char *name, const char *value, const char *shown_as, struct srv_error *error)
{
        int id = srv_setting_find(name);

        if (id < 0)
                return -ENOENT;
        return srv_settings_set(arg, (enum srv_setting_id)id, SRV_FROM_FILE, value, shown_as, error);
}

int srv_settings_read_file(struct srv_settings *settings, const char *path, struct srv_error *error)
{
        FILE *file;
        int rv;

        file = fopen(path, "re");
        if (file == NULL)
                return srv_fail(error, -errno, "--config: cannot open %.300s: %s", path, strerror(errno));
        rv = srv_ini_read(file, path, take_file_line, settings, error);
        fclose(file);
        return rv;
}

/* ---- the command line ------------------------------------------------------------------------ */

struct command_line {
        struct srv_settings *settings; /* NULL: only look what is there */
        const char *config;            /* NULL: none */
        enum srv_action action;
};

static const struct {
        const char *option;
        enum srv_action action;
} actions[] = {
        {"--help", SRV_HELP},
        {"-h", SRV_HELP},
        {"--version", SRV_VERSION},
        {"--print-sample-config", SRV_PRINT_SAMPLE_CONFIG},
        {"--print-settings-markdown", SRV_PRINT_SETTINGS_MARKDOWN},
        {"--print-settings-man", SRV_PRINT_SETTINGS_MAN},
        {"--print-metrics-markdown", SRV_PRINT_METRICS_MARKDOWN},
        {"--show-credentials", SRV_SHOW_CREDENTIALS},
        {"--rotate-credentials", SRV_ROTATE_CREDENTIALS},
        {"--rotate-key", SRV_ROTATE_KEY},
        {"--show-client", SRV_SHOW_CLIENT},
        {"--init-cluster", SRV_INIT_CLUSTER},
        {"--reseed-cluster", SRV_RESEED_CLUSTER},
        {"--adopt-store", SRV_ADOPT_STORE},
        {"--doctor-cluster", SRV_DOCTOR_CLUSTER},
};

static bool take_action(struct command_line *line, const char *option)
{
        size_t i;

        for (i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
                if (strcmp(actions[i].option, option) != 0)
                        continue;
                line->action = actions[i].action;
                return true;
        }
        return false;
}

/*
 * "--tls-cert=F" gives name "tls_cert" and value "F"; value NULL where there is no '='. -EINVAL:
 * not an option at all.
 */
static int split_option(const char *arg, char *name, size_t size, const char **value)
{
        size_t len, i;

        if (strncmp(arg, "--", 2) != 0)
                return -EINVAL;
        len = strcspn(arg + 2, "=");
        if (len == 0 || len >= size)
                return -EINVAL;
        for (i = 0; i < len; i++)
                name[i] = arg[2 + i] == '-' ? '_' : arg[2 + i];
        name[len] = '\0';
        *value = arg[2 + len] == '=' ? arg + 2 + len + 1 : NULL;
        return 0;
}

/* Takes the option at argv[*i], and its value; *i is then the last one taken. */
static int take_option(struct command_line *line, int argc, const char *const argv[], int *i, struct srv_error *error)
{
        char name[64], shown_as[80];
        const char *option = argv[*i], *value;
        bool is_config;
        int id;

        if (split_option(option, name, sizeof(name), &value) != 0)
                return srv_fail(error, -EINVAL, "unexpected argument '%.200s' (see --help)", option);
        is_config = strcmp(name, "config") == 0;
        id = is_config ? 0 : srv_setting_find(name);
        snprintf(shown_as, sizeof(shown_as), "--%.*s", (int)strcspn(option + 2, "="), option + 2);
        if (id < 0)
                return srv_fail(error, -EINVAL, "unknown option %s (see --help)", shown_as);
        if (value == NULL && !is_config && srv_setting_infos[id].type == SRV_BOOL)
                value = "yes";
        if (value == NULL && ++*i >= argc)
                return srv_fail(error, -EINVAL, "%s: value missing", shown_as);
        if (value == NULL)
                value = argv[*i];
        if (!is_config && line->settings == NULL)
                return 0;
        if (!is_config)
                return srv_settings_set(line->settings, (enum srv_setting_id)id, SRV_FROM_COMMAND_LINE, value, shown_as,
                                        error);
        if (line->config != NULL && line->settings == NULL)
                return srv_fail(error, -EINVAL, "--config is given twice");
        line->config = value;
        return 0;
}

static int take_arguments(struct command_line *line, int argc, const char *const argv[], struct srv_error *error)
{
        int i, rv;

        for (i = 1; i < argc; i++) {
                if (take_action(line, argv[i]))
                        continue;
                rv = take_option(line, argc, argv, &i, error);
                if (rv != 0)
                        return rv;
        }
        return 0;
}

int srv_settings_load(struct srv_settings *settings, int argc, const char *const argv[], enum srv_action *action,
                      struct srv_error *error)
{
        struct command_line line = {.action = SRV_RUN};
        int rv;

        rv = take_arguments(&line, argc, argv,
                            error); /* finds the file, which is to be read before the options count */
        if (rv != 0)
                return rv;
        *action = line.action;
        if (line.action != SRV_RUN && line.action < SRV_SHOW_CREDENTIALS)
                return 0;
        if (line.config != NULL) {
                rv = srv_settings_read_file(settings, line.config, error);
                if (rv != 0)
                        return rv;
        }
        line.settings = settings;
        rv = take_arguments(&line, argc, argv, error);
        if (rv != 0)
                return rv;
        rv = srv_cluster_defaults(settings, line.config, error);
        if (rv != 0)
                return rv;
        if (*action == SRV_DOCTOR_CLUSTER && *settings->cluster == '\0')
                return srv_settings_check(settings, error);
        return *action >= SRV_INIT_CLUSTER ? srv_cluster_check(settings, *action, error) : srv_settings_check(settings, error);
}
