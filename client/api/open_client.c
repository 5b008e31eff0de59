/*
 * open_client.c - opens clients: from millrace.h's options with environment and profile behind
 * them, and from the settings of the program `millrace`. On the caller's thread.
 */
#include "client/api/client_settings.h"
#include "client/api/create.h"
#include "client/base/failure.h"
#include "client/credentials/creds.h"
#include "client/credentials/profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mr_options_init(struct mr_options *options)
{
        memset(options, 0, sizeof(*options));
}

static int open_with(const struct mr_settings *settings, struct mr_core_options *core,
                     const struct mr_creds_config *config, struct mr_client **out)
{
        int rv = mr_creds_new(config, &core->creds);

        if (rv != 0)
                return rv;
        rv = mr_core_new(settings, core, out);
        if (rv != 0)
                mr_creds_free(core->creds);
        return rv;
}

static void creds_common(const struct mr_settings *settings, struct mr_creds_config *config)
{
        snprintf(config->region, sizeof(config->region), "%s", settings->region);
        snprintf(config->ca_file, sizeof(config->ca_file), "%s", settings->ca_file);
        config->timeout_s = settings->stall_timeout_s;
        if (config->profile[0] == '\0')
                snprintf(config->profile, sizeof(config->profile), "%s", mr_profile_name());
}

static void creds_given(const char *access_key, const char *secret_key, const char *token,
                        struct mr_creds_config *config)
{
        config->source = MR_CREDENTIALS_EXPLICIT;
        snprintf(config->given.access_key, sizeof(config->given.access_key), "%s", access_key);
        snprintf(config->given.secret_key, sizeof(config->given.secret_key), "%s", secret_key);
        snprintf(config->given.session_token, sizeof(config->given.session_token), "%s", token != NULL ? token : "");
}

int mr_client_new(const struct mr_settings *settings, struct mr_client **out)
{
        struct mr_creds_config *config = calloc(1, sizeof(*config));
        struct mr_core_options core = {0};
        int rv = -ENOMEM;

        if (config == NULL)
                return rv;
        if (settings->parallel > 64) { /* as the settings have it; the program needs no more */
                free(config);
                return -EINVAL;
        }
        creds_common(settings, config);
        if (settings->access_key[0] != '\0')
                creds_given(settings->access_key, settings->secret_key, settings->session_token, config);
        rv = open_with(settings, &core, config, out);
        explicit_bzero(config, sizeof(*config));
        free(config);
        return rv;
}

/* ---- options --------------------------------------------------------------------------------- */

static const char *open_client_environment(const char *name)
{
        const char *value = getenv(name);

        return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The first that is there, under the setting's rules. what: the name of the option. */
static int take_text(struct mr_settings *settings, const char *what, const char *const values[], struct mr_error *err)
{
        char why[512];

        for (unsigned i = 0; i < 4; i++) {
                if (values[i] == NULL || values[i][0] == '\0')
                        continue;
                if (mr_settings_set(settings, what, values[i], why, sizeof(why)) != 0)
                        return mr_failure(err, -EINVAL, "%s", why);
                break;
        }
        return 0;
}

static int take_places(const struct mr_options *options, const struct mr_profile *profile, struct mr_settings *settings,
                       struct mr_error *err)
{
        const char *regions[4] = {options->region, open_client_environment("AWS_REGION"),
                                  open_client_environment("AWS_DEFAULT_REGION"), profile->region};
        const char *endpoints[4] = {options->endpoint, open_client_environment("AWS_ENDPOINT_URL_S3"),
                                    open_client_environment("AWS_ENDPOINT_URL"), profile->endpoint};
        const char *drivers[4] = {options->test_rdma_driver, NULL, NULL, NULL};
        const char *bundles[4] = {options->ca_file, open_client_environment("AWS_CA_BUNDLE"), profile->ca_file, NULL};
        int rv = take_text(settings, "region", regions, err);

        if (rv == 0) {
                snprintf(settings->endpoint, sizeof(settings->endpoint), "https://s3.%s.amazonaws.com",
                         settings->region);
                rv = take_text(settings, "endpoint", endpoints, err);
        }
        if (rv == 0)
                rv = take_text(settings, "ca_file", bundles, err);
        return rv == 0 ? take_text(settings, "test_rdma_driver", drivers, err) : rv;
}

static int open_client_take_number(unsigned value, unsigned min, unsigned max, const char *what, unsigned *out,
                                   struct mr_error *err)
{
        if (value == 0)
                return 0;
        if (value < min || value > max)
                return mr_failure(err, -EINVAL, "%s is not %u to %u", what, min, max);
        *out = value;
        return 0;
}

static int take_numbers(const struct mr_options *options, struct mr_settings *settings, struct mr_core_options *core,
                        struct mr_error *err)
{
        int rv;

        settings->parallel = 16;
        rv = open_client_take_number(options->parallel, 1, MR_PARALLEL_MAX, "parallel", &settings->parallel, err);
        if (rv == 0)
                rv = open_client_take_number(options->threads, 1, MR_THREADS_MAX, "threads", &core->threads, err);
        if (rv == 0)
                rv = open_client_take_number(options->attempts, 1, 20, "attempts", &settings->attempts, err);
        if (rv == 0)
                rv = open_client_take_number(options->connect_timeout_s, 1, 300, "connect_timeout_s",
                                             &settings->connect_timeout_s, err);
        if (rv == 0)
                rv = open_client_take_number(options->stall_timeout_s, 1, 3600, "stall_timeout_s",
                                             &settings->stall_timeout_s, err);
        if (rv != 0)
                return rv;
        if (options->part_size != 0 && (options->part_size < 5u << 20 || options->part_size > 5ull << 30))
                return mr_failure(err, -EINVAL, "part_size is not 5 MiB to 5 GiB");
        if (options->sign_body > MR_SIGN_NEVER || options->checksum > MR_CHECKSUM_NONE ||
            options->transport > MR_TRANSPORT_RDMA || options->rdma_rights > 7)
                return mr_failure(err, -EINVAL,
                                  "sign_body, checksum, transport or rdma_rights is none of those there are");
        for (size_t i = 0; i < sizeof(options->reserved) / sizeof(options->reserved[0]); i++)
                if (options->reserved[i] != 0)
                        return mr_failure(err, -EINVAL, "the options were not zeroed, or are those of a later version");
        settings->part_size = options->part_size;
        settings->sign_body = options->sign_body;
        settings->checksum = options->checksum;
        settings->transport = options->transport;
        settings->rdma_rights = options->rdma_rights;
        return 0;
}

static int open_client_take_credentials(const struct mr_options *options, struct mr_creds_config *config,
                                        struct mr_error *err)
{
        config->source = options->credentials;
        if (config->source == MR_CREDENTIALS_AUTO && options->credentials_fn != NULL)
                config->source = MR_CREDENTIALS_CALLBACK;
        else if (config->source == MR_CREDENTIALS_AUTO && options->access_key != NULL)
                config->source = MR_CREDENTIALS_EXPLICIT;
        if (config->source > MR_CREDENTIALS_NONE)
                return mr_failure(err, -EINVAL, "credentials is none of the sources there are");
        if (config->source == MR_CREDENTIALS_CALLBACK && options->credentials_fn == NULL)
                return mr_failure(err, -EINVAL, "credentials_fn is not set");
        config->fn = options->credentials_fn;
        config->fn_arg = options->credentials_arg;
        if (config->source != MR_CREDENTIALS_EXPLICIT)
                return 0;
        if (options->access_key == NULL || options->secret_key == NULL ||
            strlen(options->access_key) >= sizeof(config->given.access_key) ||
            strlen(options->secret_key) >= sizeof(config->given.secret_key) ||
            (options->session_token != NULL && strlen(options->session_token) >= sizeof(config->given.session_token)))
                return mr_failure(err, -EINVAL, "access_key and secret_key must be given, and not be too long");
        creds_given(options->access_key, options->secret_key, options->session_token, config);
        return 0;
}

/* A profile that somebody named must be there. */
static int take_profile(const struct mr_options *options, struct mr_profile *profile, struct mr_creds_config *config,
                        struct mr_error *err)
{
        const char *name = options->profile != NULL ? options->profile : mr_profile_name();
        bool named = options->profile != NULL || open_client_environment("AWS_PROFILE") != NULL;
        int rv = mr_profile_load(name, profile, err);

        if (rv == 0 && named && !profile->found)
                rv = mr_failure(err, -ENOENT, "there is no profile %s", name);
        if (rv == 0)
                snprintf(config->profile, sizeof(config->profile), "%s", name);
        return rv;
}

/* owner: one call of mr_client_open(); too large for a thread's stack */
struct opening {
        struct mr_settings settings;
        struct mr_profile profile;
        struct mr_creds_config config;
        struct mr_core_options core;
};

int mr_client_open(const struct mr_options *options, struct mr_client **out, struct mr_error *err)
{
        struct opening *opening = calloc(1, sizeof(*opening));
        struct mr_error ignored;
        int rv;

        if (err == NULL)
                err = &ignored;
        memset(err, 0, sizeof(*err));
        if (opening == NULL)
                return mr_failure_errno(err, -ENOMEM);
        mr_settings_default(&opening->settings);
        rv = take_profile(options, &opening->profile, &opening->config, err);
        if (rv == 0)
                rv = take_places(options, &opening->profile, &opening->settings, err);
        if (rv == 0)
                rv = take_numbers(options, &opening->settings, &opening->core, err);
        if (rv == 0)
                rv = open_client_take_credentials(options, &opening->config, err);
        if (rv == 0) {
                creds_common(&opening->settings, &opening->config);
                rv = open_with(&opening->settings, &opening->core, &opening->config, out);
                if (rv != 0)
                        mr_failure_errno(err, rv);
        }
        explicit_bzero(opening, sizeof(*opening));
        free(opening);
        return rv;
}
