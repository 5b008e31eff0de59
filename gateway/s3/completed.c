/*
 * completed.c - see completed.h. The newest version is looked at first: most often it is that one.
 */
#include "gateway/s3/completed.h"

#include <errno.h>

#include "gateway/http/gw_check.h"

#define PAGE  100u
#define PAGES 20u

static void completed_list(struct gw_completed *completed);

static void completed_opened(void *arg, int rv, struct eng_get *get)
{
        struct gw_completed *completed = GW_CAST(gw_completed, arg);
        struct gw_request *req = completed->req;
        bool made = rv == 0 && memcmp(eng_get_object(get)->upload_id, completed->upload_id, ENG_ID_LEN) == 0;

        if (rv == 0 && (!made || !gw_back(req)))
                eng_get_close(get);
        if (!gw_back(req))
                return;
        if (made || rv != 0)
                completed->found(req, rv, get);
        else if (req->versioned && !completed->listed)
                completed_list(completed);
        else
                completed->found(req, -ENOENT, NULL);
}

/* True: it is among them, and is about to be opened, or versions of other keys have begun. */
static bool completed_is_in(struct gw_completed *completed, const struct eng_version_entry *entries, unsigned count)
{
        struct gw_request *req = completed->req;

        for (unsigned i = 0; i < count; i++) {
                if (!s3_str_eq(gw_s3_str(entries[i].key), req->key)) {
                        completed->found(req, -ENOENT, NULL);
                        return true;
                }
                completed->version = entries[i].object.version;
                if (memcmp(entries[i].object.upload_id, completed->upload_id, ENG_ID_LEN) != 0)
                        continue;
                completed->listed = true;
                eng_get_metadata(req->store, req->bucket_id, gw_eng_str(req->key), &completed->version, completed_opened,
                                 completed);
                return true;
        }
        return false;
}

static void completed_listed(void *arg, int rv, const struct eng_version_entry *entries, unsigned count, bool more)
{
        struct gw_completed *completed = GW_CAST(gw_completed, arg);

        if (!gw_back(completed->req))
                return;
        if (rv != 0)
                completed->found(completed->req, rv, NULL);
        else if (completed_is_in(completed, entries, count))
                return;
        else if (more && ++completed->pages < PAGES)
                completed_list(completed);
        else
                completed->found(completed->req, -ENOENT, NULL);
}

static void completed_list(struct gw_completed *completed)
{
        const struct gw_request *req = completed->req;
        struct eng_list_params params = {
                .bucket = req->bucket_id, .prefix = gw_eng_str(req->key), .delimiter = {"", 0}, .after = {"", 0}, .max = PAGE};

        if (completed->pages > 0)
                params.after = params.prefix;
        eng_version_list(req->store, &params, completed->pages > 0 ? &completed->version : NULL, completed_listed, completed);
}

void gw_completed_find(struct gw_completed *completed)
{
        const struct gw_request *req = completed->req;

        completed->magic = gw_completed_magic;
        completed->pages = 0;
        completed->listed = false;
        eng_get_metadata(req->store, req->bucket_id, gw_eng_str(req->key), NULL, completed_opened, completed);
}
