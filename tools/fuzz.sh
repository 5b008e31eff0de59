#!/usr/bin/env bash
# Builds each fuzz target of tests/fuzz with clang's libFuzzer, ASan and UBSan, and runs it for some seconds from its seed corpus
# (tests/fuzz/corpus/NAME, where there is one), what tests/fuzz/make_corpus.py takes from the stores of tests/formats, and what
# tests/fuzz/make_seeds.c writes by the project's own writers.
#
#   tools/fuzz.sh [SECONDS [TARGET ...]]                10 s each, all targets
#   tools/fuzz.sh --random RUNS [TARGET ...]            RUNS seeds each that were changed at random, in BUILD_ROOT/asan: gcc's build that the unit
#                                                       tests run in, without libFuzzer, so that nothing is compiled twice (tests/fuzz/random_main.c);
#                                                       of targets that do much for each, a part of them
# Prints 'fuzz ok NAME' or 'fuzz FAIL NAME' a target; exit status 1 if one failed. What it found stays in BUILD_ROOT/fuzz/found.
set -uo pipefail
cd "$(dirname "$0")/.."
random=
if [ "${1:-}" = --random ]; then
        random=${2:-10000}
        shift $(($# > 1 ? 2 : 1))
else
        seconds=${1:-10}
        shift $(($# > 0 ? 1 : 0))
fi
out=${BUILD_ROOT:-build}/fuzz
sanitize=address,undefined
if [ $# -eq 0 ]; then
        set -- $(ls tests/fuzz/fuzz_*.c 2>/dev/null | sed 's|.*/fuzz_||; s|\.c$||')
fi
if [ $# -eq 0 ]; then
        echo "no fuzz targets yet"
        exit 0
fi

# seeds_of NAME: files and folders
seeds_of() {
        ls -d "tests/fuzz/corpus/$1" "$out/stores/$1" 2>/dev/null
}
# make_stores PROGRAM: of make_seeds.c
make_stores() {
        rm -rf "$out/stores"
        mkdir -p "$out/found"
        python3 tests/fuzz/make_corpus.py "$out/stores" && "$1" "$out/stores"
}
# Of RUNS how many a target does: none is to take more than some seconds of a processor for 30,000.
runs_of() {
        case $1 in
        net_link | remote_wire | served) echo $(($random / 3)) ;;
        *) echo "$random" ;;
        esac
}

random_inputs() {
        local asan=${BUILD_ROOT:-build}/asan seed=${SEED:-$((RANDOM << 15 | RANDOM))} failed=0 name
        if ! make -s -j"${JOBS:-$(nproc)}" BUILD=asan O="$asan" fuzz-bin; then
                echo "fuzz FAIL build"
                return 1
        fi
        make_stores "$asan/fuzz/make_seeds" || return 1
        for name in "$@"; do
                if MILLRACE_FUZZ_INPUT=$out/found/$name-input timeout -k 5 300 \
                        "$asan/fuzz/fuzz_$name" "$(runs_of "$name")" "$seed" $(seeds_of "$name") >"$out/found/$name.log" 2>&1; then
                        echo "fuzz ok $name ($(tail -1 "$out/found/$name.log"))"
                else
                        tail -40 "$out/found/$name.log"
                        echo "fuzz FAIL $name (SEED=$seed; the input: $out/found/$name-input behind 8 bytes)"
                        failed=1
                fi
        done
        return $failed
}
if [ -n "$random" ]; then
        random_inputs "$@"
        exit
fi

show() { make -s BUILD=fuzz O="$out" "print-$1"; }
# What reads bytes from outside; of the gateway and the server that is what their targets name.
libs=$(show LIBS | tr ' ' '\n' | grep -E '/lib(server|gateway|cluster|remote|access|engine|s3|ec|rdma|net|loop)\.a$' | tr '\n' ' ')
ldlibs=$(show LIBRARIES)
mkdir -p "$out/fuzz" "$out/found"
objects=$(for name in "$@"; do echo "$out/obj/tests/fuzz/fuzz_$name.o"; done)
seeds_object=$out/obj/tests/fuzz/make_seeds.o
if ! make -s -k -j"${JOBS:-$(nproc)}" BUILD=fuzz O="$out" CC=clang-14 \
        CFLAGS_fuzz="-O1 -g1 -fno-omit-frame-pointer -Wno-error -fsanitize=fuzzer-no-link,$sanitize -fno-sanitize-recover=all" \
        $libs $objects $seeds_object; then
        echo "fuzz FAIL build"
        exit 1
fi

# link PROGRAM OBJECT SANITIZERS
link() { clang-14 -pthread -fsanitize="$3" -o "$1" "$2" -Wl,--start-group $libs -Wl,--end-group $ldlibs; }
link "$out/fuzz/make_seeds" "$seeds_object" "$sanitize" && make_stores "$out/fuzz/make_seeds" || exit 1
failed=0
for name in "$@"; do
        program=$out/fuzz/fuzz_$name
        corpus=$out/corpus/$name
        mkdir -p "$corpus"
        seeds=$(seeds_of "$name")
        if link "$program" "$out/obj/tests/fuzz/fuzz_$name.o" "fuzzer,$sanitize" &&
                "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 \
                        -artifact_prefix="$out/found/$name-" "$corpus" $seeds 2>"$out/found/$name.log"; then
                echo "fuzz ok $name ($(sed -n 's/^stat::number_of_executed_units: *//p' "$out/found/$name.log") runs)"
        else
                tail -40 "$out/found/$name.log"
                echo "fuzz FAIL $name"
                failed=1
        fi
done
exit $failed
