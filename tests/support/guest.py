"""A guest without KVM: Debian's kernel under QEMU's emulation, over this machine's own root (9p, read-only, a tmpfs above it), with its own programs.

Needs root, and what `tools/deps.sh --qemu` installs.
"""
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ["qemu-system-x86_64", "busybox", "depmod", "modprobe", "cpio"]
# An emulated machine is slow enough without waiting for a processor. Only root may ask for that.
AHEAD = ["nice", "-n", "-5"] if os.geteuid() == 0 else []
MODULES = ["virtio_pci", "9p", "9pnet_virtio", "overlay"]  # of every guest
INIT = """#!/bin/busybox sh
B=/bin/busybox
$B mkdir -p /proc /sys /dev /ro /rw /newroot
$B mount -t proc p /proc; $B mount -t sysfs s /sys; $B mount -t devtmpfs d /dev
for m in /mods/*; do $B insmod $m || echo "insmod $m failed"; done
$B mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose hostroot /ro
$B mount -t tmpfs t /rw; $B mkdir -p /rw/u /rw/w
$B mount -t overlay -o lowerdir=/ro,upperdir=/rw/u,workdir=/rw/w o /newroot
for d in proc sys dev; do $B mount --move /$d /newroot/$d; done
@OUT@$B ip link set lo up
exec $B switch_root /newroot /bin/bash -c @COMMAND@
"""
MOUNT_OUT = "$B mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 out /newroot/mnt\n"


def missing(tools=()):
    """Of the programs it takes, those that are not installed."""
    return [tool for tool in [*TOOLS, *tools] if shutil.which(tool) is None]


def kernel(work):
    """Folder of Debian's kernel, unpacked, not installed; and its version."""
    folder = work / "kernel"
    if not (folder / "boot").is_dir():
        depends = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True, check=True).stdout
        package = next(word for word in depends.split() if word.startswith("linux-image-6"))
        subprocess.run(f"apt-get -q download {package}-unsigned || apt-get -q download {package}", shell=True, cwd=work, check=True)
        packed = next(work.glob("linux-image*.deb"))
        subprocess.run(["dpkg", "-x", packed, folder], check=True)
        packed.unlink()
        prune(folder)
    version = next((folder / "lib/modules").iterdir()).name
    subprocess.run(["depmod", "-b", folder, version], check=True)
    return folder, version


def prune(folder):
    """Leaves of the kernel what a guest without hardware may want: 400 MB become 110."""
    shutil.rmtree(folder / "usr", ignore_errors=True)
    modules = next((folder / "lib/modules").iterdir()) / "kernel"
    shutil.rmtree(modules / "sound", ignore_errors=True)
    for path in (modules / "drivers").iterdir():
        if path.name not in ("block", "infiniband", "md", "net", "virtio"):
            shutil.rmtree(path)
    for path in (modules / "drivers/net").iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    for path in (modules / "drivers/infiniband/hw").iterdir():
        shutil.rmtree(path)


def initrd(work, folder, version, modules, command, out):
    tree = work / "initrd"
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "bin").mkdir(parents=True)
    (tree / "mods").mkdir()
    shutil.copy(shutil.which("busybox"), tree / "bin/busybox")
    wanted = []
    for module in [*MODULES, *modules]:
        shown = subprocess.run(["modprobe", "-d", folder, "-S", version, "--show-depends", module], capture_output=True, text=True, check=True).stdout
        wanted += [line.split()[1] for line in shown.splitlines() if line.startswith("insmod")]
    for number, path in enumerate(dict.fromkeys(wanted)):
        shutil.copy(path, tree / "mods" / f"{number:03}-{Path(path).name}")
    init = tree / "init"
    whole = f'cd {shlex.quote(str(ROOT))}; {command}; echo "GUEST RC $?"; echo o >/proc/sysrq-trigger; sleep 100'
    init.write_text(INIT.replace("@OUT@", MOUNT_OUT if out else "").replace("@COMMAND@", shlex.quote(whole)))
    init.chmod(0o755)
    subprocess.run("find . | cpio -o -H newc 2>/dev/null | gzip -1 >../initrd.gz", shell=True, cwd=tree, check=True)
    shutil.rmtree(tree)
    return work / "initrd.gz"


def run(work, command, modules=(), devices=(), seconds=1500, memory=3072, show=False, out=None):
    """Runs a shell command in the project's folder, as root; its console. Whatever is not its success ends the program. `out` is a folder that the guest
    may write to, as /mnt."""
    work.mkdir(parents=True, exist_ok=True)
    folder, version = kernel(work)
    ram = initrd(work, folder, version, modules, command, out)
    if out:
        devices = [*devices, "-virtfs", f"local,path={out},mount_tag=out,security_model=none"]
    qemu = [*AHEAD, "setpriv", "--pdeathsig", "KILL", "--", "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", str(memory), "-nographic", "-no-reboot", "-net", "none",
            "-kernel", folder / f"boot/vmlinuz-{version}", "-initrd", ram, "-append", "console=ttyS0 quiet panic=-1 no_timer_check",
            "-virtfs", "local,path=/,mount_tag=hostroot,security_model=none,multidevs=remap,readonly=on", *devices]
    console = work / "console"
    with open(console, "wb") as log:
        try:
            subprocess.run(qemu, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            log.write(b"\nthe guest's time is over\n")
    ram.unlink()
    text = console.read_text(errors="replace")
    if show:
        sys.stdout.write(text.replace("\r", ""))
    if "GUEST RC 0" not in text:
        raise SystemExit("the guest failed" if show else f"the guest failed:\n{text[-3000:]}")
    return text
