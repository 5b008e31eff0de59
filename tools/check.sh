#!/usr/bin/env bash
# Builds and runs every test; `make check` and .ci/run both end here.
#
#   tools/check.sh [--no-deps] [STAGE ...]
#
# Stages, in the order they run when none is named:
#   layers        houses include only what they may; tests of the project's own scripts
#   unit          unit tests, release build              integration   pytest against the release daemon
#   crash         SIGKILL histories, about a minute      power         power cuts on a file system that forgets, about a minute
#   asan          unit and a fast part of integration, ASan and UBSan
#   tsan          unit tests and a smoke test, TSan       tidy          cppcheck and clang-tidy
#   fuzz          each fuzz target for a few seconds  sim           simulated histories (SIM_SEEDS), some under ASan, some twice
# A stage that has nothing to run yet says so. The last line is the sum: 'N passed, N failed'. Exit status 1 if anything failed
# or nothing ran. BUILD_ROOT (default build) is where builds go; CRASH_SECONDS, POWER_POINTS and FUZZ_SECONDS bound those three, SIM_SEEDS
# and SIM_DRIVE_SEEDS sim.
set -uo pipefail
cd "$(dirname "$0")/.."

BUILD_ROOT=${BUILD_ROOT:-build}
CRASH_SECONDS=${CRASH_SECONDS:-60}
POWER_POINTS=${POWER_POINTS:-105}
FUZZ_SECONDS=${FUZZ_SECONDS:-5}
SIM_SEEDS=${SIM_SEEDS:-2000}
SIM_DRIVE_SEEDS=${SIM_DRIVE_SEEDS:-600}
JOBS=${JOBS:-$(nproc)}
PYTHON=build/venv/bin/python
WORK=$(mktemp -d "${TMPDIR:-/tmp}/millrace-check.XXXXXX")
COUNTS=$WORK/counts
STARTED=$SECONDS
trap 'rm -rf "$WORK"' EXIT
: >"$COUNTS"

say() { printf '\n==== %s (at %d s)\n' "$*" $((SECONDS - STARTED)); }
passed_one() { echo "1 0 0 $1" >>"$COUNTS"; }
failed_one() { echo "0 1 0 $1" >>"$COUNTS"; echo "FAILED: $1"; }

# build BUILD TARGET...: its output only when it fails.
build() {
        local kind=$1
        shift
        if make -s -j"$JOBS" BUILD="$kind" O="$BUILD_ROOT/$kind" "$@" >"$WORK/make.log" 2>&1; then
                return 0
        fi
        tail -60 "$WORK/make.log"
        failed_one "build $kind: make $*"
        return 1
}

# TSan needs a fixed address layout on kernels with many bits of mmap randomness.
wrap_for() {
        if [ "$1" = tsan ] && setarch -R true 2>/dev/null; then
                echo "setarch -R"
        fi
}

unit() {
        local kind=$1
        if ! ls tests/unit/*/test_*.c >/dev/null 2>&1; then
                echo "no unit tests yet"
                return
        fi
        build "$kind" unit-bin || return
        python3 tools/unit.py --jobs "$JOBS" --timeout "${2:-180}" --counts "$COUNTS" --name "unit ($kind)" --wrap "$(wrap_for "$kind")" \
                "$BUILD_ROOT/$kind/unit"
}

# run_pytest SECONDS ARG...: one run of pytest on $kind, its report in $xml.
run_pytest() {
        local seconds=$1
        shift
        rm -f "$xml"
        MILLRACE_BUILD="$BUILD_ROOT/$kind" MILLRACE_WRAP="$(wrap_for "$kind")" timeout -k 10 "$seconds" \
                "$PYTHON" -m pytest -q --tb=short -o cache_dir="$WORK/pytest-$name-$kind" --junitxml="$xml" "$@"
}

# pytests BUILD NAME ARG...: pytest against the programs of that build, counted from its report. What failed runs once more: what passes then is
# not counted as failed, but it is named.
pytests() {
        local kind=$1 name=$2 xml=$WORK/junit.xml rc first again passed failed skipped passed2 failed2 skipped2
        shift 2
        if [ "$kind" != none ]; then
                build "$kind" programs || return
        fi
        run_pytest 1800 "$@"
        rc=$?
        if ! first=$("$PYTHON" tools/junit_counts.py "$xml"); then
                failed_one "$name ($kind): pytest left no report, exit status $rc"
                return
        fi
        read -r passed failed skipped <<<"$first"
        if [ $rc -eq 1 ]; then
                run_pytest 600 -rA --last-failed "$@"
                rc=$?
                if again=$("$PYTHON" tools/junit_counts.py "$xml"); then
                        read -r passed2 failed2 skipped2 <<<"$again"
                        if [ "$passed2" -gt 0 ]; then
                                echo "FLAKY $name ($kind): $passed2 failed once, passed when run again"
                        fi
                        passed=$((passed + passed2)) failed=$failed2 skipped=$((skipped + skipped2))
                fi
        fi
        echo "$passed $failed $skipped $name ($kind)" >>"$COUNTS"
        if [ $rc -gt 1 ]; then
                failed_one "$name ($kind): pytest exit status $rc"
        fi
}

stage_layers() {
        if python3 tools/layers.py; then passed_one layers; else failed_one layers; fi
        pytests none "scripts" tests/tools
}
stage_unit() { unit release; }
stage_integration() { pytests release integration tests/integration; }
stage_crash() {
        if [ -d tests/crash ]; then
                CRASH_SECONDS=$CRASH_SECONDS pytests release crash tests/crash
        fi
}
stage_power() {
        build release power-bin || return
        POWER_POINTS=$POWER_POINTS pytests release power tests/power
}
stage_asan() {
        unit asan 300
        pytests asan integration tests/integration -m "not slow"
}
stage_tsan() {
        unit tsan 300
        pytests tsan smoke tests/integration -m "smoke"
}
stage_tidy() {
        if python3 tools/tidy.py; then passed_one tidy; else failed_one tidy; fi
}
stage_fuzz() {
        local out=$WORK/fuzz.out
        BUILD_ROOT=$BUILD_ROOT JOBS=$JOBS tools/fuzz.sh "$FUZZ_SECONDS" | tee "$out"
        awk '/^fuzz ok /{p++} /^fuzz FAIL /{f++} END {print p+0, f+0, 0, "fuzz"}' "$out" >>"$COUNTS"
}

# histories PROGRAM BUILD LAST ARG...: seeds 1 to LAST are one test; each that fails counts.
histories() {
        local program=$1 kind=$2 last=$3 out=$WORK/sim.out
        shift 3
        build "$kind" sim-bin || return
        timeout -k 10 900 "$BUILD_ROOT/$kind/$program" --seeds "1-$last" "$@" | tee "$out"
        if ! grep -q "^$program: " "$out"; then
                failed_one "$program ($kind) did not come to an end"
                return
        fi
        awk -v head="$program:" -v name="$program ($kind) $*" '$1 == head {print ($4 == 0), $4, 0, name}' "$out" >>"$COUNTS"
}
stage_sim() {
        histories sim release "$SIM_SEEDS"
        histories sim release $((SIM_SEEDS / 20)) --twice
        histories sim asan $((SIM_SEEDS / 4))
        histories simdrive release "$SIM_DRIVE_SEEDS"
        histories simdrive release $((SIM_DRIVE_SEEDS / 20)) --twice
        histories simdrive asan $((SIM_DRIVE_SEEDS / 10))
}

deps=true
stages=()
for arg in "$@"; do
        case "$arg" in
        --no-deps) deps=false ;;
        layers | unit | sim | integration | crash | power | asan | tsan | tidy | fuzz) stages+=("$arg") ;;
        *) echo "check.sh: unknown stage '$arg'" >&2; exit 2 ;;
        esac
done
[ ${#stages[@]} -gt 0 ] || stages=(layers unit sim integration crash power asan tsan tidy fuzz)

if $deps; then
        say deps
        tools/deps.sh || { echo "deps failed"; exit 1; }
fi
for stage in "${stages[@]}"; do
        say "$stage"
        "stage_$stage"
done

say summary
awk '{name = $4; for (i = 5; i <= NF; i++) name = name " " $i; printf "%-28s %6d passed %4d failed %4d skipped\n", name, $1, $2, $3}' "$COUNTS"
awk '{p += $1; f += $2; s += $3}
     END {if (s > 0) printf "%d passed, %d failed, %d skipped\n", p, f, s; else printf "%d passed, %d failed\n", p, f
          exit (f > 0 || p == 0)}' "$COUNTS"
