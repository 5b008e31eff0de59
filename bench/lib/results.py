"""A run's figures, as they go into JSON, and their medians over rounds."""

import json
import statistics
from pathlib import Path

from .limits import LIMIT_SERVERS
from .machine import GIB
from .servers import PEERS, Millrace
from .tables import ratio

SERVERS = {server.key: server.name for server in [Millrace, *PEERS, *LIMIT_SERVERS]}
LIMITS = [server.key for server in LIMIT_SERVERS]


def derived(figures):
    """What follows from the figures of one run of `load`: server CPU by operation and by GiB, bytes written for each byte stored."""
    cpu, amount = figures.get("server_cpu_s"), figures.get("bytes", 0)
    return {"cpu_us_op": ratio(cpu * 1e6, figures["ops"]) if cpu is not None and figures.get("ops") else None,
            "cpu_s_gib": ratio(cpu, amount / GIB) if cpu is not None else None,
            "written_ratio": ratio(figures.get("server_written"), amount)}


class Results:
    def __init__(self, data):
        self.data = data

    @classmethod
    def empty(cls, machine, settings):
        return cls({"machine": machine, "settings": settings, "skipped": [], "broken": [], "rounds": {}, "alone": {}, "disk": [], "kernels": {}})

    @classmethod
    def read(cls, path):
        return cls(json.loads(Path(path).read_text(encoding="utf-8")))

    def continued(self, options):
        """These, for more rounds to be added. RuntimeError where those would not mean the same."""
        settings = self.data["settings"]
        if (settings["scale"], settings["seconds"]) != (options.scale_name, options.seconds):
            raise RuntimeError(f"--add: those figures are of --scale {settings['scale']} with {settings['seconds']} s a phase")
        settings["only"] = ",".join(dict.fromkeys(filter(None, [settings["only"], options.only])))
        return self

    def write(self, path):
        Path(path).write_text(json.dumps(self.data, indent=1) + "\n", encoding="utf-8")

    def servers(self, stores=True):
        """Keys of the servers that were run: those that store, or the limits."""
        return [key for key in SERVERS if any(self.data["rounds"].get(key, [])) and (key not in LIMITS) == stores]

    def peers(self):
        return [key for key in self.servers() if key != Millrace.key]

    def runs(self, server, name):
        """Figures of an experiment's rounds on a server, with what follows from them."""
        found = [figures[name] for figures in self.data["rounds"].get(server, []) if figures.get(name)]
        return [dict(derived(figures), **figures) if "ops" in figures else figures for figures in found]

    def rounds(self):
        """How often what was measured most often was."""
        names = {(server, name) for server, rounds in self.data["rounds"].items() for one in rounds for name in one}
        return max([len(self.runs(*name)) for name in names] + [len(runs) for runs in self.data["alone"].values()], default=0)

    def median(self, server, name, figure):
        return middle(self.runs(server, name), figure)

    def alone(self, name, figure):
        return middle(self.data["alone"].get(name, []), figure)

    def disk(self, figure):
        return middle(self.data["disk"], figure)

    def best_peer(self, name, figure):
        """(value, key) of the peer with most; (None, None) where none was run."""
        values = [(self.median(peer, name, figure), peer) for peer in self.peers()]
        return max((v for v in values if v[0] is not None), default=(None, None))

    def limit(self, phase):
        """What a phase is held against."""
        if phase.limit in LIMITS:
            return self.median(phase.limit, phase.name, phase.figure[0])
        return self.disk(phase.limit)

    def errors(self, server):
        return sum(figures.get("errors", 0) for one in self.data["rounds"].get(server, []) for figures in one.values() if figures)

    def errors_alone(self):
        return sum(figures.get("errors", 0) for runs in self.data["alone"].values() for figures in runs)


def middle(runs, figure):
    values = [figures[figure] for figures in runs if figures.get(figure) is not None]
    return statistics.median(values) if values else None
