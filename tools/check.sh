#!/usr/bin/env bash
# Builds and runs every test; `make check` and .ci/run both end here.
#
#   tools/check.sh [--no-deps] [STAGE ...]
#
# Stages, in the order they run when none is named:
#   layers        folders include only what they may; tests of the project's own scripts
#   unit          unit tests, release build              integration   pytest against the release daemon, stores of older builds too
#                 (unit tests keep their files in /dev/shm where there is room: nothing is flushed there; the other stages' are on disk)
#                 Where asan is among the stages, these two run what it leaves out, and a few more: a test runs once, in the build that sees most.
#   asan          unit and integration without what tests other programs or takes long, ASan and UBSan
#   tsan          unit tests and a smoke test, TSan      tidy          make tidy without clang-tidy, beside the others from the unit tests on
#   fuzz          each fuzz target with seeds that were changed at random, ASan and UBSan (libFuzzer: make fuzz, make check-long)
#   rdma          server and client on real verbs, in a QEMU guest with Soft-RoCE
#   sim           simulated histories (SIM_SEEDS, SIM_DRIVE_SEEDS, SIM_NODES_SEEDS), some twice, some under ASan
#   crash         SIGKILL histories, about a minute      power         power cuts on a file system that forgets, about a minute
#   cluster       three nodes in network namespaces that are killed, paused and cut off, two minutes
# The last line is the sum: 'N passed, N failed', with ', N skipped' where something was. Exit status 1 if anything failed or nothing ran.
# Two processes work at a time. What needs little of the machine at once goes on by itself, one after the other (`lane`): rdma's guest, the
# simulators, crash, power, cluster. Beside it are the stages of unit tests and integration; and, with what these leave, the other builds and tidy.
# BUILD_ROOT (default build) is where builds go; CRASH_SECONDS, POWER_POINTS, FUZZ_RUNS and
# MILLRACE_CLUSTER_SECONDS bound those four.
# CHECK_SECONDS (default: no limit) bounds the whole: what has not begun by then is skipped, and named as that, so that a machine that is
# slow today gives an answer about what matters most, in time. What is skipped of unit (release), integration (release), crash, rdma, cluster and
# the simulators counts as failed: without those nobody knows whether the store works.
set -uo pipefail
cd "$(dirname "$0")/.."

BUILD_ROOT=${BUILD_ROOT:-build}
CRASH_SECONDS=${CRASH_SECONDS:-45}
POWER_POINTS=${POWER_POINTS:-75}
FUZZ_RUNS=${FUZZ_RUNS:-30000}
MILLRACE_CLUSTER_SECONDS=${MILLRACE_CLUSTER_SECONDS:-120}
SIM_SEEDS=${SIM_SEEDS:-1000}
SIM_DRIVE_SEEDS=${SIM_DRIVE_SEEDS:-300}
SIM_NODES_SEEDS=${SIM_NODES_SEEDS:-700}
CHECK_SECONDS=${CHECK_SECONDS:-1000000}
JOBS=${JOBS:-$(nproc)}
# Of the unit tests, these take longest under TSan, and are about what disks give back, about formats or plans, more than about threads: make
# check-long runs them so.
TSAN_WITHOUT=${TSAN_WITHOUT-test_unreadable_store test_index_rot test_full test_reclaim_property test_lost test_version_list test_words \
test_rebalance test_index_absent test_hot_add test_verify test_reclaim_segment test_pages_store test_scrub test_fds test_lock_clock test_old_rows \
test_agree test_rebuild_lost test_heal test_catch_up test_down test_ops test_pool_plan test_place test_versions test_executor_ends test_model \
test_put_buffer test_link_faults test_replay test_tear test_wire test_upgrade test_reconcile test_log_end test_session_sweep test_force test_groups \
test_adopt test_grow test_lost_groups test_decided test_bucket_rules test_beside \
test_bucket_text test_added test_orphans test_bench_library test_people test_scrub_log test_scrub_segment test_rebuild test_index_names \
test_index_damage test_reclaim_log test_every_call test_initiator_sweep test_remote_store test_remote_faults test_entries}
# These take longest under ASan. check-long runs them so.
ASAN_UNITS_WITHOUT=${ASAN_UNITS_WITHOUT-test_unreadable_store test_rebalance test_reclaim_property test_lost test_words test_version_list \
test_old_rows test_full test_hot_add test_heal test_index_rot test_catch_up test_scrub test_agree test_fds test_pages_store test_pool_plan test_rebuild_lost \
test_down}
# Which of integration's tests run under ASan: not those that fill disks or take long for what they find. make check-long runs the former so.
ASAN_TESTS=${ASAN_TESTS-not slow and not long and not client and not single}
# The files whose tests all are `client`, and which take four seconds of each worker's processor to be looked into.
NO_TORCH=--ignore-glob=*/test_torch*.py
# Of those that it leaves out, and some that it runs, the release build's. What says the same in other ways is check-long's.
BESIDE_ASAN="not long and (slow or client or single or smoke)"
# Of the tests in the guest, which emulates a machine: most of them with one of the three ways to grant rights. check-long runs them with all.
RDMA_TESTS=${RDMA_TESTS---quick}
# Folders whose code has one thread, and knows of no other. make check-long runs their tests under TSan, too.
TSAN_FOLDERS_WITHOUT=${TSAN_FOLDERS_WITHOUT-ec s3 access}
ASAN_TARGETS="programs fake-rdma sim-bin fuzz-bin"
TSAN_TARGETS="programs"
# What is compiled otherwise where it is optimized: the release build's, too.
UNITS_OPTIMIZED="ec s3 loop"
PYTHON=build/venv/bin/python
WORK=$(mktemp -d "${TMPDIR:-/tmp}/millrace-check.XXXXXX")
COUNTS=$WORK/counts
STARTED=$SECONDS
busy() { awk '$1 == "cpu" {print int(($2 + $3 + $4 + $7 + $8) / 100)}' /proc/stat; } # processor time of the whole machine, seconds
STARTED_BUSY=$(busy)
beside= lane= # processes of what is built and looked at beside the others, and of the lane: empty before they were begun
in_memory= # folder of tests in memory
trap 'stop_all; rm -rf "$WORK" $in_memory' EXIT
stop_all() {
        case "$beside" in [0-9]*) kill -- "-$beside" 2>/dev/null ;; esac
        case "$lane" in [0-9]*) kill -- "-$lane" 2>/dev/null ;; esac
}
: >"$COUNTS"

# With the processor time that the whole machine has spent so far, and the room that is left: a disk that fills up fails tests in ways that look
# like anything else.
say() {
        printf '\n==== %s (at %d s, %d s of processors, %s free here, %s in %s)\n' "$*" $((SECONDS - STARTED)) $(($(busy) - STARTED_BUSY)) \
                "$(room .)" "$(room "$WORK")" "${TMPDIR:-/tmp}"
}
room() { df -h --output=avail "$1" | tail -1 | tr -d ' '; }
passed_one() { echo "1 0 0 $1" >>"$COUNTS"; }
failed_one() { echo "0 1 0 $1" >>"$COUNTS"; echo "FAILED: $1"; }
left() { echo $((CHECK_SECONDS - (SECONDS - STARTED))); }

# required NAME: whether a run without it says nothing, so that skipping it for want of time is a failure
required() {
        case "$1" in
        "unit (release)" | "unit (asan)" | "integration "* | "crash (release)" | "cluster (release)" | rdma | "sim "* | "simdrive "* | "simnodes "*) return 0 ;;
        *) return 1 ;;
        esac
}

# time_for SECONDS NAME: false, and NAME is counted as skipped, or as failed where it is required, when less than so much time is left.
time_for() {
        if [ "$(left)" -ge "$1" ]; then
                return 0
        fi
        if required "$2"; then
                failed_one "$2: no time left"
        else
                echo "0 0 1 $2" >>"$COUNTS"
                echo "SKIPPED: $2: no time left"
        fi
        return 1
}

# build BUILD TARGET...: its output only when it fails.
build() {
        local kind=$1 log
        shift
        await_build "$kind"
        log=$(mktemp "$WORK/make.XXXXXX")
        # the lane builds, too, though there should be nothing left for it
        if flock "$WORK/making" make -s -j"$JOBS" BUILD="$kind" O="$BUILD_ROOT/$kind" "$@" >"$log" 2>&1; then
                return 0
        fi
        tail -60 "$log"
        failed_one "build $kind: make $*"
        return 1
}

# TSan needs a fixed address layout on kernels with many bits of mmap randomness.
wrap_for() {
        if [ "$1" = tsan ] && setarch -R true 2>/dev/null; then
                echo "setarch -R"
        fi
}

# Sets $folder, where unit tests keep their files: memory, if that has room. On a disk most of their time is waiting for flushes, which have suites
# of their own (crash, power) and which integration's daemons wait for.
folder_for_units() {
        local room memory
        room=$(df --output=avail -k /dev/shm 2>/dev/null | tail -1)
        memory=$(awk '$1 == "MemAvailable:" {print $2}' /proc/meminfo)
        folder=${TMPDIR:-/tmp}
        if [ "${room:-0}" -ge 4000000 ] && [ "${memory:-0}" -ge 6000000 ]; then
                : "${in_memory:=$(mktemp -d /dev/shm/millrace-check.XXXXXX)}"
                # before Linux 6.6 it takes no direct I/O, and tests of that would have to be skipped
                if dd if=/dev/zero of="$in_memory/direct" bs=4096 count=1 oflag=direct 2>/dev/null; then
                        folder=$in_memory
                fi
        fi
}

# units_of BUILD: the sources of the unit tests that are run in it.
units_of() {
        local without=" " folders=" " source name folder
        case "$1" in
        tsan) without=" $TSAN_WITHOUT " folders=" $TSAN_FOLDERS_WITHOUT " ;;
        asan) without=" $ASAN_UNITS_WITHOUT " ;;
        esac
        for source in tests/unit/*/test_*.c; do
                name=$(basename "$source" .c) folder=$(basename "$(dirname "$source")")
                if [ "$1" = release ] && $with_asan; then # what ASan's build does not run, and what is compiled otherwise there
                        case " $ASAN_UNITS_WITHOUT $UNITS_OPTIMIZED " in *" $name "* | *" $folder "*) ;; *) continue ;; esac
                fi
                case "$without" in *" $name "*) continue ;; esac
                case "$folders" in *" $folder "*) continue ;; esac
                echo "$source"
        done
}
# unit_programs BUILD: what make builds of them.
unit_programs() {
        units_of "$1" | sed "s|^tests/|$BUILD_ROOT/$1/|; s|\.c$||"
}

unit() {
        local kind=$1 folder late= units
        time_for 180 "unit ($kind)" || return
        units=$(unit_programs "$kind")
        build "$kind" fake-rdma $units || return
        beside_begin
        folder_for_units
        if required "unit ($kind)"; then late=--late-fails; fi
        # most of them wait for each other's threads and for limits
        TMPDIR=$folder TSAN_OPTIONS=suppressions=$PWD/tests/support/tsan.supp python3 tools/unit.py --jobs $((JOBS * 4)) --timeout 600 --seconds "$(left)" $late --counts "$COUNTS" --name "unit ($kind)" \
                --wrap "$(wrap_for "$kind")" $units
}

# run_pytest SECONDS ARG...: one run of pytest on $kind, its report in $xml; a test that has not begun after so long is skipped.
run_pytest() {
        local seconds=$1
        shift
        rm -f "$xml"
        MILLRACE_BUILD="$BUILD_ROOT/$kind" MILLRACE_WRAP="$(wrap_for "$kind")" MILLRACE_UNTIL=$(($(date +%s) + seconds)) \
                timeout -k 10 $((seconds + 600)) \
                "$PYTHON" -m pytest -q --tb=short -o cache_dir="$WORK/pytest-$name-$kind" --junitxml="$xml" "$@"
}

# pytests BUILD NAME WORKERS ARG...: pytest against the programs of that build, counted from its report, so many tests at a time. What failed runs
# once more, alone: what passes then is not counted as failed, but it is named.
pytests() {
        local kind=$1 name=$2 workers=$3 xml=$WORK/junit-$2-$1.xml rc first again passed failed skipped passed2 late=
        local seed=${SEED:-$((RANDOM << 15 | RANDOM))}
        shift 3
        time_for 60 "$name ($kind)" || return
        if [ "$kind" != none ]; then
                build "$kind" programs || return
        fi
        if required "$name ($kind)"; then late=--late-fails; fi
        SEED=$seed run_pytest "$(left)" -n "$workers" --dist worksteal "$@"
        rc=$?
        if ! first=$("$PYTHON" tools/junit_counts.py $late "$xml"); then
                failed_one "$name ($kind): pytest left no report, exit status $rc"
                return
        fi
        read -r passed failed skipped <<<"$first"
        "$PYTHON" tools/junit_counts.py --costs "$xml"
        if [ $rc -eq 1 ]; then
                run_pytest 600 -rA --last-failed "$@"
                rc=$?
                if again=$("$PYTHON" tools/junit_counts.py "$xml"); then
                        read -r passed2 _ <<<"$again"
                        if [ "$passed2" -gt 0 ]; then
                                echo "FLAKY $name ($kind): $passed2 failed once with SEED=$seed, passed when run again"
                        fi
                        passed=$((passed + passed2)) failed=$((failed - passed2))
                fi
        fi
        echo "$passed $failed $skipped $name ($kind)" >>"$COUNTS"
        if [ $rc -gt 1 ]; then
                failed_one "$name ($kind): pytest exit status $rc"
        fi
}

stage_layers() {
        if python3 tools/layers.py; then passed_one layers; else failed_one layers; fi
        pytests none scripts 4 tests/tools # they wait for limits
}
stage_unit() { unit release; }
# The Python package is the release build's whatever the daemon is. Its tests need PyTorch.
python_package() {
        await_build torch
        if $deps && ! tools/deps.sh --torch; then
                failed_one "integration: deps"
                return 1
        fi
        build release python
}
stage_integration() {
        local tests=${INTEGRATION_TESTS-not long}
        if $with_asan; then tests=$BESIDE_ASAN; fi
        python_package || return
        build release programs bench-bin fake-rdma || return
        lane_begin
        pytests release integration $((JOBS * 3)) tests/integration tests/formats -m "$tests" # they wait for flushes, limits and connections
}
# The lane's stages say what they say when they are asked for.
stage_rdma() { lane_stage rdma; }
stage_sim() { lane_stage sim; }
stage_crash() { lane_stage crash; }
stage_power() { lane_stage power; }
stage_cluster() { lane_stage cluster; }
lane_begin() {
        [ -z "$lane" ] || return
        lane=nothing
        if $with_rdma && $deps && ! tools/deps.sh --qemu; then # while nothing else asks the packages
                failed_one "rdma: deps"
                with_rdma=false
        fi
        if $with_cluster && $deps && ! tools/deps.sh --cluster; then
                failed_one "cluster: deps"
                with_cluster=false
        fi
        set -m # a group of its own, so that it can be ended as a whole
        for lane_of in $with_rdma:rdma $with_sim:sim $with_crash:crash $with_power:power $with_cluster:cluster; do
                case $lane_of in true:*) "lane_${lane_of#*:}" >"$WORK/lane.${lane_of#*:}" 2>&1; touch "$WORK/lane.${lane_of#*:}.over" ;; esac
        done &
        lane=$!
        set +m
}
lane_stage() {
        lane_begin
        while [ ! -e "$WORK/lane.$1.over" ] && kill -0 "$lane" 2>/dev/null; do
                sleep 1
        done
        [ -e "$WORK/lane.$1.over" ] || failed_one "$1 did not come to its end"
        cat "$WORK/lane.$1"
}
lane_crash() { CRASH_SECONDS=$CRASH_SECONDS pytests release crash 0 tests/crash; }
lane_power() {
        build release power-bin || return
        POWER_POINTS=$POWER_POINTS pytests release power 0 tests/power
}
# A history that no store could have is none that was right the second time.
lane_cluster() {
        local wrong
        rm -rf build/cluster
        MILLRACE_CLUSTER_SECONDS=$MILLRACE_CLUSTER_SECONDS pytests release cluster 0 tests/cluster
        for wrong in build/cluster/*/wrong.txt; do
                [ -e "$wrong" ] || continue
                cat "$wrong"
                failed_one "cluster: ${wrong%/*}"
        done
}
# Real verbs in a guest: what can't boot, or does not come to its end, has failed. The guest waits much and keeps one core busy at most.
lane_rdma() {
        local xml=$WORK/rdma.xml log=$WORK/rdma.log rc counts failed
        time_for 600 rdma || return
        build release programs wheel rdma-bin || return
        MILLRACE_BUILD=$BUILD_ROOT/release /usr/bin/python3 tests/rdma/run.py --seconds 1000 --junit "$xml" $RDMA_TESTS >"$log" 2>&1
        rc=$?
        if ! counts=$(/usr/bin/python3 tools/junit_counts.py "$xml"); then
                tail -100 "$log"
                failed_one "rdma: the guest left no report"
                return
        fi
        echo "$counts rdma" >>"$COUNTS"
        if [ $rc -ne 0 ]; then
                grep -v -e ' PASSED ' "$log" | tail -200
                read -r _ failed _ <<<"$counts"
                [ "$failed" -gt 0 ] || failed_one "rdma: exit status $rc"
        fi
}
stage_asan() {
        unit asan
        python_package || return
        build asan programs fake-rdma || return
        pytests asan integration $((JOBS * 2)) tests/integration "$NO_TORCH" -m "$ASAN_TESTS"
}
stage_tsan() {
        unit tsan
        python_package || return
        pytests tsan smoke 0 tests/integration "$NO_TORCH" -m "smoke"
}
# What needs nothing but processors begins beside the unit tests, which mostly wait, and takes what everything else leaves: PyTorch, the
# builds in the order in which they are wanted, then the analysers.
beside_begin() {
        local builds="" kind commands=""
        [ -z "$beside" ] || return
        beside=skipped
        if $deps && { $with_integration || $with_asan || $with_tsan; }; then
                touch "$WORK/builds.torch"
                commands+="tools/deps.sh --torch >/dev/null 2>&1; touch $WORK/built.torch; "
        fi
        if $with_asan; then builds+="asan:$(unit_programs asan | tr '\n' ' ') $ASAN_TARGETS;"; fi
        if $with_tsan; then builds+="tsan:$(unit_programs tsan | tr '\n' ' ') $TSAN_TARGETS;"; fi
        while IFS=: read -r -d ';' kind targets; do
                touch "$WORK/builds.$kind"
                commands+="make -s -j$JOBS BUILD=$kind O=$BUILD_ROOT/$kind $targets >/dev/null 2>&1; touch $WORK/built.$kind; "
        done <<<"$builds"
        if $with_tidy && time_for 600 tidy; then
                touch "$WORK/tidy.log"
                commands+="python3 tools/tidy.py --quick >$WORK/tidy.log 2>&1; echo \$? >$WORK/tidy.rc"
        fi
        if [ -n "$commands" ]; then
                setsid nice -n 19 bash -c "$commands" &
                beside=$!
        fi
}
# await_build BUILD: waits until what is built beside is there, so that two makes are never in one folder. It may have failed: the caller makes it again.
await_build() {
        while [ -e "$WORK/builds.$1" ] && [ ! -e "$WORK/built.$1" ] && kill -0 "$beside" 2>/dev/null; do
                sleep 1
        done
}
stage_tidy() {
        beside_begin
        [ -e "$WORK/tidy.log" ] || return
        wait "$beside"
        cat "$WORK/tidy.log"
        if [ "$(cat "$WORK/tidy.rc")" = 0 ]; then passed_one tidy; else failed_one tidy; fi
}
stage_fuzz() {
        local out=$WORK/fuzz.out
        time_for 60 fuzz || return
        await_build asan
        BUILD_ROOT=$BUILD_ROOT JOBS=$JOBS tools/fuzz.sh --random "$FUZZ_RUNS" | tee "$out"
        awk '/^fuzz ok /{p++} /^fuzz FAIL /{f++} END {print p+0, f+0, 0, "fuzz"}' "$out" >>"$COUNTS"
}

# histories PROGRAM BUILD LAST ARG...: seeds 1 to LAST, or as many as there is time for, are one test; each that fails counts.
histories() {
        local program=$1 kind=$2 last=$3 out=$WORK/sim.out
        shift 3
        time_for 60 "$program ($kind) $*" || return
        build "$kind" sim-bin || return
        timeout -k 10 $(($(left) + 300)) "$BUILD_ROOT/$kind/$program" --seeds "1-$last" --seconds "$(left)" "$@" | tee "$out"
        if ! grep -q "^$program: " "$out"; then
                failed_one "$program ($kind) did not come to an end"
                return
        fi
        awk -v head="$program:" -v name="$program ($kind)${*:+ $*}" -v wanted="$last" '
                $1 == head {print ($4 == 0), $4, 0, name
                            if ($2 < wanted) print 0, 1, 0, name ": " $2 " of " wanted " histories, no time left"}' "$out" >>"$COUNTS"
}
lane_sim() {
        build release sim-bin || return
        histories sim release "$SIM_SEEDS"
        histories sim release $((SIM_SEEDS / 20)) --twice
        histories sim asan $((SIM_SEEDS / 10))
        histories simdrive release "$SIM_DRIVE_SEEDS"
        histories simdrive release $((SIM_DRIVE_SEEDS / 20)) --twice
        histories simdrive asan $((SIM_DRIVE_SEEDS / 10))
        histories simnodes release "$SIM_NODES_SEEDS"
        histories simnodes release $((SIM_NODES_SEEDS / 20)) --twice
        histories simnodes asan $((SIM_NODES_SEEDS / 10))
}

deps=true
stages=()
for arg in "$@"; do
        case "$arg" in
        --no-deps) deps=false ;;
        layers | unit | sim | integration | crash | power | cluster | rdma | asan | tsan | tidy | fuzz) stages+=("$arg") ;;
        *) echo "check.sh: unknown stage '$arg'" >&2; exit 2 ;;
        esac
done
[ ${#stages[@]} -gt 0 ] || stages=(layers unit integration asan tsan tidy fuzz rdma sim crash power cluster)

if $deps; then
        say deps
        tools/deps.sh || { echo "deps failed"; exit 1; }
fi
with() { case " ${stages[*]} " in *" $1 "*) echo true ;; *) echo false ;; esac; }
with_rdma=$(with rdma) with_integration=$(with integration) with_tidy=$(with tidy) with_asan=$(with asan) with_tsan=$(with tsan) with_sim=$(with sim) with_crash=$(with crash) with_power=$(with power) with_cluster=$(with cluster)
for stage in "${stages[@]}"; do
        say "$stage"
        "stage_$stage"
done

say summary
awk '{name = $4; for (i = 5; i <= NF; i++) name = name " " $i; printf "%-28s %6d passed %4d failed %4d skipped\n", name, $1, $2, $3}' "$COUNTS"
awk '{p += $1; f += $2; s += $3}
     END {if (s > 0) printf "%d passed, %d failed, %d skipped\n", p, f, s; else printf "%d passed, %d failed\n", p, f
          exit (f > 0 || p == 0)}' "$COUNTS"
