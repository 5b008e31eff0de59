/*
 * Rules for names of general purpose buckets, as AWS documents them. Asked by the gateway at
 * CreateBucket and by clients.
 */
#include "s3_internal.h"

static const char *const reserved_prefixes[] = {"xn--", "sthree-", "amzn-s3-demo-"};
static const char *const reserved_suffixes[] = {"-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"};

static bool is_letter_or_digit(char c)
{
        return (c >= 'a' && c <= 'z') || s3_is_digit(c);
}

/* Four groups of digits with dots between them: AWS refuses the form, whatever the numbers are. */
static bool looks_like_ipv4(struct s3_str name)
{
        unsigned dots = 0;

        for (size_t i = 0; i < name.len; i++) {
                if (name.data[i] == '.')
                        dots++;
                else if (!s3_is_digit(name.data[i]))
                        return false;
        }
        return dots == 3;
}

static bool reserved(struct s3_str name)
{
        for (size_t i = 0; i < sizeof(reserved_prefixes) / sizeof(reserved_prefixes[0]); i++)
                if (s3_str_starts(name, s3_str_of(reserved_prefixes[i])))
                        return true;
        for (size_t i = 0; i < sizeof(reserved_suffixes) / sizeof(reserved_suffixes[0]); i++) {
                struct s3_str suffix = s3_str_of(reserved_suffixes[i]);

                if (name.len >= suffix.len &&
                    s3_str_eq((struct s3_str){name.data + name.len - suffix.len, suffix.len}, suffix))
                        return true;
        }
        return false;
}

bool s3_bucket_name_valid(struct s3_str name)
{
        if (name.len < 3 || name.len > S3_BUCKET_MAX)
                return false;
        if (!is_letter_or_digit(name.data[0]) || !is_letter_or_digit(name.data[name.len - 1]))
                return false;
        for (size_t i = 0; i < name.len; i++) {
                char c = name.data[i];

                if (!is_letter_or_digit(c) && c != '.' && c != '-')
                        return false;
                if (c == '.' && name.data[i - 1] == '.')
                        return false;
        }
        return !looks_like_ipv4(name) && !reserved(name);
}

bool s3_bucket_name_creatable(struct s3_str name)
{
        if (!s3_bucket_name_valid(name))
                return false;
        for (size_t i = 1; i < name.len; i++)
                if ((name.data[i - 1] == '.' && name.data[i] == '-') || (name.data[i - 1] == '-' && name.data[i] == '.'))
                        return false;
        return true;
}

bool s3_bucket_name_once_valid(struct s3_str name)
{
        if (name.len < 3 || name.len > S3_BUCKET_ONCE_MAX)
                return false;
        for (size_t i = 0; i < name.len; i++)
                if (!is_letter_or_digit(s3_lower(name.data[i])) && strchr("._-", name.data[i]) == NULL)
                        return false;
        return memchr(name.data, '\0', name.len) == NULL;
}
