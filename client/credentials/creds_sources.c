/*
 * creds_sources.c - the places where credentials may be, and the order in which they are looked
 * for: that of the AWS tools. On the thread that waits for them. What is not there is -ENOENT, and
 * the next place is asked; what is there and wrong is a failure.
 */
#include "client/base/failure.h"
#include "client/credentials/creds.h"
#include "client/credentials/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *creds_source_environment(const char *name)
{
        const char *value = getenv(name);

        return value != NULL && value[0] != '\0' ? value : NULL;
}

static int creds_source_copy(char *out, size_t size, const char *value, const char *what, struct mr_error *err)
{
        if (value == NULL)
                value = "";
        if (strlen(value) >= size || strpbrk(value, "\r\n") != NULL)
                return mr_failure(err, -EINVAL, "%s is too long, or not one line", what);
        memcpy(out, value, strlen(value) + 1);
        return 0;
}

static int from_environment(const struct mr_creds_config *config, struct mr_credentials *out, bool *renewable,
                            struct mr_error *err)
{
        const char *key = creds_source_environment("AWS_ACCESS_KEY_ID"),
                   *secret = creds_source_environment("AWS_SECRET_ACCESS_KEY");
        int rv;

        if (key == NULL || secret == NULL)
                return mr_failure(err, -ENOENT, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set");
        rv = creds_source_copy(out->access_key, sizeof(out->access_key), key, "AWS_ACCESS_KEY_ID", err);
        if (rv == 0)
                rv = creds_source_copy(out->secret_key, sizeof(out->secret_key), secret, "AWS_SECRET_ACCESS_KEY", err);
        if (rv == 0)
                rv = creds_source_copy(out->session_token, sizeof(out->session_token),
                                       creds_source_environment("AWS_SESSION_TOKEN"), "AWS_SESSION_TOKEN", err);
        return rv;
}

static int from_web_identity(const struct mr_creds_config *config, struct mr_credentials *out, bool *renewable,
                             struct mr_error *err)
{
        const char *file = creds_source_environment("AWS_WEB_IDENTITY_TOKEN_FILE"),
                   *role = creds_source_environment("AWS_ROLE_ARN");

        if (file == NULL || role == NULL)
                return mr_failure(err, -ENOENT, "AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN are not set");
        *renewable = true;
        return mr_creds_web_identity(config, file, role, creds_source_environment("AWS_ROLE_SESSION_NAME"), out, err);
}

static int from_profile(const struct mr_creds_config *config, struct mr_credentials *out, bool *renewable,
                        struct mr_error *err)
{
        struct mr_profile *profile = malloc(sizeof(*profile));
        int rv;

        if (profile == NULL)
                return mr_failure_errno(err, -ENOMEM);
        rv = mr_profile_load(config->profile, profile, err);
        if (rv != 0)
                goto out;
        *renewable = true; /* who rotates keys writes the file again */
        if (profile->token_file[0] != '\0' && profile->role[0] != '\0')
                rv = mr_creds_web_identity(config, profile->token_file, profile->role,
                                           profile->session[0] != '\0' ? profile->session : NULL, out, err);
        else if (profile->role[0] != '\0' && profile->source_profile[0] != '\0')
                rv = mr_failure(err, -EACCES,
                                "profile %s takes a role of another profile, which this library does not do; "
                                "credential_process can",
                                config->profile);
        else if (profile->credentials.access_key[0] != '\0' && profile->credentials.secret_key[0] != '\0')
                *out = profile->credentials;
        else if (profile->process[0] != '\0')
                rv = mr_creds_process(config, profile->process, out, err);
        else
                rv = mr_failure(err, -ENOENT, "profile %s has no credentials", config->profile);
out:
        explicit_bzero(profile, sizeof(*profile));
        free(profile);
        return rv;
}

static int from_container(const struct mr_creds_config *config, struct mr_credentials *out, bool *renewable,
                          struct mr_error *err)
{
        if (creds_source_environment("AWS_CONTAINER_CREDENTIALS_FULL_URI") == NULL &&
            creds_source_environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") == NULL)
                return mr_failure(err, -ENOENT, "AWS_CONTAINER_CREDENTIALS_FULL_URI is not set");
        *renewable = true;
        return mr_creds_container(config, out, err);
}

static int from_caller(const struct mr_creds_config *config, struct mr_credentials *out, bool *renewable,
                       struct mr_error *err)
{
        int rv = config->fn(config->fn_arg, out);

        *renewable = true;
        out->access_key[sizeof(out->access_key) - 1] = '\0';
        out->secret_key[sizeof(out->secret_key) - 1] = '\0';
        out->session_token[sizeof(out->session_token) - 1] = '\0';
        return rv == 0 ? 0 : mr_failure(err, rv < 0 ? rv : -EACCES, "the program's source of credentials failed");
}

static int creds_source_options(const struct mr_creds_config *config, struct mr_credentials *out, bool *renewable,
                                struct mr_error *err)
{
        *out = config->given;
        return 0;
}

typedef int (*source_fn)(const struct mr_creds_config *config, struct mr_credentials *out, bool *renewable,
                         struct mr_error *err);

static int first_of_all(const struct mr_creds_config *config, struct mr_credentials *out, bool *renewable,
                        struct mr_error *err)
{
        static const source_fn order[] = {from_environment, from_web_identity, from_profile, from_container};
        int rv = -ENOENT;

        for (size_t i = 0; i < sizeof(order) / sizeof(order[0]) && rv == -ENOENT; i++) {
                memset(out, 0, sizeof(*out));
                *renewable = false;
                rv = order[i](config, out, renewable, err);
        }
        if (rv == -ENOENT)
                return mr_failure(err, -EACCES,
                                  "no credentials: neither in the environment (AWS_ACCESS_KEY_ID, "
                                  "AWS_SECRET_ACCESS_KEY) nor in profile %s",
                                  config->profile);
        return rv;
}

int mr_creds_fetch(const struct mr_creds_config *config, struct mr_credentials *out, bool *renewable,
                   struct mr_error *err)
{
        static const source_fn sources[] = {
                [MR_CREDENTIALS_AUTO] = first_of_all,        [MR_CREDENTIALS_EXPLICIT] = creds_source_options,
                [MR_CREDENTIALS_CALLBACK] = from_caller,     [MR_CREDENTIALS_ENVIRONMENT] = from_environment,
                [MR_CREDENTIALS_PROFILE] = from_profile,     [MR_CREDENTIALS_WEB_IDENTITY] = from_web_identity,
                [MR_CREDENTIALS_CONTAINER] = from_container,
        };
        struct mr_error ignored;
        int rv;

        if (err == NULL)
                err = &ignored;
        *renewable = false;
        rv = sources[config->source](config, out, renewable, err);
        return rv == -ENOENT ? mr_failure(err, -EACCES, "%s", strdupa(err->message)) : rv;
}
