/*
 * load.c - the program `load`: one phase of load/ against an endpoint, and what it cost the server,
 * from /proc. Main thread.
 */
#include <signal.h>

#include "bench/load/load_options.h"
#include "bench/load/server.h"
#include "load.h"

/* What the server took; memory is sampled meanwhile. */
struct onlooker {
        int pid;
        bool known;
        struct load_server before, server; /* server: memory at the end; the rest of the run alone */
        uint64_t anonymous_peak;
};

static void say_line(void *arg, const char *line)
{
        fprintf(stderr, "load: %s\n", line);
}

static void sample(void *arg, const struct load_result *so_far)
{
        struct onlooker *on = arg;

        load_server_sample(on->pid, &on->anonymous_peak);
}

static void look_at_the_end(struct onlooker *on)
{
        on->known = on->known && load_server_read(on->pid, &on->server) == 0;
        load_server_since(&on->server, &on->before);
        load_server_sample(on->pid, &on->anonymous_peak);
}

static int add_server(json_t *object, const struct onlooker *on)
{
        const struct load_server *s = &on->server;
        json_t *more =
                json_pack("{sf sI sI sI sI sI}", "server_cpu_s", s->cpu_s, "server_rss", (json_int_t)s->rss,
                          "server_anonymous", (json_int_t)s->anonymous, "server_file", (json_int_t)s->file,
                          "server_peak", (json_int_t)s->peak, "server_anonymous_peak", (json_int_t)on->anonymous_peak);
        int rv = more != NULL ? json_object_update(object, more) : -1;

        json_decref(more);
        if (rv == 0 && s->io_known) {
                rv = json_object_set_new(object, "server_read", json_integer((json_int_t)s->read));
                rv |= json_object_set_new(object, "server_written", json_integer((json_int_t)s->written));
        }
        return rv;
}

static int print_json(const struct load_options *options, const struct load_result *result, const struct onlooker *on)
{
        json_t *object = load_result_json(&options->settings, result);
        int rv = object != NULL ? 0 : -1;

        if (rv == 0 && on->known)
                rv = add_server(object, on);
        if (rv == 0)
                rv = load_json_print(object, stdout);
        json_decref(object);
        return rv;
}

static void print_line(const struct load_options *options, const struct load_result *r, const struct onlooker *on)
{
        double seconds = r->seconds > 0 ? r->seconds : 1e-9;

        fprintf(stderr, "%-9s %9llu ops in %.2f s: %.0f op/s", load_phase_name(options->settings.phase),
                (unsigned long long)r->stats.count, r->seconds, (double)r->stats.count / seconds);
        if (r->bytes > 0)
                fprintf(stderr, ", %.1f MiB/s", load_mib_s(r));
        if (r->entries > 0)
                fprintf(stderr, ", %.0f entries/s", (double)r->entries / seconds);
        fprintf(stderr, "; p50 %.0f p99 %.0f p99.9 %.0f us; %llu errors; CPU own %.2f s", load_us(&r->stats, 0.5),
                load_us(&r->stats, 0.99), load_us(&r->stats, 0.999), (unsigned long long)r->failed, r->cpu_s);
        if (on->known)
                fprintf(stderr, ", server %.2f s; memory %.0f MiB anonymous, %.0f MiB files", on->server.cpu_s,
                        (double)on->server.anonymous / 1048576, (double)on->server.file / 1048576);
        fputc('\n', stderr);
}

int main(int argc, char **argv)
{
        static struct load_result result; /* too large for the stack */
        struct load_options options;
        struct onlooker on = {0};
        struct load_watch watch = {.line = say_line, .moment = sample, .arg = &on};
        int status = load_options_parse(argc, argv, &options);

        if (status >= 0)
                return status;
        signal(SIGPIPE, SIG_IGN);
        on.pid = (int)options.server_pid;
        on.known = on.pid > 0 && load_server_read(on.pid, &on.before) == 0;
        if (load_run(&options.settings, &watch, &result) != 0)
                return 1;
        look_at_the_end(&on);
        if (print_json(&options, &result, &on) != 0)
                return 1;
        if (!options.json_only)
                print_line(&options, &result, &on);
        return result.failed == 0 && result.stats.count > 0 ? 0 : 1;
}
