"""The store as an fsspec file system: millrace://bucket/key. Made by fsspec.filesystem("millrace", endpoint=…), which takes what Client() takes."""
from __future__ import annotations

import io
import os
from datetime import datetime, timezone
from typing import Any, Dict, List, Optional, Sequence, Tuple

from fsspec.spec import AbstractFileSystem

from .client import Client
from .errors import NotFound
from .types import Get, parse_url

__all__ = ["MillraceFileSystem"]


def _file(bucket: str, key: str, size: int, mtime: float, etag: str) -> Dict[str, Any]:
    return {"name": f"{bucket}/{key}", "size": size, "type": "file", "mtime": mtime, "ETag": etag,
            "LastModified": datetime.fromtimestamp(mtime, timezone.utc)}


def _folder(name: str) -> Dict[str, Any]:
    return {"name": name, "size": 0, "type": "directory"}


class MillraceFileSystem(AbstractFileSystem):
    """Folders are what keys have in common up to a "/"; making and removing them means nothing, but that a bucket is the first. Reads of many ranges
    (cat_ranges, and so Parquet readers) are one batch. Nothing is cached: what others write is seen."""

    protocol = ("millrace",)
    root_marker = ""
    async_impl = False

    def __init__(self, client: Optional[Client] = None, **settings: Any):
        own = {name: settings.pop(name) for name in list(settings) if name in ("asynchronous", "loop", "use_listings_cache", "skip_instance_cache",
                                                                               "listings_expiry_time", "max_paths", "batch_size")}
        super().__init__(**own)
        self.client = client if client is not None else Client(**settings)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = os.fspath(path)
        for scheme in ("millrace://", "s3://"):
            if path.startswith(scheme):
                path = path[len(scheme):]
        return path.strip("/") or cls.root_marker

    def _split(self, path: str) -> Tuple[str, str]:
        return parse_url(self._strip_protocol(path))

    # ---- what is there --------------------------------------------------------------------------------------

    def info(self, path: str, **kwargs: Any) -> Dict[str, Any]:
        bucket, key = self._split(path)
        if not bucket:
            return _folder("")
        if not key:
            if not self.client.bucket_exists(bucket):
                raise FileNotFoundError(path)
            return _folder(bucket)
        try:
            found = self.client.head(bucket, key)
            return _file(bucket, key, found.size, found.mtime, found.etag)
        except NotFound:
            for _ in self.client.list(bucket, key + "/", page_size=1):
                return _folder(f"{bucket}/{key}")
            raise FileNotFoundError(path) from None

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> List[Any]:
        bucket, key = self._split(path)
        if not bucket:
            found = [_folder(entry.name) for entry in self.client.buckets()]
        else:
            found = self._below(bucket, key)
        return found if detail else [entry["name"] for entry in found]

    def _below(self, bucket: str, key: str) -> List[Dict[str, Any]]:
        prefix = key + "/" if key else ""
        found = []
        for entry in self.client.list(bucket, prefix, delimiter="/"):
            if entry.is_prefix:
                found.append(_folder(f"{bucket}/{entry.key.rstrip('/')}"))
            elif entry.key != prefix:
                found.append(_file(bucket, entry.key, entry.size, entry.mtime, entry.etag))
        if not found and key:
            entry = self.info(f"{bucket}/{key}")
            return [entry] if entry["type"] == "file" else []
        return found

    def find(self, path: str, maxdepth: Optional[int] = None, withdirs: bool = False, detail: bool = False, **kwargs: Any) -> Any:
        """All objects below, by one listing."""
        bucket, key = self._split(path)
        if not bucket or maxdepth is not None or withdirs:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs)
        prefix = key + "/" if key else ""
        found = {f"{bucket}/{entry.key}": _file(bucket, entry.key, entry.size, entry.mtime, entry.etag)
                 for entry in self.client.list(bucket, prefix) if not entry.key.endswith("/")}
        if not found and key and self.client.exists(bucket, key):
            entry = self.info(f"{bucket}/{key}")
            found = {entry["name"]: entry}
        return found if detail else list(found)

    def modified(self, path: str) -> datetime:
        return self.info(path)["LastModified"]

    def checksum(self, path: str) -> str:
        return self.info(path).get("ETag", "")

    ukey = checksum

    # ---- reading --------------------------------------------------------------------------------------------

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **kwargs: Any) -> bytes:
        if start is None and end is None:
            return self.client.get(*self._split(path))
        return self.cat_ranges([path], [start], [end], on_error="raise")[0]

    def _ranges(self, paths: Sequence[str], starts: Any, ends: Any) -> List[Get]:
        starts = [starts] * len(paths) if starts is None or isinstance(starts, int) else starts
        ends = [ends] * len(paths) if ends is None or isinstance(ends, int) else ends
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("paths, starts and ends are not equally many")
        sizes: Dict[str, int] = {}
        gets = []
        for path, start, end in zip(paths, starts, ends):
            bucket, key = self._split(path)
            if end is None or end < 0 or (start or 0) < 0:  # counted from the end
                if path not in sizes:
                    sizes[path] = self.client.head(bucket, key).size
                size = sizes[path]
                start = max(size + start, 0) if start is not None and start < 0 else start
                end = size if end is None else max(size + end, 0) if end < 0 else end
            start = start or 0
            gets.append(Get(bucket, key, start, max(end - start, 0)))
        return gets

    def cat_ranges(self, paths: Sequence[str], starts: Any, ends: Any, max_gap: Any = None, on_error: str = "return", **kwargs: Any) -> List[Any]:
        """All ranges as one batched read."""
        found: List[Any] = []
        for result in self.client.get_batch(self._ranges(paths, starts, ends)):
            if result.error is not None and on_error == "raise":
                raise result.error
            found.append(result.error if result.error is not None else bytes(result.data))
        return found

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, autocommit: bool = True, cache_options: Any = None, **kwargs: Any) -> Any:
        bucket, key = self._split(path)
        if mode == "ab":
            raise NotImplementedError("objects are not appended to")
        if mode == "rb":
            if isinstance(block_size, int):
                kwargs["block_size"] = block_size
            kwargs.pop("cache_type", None)
            return self.client.open(f"millrace://{bucket}/{key}", mode, **kwargs)
        return self.client.open(f"millrace://{bucket}/{key}", mode, **kwargs)

    def get_file(self, rpath: str, lpath: Any, **kwargs: Any) -> None:
        if self.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
            return
        with self._open(rpath) as source, open(lpath, "wb") as target:
            while True:
                block = source.read(8 << 20)
                if not block:
                    return
                target.write(block)

    # ---- writing --------------------------------------------------------------------------------------------

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        bucket, key = self._split(path)
        self.client.put(bucket, key, value, if_none_match=mode == "create", **kwargs)

    def put_file(self, lpath: str, rpath: str, callback: Any = None, mode: str = "overwrite", **kwargs: Any) -> None:
        if os.path.isdir(lpath):
            return
        with io.open(lpath, "rb") as source, self._open(rpath, "xb" if mode == "create" else "wb", **kwargs) as target:
            while True:
                block = source.read(8 << 20)
                if not block:
                    return
                target.write(block)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        if self.isdir(path1):
            return
        self.client.copy(*self._split(path1), *self._split(path2))

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: Any = None, **kwargs: Any) -> None:
        """A copy, then a delete: not at one stroke."""
        if self._strip_protocol(path1) == self._strip_protocol(path2):
            return
        self.copy(path1, path2, recursive=recursive, maxdepth=maxdepth, on_error="raise")
        self.rm(path1, recursive=recursive)

    def rm_file(self, path: str) -> None:
        self.client.delete(*self._split(path))

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: Any = None) -> None:
        paths = [path] if isinstance(path, str) else list(path)
        by_bucket: Dict[str, List[str]] = {}
        emptied = []
        for one in (found for given in paths for found in self.expand_path(given, recursive=recursive, maxdepth=maxdepth)):
            bucket, key = self._split(one)
            if not key:
                emptied.append(bucket)
            elif recursive or not self.isdir(one):
                by_bucket.setdefault(bucket, []).append(key)
        for bucket, keys in by_bucket.items():
            for failure in self.client.delete_many(bucket, keys):
                raise failure
        for bucket in emptied:
            if recursive:
                self.client.delete_bucket(bucket)

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        bucket, key = self._split(path)
        if not key or (create_parents and not self.client.bucket_exists(bucket)):
            self.client.create_bucket(bucket)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        bucket, key = self._split(path)
        if not self.client.bucket_exists(bucket):
            self.client.create_bucket(bucket)
        elif not key and not exist_ok:
            raise FileExistsError(path)

    def rmdir(self, path: str) -> None:
        bucket, key = self._split(path)
        if not key:
            self.client.delete_bucket(bucket)

    def invalidate_cache(self, path: Optional[str] = None) -> None:
        """There is none."""
