"""Runs of the load generator."""

import json
import subprocess
import threading

from .machine import forget_peak, say

LOAD_LIMIT_S = 3600


def run_load(options, server, kind, *arguments):
    """One run of `load` against a server. Its figures; errors are counted, not raised."""
    forget_peak(server.process.pid)
    command = [str(options.load), kind, "--json", "--endpoint", server.endpoint, "--server-pid", str(server.process.pid)]
    try:
        done = subprocess.run(command + [str(a) for a in arguments], env=server.environment(), capture_output=True, text=True, check=False,
                              timeout=LOAD_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"load {kind} against {server.name} did not end in {LOAD_LIMIT_S} s") from error
    if done.stderr:
        say(done.stderr.rstrip())
    if not done.stdout.strip():
        raise RuntimeError(f"load {kind} ended with {done.returncode}")
    return json.loads(done.stdout)


class Background:
    """One `load` beside others."""

    def __init__(self, options, server, kind, *arguments):
        self.result, self.error = None, None

        def run():
            try:
                self.result = run_load(options, server, kind, *arguments)
            except RuntimeError as error:
                self.error = error

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def wait(self):
        self.thread.join()
        if self.error is not None:
            raise self.error
        return self.result
