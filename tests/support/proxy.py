"""A proxy between a client and the daemon that does what networks do: cuts connections, changes bytes, answers 503."""
import socket
import threading
from dataclasses import dataclass, field
from typing import Callable, Optional


@dataclass
class Request:
    number: int  # 1 is the first of all
    method: str
    target: str
    headers: dict = field(default_factory=dict)


@dataclass
class Fault:
    """What becomes of one request. cut: so many bytes of the answer's body come, then nothing; flip: this byte of it is another (from the end, if negative);
    status, code: an answer of the proxy's own; hangup: no answer; cut_request: so many bytes of the request's body reach the daemon."""
    cut: Optional[int] = None
    flip: Optional[int] = None
    status: int = 0
    code: str = ""
    hangup: bool = False
    cut_request: Optional[int] = None


class Hangup(Exception):
    pass


class Stream:
    def __init__(self, sock):
        self.sock = sock
        self.held = b""

    def head(self):
        while b"\r\n\r\n" not in self.held:
            got = self.sock.recv(65536)
            if not got:
                raise Hangup
            self.held += got
        head, self.held = self.held.split(b"\r\n\r\n", 1)
        return head + b"\r\n\r\n"

    def body(self, length):
        while length > 0:
            if not self.held:
                self.held = self.sock.recv(1 << 18)
                if not self.held:
                    raise Hangup
            piece, self.held = self.held[:length], self.held[length:]
            length -= len(piece)
            yield piece


def headers_of(head):
    lines = head.decode("latin-1").split("\r\n")
    return lines[0], {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}


class Proxy:
    """fault(Request) says what becomes of a request; None: nothing. It is called under a lock, in order."""

    def __init__(self, host, port, fault: Callable[[Request], Optional[Fault]] = lambda request: None):
        self.target = (host, port)
        self.fault = fault
        self.lock = threading.Lock()
        self.requests = 0
        self.faults = 0
        self.sockets = set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.acceptor = threading.Thread(target=self.accept, daemon=True)
        self.acceptor.start()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.acceptor.join()
        self.listener.close()
        with self.lock:
            for sock in self.sockets:
                sock.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        daemon = None
        with self.lock:
            self.sockets.add(client)
        try:
            daemon = socket.create_connection(self.target)
            ours, theirs = Stream(client), Stream(daemon)
            while self.one(ours, theirs):
                pass
        except (Hangup, OSError):
            pass
        finally:
            client.close()
            if daemon is not None:
                daemon.close()
            with self.lock:
                self.sockets.discard(client)

    def one(self, ours, theirs):
        """Passes one request and its answer on. False: the connection is to end."""
        head = ours.head()
        line, headers = headers_of(head)
        method, target, _ = line.split(" ", 2)
        with self.lock:
            self.requests += 1
            fault = self.fault(Request(self.requests, method, target, headers)) or Fault()
            self.faults += fault != Fault()
        if fault.hangup:
            return False
        if fault.status:
            body = f"<Error><Code>{fault.code}</Code><Message>said the proxy</Message></Error>".encode()
            ours.sock.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (fault.status, len(body)) +
                              (b"" if method == "HEAD" else body))
            return False
        theirs.sock.sendall(head)
        answer = None
        if headers.get("expect", "").lower() == "100-continue":
            answer = theirs.head()
            ours.sock.sendall(answer)
            if b" 100 " not in answer.split(b"\r\n", 1)[0]:
                return self.pass_body(answer, method, fault, ours, theirs)
        passed = 0
        for piece in ours.body(int(headers.get("content-length", 0))):
            if fault.cut_request is not None and passed + len(piece) > fault.cut_request:
                return False
            theirs.sock.sendall(piece)
            passed += len(piece)
        answer = theirs.head()
        ours.sock.sendall(answer)
        return self.pass_body(answer, method, fault, ours, theirs)

    def pass_body(self, answer, method, fault, ours, theirs):
        line, headers = headers_of(answer)
        length = int(headers.get("content-length", 0)) if method != "HEAD" and " 204 " not in line and " 304 " not in line else 0
        flip = None if fault.flip is None else fault.flip if fault.flip >= 0 else length + fault.flip
        passed = 0
        for piece in theirs.body(length):
            if flip is not None and passed <= flip < passed + len(piece):
                piece = bytearray(piece)
                piece[flip - passed] ^= 0x40
            if fault.cut is not None and passed + len(piece) > fault.cut:
                ours.sock.sendall(piece[:fault.cut - passed])
                return False
            ours.sock.sendall(piece)
            passed += len(piece)
        return headers.get("connection", "").lower() != "close"
