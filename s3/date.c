/*
 * Dates of S3 and HTTP, by arithmetic on the proleptic Gregorian calendar: libc's functions depend
 * on locale and time zone. Pure; any thread.
 */
#include <errno.h>

#include "s3_internal.h"

#define MS_PER_DAY 86400000ll
#define LAST_MS    253402300799999ll /* 9999-12-31T23:59:59.999Z */

static const char month_names[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
static const char *const day_names[7] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};

struct moment {
        int year, month, day; /* month and day from 1 */
        int hour, minute, second, ms;
        int weekday; /* 0: Sunday; filled by split() only */
};

/* Days since 1970-01-01; the year is counted from March, so that the leap day is its last. */
static int64_t days_of(int year, int month, int day)
{
        int64_t y = month <= 2 ? year - 1 : year;
        int64_t era = y / 400, of_era = y % 400;
        int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

        return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void split(int64_t ms, struct moment *m)
{
        int64_t days, z, era, of_era, y, of_year, mp;

        if (ms < 0)
                ms = 0;
        if (ms > LAST_MS)
                ms = LAST_MS;
        days = ms / MS_PER_DAY;
        m->ms = (int)(ms % 1000);
        m->second = (int)(ms / 1000 % 60);
        m->minute = (int)(ms / 60000 % 60);
        m->hour = (int)(ms / 3600000 % 24);
        m->weekday = (int)((days + 4) % 7);
        z = days + 719468;
        era = z / 146097;
        of_era = z % 146097;
        y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
        of_year = of_era - (365 * y + y / 4 - y / 100);
        mp = (5 * of_year + 2) / 153;
        m->day = (int)(of_year - (153 * mp + 2) / 5 + 1);
        m->month = (int)(mp < 10 ? mp + 3 : mp - 9);
        m->year = (int)(y + era * 400 + (m->month <= 2));
}

static int days_in_month(int year, int month)
{
        static const int days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
        bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

        return days[month - 1] + (month == 2 && leap);
}

/* A leap second (60) counts as the first second of the next minute, as POSIX does. */
static int date_join(const struct moment *m, int64_t *ms)
{
        if (m->year < 1601 || m->year > 9999 || m->month < 1 || m->month > 12 || m->day < 1 ||
            m->day > days_in_month(m->year, m->month) || m->hour > 23 || m->minute > 59 || m->second > 60)
                return -EINVAL;
        *ms = days_of(m->year, m->month, m->day) * MS_PER_DAY + m->hour * 3600000ll + m->minute * 60000ll +
              m->second * 1000ll + m->ms;
        return 0;
}

int64_t s3_date_add_years(int64_t ms, unsigned years)
{
        struct moment m;

        split(ms, &m);
        m.year += (int)years;
        if (m.month == 2 && m.day == 29 && days_in_month(m.year, 2) < 29) {
                m.month = 3;
                m.day = 1;
        }
        return date_join(&m, &ms) == 0 ? ms : LAST_MS;
}

/* ---- writing --------------------------------------------------------------------------------- */

static char *date_put_number(char *p, int value, int digits)
{
        for (int i = digits - 1; i >= 0; i--) {
                p[i] = (char)('0' + value % 10);
                value /= 10;
        }
        return p + digits;
}

static char *date_put_text(char *p, const char *text, size_t len)
{
        memcpy(p, text, len);
        return p + len;
}

static char *put_clock(char *p, const struct moment *m)
{
        p = date_put_number(p, m->hour, 2);
        *p++ = ':';
        p = date_put_number(p, m->minute, 2);
        *p++ = ':';
        return date_put_number(p, m->second, 2);
}

size_t s3_date_format_amz(int64_t ms, char out[S3_DATE_AMZ_SIZE])
{
        struct moment m;
        char *p = out;

        split(ms, &m);
        p = date_put_number(p, m.year, 4);
        p = date_put_number(p, m.month, 2);
        p = date_put_number(p, m.day, 2);
        *p++ = 'T';
        p = date_put_number(p, m.hour, 2);
        p = date_put_number(p, m.minute, 2);
        p = date_put_number(p, m.second, 2);
        *p++ = 'Z';
        *p = '\0';
        return (size_t)(p - out);
}

static char *put_day_and_clock(char *p, const struct moment *m)
{
        p = date_put_number(p, m->year, 4);
        *p++ = '-';
        p = date_put_number(p, m->month, 2);
        *p++ = '-';
        p = date_put_number(p, m->day, 2);
        *p++ = 'T';
        return put_clock(p, m);
}

size_t s3_date_format_seconds(int64_t ms, char out[S3_DATE_SECONDS_SIZE])
{
        struct moment m;
        char *p;

        split(ms, &m);
        p = put_day_and_clock(out, &m);
        *p++ = 'Z';
        *p = '\0';
        return (size_t)(p - out);
}

size_t s3_date_format_iso(int64_t ms, char out[S3_DATE_ISO_SIZE])
{
        struct moment m;
        char *p;

        split(ms, &m);
        p = put_day_and_clock(out, &m);
        *p++ = '.';
        p = date_put_number(p, m.ms, 3);
        *p++ = 'Z';
        *p = '\0';
        return (size_t)(p - out);
}

size_t s3_date_format_http(int64_t ms, char out[S3_DATE_HTTP_SIZE])
{
        struct moment m;
        char *p = out;

        split(ms, &m);
        p = date_put_text(p, day_names[m.weekday], 3);
        p = date_put_text(p, ", ", 2);
        p = date_put_number(p, m.day, 2);
        *p++ = ' ';
        p = date_put_text(p, month_names[m.month - 1], 3);
        *p++ = ' ';
        p = date_put_number(p, m.year, 4);
        *p++ = ' ';
        p = put_clock(p, &m);
        p = date_put_text(p, " GMT", 4);
        *p = '\0';
        return (size_t)(p - out);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Each take_...() advances *s past what it recognised and returns false if that is not there. */

static bool date_take_number(struct s3_str *s, size_t digits, int *out)
{
        int value = 0;

        if (s->len < digits)
                return false;
        for (size_t i = 0; i < digits; i++) {
                if (!s3_is_digit(s->data[i]))
                        return false;
                value = value * 10 + (s->data[i] - '0');
        }
        s->data += digits;
        s->len -= digits;
        *out = value;
        return true;
}

static bool date_take(struct s3_str *s, const char *text)
{
        struct s3_str wanted = s3_str_of(text);

        if (!s3_str_starts_nocase(*s, wanted))
                return false;
        s->data += wanted.len;
        s->len -= wanted.len;
        return true;
}

static bool take_month(struct s3_str *s, int *month)
{
        for (int i = 0; i < 12; i++) {
                if (date_take(s, month_names[i])) {
                        *month = i + 1;
                        return true;
                }
        }
        return false;
}

static bool take_weekday(struct s3_str *s)
{
        for (int i = 0; i < 7; i++) {
                struct s3_str shortened = {day_names[i], 3};

                if (date_take(s, day_names[i]))
                        return true;
                if (s3_str_starts_nocase(*s, shortened)) {
                        s->data += 3;
                        s->len -= 3;
                        return true;
                }
        }
        return false;
}

static bool take_clock(struct s3_str *s, struct moment *m)
{
        return date_take_number(s, 2, &m->hour) && date_take(s, ":") && date_take_number(s, 2, &m->minute) &&
               date_take(s, ":") && date_take_number(s, 2, &m->second);
}

static bool take_gmt(struct s3_str *s)
{
        return date_take(s, "GMT") || date_take(s, "UTC") || date_take(s, "+0000") || date_take(s, "-0000") ||
               date_take(s, "Z");
}

int s3_date_parse_amz(struct s3_str s, int64_t *ms)
{
        struct moment m = {0};

        if (s.len != S3_DATE_AMZ_SIZE - 1 || s.data[8] != 'T' || s.data[15] != 'Z')
                return -EINVAL;
        if (!date_take_number(&s, 4, &m.year) || !date_take_number(&s, 2, &m.month) ||
            !date_take_number(&s, 2, &m.day) || !date_take(&s, "T") || !date_take_number(&s, 2, &m.hour) ||
            !date_take_number(&s, 2, &m.minute) || !date_take_number(&s, 2, &m.second))
                return -EINVAL;
        return date_join(&m, ms);
}

/* ".123456": the first three digits count. At most nine. */
static bool take_fraction(struct s3_str *s, int *ms)
{
        int digits = 0, digit;

        *ms = 0;
        while (digits < 9 && date_take_number(s, 1, &digit)) {
                if (digits < 3)
                        *ms = *ms * 10 + digit;
                digits++;
        }
        for (int i = digits; i < 3; i++)
                *ms *= 10;
        return digits > 0;
}

static bool take_offset(struct s3_str *s, int64_t *offset_ms)
{
        int hours, minutes, sign;

        *offset_ms = 0;
        if (s->len == 0 || date_take(s, "Z"))
                return true;
        sign = date_take(s, "+") ? 1 : date_take(s, "-") ? -1 : 0;
        if (sign == 0 || !date_take_number(s, 2, &hours))
                return false;
        date_take(s, ":");
        if (!date_take_number(s, 2, &minutes) || hours > 23 || minutes > 59)
                return false;
        *offset_ms = sign * (hours * 3600000ll + minutes * 60000ll);
        return true;
}

int s3_date_parse_iso(struct s3_str s, int64_t *ms)
{
        struct moment m = {0};
        int64_t offset;
        int rv;

        if (!date_take_number(&s, 4, &m.year) || !date_take(&s, "-") || !date_take_number(&s, 2, &m.month) ||
            !date_take(&s, "-") || !date_take_number(&s, 2, &m.day) || !date_take(&s, "T") || !take_clock(&s, &m))
                return -EINVAL;
        if (date_take(&s, ".") && !take_fraction(&s, &m.ms))
                return -EINVAL;
        if (!take_offset(&s, &offset) || s.len != 0)
                return -EINVAL;
        rv = date_join(&m, ms);
        if (rv == 0)
                *ms -= offset;
        return rv;
}

/* " 6" or "06" or "6": RFC 1123 allows one digit, asctime pads with a space. */
static bool take_day(struct s3_str *s, int *day)
{
        date_take(s, " ");
        return date_take_number(s, 2, day) || date_take_number(s, 1, day);
}

/* "06 Nov 1994 08:49:37 GMT", after the weekday. */
static bool parse_rfc1123(struct s3_str s, struct moment *m)
{
        return take_day(&s, &m->day) && date_take(&s, " ") && take_month(&s, &m->month) && date_take(&s, " ") &&
               date_take_number(&s, 4, &m->year) && date_take(&s, " ") && take_clock(&s, m) && date_take(&s, " ") &&
               take_gmt(&s) && s.len == 0;
}

/* "06-Nov-94 08:49:37 GMT": two digits mean 1970 to 2069. */
static bool parse_rfc850(struct s3_str s, struct moment *m)
{
        if (!date_take(&s, " ") || !date_take_number(&s, 2, &m->day) || !date_take(&s, "-") ||
            !take_month(&s, &m->month) || !date_take(&s, "-"))
                return false;
        if (!date_take_number(&s, 4, &m->year)) {
                if (!date_take_number(&s, 2, &m->year))
                        return false;
                m->year += m->year < 70 ? 2000 : 1900;
        }
        return date_take(&s, " ") && take_clock(&s, m) && date_take(&s, " ") && take_gmt(&s) && s.len == 0;
}

/* "Nov  6 08:49:37 1994", after the weekday. */
static bool parse_asctime(struct s3_str s, struct moment *m)
{
        return date_take(&s, " ") && take_month(&s, &m->month) && date_take(&s, " ") && take_day(&s, &m->day) &&
               date_take(&s, " ") && take_clock(&s, m) && date_take(&s, " ") && date_take_number(&s, 4, &m->year) &&
               s.len == 0;
}

int s3_date_parse_http(struct s3_str s, int64_t *ms)
{
        struct moment m = {0};

        s = s3_str_trim(s);
        if (!take_weekday(&s))
                return -EINVAL;
        if (date_take(&s, ",")) {
                if (!parse_rfc1123(s, &m) && !parse_rfc850(s, &m))
                        return -EINVAL;
        } else if (!parse_asctime(s, &m)) {
                return -EINVAL;
        }
        return date_join(&m, ms);
}
