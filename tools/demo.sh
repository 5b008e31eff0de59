#!/usr/bin/env bash
# make demo: installs what is needed, builds, and runs demo/demo.py. Arguments go to it.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/deps.sh --build --test
echo "building"
make -s -j"$(nproc)" BUILD=release programs
exec build/venv/bin/python demo/demo.py "$@"
