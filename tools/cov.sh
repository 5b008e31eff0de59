#!/usr/bin/env bash
# make cov: line coverage of unit and integration tests, as a table and as build/cov/report/index.html.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/deps.sh
out=${BUILD_ROOT:-build}/cov
make -s -j"$(nproc)" BUILD=cov O="$out" unit-bin programs
find "$out" -name '*.gcda' -delete
python3 tools/unit.py --timeout 300 "$out/unit" || true
MILLRACE_BUILD=$out build/venv/bin/python -m pytest -q -p no:cacheprovider tests/integration -m "not slow" || true
mkdir -p "$out/report"
gcovr --root . --object-directory "$out/obj" --exclude 'tests/.*' --exclude 'bench/.*' --html-details "$out/report/index.html" --print-summary
