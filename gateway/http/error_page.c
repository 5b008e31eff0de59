/*
 * error_page.c - errors as pages, see error_page.h. Called by reply.c for requests of websites, on the
 * request's loop. Whatever of a page comes from the request is escaped.
 */
#include "gateway/http/error_page.h"

#include <errno.h>
#include <microhttpd.h>

#define PAGE_MAX (64u << 10)

static void page_put(struct s3_xml *xml, const char *markup)
{
        s3_xml_raw(xml, s3_str_of(markup));
}

/* The value is markup: it has been escaped. */
static void page_item(struct s3_xml *xml, struct s3_str name, struct s3_str value)
{
        page_put(xml, "<li>");
        s3_xml_escaped(xml, name);
        page_put(xml, ": ");
        s3_xml_raw(xml, value);
        page_put(xml, "</li>\n");
}

static void page_item_text(struct s3_xml *xml, const char *name, const char *text)
{
        page_put(xml, "<li>");
        page_put(xml, name);
        page_put(xml, ": ");
        s3_xml_escaped(xml, s3_str_of(text));
        page_put(xml, "</li>\n");
}

/* Cuts "<Name>value</Name>" off the front: what gw_detail() makes. */
static bool next_detail(struct s3_str *rest, struct s3_str *name, struct s3_str *value)
{
        const char *end = rest->len > 0 && rest->data[0] == '<' ? memchr(rest->data, '>', rest->len) : NULL, *close;

        if (end == NULL)
                return false;
        *name = (struct s3_str){rest->data + 1, (size_t)(end - rest->data) - 1};
        value->data = end + 1;
        close = memchr(value->data, '<', (size_t)(rest->data + rest->len - value->data)); /* text has no bare one */
        if (close == NULL)
                return false;
        value->len = (size_t)(close - value->data);
        close = memchr(close, '>', (size_t)(rest->data + rest->len - close));
        if (close == NULL)
                return false;
        rest->len -= (size_t)(close + 1 - rest->data);
        rest->data = close + 1;
        return true;
}

/* Code, message and details, as AWS lists them. */
static void page_error(struct s3_xml *xml, enum s3_error error, const char *message, const char *extra)
{
        const struct s3_error_info *info = s3_error_info(error);
        struct s3_str rest = s3_str_of(extra != NULL ? extra : ""), name, value;

        page_item_text(xml, "Code", info->code);
        page_item_text(xml, "Message", message != NULL ? message : info->message);
        while (next_detail(&rest, &name, &value))
                page_item(xml, name, value);
}

int gw_error_page(struct gw_request *req, enum s3_error error, const char *message, const char *extra, char **text,
                  size_t *len)
{
        const char *title = gw_printf(req, "%u %s", s3_error_info(error)->status,
                                      MHD_get_reason_phrase_for(s3_error_info(error)->status));
        struct s3_xml xml;
        int rv;

        if (title == NULL)
                return -ENOMEM;
        s3_xml_init(&xml, PAGE_MAX);
        page_put(&xml, "<html>\n<head><title>");
        page_put(&xml, title);
        page_put(&xml, "</title></head>\n<body>\n<h1>");
        page_put(&xml, title);
        page_put(&xml, "</h1>\n<ul>\n");
        page_error(&xml, error, message, extra);
        page_item_text(&xml, "RequestId", req->id);
        page_item_text(&xml, "HostId", req->loop->gw->host_id);
        page_put(&xml, "</ul>\n");
        if (req->second_error != S3_OK) {
                page_put(&xml, "<h3>An Error Occurred While Attempting to Retrieve a Custom Error Document</h3>\n<ul>\n");
                page_error(&xml, req->second_error, NULL, gw_detail(req, "Key", req->key, NULL, (struct s3_str){NULL, 0}));
                page_put(&xml, "</ul>\n");
        }
        page_put(&xml, "<hr/>\n</body>\n</html>\n");
        rv = s3_xml_take(&xml, text, len);
        if (rv != 0)
                s3_xml_free(&xml);
        return rv;
}

void gw_error_page_headers(struct gw_request *req, enum s3_error error, const char *message)
{
        const struct s3_error_info *info = s3_error_info(error);

        gw_reply_header(req, "x-amz-error-code", info->code);
        /* A text with something of the request in it may be none for a header. */
        gw_reply_header(req, "x-amz-error-message", message != NULL ? NULL : info->message);
}
