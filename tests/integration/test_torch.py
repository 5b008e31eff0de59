"""millrace.torch against the daemon: datasets, the loader, and what it says about samples seen."""
import collections
import pickle
import subprocess
import sys

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

import millrace
from millrace import Get
from millrace.torch import Deal, Loader, MapDataset, Samples, StreamDataset, Tail
from millrace.torch.fetch import Ahead, Fetcher
from millrace.torch.order import sequence
from tests.integration.test_python import client_of
from tests.support.forks import forkserver

pytestmark = [pytest.mark.daemon, pytest.mark.client]
RECORD = 1000


@pytest.fixture
def client(store):
    with client_of(store) as made:
        yield made


def record(number):
    """The bytes of a record tell its number."""
    return number.to_bytes(4, "little") * (RECORD // 4)


@pytest.fixture
def records(client, bucket):
    """Three objects of 40, 1 and 59 records."""
    numbers = iter(range(100))
    for name, count in (("a", 40), ("b", 1), ("c", 59)):
        client.put(bucket, f"r/{name}", b"".join(record(next(numbers)) for _ in range(count)))
    return Samples.of_records(f"millrace://{bucket}/r/", RECORD, client)


def number_of(sample):
    """A transform: the record's number, where all its bytes say the same."""
    numbers = sample.tensor(torch.int32)
    assert len(numbers) == RECORD // 4 and bool((numbers == numbers[0]).all())
    return int(numbers[0])


def numbers(batches):
    return [int(number) for batch in batches for number in batch]


# ---- map-style ----------------------------------------------------------------------------------------------


def test_a_prefix_is_a_dataset(client, bucket, rng):
    data = {f"d/{i:03}": rng.randbytes(rng.randrange(1, 3000)) for i in range(30)}
    for key, value in data.items():
        client.put(bucket, key, value)
    client.put(bucket, "d/folder/", b"")
    client.put(bucket, "other", b"x")
    dataset = MapDataset(f"millrace://{bucket}/d/", client=client)
    assert len(dataset) == 30
    assert [bytes(item.tolist()) for item in dataset.__getitems__(range(30))] == list(data.values())
    assert bytes(dataset[7].tolist()) == data["d/007"] and bytes(dataset[-1].tolist()) == data["d/029"]
    with pytest.raises(IndexError):
        dataset[30]
    sample = MapDataset(dataset.samples, client=client, transform=lambda sample: sample)[3]
    assert (sample.index, sample.bucket, sample.key, sample.offset) == (3, bucket, "d/003", 0)


def test_keys_and_ranges_are_a_dataset(client, bucket, rng):
    data = rng.randbytes(400_000)
    client.put(bucket, "k", data)
    client.put(bucket, "small", b"tiny")
    client.put(bucket, "empty", b"")
    url = f"millrace://{bucket}"
    dataset = MapDataset([f"{url}/k", Get(bucket, "k", 5, 10), Get(bucket, "k", 399_000), f"{url}/small", f"{url}/empty", Get(bucket, "k", 9, 0)],
                         client=client)
    for _ in range(2):
        assert [bytes(item.tolist()) for item in dataset.__getitems__(range(6))] == [data, data[5:15], data[399_000:], b"tiny", b"", b""]
    for wrong in (Get(bucket, "k", suffix=5), Get(bucket, "k", into=bytearray(5)), f"{url}/"):
        with pytest.raises(ValueError):
            MapDataset([wrong], client=client)


def test_tensors_of_any_type_without_a_copy(client, bucket):
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.bool, torch.complex64):
        made = torch.arange(48).to(dtype).reshape(4, 3, 4)
        client.put(bucket, "t", made)
        into = torch.zeros(4, 3, 4, dtype=dtype)
        assert client.get_into(bucket, "t", into).bytes == made.numel() * made.element_size()
        assert torch.equal(into, made)
        read = MapDataset([f"millrace://{bucket}/t"], client=client, transform=lambda sample, dtype=dtype: sample.tensor(dtype, (4, 3, 4)))[0]
        assert torch.equal(read, made)
    with pytest.raises(ValueError):
        client.get_into(bucket, "t", torch.zeros(4, 8)[:, ::2])
    with pytest.raises(TypeError):
        client.get_into(bucket, "t", torch.zeros(4, device="meta"))
    with pytest.raises(RuntimeError):
        MapDataset([Get(bucket, "t", 0, 7)], client=client, transform=lambda sample: sample.tensor(torch.float32))[0]


@pytest.mark.only_where(torch.cuda.is_available(), "a GPU: memory is pinned for one")
def test_pinned_memory(client, bucket, records):
    pinned = torch.zeros(RECORD, dtype=torch.uint8).pin_memory()
    client.get_into(bucket, "r/b", pinned)
    assert bytes(pinned.tolist()) == record(40)
    batches = list(DataLoader(MapDataset(records, client=client), batch_size=10, pin_memory=True))
    assert len(batches) == 10 and all(batch.is_pinned() for batch in batches)


def test_errors_are_raised_or_stood_in_for(client, bucket):
    client.put(bucket, "k", b"12345")
    source = [Get(bucket, "k", 0, 2), Get(bucket, "none", 0, 2), Get(bucket, "k", 9, 2), f"millrace://{bucket}/none"]
    dataset = MapDataset(source, client=client)
    with pytest.raises(millrace.NotFound):
        dataset.__getitems__([0, 1])
    stand_in = MapDataset(source, client=client, on_error=lambda get, error: (get.key, type(error)))
    assert stand_in.__getitems__([0, 1, 2, 3])[1:] == [("none", millrace.NotFound), ("k", millrace.RangeError), ("none", millrace.NotFound)]
    listed = MapDataset(f"millrace://{bucket}/k", client=client)
    client.put(bucket, "k", b"123456")
    with pytest.raises(millrace.ObjectChanged):
        listed[0]


def test_records_are_whole(client, bucket, records):
    assert len(records) == 100
    client.put(bucket, "odd", bytes(RECORD + 1))
    with pytest.raises(ValueError):
        Samples.of_records([f"millrace://{bucket}/odd"], RECORD, client)
    assert len(Samples.of_records([f"millrace://{bucket}/odd"], RECORD, client, header_bytes=1)) == 1
    assert pickle.loads(pickle.dumps(records)).fingerprint == records.fingerprint
    assert Samples.of(list(records.gets()), client).fingerprint == records.fingerprint
    assert Samples.of(list(records.gets())[1:], client).fingerprint != records.fingerprint


def test_expected_batches_are_read_ahead(client, records):
    order = [[1, 2, 3], [90, 4], [5], [6, 7], [8, 9]]
    dataset = MapDataset(records, client=client, transform=number_of, batches_ahead=2)
    dataset.expect(order)
    assert dataset.__getitems__([1, 2, 3]) == [1, 2, 3]
    assert [begun.indices for begun in dataset._ahead._begun] == [[90, 4], [5]]
    assert dataset.__getitems__([50, 51]) == [50, 51]  # not expected: those that are stay
    assert [dataset.__getitems__(batch) for batch in order[1:]] == order[1:]
    assert dataset.__getitems__([1]) == [1]
    sampler = list(BatchSampler(SequentialSampler(dataset), 9, False))
    dataset.expect(sampler)
    assert numbers(DataLoader(dataset, batch_sampler=sampler, num_workers=2)) == list(range(100))
    with pytest.raises(ValueError):
        dataset.expect([[0] * 65537])
    dataset.close()


def test_what_is_read_ahead_is_bounded(client, records):
    order = [[i, i + 1] for i in range(0, 100, 2)]
    ahead = Ahead(Fetcher(records, client), iter(order), 10, 5 * RECORD)
    ahead.fill()
    assert [begun.indices for begun in ahead._begun] == order[:2]  # two of 2,000 bytes in 5,000
    taken = []
    while (indices := ahead.peek()) is not None:
        assert [records.sample(i, got.buffer, got.bytes).tensor(torch.int32)[0] for i, got in zip(indices, ahead.take())] == indices
        taken.append(indices)
        assert len(ahead._begun) <= 2 and ahead._held <= 5 * RECORD
    assert taken == order
    ahead.close()
    alone = Ahead(Fetcher(records, client), iter(order), 10, 1)  # larger than the bound: one at a time
    assert len(alone.take()) == 2 and len(alone._begun) == 1
    alone.close()
    none = Ahead(Fetcher(records, client), iter(order), 0, 1 << 20)
    assert len(none.take()) == 2 and not none._begun
    none.close()


# ---- what is seen -------------------------------------------------------------------------------------------


def dealt(count, position, batch_size, world, tail, steps=None):
    """What all ranks of a world see in so many steps, as places of the epoch; and the position afterwards, the same for all."""
    seen, after = [], set()
    for rank in range(world):
        deal = Deal(count, position, batch_size, rank, world, tail)
        done = deal.steps() if steps is None else min(steps, deal.steps())
        for step in range(done):
            seen += deal.places(step)
        after.add(deal.after(done if steps is None else steps))
        assert deal.samples() == sum(len(deal.places(step)) for step in range(deal.steps()))
    return seen, after


def test_each_sample_is_seen_once_in_whatever_worlds(rng):
    for _ in range(300):
        count, position, seen = rng.randrange(1, 200), 0, []
        for _ in range(rng.randrange(4)):  # a world, some steps, then another
            got, after = dealt(count, position, rng.randrange(1, 9), rng.randrange(1, 6), Tail.UNEVEN, rng.randrange(5))
            assert len(after) == 1
            seen, position = seen + got, after.pop()
            assert sorted(seen) == list(range(position))
        batch_size, world = rng.randrange(1, 9), rng.randrange(1, 6)
        rest = {tail: dealt(count, position, batch_size, world, tail)[0] for tail in Tail}
        assert sorted(seen + rest[Tail.UNEVEN]) == list(range(count))
        whole = (count - position) // (batch_size * world) * batch_size * world
        assert sorted(rest[Tail.DROP]) == list(range(position, position + whole))
        assert len(rest[Tail.PAD]) % (batch_size * world) == 0 and set(rest[Tail.PAD]) >= set(range(position, count))
        assert len(rest[Tail.PAD]) - (count - position) < batch_size * world


def test_sequences_are_the_seed_s_and_the_epoch_s():
    one, again, epoch, seed = (list(map(int, sequence(1000, True, *which))) for which in ((7, 0), (7, 0), (7, 1), (8, 0)))
    assert one == again and sorted(one) == list(range(1000)) and len({tuple(one), tuple(epoch), tuple(seed), tuple(range(1000))}) == 4
    assert list(sequence(5, False, 7, 3)) == [0, 1, 2, 3, 4]


# ---- iterable -----------------------------------------------------------------------------------------------


def stream(client, records, **options):
    return StreamDataset(records, client=client, transform=number_of, **options)


def test_a_stream_gives_ranks_their_parts(client, records):
    assert list(stream(client, records)) == list(range(100))
    parts = [list(stream(client, records, batch_size=7, shuffle=True, seed=3, rank=rank, world_size=3)) for rank in range(3)]
    assert sorted(sum(parts, [])) == list(range(100)) and {len(part) for part in parts} == {33, 34}
    again = stream(client, records, batch_size=7, shuffle=True, seed=3, rank=1, world_size=3)
    assert len(again) == len(parts[1]) and list(again) == parts[1] == list(again)
    again.set_epoch(1)
    assert list(again) != parts[1]
    with pytest.raises(ValueError):
        stream(client, records, rank=3, world_size=3).deal()
    with pytest.raises(ValueError):
        stream(client, records, rank=0).deal()


def test_the_environment_says_which_rank(client, records, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    dataset = stream(client, records)
    copy = pickle.loads(pickle.dumps(dataset))
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    assert list(copy) == list(range(1, 100, 4)) and list(dataset) == list(range(100))


def test_a_stream_goes_on_where_it_stood(client, records):
    first = stream(client, records, shuffle=True, seed=5, batch_size=4)
    samples = iter(first)
    seen = [next(samples) for _ in range(10)]  # two batches and a half
    state = first.state_dict()
    samples.close()
    assert state["position"] == 8
    other = stream(client, records, shuffle=True, seed=99, batch_size=3)
    other.load_state_dict(pickle.loads(pickle.dumps(state)))
    assert sorted(seen[:8] + list(other)) == list(range(100))
    assert other.state_dict()["position"] == 100
    for change in ({"fingerprint": "0"}, {"samples": 99}, {"shuffle": False}, {"version": 2}, {"position": 101}):
        with pytest.raises(ValueError):
            other.load_state_dict({**state, **change})


def test_an_abandoned_iteration_leaves_nothing_under_way(client, records):
    samples = iter(stream(client, records, batch_size=5))
    next(samples)
    before = len(client._handle().queues)
    samples.close()
    assert len(client._handle().queues) == before - 1
    samples = iter(stream(client, records, batch_size=5))
    next(samples)
    client.close()
    samples.close()  # its queue went with the client
    assert list(stream(client, records))[0] == 0


def test_an_object_that_grows_is_not_cut_off(client, bucket, rng, monkeypatch):
    """Of an object whose length is not known, and for which there was too little room at first."""
    client.put(bucket, "k", rng.randbytes(100_000))
    read, calls = client.get_batch, []

    def get_batch(gets, **rest):
        calls.append(gets)
        if len(calls) == 2:
            client.put(bucket, "k", rng.randbytes(100_001))
        return read(gets, **rest)
    monkeypatch.setattr(client, "get_batch", get_batch)
    with pytest.raises(millrace.ObjectChanged):
        MapDataset([f"millrace://{bucket}/k"], client=client)[0]
    assert len(calls) == 2


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", forkserver, pytest.param("spawn", marks=pytest.mark.long)], ids=["fork", "forkserver", "spawn"])
def test_workers_of_each_start_method(client, records, method):
    assert client.exists(records.get(0).bucket, "r/a")  # the parent's client is open when workers begin
    rest = {"num_workers": 2, "multiprocessing_context": method}
    dataset = MapDataset(records, client=client, transform=number_of)
    dataset.expect(BatchSampler(SequentialSampler(dataset), 16, False))
    assert numbers(DataLoader(dataset, batch_size=16, **rest)) == list(range(100))
    loader = Loader(stream(client, records, batch_size=8, shuffle=True, seed=1), **rest)
    alone = Loader(stream(client, records, batch_size=8, shuffle=True, seed=1))
    assert [batch.tolist() for batch in loader] == [batch.tolist() for batch in alone]


@pytest.mark.slow
def test_a_loader_resumes_in_another_world(client, records, rng):
    world, workers, steps = 2, 3, rng.randrange(1, 5)
    loaders = [Loader(stream(client, records, batch_size=5, shuffle=True, seed=11, rank=rank, world_size=world), num_workers=workers)
               for rank in range(world)]
    seen, states = [], []
    for loader in loaders:
        batches = iter(loader)
        seen += numbers(next(batches) for _ in range(steps))
        states.append(loader.state_dict())
        batches.close()
    assert states[0] == states[1] and states[0]["position"] == steps * 10 == len(seen)
    for rank in range(3):
        loader = Loader(stream(client, records, batch_size=7, shuffle=True, rank=rank, world_size=3), num_workers=rank)
        loader.load_state_dict(states[0])
        left = len(loader)
        batches = [batch.tolist() for batch in loader]
        assert left == len(batches)
        seen += sum(batches, [])
        assert loader.state_dict()["epoch"] == 1 and loader.state_dict()["position"] == 0
    assert sorted(seen) == list(range(100))


def test_a_loader_begins_the_next_epoch(client, records):
    loader = Loader(stream(client, records, batch_size=30, shuffle=True))
    epochs = [numbers(loader) for _ in range(2)]
    assert epochs[0] != epochs[1] and all(sorted(epoch) == list(range(100)) for epoch in epochs)
    for batch in loader:
        state = loader.state_dict()  # last: after the epoch's last batch
    loader.load_state_dict(state)
    assert (state["epoch"], state["position"]) == (2, 100) and list(loader) == []
    assert loader.state_dict()["epoch"] == 3 and len(list(loader)) == 4
    for option in ({"batch_size": 4}, {"shuffle": True}, {"in_order": False}, {"num_workers": 1, "persistent_workers": True}):
        with pytest.raises(ValueError):
            Loader(loader.dataset, **option)


def state_of_worker(worker):
    torch.utils.data.get_worker_info().dataset.state_dict()


def test_a_worker_cannot_say_what_was_seen(client, records):
    with pytest.raises(RuntimeError, match="Loader"):
        list(DataLoader(stream(client, records), num_workers=1, worker_init_fn=state_of_worker))


def test_errors_of_workers_are_raised_in_the_parent(client, bucket, records):
    lacking = list(records.gets()) + [Get(bucket, "none", 0, 5)]
    with pytest.raises(millrace.NotFound, match="none"):
        list(DataLoader(MapDataset(lacking, client=client, transform=number_of), batch_size=50, num_workers=1))


def test_the_package_does_not_need_torch():
    """Neither torch nor webdataset is imported by millrace; without them the reason is said."""
    script = ("import sys; sys.modules['torch'] = sys.modules['webdataset'] = None\n"
              "import millrace\n"
              "for name in ('torch', 'webdataset'):\n"
              "    try: __import__('millrace.' + name)\n"
              "    except ImportError as error: assert 'pip install' in str(error), error\n"
              "    else: raise SystemExit('imported')\n")
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert collections.Counter(subprocess.run([sys.executable, "-c", "import millrace, sys; print('torch' in sys.modules)"], check=True, timeout=60,
                                              capture_output=True, text=True).stdout.split()) == {"False": 1}
