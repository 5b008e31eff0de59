/*
 * sdk_requests_python.h - data: requests of botocore 1.44 (by way of boto3), aws cli 1.45 and s3cmd
 * 2.3. See sdk_request.h.
 */
#ifndef MILLRACE_TEST_S3_SDK_REQUESTS_PYTHON_H
#define MILLRACE_TEST_S3_SDK_REQUESTS_PYTHON_H

#include "tests/unit/s3/sdk_request.h"

static const struct sdk_request python_requests[] = {
        {
                "boto put key 3",
                "PUT",
                "/bucket/a%2520b",
                "Host: 127.0.0.1:9000\n"
                "x-amz-checksum-crc32: NhCmhg==\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-sdk-chec"
                "ksum-algorithm, Signature=54f17c66ca8898d9fe0a146c5398c24092d86bdc844269cef0e8a0b6e7789c07\n",
                BODY("hello"),
        },
        {
                "boto put key 4",
                "PUT",
                "/bucket/a//b",
                "Host: 127.0.0.1:9000\n"
                "x-amz-checksum-crc32: NhCmhg==\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-sdk-chec"
                "ksum-algorithm, Signature=fd0f662f92efd65a490ce4abfaa9cd811681418dcc0c22f39ff81db600394276\n",
                BODY("hello"),
        },
        {
                "boto put key 5",
                "PUT",
                "/bucket/../up",
                "Host: 127.0.0.1:9000\n"
                "x-amz-checksum-crc32: NhCmhg==\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-sdk-chec"
                "ksum-algorithm, Signature=9df75ef93264f334a4f915c3d34ebb531f0cb66a422749cffbd67722d1278f27\n",
                BODY("hello"),
        },
        {
                "boto put key 7",
                "PUT",
                "/bucket//lead",
                "Host: 127.0.0.1:9000\n"
                "x-amz-checksum-crc32: NhCmhg==\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-sdk-chec"
                "ksum-algorithm, Signature=1f9a463127c7442ff9ba3a400bcb127589588529d1ceeb66d979d5427c8d4940\n",
                BODY("hello"),
        },
        {
                "boto put key 9",
                "PUT",
                "/bucket/%C3%BCn%C3%AF/%C3%A7%C3%B8d%C3%A9",
                "Host: 127.0.0.1:9000\n"
                "x-amz-checksum-crc32: NhCmhg==\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-sdk-chec"
                "ksum-algorithm, Signature=bd37f2f6584c411982465ab90e8981c11bdd5e79e0ac4a94d17448051e039102\n",
                BODY("hello"),
        },
        {
                "boto put key 10",
                "PUT",
                "/bucket/%F0%9F%98%80",
                "Host: 127.0.0.1:9000\n"
                "x-amz-checksum-crc32: NhCmhg==\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-sdk-chec"
                "ksum-algorithm, Signature=db180a9c22dec992f8ca374334c57903fe71c84c81d952c8935e0cfb6b8ee92a\n",
                BODY("hello"),
        },
        {
                "boto put key 12",
                "PUT",
                "/bucket/q%3Fmark%23hash",
                "Host: 127.0.0.1:9000\n"
                "x-amz-checksum-crc32: NhCmhg==\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-sdk-chec"
                "ksum-algorithm, Signature=d20be585ed857e9a7b6e68a294a3ebfe1fd4baf917e15f1bee58e4054b8d3b8d\n",
                BODY("hello"),
        },
        {
                "boto put key 14",
                "PUT",
                "/bucket/par%28en%29%2A%21%40%24%2C%3A",
                "Host: 127.0.0.1:9000\n"
                "x-amz-checksum-crc32: NhCmhg==\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-sdk-chec"
                "ksum-algorithm, Signature=7fe7fa89fa8fd7481c0a357af66d901640b707834d7094cbffcb79f5c17a65b6\n",
                BODY("hello"),
        },
        {
                "boto put key 15",
                "PUT",
                "/bucket/back%5Cslash%7C%3C%3E%5B%5D%7B%7D%5E%60",
                "Host: 127.0.0.1:9000\n"
                "x-amz-checksum-crc32: NhCmhg==\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-sdk-chec"
                "ksum-algorithm, Signature=4a48fe54471329f648d36c23376c2148a664e82e9284b45f803c5518d87a9399\n",
                BODY("hello"),
        },
        {
                "boto put key 17",
                "PUT",
                "/bucket/new%0Aline",
                "Host: 127.0.0.1:9000\n"
                "x-amz-checksum-crc32: NhCmhg==\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-sdk-chec"
                "ksum-algorithm, Signature=99be6a30e7aca943a6f5e0cf6ca0dd51cdd02edab1a9b3d765bed5971d989277\n",
                BODY("hello"),
        },
        {
                "boto get overrides",
                "GET",
                "/bucket/k?response-content-type=text%2Fplain%3B%20charset%3Dutf-8&response-content-dispositio"
                "n=attachment%3B%20filename%3D%22a%20b%2Bc.txt%22&response-expires=Fri%2C%2024%20May%202024%20"
                "12%3A34%3A56%20GMT",
                "Host: 127.0.0.1:9000\n"
                "x-amz-checksum-mode: ENABLED\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-checksum-mode;x-amz-content-sha256;x-amz-date, Signature=486c"
                "abef782bfdcd18606daeb499ed4ca0ccf779ef62a72eea3a611626aea5df\n",
                BODY(""),
        },
        {
                "boto list",
                "GET",
                "/bucket?list-type=2&prefix=a%20b%2Bc%2F%C3%BC%26%3D%3F%25&delimiter=%2F&start-after=~%2A%27%2"
                "8%29&max-keys=7&encoding-type=url",
                "Host: 127.0.0.1:9000\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=82af6623b3a2661c7e3be314"
                "a9113c131d656dd0cc492e3e05e710e9184025be\n",
                BODY(""),
        },
        {
                "boto list versions",
                "GET",
                "/bucket?versions&key-marker=k%252F&version-id-marker=a%2Bb%2F%3D&encoding-type=url",
                "Host: 127.0.0.1:9000\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=5c8e626a4a328751c7e15078"
                "ad59a701cdea747093bca21054c2b2b82ac91031\n",
                BODY(""),
        },
        {
                "boto metadata",
                "PUT",
                "/bucket/k",
                "Host: 127.0.0.1:9000\n"
                "x-amz-meta-one: two  spaces   here \n"
                "x-amz-meta-plus: a+b=c;d\n"
                "x-amz-meta-MiXed: v\n"
                "Content-Type: text/plain;  charset=utf-8\n"
                "Cache-Control: no-cache,  no-store\n"
                "Content-Disposition: x; filename=\"a  b\"\n"
                "x-amz-checksum-crc32: jNwWgw==\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=cache-control;content-disposition;content-type;host;x-amz-checksum-crc32"
                ";x-amz-content-sha256;x-amz-date;x-amz-meta-mixed;x-amz-meta-one;x-amz-meta-plus;x-amz-sdk-ch"
                "ecksum-algorithm, Signature=94819eab03e721d3d531f57330a64d6881fa11d13b65c588d544838de7fcdfba\n",
                BODY("x"),
        },
        {
                "boto copy",
                "PUT",
                "/bucket/dst",
                "Host: 127.0.0.1:9000\n"
                "x-amz-copy-source: src/a%20b%2Bc/%C3%BC%25%3F?versionId=v+1\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-content-sha256;x-amz-copy-source;x-amz-date, Signature=2de447"
                "b846026df8ee0e1bd8326d39b934ff52399761249a0fd355ae855c460b\n",
                BODY(""),
        },
        {
                "boto complete",
                "POST",
                "/bucket/big?uploadId=abc%2B%2F%3D~",
                "Host: 127.0.0.1:9000\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: 49d08b31507b63ebc7b66fb20ab5d78cef0584d8336305f7730f064c05900cd9\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=b00dab493d62af40528c9120"
                "950f812a3dba8381c0ada431585f17c4843b477e\n",
                BODY("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Part><PartNumber>"
                "1</PartNumber><ETag>\"d41d8cd98f00b204e9800998ecf8427e\"</ETag><ChecksumCRC32>AAAAAA==</Check"
                "sumCRC32></Part><Part><PartNumber>2</PartNumber><ETag>d41d8cd98f00b204e9800998ecf8427e</ETag>"
                "</Part></CompleteMultipartUpload>"),
        },
        {
                "boto virtual",
                "PUT",
                "//lead//%C3%BC",
                "Host: my.bucket.s3.example.com:9000\n"
                "x-amz-checksum-crc32: AAAAAA==\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-sdk-chec"
                "ksum-algorithm, Signature=6a6b570a32ea7683b60678fc81d885f30bf31b7960856ade417a73158a9d4f7c\n",
                BODY(""),
        },
        {
                "boto https trailer empty",
                "PUT",
                "/bucket/k",
                "Host: s3.example.com\n"
                "Content-Encoding: aws-chunked\n"
                "X-Amz-Trailer: x-amz-checksum-crc32\n"
                "X-Amz-Decoded-Content-Length: 0\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-cont"
                "ent-length;x-amz-sdk-checksum-algorithm;x-amz-trailer, Signature=4c85e2bdec6db22b5ee9af848910"
                "16cacb92c44cfc5fe8964e05e2a677eaaa88\n",
                BODY("0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n"),
        },
        {
                "boto https upload_part",
                "PUT",
                "/bucket/k?uploadId=u&partNumber=3",
                "Host: s3.example.com\n"
                "Content-Encoding: aws-chunked\n"
                "X-Amz-Trailer: x-amz-checksum-crc32\n"
                "X-Amz-Decoded-Content-Length: 20\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-cont"
                "ent-length;x-amz-sdk-checksum-algorithm;x-amz-trailer, Signature=1e7de4c2ebd4817a13378ab355d4"
                "88e08ecde2ab8ef9bc0fb1fcfd9156e55c4d\n",
                BODY("14\r\nqqqqqqqqqqqqqqqqqqqq\r\n0\r\nx-amz-checksum-crc32:1nDBaw==\r\n\r\n"),
        },
        {
                "boto unsigned payload",
                "PUT",
                "/bucket/k",
                "Host: 127.0.0.1:9000\n"
                "x-amz-checksum-crc32: rfPzYw==\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "X-Amz-Date: 20240524T123456Z\n"
                "X-Amz-Content-SHA256: UNSIGNED-PAYLOAD\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20240524/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-sdk-chec"
                "ksum-algorithm, Signature=d0ffa7f6756df79d56635eb31ffce5b36f509b8f5d3fcefa78f6cab0768dc9ff\n",
                BODY("data"),
        },
        {
                "boto presign get",
                "GET",
                "/bucket/a%20b%2B%C3%BC~/%28x%29?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODN"
                "N7EXAMPLE%2F20240524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20240524T123456Z&X-Amz-Expire"
                "s=3600&X-Amz-SignedHeaders=host&X-Amz-Signature=9df45d5e445e206aac35ec0a97c202043f38c00c00b5e"
                "57c60f50f724d55ca98",
                "Host: 127.0.0.1:9000\n",
                BODY(""),
        },
        {
                "boto presign get overrides",
                "GET",
                "/bucket/k?response-content-disposition=attachment%3B%20filename%3D%22x%20y%2Bz.txt%22&version"
                "Id=a%2Fb%2Bc%3D&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F2024"
                "0524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20240524T123456Z&X-Amz-Expires=604800&X-Amz-S"
                "ignedHeaders=host&X-Amz-Signature=ae78b0be7c53e4f217ca00d12758dfd5b91257b90d51d6bdc5ca8233644"
                "e6e2d",
                "Host: 127.0.0.1:9000\n",
                BODY(""),
        },
        {
                "boto presign list",
                "GET",
                "/bucket?list-type=2&prefix=a%20b%2F&encoding-type=url&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-"
                "Credential=AKIAIOSFODNN7EXAMPLE%2F20240524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=2024052"
                "4T123456Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=7f2fff29b85d444315081b823"
                "955c75b8385cb63c9943e88e702409128cad977",
                "Host: 127.0.0.1:9000\n",
                BODY(""),
        },
        {
                "aws cli",
                "POST",
                "/bucket/multi%20part?uploadId=upl%2B%2F%3Did",
                "Host: 127.0.0.1:19802\n"
                "X-Amz-Date: 20261121T044802Z\n"
                "X-Amz-Content-SHA256: d4df44ca5fb229882b8a17b8ae2a626c660c4ce36e20f39cd921dcf738b7df12\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=60dd4c040d7a3cc3f13905fa"
                "904909244b780e81bda3fceedc442be49917b12c\n",
                BODY("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Part><ETag>\"5d41"
                "402abc4b2a76b9719d911017c592\"</ETag><PartNumber>1</PartNumber></Part><Part><ETag>\"5d41402ab"
                "c4b2a76b9719d911017c592\"</ETag><PartNumber>2</PartNumber></Part></CompleteMultipartUpload>"),
        },
        {
                "aws cli",
                "PUT",
                "/bucket/dir/a%20b%2Bc%2520",
                "Host: 127.0.0.1:19802\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "Content-Encoding: aws-chunked\n"
                "X-Amz-Trailer: x-amz-checksum-crc32\n"
                "X-Amz-Decoded-Content-Length: 6\n"
                "X-Amz-Date: 20261121T044759Z\n"
                "X-Amz-Content-SHA256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-cont"
                "ent-length;x-amz-sdk-checksum-algorithm;x-amz-trailer, Signature=ee518fab453ae39f3149e9594394"
                "b9e8d4e3e2f4ac585023c35563b76132e3d4\n",
                BODY("6\r\nhello\n\r\n0\r\nx-amz-checksum-crc32:NjowIA==\r\n\r\n"),
        },
        {
                "aws cli",
                "PUT",
                "/bucket/dir/plain",
                "Host: 127.0.0.1:19802\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "Content-Encoding: aws-chunked\n"
                "X-Amz-Trailer: x-amz-checksum-crc32\n"
                "X-Amz-Decoded-Content-Length: 6\n"
                "X-Amz-Date: 20261121T044800Z\n"
                "X-Amz-Content-SHA256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-cont"
                "ent-length;x-amz-sdk-checksum-algorithm;x-amz-trailer, Signature=375c30d7d33cffc1974d9b893073"
                "da150526fed216123038f9333a310f5ce53e\n",
                BODY("6\r\nhello\n\r\n0\r\nx-amz-checksum-crc32:NjowIA==\r\n\r\n"),
        },
        {
                "aws cli",
                "POST",
                "/bucket/multi%20part?uploads",
                "Host: 127.0.0.1:19802\n"
                "x-amz-checksum-algorithm: CRC32\n"
                "X-Amz-Date: 20261121T044802Z\n"
                "X-Amz-Content-SHA256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-checksum-algorithm;x-amz-content-sha256;x-amz-date, Signature"
                "=3bfd708d6e5be20a12f51ce1148b892e455e8b8a613a1258c738f060acb4e398\n",
                BODY(""),
        },
        {
                "aws cli",
                "PUT",
                "/bucket/dir/a%20b%2Bc%2520",
                "Host: 127.0.0.1:19801\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "x-amz-checksum-crc32: NjowIA==\n"
                "X-Amz-Date: 20261121T044755Z\n"
                "X-Amz-Content-SHA256: 5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-sdk-chec"
                "ksum-algorithm, Signature=eda67bf4e1d94a372fb6bfeb0c800eba6d19457751bad232b2237e8a09190dc7\n",
                BODY("hello\n"),
        },
        {
                "aws cli",
                "PUT",
                "/bucket/dir/plain",
                "Host: 127.0.0.1:19801\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "x-amz-checksum-crc32: NjowIA==\n"
                "X-Amz-Date: 20261121T044756Z\n"
                "X-Amz-Content-SHA256: 5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-sdk-chec"
                "ksum-algorithm, Signature=fa1e4feec660db4452a1843f5397913ec200b5e346b912a4f50d98d29e67576c\n",
                BODY("hello\n"),
        },
        {
                "s3cmd",
                "PUT",
                "/bucket/dir/a%20b%2Bc%2520",
                "Host: 127.0.0.1:19801\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest,SignedHeaders=content-length;content-type;host;x-amz-content-sha256;x-amz-date;x-amz-me"
                "ta-s3cmd-attrs;x-amz-storage-class,Signature=b398320b37a47ac76bae84e4179c9ea75821b27713067bea"
                "1db1d13fbae58dfd\n"
                "content-length: 6\n"
                "content-type: text/plain\n"
                "x-amz-content-sha256: 5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03\n"
                "x-amz-date: 20261121T044753Z\n"
                "x-amz-meta-s3cmd-attrs: atime:1795236401/ctime:1795236401/gid:0/gname:root/md5:b1946ac92492d2"
                "347c6235b4d2611184/mode:33188/mtime:1795236401/uid:0/uname:root\n"
                "x-amz-storage-class: STANDARD\n",
                BODY("hello\n"),
        },
        {
                "s3cmd",
                "PUT",
                "/bucket/dir/plain",
                "Host: 127.0.0.1:19801\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest,SignedHeaders=content-length;content-type;host;x-amz-content-sha256;x-amz-date;x-amz-me"
                "ta-s3cmd-attrs;x-amz-storage-class,Signature=8256211a7d1ac6473cc9caa3c5401c690f62418505b79aeb"
                "905e33f51c9e06fa\n"
                "content-length: 6\n"
                "content-type: text/plain\n"
                "x-amz-content-sha256: 5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03\n"
                "x-amz-date: 20261121T044753Z\n"
                "x-amz-meta-s3cmd-attrs: atime:1795236401/ctime:1795236401/gid:0/gname:root/md5:b1946ac92492d2"
                "347c6235b4d2611184/mode:33188/mtime:1795236401/uid:0/uname:root\n"
                "x-amz-storage-class: STANDARD\n",
                BODY("hello\n"),
        },
        {
                "s3cmd",
                "GET",
                "/bucket/?delimiter=%2F&prefix=a%20b%2B%C3%BC%2F",
                "Host: 127.0.0.1:19801\n"
                "x-amz-date: 20261121T044754Z\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest,SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature=9d520bc75cf528903b47c7bc07"
                "5bb91da50ed8a21ecf22ac456a9c50f9840425\n"
                "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n",
                BODY(""),
        },
        {
                "s3cmd",
                "GET",
                "/bucket/a%20b%2B%C3%BC?acl",
                "Host: 127.0.0.1:19801\n"
                "x-amz-date: 20261121T044754Z\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest,SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature=054bf2539520128cf366a17f96"
                "779a1910b96313c0612f6a6c3152af84e7f087\n"
                "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n",
                BODY(""),
        },
        {
                "s3cmd",
                "DELETE",
                "/bucket/a%20b",
                "Host: 127.0.0.1:19801\n"
                "x-amz-date: 20261121T044754Z\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest,SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature=a40595a44151f90087e8b892ac"
                "d5d3b0ea435e3c4e7a73a113a6608adce03d23\n"
                "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n",
                BODY(""),
        },
        {
                "s3cmd",
                "POST",
                "/bucket/multi%20part?uploads",
                "Host: 127.0.0.1:19801\n"
                "content-type: application/octet-stream\n"
                "x-amz-meta-s3cmd-attrs: atime:1795236473/ctime:1795236401/gid:0/gname:root/md5:02c47bac5b2803"
                "f9a2ccbf5777fece72/mode:33188/mtime:1795236401/uid:0/uname:root\n"
                "x-amz-storage-class: STANDARD\n"
                "x-amz-date: 20261121T044754Z\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest,SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date;x-amz-meta-s3cmd-attrs;"
                "x-amz-storage-class,Signature=839270b962f77ce7c7acbf3f8e36b7803af8332ec1ff75e4492badc5c88a662"
                "8\n"
                "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n",
                BODY(""),
        },
};

#endif
