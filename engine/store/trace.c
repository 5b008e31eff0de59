/*
 * trace.c - the engine's words for what trace records say in numbers (loop_trace.h). Any thread.
 */
#include "engine/drive/drive.h"
#include "engine/txn/txn.h"

#include <stdio.h>

static const char *const txn_states[] = {
        [ENG_TXN_POSTED] = "posted",   [ENG_TXN_PARKED] = "parked", [ENG_TXN_LOCKING] = "locking",
        [ENG_TXN_PREPARE] = "prepare", [ENG_TXN_APPEND] = "append", [ENG_TXN_COMMIT] = "commit",
        [ENG_TXN_ANSWER] = "answer",
};

static const char *const recovery_phases[ENG_PHASES] = {
        [ENG_PHASE_NEW] = "new",       [ENG_PHASE_OPENING] = "opening", [ENG_PHASE_EPOCH] = "epoch",     [ENG_PHASE_RECONCILE] = "reconcile",
        [ENG_PHASE_CONFIG] = "config", [ENG_PHASE_OPEN] = "open",       [ENG_PHASE_WAITING] = "waiting",
};
static const char *const catch_up_steps[] = {"ended", "entering", "comparing", "becomes-member"}; /* enum catch_up_step of epoch/catch_up.c */

bool eng_trace_word(enum lp_trace_event event, unsigned word, uint64_t value, char out[LP_TRACE_WORD])
{
        if (word != 0)
                return false;
        if (event == LP_TRACE_TXN_STATE && value < sizeof(txn_states) / sizeof(txn_states[0])) {
                snprintf(out, LP_TRACE_WORD, "%s", txn_states[value]);
                return true;
        }
        if ((event == LP_TRACE_OP_SUBMIT || event == LP_TRACE_OP_DONE) && (value & 0xff) < ENG_OP_KINDS) {
                snprintf(out, LP_TRACE_WORD, "%s/%u", eng_drive_step_names[value & 0xff], (unsigned)(value >> 8));
                return true;
        }
        if (event == LP_TRACE_RECOVERY && value < ENG_PHASES) {
                snprintf(out, LP_TRACE_WORD, "%s", recovery_phases[value]);
                return true;
        }
        if (event == LP_TRACE_CATCH_UP && value < sizeof(catch_up_steps) / sizeof(catch_up_steps[0])) {
                snprintf(out, LP_TRACE_WORD, "%s", catch_up_steps[value]);
                return true;
        }
        return false;
}
