#!/usr/bin/env bash
# make demo-cluster: installs what is needed, builds, and runs demo/cluster.py. Arguments go to it.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/deps.sh --build --test --cluster
echo "building"
make -s -j"$(nproc)" BUILD=release programs
exec build/venv/bin/python demo/cluster.py "$@"
