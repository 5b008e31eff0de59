"""Runs the real daemon on fresh folders: starts it, waits until it is ready, ends it by its process id, reads what it logged."""
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("MILLRACE_BUILD", ROOT / "build/release"))
if not BUILD.is_absolute():
    BUILD = ROOT / BUILD
PROGRAM = BUILD / "millraced"
CLI = BUILD / "millrace"
WRAP = shlex.split(os.environ.get("MILLRACE_WRAP", ""))
REGION = "us-east-1"
# A sanitizer build is many times slower; its waits are longer by this factor.
PATIENCE = 6 if BUILD.name in ("asan", "tsan") else int(os.environ.get("MILLRACE_PATIENCE", "1"))  # a factor of limits in time

SANITIZER_REPORT = re.compile(r"AddressSanitizer|ThreadSanitizer|LeakSanitizer|UndefinedBehaviorSanitizer|runtime error:"
                              r"|[Aa]ssertion .* failed|\*\*\* stack smashing|\*\*\* buffer overflow")
UNVERIFIED = ssl._create_unverified_context()  # of a listener whose certificate the test made
LISTENING = re.compile(r"^millraced: (listening|admin) on (\S+):(\d+)(?: \(TLS\))?\s*$", re.M)


class DaemonError(Exception):
    """The daemon did not do what the test counts on; the text has its log."""


def sanitizer_environment():
    return {
        "ASAN_OPTIONS": "detect_leaks=1:exitcode=99:abort_on_error=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=99",
        "TSAN_OPTIONS": f"exitcode=99:halt_on_error=0:suppressions={ROOT}/tests/support/tsan.supp",
    }


class Daemon:
    """One store's daemon. Folders and log live under `folder` (a new temporary one by default) until discard()."""

    def __init__(self, drives=1, ec=None, loops=2, options=(), settings=None, folder=None, drive_paths=None, credentials=True,
                 env=None):
        self.folder = Path(folder or tempfile.mkdtemp(prefix="millrace-test-"))
        self.drives = [Path(p) for p in drive_paths] if drive_paths else [self.folder / f"drive{i + 1}" for i in range(drives)]
        for drive in self.drives:
            if drive_paths is None:
                drive.mkdir(parents=True, exist_ok=True)
        self.ec = ec
        self.loops = loops
        self.options = list(options)
        self.settings = dict(settings or {})
        self.log = self.folder / "millraced.log"
        self.extra_env = dict(env or {})
        self.access_key = "AK" + secrets.token_hex(9).upper() if credentials else None
        self.secret_key = secrets.token_urlsafe(30) if credentials else None
        self.host = "127.0.0.1"
        self.port = 0
        self.admin_port = 0
        self.process = None
        self.log_start = 0
        self.format = True
        self.tls = False
        self.admin_tls = "--admin-tls" in self.options

    # ---- starting -------------------------------------------------------------------------------------------

    def command(self):
        command = WRAP + [str(PROGRAM)]
        for drive in self.drives:
            command += ["--drive", str(drive)]
        if self.format:
            command += ["--format"]
        command += ["--listen", f"{self.host}:{self.port}", "--admin", f"{self.host}:{self.admin_port}",
                    "--loops", str(self.loops)]
        if self.ec:
            command += ["--ec", self.ec]
        if self.settings:
            config = self.folder / "millrace.conf"
            config.write_text("".join(f"{name} = {value}\n" for name, value in self.settings.items()))
            command += ["--config", str(config)]
        if "--key-file" not in self.options:
            command += ["--key-file", str(self.folder / "key")]
        return command + self.options

    def environment(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MILLRACE_ROOT", "AWS_"))}
        if self.access_key:
            env["MILLRACE_ROOT_ACCESS_KEY"] = self.access_key
            env["MILLRACE_ROOT_SECRET_KEY"] = self.secret_key
        env.update(sanitizer_environment())
        env.update(self.extra_env)
        return env

    def spawn(self):
        """Starts the process, without waiting for anything."""
        self.log_start = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(mortal() + self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.environment(), start_new_session=True)
        return self

    def start(self, timeout=30):
        self.spawn()
        self.wait_listening(timeout)
        self.wait_ready(timeout)
        return self

    def wait_listening(self, timeout=30):
        """Learns the ports that the daemon was given, from its own log."""
        found = {}

        def look():
            for kind, host, port in LISTENING.findall(self.output()):
                found[kind] = (host.strip("[]"), int(port))
            return len(found) == 2

        self.wait_until(look, timeout, "to listen")
        self.host, self.port = found["listening"]
        self.admin_port = found["admin"][1]

    def wait_ready(self, timeout=30):
        self.wait_until(lambda: self.health()[0] == 200, timeout, "to be ready")

    def wait_until(self, condition, timeout, what):
        deadline = time.monotonic() + timeout * PATIENCE
        while not condition():
            if self.process.poll() is not None:
                raise DaemonError(f"millraced ended with {self.process.returncode} while waited for {what}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise DaemonError(f"millraced took more than {timeout * PATIENCE} s {what}:\n{self.tail()}")
            time.sleep(0.01)

    # ---- asking ---------------------------------------------------------------------------------------------

    @property
    def endpoint(self):
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    def admin_get(self, path, timeout=5):
        """(status, body) of an unsigned GET of the admin listener; (0, reason) if nothing answers."""
        url = f"{'https' if self.admin_tls else 'http'}://{self.host}:{self.admin_port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=timeout, context=UNVERIFIED if self.admin_tls else None) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError as error:
            return 0, str(error).encode()

    def health(self):
        return self.admin_get("/health/ready")

    def health_json(self):
        status, body = self.health()
        return status, json.loads(body)

    def metrics(self):
        """{'name{labels}': value}"""
        status, body = self.admin_get("/metrics")
        assert status == 200, (status, body)
        values = {}
        for line in body.decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        return values

    def output(self):
        """What this start of the daemon has printed."""
        try:
            with open(self.log, "rb") as log:
                log.seek(self.log_start)
                return log.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def tail(self, size=8000):
        text = self.output()
        match = SANITIZER_REPORT.search(text)
        if match:
            return text[max(0, match.start() - 300):match.start() + size]
        return text[-size:]

    @property
    def alive(self):
        return self.process is not None and self.process.poll() is None

    # ---- ending ---------------------------------------------------------------------------------------------

    def kill(self):
        """SIGKILL, as a crash; the same ports are used again."""
        if self.process is not None:
            if self.process.poll() is None:
                os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def signal(self, number):
        os.kill(self.process.pid, number)

    def terminate(self, timeout=40):
        """SIGTERM; returns the exit status."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGTERM)
        try:
            return self.process.wait(timeout * PATIENCE)
        except subprocess.TimeoutExpired:
            self.dump_stacks()
            self.kill()
            raise DaemonError(f"millraced did not end within {timeout * PATIENCE} s of SIGTERM:\n{self.tail()}") from None

    def dump_stacks(self):
        """Best effort: what each thread waits for, into the log."""
        with open(self.log, "a") as log:
            for task in Path(f"/proc/{self.process.pid}/task").glob("*"):
                try:
                    log.write(f"thread {task.name}: {(task / 'comm').read_text().strip()} {(task / 'wchan').read_text()}\n")
                except OSError:
                    pass

    def stop(self):
        """SIGTERM, and everything that must be true at the end of a good run."""
        status = self.terminate()
        report = SANITIZER_REPORT.search(self.log.read_text(errors="replace"))
        if status != 0 or report:
            raise DaemonError(f"millraced ended with {status}:\n{self.tail()}")

    def restart(self, timeout=30):
        return self.start(timeout)

    def discard(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is not None:
            print(f"---- millraced's health: {self.health() if self.alive else 'not running'}")
            self.kill()
            print(f"---- millraced's log ({self.folder}) ----\n{self.tail()}")
        try:
            if kind is None and self.alive:
                self.stop()
        finally:
            self.discard()


def mortal():
    """What a program is started by so that it ends with us, should we be killed: else it would go on, and hold the room of its drives. The kernel takes the end of
    the thread that started it for ours, so only the one that lasts as long as we do does this."""
    return ["setpriv", "--pdeathsig", "KILL", "--"] if threading.current_thread() is threading.main_thread() else []


def run_daemon(arguments, env=None, timeout=20):
    """Runs millraced with raw arguments until it ends by itself; (status, output). For refusals."""
    full = {k: v for k, v in os.environ.items() if not k.startswith("MILLRACE_ROOT")}
    full.update(sanitizer_environment())
    full.setdefault("MILLRACE_KEY", "00" * 32)  # no file is made for it
    full.update(env or {})
    process = subprocess.Popen(WRAP + [str(PROGRAM)] + [str(a) for a in arguments], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=full)
    timer = threading.Timer(timeout * PATIENCE, process.kill)
    timer.start()
    try:
        output, _ = process.communicate()
    finally:
        timer.cancel()
    return process.returncode, output.decode("utf-8", "replace")
