"""Alert rules and dashboard: they parse, and name metrics and labels that docs/metrics.md has, in ways that suit their kinds.

promtool would find mistakes of grammar; what it cannot know is which metrics there are. The tokenizer below reads as much of PromQL as is
needed for that, and refuses what it does not understand.
"""
import json
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
RULES = ROOT / "conf" / "prometheus-alerts.yml"
DASHBOARD = ROOT / "conf" / "grafana-dashboard.json"
OF_THE_SCRAPE = {"instance", "job"}  # labels that Prometheus adds
GROWTH = {"rate", "irate", "increase"}
OVER_TIME = {"predict_linear", "deriv", "delta", "max_over_time", "min_over_time", "avg_over_time"}
FUNCTIONS = GROWTH | OVER_TIME | {"absent", "histogram_quantile", "time", "clamp_min", "clamp_max", "sum", "min", "max", "avg", "count", "topk"}
GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
OPERATORS = {"and", "or", "unless", "bool", "offset"}
TOKEN = re.compile(r"""(?P<blank>\s+)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<range>\[(?:\d+[smhdw]|\$__rate_interval|\$__interval)\])
                       |(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)|(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
                       |(?P<symbol>=~|!~|!=|==|<=|>=|[-+*/%^<>=(){},])""", re.VERBOSE)


class Wrong(Exception):
    """What is wrong with an expression."""


def known():
    """{name: (kind, {label: its values, or None})} of docs/metrics.md."""
    found = {}
    for name, kind, labels in re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE):
        values = dict(re.findall(r"(\w+) \(([^)]*)\)", labels))
        names = [n for n in re.sub(r"\([^)]*\)", "", labels).replace("-", "").replace(" ", "").split(",") if n]
        lists = {n: set(values[n].split(", ")) if re.fullmatch(r"[\w-]+(, [\w-]+)*", values.get(n, "")) else None for n in names}
        found[name] = (kind, lists)
    found["up"] = ("gauge", {})  # Prometheus's own
    return found


METRICS = known()


def tokens_of(text):
    at, tokens = 0, []
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise Wrong(f"no token: {text[at:at + 20]!r}")
        if match.lastgroup != "blank":
            tokens.append((match.lastgroup, match[0]))
        at = match.end()
    return tokens


def metric_of(name):
    """Kind and labels of a series."""
    if name in METRICS:
        if METRICS[name][0] == "histogram":
            raise Wrong(f"{name} is a histogram: _bucket, _sum or _count")
        return METRICS[name]
    stem, _, suffix = name.rpartition("_")
    if suffix in ("bucket", "sum", "count") and METRICS.get(stem, ("",))[0] == "histogram":
        labels = METRICS[stem][1]
        return "counter", dict(labels, le=None) if suffix == "bucket" else labels
    raise Wrong(f"no such metric: {name}")


def matchers(tokens, at, name, labels):
    """Reads {label="value", ...}; the place behind it."""
    while tokens[at] != ("symbol", "}"):
        (kind, label), (_, operator), (value_kind, value) = tokens[at:at + 3]
        if kind != "name" or operator not in ("=", "!=", "=~", "!~") or value_kind != "string":
            raise Wrong(f"not a matcher: {tokens[at:at + 3]}")
        if label not in labels and label not in OF_THE_SCRAPE:
            raise Wrong(f"{name} has no label {label}")
        values = value[1:-1].split("|") if operator in ("=~", "!~") else [value[1:-1]]
        if labels.get(label) is not None and not set(values) <= labels[label]:
            raise Wrong(f"{label} of {name} is never {value}")
        at += 3
        if tokens[at] == ("symbol", ","):
            at += 1
    return at + 1


def check(text):
    """The labels that may be named beside the expression; raises Wrong."""
    tokens = tokens_of(text) + [("end", "")] * 3
    at, depth, seen, grouped, function = 0, 0, set(OF_THE_SCRAPE), set(), {}
    series = 0
    while tokens[at][0] != "end":
        kind, word = tokens[at]
        follower = tokens[at + 1][1]
        at += 1
        if word == "(":
            depth += 1
        elif word == ")":
            depth -= 1
        elif kind == "name" and word in GROUPING:
            while tokens[at][1] != ")":
                if tokens[at][0] == "name":
                    grouped.add(tokens[at][1])
                elif tokens[at][1] not in ("(", ","):
                    raise Wrong(f"not a list of labels: {text}")
                at += 1
            at += 1
        elif kind == "name" and word in FUNCTIONS and (follower == "(" or follower in GROUPING):
            function[depth + 1] = word
        elif kind == "name" and word not in OPERATORS:
            series += 1
            of, labels = metric_of(word)
            seen |= set(labels)
            if tokens[at] == ("symbol", "{"):
                at = matchers(tokens, at + 1, word, labels)
            ranged = tokens[at][0] == "range"
            wanted = GROWTH if of == "counter" else OVER_TIME
            if of == "counter" and not ranged:
                raise Wrong(f"{word} only grows: what matters is its rate")
            if ranged and function.get(depth) not in wanted:
                raise Wrong(f"{word} in {function.get(depth)}()")
            at += ranged
        elif kind == "range":
            raise Wrong(f"a range of nothing: {text}")
        if depth < 0:
            raise Wrong(f"parentheses: {text}")
    if depth != 0 or series == 0:
        raise Wrong(f"parentheses, or no metric: {text}")
    if not grouped <= seen:
        raise Wrong(f"no such label: {grouped - seen}")
    return seen


def rules():
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def panels():
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


# ---- what is there ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_rules(rule):
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"} and rule["labels"]["severity"] in ("page", "ticket")
    assert re.fullmatch(r"Millrace[A-Za-z]+", rule["alert"]) and re.fullmatch(r"\d+[mh]", rule.get("for", "1m"))
    labels = check(rule["expr"])
    for text in rule["annotations"].values():
        used = re.findall(r"\{\{ *([^}]*?) *\}\}", text)
        assert all(word == "$value" or word.split(".")[0] == "$labels" and word.split(".")[1] in labels for word in used), text
        assert all(name in METRICS or metric_of(name) for name in re.findall(r"\bmillrace_\w+", text)), text
    assert set(rule["annotations"]) == {"summary", "description"}


def test_what_must_be_told():
    """A drive that is out, failed, unreliable or filling; too little redundancy; no writes; damage; errors; slowness."""
    text = RULES.read_text()
    for word in ("millrace_drives_in", 'state="failed"', "millrace_drive_unreliable", "millrace_objects_below_redundancy", "millrace_writable",
                 "predict_linear(millrace_drive_free_bytes", "millrace_scrub_damaged_shards", 'status="5xx"', "duration_seconds_bucket", "millrace_lock_clock_frozen",
                 "millrace_cluster_etcd_silent_seconds", "millrace_cluster_nodes_silent", "millrace_cluster_clock_skew_ms", "millrace_cluster_pool_led == 0"):
        assert word in text, word
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_panels(panel):
    assert panel["targets"] and panel["gridPos"]["w"] + panel["gridPos"]["x"] <= 24
    for target in panel["targets"]:
        labels = check(target["expr"])
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels, target


def test_dashboard():
    board = json.loads(DASHBOARD.read_text())
    idents = [panel["id"] for panel in board["panels"]]
    assert len(idents) == len(set(idents)) and board["title"] == "millrace"
    variables = {variable["name"] for variable in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(board["panels"]))) - {"__rate_interval"}
    assert used <= variables, used - variables
    for variable in board["templating"]["list"]:
        assert all(name in METRICS for name in re.findall(r"millrace_\w+", json.dumps(variable)))


# ---- the check can fail ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    "millrace_no_such == 0", "millrace_requests_total > 0", "rate(millrace_ready[5m])", "rate(millrace_requests_total)", 'millrace_ready{drive="1"}',
    "millrace_request_duration_seconds > 1", "rate(millrace_request_duration_seconds[5m])", "rate(millrace_requests_bucket[5m])",
    "sum by (drive) (millrace_ready)", "sum(millrace_ready", "millrace_ready)", 'millrace_drive_state{state="broken"}', "millrace_ready{job}", "1 > 0",
    "frobnicate(millrace_ready)", "millrace_ready[5m]", "millrace_ready ! 1", "predict_linear(millrace_requests_total[5m], 1)"])
def test_mistakes_are_found(text):
    with pytest.raises(Wrong):
        check(text)
