"""The Python package millrace against the daemon."""
import array
import asyncio
import multiprocessing
import os
import pickle
import threading

import fsspec
import numpy
import pytest

import millrace
from millrace import Get

MIB = 1 << 20
pytestmark = [pytest.mark.daemon, pytest.mark.client]


def client_of(store, **settings):
    return millrace.Client(store.endpoint, region="us-east-1", access_key=store.access_key, secret_key=store.secret_key, **settings)


@pytest.fixture
def client(store):
    with client_of(store) as made:
        yield made


def test_put_get_head_list_delete(client, bucket, rng):
    data = rng.randbytes(100_000)
    put = client.put(bucket, "a/ü 1", data, content_type="text/x", metadata={"colour": "red"}, if_none_match=True)
    assert put.bytes == len(data)
    info = client.head(bucket, "a/ü 1")
    assert (info.size, info.etag, info.content_type, info.metadata) == (len(data), put.etag, "text/x", {"colour": "red"})
    assert client.get(bucket, "a/ü 1") == data
    assert client.get(bucket, "a/ü 1", offset=10, length=20) == data[10:30]
    assert client.get(bucket, "a/ü 1", offset=99_990) == data[-10:]
    assert client.get(bucket, "a/ü 1", suffix=7) == data[-7:]
    assert client.get(bucket, "a/ü 1", offset=99_990, length=100) == data[-10:]
    assert client.get(bucket, "a/ü 1", length=0) == b""
    client.copy(bucket, "a/ü 1", bucket, "b")
    assert [(entry.key, entry.size) for entry in client.list(bucket)] == [("a/ü 1", len(data)), ("b", len(data))]
    assert [entry.key for entry in client.list(bucket, delimiter="/") if entry.is_prefix] == ["a/"]
    client.delete(bucket, "b")
    assert not client.exists(bucket, "b")
    assert client.delete_many(bucket, ["a/ü 1", "never there"]) == []
    assert list(client.list(bucket)) == []


def test_large_objects_and_empty_ones(client, bucket, rng):
    data = rng.randbytes(40 * MIB + 3)
    assert "-" in client.put(bucket, "large", data).etag
    assert client.get(bucket, "large") == data
    into = bytearray(len(data))
    result = client.get_into(bucket, "large", into)
    assert into == data and result.bytes == len(data) and result.object_verified and result.transport == "tcp"
    assert client.get(bucket, "large", offset=5 * MIB, length=20 * MIB) == data[5 * MIB:25 * MIB]
    client.put(bucket, "empty", b"")
    assert client.get(bucket, "empty") == b""
    assert client.get_into(bucket, "empty", bytearray(5)).bytes == 0


def test_small_reads_are_verified_on_the_wire(client, bucket, rng):
    data = rng.randbytes(300_000)
    client.put(bucket, "k", data)
    result = client.get_into(bucket, "k", bytearray(100_000), offset=7, length=100_000)
    assert result.wire_verified and not result.object_verified
    result = client.get_into(bucket, "k", bytearray(300_000))
    assert result.wire_verified and result.object_verified


def test_listings_page(client, bucket):
    for i in range(25):
        client.put(bucket, f"k{i:02}", b"x")
    assert [entry.key for entry in client.list(bucket, page_size=10)] == [f"k{i:02}" for i in range(25)]
    assert [entry.key for entry in client.list(bucket, "k1", start_after="k17")] == ["k18", "k19"]


def test_versions(client, s3, bucket):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first, second = client.put(bucket, "d/k", b"1").version_id, client.put(bucket, "d/k", b"22").version_id
    client.delete(bucket, "d/k")
    client.put(bucket, "l", b"333")
    rows = [(entry.key, entry.version_id, entry.size, entry.latest, entry.marker) for entry in client.versions(bucket, page_size=2)]
    marker = rows[0][1]
    assert rows[:3] == [("d/k", marker, 0, True, True), ("d/k", second, 2, False, False), ("d/k", first, 1, False, False)]
    assert rows[3][0] == "l" and rows[3][2:] == (3, True, False) and len(rows) == 4
    assert [entry.key for entry in client.versions(bucket, delimiter="/")] == ["d/", "l"]

    async def asynchronously():
        async with millrace.AsyncClient(client) as store:
            return [(e.key, e.version_id, e.size, e.latest, e.marker) async for e in store.versions(bucket, page_size=3)]
    assert asyncio.run(asynchronously()) == rows
    client.copy(bucket, "d/k", bucket, "d/k", version_id=first)
    assert client.get(bucket, "d/k") == b"1" and client.get(bucket, "d/k", version_id=second) == b"22"
    client.delete(bucket, "d/k", version_id=second, bypass_governance=True)
    with pytest.raises(millrace.NotFound):
        client.head(bucket, "d/k", version_id=second)
    assert len(list(client.versions(bucket, "d/"))) == 3


def test_tags_and_sub_resources(client, bucket):
    client.put(bucket, "k", b"1")
    assert client.tags(bucket, "k") == client.tags(bucket) == {}
    client.set_tags(bucket, "k", {"a + b": "ü", "empty": ""})
    assert client.tags(bucket, "k") == {"a + b": "ü", "empty": ""}
    client.set_tags(bucket, None, {"owner": "me"})
    assert client.tags(bucket) == {"owner": "me"}
    client.set_tags(bucket, "k", {})
    assert client.tags(bucket, "k") == {}
    with pytest.raises(millrace.NotFound) as missing:
        client.sub_resource("GET", bucket, None, "lifecycle")
    assert missing.value.s3_code == "NoSuchLifecycleConfiguration"
    with pytest.raises(millrace.NotFound):
        client.tags(bucket, "none")
    client.sub_resource("PUT", bucket, None, "versioning", b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
    assert b"<Status>Enabled</Status>" in client.sub_resource("GET", bucket, None, "versioning")


def test_errors_are_what_they_say(client, store, bucket):
    with pytest.raises(FileNotFoundError) as missing:
        client.get(bucket, "nothing")
    assert isinstance(missing.value, millrace.NotFound) and missing.value.s3_code == "NoSuchKey" and missing.value.http_status == 404
    again = pickle.loads(pickle.dumps(missing.value))
    assert type(again) is millrace.NotFound and again.s3_code == "NoSuchKey"
    client.put(bucket, "k", b"12345")
    with pytest.raises(FileExistsError):
        client.put(bucket, "k", b"", if_none_match=True)
    with pytest.raises(millrace.TooLarge) as large:
        client.get_into(bucket, "k", bytearray(4))
    assert large.value.size == 5
    with pytest.raises(millrace.RangeError):
        client.get(bucket, "k", offset=5, length=1)
    with pytest.raises(millrace.ObjectChanged):
        client.get(bucket, "k", if_match="0123456789abcdef0123456789abcdef")
    with pytest.raises(millrace.TransportUnavailable):
        client.get_into(bucket, "k", bytearray(5), transport="rdma")
    with pytest.raises(PermissionError):
        millrace.Client(store.endpoint, access_key="AKIDNOBODY", secret_key="x").get(bucket, "k")
    with pytest.raises(ConnectionError):
        millrace.Client("http://127.0.0.1:1", access_key="a", secret_key="b", attempts=1).get(bucket, "k")
    with pytest.raises(ValueError):
        millrace.Client(transport="pigeon")
    with pytest.raises(millrace.MillraceError):
        millrace.Client("nonsense").head("b", "k")


class Dlpacked:
    """What has DLPack and nothing else."""

    def __init__(self, held):
        self.held = held

    def __dlpack__(self, **_):
        return self.held.__dlpack__()

    def __dlpack_device__(self):
        return self.held.__dlpack_device__()


class Tensor:
    """What the library asks a torch tensor for; the tests with torch itself are those of the loaders."""

    def __init__(self, held, device="cpu"):
        self.held = held
        self.device = type("Device", (), {"type": device})()

    def data_ptr(self):
        return self.held.ctypes.data

    def is_contiguous(self):
        return self.held.flags["C_CONTIGUOUS"]

    def numel(self):
        return self.held.size

    def element_size(self):
        return self.held.itemsize


def test_any_memory_is_filled_in_place(client, bucket):
    source = numpy.arange(1000, dtype="f8").reshape(10, 100)
    client.put(bucket, "k", source)
    for into, held in ((bytearray(8000), None), (array.array("d", bytes(8000)), None), (numpy.zeros((10, 100)), None),
                       (memoryview(bytearray(8000)), None), (Tensor(numpy.zeros((10, 100))), "held"), (Dlpacked(numpy.zeros((10, 100))), "held")):
        assert client.get_into(bucket, "k", into).bytes == 8000
        assert numpy.array_equal(numpy.frombuffer(getattr(into, held) if held else into, dtype="f8").reshape(10, 100), source)
    client.put(bucket, "t", Tensor(source))
    assert client.get(bucket, "t") == source.tobytes()
    for wrong, kind in ((numpy.zeros((100, 20))[:, ::2], ValueError), (Tensor(numpy.zeros((100, 20))[:, ::2]), ValueError), (bytes(8000), BufferError),
                        (Dlpacked(numpy.zeros((100, 20))[:, ::2]), ValueError), (Tensor(numpy.zeros(1000), "cuda"), TypeError), (5, TypeError)):
        with pytest.raises(kind):
            client.get_into(bucket, "k", wrong)


def test_a_batch_has_a_result_for_each(client, bucket, rng):
    data = rng.randbytes(2 * MIB)
    client.put(bucket, "k", data)
    mine = bytearray(100)
    gets = [Get(bucket, "k", i * 1000, 1000) for i in range(1500)]
    gets[3] = Get(bucket, "nothing", 0, 10)
    gets[4] = Get(bucket, "k", 3 * MIB, 10)
    gets[5] = Get(bucket, "k", 5, into=mine)
    gets[6] = Get(bucket, "k", 0, 0)
    gets[7] = Get(bucket, "k", suffix=9)
    results = client.get_batch(gets)
    assert len(results) == 1500
    for i, result in enumerate(results):
        if i == 3:
            assert isinstance(result.error, FileNotFoundError)
            with pytest.raises(FileNotFoundError):
                result.data
        elif i == 4:
            assert isinstance(result.error, millrace.RangeError)
        elif i == 5:
            assert isinstance(result.error, millrace.TooLarge) and result.size == len(data)
        elif i == 6:
            assert result.data == b""
        elif i == 7:
            assert result.data == data[-9:]
        else:
            assert result.data == data[i * 1000:(i + 1) * 1000] and result.wire_verified
    with pytest.raises(ValueError):
        client.get_batch([Get(bucket, "k")])


def test_the_pool_takes_back_what_nobody_holds(client, bucket):
    client.put(bucket, "k", bytes(range(256)) * 16)
    view = client.get_batch([Get(bucket, "k", 0, 4096)])[0].data
    for _ in range(50):  # what is held stays what it was
        client.get_batch([Get(bucket, "k", 1, 4000) for _ in range(200)])
    assert view == bytes(range(256)) * 16
    pool = client._handle().pool
    assert pool._held <= 32 * MIB
    client.close()
    assert view == bytes(range(256)) * 16


def test_threads_share_a_client(client, bucket, rng):
    data = rng.randbytes(200_000)
    client.put(bucket, "k", data)
    failures = []

    def work():
        for _ in range(30):
            if client.get(bucket, "k") != data:
                failures.append("other bytes")
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def in_child(client, bucket, pipe):
    pipe.send(client.get(bucket, "k"))


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_processes_open_their_own(client, bucket, method):
    client.put(bucket, "k", b"for all")
    assert client.get(bucket, "k") == b"for all"
    context = multiprocessing.get_context(method)
    here, there = context.Pipe()
    child = context.Process(target=in_child, args=(client, bucket, there))
    child.start()
    assert here.poll(60) and here.recv() == b"for all"
    child.join()
    assert child.exitcode == 0
    assert client.get(bucket, "k") == b"for all"


def test_asyncio(store, bucket, rng):
    data = rng.randbytes(3 * MIB)

    async def work():
        async with millrace.AsyncClient(client_of(store)) as client:
            await client.put(bucket, "k", data)
            assert await client.get(bucket, "k") == data
            assert await client.get(bucket, "k", offset=5, length=50) == data[5:55]
            assert await client.get(bucket, "k", suffix=5) == data[-5:]
            parts = await asyncio.gather(*(client.get(bucket, "k", offset=i * 1000, length=1000) for i in range(500)))
            assert b"".join(parts) == data[:500_000]
            results = await client.get_batch([Get(bucket, "k", i, 10) for i in range(100)] + [Get(bucket, "none", 0, 10)])
            assert all(result.data == data[i:i + 10] for i, result in enumerate(results[:-1]))
            assert isinstance(results[-1].error, FileNotFoundError)
            assert [entry.key async for entry in client.list(bucket)] == ["k"]
            with pytest.raises(FileNotFoundError):
                await client.head(bucket, "none")
            await client.copy(bucket, "k", bucket, "l")
            await client.delete(bucket, "k")
            assert [entry.key async for entry in client.list(bucket)] == ["l"]
            task = asyncio.ensure_future(client.get(bucket, "l"))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await client.get(bucket, "l") == data
    asyncio.run(work())


def test_readers(client, bucket, rng):
    data = rng.randbytes(30 * MIB + 11)
    client.put(bucket, "k", data)
    with client.open(f"millrace://{bucket}/k", block_size=MIB, read_ahead=6 * MIB) as file:
        assert file.size == len(data)
        assert file.read(10) == data[:10]
        blocks = [data[:10]]
        while block := file.read(333_333):
            blocks.append(block)
        assert b"".join(blocks) == data
        assert len(file._kept) <= 6
        for _ in range(50):
            at = rng.randrange(len(data))
            file.seek(at)
            assert file.tell() == at
            assert file.read(100_000) == data[at:at + 100_000]
        file.seek(-5, os.SEEK_END)
        assert file.read() == data[-5:] and file.read() == b""
        file.seek(0)
        assert file.readall() == data
    with pytest.raises(ValueError):
        file.read(1)
    with client.open(f"millrace://{bucket}/k") as file:
        file.read(1)
        client.put(bucket, "k", b"another")
        file.seek(20 * MIB)
        with pytest.raises(millrace.ObjectChanged):
            file.read(10)


def test_writers_make_objects_visible_when_they_are_closed(client, s3, bucket, rng):
    data = rng.randbytes(23 * MIB)
    file = client.open(f"millrace://{bucket}/k", "wb", part_size=5 * MIB, in_flight=2, content_type="text/y", metadata={"a": "b"})
    for at in range(0, len(data), 777_777):
        file.write(data[at:at + 777_777])
    assert not client.exists(bucket, "k")
    file.close()
    assert file.result.bytes == len(data)
    assert client.get(bucket, "k") == data
    assert client.head(bucket, "k").content_type == "text/y"
    with client.open(f"millrace://{bucket}/small", "wb") as file:
        file.write(b"abc")
    assert client.get(bucket, "small") == b"abc" and file.result.bytes == 3
    with client.open(f"millrace://{bucket}/nothing", "wb"):
        pass
    assert client.get(bucket, "nothing") == b""
    with pytest.raises(FileExistsError):
        with client.open(f"millrace://{bucket}/small", "xb") as file:
            file.write(b"other")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_writers_that_fail_leave_nothing(client, s3, bucket, rng):
    with pytest.raises(KeyError):
        with client.open(f"millrace://{bucket}/k", "wb", part_size=5 * MIB) as file:
            file.write(rng.randbytes(12 * MIB))
            raise KeyError("of the program")
    file = client.open(f"millrace://{bucket}/k", "wb", part_size=5 * MIB)
    file.write(rng.randbytes(12 * MIB))
    file.abort()
    file = client.open(f"millrace://{bucket}/k", "wb", part_size=5 * MIB)
    file.write(rng.randbytes(12 * MIB))
    del file  # forgotten
    assert not client.exists(bucket, "k")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


@pytest.fixture
def fs(store):
    return fsspec.filesystem("millrace", endpoint=store.endpoint, region="us-east-1", access_key=store.access_key, secret_key=store.secret_key,
                             skip_instance_cache=True)


def test_fsspec(fs, bucket, tmp_path, rng):
    data = rng.randbytes(100_000)
    fs.pipe({f"{bucket}/d/one": data, f"millrace://{bucket}/d/e/two": b"2", f"{bucket}/top": b"t"})
    assert bucket in fs.ls("", detail=False)
    assert sorted(fs.ls(bucket, detail=False)) == [f"{bucket}/d", f"{bucket}/top"]
    assert {entry["name"]: entry["type"] for entry in fs.ls(f"{bucket}/d")} == {f"{bucket}/d/e": "directory", f"{bucket}/d/one": "file"}
    assert fs.info(f"{bucket}/d/one")["size"] == len(data) and fs.isdir(f"{bucket}/d") and fs.isfile(f"{bucket}/top")
    with pytest.raises(FileNotFoundError):
        fs.info(f"{bucket}/none")
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{bucket}/none")
    assert fs.glob(f"{bucket}/d/*") == [f"{bucket}/d/e", f"{bucket}/d/one"]
    assert fs.glob(f"{bucket}/**/two") == [f"{bucket}/d/e/two"]
    assert fs.find(bucket) == [f"{bucket}/d/e/two", f"{bucket}/d/one", f"{bucket}/top"]
    assert fs.cat_file(f"{bucket}/d/one", 5, 10) == data[5:10] and fs.cat_file(f"{bucket}/d/one", -10) == data[-10:]
    assert fs.cat([f"{bucket}/d/one", f"{bucket}/top"]) == {f"{bucket}/d/one": data, f"{bucket}/top": b"t"}
    got = fs.cat_ranges([f"{bucket}/d/one"] * 3 + [f"{bucket}/none"], [0, 100, 99_999, 0], [10, 200, 100_050, 5])
    assert got[:3] == [data[:10], data[100:200], data[-1:]] and isinstance(got[3], FileNotFoundError)
    with fs.open(f"{bucket}/d/one") as file:
        file.seek(50)
        assert file.read(5) == data[50:55]
    with fs.open(f"{bucket}/text", "w") as file:
        file.write("zwei\nZeilen\n")
    with fs.open(f"{bucket}/text", "r") as file:
        assert file.readlines() == ["zwei\n", "Zeilen\n"]
    fs.mv(f"{bucket}/top", f"{bucket}/moved")
    assert not fs.exists(f"{bucket}/top") and fs.cat(f"{bucket}/moved") == b"t"
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "x").write_bytes(data)
    fs.put(str(tmp_path / "tree"), f"{bucket}/up", recursive=True)
    fs.get(f"{bucket}/up", str(tmp_path / "down"), recursive=True)
    assert (tmp_path / "down" / "x").read_bytes() == data
    fs.rm(f"{bucket}/d", recursive=True)
    assert not fs.exists(f"{bucket}/d")
    assert pickle.loads(pickle.dumps(fs)).cat(f"{bucket}/moved") == b"t"


def test_fsspec_opens_by_url(store, bucket):
    rest = {"endpoint": store.endpoint, "access_key": store.access_key, "secret_key": store.secret_key}
    with fsspec.open(f"millrace://{bucket}/k", "wb", **rest) as file:
        file.write(b"by url")
    with fsspec.open(f"millrace://{bucket}/k", **rest) as file:
        assert file.read() == b"by url"
