/*
 * builder.h - what the files that compile policies share.
 */
#ifndef ACC_BUILDER_H
#define ACC_BUILDER_H

#include <jansson.h>

#include "compiled.h"

/*
 * X(name, text for S3, text for IAM): why a policy is refused. A %s is the value in question. The
 * texts are AWS's where they are known.
 */
#define ACC_REFUSALS(X)                                                                                                \
        X(TOO_LONG, "Policy exceeds the maximum allowed document size.", "Maximum policy size of %s bytes exceeded")   \
        X(FIRST_BYTE, "Policies must be valid JSON and the first byte must be '{'", "Syntax errors in policy.")        \
        X(JSON, "This policy contains invalid Json", "Syntax errors in policy.")                                       \
        X(DEEP, "This policy contains invalid Json", "Syntax errors in policy.")                                       \
        X(TYPE, "Invalid policy syntax.", "Syntax errors in policy.")                                                  \
        X(UNKNOWN_FIELD, "Unknown field %s", "Syntax errors in policy.")                                               \
        X(VERSION, "The policy must contain a valid version string", "Syntax errors in policy.")                       \
        X(NO_STATEMENT, "Missing required field Statement", "Syntax errors in policy.")                                \
        X(EMPTY_STATEMENT, "Could not parse the policy: Statement is empty!", "Syntax errors in policy.")              \
        X(NO_EFFECT, "Missing required field Effect", "Syntax errors in policy.")                                      \
        X(EFFECT, "Invalid effect: %s", "Syntax errors in policy.")                                                    \
        X(BOTH, "Statement has both an element and its Not form", "Syntax errors in policy.")                          \
        X(NO_PRINCIPAL, "Missing required field Principal", "Missing required field Principal")                        \
        X(HAS_PRINCIPAL, "Has prohibited field Principal", "Policy document should not specify a principal.")          \
        X(PRINCIPAL, "Invalid principal in policy", "Invalid principal in policy: %s")                                 \
        X(NO_ACTION, "Missing required field Action", "Policy statement must contain actions.")                        \
        X(ACTION, "Policy has invalid action",                                                                         \
          "Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.")                                \
        X(ACTION_VENDOR, "Policy has invalid action", "Vendor %s is not valid")                                        \
        X(ACTION_COLONS, "Policy has invalid action", "Actions/Condition can contain only one colon.")                 \
        X(TRUST_ACTION, "Policy has invalid action", "AssumeRole policy may only specify STS AssumeRole actions.")     \
        X(MISMATCH, "Action does not apply to any resource(s) in statement",                                           \
          "Action does not apply to any resource(s) in statement")                                                     \
        X(NO_RESOURCE, "Missing required field Resource", "Policy statement must contain resources.")                  \
        X(HAS_RESOURCE, "Has prohibited field Resource", "Has prohibited field Resource")                              \
        X(RESOURCE, "Policy has invalid resource", "Resource %s must be in ARN format or \"*\".")                      \
        X(PARTITION, "Policy has invalid resource", "Partition \"%s\" is not valid")                                   \
        X(SID, "Invalid Sid: %s",                                                                                      \
          "Statement IDs (SID) should be alpha-numeric. Check that the input satisfies the regular expression "        \
          "[0-9A-Za-z]*")                                                                                              \
        X(SID_TWICE, "Statement IDs (SID) in a single policy must be unique.",                                         \
          "Statement IDs (SID) in a single policy must be unique.")                                                    \
        X(CONDITION, "Invalid Condition type : %s", "Syntax errors in policy.")                                        \
        X(CONDITION_KEY, "Policy has an invalid condition key", "Syntax errors in policy.")                            \
        X(CONDITION_VALUE, "Invalid policy syntax.", "The policy failed legacy parsing")                               \
        X(VARIABLE, "Invalid policy syntax.", "The policy failed legacy parsing")

enum acc_refusal {
#define ACC_REFUSAL_ENUM(name, s3, iam) ACC_REFUSE_##name,
        ACC_REFUSALS(ACC_REFUSAL_ENUM)
#undef ACC_REFUSAL_ENUM
};

#define ACC_NOWHERE SIZE_MAX

/* A policy that is being compiled. */
struct acc_builder {
        struct acc_policy *policy;
        struct s3_str bucket;
        struct s3_str bindings; /* of a bound policy; else absent */
        bool variables; /* the version of the language has them */
        /* Of the actions of this statement, in a bucket policy: what all of them apply to, and whether one applies to
         * neither buckets nor objects. */
        unsigned all_on;
        bool one_on_none;
        struct acc_error *error;
        /* Where in the text the compiler is, for errors. */
        size_t statement; /* or ACC_NOWHERE */
        const char *element;
        const char *part;
};

/* Fills the error. Returns -EINVAL, for TOO_LONG -E2BIG. */
int acc_refuse(struct acc_builder *builder, enum acc_refusal why, struct s3_str value);

/* Depth of nesting, found without recursion; brackets in strings do not count. */
size_t acc_json_depth(struct s3_str text);
/* Characters, those of white space left out unless `spaces`. */
size_t acc_json_characters(struct s3_str text, bool spaces);

/* A value that is one thing or an array of things. */
size_t acc_list_count(const json_t *value);
json_t *acc_list_at(json_t *value, size_t i);
struct s3_str acc_json_text(const json_t *value);

/* Each reads one element of a statement: 0, -EINVAL with the error filled, -ENOMEM. */
int acc_build_statement(struct acc_builder *builder, json_t *json, struct acc_statement *out);
int acc_build_names(struct acc_builder *builder, json_t *json, struct acc_statement *out);
int acc_build_actions(struct acc_builder *builder, json_t *json, struct acc_statement *out);
int acc_build_resources(struct acc_builder *builder, json_t *json, struct acc_statement *out, unsigned *on);
int acc_build_conditions(struct acc_builder *builder, json_t *json, struct acc_statement *out);

#endif
