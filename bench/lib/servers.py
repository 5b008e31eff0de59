"""millraced and the servers it is compared with: each a process on folders of its own, with credentials made anew."""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from .machine import say
from .presign import Signer

START_LIMIT_S = 60
STOP_LIMIT_S = 60


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def status_of(url):
    """HTTP status of a GET, or 0 where nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


class Server:
    name = "server"
    key = "server"  # in options and results
    stores = True   # False: it only answers

    def __init__(self, folder, program):
        self.folder, self.program = Path(folder), program
        self.access, self.secret = secrets.token_hex(8), secrets.token_hex(16)
        self.log = self.folder / "log"
        self.process = None
        self.endpoint = None

    def environment(self):
        return dict(os.environ, MILLRACE_ROOT_ACCESS_KEY=self.access, MILLRACE_ROOT_SECRET_KEY=self.secret)

    def host(self):
        return self.endpoint.removeprefix("http://")

    def signer(self):
        return Signer(self.access, self.secret, self.host())

    def another(self):
        """One like this that was never started."""
        return type(self)(self.folder, self.program)

    def prepare(self, phase):
        """Called before each phase."""

    def spawn(self, command, environment):
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([str(c) for c in command], env=environment, stdout=log, stderr=log, cwd=self.folder)

    def died(self):
        return f"{self.name} ended with {self.process.returncode}:\n{self.log.read_text(errors='replace')[-2000:]}"

    def wait_for(self, condition, pause_s=0.01):
        """The first true value of condition(); the process must live meanwhile."""
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            if self.process.poll() is not None:
                raise RuntimeError(self.died())
            time.sleep(pause_s)
        raise RuntimeError(f"{self.name} is not ready after {START_LIMIT_S} s; see {self.log}")

    def said(self, what, already=0):
        """The word behind `what` in what the process has written since `already`."""
        with open(self.log, "rb") as log:
            log.seek(already)
            text = log.read().decode(errors="replace")
        _, found, rest = text.partition(what)
        return rest.split()[0] if found and "\n" in rest else None

    def log_size(self):
        return self.log.stat().st_size if self.log.exists() else 0

    def stop(self, how=signal.SIGTERM):
        """The exit status; None where it did not run."""
        if self.process is None or self.process.poll() is not None:
            return None
        self.process.send_signal(how)
        try:
            return self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Millrace(Server):
    """millraced: on four folders, 2+2, where nothing else is said."""

    name = key = "millrace"

    def __init__(self, folder, program, drives=4, ec="2+2", settings=None):
        super().__init__(folder, program)
        self.ec, self.settings = ec, settings or {}
        self.drives = [self.folder / f"d{i}" for i in range(1, drives + 1)]
        self.admin = None

    def command(self, listen, admin):
        command = [self.program, "--format", "--listen", listen, "--admin", admin]
        if self.ec:
            command += ["--ec", self.ec]
        for drive in self.drives:
            command += ["--drive", drive]
        if self.settings:
            config = self.folder / "millrace.conf"
            config.write_text("".join(f"{name} = {value}\n" for name, value in self.settings.items()), encoding="utf-8")
            command += ["--config", config]
        return command

    def start(self, listen="127.0.0.1:0", admin="127.0.0.1:0"):
        for drive in self.drives:
            drive.mkdir(parents=True, exist_ok=True)
        already = self.log_size()
        self.spawn(self.command(listen, admin), self.environment())
        self.endpoint = "http://" + self.wait_for(lambda: self.said("listening on ", already))
        self.admin = "http://" + self.wait_for(lambda: self.said("admin on ", already))
        self.wait_for(lambda: status_of(self.admin + "/health/ready") == 200, 0.001)


class Minio(Server):
    name, key = "MinIO", "minio"
    module = "github.com/minio/minio@latest"

    def start(self):
        port, console = free_port(), free_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        environment = dict(os.environ, MINIO_ROOT_USER=self.access, MINIO_ROOT_PASSWORD=self.secret, MINIO_CI_CD="on", MINIO_UPDATE="off",
                           MINIO_STORAGE_CLASS_STANDARD="EC:2")
        self.spawn([self.program, "server", "--quiet", "--address", f"127.0.0.1:{port}", "--console-address", f"127.0.0.1:{console}",
                    self.folder / "d{1...4}"], environment)
        self.wait_for(lambda: status_of(self.endpoint + "/minio/health/cluster") == 200, 0.1)


class Versitygw(Server):
    """A gateway over one folder: no redundancy, and it does not flush."""

    name = key = "versitygw"
    module = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

    def start(self):
        port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        environment = dict(os.environ, ROOT_ACCESS_KEY=self.access, ROOT_SECRET_KEY=self.secret)
        self.spawn([self.program, "--port", f"127.0.0.1:{port}", "--quiet", "--keep-alive", "--health", "/health", "posix", data], environment)
        self.wait_for(lambda: status_of(self.endpoint + "/health") == 200, 0.05)


class Garage(Server):
    """One node without copies, as its quick start has it, but flushing what it acknowledges. Or one of several that share a secret, started by `within`."""

    name, key = "Garage", "garage"
    crate = "garage@2.5.0"

    def __init__(self, folder, program, address="127.0.0.1", folders=1, copies=1, shared=None, within=()):
        super().__init__(folder, program)
        self.config = self.folder / "garage.toml"
        self.rpc, self.s3, self.admin = (f"{address}:{free_port()}" for _ in range(3))
        self.data = [self.folder / f"data{number}" for number in range(1, folders + 1)]
        self.copies, self.shared, self.within = copies, shared or secrets.token_hex(32), list(within)

    def configure(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        folders = ", ".join(f'{{ path = "{folder}", capacity = "1T" }}' for folder in self.data)
        self.config.write_text(f"""metadata_dir = "{self.folder}/meta"
data_dir = [{folders}]
db_engine = "lmdb"
replication_factor = {self.copies}
metadata_fsync = true
data_fsync = true
rpc_bind_addr = "{self.rpc}"
rpc_public_addr = "{self.rpc}"
rpc_secret = "{self.shared}"

[s3_api]
s3_region = "us-east-1"
api_bind_addr = "{self.s3}"
root_domain = ".s3.garage.localhost"

[admin]
api_bind_addr = "{self.admin}"
""", encoding="utf-8")
        self.config.chmod(0o600)

    def serve(self):
        self.endpoint = f"http://{self.s3}"
        self.spawn([*self.within, self.program, "-c", self.config, "server"], dict(os.environ, RUST_LOG="garage=warn"))

    def tell(self, *words):
        done = subprocess.run([str(self.program), "-c", str(self.config), *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"garage {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def answers(self):
        try:
            return self.tell("node", "id", "-q").split("@")[0].strip() if self.tell("status") else None
        except RuntimeError:
            return None

    def told(self, *words):
        """What it says, once it can: a layout that is new is not everywhere at once."""
        until = time.monotonic() + START_LIMIT_S
        while True:
            try:
                return self.tell(*words)
            except RuntimeError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)

    def lay_out(self, others=()):
        """Makes one store of this node and others, each a zone; its key and its bucket."""
        nodes = [self, *others]
        known = [node.wait_for(node.answers, 0.2) for node in nodes]
        for node, which in list(zip(nodes, known))[1:]:
            self.told("node", "connect", f"{which}@{node.rpc}")
        for number, which in enumerate(known):
            self.told("layout", "assign", "-z", f"zone{number}", "-c", "1T", which)
        self.tell("layout", "apply", "--version", "1")
        self.told("bucket", "list")
        words = re.findall(r"^(?:Key ID|Secret key):\s*(\S+)", self.tell("key", "create", "bench"), re.M)
        if len(words) != 2:
            raise RuntimeError("garage key create says nothing that is known here")
        self.access, self.secret = words
        self.tell("bucket", "create", "load")
        self.tell("bucket", "allow", "--read", "--write", "--owner", "load", "--key", "bench")

    def start(self):
        first = not self.config.exists()
        if first:
            self.configure()
        self.serve()
        if first:
            self.lay_out()
        self.wait_for(lambda: status_of(f"http://{self.admin}/health") == 200, 0.1)


PEERS = [Minio, Versitygw, Garage]


def find_program(peer, given):
    """Path of a peer's program, installed if Go or cargo can, or None with a line that says why."""
    places = [given, shutil.which(peer.key), Path.home() / "go/bin" / peer.key, Path.home() / ".cargo/bin" / peer.key]
    for place in places:
        if place is not None and Path(place).is_file():
            return Path(place).resolve()
    tool, words, installed = how_to_install(peer)
    if given is not None or tool is None:
        say(f"{peer.name} is skipped: there is no {peer.key} here" + ("" if given is not None else f" and no {words[0]} to install it with"))
        return None
    say(" ".join(words))
    done = subprocess.run([tool, *words[1:]], check=False)
    if done.returncode != 0 or not installed.is_file():
        say(f"{peer.name} is skipped: {words[0]} could not install it")
        return None
    return installed


def how_to_install(peer):
    """The tool's path, or None where there is none; the command; the path of what it makes."""
    if hasattr(peer, "module"):
        return shutil.which("go") or shutil.which("/usr/local/go/bin/go"), ["go", "install", peer.module], Path.home() / "go/bin" / peer.key
    return shutil.which("cargo"), ["cargo", "install", "--quiet", "--locked", peer.crate], Path.home() / ".cargo/bin" / peer.key

