/*
 * op_config.c - configurations of buckets and objects that are never set here: S3's "not
 * configured" answers, and ACLs. On the request's loop.
 *
 * Setting an ACL to what it is anyway succeeds, and to anything else is not implemented. Taking a
 * configuration away that cannot be there succeeds, as in S3. Those that are kept: text_rows.c.
 */
#include <errno.h>

#include "gateway/s3/handlers.h"
#include "gateway/s3/version_ids.h"

#define DOC_MAX (16u << 10)

void gw_run_config(struct gw_request *req)
{
        req->refused_query = s3_str_of(req->op->sub);
        gw_reply_error(req, req->op->arg, NULL);
}

void gw_run_config_delete(struct gw_request *req)
{
        gw_reply_empty(req, 204);
}

/* ---- set to what they are -------------------------------------------------------------------- */

static unsigned count_leaves(const struct s3_doc *doc, const char *name, const char *value)
{
        unsigned n = 0;

        for (unsigned i = 0; i < doc->leaf_count; i++)
                n += s3_str_eq(doc->leaf[i].name, s3_str_of(name)) && s3_str_eq_nocase(doc->leaf[i].value, s3_str_of(value));
        return n;
}

/* One grant, of everything, to the owner. */
static bool grants_the_owner_all(const struct gw_request *req, const struct s3_doc *doc)
{
        for (unsigned i = 0; i < doc->leaf_count; i++) {
                struct s3_str name = doc->leaf[i].name, value = doc->leaf[i].value;

                if (s3_str_eq(name, S3_STR("ID")) ? !s3_str_eq(value, s3_str_of(req->loop->gw->owner_id))
                                                  : !s3_str_eq(name, S3_STR("DisplayName")) &&
                                                            !(s3_str_eq(name, S3_STR("Permission")) &&
                                                              s3_str_eq(value, S3_STR("FULL_CONTROL"))))
                        return false;
        }
        return doc->leaf_count < S3_DOC_LEAVES_MAX && count_leaves(doc, "Permission", "FULL_CONTROL") == 1 &&
               count_leaves(doc, "ID", req->loop->gw->owner_id) > 0;
}

static void reply_acl_put(struct gw_request *req)
{
        const struct s3_doc *doc = req->body->doc;

        if (doc->empty && gw_header(req, "x-amz-acl").data == NULL) {
                gw_reply_error(req, S3_ERR_MISSING_SECURITY_HEADER, NULL);
        } else if (doc->empty || grants_the_owner_all(req, doc)) {
                gw_reply_empty(req, 200);
        } else {
                req->refused_query = s3_str_of(req->op->sub);
                gw_reply_error(req, S3_ERR_NOT_IMPLEMENTED, NULL);
        }
}

void gw_begin_config_put(struct gw_request *req)
{
        if (!gw_write_headers_check(req))
                return;
        gw_begin_document(req, S3_DOC_CONFIG);
}

void gw_run_config_put(struct gw_request *req)
{
        if (req->op->scope == GW_OBJECT)
                gw_run_object_config(req);
        else
                reply_acl_put(req);
}

/* ---- of objects ------------------------------------------------------------------------------ */

static void reply_acl(struct gw_request *req)
{
        struct s3_xml xml;

        s3_xml_init(&xml, DOC_MAX);
        s3_xml_declaration(&xml);
        s3_xml_root(&xml, "AccessControlPolicy");
        gw_owner_xml(req, &xml, "Owner");
        s3_xml_open(&xml, "AccessControlList");
        s3_xml_open(&xml, "Grant");
        s3_xml_raw(&xml, S3_STR("<Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
                                "xsi:type=\"CanonicalUser\">"));
        s3_xml_textz(&xml, "ID", req->loop->gw->owner_id);
        s3_xml_textz(&xml, "DisplayName", "root");
        s3_xml_close(&xml, "Grantee");
        s3_xml_textz(&xml, "Permission", "FULL_CONTROL");
        s3_xml_close(&xml, "Grant");
        s3_xml_close(&xml, "AccessControlList");
        s3_xml_close(&xml, "AccessControlPolicy");
        gw_reply_xml(req, 200, &xml);
}

static void reply_object_config(struct gw_request *req)
{
        if (strcmp(req->op->method, "PUT") == 0)
                reply_acl_put(req);
        else
                reply_acl(req);
}

/* The object is there; nothing more is wanted of it. */
static void config_object_opened(void *arg, int rv, struct eng_get *get)
{
        struct gw_request *req = arg;

        struct gw_version *version;

        if (!gw_back(req)) {
                if (rv == 0)
                        eng_get_close(get);
                return;
        }
        version = req->work;
        if (!gw_version_found(req, version, rv, get))
                return;
        gw_version_header(req, &eng_get_object(get)->version);
        reply_object_config(req);
}

void gw_run_object_config(struct gw_request *req)
{
        struct gw_version *version = gw_alloc(req, sizeof(*version));

        if (version == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        req->work = version;
        if (gw_version_of(req, version))
                eng_get_metadata(req->loop->gw->store, req->bucket_id, gw_eng_str(req->key), gw_version_asked(version),
                                 config_object_opened, req);
}

void gw_run_acl(struct gw_request *req)
{
        if (req->op->scope == GW_OBJECT)
                gw_run_object_config(req);
        else
                reply_acl(req);
}
