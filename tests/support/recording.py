"""Requests that a client made once, as a fixture, and what it was answered; sent again with fresh signatures and compared.

A fixture is JSON: {"client", "made_by", "steps": [{"command", "calls": [call]}]}. What differs from run to run has a name in braces: {bucket}, {v1} for the
first version id that an answer gave, {u1} for an upload id, {time}, {later} (a day from now), {digest} of the body that goes with it.

What was answered must be answered again: each header, and each text of a document in its order. More may come.
"""
import base64
import datetime
import json
import re
import xml.etree.ElementTree as ElementTree

from tests.support import checksums

TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
DATE = re.compile(r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT")
NAMED = re.compile(r"\{[a-z]+[0-9]*\}")
IDS = {"VersionId": "v", "DeleteMarkerVersionId": "v", "UploadId": "u"}  # of elements; the letter that names begin with
ID_HEADERS = ("x-amz-version-id", "x-amz-copy-source-version-id")
NOT_COMPARED = {"date", "server", "connection", "keep-alive", "content-length", "transfer-encoding", "last-modified", "x-amz-request-id", "x-amz-id-2"}
DIGESTS = {"content-md5": checksums.content_md5,
           **{checksums.header(kind): (lambda data, kind=kind: checksums.checksum(kind, data)) for kind in checksums.KINDS}}


class Names:
    """What differs from run to run, and what it is called in a fixture."""

    def __init__(self, bucket, host):
        self.values = {"{bucket}": bucket, "{host}": host}

    def learn(self, letter, value):
        if value and value != "null" and value not in self.values.values():
            count = sum(1 for name in self.values if re.fullmatch(rf"\{{{letter}\d+\}}", name))
            self.values[f"{{{letter}{count + 1}}}"] = value

    def learn_from(self, headers, body):
        """Ids of an answer, in the order in which they come."""
        for header in ID_HEADERS:
            self.learn("v", headers.get(header))
        for element in elements_of(body):
            if element.tag in IDS:
                self.learn(IDS[element.tag], element.text)

    def hide(self, text):
        for name, value in sorted(self.values.items(), key=lambda item: -len(item[1])):
            text = text.replace(value, name)
        return text

    def show(self, text):
        """The request's text as this run has it."""
        later = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        return NAMED.sub(lambda found: {**self.values, "{later}": later}.get(found.group(), found.group()), text)


def elements_of(body):
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError:
        return []
    for element in root.iter():
        element.tag = element.tag.split("}", 1)[-1]
    return list(root.iter())


def texts_of(body):
    """"Parent/Name=text" of each element that has no others in it."""
    elements = elements_of(body)
    parents = {child: element for element in elements for child in element}
    return [f"{parents[e].tag + '/' if e in parents else ''}{e.tag}={e.text or ''}" for e in elements
            if len(e) == 0 and e.tag not in ("RequestId", "HostId")]


def answer_of(status, headers, body, names):
    """What an answer says, in the words of a fixture. headers: names in lower case."""
    def hide(text):
        return DATE.sub("{time}", TIME.sub("{time}", names.hide(text)))
    names.learn_from(headers, body)
    said = {"status": status, "headers": {name: hide(value) for name, value in sorted(headers.items()) if name not in NOT_COMPARED}}
    texts = texts_of(body)
    if texts:
        said["texts"] = [hide(text) for text in texts]
    elif body:
        said["body"] = hide(body.decode("utf-8", "replace"))
    return said


def lacks(wanted, got):
    """What a client would miss: lines of text."""
    missing = [] if wanted["status"] == got["status"] else [f"status {got['status']}, not {wanted['status']}"]
    missing += [f"header {name}: {got['headers'].get(name)}, not {value}" for name, value in wanted["headers"].items() if got["headers"].get(name) != value]
    if wanted.get("body") != got.get("body"):
        missing.append(f"body {got.get('body')!r}, not {wanted.get('body')!r}")
    rest = iter(got.get("texts", []))
    missing += [f"no {text} where it should be" for text in wanted.get("texts", []) if text not in rest]
    return missing


def body_of(call, names):
    if "body64" in call:
        return base64.b64decode(call["body64"])
    return names.show(call.get("body", "")).encode()


def sent_again(raw, call, names):
    """The answer to a call of a fixture, signed anew, in the words of a fixture."""
    body = body_of(call, names)

    def headers(wanted):
        return {name: DIGESTS[name](body) if value == "{digest}" else names.show(value) for name, value in wanted.items()}
    answer = raw.request(call["method"], names.show(call["path"]), query=[(name, names.show(value)) for name, value in call.get("query", [])],
                         headers=headers(call.get("headers", {})), body=body, payload=call.get("payload"),
                         trailers=list(headers(call.get("trailers", {})).items()))
    return answer_of(answer.status, answer.headers, answer.body, names)


def replay(raw, path, bucket):
    """Lines that say what became of calls that are answered otherwise than they were."""
    fixture, names, wrong = json.loads(path.read_text(encoding="utf-8")), Names(bucket, f"{raw.host}:{raw.port}"), []
    for step in fixture["steps"]:
        for number, call in enumerate(step["calls"], 1):
            got = sent_again(raw, call, names)
            wrong += [f"{step['command']} [{number}: {call['method']} {call['path']} {call.get('query', '')}]: {line}" for line in lacks(call["answer"], got)]
    return wrong
