"""libmillrace (through its Python package) against the daemon, with a network between them that cuts, damages and refuses."""
import random
import threading
import time

import pytest

import millrace
from tests.conftest import SEED
from tests.support.proxy import Fault, Proxy

MIB = 1 << 20
pytestmark = pytest.mark.daemon


def client_of(store, proxy, **settings):
    return millrace.Client(proxy.endpoint, access_key=store.access_key, secret_key=store.secret_key, **{"attempts": 20, **settings})


def every(nth, what, method="GET"):
    """This fault to each nth request of a method."""
    count = [0]

    def fault(request):
        if request.method != method:
            return None
        count[0] += 1
        return what() if count[0] % nth == 0 else None
    return fault


def test_cut_connections_are_continued(store, s3, bucket, rng):
    data = rng.randbytes(40 * MIB)
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    with Proxy(store.host, store.port, every(2, lambda: Fault(cut=rng.randrange(8 * MIB)))) as proxy, client_of(store, proxy) as client:
        into = bytearray(len(data))
        result = client.get_into(bucket, "k", into)
        assert into == data and result.object_verified
        into = bytearray(20 * MIB)
        client.get_into(bucket, "k", into, offset=5, length=len(into))
        assert into == data[5:5 + len(into)]
        assert proxy.faults > 3


def test_answers_of_refusal_are_tried_again(store, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"at last")
    kinds = [Fault(status=503, code="SlowDown"), Fault(status=500, code="InternalError"), Fault(hangup=True)]
    with Proxy(store.host, store.port, lambda request: kinds.pop() if kinds else None) as proxy, client_of(store, proxy) as client:
        assert client.get(bucket, "k") == b"at last"
        assert proxy.requests == 4
    with Proxy(store.host, store.port, lambda request: Fault(status=503, code="SlowDown")) as proxy, \
            client_of(store, proxy, attempts=3) as client:
        with pytest.raises(millrace.Busy):
            client.get(bucket, "k")
        assert proxy.requests == 3


def test_wrong_bytes_are_got_again(store, s3, bucket, rng):
    data = rng.randbytes(900_000)
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    faults = [Fault(flip=400_000), Fault(flip=-1), Fault(flip=0)]
    with Proxy(store.host, store.port, lambda request: faults.pop() if faults else None) as proxy, client_of(store, proxy) as client:
        into = bytearray(500_000)
        result = client.get_into(bucket, "k", into, offset=7, length=len(into))
        assert into == data[7:500_007] and result.wire_verified
        assert proxy.faults == 3 and proxy.requests == 4
    with Proxy(store.host, store.port, lambda request: Fault(flip=5)) as proxy, client_of(store, proxy, attempts=3) as client:
        with pytest.raises(millrace.ChecksumMismatch):
            client.get_into(bucket, "k", bytearray(1000), length=1000)


def test_wrong_bytes_of_large_answers_are_got_again(store, s3, bucket, rng):
    data = rng.randbytes(40 * MIB)
    with Proxy(store.host, store.port, every(3, lambda: Fault(flip=rng.choice([0, 100_000, -5, -1])))) as proxy, \
            client_of(store, proxy) as client:
        client.put(bucket, "k", data)
        into = bytearray(len(data))
        result = client.get_into(bucket, "k", into)
        assert into == data and result.wire_verified and result.object_verified
        into = bytearray(20 * MIB)
        result = client.get_into(bucket, "k", into, offset=3, length=len(into))
        assert into == data[3:3 + len(into)] and result.wire_verified
        assert proxy.faults > 1


def test_an_object_replaced_in_the_middle_is_one_object(store, s3, bucket, rng):
    old, new = rng.randbytes(40 * MIB), rng.randbytes(40 * MIB)
    s3.put_object(Bucket=bucket, Key="k", Body=old)
    gets = [0]

    def replace(request):
        gets[0] += request.method == "GET"
        if request.method == "GET" and gets[0] == 3:
            s3.put_object(Bucket=bucket, Key="k", Body=new)
    with Proxy(store.host, store.port, replace) as proxy, client_of(store, proxy, parallel=2) as client:
        into = bytearray(40 * MIB)
        result = client.get_into(bucket, "k", into)
        assert into == new and result.restarts >= 1 and result.object_verified
        gets[0] = 0
        with pytest.raises(millrace.ObjectChanged):
            client.get_into(bucket, "k", into, if_match=result.etag[::-1])


def test_uploads_go_through_a_bad_network(store, s3, bucket, rng):
    data = rng.randbytes(40 * MIB)
    with Proxy(store.host, store.port, every(3, lambda: Fault(cut_request=rng.randrange(8 * MIB)), "PUT")) as proxy, \
            client_of(store, proxy) as client:
        client.put(bucket, "k", data)
        with client.open(f"millrace://{bucket}/file", "wb", part_size=5 * MIB) as file:
            file.write(data)
        assert proxy.faults >= 3
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == data
    assert s3.get_object(Bucket=bucket, Key="file")["Body"].read() == data
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_an_upload_that_cannot_be_completed_is_aborted(store, s3, bucket, rng):
    def fault(request):
        return Fault(status=400, code="InvalidPart") if request.method == "POST" and "uploadId=" in request.target else None
    with Proxy(store.host, store.port, fault) as proxy, client_of(store, proxy) as client:
        with pytest.raises(millrace.MillraceError) as failure:
            client.put(bucket, "k", rng.randbytes(20 * MIB))
        assert failure.value.s3_code == "InvalidPart"
        assert not client.exists(bucket, "k")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_credentials_that_expire_are_replaced(store, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    asked, expired = [], [True]

    def source():
        asked.append(time.time())
        return {"access_key": store.access_key, "secret_key": store.secret_key, "expires": time.time() + 3600}

    def fault(request):
        return Fault(status=400, code="ExpiredToken") if expired and expired.pop() else None
    with Proxy(store.host, store.port, fault) as proxy, millrace.Client(proxy.endpoint, credentials=source) as client:
        assert client.get(bucket, "k") == b"x"
        assert client.get(bucket, "k") == b"x"
        assert len(asked) == 2


def test_a_silent_network_is_given_up(store, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=bytes(100))
    release = threading.Event()

    def fault(request):
        release.wait(60)
    with Proxy(store.host, store.port, fault) as proxy, client_of(store, proxy, attempts=1, stall_timeout=1) as client:
        with pytest.raises(TimeoutError):
            client.get(bucket, "k")
        release.set()


def test_whatever_happens_bytes_are_right_or_there_are_none(store, s3, bucket):
    """Random reads and writes through random faults: what succeeds is right."""
    rng = random.Random(SEED)
    objects = {f"k{i}": rng.randbytes(rng.choice([0, 1, 5_000, 900_000, 9 * MIB])) for i in range(8)}
    for key, data in objects.items():
        s3.put_object(Bucket=bucket, Key=key, Body=data)

    def fault(request):
        if rng.random() > 0.3:
            return None
        return rng.choice([Fault(cut=rng.randrange(1 * MIB)), Fault(flip=rng.randrange(2000)), Fault(hangup=True),
                           Fault(status=503, code="SlowDown"), Fault(cut_request=rng.randrange(100_000))])
    good = 0
    with Proxy(store.host, store.port, fault) as proxy, client_of(store, proxy, attempts=8) as client:
        for _ in range(150):
            key = rng.choice(list(objects))
            data = objects[key]
            start = rng.randrange(len(data)) if data else 0
            length = min(rng.choice([1, 1000, 500_000]), len(data) - start)
            try:
                if rng.random() < 0.2:
                    data = rng.randbytes(rng.choice([10, 200_000]))
                    objects[key] = data
                    client.put(bucket, key, data)
                elif rng.random() < 0.5 or length == 0:
                    assert client.get(bucket, key) == data, (SEED, key)
                else:
                    assert client.get(bucket, key, offset=start, length=length) == data[start:start + length], (SEED, key, start, length)
                good += 1
            except millrace.MillraceError:
                objects[key] = s3.get_object(Bucket=bucket, Key=key)["Body"].read()  # a write that failed may be there, or not
    assert good > 100, (SEED, good)
