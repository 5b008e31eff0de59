"""Random requests, with random policies that are about them often enough: cases of policy_judge.py and tests/support/policy_driver.c."""
import base64

ACCOUNTS = ("000000000001", "000000000002")
CANONICAL = {"000000000001": "a" * 64, "000000000002": "b" * 64}
BUCKET = "bkt"
OBJECT_ACTIONS = ("s3:GetObject", "s3:PutObject", "s3:GetObjectVersion", "s3:DeleteObject")
BUCKET_ACTIONS = ("s3:ListBucket", "s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:GetBucketAcl")
OBJECT_PATTERNS = ("s3:Get*", "s3:*", "S3:getobject", "s3:?etObject", "s3:*Object", "*")
KEYS = ("a", "a/b", "alice/x", "red*", "x:y", "é", "team/blue", "", "long/" + "z" * 40)
TAGS = ("blue", "red*", "?", "alice", "${aws:username}", "", "team")
TEXTS = ("blue", "Blue", "red", "red*", "alice", "", "bl?e", "a:b", "é", "blue ", "10")
PATTERNS = ("b*", "*", "?lue", "B?ue", "*e*", "r*d", "${aws:username}", "${aws:PrincipalTag/team}", "x${aws:PrincipalTag/none, 'y'}*",
            "${*}", "${?}lue", "red${*}", "${s3:prefix}", "${aws:TagKeys}", "${aws:TagKeys, 'blue'}", "${ aws:username }*", "$blue", "é?", "??")
NUMBERS = ("1", "10", "10.0", "-3", "0.5", "9", "100000000000000000", "007")
DATES = ("2026-01-01", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "1767225600", "2025", "2025-12", "2030-06-01T12:00Z")
ADDRESSES = ("10.0.0.1", "10.1.2.3", "192.168.0.7", "::1", "2001:db8::7", "::ffff:10.0.0.1", "256.1.1.1", "ten")
NETS = ("10.0.0.0/8", "10.0.0.1", "10.0.0.1/32", "192.168.0.0/16", "::/0", "2001:db8::/32", "0.0.0.0/0", "::ffff:10.0.0.0/104", "10.9.9.9/8", "::1")
ARNS = ("arn:aws:iam::000000000001:user/alice", "arn:aws:s3:::bkt", "arn:aws:s3:::bkt/a:b", "arn:aws:iam::000000000001:role/reader", "no-arn")
ARN_PATTERNS = ("arn:aws:iam::000000000001:user/*", "arn:aws:iam::*:*", "arn:aws:s3:::bkt/*", "arn:*:*:*:*:*", "*", "arn:aws:i?m::000000000001:user/alice",
                "arn:aws:iam::000000000001:user/${aws:username}", "arn:aws:*:::bkt")
# Values of the request by key, and of the policy by operators that fit them.
KINDS = {
    "string": (("aws:Referer", "s3:prefix", "aws:PrincipalTag/team", "aws:username", "aws:PrincipalType", "aws:UserAgent"), TEXTS,
               ("StringEquals", "StringNotEquals", "StringEqualsIgnoreCase", "StringNotEqualsIgnoreCase"), (*TEXTS, *PATTERNS)),
    "like": (("aws:Referer", "s3:prefix", "aws:PrincipalTag/team", "aws:username", "aws:userid"), TEXTS, ("StringLike", "StringNotLike"), PATTERNS),
    "number": (("s3:max-keys", "s3:signatureAge"), (*NUMBERS, "ten", ""),
               tuple("Numeric" + of for of in ("Equals", "NotEquals", "LessThan", "LessThanEquals", "GreaterThan", "GreaterThanEquals")),
               (*NUMBERS, 10, 1)),
    "date": (("aws:CurrentTime", "aws:EpochTime"), (*DATES, "yesterday", ""),
             tuple("Date" + of for of in ("Equals", "NotEquals", "LessThan", "LessThanEquals", "GreaterThan", "GreaterThanEquals")), DATES),
    "bool": (("aws:SecureTransport", "aws:ViaAWSService"), ("true", "false", "True", "yes"), ("Bool",), ("true", "false", True, False)),
    "address": (("aws:SourceIp",), ADDRESSES, ("IpAddress", "NotIpAddress"), NETS),
    "arn": (("aws:SourceArn", "aws:PrincipalArn"), ARNS, ("ArnEquals", "ArnNotEquals", "ArnLike", "ArnNotLike"), ARN_PATTERNS),
    "binary": (("s3:x-amz-content-sha256",), TEXTS, ("BinaryEquals",), tuple(base64.b64encode(text.encode()).decode() for text in TEXTS)),
    "set": (("aws:TagKeys", "s3:RequestObjectTagKeys"), TEXTS, ("StringEquals", "StringNotEquals", "StringLike", "StringNotLike"), (*TEXTS, *PATTERNS)),
}


def some(rng, values, most=3):
    """One value, or a list of them."""
    count = rng.choice((0, 1, 1, 1, 2, most))
    return rng.choice(values) if count == 0 else [rng.choice(values) for _ in range(count)]


def cased(rng, name):
    """Names of keys are told apart whatever their case."""
    service, _, rest = name.partition(":")
    return rng.choice((name, name, name, f"{service.upper()}:{rest}", f"{service}:{rest.swapcase()}"))


def people(rng):
    account = rng.choice(ACCOUNTS)
    of = {"account": account, "canonical_id": CANONICAL[account]}
    name, role = rng.choice(("alice", "bob", "red*")), rng.choice(("reader", "writer"))
    return rng.choice((
        {"kind": "anonymous"},
        {"kind": "root", **of, "arn": f"arn:aws:iam::{account}:root", "user_id": account},
        *[{"kind": "user", **of, "arn": f"arn:aws:iam::{account}:user/{path}{name}", "user_id": f"AIDA{name}"} for path in ("", "", "staff/")],
        *[{"kind": "assumed-role", **of, "arn": f"arn:aws:sts::{account}:assumed-role/{role}/s", "user_id": "AROAX:s",
           "parent_arn": f"arn:aws:iam::{account}:role/{role}"}] * 3,
        {"kind": "federated-user", **of, "arn": f"arn:aws:sts::{account}:federated-user/{role}", "user_id": f"{account}:{role}",
         "parent_arn": f"arn:aws:iam::{account}:user/alice"},
        {"kind": "service", "name": "logging.s3.amazonaws.com"},
        {"kind": "web-identity", "name": "accounts.google.com"}))


def names(rng, who):
    """A Principal element: about this principal more often than not."""
    account = who.get("account", ACCOUNTS[0])
    near = [account, f"arn:aws:iam::{account}:root", *(n for n in (who.get("arn"), who.get("parent_arn")) if n and "*" not in n and ":root" not in n)]
    far = ["000000000002", "arn:aws:iam::000000000001:user/carol", "arn:aws:iam::000000000001:role/reader", "arn:aws:iam::000000000002:root",
           "arn:aws:sts::000000000001:assumed-role/reader/s"]
    pick = rng.random()
    if pick < 0.2:
        return rng.choice(("*", {"AWS": "*"}))
    if pick < 0.3:
        return {rng.choice(("Service", "Federated")): rng.choice(("logging.s3.amazonaws.com", "accounts.google.com", "cloudtrail.amazonaws.com"))}
    if pick < 0.4:
        return {"CanonicalUser": rng.choice((CANONICAL[account], CANONICAL[account].upper(), "c" * 64))}
    found = {"AWS": some(rng, near * 3 + far, 4)}
    if pick < 0.5:
        found["CanonicalUser"] = CANONICAL[account]
    return found


def every_level(who):
    """All that a NotPrincipal with Deny has to name to spare somebody."""
    found = [n for n in (who.get("account"), who.get("arn"), who.get("parent_arn")) if n and "*" not in n and ":root" not in n]
    return {"AWS": found or ACCOUNTS[0]}


def condition(rng):
    kind = rng.choice(tuple(KINDS))
    keys, _, operators, values = KINDS[kind]
    if rng.random() < 0.1:
        return "Null", cased(rng, rng.choice(keys)), some(rng, ("true", "false", True))
    operator = rng.choice(operators)
    if kind == "set" or rng.random() < 0.1:
        operator = rng.choice(("ForAllValues:", "ForAnyValue:", "")) + operator
    return operator + rng.choice(("", "", "IfExists")), cased(rng, rng.choice(keys)), some(rng, values)


def conditions(rng):
    found = {}
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        operator, key, values = condition(rng)
        if key.lower() not in (other.lower() for other in found.get(operator, {})):
            found.setdefault(operator, {})[key] = values
    return found


def resources(rng, kind, of_bucket):
    bucket = f"arn:aws:s3:::{BUCKET}"
    objects = [f"{bucket}/*", f"{bucket}/a*", f"{bucket}/${{aws:username}}/*", f"{bucket}/${{aws:PrincipalTag/team}}*", f"arn:aws:s3:::b?t/*",
               f"{bucket}/${{aws:PrincipalTag/none, 'a'}}*", f"{bucket}/?", f"{bucket}/red${{*}}", f"{bucket}/x:*", f"arn:aws:s3:::{BUCKET}*", f"arn:*:s3:::{BUCKET}/*"]
    if kind == "bucket":
        return some(rng, [bucket, f"arn:aws:s3:::{BUCKET}*"] if of_bucket else objects)
    wide = ["*", "arn:aws:s3:::*", "arn:aws:s3:*", "arn:aws:*", "arn:aws:s3:::other/*", f"arn:aws:s3:*:*:{BUCKET}/*",
            f"arn:aws:s3:*:{BUCKET}*", f"arn:aws:*:{BUCKET}/a"]
    return some(rng, objects + [bucket] * 4 + wide)


def statement(rng, kind, who, of_bucket):
    found = {"Effect": rng.choice(("Allow", "Allow", "Deny"))}
    of_bucket = rng.random() < (0.7 if of_bucket else 0.15)
    if kind in ("bucket", "trust"):
        negated = rng.random() < 0.2
        found["NotPrincipal" if negated else "Principal"] = every_level(who) if negated and rng.random() < 0.5 else names(rng, who)
    actions = BUCKET_ACTIONS if of_bucket else (*OBJECT_ACTIONS, *(a for a in OBJECT_PATTERNS if kind != "bucket" or a != "*"))
    if kind == "trust":
        actions = ("sts:AssumeRole", "sts:*", "sts:Assume*", "sts:TagSession")
    found["NotAction" if rng.random() < 0.1 else "Action"] = some(rng, actions)
    if kind != "trust":
        found["NotResource" if rng.random() < 0.1 else "Resource"] = resources(rng, kind, of_bucket)
    made = conditions(rng)
    if made:
        found["Condition"] = made
    return found


def policy(rng, kind, who, of_bucket):
    statements = [statement(rng, kind, who, of_bucket) for _ in range(rng.choice((1, 1, 2, 3)))]
    return {"Version": rng.choice(("2012-10-17", "2012-10-17", "2012-10-17", "2008-10-17")),
            "Statement": statements[0] if len(statements) == 1 and rng.random() < 0.2 else statements}


def keys(rng):
    found = {}
    for kind, (of_kind, values, _, _) in KINDS.items():
        for name in of_kind:
            if rng.random() < 0.6 and not name.lower().startswith(("aws:username", "aws:userid", "aws:principalarn", "aws:principaltype")):
                many = kind == "set" or rng.random() < 0.05
                found[name] = [rng.choice(values) for _ in range(rng.choice((0, 1, 2, 3)))] if many else rng.choice(values)
    if rng.random() < 0.5:
        found["aws:PrincipalTag/team"] = rng.choice(TAGS)
    return found


def case(rng):
    who, trusts = people(rng), rng.random() < 0.12
    of_bucket = rng.random() < (0.7 if who["kind"] == "root" else 0.2)
    entries = []
    if who["kind"] in ("user", "assumed-role", "federated-user"):
        entries += [{"role": "identity", "kind": rng.choice(("managed", "user", "group")), "policy": policy(rng, "managed", who, of_bucket)}
                    for _ in range(rng.choice((0, 1, 1, 2)))]
        if rng.random() < 0.25:
            entries.append({"role": "boundary", "kind": "managed", "policy": policy(rng, "managed", who, of_bucket)})
        if who["kind"] != "user" and rng.random() < 0.5:
            entries += [{"role": "session", "kind": "session", "policy": policy(rng, "session", who, of_bucket)} for _ in range(rng.choice((1, 1, 2)))]
    kind = "trust" if trusts else "bucket"
    if trusts or rng.random() < 0.7:
        entries.append({"role": "resource", "kind": kind, "policy": policy(rng, kind, who, of_bucket)})
    if trusts:
        for entry in entries:
            for one in entry["policy"]["Statement"] if isinstance(entry["policy"]["Statement"], list) else [entry["policy"]["Statement"]]:
                if rng.random() < 0.6 and "Resource" in one and "Action" in one:
                    one.update(Action=rng.choice(("sts:AssumeRole", "*", "sts:*")), Resource=rng.choice(("*", "arn:aws:iam::*:role/*")))
    key = rng.choice(KEYS)
    resource = f"arn:aws:s3:::{BUCKET}" if of_bucket or not key else f"arn:aws:s3:::{BUCKET}/{key}"
    context = {"principal": who, "action": "sts:AssumeRole" if trusts else rng.choice(BUCKET_ACTIONS if of_bucket else OBJECT_ACTIONS),
               "resource": "arn:aws:iam::000000000001:role/assumed" if trusts else resource, "resource_account": rng.choice(ACCOUNTS), "keys": keys(rng)}
    if not trusts and rng.random() < 0.15:
        context["acl"] = 3 if who["kind"] == "anonymous" else rng.choice((1, 3))
    if not trusts and rng.random() < 0.2:
        context["restrict_public"] = True
    return {"bucket": BUCKET, "policies": entries, "context": context}
