/*
 * policy.c - how long one core takes to decide a request by policies: a bucket policy and a user's
 * policy of 20 statements each, where the last one allows, and where one pattern after the other
 * has to be searched for; and to compile the longest bucket policies. Prints nanoseconds a decision by name, a line each. usage: policy [SECONDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "access.h"

#define STATEMENTS 20

static bool bench_lookup(void *context, const struct acc_key *key, struct acc_values *out)
{
        static const struct s3_str address = S3_STR("10.1.2.3"), secure = S3_STR("true");

        switch (key->id) {
        case ACC_KEY_AWS_SOURCE_IP:
                *out = (struct acc_values){&address, 1, false};
                return true;
        case ACC_KEY_AWS_SECURE_TRANSPORT:
                *out = (struct acc_values){&secure, 1, false};
                return true;
        default:
                return false;
        }
}

/* A policy whose statements are the format with their number in it, the last one for folder 0. */
static struct acc_policy *policy_of(enum acc_kind kind, const char *format)
{
        static char text[ACC_BUCKET_BYTES];
        struct acc_policy *policy;
        struct acc_error error;
        size_t used = (size_t)snprintf(text, sizeof(text), "{\"Version\":\"2012-10-17\",\"Statement\":[");

        for (int i = STATEMENTS - 1; i >= 0; i--)
                used += (size_t)snprintf(text + used, sizeof(text) - used, format, i, i > 0 ? "," : "]}");
        if (acc_policy_compile((struct s3_str){text, used}, kind, S3_STR("dataset"), &policy, &error) != 0) {
                fprintf(stderr, "%s (%s)\n", error.message, error.where);
                exit(1);
        }
        return policy;
}

static double now(void)
{
        struct timespec time;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time); /* others use the machine, too */
        return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void measure(const char *name, const struct acc_policies *policies, const struct acc_request *request,
                    double seconds)
{
        double start = now(), took;
        uint64_t rounds = 0, allowed = 0;

        do {
                for (unsigned i = 0; i < 1000; i++)
                        allowed += acc_decide(policies, request).allowed;
                rounds += 1000;
                took = now() - start;
        } while (took < seconds);
        printf("%-40s %8.0f ns  %s\n", name, took * 1e9 / (double)rounds, allowed == rounds ? "allowed" : "denied");
}

/*
 * The longest bucket policies, whose texts take most time to compile: an array of `item`s in a
 * statement.
 */
static void measure_compile(const char *name, const char *before, const char *item, const char *after, double seconds)
{
        static char text[ACC_BUCKET_BYTES + 1];
        size_t used = (size_t)snprintf(text, sizeof(text), "%s", before), rest = strlen(after);
        struct acc_policy *policy;
        struct acc_error error;
        double start, took;
        unsigned rounds = 0;
        size_t bytes;

        while (used + strlen(item) + rest + 1 < sizeof(text))
                used += (size_t)snprintf(text + used, sizeof(text) - used, item, used);
        text[used - 1] = ' '; /* the last comma */
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", after);
        start = now();
        do {
                if (acc_policy_compile((struct s3_str){text, used}, ACC_BUCKET, S3_STR("dataset"), &policy, &error) !=
                    0) {
                        fprintf(stderr, "%s: %s (%s)\n", name, error.message, error.where);
                        exit(1);
                }
                bytes = acc_policy_bytes(policy);
                acc_policy_free(policy);
                took = now() - start;
                rounds++;
        } while (took < seconds);
        printf("%-40s %8.0f us  %zu bytes\n", name, took * 1e6 / rounds, bytes);
}

#define HEAD "{\"Version\":\"2012-10-17\",\"Statement\":{\"Effect\":\"Deny\",\"Principal\":"

int main(int argc, char **argv)
{
        double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
        struct acc_principal user = {
                .kind = ACC_USER,
                .account = S3_STR("111122223333"),
                .arn = S3_STR("arn:aws:iam::111122223333:user/alice"),
                .user_id = S3_STR("AIDAALICE"),
        };
        struct acc_request request = {
                .principal = &user,
                .action = S3_STR("s3:GetObject"),
                .resource = S3_STR("arn:aws:s3:::dataset/folder-0/alice/images/train/000123.jpg"),
                .lookup = bench_lookup,
        };
        struct acc_policy *identity =
                policy_of(ACC_INLINE_ROLE, "{\"Effect\":\"Allow\",\"Action\":[\"s3:GetObject\",\"s3:PutObject\"],"
                                           "\"Resource\":\"arn:aws:s3:::dataset/folder-%d/${aws:username}/*\"}%s");
        struct acc_policy *bucket =
                policy_of(ACC_BUCKET, "{\"Effect\":\"Deny\",\"Principal\":\"*\",\"Action\":\"s3:*\",\"Resource\":\"arn:"
                                      "aws:s3:::dataset/secret-%d/*\","
                                      "\"Condition\":{\"NotIpAddress\":{\"aws:SourceIp\":\"10.0.0.0/8\"}}}%s");
        struct acc_policy *conditions =
                policy_of(ACC_BUCKET, "{\"Sid\":\"s%d\",\"Effect\":\"Deny\",\"Principal\":\"*\",\"Action\":\"s3:*\","
                                      "\"Resource\":\"arn:aws:s3:::dataset/*\","
                                      "\"Condition\":{\"NotIpAddress\":{\"aws:SourceIp\":\"10.0.0.0/"
                                      "8\"},\"Bool\":{\"aws:SecureTransport\":\"false\"}}}%s");
        struct acc_policy *search =
                policy_of(ACC_BUCKET, "{\"Effect\":\"Deny\",\"Principal\":\"*\",\"Action\":\"s3:*\",\"Resource\":\"arn:"
                                      "aws:s3:::dataset/*/im?ges-%d/*?jpg\"}%s");
        const struct acc_policy *const identities[] = {identity};
        struct acc_policies policies = {
                .identity = identities, .identities = 1, .resource_account = S3_STR("111122223333")};

        printf("memory: user %zu, bucket %zu bytes\n", acc_policy_bytes(identity), acc_policy_bytes(bucket));
        measure("user 20", &policies, &request, seconds);
        policies.resource = bucket;
        measure("user 20, bucket 20", &policies, &request, seconds);
        policies.resource = conditions;
        measure("user 20, bucket 20 with conditions", &policies, &request, seconds);
        policies.resource = search;
        measure("user 20, bucket 20 with searches", &policies, &request, seconds);
        measure_compile("compile 20 KiB of actions", HEAD "\"*\",\"Resource\":\"*\",\"Action\":[", "\"s3:*t\",", "]}}",
                        seconds);
        measure_compile("compile 20 KiB of principals", HEAD "{\"AWS\":[", "\"111122223333\",",
                        "]},\"Resource\":\"*\",\"Action\":\"*\"}}", seconds);
        measure_compile("compile 20 KiB of resources", HEAD "\"*\",\"Action\":\"*\",\"Resource\":[",
                        "\"arn:aws:s3:::*?*?*?\",", "]}}", seconds);
        measure_compile("compile 20 KiB of condition keys",
                        HEAD "\"*\",\"Action\":\"*\",\"Resource\":\"*\",\"Condition\":{\"Bool\":{", "\"x:%zu\":[],",
                        "}}}}", seconds);
        acc_policy_free(identity);
        acc_policy_free(bucket);
        acc_policy_free(conditions);
        acc_policy_free(search);
        return 0;
}
