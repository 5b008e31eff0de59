/*
 * Object lock: ObjectLockConfiguration, Retention, LegalHold, and the headers of uploads. Called by
 * the gateway; pure. What a lock forbids is the store's to decide.
 */
#include "docs_internal.h"

#define MS_PER_DAY 86400000ll

/* ---- schemas --------------------------------------------------------------------------------- */

enum { CONFIG, ENABLED, RULE, DEFAULT, MODE, DAYS, YEARS };
enum { RETENTION, RETENTION_MODE, RETENTION_DATE };
enum { LEGAL_HOLD, HOLD_STATUS };

/* clang-format off */
static const struct s3_element config_elements[] = {
        [CONFIG] = {.name = "ObjectLockConfiguration"},
        [ENABLED] = {"ObjectLockEnabled", CONFIG, .text = true},
        [RULE] = {.name = "Rule", .parent = CONFIG},
        [DEFAULT] = {.name = "DefaultRetention", .parent = RULE},
        [MODE] = {"Mode", DEFAULT, .text = true},
        [DAYS] = {"Days", DEFAULT, .text = true},
        [YEARS] = {"Years", DEFAULT, .text = true},
};
static const struct s3_element retention_elements[] = {
        [RETENTION] = {.name = "Retention"},
        [RETENTION_MODE] = {"Mode", RETENTION, .text = true},
        [RETENTION_DATE] = {"RetainUntilDate", RETENTION, .text = true},
};
static const struct s3_element hold_elements[] = {
        [LEGAL_HOLD] = {.name = "LegalHold"},
        [HOLD_STATUS] = {"Status", LEGAL_HOLD, .text = true},
};
/* clang-format on */

/* ---- modes ----------------------------------------------------------------------------------- */

const char *s3_lock_mode_name(enum s3_lock_mode mode)
{
        return mode == S3_LOCK_GOVERNANCE ? "GOVERNANCE" : mode == S3_LOCK_COMPLIANCE ? "COMPLIANCE" : "";
}

static bool lock_mode_parse(struct s3_str text, enum s3_lock_mode *out)
{
        if (s3_str_eq(text, S3_STR("GOVERNANCE")))
                *out = S3_LOCK_GOVERNANCE;
        else if (s3_str_eq(text, S3_STR("COMPLIANCE")))
                *out = S3_LOCK_COMPLIANCE;
        else
                return false;
        return true;
}

static enum s3_error lock_mode_element(struct s3_str text, enum s3_lock_mode *out)
{
        return lock_mode_parse(s3_xml_trim(text), out) ? S3_OK : S3_ERR_MALFORMED_XML;
}

struct s3_retention s3_lock_default(const struct s3_lock_config *config, int64_t now_ms)
{
        struct s3_retention retention = {.mode = config->mode};

        if (config->mode != S3_LOCK_NONE)
                retention.until_ms = s3_date_add_years(now_ms, config->years) + config->days * MS_PER_DAY;
        return retention;
}

/* ---- ObjectLockConfiguration ----------------------------------------------------------------- */

static enum s3_error lock_period(struct s3_doc *doc, struct s3_str text, uint32_t max, uint32_t *out)
{
        int64_t number;

        if (s3_doc_int(text, &number) != S3_OK)
                return S3_ERR_MALFORMED_XML;
        if (number <= 0)
                return s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT,
                                     "Default retention period must be a positive integer value.");
        if (number > max)
                return s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT, "Default retention period is too large.");
        *out = (uint32_t)number;
        return S3_OK;
}

static enum s3_error lock_config_close(struct s3_doc *doc, unsigned number, struct s3_str text)
{
        struct s3_lock_config *config = &doc->lock_config;
        bool whole = true;

        switch (number) {
        case ENABLED:
                whole = s3_doc_word(text, "Enabled");
                break;
        case MODE:
                return lock_mode_element(text, &config->mode);
        case DAYS:
                return lock_period(doc, text, S3_LOCK_DAYS_MAX, &config->days);
        case YEARS:
                return lock_period(doc, text, S3_LOCK_YEARS_MAX, &config->years);
        case DEFAULT:
                whole = s3_doc_saw(doc, MODE) && s3_doc_saw_of(doc, S3_SEEN(DAYS) | S3_SEEN(YEARS)) == 1;
                break;
        case RULE:
                whole = s3_doc_saw(doc, DEFAULT);
                break;
        case CONFIG:
                whole = s3_doc_saw(doc, ENABLED);
                break;
        default:
                break;
        }
        return whole ? S3_OK : S3_ERR_MALFORMED_XML;
}

S3_SCHEMA(s3_lock_config_schema, config_elements, 16u << 10, NULL, lock_config_close);

void s3_lock_config_write(struct s3_xml *xml, const struct s3_lock_config *config)
{
        s3_xml_root(xml, "ObjectLockConfiguration");
        s3_xml_textz(xml, "ObjectLockEnabled", "Enabled");
        if (config->mode != S3_LOCK_NONE) {
                s3_xml_open(xml, "Rule");
                s3_xml_open(xml, "DefaultRetention");
                s3_xml_textz(xml, "Mode", s3_lock_mode_name(config->mode));
                if (config->days > 0)
                        s3_xml_uint(xml, "Days", config->days);
                else
                        s3_xml_uint(xml, "Years", config->years);
                s3_xml_close(xml, "DefaultRetention");
                s3_xml_close(xml, "Rule");
        }
        s3_xml_close(xml, "ObjectLockConfiguration");
}

/* ---- Retention ------------------------------------------------------------------------------- */

/* Mode and date, or neither: the retention is to go. */
static enum s3_error retention_close(struct s3_doc *doc, unsigned number, struct s3_str text)
{
        bool good = s3_doc_saw(doc, RETENTION_MODE) == s3_doc_saw(doc, RETENTION_DATE);

        if (number == RETENTION_MODE)
                return lock_mode_element(text, &doc->retention.mode);
        if (number == RETENTION_DATE)
                good = s3_date_parse_iso(s3_xml_trim(text), &doc->retention.until_ms) == 0;
        return good ? S3_OK : S3_ERR_MALFORMED_XML;
}

S3_SCHEMA(s3_retention_schema, retention_elements, 16u << 10, NULL, retention_close);

void s3_retention_write(struct s3_xml *xml, const struct s3_retention *retention)
{
        s3_xml_root(xml, "Retention");
        if (retention->mode != S3_LOCK_NONE) {
                s3_xml_textz(xml, "Mode", s3_lock_mode_name(retention->mode));
                s3_xml_date(xml, "RetainUntilDate", retention->until_ms);
        }
        s3_xml_close(xml, "Retention");
}

/* ---- LegalHold ------------------------------------------------------------------------------- */

static bool hold_parse(struct s3_str text, bool *on)
{
        *on = s3_str_eq(text, S3_STR("ON"));
        return *on || s3_str_eq(text, S3_STR("OFF"));
}

static enum s3_error hold_close(struct s3_doc *doc, unsigned number, struct s3_str text)
{
        bool whole =
                number == HOLD_STATUS ? hold_parse(s3_xml_trim(text), &doc->legal_hold) : s3_doc_saw(doc, HOLD_STATUS);

        return whole ? S3_OK : S3_ERR_MALFORMED_XML;
}

S3_SCHEMA(s3_legal_hold_schema, hold_elements, 16u << 10, NULL, hold_close);

void s3_legal_hold_write(struct s3_xml *xml, bool on)
{
        s3_xml_root(xml, "LegalHold");
        s3_xml_textz(xml, "Status", on ? "ON" : "OFF");
        s3_xml_close(xml, "LegalHold");
}

/* ---- headers --------------------------------------------------------------------------------- */

static enum s3_error lock_wrong(struct s3_lock_headers *out, const char *header, const char *text, const char **message)
{
        out->wrong = header;
        *message = text;
        return S3_ERR_INVALID_ARGUMENT;
}

enum s3_error s3_lock_headers_parse(struct s3_str mode, struct s3_str until, struct s3_str hold,
                                    struct s3_lock_headers *out, const char **message)
{
        *out = (struct s3_lock_headers){.has_hold = hold.data != NULL};
        if ((mode.data == NULL) != (until.data == NULL))
                *message = "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied";
        else if (mode.data != NULL && !lock_mode_parse(mode, &out->retention.mode))
                return lock_wrong(out, "x-amz-object-lock-mode", "Unknown wormMode directive.", message);
        else if (until.data != NULL && s3_date_parse_iso(until, &out->retention.until_ms) != 0)
                return lock_wrong(out, "x-amz-object-lock-retain-until-date",
                                  "The retain until date must be provided in ISO 8601 format", message);
        else if (out->has_hold && !hold_parse(hold, &out->hold))
                return lock_wrong(out, "x-amz-object-lock-legal-hold", "Legal Hold must be either of 'ON' or 'OFF'",
                                  message);
        else
                return S3_OK;
        return S3_ERR_INVALID_ARGUMENT;
}

enum s3_error s3_lock_flag_parse(struct s3_str value, bool *out)
{
        *out = s3_str_eq_nocase(value, S3_STR("true"));
        if (*out || value.data == NULL || s3_str_eq_nocase(value, S3_STR("false")))
                return S3_OK;
        return S3_ERR_INVALID_ARGUMENT;
}
