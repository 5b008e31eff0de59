/* test_plan.c - part planning and the retry policy: pure functions, by table and by property. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <curl/curl.h>

#include "client/transfer/plan.h"
#include "client/http/retry.h"

static void uploads_by_size(void **state)
{
        static const struct {
                uint64_t size, wanted, part;
                uint32_t parts;
        } cases[] = {
                {0, 0, 0, 0},
                {1, 0, 1, 0},
                {16 * MR_MIB, 0, 16 * MR_MIB, 0},
                {16 * MR_MIB + 1, 0, 8 * MR_MIB, 3},
                {MR_GIB, 0, 8 * MR_MIB, 128},
                {MR_GIB + 1, 0, 16 * MR_MIB, 65},
                {8 * MR_GIB, 0, 64 * MR_MIB, 128},
                {100 * MR_GIB, 0, 64 * MR_MIB, 1600},
                {640000 * MR_MIB, 0, 64 * MR_MIB, 10000},
                {640000 * MR_MIB + 1, 0, 65 * MR_MIB, 9847},
                {5 * MR_MIB, 5 * MR_MIB, 5 * MR_MIB, 0},
                {5 * MR_MIB + 1, 5 * MR_MIB, 5 * MR_MIB, 2},
                {100 * MR_GIB, 5 * MR_MIB, 64 * MR_MIB, 1600}, /* what was wished for would be too many parts */
                {10000 * MR_PART_MAX, 0, MR_PART_MAX, 10000},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct mr_plan plan;

                assert_int_equal(mr_plan_upload(cases[i].size, cases[i].wanted, &plan), 0);
                assert_int_equal(plan.part_size, cases[i].part);
                assert_int_equal(plan.parts, cases[i].parts);
        }
}

static void what_no_upload_can_carry(void **state)
{
        struct mr_plan plan;

        assert_int_equal(mr_plan_upload(10000 * MR_PART_MAX + 1, 0, &plan), -EFBIG);
        assert_int_equal(mr_plan_upload(UINT64_MAX, 0, &plan), -EFBIG);
        assert_int_equal(mr_plan_upload(UINT64_MAX, MR_PART_MAX, &plan), -EFBIG);
}

static void parts_cover_an_object_once(void **state)
{
        for (unsigned i = 0; i < 400; i++) {
                uint64_t size = ((uint64_t)rand() << 14 ^ (uint64_t)rand()) % (6 * 1024 * MR_GIB), at = 0;
                struct mr_plan plan;

                if (i % 2 == 0)
                        mr_plan_download(size, i % 4 == 0 ? 0 : 64 * MR_MIB, &plan);
                else
                        assert_int_equal(mr_plan_upload(size, 0, &plan), 0);
                if (plan.parts == 0) {
                        assert_int_equal(mr_plan_length(&plan, 0), i % 2 == 0 ? 0 : size);
                        continue;
                }
                for (uint32_t part = 0; part < plan.parts; part++) {
                        assert_int_equal(mr_plan_offset(&plan, part), at);
                        assert_true(mr_plan_length(&plan, part) > 0);
                        at += mr_plan_length(&plan, part);
                }
                assert_int_equal(at, size);
                assert_int_equal(mr_plan_length(&plan, plan.parts), 0);
                if (i % 2 == 1)
                        assert_true(plan.parts <= MR_PARTS_MAX && plan.part_size >= MR_PART_MIN);
        }
}

static void streams_may_become_huge(void **state)
{
        uint64_t sum = 0, last = 0;

        for (uint32_t number = 1; number <= MR_PARTS_MAX; number++) {
                uint64_t part = mr_plan_stream_part(number, 0);

                assert_true(part >= MR_PART_MIN && part <= MR_PART_MAX && part >= last);
                last = part;
                sum += part;
        }
        assert_true(sum > 3 * 1024 * MR_GIB);
        assert_int_equal(mr_plan_stream_part(1, 0), 8 * MR_MIB);
        assert_int_equal(mr_plan_stream_part(9999, 5 * MR_MIB), 5 * MR_MIB);
}

static void downloads_of_any_size(void **state)
{
        struct mr_plan plan;

        mr_plan_download(UINT64_MAX, 0, &plan);
        assert_true(plan.parts > 0);
        assert_true(mr_plan_length(&plan, plan.parts - 1) > 0);
}

static void what_is_tried_again(void **state)
{
        static const struct {
                int curl, status;
                const char *code;
                enum mr_retry class;
        } cases[] = {
                {CURLE_COULDNT_CONNECT, 0, "", MR_RETRY_SOON},
                {CURLE_RECV_ERROR, 200, "", MR_RETRY_SOON},
                {CURLE_PARTIAL_FILE, 200, "", MR_RETRY_SOON},
                {CURLE_OPERATION_TIMEDOUT, 0, "", MR_RETRY_SOON},
                {CURLE_PEER_FAILED_VERIFICATION, 0, "", MR_RETRY_NO},
                {CURLE_URL_MALFORMAT, 0, "", MR_RETRY_NO},
                {CURLE_ABORTED_BY_CALLBACK, 0, "", MR_RETRY_NO},
                {CURLE_OK, 500, "InternalError", MR_RETRY_SOON},
                {CURLE_OK, 500, "", MR_RETRY_SOON},
                {CURLE_OK, 502, "", MR_RETRY_SOON},
                {CURLE_OK, 504, "", MR_RETRY_SOON},
                {CURLE_OK, 503, "SlowDown", MR_RETRY_SLOWER},
                {CURLE_OK, 503, "", MR_RETRY_SLOWER},
                {CURLE_OK, 429, "", MR_RETRY_SLOWER},
                {CURLE_OK, 400, "RequestTimeout", MR_RETRY_SOON},
                {CURLE_OK, 400, "BadDigest", MR_RETRY_SOON},
                {CURLE_OK, 200, "InternalError", MR_RETRY_SOON},
                {CURLE_OK, 403, "RequestTimeTooSkewed", MR_RETRY_NO},
                {CURLE_OK, 403, "AccessDenied", MR_RETRY_NO},
                {CURLE_OK, 404, "NoSuchKey", MR_RETRY_NO},
                {CURLE_OK, 501, "NotImplemented", MR_RETRY_NO},
                {CURLE_OK, 507, "InsufficientStorage", MR_RETRY_NO},
                {CURLE_OK, 507, "", MR_RETRY_NO},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_int_equal(mr_retry_class(cases[i].curl, cases[i].status, cases[i].code), cases[i].class);
}

static void waits_grow_and_are_bounded(void **state)
{
        uint32_t last = 0;

        assert_int_equal(mr_retry_delay_ms(MR_RETRY_SOON, 2, 0, 0), 20);
        assert_int_equal(mr_retry_delay_ms(MR_RETRY_SOON, 2, UINT32_MAX, 0), 99);
        assert_int_equal(mr_retry_delay_ms(MR_RETRY_SLOWER, 2, 0, 0), 200);
        for (unsigned next = 2; next <= 20; next++) {
                uint32_t most = mr_retry_delay_ms(MR_RETRY_SOON, next, UINT32_MAX, 0);

                assert_true(most >= last && most <= 20000);
                assert_true(mr_retry_delay_ms(MR_RETRY_SLOWER, next, UINT32_MAX, 0) <= 20000);
                assert_int_equal(mr_retry_delay_ms(MR_RETRY_SOON, next, 0, 0), 20);
                last = most;
        }
        assert_int_equal(last, 19999);
}

static void a_server_may_ask_for_a_pause(void **state)
{
        assert_int_equal(mr_retry_delay_ms(MR_RETRY_SLOWER, 2, 0, 3), 3000);
        assert_int_equal(mr_retry_delay_ms(MR_RETRY_SLOWER, 2, UINT32_MAX, 3), 3000);
        assert_int_equal(mr_retry_delay_ms(MR_RETRY_SOON, 2, 0, 3600), 20000);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(uploads_by_size),
                cmocka_unit_test(what_no_upload_can_carry),
                cmocka_unit_test(parts_cover_an_object_once),
                cmocka_unit_test(streams_may_become_huge),
                cmocka_unit_test(downloads_of_any_size),
                cmocka_unit_test(what_is_tried_again),
                cmocka_unit_test(waits_grow_and_are_bounded),
                cmocka_unit_test(a_server_may_ask_for_a_pause),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
