/*
 * times.c - names of what a drive's time goes to.
 */
#include "engine/drive/drive.h"

#include <assert.h>

const char *const eng_drive_step_names[ENG_DRIVE_STEPS] = {
        [ENG_OP_APPEND] = "append",
        [ENG_OP_COMMIT] = "commit",
        [ENG_OP_LOOKUP] = "lookup",
        [ENG_OP_SCAN] = "scan",
        [ENG_OP_WRITE] = "write",
        [ENG_OP_SYNC] = "sync",
        [ENG_OP_READ] = "read",
        [ENG_OP_DISCARD] = "discard",
        [ENG_OP_TAIL] = "tail",
        [ENG_OP_RECORD] = "record",
        [ENG_OP_HELD] = "held",
        [ENG_OP_IDS] = "ids",
        [ENG_OP_OWNED] = "owned",
        [ENG_OP_SCRUB] = "scrub",
        [ENG_OP_FEATURES] = "features",
        [ENG_OP_OPEN] = "open",
        [ENG_DRIVE_LOG_WAIT] = "log_wait",
        [ENG_DRIVE_LOG_WRITE] = "log_write",
        [ENG_DRIVE_DATA_FLUSH] = "data_flush",
        [ENG_DRIVE_CHECKSUM] = "checksum",
};

const char *eng_drive_step_name(unsigned step)
{
        assert(step < ENG_DRIVE_STEPS);
        return eng_drive_step_names[step];
}
