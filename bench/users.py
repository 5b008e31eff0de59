#!/usr/bin/env python3
"""What users, policies and temporary credentials cost a small GET, beside root's.

    users.py [--build FOLDER] [--rounds 7] [--count 100000] [--json FILE]

Each round asks for the same objects of 4 KiB as root, as a user, with temporary credentials of that
user and of a role, the order turned from round to round. They sign by headers, as SDKs do. The user
and the role have one policy of 20 statements, of which the last one allows, and so has the bucket.
Root is asked for in this bucket and in one without a policy, which is what a store without users does,
and in the latter by presigned URLs too. Then a policy is changed again and again: how long the change
takes, and how many GETs that began after its answer were still decided by the former one. Last come
GetBatch requests of two users for the same objects: the policy of one depends on the objects' tags, so
that each entry is decided twice.

Nothing but Python's standard library is needed.
"""

import argparse
import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lib.iam import Iam, element
from lib.loadgen import run_load
from lib.machine import allow_many_files, machine, say
from lib.presign import Signer
from lib.s3client import S3Client
from lib.servers import Millrace
from lib.tables import table

KEYS = 20_000
CHANGES = 50
PRESIGNED = "root, presigned, bucket without policy"
CONNECTIONS = 16  # of GETs after each change: more than there are loops
BATCH_KEYS, BATCH_ENTRIES = 2_000, 256
BY_TAG = {"StringEquals": {"s3:ExistingObjectTag/colour": "red"}}
TAGGED = b"<Tagging><TagSet><Tag><Key>colour</Key><Value>red</Value></Tag></TagSet></Tagging>"
BATCH_LIMIT_S = 600


def statements(count, last):
    """A policy whose last statement counts; those before it are about other buckets."""
    others = [{"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": f"arn:aws:s3:::other-{i}/*",
               "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, **({"Principal": "*"} if "Principal" in last else {})} for i in range(count - 1)]
    return {"Version": "2012-10-17", "Statement": [*others, last]}


def allow(bucket, **more):
    return {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*", **more}


def bucket_policy(bucket):
    """Statements of a bucket's policy are about that bucket."""
    policy = statements(20, {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/o/*"})
    for i, statement in enumerate(policy["Statement"][:-1]):
        statement["Resource"] = f"arn:aws:s3:::{bucket}/other-{i}/*"
    return json.dumps(policy).encode()


class Caller:
    """Like a server for the load generator: the same process, other credentials."""

    def __init__(self, server, access, secret, token=None):
        self.server, self.access, self.secret, self.token = server, access, secret, token
        self.process, self.endpoint, self.name = server.process, server.endpoint, server.name

    def environment(self):
        found = {k: v for k, v in os.environ.items() if not k.startswith("MILLRACE_ROOT_")}
        return found | {"AWS_ACCESS_KEY_ID": self.access, "AWS_SECRET_ACCESS_KEY": self.secret, "AWS_SESSION_TOKEN": self.token or ""}


def temporary(server, xml):
    return Caller(server, *(element(xml, name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")))


def people(server):
    """Everyone who asks, by name, and the user's IAM."""
    root = Iam(server.host(), server.access, server.secret)
    root.call("iam", "CreateUser", UserName="reader")
    arn = element(root.call("iam", "CreatePolicy", PolicyName="reads", PolicyDocument=statements(20, allow("guarded"))), "Arn")
    root.call("iam", "AttachUserPolicy", UserName="reader", PolicyArn=arn)
    root.call("iam", "PutUserPolicy", UserName="reader", PolicyName="assumes", PolicyDocument=statements(1, {
        "Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}))
    key = root.call("iam", "CreateAccessKey", UserName="reader")
    user = Caller(server, element(key, "AccessKeyId"), element(key, "SecretAccessKey"))
    root.call("iam", "CreateRole", RoleName="reading", AssumeRolePolicyDocument=statements(1, {
        "Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::000000000001:user/reader"}, "Action": "sts:AssumeRole"}))
    root.call("iam", "AttachRolePolicy", RoleName="reading", PolicyArn=arn)
    asks = Iam(server.host(), user.access, user.secret)
    session = asks.call("sts", "GetSessionToken")
    role = asks.call("sts", "AssumeRole", RoleArn="arn:aws:iam::000000000001:role/reading", RoleSessionName="bench")
    return root, {"user": user, "session of the user": temporary(server, session), "role": temporary(server, role)}


def batch_readers(server, root):
    """Two users who may read the same objects: all of them, and by their tags."""
    found = {}
    for name, more in (("GetBatch", {}), ("GetBatch, by tags", {"Condition": BY_TAG})):
        user = f"batch-reader-{len(found)}"
        root.call("iam", "CreateUser", UserName=user)
        root.call("iam", "PutUserPolicy", UserName=user, PolicyName="reads", PolicyDocument=statements(5, allow("tagged", **more)))
        key = root.call("iam", "CreateAccessKey", UserName=user)
        found[name] = Caller(server, element(key, "AccessKeyId"), element(key, "SecretAccessKey"))
    return found


def batches(options, server, callers):
    """Figures of each caller's batches, a list by round."""
    found = {name: [] for name in callers}
    names = list(callers)
    for turn in range(options.rounds):
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            command = [options.build / "bench/library_load", "get", "--endpoint", server.endpoint, "--server-pid", server.process.pid, "--bucket", "tagged",
                       "--size", 4096, "--keys", BATCH_KEYS, "--entries", BATCH_ENTRIES, "--threads", 4, "--seconds", options.seconds, "--unverified"]
            done = subprocess.run([str(c) for c in command], env=callers[name].environment(), capture_output=True, text=True, check=False,
                                  timeout=BATCH_LIMIT_S)
            result = json.loads(done.stdout) if done.stdout.strip() else {"errors": done.stderr}
            if result["errors"]:
                raise RuntimeError(f"{name}: {result['errors']} failed")
            found[name].append({"rate": result["ops"] / result["seconds"]})
            say(f"{turn + 1}/{options.rounds} {name}: {found[name][-1]}")
    return found


def gets(options, server, callers):
    """Figures of each caller, a list by round. All sign by headers, as SDKs do, but who is said to use presigned URLs."""
    plain, guarded = ("--bucket", "plain", "--sign-headers"), ("--bucket", "guarded", "--sign-headers")
    asked = {"root, bucket without policy": (server, plain), "root": (server, guarded), **{name: (caller, guarded) for name, caller in callers.items()},
             PRESIGNED: (server, plain[:-1])}
    found = {name: [] for name in asked}
    names = list(asked)
    for turn in range(options.rounds):
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            caller, bucket = asked[name]
            result = run_load(options, caller, "get", *bucket, "--keys", KEYS, "--count", options.count, "--conns", 64)
            if result["errors"]:
                raise RuntimeError(f"{name}: {result['errors']} GETs failed")
            found[name].append({"rate": result["ops"] / result["seconds"], "cpu_us": result["server_cpu_s"] * 1e6 / result["ops"]})
            say(f"{turn + 1}/{options.rounds} {name}: {found[name][-1]}")
    return found


def changes(server, root, user):
    """Policies that take a right away, and give it: seconds each took, and GETs that were decided by the former one."""
    signer, took, former = Signer(user.access, user.secret, server.host()), [], 0
    connections = [http.client.HTTPConnection(server.host(), timeout=60) for _ in range(CONNECTIONS)]
    for i in range(CHANGES):
        allowed = i % 2 == 1
        effect = allow("apart") if allowed else {**allow("apart"), "Effect": "Deny"}
        started = time.monotonic()
        root.call("iam", "PutUserPolicy", UserName="reader", PolicyName="apart", PolicyDocument=statements(5, effect))
        took.append(time.monotonic() - started)
        for connection in connections:
            connection.request("GET", signer.path("GET", "/apart/one"))
        for connection in connections:
            answer = connection.getresponse()
            answer.read()
            former += answer.status != (200 if allowed else 403)
    return took, former


def report_batches(found):
    one, tags = found.values()
    ratios = [t["rate"] / o["rate"] for t, o in zip(tags, one)]
    ratio = statistics.median(ratios)
    rows = [[name, f"{statistics.median(r['rate'] for r in rounds):,.0f}", "" if rounds is one else f"{ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
             "" if rounds is one else f">= 0.6 {'reached' if ratio >= 0.6 else 'missed'}"] for name, rounds in found.items()]
    print(f"\n## GetBatch by users, {BATCH_ENTRIES} entries of 4 KiB, 4 batches at once\n")
    print(table(["policy", "entries/s", "of the first", "wanted"], rows))


def report(options, found, took, former):
    print(f"## GETs of 4 KiB by who asks ({machine()}; {options.rounds} rounds of {options.count:,}, 64 connections, load and server on the same processors)\n")
    base = found["root, bucket without policy"]
    wanted = {"user": 0.9, "session of the user": 0.85, "role": 0.85, PRESIGNED: 0.95}
    rows = []
    for name, rounds in found.items():
        rates = [r["rate"] / b["rate"] for r, b in zip(rounds, base)]
        cpu = [b["cpu_us"] / r["cpu_us"] for r, b in zip(rounds, base)]
        ratio, least = statistics.median(rates), wanted.get(name)
        rows.append([name, f"{statistics.median(r['rate'] for r in rounds):,.0f}", f"{statistics.median(r['cpu_us'] for r in rounds):.1f}",
                     f"{ratio:.2f} ({min(rates):.2f} to {max(rates):.2f})", f"{statistics.median(cpu):.2f}",
                     "" if least is None else f">= {least} {'reached' if ratio >= least else 'missed'}"])
    print(table(["who", "GETs/s", "CPU us each", "of root's GETs/s", "by CPU", "wanted"], rows))
    print(f"\n{CHANGES} changes of a user's policy: {statistics.median(took) * 1000:.1f} ms each (at most {max(took) * 1000:.1f}); "
          f"{former} of {CHANGES * CONNECTIONS} GETs that began after a change's answer were decided by the former policy.")


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=lambda t: Path(t).resolve(), default=Path("build/release").resolve())
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--count", type=int, default=100_000, help="GETs of each caller in each round (default 100,000)")
    p.add_argument("--seconds", type=float, default=3, help="of each caller's batches in each round (default 3)")
    p.add_argument("--folder", help="where the store goes (default: a temporary folder)")
    p.add_argument("--json", type=Path)
    options = p.parse_args()
    options.load = options.build / "bench/load"
    return options


def main():
    options = parse()
    allow_many_files()
    folder = Path(tempfile.mkdtemp(prefix="millrace-users-", dir=options.folder))
    server = Millrace(folder, options.build / "millraced", settings={"key_file": folder / "key"})
    try:
        server.start()
        s3 = S3Client(server)
        for bucket in ("plain", "guarded", "apart", "tagged"):
            s3.request("PUT", f"/{bucket}")
            s3.request("PUT", f"/{bucket}/one", body=b"x")
        for bucket in ("plain", "guarded"):
            run_load(options, server, "put", "--bucket", bucket, "--size", "4K", "--count", KEYS, "--conns", 16)
        run_load(options, server, "put", "--bucket", "tagged", "--size", "4K", "--count", BATCH_KEYS, "--conns", 16)
        for key in re.findall(rb"<Key>(o/[^<]*)</Key>", b"".join(s3.pages("tagged", "o/", False))):
            s3.request("PUT", f"/tagged/{key.decode()}", {"tagging": ""}, TAGGED)
        s3.request("DELETE", "/guarded", {"publicAccessBlock": ""})
        s3.request("PUT", "/guarded", {"policy": ""}, bucket_policy("guarded"))
        root, callers = people(server)
        found = gets(options, server, callers)
        took, former = changes(server, root, callers["user"])
        batched = batches(options, server, batch_readers(server, root))
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"gets": found, "changes_s": took, "former": former, "batches": batched}, indent=1) + "\n", encoding="utf-8")
    report(options, found, took, former)
    report_batches(batched)
    return 1 if former else 0


if __name__ == "__main__":
    sys.exit(main())
