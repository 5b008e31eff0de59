"""Signed calls of IAM and STS, which are forms."""

import hashlib
import hmac
import http.client
import json
import re
import time
from urllib.parse import urlencode

VERSIONS = {"iam": "2010-05-08", "sts": "2011-06-15"}
FORM = "application/x-www-form-urlencoded"


def signature(secret, scope, text):
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Iam:
    """One who asks, by an access key."""

    def __init__(self, host, access, secret):
        self.host, self.access, self.secret = host, access, secret
        self.connection = http.client.HTTPConnection(host, timeout=60)

    def call(self, service, action, **parameters):
        """The answer's XML. Documents may be given as dictionaries."""
        form = {"Action": action, "Version": VERSIONS[service]}
        form |= {name: json.dumps(value) if isinstance(value, dict) else value for name, value in parameters.items()}
        body = urlencode(form).encode()
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        scope = f"{now[:8]}/us-east-1/{service}/aws4_request"
        names = "content-type;host;x-amz-date"
        canonical = f"POST\n/\n\ncontent-type:{FORM}\nhost:{self.host}\nx-amz-date:{now}\n\n{names}\n{hashlib.sha256(body).hexdigest()}"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        headers = {
            "Content-Type": FORM, "X-Amz-Date": now,
            "Authorization": f"AWS4-HMAC-SHA256 Credential={self.access}/{scope}, SignedHeaders={names}, Signature={signature(self.secret, scope, text)}"}
        try:
            status, xml = self.answer(body, headers)
        except ConnectionError:  # it was idle for so long that the server has closed it
            self.connection.close()
            status, xml = self.answer(body, headers)
        if status != 200:
            raise RuntimeError(f"{action}: {status} {xml[:300]}")
        return xml

    def answer(self, body, headers):
        self.connection.request("POST", "/", body, headers)
        answer = self.connection.getresponse()
        return answer.status, answer.read().decode()


def element(xml, name):
    return re.search(f"<{name}>([^<]*)</{name}>", xml).group(1)
