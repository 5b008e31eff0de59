"""How much a run does: `trial` shows that everything works, `bench` takes up to half an hour, `full` some hours."""

from dataclasses import dataclass

from .machine import GIB, KIB, MIB


@dataclass
class Scale:
    rounds: int  # of what is not measured once
    seconds: float  # of each phase
    small: int  # objects of 4 KiB that are read, listed
    medium: int  # of 64 KiB
    mega: int  # of 1 MiB
    large: int  # of 16 MiB
    ranged: int  # of 64 MiB, read in ranges
    multipart: int  # bytes of an object put in parts
    deletes: int
    cold: int  # bytes read cold; 0: twice the memory
    idle: int  # connections without a request
    flood: int  # bytes of each upload of 1,024 connections at once
    restart: int  # objects at a SIGKILL
    base: int  # small objects of a small store
    grown: int  # and of one that has grown
    names: int  # objects of 4 KiB whose writing is counted
    engine: int  # of 4 KiB that the engine alone reads
    overwritten: int  # MiB of the file system of a store that is overwritten
    overwriting: float  # seconds of that at most


SCALES = {
    "trial": Scale(rounds=1, seconds=0.3, small=1000, medium=50, mega=16, large=4, ranged=1, multipart=64 * MIB, deletes=200,
                   cold=64 * MIB, idle=100, flood=64 * KIB, restart=2000, base=1000, grown=4000, names=4000,
                   engine=5000, overwritten=256, overwriting=5),
    "bench": Scale(rounds=5, seconds=1.2, small=2000, medium=500, mega=64, large=16, ranged=4, multipart=GIB, deletes=1000,
                   cold=GIB, idle=1000, flood=16 * MIB, restart=1_000_000, base=10_000, grown=2_000_000, names=2_000_000,
                   engine=100_000, overwritten=512, overwriting=20),
    "full": Scale(rounds=5, seconds=8, small=10_000, medium=4000, mega=1000, large=64, ranged=16, multipart=GIB, deletes=5000,
                  cold=0, idle=1000, flood=16 * MIB, restart=1_000_000, base=10_000, grown=10_000_000, names=2_000_000,
                  engine=1_000_000, overwritten=4096, overwriting=300),
}
