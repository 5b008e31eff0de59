"""Reads of whole batches, begun before they are asked for, in bounded memory."""
from __future__ import annotations

import errno
import os
from collections import deque
from typing import Any, Callable, Deque, Iterator, List, NamedTuple, Optional, Sequence

from .. import _ops
from ..client import Client
from ..errors import TooLarge, error_of
from ..io import Flights
from ..types import Get, GetResult
from .samples import Samples

__all__ = ["Ahead", "Fetcher", "MOST_OF_A_BATCH", "samples_of"]

MOST_OF_A_BATCH = 65536     # samples: what one batched read takes

_GUESS, _MOST = 64 << 10, 8 << 20  # bytes that there is room for where a sample's length is not known: at first, and at most


class Fetcher:
    """Reads batches of samples. owner: one thread of one process"""

    def __init__(self, samples: Samples, client: Client, transport: Optional[str] = None):
        self.samples, self.client = samples, client
        self.transport = transport if transport is not None else "auto"
        self._guess = _GUESS

    def gets(self, indices: Sequence[int]) -> List[Get]:
        """The reads of a batch. Where a length is not known, there is room for what such samples had so far."""
        made = []
        for index in indices:
            get = self.samples.get(index)
            if get.length is None:
                get.into = self.client.buffer(self._guess)
            made.append(get)
        return made

    def room(self, indices: Sequence[int]) -> int:
        """Bytes of memory that a batch takes."""
        lengths = (self.samples.get(index).length for index in indices)
        return sum(self._guess if length is None else length for length in lengths)

    def settle(self, gets: Sequence[Get], results: List[GetResult]) -> List[GetResult]:
        """Reads once more what had not enough room, now that its size is known."""
        short = [i for i, result in enumerate(results) if gets[i].length is None and isinstance(result.error, TooLarge)
                 and result.size > gets[i].offset]
        for i, result in enumerate(results):
            if gets[i].length is None and result.error is None:
                self._guess = max(self._guess, min(result.bytes, _MOST))
        if short:
            again = [Get(gets[i].bucket, gets[i].key, gets[i].offset, results[i].size - gets[i].offset, if_match=gets[i].if_match) for i in short]
            self._guess = max(self._guess, min(max(get.length or 0 for get in again), _MOST))
            for i, result in zip(short, self.client.get_batch(again, transport=self.transport)):
                if result.error is None and result.size != results[i].size:
                    result.error = error_of(-errno.ESTALE, message="the object was replaced", where=f"{gets[i].bucket}/{gets[i].key}")
                results[i] = result
        return results

    def now(self, indices: Sequence[int]) -> List[GetResult]:
        """A batch, in one call."""
        gets = self.gets(indices)
        return self.settle(gets, self.client.get_batch(gets, transport=self.transport))


class _Begun(NamedTuple):
    indices: List[int]
    gets: List[Get]
    waiting: List[int]      # of the gets, those that were sent: the others are of no bytes
    tag: int
    room: int               # bytes


class Ahead:
    """Batches in a known order, of which the next are under way: batches_ahead of them and bytes_ahead at most (what is larger alone), beside the
    one that is waited for.

    owner: one thread of one process. After a fork the child makes its own."""

    def __init__(self, fetcher: Fetcher, batches: Iterator[List[int]], batches_ahead: int, bytes_ahead: int):
        self._fetcher, self._batches = fetcher, batches
        self._most, self._bytes = max(0, batches_ahead), bytes_ahead
        self._begun: Deque[_Begun] = deque()
        self._held = 0
        self._next: Optional[List[int]] = None  # the batch after those begun, where it is known
        self._flights: Optional[Flights] = None
        self._tag = 0
        self.pid = os.getpid()

    def peek(self) -> Optional[List[int]]:
        """The indices that come next; None at the end."""
        return self._begun[0].indices if self._begun else self._following()

    def _following(self) -> Optional[List[int]]:
        """The batch after those begun."""
        if self._next is None:
            self._next = next(self._batches, None)
        return self._next

    def _begin(self, indices: List[int]) -> None:
        room = self._fetcher.room(indices)
        handle = self._fetcher.client._handle()  # pylint: disable=protected-access
        if self._flights is None:
            self._flights = Flights(handle, self._most + 1)
        gets = _ops.with_memory(self._fetcher.gets(indices), handle.pool.take)
        waiting = [i for i, get in enumerate(gets) if not _ops.nothing_wanted(get)]
        self._tag += 1
        if waiting:
            self._flights.begin(self._tag, _ops.get_batch(handle.client, [gets[i] for i in waiting], self._fetcher.transport))
        self._begun.append(_Begun(indices, gets, waiting, self._tag, room))
        self._held += room

    def fill(self) -> None:
        """Begins what there is room for."""
        while len(self._begun) < self._most:
            indices = self._following()
            if indices is None or (self._begun and self._held + self._fetcher.room(indices) > self._bytes):
                return
            self._next = None
            self._begin(indices)

    def take(self) -> List[GetResult]:
        """Waits for the next batch, with those after it under way. There must be one (peek())."""
        if not self._begun:
            indices, self._next = self._following(), None
            self._begin(indices)
        begun = self._begun.popleft()
        self._held -= begun.room
        results: List[GetResult] = [GetResult(buffer=get.into) for get in begun.gets]
        self.fill()
        answers = self._flights.wait(begun.tag) if begun.waiting else []
        for i, answer in zip(begun.waiting, answers):
            results[i] = answer
        return self._fetcher.settle(begun.gets, results)

    def close(self) -> None:
        """Cancels what is under way, and waits for its memory."""
        flights, self._flights = self._flights, None
        self._begun.clear()
        self._held = 0
        if flights is not None:
            flights.close()


def samples_of(samples: Samples, indices: Sequence[int], results: Sequence[GetResult], transform: Optional[Callable[[Any], Any]],
               on_error: Optional[Callable[[Get, Exception], Any]]) -> List[Any]:
    """What a dataset gives for a batch: each sample's transform, or what on_error makes of its error; without it the first error is raised."""
    made = []
    for index, result in zip(indices, results):
        if result.error is not None:
            if on_error is None:
                raise result.error
            made.append(on_error(samples.get(index), result.error))
            continue
        sample = samples.sample(index, result.buffer, result.bytes)
        made.append(sample.data if transform is None else transform(sample))
    return made
