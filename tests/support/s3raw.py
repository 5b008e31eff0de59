"""A small S3 client on raw sockets with its own SigV4 signer, for what SDKs never send: every part of a request can be bent."""
import datetime
import hashlib
import hmac
import re
import secrets
import socket
import ssl
import time
import urllib.parse
import xml.etree.ElementTree as ElementTree

UNSIGNED = "UNSIGNED-PAYLOAD"
STREAMING = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
STREAMING_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
STREAMING_UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


def quote(text, safe=""):
    """Percent-encodes as SigV4 wants it: everything but unreserved characters, upper-case hex."""
    return urllib.parse.quote(text, safe=safe + "-_.~")


def hmac_sha256(key, text):
    return hmac.new(key, text.encode() if isinstance(text, str) else text, hashlib.sha256).digest()


class Answer:
    """One response: status, headers (last of a name wins; `header_list` has all), body."""

    def __init__(self, status, reason, header_list, body, interim=()):
        self.status = status
        self.reason = reason
        self.header_list = header_list
        self.headers = {name.lower(): value for name, value in header_list}
        self.body = body
        self.interim = list(interim)  # statuses of 1xx answers that came before

    @property
    def xml(self):
        return strip_namespaces(ElementTree.fromstring(self.body))

    @property
    def code(self):
        """Error code of an XML error body, else None."""
        try:
            root = self.xml
        except ElementTree.ParseError:
            return None
        return root.findtext("Code") if root.tag == "Error" else None

    def __repr__(self):
        return f"<{self.status} {self.reason} {dict(self.headers)} {self.body[:400]!r}>"


def strip_namespaces(root):
    for element in root.iter():
        element.tag = element.tag.split("}", 1)[-1]
    return root


class ConnectionClosed(Exception):
    """The server closed the connection where an answer was due."""


class Connection:
    """A TCP (or TLS) connection that sends what it is told and reads HTTP/1.1 answers."""

    def __init__(self, host, port, tls=None, timeout=30):
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        self.buffer = b""

    def send(self, data):
        self.socket.sendall(data)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def fill(self):
        try:
            data = self.socket.recv(262144)
        except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):
            data = b""
        if not data:
            raise ConnectionClosed(self.buffer)
        self.buffer += data

    def until(self, mark):
        while mark not in self.buffer:
            self.fill()
        head, self.buffer = self.buffer.split(mark, 1)
        return head

    def exactly(self, size):
        while len(self.buffer) < size:
            self.fill()
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def to_end(self):
        try:
            while True:
                self.fill()
        except ConnectionClosed:
            data, self.buffer = self.buffer, b""
            return data

    def head(self):
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, reason = (lines[0].split(" ", 2) + [""])[:3]
        assert version in ("HTTP/1.1", "HTTP/1.0"), lines[0]
        headers = []
        for line in lines[1:]:
            name, value = line.split(":", 1)
            headers.append((name, value.strip()))
        return int(status), reason, headers

    def answer(self, method="GET"):
        """The next final answer; 1xx before it are noted."""
        interim = []
        while True:
            status, reason, headers = self.head()
            if status >= 200:
                break
            interim.append(status)
        lower = {name.lower(): value for name, value in headers}
        if method == "HEAD" or status in (204, 304):
            body = b""
        elif lower.get("transfer-encoding", "").lower() == "chunked":
            body = self.chunked()
        elif "content-length" in lower:
            body = self.exactly(int(lower["content-length"]))
        else:
            body = self.to_end()
        return Answer(status, reason, headers, body, interim)

    def chunked(self):
        body = b""
        while True:
            size = int(self.until(b"\r\n").split(b";")[0], 16)
            if size == 0:
                while self.until(b"\r\n"):
                    pass
                return body
            body += self.exactly(size)
            assert self.exactly(2) == b"\r\n"

    def closed(self, timeout=5):
        """True once the server has closed and nothing more came."""
        self.socket.settimeout(timeout)
        try:
            return not self.buffer and self.socket.recv(1) == b""
        except (ConnectionResetError, BrokenPipeError):
            return True
        except TimeoutError:
            return False


def utc_stamp(offset_s=0):
    now = datetime.datetime.fromtimestamp(time.time() + offset_s, datetime.timezone.utc)
    return now.strftime("%Y%m%dT%H%M%SZ")


class Signer:
    """SigV4 with everything adjustable."""

    def __init__(self, access_key, secret_key, region="us-east-1", service="s3", offset_s=0, date=None):
        self.access_key = access_key
        self.stamp = utc_stamp(offset_s)
        self.day = date or self.stamp[:8]
        self.scope = f"{self.day}/{region}/{service}/aws4_request"
        key = hmac_sha256(b"AWS4" + secret_key.encode(), self.day)
        for piece in (region, service, "aws4_request"):
            key = hmac_sha256(key, piece)
        self.key = key

    @staticmethod
    def canonical_query(query):
        pairs = sorted((quote(name), quote(value)) for name, value in query)
        return "&".join(f"{name}={value}" for name, value in pairs)

    def signature(self, method, path, query, headers, signed, payload_hash):
        """path: decoded bytes or text; headers: {lower name: value}; signed: sorted lower names."""
        canonical = "\n".join([method, quote(path, safe="/"), self.canonical_query(query),
                               *[f"{name}:{' '.join(headers[name].split())}" for name in signed], "",
                               ";".join(signed), payload_hash])
        to_sign = "\n".join(["AWS4-HMAC-SHA256", self.stamp, self.scope, hashlib.sha256(canonical.encode()).hexdigest()])
        return hmac_sha256(self.key, to_sign).hex()

    def authorization(self, signed, signature):
        return (f"AWS4-HMAC-SHA256 Credential={self.access_key}/{self.scope}, SignedHeaders={';'.join(signed)}, "
                f"Signature={signature}")

    def chunk_signature(self, previous, data):
        text = "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", self.stamp, self.scope, previous, EMPTY_SHA256,
                          hashlib.sha256(data).hexdigest()])
        return hmac_sha256(self.key, text).hex()

    def trailer_signature(self, previous, trailer):
        text = "\n".join(["AWS4-HMAC-SHA256-TRAILER", self.stamp, self.scope, previous, hashlib.sha256(trailer).hexdigest()])
        return hmac_sha256(self.key, text).hex()


def aws_chunked(body, mode, signer, seed, chunk_size=65536, trailers=(), bend=None):
    """The aws-chunked form of body. trailers: [(name, value)] in order. bend(kind, index, bytes) may alter each piece."""
    bend = bend or (lambda kind, index, piece: piece)
    signed = mode in (STREAMING, STREAMING_TRAILER)
    pieces = [body[i:i + chunk_size] for i in range(0, len(body), chunk_size)] + [b""]
    out, previous = [], seed
    for index, piece in enumerate(pieces):
        line = f"{len(piece):x}"
        if signed:
            previous = signer.chunk_signature(previous, piece)
            line += f";chunk-signature={previous}"
        out.append(bend("head", index, line.encode() + b"\r\n"))
        if piece:
            out.append(bend("data", index, piece) + b"\r\n")
    if trailers:
        text = "".join(f"{name}:{value}\r\n" for name, value in trailers).encode()
        out.append(bend("trailer", 0, text))
        if signed:
            canonical = "".join(f"{name.lower()}:{value.strip()}\n" for name, value in trailers).encode()
            sig = signer.trailer_signature(previous, canonical)
            out.append(bend("trailer-signature", 0, f"x-amz-trailer-signature:{sig}\r\n".encode()))
    out.append(bend("end", 0, b"\r\n"))
    return b"".join(out)


def http_chunked(data, sizes):
    """HTTP/1.1 chunked transfer coding of data with chunks of the sizes given (the last one repeats)."""
    out, at, i = [], 0, 0
    while at < len(data):
        size = sizes[min(i, len(sizes) - 1)]
        piece = data[at:at + size]
        out.append(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        at += size
        i += 1
    return b"".join(out) + b"0\r\n\r\n"


class RawClient:
    """Builds, signs and sends single requests. Everything has a default that is right, and a way to make it wrong."""

    def __init__(self, host, port, access_key, secret_key, region="us-east-1", tls=None):
        self.host, self.port, self.tls = host, port, tls
        self.access_key, self.secret_key, self.region = access_key, secret_key, region

    def connect(self, timeout=30):
        return Connection(self.host, self.port, self.tls, timeout)

    def signer(self, **changes):
        values = dict(access_key=self.access_key, secret_key=self.secret_key, region=self.region)
        values.update(changes)
        return Signer(**values)

    def build(self, method, path, query=(), headers=None, body=b"", payload=None, signer=None, wire_path=None, wire_query=None,
              unsigned_headers=None, chunk_size=65536, trailers=(), bend=None, http_chunks=None, anonymous=False,
              drop_headers=(), alter_signature=None, content_sha256=None, host=None):
        """The bytes of one request.

        path is the decoded path ('/bucket/key'); wire_path what is sent instead of its strict encoding. payload: a payload
        mode, or None for the body's own SHA-256. headers are signed, unsigned_headers are not. http_chunks: sizes of HTTP
        chunks, no Content-Length then.
        """
        signer = signer or self.signer()
        headers = {name.lower(): str(value) for name, value in (headers or {}).items()}
        headers.setdefault("host", host or f"{self.host}:{self.port}")
        streaming = payload in (STREAMING, STREAMING_TRAILER, STREAMING_UNSIGNED_TRAILER)
        payload_hash = content_sha256 or payload or hashlib.sha256(body).hexdigest()
        if not anonymous:
            headers["x-amz-content-sha256"] = payload_hash
            headers.setdefault("x-amz-date", signer.stamp)
        if streaming:
            headers.setdefault("content-encoding", "aws-chunked")
            headers.setdefault("x-amz-decoded-content-length", str(len(body)))
            if trailers:
                headers.setdefault("x-amz-trailer", ",".join(name for name, _ in trailers))
        if isinstance(path, str) and path.startswith("/admin/") and not anonymous:
            headers.setdefault("x-millrace-nonce", secrets.token_hex(16))
            headers.setdefault("x-millrace-start", self.admin_start())
        for name in drop_headers:
            headers.pop(name, None)
        signed = sorted(headers)
        seed = signer.signature(method, path, query, headers, signed, payload_hash)
        if alter_signature:
            seed = alter_signature(seed)
        if streaming:
            body = aws_chunked(body, payload, signer, seed, chunk_size, trailers, bend)
        if not anonymous:
            headers["authorization"] = signer.authorization(signed, seed)
        headers.update({k.lower(): str(v) for k, v in (unsigned_headers or {}).items()})
        if http_chunks:
            headers["transfer-encoding"] = "chunked"
            body = http_chunked(body, http_chunks)
        elif body or method in ("PUT", "POST"):
            headers.setdefault("content-length", str(len(body)))
        target = wire_path if wire_path is not None else quote(path, safe="/")
        text = wire_query if wire_query is not None else Signer.canonical_query(query)
        if text:
            target += "?" + text
        if isinstance(target, str):
            target = target.encode("utf-8")
        head = b"".join(f"{name}: {value}\r\n".encode("utf-8") for name, value in headers.items())
        return method.encode() + b" " + target + b" HTTP/1.1\r\n" + head + b"\r\n", body

    def admin_start(self):
        """How the admin listener calls this start of the daemon."""
        return self.plain("GET", "/health/live").headers.get("x-millrace-start", "")

    def request(self, method, path, connection=None, timeout=30, **how):
        """Sends one request (see build) and returns its answer."""
        head, body = self.build(method, path, **how)
        return self.send(method, head, body, connection, timeout)

    def send(self, method, head, body, connection=None, timeout=30):
        own = connection is None
        connection = connection or self.connect(timeout)
        try:
            try:
                connection.send(head + body)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused early: the answer may still be there
            return connection.answer(method)
        finally:
            if own:
                connection.close()

    def presign(self, method, path, expires=300, query=(), signer=None, headers=None, signed=None):
        """Path and query of a presigned URL."""
        signer = signer or self.signer()
        headers = {"host": f"{self.host}:{self.port}", **(headers or {})}
        signed = sorted(signed or headers)
        query = list(query) + [("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
                               ("X-Amz-Credential", f"{signer.access_key}/{signer.scope}"), ("X-Amz-Date", signer.stamp),
                               ("X-Amz-Expires", str(expires)), ("X-Amz-SignedHeaders", ";".join(signed))]
        signature = signer.signature(method, path, query, headers, signed, UNSIGNED)
        return f"{quote(path, safe='/')}?{Signer.canonical_query(query)}&X-Amz-Signature={signature}"

    def plain(self, method, target, headers=None, body=b"", connection=None, version="HTTP/1.1", timeout=30):
        """One unsigned request, exactly as given."""
        headers = dict({"Host": f"{self.host}:{self.port}"}, **(headers or {}))
        head = f"{method} {target} {version}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
        return self.send(method, head.encode(), body, connection, timeout)


def error_shape(answer):
    """Asserts that an answer is a whole S3 error document, and returns its code."""
    assert answer.headers.get("content-type", "").startswith("application/xml"), answer
    root = answer.xml
    assert root.tag == "Error", answer
    code, message, request_id = (root.findtext(name) for name in ("Code", "Message", "RequestId"))
    assert code and re.fullmatch(r"[A-Za-z0-9]+", code), answer
    assert message, answer
    assert request_id and request_id == answer.headers.get("x-amz-request-id"), answer
    return code
