"""Decides requests by policies of AWS's language, written from AWS's documentation and from nothing of the project's code.

Sources: "Policy evaluation logic", "IAM JSON policy elements" (Principal, NotPrincipal, Action, Resource, Condition operators, variables and
tags) and "Global condition context keys" of the IAM User Guide. What these leave open is decided as docs/design/access.md says; the rule is
named there. A case is what tests/support/policy_driver.c reads as a line.
"""
import base64
import functools
import ipaddress
import re
from datetime import datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation

NOTHING, ACCOUNT, PARENT, DIRECT = range(4)  # how a policy with principals grants, the weakest first
IN_ACCOUNTS = ("user", "assumed-role", "federated-user")
VARIABLE = re.compile(r"\$\{ *([^,}]*?) *(?:, *'([^']*)' *)?\}")


class Unresolved(Exception):
    """A variable has no value, so that what contains it equals nothing (A8)."""


# ---- texts ---------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=100000)
def as_pattern(pieces, nocase):
    """pieces: (text, is it a pattern) in a row."""
    out = []
    for text, wild in pieces:
        for c in text:
            out.append(".*" if wild and c == "*" else "." if wild and c == "?" else re.escape(c))
    return re.compile("".join(out), re.DOTALL | (re.IGNORECASE | re.ASCII if nocase else 0))


def pieces_of(text, request, wild, variables):
    """Values of variables are text, whatever characters they have (A7)."""
    found, at = [], 0
    for match in VARIABLE.finditer(text) if variables else ():
        found.append((text[at:match.start()], wild))
        name, default = match.groups()
        found.append((name if name in "*?$" and default is None else request.variable(name, default), False))
        at = match.end()
    found.append((text[at:], wild))
    return tuple(found)


def text_matches(text, value, request, wild, variables, nocase=False):
    try:
        return as_pattern(pieces_of(text, request, wild, variables), nocase).fullmatch(value) is not None
    except Unresolved:
        return False


def arn_parts(arn):
    """Six parts; the last one has all that follows. Colons within variables do not count."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(arn):
        if arn.startswith("${", i):
            depth = 1
        elif c == "}":
            depth = 0
        elif c == ":" and not depth and len(parts) < 5:
            parts.append(arn[start:i])
            start = i + 1
    return [*parts, arn[start:]]


def arn_matches(pattern, arn, request, variables):
    """Part by part. A star that ends a part may reach beyond it, where the pattern has fewer parts than an ARN."""
    if pattern == "*":
        return True
    wanted, given = arn_parts(pattern), arn.split(":", 5)
    if len(given) < 6:
        return False
    if len(wanted) == 6:
        return all(as_pattern(pieces_of(part, request, True, variables), False).fullmatch(value) for part, value in zip(wanted, given))
    return as_pattern(pieces_of(pattern, request, True, variables), False).fullmatch(arn) is not None


# ---- requests ------------------------------------------------------------------------------------


class Request:
    """The context of a case."""

    def __init__(self, case):
        context = case["context"]
        self.principal = context["principal"]
        self.action, self.resource = context["action"], context.get("resource", "")
        self.owner, self.acl = context.get("resource_account"), context.get("acl", NOTHING)
        self.restrict_public = context.get("restrict_public", False)
        self.keys = {name.lower(): [values] if isinstance(values, str) else values for name, values in context.get("keys", {}).items()}
        self.keys.update(self.of_principal())

    def of_principal(self):
        p, kind = self.principal, self.principal["kind"]
        arn = p.get("parent_arn") if kind == "assumed-role" else p.get("arn")
        types = {"root": "Account", "user": "User", "assumed-role": "AssumedRole", "federated-user": "FederatedUser", "service": "Service"}
        found = {"aws:principalarn": arn, "aws:principalaccount": p.get("account"), "aws:principaltype": types.get(kind, "Anonymous"),
                 "aws:userid": "anonymous" if kind == "anonymous" else p.get("user_id"),
                 "aws:username": p["arn"].rsplit("/", 1)[1] if kind == "user" else None}
        return {name: [] if value is None else [value] for name, value in found.items()}

    def values(self, name):
        return self.keys.get(name.lower(), [])

    def variable(self, name, default):
        values = self.values(name)
        if len(values) == 1:
            return values[0]
        if values or default is None:
            raise Unresolved
        return default


# ---- conditions ----------------------------------------------------------------------------------


def number(text):
    """Up to 18 digits and 9 behind the point (A15)."""
    if not re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]{1,9})?", text):
        raise ValueError(text)
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(text) from error


def date(text):
    """W3C's forms, or seconds since 1970; four digits are a year (A15)."""
    if re.fullmatch(r"[0-9]+", text) and len(text) != 4:
        return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=int(text))
    match = re.fullmatch(r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d))?(Z|[+-]\d\d:\d\d))?)?)?", text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second, zone = match.groups()
    zone = timezone.utc if zone in (None, "Z") else timezone(timedelta(hours=int(zone[:3]), minutes=int(zone[0] + zone[4:])))
    return datetime(int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0), tzinfo=zone)


def truth(text):
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def network(text):
    """IPv4 is a part of IPv6, as ::ffff:a.b.c.d (A16)."""
    address, _, bits = text.partition("/")
    ip = ipaddress.ip_address(address)
    length = int(bits) if bits else ip.max_prefixlen
    if not 0 <= length <= ip.max_prefixlen:
        raise ValueError(text)
    value = int(ip) if ip.version == 6 else 0xFFFF00000000 | int(ip)
    shift = ip.max_prefixlen - length
    return value >> shift << shift, shift


def within(address, net):
    value, shift = net
    return address[0] >> shift << shift == value


def as_text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


ORDERS = {"Equals": lambda a, b: a == b, "LessThan": lambda a, b: a < b, "LessThanEquals": lambda a, b: a <= b,
          "GreaterThan": lambda a, b: a > b, "GreaterThanEquals": lambda a, b: a >= b}


def compares(operator, wanted, given, request, variables):
    """Does one value of the request match one of the policy's, by an operator without Not?"""
    if operator in ("StringEquals", "StringEqualsIgnoreCase", "StringLike"):
        return text_matches(wanted, given, request, operator == "StringLike", variables, operator == "StringEqualsIgnoreCase")
    if operator in ("ArnEquals", "ArnLike"):
        try:
            return arn_matches(wanted, given, request, variables) and given.count(":") >= 5
        except Unresolved:
            return False
    if operator == "BinaryEquals":
        return base64.b64decode(wanted) == given.encode()
    try:
        if operator.startswith("Numeric"):
            return ORDERS[operator[len("Numeric"):]](number(given), number(wanted))
        if operator.startswith("Date"):
            return ORDERS[operator[len("Date"):]](date(given), date(wanted))
        if operator == "Bool":
            return truth(given) == truth(wanted)
        if operator == "IpAddress":
            return within(network(given), network(wanted))
    except ValueError:  # what is no number, date or address equals nothing (A17)
        return False
    raise KeyError(operator)


def condition_holds(name, key, wanted, request, variables):
    wanted = [as_text(value) for value in (wanted if isinstance(wanted, list) else [wanted])]
    given = request.values(key)
    if name == "Null":
        return any(truth(value) != bool(given) for value in wanted)
    every, some = name.startswith("ForAllValues:"), name.startswith("ForAnyValue:")
    name = name.split(":")[-1]
    if_exists = name.endswith("IfExists")
    name = name[:-len("IfExists")] if if_exists else name
    negated = name == "NotIpAddress" or (re.fullmatch(r"(String|Arn|Numeric|Date)Not\w+", name) is not None)
    operator = "IpAddress" if name == "NotIpAddress" else name.replace("Not", "", 1) if negated else name
    if (every or some) and given == [""]:
        given = []  # for these two, an empty text is an empty set (A18)
    if not given:
        return if_exists or every or (negated and not some)  # ForAnyValue with IfExists: access.md, "Where AWS says two things"
    met = [any(compares(operator, value, one, request, variables) for value in wanted) != negated for one in given]
    return all(met) if every or (negated and not some) else any(met)


# ---- statements ----------------------------------------------------------------------------------


def listed(value):
    return value if isinstance(value, list) else [value]


def levels_named(element, principal):
    """At which levels the names of the element mean the principal, and whether one means everyone."""
    if element == "*":
        return {DIRECT}, True
    found, everyone, kind = set(), False, principal["kind"]
    for name in listed(element.get("AWS", [])):
        if name == "*":
            if kind not in ("service", "web-identity"):
                found.add(DIRECT)
                everyone = True
        elif re.fullmatch(r"\d{12}", name) or name.endswith(":root"):
            if principal.get("account") == (name if name.isdigit() else name.split(":")[4]):
                found.add(ACCOUNT)
        elif name == principal.get("arn"):
            found.add(DIRECT)
        elif name == principal.get("parent_arn"):
            found.add(PARENT)
    for name in listed(element.get("CanonicalUser", [])):
        if name.lower() == principal.get("canonical_id"):
            found.add(ACCOUNT)
    for of, who in (("Federated", "web-identity"), ("Service", "service")):
        if kind == who and principal.get("name") in listed(element.get(of, [])):
            found.add(DIRECT)
    return found, everyone


def grant_of_names(statement, principal):
    """NotPrincipal with Deny spares only whoever it names with the account and everything between, and nobody who has a boundary."""
    if "Principal" in statement:
        return max(levels_named(statement["Principal"], principal)[0], default=NOTHING)
    found, everyone = levels_named(statement["NotPrincipal"], principal)
    if everyone or (statement["Effect"] == "Allow" and found):
        return NOTHING
    needed = {"root": {ACCOUNT}, "user": {ACCOUNT, DIRECT}, "assumed-role": {ACCOUNT, PARENT, DIRECT},
              "federated-user": {ACCOUNT, PARENT, DIRECT}}.get(principal["kind"], {DIRECT})
    spared = statement["Effect"] == "Deny" and found >= needed and not principal.get("bounded")
    return NOTHING if spared else DIRECT


def about_action(statement, request):
    def named(names):
        return any(as_pattern(((name, True),), True).fullmatch(request.action) for name in listed(names))
    return named(statement["Action"]) if "Action" in statement else not named(statement["NotAction"])


def about_resource(statement, request, variables):
    if "Resource" not in statement and "NotResource" not in statement:
        return True  # a trust policy is about its role
    negated, unresolved = "NotResource" in statement, False
    for pattern in listed(statement["NotResource" if negated else "Resource"]):
        try:
            if arn_matches(pattern, request.resource, request, variables):
                return not negated
        except Unresolved:
            unresolved = True
    return negated and (not unresolved or statement["Effect"] == "Deny")  # A8


def statement_grants(statement, request, variables, with_names):
    """How the statement applies; NOTHING: it does not."""
    if not about_action(statement, request):
        return NOTHING
    grant = grant_of_names(statement, request.principal) if with_names else DIRECT
    if grant == NOTHING or not about_resource(statement, request, variables):
        return NOTHING
    conditions = statement.get("Condition", {})
    if all(condition_holds(operator, key, values, request, variables) for operator, keys in conditions.items() for key, values in keys.items()):
        return grant
    return NOTHING


def policy_says(entry, request):
    """(is it denied, how it is granted)"""
    policy = entry["policy"]
    variables, names = policy.get("Version") == "2012-10-17", entry["role"] == "resource"
    applies = [(s["Effect"], statement_grants(s, request, variables, names)) for s in listed(policy["Statement"])]
    return (any(grant != NOTHING for effect, grant in applies if effect == "Deny"),
            max((grant for effect, grant in applies if effect == "Allow"), default=NOTHING))


# ---- all policies --------------------------------------------------------------------------------


def decide(case, public=False):
    """allow, explicit-deny or implicit-deny. public: whether the resource policy is, by S3's "The meaning of public"."""
    request = Request(case)
    by_role = {role: [p for p in case["policies"] if p["role"] == role] for role in ("identity", "boundary", "session", "resource")}
    principal, kind = request.principal, request.principal["kind"]
    principal["bounded"] = bool(by_role["boundary"])
    same_account = principal.get("account") is not None and principal.get("account") == request.owner
    trust = any(p.get("kind") == "trust" for p in by_role["resource"])
    if kind == "root" and same_account and request.action.lower() in ("s3:getbucketpolicy", "s3:putbucketpolicy", "s3:deletebucketpolicy"):
        return "allow"
    said = {role: [policy_says(p, request) for p in entries] for role, entries in by_role.items()
            if role == "resource" or kind in IN_ACCOUNTS}
    if any(denied for answers in said.values() for denied, _ in answers):
        return "explicit-deny"
    granted = max((grant for _, grant in said["resource"]), default=NOTHING)
    if request.restrict_public and public and not same_account and kind != "service":
        granted = NOTHING
    granted = max(granted, request.acl)
    if kind == "root":
        allowed = not trust and (same_account or granted != NOTHING)
    elif kind not in IN_ACCOUNTS:
        allowed = granted != NOTHING
    else:
        allows = {role: any(grant != NOTHING for _, grant in answers) for role, answers in said.items()}
        limits = (allows["boundary"] or not by_role["boundary"]) and (allows["session"] or (not by_role["session"] and kind != "federated-user"))
        own = allows["identity"] and limits
        if same_account:
            allowed = granted == DIRECT or (granted == PARENT and limits) or (own and not (trust and granted == NOTHING))
        else:
            allowed = granted != NOTHING and own
    return "allow" if allowed else "implicit-deny"
