/*
 * version_text.c - see version_text.h.
 */
#include "gateway/http/version_text.h"

#include <string.h>

_Static_assert(ENG_VERSION_RANDOM == sizeof(((struct s3_version *)NULL)->random), "an id has all of it");

enum s3_error gw_version_read(struct s3_str text, struct eng_version *out, const char **message)
{
        struct s3_version version;
        enum s3_error error = s3_version_parse(text, &version, message);

        if (error != S3_OK)
                return error;
        out->number = version.number; /* 0: the null version */
        memcpy(out->random, version.random, ENG_VERSION_RANDOM);
        return S3_OK;
}

size_t gw_version_text(const struct eng_version *id, char out[S3_VERSION_TEXT])
{
        struct s3_version version = {.null = id->number == 0, .number = id->number};

        if (!version.null)
                memcpy(version.random, id->random, ENG_VERSION_RANDOM);
        return s3_version_format(&version, out);
}
