/*
 * call.c - what all actions of IAM share: answers and errors as IAM's, finding and changing entities, pages.
 * On the request's loop; changes and lists come back to it.
 */
#include "gateway/iam/call.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ANSWER_MAX   (4u << 20)
#define ATTEMPTS_MAX 16u
#define PAGE_DEFAULT 100u

#define IAM_NAMESPACE "https://iam.amazonaws.com/doc/2010-05-08/"
#define STS_NAMESPACE "https://sts.amazonaws.com/doc/2011-06-15/"

/* ---- errors ---------------------------------------------------------------------------------- */

/* Codes and their statuses, as the pages "Common errors" and those of the actions list them. */
static const struct {
        const char *code;
        unsigned status;
} iam_errors[] = {
        {"AccessDenied", 403},
        {"ConcurrentModification", 409},
        {"DeleteConflict", 409},
        {"EntityAlreadyExists", 409},
        {"EntityTemporarilyUnmodifiable", 409},
        {"ExpiredToken", 403},
        {"ExpiredTokenException", 400},
        {"IDPCommunicationError", 400},
        {"IncompleteSignature", 400},
        {"InvalidAction", 400},
        {"InvalidClientTokenId", 403},
        {"InvalidIdentityToken", 400},
        {"InvalidInput", 400},
        {"LimitExceeded", 409},
        {"MalformedInput", 400},
        {"MalformedPolicyDocument", 400},
        {"MalformedQueryString", 404},
        {"MissingAction", 400},
        {"MissingAuthenticationToken", 403},
        {"NoSuchEntity", 404},
        {"PackedPolicyTooLarge", 400},
        {"RequestEntityTooLarge", 413},
        {"RequestExpired", 400},
        {"ServiceFailure", 500},
        {"ServiceUnavailable", 503},
        {"SignatureDoesNotMatch", 403},
        {"ValidationError", 400},
};

static unsigned iam_status(const char *code)
{
        for (unsigned i = 0; i < sizeof(iam_errors) / sizeof(iam_errors[0]); i++)
                if (strcmp(iam_errors[i].code, code) == 0)
                        return iam_errors[i].status;
        assert(!"a code that is not in the table");
        return 500;
}

static void iam_reply(struct gw_request *req, unsigned status, struct s3_xml *xml)
{
        char *text;
        size_t len;

        if (s3_xml_take(xml, &text, &len) != 0) {
                s3_xml_free(xml);
                gw_reply_no_memory(req);
                return;
        }
        gw_reply_header(req, "x-amzn-RequestId", req->id);
        gw_reply_header(req, "Content-Type", "text/xml");
        gw_reply_header(req, "Cache-Control", "no-store"); /* a secret may be in it, and a GET have asked */
        gw_reply_buffer(req, status, text, len);
}

void iam_fail_request(struct gw_request *req, bool sts, const char *code, const char *message)
{
        unsigned status = iam_status(code);
        struct s3_xml xml;

        s3_xml_init(&xml, 64 << 10);
        s3_xml_raw(&xml, sts ? S3_STR("<ErrorResponse xmlns=\"" STS_NAMESPACE "\">")
                             : S3_STR("<ErrorResponse xmlns=\"" IAM_NAMESPACE "\">"));
        s3_xml_open(&xml, "Error");
        s3_xml_textz(&xml, "Type", status < 500 ? "Sender" : "Receiver");
        s3_xml_textz(&xml, "Code", code);
        s3_xml_textz(&xml, "Message", message != NULL ? message : code);
        s3_xml_close(&xml, "Error");
        s3_xml_textz(&xml, "RequestId", req->id);
        s3_xml_close(&xml, "ErrorResponse");
        req->answer.error_code = code;
        iam_reply(req, status, &xml);
}

void iam_fail(struct iam_call *call, const char *code, const char *message)
{
        explicit_bzero(call->secret, sizeof(call->secret));
        iam_fail_request(call->req, call->sts, code, message);
}

static const char *const kind_words[] = {
        "account", "user", "access key", "group", "role", "policy", "OpenID Connect provider"};
_Static_assert(sizeof(kind_words) / sizeof(kind_words[0]) == GW_ENTITY_KINDS_END - GW_ACCOUNT,
               "one word for each kind");

static const char *kind_word(const struct iam_call *call)
{
        unsigned kind = call->who.kind;

        return kind >= GW_ACCOUNT && kind < GW_ENTITY_KINDS_END ? kind_words[kind - GW_ACCOUNT] : "entity";
}

/* As whoever asks knows it. */
static const char *entity_called(const struct iam_call *call)
{
        if (call->who.kind != GW_PROVIDER)
                return call->who.name;
        return call->in.value[IAM_P_URL] != NULL ? call->in.value[IAM_P_URL] : call->in.value[IAM_P_PROVIDER];
}

void iam_refuse(struct iam_call *call, int rv)
{
        switch (rv) {
        case -EEXIST:
                iam_fail(call, "EntityAlreadyExists",
                         call->who.kind == GW_PROVIDER
                                 ? gw_printf(call->req, "Provider with url %s already exists.", entity_called(call))
                                 : gw_printf(call->req, "The %s with name %s already exists.", kind_word(call),
                                             entity_called(call)));
                break;
        case -ENOENT:
                iam_fail(call, "NoSuchEntity",
                         gw_printf(call->req, "The %s with name %s cannot be found.", kind_word(call),
                                   entity_called(call)));
                break;
        case -EBUSY:
                iam_fail(call, "DeleteConflict",
                         "Cannot delete entity, must delete or detach what belongs to it first.");
                break;
        case -EDQUOT:
        case -E2BIG:
        case -ENOSPC:
                iam_fail(call, "LimitExceeded", "Cannot exceed the quota of what this would add to.");
                break;
        case -EINVAL:
                iam_fail(call, "ValidationError", "A parameter has a value that is not valid here.");
                break;
        case -ESTALE:
                iam_fail(call, "EntityTemporarilyUnmodifiable", "The entity is being changed by others. Try again.");
                break;
        case -EPERM:
                iam_fail(call, "AccessDenied", "The root user's keys are those of the server's settings.");
                break;
        case -EAGAIN:
        case -EHOSTDOWN:
        case -ENOMEM:
                iam_fail(call, "ServiceUnavailable", "The service cannot do this now. Try again.");
                break;
        default:
                iam_fail(call, "ServiceFailure", "The request processing has failed because of an unknown error.");
        }
}

/* ---- answers --------------------------------------------------------------------------------- */

/* The name of the action with "Response" or "Result" behind it. */
struct iam_element {
        char text[64];
};

static struct iam_element element_of(const struct iam_call *call, const char *suffix)
{
        struct iam_element element;

        snprintf(element.text, sizeof(element.text), "%s%s", call->action->name, suffix);
        return element;
}

void iam_answer_begin(struct iam_call *call, struct s3_xml *xml, bool result)
{
        assert(call->action != NULL && call->req->answer.status == 0);
        s3_xml_init(xml, ANSWER_MAX);
        s3_xml_raw(xml, S3_STR("<"));
        s3_xml_raw(xml, s3_str_of(element_of(call, "Response").text));
        s3_xml_raw(xml, call->sts ? S3_STR(" xmlns=\"" STS_NAMESPACE "\">") : S3_STR(" xmlns=\"" IAM_NAMESPACE "\">"));
        if (result)
                s3_xml_open(xml, element_of(call, "Result").text);
}

void iam_answer_end(struct iam_call *call, struct s3_xml *xml, bool result)
{
        if (result)
                s3_xml_close(xml, element_of(call, "Result").text);
        s3_xml_open(xml, "ResponseMetadata");
        s3_xml_textz(xml, "RequestId", call->req->id);
        s3_xml_close(xml, "ResponseMetadata");
        s3_xml_close(xml, element_of(call, "Response").text);
        iam_reply(call->req, 200, xml);
        explicit_bzero(call->secret, sizeof(call->secret));
}

void iam_answer(struct iam_call *call, iam_show show)
{
        struct s3_xml xml;
        int rv;

        iam_answer_begin(call, &xml, show != NULL);
        rv = show != NULL ? show(call, &xml) : 0;
        if (rv == 0) {
                iam_answer_end(call, &xml, show != NULL);
                return;
        }
        s3_xml_free(&xml);
        iam_refuse(call, rv);
}

/* ---- finding --------------------------------------------------------------------------------- */

const char *iam_name(const struct iam_call *call, unsigned kind)
{
        const char *name = kind == GW_USER    ? call->in.value[IAM_P_USER]
                           : kind == GW_GROUP ? call->in.value[IAM_P_GROUP]
                           : kind == GW_ROLE  ? call->in.value[IAM_P_ROLE]
                                              : call->in.value[IAM_P_POLICY];

        return name == NULL && kind == GW_USER ? call->caller : name;
}

struct gw_entity_name iam_who(const struct iam_call *call, unsigned kind, const char *name)
{
        struct gw_entity_name who = {.kind = kind};

        if (kind != GW_ACCESS_KEY)
                snprintf(who.account, sizeof(who.account), "%s", call->account);
        snprintf(who.name, sizeof(who.name), "%s", name);
        return who;
}

const struct gw_entity *iam_find(struct iam_call *call, unsigned kind, const char *name)
{
        const struct gw_entity *entity;
        int rv;

        call->who = iam_who(call, kind, name);
        call->canned = NULL;
        rv = gw_people_find(call->req->loop, &call->who, &entity, &call->generation);
        if (rv == 0)
                return entity;
        iam_refuse(call, rv);
        return NULL;
}

const struct gw_entity *iam_find_policy(struct iam_call *call, const char *arn)
{
        return iam_find_policy_of(call, call->account, arn);
}

const struct gw_entity *iam_find_policy_of(struct iam_call *call, const char *account, const char *arn)
{
        const struct gw_entity *policy;
        struct gw_entity_name who;
        int rv = gw_entity_of_arn(arn, &who);

        call->canned = iam_canned_find(arn);
        if (call->canned != NULL)
                return call->canned;
        if (rv != 0 && strncmp(arn, GW_AWS_POLICY_ARN, sizeof(GW_AWS_POLICY_ARN) - 1) != 0) {
                iam_fail(call, "ValidationError", gw_printf(call->req, "ARN %s is not valid.", arn));
                return NULL;
        }
        if (rv == 0 && who.kind == GW_POLICY && strcmp(who.account, account) == 0)
                rv = gw_people_find_arn(call->req->loop, arn, &policy, &call->generation);
        else
                rv = -ENOENT;
        if (rv == 0) {
                call->who = who;
                return policy;
        }
        if (rv == -ENOENT)
                iam_fail(call, "NoSuchEntity",
                         gw_printf(call->req, "Policy %s does not exist or is not attachable.", arn));
        else
                iam_refuse(call, rv);
        return NULL;
}

int iam_found(struct iam_call *call, const struct gw_entity **out)
{
        if (call->canned == NULL)
                return gw_people_find(call->req->loop, &call->who, out, NULL);
        *out = call->canned;
        return 0;
}

/* ---- changing -------------------------------------------------------------------------------- */

static void refuse_canned(struct iam_call *call)
{
        iam_fail(call, "AccessDenied", "Policies that are always there cannot be changed or deleted.");
}

struct gw_entity *iam_edit(struct iam_call *call, const struct gw_entity *entity)
{
        struct gw_entity *copy;

        if (entity == call->canned) {
                refuse_canned(call);
                return NULL;
        }
        assert(entity->who.kind == call->who.kind);
        copy = gw_alloc(call->req, sizeof(*copy));
        if (copy != NULL)
                *copy = *entity;
        for (unsigned i = 0; copy != NULL && i < GW_SETS; i++) {
                const struct gw_pairs *set = &entity->sets[i];

                copy->sets[i].list = gw_alloc(call->req, (set->count + 1 + IAM_TAGS_MAX) * sizeof(struct gw_pair));
                if (copy->sets[i].list == NULL)
                        copy = NULL;
                else if (set->count > 0)
                        memcpy(copy->sets[i].list, set->list, set->count * sizeof(struct gw_pair));
        }
        if (copy == NULL)
                iam_refuse(call, -ENOMEM);
        return copy;
}

struct gw_entity *iam_find_edit(struct iam_call *call, unsigned kind, const char *name)
{
        const struct gw_entity *entity = iam_find(call, kind, name);

        return entity != NULL ? iam_edit(call, entity) : NULL;
}

struct gw_entity *iam_find_edit_policy(struct iam_call *call, const char *arn)
{
        const struct gw_entity *policy = iam_find_policy(call, arn);

        return policy != NULL ? iam_edit(call, policy) : NULL;
}

struct gw_pair *iam_pair_find(const struct gw_pairs *set, const char *name)
{
        for (unsigned i = 0; i < set->count; i++)
                if (strcasecmp(set->list[i].name, name) == 0)
                        return &set->list[i];
        return NULL;
}

struct gw_pair *iam_tag_find(const struct gw_entity *holder, const char *name)
{
        const struct gw_pairs *set = &holder->sets[GW_SET_TAGS];

        if (holder->who.kind != GW_PROVIDER)
                return iam_pair_find(set, name);
        for (unsigned i = 0; i < set->count; i++)
                if (strcmp(set->list[i].name, name) == 0)
                        return &set->list[i];
        return NULL;
}

void iam_pair_put(struct gw_pairs *set, const char *name, const char *text, int64_t ms)
{
        struct gw_pair *pair = iam_pair_find(set, name);

        if (pair == NULL)
                pair = &set->list[set->count++];
        *pair = (struct gw_pair){.name = name, .text = text, .ms = ms};
}

void iam_pair_drop(struct gw_pairs *set, struct gw_pair *pair)
{
        size_t behind = set->count - 1 - (size_t)(pair - set->list);

        memmove(pair, pair + 1, behind * sizeof(*pair));
        set->count--;
}

static void iam_changed(void *arg, int rv)
{
        struct iam_call *call = arg;

        if (!gw_back(call->req))
                return;
        if (rv == 0)
                iam_answer(call, call->show);
        else if (rv != -ESTALE || ++call->attempts >= ATTEMPTS_MAX)
                iam_refuse(call, rv);
        else if (iam_allowed(call)) /* it is another one now, by its tags, for example */
                call->action->run(call);
}

static void iam_asked(struct iam_call *call, int rv)
{
        if (rv != 0)
                iam_refuse(call, rv);
}

void iam_create(struct iam_call *call, const struct gw_entity *entity, iam_show show)
{
        const struct gw_people_terms decided = iam_decided(call);

        call->show = show;
        call->canned = NULL; /* a boundary may have been */
        iam_asked(call, gw_people_create(call->req->loop, entity, &decided, iam_changed, call));
}

void iam_create_named(struct iam_call *call, struct gw_entity *entity, unsigned kind, const char *prefix)
{
        const char *path = call->in.value[IAM_P_PATH];
        char id[IAM_ID_LEN + 1];

        call->who = entity->who = iam_who(call, kind, iam_name(call, kind));
        entity->path = path != NULL ? path : "/";
        entity->id = id;
        entity->sets[GW_SET_TAGS] = (struct gw_pairs){call->in.tag_count, call->in.tags};
        if (!iam_make_id(prefix, IAM_ID_LEN, id))
                iam_refuse(call, -ENOMEM);
        else
                iam_create(call, entity, iam_show_who);
}

void iam_replace(struct iam_call *call, const struct gw_entity *entity, iam_show show)
{
        const struct gw_people_terms decided = iam_decided(call);

        call->show = show;
        iam_asked(call, gw_people_change(call->req->loop, entity, call->generation, &decided, iam_changed, call));
}

void iam_replace_named(struct iam_call *call, const struct gw_entity *entity, const char *name, const char *path)
{
        const struct gw_people_terms decided = iam_decided(call);
        struct gw_entity *edited = iam_edit(call, entity);

        if (edited == NULL)
                return;
        if (path != NULL)
                edited->path = path;
        if (name == NULL || strcmp(name, entity->who.name) == 0) {
                iam_replace(call, edited, NULL);
                return;
        }
        snprintf(edited->who.name, sizeof(edited->who.name), "%s", name);
        call->show = NULL;
        iam_asked(call, gw_people_rename(call->req->loop, edited, entity->who.name, call->generation, &decided,
                                         iam_changed, call));
}

void iam_delete(struct iam_call *call, const struct gw_entity_name *who)
{
        const struct gw_people_terms decided = iam_decided(call);
        const struct gw_entity *there;
        uint64_t generation;

        call->show = NULL;
        if (call->canned != NULL) {
                refuse_canned(call);
                return;
        }
        if (gw_people_find(call->req->loop, who, &there, &generation) != 0)
                generation = GW_PEOPLE_UNSEEN; /* whoever has come by then is somebody that nobody was asked about */
        iam_asked(call, gw_people_delete(call->req->loop, who, generation, &decided, iam_changed, call));
}

/* ---- lists ----------------------------------------------------------------------------------- */

unsigned iam_max_items(const struct iam_call *call)
{
        const char *text = call->in.value[IAM_P_MAX_ITEMS];

        return text != NULL ? (unsigned)strtoul(text, NULL, 10) : PAGE_DEFAULT;
}

void iam_show_page(struct s3_xml *xml, bool more, const char *last)
{
        s3_xml_bool(xml, "IsTruncated", more);
        if (more)
                s3_xml_textz(xml, "Marker", last);
}

/* Ends the page early where it has become too long. */
static void list_names(struct iam_call *call, struct s3_xml *xml, const struct gw_listed *names, unsigned count,
                       bool *more, const char **last)
{
        s3_xml_open(xml, call->element);
        if (call->before != NULL)
                call->before(call, xml);
        for (unsigned i = 0; i < count; i++) {
                call->each(call, xml, names[i].name);
                if (xml->len > IAM_PAGE_BYTES && i + 1 < count) {
                        *more = true;
                        *last = names[i].name;
                        break;
                }
        }
        s3_xml_close(xml, call->element);
}

static void iam_listed(void *arg, int rv, const struct gw_listed *names, unsigned count, bool more, const char *last)
{
        struct iam_call *call = arg;
        struct s3_xml xml;

        if (!gw_back(call->req))
                return;
        if (rv != 0) {
                iam_refuse(call, rv);
                return;
        }
        iam_answer_begin(call, &xml, true);
        if (call->show != NULL)
                call->show(call, &xml);
        if (call->element != NULL)
                list_names(call, &xml, names, count, &more, &last);
        else
                call->page(call, &xml, names, count);
        iam_show_page(&xml, more, last);
        iam_answer_end(call, &xml, true);
}

void iam_list(struct iam_call *call, struct gw_people_query *query, const char *element,
              void (*each)(struct iam_call *call, struct s3_xml *xml, const char *name))
{
        const char *marker = call->in.value[IAM_P_MARKER], *prefix = call->in.value[IAM_P_PREFIX];

        if (call->from_start)
                marker = NULL;
        if (marker != NULL && strlen(marker) >= sizeof(query->after)) {
                iam_fail(call, "ValidationError", "The marker is none that a list has given.");
                return;
        }
        call->element = element;
        call->each = each;
        query->max = iam_max_items(call) - call->skipped;
        snprintf(query->account, sizeof(query->account), "%s", call->account);
        snprintf(query->after, sizeof(query->after), "%s", marker != NULL ? marker : "");
        snprintf(query->path, sizeof(query->path), "%s", prefix != NULL && strcmp(prefix, "/") != 0 ? prefix : "");
        iam_asked(call, gw_people_list(call->req->loop, query, iam_listed, call));
}

/* The place behind this name, as it is written: of a provider's tags two can differ by case alone. */
static unsigned set_behind(const struct gw_pairs *set, const char *marker)
{
        for (unsigned i = 0; i < set->count; i++)
                if (strcmp(set->list[i].name, marker) == 0)
                        return i + 1;
        return 0;
}

/* A set is short and in memory; its marker is the name that the page before ended with. */
void iam_show_set(struct iam_call *call, struct s3_xml *xml, const struct gw_pairs *set, const char *element,
                  void (*each)(struct iam_call *call, struct s3_xml *xml, const struct gw_pair *pair))
{
        const char *marker = call->in.value[IAM_P_MARKER];
        unsigned from = marker != NULL ? set_behind(set, marker) : 0, most = iam_max_items(call), i;

        s3_xml_open(xml, element);
        for (i = from; i < set->count && i - from < most; i++)
                each(call, xml, &set->list[i]);
        s3_xml_close(xml, element);
        iam_show_page(xml, i<set->count, i> 0 ? set->list[i - 1].name : "");
}

/* ---- policies and ids ------------------------------------------------------------------------ */

/* Compiles it, to be freed by the caller. NULL: refused already. */
static struct acc_policy *compile_document(struct iam_call *call, const char *text, enum acc_kind kind, size_t most)
{
        struct acc_error error = {.message = ""};
        struct acc_policy *policy = NULL;
        struct s3_str bindings;
        int rv;

        acc_bound_cut(s3_str_of(text), &bindings);
        rv = acc_policy_compile(s3_str_of(text), kind, (struct s3_str){NULL, 0}, &policy, &error);
        if (rv == 0 && bindings.data == NULL && strlen(text) <= most)
                return policy;
        acc_policy_free(rv == 0 ? policy : NULL);
        if (rv == -ENOMEM)
                iam_refuse(call, rv);
        else if (rv == -E2BIG || (rv == 0 && strlen(text) > most))
                iam_fail(call, "LimitExceeded",
                         gw_printf(call->req, "%s", rv != 0 ? error.message : "Cannot exceed quota for PolicySize."));
        else
                iam_fail(call, "MalformedPolicyDocument",
                         gw_printf(call->req, "%s",
                                   error.message[0] != '\0' ? error.message : "Syntax errors in policy."));
        return NULL;
}

bool iam_check_document(struct iam_call *call, const char *text, enum acc_kind kind, size_t most)
{
        struct acc_policy *policy = compile_document(call, text, kind, most);

        acc_policy_free(policy);
        return policy != NULL;
}

const char *iam_bind_trust(struct iam_call *call, const char *text, size_t most)
{
        struct acc_policy *policy = compile_document(call, text, ACC_TRUST, most);
        char *bound = NULL, *copy = NULL;
        size_t len;
        int rv;

        if (policy == NULL)
                return NULL;
        rv = gw_people_bind(call->req->loop, policy, s3_str_of(text), &bound, &len);
        acc_policy_free(policy);
        if (rv == 0) {
                copy = gw_copy(call->req, (struct s3_str){bound, len});
                rv = copy == NULL ? -ENOMEM : 0;
        }
        free(bound);
        if (rv == -ENOENT)
                iam_fail(call, "MalformedPolicyDocument", "Invalid principal in policy");
        else if (rv != 0)
                iam_refuse(call, rv);
        return copy;
}

bool iam_make_id(const char *prefix, unsigned len, char *out)
{
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        unsigned char random[32];
        unsigned from = (unsigned)strlen(prefix), i;

        if (len - from > sizeof(random) || RAND_bytes(random, sizeof(random)) != 1)
                return false;
        memcpy(out, prefix, from);
        for (i = from; i < len; i++)
                out[i] = letters[random[i - from] % 32];
        out[len] = '\0';
        return true;
}

bool gw_may_tell_secret(bool tls, const struct sockaddr *peer)
{
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)peer;
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)peer;

        if (tls)
                return true;
        if (peer == NULL)
                return false;
        if (peer->sa_family == AF_INET)
                return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
        if (peer->sa_family != AF_INET6)
                return peer->sa_family == AF_UNIX;
        if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
                return v6->sin6_addr.s6_addr[12] == 127;
        return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}
