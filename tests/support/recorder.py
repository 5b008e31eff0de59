"""Runs a client's commands against a fresh daemon, and writes what they asked and were answered as a fixture (see recording.py):

    MILLRACE_BUILD=build/release build/venv/bin/python -m tests.support.recorder COMMANDS FIXTURE

COMMANDS has a line for each command, with {endpoint}, {host}, {access}, {secret}, {bucket}, and {v1}, {v2}... for version ids in the order in which answers gave
them. A line that begins with "!" must fail, "export NAME=VALUE" is for all that follow. "# client: ..." and "# made by: ..." are kept. The client must send
one request after the other.
"""
import base64
import datetime
import http.server
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from pathlib import Path

from tests.support.daemon import Daemon
from tests.support.recording import DIGESTS, TIME, Names, answer_of
from tests.support.s3raw import STREAMING, STREAMING_TRAILER, STREAMING_UNSIGNED_TRAILER, Connection

# What signing, or the connection, makes; and what tells a client from others alone.
OWN_HEADERS = {"host", "authorization", "x-amz-date", "x-amz-content-sha256", "content-length", "transfer-encoding", "connection", "user-agent", "expect",
               "accept-encoding", "x-amz-decoded-content-length", "x-amz-trailer", "amz-sdk-invocation-id", "amz-sdk-request", "te"}
STREAMS = (STREAMING, STREAMING_TRAILER, STREAMING_UNSIGNED_TRAILER)


def unchunked(body):
    """The bytes of an aws-chunked body, and its trailers."""
    data = b""
    while True:
        line, body = body.split(b"\r\n", 1)
        size = int(line.split(b";")[0], 16)
        if size == 0:
            break
        data, body = data + body[:size], body[size + 2:]
    pairs = [line.split(b":", 1) for line in body.split(b"\r\n") if b":" in line]
    return data, {name.decode().strip().lower(): value.decode().strip() for name, value in pairs}


class Recorder(http.server.ThreadingHTTPServer):
    """Passes requests on, and notes them."""

    def __init__(self, daemon, bucket):
        super().__init__(("127.0.0.1", 0), Handler)
        self.daemon, self.calls, self.lock = daemon, [], threading.Lock()
        self.names = Names(bucket, f"127.0.0.1:{self.server_port}")

    def passed_on(self, handler, body):
        headers = {name.lower(): value for name, value in handler.headers.items() if name.lower() not in ("expect", "connection", "transfer-encoding")}
        headers["content-length"] = str(len(body))
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        with Connection(self.daemon.host, self.daemon.port) as connection:
            connection.send(f"{handler.command} {handler.path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body)
            return connection.answer(handler.command)

    def note(self, handler, body, answer):
        headers = {name.lower(): value for name, value in handler.headers.items()}
        path, _, query = handler.path.partition("?")
        call = {"method": handler.command, "path": self.hide(urllib.parse.unquote(path))}
        pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
        if pairs:
            call["query"] = [[name, self.hide(value)] for name, value in pairs]
        payload = headers.get("x-amz-content-sha256", "")
        kept = {name: value for name, value in headers.items() if name not in OWN_HEADERS}
        if payload in STREAMS:
            call["payload"] = payload
            body, trailers = unchunked(body)
            kept.pop("content-encoding", None)
            if trailers:
                call["trailers"] = {name: "{digest}" for name in trailers if name in DIGESTS}
        elif payload == "UNSIGNED-PAYLOAD":
            call["payload"] = payload
        call["headers"] = {name: "{digest}" if name in DIGESTS else self.hide(value) for name, value in sorted(kept.items())}
        if body:
            try:
                call["body"] = self.hide(body.decode())
            except UnicodeDecodeError:
                call["body64"] = base64.b64encode(body).decode()
        call["answer"] = answer_of(answer.status, answer.headers, answer.body, self.names)
        self.calls.append(call)

    def hide(self, text):
        """Of a request: a time that is soon was computed from that of the run."""
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=2)
        return TIME.sub(lambda found: found.group() if found.group() > soon.isoformat() else "{later}", self.names.hide(text))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        data = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return data

    def handle_any(self):
        body = self.body()
        with self.server.lock:
            answer = self.server.passed_on(self, body)
            self.server.note(self, body, answer)
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.header_list:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = answer.headers.get("content-length", "0") if self.command == "HEAD" else str(len(answer.body))
        if answer.status != 204:
            self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


def run(line, recorder, env, folder):
    """What a line makes of the fixture: a step, without calls if there were none."""
    fails, words = line.startswith("!"), shlex.split(line.lstrip("!"))
    known = {**recorder.names.values, "{endpoint}": f"http://127.0.0.1:{recorder.server_port}", "{access}": env["AWS_ACCESS_KEY_ID"],
             "{secret}": env["AWS_SECRET_ACCESS_KEY"]}
    for name, value in known.items():
        words = [word.replace(name, value) for word in words]
    if words[0] == "export":
        env.update([words[1].split("=", 1)])
        return {"calls": []}
    done = subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    print(f"{line}\n{done.stdout}{done.stderr}", file=sys.stderr)
    if (done.returncode != 0) != fails:
        raise SystemExit(f"{line}: exit status {done.returncode}")
    calls, recorder.calls = recorder.calls, []
    return {"command": line, "calls": calls}


def written(about, steps):
    """A fixture as text: a line for each call."""
    def of(value):
        return json.dumps(value, ensure_ascii=False)
    texts = [f' {{"command": {of(step["command"])}, "calls": [\n  ' + ",\n  ".join(of(call) for call in step["calls"]) + "]}" for step in steps]
    return f'{{"client": {of(about["client"])}, "made_by": {of(about["made by"])}, "steps": [\n' + ",\n".join(texts) + "]}\n"


def main():
    commands, fixture = (Path(argument).resolve() for argument in sys.argv[1:])
    lines = commands.read_text(encoding="utf-8").splitlines()
    about = dict(line[2:].split(": ", 1) for line in lines if re.match("# (client|made by): ", line))
    with Daemon(drives=1).start() as daemon, tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(daemon, "recorded-bucket")
        threading.Thread(target=recorder.serve_forever, daemon=True).start()
        env = {"PATH": os.environ["PATH"], "HOME": folder, "LC_ALL": "C.UTF-8", "AWS_ACCESS_KEY_ID": daemon.access_key, "AWS_SECRET_ACCESS_KEY": daemon.secret_key, "AWS_REGION": "us-east-1"}
        steps = [run(line, recorder, env, folder) for line in lines if line.strip() and not line.startswith("#")]
        recorder.shutdown()
    fixture.write_text(written(about, [step for step in steps if step["calls"]]), encoding="utf-8")


if __name__ == "__main__":
    main()
