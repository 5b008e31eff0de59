/*
 * settings_show.c - values of settings as text, for those who are to help: a support bundle has
 * them. Called by the admin listener's thread; settings do not change by then.
 */
#include "server/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/*
 * What must not leave the machine. Other secrets stand in files, of which a setting has the name
 * only.
 */
static const bool secret[SRV_SETTING_COUNT] = {[SRV_SETTING_rdma_token_key] = true};

const char *srv_source_name(enum srv_source source)
{
        static const char *const names[] = {
                [SRV_FROM_DEFAULT] = "default", [SRV_FROM_FILE] = "file", [SRV_FROM_COMMAND_LINE] = "command line"};

        return names[source];
}

static void show_list(FILE *out, const struct srv_list *list)
{
        for (unsigned i = 0; i < list->count; i++)
                fprintf(out, "%s%s", i > 0 ? ", " : "", list->item[i]);
}

static void show_address(FILE *out, const struct srv_address *address)
{
        char text[sizeof(address->host) + 16];

        srv_address_text(address, text, sizeof(text));
        if (address->set)
                fputs(text, out);
}

/* Word number n of "a|b|c". */
static void show_choice(FILE *out, const char *words, unsigned n)
{
        while (n > 0 && *words != '\0')
                n -= *words++ == '|';
        fprintf(out, "%.*s", (int)strcspn(words, "|"), words);
}

static void show_value(FILE *out, const struct srv_setting_info *info, const void *value)
{
        const struct srv_ec *ec = value;
        char text[32];

        switch (info->type) {
        case SRV_STRING:
                fputs(*(char *const *)value != NULL ? *(char *const *)value : "", out);
                break;
        case SRV_LIST:
                show_list(out, value);
                break;
        case SRV_BOOL:
                fputs(*(const bool *)value ? "yes" : "no", out);
                break;
        case SRV_INT:
                fprintf(out, "%" PRIu64, *(const uint64_t *)value);
                break;
        case SRV_SIZE:
                srv_format_size(*(const uint64_t *)value, text, sizeof(text));
                fputs(text, out);
                break;
        case SRV_DURATION:
                srv_format_duration(*(const uint64_t *)value, text, sizeof(text));
                fputs(text, out);
                break;
        case SRV_ADDRESS:
                show_address(out, value);
                break;
        case SRV_EC:
                if (ec->k != 0)
                        fprintf(out, "%u+%u", ec->k, ec->m);
                break;
        case SRV_CHOICE:
                show_choice(out, info->argument, *(const unsigned *)value);
                break;
        }
}

char *srv_setting_show(const struct srv_settings *settings, enum srv_setting_id id)
{
        const struct srv_setting_info *info = &srv_setting_infos[id];
        char *text = NULL;
        size_t len;
        FILE *out = open_memstream(&text, &len);

        if (out == NULL)
                return NULL;
        if (secret[id])
                fputs("*", out);
        else
                show_value(out, info, (const char *)settings + info->offset);
        if (fclose(out) == 0)
                return text;
        free(text);
        return NULL;
}

int srv_settings_write(const struct srv_settings *settings, FILE *out)
{
        const struct srv_setting_info *info;
        const struct srv_list *list;
        unsigned id, i;

        for (id = 0; id < SRV_SETTING_COUNT; id++) {
                info = &srv_setting_infos[id];
                if (settings->source[id] == SRV_FROM_DEFAULT)
                        continue;
                if (info->type == SRV_LIST) {
                        list = (const struct srv_list *)(const void *)((const char *)settings + info->offset);
                        for (i = 0; i < list->count; i++)
                                fprintf(out, "%s = %s\n", info->name, list->item[i]);
                        continue;
                }
                fprintf(out, "%s = ", info->name);
                show_value(out, info, (const char *)settings + info->offset);
                fputc('\n', out);
        }
        return fflush(out) == 0 && !ferror(out) ? 0 : -EIO;
}
