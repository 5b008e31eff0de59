"""An HTTP proxy that changes what a server answers, for tests of clients that are told wrong things. Bodies have a Content-Length."""
import socket
import threading


def read_head(file):
    lines = []
    while True:
        line = file.readline()
        if not line:
            return None
        if line == b"\r\n":
            return lines
        lines.append(line.rstrip(b"\r\n"))


def header(lines, name):
    """Of a head; "" where there is none."""
    for line in lines[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name.lower().encode():
            return value.strip().decode()
    return ""


def without(lines, name):
    return [lines[0]] + [line for line in lines[1:] if line.partition(b":")[0].strip().lower() != name.lower().encode()]


def replaced(lines, name, value):
    return without(lines, name) + [f"{name}: {value}".encode()]


class EditingProxy:
    """before(request lines): None, or lines and body that answer instead of the server. after(request lines, lines, body): lines and body, None to hang up."""

    def __init__(self, host, port, before=None, after=None):
        self.server = (host, port)
        self.before = before or (lambda request: None)
        self.after = after or (lambda request, lines, body: (lines, body))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            with connection, connection.makefile("rb") as client:
                while True:
                    request = read_head(client)
                    if request is None or not self.answer(connection, client, request):
                        return
        except OSError:
            pass

    def answer(self, connection, client, request):
        body = client.read(int(header(request, "content-length") or 0)) if not header(request, "expect") else None
        made = self.before(request)
        if made is None:
            made = self.ask(connection, client, request, body)
            made = self.after(request, *made)
        if made is None:
            return False
        lines, body = made
        connection.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        return True

    def ask(self, connection, client, request, body):
        with socket.create_connection(self.server) as upstream, upstream.makefile("rb") as server:
            if body is None:
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = client.read(int(header(request, "content-length") or 0))
                request = without(request, "expect")
            upstream.sendall(b"\r\n".join(request) + b"\r\n\r\n" + body)
            lines = read_head(server)
            none = request[0].startswith(b"HEAD") or lines[0].split()[1] in (b"204", b"304")
            return lines, b"" if none else server.read(int(header(lines, "content-length") or 0))

    def close(self):
        self.listener.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
