#!/usr/bin/env python3
"""Checks that dependencies between the houses (folders), and between the modules of a house (its subfolders), go one way.

    layers.py [ROOT]

A house may include the public headers (include/<house>.h, include/<house>_*.h) of the houses it may know, and its own private
headers; nothing else of the project. Where a house has modules, a module may include headers of its own and of the modules before it in
the list, so that there is no cycle between them; what a lower one has to tell an upper one goes by a table of functions. Exits 1 and names
each offending line.
"""
import re
import sys
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()

# Which public headers a house may include, beside its own.
MAY_INCLUDE = {
    "ec": set(),
    "loop": set(),
    "s3": {"ec"},
    "rdma": {"loop"},
    "engine": {"ec", "loop"},
    "gateway": {"engine", "rdma", "ec", "loop", "s3"},
    "server": {"gateway", "engine", "rdma", "ec", "loop", "s3"},
    "client": {"s3", "rdma", "ec", "loop"},
    "load": {"s3"},
    "cli": {"client", "load", "rdma", "ec", "loop", "s3"},
}
# The modules of a house, the lowest first; "" is what lies in the house's own folder.
MODULES = {
    "engine": ("record", "placement", "drive", "core", "txn", "object", "resync", "bucket", "walk", "epoch", "upkeep", ""),
}
# Headers in the house's own folder that every module may include: formats, which include nothing of the project.
FOR_ALL = {"engine/format.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def house_of(path):
    """The house that a project file belongs to; None for include/."""
    top = path.relative_to(ROOT).parts[0]
    return top if top in MAY_INCLUDE else None


def owner(header):
    """The house of a public header: include/s3.h and include/s3_uri.h are s3's; libmillrace's has the library's name."""
    house = Path(header).stem.split("_")[0]
    return "client" if house == "millrace" else house


def resolve(source, name):
    """The project file that an #include "name" in source means, looked up as the compiler does; None: not the project's."""
    for base in (source.parent, ROOT / "include", ROOT):
        path = (base / name).resolve()
        if path.is_file() and path.is_relative_to(ROOT):
            return path
    return None


def module_of(parts):
    """The place in the order of its house of the module that a file (parts of its path) belongs to; None: the house has none."""
    order = MODULES.get(parts[0])
    if order is None:
        return None
    name = parts[1] if len(parts) > 2 else ""
    return order.index(name) if name in order else -1


def check_modules(source, target):
    """What is wrong with this include between two files of one house, or None."""
    mine, other = source.relative_to(ROOT).parts, target.relative_to(ROOT).parts
    if module_of(mine) is None or "/".join(other) in FOR_ALL:
        return None
    if -1 in (module_of(mine), module_of(other)):
        return f"{'/'.join(mine if module_of(mine) == -1 else other)} is in no module that layers.py knows"
    if module_of(other) > module_of(mine):
        return f"{mine[1]} is below {other[1]} and may not include {'/'.join(other)}"
    return None


def check_file(source):
    house = house_of(source)
    complaints = []
    for match in INCLUDE.finditer(source.read_text(errors="replace")):
        name = match.group(1)
        line = source.read_text(errors="replace").count("\n", 0, match.start()) + 1
        where = f"{source.relative_to(ROOT)}:{line}"
        target = resolve(source, name)
        if target is None:
            complaints.append(f'{where}: "{name}" is not a file of the project')
            continue
        parts = target.relative_to(ROOT).parts
        if parts[0] == "include":
            header = owner(parts[1])
            if header != house and header not in MAY_INCLUDE[house]:
                complaints.append(f"{where}: {house} may not know {header} (include/{parts[1]})")
        elif parts[0] != house:
            complaints.append(f"{where}: {house} includes {'/'.join(parts)}, which is private to {parts[0]}")
        elif check_modules(source, target):
            complaints.append(f"{where}: {check_modules(source, target)}")
    return complaints


def check_public_headers():
    """A public header may include public headers that its own house may know."""
    complaints = []
    for header in sorted((ROOT / "include").glob("*.h")):
        house = owner(header)
        allowed = MAY_INCLUDE.get(house, set())
        for match in INCLUDE.finditer(header.read_text()):
            other = owner(match.group(1))
            if other not in allowed and other != house:
                complaints.append(f"include/{header.name}: may not include {match.group(1)}")
    return complaints


def main():
    complaints = check_public_headers()
    files = 0
    for house in MAY_INCLUDE:
        for source in sorted((ROOT / house).rglob("*.[ch]")):
            files += 1
            complaints += check_file(source)
    for complaint in complaints:
        print(complaint)
    print(f"layers: {files} files, {len(complaints)} violation(s)")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
