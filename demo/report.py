"""Progress while the demo works, and its table at the end."""
import sys
import threading
import time


class Progress:
    """One line that is rewritten on a terminal, and repeated every few seconds elsewhere."""

    def __init__(self, title, total=None, unit=""):
        self.title, self.total, self.unit = title, total, unit
        self.done = 0
        self.lock = threading.Lock()
        self.started = time.monotonic()
        self.shown = self.started
        self.terminal = sys.stdout.isatty()

    def __enter__(self):
        if self.terminal:
            self.show(force=True)
        return self

    def __exit__(self, kind, value, traceback):
        if kind is None:
            self.show(force=True, tail=f" ({time.monotonic() - self.started:.1f} s)\n")

    def add(self, count=1):
        with self.lock:
            self.done += count
            self.show()

    def show(self, force=False, tail=""):
        now = time.monotonic()
        if not force and now - self.shown < (0.1 if self.terminal else 5):
            return
        self.shown = now
        text = f"  {self.title}"
        if self.total:
            text += f": {self.done:,} of {self.total:,} {self.unit}"
        print(f"\r\033[K{text}{tail}" if self.terminal else text + (tail or "\n"), end="", flush=True)


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def latencies(values):
    """'p50 / p99' of seconds, in milliseconds."""
    return f"{percentile(values, 0.50) * 1000:.1f} / {percentile(values, 0.99) * 1000:.1f}"


def table(rows):
    """rows: tuples of texts, the first is the heading."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for number, row in enumerate(rows):
        print("  " + "  ".join(text.ljust(width) if i == 0 else text.rjust(width) for i, (text, width) in enumerate(zip(row, widths))))
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))
