/*
 * admin_support.c - what of a daemon is only in its memory and belongs in a support bundle: the
 * settings in force, its last messages, what it runs on. On the admin thread.
 *
 * Secrets are kept out twice: a setting that is one is shown as "*", a message that has one is
 * never kept; and should the root secret stand in any text nevertheless, it is taken out here.
 */
#include "server/admin_private.h"

#include "server/daemon_log.h"
#include "server/redact.h"
#include "server/settings.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define TEXT_MAX 4096u

/* owner: one call */
struct support {
        char secret[sizeof(((struct srv_credentials *)0)->secret_key)];
        json_t *lines;
};

static void blank_secret(char *text, const char *secret)
{
        size_t len = strlen(secret);
        char *at = text;

        while (len > 0 && (at = strstr(at, secret)) != NULL)
                memset(at, '*', len);
}

static json_t *safe_text(const struct support *support, const char *value)
{
        char text[TEXT_MAX];

        srv_redact(value, text, sizeof(text));
        blank_secret(text, support->secret);
        return srv_admin_text(text);
}

static void add_line(void *arg, int64_t time_ms, const char *line)
{
        const struct support *support = arg;
        char time[S3_DATE_ISO_SIZE];

        s3_date_format_iso(time_ms, time);
        json_array_append_new(support->lines, json_pack("{s:s, s:o}", "time", time, "line", safe_text(support, line)));
}

static json_t *settings_in_force(const struct support *support, const struct srv_settings *settings)
{
        json_t *all = json_object();
        int id;

        for (id = 0; id < SRV_SETTING_COUNT; id++) {
                char *value = srv_setting_show(settings, (enum srv_setting_id)id);

                if (value != NULL)
                        json_object_set_new(all, srv_setting_infos[id].name,
                                            json_pack("{s:o, s:s}", "value", safe_text(support, value), "source",
                                                      srv_source_name(settings->source[id])));
                free(value);
        }
        return all;
}

static json_t *machine(void)
{
        struct utsname name;

        if (uname(&name) != 0)
                memset(&name, 0, sizeof(name));
        return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s, s:s}", "system", name.sysname, "release", name.release, "machine",
                         name.machine, "processors", srv_admin_number((uint64_t)sysconf(_SC_NPROCESSORS_ONLN)), "memory_bytes",
                         srv_admin_number((uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE)),
                         "libmicrohttpd", MHD_get_version(), "jansson", JANSSON_VERSION);
}

struct admin_answer srv_admin_get_support(struct admin_request *request)
{
        struct srv_admin *admin = request->admin;
        struct support support = {.lines = json_array()};
        json_t *settings;

        pthread_mutex_lock(&admin->lock);
        memcpy(support.secret, admin->credentials.secret_key, sizeof(support.secret));
        pthread_mutex_unlock(&admin->lock);
        srv_log_kept(add_line, &support);
        settings = settings_in_force(&support, admin->settings);
        explicit_bzero(support.secret, sizeof(support.secret));
        return srv_admin_json(200, json_pack("{s:s, s:o, s:o, s:o}", "version", MILLRACE_VERSION, "machine", machine(), "settings",
                                             settings, "log", support.lines));
}
