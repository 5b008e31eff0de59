/*
 * version_ids.h - versions as clients name them: versionId in requests, x-amz-version-id in
 * answers, and what is said of delete markers. On the request's loop.
 *
 * A bucket that never had versioning has no ids: its answers have none of these headers.
 */
#ifndef GATEWAY_S3_VERSION_IDS_H
#define GATEWAY_S3_VERSION_IDS_H

#include "gateway/http/http_request.h"
#include "gateway/http/version_text.h"

/* Which version of a key a request means. */
struct gw_version {
        bool given;                     /* false: the newest */
        struct eng_version id;
};

/* What the engine is asked for: NULL is the newest. */
static inline const struct eng_version *gw_version_asked(const struct gw_version *version)
{
        return version->given ? &version->id : NULL;
}

/* Absent text is the newest version. INVALID_ARGUMENT with AWS's words in *message. */
enum s3_error gw_version_parse(struct s3_str text, struct gw_version *out, const char **message);
/* The query's versionId. False: answered. */
bool gw_version_of(struct gw_request *req, struct gw_version *out);
/* x-amz-version-id, or the header given, if the bucket has or had versioning. */
void gw_version_header(struct gw_request *req, const struct eng_version *id);

/* First thing in a callback that may have opened an object: false when the request is gone, and get is closed. */
bool gw_back_opened(const struct gw_request *req, int rv, struct eng_get *get);
/*
 * A look at an object that is a delete marker, or has failed (rv): answers it. 404 NoSuchKey for a
 * key whose newest version is a marker, 405 for a marker that was named by its id, NoSuchVersion
 * for an id of which there is nothing; AccessDenied where the object's owner, ACL or tags do not let the
 * request in (req->object_decides). True: there is an object. `get` is closed with the request.
 */
bool gw_version_found(struct gw_request *req, const struct gw_version *version, int rv, struct eng_get *get);
/*
 * The change is to be made only of the write that was found (req->get), and while it has the tags by which it was
 * permitted (P17, P21): -ESTALE else.
 */
void gw_change_as_seen(const struct gw_request *req, struct eng_extras_change *change);
/* The same for a change: answers NoSuchVersion, or else the error that rv stands for where a key is concerned. */
void gw_version_fail(struct gw_request *req, const struct gw_version *version, int rv);
/* 405: it is a delete marker, which can only be deleted. */
void gw_version_refuse_marker(struct gw_request *req);

#endif
