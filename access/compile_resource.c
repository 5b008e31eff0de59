/*
 * Compiles Resource and NotResource. Called by compile_statement.c; rules A5 and A9.
 */
#include <errno.h>

#include "builder.h"

/* ---- what of a bucket a pattern can mean ----------------------------------------------------- */

/*
 * A bucket's name has at most 63 characters, and one character more stands behind it. No two stars
 * follow each other, so what can have been matched by then ends before this many units.
 */
#define UNITS_MAX 256u

struct unit {
        enum acc_piece_kind kind;
        char c;
};

/*
 * The beginning of a pattern, a unit for each character; a variable may be anything, like a star.
 */
struct units {
        struct unit unit[UNITS_MAX];
        size_t count;
        bool live[UNITS_MAX + 1]; /* the units before this one can be what was read */
};

static void unit_add(struct units *units, enum acc_piece_kind kind, char c)
{
        if (units->count < UNITS_MAX)
                units->unit[units->count++] = (struct unit){kind, c};
}

static void units_of(struct units *units, const struct acc_pattern *pattern)
{
        units->count = 0;
        memset(units->live, 0, sizeof(units->live));
        for (size_t i = 0; i < pattern->count && units->count < UNITS_MAX; i++) {
                const struct acc_piece *piece = &pattern->pieces[i];
                size_t count = piece->kind == ACC_PIECE_TEXT ? piece->text.len : piece->count;

                if (piece->kind == ACC_PIECE_STAR || piece->kind == ACC_PIECE_VARIABLE)
                        unit_add(units, ACC_PIECE_STAR, '*');
                else
                        for (size_t at = 0; at < count && units->count < UNITS_MAX; at++)
                                unit_add(units, piece->kind,
                                         piece->kind == ACC_PIECE_TEXT ? piece->text.data[at] : '?');
        }
}

/* Stars may be nothing. */
static void units_skip_stars(struct units *units)
{
        for (size_t i = 0; i < units->count; i++)
                if (units->live[i] && units->unit[i].kind == ACC_PIECE_STAR)
                        units->live[i + 1] = true;
}

static void units_read(struct units *units, char c)
{
        for (size_t i = units->count + 1; i-- > 0;) {
                bool star = i < units->count && units->unit[i].kind == ACC_PIECE_STAR;
                bool before = i > 0 && units->live[i - 1] && units->unit[i - 1].kind != ACC_PIECE_STAR &&
                              (units->unit[i - 1].kind == ACC_PIECE_ONE || units->unit[i - 1].c == c);

                units->live[i] = before || (star && units->live[i]);
        }
        units_skip_stars(units);
}

/* Can it mean the bucket, and objects of it? Bits; 0: neither. */
static unsigned resource_scope(const struct acc_pattern *pattern, struct s3_str bucket)
{
        struct units units;
        unsigned on = 0;

        units_of(&units, pattern);
        units.live[0] = true;
        units_skip_stars(&units);
        for (size_t i = 0; i < bucket.len && i < S3_BUCKET_MAX; i++)
                units_read(&units, bucket.data[i]);
        if (units.live[units.count] && units.count < UNITS_MAX)
                on |= ACC_ON_BUCKET;
        units_read(&units, '/');
        for (size_t i = 0; i < units.count; i++)
                if (units.live[i])
                        on |= ACC_ON_OBJECT;
        return on;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool part_can_be(const struct acc_arn *arn, unsigned part, struct s3_str text)
{
        return acc_pattern_match(NULL, &arn->parts[part], text, false) == ACC_MATCH_YES;
}

static int check_in_bucket(struct acc_builder *builder, const struct acc_arn *arn, struct s3_str text, unsigned *on)
{
        unsigned scope = ACC_ON_BUCKET | ACC_ON_OBJECT;

        if (!arn->any) {
                scope = resource_scope(&arn->parts[5], builder->bucket);
                if (!part_can_be(arn, 0, S3_STR("arn")) || !part_can_be(arn, 1, S3_STR("aws")) ||
                    !part_can_be(arn, 2, S3_STR("s3")) || !part_can_be(arn, 3, S3_STR("")) ||
                    !part_can_be(arn, 4, S3_STR("")))
                        scope = 0;
        }
        *on |= scope;
        return scope != 0 ? 0 : acc_refuse(builder, ACC_REFUSE_RESOURCE, text);
}

static int check_arn(struct acc_builder *builder, const struct acc_arn *arn, struct s3_str text)
{
        static const struct s3_str partitions[] = {S3_STR("aws"), S3_STR("aws-cn"), S3_STR("aws-us-gov")};
        struct s3_str parts[ACC_ARN_PARTS];

        if (arn->any)
                return 0;
        for (unsigned part = 0; part < 5; part++)
                if (arn->parts[part].variables)
                        return acc_refuse(builder, ACC_REFUSE_RESOURCE, text);
        for (size_t i = 0; i < LENGTH(partitions); i++)
                if (part_can_be(arn, 1, partitions[i]))
                        return 0;
        return acc_refuse(builder, ACC_REFUSE_PARTITION, acc_arn_split(text, parts) ? parts[1] : text);
}

static int build_resource(struct acc_builder *builder, struct s3_str text, struct acc_arn *out, unsigned *on)
{
        bool bucket = builder->policy->kind == ACC_BUCKET;
        int rv;

        if (!s3_str_eq(text, S3_STR("*")) && !s3_str_starts(text, S3_STR("arn:")))
                return acc_refuse(builder, ACC_REFUSE_RESOURCE, text);
        rv = acc_arn_read(builder->policy, text, builder->variables, !bucket, out);
        if (rv == -EINVAL)
                return acc_refuse(builder, ACC_REFUSE_RESOURCE, text);
        if (rv == 0)
                rv = check_arn(builder, out, text);
        return rv == 0 && bucket ? check_in_bucket(builder, out, text, on) : rv;
}

int acc_build_resources(struct acc_builder *builder, json_t *json, struct acc_statement *out, unsigned *on)
{
        size_t count = json != NULL ? acc_list_count(json) : 0;
        struct acc_arn *arns;

        builder->element = out->not_resource ? "NotResource" : "Resource";
        if (count == 0)
                return acc_refuse(builder, ACC_REFUSE_NO_RESOURCE, S3_STR(""));
        arns = count <= UINT16_MAX ? acc_room(builder->policy, count, sizeof(*arns)) : NULL;
        if (arns == NULL)
                return -ENOMEM;
        for (size_t i = 0; i < count; i++) {
                json_t *text = acc_list_at(json, i);
                int rv;

                if (!json_is_string(text))
                        return acc_refuse(builder, ACC_REFUSE_TYPE, S3_STR(""));
                rv = build_resource(builder, acc_json_text(text), &arns[i], on);
                if (rv != 0)
                        return rv;
        }
        out->resource = arns;
        out->resources = (uint16_t)count;
        return 0;
}
