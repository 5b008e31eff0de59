/*
 * Version ids and the state of versioning: VersioningConfiguration, and the ids that headers,
 * parameters and documents carry. Called by the gateway; pure.
 */
#include <endian.h>

#include "docs_internal.h"

/* ---- ids ------------------------------------------------------------------------------------- */

size_t s3_version_format(const struct s3_version *version, char out[S3_VERSION_TEXT])
{
        uint64_t number = htobe64(version->number);
        uint8_t bytes[S3_VERSION_BYTES];

        if (version->null) {
                memcpy(out, "null", sizeof("null"));
                return sizeof("null") - 1;
        }
        memcpy(bytes, &number, sizeof(number));
        memcpy(bytes + sizeof(number), version->random, sizeof(version->random));
        return s3_base64url_encode(bytes, sizeof(bytes), out);
}

/* Reads the bytes of an id that is not `null`. */
static bool version_bytes(struct s3_str text, uint8_t bytes[S3_VERSION_BYTES])
{
        char copy[S3_VERSION_TEXT - 1];

        if (text.len != sizeof(copy) || memchr(text.data, '+', text.len) != NULL ||
            memchr(text.data, '/', text.len) != NULL)
                return false;
        memcpy(copy, text.data, sizeof(copy));
        for (size_t i = 0; i < sizeof(copy); i++) /* 24 bytes need no padding: the alphabets differ in two digits */
                copy[i] = (char)(copy[i] == '-' ? '+' : copy[i] == '_' ? '/' : copy[i]);
        return s3_base64_decode((struct s3_str){copy, sizeof(copy)}, bytes, S3_VERSION_BYTES) == 0;
}

enum s3_error s3_version_parse(struct s3_str text, struct s3_version *out, const char **message)
{
        uint8_t bytes[S3_VERSION_BYTES];
        uint64_t number;

        *out = (struct s3_version){.null = s3_str_eq(text, S3_STR("null"))};
        if (out->null)
                return S3_OK;
        if (text.len == 0) {
                *message = "Version id cannot be the empty string";
                return S3_ERR_INVALID_ARGUMENT;
        }
        if (!version_bytes(text, bytes)) {
                *message = "Invalid version id specified";
                return S3_ERR_INVALID_ARGUMENT;
        }
        memcpy(&number, bytes, sizeof(number));
        out->number = be64toh(number);
        if (out->number == 0) { /* no version has it: callers name the null version so */
                *message = "Invalid version id specified";
                return S3_ERR_INVALID_ARGUMENT;
        }
        memcpy(out->random, bytes + sizeof(number), sizeof(out->random));
        return S3_OK;
}

/* ---- VersioningConfiguration ----------------------------------------------------------------- */

enum { VERSIONING, STATUS, MFA_DELETE };

static const struct s3_element versioning_elements[] = {
        [VERSIONING] = {.name = "VersioningConfiguration"},
        [STATUS] = {"Status", VERSIONING, .text = true},
        [MFA_DELETE] = {"MfaDelete", VERSIONING, .text = true},
};

static enum s3_error versioning_close(struct s3_doc *doc, unsigned number, struct s3_str text)
{
        switch (number) {
        case STATUS:
                if (s3_doc_word(text, "Enabled"))
                        doc->versioning = S3_VERSIONING_ENABLED;
                else if (s3_doc_word(text, "Suspended"))
                        doc->versioning = S3_VERSIONING_SUSPENDED;
                else
                        return S3_ERR_MALFORMED_XML;
                return S3_OK;
        case MFA_DELETE:
                if (s3_doc_word(text, "Enabled"))
                        return s3_doc_refuse(doc, S3_ERR_NOT_IMPLEMENTED,
                                             "The element MfaDelete implies functionality that is not implemented.");
                return s3_doc_word(text, "Disabled") ? S3_OK : S3_ERR_MALFORMED_XML;
        default:
                if (s3_doc_saw(doc, STATUS))
                        return S3_OK;
                return s3_doc_refuse(doc, S3_ERR_ILLEGAL_VERSIONING, "The Versioning element must be specified");
        }
}

S3_SCHEMA(s3_versioning_schema, versioning_elements, 16u << 10, NULL, versioning_close);

void s3_versioning_write(struct s3_xml *xml, enum s3_versioning versioning)
{
        s3_xml_root(xml, "VersioningConfiguration");
        if (versioning != S3_VERSIONING_NEVER)
                s3_xml_textz(xml, "Status", versioning == S3_VERSIONING_ENABLED ? "Enabled" : "Suspended");
        s3_xml_close(xml, "VersioningConfiguration");
}

/* ---- DeleteResult ---------------------------------------------------------------------------- */

void s3_deleted_write(struct s3_xml *xml, const struct s3_deleted *deleted)
{
        s3_xml_open(xml, "Deleted");
        s3_xml_text(xml, "Key", deleted->key);
        if (deleted->version_id.data != NULL)
                s3_xml_text(xml, "VersionId", deleted->version_id);
        if (deleted->marker)
                s3_xml_bool(xml, "DeleteMarker", true);
        if (deleted->marker_version_id.data != NULL)
                s3_xml_text(xml, "DeleteMarkerVersionId", deleted->marker_version_id);
        s3_xml_close(xml, "Deleted");
}
