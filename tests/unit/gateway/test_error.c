/*
 * gateway/http/error.c: each result the engine's header promises has its S3 error, and what it does
 * not promise is an InternalError.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gateway/http/error.h"

static void each_result_has_its_error(void **state)
{
        static const struct {
                int rv;
                enum gw_about about;
                enum s3_error error;
        } cases[] = {
                {0, GW_ABOUT_KEY, S3_OK},
                {-ENOENT, GW_ABOUT_BUCKET, S3_ERR_NO_SUCH_BUCKET},
                {-ENOENT, GW_ABOUT_KEY, S3_ERR_NO_SUCH_KEY},
                {-ENOENT, GW_ABOUT_WRITE, S3_ERR_NO_SUCH_KEY},
                {-ENOENT, GW_ABOUT_UPLOAD, S3_ERR_NO_SUCH_UPLOAD},
                {-ENOENT, GW_ABOUT_COMPLETE, S3_ERR_NO_SUCH_UPLOAD},
                {-EEXIST, GW_ABOUT_BUCKET_NEW, S3_ERR_BUCKET_ALREADY_OWNED},
                {-EEXIST, GW_ABOUT_WRITE, S3_ERR_PRECONDITION_FAILED},
                {-EEXIST, GW_ABOUT_COMPLETE, S3_ERR_PRECONDITION_FAILED},
                {-ESTALE, GW_ABOUT_WRITE, S3_ERR_PRECONDITION_FAILED},
                {-EBUSY, GW_ABOUT_BUCKET, S3_ERR_BUCKET_NOT_EMPTY},
                {-EBUSY, GW_ABOUT_KEY, S3_ERR_SLOW_DOWN},
                {-EINVAL, GW_ABOUT_COMPLETE, S3_ERR_INVALID_PART},
                {-EINVAL, GW_ABOUT_KEY, S3_ERR_INTERNAL_ERROR},
                {-EAGAIN, GW_ABOUT_WRITE, S3_ERR_SLOW_DOWN},
                {-EROFS, GW_ABOUT_WRITE, S3_ERR_SLOW_DOWN},
                {-ETIMEDOUT, GW_ABOUT_WRITE, S3_ERR_SLOW_DOWN},
                {-ENOMEM, GW_ABOUT_WRITE, S3_ERR_SLOW_DOWN},
                {-ENOSPC, GW_ABOUT_WRITE, S3_ERR_INSUFFICIENT_STORAGE},
                {-EHOSTDOWN, GW_ABOUT_KEY, S3_ERR_SERVICE_UNAVAILABLE},
                {-EIO, GW_ABOUT_KEY, S3_ERR_INTERNAL_ERROR},
                {-EXDEV, GW_ABOUT_KEY, S3_ERR_INTERNAL_ERROR},
        };

        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_int_equal(gw_error_of(cases[i].rv, cases[i].about), cases[i].error);
}

/*
 * 404 is an answer about the data: nothing but what says that a key, upload or bucket is not there
 * may become one.
 */
static void only_what_is_gone_is_not_found(void **state)
{
        for (int rv = -133; rv < 0; rv++) {
                for (unsigned about = 0; about < GW_ABOUT_ABOUTS; about++) {
                        enum s3_error error = gw_error_of(rv, (enum gw_about)about);

                        assert_int_not_equal(error, S3_OK);
                        if (s3_error_info(error)->status == 404)
                                assert_true(rv == -ENOENT || rv == -EIDRM);
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_result_has_its_error),
                cmocka_unit_test(only_what_is_gone_is_not_found),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
