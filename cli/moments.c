/* moments.c - reads times as people write them; for `diff` and `lock`. Pure, but for the zone. */
#include "moments.h"

#include "s3.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SPAN_DAYS_MAX 36525 /* a hundred years */

/* "90d", in milliseconds. -EINVAL, also for more than a hundred years. */
static int span_parse(const char *text, int64_t *ms)
{
        static const struct {
                char unit;
                int64_t seconds;
        } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
        size_t digits = strspn(text, "0123456789");
        int64_t number;

        if (digits == 0 || digits > 12 || text[digits] == '\0' || text[digits + 1] != '\0')
                return -EINVAL;
        number = strtoll(text, NULL, 10);
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
                if (units[i].unit != text[digits])
                        continue;
                if (number > SPAN_DAYS_MAX * INT64_C(86400) / units[i].seconds)
                        return -EINVAL;
                *ms = number * units[i].seconds * 1000;
                return 0;
        }
        return -EINVAL;
}

static int local_parse(const char *text, int64_t *ms)
{
        static const char *const forms[] = {"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S",
                                            "%Y-%m-%d %H:%M:%S"};

        for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
                struct tm tm = {.tm_isdst = -1};
                const char *end = strptime(text, forms[i], &tm);
                int day = tm.tm_mday;
                time_t seconds;

                if (end == NULL || *end != '\0')
                        continue;
                tm.tm_isdst = -1;
                seconds = mktime(&tm);
                /* where there is no such day mktime() goes on to the next */
                if (seconds == (time_t)-1 || tm.tm_mday != day)
                        return -EINVAL;
                *ms = (int64_t)seconds * 1000;
                return 0;
        }
        return -EINVAL;
}

int cli_moment_parse(const char *text, int64_t now_ms, bool past, int64_t *ms)
{
        size_t len = strlen(text);
        int64_t span;

        if (span_parse(text, &span) == 0) {
                *ms = past ? now_ms - span : now_ms + span;
                return 0;
        }
        /* a zone comes behind date and time: YYYY-MM-DDTHH:MM:SS */
        if (len > 19 && (text[len - 1] == 'Z' || strpbrk(text + 19, "+-") != NULL))
                return s3_date_parse_iso(s3_str_of(text), ms);
        return local_parse(text, ms);
}

int64_t cli_now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
