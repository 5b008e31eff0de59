/*
 * server.h - what a run cost the server, from /proc: CPU time, and memory by kind (anonymous apart from mapped files
 * such as LMDB's). Any thread.
 */
#ifndef BENCH_LOAD_SERVER_H
#define BENCH_LOAD_SERVER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct load_server {
        double cpu_s;                  /* user and system, all threads, ended ones too */
        uint64_t rss, anonymous, file; /* bytes; file: everything mapped that is not anonymous */
};

/* Clock ticks of utime and stime in the text of /proc/PID/stat. The name in parentheses may hold anything. 0 or -1. */
static inline int load_stat_ticks(const char *text, uint64_t *ticks)
{
        const char *at = strrchr(text, ')');
        unsigned long long user, system;

        /* after the name: state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime */
        if (at == NULL || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2)
                return -1;
        *ticks = user + system;
        return 0;
}

/* Bytes of a line "Name:   123 kB" of /proc/PID/smaps_rollup; 0 where there is none. */
static inline uint64_t load_smaps_bytes(const char *text, const char *name)
{
        size_t len = strlen(name);

        for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (strncmp(line, name, len) == 0 && line[len] == ':')
                        return strtoull(line + len + 1, NULL, 10) * 1024;
        }
        return 0;
}

static inline int load_read_proc(int pid, const char *name, char *out, size_t size)
{
        char path[64];
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
        out->rss = load_smaps_bytes(text, "Rss");
        out->anonymous = load_smaps_bytes(text, "Anonymous");
        out->file = out->rss > out->anonymous ? out->rss - out->anonymous : 0;
        return 0;
}

#endif
