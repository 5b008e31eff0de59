#!/usr/bin/env bash
# make run: installs what is needed, builds, and serves in the foreground until Ctrl-C. Arguments go to demo/run.py.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/deps.sh --build --test
echo "building"
make -s -j"$(nproc)" BUILD=release programs
exec build/venv/bin/python demo/run.py "$@"
