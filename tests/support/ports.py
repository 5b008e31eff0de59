"""TCP ports of loopback for tests: nobody else gets them before they are listened on.

They lie below those that the kernel gives to outgoing connections, and this process holds the name of each until its end, so that test processes side by side share none."""
import random
import socket
from pathlib import Path

FIRST, END = 10240, 32768

_names = {}  # of each port that is this process's: a socket with an abstract name


def _claim(port):
    name, probe = socket.socket(socket.AF_UNIX), socket.socket()
    try:
        name.bind(f"\0millrace-test-port-{port}")
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
    except OSError:
        name.close()
        return False
    finally:
        probe.close()
    _names[port] = name
    return True


def _end():
    outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return outgoing if FIRST + 1000 < outgoing < END else END


def free_row(count):
    """The first of so many ports in a row."""
    for _ in range(1000):
        first = random.SystemRandom().randrange(FIRST, _end() - count)
        claimed = [port for port in range(first, first + count) if _claim(port)]
        if len(claimed) == count:
            return first
        for port in claimed:
            _names.pop(port).close()
    raise OSError(f"no {count} ports in a row are free")


def free_ports(count):
    return [free_row(1) for _ in range(count)]
