/*
 * admin_switches.c - what the admin listener answers about the switches: /admin/v1/read-only,
 * /admin/v1/maintenance.
 *
 * On the admin thread. A change is in force before the answer, which waits at most a few seconds
 * for the drives that keep it (switches.h).
 */
#include "server/admin_private.h"

#include "gateway.h"
#include "server/switches.h"

#include <errno.h>
#include <string.h>

static struct admin_answer switch_answer(struct admin_request *request, enum srv_switch which)
{
        const struct srv_statistics_source *source = &request->admin->source;
        struct srv_switch_state state = srv_switch_read(source->switches, which);

        return srv_admin_json(200, json_pack("{s:b, s:b, s:b, s:o, s:o}", "on", state.on, "by_setting", state.by_setting, "kept", state.kept,
                                             "changes_under_way", srv_admin_number(srv_switches_changing(source->switches)), "requests_under_way",
                                             srv_admin_number(gw_active(source->gateway))));
}

static struct admin_answer switch_change(struct admin_request *request, enum srv_switch which)
{
        bool on = s3_str_eq(request->parts.query, S3_STR("state=on"));
        int rv;

        if (!on && !s3_str_eq(request->parts.query, S3_STR("state=off")))
                return srv_admin_error(400, "BadRequest", "state=on or state=off must be given");
        rv = srv_switch_set(request->admin->source.switches, which, on);
        if (rv == -EXDEV)
                return srv_admin_error(400, "BadRequest", "switches are set at the leader of the first pool");
        if (rv == -EPERM)
                return srv_admin_error(409, "SetByConfiguration", "the configuration says read_only = yes: change it there, and restart");
        if (rv != 0)
                return srv_admin_error(503, "NotKept", "it is in force, but no drive in use has stored it yet: a restart may find what was before. Try again");
        return switch_answer(request, which);
}

struct admin_answer srv_admin_get_read_only(struct admin_request *request)
{
        return switch_answer(request, SRV_READ_ONLY);
}

struct admin_answer srv_admin_post_read_only(struct admin_request *request)
{
        return switch_change(request, SRV_READ_ONLY);
}

struct admin_answer srv_admin_get_maintenance(struct admin_request *request)
{
        return switch_answer(request, SRV_MAINTENANCE);
}

struct admin_answer srv_admin_post_maintenance(struct admin_request *request)
{
        return switch_change(request, SRV_MAINTENANCE);
}
