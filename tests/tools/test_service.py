"""The unit for systemd lets the daemon do what it does."""

from pathlib import Path

UNIT = Path(__file__).parents[2] / "conf" / "millrace.service"

# System calls that the daemon needs and that @system-service does not have (systemd-analyze syscall-filter).
NEEDED = {"io_uring_setup", "io_uring_enter", "io_uring_register", "mincore"}


def test_system_calls():
    words = [line.split("=", 1)[1].split() for line in UNIT.read_text().splitlines() if line.startswith("SystemCallFilter=")]
    allowed = {word for line in words for word in line}
    assert "@system-service" in allowed
    assert NEEDED <= allowed
