"""A DataLoader over a StreamDataset that knows where the epoch stands."""
from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping

import torch.utils.data

from .datasets import StreamDataset

__all__ = ["Loader"]


class Loader:
    """Batches of a StreamDataset by DataLoader, whose arguments it takes but for those that say which samples: batch_size is the dataset's.

    Each iteration is an epoch, or what is left of it after load_state_dict(); then the next begins. len() is the number of batches that the next
    iteration gives on this rank. One iteration at a time. ValueError: an argument is not for it."""

    def __init__(self, dataset: StreamDataset, **options: Any):
        for name in ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"):
            if name in options:
                raise ValueError(f"{name} is said by the dataset")
        if options.get("in_order", True) is not True:
            raise ValueError("without in_order nothing can be said about what was seen")
        if options.get("persistent_workers"):
            raise ValueError("workers that persist do not hear of the next epoch")
        self.dataset = dataset
        self._options = options
        self._position = dataset.deal().position    # seen by all ranks: what state_dict() says

    def __len__(self) -> int:
        return self.dataset.deal().steps()

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next iteration gives."""
        self.dataset.set_epoch(epoch)
        self._position = 0

    def state_dict(self) -> Dict[str, Any]:
        """After the last batch that this loader has given out: what DataLoader has read beyond it counts as not seen. To be taken on all ranks after
        the same number of batches; it is then the same on all, and one of them need keep it. Small; of plain Python values."""
        return self.dataset.state_at(self._position)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration goes on there. See StreamDataset.load_state_dict()."""
        self.dataset.load_state_dict(state)
        self._position = self.dataset.deal().position

    def __iter__(self) -> Iterator[Any]:
        self.dataset.stand_at(self._position)
        deal, epoch = self.dataset.deal(), self.dataset.epoch
        if deal.steps() > 0:  # workers are not started for nothing
            batches = torch.utils.data.DataLoader(self.dataset, batch_size=self.dataset.batch_size, **self._options)
            for step, batch in enumerate(batches):
                self._position = deal.after(step + 1)
                yield batch
        self.set_epoch(epoch + 1)
