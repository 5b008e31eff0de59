"""What PyTorch programs store, by millrace: torch.distributed.checkpoint, torch.save, WebDataset, safetensors, Parquet."""
import io
import tarfile

import fsspec
import pyarrow
import pyarrow.parquet
import pytest
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
import webdataset
from torch.distributed.checkpoint.fsspec_filesystem import FsspecReader, FsspecWriter
from torch.utils.data import DataLoader

import millrace
import millrace.webdataset
from millrace.torch import Reader, Writer
from tests.integration.test_python import client_of
from tests.support.forks import forkserver

pytestmark = [pytest.mark.daemon, pytest.mark.client]
MIB = 1 << 20


@pytest.fixture
def client(store):
    with client_of(store) as made:
        yield made


@pytest.fixture
def fs(store):
    return fsspec.filesystem("millrace", endpoint=store.endpoint, region="us-east-1", access_key=store.access_key, secret_key=store.secret_key,
                             skip_instance_cache=True)


def state(seed):
    """A state dict of tensors of many types and shapes, and of what is no tensor."""
    generator = torch.Generator().manual_seed(seed)
    made = {str(dtype): (torch.rand(7, 3, 5, generator=generator) * 100).to(dtype)
            for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64)}
    return {**made, "scalar": torch.tensor(seed), "empty": torch.zeros(0, 4), "transposed": torch.rand(30, 20, generator=generator).T,
            "large": torch.rand(3, MIB, generator=generator), "step": seed, "nested": {"name": "adam", "rates": [0.1, 0.2]}}


def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other


def blank(value):
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    return {key: blank(each) for key, each in value.items()} if isinstance(value, dict) else None


# ---- torch.distributed.checkpoint ---------------------------------------------------------------------------


def test_checkpoints_come_back(client, bucket):
    at = f"millrace://{bucket}/checkpoints/1"
    saved, loaded = state(1), blank(state(1))
    dcp.save(saved, storage_writer=Writer(at, client=client), no_dist=True)
    for at_once in (1, 256 * MIB):
        dcp.load(loaded, storage_reader=Reader(at, client=client, bytes_at_once=at_once), no_dist=True)
        assert same(loaded, saved)
        loaded = blank(saved)
    assert {entry.key for entry in client.list(bucket)} == {"checkpoints/1/.metadata", "checkpoints/1/__0_0.raw"}


def test_checkpoints_are_filled_in_place_and_converted(client, bucket):
    at = f"millrace://{bucket}/c"
    matrix = torch.arange(60.0).reshape(6, 10)
    dcp.save({"m": matrix}, storage_writer=Writer(at, client=client), no_dist=True)
    for target in (torch.zeros(6, 10), torch.zeros(10, 6).T, torch.zeros(6, 10, dtype=torch.float64), torch.zeros(6, 20)[:, ::2]):
        address = target.data_ptr()
        dcp.load({"m": target}, storage_reader=Reader(at, client=client), no_dist=True)
        assert torch.equal(target.to(torch.float32), matrix) and target.data_ptr() == address


def test_a_checkpoint_is_replaced_only_on_demand(client, bucket):
    at = f"millrace://{bucket}/c"
    dcp.save({"v": torch.ones(3)}, storage_writer=Writer(at, client=client), no_dist=True)
    client.put(bucket, "c/__1_0.raw", b"of a larger world")
    with pytest.raises(dcp.api.CheckpointException, match="there is a checkpoint"):
        dcp.save({"v": torch.zeros(3)}, storage_writer=Writer(at, client=client), no_dist=True)
    old = Reader(at, client=client)
    metadata = old.read_metadata()
    dcp.save({"v": torch.full((3,), 2.0)}, storage_writer=Writer(at, client=client, overwrite=True), no_dist=True)
    assert {entry.key for entry in client.list(bucket)} == {"c/.metadata", "c/__0_0.raw"}
    loaded = {"v": torch.zeros(3)}
    dcp.load(loaded, storage_reader=Reader(at, client=client), no_dist=True)
    assert loaded["v"].tolist() == [2, 2, 2]
    old.read_metadata = lambda *_, **__: metadata  # a reader that began before does not mix the two
    with pytest.raises(dcp.api.CheckpointException, match="condition|changed|replaced|Stale"):
        dcp.load(loaded, storage_reader=old, no_dist=True)


def test_checkpoints_that_are_none(client, bucket):
    with pytest.raises(dcp.api.CheckpointException, match="no checkpoint at"):
        dcp.load({"v": torch.zeros(3)}, storage_reader=Reader(f"millrace://{bucket}/none", client=client), no_dist=True)
    for wrong in (f"millrace://{bucket}", f"millrace://{bucket}/", "gs://b/k"):
        with pytest.raises(ValueError):
            Writer(wrong, client=client)
        assert not Writer.validate_checkpoint_id(wrong)
    assert Reader.validate_checkpoint_id(f"millrace://{bucket}/c") and not Reader.validate_checkpoint_id("/tmp/c")
    with pytest.raises(ValueError, match="collectives"):
        Writer(f"millrace://{bucket}/c", client=client).set_up_storage_writer(True, use_collectives=False)


def test_torch_s_own_checkpoints_go_through_fsspec(store, client, bucket):
    rest = {"endpoint": store.endpoint, "region": "us-east-1", "access_key": store.access_key, "secret_key": store.secret_key}
    saved, loaded = state(2), blank(state(2))
    dcp.save(saved, storage_writer=FsspecWriter(f"millrace://{bucket}/f", **rest), no_dist=True)
    dcp.load(loaded, storage_reader=FsspecReader(f"millrace://{bucket}/f", **rest), no_dist=True)
    assert same(loaded, saved)
    with pytest.raises(dcp.api.CheckpointException, match="not written by"):
        dcp.load(loaded, storage_reader=Reader(f"millrace://{bucket}/f", client=client), no_dist=True)


def rank_saves_or_loads(rank, world, folder, client, at, rows, pipe):
    """A process of torch.distributed: a DTensor of rows rows, sharded over the world, saved where at is new, else loaded and compared."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet-{world}", rank=rank, world_size=world)
    whole = torch.arange(rows * 3.0).reshape(rows, 3)
    mesh = init_device_mesh("cpu", (world,))
    bucket, prefix = millrace.parse_url(at)
    if not client.exists(bucket, f"{prefix}/.metadata"):
        torch.distributed.barrier()
        dcp.save({"w": distribute_tensor(whole, mesh, [Shard(0)]), "step": 5}, storage_writer=Writer(at, client=client))
        pipe.send(True)
    else:
        loaded = {"w": distribute_tensor(torch.zeros(rows, 3), mesh, [Shard(0)]), "step": None}
        dcp.load(loaded, storage_reader=Reader(at, client=client))
        pipe.send(torch.equal(loaded["w"].full_tensor(), whole) and loaded["step"] == 5)
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_checkpoints_of_one_world_are_read_by_another(client, bucket, tmp_path):
    for world in (2, 3):  # 10 rows: 5 and 5, then 4, 4 and 2
        pipes, ranks = [], []
        for rank in range(world):
            here, there = forkserver.Pipe()
            ranks.append(forkserver.Process(target=rank_saves_or_loads,
                                            args=(rank, world, str(tmp_path), client, f"millrace://{bucket}/sharded", 10, there)))
            pipes.append(here)
            ranks[-1].start()
        assert [pipe.poll(90) and pipe.recv() for pipe in pipes] == [True] * world
        for rank in ranks:
            rank.join(30)
            assert rank.exitcode == 0
    assert {entry.key for entry in client.list(bucket)} == {"sharded/.metadata", "sharded/__0_0.raw", "sharded/__1_0.raw"}


# ---- files --------------------------------------------------------------------------------------------------


def test_torch_saves_and_loads_files(client, bucket):
    saved = state(3)
    with client.open(f"millrace://{bucket}/state.pt", "wb") as file:
        torch.save(saved, file)
    with client.open(f"millrace://{bucket}/state.pt") as file:
        assert same(torch.load(file, weights_only=True), saved)


def test_safetensors(client, bucket, fs):
    tensors = {name: value.contiguous() for name, value in state(4).items() if isinstance(value, torch.Tensor) and value.dtype != torch.complex64}
    with fs.open(f"{bucket}/a.safetensors", "wb") as file:
        file.write(safetensors.torch.save(tensors))
    assert same(safetensors.torch.load(fs.cat_file(f"{bucket}/a.safetensors")), tensors)
    assert same(safetensors.torch.load(client.get(bucket, "a.safetensors")), tensors)


def test_parquet(bucket, fs):
    table = pyarrow.table({"number": list(range(50_000)), "text": [f"row {i}" for i in range(50_000)]})
    pyarrow.parquet.write_table(table, f"{bucket}/t/one.parquet", filesystem=fs, row_group_size=5_000)
    pyarrow.parquet.write_table(table.slice(0, 10), f"{bucket}/t/two.parquet", filesystem=fs)
    assert pyarrow.parquet.read_table(f"{bucket}/t/one.parquet", filesystem=fs).equals(table)
    some = pyarrow.parquet.read_table(f"{bucket}/t/one.parquet", filesystem=fs, columns=["number"], filters=[("number", ">=", 49_990)])
    assert some.column("number").to_pylist() == list(range(49_990, 50_000))
    assert pyarrow.parquet.read_table(f"{bucket}/t", filesystem=fs).num_rows == 50_010
    with fs.open(f"{bucket}/t/one.parquet") as file:
        assert pyarrow.parquet.ParquetFile(file).read_row_group(3).column("number").to_pylist() == list(range(15_000, 20_000))


# ---- WebDataset ---------------------------------------------------------------------------------------------


@pytest.fixture
def shards(client, bucket):
    """Three shards of ten samples."""
    for shard in range(3):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for i in range(shard * 10, shard * 10 + 10):
                for suffix, data in (("cls", str(i).encode()), ("bin", bytes([i]) * 5000)):
                    info = tarfile.TarInfo(f"{i:04}.{suffix}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
        client.put(bucket, f"shard-{shard}.tar", packed.getvalue())
    return f"millrace://{bucket}/shard-{{0..2}}.tar"


def label(sample):
    assert sample["bin"] == bytes([int(sample["cls"])]) * 5000
    return int(sample["cls"])


@pytest.mark.slow
@pytest.mark.parametrize("method", [pytest.param("fork", marks=pytest.mark.long), forkserver, pytest.param("spawn", marks=pytest.mark.long)], ids=["fork", "forkserver", "spawn"])
def test_shards_are_unpacked_by_workers_of_each_start_method(client, shards, method):
    dataset = millrace.webdataset.dataset(shards, client=client, shardshuffle=False).map(label)
    assert [sample for sample in dataset] == list(range(30))
    loaded = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context=method)
    assert sorted(loaded) == list(range(30))


def test_webdataset_knows_the_scheme_once_it_is_registered(client, bucket, shards):
    millrace.webdataset.register(client)
    try:
        assert [label(sample) for sample in webdataset.WebDataset(shards, shardshuffle=False)] == list(range(30))
        with webdataset.TarWriter(f"millrace://{bucket}/written.tar") as sink:
            sink.write({"__key__": "one", "txt": "text"})
        assert next(iter(webdataset.WebDataset(f"millrace://{bucket}/written.tar", shardshuffle=False)))["txt"] == b"text"
    finally:
        del millrace.webdataset.gopen_schemes["millrace"]


@pytest.mark.usefixtures("shards")
def test_shards_that_are_not_there_are_the_handler_s(client, bucket):
    urls = [f"millrace://{bucket}/none.tar", f"millrace://{bucket}/shard-1.tar"]
    with pytest.raises(FileNotFoundError):
        list(millrace.webdataset.dataset(urls, client=client, shardshuffle=False))
    left = millrace.webdataset.dataset(urls, client=client, shardshuffle=False, handler=webdataset.ignore_and_continue)
    assert [label(sample) for sample in left] == list(range(10, 20))
    with pytest.raises(ValueError, match="register"):
        millrace.webdataset.dataset(urls, client=client, shardshuffle=False, cache_dir="/tmp", cache_size=1)
