/*
 * sdk_requests_other.h - data: requests of aws-crt 0.38, aws-sdk-go-v2 1.47, aws-sdk-java 2.31,
 * aws-sdk-js 3, minio-go 7 and rclone 1.60. See sdk_request.h.
 */
#ifndef MILLRACE_TEST_S3_SDK_REQUESTS_OTHER_H
#define MILLRACE_TEST_S3_SDK_REQUESTS_OTHER_H

#include "tests/unit/s3/sdk_request.h"

static const struct sdk_request other_requests[] = {
        {
                "aws-crt",
                "PUT",
                "/bucket/a%20b%2Bc",
                "Host: 127.0.0.1:19802\n"
                "Content-Length: 5\n"
                "X-Amz-Date: 20261121T044806Z\n"
                "x-amz-content-sha256: UNSIGNED-PAYLOAD\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=content-length;host;x-amz-content-sha256;x-amz-date, Signature=5e6f3dede"
                "9c1c8bf099bb942338b45813597a8f237f7c482230f00042c6d6d70\n",
                BODY("hello"),
        },
        {
                "aws-crt",
                "PUT",
                "/bucket/a%20b%2Bc",
                "Host: 127.0.0.1:19802\n"
                "Content-Encoding: aws-chunked\n"
                "x-amz-trailer: x-amz-checksum-crc32c\n"
                "x-amz-decoded-content-length: 5\n"
                "Content-Length: 47\n"
                "X-Amz-Date: 20261121T044806Z\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-a"
                "mz-decoded-content-length;x-amz-trailer, Signature=74a9d3519fa38de7a3a7500f9cb48c22da0e1cc570"
                "bd1f578a40ac116c0dcdda\n"
                "x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\n",
                BODY("5\r\nhello\r\n0\r\nx-amz-checksum-crc32c:mnG7TA==\r\n\r\n"),
        },
        {
                "aws-crt",
                "GET",
                "/bucket/a%20b%2Bc",
                "Host: 127.0.0.1:19802\n"
                "Range: bytes=0-5242879\n"
                "X-Amz-Date: 20261121T044806Z\n"
                "x-amz-content-sha256: UNSIGNED-PAYLOAD\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature=a0354bf0dd40ec7eef"
                "2adcda90995b9b780eefc8b44c2977d28bf332b1772013\n",
                BODY(""),
        },
        {
                "aws-sdk-go-v2",
                "POST",
                "/bucket?delete=",
                "Host: 127.0.0.1:19801\n"
                "Content-Length: 253\n"
                "Accept-Encoding: identity\n"
                "Amz-Sdk-Invocation-Id: 54fe13cb-6da3-4ea6-988e-7c545a04f24c\n"
                "Amz-Sdk-Request: attempt=1; max=3\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=accept-encoding;amz-sdk-invocation-id;amz-sdk-request;content-length;con"
                "tent-type;host;x-amz-checksum-crc32;x-amz-content-sha256;x-amz-date, Signature=d49061f4211185"
                "02449655496a25e4420e58ecd0a122924b601206946cd42c4a\n"
                "Content-Type: application/xml\n"
                "X-Amz-Checksum-Crc32: zaps6A==\n"
                "X-Amz-Content-Sha256: 3774c4ea447c87f69445081fc02e9010881ad03f082617e6d9e2d7a60df8fa77\n"
                "X-Amz-Date: 20261121T044501Z\n",
                BODY("<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Object><Key>a&amp;b&#xD;&#xA;&#x9;"
                " \xc3\xbc </Key></Object><Object><ETag>&#34;x&#34;</ETag><Key>k2</Key><LastModifiedTime>Tue, "
                "14 Nov 2023 22:13:20 GMT</LastModifiedTime><Size>5</Size></Object></Delete>"),
        },
        {
                "aws-sdk-go-v2",
                "POST",
                "/bucket/d?uploadId=u%2B%2F%3D",
                "Host: 127.0.0.1:19801\n"
                "Content-Length: 234\n"
                "Accept-Encoding: identity\n"
                "Amz-Sdk-Invocation-Id: 671a7bc0-c89f-420f-914c-ddcc8b37fd31\n"
                "Amz-Sdk-Request: attempt=1; max=3\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=accept-encoding;amz-sdk-invocation-id;amz-sdk-request;content-length;con"
                "tent-type;host;x-amz-content-sha256;x-amz-date, Signature=6d71befd5ec43cb4a45cfa3ab48b2aa1660"
                "6970c305aa40a27b2e54e6087a04e\n"
                "Content-Type: application/xml\n"
                "X-Amz-Content-Sha256: 26894663121f39ed4ac8a761d00e2fe6e21aba6fa63eb435080e67b5b25e762e\n"
                "X-Amz-Date: 20261121T044501Z\n",
                BODY("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Part><ChecksumCRC"
                "32C>AAAAAA==</ChecksumCRC32C><ETag>&#34;5d41402abc4b2a76b9719d911017c592&#34;</ETag><PartNumb"
                "er>1</PartNumber></Part></CompleteMultipartUpload>"),
        },
        {
                "aws-sdk-go-v2",
                "PUT",
                "/bucket/plain?x-id=PutObject",
                "Host: 127.0.0.1:19801\n"
                "Content-Length: 5\n"
                "Accept-Encoding: identity\n"
                "Amz-Sdk-Invocation-Id: a7fe175a-0881-4ed9-9599-6d1040cde5be\n"
                "Amz-Sdk-Request: attempt=1; max=3\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=accept-encoding;amz-sdk-invocation-id;amz-sdk-request;content-length;con"
                "tent-type;host;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-meta-u, Signature=0e4a509da"
                "943be7d248a83cedefc9210f24aaf5f6831755c9a900e502ce13949\n"
                "Content-Type: application/octet-stream\n"
                "X-Amz-Content-Sha256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"
                "X-Amz-Date: 20261121T044500Z\n"
                "X-Amz-Meta-A: x  y\n"
                "X-Amz-Meta-U: \xc3\xa9\n",
                BODY("hello"),
        },
        {
                "aws-sdk-go-v2",
                "PUT",
                "/bucket/plain?x-id=PutObject",
                "Host: 127.0.0.1:19802\n"
                "Content-Length: 5\n"
                "Accept-Encoding: identity\n"
                "Amz-Sdk-Invocation-Id: 5ab0af80-774c-47cf-aa19-220d4f6a5e18\n"
                "Amz-Sdk-Request: attempt=1; max=3\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=accept-encoding;amz-sdk-invocation-id;amz-sdk-request;content-length;con"
                "tent-type;host;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-meta-u, Signature=c7de9c40c"
                "46d6f453611a9bbb6ce9f8e2e25b3d43886ca9074af54d8b46b53ff\n"
                "Content-Type: application/octet-stream\n"
                "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD\n"
                "X-Amz-Date: 20261121T044501Z\n"
                "X-Amz-Meta-A: x  y\n"
                "X-Amz-Meta-U: \xc3\xa9\n",
                BODY("hello"),
        },
        {
                "aws-sdk-go-v2",
                "PUT",
                "/bucket/a%20b%2Bc%2520?x-id=PutObject",
                "Host: 127.0.0.1:19801\n"
                "Content-Length: 5\n"
                "Accept-Encoding: identity\n"
                "Amz-Sdk-Invocation-Id: 1002f6d8-355d-404a-923b-ce9e6226b9f4\n"
                "Amz-Sdk-Request: attempt=1; max=3\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=accept-encoding;amz-sdk-invocation-id;amz-sdk-request;content-length;con"
                "tent-type;host;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-meta-u, Signature=3841470d1"
                "eb2027a20a94fe7a0b1ca8037d3523eb2c6934cc103d65214f40e7a\n"
                "Content-Type: application/octet-stream\n"
                "X-Amz-Content-Sha256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"
                "X-Amz-Date: 20261121T044500Z\n"
                "X-Amz-Meta-A: x  y\n"
                "X-Amz-Meta-U: \xc3\xa9\n",
                BODY("hello"),
        },
        {
                "aws-sdk-go-v2",
                "PUT",
                "/bucket/a%20b%2Bc%2520?x-id=PutObject",
                "Host: 127.0.0.1:19802\n"
                "Content-Length: 5\n"
                "Accept-Encoding: identity\n"
                "Amz-Sdk-Invocation-Id: 6c029432-7032-43ab-9a25-b31c962b9648\n"
                "Amz-Sdk-Request: attempt=1; max=3\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=accept-encoding;amz-sdk-invocation-id;amz-sdk-request;content-length;con"
                "tent-type;host;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-meta-u, Signature=053d8375a"
                "9492072e09bd0b03cedb2c6adadc2d1fe3cd2c7fe19884fa31a9f85\n"
                "Content-Type: application/octet-stream\n"
                "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD\n"
                "X-Amz-Date: 20261121T044501Z\n"
                "X-Amz-Meta-A: x  y\n"
                "X-Amz-Meta-U: \xc3\xa9\n",
                BODY("hello"),
        },
        {
                "aws-sdk-java v2",
                "POST",
                "/bucket?delete",
                "amz-sdk-invocation-id: 22ab56be-b362-1266-d448-01c5b3b55453\n"
                "amz-sdk-request: attempt=1; max=1\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=amz-sdk-invocation-id;amz-sdk-request;content-length;content-type;host;x"
                "-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-sdk-checksum-algorithm, Signature=d"
                "04987005fdab8f3263bf84abd0ef0ce880eedbe47f7fe772901ce64421dab7c\n"
                "Content-Type: application/xml\n"
                "x-amz-checksum-crc32: 95Qt9g==\n"
                "x-amz-content-sha256: UNSIGNED-PAYLOAD\n"
                "X-Amz-Date: 20261121T044826Z\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "Host: 127.0.0.1:19802\n"
                "Content-Length: 163\n",
                BODY("<?xml version=\"1.0\" encoding=\"UTF-8\"?><Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03"
                "-01/\"><Object><Key>a&amp;b&#x0D;&#x0A;\x09 &lt;\xc3\xbc&gt; </Key></Object></Delete>"),
        },
        {
                "aws-sdk-java v2",
                "POST",
                "/bucket/d?uploadId=u%2B%2F%3D",
                "amz-sdk-invocation-id: a82add10-2930-0fc5-7259-efbbec36c448\n"
                "amz-sdk-request: attempt=1; max=1\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=amz-sdk-invocation-id;amz-sdk-request;content-length;content-type;host;x"
                "-amz-content-sha256;x-amz-date, Signature=ff62e485c110c09f5a4ec7c054659f288463f2d2e93bb5cf356"
                "4a1127af2033c\n"
                "Content-Type: application/xml\n"
                "x-amz-content-sha256: UNSIGNED-PAYLOAD\n"
                "X-Amz-Date: 20261121T044826Z\n"
                "Host: 127.0.0.1:19802\n"
                "Content-Length: 272\n",
                BODY("<?xml version=\"1.0\" encoding=\"UTF-8\"?><CompleteMultipartUpload xmlns=\"http://s3.amazonaw"
                "s.com/doc/2006-03-01/\"><Part><ETag>&quot;5d41402abc4b2a76b9719d911017c592&quot;</ETag><Check"
                "sumCRC32>AAAAAA==</ChecksumCRC32><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>"),
        },
        {
                "aws-sdk-java v2",
                "POST",
                "/bucket?delete",
                "amz-sdk-invocation-id: acc80aff-5042-3233-1e28-d3577d3c5fd0\n"
                "amz-sdk-request: attempt=1; max=1\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=amz-sdk-invocation-id;amz-sdk-request;content-length;content-type;host;x"
                "-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-sdk-checksum-algorithm, Signature=1"
                "65d1befb845510e66d2b6e44f46fe72680dd30c4b2f0432f643e648d056492a\n"
                "Content-Type: application/xml\n"
                "x-amz-checksum-crc32: 95Qt9g==\n"
                "x-amz-content-sha256: 661089463ecc176f97535154e5af128a52c7f1efd0ea7a61db8798aaee222d5d\n"
                "X-Amz-Date: 20261121T044825Z\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "Host: 127.0.0.1:19801\n"
                "Content-Length: 163\n",
                BODY("<?xml version=\"1.0\" encoding=\"UTF-8\"?><Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03"
                "-01/\"><Object><Key>a&amp;b&#x0D;&#x0A;\x09 &lt;\xc3\xbc&gt; </Key></Object></Delete>"),
        },
        {
                "aws-sdk-java v2",
                "POST",
                "/bucket/d?uploadId=u%2B%2F%3D",
                "amz-sdk-invocation-id: 31ff8ade-ad82-41e0-3546-415598a684b3\n"
                "amz-sdk-request: attempt=1; max=1\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=amz-sdk-invocation-id;amz-sdk-request;content-length;content-type;host;x"
                "-amz-content-sha256;x-amz-date, Signature=3f7cad55932ac1e75d4e7c796c21264441db3dd4696b5068249"
                "e67a151461518\n"
                "Content-Type: application/xml\n"
                "x-amz-content-sha256: 881accf2877794e1155318314a54e6b1267c618d5e501f34ca4f24cb4d323522\n"
                "X-Amz-Date: 20261121T044825Z\n"
                "Host: 127.0.0.1:19801\n"
                "Content-Length: 272\n",
                BODY("<?xml version=\"1.0\" encoding=\"UTF-8\"?><CompleteMultipartUpload xmlns=\"http://s3.amazonaw"
                "s.com/doc/2006-03-01/\"><Part><ETag>&quot;5d41402abc4b2a76b9719d911017c592&quot;</ETag><Check"
                "sumCRC32>AAAAAA==</ChecksumCRC32><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>"),
        },
        {
                "aws-sdk-java v2",
                "PUT",
                "/bucket/plain",
                "amz-sdk-invocation-id: a08a4c22-dc24-416c-8ca2-7f23d66d8835\n"
                "amz-sdk-request: attempt=1; max=1\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=amz-sdk-invocation-id;amz-sdk-request;content-encoding;content-length;co"
                "ntent-type;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-meta-a;x-a"
                "mz-sdk-checksum-algorithm;x-amz-trailer, Signature=36b9710c274355eca524ca78277cf802d8737c8d59"
                "28181bc071414f581a7aaf\n"
                "Content-Encoding: aws-chunked\n"
                "Content-Type: text/plain; charset=UTF-8\n"
                "x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\n"
                "X-Amz-Date: 20261121T044825Z\n"
                "x-amz-decoded-content-length: 5\n"
                "x-amz-meta-a: x  y\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "x-amz-trailer: x-amz-checksum-crc32\n"
                "Host: 127.0.0.1:19802\n"
                "Content-Length: 46\n",
                BODY("5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n"),
        },
        {
                "aws-sdk-java v2",
                "PUT",
                "/bucket/a%20b%2Bc%2520",
                "amz-sdk-invocation-id: 8429ec29-5780-e3a5-3507-128a04893fdd\n"
                "amz-sdk-request: attempt=1; max=1\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=amz-sdk-invocation-id;amz-sdk-request;content-encoding;content-length;co"
                "ntent-type;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-meta-a;x-a"
                "mz-sdk-checksum-algorithm;x-amz-trailer, Signature=6ab06dab9e4ad492504d4edcd52567b720df696339"
                "45dbf19d51715d0eeb0804\n"
                "Content-Encoding: aws-chunked\n"
                "Content-Type: text/plain; charset=UTF-8\n"
                "x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\n"
                "X-Amz-Date: 20261121T044826Z\n"
                "x-amz-decoded-content-length: 5\n"
                "x-amz-meta-a: x  y\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "x-amz-trailer: x-amz-checksum-crc32\n"
                "Host: 127.0.0.1:19802\n"
                "Content-Length: 46\n",
                BODY("5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n"),
        },
        {
                "aws-sdk-js v3",
                "POST",
                "/bucket/?delete=",
                "content-type: application/xml\n"
                "content-length: 317\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "x-amz-checksum-crc32: l6brOw==\n"
                "x-amz-user-agent: aws-sdk-js/3.1168.0\n"
                "host: 127.0.0.1:19801\n"
                "amz-sdk-invocation-id: 545be381-e3bb-49f7-9a91-68956c1aa74b\n"
                "amz-sdk-request: attempt=1; max=1\n"
                "x-amz-date: 20261121T044501Z\n"
                "x-amz-content-sha256: c7590b70db9ed2e205dbd45c18eb397229ff4a539fadfa76564950a59b9f53e1\n"
                "authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=amz-sdk-invocation-id;amz-sdk-request;content-length;content-type;host;x"
                "-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-sdk-checksum-algorithm;x-amz-user-a"
                "gent, Signature=0e150010508266cb53fb15b3814c059ccad37fd5f87c7e3ae766ca1672e9929f\n",
                BODY("<?xml version=\"1.0\" encoding=\"UTF-8\"?><Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03"
                "-01/\"><Object><Key>a&amp;b&#x0D;&#x0A;\x09 &lt;\xc3\xbc&gt; </Key></Object><Object><Key>k</K"
                "ey><ETag>&quot;e&quot;</ETag><LastModifiedTime>Tue, 14 Nov 2023 22:13:20 GMT</LastModifiedTim"
                "e><Size>4</Size></Object><Quiet>true</Quiet></Delete>"),
        },
        {
                "aws-sdk-js v3",
                "POST",
                "/bucket/k?uploadId=u%2B%2F%3D",
                "content-type: application/xml\n"
                "content-length: 272\n"
                "x-amz-user-agent: aws-sdk-js/3.1168.0\n"
                "host: 127.0.0.1:19801\n"
                "amz-sdk-invocation-id: 01dd9957-df56-4cc6-99bf-8b6182f1e20a\n"
                "amz-sdk-request: attempt=1; max=1\n"
                "x-amz-date: 20261121T044501Z\n"
                "x-amz-content-sha256: 881accf2877794e1155318314a54e6b1267c618d5e501f34ca4f24cb4d323522\n"
                "authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=amz-sdk-invocation-id;amz-sdk-request;content-length;content-type;host;x"
                "-amz-content-sha256;x-amz-date;x-amz-user-agent, Signature=32c05a9e80f00f04897b800eba0f534d57"
                "583ea0b6534a6dea3361fbc4f08729\n",
                BODY("<?xml version=\"1.0\" encoding=\"UTF-8\"?><CompleteMultipartUpload xmlns=\"http://s3.amazonaw"
                "s.com/doc/2006-03-01/\"><Part><ETag>&quot;5d41402abc4b2a76b9719d911017c592&quot;</ETag><Check"
                "sumCRC32>AAAAAA==</ChecksumCRC32><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>"),
        },
        {
                "aws-sdk-js v3",
                "PUT",
                "/bucket/plain?x-id=PutObject",
                "x-amz-meta-a: x  y\n"
                "x-amz-meta-b: z\n"
                "content-type: application/octet-stream\n"
                "content-length: 5\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "x-amz-checksum-crc32: NhCmhg==\n"
                "x-amz-user-agent: aws-sdk-js/3.1168.0\n"
                "host: 127.0.0.1:19801\n"
                "amz-sdk-invocation-id: 25317af0-c2f2-410e-9ff0-cc90250a9c33\n"
                "amz-sdk-request: attempt=1; max=1\n"
                "x-amz-date: 20261121T044501Z\n"
                "x-amz-content-sha256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"
                "authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=amz-sdk-invocation-id;amz-sdk-request;content-length;content-type;host;x"
                "-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-meta-b;x-amz-sdk-check"
                "sum-algorithm;x-amz-user-agent, Signature=d144c3a41189d369c2e346288d451d7d6b10e0e2b6b1a9707b0"
                "3689dd951e365\n",
                BODY("hello"),
        },
        {
                "aws-sdk-js v3",
                "PUT",
                "/bucket/a%20b%2Bc%2520?x-id=PutObject",
                "x-amz-meta-a: x  y\n"
                "x-amz-meta-b: z\n"
                "content-type: application/octet-stream\n"
                "content-length: 5\n"
                "x-amz-sdk-checksum-algorithm: CRC32\n"
                "x-amz-checksum-crc32: NhCmhg==\n"
                "x-amz-user-agent: aws-sdk-js/3.1168.0\n"
                "host: 127.0.0.1:19801\n"
                "amz-sdk-invocation-id: 3c8bd302-bc4d-4519-b9d1-c19d8284026f\n"
                "amz-sdk-request: attempt=1; max=1\n"
                "x-amz-date: 20261121T044501Z\n"
                "x-amz-content-sha256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"
                "authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=amz-sdk-invocation-id;amz-sdk-request;content-length;content-type;host;x"
                "-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-meta-b;x-amz-sdk-check"
                "sum-algorithm;x-amz-user-agent, Signature=bc4d14a1e44cdec624f621a373b86823b16bd9a693c25aac994"
                "655c5fe948139\n",
                BODY("hello"),
        },
        {
                "aws-sdk-js v3",
                "GET",
                "/bucket/a%20b?response-content-type=a%2Fb%3B%20c%3Dd%20e%2Bf&x-id=GetObject",
                "range: bytes=0-1\n"
                "x-amz-checksum-mode: ENABLED\n"
                "x-amz-user-agent: aws-sdk-js/3.1168.0\n"
                "host: 127.0.0.1:19801\n"
                "amz-sdk-invocation-id: 17ab670c-e7c7-4f37-a40e-085deb517b7d\n"
                "amz-sdk-request: attempt=1; max=1\n"
                "x-amz-date: 20261121T044501Z\n"
                "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
                "authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=amz-sdk-invocation-id;amz-sdk-request;host;range;x-amz-checksum-mode;x-a"
                "mz-content-sha256;x-amz-date;x-amz-user-agent, Signature=c6686243f37af4de4578be2d242c19c47566"
                "d0043044c3a248a411b0c08dff12\n",
                BODY(""),
        },
        {
                "aws-sdk-js v3",
                "GET",
                "/bucket/?delimiter=%2F&list-type=2&prefix=a%20b%2B%2F%C3%BC~%2A%27%28%29%21",
                "x-amz-user-agent: aws-sdk-js/3.1168.0\n"
                "host: 127.0.0.1:19801\n"
                "amz-sdk-invocation-id: cd678e85-e9dc-422e-b5a4-da1489760a66\n"
                "amz-sdk-request: attempt=1; max=1\n"
                "x-amz-date: 20261121T044501Z\n"
                "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
                "authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=amz-sdk-invocation-id;amz-sdk-request;host;x-amz-content-sha256;x-amz-da"
                "te;x-amz-user-agent, Signature=b5b27f4bb354da55f2eaa291f4711c04ff578c286d5223484963449f5fc005"
                "e3\n",
                BODY(""),
        },
        {
                "minio-go",
                "POST",
                "/bucket/unknown%20length?uploadId=upl%2B%2F%3Did",
                "Host: 127.0.0.1:19801\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date, Signature=dec50bd5951"
                "861a4218762321539c4de75692f48ff89311dbfa77bb8b71f3e1f\n"
                "Content-Type: application/octet-stream\n"
                "X-Amz-Content-Sha256: cbe1a1675b0c9d2ef6851ec7643974ebaefdd4d9f3a9ec99c130863faeb98860\n"
                "X-Amz-Date: 20261121T044501Z\n",
                BODY("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Part><PartNumber>"
                "1</PartNumber><ETag>5d41402abc4b2a76b9719d911017c592</ETag></Part></CompleteMultipartUpload>"),
        },
        {
                "minio-go",
                "POST",
                "/bucket/?delete=",
                "Host: 127.0.0.1:19801\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=content-md5;host;x-amz-content-sha256;x-amz-date, Signature=42233ab69819"
                "a38a6fae3864f96ca88efd0a86606823eaec3a46fde61d1dbdda\n"
                "Content-Md5: +VDWGnjoRaAOAl0OMu0yxg==\n"
                "X-Amz-Content-Sha256: aa7c00e571c2f369d60f2f56570c8e839a24b9ef0ce8f1483b89a17e89e67f0c\n"
                "X-Amz-Date: 20261121T044501Z\n",
                BODY("<Delete><Quiet>false</Quiet><Object><Key>a&amp;b&lt;\xc3\xbc&gt;</Key></Object></Delete>"),
        },
        {
                "minio-go",
                "PUT",
                "/bucket/plain",
                "Host: 127.0.0.1:19801\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest,SignedHeaders=content-encoding;content-type;host;x-amz-content-sha256;x-amz-date;x-amz-"
                "decoded-content-length;x-amz-meta-a,Signature=3ae7c6f7dbd95e895008a90d26a2968c1f82446df9d06b3"
                "b8753359ad73ea0a7\n"
                "Content-Encoding: aws-chunked\n"
                "Content-Type: application/octet-stream\n"
                "X-Amz-Content-Sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\n"
                "X-Amz-Date: 20261121T044501Z\n"
                "X-Amz-Decoded-Content-Length: 5\n"
                "X-Amz-Meta-A: x  y\n",
                BODY("5;chunk-signature=6dcbbb174067322067a2f037edb86440416bfccbfa971a50a043d6056e4590b6\r\nhello\r"
                "\n0;chunk-signature=a4dd4e37958d651bf86fbe25de4f1c2f412a42b3262f55489bbcbb29685462ef\r\n\r\n"),
        },
        {
                "minio-go",
                "PUT",
                "/bucket/a%20b%2Bc%2520",
                "Host: 127.0.0.1:19801\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest,SignedHeaders=content-encoding;content-type;host;x-amz-content-sha256;x-amz-date;x-amz-"
                "decoded-content-length;x-amz-meta-a,Signature=587196725ac3117b65e478550b259ce27d833fe85651710"
                "7503a6b7f904308d4\n"
                "Content-Encoding: aws-chunked\n"
                "Content-Type: application/octet-stream\n"
                "X-Amz-Content-Sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\n"
                "X-Amz-Date: 20261121T044501Z\n"
                "X-Amz-Decoded-Content-Length: 5\n"
                "X-Amz-Meta-A: x  y\n",
                BODY("5;chunk-signature=ad5a26c5f1263a5bdd4fb64ce95bff4d07c79c17832cfc5e3490f58c7b41f74a\r\nhello\r"
                "\n0;chunk-signature=f400b96a4d185062d94895edd1a83a28abfbdb55926b2717ed262efb2078dbe6\r\n\r\n"),
        },
        {
                "minio-go",
                "PUT",
                "/bucket/plain",
                "Host: 127.0.0.1:19802\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date;x-amz-meta-a, Signatur"
                "e=cbcc2b761a2b896827c75318e069c3d1ebdf40258b450eb0498cededa3a568ce\n"
                "Content-Type: application/octet-stream\n"
                "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD\n"
                "X-Amz-Date: 20261121T044501Z\n"
                "X-Amz-Meta-A: x  y\n",
                BODY("hello"),
        },
        {
                "minio-go",
                "PUT",
                "/bucket/a%20b%2Bc%2520",
                "Host: 127.0.0.1:19802\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date;x-amz-meta-a, Signatur"
                "e=76b0369bb3f58ffda02def4874f14aa01b6ffcdfe6d8c49a0eb4a766ff3db49e\n"
                "Content-Type: application/octet-stream\n"
                "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD\n"
                "X-Amz-Date: 20261121T044501Z\n"
                "X-Amz-Meta-A: x  y\n",
                BODY("hello"),
        },
        {
                "rclone",
                "POST",
                "/bucket/notfound%20part?uploadId=upl%2B%2F%3Did",
                "Host: 127.0.0.1:19801\n"
                "Content-Length: 381\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=content-length;host;x-amz-content-sha256;x-amz-date, Signature=6ad04a00b"
                "fee1ad9078e2ef56b540f2e2e82287d2c6f447aa80683e4bf2fbdce\n"
                "X-Amz-Content-Sha256: 49d30f06bde71f61deb8005cfa7ae7523d22d40d12507fd6d42a391c08db1269\n"
                "X-Amz-Date: 20261121T044753Z\n",
                BODY("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Part><ETag>&#34;5"
                "d41402abc4b2a76b9719d911017c592&#34;</ETag><PartNumber>1</PartNumber></Part><Part><PartNumber"
                ">2</PartNumber><ETag>&#34;5d41402abc4b2a76b9719d911017c592&#34;</ETag></Part><Part><ETag>&#34"
                ";5d41402abc4b2a76b9719d911017c592&#34;</ETag><PartNumber>3</PartNumber></Part></CompleteMulti"
                "partUpload>"),
        },
        {
                "rclone",
                "HEAD",
                "/bucket/dir",
                "Host: 127.0.0.1:19801\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=7d7c86f7daef8d3ecda39fba"
                "8c0d54ed6b76e9a0da64e018d4dccf6d9b19149a\n"
                "X-Amz-Content-Sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
                "X-Amz-Date: 20261121T044752Z\n",
                BODY(""),
        },
        {
                "rclone",
                "GET",
                "/bucket?delimiter=%2F&max-keys=1000&prefix=a%20b%2B%C3%BC%2F",
                "Host: 127.0.0.1:19801\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=fe2332b4fc87d11c1f52f11c"
                "311a4c17b2116f4d76c0a955eb0aa5e28b4c348d\n"
                "X-Amz-Content-Sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
                "X-Amz-Date: 20261121T044752Z\n",
                BODY(""),
        },
        {
                "rclone",
                "HEAD",
                "/bucket/a%20b",
                "Host: 127.0.0.1:19801\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=e1175098ae132326ac02ccde"
                "8dc2832dc5c736722d30a3945d22ef01944b8f6b\n"
                "X-Amz-Content-Sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
                "X-Amz-Date: 20261121T044752Z\n",
                BODY(""),
        },
        {
                "rclone",
                "PUT",
                "/bucket",
                "Host: 127.0.0.1:19801\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=host;x-amz-acl;x-amz-content-sha256;x-amz-date, Signature=db65664d502f22"
                "e417d970461dea4bc723747f62523b19446b3739665598913b\n"
                "X-Amz-Acl: private\n"
                "X-Amz-Content-Sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
                "X-Amz-Date: 20261121T044753Z\n",
                BODY(""),
        },
        {
                "rclone",
                "POST",
                "/bucket/notfound%20part?uploads=",
                "Host: 127.0.0.1:19801\n"
                "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/s3/aws4_re"
                "quest, SignedHeaders=content-type;host;x-amz-acl;x-amz-content-sha256;x-amz-date;x-amz-meta-m"
                "d5chksum;x-amz-meta-mtime, Signature=ef8f2d684407fc696083c004d81c80d4d297afd5daa5b783ed09e238"
                "1e85126a\n"
                "Content-Type: application/octet-stream\n"
                "X-Amz-Acl: private\n"
                "X-Amz-Content-Sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
                "X-Amz-Date: 20261121T044753Z\n"
                "X-Amz-Meta-Md5chksum: AsR7rFsoA/mizL9Xd/7Ocg==\n"
                "X-Amz-Meta-Mtime: 1795236401.601539292\n",
                BODY(""),
        },
};

#endif
