/*
 * s3_website.h - buckets as websites: what a WebsiteConfiguration makes of a request. See s3.h for
 * the rules of this module; the document is read by s3_doc_new(S3_DOC_WEBSITE).
 *
 * Whoever serves asks first by s3_website_ask(), then reads the object of that key. If it cannot be
 * read, s3_website_failed() says what is sent instead; where the error is 404 and there is an object
 * s3_website_index() of the key with '/' behind it, the answer is a 302 to that folder.
 */
#ifndef MILLRACE_S3_WEBSITE_H
#define MILLRACE_S3_WEBSITE_H

#include "s3_config.h"

#define S3_WEBSITE_RULES_MAX     50u
#define S3_WEBSITE_BODY_MAX      (128u << 10)
#define S3_WEBSITE_KEY_SIZE      1025u
#define S3_WEBSITE_LOCATION_SIZE 7168u

enum s3_website_kind {
        S3_WEBSITE_OBJECT,   /* the object `text`, with `status` */
        S3_WEBSITE_REDIRECT, /* to the URL `text`, or path on this host; status 301 to 399 */
        S3_WEBSITE_PAGE      /* an error page that the server makes, with `status` */
};

struct s3_website_answer {
        enum s3_website_kind kind;
        unsigned status;
        size_t len;                          /* of text */
        char text[S3_WEBSITE_LOCATION_SIZE]; /* with a NUL; no key that is longer than S3_WEBSITE_KEY_SIZE */
};

struct s3_website_request {
        struct s3_str key;  /* decoded; empty: the root; at most 1,024 bytes */
        struct s3_str host; /* as the client names this host, with the port */
        bool https;
};

/* Before anything is read. */
void s3_website_ask(const struct s3_config *config, const struct s3_website_request *request,
                    struct s3_website_answer *out);
/* The object of the request could not be read: status 400 to 599. */
void s3_website_failed(const struct s3_config *config, const struct s3_website_request *request, unsigned status,
                       struct s3_website_answer *out);
/* The key of the index document of the folder `key`, which need not end in '/'; its length, or 0: none. */
size_t s3_website_index(const struct s3_config *config, struct s3_str key, char out[S3_WEBSITE_KEY_SIZE]);
/* 302 to the request's path with '/' behind it. */
void s3_website_to_folder(const struct s3_website_request *request, struct s3_website_answer *out);

#endif
