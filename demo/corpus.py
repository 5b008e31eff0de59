"""What the demo stores: real files of this machine, and tar shards made of them."""
import hashlib
import os
import tarfile
from pathlib import Path

MIB = 1 << 20
LARGEST = 4 * MIB


def real_files(count, most_bytes):
    """Up to count regular files of the machine (headers, documentation, Python packages), a mixture of sizes."""
    roots = [Path("/usr/include"), Path("/usr/share/doc"), Path("/usr/lib/python3"), Path("/usr/lib/python3.11"), Path("/usr/share/perl"),
             Path("/usr/share/man"), Path("/etc"), Path("/usr/share/zoneinfo"), Path("build/venv/lib")]
    found, total = [], 0
    for root in roots:
        if not root.is_dir():
            continue
        taken = 0
        for folder, names, files in os.walk(root):
            names.sort()
            for name in sorted(files):
                path = Path(folder) / name
                try:
                    size = path.lstat().st_size
                    usable = path.is_file() and not path.is_symlink() and 0 < size <= LARGEST and os.access(path, os.R_OK)
                    name.encode("utf-8")
                except (OSError, UnicodeEncodeError):
                    continue
                if usable:
                    found.append(path)
                    taken += 1
                    total += size
            if taken > count // 3 or len(found) >= count or total >= most_bytes:
                break
        if len(found) >= count or total >= most_bytes:
            break
    return found[:count]


def copy_tree(files, folder):
    """Copies the files into one folder, a sub-folder a thousand; returns {relative name: (size, md5)}."""
    facts = {}
    for number, source in enumerate(files):
        name = f"{number // 1000:03}/{number:05}-{source.name}"
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        data = source.read_bytes()
        target.write_bytes(data)
        facts[name] = (len(data), hashlib.md5(data).hexdigest())
    return facts


def make_shards(folder, sources, count, size):
    """Tar files of at least `size` bytes each, of the files in `sources`, again and again under new names."""
    files = sorted(p for p in sources.rglob("*") if p.is_file())
    shards = []
    at = 0
    for number in range(count):
        path = folder / f"shard-{number:02}.tar"
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            while tar.offset < size:
                tar.add(files[at % len(files)], arcname=f"{number}/{at:06}", recursive=False)
                at += 1
        shards.append(path)
    return shards


def digest_of(path):
    whole = hashlib.md5()
    with open(path, "rb") as file:
        while block := file.read(MIB):
            whole.update(block)
    return whole.hexdigest()
