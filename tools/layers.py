#!/usr/bin/env python3
"""Checks that dependencies between the folders of the source go one way.

    layers.py [ROOT]

A folder may include the public headers (include/<folder>.h, include/<folder>_*.h) of the folders it may know, and its own private
headers; nothing else of the project. A folder in MODULES consists of modules, which are its folders: each may include headers of
those below it, and of these only the ones that they show.

It also checks names, which stack traces, profiles and breakpoints are read by: of the folders in UNIQUE_NAMES no file has the name of
another file of the project, and no static function that of a function in another file of the same program.

Exits 1 and names each offending line.
"""
import collections
import re
import sys
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()

# Which public headers a folder may include, beside its own.
MAY_INCLUDE = {
    "ec": set(),
    "loop": set(),
    "s3": {"ec"},
    "access": {"s3"},
    "rdma": {"loop"},
    "net": {"ec", "loop"},
    "engine": {"ec", "loop"},
    "remote": {"engine", "net", "ec", "loop"},
    "cluster": {"remote", "engine", "net", "s3", "loop"},
    "gateway": {"engine", "rdma", "access", "ec", "loop", "s3"},
    "server": {"gateway", "cluster", "remote", "engine", "net", "rdma", "ec", "loop", "s3"},
    "client": {"s3", "rdma", "ec", "loop"},
    "load": {"s3"},
    "cli": {"client", "load", "net", "rdma", "ec", "loop", "s3"},
}
# Private headers of another folder that a folder may include: a drive of another node is one of the engine's.
MAY_SEE = {"remote": {"engine/drive/drive.h", "engine/drive/identity.h", "engine/drive/rec.h", "engine/drive/wire.h", "engine/format.h",
                      "engine/bucket/config_feed.h", "engine/serve/serve.h"}}
# The modules of a folder, the lowest first: (folder, headers that modules above it may include; None: all). "." is the folder's own folder.
MODULES = {
    "client": [
        ("base", {"client_wait.h", "core.h", "endpoints.h", "failure.h", "object_check.h", "workers.h", "xml_answer.h"}),
        ("credentials", {"creds.h", "profile.h"}),
        ("http", {"client_request.h", "compose.h", "curl_loop.h", "object_info.h", "retry.h"}),
        ("rdma", {"bounce_buffers.h", "connection.h", "memory.h", "rdma_context.h"}),
        ("transfer", {"batch_message.h", "batch_request.h", "download.h", "plan.h", "put_object.h", "upload.h"}),
        ("operations", {"page.h"}),
        ("api", set()),
    ],
    "engine": [
        (".", {"format.h"}),
        *((name, None) for name in ("record", "placement", "drive", "base", "call", "txn", "object", "resync", "bucket", "walk", "epoch", "upkeep", "serve", "home")),
        ("store", set()),
    ],
    "gateway": [
        ("http", {"body.h", "budget.h", "error.h", "error_page.h", "guests.h", "gw.h", "gw_check.h", "http_request.h", "operation.h", "permit.h", "pools.h", "reply.h", "stats.h", "stream.h", "users.h", "version_text.h"}),
        ("people", {"bucket_owner.h", "entity.h", "people.h", "quotas.h"}),
        ("sts", {"issuers.h", "jwt.h", "key_uses.h", "signer.h", "temporary.h"}),
        ("rights", {"bucket_policy.h", "owners.h", "rights.h", "trust.h"}),
        ("iam", {"iam.h"}),
        ("rdma", {"executor.h", "get_batch.h", "rdma_session.h"}),
        ("s3", set()),
    ],
}
# The programs, each as the folders that it is linked from.
PROGRAMS = {
    "millraced": ("server", "gateway", "cluster", "remote", "engine", "net", "rdma", "access", "s3", "loop", "ec"),
    "millrace": ("cli", "load", "client", "net", "rdma", "s3", "loop", "ec"),
}
# Folders whose files and static functions have names of their own. The others are still to be renamed: add each that is done.
UNIQUE_NAMES = {"access", "cluster", "engine", "gateway", "net", "remote", "server"}
STATIC = re.compile(r"^static\s+(?:__attribute__\(\([^)]*\)+\s*)?[\w\s]*?[\s*](\w+)\(", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def folder_of(path):
    """The folder that a project file belongs to; None for include/."""
    top = path.relative_to(ROOT).parts[0]
    return top if top in MAY_INCLUDE else None


def owner(header):
    """The folder of a public header: include/s3.h and include/s3_uri.h are s3's; libmillrace's has the library's name."""
    folder = Path(header).stem.split("_")[0]
    return "client" if folder == "millrace" else folder


def resolve(source, name):
    """The project file that an #include "name" in source means, looked up as the compiler does; None: not the project's."""
    for base in (source.parent, ROOT / "include", ROOT):
        path = (base / name).resolve()
        if path.is_file() and path.is_relative_to(ROOT):
            return path
    return None


def module_of(parts):
    """The module that a file of a folder with modules lies in."""
    return parts[1] if len(parts) > 2 else "."


def check_module(parts, target):
    """What is wrong with one file of a folder including another one of it, or None."""
    folder = parts[0]
    order = [name for name, _ in MODULES[folder]]
    mine, other = module_of(parts), module_of(target)
    if other not in order:
        return f"{'/'.join(target)} is in no module of {folder}"
    if mine == other or mine not in order:
        return None
    if order.index(other) > order.index(mine):
        return f"module {folder}/{mine} is below {folder}/{other} and may not know {'/'.join(target)}"
    shown = dict(MODULES[folder])[other]
    if shown is not None and target[-1] not in shown:
        return f"{'/'.join(target)} is private to module {folder}/{other}"
    return None


def check_file(source):
    folder = folder_of(source)
    complaints = []
    own = source.relative_to(ROOT).parts
    if folder in MODULES and module_of(own) not in dict(MODULES[folder]):
        complaints.append(f"{source.relative_to(ROOT)}: is in no module of {folder}")
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
            if header != folder and header not in MAY_INCLUDE[folder]:
                complaints.append(f"{where}: {folder} may not know {header} (include/{parts[1]})")
        elif parts[0] != folder and "/".join(parts) not in MAY_SEE.get(folder, set()):
            complaints.append(f"{where}: {folder} includes {'/'.join(parts)}, which is private to {parts[0]}")
        elif parts[0] == folder and folder in MODULES:
            wrong = check_module(own, parts)
            if wrong is not None:
                complaints.append(f"{where}: {wrong}")
    return complaints


def check_public_headers():
    """A public header may include public headers that its own folder may know."""
    complaints = []
    for header in sorted((ROOT / "include").glob("*.h")):
        folder = owner(header)
        allowed = MAY_INCLUDE.get(folder, set())
        for match in INCLUDE.finditer(header.read_text()):
            other = owner(match.group(1))
            if other not in allowed and other != folder:
                complaints.append(f"include/{header.name}: may not include {match.group(1)}")
    return complaints


# What of struct eng_loop (engine/base/store.h) a folder keeps away from, but for the files named: the home part of a loop and the leader's meet by messages
# alone. rebalance.c and orphans.c ask each loop who reads or uploads, by a broadcast; rebuild.c counts its own reads among them.
PARTS = {"engine/object": ("leader", set()),
         **dict.fromkeys(["engine/txn", "engine/resync", "engine/bucket", "engine/walk", "engine/epoch", "engine/upkeep"],
                         ("home", {"rebalance.c", "orphans.c", "rebuild.c"}))}


def check_parts():
    complaints = []
    for folder, (part, but) in PARTS.items():
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            if path.name not in but and re.search(rf"(?:->|\.){part}\.", path.read_text(errors="replace")):
                complaints.append(f"{path.relative_to(ROOT)}: reaches into the {part} part of a loop")
    return complaints


def shared(owners, text):
    """A complaint for each name that several files have, where one of them is of a folder in UNIQUE_NAMES."""
    return [f"{name}: {text} of {', '.join(str(path.relative_to(ROOT)) for path in paths)}" for name, paths in sorted(owners.items())
            if len(paths) > 1 and UNIQUE_NAMES & {folder_of(path) for path in paths}]


def check_file_names():
    owners = collections.defaultdict(list)
    for folder in (*MAY_INCLUDE, "include", "tests", "bench"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            owners[path.name].append(path)
    return shared(owners, "the name")


def check_static_names():
    complaints = []
    for program, folders in PROGRAMS.items():
        owners = collections.defaultdict(list)
        for folder in folders:
            for path in sorted((ROOT / folder).rglob("*.c")):
                for name in sorted(set(STATIC.findall(path.read_text(errors="replace")))):
                    owners[name].append(path)
        complaints += shared(owners, f"a static function of {program}, in each")
    return complaints


def main():
    complaints = check_public_headers() + check_file_names() + check_static_names() + check_parts()
    files = 0
    for folder in MAY_INCLUDE:
        for source in sorted((ROOT / folder).rglob("*.[ch]")):
            files += 1
            complaints += check_file(source)
    for complaint in complaints:
        print(complaint)
    print(f"layers: {files} files, {len(complaints)} violation(s)")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
