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

#define PEOPLE_BATCH 100u /* entries of one call: some tenths of a second, for which nobody else is answered */

struct people_refusal {
        int rv;
        unsigned status;
        const char *code, *message;
};

static struct people_refusal people_refusal_of(int rv)
{
        static const struct people_refusal rows[] = {
                {-EINVAL, 400, "BadEntry", "this is no entry of the directory, or one of another build"},
                {-E2BIG, 400, "BadEntry", "the entry is too long"},
                {-ENOENT, 409, "NoSuchEntity", "it is not there, or names somebody who is not"},
                {-EEXIST, 409, "EntityAlreadyExists", "it is there already"},
                {-ENOTUNIQ, 409, "EntityAlreadyExists", "somebody has its id: under another name, or in another account"},
                {-EILSEQ, 400, "BadId", "an id has letters and digits, one at least, and nothing else"},
                {-EREMCHG, 409, "NameOfAnother", "a name in it is somebody else's here"},
                {-EBUSY, 409, "DeleteConflict", "delete what belongs to it first"},
                {-EDQUOT, 409, "LimitExceeded", "there are as many as there can be"},
                {-ENOSPC, 409, "LimitExceeded", "there are as many as there can be"},
                {-EPERM, 409, "NotPermitted", "the first account and its root are those of the settings"},
                {-ENOKEY, 409, "NoKey", "the server has no key to seal secrets with"},
                {-EAGAIN, 503, "NotReady", "the directory is being read"},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (rows[i].rv == rv)
                        return rows[i];
        return (struct people_refusal){rv, 503, "Unavailable", strerror(-rv)};
}

static struct admin_answer people_refused(int rv)
{
        struct people_refusal refusal = people_refusal_of(rv);

        return srv_admin_error(refusal.status, refusal.code, refusal.message);
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

/* What became of one entry. 0; else it was refused, which *out says as well. */
static int people_put(struct admin_request *request, const char *text, size_t len, bool look, json_t **out)
{
        static const char *const results[] = {
                [GW_PEOPLE_NEW] = "new",
                [GW_PEOPLE_SAME] = "same",
                [GW_PEOPLE_DIFFERS] = "differs",
                [GW_PEOPLE_ANOTHER] = "differs",
        };
        enum gw_people_put result = GW_PEOPLE_NEW;
        struct people_refusal refusal;
        bool opens = true;
        int rv = len == 0 || memchr(text, '\0', len) != NULL
                         ? -EINVAL
                         : gw_people_put(request->admin->source.gateway, text, len, look, &result, &opens);

        if (rv == 0) {
                *out = json_pack("{s:s, s:b}", "result", results[result], "opens", opens);
                if (result == GW_PEOPLE_ANOTHER)
                        json_object_set_new(*out, "another", json_true());
        } else {
                refusal = people_refusal_of(rv);
                *out = json_pack("{s:s, s:s}", "error", refusal.code, "message", refusal.message);
        }
        return rv;
}

/* Each entry of the list, one after the other; one that is refused stops no other. */
static struct admin_answer people_put_batch(struct admin_request *request, bool look)
{
        json_t *entries = json_loadb(request->body, request->body_len, JSON_ALLOW_NUL, NULL), *results, *one, *text;
        size_t i;

        if (!json_is_array(entries) || json_array_size(entries) > PEOPLE_BATCH) {
                json_decref(entries);
                return srv_admin_error(400, "BadRequest", "a list of entries has at most 100, each a text");
        }
        results = json_array();
        json_array_foreach(entries, i, text)
        {
                one = NULL;
                people_put(request, json_is_string(text) ? json_string_value(text) : "", json_string_length(text), look,
                           &one);
                json_array_append_new(results, one);
        }
        json_decref(entries);
        return srv_admin_json(200, json_pack("{s:o}", "results", results));
}

/* The body: an entry, or a list of entries as JSON, which no entry begins like. */
struct admin_answer srv_admin_post_people(struct admin_request *request)
{
        bool look = s3_str_eq(request->parts.query, S3_STR("only=look"));
        json_t *one = NULL;
        int rv;

        if (request->parts.query.len > 0 && !look)
                return srv_admin_error(400, "BadRequest", "the only parameter is only=look");
        if (!look && is_read_only(request))
                return read_only_refused();
        if (request->body == NULL || request->body_len == 0)
                return people_refused(-EINVAL);
        if (request->body[0] == '[')
                return people_put_batch(request, look);
        rv = people_put(request, request->body, request->body_len, look, &one);
        if (rv == 0)
                return srv_admin_json(200, one);
        json_decref(one);
        return people_refused(rv);
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
                return srv_admin_error(
                        403, "AccessDenied",
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
