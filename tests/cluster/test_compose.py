"""docker/compose-cluster.yaml: what it would start runs, on network namespaces instead of containers: its commands word by word, with folders of
the test in place of volumes, programs of the build in place of the image's, and a prefix of addresses of the test's."""
import os
import re
import shlex
import subprocess
import threading
import time
from pathlib import Path

import boto3
import botocore.config
import botocore.exceptions
import pytest
import yaml

from tests.cluster.network import HUB, SUBNET, Network, missing
from tests.cluster.nodes import folder_for_drives
from tests.support.daemon import CLI, PATIENCE, PROGRAM, SANITIZER_REPORT, mortal, sanitizer_environment

ROOT = Path(__file__).resolve().parent.parent.parent
FILE = ROOT / "docker" / "compose-cluster.yaml"
PREFIX = "172.28.7"
KEYS = {"MILLRACE_ROOT_ACCESS_KEY": "AKCOMPOSE", "MILLRACE_ROOT_SECRET_KEY": "of-the-compose-file"}


class Composed:
    def __init__(self, folder):
        self.folder = folder
        self.file = yaml.safe_load(FILE.read_text())
        self.services = self.file["services"]
        self.machines = {name: int(service["networks"]["nodes"]["ipv4_address"].split(".")[-1])
                         for name, service in self.services.items() if "networks" in service}
        self.network = Network(self.machines.values())
        self.processes, self.threads, self.logs = {}, [], {}
        (folder / "bin").mkdir()
        for program in (CLI, PROGRAM):
            (folder / "bin" / Path(program).name).symlink_to(Path(program).resolve())
        image = re.search(r'^ENTRYPOINT \["(.*)"\]', (ROOT / "docker" / "Dockerfile").read_text(), re.MULTILINE)[1]
        self.entrypoint = [Path(image).name]

    def volumes(self, service):
        """{folder in the container: folder of the test}"""
        found = {}
        for volume in service.get("volumes", []):
            name, target = volume.split(":")[:2]
            assert name in self.file["volumes"]
            (self.folder / name).mkdir(exist_ok=True)
            found[target] = str(self.folder / name)
        return found

    def command(self, name):
        service = self.services[name]
        command = service["command"]
        command = shlex.split(command) if isinstance(command, str) else [word.replace("$$", "$") for word in command]
        if service["image"] == "millrace":
            command = service.get("entrypoint", self.entrypoint) + command
        for target, folder in self.volumes(service).items():
            command = [word.replace(target, folder) for word in command]
        return [word.replace(PREFIX, SUBNET) for word in command]

    def environment(self, service):
        full = {k: v for k, v in os.environ.items() if not k.startswith(("MILLRACE_ROOT", "MILLRACE_KEY", "AWS_", "ETCD"))}
        full.update(sanitizer_environment())
        full["PATH"] = f"{self.folder / 'bin'}:{full['PATH']}"
        for name, value in service.get("environment", {}).items():
            assert value == f"${{{name}:?}}"
            full[name] = KEYS[name]
        return full

    def run(self, name):
        """To its end."""
        place = self.network.within(self.machines[name]) if name in self.machines else []
        return subprocess.run(place + self.command(name), env=self.environment(self.services[name]), capture_output=True, text=True, timeout=120 * PATIENCE, check=False)

    def start(self, name):
        process = subprocess.Popen(mortal() + self.network.within(self.machines[name]) + self.command(name), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, env=self.environment(self.services[name]), text=True)
        self.processes[name], self.logs[name] = process, []
        self.threads.append(threading.Thread(target=self.logs[name].extend, args=(process.stdout,), daemon=True))
        self.threads[-1].start()

    def client(self, name):
        config = botocore.config.Config(signature_version="s3v4", s3={"addressing_style": "path"}, retries={"max_attempts": 0}, read_timeout=20 * PATIENCE)
        return boto3.session.Session().client("s3", endpoint_url=f"http://{SUBNET}.{self.machines[name]}:9000", aws_access_key_id=KEYS["MILLRACE_ROOT_ACCESS_KEY"],
                                              aws_secret_access_key=KEYS["MILLRACE_ROOT_SECRET_KEY"], region_name="us-east-1", config=config)

    def patiently(self, ask):
        until = time.monotonic() + 60 * PATIENCE
        while True:
            try:
                return ask()
            except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)

    def discard(self):
        for process in self.processes.values():
            process.kill()
            process.wait(20)
        for thread in self.threads:
            thread.join(20)
        self.network.leave()
        self.network.remove()


@pytest.fixture
def composed():
    if missing():
        pytest.fail(missing())
    folder = folder_for_drives()
    made = Composed(folder)
    try:
        yield made
    finally:
        made.discard()
        subprocess.run(["rm", "-rf", "--", folder], check=True, timeout=60)


def test_compose(composed):
    """The order is the one that depends_on asks for. What one node was given, the others have; a node may go; and all of it may be started again."""
    nodes = ("node1", "node2", "node3")
    for again in (False, True):
        composed.start("etcd")
        assert composed.run("secrets").returncode == 0
        for node in nodes:
            composed.start(node)
        init = composed.run("init")
        assert (init.returncode == 0) != again, init.stderr  # made once
        composed.network.enter(HUB)
        clients = [composed.client(node) for node in nodes]
        if not again:
            composed.patiently(lambda: clients[0].create_bucket(Bucket="composed"))
            composed.patiently(lambda: clients[1].put_object(Bucket="composed", Key="k", Body=b"bytes" * 100000))
        for client in clients:
            assert composed.patiently(lambda c=client: c.get_object(Bucket="composed", Key="k")["Body"].read()) == b"bytes" * 100000
        for name in (*nodes, "etcd"):
            composed.processes[name].terminate()
        for node in nodes:
            assert composed.processes[node].wait(90 * PATIENCE) == 0, "".join(composed.logs[node])[-3000:]
        composed.processes["etcd"].wait(30)
        composed.network.leave()
    for log in composed.logs.values():
        assert not SANITIZER_REPORT.search("".join(log))
