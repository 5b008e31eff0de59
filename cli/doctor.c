/*
 * doctor.c - `millrace doctor`: looks at everything a store or its client needs and says what to
 * mend. Nothing is changed but for one file made and deleted in each drive folder named. Main
 * thread only.
 */
#include "doctor.h"

#include <stdarg.h>
#include <string.h>

void cli_find(struct cli_report *report, enum cli_finding finding, const char *what, const char *mend,
              const char *format, ...)
{
        static const char *const marks[] = {"ok", "note", "MEND"};
        char text[1024], printable[sizeof(text)];
        va_list args;

        report->notes += finding == CLI_NOTE;
        report->mends += finding == CLI_MEND;
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        printf("%-4s  %-16s %s\n", marks[finding], what, cli_printable(stdout, text, printable, sizeof(printable)));
        if (mend != NULL && finding != CLI_GOOD)
                printf("      %-16s -> %s\n", "", mend);
        fflush(stdout); /* what takes a while is shown as it comes */
}

int cli_doctor(struct cli_call *call)
{
        struct cli_report report = {0};
        bool is_node = false;

        cli_doctor_kernel(&report);
        cli_doctor_limits(&report);
        cli_doctor_rdma(&report, NULL);
        cli_doctor_verbs(&report);
        cli_doctor_clock(&report);
        if (call->drive_count == 0 && call->settings_file == NULL)
                cli_find(&report, CLI_NOTE, "drives", "name the folders of a store's drives with --drive DIR",
                         "none examined");
        for (unsigned i = 0; i < call->drive_count; i++)
                cli_doctor_drive(&report, call->drives[i]);
        if (call->settings_file != NULL)
                is_node = cli_doctor_node(&report, call->settings_file);
        if (cli_doctor_endpoint(&report, call->client, &call->settings) && is_node)
                cli_doctor_leader(&report, call->client);
        printf("\n%u to mend, %u notes.\n", report.mends, report.notes);
        return report.mends == 0 ? CLI_OK : CLI_FAILED;
}
