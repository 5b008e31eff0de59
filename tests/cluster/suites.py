"""The S3 suites of tests/integration at each node of a cluster of three nodes and two pools, one node after the other.

    python -m tests.cluster.suites [ARGUMENT OF PYTEST ...]

Exit status 1 where a test fails at a node.
"""
import os
import re
import subprocess
import sys

from tests.support.cluster import Cluster
from tests.support.daemon import ROOT

POOLS = 2
# Those that make clusters of their own, ask no store at all, or need PyTorch, say nothing of a node.
SUITES = ["tests/integration", "--ignore-glob=*/test_cluster*", "--ignore-glob=*/test_torch*", "--ignore-glob=*/test_policy_judge.py"]


def run_at(cluster, node, arguments):
    """What pytest's last line says, and whether all passed."""
    env = dict(os.environ, MILLRACE_TEST_ENDPOINT=f"http://{cluster.access_key}:{cluster.secret_key}@127.0.0.1:{node.s3}")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *(arguments or SUITES)]
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as suites:
        last = ""
        for line in suites.stdout:
            print(line, end="", flush=True)
            last = line if re.search(r"\d (passed|failed|error)", line) else last
    return last.strip(" =\n"), suites.returncode == 0


def main():
    with Cluster(drives=2, pools=POOLS) as cluster:
        cluster.start()
        cluster.wait_serving()
        found = {node.number: run_at(cluster, node, sys.argv[1:]) for node in cluster.nodes.values()}
    for number, (said, _) in found.items():
        print(f"node {number}: {said}")
    return 0 if all(passed for _, passed in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
