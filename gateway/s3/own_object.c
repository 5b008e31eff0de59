/*
 * own_object.c - objects that the store writes for itself, by the calls of clients' uploads.
 */
#include "gateway/s3/own_object.h"

#include <errno.h>

#include "gateway/http/gw_check.h"
#include "gateway/s3/meta.h"

static void own_ended(struct gw_own *own, int rv)
{
        if (!own->left)
                atomic_fetch_sub(&own->loop->stats.changes_active, 1);
        own->done(own->arg, own->left ? -ECANCELED : rv);
}

static void own_stored(void *arg, int rv, const struct eng_object *object)
{
        own_ended(GW_CAST(gw_own, arg), rv);
}

static void own_commit(struct gw_own *own)
{
        static _Thread_local uint8_t attrs[ENG_ATTRS_MAX]; /* copied by the engine within the call */
        struct gw_meta meta = {.field = {[GW_META_CONTENT_TYPE] = s3_str_of(own->type)}};
        struct eng_put_commit commit = {.attrs = attrs, .extras.acl = own->acl};
        ssize_t len = gw_meta_encode(&meta, attrs, sizeof(attrs));
        struct eng_put *put = own->put;

        own->put = NULL;
        if (len < 0) {
                eng_put_abort(put);
                own_ended(own, (int)len);
                return;
        }
        commit.attrs_len = (size_t)len;
        eng_put_md5(put, own->md5);
        memcpy(commit.etag, own->md5, sizeof(commit.etag));
        gw_tag_make(&meta, commit.tag);
        eng_put_commit(put, &commit, own_stored, own);
}

/* Called again whenever the engine has room. */
static void own_go(void *arg)
{
        struct gw_own *own = GW_CAST(gw_own, arg);
        struct eng_put *put = own->put;
        ssize_t n = 1;

        while (n > 0 && own->at < own->len) {
                n = eng_put_write(put, own->data + own->at, own->len - own->at);
                own->at += n > 0 ? (size_t)n : 0;
        }
        if (n < 0) {
                own->put = NULL;
                eng_put_abort(put);
                own_ended(own, (int)n);
        } else if (own->at == own->len && eng_put_md5_ready(put)) {
                own_commit(own);
        }
}

int gw_own_write(struct gw_own *own)
{
        struct gw_loop *loop = own->loop;
        struct eng_put_params params = {.bucket = own->bucket,
                                        .key = {own->key.data, own->key.len},
                                        .size = own->len,
                                        .md5 = true,
                                        .wake = own_go,
                                        .arg = own};
        int rv = -EROFS;

        own->magic = gw_own_magic;
        own->at = 0;
        own->put = NULL;
        own->left = false;
        atomic_fetch_add(&loop->stats.changes_active, 1); /* before the switch is looked at: gw_changing() */
        if (!atomic_load(&loop->gw->read_only))
                rv = eng_put_open(own->store, &params, &own->put);
        if (rv != 0) {
                atomic_fetch_sub(&loop->stats.changes_active, 1);
                return rv;
        }
        own_go(own);
        return 0;
}

bool gw_own_leave(struct gw_own *own)
{
        own->left = true;
        if (own->put == NULL)
                return false;
        eng_put_abort(own->put);
        own->put = NULL;
        return true;
}
