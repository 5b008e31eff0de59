"""WebDataset's shards by millrace: URLs millrace://bucket/key, read ahead while they are unpacked.

    import millrace.webdataset
    samples = millrace.webdataset.dataset("millrace://dataset/shards/{000..099}.tar", shardshuffle=100)

dataset() is webdataset.WebDataset with another opener, which pickles: workers may be forked or spawned. register() instead has webdataset's own gopen()
(and so webdataset.WebDataset, TarWriter, ShardWriter) know millrace://, in this process and those forked from it. Needs webdataset.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, Optional

try:
    import webdataset
    from webdataset import cache
    from webdataset.gopen import gopen, gopen_schemes
except ImportError as missing:
    raise ImportError("millrace.webdataset needs webdataset, which cannot be imported: pip install 'millrace[webdataset]'") from missing

from .client import Client

__all__ = ["Opener", "dataset", "register"]

_SCHEME = "millrace"


class Opener:
    """A stage of a pipeline, in place of webdataset's url_opener: streams of URLs. What is not millrace:// is webdataset's. handler: as everywhere in
    webdataset, is called with an error; true goes on with the next shard, false ends. options: see millrace.io.ObjectReader."""

    def __init__(self, client: Optional[Client] = None, handler: Callable[[Exception], bool] = webdataset.reraise_exception, **options: Any):
        self.client = client if client is not None else Client()
        self.handler, self.options = handler, options

    def __call__(self, shards: Iterable[Any]) -> Iterator[Dict[str, Any]]:
        for shard in shards:
            url = shard["url"] if isinstance(shard, dict) else shard
            try:
                ours = url.startswith(f"{_SCHEME}://")
                stream = self.client.open(url, "rb", **self.options) if ours else gopen(url)
                yield {**(shard if isinstance(shard, dict) else {}), "url": url, "stream": stream}
            except Exception as error:  # pylint: disable=broad-except  # the handler decides
                if not self.handler(error):
                    return


def dataset(urls: Any, *, client: Optional[Client] = None, handler: Callable[[Exception], bool] = webdataset.reraise_exception,
            **options: Any) -> "webdataset.WebDataset":
    """webdataset.WebDataset(urls, handler=handler, **options) that opens millrace:// URLs. ValueError: it caches in files, which is webdataset's own."""
    made = webdataset.WebDataset(urls, handler=handler, **options)
    places = [i for i, stage in enumerate(made.pipeline) if isinstance(stage, cache.StreamingOpen)]
    if len(places) != 1:
        raise ValueError("this WebDataset does not open streams (cache_dir, WDS_CACHE?): use register()")
    made.pipeline[places[0]] = Opener(client, handler)
    return made


def register(client: Optional[Client] = None) -> None:
    """Has webdataset.gopen() open millrace:// URLs, to read ("rb") and to write ("wb": the shard appears when it is closed)."""
    store = client if client is not None else Client()

    def opened(url: str, mode: str = "rb", _bufsize: int = 8192, **_: Any) -> Any:
        return store.open(url, mode)
    gopen_schemes[_SCHEME] = opened
