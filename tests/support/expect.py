"""Assertions on boto3 answers."""
import re

from botocore.exceptions import ClientError


def refused(code, status, call, *args, **kwargs):
    """Asserts that a boto3 call fails with that S3 error code and HTTP status, and returns the error's answer."""
    try:
        answer = call(*args, **kwargs)
    except ClientError as error:
        got = (error.response["Error"].get("Code"), error.response["ResponseMetadata"]["HTTPStatusCode"])
        codes = code if isinstance(code, tuple) else (code,)
        assert got[0] in codes and got[1] == status, f"expected {code}/{status}, got {got}: {error.response}"
        return error.response
    raise AssertionError(f"expected {code}/{status}, got success: {answer}")


def status_of(answer):
    return answer["ResponseMetadata"]["HTTPStatusCode"]


def headers_of(answer):
    return answer["ResponseMetadata"]["HTTPHeaders"]


def body_of(answer):
    return answer["Body"].read()


def read(s3, bucket, key, **kwargs):
    return s3.get_object(Bucket=bucket, Key=key, **kwargs)["Body"].read()


def absent(s3, bucket, key):
    refused("404", 404, s3.head_object, Bucket=bucket, Key=key)
    return True


def keys_of(s3, bucket, **kwargs):
    """All keys of a bucket in the order in which ListObjectsV2 gives them."""
    keys = []
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, **kwargs):
        keys += [entry["Key"] for entry in page.get("Contents", [])]
    return keys


HTTP_DATE = re.compile(r"^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$")
