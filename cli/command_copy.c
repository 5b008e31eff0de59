/* command_copy.c - `millrace cp`: one object copied by the endpoint. Main thread only. */
#include "cli.h"

#include <string.h>

int cli_cp(struct cli_call *call)
{
        char key[CLI_KEY_MAX + 1], from_name[CLI_KEY_MAX + 128], to_name[CLI_KEY_MAX + 128];
        struct cli_path from, to;
        struct mr_copy copy;
        struct mr_error err;
        size_t len;
        int rv = cli_path_arg(call, call->argv[0], true, &from);

        if (rv == 0)
                rv = cli_path_arg(call, call->argv[1], false, &to);
        if (rv != 0)
                return rv;
        len = strlen(to.key);
        if (cli_key_join(key, sizeof(key), to.key, false,
                         len == 0 || to.key[len - 1] == '/' ? cli_base_name(from.key) : "") != 0)
                return cli_usage(call, "a key has at most %d bytes: %.80s...", CLI_KEY_MAX, call->argv[1]);
        if (key[0] == '\0')
                return cli_usage(call, "no key in %s", call->argv[1]);
        copy = (struct mr_copy){
                .bucket = to.bucket,
                .key = key,
                .source_bucket = from.bucket,
                .source_key = from.key,
                .source_version_id = call->version_id,
                .if_none_match = call->no_clobber,
        };
        if (mr_copy(call->client, &copy, &err) != 0)
                return cli_failed(call->argv[0], &err);
        if (!call->quiet) {
                cli_printable(stdout, from.key, from_name, sizeof(from_name));
                cli_printable(stdout, key, to_name, sizeof(to_name));
                printf("s3://%s/%s -> s3://%s/%s\n", from.bucket, from_name, to.bucket, to_name);
        }
        return CLI_OK;
}
