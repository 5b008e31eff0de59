#!/usr/bin/env bash
# make cov: line and branch coverage of unit and integration tests, as a table by folder and as build/cov/report/index.html. Tests that fail
# are named and counted nowhere: what they ran is covered all the same. COV_SELECT chooses integration tests (pytest -m).
set -euo pipefail
cd "$(dirname "$0")/.."
tools/deps.sh --build --test --tools --torch
out=${BUILD_ROOT:-build}/cov
make -s -j"$(nproc)" BUILD=cov O="$out" unit-bin programs
find "$out" -name '*.gcda' -delete
failed=""
python3 tools/unit.py --timeout 300 "$out/unit" || failed+=" unit"
MILLRACE_BUILD=$out build/venv/bin/python -m pytest -q -p no:cacheprovider tests/integration -m "${COV_SELECT:-not slow}" || failed+=" integration"
mkdir -p "$out/report"
gcovr --root . --object-directory "$out/obj" --exclude 'tests/.*' --exclude 'bench/.*' --html-details "$out/report/index.html" --csv "$out/report/files.csv"
python3 tools/cov_table.py "$out/report/files.csv"
echo "file by file: $out/report/index.html"
if [ -n "$failed" ]; then
        echo "tests failed:$failed"
        exit 1
fi
