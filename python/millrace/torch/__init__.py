"""PyTorch on a store: datasets that read whole batches at once and ahead of their use, a loader that resumes, checkpoints.

    from millrace.torch import Loader, MapDataset, Reader, StreamDataset, Writer
    data = StreamDataset("millrace://dataset/train/", batch_size=256, shuffle=True, seed=7)
    for batch in Loader(data, num_workers=8, collate_fn=stack): ...

Needs torch ("pip install millrace[torch]"); `import millrace` does not. docs/client/pytorch.md says what resuming means.
"""
try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("millrace.torch needs PyTorch, which cannot be imported: pip install 'millrace[torch]'") from error

from .checkpoint import Reader, Writer
from .datasets import MapDataset, StreamDataset
from .loader import Loader
from .order import Deal, Tail
from .samples import Sample, Samples

__all__ = ["Deal", "Loader", "MapDataset", "Reader", "Sample", "Samples", "StreamDataset", "Tail", "Writer"]
