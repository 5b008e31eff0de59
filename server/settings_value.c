/*
 * settings_value.c - from text to the values of settings, and back.
 *
 * Pure functions, any thread. A parser takes the whole text or nothing: no spaces, no signs, no
 * rest; it says why it refuses, and the caller adds which setting it was.
 */
#include "server/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

struct unit {
        const char *name;
        uint64_t factor;
};

static const struct unit size_units[] = {
        {"", 1},           {"B", 1},
        {"K", 1ull << 10}, {"KiB", 1ull << 10},
        {"M", 1ull << 20}, {"MiB", 1ull << 20},
        {"G", 1ull << 30}, {"GiB", 1ull << 30},
        {"T", 1ull << 40}, {"TiB", 1ull << 40},
};
static const struct unit time_units[] = {
        {"ms", 1}, {"s", 1000}, {"", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000},
};

/* Digits at the start of text; *rest is what follows. */
static int parse_digits(const char *text, uint64_t *out, const char **rest)
{
        uint64_t value = 0;
        const char *p;

        for (p = text; *p >= '0' && *p <= '9'; p++)
                if (__builtin_mul_overflow(value, 10u, &value) ||
                    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
                        return -ERANGE;
        if (p == text)
                return -EINVAL;
        *out = value;
        *rest = p;
        return 0;
}

static int parse_with_unit(const char *text, const struct unit *units, size_t count, uint64_t *out)
{
        uint64_t value;
        const char *rest;
        size_t i;
        int rv;

        rv = parse_digits(text, &value, &rest);
        if (rv != 0)
                return rv;
        for (i = 0; i < count; i++) {
                if (strcasecmp(rest, units[i].name) != 0)
                        continue;
                return __builtin_mul_overflow(value, units[i].factor, out) ? -ERANGE : 0;
        }
        return -EINVAL;
}

int srv_parse_bool(const char *text, bool *out, const char **why)
{
        static const char *const yes[] = {"yes", "true", "on", "1"}, *const no[] = {"no", "false", "off", "0"};
        size_t i;

        for (i = 0; i < 4; i++) {
                if (strcasecmp(text, yes[i]) != 0 && strcasecmp(text, no[i]) != 0)
                        continue;
                *out = strcasecmp(text, yes[i]) == 0;
                return 0;
        }
        *why = "is neither yes nor no";
        return -EINVAL;
}

int srv_parse_int(const char *text, uint64_t *out, const char **why)
{
        const char *rest;

        if (parse_digits(text, out, &rest) == 0 && *rest == '\0')
                return 0;
        *why = "is not a number";
        return -EINVAL;
}

int srv_parse_size(const char *text, uint64_t *out, const char **why)
{
        if (parse_with_unit(text, size_units, sizeof(size_units) / sizeof(size_units[0]), out) == 0)
                return 0;
        *why = "is not a size like 64MiB";
        return -EINVAL;
}

int srv_parse_duration(const char *text, uint64_t *out, const char **why)
{
        if (parse_with_unit(text, time_units, sizeof(time_units) / sizeof(time_units[0]), out) == 0)
                return 0;
        *why = "is not a time like 30s";
        return -EINVAL;
}

/*
 * Finds where host and port of ADDR:PORT are. An IPv6 address needs brackets, or its colons would
 * be ambiguous.
 */
static int split_address(const char *text, const char **host, size_t *host_len, const char **port)
{
        const char *colon = strrchr(text, ':');

        if (colon == NULL)
                return -EINVAL;
        *host = text;
        *host_len = (size_t)(colon - text);
        *port = colon + 1;
        if (*host_len >= 2 && text[0] == '[' && colon[-1] == ']') {
                *host = text + 1;
                *host_len -= 2;
                return *host_len > 0 && memchr(*host, ':', *host_len) != NULL ? 0 : -EINVAL;
        }
        return memchr(text, ':', *host_len) == NULL && strpbrk(text, "[] \t/") == NULL ? 0 : -EINVAL;
}

int srv_parse_address(const char *text, struct srv_address *out, const char **why)
{
        const char *host, *port, *rest;
        size_t host_len;
        uint64_t number;

        memset(out, 0, sizeof(*out));
        if (*text == '\0')
                return 0;
        *why = "is not an address like 127.0.0.1:9000";
        if (split_address(text, &host, &host_len, &port) != 0 || host_len >= sizeof(out->host))
                return -EINVAL;
        if (parse_digits(port, &number, &rest) != 0 || *rest != '\0' || number > UINT16_MAX)
                return -EINVAL;
        if (!(host_len == 1 && *host == '*'))
                memcpy(out->host, host, host_len);
        out->port = (uint16_t)number;
        out->set = true;
        return 0;
}

int srv_parse_ec(const char *text, struct srv_ec *out, const char **why)
{
        uint64_t k, m;
        const char *rest;

        *out = (struct srv_ec){0, 0};
        if (*text == '\0')
                return 0;
        *why = "is not an erasure code like 4+2 (1 to 32 shards of data, 0 to 8 of parity)";
        if (parse_digits(text, &k, &rest) != 0 || *rest != '+')
                return -EINVAL;
        if (parse_digits(rest + 1, &m, &rest) != 0 || *rest != '\0')
                return -EINVAL;
        if (k < 1 || k > 32 || m > 8)
                return -EINVAL;
        *out = (struct srv_ec){(unsigned)k, (unsigned)m};
        return 0;
}

int srv_parse_choice(const char *text, const char *choices, unsigned *out, const char **why)
{
        const char *word = choices;
        size_t len;
        unsigned i;

        for (i = 0; *word != '\0'; i++) {
                len = strcspn(word, "|");
                if (strlen(text) == len && strncmp(text, word, len) == 0) {
                        *out = i;
                        return 0;
                }
                word += len + (word[len] == '|');
        }
        *why = "is not one of its words";
        return -EINVAL;
}

/* The largest unit that divides value; 0 is "0". */
static void format_with_unit(uint64_t value, const struct unit *units, size_t count, char *out, size_t size)
{
        size_t i;

        for (i = count; i > 0 && value != 0; i--) {
                if (value % units[i - 1].factor != 0)
                        continue;
                snprintf(out, size, "%" PRIu64 "%s", value / units[i - 1].factor, units[i - 1].name);
                return;
        }
        snprintf(out, size, "%" PRIu64, value);
}

void srv_format_size(uint64_t bytes, char *out, size_t size)
{
        static const struct unit shown[] = {
                {"", 1}, {"KiB", 1ull << 10}, {"MiB", 1ull << 20}, {"GiB", 1ull << 30}, {"TiB", 1ull << 40}};

        format_with_unit(bytes, shown, sizeof(shown) / sizeof(shown[0]), out, size);
}

void srv_format_duration(uint64_t ms, char *out, size_t size)
{
        static const struct unit shown[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};

        format_with_unit(ms, shown, sizeof(shown) / sizeof(shown[0]), out, size);
}

void srv_address_text(const struct srv_address *address, char *out, size_t size)
{
        bool v6 = strchr(address->host, ':') != NULL;

        snprintf(out, size, "%s%s%s:%u", v6 ? "[" : "", *address->host != '\0' ? address->host : "*", v6 ? "]" : "", address->port);
}
