/*
 * bucket_texts.h - what is kept with a bucket as texts: configurations, which are the documents that
 * GET answers, without their XML declaration, as s3/ writes them; and where lifecycle rules have come
 * to.
 */
#ifndef GATEWAY_S3_BUCKET_TEXTS_H
#define GATEWAY_S3_BUCKET_TEXTS_H

#include "gateway/http/http_request.h"

/* Stored (eng_text_set()): append only. */
enum gw_text_kind {
        GW_TEXT_TAGGING = 1,
        GW_TEXT_LIFECYCLE = 2,
        GW_TEXT_LIFECYCLE_PLACE = 3 /* where a pass of the rules is; written as lifecycle_place.c says */
};
_Static_assert(GW_TEXT_TAGGING == 1 && GW_TEXT_LIFECYCLE == 2 && GW_TEXT_LIFECYCLE_PLACE == 3, "kinds of texts are stored");

/* The rules of a text of that kind, made when first asked for; NULL: no memory. They live as long as it. */
const struct s3_lifecycle *gw_lifecycle_form(struct eng_text *text);
/* The rules that are in force in the request's bucket; NULL: none. Until the caller returns to the loop. */
const struct s3_lifecycle *gw_lifecycle_of(struct gw_request *req);
/* x-amz-expiration, if a rule is to expire this object, which is the newest of its key. */
void gw_expiration_header(struct gw_request *req, const struct eng_object *object);

#endif
