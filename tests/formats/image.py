"""A store's folders as one compressed file: packed without owners and times, unpacked with holes where there are zeroes.

The files of a store are made ahead and mostly empty, and its drives resemble each other: a dictionary that is larger than the whole keeps an image small.
"""
import io
import lzma
import os
import tarfile

BLOCK = 64 << 10
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 128 << 20}]


def plain(info):
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


def pack(folder, names, path):
    """Writes these folders below `folder` to `path`. Like files of all drives stand side by side."""
    files = sorted((file for name in names for file in (folder / name).rglob("*")), key=lambda f: (not f.is_dir(), f.parts[len(folder.parts) + 1:], f))
    with lzma.open(path, "wb", filters=FILTERS) as packed, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in names:
            tar.add(folder / name, name, recursive=False, filter=plain)
        for file in files:
            tar.add(file, str(file.relative_to(folder)), recursive=False, filter=plain)


def unpack(path, folder):
    """The folders of an image below `folder`, which exists."""
    with lzma.open(path, "rb") as packed, tarfile.open(fileobj=packed, mode="r|") as tar:
        for info in tar:
            target = folder / info.name
            if info.isdir():
                target.mkdir(mode=info.mode)
            else:
                fill(target, tar.extractfile(info), info)


def fill(target, source, info):
    zeroes = bytes(BLOCK)
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, info.mode), "wb") as file:
        while block := source.read(BLOCK):
            if block == zeroes[:len(block)]:
                file.seek(len(block), io.SEEK_CUR)
            else:
                file.write(block)
        file.truncate(info.size)
