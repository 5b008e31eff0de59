/*
 * settings_print.c - the table of settings as --help, sample file, documentation and manual page.
 *
 * Called by the main thread; what it prints is kept in the tree (conf/millrace.conf.sample,
 * docs/configuration.md, docs/man/millraced.8), and a test compares the two.
 */
#include "server/settings.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define WIDTH 100

/* Text broken at spaces into lines that begin with prefix. */
static void print_wrapped(FILE *out, const char *prefix, const char *text)
{
        size_t room = WIDTH - strlen(prefix), len;

        while (*text != '\0') {
                len = strlen(text);
                if (len > room) {
                        for (len = room; len > 0 && text[len] != ' '; len--)
                                ;
                        if (len == 0)
                                len = strcspn(text, " ");
                }
                fprintf(out, "%s%.*s\n", prefix, (int)len, text);
                text += len;
                text += strspn(text, " ");
        }
}

static void option_name(const struct srv_setting_info *info, char *out, size_t size)
{
        size_t i, n;

        snprintf(out, size, "--%s", info->name);
        for (i = 2, n = strlen(out); i < n; i++)
                if (out[i] == '_')
                        out[i] = '-';
}

static void option_usage(const struct srv_setting_info *info, char *out, size_t size)
{
        size_t len;

        option_name(info, out, size);
        len = strlen(out);
        if (info->argument != NULL)
                snprintf(out + len, size - len, " %s", info->argument);
}

static bool has_range(const struct srv_setting_info *info)
{
        return (info->type == SRV_INT || info->type == SRV_SIZE || info->type == SRV_DURATION) && info->most != 0;
}

static void format_range(const struct srv_setting_info *info, char *out, size_t size)
{
        char least[32], most[32];

        if (info->type == SRV_SIZE) {
                srv_format_size((uint64_t)info->least, least, sizeof(least));
                srv_format_size((uint64_t)info->most, most, sizeof(most));
        } else if (info->type == SRV_DURATION) {
                srv_format_duration((uint64_t)info->least, least, sizeof(least));
                srv_format_duration((uint64_t)info->most, most, sizeof(most));
        } else {
                snprintf(least, sizeof(least), "%" PRId64, info->least);
                snprintf(most, sizeof(most), "%" PRId64, info->most);
        }
        snprintf(out, size, "%s to %s%s", least, most,
                 strcmp(info->default_text, "0") == 0 && info->least > 0 ? ", or 0" : "");
}

static const char *shown_default(const struct srv_setting_info *info)
{
        return *info->default_text != '\0' ? info->default_text : "none";
}

/* ---- --help ---------------------------------------------------------------------------------- */

void srv_print_help(FILE *out)
{
        const struct srv_setting_info *info;
        char usage[80], text[1024];
        int i;

        fprintf(out, "usage: millraced --drive DIR [--drive DIR ...] [--format] [OPTION ...]\n\n"
                     "An S3-compatible object store on the drives of one machine, or of the nodes of a cluster.\n\n");
        for (i = 0; i < SRV_SETTING_COUNT; i++) {
                info = &srv_setting_infos[i];
                if (info->help == NULL)
                        continue;
                option_usage(info, usage, sizeof(usage));
                fprintf(out, "  %s\n", usage);
                if (info->type == SRV_LIST || info->type == SRV_BOOL || *info->default_text == '\0')
                        snprintf(text, sizeof(text), "%s", info->help);
                else
                        snprintf(text, sizeof(text), "%s (default %s)", info->help, info->default_text);
                print_wrapped(out, "        ", text);
        }
        fprintf(out,
                "  --config FILE\n"
                "        Read settings from FILE. Every option above is a setting there, with _ for -.\n"
                "  --show-credentials    print the root credentials for a shell: eval \"$(millraced --show-credentials --drive DIR)\"\n"
                "  --show-client         print what millrace needs to ask this daemon, as its configuration file: endpoint, admin address, root credentials\n"
                "  --rotate-credentials  make new ones, for all drives named; a running daemon takes them on SIGHUP\n"
                "  --rotate-key          make a new key in key_file, and seal the credentials with it\n"
                "  --init-cluster        make a cluster of the empty folders that the nodes named by new_pool_nodes wait with\n"
                "  --reseed-cluster      write etcd anew from what the nodes hold (millrace admin cluster reseed)\n"
                "  --adopt-store         make a store of one machine, stopped, a new cluster's pool (millrace admin cluster adopt)\n"
                "  --doctor-cluster      look at what a node of a cluster needs, and say what to mend (millrace doctor --settings)\n"
                "  --version\n"
                "  --help\n\n"
                "Exit status: 0 after SIGTERM or SIGINT, 1 when it failed while it ran, 2 when it could not start.\n");
}

/* ---- conf/millrace.conf.sample --------------------------------------------------------------- */

/* Two lines of a setting that is given once for each: by its name, or by what its argument is. */
static void print_list_sample(FILE *out, const struct srv_setting_info *info)
{
        static const struct {
                const char *of, *first, *second;
        } samples[] = {{"etcd", "http://192.0.2.1:2379", "http://192.0.2.2:2379"},
                       {"DIR", "/srv/millrace/1", "/srv/millrace/2"},
                       {"NAME", "n1", "n2"},
                       {"N|slot:N", "3", "slot:12"},
                       {"GID", "192.0.2.10", "2001:db8::10"},
                       {"NETWORK", "192.0.2.10", "2001:db8::/48"},
                       {"HOST[:PORT]", "store.example.org", "192.0.2.1:9001"},
                       {"URL", "https://id.example.org/realm", "https://ci.example.org https://ci.example.org/keys"},
                       {"ID", "store", "sts.example.org"},
                       {"ADDR:PORT", "192.0.2.1:9010", "192.0.2.2:9010"}};
        unsigned i;

        for (i = 0; strcmp(samples[i].of, info->name) != 0 && strcmp(samples[i].of, info->argument) != 0; i++)
                assert(i + 1 < sizeof(samples) / sizeof(samples[0]));
        fprintf(out, "#%s = %s\n#%s = %s\n", info->name, samples[i].first, info->name, samples[i].second);
}

void srv_print_sample_config(FILE *out)
{
        const struct srv_setting_info *info;
        char range[80];
        int i;

        fprintf(out, "# Settings of millraced, read with `millraced --config FILE`. A line is NAME = VALUE; # begins a "
                     "comment line.\n"
                     "# What is commented out here is the default. The command line comes before this file.\n"
                     "# Sizes take KiB, MiB, GiB, TiB; times take ms, s, m, h, d.\n");
        for (i = 0; i < SRV_SETTING_COUNT; i++) {
                info = &srv_setting_infos[i];
                if (info->help == NULL)
                        continue;
                fprintf(out, "\n");
                print_wrapped(out, "# ", info->help);
                if (has_range(info)) {
                        format_range(info, range, sizeof(range));
                        fprintf(out, "# %s\n", range);
                }
                if (info->type == SRV_CHOICE)
                        fprintf(out, "# One of %s\n", info->argument);
                if (info->type == SRV_LIST)
                        print_list_sample(out, info);
                else
                        fprintf(out, "#%s =%s%s\n", info->name, *info->default_text != '\0' ? " " : "",
                                info->default_text);
        }
}

/* ---- docs/configuration.md ------------------------------------------------------------------- */

/* "a|b": "a, b", since a bar would end the column. */
static void print_words(FILE *out, const char *words)
{
        for (; *words != '\0'; words++)
                fputs(*words == '|' ? ", " : (char[]){*words, '\0'}, out);
}

void srv_print_settings_markdown(FILE *out)
{
        static const char *const kinds[] = {[SRV_STRING] = "text",     [SRV_LIST] = "text, repeatable",
                                            [SRV_BOOL] = "yes or no",  [SRV_INT] = "number",
                                            [SRV_SIZE] = "size",       [SRV_DURATION] = "time",
                                            [SRV_ADDRESS] = "address", [SRV_EC] = "erasure code",
                                            [SRV_CHOICE] = "word"};
        const struct srv_setting_info *info;
        char option[80], range[80];
        int i;

        fprintf(out,
                "# Configuration\n\n"
                "<!-- Made by `millraced --print-settings-markdown` from server/settings.h; a test compares. -->\n\n"
                "For whoever runs millrace: every setting, as an option of the command line and as a line of the\n"
                "file that `--config` names. `tls_cert = FILE` there is `--tls-cert FILE` here. The command line\n"
                "comes before the file, the file before the default. Sizes take `KiB`, `MiB`, `GiB`, `TiB`; times\n"
                "take `ms`, `s`, `m`, `h`, `d`. An unknown setting or a bad value ends the start with exit status\n"
                "2 and one line that names it. The command line replaces a setting that may be repeated in the\n"
                "file as a whole.\n\n"
                "`conf/millrace.conf.sample` has all of them with their defaults.\n\n");
        for (i = 0; i < SRV_SETTING_COUNT; i++) {
                info = &srv_setting_infos[i];
                if (info->help == NULL)
                        continue;
                option_name(info, option, sizeof(option));
                fprintf(out, "## `%s`\n\n", info->name);
                print_wrapped(out, "", info->help);
                fprintf(out, "\n");
                fprintf(out, "| option | kind | default | range |\n|---|---|---|---|\n");
                snprintf(range, sizeof(range), "-");
                if (has_range(info))
                        format_range(info, range, sizeof(range));
                fprintf(out, "| `%s` | %s | %s | ", option, kinds[info->type], shown_default(info));
                if (info->type == SRV_CHOICE)
                        print_words(out, info->argument);
                else
                        fprintf(out, "%s", range);
                fprintf(out, " |\n\n");
        }
}

/* ---- docs/man/millraced.8 -------------------------------------------------------------------- */

/*
 * roff: a backslash, and a hyphen that is to stay one, are escaped; no line of text begins with a
 * dot.
 */
static void print_roff(FILE *out, const char *text)
{
        for (; *text != '\0'; text++) {
                if (*text == '\\')
                        fputs("\\e", out);
                else if (*text == '-')
                        fputs("\\-", out);
                else
                        fputc(*text, out);
        }
}

void srv_print_settings_man(FILE *out)
{
        const struct srv_setting_info *info;
        char option[80], range[80];
        int i;

        for (i = 0; i < SRV_SETTING_COUNT; i++) {
                info = &srv_setting_infos[i];
                if (info->help == NULL)
                        continue;
                option_name(info, option, sizeof(option));
                fprintf(out, ".TP\n.B ");
                print_roff(out, option);
                if (info->argument != NULL) {
                        fprintf(out, " \\fI");
                        print_roff(out, info->argument);
                        fprintf(out, "\\fR");
                }
                fprintf(out, "\n");
                print_roff(out, info->help);
                fprintf(out, "\n");
                if (info->type != SRV_LIST && info->type != SRV_BOOL && *info->default_text != '\0') {
                        fprintf(out, "Default: ");
                        print_roff(out, info->default_text);
                        fprintf(out, ".\n");
                }
                if (has_range(info)) {
                        format_range(info, range, sizeof(range));
                        fprintf(out, "Range: ");
                        print_roff(out, range);
                        fprintf(out, ".\n");
                }
        }
}
