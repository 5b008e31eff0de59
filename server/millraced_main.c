/*
 * millraced_main.c - millraced, the daemon.
 */
#include "server/daemon.h"
#include "server/doctor_cluster.h"
#include "server/daemon_log.h"
#include "server/node_process.h"
#include "server/node_reseed.h"
#include "server/show_client.h"

#include "loop_trace.h"
#include "s3_json.h"

#include <stdio.h>

static int print(enum srv_action action)
{
        if (action == SRV_HELP)
                srv_print_help(stdout);
        else if (action == SRV_VERSION)
                printf("millraced %s\n", MILLRACE_VERSION);
        else if (action == SRV_PRINT_SAMPLE_CONFIG)
                srv_print_sample_config(stdout);
        else if (action == SRV_PRINT_SETTINGS_MARKDOWN)
                srv_print_settings_markdown(stdout);
        else if (action == SRV_PRINT_SETTINGS_MAN)
                srv_print_settings_man(stdout);
        else if (action == SRV_PRINT_METRICS_MARKDOWN)
                srv_print_metrics_markdown(stdout);
        return fflush(stdout) == 0 ? 0 : SRV_EXIT_FAILED;
}

/* What an operator asks for of credentials and keys: nothing is served. */
static int administer(enum srv_action action, const struct srv_settings *settings)
{
        struct srv_error error = {""};
        int rv;

        if (action == SRV_SHOW_CREDENTIALS)
                rv = srv_credentials_show(settings, stdout, &error);
        else if (action == SRV_ROTATE_CREDENTIALS)
                rv = srv_credentials_rotate(settings, &error);
        else if (action == SRV_SHOW_CLIENT)
                rv = srv_show_client(settings, stdout, &error);
        else
                rv = srv_credentials_rotate_key(settings, &error);
        if (rv != 0)
                srv_log(SRV_LOG_ERROR, "%s", error.text);
        return rv != 0 ? SRV_EXIT_NOT_STARTED : fflush(stdout) == 0 ? 0 : SRV_EXIT_FAILED;
}

int main(int argc, char *argv[])
{
        struct srv_settings settings;
        struct srv_error error = {"out of memory"};
        enum srv_action action = SRV_RUN;
        sigset_t signals, before;
        int status, rv;

        srv_signals(&signals);
        pthread_sigmask(SIG_BLOCK, &signals, &before); /* a stop that comes early is taken when there is somebody to end */
        s3_json_begin();
        rv = srv_settings_init(&settings);
        if (rv == 0)
                rv = srv_settings_load(&settings, argc, (const char *const *)argv, &action, &error);
        if (rv == 0 && action != SRV_RUN)
                pthread_sigmask(SIG_SETMASK, &before, NULL); /* nothing serves: it is interrupted as any program */
        if (rv != 0) {
                srv_log(SRV_LOG_ERROR, "%s", error.text);
                status = SRV_EXIT_NOT_STARTED;
        } else if (action == SRV_INIT_CLUSTER) {
                status = srv_cluster_init(&settings);
        } else if (action == SRV_RESEED_CLUSTER) {
                status = srv_cluster_reseed(&settings);
        } else if (action == SRV_ADOPT_STORE) {
                status = srv_cluster_adopt(&settings);
        } else if (action == SRV_DOCTOR_CLUSTER) {
                status = srv_doctor_cluster(&settings);
        } else if (action >= SRV_SHOW_CREDENTIALS) {
                status = administer(action, &settings);
        } else if (action != SRV_RUN) {
                status = print(action);
        } else {
                srv_log_set_level((enum srv_log_level)settings.log_level);
                lp_trace_on_abort();
                if (*settings.cluster != '\0' && *settings.lead == '\0')
                        status = (int)srv_node_run(&settings, argv);
                else
                        status = (int)srv_daemon_run(&settings);
        }
        srv_settings_free(&settings);
        return status;
}
