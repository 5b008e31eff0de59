/*
 * test_forecast.c - when drives will be full, in virtual time: what grows steadily, what does not,
 * what is deleted, and what only looks like growth.
 */
#include "server/forecast.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GB      1000000000.0
#define MINUTE  60.0
#define HOUR    3600.0
#define DAY     86400.0
#define TOTAL   1000 /* GB */
#define RESERVE 10   /* GB */

/* A drive, and the time. */
static struct srv_forecast_drive drive;
static struct eng_drive_info info;
static double now_s, used;

static int start(void **state)
{
        memset(&drive, 0, sizeof(drive));
        memset(&info, 0, sizeof(info));
        strcpy(info.id, "one");
        info.total_bytes = (uint64_t)(TOTAL * GB);
        info.reserve_bytes = (uint64_t)(RESERVE * GB);
        now_s = 12345;
        used = 500 * GB;
        return 0;
}

static void look(void)
{
        info.free_bytes = info.total_bytes - (uint64_t)used;
        srv_forecast_take(&drive, &info, (int64_t)(now_s * 1000));
}

/* Looks every minute for so long, while use grows by so much a second. */
static void pass(double seconds, double growth)
{
        double until = now_s + seconds;

        for (; now_s < until; now_s += MINUTE, used += growth * MINUTE)
                look();
}

/* The time to the reserve, at that growth from what is used now. */
static double left(double growth)
{
        return ((TOTAL - RESERVE) * GB - used) / growth;
}

static void is_about(double expected, double share)
{
        if (!(fabs(drive.full_in_s - expected) <= share * expected))
                fail_msg("%g s instead of %g s", drive.full_in_s, expected);
}

static void is_never(void)
{
        if (!isinf(drive.full_in_s))
                fail_msg("%g s instead of never", drive.full_in_s);
}

static void steady_growth(void **state)
{
        static const double days[] = {3, 10, 100, 1000};

        for (unsigned i = 0; i < 4; i++) {
                double growth;

                start(NULL);
                growth = left(1) / (days[i] * DAY);
                pass(1.5 * DAY, growth);
                is_about(left(growth), 0.01);
                pass(1.2 * DAY, growth);
                is_about(left(growth), 0.02);
        }
}

/* Within an hour for what fills it before tomorrow, within half a day for the rest. */
static void how_soon_it_is_known(void **state)
{
        double fast = left(1) / (3 * HOUR), slow = left(1) / (5 * DAY);

        pass(55 * MINUTE, fast);
        is_never();
        pass(10 * MINUTE, fast);
        is_about(left(fast), 0.1);
        start(NULL);
        pass(11.5 * HOUR, slow);
        is_never();
        pass(2 * HOUR, slow);
        is_about(left(slow), 0.02);
}

static void what_does_not_grow(void **state)
{
        pass(3 * DAY, 0);
        is_never();
        pass(2 * DAY, -GB / HOUR);
        is_never();
        start(NULL);
        pass(10 * DAY, left(1) / (20 * 365 * DAY)); /* too slow to matter */
        is_never();
}

/* A job that writes for three hours of each day, and deletes as much at the day's end. */
static void what_is_deleted_again_is_no_growth(void **state)
{
        double before;

        for (unsigned day = 0; day < 10; day++) {
                before = used;
                pass(3 * HOUR, 20 * GB / HOUR);
                if (drive.full_in_s < DAY)
                        fail_msg("day %u: %g s", day, drive.full_in_s);
                pass(20 * HOUR, 0);
                used = before;
                pass(1 * HOUR, 0);
                if (day > 2 && drive.full_in_s < 20 * DAY)
                        fail_msg("day %u: %g s", day, drive.full_in_s);
        }
}

/* The same, but a tenth of it stays. */
static void what_stays_of_it_is(void **state)
{
        double daily = 6 * GB;

        used = 300 * GB;
        for (unsigned day = 0; day < 14; day++) {
                pass(3 * HOUR, 20 * GB / HOUR);
                pass(20 * HOUR, 0);
                used -= 60 * GB - daily;
                pass(1 * HOUR, 0);
        }
        is_about(left(daily / DAY), 0.5);
}

/*
 * After half of everything was deleted the week promises too much for days; but what fills the
 * drive before tomorrow is seen in hours.
 */
static void a_large_delete(void **state)
{
        double growth = 2 * GB / HOUR;

        pass(4 * DAY, growth);
        used -= 350 * GB;
        pass(7 * HOUR, growth);
        assert_true(drive.full_in_s > left(growth));
        pass(3 * HOUR, left(1) / (12 * HOUR));
        pass(3 * HOUR, left(1) / (12 * HOUR));
        assert_true(drive.full_in_s < DAY);
        start(NULL);
        pass(4 * DAY, growth);
        used -= 350 * GB;
        pass(8 * DAY, growth);
        is_about(left(growth), 0.05); /* out of the window */
}

/* Files that are made ahead come in pieces; samples are taken between. */
static void growth_in_steps(void **state)
{
        for (unsigned i = 0; i < 7 * 24; i++) {
                pass(1 * HOUR, 0);
                if (i % 5 == 4)
                        used += 4 * GB;
        }
        is_about(left(4 * GB / (5 * HOUR)), 0.1);
}

static void noise(void **state)
{
        const char *text = getenv("SEED");
        unsigned seed = text != NULL ? (unsigned)strtoul(text, NULL, 10) : 20260101;
        double base = used, growth = GB / HOUR;

        printf("SEED=%u\n", seed);
        srand(seed);
        for (unsigned i = 0; i < 7 * 24 * 12; i++, now_s += 5 * MINUTE) {
                used = base + growth * i * 5 * MINUTE + (double)(rand() % 21 - 10) * GB;
                look();
        }
        is_about(left(growth), 0.15);
}

static void a_full_drive(void **state)
{
        used = (TOTAL - RESERVE) * GB;
        look();
        assert_true(drive.full_in_s == 0);
        start(NULL);
        info.starved = true;
        look();
        assert_true(drive.full_in_s == 0);
        start(NULL);
        info.total_bytes = 0; /* nothing is known */
        info.free_bytes = 0;
        srv_forecast_take(&drive, &info, 1);
        assert_true(drive.full_in_s == 0 || isinf(drive.full_in_s));
}

/* Its samples are of another; and what a rebuild writes is not what clients will go on writing. */
static void another_drive_in_the_slot(void **state)
{
        pass(2 * DAY, left(1) / (4 * DAY));
        assert_true(drive.full_in_s < 4 * DAY);
        strcpy(info.id, "two");
        info.filling = true;
        used = 0;
        pass(10 * HOUR, 50 * GB / HOUR);
        is_never();
        info.filling = false;
        pass(2 * DAY, 0);
        is_never();
}

/*
 * Nobody looked for a while, and the file system grew meanwhile: what is older than the window is
 * forgotten, the rest counts.
 */
static void a_gap(void **state)
{
        double growth = left(1) / (10 * DAY);

        pass(1 * DAY, growth);
        now_s += 2 * DAY;
        used += 2 * DAY * growth;
        look();
        is_about(left(growth), 0.02);
        info.total_bytes += (uint64_t)(500 * GB);
        pass(1 * DAY, growth);
        is_about(left(growth) + 500 * GB / growth, 0.02);
        now_s += 30 * DAY;
        look();
        is_never();
        pass(1 * DAY, growth);
        is_about(left(growth) + 500 * GB / growth, 0.02);
}

static void all_drives(void **state)
{
        struct srv_forecast *forecast = srv_forecast_new(1);
        struct eng_health *health = calloc(1, sizeof(*health));
        struct srv_forecast_statistics statistics;

        assert_non_null(forecast);
        assert_non_null(health);
        srv_forecast_read(forecast, &statistics);
        assert_true(isinf(statistics.store_s) && isinf(statistics.drive_s[0]));
        health->drive_count = 3;
        for (unsigned i = 0; i < 3; i++) {
                health->drives[i] = info;
                health->drives[i].state = i == 2 ? ENG_DRIVE_FAILED : ENG_DRIVE_IN;
                health->drives[i].free_bytes = i == 0 ? info.total_bytes : 0; /* of the others nothing is left */
        }
        srv_forecast_look(forecast, health);
        srv_forecast_read(forecast, &statistics);
        assert_true(isinf(statistics.drive_s[0]) && statistics.drive_s[1] == 0 && isinf(statistics.drive_s[2]));
        assert_true(statistics.store_s == 0);
        health->drives[1].state = ENG_DRIVE_MISSING;
        srv_forecast_look(forecast, health);
        srv_forecast_read(forecast, &statistics);
        assert_true(isinf(statistics.store_s));
        free(health);
        srv_forecast_free(forecast);
        srv_forecast_free(NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(steady_growth, start),
                cmocka_unit_test_setup(how_soon_it_is_known, start),
                cmocka_unit_test_setup(what_does_not_grow, start),
                cmocka_unit_test_setup(what_is_deleted_again_is_no_growth, start),
                cmocka_unit_test_setup(what_stays_of_it_is, start),
                cmocka_unit_test_setup(a_large_delete, start),
                cmocka_unit_test_setup(growth_in_steps, start),
                cmocka_unit_test_setup(noise, start),
                cmocka_unit_test_setup(a_full_drive, start),
                cmocka_unit_test_setup(another_drive_in_the_slot, start),
                cmocka_unit_test_setup(a_gap, start),
                cmocka_unit_test_setup(all_drives, start),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
