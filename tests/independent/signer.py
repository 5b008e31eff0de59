"""HTTP requests signed with AWS Signature Version 4, in the Authorization header or in the URL, on a connection that is kept."""
import datetime
import hashlib
import hmac
import http.client
import re
import urllib.parse

UNSIGNED = "UNSIGNED-PAYLOAD"


def mac(key, data):
    return hmac.new(key, data if isinstance(data, bytes) else data.encode(), hashlib.sha256).digest()


def signing_key(secret, date, region):
    return mac(mac(mac(mac(b"AWS4" + secret.encode(), date), region), "s3"), "aws4_request")


def escaped(text, safe=""):
    return urllib.parse.quote(text, safe=safe + "-_.~")


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, {name.lower(): value for name, value in headers}, body

    @property
    def code(self):
        """Of an error in XML, else None."""
        found = re.search(rb"<Code>([^<]*)</Code>", self.body)
        return found and found.group(1).decode()

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:300]!r}>"


class Signer:
    """Signs with one access key and secret; `last_date` is that of the newest signature's scope."""

    def __init__(self, host, port, access_key, secret, region="us-east-1", timeout=60):
        self.host, self.port, self.access_key, self.secret, self.region, self.timeout = host, port, access_key, secret, region, timeout
        self.connection = None
        self.last_date = None

    def like(self, access_key, secret):
        """Another's, of the same endpoint, on a connection of its own."""
        return Signer(self.host, self.port, access_key, secret, self.region, self.timeout)

    def signed(self, method, path, query, headers, digest, presigned=False, unsigned=()):
        """(query, headers) with the signature; headers named in `unsigned` are sent without being signed."""
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        self.last_date = now[:8]
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        headers = {"host": f"{self.host}:{self.port}", **{name.lower(): str(value) for name, value in headers.items()}}
        query = dict(query)
        if presigned:
            digest = UNSIGNED
        else:
            headers.update({"x-amz-date": now, "x-amz-content-sha256": digest})
        names = sorted(name for name in headers if name not in unsigned)
        if presigned:
            query.update({"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{self.access_key}/{scope}", "X-Amz-Date": now,
                          "X-Amz-Expires": "300", "X-Amz-SignedHeaders": ";".join(names)})
        text = "&".join(f"{escaped(name)}={escaped(value)}" for name, value in sorted(query.items()))
        canonical = "\n".join([method, path, text, *(f"{name}:{headers[name].strip()}" for name in names), "", ";".join(names), digest])
        to_sign = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        signature = mac(signing_key(self.secret, now[:8], self.region), to_sign).hex()
        if presigned:
            text += f"&X-Amz-Signature={signature}"
        else:
            headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope}, SignedHeaders={';'.join(names)}, "
                                        f"Signature={signature}")
        return text, headers

    def request(self, method, path, body=b"", query=(), headers=(), digest=None, sign=True, **how):
        """The answer. `path` is not escaped."""
        path = escaped(path, "/")
        query, headers = dict(query), dict(headers)
        if sign:
            text, headers = self.signed(method, path, query, headers, digest or hashlib.sha256(body).hexdigest(), **how)
        else:
            text = urllib.parse.urlencode(query)
        for attempt in (0, 1):
            kept = self.connection is not None
            if not kept:
                self.connection = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
            try:
                self.connection.request(method, path + ("?" + text if text else ""), body=body or (b"" if method in ("PUT", "POST") else None), headers=headers)
                got = self.connection.getresponse()
                return Answer(got.status, got.getheaders(), got.read())
            except (http.client.RemoteDisconnected, BrokenPipeError):
                self.close()
                # a connection that was kept may have been closed meanwhile; the server did nothing, or refuses what it has seen before
                if attempt or not kept:
                    raise
            except BaseException:
                self.close()
                raise
        raise AssertionError

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None
