/*
 * threads.h - CPU time of a process by thread, from /proc/PID/task: that of the fake RDMA
 * transport's device (its thread is called fake-nic, and does what hardware would do) apart from
 * all others. Threads that have ended are not counted. Any thread.
 */
#ifndef BENCH_LOAD_THREADS_H
#define BENCH_LOAD_THREADS_H

#include <dirent.h>

#include "bench/load/server.h"

#define LOAD_DEVICE_THREAD "fake-nic"

struct load_threads {
        double device_s, others_s;
};

/* Nanoseconds on a processor, or where the kernel does not count them, ticks. 0 or -1. */
static inline int load_thread_cpu(int pid, const char *tid, double *cpu_s)
{
        char name[48], text[1024];
        unsigned long long ns;
        uint64_t ticks;

        snprintf(name, sizeof(name), "task/%.16s/schedstat", tid);
        if (load_read_proc(pid, name, text, sizeof(text)) == 0 && sscanf(text, "%llu", &ns) == 1) {
                *cpu_s = (double)ns / 1e9;
                return 0;
        }
        snprintf(name, sizeof(name), "task/%.16s/stat", tid);
        if (load_read_proc(pid, name, text, sizeof(text)) != 0 || load_stat_ticks(text, &ticks) != 0)
                return -1;
        *cpu_s = (double)ticks / (double)sysconf(_SC_CLK_TCK);
        return 0;
}

/* 0, or -1 where there is no such process. */
static inline int load_threads_read(int pid, struct load_threads *out)
{
        char name[48], comm[64];
        struct dirent *entry;
        double cpu_s;
        DIR *dir;

        *out = (struct load_threads){0};
        snprintf(name, sizeof(name), "/proc/%d/task", pid);
        dir = opendir(name);
        if (dir == NULL)
                return -1;
        while ((entry = readdir(dir)) != NULL) {
                if (entry->d_name[0] == '.' || load_thread_cpu(pid, entry->d_name, &cpu_s) != 0)
                        continue;
                snprintf(name, sizeof(name), "task/%.16s/comm", entry->d_name);
                if (load_read_proc(pid, name, comm, sizeof(comm)) != 0)
                        continue;
                if (strncmp(comm, LOAD_DEVICE_THREAD, strlen(LOAD_DEVICE_THREAD)) == 0)
                        out->device_s += cpu_s;
                else
                        out->others_s += cpu_s;
        }
        closedir(dir);
        return 0;
}

#endif
