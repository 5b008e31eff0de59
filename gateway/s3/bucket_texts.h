/*
 * bucket_texts.h - what is kept with a bucket as texts: configurations, which are the documents that
 * GET answers, without their XML declaration, as s3/ writes them; and where lifecycle rules have come
 * to.
 *
 * A sub-resource is a row of the table in text_rows.c. Of some kinds a bucket may have many
 * configurations, each with an id: their text is one line for each, "ID DOCUMENT\n", sorted by id.
 * Where never having been set differs from having been deleted, the latter is the text GW_TEXT_GONE.
 */
#ifndef GATEWAY_S3_BUCKET_TEXTS_H
#define GATEWAY_S3_BUCKET_TEXTS_H

#include "gateway/http/http_request.h"

/* Stored (eng_text_set()): append only. */
enum gw_text_kind {
        GW_TEXT_NONE = 0, /* of a sub-resource that is never stored */
        GW_TEXT_TAGGING = 1,
        GW_TEXT_LIFECYCLE = 2,
        GW_TEXT_LIFECYCLE_PLACE = 3, /* where a pass of the rules is; written as lifecycle_place.c says */
        GW_TEXT_POLICY = 4, /* as it was sent (op_policy.c) */
        GW_TEXT_CORS = 5,
        GW_TEXT_WEBSITE = 6,
        GW_TEXT_LOGGING = 7,
        GW_TEXT_OWNERSHIP = 8,
        GW_TEXT_PUBLIC_ACCESS = 9,
        GW_TEXT_REQUEST_PAYMENT = 10,
        GW_TEXT_ACCELERATE = 11,
        GW_TEXT_INVENTORY = 12,
        GW_TEXT_METRICS = 13,
        GW_TEXT_ANALYTICS = 14,
        GW_TEXT_TIERING = 15,
        GW_TEXT_ACL = 16 /* as s3_acl.h has it (owners.h) */
};
_Static_assert(GW_TEXT_TAGGING == 1 && GW_TEXT_LIFECYCLE == 2 && GW_TEXT_LIFECYCLE_PLACE == 3,
               "kinds of texts are stored");
_Static_assert(GW_TEXT_CORS == 5 && GW_TEXT_WEBSITE == 6 && GW_TEXT_LOGGING == 7 && GW_TEXT_OWNERSHIP == 8,
               "kinds of texts are stored");
_Static_assert(GW_TEXT_PUBLIC_ACCESS == 9 && GW_TEXT_REQUEST_PAYMENT == 10 && GW_TEXT_ACCELERATE == 11,
               "kinds of texts are stored");
_Static_assert(GW_TEXT_INVENTORY == 12 && GW_TEXT_METRICS == 13 && GW_TEXT_ANALYTICS == 14 && GW_TEXT_TIERING == 15,
               "kinds of texts are stored");

_Static_assert(GW_TEXT_ACL == 16, "kinds of texts are stored");

#define GW_TEXT_GONE        "-"
#define GW_TEXT_CONFIGS_MAX 1000u /* of one kind with ids, in one bucket */

/* A sub-resource. Constant. */
struct gw_text_row {
        const char *sub;
        enum gw_text_kind kind;
        enum s3_doc_kind doc;
        enum s3_error absent; /* GET's answer where there is none, */
        const char *root;     /* unless it has an empty answer, or its defaults: this element */
        const char *content;
        const char *config; /* of a kind with ids: the element of one of them; root is that of the list */
        unsigned status;    /* of PUT */
        bool summed;        /* PUT has to have Content-MD5 or a checksum */
        bool says_gone;     /* once deleted, GET answers absent and not the defaults */
        bool (*begin)(struct gw_request *req); /* PUT's headers; false: answered; NULL: nothing */
        bool (*check)(struct gw_request *req, const struct s3_doc *doc); /* its document; the same */
        bool (*is_none)(const struct s3_doc *doc);                       /* it asks for what DELETE does; NULL: never */
        void (*write)(struct s3_xml *xml, const struct s3_doc *doc);     /* NULL: as it was read */
        void (*headers)(struct gw_request *req);                         /* of GET's and PUT's answers; NULL: none */
};
/* The row of the request's sub-resource, which has one. */
const struct gw_text_row *gw_text_row_of(const struct gw_request *req);

/* The rules of a text of that kind, made when first asked for; NULL: no memory. They live as long as it. */
const struct s3_lifecycle *gw_lifecycle_form(struct eng_text *text);
/* The rules that are in force in the request's bucket; NULL: none. Until the caller returns to the loop. */
const struct s3_lifecycle *gw_lifecycle_of(struct gw_request *req);
/* x-amz-expiration, if a rule is to expire this object, which is the newest of its key. */
void gw_expiration_header(struct gw_request *req, const struct eng_object *object);

/*
 * What is in force of a kind without ids, from CORS on; until the caller returns to the loop. -ENOENT:
 * never set; -ENODATA: deleted, where that differs; -ENOMEM; errors of eng_text_get().
 */
/* The form of such a text, which lives as long as it. NULL: no memory. */
const struct s3_config *gw_config_form(struct eng_text *text, enum gw_text_kind kind);
int gw_config_find(struct eng_store *store, uint64_t bucket, enum gw_text_kind kind, const struct s3_config **out);

/* Cuts the first configuration off the text of such a kind. False: there is none. */
bool gw_text_list_next(struct s3_str *rest, struct s3_str *id, struct s3_str *document);
/* GET, PUT and DELETE of one of many (op_text_lists.c). */
void gw_text_list_get(struct gw_request *req, const struct gw_text_row *row);
bool gw_text_list_id(struct gw_request *req); /* reads the id; false: answered */
void gw_text_list_put(struct gw_request *req, const struct gw_text_row *row);
void gw_text_list_delete(struct gw_request *req, const struct gw_text_row *row);
/* The answer to a change of a text; true: it was done, and nothing is answered yet. */
bool gw_text_changed(struct gw_request *req, int rv);

#endif
