/*
 * gateway/sts/: what a token says comes back as it was; nothing else opens, whatever its records are; base64url.
 * tests/unit/server/test_sealer.c has the sealing, tests/integration/test_sts.py the use.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/http/gw.h"
#include "gateway/sts/base64url.h"
#include "gateway/sts/signer.h"
#include "gateway/sts/temporary.h"
#include "rdma.h"

#define AKID   "ASIAIOSFODNN7EXAMPLE"
#define SECRET "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN"

/* What is sealed lies open: a head of zeros, then the bytes. */
static int open_seal(void *arg, const char *about, const void *bytes, size_t len, uint8_t *out)
{
        assert_string_equal(about, AKID);
        memset(out, 0, GW_TOKEN_MORE);
        memcpy(out + GW_TOKEN_MORE, bytes, len);
        return 0;
}

static int open_open(void *arg, const char *about, const uint8_t *sealed, size_t len, void *out)
{
        memcpy(out, sealed + GW_TOKEN_MORE, len - GW_TOKEN_MORE);
        return 0;
}

static const struct gw_sealer sealer = {.seal_token = open_seal, .open_token = open_open};
static char token[GW_TOKEN_TEXT_MAX + 1];

static struct gw_temporary a_role(void)
{
        return (struct gw_temporary){.kind = GW_SESSION_OF_ROLE,
                                     .access_key = AKID,
                                     .secret = SECRET,
                                     .account = GW_FIRST_ACCOUNT,
                                     .role = "reader",
                                     .role_id = "AROAEXAMPLE",
                                     .session = "one",
                                     .issued_ms = 1000,
                                     .expires_ms = 2000};
}

static void a_token_says_what_it_was_given(void **state)
{
        struct gw_temporary what = a_role(), *got;

        what.source = "carol";
        what.provider = "arn:aws:iam::000000000001:oidc-provider/a";
        what.policy_text = "{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"*\"}]}";
        what.arn[what.arn_count++] = "arn:aws:iam::aws:policy/readonly";
        what.arn[what.arn_count++] = "arn:aws:iam::aws:policy/readwrite";
        what.tag[what.tag_count++] = (struct gw_session_tag){"team", "blue", false};
        what.tag[what.tag_count++] = (struct gw_session_tag){"cost", "", true};
        what.mark = UINT64_C(0x0123456789abcdef);
        assert_int_equal(gw_temporary_seal(&sealer, &what, token), 0);
        assert_int_equal(gw_temporary_open(&sealer, AKID, s3_str_of(token), &got), 0);
        assert_int_equal(got->kind, GW_SESSION_OF_ROLE);
        assert_string_equal(got->access_key, AKID);
        assert_string_equal(got->secret, SECRET);
        assert_string_equal(got->account, GW_FIRST_ACCOUNT);
        assert_string_equal(got->role, "reader");
        assert_string_equal(got->role_id, "AROAEXAMPLE");
        assert_string_equal(got->session, "one");
        assert_string_equal(got->source, "carol");
        assert_string_equal(got->provider, what.provider);
        assert_string_equal(got->issuer, "");
        assert_string_equal(got->policy_text, what.policy_text);
        assert_non_null(got->policy);
        assert_int_equal(got->arn_count, 2);
        assert_string_equal(got->arn[1], what.arn[1]);
        assert_int_equal(got->tag_count, 2);
        assert_string_equal(got->tag[0].text, "blue");
        assert_false(got->tag[0].transitive);
        assert_string_equal(got->tag[1].name, "cost");
        assert_string_equal(got->tag[1].text, "");
        assert_true(got->tag[1].transitive);
        assert_true(got->mark == what.mark && got->issued_ms == 1000 && got->expires_ms == 2000);
        assert_string_equal(got->text, token);
        assert_ptr_equal(gw_temporary_get(got), got);
        gw_temporary_put(got);
        gw_temporary_put(got);
}

static void a_token_has_a_bound(void **state)
{
        struct gw_temporary what = a_role(), *got;
        char long_text[GW_TOKEN_PACKED_MAX + 2];

        memset(long_text, ' ', sizeof(long_text));
        memcpy(long_text, "{\"Version\":\"2012-10-17\",\"Statement\":{\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"*\"}}", 83);
        long_text[GW_TOKEN_PACKED_MAX] = '\0';
        what.policy_text = long_text;
        assert_int_equal(gw_temporary_packed(&what), GW_TOKEN_PACKED_MAX);
        assert_int_equal(gw_temporary_seal(&sealer, &what, token), 0);
        assert_int_equal(gw_temporary_open(&sealer, AKID, s3_str_of(token), &got), -EBADMSG); /* no session policy is so long */
        long_text[GW_TOKEN_PACKED_MAX] = ' ';
        long_text[GW_TOKEN_PACKED_MAX + 1] = '\0';
        assert_int_equal(gw_temporary_seal(&sealer, &what, token), -E2BIG);
        assert_int_equal(gw_temporary_open(&(struct gw_sealer){.arg = NULL}, AKID, S3_STR("AAAA"), &got), -ENOKEY);
}

/* ---- records --------------------------------------------------------------------------------- */

static uint8_t plain[GW_TOKEN_MORE + 2048];
static size_t plain_len;

static void take_apart(void)
{
        int n = gw_base64url_decode(s3_str_of(token), plain, sizeof(plain));

        assert_true(n > (int)GW_TOKEN_MORE);
        plain_len = (size_t)n;
}

/* In memory of the exact size, so that the sanitizer sees each byte beyond. */
static int reopen(void)
{
        char text[GW_BASE64URL_LEN(sizeof(plain)) + 1], *exact;
        struct gw_temporary *got;
        size_t len = s3_base64url_encode(plain, plain_len, text);
        int rv;

        exact = malloc(len);
        assert_non_null(exact);
        memcpy(exact, text, len);
        rv = gw_temporary_open(&sealer, AKID, (struct s3_str){exact, len}, &got);
        free(exact);
        if (rv == 0)
                gw_temporary_put(got);
        return rv;
}

static void records_must_be_as_they_are_written(void **state)
{
        static const struct {
                size_t len;
                uint8_t bytes[8];
        } wrong[] = {
                {3, {0x63, 0, 0}},                    /* of no known type */
                {5, {14, 0, 2, 'a', 'b'}},            /* an ARN without its NUL */
                {7, {14, 0, 4, 'a', '\0', 'b', '\0'}}, /* with one inside */
                {5, {15, 0, 2, 'a', '\0'}},           /* a tag without text */
        };
        static const uint8_t arn[] = {14, 0, 2, 'a', '\0'};
        struct gw_temporary what = a_role();
        size_t whole;

        assert_int_equal(gw_temporary_seal(&sealer, &what, token), 0);
        take_apart();
        whole = plain_len;
        assert_int_equal(reopen(), 0);
        for (plain_len = GW_TOKEN_MORE; plain_len < whole; plain_len++)
                assert_int_equal(reopen(), -EBADMSG); /* cut: something is missing */
        plain_len = whole;
        memcpy(plain + whole, plain + GW_TOKEN_MORE, 4); /* the kind once more */
        plain_len = whole + 4;
        assert_int_equal(reopen(), -EBADMSG);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                memcpy(plain + whole, wrong[i].bytes, sizeof(wrong[i].bytes));
                plain_len = whole + wrong[i].len;
                assert_int_equal(reopen(), -EBADMSG);
        }
        for (plain_len = whole; plain_len < whole + 11 * 5; plain_len += 5) {
                memcpy(plain + plain_len, arn, sizeof(arn)); /* one ARN after the other: ten and no more */
                assert_int_equal(reopen(), plain_len == whole || plain_len <= whole + 10 * 5 ? 0 : -EBADMSG);
        }
}

static void each_byte_counts(void **state)
{
        struct gw_temporary what = a_role();
        unsigned opened = 0;

        assert_int_equal(gw_temporary_seal(&sealer, &what, token), 0);
        take_apart();
        for (size_t i = GW_TOKEN_MORE; i < plain_len; i++)
                for (unsigned bit = 0; bit < 8; bit++) {
                        plain[i] ^= (uint8_t)(1u << bit);
                        opened += reopen() == 0; /* another text, or nothing; never a read beyond */
                        plain[i] ^= (uint8_t)(1u << bit);
                }
        assert_true(opened > 0);
        assert_int_equal(reopen(), 0);
}

static void kinds_have_what_they_need(void **state)
{
        struct gw_temporary what = a_role(), *got;

        what.issuer = "AKIAIOSFODNN7EXAMPLE"; /* of a role, and of a key */
        assert_int_equal(gw_temporary_seal(&sealer, &what, token), 0);
        assert_int_equal(gw_temporary_open(&sealer, AKID, s3_str_of(token), &got), -EBADMSG);
        what.kind = GW_SESSION_OF_KEY;
        assert_int_equal(gw_temporary_seal(&sealer, &what, token), 0);
        assert_int_equal(gw_temporary_open(&sealer, AKID, s3_str_of(token), &got), -EBADMSG);
        what.role = what.role_id = what.session = NULL;
        assert_int_equal(gw_temporary_seal(&sealer, &what, token), 0);
        assert_int_equal(gw_temporary_open(&sealer, AKID, s3_str_of(token), &got), 0);
        gw_temporary_put(got);
        what.expires_ms = what.issued_ms;
        assert_int_equal(gw_temporary_seal(&sealer, &what, token), 0);
        assert_int_equal(gw_temporary_open(&sealer, AKID, s3_str_of(token), &got), -EBADMSG);
        assert_int_equal(gw_temporary_open(&sealer, "ASIA", s3_str_of(token), &got), -EBADMSG);
}

/* ---- base64url ------------------------------------------------------------------------------- */

static void base64url_has_one_text_for_each_value(void **state)
{
        uint8_t bytes[64], back[64];
        char text[GW_BASE64URL_LEN(sizeof(bytes)) + 1];

        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t)(i * 37 + 251);
        for (size_t len = 0; len <= sizeof(bytes); len++) {
                size_t chars = s3_base64url_encode(bytes, len, text);

                assert_int_equal(chars, GW_BASE64URL_LEN(len));
                assert_int_equal(gw_base64url_decode((struct s3_str){text, chars}, back, sizeof(back)), len);
                assert_memory_equal(back, bytes, len);
                if (len > 0)
                        assert_int_equal(gw_base64url_decode((struct s3_str){text, chars}, back, len - 1), -ENOBUFS);
        }
        assert_int_equal(gw_base64url_decode(S3_STR("-_8"), back, 2), 2);
        assert_int_equal(gw_base64url_decode(S3_STR("A"), back, 2), -EINVAL);
        assert_int_equal(gw_base64url_decode(S3_STR("AB"), back, 2), -EINVAL); /* bits behind the end */
        assert_int_equal(gw_base64url_decode(S3_STR("AA=="), back, 4), -EINVAL);
        assert_int_equal(gw_base64url_decode(S3_STR("A+/A"), back, 4), -EINVAL);
        assert_int_equal(gw_base64url_decode((struct s3_str){"AA\0A", 4}, back, 4), -EINVAL);
}

/* ---- tokens held for RDMA sessions ----------------------------------------------------------- */

#define HELD 4096u /* held.c */

static unsigned sessions_from, sessions_to; /* those whose sessions are not over, by number */

static void held_key(unsigned number, char out[GW_TEMPORARY_ID_LEN + 1])
{
        snprintf(out, GW_TEMPORARY_ID_LEN + 1, "ASIA%016u", number);
}

void rdx_sessions_each(struct rdx_server *server, void (*each)(void *arg, const char *owner), void *arg)
{
        char key[GW_TEMPORARY_ID_LEN + 1];

        for (unsigned i = sessions_from; i < sessions_to; i++) {
                held_key(i, key);
                each(arg, key);
        }
}

static int hold(struct gw_gateway *gw, unsigned number, int64_t until_ms)
{
        struct gw_temporary *made = calloc(1, sizeof(*made));
        int rv;

        assert_non_null(made);
        atomic_init(&made->references, 1);
        held_key(number, made->access_key);
        rv = gw_temporary_hold(gw, made, until_ms);
        gw_temporary_put(made);
        return rv;
}

static bool is_held(struct gw_gateway *gw, unsigned number)
{
        char key[GW_TEMPORARY_ID_LEN + 1];
        struct gw_temporary *found;

        held_key(number, key);
        found = gw_temporary_held(gw, key);
        gw_temporary_put(found);
        return found != NULL;
}

/* Who opens sessions and ends them again keeps nobody else from opening one (T13). */
static void ended_sessions_hold_no_token(void **state)
{
        const int64_t later = lp_wall_ms() + 3600000;
        struct gw_gateway *gw = calloc(1, sizeof(*gw));

        assert_non_null(gw);
        gw->rdma = (struct rdx_server *)gw;
        assert_int_equal(gw_sts_start(gw), 0);
        sessions_to = HELD;
        for (unsigned i = 0; i < HELD; i++)
                assert_int_equal(hold(gw, i, later), 0);
        assert_int_equal(hold(gw, HELD, later), -ENOSPC); /* all are in use */
        assert_int_equal(hold(gw, 0, later), 0);          /* one more session of the same credentials */
        sessions_from = HELD - 2;
        assert_int_equal(hold(gw, HELD, later), 0);
        assert_false(is_held(gw, 0));
        assert_true(is_held(gw, HELD - 2) && is_held(gw, HELD - 1) && is_held(gw, HELD));
        for (unsigned i = 0; i < HELD - 3; i++)
                assert_int_equal(hold(gw, HELD + 1 + i, i == 5 ? 1 : later), 0);
        sessions_to = 2 * HELD;
        assert_int_equal(hold(gw, 3 * HELD, later), 0); /* instead of the one whose time is up */
        assert_false(is_held(gw, HELD + 6));
        assert_int_equal(hold(gw, 3 * HELD + 1, later), 0); /* its own session is the one that is over */
        assert_false(is_held(gw, 3 * HELD));
        assert_true(is_held(gw, HELD - 1));
        gw_sts_free(gw);
        free(gw);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_token_says_what_it_was_given),
                cmocka_unit_test(a_token_has_a_bound),
                cmocka_unit_test(records_must_be_as_they_are_written),
                cmocka_unit_test(each_byte_counts),
                cmocka_unit_test(kinds_have_what_they_need),
                cmocka_unit_test(ended_sessions_hold_no_token),
                cmocka_unit_test(base64url_has_one_text_for_each_value),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
