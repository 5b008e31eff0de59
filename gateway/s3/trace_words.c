/*
 * trace_words.c - the gateway's words for what trace records say in numbers (loop_trace.h). Any
 * thread.
 */
#include "gateway/http/http_request.h"
#include "gateway/s3/route.h"

#include <stdio.h>

static const char *const states[] = {
        [GW_LINE] = "line", [GW_BEGIN] = "begin",   [GW_CHECKED] = "checked", [GW_BODY] = "body", [GW_DRAIN] = "drain",
        [GW_RUN] = "run",   [GW_ANSWER] = "answer", [GW_SENDING] = "sending", [GW_GONE] = "gone",
};

bool gw_trace_word(enum lp_trace_event event, unsigned word, uint64_t value, char out[LP_TRACE_WORD])
{
        const char *name;

        if (event != LP_TRACE_HTTP_STATE || (word == 0 && value >= sizeof(states) / sizeof(states[0])))
                return false;
        if (word == 0)
                name = states[value];
        else
                name = value < gw_op_count ? gw_ops[value].name : gw_op_none.name;
        snprintf(out, LP_TRACE_WORD, "%s", name);
        return true;
}
