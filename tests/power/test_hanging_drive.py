"""A drive whose file system does not answer any more, as a disk that hangs: the store goes on, switches included."""
import json
import os
import signal
import tempfile

import pytest
from botocore.exceptions import ClientError

from tests.conftest import make_client
from tests.integration.test_drives import cli
from tests.power import cutfs
from tests.power.cutfs import CutFs
from tests.support.daemon import Daemon

pytestmark = [pytest.mark.daemon, pytest.mark.skipif(cutfs.missing() is not None, reason=str(cutfs.missing()))]
BODY = bytes(range(256)) * 2048


def switched(daemon, switch, action):
    return json.loads(cli(daemon, "admin", switch, action, "--json"))


def test_switches_while_a_drive_hangs():
    with tempfile.TemporaryDirectory(prefix="millrace-hang-", dir=cutfs.roomy()) as name, CutFs(name) as fs:
        drives = [fs.mount / "drive1", *(fs.log.parent / f"drive{i}" for i in (2, 3, 4))]
        for drive in drives:
            drive.mkdir()
        with Daemon(drive_paths=drives, ec="2+2", folder=name) as daemon:
            daemon.start()
            s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=8)
            s3.create_bucket(Bucket="bucket")
            s3.put_object(Bucket="bucket", Key="key", Body=BODY)
            os.kill(fs.process.pid, signal.SIGSTOP)
            try:
                answer = switched(daemon, "read-only", "on")
                assert answer["on"] and answer["kept"], answer
                with pytest.raises(ClientError) as refused:
                    s3.put_object(Bucket="bucket", Key="new", Body=BODY)
                assert refused.value.response["Error"]["Code"] == "AccessDenied"
                answer = switched(daemon, "maintenance", "on")
                assert answer["on"] and answer["kept"] and daemon.health_json()[0] == 503
                answer = switched(daemon, "maintenance", "off")
                assert not answer["on"] and answer["kept"]
                assert s3.get_object(Bucket="bucket", Key="key")["Body"].read() == BODY
            finally:
                os.kill(fs.process.pid, signal.SIGCONT)
            daemon.kill()
            daemon.restart(60)
            s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=8)
            with pytest.raises(ClientError) as refused:
                s3.put_object(Bucket="bucket", Key="new", Body=BODY)
            assert refused.value.response["Error"]["Code"] == "AccessDenied"
            assert not switched(daemon, "read-only", "off")["on"]
            s3.put_object(Bucket="bucket", Key="new", Body=BODY)
            assert s3.get_object(Bucket="bucket", Key="key")["Body"].read() == BODY
