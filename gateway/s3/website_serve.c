/*
 * website_serve.c - requests of websites: the object, its folder, the error document, redirects. What
 * the configuration makes of a request is s3_website.h's; what anonymous requests may read, the gate's.
 * On the request's loop. Rules W3 to W11 of docs/design/website.md.
 */
#include "gateway/s3/website_serve.h"

#include <errno.h>

#include "gateway/http/error_page.h"
#include "gateway/http/permit.h"
#include "gateway/s3/acl_request.h"
#include "gateway/s3/bucket_texts.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/head.h"
#include "s3_website.h"

/* What is being looked for. Each is looked for once, in this order. */
enum site_step { SITE_OBJECT, SITE_FOLDER, SITE_ERROR };

/* owner: the request (arena) */
struct site_work {
        unsigned magic; /* gw_check.h */
        enum site_step step;
        struct s3_website_request asked;
        bool object_decides;             /* let in if the object is such: asked again once it is found (P15, P20) */
        enum s3_error error;             /* the object could not be read */
        struct s3_website_answer answer; /* the one in hand; its text is the key that is read */
};

static void site_run(struct gw_request *req);

static const struct gw_op site_op = {
        .name = "GetWebsite",
        .method = "GET",
        .scope = GW_OBJECT,
        .permission = "s3:GetObject",
        .run = site_run,
};

/* ---- configuration and rights ---------------------------------------------------------------- */

/* NULL: answered. It may have been taken away since it was asked last. */
static const struct s3_config *site_config(struct gw_request *req)
{
        const struct s3_config *config;
        int rv = gw_config_find(req->store, req->bucket_id, GW_TEXT_WEBSITE, &config);

        if (rv == 0)
                return config;
        if (rv == -ENOENT || rv == -ENODATA)
                gw_reply_error_extra(req, S3_ERR_NO_SUCH_WEBSITE, NULL,
                                     gw_detail(req, "BucketName", req->bucket, NULL, (struct s3_str){NULL, 0}));
        else
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
        return NULL;
}

/* The question whether everybody may read the object in hand (W4, W5). */
static struct gw_ask site_ask(struct gw_request *req)
{
        const struct site_work *work = GW_CAST(site_work, req->work);

        return (struct gw_ask){.loop = req->loop,
                               .req = req,
                               .permission = "s3:GetObject",
                               .bucket = req->bucket,
                               .key = {work->answer.text, work->answer.len}};
}

static bool site_may_look(struct gw_request *req)
{
        struct gw_ask ask = site_ask(req);
        enum gw_permitted permitted = gw_permit_early(&ask, NULL);

        GW_CAST(site_work, req->work)->object_decides = permitted == GW_PERMITTED_IF;
        return permitted != GW_REFUSED;
}

/* The same of what was found; NULL: nothing. */
static bool site_may_read(struct gw_request *req, const struct eng_object *object)
{
        struct gw_ask ask = site_ask(req);

        gw_ask_found(&ask, req->bucket_id, object, false);
        return !GW_CAST(site_work, req->work)->object_decides || gw_permit(&ask, NULL);
}

static enum s3_error site_missing(struct gw_request *req)
{
        struct gw_ask ask = {.loop = req->loop,
                             .req = req,
                             .permission = "s3:ListBucket",
                             .bucket = req->bucket,
                             .implied = true};

        return gw_permit(&ask, NULL) ? S3_ERR_NO_SUCH_KEY : S3_ERR_ACCESS_DENIED;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* The place is one that a browser takes as it is: anything else is percent-encoded. */
static void site_redirect(struct gw_request *req, unsigned status, struct s3_str place)
{
        static const char digits[] = "0123456789ABCDEF";
        char *text = gw_alloc(req, 3 * place.len + 1), *p = text;

        if (text == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        for (size_t i = 0; i < place.len; i++) {
                unsigned char c = (unsigned char)place.data[i];

                if (c > ' ' && c < 0x7f && strchr("\"<>\\^`{|}", c) == NULL) {
                        *p++ = (char)c;
                        continue;
                }
                *p++ = '%';
                *p++ = digits[c >> 4];
                *p++ = digits[c & 15];
        }
        gw_request_release(req);
        gw_reply_header(req, "Location", text);
        gw_reply_empty(req, status);
}

static void site_open(struct gw_request *req, enum site_step step);

/* The object could not be read: what the configuration has for that, or a page. */
static void site_failed(struct gw_request *req, enum s3_error error)
{
        struct site_work *work = GW_CAST(site_work, req->work);
        const struct s3_config *config = site_config(req);

        if (config == NULL)
                return;
        work->error = error;
        s3_website_failed(config, &work->asked, s3_error_info(error)->status, &work->answer);
        switch (work->answer.kind) {
        case S3_WEBSITE_REDIRECT:
                site_redirect(req, work->answer.status, (struct s3_str){work->answer.text, work->answer.len});
                break;
        case S3_WEBSITE_OBJECT:
                site_open(req, SITE_ERROR);
                break;
        case S3_WEBSITE_PAGE:
                gw_reply_error(req, error, NULL);
                break;
        }
}

/* There is no object that may be read. */
static void site_step_failed(struct gw_request *req, enum s3_error error)
{
        struct site_work *work = GW_CAST(site_work, req->work);

        switch (work->step) {
        case SITE_OBJECT:
                site_failed(req, error);
                break;
        case SITE_FOLDER:
                site_failed(req, work->error);
                break;
        case SITE_ERROR: {
                const char *extra = work->error == S3_ERR_NO_SUCH_KEY
                                            ? gw_detail(req, "Key", req->key, NULL, (struct s3_str){NULL, 0})
                                            : NULL;

                req->second_error = error;
                req->key = (struct s3_str){work->answer.text, work->answer.len};
                gw_reply_error_extra(req, work->error, NULL, extra);
                break;
        }
        }
}

/* The key is not there, or may not be known to be: its folder may have an index document (W6). */
static void site_not_found(struct gw_request *req, enum s3_error error)
{
        struct site_work *work = GW_CAST(site_work, req->work);
        const struct s3_config *config = site_config(req);
        struct s3_str key = work->asked.key;
        char index[S3_WEBSITE_KEY_SIZE];
        size_t len = 0;

        if (config == NULL)
                return;
        if (key.len > 0 && key.data[key.len - 1] != '/')
                len = s3_website_index(config, key, index);
        if (len == 0) {
                site_failed(req, error);
                return;
        }
        work->error = error;
        memcpy(work->answer.text, index, len);
        work->answer.len = len;
        site_open(req, SITE_FOLDER);
}

/* ---- objects --------------------------------------------------------------------------------- */

/* The object has a redirection: W7. True: answered. */
static bool site_redirected(struct gw_request *req, const struct eng_object *object)
{
        struct gw_meta meta;
        struct s3_str place;

        if (gw_meta_decode(object->attrs, &meta) != 0) {
                gw_reply_errno(req, -EIO, GW_ABOUT_KEY);
                return true;
        }
        place = meta.field[GW_META_REDIRECT];
        if (place.len == 0)
                return false;
        place.data = gw_copy(req, place); /* the engine's, which goes with the object */
        if (place.data != NULL)
                site_redirect(req, 301, place);
        else
                gw_reply_no_memory(req);
        return true;
}

static void site_send(struct gw_request *req, struct eng_get *get)
{
        struct site_work *work = GW_CAST(site_work, req->work);
        unsigned status = 200;

        req->get = get;
        if (work->step == SITE_FOLDER) {
                s3_website_to_folder(&work->asked, &work->answer);
                site_redirect(req, work->answer.status, (struct s3_str){work->answer.text, work->answer.len});
                return;
        }
        if (work->step == SITE_OBJECT && site_redirected(req, eng_get_object(get)))
                return;
        if (work->step == SITE_ERROR) {
                status = work->answer.status;
                req->answer.error_code = s3_error_info(work->error)->code;
                gw_error_page_headers(req, work->error, NULL);
        }
        gw_get_page(req, status);
}

static void site_opened(void *arg, int rv, struct eng_get *get)
{
        struct gw_request *req = arg;
        struct site_work *work;
        bool found, permitted;

        if (!gw_request_told(req)) {
                if (rv == 0)
                        eng_get_close(get);
                return;
        }
        work = GW_CAST(site_work, req->work);
        found = rv == 0 && !eng_get_object(get)->marker;
        permitted = (rv != 0 && rv != -ENOENT) || site_may_read(req, found ? eng_get_object(get) : NULL);
        if (found && permitted) {
                site_send(req, get);
                return;
        }
        if (rv == 0)
                eng_get_close(get);
        if (!permitted)
                site_step_failed(req, S3_ERR_ACCESS_DENIED);
        else if (rv != 0 && rv != -ENOENT)
                site_step_failed(req, gw_error_of(rv, GW_ABOUT_KEY));
        else if (work->step == SITE_OBJECT)
                site_not_found(req, site_missing(req));
        else
                site_step_failed(req, site_missing(req));
}

/* The object that the answer in hand names. */
static void site_open(struct gw_request *req, enum site_step step)
{
        struct site_work *work = GW_CAST(site_work, req->work);
        struct s3_str key = {work->answer.text, work->answer.len};
        struct eng_store *store = req->store;

        work->step = step;
        if (!site_may_look(req)) {
                site_step_failed(req, S3_ERR_ACCESS_DENIED);
                return;
        }
        gw_request_ask(req);
        if (step == SITE_FOLDER || req->is_head)
                eng_get_metadata(store, req->bucket_id, gw_eng_str(key), NULL, site_opened, req);
        else
                eng_get_open(store, req->bucket_id, gw_eng_str(key), NULL, site_opened, req);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void site_run(struct gw_request *req)
{
        const struct s3_config *config = site_config(req);
        struct site_work *work;

        if (config == NULL)
                return;
        work = gw_alloc(req, sizeof(*work));
        if (work == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        work->magic = site_work_magic;
        work->asked = (struct s3_website_request){
                .key = req->key, .host = s3_str_of(req->site_host), .https = req->conn->listener->tls};
        req->work = work;
        s3_website_ask(config, &work->asked, &work->answer);
        switch (work->answer.kind) {
        case S3_WEBSITE_REDIRECT:
                site_redirect(req, work->answer.status, (struct s3_str){work->answer.text, work->answer.len});
                break;
        case S3_WEBSITE_OBJECT:
                req->key = (struct s3_str){gw_copy(req, (struct s3_str){work->answer.text, work->answer.len}), work->answer.len};
                if (req->key.data != NULL)
                        site_open(req, SITE_OBJECT);
                else
                        gw_reply_no_memory(req);
                break;
        case S3_WEBSITE_PAGE:
                site_failed(req, S3_ERR_NO_SUCH_KEY);
                break;
        }
}

/* A key of no length is the root's. */
void gw_site_accept(struct gw_request *req)
{
        static const struct s3_query no_query;

        gw_request_head(req, GW_STAGE_AUTHENTICATE);
        req->query = &no_query;
        req->signed_by = S3_AUTH_ANONYMOUS;
        req->anonymous = true;
        req->op = &site_op;
        if (!s3_str_eq(req->method, S3_STR("GET")) && !req->is_head) {
                gw_reply_header(req, "Allow", "GET, HEAD, OPTIONS");
                gw_reply_error(req, S3_ERR_METHOD_NOT_ALLOWED, NULL);
        } else if (req->content_length > 0) {
                gw_reply_error(req, S3_ERR_BAD_REQUEST, "A request to a website has no body.");
        } else if (!s3_bucket_name_valid(req->bucket)) {
                gw_reply_error(req, S3_ERR_NO_SUCH_BUCKET, NULL);
        } else {
                gw_head_anybody(req);
                gw_head_bucket(req);
        }
}
