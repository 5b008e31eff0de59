"""The wall clock of programs, set by a test while they run (tests/clock/set_clock.c)."""
import datetime
import struct

from tests.support.daemon import BUILD, sanitizer_environment


class Clock:
    """How far the wall clock of the programs that get `env` is ahead of the machine's, in seconds."""

    def __init__(self, folder):
        self.file = folder / "clock"
        self.file.write_bytes(struct.pack("=q", 0))
        self.ahead_s = 0

    def set(self, ahead_s):
        with open(self.file, "r+b", buffering=0) as file:
            file.write(struct.pack("=q", ahead_s))
        self.ahead_s = ahead_s

    @property
    def env(self):
        env = {"LD_PRELOAD": str(BUILD / "libsetclock.so"), "MILLRACE_TEST_CLOCK": str(self.file)}
        if BUILD.name == "asan":  # its library wants to be the first
            env["ASAN_OPTIONS"] = sanitizer_environment()["ASAN_OPTIONS"] + ":verify_asan_link_order=0"
        return env

    def time(self, more_s=0):
        """What it shows, and what it will show then."""
        return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=self.ahead_s + more_s)

    def text(self, more_s=0):
        return self.time(more_s).strftime("%Y-%m-%dT%H:%M:%SZ")
