"""Presigned URLs (SigV4)."""

import hashlib
import hmac
import time


class Signer:
    def __init__(self, access, secret, host):
        self.access, self.secret, self.host = access, secret, host

    def path(self, method, path, more=""):
        """path with the query that lets anybody do `method` on it for an hour. more: "&name=value" in their order, of names in lower case."""
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        scope = f"{now[:8]}/us-east-1/s3/aws4_request"
        query = (f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={self.access}%2F{scope.replace('/', '%2F')}"
                 f"&X-Amz-Date={now}&X-Amz-Expires=3600&X-Amz-SignedHeaders=host")
        signed = query + more
        canonical = f"{method}\n{path}\n{signed}\nhost:{self.host}\n\nhost\nUNSIGNED-PAYLOAD"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        key = ("AWS4" + self.secret).encode()
        for part in (now[:8], "us-east-1", "s3", "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return f"{path}?{signed}&X-Amz-Signature={hmac.new(key, text.encode(), hashlib.sha256).hexdigest()}"
