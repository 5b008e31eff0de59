"""A client that gets an object again and again until it is killed: hold.py HOST PORT ACCESS_KEY SECRET PATH ROOM. It says when bytes have begun to come."""
import sys
import threading
import time

from .session import UNTOUCHED, Session
from .signer import Signer
from .verbs import Memory


def main(host, port, access_key, secret, path, room):
    session = Session(Signer(host, int(port), access_key, secret))
    memory = Memory(int(room), UNTOUCHED)
    while True:
        number, grant = session.new_number(), session.grant(memory)
        asking = threading.Thread(target=session.signer.request, args=("GET", path), kwargs={"headers": session.headers(number, grant.text())}, daemon=True)
        asking.start()
        while memory.read(0, 64) == bytes([UNTOUCHED]) * 64 and asking.is_alive():
            time.sleep(0.001)
        print("begun", flush=True)
        asking.join()
        session.wait_notice("0.0", number)
        grant.free()


if __name__ == "__main__":
    main(*sys.argv[1:])
