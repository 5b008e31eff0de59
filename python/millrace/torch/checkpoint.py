"""torch.distributed.checkpoint on a store: each rank writes one object, tensors raw, so that they are read in place and in part.

    import torch.distributed.checkpoint as dcp
    dcp.save(state, storage_writer=millrace.torch.Writer("millrace://dataset/checkpoints/1"))
    dcp.load(state, storage_reader=millrace.torch.Reader("millrace://dataset/checkpoints/1"))

Below the checkpoint's prefix are "__RANK_0.raw" (items one behind the other: a tensor's elements in C order, in the writer's byte order; what is no tensor
as torch.save() has it) and, last, ".metadata" (torch's Metadata, pickled: read checkpoints only from stores that you trust). There is a checkpoint
when there is its .metadata.
"""
from __future__ import annotations

import ctypes
import dataclasses
import io
import os
import pickle
import sys
import uuid
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch.distributed._shard._utils import narrow_tensor_by_index
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from ..client import Client
from ..errors import NotFound
from ..types import Get, parse_url

__all__ = ["Reader", "Writer"]

_METADATA = ".metadata"
_SUFFIX = "_0.raw"
_VERSION = 1
Id = Union[str, "os.PathLike[str]"]


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where an item's bytes are; kept in .metadata. shape is None for what is no tensor."""
    name: str
    offset: int
    length: int
    dtype: Optional[torch.dtype] = None
    shape: Optional[Tuple[int, ...]] = None
    etag: str = ""      # of the object: no other version of it is read
    byte_order: str = sys.byteorder
    version: int = _VERSION


def _bytes_of(tensor: torch.Tensor) -> Any:
    """A contiguous CPU tensor's memory, whatever its type; valid while the tensor is."""
    size = tensor.numel() * tensor.element_size()
    return memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())).cast("B") if size > 0 else b""


def _folder(checkpoint: Id) -> Tuple[str, str]:
    bucket, prefix = parse_url(os.fspath(checkpoint))
    if not bucket or not prefix.strip("/"):
        raise ValueError(f"a checkpoint is at millrace://bucket/prefix, not {checkpoint!r}")
    return bucket, prefix.rstrip("/") + "/"


def _valid(checkpoint: Id) -> bool:
    try:
        _folder(checkpoint)
        return os.fspath(checkpoint).startswith(("millrace://", "s3://"))
    except (TypeError, ValueError):
        return False


class Writer(StorageWriter):
    """Writes a checkpoint below "millrace://bucket/prefix". overwrite: one that is there already ceases to exist first; otherwise FileExistsError.

    A tensor of a device goes through memory on the CPU, one at a time; options are those of millrace.io.ObjectWriter, which bounds what is under way
    (part_size * (in_flight + 1)). Objects of a rank appear when they are whole. Errors are millrace's."""

    def __init__(self, checkpoint: Id, *, client: Optional[Client] = None, overwrite: bool = False, **options: Any):
        super().__init__()
        self.client = client if client is not None else Client()
        self._overwrite, self._options = overwrite, options
        self.reset(checkpoint)

    def reset(self, checkpoint_id: Optional[Id] = None) -> None:
        if checkpoint_id:
            self.checkpoint_id = os.fspath(checkpoint_id)
            self._bucket, self._prefix = _folder(checkpoint_id)
        self._save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if not kwargs.get("use_collectives", True):
            raise ValueError("checkpoints without collectives (a .metadata for each rank) are not written")

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: List[SavePlan]) -> List[SavePlan]:
        """Called by the coordinator, before any rank writes."""
        metadata = self._prefix + _METADATA
        if self.client.exists(self._bucket, metadata):
            if not self._overwrite:
                raise FileExistsError(f"there is a checkpoint at {self.checkpoint_id}")
            self.client.delete(self._bucket, metadata)
        return [dataclasses.replace(plan, storage_data=f"__{rank}{_SUFFIX}") for rank, plan in enumerate(plans)]

    def _write(self, file: Any, item: WriteItem, planner: SavePlanner, name: str) -> WriteResult:
        data = planner.resolve_data(item)
        begin = file.tell()
        if item.type == WriteItemType.BYTE_IO:
            file.write(data.getbuffer())
            place = _Place(name, begin, file.tell() - begin)
        else:
            tensor = data.detach().cpu().resolve_conj().resolve_neg().contiguous()
            file.write(_bytes_of(tensor))
            place = _Place(name, begin, file.tell() - begin, tensor.dtype, tuple(tensor.shape))
        return WriteResult(index=item.index, size_in_bytes=place.length, storage_data=place)

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> "Future[List[WriteResult]]":
        results: List[WriteResult] = []
        if plan.items:
            with self.client.open(f"millrace://{self._bucket}/{self._prefix}{plan.storage_data}", "wb", **self._options) as file:
                results = [self._write(file, item, planner, plan.storage_data) for item in plan.items]
            etag = file.result.etag
            results = [dataclasses.replace(result, storage_data=dataclasses.replace(result.storage_data, etag=etag)) for result in results]
        future: "Future[List[WriteResult]]" = Future()
        future.set_result(results)
        return future

    def finish(self, metadata: Metadata, results: List[List[WriteResult]]) -> None:
        """Called by the coordinator when all ranks have written: now the checkpoint is there."""
        metadata.storage_data = {result.index: result.storage_data for of_rank in results for result in of_rank}
        metadata.storage_meta = self.storage_meta()
        self.client.put(self._bucket, self._prefix + _METADATA, pickle.dumps(metadata))
        if self._overwrite:  # what an earlier checkpoint of more ranks left
            names = {self._prefix + place.name for place in metadata.storage_data.values()}
            left = [entry.key for entry in self.client.list(self._bucket, self._prefix + "__", delimiter="/")
                    if entry.key.endswith(_SUFFIX) and entry.key not in names]
            for failure in self.client.delete_many(self._bucket, left) if left else []:
                raise failure

    def storage_meta(self) -> StorageMeta:
        return StorageMeta(checkpoint_id=self.checkpoint_id, save_id=self._save_id)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Id) -> bool:
        return _valid(checkpoint_id)


class _Part(NamedTuple):
    """A read for one item: the bytes that hold what is wanted of a stored tensor, and the tensor they go into."""
    item: ReadItem
    get: Get
    tensor: Optional[torch.Tensor]  # of the rows first to behind of that stored
    first: int
    target: Optional[torch.Tensor]  # where it is the planner's own tensor, filled in place


class Reader(StorageReader):
    """Reads a checkpoint below "millrace://bucket/prefix" that Writer wrote, on any number of ranks.

    Of a tensor the rows wanted (of its first dimension) are read, in batches of up to bytes_at_once, each one batched read; straight into tensors that
    are contiguous and on the CPU. NotFound: there is no checkpoint. ValueError: it was written otherwise. Errors of reads are millrace's."""

    def __init__(self, checkpoint: Id, *, client: Optional[Client] = None, bytes_at_once: int = 256 << 20, transport: Optional[str] = None):
        super().__init__()
        self.client = client if client is not None else Client()
        self._at_once, self._transport = bytes_at_once, transport
        self._places: Dict[MetadataIndex, _Place] = {}
        self.reset(checkpoint)

    def reset(self, checkpoint_id: Optional[Id] = None) -> None:
        self._places = {}
        if checkpoint_id:
            self.checkpoint_id = os.fspath(checkpoint_id)
            self._bucket, self._prefix = _folder(checkpoint_id)
        self._load_id = str(uuid.uuid4())

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        try:
            metadata = pickle.loads(self.client.get(self._bucket, self._prefix + _METADATA))
        except NotFound as error:
            raise NotFound(error.errno, s3_code=error.s3_code, http_status=error.http_status, request_id=error.request_id,
                           where=f"no checkpoint at {self.checkpoint_id}") from None
        metadata.storage_meta.load_id = self._load_id
        return metadata

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        for place in (metadata.storage_data or {}).values():
            if not isinstance(place, _Place) or place.version != _VERSION or place.byte_order != sys.byteorder:
                raise ValueError(f"the checkpoint at {self.checkpoint_id} was not written by millrace.torch.Writer of this version and byte order")
        self._places = metadata.storage_data or {}

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: List[LoadPlan]) -> List[LoadPlan]:
        return plans

    def _part(self, item: ReadItem, planner: LoadPlanner) -> _Part:
        place = self._places[item.storage_index]
        key = self._prefix + place.name
        if item.type == LoadItemType.BYTE_IO or place.shape is None:
            get = Get(self._bucket, key, place.offset, place.length, if_match=place.etag or None)
            return _Part(item, get, None, 0, None)
        first, rows = (int(item.storage_offsets[0]), int(item.lengths[0])) if place.shape else (0, 1)
        row_bytes = place.length // place.shape[0] if place.shape and place.shape[0] else place.length
        shape = (rows, *place.shape[1:]) if place.shape else ()
        target: Optional[torch.Tensor] = planner.resolve_tensor(item).detach()
        assert target is not None
        if tuple(target.shape) != tuple(item.lengths):
            raise ValueError(f"{item.storage_index.fqn}: the place for it has shape {tuple(target.shape)}, not {tuple(item.lengths)}")
        if tuple(target.shape) != shape or target.dtype != place.dtype or target.device.type != "cpu" or not target.is_contiguous() \
                or target.is_conj() or target.is_neg():
            target = None
        tensor = target if target is not None else torch.empty(shape, dtype=place.dtype)
        get = Get(self._bucket, key, place.offset + first * row_bytes, rows * row_bytes, into=tensor, if_match=place.etag or None)
        return _Part(item, get, tensor, first, target)

    def _finish(self, part: _Part, data: Any, planner: LoadPlanner) -> None:
        if part.tensor is None:
            planner.load_bytes(part.item, io.BytesIO(data.data))
            return
        target = part.target
        if target is None:
            offsets = [int(offset) for offset in part.item.storage_offsets]
            if offsets:
                offsets[0] -= part.first
            target = planner.resolve_tensor(part.item).detach()
            target.copy_(narrow_tensor_by_index(part.tensor, offsets, part.item.lengths))
        planner.commit_tensor(part.item, target)

    def _read(self, parts: Sequence[_Part], planner: LoadPlanner) -> None:
        for part, result in zip(parts, self.client.get_batch([part.get for part in parts], transport=self._transport)):
            if result.error is not None:
                raise result.error
            if result.bytes != part.get.length:
                raise ValueError(f"{part.get.bucket}/{part.get.key} is shorter than its checkpoint says")
            self._finish(part, result, planner)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> "Future[None]":
        waiting: List[_Part] = []
        held = 0
        for item in plan.items:
            part = self._part(item, planner)
            if waiting and held + (part.get.length or 0) > self._at_once:
                self._read(waiting, planner)
                waiting, held = [], 0
            waiting.append(part)
            held += part.get.length or 0
        self._read(waiting, planner)
        future: "Future[None]" = Future()
        future.set_result(None)
        return future

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Id) -> bool:
        return _valid(checkpoint_id)
