/*
 * jwt.c - reads tokens and says whether they are what they say (jwt.h). All of it is outside data.
 */
#include "gateway/sts/jwt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/sts/base64url.h"
#include "gateway/sts/jwks.h"

#define DEPTH_MAX 8u

static const char *const jwt_messages[GW_JWT_FAULTS] = {
        [GW_JWT_OK] = "",
        [GW_JWT_MALFORMED] = "The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)",
        [GW_JWT_ALGORITHM] = "Token signature algorithm is not supported",
        [GW_JWT_NO_KEY] = "Couldn't retrieve verification key from your identity provider, please reference AssumeRoleWithWebIdentity documentation for requirements",
        [GW_JWT_SIGNATURE] = "Token signature invalid",
        [GW_JWT_ISSUER] = "No OpenIDConnect provider found in your account for this issuer",
        [GW_JWT_AUDIENCE] = "Incorrect token audience",
        [GW_JWT_CLAIM] = "Missing a required claim, or a claim is not as it must be: iss, sub, aud, exp, iat",
        [GW_JWT_EARLY] = "Token is not yet valid",
        [GW_JWT_EXPIRED] = "Token expired",
        [GW_JWT_NO_MEMORY] = "The service cannot do this now. Try again.",
};

const char *gw_jwt_message(enum gw_jwt_fault fault)
{
        return jwt_messages[fault];
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* jansson goes down with what is nested; so much is looked at before. */
static bool is_flat(struct s3_str text)
{
        bool string = false;
        unsigned depth = 0;

        for (size_t i = 0; i < text.len; i++) {
                char c = text.data[i];

                if (string) {
                        if (c == '\\')
                                i++;
                        else if (c == '"')
                                string = false;
                } else if (c == '"') {
                        string = true;
                } else if (c == '{' || c == '[') {
                        if (++depth > DEPTH_MAX)
                                return false;
                } else if ((c == '}' || c == ']') && depth > 0) {
                        depth--;
                }
        }
        return true;
}

json_t *gw_jwt_object(struct s3_str text)
{
        json_t *json;

        if (!is_flat(text)) {
                errno = EBADMSG;
                return NULL;
        }
        json = s3_json_load(text, JSON_REJECT_DUPLICATES, NULL);
        if (json == NULL || json_is_object(json))
                return json;
        json_decref(json);
        errno = EBADMSG;
        return NULL;
}

static json_t *decode_object(struct s3_str part)
{
        char *bytes = malloc(part.len + 1);
        json_t *json = NULL;
        int len = -ENOMEM, why;

        if (bytes != NULL)
                len = gw_base64url_decode(part, bytes, part.len);
        if (len >= 0)
                json = gw_jwt_object((struct s3_str){bytes, (size_t)len});
        why = len == -ENOMEM ? ENOMEM : len < 0 ? EBADMSG : errno;
        free(bytes);
        errno = why;
        return json;
}

/* ---- parsing --------------------------------------------------------------------------------- */

static const char *member_text(const json_t *object, const char *name)
{
        const char *text = json_string_value(json_object_get(object, name));

        return text != NULL && *text != '\0' ? text : NULL;
}

static enum gw_jwt_fault jwt_split(struct s3_str text, struct s3_str part[3])
{
        struct s3_str rest = text;

        if (text.len > GW_JWT_MAX)
                return GW_JWT_MALFORMED;
        for (unsigned i = 0; i < 3; i++) {
                const char *dot = rest.len > 0 ? memchr(rest.data, '.', rest.len) : NULL;

                if ((dot == NULL) != (i == 2))
                        return GW_JWT_MALFORMED;
                part[i] = (struct s3_str){rest.data, dot != NULL ? (size_t)(dot - rest.data) : rest.len};
                rest = (struct s3_str){part[i].data + part[i].len + 1, rest.len - part[i].len - (dot != NULL)};
        }
        return part[0].len > 0 && part[1].len > 0 && part[2].len > 0 ? GW_JWT_OK
                                                                                          : GW_JWT_MALFORMED;
}

enum gw_jwt_fault gw_jwt_parse(struct s3_str text, struct gw_jwt *out)
{
        struct s3_str part[3];
        int len;

        memset(out, 0, sizeof(*out));
        if (jwt_split(text, part) != GW_JWT_OK)
                return GW_JWT_MALFORMED;
        out->signed_text = (struct s3_str){text.data, part[0].len + 1 + part[1].len};
        len = gw_base64url_decode(part[2], out->signature, sizeof(out->signature));
        if (len <= 0)
                return GW_JWT_MALFORMED;
        out->signature_len = (size_t)len;
        out->header = decode_object(part[0]);
        if (out->header != NULL)
                out->claims = decode_object(part[1]);
        if (out->claims == NULL)
                return errno == ENOMEM ? GW_JWT_NO_MEMORY : GW_JWT_MALFORMED;
        if (json_object_get(out->header, "crit") != NULL)
                return GW_JWT_MALFORMED;
        out->algorithm = member_text(out->header, "alg");
        out->key = member_text(out->header, "kid");
        out->issuer = member_text(out->claims, "iss");
        if (out->algorithm == NULL || !gw_jwk_algorithm_known(out->algorithm))
                return GW_JWT_ALGORITHM;
        if (out->key == NULL)
                return GW_JWT_MALFORMED;
        return out->issuer != NULL ? GW_JWT_OK : GW_JWT_CLAIM;
}

void gw_jwt_free(struct gw_jwt *jwt)
{
        json_decref(jwt->header);
        json_decref(jwt->claims);
        jwt->header = jwt->claims = NULL;
}

/* ---- claims ---------------------------------------------------------------------------------- */

static bool is_among(const char *text, const char *const *list, unsigned count)
{
        for (unsigned i = 0; text != NULL && i < count; i++)
                if (strcmp(list[i], text) == 0)
                        return true;
        return false;
}

/* The one it was made for: azp, or the one of aud that is known. NULL: none. */
static const char *find_audience(const json_t *claims, const char *const *audiences, unsigned count)
{
        const json_t *aud = json_object_get(claims, "aud"), *azp = json_object_get(claims, "azp");

        if (azp != NULL)
                return is_among(json_string_value(azp), audiences, count) ? json_string_value(azp) : NULL;
        if (json_is_string(aud))
                return is_among(json_string_value(aud), audiences, count) ? json_string_value(aud) : NULL;
        for (size_t i = 0; i < json_array_size(aud); i++) {
                const char *one = json_string_value(json_array_get(aud, i));

                if (is_among(one, audiences, count))
                        return one;
        }
        return NULL;
}

/* Seconds of a time; false: it is none. */
static bool claim_time(const json_t *claims, const char *name, int64_t *out)
{
        const json_t *value = json_object_get(claims, name);
        double seconds = json_number_value(value);

        if (!json_is_number(value) || !(seconds >= 0 && seconds < 1e15))
                return false;
        *out = (int64_t)seconds;
        return true;
}

enum gw_jwt_fault gw_jwt_check(struct gw_jwt *jwt, const char *issuer, const char *const *audiences, unsigned count,
                               int64_t now_s)
{
        int64_t expires, issued, from = 0;

        if (strcmp(jwt->issuer, issuer) != 0)
                return GW_JWT_ISSUER;
        jwt->subject = member_text(jwt->claims, "sub");
        if (jwt->subject == NULL || strlen(jwt->subject) > GW_JWT_CLAIM_MAX ||
            json_object_get(jwt->claims, "aud") == NULL || !claim_time(jwt->claims, "exp", &expires) ||
            !claim_time(jwt->claims, "iat", &issued) ||
            (json_object_get(jwt->claims, "nbf") != NULL && !claim_time(jwt->claims, "nbf", &from)))
                return GW_JWT_CLAIM;
        jwt->audience = find_audience(jwt->claims, audiences, count);
        if (jwt->audience == NULL)
                return GW_JWT_AUDIENCE;
        if (now_s >= expires)
                return GW_JWT_EXPIRED;
        return issued > now_s + GW_JWT_SKEW_S || from > now_s + GW_JWT_SKEW_S ? GW_JWT_EARLY : GW_JWT_OK;
}
