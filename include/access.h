/*
 * access.h - AWS's policy language: compiles policies, and decides requests by them.
 *
 * Pure: no I/O, no clock, no global state. Any thread may call it. A compiled policy never changes,
 * so that all loops may share one. docs/design/access.md has the rules (A1 and on) that code and
 * tests cite.
 */
#ifndef MILLRACE_ACCESS_H
#define MILLRACE_ACCESS_H

#include "access_keys.h"
#include "s3_base.h"

/* ---- compiling ------------------------------------------------------------------------------- */

/* What a policy is attached to. It decides which elements it has, and how long it may be. */
enum acc_kind {
        ACC_BUCKET,       /* a bucket: Principal, and resources of that bucket; 20,480 bytes */
        ACC_MANAGED,      /* a managed policy, also as a permissions boundary; 6,144 characters */
        ACC_INLINE_USER,  /* 2,048 characters, as all that follow without white space */
        ACC_INLINE_GROUP, /* 5,120 */
        ACC_INLINE_ROLE,  /* 10,240 */
        ACC_TRUST,        /* who may assume a role: Principal, sts: actions, no Resource; 2,048 */
        ACC_SESSION,      /* passed to AssumeRole and the like; 2,048 with white space */
};

#define ACC_BUCKET_BYTES 20480u
#define ACC_RAW_MAX      131072u /* bytes of any policy text, white space included */
#define ACC_DEPTH_MAX    8u      /* JSON nested deeper is refused before it is parsed */
#define ACC_TEXT_MAX     65536u  /* a request's value that is longer matches no pattern with a wildcard */
#define ACC_ACTION_MAX   128u    /* a request whose action is longer is denied */

/* Why a policy was refused. */
struct acc_error {
        char message[256]; /* AWS's text for S3 (MalformedPolicy) or IAM (MalformedPolicyDocument) */
        char where[128];   /* the element: "Statement[1].Condition.StringLike"; empty: the whole */
};

struct acc_policy;

/*
 * Compiles a policy. `bucket` is the bucket's name for ACC_BUCKET, and ignored else. *out belongs
 * to the caller, who frees it with acc_policy_free(); it keeps no pointer to `text`. Whether the
 * principals that it names exist is the caller's to check (acc_policy_principals()). The longest
 * texts take some milliseconds: too long for a loop that serves.
 * Errors: -EINVAL (malformed), -E2BIG (too long), both with *error filled; -ENOMEM.
 */
int acc_policy_compile(struct s3_str text, enum acc_kind kind, struct s3_str bucket, struct acc_policy **out,
                       struct acc_error *error);
/*
 * Bound policies (A24). A policy with principals is stored with the unique id of each user and role that it names.
 * The stored text is the policy's JSON, then ACC_BOUND_MARK, which JSON cannot contain, then one line "ID ARN" for
 * each of them. acc_policy_compile() takes such a text: a bound name means the user or role with that id, also after
 * its ARN has changed.
 *
 * Splits a stored text: returns the JSON, and the lines in *bindings, absent if the policy is not bound.
 */
#define ACC_BOUND_MARK "\n#1\n"
struct s3_str acc_bound_cut(struct s3_str text, struct s3_str *bindings);
/* The id bound to an ARN; absent if there is none. */
struct s3_str acc_bound_id(struct s3_str bindings, struct s3_str arn);
void acc_policy_free(struct acc_policy *policy); /* NULL is fine */
/* Bytes of memory that the compiled form takes. */
size_t acc_policy_bytes(const struct acc_policy *policy);
size_t acc_policy_statements(const struct acc_policy *policy);
/* The Sid of a statement; empty if it has none. It lives as long as the policy. */
struct s3_str acc_policy_sid(const struct acc_policy *policy, size_t statement);
/*
 * Does a bucket policy grant something to the public, as S3 defines it ("The meaning of public")?
 * Computed when the policy was compiled. False for other kinds.
 */
bool acc_policy_is_public(const struct acc_policy *policy);
/*
 * Has each action that a statement names the keys of its conditions? For whoever sets a bucket policy (A25): one that
 * is kept counts whatever the answer.
 */
bool acc_policy_conditions_apply(const struct acc_policy *policy);

/* How a Principal element names somebody. */
enum acc_name_kind {
        ACC_NAME_EVERYONE,  /* "*" */
        ACC_NAME_ANY_AWS,   /* {"AWS": "*"} */
        ACC_NAME_ACCOUNT,   /* 12 digits, given so or as arn:aws:iam::<id>:root */
        ACC_NAME_ARN,       /* a user, a role, or one session */
        ACC_NAME_CANONICAL, /* 64 hexadecimal digits, in lower case: an account */
        ACC_NAME_FEDERATED, /* an identity provider */
        ACC_NAME_SERVICE,   /* logging.s3.amazonaws.com and the like */
};

/* Return false to stop. */
typedef bool acc_principal_visit(void *context, enum acc_name_kind kind, struct s3_str name);
/* Calls visit for each name of each Principal and NotPrincipal. False if a call returned false. */
bool acc_policy_principals(const struct acc_policy *policy, acc_principal_visit *visit, void *context);

/* ---- requests -------------------------------------------------------------------------------- */

enum acc_principal_kind {
        ACC_ANONYMOUS,
        ACC_ROOT,           /* of an account */
        ACC_USER,           /* an IAM user, by own keys or those of GetSessionToken */
        ACC_ASSUMED_ROLE,   /* a session of AssumeRole* */
        ACC_FEDERATED_USER, /* a session of GetFederationToken */
        ACC_WEB_IDENTITY,   /* whoever asks AssumeRoleWithWebIdentity: known to a provider alone */
        ACC_SERVICE,        /* a service of AWS, such as log delivery */
};

/* Who asks. Strings belong to the caller. Those that the kind does not have are absent. */
struct acc_principal {
        enum acc_principal_kind kind;
        bool bounded;               /* has a permissions boundary: see A12 */
        struct s3_str account;      /* 12 digits */
        struct s3_str canonical_id; /* of the account */
        struct s3_str arn;          /* of the user or the session */
        struct s3_str parent_arn;   /* ASSUMED_ROLE: the role's; FEDERATED_USER: that of the user who federated */
        struct s3_str user_id;      /* aws:userid: AIDA..., AROA...:session, the account of root */
        struct s3_str name;         /* WEB_IDENTITY: the provider as trust policies name it; SERVICE: its name */
};

/*
 * What is not known of a key. UNKNOWN: it may have any value, so that a condition on it holds for a Deny, and for
 * no Allow. OPEN: somebody decides again once it is known; so a condition on it holds for an Allow, and for no Deny.
 */
enum acc_unknown { ACC_KNOWN, ACC_UNKNOWN, ACC_OPEN };

/* The values of a condition key in this request. No values: as if the key were absent. */
struct acc_values {
        const struct s3_str *values;
        size_t count;
        enum acc_unknown unknown;
};

/*
 * Answers the values of a condition key; false: the request has no such key. Values live until the
 * evaluation returns. It is not asked for what the principal says: aws:PrincipalArn,
 * aws:PrincipalAccount, aws:PrincipalType, aws:userid, aws:username.
 */
typedef bool acc_lookup(void *context, const struct acc_key *key, struct acc_values *out);

struct acc_request {
        const struct acc_principal *principal;
        struct s3_str action;   /* "s3:GetObject" */
        struct s3_str resource; /* its ARN; for ListAllMyBuckets "arn:aws:s3:::*" */
        acc_lookup *lookup;     /* NULL: the request has no keys */
        void *context;
};

enum acc_effect { ACC_NO_OPINION, ACC_ALLOW, ACC_DENY };

/*
 * How a policy with principals allowed it, the weakest first (A13). Policies without principals
 * grant directly.
 */
enum acc_grant {
        ACC_GRANT_NONE,
        ACC_GRANT_ACCOUNT, /* the account, which has to pass it on by an identity policy */
        ACC_GRANT_PARENT,  /* the role of the session, or the user who federated */
        ACC_GRANT_DIRECT,  /* this user or session, or everyone */
};

#define ACC_NO_STATEMENT SIZE_MAX

struct acc_result {
        enum acc_effect effect;
        enum acc_grant grant; /* if allowed */
        size_t statement;     /* the one that decided; ACC_NO_STATEMENT if none did */
};

/*
 * What one policy says about a request. The first Deny that applies decides, else the strongest
 * Allow.
 */
struct acc_result acc_evaluate(const struct acc_policy *policy, const struct acc_request *request);

/* ---- all policies of a request --------------------------------------------------------------- */

/* Everything that applies to a request. Pointers are NULL, counts 0, for what there is not. */
struct acc_policies {
        const struct acc_policy *const *identity; /* of the user and its groups, or of the role */
        size_t identities;
        const struct acc_policy *boundary;       /* the permissions boundary */
        const struct acc_policy *const *session; /* one of them must allow */
        size_t sessions;
        const struct acc_policy *resource; /* the bucket's, or the trust policy of the role */
        struct s3_str resource_account;    /* who owns the resource */
        enum acc_grant acl;                /* what an ACL grants the principal, if ACLs count */
        bool restrict_public;              /* RestrictPublicBuckets is on */
        bool denies_only;                  /* the resource policy is of somebody who does not own the resource: it grants nothing */
};

/* Which policies decided. */
enum acc_source {
        ACC_BY_NOBODY, /* an implicit deny */
        ACC_BY_RESOURCE,
        ACC_BY_IDENTITY,
        ACC_BY_BOUNDARY,
        ACC_BY_SESSION,
        ACC_BY_ROOT, /* the root user of the account needs no policy */
        ACC_BY_ACL,
};

struct acc_verdict {
        bool allowed;
        bool explicit_deny;
        enum acc_source source; /* of the Allow or explicit Deny; of an implicit deny: what did not allow */
        size_t policy;          /* its number among identity[] or session[] */
        size_t statement;       /* or ACC_NO_STATEMENT */
};

/*
 * Decides a request as AWS's "Policy evaluation logic" has it:
 *  1. The root user of the account that owns a bucket may always read, set and delete its policy.
 *  2. A Deny that applies, in any policy, denies. Identity policies, boundaries and session
 *     policies do not apply to root, services and the anonymous.
 *  3. Anonymous, services, web identities: only a resource policy (or ACL) can allow.
 *  4. In the account of the resource:
 *     a. root may do everything (but: assume no role);
 *     b. a resource policy that grants the user or session directly allows;
 *     c. one that grants the session's role allows, if boundary and session policies allow too;
 *     d. else an identity policy must allow, and boundary and session policies too. A trust policy
 *        must have granted at least the account.
 *  5. From another account: the resource policy must grant it in some way, and the own account's
 *     policies must allow as in 4d (root: does).
 * A federated user without session policies has only what 4b gives.
 */
struct acc_verdict acc_decide(const struct acc_policies *policies, const struct acc_request *request);
/*
 * Writes AWS's message for a request that was not allowed, cut to size: "User: <arn> is not
 * authorized to perform: s3:GetObject on resource: "<arn>" because no identity-based policy allows
 * the s3:GetObject action". Its strings are the request's own: the caller escapes them.
 */
void acc_verdict_message(const struct acc_verdict *verdict, const struct acc_request *request, char *out, size_t size);

#endif
