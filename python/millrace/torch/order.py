"""Which samples a rank and its workers read, in which order: functions of a seed, an epoch, a position and the size of the world, nothing else.

An epoch is one sequence of all samples, the same on every rank. It is dealt in steps: a step takes the next world * batch_size samples of it and gives
batch_size of them, one behind the other, to each rank. Worker w of n of a rank makes its steps w, w + n, …, and DataLoader takes their batches in turn, so
that a rank's batches come in order of the steps whatever n is. After s steps on all ranks exactly the first s * world * batch_size samples have been seen:
one number says where an epoch stands, and any other world can go on from there.
"""
from __future__ import annotations

import enum
import os
from dataclasses import dataclass
from typing import Iterator, List, Optional, Sequence, Tuple

import torch

__all__ = ["Deal", "Tail", "sequence", "world_of"]


class Tail(str, enum.Enum):
    """What becomes of the samples at an epoch's end that do not fill a step.

    UNEVEN: dealt evenly; ranks differ by one sample, and the last batch of some may be missing. Each sample is seen exactly once.
    DROP: not seen in this epoch. All ranks have the same number of full batches.
    PAD: filled up with samples from the epoch's beginning. All ranks have the same number of full batches; these samples are seen twice."""
    UNEVEN = "uneven"
    DROP = "drop"
    PAD = "pad"


def world_of(rank: Optional[int], world: Optional[int]) -> Tuple[int, int]:
    """Rank and size of the world: those given, else those of torch.distributed, else of RANK and WORLD_SIZE, else 0 and 1."""
    if (rank is None) != (world is None):
        raise ValueError("rank and world_size are given both or not at all")
    if rank is None or world is None:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
        else:
            rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if not 0 <= rank < world:
        raise ValueError(f"there is no rank {rank} of {world}")
    return rank, world


def sequence(count: int, shuffle: bool, seed: int, epoch: int) -> Sequence[int]:
    """An epoch's sequence of 0 … count - 1: the same everywhere for the same arguments (8 bytes a sample where it is shuffled)."""
    if not shuffle:
        return range(count)
    generator = torch.Generator()
    generator.manual_seed((seed * 0x9E3779B97F4A7C15 + epoch) & 0x7FFFFFFFFFFFFFFF)
    return torch.randperm(count, generator=generator)  # type: ignore[return-value]


@dataclass(frozen=True)
class Deal:
    """What a rank gets of the samples of an epoch from position on."""
    count: int          # samples of the epoch
    position: int       # of them seen by all ranks together when dealing begins
    batch_size: int
    rank: int
    world: int
    tail: Tail

    def _width(self) -> int:
        return self.world * self.batch_size

    def steps(self) -> int:
        """Batches that this rank has."""
        full, rest = divmod(self.count - self.position, self._width())
        if rest == 0 or self.tail == Tail.DROP:
            return full
        return full + (1 if self.tail == Tail.PAD or self._share(rest) else 0)

    def _share(self, rest: int) -> range:
        """This rank's part of the last samples, relative to where they begin."""
        first, behind = (-(-rank * rest // self.world) for rank in (self.rank, self.rank + 1))  # rounded up: rank 0 has one if any has
        return range(first, behind)

    def samples(self) -> int:
        """Samples of all these batches."""
        steps = self.steps()
        return (steps - 1) * self.batch_size + len(self.places(steps - 1)) if steps else 0

    def places(self, step: int) -> List[int]:
        """Where in the epoch's sequence the samples of this rank's batch are."""
        begin = self.position + step * self._width()
        rest = self.count - begin
        if rest >= self._width() or self.tail == Tail.PAD:
            first = begin + self.rank * self.batch_size
            return [place % self.count if place >= self.count else place for place in range(first, first + self.batch_size)]
        return [begin + place for place in self._share(rest)]

    def batches(self, order: Sequence[int], worker: int = 0, workers: int = 1) -> Iterator[List[int]]:
        """Indices of the samples of each batch of a worker."""
        for step in range(worker, self.steps(), workers):
            yield [int(order[place]) for place in self.places(step)]

    def after(self, steps: int) -> int:
        """The position when all ranks have seen so many steps. Past a step that a rank has no batch of, the epoch is over."""
        return min(self.position + steps * self._width(), self.count)
