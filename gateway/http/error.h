/*
 * error.h - results of the engine as S3 errors.
 */
#ifndef GATEWAY_HTTP_ERROR_H
#define GATEWAY_HTTP_ERROR_H

#include "s3.h"

/* What was asked for, where one errno means different things. */
enum gw_about {
        GW_ABOUT_BUCKET,        /* a bucket looked up or deleted */
        GW_ABOUT_BUCKET_NEW,    /* a bucket made */
        GW_ABOUT_KEY,           /* an object read or deleted */
        GW_ABOUT_WRITE,         /* an object written */
        GW_ABOUT_UPLOAD,        /* a multipart upload, its parts */
        GW_ABOUT_COMPLETE,      /* its completion */
        GW_ABOUT_ABOUTS
};

enum s3_error gw_error_of(int rv, enum gw_about about);

#endif
