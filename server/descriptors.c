/*
 * descriptors.c - see descriptors.h. Called by the main thread at the start, after the limit was
 * raised.
 */
#include "server/descriptors.h"

#include <stdio.h>
#include <sys/resource.h>

#define OF_PROCESS        64u /* listeners, logs, signals, the admin's connections */
#define OF_LOOP           8u
#define OF_DRIVE          32u /* locks, folders, the index, files being written */
#define OF_FILE           2u  /* of a drive, kept open: to be read past the page cache, and through it */
#define FILES_MOST        1024u
#define FILES_LEAST       8u
#define OF_CONNECTION     2u  /* sockets; files and pipes beside some of them */
#define CONNECTIONS_LEAST 16u

/* The store's share of the limit, and with it what one drive may keep open. */
static uint64_t store_wants(const struct srv_settings *settings, unsigned loops, uint64_t limit, unsigned *files)
{
        uint64_t fixed = OF_PROCESS + (uint64_t)OF_LOOP * loops, drives = settings->drive.count, room = limit / 2;
        uint64_t each;

        fixed += OF_DRIVE * drives;
        each = room > fixed && drives > 0 ? (room - fixed) / drives / OF_FILE : 0;
        *files = (unsigned)(each > FILES_MOST ? FILES_MOST : each < FILES_LEAST ? FILES_LEAST : each);
        return fixed + drives * *files * OF_FILE;
}

unsigned srv_descriptors_files(const struct srv_settings *settings, unsigned loops)
{
        struct rlimit limit;
        unsigned files;

        if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
                return FILES_MOST;
        store_wants(settings, loops, limit.rlim_cur, &files);
        return files;
}

unsigned srv_descriptors_connections(const struct srv_settings *settings, unsigned loops, char warning[SRV_DESCRIPTORS_WARNING])
{
        uint64_t wanted = settings->max_connections, store, room;
        struct rlimit limit;
        unsigned files;

        warning[0] = '\0';
        if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
                return (unsigned)wanted;
        store = store_wants(settings, loops, limit.rlim_cur, &files);
        if (store > limit.rlim_cur / 2)
                store = limit.rlim_cur / 2;
        room = (limit.rlim_cur - store) / OF_CONNECTION;
        if (room >= wanted)
                return (unsigned)wanted;
        room = room > CONNECTIONS_LEAST ? room : CONNECTIONS_LEAST;
        snprintf(warning, SRV_DESCRIPTORS_WARNING,
                 "the limit of open files (%llu) leaves room for %llu connections, not max_connections (%llu): the store "
                 "keeps %llu for its files",
                 (unsigned long long)limit.rlim_cur, (unsigned long long)room, (unsigned long long)wanted,
                 (unsigned long long)store);
        return (unsigned)room;
}
