"""One connection to a server, for requests that `load` has no phase for."""

import base64
import hashlib
import http.client
import re
from urllib.parse import quote
from xml.sax.saxutils import escape


class Refused(RuntimeError):
    """An answer that is no success."""


class S3Client:
    def __init__(self, server):
        self.connection, self.signer = http.client.HTTPConnection(server.host(), timeout=600), server.signer()

    def request(self, method, path, query=None, body=None):
        """The body of the answer. query: names in lower case."""
        more = "".join(f"&{name}={quote(value, safe='')}" for name, value in sorted((query or {}).items()))
        headers = {"Content-MD5": base64.b64encode(hashlib.md5(body).digest()).decode()} if body is not None else {}
        try:
            status, text = self.answer(method, self.signer.path(method, path, more), body, headers)
        except ConnectionError:  # it was idle for so long that the server has closed it
            self.connection.close()
            status, text = self.answer(method, self.signer.path(method, path, more), body, headers)
        if status >= 300:
            raise Refused(f"{method} {path} {query}: {status} {text[:300]!r}")
        return text

    def answer(self, method, target, body, headers):
        self.connection.request(method, target, body, headers)
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def pages(self, bucket, prefix, versions, owner=False):
        """The pages of a listing, as they come. versions: of all versions, else of objects; owner: with the owner of each, which versions always have."""
        marker, form = {}, {"versions": ""} if versions else {"list-type": "2", **({"fetch-owner": "true"} if owner else {})}
        while True:
            query = {"max-keys": "1000", "prefix": prefix, **form, **marker}
            page = self.request("GET", f"/{bucket}", query)
            yield page
            if b"<IsTruncated>true<" not in page:
                return
            if versions:
                marker = {"key-marker": text_of(page, "NextKeyMarker"), "version-id-marker": text_of(page, "NextVersionIdMarker")}
            else:
                marker = {"continuation-token": text_of(page, "NextContinuationToken")}

    def delete(self, bucket, versions):
        """DeleteObjects. versions: up to 1,000 of (key, version id)."""
        rows = "".join(f"<Object><Key>{escape(key)}</Key><VersionId>{version}</VersionId></Object>" for key, version in versions)
        answer = self.request("POST", f"/{bucket}", {"delete": ""}, f"<Delete><Quiet>true</Quiet>{rows}</Delete>".encode())
        if b"<Error>" in answer:
            raise Refused(f"DeleteObjects: {answer[:300]!r}")

    def lifecycle(self, bucket, rule):
        """Sets a bucket's only rule, given as its XML; None: takes all off."""
        if rule is None:
            self.request("DELETE", f"/{bucket}", {"lifecycle": ""})
            return
        text = f"<LifecycleConfiguration><Rule><ID>only</ID><Status>Enabled</Status>{rule}</Rule></LifecycleConfiguration>"
        self.request("PUT", f"/{bucket}", {"lifecycle": ""}, text.encode())


def text_of(xml, name):
    """Of the first element of this name; "" where there is none."""
    begin = xml.find(f"<{name}>".encode()) + len(name) + 2
    return "" if begin < len(name) + 2 else xml[begin:xml.index(b"<", begin)].decode()


def entries_of(page):
    """How many objects, versions and markers a page has."""
    return page.count(b"<Key>")


def versions_of(page):
    """(key, version id, whether it is the newest) of each version of a page."""
    return [(key.decode(), version.decode(), latest == b"true") for key, version, latest in
            re.findall(rb"<Version>.*?<Key>([^<]*)</Key>.*?<VersionId>([^<]*)</VersionId>.*?<IsLatest>([^<]*)</IsLatest>", page, re.S)]
