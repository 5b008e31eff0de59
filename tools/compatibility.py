#!/usr/bin/env python3
"""Writes docs/s3-compatibility.md: each operation of S3, IAM and STS with each request header and parameter, and what becomes of it.

    build/venv/bin/python tools/compatibility.py [--check]     --check: compares, writes nothing, status 1 if the page is not current

Operations and parameters come from botocore's model (the version of tools/requirements.txt). What is offered comes from the tables
of the source: gateway/s3/route.c, the list of refused headers in gateway/s3/write_headers.c, and gateway/iam/iam_actions.c. A
parameter that neither the source names nor NOTES explains ends this with an error: somebody has to decide what it means here."""
import argparse
import gzip
import json
import re
import sys
from pathlib import Path

import botocore

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/s3-compatibility.md"
MODELS = {"s3": "2006-03-01", "iam": "2010-05-08", "sts": "2011-06-15"}
YES, PARTLY, REFUSED = "yes", "partly", "refused"
NOT_IMPLEMENTED = "501 NotImplemented"

# Parameters that need a word, by name or by (operation, name). A text for YES is a remark.
NOTES = {
    "x-amz-bucket-namespace": (YES, "no effect: a store is one namespace"),
    "x-amz-bucket-object-lock-token": (YES, "no effect: nobody's leave is needed"),
    "x-amz-copy-source-server-side-encryption-customer-algorithm": (REFUSED, "400 InvalidRequest"),
    "x-amz-copy-source-server-side-encryption-customer-key": (REFUSED, "400 InvalidRequest"),
    "x-amz-copy-source-server-side-encryption-customer-key-MD5": (REFUSED, "400 InvalidRequest"),
    "x-amz-if-match-initiated-time": (REFUSED, NOT_IMPLEMENTED),
    "x-amz-mfa": (REFUSED, NOT_IMPLEMENTED),
    "x-amz-optional-object-attributes": (YES, "no effect: no object is being restored"),
    "x-amz-request-payer": (YES, "no effect: nobody pays"),
    "x-amz-skip-destination-validation": (YES, "no effect: there are no destinations"),
    "x-amz-storage-class": (PARTLY, "six classes are kept, all stored alike; others are 400 InvalidStorageClass"),
    "x-amz-server-side-encryption-bucket-key-enabled": (PARTLY, "`false`; else " + NOT_IMPLEMENTED),
    "x-amz-website-redirect-location": (YES, ""),
    ("CreateBucket", "x-amz-object-ownership"): (PARTLY, "see gateway.md"),
    ("DeleteObject", "If-Match"): (YES, ""),
    ("PutBucketVersioning", "x-amz-mfa"): (REFUSED, NOT_IMPLEMENTED),
}
for _name in ("algorithm", "key", "key-MD5"):
    for _operation in ("GetObject", "HeadObject", "GetObjectAttributes", "ListParts"):
        NOTES[_operation, "x-amz-server-side-encryption-customer-" + _name] = (REFUSED, "400 InvalidRequest")

# Not repeated in each row, since they are the same for every operation that has them.
COMMON = {"x-amz-expected-bucket-owner", "x-amz-request-payer", "x-amz-sdk-checksum-algorithm", "Content-MD5"}
KIND = re.compile(r"x-amz-checksum-(crc|sha|md5|xxhash)\w*")
KINDS = "x-amz-checksum-KIND"

# Operations that S3 has under another name too.
SAME = {"GetBucketLifecycle": "GetBucketLifecycleConfiguration", "PutBucketLifecycle": "PutBucketLifecycleConfiguration",
        "GetBucketNotification": "GetBucketNotificationConfiguration", "PutBucketNotification": "PutBucketNotificationConfiguration",
        "ListBucketAnalyticsConfigurations": "GetBucketAnalyticsConfiguration",
        "ListBucketIntelligentTieringConfigurations": "GetBucketIntelligentTieringConfiguration",
        "ListBucketInventoryConfigurations": "GetBucketInventoryConfiguration",
        "ListBucketMetricsConfigurations": "GetBucketMetricsConfiguration"}
# Offered, but nothing of theirs is ever there.
EMPTY = {"GetBucketEncryption", "DeleteBucketEncryption", "GetBucketReplication", "DeleteBucketReplication", "GetBucketMetadataConfiguration",
         "GetBucketMetadataTableConfiguration"}
OTHER_ENDPOINT = {"CreateSession": "of directory buckets", "ListDirectoryBuckets": "of directory buckets",
                  "WriteGetObjectResponse": "of Object Lambda's endpoint"}

HEAD = """# S3 compatibility

For operators and developers who ask whether an S3 request works here before they send it. The page
lists every operation of S3, IAM and STS that SDKs have (botocore {version}), and for S3 each request
header and query parameter. `make docs` writes it from the tables of the source.

- **yes**: as AWS documents it. [gateway.md](gateway.md#not-as-aws-does) lists the details that
  differ, among them elements of documents.
- **partly**: as the remark says.
- **refused**: the request gets the status and code that stand there, and nothing is stored.

"""


def model(service):
    path = Path(botocore.__file__).parent / "data" / service / MODELS[service] / "service-2.json.gz"
    return json.loads(gzip.open(path).read())


def c_files(*folders):
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.[ch]"))]


def routed():
    return set(re.findall(r'^\s+[A-Z_]+\("(\w+)"', (ROOT / "gateway/s3/route.c").read_text(), re.M))


def refused_prefixes():
    text = (ROOT / "gateway/s3/write_headers.c").read_text()
    return re.findall(r'"([\w-]+)"', re.search(r"refused\[\] = \{(.*?)\};", text, re.S).group(1))


def parameters(of, name):
    """(header or query parameter) of an operation, sorted, headers after parameters."""
    shape = of["operations"][name].get("input", {}).get("shape")
    fields = of["shapes"][shape]["members"].values() if shape else ()
    found = [(field["location"] != "querystring", field["locationName"]) for field in fields
             if field.get("location") in ("querystring", "header", "headers")]
    return [name for _, name in sorted(found, key=lambda item: (item[0], item[1].lower()))]


class Fates:
    """What becomes of a parameter of an operation."""

    def __init__(self):
        self.prefixes = refused_prefixes()
        self.literals = {word.lower() for path in c_files("gateway", "s3") for word in re.findall(r'"([\w-]+)"', path.read_text())}

    def of(self, operation, name):
        for key in ((operation, name), name):
            if key in NOTES:
                return NOTES[key]
        # Without grants, only those canned ACLs can be taken that grant nothing.
        if name == "x-amz-acl" and "x-amz-grant-" in self.prefixes:
            return PARTLY, "those that leave everything to the owner; else " + NOT_IMPLEMENTED
        if any(name.lower().startswith(prefix) for prefix in self.prefixes):
            return REFUSED, NOT_IMPLEMENTED
        if name.lower() in self.literals:
            return YES, ""
        raise SystemExit(f"compatibility.py: what becomes of {name} of {operation}? Say so in NOTES.")


def listed(names):
    return ", ".join(f"`{name}`" for name in names)


def remarks(pairs):
    """`a`, `b` (what); `c` (else)"""
    texts = {}
    for name, text in pairs:
        if name in COMMON:
            continue
        name = KINDS if KIND.fullmatch(name) else name
        names = texts.setdefault(text, [])
        names += [name] if name not in names else []
    return "; ".join(listed(names) + (f" ({text})" if text else "") for text, names in texts.items()) or "-"


def s3_rows(of, offered):
    """(operation, verdict, rest of its row) and the number of parameters by fate."""
    fates, rows, counts = Fates(), [], dict.fromkeys((YES, PARTLY, REFUSED), 0)
    for name in sorted(of["operations"]):
        if name in OTHER_ENDPOINT:
            rows.append((name, "no", f"{OTHER_ENDPOINT[name]}: {NOT_IMPLEMENTED}"))
            continue
        if name not in offered and SAME.get(name) not in offered:
            rows.append((name, "no", NOT_IMPLEMENTED))
            continue
        by = {YES: [], PARTLY: [], REFUSED: []}
        for parameter in parameters(of, name):
            fate, text = fates.of(name, parameter)
            by[fate].append((parameter, text))
            counts[fate] += 1
        verdict = "partly" if name in EMPTY else "yes"
        rows.append((name, verdict, by))
    return rows, counts


def s3_page(of):
    offered = routed()
    rows, counts = s3_rows(of, offered)
    verdicts = [verdict for _, verdict, _ in rows]
    own = sorted(offered - set(of["operations"]) - {"PostObject"})
    lines = ["## In figures", "", "| | yes | partly | refused |", "|---|---|---|---|",
             f"| operations of S3 ({len(rows)}) | {verdicts.count('yes')} | {verdicts.count('partly')} | {verdicts.count('no')} |",
             f"| headers and parameters of those that are offered ({sum(counts.values())}) | {counts[YES]} | {counts[PARTLY]} | {counts[REFUSED]} |"]
    figures = lines
    lines = ["## Operations of S3 that are offered", "",
             "Beside these, browsers' forms (PostObject) are taken. An operation marked with * answers that there",
             "is nothing, and nothing can be made. The store's own operations are", ", ".join(own) + ".", "",
             "Not repeated below: `x-amz-expected-bucket-owner`, `x-amz-sdk-checksum-algorithm` and `Content-MD5`",
             "are taken wherever S3 has them. `x-amz-request-payer` has no effect, since nobody pays.",
             "`x-amz-checksum-KIND` stands for the ten kinds.", "",
             "| operation | taken | partly | refused |", "|---|---|---|---|"]
    for name, verdict, by in rows:
        if verdict != "no":
            lines.append(f"| {name}{'*' if verdict == 'partly' else ''} | {remarks(by[YES])} | {remarks(by[PARTLY])} | {remarks(by[REFUSED])} |")
    lines += ["", "## Operations of S3 that are refused", "", "| operation | answer |", "|---|---|"]
    lines += [f"| {name} | {text} |" for name, verdict, text in rows if verdict == "no"]
    return figures, lines


def actions():
    """The names in the tables of actions of IAM and STS."""
    files = c_files("gateway/iam", "gateway/sts")
    return {name for path in files for name in re.findall(r'^\s+\{"([A-Z]\w+)", ', path.read_text(), re.M)}


def action_page(title, of, offered):
    have = sorted(name for name in of["operations"] if name in offered)
    rest = sorted(name for name in of["operations"] if name not in offered)
    row = f"| actions of {title} ({len(have) + len(rest)}) | {len(have)} | 0 | {len(rest)} |"
    return row, [f"## Actions of {title}", "", "| | |", "|---|---|", "| yes | " + ", ".join(have) + " |",
                 "| no: 400 InvalidAction | " + ", ".join(rest) + " |"]


def page():
    figures, lines = s3_page(model("s3"))
    offered = actions()
    for title, service in (("IAM", "iam"), ("STS", "sts")):
        row, more = action_page(title, model(service), offered)
        figures.append(row)
        lines += ["", *more]
    return HEAD.format(version=botocore.__version__) + "\n".join(figures + [""] + lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if the page is not current")
    text = page()
    if parser.parse_args().check:
        return 0 if PAGE.is_file() and PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
