"""The keys of a session, written from docs/rdma-protocol.md alone."""
import hashlib
import hmac
import struct


def mac(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


def session_secret(session):
    """The SigV4 secret of a tests.support.rdma.Session."""
    key = mac(session.signer.key, b"millrace-rdma\0" + struct.pack("<H", 1) + bytes.fromhex(session.id) +
              bytes.fromhex(session.asked["client_nonce"]) + bytes.fromhex(session.opened["server_nonce"]))
    return mac(key, b"request").hex()
