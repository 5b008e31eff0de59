"""The file system of the power-cut tests itself: what it holds to be durable is what was flushed, on this kernel, in all ways that the daemon uses."""
import ctypes
import mmap
import os
import random
import subprocess
import tempfile

import pytest

from tests.conftest import SEED
from tests.power import cutfs
from tests.power.cutfs import CutFs, entries, image, roomy

pytestmark = [pytest.mark.daemon, pytest.mark.skipif(cutfs.missing() is not None, reason=str(cutfs.missing()))]
PAGE, KIB, MIB = 4096, 1 << 10, 1 << 20


class Place:
    """A cutfs with one drive folder, which is durable."""

    def __init__(self, fs, folder):
        self.fs, self.folder = fs, folder
        self.drive = fs.mount / "drive1"
        self.drive.mkdir()
        fs.tell("settle")
        self.handle = os.open(self.drive, os.O_RDONLY)

    def open(self, name, flags=0):
        return os.open(self.drive / name, os.O_RDWR | os.O_CREAT | flags, 0o600)

    def sync_names(self):
        os.fsync(self.handle)

    def after(self, mode="none", seed=1, cut=None):
        """{name: bytes} of the drive as a cut now leaves it."""
        image(self.fs.log, self.fs.now() if cut is None else cut, mode, seed, self.folder / "image")
        top = self.folder / "image/drive1"
        return {p.relative_to(top).as_posix(): p.read_bytes() for p in top.rglob("*") if p.is_file()}

    def kinds(self, since):
        return [entry.kind for entry in entries(self.fs.log)[since:]]


@pytest.fixture
def place():
    with tempfile.TemporaryDirectory(prefix="millrace-cutfs-", dir=roomy()) as name, CutFs(name) as fs:
        made = Place(fs, fs.log.parent)
        yield made
        os.close(made.handle)


def durable_file(place, name, data):
    fd = place.open(name)
    os.pwrite(fd, data, 0)
    os.fsync(fd)
    place.sync_names()
    return fd


def test_data_needs_its_own_flush(place):
    fd, other = durable_file(place, "a", b"old" * 2000), durable_file(place, "b", b"")
    os.pwrite(fd, b"new" * 2000, 0)
    os.fsync(other)
    place.sync_names()
    assert place.after("none")["a"] == b"old" * 2000
    assert place.after("all")["a"] == b"new" * 2000
    os.fdatasync(fd)
    assert place.after("none")["a"] == b"new" * 2000


def test_names_need_their_folder(place):
    fd = place.open("a")
    os.pwrite(fd, b"x", 0)
    os.fsync(fd)
    assert "a" not in place.after("none") and place.after("all")["a"] == b"x"
    place.sync_names()
    assert place.after("none")["a"] == b"x"
    os.rename(place.drive / "a", place.drive / "b")
    assert list(place.after("none")) == ["a"] and list(place.after("all")) == ["b"]
    place.sync_names()
    assert place.after("none") == {"b": b"x"}
    os.unlink(place.drive / "b")
    assert list(place.after("none")) == ["b"] and place.after("all") == {}
    place.sync_names()
    assert place.after("none") == {}


def test_a_name_without_data(place):
    fd = place.open("a")
    os.pwrite(fd, b"x" * 100, 0)
    place.sync_names()
    assert place.after("none")["a"] == b""
    os.fsync(fd)
    assert place.after("none")["a"] == b"x" * 100


def test_sizes(place):
    fd = durable_file(place, "a", b"x" * 5000)
    os.posix_fallocate(fd, 0, 20000)
    assert len(place.after("none")["a"]) == 5000 and place.after("all")["a"] == b"x" * 5000 + bytes(15000)
    os.ftruncate(fd, 700)
    assert len(place.after("none")["a"]) == 5000 and place.after("all")["a"] == b"x" * 700
    os.ftruncate(fd, 1000)
    os.fdatasync(fd)
    assert place.after("none")["a"] == b"x" * 700 + bytes(300)


def test_one_durable_write_is_no_flush_of_the_file(place):
    """RWF_DSYNC and O_DSYNC, whether or not the kernel sends an fsync of its own behind them."""
    for name, flags, extra in (("a", 0, os.RWF_DSYNC), ("b", os.O_DSYNC, 0)):
        plain = durable_file(place, name, bytes(3 * PAGE))
        os.pwrite(plain, b"p" * PAGE, 0)
        fd = place.open(name, flags)
        since = place.fs.now()
        os.pwritev(fd, [b"d" * 300], PAGE, extra)
        kinds = place.kinds(since)
        assert kinds[:2] == ["write", "range"], kinds
        found = place.after("none")[name]
        assert found[PAGE:PAGE + 300] == b"d" * 300 and found[:PAGE] == bytes(PAGE), name
        assert place.after("none", cut=since + 1)[name] == bytes(3 * PAGE)
        os.fdatasync(plain)
        assert place.after("none")[name][:PAGE] == b"p" * PAGE


def test_a_durable_write_makes_the_file_long_enough(place):
    fd = durable_file(place, "a", b"")
    os.posix_fallocate(fd, 0, 1 << 20)
    direct = place.open("a", os.O_DIRECT)
    with mmap.mmap(-1, PAGE) as buffer:
        buffer[:] = b"d" * PAGE
        os.pwritev(direct, [buffer], 8 * PAGE, os.RWF_DSYNC)
        assert place.after("none")["a"] == bytes(8 * PAGE) + b"d" * PAGE
        os.pwritev(direct, [buffer], 0)
        assert place.after("none")["a"][:PAGE] == bytes(PAGE)
        os.fdatasync(fd)
        assert place.after("none")["a"] == (b"d" * PAGE + bytes(7 * PAGE) + b"d" * PAGE).ljust(1 << 20, b"\0")


def test_large_durable_writes_are_torn_while_under_way(place):
    """The kernel cuts them into requests; each is torn before its end and durable after it."""
    fd = durable_file(place, "a", bytes(3 * MIB))
    since = place.fs.now()
    os.pwritev(fd, [b"d" * (2 * MIB + PAGE)], 0, os.RWF_DSYNC)
    assert place.after("none")["a"].count(b"d") == 2 * MIB + PAGE
    counts = {place.after("random", seed, since + 1)["a"].count(b"d") for seed in range(40)}
    assert len(counts) > 3 and all(count % 512 == 0 for count in counts), counts


def test_shared_mappings(place):
    """LMDB's lock file is one, and its data file is mapped for reading while it is written."""
    fd = durable_file(place, "a", bytes(2 * PAGE))
    with mmap.mmap(fd, 2 * PAGE) as mapped:
        other = place.open("a", os.O_DSYNC)
        os.pwrite(other, b"w" * PAGE, PAGE)
        assert mapped[PAGE:PAGE + 3] == b"www"
        mapped[:3] = b"map"
        assert os.pread(other, 3, 0) == b"map"
        assert place.after("none")["a"][:3] == bytes(3)
        mapped.flush()
        assert place.after("none")["a"][:3] == b"map"


def test_unaligned_writes_keep_what_is_beside_them(place):
    fd = durable_file(place, "a", b"0" * 2048)
    os.pwrite(fd, b"1" * 100, 100)
    os.pwrite(fd, b"2" * 100, 300)
    seen = {place.after("random", seed)["a"] for seed in range(40)}
    first, both = b"0" * 100 + b"1" * 100 + b"0" * 1848, b"0" * 100 + b"1" * 100 + b"0" * 100 + b"2" * 100 + b"0" * 1648
    assert seen == {b"0" * 2048, first, both}  # the second write's sector has the first one in it


def test_pieces_go_their_own_ways(place):
    fd = durable_file(place, "a", bytes(64 * PAGE))
    for number in range(64):
        os.pwrite(fd, bytes([number + 1]) * PAGE, number * PAGE)
    later_without_earlier = torn = 0
    for seed in range(30):
        found = place.after("random", seed)["a"]
        pages = [found[n * PAGE:(n + 1) * PAGE] for n in range(64)]
        whole = [page == bytes([n + 1]) * PAGE for n, page in enumerate(pages)]
        torn += sum(any(page) and not whole[n] for n, page in enumerate(pages))
        later_without_earlier += any(whole[n + 1] and not any(pages[n]) for n in range(63))
        assert all(set(page) <= {0, n + 1} for n, page in enumerate(pages))
        assert place.after("random", seed)["a"] == found, "a seed gives one image"
    assert torn > 0 and later_without_earlier > 0
    assert sum(place.after("but", 5)["a"][n * PAGE] == 0 for n in range(64)) == 1
    assert sum(place.after("one", 5)["a"][n * PAGE] != 0 for n in range(64)) == 1


def test_the_same_as_the_real_thing(place):
    """Random operations: the mounted files, the image of a cut that loses nothing, and a model are the same; what was settled is never lost."""
    chance, model, handles = random.Random(SEED), {}, {}
    for _ in range(400):
        name = f"f{chance.randrange(6)}"
        if name not in model:
            model[name], handles[name] = bytearray(), place.open(name)
        way, file = chance.randrange(10), model[name]
        if way < 5:
            at, data = chance.randrange(20000), chance.randbytes(chance.randrange(1, 9000)) if way else bytes(5000)
            os.pwritev(handles[name], [data], at, chance.choice([0, 0, os.RWF_DSYNC]))
            if len(file) < at + len(data):
                file.extend(bytes(at + len(data) - len(file)))
            file[at:at + len(data)] = data
        elif way < 7:
            size = chance.randrange(25000)
            os.ftruncate(handles[name], size)
            del file[size:]
            file.extend(bytes(size - len(file)))
        elif way == 7:
            os.fsync(handles[name])
        elif way == 8:
            os.close(handles.pop(name))
            os.unlink(place.drive / name)
            del model[name]
        else:
            new = f"f{chance.randrange(6)}"
            if new != name:
                os.rename(place.drive / name, place.drive / new)
                if new in handles:
                    os.close(handles.pop(new))
                model[new], handles[new] = model.pop(name), handles.pop(name)
    expected = {name: bytes(data) for name, data in model.items()}
    assert {p.name: p.read_bytes() for p in place.drive.iterdir()} == expected
    assert place.after("all") == expected
    place.fs.tell("settle")
    assert place.after("none") == expected


def test_failing_folders(place):
    fd = durable_file(place, "a", b"x")
    place.fs.tell("fail drive1")
    since = place.fs.now()
    for call in (lambda: os.pwrite(fd, b"y", 0), lambda: os.fsync(fd), lambda: os.unlink(place.drive / "a"), lambda: os.mkdir(place.drive / "d")):
        with pytest.raises(OSError):
            call()
    assert place.fs.now() == since
    place.fs.tell("mend drive1")
    os.pwrite(fd, b"y", 0)
    assert place.after("all")["a"] == b"y"


def test_holes(place):
    fd = durable_file(place, "a", b"x" * PAGE)
    os.posix_fallocate(fd, 0, 10 * PAGE)
    os.pwrite(fd, b"y", 5 * PAGE)
    assert os.lseek(fd, 0, os.SEEK_HOLE) == PAGE and os.lseek(fd, PAGE, os.SEEK_DATA) == 5 * PAGE
    with pytest.raises(OSError):
        os.lseek(fd, 6 * PAGE, os.SEEK_DATA)


def test_rename_without_replacing(place):
    durable_file(place, "a", b"a")
    durable_file(place, "b", b"b")
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.renameat2(place.handle, b"a", place.handle, b"b", 1) == -1 and ctypes.get_errno() == 17
    assert libc.renameat2(place.handle, b"a", place.handle, b"c", 1) == 0
    assert sorted(place.after("all")) == ["b", "c"]


def test_usage(place):
    for arguments in ([], [place.fs.log, "image", "1"], [place.fs.log, "image", "1", "sometimes", "1", place.folder / "image"],
                      [place.fs.log, "image", "1000000", "none", "1", place.folder / "image"], [place.folder / "nothing", "list"]):
        assert subprocess.run([cutfs.CUTIMG, *arguments], capture_output=True, check=False).returncode != 0, arguments
