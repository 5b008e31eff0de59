"""A cutfs (cutfs.c): mounted, asked and told; and what a power cut would leave of it, made by cutimg."""
import functools
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tests.support.daemon import BUILD

CUTFS = BUILD / "power/cutfs"
CUTIMG = BUILD / "power/cutimg"


@functools.cache
def missing():
    """Why there can be no cutfs here, or None."""
    if not CUTFS.exists() or not CUTIMG.exists():
        return f"{CUTFS} is not built: make power-bin"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse cannot be used here"
    try:
        with tempfile.TemporaryDirectory(prefix="millrace-cutfs-") as folder, CutFs(folder):
            return None
    except OSError as error:
        return f"no file system can be mounted here: {error}"


def roomy():
    """A folder in memory for images, if there is one with room; else None, which is the usual temporary folder."""
    try:
        space = os.statvfs("/dev/shm")
    except OSError:
        return None
    return "/dev/shm" if space.f_bavail * space.f_frsize >= 2 << 30 else None


class CutFs:
    """Mounted at folder/mount, its log beside it."""

    def __init__(self, folder):
        self.mount = Path(folder) / "mount"
        self.log = Path(folder) / "cut.log"
        self.mount.mkdir()
        self.control = -1
        self.process = subprocess.Popen([CUTFS, self.mount, self.log], stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while not (self.mount / ".cut").exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise OSError(f"cutfs could not be mounted (status {self.process.poll()})")
            time.sleep(0.01)
        self.control = os.open(self.mount / ".cut", os.O_RDWR)

    def now(self):
        """Number of entries in the log: what has been answered by now is among them."""
        return int(os.pread(self.control, 32, 0))

    def tell(self, command):
        os.pwrite(self.control, command.encode(), 0)

    def close(self):
        if self.control >= 0:
            os.close(self.control)
            self.control = -1
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if os.path.ismount(self.mount):
            subprocess.run(["umount", "-l", self.mount], check=False)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class Entry:
    """A line of `cutimg LOG list`."""

    def __init__(self, line):
        number, self.kind, _, self.path, offset, length = line.split(" ")
        self.number, self.offset, self.length = int(number), int(offset), int(length)

    def __repr__(self):
        return f"{self.number} {self.kind} {self.path} {self.offset}+{self.length}"


def entries(log):
    done = subprocess.run([CUTIMG, log, "list"], check=True, capture_output=True, text=True)
    return [Entry(line) for line in done.stdout.splitlines()]


def image(log, cut, mode, seed, folder):
    """Makes folder as a cut at that number leaves the file system; says what became of each volatile piece."""
    shutil.rmtree(folder, ignore_errors=True)
    done = subprocess.run([CUTIMG, log, "image", str(cut), mode, str(seed), folder], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
