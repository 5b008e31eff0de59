"""Manifests for Kubernetes: they have the shape that its API asks for, and fit one another, the daemon and the page about them."""
import re
import shlex
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from tests.support.daemon import CLI, PROGRAM

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "kubernetes"
PAGE = (FOLDER / "README.md").read_text()
VERSION = "1.33"


def parts():
    return [part for file in sorted(FOLDER.glob("*.yaml")) for part in yaml.safe_load_all(file.read_text())]


def part(kind, name):
    found = [p for p in parts() if p["kind"] == kind and p["metadata"]["name"] == name]
    assert len(found) == 1
    return found[0]


def pods():
    return [p["spec"]["template"] for p in parts() if p["kind"] in ("StatefulSet", "Job")]


def containers(pod):
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def words(container):
    """Of its command, as the pod 0 has it."""
    text = " ".join(container.get("command", []) + container.get("args", []))
    for name, value in {"POD": "millrace-0", "ADDRESS": "192.0.2.1"}.items():
        text = text.replace(f"$({name})", value)
    return shlex.split(text)


@pytest.mark.parametrize("which", parts(), ids=lambda p: f"{p['kind']}-{p['metadata']['name']}")
def test_schema(which):
    kubernetes_validate.validate(which, VERSION, strict=True)


def test_selectors_find_the_pods():
    labels = [pod["metadata"]["labels"] for pod in pods()]
    for p in parts():
        spec = p["spec"]
        selector = spec.get("selector", spec.get("podSelector"))
        if p["kind"] in ("Service", "PodDisruptionBudget", "StatefulSet", "NetworkPolicy"):
            wanted = selector.get("matchLabels", selector)
            assert any(wanted.items() <= found.items() for found in labels), p["metadata"]["name"]


def test_ports_and_volumes_are_there():
    for p in parts():
        if p["kind"] not in ("StatefulSet", "Job"):
            continue
        pod = p["spec"]["template"]
        volumes = {v["name"] for v in pod["spec"].get("volumes", [])} | {v["metadata"]["name"] for v in p["spec"].get("volumeClaimTemplates", [])}
        for container in containers(pod):
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes
            ports = {port["name"] for port in container.get("ports", [])}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if probe in container:
                    assert container[probe]["httpGet"]["port"] in ports


def test_settings_are_the_daemons():
    """Each option is one that it has."""
    known = set(re.findall(r"^  (--[a-z-]+)", subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True, timeout=30).stdout, re.MULTILINE))
    for container in (part("StatefulSet", "millrace")["spec"]["template"]["spec"]["containers"][0],
                      part("Job", "millrace-init")["spec"]["template"]["spec"]["containers"][0]):
        used = {word.split("=")[0] for word in words(container) if word.startswith("--")}
        assert len(used) >= 4 and used <= known


def test_folders_are_on_volumes():
    container = part("StatefulSet", "millrace")["spec"]["template"]["spec"]["containers"][0]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    command = words(container)
    drives = [command[i + 1] for i, word in enumerate(command) if word == "--drive"]
    assert len(drives) == len(part("StatefulSet", "millrace")["spec"]["volumeClaimTemplates"])
    assert {str(Path(drive).parent) for drive in drives} <= mounts


def test_nodes_are_those_of_the_page():
    """The pool is made of all replicas, and each has a certificate by the commands of the page."""
    replicas = part("StatefulSet", "millrace")["spec"]["replicas"]
    init = words(part("Job", "millrace-init")["spec"]["template"]["spec"]["containers"][0])
    nodes = next(word.split("=", 1)[1].split(",") for word in init if word.startswith("--new-pool-nodes="))
    assert nodes == [f"millrace-{n}" for n in range(replicas)]
    assert f"cluster cert node certs {' '.join(f'millrace-{n}' for n in range(replicas))}\n" in PAGE


def test_secret_has_what_the_pods_take(tmp_path):
    """The commands of the page, but for kubectl's and docker's, make the files that the first container copies."""
    script = next(block for block in re.findall(r"```\n(.*?)```", PAGE, re.DOTALL) if "cluster cert ca" in block)
    lines = [line for line in script.splitlines() if not line.startswith("kubectl")]
    subprocess.run(["bash", "-euc", f"millrace() {{ {CLI} \"$@\"; }}\n" + "\n".join(lines)], cwd=tmp_path, check=True, timeout=60, capture_output=True)
    made = {path.name for path in (tmp_path / "certs").iterdir()}
    assert "ca.key" not in made
    first = part("StatefulSet", "millrace")["spec"]["template"]["spec"]["initContainers"][0]
    taken = re.search(r"install -m 600 -t \S+ (.*)", first["args"][0])[1].replace("$POD", "millrace-2")
    assert set(shlex.split(taken)) <= made


def test_an_update_waits_for_the_drives():
    """By what /health/ready takes: its words are those of the page about operations."""
    probe = part("StatefulSet", "millrace")["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["httpGet"]
    assert re.fullmatch(r"/health/ready\?drives=in&for=\d+", probe["path"]) and f"`{probe['path']}`" in PAGE


def test_what_is_scraped_is_there():
    """/metrics of each pod, and /metrics/pool of one, as the page says."""
    annotations = part("StatefulSet", "millrace")["spec"]["template"]["metadata"]["annotations"]
    text = re.search(r"  ```yaml\n(.*?)  ```", PAGE, re.DOTALL)[1]
    job, = yaml.safe_load(text)["scrape_configs"]
    name, port = job["static_configs"][0]["targets"][0].split(":")
    service = part("Service", name)
    assert [p["port"] for p in service["spec"]["ports"]] == [int(port)] and annotations["prometheus.io/port"] == port
    assert job["metrics_path"] == "/metrics/pool" and "millrace" in job["job_name"]  # which the alerts ask for


def test_pods_are_confined():
    for pod in pods():
        for container in containers(pod):
            if container["image"] == "millrace":
                security = container["securityContext"]
                assert security["allowPrivilegeEscalation"] is False and security["readOnlyRootFilesystem"] is True
                assert security["capabilities"] == {"drop": ["ALL"]}
                assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
                assert "limits" in container["resources"]
