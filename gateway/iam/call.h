/*
 * call.h - one request of IAM or STS at work (private to the module). owner of everything here: the loop
 * of the request.
 */
#ifndef GATEWAY_IAM_CALL_H
#define GATEWAY_IAM_CALL_H

#include "access.h"
#include "gateway/http/http_request.h"
#include "gateway/iam/params.h"
#include "gateway/people/people.h"

#define IAM_ARN_SIZE   700u
#define IAM_SECRET_LEN 40u
#define IAM_SEEN_MAX   4u  /* names in a decision: whom it is about, a policy, a boundary */
#define IAM_PAGE_BYTES (1u << 20) /* a page that is longer ends: 1,000 roles can have 24 MiB of trust policies */

struct iam_call;
struct sts_making;
struct iam_details; /* iam_account.c */

/* A row of the table of actions. */
struct iam_action {
        const char *name;
        unsigned kind;                      /* of entity that it is about, and whose name is a parameter; 0: see run */
        uint64_t needs, may;                /* parameters */
        void (*run)(struct iam_call *call); /* answers, now or later; may be called again: see iam_replace() */
};
/* By name; NULL: there is no such action. sts: of STS, else of IAM. */
const struct iam_action *iam_action_find(const char *name, bool sts);
extern const struct iam_action iam_actions[];
extern const unsigned iam_action_count;

/* Writes what stands within the action's result. 0, or what iam_refuse() knows. */
typedef int (*iam_show)(struct iam_call *call, struct s3_xml *xml);

struct iam_call {
        struct gw_request *req;
        const struct iam_action *action;
        bool sts;
        char account[GW_ACCOUNT_ID_LEN + 1]; /* of whoever asks */
        char caller[GW_ENTITY_NAME_MAX + 1]; /* the user who asks; "": root, or: */
        bool role_session;                   /* a session of a role, req->temporary */
        struct sts_making *making;           /* of STS: the credentials that the answer has */
        struct iam_form form;
        struct iam_params in;
        struct gw_entity_name who; /* what show() is about */
        const struct gw_entity *canned; /* it is this policy, which is no entry; NULL: it is an entry */
        iam_show show;             /* once a change is made; NULL: the answer has no result */
        uint64_t generation;       /* of what iam_find() found last */
        struct gw_people_seen seen[IAM_SEEN_MAX]; /* what the decision looked at, as it was when that began: iam_look() */
        unsigned seen_count;
        unsigned attempts;
        const char *element; /* of a list; NULL: page() writes it */
        void (*page)(struct iam_call *call, struct s3_xml *xml, const struct gw_listed *names, unsigned count);
        void (*before)(struct iam_call *call, struct s3_xml *xml); /* what stands in front of a list's names; NULL */
        unsigned skipped; /* of a page's items, those that before() writes */
        bool from_start;  /* the marker is not one of names: the list begins with the first */
        void (*each)(struct iam_call *call, struct s3_xml *xml, const char *name);
        struct iam_details *details; /* of GetAccountAuthorizationDetails */
        char key[GW_ENTITY_NAME_MAX + 1];
        char secret[IAM_SECRET_LEN + 1];
};

/* Of the action's kind: the entity's name in the form; of a user, whoever asks where there is none. */
const char *iam_name(const struct iam_call *call, unsigned kind);
struct gw_entity_name iam_who(const struct iam_call *call, unsigned kind, const char *name);

/* Writes the ARN of what the action is about; false: it has none. */
#define IAM_RESOURCE_SIZE 2100u
bool iam_resource(struct iam_call *call, char out[IAM_RESOURCE_SIZE]);
/* The same that it would have with the new name or path of an Update... */
bool iam_new_resource(struct iam_call *call, char out[IAM_RESOURCE_SIZE]);
/* An ARN of the form as its entity spells it; as it stands there where there is none. False: it is too long. */
bool iam_spelled_arn(struct iam_call *call, const char *arn, char out[IAM_RESOURCE_SIZE]);
/* May whoever asks do what the action is, as things are now? False: refused. */
bool iam_allowed(struct iam_call *call);
/* As gw_permit(), with tags of the resource and of the request as keys of conditions. 0; -EACCES; -ENOMEM. */
int iam_permitted(struct iam_call *call, const char *permission, const char *resource, char *why);

/*
 * What a decision looks at (D26 of docs/design/people.md): as gw_people_find() and gw_people_find_arn(), and kept until
 * the next decision begins. A name that is looked at twice stays what it was the first time.
 */
void iam_decision_begin(struct iam_call *call);
int iam_look(struct iam_call *call, const struct gw_entity_name *who, const struct gw_entity **out);
int iam_look_arn(struct iam_call *call, const char *arn, const struct gw_entity **out);
/* All of it, as what a change relies on. It holds as long as the call. */
struct gw_people_terms iam_decided(const struct iam_call *call);

/* ---- answers --------------------------------------------------------------------------------- */

/* Around what an action writes itself; result: it has an element <ACTIONResult>. */
void iam_answer_begin(struct iam_call *call, struct s3_xml *xml, bool result);
void iam_answer_end(struct iam_call *call, struct s3_xml *xml, bool result);
void iam_answer(struct iam_call *call, iam_show show);
/* A result of people.h as IAM's error. */
void iam_refuse(struct iam_call *call, int rv);
/* One of IAM's errors by its code. */
void iam_fail(struct iam_call *call, const char *code, const char *message);
/* Before there is a call. */
void iam_fail_request(struct gw_request *req, bool sts, const char *code, const char *message);

/* ---- finding and changing -------------------------------------------------------------------- */

/* NULL: refused already. */
const struct gw_entity *iam_find(struct iam_call *call, unsigned kind, const char *name);
/* A managed policy of the account of whoever asks, or one that is always there: iam_edit() and iam_delete() refuse that. */
const struct gw_entity *iam_find_policy(struct iam_call *call, const char *arn);
/* The same of this account. */
const struct gw_entity *iam_find_policy_of(struct iam_call *call, const char *account, const char *arn);
/* The provider that the form names, of the account of whoever asks; it may not be there. False: refused already. */
bool iam_provider_who(struct iam_call *call);
/* NULL: refused already. */
const struct gw_entity *iam_find_provider(struct iam_call *call);
/* What was found last, once more, when the answer is written: 0, or as gw_people_find(). */
int iam_found(struct iam_call *call, const struct gw_entity **out);
/* iam_find() and iam_edit() in one. */
struct gw_entity *iam_find_edit(struct iam_call *call, unsigned kind, const char *name);
struct gw_entity *iam_find_edit_policy(struct iam_call *call, const char *arn);
/*
 * A copy that may be changed, with room for one more in each set, and for IAM_TAGS_MAX more tags. It lives with
 * the request, but its strings are those of the entity.
 */
struct gw_entity *iam_edit(struct iam_call *call, const struct gw_entity *entity);
struct gw_pair *iam_pair_find(const struct gw_pairs *set, const char *name);
/* Of a tag: of a provider exactly so, of others without regard to case. */
struct gw_pair *iam_tag_find(const struct gw_entity *holder, const char *name);
/* Adds, or takes the place of what there is. */
void iam_pair_put(struct gw_pairs *set, const char *name, const char *text, int64_t ms);
void iam_pair_drop(struct gw_pairs *set, struct gw_pair *pair);

/* Each answers when it is done, with show (may be NULL). */
void iam_create(struct iam_call *call, const struct gw_entity *entity, iam_show show);
/* With the name, path and tags of the form, and an id of its own; what is made is shown. */
#define IAM_ID_LEN 21u
void iam_create_named(struct iam_call *call, struct gw_entity *entity, unsigned kind, const char *prefix);
/* If it was changed since it was found, it is asked for and run again: what was permitted was about what it was. */
void iam_replace(struct iam_call *call, const struct gw_entity *entity, iam_show show);
/* The same with another name and path, where they are given (NULL: as it is). */
void iam_replace_named(struct iam_call *call, const struct gw_entity *entity, const char *name, const char *path);
void iam_delete(struct iam_call *call, const struct gw_entity_name *who);

/* ---- lists ----------------------------------------------------------------------------------- */

/* Lists by the directory, from the form's marker: <ELEMENT>, what each() writes of each name, and the page's end. */
void iam_list(struct iam_call *call, struct gw_people_query *query, const char *element,
              void (*each)(struct iam_call *call, struct s3_xml *xml, const char *name));
unsigned iam_max_items(const struct iam_call *call);
void iam_show_page(struct s3_xml *xml, bool more, const char *last);
/* A page of a set of one entity. each() may leave one out. */
void iam_show_set(struct iam_call *call, struct s3_xml *xml, const struct gw_pairs *set, const char *element,
                  void (*each)(struct iam_call *call, struct s3_xml *xml, const struct gw_pair *pair));

/* ---- policies -------------------------------------------------------------------------------- */

/* False: refused already. */
bool iam_check_document(struct iam_call *call, const char *text, enum acc_kind kind, size_t most);
/* A trust policy as it is to be kept, bound to who is there now. NULL: refused already. */
const char *iam_bind_trust(struct iam_call *call, const char *text, size_t most);
/* An id of AWS's form: prefix and random letters, of this length in all. */
bool iam_make_id(const char *prefix, unsigned len, char *out);

/* ---- policies that are always there (iam_canned.c) --------------------------------------------- */

/* NULL: there is none of this ARN. */
const struct gw_entity *iam_canned_find(const char *arn);
/* NULL: there are no more. */
const struct gw_entity *iam_canned_at(unsigned index);
/* ListPolicies: those that are always there come first. */
void iam_run_list_policies(struct iam_call *call);

/* ---- entities as IAM shows them (show.c) ------------------------------------------------------- */

void iam_show_user(struct s3_xml *xml, const struct gw_entity *user, const char *element);
void iam_show_group(struct s3_xml *xml, const struct gw_entity *group, const char *element);
void iam_show_role(struct iam_call *call, struct s3_xml *xml, const struct gw_entity *role, const char *element);
void iam_show_policy(struct s3_xml *xml, const struct gw_entity *policy, const char *element);
/* With what it has and, of a policy, all versions: <member> of GetAccountAuthorizationDetails. */
void iam_show_details(struct iam_call *call, struct s3_xml *xml, const struct gw_entity *entity);
/* What stands there beside what is shown of one (iam_account.c). */
void iam_show_holdings(struct s3_xml *xml, const struct gw_entity *entity);
void iam_show_version(struct s3_xml *xml, const struct gw_entity *policy, const struct gw_pair *version,
                      const char *element, bool with_document);
void iam_show_tags(struct s3_xml *xml, const struct gw_pairs *tags);
/* Percent-encoded, as IAM gives policies back. */
void iam_show_document(struct s3_xml *xml, const char *element, const char *text);
void iam_show_date(struct s3_xml *xml, const char *element, int64_t ms);
/* What iam_create() and iam_find() have found, by its kind: <User>, <Group>, <Role>, <Policy>. */
int iam_show_who(struct iam_call *call, struct s3_xml *xml);

/* ---- actions --------------------------------------------------------------------------------- */

void iam_run_create_user(struct iam_call *call);
void iam_run_get(struct iam_call *call);  /* of a user, role, policy */
void iam_run_list(struct iam_call *call); /* of users, groups, roles */
void iam_run_update_user(struct iam_call *call);
void iam_run_delete(struct iam_call *call); /* of a user, group, role, policy, provider */
void iam_run_create_key(struct iam_call *call);
void iam_run_list_keys(struct iam_call *call);
void iam_run_update_key(struct iam_call *call);
void iam_run_delete_key(struct iam_call *call);
void iam_run_key_used(struct iam_call *call);
void iam_run_create_group(struct iam_call *call);
void iam_run_update_group(struct iam_call *call);
void iam_run_get_group(struct iam_call *call);
void iam_run_join(struct iam_call *call);
void iam_run_leave(struct iam_call *call);
void iam_run_groups_of(struct iam_call *call);
void iam_run_create_policy(struct iam_call *call);
void iam_run_get_version(struct iam_call *call);
void iam_run_create_version(struct iam_call *call);
void iam_run_default_version(struct iam_call *call);
void iam_run_delete_version(struct iam_call *call);
void iam_run_list_versions(struct iam_call *call);
void iam_run_entities_of(struct iam_call *call);
void iam_run_attach(struct iam_call *call);
void iam_run_detach(struct iam_call *call);
void iam_run_list_attached(struct iam_call *call);
void iam_run_put_inline(struct iam_call *call);
void iam_run_get_inline(struct iam_call *call);
void iam_run_delete_inline(struct iam_call *call);
void iam_run_list_inline(struct iam_call *call);
void iam_run_create_role(struct iam_call *call);
void iam_run_update_role(struct iam_call *call);
void iam_run_update_trust(struct iam_call *call);
void iam_run_tag(struct iam_call *call);
void iam_run_untag(struct iam_call *call);
void iam_run_list_tags(struct iam_call *call);
void iam_run_put_boundary(struct iam_call *call);
void iam_run_drop_boundary(struct iam_call *call);
void iam_run_simulate(struct iam_call *call); /* SimulatePrincipalPolicy, SimulateCustomPolicy */
void iam_run_summary(struct iam_call *call);
void iam_run_details(struct iam_call *call);
void iam_run_aliases(struct iam_call *call);
void iam_run_create_provider(struct iam_call *call);
void iam_run_get_provider(struct iam_call *call);
void iam_run_list_providers(struct iam_call *call);
void iam_run_add_client(struct iam_call *call);
void iam_run_remove_client(struct iam_call *call);
void iam_run_thumbprints(struct iam_call *call);
void iam_run_identity(struct iam_call *call);
void iam_run_session_token(struct iam_call *call);
void iam_run_assume_role(struct iam_call *call);
void iam_run_web_identity(struct iam_call *call);

/* What is wrong with an issuer's URL as AWS says it: the error's code and message. False: nothing. Pure. */
bool iam_provider_url_wrong(const char *url, const char **code, const char **message);

/* Whether a secret may be sent there: TLS, or the same machine. Pure. */
struct sockaddr;
bool iam_may_tell_secret(bool tls, const struct sockaddr *peer);
/* To whoever asks. False: refused. */
bool iam_secret_can_be_told(struct iam_call *call);
/* Where in a policy's text statement `number`, from 0 on, stands. Pure. */
bool iam_statement_span(const char *text, size_t number, const char **from, const char **to);

#endif
