"""What a running millraced tells of itself: its metrics, its health, its processor time."""

import json
import os
import time
import urllib.request
from pathlib import Path

from .machine import say

TICK = os.sysconf("SC_CLK_TCK")


def metrics(server):
    """Values by name; of a name with labels, the last."""
    with urllib.request.urlopen(server.admin + "/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rsplit(" ", 1)[0].split("{")[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line and not line.startswith("#")}


def health(server):
    with urllib.request.urlopen(server.admin + "/health/ready", timeout=60) as answer:
        return json.load(answer)


def resting(server):
    """No search for orphans is under way, and no object is looked at for shards that it lacks."""
    return metrics(server)["millrace_collecting_orphans"] == 0 and not health(server)["healing"]


def until(condition, seconds, what, pause_s=0.02):
    """Seconds that it took; None, and said so, where it took longer. It looks again after each pause: who reads metrics costs the server a millisecond."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > seconds:
            say(f"no longer waited for {what}")
            return None
        time.sleep(pause_s)
    return time.monotonic() - started


def stat_fields(pid):
    """Of a process, from its state on: proc(5) counts that as the third."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()


def cpu_seconds(pid):
    """That a process has used so far."""
    fields = stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / TICK
