"""A daemon that stood still while clients gave up: what they had asked for is not carried out when it goes on, since they may have asked again elsewhere."""
import re
import signal
import ssl
import time
from pathlib import Path

import pytest

from tests.conftest import make_client
from tests.integration.test_tls import make_pair
from tests.support.daemon import PATIENCE, Daemon
from tests.support.s3raw import UNSIGNED, RawClient

pytestmark = pytest.mark.daemon
COMPLETE = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part></CompleteMultipartUpload>"


@pytest.fixture
def place(request, tmp_path):
    """(daemon, S3 client, raw client)"""
    options, tls, verify = [], None, None
    if request.param:  # TLS
        cert, key = make_pair(tmp_path, "ec")
        options, tls, verify = ["--tls-cert", str(cert), "--tls-key", str(key)], ssl.create_default_context(cafile=str(cert)), str(cert)
    daemon = Daemon(drives=1, options=options)
    daemon.tls = tls is not None
    with daemon.start():
        s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, verify=verify)
        s3.create_bucket(Bucket="late")
        yield daemon, s3, RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key, tls=tls)


def changes(s3):
    """Requests that would be noticed, (method, path, more), and what says that none was carried out."""
    for key in ("kept", "old"):
        s3.put_object(Bucket="late", Key=key, Body=b"as it was")
    upload = s3.create_multipart_upload(Bucket="late", Key="parts")["UploadId"]
    etag = s3.upload_part(Bucket="late", Key="parts", UploadId=upload, PartNumber=1, Body=b"part")["ETag"]
    requests = [("PUT", "/late/kept", dict(body=b"n" * 700, payload=UNSIGNED)), ("PUT", "/late/new", dict(body=b"n" * 300_000, payload=UNSIGNED)),
                ("PUT", "/late/copy", dict(headers={"x-amz-copy-source": "/late/kept"})), ("DELETE", "/late/old", {}), ("PUT", "/later", {}),
                ("POST", "/late/parts", dict(query=[("uploadId", upload)], body=COMPLETE.format(etag).encode()))]

    def untouched():
        assert s3.get_object(Bucket="late", Key="kept")["Body"].read() == b"as it was"
        assert [entry["Key"] for entry in s3.list_objects_v2(Bucket="late")["Contents"]] == ["kept", "old"]
        assert [entry["Name"] for entry in s3.list_buckets()["Buckets"]] == ["late"]
    return requests, untouched


def stand_still(daemon):
    daemon.signal(signal.SIGSTOP)
    daemon.wait_until(lambda: all(re.search(r"^State:\tT", status.read_text("ascii", "replace"), re.M)
                                  for status in Path(f"/proc/{daemon.process.pid}/task").glob("*/status")), 30, "to stand still")


@pytest.mark.parametrize("place", [False, True], ids=["plain", "tls"], indirect=True)
def test_what_was_given_up_is_not_carried_out(place):
    daemon, s3, raw = place
    requests, untouched = changes(s3)
    connections = [raw.connect(60 * PATIENCE) for _ in requests]
    for connection in connections:  # the daemon has each of them
        head, _ = raw.build("GET", "/late")
        connection.send(head)
        assert connection.answer().status == 200
    stand_still(daemon)
    try:
        for connection, (method, path, how) in zip(connections, requests):
            head, body = raw.build(method, path, **how)
            connection.send(head + body)
        for connection in connections:
            connection.close()
    finally:
        daemon.signal(signal.SIGCONT)
    for _ in range(10):
        untouched()
        time.sleep(0.1)
