"""boto3's clients, all of one session: one that begins reads botocore's models, which takes a tenth of a second or more of a processor."""
import threading

import boto3

SESSION = boto3.session.Session()
MAKING = threading.Lock()  # a session makes one client at a time


def boto(service, **settings):
    with MAKING:
        return SESSION.client(service, **settings)
