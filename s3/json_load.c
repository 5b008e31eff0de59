/*
 * Reads JSON, and says so if memory runs out meanwhile. Called where policies are compiled and
 * entities are read; any thread.
 *
 * jansson ignores that it has no memory for the next byte of a string or number that it collects:
 * a policy about "private-logs" could become one about "private-log". So its functions for memory
 * are set to ones that remember a failure for the thread.
 */
#include "s3_json.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static _Thread_local bool out_of_json_memory;

static void *watched_room(size_t size)
{
        void *room = malloc(size);

        if (room == NULL)
                out_of_json_memory = true;
        return room;
}

static void watch_json_memory(void)
{
        json_set_alloc_funcs(watched_room, free);
}

void s3_json_begin(void)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        pthread_once(&once, watch_json_memory);
}

json_t *s3_json_load(struct s3_str text, size_t flags, json_error_t *error)
{
        json_t *json;

        s3_json_begin();
        out_of_json_memory = false;
        json = json_loadb(text.data != NULL ? text.data : "", text.len, flags, error);
        if (out_of_json_memory) {
                json_decref(json);
                json = NULL;
        }
        errno = json != NULL ? 0 : out_of_json_memory ? ENOMEM : EBADMSG;
        return json;
}
