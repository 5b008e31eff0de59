/*
 * test_health_log.c - what an operator reads of the store's state: each transition once, those that
 * come often at most once a minute.
 */
#include "server/health_log.h"
#include "server/daemon_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char said[65536];
static size_t seen;

struct reading {
        size_t count;
};

static void take(void *arg, int64_t time_ms, const char *line)
{
        struct reading *reading = arg;

        (void)time_ms;
        if (reading->count++ >= seen) {
                strncat(said, line, sizeof(said) - strlen(said) - 2);
                strcat(said, "\n");
        }
}

/* What was logged since the last call. */
static const char *lines(void)
{
        struct reading reading = {0};

        said[0] = '\0';
        srv_log_kept(take, &reading);
        seen = reading.count;
        return said;
}

struct fixture {
        struct srv_health_log *log;
        struct eng_health health;
        struct eng_heal_report repair;
        int64_t now_ms;
};

static void look(struct fixture *f)
{
        f->now_ms += 1000;
        srv_health_log_say(f->log, &f->health, &f->repair, f->now_ms);
}

/* A store of four drives that is ready, and what that said is read. */
static void begin(struct fixture *f)
{
        unsigned i;

        memset(f, 0, sizeof(*f));
        f->log = srv_health_log_open(0);
        assert_non_null(f->log);
        f->now_ms = (int64_t)1 << 40; /* behind any time of the machine's clock */
        f->health = (struct eng_health){.ready = true, .writable = true, .ec_k = 2, .ec_m = 2, .drive_count = 4, .drives_in = 4, .epoch = 7};
        for (i = 0; i < 4; i++) {
                snprintf(f->health.drives[i].path, sizeof(f->health.drives[i].path), "/d%u", i);
                snprintf(f->health.drives[i].id, sizeof(f->health.drives[i].id), "id%u", i);
        }
        look(f);
}

static void ready_says_what_recovery_did(void **state)
{
        struct fixture f;
        const char *text;

        lines();
        begin(&f);
        text = lines();
        assert_non_null(strstr(text, "epoch 7, 4 of 4 drives are members, 0 records completed"));
        assert_non_null(strstr(text, "ready"));
        look(&f);
        assert_string_equal(lines(), ""); /* nothing has changed */
        srv_health_log_close(f.log);
}

static void epochs_are_said_once_a_minute(void **state)
{
        struct fixture f;

        begin(&f);
        lines();
        f.health.epoch = 8;
        f.health.drives_in = 3;
        look(&f);
        assert_non_null(strstr(lines(), "epoch 8 is in force: 3 of 4 drives are members"));
        f.health.epoch = 9;
        look(&f);
        f.health.epoch = 12;
        look(&f);
        assert_string_equal(lines(), "");
        f.now_ms += SRV_HEALTH_LOG_PACE_MS;
        look(&f);
        assert_non_null(strstr(lines(), "epoch 12 is in force"));
        srv_health_log_close(f.log);
}

static void a_drive_that_catches_up_is_no_error(void **state)
{
        struct fixture f;
        const char *text;

        begin(&f);
        f.health.drives[2].state = ENG_DRIVE_STALE;
        strcpy(f.health.drives[2].reason, "it was away");
        look(&f);
        lines();
        f.health.drives[2].state = ENG_DRIVE_JOINING;
        look(&f);
        text = lines();
        assert_non_null(strstr(text, "drive /d2 (id2) catches up"));
        f.health.drives[2].state = ENG_DRIVE_IN;
        look(&f);
        assert_non_null(strstr(lines(), "drive /d2 (id2) is in use"));
        srv_health_log_close(f.log);
}

static void the_lock_clock_says_frozen_and_confirmed_once(void **state)
{
        struct fixture f;
        const char *text;

        lines();
        begin(&f);
        lines();
        f.health.lock = (struct eng_lock_state){.begun = true, .in_use = true, .frozen = true, .now_ms = 1000000000000, .wall_ms = 1000000000000 + 90000000, .budget_ms = 7200000};
        look(&f);
        text = lines();
        assert_non_null(strstr(text, "lock clock frozen: lock_time=2001-09-09T01:46:40.000Z wall_time=2001-09-10T02:46:40.000Z ahead_s=90000 budget_s=7200;"));
        look(&f);
        assert_string_equal(lines(), "");
        f.health.lock = (struct eng_lock_state){.begun = true, .in_use = true, .now_ms = 1000000000000 + 90000000, .wall_ms = 1000000000000 + 90000000, .budget_ms = 86400000,
                                                .confirmed_ms = 1000000000000 + 90000000, .before_ms = 1000000000000};
        look(&f);
        text = lines();
        assert_non_null(strstr(text, "lock clock confirmed: lock_time=2001-09-10T02:46:40.000Z before=2001-09-09T01:46:40.000Z budget_s=86400"));
        look(&f);
        assert_string_equal(lines(), "");
        f.health.lock.before_ms = f.health.lock.confirmed_ms; /* once more, though nothing was frozen */
        f.health.lock.confirmed_ms += 5000;
        look(&f);
        assert_non_null(strstr(lines(), "lock clock confirmed: lock_time=2001-09-10T02:46:45.000Z"));
        srv_health_log_close(f.log);
}

static void repair_says_begin_and_end(void **state)
{
        struct fixture f;

        begin(&f);
        lines();
        f.health.objects_below = 51;
        f.health.heal_bytes_left = 12345;
        look(&f);
        assert_non_null(strstr(lines(), "51 objects lack shards, 12345 bytes are to be written"));
        f.health.objects_below = 0;
        f.repair = (struct eng_heal_report){.started_ms = 1000, .ended_ms = 3500, .done_objects = 50, .written = 777, .failed_objects = 1};
        look(&f);
        assert_string_equal(lines(), ""); /* within the minute */
        f.now_ms += SRV_HEALTH_LOG_PACE_MS;
        look(&f);
        assert_non_null(strstr(lines(), "after 2.5 s: 50 objects have their shards again (777 bytes written), 1 could not"));
        look(&f);
        assert_string_equal(lines(), "");
        srv_health_log_close(f.log);
}

static void scrub_and_reclaim_of_each_drive(void **state)
{
        struct fixture f;
        const char *text;

        begin(&f);
        lines();
        f.health.drives[1].scrub = (struct eng_scrub_progress){.running = true, .started_ms = 5, .total = 4096, .rate = 10};
        f.health.drives[3].reclaim_freed = 1000;
        f.health.drives[3].reclaim_copied = 30;
        f.health.orphan_ids = 4;
        look(&f);
        text = lines();
        assert_non_null(strstr(text, "drive /d1 (id1): a scrub of 4096 bytes is under way, at 10 bytes/s"));
        assert_non_null(strstr(text, "drive /d3 (id3): reclaim has freed 1000 bytes of files, for which it copied 30"));
        assert_non_null(strstr(text, "discarded shards of 4 objects"));
        f.health.drives[1].scrub = (struct eng_scrub_progress){.last_ended_ms = 9, .last_bytes = 4096, .last_damaged = 2};
        f.health.drives[3].reclaim_freed = 1600; /* a line of its own, a minute later: what is new */
        f.now_ms += SRV_HEALTH_LOG_PACE_MS;
        look(&f);
        text = lines();
        assert_non_null(strstr(text, "a scrub has ended: 4096 bytes read, 2 shards damaged"));
        assert_non_null(strstr(text, "reclaim has freed 600 bytes of files, for which it copied 0"));
        f.health.drives[3].reclaim_freed = 10; /* it was opened anew, and counts from 0 */
        f.health.drives[3].reclaim_copied = 0;
        f.now_ms += SRV_HEALTH_LOG_PACE_MS;
        look(&f);
        assert_non_null(strstr(lines(), "reclaim has freed 10 bytes of files, for which it copied 0"));
        srv_health_log_close(f.log);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(ready_says_what_recovery_did),
                cmocka_unit_test(epochs_are_said_once_a_minute),
                cmocka_unit_test(a_drive_that_catches_up_is_no_error),
                cmocka_unit_test(the_lock_clock_says_frozen_and_confirmed_once),
                cmocka_unit_test(repair_says_begin_and_end),
                cmocka_unit_test(scrub_and_reclaim_of_each_drive),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
