/*
 * server.h - what a run cost the server, from /proc: CPU time, memory by kind (anonymous apart from
 * mapped files such as LMDB's), and what it had written to and read from block devices. Any thread.
 */
#ifndef BENCH_LOAD_SERVER_H
#define BENCH_LOAD_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct load_server {
        double cpu_s;                  /* user and system, all threads, ended ones too */
        uint64_t rss, anonymous, file; /* bytes; file: everything mapped that is not anonymous */
        uint64_t peak;                 /* the most that rss ever was (VmHWM) */
        bool io_known;
        uint64_t read, written; /* bytes that went through to the devices (/proc/PID/io) */
};

/*
 * Clock ticks of utime and stime in the text of /proc/PID/stat. The name in parentheses may hold
 * anything. 0 or -1.
 */
static inline int load_stat_ticks(const char *text, uint64_t *ticks)
{
        const char *at = strrchr(text, ')');
        unsigned long long user, system;

        /*
         * after the name: state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt
         * utime stime
         */
        if (at == NULL || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2)
                return -1;
        *ticks = user + system;
        return 0;
}

/* The number of a line "Name:   123 kB" of a file of /proc/PID; 0 where there is none. */
static inline uint64_t load_proc_number(const char *text, const char *name)
{
        size_t len = strlen(name);

        for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (strncmp(line, name, len) == 0 && line[len] == ':')
                        return strtoull(line + len + 1, NULL, 10);
        }
        return 0;
}

/* The same of a file that counts in kB: smaps_rollup, status. */
static inline uint64_t load_proc_bytes(const char *text, const char *name)
{
        return load_proc_number(text, name) * 1024;
}

static inline int load_read_proc(int pid, const char *name, char *out, size_t size)
{
        char path[96];
        FILE *file;
        size_t n;

        snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
        file = fopen(path, "re");
        if (file == NULL)
                return -1;
        n = fread(out, 1, size - 1, file);
        fclose(file);
        out[n] = '\0';
        return n > 0 ? 0 : -1;
}

/* 0, or -1 where there is no such process or it may not be looked at. */
static inline int load_server_read(int pid, struct load_server *out)
{
        char text[8192];
        uint64_t ticks;

        memset(out, 0, sizeof(*out));
        if (load_read_proc(pid, "stat", text, sizeof(text)) != 0 || load_stat_ticks(text, &ticks) != 0)
                return -1;
        out->cpu_s = (double)ticks / (double)sysconf(_SC_CLK_TCK);
        if (load_read_proc(pid, "smaps_rollup", text, sizeof(text)) != 0)
                return -1;
        out->rss = load_proc_bytes(text, "Rss");
        out->anonymous = load_proc_bytes(text, "Anonymous");
        out->file = out->rss > out->anonymous ? out->rss - out->anonymous : 0;
        if (load_read_proc(pid, "status", text, sizeof(text)) == 0)
                out->peak = load_proc_bytes(text, "VmHWM");
        out->io_known = load_read_proc(pid, "io", text, sizeof(text)) == 0;
        if (out->io_known) {
                out->read = load_proc_number(text, "read_bytes");
                out->written = load_proc_number(text, "write_bytes");
        }
        return 0;
}

/* Turns totals into what came since before; memory stays as it is. */
static inline void load_server_since(struct load_server *server, const struct load_server *before)
{
        server->cpu_s -= before->cpu_s;
        server->read -= before->read;
        server->written -= before->written;
}

/* Raises *most to the anonymous memory of now: cheap enough for once a second. */
static inline void load_server_sample(int pid, uint64_t *most)
{
        char text[4096];
        uint64_t anonymous;

        if (pid <= 0 || load_read_proc(pid, "status", text, sizeof(text)) != 0)
                return;
        anonymous = load_proc_bytes(text, "RssAnon");
        if (anonymous > *most)
                *most = anonymous;
}

#endif
