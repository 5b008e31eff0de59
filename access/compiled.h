/*
 * compiled.h - the compiled form of a policy, and what the files of access/ share. Everything in it
 * lies in the policy's blocks of memory and never changes once compiled.
 */
#ifndef ACC_COMPILED_H
#define ACC_COMPILED_H

#include "access.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ---- patterns -------------------------------------------------------------------------------- */

enum acc_piece_kind {
        ACC_PIECE_TEXT,     /* these bytes */
        ACC_PIECE_STAR,     /* any characters, also none */
        ACC_PIECE_ONE,      /* `count` characters */
        ACC_PIECE_VARIABLE, /* the value of a key, as text; its default `text`, if there is one */
};

struct acc_piece {
        enum acc_piece_kind kind;
        uint32_t count;
        struct s3_str text;
        const struct acc_key *key;
};

/*
 * A text with wildcards and variables. No two stars follow each other. No pieces: the empty text.
 */
struct acc_pattern {
        const struct acc_piece *pieces;
        uint16_t count;
        bool stars;
        bool variables;
};

#define ACC_ARN_PARTS 6u

/* An ARN whose parts are matched one by one (A5). */
struct acc_arn {
        bool any;           /* it is "*" */
        struct s3_str head; /* the first five parts with their colons, if they are plain text; else absent */
        struct acc_pattern parts[ACC_ARN_PARTS];
        const struct acc_pattern *whole; /* of a text with fewer parts: its stars reach over colons; else NULL */
};

/* ---- statements ------------------------------------------------------------------------------ */

struct acc_name {
        enum acc_name_kind kind;
        struct s3_str text;
        struct s3_str id; /* of an ARN that is bound: who has this id, and nobody else */
};

enum acc_operand {
        ACC_OPERAND_STRING, /* equal */
        ACC_OPERAND_NOCASE,
        ACC_OPERAND_LIKE,
        ACC_OPERAND_ARN,
        ACC_OPERAND_NUMBER,
        ACC_OPERAND_DATE,
        ACC_OPERAND_BOOL,
        ACC_OPERAND_BINARY,
        ACC_OPERAND_NET,
        ACC_OPERAND_NULL,
};

enum acc_relation { ACC_EQUAL, ACC_LESS, ACC_LESS_EQUAL, ACC_GREATER, ACC_GREATER_EQUAL };

struct acc_operator {
        struct s3_str name; /* without set qualifier and IfExists */
        enum acc_operand operand;
        enum acc_relation relation;
        bool negated;
};

/* An address with the bits of it that count. IPv4 addresses are mapped: ::ffff:a.b.c.d. */
struct acc_net {
        uint8_t address[16];
        uint8_t bits;
};

/* A number times 10^9; its range is that of 18 digits. */
typedef __int128 acc_number;

union acc_value {
        struct acc_pattern pattern; /* STRING, NOCASE, LIKE */
        struct acc_arn *arn;
        acc_number number;
        int64_t date; /* milliseconds since 1970 */
        bool truth;   /* BOOL, NULL */
        struct s3_str bytes;
        struct acc_net net;
};

enum acc_set { ACC_SET_NONE, ACC_SET_ALL, ACC_SET_ANY };

struct acc_condition {
        const struct acc_operator *op;
        enum acc_set set;
        bool if_exists;
        struct acc_key key;
        const union acc_value *values;
        size_t count;
};

struct acc_statement {
        struct s3_str sid;
        bool deny;
        bool not_principal, not_action, not_resource;
        uint16_t names, actions, resources, conditions; /* how many */
        const struct acc_name *name;                    /* none: the policy has no principals */
        const struct acc_pattern *action;               /* in lower case */
        const struct acc_arn *resource;                 /* none in a trust policy: any */
        const struct acc_condition *condition;
};

struct acc_block {
        struct acc_block *next;
        size_t used, size;
        _Alignas(16) char bytes[];
};

struct acc_policy {
        struct acc_block *blocks; /* the one in use first */
        size_t bytes;
        enum acc_kind kind;
        bool is_public;
        uint16_t count;
        const struct acc_statement *statements;
};

/* ---- building -------------------------------------------------------------------------------- */

/* Has the kind Principal elements? */
static inline bool acc_kind_has_principals(enum acc_kind kind)
{
        return kind == ACC_BUCKET || kind == ACC_TRUST;
}

/* Zeroed room in the policy's blocks; it is freed with the policy. NULL: no memory. */
void *acc_room(struct acc_policy *policy, size_t count, size_t size);
/* A copy of the text. False: no memory. */
bool acc_keep(struct acc_policy *policy, struct s3_str text, struct s3_str *out);

/*
 * Reads a text with wildcards (if like) and variables (if variables). 0, -EINVAL (a variable that
 * does not end, or more than 65,535 pieces), -ENOMEM.
 */
int acc_pattern_read(struct acc_policy *policy, struct s3_str text, bool like, bool variables, struct acc_pattern *out);
/* The same for an ARN: six parts; if `padded`, missing ones are "*". "*" is any ARN. */
int acc_arn_read(struct acc_policy *policy, struct s3_str text, bool variables, bool padded, struct acc_arn *out);
/* Cuts at the first five colons. False: there are fewer. */
bool acc_arn_split(struct s3_str text, struct s3_str parts[ACC_ARN_PARTS]);

const struct acc_operator *acc_operator_find(struct s3_str name);
int acc_number_read(struct s3_str text, acc_number *out);
int acc_date_read(struct s3_str text, int64_t *out);
int acc_bool_read(struct s3_str text, bool *out);
/* With or without "/bits"; what is behind the bits is cleared. */
int acc_net_read(struct s3_str text, struct acc_net *out);

/* What an action of S3 applies to, as bits. */
#define ACC_ON_ACCOUNT 1u
#define ACC_ON_BUCKET  2u
#define ACC_ON_OBJECT  4u
/* All that the actions of S3 apply to which a pattern in lower case names; 0: it names none. */
unsigned acc_s3_actions(const struct acc_pattern *pattern);

/* See acc_policy_is_public(). */
bool acc_statement_is_public(const struct acc_statement *statement);

/* ---- evaluating ------------------------------------------------------------------------------ */

/* A request, made ready once for all of its policies. */
struct acc_eval {
        const struct acc_request *request;
        struct s3_str action; /* in lower case */
        struct s3_str resource[ACC_ARN_PARTS];
        bool is_arn; /* the resource is one */
        char lower[ACC_ACTION_MAX];
};

void acc_eval_init(struct acc_eval *eval, const struct acc_request *request);
struct acc_result acc_eval_policy(const struct acc_eval *eval, const struct acc_policy *policy);
/*
 * Values of a key, from the principal or the caller; room: for one value. Absent, or none: false.
 */
bool acc_key_values(const struct acc_request *request, const struct acc_key *key, struct s3_str *room,
                    struct acc_values *out);

/* How a match came out. */
enum acc_match { ACC_MATCH_NO, ACC_MATCH_YES, ACC_MATCH_UNKNOWN /* a variable has no single value (A8) */ };

/*
 * Matches in time linear in the text for each 64 characters of the pattern (A6). request may be
 * NULL.
 */
enum acc_match acc_pattern_match(const struct acc_request *request, const struct acc_pattern *pattern,
                                 struct s3_str text, bool nocase);
enum acc_match acc_arn_match(const struct acc_request *request, const struct acc_arn *arn,
                             const struct s3_str parts[ACC_ARN_PARTS]);
/* Is there a variable whose values the caller does not know (A22)? UNKNOWN before OPEN. request may be NULL. */
enum acc_unknown acc_pattern_unknown(const struct acc_request *request, const struct acc_pattern *pattern);
enum acc_unknown acc_arn_unknown(const struct acc_request *request, const struct acc_arn *arn);
/* deny: the answer where the request does not know the key's values. */
bool acc_condition_holds(const struct acc_request *request, const struct acc_condition *condition, bool deny);
/* Does a statement with principals apply to this one? NONE: no. */
enum acc_grant acc_names_match(const struct acc_statement *statement, const struct acc_principal *principal);

/* The text of a piece that is TEXT or VARIABLE. False: the variable has no single value. */
bool acc_piece_text(const struct acc_request *request, const struct acc_piece *piece, struct s3_str *out);
/*
 * Finds pieces without a star in a text, the first end first, and says behind which byte they end.
 * See block_find.c. All their variables have a value.
 */
bool acc_block_find(const struct acc_request *request, const struct acc_piece *pieces, size_t count, struct s3_str text,
                    size_t *end);

static inline char acc_lower(char c)
{
        return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Is the byte one of the later ones of a character? */
static inline bool acc_continues(char c)
{
        return ((unsigned char)c & 0xc0) == 0x80;
}

#endif
