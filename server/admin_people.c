/*
 * admin_people.c - what the admin listener answers about the directory: entries taken out and put back, of which
 * millrace admin config makes a file, and accounts, which IAM has no actions for. On the admin thread; each call waits
 * for the first loop, some seconds at most.
 */
#include "server/admin_private.h"

#include "gateway.h"
#include "server/switches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static struct admin_answer people_refused(int rv)
{
        static const struct {
                int rv;
                unsigned status;
                const char *code, *message;
        } rows[] = {
                {-EINVAL, 400, "BadEntry", "this is no entry of the directory, or one of another build"},
                {-E2BIG, 400, "BadEntry", "the entry is too long"},
                {-ENOENT, 409, "NoSuchEntity", "it is not there, or names somebody who is not"},
                {-EEXIST, 409, "EntityAlreadyExists", "it is there already"},
                {-EBUSY, 409, "DeleteConflict", "delete what belongs to it first"},
                {-EDQUOT, 409, "LimitExceeded", "there are as many as there can be"},
                {-ENOSPC, 409, "LimitExceeded", "there are as many as there can be"},
                {-EPERM, 409, "NotPermitted", "the first account and its root are those of the settings"},
                {-ENOKEY, 409, "NoKey", "the server has no key to seal secrets with"},
                {-EAGAIN, 503, "NotReady", "the directory is being read"},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (rows[i].rv == rv)
                        return srv_admin_error(rows[i].status, rows[i].code, rows[i].message);
        return srv_admin_error(503, "Unavailable", strerror(-rv));
}

/* Changes go on for nobody while the store is read-only. */
static bool is_read_only(struct admin_request *request)
{
        return srv_switch_read(request->admin->source.switches, SRV_READ_ONLY).on;
}

static struct admin_answer read_only_refused(void)
{
        return srv_admin_error(409, "ReadOnly", "the store takes no changes: millrace admin read-only off");
}

/* ---- entries --------------------------------------------------------------------------------- */

static json_t *texts_json(const char *texts, size_t len)
{
        json_t *list = json_array();
        size_t at = 0;

        while (at < len) {
                size_t one = strlen(texts + at);

                json_array_append_new(list, json_stringn(texts + at, one));
                at += one + 1;
        }
        return list;
}

struct admin_answer srv_admin_get_people(struct admin_request *request)
{
        struct admin_parameters *p = srv_admin_parameters(request);
        uint64_t kind = 0, position = 0;
        uint32_t at;
        char *texts = NULL;
        bool more, fine;
        size_t len;
        json_t *json;
        int rv;

        fine = p != NULL && srv_admin_parameter_number(p, "kind", &kind) &&
               srv_admin_parameter_number(p, "position", &position) && kind <= 255 && position <= UINT32_MAX;
        free(p);
        if (!fine)
                return srv_admin_error(400, "BadRequest", "kind=NUMBER and position=NUMBER must be given");
        at = (uint32_t)position;
        rv = gw_people_texts(request->admin->source.gateway, (unsigned)kind, &at, &more, &texts, &len);
        if (rv != 0)
                return people_refused(rv);
        json = json_pack("{s:o, s:o, s:b}", "entries", texts_json(texts, len), "position", srv_admin_number(at), "more",
                         more);
        free(texts);
        return srv_admin_json(200, json);
}

struct admin_answer srv_admin_post_people(struct admin_request *request)
{
        static const char *const results[] = {
                [GW_PEOPLE_NEW] = "new", [GW_PEOPLE_SAME] = "same", [GW_PEOPLE_DIFFERS] = "differs"};
        bool look = s3_str_eq(request->parts.query, S3_STR("only=look")), opens = true;
        enum gw_people_put result = GW_PEOPLE_NEW;
        int rv;

        if (request->parts.query.len > 0 && !look)
                return srv_admin_error(400, "BadRequest", "the only parameter is only=look");
        if (!look && is_read_only(request))
                return read_only_refused();
        if (request->body == NULL || memchr(request->body, '\0', request->body_len) != NULL)
                return people_refused(-EINVAL);
        rv = gw_people_put(request->admin->source.gateway, request->body, request->body_len, look, &result, &opens);
        if (rv != 0)
                return people_refused(rv);
        return srv_admin_json(200, json_pack("{s:s, s:b}", "result", results[result], "opens", opens));
}

/* ---- accounts -------------------------------------------------------------------------------- */

static struct admin_answer admin_account_create(struct admin_request *request, const char *title)
{
        struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
        socklen_t size = sizeof(peer);
        struct gw_account_made made;
        json_t *json;
        int rv;

        if (getpeername(request->fd, (struct sockaddr *)&peer, &size) != 0 ||
            !gw_may_tell_secret(request->admin->tls != NULL, (struct sockaddr *)&peer))
                return srv_admin_error(403, "AccessDenied",
                                       "secret keys are given out over TLS, or to the server's own machine, and not else");
        rv = gw_account_create(request->admin->source.gateway, title, &made);
        if (rv != 0)
                return people_refused(rv);
        json = json_pack("{s:s, s:o, s:s, s:s, s:s}", "id", made.id, "name", srv_admin_text(made.title), "canonical_id",
                         made.canonical_id, "access_key", made.access_key, "secret_key", made.secret_key);
        explicit_bzero(&made, sizeof(made));
        return srv_admin_json(200, json);
}

struct admin_answer srv_admin_post_accounts(struct admin_request *request)
{
        struct admin_parameters *p = srv_admin_parameters(request);
        char title[GW_ACCOUNT_TITLE_MAX + 1] = "", id[16] = "";
        bool create = p != NULL && srv_admin_parameter(p, "create", title, sizeof(title)) && title[0] != '\0';
        bool delete = p != NULL && srv_admin_parameter(p, "delete", id, sizeof(id));
        int rv;

        free(p);
        if (create == delete)
                return srv_admin_error(400, "BadRequest", "create=NAME or delete=ID must be given");
        if (is_read_only(request))
                return read_only_refused();
        if (create)
                return admin_account_create(request, title);
        rv = gw_account_delete(request->admin->source.gateway, id);
        return rv == 0 ? srv_admin_json(200, json_pack("{s:s}", "deleted", id)) : people_refused(rv);
}
