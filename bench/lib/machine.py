"""The machine: what a reader must know of it, and what a benchmark asks of it."""

import os
import platform
import resource
import shutil
import sys
import time
from pathlib import Path

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def say(text):
    print(text, file=sys.stderr, flush=True)


def processor():
    """The processor's name."""
    for line in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def topology():
    """Sockets, cores and threads, as far as the kernel tells them apart."""
    sockets, cores = set(), set()
    for cpu in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology"):
        socket, core = ((cpu / name).read_text(encoding="ascii").strip() for name in ("physical_package_id", "core_id"))
        sockets.add(socket)
        cores.add((socket, core))
    threads = os.cpu_count()
    if not cores:
        return f"{threads} processors"
    return f"{len(sockets)} socket(s), {len(cores)} core(s), {threads} thread(s)"


def file_system(folder):
    """The type of the file system that a folder lies on."""
    path, best, kind = str(Path(folder).resolve()), "", "unknown"
    for line in Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines():
        _, mounted, name = line.split()[:3]
        if len(mounted) >= len(best) and (path == mounted or path.startswith(mounted.rstrip("/") + "/")):
            best, kind = mounted, name
    return kind


def memory_bytes():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def describe(folder):
    """Facts for the reader of figures: no names of hosts or users."""
    return {"processor": processor(), "topology": topology(), "memory_gib": round(memory_bytes() / GIB, 1),
            "kernel": "Linux " + ".".join(platform.release().split(".")[:2]), "file_system": file_system(folder)}


def machine():
    """The same in a line, without the disk."""
    return f"{os.cpu_count()} x {processor()}, Linux {'.'.join(platform.release().split('.')[:2])}"


def free_bytes(folder):
    return shutil.disk_usage(folder).free


def drop_caches():
    """Empties the page cache. False where that is not permitted."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")
    except OSError:
        return False
    return True


def allow_many_files():
    """As many descriptors as the system lets this process, and those it starts, have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def of_process(pid, name, field):
    """A number of a line "field: 123 [kB]" of /proc/PID/name, kB as bytes; 0 where there is none."""
    try:
        lines = Path(f"/proc/{pid}/{name}").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    for line in lines:
        words = line.split()
        if words[0] == field + ":":
            return int(words[1]) * (KIB if words[-1] == "kB" else 1)
    return 0


def anonymous_bytes(pid):
    return of_process(pid, "status", "RssAnon")


def written_bytes(pid):
    """Bytes a process had written to devices, as the kernel charges it for pages that become dirty."""
    return of_process(pid, "io", "write_bytes")


def device_written_bytes(folder):
    """Bytes that the device under a folder's file system was given to write, by everybody; None where that isn't one block device."""
    device = os.stat(folder).st_dev
    try:
        fields = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").read_text(encoding="ascii").split()
    except OSError:
        return None
    return int(fields[6]) * 512


def settled(read, still_s, limit_s=60):
    """What read() gives once that has stood still for so long."""
    last, since, begun = read(), time.monotonic(), time.monotonic()
    while time.monotonic() - since < still_s and time.monotonic() - begun < limit_s:
        time.sleep(0.1)
        now = read()
        if now != last:
            last, since = now, time.monotonic()
    return last


def forget_peak(pid):
    """Lets VmHWM begin again at what is in use."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        pass
