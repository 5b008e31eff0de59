"""Datasets over objects, or ranges of them. They pickle, and open their store anew in each process that reads: fork, forkserver and spawn all work."""
from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence

import torch.utils.data

from ..client import Client
from ..types import Get
from .fetch import MOST_OF_A_BATCH, Ahead, Fetcher, samples_of
from .order import Deal, Tail, sequence, world_of
from .samples import Sample, Samples, Source

__all__ = ["MapDataset", "StreamDataset"]

Transform = Callable[[Sample], Any]
OnError = Callable[[Get, Exception], Any]


class _Reads:
    """What both datasets are: samples, how they are read, and what is made of them."""

    def __init__(self, source: Source, client: Optional[Client], transform: Optional[Transform], on_error: Optional[OnError],
                 batches_ahead: int, bytes_ahead: int, transport: Optional[str]):
        if batches_ahead < 0 or bytes_ahead < 0:
            raise ValueError("batches_ahead and bytes_ahead are not negative")
        self.client = client if client is not None else Client()
        self.samples = Samples.of(source, self.client)
        self.transform, self.on_error = transform, on_error
        self.batches_ahead, self.bytes_ahead, self.transport = batches_ahead, bytes_ahead, transport
        self._fetcher: Optional[Fetcher] = None

    def fetcher(self) -> Fetcher:
        if self._fetcher is None:
            self._fetcher = Fetcher(self.samples, self.client, self.transport)
        return self._fetcher

    def made_of(self, indices: Sequence[int], results: Sequence[Any]) -> List[Any]:
        return samples_of(self.samples, indices, results, self.transform, self.on_error)

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_fetcher": None}


class MapDataset(_Reads, torch.utils.data.Dataset):
    """Samples by index. DataLoader asks for a whole batch at a time (__getitems__), which is one batched read.

    source: a prefix "millrace://bucket/prefix", listed now; or URLs and Gets; or a table (Samples), as Samples.of_records() makes it.
    client: made from the environment where none is given. transform: what is given for a Sample (default: its bytes, a uint8 tensor of shape [bytes]).
    on_error(get, error): what is given for a sample that could not be read; without it the error is raised, a millrace error such as NotFound, or
    ObjectChanged where an object is no longer what was listed.

    Where the order of batches is known before, expect() has the next ones read ahead: batches_ahead of them, in bytes_ahead bytes at most (a batch that is
    larger alone), beside the one that is asked for. With DataLoader's workers that is for each worker."""

    def __init__(self, source: Source, *, client: Optional[Client] = None, transform: Optional[Transform] = None, on_error: Optional[OnError] = None,
                 batches_ahead: int = 4, bytes_ahead: int = 256 << 20, transport: Optional[str] = None):
        super().__init__(source, client, transform, on_error, batches_ahead, bytes_ahead, transport)
        self._expected: List[List[int]] = []
        self._ahead: Optional[Ahead] = None

    def expect(self, batches: Iterable[Sequence[int]]) -> None:
        """Says which batches of indices will be asked for, in this order: list(batch_sampler), say, before the DataLoader is iterated. A worker of a
        DataLoader takes those that DataLoader gives it, every num_workers-th. It replaces what was said before; workers that are there already
        (persistent_workers) do not hear of it. A batch that is not the next expected one is read when it is asked for, and those expected stay.

        ValueError: a batch of more than 65,536 samples."""
        expected = [[int(index) for index in batch] for batch in batches]
        if any(len(batch) > MOST_OF_A_BATCH for batch in expected):
            raise ValueError(f"a batch that is read ahead has {MOST_OF_A_BATCH} samples at most")
        self._expected = expected
        self._drop()

    def _drop(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.pid == os.getpid():
            ahead.close()

    def _reads_ahead(self) -> Optional[Ahead]:
        if self._ahead is not None and self._ahead.pid != os.getpid():  # the parent's
            self._ahead, self._fetcher = None, None
        if self._ahead is None and self._expected:
            worker = torch.utils.data.get_worker_info()
            mine = self._expected if worker is None else self._expected[worker.id::worker.num_workers]
            self._ahead = Ahead(self.fetcher(), iter(mine), self.batches_ahead, self.bytes_ahead)
        return self._ahead

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        """One sample. IndexError: there is none."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> List[Any]:
        """A batch, by one batched read."""
        wanted = [int(index) for index in indices]
        ahead = self._reads_ahead()
        if ahead is not None and ahead.peek() == wanted:
            results = ahead.take()
        else:
            results = self.fetcher().now(wanted)
        return self.made_of(wanted, results)

    def close(self) -> None:
        """Cancels what is read ahead, and forgets what is expected."""
        self._expected = []
        self._drop()

    def __getstate__(self) -> Dict[str, Any]:
        return {**super().__getstate__(), "_ahead": None}


class StreamDataset(_Reads, torch.utils.data.IterableDataset):
    """Samples in an order known beforehand: each rank and each of its workers its part, read ahead batch by batch, each batch one batched read.

    source, client, transform, on_error, batches_ahead, bytes_ahead: as with MapDataset. batch_size: samples in a batch of one rank; DataLoader's must
    be the same (Loader sees to that). shuffle: another sequence each epoch, made of seed; the same on all ranks. tail: see Tail. rank, world_size:
    where not given, torch.distributed's, or RANK and WORLD_SIZE of the environment, when iteration begins.

    Iterating gives samples, one after the other; again, the same epoch's from its beginning, unless set_epoch() says another. len() is the number of
    samples that the next iteration gives on this rank, with all its workers."""

    def __init__(self, source: Source, *, batch_size: int = 1, shuffle: bool = False, seed: int = 0, tail: str = Tail.UNEVEN,
                 rank: Optional[int] = None, world_size: Optional[int] = None, client: Optional[Client] = None,
                 transform: Optional[Transform] = None, on_error: Optional[OnError] = None, batches_ahead: int = 4, bytes_ahead: int = 256 << 20,
                 transport: Optional[str] = None):
        if not 0 < batch_size <= MOST_OF_A_BATCH:
            raise ValueError(f"batch_size is 1 to {MOST_OF_A_BATCH}")
        super().__init__(source, client, transform, on_error, batches_ahead, bytes_ahead, transport)
        self.batch_size, self.shuffle, self.seed, self.tail = batch_size, shuffle, seed, Tail(tail)
        self._rank, self._world = rank, world_size
        self.epoch = 0
        self._position = 0      # of the epoch's samples seen by all ranks together
        self._over = False      # the iteration in this process came to the epoch's end: the next begins anew

    # ---- where it stands ------------------------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next iteration gives, from its beginning."""
        self.epoch, self._position, self._over = epoch, 0, False

    def deal(self) -> Deal:
        """What this rank gets when an iteration begins now."""
        rank, world = world_of(self._rank, self._world)
        return Deal(len(self.samples), 0 if self._over else self._position, self.batch_size, rank, world, self.tail)

    def stand_at(self, position: int) -> None:
        """The next iteration goes on after so many of the epoch's samples, counted over all ranks."""
        if not 0 <= position <= len(self.samples):
            raise ValueError(f"there is no position {position} in an epoch of {len(self.samples)} samples")
        self._position, self._over = position, False

    def __len__(self) -> int:
        return self.deal().samples()

    def state_dict(self) -> Dict[str, Any]:
        """Where the dataset stands: after the last batch whose samples have all been given out by an iteration in this process. What DataLoader's
        workers have given is known to Loader alone: take the state from it. RuntimeError: this is such a worker."""
        if torch.utils.data.get_worker_info() is not None:
            raise RuntimeError("a worker knows only its own part: take the state from millrace.torch.Loader")
        return self.state_at(self._position)

    def state_at(self, position: int) -> Dict[str, Any]:
        """The state of this epoch after so many samples."""
        return {"version": 1, "epoch": self.epoch, "position": position, "seed": self.seed, "shuffle": self.shuffle, "samples": len(self.samples),
                "fingerprint": self.samples.fingerprint}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where state was taken, with any number of ranks and workers and any batch_size. ValueError: it is of other samples, or another order
        of them."""
        if state.get("version") != 1:
            raise ValueError(f"not a state of this dataset: version {state.get('version')!r}")
        for name, mine in (("fingerprint", self.samples.fingerprint), ("samples", len(self.samples)), ("shuffle", self.shuffle)):
            if state[name] != mine:
                raise ValueError(f"the state is of another dataset: its {name} is {state[name]!r}, here it is {mine!r}")
        self.seed, self.epoch = state["seed"], state["epoch"]
        self.stand_at(state["position"])

    # ---- samples --------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        """This rank's samples from where the dataset stands to the epoch's end; in a worker those of the worker's batches."""
        info = torch.utils.data.get_worker_info()
        worker, workers = (info.id, info.num_workers) if info is not None else (0, 1)
        deal, order = self.deal(), sequence(len(self.samples), self.shuffle, self.seed, self.epoch)
        ahead = Ahead(Fetcher(self.samples, self.client, self.transport), deal.batches(order, worker, workers), self.batches_ahead, self.bytes_ahead)
        seen, self._over = 0, False
        try:
            while (indices := ahead.peek()) is not None:
                results = ahead.take()
                for i in range(len(indices)):
                    made = self.made_of(indices[i:i + 1], results[i:i + 1])[0]
                    results[i] = None  # type: ignore[call-overload]  # its memory is the sample's from here on
                    if i == len(indices) - 1:
                        seen += 1
                        if info is None:
                            self._position = deal.after(seen)
                    yield made
        finally:
            ahead.close()
        if info is None:
            self._position, self._over = len(self.samples), True

    def __getstate__(self) -> Dict[str, Any]:
        rank, world = world_of(self._rank, self._world)  # a worker that is spawned knows nothing of torch.distributed
        return {**super().__getstate__(), "_rank": rank, "_world": world}
